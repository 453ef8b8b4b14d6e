"""The container of a model file: named arrays and one JSON document, in the safetensors format."""

from __future__ import annotations

import json
import math
import os
import stat
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes

__all__ = ["KEY", "MAX_BYTES", "MAX_DEPTH", "MAX_HEADER", "ModelFormatError"]

Arrays = dict[str, NDArray[Any]]

KEY = "maboost"  # the key of the document in the container's metadata
MAX_BYTES = 1 << 30
MAX_HEADER = 1 << 24
MAX_DEPTH = 16
MAX_ARRAYS = 1 << 12  # an array needs far more memory than its bytes
_SPARE = 1 << 25  # bytes that reading the header may use beyond three times the file
_VALUE = 150  # bytes that a JSON value uses at most, besides its text
_COPIES, _WIDE_COPIES = (
    5,
    12,
)  # bytes per character of the header while it is read: as bytes and text, or with wide characters
_LENGTH = 8  # bytes of the length of the header
_DTYPES = {
    "BOOL": "|u1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


class ModelFormatError(ValueError):
    """A file is not a model file, is damaged, or cannot be read by this version.

    >>> import tempfile, pathlib
    >>> from maboost import ModelFormatError, load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.maboost"
    ...     _ = path.write_bytes(b"something else")
    ...     try:
    ...         load_model(path)
    ...     except ModelFormatError:
    ...         print("not a model file")
    not a model file
    """


# ------------------------------------------------------------------------------------------- to bytes


def pack(arrays: Arrays, document: dict[str, Any]) -> bytes:
    """Return the bytes of a file with arrays and a document; the same bytes for the same content."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    if len(text) > MAX_HEADER // 2:
        raise ValueError(
            f"names, categories and parameters take {len(text):,} bytes of JSON; a model file holds "
            f"{MAX_HEADER // 2:,}: give long parameters as arrays, or use fewer names"
        )
    native = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return to_bytes(native, metadata={KEY: text})


# ----------------------------------------------------------------------------------------- from bytes


def read(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return the bytes of a regular file that is not too large."""
    about = os.stat(path)
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder, not a model file")
    if not stat.S_ISREG(about.st_mode):
        raise ModelFormatError("is not a regular file")
    _check_size(about.st_size, max_bytes)
    with open(path, "rb") as file:
        content = file.read(about.st_size + 1)
    if len(content) != about.st_size:
        raise ModelFormatError("changed while it was read")
    return content


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise ModelFormatError(
            f"has {size:,} bytes, more than max_bytes={max_bytes:,}; if you trust it, pass a larger "
            "max_bytes"
        )


def unpack(content: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the document of a file, of which nothing has been checked yet."""
    length = int.from_bytes(content[:_LENGTH], "little")
    if len(content) < _LENGTH or length > len(content) - _LENGTH:
        raise ModelFormatError(
            "is not a maboost model file, or is cut off: its header does not fit"
        )
    if length > MAX_HEADER:
        raise ModelFormatError(f"has a header of {length:,} bytes; at most {MAX_HEADER:,} are read")
    header = content[_LENGTH : _LENGTH + length]
    _check_memory(header, len(content))
    text = _document(header)
    del header
    # escapes in the header may hide the commas and brackets of the document
    _check_memory(text.encode(errors="surrogatepass"), len(content))
    document = parsed(text)
    try:
        tensors = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise _damaged(error) from None
    return {name: _array(name, tensor) for name, tensor in tensors}, document


def _check_memory(text: bytes, size: int) -> None:
    """Refuse JSON that would need far more memory than a file of this size has bytes."""
    wide = b"\\u" in text or not text.isascii()
    values = sum(text.count(mark) for mark in (b",", b":", b"[", b"{"))
    needed = (_WIDE_COPIES if wide else _COPIES) * len(text) + _VALUE * values
    if needed > 3 * size + _SPARE:
        raise ModelFormatError(
            f"has a header with too many parts: about {values:,} names and values in {len(text):,} bytes"
        )


def _document(header: bytes) -> str:
    """Return the text of the document."""
    try:
        parts = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise _damaged(error) from None
    metadata = parts.get("__metadata__") if isinstance(parts, dict) else None
    text = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFormatError(f"is not a maboost model file: it has no metadata {KEY!r}")
    if len(parts) > MAX_ARRAYS:
        raise ModelFormatError(f"has more than {MAX_ARRAYS:,} arrays")
    return text


def _damaged(error: Exception) -> ModelFormatError:
    return ModelFormatError(f"is not a maboost model file, or is damaged: {shortened(str(error))}")


def _array(name: str, tensor: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = tensor["dtype"], tensor["shape"]
    if dtype not in _DTYPES:
        raise ModelFormatError(
            f"array {shortened(name)} has dtype {dtype}, which has no meaning here"
        )
    flat = np.frombuffer(tensor["data"], dtype=_DTYPES[dtype])
    if len(shape) > 2 or max(shape, default=0) > max(len(flat), 1 << 20):
        raise ModelFormatError(f"array {shortened(name)} has shape {shape}, which is too large")
    table = flat.astype(flat.dtype.newbyteorder("="), copy=False).reshape(shape)
    if dtype != "BOOL":
        return table
    if table.max(initial=0) > 1:
        raise ModelFormatError(
            f"array {shortened(name)} holds bytes that are neither true nor false"
        )
    return table.view(np.bool_)


# ----------------------------------------------------------------------------------------------- JSON


def parsed(text: str) -> dict[str, Any]:
    """Return a JSON object without repeated names, numbers out of range or deep nesting."""
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"has a damaged document: {shortened(str(error))}") from None
    if not isinstance(document, dict):
        raise ModelFormatError("has a document that is not a JSON object")
    _check_tree(document, MAX_DEPTH)
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ModelFormatError("names a field twice")
    return found


def _constant(text: str) -> float:
    raise ModelFormatError(f"has the number {text}, which is not JSON")


def _check_tree(value: Any, depth: int) -> None:
    """Refuse deep nesting, numbers out of range and invalid text."""
    if isinstance(value, list):
        if depth == 0:
            raise ModelFormatError(f"has a document nested more than {MAX_DEPTH} deep")
        for part in value:
            _check_tree(part, depth - 1)
    elif isinstance(value, dict):
        _check_tree(list(value), depth)
        _check_tree(list(value.values()), depth)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ModelFormatError("has an integer of more than 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ModelFormatError("has a number out of range")


def _check_text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ModelFormatError("has text with half a character (a lone surrogate)") from None


def shortened(value: Any, most: int = 200) -> str:
    """Return a value as short text for an error message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
