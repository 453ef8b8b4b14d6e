"""Checks of the parts of :mod:`maboost.mirror` that users may write."""

from __future__ import annotations

import math

import numpy as np

from maboost.engine import project
from maboost.mirror import (
    BaseMeasure,
    Domain,
    Entropy,
    Euclidean,
    MirrorAscent,
    Regularizer,
    Simplex,
)

__all__ = ["check_domain", "check_regularizer"]


def check_regularizer(regularizer: Regularizer, *, seed: int = 0) -> None:
    r"""Check that a regularizer is what the theory needs.

    Convexity, :math:`\varphi'` against finite differences, its inverse, the declared strong convexity,
    :math:`\beta` decreasing and :math:`\beta^{-1}`, projections onto the simplex, and gains that reach
    :math:`\tfrac12\sigma\gamma^2` with the paper's step.

    >>> from maboost.mirror import FermiDirac
    >>> check_regularizer(FermiDirac(3.0))
    """
    name = type(regularizer).__name__
    top = min(regularizer.upper, 50.0)
    u = np.linspace(0.0, top, 402)[1:-1]
    phi, grad = regularizer.phi(u), regularizer.grad(u)
    assert phi.shape == u.shape, f"{name}.phi must keep the shape of its argument"
    assert np.all(np.isfinite(phi)), f"{name}.phi must be finite inside its domain"
    last = regularizer.upper if math.isfinite(regularizer.upper) else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        at_zero, at_last = regularizer.phi(np.array([0.0, last])).tolist()
    assert math.isfinite(at_zero), (
        f"{name}.phi(0) is {at_zero}: a weight of zero must have a finite phi, since every certificate "
        "compares with distributions that give some rows no weight"
    )
    assert math.isfinite(at_last), f"{name}.phi must have a finite limit at upper, got {at_last}"
    assert np.all(np.diff(grad) > 0.0), (
        f"{name}.grad must increase strictly: phi is strictly convex"
    )
    _check_derivative(regularizer, name, u, grad)
    back = regularizer.grad_inverse(grad)
    assert np.allclose(back, u, rtol=1e-8, atol=1e-10), f"{name}.grad_inverse does not undo grad"
    _check_strong_convexity(regularizer, name, u, grad)
    _check_beta(regularizer, name)
    _check_gains(regularizer, name, seed)


def _check_derivative(regularizer: Regularizer, name: str, u: np.ndarray, grad: np.ndarray) -> None:
    h = 1e-6 * np.maximum(u, 1e-2)
    h = np.minimum(h, 0.4 * np.minimum(u, regularizer.upper - u))
    slope = (regularizer.phi(u + h) - regularizer.phi(u - h)) / (2.0 * h)
    wrong = np.abs(slope - grad) > 1e-4 * (1.0 + np.abs(grad))
    assert not wrong.any(), f"{name}.grad is not the derivative of phi at u={u[wrong][:1]}"


def _check_strong_convexity(
    regularizer: Regularizer, name: str, u: np.ndarray, grad: np.ndarray
) -> None:
    second = np.diff(grad) / np.diff(u)
    middle = 0.5 * (u[1:] + u[:-1])
    reached = max(float(second.min()), float((middle * second).min()))
    sigma = regularizer.strong_convexity
    assert sigma > 0.0, f"{name}.strong_convexity must be positive, got {sigma!r}"
    assert sigma <= reached * (1.0 + 1e-2), (
        f"{name}.strong_convexity={sigma!r} is too large: phi'' and u phi'' only reach {reached:.6g}"
    )


def _check_beta(regularizer: Regularizer, name: str) -> None:
    lowest = 1.0 / regularizer.upper if math.isfinite(regularizer.upper) else 1e-6
    levels = np.geomspace(max(lowest, 1e-6), 1.0, 30)
    betas = np.array([regularizer.beta(float(level)) for level in levels])
    finite = np.isfinite(betas)  # phi may overflow at the largest densities
    assert np.all(np.diff(finite.astype(int)) >= 0), f"{name}.beta must decrease"
    levels, betas = levels[finite], betas[finite]
    assert np.all(np.diff(betas) < 1e-12), f"{name}.beta must decrease"
    assert abs(betas[-1]) < 1e-9, f"{name}.beta(1) must be 0, got {betas[-1]!r}"
    for level, beta in zip(levels, betas, strict=True):
        found = regularizer.error_level(float(beta))
        assert abs(found - level) <= 1e-6 * level + 1e-9, (
            f"{name}.error_level({beta:.6g}) must be {level:.6g}, got {found!r}"
        )


def _check_gains(regularizer: Regularizer, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.exponential(size=40) + 0.1)
    sigma = regularizer.strong_convexity
    for update in ("active", "lazy"):
        ascent = MirrorAscent(regularizer, Simplex(), update)
        state = ascent.start(measure)
        assert np.allclose(state.density, 1.0), f"{name}: the run must start at the base measure"
        for _ in range(10):
            d = np.clip(rng.normal(size=40) - 0.5, -1.0, 1.0)
            edge = -measure.integral(state.density * d)
            if edge <= 1e-6:
                continue
            moved = ascent.move(state, d, sigma * edge, measure)
            mass = measure.integral(moved.state.density)
            assert abs(mass - 1.0) <= 1e-12, f"{name}: a projection has mass {mass!r}"
            assert moved.gain >= 0.5 * sigma * edge**2 - 1e-10, (
                f"{name}: the paper's step gained {moved.gain:.6g} < sigma*edge^2/2 = "
                f"{0.5 * sigma * edge**2:.6g} ({update} update); is strong_convexity too large?"
            )
            state = moved.state


def check_domain(domain: Domain, rows: int = 12, *, width: int = 1, seed: int = 0) -> None:
    """Check that projections onto a domain land inside it and are optimal, and what is left for some rows.

    Optimality is checked as the variational inequality against other points of the set, for both
    shipped regularizers.

    Parameters
    ----------
    domain : Domain
    rows : int
        The number of rows of the domain (its caps, if it has one for each row, must have this length).
    width : int
        Entries a row.

    >>> from maboost.mirror import CappedSimplex
    >>> check_domain(CappedSimplex(3.0))
    """
    name = type(domain).__name__
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.exponential(size=rows) + 0.2, width)
    domain.check(measure)
    some = rng.random(rows) < 0.5
    caps, left = np.asarray(domain.row_caps()), np.asarray(domain.restricted(some).row_caps())
    assert np.array_equal(left, caps[some] if caps.ndim else caps), (
        f"{name}.restricted(rows) does not leave the caps of those rows"
    )
    for regularizer in (Entropy(), Euclidean()):
        points = [
            project(regularizer, domain, rng.normal(size=rows * width) * scale, measure).density
            for scale in (0.1, 1.0, 10.0, 100.0)
        ]
        for point in points:
            assert domain.contains(point, measure), f"{name}: a projection lies outside the domain"
        for _ in range(5):
            theta = rng.normal(size=rows * width)
            u = project(regularizer, domain, theta, measure).density
            gradient = regularizer.grad(u) - theta  # -inf at 0 for entropy: only upward is feasible
            for v in points:
                finite = (v - u != 0.0) & np.isfinite(gradient)
                slope = measure.integral(np.where(finite, gradient * (v - u), 0.0))
                distance = 1.0 + measure.integral(np.abs(v - u))
                assert slope >= -1e-8 * distance, (
                    f"{name}: a projection is not optimal for {type(regularizer).__name__}: moving "
                    f"towards another point of the set gains {-slope:.3g}"
                )
