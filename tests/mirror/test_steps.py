"""Step rules: what each gains, and what happens where the gain has no maximum."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from tests.helpers import (
    DOMAINS,
    REGULARIZERS,
    Problem,
    Quadratic,
    cuts,
    examples,
    on_shards,
    random_domain,
    rounds,
    seeds,
    vertex,
    with_engine,
)

from maboost.boosting.recipes import combined, maboost, madaboost, sparseboost
from maboost.engine.entropy import EntropyMoments, NearCaps
from maboost.engine.leaf_codes import LeafCodes
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Domain,
    Entropy,
    Euclidean,
    FermiDirac,
    Hypercube,
    MirrorAscent,
    Orthant,
    Regularizer,
    Simplex,
    project,
)
from maboost.mirror.steps import Corrective, MaxMargin, Paper, Situation, Step, gain_slope, scaled
from maboost.runtime import thresholds
from maboost.runtime.threads import Threads

names = pytest.mark.parametrize("name", REGULARIZERS)
kinds = pytest.mark.parametrize("kind", DOMAINS)
updates = st.sampled_from(["active", "lazy"])


def situation(
    rng: np.random.Generator,
    regularizer: Regularizer,
    domain: Domain | str,
    update: str = "active",
    width: int = 1,
    votes: bool = False,
    moves: int = 2,
    l1_share: float = 0.0,
) -> Situation:
    """A hypothesis with a positive edge, met after a few moves."""
    n = int(rng.integers(2, 12))
    measure = BaseMeasure(rng.uniform(0.2, 2.0, size=n), width)
    if isinstance(domain, str):
        domain = random_domain(domain, measure.rows_base, rng, regularizer.upper)
    ascent = MirrorAscent(regularizer, domain, update)
    state = ascent.start(measure)
    for _ in range(moves):
        state = ascent.move(
            state, rng.uniform(-1, 1, n * width), rng.uniform(0, 0.5), measure
        ).state
    edge = 0.0
    while abs(edge) < 1e-3:
        d = rng.choice([-1.0, 1.0], n * width) if votes else rng.uniform(-1.0, 1.0, n * width)
        edge = -measure.integral(state.density * d) / state.mass
    d, edge = math.copysign(1.0, edge) * d, abs(edge)
    l1 = l1_share * edge * state.mass
    return with_engine(Situation(ascent, state, measure, d, edge, 1, 1.0, 0.0, l1))


def gain(s: Situation, step: float) -> float:
    return s.ascent.move(s.state, s.direction, step, s.measure, s.l1).gain


def smallest_edge(s: Situation) -> float:
    """The least edge of the hypothesis over the domain, by sorting."""
    u = vertex(-s.direction, s.measure, s.ascent.domain, s.ascent.regularizer.upper)
    return -math.fsum(s.measure.entries * u * s.direction)


@names
@kinds
@pytest.mark.parametrize("width", [1, 2])
@given(seed=seeds, update=updates, votes=st.booleans(), engine=st.booleans())
@examples(20)
def test_corrective_gains_most(name, kind, width, seed, update, votes, engine):
    """gain(corrective) >= gain(paper) >= sigma gamma^2 / 2, and the next edge is zero."""
    rng = np.random.default_rng(seed)
    regularizer = REGULARIZERS[name]
    s = situation(rng, regularizer, kind, update, width, votes)
    s = s if engine else replace(s, engine=None)
    paper, corrective = Paper()(s).size, Corrective()(s)
    sigma = regularizer.strong_convexity
    assert paper == pytest.approx(sigma * s.edge, rel=1e-15)
    least = 0.5 * sigma * s.edge**2
    assert gain(s, paper) >= least - 1e-12
    assert corrective.final == bool(np.all(s.direction < 0.0))
    if corrective.final:  # as long as it needs to be, see below
        return
    assert gain(s, corrective.size) >= gain(s, paper) - 1e-12
    if smallest_edge(s) < -1e-3:  # some distribution of the domain makes it worse than useless
        assert abs(gain_slope(s, corrective.size)) <= 1e-11
        for other in corrective.size * np.array([0.5, 0.99, 1.01, 2.0]):
            assert gain(s, other) <= gain(s, corrective.size) + 1e-12


@given(seed=seeds, update=updates)
@examples(40)
def test_corrective_is_adaboost(seed, update):
    """Votes under entropy on the simplex: eta = log((1+gamma)/(1-gamma))/2."""
    rng = np.random.default_rng(seed)
    s = situation(rng, Entropy(), Simplex(), update, votes=True)
    assume(np.any(s.direction > 0.0))
    step = Corrective()(s).size
    assert step == pytest.approx(0.5 * math.log((1.0 + s.edge) / (1.0 - s.edge)), rel=1e-12)
    assert gain(s, step) == pytest.approx(-0.5 * math.log(1.0 - s.edge**2), rel=1e-9)


@given(seed=seeds, share=st.sampled_from([0.0, 0.3, 0.8]))
@examples(60)
def test_corrective_of_sparseboost(seed, share):
    """The root of gamma' n' = alpha (1 - n'), primes after the step."""
    s = situation(np.random.default_rng(seed), Euclidean(), Orthant(), l1_share=share)
    step = Corrective()(s).size
    after = s.ascent.move(s.state, s.direction, step, s.measure, s.l1).state
    left = -math.fsum(s.measure.entries * after.density * s.direction)
    assert abs(left - s.l1 * (1.0 - after.mass)) <= 1e-11
    assert gain(s, step) >= gain(s, Paper()(s).size) - 1e-12
    assert gain(s, Paper()(s).size) >= 0.5 * (s.edge * s.state.mass - s.l1) ** 2 - 1e-12


@given(seed=seeds, votes=st.booleans())
@examples(60)
def test_corrective_of_madaboost(seed, votes):
    """The line search of its potential."""
    s = situation(np.random.default_rng(seed), Entropy(), Hypercube(), "lazy", votes=votes)
    assume(np.any(s.direction > 0.0))
    step = Corrective()(s).size
    assert abs(gain_slope(s, step)) <= 1e-11
    assert gain(s, step) >= gain(s, Paper()(s).size) - 1e-12


@pytest.mark.parametrize("kind", [*DOMAINS, "orthant", "hypercube"])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, update=updates, width=st.sampled_from([1, 3]))
@examples(40)
def test_newton_agrees_with_the_bracketed_search(name, kind, seed, update, width):
    domain = {"orthant": Orthant(), "hypercube": Hypercube()}.get(kind, kind)
    s = situation(np.random.default_rng(seed), REGULARIZERS[name], domain, update, width)
    found = s.engine.corrective_step(s)
    if found is None:
        return
    searched = Corrective()(replace(s, engine=None))
    assert gain(s, found.size) == pytest.approx(gain(s, searched.size), abs=1e-12)
    h = 1e-4 * found.size
    curve = (gain_slope(s, found.size - h) - gain_slope(s, found.size + h)) / (2.0 * h)
    if curve > 1e-2:
        assert found.size == pytest.approx(searched.size, abs=1e-9)


@pytest.mark.parametrize(
    ("regularizer", "domain"),
    [(Entropy(), Simplex()), (Euclidean(), Simplex()), (Euclidean(), Orthant())],
    ids=["entropy", "euclidean", "orthant"],
)
@given(seed=seeds)
@examples(60)
def test_newton_settles_nowhere_where_densities_were_cut(regularizer, domain, seed):
    """Rows that weigh next to nothing are wrong: their densities grow beyond the grid of sums."""
    rng = np.random.default_rng(seed)
    weights = np.array([1.0, *10.0 ** -rng.uniform(0.0, 8.0, size=5)])
    measure, ascent = BaseMeasure(weights), MirrorAscent(regularizer, domain)
    d = rng.uniform(0.0, 1.0, size=6) * np.where(weights < 0.1, 1.0, -1.0)
    edge = -measure.integral(d)
    assume(edge > 1e-3)
    s = with_engine(Situation(ascent, ascent.start(measure), measure, d, edge))
    found = s.engine.corrective_step(s)
    assert found is None or abs(gain_slope(s, found.size)) <= 1e-10


@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(3.0), CappedSimplex(1.8)], ids=repr)
@pytest.mark.parametrize("width", [1, 3])
def test_newton_usually_succeeds(name, domain, width):
    """The fast path is not dead code."""
    met = [
        situation(np.random.default_rng(seed), REGULARIZERS[name], domain, width=width)
        for seed in range(100)
    ]
    met = [s for s in met if smallest_edge(s) < -0.1]
    found = [s.engine.corrective_step(s) for s in met]
    assert len(met) > 50
    assert sum(x is not None for x in found) >= 0.75 * len(met)


@names
@kinds
@given(seed=seeds, width=st.sampled_from([1, 3]), step=st.sampled_from([0.1, 1.0, 6.0]))
@examples(40)
def test_what_a_pass_tells_newton_s_method(name, kind, seed, width, step):
    """Mass and loss are those of the rows, each held at its cap, and the moments are their slopes."""
    s = situation(np.random.default_rng(seed), REGULARIZERS[name], kind, width=width)
    regularizer, measure = s.ascent.regularizer, s.measure
    shape = measure.rows, width
    caps = np.broadcast_to(s.ascent.domain.row_caps(), shape[:1])
    d, base = s.direction.reshape(shape), measure.entries.reshape(shape)

    def expected(step: float, shift: float) -> tuple[float, float]:
        rows = []
        for x, cap in zip(s.state.theta.reshape(shape) + step * d - shift, caps, strict=True):
            top = 0.0
            if regularizer.point(x).mean() > cap:
                top = brentq(
                    lambda t, x=x, cap=cap: regularizer.point(x - t).mean() - cap, 0.0, 1e3
                )
            rows.append(regularizer.point(x - top))
        return np.sum(base * rows), np.sum(base * rows * d)

    shift, h = s.measure.integral(step * s.direction * s.state.density), 1e-5
    sums = s.engine.moments(s)
    mass, loss, *moments = sums.sums(step, shift)
    assume(not sums.clipped)
    assert (mass, loss) == pytest.approx(expected(step, shift), rel=1e-9, abs=1e-9)
    slopes = []
    for along in ((h, 0.0), (0.0, -h)):
        ends = [expected(step + k * along[0], shift + k * along[1]) for k in (-1, 0, 1)]
        first, second = np.diff(ends, axis=0) / h
        assume(np.abs(first - second).max() < 1e-3)  # else a row meets its cap or zero in between
        slopes.append((first + second) / 2)
    assert moments == pytest.approx([*slopes[1], slopes[0][1]], rel=1e-3, abs=1e-3)


@kinds
@given(seed=seeds, step=st.sampled_from([0.1, 1.0, 6.0]))
@examples(40)
def test_entries_near_their_caps_tell_what_all_entries_do(kind, seed, step):
    """A short table is passed over as a whole, of a long one only what a cap may reach."""
    rng = np.random.default_rng(seed)
    s = situation(rng, Entropy(), kind)
    values = rng.uniform(-1.0, 1.0, size=6)
    coded = LeafCodes(values, rng.integers(0, 6, s.state.density.size).astype(np.uint8))
    shift, told = coded.log_mean_exp(step, s.state.density, s.measure), []
    s = replace(s, direction=coded)
    for short, expected in ((0, NearCaps), (1000, EntropyMoments)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(thresholds, "SHORT_TABLE", short)
            rows = s.engine.moments(s)
        assert type(rows) is expected
        assert rows.by_factors
        told.append(rows.sums(step, shift))
        assume(not rows.clipped)
    assert told[0] == pytest.approx(told[1], rel=1e-12, abs=1e-12)


class Powers(Entropy):
    """A user's own entropy, which overflows."""

    def grad_inverse(self, x):
        return np.exp(x)


def test_a_pass_far_off_overflows_without_a_word_on_any_thread():
    measure = BaseMeasure(np.ones(64), threads=Threads(2))
    ascent = MirrorAscent(Powers(), Simplex())
    d = np.where(np.arange(64) % 2, 1.0, -1.0)
    far = with_engine(Situation(ascent, ascent.start(measure), measure, d, 0.5))
    assert not math.isfinite(far.engine.moments(far).sums(1e4, 0.0)[0])


@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(2.0), Hypercube()], ids=repr)
@given(seed=seeds, update=updates)
@examples(30)
def test_directions_of_few_values(domain, seed, update):
    """Codes and a table of values are only a faster way to the same step."""
    rng = np.random.default_rng(seed)
    s = situation(rng, Entropy(), domain, update)
    values = rng.uniform(-1.0, 1.0, size=4)
    codes = rng.integers(0, 4, size=s.direction.size).astype(np.uint16)
    edge = -s.measure.integral(s.state.density * values[codes]) / s.state.mass
    assume(abs(edge) > 1e-3)
    values *= math.copysign(1.0, edge)
    plain = replace(s, direction=values[codes], edge=abs(edge))
    assume(smallest_edge(plain) < -1e-3)
    coded = replace(plain, direction=LeafCodes(values, codes))
    step = Corrective()(coded).size
    assert abs(gain_slope(plain, step)) <= 1e-11
    assert step == pytest.approx(Corrective()(plain).size, rel=1e-9)


# --------------------------------------------------------------------------------------------------
# no finite root


def one_hypothesis(scores: np.ndarray, weights: np.ndarray | None = None) -> Problem:
    """Two classes, all labels positive: the scores are the margins."""
    n = len(scores)
    return Problem(np.ones(n, dtype=int), np.ones(n) if weights is None else weights, scores[None])


ENDINGS = {
    "entropy": lambda n: maboost(),
    "entropy, lazy": lambda n: maboost(update="lazy"),
    "euclidean": lambda n: maboost("euclidean"),
    "capped": lambda n: maboost("entropy", CappedSimplex(2.0)),
    "capped euclidean": lambda n: maboost("euclidean", CappedSimplex(2.0), "lazy"),
    "fermi-dirac": lambda n: maboost(FermiDirac(3.0)),
    "fermi-dirac, capped": lambda n: maboost(FermiDirac(3.0), CappedSimplex(2.0)),
    "user's own": lambda n: maboost(REGULARIZERS["user's own"]),
    "combined": lambda n: combined(np.where(np.arange(n) % 2, 3.0, math.inf)),
    "MadaBoost": lambda n: madaboost(),
    "slow": lambda n: maboost(learning_rate=0.1),
}


@pytest.mark.parametrize("ending", ENDINGS)
@given(seed=seeds, n=st.integers(2, 12), lowest=st.sampled_from([0.01, 0.3, 1.0]))
@examples(15)
def test_a_hypothesis_that_is_right_everywhere_ends_the_run(ending, seed, n, lowest):
    """No finite root and v > 0: one step brings the error bound to its floor, and that is all."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(lowest, 1.0, size=n)
    p = one_hypothesis(scores, rng.uniform(0.2, 2.0, size=n))
    run = p.run(ENDINGS[ending](n))
    records = list(rounds(run, 5))
    assert len(records) == 1
    assert run.ended.startswith(("one hypothesis is right", "every row is right"))
    assert records[-1].train_error == 0.0
    assert records[-1].error_bound <= max(run.bound.floor, run.measure.smallest_row) * (1 + 1e-12)


@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(3.0)], ids=repr)
@pytest.mark.parametrize("k", [1.0001, 1.5, 3.0, 50.0])
def test_the_last_step_gains_no_less_than_the_paper_s(k, domain):
    """Where the floor of the bound is soon reached, sigma gamma^2 / 2 may be more than that takes."""
    regularizer = FermiDirac(k)
    for scores in (np.ones(3), np.array([0.2, 0.9, 1.0])):
        run = one_hypothesis(scores).run(maboost(regularizer, domain))
        (record,) = rounds(run, 5)
        assert record.gain >= 0.5 * regularizer.strong_convexity * record.edge**2


@given(seed=seeds, n_classes=st.integers(3, 5))
@examples(15)
def test_right_everywhere_with_more_classes(seed, n_classes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, size=7)
    scores = 0.9 * np.eye(n_classes)[labels] + 0.1 / n_classes
    p = Problem(labels, np.ones(7), scores[None], n_classes)
    for booster in (maboost(), maboost("euclidean", CappedSimplex(2.0)), maboost(FermiDirac(30.0))):
        run = p.run(booster)
        (record,) = rounds(run, 5)
        assert record.error_bound <= max(run.bound.floor, run.measure.smallest_row) * (1 + 1e-12)


@pytest.mark.parametrize("width", [1, 3])
def test_right_everywhere_after_a_hypothesis_that_was_wrong(width):
    """MadaBoost: rows whose margin is below zero have further to go, and every pair of a row counts."""
    measure, ascent = BaseMeasure(np.ones(4), width), madaboost().ascent
    state = ascent.move(ascent.start(measure), np.ones(4 * width), 30.0, measure).state
    s = with_engine(Situation(ascent, state, measure, np.full(4 * width, -0.5), 0.5))
    step = Corrective()(s)
    assert step.final
    assert width * measure.integral(np.exp(state.theta + step.size * s.dense)) <= 0.25


def test_the_last_step_is_as_long_as_the_loosest_cap_asks_and_no_longer():
    """A source without a cap is promised no error at all, one with a cap of k an error of 1/k."""
    scores = np.full(20, 0.5)
    (free,) = rounds(one_hypothesis(scores).run(combined(np.repeat([math.inf, 2.0], 10))), 5)
    assert math.exp(-free.gain) < 1 / 20
    (held,) = rounds(one_hypothesis(scores).run(combined(np.repeat([8.0, 2.0], 10))), 5)
    assert math.log(8.0) <= held.gain <= 1.01 * math.log(8.0)


def test_a_row_that_is_abstained_on_is_not_right():
    """v > 0 under caps all the same: the step is not the last."""
    p = one_hypothesis(np.array([0.0, *np.ones(9)]))
    run = p.run(maboost("entropy", CappedSimplex(2.0)))
    assert [r.step for r in rounds(run, 3)] == pytest.approx(
        [math.atanh(0.9)] + 2 * [math.atanh(0.8)]
    )


def test_votes_as_codes_take_adaboost_s_step():
    measure, ascent = (
        BaseMeasure(np.array([1.0, 2.0, 3.0, 4.0])),
        MirrorAscent(Entropy(), Simplex()),
    )
    votes = LeafCodes(np.array([-1.0, 1.0]), np.array([1, 0, 0, 0], dtype=np.uint16))
    s = with_engine(Situation(ascent, ascent.start(measure), measure, votes, 0.8))
    assert Corrective()(s).size == pytest.approx(math.atanh(0.8), rel=1e-14)


def test_votes_on_one_shard_are_not_votes_on_all():
    """AdaBoost's step is for a hypothesis that votes everywhere."""
    d = np.array([-1.0, 1.0, -1.0, -1.0, 0.5, -0.2, -0.7, 0.1])

    def work(comm, rows):
        measure = BaseMeasure(np.ones(len(rows)), comm=comm)
        ascent = MirrorAscent(Entropy(), Simplex())
        state = ascent.start(measure)
        edge = -measure.integral(state.density * d[rows])
        return Corrective()(with_engine(Situation(ascent, state, measure, d[rows], edge))).size

    whole = work(None, np.arange(8))
    halves = np.split(np.arange(8), 2)
    assert on_shards(2, lambda comm: work(comm, halves[comm.rank])) == [whole] * 2


@pytest.mark.parametrize("name", REGULARIZERS)
def test_caps_that_keep_wrong_rows_from_mattering(name):
    """v > 0 although a row is wrong: a step that is long enough to pay, and the run goes on."""
    p = one_hypothesis(np.array([-1.0, *np.ones(9)]))
    booster = maboost(REGULARIZERS[name], CappedSimplex(2.0))
    run = p.run(booster)
    for record in rounds(run, 20):
        assert record.step == pytest.approx(
            max(math.atanh(record.edge), booster.ascent.regularizer.strong_convexity * record.edge)
        )
        assert record.edge >= 0.6 - 1e-12  # the wrong row holds at most a fifth
    assert run.ended is None
    assert record.error_bound == pytest.approx(0.5)


@pytest.mark.parametrize("update", ["active", "lazy"])
def test_a_hypothesis_that_abstains_takes_the_longest_step(update):
    """v = 0 and no root: the edge falls for ever but never to zero."""
    p = one_hypothesis(np.array([0.0, 0.1, 0.1, 0.1]))
    run = p.run(maboost(update=update))
    record = next(rounds(run, 1))
    assert record.step == 64.0
    assert run.ended is None


def test_abstention_with_votes_stops_where_the_edge_counts_as_zero():
    """Long before a step of 64 the next edge is below what counts as an edge at all."""
    p = one_hypothesis(np.array([0.0, 1.0, 1.0, 1.0]))
    run = p.run(maboost())
    record = next(rounds(run, 1))
    assert 20.0 < record.step <= 64.0
    assert next(rounds(run, 1), None) is None
    assert run.ended == "the learner found no edge"


def test_a_flat_root_is_the_smallest():
    """Euclidean weights reach zero: from there on every step has the same gain."""
    s = flat_situation(Simplex())
    assert Corrective()(s).size == pytest.approx(2.0, abs=1e-9)
    assert gain_slope(s, 1.999) > 0.0
    assert abs(gain_slope(s, 2.0)) <= 1e-15
    assert abs(gain_slope(s, 7.0)) <= 1e-15
    s = flat_situation(Orthant())  # 1 - eta on the row that is right
    assert Corrective()(s).size == pytest.approx(1.0, abs=1e-9)


def flat_situation(domain: Domain) -> Situation:
    """Two rows: abstention on one, right on the other."""
    measure = BaseMeasure(np.ones(2))
    ascent = MirrorAscent(Euclidean(), domain)
    start = ascent.start(measure)
    return with_engine(Situation(ascent, start, measure, np.array([0.0, -1.0]), 0.5))


@pytest.mark.parametrize("count", [2, 3])
def test_the_last_step_is_the_same_on_every_shard(count):
    """Caps differ from row to row, so no shard may look at its own alone."""
    caps = np.array([math.inf, 5.0, 5.0, 2.0, 2.0, 2.0])
    p = one_hypothesis(np.array([0.3, 0.5, 0.2, 0.4, 0.9, 1.0]))
    whole = p.run(combined(caps))
    (record,) = rounds(whole, 3)
    parts = cuts(p.n, count, np.random.default_rng(count))

    def work(comm):
        rows = np.arange(p.n)[parts[comm.rank]]
        return [r.step for r in rounds(p.run(combined(caps[rows]), rows=rows, comm=comm), 3)]

    assert on_shards(count, work) == [[record.step]] * count


# --------------------------------------------------------------------------------------------------
# rules


@given(seed=seeds, t=st.integers(1, 1000))
@examples(20)
def test_maxmargin_is_the_paper_s_step_over_the_root_of_the_round(seed, t):
    s = replace(situation(np.random.default_rng(seed), Entropy(), "cap"), round=t)
    assert MaxMargin()(s).size == pytest.approx(Paper()(s).size / math.sqrt(t), rel=1e-15)


def test_paper_steps_of_the_other_boosters():
    rng = np.random.default_rng(0)
    s = situation(rng, Euclidean(), Orthant(), l1_share=0.25)
    assert Paper()(s).size == pytest.approx(0.75 * s.edge * s.state.mass, rel=1e-12)
    s = replace(situation(rng, Entropy(), Hypercube(), "lazy"), error=0.3)
    assert Paper()(s).size == pytest.approx(0.3 * s.edge, rel=1e-15)


@given(seed=seeds, factor=st.sampled_from([0.05, 0.5, 3.0]))
@examples(60)
def test_the_paper_s_step_gains_off_the_plane_in_any_unit(seed, factor):
    """Gain >= sigma (gamma n)^2 / 2, however curved the regularizer."""
    s = situation(np.random.default_rng(seed), Quadratic(factor), Orthant(), moves=0)
    least = factor * (s.edge * s.state.mass) ** 2
    assert gain(s, Paper()(s).size) >= least - 1e-12


def test_the_corrective_step_through_two_projections_is_refused():
    s = situation(np.random.default_rng(1), Entropy(), CappedSimplex(2.0))
    through = MirrorAscent(Entropy(), CappedSimplex(2.0), via=Simplex())
    with pytest.raises(ValueError, match="double projection"):
        Corrective()(replace(s, ascent=through))
    assert Paper()(replace(s, ascent=through)).size > 0.0


def test_a_learning_rate_shortens_every_step_but_the_last():
    s = situation(np.random.default_rng(0), Entropy(), CappedSimplex(2.0))
    assert scaled(Step(2.0, guess=1.0), 0.1, s) == Step(0.2)
    assert scaled(Step(2.0, guess=1.0), 1.0, s) == Step(2.0, guess=1.0)
    assert scaled(Step(2.0, final=True), 0.1, s) == Step(2.0, final=True)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("cap", [4.0, 6.0, 50.0])
def test_where_a_shorter_step_leads_is_known(rate, cap):
    """Rows of which a few are at their cap, and a tree that is right on most of them."""
    rng = np.random.default_rng(3)
    measure, n = BaseMeasure(rng.uniform(0.5, 2.0, 4000)), 4000
    ascent = MirrorAscent(Entropy(), CappedSimplex(cap))
    state = ascent.start(measure)
    state = ascent.move(state, rng.normal(size=n), 0.4, measure).state
    d = LeafCodes(
        np.array([-0.6, -0.3, 0.2, 0.5]), rng.choice(4, n, p=[0.5, 0.2, 0.2, 0.1]).astype(np.uint16)
    )
    edge = -float(d.values @ d.masses(state.density, measure))
    s = with_engine(Situation(ascent, state, measure, d, edge))
    whole = Corrective()(s)
    short = scaled(whole, rate, s)
    assert short.size == rate * whole.size
    theta = state.theta + short.size * d.dense()
    found = project(ascent.regularizer, ascent.domain, theta, measure)
    assert short.guess == pytest.approx(found.center + found.tau, abs=1e-12)


@pytest.mark.parametrize("kappa", [1.0, 0.4])
def test_sparseboost_ends_when_no_weight_is_left(kappa):
    """Right on every row with certainty: all weights reach zero in one step."""
    run = one_hypothesis(np.ones(4)).run(sparseboost(kappa))
    records = list(rounds(run, 50))
    assert records[-1].train_error == 0.0
    assert run.state.mass <= 1e-9 or kappa < 1.0


@pytest.mark.parametrize("kappa", [0.9, 0.5, 0.01])
@pytest.mark.parametrize("size", [0.3, 1e-3, 1e-5, 1e-8])
def test_a_penalty_has_a_root_however_small_the_scores(size, kappa):
    """All weights at zero would cost the penalty of the whole step: the gain has its maximum before."""
    run = one_hypothesis(np.full(4, size)).run(sparseboost(kappa))
    state, records = run.state, list(rounds(run, 3))
    first = records[0]
    assert all(record.gain > 0.0 for record in records)
    l1 = run.booster.l1(first.edge, 1.0, 1)
    d = np.full(4, -size)
    s = Situation(run.booster.ascent, state, run.measure, d, first.edge, l1=l1)
    assert abs(gain_slope(s, first.step)) <= 2e-13


def test_a_root_that_does_not_exist_is_not_looked_for_long(monkeypatch):
    """Caps close to one keep the wrong rows from ever outweighing the others."""
    rng = np.random.default_rng(0)
    measure, ascent = BaseMeasure(np.ones(400)), MirrorAscent(Entropy(), CappedSimplex(1.2))
    values = np.array([-0.6, -0.5, -0.3, -0.1, 0.02, 0.1, 0.2])
    d = LeafCodes(values, rng.integers(0, 7, 400).astype(np.uint8))
    state = ascent.move(ascent.start(measure), rng.normal(size=400), 0.5, measure).state
    edge = -float(d.values @ d.masses(state.density, measure))
    situation = with_engine(Situation(ascent, state, measure, d, edge))
    steps, sums = [], NearCaps.sums

    def noted(self, step, shift):
        steps.append(step)
        return sums(self, step, shift)

    monkeypatch.setattr(NearCaps, "sums", noted)
    assert smallest_edge(replace(situation, direction=situation.dense)) > 0.01
    assert Corrective()(situation) == Step(math.atanh(edge))
    assert 0 < len(steps) <= 4
