r"""The projection if each source of rows has a largest mass.

The problem is :math:`\min \sum_i D_i[\varphi(u_i) - \theta_i u_i]` over densities of mass one with
:math:`u_i \le k_i` and :math:`\sum_{i \in g} D_i u_i \le c_g` for every source g. Its solution is
:math:`u_i = \min(k_i, (\varphi')^{-1}(\theta_i - \tau - \sigma_g))` with :math:`\sigma_g \ge 0`, and
:math:`\sigma_g = 0` unless source g reaches its largest mass.

The set of sources that reach their limit is found from below. Project the other rows onto the remaining mass, with
one shift :math:`\tau` for all of them; add every source that now has more than :math:`c_g`; repeat. A source that
was added stays at :math:`c_g`: each repetition leaves the remaining rows at least as much mass as before, so
:math:`\tau` only falls. There are at most as many repetitions as sources. The rows of a source that was added are
projected onto the mass :math:`c_g` by themselves.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.domains import CappedSimplex, SourceCaps
from maboost.mirror.measure import BaseMeasure, Part
from maboost.mirror.projection import MASS_TOLERANCE, Projected, project_generic
from maboost.mirror.regularizers import Regularizer
from maboost.runtime.communicator import sums_by_code

__all__ = ["onto_mass", "project_sources", "scaled_caps"]

Array = NDArray[np.float64]


class OntoMass(Protocol):
    """A projection of the rows of some sources onto the densities of a given mass."""

    def __call__(
        self,
        regularizer: Regularizer,
        caps: Array | float,
        theta: Array,
        part: Part,
        mass: float,
        /,
    ) -> Projected:
        """Project the entries of these rows under their caps."""


def project_sources(
    regularizer: Regularizer,
    caps: Array | float,
    limits: SourceCaps,
    theta: Array,
    measure: BaseMeasure,
    onto_mass: OntoMass,
) -> Projected:
    """Project `theta` onto the distributions with these caps on rows and these largest masses of sources.

    The center and the shift of the result are those of rows whose source is below its largest mass.
    """
    sources, masses = limits
    density, dual = np.empty_like(theta), np.empty_like(theta)

    def by_source(values: Array) -> Array:
        return sums_by_code(sources, values, masses.size, measure.comm)

    def fill(which: set[int], mass: float) -> tuple[float, float]:
        part = measure.part(sources, tuple(sorted(which)))
        rows = theta.reshape(-1, measure.width)[part.rows].reshape(-1)
        of_rows = caps[part.rows] if isinstance(caps, np.ndarray) else caps
        found = onto_mass(regularizer, of_rows, rows, part, mass)
        density.reshape(-1, measure.width)[part.rows] = found.density.reshape(-1, measure.width)
        dual.reshape(-1, measure.width)[part.rows] = found.dual.reshape(-1, measure.width)
        return found.center, found.tau

    free = {g for g, share in enumerate(by_source(measure.rows_base)) if share > 0.0}
    room = by_source(measure.room(np.minimum(caps, regularizer.upper)))
    full: set[int] = set()
    while True:
        left = 1.0 - math.fsum(masses[g] for g in full)
        # if the caps hold exactly the remaining mass, no more can be asked for
        shift = fill(free, min(left, math.fsum(room[g] for g in free)))
        held = by_source(measure.rows_base * measure.row_means(density))
        over = {g for g in free if held[g] > masses[g] * (1.0 + MASS_TOLERANCE)}
        # the second and third conditions: masses that sum to one, up to rounding, are all reached at once
        if not over or over == free or left - math.fsum(masses[g] for g in over) <= MASS_TOLERANCE:
            break
        full |= over
        free -= over
        for g in sorted(over):
            fill({g}, float(masses[g]))
    return Projected(density, *shift, lambda: dual)


def onto_mass(
    regularizer: Regularizer, caps: Array | float, theta: Array, part: Part, mass: float
) -> Projected:
    """Project the entries of some rows onto densities of this mass, for any regularizer.

    The density is `scale` times a density of mass one over the measure of these rows.
    """
    scale = mass / part.share
    domain = scaled_caps(caps, scale)
    found = project_generic(_Scaled(regularizer, scale), domain, theta, part.measure)
    density = scale * found.density
    if part.measure.width == 1:
        np.minimum(density, caps, out=density)  # the rounding of the two scalings
    return Projected(density, found.center, found.tau, lambda: found.dual)


def scaled_caps(caps: Array | float, scale: float) -> CappedSimplex:
    """Return the distributions whose densities times `scale` are below these caps."""
    return CappedSimplex(np.maximum(caps / scale, np.finfo(np.float64).tiny))


class _Scaled(Regularizer):
    r"""The regularizer of :math:`v = u/s`: :math:`\varphi(sv)/s`, whose derivative is :math:`\varphi'(sv)`."""

    def __init__(self, of: Regularizer, scale: float) -> None:
        self.of = of
        self.scale = scale
        self.strong_convexity = of.strong_convexity * scale
        self.upper = of.upper / scale

    def grad(self, u: Array) -> Array:
        return self.of.grad(np.minimum(u * self.scale, self.of.upper))

    def grad_inverse(self, x: Array) -> Array:
        return self.of.grad_inverse(x) / self.scale

    def grad_limits(self) -> tuple[float, float]:
        return self.of.grad_limits()
