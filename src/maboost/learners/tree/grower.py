"""Growth of a tree, level by level or best leaf first.

A node owns a slice of one of two lists of rows, kept in ascending order, which a split partitions stably. Only
the smaller child's histogram is counted; the other is the parent's minus that. A level runs in four parallel
loops of one compiled call: count rows in runs, sum the runs of a node and subtract them from its parent, search
the columns, partition the rows. One call grows several levels, unless Python must act in between. It must if
shards exchange the histograms of a level: all decisions follow from them, so every shard grows the same tree. It
must also if every node draws its own features.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.learners.tree.binning import Bins, bin_columns, canonical_columns
from maboost.learners.tree.histogram import (
    IN_ORDER,
    LISTED,
    STRIPS,
    Counted,
    count_nodes,
    most_parts,
    sibling_of,
)
from maboost.learners.tree.layout import BIN, CELL, N_BINS, NODE, ROOM, ROW, ROW_INDEX
from maboost.learners.tree.partition import Columns, divide_rows, number_leaves, number_rows
from maboost.learners.tree.predictor import Tree
from maboost.learners.tree.sparse import SparseColumns, sparse_cells
from maboost.learners.tree.splitting import (
    REAL,
    SIGN,
    Interactions,
    Limits,
    Searched,
    allowed_features,
    search_nodes,
)
from maboost.runtime import thresholds
from maboost.runtime.communicator import Communicator, SerialCommunicator, sums_of_all
from maboost.runtime.kernels import kernel
from maboost.runtime.threads import Threads

__all__ = ["Binned", "Grown", "GrowthRules", "Rewards", "Workspace", "grow"]

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


class _Plan(NamedTuple):
    """The rules of one tree in the form of the kernels; `max_leaf_nodes` is 0 for growth level by level."""

    max_depth: int
    max_leaf_nodes: int
    min_count: int
    min_weight_fraction: float
    votes: bool
    count_bits: int
    classes: int
    way: int  # how the rows of the root are counted
    pauses: bool  # whether Python must act between levels
    shared: bool  # whether histograms are exchanged
    numbers: bool  # whether growth writes the leaf of each row
    least_rows: int
    least_counted: int


# Entries of `state`.
_PHASE = 0  # the next phase of growth
_NODES = 1  # number of nodes
_FIRST = 2  # the first node to be searched; all later nodes are searched too
_PENDING = 3  # number of nodes to be counted
_FREE = 4  # number of free slots for histograms
_UNLISTED = 5  # whether the lists of rows are still empty
_COUNTED = 6  # rows counted so far
_DIVISIONS = 7  # number of nodes that may still be split, best leaf first
_STATE = 8

_COUNT, _PAUSE, _SUBTRACT, _SEARCH, _DONE = 0, 1, 2, 3, 4
_DEPTH_UNLIMITED = 1 << 40


class _Nodes(NamedTuple):
    """The tree so far, and the memory for its growth.

    Attributes
    ----------
    state : array
        Counters and flags; see the indices above.
    nodes : array of :data:`NODE`
    sums, left : arrays of shape (nodes, channels)
        The sums of a node and of its left side.
    go_left : boolean array of shape (nodes, 256)
    pending : array
        The nodes to be counted.
    free : array
        The free slots, the next one last.
    hists : array of shape (slots, cells)
    parts : array of shape (parts, cells)
    order : array of shape (2, rows)
        The lists of rows.
    leaf_of : array
    room : array
        A byte for each row, for the bins of sparse columns; empty where there are none.
    used : boolean array of shape (nodes, columns)
        The features of the splits above a node; without columns if all features may interact.
    """

    state: NDArray[np.int64]
    nodes: NDArray[Any]
    sums: NDArray[np.int64]
    left: NDArray[np.int64]
    go_left: NDArray[np.bool_]
    pending: NDArray[np.int64]
    free: NDArray[np.int64]
    hists: NDArray[np.int64]
    parts: NDArray[np.int64]
    order: NDArray[np.uint32]
    leaf_of: NDArray[np.int32]
    room: NDArray[np.uint8]
    used: NDArray[np.bool_]


@kernel
def _read(node, sums, plan):
    """Set a node's weight and count from its sums."""
    cell = sums[0] + sums[1] if plan.classes == 0 else sums[plan.classes]
    node.weight = float(cell >> plan.count_bits)
    node.count = cell & ((np.int64(1) << plan.count_bits) - 1)


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
    _read(growing.nodes[0], sums, plan)


@kernel
def _search_level(team, growing, searched, features, plan):
    """Search all nodes that have a histogram; turn the others into leaves."""
    state, nodes = growing.state, growing.nodes
    first = state[_FIRST]
    ids = np.empty(state[_NODES] - first, dtype=np.int64)
    known = 0
    for id in range(first, state[_NODES]):
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
    for id in range(first, state[_NODES]):
        if nodes[id].feature < 0:
            _release(growing, id)


@kernel
def _release(growing, id):
    """Free the slot of a node that has one."""
    slot = growing.nodes[id].slot
    if slot >= 0:
        growing.free[growing.state[_FREE]] = slot
        growing.state[_FREE] += 1
        growing.nodes[id].slot = -1


@kernel
def _to_divide(growing, plan):
    """Return the nodes to be split next; none if the tree is grown."""
    state, nodes = growing.state, growing.nodes
    ids = np.empty(state[_NODES] - state[_FIRST] + 1, dtype=np.int64)
    n = 0
    if plan.max_leaf_nodes == 0:
        for id in range(state[_FIRST], state[_NODES]):
            if nodes[id].feature >= 0:
                ids[n] = id
                n += 1
    elif state[_DIVISIONS] > 0:
        for id in range(state[_NODES]):
            is_open = nodes[id].feature >= 0 and nodes[id].left < 0
            if is_open and (n == 0 or nodes[id].gain > nodes[ids[0]].gain):
                ids[0] = id
                n = 1
    return ids[:n]


@kernel
def _answer(node, sums, plan):
    reward = float((sums[1] >> plan.count_bits) - (sums[0] >> plan.count_bits))
    value = reward / node.weight if node.weight > 0.0 else 0.0
    return min(max(value, node.low), node.high)


@kernel
def _bound(node, nodes, sums, monotone, plan):
    """Bound the answers below a constrained split by the middle of the two sides."""
    if monotone is not None:
        constraint = monotone[node.feature]
        if constraint != 0:
            left, right = nodes[node.left], nodes[node.left + 1]
            below = _answer(left, sums[node.left], plan)
            middle = 0.5 * (below + _answer(right, sums[node.left + 1], plan))
            if constraint > 0:
                left.high = right.low = middle
            else:
                left.low = right.high = middle


@kernel
def _add_children(growing, searched, plan, id, rows_left, side):
    """Append the children of a node, with their bounds and slices of rows."""
    state, nodes, sums = growing.state, growing.nodes, growing.sums
    node = nodes[id]
    node.left = state[_NODES]
    state[_NODES] += 2
    for child in range(node.left, node.left + 2):
        its, is_left = nodes[child], child == node.left
        its.depth, its.side = node.depth + 1, side
        its.start = node.start if is_left else node.start + rows_left
        its.stop = node.start + rows_left if is_left else node.stop
        its.slot = its.feature = its.bin = its.left = -1
        its.low, its.high, its.gain = node.low, node.high, 0.0
        for k in range(sums.shape[1]):
            left = growing.left[id, k]
            sums[child, k] = left if is_left else sums[id, k] - left
        _read(its, sums[child], plan)
        for f in range(growing.used.shape[1]):
            growing.used[child, f] = growing.used[id, f] or f == node.feature
    _bound(node, nodes, sums, searched.monotone, plan)


@kernel
def _await_histograms(growing, plan, ids):
    """Assign histogram slots to children that may be split: the smaller is counted, the other reuses the parent's.

    The smaller child is found from the counts of all shards, so that all shards count the same nodes.
    """
    state, nodes = growing.state, growing.nodes
    state[_PENDING] = 0
    for id in ids:
        left = nodes[id].left
        small, large = (
            (left, left + 1) if nodes[left].count <= nodes[left + 1].count else (left + 1, left)
        )
        able = nodes[large].depth < plan.max_depth
        if (
            able and nodes[large].count >= 2 * plan.min_count
        ):  # if the smaller child may be split, so may the other
            nodes[large].slot, nodes[id].slot = nodes[id].slot, -1
            state[_FREE] -= 1
            nodes[small].slot = growing.free[state[_FREE]]
            growing.pending[state[_PENDING]] = small
            state[_PENDING] += 1
        else:
            _release(growing, id)


@kernel
def _number_leaves(team, growing, plan, nodes_before):
    """Write the leaf number of the rows; rows of nodes from `nodes_before` on have it already."""
    state, nodes = growing.state, growing.nodes
    if state[_NODES] == 1:
        growing.leaf_of[:] = 0
    elif state[_UNLISTED] == 0:
        ids = np.empty(state[_NODES], dtype=np.int64)
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
    ids, first = _to_divide(growing, plan), state[_NODES]
    if ids.size == 0:
        if plan.numbers:
            _number_leaves(team, growing, plan, first)
        return True
    state[_DIVISIONS] -= 1
    last = nodes[ids[0]].depth + 1 == plan.max_depth
    if plan.max_leaf_nodes > 0:
        last = state[_DIVISIONS] == 0
    found = np.zeros((ids.size, 2), dtype=np.int64)
    table, unlisted = (
        Columns(counted.by_column, counted.sparse, growing.room),
        state[_UNLISTED] == 1,
    )
    if not last:
        divide_rows(
            team, table, order, nodes, growing.go_left, ids, unlisted, plan.least_rows, found
        )
        state[_UNLISTED] = 0
    for j in range(ids.size):
        _add_children(growing, searched, plan, ids[j], found[j, 0], found[j, 1])
    if last:
        if plan.numbers:
            number_rows(
                team, table, order, nodes, growing.go_left, ids, unlisted, plan.least_rows,
                growing.leaf_of,
            )  # fmt: skip
            _number_leaves(team, growing, plan, first)
        return True
    _await_histograms(growing, plan, ids)
    state[_FIRST] = first
    return False


@kernel
def _count_pending(team, counted, growing, plan):
    """Count the histograms of the pending nodes."""
    state, nodes = growing.state, growing.nodes
    ids = growing.pending[: state[_PENDING]]
    if ids.size == 0:
        return
    for id in ids:
        state[_COUNTED] += nodes[id].stop - nodes[id].start
    way = plan.way if ids[0] == 0 else LISTED
    count_nodes(
        team, counted, growing.order, nodes, ids, growing.hists, growing.parts, way,
        state[_UNLISTED] == 1, not plan.shared, plan.least_counted,
    )  # fmt: skip
    if way == LISTED:
        state[_UNLISTED] = 0


@kernel
def _subtract_exchanged(growing):
    """Subtract the exchanged histograms from those of the parents."""
    for id in growing.pending[: growing.state[_PENDING]]:
        if id > 0:
            small = growing.hists[growing.nodes[id].slot]
            large = growing.hists[growing.nodes[sibling_of(id)].slot]
            for k in range(small.size):
                large[k] -= small[k]


@kernel
def _has_room(growing, plan):
    """Return whether there is memory for the children of all nodes that may be split."""
    state = growing.state
    level = state[_NODES] - state[_FIRST]
    last = growing.nodes[state[_FIRST]].depth + 1 == plan.max_depth and plan.max_leaf_nodes == 0
    slots = state[_FREE] >= level or last
    return slots and state[_NODES] + 2 * level <= growing.nodes.size


@kernel
def grow_levels(team, counted, growing, searched, features, plan):
    """Grow levels until the tree is grown, memory is short, or Python must act."""
    state = growing.state
    while True:
        if state[_PHASE] == _COUNT:
            _count_pending(team, counted, growing, plan)
            state[_PHASE] = _PAUSE if plan.pauses else _SEARCH
            if plan.pauses:
                return
        if state[_PHASE] == _SUBTRACT:
            _subtract_exchanged(growing)
            state[_PHASE] = _SEARCH
        if not _has_room(growing, plan):
            return
        if state[_NODES] == 1:
            _start_root(growing, plan, counted.by_row.shape[1], sparse_cells(counted.sparse))
        _search_level(team, growing, searched, features, plan)
        if _divide_level(team, counted, growing, searched, plan):
            state[_PHASE] = _DONE
            return
        state[_PHASE] = _COUNT


@dataclass
class Workspace:
    """Memory for growth, reused from tree to tree, since allocating it costs more than filling it."""

    _kept: dict[str, NDArray[Any]] = field(default_factory=dict)

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array of this shape with undefined content; calls with one name reuse its memory."""
        kept = self._kept.get(name)
        if kept is None or kept.shape[0] < shape[0] or kept.shape[1:] != shape[1:]:
            kept = self._kept[name] = np.empty(shape, dtype=dtype)
        return kept if len(kept) == shape[0] else kept[: shape[0]]

    def longer(self, name: str, rows: int) -> NDArray[Any]:
        """Return the array of this name with its content, grown to at least `rows` rows."""
        old = self._kept[name]
        if len(old) < rows:
            self._kept[name] = np.empty((rows, *old.shape[1:]), dtype=old.dtype)
            self._kept[name][: len(old)] = old
        return self._kept[name]


_MOST_AT_FIRST = 6  # levels for which memory is allocated at first


def _memory(
    plan: _Plan, cells: int, channels: int, rows: NDArray[np.intp] | None, n: int,
    parts: int, leaf_of: NDArray[np.int32], room: int, used: int, work: Workspace,
) -> _Nodes:  # fmt: skip
    """Return a tree of one node, and the memory for its growth."""
    slots, most = 1 << min(plan.max_depth - 1, _MOST_AT_FIRST - 1), 1 << _MOST_AT_FIRST + 1
    if plan.max_leaf_nodes > 0:
        slots = min(plan.max_leaf_nodes, 1 << _MOST_AT_FIRST)
    if rows is None:
        order = work.array("order", (2, n), ROW_INDEX)
    else:
        order = np.empty((2, n), dtype=ROW_INDEX)
        order[0] = rows
    growing = _Nodes(
        np.zeros(_STATE, dtype=np.int64),
        work.array("nodes", (most,), NODE),
        work.array("sums", (most, channels), CELL),
        work.array("left", (most, channels), CELL),
        work.array("go_left", (most, N_BINS), np.bool_),
        work.array("pending", (most,), np.int64),
        work.array("free", (slots,), np.int64),
        work.array("hists", (slots, cells), CELL),
        work.array("parts", (parts, cells), CELL),
        order,
        leaf_of,
        work.array("room", (room,), BIN),
        work.array("used", (most, used), np.bool_),
    )
    growing.used[0] = False
    growing.nodes[0] = (0, 0, n, 0, 0, 0, -1, -1, -1, 0.0, -1.0, 1.0, 0.0)
    growing.pending[0] = 0
    growing.free[: slots - 1] = np.arange(slots - 1, 0, -1)
    growing.state[[_NODES, _PENDING, _FREE]] = 1, 1, slots - 1
    growing.state[_UNLISTED] = rows is None
    growing.state[_DIVISIONS] = plan.max_leaf_nodes - 1
    return growing


def _with_more_room(growing: _Nodes, work: Workspace) -> _Nodes:
    """Return the same tree with memory for the children of all nodes that may be split."""
    level = int(growing.state[_NODES] - growing.state[_FIRST])
    most = max(len(growing.nodes), 2 * int(growing.state[_NODES] + 2 * level))
    slots, free = len(growing.hists), int(growing.state[_FREE])
    more = max(level - free, slots) if free < level else 0
    names = ("nodes", "sums", "left", "go_left", "pending", "used")
    longer = {name: work.longer(name, most) for name in names}
    longer |= {name: work.longer(name, slots + more) for name in ("free", "hists")}
    added = len(longer["hists"]) - slots
    longer["free"][free : free + added] = np.arange(slots + added - 1, slots - 1, -1)
    growing.state[_FREE] += added
    return growing._replace(**longer)


def _drawn(
    features: NDArray[np.intp], size: int | None, rng: np.random.RandomState, pad: bool = False
) -> NDArray[np.intp]:
    """Return `size` of the features; with `pad` fewer are padded by the last, which changes no split."""
    if size is None or size >= len(features):
        return np.pad(features, (0, size - len(features)), "edge") if size and pad else features
    return np.sort(rng.choice(features, size, replace=False))


def _interactions(groups: tuple[tuple[int, ...], ...] | None) -> Interactions | None:
    if groups is None:
        return None
    start = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return Interactions(start, np.array([f for group in groups for f in group], dtype=np.int64))


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
    features = _drawn(np.arange(columns), rules.features_per_tree, rng)
    draws = per_node is not None and per_node < len(features)
    plan = _Plan(
        _DEPTH_UNLIMITED if rules.max_depth is None else int(rules.max_depth),
        int(rules.max_leaf_nodes or 0),
        max(rules.min_samples_leaf, 1),
        float(rules.min_weight_fraction_leaf),
        rules.votes,
        rewards.count_bits,
        rewards.classes,
        way,
        draws or comm.size > 1,
        comm.size > 1,
        rows is None,
        thresholds.DIVIDED,
        -(-worth_a_part // per_row),
    )
    bins = data.bins
    searched = Searched(
        bins.counts,
        bins.categorical if bins.has_categories else None,
        None if rules.monotone is None else np.array(rules.monotone, dtype=np.int64),
        rewards.classes or None,
        data.by_row.shape[1],
        None if sparse is None else sparse.layout,
        _interactions(rules.interactions),
    )
    worth = (None, None, rewards.cells) if several else (rewards.cells, rewards.labels, None)
    counted = Counted(data.by_row, data.by_column, *worth)._replace(sparse=sparse)
    leaf_of = np.empty(n if rows is None else 0, dtype=ROW)
    parts = most_parts(threads.count, n * per_row, worth_a_part)
    growing = _memory(
        plan, cells, rewards.classes + 1 if several else 2, rows, n, parts, leaf_of,
        0 if sparse is None else data.rows, 0 if searched.interactions is None else columns, work,
    )  # fmt: skip
    state, drawn = growing.state, features[None]
    while True:
        threads.run(grow_levels, counted, growing, searched, drawn, plan)
        if state[_PHASE] == _DONE:
            break
        if state[_PHASE] == _SEARCH:
            growing = _with_more_room(growing, work)
            continue
        if comm.size > 1:
            _exchange(growing, comm)
        if draws:  # drawn also for leaves with too few rows: the draws of later nodes must not depend on the number of
            # rows, or a row of weight two would not equal the row twice
            level = range(int(state[_FIRST]), int(state[_NODES]))
            may = [
                allowed_features(features, growing.used[j], searched.interactions) for j in level
            ]
            drawn = np.array([_drawn(some, per_node, rng, pad=True) for some in may])
        state[_PHASE] = _SUBTRACT if comm.size > 1 else _SEARCH
    size = int(state[_NODES])
    tree = Tree.from_growth(
        growing.nodes[:size], growing.sums[:size], growing.go_left[:size], bins, rules.votes,
        rewards.count_bits, rewards.classes,
    )  # fmt: skip
    return Grown(tree, leaf_of if rows is None else None, int(state[_COUNTED]) * columns)


def _exchange(growing: _Nodes, comm: Communicator) -> None:
    """Sum the new histograms over all shards."""
    slots = growing.nodes["slot"][growing.pending[: growing.state[_PENDING]]].tolist()
    found = sums_of_all([growing.hists[slot] for slot in slots], comm)
    for slot, hist in zip(slots, found, strict=True):
        growing.hists[slot] = hist
