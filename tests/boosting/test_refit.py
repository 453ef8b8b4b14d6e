"""All votes at once, against linear and conic programs."""

import math

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import cuts, on_shards, random_problem
from tests.linear_program import best_soft_margin

from maboost.boosting.refit import refit_votes
from maboost.engine.dispatch import project
from maboost.engine.vote_matrix import VoteMatrix
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Entropy,
    Euclidean,
    FermiDirac,
    Simplex,
    SourceCapped,
)
from maboost.mirror.potential import DualPotential
from maboost.mirror.soft_margin import linear_minimum


def some_problem(seed: int):
    """Hypotheses on 40 rows: binary or three classes, with weights or none, votes or real."""
    rng = np.random.default_rng(seed)
    n_classes = 2 if seed % 3 else 3
    problem = random_problem(
        rng, 40, 15, n_classes, ("votes", "real")[seed % 2], weighted=seed % 4 > 1, skill=0.65
    )
    matrix = VoteMatrix(problem.labels, n_classes)
    for table in problem.tables:
        matrix.append_scores(table)
    measure = BaseMeasure(problem.weights, n_classes - 1)
    domains = [
        CappedSimplex(1.5),
        CappedSimplex(4.0),
        Simplex(),
        CappedSimplex(np.where(np.arange(40) % 2, 2.0, math.inf)),
        SourceCapped(np.arange(40) % 3, np.array([1.0, 0.4, 0.3]), 5.0),
    ]
    return problem, matrix, measure, domains[seed % len(domains)]


@pytest.mark.parametrize("seed", range(20))
def test_the_soft_margin_is_that_of_the_linear_program(seed):
    problem, matrix, measure, domain = some_problem(seed)
    regularizer = (Entropy(), Entropy(), Euclidean(), Entropy())[seed % 4]
    best = best_soft_margin(-problem.losses(), measure, domain)
    tolerance = 0.01
    caps = np.minimum(domain.row_caps(), 1.0 / measure.rows_base).max() * measure.width
    capacity = 2.0 * regularizer.beta(1.0 / caps) / tolerance
    potential = DualPotential(regularizer, domain, measure, project)
    found = refit_votes(
        matrix, potential, np.ones(len(matrix)), capacity=capacity, tolerance=tolerance / 4
    )
    assert found.eta.sum() == pytest.approx(capacity, rel=1e-12)
    assert found.violation <= tolerance / 4
    soft = linear_minimum(found.margins, domain, measure) / capacity
    assert soft <= best + 1e-9
    assert soft >= best - tolerance
    certified_gap = (
        found.edges.max() - soft
    )  # the best edge bounds every soft margin of these hypotheses
    assert certified_gap >= best - soft - 1e-9


def conic_votes(
    columns: np.ndarray, base: np.ndarray, cap: float, entropy: bool, capacity: float | None = None
) -> float:
    """The largest G over non-negative votes by clarabel, from its dual.

    The dual is the least divergence without an edge. Where the votes sum to a capacity, it is the least of the
    divergence and capacity times the best edge.
    """
    m, n = columns.shape
    # unknowns: w, the best edge where there is a capacity, and t_i >= w_i log(w_i / D_i) for entropy
    edge = 0 if capacity is None else 1
    size = n + edge + (n if entropy else 0)
    unit = sp.eye(size, format="csc")
    best = sp.hstack(
        [sp.csc_matrix((m, n)), np.ones((m, edge)), sp.csc_matrix((m, size - n - edge))]
    )
    of_w = unit[:n]
    blocks = [
        sp.csc_matrix(np.ones((1, n))) @ of_w,
        sp.csc_matrix(columns) @ of_w - best,
        -of_w,
        of_w,
    ]
    right = [np.ones(1), np.zeros(m), np.zeros(n), cap * base]
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(m + 2 * n)]
    linear = np.zeros(size)
    linear[n : n + edge] = capacity or 0.0
    quadratic = sp.csc_matrix((size, size))
    if entropy:
        linear[n + edge :] = 1.0
        for i in range(n):  # (-t_i, w_i, D_i) is in the exponential cone
            blocks.append(sp.vstack([unit[n + edge + i], -unit[i], sp.csc_matrix((1, size))]))
            right.append(np.array([0.0, 0.0, base[i]]))
            cones.append(clarabel.ExponentialConeT())
    else:
        quadratic = sp.diags(np.append(1.0 / base, np.zeros(edge))).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    matrix = sp.vstack(blocks).tocsc()
    solver = clarabel.DefaultSolver(
        quadratic, linear, matrix, np.concatenate(right), cones, settings
    )
    return solver.solve().obj_val - (0.0 if entropy else 0.5)


@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()])
@pytest.mark.parametrize("cap", [2.0, 1e6])
def test_the_gain_of_the_error_problem_is_that_of_a_conic_program(regularizer, cap):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 60, 6, 2, "real", weighted=True, skill=0.55)
        matrix = VoteMatrix(problem.labels, 2)
        for table in problem.tables:
            matrix.append_scores(table)
        measure = BaseMeasure(problem.weights)
        potential = DualPotential(regularizer, CappedSimplex(cap), measure, project)
        found = refit_votes(matrix, potential, np.zeros(6), tolerance=1e-8)
        assert found.violation <= 1e-8
        assert found.steps < 30
        columns = -problem.losses()
        expected = conic_votes(columns, measure.entries, cap, isinstance(regularizer, Entropy))
        assert found.hardest.gain == pytest.approx(expected, abs=1e-7)
        assert found.edges.max() <= 1e-8  # no hypothesis has an edge left,
        assert found.edges[found.eta > 0.0].min() >= -1e-8  # and those with a vote have none


@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()])
@pytest.mark.parametrize("cap", [2.0, 1e6])
def test_the_gain_at_a_capacity_is_that_of_a_conic_program(regularizer, cap):
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        problem = random_problem(rng, 60, 12, 2, "real", weighted=True, skill=0.6)
        matrix = VoteMatrix(problem.labels, 2)
        for table in problem.tables:
            matrix.append_scores(table)
        measure = BaseMeasure(problem.weights)
        potential = DualPotential(regularizer, CappedSimplex(cap), measure, project)
        capacity = (3.0, 20.0, 60.0)[seed]
        found = refit_votes(matrix, potential, np.zeros(12), capacity=capacity, tolerance=1e-9)
        assert found.violation <= 1e-9
        entropy = isinstance(regularizer, Entropy)
        expected = conic_votes(-problem.losses(), measure.entries, cap, entropy, capacity)
        assert found.hardest.gain == pytest.approx(expected, abs=1e-7)
        # every hypothesis with a vote has the best edge
        level = found.edges @ found.eta / capacity
        assert found.edges.max() <= level + 1e-9
        assert found.edges[found.eta > 1e-6].min() >= level - 1e-5


@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean(), FermiDirac(8.0)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_sample_of_the_hessian_leads_to_the_same_votes(regularizer, n_classes):
    rng = np.random.default_rng(0)
    problem = random_problem(rng, 20_000, 10, n_classes, "votes", weighted=False, skill=0.4 + 0.1)
    matrix = VoteMatrix(problem.labels, n_classes)
    for table in problem.tables:
        matrix.append_scores(table)
    measure = BaseMeasure(problem.weights, n_classes - 1)
    potential = DualPotential(regularizer, CappedSimplex(6.0), measure, project)
    found = [
        refit_votes(matrix, potential, np.zeros(10), tolerance=1e-6, keys=rng.random(20_000))
        for _ in range(2)
    ]
    for refit in found:
        assert refit.violation <= 1e-6
        assert refit.steps < 30
    np.testing.assert_allclose(found[0].eta, found[1].eta, atol=1e-3)


def test_the_gain_grows_until_enough_where_it_has_no_maximum():
    matrix = VoteMatrix(np.array([0, 0, 1, 1]), 2)
    for wrong in range(3):
        scores = np.array([-1.0, -1.0, 1.0, 1.0])
        scores[wrong] *= -1.0
        matrix.append_scores(scores)
    potential = DualPotential(Entropy(), Simplex(), BaseMeasure(np.ones(4)), project)
    found = refit_votes(matrix, potential, np.zeros(3), enough=5.0)
    assert not found.bounded
    assert found.hardest.gain >= 5.0
    assert found.margins.min() > 0.0


def test_threads_and_shards_change_no_bit():
    rng = np.random.default_rng(1)
    n = 16_000
    problem = random_problem(rng, n, 6, 2, "votes", weighted=True, skill=0.55)
    keys, parts = rng.random(n), cuts(n, 3, rng)

    def votes(rows: np.ndarray, comm=None, threads: int = 1) -> np.ndarray:
        from maboost.runtime.threads import Threads

        matrix = VoteMatrix(problem.labels[rows], 2, Threads(threads))
        for table in problem.tables:
            matrix.append_scores(table[rows])
        measure = BaseMeasure(problem.weights[rows], 1, comm, Threads(threads))
        potential = DualPotential(Entropy(), CappedSimplex(3.0), measure, project)
        start = np.zeros(6)
        return refit_votes(matrix, potential, start, tolerance=1e-7, keys=keys[rows]).eta

    alone = votes(np.arange(n))
    assert np.array_equal(votes(np.arange(n), threads=3), alone)
    assert np.array_equal(votes(rng.permutation(n)), alone)
    for found in on_shards(3, lambda comm: votes(np.arange(n)[parts[comm.rank]], comm)):
        assert np.array_equal(found, alone)
