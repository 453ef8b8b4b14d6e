r"""Entropy: steps multiply densities, projections rescale them, and caps hold some of them.

On distributions with caps the projection of the log-density :math:`\theta` is
:math:`u_i = \min(k_i, s e^{\theta_i - c})` with the factor s that makes the mass one. The mass is concave and
piecewise linear in s, so Newton's method from below is monotone and finite. Its first pass adds up the entries
whose side, free or capped, is the same for all s in a bracket, and lists the few others.

If the shift of the next projection is known, one pass writes the next density. Newton's method for the step asks
:class:`NearCaps` only for entries that may reach a cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.engine.base import Moments, PendingStep, Potentials, StepResult
from maboost.engine.compiled import CompiledEngine, Limits, mass_on_grid
from maboost.engine.leaf_codes import Direction, LeafCodes, advance, mass_grid, table_of
from maboost.engine.multiclass import entropy_moments_of_rows, powers_of_rows, spread_over_rows
from maboost.engine.newton import (
    FAR,
    FARTHEST,
    adaboost_step,
    corrective_by_newton,
    cubic_shift,
    newton_in_shift,
    reach_of,
    step_by_leaf_sums,
)
from maboost.mirror.ascent import AscentState
from maboost.mirror.balls import project_ball
from maboost.mirror.domains import Domain, Simplex
from maboost.mirror.measure import BaseMeasure, Part
from maboost.mirror.projection import MASS_ROUNDING, Projected, mass_scale, project_generic
from maboost.mirror.regularizers import Entropy, Regularizer
from maboost.mirror.sources import project_sources, scaled_caps
from maboost.mirror.steps import Situation, Step
from maboost.runtime import thresholds
from maboost.runtime.communicator import by_rank
from maboost.runtime.entries import entry_at, value_at
from maboost.runtime.exact_sum import BIAS, FixedPoint, fixed_point, split, split_biased, split_wide
from maboost.runtime.exponential import exponentials_into
from maboost.runtime.kernels import kernel
from maboost.runtime.messages import pooled
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots
from maboost.runtime.selection import list_marked, marked_codes, marked_entries, marks_for

__all__ = ["EntropyEngine", "project_entropy_onto"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_LOG = 600.0  # of a density before its cap; larger powers are cut
_STRIP = 1024  # entries that stay in the first-level cache from one loop to the next
_LEAST = 1 << 12  # entries of a chunk
_SAMPLE = 1 << 14  # entries of a first guess, at most
_DEVIATIONS = 2.4  # standard deviations of a sampled mass: enough for nearly all first guesses
_MODEST = 16.0  # logarithms whose exponentials are far from overflow and underflow
_LOST = 1e-12  # of a mass of one, at most
_LONG = 1.0  # for longer steps many rows reach their caps, and listing them takes longer than projecting
_FURTHER = 1.15  # times the factors of a first step: Newton's method seldom goes further
_REACH = 16.0  # how far above an expected shift a projection still looks for it


# --------------------------------------------------------------------------------------------------
# Passes over all entries.


@kernel
def _powers(start, values, codes, step, less, shift, theta, p, size, chunk, slot):
    last = min((chunk + 1) * size, theta.size)
    for a in range(chunk * size, last, _STRIP):
        b = min(a + _STRIP, last)
        advance(start, values, codes, step, less, shift, a, b, theta[a:b])
        exponentials_into(theta[a:b], p[a:b])


@kernel
def _write_powers(team, start, values, codes, step, less, shift, theta, p):
    """Write theta = start + step * (d - less) - shift, and its exponentials."""
    chunks, size = chunks_of(team, theta.size, _LEAST)
    parallel_for(team, chunks, _powers, (start, values, codes, step, less, shift, theta, p, size))


@kernel
def _cap(p, theta, caps, tops, base, of_mass, of_excess, first, sums):
    """Replace p = e^theta above its cap by the cap, and theta by the logarithm of the cap.

    Adds sums of base * p, and of base * cap * (theta - log cap) over capped entries.
    """
    a, b, c, d = 0, 0, 0, 0
    for i in range(p.size):
        cap, top = value_at(caps, first + i), value_at(tops, first + i)
        over = p[i] >= cap
        u = cap if over else p[i]
        high, low = split_biased(value_at(base, first + i) * u, of_mass[0], 1.0, of_mass[1])
        a += high
        b += low
        excess = value_at(base, first + i) * cap * (theta[i] - top) if over else 0.0
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
    theta, p, start, values, codes, step, less, shift, caps, tops, base, of_mass, of_excess,
    size, sums, chunk, slot,
):  # fmt: skip
    last = min((chunk + 1) * size, theta.size)
    for a in range(chunk * size, last, _STRIP):
        b = min(a + _STRIP, last)
        advance(start, values, codes, step, less, shift, a, b, theta[a:b])
        exponentials_into(theta[a:b], p[a:b])
        _cap(p[a:b], theta[a:b], caps, tops, base, of_mass, of_excess, a, sums[slot])


@kernel
def _write_capped_powers(team, theta, p, *rest):
    """Write theta and its exponentials, both capped; return the sums of :func:`_cap`."""
    chunks, size = chunks_of(team, theta.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _capped_powers, (theta, p, *rest, size, sums))
    return folded_slots(sums)


@kernel
def _exponentials(theta, center, p, size, tops, chunk, slot):
    last, top = min((chunk + 1) * size, theta.size), tops[slot, 0]
    for a in range(chunk * size, last, _STRIP):
        b = min(a + _STRIP, last)
        for i in range(a, b):
            p[i] = theta[i] - center
            top = max(top, theta[i])
        exponentials_into(p[a:b], p[a:b])
    tops[slot, 0] = top


@kernel
def _write_exponentials(team, theta, center, p):
    """Write e^(theta - center); return the largest theta."""
    chunks, size = chunks_of(team, theta.size, _LEAST)
    tops = np.full((slots(team), 8), -np.inf)
    parallel_for(team, chunks, _exponentials, (theta, center, p, size, tops))
    return tops[:, 0].max()


@kernel
def _box(theta, top, dual, p, size, chunk, slot):
    last = min((chunk + 1) * size, p.size)
    for a in range(chunk * size, last, _STRIP):
        b = min(a + _STRIP, last)
        for i in range(a, b):
            dual[i] = min(theta[i], top)
        exponentials_into(dual[a:b], p[a:b])


@kernel
def _write_box(team, theta, top, dual, p):
    """Write the dual point below the logarithm of a cap, and its exponentials."""
    chunks, size = chunks_of(team, p.size, _LEAST)
    parallel_for(team, chunks, _box, (theta, top, dual, p, size))


@kernel
def _mass(values, base, scale, size, sums, chunk, slot):
    high_sum, low_sum = 0, 0
    for i in range(chunk * size, min((chunk + 1) * size, values.size)):
        high, low = split(value_at(base, i) * values[i], scale[0], 1.0, scale[1])
        high_sum += high
        low_sum += low
    sums[slot, 0] += high_sum
    sums[slot, 1] += low_sum


@kernel
def _mass_of(team, values, base, scale):
    """Return the sum of base * values, in two parts."""
    chunks, size = chunks_of(team, values.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _mass, (values, base, scale, size, sums))
    return folded_slots(sums)[:2]


@kernel
def _settle(theta, caps, tops, s, center, tau, p, dual, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, p.size)):
        value, cap = s * p[i], value_at(caps, i)
        p[i] = value if value < cap else cap
        dual[i] = min((theta[i] - center) - tau, value_at(tops, i))


@kernel
def _write_density(team, theta, caps, tops, s, center, tau, p, dual):
    """Write min(cap, s * p) in place of p, and its logarithm to `dual`."""
    chunks, size = chunks_of(team, p.size, _LEAST)
    parallel_for(team, chunks, _settle, (theta, caps, tops, s, center, tau, p, dual, size))


@kernel
def _potential(at, dual, density, log_caps, base, scale, low, size, sums, chunk, slot):
    a, b, c, unfit, first = 0, 0, 0, 0, chunk * size
    last = min(first + size, density.size)
    for i in range(first, last):
        u = density[i]
        cost = u * min(dual[i], value_at(log_caps, i)) - u + 1.0
        high, middle, rest, bad = split_wide(value_at(base, i) * (at[i] * u - cost), scale, low)
        a += high
        b += middle
        c += rest
        unfit += bad
    bias = (last - first) * BIAS
    sums[slot, 0] += a - bias
    sums[slot, 1] += b - bias
    sums[slot, 2] += c - bias
    sums[slot, 3] += unfit


@kernel
def _potential_at(team, at, dual, density, log_caps, base, scale, low):
    """Return the sum of base * (at * u - phi(u)) in three parts, and how many terms do not fit.

    phi(u) = u log u - u + 1 with log u = min(dual, log cap), so no logarithm is computed.
    """
    chunks, size = chunks_of(team, density.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(
        team, chunks, _potential, (at, dual, density, log_caps, base, scale, low, size, sums)
    )
    return folded_slots(sums)[:4]


# --------------------------------------------------------------------------------------------------
# Entries that may reach a cap.


@kernel
def _near(density, base, caps, codes, limits, scale, size, marks, counts, sums, chunk, slot):
    """Mark the entries that would reach their cap under the factors `limits`; add their masses by code."""
    first = chunk * size
    last, n, mine = min(first + size, density.size), 0, sums[slot]
    factors = np.empty(_STRIP)
    for a in range(first, last, _STRIP):
        b = min(a + _STRIP, last)
        for i in range(a, b):  # a separate loop, since it does not vectorise
            factors[i - a] = limits[codes[i]]
        for i in range(a, b):
            marks[i] = density[i] * factors[i - a] >= value_at(caps, i)
        for i in range(a, b):
            n += marks[i]
    for i in range(first, last):
        if marks[i]:
            high, low = split(value_at(base, i) * density[i], scale[0], scale[1], scale[2])
            mine[codes[i], 0] += high
            mine[codes[i], 1] += low
    counts[chunk] = n


@kernel
def _near_caps(team, density, base, caps, codes, limits, scale):
    """Return density, base, cap and code of the entries that would reach their cap, and their masses by code."""
    chunks, size = chunks_of(team, density.size, _LEAST)
    marks, counts = marks_for(density.size), np.empty(chunks, dtype=np.int64)
    sums = np.zeros((slots(team), limits.size, 2), dtype=np.int64)
    parallel_for(
        team, chunks, _near, (density, base, caps, codes, limits, scale, size, marks, counts, sums)
    )
    rows = list_marked(team, marks, counts, size)
    by_code = np.zeros((limits.size, 2), dtype=np.int64)
    for slot in range(sums.shape[0]):
        for k in range(limits.size):
            by_code[k, 0] += sums[slot, k, 0]
            by_code[k, 1] += sums[slot, k, 1]
    return marked_entries(team, rows, density, base, caps), marked_codes(team, rows, codes), by_code


@kernel
def _moments(p, values, codes, factors, base, caps, bound, scale, size, sums, chunk, slot):
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    first = chunk * size
    last = min(first + size, p.size)
    for i in range(first, last):
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
def _entropy_moments(team, p, *rest):
    """Return sums over weights w = base * min(cap, p * factor), in a grid of integers.

    The sums are those of w and w * d in two parts, coarse ones of (1, d, d^2) * w over free entries, and the number of
    weights beyond `bound`. The coarse sums only steer Newton's method, so their high parts are enough. The arguments are
    (values, codes, factors, base, caps, bound, scale).
    """
    chunks, size = chunks_of(team, p.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _moments, (p, *rest, size, sums))
    return folded_slots(sums)


# --------------------------------------------------------------------------------------------------
# The projection under caps: an entry is capped where p >= cap / s.


@kernel
def _decided(p, base, caps, s_low, s_high, scale, first, last, marks, sums):
    """Add sums over the entries from `first` to `last` that the bracket decides; mark the others."""
    per_high, per_low = 1.0 / s_high, 1.0 / s_low  # the same for all rows if all share one cap
    free_count, free_high, free_low, both_high, both_low, n = 0, 0, 0, 0, 0, 0
    for i in range(first, last):
        cap = value_at(caps, i)
        free = p[i] < cap * per_high
        capped = p[i] >= cap * per_low
        mass = value_at(base, i) * (p[i] if free else (cap if capped else 0.0))
        high, low = split_biased(mass, scale[0], 1.0, scale[1])
        both_high += high
        both_low += low
        free_count += 1 if free else 0
        free_high += high if free else 0
        free_low += low if free else 0
        is_open = (not free) & (not capped)
        marks[i] = is_open
        n += is_open
    other_bias = (last - first - free_count) * BIAS
    sums[0] += free_high - free_count * BIAS
    sums[1] += free_low - free_count * BIAS
    sums[2] += both_high - free_high - other_bias
    sums[3] += both_low - free_low - other_bias
    return n


@kernel
def _classify(p, base, caps, s_low, s_high, scale, size, marks, counts, sums, chunk, slot):
    first = chunk * size
    last = min(first + size, p.size)
    counts[chunk] = _decided(p, base, caps, s_low, s_high, scale, first, last, marks, sums[slot])


@kernel
def _classified(team, p, base, caps, s_low, s_high, scale):
    """Return sums of base*p over entries free up to s_high and of base*cap over entries capped from s_low; the rest."""
    chunks, size = chunks_of(team, p.size, _LEAST)
    marks, counts = marks_for(p.size), np.empty(chunks, dtype=np.int64)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(
        team, chunks, _classify, (p, base, caps, s_low, s_high, scale, size, marks, counts, sums)
    )
    rows = list_marked(team, marks, counts, size)
    return folded_slots(sums)[:4], marked_entries(team, rows, p, base, caps)


@kernel
def _sums_at(undecided, decided, s, scale):
    """Return the same sums at any s of a bracket, from the decided sums and the undecided entries."""
    sums, marks = decided.copy(), np.empty(undecided.shape[1], dtype=np.uint8)
    _decided(
        undecided[0], undecided[1], undecided[2], s, s, scale, 0, undecided.shape[1], marks, sums
    )
    return sums


@kernel
def _masses(sums, scale):
    """Return the free and the capped mass of such sums, to a unit in their last place."""
    factor, last = scale
    return (sums[0] + sums[1] / last) / factor, (sums[2] + sums[3] / last) / factor


@kernel
def _newton(undecided, decided, s, high, scale):
    """Run Newton's method from s, below the root, up to `high`; return its end and the masses there."""
    while True:
        free, capped = _masses(_sums_at(undecided, decided, s, scale), scale)
        if free <= 0.0 or capped >= 1.0:
            break
        new = (1.0 - capped) / free
        if not s < new <= high:
            break
        s = new
    return s, free, capped


@kernel
def _sampled(values, base, caps, most):
    """Return up to `most` entries, one in 32, in runs of eight neighbours, which share a cache line."""
    runs = min(max(values.size // 256, 64), most // 8)
    few = values.size < 8 * runs
    count, step = values.size if few else 8 * runs, 8 if few else values.size // runs
    found = np.empty((3, count))
    for j in range(count):
        i = step * (j // 8) + j % 8
        found[0, j], found[1, j], found[2, j] = values[i], value_at(base, i), value_at(caps, i)
    return found


@kernel(fastmath={"reassoc"})
def _guess(values, weights, limits, most):
    """Return a rough s from a sample of the entries, and the size of the sample.

    Only the speed depends on it, so its sums may add floats in any order.
    """
    found = _sampled(values, weights, limits, most)
    p, base, caps = found[0], found[1], found[2]
    total = base.sum()
    s = 1.0
    for _ in range(50):
        free, capped = 0.0, 0.0
        for i in range(p.size):
            below = s * p[i] < caps[i]
            mass = value_at(base, i) * (p[i] if below else caps[i])
            free += mass if below else 0.0
            capped += 0.0 if below else mass
        if free <= 0.0 or capped >= total:
            break
        new = (total - capped) / free
        if abs(new - s) <= 1e-3 * s:  # a sample is no more precise
            break
        s = new
    return s, p.size


def project_entropy(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Project under entropy with one entry a row; None if the range of theta needs the generic projection."""
    own_top = float(measure.threads.run(_write_exponentials, theta, 0.0, out))
    problem = _Projection(theta, caps, measure, own_top, out)
    s = problem.scale(guess)
    if not problem.agreed:  # repeat with the largest entry of all shards
        measure.threads.run(_write_exponentials, theta, 0.0, out)
        problem = _Projection(theta, caps, measure, problem.top, out)
        s = problem.scale(guess)
    if s is None or not 1e-12 < s < 1e12:
        return None
    center, tau, dual = problem.center, -math.log(s), np.empty_like(out)
    tops = measure.log_caps(caps)
    measure.threads.run(_write_density, theta, caps, tops, s, center, tau, out, dual)
    return Projected(out, center, tau, lambda: dual)


class _Projection:
    """One projection: the exponentials p = e^(theta - center), and sums over them.

    The center and the grid of the sums follow from the largest entry of *all* shards. This shard's own largest entry
    nearly always gives the same ones, so the projection starts with it. The first message says
    whether all shards have the same frame (`agreed`), and the largest entry of all (`top`).
    """

    def __init__(
        self, theta: Array, caps: Array | float, measure: BaseMeasure, top: float, p: Array
    ) -> None:
        self.caps = caps
        self.unbounded = isinstance(caps, float) and math.isinf(caps)
        self.measure = measure
        self.own_top = self.top = top
        self.agreed = measure.comm.size == 1
        self.center, self.grid = self.frame(top)
        self.p = p
        if self.center != 0.0:
            measure.threads.run(_write_exponentials, theta, self.center, p)

    def frame(self, top: float) -> tuple[float, FixedPoint]:
        """Return the center and the grid of the sums for this largest entry."""
        center = 0.0 if abs(top) <= _MODEST else top
        most = math.exp(top - center) if math.isfinite(top) else 1.0
        return center, mass_scale(self.caps, self.measure, most)

    def agree(self, tops: Array) -> bool:
        """Return whether these largest entries of the shards all give the same frame."""
        own, *others = tops.tolist()
        self.top = max(own, *others) if others else own
        self.agreed = not others or len({self.frame(top) for top in (self.top, own, *others)}) == 1
        return self.agreed

    def scale(self, guess: float | None) -> float | None:
        """Return the factor s that makes the mass one; None if it is not found or the shards do not agree."""
        if not self.unbounded:
            return self.scale_under_caps(guess)
        mass = self.mass()
        return 1.0 / mass if mass > 1e-12 else None

    def mass(self) -> float:
        """Return the integral of p; zero if the shards do not agree."""
        base = self.measure.base(slice(None))
        sums = self.measure.threads.run(_mass_of, self.p, base, self.grid.factors)
        table = by_rank(np.array([*sums, *_bits(self.own_top)]), self.measure.comm)
        if not self.agree(table[:, 2].view(np.float64)):
            return 0.0
        return self.grid.value(*table[:, :2].sum(axis=0).tolist())

    def scale_under_caps(self, guess: float | None) -> float | None:
        """Run Newton's method inside a bracket, which moves if it misses the root."""
        near = self.first_guess(guess)
        if near is None:
            return None
        s, margin = near
        low, high = s / margin, s * margin
        for _ in range(40):
            s, free, capped = self.newton(*self.classified(low, high), low, high)
            if not self.agreed:
                return None
            if s == low > 1e-13 and free * low + capped > 1.0:
                low, high = low / margin**4, low
            elif free <= 0.0 or capped >= 1.0:
                return None
            else:
                new = (1.0 - capped) / free
                if new <= s:
                    return s
                low, high = s, margin**2 * new
            margin = margin**2
        return None

    def first_guess(self, guess: float | None) -> tuple[float, float] | None:
        """Return a guess of s, and a factor that should bracket it; None if the shards do not agree."""
        if guess is not None:
            return math.exp(min(max(self.center - guess, -600.0), 600.0)), 1.02
        s, count = _guess(self.p, self.measure.base(slice(None)), self.caps, _SAMPLE)
        margin = 1.0 + _DEVIATIONS / math.sqrt(max(count, 1))
        if self.agreed:  # a single shard
            return s, margin
        table = by_rank(np.array([s, margin, self.own_top]), self.measure.comm)
        return (float(table[0, 0]), float(table[0, 1])) if self.agree(table[:, 2]) else None

    def classified(self, low: float, high: float) -> tuple[Integers, Array]:
        """Return the sums over entries whose side is the same for all s in the bracket, and the other entries."""
        found: tuple[Integers, Array] = self.measure.threads.run(
            _classified, self.p, self.measure.base(slice(None)), self.caps, low, high, self.grid.factors
        )  # fmt: skip
        return found

    def newton(
        self, decided: Integers, undecided: Array, low: float, high: float
    ) -> tuple[float, float, float]:
        """Run Newton's method from below; return its end in the bracket, and the free and the capped mass there.

        If few entries are undecided, one message gives all of them to all shards, and no other message follows. If many
        are, each message is one Newton step, after which only the entries near the new s remain undecided.
        """
        comm, factors = self.measure.comm, self.grid.factors
        while comm.size > 1:
            at_low = _sums_at(undecided, decided, low, factors)
            header = np.concatenate([at_low, decided, _bits(self.own_top)])
            table, everyone = pooled(header, undecided, comm)
            if not self.agree(table[:, 8].view(np.float64)):
                return low, 0.0, 0.0
            if everyone is not None:
                decided, undecided = table[:, 4:8].sum(axis=0), everyone
                break
            free, capped = _masses(table[:, :4].sum(axis=0), factors)
            new = (1.0 - capped) / free if free > 0.0 else math.nan
            if capped >= 1.0 or not low < new <= high:
                return low, free, capped
            high = min(high, new + (new - low) / 16.0)  # each step is far shorter than the last
            more, undecided = self.measure.threads.run(_classified, *undecided, new, high, factors)
            low, decided = new, decided + more
        found: tuple[float, float, float] = _newton(undecided, decided, low, high, factors)
        return found


def _bits(value: float) -> Integers:
    """Return the bits of a float as an integer, for a message of integers."""
    return np.array([value]).view(np.int64)


def project_entropy_rows(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Project under entropy with several entries a row and caps on the rows' totals.

    The chain rule of relative entropy splits the problem: project the rows' totals, then rescale
    inside each row. The log-total of a row of logarithms theta is log mean exp theta.
    """
    rows, threads = measure.of_rows, measure.threads
    tops, means = np.empty(measure.rows), np.empty(measure.rows)
    threads.run(powers_of_rows, theta, out, tops, means)
    center = measure.maximum(tops)  # subtracted first: log means are small beside it
    logs = np.log(means)
    near = None if guess is None else guess - center
    found = project_entropy((tops - center) + logs, caps, rows, near, np.empty(measure.rows))
    if found is None:
        return None
    dual = np.empty_like(theta)
    threads.run(spread_over_rows, theta, tops, found.dual - logs, found.density / means, out, dual)
    return Projected(out, center, found.center + found.tau, lambda: dual)


# --------------------------------------------------------------------------------------------------
# Moments for Newton's method.


@dataclass
class EntropyMoments:
    """Moments over all entries: densities times the factor of their code, or one exponential an entry.

    A cap scales all entries of its row by one factor.
    """

    limits: Limits
    measure: BaseMeasure
    width: int
    powers: Array
    direction: Direction
    by_factors: bool = False
    clipped: bool = False

    def __post_init__(self) -> None:
        limits = self.limits
        self._table = table_of(self.direction)
        self._rest = self.measure.base(slice(None)), limits.caps, limits.bound
        self._kernel: tuple[Any, ...] = (entropy_moments_of_rows, self.width)
        self._scale: tuple[float, ...] = limits.grid[:3]
        if self.width == 1:
            self._kernel, self._scale = (_entropy_moments,), limits.grid.factors

    def sums(self, step: float, shift: float) -> list[float]:
        limits, (values, codes) = self.limits, self._table
        factors = step * values - shift
        exponentials_into(factors, factors)
        here = self.measure.threads.run(
            *self._kernel, self.powers, values, codes, factors, *self._rest, self._scale
        )
        total = self.measure.comm.allreduce(here, "sum")
        self.clipped = bool(total[7] > 0)
        return limits.values(total)


@dataclass
class NearCaps:
    """Moments over only the entries that may reach their caps from the projected point; the rest is summed by code.

    Attributes
    ----------
    reach : array of shape (n_codes,), optional
        The largest factors for which the list of entries is complete.
    """

    limits: Limits
    measure: BaseMeasure
    density: Array
    direction: LeafCodes
    clipped: bool = False
    by_factors: bool = True
    reach: Array | None = None
    _others: Array | None = None

    def sums(self, step: float, shift: float) -> list[float]:
        values = self.direction.values
        factors = step * values - shift
        exponentials_into(factors, factors)
        if self.reach is None or not np.all(factors <= self.reach):
            self._list(factors)
        limits, grid, comm = self.limits, self.limits.grid, self.measure.comm
        density, base, caps = self._entries
        near = self.measure.threads.run(
            _entropy_moments, density, values, self._codes, factors, base, caps, math.inf, grid.factors
        )[:7]  # fmt: skip
        if self._others is None:
            sums = comm.allreduce(np.concatenate([near, self._listed.reshape(-1)]), "sum")
            near, listed, grid_ = sums[:7], sums[7:].reshape(-1, 2), mass_grid(self.measure)
            masses = self.direction.masses(self.density, self.measure)
            free = masses - (listed[:, 0] + listed[:, 1] / grid_.low) / grid_.factors[0]
            self._others = np.array([free, free * values, free * values**2])
        else:
            near = comm.allreduce(near, "sum")
        others = np.add.reduce(self._others * factors, axis=1).tolist()
        here = limits.values(near)
        others = [others[0], others[1], *others]
        return [a + b for a, b in zip(here, others, strict=True)]

    def _list(self, factors: Array) -> None:
        """List the entries that slightly larger factors, or those of shorter steps, would cap."""
        self.reach, measure = _FURTHER * np.maximum(factors, 1.0), self.measure
        self._entries, self._codes, self._listed = measure.threads.run(
            _near_caps, self.density, measure.base(slice(None)), self.limits.caps,
            self.direction.codes, self.reach, mass_grid(measure)[:3],
        )  # fmt: skip
        self._others = None


# --------------------------------------------------------------------------------------------------
# The engine.


class EntropyEngine(CompiledEngine):
    """Mirror ascent under entropy."""

    def expected_shift(
        self, state: AscentState, direction: Direction, step: float, guess: float | None
    ) -> float | None:
        domain = self.ascent.domain
        if domain.normalised and self.unbounded and isinstance(direction, LeafCodes):
            return direction.log_mean_exp(step, state.density, self.measure)
        return super().expected_shift(state, direction, step, guess)

    def at_once(self, pending: PendingStep, near: float | None) -> StepResult | None:
        domain, coded = self.ascent.domain, isinstance(pending.direction, LeafCodes)
        if self.ascent.update != "active" or near != 0.0 or not (domain.normalised and coded):
            return None
        if self.unbounded:
            return self.powers_at_once(pending)
        if self.measure.width > 1 or not self.single_shift:  # limits tie entries together
            return None
        return self.capped_powers_at_once(pending)

    def powers_at_once(self, pending: PendingStep) -> StepResult | None:
        """Take a step on the simplex: e^theta with the shift from the masses of codes; its dual point is theta.

        Returns None if rounding would be too coarse: the loss of the grid grows as much as the largest entry.
        """
        measure = self.measure
        if pending.rise > math.log(_LOST / mass_grid(measure).blur(measure.count)):
            return None
        start, direction, *way = pending
        theta, p = self.array(), self.array()
        measure.threads.run(_write_powers, start, *table_of(direction), *way, theta, p)
        return StepResult(p, theta, Potentials(0.0, 0.0, 1.0))

    def capped_powers_at_once(self, pending: PendingStep) -> StepResult | None:
        """Take a step under caps on entries: min(cap, e^theta), if its mass is one.

        Where log u = theta, theta u - phi(u) = u - 1; a capped entry adds its excess over the cap. No entry was above
        its cap before the step, so the length of the step bounds the excess. Without a cap no entry had a mass above
        one.
        """
        measure, (start, direction, *way) = self.measure, pending
        caps = measure.caps_in_reach(self.ascent.domain.row_caps())
        highest, finite = measure.highest_caps(caps)
        rise = max(pending.rise, 0.0)
        heaviest = min(measure.largest * highest, 2.0 * math.exp(min(rise, 700.0)))
        of_mass = fixed_point(heaviest, measure.count)
        of_excess = fixed_point(measure.largest * finite * rise, measure.count)
        if max(of_mass.blur(measure.count), of_excess.blur(measure.count)) > MASS_ROUNDING:
            return None
        theta, p = self.array(), self.array()
        sums = measure.threads.run(
            _write_capped_powers, theta, p, start, *table_of(direction), *way, caps,
            measure.log_caps(caps), measure.base(slice(None)), of_mass.factors, of_excess.factors,
        )  # fmt: skip
        sums = measure.comm.allreduce(sums[:4], "sum").tolist()
        if abs(of_mass.value(*sums[:2]) - 1.0) > MASS_ROUNDING:
            return None
        return StepResult(p, theta, Potentials(of_excess.value(*sums[2:]), 0.0, 1.0))

    def project(self, theta: Array, guess: float | None, out: Array) -> Projected:
        return project_entropy_onto(self.ascent.domain, theta, self.measure, guess, out)

    def potentials(self, theta: Array, new: Array, projected: Projected) -> Potentials:
        ascent, measure, density = self.ascent, self.measure, projected.density
        domain, active = ascent.domain, ascent.update == "active"
        if domain.normalised and self.unbounded:
            # theta = log u + shift, so theta u - phi(u) is u - 1 plus the shift times u
            return Potentials(projected.center + projected.tau, 0.0, 1.0)
        if not active and (measure.width > 1 or not self.single_shift):
            # log u is neither the dual point nor that of a cap
            return self.potentials_by_columns(theta, new, density)
        caps: Array | float = math.inf
        if not active:
            caps = domain.row_caps() if domain.normalised else domain.entry_cap()
        log_caps, base = measure.log_caps(caps), measure.base(slice(None))

        def at(point: Array) -> Integers:
            return np.asarray(measure.threads.run(
                _potential_at, point, new, density, log_caps, base, *measure.grid.factors
            ))  # fmt: skip

        folded = [at(theta)] if active else [at(theta), at(new)]
        if not domain.normalised:
            folded.append(mass_on_grid(density, measure))
        total = measure.comm.allreduce(np.concatenate(folded), "sum")
        found = measure.unfolded(total)
        if found is None:
            return self.potentials_by_columns(theta, new, density)
        mass = 1.0 if domain.normalised else found.pop()
        # where log u is the dual point, new u - phi(u) = u - 1
        return Potentials(found[0], mass - 1.0 if active else found[-1], mass)

    def moments(self, situation: Situation) -> Moments | None:
        active = self.ascent.update == "active"
        if not self.single_shift:
            return None
        (rows, width), state, direction = self.tied, situation.state, situation.direction
        coded, limits = isinstance(direction, LeafCodes), self.limits(state.density, rows)
        if active and coded and width == 1 and self.measure.count > thresholds.SHORT_TABLE:
            return NearCaps(limits, rows, state.density, direction)
        if not active and width > 1 and self.measure.maximum(state.theta) > LARGEST_LOG:
            return None  # the shares of entries inside a row would be lost
        powers = state.density
        if not active:
            powers = np.empty(state.theta.size)
            cut = np.empty(state.theta.size)
            self.measure.threads.run(_write_box, state.theta, LARGEST_LOG, cut, powers)
        by_factors = active and (width > 1 or coded)
        return EntropyMoments(limits, rows, width, powers, direction, by_factors)

    def corrective_step(self, situation: Situation) -> Step | None:
        domain, direction = self.ascent.domain, situation.direction
        if domain.normalised and self.unbounded:
            step = adaboost_step(situation)
            if step is not None:
                return step
            if isinstance(direction, LeafCodes):
                found = step_by_leaf_sums(situation)
                return None if found is None else Step(found)
        near = None
        if domain.normalised and isinstance(direction, LeafCodes):
            near = self._without_caps(situation)
        return corrective_by_newton(situation, self.moments(situation), near)

    def _without_caps(self, situation: Situation) -> tuple[float, float] | None:
        """Return step and shift of Newton's method without caps: a good starting point."""
        direction = situation.direction
        step = step_by_leaf_sums(situation, close=1e-3)
        if step is None or step * reach_of(direction, self.measure) > FAR:
            return None
        return step, direction.log_mean_exp(step, situation.state.density, self.measure)

    def shift_after(
        self, situation: Situation, share: float, step: float, shift: float | None
    ) -> float | None:
        domain, d = self.ascent.domain, situation.direction
        if not domain.normalised or self.unbounded or not self.single_shift:
            return None
        if self.ascent.update != "active" or not isinstance(d, LeafCodes):
            return None
        near, length = None, share * step
        if shift is not None:
            near = cubic_shift(share, situation.edge * step, shift)
        if self.measure.width > 1:  # a pass would go over all rows
            return near
        longest = _LONG if near is None else FARTHEST
        if length * reach_of(d, self.measure) > longest:
            # a shift common to all rows moves nothing
            low, high = self.measure.extent(situation.dense)
            if length * (high - low) > longest:
                return near
        rows = self.moments(situation)
        assert rows is not None
        if near is None:
            near = d.log_mean_exp(length, situation.state.density, self.measure)
        return newton_in_shift(rows, length, near)


def project_entropy_onto(
    domain: Domain, theta: Array, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected:
    """Project onto any domain under entropy; fast projections write the density to `out`."""
    limits = domain.source_caps()
    if not domain.normalised:
        dual, top = np.empty_like(theta), math.log(domain.entry_cap())
        measure.threads.run(_write_box, theta, top, dual, out)
        return Projected(out, 0.0, 0.0, lambda: dual)
    if limits is not None:
        return project_sources(
            Entropy(), domain.row_caps(), limits, theta, measure, _entropy_onto_mass
        )
    limit = domain.divergence_limit()
    if limit is not None:

        def onto_simplex(point: Array) -> Projected:
            return project_entropy_onto(Simplex(), point, measure, None, out)

        return project_ball(Entropy(), limit, theta, measure, onto_simplex)
    caps = measure.caps_in_reach(domain.row_caps())
    found: Projected | None = None
    # a high cap on a light row may leave too few bits for the masses of the others
    if mass_scale(caps, measure).blur(measure.count) <= MASS_ROUNDING:
        separate = domain.unbounded or measure.width == 1  # no cap couples entries of a row
        fast = project_entropy if separate else project_entropy_rows
        found = fast(theta, caps, measure, guess, out)
        if found is None and guess is not None and measure.width == 1 and math.isfinite(guess):
            found = _project_near(guess, theta, caps, measure, out)
    return found or project_generic(Entropy(), domain, theta, measure, guess)


def _project_near(
    guess: float, theta: Array, caps: Array | float, measure: BaseMeasure, out: Array
) -> Projected | None:
    """Project where entries far above the root make the range of theta too large; None if the guess is not near the root.

    Entries so far above a shift are at their caps, and stay there if they are lowered, as long as the shift found
    is below the one for which they were.
    """
    highest = guess + _REACH
    lowered = np.minimum(theta, highest + measure.log_caps(caps))
    found = project_entropy(lowered, caps, measure, guess, out)
    return found if found is not None and found.center + found.tau <= highest else None


def _entropy_onto_mass(
    regularizer: Regularizer, caps: Array | float, theta: Array, part: Part, mass: float
) -> Projected:
    """Project the rows of some sources onto the densities of a given mass."""
    scale = mass / part.share
    log, domain = math.log(scale), scaled_caps(caps, scale)
    found = project_entropy_onto(domain, theta, part.measure, None, np.empty_like(theta))
    density = scale * found.density
    if part.measure.width == 1:
        np.minimum(density, caps, out=density)  # the rounding of the two scalings
    return Projected(density, found.center, found.tau - log, lambda: found.dual + log)
