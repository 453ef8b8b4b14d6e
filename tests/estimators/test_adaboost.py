"""With entropy, the simplex and votes, MABoost is AdaBoost: same trees, same votes, half the weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_hastie_10_2,
    make_moons,
)
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from maboost import (
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.learners import ResamplingWarning

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
    assert ours.certificate_.stopped.startswith("one hypothesis is right")


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


# ------------------------------------------------ what scikit-learn's own tests ask of AdaBoostClassifier


class PixelStump(ClassifierMixin, BaseEstimator):
    """A stump that needs rows of shape (4, 5), as a learner of images would."""

    def fit(self, X, y, sample_weight=None):
        assert X.shape[1:] == (4, 5)
        self.stump_ = DecisionTreeClassifier(max_depth=1, random_state=0)
        self.stump_.fit(X.reshape(len(X), 20), y, sample_weight)
        self.classes_ = self.stump_.classes_
        return self

    def predict(self, X):
        return self.stump_.predict(X.reshape(len(X), 20))

    def predict_proba(self, X):
        return self.stump_.predict_proba(X.reshape(len(X), 20))


def images(n=300):
    X, y = make_classification(n, 20, n_informative=6, flip_y=0.1, random_state=0)
    return X.reshape(n, 4, 5), y


def test_images_reach_the_estimator():
    X, y = images()
    weight = np.arange(len(y)) % 3.0
    theirs = AdaBoostClassifier(PixelStump(), n_estimators=10).fit(X, y, weight + 1.0)
    ours = MABoostClassifier(PixelStump(), n_estimators=10).fit(X, y, weight + 1.0)
    assert_same(theirs, ours, X)
    assert ours.n_features_in_ == theirs.n_features_in_
    np.testing.assert_array_equal(ours.predict_proba(X).argmax(axis=1), ours.predict(X))
    # a weight of 0 leaves the row out
    some = weight > 0.0
    one, other = clone(ours).fit(X, y, weight), clone(ours).fit(X[some], y[some], weight[some])
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize(
    "booster",
    [MABoostClassifier, MadaBoostClassifier, SmoothBoostClassifier, SparseBoostClassifier],
)
@pytest.mark.parametrize("response", ["votes", "proba"])
def test_images_are_boosted_as_their_flat_rows_are(booster, response, monkeypatch):
    """With early stopping, whose held-out rows are found by their content, and with trials on a sample."""
    monkeypatch.setattr("maboost.runtime.row_hash.SAMPLE_ROWS", 100)
    X, y = images()
    flat = X.reshape(len(X), 20)
    options = {"n_estimators": 8, "response": response, "early_stopping": True, "random_state": 0}
    ours = booster(PixelStump(), **options).fit(X, y)
    oracle = booster(DecisionTreeClassifier(max_depth=1), **options).fit(flat, y)
    np.testing.assert_allclose(ours.estimator_weights_, oracle.estimator_weights_, rtol=1e-12)
    np.testing.assert_array_equal(ours.history_["val_error"], oracle.history_["val_error"])
    np.testing.assert_array_equal(ours.predict(X), oracle.predict(flat))
    watched = booster(PixelStump(), n_estimators=2, response=response)
    watched.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert watched.history_["val_error"][0] < 0.5


def test_images_need_an_estimator_of_another_kind():
    X, y = images()
    with pytest.raises(ValueError, match="dim 3"):
        MABoostClassifier().fit(X, y)
    constant = MABoostClassifier(DummyClassifier(strategy="most_frequent"))
    with pytest.warns(UserWarning, match="no hypothesis was found"):
        constant.fit(X, np.arange(len(y)) % 2)  # no better than chance
    assert len(set(constant.predict(X))) == 1


def test_grid_search_reaches_into_the_estimator():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        MABoostClassifier(DecisionTreeClassifier(random_state=0)),
        {"n_estimators": (1, 2), "estimator__max_depth": (1, 2)},
    )
    assert search.fit(X, y).best_params_["estimator__max_depth"] == 2


@pytest.mark.parametrize("estimator", [RandomForestClassifier(5), SVC()])
def test_other_estimators_learn_a_toy_problem_with_text_labels(estimator):
    X = [[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]]
    y = ["foo", "foo", "foo", "bar", "bar", "bar"]
    model = MABoostClassifier(estimator, n_estimators=5, random_state=0).fit(X, y)
    assert model.predict([[-1, -1], [2, 2], [3, 2]]).tolist() == ["foo", "bar", "bar"]
    assert model.classes_.tolist() == ["bar", "foo"]


@pytest.mark.parametrize("form", ["csc", "csr", "lil", "coo", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_rows_reach_the_estimator_sparse(form, kind):
    class Recording(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            self.type_ = type(X)
            return super().fit(X, y, sample_weight=sample_weight)

    X, y = make_classification(80, 5, n_redundant=0, flip_y=0.2, random_state=0)
    container = getattr(sp, f"{form}_{kind}")
    sparse = MABoostClassifier(Recording(), n_estimators=5).fit(container(X), y)
    dense = MABoostClassifier(Recording(), n_estimators=5).fit(X, y)
    for method in ("predict", "decision_function", "predict_proba"):
        np.testing.assert_allclose(
            getattr(sparse, method)(container(X)), getattr(dense, method)(X), rtol=1e-6, atol=1e-9
        )
    kept = getattr(sp, f"{'csc' if form == 'csc' else 'csr'}_{kind}")
    assert {e.type_ for e in sparse.estimators_} == {kept}


def test_tiny_weights_leave_finite_importances():
    rng = np.random.RandomState(42)
    X, y = rng.normal(size=(1000, 10)), rng.choice([0, 1], size=1000)
    tree = DecisionTreeClassifier(max_depth=10, random_state=12)
    model = MABoostClassifier(tree, n_estimators=20, random_state=12)
    model.fit(X, y, sample_weight=np.full(len(y), 1e-263))
    assert np.all(np.isfinite(model.feature_importances_))


def test_an_estimator_without_weights_is_told_of_instead_of_refused():
    """AdaBoostClassifier raises; here each round draws rows by their weights."""

    class Unweighted(DecisionTreeClassifier):
        def fit(self, X, y):
            return super().fit(X, y)

    X, y = DATA["moons"]()
    with pytest.raises(ValueError, match="sample_weight"):
        AdaBoostClassifier(Unweighted(max_depth=1)).fit(X, y)
    model = MABoostClassifier(Unweighted(max_depth=1), n_estimators=10, random_state=0)
    with pytest.warns(ResamplingWarning, match="fit of Unweighted takes no sample_weight") as heard:
        model.fit(X, y)
    assert len(heard) == 1  # once a fit, and of the line that calls it
    assert heard[0].filename == __file__
    assert model.score(X, y) > 0.8
