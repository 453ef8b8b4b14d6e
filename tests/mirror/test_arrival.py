"""A step and its projection in one pass, against the projection that searches for its shift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maboost.mirror.arrival import Ahead, capped_powers, positive_parts, powers
from tests.helpers import examples, seeds

from maboost.engine.leaf_codes import Coded
from maboost.mirror import BaseMeasure, CappedSimplex, Entropy, MirrorAscent, Simplex, project
from maboost.mirror.ascent import AscentState
from maboost.mirror.steps import Corrective, Paper, Situation, Step, scaled
from maboost.runtime.threads import Threads

sizes = st.sampled_from([1, 3, 40, 1023, 1024, 1025, 5000])
weighted = pytest.mark.parametrize("weighted", [False, True])


def start_of(rng: np.random.Generator, n: int, weighted: bool, caps: float | np.ndarray):
    """A measure, and a state after a first step into the interior."""
    weights = rng.uniform(0.3, 3.0, n) if weighted else np.ones(n)
    measure = BaseMeasure(weights, threads=Threads(2, block=64))
    ascent = MirrorAscent(Entropy(), CappedSimplex(caps))
    return measure, ascent, ascent.move(ascent.start(measure), rng.normal(size=n), 0.7, measure)


def coded(rng: np.random.Generator, n: int) -> Coded:
    return Coded(rng.uniform(-1.0, 1.0, 6), rng.integers(0, 6, n).astype(np.uint8))


def caps_of(rng: np.random.Generator, n: int, kind: str) -> float | np.ndarray:
    caps = rng.uniform(1.2, 4.0, n)
    return {"one": 2.5, "rows": caps, "some": np.where(rng.random(n) < 0.5, math.inf, caps)}[kind]


@weighted
@pytest.mark.parametrize("kind", ["one", "rows", "some"])
@given(seed=seeds, n=sizes)
@examples(20)
def test_under_caps(weighted, kind, seed, n):
    rng = np.random.default_rng(seed)
    caps = caps_of(rng, n, kind)
    measure, ascent, moved = start_of(rng, n, weighted, caps)
    state, d, step = moved.state, coded(rng, n), 0.8
    theta = state.theta + step * d.part(0, n)
    wanted = project(Entropy(), ascent.domain, theta, measure)
    shift = wanted.center + wanted.tau
    found = capped_powers(Ahead(state.theta, d, step, 0.0, shift), caps, measure)
    assert found is not None
    np.testing.assert_allclose(found.density, wanted.density, rtol=1e-12)
    np.testing.assert_allclose(found.dual, np.log(found.density), atol=1e-13)
    over = (theta - shift) - np.log(caps)
    excess = math.fsum(measure.entries * np.where(over > 0.0, caps * over, 0.0))
    assert found.potentials.theta == pytest.approx(excess, abs=1e-13)
    assert math.fsum(measure.entries * found.density) == pytest.approx(1.0, abs=1e-13)


@given(seed=seeds, wrong=st.sampled_from([1e-12, -1e-9, 0.1, -0.3]))
@examples(20)
def test_a_shift_that_misses_the_mass_is_not_taken(seed, wrong):
    rng = np.random.default_rng(seed)
    measure, ascent, moved = start_of(rng, 300, True, 3.0)
    state, d = moved.state, coded(rng, 300)
    found = project(Entropy(), ascent.domain, state.theta + 0.5 * d.part(0, 300), measure)
    ahead = Ahead(state.theta, d, 0.5, 0.0, found.center + found.tau + wrong)
    assert capped_powers(ahead, 3.0, measure) is None


@weighted
@given(seed=seeds, n=sizes)
@examples(20)
def test_without_caps(weighted, seed, n):
    rng = np.random.default_rng(seed)
    measure, _, moved = start_of(rng, n, weighted, 1e6)
    state, d = moved.state, coded(rng, n)
    shift = d.log_mean_exp(0.9, state.density, measure)
    found = powers(Ahead(state.theta, d, 0.9, 0.0, shift), measure)
    assert found is not None
    wanted = project(Entropy(), Simplex(), state.theta + 0.9 * d.part(0, n), measure)
    np.testing.assert_allclose(found.density, wanted.density, rtol=1e-12)
    np.testing.assert_allclose(found.dual, wanted.dual, atol=1e-12)


@weighted
@given(seed=seeds, n=sizes, less=st.sampled_from([0.0, 0.3]))
@examples(20)
def test_on_the_orthant(weighted, seed, n, less):
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.3, 3.0, n) if weighted else np.ones(n))
    start, d = np.maximum(rng.normal(size=n), 0.0), coded(rng, n)
    found = positive_parts(Ahead(start, d, 0.6, less, 0.0), measure)
    wanted = np.maximum(start + 0.6 * (d.part(0, n) - less), 0.0)
    assert found is not None
    np.testing.assert_allclose(found.density, wanted, rtol=1e-15, atol=1e-16)
    assert found.dual is found.density
    half = math.fsum(0.5 * measure.entries * wanted**2)
    assert found.potentials.theta == found.potentials.dual == pytest.approx(half, rel=1e-14)
    assert found.potentials.mass == pytest.approx(math.fsum(measure.entries * wanted), rel=1e-14)


def test_a_density_beyond_the_grid_of_the_orthant():
    found = positive_parts(
        Ahead(np.array([1e30, 1.0]), np.zeros(2), 0.0, 0.0, 0.0), BaseMeasure(np.ones(2))
    )
    assert found is None


@pytest.mark.parametrize("caps", [2.0, math.inf, np.repeat([2.0, math.inf], 1500)])
@pytest.mark.parametrize("rule", [Corrective(), Paper()])
def test_steps_arrive_at_once(rule, caps, monkeypatch):
    """Nothing is searched for once Newton's method knows the shift: the projection is not called."""
    rng = np.random.default_rng(4)
    n = 3000
    measure, d = BaseMeasure(rng.uniform(0.5, 2.0, n)), coded(rng, n)
    d = Coded(np.array([-0.9, -0.5, -0.1, 0.1, 0.3, 0.5]), d.codes)
    ascent = MirrorAscent(Entropy(), CappedSimplex(caps))
    monkeypatch.setattr("maboost.mirror.ascent.project", None)
    state = ascent.start(measure)
    for _ in range(5):
        edge = -float(d.values @ d.masses(state.density, measure))
        situation = Situation(ascent, state, measure, d, edge)
        whole = rule(situation)
        for rate in (1.0, 0.3):
            step = scaled(whole, rate, situation)
            moved = ascent.move(state, d, step.size, measure, guess=step.guess)
            assert moved.gain > 0.0
        state = moved.state
        d = Coded(d.values, rng.permutation(d.codes))


def moved_by_search(ascent, state, d, step, measure, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(MirrorAscent, "_at_once", lambda *_: None)
        return ascent.move(state, d, step, measure)


@pytest.mark.parametrize("small", [1e-40, 1e-26])
@pytest.mark.parametrize("step", [None, 30.0, 64.0])
def test_rows_too_light_for_the_grid_of_masses(small, step, monkeypatch):
    """What their codes weigh is lost, or its last bits are, and a long step makes it all there is."""
    measure = BaseMeasure(np.r_[np.ones(1000), np.full(10, small)])
    d = Coded(np.array([-1.0, 1.0]), np.r_[np.zeros(1000), np.ones(10)].astype(np.uint8))
    ascent = MirrorAscent(Entropy(), Simplex())
    state = ascent.start(measure)
    if step is None:
        step = Corrective()(Situation(ascent, state, measure, d, edge=1.0)).size
    moved = ascent.move(state, d, step, measure)
    assert math.fsum(measure.entries * moved.state.density) == pytest.approx(1.0, abs=1e-11)
    wanted = moved_by_search(ascent, state, d, step, measure, monkeypatch)
    assert moved.gain == pytest.approx(wanted.gain, rel=1e-12)


def test_a_wrong_guess_far_from_the_shift(monkeypatch):
    measure, ascent = BaseMeasure(np.ones(4)), MirrorAscent(Entropy(), Simplex())
    d = Coded(np.array([-1.0, -0.9]), np.array([0, 1, 0, 1], dtype=np.uint8))
    state = ascent.start(measure)
    moved = ascent.move(state, d, 100.0, measure, guess=0.0)
    assert math.fsum(measure.entries * moved.state.density) == pytest.approx(1.0, abs=1e-13)
    wanted = moved_by_search(ascent, state, d, 100.0, measure, monkeypatch)
    assert moved.gain == pytest.approx(wanted.gain, rel=1e-13)


@pytest.mark.parametrize("size", [4.0, 64.0, 1e4])
@pytest.mark.parametrize("guess", [None, 3.0])
@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_the_shift_after_a_long_step(size, guess):
    """Densities overflow on the way, and most rows would be at their caps."""
    measure = BaseMeasure(np.array([0.864, 0.136, 1.3e-9]))
    ascent = MirrorAscent(Entropy(), CappedSimplex(1e9))
    theta = np.array([0.146, -539.8, -599.8])
    found = project(Entropy(), ascent.domain, theta, measure)
    state = AscentState(found.dual, found.density, 1.0, 0.0)
    d = Coded(np.array([-0.001, -1.0]), np.array([1, 0, 0], dtype=np.uint8))
    situation = Situation(ascent, state, measure, d, edge=0.999)
    step = scaled(Step(size, guess=guess), 0.9, situation)
    assert guess is not None or step.guess is None
    moved = ascent.move(state, d, step.size, measure, guess=step.guess)
    assert math.fsum(measure.entries * moved.state.density) == pytest.approx(1.0, abs=1e-12)


def test_a_long_step_that_all_rows_take_alike_arrives_at_once(monkeypatch):
    """The last one, where a hypothesis is right on every row."""
    measure, ascent = BaseMeasure(np.arange(1.0, 9.0)), MirrorAscent(Entropy(), CappedSimplex(2.0))
    state = ascent.start(measure)
    monkeypatch.setattr("maboost.mirror.ascent.project", None)
    d = Coded(np.array([-1.0, 1.0]), np.zeros(8, dtype=np.uint16))
    step = scaled(Step(9.0, final=True), 0.3, Situation(ascent, state, measure, d, edge=1.0))
    moved = ascent.move(state, d, step.size, measure, guess=step.guess)
    np.testing.assert_allclose(moved.state.density, 1.0, rtol=1e-13)
    assert moved.gain == pytest.approx(9.0, rel=1e-13)


@pytest.mark.parametrize(
    ("caps", "width", "size", "via"),
    [
        (2.0, 3, 0.3, None), (2.0, 1, 3.0, None), (2.0, 1, 0.3, Simplex()),
    ],
)  # fmt: skip
def test_no_pass_is_made_ready_for_nothing(caps, width, size, via):
    measure, domain = BaseMeasure(np.ones(2), width), CappedSimplex(caps)
    ascent = MirrorAscent(Entropy(), domain, via=via)
    d = Coded(np.array([-1.0, 0.5]), np.arange(2 * width, dtype=np.uint8) % 2)
    situation = Situation(ascent, ascent.start(measure), measure, d, edge=0.25)
    assert scaled(Step(size), 1.0, situation) == Step(size)
    assert not situation._rows


def test_caps_too_high_for_so_many_rows():
    """What lies above a cap is not told well enough then."""
    measure = BaseMeasure(np.ones(4))
    direction = Coded(np.array([1.0, -1.0]), np.array([0, 0, 1, 1], dtype=np.uint16))
    ahead = Ahead(np.zeros(4), direction, 1.0, 0.0, math.log(math.cosh(1.0)))
    assert capped_powers(ahead, 1e6, measure) is not None
    measure.count = 10**7
    assert capped_powers(ahead, 4.0, measure) is not None
    assert capped_powers(ahead, 1e6, measure) is None
