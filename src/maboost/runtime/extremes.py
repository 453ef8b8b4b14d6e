"""The smallest and the largest of many values.

Floats are compared as integers of the same order: a loop over integers vectorises, a loop over floats does
does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.instructions import bits_of
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for, slots
from maboost.runtime.threads import Threads

__all__ = ["extent", "in_order", "out_of_order"]

_LEAST = 1 << 13  # values of a chunk
_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel
def in_order(bits):
    """Map the bits of a float to an integer that has the order of the floats; the map is its own inverse."""
    return bits ^ ((bits >> np.int64(63)) & _ALL_BUT_SIGN)


def out_of_order(ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats of such integers."""
    return (ends ^ ((ends >> 63) & 0x7FFFFFFFFFFFFFFF)).view(np.float64)


@kernel
def _ends(values, ends, size, chunk, slot):
    least, most = ends[slot, 0], ends[slot, 1]
    for i in range(chunk * size, min((chunk + 1) * size, values.size)):
        value = in_order(bits_of(values[i]))
        least, most = min(least, value), max(most, value)
    ends[slot, 0], ends[slot, 1] = least, most


@kernel
def _extent(team, values):
    chunks, size = chunks_of(team, values.size, _LEAST)
    ends = np.empty((slots(team), 8), dtype=np.int64)
    for slot in range(ends.shape[0]):
        ends[slot, 0], ends[slot, 1] = in_order(bits_of(np.inf)), in_order(bits_of(-np.inf))
    parallel_for(team, chunks, _ends, (values, ends, size))
    return ends[:, 0].min(), ends[:, 1].max()


def extent(values: NDArray[np.float64], threads: Threads) -> tuple[float, float]:
    """Return the smallest and the largest value; infinity and minus infinity where there is none.

    >>> extent(np.array([2.0, -1.0, 0.5]), Threads())
    (-1.0, 2.0)
    """
    low, high = out_of_order(np.array(threads.run(_extent, values.reshape(-1)), dtype=np.int64))
    return float(low), float(high)
