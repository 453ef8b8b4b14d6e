"""Known flip rates: models of given labels that predict true ones, for all five boosters."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from tests.distributed.shards import assert_same, fit_shards, shares

from maboost import (
    CombinedBoostClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    ModelFormatError,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    load_model,
)
from maboost.io.container import pack
from maboost.io.model_file import _parts
from maboost.noise import (
    corrected_probabilities,
    flip_rates_from_audit,
    label_weights,
    transition_matrix,
)
from maboost.noise.label_noise import PrevalenceWarning, balanced_costs, true_prevalence

ONE_SIDED = {"yes": 0.4}
BY_SOURCE = {"good": 0.0, "bad": {"yes": 0.4, "no": 0.1}}
SMALL = {"n_estimators": 12, "random_state": 0, "n_jobs": 1}
BOOSTERS = {
    "maboost": MABoostClassifier(learning_rate=0.3, **SMALL),
    "smooth": SmoothBoostClassifier(smoothness=3.0, **SMALL),
    "sparse": SparseBoostClassifier(**SMALL),
    "mada": MadaBoostClassifier(**SMALL),
}
ALL = [*BOOSTERS, "combined"]
SHALLOW = {"max_depth": 2, "min_samples_leaf": 5}


def population(n=600, classes=2, seed=0, rates=None):
    """Rows, the true labels and the given ones, of classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    if classes == 2:
        p = expit(3.0 * (X[:, 0] + np.abs(X[:, 1]) - 0.8))
        names, P = np.array(["no", "yes"]), np.column_stack([1.0 - p, p])
    else:
        names = np.array(["a", "b", "c"])
        P = softmax(3.0 * np.column_stack([X[:, 0], X[:, 1], -X[:, 0] - X[:, 1]]), axis=1)
    true = (rng.random(n)[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(max=classes - 1)
    T = transition_matrix(rates if rates is not None else 0.0, names)
    given = (rng.random(n)[:, None] > np.cumsum(T[true], axis=1)).sum(axis=1).clip(max=classes - 1)
    return X, names[true], names[given]


def sources(n):
    return np.where(np.arange(n) % 3 == 0, "good", "bad")


def by_source(n=600, seed=0):
    """Rows of two sources; the labels of one are right."""
    X, true, noisy = population(n, seed=seed, rates=BY_SOURCE["bad"])
    source = sources(n)
    return X, true, np.where(source == "good", true, noisy), source


def fitted(name, classes=2, n=600, seed=0, **params):
    """A model of noisy labels, with the rows and true labels of its fit."""
    params = SHALLOW | params
    if name == "combined":
        X, true, given, source = by_source(n, seed)
        model = CombinedBoostClassifier(flip_rates=BY_SOURCE, **SMALL).set_params(**params)
        return model.fit(X, given, sample_domain=source), X, true
    rates = ONE_SIDED if classes == 2 else 0.3
    X, true, given = population(n, classes, seed, rates)
    model = clone(BOOSTERS[name]).set_params(flip_rates=rates, **params)
    return model.fit(X, given), X, true


CASES = [*((name, 2) for name in ALL), *((name, 3) for name in BOOSTERS)]
same_for_all = pytest.mark.parametrize(("name", "classes"), CASES)


def assert_same_votes(one, other, X):
    np.testing.assert_array_equal(one.estimator_weights_, other.estimator_weights_)
    np.testing.assert_array_equal(one._votes(X), other._votes(X))


# -------------------------------------------------------------------------------- what is predicted


@same_for_all
def test_predictions_and_probabilities_agree(name, classes):
    model, X, true = fitted(name, classes)
    p, votes, predicted = model.predict_proba(X), model.decision_function(X), model.predict(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert model.classes_[np.argmax(p, axis=1)].tolist() == predicted.tolist()
    if classes == 2:
        assert model.classes_[(votes > 0.0).astype(int)].tolist() == predicted.tolist()
        order = np.argsort(votes)
        assert np.all(np.diff(p[order, 1]) >= 0.0)  # the order of the votes
    else:
        np.testing.assert_array_equal(votes, p)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))
    assert model.score(X, true) == np.mean(predicted == true)


@same_for_all
def test_stages_end_with_the_model_and_are_those_of_its_parts(name, classes):
    model, X, true = fitted(name, classes)
    stages = zip(
        model.staged_decision_function(X), model.staged_predict(X), model.staged_predict_proba(X),
        model.staged_score(X, true), strict=True,
    )  # fmt: skip
    for t, (votes, predicted, p, score) in enumerate(stages, 1):
        part = model[:t]
        np.testing.assert_allclose(part.decision_function(X), votes, atol=1e-12)
        np.testing.assert_allclose(part.predict_proba(X), p, atol=1e-12)
        assert model.classes_[np.argmax(p, axis=1)].tolist() == predicted.tolist()
        assert score == np.mean(predicted == true)
    assert t == model.n_iter_
    assert predicted.tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("name", BOOSTERS)
def test_one_sided_flips_cost_little_if_their_rate_is_known(name):
    X, true, given = population(6000, rates=ONE_SIDED)
    fresh, labels, _ = population(6000, seed=1)
    plain = clone(BOOSTERS[name]).set_params(n_estimators=40, **SHALLOW)
    error = {
        "clean": 1.0 - clone(plain).fit(X, true).score(fresh, labels),
        "ignored": 1.0 - clone(plain).fit(X, given).score(fresh, labels),
        "known": 1.0 - clone(plain).set_params(flip_rates=ONE_SIDED).fit(X, given).score(fresh, labels),
    }  # fmt: skip
    assert error["known"] < error["clean"] + 0.02
    assert error["known"] < error["clean"] + 0.4 * (error["ignored"] - error["clean"])


def test_flips_of_more_classes_are_corrected():
    rates = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]  # half of "a" is called "b"
    X, _, given = population(6000, 3, rates=rates)
    fresh, labels, _ = population(6000, 3, seed=1)
    model = SmoothBoostClassifier(n_estimators=40, random_state=0, smoothness=3.0)
    ignored = clone(model).fit(X, given)
    known = clone(model).set_params(flip_rates=rates).fit(X, given)
    assert known.score(fresh, labels) > ignored.score(fresh, labels) + 0.05


def test_probabilities_are_those_of_true_labels():
    X, true, given = population(12000, rates=ONE_SIDED)
    fresh, labels, _ = population(6000, seed=1)
    model = SmoothBoostClassifier(n_estimators=150, early_stopping=True, random_state=0)
    loss = {
        "clean": log_loss(labels, clone(model).fit(X, true).predict_proba(fresh)),
        "ignored": log_loss(labels, clone(model).fit(X, given).predict_proba(fresh)),
    }
    p = model.set_params(flip_rates=ONE_SIDED).fit(X, given).predict_proba(fresh)
    assert log_loss(labels, p) < loss["clean"] + 0.2 * (loss["ignored"] - loss["clean"])
    assert np.mean(p[:, 1]) == pytest.approx(np.mean(labels == "yes"), abs=0.03)


def test_sources_are_weighed_by_what_their_labels_tell():
    X, true, given, source = by_source(6000)
    fresh, labels, _ = population(6000, seed=1)
    model = CombinedBoostClassifier(flip_rates=BY_SOURCE, n_estimators=40, random_state=0)
    known = clone(model).fit(X, given, sample_domain=source)
    plain = clone(model).set_params(flip_rates=None, error_limits={"good": None, "bad": None})
    pooled = plain.fit(X, given, sample_domain=source)
    assert known.score(fresh, labels) > pooled.score(fresh, labels) + 0.005
    good = source == "good"
    trusted = MABoostClassifier(n_estimators=40, random_state=0, learning_rate=0.1)
    alone = trusted.fit(X[good], true[good]).score(fresh, labels)
    assert known.score(fresh, labels) > alone - 0.01


# --------------------------------------------------------------------------------- the base measure


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("rates", [ONE_SIDED, 0.2, [[0.9, 0.1], [0.35, 0.65]]])
def test_two_classes_are_weighed(name, rates):
    X, _, given = population(rates=rates)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = clone(BOOSTERS[name]).set_params(**SHALLOW)
    known = clone(model).set_params(flip_rates=rates).fit(X, given, sample_weight=weight)
    explicit = model.fit(X, given, sample_weight=weight * label_weights(given, rates))
    np.testing.assert_allclose(known._votes(X), explicit._votes(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(known.estimator_weights_, explicit.estimator_weights_, rtol=1e-9)
    assert known.certificate_.error_bound == pytest.approx(explicit.certificate_.error_bound)
    np.testing.assert_allclose(known.flip_rates_, transition_matrix(rates, known.classes_))


@pytest.mark.parametrize("name", BOOSTERS)
def test_more_classes_keep_their_votes(name):
    X, _, given = population(classes=3, rates=0.3)
    plain = clone(BOOSTERS[name]).set_params(**SHALLOW)
    known = clone(plain).set_params(flip_rates=0.3).fit(X, given)
    plain.fit(X, given)
    assert_same_votes(known, plain, X)
    q = softmax(known.probability_scale_ * plain.decision_function(X), axis=1)
    np.testing.assert_allclose(known.predict_proba(X), corrected_probabilities(q, 0.3), atol=1e-9)


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("costs", [{"yes": 5.0}, {"no": 0.3, "yes": 2.0}, "balanced"])
def test_class_weights_are_costs_of_true_classes(name, costs):
    X, _, given = population(rates=ONE_SIDED)
    model = clone(BOOSTERS[name]).set_params(**SHALLOW)
    known = clone(model).set_params(flip_rates=ONE_SIDED, class_weight=costs).fit(X, given)
    T = transition_matrix(ONE_SIDED, known.classes_)
    if costs == "balanced":
        share = np.mean(given == "yes")
        found = balanced_costs(true_prevalence(np.array([1.0 - share, share]), T, len(X)))
        costs = dict(zip(["no", "yes"], found.tolist(), strict=True))
    weight = label_weights(given, ONE_SIDED, class_weight=costs)
    explicit = model.fit(X, given, sample_weight=weight)
    np.testing.assert_allclose(known._votes(X), explicit._votes(X), rtol=1e-9, atol=1e-9)
    half = np.argmin(np.abs(known.decision_function(X)))
    assert known.predict_proba(X)[half, 1] == pytest.approx(0.5, abs=0.2)


def test_costs_move_the_decision_towards_the_dear_class():
    X, _, given = population(3000, rates=ONE_SIDED)
    fresh, labels, _ = population(3000, seed=1)
    model = SmoothBoostClassifier(smoothness=3.0, random_state=0, flip_rates=ONE_SIDED, **SHALLOW)
    missed = [
        np.mean(m.fit(X, given).predict(fresh)[labels == "yes"] == "no")
        for m in (clone(model).set_params(class_weight={"yes": c}) for c in (1.0, 5.0))
    ]
    assert missed[1] < 0.5 * missed[0]


def test_a_weight_of_two_is_the_row_twice():
    """Weights of given labels repeat no row: rules that count rows count as often as the user repeats them."""
    X, _, given = population(300, rates={"yes": 0.5})
    times = 1 + np.arange(300) % 3
    model = SmoothBoostClassifier(smoothness=3.0, flip_rates={"yes": 0.5}, **SMALL)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(given, times))
    weighted = clone(model).fit(X, given, sample_weight=times)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-9, atol=1e-9
    )
    # 1.5 and 0.5 are whole multiples of 0.5, but no row is there three times
    least = clone(model).set_params(n_estimators=1, min_samples_leaf=140, max_depth=3)
    assert len(least.fit(X, given).estimators_[0].tree_.feature) <= 3


@same_for_all
def test_rows_in_any_order_and_threads(name, classes):
    model, X, _ = fitted(name, classes)
    again, _, _ = fitted(name, classes, n_jobs=2)
    assert_same_votes(model, again, X)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))


def test_the_noise_rate_is_that_of_true_labels():
    X, _, given = population(rates=ONE_SIDED)
    model = SmoothBoostClassifier(noise_rate=0.1, flip_rates=ONE_SIDED, **SMALL).fit(X, given)
    share = np.mean(given == "yes")
    prevalence = true_prevalence(
        np.array([1.0 - share, share]), transition_matrix(ONE_SIDED, model.classes_), len(X)
    )
    alpha, A = 0.5 * (1.0 - 0.4), 0.5 * (1.0 - 0.4)
    mean = (1.0 - alpha) * share + alpha * (1.0 - share)
    weighted = (A * 0.1 + alpha * 0.4 * prevalence[1]) / mean
    assert model.smoothness_ == pytest.approx(max(1.1, 0.5 / weighted))


def test_an_estimated_smoothness_uses_the_weighted_error():
    X, true, given = population(3000, rates=ONE_SIDED)
    model = SmoothBoostClassifier(n_estimators=5, random_state=0)
    weight = label_weights(given, ONE_SIDED)
    known = clone(model).set_params(flip_rates=ONE_SIDED).fit(X, given)
    explicit = clone(model).fit(X, given, sample_weight=weight)
    assert known.smoothness_ == pytest.approx(explicit.smoothness_)
    assert known.smoothness_ < clone(model).fit(X, true).smoothness_


# ------------------------------------------------------------------------------------ validation rows


@pytest.mark.parametrize("name", BOOSTERS)
def test_validation_rows_have_the_weights_of_their_given_labels(name):
    X, _, given = population(rates=ONE_SIDED)
    fresh, _, labels = population(400, seed=1, rates=ONE_SIDED)
    own = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    model = clone(BOOSTERS[name]).set_params(**SHALLOW)
    known = clone(model).set_params(flip_rates=ONE_SIDED)
    known.fit(X, given, X_val=fresh, y_val=labels, sample_weight_val=own)
    explicit = model.fit(
        X, given, sample_weight=label_weights(given, ONE_SIDED), X_val=fresh, y_val=labels,
        sample_weight_val=own * label_weights(labels, ONE_SIDED),
    )  # fmt: skip
    for column in ("val_error", "val_score"):
        np.testing.assert_allclose(known.history_[column], explicit.history_[column], rtol=1e-9)
    assert known.best_iteration_ == explicit.best_iteration_
    assert known.probability_scale_ == pytest.approx(explicit.probability_scale_)


@pytest.mark.parametrize("name", BOOSTERS)
def test_rows_held_out_have_the_weights_of_their_given_labels(name):
    X, _, given = population(rates=ONE_SIDED)
    model = clone(BOOSTERS[name]).set_params(early_stopping=True, **SHALLOW)
    known = clone(model).set_params(flip_rates=ONE_SIDED).fit(X, given)
    explicit = model.fit(X, given, sample_weight=label_weights(given, ONE_SIDED))
    np.testing.assert_allclose(known.history_["val_score"], explicit.history_["val_score"])
    assert known.n_iter_ == explicit.n_iter_


def test_rows_of_trusted_sources_are_held_out():
    X, true, given, source = by_source(900)
    model = CombinedBoostClassifier(flip_rates=BY_SOURCE, early_stopping=True, **SMALL)
    model.fit(X, given, sample_domain=source)
    used = model.distribution_ > 0.0
    assert used[source == "bad"].all()
    assert 0.05 < 1.0 - used[source == "good"].mean() < 0.2
    p = model.predict_proba(X)
    assert model.classes_[np.argmax(p, axis=1)].tolist() == model.predict(X).tolist()
    assert log_loss(true, p) < 0.6


def test_validation_rows_with_sources_have_right_labels():
    X, _, given, source = by_source()
    fresh, labels, _ = population(400, seed=1)
    model = CombinedBoostClassifier(flip_rates=BY_SOURCE, **SMALL)
    model.fit(X, given, sample_domain=source, X_val=fresh, y_val=labels)
    assert model.history_["val_error"][model.best_iteration_ - 1] == pytest.approx(
        1.0 - model[: model.best_iteration_].score(fresh, labels)
    )


def test_validation_rows_of_unknown_sources_are_refused():
    X, _, given, source = by_source()
    model = CombinedBoostClassifier(flip_rates=BY_SOURCE | {"good": 0.1}, **SMALL)
    with pytest.raises(ValueError, match="y_val has no sources"):
        model.fit(X, given, sample_domain=source, X_val=X[:100], y_val=given[:100])


def test_a_callable_scores_given_labels_in_their_weights():
    X, _, given = population(rates=ONE_SIDED)
    fresh, _, labels = population(400, seed=1, rates=ONE_SIDED)
    seen = []

    def scorer(model, rows, y, sample_weight=None):
        seen.append((y, sample_weight, model.predict_proba(rows)))
        return -log_loss(y, seen[-1][2][:, 1], sample_weight=sample_weight, labels=["no", "yes"])

    def fit(scoring):
        model = SmoothBoostClassifier(
            smoothness=3.0, flip_rates=ONE_SIDED, scoring=scoring, **SMALL
        )
        return model.fit(X, given, X_val=fresh, y_val=labels)

    own, named = fit(scorer), fit("neg_log_loss")
    y, weight, _p = seen[0]
    assert y.tolist() == labels.tolist()
    expected = label_weights(labels, ONE_SIDED)
    np.testing.assert_allclose(weight, expected / expected.sum())
    np.testing.assert_allclose(own.history_["val_score"], named.history_["val_score"], rtol=1e-6)
    np.testing.assert_array_equal(own.predict_proba(X), named.predict_proba(X))


# -------------------------------------------------------------------------------------- the parameter


@pytest.mark.parametrize("name", ALL)
def test_a_fit_never_writes_the_parameter(name):
    model, _X, _ = fitted(name)
    rates = BY_SOURCE if name == "combined" else ONE_SIDED
    assert model.get_params()["flip_rates"] is model.flip_rates
    assert model.flip_rates == rates
    assert clone(model).flip_rates == rates
    used = model.flip_rates_
    if name == "combined":
        assert set(used) == {"good", "bad"}
        np.testing.assert_allclose(used["good"], np.eye(2))
        used = used["bad"]
        np.testing.assert_allclose(used, [[0.9, 0.1], [0.4, 0.6]])
    else:
        np.testing.assert_allclose(used, [[1.0, 0.0], [0.4, 0.6]])


def test_without_flip_rates_there_are_none():
    X, true, _ = population(200)
    model = MABoostClassifier(**SMALL).fit(X, true)
    assert model.flip_rates_ is None
    assert not model.certificate_.given_labels
    _, _, given = population(200, rates=ONE_SIDED)
    model.set_params(flip_rates=ONE_SIDED).fit(X, given)
    assert model.set_params(flip_rates=None).fit(X, given).flip_rates_ is None


def test_rates_of_sources_keep_their_names():
    """Numbers sort as numbers: 2 comes before 10."""
    X, _true, given, source = by_source()
    numbers = np.where(source == "good", 2, 10)
    rates = {10: BY_SOURCE["bad"], 2: 0.0}
    model = CombinedBoostClassifier(flip_rates=rates, **SMALL)
    model.fit(X, given, sample_domain=numbers)
    np.testing.assert_allclose(model.flip_rates_[2], np.eye(2))
    np.testing.assert_allclose(model.flip_rates_[10], [[0.9, 0.1], [0.4, 0.6]])


REFUSED = [
    ({"maybe": 0.1}, "flip_rates names 'maybe', which is not a class"),
    ({"yes": 0.6, "no": 0.5}, "flip_rates=.* leave nothing to learn: .* add up to 1.1"),
    (0.5, "leave nothing to learn"),
    ([[0.5, 0.5], [0.5, 0.5]], "leave nothing to learn"),
    (1.5, "flip_rates"),
    ("much", "flip_rates"),
    (np.eye(3), r"matrix of shape \(2, 2\)"),
    ({"no": 0.9}, "flip_rates do not fit the labels"),
]


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize(("rates", "message"), REFUSED)
def test_rates_that_cannot_be_are_refused(name, rates, message):
    X, true, _ = population(400)
    with pytest.raises(ValueError, match=message):
        clone(BOOSTERS[name]).set_params(flip_rates=rates).fit(X, true)


def test_sources_that_do_not_fit_the_rows_are_refused():
    X, _, given, source = by_source(300)
    model = CombinedBoostClassifier(flip_rates={"good": 0.0, 1: 0.1}, **SMALL)
    with pytest.raises(ValueError, match=r"sample_domain must have one entry for each row \(300\)"):
        model.fit(X, given, sample_domain=source[:200])
    mixed = np.where(source == "good", source.astype(object), 1)
    with pytest.raises(ValueError, match="sample_domain has names without a common order"):
        model.fit(X, given, sample_domain=mixed)


def test_more_classes_refuse_costs_and_singular_matrices():
    X, _, given = population(300, 3, rates=0.3)
    model = MABoostClassifier(flip_rates=0.3, class_weight={"a": 2.0}, **SMALL)
    with pytest.raises(ValueError, match=r"class_weight=.* with flip_rates needs two classes"):
        model.fit(X, given)
    model.set_params(class_weight=None, flip_rates=np.full((3, 3), 1.0 / 3.0))
    with pytest.raises(ValueError, match="singular"):
        model.fit(X, given)


def test_rates_by_source_that_cannot_be_are_refused():
    X, _, given, source = by_source(300)

    def fit(rates, y=given, **more):
        model = CombinedBoostClassifier(flip_rates=rates, **SMALL)
        return model.fit(X, y, **({"sample_domain": source} | more))

    with pytest.raises(ValueError, match=r"are by source here, but fit got no sample_domain"):
        fit(BY_SOURCE, sample_domain=None)
    with pytest.raises(
        ValueError, match=r"sample_domain has 'bad', which flip_rates does not name"
    ):
        fit({"good": 0.0})
    with pytest.raises(ValueError, match=r"flip_rates names 'other', which is not a source"):
        fit(BY_SOURCE | {"other": 0.1})
    with pytest.raises(ValueError, match=r"must be a dict by source"):
        fit(0.2)
    with pytest.raises(ValueError, match=r"names 'maybe', which is not a class"):
        fit({"good": 0.0, "bad": {"maybe": 0.1}})
    with pytest.raises(ValueError, match="by source need two classes, and y has 3"):
        fit(BY_SOURCE, y=population(300, 3)[2])


@pytest.mark.parametrize("name", ALL)
def test_one_class_has_nothing_to_correct(name):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.full(30, "no")
    if name == "combined":
        model = CombinedBoostClassifier(flip_rates=BY_SOURCE, **SMALL)
        model.fit(X, y, sample_domain=sources(30))
    else:
        model = clone(BOOSTERS[name]).set_params(flip_rates=ONE_SIDED).fit(X, y)
    assert model.predict_proba(X).tolist() == [[1.0]] * 30
    assert model.flip_rates_ is None


def test_folds_of_a_cross_validation_only_warn():
    """A rate at which the true prevalence is nearly zero: half of the folds fall below."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), (rng.random(400) < 0.2).astype(int)
    model = MABoostClassifier(flip_rates={0: 0.2}, **SMALL)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = cross_val_score(model, X, y, cv=8)
    assert np.isfinite(scores).all()
    assert {w.category for w in caught} <= {PrevalenceWarning, UserWarning}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"flip_rates": [None, 0.1, {0: 0.2}]}, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# --------------------------------------------------------------------------------- runs that go on


@same_for_all
def test_a_warm_start_has_the_bits_of_one_fit(name, classes):
    whole, X, _ = fitted(name, classes)
    model = clone(whole).set_params(warm_start=True, n_estimators=5)
    y = (population(600, classes, rates=ONE_SIDED if classes == 2 else 0.3))[2]
    more = {}
    if name == "combined":
        X, _, y, source = by_source()
        more = {"sample_domain": source}
    model.fit(X, y, **more)
    model.set_params(n_estimators=12).fit(X, y, **more)
    assert_same_votes(whole, model, X)
    np.testing.assert_array_equal(whole.predict_proba(X), model.predict_proba(X))


def test_a_warm_start_names_changed_rates():
    X, _, given = population(rates=ONE_SIDED)
    model = MABoostClassifier(flip_rates=ONE_SIDED, warm_start=True, **SMALL).fit(X, given)
    model.set_params(flip_rates={"yes": 0.3}, n_estimators=20)
    with pytest.raises(
        ValueError, match=r"flip_rates was \{'yes': 0.4\} and is now \{'yes': 0.3\}"
    ):
        model.fit(X, given)


@pytest.mark.parametrize(("name", "classes"), [("smooth", 2), ("sparse", 3), ("combined", 2)])
def test_a_checkpoint_goes_on_to_the_same_bits(name, classes, tmp_path):
    whole, X, _ = fitted(name, classes)
    model = clone(whole).set_params(
        checkpoint=tmp_path / "run.ckpt", checkpoint_every=2, resume=True
    )
    y, more = population(600, classes, rates=ONE_SIDED if classes == 2 else 0.3)[2], {}
    if name == "combined":
        X, _, y, source = by_source()
        more = {"sample_domain": source}
    clone(model).set_params(n_estimators=5).fit(X, y, **more)
    resumed = clone(model).fit(X, y, **more)
    assert_same_votes(whole, resumed, X)
    np.testing.assert_array_equal(whole.predict_proba(X), resumed.predict_proba(X))
    if classes == 2 and name != "combined":
        model.set_params(flip_rates={"yes": 0.3})
        with pytest.raises(ValueError, match=r"flip_rates was \{'yes': 0.4\} and is now"):
            model.fit(X, y)


# ------------------------------------------------------------------------------- rows in other places


@same_for_all
def test_rows_on_disk_have_the_bits_of_rows_in_memory(name, classes, tmp_path):
    memory, X, _ = fitted(name, classes)
    table = pd.DataFrame(X, columns=list("abcd"))
    more = {}
    if name == "combined":
        _, _, table["label"], table["source"] = by_source()
        more = {"sample_domain": "source"}
    else:
        table["label"] = population(600, classes, rates=ONE_SIDED if classes == 2 else 0.3)[2]
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), tmp_path / "rows.parquet")
    disk = clone(memory).fit(tmp_path / "rows.parquet", "label", **more)
    np.testing.assert_array_equal(disk.estimator_weights_, memory.estimator_weights_)
    inside = disk.predict_proba(table[list("abcd")])
    np.testing.assert_array_equal(inside, memory.predict_proba(X))
    np.testing.assert_array_equal(disk.predict_proba(tmp_path / "rows.parquet"), inside)
    np.testing.assert_equal(disk.flip_rates_, memory.flip_rates_)


@same_for_all
def test_shards_have_the_bits_of_one_fit(name, classes):
    more = {}
    if name == "combined":
        X, _, y, source = by_source(300)
        model = CombinedBoostClassifier(flip_rates=BY_SOURCE, early_stopping=True, **SMALL)
        more = {"sample_domain": source}
    else:
        X, _, y = population(300, classes, rates=ONE_SIDED if classes == 2 else 0.3)
        rates = ONE_SIDED if classes == 2 else 0.3
        model = clone(BOOSTERS[name]).set_params(flip_rates=rates, early_stopping=True)
        more = {"sample_weight": np.random.default_rng(0).uniform(0.5, 2.0, 300)}
    model.set_params(n_estimators=5)
    whole = clone(model).fit(X, y, **more)
    for shard in fit_shards(model, shares(300, 3, np.random.default_rng(1)), X, y, **more):
        assert_same(shard, whole)
        np.testing.assert_array_equal(shard.predict_proba(X), whole.predict_proba(X))
        np.testing.assert_equal(shard.flip_rates_, whole.flip_rates_)


@same_for_all
def test_pickles_and_model_files_keep_predictions(name, classes, tmp_path):
    for early in (False, True):
        model, X, true = fitted(name, classes, early_stopping=early)
        model.save(tmp_path / "m")
        for other in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "m")):
            for method in ("predict_proba", "decision_function", "predict"):
                found, expected = getattr(other, method)(X), getattr(model, method)(X)
                np.testing.assert_array_equal(found, expected)
            np.testing.assert_equal(other.flip_rates_, model.flip_rates_)
            assert other.flip_rates == model.flip_rates
            assert str(other.certificate_) == str(model.certificate_)
            assert other.score(X, true) == model.score(X, true)
            other.save(tmp_path / "again")
            assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_matrices_and_estimated_rates_are_stored_as_lists(tmp_path):
    X, true, given = population(rates=ONE_SIDED)
    estimated = flip_rates_from_audit(given[:300], true[:300])
    for rates in (np.array([[0.9, 0.1], [0.4, 0.6]]), estimated):
        model = MABoostClassifier(flip_rates=rates, **SMALL).fit(X, given)
        model.save(tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        np.testing.assert_array_equal(loaded.flip_rates, model.flip_rates_)
        np.testing.assert_array_equal(loaded.fit(X, given).predict_proba(X), model.predict_proba(X))
    X, true, given, source = by_source()
    model = CombinedBoostClassifier(flip_rates={"good": 0.0, "bad": estimated}, **SMALL)
    model.fit(X, given, sample_domain=source).save(tmp_path / "m")
    assert load_model(tmp_path / "m").flip_rates == {"good": 0.0, "bad": estimated.matrix.tolist()}


HOSTILE = [
    (("label_noise",), 3),
    (("label_noise",), {}),
    (("label_noise",), []),
    (("label_noise", "rates"), []),
    (("label_noise", "rates"), [[[0.0, 1.0], [1.0, 0.0]]]),  # classes change places
    (("label_noise", "rates"), [[[0.5, 0.5], [0.5, 0.5]]]),
    (("label_noise", "rates"), [[[0.9, 0.2], [0.4, 0.6]]]),
    (("label_noise", "rates"), [[[1.1, -0.1], [0.4, 0.6]]]),
    (("label_noise", "rates"), [[[1.0, 0.0], [0.4]]]),
    (("label_noise", "rates"), [[["1", "0"], ["0.4", "0.6"]]]),
    (("label_noise", "rates"), [[[True, False], [False, True]]]),
    (("label_noise", "rates"), [[[None, 0.0], [0.4, 0.6]]]),
    (("label_noise", "rates"), [[[10**400, 0.0], [0.4, 0.6]]]),
    (("label_noise", "rates"), "rates"),
    (("label_noise", "weights"), [[0.0, 1.0]]),
    (("label_noise", "weights"), [[1e-300, 1.0]]),
    (("label_noise", "weights"), [[1e300, 1.0]]),
    (("label_noise", "costs"), [1e-300, 1.0]),
    (("label_noise", "costs"), [-1.0, 1.0]),
    (("label_noise", "costs"), [1.0, 9.0]),  # the weights are of other costs
    (("label_noise", "costs"), [1.0, 1.0, 1.0]),
    (("label_noise", "shares"), []),
    (("label_noise", "shares"), [0.5]),
    (("label_noise", "shares"), [0.5, 0.5]),
    (("label_noise", "prevalence"), [2.0, -1.0]),
    (("label_noise", "prevalence"), {"kind": "float", "value": "nan"}),
    (("label_noise", "sources"), ["a"]),
    (("label_noise", "sources"), "a"),
    (("label_noise", "sources"), [[]]),
    (("label_noise", "right_labels"), True),
    (("label_noise", "right_labels"), 1),
    (("label_noise", "more"), 1),
    (("certificate", "given_labels"), 1),
]


def edited(model, path, value, tmp_path):
    arrays, document = _parts(model)
    at = document
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    (tmp_path / "m").write_bytes(pack(arrays, document))
    return tmp_path / "m"


@pytest.fixture(scope="module")
def binary():
    return fitted("maboost")[0]


@pytest.mark.parametrize(("path", "value"), HOSTILE)
def test_hostile_model_files_are_refused(binary, path, value, tmp_path):
    with pytest.raises(ModelFormatError):
        load_model(edited(binary, path, value, tmp_path))


def test_hostile_files_of_sources_and_of_more_classes_are_refused(tmp_path):
    combined, three = fitted("combined")[0], fitted("maboost", 3)[0]
    for value in (["good"], ["good", "good"], [], None, ["good", None]):
        with pytest.raises(ModelFormatError):
            load_model(edited(combined, ("label_noise", "sources"), value, tmp_path))
    for path, value in (
        (("label_noise", "sources"), ["a"]),
        (("label_noise", "rates"), [np.full((3, 3), 1.0 / 3.0).tolist()]),
        (("label_noise", "rates"), [np.eye(2).tolist()]),
    ):
        with pytest.raises(ModelFormatError, match="label_noise"):
            load_model(edited(three, path, value, tmp_path))


def test_streams_refuse_flip_rates_and_forget_earlier_ones():
    X, _, given = population(400, rates=ONE_SIDED)
    model = MadaBoostClassifier(flip_rates=ONE_SIDED, random_state=0)
    with pytest.raises(ValueError, match=r"flip_rates.*give flip_rates to fit"):
        model.fit_stream(iter([(X, given)]))
    model.set_params(n_estimators=2).fit(X, given)
    model.set_params(flip_rates=None, n_estimators="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_stream(iter([(X, given)] * 20), sample_size=100)
    assert model.flip_rates_ is None
    x = model.probability_scale_ * model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(x))


# -------------------------------------------------------------------------------------------- exports


@pytest.mark.parametrize("name", ALL)
def test_lightgbm_has_the_votes_of_two_classes(name):
    pytest.importorskip("lightgbm")
    model, X, _ = fitted(name)
    booster = model.to_lightgbm()
    np.testing.assert_allclose(booster.predict(X, raw_score=True), model.decision_function(X))
    np.testing.assert_allclose(booster.predict(X), model.decision_function(X))


def test_exports_that_cannot_be_say_so():
    pytest.importorskip("lightgbm")
    three = fitted("maboost", 3)[0]
    with pytest.raises(ValueError, match=r"to_lightgbm\(\) cannot write a model with flip_rates"):
        three.to_lightgbm()
    pytest.importorskip("onnx")
    for model in (three, fitted("smooth")[0], fitted("combined")[0]):
        with pytest.raises(ValueError, match=r"to_onnx\(\) cannot write a model with flip_rates"):
            model.to_onnx()


# ---------------------------------------------------------------------------------------- certificate


@same_for_all
def test_the_certificate_says_what_it_bounds(name, classes):
    model, _X, _true = fitted(name, classes)
    certificate = model.certificate_
    assert certificate.given_labels
    assert "the weighted error on given labels of the training rows" in str(certificate)
    assert "plus the share of wrong labels" in str(certificate)
    assert model[:3].certificate_.given_labels
    assert certificate.measured_error <= certificate.error_bound


@pytest.mark.parametrize("name", BOOSTERS)
def test_the_measured_error_is_the_weighted_one_on_given_labels(name):
    X, true, given = population(rates=ONE_SIDED)
    model = clone(BOOSTERS[name]).set_params(flip_rates=ONE_SIDED, **SHALLOW).fit(X, given)
    weight, predicted = label_weights(given, ONE_SIDED), model.predict(X)
    wrong = predicted != given
    assert model.certificate_.measured_error == pytest.approx(weight @ wrong / weight.sum())
    assert np.mean(predicted != true) <= np.mean(wrong) + np.mean(given != true)
