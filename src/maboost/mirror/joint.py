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
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maboost.comm import fixed_point, split
from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.kernels import cap_at
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Entropy, Euclidean

__all__ = ["Corrected", "joint_corrective"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 15


class Corrected(NamedTuple):
    """The corrective step and the shift of the projection it leads to."""

    step: float
    shift: float


@njit(nogil=True, cache=True)
def moments(w, moving, d, scale):
    """Folded sums of w and w*d, and coarse ones of moving * (1, d, d^2): seven integers.

    The moments only steer Newton's method, so their high parts are enough.
    """
    m_high, m_low, l_high, l_low, h0, h1, h2 = 0, 0, 0, 0, 0, 0, 0
    for i in range(w.size):
        high, low = split(w[i], scale[0], scale[1], scale[2])
        m_high += high
        m_low += low
        high, low = split(w[i] * d[i], scale[0], scale[1], scale[2])
        l_high += high
        l_low += low
        high, low = split(moving[i], scale[0], scale[1], scale[2])
        h0 += high
        high, low = split(moving[i] * d[i], scale[0], scale[1], scale[2])
        h1 += high
        high, low = split(moving[i] * d[i] * d[i], scale[0], scale[1], scale[2])
        h2 += high
    return m_high, m_low, l_high, l_low, h0, h1, h2


@njit(nogil=True, cache=True)
def entropy_weights(u, base, caps, moving):
    """In place: densities before capping become weights; `moving` those of free entries."""
    for i in range(u.size):
        cap = cap_at(caps, i)
        free = u[i] < cap
        w = base[i] * (u[i] if free else cap)
        u[i] = w
        moving[i] = w if free else 0.0


@njit(nogil=True, cache=True)
def euclidean_weights(x, base, caps, moving):
    """In place: dual points become weights; `moving` is the base measure of free entries."""
    for i in range(x.size):
        cap = cap_at(caps, i)
        inside = (x[i] > 0.0) & (x[i] < cap)
        moving[i] = base[i] if inside else 0.0
        x[i] = base[i] * min(max(x[i], 0.0), cap)


def joint_corrective(
    ascent: MirrorAscent, state: AscentState, direction: Array, edge: float, measure: BaseMeasure
) -> Corrected | None:
    """Newton's method in (step, shift); None where it does not apply or does not converge."""
    rowwise = measure.width > 1 and not ascent.domain.unbounded
    fast = type(ascent.regularizer) in (Entropy, Euclidean)
    if not fast or not ascent.domain.normalised or rowwise:
        return None
    problem = _Problem(ascent, state, direction, measure)
    step, shift = min(edge, 0.9), 0.0
    previous = math.inf
    for _ in range(30):
        mass, loss, h00, h01, h11 = problem.sums(step, shift)
        residual = max(abs(loss), abs(mass - 1.0))
        if residual <= 2e-14 or (residual < 1e-11 and residual >= previous):
            return None if problem.clipped else Corrected(step, shift)
        determinant = h00 * h11 - h01 * h01
        if not determinant > 1e-12 * h00 * h11 or residual > 4.0 * previous:
            return None
        # gradient of Psi: (loss, 1 - mass); Hessian: ((h11, -h01), (-h01, h00))
        move = -(h00 * loss + h01 * (1.0 - mass)) / determinant
        drift = -(h01 * loss + h11 * (1.0 - mass)) / determinant
        damping = min(1.0, 2.0 / max(abs(move), abs(drift), 1e-300))
        step, shift = step + damping * move, shift + damping * drift
        if not 0.0 < step < 60.0:
            return None
        previous = residual
    return None


class _Problem:
    """Passes over the rows for one direction."""

    def __init__(
        self, ascent: MirrorAscent, state: AscentState, direction: Array, measure: BaseMeasure
    ) -> None:
        self.entropy = type(ascent.regularizer) is Entropy
        self.theta = state.theta
        self.direction = direction
        self.measure = measure
        self.caps = ascent.domain.row_caps()
        flat = np.atleast_1d(np.asarray(self.caps))
        self.endless = bool(np.any(np.isinf(flat)))
        highest = max(
            measure.maximum(flat[np.isfinite(flat)]), 4.0 * measure.maximum(state.density), 1.0
        )
        self.bound = 16.0 * highest
        self.grid = fixed_point(measure.largest * self.bound, measure.count)
        self.clipped = False

    def sums(self, step: float, shift: float) -> list[float]:
        """Mass and loss of the next distribution, and the three moments of the Hessian."""
        with np.errstate(over="ignore"):
            parts = self.measure.threads.over(
                self.theta.size, lambda a, b: self._work(a, b, step, shift)
            )
        total = self.measure.comm.allreduce(np.sum(parts, axis=0), "sum").tolist()
        self.clipped = total[7] > 0
        value = self.grid.value
        coarse = [value(high, 0) for high in total[4:7]]
        return [value(*total[:2]), value(*total[2:4]), *coarse]

    def _work(self, a: int, b: int, step: float, shift: float) -> Integers:
        sums = np.zeros(8, dtype=np.int64)
        weigh = entropy_weights if self.entropy else euclidean_weights
        moving = np.empty(min(_BLOCK, b - a))
        for start in range(a, b, _BLOCK):
            part = slice(start, min(start + _BLOCK, b))
            x = self.direction[part] * step
            x += self.theta[part]
            x -= shift
            if self.entropy:
                np.exp(x, out=x)
            if self.endless and np.max(x) > self.bound:  # beyond the grid of the sums
                sums[7] += 1
                np.minimum(x, self.bound, out=x)
            caps = self.caps[part] if isinstance(self.caps, np.ndarray) else self.caps
            weigh(x, self.measure.entries[part], caps, moving)
            sums[:7] += moments(x, moving, self.direction[part], self.grid[:3])
        return sums
