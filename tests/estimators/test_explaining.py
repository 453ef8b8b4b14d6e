"""Contributions, leaves and importances against LightGBM's of the exported model, and against enumeration."""

import json
from itertools import combinations
from math import factorial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from tests.io.test_exports import BOOSTERS, CATEGORICAL, TREES, hard_rows, rows

from maboost import HistTreeClassifier, MABoostClassifier, SmoothBoostClassifier, load_model
from maboost.learners.tree.contributions import cover_of
from maboost.plot import plot_tree


def assert_contributions_agree(model, X):
    """Contributions equal LightGBM's of the exported model, and add up to the votes."""
    found = model.predict_contributions(X)
    expected = model.to_lightgbm().predict(X, pred_contrib=True)
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=-1), model.decision_function(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("booster", BOOSTERS)
def test_contributions_of_every_booster_are_those_of_lightgbm(booster, n_classes):
    X, y = rows(1200, n_classes)
    model = booster(n_estimators=10, random_state=0).fit(X, y)
    assert_contributions_agree(model, hard_rows(model, X))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("categorical", [None, CATEGORICAL], ids=["numbers", "categories"])
@pytest.mark.parametrize("tree", TREES)
def test_contributions_of_every_kind_of_tree_are_those_of_lightgbm(tree, categorical, n_classes):
    X, y = rows(1200, n_classes, seed=1)
    parameters = TREES[tree].get_params() | {"categorical_features": categorical}
    model = MABoostClassifier(HistTreeClassifier(**parameters), n_estimators=12).fit(X, y)
    assert_contributions_agree(model, hard_rows(model, X))


def value_of(tree, cover, x, known, node=0):
    """The expected answer of a tree when only some features of a row are known."""
    f = tree.feature[node]
    if f < 0:
        return tree.value[node]
    left, right = tree.left[node], tree.right[node]
    if f in known:
        goes = tree.missing_left[node] if np.isnan(x[f]) else x[f] <= tree.threshold[node]
        return value_of(tree, cover, x, known, left if goes else right)
    share = cover[left] / cover[node]
    return share * value_of(tree, cover, x, known, left) + (1 - share) * value_of(
        tree, cover, x, known, right
    )


def test_contributions_are_shapley_values():
    X, y = rows(400, 3, seed=2)
    model = MABoostClassifier(
        n_estimators=4, max_depth=None, max_leaf_nodes=40, min_samples_leaf=1
    ).fit(X, y)
    found, columns = model.predict_contributions(X[:5]), X.shape[1]
    for x, parts in zip(X, found, strict=False):
        expected = np.zeros((3, columns + 1))
        for step, tree in zip(model.estimator_weights_, model.ensemble_.trees(), strict=True):
            inner = np.flatnonzero(tree.feature >= 0)
            cover = cover_of(tree.weight, tree.left, tree.right, inner)
            expected[:, -1] += step * value_of(tree, cover, x, ())
            for f in range(columns):
                others = [j for j in range(columns) if j != f]
                for k in range(columns):
                    share = factorial(k) * factorial(columns - 1 - k) / factorial(columns)
                    for some in combinations(others, k):
                        gain = value_of(tree, cover, x, (*some, f))
                        gain = gain - value_of(tree, cover, x, some)
                        expected[:, f] += step * share * gain
        np.testing.assert_allclose(parts, expected, rtol=0, atol=1e-12)


def test_contributions_of_deep_trees_add_up():
    """A path of many different features, where sums with alternating signs would lose digits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 60))
    y = (np.abs(X).sum(axis=1) > np.median(np.abs(X).sum(axis=1))).astype(int)
    model = MABoostClassifier(n_estimators=3, max_depth=40, max_leaf_nodes=None).fit(X, y)
    assert max(tree.depth for tree in model.ensemble_.trees()) >= 12
    assert_contributions_agree(model, X[:200])


def test_contributions_of_frames_and_sparse_rows(tmp_path):
    X, y = rows(600, 2, seed=3, missing=0.0)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["colour"] = pd.Categorical(np.where(X[:, 4] == 2, "red", "blue"))
    model = SmoothBoostClassifier(n_estimators=8, random_state=0).fit(frame, y)
    assert_contributions_agree(model, frame)
    model.save(tmp_path / "model")
    found = load_model(tmp_path / "model").predict_contributions(frame)
    np.testing.assert_array_equal(found, model.predict_contributions(frame))
    frame.to_parquet(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(found, model.predict_contributions(tmp_path / "rows.parquet"))
    X[np.abs(X) < 1.0] = 0.0
    plain = MABoostClassifier(n_estimators=5).fit(X, y)
    dense = plain.predict_contributions(X)
    np.testing.assert_array_equal(plain.predict_contributions(sp.csr_array(X)), dense)
    np.testing.assert_array_equal(plain.apply(sp.csr_array(X)), plain.apply(X))


def test_rows_decide_their_contributions_alone():
    X, y = rows(500, 3, seed=4)
    model = MABoostClassifier(n_estimators=6).fit(X, y)
    found = model.predict_contributions(X)
    np.testing.assert_array_equal(model.predict_contributions(X[::-1])[::-1], found)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).predict_contributions(X), found)
    np.testing.assert_array_equal(model.predict_contributions(X[7:8]), found[7:8])


@pytest.mark.filterwarnings("ignore:no hypothesis was found")
@pytest.mark.parametrize("labels", [[1, 1], [0, 1]])
def test_contributions_without_rounds_are_the_constant(labels):
    X = [[0.0, 1.0]] * 2
    model = MABoostClassifier(n_estimators=2).fit(X, labels)
    assert len(model) == 0
    found = model.predict_contributions(X)
    np.testing.assert_array_equal(found[:, :2], np.zeros((2, 2)))
    np.testing.assert_array_equal(found[:, 2], model.decision_function(X))
    assert model.apply(X).shape == (2, 0)
    assert model.feature_importance("split").tolist() == [0, 0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_apply_gives_the_leaves_that_vote(n_classes):
    X, y = rows(700, n_classes, seed=5)
    model = MABoostClassifier(n_estimators=7, categorical_features=CATEGORICAL).fit(X, y)
    X = hard_rows(model, X)
    leaves = model.apply(X)
    assert leaves.shape == (700, 7)
    votes = np.zeros((700, 1 if n_classes == 2 else n_classes))
    for step, tree, leaf in zip(
        model.estimator_weights_, model.ensemble_.trees(), leaves.T, strict=True
    ):
        assert np.all(tree.feature[leaf] < 0)
        votes += step * tree.value[leaf]
    np.testing.assert_array_equal(votes.squeeze(), model.decision_function(X))
    numbers = model.to_lightgbm().predict(X, pred_leaf=True)
    numbers = numbers.reshape(700, 7, -1)[:, :, 0]
    for tree, leaf, number in zip(model.ensemble_.trees(), leaves.T, numbers.T, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(tree.feature < 0)[number], leaf)


def test_importances_are_those_of_lightgbm():
    X, y = rows(700, 2, seed=6)
    model = MABoostClassifier(n_estimators=7).fit(X, y)
    exported = model.to_lightgbm()
    gain, split = model.feature_importance(), model.feature_importance("split")
    np.testing.assert_array_equal(gain, model.feature_importances_)
    np.testing.assert_allclose(exported.feature_importance("gain"), gain, atol=1e-6)
    np.testing.assert_array_equal(exported.feature_importance("split"), split)
    with pytest.raises(ValueError, match="importance_type must be 'gain' or 'split', got 'cover'"):
        model.feature_importance("cover")


def test_other_estimators_are_refused_in_words():
    X, y = rows(200, 2, missing=0.0)
    model = MABoostClassifier(LogisticRegression(), n_estimators=2).fit(X, y)
    for call in (model.predict_contributions, model.apply):
        with pytest.raises(ValueError, match="round 1 of this model is a LogisticRegression"):
            call(X)
    with pytest.raises(ValueError, match="permutation_importance"):
        model.feature_importance("split")


def test_trees_of_different_categories_are_explained():
    """A stream's trees may know different categories, so that there is no common forest."""
    X, y = rows(600, 2, seed=7)
    one = MABoostClassifier(n_estimators=2, categorical_features=CATEGORICAL).fit(X[:300], y[:300])
    other = MABoostClassifier(n_estimators=2, categorical_features=CATEGORICAL).fit(
        X[300:], y[300:]
    )
    known = [m.ensemble_.trees()[0].known for m in (one, other)]
    assert any(not np.array_equal(known[0][j], known[1][j]) for j in known[0])
    for h, w in zip(other.ensemble_.hypotheses, other.ensemble_.weights, strict=True):
        one.ensemble_.add(h, w)
    assert one.ensemble_.forest() is None
    found = one.predict_contributions(X)
    np.testing.assert_allclose(found.sum(axis=1), one.decision_function(X), rtol=0, atol=1e-12)
    assert one.apply(X).shape == (600, 4)


def test_shap_reads_the_exported_model():
    shap = pytest.importorskip("shap")
    X, y = rows(300, 2, seed=8, missing=0.0)
    model = MABoostClassifier(n_estimators=6).fit(X, y)
    found = shap.TreeExplainer(model.to_lightgbm()).shap_values(X)
    values = found[-1] if isinstance(found, list) else found
    np.testing.assert_allclose(values, model.predict_contributions(X)[:, :-1], rtol=0, atol=1e-9)


def vote_of(nodes, row):
    """The answer of a tree from its JSON."""
    node = nodes[0]
    while "value" not in node:
        value = row[node["feature"]]
        if "categories" in node:
            known = node["categories"]
            goes_left = value in known if value in node["all"] else node["missing"] == "left"
        elif np.isnan(value):
            goes_left = node["missing"] == "left"
        else:
            goes_left = node["threshold"] is None or value <= node["threshold"]
        node = nodes[node["left" if goes_left else "right"]]
    return np.asarray(node["value"]), node["node"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_json_dump_is_the_model(n_classes):
    X, y = rows(500, n_classes, seed=9)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["town"] = pd.Categorical(np.where(np.isnan(X[:, 3]), None, np.char.mod("t%g", X[:, 3])))
    with pytest.warns(UserWarning, match="share a bin"):
        model = MABoostClassifier(n_estimators=6, max_bins=40).fit(frame, y)
    found = json.loads(model.dump_model("json"), parse_constant=lambda text: pytest.fail(text))
    assert found["classes"] == list(range(n_classes))
    assert (found["rounds"], found["features"]) == (6, list(frame.columns))
    towns = set(frame["town"].cat.categories)
    asked = [n for tree in found["trees"] for n in tree["nodes"] if "categories" in n]
    assert asked
    for node in asked:
        node["all"] = towns
    leaves, few = model.apply(frame), frame.iloc[:60]
    for i, (row, votes) in enumerate(
        zip(few.to_dict("records"), model.decision_function(few), strict=True)
    ):
        total = 0.0
        for t, tree in enumerate(found["trees"]):
            value, leaf = vote_of(tree["nodes"], row)
            total = total + tree["weight"] * value
            assert leaf == leaves[i, t]
        np.testing.assert_array_equal(total, votes)


def test_the_dump_is_bounded_and_stable():
    X, y = rows(300, 2, seed=10)
    model = MABoostClassifier(n_estimators=5, categorical_features=CATEGORICAL).fit(X, y)
    text = model.dump_model(max_rounds=2)
    assert text == model.dump_model(max_rounds=2)
    assert "5 rounds, the first 2 shown" in text
    assert text.count("\nround ") == 2
    assert len(json.loads(model.dump_model("json", max_rounds=2))["trees"]) == 2
    assert model.dump_model(max_rounds=None) == model.dump_model()
    assert max(map(len, model.dump_model().splitlines())) < 400
    with pytest.raises(ValueError, match="format must be 'text' or 'json', got 'dot'"):
        model.dump_model("dot")
    with pytest.raises(ValueError, match="max_rounds must be a whole number of at least 1"):
        model.dump_model(max_rounds=0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_plot_tree_draws_every_node(n_classes):
    X, y = rows(300, n_classes, seed=11)
    model = MABoostClassifier(n_estimators=3, max_depth=3).fit(X, y)
    ax = plot_tree(model, -1, max_depth=None)
    tree = model.ensemble_.trees()[-1]
    boxes = [text for text in ax.texts if text.get_bbox_patch() is not None]
    assert ax.get_title() == "round 3 of 3"
    assert len(boxes) == len(tree.feature)
    assert len(plot_tree(model, 0, max_depth=0).texts) == 3 + 2  # the root, two dots, yes and no
    with pytest.raises(ValueError, match="tree_index must be the index of one of the 3 trees"):
        plot_tree(model, 3)
    plt.close("all")
