"""The value of a rank, against sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maboost.mirror.selection import smallest
from tests.helpers import examples

from maboost.mirror import selection

numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False))


@given(st.lists(numbers, min_size=1, max_size=200), st.data())
@examples(200)
def test_the_value_of_a_rank_is_where_sorting_puts_it(values, data):
    rank = data.draw(st.integers(0, len(values) - 1))
    array = np.array(values)
    before = array.tobytes()
    assert smallest(array, rank) == sorted(values)[rank]
    assert array.tobytes() == before


@pytest.mark.parametrize("n", [33, 1000, 100_000])
@pytest.mark.parametrize(
    "shape",
    [
        lambda x: x,
        lambda x: -x,
        lambda x: np.abs(x - x.mean()),  # falling, then rising
        lambda x: -np.abs(x - x.mean()),
        lambda x: np.where(x % 2 == 0, x, x.size - x),
        lambda x: x % 2,
        lambda x: x % 7,
        lambda x: np.zeros_like(x),
        lambda x: np.where(x == 0, np.inf, -np.inf),
        lambda x: np.random.default_rng(0).permutation(x),
    ],
)
def test_every_rank_of_values_in_any_order_takes_few_looks(shape, n):
    values = shape(np.arange(n, dtype=float))
    ordered = np.sort(values)
    for rank in {0, 1, n // 4, n // 2, n - 2, n - 1}:
        found, looked = selection._selected(values, rank)
        assert found == smallest(values, rank) == ordered[rank]
        assert looked <= 12 * n  # three or four times as many are usual
