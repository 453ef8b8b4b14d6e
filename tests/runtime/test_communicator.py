"""Sums that depend neither on order nor on sharding, and close to exact ones."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards, seeds

from maboost.runtime.communicator import SerialCommunicator, reproducible_sum, reproducible_sums
from maboost.runtime.exact_sum import fixed_point
from maboost.runtime.threads import Threads

finite = st.floats(-1e300, 1e300, allow_nan=False, allow_infinity=False)
lists = st.lists(
    st.one_of(finite, st.floats(-1.0, 1.0), st.sampled_from([0.0, -0.0, 1e-300, 5e-324, -1e300])),
    max_size=60,
)


def error_of(found: float, values: list[float]) -> float:
    """How far `found` is from the exact sum, beyond the rounding of the sum to a float."""
    exact = sum(map(Fraction, values), Fraction(0))
    return float(abs(Fraction(found) - exact)) - 0.5 * math.ulp(float(exact))


@given(values=lists)
@examples(200)
def test_short_sums_are_rounded_once(values):
    largest = max((abs(v) for v in values), default=0.0)
    assert error_of(reproducible_sum(np.array(values)), values) <= 1e-12 * math.ulp(largest)


@given(seed=seeds, n=st.integers(1, 5000), scale=st.sampled_from([1e-280, 1e-9, 1.0, 1e290]))
@examples(40)
def test_long_sums_are_exact_to_an_ulp_of_the_largest_value(seed, n, scale):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 10.0 ** rng.uniform(-20, 0, size=n) * scale
    largest = float(np.abs(values).max())
    assert error_of(reproducible_sum(values), values.tolist()) <= math.ulp(largest)


@given(values=lists, seed=seeds)
@examples(100)
def test_sum_does_not_depend_on_order(values, seed):
    array = np.array(values)
    shuffled = np.random.default_rng(seed).permutation(array)
    assert reproducible_sum(array) == reproducible_sum(shuffled)


@given(values=lists, others=lists, seed=seeds, count=st.integers(2, 4))
@examples(60)
def test_sums_do_not_depend_on_sharding(values, others, seed, count):
    rng = np.random.default_rng(seed)
    columns = [np.array(values), np.array(others)]
    parts = [cuts(len(c), count, rng) for c in columns]

    def work(comm):
        shard = [c[part[comm.rank]] for c, part in zip(columns, parts, strict=True)]
        return reproducible_sums(shard, comm)

    whole = reproducible_sums(columns, SerialCommunicator())
    assert on_shards(count, work) == [whole] * count


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_makes_its_own_sum_nan(bad):
    columns = [np.array([1.0, bad, 2.0]), np.array([1.0, 2.0])]
    spoilt, sound = reproducible_sums(columns, SerialCommunicator())
    assert math.isnan(spoilt)
    assert sound == 3.0


def test_nan_on_one_shard_reaches_all():
    def work(comm):
        return reproducible_sum(np.array([math.nan if comm.rank else 1.0]), comm)

    assert all(math.isnan(found) for found in on_shards(3, work))


def test_empty():
    assert reproducible_sum(np.empty(0)) == 0.0
    assert on_shards(2, lambda comm: reproducible_sum(np.empty(0), comm)) == [0.0, 0.0]


def test_extremes():
    assert reproducible_sum(np.array([1e20, 1.0, -1e20])) == 1.0
    assert reproducible_sum(np.array([1e300, 1e-300, -1e300])) == 0.0
    assert reproducible_sum(np.full(1000, 1e-300)) == pytest.approx(1e-297, rel=1e-15)
    assert reproducible_sum(np.full(7, 5e-324)) == 7 * 5e-324
    assert reproducible_sum(np.full(20, 1.7e308)) == math.inf
    assert reproducible_sum(np.full(20, -1.7e308)) == -math.inf
    assert reproducible_sum(np.array([1.7e308, 1.7e308, -1.7e308])) == 1.7e308


@given(count=st.integers(1, 2**40), bound=st.floats(1e-300, 1e300))
@examples(200)
def test_the_grid_holds_the_largest_sum(count, bound):
    """Neither part of the sum of `count` values of magnitude `bound` overflows an int64."""
    grid = fixed_point(bound, count)
    high = round(math.ldexp(bound * grid.first, int(math.log2(grid.second))))
    assert (high + 1) * count < 2**63
    assert round(grid.low) * count < 2**63
    assert grid.value(high, 0) == pytest.approx(bound, rel=1e-6)


@given(count=st.integers(1, 2**40), bound=st.floats(1e-300, 1e300), seed=seeds)
@examples(100)
def test_values_of_many_sums_are_those_of_each(count, bound, seed):
    """To the last bit, also halfway between two floats and next to it."""
    rng, grid = np.random.default_rng(seed), fixed_point(bound, count)
    high, low = rng.integers(-(2**62), 2**62, (2, 60)) >> rng.integers(0, 63, (2, 60))
    high[:20] = rng.integers(2**51, 2**54, 20) << rng.integers(0, 9, 20)
    low[:20] = rng.integers(-1, 2, 20)
    singly = [grid.value(*pair) for pair in zip(high.tolist(), low.tolist(), strict=True)]
    np.testing.assert_array_equal(grid.values(np.column_stack([high, low])), singly)


@given(count=st.integers(1, 2**40), bound=st.floats(1e-300, 1e300), seed=seeds)
@examples(100)
def test_values_halfway_between_two_floats_are_rounded_to_even(count, bound, seed):
    """Numbers of 54 bits, wherever in the two parts of a sum these bits are."""
    rng, grid = np.random.default_rng(seed), fixed_point(bound, count)
    unit = int(grid.low)
    last = unit.bit_length() - 1 + 61 - 54
    totals = [
        (int(odd) | 1) << int(place)
        for odd, place in zip(
            rng.integers(2**53, 2**54, 60), rng.integers(0, last, 60), strict=True
        )
    ]
    totals[::2] = [-total for total in totals[::2]]
    pairs = np.array([divmod(total, unit) for total in totals])
    singly = [grid.value(*pair) for pair in pairs.tolist()]
    np.testing.assert_array_equal(grid.values(pairs), singly)


def test_integers_and_strides_are_accepted():
    assert reproducible_sum(np.arange(10)[::2]) == 20.0
    assert reproducible_sum(np.ones((3, 4)).T) == 12.0


@given(n=st.integers(0, 200), count=st.integers(1, 5), least=st.integers(1, 9))
@examples(100)
def test_parts_cover_the_rows_in_order(n, count, least):
    parts = Threads(count).parts(n, least)
    assert len(parts) <= 4 * count
    assert parts[0][0] == 0
    assert parts[-1][1] == n
    assert all(left[1] == right[0] for left, right in itertools.pairwise(parts))
    assert all(a % least == 0 for a, _ in parts)


def test_each_keeps_the_order_and_passes_errors_on():
    threads = Threads(3)
    assert threads.each(range(20), lambda k: k * k) == [k * k for k in range(20)]
    assert threads.each([], lambda k: k) == []
    with pytest.raises(ZeroDivisionError):
        threads.each([1, 0, 2], lambda k: 1 // k)
