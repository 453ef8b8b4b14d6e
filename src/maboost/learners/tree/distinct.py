"""The distinct values of columns over all shards, from which the bins follow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.communicator import Communicator, by_rank, gathered_objects
from maboost.runtime.threads import Threads

__all__ = ["Weighted", "distinct", "from_all_values"]

Array = NDArray[np.float64]
Weighted = tuple[Array, NDArray[np.int64]]

_READ = 4  # columns that a thread reads together: half a cache line of a row of numbers
_ROOM = 1 << 21  # values in memory at once, unless a single column has more
_TOGETHER = (
    8  # columns in a message: large enough for few messages, small enough to hold in memory twice
)


def distinct(values: Array, weights: NDArray[np.int64]) -> Weighted:
    """Return the sorted distinct values and the weight of each."""
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
    read: Callable[[range], list[Weighted]],
    answer: Callable[[int, Array, NDArray[np.int64]], Array],
    columns: int,
    rows: int,
    comm: Communicator,
    threads: Threads,
) -> list[Array]:
    """Return a result for each column from its distinct values over all shards and their weights.

    ``read(some)`` returns the values and weights of some neighbouring columns of this shard, at most `rows` each;
    ``answer(j, values, weights)`` computes the result of one column. One of the shards computes it and
    sends it to the others.
    """
    if comm.size == 1:
        at_once = max(_ROOM // max(rows, 1), 1)
        several = Threads(min(threads.count, at_once))
        group = min(max(at_once // several.count, 1), _READ)

        def answers(some: range) -> list[Array]:
            return [answer(j, *distinct(*its)) for j, its in zip(some, read(some), strict=True)]

        return list(chain.from_iterable(several.each(_groups(columns, group), answers)))
    found = {}
    for some in _groups(columns, _TOGETHER):
        held = [distinct(*its) for j in some for its in read(range(j, j + 1))]
        parts = _gathered_columns(held, comm)
        for j, (values, weights) in zip(some, parts, strict=True):
            if j % comm.size == comm.rank:
                found[j] = answer(j, *distinct(values, weights))
    everyone = {j: its for shard in gathered_objects(found, comm) for j, its in shard.items()}
    return [everyone[j] for j in range(columns)]


def _groups(columns: int, size: int) -> list[range]:
    """Return groups of at most `size` neighbouring columns."""
    return [range(start, min(start + size, columns)) for start in range(0, columns, size)]


class _Header(NamedTuple):
    """The description of a column that a shard sends first, so that the values travel in as few bytes as possible."""

    size: int
    weight: int  # of every value; -1 if they differ
    single: bool  # whether 32 bits hold the values exactly

    @classmethod
    def of(cls, values: Array, weights: NDArray[np.int64]) -> _Header:
        if not len(values):
            return cls(0, 0, True)
        weight = int(weights[0]) if np.all(weights == weights[0]) else -1
        with np.errstate(over="ignore"):
            single = bool(np.all(values.astype(np.float32) == values))
        return cls(len(values), weight, single)


def _gathered_columns(parts: list[Weighted], comm: Communicator) -> list[Weighted]:
    """Return these columns of all shards, concatenated in the order of shards.

    One message has the sizes, one the values, and one the weights of the columns whose weights differ.
    """
    own = np.array([_Header.of(*part) for part in parts], dtype=np.int64)
    headers = by_rank(own.reshape(-1), comm).reshape(comm.size, *own.shape)
    sizes = headers[:, :, 0].T
    kind = np.float32 if headers[:, :, 2].all() else np.float64
    columns = _joined([values.astype(kind) for values, _ in parts], sizes, comm)
    weight = [_common(headers[:, j]) for j in range(len(parts))]
    uneven = [j for j, common in enumerate(weight) if common < 0]
    sent = _joined([parts[j][1] for j in uneven], sizes[uneven], comm) if uneven else []
    weights = dict(zip(uneven, sent, strict=True))
    return [
        (values.astype(np.float64), weights.get(j, np.full(len(values), weight[j])))
        for j, values in enumerate(columns)
    ]


def _common(headers: NDArray[np.int64]) -> int:
    """Return the weight of every value of a column on all shards that have values; -1 if the weights differ."""
    weights = set(headers[headers[:, 0] > 0, 1].tolist())
    return int(weights.pop()) if len(weights) == 1 else -1 if weights else 0


def _joined(
    parts: list[NDArray[Any]], sizes: NDArray[np.int64], comm: Communicator
) -> list[NDArray[Any]]:
    """Exchange arrays of all shards in one message; return them concatenated, by column (`sizes`: columns by shards)."""
    ends = np.cumsum(sizes).reshape(sizes.shape)
    dtype = parts[0].dtype
    integers = np.dtype(f"i{dtype.itemsize}")  # a sum of integers preserves all bits
    everything = np.zeros(int(ends[-1, -1]), dtype=integers)
    for part, end in zip(parts, ends[:, comm.rank].tolist(), strict=True):
        everything[end - len(part) : end] = part.view(integers)
    total = comm.allreduce(everything, "sum").astype(integers, copy=False).view(dtype)
    return np.split(total, ends[:-1, -1])
