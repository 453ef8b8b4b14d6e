r"""Euclidean projection onto the simplex, capped or not.

The projection of :math:`\theta` is :math:`u_i = \mathrm{clip}(\theta_i - \tau, 0, k_i)` with the shift
that makes the mass one. The mass falls piecewise linearly in :math:`\tau`: safeguarded Newton.

With several entries a row and a cap on their mean, :math:`u_{ij} = \max(\theta_{ij} - \max(\tau, \tau_i),
0)`, where a shift of :math:`\tau_i` alone would bring the row to its cap: the same problem, with
:math:`\max(\theta_{ij} - \tau_i, 0)` for the cap of an entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from maboost.mirror import kernels
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import caps_of_entries
from maboost.mirror.projected import (
    MASS_TOLERANCE,
    Projected,
    joined,
    mass_scale,
    part_of,
    sample,
)
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.exact_sum import fixed_point
from maboost.runtime.messages import pooled
from maboost.runtime.threads import PICKED

__all__ = ["project_euclidean", "project_euclidean_rows"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_RESOLVED = 1e3  # a shift up to here is known to 1e-13


def project_euclidean(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Euclidean with caps on entries; None where the range of theta needs the generic path."""
    lowest, center = measure.extent(theta)
    span = center - lowest
    if not span < 1e9:
        return None
    for _ in range(3):
        problem = _Problem(theta, caps, measure, center, span)
        tau = problem.root(guess)
        if tau is None:
            break
        if abs(tau) <= _RESOLVED:
            return problem.projected(tau, out)
        center = guess = center + tau  # once more, with the rows around the root in full precision
    return None


def project_euclidean_rows(
    theta: Array, caps: Array | float, measure: BaseMeasure, guess: float | None, out: Array
) -> Projected | None:
    """Euclidean with several entries a row and caps on their mean; None as :func:`project_euclidean`."""
    table = np.empty((measure.rows, measure.width))

    def work(a: int, b: int) -> None:
        entries = slice(a * measure.width, b * measure.width)
        caps_of_entries(theta[entries], part_of(caps, slice(a, b)), table[a:b])

    measure.threads.over(measure.rows, work, PICKED)
    return project_euclidean(theta, table.reshape(-1), measure, guess, out)


class _Problem:
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
        """Where tau may be, and a width either way that should hold it."""
        if guess is not None:
            return guess - self.center, 0.02
        pick = sample(self.theta.size)
        tau = 0.0
        if self.theta.size:
            tau = kernels.euclidean_guess(
                self.theta[pick] - self.center,
                self.measure.entries[pick],
                part_of(self.caps, pick),
            )
        return float(self.measure.comm.broadcast(np.array([tau]))[0]), 0.04

    def root(self, guess: float | None) -> float | None:
        """The shift, relative to the center; None where it is not found."""
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
        """Sums over entries whose place is the same for all tau in the bracket; the other entries."""
        bracket = (self.center, low, high)

        def work(a: int, b: int) -> tuple[Integers, Array]:
            limits, base = part_of(self.caps, slice(a, b)), self.measure.base(slice(a, b))
            found: tuple[Integers, Array] = kernels.euclidean_classify(
                self.theta[a:b], base, limits, *bracket, *self.grids
            )
            return found

        return joined(self.measure.threads.over(self.theta.size, work))

    def corner(self, tau: float) -> float:
        """The largest shift that leaves all entries at their cap that are there at tau."""
        places = (self.theta - self.center) - self.caps
        return self.measure.minimum(np.where(places >= tau, places, np.inf))

    def projected(self, tau: float, density: Array) -> Projected:
        """clip(x - tau, 0, cap), which is its own gradient."""

        def work(a: int, b: int) -> None:
            limits = part_of(self.caps, slice(a, b))
            kernels.clip_density(self.theta[a:b], limits, self.center, tau, density[a:b])

        self.measure.threads.over(self.theta.size, work)
        return Projected(density, self.center, tau, lambda: density)


class _Sums:
    """The moment and mass of free entries and the mass of capped ones, anywhere in a bracket.

    Where the entries that it leaves open are few, one message tells them to all shards.
    """

    def __init__(self, problem: _Problem, decided: Integers, undecided: Array) -> None:
        self.problem = problem
        self.decided, self.undecided = decided, undecided
        self.comm = problem.measure.comm
        told, everyone = pooled(decided, undecided, self.comm)
        if everyone is not None:
            self.decided, self.undecided = told.sum(axis=0), everyone
            self.comm = SerialCommunicator()

    def at(self, tau: float) -> tuple[float, float, float]:
        problem = self.problem
        part = kernels.euclidean_decided(*self.undecided, problem.center, tau, tau, *problem.grids)
        sums = self.decided + np.array(part, dtype=np.int64)
        total = self.comm.allreduce(sums, "sum").tolist()
        mass = problem.mass_grid.value
        return problem.moment_grid.value(*total[:2]), mass(*total[2:4]), mass(*total[4:])


def _piecewise_root(
    at: Callable[[float], tuple[float, float, float]],
    corner: Callable[[float], float],
    low: float,
    high: float,
) -> tuple[float, bool]:
    """Where moment + cap - tau * mass = 1 in [low, high]; or, with False, a better place to look.

    Where no entry is free it is so on an interval, which ends at the `corner` of any place in it.
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
        # every third step halves the bracket: Newton's method alone may jump between two pieces for ever
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
    """The root near tau that does not depend on the way there, and so not on the shards."""
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
    # Where the root is at a corner, the pieces that meet there give quotients that differ in their last
    # bits: the lower one.
    # Where little is free the blur is wide, and the quotient of a piece further off may be anywhere.
    met = [s for s in sides if first <= s <= last and abs(newton(s)[0] - 1.0) <= MASS_TOLERANCE]
    return min(met, default=tau)
