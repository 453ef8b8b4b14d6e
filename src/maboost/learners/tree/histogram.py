"""Histograms by feature, class and bin: sums of the cells of rows (:mod:`maboost.learners.tree.packing`).

A histogram is a flat array, by feature, class and bin for two classes, by feature, bin and channel for more.
The cells of sparse columns (:mod:`maboost.learners.tree.sparse`) follow those of the dense ones: by class and
bin of any column for two classes, by bin of any column and channel for more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.layout import ROOM
from maboost.learners.tree.sparse import SparseColumns
from maboost.runtime.instructions import (
    add,
    add_eight,
    add_four,
    byte,
    eight_bytes,
    prefetch,
)
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for, slots

__all__ = ["IN_ORDER", "LISTED", "STRIPS", "Counted", "count_nodes", "cut", "most_parts"]

_AHEAD = 8  # rows between the one being added and the one being prefetched
_STRIP = 1 << 13  # rows whose cells stay in the cache from column to column
_WIDE = 64  # columns of a row that are read at once: a cache line or two
_SHORT = 1 << 10  # rows whose pages stay in memory from piece to piece, even if memory is scarce
_COLUMN = 2 * ROOM  # cells of a column, one class after the other
_BYTE, _EIGHT = np.uint64(255), np.uint64(8)

# How the rows of a node are read. All rows are read by column, since few sums are then being added to, or from a
# file row by row in order. A subset of rows is read row by row, since a row is a cache line or two.
LISTED, STRIPS, IN_ORDER = 0, 1, 2


class Counted(NamedTuple):
    """The input of a count: the bins of all rows by row and by column, and the cell of each row.

    `cells` (n,) and `labels` (n,) for two classes, `rewards` (n, channels) for more; the others are None.
    `sparse` is None if all columns are dense.
    """

    by_row: NDArray[np.uint8]
    by_column: NDArray[np.uint8]
    cells: NDArray[np.int64] | None
    labels: NDArray[np.uint8] | None
    rewards: NDArray[np.int64] | None
    sparse: SparseColumns | None = None


@kernel
def _piece(flat, size, j):
    """Return piece j of a flat array, which numba knows to be contiguous, unlike a matrix's row; this halves the time."""
    return flat[j * size : (j + 1) * size]


@kernel(inline="always")
def _add_row(sums, own, flat, start, size, value):
    """Add a value to the cells of a row's bins, ``flat[start : start + size]``, one bin a column.

    The cells of its class begin at `own` in each column.
    """
    whole = size // 8 * 8
    for j in range(0, whole, 8):
        add_eight(sums, own + j * _COLUMN, eight_bytes(flat, start + j), _COLUMN, value)
    for j in range(whole, size):
        add(sums, own, byte(flat, start + j), j * _COLUMN, value)


@kernel
def _add_classes_by_row(binned, start, stop, cells, labels, hist):
    """Add rows from `start` to `stop`, each once and in order, for rows that are mapped from a file."""
    columns = binned.shape[1]
    flat = binned.reshape(-1)
    for i in range(start, stop):
        _add_row(hist, np.intp(labels[i]) * ROOM, flat, i * columns, columns, cells[i])


@kernel(inline="always")
def _add_five(sums, label, first, second, third, fourth, fifth, value):
    """Add a value to the cells of a row's bins in five columns."""
    own = np.intp(label) * ROOM
    add(sums, own, np.intp(first), 0, value)
    add(sums, own, np.intp(second), _COLUMN, value)
    add(sums, own, np.intp(third), 2 * _COLUMN, value)
    add(sums, own, np.intp(fourth), 3 * _COLUMN, value)
    add(sums, own, np.intp(fifth), 4 * _COLUMN, value)


@kernel
def _add_classes(by_column, start, stop, cells, labels, hist):
    """Add rows from `start` to `stop`, one strip at a time.

    The sums of five columns stay in the first-level cache, and the cells of a strip in the second-level cache.
    """
    columns, n = by_column.shape
    flat, sums = by_column.reshape(-1), hist
    for a in range(start, stop, _STRIP):
        b = min(a + _STRIP, stop)
        cell, label = cells[a:b], labels[a:b]
        whole = cell.size // 8 * 8
        for j in range(0, columns - 4, 5):
            first, second, third, fourth, fifth = (
                _piece(flat, n, j)[a:b], _piece(flat, n, j + 1)[a:b], _piece(flat, n, j + 2)[a:b],
                _piece(flat, n, j + 3)[a:b], _piece(flat, n, j + 4)[a:b],
            )  # fmt: skip
            five = _piece(sums, 5 * _COLUMN, j // 5)
            for i in range(0, whole, 8):
                p, q, r = eight_bytes(first, i), eight_bytes(second, i), eight_bytes(third, i)
                s, t = eight_bytes(fourth, i), eight_bytes(fifth, i)
                for k in range(i, i + 8):
                    _add_five(
                        five, label[k], p & _BYTE, q & _BYTE, r & _BYTE, s & _BYTE, t & _BYTE,
                        cell[k],
                    )  # fmt: skip
                    p, q, r = p >> _EIGHT, q >> _EIGHT, r >> _EIGHT
                    s, t = s >> _EIGHT, t >> _EIGHT
            for i in range(whole, cell.size):
                _add_five(
                    five, label[i], first[i], second[i], third[i], fourth[i], fifth[i], cell[i]
                )
        for j in range(columns - columns % 5, columns):
            only, one = _piece(flat, n, j)[a:b], _piece(sums, _COLUMN, j)
            for i in range(cell.size):
                add(one, np.intp(label[i]) * ROOM, only[i], 0, cell[i])


@kernel
def _add_classes_at(binned, rows, cells, labels, hist):
    """Add some rows, in groups of columns whose sums fit the second-level cache.

    All groups of a strip of rows come before the next strip, so rows that are mapped from a file are read once.
    """
    columns = binned.shape[1]
    flat, sums = binned.reshape(-1), hist
    for a in range(0, rows.size, _SHORT):
        strip = rows[a : a + _SHORT]
        for first in range(0, columns, _WIDE):
            last = min(first + _WIDE, columns)
            some = sums[first * _COLUMN : last * _COLUMN]
            for k in range(strip.size):
                if k + _AHEAD < strip.size:
                    later = np.intp(strip[k + _AHEAD])
                    prefetch(flat, later * columns + first)
                    prefetch(flat, later * columns + last - 1)
                    prefetch(cells, later)
                    prefetch(labels, later)
                row = np.intp(strip[k])
                start, own = row * columns + first, np.intp(labels[row]) * ROOM
                _add_row(some, own, flat, start, last - first, cells[row])


@kernel
def _add_rewards_at(binned, rows, rewards, hist):
    """Add the rewards of some rows; channels come in fours, and the usual numbers, four and eight, are constants."""
    columns, channels = binned.shape[1], rewards.shape[1]
    flat, cells, sums = binned.reshape(-1), rewards.reshape(-1), hist
    for k in range(rows.size):
        if k + _AHEAD < rows.size:
            later = np.intp(rows[k + _AHEAD])
            prefetch(flat, later * columns)
            prefetch(flat, later * columns + columns - 1)
            prefetch(cells, later * channels)
        row = np.intp(rows[k])
        bins = _piece(flat, columns, row)
        if channels == 4:
            for j in range(columns):
                add_four(sums, (j * ROOM + np.intp(bins[j])) * 4, cells, row * 4)
        elif channels == 8:
            for j in range(columns):
                at = (j * ROOM + np.intp(bins[j])) * 8
                add_four(sums, at, cells, row * 8)
                add_four(sums, at + 4, cells, row * 8 + 4)
        else:
            for j in range(columns):
                at = (j * ROOM + np.intp(bins[j])) * channels
                for c in range(0, channels, 4):
                    add_four(sums, at + c, cells, row * channels + c)


@kernel
def _add_entries(sparse, rows, cells, labels, sums):
    """Add some rows to the cells of their entries, and to the last cell of their class."""
    size = sums.size // 2
    for k in range(rows.size):
        row = np.intp(rows[k])
        own, value = np.intp(labels[row]) * size, cells[row]
        for at in range(sparse.row_starts[row], sparse.row_starts[row + 1]):
            add(sums, own, np.intp(sparse.row_cells[at]), 0, value)
        sums[own + size - 1] += value


@kernel
def _add_rewards_of_entries(sparse, rows, rewards, sums):
    """:func:`_add_entries` for more classes."""
    channels, flat = rewards.shape[1], rewards.reshape(-1)
    for k in range(rows.size):
        row = np.intp(rows[k])
        for at in range(sparse.row_starts[row], sparse.row_starts[row + 1]):
            own = np.intp(sparse.row_cells[at]) * channels
            for c in range(0, channels, 4):
                add_four(sums, own + c, flat, row * channels + c)
        for c in range(0, channels, 4):
            add_four(sums, sums.size - channels + c, flat, row * channels + c)


@kernel
def cut(nodes, ids, threads, each, least):
    """Cut the rows of some nodes into pieces (node, start, stop), each node into pieces of equal size.

    There are about `each` pieces a thread, of at least `least` rows, and at least one for every node. A single thread
    has one piece a node.
    """
    rows = 0
    for id in ids:
        rows += nodes[id].stop - nodes[id].start
    size = max(rows if threads == 1 else -(-rows // (each * threads)), least, 1)
    total = 0
    for id in ids:
        total += max(-(-(nodes[id].stop - nodes[id].start) // size), 1)
    pieces = np.empty((total, 3), dtype=np.int64)
    k = 0
    for id in ids:
        start, rows = nodes[id].start, nodes[id].stop - nodes[id].start
        parts = max(-(-rows // size), 1)
        for j in range(parts):
            pieces[k, 0] = id
            pieces[k, 1] = start + rows * j // parts
            pieces[k, 2] = start + rows * (j + 1) // parts
            k += 1
    return pieces


_RUNS = 2  # a thread


def most_parts(threads: int, values: int, least: int) -> int:
    """Return the largest number of histograms of parts of nodes when `values` values are counted."""
    return 0 if threads == 1 else min(2 * _RUNS * threads, 2 * (values // least + 1))


@kernel
def _count_run(
    by_row, by_column, cells, labels, rewards, sparse, order, nodes, runs, owners, hists, parts,
    way, unlisted, chunk, slot,
):  # fmt: skip
    """Count a run of rows into the histogram of its node, or into a partial histogram."""
    id, a, b = runs[chunk, 0], runs[chunk, 1], runs[chunk, 2]
    hist = hists[nodes[id].slot] if owners[chunk] < 0 else parts[owners[chunk]]
    hist[:] = 0
    rows = order[nodes[id].side][a:b]
    if way == LISTED and unlisted:
        for j in range(rows.size):
            rows[j] = a + j
    if rewards is not None:
        _add_rewards_at(by_row, rows, rewards, hist)
        if sparse is not None:
            sums = hist[by_row.shape[1] * ROOM * rewards.shape[1] :]
            _add_rewards_of_entries(sparse, rows, rewards, sums)
    if labels is not None:
        if way == STRIPS:
            _add_classes(by_column, a, b, cells, labels, hist)
        elif way == IN_ORDER:
            _add_classes_by_row(by_row, a, b, cells, labels, hist)
        else:
            _add_classes_at(by_row, rows, cells, labels, hist)
        if sparse is not None:
            _add_entries(sparse, rows, cells, labels, hist[by_row.shape[1] * _COLUMN :])


@kernel
def sibling_of(id):
    """Return the sibling of a node; children are numbered in pairs from 1 on."""
    return id + 1 if id % 2 == 1 else id - 1


@kernel
def _fold_cells(nodes, ids, firsts, owners, hists, parts, subtract, pieces, chunk, slot):
    """Sum the partial histograms of a node over some cells, and subtract them from the parent's for the sibling."""
    j, piece = chunk // pieces, chunk % pieces
    id = ids[j]
    a, b = hists.shape[1] * piece // pieces, hists.shape[1] * (piece + 1) // pieces
    total = hists[nodes[id].slot][a:b]
    if firsts[j + 1] - firsts[j] > 1:
        first = parts[owners[firsts[j]]][a:b]
        for k in range(total.size):
            total[k] = first[k]
        for run in range(firsts[j] + 1, firsts[j + 1]):
            part = parts[owners[run]][a:b]
            for k in range(total.size):
                total[k] += part[k]
    if subtract and id > 0:
        other = hists[nodes[sibling_of(id)].slot][a:b]
        for k in range(total.size):
            other[k] -= total[k]


@kernel
def fold(team, nodes, ids, firsts, owners, hists, parts, subtract):
    """Run :func:`_fold_cells` for all nodes and cells."""
    pieces = 1 if slots(team) == 1 else max(4 * slots(team) // ids.size, 1)
    args = (nodes, ids, firsts, owners, hists, parts, subtract, pieces)
    parallel_for(team, ids.size * pieces, _fold_cells, args)


@kernel
def count_nodes(team, counted, order, nodes, ids, hists, parts, way, unlisted, subtract, least):
    """Count the histograms of some nodes, into their slots of `hists`.

    Parameters
    ----------
    order
        Two lists of rows; each node has a slice of one of them.
    parts
        Memory for :func:`most_parts` more histograms.
    way
        How rows are read; see the constants above.
    unlisted
        Whether the lists of rows are still empty. Rows that are read by list are then listed.
    subtract
        Whether the slots of the siblings hold the histograms of the parents, from which the counted ones
        are to be subtracted.
    least
        Rows from which a run of its own is faster.
    """
    runs = cut(nodes, ids, slots(team), _RUNS, least)
    owners = np.empty(len(runs), dtype=np.int64)
    firsts = np.empty(ids.size + 1, dtype=np.int64)
    run, used = 0, 0
    for j in range(ids.size):
        firsts[j] = run
        alone = run + 1 == len(runs) or runs[run + 1, 0] != ids[j]
        while run < len(runs) and runs[run, 0] == ids[j]:
            owners[run] = -1 if alone else used
            used += not alone
            run += 1
    firsts[ids.size] = run
    args = (
        counted.by_row, counted.by_column, counted.cells, counted.labels, counted.rewards,
        counted.sparse, order, nodes, runs, owners, hists, parts, way, unlisted,
    )  # fmt: skip
    parallel_for(team, len(runs), _count_run, args)
    if used > 0 or (subtract and ids[0] > 0):
        fold(team, nodes, ids, firsts, owners, hists, parts, subtract)
