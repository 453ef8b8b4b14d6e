"""Columns with more categories than bins: rare ones share a bin, as if they had been merged by hand."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.distributed.shards import assert_same, fit_shards, shares

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    ModelFormatError,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    load_model,
    write_report,
)
from maboost.data import OnDisk, RareCategoriesWarning
from maboost.io.container import pack
from maboost.io.model_file import _parts
from maboost.runtime import row_hash

TREE = HistTreeClassifier(max_depth=3, max_bins=12, categorical_features=[1])
BOOSTERS = [
    MABoostClassifier(TREE, n_estimators=6, random_state=0),
    SmoothBoostClassifier(TREE, smoothness=3.0, n_estimators=6, random_state=0),
    SparseBoostClassifier(TREE, n_estimators=6, random_state=0),
    MadaBoostClassifier(TREE, n_estimators=6, random_state=0),
    CombinedBoostClassifier(TREE, n_estimators=6, random_state=0),
]
notices = pytest.mark.filterwarnings("ignore::maboost.data.categories.RareCategoriesWarning")


def rows(n=600, classes=2, seed=0, levels=40):
    """A number and a code of many levels, the rare ones of which say something too."""
    rng = np.random.default_rng(seed)
    code = np.minimum(np.floor(rng.pareto(0.8, n) * 3.0), levels - 1.0)
    X = np.column_stack([rng.normal(size=n), code])
    X[rng.random(n) < 0.05, 1] = np.nan
    score = X[:, 0] + 1.5 * (np.nan_to_num(code) % 3 == 0) - 2.0 * (code > 15) + rng.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def merged(X, weights=None, max_bins=12):
    """The rows with the rare codes of the second column replaced by the smallest of them; and these codes."""
    weights = np.ones(len(X)) if weights is None else weights
    code = X[:, 1]
    levels = np.unique(code[~np.isnan(code) & (weights > 0)])
    held = [weights[code == level].sum() for level in levels]
    order = sorted(range(len(levels)), key=lambda i: (-held[i], levels[i]))
    rare = np.sort(levels[order[max_bins - 1 :]])
    X = X.copy()
    X[np.isin(code, rare), 1] = rare[0]
    return X, rare.tolist()


def as_frame(X):
    names = np.array([f"c{i:03}" for i in range(1000)], dtype=object)
    column = [None if v != v else names[int(v)] for v in X[:, 1]]
    return pd.DataFrame({"size": X[:, 0], "city": column})


def in_frames(model):
    return clone(model).set_params(estimator__categorical_features="from_dtype")


@notices
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", BOOSTERS, ids=lambda m: type(m).__name__)
def test_a_fit_is_that_of_merged_categories(model, classes):
    X, y = rows(classes=classes)
    by_hand, rare = merged(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is rare there
        expected = clone(model).fit(by_hand, y)
    assert expected.rare_categories_ == {}
    found = clone(model).fit(X, y)
    assert found.rare_categories_ == {1: rare}
    for one, other in zip(found.ensemble_.hypotheses, expected.ensemble_.hypotheses, strict=True):
        for name in ("feature", "threshold", "left", "missing_left", "value", "go_left"):
            np.testing.assert_array_equal(getattr(one.tree, name), getattr(other.tree, name))
    new = np.vstack([X, [[0.0, 1e6], [0.0, np.nan], [0.0, 0.5]]])
    new_by_hand = np.vstack([by_hand, [[0.0, np.nan]] * 3])
    votes = found.decision_function(new)
    np.testing.assert_array_equal(votes, expected.decision_function(new_by_hand))
    *_, last = found.staged_decision_function(new)
    np.testing.assert_array_equal(last, votes)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(by_hand))


@notices
def test_a_single_tree():
    X, y = rows(classes=3)
    by_hand, rare = merged(X)
    tree, expected = clone(TREE).fit(X, y), clone(TREE).fit(by_hand, y)
    assert (tree.rare_categories_, expected.rare_categories_) == ({1: rare}, {})
    np.testing.assert_array_equal(tree.predict_proba(X), expected.predict_proba(by_hand))
    model = clone(BOOSTERS[0]).fit(X, y)
    assert model.estimators_[0].rare_categories_ == {1: rare}


def test_the_warning_names_column_levels_and_remedy():
    X, y = rows()
    levels, rare = len(np.unique(X[~np.isnan(X[:, 1]), 1])), merged(X)[1]
    for model in (BOOSTERS[0], TREE):
        told = f"column 1 has {levels} categories, of which the {len(rare)} of least weight share a bin"
        with pytest.warns(RareCategoriesWarning, match=told) as caught:
            clone(model).fit(X, y)
        assert len(caught) == 1
        assert "more categories than max_bins=12" in str(caught[0].message)
        assert "group categories that belong together" in str(caught[0].message)
        assert caught[0].filename == __file__
    with pytest.warns(RareCategoriesWarning) as caught:  # its trial says nothing of its own
        SmoothBoostClassifier(TREE, n_estimators=3, random_state=0).fit(X, y)
    assert len(caught) == 1
    many = np.repeat(np.arange(40.0), 2)[:, None] * np.ones(7)
    with pytest.warns(RareCategoriesWarning, match=r"column 4 has .*; and so on in 2 more columns"):
        HistTreeClassifier(max_bins=12, categorical_features=range(7)).fit(many, np.arange(80) % 2)


@notices
def test_a_frame_is_told_in_its_own_words():
    X, y = rows()
    rare = merged(X)[1]
    model = in_frames(BOOSTERS[1]).fit(as_frame(X), y)
    assert model.rare_categories_ == {"city": [f"c{int(v):03}" for v in rare]}
    np.testing.assert_array_equal(
        model.decision_function(as_frame(X)), clone(BOOSTERS[1]).fit(X, y).decision_function(X)
    )


@notices
@pytest.mark.parametrize("sample", [10_000, 50], ids=["all rows", "a sample"])
def test_order_weights_and_storage_change_nothing(sample, monkeypatch, tmp_path):
    monkeypatch.setattr(row_hash, "SAMPLE_ROWS", sample)
    X, y = rows()
    rng = np.random.default_rng(3)
    w = rng.integers(0, 4, len(y))
    X[w == 0, 1] += 100.0  # categories of no weight do not exist
    model = clone(BOOSTERS[0])
    expected = clone(model).fit(X, y, sample_weight=w)
    assert expected.rare_categories_ == {1: merged(X, w)[1]}
    votes = expected.decision_function(X)
    order = rng.permutation(len(y))
    repeated = np.repeat(np.arange(len(y)), w)
    frame = as_frame(X).assign(label=y, weight=w.astype(float))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    rounded = [
        clone(model).fit(X[repeated], y[repeated]),
        clone(model).fit(sp.csr_matrix(X), y, sample_weight=w * 0.3),
    ]
    exact = [
        clone(model).fit(X[order], y[order], sample_weight=w[order]),
        clone(model).fit(sp.csc_matrix(X), y, sample_weight=w),
    ]
    for other in (*rounded, *exact):
        assert other.rare_categories_ == expected.rare_categories_
        for one, its in zip(other.ensemble_.hypotheses, expected.ensemble_.hypotheses, strict=True):
            for name in ("feature", "threshold", "left", "missing_left", "go_left"):
                np.testing.assert_array_equal(getattr(one.tree, name), getattr(its.tree, name))
        sparse = other.decision_function(sp.csr_matrix(X))
        np.testing.assert_array_equal(sparse, other.decision_function(X))
        np.testing.assert_allclose(sparse, votes, rtol=0, atol=1e-7)
    for other in exact:
        np.testing.assert_array_equal(other.decision_function(X), votes)
    named = in_frames(model)
    memory = clone(named).fit(as_frame(X), y, sample_weight=w)
    disk = clone(named).fit(tmp_path / "rows.parquet", "label", sample_weight="weight")
    assert disk.rare_categories_ == memory.rare_categories_
    assert set(disk.rare_categories_) == {"city"}
    np.testing.assert_array_equal(
        disk.decision_function(as_frame(X)), memory.decision_function(as_frame(X))
    )


@notices
@pytest.mark.parametrize("sample", [10_000, 50], ids=["all rows", "a sample"])
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_shards(kind, sample, monkeypatch):
    monkeypatch.setattr(row_hash, "SAMPLE_ROWS", sample)
    X, y = rows(400)
    model = clone(BOOSTERS[0]) if kind == "array" else in_frames(BOOSTERS[0])
    given = X if kind == "array" else as_frame(X)
    whole = clone(model).fit(given, y)
    assert whole.rare_categories_
    for shard in fit_shards(model, shares(len(y), 3, np.random.default_rng(0)), given, y):
        assert_same(shard, whole)
        assert shard.rare_categories_ == whole.rare_categories_


@notices
def test_rows_that_watch_from_disk(tmp_path):
    """They are kept in bins only."""
    X, y = rows()
    as_frame(X).assign(label=y).to_parquet(tmp_path / "rows.parquet")
    model = in_frames(BOOSTERS[0]).set_params(early_stopping=True, n_estimators=20)
    memory = clone(model).fit(as_frame(X), y)
    disk = clone(model).fit(tmp_path / "rows.parquet", "label")
    np.testing.assert_array_equal(disk.history_["val_error"], memory.history_["val_error"])
    assert disk.rare_categories_ == memory.rare_categories_ != {}


@notices
def test_the_cache_of_bins_knows_who_shares_one(tmp_path):
    """Other weights, and so other rare categories, find no bins of theirs in it."""
    code = np.concatenate([np.repeat(np.arange(17.0), 4), [17, 17, 18, 18, 19]])
    X = np.column_stack([np.arange(len(code)) % 5, code])
    y = np.concatenate([np.repeat(np.arange(17) % 2, 4), [1, 1, 0, 0, 1]])
    as_frame(X).assign(label=y).to_parquet(tmp_path / "rows.parquet")
    stored = OnDisk(tmp_path / "rows.parquet", tmp_path / "bins")
    edges, rare = [], []
    for weights in ({1: 2.0}, {0: 2.0}):
        model = in_frames(BOOSTERS[0]).set_params(estimator__max_bins=19, class_weight=weights)
        memory, disk = clone(model).fit(as_frame(X), y), clone(model).fit(stored, "label")
        np.testing.assert_array_equal(
            disk.decision_function(as_frame(X)), memory.decision_function(as_frame(X))
        )
        edges.append(disk.ensemble_.hypotheses[0].tree.known[1].tolist())
        rare.append(disk.rare_categories_["city"])
    assert edges[0] == edges[1]
    assert rare == [["c018", "c019"], ["c017", "c019"]]


@notices
@pytest.mark.parametrize("classes", [2, 3])
def test_files_pickles_and_slices(classes, tmp_path):
    X, y = rows(classes=classes)
    for model, given in ((clone(BOOSTERS[1]), X), (in_frames(BOOSTERS[1]), as_frame(X))):
        model.fit(given, y)
        model.save(tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        loaded.save(tmp_path / "again")
        assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
        for other in (loaded, pickle.loads(pickle.dumps(model)), model[:]):
            assert other.rare_categories_ == model.rare_categories_ != {}
            np.testing.assert_array_equal(
                other.decision_function(given), model.decision_function(given)
            )
        assert model[:2].rare_categories_ == model.rare_categories_
        assert model[:0].rare_categories_ == {}


@notices
def test_a_file_with_a_set_of_other_rare_categories_is_refused(tmp_path):
    """Sets name rare categories by the first of them."""
    X, y = rows()
    model = clone(BOOSTERS[0]).fit(X, y)
    arrays, document = _parts(model)
    rare = arrays["known_values"][arrays["known_rare"]]
    at = np.flatnonzero(arrays["set_values"] == rare[0])
    assert len(at)
    arrays["set_values"] = arrays["set_values"].copy()
    arrays["set_values"][at[0]] = rare[1]
    (tmp_path / "m").write_bytes(pack(arrays, document))
    with pytest.raises(ModelFormatError, match="no category of their column, or a rare one other"):
        load_model(tmp_path / "m")


@notices
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("max_bins", [2, 5, 12])
def test_exports(max_bins, classes):
    X, y = rows(classes=classes)
    model = clone(BOOSTERS[0]).set_params(estimator__max_bins=max_bins).fit(X, y)
    assert len(model.rare_categories_[1]) > 10
    new = np.vstack([X, [[0.0, 500.0], [0.0, np.nan], [1.0, 41.0]]])
    votes = model.decision_function(new)
    np.testing.assert_array_equal(model.to_lightgbm().predict(new, raw_score=True), votes)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    label, probabilities = session.run(None, {"X": new})
    np.testing.assert_array_equal(label, model.predict(new))
    np.testing.assert_allclose(probabilities, model.predict_proba(new), rtol=0, atol=1e-12)


@notices
def test_exports_of_a_frame():
    X, y = rows()
    frame = as_frame(X)
    model = in_frames(BOOSTERS[0]).fit(frame, y)
    typed = frame.assign(city=frame["city"].astype("category"))
    exported = model.to_lightgbm()
    np.testing.assert_array_equal(
        exported.predict(typed, raw_score=True), model.decision_function(frame)
    )


@notices
def test_going_on(tmp_path):
    X, y = rows()
    whole = clone(BOOSTERS[0]).set_params(n_estimators=8).fit(X, y)
    path = tmp_path / "run.ckpt"
    half = (
        clone(BOOSTERS[0]).set_params(n_estimators=4, checkpoint=path, checkpoint_every=1).fit(X, y)
    )
    on = clone(half).set_params(n_estimators=8, resume=True).fit(X, y)
    warm = clone(BOOSTERS[0]).set_params(n_estimators=4, warm_start=True).fit(X, y)
    warm.set_params(n_estimators=8).fit(X, y)
    for other in (on, warm):
        assert other.rare_categories_ == whole.rare_categories_
        np.testing.assert_array_equal(other.decision_function(X), whole.decision_function(X))


@notices
def test_rounds_with_other_bins():
    """Each tree keeps to its own where max_bins was changed between two fits, and no file holds that."""
    X, y = rows()
    model = clone(BOOSTERS[0]).set_params(n_estimators=3, warm_start=True).fit(X, y)
    model.set_params(n_estimators=6, estimator__max_bins=6).fit(X, y)
    *_, staged = model.staged_decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X), staged)
    np.testing.assert_array_equal((model.decision_function(X) > 0) != y, model.margins(X, y) < 0)
    error = float(np.mean(model.predict(X) != y))
    assert error == pytest.approx(model.certificate_.measured_error)
    with pytest.raises(ValueError, match="max_bins was changed"):
        model.save("never.maboost")
    for export in (model.to_onnx, model.to_lightgbm):
        with pytest.raises(
            ValueError, match="in round 4 of this model they are others than in round 1"
        ):
            export()


@notices
def test_a_stream_finds_bins_in_every_round():
    X, y = rows(6000)
    batches = [(X[i : i + 500], y[i : i + 500]) for i in range(0, 6000, 500)]
    model = MadaBoostClassifier(TREE, n_estimators=3, random_state=0)
    model.fit_stream(iter(batches), sample_size=400)
    assert len(model) == 3
    held = [set(one.rare_categories_[1]) for one in model.estimators_]
    assert model.rare_categories_ == {1: sorted(set.union(*held))}
    *_, staged = model.staged_decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X), staged)


@notices
def test_a_hundred_thousand_levels():
    """Nothing grows with their number at a node or a round."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 100_000, 150_000).astype(float)
    code[:60_000] = rng.integers(0, 50, 60_000)
    X = np.column_stack([rng.normal(size=len(code)), code])
    y = ((code < 25) ^ (rng.random(len(code)) < 0.1)).astype(int)
    model = clone(BOOSTERS[0]).set_params(estimator__max_bins=255).fit(X, y)
    assert len(model.rare_categories_[1]) > 50_000
    assert max(len(c) for h in model.ensemble_.hypotheses for c in h.tree.categories) <= 255
    assert len(pickle.dumps(model.ensemble_.hypotheses)) < 2_000_000
    assert model.score(X, y) > 0.8


@notices
def test_the_report_says_so(tmp_path):
    X, y = rows()
    model = in_frames(BOOSTERS[0]).fit(as_frame(X), y)
    write_report(model, tmp_path / "r.html", X=as_frame(X), y=y)
    rare = len(model.rare_categories_["city"])
    text = (tmp_path / "r.html").read_text()
    assert f"Rare categories share a bin: {rare} of " in text


def test_trees_of_older_pickles_have_no_rare_categories():
    X, y = rows(levels=10)
    model = clone(BOOSTERS[0]).fit(X, y)
    expected = model.decision_function(X)
    old = pickle.loads(pickle.dumps(model))
    for hypothesis in old.ensemble_.hypotheses:
        del hypothesis.tree.__dict__["rare"]
    assert old.rare_categories_ == {}
    np.testing.assert_array_equal(old.decision_function(X), expected)
    np.testing.assert_array_equal(old.to_lightgbm().predict(X, raw_score=True), expected)
