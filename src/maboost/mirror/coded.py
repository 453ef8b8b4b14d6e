"""Directions that take few values.

A tree answers with one number a leaf, so its loss vector takes at most two values a leaf. Knowing
which (a code a row and a short table of values) replaces passes with exponentials by table look-ups,
and some sums over rows by sums over the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.entries import entry_at, value_at, value_part
from maboost.mirror.exponential import exponentials
from maboost.mirror.measure import FEW, BaseMeasure
from maboost.mirror.projected import part_of
from maboost.runtime.exact_sum import BIAS, FixedPoint, fixed_point, split, split_biased
from maboost.runtime.kernels import kernel
from maboost.runtime.threads import PICKED

__all__ = [
    "Coded",
    "advance",
    "advance_entries",
    "leaf_codes",
    "mass_grid",
    "part_of_direction",
    "table_of",
    "whole_direction",
]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_STRIP = 512  # rows whose terms stay in the first cache
_MANY = 64  # sums, from which on to find their values at once takes less time
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@kernel
def advance_entries(start, values, codes, step, less, shift, out):
    """Out = start + step * (d - less) - shift, for a direction as :func:`table_of` tells it."""
    for i in range(start.size):
        out[i] = start[i] + (step * (entry_at(values, codes, i) - less) - shift)


@kernel
def _mass_by_code(density, base, codes, scale, sums):
    """Folded sums of base * density by code, in four interleaved tables.

    Neighbouring rows often share a code; separate tables spare each add the wait for the last one. The
    terms of a strip are computed before any is added, so that computing them vectorises.
    """
    highs, lows = np.empty(_STRIP, np.int64), np.empty(_STRIP, np.int64)
    flat, table = sums.reshape(-1), np.uint64(2 * sums.shape[1])
    for start in range(0, codes.size, _STRIP):
        u = value_part(density, start, start + _STRIP)
        weight = value_part(base, start, start + _STRIP)
        code = codes[start : start + _STRIP]
        for i in range(code.size):
            mass = value_at(weight, i) * value_at(u, i)
            highs[i], lows[i] = split(mass, scale[0], scale[1], scale[2])
        for i in range(code.size):
            at = (np.uint64(i) & _THREE) * table + _TWO * code[i]
            flat[at] += highs[i]
            flat[at + _ONE] += lows[i]


def mass_grid(measure: BaseMeasure, total: float = 1.0) -> FixedPoint:
    """The grid of masses of some entries, where that of all is `total`."""
    return fixed_point(2.0 * total, measure.count)


def values_on(grid: FixedPoint, pairs: Integers) -> Array:
    """What sums of two parts stand for; most codes may be nobody's."""
    found = np.zeros(len(pairs))
    held = np.flatnonzero(pairs.any(axis=1))
    if held.size > _MANY:
        found[held] = grid.values(*pairs[held].T)
    else:
        found[held] = [grid.value(*pair) for pair in pairs[held].tolist()]
    return found


def sums_on(grid: FixedPoint, folded: list[int]) -> list[float]:
    """What two sums of two parts, and three of which the high part is known, stand for."""
    coarse = [grid.value(high, 0) for high in folded[4:7]]
    return [grid.value(*folded[:2]), grid.value(*folded[2:4]), *coarse]


def mass_by_code(
    density: Array | float,
    base: Array | float,
    codes: NDArray[np.unsignedinteger],
    count: int,
    grid: FixedPoint,
) -> Integers:
    """Sums of base * density over the entries of each of `count` codes, as pairs of integers."""
    sums = np.zeros((4, count, 2), dtype=np.int64)
    _mass_by_code(density, base, codes, grid[:3], sums)
    joined: Integers = sums.sum(axis=0)
    return joined


@kernel
def leaf_codes(leaves, labels, classes, out):
    """The codes of all entries, as many a row as there are wrong classes: by leaf, label and entry."""
    if classes == 2:  # so simple that it vectorises
        for i in range(leaves.size):
            out[i] = 2 * leaves[i] + labels[i]
        return
    width = classes - 1
    for i in range(leaves.size):
        first = (np.int64(leaves[i]) * classes + labels[i]) * width
        for j in range(width):
            out[i * width + j] = first + j


@kernel
def _look_up(values, codes, out):
    for i in range(codes.size):
        out[i] = values[codes[i]]


@kernel
def entropy_moments(p, values, codes, factors, base, caps, bound, scale):
    """Sums over weights w = base * min(cap, p * factor): of w and w*d folded, and coarse ones of
    (1, d, d^2) * w over free entries; and how many lie beyond `bound`: eight integers.

    The coarse ones only steer Newton's method, so their high parts are enough.
    """
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(p.size):
        d, u = entry_at(values, codes, i), p[i] * entry_at(factors, codes, i)
        cap = min(value_at(caps, i), bound)
        free = u < cap
        beyond += (not free) & (cap == bound)
        w = value_at(base, i) * (u if free else cap)
        high, low = split_biased(w, scale[0], 1.0, scale[1])
        m_high += high
        m_low += low
        h0 += high if free else BIAS
        w *= d
        high, low = split_biased(w, scale[0], 1.0, scale[1])
        l_high += high
        l_low += low
        h1 += high if free else BIAS
        high, low = split_biased(w * d, scale[0], 1.0, scale[1])
        h2 += high if free else BIAS
    bias = p.size * BIAS
    m_high, m_low, l_high, l_low = m_high - bias, m_low - bias, l_high - bias, l_low - bias
    return m_high, m_low, l_high, l_low, h0 - bias, h1 - bias, h2 - bias, beyond


@kernel
def euclidean_moments(theta, values, codes, less, base, caps, step, shift, bound, scale):
    """Sums over the weights at the end of a step, as :func:`entropy_moments`.

    The moving ones are the base measure of entries between zero and their cap.
    """
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(theta.size):
        d = entry_at(values, codes, i) - less
        x, cap = theta[i] + step * d - shift, value_at(caps, i)
        moving = value_at(base, i) if (x > 0.0) & (x < cap) else 0.0
        x = min(max(x, 0.0), cap)
        beyond += x > bound
        w = value_at(base, i) * min(x, bound)
        high, low = split_biased(w, scale[0], 1.0, scale[1])
        m_high += high
        m_low += low
        high, low = split_biased(w * d, scale[0], 1.0, scale[1])
        l_high += high
        l_low += low
        high, low = split_biased(moving, scale[0], 1.0, scale[1])
        h0 += high
        high, low = split_biased(moving * d, scale[0], 1.0, scale[1])
        h1 += high
        high, low = split_biased(moving * d * d, scale[0], 1.0, scale[1])
        h2 += high
    bias = theta.size * BIAS
    m_high, m_low, l_high, l_low = m_high - bias, m_low - bias, l_high - bias, l_low - bias
    return m_high, m_low, l_high, l_low, h0 - bias, h1 - bias, h2 - bias, beyond


@dataclass(frozen=True)
class Coded:
    """A direction as ``values[codes]``.

    Attributes
    ----------
    values : array of shape (n_codes,)
    codes : integer array of shape (entries,)
    """

    values: Array
    codes: NDArray[np.unsignedinteger]
    _known: list[tuple[Array, Array]] = field(default_factory=list, repr=False, compare=False)

    @property
    def count(self) -> int:
        """Codes there are."""
        return len(self.values)

    @property
    def size(self) -> int:
        """Entries of this shard."""
        return int(self.codes.size)

    def part(self, a: int, b: int) -> Array:
        """Entries a to b of the direction itself."""
        out = np.empty(b - a)
        _look_up(self.values, self.codes[a:b], out)
        return out

    def __neg__(self) -> Coded:
        return Coded(-self.values, self.codes)

    def masses(self, density: Array, measure: BaseMeasure, total: float = 1.0) -> Array:
        """The integral of `density` over the entries of each code, over all shards.

        `total` is its integral over all entries, so that no term is larger. Kept for the last density:
        its edge and its corrective step ask for the same.
        """
        if self._known and self._known[0][0] is density:
            return self._known[0][1]
        grid, support = mass_grid(measure, total), measure.support(density)

        def work(a: int, b: int) -> Integers:
            its = part_of(base, slice(a, b))
            return mass_by_code(some[a:b], its, codes[a:b], self.count, grid)

        some, codes, base, worth = density, self.codes, measure.base(slice(None)), None
        if support.count <= FEW * self.codes.size:
            some, codes = support.of(density), support.of(self.codes)
            base, worth = measure.base(support.places), PICKED
        sums = measure.threads.summed(codes.size, work, worth)
        pairs = measure.comm.allreduce(sums.reshape(-1), "sum").reshape(-1, 2)
        found = values_on(grid, pairs)
        self._known[:] = [(density, found)]
        return found

    def log_mean_exp(self, factor: float, density: Array, measure: BaseMeasure) -> float:
        """The logarithm of the integral of e^(factor * direction) under a density of mass one."""
        masses = self.masses(density, measure)
        held = masses > 0.0  # others may be so far above these that none would be left
        masses, x = masses[held], factor * self.values[held]
        top = float(np.max(x))
        return top + math.log(math.fsum(masses * exponentials(x - top)))


def advance(
    start: Array,
    direction: Array | Coded,
    part: slice,
    step: float,
    out: Array,
    less: float = 0.0,
    shift: float = 0.0,
) -> None:
    """Some entries of ``out = start + step * (direction - less) - shift``; `out` may be `start`."""
    advance_entries(start[part], *table_of(direction, part), step, less, shift, out[part])


def table_of(
    direction: Array | Coded, part: slice
) -> tuple[Array, NDArray[np.unsignedinteger] | None]:
    """Some entries of a direction as kernels read them, by :func:`maboost.mirror.entries.entry_at`."""
    if isinstance(direction, Coded):
        return direction.values, direction.codes[part]
    return direction[part], None


def part_of_direction(direction: Array | Coded, a: int, b: int) -> Array:
    """Entries a to b of a direction, coded or not."""
    return direction.part(a, b) if isinstance(direction, Coded) else direction[a:b]


def whole_direction(direction: Array | Coded) -> Array:
    """All entries of a direction, coded or not."""
    return part_of_direction(direction, 0, direction.size)
