"""Thousands of rounds: no overflow, no NaN, no warning (warnings are errors), and nothing is lost."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from maboost.boosting import Game, Run, combined, maboost, madaboost, smooth, sparseboost
from maboost.learners import Producer
from maboost.mirror import BaseMeasure, CappedSimplex, FermiDirac
from maboost.mirror.steps import Step

ROUNDS = 5000
N = 24
CAPS = np.where(np.arange(N) % 2 == 0, 2.0, np.inf)


@dataclass(frozen=True)
class Column:
    """The votes of one column."""

    j: int

    def scores(self, X):
        return X[:, self.j]


class BestColumn(Producer):
    """The exact learner over the columns of X and their opposites."""

    exact = closed_under_negation = True
    takes_costs = False

    def prepare(self, X, labels, n_classes):
        self.X, self.signs = X, 2.0 * labels - 1.0
        return self

    def produce(self, weights, rows, rewards, random_state):
        shown = slice(None) if rows is None else rows
        edges = (weights * self.signs[shown]) @ self.X[shown]
        return Column(int(np.argmax(np.abs(edges))))

    def training_scores(self, hypothesis):
        return hypothesis.scores(self.X)


class InTurn(BestColumn):
    """One column after the other, whatever the weights."""

    closed_under_negation = False

    def prepare(self, X, labels, n_classes):
        self.turn = itertools.count()
        return super().prepare(X, labels, n_classes)

    def produce(self, weights, rows, rewards, random_state):
        return Column(next(self.turn))


def noisy_votes(columns):
    """Many columns are enough to get every row right, few are not."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, N)
    return np.sign(rng.normal(size=(N, columns)) + 0.3 * (2.0 * labels - 1.0)[:, None]), labels


def run_of(booster, X, labels, learner=None):
    weights = np.ones(len(labels))
    game, measure = Game(labels, 2), BaseMeasure(weights)
    return Run(
        booster, learner or BestColumn(), X, game, weights, measure, np.random.RandomState(0)
    )


@pytest.mark.parametrize(
    ("columns", "booster"),
    [
        pytest.param(40, maboost(), id="entropy, active"),
        pytest.param(40, maboost(update="lazy"), id="entropy, lazy"),
        pytest.param(40, maboost("euclidean"), id="euclidean, active"),
        pytest.param(40, maboost("euclidean", update="lazy"), id="euclidean, lazy"),
        pytest.param(8, maboost(step="maxmargin"), id="entropy, maxmargin"),
        pytest.param(40, smooth(3.0, step="paper"), id="smooth, active"),
        pytest.param(40, smooth(3.0, update="lazy", step="paper"), id="smooth, lazy"),
        pytest.param(40, combined(CAPS, step="paper"), id="combined, active"),
        pytest.param(40, combined(CAPS, update="lazy", step="paper"), id="combined, lazy"),
        pytest.param(8, sparseboost(learning_rate=0.1), id="sparse"),
        pytest.param(8, sparseboost(kappa=0.9, learning_rate=0.1), id="sparse, penalised"),
        pytest.param(8, madaboost(step="paper"), id="mada"),
    ],
)
def test_five_thousand_rounds(columns, booster):
    X, labels = noisy_votes(columns)
    run = run_of(booster, X, labels)
    bound = 1.0
    for produced in run:
        record = produced.record
        assert record.train_error <= record.error_bound + 1e-12
        assert record.error_bound <= bound + 1e-12
        bound = record.error_bound
        if record.round == ROUNDS:
            break
    assert run.rounds == ROUNDS
    numbers = {name: value for name, value in vars(record).items() if not name.startswith("val_")}
    assert all(np.isfinite(value) for value in numbers.values()), numbers
    for values in (run.margins, run.state.density, run.state.theta):
        assert np.all(np.isfinite(values))
    assert booster.ascent.domain.contains(run.state.density, run.measure)
    if columns == 40:
        assert record.train_error == 0.0
        assert run.total_step > 700  # e to this power is no float any more


@pytest.mark.parametrize(
    "booster", [smooth(3.0), smooth(3.0, "euclidean", "lazy"), maboost(FermiDirac(4.0))]
)
def test_two_hundred_corrective_rounds_under_caps(booster):
    X, labels = noisy_votes(40)
    run = run_of(booster, X, labels)
    records = [produced.record for _, produced in zip(range(200), run, strict=False)]
    assert len(records) == 200
    assert np.all(np.isfinite([r.step for r in records]))
    assert max(r.smoothness for r in records) <= 4.0 * (1.0 + 1e-9)
    assert records[-1].train_error == 0.0


def test_a_sparse_run_ends_when_its_mass_is_gone():
    """Each round leaves nine tenths of a mass that all goes to zero; steps of nothing are no rounds."""
    X, labels = noisy_votes(40)
    run = run_of(sparseboost(learning_rate=0.1), X, labels)
    steps = [produced.record.step for _, produced in zip(range(ROUNDS), run, strict=False)]
    assert run.ended == "no row has weight left"
    assert min(steps) > 0.0
    assert np.all(run.margins > 0.0)


# ---------------------------------------------------------------------- a weight that underflowed


@pytest.mark.parametrize(
    "booster",
    [
        maboost(),
        maboost(update="lazy"),
        maboost(FermiDirac(5.0)),
        maboost(FermiDirac(5.0), update="lazy"),
        maboost("entropy", CappedSimplex(5.0)),
        maboost("entropy", CappedSimplex(5.0), update="lazy"),
        maboost("entropy", CappedSimplex([1.5, np.inf, np.inf, 5.0])),
        maboost("euclidean", update="lazy"),
        madaboost(),
    ],
    ids=lambda b: f"{b.ascent.regularizer}, {b.ascent.domain}, {b.ascent.update}",
)
def test_a_weight_that_underflowed_comes_back(booster):
    ascent, measure = booster.ascent, BaseMeasure(np.ones(4))
    d = np.array([-1.0, -1.0, -1.0, 1.0])
    start = ascent.start(measure)
    down = ascent.move(start, d, 1000.0, measure)
    np.testing.assert_array_equal(down.state.density[:3], 0.0)
    up = ascent.move(down.state, -d, 1000.0, measure)
    np.testing.assert_allclose(up.state.density, start.density, rtol=1e-12)
    assert up.gain + down.gain == pytest.approx(0.0, abs=1e-9)


def test_a_row_that_was_forgotten_leads_again():
    """Through the loop: a density of zero in round 2, back to one in round 3, the largest after it."""
    X = np.array([[1.0, -1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
    booster = maboost(step=lambda situation: Step(400.0 if situation.round < 3 else 1.0))
    run = run_of(booster, X, np.array([1, 1, 1]), InTurn())
    seen = [
        (run.state.density.copy(), produced.record)
        for _, produced in zip(range(3), run, strict=False)
    ]
    np.testing.assert_array_equal(seen[0][0], [0.0, 0.0, 3.0])
    np.testing.assert_allclose(seen[1][0], [1.0, 1.0, 1.0], rtol=1e-12)
    assert np.argmax(seen[2][0]) == 0
    assert [record.rows_used for _, record in seen] == [3, 1, 3]
