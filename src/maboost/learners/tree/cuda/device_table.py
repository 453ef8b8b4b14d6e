"""Growth of a tree on a GPU: its stages are CUDA kernels, its decisions those of the processor.

The bins of the rows, the lists of rows and the histograms stay in the memory of the GPU. After each level the best
splits and the numbers of rows travel to the processor, which appends the nodes (:mod:`maboost.learners.tree.growth`).
The cells of the rows travel to the GPU before each tree, and the leaves of the rows back after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import config, cuda
from numpy.typing import NDArray

from maboost.learners.tree.cuda import stages
from maboost.learners.tree.grower import (
    Binned,
    Grown,
    GrowthRules,
    Rewards,
    plan_of,
    searched_columns,
)
from maboost.learners.tree.growth import (
    COUNTED,
    DIVISIONS,
    FIRST,
    NODES,
    PENDING,
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
    memory,
    read_node,
    release,
    to_divide,
    with_more_room,
)
from maboost.learners.tree.layout import BIN, N_BINS, ROW, ROW_INDEX
from maboost.learners.tree.predictor import Tree
from maboost.learners.tree.splitting import REAL, SIGN, Limits, Searched, allowed_features
from maboost.runtime.kernels import kernel

__all__ = ["DeviceTable", "available_bytes", "needed_bytes"]

# Launches of few blocks are no mistake here: small nodes have few rows.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

# Threads of a block, a power of two of 128 at most. The simulator starts a thread of Python for each.
_THREADS = 4 if config.ENABLE_CUDASIM else 128
_LANES = 2 if config.ENABLE_CUDASIM else 32  # rows that a block of a histogram reads at once
_COLUMNS = 8  # of a block of a histogram
# rows of a run; clearing and adding up a histogram of a block costs about as much as 700
_RUN = 1 << 13
_RUNS = 1 << 9  # the most runs of equal size, a few for each multiprocessor
_BLOCKS = 1 << 6  # blocks that clear or subtract one histogram
_AT_ONCE = 1 << 22  # gains that are searched at once, and
_NODES_AT_ONCE = 1 << 12  # their nodes


def available_bytes() -> float:
    """Return the free memory of the GPU in bytes."""
    return float(cuda.current_context().get_memory_info()[0])


def needed_bytes(rows: int, columns: int, classes: int, histograms: int) -> int:
    """Return the bytes that :class:`DeviceTable` takes for some rows, with memory for some histograms."""
    width = 2 if classes == 2 else classes + 1
    of_a_row = columns + 1 + 8 * (1 if classes == 2 else width) + 2 * 4 + 4
    return rows * of_a_row + histograms * columns * N_BINS * width * 8


def _require_bytes(needed: int, what: str) -> None:
    """Raise MemoryError if the GPU has less free memory than is needed."""
    free = available_bytes()
    if needed > free:
        raise MemoryError(
            f"device='cuda' needs {needed / 2**30:.3g} GiB of GPU memory for {what}, and {free / 2**30:.3g} GiB "
            "are free: set device='cpu', or give fewer rows or columns, or trees of fewer leaves"
        )


class DeviceTable:
    """The binned rows of a fit in the memory of a GPU, on which trees grow.

    Parameters
    ----------
    data : Binned
        Sparse columns become dense ones.
    labels : array
    classes : int
    rules : GrowthRules
        The rules of the trees.
    """

    def __init__(
        self, data: Binned, labels: NDArray[np.uint8], classes: int, rules: GrowthRules
    ) -> None:
        self.data = data
        self.several = classes > 2
        self.width = classes + 1 if self.several else 1  # channels of a cell
        self.per_column = N_BINS * (self.width if self.several else 2)
        self.rows, self.columns = data.shape
        self._rules = rules
        slots = first_slots(rules.max_depth, rules.max_leaf_nodes)
        needed = needed_bytes(self.rows, self.columns, classes, slots)
        _require_bytes(needed, f"{self.rows} rows of {self.columns} columns")
        bins = data.bins
        self.bins = cuda.to_device(_dense(data))
        self.labels = cuda.to_device(np.ascontiguousarray(labels))
        self.n_bins = cuda.to_device(np.asarray(bins.counts, dtype=np.int64))
        self.categorical = cuda.to_device(np.asarray(bins.categorical, dtype=np.uint8))
        self._kept: dict[str, Any] = {}
        self._work = Workspace()
        fit = max(stages.SHARED_CELLS // self.per_column, 1)
        self.group = min(_COLUMNS, fit, self.columns)

    # ------------------------------------------------------------------------------------- memory

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return device memory of this shape with undefined content; calls with one name reuse it."""
        kept = self._kept.get(name)
        if kept is None or kept.shape[0] < shape[0] or kept.shape[1:] != shape[1:]:
            self._kept.pop(name, None)  # frees its memory for the new array
            room = shape[0] if kept is None else max(shape[0], min(2 * kept.shape[0], 1 << 16))
            kept = self._kept[name] = cuda.device_array((max(room, 1), *shape[1:]), dtype)
        return kept if kept.shape[0] == shape[0] else kept[: shape[0]]

    def _sent(self, name: str, values: NDArray[Any]) -> Any:
        """Return device memory with these values."""
        array = self._array(name, values.shape, values.dtype)
        if len(values):
            array.copy_to_device(np.ascontiguousarray(values))
        return array

    def _reserve(self, slots: int) -> None:
        """Grow the memory for histograms to this many, with their content."""
        cells = self.columns * self.per_column
        old = self._kept.get("hists")
        if old is not None and old.shape[0] >= slots and old.shape[1] == cells:
            return
        if old is not None:
            _require_bytes(8 * slots * cells, f"the histograms of {slots} nodes")
        new = cuda.device_array((slots, cells), np.int64)
        if old is not None and old.shape[1] == cells:
            new[: old.shape[0]].copy_to_device(old)
        self._kept["hists"] = new

    # ------------------------------------------------------------------------------------- growth

    def grow(
        self,
        rewards: Rewards,
        rows: NDArray[np.intp] | None,
        rng: np.random.RandomState,
    ) -> Grown:
        """Grow a tree on the shown rows, with the bits of :func:`maboost.learners.tree.grower.grow`."""
        rules = self._rules
        n, columns = self.rows if rows is None else len(rows), self.columns
        features = drawn_features(np.arange(columns), rules.features_per_tree, rng)
        per_node = rules.features_per_node
        draws = per_node is not None and per_node < len(features)
        plan = plan_of(rules, rewards, rows is None)
        bins = self.data.bins
        searched = searched_columns(bins, rules, rewards.classes, columns)
        slots = first_slots(rules.max_depth, rules.max_leaf_nodes)
        growing = memory(
            plan, slots, 0, self.width if self.several else 2, None, 0, 0, np.empty(0, dtype=ROW), 0,
            0 if searched.interactions is None else columns, self._work,
        )  # fmt: skip
        state = growing.state
        growing.nodes[0]["stop"] = n
        state[UNLISTED] = rows is None
        self._reserve(len(growing.hists))
        cells = rewards.cells if self.several else rewards.cells.reshape(-1, 1)
        self.cells = self._sent("cells", cells[:, : self.width])
        self.order = self._array("order", (2, n), ROW_INDEX)
        if rows is not None:
            self.order[0].copy_to_device(np.ascontiguousarray(rows, dtype=ROW_INDEX))
        self.leaf_of = self._array("leaf_of", (self.rows,), ROW)
        monotone = np.zeros(columns) if searched.monotone is None else searched.monotone
        self.monotone = self._sent("monotone", np.asarray(monotone, dtype=np.int64))
        drawn = features[None]
        while True:
            self._count(growing)
            if draws:
                drawn = draw_for_level(growing, features, per_node, searched.interactions, rng)
            if not has_room(growing, plan):
                growing = with_more_room(growing, self._work)
                self._reserve(len(growing.hists))
            if state[NODES] == 1:
                self._sum_root(growing, plan)
            self._search_level(growing, searched, drawn, plan)
            if self._divide_level(growing, searched, plan):
                break
        size = int(state[NODES])
        tree = Tree.from_growth(
            growing.nodes[:size], growing.sums[:size], growing.go_left[:size], bins, rules.votes,
            rewards.count_bits, rewards.classes,
        )  # fmt: skip
        leaves = self._read_leaves() if rows is None else None
        return Grown(tree, leaves, int(state[COUNTED]) * columns)

    def leaves(self, tree: Tree) -> NDArray[np.int32]:
        """Return the leaf of every row of a grown tree."""
        self.leaf_of = self._array("leaf_of", (self.rows,), ROW)
        blocks = min(max(-(-self.rows // _THREADS), 1), _RUNS * _BLOCKS)
        stages.send_down[blocks, _THREADS](
            self.bins, self._sent("tree", tree.feature), self._sent("lefts", tree.left),
            self._sent("ways", tree.go_left.astype(np.uint8)), self.leaf_of,
        )  # fmt: skip
        return self._read_leaves()

    def _read_leaves(self) -> NDArray[np.int32]:
        leaves: NDArray[np.int32] = self.leaf_of.copy_to_host()
        return leaves

    # ------------------------------------------------------------------------------------- stages

    def _runs(self, growing: Nodes, ids: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
        """Return the runs of the rows of some nodes in device memory, and for each the place of its node in `ids`."""
        runs, owners = _cut(growing.nodes, ids, _RUN, _RUNS)
        return self._sent("runs", runs), owners

    def _count(self, growing: Nodes) -> None:
        """Count the histograms of the pending nodes, and subtract them from those of their parents."""
        ids = growing.pending[: growing.state[PENDING]].copy()
        if not len(ids):
            return
        nodes, hists = growing.nodes, self._kept["hists"]
        growing.state[COUNTED] += int((nodes["stop"][ids] - nodes["start"][ids]).sum())
        slots = nodes["slot"][ids]
        for some in np.array_split(slots, -(-len(slots) // _NODES_AT_ONCE)):
            grid = (1 if config.ENABLE_CUDASIM else _BLOCKS, len(some))
            stages.clear_histograms[grid, _THREADS](hists, self._sent("slots", some))
        runs, owners = self._runs(growing, ids)
        groups = -(-self.columns // self.group)
        if len(owners):
            stages.add_histograms[(len(owners), groups), (self.group, _LANES)](
                self.bins, self.cells, self.labels, not self.several, self.order,
                not growing.state[UNLISTED], runs, self._sent("owners", slots[owners]),
                self.group, self.width, hists,
            )  # fmt: skip
        if ids[0] > 0:
            siblings = np.where(ids % 2 == 1, ids + 1, ids - 1)
            pairs = np.column_stack([slots, nodes["slot"][siblings]])
            for some in np.array_split(pairs, -(-len(pairs) // _NODES_AT_ONCE)):
                grid = (1 if config.ENABLE_CUDASIM else _BLOCKS, len(some))
                stages.subtract_histograms[grid, _THREADS](hists, self._sent("pairs", some))

    def _sum_root(self, growing: Nodes, plan: Plan) -> None:
        """Sum the root over the bins of its first column."""
        hist = self._kept["hists"][int(growing.nodes[0]["slot"])]
        column = hist[: self.per_column].copy_to_host()
        if self.several:
            growing.sums[0] = column.reshape(N_BINS, self.width).sum(axis=0)
        else:
            growing.sums[0] = column.reshape(2, N_BINS).sum(axis=1)
        _read_root(growing, plan)

    def _search_level(
        self, growing: Nodes, searched: Searched, features: NDArray[np.intp], plan: Plan
    ) -> None:
        """Search all nodes that have a histogram; turn the others into leaves."""
        state, nodes = growing.state, growing.nodes
        first = int(state[FIRST])
        ids = np.flatnonzero(nodes["slot"][first : state[NODES]] >= 0) + first
        min_weight = plan.min_weight_fraction * float(nodes[0]["weight"])
        criterion = SIGN if plan.votes else REAL
        while len(ids):
            limits = Limits(plan.count_bits, plan.classes, criterion, plan.min_count, min_weight)
            at_once = max(min(_AT_ONCE // features.shape[1], _NODES_AT_ONCE), 1)
            for some in np.array_split(ids, -(-len(ids) // at_once)):
                self._search(growing, searched, features, some, limits)
            if criterion == REAL:
                break
            # no single split may change a vote, but one may prepare another that does
            criterion = REAL
            without = (nodes["feature"][ids] < 0) & (nodes["depth"][ids] < plan.max_depth - 1)
            ids = ids[without]
        _release_leaves(growing)

    def _search(
        self, growing: Nodes, searched: Searched, features: NDArray[np.intp],
        ids: NDArray[np.int64], limits: Limits,
    ) -> None:  # fmt: skip
        """Find the best splits of some nodes, and write those that gain enough."""
        nodes, n = growing.nodes, len(ids)
        its = self._sent("features", _features_of(growing, searched, features, ids))
        hists, slots = self._kept["hists"], self._sent("slots", nodes["slot"][ids])
        sums = self._sent("sums", growing.sums[ids])
        gains = self._array("gains", (n, its.shape[1]), np.float64)
        chosen = self._array("chosen", (n, 1), np.int64)
        splits = self._array("splits", (n, 2), np.int64)
        best = self._array("best", (n, 1), np.float64)
        left = self._array("left", sums.shape, np.int64)
        go_left = self._array("go_left", (n, N_BINS), np.uint8)
        low, high = self._sent("low", nodes["low"][ids]), self._sent("high", nodes["high"][ids])
        for final in (False, True):
            some = chosen if final else its
            grid = (some.shape[1], n)
            if self.several:
                stages.find_splits_of_many[grid, _THREADS](
                    hists, slots, sums, some, self.n_bins, self.categorical, limits.classes,
                    limits.count_bits, limits.criterion, limits.min_count, limits.min_weight,
                    final, best if final else gains, splits, left, go_left,
                )  # fmt: skip
            else:
                stages.find_splits_of_two[grid, _THREADS](
                    hists, slots, sums, low, high, some, self.n_bins, self.categorical,
                    self.monotone, limits.count_bits, limits.criterion, limits.min_count,
                    limits.min_weight, final, best if final else gains, splits, left, go_left,
                )  # fmt: skip
            if not final:
                stages.choose_features[n, _THREADS](gains, its, chosen)
        found, gain = splits.copy_to_host(), best.copy_to_host()[:, 0]
        good = (found[:, stages.FEATURE] >= 0) & (gain > 1e-12 * nodes["weight"][ids])
        good_ids = ids[good]
        nodes["feature"][good_ids] = found[good, stages.FEATURE]
        nodes["bin"][good_ids] = found[good, stages.CUT]
        nodes["gain"][good_ids] = gain[good]
        growing.left[good_ids] = left.copy_to_host()[good]
        growing.go_left[good_ids] = go_left.copy_to_host()[good] != 0

    def _divide_level(self, growing: Nodes, searched: Searched, plan: Plan) -> bool:
        """Split the nodes whose turn it is; return whether the tree is grown."""
        state, nodes = growing.state, growing.nodes
        ids, first = to_divide(growing, plan), int(state[NODES])
        if not len(ids):
            if plan.numbers:
                self._write_leaves(growing, first)
            return True
        state[DIVISIONS] -= 1
        last = int(nodes[ids[0]]["depth"]) + 1 == plan.max_depth
        if plan.max_leaf_nodes > 0:
            last = state[DIVISIONS] == 0
        found = np.zeros((len(ids), 2), dtype=np.int64)
        listed = not state[UNLISTED]
        needed = not last or plan.numbers
        runs, owners = self._runs(growing, ids) if needed else (None, np.empty(0, dtype=np.int64))
        split = (
            self._sent("owners", owners), self._sent("splitting", nodes["feature"][ids]),
            self._sent("ways", growing.go_left[ids].astype(np.uint8)),
        )  # fmt: skip
        if not last:
            starts = np.column_stack([nodes["start"][ids], nodes["stop"][ids]])
            counters = self._sent("counters", starts)
            if len(owners):
                stages.divide_rows[len(owners), _THREADS](
                    self.bins, self.order, listed, runs, *split, counters
                )
            found[:, 0] = counters.copy_to_host()[:, stages.LEFT] - starts[:, 0]
            found[:, 1] = 1 - nodes["side"][ids]
            state[UNLISTED] = 0
        _add_all_children(growing, searched, plan, ids, found)
        if last:
            if plan.numbers:
                if len(owners):
                    children = self._sent("children", nodes["left"][ids])
                    stages.number_rows[len(owners), _THREADS](
                        self.bins, self.order, listed, runs, *split, children, self.leaf_of
                    )
                self._write_leaves(growing, first)
            return True
        await_histograms(growing, plan, ids)
        state[FIRST] = first
        return False

    def _write_leaves(self, growing: Nodes, nodes_before: int) -> None:
        """Write the leaf of the rows; rows of nodes from `nodes_before` on have it already."""
        state, nodes = growing.state, growing.nodes
        if state[NODES] == 1:
            self.leaf_of.copy_to_device(np.zeros(self.rows, dtype=ROW))
        elif not state[UNLISTED]:
            ids = np.flatnonzero(nodes["left"][:nodes_before] < 0)
            runs, owners = self._runs(growing, ids)
            if len(owners):
                its = self._sent("owners", ids[owners])
                stages.write_leaves[len(owners), _THREADS](self.order, runs, its, self.leaf_of)


def _dense(data: Binned) -> NDArray[np.uint8]:
    """Return the bins of all columns by row."""
    if data.sparse is None:
        return np.ascontiguousarray(data.by_row)
    table, _ = data.columns(np.arange(data.shape[1], dtype=np.int32))
    return np.ascontiguousarray(table.T, dtype=BIN)


def _features_of(
    growing: Nodes, searched: Searched, features: NDArray[np.intp], ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the features to be searched for some nodes, padded by -1; one row if all have the same."""
    if len(features) == 1 and searched.interactions is None:
        return features.astype(np.int64)
    places = np.minimum(ids - int(growing.state[FIRST]), len(features) - 1)
    padded = np.full((len(ids), features.shape[1]), -1, dtype=np.int64)
    for out, place, id in zip(padded, places, ids, strict=True):
        some = allowed_features(features[place], growing.used[id], searched.interactions)
        out[: len(some)] = some
    return padded


@kernel
def _read_root(growing, plan):
    read_node(growing.nodes[0], growing.sums[0], plan)


@kernel
def _release_leaves(growing):
    """Free the histograms of nodes that have no split."""
    state = growing.state
    for id in range(state[FIRST], state[NODES]):
        if growing.nodes[id].feature < 0:
            release(growing, id)


@kernel
def _add_all_children(growing, searched, plan, ids, found):
    for j in range(ids.size):
        add_children(growing, searched, plan, ids[j], found[j, 0], found[j, 1])


@kernel
def _cut(nodes, ids, least, most):
    """Cut the rows of some nodes into runs (list, first, last) of similar size, and return the index in `ids` of each.

    A run has at least `least` rows, if its node has, and there are about `most` runs.
    """
    rows = 0
    for id in ids:
        rows += nodes[id].stop - nodes[id].start
    size = max(least, -(-rows // most))
    total = 0
    for id in ids:
        total += -(-(nodes[id].stop - nodes[id].start) // size)
    runs, owners = np.empty((total, 3), dtype=np.int64), np.empty(total, dtype=np.int64)
    k = 0
    for j in range(ids.size):
        node = nodes[ids[j]]
        rows = node.stop - node.start
        parts = -(-rows // size)
        for part in range(parts):
            runs[k, 0] = node.side
            runs[k, 1] = node.start + rows * part // parts
            runs[k, 2] = node.start + rows * (part + 1) // parts
            owners[k] = j
            k += 1
    return runs, owners
