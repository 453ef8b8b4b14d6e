"""A copy of some rows, for rounds that look at no others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.grower import Binned
from maboost.runtime.threads import Threads

__all__ = ["Resident"]

_STRIP = 1 << 10  # rows that stay in the cache while they are turned into columns
_WORTH = 1 << 14  # rows that are worth a thread


@dataclass(frozen=True, eq=False)
class Resident:
    """Rows of a table, by number, and a copy of their bins and labels in memory.

    The table may be a file mapped into memory that does not fit there: to grow a tree on the copy
    reads none of it.

    Attributes
    ----------
    rows : array, rising
    data : Binned
    labels : array
    bytes : int
        What was read of the table.
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
        """Read these rows once, by row; from `old` those that it has."""
        old = old if old is not None and old.rows.size else None
        columns = data.by_row.shape[1]
        by_row = np.empty((len(rows), columns), dtype=np.uint8)
        by_column = np.empty((columns, len(rows)), dtype=np.uint8)

        at, known = np.empty(0, dtype=np.intp), np.zeros(len(rows), dtype=bool)
        if old is not None:
            at = np.minimum(np.searchsorted(old.rows, rows), len(old.rows) - 1)
            known = old.rows[at] == rows

        def work(a: int, b: int) -> None:
            for start in range(a, b, _STRIP):
                part = slice(start, min(start + _STRIP, b))
                found, new = by_row[part], ~known[part]
                found[new] = data.by_row[rows[part][new]]
                if old is not None:
                    found[~new] = old.data.by_row[at[part][~new]]
                by_column[:, part] = by_row[part].T

        threads.over(len(rows), work, _WORTH)
        read = columns * int(np.count_nonzero(~known))
        return cls(rows, Binned(data.bins, by_row, by_column), labels[rows], read)
