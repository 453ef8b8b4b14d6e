"""Parts of the theory as parameters: double projection, the bound of MadaBoost, AdaBoostV, own weak learners."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import random_problem, rounds

from maboost import (
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    load_model,
)
from maboost.boosting import madaboost
from maboost.boosting.recipes import maboost
from maboost.learners import EstimatorLearner, Producer
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    ChiSquareBall,
    Euclidean,
    Hypercube,
    KLBall,
    Orthant,
    Simplex,
    SourceCapped,
)
from maboost.mirror.steps import AdaBoostV
from maboost.testing import check_booster, check_learner

X, Y = load_breast_cancer(return_X_y=True)


def there_and_back(model, tmp_path):
    """The model after a round trip through its file, which keeps predictions, parameters and certificate."""
    path = tmp_path / "model"
    model.save(path)
    loaded = load_model(path)
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.certificate_ == model.certificate_
    again = clone(loaded).fit(X, Y)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    return loaded


def goes_on(model, tmp_path):
    """Whether a fit goes on from its checkpoint, and by `warm_start`, to the bits of one long fit."""
    short = clone(model).set_params(n_estimators=4, checkpoint=tmp_path / "state").fit(X, Y)
    short.set_params(n_estimators=model.n_estimators, resume=True).fit(X, Y)
    warm = clone(model).set_params(n_estimators=4, warm_start=True).fit(X, Y)
    warm.set_params(n_estimators=model.n_estimators).fit(X, Y)
    expected = model.decision_function(X)
    return all(np.array_equal(m.decision_function(X), expected) for m in (short, warm))


# --------------------------------------------------------------------------------------------------
# double projection


@pytest.mark.parametrize(
    "parameters",
    [
        {"regularizer": "euclidean", "via": Orthant(), "step": "maxmargin"},
        {"domain": CappedSimplex(3.0), "via": Simplex(), "step": "paper"},
        {"domain": KLBall(1.0), "via": Simplex(), "step": "paper"},
    ],
)
def test_double_projection_is_a_parameter(parameters, tmp_path):
    model = MABoostClassifier(n_estimators=8, max_depth=2, **parameters).fit(X, Y)
    its = model.certificate_
    assert its.measured_error <= its.error_bound < 1.0
    assert there_and_back(model, tmp_path).via == parameters["via"]
    assert goes_on(model, tmp_path)


def test_the_larger_set_loses_rows_with_the_others():
    weights = (np.arange(len(Y)) % 7 > 0).astype(float)
    caps = np.where(np.arange(len(Y)) % 2, 4.0, np.inf)
    options = {"step": "paper", "n_estimators": 4, "max_depth": 2, "domain": CappedSimplex(3.0)}
    model = MABoostClassifier(via=CappedSimplex(caps), **options).fit(X, Y, sample_weight=weights)
    kept = weights > 0.0
    alone = MABoostClassifier(via=CappedSimplex(caps[kept]), **options).fit(X[kept], Y[kept])
    assert np.array_equal(model.decision_function(X), alone.decision_function(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"via": Orthant()}, "corrective step is not defined with double projection"),
        ({"via": Orthant(), "step": "paper", "update": "lazy"}, "needs update='active'"),
        ({"via": CappedSimplex(2.0), "step": "paper"}, r"via=CappedSimplex\(caps=2.0\) must be a set that"),
        ({"via": "simplex", "step": "paper"}, "'via' parameter"),
    ],
)  # fmt: skip
def test_double_projection_is_refused_where_it_proves_nothing(parameters, message):
    with pytest.raises(ValueError, match=message):
        MABoostClassifier(n_estimators=2, **parameters).fit(X, Y)


SOURCES = np.arange(12) % 3


@pytest.mark.parametrize(
    ("larger", "smaller", "expected"),
    [
        (Simplex(), CappedSimplex(2.0), True),
        (CappedSimplex(3.0), CappedSimplex(2.0), True),
        (CappedSimplex(2.0), CappedSimplex(3.0), False),
        (CappedSimplex(12.0), Simplex(), True),
        (Orthant(), Simplex(), True),
        (Hypercube(12.0), Simplex(), True),
        (Hypercube(2.0), CappedSimplex(3.0), False),
        (KLBall(2.0), KLBall(1.0), True),
        (KLBall(1.0), KLBall(2.0), False),
        (KLBall(math.log(3.0)), CappedSimplex(3.0), True),
        (KLBall(1.0), CappedSimplex(3.0), False),
        (ChiSquareBall(1.0), CappedSimplex(3.0), True),
        (KLBall(2.5), ChiSquareBall(100.0), True),
        (CappedSimplex(2.0), KLBall(1.0), False),
        (SourceCapped(SOURCES, np.array([1.0, 0.5, 0.5])), Simplex(), False),
        (Simplex(), SourceCapped(SOURCES, np.array([1.0, 0.5, 0.5])), True),
        (SourceCapped(SOURCES, np.array([1.0, 0.5, 0.5])), SourceCapped(SOURCES, np.array([1.0, 0.5, 0.4])), True),
        (SourceCapped(SOURCES, np.array([1.0, 0.5, 0.4])), SourceCapped(SOURCES, np.array([1.0, 0.5, 0.5])), False),
        (SourceCapped(SOURCES, np.array([1.0, 0.5, 0.5])), CappedSimplex(1.5), True),
    ],
)  # fmt: skip
def test_which_sets_hold_which(larger, smaller, expected):
    assert larger.includes(smaller, BaseMeasure(np.ones(12))) is expected


# --------------------------------------------------------------------------------------------------
# MadaBoost's bound


@pytest.mark.parametrize("bound", [1.0, 2.0, 20.0])
def test_weights_stay_below_the_bound(bound, tmp_path):
    model = MadaBoostClassifier(bound=bound, n_estimators=8, learning_rate=1.0).fit(X, Y)
    margins = np.where(Y, 1.0, -1.0) * model.decision_function(X)
    weights = np.minimum(bound, np.exp(-margins))
    np.testing.assert_allclose(model.distribution_, weights / weights.sum(), rtol=1e-9)
    assert model.certificate_.measured_error <= model.certificate_.error_bound
    assert there_and_back(model, tmp_path).bound == bound
    assert goes_on(model, tmp_path)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("step", ["corrective", "paper"])
@pytest.mark.parametrize("bound", [1.5, 10.0])
def test_certificates_hold_for_every_bound(bound, step, n_classes):
    check_booster(madaboost(step, bound=bound), n_classes=n_classes)


@pytest.mark.parametrize("bound", [1.0, 1.5, 10.0])
def test_the_potential_and_its_rate_are_those_of_the_bound(bound):
    """Error <= sum D psi(-M), and sum of error * edge^2 <= 2 (1 - error), for every bound."""
    for seed in range(10):
        p = random_problem(np.random.default_rng(seed), 30, 20, skill=0.65)
        run = p.run(madaboost(bound=bound))
        error, spent = 1.0, 0.0
        for record in rounds(run, 60):
            spent += error * record.edge**2
            error = record.train_error
            x = -run.margins
            top = math.log(bound)
            psi = np.where(x <= top, np.exp(np.minimum(x, top)), bound * (1.0 + x - top))
            potential = run.measure.integral(psi)
            assert error <= potential + 1e-12
            assert record.error_bound == pytest.approx(min(potential, 1.0), abs=1e-9)
            assert spent <= 2.0 * (1.0 - potential) + 1e-9


def test_a_bound_of_one_is_as_before():
    before = MadaBoostClassifier(n_estimators=5).fit(X, Y)
    assert before.bound == 1.0
    assert np.all(before.history_["smoothness"] > 0.0)


@pytest.mark.parametrize("bound", [0.5, -1.0, math.nan, math.inf])
def test_bounds_that_are_none_are_refused(bound):
    with pytest.raises(ValueError, match="'bound' parameter"):
        MadaBoostClassifier(bound=bound).fit(X, Y)
    with pytest.raises(ValueError, match="bound must be finite and at least 1"):
        madaboost(bound=bound)


def test_streams_have_no_other_bound():
    with pytest.raises(ValueError, match=r"fit_stream cannot heed bound=2\.0"):
        MadaBoostClassifier(bound=2.0).fit_stream([(X, Y)])


# --------------------------------------------------------------------------------------------------
# AdaBoostV


def best_margin(losses: np.ndarray) -> float:
    """The largest smallest margin, by a linear program."""
    m, n = losses.shape
    found = linprog(
        np.r_[np.zeros(m), -1.0], A_ub=np.c_[losses.T, np.ones(n)], b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(m), 0.0][None, :], b_eq=[1.0], bounds=[(0, None)] * m + [(None, None)],
    )  # fmt: skip
    return float(-found.fun)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("response", ["votes", "real"])
def test_the_margin_is_within_nu_of_the_largest(response, n_classes):
    """Rätsch and Warmuth's theorem: after 2 log(1/D_min) / nu^2 rounds, with an exact learner."""
    nu, tried = 0.1, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = random_problem(rng, 12, 12, n_classes, response, skill=0.85)
        if p.closed_under_negation:
            p = type(p)(p.labels, p.weights, np.concatenate([p.tables, -p.tables]))
        best = best_margin(p.losses())
        run = p.run(maboost(step=AdaBoostV(nu)))
        enough = math.ceil(2.0 * math.log(1.0 / run.measure.entries.min()) / nu**2)
        records = list(rounds(run, enough))
        if len(records) < enough:
            continue
        tried += 1
        if tried > 5:
            break
        assert records[-1].min_margin >= min(r.edge for r in records) - nu - 1e-9
        assert records[-1].min_margin >= best - nu - 1e-9
        assert records[-1].min_margin <= best + 1e-9
        for record in records:
            assert record.train_error <= record.error_bound
            assert record.soft_margin >= record.margin_bound - 1e-12
    assert tried >= 4


def test_the_steps_are_those_of_the_paper():
    p = random_problem(np.random.default_rng(1), 20, 12, skill=0.7)
    records = list(rounds(p.run(maboost(step="adaboostv")), 30))
    assert len(records) == 30
    least = math.inf
    for record in records:
        least = min(least, record.edge)
        rho = least - 0.1
        expected = 0.5 * math.log((1 + record.edge) / (1 - record.edge))
        expected -= 0.5 * math.log((1 + rho) / (1 - rho))
        assert record.step == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("step", ["adaboostv", AdaBoostV(0.03)])
def test_adaboostv_is_stored_and_goes_on(step, tmp_path):
    stumps = HistTreeClassifier(max_depth=1, response="sign")
    model = MABoostClassifier(stumps, step=step, n_estimators=20).fit(X, Y)
    assert there_and_back(model, tmp_path).step == step
    assert goes_on(model, tmp_path)
    iris = clone(model).fit(*load_iris(return_X_y=True))
    assert iris.certificate_.measured_error <= iris.certificate_.error_bound


@pytest.mark.parametrize(
    ("booster", "message"),
    [
        (MABoostClassifier(regularizer="euclidean", step="adaboostv"), "defined for entropy on the simplex"),
        (MABoostClassifier(domain=CappedSimplex(3.0), step="adaboostv"), "defined for entropy on the simplex"),
        (MABoostClassifier(domain=KLBall(3.0), step="adaboostv"), "defined for entropy on the simplex"),
        (MABoostClassifier(via=Orthant(), step="adaboostv"), "defined for entropy on the simplex"),
        (SmoothBoostClassifier(step=AdaBoostV()), "defined for entropy on the simplex"),
        (SparseBoostClassifier(step="adaboostv"), "defined for entropy on the simplex"),
        (MadaBoostClassifier(step="adaboostv"), "defined for entropy on the simplex"),
        (MABoostClassifier(learning_rate=0.5, step="adaboostv"), r"needs whole steps, got learning_rate=0\.5"),
    ],
)  # fmt: skip
def test_adaboostv_is_refused_where_it_means_nothing(booster, message):
    with pytest.raises(ValueError, match=message):
        booster.fit(X, Y)


@pytest.mark.parametrize("nu", [0.0, 1.0, -1.0, math.nan, "x"])
def test_accuracies_that_are_none_are_refused(nu):
    with pytest.raises(ValueError, match=r"AdaBoostV: nu must be in \(0, 1\)"):
        AdaBoostV(nu)


def test_a_hypothesis_that_is_right_everywhere_ends_the_run():
    rows = np.arange(10.0)[:, None]
    model = MABoostClassifier(step="adaboostv", n_estimators=5).fit(rows, np.arange(10) > 4)
    assert len(model) == 1
    assert model.certificate_.error_bound < 0.1


# --------------------------------------------------------------------------------------------------
# weak learners of one's own


@dataclass
class Sign:
    """The sign of one column at a threshold."""

    column: int
    threshold: float
    sign: float

    def scores(self, rows):
        return self.sign * np.where(rows[:, self.column] > self.threshold, 1.0, -1.0)


@dataclass
class Signs:
    """An exact learner: the best sign of one of a few thresholds."""

    thresholds: int = 5
    exact = True
    closed_under_negation = True
    takes_costs = False

    def prepare(self, rows, labels, n_classes):
        return SignsProducer(self, np.asarray(rows), 2.0 * labels - 1.0)


class SignsProducer(Producer):
    def __init__(self, learner, rows, signs):
        shares = np.linspace(0.1, 0.9, learner.thresholds)
        cuts = np.quantile(rows, shares, axis=0)
        self.rows, self.signs = rows, signs
        self.all = [Sign(j, cut, 1.0) for j in range(rows.shape[1]) for cut in cuts[:, j]]

    def produce(self, weights, rows, rewards, random_state):
        part = slice(None) if rows is None else rows
        shown, signs = self.rows[part], self.signs[part]
        edges = np.array([math.fsum(weights * signs * h.scores(shown)) for h in self.all])
        best = int(np.argmax(np.abs(edges)))
        return Sign(
            self.all[best].column, self.all[best].threshold, float(np.sign(edges[best]) or 1.0)
        )

    def training_scores(self, hypothesis):
        return hypothesis.scores(self.rows)


@pytest.mark.parametrize(
    "booster",
    [MABoostClassifier, SmoothBoostClassifier, SparseBoostClassifier, MadaBoostClassifier],
)
def test_a_weak_learner_of_ones_own_is_boosted(booster):
    check_learner(Signs(), X, Y)
    model = booster(Signs(7), n_estimators=15).fit(X, Y)
    its = model.certificate_
    assert its.exact
    assert its.measured_error <= its.error_bound
    assert its.soft_margin <= its.best_margin_bound + 1e-9
    assert all(isinstance(h, Sign) for h in model.estimators_)
    votes = sum(
        w * h.scores(X) for w, h in zip(model.estimator_weights_, model.estimators_, strict=True)
    )
    np.testing.assert_allclose(model.decision_function(X), votes, rtol=1e-12, atol=1e-12)
    assert 0.0 < model.score(X, Y) <= 1.0
    assert model.predict_proba(X).shape == (len(Y), 2)
    assert clone(model).get_params(deep=False)["estimator"] == Signs(7)
    assert repr(model)


def test_a_learner_of_the_library_gives_the_same_model_as_its_estimator():
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    learner = EstimatorLearner(tree, np.array([0, 1]))
    one = MABoostClassifier(learner, n_estimators=6, random_state=0).fit(X, Y)
    two = MABoostClassifier(tree, n_estimators=6, random_state=0).fit(X, Y)
    assert np.array_equal(one.decision_function(X), two.decision_function(X))


def test_a_fit_with_a_weak_learner_goes_on_by_warm_start():
    whole = MABoostClassifier(Signs(), n_estimators=8).fit(X, Y)
    part = MABoostClassifier(Signs(), n_estimators=3, warm_start=True).fit(X, Y)
    part.set_params(n_estimators=8).fit(X, Y)
    assert np.array_equal(part.decision_function(X), whole.decision_function(X))
    early = MABoostClassifier(Signs(), n_estimators=8, early_stopping=True).fit(X, Y)
    assert early.best_iteration_ >= 1


def test_what_a_weak_learner_cannot_have_is_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match="response='proba' says which answer of a classifier"):
        MABoostClassifier(Signs(), response="proba").fit(X, Y)
    with pytest.raises(ValueError, match=r"max_depth=2 is for the booster's own trees"):
        MABoostClassifier(Signs(), max_depth=2).fit(X, Y)
    with pytest.raises(ValueError, match="this model boosts Signs"):
        MABoostClassifier(Signs(), checkpoint=tmp_path / "state").fit(X, Y)
    model = MABoostClassifier(Signs(), n_estimators=2).fit(X, Y)
    with pytest.raises(ValueError, match="this one boosts Signs"):
        model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="'estimator' parameter"):
        MABoostClassifier(object()).fit(X, Y)


def test_a_euclidean_booster_over_a_learner_of_ones_own_agrees_with_the_list_of_its_hypotheses():
    model = MABoostClassifier(Signs(), regularizer=Euclidean(), n_estimators=10).fit(X, Y)
    for record in model.history_.records:
        assert record.train_error <= record.error_bound
