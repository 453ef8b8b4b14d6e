"""Projections where each source of rows has a largest mass, and what is linear over such sets."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import REGULARIZERS, cuts, divergence, examples, on_shards, seeds
from tests.mirror.test_projections import (
    by_exponential_cone,
    by_quadratic_program,
    random_theta,
    random_weights,
)

from maboost.engine import project
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Entropy,
    Euclidean,
    FermiDirac,
    MirrorAscent,
    SourceCapped,
    project_generic,
)
from maboost.mirror.soft_margin import linear_minimum
from maboost.runtime import thresholds
from maboost.runtime.threads import Threads


class PlainEntropy(Entropy):
    """Entropy as a user would write it: only its functions are known, so the generic path is taken."""


class PlainEuclidean(Euclidean):
    """The same for the Euclidean geometry."""


def random_sources(
    base: np.ndarray, rng: np.random.Generator, upper: float = math.inf, exact: bool = True
):
    """A domain of two or three sources that is not empty: caps on rows or none, masses small or exact.

    Exact masses sum to one. A general solver fails there, since the set has no interior.
    """
    count = int(rng.integers(2, 4))
    sources = rng.integers(0, count, size=base.size)
    caps = math.inf
    if rng.integers(2):
        caps = np.where(
            rng.random(base.size) < 0.3, math.inf, rng.uniform(0.3, 4.0, size=base.size)
        )
        while base @ np.minimum(caps, upper) < 1.02:
            caps *= 1.1
    room = np.array([
        float(np.sum((np.minimum(np.minimum(caps, upper) * base, 2.0))[sources == g]))
        for g in range(count)
    ])  # fmt: skip
    masses = rng.uniform(0.05, 0.6, size=count)
    while np.minimum(masses, room).sum() < 1.02:
        masses *= 1.2
    if exact and rng.integers(3) == 0:
        masses = np.minimum(masses, room)
        masses /= masses.sum()
        masses = np.where(room > 0.0, masses, 0.5)
    return SourceCapped(sources, masses, caps)


@st.composite
def problems(draw, width: int = 1, upper: float = math.inf, wild: bool = False, exact: bool = True):
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(2, 8))
    weights = random_weights(rng, n) if wild else rng.uniform(0.2, 1.0, size=n)
    measure = BaseMeasure(weights, width)
    theta = random_theta(rng, n * width) if wild else rng.normal(size=n * width) * 1.5
    return random_sources(measure.rows_base, rng, upper, exact), theta, measure


def masses_of(domain: SourceCapped, u: np.ndarray, measure: BaseMeasure) -> np.ndarray:
    sources, limits = domain.source_caps() or (
        np.asarray(domain.sources),
        np.asarray(domain.masses),
    )
    mass = measure.rows_base * u.reshape(-1, measure.width).mean(axis=1)
    return np.array([math.fsum(mass[sources == g]) for g in range(limits.size)])


@pytest.mark.parametrize("width", [1, 3])
@given(data=st.data())
@examples(60)
def test_euclidean_against_a_quadratic_program(width, data):
    domain, theta, measure = data.draw(problems(width, exact=False))
    expected = by_quadratic_program(domain, theta, measure)
    for regularizer in (Euclidean(), PlainEuclidean()):
        found = project(regularizer, domain, theta, measure).density
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("width", [1, 3])
@given(data=st.data())
@examples(40)
def test_entropy_against_an_exponential_cone(width, data):
    """As without sources: the solver must not be better, and must be near."""
    domain, theta, measure = data.draw(problems(width, exact=False))
    other = np.maximum(by_exponential_cone(domain, theta, measure), 0.0)
    other /= math.fsum(measure.entries * other)
    found = project(Entropy(), domain, theta, measure).density

    def value(u: np.ndarray) -> float:
        return math.fsum(measure.entries * (Entropy().phi(u) - theta * u))

    worse = value(other) - value(found)
    assert -1e-7 <= worse <= 1e-7  # the solver leaves the set by about 1e-9
    assert divergence(Entropy(), other, found, measure.entries) <= 1e-6


@pytest.mark.parametrize("width", [1, 3])
@given(data=st.data())
@examples(40)
def test_the_fast_paths_agree_with_the_one_for_any_regularizer(width, data):
    domain, theta, measure = data.draw(problems(width))
    for fast, slow in ((Entropy(), PlainEntropy()), (Euclidean(), PlainEuclidean())):
        one, other = (project(r, domain, theta, measure) for r in (fast, slow))
        np.testing.assert_allclose(one.density, other.density, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data())
@examples(60)
def test_optimality_conditions(name, data):
    """One shift for all sources below their largest mass, a larger one for each source that reaches it."""
    regularizer = REGULARIZERS[name]
    domain, theta, measure = data.draw(problems(1, regularizer.upper))
    found = project(regularizer, domain, theta, measure)
    u, caps = found.density, np.broadcast_to(domain.row_caps(), theta.shape)
    held, limits = masses_of(domain, u, measure), np.asarray(domain.masses)
    assert abs(math.fsum(held) - 1.0) <= 1e-12
    assert np.all(held <= limits + 1e-12)
    assert np.all((u >= 0.0) & (u <= caps))
    shift = found.center + found.tau
    for g in range(limits.size):
        rows = np.asarray(domain.sources) == g
        free = rows & (u > 0.0) & (u < caps * (1 - 1e-12)) & (u < regularizer.upper * (1 - 1e-9))
        shifts = theta[free] - regularizer.grad(u[free])
        if not shifts.size:
            continue
        assert np.ptp(shifts) <= 1e-8
        assert np.all(np.abs(found.dual[free] - regularizer.grad(u[free])) <= 1e-8)
        if held[g] < limits[g] - 1e-9:
            assert abs(shifts[0] - shift) <= 1e-8
        # at zero and at caps the shift of the source has the sign it must have
        low, high = regularizer.grad_limits()[0], rows & (u == caps)
        assert np.all(theta[rows & (u == 0.0)] - shifts[0] <= low + 1e-8)
        assert np.all(theta[high] - shifts[0] >= regularizer.grad(caps[high]) - 1e-8)
        below = held < limits - 1e-9
        if below.any():
            assert shifts[0] >= shift - 1e-8


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data())
@examples(60)
def test_the_mass_is_one_for_any_range_of_dual_points_and_weights(name, width, data):
    upper = REGULARIZERS[name].upper
    domain, theta, measure = data.draw(problems(width, upper, wild=True))
    u = project(REGULARIZERS[name], domain, theta, measure).density
    held = masses_of(domain, u, measure)
    assert abs(math.fsum(held) - 1.0) <= 1e-12
    assert np.all(held <= np.asarray(domain.masses) + 1e-12)
    rows = u.reshape(-1, width).mean(axis=1)
    assert np.all(u >= 0.0)
    assert np.all(rows <= np.multiply(domain.row_caps(), 1 + 1e-9))


@given(seed=seeds)
@examples(20)
def test_masses_that_sum_to_one_leave_nothing_to_a_source_far_below(seed):
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.2, 1.0, size=9))
    sources = np.arange(9) % 3
    theta = rng.normal(size=9) - 900.0 * (sources == 2)
    for regularizer in REGULARIZERS.values():
        if math.isfinite(regularizer.upper):
            continue
        domain = SourceCapped(sources, np.array([0.3, 0.7, 1.0]))
        held = masses_of(domain, project(regularizer, domain, theta, measure).density, measure)
        np.testing.assert_allclose(held, [0.3, 0.7, 0.0], atol=1e-12)


@pytest.mark.parametrize("name", REGULARIZERS)
def test_masses_that_nothing_reaches_change_nothing(name):
    rng = np.random.default_rng(0)
    measure, theta = BaseMeasure(rng.uniform(0.2, 1.0, size=30)), rng.normal(size=30)
    for caps in (math.inf, 2.0):
        plain = project(REGULARIZERS[name], CappedSimplex(caps), theta, measure)
        domain = SourceCapped(np.arange(30) % 2, np.array([0.99, 0.99]), caps)
        found = project(REGULARIZERS[name], domain, theta, measure)
        np.testing.assert_allclose(found.density, plain.density, rtol=1e-12)
    assert SourceCapped(np.arange(30) % 2, np.array([1.0, 2.0])).unbounded


def many_rows(seed: int, width: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(600, 5000))
    weights, theta = (
        rng.exponential(size=n) + 0.01,
        rng.normal(size=n * width) * rng.choice([0.3, 4.0]),
    )
    caps = rng.uniform(1.2, 4.0, size=n) if rng.integers(2) else math.inf
    return weights, SourceCapped(rng.integers(0, 3, size=n), np.array([0.5, 0.2, 0.6]), caps), theta


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("seed", range(4))
def test_threads_shards_and_the_order_of_rows_change_no_bit(seed, name, width):
    weights, domain, theta = many_rows(seed, width)
    regularizer, n = REGULARIZERS[name], len(weights)
    one = project(regularizer, domain, theta, BaseMeasure(weights, width))
    lowest = linear_minimum(theta, domain, BaseMeasure(weights, width), regularizer.upper)

    def same(found, rows=slice(None)):
        shape = (-1, width)
        assert (found.center, found.tau) == (one.center, one.tau)
        for name in ("density", "dual"):
            expected = getattr(one, name).reshape(shape)[rows]
            np.testing.assert_array_equal(getattr(found, name).reshape(shape), expected)

    same(project(regularizer, domain, theta, BaseMeasure(weights, width, threads=Threads(3))))
    order = np.random.default_rng(seed).permutation(n)
    caps = domain.row_caps()
    other = SourceCapped(
        np.asarray(domain.sources)[order],
        domain.masses,
        caps if np.ndim(caps) == 0 else caps[order],
    )
    mixed = theta.reshape(n, width)[order].reshape(-1)
    same(project(regularizer, other, mixed, BaseMeasure(weights[order], width)), order)

    rows = cuts(n, 3, np.random.default_rng(seed))
    if seed == 0:  # a shard that has no row of some source
        rows = [slice(0, 0), slice(0, 1), slice(1, n)]

    def work(comm):
        inside = np.zeros(n, dtype=bool)
        inside[rows[comm.rank]] = True
        measure, part = BaseMeasure(weights[inside], width, comm), domain.restricted(inside)
        part.check(measure)
        mine = theta.reshape(n, width)[inside].reshape(-1)
        found = project(regularizer, part, mine, measure)
        assert linear_minimum(mine, part, measure, regularizer.upper) == lowest
        assert part.contains(found.density, measure)
        return found, inside

    with mock.patch.object(thresholds, "POOLED", 30):
        for found, inside in on_shards(3, work):
            same(found, inside)


@pytest.mark.parametrize("width", [1, 2])
@given(seed=seeds, upper=st.sampled_from([math.inf, 3.0]))
@examples(60)
def test_the_least_of_a_linear_function_against_a_linear_program(width, seed, upper):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    measure = BaseMeasure(rng.uniform(0.2, 1.0, size=n), width)
    domain = random_sources(measure.rows_base, rng, upper)
    values = rng.integers(-3, 4, size=n * width) * 1.0  # often ties
    caps = np.broadcast_to(domain.row_caps(), (n,))
    rows = np.kron(np.eye(n), np.ones((1, width)))
    sources, masses = np.asarray(domain.sources), np.asarray(domain.masses)
    of_source = (np.arange(masses.size)[:, None] == sources) @ rows
    finite = np.isfinite(caps)
    program = scipy.optimize.linprog(
        values,
        np.vstack([rows[finite], of_source]),
        np.concatenate([(caps * measure.rows_base)[finite], masses]),
        np.ones((1, n * width)),
        [1.0],
        bounds=[(0.0, upper * d if math.isfinite(upper) else None) for d in measure.entries],
    )
    found = linear_minimum(values, domain, measure, upper)
    assert found == pytest.approx(program.fun, abs=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1, 1], [0.5, 0.0]), "masses must be positive, one for each source"),
        (([0, 1, 1], [0.5, math.nan]), "masses must be positive, one for each source"),
        (([0, 1, 1], [[0.5, 0.5]]), "masses must be positive, one for each source"),
        (([0.0, 1.0, 1.0], [0.5, 0.5]), "sources must be one integer for each row"),
        (([0, 1, 2], [0.5, 0.5]), "sources must be indices into masses, 0 to 1, got 0 to 2"),
        (([0, 1, -1], [0.5, 0.5]), "sources must be indices into masses, 0 to 1, got -1 to 1"),
        (([0, 1, 1], [0.5, 0.5], 0.0), "caps must be positive"),
        (([0, 1], [0.5, 0.5]), "sources has 2 entries but there are 3 rows"),
        (([0, 1, 1], [0.5, 0.4]), "may hold a mass of 0.9 in all, and at least 1 is needed"),
        (([0, 1, 1], [0.9, 0.9], [1.2, 0.6, 0.6]), "no distribution fits under caps"),
        (([0, 1, 1], [0.3, 0.9], [9.0, 0.9, 0.9]), "may hold a mass of 0.9 in all"),
    ],
)  # fmt: skip
def test_sets_that_are_empty_or_do_not_fit_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=f"(SourceCapped|CappedSimplex): .*{message}"):
        MirrorAscent(Entropy(), SourceCapped(*arguments)).start(BaseMeasure(np.ones(3)))


def test_a_regularizer_that_caps_rows_can_make_the_set_empty():
    domain, measure = SourceCapped([0, 1, 1, 1], [1.0, 0.3]), BaseMeasure(np.ones(4))
    MirrorAscent(FermiDirac(3.0), domain).start(measure)
    with pytest.raises(ValueError, match=r"may hold a mass of 0\.675 in all"):
        MirrorAscent(FermiDirac(1.5), domain).start(measure)


def test_the_projection_for_caps_on_rows_refuses_caps_on_sources():
    with pytest.raises(
        ValueError, match="supports caps on rows only, but SourceCapped has caps on sources"
    ):
        project_generic(
            Entropy(), SourceCapped([0, 1], [0.5, 0.5]), np.zeros(2), BaseMeasure(np.ones(2))
        )
