"""Exported models answer as the models they came from, row by row."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import lightgbm
import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import examples, seeds

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    load_model,
)
from maboost.learners.tree.predictor import Forest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
BOOSTERS = [
    MABoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    MadaBoostClassifier,
    CombinedBoostClassifier,
]
TREES = {
    "stumps": HistTreeClassifier(max_depth=1),
    "voting stumps": HistTreeClassifier(max_depth=1, response="sign"),
    "depth 3": HistTreeClassifier(max_depth=3),
    "31 leaves": HistTreeClassifier(max_depth=None, max_leaf_nodes=31),
}
CATEGORICAL = [3, 4]


def rows(n, n_classes, seed=0, missing=0.1):
    """Smooth, rounded and whole columns, the last two fit to be categories; labels depend on all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 1] = np.round(2.0 * X[:, 1])
    X[:, 3], X[:, 4] = rng.integers(0, 70, n), rng.integers(0, 4, n)
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3.0 * X[:, 3]) + (X[:, 4] == 2)
    score += 0.3 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def hard_rows(model, X, seed=0):
    """The rows, with values at and just above thresholds, and categories that no fit has seen.

    LightGBM takes what is below 1e-35 for zero.
    """
    rng = np.random.default_rng(seed)
    X = X.copy()
    few = max(len(X) // 100, 1)
    for hypothesis in model.ensemble_.hypotheses:
        tree = hypothesis.tree
        for node in np.flatnonzero((tree.feature >= 0) & (tree.category_set < 0)):
            value = tree.threshold[node]
            if np.isfinite(value):
                X[rng.integers(0, len(X), few), tree.feature[node]] = value
                above = np.nextafter(value, np.inf)
                X[rng.integers(0, len(X), few), tree.feature[node]] = above if value else 1e-34
    for j in model.ensemble_.hypotheses[0].tree.known if model.ensemble_.hypotheses else ():
        X[rng.integers(0, len(X), few), j] = rng.choice([71.0, 500.0, -1.0, 1e9], few)
    return X


def run_onnx(model, X):
    """The answers of the model that takes this dtype."""
    session = onnxruntime.InferenceSession(
        model.to_onnx(X.dtype.name).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X})


def assert_lightgbm_agrees(model, X):
    exported = model.to_lightgbm()
    votes = model.decision_function(X)
    raw = exported.predict(X, raw_score=True)
    np.testing.assert_allclose(raw, votes, rtol=0, atol=1e-9)
    many = len(model.classes_) > 2
    expected = votes if many else model.predict_proba(X)[:, -1]
    if len(model.classes_) > 1:
        np.testing.assert_allclose(exported.predict(X), expected, rtol=0, atol=1e-12)
    parts = exported.predict(X, pred_contrib=True)
    parts = parts.reshape(len(X), -1, model.n_features_in_ + 1).sum(axis=2)
    np.testing.assert_allclose(parts.reshape(raw.shape), raw, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        exported.feature_importance("gain"), model.feature_importances_, atol=1e-6
    )


def assert_onnx_agrees(model, X):
    label, probabilities = run_onnx(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-12)


def assert_exports_agree(model, X):
    assert_lightgbm_agrees(model, X)
    assert_onnx_agrees(model, X)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("booster", BOOSTERS)
def test_every_booster(booster, n_classes):
    X, y = rows(1500, n_classes)
    model = booster(n_estimators=12, random_state=0).fit(X, y)
    assert_exports_agree(model, hard_rows(model, X))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("categorical", [None, CATEGORICAL], ids=["numbers", "categories"])
@pytest.mark.parametrize("tree", TREES)
def test_every_kind_of_tree(tree, categorical, n_classes):
    X, y = rows(1500, n_classes, seed=1)
    estimator = HistTreeClassifier(
        **{**TREES[tree].get_params(), "categorical_features": categorical}
    )
    model = MABoostClassifier(estimator, n_estimators=15).fit(X, y)
    assert_exports_agree(model, hard_rows(model, X))


@given(seeds, st.integers(2, 4), st.integers(2, 12), st.floats(0.0, 0.6), st.booleans())
@examples(30)
def test_any_small_table(seed, n_classes, leaves, missing, votes):
    """Few distinct values make for ties, odd splits and single leaves."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(60, 3)), 1)
    X[:, 2] = rng.integers(0, 6, 60)
    y = rng.integers(0, n_classes, 60)
    y[:n_classes] = np.arange(n_classes)
    X[rng.random(X.shape) < missing] = np.nan
    tree = HistTreeClassifier(
        max_depth=None,
        max_leaf_nodes=leaves,
        response="sign" if votes else "real",
        categorical_features=[2],
    )
    model = MABoostClassifier(tree, n_estimators=4).fit(X, y)
    X = hard_rows(model, X, seed)
    exported = model.to_lightgbm()
    np.testing.assert_array_equal(exported.predict(X, raw_score=True), model.decision_function(X))
    _, probabilities = run_onnx(model, X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_onnx_on_many_rows(n_classes):
    X, y = rows(100_000, n_classes, seed=2)
    tree = HistTreeClassifier(max_depth=None, max_leaf_nodes=31, categorical_features=CATEGORICAL)
    model = SmoothBoostClassifier(tree, n_estimators=20).fit(X[:5000], y[:5000])
    assert_onnx_agrees(model, hard_rows(model, X))


def test_onnx_row_by_row():
    X, y = rows(300, 2)
    model = MABoostClassifier(n_estimators=10).fit(X, y)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    labels = [session.run(["label"], {"X": X[i : i + 1]})[0][0] for i in range(len(X))]
    np.testing.assert_array_equal(labels, model.predict(X))


def test_onnx_takes_fractions_for_unseen_categories():
    X, y = rows(1000, 2)
    tree = HistTreeClassifier(categorical_features=CATEGORICAL)
    model = MABoostClassifier(tree, n_estimators=10).fit(X, y)
    X[::3, 3] += 0.5
    assert_onnx_agrees(model, X)


def test_onnx_takes_any_numbers_for_categories():
    X, y = rows(1000, 2)
    X[:, 3] = 0.1 * X[:, 3] - 2.0
    tree = HistTreeClassifier(categorical_features=CATEGORICAL)
    model = MABoostClassifier(tree, n_estimators=10).fit(X, y)
    assert_onnx_agrees(model, X)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaves_right_below_the_root(n_classes, side):
    """Some versions of ONNX Runtime take such a root for a leaf if its children have one number."""
    x = np.arange(40.0)
    y = np.where(x < 20, 0, np.arange(40) // 3 % n_classes)
    X = side * x[:, None]
    tree = HistTreeClassifier(max_depth=None, max_leaf_nodes=4)
    model = MABoostClassifier(tree, n_estimators=6).fit(X, y)
    children = [
        (h.tree.left[0], h.tree.right[0], h.tree.feature) for h in model.ensemble_.hypotheses
    ]
    assert any((f[a] < 0) != (f[b] < 0) for a, b, f in children[:2])
    (trees,) = (node for node in model.to_onnx().graph.node if node.op_type == "TreeEnsemble")
    table = {entry.name: entry.ints for entry in trees.attribute}
    for root in table["tree_roots"]:
        assert table["nodes_truenodeids"][root] != table["nodes_falsenodeids"][root]
    assert_exports_agree(model, X)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "maybe", "yes"]),
        np.array(["grün", "rot", "übrig"], dtype=object),
        np.array([-7, 0, 12]),
        np.array([1, 2, 3], dtype=np.uint8),
        np.array([0.0, 1.0, 2.0]),
        np.array([False, True]),
    ],
    ids=["text", "objects", "whole", "bytes", "floats", "booleans"],
)
def test_labels(labels):
    X, y = rows(400, len(labels))
    model = MABoostClassifier(n_estimators=5).fit(X, labels[y])
    assert_exports_agree(model, X)


def test_labels_that_onnx_has_no_numbers_for():
    X, y = np.arange(20.0)[:, None], np.array([0, 2**64 - 1], dtype=np.uint64).repeat(10)
    with pytest.raises(ValueError, match=r"cannot write the labels \[0, 18446744073709551615\]"):
        MABoostClassifier(n_estimators=1).fit(X, y).to_onnx()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_slices_and_early_stops(n_classes):
    X, y = rows(800, n_classes)
    model = MABoostClassifier(
        n_estimators=40, early_stopping=True, n_iter_no_change=3, random_state=0
    ).fit(X, y)
    assert len(model) < 40
    for part in (model, model[:4], model[:1], model[:0]):
        assert part.to_lightgbm().num_trees() == max(len(part), 1) * (
            1 if n_classes == 2 else n_classes
        )
        assert_exports_agree(part, X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_one_leaf(n_classes):
    y = np.arange(20) % 7 % n_classes
    model = MABoostClassifier(n_estimators=3).fit(np.zeros((20, 2)), y)
    assert all(len(h.tree.feature) == 1 for h in model.ensemble_.hypotheses)
    assert_exports_agree(model, np.array([[0.0, 1.0], [np.nan, 2.0]]))


def test_no_hypothesis():
    with pytest.warns(UserWarning, match="no hypothesis was found"):
        model = MABoostClassifier().fit(np.zeros((20, 2)), np.arange(20) % 2)
    assert not len(model)
    assert_exports_agree(model, np.ones((3, 2)))


def test_one_class():
    model = MABoostClassifier().fit(np.arange(8.0)[:, None], np.full(8, "only"))
    assert_exports_agree(model, np.arange(3.0)[:, None])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_infinities_are_large_numbers(n_classes):
    """The model itself refuses them; its trees say where they go."""
    X, y = rows(800, n_classes)
    model = MABoostClassifier(n_estimators=10).fit(X, y)
    X[::3, 0], X[1::3, 2], X[::7, 3] = np.inf, -np.inf, np.inf
    forest = Forest.of([h.tree for h in model.ensemble_.hypotheses])
    votes = forest.votes(X, model.estimator_weights_)
    raw = model.to_lightgbm().predict(X, raw_score=True)
    np.testing.assert_array_equal(raw.reshape(votes.shape), votes)
    expected = model._probabilities(votes[:, 0] if n_classes == 2 else votes)
    np.testing.assert_allclose(run_onnx(model, X)[1], expected, rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------------
# data frames


@pytest.fixture
def frame():
    """Numbers, categories and text, with missing values, and labels that depend on all."""
    rng = np.random.default_rng(0)
    n = 500
    table = pd.DataFrame(
        {
            "a b": rng.normal(size=n),
            "kind: of": pd.Categorical(rng.choice(["x", "y", "ü, ["], n)),
            "a_b": rng.integers(0, 9, n),
            "size": pd.Categorical(rng.integers(5, 9, n), ordered=True),
            "text": rng.choice(["red", "blue", "green"], n),
        }
    )
    odd = (table["kind: of"] == "x") ^ (table["a b"] > 0) ^ (table["size"].astype(int) > 6)
    y = np.where(odd ^ (table["text"] == "red"), "pos", "neg")
    table.loc[:30, "kind: of"] = None
    return table, y


def as_categories(table):
    return table.assign(text=table["text"].astype("category"))


def test_lightgbm_takes_a_pandas_frame(frame):
    X, y = frame
    model = MABoostClassifier(n_estimators=10).fit(X, y)
    exported = model.to_lightgbm()
    raw = exported.predict(as_categories(X), raw_score=True)
    np.testing.assert_array_equal(raw, model.decision_function(X))


def test_lightgbm_takes_other_categories_in_any_order(frame):
    X, y = frame
    model = MABoostClassifier(n_estimators=10).fit(X, y)
    kind = X["kind: of"].cat.set_categories(["new", "y", "ü, [", "x"])
    kind[100:200] = "new"
    changed = X.assign(**{"kind: of": kind})
    raw = model.to_lightgbm().predict(as_categories(changed), raw_score=True)
    np.testing.assert_array_equal(raw, model.decision_function(changed))


def test_feature_names_lose_what_lightgbm_cannot_write(frame):
    X, y = frame
    names = MABoostClassifier(n_estimators=2).fit(X, y).to_lightgbm().feature_name()
    assert names == ["a_b", "kind__of", "a_b_2", "size", "text"]
    plain = MABoostClassifier(n_estimators=2).fit(X[["a b", "a_b"]].to_numpy(), y)
    assert plain.to_lightgbm().feature_name() == ["Column_0", "Column_1"]


def test_onnx_names_the_categories(frame):
    X, y = frame
    model = MABoostClassifier(n_estimators=10).fit(X, y)
    metadata = {entry.key: json.loads(entry.value) for entry in model.to_onnx().metadata_props}
    assert metadata["feature_names"] == list(X.columns)
    codes = X.copy()
    for name, categories in metadata["categories"].items():
        place = {category: float(i) for i, category in enumerate(categories)}
        codes[name] = [place.get(value, np.nan) for value in X[name]]
    label, probabilities = run_onnx(model, codes.to_numpy(dtype=float))
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------------
# files


def test_lightgbm_keeps_the_votes_in_its_own_file(tmp_path):
    X, y = rows(500, 2)
    tree = HistTreeClassifier(max_depth=4, categorical_features=CATEGORICAL)
    model = MABoostClassifier(tree, n_estimators=10).fit(X, y)
    path = str(tmp_path / "model.txt")
    model.to_lightgbm().save_model(path)
    raw = lightgbm.Booster(model_file=path).predict(X, raw_score=True)
    np.testing.assert_array_equal(raw, model.decision_function(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loaded_model(n_classes, tmp_path):
    X, y = rows(500, n_classes)
    tree = HistTreeClassifier(categorical_features=CATEGORICAL)
    model = MABoostClassifier(tree, n_estimators=5).fit(X, y)
    model.save(tmp_path / "model.maboost")
    assert_exports_agree(load_model(tmp_path / "model.maboost"), X)


def test_onnx_model_is_valid():
    X, y = rows(500, 3)
    made = MABoostClassifier(n_estimators=5).fit(X, y).to_onnx()
    onnx.checker.check_model(made, full_check=True)
    assert [output.name for output in made.graph.output] == ["label", "probabilities"]


def test_example_of_shap_values(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shap", None)
    target = tmp_path / "picture.png"
    runpy.run_path(str(EXAMPLES / "shap_values.py"))["main"](str(target))
    plt.close("all")
    assert target.read_bytes().startswith(b"\x89PNG")
    assert "parts add up to the vote" in capsys.readouterr().out


# --------------------------------------------------------------------------------------------------
# what cannot be exported

METHODS = ["to_lightgbm", "to_onnx"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=1), LogisticRegression()])
def test_foreign_estimators(method, estimator):
    X, y = rows(200, 2, missing=0.0)
    model = MABoostClassifier(estimator, n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match=f"{method}.*round 1.*{type(estimator).__name__}"):
        getattr(model, method)()


@pytest.mark.parametrize("method", METHODS)
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(MABoostClassifier(), method)()


@pytest.mark.parametrize(("method", "package"), [("to_lightgbm", "lightgbm"), ("to_onnx", "onnx")])
def test_missing_extra(method, package, monkeypatch):
    X, y = rows(100, 2)
    model = MABoostClassifier(n_estimators=2).fit(X, y)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install '\.\[{package}\]'"):
        getattr(model, method)()


@pytest.mark.parametrize("code", [-3.0, 0.5, 1e7])
def test_lightgbm_cannot_write_such_categories(code):
    X, y = rows(500, 2)
    X[X[:, 4] == 1, 4] = code
    tree = HistTreeClassifier(categorical_features=[4])
    model = MABoostClassifier(tree, n_estimators=10).fit(X, y)
    with pytest.raises(ValueError, match=r"categorical column 4.*are integers"):
        model.to_lightgbm()


def test_onnx_cannot_write_such_labels():
    X, y = rows(200, 2)
    model = MABoostClassifier(n_estimators=2).fit(X, y)
    model.classes_ = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    with pytest.raises(ValueError, match="labels"):
        model.to_onnx()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("categorical", [None, CATEGORICAL], ids=["numbers", "categories"])
def test_onnx_takes_rows_of_float32(categorical, n_classes):
    """Its decisions are the model's on the rounded values, also next to thresholds."""
    X, y = rows(1500, n_classes, seed=12)
    model = SmoothBoostClassifier(
        n_estimators=15, categorical_features=categorical, random_state=0
    ).fit(X, y)
    X = hard_rows(model, X)
    narrow = X.astype(np.float32)
    assert np.any(model.apply(narrow) != model.apply(X))  # some values are rounded across
    assert_onnx_agrees(model, narrow)
    assert_onnx_agrees(model, X)


def test_onnx_takes_rows_of_float32_with_rare_categories():
    X, y = rows(900, 2, seed=13)
    with pytest.warns(UserWarning, match="share a bin"):
        model = SmoothBoostClassifier(
            n_estimators=8, max_bins=30, categorical_features=[3], random_state=0
        ).fit(X, y)
    assert_onnx_agrees(model, hard_rows(model, X).astype(np.float32))


def test_an_unknown_dtype_of_onnx_is_refused():
    X, y = rows(60, 2)
    model = MABoostClassifier(n_estimators=1).fit(X, y)
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32', got 'float16'"):
        model.to_onnx("float16")
