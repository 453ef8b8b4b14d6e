"""A fit in shards has the bits of the fit on one machine: shards are threads here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier
from tests.distributed.shards import BOOSTERS, assert_same, fit_shards, shares, table, take
from tests.helpers import on_shards

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.runtime import row_hash


def check(model, count, X, y, seed=0, **rows):
    return check_parts(model, [shares(len(y), count, np.random.default_rng(seed))], X, y, **rows)


def check_parts(model, divisions, X, y, **rows):
    """Every shard of every division has the model of all rows."""
    whole = clone(model).fit(X, y, **rows)
    for parts in divisions:
        for shard in fit_shards(model, parts, X, y, **rows):
            assert_same(shard, whole)
    return whole


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("name", BOOSTERS)
def test_every_booster(name, count):
    X, y = table()
    rows = {"sample_weight": np.random.default_rng(1).integers(0, 4, len(y)) * 0.7}
    if name.startswith("combined"):
        rows["sample_domain"] = np.random.default_rng(2).choice(["a", "b", "c"], len(y))
    check(BOOSTERS[name], count, X, y, seed=count, **rows)


@pytest.mark.parametrize("name", BOOSTERS)
def test_more_classes(name):
    X, y = table(classes=3)
    rows = {}
    if name.startswith("combined"):
        rows["sample_domain"] = np.random.default_rng(2).choice(["a", "b", "c"], len(y))
    check(BOOSTERS[name], 3, X, np.array(["low", "middle", "highest"])[y], **rows)


@pytest.mark.parametrize("seed", range(8))
def test_any_partitioning(seed):
    """Early stopping included: the same rows are held out and the same round is the best."""
    rng = np.random.default_rng(seed)
    X, y = table(int(rng.integers(60, 500)), seed=seed)
    model = MABoostClassifier(
        n_estimators=25, early_stopping=True, n_iter_no_change=3, random_state=seed,
        class_weight="balanced", scoring=("accuracy", "neg_log_loss")[seed % 2],
    )  # fmt: skip
    check(model, int(rng.integers(2, 6)), X, y, seed=seed)


@pytest.mark.parametrize("classes", [2, 3])
def test_given_validation_rows(classes):
    X, y = table(500, classes)
    model = MABoostClassifier(n_estimators=12, early_stopping=True, random_state=0)
    rows = {
        "X_val": X[400:403],
        "y_val": y[400:403],
        "sample_weight_val": np.array([1.0, 2.0, 0.0]),
    }
    check(model, 4, X[:400], y[:400], **rows)  # of four shards two have a row that watches


def test_groups_are_held_out_together():
    X, y = table(300)
    model = MABoostClassifier(n_estimators=6, early_stopping=True, random_state=0)
    check(model, 3, X, y, groups=np.arange(300) % 40)


@pytest.mark.parametrize(
    "tree",
    [
        HistTreeClassifier(max_depth=None, max_leaf_nodes=9, min_samples_leaf=5),
        HistTreeClassifier(max_depth=5, max_features=3, max_bins=16),
        HistTreeClassifier(max_depth=2, response="sign"),
        HistTreeClassifier(max_depth=3, monotonic_cst=[1, 0, 0, 0, 0, -1]),
    ],
)
def test_kinds_of_trees(tree):
    check(MABoostClassifier(tree, n_estimators=6, random_state=3), 3, *table())


def test_tables_with_categories():
    """Every shard sees some of the categories; one column is missing altogether in some shards."""
    X, y = table(200)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    frame["text"] = rng.choice(["red", "green", "blue", None], 200)
    frame["ordered"] = pd.Categorical(
        rng.choice(["small", "large", "huge"], 200), ["small", "medium", "large", "huge"], True
    )
    frame["rare"] = np.where(np.arange(200) < 30, "there", None)
    model = MABoostClassifier(n_estimators=6, random_state=0)
    whole = check(model, 4, frame, pd.Series(y))
    assert whole._codes.categories["ordered"] == ["small", "large", "huge"]
    parts = [np.arange(30), np.arange(30, 200)]
    for shard in fit_shards(model, parts, frame, pd.Series(y)):
        assert_same(shard, whole)


def test_trees_that_ask_for_several_sets_of_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"text": rng.choice(list("abcdefghij"), 300), "more": rng.choice(list("xyz"), 300)}
    )
    y = frame["text"].isin(list("acf")) ^ (frame["more"] == "x") ^ (rng.random(300) < 0.1)
    whole = check(MABoostClassifier(n_estimators=4, random_state=0), 3, frame, y)
    assert len({len(some) for some in whole.ensemble_.hypotheses[0].tree.categories}) > 1


def test_a_column_of_two_kinds_is_refused():
    frame, y = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}), np.array([0, 1, 0, 1])
    text = pd.DataFrame({"a": ["1", "2", "3", "4"]})

    def X_of(rank):
        return (frame, text)[rank]

    def work(comm):
        model = MABoostClassifier()
        model._comm = comm
        with pytest.raises(ValueError, match="column 'a' is Float64 in one partition and String"):
            model.fit(X_of(comm.rank), y)

    on_shards(2, work)


def test_sparse_rows():
    X, y = table(300)
    check(MABoostClassifier(n_estimators=5, random_state=0), 3, sp.csr_matrix(np.nan_to_num(X)), y)


@pytest.mark.parametrize("seed", range(4))
def test_bins_of_a_sample(monkeypatch, seed):
    """Above the limit the bins come from the rows of the smallest hashes over all shards."""
    monkeypatch.setattr(row_hash, "SAMPLE_ROWS", 120)
    X, y = table(300, seed=seed)
    again = np.random.default_rng(seed).integers(0, 300, 500)  # contents on several shards
    rows = {"sample_weight": np.random.default_rng(5).integers(1, 4, 500) * 1.0}
    model = (MABoostClassifier, BOOSTERS["smooth-auto"].__class__)[seed % 2]
    check(model(n_estimators=5, random_state=0), 2 + seed, X[again], y[again], seed, **rows)


def test_fewer_contents_than_the_sample(monkeypatch):
    monkeypatch.setattr(row_hash, "SAMPLE_ROWS", 120)
    X, y = table(100)
    again = np.random.default_rng(0).integers(0, 100, 500)
    check(MABoostClassifier(n_estimators=5, random_state=0), 3, X[again], y[again])


def test_shards_of_one_class_and_empty_ones():
    X, y = table(200)
    parts = [np.flatnonzero(y == 1), np.arange(0), np.flatnonzero(y == 0)]
    model = MABoostClassifier(n_estimators=6, random_state=0, early_stopping=True)
    check_parts(model, [parts], X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
def test_sources_that_have_a_shard_each(regularizer, classes):
    """One shard has rows without a cap and another has none: they must not ask for different things."""
    X, y = table(120, classes)
    source = np.repeat(["trusted", "scraped"], 60)
    model = CombinedBoostClassifier(
        n_estimators=4, error_limits={"trusted": None, "scraped": 0.2}, regularizer=regularizer,
        random_state=0,
    )  # fmt: skip
    divisions = [np.arange(60), np.arange(60, 120)], [np.arange(120), np.arange(0)]
    check_parts(model, divisions, X, y, sample_domain=source)


def test_a_cap_that_the_rows_of_one_shard_come_near():
    """A cap far above what the other rows can weigh; a shard without rows is a shard without such ones."""
    X, y = table(60)
    weight = np.repeat([1e-15, 1.0], 30)
    model = SmoothBoostClassifier(n_estimators=3, smoothness=1e17, random_state=0)
    divisions = [np.arange(30), np.arange(30, 60)], [np.arange(60), np.arange(0)]
    check_parts(model, divisions, X, y, sample_weight=weight)


def test_a_sample_without_a_row_of_some_shard():
    """Most rows are in the sample; of a shard of one row often none is, and it reads nothing all the same."""
    X, y = table(80)
    model = SparseBoostClassifier(n_estimators=8, sparsity=0.1, random_state=0)
    divisions = [[np.array([j]), np.delete(np.arange(80), j)] for j in range(0, 80, 11)]
    check_parts(model, divisions, X, y)


def test_one_class_in_all():
    X, y = table(60)
    check(MABoostClassifier(), 3, X, np.zeros_like(y))


def test_weights_and_classes_by_dictionary():
    X, y = table(200, classes=3)
    model = MABoostClassifier(n_estimators=5, class_weight={0: 2.0, 2: 0.5}, random_state=0)
    check(model, 3, X, y)
    with pytest.raises(ValueError, match=r"class_weight names \[7\], which are not in y"):
        fit_shards(
            MABoostClassifier(class_weight={7: 1.0}), shares(200, 2, np.random.default_rng(0)), X, y
        )


def test_no_rows_at_all():
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        fit_shards(MABoostClassifier(), [np.arange(0)] * 2, *table(10))


def test_a_round_says_little():
    """Messages are what more workers wait for: 3 histograms, 6 or 7 passes of the step, 6 others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=6000) > 0).astype(int)

    def messages(rounds):
        def work(comm):
            said, original = [], comm._swap
            comm._swap = lambda *args: said.append(args[0]) or original(*args)
            model = SmoothBoostClassifier(
                HistTreeClassifier(min_weight_fraction_leaf=1e-6), n_estimators=rounds,
                smoothness=4.0, random_state=0,
            )  # fmt: skip
            model._comm = comm
            model.fit(X[comm.rank :: 2], y[comm.rank :: 2])
            return len(said)

        (found,) = set(on_shards(2, work))
        return found

    assert (messages(22) - messages(2)) / 20 <= 15.5


def test_one_clock_stops_all(monkeypatch):
    """Shards whose clocks differ still do the same number of rounds."""
    X, y = table(200)
    model = MABoostClassifier(n_estimators=10_000, max_seconds=0.2, random_state=0)
    shards = fit_shards(model, shares(200, 3, np.random.default_rng(0)), X, y)
    assert len({shard.n_iter_ for shard in shards}) == 1
    assert "max_seconds" in shards[0].certificate_.stopped


def test_what_needs_all_rows_is_refused():
    X, y = table(100)
    parts = shares(100, 2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="DecisionTreeClassifier must be given all rows"):
        fit_shards(MABoostClassifier(DecisionTreeClassifier(max_depth=1)), parts, X, y)
    with pytest.raises(ValueError, match="scoring='roc_auc' needs all validation rows"):
        fit_shards(MABoostClassifier(early_stopping=True, scoring="roc_auc"), parts, X, y)


def test_per_row_evidence_stays_with_its_shard():
    X, y = table(200)
    parts = shares(200, 3, np.random.default_rng(0))
    whole = MABoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    for part, shard in zip(
        parts,
        fit_shards(MABoostClassifier(n_estimators=5, random_state=0), parts, X, y),
        strict=True,
    ):
        np.testing.assert_array_equal(shard.distribution_, take(whole.distribution_, part))
