"""Every row of the certificate table, after every round of every kind of booster."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import (
    DOMAINS,
    REGULARIZERS,
    Problem,
    Quadratic,
    divergence,
    examples,
    on_shards,
    random_domain,
    random_problem,
    rounds,
    seeds,
    vertex,
)

from maboost.boosting.certificate import ErrorBound, MarginBound
from maboost.boosting.history import Record
from maboost.boosting.loop import Run
from maboost.boosting.recipes import group_caps, maboost, madaboost, sparseboost
from maboost.engine import project
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Hypercube,
    Orthant,
    Regularizer,
    Simplex,
    SourceCapped,
)
from maboost.mirror.steps import Step

STEPS = ("paper", "maxmargin", "corrective")

problems = st.builds(
    lambda seed, n, n_classes, response, weighted: random_problem(
        np.random.default_rng(seed), n, 5, n_classes, response, weighted
    ),
    seeds,
    st.integers(2, 12),
    st.sampled_from([2, 3, 4]),
    st.sampled_from(["votes", "real"]),
    st.booleans(),
)


def slack(*numbers: float) -> float:
    """Rounding: 1e-9 of the numbers compared."""
    return 1e-9 * (1.0 + sum(abs(x) for x in numbers))


def points_of(run: Run, rng: np.random.Generator) -> list[np.ndarray]:
    """Densities of the domain: from the middle of it, near its border, and corners."""
    regularizer, domain = run.booster.ascent.regularizer, run.booster.ascent.domain
    n = run.measure.entries.size
    middle = [
        project(regularizer, domain, rng.normal(size=n) * scale, run.measure).density
        for scale in (0.3, 3.0, 30.0)
    ]
    orders = [rng.normal(size=n), run.margins, -run.margins]
    return middle + [vertex(order, run.measure, domain, regularizer.upper) for order in orders]


def check_star(run: Run, rng: np.random.Generator) -> None:
    """The inequality from which all others follow: <w*, M> >= G - B(w*, D)."""
    base = run.measure.entries
    for u in points_of(run, rng):
        cost = divergence(run.booster.ascent.regularizer, u, np.ones(u.size), base)
        reached = math.fsum(base * u * run.margins)
        assert reached >= run.gain - cost - slack(run.gain, cost, reached)


def check_margins_are_sums(problem: Problem, run: Run, steps: list, losses: list) -> None:
    """The margins of the run are those of the ensemble, from its hypotheses alone."""
    expected = -np.sum([eta * d for eta, d in zip(steps, losses, strict=True)], axis=0)
    np.testing.assert_allclose(run.margins, expected, rtol=0, atol=slack(run.total_step))


def inverse_beta(regularizer: Regularizer, name: str, gain: float) -> float:
    """The column of the table, or bisection of beta's definition."""
    if gain <= 0.0:
        return 1.0
    if name == "entropy":
        return math.exp(-gain)
    if name == "euclidean":
        return 1.0 / (1.0 + 2.0 * gain)

    def beta(level: float) -> float:
        at, zero, one = regularizer.phi(np.array([1.0 / level, 0.0, 1.0]))
        return float(level * at + (1.0 - level) * zero - one)

    low, high = 1.0 / min(regularizer.upper, 1e12), 1.0
    if beta(low) <= gain:
        return low
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if beta(middle) > gain else (low, middle)
    return high


def check_errors(run: Run, record: Record, name: str, groups: np.ndarray, limits: dict) -> None:
    """Training error overall and on each group: counted, bounded, and the bound's formula."""
    regularizer, width = run.booster.ascent.regularizer, run.measure.width
    D = run.measure.rows_base
    wrong = run.margins.reshape(-1, width).min(axis=1) <= 0.0
    assert record.train_error == pytest.approx(math.fsum(D[wrong]), abs=1e-12)
    assert record.train_error <= record.error_bound + 1e-9
    level = inverse_beta(regularizer, name, run.gain)
    caps = np.broadcast_to(run.booster.ascent.domain.row_caps(), D.shape)
    floor = min(max(1.0 / caps.min(), width / regularizer.upper), 1.0)
    assert run.bound.floor == pytest.approx(floor, rel=1e-12)
    assert record.error_bound == pytest.approx(min(1.0, max(floor, width * level)), rel=1e-9)
    for group, limit in limits.items():
        inside = groups == group
        share = math.fsum(D[inside])
        bound = run.bound.of_group(run.gain, share, limit)
        expected = min(1.0, max(limit or 0.0, width * level / share))
        assert bound == pytest.approx(expected, rel=1e-9)
        assert math.fsum(D[inside & wrong]) / share <= bound + 1e-9


def check_margin(run: Run, record: Record, name: str) -> None:
    """The soft margin (by sorting) against its certificate, and the certificate's formula."""
    ascent, measure, total = run.booster.ascent, run.measure, run.total_step
    worst = vertex(run.margins, measure, ascent.domain, ascent.regularizer.upper)
    soft = math.fsum(measure.entries * worst * run.margins)
    tolerance = slack(soft, run.gain)
    assert record.soft_margin * total == pytest.approx(soft, abs=tolerance)
    assert record.min_margin * total == pytest.approx(run.margins.min(), abs=tolerance)
    assert record.margin_bound * total <= soft + tolerance
    caps = np.minimum(ascent.domain.row_caps(), 1.0 / measure.rows_base)
    k = min(float(caps.max()) * measure.width, ascent.regularizer.upper)
    at, zero, one = ascent.regularizer.phi(np.array([k, 0.0, 1.0]))
    radius = {"entropy": math.log(k), "euclidean": 0.5 * (k - 1.0)}.get(
        name, float((at - zero) / k + zero - one)
    )
    assert record.margin_bound * total == pytest.approx(run.gain - radius, abs=slack(radius))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", REGULARIZERS)
@given(problem=problems, seed=seeds, rate=st.sampled_from([1.0, 1.0, 0.3]))
@examples(12)
def test_certificates(name, kind, update, step, problem, seed, rate):
    rng = np.random.default_rng(seed)
    groups, limits, domain = grouped(kind, problem, rng)
    booster = maboost(REGULARIZERS[name], domain, update, step, rate)
    run = problem.run(booster)
    steps, losses = [], []
    for produced in (next(run, None) for _ in range(6)):
        if produced is None:
            break
        record = produced.record
        steps.append(record.step)
        losses.append(run.game.loss(produced.hypothesis.scores(np.arange(problem.n))))
        check_margins_are_sums(problem, run, steps, losses)
        check_star(run, rng)
        check_errors(run, record, name, groups, limits)
        check_margin(run, record, name)


def grouped(kind: str, problem: Problem, rng: np.random.Generator):
    """Two data sources; with a cap a row, the one of the second follows from its error limit."""
    groups = rng.integers(0, 2, size=problem.n)
    groups[0], groups[-1] = 0, 1
    shares = {g: float(problem.base[groups == g].sum()) for g in (0, 1)}
    if kind == "simplex":
        return groups, {0: None, 1: None}, Simplex()
    if kind == "cap":
        k = float(rng.uniform(1.05, 4.0))
        return groups, {g: 1.0 / (k * share) for g, share in shares.items()}, CappedSimplex(k)
    limits = {0: None if rng.integers(2) else float(rng.uniform(0.1, 0.6)), 1: 0.3}
    caps = group_caps(shares, limits)
    return groups, limits, CappedSimplex(np.array([caps[g] for g in groups.tolist()]))


@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(problem=problems, seed=seeds, step=st.sampled_from(STEPS))
@examples(15)
def test_caps_of_any_size_in_any_row(name, update, problem, seed, step):
    """Caps below one, where the run does not start at the base measure, and infinite ones."""
    rng = np.random.default_rng(seed)
    domain = random_domain("caps", problem.base, rng, REGULARIZERS[name].upper)
    run = problem.run(maboost(REGULARIZERS[name], domain, update, step))
    for record in rounds(run, 6):
        check_star(run, rng)
        check_errors(run, record, name, np.zeros(problem.n), {})
        check_margin(run, record, name)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(problem=problems, seed=seeds, rate=st.sampled_from([1.0, 0.3]))
@examples(8)
def test_sources_with_a_largest_mass(name, update, step, problem, seed, rate):
    """The inequality with the first distribution, the soft margin, and errors of the other sources."""
    rng, regularizer = np.random.default_rng(seed), REGULARIZERS[name]
    groups = rng.integers(0, 3, size=problem.n)
    groups[0], groups[-1] = 0, 1
    shares = [float(problem.base[groups == g].sum()) for g in range(3)]
    limits = {0: None if rng.integers(2) else 0.3, 1: None, 2: None}
    caps = group_caps(dict(enumerate(np.maximum(shares, 1e-9))), limits)
    masses = np.array([1.0, rng.uniform(0.02, 0.9), rng.choice([0.3, 1.0])])
    domain = SourceCapped(groups, masses, np.array([caps[g] for g in groups.tolist()]))
    try:
        domain.with_row_caps_at_most(regularizer.upper).check(BaseMeasure(problem.weights))
    except ValueError:
        return  # the rows of a FermiDirac hold no more
    run = problem.run(maboost(regularizer, domain, update, step, rate))
    base, width, rows = run.measure.entries, run.measure.width, run.measure.rows_base
    first = divergence(regularizer, run.state.density, np.ones(base.size), base)
    capped = masses[groups] < 1.0
    for record in rounds(run, 6):
        mass = rows * run.state.density.reshape(-1, width).mean(axis=1)
        for g in range(3):
            assert mass[groups == g].sum() <= masses[g] + 1e-12
        soft = math.inf
        for _ in range(8):
            theta = rng.normal(size=base.size) * rng.choice([0.3, 3.0, 30.0])
            if rng.integers(2):
                theta -= 30.0 * run.margins
            u = project(regularizer, domain, theta, run.measure).density
            cost = divergence(regularizer, u, np.ones(base.size), base)
            reached = math.fsum(base * u * run.margins)
            assert reached >= run.gain + first - cost - slack(run.gain, cost, reached)
            soft = min(soft, reached)
        found, certified = (x * run.total_step for x in (record.soft_margin, record.margin_bound))
        assert certified <= found + slack(found, run.gain)
        assert found <= soft + slack(found)
        wrong = run.margins.reshape(-1, width).min(axis=1) <= 0.0
        level = inverse_beta(regularizer, name, run.gain + first)
        floor = max(
            1.0 / np.min(np.where(capped, math.inf, caps_of(domain, rows))),
            width / regularizer.upper,
        )
        expected = min(1.0, math.fsum(rows[capped]) + max(floor, width * level))
        assert record.error_bound == pytest.approx(expected, rel=1e-9, abs=1e-11)
        assert math.fsum(rows[wrong]) <= record.error_bound + 1e-9
        for g, share in enumerate(shares):
            mass_cap = float(masses[g]) if masses[g] < 1.0 else None
            bound = run.bound.of_group(run.gain, max(share, 1e-9), limits[g], mass_cap)
            if mass_cap is not None:
                assert bound == 1.0
            elif share:
                its = min(1.0, max(limits[g] or 0.0, width * level / share))
                assert bound == pytest.approx(its, rel=1e-9)
                assert math.fsum(rows[wrong & (groups == g)]) / share <= bound + 1e-9


def caps_of(domain, rows: np.ndarray) -> np.ndarray:
    return np.broadcast_to(domain.row_caps(), rows.shape)


@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize(
    ("domain", "via"),
    [
        (Simplex(), Orthant()),
        (CappedSimplex(1.7), Simplex()),
        (CappedSimplex(1.7), Hypercube(1.7)),
        (CappedSimplex(1.3), CappedSimplex(2.0)),
    ],
    ids=["orthant", "simplex", "hypercube", "capped"],
)
@given(problem=problems, seed=seeds, step=st.sampled_from(["paper", "maxmargin"]))
@examples(10)
def test_double_projection(domain, via, name, problem, seed, step):
    if problem.n_classes > 2 and isinstance(via, Hypercube):
        via = Hypercube(via.bound * (problem.n_classes - 1))  # entries, where caps are on rows
    rng = np.random.default_rng(seed)
    run = problem.run(maboost(REGULARIZERS[name], domain, "active", step, via=via))
    for record in rounds(run, 6):
        check_star(run, rng)
        check_errors(run, record, name, np.zeros(problem.n), {})
        check_margin(run, record, name)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("kappa", "decay"), [(1.0, None), (0.5, None), (0.2, None), (0.5, 0.05)], ids=str
)
@given(problem=problems, seed=seeds)
@examples(12)
def test_sparseboost(kappa, decay, step, problem, seed):
    rng = np.random.default_rng(seed)
    run = problem.run(sparseboost(kappa, decay, step))
    width, lightest = run.measure.width, run.measure.rows_base.min()
    for record in rounds(run, 8):
        check_star(run, rng)
        left = max(1.0 - 2.0 * run.gain, 1e-12)
        theorem = min(1.0, width / (1.0 + 2.0 * max(run.gain, 0.0)))
        s, A = run.state.density, run.totals.penalty
        squares, mass = (math.fsum(run.measure.entries * x) for x in (s * s, s))
        assert squares == pytest.approx(1.0 - 2.0 * (run.gain + A), abs=1e-9)
        bound = min(1.0, width * min(squares / (1.0 - A) ** 2, mass / (1.0 - A)))
        certified = min(math.sqrt(squares * width / lightest), mass * width / lightest)
        certified = 1.0 - A - certified
        assert certified >= 1.0 - math.sqrt(left * width / lightest) - slack(certified)
        assert bound <= width * left + 1e-9
        assert bound <= theorem + 1e-12
        assert certified >= run.gain - 0.5 * (width / lightest - 1.0) - slack(certified)
        if kappa == 1.0:  # what is left of the squares, of which wrong pairs have at least one
            assert np.all(s >= 1.0 - run.margins - slack(run.total_step))
            assert left == pytest.approx(squares, abs=1e-9)
        assert record.error_bound == pytest.approx(bound, rel=1e-9, abs=1e-11)
        assert record.error_bound >= bound
        assert record.train_error <= record.error_bound
        assert record.margin_bound * run.total_step == pytest.approx(certified, rel=1e-9, abs=1e-7)
        assert run.margins.min() >= certified - slack(certified)


@given(gain=st.floats(-3.0, 0.499), lightest=st.floats(1e-3, 1.0))
@examples(60)
def test_margins_of_sparseboost_from_densities_of_mass_one_at_most(gain, lightest):
    """A step that is far too long loses, and more mass than one would be counted by a penalty."""
    x = np.linspace(0.0, 1.0, 100_001)[1:] / lightest  # the density of the lightest row
    cost = 0.5 * lightest * (x - 1.0) ** 2 + 0.5 * (1.0 - lightest)
    best = np.max((gain - cost) / (lightest * x))
    found = MarginBound(0.0, 2.0, lightest, squares=True)(gain)
    assert best - 1e-4 * (1.0 + abs(best)) <= found + 1e-9 * (1.0 + abs(best))
    assert found <= best + 1e-6 * (1.0 + abs(best))


@given(gain=st.floats(-1.0, 0.499), seed=seeds, bound=st.sampled_from([1.0, 1.5, 4.0]))
@examples(60)
def test_margins_on_a_hypercube_are_from_densities_in_it(gain, seed, bound):
    """Half the squares, as for SparseBoost, but no density above the bound is a point of the domain."""
    measure = BaseMeasure(np.random.default_rng(seed).uniform(0.2, 3.0, size=6))
    lightest = measure.smallest_row
    x = np.linspace(0.0, bound, 10_001)[1:]  # the density of the lightest row, all others zero
    cost = 0.5 * lightest * (x - 1.0) ** 2 + 0.5 * (1.0 - lightest)
    best = np.max((gain - cost) / (lightest * x))
    found = MarginBound.of(maboost("euclidean", Hypercube(bound)).ascent, measure)(gain)
    assert found <= best + 1e-6 * (1.0 + abs(best))


@pytest.mark.parametrize("domain", [Orthant(), Hypercube(), Hypercube(2.0)], ids=str)
@pytest.mark.parametrize("name", [*REGULARIZERS, "steep", "flat"])
@given(problem=problems, update=st.sampled_from(["active", "lazy"]), step=st.sampled_from(STEPS))
@examples(12)
def test_off_the_plane(name, domain, problem, update, step):
    """Any regularizer where the mass is free: the error is at most 1 - G/B(0, 1), margins as from (★)."""
    more = {"steep": Quadratic(5.0), "flat": Quadratic(0.1)}
    regularizer = (REGULARIZERS | more)[name]
    run = problem.run(maboost(regularizer, domain, update, step))
    zero, one = np.zeros(1), np.ones(1)
    whole = divergence(regularizer, zero, one, one)
    base, width = run.measure.entries, run.measure.width
    for record in rounds(run, 8):
        for wrong in (run.margins <= 0.0, np.arange(base.size) == np.argmin(run.margins)):
            u = wrong.astype(float)
            cost = divergence(regularizer, u, np.ones(base.size), base)
            reached = math.fsum(base * u * run.margins)
            assert reached >= run.gain - cost - slack(run.gain, cost, reached)
        assert 0.0 < run.bound.rounding(run.totals) <= 1e-10
        left = max(1.0 - run.bound.certified(run.totals) / whole, 1e-12)
        bound = left
        if name == "euclidean" and isinstance(domain, Orthant):
            s = run.state.density
            bound = min(math.fsum(base * s * s), math.fsum(base * s))
            assert bound <= left
        assert record.error_bound == pytest.approx(min(1.0, width * bound), rel=1e-9, abs=1e-11)
        assert record.train_error <= record.error_bound
        certified = record.margin_bound * run.total_step
        assert certified >= whole * (1.0 - left / base.min()) - slack(certified)
        assert run.margins.min() >= certified - slack(certified)


def potential(margins: np.ndarray, base: np.ndarray) -> float:
    r"""MadaBoost's :math:`\sum D\psi(-M)`."""
    psi = np.where(margins >= 0.0, np.exp(-np.abs(margins)), 1.0 - margins)
    return math.fsum(base * psi)


@pytest.mark.parametrize("step", STEPS)
@given(problem=problems)
@examples(25)
def test_madaboost(step, problem):
    run = problem.run(madaboost(step))
    lightest = run.measure.entries.min()
    for record in rounds(run, 8):
        phi = potential(run.margins, run.measure.entries)
        assert phi == pytest.approx(1.0 - run.gain, abs=1e-9)
        assert record.error_bound == pytest.approx(min(1.0, run.measure.width * phi), abs=1e-9)
        assert record.train_error <= record.error_bound + 1e-9
        certified = 1.0 - phi / lightest
        assert record.margin_bound * run.total_step == pytest.approx(
            certified, abs=slack(certified)
        )
        assert run.margins.min() >= certified - slack(certified)


TIGHT = {
    "entropy": lambda: maboost(),
    "euclidean": lambda: maboost("euclidean"),
    "capped": lambda: maboost("euclidean", CappedSimplex(30.0)),
    "sparse": lambda: sparseboost(),
    "mada": lambda: madaboost(),
}


@pytest.mark.parametrize("name", TIGHT)
@given(seed=seeds, n=st.integers(2, 12), weighted=st.booleans())
@examples(40)
def test_rounding_breaks_no_bound_that_is_met_exactly(name, seed, n, weighted):
    """A hypothesis that abstains here and is right there: the mass ends evenly on what is wrong."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=n)
    abstains = np.arange(n) < rng.integers(1, n)
    weights = rng.uniform(0.2, 3.0, size=n) if weighted else np.ones(n)
    run = Problem(labels, weights, np.where(abstains, 0.0, 2.0 * labels - 1.0)[None]).run(
        TIGHT[name]()
    )
    for record in rounds(run, 3):
        assert record.train_error <= record.error_bound
        assert record.soft_margin >= record.margin_bound


@pytest.mark.parametrize("rate", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("step", ["paper", "maxmargin"])
@pytest.mark.parametrize("name", REGULARIZERS)
def test_the_margin_of_a_single_row_is_met_exactly(name, step, rate):
    """All of the gain is margin, and a small one is the difference of two potentials that are not."""
    for score in (1.0, 0.3, 1e-3, 9.718516554757175e-06, 1e-9):
        problem = Problem(np.ones(1, dtype=int), np.ones(1), np.array([[score]]))
        run = problem.run(maboost(REGULARIZERS[name], step=step, learning_rate=rate))
        for record in rounds(run, 6):
            assert record.margin_bound <= record.soft_margin


@given(problem=problems, k=st.floats(1.05, 6.0), cap=st.floats(1.0, 6.0))
@examples(30)
def test_floors(problem, k, cap):
    """FermiDirac promises nothing below (K-1)/k, caps nothing below 1/k; whichever is higher."""
    regularizer = type(REGULARIZERS["fermi-dirac"])(k)
    for domain, floor in ((Simplex(), 0.0), (CappedSimplex(cap), 1.0 / cap)):
        run = problem.run(maboost(regularizer, domain, step="paper"))
        bound = ErrorBound.of(run.booster.ascent, run.measure)
        expected = min(1.0, max(floor, run.measure.width / k))
        assert bound.floor == pytest.approx(expected, rel=1e-12)
        assert bound(1e6) == pytest.approx(expected, rel=1e-12)
        assert bound(0.0) == 1.0
        assert run.margin_bound(0.0) <= 1e-12


@pytest.mark.parametrize("gain", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "booster", [maboost(), maboost(domain=CappedSimplex(2.0)), sparseboost(), madaboost()], ids=str
)
def test_a_gain_that_overflowed_promises_nothing(booster, gain):
    run = random_problem(np.random.default_rng(0), 6, 5, 2, "votes", False).run(booster)
    assert run.bound(gain) == run.bound.of_group(gain, 0.5, None) == 1.0
    assert run.margin_bound(gain) == -math.inf


def test_bounds_are_those_of_the_rows_of_all_shards():
    """The tightest cap, the lightest row and the loosest cap may each be another shard's."""
    rng = np.random.default_rng(0)
    weights, caps = rng.uniform(0.2, 3.0, size=12), rng.uniform(1.5, 4.0, size=12)

    def bounds(rows, comm=None):
        measure = BaseMeasure(weights[rows], comm=comm)
        boosters = maboost(domain=CappedSimplex(caps[rows])), maboost(), sparseboost()
        pairs = [
            (ErrorBound.of(b.ascent, measure), MarginBound.of(b.ascent, measure)) for b in boosters
        ]
        return [(error(gain), margin(gain)) for error, margin in pairs for gain in (0.1, 0.4, 9.0)]

    whole, parts = bounds(np.arange(12)), np.split(np.arange(12), [3, 8])
    assert on_shards(3, lambda comm: bounds(parts[comm.rank], comm)) == [whole] * 3


def long(size):
    """A step rule of one size."""
    return lambda situation: Step(size)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12, 1e100])
@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(1.5), Orthant(), Hypercube()], ids=str)
@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero")
def test_steps_of_any_size_break_no_bound(name, domain, update, size):
    """Gains of long steps are differences of large potentials, which round by more than any fixed amount."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 3 + 3 * (seed // 2), 5, 2, "votes", seed % 2 == 1, 0.5)
        run = problem.run(maboost(REGULARIZERS[name], domain, update, long(size)))
        for record in rounds(run, 30):
            assert record.train_error <= record.error_bound
            assert record.soft_margin >= record.margin_bound
            if not math.isfinite(run.state.mass):  # entropy on the orthant: no distribution is left
                break


def growing(factor):
    """A step rule whose steps grow by a factor."""
    return lambda situation: Step(min(factor**situation.round, 1e9))


def forth_and_back(n=6):
    """Two hypotheses, each right where the other is wrong: every second round all votes are zero."""
    labels = np.arange(n) % 2
    first = (2.0 * labels - 1.0) * np.where(np.arange(n) < n - 2, 1.0, -1.0)
    weights = np.where(np.arange(n) < 2, 3.0, 1.0)
    return Problem(labels, weights, np.array([first, -first]))


@pytest.mark.parametrize("n", [6, 13])
@pytest.mark.parametrize("name", ["euclidean", "entropy"])
def test_four_hundred_long_steps_of_a_lazy_booster_certify_nothing(name, n):
    """All gains sum to zero, up to rounding that grows with the steps."""
    run = forth_and_back(n).run(maboost(name, update="lazy", step=long(1e9)))
    for record in rounds(run, 400):
        assert record.train_error <= record.error_bound
    assert record.round == 400
    assert record.train_error == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1.5, 200.0, 1e8])
@pytest.mark.parametrize("via", [Simplex(), Orthant()], ids=str)
@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_double_projections_of_long_steps_break_no_bound(name, via, size):
    """Over the orthant the first projection may have any mass, which the gain does not show."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 5, 5, 2 + 2 * (seed % 2), "votes", True, 0.5)
        domain = CappedSimplex(1.7)
        run = problem.run(maboost(REGULARIZERS[name], domain, "active", growing(size), via=via))
        for record in rounds(run, 25):
            assert record.train_error <= record.error_bound
            assert record.soft_margin >= record.margin_bound


@pytest.mark.parametrize(("size", "back"), [(30.0, 30.0), (300.0, 300.0), (8.0, 7.5)])
@pytest.mark.parametrize("name", REGULARIZERS)
def test_steps_forth_and_back_off_the_plane_break_no_bound(name, size, back):
    """The mass grows beyond all bounds and returns: what is left of the gains is their rounding."""
    signs = 2.0 * (np.arange(6) % 2) - 1.0
    tables = np.array([signs * [1, 1, 1, 1, -1, -1], signs * [-1, -1, -1, 1, 1, 1]], dtype=float)
    problem = Problem(np.arange(6) % 2, np.array([3.0, 3.0, 1.0, 1.0, 1.0, 1.0]), tables)
    turns = itertools.cycle([size, back])
    run = problem.run(
        maboost(REGULARIZERS[name], Orthant(), "lazy", lambda situation: Step(next(turns)))
    )
    for record in rounds(run, 20):
        assert record.train_error <= record.error_bound
        assert record.soft_margin >= record.margin_bound


BUILT_IN = {
    "simplex": lambda name, update, step, rate: maboost(
        REGULARIZERS[name], "simplex", update, step, rate
    ),
    "cap": lambda name, update, step, rate: maboost(
        REGULARIZERS[name], CappedSimplex(2.2), update, step, rate
    ),
    "orthant": lambda name, update, step, rate: maboost(
        REGULARIZERS[name], Orthant(), update, step, rate
    ),
    "hypercube": lambda name, update, step, rate: maboost(
        REGULARIZERS[name], Hypercube(), update, step, rate
    ),
    "sparse": lambda name, update, step, rate: sparseboost(0.5, None, step, rate),
    "mada": lambda name, update, step, rate: madaboost(step, rate),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", BUILT_IN)
def test_no_built_in_step_has_a_negative_gain(kind, step):
    """Not by rounding either, once edges are so small that the gain is lost in the potential's last bits."""
    for name, update, rate in itertools.product(REGULARIZERS, ["active", "lazy"], [1.0, 0.3]):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            problem = random_problem(rng, 5, 3, 2 + seed % 2, "real", True, 0.7)
            run = problem.run(BUILT_IN[kind](name, update, step, rate))
            for record in rounds(run, 40):
                assert record.gain >= 0.0
