"""The passes of a level over its rows, against plain numpy, for any way of dividing the work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maboost.learners.tree.histogram import (
    IN_ORDER,
    LISTED,
    STRIPS,
    Counted,
    count_nodes,
    most_parts,
)
from maboost.learners.tree.layout import NODE, ROOM
from maboost.learners.tree.packing import Packing, channels_of
from maboost.learners.tree.partition import Columns, divide_rows, number_leaves, number_rows
from maboost.runtime.threads import Threads

LEAST = 64  # rows that are worth a piece of their own


def nodes_of(sizes, side=0):
    """Nodes 1, 3, 5 ... of so many rows each, one after the other; the others are empty."""
    nodes = np.zeros(2 * len(sizes) + 1, dtype=NODE)
    nodes["slot"] = np.arange(len(nodes))
    nodes["side"] = side
    ends = np.cumsum([0, *sizes])
    nodes["start"][1::2], nodes["stop"][1::2] = ends[:-1], ends[1:]
    return nodes


def counted_by(threads, counted, order, nodes, ids, way, cells, parents=None):
    hists = np.full((len(nodes), cells), -7) if parents is None else parents
    values = order.shape[1] * counted.by_row.shape[1]
    least = max(LEAST // 8, 1)
    parts = np.full((most_parts(threads, values, least * counted.by_row.shape[1]), cells), -7)
    Threads(threads).run(
        count_nodes,
        counted,
        order,
        nodes,
        ids,
        hists,
        parts,
        way,
        False,
        parents is not None,
        least,
    )
    return hists


def brute_force(binned, rows, cells, labels):
    hist = np.zeros((binned.shape[1], 2, ROOM), dtype=np.int64)
    for j in range(binned.shape[1]):
        np.add.at(hist[j], (labels[rows], binned[rows, j]), cells[rows])
    return hist


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 20000),
    columns=st.integers(1, 20) | st.sampled_from([64, 75]),
    kept=st.floats(0.0, 1.0),
    threads=st.integers(1, 3),
    way=st.sampled_from([LISTED, STRIPS, IN_ORDER]),
)
def test_histograms_of_two_classes_are_plain_sums(seed, n, columns, kept, threads, way):
    rng = np.random.default_rng(seed)
    binned = rng.integers(0, 256, size=(n, columns)).astype(np.uint8)
    labels = rng.integers(0, 2, size=n).astype(np.uint8)
    cells = rng.integers(0, 1 << 40, size=n)
    counted = Counted(binned, np.ascontiguousarray(binned.T), cells, labels, None)
    shape = columns, 2, ROOM
    order = np.tile(np.arange(n, dtype=np.uint32), (2, 1))
    root = nodes_of([n])
    whole = counted_by(threads, counted, order, root, np.array([1]), way, np.prod(shape))[1]
    expected = brute_force(binned, np.arange(n), cells, labels)
    np.testing.assert_array_equal(whole.reshape(shape), expected)

    rows = np.flatnonzero(rng.random(n) < kept).astype(np.uint32)
    lists = np.split(rows, np.sort(rng.integers(0, len(rows) + 1, size=3)))
    nodes = nodes_of([len(its) for its in lists], side=1)
    order = np.stack([rows[::-1], rows])
    parents = np.tile(whole, (len(nodes), 1))
    ids = np.arange(1, len(nodes), 2)
    hists = counted_by(threads, counted, order, nodes, ids, LISTED, whole.size, parents)
    for its, id in zip(lists, ids, strict=True):
        small = brute_force(binned, its, cells, labels)
        np.testing.assert_array_equal(hists[id].reshape(shape), small)
        np.testing.assert_array_equal(hists[id + 1].reshape(shape), expected - small)


@pytest.mark.parametrize("classes", [3, 7, 8, 12])
@pytest.mark.parametrize("threads", [1, 2])
def test_histograms_of_rewards_are_plain_sums(classes, threads):
    """Four channels, eight, and more."""
    rng = np.random.default_rng(classes)
    binned = rng.integers(0, 256, size=(500, 3)).astype(np.uint8)
    rewards = rng.integers(-(1 << 40), 1 << 40, size=(500, channels_of(classes)))
    rows = rng.permutation(500).astype(np.uint32)
    lists = np.split(rows, [100, 100, 320])
    counted = Counted(binned, np.ascontiguousarray(binned.T), None, None, rewards)
    shape = 3, ROOM, rewards.shape[1]
    nodes = nodes_of([len(its) for its in lists])
    ids = np.arange(1, len(nodes), 2)
    order = np.stack([rows, rows])
    hists = counted_by(threads, counted, order, nodes, ids, LISTED, np.prod(shape))
    for its, id in zip(lists, ids, strict=True):
        expected = np.zeros(shape, dtype=np.int64)
        for j in range(3):
            np.add.at(expected[j], binned[its, j], rewards[its])
        np.testing.assert_array_equal(hists[id].reshape(shape), expected)


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
    n, columns = sum(sizes) + 50, 3
    by_column = rng.integers(0, 256, size=(columns, n)).astype(np.uint8)
    rows = rng.permutation(n)[: sum(sizes)].astype(np.uint32)
    nodes = nodes_of(sizes)
    ids = np.arange(1, len(nodes), 2)
    nodes["feature"][ids] = rng.integers(0, columns, size=len(ids))
    nodes["left"][ids] = 10 + 2 * np.arange(len(ids))
    go_left = rng.random((len(nodes), 256)) < rng.random((len(nodes), 1))
    team, least = Threads(threads), 16
    order = np.stack([rows, np.zeros_like(rows)])
    leaf_of, leaves = np.full((2, n), -1, dtype=np.int32)
    divided = (
        Columns(by_column, None, np.empty(0, dtype=np.uint8)),
        order,
        nodes,
        go_left,
        ids,
        False,
        least,
    )
    team.run(number_rows, *divided, leaf_of)
    team.run(number_leaves, order, nodes, ids, least, leaves)
    found = np.zeros((len(ids), 2), dtype=np.int64)
    team.run(divide_rows, *divided, found)
    for j, (id, (left, side)) in enumerate(zip(ids, found.tolist(), strict=True)):
        part = slice(nodes["start"][id], nodes["stop"][id])
        node = rows[part]
        goes = go_left[id][by_column[nodes["feature"][id]][node]]
        assert left == goes.sum()
        np.testing.assert_array_equal(order[side, part], np.concatenate([node[goes], node[~goes]]))
        np.testing.assert_array_equal(leaf_of[node], np.where(goes, 10 + 2 * j, 11 + 2 * j))
        assert (leaves[node] == id).all()
    assert (np.delete(leaf_of, rows) == -1).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_rows_need_no_list_before_they_are_divided(threads):
    rng = np.random.default_rng(threads)
    by_column = rng.integers(0, 256, size=(1, 500)).astype(np.uint8)
    nodes = nodes_of([500])
    nodes["left"] = 3
    go_left = rng.random((3, 256)) < 0.4
    order, leaf_of = np.zeros((2, 500), dtype=np.uint32), np.zeros(500, dtype=np.int32)
    divided = (
        Columns(by_column, None, np.empty(0, dtype=np.uint8)),
        order,
        nodes,
        go_left,
        np.array([1]),
        True,
        16,
    )
    found = np.zeros((1, 2), dtype=np.int64)
    Threads(threads).run(number_rows, *divided, leaf_of)
    Threads(threads).run(divide_rows, *divided, found)
    goes = go_left[1][by_column[0]]
    expected = np.concatenate([np.flatnonzero(goes), np.flatnonzero(~goes)])
    np.testing.assert_array_equal(order[found[0, 1]], expected)
    np.testing.assert_array_equal(leaf_of, np.where(goes, 3, 4))
