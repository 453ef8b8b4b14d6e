"""A copy of some rows, for rounds that read no others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.grower import Binned
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for
from maboost.runtime.threads import Threads

__all__ = ["Resident"]

_STRIP = 1 << 10  # rows that stay in the cache while they are transposed


@kernel
def _copy_chunk(table, rows, held, at, known, by_row, by_column, size, chunk, slot):
    """Copy rows, a strip at a time: known rows from the copy that is held, the others from the table."""
    columns, stop = by_row.shape[1], min((chunk + 1) * size, rows.size)
    for a in range(chunk * size, stop, _STRIP):
        b = min(a + _STRIP, stop)
        for i in range(a, b):
            for j in range(columns):
                by_row[i, j] = held[at[i], j] if known[i] else table[rows[i], j]
        for j in range(columns):
            for i in range(a, b):
                by_column[j, i] = by_row[i, j]


@kernel
def _copy(team, table, rows, held, at, known, by_row, by_column):
    chunks, size = chunks_of(team, rows.size, _STRIP)
    args = (table, rows, held, at, known, by_row, by_column, size)
    parallel_for(team, chunks, _copy_chunk, args)


@dataclass(frozen=True, eq=False)
class Resident:
    """Rows of a table, by number, and a copy of their bins and labels in memory.

    The table may be a file mapped into memory that does not fit there; growing a tree on the copy
    reads none of it.

    Attributes
    ----------
    rows : array, rising
    data : Binned
    labels : array
    bytes : int
        The bytes read from the table.
    """

    rows: NDArray[np.intp]
    data: Binned
    labels: NDArray[np.uint8]
    bytes: int

    @classmethod
    def of(
        cls,
        rows: NDArray[np.intp],
        data: Binned,
        labels: NDArray[np.uint8],
        threads: Threads,
        old: Resident | None = None,
    ) -> Resident:
        """Read these rows once, by row; copy from `old` the rows that it has."""
        old = old if old is not None and old.rows.size else None
        columns = data.by_row.shape[1]
        by_row = np.empty((len(rows), columns), dtype=np.uint8)
        by_column = np.empty((columns, len(rows)), dtype=np.uint8)
        known, held, at = np.zeros(len(rows), dtype=bool), by_row, rows
        if old is not None:
            at = np.minimum(np.searchsorted(old.rows, rows), len(old.rows) - 1)
            known, held = old.rows[at] == rows, old.data.by_row
        threads.run(_copy, data.by_row, rows, held, at, known, by_row, by_column)
        read = data.shape[1] * int(np.count_nonzero(~known))
        sparse = None if data.sparse is None else data.sparse.taken(rows)
        return cls(rows, Binned(data.bins, by_row, by_column, sparse=sparse), labels[rows], read)
