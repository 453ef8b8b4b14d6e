"""Every table answers alike about the same rows, wherever they are."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from maboost.data.batches import BatchedTable, fingerprint_of
from maboost.data.categories import CategoryCodes
from maboost.data.parquet import ParquetTable
from maboost.learners.tree.table import MemoryTable, Table, as_table
from maboost.runtime import row_hash
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.threads import Threads

X = np.random.default_rng(0).normal(size=(300, 4)).round(1)
COMM, THREADS = SerialCommunicator(), Threads()


class Iterator:
    def __init__(self):
        self.reset()

    def reset(self):
        self.parts = iter([X[:100], X[100:]])

    def next(self):
        part = next(self.parts, None)
        return None if part is None else (part, None)


def parquet(folder):
    path = folder / "rows.parquet"
    pd.DataFrame(X, columns=list("abcd")).to_parquet(path)
    return ParquetTable.open(path, set())


def batched(folder):
    prints = tuple(fingerprint_of(part) for part in (X[:100], X[100:]))
    return BatchedTable(Iterator(), list("abcd"), 300, prints, CategoryCodes(dtypes={}))


TABLES = {
    "array": lambda folder: MemoryTable(X),
    "sparse": lambda folder: MemoryTable(sp.csr_array(X)),
    "parquet": parquet,
    "iterator": batched,
}


@pytest.fixture(params=TABLES)
def table(request, tmp_path):
    found = TABLES[request.param](tmp_path)
    assert isinstance(found, Table)
    assert as_table(found) is found
    return found


def test_hashes_are_of_the_content(table):
    np.testing.assert_array_equal(table.row_hashes(3), MemoryTable(X).row_hashes(3))
    assert np.any(table.row_hashes(3) != table.row_hashes(4))


def test_some_of_the_rows_are_those_rows(table):
    chosen = np.arange(300) % 3 == 1
    some = as_table(table.where(chosen))
    np.testing.assert_array_equal(some.row_hashes(0), MemoryTable(X[chosen]).row_hashes(0))


def test_bins_are_those_of_the_rows_in_memory(table):
    weights = np.random.default_rng(1).integers(1, 4, 300).astype(float)
    found, known = (t.binned(weights, 16, None, THREADS, COMM) for t in (table, MemoryTable(X)))
    np.testing.assert_array_equal(found.by_row, known.by_row)
    np.testing.assert_array_equal(found.by_column, known.by_column)


def test_a_sample_holds_the_rows_of_the_smallest_hashes(table, monkeypatch):
    monkeypatch.setattr(row_hash, "SAMPLE_ROWS", 50)
    rows, values = table.sampled(COMM)
    hashes = row_hash.hash_rows(X, THREADS)
    np.testing.assert_array_equal(np.sort(np.unique(hashes))[:50], np.unique(hashes[rows]))
    np.testing.assert_array_equal(values.toarray() if sp.issparse(values) else values, X[rows])


def test_the_contents_change_with_the_rows(table):
    assert repr(table.contents()) == repr(table.contents())
    fewer = as_table(table.where(np.arange(300) > 0))
    assert repr(fewer.contents()) != repr(table.contents())
