"""Reductions over the few entries of each row, an axis so short that numpy reduces it slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for
from maboost.runtime.threads import Threads

__all__ = ["lowest_of_rows", "means_of_rows"]

Array = NDArray[np.float64]

_LEAST = 1 << 10  # rows of a chunk


@kernel
def _means(values, out, size, chunk, slot):
    width = values.size // max(out.size, 1)
    for i in range(chunk * size, min((chunk + 1) * size, out.size)):
        sum = 0.0
        for j in range(width):
            sum += values[i * width + j]
        out[i] = sum / width


@kernel
def _all_means(team, values, out):
    chunks, size = chunks_of(team, out.size, _LEAST)
    parallel_for(team, chunks, _means, (values, out, size))


@kernel
def _lowest(values, out, size, chunk, slot):
    width = values.size // max(out.size, 1)
    for i in range(chunk * size, min((chunk + 1) * size, out.size)):
        lowest = values[i * width]
        for j in range(1, width):
            lowest = min(lowest, values[i * width + j])
        out[i] = lowest


@kernel
def _all_lowest(team, values, out):
    chunks, size = chunks_of(team, out.size, _LEAST)
    parallel_for(team, chunks, _lowest, (values, out, size))


def means_of_rows(values: Array, rows: int, threads: Threads) -> Array:
    """Return the mean over the entries of each row."""
    out = np.empty(rows)
    threads.run(_all_means, values, out)
    return out


def lowest_of_rows(values: Array, rows: int, threads: Threads) -> Array:
    """Return the lowest entry of each row."""
    out = np.empty(rows)
    threads.run(_all_lowest, values, out)
    return out
