"""Content hashes of rows, and a sample that does not depend on order, sharding or repetition.

The sample consists of the rows with the smallest content hashes. Equal rows are merged and their weights summed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.runtime.communicator import Communicator, SerialCommunicator, gathered, global_count
from maboost.runtime.kernels import kernel
from maboost.runtime.messages import reduced
from maboost.runtime.threads import Threads

__all__ = [
    "SAMPLE_ROWS",
    "hash_rows",
    "integer_weights",
    "merged_weights",
    "sampled_rows",
    "whole_weights",
]

Array = NDArray[np.float64]

SAMPLE_ROWS = 200_000  # distinct rows; a table with fewer is its own sample
_WHOLE = 1 << 31  # largest multiple of the lightest weight for which weights count as integers
_TILE = 1 << 13  # rows that fit the cache
_DENSE_CELLS = 1 << 22  # cells of a sparse table that are made dense at a time


@kernel
def _hash_rows(table, bits, seed, out):
    """Write a 64-bit hash of each row's content; zeros of either sign hash alike, and so do all NaN."""
    n, columns = table.shape
    for i in range(n):
        h = seed
        for j in range(columns):
            v = table[i, j]
            content = bits[i, j] if v == v else np.uint64(0x7FF8000000000000)
            content = np.uint64(0) if v == 0.0 else content
            h = (h ^ content) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        out[i] = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


def hash_rows(X: Any, threads: Threads, seed: int = 0) -> NDArray[np.uint64]:
    """Return a seeded 64-bit hash of the content of each row (dense, of two dimensions or more, or CSR)."""
    hashes = np.empty(X.shape[0], dtype=np.uint64)
    size = _TILE
    if sp.issparse(X):  # converted to dense in blocks, to limit the memory
        size = min(max(_DENSE_CELLS // max(X.shape[1], 1), 1), _TILE)

    def work(rows: tuple[int, int]) -> None:
        for start in range(*rows, size):
            part = slice(start, min(start + size, rows[1]))
            block = X[part].toarray() if sp.issparse(X) else X[part]
            table = np.ascontiguousarray(block, dtype=np.float64)
            table = table.reshape(len(table), math.prod(table.shape[1:]))
            _hash_rows(table, table.view(np.uint64), np.uint64(seed), hashes[part])

    threads.each(threads.parts(X.shape[0], _TILE), work)
    return hashes


def sampled_rows(
    hashes: NDArray[np.uint64], comm: Communicator | None = None
) -> NDArray[np.intp] | None:
    """Return this shard's rows among the `SAMPLE_ROWS` smallest distinct hashes of all shards; None if that is all."""
    distinct = _smallest(hashes, SAMPLE_ROWS + 1, comm or SerialCommunicator())
    if len(distinct) <= SAMPLE_ROWS:
        return None
    return np.flatnonzero(hashes <= distinct[SAMPLE_ROWS - 1])


def _smallest(hashes: NDArray[np.uint64], size: int, comm: Communicator) -> NDArray[np.uint64]:
    """Return the `size` smallest distinct hashes over all shards, in order.

    Hashes are spread evenly, so their number gives a limit that leaves a few more than needed; the limit grows
    until it does. The message size does not grow with the number of shards, and the number of sorted hashes not
    with the rows, unless rows repeat.
    """
    share = 1.1 * size / max(global_count(len(hashes), comm), 1)
    while True:
        limit = np.uint64(int(share * 2**64)) if share < 1.0 else None
        below = hashes if limit is None else hashes[hashes < limit]
        parts = gathered(_distinct(below)[:size], comm)
        found = parts[0] if len(parts) == 1 else _distinct(np.concatenate(parts))
        if limit is None or len(found) >= size:
            return found[:size]
        share *= 1.1 * size / max(len(found), 1)


def _distinct(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct hashes in order; numpy's `unique` builds a hash table first, which takes ten times as long."""
    ordered = np.sort(hashes)
    first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    found: NDArray[np.uint64] = ordered[first]
    return found


def merged_weights(
    hashes: NDArray[np.uint64],
    rows: NDArray[np.intp],
    weights: Array,
    comm: Communicator | None = None,
) -> tuple[NDArray[np.intp], Array]:
    """Return one row for each hash, by its position, and the total weight of the rows with that hash.

    If several shards have a content, the first of them keeps it.
    """
    comm = comm or SerialCommunicator()
    distinct, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    grid, unit = integer_weights(weights, comm)
    held = np.zeros(len(first), dtype=np.int64)
    np.add.at(held, group, grid[rows])  # integers: the same for any order of rows
    parts = gathered(distinct, comm)
    everyone = distinct if len(parts) == 1 else np.unique(np.concatenate(parts))
    own = np.searchsorted(everyone, distinct)
    merged, owner = np.zeros(len(everyone), dtype=np.int64), np.full(len(everyone), comm.size)
    merged[own], owner[own] = held, comm.rank
    merged, owner = comm.allreduce(merged, "sum"), comm.allreduce(owner, "min")
    mine = owner[own] == comm.rank
    return first[mine], merged[own[mine]].astype(np.float64) * unit


def integer_weights(weights: Array, comm: Communicator) -> tuple[NDArray[np.int64], float]:
    """Return weights as integers, whose sums have no order, and the value of one unit.

    Integer multiples of the lightest weight become those integers, so a weight of k counts exactly as k rows. Other
    weights are rounded to fixed point.
    """
    whole = whole_weights(weights, _WHOLE, comm)
    if whole is not None:
        return whole
    own = np.array([len(weights)]), np.array([weights.max(initial=0.0)])
    (count,), (top,) = (x.tolist() for x in reduced([(own[0], "sum"), (own[1], "max")], comm))
    unit = math.ldexp(1.0, math.frexp(top)[1] - 61 + count.bit_length())
    return np.maximum(np.rint(weights / unit), 1.0).astype(np.int64), unit


def whole_weights(
    weights: Array, most: int, comm: Communicator
) -> tuple[NDArray[np.int64], float] | None:
    """Return each weight as a multiple of the lightest, and the lightest; None unless all are integers up to `most`."""
    lightest = float(comm.allreduce(np.array([weights.min(initial=np.inf)]), "min")[0])
    with np.errstate(over="ignore", invalid="ignore"):
        times = weights / lightest
        whole = np.rint(times)
        able = bool(np.all(np.abs(times - whole) <= 1e-12 * times) and np.all(whole <= most))
    if not comm.allreduce(np.array([able], dtype=np.int64), "min")[0]:
        return None
    return whole.astype(np.int64), lightest
