"""Several things in one message: to the bit what they are one by one."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import examples, on_shards, seeds

from maboost.runtime import thresholds
from maboost.runtime.communicator import SerialCommunicator, by_rank, counted_sums
from maboost.runtime.messages import pooled, reduced

STRANGE = np.array([-0.0, 0.0, math.nan, math.inf, -math.inf, 5e-324, -1e300])


def test_floats_keep_their_bits():
    def work(comm):
        return by_rank(np.roll(STRANGE, comm.rank), comm)

    for table in on_shards(3, work):
        assert [row.tobytes() for row in table] == [np.roll(STRANGE, r).tobytes() for r in range(3)]


@given(seed=seeds, count=st.integers(1, 4))
@examples(30)
def test_operations_do_not_mix(seed, count):
    rng = np.random.default_rng(seed)
    sums = rng.integers(-(2**60), 2**60, size=(count, 3))
    tops, ends = rng.normal(size=(count, 2)), rng.normal(size=(count, 1))

    def work(comm):
        r = comm.rank
        found = reduced([(sums[r], "sum"), (tops[r], "max"), (ends[r], "min")], comm)
        return [array.tolist() for array in found]

    one = [sums.sum(axis=0).tolist(), tops.max(axis=0).tolist(), ends.min(axis=0).tolist()]
    assert on_shards(count, work) == [one] * count


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0, 2), (4, 4, 4), (5, 0, 0), (1,)])
def test_entries_are_pooled_where_every_shard_has_few(sizes):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(2, size)) for size in sizes]

    def work(comm):
        return pooled(np.array([comm.rank, -7]), parts[comm.rank], comm)

    with mock.patch.object(thresholds, "POOLED", 4 * len(sizes)):
        found = on_shards(len(sizes), work)
    for told, entries in found:
        assert told.tolist() == [[rank, -7] for rank in range(len(sizes))]
        if max(sizes) > 4:
            assert entries is None
        else:
            np.testing.assert_array_equal(entries, np.concatenate(parts, axis=1))


def messages_of(columns):
    """How many messages the sums of these shards take."""

    def work(comm):
        said, original = [], comm.allreduce
        comm.allreduce = lambda *args: said.append(args) or original(*args)
        sums, counts = counted_sums([columns[comm.rank]], comm)
        assert counts == [sum(map(len, columns))]
        assert sums == counted_sums([np.concatenate(columns)], SerialCommunicator())[0]
        return len(said)

    (found,) = set(on_shards(len(columns), work))
    return found


def test_a_sum_is_one_message_where_shards_are_alike():
    rng = np.random.default_rng(0)
    assert messages_of([rng.uniform(0.6, 0.9, 100) for _ in range(3)]) == 1
    assert messages_of([rng.uniform(0.6, 0.9, 100), np.empty(0), rng.uniform(0.6, 0.9, 100)]) == 1
    assert messages_of([rng.uniform(0.6, 0.9, 100), rng.uniform(6.0, 9.0, 100)]) == 2
