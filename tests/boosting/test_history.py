"""The record of a run."""

import dataclasses
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import Problem, examples, random_problem, rounds

from maboost import boosting
from maboost.boosting import Game, Groups, History, Record
from maboost.boosting.certificate import ErrorBound
from maboost.boosting.game import Validation
from maboost.boosting.votes import Votes
from maboost.mirror import BaseMeasure


def record(**values):
    return Record(**dict.fromkeys(History.columns, 0.0) | values)


def test_columns_by_name():
    history = History([record(round=1, edge=0.5)])
    history.append(record(round=2, edge=0.25))
    assert len(history) == 2
    np.testing.assert_array_equal(history["edge"], [0.5, 0.25])
    assert [r.round for r in history] == [1, 2]


def test_an_unknown_column_is_named_with_those_there_are():
    with pytest.raises(KeyError, match=r"no column 'egde'; it has .*'edge'"):
        History()["egde"]


def test_a_frame_has_the_columns_in_order():
    frame = History([record(round=1, gain=0.1), record(round=2, gain=0.2)]).to_frame()
    assert tuple(frame.columns) == History.columns
    assert frame["gain"].tolist() == [0.1, 0.2]
    assert History().to_frame().shape == (0, len(History.columns))


def test_a_frame_without_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas: run pip install pandas"):
        History().to_frame()


def test_reprs():
    assert repr(History()) == "History(0 rounds)"
    history = History([record(train_error=0.25, error_bound=0.5)])
    assert repr(history) == "History(1 rounds, train_error=0.25, error_bound=0.5)"


def test_records_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().edge = 1.0


def test_a_history_owns_its_list():
    records = [record()]
    history = History(records)
    history.append(record())
    assert len(records) == 1


def test_what_a_run_writes_down():
    """Every column from its definition, on a run of which all parts are at hand."""
    from maboost.boosting import maboost

    problem = random_problem(np.random.default_rng(2), n=30, pool=8)
    run = problem.run(maboost("euclidean", step="paper"))
    base, margins, steps = problem.base, np.zeros(30), 0.0
    before = run.state.density
    for r in rounds(run, 6):
        d = (margins - run.margins) / r.step
        margins, steps = run.margins.copy(), steps + r.step
        assert r.edge == pytest.approx(-np.sum(base * before * d))
        assert r.step == pytest.approx(r.edge)
        assert r.train_error == pytest.approx(base[margins <= 0.0].sum())
        assert r.min_margin == pytest.approx(margins.min() / steps)
        assert r.smoothness == pytest.approx(before.max())
        assert r.ess == pytest.approx(1.0 / np.sum(base * before**2))
        assert r.nonzero == pytest.approx(np.mean(before > 0.0))
        assert r.rows_used == np.sum(before > 0.0)
        assert r.error_bound == pytest.approx(1.0 / (1.0 + 2.0 * run.gain))
        before = run.state.density
    assert r.round == 6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_tie_is_an_error_wherever_errors_are_counted(n_classes):
    """Of six rows the last two are abstained on: overall, on a source, where they watch, and by pair."""
    labels = np.arange(6) % n_classes
    scores = np.eye(n_classes)[labels]
    scores[4:] = 1.0 / n_classes
    table = scores[:, 1] - scores[:, 0] if n_classes == 2 else scores
    problem = Problem(labels, np.ones(6), table[None], n_classes)
    run = problem.run(boosting.maboost(step="paper"))
    game, base = Game(labels[3:], n_classes), np.full(3, 1.0 / 3.0)
    run.validation = Validation(np.arange(3, 6), game, base)
    run.validation_votes = Votes(game)
    run.groups = Groups(["sure", "some"], np.arange(6) // 2 > 0)
    round = next(run)
    assert round.record.train_error == pytest.approx(1.0 / 3.0)
    assert round.record.val_error == pytest.approx(2.0 / 3.0)
    assert round.group_errors == {"some": pytest.approx(0.5), "sure": 0.0}
    assert run.error == pytest.approx(1.0 / 3.0)


def test_one_round_that_is_not_exact_is_enough():
    problem = random_problem(np.random.default_rng(2), n=30, pool=8)
    run = problem.run(boosting.maboost())
    next(run)
    assert run.exact
    run.exact = False
    next(run)
    assert not run.exact


@pytest.mark.parametrize("name", ["sparseboost", "madaboost"])
def test_densities_are_those_of_a_distribution(name):
    """Where the mass is free they are divided by it."""
    problem = random_problem(np.random.default_rng(2), n=30, pool=8)
    run = problem.run(getattr(boosting, name)())
    masses, before = [], run.state.density
    for r in rounds(run, 4):
        assert r.smoothness == pytest.approx(before.max())
        assert r.ess == pytest.approx(1.0 / np.sum(problem.base * before**2))
        assert r.nonzero == pytest.approx(np.mean(before > 0.0))
        masses.append(run.state.mass)
        before = run.state.density / run.state.mass
    assert min(masses) < 0.9


def kept(**changed) -> boosting.Certificate:
    """A certificate of three rounds of AdaBoost on a hundred rows."""
    bound = ErrorBound.of(boosting.maboost().ascent, BaseMeasure(np.ones(100)))
    three = boosting.Certificate(
        "Entropy", "Simplex", "active", rounds=3, gain=0.3, error_bound=bound(0.3), measured_error=0.1,
        margin_bound=0.1, soft_margin=0.2, min_margin=0.2, best_margin_bound=0.3, exact=True, floor=0.0,
        stopped="3 rounds are done", last_gain=0.1, bound=bound,
    )  # fmt: skip
    return dataclasses.replace(three, **changed)


def test_a_certificate_of_no_rounds_promises_nothing():
    none = kept(bound=None).upto(History([]), "no round is left")
    assert (none.rounds, none.gain, none.error_bound, none.measured_error) == (0, 0.0, 1.0, 1.0)
    assert (none.margin_bound, none.best_margin_bound) == (-math.inf, 1.0)
    assert not none.exact


def test_a_certificate_of_other_rounds():
    """The best margin is at most the smallest edge of any round; all else is of the last or the sum."""
    history = History([record(gain=g, edge=e) for g, e in ((0.2, 0.5), (0.4, 0.3), (0.1, 0.4))])
    now = kept().upto(history, "as told")
    assert (now.rounds, now.best_margin_bound, now.last_gain, now.stopped) == (
        3,
        0.3,
        0.1,
        "as told",
    )
    assert now.gain == pytest.approx(0.7)
    assert kept().upto(History(history.records[:2]), "").last_gain == 0.4
    assert kept().upto(History([]), "").last_gain == 0.0


def test_the_gap_is_to_the_soft_margin():
    assert kept(best_margin_bound=0.5, soft_margin=0.2, min_margin=-0.4).gap == pytest.approx(0.3)


@given(gain=st.floats(0.0, 3.0), more=st.floats(1e-6, 1.0), target=st.floats(1e-6, 1.0))
@examples(60)
def test_rounds_needed_are_the_fewest(gain, more, target):
    now = kept(gain=gain, last_gain=more)
    now = dataclasses.replace(now, error_bound=now.bound(gain))
    rounds = now.rounds_needed(target)
    assert now.bound(gain + rounds * more) <= target
    assert rounds == 0 or now.bound(gain + (rounds - 1) * more) > target


def test_rounds_that_would_never_do_are_not_counted():
    assert kept(last_gain=1e-300).rounds_needed(0.1) is None
    assert kept(last_gain=0.0).rounds_needed(0.1) is None
    assert kept(last_gain=math.nan).rounds_needed(0.1) is None
    for now in (kept(last_gain=0.0), kept(bound=None)):
        assert now.rounds_needed(now.error_bound) == 0
        assert now.rounds_needed(0.999 * now.error_bound) is None


def test_rounds_to_the_floor_can_be_counted():
    """What the domain promises at best is reached, and is not out of reach."""
    ascent = boosting.smooth(4.0).ascent
    bound = ErrorBound.of(ascent, BaseMeasure(np.ones(100)))
    now = boosting.Certificate(
        "Entropy", "CappedSimplex", "active", rounds=3, gain=0.3, error_bound=bound(0.3),
        measured_error=0.1, margin_bound=0.1, soft_margin=0.2, min_margin=0.2, best_margin_bound=0.3,
        exact=True, floor=bound.floor, stopped="3 rounds are done", last_gain=0.1, bound=bound,
    )  # fmt: skip
    assert bound.floor == 0.25
    assert now.rounds_needed(0.25) == math.ceil((math.log(4.0) - 0.3) / 0.1)
    assert now.rounds_needed(0.2499) is None
    source = boosting.certificate.GroupBound(0.5, 0.2, 1.0, 1.0)
    done = History([record(gain=0.3), record(gain=1.0)], {"a": [0.4, 0.1]})
    group = dataclasses.replace(now, groups={"a": source}).upto(done, "2 rounds").groups["a"]
    assert group.measured_error == 0.1  # after the last round
    assert group.error_bound == pytest.approx(math.exp(-1.3) / 0.5)
