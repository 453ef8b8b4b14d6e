"""What a fitted model says about itself, and that its methods agree with each other."""

import copy
import pickle
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier

from maboost import (
    CombinedBoostClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.boosting.rounding import at_most
from maboost.mirror import CappedSimplex, FermiDirac

STUMP = DecisionTreeClassifier(max_depth=1)
TREE = DecisionTreeClassifier(max_depth=2)
BINARY = load_breast_cancer(return_X_y=True)
WINE = load_wine(return_X_y=True)
ROUNDS = 15

BOOSTERS = {
    "entropy": MABoostClassifier(STUMP),
    "entropy, proba": MABoostClassifier(TREE, response="proba"),
    "euclidean": MABoostClassifier(STUMP, regularizer="euclidean"),
    "fermi-dirac": MABoostClassifier(STUMP, regularizer=FermiDirac(3.0)),
    "lazy, capped": MABoostClassifier(STUMP, domain=CappedSimplex(5.0), update="lazy"),
    "paper": MABoostClassifier(STUMP, step="paper"),
    "maxmargin": MABoostClassifier(STUMP, step="maxmargin"),
    "smooth": SmoothBoostClassifier(STUMP, smoothness=3.0, learning_rate=1.0),
    "sparse": SparseBoostClassifier(STUMP, learning_rate=1.0),
    "sparse, penalised": SparseBoostClassifier(STUMP, kappa=0.8, learning_rate=1.0),
    "mada": MadaBoostClassifier(STUMP, learning_rate=1.0),
    "combined": CombinedBoostClassifier(STUMP, learning_rate=1.0),
}
DATA = {"binary": BINARY, "wine": WINE}


@pytest.fixture(scope="module")
def fitted():
    """Each booster on each data set, fitted once."""
    models = {}

    def get(name, data):
        if (name, data) not in models:
            model = clone(BOOSTERS[name]).set_params(n_estimators=ROUNDS, random_state=0)
            models[name, data] = model.fit(*DATA[data])
        return models[name, data]

    return get


each = pytest.mark.parametrize("name", BOOSTERS)
on_both = pytest.mark.parametrize("data", DATA)


# --------------------------------------------------------------------------------------- history


def test_history_has_a_row_a_round_and_the_documented_columns(fitted):
    history = fitted("entropy", "binary").history_
    assert history.columns == (
        "round", "edge", "step", "gain", "error_bound", "train_error", "val_error", "min_margin",
        "soft_margin", "margin_bound", "smoothness", "ess", "nonzero", "rows_used", "seconds",
        "val_score", "bytes_read", "penalty",
    )  # fmt: skip
    assert list(history["round"]) == list(range(1, ROUNDS + 1))
    assert list(history.to_frame().columns) == list(history.columns)
    assert np.isnan(history["val_error"]).all()  # no validation rows were given
    assert np.all(history["seconds"] > 0.0)


@each
@on_both
def test_bounds_hold_and_fall_in_every_round(fitted, name, data):
    model = fitted(name, data)
    history = model.history_
    assert np.all(history["gain"] >= 0.0)
    bounds = history["error_bound"]
    if name.startswith("sparse"):  # or less, while little mass is left, which may grow again
        sums = np.cumsum(history["gain"]), np.cumsum(history["penalty"])
        bounds = np.array([model.certificate_.bound(*both) for both in zip(*sums, strict=True)])
        assert np.all(history["error_bound"] <= bounds + 1e-10)
    assert np.all(np.diff(bounds) <= 1e-12)
    assert np.all(history["train_error"] <= history["error_bound"])
    assert np.all(history["margin_bound"] <= history["soft_margin"])
    assert np.all(history["min_margin"] <= history["soft_margin"] + 1e-12)
    assert np.all((history["edge"] > 0.0) & (history["edge"] <= 1.0 + 1e-12))


@pytest.mark.parametrize("name", ["entropy", "euclidean", "paper", "lazy, capped", "smooth"])
@on_both
def test_a_round_gains_half_its_squared_edge(fitted, name, data):
    history = fitted(name, data).history_
    assert np.all(history["gain"] >= 0.5 * history["edge"] ** 2 - 1e-12)


def test_edge_step_and_gain_of_adaboost(fitted):
    history = fitted("entropy", "binary").history_
    edge = history["edge"]
    np.testing.assert_allclose(history["step"], np.arctanh(edge))
    np.testing.assert_allclose(history["gain"], -0.5 * np.log1p(-(edge**2)))
    np.testing.assert_allclose(history["error_bound"], np.exp(-np.cumsum(history["gain"])))


@each
@on_both
def test_the_first_distribution_is_the_base_measure(fitted, name, data):
    first = fitted(name, data).history_.records[0]
    assert first.smoothness == pytest.approx(1.0)
    assert first.ess == pytest.approx(1.0)
    assert first.nonzero == pytest.approx(1.0)
    assert first.rows_used == len(DATA[data][1])


@each
@on_both
def test_ess_and_smoothness_belong_together(fitted, name, data):
    """1/ess is the mean of u under w, which lies between 1 and the largest u."""
    history = fitted(name, data).history_
    assert np.all(history["ess"] <= 1.0 + 1e-12)
    assert np.all(1.0 / history["ess"] <= history["smoothness"] * (1.0 + 1e-12))


@pytest.mark.parametrize(
    ("name", "k"), [("smooth", 3.0), ("lazy, capped", 5.0), ("fermi-dirac", 3.0)]
)
def test_no_row_exceeds_its_cap(fitted, name, k):
    model = fitted(name, "binary")
    assert 1.0 < model.history_["smoothness"].max() <= k * (1.0 + 1e-9)
    assert model.distribution_.max() <= k / len(BINARY[1]) * (1.0 + 1e-9)
    assert model.certificate_.floor == pytest.approx(1.0 / k)


@pytest.mark.parametrize("name", ["smooth", "lazy, capped"])
def test_caps_hold_for_the_total_of_a_row_with_more_classes(fitted, name):
    model = fitted(name, "wine")
    k = 3.0 if name == "smooth" else 5.0
    assert 1.0 < model.history_["smoothness"].max() <= k * (1.0 + 1e-9)
    assert model.distribution_.max() <= k / len(WINE[1]) * (1.0 + 1e-9)


@pytest.mark.parametrize("name", ["euclidean", "sparse", "sparse, penalised"])
@on_both
def test_zeros_spread_and_are_not_shown(fitted, name, data):
    history = fitted(name, data).history_
    assert history["nonzero"][-1] < 0.9
    np.testing.assert_allclose(history["rows_used"], history["nonzero"] * len(DATA[data][1]))


def test_entropy_keeps_every_row(fitted):
    assert np.all(fitted("entropy", "binary").history_["nonzero"] == pytest.approx(1.0))


# ----------------------------------------------------------------------------------- certificate


@each
@on_both
def test_the_certificate_is_the_last_line_of_the_history(fitted, name, data):
    model = fitted(name, data)
    certificate, last = model.certificate_, model.history_.records[-1]
    assert certificate.rounds == model.n_iter_ == len(model.estimators_) == last.round
    assert certificate.gain == pytest.approx(model.history_["gain"].sum())
    assert certificate.error_bound == last.error_bound
    assert certificate.measured_error == last.train_error
    assert (certificate.soft_margin, certificate.min_margin) == (last.soft_margin, last.min_margin)
    assert certificate.margin_bound == last.margin_bound
    assert certificate.best_margin_bound == model.history_["edge"].min()
    assert certificate.gap == certificate.best_margin_bound - certificate.soft_margin
    assert not certificate.exact  # a foreign tree promises no best edge
    assert certificate.n_classes == len(model.classes_)


def test_the_certificate_reads_well(fitted):
    certificate = fitted("smooth", "binary").certificate_
    text = str(certificate)
    assert text.startswith("15 rounds, Entropy on CappedSimplex, active update; stopped: n_estimat")
    assert f"certified <= {at_most(certificate.error_bound)}" in text
    assert f"measured {certificate.measured_error:.4g}" in text
    assert "nothing is promised below 0.3334" in text
    assert "the learner is not exact" in text
    assert "assumes: nothing beyond the training rows" in text
    assert "nothing is promised below" not in str(fitted("entropy", "binary").certificate_)


@pytest.mark.parametrize("name", ["entropy", "euclidean", "sparse", "mada"])
def test_rounds_needed_is_the_first_that_suffices(fitted, name):
    certificate = fitted(name, "binary").certificate_
    assert certificate.rounds_needed(certificate.error_bound) == 0
    target = 0.9 * certificate.error_bound
    rounds = certificate.rounds_needed(target)
    assert rounds > 0

    def bound(more):
        return certificate.bound(certificate.gain + more * certificate.last_gain)

    assert bound(rounds) <= target < bound(rounds - 1)


def test_nothing_is_promised_below_the_floor(fitted):
    certificate = fitted("smooth", "binary").certificate_
    assert certificate.rounds_needed(0.99 * certificate.floor) is None
    assert certificate.rounds_needed(1.0) == 0


# ---------------------------------------------------------------------- distribution and margins


@each
@on_both
def test_the_distribution_is_one(fitted, name, data):
    model = fitted(name, data)
    assert model.distribution_.shape == DATA[data][1].shape
    assert np.all(model.distribution_ >= 0.0)
    assert model.distribution_.sum() == pytest.approx(1.0, abs=1e-10)


@each
@on_both
def test_margins_are_those_of_the_history(fitted, name, data):
    model, (X, y) = fitted(name, data), DATA[data]
    margins = model.margins(X, y)
    last = model.history_.records[-1]
    assert margins.min() == pytest.approx(last.min_margin, abs=1e-12)
    assert np.mean(margins <= 0.0) == pytest.approx(last.train_error)
    assert np.all(np.abs(margins) <= 1.0 + 1e-12)
    np.testing.assert_array_equal(margins > 0.0, (model.predict(X) == y) & (margins != 0.0))


def test_the_soft_margin_is_the_mean_of_the_worst_rows(fitted):
    model, (X, y) = fitted("smooth", "binary"), BINARY
    worst = np.sort(model.margins(X, y))
    share = len(y) / 3.0  # of each, at k = 3: whole rows, then a part of the next
    whole = int(share)
    soft = (worst[:whole].sum() + (share - whole) * worst[whole]) / share
    assert model.certificate_.soft_margin == pytest.approx(soft)


def test_the_soft_margin_on_the_simplex_is_the_smallest(fitted):
    certificate = fitted("entropy", "binary").certificate_
    assert certificate.soft_margin == certificate.min_margin


# ----------------------------------------------------------------------------------- predictions


@each
@on_both
def test_predictions_agree(fitted, name, data):
    model, (X, _) = fitted(name, data), DATA[data]
    votes, proba, said = model.decision_function(X), model.predict_proba(X), model.predict(X)
    by_vote = (votes > 0.0).astype(int) if data == "binary" else votes.argmax(axis=1)
    np.testing.assert_array_equal(said, model.classes_[by_vote])
    np.testing.assert_array_equal(said, model.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), proba, rtol=1e-12)
    # both columns in full precision: the log odds are aH however sure the vote is
    scale, differences = model.probability_scale_, votes[:, None]
    if data != "binary":
        differences = votes[:, 1:] - votes[:, :1]
    np.testing.assert_allclose(
        logs[:, 1:] - logs[:, :1], scale * differences, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        np.log(proba[:, 1:] / proba[:, :1]), scale * differences, rtol=1e-9, atol=1e-12
    )


@each
@on_both
def test_stages_end_at_the_model(fitted, name, data):
    model, (X, y) = fitted(name, data), DATA[data]
    votes = list(model.staged_decision_function(X))
    said, proba = list(model.staged_predict(X)), list(model.staged_predict_proba(X))
    score = list(model.staged_score(X, y))
    assert len(votes) == len(said) == len(proba) == len(score) == model.n_iter_
    np.testing.assert_allclose(votes[-1], model.decision_function(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(said[-1], model.predict(X))
    np.testing.assert_allclose(proba[-1], model.predict_proba(X), rtol=1e-12)
    assert score[-1] == model.score(X, y)
    assert not np.array_equal(votes[0], votes[-1])  # copies, not views of one array
    errors = 1.0 - np.array(score)
    # a tie counts as an error in the history, and falls to the first class here
    assert np.all(errors <= model.history_["train_error"] + 1e-12)


def test_the_vote_is_the_weighted_sum_of_the_estimators(fitted):
    model, (X, _) = fitted("entropy", "binary"), BINARY
    votes = sum(
        step * (2.0 * tree.predict(X) - 1.0)
        for step, tree in zip(model.estimator_weights_, model.estimators_, strict=True)
    )
    np.testing.assert_allclose(model.decision_function(X), votes, rtol=1e-12, atol=1e-14)


def test_proba_agrees_with_predict_where_votes_cancel():
    """0.1 + 0.2 - 0.3 is positive in floating point, and its sigmoid is one half."""
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    model = MABoostClassifier(STUMP, n_estimators=3, step="paper").fit(X, y)
    model.estimator_weights_ = np.array([0.1, 0.2, -0.3])
    assert 0.0 < model.decision_function(X)[1] < 1e-16
    assert model.predict(X)[1] == model.predict_proba(X)[1].argmax() == 1
    three = MABoostClassifier(STUMP, n_estimators=3, step="paper").fit(
        np.arange(3.0)[:, None], [0, 1, 2]
    )
    three.estimator_weights_ = np.array([0.1, 0.2, -0.3])
    said = three.predict(np.arange(3.0)[:, None])
    proba = three.predict_proba(np.arange(3.0)[:, None])
    np.testing.assert_array_equal(said, proba.argmax(axis=1))


# -------------------------------------------------------------------------------------- stopping


def test_target_error_that_is_measured_first():
    model = MABoostClassifier(TREE, target_error=0.01, n_estimators=100).fit(*BINARY)
    errors = model.history_["train_error"]
    assert errors[-1] <= 0.01 < errors[:-1].min()
    assert model.history_["error_bound"][-1] > 0.01
    assert model.certificate_.stopped == "target_error=0.01 is measured on the training rows"


def test_target_error_that_is_certified_first():
    """No measured error exceeds the certified one; where both arrive at once, the stronger is named."""
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    model = MABoostClassifier(STUMP, target_error=0.9, n_estimators=100).fit(X, y)
    assert model.certificate_.stopped == "target_error=0.9 is certified"
    assert (
        model.history_["error_bound"][-1] <= 0.9 < model.history_["error_bound"][:-1].min(initial=1)
    )


def test_a_target_of_one_takes_one_round():
    assert MABoostClassifier(STUMP, target_error=1.0).fit(*BINARY).n_iter_ == 1


def test_max_seconds_finishes_the_round_under_way():
    model = MABoostClassifier(STUMP, max_seconds=1e-9, n_estimators=100).fit(*BINARY)
    assert model.n_iter_ == 1
    assert model.certificate_.stopped == "max_seconds=1e-09 has passed"
    assert MABoostClassifier(STUMP, max_seconds=1e9, n_estimators=5).fit(*BINARY).n_iter_ == 5


def test_max_seconds_counts_what_comes_before_the_rounds(monkeypatch):
    def slow(model, rows):
        time.sleep(0.2)
        return 4.0

    monkeypatch.setattr(SmoothBoostClassifier, "_estimated_smoothness", slow)
    assert SmoothBoostClassifier(STUMP, max_seconds=0.2).fit(*BINARY).n_iter_ == 1


def test_a_run_without_edge_says_so(fitted):
    X, y = np.array([[0.0], [0.0], [0.0]]), np.array([0, 0, 1])
    model = MABoostClassifier(STUMP, n_estimators=100).fit(X, y)
    assert model.n_iter_ == 1
    assert model.certificate_.stopped == "the learner found no edge"
    assert fitted("entropy", "binary").certificate_.stopped == "n_estimators=15 rounds are done"


# ------------------------------------------------------------------------------------ validation


@on_both
@pytest.mark.parametrize("weighted", [False, True])
def test_val_error_is_the_error_of_each_stage(data, weighted):
    X, X_val, y, y_val = train_test_split(*DATA[data], random_state=0)
    weight = np.random.RandomState(0).randint(0, 3, len(y_val)) if weighted else None
    model = MABoostClassifier(TREE, n_estimators=ROUNDS, response="proba", random_state=0)
    model.fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    staged = 1.0 - np.array(list(model.staged_score(X_val, y_val, sample_weight=weight)))
    np.testing.assert_allclose(model.history_["val_error"], staged, atol=1e-12)
    assert 0.0 < staged[0] < 1.0
    unwatched = clone(model).fit(X, y)
    np.testing.assert_array_equal(unwatched.estimator_weights_, model.estimator_weights_)


# -------------------------------------------------------------------------------------- trimming


@pytest.mark.parametrize("trim", [0.3, "auto"])
@pytest.mark.parametrize("name", ["entropy", "smooth", "sparse", "mada", "combined"])
def test_trimmed_rounds_see_fewer_rows_and_keep_their_certificate(name, trim):
    X, X_test, y, y_test = train_test_split(*BINARY, random_state=0)
    params = {"estimator": TREE, "n_estimators": 30, "random_state": 0}
    whole = clone(BOOSTERS[name]).set_params(**params).fit(X, y)
    part = clone(BOOSTERS[name]).set_params(**params, trim=trim).fit(X, y)
    used = part.history_["rows_used"]
    assert used[0] == len(y)  # all densities are equal: ties stay together
    weighing = part.history_["nonzero"] * len(y)  # what this same run would have shown otherwise
    assert np.all(used <= weighing + 1e-9)
    assert used[1:].mean() < 0.98 * weighing[1:].mean()
    assert np.all(part.history_["train_error"] <= part.history_["error_bound"] + 1e-12)
    assert np.all(part.history_["margin_bound"] <= part.history_["soft_margin"] + 1e-9)
    # 143 test rows: the difference is of the order of the standard error, 0.02, either way
    assert part.score(X_test, y_test) >= whole.score(X_test, y_test) - 0.05


def test_no_trimming_is_the_default(fitted):
    assert np.all(fitted("entropy", "binary").history_["rows_used"] == len(BINARY[1]))


# ------------------------------------------------------------------------------------ importance


def test_importances_are_averaged_by_the_steps(fitted):
    model = fitted("entropy", "wine")
    each_one = np.array([tree.feature_importances_ for tree in model.estimators_])
    np.testing.assert_allclose(
        model.feature_importances_,
        np.average(each_one, axis=0, weights=model.estimator_weights_),
        atol=1e-15,
    )
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_no_importances_where_the_estimator_has_none():
    assert not hasattr(
        MABoostClassifier(LogisticRegression(), n_estimators=2).fit(
            BINARY[0][:, :3] / 100.0, BINARY[1]
        ),
        "feature_importances_",
    )


# ------------------------------------------------------------------------- copies, grids, inputs


@each
def test_copies_predict_the_same(fitted, name):
    model, (X, _) = fitted(name, "binary"), BINARY
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(copied.decision_function(X), model.decision_function(X))
        assert str(copied.certificate_) == str(model.certificate_)
        for column in model.history_.columns:
            np.testing.assert_array_equal(copied.history_[column], model.history_[column])
        assert copied.certificate_.rounds_needed(1e-3) == model.certificate_.rounds_needed(1e-3)


@each
def test_a_clone_is_unfitted_and_fits_the_same_bits(fitted, name):
    model, (X, y) = fitted(name, "binary"), BINARY
    again = clone(model)
    assert not hasattr(again, "certificate_")
    again.fit(X, y)
    np.testing.assert_array_equal(again.estimator_weights_, model.estimator_weights_)
    np.testing.assert_array_equal(again.distribution_, model.distribution_)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_


def test_fit_changes_no_parameter():
    caps = np.full(len(BINARY[1]), 3.0)
    model = MABoostClassifier(STUMP, domain=CappedSimplex(caps), n_estimators=3)
    before = model.get_params()
    model.fit(*BINARY, sample_weight=np.r_[0.0, np.ones(len(caps) - 1)])
    after = model.get_params()
    assert after.keys() == before.keys()
    assert all(after[key] is before[key] for key in before)
    assert np.all(caps == 3.0)


def test_grid_search_reaches_smoothness_and_depth():
    grid = {"smoothness": [1.5, 4.0], "estimator__max_depth": [1, 2]}
    search = GridSearchCV(SmoothBoostClassifier(STUMP, n_estimators=3, random_state=0), grid, cv=2)
    best = search.fit(*BINARY).best_estimator_
    assert len(search.cv_results_["params"]) == 4
    assert best.smoothness_ == search.best_params_["smoothness"]
    assert best.estimators_[0].get_depth() == search.best_params_["estimator__max_depth"]


def test_grid_search_reaches_inside_the_domain():
    model = MABoostClassifier(STUMP, domain=CappedSimplex(2.0), n_estimators=3, random_state=0)
    search = GridSearchCV(model, {"domain__caps": [1.2, 5.0]}, cv=2).fit(*BINARY)
    assert search.best_estimator_.domain.caps == search.best_params_["domain__caps"]
    assert model.domain.caps == 2.0
    floor = search.best_estimator_.certificate_.floor
    assert floor == pytest.approx(1.0 / search.best_params_["domain__caps"])


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "kind",
    [
        lambda codes: codes * 10 - 7,
        lambda codes: np.array(["ham", "spam", "eggs"])[codes],
        lambda codes: np.array(["ham", "spam", "eggs"], dtype=object)[codes],
        lambda codes: codes.astype(bool),
        lambda codes: codes.astype(float),
    ],
    ids=["int", "str", "object", "bool", "float"],
)
def test_labels_of_any_type(data, kind):
    X, codes = DATA[data]
    y = kind(codes)
    model = MABoostClassifier(STUMP, n_estimators=5, random_state=0).fit(X, y, X_val=X, y_val=y)
    assert model.predict(X).dtype == y.dtype
    assert list(model.classes_) == sorted(set(y.tolist()))
    assert set(model.predict(X).tolist()) <= set(y.tolist())
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(
        model.history_["val_error"], 1.0 - np.array(list(model.staged_score(X, y)))
    )


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
@on_both
def test_sparse_rows(form, data):
    X, y = DATA[data]
    X = np.where(np.median(X, axis=0) < X, np.round(X, 1), 0.0)
    model = MABoostClassifier(STUMP, n_estimators=5, random_state=0)
    dense = clone(model).fit(X, y, sample_weight=np.arange(len(y)) % 2)
    from_sparse = clone(model).fit(form(X), y, sample_weight=np.arange(len(y)) % 2)
    np.testing.assert_allclose(from_sparse.estimator_weights_, dense.estimator_weights_)
    np.testing.assert_array_equal(from_sparse.predict(form(X)), dense.predict(X))


def test_tables_bring_their_names():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = MABoostClassifier(STUMP, n_estimators=5, random_state=0)
    model.fit(X, y, X_val=X, y_val=y, sample_weight=pd.Series(np.ones(len(y))))
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.n_features_in_ == X.shape[1]
    plain = clone(model).fit(X.to_numpy(), y.to_numpy())
    np.testing.assert_array_equal(model.predict(X), plain.predict(X.to_numpy()))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.rename(columns={"alcohol": "water"}))
    with pytest.raises(ValueError, match="feature names should match"):
        clone(model).fit(X, y, X_val=X[X.columns[::-1]], y_val=y)
    with pytest.raises(
        ValueError, match="X has 12 features, but MABoostClassifier is expecting 13"
    ):
        plain.predict(X.to_numpy()[:, 1:])


# ----------------------------------------------------------------------------------- determinism


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_depth=2, splitter="random"),
        DecisionTreeClassifier(max_depth=1, max_features=2),
    ],
    ids=["random splits", "some features"],
)
def test_the_same_seed_gives_the_same_bits(estimator):
    X, y = BINARY

    def fit(seed):
        return MABoostClassifier(estimator, n_estimators=10, random_state=seed).fit(X, y)

    one, again, other = fit(3), fit(3), fit(4)
    np.testing.assert_array_equal(one.decision_function(X), again.decision_function(X))
    assert not np.array_equal(one.decision_function(X), other.decision_function(X))
    from_state = fit(np.random.RandomState(3))
    np.testing.assert_array_equal(from_state.decision_function(X), one.decision_function(X))


def test_verbose_prints_every_so_many_rounds(capsys):
    MABoostClassifier(STUMP, n_estimators=6, verbose=2).fit(*BINARY)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["reading the rows", "boosting, 6 rounds at most"]
    assert lines[-1] == "calibrating probabilities"
    rounds = lines[2:-1]
    assert [line.split(":")[0] for line in rounds] == ["round 2/6", "round 4/6", "round 6/6"]
    assert all("certified <=" in line for line in rounds)
