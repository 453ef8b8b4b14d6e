"""Histograms, splits and growth against brute force and against scikit-learn's trees."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from maboost.boosting.game import Game
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeHypothesis, TreeLearner
from maboost.learners.tree.packing import Packing, pack_weights
from maboost.learners.tree.predictor import Forest, simplex_rows
from maboost.runtime import thresholds
from maboost.runtime.threads import Threads
from maboost.testing import check_learner


def tree_of(
    X, y, w, *, n_classes=2, rows=None, rewards=None, threads=None, categorical=None, **rules
):
    learner = TreeLearner(
        GrowthRules(**rules), threads=threads or Threads(), categorical=categorical
    )
    producer = learner.prepare(X, np.asarray(y), n_classes)
    shown = w if rows is None else w[rows]
    h = producer.produce(shown, rows, rewards, np.random.RandomState(0))
    return h, producer


def table(seed, n=60, columns=3, levels=6, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, size=(n, columns)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    y = (rng.random(n) < 0.2 + 0.6 * (np.nan_to_num(X[:, 0]) > levels / 2)).astype(int)
    return X, y, rng.exponential(size=n) ** 2 + 1e-6


def best_stump_edge(X, y, w, *, real):
    """Every threshold, either way for missing values, leaves answering as well as they can."""
    signed = w * (2 * y - 1)

    def earned(rows):
        reward, weight = signed[rows].sum(), w[rows].sum()
        return reward**2 / weight if real else abs(reward)

    best = earned(np.ones(len(y), dtype=bool))
    for j in range(X.shape[1]):
        column = X[:, j]
        gone = np.isnan(column)
        for cut, with_missing in itertools.product(np.unique(column[~gone]), (False, True)):
            left = np.where(gone, with_missing, column <= cut)
            if left.any() and not left.all():
                best = max(best, earned(left) + earned(~left))
    return best / w.sum()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.2]))
def test_stump_is_the_best_of_all(seed, real, missing):
    X, y, w = table(seed, n=25, missing=missing)
    h, producer = tree_of(X, y, w, max_depth=1, votes=not real)
    scores = producer.training_scores(h)
    edge = np.sum(w * (2 * y - 1) * scores) / w.sum()
    assert edge == pytest.approx(best_stump_edge(X, y, w, real=real), abs=1e-9)


def splits_by_categories(column):
    """Every division of the categories in two, as a mask of the left side, and their number."""
    levels = np.unique(column)
    for size in range(1, len(levels)):
        for subset in itertools.combinations(levels, size):
            yield np.isin(column, subset), len(levels)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 6]))
def test_categorical_stump_is_the_best_subset_at_its_price(seed, levels):
    """Among all subsets and all thresholds of a number beside it, with (m - 2) W / n off for m categories."""
    X, y, w = table(seed, n=40, columns=2, levels=levels)
    h, producer = tree_of(X, y, w, max_depth=1, categorical=np.array([True, False]))
    scores = producer.training_scores(h)
    edge = np.sum(w * (2 * y - 1) * scores) / w.sum()
    signed = w * (2 * y - 1)

    def earned(left):
        return sum(signed[p].sum() ** 2 / w[p].sum() for p in (left, ~left) if p.any())

    everything = earned(np.ones(40, dtype=bool))
    found = [(0.0, everything)]
    for left, m in splits_by_categories(X[:, 0]):
        price = (m - 2) * w.sum() / 40
        found.append((earned(left) - everything - price, earned(left)))
    for cut in np.unique(X[:, 1]):
        found.append((earned(X[:, 1] <= cut) - everything, earned(X[:, 1] <= cut)))
    _, best = max(found)
    assert edge == pytest.approx(best / w.sum(), abs=1e-9)
    np.testing.assert_array_equal(h.scores(X), scores)
    unseen, gone = h.scores(np.array([[99.0, 0.0], [np.nan, 0.0]]))
    if np.isin(h.tree.feature[0], (-1, 0)):
        assert unseen == gone


def test_categories_that_mean_nothing_are_not_split():
    """Random labels: a tree used to find a split in every node, and now seldom finds one."""
    rng = np.random.default_rng(0)
    splits = 0
    for _ in range(50):
        X, y = rng.integers(0, 100, size=(1000, 1)).astype(float), rng.integers(0, 2, size=1000)
        h, _ = tree_of(X, y, np.ones(1000), max_depth=1, categorical=np.array([True]))
        splits += int(h.tree.feature[0] >= 0)
    assert splits <= 5


@pytest.mark.parametrize("n_classes", [2, 4])
def test_two_categories_are_the_same_as_two_numbers(n_classes):
    X, _, w = table(3, n=80, columns=3, levels=2)
    y = np.random.default_rng(4).integers(0, n_classes, size=80)
    rewards = None
    if n_classes > 2:
        rewards = Game(y, n_classes).rewards(np.repeat(w / (n_classes - 1), n_classes - 1))
    found = [
        tree_of(X, y, w, n_classes=n_classes, rewards=rewards, categorical=kinds)[0].scores(X)
        for kinds in (np.zeros(3, dtype=bool), np.ones(3, dtype=bool))
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_of_weight_two_counts_twice_in_a_leaf(n_classes):
    X, _, _ = table(5, n=60, columns=3)
    y, times = np.arange(60) % n_classes, 1 + np.arange(60) % 3
    twice = np.repeat(np.arange(60), times)

    def grown(rows, weights):
        rewards = None
        if n_classes > 2:
            game = Game(y[rows], n_classes)
            rewards = game.rewards(np.repeat(weights / (n_classes - 1), n_classes - 1))
        learner = TreeLearner(GrowthRules(min_samples_leaf=9), base=weights)
        producer = learner.prepare(X[rows], y[rows], n_classes)
        shown = weights / weights.sum()
        return producer.produce(shown, None, rewards, np.random.RandomState(0)).scores(X)

    one = grown(np.arange(60), times.astype(float))
    np.testing.assert_array_equal(one, grown(twice, np.ones(len(twice))))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([3, 4]), st.sampled_from([0.0, 0.2]))
def test_voting_stump_of_categories_is_the_best_of_all(seed, n_classes, missing):
    """Also with more than two classes, where certificates rely on it as well."""
    X, _, w = table(seed, n=40, columns=1, levels=4, missing=missing)
    y = np.random.default_rng(seed + 1).integers(0, n_classes, size=40)
    rewards = Game(y, n_classes).rewards(np.repeat(w / (n_classes - 1), n_classes - 1))
    h, producer = tree_of(
        X, y, w, n_classes=n_classes, rewards=rewards, categorical=np.array([True]), max_depth=1,
        votes=True,
    )  # fmt: skip
    assert producer.learner.exact
    best, bins = 0.0, np.nan_to_num(X[:, 0], nan=-1.0)
    for size in range(5):
        for subset in itertools.combinations(np.unique(bins), size):
            left = np.isin(bins, subset)
            best = max(best, sum(rewards[side].sum(axis=0).max() for side in (left, ~left)))
    assert np.sum(rewards * producer.training_scores(h)) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_same_tree_as_scikit_learn(seed, depth):
    """Gini and the real response agree; values are distinct enough that no two splits tie."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=200) > 0).astype(int)
    w = rng.exponential(size=200)
    h, producer = tree_of(X, y, w, max_depth=depth)
    theirs = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y, sample_weight=w)
    p = theirs.predict_proba(X)
    np.testing.assert_allclose(producer.training_scores(h), p[:, 1] - p[:, 0], atol=1e-9)
    # theirs also splits where nothing is gained
    assert np.sum(h.tree.feature >= 0) <= np.sum(theirs.tree_.feature >= 0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "rules", [{"max_depth": 4}, {"max_depth": None, "max_leaf_nodes": 9}], ids=str
)
def test_threads_and_prediction_agree_to_the_last_bit(rules, n_classes, monkeypatch):
    # so that a small table is divided too
    for name, least in (("TALL_TABLE", 1 << 10), ("COUNTED", 64), ("DIVIDED", 16)):
        monkeypatch.setattr(thresholds, name, least)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 5))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = rng.integers(0, n_classes, size=3000)
    w = rng.exponential(size=3000)
    rewards = None
    if n_classes > 2:
        rewards = Game(y, n_classes).rewards(np.repeat(w / (n_classes - 1), n_classes - 1))
    trees = [
        tree_of(X, y, w, n_classes=n_classes, rewards=rewards, threads=t, **rules)
        for t in (Threads(1), Threads(2), Threads(3))
    ]
    (one, producer), (two, _), (three, _) = trees
    for name in ("feature", "threshold", "left", "right", "value", "missing_left"):
        for other in (two, three):
            np.testing.assert_array_equal(getattr(one.tree, name), getattr(other.tree, name))
    np.testing.assert_array_equal(producer.training_scores(one), one.scores(X))
    steps = np.array([0.3, 0.7])
    forest = Forest.of([one.tree, two.tree])
    together = forest.votes(X, steps, Threads(2))
    apart = steps[0] * one.scores(X) + steps[1] * two.scores(X)
    np.testing.assert_allclose(together.reshape(apart.shape), apart, rtol=1e-15)


def test_best_first_takes_the_largest_gains():
    X, y, w = table(3, n=400, levels=30)
    h, _ = tree_of(X, y, w, max_depth=None, max_leaf_nodes=6)
    assert np.sum(h.tree.feature < 0) == 6
    inner = np.flatnonzero(h.tree.feature >= 0)
    parent = {int(c): int(i) for i in inner for c in (h.tree.left[i], h.tree.right[i])}
    made = sorted(inner, key=lambda i: int(h.tree.left[i]))  # in the order of splitting
    for earlier, later in itertools.combinations(made, 2):
        if parent.get(int(later)) != earlier and int(later) < int(h.tree.left[earlier]):
            assert h.tree.gain[earlier] >= h.tree.gain[later]


@pytest.mark.parametrize("votes", [False, True])
def test_weights_are_repetition(votes):
    X, y, _ = table(5, n=150, levels=40)
    w = np.random.default_rng(0).integers(1, 4, size=150)
    one, p = tree_of(X, y, w.astype(float), max_depth=3, votes=votes)
    two, _ = tree_of(
        np.repeat(X, w, axis=0), np.repeat(y, w), np.ones(w.sum()), max_depth=3, votes=votes
    )
    np.testing.assert_array_equal(one.tree.feature, two.tree.feature)
    np.testing.assert_array_equal(one.tree.threshold, two.tree.threshold)
    np.testing.assert_allclose(one.tree.value, two.tree.value, atol=1e-10)
    assert p is not None


def test_hidden_rows_are_sent_down_the_tree():
    X, y, w = table(6, n=300, levels=50, missing=0.1)
    rows = np.flatnonzero(np.random.default_rng(0).random(300) < 0.4)
    h, producer = tree_of(X, y, w, rows=rows, max_depth=3)
    np.testing.assert_array_equal(producer.training_scores(h), h.scores(X))
    alone, _ = tree_of(X[rows], y[rows], w[rows], max_depth=3)
    np.testing.assert_allclose(h.tree.value[0], alone.tree.value[0], atol=1e-12)


def test_a_distribution_spanning_twelve_orders_finds_the_right_split():
    """One row holds the mass; the rest, a trillionth each, must still decide between features."""
    rng = np.random.default_rng(8)
    n = 2000
    y = np.arange(n) % 2
    X = np.column_stack([rng.integers(0, 2, size=(n, 5)), y, rng.integers(0, 2, size=(n, 5))])
    w = np.full(n, 1e-12)
    w[1] = 1.0
    for votes in (False, True):
        h, producer = tree_of(X.astype(float), y, w, max_depth=1, votes=votes)
        assert h.tree.feature[0] == 5
        np.testing.assert_allclose(producer.training_scores(h), 2.0 * y - 1.0, atol=1e-9)


def test_counts_are_true_counts():
    rng = np.random.default_rng(9)
    X, labels = rng.integers(0, 255, size=(500, 2)).astype(float), rng.integers(0, 2, size=500)
    w = rng.exponential(size=500)
    h, producer = tree_of(X, labels, w, max_depth=3)
    cells = pack_weights(w, Packing.of(500, w.sum()))
    packing = Packing.of(500, w.sum())
    assert (cells & ((1 << packing.count_bits) - 1) == 1).all()
    np.testing.assert_allclose((cells >> packing.count_bits) * packing.unit, w, atol=1e-12)
    leaves = producer.training_leaves(h)[1]
    held = np.bincount(leaves, weights=(cells >> packing.count_bits).astype(float))
    inner = h.tree.feature >= 0
    np.testing.assert_array_equal(h.tree.weight[~inner], held[~inner])


def test_min_samples_and_min_weight():
    X, y, w = table(10, n=500, levels=100)
    h, producer = tree_of(X, y, w, max_depth=6, min_samples_leaf=40)
    leaves = producer._last[1]
    assert np.bincount(leaves)[h.tree.feature < 0].min() >= 40
    h, producer = tree_of(X, y, w, max_depth=6, min_weight_fraction_leaf=0.1)
    share = np.bincount(producer._last[1], weights=w)[h.tree.feature < 0] / w.sum()
    assert share.min() >= 0.1 - 1e-9


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("votes", [False, True])
def test_the_first_of_equal_splits_is_taken(n_classes, votes):
    """A cut at either end is as good, and so are both columns."""
    X, y = np.repeat(np.arange(4.0), 3)[:, None], np.repeat([0, 1, 1, 0], 3)
    y[[1, 10]] = 1  # on either end, so that a vote changes
    rewards = None
    if n_classes > 2:
        rewards = Game(y, n_classes).rewards(np.full(12 * (n_classes - 1), 1 / (n_classes - 1)))
    h, _ = tree_of(
        np.hstack([X, X]), y, np.ones(12), n_classes=n_classes, rewards=rewards, max_depth=1,
        votes=votes,
    )  # fmt: skip
    assert (h.tree.feature[0], h.tree.threshold[0]) == (0, 0.5)


def test_categories_of_several_classes_are_ordered_by_the_heaviest_class():
    """All of its categories go one way, however the others lie between them."""
    column = np.repeat(np.arange(6.0), 10)
    y = np.repeat([2, 0, 2, 1, 2, 1], 10)
    rewards = Game(y, 3).rewards(np.full(120, 0.5))
    h, _ = tree_of(
        column[:, None], y, np.ones(60), n_classes=3, rewards=rewards, max_depth=1,
        categorical=np.array([True]),
    )  # fmt: skip
    assert set(h.tree.categories[0]) in ({0.0, 2.0, 4.0}, {1.0, 3.0, 5.0})


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([2, 3]), st.booleans())
def test_a_stump_of_leaves_large_enough_is_the_best_of_these(seed, least, n_classes, by_weight):
    """Leaves of just so many rows, or of just that share of the weight, are allowed."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.permutation(16), rng.permutation(16)]).astype(float)
    y = rng.integers(0, n_classes, size=16)
    rule = {"min_weight_fraction_leaf": least / 16} if by_weight else {"min_samples_leaf": least}
    rewards = None
    earnings = np.column_stack([1 - 2 * y, 2 * y - 1]).astype(float)
    if n_classes > 2:
        earnings = rewards = Game(y, n_classes).rewards(np.full(2 * 16, 0.5))
    h, producer = tree_of(
        X, y, np.ones(16), n_classes=n_classes, rewards=rewards, max_depth=1, votes=True, **rule
    )
    best = earnings.sum(axis=0).max()
    for column in X.T:
        for cut in np.unique(column):
            left = column <= cut
            if least <= left.sum() <= 16 - least:
                best = max(best, sum(earnings[side].sum(axis=0).max() for side in (left, ~left)))
    scores = producer.training_scores(h)
    if n_classes == 2:
        scores = np.column_stack([scores < 0.0, scores > 0.0])
    assert np.sum(earnings * scores) == pytest.approx(best, abs=1e-9)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([-1, 1]), st.booleans())
def test_constraints_hold_at_every_point(seed, direction, best_first):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 10, size=(200, 2)).astype(float)
    y = (np.sin(2 * X[:, 0]) + np.cos(X[:, 1]) + rng.normal(size=200) > 0).astype(int)
    rules = {"max_depth": None, "max_leaf_nodes": 30} if best_first else {"max_depth": 8}
    h, producer = tree_of(X, y, rng.exponential(size=200), monotone=(direction, 0), **rules)
    points = np.array(list(itertools.product(np.arange(10.0), repeat=2)))
    scores = h.scores(points).reshape(10, 10)
    assert np.all(direction * np.diff(scores, axis=0) >= 0.0)
    np.testing.assert_array_equal(h.scores(X), producer.training_scores(h))


def test_a_node_of_just_two_leaves_is_split():
    X = np.repeat(np.array(list(itertools.product((0.0, 1.0), repeat=2))), 4, axis=0)
    y = X.any(axis=1).astype(int)
    h, producer = tree_of(X, y, np.ones(16), max_depth=2, min_samples_leaf=4)
    np.testing.assert_array_equal(producer.training_scores(h), 2.0 * y - 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_no_gain(seed):
    """Every value has one row of class zero and two of class one: no split tells anything."""
    X, y = np.repeat(np.arange(20.0), 3)[:, None], np.tile([0, 1, 1], 20)
    w = np.repeat(np.random.default_rng(seed).exponential(size=20), 3)
    assert len(tree_of(X, y, w, max_depth=3)[0].tree.feature) == 1


def test_a_last_split_that_changes_no_vote_is_not_made():
    X, y = np.repeat([0.0, 1.0], 10)[:, None], np.repeat([0, 1, 1, 1], 5)
    y[0] = 1
    assert len(tree_of(X, y, np.ones(20), max_depth=1, votes=True)[0].tree.feature) == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_with_unseen_categories_stay_as_they_are(order):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(60, 2)).astype(float)
    h, _ = tree_of(X, (X[:, 0] % 2).astype(int), np.ones(60), categorical=np.array([True, False]))
    rows = np.array(X, order=order)
    rows[::3, 0] = 99.0
    before = rows.copy()
    scores = h.scores(rows)
    np.testing.assert_array_equal(rows, before)
    before[::3, 0] = np.nan
    np.testing.assert_array_equal(scores, h.scores(before))


@pytest.mark.parametrize("depth", [1, 7])
def test_missing_values_may_leave_all_others_behind(depth):
    X = np.repeat([np.nan, 1.0, 2.0, 3.0], 5)[:, None]
    y = np.isnan(X[:, 0]).astype(int)
    h, producer = tree_of(X, y, np.ones(20), max_depth=depth)
    np.testing.assert_array_equal(h.scores(X), 2.0 * y - 1.0)
    np.testing.assert_array_equal(producer.training_scores(h), 2.0 * y - 1.0)


def test_monotonic_constraint_holds():
    rng = np.random.default_rng(11)
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = (np.sin(6 * X[:, 0]) + X[:, 1] + rng.normal(size=2000) > 0).astype(int)
    h, _ = tree_of(X, y, np.ones(2000), max_depth=5, monotone=(1, 0))
    grid = np.linspace(-1, 1, 200)
    for other in (-0.9, 0.0, 0.8):
        line = h.scores(np.column_stack([grid, np.full(200, other)]))
        assert np.all(np.diff(line) >= 0.0)
    free, _ = tree_of(X, y, np.ones(2000), max_depth=5)
    assert np.any(np.diff(free.scores(np.column_stack([grid, np.zeros(200)]))) < 0.0)


@pytest.mark.parametrize(
    ("X", "w"),
    [
        (np.ones((20, 2)), np.ones(20)),
        (np.full((20, 2), np.nan), np.ones(20)),
        (np.arange(20.0)[:, None], np.where(np.arange(20) == 3, 1.0, 1e-300)),
        (np.arange(20.0)[:, None] % 2, np.ones(20)),
    ],
    ids=["constant", "all missing", "one row has all the weight", "two values"],
)
def test_degenerate_tables(X, w):
    y = (np.arange(20) % 2).astype(int)
    h, producer = tree_of(X, y, w, max_depth=3)
    scores = producer.training_scores(h)
    assert np.all(np.abs(scores) <= 1.0)
    np.testing.assert_array_equal(scores, h.scores(X))


def test_single_row():
    h, producer = tree_of(np.array([[1.0, np.nan]]), [1], np.ones(1), max_depth=3)
    assert isinstance(h, TreeHypothesis)
    np.testing.assert_array_equal(producer.training_scores(h), [1.0])


@pytest.mark.parametrize("none", ["features_per_tree", "features_per_node"])
def test_without_features_there_is_one_leaf(none):
    X, y, w = table(3)
    h, _ = tree_of(X, y, w, **{none: 0})
    assert h.tree.feature.tolist() == [-1]


def test_feature_draws_are_seeded():
    X, y, w = table(12, n=300, columns=8, levels=30)
    learner = TreeLearner(GrowthRules(max_depth=3, features_per_tree=4, features_per_node=2))
    producer = learner.prepare(X, y, 2)
    draws = [
        producer.produce(w, None, None, np.random.RandomState(s)).tree for s in (0, 0, 1, 2, 3)
    ]
    np.testing.assert_array_equal(draws[0].feature, draws[1].feature)
    assert any(not np.array_equal(draws[0].feature, t.feature) for t in draws[2:])
    used = set(draws[0].feature[draws[0].feature >= 0])
    assert len(used) <= 4


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_simplex_rows_project(seed, k):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(5, k)) * 2
    p = simplex_rows(v)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    for q in np.eye(k):  # the variational inequality at the corners is all of it
        assert np.all(np.sum((v - p) * (q - p), axis=1) <= 1e-9)


def test_real_multiclass_leaf_never_loses():
    rng = np.random.default_rng(13)
    for seed in range(20):
        y = rng.integers(0, 4, size=50)
        game = Game(y, 4)
        pairs = rng.exponential(size=150) ** 3
        rewards = game.rewards(pairs)
        w = pairs.reshape(50, 3).sum(axis=1)
        X = np.random.default_rng(seed).normal(size=(50, 2))
        h, producer = tree_of(X, y, w, n_classes=4, rewards=rewards, max_depth=2)
        loss = game.loss(producer.training_scores(h))
        assert np.sum(pairs * loss) <= 1e-9


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("votes", [False, True])
def test_conformance(n_classes, votes):
    check_learner(TreeLearner(GrowthRules(max_depth=2, votes=votes)), n_classes=n_classes)
