"""Access to the rows of any table in the form that the user gave: names, values, statistics of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.data.frames import float_values
from maboost.data.labels import is_missing

__all__ = ["ColumnStatistics", "TableView", "table_view"]


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of a column.

    Attributes
    ----------
    missing : int
        The number of missing values.
    low, middle, high : float
        Smallest value, median and largest; NaN for a column of text or categories.
    distinct : int
        The number of distinct values.
    commonest : any
        The most frequent value of a column of text or categories; None otherwise.
    """

    missing: int
    low: float
    middle: float
    high: float
    distinct: int
    commonest: Any = None


class TableView(Protocol):
    """The interface of tables for the report."""

    shape: tuple[int, int]
    names: list[str] | None

    def missing(self) -> NDArray[np.intp]:
        """Return the number of missing values by column."""
        ...

    def statistics(self, column: int) -> ColumnStatistics:
        """Return the statistics of a column."""
        ...

    def values(self, column: int, rows: Sequence[int]) -> list[Any]:
        """Return some values of a column."""
        ...


def table_view(X: Any) -> TableView:
    """Return a view of an array, a data frame of any library, or a sparse matrix."""
    if sp.issparse(X):
        return _SparseView(X)
    if not isinstance(X, np.ndarray | list | tuple):
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return _FrameView(frame)
    return _ArrayView(np.asarray(X))


def _number_statistics(values: NDArray[np.float64]) -> ColumnStatistics:
    there = values[~np.isnan(values)]
    missing = len(values) - len(there)
    if not len(there):
        return ColumnStatistics(missing, np.nan, np.nan, np.nan, 0)
    low, high = float(there.min()), float(there.max())
    distinct = len(np.unique(there))
    return ColumnStatistics(missing, low, float(np.median(there)), high, distinct)


def _value_statistics(counts: dict[Any, int], missing: int) -> ColumnStatistics:
    commonest = min(counts, key=lambda v: (-counts[v], str(v)), default=None)
    return ColumnStatistics(missing, np.nan, np.nan, np.nan, len(counts), commonest)


class _ArrayView:
    def __init__(self, X: NDArray[Any]) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must be a table of rows and columns, got shape {X.shape}")
        self.X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.names: list[str] | None = None

    def _numbers(self, column: int) -> NDArray[np.float64] | None:
        try:
            return self.X[:, column].astype(np.float64)
        except (TypeError, ValueError):
            return None

    def missing(self) -> NDArray[np.intp]:
        if self.X.dtype.kind in "biu":
            return np.zeros(self.shape[1], dtype=np.intp)
        if self.X.dtype.kind == "f":
            return np.asarray(np.isnan(self.X).sum(axis=0))
        columns = range(self.shape[1])
        return np.array([sum(map(is_missing, self.X[:, j])) for j in columns], dtype=np.intp)

    def statistics(self, column: int) -> ColumnStatistics:
        numbers = self._numbers(column)
        if numbers is not None:
            return _number_statistics(numbers)
        there = [v for v in self.X[:, column].tolist() if not is_missing(v)]
        return _value_statistics(Counter(there), self.shape[0] - len(there))

    def values(self, column: int, rows: Sequence[int]) -> list[Any]:
        return list(self.X[list(rows), column].tolist())


class _FrameView:
    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.shape = (int(frame.shape[0]), int(frame.shape[1]))
        self.names: list[str] | None = [str(name) for name in frame.columns]

    def _numbers(self, column: int) -> NDArray[np.float64] | None:
        import narwhals.stable.v2 as nw

        series = self.frame[:, column]
        if not (series.dtype.is_numeric() or isinstance(series.dtype, nw.Boolean)):
            return None
        return float_values(series)

    def missing(self) -> NDArray[np.intp]:
        counts = []
        for j in range(self.shape[1]):
            numbers = self._numbers(j)
            empty = self.frame[:, j].null_count() if numbers is None else np.isnan(numbers).sum()
            counts.append(int(empty))
        return np.array(counts, dtype=np.intp)

    def statistics(self, column: int) -> ColumnStatistics:
        numbers = self._numbers(column)
        if numbers is not None:
            return _number_statistics(numbers)
        series = self.frame[:, column]
        counts = series.drop_nulls().value_counts(name="count")
        by_value = dict(zip(counts[:, 0].to_list(), counts[:, 1].to_list(), strict=True))
        by_value = {value: n for value, n in by_value.items() if n}
        return _value_statistics(by_value, int(series.null_count()))

    def values(self, column: int, rows: Sequence[int]) -> list[Any]:
        values: list[Any] = self.frame[:, column][list(rows)].to_list()
        return values


class _SparseView:
    def __init__(self, X: Any) -> None:
        self.X = sp.csc_array(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.names: list[str] | None = None

    def _column(self, column: int) -> NDArray[np.float64]:
        return np.asarray(self.X[:, [column]].toarray(), dtype=np.float64)[:, 0]

    def missing(self) -> NDArray[np.intp]:
        empty = np.isnan(self.X.data.astype(np.float64))
        columns = np.repeat(np.arange(self.shape[1]), np.diff(self.X.indptr))
        return np.bincount(columns[empty], minlength=self.shape[1])

    def statistics(self, column: int) -> ColumnStatistics:
        return _number_statistics(self._column(column))

    def values(self, column: int, rows: Sequence[int]) -> list[Any]:
        return list(self._column(column)[list(rows)].tolist())
