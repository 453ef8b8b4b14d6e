"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

__all__ = ["naming", "remove_parts", "sync_folder", "whole_file"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PART = r"\.[0-9a-f]{16}\.part"  # what follows the name of a file while it is written


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing, which replaces the file at `path` when the block ends.

    The content goes to a temporary file in the same folder, is flushed to disk and then renamed. A reader, or a
    process that is killed, sees either the complete new file or the old one. If the block raises, nothing
    remains. Symbolic links are followed. Folders, pipes and devices are refused, since a file would replace them.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "greeting")
    ...     with whole_file(path) as file:
    ...         _ = file.write(b"hello")
    ...         path.exists()
    ...     path.read_bytes()
    False
    b'hello'
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileExistsError(errno.EEXIST, "exists and is not a regular file", os.fspath(path))
    folder, name = os.path.split(target)
    # readers of a folder of tables skip names that begin with a dot
    beside = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as file, naming(path):
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and error.filename == beside:
            error.filename = os.fspath(path)
            del error.filename2
        raise
    sync_folder(folder)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add this file's name to errors of a full disk, which name no file."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL and error.filename is None:
            error.filename = os.fspath(path)
        raise


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Flush the entries of a folder to disk, where the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of processes that were killed while they wrote this file."""
    folder, name = os.path.split(os.path.realpath(path))
    for other in os.listdir(folder):
        if re.fullmatch(re.escape(f".{name}") + _PART, other):
            with suppress(OSError):
                os.unlink(os.path.join(folder, other))
