r"""Entropy on the simplex, capped or not: normalise, and find the scale under caps.

The projection of the log-density :math:`\theta` is :math:`u_i = \min(k_i, s e^{\theta_i - c})` with
the factor s that makes the mass one. The mass is concave and piecewise linear in s, so Newton's method
from below is monotone and finite.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.mirror import kernels
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import (
    BLOCK,
    Projected,
    blocks,
    joined,
    marks_for,
    mass_scale,
    part_of,
    sample,
)

__all__ = ["project_entropy", "project_entropy_rows"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_MODEST = 16.0  # logs whose exponentials are far from the ends of a float's range


def project_entropy(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None
) -> Projected | None:
    """Entropy with one entry a row; None where the range of theta needs the generic path."""
    problem = _Problem(theta, caps, measure)
    if isinstance(caps, float) and math.isinf(caps):
        mass = problem.mass()
        if not mass > 1e-12:  # all on rows so light that the grid of the sum hardly sees them
            return None
        s = 1.0 / mass
    else:
        found = problem.scale_under_caps(guess)
        if found is None or not 1e-12 < found < 1e12:
            return None
        s = found
    center, tau = problem.center, -math.log(s)
    return Projected(problem.density(s), center, tau, lambda: problem.dual(tau))


class _Problem:
    """One projection: the exponentials p = e^(theta - center), and sums over them."""

    def __init__(self, theta: Array, caps: Array | float, measure: BaseMeasure) -> None:
        self.theta = theta
        self.caps = caps
        self.measure = measure
        top = measure.maximum(theta)
        self.center = 0.0 if abs(top) <= _MODEST else top  # what need not be subtracted is not
        self.grid = mass_scale(caps, measure, math.exp(top - self.center))
        self.p = np.empty_like(theta)
        self.filled = False

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
        """The integral of p."""
        base = self.measure.entries

        def work(a: int, b: int) -> Integers:
            sums = np.zeros(2, dtype=np.int64)
            for part, _ in blocks(self.caps, a, b):
                sums += kernels.weighted_mass(self.exponentials(part), base[part], self.grid[:3])
            return sums

        sums = np.sum(self.measure.threads.over(self.theta.size, work), axis=0)
        return self.grid.value(*self.measure.comm.allreduce(sums, "sum").tolist())

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
        """The factor s: Newton's method inside a bracket, which moves where it misses the root."""
        s, margin = self.first_guess(guess)
        low, high = s / margin, s * margin
        for _ in range(40):
            sums = _Sums(self, *self.classified(low, high))
            free, capped = sums.at(low)
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

    def first_guess(self, guess: float | None) -> tuple[float, float]:
        """Where s may be, and a factor either way that should hold it."""
        if guess is not None:
            return math.exp(min(max(self.center - guess, -600.0), 600.0)), 1.02
        pick = sample(self.theta.size)
        some = np.exp(self.theta[pick] - self.center)
        s = kernels.entropy_guess(some, self.measure.entries[pick], part_of(self.caps, pick))
        return float(self.measure.comm.broadcast(np.array([s]))[0]), 1.06

    def classified(self, low: float, high: float) -> tuple[Integers, Array]:
        """Sums over entries whose place is the same for all s in the bracket; the other entries."""
        base = self.measure.entries

        def work(a: int, b: int) -> tuple[Integers, list[Array]]:
            found, sums = [np.empty((3, 0))], np.zeros(4, dtype=np.int64)
            marks = marks_for(min(BLOCK, b - a))
            for part, limits in blocks(self.caps, a, b):
                block = self.exponentials(part)
                sums += kernels.entropy_decided(block, base[part], limits, low, high, self.grid[:3])
                marks[block.size :] = 0
                kernels.entropy_undecided(block, limits, low, high, marks)
                found.append(kernels.gather(marks, block, base[part], limits))
            return sums, found

        result = joined(self.measure.threads.over(self.theta.size, work))
        self.filled = True
        return result


class _Sums:
    """The free and the capped mass anywhere in a bracket."""

    def __init__(self, problem: _Problem, decided: Integers, undecided: Array) -> None:
        self.problem = problem
        self.decided = decided
        self.undecided = undecided

    def at(self, s: float) -> tuple[float, float]:
        """The integral of p over free entries, and of the caps over capped ones."""
        grid = self.problem.grid
        sums = kernels.entropy_at(self.undecided, self.decided, s, grid[:3])
        total = self.problem.measure.comm.allreduce(sums, "sum").tolist()
        return grid.value(*total[:2]), grid.value(*total[2:])

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
            s = new
            free, capped = self.at(s)
        return s, False


def project_entropy_rows(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None
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
    found = project_entropy((tops - center) + log_means, caps, measure.of_rows, near)
    if found is None:
        return None
    dual = (inside + (found.dual - log_means)[:, None]).reshape(-1)
    return Projected(np.exp(dual), center, found.center + found.tau, lambda: dual)
