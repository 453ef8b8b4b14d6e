"""Communication between shards, and sums that do not depend on the order of addition.

Everything global in this library (an edge, a projection's mass, a gain) is a sum, a maximum or a
minimum over rows. The code that needs one sees only its own *shard* of the rows and a
:class:`Communicator`; on one machine the communicator is the identity, so running on many workers
is a launcher and not a second implementation.

Floating-point addition is not associative, so a plain sum would change its last bits with the number
of threads or shards. :func:`reproducible_sum` adds integers instead.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.encoding import decoded, encoded
from maboost.runtime.exact_sum import FixedPoint, WideGrid, fixed_point, fold, fold_wide
from maboost.runtime.instructions import bits_of
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots
from maboost.runtime.threads import Threads

__all__ = [
    "Communicator",
    "SerialCommunicator",
    "by_rank",
    "counted_sums",
    "gathered",
    "gathered_objects",
    "global_count",
    "reproducible_sum",
    "reproducible_sums",
    "sums_by_code",
    "sums_of_all",
    "wide_sums",
]

Reduction = Literal["sum", "max", "min"]

_LEAST = 1 << 13  # values of a chunk


class Communicator(Protocol):
    """The interface between the training loop and the other shards.

    >>> import numpy as np
    >>> comm = SerialCommunicator()
    >>> comm.rank, comm.size, comm.allreduce(np.array([1, 2]))
    (0, 1, array([1, 2]))
    """

    @property
    def rank(self) -> int:
        """Index of this shard."""

    @property
    def size(self) -> int:
        """Number of shards."""

    def allreduce(self, array: NDArray[Any], op: Reduction = "sum") -> NDArray[Any]:
        """Combine `array` over all shards elementwise; every shard gets the result."""

    def broadcast(self, array: NDArray[Any], root: int = 0) -> NDArray[Any]:
        """Give every shard the `array` of shard `root`; all shards pass arrays of one shape and dtype."""


class SerialCommunicator:
    """One shard: every reduction is the identity.

    >>> import numpy as np
    >>> SerialCommunicator().allreduce(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    rank = 0
    size = 1

    def allreduce(self, array: NDArray[Any], op: Reduction = "sum") -> NDArray[Any]:
        return array

    def broadcast(self, array: NDArray[Any], root: int = 0) -> NDArray[Any]:
        return array


# --------------------------------------------------------------------------------------------------
# Operations built on the two methods of a communicator.


def global_count(count: int, comm: Communicator) -> int:
    """Return the sum of a count over all shards."""
    return int(comm.allreduce(np.array([count], dtype=np.int64), "sum")[0])


def sums_of_all(arrays: list[NDArray[np.int64]], comm: Communicator) -> list[NDArray[np.int64]]:
    """Return the sums over all shards of several integer arrays, in one message."""
    if comm.size == 1 or not arrays:
        return arrays
    total = comm.allreduce(np.concatenate([a.reshape(-1) for a in arrays]), "sum")
    ends = np.cumsum([a.size for a in arrays])[:-1]
    return [part.reshape(a.shape) for part, a in zip(np.split(total, ends), arrays, strict=True)]


def by_rank(array: NDArray[Any], comm: Communicator) -> NDArray[Any]:
    """Return the small arrays of all shards as the rows of a table; all have one length and 8 bytes an entry.

    Every shard puts its own array between zeros, and the sum holds all of them. The sum is one of integers: a
    sum of floats would lose the sign of a zero. The cost of a message is mostly waiting, so one longer
    message is cheaper than two.
    """
    if comm.size == 1:
        return array[None]
    everyone = np.zeros((comm.size, array.size), dtype=np.int64)
    everyone[comm.rank] = array.view(np.int64)
    total = comm.allreduce(everyone.reshape(-1), "sum")
    return total.reshape(everyone.shape).view(array.dtype)


def gathered(array: NDArray[Any], comm: Communicator) -> list[NDArray[Any]]:
    """Return the arrays of all shards by rank, of 8 bytes an entry; they may differ in length only.

    Like :func:`by_rank`, after a message with the lengths.
    """
    sizes = np.zeros(comm.size, dtype=np.int64)
    sizes[comm.rank] = len(array)
    ends = np.cumsum(comm.allreduce(sizes, "sum"))
    if comm.size == 1:
        return [array]
    everything = np.zeros((int(ends[-1]), *array.shape[1:]), dtype=array.dtype)
    everything[ends[comm.rank] - len(array) : ends[comm.rank]] = array
    total = comm.allreduce(everything.reshape(-1).view(np.int64), "sum")
    return np.split(total.view(array.dtype).reshape(everything.shape), ends[:-1])


def gathered_objects(value: Any, comm: Communicator) -> list[Any]:
    """Return a small value of every shard by rank.

    The values are encoded by :mod:`maboost.runtime.encoding`, never pickled: a message cannot run code.
    """
    if comm.size == 1:
        return [value]
    text = encoded(value)
    content = np.frombuffer(text + bytes(-len(text) % 8), dtype=np.int64)
    return [decoded(part.tobytes()) for part in gathered(content, comm)]


# --------------------------------------------------------------------------------------------------
# Sums on the grids of :mod:`maboost.runtime.exact_sum`.


@kernel
def _largest_of_chunk(values, tops, size, chunk, slot):
    """Write the bits of the largest magnitude: as integers they have the order of the floats, with NaN on top."""
    most = tops[slot, 0]
    for i in range(chunk * size, min((chunk + 1) * size, values.size)):
        most = max(most, bits_of(values[i]) & np.int64(0x7FFFFFFFFFFFFFFF))
    tops[slot, 0] = most


@kernel
def _largest_bits(team, values):
    chunks, size = chunks_of(team, values.size, _LEAST)
    tops = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _largest_of_chunk, (values, tops, size))
    return tops[:, 0].max()


@kernel
def _fold_chunk(values, first, second, low, size, sums, chunk, slot):
    high_part, low_part = fold(values[chunk * size : (chunk + 1) * size], first, second, low)
    sums[slot, 0] += high_part
    sums[slot, 1] += low_part


@kernel
def _fold_all(team, values, first, second, low):
    chunks, size = chunks_of(team, values.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _fold_chunk, (values, first, second, low, size, sums))
    return folded_slots(sums)[:2]


@kernel
def _fold_wide_chunk(values, base, scale, low, size, sums, chunk, slot):
    part = slice(chunk * size, (chunk + 1) * size)
    high, middle, last, unfit = fold_wide(values[part], base[part], scale, low)
    sums[slot, 0] += high
    sums[slot, 1] += middle
    sums[slot, 2] += last
    sums[slot, 3] += unfit


@kernel
def _fold_wide_all(team, values, base, scale, low):
    chunks, size = chunks_of(team, values.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _fold_wide_chunk, (values, base, scale, low, size, sums))
    return folded_slots(sums)[:4]


def wide_sums(
    columns: list[NDArray[np.float64]], base: NDArray[np.float64], grid: WideGrid, threads: Threads
) -> NDArray[np.int64]:
    """Return the sums of base * column over this shard, as :func:`maboost.runtime.exact_sum.fold_wide` has them."""
    scale, low = grid.factors
    flat = [np.ascontiguousarray(c, dtype=np.float64).reshape(-1) for c in columns]
    return np.array([threads.run(_fold_wide_all, c, base, scale, low) for c in flat])


def _largest(values: NDArray[np.float64], threads: Threads) -> float:
    """Return the largest magnitude; infinity stands for anything that is not finite (a maximum keeps it)."""
    top = float(np.int64(threads.run(_largest_bits, values)).view(np.float64))
    return top if math.isfinite(top) else math.inf


def reproducible_sums(columns: list[NDArray[np.float64]], comm: Communicator) -> list[float]:
    """Return the sums of several arrays over all shards; NaN where a value is not finite.

    See :func:`reproducible_sum`.
    """
    return counted_sums(columns, comm)[0]


def sums_by_code(
    codes: NDArray[np.integer], values: NDArray[np.float64], count: int, comm: Communicator
) -> NDArray[np.float64]:
    """Return the sums of the values of each of `count` codes over all shards, each as :func:`reproducible_sum`."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(1, count))
    return np.array(reproducible_sums(np.split(values[order], ends), comm))


def counted_sums(
    columns: list[NDArray[np.float64]], comm: Communicator, threads: Threads | None = None
) -> tuple[list[float], list[int]]:
    """Return the sums of :func:`reproducible_sums`, and the number of values of each over all shards.

    The grid of a sum follows from the largest value and the number of values of *all* shards. Each shard
    assumes that the others have its own grid, and sends its largest value and count with its sums. If all
    assumptions were right, as they nearly always are, one message is enough.
    """
    flat = [np.ascontiguousarray(c, dtype=np.float64).reshape(-1) for c in columns]
    threads = threads or Threads()
    tops, counts = [_largest(c, threads) for c in flat], [c.size for c in flat]
    scales = _scales(tops, counts, comm.size)
    own = _folds(flat, tops, scales, threads)
    if comm.size == 1:
        return _values(own, scales, tops), counts
    shared = by_rank(np.concatenate([np.array(tops).view(np.int64), counts, np.ravel(own)]), comm)
    all_tops, all_counts, folds = np.split(shared, [len(flat), 2 * len(flat)], axis=1)
    all_tops = all_tops.view(np.float64)
    tops, counts = all_tops.max(axis=0).tolist(), all_counts.sum(axis=0).tolist()
    scales = _scales(tops, counts)
    alike = all(
        taken == scale or count == 0
        for its_tops, its_counts in zip(all_tops.tolist(), all_counts.tolist(), strict=True)
        for taken, scale, count in zip(
            _scales(its_tops, its_counts, comm.size), scales, its_counts, strict=True
        )
    )
    total = folds.sum(axis=0)
    if not alike:
        total = comm.allreduce(np.ravel(_folds(flat, tops, scales, threads)), "sum")
    return _values(total.reshape(-1, 2).tolist(), scales, tops), counts


def _values(sums: list[list[int]], scales: list[FixedPoint], tops: list[float]) -> list[float]:
    """Return the values of sums on these grids; NaN where a value is not finite."""
    return [
        scale.value(high, low) if math.isfinite(top) else math.nan
        for scale, (high, low), top in zip(scales, sums, tops, strict=True)
    ]


def _scales(tops: list[float], counts: list[int], shards: int = 1) -> list[FixedPoint]:
    """Return the grids of sums from the largest magnitudes and the counts of values in each of `shards` shards."""
    return [
        fixed_point(top if math.isfinite(top) else 0.0, count * shards)
        for top, count in zip(tops, counts, strict=True)
    ]


def _folds(
    columns: list[NDArray[np.float64]],
    tops: list[float],
    scales: list[FixedPoint],
    threads: Threads,
) -> list[list[int]]:
    """Return the sums of this shard on these grids; zeros where a value is not finite."""
    return [
        threads.run(_fold_all, c, *scale[:3]).tolist() if math.isfinite(top) else [0, 0]
        for c, scale, top in zip(columns, scales, tops, strict=True)
    ]


def reproducible_sum(values: NDArray[np.float64], comm: Communicator | None = None) -> float:
    """Return the sum of `values` over all shards, the same bits for any order, threads or sharding.

    Every value is rounded to a fixed grid, set by the largest magnitude and the number of values over
    *all* shards, and added there as integers. The result differs from the exact sum by less than one
    unit in the last place of the largest value (up to 2^24 values).

    >>> import numpy as np
    >>> x = np.array([1e16, 1.0, -1e16, 2.0])
    >>> float(np.sum(x[::-1])) == float(np.sum(x))
    False
    >>> reproducible_sum(x), reproducible_sum(x[::-1])
    (3.0, 3.0)
    """
    return reproducible_sums([values], comm or SerialCommunicator())[0]
