"""A copy of some rows that grows."""

import numpy as np
import pytest

from maboost.learners.tree.binning import Bins
from maboost.learners.tree.grower import Binned
from maboost.learners.tree.resident import Resident
from maboost.runtime.threads import Threads


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_are_held_already_are_not_read_again(seed):
    rng = np.random.default_rng(seed)
    n, columns = 5000, 7
    by_row = rng.integers(0, 256, (n, columns), dtype=np.uint8)
    bins = Bins([np.arange(3.0)] * columns, np.zeros(columns, dtype=bool))
    labels = rng.integers(0, 2, n).astype(np.uint8)
    first, second = (np.flatnonzero(rng.random(n) < share) for share in (0.3, 0.6))
    data = Binned(bins, by_row, by_row.T.copy())
    old = Resident.of(first, data, labels, Threads(2))
    by_row[first] = 0  # whoever reads them again gets something else
    grown = Resident.of(second, data, labels, Threads(2), old)
    expected = by_row[second].copy()
    kept = np.isin(second, first)
    expected[kept] = old.data.by_row[np.isin(first, second)]
    np.testing.assert_array_equal(grown.data.by_row, expected)
    np.testing.assert_array_equal(grown.data.by_column, expected.T)
    np.testing.assert_array_equal(grown.labels, labels[second])
    assert old.bytes == len(first) * columns
    assert grown.bytes == (~kept).sum() * columns
