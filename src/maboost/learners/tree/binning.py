"""Binning: from columns of numbers or categories to one byte a cell.

Edges are quantiles of the base measure, so that a weight of two is exactly the row twice; a column of
at most `max_bins` distinct values gets one bin each. Above 200,000 rows the edges come from a sample:
the rows whose content has the smallest seeded hashes, equal rows merged and their weights summed.
Neither order, sharding nor repetition changes which rows those are. Shards exchange hashes first, then
the distinct values of one column after another; no rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from maboost.comm import Communicator, SerialCommunicator, gathered, global_count
from maboost.learners.tree.distinct import from_all_values
from maboost.learners.tree.layout import BIN, MISSING_BIN
from maboost.messages import reduced
from maboost.threads import Threads

__all__ = [
    "SAMPLE_ROWS",
    "Bins",
    "bin_columns",
    "bin_rows",
    "bins_of",
    "find_bins",
    "hash_rows",
    "last_hash",
    "merged_weights",
]

Array = NDArray[np.float64]

SAMPLE_ROWS = 200_000
_TILE = 1 << 13  # rows whose values and bins stay in the cache


@dataclass(frozen=True)
class Bins:
    """How each column is binned.

    Attributes
    ----------
    edges : list of arrays
        Per column the upper edges of its bins but the last: value v is in bin ``#(edges < v)``. For
        a categorical column the sorted category codes themselves.
    categorical : boolean array
    """

    edges: list[Array]
    categorical: NDArray[np.bool_]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Bins in use, per column."""
        return np.array(
            [len(e) + (not c) for e, c in zip(self.edges, self.categorical, strict=True)],
            dtype=np.int64,
        )


@njit(nogil=True, cache=True)
def _hash_rows(table, bits, seed, out):
    """A 64-bit hash of each row's content; zeros of either sign and all NaN are alike."""
    n, columns = table.shape
    for i in range(n):
        h = seed
        for j in range(columns):
            v = table[i, j]
            content = bits[i, j] if v == v else np.uint64(0x7FF8000000000000)
            content = np.uint64(0) if v == 0.0 else content
            h = (h ^ content) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        out[i] = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


def hash_rows(X: Any, seed: int, threads: Threads) -> NDArray[np.uint64]:
    """A seeded 64-bit hash of the content of each row (dense or CSR)."""
    hashes = np.empty(X.shape[0], dtype=np.uint64)

    def work(a: int, b: int) -> None:
        for start in range(a, b, _TILE):
            part = slice(start, min(start + _TILE, b))
            block = X[part].toarray() if sp.issparse(X) else X[part]
            table = np.ascontiguousarray(block, dtype=np.float64)
            _hash_rows(table, table.view(np.uint64), np.uint64(seed), hashes[part])

    threads.over(X.shape[0], work)
    return hashes


def content_sample(
    X: Any,
    weights: Array,
    size: int,
    seed: int,
    threads: Threads,
    comm: Communicator | None = None,
) -> tuple[NDArray[np.intp], Array]:
    """Rows of the smallest content hashes, one of each content, and the weights of that content."""
    comm = comm or SerialCommunicator()
    hashes = hash_rows(X, seed, threads)
    last = last_hash(hashes, size, comm)
    if last is None:
        return np.arange(X.shape[0]), weights
    rows = np.flatnonzero(hashes <= last)
    first, merged = merged_weights(hashes[rows], rows, weights, comm)
    return rows[first], merged


def last_hash(
    hashes: NDArray[np.uint64], size: int, comm: Communicator | None = None
) -> np.uint64 | None:
    """The largest of the `size` smallest distinct hashes; None if there are no more than that."""
    distinct = _smallest(np.unique(hashes), size + 1, comm or SerialCommunicator())
    return None if len(distinct) <= size else distinct[size - 1]


def _smallest(distinct: NDArray[np.uint64], size: int, comm: Communicator) -> NDArray[np.uint64]:
    """The `size` smallest distinct hashes over all shards, given each shard's own in order.

    Hashes are spread evenly, so that a limit which should leave a little more than enough is known from
    their number; it grows until it does, and what is exchanged does not grow with the shards.
    """
    everyone = global_count(len(distinct), comm)
    share = 1.1 * size / max(everyone, 1)
    while True:
        limit = np.uint64(int(share * 2**64)) if share < 1.0 else None
        below = distinct if limit is None else distinct[: np.searchsorted(distinct, limit)]
        parts = gathered(below[:size], comm)
        found = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
        if limit is None or len(found) >= size:
            return found[:size]
        share *= 1.1 * size / max(len(found), 1)


def merged_weights(
    hashes: NDArray[np.uint64],
    rows: NDArray[np.intp],
    weights: Array,
    comm: Communicator | None = None,
) -> tuple[NDArray[np.intp], Array]:
    """One of the given rows for each hash, by its position among them, and the weight of all its like.

    A content that several shards have stays with the first of them.
    """
    comm = comm or SerialCommunicator()
    distinct, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    grid, unit = _integer_weights(weights, comm)
    held = np.zeros(len(first), dtype=np.int64)
    np.add.at(held, group, grid[rows])  # integers: the same for any order of rows
    parts = gathered(distinct, comm)
    everyone = distinct if len(parts) == 1 else np.unique(np.concatenate(parts))
    own = np.searchsorted(everyone, distinct)
    merged, owner = np.zeros(len(everyone), dtype=np.int64), np.full(len(everyone), comm.size)
    merged[own], owner[own] = held, comm.rank
    merged, owner = comm.allreduce(merged, "sum"), comm.allreduce(owner, "min")
    mine = owner[own] == comm.rank
    return first[mine], merged[own[mine]].astype(np.float64) * unit


def find_bins(
    X: Any,
    weights: Array,
    max_bins: int = 255,
    categorical: NDArray[np.bool_] | None = None,
    seed: int = 0,
    threads: Threads | None = None,
    comm: Communicator | None = None,
) -> Bins:
    """Find the bins of every column of `X` (dense or CSC/CSR) under the measure `weights`."""
    comm = comm or SerialCommunicator()
    if global_count(X.shape[0], comm) > SAMPLE_ROWS:
        X = X.tocsr() if sp.issparse(X) else X
        rows, weights = content_sample(X, weights, SAMPLE_ROWS, seed, threads or Threads(), comm)
        X = X[rows]
    return bins_of(X, weights, max_bins, categorical, comm)


def bins_of(
    X: Any,
    weights: Array,
    max_bins: int,
    categorical: NDArray[np.bool_] | None = None,
    comm: Communicator | None = None,
) -> Bins:
    """The bins of exactly these rows."""
    comm = comm or SerialCommunicator()
    columns = X.shape[1]
    is_category = np.zeros(columns, dtype=bool) if categorical is None else categorical
    if sp.issparse(X):
        X = X.tocsc()
    grid, _ = _integer_weights(weights, comm)

    def edges_of(j: int, values: Array, held: NDArray[np.int64]) -> Array:
        return values if is_category[j] else _quantile_edges(values, held, max_bins)

    edges = from_all_values(lambda j: _column(X, j, grid), edges_of, columns, comm)
    for j in np.flatnonzero(is_category).tolist():
        _check_categories(edges[j], max_bins, j)
    return Bins(edges, is_category)


def _integer_weights(weights: Array, comm: Communicator) -> tuple[NDArray[np.int64], float]:
    """Weights in fixed point, and the value of one unit: integer sums have no order."""
    own = np.array([len(weights)]), np.array([weights.max(initial=0.0)])
    (count,), (top,) = (x.tolist() for x in reduced([(own[0], "sum"), (own[1], "max")], comm))
    # a power of two, so that small whole weights are whole in any number of rows
    unit = math.ldexp(1.0, math.frexp(top)[1] - 61 + count.bit_length())
    return np.maximum(np.rint(weights / unit), 1.0).astype(np.int64), unit


def _column(X: Any, j: int, grid: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """A column without its missing values, and the weights that go with it.

    Adding zero makes a negative zero a positive one: as equal values, which of them comes first would
    depend on the order of rows.
    """
    if sp.issparse(X):
        a, b = X.indptr[j], X.indptr[j + 1]
        values, its = X.data[a:b].astype(np.float64) + 0.0, grid[X.indices[a:b]]
        rest = grid.sum() - its.sum()
        values, its = np.append(values, 0.0), np.append(its, rest)
        seen = ~np.isnan(values) & (its > 0)
    else:
        values, its = np.asarray(X[:, j], dtype=np.float64) + 0.0, grid
        seen = ~np.isnan(values)
    return values[seen], its[seen]


def _quantile_edges(distinct: Array, held: NDArray[np.int64], max_bins: int) -> Array:
    """Edges between sorted distinct values with their weights."""
    if len(distinct) <= 1:
        return np.empty(0)
    last = np.arange(len(distinct) - 1)  # an edge may follow any distinct value but the last
    if len(distinct) > max_bins:
        running = np.cumsum(held)
        total = int(running[-1])
        levels = [total * b // max_bins for b in range(1, max_bins)]
        last = np.unique(np.searchsorted(running, np.array(levels, dtype=np.int64)))
        last = last[last < len(distinct) - 1]
    low, high = distinct[last], distinct[last + 1]
    with np.errstate(over="ignore", invalid="ignore"):
        middle = low + 0.5 * (high - low)
    return np.where((middle >= low) & (middle < high), middle, low)


def _check_categories(codes: Array, max_bins: int, j: int) -> None:
    if len(codes) > max_bins:
        raise ValueError(
            f"column {j} is categorical with {len(codes)} categories; at most max_bins={max_bins} are "
            "possible: merge rare ones, or treat the column as a number"
        )


@njit(nogil=True, cache=True)
def _bin_numbers(values, edges, index, low, factor, out):
    """Out = #(edges < value); NaN is missing.

    `index` has an entry a cell of an even grid over the edges: how many edges lie in cells before. It
    narrows the search to the edges of the value's own cell, which are few.
    """
    cells = index.size - 1
    for i in range(values.size):
        v = values[i]
        if v != v:
            out[i] = MISSING_BIN
            continue
        cell = (v - low) * factor
        cell = min(cell, cells - 1.0) if cell > 0.0 else 0.0  # NaN (infinity times zero): the first
        at, last = index[int(cell)], index[int(cell) + 1]
        while at < last:
            middle = (at + last) >> 1
            if edges[middle] < v:
                at = middle + 1
            else:
                last = middle
        out[i] = at


def _grid(edges: Array) -> tuple[NDArray[np.int64], float, float]:
    """The index of :func:`_bin_numbers` with its origin and scale."""
    cells = 1024
    finite = edges[np.isfinite(edges)]
    low = float(finite[0]) if len(finite) else 0.0
    spread = float(finite[-1]) - low if len(finite) else 0.0
    factor = (cells - 2) / spread if spread > 0.0 and np.isfinite(spread) else 0.0
    if not np.isfinite(factor):
        factor = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        cell = np.clip((edges - low) * factor, 0.0, cells - 1.0)
    cell = np.where(np.isnan(cell), 0.0, cell).astype(np.int64)
    return np.searchsorted(cell, np.arange(cells + 1)), low, factor


@njit(nogil=True, cache=True)
def _bin_category(v, codes, first, last):
    """The position of v among the codes; unseen values are missing."""
    at = first + np.searchsorted(codes[first:last], v)
    return at - first if at < last and codes[at] == v else MISSING_BIN


@njit(nogil=True, cache=True)
def _bin_categories(values, codes, out):
    for i in range(values.size):
        out[i] = _bin_category(values[i], codes, 0, codes.size)


@njit(nogil=True, cache=True)
def _transpose(columns, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = columns[j, i]


def bin_columns(
    X: Any, bins: Bins, threads: Threads | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The binned table twice: row-major for histograms, column-major for single-feature passes."""
    threads = threads or Threads()
    n, columns = X.shape
    by_row, by_column = np.empty((n, columns), dtype=BIN), np.empty((columns, n), dtype=BIN)
    if sp.issparse(X):
        _bin_sparse(X.tocsc(), bins, by_column)
        threads.over(n, lambda a, b: np.copyto(by_row[a:b], by_column[:, a:b].T))
        return by_row, by_column
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

    def work(a: int, b: int) -> None:
        for start in range(a, b, _TILE):
            part = slice(start, min(start + _TILE, b))
            table = np.asarray(X[part]).astype(np.float64, order="F")
            for j, search in enumerate(searches):
                search(table[:, j], by_column[j, part])
            _transpose(by_column[:, part], by_row[part])

    threads.over(X.shape[0], work)


def _search(bins: Bins, j: int) -> Callable[[Array, NDArray[np.uint8]], None]:
    """How values of column j are binned."""
    edges = bins.edges[j]
    if bins.categorical[j]:
        return lambda values, out: _bin_categories(values, edges, out)
    index, low, factor = _grid(edges)
    return lambda values, out: _bin_numbers(values, edges, index, low, factor, out)


def _bin_sparse(X: Any, bins: Bins, by_column: NDArray[np.uint8]) -> None:
    """Bin a CSC matrix: the bin of zero everywhere, then the stored values."""
    for j in range(X.shape[1]):
        a, b = X.indptr[j], X.indptr[j + 1]
        values = np.append(X.data[a:b].astype(np.float64), 0.0)
        found = np.empty(len(values), dtype=BIN)
        _search(bins, j)(values, found)
        by_column[j] = found[-1]
        by_column[j, X.indices[a:b]] = found[:-1]
