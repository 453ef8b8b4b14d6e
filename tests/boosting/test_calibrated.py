"""Probabilities of true classes from out-of-sample votes, by maximum likelihood of given labels."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from maboost.boosting.calibration import calibrated
from maboost.mirror.measure import BaseMeasure

SYMMETRIC = np.array([[0.8, 0.2], [0.2, 0.8]])
ONE_SIDED = np.array([[1.0, 0.0], [0.4, 0.6]])
THREE = np.array([[0.8, 0.15, 0.05], [0.1, 0.9, 0.0], [0.3, 0.0, 0.7]])


def population(T, rows=20_000, seed=0):
    """Votes, the probabilities that they stand for, and labels given under the flip rates."""
    rng, K = np.random.default_rng(seed), len(T)
    votes = rng.normal(size=(rows, K))
    votes[:, 0] = 0.0
    p = softmax(2.0 * votes + 0.7 * np.arange(K), axis=1)
    q = p @ T
    given = (q.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    return (votes[:, 1] if K == 2 else votes), p, given


def fitted(votes, given, T, weight=None):
    measure = BaseMeasure(np.ones(len(given)) if weight is None else weight)
    return calibrated(votes, given, T[None], np.zeros(len(given), dtype=np.intp), measure)


@pytest.mark.parametrize("T", [np.eye(2), SYMMETRIC, ONE_SIDED, np.eye(3), THREE])
def test_the_true_probabilities_are_found(T):
    votes, p, given = population(T)
    found = fitted(votes, given, T)
    assert np.abs(found.probabilities - p).mean() < 0.015
    np.testing.assert_allclose(found.probabilities.mean(axis=0), p.mean(axis=0), atol=0.015)


@pytest.mark.parametrize("seed", range(3))
def test_without_flips_it_is_logistic_regression_on_platts_targets(seed):
    votes, _, given = population(np.eye(2), rows=300, seed=seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, 300)
    counts = np.bincount(given)[given]
    on_given = (counts + 1.0) / (counts + 2.0)
    both = np.concatenate([given, 1 - given])
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        np.tile(votes, 2)[:, None], both,
        sample_weight=np.concatenate([weight * on_given, weight * (1.0 - on_given)]),
    )  # fmt: skip
    found = fitted(votes, given, np.eye(2), weight)
    expected = oracle.predict_proba(votes[:, None])
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-4)


@pytest.mark.parametrize("T", [ONE_SIDED, THREE])
def test_no_other_scale_and_offsets_are_likelier(T):
    votes, _, given = population(T, rows=500)
    found, rng = fitted(votes, given, T), np.random.default_rng(1)
    K = len(T)
    of_classes = np.column_stack([np.zeros(500), votes]) if K == 2 else votes
    counts = np.bincount(given, minlength=K)[given]
    targets = np.repeat(1.0 / (counts + K)[:, None], K, axis=1)
    targets[np.arange(500), given] = (counts + 1.0) / (counts + K)

    def loss(p):
        return -np.mean(np.sum(targets * np.log(p @ T), axis=1))

    assert loss(found.probabilities) == pytest.approx(found.loss, rel=1e-12)
    for _ in range(300):
        scale, offsets = 2.0 * np.exp(rng.normal()), np.arange(K) * 0.7 + rng.normal(size=K)
        other = softmax(scale * of_classes + offsets, axis=1)
        assert found.loss <= loss(other) + 1e-7


def test_each_row_has_the_rates_of_its_source():
    votes, p, clean = population(np.eye(2))
    rng = np.random.default_rng(1)
    source = (rng.random(len(clean)) < 0.7).astype(np.intp)
    flipped = (source == 1) & (clean == 1) & (rng.random(len(clean)) < 0.4)
    given = np.where(flipped, 0, clean)
    rates = np.stack([np.eye(2), ONE_SIDED])
    found = calibrated(votes, given, rates, source, BaseMeasure(np.ones(len(given))))
    assert np.abs(found.probabilities - p).mean() < 0.015


@pytest.mark.parametrize("T", [ONE_SIDED, THREE])
def test_the_order_of_the_rows_does_not_change_a_bit(T):
    votes, _, given = population(T, rows=2000)
    weight = np.random.default_rng(2).uniform(0.1, 3.0, 2000)
    order = np.random.default_rng(3).permutation(2000)
    one = fitted(votes, given, T, weight)
    other = fitted(votes[order], given[order], T, weight[order])
    np.testing.assert_array_equal(one.probabilities[order], other.probabilities)
    assert one.loss == other.loss


def test_votes_that_separate_the_classes_have_finite_odds():
    votes = np.repeat([-1.0, 1.0], 50)
    found = fitted(votes, (votes > 0.0).astype(np.intp), np.eye(2))
    np.testing.assert_allclose(found.probabilities[[0, -1], 1], [1 / 52, 51 / 52], atol=1e-4)
