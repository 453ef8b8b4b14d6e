"""Odd input has a defined result, or a ValueError that names the parameter and its value."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.learners import ResamplingWarning
from maboost.mirror import CappedSimplex, Hypercube, Orthant, Simplex
from maboost.mirror.steps import Step

BOOSTERS = [
    MABoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    MadaBoostClassifier,
    CombinedBoostClassifier,
]
X, y = make_classification(60, 5, flip_y=0.2, random_state=0)
SOURCE = np.where(np.arange(60) % 2 == 0, "a", "b")
every_booster = pytest.mark.parametrize("booster", BOOSTERS)


# ------------------------------------------------------------------------------ nothing to learn


@every_booster
@pytest.mark.parametrize("labels", [["u", "v"], ["u", "v", "w"]], ids=["two", "three"])
def test_no_edge_predicts_the_heaviest_class(booster, labels):
    X, y = np.zeros((12, 2)), np.array(labels * (12 // len(labels)))
    refuses = Constant(labels[0])  # in balance: no constant has an edge
    with pytest.warns(UserWarning, match="no hypothesis was found.*the heaviest class, 'u'"):
        model = booster(refuses).fit(X, y)
    assert model.n_iter_ == len(model.estimators_) == len(model.history_) == 0
    assert list(model.predict(X[:2])) == ["u", "u"]
    assert np.all(np.argmax(model.predict_proba(X[:2]), axis=1) == 0)
    assert [list(p) for p in model.staged_predict(X[:2])] == [["u", "u"]]
    np.testing.assert_allclose(model.distribution_, 1.0 / 12)
    np.testing.assert_array_equal(model.feature_importances_, [0.0, 0.0])
    assert model.certificate_.error_bound == 1.0
    assert "the learner found no edge" in str(model.certificate_)


def test_no_edge_predicts_the_heavier_class_by_weight():
    wrong = Constant("u")
    with pytest.warns(UserWarning, match="the heaviest class, 'v'"):
        model = MABoostClassifier(wrong).fit(
            np.zeros((4, 1)), ["u", "u", "u", "v"], sample_weight=[1, 1, 1, 9]
        )
    assert list(model.predict([[0.0]])) == ["v"]


@every_booster
def test_a_perfect_first_hypothesis_ends_the_run(booster):
    X, y = np.arange(8.0)[:, None], np.arange(8) >= 3
    model = booster(DecisionTreeClassifier(max_depth=1), n_estimators=50, learning_rate=1.0)
    model.fit(X, y)
    assert model.n_iter_ <= 2
    np.testing.assert_array_equal(model.predict(X), y)
    assert np.all(np.isfinite(model.estimator_weights_))
    assert model.certificate_.measured_error == 0.0 <= model.certificate_.error_bound
    assert model.certificate_.stopped in (
        "one hypothesis is right under all weights that the domain allows",
        "every row is right",
        "no row has weight left",
    )


@every_booster
@pytest.mark.parametrize("label", [7, "only"])
def test_one_class_is_always_right(booster, label):
    weight = np.array([0.0, 1.0, 3.0, 4.0])
    model = booster().fit(np.eye(4), [label] * 4, sample_weight=weight)
    assert list(model.predict(np.eye(4)[:2])) == [label, label]
    np.testing.assert_array_equal(model.predict_proba(np.eye(4)), np.ones((4, 1)))
    np.testing.assert_array_equal(model.margins(np.eye(4), [label] * 4), np.ones(4))
    np.testing.assert_allclose(model.distribution_, weight / 8.0)
    assert model.certificate_.error_bound == 0.0
    assert f"one class only, {label!r}" in model.certificate_.stopped


def test_one_class_still_gets_a_certificate_for_each_source():
    model = CombinedBoostClassifier(error_limits={"a": None, "b": 0.3})
    model.fit(np.eye(4), [1, 1, 1, 1], sample_domain=["a", "b", "b", "b"])
    assert model.certificate_.groups["b"].share == 0.75
    assert model.certificate_.groups["b"].error_bound == 0.0


# ------------------------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MABoostClassifier(regularizer="l7"), "'regularizer' parameter .* Got 'l7'"),
        (MABoostClassifier(domain="sphere"), "'domain' parameter .* Got 'sphere'"),
        (MABoostClassifier(update="eager"), "'update' parameter .* Got 'eager'"),
        (MABoostClassifier(step="giant"), "'step' parameter .* Got 'giant'"),
        (MABoostClassifier(response="loud"), "'response' parameter .* Got 'loud'"),
        (MABoostClassifier(trim=1.0), "'trim' parameter .* Got 1.0"),
        (MABoostClassifier(trim="all"), "'trim' parameter .* Got 'all'"),
        (MABoostClassifier(n_estimators=0), "'n_estimators' parameter .* Got 0"),
        (MABoostClassifier(learning_rate=0.0), "'learning_rate' parameter .* Got 0.0"),
        (MABoostClassifier(learning_rate=1.5), "'learning_rate' parameter .* Got 1.5"),
        (MABoostClassifier(target_error=1.5), "'target_error' parameter .* Got 1.5"),
        (MABoostClassifier(max_seconds=0), "'max_seconds' parameter .* Got 0"),
        (MABoostClassifier(estimator=3), "'estimator' parameter .* Got 3"),
        (MABoostClassifier(domain=Orthant()), r"domain=Orthant\(\) is no set of distributions"),
        (MABoostClassifier(domain=Hypercube()), "domain=Hypercube.* is no set of distributions"),
        (MABoostClassifier(domain=CappedSimplex(0.5)), "no distribution fits under caps=0.5"),
        (
            MABoostClassifier(domain=CappedSimplex(np.full(60, 0.9))),
            "(?s)no distribution fits under caps=.*a mass of 0.9 in all",
        ),
        (
            MABoostClassifier(domain=CappedSimplex(np.full(50, 3.0))),
            "caps has 50 entries but there are 60 rows",
        ),
        (SmoothBoostClassifier(smoothness=0.99), "'smoothness' parameter .* Got 0.99"),
        (SmoothBoostClassifier(smoothness="big"), "'smoothness' parameter .* Got 'big'"),
        (SmoothBoostClassifier(noise_rate=0.5), "'noise_rate' parameter .* Got 0.5"),
        (SmoothBoostClassifier(noise_rate=-0.1), "'noise_rate' parameter .* Got -0.1"),
        (
            SmoothBoostClassifier(smoothness=2.0, noise_rate=0.1),
            "not both: got smoothness=2.0, noise_rate=0.1",
        ),
        (SparseBoostClassifier(kappa=0.0), "'kappa' parameter .* Got 0.0"),
        (SparseBoostClassifier(sparsity=1e-300), r"sparsity must be in \(0, 1\), got 1e-300"),
        (SparseBoostClassifier(kappa=1.1), "'kappa' parameter .* Got 1.1"),
        (SparseBoostClassifier(kappa=np.nan), "'kappa' parameter .* Got nan"),
        (SparseBoostClassifier(l1_decay=0.5), "l1_decay=0.5, kappa=1.0"),
        (SparseBoostClassifier(l1_decay=-1.0, kappa=0.5), "'l1_decay' parameter .* Got -1.0"),
        (CombinedBoostClassifier(error_limits=0.1), "'error_limits' parameter .* Got 0.1"),
        (
            CombinedBoostClassifier(error_limits={"a": 0.1}),
            "error_limits={'a': 0.1} names sources, but fit got no sample_domain",
        ),
        (
            MABoostClassifier(LinearSVC(), response="proba"),
            "response='proba' needs an estimator with predict_proba; LinearSVC has none",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("columns", [np.array(0.5), [[0, 1], [1, 2]]], ids=["a number", "a table"])
def test_categorical_columns_are_a_list_of_them(columns):
    tree = HistTreeClassifier(categorical_features=columns)
    with pytest.raises(ValueError, match=r"categorical_features must be .* or a list of column"):
        tree.fit(X, y)


@pytest.mark.parametrize(
    ("booster", "params"),
    [
        (MABoostClassifier, {"trim": np.float32(0.3)}),
        (MABoostClassifier, {"learning_rate": np.float32(0.3)}),
        (MABoostClassifier, {"target_error": np.float32(0.1)}),
        (SmoothBoostClassifier, {"noise_rate": np.float32(0.1)}),
        (SmoothBoostClassifier, {"smoothness": np.float16(3.3)}),
        (SparseBoostClassifier, {"kappa": np.float32(0.7), "l1_decay": np.float32(0.1)}),
        (SparseBoostClassifier, {"sparsity": np.float32(0.3)}),
        (MABoostClassifier, {"estimator__max_bins": np.uint8(200)}),
        (MABoostClassifier, {"estimator__max_bins": np.int8(16)}),
        (MABoostClassifier, {"estimator__max_depth": np.uint8(2)}),
        (MABoostClassifier, {"estimator__max_leaf_nodes": np.uint8(3)}),
        (MABoostClassifier, {"estimator__min_samples_leaf": np.uint8(200)}),
        (MABoostClassifier, {"estimator__min_weight_fraction_leaf": np.float32(0.1)}),
        (MABoostClassifier, {"estimator__max_features": np.uint8(2)}),
    ],
    ids=lambda given: ", ".join(given) if isinstance(given, dict) else "",
)
def test_a_number_of_numpy_is_the_number(booster, params):
    X, y = make_classification(700, 5, flip_y=0.2, random_state=0)
    model = booster(n_estimators=5, random_state=0)
    one = clone(model).set_params(**params).fit(X, y)
    plain = {name: value.item() for name, value in params.items()}
    other = clone(model).set_params(**plain).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_an_error_limit_of_numpy_is_the_number():
    fits = [
        CombinedBoostClassifier(n_estimators=5, error_limits={"a": limit, "b": None})
        for limit in (np.float32(0.2), float(np.float32(0.2)))
    ]
    one, other = (model.fit(X, y, sample_domain=SOURCE).decision_function(X) for model in fits)
    np.testing.assert_array_equal(one, other)


def test_no_leaf_may_hold_more_rows_than_there_are():
    tree = HistTreeClassifier(min_samples_leaf=10**20).fit(X, y)
    assert tree.get_n_leaves() == 1


@pytest.mark.parametrize("caps", [0.0, -1.0, np.nan, [1.0, 0.0], [[2.0, 2.0]]])
def test_caps_must_be_positive(caps):
    with pytest.raises(
        ValueError, match="caps must be positive, one number or one for each row, got"
    ):
        CappedSimplex(caps)


def test_caps_are_counted_over_all_rows_given():
    """Rows of weight zero have caps too: who writes the caps need not know what is dropped."""
    weight = np.r_[np.zeros(10), np.ones(50)]
    caps = np.r_[np.full(10, 1e-3), np.full(50, 2.0)]
    capped = MABoostClassifier(domain=CappedSimplex(caps), n_estimators=10, random_state=0)
    one = capped.fit(X, y, weight)
    other = MABoostClassifier(domain=CappedSimplex(2.0), n_estimators=10, random_state=0)
    np.testing.assert_array_equal(
        one.estimator_weights_, other.fit(X[10:], y[10:]).estimator_weights_
    )


def test_infinite_caps_are_the_simplex():
    params = {"n_estimators": 10, "random_state": 0}
    capped = MABoostClassifier(domain=CappedSimplex(np.inf), **params).fit(X, y)
    free = MABoostClassifier(domain=Simplex(), **params).fit(X, y)
    np.testing.assert_array_equal(capped.estimator_weights_, free.estimator_weights_)


def test_no_noise_means_no_cap():
    assert SmoothBoostClassifier(noise_rate=0.0, n_estimators=3).fit(X, y).smoothness_ == np.inf


def test_smoothness_one_freezes_the_distribution():
    model = SmoothBoostClassifier(smoothness=1.0, n_estimators=5).fit(X, y)
    np.testing.assert_allclose(model.distribution_, 1.0 / 60)
    assert model.certificate_.floor == model.certificate_.error_bound == 1.0


@pytest.mark.parametrize("limit", [0, 0.0, 1.0, -0.1, 1.5, np.nan, "low"])
def test_error_limits_lie_strictly_between_zero_and_one(limit):
    model = CombinedBoostClassifier(error_limits={"a": limit, "b": None})
    with pytest.raises(
        ValueError, match=rf"error_limits\['a'\] must be in \(0, 1\).*got {limit!r}"
    ):
        model.fit(X, y, sample_domain=SOURCE)


@pytest.mark.parametrize(
    ("limits", "source", "message"),
    [
        ({"a": 0.1, "b": None, "c": 0.2}, SOURCE, r"error_limits names \['c'\], but no row"),
        ({"a": 0.1}, SOURCE, r"sample_domain has \['b'\], which error_limits does not name"),
        (None, SOURCE, r"sample_domain has \['a', 'b'\], which error_limits does not name"),
        (
            {1: 0.1, "b": None},
            np.array([1, "b"] * 30, dtype=object),
            "sample_domain has names without a common order",
        ),
        ({"a": 0.1, "b": None}, SOURCE[:7], r"one entry for each row \(60\), got shape \(7,\)"),
    ],
)
def test_sources_and_limits_must_match(limits, source, message):
    with pytest.raises(ValueError, match=message):
        CombinedBoostClassifier(error_limits=limits).fit(X, y, sample_domain=source)


def test_a_source_without_weight_has_no_rows():
    model = CombinedBoostClassifier(error_limits={"a": 0.1, "b": None})
    with pytest.raises(
        ValueError, match=r"error_limits names \['b'\], but no row of positive weight"
    ):
        model.fit(X, y, sample_weight=(SOURCE == "a").astype(float), sample_domain=SOURCE)


# ------------------------------------------------------------------------------------------ rows


@every_booster
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "sample_weight contains NaN"),
        (np.inf, "sample_weight contains infinity"),
        (-1.0, "`sample_weight`: -1.0 at row 4"),
    ],
)
def test_weights_must_be_finite_and_not_negative(booster, value, message):
    weight = np.ones(60)
    weight[4] = value
    with pytest.raises(ValueError, match=message):
        booster().fit(X, y, sample_weight=weight)


@every_booster
def test_some_weight_must_be_positive(booster):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        booster().fit(X, y, sample_weight=np.zeros(60))


def test_weights_must_match_the_rows():
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(7,\), expected \(60,\)"):
        MABoostClassifier().fit(X, y, sample_weight=np.ones(7))


@every_booster
def test_labels_must_be_known(booster):
    missing = y.astype(float)
    missing[3] = np.nan
    with pytest.raises(ValueError, match="y has 1 missing labels, the first in row 3"):
        booster().fit(X, missing)


def test_labels_must_be_discrete():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        MABoostClassifier().fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"X_val": X}, "X_val and y_val go together"),
        ({"y_val": y}, "X_val and y_val go together"),
        ({"sample_weight_val": np.ones(60)}, "sample_weight_val is given without X_val and y_val"),
        ({"X_val": X, "y_val": y + 1}, r"y_val has classes that are not in y: \[2\]"),
        (
            {"X_val": X, "y_val": y.astype(str)},
            r"y_val has classes that are not in y: \['0', '1'\]",
        ),
        (
            {"X_val": X, "y_val": y[:9]},
            r"y_val must have one label for each of the 60 rows.*\(9,\)",
        ),
        ({"X_val": X, "y_val": y[:, None]}, r"y_val must have one label .* got shape \(60, 1\)"),
        ({"X_val": X[:, :3], "y_val": y}, "X has 3 features, but .* is expecting 5"),
        (
            {"X_val": X, "y_val": y, "sample_weight_val": np.ones(3)},
            r"sample_weight.shape == \(3,\)",
        ),
    ],
)
def test_validation_rows_must_fit(extra, message):
    with pytest.raises(ValueError, match=message):
        MABoostClassifier(n_estimators=3).fit(X, y, **extra)


def test_margins_of_unknown_classes():
    model = MABoostClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match=r"classes the model was not fitted on: \[2\]"):
        model.margins(X, y + 1)


def test_margins_and_stages_take_labels_as_a_fit_does():
    model = MABoostClassifier(n_estimators=3).fit(X, y)
    margins, scores = model.margins(X, y), list(model.staged_score(X, y))
    for labels in (y.tolist(), pd.Series(y, dtype="Int64"), pd.Series(y, dtype="category")):
        np.testing.assert_array_equal(model.margins(X, labels), margins)
        assert list(model.staged_score(X, labels)) == scores
    for column in (y[:, None], pd.DataFrame({"y": y})):
        with pytest.warns(DataConversionWarning, match="column-vector y"):
            np.testing.assert_array_equal(model.margins(X, column), margins)
        assert list(model.staged_score(X, column)) == scores


@pytest.mark.parametrize("short", [y[:1], y[:9]])
def test_margins_and_stages_need_a_label_a_row(short):
    model = MABoostClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.margins(X, short)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        list(model.staged_score(X, short))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        list(model.staged_score(X, y, sample_weight=np.ones(len(short))))


def test_missing_and_mixed_labels_are_told_of():
    names = np.where(y == 1, "yes", "no")
    model = MABoostClassifier(n_estimators=3).fit(X, names)
    missing = np.where(y == 1, "yes", None)
    for ask in (model.margins, lambda X, y: list(model.staged_score(X, y))):
        with pytest.raises(ValueError, match=r"y has .* missing labels, the first in row"):
            ask(X, missing)
    mixed = np.array(["yes", 3, "x"] * 20, dtype=object)
    with pytest.raises(ValueError, match=r"was not fitted on: \[3, 'x'\]"):
        model.margins(X, mixed)
    with pytest.raises(ValueError, match=r"classes that are not in y: \[3, 'x'\]"):
        model.fit(X, names, X_val=X, y_val=mixed)


def test_a_model_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        MABoostClassifier().distribution_  # noqa: B018
    with pytest.raises(NotFittedError):
        MABoostClassifier().suspect_labels()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", [MABoostClassifier(n_estimators=3), HistTreeClassifier()])
def test_huge_values_of_both_signs_raise_no_warning(model, dtype):
    rng = np.random.default_rng(0)
    values = (rng.uniform(-0.9, 0.9, (60, 5)) * np.finfo(dtype).max).astype(dtype)
    labels = values[:, 0] > 0.0
    fitted = clone(model).fit(values, labels)
    np.testing.assert_array_equal(fitted.predict(values), labels)


@pytest.mark.parametrize("model", [MABoostClassifier(n_estimators=3), HistTreeClassifier()])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X.astype("datetime64[s]"), r"X has dtype datetime64\[s\], which is not numeric"),
        (X.astype("timedelta64[D]"), r"X has dtype timedelta64\[D\], which is not numeric"),
        (np.ma.masked_greater(X, 1.0), "X has [1-9][0-9]* masked values"),
    ],
    ids=["dates", "times", "masked"],
)
def test_arrays_that_would_be_read_as_other_numbers_are_refused(model, rows, message):
    with pytest.raises(ValueError, match=message):
        clone(model).fit(rows, y)
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X, y).predict(rows)


# ------------------------------------------------------------------------------------ estimators


class Constant(ClassifierMixin, BaseEstimator):
    """Says the same whatever it is shown."""

    def __init__(self, label=None):
        self.label = label

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.label)

    @property
    def feature_importances_(self):
        return np.zeros(2)


class Improbable(Constant):
    """Its probabilities are none."""

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), self.label)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("value", [np.nan, -0.5, 0.9])
def test_probabilities_that_are_none(n_classes, value):
    y = np.arange(60) % n_classes
    with pytest.raises(ValueError, match="predict_proba of Improbable gave rows that are no prob"):
        MABoostClassifier(Improbable(value), response="proba").fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("label", [-9.0, 0.5, 9.0, np.nan])
def test_votes_for_classes_that_do_not_exist(n_classes, label):
    y = np.arange(60) % n_classes
    with pytest.raises(ValueError, match="predict of Constant returned labels that are not among"):
        MABoostClassifier(Constant(label)).fit(X, y)


@every_booster
def test_an_estimator_without_weights_is_resampled(booster):
    def fit(seed):
        with pytest.warns(ResamplingWarning, match="KNeighborsClassifier takes no") as heard:
            model = booster(KNeighborsClassifier(3), n_estimators=8, random_state=seed).fit(X, y)
        assert len(heard) == 1  # once a fit, however many rounds and trials there are
        assert heard[0].filename == __file__
        return model

    one, again, other = fit(0), fit(0), fit(1)
    np.testing.assert_array_equal(one.estimator_weights_, again.estimator_weights_)
    np.testing.assert_array_equal(one.predict(X), again.predict(X))
    assert not np.array_equal(one.estimator_weights_, other.estimator_weights_)
    assert one.score(X, y) > 0.8
    assert not hasattr(one, "feature_importances_")


def test_an_estimator_that_refuses_a_single_class():
    """Once all the weight is on rows of one class, a constant takes the estimator's place."""
    X, y = np.arange(4.0)[:, None], np.array([0, 0, 1, 0])
    with pytest.raises(ValueError, match="2 classes"):
        LogisticRegression().fit(X, np.zeros(4))
    model = MABoostClassifier(
        LogisticRegression(C=1e-9),
        regularizer="euclidean",
        step=lambda s: Step(3.0),
        n_estimators=2,
    )
    model.fit(X, y)  # the first says 0 everywhere, which leaves all the weight on the third row
    kinds = [type(e).__name__ for e in model.estimators_]
    assert kinds == ["LogisticRegression", "DummyClassifier"]
    np.testing.assert_array_equal(model.history_["rows_used"], [4, 1])
    np.testing.assert_array_equal(model.estimators_[1].predict(X), [1, 1, 1, 1])


@pytest.mark.filterwarnings(
    "ignore::maboost.learners.ResamplingWarning"
)  # pipelines take no weights
def test_a_pipeline_may_fill_in_missing_values():
    rows = np.where(np.arange(len(X))[:, None] % 7, X, np.nan)
    estimator = make_pipeline(SimpleImputer(), DecisionTreeClassifier(max_depth=1))
    model = MABoostClassifier(estimator, n_estimators=3).fit(rows, y)
    assert model.predict(rows).shape == y.shape
    with pytest.raises(ValueError, match="LogisticRegression does not accept missing values"):
        MABoostClassifier(make_pipeline(LogisticRegression())).fit(rows, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_estimator_may_predict_a_column(n_classes):
    class Column(DecisionTreeClassifier):
        def predict(self, X):
            return super().predict(X)[:, None]

    labels = np.arange(len(X)) % n_classes
    votes = [
        MABoostClassifier(kind(max_depth=2, random_state=0), n_estimators=3, random_state=0)
        .fit(X, labels)
        .decision_function(X)
        for kind in (DecisionTreeClassifier, Column)
    ]
    np.testing.assert_array_equal(*votes)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=str)
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), pd.Series])
def test_missing_labels_and_sources_are_named(missing, kind):
    X, names = np.arange(6.0)[:, None], ["a", "b", "a", missing, "b", "a"]
    with pytest.raises(ValueError, match="y has 1 missing labels, the first in row 3"):
        MABoostClassifier().fit(X, kind(names))
    with pytest.raises(ValueError, match="sample_domain has 1 missing sources, the first in row 3"):
        CombinedBoostClassifier(error_limits={"a": None, "b": 0.2}).fit(
            X, np.arange(6) % 2, sample_domain=np.array(names, dtype=object)
        )


def test_rows_on_disk_are_refused_where_they_are_not_taken():
    X, y = np.arange(6.0)[:, None], np.arange(6) % 2
    with pytest.raises(ValueError, match="X_val is str, rows on disk"):
        MABoostClassifier().fit(X, y, X_val="rows.parquet", y_val="y")
    with pytest.raises(ValueError, match="X is str, rows on disk"):
        next(MABoostClassifier(n_estimators=1).fit(X, y).staged_predict("rows.parquet"))


@pytest.mark.parametrize("name", ["y", "sample_weight", "groups", "sample_domain"])
def test_a_column_is_named_for_rows_on_disk_only(name):
    model = CombinedBoostClassifier(n_estimators=1)
    with pytest.raises(
        ValueError, match=f"{name}='size' is the name of a column, which is for rows"
    ):
        model.fit(X, **{"y": y, name: "size"})
    if name in ("y", "sample_weight"):
        with pytest.raises(ValueError, match=f"{name}='size' is the name of a column"):
            model.fit(X, y).score(X, **{"y": y, name: "size"})


def test_a_step_rule_that_returns_a_number_is_told_what_to_return():
    with pytest.raises(TypeError, match=r"must return a maboost.mirror.steps.Step, got 0\.1"):
        MABoostClassifier(step=lambda situation: 0.1).fit(np.arange(6.0)[:, None], np.arange(6) % 2)


@pytest.mark.parametrize("size", [0.0, -0.5, np.nan, np.inf, None, [0.1]])
def test_a_step_that_is_none_is_refused(size):
    """NaN was certified to be right everywhere."""
    X, y = np.arange(6.0)[:, None], np.arange(6) % 2
    with pytest.raises(
        ValueError,
        match=rf"positive and finite size, got Step\(size={re.escape(str(size))}.* round 1",
    ):
        CombinedBoostClassifier(step=lambda situation: Step(size)).fit(X, y)


def test_one_class_has_no_suspects():
    X = np.arange(6.0)[:, None]
    model = MABoostClassifier(n_estimators=3).fit(X, X[:, 0] > 2.0)
    table = model.fit(X, np.full(6, "yes"), sample_weight=[1, 1, 0, 1, 1, 1]).suspect_labels()
    assert table.index.tolist() == [0, 1, 3, 4, 5]
    assert set(table["given_label"]) == set(table["predicted_label"]) == {"yes"}
    assert not table["is_label_issue"].any()


@pytest.mark.parametrize("seed", [28, 35, 39])
def test_certain_samples_of_rows_that_weigh_next_to_nothing(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0.0).astype(int)
    model = MABoostClassifier(n_estimators=20, trim="certain")
    certificate = model.fit(X, y, 10.0 ** rng.uniform(-20, 20, 200)).certificate_
    assert certificate.measured_error <= certificate.error_bound
