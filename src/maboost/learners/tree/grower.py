"""Growing a tree: level by level, or the best leaf first.

A node owns a slice of one list of rows, kept in ascending order, which a split divides stably. Only the
smaller child's histogram is counted; the other is the parent's minus that. Shards exchange the histograms
of a whole level at once, and all that is decided follows from them: every shard grows the same tree.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.binning import Bins
from maboost.learners.tree.histogram import class_histograms, reward_histograms
from maboost.learners.tree.layout import N_BINS, ROW
from maboost.learners.tree.partition import Cut, divide_rows, number_leaves, number_rows
from maboost.learners.tree.predictor import Tree
from maboost.learners.tree.splitting import REAL, SIGN, Limits, Split, find_split
from maboost.runtime.communicator import Communicator, SerialCommunicator, sums_of_all
from maboost.runtime.threads import Threads

__all__ = ["Binned", "Grown", "GrowthRules", "Rewards", "grow"]

Array = NDArray[np.float64]

_WORTH = 400  # columns to search that are worth a thread, which asks for the lock at every node


@dataclass(frozen=True)
class Binned:
    """The training rows in bins."""

    bins: Bins
    by_row: NDArray[np.uint8]
    by_column: NDArray[np.uint8]
    mapped: bool = False  # from files: a pass over all columns must read one of them, in its order

    @property
    def rows(self) -> int:
        """Rows of this shard."""
        return int(self.by_row.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.rows, int(self.by_row.shape[1])


@dataclass(frozen=True)
class Rewards:
    """What rows are worth in this round, in packed cells.

    Two classes: `cells` (n,) and `labels` (n,). More: `cells` (n, channels), K rewards, then weight and
    count, then zeros; `labels` is None. `classes` is 0 for two, K for more, as :class:`Limits` has it.
    """

    cells: NDArray[np.int64]
    labels: NDArray[np.uint8] | None
    count_bits: int
    classes: int = 0


@dataclass(frozen=True)
class GrowthRules:
    """The shape of a tree; see :class:`maboost.HistTreeClassifier` for their meaning."""

    max_depth: int | None = 3
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 1
    min_weight_fraction_leaf: float = 0.0
    features_per_tree: int | None = None
    features_per_node: int | None = None
    votes: bool = False
    monotone: tuple[int, ...] | None = None


@dataclass
class _Node:
    id: int
    depth: int
    start: int
    stop: int
    sums: NDArray[np.int64]
    weight: float  # in the units of cells
    count: int  # over all shards
    hist: NDArray[np.int64] | None = None
    low: float = -1.0
    high: float = 1.0
    split: Split | None = None

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass
class _Growth:
    """One tree in the making."""

    data: Binned
    rewards: Rewards
    rows: NDArray[np.int32] | None
    rules: GrowthRules
    threads: Threads
    rng: np.random.RandomState
    comm: Communicator
    leaf_of: NDArray[np.int32]  # of all rows, to be told where no list of rows is given
    nodes: list[_Node] = field(default_factory=list)
    children: dict[int, tuple[int, int]] = field(default_factory=dict)
    leaves: list[_Node] = field(default_factory=list)  # whose rows do not know it yet
    bytes_read: int = 0

    def __post_init__(self) -> None:
        self.numbers_rows = self.rows is None
        self.n_bins = self.data.bins.counts
        categorical = self.data.bins.categorical
        self.categorical = categorical if categorical.any() else None
        columns = len(self.n_bins)
        constraints = self.rules.monotone
        self.monotone = None if constraints is None else np.array(constraints, dtype=np.int64)
        self.features = self._drawn(np.arange(columns), self.rules.features_per_tree)

    def _drawn(self, features: NDArray[np.intp], size: int | None) -> NDArray[np.intp]:
        if size is None or size >= len(features):
            return features
        return np.sort(self.rng.choice(features, size, replace=False))

    def count_histograms(self, nodes: list[_Node]) -> None:
        """Histograms of these nodes over all shards."""
        self.bytes_read += sum(node.size for node in nodes) * len(self.n_bins)
        found = sums_of_all(self._histograms(nodes), self.comm)
        for node, hist in zip(nodes, found, strict=True):
            node.hist = hist

    def _histograms(self, nodes: list[_Node]) -> list[NDArray[np.int64]]:
        """The histograms of this shard's rows; with no list of rows the one node has them all."""
        data, r, rows = self.data, self.rewards, self.rows
        lists = None if rows is None else [rows[node.start : node.stop] for node in nodes]
        if r.labels is not None:
            by_column = None if data.mapped else data.by_column
            return class_histograms(data.by_row, by_column, lists, r.cells, r.labels, self.threads)
        if lists is None:
            lists = [np.arange(data.rows, dtype=ROW)]
        return reward_histograms(data.by_row, lists, r.cells, self.threads)

    def root(self) -> _Node:
        size = self.data.rows if self.rows is None else len(self.rows)
        node = _Node(0, 0, 0, size, np.empty(0, dtype=np.int64), 0.0, 0)
        self.count_histograms([node])
        assert node.hist is not None
        if self.rewards.classes == 0:
            node.sums = node.hist[0].sum(axis=1)
        else:
            node.sums = node.hist[0].sum(axis=0)[: self.rewards.classes + 1]
        node.weight, node.count = self.read(node.sums)
        self.limits = Limits(
            self.rewards.count_bits,
            self.rewards.classes,
            SIGN if self.rules.votes else REAL,
            max(self.rules.min_samples_leaf, 1),
            self.rules.min_weight_fraction_leaf * node.weight,
        )
        self.nodes.append(node)
        return node

    def read(self, sums: NDArray[np.int64]) -> tuple[float, int]:
        """The weight and the count in a node's sums."""
        cells, bits = sums.tolist(), self.rewards.count_bits
        cell = cells[0] + cells[1] if self.rewards.classes == 0 else cells[-1]
        return float(cell >> bits), cell & ((1 << bits) - 1)

    def may_split(self, node: _Node) -> bool:
        deep = self.rules.max_depth is not None and node.depth >= self.rules.max_depth
        return not deep and node.count >= 2 * self.limits.min_count

    def search(self, nodes: list[_Node]) -> None:
        """The best split of each node that has its histogram; nodes without one become leaves."""
        # drawn for leaves of too few rows too: what later nodes draw must not depend on how many rows there
        # are, or a row of weight two would not be the row twice
        drawn = [self._drawn(self.features, self.rules.features_per_node) for _ in nodes]
        known = [
            (node, features)
            for node, features in zip(nodes, drawn, strict=True)
            if node.hist is not None
        ]
        self._search(known, self.limits)
        if self.limits.criterion == SIGN:
            # no single split may change a vote, but one may prepare another that does
            more = [
                (node, features)
                for node, features in known
                if node.split is None and self._levels_below(node) > 1
            ]
            self._search(more, self.limits._replace(criterion=REAL))
        for node in nodes:
            if node.split is None:
                self.leaves.append(node)

    def _search(self, nodes: list[tuple[_Node, NDArray[np.intp]]], limits: Limits) -> None:
        """The best split of each node over the features drawn for it, the first of equals."""

        def work(j: int, a: int, b: int) -> Split:
            node, features = nodes[j]
            left, go_left = np.empty_like(node.sums), np.empty(N_BINS, dtype=bool)
            gain, feature, bin = find_split(
                node.hist, node.sums, features[a:b], self.n_bins, self.categorical, self.monotone,
                limits, node.low, node.high, limits.classes or None, left, go_left,
            )  # fmt: skip
            return Split(gain, feature, bin, left, go_left)

        by_column = Threads(self.threads.count, block=1)
        found = by_column.over_many([len(features) for _, features in nodes], work, _WORTH)
        for (node, _), splits in zip(nodes, found, strict=True):
            noise = 1e-12 * node.weight
            real = [split for split in splits if split.feature >= 0 and split.gain > noise]
            node.split = max(real, key=lambda split: split.gain, default=None)

    def _levels_below(self, node: _Node) -> float:
        return math.inf if self.rules.max_depth is None else self.rules.max_depth - node.depth

    def divide(self, nodes: list[_Node], last: bool = False) -> list[tuple[_Node, _Node, _Node]]:
        """Nodes with their children; with `last` these are leaves, and rows only learn their number."""
        cuts = []
        for node in nodes:
            assert node.split is not None
            column = self.data.by_column[node.split.feature]
            cuts.append(Cut(node.start, node.stop, column, node.split.go_left))
        lefts = [0] * len(nodes)
        if not last:
            if self.rows is None:
                self.rows = np.arange(self.data.rows, dtype=ROW)
            lefts = divide_rows(self.rows, cuts, self.threads)
        elif self.numbers_rows:
            number_rows(self.rows, cuts, len(self.nodes), self.leaf_of, self.threads)
        return [
            (node, *self._children(node, left)) for node, left in zip(nodes, lefts, strict=True)
        ]

    def _children(self, node: _Node, rows_left: int) -> tuple[_Node, _Node]:
        assert node.split is not None
        id, depth, cut = len(self.nodes), node.depth + 1, node.start + rows_left
        sums, rest, ends = node.split.left, node.sums - node.split.left, (node.low, node.high)
        left = _Node(id, depth, node.start, cut, sums, *self.read(sums), None, *ends)
        right = _Node(id + 1, depth, cut, node.stop, rest, *self.read(rest), None, *ends)
        self._bound(node, left, right)
        self.nodes += [left, right]
        self.children[node.id] = id, id + 1
        return left, right

    def _bound(self, node: _Node, left: _Node, right: _Node) -> None:
        """Keep later splits below a constrained one on their own side of its middle."""
        assert node.split is not None
        constraint = 0 if self.monotone is None else int(self.monotone[node.split.feature])
        if constraint == 0:
            return
        middle = 0.5 * (self.answer(left) + self.answer(right))
        if constraint > 0:
            left.high, right.low = middle, middle
        else:
            left.low, right.high = middle, middle

    def answer(self, node: _Node) -> float:
        bits = self.rewards.count_bits
        reward = float((int(node.sums[1]) >> bits) - (int(node.sums[0]) >> bits))
        value = reward / node.weight if node.weight > 0.0 else 0.0
        return min(max(value, node.low), node.high)

    def give_histograms(self, families: list[tuple[_Node, _Node, _Node]]) -> None:
        """Histograms of the children that may be split: count the smaller, subtract for the other.

        Which is smaller is a question of all shards, so that all count the same nodes.
        """
        divided = []
        for node, *children in families:
            small, large = sorted(children, key=lambda child: child.count)
            if self.may_split(large):  # where the smaller may be, so may the other
                divided.append((node, small, large))
        self.count_histograms([small for _, small, _ in divided])
        for node, small, large in divided:
            assert node.hist is not None
            assert small.hist is not None
            node.hist -= small.hist
            large.hist = node.hist
        for node, _, _ in families:
            node.hist = None

    def run(self) -> None:
        if self.rules.max_leaf_nodes is None:
            self._level_by_level()
        else:
            self._best_first(self.rules.max_leaf_nodes)
        if len(self.nodes) == 1:
            self.leaf_of.fill(0)
        elif self.numbers_rows and self.rows is not None:
            leaves = [(node.start, node.stop, node.id) for node in self.leaves]
            number_leaves(self.rows, leaves, self.leaf_of, self.threads)

    def _level_by_level(self) -> None:
        level = [self.root()]
        while level:
            last = self._levels_below(level[0]) == 1
            self.search(level)
            families = self.divide([node for node in level if node.split is not None], last)
            if last:
                return
            self.give_histograms(families)
            level = [child for _, *children in families for child in children]

    def _best_first(self, leaves: int) -> None:
        queue: list[tuple[float, int]] = []

        def consider(nodes: list[_Node]) -> None:
            self.search(nodes)
            for node in nodes:
                if node.split is not None:
                    heapq.heappush(queue, (-node.split.gain, node.id))

        consider([self.root()])
        for missing in range(leaves - 1, 0, -1):
            if not queue:
                break
            best = self.nodes[heapq.heappop(queue)[1]]
            families = self.divide([best], last=missing == 1)
            if missing > 1:
                self.give_histograms(families)
                consider(list(families[0][1:]))
        self.leaves += [self.nodes[id] for _, id in queue]


class Grown(NamedTuple):
    """A tree, the leaf of every row where all were shown, and the bytes read of the bins."""

    tree: Tree
    leaves: NDArray[np.int32] | None
    bytes_read: int


def grow(
    data: Binned,
    rewards: Rewards,
    rows: NDArray[np.intp] | None,
    rules: GrowthRules,
    threads: Threads,
    rng: np.random.RandomState,
    comm: Communicator | None = None,
    room: NDArray[np.int32] | None = None,
) -> Grown:
    """Grow a tree on the shown rows.

    If all rows are shown their leaves come from growing, into `room` if given; otherwise all must go down
    the tree, column by column, which is cheaper than to tell the hidden ones apart.
    """
    if room is None:
        room = np.empty(data.rows if rows is None else 0, dtype=ROW)
    shown, comm = None if rows is None else rows.astype(ROW), comm or SerialCommunicator()
    growth = _Growth(data, rewards, shown, rules, threads, rng, comm, room)
    growth.run()
    tree = Tree.from_growth(growth.nodes, growth.children, data.bins, growth)
    leaves = growth.leaf_of if rows is None else None
    return Grown(tree, leaves, growth.bytes_read)
