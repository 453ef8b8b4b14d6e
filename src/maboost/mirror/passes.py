"""Passes over the rows for a step and the shift of its projection: what the next distribution would be.

:class:`EntropyPass` and :class:`EuclideanPass` are the general ones, and :class:`AnyPass` is for all other
regularizers. The rest are short cuts for directions of few values: entries that no cap can reach are known by
their codes alone, and so are those of density zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.ascent import LARGEST_LOG, AscentState, MirrorAscent
from maboost.mirror.coded import (
    Coded,
    entropy_moments,
    euclidean_moments,
    part_of_direction,
    sums_on,
    table_of,
)
from maboost.mirror.exponential import exponentials
from maboost.mirror.generic import NEARBY, capped_rows
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import euclidean_moments_of_rows, means_of_rows, moments_of_rows
from maboost.mirror.projected import part_of
from maboost.mirror.reached import Reached
from maboost.mirror.regularizers import Entropy, Euclidean, Regularizer
from maboost.mirror.supported import Supported
from maboost.runtime.exact_sum import FixedPoint, fixed_point
from maboost.runtime.threads import PICKED

__all__ = ["Pass", "pass_for"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 15
_SHORT = 1 << 14  # entries that are passed over sooner than listed


class Pass(Protocol):
    """What Newton's method asks of one direction.

    Attributes
    ----------
    clipped : bool
        Whether a density was beyond the grid of the last sums.
    by_factors : bool
        Whether a step from here multiplies densities by the factors of their codes, until caps hold them.
    """

    clipped: bool
    by_factors: bool

    def sums(self, step: float, shift: float) -> list[float]:
        """Mass and loss of the next distribution, and the three moments of the Hessian."""


def pass_for(
    ascent: MirrorAscent,
    state: AscentState,
    direction: Array | Coded,
    measure: BaseMeasure,
    l1: float,
) -> Pass | None:
    """The quickest pass for this direction; None where none is quick."""
    domain, coded = ascent.domain, direction if isinstance(direction, Coded) else None
    if domain.source_caps() is not None:  # no one shift leads to the projection
        return None
    entropy, active = type(ascent.regularizer) is Entropy, ascent.update == "active"
    rows, width = measure, 1  # every entry is a row of its own, unless a cap ties some together
    if domain.normalised and not domain.unbounded:
        rows, width = measure.of_rows, measure.width
    if not entropy and type(ascent.regularizer) is not Euclidean:
        caps = domain.row_caps() if domain.normalised else domain.entry_cap()
        return AnyPass(ascent.regularizer, rows, width, caps, state.theta, direction)
    if not (entropy or domain.normalised) and active and coded is not None:  # every entry by itself
        supported = Supported.of(state.density, coded, measure)
        if supported is not None:
            limits = _Limits.of(ascent, supported.density, measure)
            return SupportPass(limits, measure, supported, coded.values - l1)
    limits = _Limits.of(ascent, state.density, rows)
    if not entropy:
        return EuclideanPass(limits, rows, width, state.theta, direction, l1)
    if active and coded is not None and width == 1 and measure.count > _SHORT:
        return NearCapsPass(limits, rows, state.density, coded)
    if not active and width > 1 and measure.maximum(state.theta) > LARGEST_LOG:
        return None  # the shares of entries inside a row would be lost
    powers = ascent.powers(state, measure)
    by_factors = active and (width > 1 or coded is not None)
    return EntropyPass(limits, rows, width, powers, direction, by_factors=by_factors)


class _Limits(NamedTuple):
    """How far densities can go, and the grid of their sums.

    Attributes
    ----------
    caps : array or float
    bound : float
        What lies beyond it does not fit the grid.
    grid : FixedPoint
    """

    caps: Array | float
    bound: float
    grid: FixedPoint

    @classmethod
    def of(cls, ascent: MirrorAscent, density: Array, measure: BaseMeasure) -> _Limits:
        """For steps from this density."""
        domain = ascent.domain
        caps = measure.caps_in_reach(domain.row_caps()) if domain.normalised else domain.entry_cap()
        top, finite = measure.highest_caps(caps)
        highest = max(finite, 1.0)
        if math.isinf(top):
            highest = max(highest, 4.0 * measure.maximum(density))
        bound = 16.0 * highest
        return cls(caps, bound, fixed_point(measure.largest * bound, measure.count))


@dataclass
class _EveryEntry:
    """A pass over all entries; or over all rows of `measure`, where a cap ties `width` entries together."""

    limits: _Limits
    measure: BaseMeasure
    width: int
    clipped: bool = field(default=False, init=False)
    by_factors: bool = field(default=False, kw_only=True)

    def part_sums(self, part: slice, step: float, shift: float) -> Integers:
        """Folded sums over some rows, as :func:`maboost.mirror.coded.euclidean_moments`."""
        raise NotImplementedError

    def sums(self, step: float, shift: float) -> list[float]:
        measure, worth = self.measure, None if self.width == 1 else PICKED
        here = measure.threads.summed(
            measure.entries.size, lambda a, b: self.part_sums(slice(a, b), step, shift), worth
        )
        total = measure.comm.allreduce(here, "sum").tolist()
        self.clipped = total[7] > 0
        return sums_on(self.limits.grid, total)

    def entries_of(self, part: slice) -> slice:
        """The entries of some rows."""
        return slice(part.start * self.width, part.stop * self.width)


@dataclass
class EuclideanPass(_EveryEntry):
    """The Euclidean regularizer, any direction: caps take the same from every entry of a row."""

    theta: Array
    direction: Array | Coded
    l1: float

    def part_sums(self, part: slice, step: float, shift: float) -> Integers:
        limits, entries, base = self.limits, self.entries_of(part), self.measure.base(part)
        theta, d = self.theta[entries], table_of(self.direction, entries)
        caps, bound, grid = part_of(limits.caps, part), limits.bound, limits.grid
        if self.width == 1:
            found = euclidean_moments(
                theta, *d, self.l1, base, caps, step, shift, bound, grid.factors
            )
        else:  # of mass one, where there is no penalty
            found = euclidean_moments_of_rows(
                self.width, theta, *d, step, shift, base, caps, bound, grid[:3]
            )
        return np.array(found, dtype=np.int64)


@dataclass
class EntropyPass(_EveryEntry):
    """Entropy, any direction: densities times the factor of their code, or an exponential of their own.

    A cap divides what it leaves of a row among the entries in proportion to what they would have without it.
    """

    powers: Array
    direction: Array | Coded

    def part_sums(self, part: slice, step: float, shift: float) -> Integers:
        d = self.direction
        if isinstance(d, Coded):
            return self._moments(part, exponentials(step * d.values - shift))
        sums, size = np.zeros(8, dtype=np.int64), max(_BLOCK // self.width, 1)
        for start in range(part.start, part.stop, size):
            block = slice(start, min(start + size, part.stop))
            sums += self._moments(block, exponentials(step * d[self.entries_of(block)] - shift))
        return sums

    def _moments(self, part: slice, factors: Array) -> Integers:
        """The sums, given the factor of each code or entry."""
        limits, entries, base = self.limits, self.entries_of(part), self.measure.base(part)
        start = self.powers[entries], *table_of(self.direction, entries), factors
        within = base, part_of(limits.caps, part), limits.bound
        if self.width == 1:
            found = entropy_moments(*start, *within, limits.grid.factors)
        else:
            found = moments_of_rows(self.width, *start, *within, limits.grid[:3])
        return np.array(found, dtype=np.int64)


@dataclass
class AnyPass:
    """Any regularizer, any direction, over all rows of `width` entries. Slopes are differences: they only steer."""

    regularizer: Regularizer
    measure: BaseMeasure
    width: int
    caps: Array | float
    theta: Array
    direction: Array | Coded
    clipped: bool = field(default=False, init=False)
    by_factors: bool = field(default=False, init=False)

    def sums(self, step: float, shift: float) -> list[float]:
        def columns(part: slice) -> list[Array]:
            with np.errstate(over="ignore", invalid="ignore"):  # here: other threads have their own
                return self._columns(part, step, shift)

        return self.measure.integrals_of(columns, 5)

    def _columns(self, part: slice, step: float, shift: float) -> list[Array]:
        """Of each row the means of u, u d and slope * (1, d, d^2); at a cap only d's distance to its mean moves."""
        shape = part.stop - part.start, self.width
        a, b = part.start * self.width, part.stop * self.width
        d = part_of_direction(self.direction, a, b).reshape(shape)
        x = self.theta[a:b].reshape(shape) + step * d - shift
        u = self.regularizer.point(x)
        caps = np.broadcast_to(part_of(self.caps, part), shape[:1])
        over = _means(u) > caps
        if over.any():
            u = u.copy()
            u[over], x[over] = capped_rows(self.regularizer, x[over], caps[over])
        slopes = np.maximum(self.regularizer.point(x + NEARBY) - u, 0.0) / NEARBY
        moments = [_means(slopes * power) for power in (1.0, d, d * d)]
        if over.any():
            still, mean = moments[0][over], moments[1][over]
            held = np.divide(mean * mean, still, out=np.zeros_like(still), where=still > 0.0)
            moments[2][over] -= held
            moments[0][over] = moments[1][over] = 0.0
        return [_means(u), _means(u * d), *moments]


def _means(rows: Array) -> Array:
    """The mean over the entries of each row."""
    if rows.shape[1] == 1:
        return rows[:, 0]
    means = np.empty(len(rows))
    means_of_rows(rows.reshape(-1), means)
    return means


@dataclass
class NearCapsPass:
    """Entropy under caps, from the projected point: only entries that may reach their caps."""

    limits: _Limits
    measure: BaseMeasure
    density: Array
    coded: Coded
    clipped: bool = field(default=False, init=False)
    by_factors: bool = field(default=True, init=False)
    reached: Reached | None = field(default=None, init=False)

    def sums(self, step: float, shift: float) -> list[float]:
        coded, caps = self.coded, self.limits.caps
        factors = exponentials(step * coded.values - shift)
        if self.reached is None or not self.reached.holds(factors):
            self.reached = Reached.near(factors, coded, self.density, caps, self.measure)
        return self.reached.moments(factors, coded.values, self.measure, self.limits.grid)


@dataclass
class SupportPass:
    """The Euclidean regularizer off the plane of mass one, from a density that is mostly zero."""

    limits: _Limits
    measure: BaseMeasure
    supported: Supported
    values: Array  # of the codes, less the penalty
    clipped: bool = field(default=False, init=False)
    by_factors: bool = field(default=False, init=False)

    def sums(self, step: float, shift: float) -> list[float]:
        limits = self.limits
        assert isinstance(limits.caps, float)
        sums, self.clipped = self.supported.moments(
            step, self.values, limits.caps, limits.bound, self.measure, limits.grid
        )
        return sums
