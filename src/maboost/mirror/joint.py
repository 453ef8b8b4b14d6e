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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.coded import Coded
from maboost.mirror.exponential import exponentials
from maboost.mirror.linear import linear_minimum
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.passes import Pass
from maboost.mirror.projected import ROUNDING
from maboost.mirror.regularizers import Entropy, Euclidean
from maboost.mirror.situation import Situation

__all__ = ["Corrected", "joint_corrective", "shift_after", "smallest_edge"]

Array = NDArray[np.float64]

# lengths of a step, in logarithms
_LONG = 1.0  # beyond, so many rows reach their caps that to list them takes longer than to project
_FAR = 5.0  # beyond, nothing is known well
_FARTHEST = 60.0  # beyond, nothing is known at all
_LOST = 1e4  # beyond, Newton's method has lost its way: bounded densities may ask for hundreds
CLEARLY_POSITIVE = 1e-9  # an edge that no rounding of a projection hides
_NEAR = 3e-8  # where one step more of Newton's method leads to the last bits, if all is smooth


class Corrected(NamedTuple):
    """The corrective step, and the shift of the projection it leads to where that is known."""

    step: float
    shift: float | None


def joint_corrective(s: Situation) -> Corrected | None:
    """Newton's method in (step, shift); None where it does not apply or does not converge.

    Off the plane of mass one there is no shift, and the method runs in the step alone.
    """
    domain, d = s.ascent.domain, s.direction
    plane, coded = domain.normalised, d if isinstance(d, Coded) else None
    entropy = type(s.ascent.regularizer) is Entropy
    if coded is not None and plane and domain.unbounded and entropy:
        return _by_leaf_sums(coded, s)
    rows = s.rows
    if rows is None:
        return None
    reach = _reach(d, s.measure)
    step, shift = min(s.edge * s.state.mass / reach, 0.9) / reach, 0.0
    if rows.by_factors and plane and coded is not None:
        step, shift = _without_caps(coded, s) or (step, shift)

    def rootless() -> bool:
        return plane and smallest_edge(s) > CLEARLY_POSITIVE

    found = _newton(rows, step, shift, s.l1, reach, None if plane else s.state.mass, rootless)
    if found is None or rows.clipped:
        return None
    step, shift = found
    return Corrected(step, shift if plane else None)


def smallest_edge(s: Situation) -> float:
    """The smallest edge of the hypothesis over the domain."""
    return linear_minimum(-s.dense, s.ascent.domain, s.measure, s.ascent.regularizer.upper)


def _newton(
    rows: Pass,
    step: float,
    shift: float,
    l1: float,
    reach: float,
    free_mass: float | None,
    rootless: Callable[[], bool],
) -> tuple[float, float] | None:
    """Step and shift, from a first guess of them.

    `free_mass` is that of the density off the plane of mass one. Where steps grow long, `rootless` is asked
    whether they would do so forever, as they do where caps are close to one.
    """
    plane, scale = free_mass is None, free_mass or 1.0
    previous, asked, radius = math.inf, False, 2.0
    for _ in range(30):
        mass, loss, h00, h01, h11 = rows.sums(step, shift)
        off = 1.0 - mass if plane else 0.0
        slope = loss + l1
        residual = max(abs(slope) / reach, abs(off))
        if residual <= ROUNDING * scale or (residual < 1e-11 * scale and residual >= previous):
            return step, shift
        # gradient of Psi: (slope, off); Hessian: ((h11, -h01), (-h01, h00))
        cross, down = (h01, h00) if plane else (0.0, 1.0)
        determinant = down * h11 - cross * cross
        if not determinant > 1e-12 * down * h11 or residual > 4.0 * previous:
            return None
        move = -(down * slope + cross * off) / determinant
        drift = -(cross * slope + h11 * off) / determinant
        damping = min(1.0, radius / max(reach * abs(move), abs(drift), 1e-300))
        radius *= 2.0  # caution is for the first steps, from a guess
        step, shift = step + damping * move, shift + damping * drift
        if not 0.0 < step * reach < _LOST:
            return None
        if step * reach > _FAR and not asked:
            asked = True
            if rootless():
                return None
        if rows.by_factors and plane and residual <= _NEAR:
            return step, shift
        previous = residual
    return None


def _without_caps(coded: Coded, s: Situation) -> tuple[float, float] | None:
    """Where the method ends if no cap matters: a good place to start."""
    found = _by_leaf_sums(coded, s, close=1e-3)
    if found is None or found.step * _reach(coded, s.measure) > _FAR:
        return None
    return found.step, coded.log_mean_exp(found.step, s.state.density, s.measure)


def shift_after(s: Situation, share: float, step: float, shift: float | None) -> float | None:
    """The shift of the projection after a share of a step; `shift` is that after all of it, where it is known.

    None where only the projection itself finds it, or there are two of them.
    """
    ascent, d, kind = s.ascent, s.direction, type(s.ascent.regularizer)
    domain = ascent.domain
    if not domain.normalised or ascent.via is not None or kind is Euclidean:
        return None
    if domain.source_caps() is not None:
        return None
    if kind is not Entropy:
        return None if shift is None else share * shift
    if domain.unbounded or ascent.update != "active" or not isinstance(d, Coded):
        return None
    near, length = None, share * step
    if shift is not None:
        near = _cubic(share, s.edge * step, shift)
    if s.measure.width > 1:  # a pass is over all rows
        return near
    longest = _LONG if near is None else _FARTHEST
    if length * _reach(d, s.measure) > longest:
        low, high = s.measure.extent(s.dense)  # what all rows have in common moves nothing
        if length * (high - low) > longest:
            return near
    rows = s.rows
    assert rows is not None
    if near is None:
        near = d.log_mean_exp(length, s.state.density, s.measure)
    return _newton_in_shift(rows, length, near)


def _cubic(share: float, edge: float, shift: float) -> float:
    """About the shift after a share of a corrective step.

    Its slope is known at both ends: minus the edge, which vanishes after all of the step.
    """
    rest = 1.0 - share
    return share * (share * (1.0 + 2.0 * rest) * shift - rest * rest * edge)


def _newton_in_shift(rows: Pass, step: float, shift: float) -> float | None:
    """Newton's method in the shift alone, from a first guess."""
    for _ in range(20):
        mass, _, free, _, _ = rows.sums(step, shift)
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
        return max(float(np.abs(direction.values).max()), 1e-300)
    low, high = measure.extent(direction)
    return max(-low, high, 1e-300)


def _by_leaf_sums(coded: Coded, s: Situation, close: float = 1e-15) -> Corrected | None:
    """Entropy on the simplex: the next edge needs only the masses of the codes.

    Ends where the next move is that much of the step.
    """
    masses, d = coded.masses(s.state.density, s.measure, s.state.mass), coded.values
    held = masses > 0.0
    masses, d, reach = masses[held], d[held], _reach(coded, s.measure)
    if not (d > 0.0).any():
        return None
    powers = np.array([masses, masses * d, masses * d * d])
    below, longest = d - d.max(), 2.0 / reach
    step, last = math.atanh(min(s.edge, 0.9)), math.inf  # where all answers are votes, it is that
    for _ in range(100):
        mass, loss, square = (powers * exponentials(step * below)).sum(axis=1).tolist()
        loss /= mass
        spread = square / mass - loss * loss
        if not spread > 0.0:
            return None
        move = -loss / spread
        step += min(max(move, -longest), longest)
        if not 0.0 < step * reach < _FARTHEST:
            return None
        # where rounding is all that is left
        if abs(move) <= close * step or last <= abs(move) < 1e-12 * step:
            break
        last = abs(move)
    return Corrected(step, None)
