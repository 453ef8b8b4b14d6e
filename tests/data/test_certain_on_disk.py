"""Samples as large as the data ask for: a fit from disk is the fit in memory, down to what it reads."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from tests.boosting.row_sampling.test_adaptive import BOOSTERS, clear_rows
from tests.data.test_stored import assert_same

NAMES = [f"x{j}" for j in range(40)]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    X, y = clear_rows(30_000)
    table = pa.table(dict(zip(NAMES, X.T, strict=True)) | {"y": y})
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table, path)
    return path, table.select(NAMES), y


@pytest.mark.parametrize("name", BOOSTERS)
def test_disk_and_memory_agree(name, rows):
    path, X, y = rows
    model = clone(BOOSTERS[name]).set_params(n_estimators=7, random_state=0, trim="certain")
    memory = clone(model).fit(X, y)
    disk = clone(model).fit(path, "y")
    assert_same(disk, memory, X)
    for column in ("edge", "rows_used", "bytes_read"):
        np.testing.assert_array_equal(disk.history_[column], memory.history_[column])
    assert disk.history_["rows_used"].min() < 0.02 * len(y)


def test_a_held_sample_reads_only_the_columns_of_the_tree(rows):
    path, _, y = rows
    model = clone(BOOSTERS["smooth"]).set_params(trim="certain", n_estimators=4, random_state=0)
    history = model.fit(path, "y").history_
    columns = [
        np.unique(h.tree.feature[h.tree.feature >= 0]).size for h in model.ensemble_.hypotheses
    ]
    used, read = history["rows_used"], history["bytes_read"]
    kept = [t for t in range(1, 4) if used[t] == used[t - 1]]
    assert kept
    assert [read[t] for t in kept] == [len(y) * columns[t] for t in kept]


def test_a_checkpoint_goes_on_with_the_sample(rows, tmp_path):
    path, X, y = rows
    model = clone(BOOSTERS["smooth"]).set_params(n_estimators=9, random_state=0, trim="certain")
    whole = clone(model).fit(X, y)
    model.set_params(checkpoint=tmp_path / "fit", checkpoint_every=1)
    for rounds in (2, 6):
        clone(model).set_params(n_estimators=rounds).fit(path, "y")
        resumed = clone(model).set_params(resume=True).fit(path, "y")
        assert_same(resumed, whole, X)
        for column in ("rows_used", "bytes_read"):  # at first the sample is read anew
            later = slice(rounds + 1, None)
            np.testing.assert_array_equal(
                resumed.history_[column][later], whole.history_[column][later]
            )
