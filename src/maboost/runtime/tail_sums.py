"""The lowest part of a weighted list, found without sorting it.

The callers are the soft margin (the mean of the worst rows), the choice of light rows that are hidden from the
learner, and the choice of held-out rows.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.runtime import thresholds
from maboost.runtime.communicator import Communicator, SerialCommunicator, by_rank, sums_of_all
from maboost.runtime.entries import value_at
from maboost.runtime.exact_sum import (
    BIAS,
    FixedPoint,
    fixed_point,
    fold,
    split,
    split_biased,
    value_of,
)
from maboost.runtime.extremes import extent as ends_of
from maboost.runtime.kernels import kernel
from maboost.runtime.messages import pooled
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots
from maboost.runtime.selection import list_marked, marked_entries, marks_for
from maboost.runtime.threads import Threads

__all__ = ["TIE", "LowerTail", "guessed_bracket", "lower_tail"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_BUCKETS = 1024
_DEVIATIONS = 3  # of a rank in a sample; a rare miss falls back to buckets of all values
TIE = 1e-12  # of a target: a sum within it meets the target, however it is rounded
_LEAST = 1 << 12  # values of a chunk

Grids = tuple[tuple[float, ...], tuple[float, ...]]


class Entries(Protocol):
    """The entries of one shard, as :class:`maboost.mirror.BaseMeasure` has them."""

    comm: Communicator
    threads: Threads
    count: int

    @property
    def entries(self) -> Array: ...


class LowerTail(NamedTuple):
    """The lowest values that hold a given weight: all values below `level`, and a part of those at it."""

    level: float
    below: float
    integral: float


@kernel
def _bucket(value, low, factor, last):
    """Return the bucket of a value, clipped to 0 and `last`."""
    place = (value - low) * factor
    return int(min(place, float(last))) if place > 0.0 else 0


@kernel
def _add_to_buckets(
    values, weights, low, factor, weight_scale, moment_scale, sums, size, chunk, slot
):
    mine = sums[slot]
    last = mine.shape[0] - 1
    for i in range(chunk * size, min((chunk + 1) * size, values.size)):
        bucket, weight = _bucket(values[i], low, factor, last), value_at(weights, i)
        high, rest = split(weight, weight_scale[0], weight_scale[1], weight_scale[2])
        mine[bucket, 0] += high
        mine[bucket, 1] += rest
        term = weight * values[i]
        high, rest = split(term, moment_scale[0], moment_scale[1], moment_scale[2])
        mine[bucket, 2] += high
        mine[bucket, 3] += rest


@kernel
def _bucket_sums(team, values, weights, low, factor, weight_scale, moment_scale, buckets):
    """Return fixed-point sums of weight and of weight * value by bucket."""
    chunks, size = chunks_of(team, values.size, 4 * _LEAST)
    sums = np.zeros((slots(team) if chunks > 1 else 1, buckets, 4), dtype=np.int64)
    parallel_for(
        team,
        chunks,
        _add_to_buckets,
        (values, weights, low, factor, weight_scale, moment_scale, sums, size),
    )
    total = sums[0]
    for slot in range(1, sums.shape[0]):
        total += sums[slot]
    return total


@kernel
def _running_sums(values, weights, weight_scale, moment_scale, sums):
    """Write running sums of weight and of weight * value; `sums` has one more row, the first."""
    for i in range(values.size):
        high, rest = split(weights[i], weight_scale[0], weight_scale[1], weight_scale[2])
        sums[i + 1, 0] = sums[i, 0] + high
        sums[i + 1, 1] = sums[i, 1] + rest
        term = weights[i] * values[i]
        high, rest = split(term, moment_scale[0], moment_scale[1], moment_scale[2])
        sums[i + 1, 2] = sums[i, 2] + high
        sums[i + 1, 3] = sums[i, 3] + rest


@kernel
def _in_bucket(values, low, factor, last, chosen, marks):
    """Mark the values in the chosen bucket; return the smallest and the largest of them."""
    least, most = np.inf, -np.inf
    for i in range(values.size):
        marks[i] = _bucket(values[i], low, factor, last) == chosen
        if marks[i]:
            least, most = min(least, values[i]), max(most, values[i])
    return least, most


@kernel
def _below(
    values, weights, low, high, weight_scale, moment_scale, size, marks, counts, sums, chunk, slot
):
    """Add sums of weight and of weight * value below `low`; mark the values from there to below `high`."""
    a, b, c, d, n, first = 0, 0, 0, 0, 0, chunk * size
    last = min(first + size, values.size)
    for i in range(first, last):
        below = values[i] < low
        weight = value_at(weights, i) if below else 0.0
        high_part, rest = split_biased(weight, weight_scale[0], weight_scale[1], weight_scale[2])
        a += high_part
        b += rest
        term = weight * values[i]
        high_part, rest = split_biased(term, moment_scale[0], moment_scale[1], moment_scale[2])
        c += high_part
        d += rest
        inside = (not below) & (values[i] < high)
        marks[i] = inside
        n += inside
    bias, mine = (last - first) * BIAS, sums[slot]
    mine[0] += a - bias
    mine[1] += b - bias
    mine[2] += c - bias
    mine[3] += d - bias
    counts[chunk] = n


@kernel
def _classify(team, values, weights, low, high, weight_scale, moment_scale):
    """Return the sums of :func:`_below`, and the entries that it marks."""
    chunks, size = chunks_of(team, values.size, _LEAST)
    marks, counts = marks_for(values.size), np.empty(chunks, dtype=np.int64)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(
        team,
        chunks,
        _below,
        (values, weights, low, high, weight_scale, moment_scale, size, marks, counts, sums),
    )
    rows = list_marked(team, marks, counts, size)
    return folded_slots(sums)[:4], marked_entries(team, rows, values, weights, 0.0)


@kernel
def _lowest_at_rank(values, level):
    """Return the number of values below a level, and the values below it with zeros for all others."""
    count, lower = 0, np.zeros(values.size)
    for i in range(values.size):
        if values[i] < level:
            count += 1
            lower[i] = values[i]
    return count, lower


@kernel
def _rank_at(target, high, low, more, rest, count, unit, exponent):
    """How many values of one weight precede the one at which a folded weight reaches `target`; `count` at most."""
    first, last = 0, count
    while first < last:
        j = (first + last) // 2
        if value_of(high + (j + 1) * more, low + (j + 1) * rest, unit, exponent) < target:
            first = j + 1
        else:
            last = j
    return first


class _Open(NamedTuple):
    """The entries among which the level lies.

    Attributes
    ----------
    values, weights : arrays
        This shard's (`weights` is one number if all are equal), or all shards' if `comm` is serial.
    low, high : float
        The extent of the values over all shards.
    below : array
        Folded sums, over all shards, of the entries below this range.
    comm : Communicator
    """

    values: Array
    weights: Array | float
    low: float
    high: float
    below: Integers
    comm: Communicator


@dataclass(frozen=True)
class _Search:
    """The search for the level at which the weight reaches `target`; each step takes at most two messages."""

    target: float
    weight_grid: FixedPoint
    moment_grid: FixedPoint
    threads: Threads

    def weight(self, sums: Integers) -> float:
        return self.weight_grid.value(*sums[:2].tolist())

    @property
    def grids(self) -> Grids:
        return self.weight_grid[:3], self.moment_grid[:3]

    def at_rank(self, part: _Open, weight: float) -> _Open:
        """Return the range of the level alone, from its rank: all weights are equal and one shard holds all values."""
        each, grid = self._folded_weight(weight), self.weight_grid
        rank = _rank_at(
            self.target, *part.below[:2], *each[:2], part.values.size - 1, grid.low, grid.exponent
        )
        level, none = _smallest(part.values, rank), part.values[:0]
        count, lower = _lowest_at_rank(part.values, level)
        below = count * each
        below[2:] = fold(weight * lower, *self.moment_grid[:3])
        return _Open(none, none, level, level, part.below + below, part.comm)

    def bracketed(self, whole: _Open, first: float, last: float) -> _Open | None:
        """Return the bucket between two values that holds the level; None if the level lies elsewhere."""
        below, found = self._between(whole, first, math.nextafter(last, math.inf))
        inside = whole._replace(values=found[0], weights=found[1], low=first, high=last)
        weight = _same_weight(found[0], whole.weights, whole.comm)
        if weight is not None:
            if not self._reached(below, found[0].size * self._folded_weight(weight)):
                return None
            return self.at_rank(inside._replace(below=below, weights=weight), weight)
        factor = _BUCKETS / (last - first) if last > first else 0.0
        factor = factor if math.isfinite(factor) else 0.0
        below, sums = sums_of_all([below, self._bucketed(inside, factor)], whole.comm)
        if not self._reached(below, sums.sum(axis=0)):
            return None
        return self._chosen(inside._replace(below=below), factor, sums)

    def closed(self, part: _Open) -> _Open:
        """Narrow the range to the level alone, or to values too close to separate."""
        while part.high > part.low:
            if part.comm.size == 1 and part.values.size <= thresholds.SORTED:
                return self.by_sorting(part)
            factor = _BUCKETS / (part.high - part.low)
            if math.isinf(factor):
                break
            part = self.narrowed(part, factor)
        return part

    def narrowed(self, part: _Open, factor: float) -> _Open:
        """Return the bucket that holds the level."""
        (sums,) = sums_of_all([self._bucketed(part, factor)], part.comm)
        return self._chosen(part, factor, sums)

    def by_sorting(self, part: _Open) -> _Open:
        """Return the range of the level alone, by sorting the values that remain, which one shard holds."""
        order = np.argsort(part.values)
        values, weights = part.values[order], _each(part.weights, part.values)[order]
        sums = np.empty((values.size + 1, 4), dtype=np.int64)
        sums[0] = part.below
        _running_sums(values, weights, *self.grids, sums)
        reached = bisect_left(
            range(values.size), self.target, key=lambda j: self.weight(sums[j + 1])
        )
        if (
            reached == values.size
        ):  # the target is not reached: the largest value of positive weight
            filled = np.flatnonzero(np.diff(sums, axis=0).any(axis=1))
            reached = int(filled[-1]) if filled.size else 0
        level = float(values[reached])
        below = sums[np.searchsorted(values, level)]
        return _Open(values[:0], values[:0], level, level, below, part.comm)

    def _reached(self, below: Integers, more: Integers) -> bool:
        """Return whether the weight reaches the target with `more` but not without."""
        return self.weight(below) < self.target <= self.weight(below + more)

    def _folded_weight(self, weight: float) -> Integers:
        """Return the folded sums of one value of this weight; the part for weight * value is zero."""
        return np.array([*split(weight, *self.weight_grid[:3]), 0, 0], dtype=np.int64)

    def _between(self, whole: _Open, low: float, high: float) -> tuple[Integers, Array]:
        """Return this shard's sums below `low`, and its entries in [low, high)."""
        values, weights = whole.values, whole.weights

        found: tuple[Integers, Array] = self.threads.run(
            _classify, values, weights, low, high, *self.grids
        )
        return found

    def _bucketed(self, part: _Open, factor: float) -> Integers:
        """Return the sums of this shard by bucket."""
        found: Integers = self.threads.run(
            _bucket_sums, part.values, part.weights, part.low, factor, *self.grids, _BUCKETS
        )
        return found

    def _chosen(self, part: _Open, factor: float, sums: Integers) -> _Open:
        """Return the bucket in which these sums reach the target; with the entries of all shards if they are few."""
        running = np.cumsum(sums, axis=0) + part.below
        chosen = bisect_left(
            range(_BUCKETS - 1), self.target, key=lambda j: self.weight(running[j])
        )
        # never descend into an empty bucket
        filled = np.flatnonzero(sums[: chosen + 1].any(axis=1))
        chosen = int(filled[-1]) if filled.size else 0
        below = running[chosen - 1] if chosen > 0 else part.below
        marks, ends = self._members(part, factor, chosen)
        if part.comm.size == 1 and -ends[0] == ends[1]:
            none = np.empty(0)  # all values are equal, as margins of short trees often are
            return _Open(none, none, ends[1], ends[1], below, part.comm)
        weights = _each(part.weights, part.values)
        held = np.stack([part.values[marks], weights[marks]])
        headers, everyone = pooled(np.array(ends).view(np.int64), held, part.comm)
        low, high = headers.view(np.float64).max(axis=0).tolist()
        if everyone is not None:
            return _Open(everyone[0], everyone[1], -low, high, below, SerialCommunicator())
        return _Open(held[0], held[1], -low, high, below, part.comm)

    def _members(
        self, part: _Open, factor: float, chosen: int
    ) -> tuple[NDArray[np.bool_], tuple[float, float]]:
        """Return a mask of this shard's values in the chosen bucket, minus their smallest and their largest."""
        values, marks = part.values, np.empty(part.values.size, dtype=bool)
        least, most = _in_bucket(values, part.low, factor, _BUCKETS - 1, chosen, marks)
        return marks, (-least, most)


def _same_weight(values: Array, weights: Array | float, comm: Communicator) -> float | None:
    """Return the common weight if all values share one and fit in this shard; otherwise None."""
    few = comm.size == 1 and 0 < values.size <= thresholds.RANKED
    return weights if few and isinstance(weights, float) and weights > 0.0 else None


def _smallest(values: Array, rank: int) -> float:
    """Return the value of this rank."""
    return float(np.partition(values, rank)[rank])


def _each(weights: Array | float, values: Array) -> Array:
    """Return a weight for every value."""
    return weights if isinstance(weights, np.ndarray) else np.full(len(values), weights)


def guessed_bracket(
    values: Array, weights: Array | float, target: float, count: float
) -> tuple[float, float]:
    """Return two values that should enclose the level, from a sample of this shard's rows out of `count`."""
    pick = slice(0, values.size, max(values.size // thresholds.SAMPLED, 4))
    some, theirs = values[pick], weights[pick] if isinstance(weights, np.ndarray) else weights
    each = count / some.size  # rows that a sampled row stands for
    if isinstance(theirs, float):
        rank = min(max(math.ceil(target / (theirs * each)) - 1, 0), some.size)
    else:
        order = np.argsort(some)
        some = some[order]
        rank = int(np.searchsorted(np.cumsum(theirs[order]) * each, target))
    blur = _DEVIATIONS * (1 + math.isqrt(rank * (some.size - rank) // some.size))
    low, high = rank - blur, rank + blur
    if isinstance(theirs, float):
        some = np.partition(some, [max(low, 0), min(high, some.size - 1)])
    return (
        float(some[low]) if low >= 0 else -math.inf,
        float(some[high]) if high < some.size else math.inf,
    )


def _ends(
    values: Array,
    weights: Array | float,
    threads: Threads,
    heaviest: float | None,
    extent: tuple[float, float] | None,
) -> list[float]:
    """Return minus the smallest value, the largest value and the largest weight of a shard, unless they are given."""
    least, most = extent or ends_of(values, threads)
    if heaviest is None:
        heaviest = weights if isinstance(weights, float) else ends_of(weights, threads)[1]
    return [-least, most, heaviest]


def lower_tail(
    values: Array,
    weights: Array | float,
    target: float,
    measure: Entries,
    heaviest: float | None = None,
    extent: tuple[float, float] | None = None,
) -> LowerTail:
    """Return the tail of the lowest `values` whose weight is `target`.

    The search counts values in buckets, then divides the bucket that holds the level. If there are many rows, a
    sample of one shard first gives a range for the level; the result does not depend on it. A float as `weights`
    is the weight of every value. Optional knowledge that saves passes: `heaviest` bounds the weights, `extent` is
    the smallest and the largest value, both over all shards.

    Returns
    -------
    LowerTail
        `level`: the smallest value such that the weight of values up to it reaches `target` (the
        largest value of positive weight where it never does); `below`: the weight strictly below it;
        `integral`: the sum of weight * value over the tail, the boundary taken fractionally.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure
    >>> rows = BaseMeasure(np.ones(3))
    >>> lower_tail(np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.5]), 0.75, rows)
    LowerTail(level=2.0, below=0.5, integral=1.0)
    """
    some = np.ascontiguousarray(values)
    their = weights if isinstance(weights, float) else np.ascontiguousarray(weights)
    same = _same_weight(some, their, measure.comm)
    between = -math.inf, math.inf
    if some.size and measure.count > 4 * thresholds.SORTED:
        between = guessed_bracket(
            some, their, target, measure.count * some.size / measure.entries.size
        )
    ends = _ends(some, their, measure.threads, heaviest, extent)
    table = by_rank(np.array([some.size, *ends, *between]), measure.comm)
    low, high, heavy = table[:, 1:4].max(axis=0).tolist()
    low, heavy, count = -low, max(heavy, 0.0), int(table[:, 0].sum())
    if math.isinf(high - low) and math.isfinite(low) and math.isfinite(high):
        # buckets of the full range would have infinite width, so halve the values
        known = None if extent is None else (0.5 * low, 0.5 * high)
        half = lower_tail(0.5 * some, their, target, measure, heaviest, known)
        return LowerTail(2.0 * half.level, half.below, 2.0 * half.integral)
    weight_grid = fixed_point(heavy, count)
    moment_grid = fixed_point(heavy * max(abs(low), abs(high)), count)
    search = _Search(target, weight_grid, moment_grid, measure.threads)
    part = _Open(some, their, low, high, np.zeros(4, dtype=np.int64), measure.comm)
    found = None
    if count > 4 * thresholds.SORTED:
        first, last = table[np.argmax(table[:, 0]), 4:].tolist()
        found = search.bracketed(part, max(first, low), min(last, high))
    if found is None:
        found = part if same is None else search.at_rank(part, same)
    part = search.closed(found)
    level = part.low if part.high == part.low else part.high
    held = search.weight(part.below)
    moment = moment_grid.value(*part.below[2:].tolist())
    return LowerTail(level, held, moment + (target - held) * level)
