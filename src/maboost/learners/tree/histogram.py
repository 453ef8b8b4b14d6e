"""Histograms by feature, class and bin: sums of the cells of rows (:mod:`maboost.learners.tree.packing`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.layout import CELL, ROOM, ROW
from maboost.runtime.crew import take_next
from maboost.runtime.instructions import (
    add,
    add_eight,
    add_four,
    byte,
    eight_bytes,
    prefetch,
)
from maboost.runtime.kernels import kernel
from maboost.runtime.threads import Threads

__all__ = ["class_histograms", "reward_histograms"]

_AHEAD = 8  # rows from the one being added to the one being fetched
_STRIP = 1 << 13  # rows whose cells stay in the cache from column to column
_WIDE = 64  # columns of a row that are read in one go: a cache line or two
_SHORT = 1 << 10  # rows whose pages stay in memory from piece to piece, however little there is
_COLUMN = 2 * ROOM  # cells of a column, one class after the other
_BYTE, _EIGHT = np.uint64(255), np.uint64(8)
_TALL = 1 << 12  # rows of a table that is worth reading by column
_WORTH = 1 << 18  # values that are worth a thread and a histogram of its own


@kernel
def _piece(flat, size, j):
    """Piece j of a flat array: unlike a matrix's row, known to be contiguous, which halves the time."""
    return flat[j * size : (j + 1) * size]


@kernel(inline="always")
def _add_row(sums, own, flat, start, size, value):
    """Add a value to the cells of a row's bins, ``flat[start : start + size]``, a column each.

    The cells of its class begin at `own` in each column.
    """
    whole = size // 8 * 8
    for j in range(0, whole, 8):
        add_eight(sums, own + j * _COLUMN, eight_bytes(flat, start + j), _COLUMN, value)
    for j in range(whole, size):
        add(sums, own, byte(flat, start + j), j * _COLUMN, value)


@kernel
def _add_classes_by_row(binned, cells, labels, hist):
    """All rows, each of them once from the first to the last: for rows that are mapped from a file."""
    n, columns = binned.shape
    flat, sums = binned.reshape(-1), hist.reshape(-1)
    for i in range(n):
        _add_row(sums, np.intp(labels[i]) * ROOM, flat, i * columns, columns, cells[i])


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
def _add_classes(by_column, taken, cells, labels, hist):
    """Whole strips of rows, as long as there are some left to take.

    The sums of five columns stay in the first cache, and the cells of a strip in the second.
    """
    columns, n = by_column.shape
    flat, sums = by_column.reshape(-1), hist.reshape(-1)
    while True:
        a = take_next(taken, _STRIP)
        if a >= n:
            return
        b = min(a + _STRIP, n)
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
    """Some rows, in pieces of so many columns that their sums stay in the second cache.

    All pieces of a strip of rows before the next strip: rows that are mapped from a file are read once.
    """
    columns = binned.shape[1]
    flat, sums = binned.reshape(-1), hist.reshape(-1)
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
    """Channels come in fours; four or eight, the usual numbers, are told to the compiler."""
    columns, channels = binned.shape[1], rewards.shape[1]
    flat, cells, sums = binned.reshape(-1), rewards.reshape(-1), hist.reshape(-1)
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


def _summed(parts: list[NDArray[np.int64]], shape: tuple[int, int, int]) -> NDArray[np.int64]:
    if not parts:
        return np.zeros(shape, dtype=CELL)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def class_histograms(
    by_row: NDArray[np.uint8],
    by_column: NDArray[np.uint8] | None,
    nodes: list[NDArray[np.int32]] | None,
    cells: NDArray[np.int64],
    labels: NDArray[np.uint8],
    threads: Threads,
) -> list[NDArray[np.int64]]:
    """Cells summed by (feature, class, bin) over the listed rows of each node, or one of all rows.

    All rows are read by column where `by_column` is given, since the sums being added to are then few;
    some rows by row, since a row is a cache line or two. (A short table is read by row in any case: it
    would not make up for the time it takes to compile or load another kernel.)
    """
    if len(labels) < _TALL:
        by_column = None
        if nodes is None:
            nodes = [np.arange(len(labels), dtype=ROW)]
    shape, taken = (by_row.shape[1], 2, ROOM), np.zeros(1, dtype=np.int64)

    def work(j: int, a: int, b: int) -> NDArray[np.int64]:
        hist = np.zeros(shape, dtype=CELL)
        if nodes is None and by_column is not None:
            _add_classes(by_column, taken, cells, labels, hist)
        elif nodes is None:
            _add_classes_by_row(by_row[a:b], cells[a:b], labels[a:b], hist)
        else:
            _add_classes_at(by_row, nodes[j][a:b].view(np.uint32), cells, labels, hist)
        return hist

    worth = -(-_WORTH // by_row.shape[1])
    sizes = [len(labels)] if nodes is None else [len(rows) for rows in nodes]
    return [_summed(parts, shape) for parts in threads.over_many(sizes, work, worth)]


def reward_histograms(
    binned: NDArray[np.uint8],
    nodes: list[NDArray[np.int32]],
    rewards: NDArray[np.int64],
    threads: Threads,
) -> list[NDArray[np.int64]]:
    """Reward cells (n, channels) summed by (feature, bin, channel) over the listed rows of each node."""
    shape = (binned.shape[1], ROOM, rewards.shape[1])

    def work(j: int, a: int, b: int) -> NDArray[np.int64]:
        hist = np.zeros(shape, dtype=CELL)
        _add_rewards_at(binned, nodes[j][a:b].view(np.uint32), rewards, hist)
        return hist

    worth = -(-_WORTH // (binned.shape[1] * rewards.shape[1]))
    sizes = [len(rows) for rows in nodes]
    return [_summed(parts, shape) for parts in threads.over_many(sizes, work, worth)]
