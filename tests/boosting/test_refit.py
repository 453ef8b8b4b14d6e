"""All votes at once, against linear and conic programs."""

import math

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from tests.helpers import cuts, on_shards, random_problem

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


def best_soft_margin(columns: np.ndarray, measure: BaseMeasure, domain) -> float:
    """The largest soft margin of convex combinations of the columns (m, entries), by HiGHS.

    Maximise rho - sum_i k_i D_i xi_i - sum_g c_g zeta_g, where the margin of each entry is at least
    rho - xi_i - zeta_g: the dual of the smallest mean margin over the domain.
    """
    m, entries = columns.shape
    n, width = measure.rows, measure.width
    room = np.minimum(np.broadcast_to(domain.row_caps(), (n,)) * measure.rows_base, 1.0)
    limits = domain.source_caps()
    masses = np.ones(1) if limits is None else np.minimum(limits.masses, 1.0)
    sources = np.zeros(n, dtype=int) if limits is None else limits.sources
    rows = np.arange(entries) // width
    of_row = sp.csr_matrix((np.ones(entries), (np.arange(entries), rows)), (entries, n))
    of_source = sp.csr_matrix(
        (np.ones(entries), (np.arange(entries), sources[rows])), (entries, masses.size)
    )
    # unknowns: votes, rho, xi, zeta
    matrix = sp.hstack([-columns.T, np.ones((entries, 1)), -of_row, -of_source]).tocsr()
    cost = np.concatenate([np.zeros(m), [-1.0], room, masses])
    equal = np.concatenate([np.ones(m), np.zeros(1 + n + masses.size)])[None, :]
    bounds = [(0, None)] * m + [(None, None)] + [(0, None)] * (n + masses.size)
    found = linprog(cost, matrix, np.zeros(entries), equal, [1.0], bounds=bounds, method="highs")
    return -found.fun


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


def conic_votes(columns: np.ndarray, base: np.ndarray, cap: float, entropy: bool) -> float:
    """The largest G over non-negative votes by clarabel, from its dual: the least divergence without an edge."""
    m, n = columns.shape
    extra = n if entropy else 0
    blocks = [np.ones((1, n)), columns, -sp.eye(n), sp.eye(n)]
    right = [np.ones(1), np.zeros(m), np.zeros(n), cap * base]
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(m + 2 * n)]
    wide = [sp.hstack([b, sp.csc_matrix((b.shape[0], extra))]) for b in blocks]
    if entropy:
        for i in range(n):  # t_i >= w_i log(w_i / D_i)
            block = sp.lil_matrix((3, 2 * n))
            block[0, n + i], block[1, i] = 1.0, -1.0
            wide.append(block.tocsc())
            right.append(np.array([0.0, 0.0, base[i]]))
            cones.append(clarabel.ExponentialConeT())
    quadratic = sp.csc_matrix((2 * n, 2 * n)) if entropy else sp.diags(1.0 / base).tocsc()
    linear = np.append(np.zeros(n), np.ones(n)) if entropy else np.zeros(n)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    matrix = sp.vstack(wide).tocsc()
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
