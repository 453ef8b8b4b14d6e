"""Only so many rows in every round: the budget, its ties, and what stays exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from tests.helpers import examples

from maboost import SparseBoostClassifier
from maboost.boosting.trimming import sampled_rows
from maboost.mirror import BaseMeasure

X, Y = make_classification(2000, 10, n_informative=5, flip_y=0.1, random_state=0)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 60), share=st.floats(0.01, 0.99))
@examples(200)
def test_rows_come_in_the_order_of_place_over_density(seed, n, share):
    rng = np.random.default_rng(seed)
    density = rng.choice([0.0, 0.5, 1.0, 2.0], n) if seed % 2 else rng.exponential(size=n)
    density[rng.integers(n)] = 1.0
    places, measure = rng.random(n), BaseMeasure(rng.uniform(0.5, 2.0, n))
    rows, floor = sampled_rows(density, places, share, measure)
    shown = np.arange(n) if rows is None else rows
    positive = np.flatnonzero(density > 0.0)
    order = positive[np.argsort(places[positive] / density[positive])]
    fits = np.cumsum(measure.rows_base[order]) <= share * (1.0 + 1e-12)
    expected = order[: max(fits.sum(), 1)]
    np.testing.assert_array_equal(shown, np.sort(expected))
    if rows is not None:  # the first row left out, or the last one in
        keys = places[order] / density[order]
        near = keys[len(expected) - 1 : len(expected) + 1]
        assert np.isclose(1.0 / floor, near, rtol=1e-12).any()


def test_the_sample_stands_for_the_distribution():
    """Sums over the sample with lifted densities are those over all rows, on average over places."""
    rng = np.random.default_rng(0)
    density, values = rng.exponential(size=400), rng.normal(size=400)
    measure = BaseMeasure(np.ones(400))
    density /= measure.integral(density)
    found = []
    for _ in range(400):
        rows, floor = sampled_rows(density, rng.random(400), 0.2, measure)
        found.append(np.sum(np.maximum(density[rows], floor) * values[rows]) / 400)
    spread = np.std(found) / 20.0
    assert abs(np.mean(found) - measure.integral(density * values)) < 4.0 * spread
    assert spread < 0.02


@pytest.mark.parametrize("sparsity", [0.5, 0.9, 0.97])
def test_the_budget_is_met_in_every_round_and_the_certificate_is_exact(sparsity):
    model = SparseBoostClassifier(n_estimators=40, sparsity=sparsity, random_state=0).fit(X, Y)
    history = model.history_
    budget = (1.0 - sparsity) * len(Y)
    assert np.mean(history["rows_used"] <= budget + 1e-9) > 0.8  # else no edge was found on so few
    assert np.all(history["train_error"] <= history["error_bound"] + 1e-12)
    assert np.all(history["edge"] > 0.0)
    margins = np.sort((2 * Y - 1) * model.decision_function(X))
    assert np.mean(margins <= 0.0) == pytest.approx(history["train_error"][-1], abs=1e-12)


def test_copies_stay_together():
    model = SparseBoostClassifier(n_estimators=10, sparsity=0.8, random_state=0)
    once = clone(model).fit(X[:500], Y[:500])
    twice = clone(model).fit(np.repeat(X[:500], 2, axis=0), np.repeat(Y[:500], 2))
    np.testing.assert_allclose(twice.estimator_weights_, once.estimator_weights_, rtol=1e-10)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="sparsity or trim, not both"):
        SparseBoostClassifier(sparsity=0.5, trim=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="'sparsity' parameter"):
        SparseBoostClassifier(sparsity=1.0).fit(X, Y)
