"""Trees as flat arrays in a model file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from maboost.io.container import Arrays
from maboost.io.fields import Tensors, require
from maboost.learners.tree.binning import levels_of
from maboost.learners.tree.layout import N_BINS
from maboost.learners.tree.predictor import Tree

__all__ = ["OFFSETS", "flat", "read_trees"]

OFFSETS = ("tree_start", "tree_sets", "set_start")  # arrays that count from the first tree on

MAX_TREES = 1 << 18  # a tree needs far more memory than its bytes
MAX_CATEGORICAL = 1 << 20  # columns; the same holds for them
_TREE, _SET, _KNOWN = (
    1300,
    160,
    400,
)  # bytes of memory for a tree, a set and a column beyond their arrays
_BLOCK = 1 << 16  # values looked up at a time
_MOST = 1e100  # the largest gain or weight, so that sums do not overflow
_SIMPLEX = 1e-6  # the largest difference from one of the sum of a node's answers

_NODES = (
    "feature", "threshold", "left", "right", "missing_left", "category_set", "value", "gain", "weight",
)  # fmt: skip


def flat(trees: list[Tree], answers: int) -> Arrays:
    """Return trees as arrays over all their nodes.

    `category_set` counts the sets of its own tree, `left` and `right` the nodes of their own tree.
    """
    known = trees[0].known if trees else {}
    for tree in trees[1:]:
        if not tree.categories_as(trees[0]):
            raise ValueError(
                "the trees know different categories (categorical_features or max_bins was changed between "
                "two fits with warm_start, or the rounds of a stream found others): a model file holds one "
                "set for all, so fit anew"
            )
    columns = sorted(known)
    rare = {f: codes for tree in trees[:1] for f, codes in (tree.rare or {}).items()}
    levels = [levels_of(known[f], rare.get(f))[0] for f in columns]
    shared = [np.isin(its, rare.get(f, [])) for f, its in zip(columns, levels, strict=True)]
    sets = [s for tree in trees for s in tree.categories]
    empty = trees or [_no_tree(answers)]
    nodes = {name: np.concatenate([getattr(t, name) for t in empty]) for name in _NODES}
    return nodes | {
        "tree_start": _starts([len(t.feature) for t in trees]),
        "tree_sets": _starts([len(t.categories) for t in trees]),
        "set_start": _starts([len(s) for s in sets]),
        "set_values": np.concatenate([*sets, np.empty(0)]),
        "known_feature": np.array(columns, dtype=np.int32),
        "known_start": _starts([len(its) for its in levels]),
        "known_values": np.concatenate([*levels, np.empty(0)]),
        "known_rare": np.concatenate([*shared, np.empty(0, dtype=bool)]),
    }


def _starts(lengths: list[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *lengths]).astype(np.int64)


def _no_tree(answers: int) -> Tree:
    whole, real = np.empty(0, dtype=np.int32), np.empty(0)
    return Tree(
        whole, real, whole, whole, np.empty(0, dtype=bool), whole, [], np.empty((0, answers)), real,
        real, np.empty((0, N_BINS), dtype=bool), {},
    )  # fmt: skip


def read_trees(
    arrays: Tensors, n_classes: int, n_features: int, categories: dict[int, int]
) -> list[Tree]:
    """Return trees from arrays, after checking everything that prediction relies on.

    Parameters
    ----------
    arrays : Tensors
    n_classes, n_features : int
    categories : dict
        The number of categories of each coded column.
    """
    known = _Known.read(arrays, n_features, categories)
    nodes = _Nodes.read(arrays, 1 if n_classes <= 2 else n_classes)
    sets = _Sets.read(arrays, len(nodes.start) - 1)
    nodes.check_shape(n_features)
    nodes.check_numbers()
    _check_sets(nodes, sets, known)
    arrays.spend(_TREE * (len(nodes.start) - 1) + _SET * (len(sets.start) - 1), "the trees")
    return _trees(nodes, sets, *known.by_bins())


def _offsets(arrays: Tensors, name: str, pieces: int | None, total: int) -> NDArray[np.int64]:
    """Return the start of each piece, and the total length at the end."""
    start = arrays.take(name, np.int64, (None if pieces is None else pieces + 1,))
    require(
        len(start) and start[0] == 0 and start[-1] == total and np.all(start[1:] >= start[:-1]),
        f"array {name!r} must rise from 0 to {total}",
    )
    return start


def _owners(start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for every entry the piece that contains it."""
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _check_sorted(values: NDArray[np.float64], start: NDArray[np.int64], name: str) -> None:
    rises = values[1:] > values[:-1]
    first = start[
        (start > 0) & (start < len(values))
    ]  # first entries of pieces have no predecessor
    rises[first - 1] = True
    require(np.all(np.isfinite(values)), f"array {name!r} must be finite")
    require(np.all(rises), f"array {name!r} must be sorted and unique in every set")


@dataclass(frozen=True)
class _Known:
    """The categories of each categorical column, and which of them share a bin."""

    feature: NDArray[np.int32]
    start: NDArray[np.int64]
    values: NDArray[np.float64]
    rare: NDArray[np.bool_]

    @classmethod
    def read(cls, arrays: Tensors, n_features: int, categories: dict[int, int]) -> _Known:
        feature = arrays.take("known_feature", np.int32, (None,))
        require(len(feature) <= MAX_CATEGORICAL, "has too many categorical columns")
        arrays.spend(_KNOWN * len(feature), "the categorical columns")
        values = arrays.take("known_values", np.float64, (None,))
        start = _offsets(arrays, "known_start", len(feature), len(values))
        require(
            np.all(np.diff(feature) > 0) and np.all((feature >= 0) & (feature < n_features)),
            f"array 'known_feature' must rise within the {n_features} columns",
        )
        _check_sorted(values, start, "known_values")
        rare = arrays.take("known_rare", np.bool_, (len(values),))
        known = cls(feature, start, values, rare)
        for f, codes in known.by_column().items():
            count = categories.get(f)
            fits = count is None or np.all(
                (codes >= 0) & (codes < count) & (np.floor(codes) == codes)
            )
            require(fits, f"array 'known_values' has codes for column {f} that are no category")
        return known

    def by_column(self) -> dict[int, NDArray[np.float64]]:
        return {f: self.values[part] for f, part in self._parts()}

    def _parts(self) -> Iterator[tuple[int, slice]]:
        """Yield each column, and the slice of its values."""
        ends = pairwise(self.start.tolist())
        for f, (a, b) in zip(self.feature.tolist(), ends, strict=True):
            yield f, slice(a, b)

    @cached_property
    def in_sets(self) -> NDArray[np.bool_]:
        """Return which values sets may hold: of the rare ones of a column only the first, which represents all."""
        places = np.flatnonzero(self.rare)
        column = _owners(self.start)[places]
        allowed = ~self.rare
        allowed[places[np.diff(column, prepend=-1) > 0]] = True
        return allowed

    def by_bins(self) -> tuple[dict[int, NDArray[np.float64]], dict[int, NDArray[np.float64]]]:
        """Return by column the values that sets may hold, and the rare ones if there are any."""
        known, rare = {}, {}
        for f, part in self._parts():
            known[f] = self.values[part][self.in_sets[part]]
            if self.rare[part].any():
                rare[f] = self.values[part][self.rare[part]]
        return known, rare


@dataclass(frozen=True)
class _Sets:
    """The categories that go left at a node."""

    tree: NDArray[np.int64]
    start: NDArray[np.int64]
    values: NDArray[np.float64]

    @classmethod
    def read(cls, arrays: Tensors, trees: int) -> _Sets:
        values = arrays.take("set_values", np.float64, (None,))
        start = _offsets(arrays, "set_start", None, len(values))
        _check_sorted(values, start, "set_values")
        return cls(_offsets(arrays, "tree_sets", trees, len(start) - 1), start, values)


@dataclass(frozen=True)
class _Nodes:
    """All nodes of all trees."""

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    category_set: NDArray[np.int32]
    value: NDArray[np.float64]
    gain: NDArray[np.float64]
    weight: NDArray[np.float64]

    @classmethod
    def read(cls, arrays: Tensors, answers: int) -> _Nodes:
        feature = arrays.take("feature", np.int32, (None,))
        n = len(feature)
        require(n < 1 << 31, "has too many nodes")
        start = _offsets(arrays, "tree_start", None, n)
        require(np.all(np.diff(start) > 0), "array 'tree_start' must rise: a tree has a node")
        require(len(start) <= MAX_TREES + 1, f"has more than {MAX_TREES:,} trees")
        return cls(
            start,
            feature,
            arrays.take("threshold", np.float64, (n,)),
            arrays.take("left", np.int32, (n,)),
            arrays.take("right", np.int32, (n,)),
            arrays.take("missing_left", np.bool_, (n,)),
            arrays.take("category_set", np.int32, (n,)),
            arrays.take("value", np.float64, (n, answers)),
            arrays.take("gain", np.float64, (n,)),
            arrays.take("weight", np.float64, (n,)),
        )

    def check_shape(self, n_features: int) -> None:
        """Check that every node but a root is the child of one earlier node of its tree."""
        require(
            np.all((self.feature >= -1) & (self.feature < n_features)),
            f"array 'feature' must name one of the {n_features} columns, or -1 at a leaf",
        )
        leaf = self.feature < 0
        idle = (self.left == 0) & (self.right == 0) & (self.category_set == -1)
        idle &= np.isposinf(self.threshold) & ~self.missing_left & (self.gain == 0.0)
        require(np.all(idle | ~leaf), "a leaf must have no children, no question and no gain")
        trees, inner = len(self.start) - 1, np.flatnonzero(~leaf)
        one_parent = "every node but a root must have one parent"
        require(2 * len(inner) == len(leaf) - trees, one_parent)  # bounds the length of `inner`
        tree = _owners(self.start)[inner]
        first, last = self.start[tree], self.start[tree + 1]
        left, right = first + self.left[inner], first + self.right[inner]
        require(
            np.all((left > inner) & (right == left + 1) & (right < last)),
            "children must follow their parent within the tree, the right one next to the left",
        )
        has_parent = np.zeros(len(leaf), dtype=bool)
        has_parent[left] = has_parent[right] = True
        # there are as many children as nodes with a parent, so no node has two
        counted = np.count_nonzero(has_parent) == len(leaf) - trees
        require(counted and not has_parent[self.start[:-1]].any(), one_parent)

    def check_numbers(self) -> None:
        """Check that thresholds are not NaN, answers are in the range of scores, gains and weights can be summed."""
        require(
            np.all(self.threshold > -np.inf), "array 'threshold' must be finite or plus infinity"
        )
        for name in ("gain", "weight"):
            numbers = getattr(self, name)
            good = np.all((numbers >= 0.0) & (numbers <= _MOST))
            require(good, f"array {name!r} must be finite and not negative")
        if self.value.shape[1] == 1:
            require(np.all(np.abs(self.value) <= 1.0), "array 'value' must lie in [-1, 1]")
            return
        inside = np.all(self.value >= 0.0) and np.all(
            np.abs(self.value.sum(axis=1) - 1.0) <= _SIMPLEX
        )
        require(inside, "array 'value' must hold probabilities that sum to one")


def _check_sets(nodes: _Nodes, sets: _Sets, known: _Known) -> None:
    """Check that nodes on categorical columns have one set each, of categories of that column."""
    asks = np.isin(nodes.feature, known.feature)
    require(
        np.array_equal(nodes.category_set >= 0, asks) and np.all(nodes.category_set >= -1),
        "array 'category_set' must name a set where the column is categorical, and -1 elsewhere",
    )
    require(
        np.all(np.isposinf(nodes.threshold[asks])),
        "array 'threshold' must be infinite where the column is categorical",
    )
    at = np.flatnonzero(asks)
    tree = _owners(nodes.start)[at]
    chosen = sets.tree[tree] + nodes.category_set[at]
    require(np.all(chosen < sets.tree[tree + 1]), "array 'category_set' is out of range")
    used = np.bincount(chosen, minlength=len(sets.start) - 1)
    require(np.all(used == 1), "every set of categories must belong to one node")
    feature = np.empty(len(sets.start) - 1, dtype=np.int64)
    feature[chosen] = nodes.feature[at]
    column = np.searchsorted(known.feature, feature)
    allowed = known.values[known.in_sets]
    start = np.append(0, np.cumsum(known.in_sets))[known.start]
    for first in range(0, len(sets.values), _BLOCK):
        values = sets.values[first : first + _BLOCK]
        owner = np.searchsorted(sets.start, np.arange(first, first + len(values)), "right") - 1
        low, high = start[column[owner]], start[column[owner] + 1]
        require(
            np.all(_within(values, allowed, low, high)),
            "array 'set_values' has values that are no category of their column, or a rare one other than "
            "its first",
        )


def _within(
    values: NDArray[np.float64],
    known: NDArray[np.float64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return whether each value is in its own sorted piece ``known[low:high]``, by bisection."""
    end = high
    while np.any(searching := low < high):
        middle = np.where(searching, (low + high) // 2, 0)
        above = searching & (known[middle] < values)
        low, high = np.where(above, middle + 1, low), np.where(searching & ~above, middle, high)
    found = low < end
    found[found] = known[low[found]] == values[found]
    return found


def _trees(
    nodes: _Nodes,
    sets: _Sets,
    known: dict[int, NDArray[np.float64]],
    rare: dict[int, NDArray[np.float64]],
) -> list[Tree]:
    unbinned = np.zeros((0, N_BINS), dtype=bool)  # decisions on bins are needed for training only
    ends, piece = nodes.start.tolist(), sets.start.tolist()
    groups = sets.tree.tolist()
    trees = []
    for t in range(len(ends) - 1):
        its = slice(ends[t], ends[t + 1])
        sides = [sets.values[piece[s] : piece[s + 1]] for s in range(groups[t], groups[t + 1])]
        tree = Tree(
            nodes.feature[its], nodes.threshold[its], nodes.left[its], nodes.right[its],
            nodes.missing_left[its], nodes.category_set[its], sides, nodes.value[its],
            nodes.gain[its], nodes.weight[its], unbinned, known, rare,
        )  # fmt: skip
        trees.append(tree)
    return trees
