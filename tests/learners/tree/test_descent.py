"""Rows going down a tree, against following each of them by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import examples

from maboost.learners.tree import descent
from maboost.learners.tree.layout import MISSING_BIN, N_BINS
from maboost.runtime.threads import Threads


def random_tree(rng, splits, columns, sets):
    """Leaves split at random; a share of the splits by sets of bins, the others by order."""
    feature, left, go_left, depth = [-1], [0], [np.zeros(N_BINS, dtype=bool)], [0]
    for _ in range(splits):
        node = int(rng.choice(np.flatnonzero(np.array(feature) < 0)))
        feature[node], left[node] = int(rng.integers(columns)), len(feature)
        if rng.random() < sets:
            go_left[node] = rng.random(N_BINS) < 0.5
        else:
            go_left[node] = np.arange(N_BINS) < rng.integers(N_BINS)
            go_left[node][MISSING_BIN] = rng.random() < 0.5
        for _ in range(2):
            feature.append(-1)
            left.append(0)
            go_left.append(np.zeros(N_BINS, dtype=bool))
            depth.append(depth[node] + 1)
    kinds = np.array(feature, dtype=np.int32), np.array(left, dtype=np.int32)
    return *kinds, np.array(go_left), max(depth)


def leaf_by_hand(feature, left, go_left, row):
    node = 0
    while feature[node] >= 0:
        node = left[node] + (not go_left[node][row[feature[node]]])
    return node


def descended(tree, by_column, threads=None):
    out = np.full(by_column.shape[1], -1, dtype=np.int32)
    descent.descend(*tree, by_column, threads or Threads(), out)
    return out


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([0, 1, 2, 7, 31, 127, 128, 200]),
    sets=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_every_row_arrives_at_its_leaf(seed, splits, sets):
    rng = np.random.default_rng(seed)
    feature, left, go_left, depth = random_tree(rng, splits, 3, sets)
    bins = rng.integers(N_BINS, size=(3, 50)).astype(np.uint8)
    bins[rng.random(bins.shape) < 0.2] = rng.choice([0, 1, 254, MISSING_BIN])
    found = descended((feature, left, go_left, depth), bins)
    assert found.tolist() == [leaf_by_hand(feature, left, go_left, row) for row in bins.T]


@pytest.mark.parametrize("goes_left", [0, 1, 2, 128, 254, 255])
@pytest.mark.parametrize("missing_left", [False, True])
def test_every_bin_goes_the_way_the_table_says(goes_left, missing_left):
    go_left = np.zeros((3, N_BINS), dtype=bool)
    go_left[0] = np.arange(N_BINS) < goes_left
    go_left[0, MISSING_BIN] = missing_left
    tree = np.array([0, -1, -1], np.int32), np.array([1, 0, 0], np.int32), go_left, 1
    bins = np.arange(N_BINS, dtype=np.uint8)[None]
    assert descended(tree, bins).tolist() == np.where(go_left[0], 1, 2).tolist()


@pytest.mark.parametrize("splits", [15, 300])
def test_threads_and_tiles_change_nothing(splits):
    rng = np.random.default_rng(1)
    tree = random_tree(rng, splits, 4, 0.1)
    bins = rng.integers(N_BINS, size=(4, 150_001)).astype(np.uint8)
    alone = descended(tree, bins)
    assert np.array_equal(descended(tree, bins, Threads(3)), alone)
    assert np.array_equal(descended(tree, bins[:, 4000:4100].copy()), alone[4000:4100])
