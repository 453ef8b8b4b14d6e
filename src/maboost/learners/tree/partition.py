"""Rows going down a level of a tree: into the lists of the children, or to the number of a leaf.

All nodes of a level are worked on in one go, so that threads are woken once a level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.kernels import kernel
from maboost.runtime.threads import Threads

__all__ = ["Cut", "divide_rows", "number_leaves", "number_rows"]

_WORTH = 1 << 16  # rows that are worth a thread


class Cut(NamedTuple):
    """A node to be split: its place in the list of rows, the column asked, and the bins that go left."""

    start: int
    stop: int
    column: NDArray[np.uint8]
    go_left: NDArray[np.bool_]


@kernel
def _partition(rows, bins, go_left, spare):
    """In place: rows whose bin goes left, then the others, each in their order. Returns how many."""
    left, right = 0, 0
    for j in range(rows.size):
        row = rows[j]
        is_left = go_left[bins[row]]
        rows[left] = row
        spare[right] = row
        left += is_left
        right += not is_left
    for j in range(right):
        rows[left + j] = spare[j]
    return left


@kernel
def _assign(rows, bins, go_left, left, out):
    right = left + 1
    for j in range(bins.size if rows is None else rows.size):
        row = j if rows is None else rows[j]
        out[row] = right - go_left[bins[row]]


@kernel
def _fill(rows, number, out):
    for j in range(rows.size):
        out[rows[j]] = number


def divide_rows(rows: NDArray[np.int32], cuts: list[Cut], threads: Threads) -> list[int]:
    """Stable, in place: of each node the rows that go left come first. Returns how many do."""
    unsigned = rows.view(np.uint32)  # nothing to check before it is used as a place

    def work(j: int, a: int, b: int) -> tuple[int, int, int]:
        start, _, column, go_left = cuts[j]
        spare = np.empty(b - a, dtype=np.uint32)
        left = int(_partition(unsigned[start + a : start + b], column, go_left, spare))
        return start + a, start + a + left, start + b

    parts = threads.over_many([cut.stop - cut.start for cut in cuts], work, _WORTH)
    return [_joined(rows, pieces) for pieces in parts]


def _joined(rows: NDArray[np.int32], pieces: list[tuple[int, int, int]]) -> int:
    """One node whose pieces (start, cut, stop) were divided each by itself. Returns how many go left."""
    if len(pieces) > 1:  # what goes left of the first piece and right of the last is in its place
        lefts = [rows[a:cut] for a, cut, _ in pieces[1:]]
        rights = [rows[cut:b] for _, cut, b in pieces[:-1]]
        rows[pieces[0][1] : pieces[-1][1]] = np.concatenate([*lefts, *rights])
    return sum(cut - a for a, cut, _ in pieces)


def number_rows(
    rows: NDArray[np.int32] | None,
    cuts: list[Cut],
    first: int,
    leaf_of: NDArray[np.int32],
    threads: Threads,
) -> None:
    """Tell rows the numbers of their leaves, two a node from `first` on; `rows` None: all, in order."""

    def work(j: int, a: int, b: int) -> None:
        start, _, column, go_left = cuts[j]
        if rows is None:
            _assign(None, column[a:b], go_left, first + 2 * j, leaf_of[a:b])
        else:
            some = rows[start + a : start + b].view(np.uint32)
            _assign(some, column, go_left, first + 2 * j, leaf_of)

    threads.over_many([cut.stop - cut.start for cut in cuts], work, _WORTH)


def number_leaves(
    rows: NDArray[np.int32],
    leaves: list[tuple[int, int, int]],
    leaf_of: NDArray[np.int32],
    threads: Threads,
) -> None:
    """Tell the rows of leaves (start, stop, number) their numbers."""

    def work(j: int, a: int, b: int) -> None:
        start, _, number = leaves[j]
        _fill(rows[start + a : start + b].view(np.uint32), number, leaf_of)

    threads.over_many([stop - start for start, stop, _ in leaves], work, _WORTH)
