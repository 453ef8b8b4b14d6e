"""interaction_cst: all splits on a path are in one group, as in HistGradientBoostingClassifier."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from tests.helpers import on_shards

from maboost import HistTreeClassifier, MABoostClassifier, SmoothBoostClassifier, load_model
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.runtime.communicator import SerialCommunicator


def rows(n=900, n_classes=2, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    X[rng.random(X.shape) < 0.05] = np.nan
    score = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4])
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def paths(tree, node=0, above=()):
    """The sets of features on the paths to the leaves."""
    if tree.feature[node] < 0:
        yield frozenset(above)
    else:
        for child in (tree.left[node], tree.right[node]):
            yield from paths(tree, child, (*above, int(tree.feature[node])))


def all_paths(model):
    return {path for tree in model.ensemble_.trees() for path in paths(tree)}


GROUPS = {
    "none": ("no_interactions", [{j} for j in range(6)]),
    "pairs": ("pairwise", [set(pair) for pair in combinations(range(6), 2)]),
    "overlap": ([[0, 1], (1, 2), {3}], [{0, 1}, {1, 2}, {3}, {4, 5}]),
    "rest": ([[0, 1]], [{0, 1}, {2, 3, 4, 5}]),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("growth", [{"max_depth": 5}, {"max_leaf_nodes": 25}])
@pytest.mark.parametrize("case", GROUPS)
def test_paths_stay_in_a_group(case, growth, n_classes):
    X, y = rows(n_classes=n_classes)
    constraint, groups = GROUPS[case]
    model = MABoostClassifier(n_estimators=8, interaction_cst=constraint, **growth).fit(X, y)
    found = all_paths(model)
    assert all(any(path <= group for group in groups) for path in found)
    free = all_paths(MABoostClassifier(n_estimators=8, **growth).fit(X, y))
    assert not all(any(path <= group for group in groups) for path in free)
    peer = HistGradientBoostingClassifier(interaction_cst=constraint, max_iter=2).fit(X, y)
    assert peer.n_iter_ == 2  # the same form is a constraint there, too


def test_contributions_of_columns_that_do_not_interact_depend_on_them_alone():
    X, y = rows()
    model = SmoothBoostClassifier(
        n_estimators=10, interaction_cst="no_interactions", random_state=0
    ).fit(X, y)
    parts = model.predict_contributions(X)
    other = X.copy()
    other[:, 1:] = np.random.default_rng(1).permutation(other[:, 1:])
    np.testing.assert_allclose(
        model.predict_contributions(other)[:, 0], parts[:, 0], rtol=0, atol=1e-12
    )


def test_one_group_of_all_columns_is_no_constraint():
    X, y = rows()
    free = MABoostClassifier(n_estimators=5).fit(X, y)
    held = MABoostClassifier(n_estimators=5, interaction_cst=[range(6)]).fit(X, y)
    np.testing.assert_array_equal(held.decision_function(X), free.decision_function(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_draws_are_from_the_columns_that_may_split(n_classes):
    X, y = rows(n_classes=n_classes)
    model = MABoostClassifier(
        n_estimators=12, max_depth=4, max_features=2, interaction_cst=[[0, 1, 2], [3]],
        random_state=0,
    ).fit(X, y)  # fmt: skip
    groups = [{0, 1, 2}, {3}, {4, 5}]
    assert all(any(path <= group for group in groups) for path in all_paths(model))
    assert max(map(len, all_paths(model))) == 3


@pytest.mark.parametrize("sparse", [False, True])
def test_bits_do_not_depend_on_threads_order_or_shards(sparse):
    X, y = rows()
    X = np.nan_to_num(X)
    X[np.abs(X) < 1.0] = 0.0
    table = sp.csr_array(X) if sparse else X
    options = {"n_estimators": 6, "interaction_cst": [[0, 1], [1, 2, 3]], "max_features": 3}
    votes = MABoostClassifier(**options, random_state=0, n_jobs=1).fit(table, y)
    votes = votes.decision_function(X)
    for jobs, order in ((2, slice(None)), (1, slice(None, None, -1))):
        other = MABoostClassifier(**options, random_state=0, n_jobs=jobs).fit(
            table[order], y[order]
        )
        np.testing.assert_array_equal(other.decision_function(X), votes)


def test_shards_grow_the_same_constrained_tree():
    X, y = rows()
    rules = GrowthRules(max_depth=4, interactions=((0, 1), (1, 2, 3), (4, 5)))

    def grown(comm, part):
        learner = TreeLearner(rules, comm=comm)
        producer = learner.prepare(X[part], y[part], 2)
        weights = np.ones(len(X))[part]
        return producer.produce(weights, None, None, np.random.RandomState(0)).tree

    alone = grown(SerialCommunicator(), slice(None))
    for tree in on_shards(3, lambda comm: grown(comm, slice(comm.rank, None, 3))):
        np.testing.assert_array_equal(tree.feature, alone.feature)
        np.testing.assert_array_equal(tree.threshold, alone.threshold)


def test_columns_by_name_and_in_model_files(tmp_path):
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    by_name = SmoothBoostClassifier(n_estimators=5, interaction_cst=[{"a", "b"}, ["c"]]).fit(
        frame, y
    )
    by_place = SmoothBoostClassifier(n_estimators=5, interaction_cst=[[0, 1], [2]]).fit(frame, y)
    votes = by_place.decision_function(frame)
    np.testing.assert_array_equal(by_name.decision_function(frame), votes)
    by_name.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.interaction_cst == [{"a", "b"}, ["c"]]
    np.testing.assert_array_equal(loaded.decision_function(frame), votes)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ([[0, 6]], "interaction_cst names column 6, which is not in X; X has 6 columns"),
        ([["a"]], "interaction_cst names column 'a'"),
        ([[-1]], "names column -1"),
        ([0, 1], r"must hold groups of columns, such as \[\[0, 1\], \[2\]\], got 0"),
        (["ab"], "got 'ab'"),
        ("pairs", "The 'interaction_cst' parameter"),
    ],
)
def test_wrong_groups_are_named(constraint, message):
    X, y = rows(60)
    with pytest.raises(ValueError, match=message):
        HistTreeClassifier(interaction_cst=constraint).fit(X, y)


def test_max_features_per_tree_draws_columns_each_round():
    X, y = rows(columns=12)
    model = MABoostClassifier(n_estimators=10, max_features_per_tree=3, random_state=0).fit(X, y)
    used = [set(tree.feature[tree.feature >= 0].tolist()) for tree in model.ensemble_.trees()]
    assert max(map(len, used)) <= 3 < len(set.union(*used))
    own = MABoostClassifier(
        HistTreeClassifier(max_features_per_tree=3, min_weight_fraction_leaf=1e-6),
        n_estimators=10, random_state=0,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_array_equal(own.decision_function(X), model.decision_function(X))
