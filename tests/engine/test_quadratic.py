"""The quadratic problem of a Newton step, against outside solvers."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from maboost.engine.quadratic import minimum_over_cone, weighted_gram
from maboost.runtime.threads import Threads


def random_problem(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size + 5, size)) + 0.5
    return rows, rng.normal(size=size + 5)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 60])
def test_it_solves_non_negative_least_squares(size):
    for seed in range(5):
        rows, right = random_problem(seed, size)
        expected, _ = nnls(rows, right)
        found = minimum_over_cone(rows.T @ rows, -rows.T @ right, np.zeros(size))
        np.testing.assert_allclose(found, expected, atol=1e-8)
        start = np.full(size, 0.3)
        warm = minimum_over_cone(rows.T @ rows, rows.T @ (rows @ start - right), start)
        np.testing.assert_allclose(warm, expected, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_it_solves_the_problem_over_a_simplex(size):
    for seed in range(5):
        rows, right = random_problem(seed, size)
        hessian, linear = rows.T @ rows, -rows.T @ right
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        matrix = sp.vstack([np.ones((1, size)), -sp.eye(size)]).tocsc()
        b = np.append(2.0, np.zeros(size))
        cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(size)]
        quadratic = sp.triu(hessian).tocsc()
        solver = clarabel.DefaultSolver(quadratic, linear, matrix, b, cones, settings)
        expected = np.array(solver.solve().x)
        start = np.full(size, 2.0 / size)
        found = minimum_over_cone(hessian, linear + hessian @ start, start, fixed_sum=True)
        assert found.sum() == pytest.approx(2.0, rel=1e-12)
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (3, 9), (10, 17), (133, 40)])
def test_a_gram_matrix_is_the_same_for_any_number_of_threads(shape):
    rng = np.random.default_rng(0)
    columns, weights = rng.normal(size=shape), rng.random(shape[0])
    one, two = (weighted_gram(columns, weights, Threads(count)) for count in (1, 3))
    assert np.array_equal(one, two)
    np.testing.assert_allclose(one, columns.T @ (weights[:, None] * columns), atol=1e-12)
