"""The boosters with their own trees."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.model_selection import GridSearchCV

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

BOOSTERS = [
    MABoostClassifier(),
    MABoostClassifier(regularizer="euclidean", update="lazy"),
    SmoothBoostClassifier(),
    SmoothBoostClassifier(update="lazy", trim="auto"),
    SparseBoostClassifier(),
    MadaBoostClassifier(),
    CombinedBoostClassifier(),
]


def boosters():
    return pytest.mark.parametrize("model", BOOSTERS, ids=lambda m: repr(m).replace("\n", ""))


@boosters()
def test_threads_change_no_bit(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(280_000, 3))  # enough that two threads share the rows
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)) > 0).astype(int)
    one, two = (
        clone(model).set_params(n_estimators=4, n_jobs=j, random_state=0).fit(X, y) for j in (1, 2)
    )
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.distribution_, two.distribution_)
    np.testing.assert_array_equal(one.history_["gain"], two.history_["gain"])
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@boosters()
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_repetition_through_bins_and_trees(model, classes):
    X, y = make_classification(
        200, 6, n_informative=4, n_classes=classes, flip_y=0.1, random_state=classes
    )
    w = np.random.default_rng(0).integers(0, 4, size=200)
    model = clone(model).set_params(n_estimators=8)
    heavy = clone(model).fit(X, y, sample_weight=w)
    often = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(heavy.estimator_weights_, often.estimator_weights_, rtol=1e-9)
    np.testing.assert_allclose(heavy.decision_function(X), often.decision_function(X), atol=1e-9)


@boosters()
def test_order_of_rows_changes_nothing(model):
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    model = clone(model).set_params(n_estimators=8)
    one, two = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@boosters()
def test_staged_and_whole_votes_agree(model):
    X, y = load_digits(n_class=4, return_X_y=True)
    for labels in (y, y % 2):
        model = clone(model).set_params(n_estimators=6, random_state=0).fit(X, labels)
        *_, last = model.staged_decision_function(X)
        np.testing.assert_allclose(model.decision_function(X), last, rtol=1e-12)
        assert model.certificate_.measured_error <= model.certificate_.error_bound + 1e-12
        trees = model.estimators_
        assert all(isinstance(t, HistTreeClassifier) for t in trees)
        assert len(trees[0].predict(X)) == len(X)
        assert model.feature_importances_.sum() == pytest.approx(1.0)
        copied = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copied.decision_function(X), model.decision_function(X))


def test_a_voting_stump_makes_the_gap_rigorous():
    X, y = load_breast_cancer(return_X_y=True)
    stump = HistTreeClassifier(max_depth=1, response="sign")
    model = MABoostClassifier(stump, step="maxmargin", n_estimators=150).fit(X, y)
    certificate = model.certificate_
    assert certificate.exact
    assert certificate.soft_margin <= certificate.best_margin_bound
    assert "<=" in str(certificate).split("best possible")[1][:10]
    real = MABoostClassifier(HistTreeClassifier(max_depth=1), n_estimators=5).fit(X, y)
    assert not real.certificate_.exact


def test_sparse_rounds_show_fewer_rows_and_change_nothing_else():
    X, y = load_digits(return_X_y=True)
    model = SparseBoostClassifier(n_estimators=15, learning_rate=1.0).fit(X, y % 2)
    assert model.history_["rows_used"][-1] < len(y)
    np.testing.assert_array_equal(
        model.history_["rows_used"], (model.history_["nonzero"] * len(y)).round()
    )


def test_missing_values_categories_and_unseen_ones():
    rng = np.random.default_rng(0)
    n = 400
    color = rng.choice(["red", "green", "blue", "grey"], size=n)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "color": pd.Categorical(color),
            "count": rng.integers(0, 5, size=n),
        }
    )
    frame.loc[rng.random(n) < 0.2, "size"] = np.nan
    y = np.where(np.isin(color, ["red", "grey"]) ^ frame["size"].isna(), "yes", "no")
    tree = HistTreeClassifier(max_depth=3).fit(frame, y)
    assert tree.score(frame, y) == 1.0
    model = SmoothBoostClassifier(n_estimators=10).fit(frame, y)
    assert model.score(frame, y) == 1.0
    later = frame.head(4).copy()
    later["color"] = pd.Categorical(["red", "violet", None, "blue"])
    found = model.predict_proba(later)
    np.testing.assert_array_equal(
        found[1:2], model.predict_proba(later.assign(color=pd.Categorical([None] * 4)))[1:2]
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"size": "length"}))
    codes = frame.assign(color=frame["color"].cat.codes.astype(float))
    named = HistTreeClassifier(max_depth=3, categorical_features=["color"]).fit(codes, y)
    assert named.score(codes, y) == 1.0
    with pytest.raises(ValueError, match="column 'colour', which is not in X"):
        HistTreeClassifier(categorical_features=["colour"]).fit(codes, y)


def test_sparse_input_gives_the_same_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.3)
    y = (X[:, 0] - X[:, 1] > 0.1).astype(int)
    dense = SmoothBoostClassifier(n_estimators=10).fit(X, y)
    for made in (sp.csr_matrix(X), sp.csc_matrix(X)):
        other = SmoothBoostClassifier(n_estimators=10).fit(made, y)
        np.testing.assert_array_equal(other.estimator_weights_, dense.estimator_weights_)
        np.testing.assert_array_equal(other.decision_function(made), dense.decision_function(X))


def test_parameters_reach_the_default_tree():
    X, y = load_breast_cancer(return_X_y=True)
    model = SmoothBoostClassifier(n_estimators=5).set_params(estimator__max_depth=1)
    assert all(t.get_depth() <= 1 for t in model.fit(X, y).estimators_)
    search = GridSearchCV(
        SmoothBoostClassifier(HistTreeClassifier(), n_estimators=5),
        {"estimator__max_depth": [1, 2], "smoothness": [2.0, 8.0]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.9
    both = GridSearchCV(
        SmoothBoostClassifier(n_estimators=2),
        {"estimator": [None, HistTreeClassifier(max_depth=2)], "estimator__max_bins": [8, 16]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert {e.max_depth for e in both.cv_results_["param_estimator"] if e is not None} == {2}
    given = MABoostClassifier(HistTreeClassifier(max_depth=9))
    given.set_params(estimator=None, estimator__max_bins=8)
    assert (given.estimator.max_depth, given.estimator.max_bins) == (3, 8)


def test_bad_tree_parameters_are_named():
    X, y = load_breast_cancer(return_X_y=True)
    for tree, message in (
        (HistTreeClassifier(max_depth=0), "max_depth"),
        (HistTreeClassifier(max_bins=300), "max_bins"),
        (HistTreeClassifier(monotonic_cst=[1, 2]), "monotonic_cst must be 30 numbers"),
        (HistTreeClassifier(response="sign", monotonic_cst=[0] * 30), "response='real' only"),
    ):
        with pytest.raises(ValueError, match=message):
            tree.fit(X, y)
        with pytest.raises(ValueError, match=message):
            MABoostClassifier(tree).fit(X, y)


@pytest.mark.parametrize(
    "made", [lambda tree: tree, lambda tree: MABoostClassifier(tree, n_estimators=4)]
)
def test_directions_by_name_are_directions_by_position(made):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :4]
    named = {"mean texture": -1, "mean area": 1}
    one = made(HistTreeClassifier(monotonic_cst=named)).fit(X, y)
    other = made(HistTreeClassifier(monotonic_cst=[0, -1, 0, 1])).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    free = made(HistTreeClassifier()).fit(X, y)
    assert np.any(one.predict_proba(X) != free.predict_proba(X))
    for rows, told in (
        (X.drop(columns="mean area"), "X has \\["),
        (X.to_numpy(), "X has no names"),
    ):
        with pytest.raises(ValueError, match=f"names column 'mean .*', which is not in X; {told}"):
            made(HistTreeClassifier(monotonic_cst=named)).fit(rows, y)
    with pytest.raises(ValueError, match="out of -1, 0 and 1, or a dict"):
        made(HistTreeClassifier(monotonic_cst={"mean area": 2})).fit(X, y)


def test_categories_have_no_direction():
    frame = pd.DataFrame({"x": range(40), "k": pd.Categorical(["a", "b", "c", "d"] * 10)})
    y = frame["k"].isin(["b", "d"])
    for signs in ([0, 1], [0, -1]):
        tree = HistTreeClassifier(monotonic_cst=signs)
        for model in (tree, MABoostClassifier(tree, n_estimators=3)):
            with pytest.raises(ValueError, match="for column 1, which is categorical"):
                model.fit(frame, y)
    free = HistTreeClassifier(monotonic_cst=[1, 0]).fit(frame, y)
    assert free.score(frame, y) == 1.0
    frame = frame[["k"]].sort_values("k")
    ordered = HistTreeClassifier(monotonic_cst=[1], categorical_features=None)
    answers = ordered.fit(frame, y[frame.index]).predict_proba(frame)[:, 1]
    assert np.all(np.diff(answers) >= 0.0)


def test_logarithms_of_a_tree_s_probabilities():
    X, y = make_classification(random_state=0)
    tree = HistTreeClassifier().fit(X, y)
    np.testing.assert_array_equal(np.exp(tree.predict_log_proba(X)), tree.predict_proba(X))


def test_what_predicts_follows_the_rounds_of_the_model():
    X, y = make_classification(200, 6, random_state=0)
    model = MABoostClassifier(n_estimators=4, warm_start=True, random_state=0).fit(X, y)
    before = pickle.dumps(model)
    first = model.decision_function(X)
    assert pickle.dumps(model) == before  # to predict leaves nothing in a model
    for part in (model[:2], model):
        rounds = zip(part.estimator_weights_, part.ensemble_.hypotheses, strict=True)
        apart = sum(step * h.scores(X) for step, h in rounds)
        np.testing.assert_allclose(part.decision_function(X), apart, atol=1e-12)
    model.set_params(n_estimators=6).fit(X, y)
    np.testing.assert_array_equal(model[:4].decision_function(X), first)
    assert not np.array_equal(model.decision_function(X), first)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("last", [np.inf, -np.inf])
@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (MABoostClassifier(), 2),
        (MABoostClassifier(), 3),
        (SmoothBoostClassifier(smoothness=3.0), 2),
        (SparseBoostClassifier(), 2),
        (MadaBoostClassifier(), 2),
    ],
)
def test_steps_do_not_depend_on_the_machines_exponentials(model, classes, last, monkeypatch):
    """numpy's differ in their last bits from one processor to another."""
    X, y = make_classification(
        300, 6, n_informative=4, n_classes=classes, flip_y=0.2, random_state=0
    )
    model = clone(model).set_params(n_estimators=8, random_state=0)
    here = clone(model).fit(X, y)
    exp = np.exp
    monkeypatch.setattr(np, "exp", lambda *args, **kw: np.nextafter(exp(*args, **kw), last))
    there = clone(model).fit(X, y)
    for name in ("step", "edge", "gain"):
        np.testing.assert_array_equal(there.history_[name], here.history_[name])
