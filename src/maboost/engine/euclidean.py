r"""The Euclidean regularizer: steps add to densities, projections shift and clip them.

The projection of :math:`\theta` on distributions is :math:`u_i = \mathrm{clip}(\theta_i - \tau, 0, k_i)` with the
shift that makes the mass one. The mass is piecewise linear and decreasing in :math:`\tau`; a safeguarded Newton
method finds its root. The first pass adds up the entries whose place is the same over a bracket of :math:`\tau`,
and lists the few others.

With several entries a row and a cap on their mean, :math:`u_{ij} = \max(\theta_{ij} - \max(\tau, \tau_i),
0)`, where the shift :math:`\tau_i` alone would bring the row to its cap. This is the same problem with
:math:`\max(\theta_{ij} - \tau_i, 0)` as the cap of an entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.engine.base import Moments, PendingStep, Potentials, StepResult
from maboost.engine.compiled import CompiledEngine, Limits, mass_on_grid
from maboost.engine.leaf_codes import Direction, LeafCodes, advance, table_of
from maboost.engine.multiclass import caps_of_entries, euclidean_moments_of_rows
from maboost.mirror.balls import project_ball
from maboost.mirror.domains import Domain, Simplex
from maboost.mirror.measure import BaseMeasure, Part
from maboost.mirror.projection import (
    MASS_ROUNDING,
    MASS_TOLERANCE,
    Projected,
    mass_scale,
    project_box,
    project_generic,
)
from maboost.mirror.regularizers import Euclidean, Regularizer
from maboost.mirror.sources import onto_mass, project_sources, scaled_caps
from maboost.mirror.steps import Situation
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.entries import entry_at, value_at
from maboost.runtime.exact_sum import BIAS, fixed_point, split, split_biased, split_wide
from maboost.runtime.kernels import kernel
from maboost.runtime.messages import pooled
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots
from maboost.runtime.selection import list_marked, marked_entries, marks_for

__all__ = ["EuclideanEngine", "project_euclidean_onto"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEAST = 1 << 12  # entries of a chunk
_RESOLVED = 1e3  # up to this size a shift has a precision of 1e-13


# --------------------------------------------------------------------------------------------------
# Passes over all entries.


@kernel
def _positive_parts(
    start, values, codes, step, less, shift, base, scale, low, out, size, sums, chunk, slot
):
    a0, a1, a2, b0, b1, b2, unfit, first = 0, 0, 0, 0, 0, 0, 0, chunk * size
    last = min(first + size, out.size)
    advance(start, values, codes, step, less, shift, first, last, out[first:last])
    for i in range(first, last):
        u = max(out[i], 0.0)
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
    bias, mine = (last - first) * BIAS, sums[slot]
    mine[0] += a0 - bias
    mine[1] += a1 - bias
    mine[2] += a2 - bias
    mine[3] += unfit
    mine[4] += b0 - bias
    mine[5] += b1 - bias
    mine[6] += b2 - bias


@kernel
def _write_positive_parts(team, start, values, codes, step, less, shift, base, scale, low, out):
    """Write the positive part of a dual point; return the wide sums of half its square and of it."""
    chunks, size = chunks_of(team, out.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    args = (start, values, codes, step, less, shift, base, scale, low, out, size, sums)
    parallel_for(team, chunks, _positive_parts, args)
    return folded_slots(sums)


@kernel
def _potential(at, density, base, scale, low, size, sums, chunk, slot):
    a, b, c, unfit, first = 0, 0, 0, 0, chunk * size
    last = min(first + size, density.size)
    for i in range(first, last):
        u = density[i]
        term = value_at(base, i) * (at[i] * u - 0.5 * u * u)
        high, middle, rest, bad = split_wide(term, scale, low)
        a += high
        b += middle
        c += rest
        unfit += bad
    bias, mine = (last - first) * BIAS, sums[slot]
    mine[0] += a - bias
    mine[1] += b - bias
    mine[2] += c - bias
    mine[3] += unfit


@kernel
def _potential_at(team, at, density, base, scale, low):
    """Return the wide sum of base * (at * u - u^2 / 2)."""
    chunks, size = chunks_of(team, density.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _potential, (at, density, base, scale, low, size, sums))
    return folded_slots(sums)[:4]


@kernel
def _moments(
    theta, values, codes, less, base, caps, step, shift, bound, scale, size, sums, chunk, slot
):
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    first = chunk * size
    last = min(first + size, theta.size)
    for i in range(first, last):
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
    bias, mine = (last - first) * BIAS, sums[slot]
    mine[0] += m_high - bias
    mine[1] += m_low - bias
    mine[2] += l_high - bias
    mine[3] += l_low - bias
    mine[4] += h0 - bias
    mine[5] += h1 - bias
    mine[6] += h2 - bias
    mine[7] += beyond


@kernel
def _euclidean_moments(team, theta, *rest):
    """Return sums over the weights w at the end of a step, in a grid of integers.

    The sums are those of w and w * d in two parts, coarse ones of (1, d, d^2) over the base measure of entries between
    zero and their cap, and the number of weights beyond `bound`.

    The arguments are (values, codes, less, base, caps, step, shift, bound, scale).
    """
    chunks, size = chunks_of(team, theta.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _moments, (theta, *rest, size, sums))
    return folded_slots(sums)


# --------------------------------------------------------------------------------------------------
# The projection: clip(x - tau, 0, cap), x = theta - center.


@kernel
def _decided(theta, base, caps, center, low, high, moment, mass, first, last, sums):
    """Add the sums of entries that are decided for all tau in [low, high].

    The sums are those of base*x and of base over free entries, and of base*cap over entries at their cap.
    """
    x_high, x_low, m_high, m_low, c_high, c_low = 0, 0, 0, 0, 0, 0
    for i in range(first, last):
        x = theta[i] - center
        y = x - value_at(caps, i)
        between = (x >= high) & (y <= low)
        full = y >= high  # (or between, if the bracket is a point)
        h, rest = split(value_at(base, i) * x if between else 0.0, moment[0], moment[1], moment[2])
        x_high += h
        x_low += rest
        h, rest = split(
            value_at(base, i) * (1.0 if between else (value_at(caps, i) if full else 0.0)),
            mass[0], mass[1], mass[2],
        )  # fmt: skip
        m_high += h if between else 0
        m_low += rest if between else 0
        c_high += 0 if between else h
        c_low += 0 if between else rest
    sums[0] += x_high
    sums[1] += x_low
    sums[2] += m_high
    sums[3] += m_low
    sums[4] += c_high
    sums[5] += c_low


@kernel
def _classify(
    theta, base, caps, center, low, high, moment, mass, size, marks, counts, sums, chunk, slot
):
    first, n = chunk * size, 0
    last = min(first + size, theta.size)
    for i in range(first, last):
        x = theta[i] - center
        nearest = x - value_at(caps, i) if x >= high else x
        is_open = (nearest > low) & (nearest < high)
        marks[i] = is_open
        n += is_open
    counts[chunk] = n
    _decided(theta, base, caps, center, low, high, moment, mass, first, last, sums[slot])


@kernel
def _classified(team, theta, base, caps, center, low, high, moment, mass):
    """Return the sums of :func:`_decided`, and the entries that the bracket leaves undecided."""
    chunks, size = chunks_of(team, theta.size, _LEAST)
    marks, counts = marks_for(theta.size), np.empty(chunks, dtype=np.int64)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    args = (theta, base, caps, center, low, high, moment, mass, size, marks, counts, sums)
    parallel_for(team, chunks, _classify, args)
    rows = list_marked(team, marks, counts, size)
    return folded_slots(sums)[:6], marked_entries(team, rows, theta, base, caps)


@kernel
def _sums_at(undecided, center, tau, moment, mass):
    """Return the sums of :func:`_decided` over the undecided entries, at one tau."""
    sums = np.zeros(6, dtype=np.int64)
    _decided(
        undecided[0], undecided[1], undecided[2], center, tau, tau, moment, mass, 0,
        undecided.shape[1], sums,
    )  # fmt: skip
    return sums


@kernel
def _guess(x, base, caps):
    """Return a rough tau from a sample of the rows, by a safeguarded Newton method."""
    total = base.sum()
    high = x.max()
    low = x.min() - 1.0
    tau = low
    for _ in range(60):
        mass, slope = 0.0, 0.0
        for i in range(x.size):
            u = x[i] - tau
            if u >= value_at(caps, i):
                mass += value_at(base, i) * value_at(caps, i)
            elif u > 0.0:
                mass += value_at(base, i) * u
                slope += value_at(base, i)
        if mass >= total:
            low = tau
        else:
            high = tau
        new = tau + (mass - total) / slope if slope > 0.0 else low
        if not (low < new < high):
            new = 0.5 * (low + high)
        if abs(new - tau) <= 1e-9 * (1.0 + abs(tau)):
            break
        tau = new
    return tau


@kernel
def _clip(theta, caps, center, tau, out, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, out.size)):
        out[i] = min(max((theta[i] - center) - tau, 0.0), value_at(caps, i))


@kernel
def _write_clipped(team, theta, caps, center, tau, out):
    """Write clip(theta - center - tau, 0, cap)."""
    chunks, size = chunks_of(team, out.size, _LEAST)
    parallel_for(team, chunks, _clip, (theta, caps, center, tau, out, size))


def project_euclidean(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Project with caps on entries; None if the range of theta needs the generic projection."""
    lowest, center = measure.extent(theta)
    span = center - lowest
    if not span < 1e9:
        return None
    for _ in range(3):
        problem = _Projection(theta, caps, measure, center, span)
        tau = problem.root(guess)
        if tau is None:
            break
        if abs(tau) <= _RESOLVED:
            measure.threads.run(_write_clipped, theta, caps, center, tau, out)
            return Projected(out, center, tau, lambda: out)  # its own gradient
        center = guess = center + tau  # repeat, with full precision for the rows around the root
    return None


def project_euclidean_rows(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Project with several entries a row and caps on their mean; None as in :func:`project_euclidean`."""
    table = np.empty((measure.rows, measure.width))
    measure.threads.run(caps_of_entries, theta, caps, table)
    return project_euclidean(theta, table.reshape(-1), measure, guess, out)


class _Projection:
    """One projection: x = theta - center, and sums over its entries."""

    def __init__(
        self, theta: Array, caps: Array | float, measure: BaseMeasure, center: float, span: float
    ) -> None:
        self.theta = theta
        self.caps = caps
        self.measure = measure
        self.center = center
        self.mass_grid = mass_scale(caps, measure)
        self.moment_grid = fixed_point(measure.largest * (span + 1.0), measure.count)
        self.grids = self.moment_grid[:3], self.mass_grid[:3]

    def first_guess(self, guess: float | None) -> tuple[float, float]:
        """Return a guess of tau, and a width that should bracket it."""
        if guess is not None:
            return guess - self.center, 0.02
        n, tau = self.theta.size, 0.0
        pick = slice(0, n, max(n // min(max(n // 32, 512), 4096), 1))  # some entries, spread evenly
        if n:
            caps = self.caps[pick] if isinstance(self.caps, np.ndarray) else self.caps
            tau = _guess(self.theta[pick] - self.center, self.measure.entries[pick], caps)
        return float(self.measure.comm.broadcast(np.array([tau]))[0]), 0.04

    def root(self, guess: float | None) -> float | None:
        """Return the shift relative to the center; None if it is not found."""
        tau, width = self.first_guess(guess)
        for _ in range(60):
            low, high = tau - width, tau + width
            sums = _Sums(self, *self.classified(low, high))
            root, inside = _piecewise_root(sums.at, self.corner, low, high)
            if inside:
                return root
            tau, width = root, max(2.0 * width, abs(root - tau))
        return None

    def classified(self, low: float, high: float) -> tuple[Integers, Array]:
        """Return the sums over entries whose place is the same for all tau in the bracket, and the other entries."""
        found: tuple[Integers, Array] = self.measure.threads.run(
            _classified, self.theta, self.measure.base(slice(None)), self.caps, self.center, low, high,
            *self.grids,
        )  # fmt: skip
        return found

    def corner(self, tau: float) -> float:
        """Return the largest shift for which all entries capped at tau are still capped."""
        places = (self.theta - self.center) - self.caps
        return self.measure.minimum(np.where(places >= tau, places, np.inf))


class _Sums:
    """The moment and mass of free entries and the mass of capped ones, at any tau of a bracket.

    If few entries are undecided, one message gives them to all shards.
    """

    def __init__(self, problem: _Projection, decided: Integers, undecided: Array) -> None:
        self.problem = problem
        self.decided, self.undecided = decided, undecided
        self.comm = problem.measure.comm
        headers, everyone = pooled(decided, undecided, self.comm)
        if everyone is not None:
            self.decided, self.undecided = headers.sum(axis=0), everyone
            self.comm = SerialCommunicator()

    def at(self, tau: float) -> tuple[float, float, float]:
        problem = self.problem
        part = _sums_at(self.undecided, problem.center, tau, *problem.grids)
        total = self.comm.allreduce(self.decided + part, "sum").tolist()
        mass = problem.mass_grid.value
        return problem.moment_grid.value(*total[:2]), mass(*total[2:4]), mass(*total[4:])


def _piecewise_root(
    at: Callable[[float], tuple[float, float, float]],
    corner: Callable[[float], float],
    low: float,
    high: float,
) -> tuple[float, bool]:
    """Return the root of moment + cap - tau * mass = 1 in [low, high] and True, or a better guess and False.

    If no entry is free, the roots are an interval, which ends at the `corner` of any point in it.
    """

    def newton(tau: float) -> tuple[float, float]:
        moment, mass, cap = at(tau)
        return moment - tau * mass + cap, (moment + cap - 1.0) / mass if mass > 0.0 else math.nan

    for end, sign in ((low, 1.0), (high, -1.0)):
        value, new = newton(end)
        if sign * (value - 1.0) < 0.0:
            return (new if math.isfinite(new) else end - sign * (high - low)), False
    first, last, tau = low, high, 0.5 * (low + high)
    for attempt in range(200):
        value, new = newton(tau)
        if new == tau or value == 1.0:
            break
        if value > 1.0:
            low = tau
        else:
            high = tau
        # every third step halves the bracket: Newton's method alone may alternate between two pieces for ever
        if attempt % 3 == 2 or not low < new < high:
            new = 0.5 * (low + high)
            if not low < new < high:
                break
        tau = new
    return _settled(at, newton, corner, tau, first, last), True


def _settled(
    at: Callable[[float], tuple[float, float, float]],
    newton: Callable[[float], tuple[float, float]],
    corner: Callable[[float], float],
    tau: float,
    first: float,
    last: float,
) -> float:
    """Return the root near tau in a form that depends neither on the iterations nor on the shards."""
    moment, mass, cap = at(tau)
    if not mass > 0.0:
        return corner(tau)
    blur = 1e-15 * (abs(moment) + cap + 1.0) / mass + 4.0 * math.ulp(tau)
    sides = []
    for beside in (max(tau - blur, first), min(tau + blur, last)):
        value, new = newton(beside)
        if math.isnan(new) and abs(value - 1.0) <= MASS_TOLERANCE:
            return corner(beside)  # an interval of roots begins or ends at tau
        sides.append(new)
    # If the root is at a corner, the quotients of the two pieces that meet there differ in their last
    # bits: take the lower one. If little mass is free, the tolerance is wide, and the quotient of a piece
    # further off may be anywhere.
    met = [s for s in sides if first <= s <= last and abs(newton(s)[0] - 1.0) <= MASS_TOLERANCE]
    return min(met, default=tau)


# --------------------------------------------------------------------------------------------------
# The engine.


@dataclass
class EuclideanMoments:
    """The weights at the end of a step, over all entries, or over all rows if a cap couples `width` entries."""

    limits: Limits
    measure: BaseMeasure
    width: int
    theta: Array
    direction: Direction
    l1: float
    clipped: bool = False
    by_factors: bool = False

    def sums(self, step: float, shift: float) -> list[float]:
        limits, base, threads = self.limits, self.measure.base(slice(None)), self.measure.threads
        start = self.theta, *table_of(self.direction)
        if self.width == 1:
            here = threads.run(
                _euclidean_moments, *start, self.l1, base, limits.caps, step, shift, limits.bound,
                limits.grid.factors,
            )  # fmt: skip
        else:  # the mass is one and there is no penalty
            here = threads.run(
                euclidean_moments_of_rows, self.width, *start, step, shift, base, limits.caps,
                limits.bound, limits.grid[:3],
            )  # fmt: skip
        total = self.measure.comm.allreduce(here, "sum")
        self.clipped = bool(total[7] > 0)
        return limits.values(total)


class EuclideanEngine(CompiledEngine):
    """Mirror ascent under the Euclidean regularizer."""

    def at_once(self, pending: PendingStep, near: float | None) -> StepResult | None:
        domain = self.ascent.domain
        if domain.normalised or self.ascent.update != "active" or math.isfinite(domain.entry_cap()):
            return None
        # The positive part is the projection and its own dual point.
        measure, (start, direction, *way), out = self.measure, pending, self.array()
        sums = measure.threads.run(
            _write_positive_parts, start, *table_of(direction), *way, measure.base(slice(None)),
            *measure.grid.factors, out,
        )  # fmt: skip
        found = measure.unfolded(measure.comm.allreduce(sums, "sum"))
        if found is None:
            return None
        return StepResult(out, out, Potentials(found[0], found[0], found[1]))

    def project(self, theta: Array, guess: float | None, out: Array) -> Projected:
        return project_euclidean_onto(self.ascent.domain, theta, self.measure, guess, out)

    def potentials(self, theta: Array, new: Array, projected: Projected) -> Potentials:
        measure, density, free = self.measure, projected.density, not self.ascent.domain.normalised
        base = measure.base(slice(None))
        folded = [
            np.asarray(measure.threads.run(_potential_at, at, density, base, *measure.grid.factors))
            for at in (theta, new)
        ]
        if free:
            folded.append(mass_on_grid(density, measure))
        found = measure.unfolded(measure.comm.allreduce(np.concatenate(folded), "sum"))
        if found is None:
            return self.potentials_by_columns(theta, new, density)
        return Potentials(found[0], found[1], found[2] if free else 1.0)

    def moments(self, situation: Situation) -> Moments | None:
        if not self.single_shift:
            return None
        (rows, width), state = self.tied, situation.state
        limits = self.limits(state.density, rows)
        direction = situation.direction
        if not isinstance(direction, LeafCodes):
            direction = situation.dense
        return EuclideanMoments(limits, rows, width, state.theta, direction, situation.l1)

    def shift_after(
        self, situation: Situation, share: float, step: float, shift: float | None
    ) -> float | None:
        return None  # the shift has kinks in between


def project_euclidean_onto(
    domain: Domain, theta: Array, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected:
    """Project onto any domain in the Euclidean geometry; fast projections write the density to `out`."""
    limits = domain.source_caps()
    if not domain.normalised:
        return project_box(Euclidean(), domain, theta)
    if limits is not None:
        return project_sources(
            Euclidean(), domain.row_caps(), limits, theta, measure, _euclidean_onto_mass
        )
    limit = domain.divergence_limit()
    if limit is not None:

        def onto_simplex(point: Array) -> Projected:
            return project_euclidean_onto(Simplex(), point, measure, None, out)

        return project_ball(Euclidean(), limit, theta, measure, onto_simplex)
    caps = measure.caps_in_reach(domain.row_caps())
    found: Projected | None = None
    # a high cap on a light row may leave too few bits for the masses of the others
    if mass_scale(caps, measure).blur(measure.count) <= MASS_ROUNDING:
        separate = domain.unbounded or measure.width == 1  # no cap couples entries of a row
        fast = project_euclidean if separate else project_euclidean_rows
        found = fast(theta, caps, measure, guess, out)
    return found or project_generic(Euclidean(), domain, theta, measure, guess)


def _euclidean_onto_mass(
    regularizer: Regularizer, caps: Array | float, theta: Array, part: Part, mass: float
) -> Projected:
    """Project the rows of some sources onto the densities of a given mass."""
    scale = mass / part.share
    if not _in_range(theta, scale, part.measure):
        return onto_mass(regularizer, caps, theta, part, mass)
    domain = scaled_caps(caps, scale)
    found = project_euclidean_onto(domain, theta / scale, part.measure, None, np.empty_like(theta))
    density = scale * found.density
    if part.measure.width == 1:
        np.minimum(density, caps, out=density)  # the rounding of the two scalings
    return Projected(density, scale * found.center, scale * found.tau, lambda: density)


def _in_range(theta: Array, scale: float, measure: BaseMeasure) -> bool:
    """Return whether all of theta / scale, over all shards, are far from overflow and underflow."""
    low, high = measure.extent(theta)
    largest = max(abs(low), abs(high), 1.0)
    return 1e-100 < scale < 1e100 and largest / scale < 1e200
