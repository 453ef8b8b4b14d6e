"""What the history records of the training rows is what the fitted model says of them."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

BOOSTERS = {
    "entropy": lambda *a, **k: MABoostClassifier(*a, **k),
    "paper": lambda *a, **k: MABoostClassifier(*a, step="paper", **k),
    "lazy": lambda *a, **k: MABoostClassifier(*a, regularizer="euclidean", update="lazy", **k),
    "smooth": lambda *a, **k: SmoothBoostClassifier(*a, smoothness=2.0, **k),
    "sparse": lambda *a, **k: SparseBoostClassifier(*a, kappa=0.7, **k),
    "mada": lambda *a, **k: MadaBoostClassifier(*a, **k),
    "combined": lambda *a, **k: CombinedBoostClassifier(*a, error_limits={0: None, 1: 0.4}, **k),
}
ESTIMATORS = {
    "own tree": (HistTreeClassifier(max_depth=2), {}),
    "own votes": (HistTreeClassifier(max_depth=1, response="sign"), {}),
    "tree": (DecisionTreeClassifier(max_depth=3, random_state=0), {"response": "proba"}),
    "stump": (DecisionTreeClassifier(max_depth=1, random_state=0), {"response": "proba"}),
    "votes": (DecisionTreeClassifier(max_depth=1, random_state=0), {"response": "votes"}),
    "prior": (DummyClassifier(strategy="prior"), {"response": "proba"}),
    "linear": (LogisticRegression(), {"response": "proba"}),
}


def few_values(seed, n_classes, n=99):
    """Rows of four kinds with labels at random: many votes are equal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=n)
    y[:n_classes] = range(n_classes)
    weights = rng.integers(1, 4, size=n).astype(float)
    return rng.integers(0, 2, size=(n, 2)).astype(float), y, weights


def margins_by_hand(votes, y):
    """The vote of the label less the largest of the others."""
    if votes.ndim == 1:
        return np.where(y == 1, votes, -votes)
    own = votes[np.arange(len(y)), y]
    others = votes.copy()
    others[np.arange(len(y)), y] = -np.inf
    return own - others.max(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", BOOSTERS)
def test_records_are_those_of_the_decision_function(name, kind, n_classes):
    """Errors with ties counted, margins to the last bit, and `predict` never worse than the record."""
    estimator, response = ESTIMATORS[kind]
    for seed in range(3):
        X, y, weights = few_values(seed, n_classes)
        source = {"sample_domain": np.arange(len(y)) % 2} if name == "combined" else {}
        booster = BOOSTERS[name](estimator, n_estimators=30, random_state=0, **response)
        model = booster.fit(X, y, sample_weight=weights, **source)
        share = weights / weights.sum()
        stages = list(model.staged_decision_function(X))[: len(model)]
        for votes, predicted, record in zip(
            stages, model.staged_predict(X), model.history_, strict=False
        ):
            margins = margins_by_hand(votes, y)
            error = float(share[margins <= 0.0].sum())
            assert record.train_error == pytest.approx(error, abs=1e-12)
            assert share[predicted != y].sum() <= record.train_error + 1e-12
            assert record.train_error <= record.error_bound
        if stages:
            np.testing.assert_array_equal(model.decision_function(X), stages[-1])
            assert model.margins(X, y).min() == record.min_margin
            assert model[:2].margins(X, y).min() == model.history_["min_margin"][:2][-1]
            assert record.soft_margin >= record.margin_bound


@pytest.mark.parametrize("n_classes", [2, 4])
def test_validation_errors_are_those_of_the_decision_function(n_classes):
    X, y, _ = few_values(1, n_classes)
    X_val, y_val, _ = few_values(2, n_classes)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    model = MABoostClassifier(tree, response="proba", n_estimators=30, random_state=0)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    for votes, record in zip(model.staged_decision_function(X_val), model.history_, strict=False):
        error = np.mean(margins_by_hand(votes, y_val) <= 0.0)
        assert record.val_error == pytest.approx(error, abs=1e-12)


def test_a_difference_that_normalisation_would_lose_is_no_tie():
    """Margins are differences of votes first, and then divided by the sum of steps."""
    X, y, _ = few_values(1, 4)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    model = MABoostClassifier(tree, response="proba", n_estimators=25, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        model.margins(X, y) <= 0.0, margins_by_hand(model.decision_function(X), y) <= 0.0
    )
