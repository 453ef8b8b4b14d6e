"""Models whose votes are all refitted after each round: MarginBoostClassifier and step="total"."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.tree import DecisionTreeClassifier
from tests.boosting.test_refit import best_soft_margin

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MarginBoostClassifier,
    ModelFormatError,
    SmoothBoostClassifier,
    load_model,
    write_report,
)
from maboost.boosting import Game
from maboost.io.container import pack, unpack
from maboost.mirror import BaseMeasure, CappedSimplex, Simplex
from maboost.plot import MarginDisplay

CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
NOISY = make_classification(400, 8, n_informative=4, flip_y=0.3, random_state=0)

MODELS = {
    "margin": MarginBoostClassifier(),
    "hard margin": MarginBoostClassifier(smoothness=np.inf, tolerance=0.05),
    "euclidean": MarginBoostClassifier(regularizer="euclidean", tolerance=0.05),
    "trees": MarginBoostClassifier(max_depth=2, n_estimators=25),
    "total": MABoostClassifier(update="lazy", step="total", n_estimators=25, max_depth=1),
    "smooth": SmoothBoostClassifier(
        smoothness=8.0, update="lazy", step="total", learning_rate=1.0, max_leaf_nodes=3
    ),
    "foreign": MABoostClassifier(
        DecisionTreeClassifier(max_depth=2), update="lazy", step="total", n_estimators=10
    ),
}

every_model = pytest.mark.parametrize("name", MODELS)


@every_model
@pytest.mark.parametrize("data", [NOISY, IRIS], ids=["binary", "three classes"])
def test_the_model_is_that_of_its_records(name, data):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 3, len(y)) * 1.0
    model = clone(MODELS[name]).fit(X, y, weight)
    last, certificate = model.history_.records[-1], model.certificate_
    wrong = np.average(model.predict(X) != y, weights=weight)
    assert last.train_error == certificate.measured_error == pytest.approx(wrong, abs=1e-12)
    assert certificate.measured_error <= certificate.error_bound
    assert certificate.margin_bound <= certificate.soft_margin
    assert certificate.rounds == model.n_iter_ == len(model.history_) >= len(model) > 0
    assert model.estimator_weights_.min() > 0.0
    assert len(model.estimators_) == len(model) == len(model.estimator_errors_)
    assert model.margins(X, y)[weight > 0.0].min() == pytest.approx(
        certificate.min_margin, abs=1e-12
    )
    assert model.distribution_.sum() == pytest.approx(1.0)


@every_model
def test_equal_rows_have_the_weight_of_one(name):
    X, y = NOISY
    times = np.random.default_rng(1).integers(1, 4, len(y))
    options = {} if MODELS[name].estimator is not None else {"min_samples_leaf": 1}
    model = clone(MODELS[name]).set_params(n_estimators=6, **options)
    one = clone(model).fit(X, y, times)
    other = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(
        one.decision_function(X) / one.estimator_weights_.sum(),
        other.decision_function(X) / other.estimator_weights_.sum(),
        atol=1e-6,
    )


@every_model
def test_threads_change_no_bit(name):
    X, y = NOISY
    model = clone(MODELS[name]).set_params(n_estimators=8, random_state=0)
    one, other = (clone(model).set_params(n_jobs=n).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert one.certificate_ == other.certificate_


def stumps(X, y, n_classes):
    """The margins of all voting stumps with a border between two values, and of the constant votes."""
    game = Game(y, n_classes)
    ones = np.eye(n_classes)
    columns = [np.tile(ones[k], (len(y), 1)) for k in range(n_classes)]
    for x in X.T:
        values = np.unique(x)
        for border in 0.5 * (values[:-1] + values[1:]):
            for low in range(n_classes):
                for high in range(n_classes):
                    if low != high:
                        columns.append(np.where((x <= border)[:, None], ones[low], ones[high]))
    return -np.array([game.loss(scores) for scores in columns])


@pytest.mark.parametrize("smoothness", [1.5, 4.0, np.inf])
@pytest.mark.parametrize(
    ("X", "y"), [(CANCER[0][::4, :3], CANCER[1][::4]), (IRIS[0][::2], IRIS[1][::2])], ids=["2", "3"]
)
def test_stumps_have_the_largest_soft_margin(smoothness, X, y):
    """Against the linear program over all stumps."""
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = MarginBoostClassifier(smoothness=smoothness, tolerance=0.02).fit(X, y, weight)
    n_classes = len(model.classes_)
    measure = BaseMeasure(weight, n_classes - 1)
    domain = Simplex() if np.isinf(smoothness) else CappedSimplex(smoothness)
    best = best_soft_margin(stumps(X, y, n_classes), measure, domain)
    certificate = model.certificate_
    assert certificate.exact
    assert certificate.stopped == "the soft margin is within tolerance=0.02 of the best"
    assert -1e-9 <= best - certificate.soft_margin <= certificate.gap + 1e-9
    assert certificate.gap <= 0.02
    assert "best possible" in str(certificate)


def test_other_trees_are_indicative():
    model = clone(MODELS["trees"]).fit(*CANCER)
    assert not model.certificate_.exact
    assert "the learner is not exact over its class" in str(model.certificate_)


@pytest.mark.parametrize("name", ["total", "margin"])
def test_a_bound_is_reached_in_fewer_rounds(name):
    X, y = NOISY
    if name == "total":
        single = MABoostClassifier(max_depth=1, n_estimators=60).fit(X, y).history_
        total = clone(MODELS[name]).set_params(n_estimators=60).fit(X, y).history_
        bound = single["error_bound"][-1]
        assert np.argmax(total["error_bound"] <= bound) < 45
    else:
        stump = HistTreeClassifier(max_depth=1, response="sign", min_samples_leaf=1)
        single = SmoothBoostClassifier(
            stump, smoothness=4.0, learning_rate=1.0, n_estimators=200, early_stopping=False
        ).fit(X, y)
        margin = clone(MODELS[name]).fit(X, y)
        assert margin.n_iter_ < 200
        assert margin.certificate_.soft_margin > single.certificate_.soft_margin


# ------------------------------------------------------------------------------------ around the fit


@pytest.mark.parametrize("name", ["margin", "total"])
def test_early_stopping_keeps_the_votes_of_the_best_round(name):
    X, y = NOISY
    rest, watching = slice(0, 300), slice(300, None)
    model = clone(MODELS[name]).set_params(
        n_estimators=40, early_stopping=True, n_iter_no_change=5, scoring="accuracy"
    )
    model.fit(X[rest], y[rest], X_val=X[watching], y_val=y[watching])
    assert model.n_iter_ < len(model.history_)
    short = clone(MODELS[name]).set_params(n_estimators=model.n_iter_).fit(X[rest], y[rest])
    np.testing.assert_array_equal(short.decision_function(X), model.decision_function(X))
    errors = model.history_["val_error"]
    assert errors[model.n_iter_ - 1] == pytest.approx(
        np.mean(model.predict(X[watching]) != y[watching])
    )


@pytest.mark.parametrize("name", ["margin", "total"])
def test_there_are_no_stages(name):
    X, y = NOISY
    model = clone(MODELS[name]).set_params(n_estimators=6).fit(X, y)
    assert not model.has_stages
    for stage in (
        lambda: next(model.staged_predict(X)),
        lambda: next(model.staged_decision_function(X)),
        lambda: next(model.staged_predict_proba(X)),
        lambda: next(model.staged_score(X, y)),
    ):
        with pytest.raises(
            ValueError, match=r"only the last votes are kept\. For the model of n rounds"
        ):
            stage()
    with pytest.raises(ValueError, match=r"cannot be cut to \[:3\].*Fit with n_estimators=3"):
        model[:3]
    assert model[:].certificate_.gain == model.certificate_.gain
    assert MABoostClassifier(n_estimators=2).fit(X, y).has_stages


@pytest.mark.parametrize("name", ["margin", "total", "smooth"])
@pytest.mark.parametrize("data", [NOISY, IRIS], ids=["binary", "three classes"])
def test_models_are_saved_exported_and_shown(name, data, tmp_path):
    X, y = data
    model = clone(MODELS[name]).set_params(random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.estimator_errors_, model.estimator_errors_)
    assert loaded.certificate_ == model.certificate_
    assert (loaded.n_iter_, len(loaded)) == (model.n_iter_, len(model))
    assert not loaded.has_stages
    exported = model.to_lightgbm().predict(X, raw_score=True)
    np.testing.assert_allclose(exported, model.decision_function(X), rtol=1e-9, atol=1e-9)
    write_report(model, tmp_path / "report.html", X=X, y=y, X_test=X, y_test=y)
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert MarginDisplay.from_estimator(model, X, y).rounds == [model.n_iter_]


def test_a_file_with_impossible_rounds_is_refused(tmp_path):
    path = tmp_path / "model"
    model = clone(MODELS["margin"]).fit(*NOISY)
    model.save(path)
    arrays, document = unpack(path.read_bytes())
    good = arrays["estimator_rounds"]
    for bad in (good[::-1].copy(), good + len(model.history_), good - 1, np.full_like(good, 1)):
        path.write_bytes(pack(arrays | {"estimator_rounds": bad}, json.loads(json.dumps(document))))
        with pytest.raises(ModelFormatError, match="'estimator_rounds' must rise"):
            load_model(path)


def test_what_cannot_be_is_refused_in_words():
    X, y = NOISY
    with pytest.raises(ValueError, match='step="total" needs update="lazy"'):
        MABoostClassifier(step="total").fit(X, y)
    with pytest.raises(ValueError, match=r"needs learning_rate=1\.0, got learning_rate=0.1"):
        SmoothBoostClassifier(smoothness=4.0, step="total", update="lazy").fit(X, y)
    with pytest.raises(ValueError, match='regularizer="entropy", or a finite smoothness'):
        MarginBoostClassifier(regularizer="euclidean", smoothness=np.inf).fit(X, y)
    with pytest.raises(ValueError, match="'step' parameter of CombinedBoostClassifier"):
        CombinedBoostClassifier(step="total").fit(X, y, sample_domain=y)


def test_trimming_keeps_the_certificate():
    X, y = NOISY
    for name in ("margin", "total"):
        model = clone(MODELS[name]).set_params(trim=0.1, n_estimators=15).fit(X, y)
        certificate = model.certificate_
        assert certificate.measured_error <= certificate.error_bound
        assert certificate.margin_bound <= certificate.soft_margin
        assert not certificate.exact
