"""A step and its projection in one pass, where nothing is left to search for.

Newton's method finds the shift of a projection under caps, without caps the masses of codes tell it, and off
the plane of mass one there is none. Where every entry of the next density is known beforehand so, one pass
writes it. Under caps its sums tell whether it has the mass it should have; without them it is known beforehand
how far from one it can be.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.coded import Coded, advance, advance_entries, mass_grid, table_of
from maboost.mirror.entries import some_entries, value_at, value_part
from maboost.mirror.exponential import exponentials_into
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import ROUNDING, part_of
from maboost.runtime.exact_sum import BIAS, fixed_point, split_biased, split_wide
from maboost.runtime.kernels import kernel

__all__ = ["Ahead", "Arrived", "Potentials", "capped_powers", "positive_parts", "powers"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_STRIP = 1024  # entries that stay in the first cache from one loop to the next
_LOST = 1e-12  # of a mass of one, at most: mostly it is far less


class Ahead(NamedTuple):
    """The dual point ``start + step * (direction - less) - shift``, still to be written."""

    start: Array
    direction: Array | Coded
    step: float
    less: float
    shift: float

    def written(self, measure: BaseMeasure) -> Array:
        """All of it."""
        start, direction, step, less, shift = self
        out = measure.array()

        def work(a: int, b: int) -> None:
            advance(start, direction, slice(a, b), step, out, less, shift)

        measure.threads.over(out.size, work)
        return out


class Potentials(NamedTuple):
    """Integrals of theta u - phi(u), of dual u - phi(u), and of u, the density of a projection."""

    theta: float
    dual: float
    mass: float


class Arrived(NamedTuple):
    """The projection of a dual point, its own dual point, and the potentials there."""

    density: Array
    dual: Array
    potentials: Potentials


def _rise(direction: Coded, step: float, less: float, shift: float) -> float:
    """How far the entry goes up that goes furthest."""
    return step * (float(direction.values.max()) - less) - shift


@kernel
def _powers(start, values, codes, step, less, shift, theta, p):
    """Theta = start + step * (d - less) - shift, and its exponentials."""
    for a in range(0, start.size, _STRIP):
        b = min(a + _STRIP, start.size)
        some, their = some_entries(values, codes, a, b)
        advance_entries(start[a:b], some, their, step, less, shift, theta[a:b])
        exponentials_into(theta[a:b], p[a:b])


def powers(ahead: Ahead, measure: BaseMeasure) -> Arrived | None:
    """Entropy on the simplex, with the shift that the masses of codes tell: e^theta, whose dual point is theta.

    None where they do not tell it well: what their grid loses grows as much as the entry that grows most.
    """
    start, direction, *way = ahead
    if not isinstance(direction, Coded):
        return None
    if _rise(direction, *way) > math.log(_LOST / mass_grid(measure).blur(measure.count)):
        return None
    theta, p = measure.array(), measure.array()

    def work(a: int, b: int) -> None:
        _powers(start[a:b], *table_of(direction, slice(a, b)), *way, theta[a:b], p[a:b])

    measure.threads.over(p.size, work)
    return Arrived(p, theta, Potentials(0.0, 0.0, 1.0))


@kernel
def _capped(p, theta, caps, tops, base, of_mass, of_excess, sums):
    """Where p = e^theta reaches its cap it becomes the cap, and theta its logarithm, top.

    Adds folded sums: of base * p, and of base * cap * (theta - top) over capped entries.
    """
    a, b, c, d = 0, 0, 0, 0
    for i in range(p.size):
        cap, top = value_at(caps, i), value_at(tops, i)
        over = p[i] >= cap
        u = cap if over else p[i]
        high, low = split_biased(value_at(base, i) * u, of_mass[0], 1.0, of_mass[1])
        a += high
        b += low
        excess = value_at(base, i) * cap * (theta[i] - top) if over else 0.0
        high, low = split_biased(excess, of_excess[0], 1.0, of_excess[1])
        c += high
        d += low
        theta[i] = top if over else theta[i]
        p[i] = u
    bias = p.size * BIAS
    sums[0] += a - bias
    sums[1] += b - bias
    sums[2] += c - bias
    sums[3] += d - bias


@kernel
def _capped_powers(
    start, values, codes, step, less, shift, caps, tops, base, of_mass, of_excess, theta, p
):
    """:func:`_powers` and :func:`_capped`, while entries are in the first cache."""
    sums = np.zeros(4, dtype=np.int64)
    for a in range(0, start.size, _STRIP):
        b = min(a + _STRIP, start.size)
        some, their = some_entries(values, codes, a, b)
        advance_entries(start[a:b], some, their, step, less, shift, theta[a:b])
        exponentials_into(theta[a:b], p[a:b])
        _capped(
            p[a:b], theta[a:b], value_part(caps, a, b), value_part(tops, a, b),
            value_part(base, a, b), of_mass, of_excess, sums,
        )  # fmt: skip
    return sums


def capped_powers(ahead: Ahead, caps: Array | float, measure: BaseMeasure) -> Arrived | None:
    """Entropy and caps on entries: min(cap, e^theta), if that has a mass of one.

    Where log u = theta, theta u - phi(u) = u - 1; on capped entries there is what lies above them. No entry
    was above its cap before the step, so none is further above it than the step goes, and where there is no
    cap none had a mass above one.
    """
    start, direction, *way = ahead
    if not isinstance(direction, Coded):
        return None
    highest, finite = measure.highest_caps(caps)
    rise = max(_rise(direction, *way), 0.0)
    heaviest = min(measure.largest * highest, 2.0 * math.exp(min(rise, 700.0)))
    of_mass = fixed_point(heaviest, measure.count)
    of_excess = fixed_point(measure.largest * finite * rise, measure.count)
    if max(of_mass.blur(measure.count), of_excess.blur(measure.count)) > ROUNDING:
        return None
    theta, p = measure.array(), measure.array()
    tops = measure.log_caps(caps)

    def work(a: int, b: int) -> Integers:
        part = slice(a, b)
        found: Integers = _capped_powers(
            start[part], *table_of(direction, part), *way, part_of(caps, part), part_of(tops, part),
            measure.base(part), of_mass.factors, of_excess.factors, theta[part], p[part],
        )  # fmt: skip
        return found

    sums = measure.comm.allreduce(measure.threads.summed(p.size, work), "sum").tolist()
    if abs(of_mass.value(*sums[:2]) - 1.0) > ROUNDING:
        return None
    return Arrived(p, theta, Potentials(of_excess.value(*sums[2:]), 0.0, 1.0))


@kernel
def _positive(theta, base, scale, low, out, sums):
    """Out = max(theta, 0); adds folded sums as of :func:`maboost.runtime.exact_sum.fold_wide`: of half its square, and of it."""
    a0, a1, a2, b0, b1, b2, unfit = 0, 0, 0, 0, 0, 0, 0
    for i in range(theta.size):
        u = max(theta[i], 0.0)
        out[i] = u
        mass = value_at(base, i) * u
        x, y, z, bad = split_wide(0.5 * mass * u, scale, low)
        a0 += x
        a1 += y
        a2 += z
        unfit += bad
        x, y, z, bad = split_wide(mass, scale, low)
        b0 += x
        b1 += y
        b2 += z
        unfit += bad
    bias = theta.size * BIAS
    sums[0] += a0 - bias
    sums[1] += a1 - bias
    sums[2] += a2 - bias
    sums[3] += unfit
    sums[4] += b0 - bias
    sums[5] += b1 - bias
    sums[6] += b2 - bias


@kernel
def _positive_parts(start, values, codes, step, less, shift, base, scale, low, out):
    sums, theta = np.zeros(8, dtype=np.int64), np.empty(_STRIP)
    for a in range(0, start.size, _STRIP):
        b = min(a + _STRIP, start.size)
        some, their = some_entries(values, codes, a, b)
        advance_entries(start[a:b], some, their, step, less, shift, theta[: b - a])
        _positive(theta[: b - a], value_part(base, a, b), scale, low, out[a:b], sums)
    return sums


def positive_parts(ahead: Ahead, measure: BaseMeasure) -> Arrived | None:
    """The Euclidean regularizer on the orthant: the positive part, which is its own dual point.

    None where the sums do not fit their grid.
    """
    out, grid = measure.array(), measure.grid.factors
    start, direction, *way = ahead

    def work(part: slice) -> Integers:
        found: Integers = _positive_parts(
            start[part], *table_of(direction, part), *way, measure.base(part), *grid, out[part]
        )
        return found

    found = measure.folded(work)
    if found is None:
        return None
    return Arrived(out, out, Potentials(found[0], found[0], found[1]))
