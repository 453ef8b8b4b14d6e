"""Sparse tables: the same trees as of dense ones, from memory that follows the entries and the bins."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.distributed.shards import fit_shards
from tests.helpers import on_shards

from maboost import HistTreeClassifier, MABoostClassifier, SparseBoostClassifier
from maboost.learners.tree.binning import find_bins
from maboost.learners.tree.grower import Binned, GrowthRules, Rewards, Workspace, grow
from maboost.learners.tree.learner import TreeLearner
from maboost.learners.tree.packing import Packing, pack_weights
from maboost.runtime.threads import Threads

NODES = ("feature", "threshold", "left", "missing_left", "value", "gain", "weight", "go_left")


def table(seed, n=200, columns=9, missing=0.02):
    """Columns of few and of many entries, and one of zeros only."""
    rng = np.random.default_rng(seed)
    share = rng.permutation(np.linspace(0.01, 0.6, columns))
    X = rng.integers(-3, 9, size=(n, columns)) * (rng.random((n, columns)) < share)
    X = np.where(rng.random(X.shape) < missing * share, np.nan, X)
    X[:, rng.integers(columns)] = 0.0
    return X


def wide(X, columns, seed=0):
    """The same columns among many of zeros, as a sparse matrix, and where they are."""
    at = np.sort(np.random.default_rng(seed).choice(columns, X.shape[1], replace=False))
    entries = sp.coo_array(X)
    shape = len(X), columns
    return sp.coo_array((entries.data, (entries.row, at[entries.col])), shape=shape).tocsr(), at


class Recording(Workspace):
    """Memory that notes how much it was asked for."""

    def __init__(self):
        super().__init__()
        self.shapes = {}

    def array(self, name, shape, dtype):
        self.shapes[name] = shape
        return super().array(name, shape, dtype)


def grown(X, y, threads=1):
    n = X.shape[0]
    data = Binned.of(X, find_bins(X, np.ones(n)))
    packing = Packing.of(n, 1.0)
    cells = pack_weights(np.full(n, 1.0 / n), packing)
    rewards = Rewards(cells, y.astype(np.uint8), packing.count_bits)
    work = Recording()
    rules, rng = GrowthRules(max_depth=3), np.random.RandomState(0)
    tree = grow(data, rewards, None, rules, Threads(threads), rng, work=work).tree
    return data, tree, work.shapes


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_follows_entries_and_bins(threads):
    rng = np.random.default_rng(0)
    X = sp.random_array((500, 40), density=0.02, rng=rng, format="csr")
    y = rng.integers(0, 2, 500)
    data, _, shapes = grown(X, y, threads)
    used = np.diff(X.tocsc().indptr) > 0
    of_a_class = int(data.bins.counts[used].sum()) + int(used.sum()) + 1  # missing values, all rows
    assert shapes["hists"][1] == 2 * of_a_class
    assert data.by_row.size == data.by_column.size == 0
    assert len(data.sparse.rows) == len(data.sparse.row_cells) == X.nnz
    for columns in (400, 4000):
        more, _ = wide(X.toarray(), columns)
        wider, _, its = grown(more, y, threads)
        assert its["hists"] == shapes["hists"]
        assert its["parts"] == shapes["parts"]
        assert wider.by_row.size == wider.by_column.size == 0
        assert len(wider.sparse.rows) == X.nnz


def test_only_columns_of_many_entries_are_dense():
    X = np.zeros((400, 1000))
    X[:, 7] = np.arange(400.0)
    X[:5, 11] = 1.0
    data = Binned.of(sp.csr_array(X), find_bins(sp.csr_array(X), np.ones(400)))
    assert data.by_row.shape == (400, 1)
    assert data.shape == (400, 1000)
    assert len(data.sparse.rows) == 5


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    classes=st.sampled_from([2, 3, 9]),
    threads=st.integers(1, 2),
    rules=st.sampled_from(
        [
            {"max_depth": 1},
            {"max_depth": 5},
            {"max_leaf_nodes": 7, "min_samples_leaf": 3},
            {"max_depth": 3, "max_features": 0.5},
        ]
    ),
)
def test_a_sparse_table_gives_the_trees_of_the_dense_one(seed, classes, threads, rules):
    X = table(seed)
    y = np.random.default_rng(seed).integers(0, classes, len(X))
    y[:classes] = np.arange(classes)
    model = MABoostClassifier(n_estimators=3, n_jobs=threads, random_state=0, **rules)
    dense = model.fit(X, y)
    expected = dense.decision_function(X), dense.ensemble_.hypotheses
    for made in (sp.csr_array(X), sp.csc_matrix(X)):
        sparse = model.fit(made, y)
        np.testing.assert_array_equal(sparse.decision_function(X), expected[0])
        np.testing.assert_array_equal(sparse.decision_function(made), expected[0])
        for one, other in zip(sparse.ensemble_.hypotheses, expected[1], strict=True):
            for name in NODES:
                np.testing.assert_array_equal(getattr(one.tree, name), getattr(other.tree, name))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_wide_table_gives_the_trees_of_its_columns_that_vary(classes):
    X = table(1)
    X = X[:, [len(np.unique(column)) > 1 for column in X.T]]
    more, at = wide(X, 5000)
    y = np.random.default_rng(1).integers(0, classes, len(X))
    model = MABoostClassifier(n_estimators=5, max_depth=4, random_state=0)
    expected = model.fit(X, y).decision_function(X)
    trees = [h.tree.feature for h in model.ensemble_.hypotheses]
    importances = model.feature_importances_
    model.fit(more, y)
    np.testing.assert_array_equal(model.decision_function(more), expected)
    for h, feature in zip(model.ensemble_.hypotheses, trees, strict=True):
        np.testing.assert_array_equal(h.tree.feature, np.where(feature >= 0, at[feature], -1))
    np.testing.assert_allclose(
        model.feature_importances_[at], importances, rtol=1e-14
    )  # a sum of floats


@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_rounds_of_some_rows(sparsity):
    """Rows that a round does not see go down the tree, and those that it holds are copied."""
    X = table(2, n=3000)
    y = (np.nan_to_num(X).sum(axis=1) > 8).astype(int)
    model = SparseBoostClassifier(n_estimators=8, sparsity=sparsity, random_state=0)
    expected = model.fit(X, y).decision_function(X)
    np.testing.assert_array_equal(model.fit(sp.csr_array(X), y).decision_function(X), expected)


def test_copied_rows_are_those_of_the_table():
    X = table(3, n=500)
    bins = find_bins(X, np.ones(500))
    rows = np.flatnonzero(np.random.default_rng(0).random(500) < 0.4)
    all_rows = Binned.of(sp.csr_array(X), bins).sparse
    found, expected = all_rows.taken(rows), Binned.of(sp.csr_array(X[rows]), bins).sparse
    is_sparse = np.diff(all_rows.first) > 0
    for j in np.flatnonzero(is_sparse & (np.diff(expected.first) > 0)).tolist():
        one, other = np.empty((2, len(rows)), dtype=np.uint8)
        found.write(j, one)
        expected.write(j, other)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("zeros", [True, False])
def test_categories(zeros):
    rng = np.random.default_rng(0)
    X = rng.integers(1, 6, size=(300, 3)) * (rng.random((300, 3)) < 0.15).astype(float)
    if not zeros:
        X[:, 0] = rng.integers(1, 6, 300)
    y = np.isin(X[:, 0], (2, 5)) ^ np.isin(X[:, 1], (1, 3))
    learner = TreeLearner(GrowthRules(max_depth=4), categorical=np.array([True, True, False]))
    trees = []
    for made in (X, sp.csr_array(X)):
        producer = learner.prepare(made, y.astype(int), 2)
        trees.append(producer.produce(np.ones(300), None, None, np.random.RandomState(0)).tree)
        assert len(trees[-1].categories) > 0
    for name in NODES:
        np.testing.assert_array_equal(getattr(trees[0], name), getattr(trees[1], name))


def test_a_single_tree():
    X = table(4)
    y = np.random.default_rng(4).integers(0, 3, len(X))
    model = HistTreeClassifier(max_depth=4)
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.fit(sp.csr_array(X), y).predict_proba(X), expected)


@pytest.mark.parametrize("classes", [2, 3])
def test_shards_agree_on_which_columns_are_sparse(classes):
    X = table(5, n=300)
    y = np.random.default_rng(5).integers(0, classes, 300)
    parts = [np.arange(0, 40), np.arange(40, 300), np.arange(0)]
    model = MABoostClassifier(n_estimators=4, max_depth=4, random_state=0)
    expected = model.fit(X, y).decision_function(X)
    for shard in fit_shards(model, parts, sp.csr_array(X), y):
        np.testing.assert_array_equal(shard.decision_function(X), expected)


def test_one_dense_shard_makes_all_columns_dense():
    X = table(6, n=300)
    y = np.random.default_rng(6).integers(0, 2, 300)

    def work(comm):
        model = MABoostClassifier(n_estimators=4, random_state=0)
        model._comm = comm
        part = slice(comm.rank, None, 3)
        rows = X[part] if comm.rank == 1 else sp.csr_array(X[part])
        return model.fit(rows, y[part]).decision_function(X)

    expected = MABoostClassifier(n_estimators=4, random_state=0).fit(X, y).decision_function(X)
    for found in on_shards(3, work):
        np.testing.assert_array_equal(found, expected)
