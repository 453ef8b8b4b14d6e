"""Distinct values of columns over several shards, against those of all rows at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards

from maboost.comm import SerialCommunicator
from maboost.learners.tree.distinct import from_all_values
from maboost.threads import Threads


def answers(values, weights, comm):
    def answer(j, its_values, its_weights):
        return np.concatenate([its_values, its_weights.astype(np.float64), [j]])

    def read(some):
        return [(values[j], weights[j]) for j in some]

    return from_all_values(read, answer, len(values), comm, Threads(2))


@pytest.mark.parametrize("kind", ["single", "double", "mixed"])
@pytest.mark.parametrize("even", [True, False])
@given(seed=st.integers(0, 10**6), count=st.integers(2, 4))
@examples(8)
def test_shards_together_know_what_one_machine_knows(kind, even, seed, count):
    rng = np.random.default_rng(seed)
    n, columns = int(rng.integers(1, 60)), int(rng.integers(1, 20))
    values = [rng.normal(size=n).round(int(rng.integers(0, 4))) for _ in range(columns)]
    for j in range(columns):
        if kind == "single" or (kind == "mixed" and j % 2):
            values[j] = values[j].astype(np.float32).astype(np.float64)
    values[0][: n // 3] = 1e300 if kind == "double" else np.inf
    weights = [np.full(n, 3) if even else rng.integers(1, 5, size=n) for _ in range(columns)]
    whole = answers(values, weights, SerialCommunicator())
    parts = cuts(n, count, rng)
    shards = on_shards(
        count,
        lambda comm: answers(
            [v[parts[comm.rank]] for v in values], [w[parts[comm.rank]] for w in weights], comm
        ),
    )
    for shard in shards:
        for mine, theirs in zip(shard, whole, strict=True):
            np.testing.assert_array_equal(mine, theirs)
