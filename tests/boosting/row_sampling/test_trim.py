"""Showing the learner part of the rows: which, how many, and what is left of the edge."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import Listed, examples, random_problem, rounds, seeds

from maboost.boosting import Booster, Game, Run, Trim, maboost, smooth
from maboost.boosting.row_sampling.policy import Estimate, RoundRows, Sample, Subset
from maboost.boosting.row_sampling.trim import shown_rows
from maboost.engine.leaf_codes import LeafCodes
from maboost.learners import Producer
from maboost.mirror import BaseMeasure


@st.composite
def weighted_rows(draw):
    """Rows with weights and a density of mass one that has ties and zeros."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(1, 40))
    measure = BaseMeasure(rng.uniform(0.1, 3.0, n))
    density = rng.integers(0, draw(st.integers(2, 9)), n).astype(float)
    density[rng.integers(n)] += 1.0
    return measure, density / measure.integral(density)


def mask(rows, n):
    shown = np.zeros(n, dtype=bool)
    shown[slice(None) if rows is None else rows] = True
    return shown


@examples(150)
@given(weighted_rows(), st.floats(1e-6, 0.999))
def test_as_many_of_the_lightest_as_fit_into_the_mass(rows, delta):
    measure, density = rows
    shown = mask(shown_rows(density, delta, measure), measure.rows)
    mass = measure.rows_base * density
    assert not shown[density == 0.0].any()  # rows without weight are never shown
    assert mass[~shown].sum() <= delta + 1e-12
    lightest = density[shown].min()
    assert np.all(density[~shown] < lightest)  # so ties stay together, and the lightest go first
    assert mass[density <= lightest].sum() >= delta - 1e-12  # one level more would be too much


@examples(60)
@given(weighted_rows(), st.floats(1e-6, 0.999), st.sampled_from([0.125, 4.0]))
def test_what_is_hidden_is_a_share_of_the_mass_there_is(rows, delta, mass):
    measure, density = rows
    whole, part = (
        Trim(delta).shown(RoundRows(m * density, measure, mass=m), delta, Sample()).rows
        for m in (1.0, mass)
    )
    np.testing.assert_array_equal(mask(part, measure.rows), mask(whole, measure.rows))


@examples(150)
@given(weighted_rows(), st.floats(1e-6, 0.999), seeds, st.booleans())
def test_a_row_of_weight_two_is_the_row_twice(rows, delta, seed, exactly):
    measure, density = rows
    times = np.random.default_rng(seed).integers(1, 4, measure.rows)
    index = np.repeat(np.arange(measure.rows), times)
    heavy = BaseMeasure(measure.rows_base * times)
    many = BaseMeasure(measure.rows_base[index])
    density = density / heavy.integral(density)
    if exactly:  # what some rows weigh together, however that is rounded
        lightest = density <= np.quantile(density, delta)
        delta = float((heavy.rows_base * density)[lightest].sum())
    once = mask(shown_rows(density, delta, heavy), heavy.rows)
    np.testing.assert_array_equal(
        mask(shown_rows(density[index], delta, many), many.rows), once[index]
    )


@examples(150)
@given(weighted_rows(), st.floats(1e-6, 0.999), seeds)
def test_the_last_bits_of_a_density_decide_on_no_row(rows, delta, seed):
    measure, density = rows
    rng = np.random.default_rng(seed)
    rounded = density * (1.0 + 2.0**-52 * rng.integers(-2, 3, measure.rows))
    np.testing.assert_array_equal(
        mask(shown_rows(rounded, delta, measure), measure.rows),
        mask(shown_rows(density, delta, measure), measure.rows),
    )


def test_nothing_hidden_means_no_list_of_rows():
    measure = BaseMeasure(np.ones(4))
    assert shown_rows(np.ones(4), 0.0, measure) is None
    assert shown_rows(np.ones(4), 0.9, measure) is None  # all tied
    assert shown_rows(np.array([0.0, 2.0, 1.0, 1.0]), 0.0, measure).tolist() == [1, 2, 3]


def test_a_density_that_was_written_again_has_other_rows():
    """The engines write the arrays of a state again in the second round after it."""
    measure, density = BaseMeasure(np.ones(4)), np.array([0.0, 2.0, 1.0, 1.0])
    rows = RoundRows(density, measure)
    assert rows.all_shown(Sample()).rows.tolist() == [1, 2, 3]
    density[:] = [2.0, 2.0, 0.0, 0.0]
    assert rows.all_shown(Sample()).rows.tolist() == [0, 1]


# ----------------------------------------------------------------------------------------- rules


def test_a_fixed_mass_is_tried_then_half_then_nothing():
    assert Trim(0.2).tries(None, Sample()) == [0.2, 0.1, 0.0]
    assert Trim(0.2).tries(0.9, Sample()) == [0.2, 0.1, 0.0]
    assert Trim().tries(0.9, Sample()) == [0.0]


def test_the_certified_rule_starts_with_all_rows():
    trim = Trim("auto")
    assert trim.tries(None, Sample()) == [0.0]
    assert trim.tries(0.5, Sample()) == pytest.approx([1 / 6, 1 / 12, 0.0])


@pytest.mark.parametrize(("light", "hides"), [(49, False), (50, True), (80, True)])
def test_the_certified_rule_hides_half_of_the_rows_or_none(light, hides):
    """To pick out more than half of the rows costs no less than to read all of them in their order."""
    density = np.r_[np.full(light, 1e-3), np.zeros(20), np.full(100 - light, 2.0)]
    measure = BaseMeasure(np.ones(120))
    density /= measure.integral(density)
    rows = RoundRows(density, measure)
    shown = Trim("auto").shown(rows, 0.01, Sample())
    everybody = np.flatnonzero(density > 0.0)
    np.testing.assert_array_equal(shown.rows, everybody[light:] if hides else everybody)
    assert shown.hides == hides
    assert Trim(0.01).shown(rows, 0.01, Sample()).hides  # a fixed mass is an order


@pytest.mark.parametrize("mass", [-0.1, 1.0, 2, float("nan"), "all", None])
def test_masses_that_make_no_sense(mass):
    with pytest.raises(
        ValueError, match=f"trim must be 'auto', 'certain' or a mass in .0, 1., got {mass!r}"
    ):
        Trim(mass)


@examples(100)
@given(st.floats(1e-6, 1.0), st.floats(0.0, 1.0))
def test_what_the_certified_rule_accepts_keeps_half_the_edge(shown_edge, delta):
    worst_true_edge = (1.0 - delta) * shown_edge - delta
    shown = Subset(None, None, Sample(), edge_share=0.5, hides=True)
    accepted = Trim("auto").accepts(shown, max(worst_true_edge, 1e-9), Estimate(shown_edge, 0.0))
    if accepted:
        assert worst_true_edge >= 0.5 * shown_edge - 1e-12
    if (
        delta < shown_edge / (2.0 * (1.0 + shown_edge)) - 1e-12
    ):  # the rule by which so much was hidden
        assert accepted


def test_no_rule_accepts_a_hypothesis_without_edge():
    any_edge, half = (Subset(None, None, Sample(), edge_share=k, hides=True) for k in (0.0, 0.5))
    assert not Trim(0.1).accepts(any_edge, 0.0, Estimate(0.9, 0.1))
    assert not Trim("auto").accepts(half, -0.1, Estimate(0.9, 0.1))
    assert Trim(0.9).accepts(any_edge, 1e-6, Estimate(0.9, 0.1))
    assert not Trim("auto").accepts(half, 0.44, Estimate(0.9, 0.1))
    assert Trim("auto").accepts(half, 0.46, Estimate(0.9, 0.1))


# ------------------------------------------------------------------------------------ in the loop


@dataclass(frozen=True)
class Watching(Trim):
    """Writes down what it was asked."""

    seen: list = field(default_factory=list)
    deltas: list = field(default_factory=list)

    def shown(self, rows, delta, held):
        self.deltas.append(delta)
        shown = super().shown(rows, delta, held)
        return shown._replace(
            edge_share=max(shown.edge_share, 1e-300)
        )  # so that the edge is estimated

    def accepts(self, shown, edge, estimate):
        verdict = super().accepts(shown, edge, estimate)
        self.seen.append((self.deltas[-1], edge, estimate.edge, verdict))
        return verdict


@pytest.mark.parametrize("mass", ["auto", 0.15])
@pytest.mark.parametrize(
    "booster", [maboost(), maboost("euclidean"), smooth(3.0)], ids=["e", "q", "s"]
)
def test_the_true_edge_of_trimmed_rounds(mass, booster, monkeypatch):
    monkeypatch.setattr("maboost.boosting.row_sampling.trim._PAYS", 1.0)
    problem = random_problem(np.random.default_rng(5), n=120, pool=25, skill=0.65)
    watching = Watching(mass)
    run = problem.run(Booster(booster.ascent, booster.step, trim=watching))
    records = list(rounds(run, 30))
    trimmed = [r for r in records if r.rows_used < round(r.nonzero * problem.n)]
    assert len(trimmed) > 5
    for delta, edge, shown_edge, accepted in watching.seen:
        assert edge >= (1.0 - delta) * shown_edge - delta - 1e-12
        if accepted and mass == "auto":
            assert edge >= 0.5 * shown_edge - 1e-12
    assert all(r.train_error <= r.error_bound + 1e-12 for r in records)
    assert not run.exact  # a learner that saw part of the rows may have missed the best


def test_untrimmed_rounds_of_an_exact_learner_stay_exact():
    problem = random_problem(np.random.default_rng(5), n=40, pool=9)
    run = problem.run(maboost())
    assert list(rounds(run, 5))
    assert run.exact


@dataclass
class OnlyWhole(Producer):
    """Useless unless it is shown all rows."""

    calls: list
    exact = closed_under_negation = takes_costs = False

    def prepare(self, X, labels, n_classes):
        self.X, self.labels = X, labels
        return self

    def produce(self, weights, rows, rewards, random_state):
        self.calls.append(len(weights))
        right = (2.0 * self.labels - 1.0) * np.linspace(0.1, 1.0, len(self.labels))
        return Listed(right if rows is None else -right)

    def training_scores(self, hypothesis):
        return hypothesis.scores(self.X)


@pytest.mark.parametrize("mass", ["auto", 0.4])
def test_a_refit_shows_more_rows_before_the_run_is_given_up(mass, monkeypatch):
    monkeypatch.setattr("maboost.boosting.row_sampling.trim._PAYS", 1.0)
    n = 20
    learner = OnlyWhole([])
    weights = np.ones(n)
    booster = maboost(step="paper", learning_rate=0.5, trim=mass)
    run = Run(
        booster, learner, np.arange(n), Game(np.arange(n) % 2, 2), weights, BaseMeasure(weights),
        np.random.RandomState(0),
    )  # fmt: skip
    first, second = rounds(run, 2)
    assert (first.rows_used, second.rows_used) == (n, n)
    assert learner.calls[0] == n
    some, more, everything = learner.calls[1:]
    assert some < more < everything == n


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_the_estimate_is_the_mean_and_variance_over_the_rows_shown(width, lifted, some):
    """Against numpy, by weights: the base measure times the density as it was shown."""
    rng = np.random.default_rng(width)
    measure = BaseMeasure(rng.uniform(0.5, 2.0, 50), width)
    density, codes = rng.exponential(size=50 * width), rng.integers(0, 5, 50 * width)
    values = rng.uniform(-1.0, 1.0, 5)
    rows = np.sort(rng.permutation(50)[:20]) if some else None
    picked = np.arange(50) if rows is None else rows
    factors = rng.uniform(1.0, 3.0, len(picked)) if lifted else None
    weights = (measure.entries * density).reshape(50, width)[picked]
    if factors is not None:
        weights = weights * factors[:, None]
    losses = values[codes].reshape(50, width)[picked]
    mean = np.average(losses, weights=weights)
    variance = np.average((losses - mean) ** 2, weights=weights)
    shown = Subset(rows, factors, Sample())
    for direction in (values[codes], LeafCodes(values, codes.astype(np.uint16))):
        found = shown.estimate(direction, density, measure)
        np.testing.assert_allclose([found.edge, found.variance], [-mean, variance], rtol=1e-12)
