"""Corrections under known flip rates, against enumeration, simulation and Bayes' rule."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from maboost.noise import (
    corrected_probabilities,
    flip_rates_from_audit,
    label_weights,
    probability_wrong,
    transition_matrix,
)

rate = st.floats(0.0, 0.49)


def population(seed, K=2, points=4):
    """Shares of a few points and the probabilities of their true classes."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(points)), rng.dirichlet(np.ones(K), size=points)


def flip(y, T, rng):
    """Given labels, drawn from the rows of T."""
    return np.sum(rng.random(len(y))[:, None] > np.cumsum(T, axis=1)[y], axis=1)


@given(rate, rate, st.integers(0, 1000))
@settings(max_examples=50)
def test_weighted_error_is_affine_in_the_true_error(minus, plus, seed):
    """E[weight 1(f != given)] = A P(f != true) + B, for each of the 16 classifiers of four points."""
    T = np.array([[1 - minus, minus], [plus, 1 - plus]])
    weight = label_weights([0, 1], T) / 2.0
    share, p = population(seed)
    alpha, A = (1 - plus + minus) / 2, (1 - plus - minus) / 2
    np.testing.assert_allclose(weight, [alpha, 1 - alpha], atol=1e-12)
    prior = share @ p
    B = alpha * plus * prior[1] + (1 - alpha) * minus * prior[0]
    given_share = (p @ T) * share[:, None]
    for f in itertools.product([0, 1], repeat=4):
        other = 1 - np.array(f)
        weighted = np.sum(weight[other] * given_share[np.arange(4), other])
        true = np.sum(share * p[np.arange(4), other])
        assert weighted == pytest.approx(A * true + B, abs=1e-12)


@given(rate, rate, st.floats(0.1, 5), st.floats(0.1, 5), st.integers(0, 1000))
@settings(max_examples=50)
def test_costs_are_those_of_true_classes(minus, plus, c0, c1, seed):
    """Expected weighted error minus expected cost is the same for all classifiers, after scaling by A."""
    T = np.array([[1 - minus, minus], [plus, 1 - plus]])
    weight = label_weights([0, 1], T, class_weight={0: c0, 1: c1})
    share, p = population(seed)
    given_share, rest = (p @ T) * share[:, None], []
    for f in itertools.product([0, 1], repeat=4):
        other = 1 - np.array(f)
        weighted = np.sum(weight[other] * given_share[np.arange(4), other])
        cost = np.sum(np.array([c0, c1])[other] * share * p[np.arange(4), other])
        rest.append(weighted - (1 - plus - minus) * cost)
    np.testing.assert_allclose(rest, rest[0], atol=1e-12)


def test_weights_against_simulation():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 200_000)
    y = (rng.random(len(x)) < np.array([0.1, 0.4, 0.6, 0.9])[x]).astype(int)
    T = transition_matrix({1: 0.4, 0: 0.1}, [0, 1])
    seen = flip(y, T, rng)
    weight = label_weights(seen, T)
    errors = [
        (np.mean(weight * (f != seen)), np.mean(f != y)) for f in (x >= 1, x >= 2, x >= 3, x < 2)
    ]
    weighted, true = np.array(errors).T
    np.testing.assert_allclose(np.diff(weighted), 0.5 * np.diff(true), atol=0.01)  # 2A = 0.5


@given(rate, rate, st.floats(0.001, 0.999))
def test_decisions_by_weights_and_by_probabilities_agree(minus, plus, q):
    """H = 0 where the weighted odds are even, and there p is a half."""
    T = np.array([[1 - minus, minus], [plus, 1 - plus]])
    weight = label_weights([0, 1], T)
    H = np.log(weight[1] * q) - np.log(weight[0] * (1 - q))
    p = corrected_probabilities([q], T)[0]
    assert np.sign(np.round(p - 0.5, 9)) == np.sign(np.round(H / 4, 9)) or abs(H) < 1e-6
    at_zero = weight[0] / weight.sum()
    assert corrected_probabilities([at_zero], T)[0] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_probabilities_of_true_classes_return(K):
    rng = np.random.default_rng(K)
    _, p = population(0, K, points=20)
    T = 0.6 * np.eye(K) + 0.4 * rng.dirichlet(np.ones(K), size=K)
    np.testing.assert_allclose(corrected_probabilities(p @ T, T), p, atol=1e-9)
    if K == 2:
        np.testing.assert_allclose(corrected_probabilities((p @ T)[:, 1], T), p[:, 1], atol=1e-9)


@pytest.mark.parametrize("K", [2, 3])
def test_probability_wrong_is_bayes_rule(K):
    """Against the joint distribution of true and given label, and the expected number of wrong labels."""
    share, p = population(1, K, points=6)
    T = transition_matrix({0: 0.3, 1: 0.1}, range(K))
    q, total = p @ T, 0.0
    for m in range(K):
        joint = p * T[:, m]  # of each true class with the given label m
        wrong = probability_wrong(q, np.full(6, m), T, classes=range(K))
        np.testing.assert_allclose(wrong, 1.0 - joint[:, m] / joint.sum(axis=1), atol=1e-9)
        total += np.sum(share * q[:, m] * wrong)
    assert total == pytest.approx(np.sum(share @ p * (1.0 - np.diag(T))))


def test_a_label_of_the_class_that_nobody_is_flipped_to_is_right():
    """Also where the model is certain of the other class: 0/0 unless probabilities stay inside (0, 1)."""
    assert probability_wrong([0.0, 0.0], [0, 1], {1: 0.4})[1] == pytest.approx(0.0)
    q = [[1.0, 0.0, 0.0]]
    wrong = probability_wrong(
        q, [2], np.array([[0.9, 0.1, 0], [0, 1, 0], [0.1, 0.1, 0.8]]), classes=range(3)
    )
    assert wrong[0] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("q", "rates"),
    [([0.0, 0.05, 0.7, 1.0], {1: 0.4, 0: 0.1}), ([[1, 0, 0], [0, 0, 1], [0.2, 0.7, 0.1]], 0.3)],
)
def test_clipped_probabilities_have_a_finite_log_loss(q, rates):
    for dtype in (np.float64, np.float32):
        p = corrected_probabilities(q, rates).astype(dtype)
        assert np.all(p > 0)
        assert np.all(p < 1)
        if p.ndim == 2:
            np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-6)
            assert np.isfinite(log_loss([1, 0, 2], p, labels=[0, 1, 2]))
    np.testing.assert_array_equal(np.argsort(p[..., -1]), np.argsort(np.asarray(q)[..., -1]))


def test_forms_of_rates_agree():
    T = [[0.6, 0.4], [0.0, 1.0]]
    np.testing.assert_allclose(transition_matrix({"a": 0.4}, ["a", "b"]), T)
    np.testing.assert_allclose(transition_matrix(T, ["a", "b"]), T)
    np.testing.assert_allclose(transition_matrix({"a": 0.4}, ["b", "a"]), np.array(T)[::-1, ::-1])
    np.testing.assert_allclose(transition_matrix(0.3, range(4)), 0.6 * np.eye(4) + 0.1)
    estimate = flip_rates_from_audit(["a"] * 6 + ["b"] * 14, ["a"] * 10 + ["b"] * 10)
    np.testing.assert_allclose(transition_matrix(estimate, ["a", "b"]), T)
    np.testing.assert_allclose(transition_matrix(estimate, ["b", "a"]), np.array(T)[::-1, ::-1])


def test_classes_may_come_in_any_order():
    labels = np.array(["ok", "fraud", "ok"])
    expected = label_weights(labels, {"fraud": 0.4})
    np.testing.assert_array_equal(
        label_weights(labels, {"fraud": 0.4}, classes=["ok", "fraud"]), expected
    )
    wrong = probability_wrong([[0.7, 0.3]] * 3, labels, {"fraud": 0.4}, classes=["ok", "fraud"])
    np.testing.assert_allclose(wrong, [0.2 / 0.7, 0.0, 0.2 / 0.7])


ESTIMATE = flip_rates_from_audit(["a", "b"], ["a", "b"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transition_matrix({0: 0.5, 1: 0.5}, [0, 1]), "add up to less than 1"),
        (lambda: transition_matrix(0.5, [0, 1]), "add up to less than 1"),
        (lambda: transition_matrix(2 / 3, [0, 1, 2]), "singular"),
        (lambda: transition_matrix({"c": 0.1}, ["a", "b"]), "'c', which is not a class"),
        (lambda: transition_matrix({"a": 1.1}, ["a", "b"]), "rate of 'a' must be a number in"),
        (lambda: transition_matrix({"a": np.nan}, ["a", "b"]), "rate of 'a' must be a number in"),
        (lambda: transition_matrix(True, ["a", "b"]), "flip_rates must be a rate"),
        (lambda: transition_matrix([[1, 0]], ["a", "b"]), r"shape \(2, 2\)"),
        (lambda: transition_matrix([[0.5, 0.4], [0, 1]], ["a", "b"]), "sum to 1"),
        (lambda: transition_matrix(ESTIMATE, ["a", "c"]), "estimated for the classes"),
        (lambda: transition_matrix(ESTIMATE, ["a", "b", "c"]), "estimated for the classes"),
        (lambda: label_weights([0, 1, 2], 0.1), "two classes"),
        (lambda: label_weights([0, 1, 2], 0.1, classes=[0, 1]), "y holds 2, which is not a class"),
        (lambda: label_weights([0, 1], 0.1, class_weight={2: 1.0}), "names 2, which is not a class"),
        (lambda: label_weights([0, 1], 0.1, class_weight="balanced"), "dict of costs"),
        (lambda: label_weights([0, 1], 0.1, class_weight={0: -1.0}), "at least 0"),
        (lambda: corrected_probabilities([0.5, np.nan], 0.1), "probabilities in"),
        (lambda: corrected_probabilities([1.5], 0.1), "probabilities in"),
        (lambda: corrected_probabilities([[0.5], [0.2]], 0.1), "q must have the shape"),
        (lambda: corrected_probabilities([[0.5, 0.2]], 0.1), "sum to 1"),
        (lambda: corrected_probabilities([0.5], 0.1, classes=[0, 1, 2]), "probabilities of 2 classes"),
        (lambda: probability_wrong([0.5, 0.5], [0], 0.1, classes=[0, 1]), "q has 2 rows"),
        (lambda: probability_wrong([0.5], [3], 0.1, classes=[0, 1]), "y holds 3, which is not a class"),
    ],
)  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
