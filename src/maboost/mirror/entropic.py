r"""Entropy on the simplex, capped or not: normalise, and find the scale under caps.

The projection of the log-density :math:`\theta` is :math:`u_i = \min(k_i, s e^{\theta_i - c})` with
the factor s that makes the mass one. The mass is concave and piecewise linear in s, so Newton's method
from below is monotone and finite.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.comm import FixedPoint, SerialCommunicator, by_rank
from maboost.messages import pooled
from maboost.mirror import kernels
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import (
    Projected,
    blocks,
    joined,
    mass_scale,
    part_of,
    sample,
)

__all__ = ["project_entropy", "project_entropy_rows"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_DEVIATIONS = 2.4  # of the masses of a sample: enough for nearly all first guesses
_MODEST = 16.0  # logs whose exponentials are far from the ends of a float's range


def project_entropy(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Entropy with one entry a row; None where the range of theta needs the generic path."""
    problem = _Problem(theta, caps, measure, measure.maximum_here(theta), out)
    s = problem.scale(guess)
    if not problem.agreed:  # once more, knowing the largest entry of all shards
        problem = _Problem(theta, caps, measure, problem.top, out)
        s = problem.scale(guess)
    if s is None or not 1e-12 < s < 1e12:
        return None
    center, tau = problem.center, -math.log(s)
    return Projected(problem.density(s), center, tau, lambda: problem.dual(tau))


class _Problem:
    """One projection: the exponentials p = e^(theta - center), and sums over them.

    The center and the grid of the sums follow from the largest entry of *all* shards. This shard's own
    nearly always leads to the same ones, so the problem is posed with that: the first message tells
    whether all shards have the same one so (`agreed`), and the largest entry of all (`top`).
    """

    def __init__(
        self, theta: Array, caps: Array | float, measure: BaseMeasure, top: float, p: Array
    ) -> None:
        self.theta = theta
        self.caps = caps
        self.measure = measure
        self.own_top = self.top = top
        self.agreed = False
        self.center, self.grid = self.frame(top)
        self.p = p  # room for them
        self.filled = False

    def frame(self, top: float) -> tuple[float, FixedPoint]:
        """The center, and the grid of the sums, for this largest entry."""
        center = 0.0 if abs(top) <= _MODEST else top  # what need not be subtracted is not
        most = math.exp(top - center) if math.isfinite(top) else 1.0
        return center, mass_scale(self.caps, self.measure, most)

    def agree(self, tops: Array) -> bool:
        """Whether these largest entries, one a shard, all lead to the same frame."""
        own, *others = tops.tolist()
        self.top = max(own, *others) if others else own
        self.agreed = not others or len({self.frame(top) for top in (self.top, own, *others)}) == 1
        return self.agreed

    def scale(self, guess: float | None) -> float | None:
        """The factor s that makes the mass one; None where it is not found, or nothing is agreed."""
        if not (isinstance(self.caps, float) and math.isinf(self.caps)):
            return self.scale_under_caps(guess)
        mass = self.mass()
        return 1.0 / mass if mass > 1e-12 else None

    def exponentials(self, part: slice) -> Array:
        """A block of p, computed when first asked for."""
        block = self.p[part]
        if not self.filled:
            source = self.theta[part]
            if self.center != 0.0:
                source = np.subtract(source, self.center, out=block)
            np.exp(source, out=block)
        return block

    def mass(self) -> float:
        """The integral of p (zero where nothing is agreed)."""
        base = self.measure.entries

        def work(a: int, b: int) -> Integers:
            sums = np.zeros(2, dtype=np.int64)
            for part, _ in blocks(self.caps, a, b):
                sums += kernels.weighted_mass(self.exponentials(part), base[part], self.grid[:3])
            return sums

        sums = np.sum(self.measure.threads.over(self.theta.size, work), axis=0)
        told = by_rank(np.array([*sums, *_bits(self.own_top)]), self.measure.comm)
        if not self.agree(told[:, 2].view(np.float64)):
            return 0.0
        return self.grid.value(*told[:, :2].sum(axis=0).tolist())

    def density(self, s: float) -> Array:
        """min(cap, s p), in place of p."""

        def work(a: int, b: int) -> None:
            kernels.cap_density(self.p[a:b], part_of(self.caps, slice(a, b)), s)

        self.measure.threads.over(self.theta.size, work)
        return self.p

    def dual(self, tau: float) -> Array:
        """The logarithms of the density."""
        out = np.empty_like(self.theta)

        def work(a: int, b: int) -> None:
            limits = np.log(part_of(self.caps, slice(a, b)))
            kernels.shifted(self.theta[a:b], self.center, tau, limits, out[a:b])

        self.measure.threads.over(self.theta.size, work)
        return out

    def scale_under_caps(self, guess: float | None) -> float | None:
        """Newton's method inside a bracket, which moves where it misses the root."""
        near = self.first_guess(guess)
        if near is None:
            return None
        s, margin = near
        low, high = s / margin, s * margin
        for _ in range(40):
            sums = _Sums(self, *self.classified(low, high), low)
            if not self.agreed:
                return None
            free, capped = sums.at_low
            if free * low + capped > 1.0 and low > 1e-13:
                low, high = low / margin**4, low
            else:
                s, done = sums.newton(low, high, free, capped)
                if done or math.isnan(s):
                    return s if done else None
                free, capped = sums.at(s)
                low, high = s, margin**2 * (1.0 - capped) / free
            margin = margin**2
        return None

    def first_guess(self, guess: float | None) -> tuple[float, float] | None:
        """Where s may be, and a factor either way that should hold it; None where nothing is agreed."""
        if guess is not None:
            return math.exp(min(max(self.center - guess, -600.0), 600.0)), 1.02
        pick = sample(self.theta.size, 1 << 14)
        some = np.exp(self.theta[pick] - self.center)
        margin = 1.0 + _DEVIATIONS / math.sqrt(max(some.size, 1))
        base, limits = self.measure.entries[pick], part_of(self.caps, pick)
        s = kernels.entropy_guess(some, base, limits)
        told = by_rank(np.array([s, margin, self.own_top]), self.measure.comm)
        return (float(told[0, 0]), float(told[0, 1])) if self.agree(told[:, 2]) else None

    def classified(self, low: float, high: float) -> tuple[Integers, Array]:
        """Sums over entries whose place is the same for all s in the bracket; the other entries."""
        base = self.measure.entries

        def work(a: int, b: int) -> tuple[Integers, Array]:
            found = []
            for part, limits in blocks(self.caps, a, b):
                p = self.exponentials(part)
                found.append(
                    kernels.entropy_classify(p, base[part], limits, low, high, self.grid[:3])
                )
            return joined(found)

        result = joined(self.measure.threads.over(self.theta.size, work))
        self.filled = True
        return result


class _Sums:
    """The free and the capped mass anywhere in a bracket.

    Where the entries that it leaves open are few, all shards know all of them from the first message,
    and no other is needed. Where they are many, Newton's method asks for the few around its next place.

    Attributes
    ----------
    at_low : tuple of float
        The two at the lower end.
    """

    def __init__(self, problem: _Problem, decided: Integers, undecided: Array, low: float) -> None:
        self.problem, self.grid = problem, problem.grid
        self.decided, self.undecided = decided, undecided
        self.comm = problem.measure.comm
        told = [*self._here(low), *decided, *_bits(problem.own_top)]
        table, everyone = pooled(np.array(told, dtype=np.int64), undecided, self.comm)
        problem.agree(table[:, 8].view(np.float64))
        self.at_low = self._masses(table[:, :4].sum(axis=0))
        if everyone is not None:
            self.decided, self.undecided = table[:, 4:8].sum(axis=0), everyone
            self.comm = SerialCommunicator()

    def _here(self, s: float) -> Integers:
        found: Integers = kernels.entropy_at(self.undecided, self.decided, s, self.grid[:3])
        return found

    def _masses(self, sums: Integers) -> tuple[float, float]:
        total = sums.tolist()
        return self.grid.value(*total[:2]), self.grid.value(*total[2:])

    def at(self, s: float) -> tuple[float, float]:
        """The integral of p over free entries, and of the caps over capped ones."""
        return self._masses(self.comm.allreduce(self._here(s), "sum"))

    def newton(self, s: float, high: float, free: float, capped: float) -> tuple[float, bool]:
        """From below: the root and True, or where the bracket ended and False (NaN: no free mass).

        `free` and `capped` are the masses at s.
        """
        for _ in range(200):
            if free <= 0.0 or capped >= 1.0:
                return math.nan, False
            new = (1.0 - capped) / free
            if new <= s:
                return s, True
            if new > high:
                break
            if self.comm.size > 1:
                high = min(high, new + (new - s) / 16.0)  # each step is far shorter than the last
                inside = self.within(new, high)
                return inside.newton(new, high, *inside.at_low)
            s = new
            free, capped = self.at(s)
        return s, False

    def within(self, low: float, high: float) -> _Sums:
        """The same for a narrower bracket."""
        decided, open_ = kernels.entropy_classify(*self.undecided, low, high, self.grid[:3])
        return _Sums(self.problem, self.decided + decided, open_, low)


def _bits(value: float) -> Integers:
    """A float for a message of integers."""
    return np.array([value]).view(np.int64)


def project_entropy_rows(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Entropy with several entries a row and caps on the rows' totals.

    The chain rule of relative entropy splits the problem: project the rows' totals, then rescale
    inside each row. A row of logs theta has the log-total log mean exp theta.
    """
    table = theta.reshape(measure.rows, measure.width)
    tops = table.max(axis=1, initial=-np.inf)
    center = measure.maximum(tops)  # out of the totals first: log means are small beside it
    inside = table - tops[:, None]
    log_means = np.log(np.exp(inside).mean(axis=1))
    near = None if guess is None else guess - center
    totals = (tops - center) + log_means
    found = project_entropy(totals, caps, measure.of_rows, near, np.empty_like(totals))
    if found is None:
        return None
    dual = (inside + (found.dual - log_means)[:, None]).reshape(-1)
    return Projected(np.exp(dual, out=out), center, found.center + found.tau, lambda: dual)
