"""The named boosters: what each picks, and what the theory forbids."""

import numpy as np
import pytest
from tests.helpers import random_problem, rounds

from maboost.boosting import combined, maboost, madaboost, smooth, sparseboost
from maboost.boosting.recipes import group_caps, smoothness_for
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Entropy,
    Euclidean,
    FermiDirac,
    Hypercube,
    MirrorAscent,
    Orthant,
    Simplex,
)
from maboost.mirror.steps import Corrective, MaxMargin, Paper


def parts(booster):
    ascent = booster.ascent
    return ascent.regularizer, ascent.domain, ascent.update, booster.step


def test_what_each_recipe_picks():
    assert parts(maboost()) == (Entropy(), Simplex(), "active", Corrective())
    assert parts(maboost("euclidean", update="lazy", step="paper")) == (
        Euclidean(), Simplex(), "lazy", Paper(),
    )  # fmt: skip
    assert parts(maboost(FermiDirac(3.0), CappedSimplex(2.0), step="maxmargin")) == (
        FermiDirac(3.0), CappedSimplex(2.0), "active", MaxMargin(),
    )  # fmt: skip
    assert smooth(1.0).ascent.domain == CappedSimplex(1.0)
    assert parts(smooth(3.0)) == (Entropy(), CappedSimplex(3.0), "active", Corrective())
    assert parts(sparseboost()) == (Euclidean(), Orthant(), "active", Corrective())
    assert parts(madaboost()) == (Entropy(), Hypercube(), "lazy", Corrective())
    caps = np.array([1.0, np.inf])
    assert combined(caps).ascent.domain.caps is caps
    assert smooth(2.0, learning_rate=0.5, trim=0.1).learning_rate == 0.5
    assert smooth(2.0, learning_rate=0.5, trim=0.1).trim.mass == 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: maboost("l7"), "regularizer must be one of .* got 'l7'"),
        (lambda: maboost(domain="sphere"), "domain must be one of .* got 'sphere'"),
        (lambda: maboost(step="giant"), "step must be one of .* got 'giant'"),
        (lambda: maboost(update="eager"), "update must be 'active' or 'lazy', got 'eager'"),
        (lambda: maboost(trim=-1), "trim must be .* got -1"),
        (lambda: smooth(0.5), r"smoothness must be at least 1 .* got 0\.5"),
        (lambda: smooth(float("nan")), "smoothness must be at least 1 .* got nan"),
        (lambda: sparseboost(0.0), r"kappa must be in \(0, 1\], got 0\.0"),
        (lambda: sparseboost(sparsity=0.0), r"sparsity must be in \(0, 1\), got 0\.0"),
        (lambda: sparseboost(sparsity=1.0), r"sparsity must be in \(0, 1\), got 1\.0"),
        (lambda: sparseboost(1.5), r"kappa must be in \(0, 1\], got 1\.5"),
        (
            lambda: sparseboost(l1_decay=0.5),
            r"l1_decay .* needs kappa < 1 .* l1_decay=0\.5, kappa=1",
        ),
        (lambda: sparseboost(0.5, l1_decay=0.0), r"l1_decay must be positive .* l1_decay=0\.0"),
        (
            lambda: sparseboost(update="lazy"),
            "only the active update, got 'lazy': Theorem 4 follows each step",
        ),
        (
            lambda: madaboost(update="active"),
            "only the lazy update, got 'active': its weight is a function of the margin",
        ),
        (
            lambda: maboost(update="lazy", via=Orthant()),
            r"double projection \(via=...\) needs update='active': its proof",
        ),
        (
            lambda: MirrorAscent(Euclidean(), Orthant(), via=Hypercube()),
            "double projection ends on a set of distributions, Orthant is none",
        ),
        (lambda: CappedSimplex(0.0), r"caps must be positive, .* got 0\.0"),
        (lambda: Hypercube(0.5), r"bound must be at least 1, .* got 0\.5"),
        (lambda: FermiDirac(1.0), r"finite k > 1, got k=1\.0"),
    ],
)
def test_what_is_forbidden_says_why(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_no_corrective_step_with_double_projection():
    problem = random_problem(np.random.default_rng(0))
    run = problem.run(maboost("euclidean", via=Orthant()))
    with pytest.raises(ValueError, match="corrective step is not defined with double projection"):
        next(run)
    assert list(rounds(problem.run(maboost("euclidean", via=Orthant(), step="paper")), 3))


def test_no_l1_term_where_the_mass_is_fixed():
    ascent, measure = MirrorAscent(Euclidean(), Simplex()), BaseMeasure(np.ones(2))
    with pytest.raises(ValueError, match="an l1 term acts only where the mass is free"):
        ascent.move(ascent.start(measure), np.array([1.0, -1.0]), 0.1, measure, l1=0.1)


def test_caps_that_hold_no_distribution():
    problem = random_problem(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"no distribution fits under caps=0\.5"):
        problem.run(maboost("entropy", CappedSimplex(0.5)))


# ------------------------------------------------------------------------------------- smoothness


@pytest.mark.parametrize(
    ("rate", "k"), [(0.0, np.inf), (0.05, 10.0), (0.1, 5.0), (0.2, 2.5), (0.4, 1.25), (0.4545, 1.1)]
)
def test_the_cap_is_the_largest_under_which_no_edge_is_negative(rate, k):
    assert smoothness_for(rate) == pytest.approx(k, abs=1e-3)
    if rate:
        assert 1.0 - 2.0 * smoothness_for(rate) * rate >= -1e-12
        assert 1.0 - 2.0 * 1.01 * max(smoothness_for(rate), 1.1) * rate < 0.0


@pytest.mark.parametrize("rate", [0.4546, 0.5, 0.7, -0.1, float("nan")])
def test_noise_rates_that_leave_nothing_to_learn(rate):
    with pytest.raises(
        ValueError, match=f"noise_rate must be at least 0 and below 0.4545, got {rate!r}"
    ):
        smoothness_for(rate)


# ------------------------------------------------------------------------------------ group caps


def test_a_cap_holds_the_limit_of_its_source():
    caps = group_caps({"a": 0.25, "b": 0.75}, {"a": None, "b": 0.2})
    assert caps == {"a": np.inf, "b": pytest.approx(1.0 / (0.2 * 0.75))}


@pytest.mark.parametrize("limit", [0.0, 1.0, -0.2, 1.2, float("nan"), "half"])
def test_limits_outside_the_unit_interval(limit):
    with pytest.raises(
        ValueError, match=rf"error_limits\['b'\] must be in \(0, 1\).* got {limit!r}"
    ):
        group_caps({"b": 1.0}, {"b": limit})


# ------------------------------------------------------------------------------------ SparseBoost


@pytest.mark.parametrize(
    ("kappa", "decay", "alpha"), [(1.0, None, 0.0), (0.5, None, 0.06), (0.5, 0.36, 0.04)]
)
def test_the_penalty_of_a_round(kappa, decay, alpha):
    """alpha = (1 - kappa) * edge * mass, or c/t^2 where that is smaller."""
    assert sparseboost(kappa, decay).l1(edge=0.3, mass=0.4, round=3) == pytest.approx(alpha)


def test_a_penalty_lowers_every_weight():
    ascent, measure = sparseboost().ascent, BaseMeasure(np.ones(4))
    d = np.array([-1.0, -0.9, 0.5, 1.0])
    free = ascent.move(ascent.start(measure), d, 0.9, measure).state.density
    taxed = ascent.move(ascent.start(measure), d, 0.9, measure, l1=0.5).state.density
    np.testing.assert_allclose(free, [0.1, 0.19, 1.45, 1.9])
    np.testing.assert_allclose(taxed, [0.0, 0.0, 1.0, 1.45], atol=1e-15)
