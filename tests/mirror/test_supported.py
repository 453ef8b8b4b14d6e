"""Steps from a density that is zero nearly everywhere: its few entries tell what all would."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maboost.mirror.supported import Supported
from tests.helpers import cuts, examples, on_shards, seeds

from maboost.engine.leaf_codes import Coded
from maboost.mirror import BaseMeasure
from maboost.runtime.exact_sum import fixed_point


def problem(seed, n, alike):
    """A density with at most a quarter of its entries positive, and a direction of five values."""
    rng = np.random.default_rng(seed)
    weights = np.ones(n) if alike else rng.exponential(size=n) + 0.01
    density = np.zeros(n)
    density[rng.choice(n, rng.integers(0, n // 4 + 1), replace=False)] = rng.exponential()
    coded = Coded(rng.uniform(-1, 1, size=5), rng.integers(0, 5, size=n).astype(np.uint16))
    return weights, density, coded


def moments(supported, step, coded, cap, measure, bound=64.0):
    grid = fixed_point(bound * measure.largest, measure.count)
    return supported.moments(step, coded.values, cap, bound, measure, grid)


@given(
    seed=seeds, n=st.integers(4, 9000), alike=st.booleans(), step=st.floats(0.01, 3.0),
    cap=st.sampled_from([math.inf, 1.0]),
)  # fmt: skip
@examples(80)
def test_moments_are_those_of_all_entries(seed, n, alike, step, cap):
    weights, density, coded = problem(seed, n, alike)
    density = np.minimum(density, cap)
    measure = BaseMeasure(weights)
    supported = Supported.of(density, coded, measure)
    assert supported is not None
    d = coded.values[coded.codes]
    x = density + step * d
    w = measure.entries * np.clip(x, 0.0, cap)
    moving = measure.entries * ((x > 0.0) & (x < cap))
    wanted = [math.fsum(w), math.fsum(w * d), *(math.fsum(moving * d**k) for k in range(3))]
    found, beyond = moments(supported, step, coded, cap, measure)
    assert found[:2] == pytest.approx(wanted[:2], abs=1e-13)
    assert found[2:] == pytest.approx(wanted[2:], abs=1e-8)  # they only steer
    assert not beyond


@pytest.mark.parametrize("starts", [0.0, 2.0])
def test_it_says_what_lies_beyond_its_bound(starts):
    """Whether it is an entry of positive density or one that starts from zero."""
    density = np.zeros(40)
    density[:8] = 0.5
    density[0] += starts
    coded = Coded(np.array([1.0, -0.5]), (np.arange(40) >= 20).astype(np.uint16))
    measure = BaseMeasure(np.ones(40))
    supported = Supported.of(density, coded, measure)
    assert supported is not None
    assert not moments(supported, 0.4, coded, math.inf, measure, bound=3.0)[1]
    assert moments(supported, 2.0 if starts else 3.5, coded, math.inf, measure, bound=3.0)[1]


def test_what_a_cap_holds_or_nobody_has_is_not_beyond_a_bound():
    """Else the short cut is given up where it holds: a pure leaf has a code of nobody."""
    density = np.where(np.arange(40) < 8, 0.5, 0.0)
    coded = Coded(np.array([0.2, -0.5, 1.0]), (np.arange(40) >= 20).astype(np.uint16))
    measure = BaseMeasure(np.ones(40))
    supported = Supported.of(density, coded, measure)
    assert supported is not None
    assert not moments(supported, 5.0, coded, math.inf, measure, bound=3.0)[1]
    assert not moments(supported, 50.0, coded, 1.0, measure, bound=3.0)[1]
    assert moments(supported, 50.0, coded, math.inf, measure, bound=3.0)[1]


def test_many_entries_are_walked_in_their_order():
    density = np.where(np.arange(100) < 26, 1.0, 0.0)
    coded = Coded(np.ones(1), np.zeros(100, dtype=np.uint16))
    assert Supported.of(density, coded, BaseMeasure(np.ones(100))) is None
    density[25] = 0.0
    assert Supported.of(density, coded, BaseMeasure(np.ones(100))) is not None


@pytest.mark.parametrize("positive", [25, 26])
def test_shards_agree_on_what_is_few(positive):
    """However many of them one shard has: only those of all shards together count."""
    density = np.where(np.arange(100) < positive, 1.0, 0.0)

    def work(comm):
        rows = np.split(np.arange(100), [13, 60])[comm.rank]
        coded = Coded(np.ones(1), np.zeros(rows.size, dtype=np.uint16))
        found = Supported.of(density[rows], coded, BaseMeasure(np.ones(rows.size), comm=comm))
        return found is not None

    assert on_shards(3, work) == [positive <= 25] * 3


@given(seed=seeds, n=st.integers(8, 300), count=st.integers(2, 4), alike=st.booleans())
@examples(30)
def test_shards_change_no_bit(seed, n, count, alike):
    weights, density, coded = problem(seed, n, alike)
    density = -np.sort(-density)  # so that one shard may have nothing but positive ones
    parts = cuts(n, count, np.random.default_rng(seed))

    def on(part, comm=None):
        measure = BaseMeasure(weights[part], comm=comm)
        some = Coded(coded.values, coded.codes[part])
        supported = Supported.of(density[part], some, measure)
        return moments(supported, 0.3, some, math.inf, measure)

    alone = on(slice(None))
    assert on_shards(count, lambda comm: on(parts[comm.rank], comm)) == [alone] * count
