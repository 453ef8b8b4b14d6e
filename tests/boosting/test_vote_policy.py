"""Votes that are all refitted after each round: optimal, certified, and the same for any threads and shards."""

import math
from itertools import islice

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.boosting.test_refit import best_soft_margin, some_problem
from tests.helpers import REGULARIZERS, Pool, random_problem

from maboost.boosting import Booster, Game, Run, Validation, maboost, softmargin
from maboost.boosting.vote_policy import ErrorRefit, MarginRefit
from maboost.engine.dispatch import project
from maboost.mirror import BaseMeasure, CappedSimplex, Entropy, Euclidean, MirrorAscent, Simplex
from maboost.mirror.potential import DualPotential


def run_of(booster, problem, n_classes, **more):
    n = len(problem.labels)
    measure = BaseMeasure(problem.weights, n_classes - 1)
    return Run(
        booster, Pool(problem.tables), np.arange(n), Game(problem.labels, n_classes), problem.weights,
        measure, np.random.RandomState(0), **more,
    )  # fmt: skip


def hard_problem(seed, n_classes=2, n=80):
    """Labels that the votes of 25 weak hypotheses do not separate."""
    rng = np.random.default_rng(seed)
    return random_problem(rng, n, 25, n_classes, "real", weighted=True, skill=0.52)


ERROR_BOOSTERS = [
    Booster(MirrorAscent(regularizer, domain, "lazy"), ErrorRefit())
    for regularizer in REGULARIZERS.values()
    for domain in (Simplex(), CappedSimplex(2.0))
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("booster", ERROR_BOOSTERS, ids=str)
def test_no_past_hypothesis_has_an_edge(booster, n_classes):
    problem = hard_problem(1, n_classes)
    run = run_of(booster, problem, n_classes)
    tables = []
    for t, round in enumerate(islice(run, 15), 1):
        tables.append(round.hypothesis.table)
        assert round.weights.shape == (t,)
        assert round.weights.min() >= 0.0
        assert round.record.step == round.weights[-1]
        losses = [run.game.loss(table) for table in tables]
        edges = np.array([-run.measure.integral(run.state.density * d) for d in losses])
        if run.ended is None:
            assert edges.max() <= booster.step.tolerance + 1e-12
            assert edges[round.weights > 0.0].min() >= -booster.step.tolerance - 1e-12
        else:
            assert "floor" in run.ended
            assert round.record.error_bound == pytest.approx(run.bound.floor, abs=1e-3)
        expected = -np.tensordot(round.weights, losses, axes=1)
        np.testing.assert_allclose(run.margins, expected, atol=1e-12)
        assert run.total_step == pytest.approx(math.fsum(round.weights), rel=1e-14)
    assert run.rounds >= 3


@pytest.mark.parametrize("regularizer", REGULARIZERS.values(), ids=REGULARIZERS)
@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(2.0)], ids=["simplex", "caps"])
@pytest.mark.parametrize("step", [ErrorRefit(), MarginRefit(0.1)], ids=["error", "margin"])
def test_certificates_are_exact(regularizer, domain, step):
    """The gain is that of the votes, and the inequality of gains holds for every distribution."""
    problem = hard_problem(2)
    run = run_of(Booster(MirrorAscent(regularizer, domain, "lazy"), step), problem, 2)
    potential = DualPotential(regularizer, domain, run.measure)
    rng = np.random.default_rng(0)
    one = float(regularizer.phi(np.array([1.0]))[0])
    for round in islice(run, 10):
        record, margins = round.record, run.margins
        assert run.gain == pytest.approx(potential.gain(margins), rel=1e-9, abs=1e-9)
        assert record.train_error <= record.error_bound
        assert record.soft_margin >= record.margin_bound
        assert domain.contains(run.state.density, run.measure)
        for scale in (0.3, 3.0, 30.0):
            u = project(
                regularizer, domain, rng.normal(size=margins.size) * scale, run.measure
            ).density
            cost = run.measure.integral(regularizer.phi(u)) - one
            assert run.measure.integral(u * margins) >= run.gain - cost - 1e-9


@pytest.mark.parametrize("booster", ERROR_BOOSTERS[:4], ids=str)
def test_a_refit_gains_at_least_the_corrective_step(booster):
    """From the same votes no step along the new hypothesis alone gains more, up to the tolerance."""
    problem = hard_problem(3)
    run = run_of(booster, problem, 2)
    ascent = booster.ascent
    potential = DualPotential(ascent.regularizer, ascent.domain, run.measure)
    margins, before, votes = np.zeros(len(problem.labels)), 0.0, 0.0
    for round in islice(run, 12):
        d = run.game.loss(round.hypothesis.table)
        alone = minimize_scalar(
            lambda s, m=margins, d=d: -potential.gain(m - s * d),
            bounds=(0.0, 8.0),
            method="bounded",
        )
        slack = booster.step.tolerance * (votes + run.total_step + alone.x)
        assert run.gain >= -alone.fun - slack - 1e-9
        assert run.gain >= before - 1e-12
        margins, before, votes = run.margins.copy(), run.gain, run.total_step


@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_below_that_of_single_steps(regularizer, seed):
    problem = hard_problem(seed)
    total = run_of(maboost(regularizer, step="total", update="lazy"), problem, 2)
    stagewise = run_of(maboost(regularizer), problem, 2)
    *_, (one, other) = islice(zip(total, stagewise, strict=False), 12)
    assert one.record.round == other.record.round >= 10
    assert one.record.error_bound <= other.record.error_bound


@pytest.mark.parametrize("seed", range(20))
def test_the_soft_margin_is_within_the_tolerance_of_the_best(seed):
    """Binary and multiclass, with weights and without, caps from 1.5 to none, against HiGHS."""
    problem, _, measure, domain = some_problem(seed)
    tolerance = 0.01
    n_classes = measure.width + 1
    regularizer = (Entropy(), Entropy(), Euclidean(), Entropy())[seed % 4]
    booster = Booster(MirrorAscent(regularizer, domain, "lazy"), MarginRefit(tolerance))
    run = run_of(booster, problem, n_classes)
    records = [round.record for round in islice(run, 400)]
    best = best_soft_margin(-problem.losses(), measure, domain)
    assert "within tolerance" in run.ended
    gaps = [
        min(r.edge for r in records[: t + 1]) - record.soft_margin
        for t, record in enumerate(records)
    ]
    for gap, record in zip(gaps, records, strict=True):
        assert best - record.soft_margin >= -1e-9
        assert gap >= best - record.soft_margin - 1e-9
    assert gaps[-1] <= tolerance
    assert best - records[-1].soft_margin <= tolerance
    assert records[-1].margin_bound <= records[-1].soft_margin
    assert records[-1].margin_bound >= records[-1].soft_margin - tolerance


def test_a_smaller_tolerance_is_nearer():
    problem = hard_problem(5)
    measure = BaseMeasure(problem.weights)
    best = best_soft_margin(-problem.losses(), measure, CappedSimplex(4.0))
    for tolerance in (0.1, 0.01, 0.001):
        run = run_of(softmargin(4.0, tolerance=tolerance), problem, 2)
        *_, last = islice(run, 400)
        assert "within tolerance" in run.ended
        assert 0.0 <= best - last.record.soft_margin <= tolerance


def test_a_learner_that_is_not_exact_is_named():
    problem = hard_problem(5)
    run = run_of(softmargin(4.0, tolerance=0.05), problem, 2)
    run.exact = False
    for _ in islice(run, 200):
        pass
    assert "indicative: the learner is not exact" in run.ended


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "booster", [maboost(step="total", update="lazy"), softmargin(3.0)], ids=["error", "margin"]
)
def test_a_run_goes_on_from_a_snapshot(booster, n_classes):
    problem = hard_problem(4, n_classes)
    game = Game(problem.labels, n_classes)
    watching = Validation(np.arange(80), game, np.full(80, 1 / 80))
    runs = [run_of(booster, problem, n_classes, validation=watching) for _ in range(3)]
    long = [round.record for round in islice(runs[0], 8)]
    for _ in islice(runs[1], 3):
        pass
    snapshot = runs[1].snapshot()
    for _ in islice(runs[1], 2):  # the snapshot must not change
        pass
    runs[2].restore(snapshot)
    rest = [round.record for round in islice(runs[2], 5)]
    for one, other in zip(long[3:], rest, strict=True):
        for name in ("edge", "step", "gain", "error_bound", "val_error", "soft_margin"):
            assert getattr(one, name) == getattr(other, name)


def test_votes_on_validation_rows_are_those_of_all_hypotheses():
    problem = hard_problem(4, 3)
    game = Game(problem.labels, 3)
    watching = Validation(np.arange(80), game, problem.weights / problem.weights.sum())
    run = run_of(maboost(step="total", update="lazy"), problem, 3, validation=watching)
    for round in islice(run, 6):
        np.testing.assert_array_equal(run.validation_votes.margins, run.margins)
        assert round.record.val_error == pytest.approx(round.record.train_error)


def test_what_all_votes_at_once_exclude_is_refused():
    with pytest.raises(ValueError, match="needs update=\"lazy\", got update='active'"):
        maboost(step="total")
    with pytest.raises(ValueError, match=r"needs learning_rate=1\.0, got learning_rate=0.5"):
        maboost(step="total", update="lazy", learning_rate=0.5)
    with pytest.raises(ValueError, match="smoothness must be at least 1"):
        softmargin(0.5)
    with pytest.raises(ValueError, match='use regularizer="entropy", or a finite smoothness'):
        softmargin(math.inf, "euclidean")
