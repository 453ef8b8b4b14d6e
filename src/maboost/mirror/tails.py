r"""The lowest part of a weighted list, without sorting it.

Three things are a question of this kind: the smallest value of a linear function over a capped
simplex (fill the lowest values up to their caps), the soft margin (the mean of the worst rows), and
which of the lightest rows a learner may be spared.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maboost.comm import fixed_point, split
from maboost.mirror import kernels
from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import BLOCK, blocks, joined, marks_for

__all__ = ["LowerTail", "linear_minimum", "lower_tail"]

Array = NDArray[np.float64]

_BUCKETS = 1024
_SAMPLE = 4096

Grids = tuple[tuple[float, ...], tuple[float, ...]]


class LowerTail(NamedTuple):
    """The lowest values that hold a given weight: all below `level`, and a part of those at it."""

    level: float
    below: float
    integral: float


@njit(nogil=True, cache=True)
def _bucket_sums(values, weights, low, factor, weight_scale, moment_scale, sums):
    """Folded sums of weight and of weight * value by bucket."""
    last = sums.shape[0] - 1
    for i in range(values.size):
        bucket = min(int((values[i] - low) * factor), last)
        high, rest = split(weights[i], weight_scale[0], weight_scale[1], weight_scale[2])
        sums[bucket, 0] += high
        sums[bucket, 1] += rest
        term = weights[i] * values[i]
        high, rest = split(term, moment_scale[0], moment_scale[1], moment_scale[2])
        sums[bucket, 2] += high
        sums[bucket, 3] += rest


@njit(nogil=True, cache=True)
def _in_bucket(values, low, factor, last, chosen, marks):
    for i in range(values.size):
        marks[i] = min(int((values[i] - low) * factor), last) == chosen


def _bucketed(
    values: Array, weights: Array, low: float, factor: float, grids: Grids, measure: BaseMeasure
) -> NDArray[np.int64]:
    """The sums of all buckets over all shards."""

    def work(a: int, b: int) -> NDArray[np.int64]:
        sums = np.zeros((_BUCKETS, 4), dtype=np.int64)
        _bucket_sums(values[a:b], weights[a:b], low, factor, *grids, sums)
        return sums

    sums = np.sum(measure.threads.over(values.size, work), axis=0)
    return measure.comm.allreduce(sums.reshape(-1), "sum").reshape(-1, 4)


def _members(
    values: Array, low: float, factor: float, chosen: int, measure: BaseMeasure
) -> NDArray[np.bool_]:
    """Which values lie in the chosen bucket."""
    marks = np.empty(values.size, dtype=bool)

    def work(a: int, b: int) -> None:
        _in_bucket(values[a:b], low, factor, _BUCKETS - 1, chosen, marks[a:b])

    measure.threads.over(values.size, work)
    return marks


@njit(nogil=True, cache=True)
def _sums_between(values, weights, low, high, weight_scale, moment_scale):
    """Folded sums of weight and of weight * value over values in [low, high)."""
    a, b, c, d = 0, 0, 0, 0
    for i in range(values.size):
        weight = weights[i] if (values[i] >= low) & (values[i] < high) else 0.0
        high_part, rest = split(weight, weight_scale[0], weight_scale[1], weight_scale[2])
        a += high_part
        b += rest
        term = weight * values[i]
        high_part, rest = split(term, moment_scale[0], moment_scale[1], moment_scale[2])
        c += high_part
        d += rest
    return a, b, c, d


@njit(nogil=True, cache=True)
def _mark_between(values, low, high, marks):
    for i in range(values.size):
        marks[i] = (values[i] >= low) & (values[i] < high)


def _bracket(
    values: Array, weights: Array, target: float, count: int, measure: BaseMeasure
) -> tuple[float, float]:
    """Two values that should enclose the level, from a sample of one shard's rows."""
    pick = slice(0, values.size, max(values.size // _SAMPLE, 1))
    some = values[pick]
    order = np.argsort(some)
    ends = np.zeros(2)
    if some.size:
        reached = np.cumsum(weights[pick][order]) * (count / some.size)
        rank = int(np.searchsorted(reached, target))
        blur = 4 + 4 * math.isqrt(rank * (some.size - rank) // some.size)  # standard deviations
        at = np.array([rank - blur, rank + blur])
        ends = some[order[np.clip(at, 0, some.size - 1)]]
        if at[0] < 0:
            ends[0] = -math.inf
        if at[1] >= some.size:
            ends[1] = math.inf
    low, high = measure.comm.broadcast(ends).tolist()
    return low, high


def _bracketed(
    values: Array, weights: Array, low: float, high: float, grids: Grids, measure: BaseMeasure
) -> tuple[NDArray[np.int64], Array]:
    """Sums below `low` and from there to below `high` over all shards; this shard's entries there."""

    def work(a: int, b: int) -> tuple[NDArray[np.int64], list[Array]]:
        sums, found = np.zeros(4, dtype=np.int64), [np.empty((3, 0))]
        marks = marks_for(min(BLOCK, b - a))
        for part, _ in blocks(0.0, a, b):
            sums += _sums_between(values[part], weights[part], -math.inf, low, *grids)
            marks[part.stop - part.start :] = 0
            _mark_between(values[part], low, high, marks)
            found.append(kernels.gather(marks, values[part], weights[part], 0.0))
        return sums, found

    below, found = joined(measure.threads.over(values.size, work))
    inside = _sums_between(found[0], found[1], -math.inf, math.inf, *grids)
    both = np.array([below, inside], dtype=np.int64)
    return measure.comm.allreduce(both.reshape(-1), "sum").reshape(2, 4), found[:2]


def lower_tail(values: Array, weights: Array, target: float, measure: BaseMeasure) -> LowerTail:
    """The lowest `values` holding a weight of `target`: buckets, then buckets of the one that matters.

    Where there are many rows, a sample says first between which values to look; the result does not
    depend on it.

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
    count = int(measure.comm.allreduce(np.array([values.size], dtype=np.int64), "sum")[0])
    low, high = measure.extent(values)
    heaviest = max(measure.maximum(weights), 0.0)
    weight_grid = fixed_point(heaviest, count)
    moment_grid = fixed_point(heaviest * max(abs(low), abs(high)), count)
    grids = weight_grid[:3], moment_grid[:3]
    some, their = np.ascontiguousarray(values), np.ascontiguousarray(weights)
    below = np.zeros(4, dtype=np.int64)
    if count > 16 * _SAMPLE:
        first, last = _bracket(some, their, target, count, measure)
        after = math.nextafter(last, math.inf)
        sums, inside = _bracketed(some, their, first, after, grids, measure)
        if (
            weight_grid.value(*sums[0, :2].tolist())
            < target
            <= weight_grid.value(*sums[:, :2].sum(axis=0).tolist())
        ):
            below, (some, their) = sums[0], inside
            low, high = measure.extent(some)
    while True:
        factor = _BUCKETS / (high - low) if high > low else math.inf
        if not math.isfinite(factor):
            level = low if high == low else high
            break
        sums = _bucketed(some, their, low, factor, grids, measure)
        running = np.cumsum(sums, axis=0) + below
        chosen = bisect_left(
            range(_BUCKETS - 1), target, key=lambda j: weight_grid.value(*running[j, :2].tolist())
        )
        while chosen > 0 and not sums[chosen].any():  # never descend into an empty bucket
            chosen -= 1
        if chosen > 0:
            below = running[chosen - 1]
        marks = _members(some, low, factor, chosen, measure)
        some, their = some[marks], their[marks]
        low, high = measure.extent(some)
    held = weight_grid.value(*below[:2].tolist())
    part = moment_grid.value(*below[2:].tolist())
    return LowerTail(level, held, part + (target - held) * level)


def linear_minimum(
    values: Array, domain: Domain, measure: BaseMeasure, upper: float = math.inf
) -> float:
    r"""The minimum of :math:`\sum_i w_i v_i` over the distributions of `domain`.

    Rows fill up in ascending order, each no further than its cap, and in each row the lowest entries
    first, none above a density of `upper`: the constraints are nested, so greedy is optimal. Off the
    plane of mass one the distributions are all of the simplex.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, CappedSimplex, Simplex
    >>> v, rows = np.array([1.0, 2.0, 3.0, 4.0]), BaseMeasure(np.ones(4))
    >>> linear_minimum(v, Simplex(), rows), linear_minimum(v, CappedSimplex(2.0), rows)
    (1.0, 1.5)
    """
    table = values.reshape(-1, measure.width)
    if math.isinf(upper):
        rows = values if measure.width == 1 else table.min(axis=1)
        if domain.unbounded:
            return measure.minimum(rows)
        room = measure.room(domain.row_caps())
        return lower_tail(rows, room, 1.0, measure).integral
    rank = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1)
    entry = np.minimum(upper * measure.entries, 1.0).reshape(table.shape)
    row = measure.room(domain.row_caps())[:, None]
    room = np.clip(row - rank * entry, 0.0, entry)
    return lower_tail(values, room.reshape(-1), 1.0, measure).integral
