r"""Balls around the base measure: projections and linear minima, a scalar root each.

The set is :math:`S = \{u \ge 0: \sum_i D_iu_i = 1,\; \sum_i D_i b(u_i) \le \rho\}` with
:math:`b(u) = \psi(u) - \psi(1) - \psi'(1)(u - 1)` for a strictly convex :math:`\psi`.

**Projection.** With the multiplier :math:`\lambda \ge 0` of the last condition the solution of
:math:`\min_{u\in S}\sum_i D_i[\varphi(u_i) - \theta_iu_i]` is the projection of :math:`\theta` onto all distributions
under :math:`\varphi + \lambda b`. Its divergence falls as :math:`\lambda` grows. Where :math:`\psi = \varphi`, that is the
projection of :math:`\theta/(1+\lambda)` under :math:`\varphi` itself: the ball only tempers the dual point. For another
:math:`\psi` the inverse of :math:`\varphi' + \lambda b'` is found entry by entry.

**Linear minimum.** :math:`\min_{u\in S}\sum_i D_iu_iv_i` is the largest value over :math:`\lambda > 0` of

.. math:: \min_u \sum_i D_i[u_iv_i + \lambda b(u_i)] - \lambda\rho,

which is a lower bound for every :math:`\lambda`; the inner minimum is the projection of :math:`-v/\lambda` under
:math:`\psi`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from maboost.mirror.domains import DivergenceLimit, Simplex
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected, project_generic
from maboost.mirror.regularizers import Regularizer

__all__ = ["largest_divergence", "least_mean", "project_ball"]

Array = NDArray[np.float64]
OntoSimplex = Callable[[Array], Projected]

_MET = 4e-16  # a divergence this near its limit meets it: the rounding of its sum
_MASS_MET = 4e-15  # the same for a mass and a divergence that are sought together
_NEWTON = 40  # steps of Newton's method, at most
_NEARBY = 1e-6  # of a dual point: a difference over it is nearly a slope
_FARTHEST = 2.0**60  # times the extent of the values: beyond, only the lowest have mass
_NEAR_ONE = 1e-4  # densities this near one are taken together in a bound on divergences
_POINTS = 8192  # of the grids of that bound
_ITERATIONS = 200


def project_ball(
    regularizer: Regularizer,
    limit: DivergenceLimit,
    theta: Array,
    measure: BaseMeasure,
    onto_simplex: OntoSimplex,
) -> Projected:
    """Project a dual point onto the distributions within a divergence of the base measure.

    `onto_simplex` projects onto all distributions under the regularizer; the arrays of its result may be
    overwritten by its next call.
    """
    inside = onto_simplex(theta)
    if limit.divergence(inside.density, measure) <= limit.radius:
        return inside
    if regularizer == limit.regularizer:
        return _tempered(regularizer, limit, theta, measure, onto_simplex)
    return _penalised(regularizer, limit, theta, measure)


def _tempered(
    regularizer: Regularizer,
    limit: DivergenceLimit,
    theta: Array,
    measure: BaseMeasure,
    onto_simplex: OntoSimplex,
) -> Projected:
    """Return the projection of a dual point outside the ball, under the ball's own function."""

    def excess(log_scale: float) -> float:
        found = onto_simplex(math.exp(log_scale) * theta)
        return _excess(limit, found.density, measure)

    far, step = 0.0, 0.5
    while excess(far - step) > 0.0:
        far, step = far - step, 2.0 * step
    scale = math.exp(_root(excess, far - step, far))
    found = onto_simplex(scale * theta)
    one = float(regularizer.grad(np.ones(1))[0])
    # counted so that a density of one has the dual point phi'(1), as on the simplex
    center, tau = found.center / scale, (found.tau + one * (1.0 - scale)) / scale
    return Projected(found.density, center, tau, lambda: found.dual, 1.0 / scale - 1.0)


def _penalised(
    regularizer: Regularizer, limit: DivergenceLimit, theta: Array, measure: BaseMeasure
) -> Projected:
    """Return the projection of a dual point outside the ball, under another function than the ball's."""
    found = _by_newton(regularizer, limit, theta, measure)
    return found or _by_brackets(regularizer, limit, theta, measure)


def _by_newton(
    regularizer: Regularizer, limit: DivergenceLimit, theta: Array, measure: BaseMeasure
) -> Projected | None:
    r"""Multiplier and shift by Newton's method; None where it does not converge.

    They minimise the convex function :math:`\tau + \lambda\rho + \sum_i D_i(\varphi + \lambda b)^*(\theta_i - \tau)`,
    whose derivatives are one minus the mass and the radius less the divergence.
    """
    mean, square = measure.integrals([theta, theta * theta])
    weight = math.sqrt(max(square - mean * mean, 0.0) / (2.0 * limit.radius))
    tau = mean - float(regularizer.grad(np.ones(1))[0])
    if not 0.0 < weight < math.inf:
        return None
    best = math.inf
    kept: tuple[float, float, Array] | None = None
    for _ in range(_NEWTON):
        both = Penalised(regularizer, limit, weight)
        x = theta - tau
        u = both.point(x)
        slope, pull = both.curvature(u)
        columns = [u, limit.costs(u), slope, slope * pull, slope * pull * pull]
        mass, reached, h00, h01, h11 = measure.integrals(columns)
        off, over = 1.0 - mass, limit.radius - reached
        residual = max(abs(off), abs(over) / (1.0 + limit.radius))
        if residual < best:
            best, kept = residual, (weight, tau, x)
        elif best <= _MASS_MET:
            break
        determinant = h00 * h11 - h01 * h01
        if not determinant > 1e-12 * h00 * h11:
            return None
        # the Hessian by (tau, weight) is ((h00, h01), (h01, h11))
        shift = (h01 * over - h11 * off) / determinant
        change = (h01 * off - h00 * over) / determinant
        damping = min(1.0, 0.75 * weight / max(-change, 1e-300))
        tau, weight = tau + damping * shift, weight + damping * change
    if kept is None or best > _MASS_MET:
        return None
    weight, tau, x = kept
    both = Penalised(regularizer, limit, weight)
    return Projected(both.point(x), 0.0, tau, lambda: both.first_dual(x), weight)


def _by_brackets(
    regularizer: Regularizer, limit: DivergenceLimit, theta: Array, measure: BaseMeasure
) -> Projected:
    """Return the projection by a root in the multiplier, with one in the shift inside."""
    low, high = measure.extent(theta)
    guess: list[float | None] = [None]

    def at(log_weight: float) -> tuple[Penalised, Projected]:
        both = Penalised(regularizer, limit, math.exp(log_weight))
        found = project_generic(both, Simplex(), theta, measure, guess[0])
        guess[0] = found.center + found.tau
        return both, found

    def room(log_weight: float) -> float:
        return -_excess(limit, at(log_weight)[1].density, measure)

    # no multiplier is larger: <theta, u> - R(u) is at least its value at the base measure, plus the penalty
    far, step = math.log((high - low) / limit.radius) + 1e-9, 0.5
    near = far - step
    while room(near) > 0.0:
        far, step = near, 2.0 * step
        near -= step
    weight = _root(room, near, far)
    both, found = at(weight)
    return Projected(
        found.density, found.center, found.tau, lambda: both.first_dual(found.dual), both.weight
    )


def _excess(limit: DivergenceLimit, density: Array, measure: BaseMeasure) -> float:
    """Return how far a divergence is above its limit; zero where that is only rounding."""
    # bounded, so that an overflow far from the root does not disturb the interpolation
    found = min(limit.divergence(density, measure), 4.0 * (1.0 + limit.radius)) - limit.radius
    return 0.0 if abs(found) <= _MET * (1.0 + limit.radius) else found


def _root(increasing: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function in a bracket; an end where rounding has taken the change of sign."""
    below, above = increasing(low), increasing(high)
    if below >= 0.0:
        return low
    if above <= 0.0:
        return high
    return float(scipy.optimize.brentq(increasing, low, high, xtol=1e-15, rtol=8.9e-16))


class Penalised(Regularizer):
    r""":math:`\varphi + \lambda b`, whose derivative is inverted entry by entry.

    The equation is solved for the dual coordinate of the function whose derivative is infinite at zero, so that
    very small densities keep their digits.

    >>> from maboost.mirror import Entropy, Euclidean
    >>> both = Penalised(Entropy(), DivergenceLimit(Euclidean(), 1.0), 2.0)
    >>> both.grad_inverse(both.grad(np.array([0.25, 1.0, 7.0]))).round(12)
    array([0.25, 1.  , 7.  ])
    """

    def __init__(self, of: Regularizer, limit: DivergenceLimit, weight: float) -> None:
        self.of = of
        self.limit = limit
        self.weight = weight
        self.strong_convexity = of.strong_convexity
        self.upper = min(of.upper, limit.regularizer.upper)
        self._ones = [float(f.grad(np.ones(1))[0]) for f in (of, limit.regularizer)]
        self._by_first = math.isinf(of.grad_limits()[0])

    def phi(self, u: Array) -> Array:
        return self.of.phi(u) + self.weight * self.limit.costs(u)

    def grad(self, u: Array) -> Array:
        return self.of.grad(u) + self.weight * (self.limit.regularizer.grad(u) - self._ones[1])

    def grad_inverse(self, x: Array) -> Array:
        return self._density(self._coordinate(x))

    def first_dual(self, x: Array) -> Array:
        r"""Return the dual point of the first function where that of the sum is `x`."""
        at = self._coordinate(x)
        return at if self._by_first else self.of.grad(self._density(at))

    def curvature(self, u: Array) -> tuple[Array, Array]:
        """Return how fast densities rise with the dual point, and the derivative of the costs; both zero at an end."""
        slopes, pull = [], np.zeros_like(u)
        inside = (u > 0.0) & (u < self.upper)
        for function in (self.of, self.limit.regularizer):
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                dual = function.grad(u)
                rise = function.point(dual + _NEARBY) - function.point(dual - _NEARBY)
                slopes.append(2.0 * _NEARBY / rise)
            pull = np.where(inside, dual - self._ones[1], 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            slope = 1.0 / (slopes[0] + self.weight * slopes[1])
        good = inside & np.isfinite(slope) & (slope > 0.0)
        return np.where(good, slope, 0.0), np.where(good, pull, 0.0)

    def _density(self, coordinate: Array) -> Array:
        found = (self.of if self._by_first else self.limit.regularizer).point(coordinate)
        return np.minimum(found, self.upper)

    def _coordinate(self, x: Array) -> Array:
        """Return the dual coordinate of one function, from that of the sum."""
        x = np.asarray(x, dtype=np.float64)
        first, second = self._ones
        if self._by_first:
            other, start = self.limit.regularizer, np.full(x.shape, first)
            end = x

            def excess(y: Array) -> Array:
                slope = other.grad(np.maximum(self._density(y), np.finfo(np.float64).tiny))
                return y - x + self.weight * (slope - second)

        else:
            other, start = self.of, np.full(x.shape, second)
            end = second + (x - first) / self.weight

            def excess(y: Array) -> Array:
                return other.grad(self._density(y)) - x + self.weight * (y - second)

        with np.errstate(over="ignore", invalid="ignore"):
            return _increasing_roots(excess, np.minimum(start, end), np.maximum(start, end))


def _increasing_roots(excess: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the root of one increasing function for each entry, by Chandrupatla's method.

    A root lies in its bracket, whose ends may be beyond the domain of the function on one side. No root depends on
    which others are sought with it.
    """
    huge = np.finfo(np.float64).max

    def bounded(y: Array) -> Array:
        return np.clip(np.nan_to_num(excess(y), nan=huge), -huge, huge)

    a, b = high.copy(), low.copy()
    fa, fb = bounded(a), bounded(b)
    a = np.where(fb >= 0.0, b, a)  # the root is an end, up to rounding
    b = np.where(fa <= 0.0, a, b)
    c, fc, t = b, fb, np.full(a.shape, 0.5)
    found, left = a.copy(), np.ones(a.shape, dtype=bool)
    for _ in range(_ITERATIONS):
        at = a + t * (b - a)
        value = bounded(at)
        same = (value > 0.0) == (fa > 0.0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = at, value
        b = np.where(fa == 0.0, a, b)
        blur = 4e-16 * np.maximum(np.abs(a), 1e-3)
        width = np.abs(b - a)
        met = left & (width <= 2.0 * blur)
        found[met] = np.where(np.abs(fa) <= np.abs(fb), a, b)[met]
        left &= ~met
        if not left.any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inverse = fa / (fb - fa) * fc / (fb - fc)
            inverse += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            good = (phi * phi < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(inverse)
            least = np.minimum(blur / width, 0.5)
        t = np.clip(np.where(good, inverse, 0.5), least, 1.0 - least)
        t = np.where(np.isfinite(t), t, 0.5)
    found[left] = a[left]
    return found


def least_mean(
    values: Array,
    limit: DivergenceLimit,
    measure: BaseMeasure,
    onto_simplex: Callable[[Regularizer, Array], Projected],
    upper: float,
) -> float:
    """Return the least mean of `values` over a ball, rounded down to a dual value.

    No density is above `upper`.
    """
    low, high = measure.extent(values)
    span = high - low
    if not span > 0.0:
        return low
    regularizer = limit.regularizer
    if upper < regularizer.upper:
        regularizer = _Truncated(regularizer, upper)
    (share,) = measure.integrals_of(lambda part: [(values[part] == low).astype(np.float64)], 1)
    if regularizer.beta(min(share, 1.0)) <= limit.radius:
        return low
    rises = (values - low) / span

    def excess(log_scale: float) -> float:
        found = onto_simplex(regularizer, -math.exp(log_scale) * rises)
        return _excess(limit, found.density, measure)

    # a density spread over x has a divergence of about x^2 / 8 for small x
    near = 0.5 * math.log(limit.radius)
    while excess(near) > 0.0:
        near -= 1.0
    far, last = near + 1.0, math.log(_FARTHEST)
    while far < last and excess(far) < 0.0:
        near, far = far, far + 2.0
    scale = math.exp(_root(excess, near, min(far, last)))
    density = onto_simplex(regularizer, -scale * rises).density
    (mean,) = measure.integrals_of(lambda part: [density[part] * rises[part]], 1)
    missing = limit.divergence(density, measure) - limit.radius
    return max(low, low + span * (mean + missing / scale))


class _Truncated(Regularizer):
    """A regularizer whose densities end earlier."""

    def __init__(self, of: Regularizer, upper: float) -> None:
        self.of = of
        self.upper = upper
        self.strong_convexity = of.strong_convexity

    def phi(self, u: Array) -> Array:
        return self.of.phi(u)

    def grad(self, u: Array) -> Array:
        return self.of.grad(u)

    def grad_inverse(self, x: Array) -> Array:
        return self.of.grad_inverse(x)


def largest_divergence(regularizer: Regularizer, limit: DivergenceLimit, highest: float) -> float:
    r"""Return a bound on the divergence under a regularizer of the densities in a ball, none above `highest`.

    For the ball's own function it is the radius. For another, :math:`\sum_i D_ib_\varphi(u_i) \le e + C\rho` where C is
    the largest ratio of the two costs of a density outside :math:`(1-h, 1+h)`, and e the largest cost inside. Costs
    are monotone on both sides of one, so C follows from the ends of intervals.
    """
    if regularizer == limit.regularizer:
        return limit.radius
    own = DivergenceLimit(regularizer, limit.radius)
    top = max(min(highest, regularizer.upper, limit.regularizer.upper), 1.0 + 2.0 * _NEAR_ONE)
    below = 1.0 - np.geomspace(_NEAR_ONE, 1.0, _POINTS)
    above = 1.0 + np.geomspace(_NEAR_ONE, top - 1.0, _POINTS)
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = [own.costs(side)[1:] / limit.costs(side)[:-1] for side in (below, above)]
        near = own.costs(np.array([1.0 - _NEAR_ONE, 1.0 + _NEAR_ONE])).max()
    ratio = max(float(np.nan_to_num(r, nan=np.inf).max()) for r in ratios)
    return float(near + ratio * (1.0 + 1e-6) * limit.radius)
