"""Reading of a model file's parts by name: each is read once and checked, and none may be left over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.io.container import Arrays, ModelFormatError, shortened

__all__ = ["Fields", "Tensors", "require"]

_LARGEST = 1 << 62
_SPARE = 1 << 25  # bytes that may be used beyond the size of the arrays


def require(condition: Any, what: str) -> None:
    """Raise ModelFormatError unless the condition holds."""
    if not condition:
        raise ModelFormatError(what)


class Fields:
    """The fields of a JSON object.

    >>> fields = Fields({"rounds": 3}, "certificate")
    >>> fields.integer("rounds", 0)
    3
    >>> fields.finish()
    """

    def __init__(self, values: Any, where: str) -> None:
        require(isinstance(values, dict), f"{where} must be a JSON object")
        self._left = dict(values)
        self._where = where

    def has(self, name: str) -> bool:
        """Return whether a field exists that was not taken."""
        return name in self._left

    def take(self, name: str) -> Any:
        """Take a field of any type."""
        require(name in self._left, f"{self._where} has no field {name!r}")
        return self._left.pop(name)

    def _typed(self, name: str, wanted: type, kind: str) -> Any:
        value = self.take(name)
        # in Python a bool is also an int
        good = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
        require(good, f"{self._where}.{name} must be {kind}, got {shortened(value)}")
        return value

    def text(self, name: str) -> str:
        """Take a string."""
        return str(self._typed(name, str, "text"))

    def flag(self, name: str) -> bool:
        """Take true or false."""
        return bool(self._typed(name, bool, "true or false"))

    def items(self, name: str) -> list[Any]:
        """Take a list."""
        return list(self._typed(name, list, "a list"))

    def object(self, name: str) -> Fields:
        """Take an object."""
        return Fields(self.take(name), f"{self._where}.{name}")

    def integer(self, name: str, low: int, high: int = _LARGEST) -> int:
        """Take an integer within limits."""
        value = int(self._typed(name, int, "a whole number"))
        require(
            low <= value <= high,
            f"{self._where}.{name} must be in [{low}, {high}], got {value}",
        )
        return value

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Take a number within limits; NaN only if there are no limits."""
        value = self.take(name)
        if isinstance(value, dict):
            value = special(value)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        require(good, f"{self._where}.{name} must be a number, got {shortened(value)}")
        free = low == -math.inf and high == math.inf
        require(
            free or low <= value <= high,
            f"{self._where}.{name} must be in [{low:g}, {high:g}], got {value}",
        )
        return float(value)

    def optional(self, name: str, read: Callable[..., Any], *limits: Any) -> Any:
        """Take None, or a field by the method `read` of this class."""
        if self._left.get(name, 0) is None:
            return self.take(name)
        return read(self, name, *limits)

    def finish(self) -> None:
        """Refuse fields that were not taken."""
        unknown = sorted(self._left)
        require(not unknown, f"{self._where} has unknown fields {shortened(unknown)}")


class Tensors:
    """The arrays of a file, with a limit on the memory for the objects built from it.

    Small parts, such as a tree of one node, need far more memory than their bytes in the file. Their
    readers announce that memory with :meth:`spend` before they allocate it.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._left = dict(arrays)
        self._spare = _SPARE + sum(array.nbytes for array in arrays.values())

    def spend(self, size: int, what: str) -> None:
        """Count `size` bytes of memory; raise ModelFormatError if that is too much for this file."""
        self._spare -= size
        require(self._spare >= 0, f"{what} would take far more memory than the file has bytes")

    def has(self, name: str) -> bool:
        """Whether there is an array of this name that nobody took."""
        return name in self._left

    def take(self, name: str, dtype: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Take an array of this dtype and shape; None stands for any length."""
        require(name in self._left, f"array {name!r} is missing")
        array = self._left.pop(name)
        require(
            array.dtype == dtype,
            f"array {name!r} must have dtype {np.dtype(dtype)}, got {array.dtype}",
        )
        fits = len(array.shape) == len(shape) and all(
            want is None or want == got for want, got in zip(shape, array.shape, strict=True)
        )
        require(
            fits, f"array {name!r} must have shape {_written(shape)}, got {_written(array.shape)}"
        )
        return array

    def any_vector(self, name: str) -> NDArray[Any]:
        """Take a vector of numbers of any dtype."""
        require(name in self._left, f"array {shortened(name)} is missing")
        array = self._left.pop(name)
        require(array.ndim == 1, f"array {name!r} must have one dimension, got {array.ndim}")
        return array

    def finish(self) -> None:
        """Refuse arrays that were not taken."""
        unknown = sorted(self._left)
        require(not unknown, f"has unknown arrays {shortened(unknown)}")


def _written(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"


def special(value: Any) -> float:
    """Return a number that JSON cannot express, from its name."""
    fields = Fields(value, "a number")
    require(fields.text("kind") == "float", "a number must be a number")
    name = fields.text("value")
    fields.finish()
    require(name in ("inf", "-inf", "nan"), f"{shortened(name)} is no special number")
    return float(name)


def encoded_number(value: Any) -> Any:
    """Return a number for JSON; infinities and NaN by name."""
    number = float(value)
    return number if math.isfinite(number) else {"kind": "float", "value": repr(number)}
