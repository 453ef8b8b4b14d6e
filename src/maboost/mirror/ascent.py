r"""Mirror ascent: the update of the distribution in a round (Algorithm 1 of the paper), and its gain.

Every booster runs this algorithm. :meth:`MirrorAscent.move` is one round of it, in numpy.
:mod:`maboost.engine` has the same operations compiled. The state is a dual point :math:`\theta` from which
the next step departs, and the density :math:`u` of the distribution. A step along :math:`d` with size :math:`\eta` is

.. math:: u^+ = \arg\min_{u \in S}\; \sum_i D_i\bigl[\varphi(u_i) - (\theta_i + \eta d_i) u_i\bigr]
                + \eta\alpha \sum_i D_i u_i,

and the next :math:`\theta` is :math:`\varphi'(u^+)` (**active**) or :math:`\theta + \eta d`
(**lazy**). Its **gain** is

.. math:: -\eta\langle d, u^+\rangle_D + \eta\alpha(\langle 1, u^+\rangle_D - 1)
          + \sum_i D_i\bigl[\varphi(u_i^+) - \varphi(u_i) - \theta_i(u_i^+ - u_i)\bigr],

the fall of the dual potential. With :math:`G` the sum of gains and :math:`M = -\sum_t \eta_t d_t`,

.. math:: \sum_i w^*_i M_i \;\ge\; G - B_R(w^*, D) \qquad \text{for every } w^* \in S,

and every certificate of this library follows from that inequality.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.mirror.balls import project_ball
from maboost.mirror.domains import Domain, Simplex
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected, project_box, project_generic
from maboost.mirror.regularizers import Regularizer
from maboost.mirror.sources import onto_mass, project_sources

__all__ = ["AscentState", "MirrorAscent", "Moved", "project"]

ZERO_MASS = 1e-12
# a gain this far below zero is rounding; certificates leave more room than that
_CANCELLED, _PER_TERM = 4e-14, 8.0 * sys.float_info.epsilon

Array = NDArray[np.float64]
Update = Literal["active", "lazy"]
Projection = Callable[[Regularizer, Domain, Array, BaseMeasure, float | None], Projected]


@dataclass(frozen=True)
class AscentState:
    r"""The state of mirror ascent: a dual point and a density.

    Attributes
    ----------
    theta : array
        The dual point from which the next step departs.
    density : array
        The point u of the domain; the distribution is ``D * u / mass``.
    mass : float
        The integral of u: one on the simplex, anything on the orthant and the hypercube.
    potential : float
        :math:`\langle\theta, u\rangle_D - R(u)`, the dual potential at theta; steps gain by
        lowering it.

    Examples
    --------
    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Entropy, MirrorAscent, Simplex
    >>> state = MirrorAscent(Entropy(), Simplex()).start(BaseMeasure(np.ones(3)))
    >>> state.density, state.mass
    (array([1., 1., 1.]), 1.0)
    """

    theta: Array
    density: Array
    mass: float
    potential: float


@dataclass(frozen=True)
class Moved:
    """The outcome of one step: the new state, and the certified gain of the step.

    `magnitude` bounds the terms whose sum is the gain, other than potentials of the size of the gain: it is the absolute
    gain itself, except with double projection.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Euclidean, MirrorAscent, Simplex
    >>> ascent, measure = MirrorAscent(Euclidean(), Simplex()), BaseMeasure(np.ones(2))
    >>> moved = ascent.move(ascent.start(measure), np.array([0.0, -1.0]), 0.5, measure)
    >>> moved.state.density, round(moved.gain, 4)
    (array([1.25, 0.75]), 0.2188)
    """

    state: AscentState
    gain: float
    magnitude: float


@dataclass
class MirrorAscent:
    """Mirror ascent with exact gains.

    Parameters
    ----------
    regularizer, domain
        The geometry, and the set of allowed densities.
    update : {"active", "lazy"}, default="active"
        Whether a step departs from the projected point ("active") or from the unprojected dual point ("lazy").
    via : Domain, optional
        Double projection (Lemma 4 of the paper): project onto this larger set first. Active only.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Entropy, Simplex
    >>> ascent = MirrorAscent(Entropy(), Simplex())
    >>> measure = BaseMeasure(np.ones(4))
    >>> state = ascent.start(measure)
    >>> moved = ascent.move(state, np.array([1.0, -1.0, -1.0, -1.0]), 0.549306, measure)
    >>> moved.state.density.round(3), round(moved.gain, 3)
    (array([2.   , 0.667, 0.667, 0.667]), 0.144)
    """

    regularizer: Regularizer
    domain: Domain
    update: Update = "active"
    via: Domain | None = None

    def __post_init__(self) -> None:
        if self.update not in ("active", "lazy"):
            raise ValueError(f"update must be 'active' or 'lazy', got {self.update!r}")
        for domain in (self.domain, self.via):
            if domain is not None:
                domain.refuse_lost_caps()
        _check_zero(self.regularizer)
        if self.via is not None and self.update == "lazy":
            raise ValueError(
                "double projection (via=...) needs update='active': its proof uses only the relaxed "
                "Pythagorean inequality, which does not suffice for the lazy update"
            )
        if self.via is not None and not self.domain.normalised:
            raise ValueError(
                f"double projection ends on a set of distributions, {type(self.domain).__name__} is none"
            )

    def check(self, measure: BaseMeasure) -> None:
        """Raise ValueError if the domain is empty for this base measure or does not fit its rows."""
        self.domain.check(measure)
        if self.domain.normalised and math.isfinite(self.regularizer.upper):  # a cap of its own
            self.domain.with_row_caps_at_most(self.regularizer.upper).check(measure)
        if self.via is None:
            return
        self.via.check(measure)
        if not self.via.includes(self.domain, measure):
            raise ValueError(
                f"via={self.via!r} must be a set that holds all distributions of domain={self.domain!r}: double "
                "projection ends on the smaller set; give a larger one, such as Orthant() or Simplex()"
            )

    def check_l1(self, l1: float) -> None:
        """Raise ValueError if an l1 term does not fit the geometry."""
        if l1 and (self.domain.normalised or not self.regularizer.accepts_l1):
            raise ValueError(
                "an l1 term acts only where the mass is free: use Euclidean() with Orthant(); on a "
                "simplex the l1 norm is constant"
            )

    def start(self, measure: BaseMeasure) -> AscentState:
        """Return the base measure, projected onto the domain."""
        self.check(measure)
        level = float(self.regularizer.grad(np.array([1.0]))[0])
        theta = np.full(measure.entries.size, level)
        projected = project_onto(self.regularizer, self.domain, theta, measure, 0.0)
        return self._arrive(theta, projected, measure)[0]

    def move(
        self,
        state: AscentState,
        direction: ArrayLike,
        step: float,
        measure: BaseMeasure,
        l1: float = 0.0,
        guess: float | None = None,
    ) -> Moved:
        r"""Return the state after one step along `direction` (the loss vector d of a hypothesis).

        Parameters
        ----------
        l1 : float, default=0.0
            :math:`\alpha` of the composite update (SparseBoost); Euclidean on the orthant only.
        guess : float, optional
            The expected shift of the projection, as for :func:`maboost.mirror.project`.
        """
        self.check_l1(l1)
        d = np.asarray(direction, dtype=np.float64)
        theta = state.theta + step * (d - l1)
        if self.via is not None:
            return self._move_twice(self.via, state, theta, d, step, measure)
        projected = project_onto(self.regularizer, self.domain, theta, measure, guess)
        new, potential = self._arrive(theta, projected, measure)
        gain = summed_gain(state.potential, -potential, -step * l1)
        return Moved(new, gain, abs(gain))

    def _arrive(
        self, theta: Array, projected: Projected, measure: BaseMeasure
    ) -> tuple[AscentState, float]:
        """Return the state after a projection, and the potential at the unprojected dual point."""
        density, normalised, phi = projected.density, self.domain.normalised, self.regularizer.phi
        if self.update == "active":
            new = projected.dual
        elif normalised:  # a common shift changes no projection: subtract it before it grows
            new = (theta - projected.center) - projected.tau
        else:
            new = theta

        def columns(part: slice) -> list[Array]:
            u = density[part]
            cost = phi(u)
            return [theta[part] * u - cost, new[part] * u - cost, u]

        at_theta, at_new, mass = measure.integrals_of(columns, 3)
        return AscentState(new, density, 1.0 if normalised else mass, at_new), at_theta

    def _move_twice(
        self, via: Domain, state: AscentState, theta: Array, direction: Array, step: float,
        measure: BaseMeasure,
    ) -> Moved:  # fmt: skip
        r"""Project onto `via`, then onto the domain.

        The gain is :math:`\eta\gamma - B(u,z) + B(p,z) + B(u^+,p)` with z the unprojected point.
        Written with the two half steps, u to p and p to u+, the formula does not need z.
        """
        first = project_onto(self.regularizer, via, theta, measure)
        second = project_onto(self.regularizer, self.domain, first.dual, measure)
        phi = self.regularizer.phi
        p, u_next = first.density, second.density
        at = [phi(density) for density in (state.density, p, u_next)]
        to_p = _product(state.theta, p - state.density)
        to_next = _product(first.dual, u_next - p)
        edges = -direction * p
        half_one, edge, half_two = measure.integrals(
            [at[1] - at[0] - to_p, edges, at[2] - at[1] - to_next]
        )
        sizes = measure.integrals([np.abs(x) for x in (*at, to_p, to_next, step * edges)])
        new, _ = self._arrive(first.dual, second, measure)
        return Moved(new, summed_gain(half_one, step * edge, half_two), math.fsum(sizes))

    def why_over(self, mass: float, error: float) -> str | None:
        """Return the reason why no step remains; None if one does. `error` is that of the ensemble, over pairs."""
        if self.domain.is_hypercube and error <= 0.0:
            return "every row is right"  # the step is a multiple of the error
        if mass <= ZERO_MASS:
            return "no row has weight left"  # the error is below that, and so are all steps
        return None

    def paper_step(self, edge: float, mass: float, error: float, l1: float = 0.0) -> float:
        r"""Return the step of the paper's proofs.

        It is :math:`\sigma\gamma` on a set of distributions (Theorems 1 to 3), :math:`\sigma(\gamma n - \alpha)`
        on the orthant (Theorem 4), :math:`\sigma\varepsilon\gamma` on the hypercube (Theorem 5), where
        :math:`\varepsilon` is the error of the ensemble so far.
        """
        if self.domain.normalised:
            slope = edge
        elif math.isinf(self.domain.entry_cap()):
            slope = edge * mass - l1
        else:
            slope = error * edge
        return self.regularizer.strong_convexity * slope


def project(
    regularizer: Regularizer,
    domain: Domain,
    theta: Array,
    measure: BaseMeasure,
    guess: float | None = None,
    out: Array | None = None,
) -> Projected:
    r"""Project the dual point `theta` onto `domain`, for any regularizer.

    :func:`maboost.engine.project` is the compiled form for entropy and the Euclidean regularizer.

    Parameters
    ----------
    regularizer, domain
        The geometry and the set.
    theta : array of shape (rows * width,)
        The dual point.
    measure : BaseMeasure
        The base measure of the rows.
    guess : float, optional
        A guess of :math:`\tau`; it saves passes and does not change the result.
    out : array like `theta`, optional
        An array for the density; not `theta` itself.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, CappedSimplex, Entropy
    >>> theta = np.log(np.array([4.0, 1.0, 1.0, 1.0]))
    >>> project(Entropy(), CappedSimplex(1.5), theta, BaseMeasure(np.ones(4))).density.round(4)
    array([1.5   , 0.8333, 0.8333, 0.8333])
    """
    check_projection(theta, guess, out)
    return project_onto(regularizer, domain, theta, measure, guess).into(out)


def check_projection(theta: Array, guess: float | None, out: Array | None) -> None:
    """Raise ValueError if the optional arguments of :func:`project` make no sense."""
    if guess is not None and math.isnan(guess):
        raise ValueError("guess must be a number, or None where nothing is known of it; got nan")
    if out is not None and (out.shape != theta.shape or np.may_share_memory(out, theta)):
        raise ValueError(
            f"out must be an array of its own of the shape of theta, {theta.shape}, got one of shape "
            f"{out.shape}" + (" that shares its memory" if out.shape == theta.shape else "")
        )


def project_onto(
    regularizer: Regularizer,
    domain: Domain,
    theta: Array,
    measure: BaseMeasure,
    guess: float | None = None,
) -> Projected:
    """Project a dual point onto any domain, for any regularizer."""
    if not domain.normalised:
        return project_box(regularizer, domain, theta)
    limits = domain.source_caps()
    if limits is not None:
        return project_sources(regularizer, domain.row_caps(), limits, theta, measure, onto_mass)
    limit = domain.divergence_limit()
    if limit is not None:

        def onto_simplex(point: Array) -> Projected:
            return project_generic(regularizer, Simplex(), point, measure)

        return project_ball(regularizer, limit, theta, measure, onto_simplex)
    return project_generic(regularizer, domain, theta, measure, guess)


def _check_zero(regularizer: Regularizer) -> None:
    """Refuse a regularizer that is infinite at zero: then no bound on errors or margins is finite."""
    with np.errstate(all="ignore"):
        at_zero = float(regularizer.phi(np.array([0.0]))[0])
    if not math.isfinite(at_zero):
        raise ValueError(
            f"regularizer={regularizer!r} has phi(0) = {at_zero}, but a weight of zero must have a finite phi: "
            "every certificate compares with distributions that give some rows no weight. Use a phi with a "
            "finite limit at 0, such as that of Entropy() or Euclidean()"
        )


def summed_gain(*terms: float) -> float:
    """Return the sum of the terms; zero if it is negative by no more than their rounding.

    In theory the gain of a step is not negative, but its terms are potentials that nearly cancel once the
    edges are small.
    """
    gain = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    rounding = _CANCELLED + _PER_TERM * max(map(abs, terms))
    return 0.0 if -rounding <= gain < 0.0 else gain


def _product(a: Array, b: Array) -> Array:
    """Return a * b with 0 wherever b is 0: a density that stayed at zero may have an infinite dual."""
    with np.errstate(invalid="ignore"):
        return np.where(b == 0.0, 0.0, a * b)
