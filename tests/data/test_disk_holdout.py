"""Rows held out of files that are trained on: those of the fit in memory, and the same model."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.data.test_stored import BOOSTERS, FEATURES, Batches, assert_same, frame, write

from maboost import SmoothBoostClassifier
from maboost.data import OnDisk, binned, parquet
from maboost.learners.tree import learner

STOPPING = {"early_stopping": True, "n_iter_no_change": 4, "n_estimators": 40, "random_state": 0}


def assert_watched_alike(disk, memory):
    assert len(memory.history_) > memory.n_iter_ > 0  # it was stopped
    for column in ("edge", "val_error", "val_score", "rows_used"):
        np.testing.assert_array_equal(disk.history_[column], memory.history_[column])
    assert disk.n_iter_ == memory.n_iter_


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_early_stopping_on_disk_and_in_memory_agree(name, classes, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH", 128)
    table = frame(classes=classes)
    folder = write(table, tmp_path / "rows")
    model = clone(BOOSTERS[name]).set_params(**STOPPING)
    combined = name.startswith("combined")
    X = table[FEATURES] if combined else table[[*FEATURES, "source"]]
    given = {"sample_domain": table["source"]} if combined else {}
    named = {"sample_domain": "source"} if combined else {}
    memory = clone(model).fit(X, table["label"], sample_weight=table["weight"], **given)
    disk = clone(model).fit(folder, "label", sample_weight="weight", **named)
    assert_same(disk, memory, X)
    assert_watched_alike(disk, memory)
    weightless = table["weight"].to_numpy() == 0.0
    held = (memory.distribution_ == 0.0) & ~weightless
    assert held.any()
    assert not held.all()


@pytest.mark.parametrize("name", ["entropy", "smooth", "budget", "mada"])
def test_an_iterator_and_memory_hold_out_the_same_rows(name):
    table = frame()
    X, y = table[["a", "b", "c"]].to_numpy(), table["label"].to_numpy(dtype=str)
    weights = table["weight"].to_numpy()
    model = clone(BOOSTERS[name]).set_params(**STOPPING)
    memory = clone(model).fit(X, y, sample_weight=weights)
    disk = clone(model).fit(Batches(X, y, weights), None)
    assert_same(disk, memory, X)
    assert_watched_alike(disk, memory)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_log_loss"])
def test_any_score_is_watched(scoring, tmp_path):
    table = frame()[[*FEATURES, "label"]]
    folder = write(table, tmp_path / "rows")
    model = SmoothBoostClassifier(scoring=scoring, validation_fraction=0.3).set_params(**STOPPING)
    memory = clone(model).fit(table[FEATURES], table["label"])
    disk = clone(model).fit(folder, "label")
    assert_same(disk, memory, table[FEATURES])
    assert_watched_alike(disk, memory)


def test_whole_groups_by_the_name_of_their_column(tmp_path):
    table = frame()[[*FEATURES, "label"]]
    table["patient"] = np.random.default_rng(0).integers(0, 60, len(table))
    folder = write(table, tmp_path / "rows")
    model = SmoothBoostClassifier(smoothness=3.0).set_params(**STOPPING)
    memory = clone(model).fit(table[FEATURES], table["label"], groups=table["patient"])
    disk = clone(model).fit(folder, "label", groups="patient")
    assert_same(disk, memory, table[FEATURES])
    assert disk.feature_names_in_.tolist() == FEATURES
    with pytest.raises(ValueError, match="groups is the name of a column, got Series"):
        model.fit(folder, "label", groups=table["patient"])


def test_the_rows_held_out_are_bins_on_disk(tmp_path, monkeypatch):
    """A kept cache holds them too, and the next fit reads no values for them."""
    table = frame()[[*FEATURES, "label"]]
    folder, cache = write(table, tmp_path / "rows"), tmp_path / "cache"
    model = SmoothBoostClassifier(smoothness=3.0).set_params(**STOPPING)
    written, asked = [], []
    write_files, scores = binned.Cache._write, learner.TreeHypothesis.scores

    def counted(self, rows, *arguments):
        written.append(rows.rows)
        return write_files(self, rows, *arguments)

    def seen(self, X):
        asked.append(type(X))
        return scores(self, X)

    monkeypatch.setattr(binned.Cache, "_write", counted)
    monkeypatch.setattr(learner.TreeHypothesis, "scores", seen)
    first, second = (clone(model).fit(OnDisk(folder, cache), "label") for _ in range(2))
    assert set(asked) == {learner.Binned}
    trained, held = written
    assert trained + held == len(table)
    (home,) = (cache / "watching").iterdir()
    assert (home / "columns.bin").stat().st_size == held * len(FEATURES)
    np.testing.assert_array_equal(first.distribution_, second.distribution_)


def test_a_temporary_cache_of_held_out_rows_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = write(frame()[[*FEATURES, "label"]], tmp_path / "rows")
    SmoothBoostClassifier(smoothness=3.0).set_params(**STOPPING).fit(folder, "label")
    assert [p.name for p in tmp_path.iterdir()] == ["rows"]


def test_a_checkpoint_goes_on_with_the_same_rows_held_out(tmp_path):
    table = frame()[[*FEATURES, "label"]]
    folder = write(table, tmp_path / "rows")
    model = SmoothBoostClassifier(smoothness=3.0).set_params(**STOPPING)
    whole = clone(model).fit(table[FEATURES], table["label"])
    file = tmp_path / "run.ckpt"
    model.set_params(checkpoint=file, checkpoint_every=1)
    clone(model).set_params(n_estimators=3).fit(folder, "label")
    resumed = clone(model).set_params(resume=True).fit(folder, "label")
    assert_same(resumed, whole, table[FEATURES])
    assert_watched_alike(resumed, whole)
