r"""The lazy double-projection conjecture: w_t = Pi_S(Pi_K(z_t)) with z_t never projected.

The lazy proof needs w to be the gradient of a potential of the dual point theta. Edges only need it up
to a positive factor: if w = lambda(theta) grad Psi(theta), every positive edge lowers Psi. If
not (Frobenius: w . curl w is not zero), Caratheodory's theorem joins nearby points by paths along
which every edge is positive, closed ones too: hypotheses with positive edges that lead nowhere.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from benchmarks.theory.common import ORDERS, Array, Stingy, Table

from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Domain,
    Entropy,
    Euclidean,
    Hypercube,
    Orthant,
    Regularizer,
    Simplex,
    project,
)


@dataclass(frozen=True)
class Pair:
    """A first set K and a second set S."""

    name: str
    regularizer: Regularizer
    first: Domain
    second: Domain

    def points(self, theta: Array, measure: BaseMeasure) -> tuple[Array, Array]:
        """The projection onto K, and that onto S."""
        p = project(self.regularizer, self.first, theta, measure)
        return p.density, project(self.regularizer, self.second, p.dual, measure).density

    def bound(self, squares: float) -> float:
        """Theorem 1 (or 3), which the lazy update has with one projection."""
        entropy = isinstance(self.regularizer, Entropy)
        level = math.exp(-0.5 * squares) if entropy else 1.0 / (1.0 + squares)
        return max(level, 1.0 / float(self.second.row_caps()))


_SETS: tuple[tuple[str, Domain, Domain], ...] = (
    ("orthant to simplex", Orthant(), Simplex()),
    ("simplex to cap 4", Simplex(), CappedSimplex(4.0)),
    ("cap 6 to cap 4", CappedSimplex(6.0), CappedSimplex(4.0)),
    ("cube 4 to cap 4", Hypercube(4.0), CappedSimplex(4.0)),
    ("cube 6 to cap 4", Hypercube(6.0), CappedSimplex(4.0)),
)
PAIRS = (
    *(Pair(f"entropy, {name}", Entropy(), k, s) for name, k, s in _SETS),
    *(
        Pair(f"entropy, cube {b:g} to simplex", Entropy(), Hypercube(b), Simplex())
        for b in (1.0, 4.0)
    ),
    *(Pair(f"euclidean, {name}", Euclidean(), k, s) for name, k, s in _SETS),
)


def uniform(n: int) -> BaseMeasure:
    return BaseMeasure(np.ones(n))


def curl(pair: Pair, theta: Array, measure: BaseMeasure, h: float = 1e-5) -> float:
    """The largest of w_i (J_jk - J_kj) + its two rotations over all triples of rows."""
    n = theta.size
    w = pair.points(theta, measure)[1]
    J = np.empty((n, n))
    for j in range(n):
        up, down = theta.copy(), theta.copy()
        up[j] += h
        down[j] -= h
        J[:, j] = (pair.points(up, measure)[1] - pair.points(down, measure)[1]) / (2.0 * h)
    A = J - J.T
    return max(
        abs(w[i] * A[j, k] + w[j] * A[k, i] + w[k] * A[i, j])
        for i, j, k in itertools.combinations(range(n), 3)
    )


def geometry(pair: Pair, points: int, n: int = 8, seed: int = 0) -> dict[str, float]:
    """Over random dual points: how far from one projection, and how often the curl is not zero."""
    rng, measure = np.random.default_rng(seed), uniform(n)
    start = float(pair.regularizer.grad(np.ones(1))[0])
    difference, curls = 0.0, []
    for _ in range(points):
        theta = start + rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=n) + rng.normal()
        once = project(pair.regularizer, pair.second, theta, measure).density
        difference = max(difference, float(np.abs(pair.points(theta, measure)[1] - once).max()))
        curls.append(curl(pair, theta, measure))
    return {
        "difference_from_one_projection": difference if difference > 1e-9 else 0.0,
        "share_with_curl": float(np.mean(np.array(curls) > 1e-4)),
    }


def boost(pair: Pair, n: int, edge: float, order: str, most: int) -> tuple[float, float]:
    """Lazy double projection with the paper's step against the stingy learner.

    Returns the largest ratio of the error to Theorem 1's bound, and the error at the end.
    """
    measure, labels = uniform(n), np.arange(n) % 2
    producer = Stingy(edge, order).prepare(np.arange(n), labels, 2)
    theta = np.full(n, float(pair.regularizer.grad(np.ones(1))[0]))
    state = np.random.RandomState(0)
    margins, squares, worst, error = np.zeros(n), 0.0, 0.0, 1.0
    for _ in range(most):
        w = measure.entries * pair.points(theta, measure)[1]
        answers = (2.0 * labels - 1.0) * producer.produce(w, None, None, state).table
        gamma = math.fsum(w * answers)
        theta -= gamma * answers
        margins += gamma * answers
        squares += gamma**2
        error = float(np.mean(margins <= 0.0))
        worst = max(worst, error / pair.bound(squares))
    return worst, error


def conjecture(points: int = 200, n: int = 300, edge: float = 0.3, most: int = 1000) -> Table:
    """Every pair: its geometry, and boosting through it."""
    table: Table = []
    for pair in PAIRS:
        row: dict[str, object] = {"sets": pair.name, **geometry(pair, points)}
        for order in ORDERS:
            worst, error = boost(pair, n, edge, order, most)
            row[f"largest_ratio_to_bound, {order}"] = worst
            row[f"error_at_end, {order}"] = error
        table.append(row)
    return table


def box_potential(
    n: int = 300, edge: float = 0.3, most: int = 1500, bounds: tuple[float, ...] = (1.0, 2.0, 4.0)
) -> Table:
    r"""Entropy, a cube [0, b] and then the simplex, with the step gamma_t n_t / b.

    The second projection only divides by the mass n, so w is a multiple of the gradient of
    Phi = sum D phi*_b(theta), whose second derivative is at most b: Phi falls by (gamma_t n_t)^2/(2b)
    or more, by at most 1 - eps in all, and n_t is at least the error so far. Hence
    sum (gamma_t n_t)^2 <= 2b (1 - eps), Theorem 5 for every cube.
    """
    table: Table = []
    for b, order in itertools.product(bounds, ORDERS):
        pair = Pair("", Entropy(), Hypercube(b), Simplex())
        measure, labels = uniform(n), np.arange(n) % 2
        producer = Stingy(edge, order).prepare(np.arange(n), labels, 2)
        theta, state = np.zeros(n), np.random.RandomState(0)
        total, used, smallest = 0.0, 0.0, 1.0
        for _ in range(most):
            p, u = pair.points(theta, measure)
            w, mass = measure.entries * u, float(np.mean(p))
            answers = (2.0 * labels - 1.0) * producer.produce(w, None, None, state).table
            gamma = math.fsum(w * answers)
            theta -= gamma * mass / b * answers
            total += (gamma * mass) ** 2
            error = float(np.mean(theta >= 0.0))
            used = max(used, total / (2.0 * b * (1.0 - error)) if error < 1.0 else 0.0)
            smallest = min(smallest, error)
        table.append(
            {"cube": b, "learner": order, "largest_share_of_bound": used, "least_error": smallest}
        )
    return table
