"""The base measure: one for all shards, and what it keeps is of what was asked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards, seeds

from maboost.mirror import BaseMeasure
from maboost.mirror.measure import _OUT_OF_REACH
from maboost.runtime.threads import Threads


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_weights_that_measure_nothing_are_refused(bad):
    with pytest.raises(ValueError, match="positive and finite"):
        BaseMeasure(np.array([1.0, bad, 2.0]))


@given(seed=seeds, count=st.integers(1, 4), width=st.integers(1, 3), alike=st.booleans())
@examples(40)
def test_shards_have_one_measure(seed, count, width, alike):
    """Also where all rows of one shard weigh the same, and those of another do not."""
    rng = np.random.default_rng(seed)
    weights = np.ones(30) if alike else np.repeat(rng.choice([1.0, 3.0], 10), 3)
    values, parts = rng.normal(size=30 * width), cuts(30, count, rng)

    def told(measure, values):
        numbers = measure.count, measure.largest, measure.smallest_row, measure.alike
        ends = measure.minimum(values), measure.maximum(values), *measure.extent(values)
        return numbers, ends, measure.integral(values)

    def work(comm):
        part = parts[comm.rank]
        some = values[part.start * width : part.stop * width]
        return told(BaseMeasure(weights[part], width, comm), some)

    base = weights / weights.sum()
    whole = told(BaseMeasure(weights, width), values)
    same = bool(np.all(weights == weights[0]))
    assert whole[0] == (
        30 * width,
        pytest.approx(base.max() / width),
        pytest.approx(base.min()),
        same,
    )
    assert whole[1] == (values.min(), values.max()) * 2
    assert whole[2] == pytest.approx(math.fsum(np.repeat(base / width, width) * values), abs=1e-15)
    assert on_shards(count, work) == [whole] * count


def test_what_is_kept_is_of_what_was_asked_last():
    rng = np.random.default_rng(0)
    measure, n = BaseMeasure(rng.uniform(0.2, 3.0, size=20)), 20
    caps = [rng.uniform(1.1, 4.0, size=n), np.where(np.arange(n) % 2, 7.0, np.inf), 1.7, 2.5]
    for some in (*caps, *caps):
        np.testing.assert_array_equal(measure.room(some), np.minimum(some * measure.rows_base, 1.0))
        np.testing.assert_array_equal(measure.caps_in_reach(some), some)
        np.testing.assert_array_equal(measure.log_caps(some), np.log(some))
        finite = np.asarray(some)[np.isfinite(some)]
        assert measure.highest_caps(some) == (np.max(some), np.max(finite))
    assert measure.highest_caps(math.inf) == (math.inf, -math.inf)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5, 4.0])
def test_a_cap_out_of_reach_is_none(width, factor):
    """It is the mass of a row that comes near a cap or not, however many entries share it."""
    measure = BaseMeasure(np.array([1.0, 2.0, 4.0]), width)
    cap = factor * _OUT_OF_REACH / measure.rows_base[2]
    rows = np.where(cap * measure.rows_base > _OUT_OF_REACH, np.inf, cap)
    np.testing.assert_array_equal(np.broadcast_to(measure.caps_in_reach(cap), 3), rows)
    np.testing.assert_array_equal(measure.caps_in_reach(np.full(3, cap)), rows)


@given(seed=seeds, n=st.integers(1, 300), far=st.sampled_from([0.0, 1e9, 1e300, math.nan]))
@examples(40)
def test_integrals_of_columns(seed, n, far):
    """Terms that do not fit the grid, in any column, are summed in the other way."""
    rng = np.random.default_rng(seed)
    measure = BaseMeasure(rng.uniform(0.2, 3.0, size=n), threads=Threads(2))
    columns = [rng.normal(size=n) for _ in range(3)]
    columns[rng.integers(3)][rng.integers(n)] += far * n
    found = measure.integrals_of(lambda part: [c[part] for c in columns], 3)
    wanted = [math.fsum(measure.entries * c) for c in columns]
    assert found == pytest.approx(wanted, rel=1e-13, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_density_of_a_row_is_the_mean_of_its_entries(width):
    values = np.random.default_rng(width).normal(size=200 * width)
    measure = BaseMeasure(np.ones(200), width, threads=Threads(2))
    expected = values.reshape(200, width).mean(axis=1)
    np.testing.assert_allclose(measure.row_means(values), expected, rtol=1e-14, atol=1e-15)
