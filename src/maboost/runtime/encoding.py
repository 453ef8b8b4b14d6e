"""Encoding of small values as bytes without pickle: decoding never runs code.

Workers exchange such values over connections that are not authenticated (see ``docs/distributed.md``).
A message has the length of a JSON text, the text, and the buffers of the arrays that the text names.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DecodingError", "decoded", "encoded"]

_KINDS = "biufcSUmM"  # of dtypes whose buffers hold values and no pointers
_LENGTH = 8


class DecodingError(ValueError):
    """The bytes are not a message of :func:`encoded`."""


def encoded(value: Any) -> bytes:
    r"""Encode None, booleans, numbers, text, bytes, arrays, and lists, tuples and dictionaries of them.

    Arrays of objects may hold the same. Anything else raises TypeError.

    >>> import numpy as np
    >>> decoded(encoded({"a": (1, None), 2: np.array([0.5])}))
    {'a': (1, None), 2: array([0.5])}
    """
    buffers: list[bytes] = []
    text = json.dumps(_described(value, buffers)).encode("ascii")
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *buffers])


def _described(value: Any, buffers: list[bytes]) -> Any:
    """Return the JSON form of a value; append the contents of arrays and bytes to `buffers`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [_described(item, buffers) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_described(item, buffers) for item in value]}
    if isinstance(value, dict):
        items = [item for pair in value.items() for item in pair]
        return {"dict": [_described(item, buffers) for item in items]}
    if isinstance(value, bytes):
        buffers.append(value)
        return {"bytes": len(value)}
    if isinstance(value, np.str_ | np.bytes_):  # numpy makes no array of empty ones
        return _described(value.item(), buffers)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS:
        buffers.append(value.tobytes())
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {kind: value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.ndarray) and value.dtype == object:
        items = value.ravel().tolist()
        return {"objects": [_described(v, buffers) for v in items], "shape": list(value.shape)}
    raise TypeError(
        f"workers exchange text, numbers, booleans and missing values, not {value!r}, which is of type "
        f"{type(value).__name__}: turn it into text"
    )


def decoded(content: bytes) -> Any:
    """Return the value of a message; bytes after its end are ignored.

    Raises
    ------
    DecodingError
        If the bytes are not such a message.
    """
    try:
        start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        if start > len(content):
            raise ValueError(f"{start} bytes are needed, there are {len(content)}")
        return _Reader(content, start).value(json.loads(content[_LENGTH:start]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise DecodingError(f"a message of another worker cannot be read: {error}") from error


class _Reader:
    """Reads the buffers of a message one after the other."""

    def __init__(self, content: bytes, start: int) -> None:
        self.content = content
        self.start = start

    def value(self, described: Any) -> Any:
        if isinstance(described, list):
            return [self.value(item) for item in described]
        if not isinstance(described, dict):
            return described
        if "tuple" in described:
            return tuple(self.value(described["tuple"]))
        if "dict" in described:
            items = self.value(described["dict"])
            return dict(zip(items[::2], items[1::2], strict=True))
        if "bytes" in described:
            return self.buffer(described["bytes"])
        if "objects" in described:
            found = np.empty(len(described["objects"]), dtype=object)
            found[:] = self.value(described["objects"])
            return found.reshape(described["shape"])
        if "array" in described:
            return self.array(described["array"], described["shape"])
        return self.array(described["scalar"], described["shape"])[()]

    def buffer(self, size: int) -> bytes:
        end = self.start + size
        if size < 0 or end > len(self.content):
            raise ValueError("the message ends within a buffer")
        self.start, begin = end, self.start
        return self.content[begin:end]

    def array(self, name: str, shape: list[int]) -> NDArray[Any]:
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS or not dtype.itemsize:
            raise ValueError(f"dtype {dtype} is not one that workers exchange")
        content = self.buffer(dtype.itemsize * math.prod(shape))
        return np.frombuffer(content, dtype).reshape(shape).copy()
