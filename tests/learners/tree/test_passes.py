"""The passes of a level over its rows, against plain numpy, for any way of dividing the work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maboost.learners.tree import histogram, partition
from maboost.learners.tree.histogram import class_histograms, reward_histograms
from maboost.learners.tree.layout import ROOM
from maboost.learners.tree.packing import Packing, channels_of
from maboost.learners.tree.partition import Cut, divide_rows, number_rows
from maboost.runtime.threads import Threads


def brute_force(binned, rows, cells, labels):
    hist = np.zeros((binned.shape[1], 2, ROOM), dtype=np.int64)
    for j in range(binned.shape[1]):
        np.add.at(hist[j], (labels[rows], binned[rows, j]), cells[rows])
    return hist


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(histogram, "_WORTH", 1)
    monkeypatch.setattr(histogram, "_TALL", 2048)
    monkeypatch.setattr(partition, "_WORTH", 1)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 9000),
    columns=st.integers(1, 20) | st.sampled_from([64, 75]),
    kept=st.floats(0.0, 1.0),
    threads=st.integers(1, 3),
    copy=st.booleans(),
)
def test_histograms_by_row_and_by_column_are_plain_sums(seed, n, columns, kept, threads, copy):
    rng = np.random.default_rng(seed)
    binned = rng.integers(0, 256, size=(n, columns)).astype(np.uint8)
    by_column = np.ascontiguousarray(binned.T) if copy else None
    labels = rng.integers(0, 2, size=n).astype(np.uint8)
    cells = rng.integers(0, 1 << 40, size=n)
    pool = Threads(threads, block=64)
    (whole,) = class_histograms(binned, by_column, None, cells, labels, pool)
    np.testing.assert_array_equal(whole, brute_force(binned, np.arange(n), cells, labels))
    rows = np.flatnonzero(rng.random(n) < kept).astype(np.int32)
    nodes = np.split(rows, np.sort(rng.integers(0, len(rows) + 1, size=3)))
    found = class_histograms(binned, by_column, nodes, cells, labels, pool)
    for node, hist in zip(nodes, found, strict=True):
        np.testing.assert_array_equal(hist, brute_force(binned, node, cells, labels))


@pytest.mark.parametrize("classes", [3, 7, 8, 12])
def test_histograms_of_rewards_are_plain_sums(classes):
    """Four channels, eight, and more."""
    rng = np.random.default_rng(classes)
    binned = rng.integers(0, 256, size=(500, 3)).astype(np.uint8)
    rewards = rng.integers(-(1 << 40), 1 << 40, size=(500, channels_of(classes)))
    nodes = np.split(rng.permutation(500).astype(np.int32), [100, 100, 320])
    for node, hist in zip(
        nodes, reward_histograms(binned, nodes, rewards, Threads(2, block=64)), strict=True
    ):
        expected = np.zeros((3, ROOM, rewards.shape[1]), dtype=np.int64)
        for j in range(3):
            np.add.at(expected[j], binned[node, j], rewards[node])
        np.testing.assert_array_equal(hist, expected)


@settings(deadline=None, derandomize=True)
@given(rows=st.integers(1, 1 << 31), total=st.floats(1e-300, 1e300))
def test_a_cell_holds_all_rows_and_their_weight(rows, total):
    packing = Packing.of(rows, total)
    weight = int(total / packing.unit) + rows // 2 + 1  # half a unit too many each, at most
    assert rows < 1 << packing.count_bits
    assert (weight << packing.count_bits) + rows < 1 << 63


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=6),
    threads=st.integers(1, 4),
)
def test_rows_are_divided_stably_and_numbered_alike(seed, sizes, threads):
    rng = np.random.default_rng(seed)
    n = sum(sizes) + 50
    rows = rng.permutation(n)[: sum(sizes)].astype(np.int32)
    ends = np.cumsum([0, *sizes])
    cuts = [
        Cut(a, b, rng.integers(0, 256, size=n).astype(np.uint8), rng.random(256) < rng.random())
        for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
    pool = Threads(threads, block=16)
    leaf_of = np.full(n, -1, dtype=np.int32)
    number_rows(rows, cuts, 10, leaf_of, pool)
    divided = rows.copy()
    lefts = divide_rows(divided, cuts, pool)
    for j, (cut, left) in enumerate(zip(cuts, lefts, strict=True)):
        node = rows[cut.start : cut.stop]
        goes = cut.go_left[cut.column[node]]
        expected = np.concatenate([node[goes], node[~goes]])
        assert left == goes.sum()
        np.testing.assert_array_equal(divided[cut.start : cut.stop], expected)
        np.testing.assert_array_equal(leaf_of[node], np.where(goes, 10 + 2 * j, 11 + 2 * j))
    assert (np.delete(leaf_of, rows) == -1).all()
