"""The lowest part of a weighted list against sorting, and linear minima against linear programs."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.helpers import DOMAINS, cuts, examples, on_shards, random_domain, seeds, vertex

from maboost.mirror import BaseMeasure, Domain, Hypercube, Orthant, Simplex
from maboost.mirror.soft_margin import linear_minimum
from maboost.runtime import tail_sums, thresholds
from maboost.runtime.tail_sums import lower_tail


def by_sorting(values: np.ndarray, weights: np.ndarray, target: float) -> tuple:
    """Level, weight below it and integral, one value after the other."""
    below, integral = 0.0, 0.0
    for level in np.unique(values):
        at = values == level
        weight = math.fsum(weights[at])
        if below + weight >= target or level == values.max():
            return level, below, integral + (target - below) * level
        below, integral = below + weight, integral + weight * level
    raise AssertionError


def random_values(rng: np.random.Generator, n: int) -> np.ndarray:
    values = rng.normal(size=n) * rng.choice([1e-300, 1e-9, 1.0, 1e9, 1e290])
    if rng.integers(2):  # one far away, so that nearly all share a bucket
        values[rng.integers(n)] *= 1e9
    return rng.choice(values, size=n) if rng.integers(2) else values


FEW = st.sampled_from([0, 20, 4096])  # values that are sorted: none, those of a bucket, all
RANKED = st.sampled_from([0, 100, 1 << 17])  # values of one weight: none, those of a bracket, all


@given(
    seed=seeds,
    n=st.integers(1, 200),
    share=st.floats(0.001, 0.999),
    sample=st.integers(1, 40),
    few=FEW,
    alike=st.booleans(),
    ranked=RANKED,
)
@examples(300)
def test_lower_tail_is_what_sorting_finds(seed, n, share, sample, few, alike, ranked):
    rng = np.random.default_rng(seed)
    values, weights = random_values(rng, n), rng.exponential(size=n)
    if alike:
        weights[:] = 0.25  # sums of it are exact, so that ties are too
    target = share * math.fsum(weights)
    level, below, integral = by_sorting(values, weights, target)
    limits = {"SAMPLED": sample, "SORTED": few, "RANKED": ranked}  # few rows may be many
    with mock.patch.multiple(thresholds, **limits):
        given = float(weights[0]) if alike else weights
        found = lower_tail(values, given, target, BaseMeasure(np.ones(n)))
    assert found.level == level
    assert found.below == pytest.approx(below, abs=1e-12 * weights.sum())
    scale = np.abs(values[values <= level]).max() * weights.sum()
    assert found.integral == pytest.approx(integral, abs=1e-12 * scale)


@given(seed=seeds, n=st.integers(1, 60), few=FEW)
@examples(40)
def test_what_is_known_of_the_values_changes_nothing(seed, n, few):
    rng = np.random.default_rng(seed)
    values, weights, measure = (
        random_values(rng, n),
        rng.exponential(size=n),
        BaseMeasure(np.ones(n)),
    )
    target, extent = 0.4 * math.fsum(weights), (float(values.min()), float(values.max()))
    with mock.patch.object(thresholds, "SORTED", few):
        told = [
            lower_tail(values, weights, target, measure, heaviest, ends)
            for heaviest in (None, float(weights.max()))
            for ends in (None, extent)
        ]
    assert told == [told[0]] * 4


@given(seed=seeds, n=st.integers(2, 12), alike=st.booleans())
@examples(200)
def test_where_a_sample_says_to_look_changes_nothing(seed, n, alike):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=n).round(1), np.full(n, 0.25)
    target = 0.25 * rng.integers(1, n + 1)  # exact, as sums of it are: met just below some value
    said = tuple(np.sort(rng.choice([*values, -np.inf, np.inf], 2)).tolist())
    limits = mock.patch.multiple(thresholds, SORTED=0, RANKED=rng.choice([0, n - 1]))
    with limits, mock.patch.object(tail_sums, "guessed_bracket", return_value=said):
        found = lower_tail(values, 0.25 if alike else weights, target, BaseMeasure(np.ones(n)))
    level, below, integral = by_sorting(values, weights, target)
    assert (found.level, found.below) == (level, below)
    assert found.integral == pytest.approx(integral, abs=1e-12)


@given(seed=seeds, spread=st.sampled_from([200, 10**6]))
@examples(40)
def test_a_bracket_too_narrow_for_buckets(seed, spread):
    """The distance of its ends has no finite reciprocal."""
    rng = np.random.default_rng(seed)
    values, weights = 5e-324 * rng.integers(-spread, spread, size=200), rng.exponential(size=200)
    target = rng.uniform(0.1, 0.9) * math.fsum(weights)
    level, below, _ = by_sorting(values, weights, target)
    rank = np.searchsorted(np.sort(values), level)
    said, measure = np.sort(values)[[rank - 5, rank + 5]].tolist(), BaseMeasure(np.ones(200))
    few = mock.patch.object(thresholds, "SORTED", 49)  # what is left is sorted
    with few, mock.patch.object(tail_sums, "guessed_bracket", return_value=said):
        found = lower_tail(values, weights, target, measure)
    assert found.level == level
    assert found.below == pytest.approx(below, abs=1e-12 * weights.sum())
    with mock.patch.object(
        thresholds, "SORTED", 0
    ):  # nothing is sorted: any of these values will do
        assert values.min() <= lower_tail(values, weights, target, measure).level <= values.max()


@given(seed=seeds, n=st.integers(1, 30), few=FEW)
@examples(60)
def test_rows_of_no_weight_and_targets_beyond_the_weight(seed, n, few):
    rng = np.random.default_rng(seed)
    values = random_values(rng, n)
    weights = np.where(rng.random(n) < 0.5, 0.0, 1.0)
    measure = BaseMeasure(np.ones(n))
    heavy = values[weights > 0.0]
    if heavy.size:
        with mock.patch.object(thresholds, "SORTED", few):
            assert lower_tail(values, weights, weights.sum() + 1.0, measure).level == heavy.max()
            found = lower_tail(values, weights, 0.5, measure)
        assert (found.level, found.below) == (heavy.min(), 0.0)


@given(
    seed=seeds,
    n=st.integers(1, 120),
    count=st.integers(2, 4),
    sample=st.integers(1, 3),
    pool=st.sampled_from([0, 9, 2048]),
    few=FEW,
    alike=st.booleans(),
)
@examples(120)
def test_shards_change_no_bit(seed, n, count, sample, pool, few, alike):
    rng = np.random.default_rng(seed)
    values, weights = random_values(rng, n), rng.exponential(size=n)
    target = 0.4 * float(weights.sum())
    each = float(weights[0])
    if alike:  # known by its rank where no other shard holds any
        target = rng.choice([0.4 * n, n // 2, 2 * n]) * each
    whole = lower_tail(values, each if alike else weights, target, BaseMeasure(np.ones(n)))
    parts = cuts(n, count, rng)

    def work(comm):
        part = parts[comm.rank]
        measure = BaseMeasure(np.ones(n)[part], comm=comm)
        return lower_tail(values[part], each if alike else weights[part], target, measure)

    with mock.patch.multiple(thresholds, SAMPLED=sample, SORTED=few, POOLED=pool):
        assert on_shards(count, work) == [whole] * count


def by_linear_program(
    values: np.ndarray, domain: Domain, measure: BaseMeasure, upper: float
) -> float:
    n, width = values.size, measure.width
    caps = np.broadcast_to(domain.row_caps(), (measure.rows,))
    rows = np.kron(np.eye(measure.rows), np.ones((1, width)))[np.isfinite(caps)]
    found = linprog(
        values,
        A_ub=rows if rows.size else None,
        b_ub=(caps * measure.rows_base)[np.isfinite(caps)] if rows.size else None,
        A_eq=np.ones((1, n)),
        b_eq=[1.0],
        bounds=[(0.0, min(1.0, upper * d)) for d in measure.entries],
        method="highs",
    )
    assert found.status == 0
    return float(found.fun)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("upper", [math.inf, 2.5])
@pytest.mark.parametrize("kind", DOMAINS)
@given(seed=seeds, n=st.integers(1, 10))
@examples(40)
def test_linear_minimum_is_the_linear_program_s(kind, upper, width, seed, n):
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.2, 2.0, size=n), width)
    domain = random_domain(kind, measure.rows_base, rng, upper)
    values = np.round(rng.normal(size=n * width), rng.integers(0, 6))  # often with ties
    found = linear_minimum(values, domain, measure, upper)
    assert found == pytest.approx(by_linear_program(values, domain, measure, upper), abs=1e-9)
    u = vertex(values, measure, domain, upper)
    assert found == pytest.approx(math.fsum(measure.entries * u * values), abs=1e-12)
    lowest = values.reshape(n, width).min(axis=1)
    extent = float(lowest.min()), float(lowest.max())
    assert linear_minimum(values, domain, measure, upper, extent) == found


@given(seed=seeds, n=st.integers(1, 10))
@examples(20)
def test_off_the_plane_the_distributions_are_the_simplex(seed, n):
    values = np.random.default_rng(seed).normal(size=n)
    for domain in (Simplex(), Orthant(), Hypercube()):
        assert linear_minimum(values, domain, BaseMeasure(np.ones(n))) == values.min()


@pytest.mark.parametrize("n", [50, 20_000, 140_000])
@pytest.mark.parametrize("target", [0.3123456, 0.9012345, 1.2])  # not where a row ends
@pytest.mark.parametrize("even", [True, False])
def test_an_extent_that_is_no_number(n, target, even):
    rng = np.random.default_rng(n)
    values = 1.7e308 * rng.uniform(-1.0, 1.0, size=n)
    values[:2] = -1.7e308, 1.7e308
    weights = np.full(n, 1.0 / n) if even else rng.dirichlet(np.ones(n))
    found = lower_tail(values, 1.0 / n if even else weights, target, BaseMeasure(np.ones(n)))
    order = np.argsort(values)
    ordered, theirs = values[order], weights[order]
    at = min(int(np.searchsorted(np.cumsum(theirs), target)), n - 1)
    below = math.fsum(theirs[:at])
    assert found.level == ordered[at]
    assert found.below == pytest.approx(below, rel=1e-9)
    tail = math.fsum(theirs[:at] * ordered[:at]) + (target - below) * ordered[at]
    assert found.integral == pytest.approx(tail, rel=1e-9)
