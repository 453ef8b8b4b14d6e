"""Sparse tables: only entries that are not in the bin of zero are stored and counted.

A column that has few such entries is *sparse*. Its entries are stored twice: by row, as the cells of a
histogram that the row adds to, and by column. A sparse column has a cell for each of its bins and one for missing
values. The cell of the bin of zero stays empty: its sum is what the other cells of the column leave of the sum
of the node, which is exact, since sums are integers. A column of nothing but zeros has no cells. Columns with
more entries are bytes, as those of dense tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.learners.tree.binning import Bins, bins_of_entries
from maboost.learners.tree.layout import BIN, CELL_INDEX, MISSING_BIN, ROW_INDEX
from maboost.runtime.communicator import Communicator, global_count
from maboost.runtime.kernels import kernel

__all__ = ["SparseColumns", "SparseLayout", "column_bins", "sparse_cells"]

_ROWS_PER_ENTRY = 4  # an entry takes nine bytes, and a row of a dense column two


class SparseLayout(NamedTuple):
    """Where the cells of all columns are; the first fields of :class:`SparseColumns`."""

    place: NDArray[np.int32]
    first: NDArray[np.int64]
    zero: NDArray[np.uint8]


class SparseColumns(NamedTuple):
    """The entries of the sparse columns, and where the cells of all columns are.

    Attributes
    ----------
    place : array of shape (columns,)
        The number of a column among the dense ones; -1 for the others.
    first : array of shape (columns + 1,)
        The first cell of a column. One that has no cells up to the next column's is dense or constant.
    zero : array of shape (columns,)
        The bin of zero.
    starts, rows, bins : arrays
        By column: where its entries begin, their rows in order, and their bins.
    row_starts, row_cells : arrays
        By row: where its entries begin, and their cells.
    """

    place: NDArray[np.int32]
    first: NDArray[np.int64]
    zero: NDArray[np.uint8]
    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    bins: NDArray[np.uint8]
    row_starts: NDArray[np.int64]
    row_cells: NDArray[np.uint32]

    @property
    def layout(self) -> SparseLayout:
        """The arrays that a search for splits reads; kernels pass each array of a tuple, so it has no others."""
        return SparseLayout(self.place, self.first, self.zero)

    @property
    def cells(self) -> int:
        """Cells of a histogram, the last of which counts all rows."""
        return int(self.first[-1]) + 1

    @property
    def entries_per_row(self) -> int:
        """The mean number of entries of a row, rounded up."""
        return -(-len(self.rows) // max(len(self.row_starts) - 1, 1))

    def taken(self, rows: NDArray[np.intp]) -> SparseColumns:
        """The same of some rows, in rising order."""
        number = np.full(len(self.row_starts) - 1, -1, dtype=np.int64)
        number[rows] = np.arange(len(rows))
        places = number[self.rows]
        kept = places >= 0
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        return self._with_entries(starts, places[kept], self.bins[kept], len(rows))

    def _with_entries(
        self, starts: NDArray[Any], rows: NDArray[Any], bins: NDArray[np.uint8], n: int
    ) -> SparseColumns:
        """The same columns with other entries, which are given by column."""
        missing = np.diff(self.first) - 1
        column = np.repeat(np.arange(len(self.place)), np.diff(starts))
        cells = self.first[column] + np.where(bins == MISSING_BIN, missing[column], bins)
        shape = n, len(self.place)
        by_row = sp.csc_array((cells.astype(CELL_INDEX), rows, starts), shape=shape).tocsr()
        return self._replace(
            starts=np.asarray(starts, dtype=np.int64),
            rows=rows.astype(ROW_INDEX),
            bins=bins,
            row_starts=by_row.indptr.astype(np.int64),
            row_cells=by_row.data,
        )

    def write(self, feature: int, out: NDArray[np.uint8]) -> None:
        """Write the bins of all rows in a column that is not dense."""
        some = slice(self.starts[feature], self.starts[feature + 1])
        out[:] = self.zero[feature]
        out[self.rows[some]] = self.bins[some]

    @classmethod
    def of(
        cls, table: Any, bins: Bins, comm: Communicator, all_dense: bool
    ) -> tuple[SparseColumns, NDArray[np.uint8]]:
        """Bin a CSC matrix; also returns the bins of the dense columns, a row of the array each.

        All shards agree on which columns are sparse. With `all_dense` none is, and shards exchange nothing.
        """
        n, columns = table.shape
        found, zero = bins_of_entries(table, bins)
        column = np.repeat(np.arange(columns), np.diff(table.indptr))
        stored = found != zero[column]
        counts = np.bincount(column[stored], minlength=columns)
        if all_dense:
            everywhere, is_dense = counts, np.ones(columns, dtype=bool)
        else:
            everywhere = comm.allreduce(counts, "sum")
            is_dense = everywhere * _ROWS_PER_ENTRY > global_count(n, comm)
        is_sparse = ~is_dense & (everywhere > 0)
        by_column = np.empty((int(is_dense.sum()), n), dtype=BIN)
        for out, j in zip(by_column, np.flatnonzero(is_dense).tolist(), strict=True):
            some = slice(table.indptr[j], table.indptr[j + 1])
            out[:] = zero[j]
            out[table.indices[some]] = found[some]
        place = np.where(is_dense, np.cumsum(is_dense) - 1, -1).astype(np.int32)
        first = np.concatenate([[0], np.cumsum(np.where(is_sparse, bins.counts + 1, 0))])
        none = np.empty(0, dtype=np.int64)
        empty = cls(
            place, first, zero, none, none.astype(ROW_INDEX), none.astype(BIN), none,
            none.astype(CELL_INDEX),
        )  # fmt: skip
        stored &= is_sparse[column]
        starts = np.concatenate([[0], np.cumsum(np.where(is_sparse, counts, 0))])
        sparse = empty._with_entries(starts, table.indices[stored], found[stored], n)
        return sparse, by_column


@kernel
def sparse_cells(sparse):
    """Cells of a histogram that sparse columns take; none where no column may be sparse."""
    if sparse is None:
        return 0
    return sparse.first[sparse.first.size - 1] + 1


@kernel
def column_bins(by_column, sparse, feature, rows, room):
    """Return the bins of a column, by row; for a sparse column only those of `rows`, in rising order.

    They are written to `room`, which has a place for each row: nodes of one level do not share rows.
    """
    if sparse is None:
        return by_column[feature]
    if sparse.place[feature] >= 0:
        return by_column[sparse.place[feature]]
    at, stop = sparse.starts[feature], sparse.starts[feature + 1]
    if rows.size > 0:
        at += np.searchsorted(sparse.rows[at:stop], rows[0])
    for j in range(rows.size):
        row = rows[j]
        while at < stop and sparse.rows[at] < row:
            at += 1
        is_stored = at < stop and sparse.rows[at] == row
        room[row] = sparse.bins[at] if is_stored else sparse.zero[feature]
    return room
