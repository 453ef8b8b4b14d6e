"""Prediction on raw values: flat arrays, whole forests in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.learners.tree.binning import Bins, levels_of
from maboost.learners.tree.descent import descend
from maboost.learners.tree.layout import MISSING_BIN, N_BINS, ROW
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for
from maboost.runtime.threads import Threads

__all__ = ["Forest", "Tree", "decide_tile", "descend_tile", "tile_of"]

Array = NDArray[np.float64]

_TILE = 1 << 9  # rows whose values stay in the cache while all trees read them
_BLOCK = 1 << 16  # rows that are converted at a time
_SHALLOW = 5  # depth up to which evaluating all splits of a tree is faster than following branches
_PADDED = 1 << 23  # bytes that trees may take as complete trees even if they have few nodes


@dataclass(frozen=True)
class Tree:
    """A tree as arrays over its nodes, the root first and every child after its parent.

    Attributes
    ----------
    feature : int32, -1 at leaves
    threshold : float64; values up to it go left
    left, right : int32
    missing_left : bool; whether NaN and unseen categories go left
    category_set : int32; index into `categories`, -1 for numbers
    categories : list of sorted arrays; these values go left. The smallest of a column's rare categories
        stands for all of them
    value : float64 of shape (n_nodes, answers): one answer for two classes, K for more
    gain, weight : float64; for importances
    go_left : bool of shape (n_nodes, 256); the same decisions on bins
    known : categories of each categorical feature, rare ones by the smallest of them; any other value
        counts as missing
    rare : categories that share a bin, by feature; None in trees of older pickles
    """

    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    category_set: NDArray[np.int32]
    categories: list[Array]
    value: Array
    gain: Array
    weight: Array
    go_left: NDArray[np.bool_]
    known: dict[int, Array]
    rare: dict[int, Array] | None = None

    @classmethod
    def from_growth(
        cls,
        nodes: NDArray[Any],
        sums: NDArray[np.int64],
        go_left: NDArray[np.bool_],
        bins: Bins,
        votes: bool,
        count_bits: int,
        classes: int,
    ) -> Tree:
        """Make a tree from the nodes of a grown tree, their sums, and the bins that go left at each split."""
        left = nodes["left"].astype(np.int32)
        inner = left >= 0
        feature = np.where(inner, nodes["feature"], -1).astype(np.int32)
        threshold = np.full(len(nodes), math.inf)
        threshold[inner] = bins.upper_edges(feature[inner], nodes["bin"][inner])
        go_left = go_left & inner[:, None]
        category_set, categories = np.full(len(nodes), -1, dtype=np.int32), list[Array]()
        if bins.has_categories:
            at = np.flatnonzero(inner & bins.categorical[feature])
            at = at[np.argsort(left[at])]  # in the order in which they were split
            category_set[at] = np.arange(len(at))
            threshold[at] = math.inf
            for node in at.tolist():
                edges = bins.edges[feature[node]]
                categories.append(edges[go_left[node, : len(edges)]])
        value = answers(sums, nodes["low"], nodes["high"], votes, count_bits, classes)
        return cls(
            feature, threshold, np.where(inner, left, 0), np.where(inner, left + 1, 0),
            go_left[:, MISSING_BIN].copy(), category_set, categories, value,
            np.where(inner, nodes["gain"], 0.0), nodes["weight"].copy(), go_left,
            bins.codes, bins.rare,
        )  # fmt: skip

    def categories_as(self, other: Tree) -> bool:
        """Return whether both trees have the same categories and the same rare ones."""
        pairs = ((self.known, other.known), (self.rare or {}, other.rare or {}))
        return all(_same_arrays(one, its) for one, its in pairs)

    def on_bins(self, bins: Bins) -> Tree:
        """Return the same tree with its decisions on bins, which a file does not contain."""
        go_left = np.zeros((len(self.feature), N_BINS), dtype=bool)
        for node in np.flatnonzero(self.feature >= 0):
            edges = bins.edges[self.feature[node]]
            if self.category_set[node] >= 0:
                chosen = self.categories[self.category_set[node]]
                go_left[node, : len(edges)] = np.isin(edges, chosen)
            else:
                go_left[node, : 1 + np.searchsorted(edges, self.threshold[node])] = True
            go_left[node, MISSING_BIN] = self.missing_left[node]
        return replace(self, go_left=go_left)

    def send_down(
        self,
        by_column: NDArray[np.uint8],
        threads: Threads,
        out: NDArray[np.int32] | None = None,
    ) -> NDArray[np.int32]:
        """Return the leaf of every binned row, in `out` if given; reads only the columns of the tree's splits."""
        if out is None:
            out = np.empty(by_column.shape[1], dtype=ROW)
        descend(self.feature, self.left, self.go_left, self.depth, by_column, threads, out)
        return out

    @property
    def depth(self) -> int:
        """The length of the longest path from the root to a leaf."""
        return int(_depth(self.feature, self.left, self.right))

    def importances(self, columns: int) -> Array:
        """Return the gain by feature, summing to one (or to zero for a single leaf)."""
        total = np.zeros(columns)
        inner = self.feature >= 0
        np.add.at(total, self.feature[inner], self.gain[inner])
        return total / total.sum() if total.sum() > 0.0 else total


def _same_arrays(one: dict[int, Array], other: dict[int, Array]) -> bool:
    if one is other:
        return True
    return one.keys() == other.keys() and all(np.array_equal(one[f], other[f]) for f in one)


def answers(
    sums: NDArray[np.int64], low: Array, high: Array, votes: bool, count_bits: int, classes: int
) -> Array:
    """Return the answer of each node as if it were a leaf."""
    if classes == 0:
        zero, one = sums.T >> count_bits
        reward = (one - zero).astype(float)
        if votes:
            return np.where(reward > 0.0, 1.0, -1.0)[:, None]
        weight = (one + zero).astype(float)
        value = np.divide(reward, weight, out=np.zeros_like(reward), where=weight > 0.0)
        bounded: Array = np.minimum(np.maximum(value, low), high)[:, None]
        return bounded
    reward = (sums[:, :classes] >> count_bits).astype(float)
    if votes:
        return np.eye(classes)[np.argmax(reward, axis=1)]
    weight = (sums[:, classes] >> count_bits).astype(float)[:, None]
    tilt = np.divide(reward, 2.0 * weight, out=np.zeros_like(reward), where=weight > 0.0)
    return simplex_rows(1.0 / classes + tilt)


def simplex_rows(table: Array) -> Array:
    """Return the Euclidean projection of each row onto the probability simplex."""
    ordered = -np.sort(-table, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, table.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1) - 1
    tau = np.take_along_axis(excess, last[:, None], axis=1)
    rows = np.maximum(table - tau, 0.0)
    return rows / rows.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Forest:
    """Trees in one set of arrays; all have the same categories.

    A right child follows its left sibling, and a leaf is its own left child with an infinite
    threshold. So the descent is arithmetic without branches, with the same number of steps for every row.
    """

    roots: NDArray[np.int64]
    depths: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    category_start: NDArray[np.int64]
    category_values: Array
    category_set: NDArray[np.int32]
    value: Array
    levels: dict[int, tuple[Array, Array]]

    @classmethod
    def of(cls, trees: list[Tree]) -> Forest:
        """Concatenate trees."""
        sizes = np.array([len(t.feature) for t in trees], dtype=np.int64)
        roots = np.cumsum(sizes) - sizes
        sets = [c for t in trees for c in t.categories]
        n_sets = np.array([len(t.categories) for t in trees], dtype=np.int64)
        feature = np.concatenate([t.feature for t in trees])
        left = np.concatenate([t.left for t in trees]) + np.repeat(roots, sizes)
        category_set = np.concatenate([t.category_set for t in trees])
        first_set = np.repeat(np.cumsum(n_sets) - n_sets, sizes)
        leaf = feature < 0
        levels = {}
        for f, codes in trees[0].known.items():
            values, bins = levels_of(codes, (trees[0].rare or {}).get(f))
            levels[f] = values, codes[bins]
        return cls(
            roots,
            np.array([t.depth for t in trees], dtype=np.int64),
            np.where(leaf, 0, feature).astype(np.int32),
            np.where(leaf, np.inf, np.concatenate([t.threshold for t in trees])),
            np.where(leaf, np.arange(len(leaf)), left).astype(np.int32),
            np.where(leaf, True, np.concatenate([t.missing_left for t in trees])),
            np.cumsum([0] + [len(c) for c in sets]).astype(np.int64),
            np.concatenate([*sets, np.empty(0)]),
            np.where(category_set >= 0, category_set + first_set, -1).astype(np.int32),
            np.concatenate([t.value for t in trees]),
            levels,
        )

    def _readable(self, block: Any) -> Array:
        """Return a block as float64, contiguous by row or by column.

        Unseen categories become NaN, rare ones the category that represents them.
        """
        table = np.asarray(block, dtype=np.float64)
        if not (table.flags.c_contiguous or table.flags.f_contiguous):
            table = np.ascontiguousarray(table)
        for f, (levels, stand_in) in self.levels.items():
            meant = np.full(len(table), np.nan)
            if len(levels):
                at = np.minimum(np.searchsorted(levels, table[:, f]), len(levels) - 1)
                seen = levels[at] == table[:, f]
                meant[seen] = stand_in[at[seen]]
            if not np.array_equal(meant, table[:, f]):
                table = table.copy() if table is block else table
                table[:, f] = meant
        return table

    def _complete(self) -> tuple[NDArray[np.int32], Array, NDArray[np.bool_], Array]:
        """All trees as complete trees of the same depth: every split by level, every answer below."""
        ids = self.roots[:, None]
        levels = [ids[:, :0]]
        for _ in range(int(self.depths.max(initial=0))):
            levels.append(ids)
            left = self.left[ids]
            right = np.where(left == ids, ids, left + 1)
            ids = np.stack([left, right], axis=2).reshape(len(ids), -1)
        inner = np.concatenate(levels, axis=1)
        return (
            self.feature[inner], self.threshold[inner], self.missing_left[inner], self.value[ids],
        )  # fmt: skip

    def _may_be_complete(self) -> bool:
        """Return whether the trees are shallow, and take little more memory as complete trees.

        One tree of depth 5 gives 32 leaves to every tree, even to a single node.
        """
        depth = int(self.depths.max(initial=0))
        if depth > _SHALLOW:
            return False
        leaves = len(self.roots) << depth
        return leaves <= len(self.feature) or leaves * (8 * self.value.shape[1] + 64) <= _PADDED

    @property
    def sets(self) -> tuple[Any, ...]:
        """The sets of the splits by category as arguments of kernels; None where there are none."""
        if len(self.category_start) == 1:
            return None, None, None
        return self.category_set, self.category_start, self.category_values

    @cached_property
    def _walk(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Return the kernel for these trees, and its arguments."""
        nodes = (
            self.roots, self.depths, self.feature, self.threshold, self.left, self.missing_left,
        )  # fmt: skip
        if len(self.category_start) == 1 and self._may_be_complete():
            return _votes_of_complete, self._complete()
        return _votes_of_any, (*nodes, *self.sets, self.value)

    @cached_property
    def _used(self) -> tuple[NDArray[np.int32], Forest]:
        """The columns that any tree splits on, and the same trees on a table of only these."""
        used, feature = np.unique(self.feature, return_inverse=True)
        number = {f: j for j, f in enumerate(used.tolist()) if f in self.levels}
        levels = {j: self.levels[f] for f, j in number.items()}
        return used, replace(self, feature=feature.astype(np.int32), levels=levels)

    def votes(self, X: Any, steps: Array, threads: Threads | None = None) -> Array:
        """Return the weighted sum of all trees' answers, shape (n, answers)."""
        if sp.issparse(X):
            used, narrow = self._used
            if len(used) < X.shape[1]:
                return narrow.votes(X[:, used], steps, threads)
        threads = threads or Threads()
        out = np.zeros((X.shape[0], self.value.shape[1]))
        walk, shape = self._walk
        for start, stop, table in self.blocks(X):
            threads.run(walk, *table, *shape, steps, out[start:stop])
        return out

    def blocks(self, X: Any) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Yield blocks of rows: the first row, the row after the last, and the values as arguments of kernels.

        Dense numbers without categories are read in place, other tables a block at a time.
        """
        n = X.shape[0]
        block = n if _is_plain(X) and not self.levels else _BLOCK
        for start in range(0, n, max(block, 1)):
            stop = min(start + block, n)
            some = X if block == n else X[start:stop]
            table = self._readable(some.toarray() if sp.issparse(some) else some)
            by_row = table.flags.c_contiguous
            flat = table.reshape(-1) if by_row else table.T.reshape(-1)
            steps = (table.shape[1], 1) if by_row else (1, len(table))
            yield start, stop, (flat, *steps, table.shape[1])


def _is_plain(X: Any) -> bool:
    """Return whether a table is an array of floats of 64 bits, contiguous by row or by column."""
    if not isinstance(X, np.ndarray) or X.dtype != np.float64:
        return False
    return bool(X.flags.c_contiguous or X.flags.f_contiguous)


@kernel
def tile_of(flat, row_step, column_step, columns, start, stop):
    """Return some rows of a table, by column."""
    tile = np.empty((columns, stop - start))
    for j in range(columns):
        at = start * row_step + j * column_step
        for i in range(stop - start):
            tile[j, i] = flat[at]
            at += row_step
    return tile.T


@kernel
def _depth(feature, left, right):
    depth = np.zeros(feature.size, dtype=np.int64)
    deepest = 0
    for node in range(feature.size):
        if feature[node] >= 0:
            below = depth[node] + 1
            depth[left[node]] = depth[right[node]] = below
            deepest = max(deepest, below)
    return deepest


@kernel
def _collect(node, value, step, out):
    for i in range(node.size):
        for k in range(value.shape[1]):
            out[i, k] += step * value[node[i], k]


@kernel
def _ask(values, threshold, missing_left, place, node, right):
    """Mark the rows at this place of the level that go right."""
    if missing_left:
        for i in range(place.size):
            right[i] |= (place[i] == node) & (values[i] > threshold)
    else:
        for i in range(place.size):
            right[i] |= (place[i] == node) & (not values[i] <= threshold)


@kernel
def _add_votes_of_complete(X, feature, threshold, missing_left, value, steps, out):
    """Add the votes of shallow trees: every split is evaluated for all rows of a tile, which vectorises.

    A split counts only for the rows at its node; `place` numbers the nodes of a level.
    """
    by_column = X.T
    place = np.empty(X.shape[0], dtype=np.int64)
    right = np.empty(X.shape[0], dtype=np.int64)
    for t in range(steps.size):
        place[:] = 0
        node, width = 0, 1
        while node < feature.shape[1]:
            right[:] = 0
            for j in range(width):
                cut, missing = threshold[t, node], missing_left[t, node]
                if cut < np.inf or not missing:
                    _ask(by_column[feature[t, node]], cut, missing, place, j, right)
                node += 1
            width *= 2
            for i in range(place.size):
                place[i] = 2 * place[i] + right[i]
        _collect(place, value[t], steps[t], out)


@kernel
def _in_set(v, values, start, stop):
    last = stop
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < v:
            start = middle + 1
        else:
            stop = middle
    return start < last and values[start] == v


@kernel
def descend_tile(
    X,
    root,
    depth,
    feature,
    threshold,
    left,
    missing_left,
    category_set,
    set_start,
    set_values,
    node,
):
    """Write the leaf of each row; all rows descend one level at a time. `category_set` is None for numbers only.

    A function for a single value would count the references to its arrays at every call, which takes longer than the
    descent.
    """
    node[:] = root
    for _ in range(depth):
        for i in range(node.size):
            at = node[i]
            v = X[i, feature[at]]
            if category_set is None:
                goes_left = (v <= threshold[at]) | ((v != v) & missing_left[at])
            elif v != v:
                goes_left = missing_left[at]
            elif category_set[at] >= 0:
                which = category_set[at]
                goes_left = _in_set(v, set_values, set_start[which], set_start[which + 1])
            else:
                goes_left = v <= threshold[at]
            node[i] = left[at] + (1 - goes_left)


@kernel
def decide_tile(values, at, threshold, missing_left, category_set, set_start, set_values, out):
    """Write whether each value goes left at a node."""
    cut, missing = threshold[at], missing_left[at]
    which = -1
    if category_set is not None:
        which = category_set[at]
        if which >= 0:
            start, stop = set_start[which], set_start[which + 1]
            for i in range(out.size):
                v = values[i]
                out[i] = missing if v != v else _in_set(v, set_values, start, stop)
    if which < 0:
        for i in range(out.size):
            v = values[i]
            out[i] = (v <= cut) | ((v != v) & missing)


@kernel
def _add_votes(
    X, roots, depths, feature, threshold, left, missing_left, category_set, set_start, set_values,
    value, steps, out,
):  # fmt: skip
    """Add the votes of any trees."""
    node = np.empty(X.shape[0], dtype=np.int32)
    for t in range(roots.size):
        descend_tile(
            X, roots[t], depths[t], feature, threshold, left, missing_left, category_set, set_start,
            set_values, node,
        )  # fmt: skip
        _collect(node, value, steps[t], out)


@kernel
def _complete_tile(
    flat, row_step, column_step, columns, feature, threshold, missing_left, value, steps, out,
    chunk, slot,
):  # fmt: skip
    start, stop = chunk * _TILE, min((chunk + 1) * _TILE, len(out))
    X = tile_of(flat, row_step, column_step, columns, start, stop)
    _add_votes_of_complete(X, feature, threshold, missing_left, value, steps, out[start:stop])


@kernel
def _votes_of_complete(
    team, flat, row_step, column_step, columns, feature, threshold, missing_left, value, steps, out
):
    args = (
        flat, row_step, column_step, columns, feature, threshold, missing_left, value, steps, out,
    )  # fmt: skip
    parallel_for(team, -(-len(out) // _TILE), _complete_tile, args)


@kernel
def _any_tile(
    flat, row_step, column_step, columns, roots, depths, feature, threshold, left, missing_left,
    category_set, set_start, set_values, value, steps, out, chunk, slot,
):  # fmt: skip
    start, stop = chunk * _TILE, min((chunk + 1) * _TILE, len(out))
    X = tile_of(flat, row_step, column_step, columns, start, stop)
    _add_votes(
        X, roots, depths, feature, threshold, left, missing_left, category_set, set_start,
        set_values, value, steps, out[start:stop],
    )  # fmt: skip


@kernel
def _votes_of_any(
    team, flat, row_step, column_step, columns, roots, depths, feature, threshold, left,
    missing_left, category_set, set_start, set_values, value, steps, out,
):  # fmt: skip
    args = (
        flat, row_step, column_step, columns, roots, depths, feature, threshold, left, missing_left,
        category_set, set_start, set_values, value, steps, out,
    )  # fmt: skip
    parallel_for(team, -(-len(out) // _TILE), _any_tile, args)
