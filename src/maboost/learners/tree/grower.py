"""Growth of a tree, level by level or best leaf first.

A node owns a slice of one of two lists of rows, kept in ascending order, which a split partitions stably. Only
the smaller child's histogram is counted; the other is the parent's minus that. A level runs in four parallel
loops of one compiled call: count rows in runs, sum the runs of a node and subtract them from its parent, search
the columns, partition the rows. One call grows several levels, unless Python must act in between. It must if
shards exchange the histograms of a level: all decisions follow from them, so every shard grows the same tree. It
must also if every node draws its own features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.learners.tree.binning import Bins, bin_columns, canonical_columns
from maboost.learners.tree.growth import (
    COUNT,
    COUNTED,
    DEPTH_UNLIMITED,
    DIVISIONS,
    DONE,
    FIRST,
    NODES,
    PAUSE,
    PENDING,
    PHASE,
    SEARCH,
    SUBTRACT,
    UNLISTED,
    Nodes,
    Plan,
    Workspace,
    add_children,
    await_histograms,
    draw_for_level,
    drawn_features,
    first_slots,
    has_room,
    interactions_of,
    memory,
    read_node,
    release,
    to_divide,
    with_more_room,
)
from maboost.learners.tree.histogram import (
    IN_ORDER,
    LISTED,
    STRIPS,
    Counted,
    count_nodes,
    most_parts,
    sibling_of,
)
from maboost.learners.tree.layout import ROOM, ROW
from maboost.learners.tree.partition import Columns, divide_rows, number_leaves, number_rows
from maboost.learners.tree.predictor import Tree
from maboost.learners.tree.sparse import SparseColumns, SparseLayout, sparse_cells
from maboost.learners.tree.splitting import (
    REAL,
    SIGN,
    Limits,
    Searched,
    search_nodes,
)
from maboost.runtime import thresholds
from maboost.runtime.communicator import Communicator, SerialCommunicator, sums_of_all
from maboost.runtime.kernels import kernel
from maboost.runtime.threads import Threads

__all__ = [
    "Binned",
    "Grown",
    "GrowthRules",
    "Rewards",
    "Workspace",
    "grow",
    "plan_of",
    "searched_columns",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Binned:
    """The training rows in bins.

    `by_row` and `by_column` hold all columns, or the dense ones if there are sparse ones too.
    """

    bins: Bins
    by_row: NDArray[np.uint8]
    by_column: NDArray[np.uint8]
    mapped: bool = (
        False  # from files: a pass over all columns should read one of the two tables in its order
    )
    sparse: SparseColumns | None = None

    @classmethod
    def of(
        cls, X: Any, bins: Bins, threads: Threads | None = None, comm: Communicator | None = None
    ) -> Binned:
        """Bin rows in memory, those of a sparse matrix into sparse columns where all shards are sparse."""
        comm = comm or SerialCommunicator()
        is_sparse = np.array([sp.issparse(X)], dtype=np.int64)
        all_dense = not comm.allreduce(is_sparse, "min")[0]
        if not sp.issparse(X):
            return cls(bins, *bin_columns(X, bins, threads))
        sparse, by_column = SparseColumns.of(canonical_columns(X), bins, comm, all_dense)
        plain = len(by_column) == X.shape[1]
        by_row = np.ascontiguousarray(by_column.T)
        return cls(bins, by_row, by_column, sparse=None if plain else sparse)

    def columns(self, features: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """An array by column, and the places there of some features; -1 stays -1."""
        if self.sparse is None:
            return self.by_column, features
        some = np.unique(features[features >= 0])
        table = np.empty((len(some), self.rows), dtype=np.uint8)
        for out, feature in zip(table, some.tolist(), strict=True):
            place = self.sparse.place[feature]
            if place >= 0:
                out[:] = self.by_column[place]
            else:
                self.sparse.write(feature, out)
        places = np.where(features >= 0, np.searchsorted(some, features), -1)
        return table, places.astype(features.dtype)

    @property
    def rows(self) -> int:
        """Rows of this shard."""
        return int(self.by_row.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.rows, len(self.bins.edges)


@dataclass(frozen=True)
class Rewards:
    """The weights and rewards of rows in this round, in packed cells.

    Two classes: `cells` (n,) and `labels` (n,). More: `cells` (n, channels) with K rewards, then weight and
    count, then zeros; `labels` is None. `classes` is 0 for two classes and K for more, as in :class:`Limits`.
    """

    cells: NDArray[np.int64]
    labels: NDArray[np.uint8] | None
    count_bits: int
    classes: int = 0


@dataclass(frozen=True)
class GrowthRules:
    """The parameters of a tree's shape; see :class:`maboost.HistTreeClassifier` for their meaning."""

    max_depth: int | None = 3
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 1
    min_weight_fraction_leaf: float = 0.0
    features_per_tree: int | None = None
    features_per_node: int | None = None
    votes: bool = False
    monotone: tuple[int, ...] | None = None
    interactions: tuple[tuple[int, ...], ...] | None = None


def plan_of(
    rules: GrowthRules, rewards: Rewards, numbers: bool, pauses: bool = False, shared: bool = False,
    way: int = LISTED, least_rows: int = 1, least_counted: int = 1,
) -> Plan:  # fmt: skip
    """Return the rules of one tree in the form of the kernels."""
    return Plan(
        DEPTH_UNLIMITED if rules.max_depth is None else int(rules.max_depth),
        int(rules.max_leaf_nodes or 0),
        max(rules.min_samples_leaf, 1),
        float(rules.min_weight_fraction_leaf),
        rules.votes,
        rewards.count_bits,
        rewards.classes,
        way,
        pauses,
        shared,
        numbers,
        least_rows,
        least_counted,
    )


def searched_columns(
    bins: Bins, rules: GrowthRules, classes: int, dense: int, sparse: SparseLayout | None = None
) -> Searched:
    """Return the columns that the rules allow to be searched."""
    return Searched(
        bins.counts,
        bins.categorical if bins.has_categories else None,
        None if rules.monotone is None else np.array(rules.monotone, dtype=np.int64),
        classes or None,
        dense,
        sparse,
        interactions_of(rules.interactions),
    )


@kernel
def _start_root(growing, plan, columns, sparse_cells):
    """Sum the root: over the bins of its first column, or from the last sparse cell, which counts all rows."""
    hist, sums = growing.hists[growing.nodes[0].slot], growing.sums[0]
    sums[:] = 0
    dense = columns * ROOM
    channels = hist.size // (dense + sparse_cells)
    at, n = (dense * channels, sparse_cells) if sparse_cells > 0 else (0, ROOM)
    for b in range(n - 1 if sparse_cells > 0 else 0, n):
        if plan.classes == 0:
            sums[0] += hist[at + b]
            sums[1] += hist[at + n + b]
        else:
            for k in range(plan.classes + 1):
                sums[k] += hist[at + b * channels + k]
    read_node(growing.nodes[0], sums, plan)


@kernel
def _search_level(team, growing, searched, features, plan):
    """Search all nodes that have a histogram; turn the others into leaves."""
    state, nodes = growing.state, growing.nodes
    first = state[FIRST]
    ids = np.empty(state[NODES] - first, dtype=np.int64)
    known = 0
    for id in range(first, state[NODES]):
        if nodes[id].slot >= 0:
            ids[known] = id
            known += 1
    min_weight = plan.min_weight_fraction * nodes[0].weight
    criterion = SIGN if plan.votes else REAL
    while known > 0:
        limits = Limits(plan.count_bits, plan.classes, criterion, plan.min_count, min_weight)
        search_nodes(
            team, growing.hists, nodes, growing.sums, growing.left, growing.go_left, growing.used,
            ids[:known], features, first, searched, limits,
        )  # fmt: skip
        if criterion == REAL:
            break
        # no single split may change a vote, but one may prepare another that does
        criterion, without = REAL, 0
        for id in ids[:known]:
            if nodes[id].feature < 0 and nodes[id].depth < plan.max_depth - 1:
                ids[without] = id
                without += 1
        known = without
    for id in range(first, state[NODES]):
        if nodes[id].feature < 0:
            release(growing, id)


@kernel
def _number_leaves(team, growing, plan, nodes_before):
    """Write the leaf number of the rows; rows of nodes from `nodes_before` on have it already."""
    state, nodes = growing.state, growing.nodes
    if state[NODES] == 1:
        growing.leaf_of[:] = 0
    elif state[UNLISTED] == 0:
        ids = np.empty(state[NODES], dtype=np.int64)
        n = 0
        for id in range(nodes_before):
            if nodes[id].left < 0:
                ids[n] = id
                n += 1
        number_leaves(team, growing.order, nodes, ids[:n], plan.least_rows, growing.leaf_of)


@kernel
def _divide_level(team, counted, growing, searched, plan):
    """Split the nodes whose turn it is; return whether the tree is grown."""
    state, nodes, order = growing.state, growing.nodes, growing.order
    ids, first = to_divide(growing, plan), state[NODES]
    if ids.size == 0:
        if plan.numbers:
            _number_leaves(team, growing, plan, first)
        return True
    state[DIVISIONS] -= 1
    last = nodes[ids[0]].depth + 1 == plan.max_depth
    if plan.max_leaf_nodes > 0:
        last = state[DIVISIONS] == 0
    found = np.zeros((ids.size, 2), dtype=np.int64)
    table, unlisted = (
        Columns(counted.by_column, counted.sparse, growing.room),
        state[UNLISTED] == 1,
    )
    if not last:
        divide_rows(
            team, table, order, nodes, growing.go_left, ids, unlisted, plan.least_rows, found
        )
        state[UNLISTED] = 0
    for j in range(ids.size):
        add_children(growing, searched, plan, ids[j], found[j, 0], found[j, 1])
    if last:
        if plan.numbers:
            number_rows(
                team, table, order, nodes, growing.go_left, ids, unlisted, plan.least_rows,
                growing.leaf_of,
            )  # fmt: skip
            _number_leaves(team, growing, plan, first)
        return True
    await_histograms(growing, plan, ids)
    state[FIRST] = first
    return False


@kernel
def _count_pending(team, counted, growing, plan):
    """Count the histograms of the pending nodes."""
    state, nodes = growing.state, growing.nodes
    ids = growing.pending[: state[PENDING]]
    if ids.size == 0:
        return
    for id in ids:
        state[COUNTED] += nodes[id].stop - nodes[id].start
    way = plan.way if ids[0] == 0 else LISTED
    count_nodes(
        team, counted, growing.order, nodes, ids, growing.hists, growing.parts, way,
        state[UNLISTED] == 1, not plan.shared, plan.least_counted,
    )  # fmt: skip
    if way == LISTED:
        state[UNLISTED] = 0


@kernel
def _subtract_exchanged(growing):
    """Subtract the exchanged histograms from those of the parents."""
    for id in growing.pending[: growing.state[PENDING]]:
        if id > 0:
            small = growing.hists[growing.nodes[id].slot]
            large = growing.hists[growing.nodes[sibling_of(id)].slot]
            for k in range(small.size):
                large[k] -= small[k]


@kernel
def grow_levels(team, counted, growing, searched, features, plan):
    """Grow levels until the tree is grown, memory is short, or Python must act."""
    state = growing.state
    while True:
        if state[PHASE] == COUNT:
            _count_pending(team, counted, growing, plan)
            state[PHASE] = PAUSE if plan.pauses else SEARCH
            if plan.pauses:
                return
        if state[PHASE] == SUBTRACT:
            _subtract_exchanged(growing)
            state[PHASE] = SEARCH
        if not has_room(growing, plan):
            return
        if state[NODES] == 1:
            _start_root(growing, plan, counted.by_row.shape[1], sparse_cells(counted.sparse))
        _search_level(team, growing, searched, features, plan)
        if _divide_level(team, counted, growing, searched, plan):
            state[PHASE] = DONE
            return
        state[PHASE] = COUNT


class Grown(NamedTuple):
    """A tree, the leaf of every row if all rows were shown, and the bytes read from the bins."""

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
    work: Workspace | None = None,
) -> Grown:
    """Grow a tree on the shown rows.

    If all rows are shown, growth gives their leaves. Otherwise all rows descend the tree column by column,
    which is cheaper than separating the hidden rows.
    """
    comm, work = comm or SerialCommunicator(), work or Workspace()
    n, columns = data.rows if rows is None else len(rows), data.shape[1]
    several = rewards.labels is None
    width = rewards.cells.shape[1] if several else 2
    sparse, worth_a_part = data.sparse, thresholds.COUNTED
    cells, values = data.by_row.shape[1] * ROOM * width, data.by_row.shape[1]
    way = LISTED
    if sparse is not None:
        cells += sparse.cells * width
        values += sparse.entries_per_row + 1
        worth_a_part = max(worth_a_part, cells)  # a histogram is filled with zeros and added up
    elif rows is None and not several and n >= thresholds.TALL_TABLE:
        way = IN_ORDER if data.mapped else STRIPS
    per_row = values * (width if several else 1)
    per_node = rules.features_per_node
    features = drawn_features(np.arange(columns), rules.features_per_tree, rng)
    draws = per_node is not None and per_node < len(features)
    plan = plan_of(
        rules, rewards, rows is None, draws or comm.size > 1, comm.size > 1, way,
        thresholds.DIVIDED, -(-worth_a_part // per_row),
    )  # fmt: skip
    bins = data.bins
    kept = work.searched
    if kept is None or kept[0] is not data or kept[1] is not rules:
        layout = None if sparse is None else sparse.layout
        found = searched_columns(bins, rules, rewards.classes, data.by_row.shape[1], layout)
        slots = first_slots(rules.max_depth, rules.max_leaf_nodes)
        kept = work.searched = data, rules, found, slots
    searched = kept[2]
    worth = (None, None, rewards.cells) if several else (rewards.cells, rewards.labels, None)
    counted = Counted(data.by_row, data.by_column, *worth)._replace(sparse=sparse)
    leaf_of = np.empty(n if rows is None else 0, dtype=ROW)
    parts = most_parts(threads.count, n * per_row, worth_a_part)
    growing = memory(
        plan, kept[3], cells, rewards.classes + 1 if several else 2, rows, n, parts, leaf_of,
        0 if sparse is None else data.rows, 0 if searched.interactions is None else columns, work,
    )  # fmt: skip
    state, drawn = growing.state, features[None]
    while True:
        threads.run(grow_levels, counted, growing, searched, drawn, plan)
        if state[PHASE] == DONE:
            break
        if state[PHASE] == SEARCH:
            growing = with_more_room(growing, work)
            continue
        if comm.size > 1:
            _exchange(growing, comm)
        if draws:
            drawn = draw_for_level(growing, features, per_node, searched.interactions, rng)
        state[PHASE] = SUBTRACT if comm.size > 1 else SEARCH
    size = int(state[NODES])
    tree = Tree.from_growth(
        growing.nodes[:size], growing.sums[:size], growing.go_left[:size], bins, rules.votes,
        rewards.count_bits, rewards.classes,
    )  # fmt: skip
    return Grown(tree, leaf_of if rows is None else None, int(state[COUNTED]) * columns)


def _exchange(growing: Nodes, comm: Communicator) -> None:
    """Sum the new histograms over all shards."""
    slots = growing.nodes["slot"][growing.pending[: growing.state[PENDING]]].tolist()
    found = sums_of_all([growing.hists[slot] for slot in slots], comm)
    for slot, hist in zip(slots, found, strict=True):
        growing.hists[slot] = hist
