"""Gains against their definitions, and what a move does to the state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import DOMAINS, REGULARIZERS, divergence, examples, random_domain, seeds

from maboost.engine import engine_for
from maboost.engine.leaf_codes import LeafCodes
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
    Regularizer,
    Simplex,
    project,
)

widths = pytest.mark.parametrize("width", [1, 2])
kinds = pytest.mark.parametrize("kind", DOMAINS)
names = pytest.mark.parametrize("name", REGULARIZERS)
engines = pytest.mark.parametrize("engine", [engine_for, ReferenceEngine])


@st.composite
def walks(draw, kind: str, width: int, upper: float):
    """A measure, a domain and a few (direction, step)."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(1, 8))
    measure = BaseMeasure(rng.uniform(0.2, 2.0, size=n), width)
    domain = random_domain(kind, measure.rows_base, rng, upper)
    directions = rng.uniform(-1.0, 1.0, size=(4, n * width))
    if draw(st.booleans()):
        directions = np.sign(directions)
    return measure, domain, list(zip(directions, rng.uniform(0.01, 1.5, size=4), strict=True))


def potential(
    regularizer: Regularizer, theta: np.ndarray, u: np.ndarray, measure: BaseMeasure
) -> float:
    """What the dual potential maximises, at u."""
    return math.fsum(measure.entries * (theta * u - regularizer.phi(u)))


@names
@kinds
@widths
@given(data=st.data())
@examples(15)
def test_active_gain_is_its_definition(name, kind, width, data):
    """eta gamma - B(u, z) + B(u+, z) with z the unprojected point."""
    regularizer = REGULARIZERS[name]
    measure, domain, walk = data.draw(walks(kind, width, regularizer.upper))
    ascent = MirrorAscent(regularizer, domain)
    state = ascent.start(measure)
    for d, step in walk:
        u = state.density
        z = regularizer.grad_inverse(state.theta + step * d)
        moved = ascent.move(state, d, step, measure)
        edge = -math.fsum(measure.entries * u * d)
        away = divergence(regularizer, u, z, measure.entries)
        back = divergence(regularizer, moved.state.density, z, measure.entries)
        assert moved.gain == pytest.approx(step * edge - away + back, abs=1e-9)
        # and the form without z: the edge under the next distribution plus a divergence
        next_edge = -math.fsum(measure.entries * moved.state.density * d)
        between = divergence(regularizer, moved.state.density, u, measure.entries)
        if (
            width == 1 or kind == "simplex"
        ):  # elsewhere a row at its cap has a dual point of its own
            assert moved.gain == pytest.approx(step * next_edge + between, abs=1e-9)
        state = moved.state


@names
@kinds
@widths
@given(data=st.data())
@examples(15)
def test_lazy_gain_is_the_fall_of_the_potential(name, kind, width, data):
    """Phi(theta_t) - Phi(theta_{t+1}), with theta as the sum of steps and no shift taken out."""
    regularizer = REGULARIZERS[name]
    measure, domain, walk = data.draw(walks(kind, width, regularizer.upper))
    ascent = MirrorAscent(regularizer, domain, "lazy")
    state = ascent.start(measure)
    theta = regularizer.grad(np.ones(measure.entries.size))
    before = potential(regularizer, theta, state.density, measure)
    for d, step in walk:
        moved = ascent.move(state, d, step, measure)
        theta = theta + step * d
        u = project(regularizer, domain, theta, measure).density
        np.testing.assert_allclose(moved.state.density, u, rtol=1e-9, atol=1e-9)
        after = potential(regularizer, theta, u, measure)
        assert moved.gain == pytest.approx(before - after, abs=1e-9)
        state, before = moved.state, after


@names
@pytest.mark.parametrize(
    ("domain", "via"),
    [
        (Simplex(), Orthant()),
        (CappedSimplex(1.5), Simplex()),
        (CappedSimplex(1.5), Hypercube(1.5)),
    ],
    ids=repr,
)
@given(data=st.data())
@examples(15)
def test_double_projection_gain_is_its_definition(name, domain, via, data):
    """eta gamma - B(u, z) + B(p, z) + B(u+, p), p the projection onto the larger set."""
    regularizer = REGULARIZERS[name]
    measure, _, walk = data.draw(walks("simplex", 1, regularizer.upper))
    ascent = MirrorAscent(regularizer, domain, via=via)
    state = ascent.start(measure)
    for d, step in walk:
        u, theta = state.density, state.theta + step * d
        z = regularizer.grad_inverse(theta)
        p = project(regularizer, via, theta, measure)
        moved = ascent.move(state, d, step, measure)
        u_next = project(regularizer, domain, p.dual, measure).density
        np.testing.assert_allclose(moved.state.density, u_next, rtol=1e-9, atol=1e-12)
        edge = -math.fsum(measure.entries * u * d)
        expected = (
            step * edge
            - divergence(regularizer, u, z, measure.entries)
            + divergence(regularizer, p.density, z, measure.entries)
            + divergence(regularizer, u_next, p.density, measure.entries)
        )
        assert moved.gain == pytest.approx(expected, abs=1e-9)
        state = moved.state


@given(data=st.data(), l1=st.floats(0.0, 0.5))
@examples(40)
def test_composite_gain_is_the_least_value_of_its_objective(data, l1):
    """-eta <d, s> + eta alpha (<1, s> - 1) + |s - s_t|^2/2, least at max(0, s + eta (d - alpha))."""
    measure, _, walk = data.draw(walks("simplex", 1, math.inf))
    ascent = MirrorAscent(Euclidean(), Orthant())
    state = ascent.start(measure)
    base = measure.entries
    for d, step in walk:

        def value(s: np.ndarray, old=state.density, d=d, step=step) -> float:
            terms = -step * d * s + step * l1 * (s - 1.0) + 0.5 * (s - old) ** 2
            return math.fsum(base * terms)

        moved = ascent.move(state, d, step, measure, l1)
        expected = np.maximum(0.0, state.density + step * (d - l1))
        np.testing.assert_allclose(moved.state.density, expected, rtol=1e-12, atol=1e-12)
        assert moved.gain == pytest.approx(value(expected), abs=1e-9)
        assert moved.state.mass == pytest.approx(math.fsum(base * expected), abs=1e-12)
        for nudge in np.random.default_rng(0).normal(size=(10, base.size)) * 0.1:
            assert value(np.maximum(expected + nudge, 0.0)) >= moved.gain - 1e-12
        state = moved.state


@names
@kinds
@given(data=st.data())
@examples(10)
def test_the_start_is_the_base_measure_projected(name, kind, data):
    regularizer = REGULARIZERS[name]
    measure, domain, _ = data.draw(walks(kind, 1, regularizer.upper))
    state = MirrorAscent(regularizer, domain).start(measure)
    assert state.mass == 1.0
    assert domain.contains(state.density, measure, 1e-12)
    if np.all(np.asarray(domain.row_caps()) >= 1.0):
        np.testing.assert_allclose(state.density, 1.0, rtol=1e-12)


@given(seed=seeds)
@examples(20)
def test_lazy_theta_does_not_drift(seed):
    """A common shift is taken out after every step, so that theta resolves what it must."""
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(np.ones(5))
    ascent = MirrorAscent(Entropy(), CappedSimplex(2.0), "lazy")
    state = ascent.start(measure)
    for _ in range(30):
        state = ascent.move(state, 100.0 + rng.uniform(-1.0, 1.0, size=5), 1.0, measure).state
        free = (state.density > 0.0) & (state.density < 2.0)
        np.testing.assert_allclose(state.theta[free], np.log(state.density[free]), atol=1e-9)


def test_a_weight_that_underflowed_can_return():
    measure = BaseMeasure(np.ones(3))
    ascent = MirrorAscent(Entropy(), Simplex())
    state = ascent.start(measure)
    d = np.array([-1.0, 1.0, 1.0])
    state = ascent.move(state, d, 600.0, measure).state
    assert state.density[0] == 0.0
    state = ascent.move(state, -d, 600.0, measure).state
    np.testing.assert_allclose(state.density, 1.0, rtol=1e-9)


@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(2.0), Hypercube()], ids=repr)
def test_an_l1_term_where_the_mass_is_fixed_is_refused(domain):
    measure = BaseMeasure(np.ones(3))
    ascent = MirrorAscent(Entropy(), domain)
    with pytest.raises(ValueError, match="Orthant"):
        ascent.move(ascent.start(measure), np.array([1.0, -1.0, -1.0]), 0.1, measure, l1=0.1)
    ascent = MirrorAscent(Euclidean(), Simplex())
    with pytest.raises(ValueError, match="l1 norm is constant"):
        ascent.move(ascent.start(measure), np.array([1.0, -1.0, -1.0]), 0.1, measure, l1=0.1)


def test_combinations_without_a_proof_are_refused():
    with pytest.raises(ValueError, match="needs update='active'"):
        MirrorAscent(Entropy(), CappedSimplex(2.0), "lazy", via=Simplex())
    with pytest.raises(ValueError, match="Orthant is none"):
        MirrorAscent(Euclidean(), Orthant(), via=Simplex())
    with pytest.raises(ValueError, match="'active' or 'lazy'"):
        MirrorAscent(Entropy(), Simplex(), "eager")


@pytest.mark.parametrize("guess", [-1e14, -70.0, -0.3, 0.3, 63.0, 1e4, 1e14, math.inf])
@pytest.mark.parametrize("ascent", [
    MirrorAscent(Entropy(), Simplex()),
    MirrorAscent(Entropy(), CappedSimplex(2.0)),
    MirrorAscent(Entropy(), CappedSimplex(2.0), "lazy"),
    MirrorAscent(Euclidean(), CappedSimplex(2.0)),
])  # fmt: skip
@engines
def test_a_wrong_guess_of_the_shift_changes_nothing(engine, ascent, guess):
    rng = np.random.default_rng(0)
    measure, d = BaseMeasure(rng.uniform(0.5, 2.0, size=50)), rng.uniform(-1.0, 1.0, size=50)
    state = ascent.start(measure)
    wanted, found = (engine(ascent, measure).move(state, d, 0.5, 0.0, g) for g in (None, guess))
    assert found.gain == pytest.approx(wanted.gain, abs=1e-13)
    np.testing.assert_allclose(found.state.density, wanted.state.density, rtol=1e-13)


@pytest.mark.parametrize("caps", [math.inf, 3.0])
@engines
def test_density_and_dual_point_stay_together_over_many_rounds(engine, caps):
    """Steps whose shift is known beforehand normalise nothing afterwards: it must not be missed."""
    rng = np.random.default_rng(1)
    measure = BaseMeasure(rng.uniform(0.5, 2.0, size=300))
    ascent = MirrorAscent(Entropy(), Simplex() if math.isinf(caps) else CappedSimplex(caps))
    rows = engine(ascent, measure)
    state = rows.start()
    for _ in range(1000):
        d = LeafCodes(rng.uniform(-1.0, 1.0, 6), rng.integers(0, 6, 300).astype(np.uint16))
        state = rows.move(state, d, 0.3 * rng.random()).state
        assert measure.integral(state.density) == pytest.approx(1.0, abs=1e-13)
    np.testing.assert_allclose(np.log(state.density), state.theta, atol=1e-12)


class EntriesOnThePlane(Domain):
    def entry_cap(self):
        return 2.0


class RowsOffThePlane(Orthant):
    def row_caps(self):
        return 2.0


@pytest.mark.parametrize(
    ("domain", "name"),
    [(EntriesOnThePlane(), "row_caps"), (RowsOffThePlane(), "entry_cap")],
    ids=["entries", "rows"],
)
def test_caps_that_no_projection_would_hold_are_refused_by_name(domain, name):
    with pytest.raises(ValueError, match=f"give {name}"):
        MirrorAscent(Entropy(), domain)
    with pytest.raises(ValueError, match=f"give {name}"):
        MirrorAscent(Entropy(), Simplex(), via=domain)
