"""The projection for any regularizer: a bracketed root of the mass, from three functions alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import Projected
from maboost.mirror.regularizers import Regularizer

__all__ = ["project_generic"]

Array = NDArray[np.float64]

MASS_TOLERANCE = 1e-13
_MET = 2e-14  # of a mass of one: a guess that good is the root


def project_generic(
    regularizer: Regularizer,
    domain: Domain,
    theta: Array,
    measure: BaseMeasure,
    guess: float | None = None,
) -> Projected:
    """The projection for any regularizer and any range of `theta`; see :func:`maboost.mirror.project`.

    The mass is a decreasing function of tau; its root is bracketed and found by Brent's method, in
    coordinates centred on the largest theta and, where that leaves tau too coarse (a few huge theta
    at their caps and the rest far below), once more on the largest theta that is not capped.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, FermiDirac, Simplex
    >>> theta = np.array([4.0, 0.0, 0.0])
    >>> project_generic(FermiDirac(2.0), Simplex(), theta, BaseMeasure(np.ones(3))).density.round(3)
    array([1.907, 0.546, 0.546])
    """
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
        blur = 1e-14 * abs(tau)  # what tau resolves here: rows within it may be free
        u = point(x - (tau + blur))
        inside = np.repeat(measure.row_means(u) < caps, measure.width)
        inside &= u < regularizer.upper * (1.0 - 1e-9)
        top_free = measure.maximum(np.where(inside, theta, -np.inf))
        if math.isfinite(top_free) and top_free < center:
            center = top_free
        elif center + tau != center:  # around the root itself: each time 16 digits more
            center += tau
        else:
            break
    return _settle(regularizer, point, theta, center, tau, caps, measure, bottom)


def _bracketed_root(excess: Callable[[float], float], start: float) -> float:
    """The root of a decreasing function, looked for in both directions from `start`."""
    value = excess(start)
    if abs(value) <= _MET:
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
            return near  # every row is at its cap and the caps hold a mass of one exactly
        near, value, step = far, reached, step * 2.0
    if reached == 0.0:
        return far
    return float(brentq(excess, near, far, xtol=1e-300, rtol=8.9e-16, maxiter=4000))


def _settle(
    regularizer: Regularizer,
    point: Callable[[Array], Array],
    theta: Array,
    center: float,
    tau: float,
    caps: Array | float,
    measure: BaseMeasure,
    bottom: float,
) -> Projected:
    """The density at tau, with rows above their cap shifted down to it."""
    dual = (theta - center) - tau
    density = point(dual)
    over = measure.row_means(density) > caps
    if over.any():
        limits = np.broadcast_to(caps, (measure.rows,))
        if measure.width == 1:
            density = np.where(over, limits, density)
            dual[over] = regularizer.grad(limits[over])
        else:
            table = dual.reshape(measure.rows, measure.width).copy()
            rows = theta.reshape(table.shape)[over]
            table[over] = _capped_rows(point, rows, limits[over], regularizer.upper)
            dual = table.reshape(-1)
            density = point(dual)
    return Projected(density, center, tau, lambda: np.maximum(dual, bottom))


def _capped_rows(point: Callable[[Array], Array], rows: Array, caps: Array, upper: float) -> Array:
    """The dual points of rows shifted, each by itself, until its mean density is its cap (bisection).

    A shift is counted from the largest entry that is free: the cap leaves room for so many entries at
    `upper`, and the next one may be far below them, where a shift from the top would be too coarse.
    """
    width = rows.shape[1]
    full = np.minimum((caps * width / upper).astype(np.intp), width - 1)
    x = rows - np.take_along_axis(-np.sort(-rows, axis=1), full[:, None], axis=1)

    def over(shift: Array) -> NDArray[np.bool_]:
        mean: Array = point(x - shift[:, None]).mean(axis=1)
        return mean > caps

    low, high = np.full(len(rows), -1.0), np.ones(len(rows))
    while (outside := over(high)).any():
        high = np.where(outside, 2.0 * high, high)
    while (outside := ~over(low)).any():
        low = np.where(outside, 2.0 * low, low)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        above = over(middle)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return x - high[:, None]
