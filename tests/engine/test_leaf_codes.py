"""Directions with few values: the short way gives what the long way gives."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards, seeds, with_engine

from maboost.engine import engine_for
from maboost.engine.leaf_codes import LeafCodes
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Entropy,
    Euclidean,
    Hypercube,
    MirrorAscent,
    Orthant,
    Simplex,
    project,
)
from maboost.mirror.ascent import AscentState
from maboost.mirror.steps import Corrective, Situation, gain_slope
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.threads import Threads

GEOMETRIES = {
    "simplex": MirrorAscent(Entropy(), Simplex()),
    "capped": MirrorAscent(Entropy(), CappedSimplex(2.5)),
    "some capped": MirrorAscent(Entropy(), CappedSimplex(np.where(np.arange(40) % 3, 1.5, np.inf))),
    "capped lazy": MirrorAscent(Entropy(), CappedSimplex(2.5), "lazy"),
    "euclidean": MirrorAscent(Euclidean(), CappedSimplex(2.5)),
    "euclidean lazy": MirrorAscent(Euclidean(), CappedSimplex(1.5), "lazy"),
    "orthant": MirrorAscent(Euclidean(), Orthant()),
    "hypercube": MirrorAscent(Entropy(), Hypercube()),
    "hypercube lazy": MirrorAscent(Entropy(), Hypercube(), "lazy"),
}


def coded_direction(rng, n, leaves=4):
    return LeafCodes(
        rng.uniform(-1, 0.8, size=leaves), rng.integers(0, leaves, size=n).astype(np.uint16)
    )


def situation(ascent, state, measure, direction, edge=0.0, l1=0.0):
    return with_engine(Situation(ascent, state, measure, direction, edge, l1=l1))


def moments(ascent, state, direction, measure, l1=0.0):
    """What Newton's method asks of the rows for this direction."""
    s = situation(ascent, state, measure, direction, l1=l1)
    return s.engine.moments(s)


def newton(ascent, state, measure, direction, edge):
    """The step of Newton's method, None where it does not apply."""
    s = situation(ascent, state, measure, direction, edge)
    return s.engine.corrective_step(s)


@examples(150)
@given(seeds, st.sampled_from(sorted(GEOMETRIES)), st.sampled_from([1, 2, 4]))
def test_corrective_step_is_the_same_with_and_without_codes(seed, name, width):
    rng = np.random.default_rng(seed)
    ascent = GEOMETRIES[name]
    measure = BaseMeasure(rng.uniform(0.2, 3.0, size=40), width)
    rows = engine_for(ascent, measure)
    state = rows.start()
    for _ in range(6):
        if state.mass <= 0.0:
            break
        coded = coded_direction(rng, 40 * width)
        d = coded.dense()
        edge = -measure.integral(state.density * d) / state.mass
        if edge <= 1e-3:
            continue
        plain = Corrective()(situation(ascent, state, measure, d, edge))
        short = Corrective()(situation(ascent, state, measure, coded, edge))
        assert short.final == plain.final
        assert short.size == pytest.approx(plain.size, rel=1e-8)
        found = newton(ascent, state, measure, coded, edge)
        if found is not None and not plain.final:
            slope = gain_slope(situation(ascent, state, measure, d, edge), found.size)
            assert abs(slope) <= 1e-10
        if plain.final:
            break
        state = rows.move(state, d, plain.size, guess=plain.guess).state


@examples(80)
@given(seeds, st.sampled_from(sorted(GEOMETRIES)), st.sampled_from([1, 3]))
def test_a_step_along_codes_gains_what_the_potential_falls(seed, name, width):
    """Also where the corrective step tells the shift of its projection, and nothing is left to scale."""
    rng = np.random.default_rng(seed)
    ascent, measure = GEOMETRIES[name], BaseMeasure(rng.uniform(0.2, 3.0, size=40), width)

    def potential(theta, u):
        return math.fsum(measure.entries * (theta * u - ascent.regularizer.phi(u)))

    rows = engine_for(ascent, measure)
    state = rows.start()
    for _ in range(4):
        coded = coded_direction(rng, 40 * width)
        edge = -measure.integral(state.density * coded.dense()) / state.mass
        if edge <= 1e-3:
            continue
        step = Corrective()(situation(ascent, state, measure, coded, edge))
        moved = rows.move(state, coded, step.size, guess=step.guess)
        ahead = state.theta + step.size * coded.dense()
        fall = potential(state.theta, state.density) - potential(ahead, moved.state.density)
        assert moved.gain == pytest.approx(fall, abs=1e-11)
        if step.final or moved.state.mass <= 0.0:
            break
        state = moved.state


@examples(100)
@given(
    seeds, st.sampled_from(sorted(GEOMETRIES)), st.booleans(), st.sampled_from([0.3, 0.01, 1e-4])
)
def test_newtons_method_does_not_mind_small_losses(seed, name, codes, scale):
    """A direction that is so much shorter has a step that is so much longer."""
    rng = np.random.default_rng(seed)
    ascent, measure = GEOMETRIES[name], BaseMeasure(rng.uniform(0.2, 3.0, size=40))
    coded, state = coded_direction(rng, 40), ascent.start(measure)
    short = LeafCodes(scale * coded.values, coded.codes)
    edge = -measure.integral(state.density * coded.dense()) / state.mass
    directions = (coded, short) if codes else (coded.dense(), short.dense())
    whole, part = (
        newton(ascent, state, measure, d, e)
        for d, e in zip(directions, (edge, scale * edge), strict=True)
    )
    assert (whole is None) == (part is None)
    if whole is not None and edge > 1e-3:
        assert part.size * scale == pytest.approx(whole.size, rel=1e-8)


def capped_by_bisection(theta, regularizer, caps, width):
    """The density at a dual point whose rows come down, each by a shift of its own, to their caps."""
    rows, (floor, _) = theta.reshape(-1, width), regularizer.grad_limits()

    def density(less):
        return regularizer.grad_inverse(np.maximum(rows - less[:, None], floor))

    low, high = np.zeros(len(rows)), np.full(len(rows), 20.0)
    for _ in range(80):
        middle = 0.5 * (low + high)
        over = density(middle).mean(axis=1) > caps
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return density(low).reshape(-1)


@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()], ids=lambda r: type(r).__name__)
@examples(40)
@given(
    seed=seeds,
    width=st.sampled_from([2, 4]),
    alike=st.booleans(),
    uncapped=st.booleans(),
    codes=st.booleans(),
)
def test_sums_over_capped_rows(regularizer, update, seed, width, alike, uncapped, codes):
    """Against the mass and the loss of a density found by bisection, and their derivatives."""
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(np.ones(30) if alike else rng.uniform(0.2, 3.0, size=30), width)
    caps = np.where(rng.random(30) < 0.3, np.inf, 1.3) if uncapped else 1.3
    ascent = MirrorAscent(regularizer, CappedSimplex(caps), update)
    state, coded = ascent.start(measure), coded_direction(rng, 30 * width, 9)
    state = ascent.move(state, coded, 0.7, measure).state
    d = coded.dense()
    rows = moments(ascent, state, coded if codes else d, measure)
    step, shift = rng.uniform(0.0, 1.5), rng.uniform(-0.2, 0.2)

    def directly(step, shift):
        u = capped_by_bisection(state.theta + step * d - shift, regularizer, caps, width)
        return measure.integral(u), measure.integral(u * d)

    mass, loss, h00, h01, h11 = rows.sums(step, shift)
    assert (mass, loss) == pytest.approx(directly(step, shift), rel=1e-12, abs=1e-13)
    small = 1e-7
    for derivative, (a, b), which in (
        (-h00, (0.0, small), 0), (-h01, (0.0, small), 1), (h11, (small, 0.0), 1),
    ):  # fmt: skip
        ends = directly(step + a, shift + b)[which], directly(step - a, shift - b)[which]
        assert derivative == pytest.approx((ends[0] - ends[1]) / (2.0 * small), abs=1e-5)


@examples(150)
@given(
    seeds,
    st.sampled_from(sorted(GEOMETRIES)),
    st.sampled_from([0.1, 3.0, 30.0, 300.0]),
    st.booleans(),
)
def test_what_does_not_fit_the_grid_of_sums_is_told(seed, name, step, codes):
    """Newton's method must not settle where densities were cut: sums are right, or said not to be."""
    rng = np.random.default_rng(seed)
    ascent, measure = GEOMETRIES[name], BaseMeasure(rng.uniform(0.2, 3.0, size=40))
    start = ascent.start(measure)
    state = ascent.move(start, coded_direction(rng, 40), rng.uniform(0.0, 2.0), measure).state
    coded, l1 = coded_direction(rng, 40), 0.1 if name == "orthant" else 0.0
    d = coded.dense() - l1
    rows = moments(ascent, state, coded if codes else coded.dense(), measure, l1)
    found = rows.sums(step, 0.0)
    regularizer, domain, x = ascent.regularizer, ascent.domain, state.theta + step * d
    caps = domain.row_caps() if domain.normalised else domain.entry_cap()
    u = np.minimum(regularizer.point(x), caps)
    assert rows.clipped == bool(np.any(u > rows.limits.bound))
    if not rows.clipped:
        w = measure.entries * u
        wanted = math.fsum(w), math.fsum(w * d)
        assert found[:2] == pytest.approx(wanted, rel=1e-12, abs=1e-13)


@examples(60)
@given(seeds, st.sampled_from([0.1, 3.0, 300.0]), st.sampled_from([0.0, 0.2]))
def test_sums_along_codes_from_few_positive_entries(seed, step, l1):
    """With a penalty, and where something does not fit the grid."""
    rng = np.random.default_rng(seed)
    ascent, measure = MirrorAscent(Euclidean(), Orthant()), BaseMeasure(rng.uniform(0.2, 3.0, 40))
    density = np.where(np.arange(40) < rng.integers(1, 11), rng.exponential(size=40), 0.0)
    state = replace(ascent.start(measure), theta=density, density=density)
    coded = coded_direction(rng, 40)
    short, plain = (moments(ascent, state, d, measure, l1) for d in (coded, coded.dense()))
    found, wanted = short.sums(step, 0.0), plain.sums(step, 0.0)
    assert short.clipped == plain.clipped
    assert short.clipped or found == pytest.approx(wanted, rel=1e-12, abs=1e-13)


@examples(30)
@given(seeds, st.sampled_from([0.1, 1.0, 3.0]))
def test_lazy_entries_at_zero_come_back_from_where_they_are(seed, step):
    """Their dual points may be far below zero: few of positive density do not tell what all do."""
    rng = np.random.default_rng(seed)
    ascent = MirrorAscent(Euclidean(), Orthant(), "lazy")
    measure, coded = BaseMeasure(rng.uniform(0.2, 3.0, size=40)), coded_direction(rng, 40)
    theta = np.where(np.arange(40) < 5, 1.0, -1.0) * rng.exponential(size=40)
    state = replace(ascent.start(measure), theta=theta, density=np.maximum(theta, 0.0))
    mass, loss, *_ = moments(ascent, state, coded, measure).sums(step, 0.0)
    d = coded.dense()
    w = measure.entries * np.maximum(theta + step * d, 0.0)
    assert (mass, loss) == pytest.approx((math.fsum(w), math.fsum(w * d)), rel=1e-12, abs=1e-13)


def test_lazy_rows_far_above_their_caps_keep_their_shares():
    """Where powers would be cut, the step is searched for instead."""
    measure = BaseMeasure(np.ones(4), 2)
    ascent = MirrorAscent(Entropy(), CappedSimplex(2.0), "lazy")
    theta = np.array([900.0, 899.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = project(ascent.regularizer, ascent.domain, theta, measure)
    state = AscentState(theta - found.center - found.tau, found.density, 1.0, 0.0)
    coded = LeafCodes(np.array([-0.5, 0.4]), np.array([0, 1, 0, 1, 0, 1, 1, 0], dtype=np.uint16))
    edge = -measure.integral(state.density * coded.dense())
    assert newton(ascent, state, measure, coded, edge) is None
    s = situation(ascent, state, measure, coded, edge)
    assert abs(gain_slope(s, Corrective()(s).size)) <= 1e-10


def test_sums_over_rows_that_weigh_next_to_nothing():
    """A density of 1e-310 has no finite reciprocal."""
    measure, ascent = BaseMeasure(np.ones(3), 2), MirrorAscent(Entropy(), CappedSimplex(2.0))
    coded = LeafCodes(np.array([-0.5, 0.25]), np.array([0, 1] * 3, dtype=np.uint16))
    state = ascent.start(measure)
    density = np.array([1e-310, 1e-310, 0.0, 0.0, 1.5, 1.5])
    rows = moments(ascent, replace(state, density=density), coded, measure)
    assert rows.sums(0.0, 0.0) == pytest.approx([0.5, -0.0625, 0.5, -0.0625, 0.5 * 0.15625])


@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("width", [1, 3])
def test_threads_change_no_bit_of_sums(regularizer, width):
    """With as many rows as several chunks hold."""
    rng, n = np.random.default_rng(width), 20_000
    weights, caps = rng.uniform(0.2, 3.0, n), rng.uniform(1.2, 3.0, n)
    coded, ascent = coded_direction(rng, n * width), MirrorAscent(regularizer, CappedSimplex(caps))
    found = []
    for count in (1, 2, 3):
        measure = BaseMeasure(weights, width, threads=Threads(count))
        rows = engine_for(ascent, measure)
        moved = rows.move(rows.start(), coded, 0.7)
        masses = LeafCodes(coded.values, coded.codes).masses(moved.state.density, measure)
        sums = [
            moments(ascent, moved.state, d, measure).sums(0.5, 0.1) for d in (coded, coded.dense())
        ]
        found.append((moved.gain, moved.state.density.tobytes(), masses.tobytes(), sums))
    assert found[0] == found[1] == found[2]


@examples(40)
@given(seeds, st.integers(1, 4), st.sampled_from([Entropy(), Euclidean()]))
def test_sums_over_capped_rows_of_shards(seed, count, regularizer):
    rng = np.random.default_rng(seed)
    weights, parts = rng.uniform(0.2, 3.0, size=50), cuts(50, count, rng)
    ascent, coded = MirrorAscent(regularizer, CappedSimplex(1.3)), coded_direction(rng, 150)

    def sums(part, comm):
        entries = slice(3 * part.start, 3 * part.stop)
        measure = BaseMeasure(weights[part], 3, comm)
        state = ascent.start(measure)
        its = LeafCodes(coded.values, coded.codes[entries])
        return moments(ascent, state, its, measure).sums(0.5, 0.1)

    whole = sums(slice(0, 50), SerialCommunicator())
    assert on_shards(count, lambda comm: sums(parts[comm.rank], comm)) == [whole] * count


@examples(30)
@given(seeds, st.integers(1, 4), st.booleans())
def test_masses_by_code_over_shards(seed, count, few):
    rng = np.random.default_rng(seed)
    n = 50
    weights, density = rng.uniform(0.2, 3.0, size=n), rng.exponential(size=n)
    if few:  # then those of positive density are picked out
        density[rng.permutation(n)[10:]] = 0.0
    coded = coded_direction(rng, n)
    measure = BaseMeasure(weights)
    whole = coded.masses(density, measure)
    expected = np.bincount(coded.codes, weights=measure.entries * density, minlength=4)
    np.testing.assert_allclose(whole, expected, rtol=1e-13)
    parts = cuts(n, count, rng)

    def shard(comm):
        rows = parts[comm.rank]
        part = LeafCodes(coded.values, coded.codes[rows])
        return part.masses(density[rows], BaseMeasure(weights[rows], comm=comm))

    for found in on_shards(count, shard):
        np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("size", [1e-290, 1e-9, 1.0, 1e9])
def test_masses_of_any_density_in_any_order(size):
    """Those of the last density are kept for it alone, and small ones are known as well as large ones."""
    rng = np.random.default_rng(0)
    coded, measure = coded_direction(rng, 50), BaseMeasure(rng.uniform(0.2, 3.0, size=50))
    densities = [rng.exponential(size=50), size * rng.exponential(size=50)]
    for density in (*densities, *densities):
        found = coded.masses(density, measure, measure.integral(density))
        expected = np.bincount(coded.codes, weights=measure.entries * density, minlength=4)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("step", [1.0, 64.0, 900.0, 1e5])
def test_a_long_step_away_from_what_no_row_has(step):
    """A pure leaf has a code for the wrong label, far above all others and of no mass."""
    coded = LeafCodes(np.array([1.0, -0.1, -0.2]), np.array([1, 2, 2, 1], dtype=np.uint16))
    measure = BaseMeasure(np.ones(4))
    assert coded.log_mean_exp(step, np.ones(4), measure) == pytest.approx(
        step * -0.1 + np.log(0.5 + 0.5 * np.exp(-0.1 * step)), rel=1e-15
    )
    ascent = MirrorAscent(Entropy(), Simplex())
    moved = engine_for(ascent, measure).move(ascent.start(measure), coded, step)
    dense = ascent.move(ascent.start(measure), coded.dense(), step, measure)
    assert moved.gain == pytest.approx(dense.gain, rel=1e-13)
    np.testing.assert_allclose(moved.state.density, dense.state.density, rtol=1e-12, atol=1e-300)
