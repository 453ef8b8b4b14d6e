"""Distinct values of columns over several shards, against those of all rows at once."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards

from maboost.learners.tree import distinct as distinct_values
from maboost.learners.tree.distinct import from_all_values
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.threads import Threads


def answers(values, weights, comm):
    def answer(j, its_values, its_weights):
        return np.concatenate([its_values, its_weights.astype(np.float64), [j]])

    def read(some):
        return [(values[j], weights[j]) for j in some]

    return from_all_values(read, answer, len(values), len(values[0]), comm, Threads(2))


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


@pytest.mark.parametrize(
    ("rows", "threads", "most", "together"),
    [(10, 2, 4, 2), (30, 2, 1, 2), (31, 4, 1, 3), (200, 4, 1, 1)],
)
def test_columns_in_memory_at_once_are_few_where_they_are_long(
    monkeypatch, rows, threads, most, together
):
    monkeypatch.setattr(distinct_values, "_ROOM", 96 if rows > 10 else 1000)
    asked, at_once, here, lock = [], [], 0, threading.Lock()

    def read(some):
        nonlocal here
        with lock:
            here += 1
            at_once.append(here)
            asked.append(len(some))
        time.sleep(0.005)
        with lock:
            here -= 1
        return [(np.arange(rows, dtype=float), np.ones(rows, dtype=np.int64)) for _ in some]

    alone = SerialCommunicator()
    found = from_all_values(read, lambda j, v, w: v, 20, rows, alone, Threads(threads))
    assert len(found) == sum(asked) == 20
    assert max(asked) == most
    assert max(at_once) <= together
