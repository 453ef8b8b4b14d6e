"""The lemmas of the paper by name, in densities over a base measure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import (
    DOMAINS,
    REGULARIZERS,
    divergence,
    examples,
    random_domain,
    random_problem,
    rounds,
    seeds,
)

from maboost.boosting.recipes import madaboost
from maboost.engine import project
from maboost.mirror import BaseMeasure, Entropy, Hypercube, Orthant, Simplex

names = st.sampled_from(sorted(REGULARIZERS))
domains = st.sampled_from(DOMAINS)


def setting(seed: int, name: str, kind: str):
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.2, 3.0, size=int(rng.integers(2, 9))))
    regularizer = REGULARIZERS[name]
    domain = random_domain(kind, measure.entries, rng, regularizer.upper)
    theta = rng.normal(size=measure.rows) * 2.0
    z = regularizer.grad_inverse(theta)
    return rng, measure, regularizer, domain, theta, z


@examples(80)
@given(seeds, names, domains)
def test_lemma_1(seed, name, kind):
    """Generalised Pythagoras: B(x,z) >= B(x,p) + B(p,z), and so >= B(x,p)."""
    rng, measure, regularizer, domain, theta, z = setting(seed, name, kind)
    p = project(regularizer, domain, theta, measure).density
    for scale in (0.3, 3.0):
        other = rng.normal(size=measure.rows) * scale
        x = project(regularizer, domain, other, measure).density
        whole = divergence(regularizer, x, z, measure.entries)
        first = divergence(regularizer, x, p, measure.entries)
        second = divergence(regularizer, p, z, measure.entries)
        assert whole >= first + second - 1e-9 * (1 + whole)
        assert whole >= first - 1e-9 * (1 + whole)


@examples(60)
@given(seeds, names)
def test_lemma_2(seed, name):
    """(x-y)(R'(z) - R'(y)) = B(x,y) - B(x,z) + B(y,z)."""
    rng, measure, regularizer, _, theta, z = setting(seed, name, "simplex")
    x, y = (regularizer.grad_inverse(rng.normal(size=measure.rows)) for _ in range(2))
    base = measure.entries
    left = np.sum(base * (x - y) * (theta - regularizer.grad(y)))
    right = (
        divergence(regularizer, x, y, base)
        - divergence(regularizer, x, z, base)
        + divergence(regularizer, y, z, base)
    )
    np.testing.assert_allclose(left, right, atol=1e-9 * (1 + abs(left)))


@examples(60)
@given(seeds)
def test_lemma_3(seed):
    """<x,d>_D <= |x| |d|* <= (|x|^2 + |d|*^2)/2 for both pairs of norms, and |d|* <= 1 for losses."""
    rng = np.random.default_rng(seed)
    D = rng.dirichlet(np.ones(7))
    x, d = rng.normal(size=7), rng.uniform(-1, 1, size=7)
    for norm, dual in (
        (np.sum(D * np.abs(x)), np.max(np.abs(d))),
        (np.sqrt(np.sum(D * x * x)), np.sqrt(np.sum(D * d * d))),
    ):
        assert np.sum(D * x * d) <= norm * dual + 1e-12
        assert norm * dual <= 0.5 * (norm**2 + dual**2) + 1e-12
        assert dual <= 1.0


@examples(80)
@given(seeds, names, domains)
def test_lemma_4(seed, name, kind):
    """Projecting through a larger set is an approximate projection."""
    rng, measure, regularizer, domain, theta, z = setting(seed, name, kind)
    for larger in (Orthant(), Simplex()):
        via = project(regularizer, larger, theta, measure)
        p = project(regularizer, domain, via.dual, measure).density
        x = project(regularizer, domain, rng.normal(size=measure.rows), measure).density
        whole = divergence(regularizer, x, z, measure.entries)
        assert whole >= divergence(regularizer, x, p, measure.entries) - 1e-9 * (1 + whole)


@examples(50)
@given(seeds)
def test_lemma_5(seed):
    """The entropy projection onto the unit hypercube is min(1, z)."""
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.2, 3.0, size=8))
    theta = rng.normal(size=8) * 3.0
    y = project(Entropy(), Hypercube(), theta, measure).density
    np.testing.assert_allclose(y, np.minimum(1.0, np.exp(theta)), rtol=1e-15)
    for v in rng.random((20, 8)):  # the optimality condition of the paper's proof
        assert np.sum(measure.entries * (v - y) * (np.log(y) - theta)) >= -1e-12


@examples(40)
@given(seeds, st.sampled_from(["paper", "corrective"]))
def test_lemma_6(seed, step):
    """MadaBoost's mass is at least the error of the ensemble that made it (ties are errors)."""
    p = random_problem(np.random.default_rng(seed), 15, 8, response="real", skill=0.6)
    run = p.run(madaboost(step=step))
    assert run.state.mass == pytest.approx(1.0, abs=1e-15 * p.n)
    for record in rounds(run, 40):
        assert run.state.mass >= record.train_error - 1e-12
