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
from maboost.mirror.exponential import exponentials_into
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import means_of_rows, spread_over_rows, tops_taken_out
from maboost.mirror.projected import (
    Projected,
    joined,
    mass_scale,
    part_of,
)
from maboost.runtime.communicator import by_rank
from maboost.runtime.exact_sum import FixedPoint
from maboost.runtime.messages import pooled

__all__ = ["project_entropy", "project_entropy_rows"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_SAMPLE = 1 << 14  # entries of a first guess, at most
_DEVIATIONS = 2.4  # of the masses of a sample: enough for nearly all first guesses
_BLOCK = 1 << 17  # entries that stay in the cache from one pass to the next
_MODEST = 16.0  # logs whose exponentials are far from the ends of a float's range


def project_entropy(
    theta: Array,
    caps: Array | float,
    measure: BaseMeasure,
    guess: float | None,
    out: Array,
    spend: bool = False,
) -> Projected | None:
    """Entropy with one entry a row; None where the range of theta needs the generic path.

    A theta that may be spent becomes the dual point.
    """
    own_top = _exponentials(theta, measure, out)
    problem = _Problem(theta, caps, measure, own_top, out)
    s = problem.scale(guess)
    if not problem.agreed:  # once more, knowing the largest entry of all shards
        _exponentials(theta, measure, out)
        problem = _Problem(theta, caps, measure, problem.top, out)
        s = problem.scale(guess)
    if s is None or not 1e-12 < s < 1e12:
        return None
    center, tau = problem.center, -math.log(s)
    return Projected(
        problem.density(s),
        center,
        tau,
        lambda: problem.dual(tau, theta if spend else measure.array()),
    )


def _exponentials(theta: Array, measure: BaseMeasure, p: Array) -> float:
    """Put e^theta, which is what nearly every center needs, into p; the largest entry of theta."""

    def work(a: int, b: int) -> float:
        top = -math.inf
        for start in range(a, b, _BLOCK):
            block = theta[start : min(start + _BLOCK, b)]
            exponentials_into(block, p[start : start + block.size])
            # after: it waits for memory, exponentials do not
            top = max(top, float(block.max()))
        return top

    return max(measure.threads.over(theta.size, work))


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
        self.unbounded = isinstance(caps, float) and math.isinf(caps)
        self.measure = measure
        self.own_top = self.top = top
        self.agreed = measure.comm.size == 1
        self.center, self.grid = self.frame(top)
        self.p = p
        if self.center != 0.0:
            self.centre()

    def centre(self) -> None:
        """The exponentials where the center is not zero."""

        def work(a: int, b: int) -> None:
            block = np.subtract(self.theta[a:b], self.center, out=self.p[a:b])
            exponentials_into(block, block)

        self.measure.threads.over(self.theta.size, work)

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
        if not self.unbounded:
            return self.scale_under_caps(guess)
        mass = self.mass()
        return 1.0 / mass if mass > 1e-12 else None

    def mass(self) -> float:
        """The integral of p (zero where nothing is agreed)."""

        def work(a: int, b: int) -> tuple[int, int]:
            folded: tuple[int, int] = kernels.weighted_mass(
                self.p[a:b], self.measure.base(slice(a, b)), self.grid.factors
            )
            return folded

        sums = self.measure.threads.summed(self.theta.size, work)
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

    def dual(self, tau: float, out: Array) -> Array:
        """The logarithms of the density, into `out`."""
        tops = self.measure.log_caps(self.caps)

        def work(a: int, b: int) -> None:
            its = part_of(tops, slice(a, b))
            kernels.shifted(self.theta[a:b], self.center, tau, its, out[a:b])

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
        """Where s may be, and a factor either way that should hold it; None where nothing is agreed."""
        if guess is not None:
            return math.exp(min(max(self.center - guess, -600.0), 600.0)), 1.02
        s, count = kernels.entropy_guess(self.p, self.measure.base(slice(None)), self.caps, _SAMPLE)
        margin = 1.0 + _DEVIATIONS / math.sqrt(max(count, 1))
        if self.agreed:  # a single shard
            return s, margin
        told = by_rank(np.array([s, margin, self.own_top]), self.measure.comm)
        return (float(told[0, 0]), float(told[0, 1])) if self.agree(told[:, 2]) else None

    def classified(self, low: float, high: float) -> tuple[Integers, Array]:
        """Sums over entries whose place is the same for all s in the bracket; the other entries."""

        def work(a: int, b: int) -> tuple[Integers, Array]:
            limits, base = part_of(self.caps, slice(a, b)), self.measure.base(slice(a, b))
            found: tuple[Integers, Array] = kernels.entropy_classify(
                self.p[a:b], base, limits, low, high, self.grid.factors
            )
            return found

        return joined(self.measure.threads.over(self.theta.size, work))

    def newton(
        self, decided: Integers, undecided: Array, low: float, high: float
    ) -> tuple[float, float, float]:
        """Newton's method from below: where in the bracket it ends, the free and the capped mass there.

        Where the entries that the bracket leaves open are few, all shards know all of them from one
        message, and no other is needed. Where they are many, it is one step a message, after which only
        those around the next place are open.
        """
        comm, factors = self.measure.comm, self.grid.factors
        while comm.size > 1:
            at_low = kernels.entropy_at(undecided, decided, low, factors)
            told = np.concatenate([at_low, decided, _bits(self.own_top)])
            table, everyone = pooled(told, undecided, comm)
            if not self.agree(table[:, 8].view(np.float64)):
                return low, 0.0, 0.0
            if everyone is not None:
                decided, undecided = table[:, 4:8].sum(axis=0), everyone
                break
            free, capped = kernels.entropy_masses(table[:, :4].sum(axis=0), factors)
            new = (1.0 - capped) / free if free > 0.0 else math.nan
            if capped >= 1.0 or not low < new <= high:
                return low, free, capped
            high = min(high, new + (new - low) / 16.0)  # each step is far shorter than the last
            more, undecided = kernels.entropy_classify(*undecided, new, high, factors)
            low, decided = new, decided + more
        found: tuple[float, float, float] = kernels.entropy_newton(
            undecided, decided, low, high, factors
        )
        return found


def _bits(value: float) -> Integers:
    """A float for a message of integers."""
    return np.array([value]).view(np.int64)


def project_entropy_rows(
    theta: Array,
    caps: Array | float,
    measure: BaseMeasure,
    guess: float | None,
    out: Array,
    spend: bool = False,
) -> Projected | None:
    """Entropy with several entries a row and caps on the rows' totals.

    The chain rule of relative entropy splits the problem: project the rows' totals, then rescale
    inside each row. A row of logs theta has the log-total log mean exp theta.
    """
    rows, width = measure.of_rows, measure.width
    tops, means, totals = rows.array(), rows.array(), rows.array()

    def powers(a: int, b: int) -> None:
        for start in range(a, b, _BLOCK // width):
            some = slice(start, min(start + _BLOCK // width, b))
            part = slice(some.start * width, some.stop * width)
            np.copyto(out[part], theta[part])
            tops_taken_out(out[part], -math.inf, tops[some])
            exponentials_into(out[part], out[part])
            means_of_rows(out[part], means[some])

    def log_totals(a: int, b: int) -> None:
        totals[a:b] = (tops[a:b] - center) + np.log(means[a:b])

    rows.threads.over(rows.rows, powers, _BLOCK // width)
    center = measure.maximum(tops)  # out of the totals first: log means are small beside it
    rows.threads.over(rows.rows, log_totals)
    near = None if guess is None else guess - center
    found = project_entropy(totals, caps, rows, near, rows.array(), spend=True)
    if found is None:
        return None
    row_density, row_dual = found.density, found.dual
    dual = theta if spend else measure.array()

    def spread(a: int, b: int) -> None:
        part = slice(a * width, b * width)
        shifts, factors = row_dual[a:b] - np.log(means[a:b]), row_density[a:b] / means[a:b]
        spread_over_rows(theta[part], tops[a:b], shifts, factors, out[part], dual[part])

    rows.threads.over(rows.rows, spread, _BLOCK // width)
    return Projected(out, center, found.center + found.tau, lambda: dual)
