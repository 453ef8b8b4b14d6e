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
from maboost.mirror.ascent import LARGEST_LOG, AscentState, MirrorAscent
from maboost.mirror.coded import Coded, coded_moments, euclidean_moments, whole_direction
from maboost.mirror.kernels import value_at
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.reached import Reached
from maboost.mirror.regularizers import Entropy, Euclidean
from maboost.mirror.rowwise import Rowwise
from maboost.mirror.supported import Supported

__all__ = ["Corrected", "joint_corrective", "shorter_shift"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 15
_FAR, _FARTHEST = (
    5.0,
    60.0,
)  # of logarithms after a step: beyond, nothing is known well; nothing at all
_SMALL = 0.05  # of a shift: where caps add no more, what they add to a shorter step is known well


class Corrected(NamedTuple):
    """The corrective step, and the shift of the projection it leads to where that is known."""

    step: float
    shift: float | None


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
        cap = value_at(caps, i)
        free = u[i] < cap
        w = value_at(base, i) * (u[i] if free else cap)
        u[i] = w
        moving[i] = w if free else 0.0


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
    problem = _posed(ascent, state, direction, measure, l1)
    if problem is None:
        return None
    plane = ascent.domain.normalised
    step, shift = min(edge * state.mass, 0.9), 0.0
    if problem.coded is not None and problem.entropy and plane and ascent.update == "active":
        step, shift = _without_caps(problem.coded, state, edge, measure) or (step, shift)
    previous, reach = math.inf, _reach(direction)
    for _ in range(30):
        mass, loss, h00, h01, h11 = problem.sums(step, shift)
        off = 1.0 - mass if plane else 0.0
        slope = loss + l1
        residual = max(abs(slope), abs(off))
        scale = 1.0 if plane else state.mass
        if residual <= 2e-14 * scale or (residual < 1e-11 * scale and residual >= previous):
            return None if problem.clipped else Corrected(step, shift if plane else None)
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
        previous = residual
    return None


def _posed(
    ascent: MirrorAscent,
    state: AscentState,
    direction: Array | Coded,
    measure: BaseMeasure,
    l1: float,
) -> _Problem | Rowwise | None:
    """Passes over the rows for this direction; None where there are none that are fast."""
    domain = ascent.domain
    if measure.width == 1 or domain.unbounded or not domain.normalised:
        return _Problem(ascent, state, direction, measure, l1)
    if not isinstance(direction, Coded):
        return None
    lazy = type(ascent.regularizer) is Entropy and ascent.update == "lazy"
    if lazy and measure.maximum(state.theta) > LARGEST_LOG:
        return None  # the shares of entries inside a row would be lost
    return Rowwise(ascent, state, direction, measure)


def _without_caps(
    coded: Coded, state: AscentState, edge: float, measure: BaseMeasure
) -> tuple[float, float] | None:
    """Where the method ends if no cap matters: a good place to start."""
    found = _by_leaf_sums(coded, state, edge, measure)
    if found is None or found.step * _reach(coded) > _FAR:
        return None
    return found.step, coded.log_mean_exp(found.step, state.density, measure)


def shorter_shift(
    ascent: MirrorAscent,
    state: AscentState,
    direction: Array | Coded,
    measure: BaseMeasure,
    found: Corrected,
    share: float,
) -> float | None:
    """About where the shift of only a `share` of a step is; None where that is not known well.

    What the caps add to the shift grows between linearly and quadratically with the step.
    """
    if not isinstance(direction, Coded) or found.shift is None:
        return None
    if found.step * _reach(direction) > _FAR:
        return None
    if type(ascent.regularizer) is not Entropy or ascent.update != "active":
        return None
    added = found.shift - direction.log_mean_exp(found.step, state.density, measure)
    if not abs(added) < _SMALL:
        return None
    free = direction.log_mean_exp(share * found.step, state.density, measure)
    return free + 0.5 * share * (1.0 + share) * added


def _reach(direction: Array | Coded) -> float:
    """The largest magnitude of a direction's entries: what a unit of step does at most to a logarithm.

    The losses of trees of many classes are small, and their steps long.
    """
    if not isinstance(direction, Coded):
        return 1.0
    return max(float(np.max(np.abs(direction.values))), 1e-300)


def _by_leaf_sums(
    coded: Coded, state: AscentState, edge: float, measure: BaseMeasure
) -> Corrected | None:
    """Entropy on the simplex: the next edge needs only the masses of the codes."""
    masses, d = coded.masses(state.density, measure, state.mass), coded.values
    held = masses > 0.0
    masses, d, reach = masses[held], d[held], _reach(coded)
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
        if (
            abs(move) <= 1e-15 * step or last <= abs(move) < 1e-12 * step
        ):  # rounding is all that is left
            break
        last = abs(move)
    return Corrected(step, None)


class _Problem:
    """Passes over the rows for one direction."""

    def __init__(
        self,
        ascent: MirrorAscent,
        state: AscentState,
        direction: Array | Coded,
        measure: BaseMeasure,
        l1: float,
    ) -> None:
        self.entropy = type(ascent.regularizer) is Entropy
        self.theta = state.theta
        self.measure = measure
        caps = ascent.domain.row_caps()
        self.caps = caps if ascent.domain.normalised else ascent.domain.entry_cap()
        top, finite = measure.highest_caps(self.caps)
        self.endless = math.isinf(top)
        self.active = ascent.update == "active"
        self.direction = direction
        self.supported: Supported | None = None
        own_way = not (self.entropy or ascent.domain.normalised)  # every entry by itself
        if own_way and self.active and isinstance(direction, Coded):
            self.supported = Supported.of(state.density, direction, measure)
        highest = max(finite, 1.0)
        if self.endless:
            some = state.density if self.supported is None else self.supported.density
            highest = max(highest, 4.0 * measure.maximum(some))
        self.bound = 16.0 * highest
        self.grid = fixed_point(measure.largest * self.bound, measure.count)
        self.clipped = False
        self.l1 = l1
        self.coded: Coded | None = None
        self.reached: Reached | None = None
        if self.entropy and isinstance(direction, Coded) and not l1 and not self.endless:
            self.coded = direction
            self.powers = ascent.powers(state, measure)
        elif self.entropy:
            dense = whole_direction(direction)
            self.dense = dense - l1 if l1 else dense

    def sums(self, step: float, shift: float) -> list[float]:
        """Mass and loss of the next distribution, and the three moments of the Hessian."""
        if self.coded is not None and self.active:
            return self._sums_near_caps(self.coded, step, shift)
        if self.supported is not None:
            return self._sums_from_support(self.supported, step)
        work = self._entropy_work if self.entropy else self._euclidean_work
        if self.coded is not None:
            work = self._coded_work
        with np.errstate(over="ignore"):
            sums = self.measure.threads.summed(
                self.theta.size, lambda a, b: work(a, b, step, shift)
            )
        total = self.measure.comm.allreduce(sums, "sum").tolist()
        self.clipped = total[7] > 0
        value = self.grid.value
        coarse = [value(high, 0) for high in total[4:7]]
        return [value(*total[:2]), value(*total[2:4]), *coarse]

    def _sums_near_caps(self, coded: Coded, step: float, shift: float) -> list[float]:
        """The same, from the masses of the codes and a pass over rows that may reach their caps."""
        factors = np.exp(step * coded.values - shift)
        if self.reached is None or not self.reached.holds(factors):
            self.reached = Reached.near(factors, coded, self.powers, self.caps, self.measure)
        return self.reached.moments(factors, coded.values, self.measure, self.grid)

    def _sums_from_support(self, supported: Supported, step: float) -> list[float]:
        """The same, from a pass over the entries of positive density."""
        assert isinstance(self.direction, Coded)
        assert isinstance(self.caps, float)
        values = self.direction.values - self.l1
        sums, self.clipped = supported.moments(
            step, values, self.caps, self.bound, self.measure, self.grid
        )
        return sums

    def _euclidean_work(self, a: int, b: int, step: float, shift: float) -> Integers:
        part, d = slice(a, b), self.direction
        values, codes = (d.values, d.codes[part]) if isinstance(d, Coded) else (d[part], None)
        return np.array(
            euclidean_moments(
                self.theta[part], values, codes, self.l1, self.measure.base(part),
                self._limits(part), step, shift, self.bound, self.grid[:3],
            ),
            dtype=np.int64,
        )  # fmt: skip

    def _entropy_work(self, a: int, b: int, step: float, shift: float) -> Integers:
        sums = np.zeros(8, dtype=np.int64)
        moving = np.empty(min(_BLOCK, b - a))
        for start in range(a, b, _BLOCK):
            part = slice(start, min(start + _BLOCK, b))
            x = self.dense[part] * step
            x += self.theta[part]
            x -= shift
            np.exp(x, out=x)
            if self.endless and np.max(x) > self.bound:  # beyond the grid of the sums
                sums[7] += 1
                np.minimum(x, self.bound, out=x)
            entropy_weights(x, self.measure.base(part), self._limits(part), moving)
            sums[:7] += moments(x, moving, self.dense[part], self.grid[:3])
        return sums

    def _coded_work(self, a: int, b: int, step: float, shift: float) -> Integers:
        assert self.coded is not None
        sums = np.zeros(8, dtype=np.int64)
        part = slice(a, b)
        factors = np.exp(step * self.coded.values - shift)
        sums[:7] = coded_moments(
            self.powers[part], self.measure.base(part), self._limits(part),
            self.coded.codes[part], factors, self.coded.values, self.grid[:3],
        )  # fmt: skip
        return sums

    def _limits(self, part: slice) -> Array | float:
        return self.caps[part] if isinstance(self.caps, np.ndarray) else self.caps
