"""Memory that is used again: to get fresh pages from the system can cost more than to fill them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Shelf", "keep_freed_arrays"]

_BYTES = 31 << 20


def keep_freed_arrays() -> None:
    """Let arrays of some megabytes that are freed stay with the process for the next ones.

    A round makes and drops several arrays of a number a row. The GNU C library gives freed memory back
    to the system where more lies free than twice the largest block that was mapped and freed so far, and
    fetching it again, page by page, can take longer than the round. To free one large block, of which no
    page was ever touched, sets that mark high enough once and for all (32 MiB is the most it learns from).
    """
    np.empty(_BYTES, dtype=np.uint8)


class Shelf:
    """Arrays of one size, to be had again once nobody else holds them, of any size in bytes.

    Whoever keeps an array, or a part of one, keeps it as if it were fresh: it is not handed out again
    before the last such reference is gone.

    >>> shelf = Shelf(4)
    >>> first = shelf.array()
    >>> shelf.array() is first
    False
    >>> place = id(first)
    >>> del first
    >>> id(shelf.array()) == place
    True
    """

    def __init__(self, size: int, dtype: DTypeLike = np.float64) -> None:
        self._size = size
        self._dtype = dtype
        self._arrays: list[NDArray[Any]] = []

    def array(self) -> NDArray[Any]:
        """One that nobody holds, with whatever it contains."""
        for j in range(len(self._arrays)):
            if sys.getrefcount(self._arrays[j]) <= _UNHELD:
                return self._arrays[j]
        self._arrays.append(np.empty(self._size, dtype=self._dtype))
        return self._arrays[-1]


def _references_to_an_unheld_one() -> int:
    """What the interpreter counts where only a list holds an array and asks."""
    arrays = [np.empty(0)]
    return min(sys.getrefcount(arrays[j]) for j in range(1))


_UNHELD = _references_to_an_unheld_one()
