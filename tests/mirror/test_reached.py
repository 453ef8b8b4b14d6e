"""Rows that a cap may reach: with the masses of the codes they tell what all rows would."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maboost.mirror.reached import _FURTHER, Reached
from tests.helpers import cuts, examples, on_shards, seeds

from maboost.engine.leaf_codes import Coded
from maboost.mirror import BaseMeasure
from maboost.runtime.exact_sum import fixed_point
from maboost.runtime.threads import Threads


def problem(seed, n, alike, one_cap):
    """A density of mass one under caps, a direction of five values, and factors a step may have."""
    rng = np.random.default_rng(seed)
    weights = np.ones(n) if alike else rng.exponential(size=n) + 0.01
    density = rng.exponential(size=n)
    density /= math.fsum(weights / math.fsum(weights) * density)
    caps = float(density.max()) if one_cap else density * rng.uniform(1.0, 3.0, size=n)
    coded = Coded(rng.uniform(-1, 1, size=5), rng.integers(0, 5, size=n).astype(np.uint16))
    return weights, density, caps, coded, np.exp(rng.normal(size=5) * 0.4)


def moments(reached, factors, coded, measure):
    return reached.moments(factors, coded.values, measure, fixed_point(64.0, measure.count))


@given(
    seed=seeds, n=st.integers(1, 9000), alike=st.booleans(), one_cap=st.booleans(),
    further=st.floats(0.3, _FURTHER),
)  # fmt: skip
@examples(80)
def test_moments_are_those_of_all_rows(seed, n, alike, one_cap, further):
    weights, density, caps, coded, factors = problem(seed, n, alike, one_cap)
    measure = BaseMeasure(weights)
    reached = Reached.near(factors, coded, density, caps, measure)
    at = further * factors
    assert reached.holds(at)
    u, d = density * at[coded.codes], coded.values[coded.codes]
    w = measure.entries * np.minimum(u, caps)
    moving = np.where(u < caps, w, 0.0)
    wanted = [math.fsum(w), math.fsum(w * d), *(math.fsum(moving * d**k) for k in range(3))]
    found = moments(reached, at, coded, measure)
    assert found[:2] == pytest.approx(wanted[:2], abs=1e-13)
    assert found[2:] == pytest.approx(wanted[2:], abs=1e-8)  # they only steer


def test_it_says_where_it_no_longer_holds():
    weights, density, caps, coded, factors = problem(0, 50, True, True)
    reached = Reached.near(factors, coded, density, caps, BaseMeasure(weights))
    assert reached.holds(_FURTHER * factors)
    assert reached.holds(np.maximum(factors, 1.0))  # shorter steps, down to none
    for code in range(len(factors)):
        beyond = factors.copy()
        beyond[code] = 1.001 * _FURTHER * max(factors[code], 1.0)
        assert not reached.holds(beyond)


@given(seed=seeds, n=st.integers(1, 300), count=st.integers(2, 4), alike=st.booleans())
@examples(30)
def test_shards_change_no_bit(seed, n, count, alike):
    weights, density, caps, coded, factors = problem(seed, n, alike, False)
    parts = cuts(n, count, np.random.default_rng(seed))

    def on(part, comm=None):
        measure = BaseMeasure(weights[part], comm=comm)
        some = Coded(coded.values, coded.codes[part])
        reached = Reached.near(factors, some, density[part], caps[part], measure)
        # the first sums bring along what is known from then on
        return [moments(reached, k * factors, some, measure) for k in (1.1, 0.7, 1.0)]

    whole = on(slice(None))
    assert on_shards(count, lambda comm: on(parts[comm.rank], comm)) == [whole] * count


@given(seed=seeds, n=st.integers(1, 2000), alike=st.booleans(), one_cap=st.booleans())
@examples(30)
def test_threads_change_no_bit(seed, n, alike, one_cap):
    weights, density, caps, coded, factors = problem(seed, n, alike, one_cap)

    def on(threads):
        measure = BaseMeasure(weights, threads=threads)
        reached = Reached.near(factors, coded, density, caps, measure)
        return moments(reached, factors, coded, measure)

    assert on(Threads(3, block=1)) == on(Threads(1))


@given(seed=seeds, n=st.integers(1, 9000), alike=st.booleans())
@examples(30)
def test_nothing_is_left_where_every_row_is_listed(seed, n, alike):
    """The masses of the codes less those of the list cancel to the last bit."""
    weights, density, caps, coded, factors = problem(seed, n, alike, True)
    measure = BaseMeasure(weights)
    reached = Reached.near(factors + 1e9 / density.min(), coded, density, caps, measure)
    assert reached.codes.size == n
    w = measure.entries * np.minimum(density * factors[coded.codes], caps)
    grid = fixed_point(caps * measure.largest, n)  # finer than masses need
    found = reached.moments(factors, coded.values, measure, grid)
    assert found[0] == pytest.approx(math.fsum(w), abs=2e-15)
