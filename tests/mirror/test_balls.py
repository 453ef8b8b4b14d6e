"""Balls around the base measure: projections, soft margins and bounds, against a conic solver."""

import math

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from tests.helpers import cuts, examples, on_shards, seeds
from tests.implementations import REGULARIZERS, Elastic, ElasticBall

from maboost.boosting import ErrorBound, MarginBound, certificate_of
from maboost.engine import project as fast_project
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    ChiSquareBall,
    Domain,
    Entropy,
    Euclidean,
    FermiDirac,
    KLBall,
    MirrorAscent,
    Simplex,
    project,
)
from maboost.mirror.balls import largest_divergence
from maboost.mirror.soft_margin import linear_minimum

BALLS = [KLBall(0.05), KLBall(0.7), KLBall(3.0), ChiSquareBall(0.05), ChiSquareBall(0.7),
         ChiSquareBall(3.0), ElasticBall(0.5)]  # fmt: skip


def a_measure(rng: np.random.Generator, rows: int = 20, width: int = 1) -> BaseMeasure:
    return BaseMeasure(rng.exponential(size=rows) + 0.1, width)


# --------------------------------------------------------------------------------------------------
# projections


@pytest.mark.parametrize("projection", [project, fast_project])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)
def test_a_projection_satisfies_the_optimality_conditions(regularizer, ball, width, projection):
    rng, limit = np.random.default_rng(width), ball.divergence_limit()
    measure, one = a_measure(rng, width=width), np.ones(1)
    for size in (0.03, 1.0, 30.0, 1e4):
        theta = size * rng.normal(size=20 * width)
        found = projection(regularizer, ball, theta, measure)
        u, weight = found.density, found.multiplier
        assert abs(measure.integral(u) - 1.0) <= 1e-12
        over = limit.divergence(u, measure) - limit.radius
        assert over <= 1e-12
        assert weight >= 0.0
        assert weight == 0.0 or abs(over) <= 1e-12
        upper = min(regularizer.upper, limit.regularizer.upper)
        scale = 1.0 + weight + np.abs(theta).max()
        with np.errstate(divide="ignore"):
            price = limit.regularizer.grad(u) - limit.regularizer.grad(one)
            dual = regularizer.grad(u) + (weight * price if weight else 0.0)
        inside = (u > 1e-9) & (u < upper * (1.0 - 1e-6))
        tau = found.center + found.tau
        assert np.abs(theta - tau - dual)[inside].max(initial=0.0) <= 1e-12 * scale
        tiny = np.array([2e-9])
        end = regularizer.grad(tiny)
        end = end + weight * (limit.regularizer.grad(tiny) - limit.regularizer.grad(one))
        assert np.all((theta - tau)[u <= 1e-9] <= end)  # such an entry would like to be even lower
        assert np.all((theta - tau)[u >= upper] >= 0.0)


@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean(), Elastic()], ids=repr)
def test_the_dual_point_is_the_gradient_at_the_projection(regularizer, ball):
    rng = np.random.default_rng(3)
    measure = a_measure(rng)
    for size in (1.0, 30.0):
        found = fast_project(regularizer, ball, size * rng.normal(size=20), measure)
        there = found.density > 1e-12
        np.testing.assert_allclose(
            found.dual[there], regularizer.grad(found.density[there]), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean(), FermiDirac(4.0)], ids=repr)
def test_a_ball_that_is_large_enough_changes_nothing(regularizer):
    rng = np.random.default_rng(4)
    measure, theta = a_measure(rng), 2.0 * rng.normal(size=20)
    free = fast_project(regularizer, Simplex(), theta, measure)
    for ball in (KLBall(10.0), ChiSquareBall(1e6)):
        found = fast_project(regularizer, ball, theta, measure)
        assert found.multiplier == 0.0
        assert np.array_equal(found.density, free.density)


@examples(40)
@given(seeds)
def test_shards_and_threads_have_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    width, rows = int(rng.integers(1, 4)), 40
    regularizer, ball = [
        (Entropy(), KLBall(0.5)), (Euclidean(), ChiSquareBall(0.5)), (Entropy(), ChiSquareBall(0.5)),
        (FermiDirac(4.0), KLBall(0.5)),
    ][rng.integers(4)]  # fmt: skip
    weights, theta = rng.exponential(size=rows) + 0.1, 3.0 * rng.normal(size=(rows, width))
    measure = BaseMeasure(weights, width)
    whole = fast_project(regularizer, ball, theta.reshape(-1), measure).density
    soft = linear_minimum(theta.reshape(-1), ball, measure, projection=fast_project)
    parts = cuts(rows, 3, rng)

    def work(comm):
        part = parts[comm.rank]
        mine, measure = theta[part].reshape(-1), BaseMeasure(weights[part], width, comm)
        density = fast_project(regularizer, ball, mine, measure).density
        return density.copy(), linear_minimum(mine, ball, measure, projection=fast_project)

    found = on_shards(3, work)
    assert np.array_equal(np.concatenate([density for density, _ in found]), whole)
    assert {value for _, value in found} == {soft}


# --------------------------------------------------------------------------------------------------
# the oracle


def conic(linear, base, ball, cost=None, upper=math.inf) -> float:
    """Minimise <linear, w> plus the cost (entropy, euclidean or none) over a ball by clarabel.

    Variables: w, t with t_i >= w_i log(w_i / D_i), and q with q_i >= w_i^2 / (2 D_i).
    """
    n = base.size
    zero, eye = sp.csc_matrix((n, n)), sp.eye(n, format="csc")
    row, none = sp.csc_matrix(np.ones((1, n))), sp.csc_matrix((1, n))
    matrix = [sp.hstack([row, none, none]), sp.hstack([-eye, zero, zero])]
    right, cones = [[1.0], np.zeros(n)], [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n)]
    if math.isfinite(upper):
        matrix.append(sp.hstack([eye, zero, zero]))
        right.append(upper * base)
        cones.append(clarabel.NonnegativeConeT(n))
    entropic = isinstance(ball, KLBall)
    limit = [none, row, none] if entropic else [none, none, row]
    matrix.append(sp.hstack(limit))
    right.append([ball.radius + (0.0 if entropic else 0.5)])
    cones.append(clarabel.NonnegativeConeT(1))
    for i in range(n):
        block = sp.lil_matrix((3, 3 * n))  # s = b - A x = (-t, w, D)
        block[0, n + i], block[1, i] = 1.0, -1.0
        matrix.append(block.tocsc())
        right.append([0.0, 0.0, base[i]])
        cones.append(clarabel.ExponentialConeT())
    for i in range(
        n
    ):  # 2 (q D) >= w^2: ((qD + 1/2), (qD - 1/2), w) in the second-order cone, times sqrt 2
        block = sp.lil_matrix((3, 3 * n))
        block[0, 2 * n + i] = block[1, 2 * n + i] = -base[i]
        block[2, i] = -1.0
        matrix.append(block.tocsc())
        right.append([0.5, -0.5, 0.0])
        cones.append(clarabel.SecondOrderConeT(3))
    of_t, of_q = float(cost == "entropy"), float(cost == "euclidean")
    objective = np.concatenate([linear, np.full(n, of_t), np.full(n, of_q)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sp.csc_matrix((3 * n, 3 * n)), objective, sp.vstack(matrix).tocsc(), np.concatenate(right),
        cones, settings,
    )  # fmt: skip
    found = solver.solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return float(found.obj_val)


CONIC_BALLS = [ball for ball in BALLS if not isinstance(ball, ElasticBall)]


@pytest.mark.parametrize("size", [0.5, 5.0])
@pytest.mark.parametrize("ball", CONIC_BALLS, ids=repr)
@pytest.mark.parametrize("cost", ["entropy", "euclidean"])
def test_projections_are_those_of_a_conic_solver(cost, ball, size):
    rng = np.random.default_rng(5)
    measure, theta = a_measure(rng), size * rng.normal(size=20)
    regularizer = Entropy() if cost == "entropy" else Euclidean()
    u = fast_project(regularizer, ball, theta, measure).density
    reached = measure.integral(regularizer.phi(u) - theta * u)
    expected = conic(-theta * measure.entries / measure.entries, measure.entries, ball, cost)
    assert reached == pytest.approx(expected, abs=1e-7 * (1.0 + size))


@pytest.mark.parametrize("upper", [math.inf, 3.0])
@pytest.mark.parametrize("ball", CONIC_BALLS, ids=repr)
def test_soft_margins_are_those_of_a_conic_solver(ball, upper):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        width = 1 + 2 * (seed % 2)
        measure = a_measure(rng, 20 // width, width)
        values = rng.normal(size=measure.entries.size)
        if seed == 3:
            values = rng.choice([-1.0, -0.2, 0.4, 1.0], size=values.size)  # ties, as votes have
        found = linear_minimum(values, ball, measure, upper, projection=fast_project)
        assert found == linear_minimum(values, ball, measure, upper) or found == pytest.approx(
            linear_minimum(values, ball, measure, upper), abs=1e-12
        )
        expected = conic(values, measure.entries, ball, None, upper)
        assert found == pytest.approx(expected, abs=1e-7)


@examples(100)
@given(seeds)
def test_no_distribution_of_a_ball_has_less_than_the_soft_margin(seed):
    rng = np.random.default_rng(seed)
    ball = BALLS[rng.integers(len(BALLS))]
    measure = a_measure(rng)
    values = rng.normal(size=20) * 10.0 ** rng.uniform(-6.0, 6.0)
    found = linear_minimum(values, ball, measure, projection=fast_project)
    for size in (0.1, 3.0, 1e3):
        theta = size * (rng.normal(size=20) - values / np.abs(values).max())
        u = fast_project(Entropy(), ball, theta, measure).density
        assert measure.integral(u * values) >= found - 1e-12 * np.abs(values).max()


def test_the_lowest_rows_take_all_mass_where_the_ball_allows_it():
    measure, values = BaseMeasure(np.ones(8)), np.array([0.3, 0.3, 0.5, 0.5, 0.9, 1.0, 1.0, 1.0])
    assert linear_minimum(values, KLBall(math.log(4.0) + 1e-9), measure) == 0.3
    assert linear_minimum(values, ChiSquareBall(1.5 + 1e-9), measure) == 0.3
    assert linear_minimum(values, KLBall(math.log(4.0) - 1e-3), measure) > 0.3
    assert linear_minimum(np.full(8, 0.7), KLBall(0.1), measure) == 0.7


# --------------------------------------------------------------------------------------------------
# what is certified


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("regularizer", "ball", "floor"),
    [
        (Entropy(), KLBall(2.0), math.exp(-2.0)),
        (Euclidean(), ChiSquareBall(2.0), 0.2),
        (Euclidean(), KLBall(2.0), math.exp(-2.0)),
        (Entropy(), ChiSquareBall(2.0), 0.2),
    ],
)
def test_floors(regularizer, ball, floor, width):
    measure = BaseMeasure(np.ones(50), width)
    ascent = MirrorAscent(regularizer, ball)
    bound = ErrorBound.of(ascent, measure)
    assert bound.floor == pytest.approx(min(width * floor, 1.0), rel=1e-9)
    assert bound.floor >= min(width * floor, 1.0)
    assert bound(1e9) == bound.floor
    if regularizer == ball.divergence_limit().regularizer:
        assert MarginBound.of(ascent, measure)(3.0) == pytest.approx(1.0, abs=1e-9)


def test_an_ensemble_may_be_wrong_on_as_many_rows_as_the_floor_says():
    """All margins right but a share of the floor: the soft margin is positive, and the bound is tight there."""
    n = 100
    for ball, floor in ((KLBall(math.log(10.0)), 0.1), (ChiSquareBall(4.5), 0.1)):
        wrong = np.where(np.arange(n) < n * floor, -0.01, 1.0)
        found = certificate_of(wrong, BaseMeasure(np.ones(n)), "entropy", ball)
        assert found.soft_margin == pytest.approx(-0.01, abs=1e-6)
        fewer = np.where(np.arange(n) < n * floor - 1, -0.01, 1.0)
        found = certificate_of(fewer, BaseMeasure(np.ones(n)), "entropy", ball)
        assert found.soft_margin > 0.0
        assert found.measured_error < found.floor
        assert found.error_bound == found.floor


@examples(100)
@given(seeds)
def test_no_divergence_in_a_ball_exceeds_its_bound(seed):
    rng = np.random.default_rng(seed)
    ball, regularizer = (
        BALLS[rng.integers(len(BALLS))],
        REGULARIZERS[rng.integers(len(REGULARIZERS))],
    )
    measure, limit = a_measure(rng), ball.divergence_limit()
    highest = min(1.0 / measure.entries.min(), regularizer.upper)
    bound = largest_divergence(regularizer, limit, highest)
    if regularizer == limit.regularizer:
        assert bound == limit.radius
    one, level = np.ones(1), float(regularizer.phi(np.ones(1))[0])
    for size in (0.1, 3.0, 1e3):
        u = fast_project(Entropy(), ball, size * rng.normal(size=20), measure).density
        if u.max() > regularizer.upper:
            continue
        with np.errstate(over="ignore"):
            reached = measure.integral(regularizer.phi(u)) - level
        assert reached <= bound * (1.0 + 1e-12) + 1e-12, one


# --------------------------------------------------------------------------------------------------
# what is refused


@pytest.mark.parametrize("ball", [KLBall, ChiSquareBall])
@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan, "1", None])
def test_radii_that_are_none_are_refused(ball, radius):
    with pytest.raises(ValueError, match=rf"{ball.__name__}: radius must be positive and finite"):
        ball(radius)


class CappedBall(CappedSimplex):
    def divergence_limit(self):
        return KLBall(1.0).divergence_limit()


class FreeBall(Domain):
    normalised = False

    def divergence_limit(self):
        return KLBall(1.0).divergence_limit()


@pytest.mark.parametrize("domain", [CappedBall(3.0), FreeBall()])
def test_a_ball_with_caps_is_refused(domain):
    with pytest.raises(ValueError, match="holds distributions and has no caps"):
        MirrorAscent(Entropy(), domain)


def test_parameters_of_a_ball_can_be_searched():
    ball = KLBall(1.0).set_params(radius=0.5)
    assert ball == KLBall(0.5)
    assert ball.divergence_limit().radius == 0.5
    assert not ball.contains(np.array([4.0, 0.0, 0.0, 0.0]), BaseMeasure(np.ones(4)))
    assert ball.contains(np.array([2.0, 1.0, 0.5, 0.5]), BaseMeasure(np.ones(4)))
