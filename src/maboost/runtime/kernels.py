"""Compilation of kernels, and their cache on disk."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile

__all__ = ["kernel"]

_DIGEST = 32


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function of arrays on its first call, and cache the compiled form on disk.

    The compiled function releases the interpreter's lock. It has no wrapper for callers in C, which saves an
    eighth of the compilation time. A damaged cache file is compiled again, with a warning. If no folder is
    writable, every process compiles the function again: the cache holds code that will be run, so it never lies
    in a folder that other users may write to.
    """
    if function is None:
        return partial(kernel, **options)
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        warnings.warn(
            "neither the folder of the package nor the cache of the user can be written to: every process "
            "will compile the kernels anew, which takes some ten seconds; set NUMBA_CACHE_DIR to a folder of "
            "your own to keep them",
            UserWarning,
            stacklevel=1,  # this line, so that one warning is shown, not one a kernel
        )
        return njit(**options)(function)
    cache = getattr(compiled, "_cache", None)  # none under NUMBA_DISABLE_JIT
    if cache is not None:
        cache._cache_file = _CheckedFiles.of(cache._cache_file)
    return compiled


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]  # numba is untyped
    """numba's cache files of one kernel, an index and the compiled forms, each with a digest at its end.

    numba unpickles and runs the content. Bytes that a crash or a failing disk changed could raise any
    error, or run as machine code. The digest does not protect against a user who may write to the folder.
    """

    @classmethod
    def of(cls, files: IndexDataCacheFile) -> _CheckedFiles:
        """Return the same files under separate names, since numba's own files have no digest."""
        name = files._index_name.removesuffix(".nbi")
        return cls(files._cache_path, f"{name}.checked", files._source_stamp)

    def _load_index(self) -> Any:
        return super()._load_index() if self._is_sound(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        if not self._is_sound(path):
            raise OSError(f"{path} is damaged")  # numba treats this like a missing file
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(path) as file:
            file.write(content.getvalue() + _digest(content.getvalue()))

    def _is_sound(self, path: str) -> bool:
        """Return whether a file is undamaged or missing; remove a damaged one."""
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return True
        if _digest(content[:-_DIGEST]) == content[-_DIGEST:]:
            return True
        with suppress(OSError):
            os.unlink(path)
        warnings.warn(
            f"the compiled kernel in {path} is damaged: it is compiled again. If this happens often, remove "
            "the folder, or set NUMBA_CACHE_DIR to another one",
            UserWarning,
            stacklevel=1,
        )
        return False


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()
