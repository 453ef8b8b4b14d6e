"""Whole numbers beyond 2**53 are rounded to floats, and a fit says so; others pass without a word."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.tree import DecisionTreeClassifier
from tests.cli.command import run
from tests.distributed.shards import fit_shards

from maboost import HistTreeClassifier, MABoostClassifier
from maboost.data import OnDisk

LARGE, SMALL = 2**53 + 1, 2**53
ROWS = np.arange(60)
Y = ROWS % 2


def model():
    return MABoostClassifier(n_estimators=2, random_state=0)


def columns(top, dtype=np.int64):
    ids = (top - ROWS.astype(np.uint64)).astype(dtype) if top > 0 else top + ROWS.astype(dtype)
    return {"x": ROWS, "id": ids, "n": ROWS[::-1] % 7}


def frames(top):
    held = columns(top)
    yield pd.DataFrame(held)
    yield pd.DataFrame(held).astype("Int64").where(pd.DataFrame(dict.fromkeys(held, ROWS != 3)))
    yield pl.DataFrame(held)
    yield pa.table(held)


@pytest.mark.parametrize("top", [LARGE, -LARGE])
def test_the_column_of_a_frame_is_named(top):
    for frame in frames(top):
        with pytest.warns(UserWarning, match="column 'id' of X: .* beyond 2[*][*]53") as caught:
            model().fit(frame, Y)
        assert len(caught) == 1


@pytest.mark.parametrize("top", [SMALL, -SMALL, 10**6])
def test_numbers_that_floats_hold_pass_without_a_word(top):
    for frame in frames(top):
        model().fit(frame, Y)
    model().fit(np.column_stack([*columns(top).values()]), Y)
    model().fit(pd.DataFrame({"a": pd.Series([pd.NA] * 60, dtype="Int64"), "b": ROWS}), Y)
    model().fit(pd.DataFrame(columns(top)).astype(float) * 1e6, Y)


def test_arrays_sparse_matrices_and_single_trees():
    X = np.column_stack([*columns(LARGE).values()])
    for rows in (X, sp.csr_matrix(X), X.astype(np.uint64)):
        for estimator in (model(), HistTreeClassifier()):
            with pytest.warns(UserWarning, match="column 1 of X"):
                estimator.fit(rows, Y)
    both = np.column_stack([X[:, 1], X[:, 1]])
    with pytest.warns(UserWarning, match="columns 0, 1 of X"):
        model().fit(both, Y)


def test_ids_as_text_are_categories_and_need_no_warning():
    ids = pd.Series(np.array([LARGE, LARGE - 1])[Y]).astype(str)
    fitted = model().fit(pd.DataFrame({"id": ids}), Y)
    assert fitted.score(pd.DataFrame({"id": ids}), Y) == 1.0


def test_another_estimator_sees_the_rows_as_they_are():
    other = DecisionTreeClassifier(max_depth=1)
    MABoostClassifier(other, n_estimators=2).fit(pd.DataFrame(columns(LARGE)), Y)


def test_every_shard_is_warned_of_a_value_in_one():
    X = np.column_stack([*columns(SMALL).values()])
    X[-1, 1] = -LARGE
    parts = [np.arange(0, 30), np.arange(30, 60)]
    with pytest.warns(UserWarning, match="column 1 of X") as caught:
        fit_shards(model(), parts, X, Y)
    assert len(caught) == 2


@pytest.mark.parametrize("statistics", [True, False])
def test_files_on_disk(tmp_path, statistics):
    for name, top in (("large", LARGE), ("small", SMALL)):
        pq.write_table(
            pa.table(columns(top) | {"y": Y}), tmp_path / f"{name}.parquet", row_group_size=20,
            write_statistics=statistics,
        )  # fmt: skip
    with pytest.warns(UserWarning, match="column 'id' of X"):
        model().fit(OnDisk(tmp_path / "large.parquet"), "y")
    model().fit(OnDisk(tmp_path / "small.parquet"), "y")


def test_the_command_line_says_what_to_do(tmp_path):
    data = tmp_path / "rows.csv"
    pd.DataFrame(columns(LARGE) | {"label": Y}).to_csv(data, index=False)
    said = run("train", data, "--rounds", 2, "--quiet").stderr
    assert "maboost: column 'id' of X: some whole numbers are beyond 2**53" in said
    assert "--categorical" in said
    assert "2**53" not in run("train", data, "--rounds", 2, "--drop", "id").stderr
    as_text = run("train", data, "--rounds", 2, "--categorical", "id")
    assert as_text.returncode == 0
    assert "2**53" not in as_text.stderr
