"""Boosting over balls: certificates on random runs, and the whole way from the estimator to its file."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from tests.helpers import examples, random_problem, rounds, seeds
from tests.implementations import Elastic, ElasticBall

from maboost import MABoostClassifier, load_model, margin_certificate, reweight
from maboost.boosting.recipes import maboost
from maboost.engine import project
from maboost.mirror import ChiSquareBall, Entropy, Euclidean, KLBall
from maboost.mirror.soft_margin import linear_minimum
from maboost.mirror.steps import Step

GEOMETRIES = [
    (Entropy(), KLBall(0.2)), (Entropy(), KLBall(2.0)), (Euclidean(), ChiSquareBall(0.2)),
    (Euclidean(), ChiSquareBall(2.0)), (Entropy(), ChiSquareBall(1.0)), (Euclidean(), KLBall(1.0)),
    (Elastic(), ElasticBall(0.5)),
]  # fmt: skip


@examples(50)
@given(
    seeds,
    st.sampled_from(GEOMETRIES),
    st.sampled_from(["active", "lazy"]),
    st.sampled_from(["corrective", "paper", "maxmargin"]),
    st.sampled_from([2, 4]),
    st.sampled_from(["votes", "real"]),
)
def test_no_certificate_is_violated(seed, geometry, update, step, n_classes, response):
    regularizer, ball = geometry
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 14, 8, n_classes, response, skill=rng.uniform(0.55, 0.95))
    run = p.run(maboost(regularizer, ball, update, step))
    one = float(regularizer.phi(np.ones(1))[0])
    for record in rounds(run, 25):
        assert record.gain >= 0.0
        assert record.train_error <= record.error_bound + 1e-12
        assert record.soft_margin >= record.margin_bound - 1e-12
        u = run.state.density
        assert ball.contains(u, run.measure, 1e-11)
        cost = run.measure.integral(regularizer.phi(u)) - one
        reached = run.measure.integral(u * run.margins)
        assert reached >= run.gain - cost - 1e-9 * (1.0 + abs(reached))
        soft = linear_minimum(run.margins, ball, run.measure, projection=project)
        assert reached >= soft - 1e-12 * (1.0 + abs(reached))


@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize(("regularizer", "ball"), GEOMETRIES[:4])
def test_certificates_hold_for_steps_of_any_length(regularizer, ball, update):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p = random_problem(rng, 12, 8, skill=0.6)
        sizes = 10.0 ** rng.uniform(-3.0, 9.0, size=400)

        def step(situation, sizes=sizes):
            return Step(float(sizes[situation.round - 1]))

        for record in rounds(p.run(maboost(regularizer, ball, update, step)), 100):
            assert record.train_error <= record.error_bound
            assert record.soft_margin >= record.margin_bound


def test_the_least_edge_bounds_the_soft_margin_of_every_run_on_the_ball():
    for seed in range(5):
        p = random_problem(np.random.default_rng(seed), 12, 8, skill=0.85)
        tables = np.concatenate([p.tables, -p.tables]) if p.closed_under_negation else p.tables
        p = type(p)(p.labels, p.weights, tables)
        records = [
            list(rounds(p.run(maboost(regularizer, KLBall(1.0), step=step)), 60))
            for regularizer in (Entropy(), Euclidean())
            for step in ("corrective", "maxmargin")
        ]
        least = min((r.edge for some in records for r in some), default=math.inf)
        reached = max((some[-1].soft_margin for some in records if some), default=-math.inf)
        assert reached <= least + 1e-9


# --------------------------------------------------------------------------------------------------
# the classifier


@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize(("regularizer", "ball"), GEOMETRIES[:6])
@pytest.mark.parametrize("data", [load_breast_cancer, load_iris])
def test_the_classifier_boosts_over_a_ball(data, regularizer, ball, update, tmp_path):
    X, y = data(return_X_y=True)
    model = MABoostClassifier(
        domain=ball, regularizer=regularizer, update=update, n_estimators=8, max_depth=2, n_jobs=1
    )
    model.fit(X, y)
    its = model.certificate_
    assert its.measured_error <= its.error_bound
    assert its.margin_bound <= its.soft_margin
    classes, radius = len(model.classes_), ball.radius
    level = math.exp(-radius) if isinstance(ball, KLBall) else 1.0 / (1.0 + 2.0 * radius)
    assert its.floor == pytest.approx(min((classes - 1) * level, 1.0), rel=1e-9)
    assert "nothing is promised below" in str(its)
    path = tmp_path / "model.maboost"
    model.save(path)
    loaded = load_model(path)
    assert loaded.domain == ball
    assert loaded.certificate_ == its
    assert str(loaded[:4].certificate_) == str(model[:4].certificate_)
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    threads = clone(model).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(threads.decision_function(X), model.decision_function(X))


def test_a_fit_over_a_ball_goes_on_from_its_checkpoint(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    whole = MABoostClassifier(domain=KLBall(1.0), n_estimators=12, max_depth=2).fit(X, y)
    part = MABoostClassifier(
        domain=KLBall(1.0), n_estimators=5, max_depth=2, checkpoint=tmp_path / "state"
    )
    part.fit(X, y)
    part.set_params(n_estimators=12, resume=True).fit(X, y)
    assert np.array_equal(part.decision_function(X), whole.decision_function(X))
    assert part.certificate_ == whole.certificate_
    with pytest.raises(ValueError, match=r"domain was KLBall\(radius=1\.0\) and is now"):
        part.set_params(domain=KLBall(2.0)).fit(X, y)


def test_a_weight_of_two_is_the_row_twice():
    X, y = load_breast_cancer(return_X_y=True)
    X, y, twice = X[:200], y[:200], np.arange(200) % 3 == 0
    weighted = MABoostClassifier(domain=KLBall(0.8), n_estimators=6, max_depth=2)
    weighted.fit(X, y, sample_weight=1.0 + twice)
    repeated = clone(weighted).fit(np.r_[X, X[twice]], np.r_[y, y[twice]])
    np.testing.assert_allclose(
        repeated.decision_function(X), weighted.decision_function(X), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("regularizer", "ball"), [("entropy", KLBall(1.0)), ("euclidean", ChiSquareBall(1.0))]
)
@pytest.mark.parametrize("data", [load_breast_cancer, load_iris])
def test_ensembles_are_certified_and_reweighted_over_a_ball(data, regularizer, ball):
    X, y = data(return_X_y=True)
    forest = RandomForestClassifier(20, max_depth=2, random_state=0).fit(X, y)
    options = {"domain": ball, "regularizer": regularizer}
    before = margin_certificate(forest, X, y, **options)
    assert before.measured_error <= before.error_bound
    after = reweight(forest, X, y, tolerance=0.02, **options).certificate_
    assert after.soft_margin >= before.soft_margin - 0.02
    assert 0.0 <= after.gap <= 0.02
