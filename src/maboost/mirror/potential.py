r"""The dual potential, and the certificate that follows from any votes.

For a regularizer R and a domain S the dual potential is

.. math:: \Phi(\theta) = \max_{w \in S}\; \langle\theta, w\rangle - R(w),

and its gradient is the projection of :math:`\theta`. Let :math:`\theta_1 = \varphi'(1)`. For **any** real vector of
margins M, however it was found, put :math:`G(M) = \Phi(\theta_1) - \Phi(\theta_1 - M)`. The maximum in
:math:`\Phi(\theta_1 - M)` is at least the value at any :math:`w^*` of S, hence

.. math:: \sum_i w^*_i M_i \;\ge\; G(M) - B_R(w^*, D) \qquad \text{for every } w^* \in S.

All certificates of this library follow from that inequality. The maximum is attained at
:math:`w(M) = \Pi_S(\theta_1 - M)`, the regularised hardest distribution for these margins. G is concave. Where
:math:`M = V\eta`, its derivative by :math:`\eta_t` is the edge of column t of V under :math:`w(M)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.ascent import Projection, project_onto
from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected
from maboost.mirror.regularizers import Regularizer

__all__ = ["DualPotential", "Hardest"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hardest:
    r"""The regularised hardest distribution for some margins, and their gain.

    Attributes
    ----------
    gain : float
        :math:`G(M) = \Phi(\theta_1) - \Phi(\theta_1 - M)`.
    density : array
        The density of :math:`w(M) = \Pi_S(\theta_1 - M)`.
    mass : float
        The integral of the density: one on sets of distributions.
    potential : float
        :math:`\Phi` at `theta`.
    theta : array
        The dual point :math:`\theta_1 - M`, less the shift of the projection if the mass is one.
    shift : float
        The shift of the projection, near which that of similar margins is.
    multiplier : float
        The multiplier of the largest divergence of the domain; zero where that has no effect.

    >>> from maboost.mirror import Entropy, Simplex
    >>> potential = DualPotential(Entropy(), Simplex(), BaseMeasure(np.ones(2)))
    >>> hardest = potential.hardest(np.array([1.0, -1.0]))
    >>> hardest.density.round(3), round(hardest.gain, 3)
    (array([0.238, 1.762]), -0.434)
    """

    gain: float
    density: Array
    mass: float
    potential: float
    theta: Array
    shift: float
    multiplier: float = 0.0


class DualPotential:
    r"""The dual potential of a regularizer on a domain, over the rows of one shard.

    Parameters
    ----------
    regularizer, domain
        The geometry and the set.
    measure : BaseMeasure
        The base measure of the rows.
    projection : callable, optional
        The projection onto the domain, with the arguments of :func:`maboost.mirror.project`, which is the
        default.

    Attributes
    ----------
    level : float
        :math:`\varphi'(1)`, the dual point of the base measure.
    start : float
        :math:`\Phi(\theta_1)`, the potential without any votes.

    >>> from maboost.mirror import CappedSimplex, Euclidean
    >>> potential = DualPotential(Euclidean(), CappedSimplex(2.0), BaseMeasure(np.ones(4)))
    >>> potential.start, potential(np.zeros(4))  # Phi(theta - 1) = Phi(theta) - 1 on distributions
    (0.5, -0.5)
    """

    def __init__(
        self,
        regularizer: Regularizer,
        domain: Domain,
        measure: BaseMeasure,
        projection: Projection = project_onto,
    ) -> None:
        domain.check(measure)
        self.regularizer = regularizer
        self.domain = domain
        self.measure = measure
        self._projection = projection
        self.level = float(regularizer.grad(np.array([1.0]))[0])
        self.start = self(np.full(measure.entries.size, self.level))

    def __call__(self, theta: Array) -> float:
        r"""Return :math:`\Phi(\theta)`."""
        _, found, shift, _ = self._projected(theta, None)
        return shift + found[0]

    def hardest(self, margins: Array, guess: float | None = None) -> Hardest:
        """Return the regularised hardest distribution for these margins of all pairs.

        `guess` is a guess of the projection's shift; it only saves time.
        """
        theta, found, shift, projected = self._projected(self.level - margins, guess)
        potential, mass = found
        gain = (self.start - shift) - potential
        density, multiplier = projected.density, projected.multiplier
        return Hardest(gain, density, mass, potential, theta, shift, multiplier)

    def gain(self, margins: Array) -> float:
        """Return G of these margins."""
        return self.hardest(margins).gain

    def _projected(
        self, theta: Array, guess: float | None
    ) -> tuple[Array, tuple[float, float], float, Projected]:
        """Return the dual point without the shift, the potential and the mass there, the shift, and the projection.

        On distributions a common shift is subtracted first. The terms of the potential then have the size of the
        divergence, not of the margins.
        """
        projected = self._projection(self.regularizer, self.domain, theta, self.measure, guess)
        density, phi, measure = projected.density, self.regularizer.phi, self.measure
        shift = 0.0
        if self.domain.normalised:
            center, tau = projected.center, projected.tau
            if not math.isfinite(
                center + tau
            ):  # every row whose source is below its cap is at its own cap
                center, tau = measure.maximum(theta), 0.0
            shift = center + tau
            theta = (theta - center) - tau

        def columns(part: slice) -> list[Array]:
            u = density[part]
            return [theta[part] * u - phi(u), u]

        potential, mass = measure.integrals_of(columns, 2)
        if self.domain.normalised:
            mass = 1.0
        return theta, (potential, mass), shift, projected
