r"""The corrective step and its projection in one Newton iteration.

For a direction d the corrective step :math:`\eta` and the shift :math:`\tau` of its projection
minimise one smooth convex function of two variables,

.. math:: \Psi(\eta, \tau) = \tau + \sum_i D_i\,\varphi^*_{[0,k_i]}(\theta_i + \eta d_i - \tau),

whose partial derivatives are minus the edge of the next distribution and one minus its mass. Each
pass over the rows gives the gradient and the 2 x 2 Hessian. Correctness does not depend on convergence: the
caller falls back to a bracketed search, and gains are measured at the step that is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.engine.base import Moments
from maboost.engine.leaf_codes import Direction, LeafCodes
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import MASS_ROUNDING, NEARBY, capped_rows
from maboost.mirror.regularizers import Regularizer
from maboost.mirror.steps import CLEARLY_POSITIVE, Situation, Step, smallest_edge
from maboost.runtime.exponential import exponentials_into

__all__ = [
    "FAR",
    "FARTHEST",
    "AnyMoments",
    "adaboost_step",
    "corrective_by_newton",
    "cubic_shift",
    "newton_in_shift",
    "reach_of",
    "step_by_leaf_sums",
]

Array = NDArray[np.float64]

# lengths of a step, in units of the logarithm of the density
FAR = 5.0  # beyond this the quadratic model is poor
FARTHEST = 60.0  # beyond this the quadratic model is useless
_LOST = 1e4  # beyond this Newton's method diverges; bounded densities may need steps of hundreds
_NEAR = 3e-8  # one more Newton step from here reaches the last bits if the function is smooth


def corrective_by_newton(
    s: Situation, rows: Moments | None, near: tuple[float, float] | None = None
) -> Step | None:
    """Run Newton's method in (step, shift), from `near` if given; None if it does not apply or converge.

    Off the plane of mass one there is no shift, and the method has one variable.
    """
    if rows is None:
        return None
    plane, reach = s.ascent.domain.normalised, reach_of(s.direction, s.measure)
    step, shift = min(s.edge * s.state.mass / reach, 0.9) / reach, 0.0
    if rows.by_factors and plane and near is not None:
        step, shift = near

    def rootless() -> bool:
        return plane and smallest_edge(s) > CLEARLY_POSITIVE

    found = _newton(rows, step, shift, s.l1, reach, None if plane else s.state.mass, rootless)
    if found is None or rows.clipped:
        return None
    step, shift = found
    return Step(step, guess=shift if plane else None)


def _newton(
    rows: Moments,
    step: float,
    shift: float,
    l1: float,
    reach: float,
    free_mass: float | None,
    rootless: Callable[[], bool],
) -> tuple[float, float] | None:
    """Run Newton's method from a first guess of step and shift.

    `free_mass` is the mass of the density off the plane of mass one. If steps grow long, `rootless` says
    whether they would grow forever, as they do if caps are close to one.
    """
    plane, scale = free_mass is None, free_mass or 1.0
    previous, asked, radius = math.inf, False, 2.0
    for _ in range(30):
        mass, loss, h00, h01, h11 = rows.sums(step, shift)
        off = 1.0 - mass if plane else 0.0
        slope = loss + l1
        residual = max(abs(slope) / reach, abs(off))
        if residual <= MASS_ROUNDING * scale or (residual < 1e-11 * scale and residual >= previous):
            return step, shift
        # gradient of Psi: (slope, off); Hessian: ((h11, -h01), (-h01, h00))
        cross, down = (h01, h00) if plane else (0.0, 1.0)
        determinant = down * h11 - cross * cross
        if not determinant > 1e-12 * down * h11 or residual > 4.0 * previous:
            return None
        move = -(down * slope + cross * off) / determinant
        drift = -(cross * slope + h11 * off) / determinant
        damping = min(1.0, radius / max(reach * abs(move), abs(drift), 1e-300))
        radius *= 2.0  # only the first steps, from a guess, need a small trust region
        step, shift = step + damping * move, shift + damping * drift
        if not 0.0 < step * reach < _LOST:
            return None
        if step * reach > FAR and not asked:
            asked = True
            if rootless():
                return None
        if rows.by_factors and plane and residual <= _NEAR:
            return step, shift
        previous = residual
    return None


def cubic_shift(share: float, edge: float, shift: float) -> float:
    """Return roughly the shift after a share of a corrective step.

    The cubic uses its slopes at both ends: minus the edge at zero, and zero after the whole step.
    """
    rest = 1.0 - share
    return share * (share * (1.0 + 2.0 * rest) * shift - rest * rest * edge)


def newton_in_shift(rows: Moments, step: float, shift: float) -> float | None:
    """Run Newton's method in the shift alone, from a first guess."""
    for _ in range(20):
        mass, _, free, _, _ = rows.sums(step, shift)
        if not free > 0.0:
            return None
        move = (mass - 1.0) / free
        shift += min(max(move, -1.0), 1.0)
        if abs(move) <= _NEAR:
            return shift
    return None


def reach_of(direction: Direction, measure: BaseMeasure) -> float:
    """Return the largest magnitude of a direction's entries, a bound on the change of a logarithm by a unit step.

    The losses of trees with many classes are small, and their steps long.
    """
    if isinstance(direction, LeafCodes):
        return max(float(np.maximum.reduce(np.abs(direction.values))), 1e-300)
    low, high = measure.extent(direction)
    return max(-low, high, 1e-300)


def adaboost_step(s: Situation) -> Step | None:
    """Return AdaBoost's step under entropy on the simplex; None unless every answer is a vote."""
    d = s.direction
    if isinstance(d, LeafCodes):
        if not np.all(np.abs(d.values) == 1.0):
            return None
        masses = d.masses(s.state.density, s.measure, s.state.mass)
        wrong = math.fsum(masses[d.values > 0.0])
    else:
        votes = np.array([np.all(np.abs(d) == 1.0)], dtype=np.int64)
        if not s.measure.comm.allreduce(votes, "min")[0]:
            return None
        wrong = s.measure.integral(np.where(d > 0.0, s.state.density, 0.0))
    return Step(0.5 * math.log((1.0 - wrong) / wrong)) if wrong > 0.0 else None


def step_by_leaf_sums(s: Situation, close: float = 1e-15) -> float | None:
    """Return the step under entropy on the simplex: the next edge needs only the masses of the codes.

    The iteration ends when the next change is at most `close` times the step.
    """
    coded = s.direction
    assert isinstance(coded, LeafCodes)
    masses, d = coded.masses(s.state.density, s.measure, s.state.mass), coded.values
    held = masses > 0.0
    masses, d, reach = masses[held], d[held], reach_of(coded, s.measure)
    top, longest = np.maximum.reduce(d), 2.0 / reach
    if not top > 0.0:
        return None
    powers, below = np.array([masses, masses * d, masses * d * d]), d - top
    step, last = math.atanh(min(s.edge, 0.9)), math.inf  # where all answers are votes, it is that
    for _ in range(100):
        factors = step * below
        exponentials_into(factors, factors)
        mass, loss, square = np.add.reduce(powers * factors, axis=1).tolist()
        loss /= mass
        spread = square / mass - loss * loss
        if not spread > 0.0:
            return None
        move = -loss / spread
        step += min(max(move, -longest), longest)
        if not 0.0 < step * reach < FARTHEST:
            return None
        # only rounding is left
        if abs(move) <= close * step or last <= abs(move) < 1e-12 * step:
            break
        last = abs(move)
    return step


@dataclass
class AnyMoments:
    """The moments of any regularizer, over rows of `width` entries; slopes are differences, which only steer."""

    regularizer: Regularizer
    measure: BaseMeasure
    width: int
    caps: Array | float
    theta: Array
    direction: Array
    clipped: bool = False
    by_factors: bool = False

    def sums(self, step: float, shift: float) -> list[float]:
        def columns(part: slice) -> list[Array]:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # set here, since it is local to a thread
                return self._columns(part, step, shift)

        return self.measure.integrals_of(columns, 5)

    def _columns(self, part: slice, step: float, shift: float) -> list[Array]:
        """Return for each row the means of u, u d and slope * (1, d, d^2).

        At a cap only the difference of d from its mean matters.
        """
        shape = part.stop - part.start, self.width
        entries = slice(part.start * self.width, part.stop * self.width)
        d = self.direction[entries].reshape(shape)
        x = self.theta[entries].reshape(shape) + step * d - shift
        u = self.regularizer.point(x)
        caps = np.broadcast_to(
            self.caps[part] if isinstance(self.caps, np.ndarray) else self.caps, shape[:1]
        )
        over = u.mean(axis=1) > caps
        if over.any():
            u = u.copy()
            u[over], x[over] = capped_rows(self.regularizer, x[over], caps[over])
        slopes = np.maximum(self.regularizer.point(x + NEARBY) - u, 0.0) / NEARBY
        moments = [(slopes * power).mean(axis=1) for power in (1.0, d, d * d)]
        if over.any():
            still, mean = moments[0][over], moments[1][over]
            held = np.divide(mean * mean, still, out=np.zeros_like(still), where=still > 0.0)
            moments[2][over] -= held
            moments[0][over] = moments[1][over] = 0.0
        return [u.mean(axis=1), (u * d).mean(axis=1), *moments]
