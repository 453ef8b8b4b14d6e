"""A sample of rows by their content: against sorting all hashes of all shards."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards

from maboost.runtime import row_hash as content


@pytest.mark.parametrize("count", [1, 3])
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 300),
    kinds=st.integers(1, 400),
    size=st.integers(1, 200),
)
@examples(40)
def test_the_smallest_hashes_of_all_shards(monkeypatch_module, count, seed, rows, kinds, size):
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 2**64, size=kinds, dtype=np.uint64)
    if rng.random() < 0.3:
        some >>= np.uint64(40)  # crowded where none is expected
    hashes = rng.choice(some, rows)
    parts = cuts(rows, count, rng)
    monkeypatch_module.setattr(content, "SAMPLE_ROWS", size)
    found = on_shards(count, lambda comm: content.sampled_rows(hashes[parts[comm.rank]], comm))
    distinct = np.unique(hashes)
    for part, its in zip(parts, found, strict=True):
        if len(distinct) <= size:
            assert its is None
        else:
            expected = np.flatnonzero(hashes[part] <= distinct[size - 1])
            assert its.tolist() == expected.tolist()


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch
