"""The state of a tree during growth, and the decisions that follow from the sums of its nodes.

The stages that read rows (:mod:`maboost.learners.tree.grower` on the processor) work on this state. They differ by
device; the decisions here do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.layout import BIN, CELL, N_BINS, NODE, ROW_INDEX
from maboost.learners.tree.splitting import Interactions, Searched, allowed_features
from maboost.runtime.kernels import kernel

__all__ = [
    "COUNT",
    "COUNTED",
    "DEPTH_UNLIMITED",
    "DIVISIONS",
    "DONE",
    "FIRST",
    "FREE",
    "NODES",
    "PAUSE",
    "PENDING",
    "PHASE",
    "SEARCH",
    "SUBTRACT",
    "UNLISTED",
    "Nodes",
    "Plan",
    "Workspace",
    "add_children",
    "await_histograms",
    "draw_for_level",
    "drawn_features",
    "first_slots",
    "has_room",
    "interactions_of",
    "memory",
    "read_node",
    "release",
    "to_divide",
    "with_more_room",
]


class Plan(NamedTuple):
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
PHASE = 0  # the next phase of growth
NODES = 1  # number of nodes
FIRST = 2  # the first node to be searched; all later nodes are searched too
PENDING = 3  # number of nodes to be counted
FREE = 4  # number of free slots for histograms
UNLISTED = 5  # whether the lists of rows are still empty
COUNTED = 6  # rows counted so far
DIVISIONS = 7  # number of nodes that may still be split, best leaf first
_STATE = 8

COUNT, PAUSE, SUBTRACT, SEARCH, DONE = 0, 1, 2, 3, 4
DEPTH_UNLIMITED = 1 << 40


class Nodes(NamedTuple):
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
def read_node(node, sums, plan):
    """Set a node's weight and count from its sums."""
    cell = sums[0] + sums[1] if plan.classes == 0 else sums[plan.classes]
    node.weight = float(cell >> plan.count_bits)
    node.count = cell & ((np.int64(1) << plan.count_bits) - 1)


@kernel
def release(growing, id):
    """Free the slot of a node that has one."""
    slot = growing.nodes[id].slot
    if slot >= 0:
        growing.free[growing.state[FREE]] = slot
        growing.state[FREE] += 1
        growing.nodes[id].slot = -1


@kernel
def to_divide(growing, plan):
    """Return the nodes to be split next; none if the tree is grown."""
    state, nodes = growing.state, growing.nodes
    ids = np.empty(state[NODES] - state[FIRST] + 1, dtype=np.int64)
    n = 0
    if plan.max_leaf_nodes == 0:
        for id in range(state[FIRST], state[NODES]):
            if nodes[id].feature >= 0:
                ids[n] = id
                n += 1
    elif state[DIVISIONS] > 0:
        for id in range(state[NODES]):
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
def add_children(growing, searched, plan, id, rows_left, side):
    """Append the children of a node, with their bounds and slices of rows."""
    state, nodes, sums = growing.state, growing.nodes, growing.sums
    node = nodes[id]
    node.left = state[NODES]
    state[NODES] += 2
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
        read_node(its, sums[child], plan)
        for f in range(growing.used.shape[1]):
            growing.used[child, f] = growing.used[id, f] or f == node.feature
    _bound(node, nodes, sums, searched.monotone, plan)


@kernel
def await_histograms(growing, plan, ids):
    """Assign histogram slots to children that may be split: the smaller is counted, the other reuses the parent's.

    The smaller child is found from the counts of all shards, so that all shards count the same nodes.
    """
    state, nodes = growing.state, growing.nodes
    state[PENDING] = 0
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
            state[FREE] -= 1
            nodes[small].slot = growing.free[state[FREE]]
            growing.pending[state[PENDING]] = small
            state[PENDING] += 1
        else:
            release(growing, id)


@kernel
def has_room(growing, plan):
    """Return whether there is memory for the children of all nodes that may be split."""
    state = growing.state
    level = state[NODES] - state[FIRST]
    last = growing.nodes[state[FIRST]].depth + 1 == plan.max_depth and plan.max_leaf_nodes == 0
    slots = state[FREE] >= level or last
    return slots and state[NODES] + 2 * level <= growing.nodes.size


@dataclass
class Workspace:
    """Memory for growth, reused from tree to tree, since allocating it costs more than filling it."""

    _kept: dict[str, NDArray[Any]] = field(default_factory=dict)
    # the rows and the rules of the last tree, and the columns and the first number of histograms that follow
    searched: tuple[Any, Any, Searched, int] | None = None

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


def first_slots(max_depth: int | None, max_leaf_nodes: int | None) -> int:
    """Return the number of histograms for which memory is allocated at first."""
    if max_leaf_nodes:
        return min(max_leaf_nodes, 1 << _MOST_AT_FIRST)
    return 1 << min((max_depth or _MOST_AT_FIRST) - 1, _MOST_AT_FIRST - 1)


def memory(
    plan: Plan, slots: int, cells: int, channels: int, rows: NDArray[np.intp] | None, n: int,
    parts: int, leaf_of: NDArray[np.int32], room: int, used: int, work: Workspace,
) -> Nodes:  # fmt: skip
    """Return a tree of one node, and the memory for its growth, with `slots` histograms."""
    most = 1 << _MOST_AT_FIRST + 1
    if rows is None:
        order = work.array("order", (2, n), ROW_INDEX)
    else:
        order = np.empty((2, n), dtype=ROW_INDEX)
        order[0] = rows
    growing = Nodes(
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
    growing.state[[NODES, PENDING, FREE]] = 1, 1, slots - 1
    growing.state[UNLISTED] = rows is None
    growing.state[DIVISIONS] = plan.max_leaf_nodes - 1
    return growing


def with_more_room(growing: Nodes, work: Workspace) -> Nodes:
    """Return the same tree with memory for the children of all nodes that may be split."""
    level = int(growing.state[NODES] - growing.state[FIRST])
    most = max(len(growing.nodes), 2 * int(growing.state[NODES] + 2 * level))
    slots, free = len(growing.hists), int(growing.state[FREE])
    more = max(level - free, slots) if free < level else 0
    names = ("nodes", "sums", "left", "go_left", "pending", "used")
    longer = {name: work.longer(name, most) for name in names}
    longer |= {name: work.longer(name, slots + more) for name in ("free", "hists")}
    added = len(longer["hists"]) - slots
    longer["free"][free : free + added] = np.arange(slots + added - 1, slots - 1, -1)
    growing.state[FREE] += added
    return growing._replace(**longer)


def drawn_features(
    features: NDArray[np.intp], size: int | None, rng: np.random.RandomState, pad: bool = False
) -> NDArray[np.intp]:
    """Return `size` of the features; with `pad` fewer are padded by the last, which changes no split."""
    if size is None or size >= len(features):
        return np.pad(features, (0, size - len(features)), "edge") if size and pad else features
    return np.sort(rng.choice(features, size, replace=False))


def interactions_of(groups: tuple[tuple[int, ...], ...] | None) -> Interactions | None:
    """Return the groups of features that may interact in the form of the kernels."""
    if groups is None:
        return None
    start = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return Interactions(start, np.array([f for group in groups for f in group], dtype=np.int64))


def draw_for_level(
    growing: Nodes,
    features: NDArray[np.intp],
    size: int | None,
    interactions: Interactions | None,
    rng: np.random.RandomState,
) -> NDArray[np.intp]:
    """Return `size` features for each node that is searched next, a row for each.

    Features are drawn also for leaves with too few rows: the draws of later nodes must not depend on the number of rows,
    or a row of weight two would not equal the row twice.
    """
    level = range(int(growing.state[FIRST]), int(growing.state[NODES]))
    may = [allowed_features(features, growing.used[j], interactions) for j in level]
    return np.array([drawn_features(some, size, rng, pad=True) for some in may])
