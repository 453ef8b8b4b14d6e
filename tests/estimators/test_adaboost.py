"""With entropy, the simplex and votes, MABoost is AdaBoost: same trees, same votes, half the weights."""

import numpy as np
import pytest
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_hastie_10_2,
    make_moons,
)
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from maboost import MABoostClassifier

ROUNDS = 40


def one_against_rest(load, label):
    X, y = load(return_X_y=True)
    return X, np.where(y == label, "yes", "no")


def odd_digits():
    X, y = load_digits(return_X_y=True)
    return X, y % 2


DATA = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits, odd or even": odd_digits,
    "wine 0": lambda: one_against_rest(load_wine, 0),
    "wine 1": lambda: one_against_rest(load_wine, 1),
    "wine 2": lambda: one_against_rest(load_wine, 2),
    "iris 1": lambda: one_against_rest(load_iris, 1),
    "iris 2": lambda: one_against_rest(load_iris, 2),
    "hastie": lambda: make_hastie_10_2(1000, random_state=0),
    "flipped labels": lambda: make_classification(400, 10, flip_y=0.15, random_state=1),
    "moons": lambda: make_moons(300, noise=0.3, random_state=2),
}


def fit_both(tree, X, y, seed, rounds=ROUNDS):
    theirs = AdaBoostClassifier(tree, n_estimators=rounds, random_state=seed).fit(X, y)
    ours = MABoostClassifier(tree, n_estimators=rounds, random_state=seed).fit(X, y)
    return theirs, ours


def assert_same(theirs, ours, X):
    """The same model in every round before one that makes no mistake, whose weight is a convention."""
    assert len(theirs.estimators_) == len(ours.estimators_)
    imperfect = theirs.estimator_errors_ > 0.0
    rounds = len(imperfect) if imperfect.all() else int(np.argmin(imperfect))
    assert rounds > 0
    np.testing.assert_allclose(
        ours.estimator_weights_[:rounds], 0.5 * theirs.estimator_weights_[:rounds], rtol=1e-8
    )
    np.testing.assert_allclose(
        ours.estimator_errors_[:rounds], theirs.estimator_errors_[:rounds], rtol=1e-8
    )
    pairs = zip(ours.staged_predict(X), theirs.staged_predict(X), strict=True)
    for t, (ours_say, theirs_say) in zip(range(rounds), pairs, strict=False):
        np.testing.assert_array_equal(ours_say, theirs_say, err_msg=f"round {t + 1}")


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("seed", [0, 1])
def test_stumps_vote_alike_in_every_round(name, seed):
    X, y = DATA[name]()
    theirs, ours = fit_both(DecisionTreeClassifier(max_depth=1), X, y, seed)
    assert ours.n_iter_ == ROUNDS
    assert_same(theirs, ours, X)


@pytest.mark.parametrize("name", ["digits, odd or even", "hastie", "flipped labels", "moons"])
def test_trees_of_depth_two_vote_alike_in_every_round(name):
    X, y = DATA[name]()
    assert_same(*fit_both(DecisionTreeClassifier(max_depth=2), X, y, seed=0), X)


@pytest.mark.parametrize("seed", [0, 1])
def test_random_trees_get_the_same_seeds(seed):
    X, y = DATA["flipped labels"]()
    tree = DecisionTreeClassifier(max_depth=1, max_features=3)
    theirs, ours = fit_both(tree, X, y, seed)
    assert_same(theirs, ours, X)
    drawn = [e.random_state for e in ours.estimators_]
    assert drawn == [e.random_state for e in theirs.estimators_]
    assert len(set(drawn)) == ROUNDS


def test_a_weighted_fit_is_a_weighted_adaboost():
    X, y = DATA["moons"]()
    weight = np.random.RandomState(0).uniform(0.1, 3.0, len(y))
    stump = DecisionTreeClassifier(max_depth=1)
    theirs = AdaBoostClassifier(stump, n_estimators=ROUNDS, random_state=0).fit(X, y, weight)
    ours = MABoostClassifier(stump, n_estimators=ROUNDS, random_state=0).fit(X, y, weight)
    assert_same(theirs, ours, X)


def test_both_end_at_a_perfect_hypothesis():
    X, y = one_against_rest(load_iris, 0)
    theirs, ours = fit_both(DecisionTreeClassifier(max_depth=1), X, y, seed=0)
    assert len(theirs.estimators_) == len(ours.estimators_) == 1
    np.testing.assert_array_equal(ours.predict(X), y)
    assert ours.certificate_.stopped.startswith("the target is reached")


def test_rest_of_adaboosts_interface_agrees():
    X, y = DATA["hastie"]()  # without features that split the rows in the same way
    train, test = np.arange(800), np.arange(800, 1000)
    theirs, ours = fit_both(DecisionTreeClassifier(max_depth=1), X[train], y[train], seed=3)
    np.testing.assert_allclose(
        list(ours.staged_score(X[test], y[test])), list(theirs.staged_score(X[test], y[test]))
    )
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-12)
    # scikit-learn's vote is divided by the sum of its weights, which are twice ours
    total = theirs.estimator_weights_.sum()
    np.testing.assert_allclose(4.0 * ours.decision_function(X) / total, theirs.decision_function(X))
