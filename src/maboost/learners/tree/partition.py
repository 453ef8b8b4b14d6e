"""Partition of rows at a level of a tree, into the lists of the children or to the numbers of leaves.

There are two lists of rows. A node that is one piece is partitioned within its list. The pieces of a
larger node are partitioned separately and then copied together into the other list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.histogram import cut
from maboost.learners.tree.sparse import SparseColumns, column_bins
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for, slots

__all__ = ["Columns", "divide_rows", "number_leaves", "number_rows"]

_PIECES = 4  # a thread


class Columns(NamedTuple):
    """The bins by column, of dense and of sparse columns, and a byte of memory for each row."""

    dense: NDArray[np.uint8]
    sparse: SparseColumns | None
    room: NDArray[np.uint8]


@kernel
def _partition(rows, bins, go_left, spare):
    """Partition in place: rows whose bin goes left, then the others, each in order; return the number of the first."""
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
def _divide_piece(table, order, nodes, go_left, pieces, lefts, unlisted, chunk, slot):
    id, a, b = pieces[chunk, 0], pieces[chunk, 1], pieces[chunk, 2]
    rows, spare = order[nodes[id].side][a:b], order[1 - nodes[id].side][a:b]
    if unlisted:
        for j in range(rows.size):
            rows[j] = a + j
    bins = column_bins(table.dense, table.sparse, nodes[id].feature, rows, table.room)
    lefts[chunk] = _partition(rows, bins, go_left[id], spare)


@kernel
def _move_piece(order, nodes, pieces, lefts, places, chunk, slot):
    """Copy the two parts of a piece to their places in the other list."""
    if places[chunk, 0] < 0:
        return
    id, a, b = pieces[chunk, 0], pieces[chunk, 1], pieces[chunk, 2]
    here, there = order[nodes[id].side], order[1 - nodes[id].side]
    left, right = places[chunk, 0], places[chunk, 1]
    for j in range(lefts[chunk]):
        there[left + j] = here[a + j]
    for j in range(b - a - lefts[chunk]):
        there[right + j] = here[a + lefts[chunk] + j]


@kernel
def divide_rows(team, table, order, nodes, go_left, ids, unlisted, least, found):
    """Partition the rows of some nodes stably: rows that go left come first.

    With `unlisted` the lists are still empty, all rows are in the one node, and all columns are dense. The kernel writes to `found` for each
    node the number of rows that go left and the list that holds them afterwards.
    """
    pieces = cut(nodes, ids, slots(team), _PIECES, least)
    lefts = np.empty(len(pieces), dtype=np.int64)
    args = (table, order, nodes, go_left, pieces, lefts, unlisted)
    parallel_for(team, len(pieces), _divide_piece, args)
    places = np.empty((len(pieces), 2), dtype=np.int64)
    first, several = 0, False
    for j in range(ids.size):
        id = ids[j]
        last, left = first, 0
        while last < len(pieces) and pieces[last, 0] == id:
            left += lefts[last]
            last += 1
        found[j, 0], found[j, 1] = left, nodes[id].side
        places[first, 0] = -1
        if last - first > 1:
            several = True
            found[j, 1] = 1 - nodes[id].side
            to_left, to_right = nodes[id].start, nodes[id].start + left
            for k in range(first, last):
                places[k, 0], places[k, 1] = to_left, to_right
                to_left += lefts[k]
                to_right += pieces[k, 2] - pieces[k, 1] - lefts[k]
        first = last
    if several:
        parallel_for(team, len(pieces), _move_piece, (order, nodes, pieces, lefts, places))


@kernel
def _number_piece(table, order, nodes, go_left, pieces, leaf_of, unlisted, chunk, slot):
    id, a, b = pieces[chunk, 0], pieces[chunk, 1], pieces[chunk, 2]
    right = nodes[id].left + 1
    its = order[nodes[id].side][a:b]
    bins, goes = (
        column_bins(table.dense, table.sparse, nodes[id].feature, its, table.room),
        go_left[id],
    )
    if unlisted:
        for row in range(a, b):
            leaf_of[row] = right - goes[bins[row]]
    else:
        rows = order[nodes[id].side]
        for j in range(a, b):
            leaf_of[rows[j]] = right - goes[bins[rows[j]]]


@kernel
def number_rows(team, table, order, nodes, go_left, ids, unlisted, least, leaf_of):
    """Write for the rows of some nodes the child that they go to."""
    pieces = cut(nodes, ids, slots(team), _PIECES, least)
    args = (table, order, nodes, go_left, pieces, leaf_of, unlisted)
    parallel_for(team, len(pieces), _number_piece, args)


@kernel
def _fill_piece(order, nodes, pieces, leaf_of, chunk, slot):
    id, a, b = pieces[chunk, 0], pieces[chunk, 1], pieces[chunk, 2]
    rows = order[nodes[id].side]
    for j in range(a, b):
        leaf_of[rows[j]] = id


@kernel
def number_leaves(team, order, nodes, ids, least, leaf_of):
    """Write for the rows of some leaves the number of their leaf."""
    pieces = cut(nodes, ids, slots(team), _PIECES, least)
    parallel_for(team, len(pieces), _fill_piece, (order, nodes, pieces, leaf_of))
