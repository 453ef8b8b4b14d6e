"""What the theory asks of a regularizer, for those shipped and for a user's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import Blend, Quadratic, divergence, examples, seeds

from maboost.mirror import Entropy, Euclidean, FermiDirac, Regularizer

ALL = [
    Entropy(),
    Euclidean(),
    FermiDirac(1.2),
    FermiDirac(2.5),
    FermiDirac(40.0),
    Blend(),
    Quadratic(5.0),
]
every = pytest.mark.parametrize("regularizer", ALL, ids=repr)
shares = st.floats(1e-6, 1.0 - 1e-6)


def inside(regularizer: Regularizer, share: float) -> float:
    """A density of the regularizer's domain."""
    return share * min(regularizer.upper, 50.0)


def beta(regularizer: Regularizer, level: float) -> float:
    """The divergence of the density 1/level on a share `level` of the rows, from the definition."""
    u, one = np.array([1.0 / level, 0.0]), np.ones(2)
    return divergence(regularizer, u, one, np.array([level, 1.0 - level]))


@every
@given(a=shares, b=shares, t=st.floats(0.01, 0.99))
@examples(60)
def test_phi_is_strictly_convex(regularizer, a, b, t):
    u, v = inside(regularizer, a), inside(regularizer, b)
    left, right, middle = regularizer.phi(np.array([u, v, t * u + (1.0 - t) * v]))
    chord = t * left + (1.0 - t) * right
    assert middle <= chord + 1e-12 * (1.0 + abs(chord))
    if abs(u - v) > 1e-2:
        assert middle < chord


@every
@given(share=shares)
@examples(60)
def test_grad_is_the_derivative_of_phi(regularizer, share):
    """The divergence of u from u + h is of second order in h: phi' is the slope and nothing else."""
    u = inside(regularizer, share)
    room = min(u, regularizer.upper - u)
    for h in (1e-4 * room, 1e-5 * room):
        below, at, above = regularizer.phi(np.array([u - h, u, u + h]))
        slope = float(regularizer.grad(np.array([u]))[0])
        curve = (above - at) - (at - below)
        rounding = 1e-14 * (1.0 + abs(at)) / h
        assert abs((above - below) / (2.0 * h) - slope) <= curve / h + rounding


@every
@given(share=shares)
@examples(60)
def test_grad_inverse_undoes_grad(regularizer, share):
    u = np.array([inside(regularizer, share)])
    np.testing.assert_allclose(regularizer.grad_inverse(regularizer.grad(u)), u, rtol=1e-9)


@every
def test_ends(regularizer):
    """phi is finite at both ends, and the gradient's limits are those of the domain."""
    top = regularizer.upper if math.isfinite(regularizer.upper) else 1e6
    assert np.all(np.isfinite(regularizer.phi(np.array([0.0, top]))))
    bottom, highest = regularizer.grad_limits()
    assert bottom == (-math.inf if regularizer.grad(np.array([1e-9]))[0] < -10.0 else 0.0)
    assert highest == math.inf
    low = regularizer.grad_inverse(np.array([max(bottom, -700.0)]))
    assert low[0] == pytest.approx(0.0, abs=1e-300)
    assert np.all(regularizer.grad_inverse(np.array([1.0, 700.0])) <= regularizer.upper)


@every
@given(a=shares, b=shares)
@examples(60)
def test_beta_is_the_divergence_it_says_and_decreases(regularizer, a, b):
    lowest = 1.0 / min(regularizer.upper, 1e6)
    low, high = sorted(lowest + (1.0 - lowest) * x for x in (a, b))
    assert regularizer.beta(low) == pytest.approx(beta(regularizer, low), rel=1e-9, abs=1e-12)
    assert regularizer.beta(low) >= regularizer.beta(high) >= -1e-15
    assert regularizer.beta(1.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("k", [1.2, 2.5, 40.0])
def test_beta_is_infinite_beyond_the_domain(k):
    assert math.isfinite(FermiDirac(k).beta(1.0 / k))
    assert FermiDirac(k).beta(0.99 / k) == math.inf


@every
@given(gain=st.floats(1e-6, 40.0))
@examples(60)
def test_error_level_inverts_beta(regularizer, gain):
    """Against bisection of the definition; and never below it, since it is a bound."""
    low, high = 1.0 / min(regularizer.upper, 1e15), 1.0
    found = regularizer.error_level(gain)
    if regularizer.beta(low) <= gain:  # as low as the domain allows
        assert found == pytest.approx(low, rel=1e-12)
        return
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if beta(regularizer, middle) > gain else (low, middle)
    assert found == pytest.approx(high, rel=1e-9)
    assert regularizer.beta(found) <= gain + 1e-12 * (1.0 + gain)


@every
def test_no_gain_promises_nothing(regularizer):
    assert regularizer.error_level(0.0) == 1.0
    assert regularizer.error_level(-3.0) == 1.0


@every
def test_error_level_of_huge_gains_is_its_floor(regularizer):
    found = regularizer.error_level(1e9)
    assert 0.0 <= found <= max(1.0 / regularizer.upper, 1e-8)


def infima(regularizer: Regularizer) -> tuple[float, float]:
    """inf phi'' and inf u phi'', from differences of the gradient on a fine grid."""
    top = min(regularizer.upper, 1e4)
    u = np.concatenate([np.geomspace(1e-6, 0.1, 4000), np.linspace(0.1, 0.999 * top, 40_000)[1:]])
    second, middle = np.diff(regularizer.grad(u)) / np.diff(u), 0.5 * (u[1:] + u[:-1])
    return float(second.min()), float((middle * second).min())


@every
def test_strong_convexity(regularizer):
    assert regularizer.strong_convexity == pytest.approx(max(infima(regularizer)), rel=1e-3)


@every
@given(seed=seeds, n=st.integers(2, 9))
@examples(60)
def test_divergence_is_at_least_half_sigma_times_the_squared_norm(regularizer, seed, n):
    """inf phi'' goes with the norm of L2(D), inf u phi'' with that of L1(D) (Pinsker for entropy)."""
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.ones(n))
    cap = 1.0 + 0.99 * (min(regularizer.upper, 20.0) - 1.0)
    u, v = (pinned(rng.dirichlet(np.full(n, 0.5)) / base, cap) for _ in range(2))
    flat, scaled = (0.999 * value for value in infima(regularizer))
    reached = divergence(regularizer, u, v, base) + 1e-12
    assert reached >= 0.5 * flat * math.fsum(base * (u - v) ** 2)
    assert reached >= 0.5 * scaled * math.fsum(base * np.abs(u - v)) ** 2


def pinned(u: np.ndarray, cap: float) -> np.ndarray:
    """The point towards the base measure (all ones) where no density exceeds `cap`."""
    over = max(float(u.max()), cap)
    return 1.0 + (u - 1.0) * (cap - 1.0) / (over - 1.0) if over > cap else u


@pytest.mark.parametrize("k", [1.0, 0.5, math.inf, math.nan])
def test_fermi_dirac_needs_a_cap_above_one(k):
    with pytest.raises(ValueError, match="k > 1"):
        FermiDirac(k)


def test_fermi_dirac_is_logistic():
    x = np.linspace(-800.0, 800.0, 101)
    with np.errstate(over="ignore"):
        expected = 3.0 / (1.0 + 3.0 * np.exp(-x))
    np.testing.assert_allclose(FermiDirac(3.0).grad_inverse(x), expected, rtol=1e-12, atol=1e-300)


def test_parameters_can_be_read_and_set():
    regularizer = FermiDirac(3.0)
    assert regularizer.get_params() == {"k": 3.0}
    regularizer.set_params(k=2.0)
    assert (regularizer.upper, regularizer.strong_convexity) == (2.0, 2.0)
    with pytest.raises(ValueError, match="k > 1"):
        regularizer.set_params(k=1.0)
    with pytest.raises(ValueError, match="no parameter 'caps'"):
        regularizer.set_params(caps=1.0)
