"""The distinct values of columns, over all shards: what their bins follow from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from maboost.comm import Communicator, by_rank, gathered_objects

__all__ = ["distinct", "from_all_values"]

Array = NDArray[np.float64]
Weighted = tuple[Array, NDArray[np.int64]]

_TOGETHER = 8  # columns in a message: enough that few are sent, few enough to be in memory twice


def distinct(values: Array, weights: NDArray[np.int64]) -> Weighted:
    """Sorted distinct values and the weight of each."""
    if not len(values):
        return values, weights
    even = bool(np.all(weights == weights[0]))
    order = None if even else np.argsort(values, kind="stable")
    ordered = np.sort(values) if order is None else values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if order is None:
        counts = np.diff(np.append(first, len(ordered)))
        return ordered[first], counts * weights[0]
    return ordered[first], np.add.reduceat(weights[order], first)


def from_all_values(
    column: Callable[[int], Weighted],
    answer: Callable[[int, Array, NDArray[np.int64]], Array],
    columns: int,
    comm: Communicator,
) -> list[Array]:
    """What follows from the distinct values of each column over all shards, and their weights.

    ``column(j)`` has the values and weights of this shard, ``answer(j, values, weights)`` what follows.
    The answer to a column is found by one of the shards, which tells the others.
    """
    if comm.size == 1:
        return [answer(j, *distinct(*column(j))) for j in range(columns)]
    found = {}
    for start in range(0, columns, _TOGETHER):
        some = range(start, min(start + _TOGETHER, columns))
        parts = _gathered_columns([distinct(*column(j)) for j in some], comm)
        for j, (values, weights) in zip(some, parts, strict=True):
            if j % comm.size == comm.rank:
                found[j] = answer(j, *distinct(values, weights))
    everyone = {j: its for shard in gathered_objects(found, comm) for j, its in shard.items()}
    return [everyone[j] for j in range(columns)]


def _gathered_columns(parts: list[Weighted], comm: Communicator) -> list[Weighted]:
    """These columns of all shards, one shard's after the other's: a message of sizes, one of values."""
    sizes = by_rank(np.array([len(values) for values, _ in parts], dtype=np.int64), comm).T
    ends = np.cumsum(sizes).reshape(sizes.shape)  # by column, and in it by shard
    everything = np.zeros((2, int(ends[-1, -1])), dtype=np.int64)
    for (values, weights), end in zip(parts, ends[:, comm.rank].tolist(), strict=True):
        own = slice(end - len(values), end)
        everything[0, own], everything[1, own] = values.view(np.int64), weights
    total = comm.allreduce(everything.reshape(-1), "sum").reshape(everything.shape)
    cuts = np.split(total, ends[:-1, -1], axis=1)
    return [(values.view(np.float64), weights) for values, weights in cuts]
