"""A sample held in memory: a fit from disk is the fit in memory, down to what it reads."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from maboost import SparseBoostClassifier


@pytest.mark.parametrize("classes", [2, 3])
def test_disk_and_memory_hold_the_same_samples(classes, tmp_path):
    X, y = make_classification(
        3000, 6, n_informative=4, n_redundant=0, n_classes=classes, random_state=0
    )
    table = pd.DataFrame(X, columns=list("abcdef"))
    pq.write_table(pa.Table.from_pandas(table.assign(label=y)), tmp_path / "rows.parquet")
    model = SparseBoostClassifier(
        n_estimators=15, learning_rate=1.0, max_depth=3, sparsity=0.8, random_state=0
    )
    memory = clone(model).fit(table, y)
    disk = clone(model).fit(str(tmp_path / "rows.parquet"), "label")
    np.testing.assert_array_equal(disk.decision_function(table), memory.decision_function(table))
    np.testing.assert_array_equal(disk.distribution_, memory.distribution_)
    for column in ("edge", "step", "rows_used", "bytes_read"):
        np.testing.assert_array_equal(disk.history_[column], memory.history_[column])
    drawn = disk.history_["bytes_read"] % 3000 != 0  # columns of all rows, or also a new sample
    assert drawn[0]
    assert 1 < drawn.sum() < 15
