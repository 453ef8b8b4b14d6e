"""Rows that are held: the same trees from a copy, and what is read of the table."""

import dataclasses

import numpy as np
import pytest

from maboost.boosting.game import Game
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.threads import Threads

N, COLUMNS = 700, 6


def producer(n_classes=2, threads=None, **rules):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, COLUMNS)).round(1)
    X[rng.random(X.shape) < 0.05] = np.nan
    labels = np.digitize(np.nansum(X[:, :3], axis=1), np.linspace(-1, 1, n_classes + 1)[1:-1])
    learner = TreeLearner(GrowthRules(**rules), threads=threads or Threads())
    return learner.prepare(X, labels, n_classes), Game(labels, n_classes)


def grown(made, rows, weights, rewards):
    h = made.produce(weights, rows, rewards, np.random.RandomState(0))
    return h.tree, made.training_scores(h)


def assert_same(one, other):
    for field in dataclasses.fields(one[0]):
        a, b = getattr(one[0], field.name), getattr(other[0], field.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("rules", [{"max_depth": 1}, {"max_depth": 4}, {"max_leaf_nodes": 6}])
@pytest.mark.parametrize("idle", [0.0, 0.4], ids=["all weigh", "some weigh nothing"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_the_copy_are_those_of_the_table(rules, idle, n_classes):
    rng = np.random.default_rng(1)
    rows = np.flatnonzero(rng.random(N) < 0.3)
    weights = rng.exponential(size=len(rows))
    weights[rng.random(len(rows)) < idle] = 0.0
    plain, game = producer(n_classes, features_per_node=4, **rules)
    holding, _ = producer(n_classes, Threads(3, block=2), features_per_node=4, **rules)
    rewards = None
    if n_classes > 2:
        whole = np.zeros(N)
        whole[rows] = weights
        rewards = game.rewards(np.repeat(whole / game.width, game.width))[rows]
    some = np.flatnonzero(weights)  # the oracle is not shown rows without weight
    expected = grown(plain, rows[some], weights[some], None if rewards is None else rewards[some])
    assert_same(grown(holding, rows, weights, rewards), expected)  # not held yet
    holding.hold(rows)
    holding.data.by_row[:] = 0  # what is held is not read again
    assert_same(grown(holding, rows, weights, rewards), expected)


def test_every_byte_is_counted_once():
    made, _ = producer(max_depth=1)
    rows, other = np.arange(0, N, 3), np.arange(0, N, 5)

    def read(work):
        before = made.bytes_read
        work()
        return made.bytes_read - before

    def show(shown):
        size = N if shown is None else len(shown)
        return read(lambda: made.produce(np.ones(size), shown, None, np.random.RandomState(0)))

    assert show(None) == N * COLUMNS + N  # the histogram, and the column of the split
    assert show(rows) == len(rows) * COLUMNS + N
    assert read(lambda: made.hold(rows)) == len(rows) * COLUMNS
    assert show(rows) == N
    assert show(rows.copy()) == len(rows) * COLUMNS + N  # other rows, for all it knows
    made.hold(other)
    assert show(other) == N
    assert show(rows) == len(rows) * COLUMNS + N


def test_only_the_smaller_child_is_read():
    made, _ = producer(max_depth=2)
    h = made.produce(np.ones(N), None, None, np.random.RandomState(0))
    tree = h.tree
    split = tree.feature[tree.feature >= 0]
    share = tree.weight[1:3].min() / tree.weight[0]
    assert made.bytes_read == (N + round(share * N)) * COLUMNS + N * len(set(split.tolist()))
