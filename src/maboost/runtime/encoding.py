"""Small values as bytes and back, without pickle: decoding runs no code, whatever the bytes are.

Workers exchange such values over connections that are not authenticated (see ``docs/distributed.md``).
A message is the length of a JSON text, the text, and the buffers of the arrays that the text names.
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
    """The bytes are no message of :func:`encoded`."""


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
    """The JSON form of a value; the contents of arrays and bytes go to `buffers`."""
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
    if isinstance(value, np.str_ | np.bytes_):  # of these numpy makes no array where they are empty
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
    """The value of a message; bytes after its end are ignored.

    Raises
    ------
    DecodingError
        If the bytes are no such message.
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

    def value(self, told: Any) -> Any:
        if isinstance(told, list):
            return [self.value(item) for item in told]
        if not isinstance(told, dict):
            return told
        if "tuple" in told:
            return tuple(self.value(told["tuple"]))
        if "dict" in told:
            items = self.value(told["dict"])
            return dict(zip(items[::2], items[1::2], strict=True))
        if "bytes" in told:
            return self.buffer(told["bytes"])
        if "objects" in told:
            found = np.empty(len(told["objects"]), dtype=object)
            found[:] = self.value(told["objects"])
            return found.reshape(told["shape"])
        if "array" in told:
            return self.array(told["array"], told["shape"])
        return self.array(told["scalar"], told["shape"])[()]

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
