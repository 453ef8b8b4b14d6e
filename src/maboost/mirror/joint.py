r"""The corrective step and its projection in one Newton iteration.

For a direction d the corrective step :math:`\eta` and the shift :math:`\tau` of its projection
minimise one smooth convex function of two variables,

.. math:: \Psi(\eta, \tau) = \tau + \sum_i D_i\,\varphi^*_{[0,k_i]}(\theta_i + \eta d_i - \tau),

whose partial derivatives are minus the edge of the next distribution and one minus its mass. Each
pass over the rows gives the gradient and the 2 x 2 Hessian. Nothing depends on its success: the
caller falls back to a bracketed search, and gains are measured at whatever step was taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.coded import Coded
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.passes import Pass, pass_for
from maboost.mirror.regularizers import Entropy, Euclidean

__all__ = ["Corrected", "joint_corrective"]

Array = NDArray[np.float64]

# of logarithms after a step: beyond, nothing is known well; nothing at all
_FAR, _FARTHEST = 5.0, 60.0
_NEAR = 3e-8  # where one step more of Newton's method leads to the last bits, if all is smooth


class Corrected(NamedTuple):
    """The corrective step, and the shift of the projection it leads to where that is known.

    `shorter` is the shift after only a share of the step, where that is found more easily than without the
    step; None where it is not.
    """

    step: float
    shift: float | None
    shorter: Callable[[float], float | None]


def joint_corrective(
    ascent: MirrorAscent,
    state: AscentState,
    direction: Array | Coded,
    edge: float,
    measure: BaseMeasure,
    l1: float = 0.0,
) -> Corrected | None:
    """Newton's method in (step, shift); None where it does not apply or does not converge.

    Off the plane of mass one there is no shift, and the method runs in the step alone.
    """
    if type(ascent.regularizer) not in (Entropy, Euclidean):
        return None
    simplex = ascent.domain.normalised and ascent.domain.unbounded
    if isinstance(direction, Coded) and simplex and type(ascent.regularizer) is Entropy:
        return _by_leaf_sums(direction, state, edge, measure)
    problem = pass_for(ascent, state, direction, measure, l1)
    if problem is None:
        return None
    plane, reach = ascent.domain.normalised, _reach(direction, measure)
    step, shift = min(edge * state.mass / reach, 0.9) / reach, 0.0
    if problem.by_factors and plane and isinstance(direction, Coded):
        step, shift = _without_caps(direction, state, edge, measure) or (step, shift)
    found = _newton(problem, step, shift, l1, reach, None if plane else state.mass)
    if found is None or problem.clipped:
        return None
    step, shift = found
    return Corrected(step, shift if plane else None, partial(_shorter, problem, edge, step, shift))


def _newton(
    problem: Pass, step: float, shift: float, l1: float, reach: float, free_mass: float | None
) -> tuple[float, float] | None:
    """Step and shift, from a first guess of them; `free_mass` is that of the density off the plane of mass one."""
    plane, scale = free_mass is None, free_mass or 1.0
    previous = math.inf
    for _ in range(30):
        mass, loss, h00, h01, h11 = problem.sums(step, shift)
        off = 1.0 - mass if plane else 0.0
        slope = loss + l1
        residual = max(abs(slope) / reach, abs(off))
        if residual <= 2e-14 * scale or (residual < 1e-11 * scale and residual >= previous):
            return step, shift
        # gradient of Psi: (slope, off); Hessian: ((h11, -h01), (-h01, h00))
        cross, down = (h01, h00) if plane else (0.0, 1.0)
        determinant = down * h11 - cross * cross
        if not determinant > 1e-12 * down * h11 or residual > 4.0 * previous:
            return None
        move = -(down * slope + cross * off) / determinant
        drift = -(cross * slope + h11 * off) / determinant
        damping = min(1.0, 2.0 / max(reach * abs(move), abs(drift), 1e-300))
        step, shift = step + damping * move, shift + damping * drift
        if not 0.0 < step * reach < _FARTHEST:
            return None
        if problem.by_factors and residual <= _NEAR:
            return step, shift
        previous = residual
    return None


def _without_caps(
    coded: Coded, state: AscentState, edge: float, measure: BaseMeasure
) -> tuple[float, float] | None:
    """Where the method ends if no cap matters: a good place to start."""
    found = _by_leaf_sums(coded, state, edge, measure)
    if found is None or found.step * _reach(coded, measure) > _FAR:
        return None
    return found.step, coded.log_mean_exp(found.step, state.density, measure)


def _shorter(problem: Pass, edge: float, step: float, shift: float, share: float) -> float | None:
    """The shift after a share of a step: Newton's method in it alone.

    It starts from a cubic, since the slope of the shift is known at both ends: minus the edge, which vanishes
    at the whole step.
    """
    if not problem.by_factors:
        return None
    rest = 1.0 - share
    shift = share * (share * (1.0 + 2.0 * rest) * shift - rest * rest * edge * step)
    for _ in range(20):
        mass, _, free, _, _ = problem.sums(share * step, shift)
        if not free > 0.0:
            return None
        move = (mass - 1.0) / free
        shift += min(max(move, -1.0), 1.0)
        if abs(move) <= _NEAR:
            return shift
    return None


def _reach(direction: Array | Coded, measure: BaseMeasure) -> float:
    """The largest magnitude of a direction's entries: what a unit of step does at most to a logarithm.

    The losses of trees of many classes are small, and their steps long.
    """
    if isinstance(direction, Coded):
        return max(float(np.max(np.abs(direction.values))), 1e-300)
    low, high = measure.extent(direction)
    return max(-low, high, 1e-300)


def _by_leaf_sums(
    coded: Coded, state: AscentState, edge: float, measure: BaseMeasure
) -> Corrected | None:
    """Entropy on the simplex: the next edge needs only the masses of the codes."""
    masses, d = coded.masses(state.density, measure, state.mass), coded.values
    held = masses > 0.0
    masses, d, reach = masses[held], d[held], _reach(coded, measure)
    if not np.any(d > 0.0):
        return None
    powers = np.stack([masses, masses * d, masses * d * d])
    below, longest = d - d.max(), 2.0 / reach
    step, last = math.atanh(min(edge, 0.9)), math.inf  # where all answers are votes, it is that
    for _ in range(100):
        mass, loss, square = (powers * np.exp(step * below)).sum(axis=1).tolist()
        loss /= mass
        spread = square / mass - loss * loss
        if not spread > 0.0:
            return None
        move = -loss / spread
        step += min(max(move, -longest), longest)
        if not 0.0 < step * reach < _FARTHEST:
            return None
        # where rounding is all that is left
        if abs(move) <= 1e-15 * step or last <= abs(move) < 1e-12 * step:
            break
        last = abs(move)
    return Corrected(step, None, lambda share: None)
