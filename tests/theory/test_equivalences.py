"""Different ways to say the same thing give the same run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import Problem, cuts, examples, on_shards, random_problem, rounds, seeds

from maboost.boosting.recipes import combined, maboost, madaboost, smooth, sparseboost
from maboost.mirror import CappedSimplex, FermiDirac

BOOSTERS = {
    "MABoost": lambda n: maboost(),
    "MABoost euclidean": lambda n: maboost("euclidean"),
    "MABoost lazy": lambda n: maboost("euclidean", CappedSimplex(3.0), "lazy"),
    "paper": lambda n: maboost(step="paper"),
    "maxmargin": lambda n: maboost(step="maxmargin"),
    "fermi-dirac": lambda n: maboost(FermiDirac(3.0)),
    "smooth": lambda n: smooth(2.5),
    "smooth lazy, trimmed": lambda n: smooth(2.5, update="lazy", trim="auto"),
    "trimmed": lambda n: maboost(trim=0.3),
    "combined": lambda n: combined(np.where(np.arange(n) % 2 == 0, np.inf, 3.0)),
    "SparseBoost": lambda n: sparseboost(),
    "SparseBoost with penalty": lambda n: sparseboost(0.5),
    "MadaBoost": lambda n: madaboost(),
    "MadaBoost paper": lambda n: madaboost(step="paper"),
}
kinds = st.sampled_from(sorted(BOOSTERS))


def steps_of(run, count=15):
    return np.array([r.step for r in rounds(run, count)])


@examples(30)
@given(seeds, st.sampled_from(["paper", "maxmargin", "corrective"]), st.sampled_from([2, 4]))
def test_lazy_is_active_on_the_simplex(seed, step, n_classes):
    """Entropy and Fermi-Dirac: normalising commutes with stepping."""
    p = random_problem(np.random.default_rng(seed), 12, 6, n_classes, "real")
    for regularizer in ("entropy", FermiDirac(4.0)):
        active = p.run(maboost(regularizer, update="active", step=step))
        lazy = p.run(maboost(regularizer, update="lazy", step=step))
        for a, b in zip(rounds(active, 12), rounds(lazy, 12), strict=True):
            assert a.step == pytest.approx(b.step, rel=1e-9)
            assert a.gain == pytest.approx(b.gain, abs=1e-10)
        np.testing.assert_allclose(active.state.density, lazy.state.density, atol=1e-9)


def test_lazy_differs_from_active_on_capped_sets():
    p = random_problem(np.random.default_rng(3), 20, 8, skill=0.65)
    steps = [steps_of(p.run(smooth(1.5, update=u))) for u in ("active", "lazy")]
    assert not np.allclose(*steps)


@examples(60)
@given(seeds, kinds)
def test_two_classes_are_multiclass_with_two(seed, kind):
    """Scores (n, 2) and signed scores give the same run."""
    p = random_problem(np.random.default_rng(seed), 14, 6, response="real")
    signed = Problem(p.labels, p.weights, p.tables)
    pairs = Problem(p.labels, p.weights, np.stack([(1 - p.tables) / 2, (1 + p.tables) / 2], axis=2))
    one, two = (q.run(BOOSTERS[kind](p.n)) for q in (signed, pairs))
    np.testing.assert_allclose(steps_of(one), steps_of(two), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.margins, two.margins, rtol=1e-10, atol=1e-12)


@examples(50)
@given(seeds, kinds, st.sampled_from([2, 3]))
def test_weight_two_is_the_row_twice(seed, kind, n_classes):
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 12, 6, n_classes, "real", weighted=False)
    times = rng.integers(1, 4, size=p.n)
    often = np.repeat(np.arange(p.n), times)
    if kind == "combined":
        caps = np.where(np.arange(p.n) % 2 == 0, np.inf, 3.0)
        heavy = p.run(combined(caps), weights=times.astype(float))
        repeated = p.run(combined(caps[often]), rows=often, weights=np.ones(len(often)))
    else:
        heavy = p.run(BOOSTERS[kind](p.n), weights=times.astype(float))
        repeated = p.run(BOOSTERS[kind](p.n), rows=often, weights=np.ones(len(often)))
    np.testing.assert_allclose(steps_of(heavy), steps_of(repeated), rtol=1e-10, atol=1e-10)
    assert heavy.gain == pytest.approx(repeated.gain, abs=1e-9)


@examples(40)
@given(seeds, kinds, st.sampled_from([2, 3]), st.integers(2, 4))
def test_shards_change_no_bit(seed, kind, n_classes, count):
    """The loop on several shards, empty ones included, is the loop on one."""
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 15, 6, n_classes, "real")
    parts = cuts(p.n, count, rng)
    caps = np.where(np.arange(p.n) % 2 == 0, np.inf, 3.0)

    def booster(rows):
        return combined(caps[rows]) if kind == "combined" else BOOSTERS[kind](p.n)

    whole = p.run(booster(np.arange(p.n)))
    expected = steps_of(whole, 8)

    def shard(comm):
        rows = np.arange(p.n)[parts[comm.rank]]
        run = p.run(booster(rows), rows=rows, comm=comm)
        return steps_of(run, 8), run.margins, run.gain

    found = on_shards(count, shard)
    for steps, _, gain in found:
        np.testing.assert_array_equal(steps, expected)
        assert gain == whole.gain
    np.testing.assert_array_equal(np.concatenate([m for _, m, _ in found]), whole.margins)


@examples(40)
@given(seeds, st.sampled_from(["paper", "maxmargin", "SparseBoost"]), st.sampled_from([2, 3]))
def test_a_row_of_vanishing_weight_is_no_row(seed, kind, n_classes):
    """Weight 0 itself is refused by the measure: such rows are dropped before a run.

    (Elsewhere one light row can decide whether a step is finite, or whether all rows are right.)
    """
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 13, 6, n_classes, "real", weighted=False)
    present = np.arange(p.n) != 5
    booster = BOOSTERS[kind](p.n)
    absent = p.run(booster, rows=np.flatnonzero(present), weights=np.ones(p.n - 1))
    light = p.run(booster, weights=np.where(present, 1.0, 1e-200))
    np.testing.assert_allclose(steps_of(light, 5), steps_of(absent, 5), rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="drop rows of weight 0"):
        p.run(booster, weights=np.where(present, 1.0, 0.0))


def test_caps_follow_the_rows_that_stay():
    p = random_problem(np.random.default_rng(2), 12, 6)
    caps, present = np.where(np.arange(12) % 2 == 0, np.inf, 3.0), np.arange(12) != 4
    domain = CappedSimplex(caps).restricted(present)
    np.testing.assert_array_equal(domain.row_caps(), caps[present])
    assert steps_of(p.run(maboost(domain=domain), rows=np.flatnonzero(present))).size > 0
    with pytest.raises(ValueError, match="caps has 12 entries but there are 11 rows"):
        CappedSimplex(caps).restricted(present[1:])
