"""Only so many rows in every round: the budget, its ties, and what stays exact."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import comparable, cuts, examples, on_shards, random_problem, rounds
from tests.theory.test_certificates import check_star

from maboost import SparseBoostClassifier
from maboost.boosting import Game, Run, maboost, sparseboost
from maboost.boosting.row_sampling.adaptive import Certain
from maboost.boosting.row_sampling.budget import Budget
from maboost.boosting.row_sampling.policy import RoundRows, Sample, drawn_rows
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.mirror import BaseMeasure
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.threads import Threads

X, Y = make_classification(2000, 10, n_informative=5, flip_y=0.1, random_state=0)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 60), share=st.floats(0.01, 0.99))
@examples(200)
def test_rows_come_in_the_order_of_place_over_density(seed, n, share):
    rng = np.random.default_rng(seed)
    density = rng.choice([0.0, 0.5, 1.0, 2.0], n) if seed % 2 else rng.exponential(size=n)
    density[rng.integers(n)] = 1.0
    row_hashes, measure = rng.random(n), BaseMeasure(rng.uniform(0.5, 2.0, n))
    rows, floor = drawn_rows(density, row_hashes, share, measure)
    positive = np.flatnonzero(density > 0.0)
    order = positive[np.argsort(row_hashes[positive] / density[positive])]
    fits = np.cumsum(measure.rows_base[order]) <= share * (1.0 + 1e-12)
    expected = order[: max(fits.sum(), 1)]
    np.testing.assert_array_equal(rows, np.sort(expected))
    if floor == 0.0:  # nobody was left out, so nobody stands for others
        assert len(rows) == len(positive)
    else:  # the first row left out, or the last one in
        keys = row_hashes[order] / density[order]
        near = keys[len(expected) - 1 : len(expected) + 1]
        assert np.isclose(1.0 / floor, near, rtol=1e-12).any()


@given(seed=st.integers(0, 10_000), n=st.integers(3, 60))
@examples(200)
def test_a_share_that_rows_hold_exactly(seed, n):
    """Their place decides, not how sums are rounded: a row of weight three is the row three times."""
    rng = np.random.default_rng(seed)
    density, row_hashes, times = rng.exponential(size=n), rng.random(n), rng.integers(1, 4, n)
    repeat = np.repeat(np.arange(n), times)
    order = np.argsort(row_hashes / density)
    kept = rng.integers(1, n)
    share = times[order[:kept]].sum() / len(repeat)
    rows, floor = drawn_rows(density, row_hashes, share, BaseMeasure(times.astype(float)))
    many, same = drawn_rows(
        density[repeat], row_hashes[repeat], share, BaseMeasure(np.ones(len(repeat)))
    )
    np.testing.assert_array_equal(rows, np.sort(order[:kept]))
    np.testing.assert_array_equal(np.unique(repeat[many]), rows)
    first_left_out = order[kept]
    assert np.isclose(1.0 / floor, (row_hashes / density)[first_left_out], rtol=1e-12)
    assert same == floor


def test_the_sample_stands_for_the_distribution():
    """Sums over the sample with lifted densities are those over all rows, on average over row_hashes."""
    rng = np.random.default_rng(0)
    density, values = rng.exponential(size=400), rng.normal(size=400)
    measure = BaseMeasure(np.ones(400))
    density /= measure.integral(density)
    found = []
    for _ in range(400):
        rows, floor = drawn_rows(density, rng.random(400), 0.2, measure)
        found.append(np.sum(np.maximum(density[rows], floor) * values[rows]) / 400)
    spread = np.std(found) / 20.0
    assert abs(np.mean(found) - measure.integral(density * values)) < 4.0 * spread
    assert spread < 0.02


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_sample_does_not_depend_on_threads_or_shards(threads):
    rng = np.random.default_rng(3)
    n = 4000
    density = np.maximum(rng.normal(1.0, 1.0, n), 0.0)
    row_hashes, weights = rng.random(n), rng.uniform(0.5, 2.0, n)
    later = density * rng.exponential(size=n)
    whole = Sample.draw(RoundRows(density, BaseMeasure(weights), row_hashes), 0.2, 4)
    parts = cuts(n, threads, rng)

    def draw(comm):
        part = parts[comm.rank]
        measure = BaseMeasure(weights[part], 1, comm, Threads(threads))
        sample = Sample.draw(RoundRows(density[part], measure, row_hashes[part]), 0.2, 4)
        sizes = sample.size, sample.effective_size(later[part], measure)
        return sample.rows + part.start, sample.factors, sizes

    rows, lifts, sizes = zip(*on_shards(threads, draw), strict=True)
    np.testing.assert_array_equal(np.concatenate(rows), whole.rows)
    np.testing.assert_array_equal(np.concatenate(lifts), whole.factors)
    assert set(sizes) == {(whole.size, whole.effective_size(later, BaseMeasure(weights)))}


def test_the_effective_size_is_that_of_rows_counted_one_by_one():
    rng = np.random.default_rng(0)
    times = rng.integers(1, 4, 300)
    density, later, row_hashes = (
        rng.exponential(size=300),
        rng.exponential(size=300),
        rng.random(300),
    )
    index = np.repeat(np.arange(300), times)
    heavy, many = BaseMeasure(times.astype(float)), BaseMeasure(np.ones(len(index)))
    once = Sample.draw(RoundRows(density, heavy, row_hashes), 0.3, 0)
    twice = Sample.draw(RoundRows(density[index], many, row_hashes[index]), 0.3, 0)
    np.testing.assert_array_equal(np.unique(index[twice.rows]), once.rows)
    weight = later[index[twice.rows]] * twice.factors
    kish = weight.sum() ** 2 / np.sum(weight**2) / len(index)
    assert twice.effective_size(later[index], many) == pytest.approx(kish, rel=1e-12)
    assert once.effective_size(later, heavy) == pytest.approx(kish, rel=1e-12)


def test_a_sample_lasts_until_half_of_it_is_left():
    measure, row_hashes = BaseMeasure(np.ones(100)), np.random.default_rng(0).random(100)
    sample = Sample.draw(RoundRows(np.ones(100), measure, row_hashes), 0.2, 0)
    assert len(sample.rows) == 20
    assert sample.size == pytest.approx(0.2)
    assert sample.draws == 1
    for left, lasts in ((20, True), (10, True), (9, False), (0, False)):
        density = np.zeros(100)
        density[sample.rows[:left]] = 1.0
        assert sample.is_representative(density, measure) == lasts
    assert not sample.discarded().is_representative(np.ones(100), measure)
    assert sample.discarded().draws == 1


@pytest.mark.parametrize(
    ("trim", "who"), [(Budget(share=0.2), "a budget of rows"), (Certain(), "trim='certain'")]
)
def test_no_sample_is_drawn_of_rows_without_places(trim, who):
    rows = RoundRows(np.ones(10), BaseMeasure(np.ones(10)))
    with pytest.raises(ValueError, match=f"{who} needs the row hashes: see Run"):
        trim.shown(rows, 0.125, Sample())
    lost = Sample(draws=1, size=0.125, level=3)  # of a run that is repeated
    with pytest.raises(ValueError, match="a sample needs the row hashes: see Run"):
        trim.redraw(rows, Sample(), lost.number)
    everything = trim.shown(rows, 1.0, Sample())
    assert (everything.rows, everything.hides) == (None, False)


def watched_run(booster, rounds, n_classes, n=2500):
    """A run of trees, and before every round: what is held, and whether Kish's formula keeps it."""
    rng = np.random.default_rng(1)
    labels = np.arange(n) % n_classes
    X = rng.normal(size=(n, 5)) + 1.5 * np.eye(5)[labels]
    weights = rng.uniform(0.5, 2.0, n)
    game = Game(labels, n_classes)
    measure = BaseMeasure(weights, game.width)
    learner = TreeLearner(GrowthRules(max_depth=2), base=weights)
    run = Run(
        booster,
        learner,
        X,
        game,
        weights,
        measure,
        np.random.RandomState(0),
        row_hashes=rng.random(n),
    )
    for _ in range(rounds):
        held, density = run.held, measure.row_means(run.state.density / run.state.mass)
        v = density[held.rows] * held.factors
        base = measure.rows_base[held.rows]
        worth = np.sum(base * v) ** 2 / np.sum(base * v * v) if len(v) else 0.0
        record = next(run).record
        yield run, record, held, worth >= 0.5 * held.size


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
def test_a_sample_is_held_within_the_budget_and_drawn_again_when_worn_out(regularizer, n_classes):
    booster = replace(maboost(regularizer), trim=Budget(share=0.3))
    rng, kept, worn, idle = np.random.default_rng(0), 0, 0, 0
    for run, record, held, lasts in watched_run(booster, 30, n_classes):
        if run.held is held:
            assert lasts
            kept += 1
        worn += not lasts
        shown = run.held.rows
        assert run.measure.rows_base[shown].sum() <= 0.3 * (1.0 + 1e-12)
        assert 0 < record.rows_used <= len(shown)
        idle += record.rows_used < len(shown)
        assert record.edge > 0.0
        assert record.train_error <= record.error_bound + 1e-12
        check_star(run, rng)
    assert kept > 10
    assert 1 < run.held.draws < 20
    assert worn > 1  # the first round, and later ones
    assert (idle > 0) == (regularizer == "euclidean")  # rows of it that lost all weight


def test_shards_agree_on_samples_and_rounds():
    problem = random_problem(np.random.default_rng(2), n=300, pool=30, skill=0.6)
    row_hashes = np.random.default_rng(0).random(300)
    booster = replace(maboost("euclidean"), trim=Budget(share=0.3))

    def records(comm, part):
        run = problem.run(booster, rows=np.arange(300)[part], comm=comm)
        run.search.row_hashes = row_hashes[part]
        found = comparable(rounds(run, 25))
        return found, run.held.draws

    alone = records(SerialCommunicator(), slice(None))
    assert 1 < alone[1] < 25
    parts = cuts(300, 3, np.random.default_rng(1))
    assert on_shards(3, lambda comm: records(comm, parts[comm.rank])) == [alone] * 3


@pytest.mark.parametrize(("skill", "everybody"), [(0.6, False), (0.51, True)])
def test_rounds_are_repeated_with_the_samples_they_held(skill, everybody):
    n = 300
    problem = random_problem(np.random.default_rng(2), n=n, pool=30, skill=skill)
    booster = replace(maboost("euclidean"), trim=Budget(share=0.1))

    def new():
        run = problem.run(booster)
        run.search.row_hashes = np.random.default_rng(0).random(n)
        return run

    first = new()
    done = [next(first) for _ in range(16)]
    assert len(set(first.sample_numbers)) < 16  # some were held
    assert (min(first.sample_numbers) < 0) == everybody  # a round of all rows
    for begin in range(1, 15):
        second = new()
        for round, number in zip(done[:begin], first.sample_numbers, strict=False):
            second.repeat(round.hypothesis, round.record, number)
        again = [next(second) for _ in range(2)]
        assert second.sample_numbers == first.sample_numbers[: begin + 2]
        expected = comparable(r.record for r in done[begin : begin + 2])
        assert comparable(r.record for r in again) == expected


@pytest.mark.parametrize("sparsity", [0.5, 0.9, 0.97])
def test_the_budget_is_met_in_every_round_and_the_certificate_is_exact(sparsity):
    model = SparseBoostClassifier(n_estimators=40, sparsity=sparsity, random_state=0).fit(X, Y)
    history = model.history_
    budget = (1.0 - sparsity) * len(Y)
    assert len(history) == 40
    assert np.all(history["rows_used"] <= budget + 1e-9)
    assert np.all(history["train_error"] <= history["error_bound"] + 1e-12)
    assert np.all(history["edge"] > 0.0)
    margins = np.sort((2 * Y - 1) * model.decision_function(X))
    assert np.mean(margins <= 0.0) == pytest.approx(history["train_error"][-1], abs=1e-12)


@pytest.mark.parametrize("sparsity", [0.5, 0.7, 0.8, 0.9])
def test_a_weight_is_a_number_of_copies(sparsity):
    """With other weights besides: rows that all weigh the same make splits that rounding decides."""
    rng = np.random.default_rng(0)
    times, weight = rng.integers(0, 4, 500), rng.uniform(0.5, 1.5, 500)
    model = SparseBoostClassifier(
        n_estimators=20, sparsity=sparsity, min_samples_leaf=1, learning_rate=1.0, random_state=0,
        warm_start=True,
    )  # fmt: skip
    index = np.repeat(np.arange(500), times)
    heavy = clone(model).fit(X[:500], Y[:500], sample_weight=times * weight)
    many = clone(model).fit(X[index], Y[index], sample_weight=weight[index])
    np.testing.assert_allclose(many.estimator_weights_, heavy.estimator_weights_, rtol=1e-9)
    one, other = heavy._resume["run"]["held"], many._resume["run"]["held"]
    assert 1 < one.draws == other.draws < 20
    kept = np.flatnonzero(times)
    np.testing.assert_array_equal(np.unique(index[other.rows]), kept[one.rows])


def test_the_number_of_threads_changes_nothing():
    X, y = make_classification(150_000, 4, n_informative=3, n_redundant=0, random_state=0)
    model = SparseBoostClassifier(n_estimators=4, sparsity=0.7, random_state=0)
    one, two = (clone(model).set_params(n_jobs=n).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(one.distribution_, two.distribution_)
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.history_["bytes_read"], two.history_["bytes_read"])


def test_a_tenth_of_the_rows_is_nearly_as_good_as_all():
    X, y = make_classification(24_000, 12, n_informative=6, flip_y=0.05, random_state=1)
    model = SparseBoostClassifier(n_estimators=40, random_state=0)
    dense, sparse = (
        clone(model).set_params(sparsity=s).fit(X[:16_000], y[:16_000]) for s in (None, 0.9)
    )
    better = dense.score(X[16_000:], y[16_000:])
    assert better > 0.9
    assert sparse.score(X[16_000:], y[16_000:]) > better - 0.02
    assert sparse.history_["bytes_read"].sum() < 0.35 * dense.history_["bytes_read"].sum()


class NeverIdle(DecisionTreeClassifier):
    """Refuses rows without weight."""

    def fit(self, X, y, sample_weight=None):
        assert np.all(sample_weight > 0.0)
        return super().fit(X, y, sample_weight)


def test_other_estimators_see_no_rows_without_weight():
    model = SparseBoostClassifier(
        NeverIdle(max_depth=2), n_estimators=12, learning_rate=1.0, sparsity=0.5
    )
    history = model.fit(X, Y).history_
    assert np.all(history["bytes_read"] == 0)
    assert np.all(history["rows_used"] <= 0.5 * len(Y))
    assert np.any(history["rows_used"][1:] < 0.5 * len(Y) - 1)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="sparsity or trim, not both"):
        SparseBoostClassifier(sparsity=0.5, trim=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="'sparsity' parameter"):
        SparseBoostClassifier(sparsity=1.0).fit(X, Y)


def test_bytes_read_do_not_depend_on_whose_rows_are_hidden():
    """Of rows on one shard many have no weight, of those on the other few: together they are most."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    labels = (X[:, 0] + 0.5 * rng.normal(size=700) > 0.0).astype(int)
    order = np.argsort(np.abs(X[:, 0]))  # the hard ones first

    def read(comm, part):
        rows = order[part]
        learner = TreeLearner(GrowthRules(max_depth=2), comm=comm)
        measure = BaseMeasure(np.ones(len(rows)), 1, comm)
        run = Run(
            sparseboost(kappa=0.5), learner, X[rows], Game(labels[rows], 2), np.ones(len(rows)),
            measure, np.random.RandomState(0),
        )  # fmt: skip
        return [(r.bytes_read, r.rows_used, r.edge) for r in rounds(run, 12)]

    alone = read(SerialCommunicator(), slice(None))
    assert any(0.75 * 700 <= used < 700 for _, used, _ in alone)
    for cut in (100, 350, 600):
        parts = slice(0, cut), slice(cut, 700)
        assert on_shards(2, lambda comm, p=parts: read(comm, p[comm.rank])) == [alone, alone]
