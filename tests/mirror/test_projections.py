"""Every (regularizer x domain) projection against a conic solver and against bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from unittest import mock

import clarabel
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from tests.helpers import (
    DOMAINS,
    REGULARIZERS,
    bisect_floats,
    cuts,
    divergence,
    examples,
    on_shards,
    random_domain,
    seeds,
)

from maboost.engine import project
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
    Projected,
    Regularizer,
    Simplex,
    project_generic,
)
from maboost.runtime import thresholds
from maboost.runtime.threads import Threads

SCALES = [1e-300, 1e-8, 1.0, 1.0, 30.0, 1e3, 1e10, 1e100, 1e300]


def random_theta(rng: np.random.Generator, n: int) -> np.ndarray:
    """Dual points from narrow to absurd, often of mixed scales, often with ties."""
    scale = rng.choice(SCALES, size=n if rng.integers(2) else 1)
    theta = rng.normal(size=n) * scale
    return rng.choice(theta, size=n) if rng.integers(2) else theta


def random_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(3)
    if kind == 0:
        return np.ones(n)
    return rng.exponential(size=n) + 1e-3 if kind == 1 else 10.0 ** -rng.uniform(0, 300, size=n)


def scalar_inverse(regularizer: Regularizer, x: float) -> float:
    """The inverse of the gradient in plain floats, 0 and `upper` where there is none."""
    if isinstance(regularizer, Entropy):
        return math.exp(x) if x < 709.0 else math.inf
    if isinstance(regularizer, Euclidean):
        return max(x, 0.0)
    if isinstance(regularizer, FermiDirac):
        return regularizer.k / (1.0 + regularizer.k * math.exp(-x)) if x > -700.0 else math.exp(x)
    return float(regularizer.grad_inverse(np.array([x]))[0])


def by_bisection(
    regularizer: Regularizer, domain: Domain, theta: np.ndarray, measure: BaseMeasure
) -> np.ndarray:
    """The projection by bisecting its shift over all floats.

    A shift far from the thetas that matter cannot resolve them, so every theta takes its turn as the
    origin, and the one from which the shift is smallest is believed.
    """
    base = measure.rows_base.tolist()
    caps = np.broadcast_to(domain.row_caps(), (measure.rows,)).tolist()
    rows = theta.reshape(-1, measure.width).tolist()

    def shifted(row: list[float], origin: float, shift: float) -> list[float]:
        return [scalar_inverse(regularizer, (x - origin) - shift) for x in row]

    def mean(row: list[float], origin: float, shift: float) -> float:
        return math.fsum(shifted(row, origin, shift)) / len(row)

    def mass(origin: float, shift: float) -> float:
        terms = zip(base, caps, rows, strict=True)
        return math.fsum(d * min(k, mean(row, origin, shift)) for d, k, row in terms)

    def best(of: Callable[[float, float], float], origins: list[float], level: float):
        """The origin and the shift from it at which `of` comes down to `level`."""

        def rank(place: tuple[float, float]) -> tuple[bool, float]:
            return abs(of(*place) - level) > 1e-11 * level, abs(place[1])

        def root(origin: float) -> float:
            return bisect_floats(-1.7e308, 1.7e308, lambda shift: of(origin, shift) >= level)

        return min(((origin, root(origin)) for origin in sorted(set(origins))), key=rank)

    found, place = [], best(mass, theta.tolist(), 1.0)
    for row, cap in zip(rows, caps, strict=True):
        if mean(row, *place) > cap:  # the row's own shift brings it down to its cap
            found += shifted(row, *best(partial(mean, row), row, cap))
        else:
            found += shifted(row, *place)
    return np.array(found)


def solver_settings() -> clarabel.DefaultSettings:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-15
    settings.tol_ktratio = 1e-14
    settings.iterative_refinement_reltol = settings.iterative_refinement_abstol = 1e-16
    settings.iterative_refinement_max_iter = 30
    return settings


def row_limits(domain: Domain, measure: BaseMeasure) -> tuple[np.ndarray, np.ndarray]:
    """A, b with A u <= b: the caps on the rows' totals, and the largest masses of sources."""
    caps = np.broadcast_to(domain.row_caps(), (measure.rows,))
    totals = np.kron(np.eye(measure.rows), np.full((1, measure.width), 1.0 / measure.width))
    A, b = totals[np.isfinite(caps)], caps[np.isfinite(caps)]
    limits = domain.source_caps()
    if limits is not None:
        of_source = np.arange(limits.masses.size)[:, None] == limits.sources
        A = np.vstack([A, (of_source * measure.rows_base) @ totals])
        b = np.concatenate([b, limits.masses])
    return A, b


def by_quadratic_program(domain: Domain, theta: np.ndarray, measure: BaseMeasure) -> np.ndarray:
    base = measure.entries
    n = base.size
    A, b = row_limits(domain, measure)
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.diag(base)),
        -base * theta,
        sparse.csc_matrix(np.vstack([base[None, :], -np.eye(n), A])),
        np.concatenate([[1.0], np.zeros(n), b]),
        [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n + len(b))],
        solver_settings(),
    )
    return np.array(solver.solve().x)


def by_exponential_cone(domain: Domain, theta: np.ndarray, measure: BaseMeasure) -> np.ndarray:
    """Minimise sum D (t - theta u) with u log u <= t, that is (-t, u, 1) in the exponential cone."""
    base = measure.entries
    n = base.size
    A, b = row_limits(domain, measure)
    cones = np.zeros((3 * n, 2 * n))
    cones[3 * np.arange(n), n + np.arange(n)] = 1.0
    cones[3 * np.arange(n) + 1, np.arange(n)] = -1.0
    blank = np.zeros((len(b) + 1, n))
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((2 * n, 2 * n)),
        np.concatenate([-base * theta, base]),
        sparse.csc_matrix(np.vstack([np.hstack([np.vstack([base[None, :], A]), blank]), cones])),
        np.concatenate([[1.0], b, np.tile([0.0, 0.0, 1.0], n)]),
        [clarabel.ZeroConeT(1)]
        + [clarabel.NonnegativeConeT(len(b))] * bool(len(b))
        + [clarabel.ExponentialConeT()] * n,
        solver_settings(),
    )
    return np.array(solver.solve().x)[:n]


@st.composite
def tame(draw, kind: str, width: int = 1):
    """A domain, a dual point and a measure that a general solver copes with."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(1, 7))
    measure = BaseMeasure(rng.uniform(0.2, 1.0, size=n), width)
    theta = rng.normal(size=n * width) * draw(st.sampled_from([0.1, 1.0, 2.0]))
    return random_domain(kind, measure.rows_base, rng), theta, measure


@st.composite
def wild(draw, kind: str, width: int = 1, upper: float = math.inf):
    """Any domain, dual point and measure."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(1, 8))
    measure = BaseMeasure(random_weights(rng, n), width)
    theta = random_theta(rng, n * width)
    return random_domain(kind, measure.rows_base, rng, upper), theta, measure


def mass_of(found: Projected, measure: BaseMeasure) -> float:
    return math.fsum(measure.entries * found.density)


def check_optimal(
    regularizer: Regularizer, domain: Domain, theta: np.ndarray, measure: BaseMeasure
) -> None:
    """Mass, limits and the signs of the optimality conditions, for one entry a row."""
    found = project(regularizer, domain, theta, measure)
    u, x = found.density, (theta - found.center) - found.tau
    caps = np.minimum(np.broadcast_to(domain.row_caps(), u.shape), regularizer.upper)
    assert abs(mass_of(found, measure) - 1.0) <= 1e-12
    assert np.all((u >= 0.0) & (u <= caps))
    shifted = np.array([scalar_inverse(regularizer, y) for y in x])
    full = u == caps
    slack = 1e-9 * (1.0 + u)
    assert np.all(np.abs(u - shifted)[~full] <= slack[~full])  # at zero only where x is below phi'
    assert np.all(shifted[full] >= u[full] - slack[full])
    known = ~full & (u > 0.0)
    assert np.all(np.abs(found.dual - x)[known] <= 1e-9 * (1.0 + np.abs(x[known])))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kind", DOMAINS)
@given(data=st.data())
@examples(40)
def test_euclidean_against_a_quadratic_program(kind, width, data):
    domain, theta, measure = data.draw(tame(kind, width))
    expected = by_quadratic_program(domain, theta, measure)
    found = project(Euclidean(), domain, theta, measure).density
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kind", DOMAINS)
@given(data=st.data())
@examples(30)
def test_entropy_against_an_exponential_cone(kind, width, data):
    """The solver stops near 1e-9 of the least value, which leaves its point some 1e-5 away: it must
    not be better than the projection, and as near to it as the Pythagorean inequality says.
    """
    domain, theta, measure = data.draw(tame(kind, width))
    other = np.maximum(by_exponential_cone(domain, theta, measure), 0.0)
    other /= math.fsum(measure.entries * other)
    found = project(Entropy(), domain, theta, measure).density

    def value(u: np.ndarray) -> float:
        return math.fsum(measure.entries * (Entropy().phi(u) - theta * u))

    worse = value(other) - value(found)
    assert -1e-11 <= worse <= 1e-8
    assert divergence(Entropy(), other, found, measure.entries) <= worse + 1e-9


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data())
@examples(25)
def test_against_bisection(name, kind, width, data):
    """To 1e-9, whatever the range of theta, of the base measure and of the caps."""
    domain, theta, measure = data.draw(wild(kind, width, REGULARIZERS[name].upper))
    expected = by_bisection(REGULARIZERS[name], domain, theta, measure)
    found = project(REGULARIZERS[name], domain, theta, measure)
    np.testing.assert_allclose(found.density, expected, rtol=1e-9, atol=1e-9)
    assert abs(mass_of(found, measure) - 1.0) <= 1e-12


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data())
@examples(40)
def test_optimality_conditions(name, kind, data):
    check_optimal(REGULARIZERS[name], *data.draw(wild(kind, 1, REGULARIZERS[name].upper)))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", ["entropy", "euclidean"])
@given(data=st.data())
@examples(30)
def test_fast_paths_agree_with_the_generic_one(name, kind, width, data):
    domain, theta, measure = data.draw(wild(kind, width))
    fast = project(REGULARIZERS[name], domain, theta, measure)
    slow = project_generic(REGULARIZERS[name], domain, theta, measure)
    np.testing.assert_allclose(fast.density, slow.density, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, n=st.integers(1, 8), width=st.sampled_from([1, 2]))
@examples(20)
def test_caps_that_hold_a_mass_of_one_exactly(name, seed, n, width):
    """One point is left: every row at its cap."""
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.1, 1.0, size=n), width)
    caps = rng.uniform(0.1, 1.0, size=n)
    domain = CappedSimplex(caps / math.fsum(caps * measure.rows_base))
    domain.check(measure)
    regularizer = type(REGULARIZERS[name])(**({"k": 50.0} if name == "fermi-dirac" else {}))
    found = project(regularizer, domain, random_theta(rng, n * width) * (width == 1), measure)
    np.testing.assert_allclose(measure.row_means(found.density), domain.caps, rtol=1e-12)
    check_optimal(regularizer, CappedSimplex(1.0), np.zeros(n), BaseMeasure(np.ones(n)))


@pytest.mark.parametrize("name", ["entropy", "euclidean"])
@given(seed=seeds, n=st.integers(2, 6), scale=st.sampled_from([1.0, 1e4]))
@example(seed=31, n=6, scale=1.0)
@example(seed=146, n=6, scale=1.0)
@example(seed=312, n=4, scale=1e4)
@examples(60)
def test_light_rows_under_caps_that_hold_a_mass_of_one_exactly(name, seed, n, scale):
    """Nearly nothing is free: what is left for the light rows is below the rounding of the mass."""
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(10.0 ** rng.integers(-12, 13, size=n))
    caps = rng.choice([0.5, 1.0, 2.0], size=n)
    caps /= math.fsum(caps * measure.rows_base)
    theta = np.round(rng.normal(size=n) * scale, 1)
    found = project(REGULARIZERS[name], CappedSimplex(caps), theta, measure)
    assert math.fsum(measure.entries * found.density) == pytest.approx(1.0, abs=1e-12)
    assert np.all(found.density <= caps)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(theta=st.floats(-1e300, 1e300), cap=st.floats(1.0, 1e6))
@examples(30)
def test_one_row_has_all_the_mass(name, theta, cap):
    for domain in (Simplex(), CappedSimplex(cap), CappedSimplex(np.array([math.inf]))):
        found = project(REGULARIZERS[name], domain, np.array([theta]), BaseMeasure(np.array([7.0])))
        assert found.density[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("name", ["entropy", "euclidean"])
@pytest.mark.parametrize("cap", [1e12, 1e20, 1e24, 1e28, 1e40, 1e300])
@pytest.mark.parametrize("lightest", [1.0, 1e-24])
def test_caps_that_no_row_comes_near_leave_the_masses_of_the_others(lightest, cap, name, width):
    """The highest cap sets the grid of the sums: it is not to swallow the mass of a distribution."""
    rng = np.random.default_rng(0)
    measure = BaseMeasure(np.array([lightest, 1.0, 1.0, 1.0, 1.0, 1.0]), width)
    theta = rng.normal(size=6 * width)
    for caps in (cap, np.array([cap, 1.3, 1.3, 1.3, 1.3, 2.0]), np.array([cap, *5 * [math.inf]])):
        density = project(REGULARIZERS[name], CappedSimplex(caps), theta, measure).density
        assert abs(measure.integral(density) - 1.0) <= 1e-12
        limits = np.where(np.asarray(caps) > 1e9, math.inf, caps)
        same = project(REGULARIZERS[name], CappedSimplex(limits), theta, measure).density
        np.testing.assert_allclose(density, same, rtol=1e-10, atol=1e-12)


def test_a_weight_far_below_a_capped_one():
    """Naive scaling by the largest theta underflows here: s would have to be e^760."""
    measure = BaseMeasure(np.ones(2))
    found = project(Entropy(), CappedSimplex(1.5), np.array([0.0, -760.0]), measure)
    np.testing.assert_allclose(found.density, [1.5, 0.5], rtol=1e-12)
    np.testing.assert_allclose(found.dual, np.log([1.5, 0.5]), rtol=1e-12)


@given(seed=seeds, gap=st.floats(800.0, 1e6))
@examples(30)
def test_an_underflowed_weight_is_remembered(seed, gap):
    """A density of zero keeps its logarithm, and returns when theta does."""
    theta = np.random.default_rng(seed).normal(size=5)
    measure = BaseMeasure(np.ones(5))
    low = theta - gap * (np.arange(5) == 0)
    found = project(Entropy(), Simplex(), low, measure)
    assert found.density[0] == 0.0
    back = project(Entropy(), Simplex(), found.dual + gap * (np.arange(5) == 0), measure)
    expected = project(Entropy(), Simplex(), theta, measure).density
    np.testing.assert_allclose(back.density, expected, rtol=1e-9)


@pytest.mark.parametrize("caps", [0.5, [0.9, 0.5, 1.0], [0.1, 0.1, 2.0], 1.0 - 1e-9], ids=str)
def test_infeasible_caps_are_refused_by_name(caps):
    measure = BaseMeasure(np.ones(3))
    for regularizer in REGULARIZERS.values():
        with pytest.raises(ValueError, match="caps"):
            MirrorAscent(regularizer, CappedSimplex(caps)).start(measure)


def test_caps_that_only_the_regularizer_makes_infeasible_are_refused_by_name():
    """FermiDirac is a cap too: a row without one still holds no more than k times its share."""
    domain, measure = CappedSimplex([math.inf, 0.3]), BaseMeasure(np.array([0.1, 0.9]))
    for regularizer in (Entropy(), FermiDirac(8.0)):
        MirrorAscent(regularizer, domain).start(measure)
    with pytest.raises(ValueError, match="caps"):
        MirrorAscent(FermiDirac(2.5), domain).start(measure)


def test_caps_of_the_wrong_shape_or_sign_are_refused_by_name():
    for caps in (0.0, -1.0, math.nan, [[1.0, 2.0]], [1.0, -2.0]):
        with pytest.raises(ValueError, match="caps"):
            CappedSimplex(caps)
    with pytest.raises(ValueError, match="caps has 2 entries but there are 3 rows"):
        MirrorAscent(Entropy(), CappedSimplex([3.0, 3.0])).start(BaseMeasure(np.ones(3)))


@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("domain", [Orthant(), Hypercube(1.0), Hypercube(2.0)], ids=repr)
@given(seed=seeds)
@examples(15)
def test_boxes(domain, name, seed):
    """Without a mass to meet every entry is projected alone: no point of the box is nearer."""
    regularizer = REGULARIZERS[name]
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=6) * 2.0
    found = project(regularizer, domain, theta, BaseMeasure(np.ones(6)))
    top = min(domain.entry_cap(), regularizer.upper)
    expected = [min(max(scalar_inverse(regularizer, x), 0.0), top) for x in theta]
    np.testing.assert_allclose(found.density, expected, rtol=1e-12)
    z, one = regularizer.grad_inverse(theta), np.ones(1)
    for i, u in enumerate(found.density):
        near = divergence(regularizer, np.array([u]), z[i : i + 1], one)
        for v in np.linspace(0.0, min(top, 10.0), 41):
            assert near <= divergence(regularizer, np.array([v]), z[i : i + 1], one) + 1e-12


@st.composite
def many_rows(draw, width: int, upper: float = math.inf):
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(600, 9000))  # enough for several threads
    kind = draw(st.sampled_from(DOMAINS))
    weights = rng.exponential(size=n) + 0.01
    theta = rng.normal(size=n * width) * draw(st.sampled_from([0.1, 1.0, 10.0]))
    return weights, random_domain(kind, weights / weights.sum(), rng, upper), theta


def same_bits(left: Projected, right: Projected) -> None:
    assert (left.center, left.tau) == (right.center, right.tau)
    np.testing.assert_array_equal(left.density, right.density, strict=True)
    np.testing.assert_array_equal(left.dual, right.dual, strict=True)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data())
@examples(8)
def test_the_density_is_put_where_it_is_asked_for(name, width, data):
    weights, domain, theta = data.draw(many_rows(width, REGULARIZERS[name].upper))
    measure, before = BaseMeasure(weights, width), theta.copy()
    for some in (domain, Orthant(), Hypercube(1.0)):
        out = np.full(theta.size, np.nan)
        found = project(REGULARIZERS[name], some, theta, measure, out=out)
        assert found.density is out
        same_bits(found, project(REGULARIZERS[name], some, theta, measure))
        np.testing.assert_array_equal(theta, before)
    with pytest.raises(ValueError, match="out must be an array of its own"):
        project(REGULARIZERS[name], domain, theta, measure, out=theta)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data())
@examples(8)
def test_threads_change_no_bit(name, width, data):
    weights, domain, theta = data.draw(many_rows(width, REGULARIZERS[name].upper))
    one = project(REGULARIZERS[name], domain, theta, BaseMeasure(weights, width))
    for threads in (Threads(2), Threads(3)):
        measure = BaseMeasure(weights, width, threads=threads)
        same_bits(project(REGULARIZERS[name], domain, theta, measure), one)


@pytest.mark.parametrize("name", ["entropy", "euclidean"])
def test_threads_change_no_bit_over_several_blocks(name):
    rng = np.random.default_rng(5)
    weights, theta = rng.exponential(size=300_000) + 0.01, rng.normal(size=300_000)
    for domain in (Simplex(), CappedSimplex(2.0)):
        one = project(REGULARIZERS[name], domain, theta, BaseMeasure(weights))
        measure = BaseMeasure(weights, threads=Threads(2))
        same_bits(project(REGULARIZERS[name], domain, theta, measure), one)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data(), count=st.integers(2, 4), pool=st.sampled_from([0, 30, 2048]))
@examples(12)
def test_shards_change_no_bit(name, width, data, count, pool):
    weights, domain, theta = data.draw(many_rows(width, REGULARIZERS[name].upper))
    one = project(REGULARIZERS[name], domain, theta, BaseMeasure(weights, width))
    rows = cuts(len(weights), count, np.random.default_rng(len(weights)))

    def work(comm):
        part = rows[comm.rank]
        inside = np.zeros(len(weights), dtype=bool)
        inside[part] = True
        measure = BaseMeasure(weights[part], width, comm)
        mine = theta.reshape(-1, width)[part].reshape(-1)
        return project(REGULARIZERS[name], domain.restricted(inside), mine, measure)

    # what many entries do here, many more do in use
    with mock.patch.object(thresholds, "POOLED", pool):
        found = on_shards(count, work)
    assert {(part.center, part.tau) for part in found} == {(one.center, one.tau)}
    np.testing.assert_array_equal(np.concatenate([part.density for part in found]), one.density)
    np.testing.assert_array_equal(np.concatenate([part.dual for part in found]), one.dual)


@pytest.mark.parametrize("name", ["entropy", "euclidean"])
@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("seed", range(12))
def test_shards_change_no_bit_where_caps_hold_a_mass_of_one_exactly(seed, width, name):
    """Many shifts lead to the only point of the set; the lazy update keeps the one that is found."""
    rng, n = np.random.default_rng(seed), 12
    theta = 1.0 + rng.choice([-0.3, 0.0, 0.2, 0.5], size=(n, width))
    one = project(
        REGULARIZERS[name], CappedSimplex(1.0), theta.ravel(), BaseMeasure(np.ones(n), width)
    )
    rows = cuts(n, 3, rng)

    def work(comm):
        mine = theta[rows[comm.rank]]
        measure = BaseMeasure(np.ones(len(mine)), width, comm)
        return project(REGULARIZERS[name], CappedSimplex(1.0), mine.ravel(), measure)

    for part in on_shards(3, work):
        assert (part.center, part.tau) == (one.center, one.tau)


@dataclass
class Power(Regularizer):
    r"""A user's own regularizer that is nearly flat at zero: :math:`\varphi(u) = u^p`."""

    p: float = 40.0
    strong_convexity = 1.0  # far from zero

    def phi(self, u):
        return u**self.p

    def grad(self, u):
        return self.p * u ** (self.p - 1.0)

    def grad_inverse(self, x):
        return (x / self.p) ** (1.0 / (self.p - 1.0))


@given(seed=seeds, n=st.integers(2, 8), count=st.integers(2, 3))
@examples(250)
def test_shards_change_no_bit_where_an_interval_of_shifts_is_met_at_its_end(seed, n, count):
    """Round dual points: a shard's guess is often exactly where rows reach zero and others are at caps."""
    rng = np.random.default_rng(seed)
    theta, domain = 0.5 * rng.integers(-4, 11, size=n), CappedSimplex(n / int(rng.integers(1, n)))
    parts = cuts(n, count, rng)

    def work(part, comm=None):
        found = project(Euclidean(), domain, theta[part], BaseMeasure(np.ones(n)[part], comm=comm))
        return found.density.tolist(), found.center + found.tau

    density, shift = work(slice(0, n))
    for part, found in zip(parts, on_shards(count, lambda c: work(parts[c.rank], c)), strict=True):
        assert found == (density[part], shift)


def test_a_shift_that_is_tiny_beside_the_dual_points_is_found():
    """A density of 0.1 has a gradient of 1e-37 here: from eight, that is hundreds of halvings."""
    theta = np.array([117.50275864823425, 1.0889288604523654e18, 0.07676410908944006,
                      1.379705396731841e16, 1.6620622565002448e-20])  # fmt: skip
    measure = BaseMeasure(np.ones(5))
    density = project(Power(), Simplex(), theta, measure).density
    assert abs(measure.integral(density) - 1.0) <= 1e-12


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize(
    "places", [(-40.0, 0.0), (0.0, 30.0), (-30.0, -20.0), (20.0, 25.0), (0.0, 800.0)]
)
def test_shards_far_apart_take_the_same_center(places, capped):
    rng = np.random.default_rng(3)
    rows = np.arange(80).reshape(2, 40)
    theta, weights = rng.normal(size=80) + np.repeat(places, 40), rng.random(80) + 0.5
    domain = CappedSimplex(4.0) if capped else Simplex()
    one = project(Entropy(), domain, theta, BaseMeasure(weights))

    def work(comm):
        part = rows[comm.rank]
        return project(Entropy(), domain, theta[part], BaseMeasure(weights[part], comm=comm))

    found = on_shards(2, work)
    assert {(part.center, part.tau) for part in found} == {(one.center, one.tau)}
    np.testing.assert_array_equal(np.concatenate([part.density for part in found]), one.density)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(data=st.data(), off=st.sampled_from([0.0, 1e-9, 0.01, -0.01, 3.0, -50.0, 1e6]))
@examples(15)
def test_a_guess_does_not_change_the_result(name, data, off):
    weights, domain, theta = data.draw(many_rows(1, REGULARIZERS[name].upper))
    measure = BaseMeasure(weights)
    plain = project(REGULARIZERS[name], domain, theta, measure)
    guessed = project(REGULARIZERS[name], domain, theta, measure, plain.center + plain.tau + off)
    np.testing.assert_allclose(guessed.density, plain.density, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("guess", [-0.5, 0.0, 0.25, 1.0, 1.5])
@pytest.mark.parametrize("scale", [1.0, 2.0**-40, 2.0**20])
def test_a_guess_where_caps_begin_to_hold_all_mass_changes_nothing(guess, scale):
    """Every shift in an interval is a root; the one told is its end, also from the end itself."""
    measure, theta = BaseMeasure(np.ones(4)), np.array([2.0 + scale, 2.0 + scale, 0.0, 0.0])
    domain = CappedSimplex(2.0)
    found = project(Euclidean(), domain, theta, measure, guess * scale)
    np.testing.assert_array_equal(found.density, [2.0, 2.0, 0.0, 0.0])
    assert found.center + found.tau == scale


def test_shards_ask_each_other_as_often_where_only_one_has_other_caps():
    """Two domains by turns, as double projection has: what a shard keeps must not depend on its own rows."""
    some, others = np.array([1e40, 2.0, 2.0, 1e40]), np.array([1e40, 2.0, 3.0, 1e40])

    def work(comm):
        rows = slice(2 * comm.rank, 2 * comm.rank + 2)
        measure, two = BaseMeasure(np.ones(2), comm=comm), (some[rows], others[rows])
        return [measure.highest_caps(measure.caps_in_reach(two[i % 2])) for i in range(4)]

    assert on_shards(2, work) == [[(math.inf, 2.0), (math.inf, 3.0)] * 2] * 2
