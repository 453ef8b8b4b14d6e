"""max_samples: every round shows a uniform sample, and measures the edge on all rows."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import cuts, on_shards

from maboost import (
    CombinedBoostClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    MarginBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.boosting import Uniform
from maboost.boosting.row_sampling.policy import RoundRows, Sample
from maboost.mirror import BaseMeasure
from maboost.runtime.threads import Threads

X, Y = make_classification(1500, 8, n_informative=5, flip_y=0.05, random_state=0)
BOOSTERS = [
    MABoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    MadaBoostClassifier,
    CombinedBoostClassifier,
]


def shown(hashes, policy, draws, density=None, measure=None):
    density = np.ones(len(hashes)) if density is None else density
    measure = measure or BaseMeasure(np.ones(len(hashes)))
    rows = RoundRows(density, measure, hashes)
    return policy.shown(rows, policy.share, Sample(draws=draws))


def test_samples_are_uniform_and_independent():
    hashes, n, share = np.random.default_rng(0).random(4000), 4000, 0.3
    samples = np.zeros((200, n), dtype=bool)
    for draw in range(200):
        samples[draw, shown(hashes, Uniform(share, seed=draw % 2), draw).rows] = True
    spread = np.sqrt(share * (1 - share))
    assert abs(samples.mean() - share) < 5 * spread / np.sqrt(samples.size)
    assert np.all(np.abs(samples.mean(axis=1) - share) < 5 * spread / np.sqrt(n))
    assert np.all(np.abs(samples.mean(axis=0) - share) < 6 * spread / np.sqrt(200))
    together = (samples[1:] & samples[:-1]).mean()  # two draws in sequence
    assert abs(together - share**2) < 0.002
    order = np.argsort(hashes)  # rows of near hashes
    near = (samples[:, order[1:]] & samples[:, order[:-1]]).mean()
    assert abs(near - share**2) < 0.002


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_samples_do_not_depend_on_threads_shards_or_order(threads):
    rng = np.random.default_rng(1)
    n = 9000
    hashes, density = rng.random(n), np.maximum(rng.normal(size=n), 0.0)
    policy, parts = Uniform(0.4, seed=3), cuts(n, threads, rng)
    whole = shown(hashes, policy, 7, density).rows

    def part_of(comm):
        part = parts[comm.rank]
        measure = BaseMeasure(np.ones(n)[part], 1, comm, Threads(threads))
        return shown(hashes[part], policy, 7, density[part], measure).rows + part.start

    np.testing.assert_array_equal(np.concatenate(on_shards(threads, part_of)), whole)
    turned = shown(hashes[::-1].copy(), policy, 7, density[::-1].copy()).rows
    np.testing.assert_array_equal(np.sort(n - 1 - turned), whole)
    assert np.all(density[whole] > 0.0)


@pytest.mark.parametrize("booster", BOOSTERS)
def test_certificates_hold_and_bits_are_the_same(booster):
    options = {"n_estimators": 15, "max_samples": 0.5, "random_state": 5}
    model = booster(**options, n_jobs=1).fit(X, Y)
    error = np.mean(model.predict(X) != Y)
    assert error <= model.certificate_.error_bound
    assert np.mean(model.history_["rows_used"]) < 0.6 * len(X)
    other = booster(**options, n_jobs=2).fit(X[::-1], Y[::-1])
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    fresh = booster(**{**options, "random_state": 6}).fit(X, Y)
    assert np.any(fresh.decision_function(X) != model.decision_function(X))


def test_the_first_edge_is_that_over_all_rows():
    model = MABoostClassifier(n_estimators=1, max_samples=0.3, random_state=0).fit(X, Y)
    answers = model.ensemble_.hypotheses[0].scores(X)
    edge = np.mean(answers * (2.0 * Y - 1.0))
    assert model.history_["edge"][0] == pytest.approx(edge, abs=1e-9)
    assert model.history_["rows_used"][0] < 0.4 * len(X)


def test_all_rows_are_the_default():
    plain = MABoostClassifier(n_estimators=5).fit(X, Y).decision_function(X)
    whole = MABoostClassifier(n_estimators=5, max_samples=1.0).fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(whole, plain)


def test_a_resumed_fit_draws_the_same_samples(tmp_path):
    path = tmp_path / "state"
    options = {"max_samples": 0.5, "random_state": 2, "checkpoint": path, "checkpoint_every": 3}
    SmoothBoostClassifier(n_estimators=6, **options).fit(X, Y)
    resumed = SmoothBoostClassifier(n_estimators=14, resume=True, **options).fit(X, Y)
    whole = SmoothBoostClassifier(n_estimators=14, max_samples=0.5, random_state=2).fit(X, Y)
    np.testing.assert_array_equal(resumed.decision_function(X), whole.decision_function(X))


def test_other_estimators_and_few_rows():
    model = MABoostClassifier(
        DecisionTreeClassifier(max_depth=2), n_estimators=8, max_samples=0.4, random_state=0
    ).fit(X, Y)
    assert np.mean(model.history_["rows_used"]) < 0.5 * len(X)
    tiny = MABoostClassifier(n_estimators=5, max_samples=0.01, random_state=0).fit(X[:12], Y[:12])
    assert np.mean(tiny.predict(X[:12]) != Y[:12]) <= tiny.certificate_.error_bound


def test_a_sampled_margin_is_not_called_exact():
    whole = MarginBoostClassifier(n_estimators=3).fit(X, Y)
    sampled = MarginBoostClassifier(n_estimators=3, max_samples=0.5).fit(X, Y)
    assert whole.certificate_.exact
    assert not sampled.certificate_.exact


def test_rules_that_exclude_each_other_are_named():
    with pytest.raises(ValueError, match="give max_samples or trim, not both: got max_samples="):
        MABoostClassifier(max_samples=0.5, trim="auto").fit(X, Y)
    with pytest.raises(ValueError, match="give sparsity or max_samples, not both"):
        SparseBoostClassifier(max_samples=0.5, sparsity=0.5).fit(X, Y)
    with pytest.raises(ValueError, match="The 'max_samples' parameter"):
        MABoostClassifier(max_samples=1.5).fit(X, Y)
    with pytest.raises(ValueError, match="share of rows to show must be in"):
        Uniform(1.0)
