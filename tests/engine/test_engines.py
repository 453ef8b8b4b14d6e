"""Every engine against the reference engine, over geometries, sets, updates, classes, weights and directions.

Tolerances, on tables of up to 60 rows: densities to a relative 1e-9 (Euclidean ones, whose shift is a difference, to
1e-9 of the largest), gains and potentials to 1e-11 of the numbers that are added up to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.helpers import REGULARIZERS, cuts, examples, on_shards, random_domain, seeds

from maboost.engine import engine_for
from maboost.engine.base import Engine
from maboost.engine.leaf_codes import Direction, LeafCodes
from maboost.engine.reference import ReferenceEngine
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Domain,
    Entropy,
    Euclidean,
    Hypercube,
    MirrorAscent,
    Orthant,
    Simplex,
    SourceCapped,
)
from maboost.mirror.ascent import AscentState
from maboost.mirror.steps import Corrective, Situation, Step, gain_slope, scaled, smallest_edge
from maboost.runtime import thresholds
from maboost.runtime.communicator import Communicator, SerialCommunicator
from maboost.runtime.threads import Threads

Array = np.ndarray

DOMAINS = ("simplex", "cap", "caps", "sources", "orthant", "hypercube")
names = pytest.mark.parametrize("name", REGULARIZERS)
domains = pytest.mark.parametrize("kind", DOMAINS)
updates = pytest.mark.parametrize("update", ["active", "lazy"])
widths = pytest.mark.parametrize("width", [1, 3])
codings = pytest.mark.parametrize("coded", [True, False], ids=["leaf codes", "dense"])


@dataclass(frozen=True)
class Problem:
    """A geometry over weighted rows, which may be divided among shards."""

    ascent: MirrorAscent
    weights: Array
    width: int

    def engine(self, threads: int = 1, comm: Communicator | None = None) -> Engine:
        return engine_for(self.ascent, self.measure(threads, comm))

    def measure(self, threads: int = 1, comm: Communicator | None = None) -> BaseMeasure:
        return BaseMeasure(self.weights, self.width, comm, Threads(threads))

    def part(self, rows: slice) -> Problem:
        picked = np.zeros(self.weights.size, dtype=bool)
        picked[rows] = True
        ascent = MirrorAscent(
            self.ascent.regularizer, self.ascent.domain.restricted(picked), self.ascent.update
        )
        return Problem(ascent, self.weights[rows], self.width)

    @property
    def entries(self) -> int:
        return self.weights.size * self.width


def domain_of(kind: str, base: Array, rng: np.random.Generator, upper: float) -> Domain:
    if kind in ("orthant", "hypercube"):
        return Orthant() if kind == "orthant" else Hypercube(float(rng.uniform(1.0, 2.0)))
    if kind == "sources":
        sources = np.arange(base.size) % 3
        return SourceCapped(sources, np.array([1.0, 0.5, 0.2]), min(6.0, upper))
    return random_domain(kind, base, rng, upper)


def problem(
    rng: np.random.Generator, name: str, kind: str, update: str, width: int, rows: int = 0
) -> Problem:
    n = rows or int(rng.integers(6, 60))
    weights = np.ones(n) if rng.integers(2) else rng.uniform(0.3, 3.0, n)
    regularizer = REGULARIZERS[name]
    domain = domain_of(kind, weights / weights.sum(), rng, regularizer.upper)
    return Problem(MirrorAscent(regularizer, domain, update), weights, width)


def random_direction(rng: np.random.Generator, entries: int, coded: bool) -> Direction:
    """Losses of a hypothesis; a code of no row is among the codes, and it has the largest value."""
    values = rng.uniform(-1.0, 0.8, 7)
    if not coded:
        return rng.uniform(-1.0, 1.0, entries)
    return LeafCodes(np.append(values, 1.0), rng.integers(0, 7, entries).astype(np.uint16))


def part_of(direction: Direction, entries: slice) -> Direction:
    if isinstance(direction, LeafCodes):
        return LeafCodes(direction.values, direction.codes[entries])
    return direction[entries]


def situation_of(engine: Engine, state: AscentState, direction: Direction) -> Situation:
    """The situation of a hypothesis with these losses, or of its negative if that has a positive edge."""
    edge = engine.edge(state, direction)
    if edge < 0.0:
        direction, edge = -direction, -edge
    return Situation(engine.ascent, state, engine.measure, direction, edge, engine=engine)


def gain_of(engine: Engine, s: Situation, step: float) -> float:
    return ReferenceEngine(engine.ascent, engine.measure).move(s.state, s.direction, step).gain


def copied(state: AscentState) -> AscentState:
    """The state in arrays of its own: an engine writes its arrays again in the second move after it."""
    return AscentState(state.theta.copy(), state.density.copy(), state.mass, state.potential)


# --------------------------------------------------------------------------------------------------
# results are those of the reference


@names
@domains
@updates
@widths
@codings
@given(seed=seeds)
@examples(4)
def test_moves_and_edges(name, kind, update, width, coded, seed):
    rng = np.random.default_rng(seed)
    p = problem(rng, name, kind, update, width)
    engine, reference = p.engine(), ReferenceEngine(p.ascent, p.measure())
    state, wanted = engine.start(), reference.start()
    for _ in range(4):
        for left, right in ((state.density, wanted.density), (state.theta, wanted.theta)):
            largest = np.abs(right[np.isfinite(right)]).max(initial=1.0)
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9 * largest)
        assert state.mass == pytest.approx(wanted.mass, rel=1e-11)
        assert state.potential == pytest.approx(wanted.potential, rel=1e-11, abs=1e-11)
        if not wanted.mass > 1e-3:
            return
        d, step = random_direction(rng, p.entries, coded), float(rng.choice([0.05, 0.5, 3.0]))
        edge = engine.edge(state, d)
        assert edge == pytest.approx(reference.edge(wanted, d), rel=1e-10, abs=1e-10)
        guess = None if rng.integers(2) else float(rng.normal())  # a wrong one changes nothing
        moved, expected = engine.move(state, d, step, guess=guess), reference.move(wanted, d, step)
        largest = 1.0 + step + abs(wanted.potential)
        assert moved.gain == pytest.approx(expected.gain, abs=1e-11 * largest)
        state, wanted = moved.state, expected.state


@names
@domains
@updates
@widths
@codings
@given(seed=seeds)
@examples(4)
def test_corrective_steps(name, kind, update, width, coded, seed):
    """The gain is as large as that of the bracketed search, and so is the step where the gain is curved."""
    rng = np.random.default_rng(seed)
    p = problem(rng, name, kind, update, width)
    engine = p.engine()
    state = engine.move(engine.start(), random_direction(rng, p.entries, False), 0.4).state
    assume(state.mass > 1e-3)
    s = situation_of(engine, state, random_direction(rng, p.entries, coded))
    assume(s.edge > 1e-3)
    found = engine.corrective_step(s)
    if found is None:
        return
    searched = Corrective()(Situation(p.ascent, state, engine.measure, s.direction, s.edge))
    gain = gain_of(engine, s, found.size)
    assert gain == pytest.approx(gain_of(engine, s, searched.size), abs=1e-11 * (1.0 + found.size))
    h = 1e-4 * found.size
    curve = (gain_slope(s, found.size - h) - gain_slope(s, found.size + h)) / (2.0 * h)
    if curve > 1e-2:
        assert found.size == pytest.approx(searched.size, abs=1e-9)


@names
@pytest.mark.parametrize("kind", ["simplex", "cap"])
@widths
@codings
def test_newton_s_method_usually_finds_the_step(name, kind, width, coded):
    """The fast way is taken: an engine that returned None would pass all other tests."""
    found = met = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = problem(rng, name, kind, "active", width)
        engine = p.engine()
        state = engine.move(engine.start(), random_direction(rng, p.entries, False), 0.4).state
        s = situation_of(engine, state, random_direction(rng, p.entries, coded))
        if smallest_edge(s) < -0.1:
            met += 1
            found += engine.corrective_step(s) is not None
    assert met > 30
    assert found >= 0.75 * met


@pytest.mark.parametrize("kind", ["cap", "caps"])
@pytest.mark.parametrize("share", [0.1, 0.9, 1.0])
@given(seed=seeds)
@examples(15)
def test_a_short_list_of_rows_tells_what_all_rows_do(kind, share, seed):
    """Under caps a long table is passed over once, and then only the rows that a cap may reach."""
    rng = np.random.default_rng(seed)
    p = problem(rng, "entropy", kind, "active", 1)
    direction, steps = random_direction(rng, p.entries, True), []
    for short in (0, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(thresholds, "SHORT_TABLE", short)
            engine = p.engine()
            s = situation_of(engine, engine.start(), direction)
            assume(s.edge > 1e-3)
            steps.append(scaled(Corrective()(s), share, s))
    assert steps[0].size == pytest.approx(steps[1].size, rel=1e-9)
    gains = [engine.move(s.state, s.direction, t.size, guess=t.guess).gain for t in steps]
    assert gains[0] == pytest.approx(gains[1], abs=1e-12)


# --------------------------------------------------------------------------------------------------
# the same bits for any threads and shards


def trace(
    p: Problem, directions: list[Direction], threads: int, comm: Communicator | None = None
) -> list[object]:
    """All numbers of a few rounds: edges, steps, gains, potentials and this shard's densities."""
    engine = p.engine(threads, comm)
    state, told = engine.start(), []
    for t, d in enumerate(directions):
        s = situation_of(engine, state, d)
        found = engine.corrective_step(s) or Step(0.3)
        step = scaled(found, 1.0 if t % 2 else 0.4, s)
        moved = engine.move(state, s.direction, step.size, guess=step.guess)
        state = moved.state
        told += [
            s.edge,
            step.size,
            moved.gain,
            state.mass,
            state.potential,
            state.density.tobytes(),
        ]
    return told


@names
@domains
@updates
@pytest.mark.parametrize(("width", "coded"), [(1, True), (1, False), (3, True)])
def test_threads_change_no_bit(name, kind, update, width, coded):
    """On a table that is long enough to be divided."""
    rng = np.random.default_rng(len(name) + len(kind))
    p = problem(rng, name, kind, update, width, rows=20_000)
    directions = [random_direction(rng, p.entries, coded) for _ in range(2)]
    one = trace(p, directions, 1)
    assert trace(p, directions, 2) == one
    assert trace(p, directions, 3) == one


@pytest.mark.parametrize("name", ["entropy", "euclidean", "user's own"])
@domains
@updates
@given(seed=seeds, width=st.sampled_from([1, 3]), coded=st.booleans(), count=st.integers(2, 4))
@examples(4)
def test_shards_change_no_bit(name, kind, update, seed, width, coded, count):
    rng = np.random.default_rng(seed)
    p = problem(rng, name, kind, update, width)
    directions = [random_direction(rng, p.entries, coded) for _ in range(2)]
    parts = cuts(p.weights.size, count, rng)

    def shard(comm: Communicator) -> list[object]:
        rows = parts[comm.rank]
        entries = slice(rows.start * width, rows.stop * width)
        return trace(p.part(rows), [part_of(d, entries) for d in directions], 1, comm)

    whole = trace(p, directions, 1, SerialCommunicator())
    found = on_shards(count, shard)
    for place in range(len(whole)):
        if place % 6 == 5:  # densities
            assert b"".join(told[place] for told in found) == whole[place]
        else:
            assert [told[place] for told in found] == [whole[place]] * count


# --------------------------------------------------------------------------------------------------
# ends of the range


@pytest.mark.parametrize("size", [4.0, 64.0, 1e4])
@pytest.mark.parametrize("guess", [None, 3.0])
def test_long_steps_of_light_rows_under_high_caps(size, guess):
    """Densities overflow on the way, and most rows would be at their caps."""
    measure = BaseMeasure(np.array([0.864, 0.136, 1.3e-9]))
    engine = engine_for(MirrorAscent(Entropy(), CappedSimplex(1e9)), measure)
    d = LeafCodes(np.array([-0.001, -1.0]), np.array([1, 0, 0], dtype=np.uint8))
    state = engine.move(engine.start(), np.array([0.0, -1.0, -1.0]), 600.0).state
    s = Situation(engine.ascent, state, measure, d, edge=0.999, engine=engine)
    step = scaled(Step(size, guess=guess), 0.9, s)
    moved = engine.move(state, d, step.size, guess=step.guess)
    assert math.fsum(measure.entries * moved.state.density) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("step", [1.0, 64.0, 900.0, 1e5])
def test_a_long_step_away_from_a_code_of_no_row(step):
    """A pure leaf has a code for the wrong label, far above all others and of no mass."""
    coded = LeafCodes(np.array([1.0, -0.1, -0.2]), np.array([1, 2, 2, 1], dtype=np.uint16))
    engine = engine_for(MirrorAscent(Entropy(), Simplex()), BaseMeasure(np.ones(4)))
    moved = engine.move(engine.start(), coded, step)
    dense = engine.move(engine.start(), np.asarray(coded), step)
    assert moved.gain == pytest.approx(dense.gain, rel=1e-13)
    np.testing.assert_allclose(moved.state.density, dense.state.density, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(2.0)], ids=repr)
def test_a_step_that_all_rows_take_alike_changes_nothing(domain):
    """The last one, where a hypothesis is right on every row."""
    engine = engine_for(MirrorAscent(Entropy(), domain), BaseMeasure(np.arange(1.0, 9.0)))
    d = LeafCodes(np.array([-1.0, 1.0]), np.zeros(8, dtype=np.uint16))
    state = engine.start()
    step = scaled(Step(9.0, final=True), 0.3, situation_of(engine, state, d))
    moved = engine.move(state, d, step.size, guess=step.guess)
    np.testing.assert_allclose(moved.state.density, 1.0, rtol=1e-13)
    assert moved.gain == pytest.approx(9.0, rel=1e-13)


@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()], ids=repr)
@pytest.mark.parametrize("caps", [math.inf, 3.0])
def test_density_and_dual_point_stay_together_over_many_rounds(regularizer, caps):
    """Steps whose shift is known beforehand normalise nothing afterwards: it must not be missed."""
    rng = np.random.default_rng(1)
    measure = BaseMeasure(rng.uniform(0.5, 2.0, size=300))
    domain = Simplex() if math.isinf(caps) else CappedSimplex(caps)
    engine = engine_for(MirrorAscent(regularizer, domain), measure)
    state = engine.start()
    for _ in range(500):
        d = random_direction(rng, 300, True)
        state = engine.move(state, d, 0.3 * rng.random()).state
        assert measure.integral(state.density) == pytest.approx(1.0, abs=1e-13)
    held = state.density > 0.0
    gradient = regularizer.grad(state.density[held])
    np.testing.assert_allclose(gradient, state.theta[held], atol=1e-12)


@pytest.mark.parametrize(
    ("regularizer", "domain"),
    [(Entropy(), Simplex()), (Euclidean(), Simplex()), (Euclidean(), Orthant())],
    ids=["entropy", "euclidean", "orthant"],
)
@given(seed=seeds)
@examples(40)
def test_no_step_is_found_where_densities_were_cut(regularizer, domain, seed):
    """Rows that weigh next to nothing are wrong: their densities grow beyond the grid of sums."""
    rng = np.random.default_rng(seed)
    weights = np.array([1.0, *10.0 ** -rng.uniform(0.0, 8.0, size=5)])
    engine = engine_for(MirrorAscent(regularizer, domain), BaseMeasure(weights))
    d = rng.uniform(0.0, 1.0, size=6) * np.where(weights < 0.1, 1.0, -1.0)
    s = situation_of(engine, engine.start(), d)
    assume(s.edge > 1e-3)
    found = engine.corrective_step(s)
    assert found is None or abs(gain_slope(s, found.size)) <= 1e-10


def test_two_projections_are_left_to_the_reference():
    ascent = MirrorAscent(Entropy(), CappedSimplex(1.5), via=Simplex())
    assert isinstance(engine_for(ascent, BaseMeasure(np.ones(3))), ReferenceEngine)
