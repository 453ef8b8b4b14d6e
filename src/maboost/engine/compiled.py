"""The base class of the compiled engines: edges, moves, and Newton's method for the step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.engine.base import Moments, PendingStep, Potentials, StepResult
from maboost.engine.leaf_codes import Direction, LeafCodes, advance, table_of
from maboost.engine.newton import AnyMoments, corrective_by_newton
from maboost.mirror.ascent import AscentState, MirrorAscent, Moved, project_onto, summed_gain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected
from maboost.mirror.steps import Situation, Step
from maboost.runtime.entries import value_at
from maboost.runtime.exact_sum import BIAS, FixedPoint, fixed_point, split_wide
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots

__all__ = ["CompiledEngine", "Limits", "mass_on_grid"]

Array = NDArray[np.float64]

_FAR = 64.0  # a shift beyond it, subtracted beforehand, would lose the last bits of the entries
_LEAST = 1 << 12  # entries of a chunk


@kernel
def _theta(start, values, codes, step, less, shift, out, size, chunk, slot):
    a, b = chunk * size, min((chunk + 1) * size, out.size)
    advance(start, values, codes, step, less, shift, a, b, out[a:b])


@kernel
def _write_theta(team, start, values, codes, step, less, shift, out):
    chunks, size = chunks_of(team, out.size, _LEAST)
    parallel_for(team, chunks, _theta, (start, values, codes, step, less, shift, out, size))


@kernel
def _shifted(theta, center, tau, out, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, out.size)):
        out[i] = (theta[i] - center) - tau


@kernel
def _write_shifted(team, theta, center, tau, out):
    chunks, size = chunks_of(team, out.size, _LEAST)
    parallel_for(team, chunks, _shifted, (theta, center, tau, out, size))


@kernel
def _wide(values, base, scale, low, size, sums, chunk, slot):
    a, b, c, unfit, first = 0, 0, 0, 0, chunk * size
    last = min(first + size, values.size)
    for i in range(first, last):
        high, middle, rest, bad = split_wide(value_at(base, i) * values[i], scale, low)
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
def _wide_sum(team, values, base, scale, low):
    chunks, size = chunks_of(team, values.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _wide, (values, base, scale, low, size, sums))
    return folded_slots(sums)[:4]


def mass_on_grid(density: Array, measure: BaseMeasure) -> NDArray[np.int64]:
    """Return the integral of a density over this shard, on the measure's grid of wide sums."""
    base = measure.base(slice(None))
    found: NDArray[np.int64] = measure.threads.run(_wide_sum, density, base, *measure.grid.factors)
    return found


class Limits(NamedTuple):
    """The bounds of densities, and the grid of their sums.

    Attributes
    ----------
    caps : array or float
    bound : float
        Densities beyond it do not fit the grid.
    grid : FixedPoint
    """

    caps: Array | float
    bound: float
    grid: FixedPoint

    def values(self, sums: NDArray[np.int64]) -> list[float]:
        """Return the values of two sums in two parts, and of three sums in their high part alone."""
        pairs = np.zeros((5, 2), dtype=np.int64)
        pairs[:2], pairs[2:, 0] = sums[:4].reshape(2, 2), sums[4:7]
        found: list[float] = self.grid.values(pairs).tolist()
        return found


class CompiledEngine:
    """Mirror ascent over the rows of one shard, for any regularizer.

    The engine of a geometry overrides the methods after :meth:`limits` with faster ones. The second move after a
    state overwrites the arrays of that state.
    """

    def __init__(self, ascent: MirrorAscent, measure: BaseMeasure) -> None:
        self.ascent = ascent
        self.measure = measure
        self.unbounded = ascent.domain.unbounded
        self.single_shift = ascent.domain.single_shift
        self._arrays: list[Array] = []
        self._spare: list[Array] = []

    def array(self) -> Array:
        """Return room for a number an entry that belongs neither to the state nor to this move."""
        if self._spare:
            return self._spare.pop()
        self._arrays.append(np.empty(self.measure.entries.size))
        return self._arrays[-1]

    def start(self) -> AscentState:
        self.ascent.check(self.measure)
        level = float(self.ascent.regularizer.grad(np.array([1.0]))[0])
        theta = self.array()
        theta.fill(level)
        return self._arrive(theta, self.project(theta, 0.0, self.array()))[0]

    def edge(self, state: AscentState, direction: Direction) -> float:
        density, mass = state.density, state.mass
        if isinstance(direction, LeafCodes):
            masses = direction.masses(density, self.measure, mass)
            return -math.fsum(direction.values * masses) / mass
        d = direction
        (loss,) = self.measure.integrals_of(lambda part: [density[part] * d[part]], 1)
        return -loss / mass

    def corrective_step(self, situation: Situation) -> Step | None:
        return corrective_by_newton(situation, self.moments(situation))

    def shift_after(
        self, situation: Situation, share: float, step: float, shift: float | None
    ) -> float | None:
        domain = self.ascent.domain
        if shift is None or not domain.normalised or not self.single_shift:
            return None
        return share * shift

    def move(
        self,
        state: AscentState,
        direction: Direction,
        step: float,
        l1: float = 0.0,
        guess: float | None = None,
    ) -> Moved:
        self.ascent.check_l1(l1)
        self._spare = []
        for array in self._arrays:
            if array is not state.theta and array is not state.density:
                self._spare.append(array)
        expected = self.expected_shift(state, direction, step, guess)
        shift, near = 0.0, expected
        if expected is not None and abs(expected) <= _FAR:
            shift, near = expected, 0.0
        pending = PendingStep(state.theta, direction, step, l1, shift)
        result = self.at_once(pending, near)
        if result is not None:
            density, dual, found = result
            new, reached = AscentState(dual, density, found.mass, found.dual), found.theta
        else:
            theta = self._written(pending)
            new, reached = self._arrive(theta, self.project(theta, near, self.array()))
        gain = summed_gain(state.potential, -(reached + shift), -step * l1)
        return Moved(new, gain, abs(gain))

    def _written(self, pending: PendingStep) -> Array:
        """Write the dual point of a pending step."""
        out = self.array()
        way = *table_of(pending.direction), pending.step, pending.less, pending.shift
        self.measure.threads.run(_write_theta, pending.start, *way, out)
        return out

    def _arrive(self, theta: Array, projected: Projected) -> tuple[AscentState, float]:
        """Return the state after a projection, and the potential at the unprojected dual point."""
        ascent, measure = self.ascent, self.measure
        if ascent.update == "active":
            new = projected.dual
        elif ascent.domain.normalised and (projected.center or projected.tau):
            # a common shift changes no projection: subtract it before it grows
            new = self.array()
            measure.threads.run(_write_shifted, theta, projected.center, projected.tau, new)
        else:
            new = theta
        found = self.potentials(theta, new, projected)
        mass = 1.0 if ascent.domain.normalised else found.mass
        return AscentState(new, projected.density, mass, found.dual), found.theta

    def limits(self, density: Array, measure: BaseMeasure) -> Limits:
        """Return the limits for steps from this density; `measure` has one entry for each cap."""
        domain = self.ascent.domain
        caps = measure.caps_in_reach(domain.row_caps()) if domain.normalised else domain.entry_cap()
        top, finite = measure.highest_caps(caps)
        highest = max(finite, 1.0)
        if math.isinf(top):
            highest = max(highest, 4.0 * measure.maximum(density))
        bound = 16.0 * highest
        return Limits(caps, bound, fixed_point(measure.largest * bound, measure.count))

    @property
    def tied(self) -> tuple[BaseMeasure, int]:
        """The measure with one entry for each cap, and the number of entries that share a cap."""
        domain = self.ascent.domain
        if domain.normalised and not self.unbounded:
            return self.measure.of_rows, self.measure.width
        return self.measure, 1

    def potentials_by_columns(self, theta: Array, new: Array, density: Array) -> Potentials:
        """Return the potentials, for any regularizer."""
        phi = self.ascent.regularizer.phi

        def columns(part: slice) -> list[Array]:
            u = density[part]
            cost = phi(u)
            return [theta[part] * u - cost, new[part] * u - cost, u]

        return Potentials(*self.measure.integrals_of(columns, 3))

    # ----------------------------------------------------------------------------------------------
    # the geometry

    def expected_shift(
        self, state: AscentState, direction: Direction, step: float, guess: float | None
    ) -> float | None:
        """Return roughly the shift of the projection after a step; None if it is not known."""
        return guess if self.ascent.domain.normalised else None

    def at_once(self, pending: PendingStep, near: float | None) -> StepResult | None:
        """Take a step and project in one pass; None if the shift has yet to be found."""
        return None

    def project(self, theta: Array, guess: float | None, out: Array) -> Projected:
        """Return the projection of a dual point; fast projections write the density to `out`."""
        return project_onto(self.ascent.regularizer, self.ascent.domain, theta, self.measure, guess)

    def potentials(self, theta: Array, new: Array, projected: Projected) -> Potentials:
        """Return the potentials after a projection."""
        return self.potentials_by_columns(theta, new, projected.density)

    def moments(self, situation: Situation) -> Moments | None:
        """Return the sums over rows for Newton's method; None if the method does not apply."""
        domain = self.ascent.domain
        if not self.single_shift:
            return None
        rows, width = self.tied
        caps = domain.row_caps() if domain.normalised else domain.entry_cap()
        theta, direction = situation.state.theta, situation.dense
        return AnyMoments(self.ascent.regularizer, rows, width, caps, theta, direction)
