"""Binning: columns of numbers or categories become one byte a cell.

Edges are quantiles of the base measure, so a weight of two is exactly the row twice. A column of
at most `max_bins` distinct values gets one bin for each. Above 200,000 rows the edges come from the sample of
:mod:`maboost.runtime.row_hash`. Shards exchange hashes first, then the distinct values of one column after another, but
no rows.

The categories of a column are counted over all rows, so that sampling loses none. If there are more than
`max_bins`, the `max_bins` - 1 of most weight have a bin each, and the others share one. Among categories of equal
weight the smaller codes come first. The weights are sums of integers, so the choice does not
depend on the order of the rows or on their division among shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.learners.tree.distinct import Weighted, from_all_values
from maboost.learners.tree.layout import BIN, MISSING_BIN
from maboost.runtime import row_hash as content
from maboost.runtime.communicator import Communicator, SerialCommunicator, global_count
from maboost.runtime.kernels import kernel
from maboost.runtime.row_hash import hash_rows, integer_weights, merged_weights, sampled_rows
from maboost.runtime.threads import Threads

__all__ = [
    "Bins",
    "bin_columns",
    "bin_rows",
    "bins_of",
    "bins_of_categories",
    "bins_of_entries",
    "canonical_columns",
    "find_bins",
    "levels_of",
]

Array = NDArray[np.float64]

_TILE = 1 << 13  # rows whose values and bins fit the cache
_STRIP = 1 << 10  # values whose searches fit the first-level cache
_CELLS = 1 << 10
_NO_EDGES = np.empty(0)
_WORTH = 1 << 16  # values from which sorting on a thread of its own is faster


@dataclass(frozen=True)
class Bins:
    """The bins of each column.

    Attributes
    ----------
    edges : list of arrays
        Per column the upper edges of all bins but the last: value v is in bin ``#(edges < v)``. For
        a categorical column the sorted category codes; the smallest of the rare codes stands
        for all of them.
    categorical : boolean array
    rare : dict
        By column the sorted codes of the categories that share a bin, for columns that have such categories.
    """

    edges: list[Array]
    categorical: NDArray[np.bool_]
    rare: dict[int, Array] = field(default_factory=dict)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of bins in use, per column."""
        return self._sizes + ~self.categorical

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.edges), dtype=np.int64, count=len(self.edges))

    @cached_property
    def has_categories(self) -> bool:
        """Whether any column is categorical."""
        return bool(self.categorical.any())

    @cached_property
    def codes(self) -> dict[int, Array]:
        """The edges of the categorical columns."""
        return {int(f): self.edges[f] for f in np.flatnonzero(self.categorical)}

    @cached_property
    def ladder(self) -> tuple[NDArray[np.intp], Array]:
        """The bounds of each column's edges in one array of all edges, in which infinity follows each column."""
        starts = np.concatenate([[0], np.cumsum(self._sizes + 1)])
        every = np.full(starts[-1], np.inf)
        is_edge = np.ones(starts[-1], dtype=bool)
        is_edge[starts[1:] - 1] = False
        if len(self.edges):
            every[is_edge] = np.concatenate(self.edges)
        return starts, every

    def upper_edges(self, columns: NDArray[np.integer], bins: NDArray[np.int64]) -> Array:
        """Return the upper edges of some bins of numbers, one column and one bin each; infinite for the last bins."""
        starts, every = self.ladder
        found: Array = every[starts[columns] + bins]
        return found


def find_bins(
    X: Any,
    weights: Array,
    max_bins: int = 255,
    categorical: NDArray[np.bool_] | None = None,
    threads: Threads | None = None,
    comm: Communicator | None = None,
) -> Bins:
    """Find the bins of every column of `X` (dense or CSC/CSR) under the measure `weights`."""
    comm, threads = comm or SerialCommunicator(), threads or Threads()
    if global_count(X.shape[0], comm) > content.SAMPLE_ROWS:
        X = X.tocsr() if sp.issparse(X) else X
        hashes = hash_rows(X, threads)
        rows = sampled_rows(hashes, comm)
        if rows is not None:
            first, sampled = merged_weights(hashes[rows], rows, weights, comm)
            bins = bins_of(X, sampled, max_bins, categorical, comm, threads, rows[first])
            at = np.flatnonzero(bins.categorical)
            if not at.size:
                return bins
            grid, _ = integer_weights(weights, comm)
            read = _reader(X, None, grid, at)
            return bins_of_categories(bins, at, read, max_bins, len(weights), comm, threads)
    return bins_of(X, weights, max_bins, categorical, comm, threads)


def bins_of_categories(
    bins: Bins,
    at: NDArray[np.intp],
    read: Callable[[range], list[Weighted]],
    max_bins: int,
    rows: int,
    comm: Communicator | None = None,
    threads: Threads | None = None,
) -> Bins:
    """Replace the bins of the categorical columns `at` by the bins of all rows.

    ``read(some)`` returns the values and integer weights of the columns ``at[some]``, at most `rows` each.
    """
    comm, threads = comm or SerialCommunicator(), threads or Threads()

    def answer(_: int, values: Array, held: NDArray[np.int64]) -> Array:
        return _common_first(values, held, max_bins)

    found = from_all_values(read, answer, len(at), rows, comm, threads)
    answers = list(bins.edges)
    for j, its in zip(at.tolist(), found, strict=True):
        answers[j] = its
    return _from_answers(answers, bins.categorical, max_bins)


def bins_of(
    X: Any,
    weights: Array,
    max_bins: int,
    categorical: NDArray[np.bool_] | None = None,
    comm: Communicator | None = None,
    threads: Threads | None = None,
    rows: NDArray[np.intp] | None = None,
) -> Bins:
    """Return the bins of exactly the given `rows` (all by default); `weights` are theirs."""
    comm, threads = comm or SerialCommunicator(), threads or Threads()
    columns = X.shape[1]
    is_category = np.zeros(columns, dtype=bool) if categorical is None else categorical
    grid, _ = integer_weights(weights, comm)

    def answer(j: int, values: Array, held: NDArray[np.int64]) -> Array:
        return (_common_first if is_category[j] else _quantile_edges)(values, held, max_bins)

    if sp.issparse(X) and comm.size == 1:
        values = _values_of_columns(canonical_columns(X if rows is None else X[rows]), grid)
        return _from_answers(_answers(values, answer, is_category, max_bins), is_category, max_bins)
    several = threads if len(weights) * columns >= _WORTH else Threads()
    read = _reader(X, rows, grid)
    answers = from_all_values(read, answer, columns, len(weights), comm, several)
    return _from_answers(answers, is_category, max_bins)


class _ColumnValues(NamedTuple):
    """The distinct values of all columns in order, without missing ones, and the weight of each.

    Those of column j begin at ``starts[j]``.
    """

    starts: NDArray[np.intp]
    values: Array
    held: NDArray[np.int64]


def _values_of_columns(X: Any, grid: NDArray[np.int64]) -> _ColumnValues:
    """The distinct values of a CSC matrix, in which all zeros of a column are one value."""
    columns = X.shape[1]
    column = np.repeat(np.arange(columns), np.diff(X.indptr))
    its = np.append(grid[X.indices], 0)  # an entry behind the last: numpy's `reduceat` needs one
    stored = np.add.reduceat(its, X.indptr[:-1])
    stored[np.diff(X.indptr) == 0] = 0
    rest = grid.sum() - stored
    values = np.concatenate([X.data.astype(np.float64) + 0.0, np.zeros(columns)])
    column = np.concatenate([column, np.arange(columns)])
    its = np.concatenate([its[:-1], rest])
    seen = ~np.isnan(values) & (its > 0)
    values, column, its = values[seen], column[seen], its[seen]
    order = np.lexsort((values, column))
    values, column = values[order], column[order]
    is_new = (values[1:] != values[:-1]) | (column[1:] != column[:-1])
    first = np.flatnonzero(np.append(True, is_new)[: len(values)])
    held = np.add.reduceat(its[order], first) if len(first) else its
    starts = np.searchsorted(column[first], np.arange(columns + 1))
    return _ColumnValues(starts, values[first], held)


def _answers(
    of: _ColumnValues,
    answer: Callable[[int, Array, NDArray[np.int64]], Array],
    is_category: NDArray[np.bool_],
    max_bins: int,
) -> list[Array]:
    """Return the edges or categories of each column.

    Numeric columns of at most `max_bins` distinct values need no call of `answer`: they have an edge after every
    value but the last.
    """
    sizes = np.diff(of.starts)
    edges = _middles(of.values[:-1], of.values[1:])
    plain = ~is_category & (sizes <= max_bins)
    answers = [_NO_EDGES] * len(sizes)
    for j in np.flatnonzero(plain & (sizes > 1)).tolist():
        answers[j] = edges[of.starts[j] : of.starts[j + 1] - 1]
    for j in np.flatnonzero(~plain).tolist():
        some = slice(of.starts[j], of.starts[j + 1])
        answers[j] = answer(j, of.values[some], of.held[some])
    return answers


def _reader(
    X: Any,
    rows: NDArray[np.intp] | None,
    grid: NDArray[np.int64],
    at: NDArray[np.intp] | None = None,
) -> Callable[[range], list[Weighted]]:
    """Return a function that reads columns of `X`, or of its columns `at`, with the weights of their values."""
    if sp.issparse(X):
        table = canonical_columns(X if rows is None else X[rows])
        return lambda some: [
            _sparse_column(table, j if at is None else int(at[j]), grid) for j in some
        ]

    def read(some: range) -> list[Weighted]:
        columns = slice(some.start, some.stop)
        return _dense_columns(X, rows, columns if at is None else at[columns], grid)

    return read


def _common_first(codes: Array, held: NDArray[np.int64], max_bins: int) -> Array:
    """Return the codes that have a bin of their own, in order, then the codes that share one, in order.

    All codes have their own bin if there are at most `max_bins`; otherwise ``max_bins - 1`` have.
    """
    if len(codes) <= max_bins:
        return codes
    heaviest_first = np.lexsort((codes, -held))
    common, rare = heaviest_first[: max_bins - 1], heaviest_first[max_bins - 1 :]
    return np.concatenate([np.sort(codes[common]), np.sort(codes[rare])])


def _from_answers(answers: list[Array], is_category: NDArray[np.bool_], max_bins: int) -> Bins:
    """Return bins from the edges of numbers and the codes of categories in the order of :func:`_common_first`."""
    edges, rare = list(answers), {}
    for j in np.flatnonzero(is_category).tolist():
        if len(answers[j]) > max_bins:
            edges[j], rare[j] = np.sort(answers[j][:max_bins]), answers[j][max_bins - 1 :]
    return Bins(edges, is_category, rare)


def levels_of(codes: Array, rare: Array | None) -> tuple[Array, NDArray[np.intp]]:
    """Return all codes of a categorical column in order, and the bin of each.

    Parameters
    ----------
    codes, rare
        The column's entries in :attr:`Bins.edges` and :attr:`Bins.rare`.
    """
    if rare is None:
        return codes, np.arange(len(codes))
    levels = np.union1d(codes, rare)
    standing = np.where(np.isin(levels, rare), rare[0], levels)
    return levels, np.searchsorted(codes, standing)


def canonical_columns(X: Any) -> Any:
    """Return a sparse table as CSC without duplicate entries, which are added up."""
    columns = X.tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy() if columns is X else columns
        columns.sum_duplicates()
    return columns


def _dense_columns(
    X: Any,
    rows: NDArray[np.intp] | None,
    columns: slice | NDArray[np.intp],
    grid: NDArray[np.int64],
) -> list[Weighted]:
    """Return columns of some rows without their missing values, and the weights of these values.

    Adding zero makes a negative zero positive. The two are equal, so their order would otherwise depend on the
    order of rows.
    """
    block = X[:, columns] if rows is None else X[rows, columns]
    table = np.add(block.T, 0.0, dtype=np.float64, order="C", casting="unsafe")
    seen = ~np.isnan(table)
    return [
        (values, grid) if there.all() else (values[there], grid[there])
        for values, there in zip(table, seen, strict=True)
    ]


def _sparse_column(X: Any, j: int, grid: NDArray[np.int64]) -> Weighted:
    """Return the values and weights of one column of a sparse table, in which all zeros are one value."""
    a, b = X.indptr[j], X.indptr[j + 1]
    values, its = X.data[a:b].astype(np.float64) + 0.0, grid[X.indices[a:b]]
    rest = grid.sum() - its.sum()
    values, its = np.append(values, 0.0), np.append(its, rest)
    seen = ~np.isnan(values) & (its > 0)
    return values[seen], its[seen]


def _quantile_edges(distinct: Array, held: NDArray[np.int64], max_bins: int) -> Array:
    """Return edges between sorted distinct values with their weights."""
    if len(distinct) <= 1:
        return _NO_EDGES
    last = np.arange(len(distinct) - 1)  # an edge may follow any distinct value but the last
    if len(distinct) > max_bins:
        running = np.cumsum(held)
        total = int(running[-1])
        levels = [-(-total * b // max_bins) for b in range(1, max_bins)]  # rounded up in integers
        last = np.unique(np.searchsorted(running, np.array(levels, dtype=np.int64)))
        last = last[last < len(distinct) - 1]
    return _middles(distinct[last], distinct[last + 1])


def _middles(low: Array, high: Array) -> Array:
    """The middle of each pair of values, or the lower one where rounding leaves nothing between."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = low + 0.5 * (high - low)
    return np.where((middle >= low) & (middle < high), middle, low)


class _Ladder(NamedTuple):
    """The edges of a column, prepared for :func:`_bin_numbers`.

    Attributes
    ----------
    edges : array
        Followed by enough infinities that no step leads past the end.
    before : array
        For each cell of an even grid over the edges, the number of edges in earlier cells. It narrows the search
        to the edges in a value's own cell, which are few.
    low, factor : float
        Origin and scale of the grid.
    widest : int
        The first step of a search: the largest power of two up to the number of edges in a cell.
    """

    edges: Array
    before: NDArray[np.int32]
    low: float
    factor: float
    widest: int

    @classmethod
    def of(cls, edges: Array) -> _Ladder:
        finite = edges[np.isfinite(edges)]
        low = float(finite[0]) if len(finite) else 0.0
        spread = float(finite[-1]) - low if len(finite) else 0.0
        factor = (_CELLS - 2) / spread if spread > 0.0 and np.isfinite(spread) else 0.0
        if not np.isfinite(factor):
            factor = 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            cell = np.clip((edges - low) * factor, 0.0, _CELLS - 1.0)
        cell = np.where(np.isnan(cell), 0.0, cell).astype(np.int64)
        before = np.searchsorted(cell, np.arange(_CELLS + 1))
        most = int(np.diff(before).max())
        widest = 1 << (most.bit_length() - 1) if most else 0
        rungs = np.append(edges, np.full(widest, np.inf))
        return cls(rungs, before[:-1].astype(np.int32), low, factor, widest)


@kernel
def _bin_numbers(values, edges, before, low, factor, widest, out):
    """Write #(edges < value); NaN is missing.

    The kernel takes one step of all searches of a strip of values at a time, so that nothing branches on a value
    and the loop vectorises. Edges of later cells need not be excluded, since none is below the value.
    """
    last, room = before.size - 1.0, np.empty(_STRIP, dtype=np.int32)
    for a in range(0, values.size, _STRIP):
        some, found = values[a : a + _STRIP], out[a : a + _STRIP]
        at = room[: some.size]
        for i in range(some.size):
            cell = (some[i] - low) * factor
            cell = (
                min(cell, last) if cell > 0.0 else 0.0
            )  # NaN (infinity times zero) goes to the first cell
            at[i] = before[int(cell)]
        step = widest
        while step > 0:
            for i in range(some.size):
                at[i] += step if edges[at[i] + step - 1] < some[i] else 0
            step >>= 1
        for i in range(some.size):
            found[i] = at[i] if some[i] == some[i] else MISSING_BIN


@kernel
def _bin_categories(values, levels, bins, out):
    """Write the bin of each value from the `bins` of the sorted levels; other values are missing."""
    for i in range(values.size):
        at = np.searchsorted(levels, values[i])
        out[i] = bins[at] if at < levels.size and levels[at] == values[i] else MISSING_BIN


def bin_columns(
    X: Any, bins: Bins, threads: Threads | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return a dense table in bins, twice: row-major for histograms, column-major for single-feature passes."""
    threads = threads or Threads()
    n, columns = X.shape
    by_row, by_column = np.empty((n, columns), dtype=BIN), np.empty((columns, n), dtype=BIN)
    bin_rows(X, bins, by_row, by_column, threads)
    return by_row, by_column


def bin_rows(
    X: Any,
    bins: Bins,
    by_row: NDArray[np.uint8],
    by_column: NDArray[np.uint8],
    threads: Threads,
) -> None:
    """Bin dense rows into given arrays of shape (n, columns) and (columns, n)."""
    searches = [_search(bins, j) for j in range(X.shape[1])]

    def work(rows: tuple[int, int]) -> None:
        for start in range(*rows, _TILE):
            part = slice(start, min(start + _TILE, rows[1]))
            table = np.asarray(X[part]).astype(np.float64, order="F")
            for j, search in enumerate(searches):
                search(table[:, j], by_column[j, part])
            np.copyto(by_row[part], by_column[:, part].T)

    threads.each(threads.parts(X.shape[0], _TILE), work)


def _search(bins: Bins, j: int) -> Callable[[Array, NDArray[np.uint8]], None]:
    """Return the function that bins values of column j."""
    edges = bins.edges[j]
    if bins.categorical[j]:
        levels, its = levels_of(edges, bins.rare.get(j))
        small = its.astype(BIN)
        return lambda values, out: _bin_categories(values, levels, small, out)
    ladder = _Ladder.of(edges)
    return lambda values, out: _bin_numbers(values, *ladder, out)


@kernel
def _bin_sparse_numbers(starts, values, first_edges, edges, out):
    """Out = #(edges < value), with the edges of the value's column; NaN is missing."""
    for j in range(starts.size - 1):
        its = edges[first_edges[j] : first_edges[j + 1] - 1]
        for i in range(starts[j], starts[j + 1]):
            missing = values[i] != values[i]
            out[i] = MISSING_BIN if missing else np.searchsorted(its, values[i])


def bins_of_entries(X: Any, bins: Bins) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The bins of the entries of a CSC matrix, and by column the bin of zero."""
    values = X.data.astype(np.float64, copy=False)
    found, zero = np.empty(len(values), dtype=BIN), np.empty(X.shape[1], dtype=BIN)
    first_edges, edges = bins.ladder
    _bin_sparse_numbers(X.indptr, values, first_edges, edges, found)
    every = np.arange(X.shape[1] + 1)
    _bin_sparse_numbers(every, np.zeros(X.shape[1]), first_edges, edges, zero)
    for j in np.flatnonzero(bins.categorical).tolist():
        some = slice(X.indptr[j], X.indptr[j + 1])
        its = np.append(values[some], 0.0)
        answers = np.empty(len(its), dtype=BIN)
        _search(bins, j)(its, answers)
        found[some], zero[j] = answers[:-1], answers[-1]
    return found, zero
