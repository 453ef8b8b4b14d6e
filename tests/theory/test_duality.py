"""The smallest edge over all distributions is the largest margin over all ensembles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.helpers import examples, random_problem, rounds, seeds

from maboost.boosting.recipes import maboost, smooth


def min_max_edge(losses: np.ndarray, base: np.ndarray, cap: float) -> float:
    """min over w <= cap*base of the best edge: minimise v with -losses w <= v."""
    m, n = losses.shape
    found = linprog(
        np.r_[np.zeros(n), 1.0],
        A_ub=np.c_[-losses, -np.ones(m)],
        b_ub=np.zeros(m),
        A_eq=np.r_[np.ones(n), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0, min(1.0, cap * b)) for b in base] + [(None, None)],
    )
    assert found.status == 0
    return float(found.fun)


def max_min_margin(losses: np.ndarray) -> float:
    """max over convex combinations of the smallest margin."""
    m, n = losses.shape
    found = linprog(
        np.r_[np.zeros(m), -1.0],
        A_ub=np.c_[losses.T, np.ones(n)],
        b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(m), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    assert found.status == 0
    return float(-found.fun)


@examples(40)
@given(seeds, st.sampled_from(["votes", "real"]))
def test_min_edge_is_max_margin(seed, response):
    p = random_problem(np.random.default_rng(seed), 10, 6, response=response)
    losses = p.losses()
    assert min_max_edge(losses, p.base, np.inf) == pytest.approx(max_min_margin(losses), abs=1e-8)


@examples(25)
@given(seeds, st.sampled_from(["entropy", "euclidean"]), st.sampled_from([np.inf, 3.0]))
def test_edges_bound_the_best_margin_from_above_and_the_run_from_below(seed, regularizer, cap):
    p = random_problem(np.random.default_rng(seed), 10, 6, skill=0.85)
    if p.closed_under_negation:
        p = type(p)(p.labels, p.weights, np.concatenate([p.tables, -p.tables]))
    best = min_max_edge(p.losses(), p.base, cap)
    recipe = (
        maboost(regularizer, step="maxmargin")
        if np.isinf(cap)
        else smooth(cap, regularizer, step="maxmargin")
    )
    run = p.run(recipe)
    for record in rounds(run, 60):
        assert record.edge >= best - 1e-9  # every w_t is in the set: its best edge is above
        assert record.soft_margin <= best + 1e-9  # no ensemble has more
        assert run.exact


def test_maxmargin_comes_close_to_the_linear_program():
    gaps = []
    for seed in range(4):
        p = random_problem(np.random.default_rng(seed), 12, 8, skill=0.9)
        tables = np.concatenate([p.tables, -p.tables]) if p.closed_under_negation else p.tables
        p = type(p)(p.labels, p.weights, tables)
        best = max_min_margin(p.losses())
        if best < 0.05:
            continue
        *_, record = rounds(p.run(maboost(step="maxmargin")), 1500)
        gaps.append((best - record.min_margin) / best)
    assert len(gaps) >= 3
    assert max(gaps) < 0.25
