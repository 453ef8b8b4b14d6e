"""A fit in shards that stopped goes on to the bits of one that did not, in other shards too."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from tests.distributed.shards import BOOSTERS, assert_same, fit_shards, shares, table

from maboost import CheckpointError, HistTreeClassifier, MABoostClassifier


def rows_of(name, n):
    rng = np.random.default_rng(3)
    rows = {"sample_weight": rng.integers(1, 4, n) * 1.0}
    if name.startswith("combined"):
        rows["sample_domain"] = rng.choice(["a", "b", "c"], n)
    return rows


@pytest.mark.parametrize("name", BOOSTERS)
def test_any_booster_goes_on_in_other_shards(name, tmp_path):
    X, y = table(300, classes=3 if name in ("mada", "smooth") else 2)
    rows = rows_of(name, len(y))
    rng = np.random.default_rng(0)
    model = clone(BOOSTERS[name]).set_params(n_estimators=7)
    whole = clone(model).fit(X, y, **rows)
    model.set_params(checkpoint=tmp_path / "fit", checkpoint_every=2)
    fit_shards(clone(model).set_params(n_estimators=4), shares(300, 2, rng), X, y, **rows)
    for shard in fit_shards(model.set_params(resume=True), shares(300, 3, rng), X, y, **rows):
        assert_same(shard, whole)


def test_samples_that_the_data_ask_for(tmp_path):
    X, y = table(20_000)
    rng = np.random.default_rng(0)
    model = clone(BOOSTERS["certain"]).set_params(n_estimators=8)
    whole = clone(model).fit(X, y)
    used = whole.history_["rows_used"]
    assert np.all(used[:6] < 0.2 * len(y))
    assert np.all(used[6:] == len(y))
    model.set_params(checkpoint=tmp_path / "fit", checkpoint_every=1)
    for rounds in (3, 5, 7):
        fit_shards(clone(model).set_params(n_estimators=rounds), shares(len(y), 2, rng), X, y)
        again = clone(model).set_params(resume=True)
        for shard in fit_shards(again, shares(len(y), 3, rng), X, y):
            assert_same(shard, whole)


def test_random_features_and_held_out_rows(tmp_path):
    X, y = table(300)
    rng = np.random.default_rng(0)
    model = MABoostClassifier(
        HistTreeClassifier(max_features=2, max_depth=4), n_estimators=9, early_stopping=True,
        random_state=5, n_iter_no_change=20,
    )  # fmt: skip
    whole = clone(model).fit(X, y)
    model.set_params(checkpoint=tmp_path / "fit", checkpoint_every=1)
    fit_shards(clone(model).set_params(n_estimators=3), shares(300, 3, rng), X, y)
    for shard in fit_shards(model.set_params(resume=True), shares(300, 2, rng), X, y):
        assert_same(shard, whole)


def test_begins_anew_without_a_file(tmp_path):
    X, y = table(200)
    model = MABoostClassifier(n_estimators=3, random_state=0)
    whole = clone(model).fit(X, y)
    model.set_params(checkpoint=tmp_path / "fit", resume=True)
    for shard in fit_shards(model, shares(200, 2, np.random.default_rng(0)), X, y):
        assert_same(shard, whole)


@pytest.fixture
def begun(tmp_path):
    X, y = table(200)
    model = MABoostClassifier(n_estimators=3, random_state=0, checkpoint=tmp_path / "fit")
    fit_shards(model, shares(200, 2, np.random.default_rng(0)), X, y)
    return model.set_params(resume=True, n_estimators=5), X, y


def test_other_rows_are_refused(begun):
    model, X, y = begun
    with pytest.raises(ValueError, match=r"of another fit: .* round 1 had an edge"):
        fit_shards(model, shares(200, 2, np.random.default_rng(0)), X + 0.0, 1 - y)


def test_another_booster_is_refused(begun):
    model, X, y = begun
    parts = shares(200, 2, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"is of another fit: trim was 0\.0 and is now 0\.1"):
        fit_shards(clone(model).set_params(trim=0.1), parts, X, y)
    with pytest.raises(ValueError, match="is of another fit: max_depth was 3 and is now 2"):
        fit_shards(clone(model).set_params(estimator=HistTreeClassifier(max_depth=2)), parts, X, y)


def test_a_damaged_file_is_refused(begun):
    model, X, y = begun
    content = bytearray(model.checkpoint.read_bytes())
    content[-1] ^= 1
    model.checkpoint.write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        fit_shards(model, shares(200, 2, np.random.default_rng(0)), X, y)


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_fit_moves_between_one_machine_and_shards(name, tmp_path):
    X, y = table(300)
    rows = rows_of(name, len(y))
    rng = np.random.default_rng(0)
    model = clone(BOOSTERS[name]).set_params(n_estimators=9)
    whole = clone(model).fit(X, y, **rows)
    model.set_params(checkpoint=tmp_path / "fit", checkpoint_every=1, resume=True)
    clone(model).set_params(n_estimators=2).fit(X, y, **rows)
    fit_shards(clone(model).set_params(n_estimators=4), shares(300, 2, rng), X, y, **rows)
    clone(model).set_params(n_estimators=6).fit(X, y, **rows)
    for shard in fit_shards(model, shares(300, 3, rng), X, y, **rows):
        assert_same(shard, whole)
    assert_same(model.fit(X, y, **rows), whole)


def test_other_rows_are_refused_on_one_machine(begun):
    model, X, y = begun
    with pytest.raises(CheckpointError, match=r"of another fit: .* round 1 had an edge"):
        clone(model).fit(X, 1 - y)
