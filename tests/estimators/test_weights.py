"""A weight of 2 is the row twice, a weight of 0 the row absent, and the unit does not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import examples, seeds

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.data import InertRowsWarning
from maboost.mirror import CappedSimplex, FermiDirac

ROUNDS = 8
BOOSTERS = {
    "entropy": MABoostClassifier(),
    "euclidean": MABoostClassifier(regularizer="euclidean"),
    "fermi-dirac, lazy, paper": MABoostClassifier(
        regularizer=FermiDirac(5.0), update="lazy", step="paper"
    ),
    "capped, maxmargin": MABoostClassifier(domain=CappedSimplex(3.0), step="maxmargin"),
    "smooth": SmoothBoostClassifier(smoothness=2.0),
    "smooth, euclidean, lazy": SmoothBoostClassifier(
        smoothness=2.0, regularizer="euclidean", update="lazy"
    ),
    "smooth, trimmed": SmoothBoostClassifier(smoothness=2.0, trim=0.2),
    "trimmed by the certified rule": MABoostClassifier(trim="auto"),
    "sparse": SparseBoostClassifier(),
    "sparse, penalised": SparseBoostClassifier(kappa=0.7, step="paper"),
    "mada": MadaBoostClassifier(),
    "combined": CombinedBoostClassifier(error_limits={"a": None, "b": 0.2}),
}
LEARNERS = {
    # leaves of some weight: two features often separate the same few rows, and ties fall by rounding
    "tree": DecisionTreeClassifier(max_depth=2, min_weight_fraction_leaf=0.1, random_state=0),
    "logistic": LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12),
}


def data(n_classes, n=100):
    return make_classification(
        n,
        6,
        n_informative=5,
        n_redundant=0,
        n_classes=n_classes,
        flip_y=0.2,
        random_state=n_classes,
    )


def fit(name, learner, X, y, weight=None, source=None, **params):
    model = clone(BOOSTERS[name])
    model.set_params(estimator=LEARNERS[learner], n_estimators=ROUNDS, random_state=0, **params)
    extra = {"sample_domain": source} if name == "combined" else {}
    return model.fit(X, y, sample_weight=weight, **extra)


def repetitions(n):
    """How often each row comes, the rows so repeated, their weights and their sources.

    Weights that are all different, because trees break ties between equal splits by rounding.
    """
    rng = np.random.RandomState(1)
    times = rng.randint(0, 4, n)
    return times, np.repeat(np.arange(n), times), rng.uniform(0.5, 1.5, n), sources(n)


def sources(n):
    return np.where(np.arange(n) % 3 == 0, "a", "b")


def assert_same_run(one, other, rtol=1e-10):
    assert one.n_iter_ == other.n_iter_ > 1
    np.testing.assert_allclose(one.estimator_weights_, other.estimator_weights_, rtol=rtol)
    for column in ("edge", "gain", "error_bound", "train_error", "min_margin", "ess"):
        np.testing.assert_allclose(
            one.history_[column], other.history_[column], rtol=1e-8, atol=1e-10, err_msg=column
        )


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_whole_factors_are_repetitions(name, n_classes, learner):
    X, y = data(n_classes)
    times, rows, unit, source = repetitions(len(y))
    weighted = fit(name, learner, X, y, times * unit, source)
    repeated = fit(name, learner, X[rows], y[rows], unit[rows], source[rows])
    assert_same_run(weighted, repeated)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    shares = np.bincount(rows, weights=repeated.distribution_, minlength=len(y))
    np.testing.assert_allclose(weighted.distribution_, shares, atol=1e-9)


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_weight_zero_are_absent(name, n_classes):
    X, y = data(n_classes)
    X = X.copy()
    kept = np.random.RandomState(2).uniform(size=len(y)) < 0.7
    X[~kept] = 1e6  # would dominate any split or scale
    weight, source = np.where(kept, 1.5, 0.0), sources(len(y))
    with_zeros = fit(name, "tree", X, y, weight, source)
    without = fit(name, "tree", X[kept], y[kept], weight[kept], source[kept])
    np.testing.assert_array_equal(with_zeros.estimator_weights_, without.estimator_weights_)
    np.testing.assert_array_equal(with_zeros.distribution_[kept], without.distribution_)
    assert not with_zeros.distribution_[~kept].any()
    assert with_zeros.n_inert_rows_ == with_zeros.certificate_.inert_rows == np.sum(~kept)


def test_a_class_of_weight_zero_does_not_exist():
    X, y = data(3)
    model = fit("entropy", "tree", X, y, (y != 1).astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 2])


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_unit_of_weights_changes_nothing(name, n_classes):
    X, y = data(n_classes)
    weight = np.random.RandomState(3).uniform(0.5, 2.0, len(y))
    source = sources(len(y))
    one = fit(name, "tree", X, y, weight, source)
    other = fit(name, "tree", X, y, 1024.0 * weight, source)
    np.testing.assert_array_equal(one.estimator_weights_, other.estimator_weights_)
    assert_same_run(one, fit(name, "tree", X, y, 1e-150 * weight, source))


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_over_six_hundred_orders_of_magnitude(name, n_classes):
    X, y = data(n_classes)
    source = sources(len(y))
    weight = 10.0 ** np.linspace(-300, 300, len(y))
    rng = np.random.RandomState(0)
    rng.shuffle(weight)
    inert = int(np.sum(weight < 1e200))
    with pytest.warns(InertRowsWarning, match=f"^{inert} rows have less than 1e-100"):
        model = fit(name, "tree", X, y, weight, source)
    assert model.n_inert_rows_ == inert
    assert np.all(np.isfinite(model.estimator_weights_))
    assert np.all(np.isfinite(model.decision_function(X)))
    assert model.distribution_.sum() == pytest.approx(1.0, abs=1e-10)
    assert model.certificate_.measured_error <= model.certificate_.error_bound


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize(
    ("learner", "given"),  # a logistic regression sees the unit of weights
    [("logistic", False), ("logistic", True), ("tree", True)],
    ids=["alone", "times sample_weight", "trees"],
)
def test_class_weight_multiplies_sample_weight(name, learner, given):
    X, y = data(3)
    source = sources(len(y))
    # all products and quotients are exact, so that equal densities are equal by either way
    weight = np.random.RandomState(4).randint(32, 128, len(y)) / 64.0 if given else None
    if given:
        weight[np.argmax(y == 1)] = 2.0
    by_hand = np.array([1.0, 4.0, 0.5])[y] * (1.0 if weight is None else weight)
    one = fit(name, learner, X, y, weight, source, class_weight={1: 4.0, 2: 0.5})
    assert_same_run(one, fit(name, learner, X, y, by_hand, source))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_balanced_classes_have_equal_shares(n_classes):
    X, y = data(n_classes)
    drop = (y == 1) & (np.arange(len(y)) % 3 > 0)
    X, y = X[~drop], y[~drop]
    balanced = fit("smooth", "logistic", X, y, class_weight="balanced")
    by_hand = len(y) / (n_classes * np.bincount(y)[y])
    assert_same_run(balanced, fit("smooth", "logistic", X, y, by_hand))
    assert balanced.history_["edge"][0] != fit("smooth", "logistic", X, y).history_["edge"][0]


@pytest.mark.parametrize("name", BOOSTERS)
def test_balanced_counts_weights_and_not_rows(name):
    X, y = data(2)
    times, rows, unit, source = repetitions(len(y))
    weighted = fit(name, "tree", X, y, times * unit, source, class_weight="balanced")
    repeated = fit(
        name, "tree", X[rows], y[rows], unit[rows], source[rows], class_weight="balanced"
    )
    assert_same_run(weighted, repeated)


def alike(seed, levels, n_classes, n=60):
    """Few values a column: many splits are equally good. And how often each row is there."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n, 8)).astype(float)
    y = (X[:, :3].sum(axis=1) + levels * (rng.random(n) < 0.2)).astype(int) % n_classes
    return X, y, rng.integers(1, 4, n)


@given(
    seed=seeds,
    levels=st.sampled_from([2, 3, 40]),
    response=st.sampled_from(["real", "sign"]),
    n_classes=st.sampled_from([2, 3]),
    unit=st.sampled_from([1.0, 0.1, 1e-30, 7e20]),
    shape=st.sampled_from([{}, {"max_depth": 7}, {"max_depth": None, "max_leaf_nodes": 20}]),
    max_features=st.sampled_from([None, 3]),
)
@examples(80)
def test_to_a_tree_whole_weights_are_copies(
    seed, levels, response, n_classes, unit, shape, max_features
):
    X, y, times = alike(seed, levels, n_classes)
    drawn = {"max_features": max_features, "random_state": seed}
    tree = HistTreeClassifier(response=response, **shape, **drawn)
    one = clone(tree).fit(X, y, sample_weight=unit * times).tree_
    two = clone(tree).fit(np.repeat(X, times, axis=0), np.repeat(y, times)).tree_
    for name in ("feature", "threshold"):  # values never seen missing follow true counts
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    rounding = 0.0 if n_classes == 2 else 1e-10  # of rewards, which are parts of a weight
    np.testing.assert_allclose(one.value, two.value, rtol=0.0, atol=rounding)


@pytest.mark.parametrize("name", ["entropy", "smooth", "sparse", "mada", "euclidean"])
@pytest.mark.parametrize("response", ["real", "sign"])
def test_equally_good_splits_are_not_decided_by_rounding(name, response):
    for seed in range(6):
        X, y, times = alike(seed, 2, 2)
        often = np.repeat(np.arange(len(y)), times)
        tree = HistTreeClassifier(max_depth=3, response=response)
        model = clone(BOOSTERS[name]).set_params(estimator=tree, n_estimators=12)
        one, two = (
            clone(model).fit(X, y, sample_weight=times),
            clone(model).fit(X[often], y[often]),
        )
        assert len(one.estimators_) == len(two.estimators_)
        for a, b in zip(one.estimators_, two.estimators_, strict=True):
            np.testing.assert_array_equal(a.tree_.feature, b.tree_.feature)


def test_a_weight_of_two_is_the_row_twice_without_any_other_weight():
    X, y = data(2)
    weight = 1.0 + (np.arange(len(y)) % 2)
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    for learner in LEARNERS:
        assert_same_run(
            fit("entropy", learner, X, y, weight), fit("entropy", learner, X[twice], y[twice])
        )


def test_rows_that_underflow_are_counted_without_those_of_class_weight_zero():
    X, y = data(3)
    weight = np.where(np.arange(len(y)) < 10, 1e-200, 1.0)
    lost = int(np.sum((weight < 1.0) & (y != 1)))
    with pytest.warns(InertRowsWarning, match=f"^{lost} rows have less than"):
        model = fit("entropy", "tree", X, y, weight, class_weight={0: 2.0, 1: 0.0})
    assert model.n_inert_rows_ == lost + np.sum(y == 1)


def test_huge_weights_of_rows_and_classes_together():
    X, y = data(2)
    huge = fit("entropy", "tree", X, y, np.full(len(y), 1e200), class_weight={0: 3e200, 1: 1e200})
    assert_same_run(huge, fit("entropy", "tree", X, y, class_weight={0: 3.0}))


def test_class_weight_zero_leaves_a_class_out():
    X, y = data(3)
    model = fit("entropy", "tree", X, y, class_weight={1: 0.0})
    np.testing.assert_array_equal(model.classes_, [0, 2])


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({7: 2.0}, r"class_weight names \[7\], which are not in y"),
        ({0: -1.0}, r"class_weight must be finite and at least 0, got \{0: -1.0\}"),
        ({0: np.inf}, r"class_weight must be finite and at least 0, got \{0: inf\}"),
        ({0: "2"}, r"class_weight must be finite and at least 0, got \{0: '2'\}"),
        ({0: 0.0, 1: 0.0}, r"class_weight=.* leaves no row with positive weight"),
        ("fair", "'class_weight' parameter .* Got 'fair' instead"),
    ],
)
def test_class_weights_that_make_no_sense(class_weight, message):
    X, y = data(2)
    with pytest.raises(ValueError, match=message):
        fit("entropy", "tree", X, y, class_weight=class_weight)


def test_class_weights_may_name_a_class_that_a_fold_lacks():
    X, y = data(2)
    named = fit("entropy", "tree", X, y, class_weight={0: 2.0, 1: 2.0, 7: 3.0})
    plain = fit("entropy", "tree", X, y)
    np.testing.assert_array_equal(named.decision_function(X), plain.decision_function(X))


# ------------------------------------------------------------------------------- defaults that count


def test_early_stopping_counts_a_row_as_often_as_it_would_be_repeated():
    rng = np.random.default_rng(0)
    X, times = rng.normal(size=(4000, 3)), 1 + np.arange(4000) % 4
    y = (X[:, 0] > 0).astype(int)
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=2, random_state=0)

    def stops(weight):
        return clone(model).fit(X, y, sample_weight=weight).early_stopping_

    assert stops(times)  # 10,000 rows
    assert not stops(np.where(times == 4, 3, times))  # 9,000 rows
    assert not stops(np.full(4000, 4.0))  # a common factor changes nothing
    assert not stops(times + 0.5 * rng.random(4000))  # other weights count once
    assert clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times)).early_stopping_


@pytest.mark.parametrize(
    "booster",
    [SmoothBoostClassifier, SparseBoostClassifier, MadaBoostClassifier, CombinedBoostClassifier],
)
def test_defaults_take_whole_weights_as_repetition(booster):
    """With leaves of twenty rows, many categories and a trial, as the defaults have them."""
    rng = np.random.default_rng(1)
    n = 600
    X = np.column_stack([rng.normal(size=(n, 3)).round(1), rng.integers(0, 30, size=n)])
    y, times = (
        (X[:, 0] + (X[:, 3] % 3 == 0) + rng.normal(size=n) > 0.5).astype(int),
        1 + np.arange(n) % 3,
    )
    model = booster(n_estimators=15, categorical_features=[3], random_state=0)
    heavy = clone(model).fit(X, y, sample_weight=times)
    often = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(heavy.decision_function(X), often.decision_function(X), atol=1e-9)


def test_twenty_rows_in_a_leaf_and_fewer_of_fewer_rows():
    rng = np.random.default_rng(2)
    for n, least in ((500, 10), (5000, 20)):
        X = rng.normal(size=(n, 2))
        y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)
        model = SmoothBoostClassifier(smoothness=4.0, n_estimators=5, random_state=0).fit(X, y)
        answers = [tree.predict_proba(X)[:, 0] for tree in model.estimators_]
        smallest = [np.unique(answer, return_counts=True)[1].min() for answer in answers]
        assert least <= min(smallest) < 3 * least + 3
