r"""Bregman projections onto the domains, each by one scalar root.

All of them solve, for a dual point :math:`\theta` and in densities over the base measure :math:`D`,

.. math:: \min_{u \in S}\; \sum_i D_i\bigl[\varphi(u_i) - \theta_i u_i\bigr],

which is the Bregman projection of :math:`(\varphi')^{-1}(\theta)` onto :math:`S`. The solution is
:math:`u_i = \min(k_i, (\varphi')^{-1}(\max(\varphi'(0), \theta_i - \tau)))` with the one number
:math:`\tau` that makes the mass one (:math:`\tau = 0` if the domain does not fix the mass). The root needs only sums
and no sort, so the work is linear in the rows and distributes over shards. If sources have a largest mass, each
source that reaches it has a shift of its own (:mod:`maboost.mirror.sources`).

This file has the projection for any regularizer. :mod:`maboost.engine` has fast ones for entropy and the Euclidean
regularizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Regularizer
from maboost.runtime.exact_sum import FixedPoint, fixed_point

__all__ = ["Projected", "project_box", "project_generic"]

Array = NDArray[np.float64]

MASS_ROUNDING = 2e-14  # of a mass of one: the rounding of sums; a mass within it counts as met
MASS_TOLERANCE = 1e-13  # of a mass of one: the precision that every projection promises
NEARBY = 1e-6  # of a dual point: the width of a difference quotient
_ROUNDING = 2e-15  # of the mean of a row


class Projected:
    """A projection and its dual point.

    Attributes
    ----------
    density : array
        The projection u.
    center, tau : float
        The shift: ``(theta - center) - tau`` is the dual point before any cap. Two numbers, because
        their sum may not resolve what their parts do.
    multiplier : float
        The Lagrange multiplier of the largest divergence of the set; zero where that has no effect.

    Examples
    --------
    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Euclidean, Simplex, project
    >>> found = project(Euclidean(), Simplex(), np.array([2.0, 1.0]), BaseMeasure(np.ones(2)))
    >>> found.density, found.center + found.tau
    (array([1.5, 0.5]), 0.5)
    """

    def __init__(
        self,
        density: Array,
        center: float,
        tau: float,
        dual: Callable[[], Array],
        multiplier: float = 0.0,
    ) -> None:
        self.density = density
        self.center = center
        self.tau = tau
        self.multiplier = multiplier
        self._dual = dual

    @cached_property
    def dual(self) -> Array:
        """The gradient at `density`, kept in dual coordinates (logarithms for entropy).

        So a density that underflowed to zero keeps its logarithm.
        """
        return self._dual()

    def into(self, out: Array | None) -> Projected:
        """Return the same projection with its density copied to `out`, if that is given."""
        if out is None or self.density is out:
            return self
        np.copyto(out, self.density)
        return Projected(out, self.center, self.tau, lambda: self.dual, self.multiplier)


def mass_scale(caps: Array | float, measure: BaseMeasure, most: float = 1.0) -> FixedPoint:
    """Return the grid for sums of base, of base*p with p <= most and of base*cap."""
    finite = measure.highest_caps(caps)[1]
    return fixed_point(measure.largest * max(finite, most), measure.count)


def project_box(regularizer: Regularizer, domain: Domain, theta: Array) -> Projected:
    """Project onto a domain that does not fix the mass: each entry by itself."""
    bottom, top = regularizer.grad_limits()
    if domain.entry_cap() < regularizer.upper:
        top = float(regularizer.grad(np.array([domain.entry_cap()]))[0])
    dual = np.clip(theta, bottom, top)
    return Projected(regularizer.grad_inverse(dual), 0.0, 0.0, lambda: dual)


def project_generic(
    regularizer: Regularizer,
    domain: Domain,
    theta: Array,
    measure: BaseMeasure,
    guess: float | None = None,
) -> Projected:
    """Project for any regularizer and any range of `theta`; see :func:`maboost.mirror.project`.

    The mass is a decreasing function of tau. Brent's method finds its root in a bracket, in coordinates
    centred on the largest theta. If that leaves tau too coarse (a few huge theta at their caps and the rest far
    below), the search is repeated, centred on the largest theta that is not capped.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, FermiDirac, Simplex
    >>> theta = np.array([4.0, 0.0, 0.0])
    >>> project_generic(FermiDirac(2.0), Simplex(), theta, BaseMeasure(np.ones(3))).density.round(3)
    array([1.907, 0.546, 0.546])
    """
    if not domain.single_shift:
        raise ValueError(
            f"project_generic supports caps on rows only, but {type(domain).__name__} has "
            f"{'a largest divergence' if domain.source_caps() is None else 'caps on sources'}; use project"
        )
    caps, point = domain.row_caps(), regularizer.point
    bottom, _ = regularizer.grad_limits()
    one = float(regularizer.grad(np.array([1.0]))[0])

    def rows(x: Array, tau: float) -> Array:
        return np.minimum(measure.row_means(point(x - tau)), caps)

    center = measure.maximum(theta)
    for attempt in range(12):
        x = theta - center

        def excess(tau: float, x: Array = x) -> float:
            # bounded, so that an overflow far from the root does not disturb the interpolation
            return min(measure.row_integral(np.minimum(rows(x, tau), 1e300)), 3.0) - 1.0

        start = (guess - center) if guess is not None and attempt == 0 else -one
        tau = _bracketed_root(excess, start)
        if abs(excess(tau)) <= MASS_TOLERANCE and abs(tau) < 1e4:
            break
        blur = 1e-14 * abs(tau)  # the resolution of tau here: rows within it may be free
        u = point(x - (tau + blur))
        inside = np.repeat(measure.row_means(u) < caps, measure.width)
        inside &= u < regularizer.upper * (1.0 - 1e-9)
        top_free = measure.maximum(np.where(inside, theta, -np.inf))
        if math.isfinite(top_free) and top_free < center:
            center = top_free
        elif center + tau != center:  # centre on the root itself: each repetition adds 16 digits
            center += tau
        else:
            break
    return _settle(regularizer, theta, center, tau, caps, measure, bottom)


def _bracketed_root(excess: Callable[[float], float], start: float) -> float:
    """Return the root of a decreasing function, searching in both directions from `start`."""
    value = excess(start)
    if abs(value) <= MASS_ROUNDING:
        return start
    direction = 1.0 if value > 0.0 else -1.0
    near, step = start, 1.0
    while True:
        far = start + direction * step
        if not math.isfinite(far):
            return near
        reached = excess(far)
        if reached * direction <= 0.0:
            break
        if reached == value and direction < 0.0 and -reached <= MASS_TOLERANCE:
            return near  # every row is at its cap and the caps hold exactly a mass of one
        near, value, step = far, reached, step * 2.0
    if reached == 0.0:
        return far
    return float(scipy.optimize.brentq(excess, near, far, xtol=1e-300, rtol=8.9e-16, maxiter=4000))


def _settle(
    regularizer: Regularizer,
    theta: Array,
    center: float,
    tau: float,
    caps: Array | float,
    measure: BaseMeasure,
    bottom: float,
) -> Projected:
    """Return the projection at tau, with the rows above their cap shifted down to it."""
    dual = (theta - center) - tau
    density = regularizer.point(dual)
    over = measure.row_means(density) > caps
    if over.any():
        shape, limits = (measure.rows, measure.width), np.broadcast_to(caps, (measure.rows,))
        rows = theta.reshape(shape)[over]
        its_density, its_dual = capped_rows(regularizer, rows, limits[over])
        density = density.copy()  # since it may be the dual point itself
        density.reshape(shape)[over] = its_density
        dual.reshape(shape)[over] = its_dual
    return Projected(density, center, tau, lambda: np.maximum(dual, bottom))


def capped_rows(regularizer: Regularizer, rows: Array, caps: Array) -> tuple[Array, Array]:
    """Return density and dual point of rows (n, width), each shifted until its mean density is its cap.

    A shift is relative to the largest entry that is free. The cap leaves room for some entries at the
    regularizer's `upper`, and the next one may be far below them, so a shift from the largest entry would be
    too coarse.
    """
    width = rows.shape[1]
    if width == 1:
        return caps[:, None], regularizer.grad(caps)[:, None]
    full = np.minimum((caps * width / regularizer.upper).astype(np.intp), width - 1)
    x = rows - np.take_along_axis(-np.sort(-rows, axis=1), full[:, None], axis=1)
    dual = x - _shifts(regularizer.point, x, caps)[:, None]
    return regularizer.point(dual), dual


def _shifts(point: Callable[[Array], Array], x: Array, caps: Array) -> Array:
    """Return the shift at which the mean density of each row is its cap, by Newton's method in a bracket."""

    def mean(at: NDArray[np.intp] | slice, shift: Array) -> Array:
        found: Array = point(x[at] - shift[:, None]).mean(axis=1)
        return found

    low, high = np.full(len(x), -1.0), np.ones(len(x))
    while (outside := mean(slice(None), high) > caps).any():
        high = np.where(outside, 2.0 * high, high)
    while (outside := mean(slice(None), low) <= caps).any():
        low = np.where(outside, 2.0 * low, low)
    found, left = 0.5 * (low + high), np.arange(len(x))
    for attempt in range(400):
        shift, cap = found[left], caps[left]
        value, next_value = mean(left, shift), mean(left, shift + NEARBY)
        above = value > cap
        first, last = np.where(above, shift, low[left]), np.where(above, high[left], shift)
        low[left], high[left], middle = first, last, 0.5 * (first + last)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = shift + NEARBY * (value - cap) / (value - next_value)
        met = (np.abs(value - cap) <= _ROUNDING * cap) | (middle <= first) | (middle >= last)
        met |= np.abs(new - shift) <= 4.0 * np.spacing(np.abs(shift))
        # every eighth step halves the bracket: Newton's method alone may approach from one side for ever
        beside = ~((first < new) & (new < last)) | (attempt % 8 == 7)
        found[left] = np.where(met, shift, np.where(beside, middle, new))
        left = left[~met]
        if not left.size:
            break
    return found
