"""As many rows as the decision needs: when an edge is certain, how samples grow, what stays exact."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import comparable, cuts, examples, on_shards, random_problem, rounds

from maboost import (
    CombinedBoostClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.boosting import maboost
from maboost.boosting.row_sampling.adaptive import Certain, _with_copies, deviation, rows_needed
from maboost.boosting.row_sampling.policy import Estimate, RoundRows, Sample, Subset
from maboost.mirror import BaseMeasure
from maboost.runtime.communicator import SerialCommunicator

SMALL_TREES = {"max_depth": 3, "min_samples_leaf": 1, "early_stopping": False}
BOOSTERS = {
    "entropy": MABoostClassifier(),
    "euclidean": MABoostClassifier(regularizer="euclidean", update="lazy"),
    "smooth": SmoothBoostClassifier(smoothness=4.0, **SMALL_TREES),
    "sparse": SparseBoostClassifier(learning_rate=1.0, **SMALL_TREES),
    "mada": MadaBoostClassifier(learning_rate=1.0, **SMALL_TREES),
    "combined": CombinedBoostClassifier(learning_rate=1.0, **SMALL_TREES),
}


def clear_rows(n=40_000, seed=0):
    """A few features say nearly all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 40)).round(3)
    return X, (X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n) > 0).astype(int)


# ------------------------------------------------------------------------------------- the bound


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_a_mean_is_rarely_further_off_than_the_bound(n):
    """An oracle: how often the mean of a known distribution is underestimated by more."""
    values, chances = np.array([-1.0, 0.1, 1.0]), [0.05, 0.9, 0.05]
    counts = np.random.default_rng(n).multinomial(n, chances, size=20_000)
    means = counts @ values / n
    bounds = np.array([deviation(n, v) for v in counts @ values**2 / n - means**2])
    assert np.mean(0.09 - means > bounds) <= 1e-3
    if n > 100:  # and not without need
        assert np.mean(0.09 - means > 0.3 * bounds) > 1e-3


@examples(100)
@given(st.floats(1e-4, 1.0), st.floats(0.0, 1.0))
def test_the_rows_needed_are_those_of_the_bound(edge, variance):
    n = rows_needed(edge, variance)
    assert deviation(n, variance) == pytest.approx(0.5 * edge, rel=1e-9)
    assert deviation(0.99 * n, variance) > 0.5 * edge


def test_real_answers_need_fewer_rows_than_votes():
    edge = 0.02
    assert rows_needed(edge, edge * (1.0 - edge)) < 0.1 * rows_needed(edge, 1.0 - edge**2)
    assert rows_needed(0.0, 1.0) == deviation(1.0, 1.0) == math.inf


def test_what_is_accepted_is_certain_and_keeps_half():
    trim = Certain()
    shown = Subset(None, None, Sample(), 0.5, True, effective_rows=2000.0)
    assert trim.accepts(shown, 0.11, Estimate(0.2, 0.16))
    assert not trim.accepts(shown, 0.09, Estimate(0.2, 0.16))  # too little of it is left
    assert not trim.accepts(shown, 0.2, Estimate(0.2, 0.96 * 4.0))  # too uncertain
    assert not trim.accepts(shown._replace(effective_rows=100.0), 0.2, Estimate(0.2, 0.16))
    everything = Subset(None, None, Sample())
    assert trim.accepts(everything, 1e-9, Estimate(1e-9, 0.0))


# ------------------------------------------------------------------------------------ the samples


def test_a_grown_sample_holds_the_smaller_one():
    rng = np.random.default_rng(0)
    density, row_hashes, measure = (
        rng.exponential(size=4000),
        rng.random(4000),
        BaseMeasure(np.ones(4000)),
    )
    density /= measure.integral(density)
    held, sizes = Sample(), []
    for share in Certain().tries(None, held)[:-1]:
        shown = Certain().shown(RoundRows(density, measure, row_hashes), share, held)
        assert set(held.rows) <= set(shown.rows)
        assert shown.held.draws == 1
        v = density[shown.rows] * shown.factors
        assert shown.effective_rows == pytest.approx(v.sum() ** 2 / np.sum(v * v), rel=1e-9)  # Kish
        sizes.append(len(shown.rows))
        held = replace(shown.held, size=math.inf)  # given up, but we keep the rows to look at
    assert sizes[-1] == 500
    assert np.all(np.diff(sizes) > 0)


def test_copies_of_a_row_are_worth_one():
    rng = np.random.default_rng(1)
    times = rng.integers(1, 4, 600)
    index = np.repeat(np.arange(600), times)
    density, row_hashes = np.ones(600), rng.random(600)
    heavy, many = BaseMeasure(times.astype(float)), BaseMeasure(np.ones(len(index)))
    once = Certain().shown(RoundRows(density, heavy, row_hashes), 0.125, Sample())
    copies = RoundRows(density[index], many, row_hashes[index])
    twice = Certain().shown(copies, 0.125, Sample())
    np.testing.assert_array_equal(np.unique(index[twice.rows]), once.rows)
    assert twice.effective_rows == pytest.approx(once.effective_rows, rel=1e-12)
    weight = times[once.rows]
    kish = weight.sum() ** 2 / np.sum(weight**2)
    assert once.effective_rows == pytest.approx(kish, rel=1e-9)


def test_rows_too_light_for_the_unit_of_copies_count_for_themselves():
    base = np.array([1e-20, 0.25, 0.25])
    found = _with_copies(np.array([0.1, 0.2, 0.2]), base, BaseMeasure(np.ones(3)))
    assert found.tolist() == [1e-20, 0.5, 0.5]


def test_after_all_rows_were_shown_samples_wait_for_a_larger_edge():
    trim = Certain()
    held = Sample(draws=3, size=0.125, row_measure=1e-4, level=3)
    shown = Subset(None, None, held, 0.5, True, effective_rows=1250.0)
    spent = trim.after_refusal(shown, Estimate(0.02, 0.96))
    assert trim.tries(0.02, spent) == [1.0]
    assert trim.tries(0.9, spent)[0] < 0.125
    none = trim.after_refusal(shown, None)
    assert trim.tries(0.01, none) == [1.0]
    assert none.draws == spent.draws == 3
    number = spent.number
    assert number < 0
    again = trim.redraw(RoundRows(np.ones(1), BaseMeasure(np.ones(1))), held, number)
    assert (again.draws, again.level, again.number) == (spent.draws, spent.level, number)


def test_what_a_refused_sample_tells_about_the_next():
    """Twice what its edge asks for, or what it was worth twice over, in shares for an edge of one."""
    held = Sample(draws=1, size=0.01, row_measure=1e-4, level=7)
    shown = Subset(None, None, held, 0.5, True, effective_rows=100.0)
    for edge, variance in ((0.9, 0.0), (0.3, 0.9)):
        asked = 2.0 ** -Certain().after_refusal(shown, Estimate(edge, variance)).level
        wanted = 2.0 * max(rows_needed(edge, variance), 200.0) * edge**2 * held.row_measure
        assert wanted <= asked < 2.0 * wanted
    assert Certain().tries(0.25, Sample(draws=1, level=12))[0] == 16.0 * 2.0**-12


# ------------------------------------------------------------------------------------- in the loop


@dataclass(frozen=True)
class Watching(Certain):
    """Writes down what it was asked."""

    seen: list = field(default_factory=list)

    def accepts(self, shown, edge, estimate):
        verdict = super().accepts(shown, edge, estimate)
        self.seen.append((shown, edge, estimate, verdict))
        return verdict


@pytest.mark.parametrize("name", BOOSTERS)
def test_few_rows_where_the_edge_is_clear_and_every_certificate_holds(name):
    X, y = clear_rows()
    model = clone(BOOSTERS[name]).set_params(n_estimators=6, random_state=0)
    dense = clone(model).fit(X, y)
    found = clone(model).set_params(trim="certain").fit(X, y)
    history = found.history_
    assert history["rows_used"][0] < 0.1 * len(y)
    assert history["rows_used"].sum() < 0.5 * dense.history_["rows_used"].sum()
    assert history["bytes_read"].sum() < 0.5 * dense.history_["bytes_read"].sum()
    assert np.all(history["train_error"] <= history["error_bound"] + 1e-12)
    margins = (2 * y - 1) * found.decision_function(X)
    assert np.mean(margins <= 0.0) == pytest.approx(history["train_error"][-1], abs=1e-12)
    assert not found.certificate_.exact


@pytest.mark.parametrize("name", BOOSTERS)
def test_without_a_clear_edge_all_rows_are_shown(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 3)), rng.integers(0, 2, 2000)
    model = clone(BOOSTERS[name]).set_params(n_estimators=5, random_state=0)
    model.set_params(trim="certain", estimator__max_depth=1).fit(X, y)
    dense = clone(BOOSTERS[name]).set_params(n_estimators=5, random_state=0)
    dense.set_params(estimator__max_depth=1).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), dense.decision_function(X))
    np.testing.assert_array_equal(model.history_["rows_used"], dense.history_["rows_used"])
    reads = model.history_["bytes_read"]
    np.testing.assert_array_equal(reads[1:], dense.history_["bytes_read"][1:])  # tried once


def test_the_loop_asks_for_the_true_edge_and_that_of_the_sample():
    problem = random_problem(np.random.default_rng(2), n=3000, pool=20, skill=0.8)
    trim = Watching()
    run = problem.run(replace(maboost("euclidean"), trim=trim))
    run.search.row_hashes = np.random.default_rng(0).random(3000)
    for record in rounds(run, 6):
        shown, edge, estimate, accepted = trim.seen[-1]
        assert accepted
        assert record.edge == edge
        if shown.hides:
            assert edge > 0.5 * estimate.edge
            assert deviation(shown.effective_rows, estimate.variance) <= 0.5 * estimate.edge
            assert record.rows_used <= len(shown.rows)
    assert any(shown.hides for shown, *_, accepted in trim.seen if accepted)


def test_shards_agree_on_samples_and_rounds():
    n = 12_000
    problem = random_problem(np.random.default_rng(2), n=n, pool=30, skill=0.8)
    row_hashes = np.random.default_rng(0).random(8000)[np.arange(n) % 8000]  # copies on two shards
    booster = replace(maboost("euclidean"), trim=Certain())

    def records(comm, part):
        run = problem.run(booster, rows=np.arange(n)[part], comm=comm)
        run.search.row_hashes = row_hashes[part]
        found = comparable(rounds(run, 12))
        return found, run.sample_numbers

    alone = records(SerialCommunicator(), slice(None))
    assert len(set(alone[1])) > 1
    parts = cuts(n, 3, np.random.default_rng(1))
    assert on_shards(3, lambda comm: records(comm, parts[comm.rank])) == [alone] * 3


@pytest.mark.parametrize(("skill", "everybody"), [(0.75, False), (0.65, True)])
def test_rounds_are_repeated_with_the_samples_they_held(skill, everybody):
    n = 12_000
    problem = random_problem(np.random.default_rng(5), n=n, pool=30, skill=skill)
    booster = replace(maboost("euclidean"), trim=Certain())

    def new():
        run = problem.run(booster)
        run.search.row_hashes = np.random.default_rng(0).random(n)
        return run

    first, second = new(), new()
    done = [next(first) for _ in range(8)]
    for round, number in zip(done[:5], first.sample_numbers, strict=False):
        second.repeat(round.hypothesis, round.record, number)
    assert max(first.sample_numbers) > 0
    assert (min(first.sample_numbers) < 0) == everybody  # a round of all rows
    assert second.held.number == first.sample_numbers[4]
    again = [next(second) for _ in range(3)]
    assert second.sample_numbers == first.sample_numbers
    assert comparable(r.record for r in again) == comparable(r.record for r in done[5:])


# ---------------------------------------------------------------------------------- the classifiers


def test_the_number_of_threads_changes_nothing():
    X, y = make_classification(150_000, 4, n_informative=3, n_redundant=0, random_state=0)
    model = SmoothBoostClassifier(smoothness=4.0, n_estimators=4, random_state=0, trim="certain")
    one, two = (clone(model).set_params(n_jobs=n).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(one.distribution_, two.distribution_)
    for column in ("edge", "rows_used", "bytes_read"):
        np.testing.assert_array_equal(one.history_[column], two.history_[column])


def test_a_weight_is_a_number_of_copies():
    X, y = clear_rows(6000)
    times = np.random.default_rng(0).integers(0, 4, 6000)
    index = np.repeat(np.arange(6000), times)
    model = MABoostClassifier(n_estimators=10, random_state=0, trim="certain", warm_start=True)
    heavy = clone(model).fit(X, y, sample_weight=times)
    many = clone(model).fit(X[index], y[index])
    np.testing.assert_allclose(many.estimator_weights_, heavy.estimator_weights_, rtol=1e-9)
    one, other = heavy._resume["run"]["held"], many._resume["run"]["held"]
    assert one.number == other.number
    assert (heavy.history_["rows_used"] < 3000).any()


def test_other_estimators_and_warm_starts():
    X, y = clear_rows(8000)
    tree = DecisionTreeClassifier(max_depth=2)
    model = MABoostClassifier(tree, n_estimators=6, trim="certain", random_state=0)
    whole = clone(model).fit(X, y)
    assert whole.history_["rows_used"].min() < 1000
    part = clone(model).set_params(n_estimators=3, warm_start=True).fit(X, y)
    part.set_params(n_estimators=6).fit(X, y)
    np.testing.assert_array_equal(part.decision_function(X), whole.decision_function(X))


def test_the_model_is_nearly_as_good():
    X, y = clear_rows()
    model = MABoostClassifier(n_estimators=20, random_state=0)
    dense, found = (clone(model).set_params(trim=t).fit(X, y) for t in (0.0, "certain"))
    better = dense.score(*clear_rows(seed=1))
    assert better > 0.89
    assert found.score(*clear_rows(seed=1)) > better - 0.015


def test_several_classes():
    X, _ = clear_rows()
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = MABoostClassifier(n_estimators=6, trim="certain", random_state=0).fit(X, y)
    assert model.history_["rows_used"][0] < 0.1 * len(y)
    assert np.all(model.history_["train_error"] <= model.history_["error_bound"] + 1e-12)
    assert model.score(X, y) > 0.95


def test_not_together_with_a_budget():
    X, y = clear_rows(100)
    with pytest.raises(ValueError, match="sparsity or trim, not both"):
        SparseBoostClassifier(sparsity=0.5, trim="certain").fit(X, y)
