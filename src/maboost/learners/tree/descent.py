"""Binned rows descending a whole tree: hidden rows, and rows that come later."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.layout import MISSING_BIN
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for
from maboost.runtime.threads import Threads

__all__ = ["descend"]

_TILE = 1 << 12  # rows whose nodes fit the first-level cache
_NUMBERED = 256  # nodes whose number fits one byte
_SETS = 4  # table look-ups that take as long as a level of branches


@kernel
def _ask_all(by_column, size, nodes, feature, left, last, from_missing, go_left, out, chunk, slot):
    """Evaluate the splits of all nodes for all rows, parents first; a split changes only the rows at its node.

    This evaluates more splits than levels, but for 64 rows at once, since neither the column nor the place of the
    result depends on the row. If the bins up to `last` go left, starting with that of missing values or with
    the first, no look-up in the table `go_left` is needed either.
    """
    n, start = by_column.shape[1], chunk * size
    stop = min(start + size, n)
    flat, room = by_column.reshape(-1), np.empty(_TILE, dtype=np.uint8)
    for a in range(start, stop, _TILE):
        b = min(a + _TILE, stop)
        place = room[: b - a]
        place[:] = 0
        for k in range(nodes.size):
            first = np.intp(feature[k]) * n
            bins = flat[first + a : first + b]
            node, next = np.uint8(nodes[k]), np.uint8(left[k])
            if last[k] < 0:
                answers = go_left[nodes[k]]
                for i in range(place.size):
                    there = np.uint8(next + (not answers[bins[i]]))
                    place[i] = there if place[i] == node else place[i]
            else:
                end, lift = np.uint8(last[k]), np.uint8(from_missing[k])  # 255 plus one wraps to 0
                for i in range(place.size):
                    there = np.uint8(next + (np.uint8(bins[i] + lift) > end))
                    place[i] = there if place[i] == node else place[i]
        for i in range(place.size):
            out[a + i] = place[i]


@kernel
def _walk(by_column, size, feature, left, go_left, depth, out, chunk, slot):
    """Descend a tile of rows one level at a time; a leaf is its own left child, and every row there goes left."""
    start = chunk * size
    stop = min(start + size, out.size)
    for a in range(start, stop, _TILE):
        b = min(a + _TILE, stop)
        out[a:b] = 0
        for _ in range(depth):
            for i in range(a, b):
                at = out[i]
                out[i] = left[at] + (1 - go_left[at, by_column[feature[at], i]])


@kernel
def _ask_all_rows(team, by_column, nodes, feature, left, last, from_missing, go_left, out):
    chunks, size = chunks_of(team, out.size, _TILE)
    args = (by_column, size, nodes, feature, left, last, from_missing, go_left, out)
    parallel_for(team, chunks, _ask_all, args)


@kernel
def _walk_all_rows(team, by_column, feature, left, go_left, depth, out):
    chunks, size = chunks_of(team, out.size, _TILE)
    parallel_for(team, chunks, _walk, (by_column, size, feature, left, go_left, depth, out))


def descend(
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    go_left: NDArray[np.bool_],
    depth: int,
    by_column: NDArray[np.uint8],
    threads: Threads,
    out: NDArray[np.int32],
) -> None:
    """Write the leaf of every row in a tree whose right children follow their left siblings.

    `feature` is -1 at leaves; `go_left` says by node and bin which rows go left. Only the columns that the
    tree splits on are read.
    """
    leaves = feature < 0
    nodes = np.flatnonzero(~leaves)
    lift, low = go_left[nodes, MISSING_BIN], go_left[nodes, :MISSING_BIN]
    count = np.count_nonzero(low, axis=1)
    ordered = (low == (np.arange(MISSING_BIN) < count[:, None])).all(axis=1)
    if len(feature) <= _NUMBERED and np.count_nonzero(~ordered) <= _SETS * depth:
        last = np.where(ordered, count - 1 + lift, -1)
        questions = nodes, feature[nodes], left[nodes], last, lift, go_left
        threads.run(_ask_all_rows, by_column, *questions, out)
    else:
        own = np.where(leaves, np.arange(len(left)), left)
        branches = np.where(leaves, 0, feature), own, go_left | leaves[:, None], depth
        threads.run(_walk_all_rows, by_column, *branches, out)
