r"""Mirror ascent: how a distribution moves, and what each move is worth.

One engine serves every booster. Its state is a dual point :math:`\theta` from which the next step
departs, and the density :math:`u` it stands for. A step along :math:`d` with size :math:`\eta` is

.. math:: u^+ = \arg\min_{u \in S}\; \sum_i D_i\bigl[\varphi(u_i) - (\theta_i + \eta d_i) u_i\bigr]
                + \eta\alpha \sum_i D_i u_i,

and the next :math:`\theta` is :math:`\varphi'(u^+)` (**active**) or :math:`\theta + \eta d`
(**lazy**). Its **gain** is

.. math:: -\eta\langle d, u^+\rangle_D + \eta\alpha(\langle 1, u^+\rangle_D - 1)
          + \sum_i D_i\bigl[\varphi(u_i^+) - \varphi(u_i) - \theta_i(u_i^+ - u_i)\bigr],

the fall of the dual potential. With :math:`G` the sum of gains and :math:`M = -\sum_t \eta_t d_t`,

.. math:: \sum_i w^*_i M_i \;\ge\; G - B_R(w^*, D) \qquad \text{for every } w^* \in S,

which is all that any certificate of this library uses.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.arrival import Ahead, Arrived, Potentials, capped_powers, positive_parts, powers
from maboost.mirror.coded import Coded, whole_direction
from maboost.mirror.domains import Domain
from maboost.mirror.exponential import exponentials_into
from maboost.mirror.kernels import potential, shifted
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import part_of
from maboost.mirror.projections import Projected, project
from maboost.mirror.regularizers import Entropy, Euclidean, Regularizer
from maboost.runtime.exact_sum import fold_wide

__all__ = ["AscentState", "MirrorAscent", "Moved"]

LARGEST_LOG = 600.0  # of a density before its cap: beyond it powers are cut
ZERO_MASS = 1e-12
# a gain this far below zero is one of zero, rounded; certificates leave more room for it
_CANCELLED, _PER_TERM = 4e-14, 8.0 * sys.float_info.epsilon
_FAR = 64.0  # a shift beyond it, taken out beforehand, would blur the last bits of what is left

Array = NDArray[np.float64]
Update = Literal["active", "lazy"]


@dataclass(frozen=True)
class AscentState:
    r"""Where the ascent stands.

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

    `magnitude` bounds the numbers that were added up to the gain beside potentials of its size: the absolute
    gain itself, unless two projections went over a larger set.

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
        The geometry, and the set the density stays in.
    update : {"active", "lazy"}, default="active"
        Whether a step departs from the projected point or from the unprojected dual point.
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
                "Pythagorean inequality, which the lazy update's does not get by with"
            )
        if self.via is not None and not self.domain.normalised:
            raise ValueError(
                f"double projection ends on a set of distributions, {type(self.domain).__name__} is none"
            )

    def start(self, measure: BaseMeasure) -> AscentState:
        """The base measure itself, projected onto the domain."""
        self.domain.check(measure)
        if self.domain.normalised and math.isfinite(self.regularizer.upper):  # a cap of its own
            self.domain.with_row_caps_at_most(self.regularizer.upper).check(measure)
        level = float(self.regularizer.grad(np.array([1.0]))[0])
        theta = measure.array()
        theta.fill(level)
        nowhere = Coded(np.zeros(1), np.zeros(theta.size, dtype=np.uint16))
        return self._depart(Ahead(theta, nowhere, 0.0, 0.0, 0.0), measure, 0.0)[0]

    def move(
        self,
        state: AscentState,
        direction: Array | Coded,
        step: float,
        measure: BaseMeasure,
        l1: float = 0.0,
        guess: float | None = None,
    ) -> Moved:
        r"""One step along `direction` (the loss vector d of a hypothesis).

        Parameters
        ----------
        l1 : float, default=0.0
            :math:`\alpha` of the composite update (SparseBoost); Euclidean on the orthant only.
        guess : float, optional
            Where the projection's shift is expected, as :func:`project` takes it.
        """
        if l1 and not (isinstance(self.regularizer, Euclidean) and not self.domain.normalised):
            raise ValueError(
                "an l1 term acts only where the mass is free: use Euclidean() with Orthant(); on a "
                "simplex the l1 norm is constant"
            )
        expected = self._expected_shift(state, direction, step, measure, guess)
        shift, near = 0.0, expected
        if expected is not None and abs(expected) <= _FAR:
            shift, near = expected, 0.0
        ahead = Ahead(state.theta, direction, step, l1, shift)
        if self.via is not None:
            return self._move_twice(self.via, state, ahead, measure)
        new, reached = self._depart(ahead, measure, near)
        gain = _gain(state.potential, -(reached + shift), -step * l1)
        return Moved(new, gain, abs(gain))

    def _depart(
        self, ahead: Ahead, measure: BaseMeasure, near: float | None
    ) -> tuple[AscentState, float]:
        """The state after the projection of a dual point, and the potential there."""
        at_once = self._at_once(ahead, measure, near)
        if at_once is not None:
            density, dual, found = at_once
            return AscentState(dual, density, found.mass, found.dual), found.theta
        theta = ahead.written(measure)
        projected = project(
            self.regularizer, self.domain, theta, measure, near, measure.array(),
            spend=self.update == "active" and self.domain.unbounded,
        )  # fmt: skip
        return self._arrive(theta, projected, measure)

    def _at_once(self, ahead: Ahead, measure: BaseMeasure, near: float | None) -> Arrived | None:
        """In one pass, where there is no shift to find or none is left."""
        domain = self.domain
        if self.update != "active":
            return None
        if not domain.normalised:
            orthant = type(self.regularizer) is Euclidean and math.isinf(domain.entry_cap())
            return positive_parts(ahead, measure) if orthant else None
        if near != 0.0 or type(self.regularizer) is not Entropy:
            return None
        if domain.unbounded:
            return powers(ahead, measure)
        if measure.width > 1 or domain.source_caps() is not None:  # caps tie entries together
            return None
        return capped_powers(ahead, measure.caps_in_reach(domain.row_caps()), measure)

    def _expected_shift(
        self,
        state: AscentState,
        direction: Array | Coded,
        step: float,
        measure: BaseMeasure,
        guess: float | None,
    ) -> float | None:
        """About the shift of the projection after a step, where it is known and changes nothing.

        What is taken out beforehand need not be taken out in passes of its own. Without caps codes tell it,
        and better than any guess.
        """
        if not self.domain.normalised or self.via is not None:
            return None
        by_code = self.domain.unbounded and type(self.regularizer) is Entropy
        if by_code and isinstance(direction, Coded):
            return direction.log_mean_exp(step, state.density, measure)
        return guess

    def _arrive(
        self, theta: Array, projected: Projected, measure: BaseMeasure
    ) -> tuple[AscentState, float]:
        """The state after a projection, and the potential at the unprojected dual point."""
        density = projected.density
        normalised = self.domain.normalised
        if self.update == "active":
            new = projected.dual
        elif normalised and (projected.center or projected.tau):
            # a common shift changes no projection: take it out before it grows
            new = measure.array()

            def shift(a: int, b: int) -> None:
                shifted(theta[a:b], projected.center, projected.tau, math.inf, new[a:b])

            measure.threads.over(theta.size, shift)
        else:
            new = theta
        if normalised and self.domain.unbounded and type(self.regularizer) is Entropy:
            # then theta is log u and the shift, and theta u - phi(u) is u - 1 and the shift times u
            found = Potentials(projected.center + projected.tau, 0.0, 1.0)
        else:
            found = self._potentials(theta, new, density, measure)
        mass = 1.0 if normalised else found.mass
        return AscentState(new, density, mass, found.dual), found.theta

    def _potentials(
        self, theta: Array, new: Array, density: Array, measure: BaseMeasure
    ) -> Potentials:
        """The potential at theta and at the new dual point, and the mass."""
        regularizer = self.regularizer
        euclidean = type(regularizer) is Euclidean
        tied = measure.width > 1 or self.domain.source_caps() is not None
        by_entry = (
            self.update == "active" or not tied
        )  # then log u is the dual point, or that of a cap
        if euclidean or (type(regularizer) is Entropy and by_entry):
            found = self._fast_potentials(theta, new, density, measure, euclidean)
            if found is not None:
                return found

        def columns(part: slice) -> list[Array]:
            u = density[part]
            cost = regularizer.phi(u)
            return [theta[part] * u - cost, new[part] * u - cost, u]

        return Potentials(*measure.integrals_of(columns, 3))

    def _fast_potentials(
        self, theta: Array, new: Array, density: Array, measure: BaseMeasure, euclidean: bool
    ) -> Potentials | None:
        """The same in one pass; for entropy the dual point gives the logarithm."""
        caps: Array | float = math.inf
        if self.update == "lazy" and not euclidean:
            domain = self.domain
            caps = domain.row_caps() if domain.normalised else domain.entry_cap()
        log_caps = measure.log_caps(caps)
        grid = measure.grid.factors
        is_log = self.update == "active" and not euclidean  # then new u - phi(u) = u - 1

        def block(part: slice) -> NDArray[np.int64]:
            u, base = density[part], measure.base(part)
            limits = part_of(log_caps, part)
            found = [
                potential(not euclidean, at[part], new[part], u, limits, base, *grid)
                for at in ([theta] if is_log else [theta, new])
            ]
            if not self.domain.normalised:
                found.append(fold_wide(u, measure.entries[part], *grid))
            return np.array(found, dtype=np.int64)

        found = measure.folded(block)
        if found is None:
            return None
        mass = 1.0 if self.domain.normalised else found.pop()
        return Potentials(found[0], mass - 1.0 if is_log else found[-1], mass)

    def _move_twice(
        self, via: Domain, state: AscentState, ahead: Ahead, measure: BaseMeasure
    ) -> Moved:
        r"""Project onto `via`, then onto the domain.

        The gain is :math:`\eta\gamma - B(u,z) + B(p,z) + B(u^+,p)` with z the unprojected point.
        Written with the two half steps, u to p and p to u+, nothing needs z itself.
        """
        direction, step = whole_direction(ahead.direction), ahead.step
        first = project(self.regularizer, via, ahead.written(measure), measure)
        second = project(self.regularizer, self.domain, first.dual, measure)
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
        return Moved(new, _gain(half_one, step * edge, half_two), math.fsum(sizes))

    def powers(self, state: AscentState, measure: BaseMeasure) -> Array:
        """Under entropy: e^theta, the density itself where a step departs from the projected point."""
        if self.update == "active":
            return state.density
        out = measure.array()

        def work(a: int, b: int) -> None:
            exponentials_into(np.minimum(state.theta[a:b], LARGEST_LOG), out[a:b])

        measure.threads.over(out.size, work)
        return out

    def why_over(self, mass: float, error: float) -> str | None:
        """Why no step is left to take; None if one is. `error` is that of the ensemble, over pairs."""
        if self.domain.is_hypercube and error <= 0.0:
            return "every row is right"  # the step is a multiple of the error
        if mass <= ZERO_MASS:
            return "no row has weight left"  # the error is below that, and so are all steps
        return None

    def paper_step(self, edge: float, mass: float, error: float, l1: float = 0.0) -> float:
        r"""The step of the paper's proofs.

        :math:`\sigma\gamma` on a set of distributions (Theorems 1 to 3), :math:`\sigma(\gamma n - \alpha)`
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


def _gain(*terms: float) -> float:
    """The sum of the terms; zero where it is negative by no more than their rounding.

    The gain of a step of the theory is not negative, but its terms are potentials that nearly cancel once the
    edges are small.
    """
    gain = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    rounding = _CANCELLED + _PER_TERM * max(map(abs, terms))
    return 0.0 if -rounding <= gain < 0.0 else gain


def _product(a: Array, b: Array) -> Array:
    """A * b with 0 wherever b is 0: a density that stayed at zero may have an infinite dual."""
    with np.errstate(invalid="ignore"):
        return np.where(b == 0.0, 0.0, a * b)
