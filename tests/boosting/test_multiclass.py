"""More than two classes: pairs of rows and wrong classes, and learners that know no costs."""

from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.datasets import load_digits, load_wine
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import Problem, comparable, examples, on_shards, random_problem, rounds, seeds

from maboost import MABoostClassifier
from maboost.boosting import Game, Run, game, maboost, madaboost, smooth, sparseboost
from maboost.boosting.calibration import probability_scale
from maboost.learners import EstimatorLearner, Producer
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.mirror import BaseMeasure, CappedSimplex, FermiDirac
from maboost.runtime.communicator import SerialCommunicator


@pytest.mark.parametrize(
    "booster",
    [
        smooth(2.0),
        smooth(2.0, update="lazy"),
        smooth(2.0, "euclidean"),
        smooth(2.0, "euclidean", "lazy", "paper"),
        maboost("entropy", CappedSimplex(np.r_[np.full(15, 1.5), np.full(15, np.inf)])),
        maboost(FermiDirac(3.0), CappedSimplex(2.0)),
    ],
    ids=lambda b: f"{b.ascent.regularizer}, {type(b.ascent.domain).__name__}, {b.ascent.update}",
)
def test_a_cap_limits_the_total_of_a_row(booster):
    problem = random_problem(np.random.default_rng(4), n=30, pool=12, n_classes=4, skill=0.55)
    run = problem.run(booster)
    caps = np.broadcast_to(booster.ascent.domain.row_caps(), (30,))
    reached = False
    for record in rounds(run, 12):
        totals = run.state.density.reshape(30, 3).mean(axis=1)
        assert np.all(totals <= caps * (1.0 + 1e-9))
        assert np.sum(problem.base * totals) == pytest.approx(1.0, abs=1e-11)
        assert record.train_error <= record.error_bound + 1e-12
        reached = reached or bool(np.any(totals > caps * (1.0 - 1e-9)))
    assert reached


@pytest.mark.parametrize(
    "booster",
    [maboost(), maboost("euclidean"), smooth(2.0), sparseboost(), madaboost(), madaboost("paper")],
    ids=["entropy", "euclidean", "smooth", "sparse", "mada", "mada, paper"],
)
def test_two_classes_are_the_special_case(booster):
    """Scores (1-h)/2 and (1+h)/2 instead of h: the same run."""
    one = random_problem(np.random.default_rng(6), n=25, pool=9, response="real")
    one = replace(one, closed_under_negation=False)
    both = np.stack([(1.0 - one.tables) / 2.0, (1.0 + one.tables) / 2.0], axis=2)
    two = Problem(one.labels, one.weights, both, 2)
    steps = [[r.step for r in rounds(p.run(booster), 10)] for p in (one, two)]
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-8)
    assert len(steps[0]) > 3


def test_error_over_pairs_and_over_rows():
    """A row is wrong as soon as one of its pairs is; MadaBoost's step looks at pairs."""
    problem = random_problem(np.random.default_rng(7), n=40, pool=6, n_classes=4, skill=0.5)
    run = problem.run(madaboost("paper"))
    for record in rounds(run, 5):
        wrong = run.margins.reshape(40, 3) <= 0.0
        assert record.train_error == pytest.approx(problem.base[wrong.any(axis=1)].sum())
        assert run.error == pytest.approx(np.sum(problem.base * wrong.mean(axis=1)))
        assert run.error <= record.train_error
    assert run.error < record.train_error


# ------------------------------------------------------------------------------- learners and costs


@dataclass
class Spy(Producer):
    """Passes everything on, and writes down which rewards came."""

    learner: EstimatorLearner
    deaf: bool = False
    seen: list = field(default_factory=list)
    exact = closed_under_negation = takes_costs = False

    def prepare(self, X, labels, n_classes):
        self.producer = self.learner.prepare(X, labels, n_classes)
        return self

    def produce(self, weights, rows, rewards, random_state):
        self.seen.append((weights, rewards))
        return self.producer.produce(weights, rows, None if self.deaf else rewards, random_state)

    def training_scores(self, hypothesis):
        return self.producer.training_scores(hypothesis)


def six_digits(deaf=False):
    X, y = load_digits(n_class=6, return_X_y=True)
    spy = Spy(EstimatorLearner(DecisionTreeClassifier(max_depth=1), np.arange(6)), deaf)
    weights = np.ones(len(y))
    run = Run(
        maboost(), spy, X, Game(y, 6), weights, BaseMeasure(weights, 5), np.random.RandomState(0)
    )
    return run, spy


def test_stumps_on_six_classes_go_on_with_copies():
    run, spy = six_digits()
    records = list(rounds(run, 80))
    assert len(records) == 80
    assert records[-1].train_error < 0.15
    assert any(rewards is not None for _, rewards in spy.seen)


def test_without_copies_they_give_up_early():
    run, _ = six_digits(deaf=True)
    records = list(rounds(run, 80))
    assert run.ended == "the learner found no edge"
    assert len(records) < 60


def test_a_learner_sees_row_totals_first_and_rewards_only_after_they_failed():
    run, spy = six_digits()
    list(rounds(run, 30))
    first, rewards = spy.seen[0]
    assert rewards is None
    np.testing.assert_allclose(first, 1.0)
    for (weights, none), (again, rewards) in zip(spy.seen, spy.seen[1:], strict=False):
        if rewards is None:
            continue
        assert none is None
        np.testing.assert_array_equal(weights, again)
        own = np.take_along_axis(rewards, run.game.labels[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(
            own, weights, rtol=1e-12
        )  # the right class earns the row's total
        np.testing.assert_allclose(rewards.sum(axis=1), 0.0, atol=1e-9)


def test_a_learner_that_takes_costs_is_given_them_at_once():
    problem = random_problem(np.random.default_rng(8), n=30, pool=5, n_classes=3)
    assert problem.run(maboost()).learner.takes_costs
    assert list(rounds(problem.run(maboost()), 4))


def test_estimators_on_three_classes():
    X, y = load_wine(return_X_y=True)
    model = MABoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=60, random_state=0)
    model.fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.certificate_.n_classes == 3
    expected = min(1.0, 2.0 * np.exp(-model.certificate_.gain))  # (K - 1) exp(-G)
    assert model.certificate_.error_bound == pytest.approx(expected)


BOOSTERS = {
    "maboost": lambda: maboost(),
    "euclidean": lambda: maboost("euclidean"),
    "smooth": lambda: smooth(2.0),
    "some capped": lambda: maboost("entropy", CappedSimplex(CAPS)),
    "sparse": lambda: sparseboost(),
    "mada": lambda: madaboost(),
}
CAPS = np.where(np.arange(400) % 4, 2.0, np.inf)


def tree_run(booster, part=slice(None), comm=None, seed=0):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(400, 5)), rng.uniform(0.5, 2.0, 400)
    labels = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] + 0.5 * rng.normal(size=400) > 0)
    learner = TreeLearner(
        GrowthRules(max_depth=2), base=weights[part], comm=comm or SerialCommunicator()
    )
    return Run(
        booster, learner, X[part], Game(labels[part], 4), weights[part],
        BaseMeasure(weights[part], 3, comm), np.random.RandomState(0),
    )  # fmt: skip


@pytest.mark.parametrize("name", BOOSTERS)
def test_codes_are_only_a_shorter_way(name):
    """The losses of trees as codes, and entry by entry: the same rounds."""
    short = list(rounds(tree_run(BOOSTERS[name]()), 8))
    with mock.patch.multiple(game, _FEW_CODES=0, _SHARE=0.0):
        long = list(rounds(tree_run(BOOSTERS[name]()), 8))
    assert len(short) == len(long) == 8
    for column in ("edge", "step", "gain", "error_bound", "train_error", "soft_margin", "ess"):
        one, other = ([getattr(r, column) for r in run] for run in (short, long))
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-11, err_msg=column)


@pytest.mark.parametrize("name", sorted(set(BOOSTERS) - {"some capped"}))
def test_shards_of_trees_change_no_bit(name):
    """(Caps of single rows would have to be divided among shards too.)"""
    halves = slice(0, 130), slice(130, 400)

    def records(part, comm=None):
        run = tree_run(BOOSTERS[name](), part, comm)
        return comparable(rounds(run, 5))

    whole = records(slice(None))
    assert on_shards(2, lambda comm: records(halves[comm.rank], comm)) == [whole, whole]


def test_shards_of_equal_and_of_other_weights_ask_for_the_same():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(100, 3)), rng.integers(0, 3, size=100)
    weights = np.repeat([1.0, 2.0], 50)

    def edges(comm, part):
        learner = TreeLearner(GrowthRules(max_depth=2), comm=comm, base=weights[part])
        measure = BaseMeasure(weights[part], 2, comm)
        run = Run(
            maboost(), learner, X[part], Game(labels[part], 3), weights[part], measure,
            np.random.RandomState(0),
        )  # fmt: skip
        return [(r.edge, r.bytes_read) for r in rounds(run, 3)]

    alone = edges(SerialCommunicator(), slice(None))
    halves = slice(0, 50), slice(50, 100)
    assert on_shards(2, lambda comm: edges(comm, halves[comm.rank])) == [alone, alone]


@given(seed=seeds, n_classes=st.integers(2, 5), smoothing=st.floats(0.01, 0.3))
@examples(20)
def test_a_doubted_label_is_shared_evenly_by_the_other_classes(seed, n_classes, smoothing):
    """The scale is where the log loss of softened labels is least, by a search of its own."""
    rng = np.random.default_rng(seed)
    margins, base = rng.normal(1.0, 1.0, size=(30, n_classes - 1)), rng.uniform(0.5, 2.0, size=30)

    def loss(scale):
        logs = np.concatenate([np.zeros((30, 1)), -scale * margins], axis=1)
        logs -= logsumexp(logs, axis=1, keepdims=True)
        others = logs[:, 1:].mean(axis=1)
        return -float(base @ ((1.0 - smoothing) * logs[:, 0] + smoothing * others))

    best = minimize_scalar(loss, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-10}).x
    assert probability_scale(margins, BaseMeasure(base), smoothing) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("margin", [0.01, 1.0, 1e4])
def test_votes_of_any_size_are_scaled_to_the_smoothing(margin, n_classes):
    """Where all margins are the same, the probability of what is wrong is the smoothing."""
    margins = np.full((4, n_classes - 1), margin)
    scale = probability_scale(margins, BaseMeasure(np.ones(4)), smoothing=0.1)
    wrong = (n_classes - 1) * np.exp(-scale * margin)
    assert wrong / (1.0 + wrong) == pytest.approx(0.1)
