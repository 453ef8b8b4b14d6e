"""Histogram trees as a weak learner: rows are binned once, and each round grows a tree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maboost.learners.base import Hypothesis, Producer
from maboost.learners.tree.grower import Binned, Grown, GrowthRules, Rewards, Workspace, grow
from maboost.learners.tree.packing import (
    Packing,
    channels_of,
    copies_of,
    pack_rewards,
    pack_weights,
)
from maboost.learners.tree.predictor import Forest, Tree
from maboost.learners.tree.resident import Resident
from maboost.learners.tree.table import as_table
from maboost.runtime.communicator import (
    Communicator,
    SerialCommunicator,
    counted_sums,
    global_count,
)
from maboost.runtime.devices import cuda_problem, require_cuda
from maboost.runtime.threads import Threads

__all__ = ["TreeHypothesis", "TreeLearner"]

Array = NDArray[np.float64]

_MOST = 0.75  # share of rows from which reading all rows is faster


@dataclass(frozen=True, eq=False)
class TreeHypothesis:
    """A grown tree as a bounded function."""

    tree: Tree

    def scores(self, X: Any) -> Array:
        if isinstance(X, Binned):  # validation rows on disk
            tree = self.tree.on_bins(X.bins)
            answers = tree.value[_leaves(tree, X, Threads())]
            return answers[:, 0] if answers.shape[1] == 1 else answers
        votes = Forest.of([self.tree]).votes(X, np.ones(1))
        return votes[:, 0] if votes.shape[1] == 1 else votes


def _leaves(tree: Tree, data: Binned, threads: Threads) -> NDArray[np.int32]:
    """The leaf of every row."""
    by_column, feature = data.columns(tree.feature)
    return replace(tree, feature=feature).send_down(by_column, threads)


@dataclass(frozen=True)
class TreeLearner:
    """Histogram trees.

    Parameters
    ----------
    rules : GrowthRules
    max_bins : int, default=255
    categorical : boolean array, optional
        Columns that hold category codes.
    The measure that defines the quantiles of the bins; uniform by default.
        The measure whose quantiles the bins are; uniform by default.
    threads : Threads
    comm : Communicator
        The communicator with the other shards, all of which grow the same tree.
    repeats : array of shape (n_rows,), optional
        The weights that say how often a row is repeated; `base` by default.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where trees grow, with the same bits. "auto" is a GPU if there is one whose memory holds the rows.
    """

    rules: GrowthRules
    max_bins: int = 255
    categorical: NDArray[np.bool_] | None = None
    base: Array | None = None
    threads: Threads = field(default_factory=Threads)
    closed_under_negation: bool = False
    takes_costs: bool = True
    comm: Communicator = field(default_factory=SerialCommunicator)
    repeats: Array | None = None
    device: Literal["cpu", "cuda", "auto"] = "cpu"

    @property
    def exact(self) -> bool:
        """Whether the class is that of voting stumps over all features, whose best member growth finds."""
        r = self.rules
        free = r.min_samples_leaf <= 1 and r.min_weight_fraction_leaf == 0.0 and r.monotone is None
        everything = r.features_per_tree is None and r.features_per_node is None
        return r.votes and r.max_depth == 1 and free and everything

    def prepare(self, X: Any, labels: NDArray[np.intp], n_classes: int) -> TreeProducer:
        base = np.ones(X.shape[0]) if self.base is None else self.base
        data = as_table(X).binned(base, self.max_bins, self.categorical, self.threads, self.comm)
        repeats = self.base if self.repeats is None else self.repeats
        copies = None if repeats is None else copies_of(repeats, self.comm)
        given = (self, data, labels.astype(np.uint8), n_classes, copies)
        if self.device == "cpu" or (self.device == "auto" and not self._may_use_cuda()):
            return TreeProducer(*given)
        require_cuda()
        from maboost.learners.tree.cuda.producer import CudaTreeProducer

        try:
            return CudaTreeProducer(*given)
        except MemoryError:
            if self.device == "cuda":
                raise
        return TreeProducer(*given)

    def _may_use_cuda(self) -> bool:
        return self.comm.size == 1 and cuda_problem() is None


class TreeProducer(Producer):
    """A :class:`TreeLearner` with its binned rows.

    The leaves of the training rows are a result of growth; they are cached for the last tree only.
    """

    def __init__(
        self,
        learner: TreeLearner,
        data: Binned,
        labels: NDArray[np.uint8],
        n_classes: int,
        copies: NDArray[np.uint8] | None = None,
    ) -> None:
        self.learner = learner
        self.data = data
        self.labels = labels
        self.n_classes = n_classes
        self.copies = copies
        self.bytes_read = 0
        self._held: Resident | None = None
        self._last: tuple[TreeHypothesis, NDArray[np.int32]] | None = None
        self._room: NDArray[np.int64] | None = None
        self._workspace = Workspace()
        self._all_rows = global_count(data.rows, learner.comm)

    @property
    def rare(self) -> dict[int, Array]:
        return self.data.bins.rare

    def restored(self, hypothesis: Hypothesis) -> TreeHypothesis:
        assert isinstance(hypothesis, TreeHypothesis)
        bins, tree = self.data.bins, hypothesis.tree.on_bins(self.data.bins)
        same = replace(tree, known=bins.codes, rare=bins.rare)
        if not tree.categories_as(same):
            raise ValueError("the categories of a tree are not those of the training rows")
        return TreeHypothesis(same)

    def watching(self, X: Any) -> Any:
        return as_table(X).for_validation(self.data.bins, self.learner.threads)

    def hold(self, rows: NDArray[np.intp] | None) -> None:
        if rows is None:
            self._held = None
            return
        self._held = Resident.of(rows, self.data, self.labels, self.learner.threads, self._held)
        self.bytes_read += self._held.bytes

    def produce(
        self,
        weights: Array,
        rows: NDArray[np.intp] | None,
        rewards: Array | None,
        random_state: np.random.RandomState,
    ) -> TreeHypothesis:
        table: TreeProducer | Resident = self
        self._last = None  # frees the memory for the new leaves
        everything, copies = rows is None, self.copies
        if copies is not None and rows is not None:
            copies = copies[rows]
        if self._held is not None and rows is self._held.rows:
            table, rows = self._held, None
        if not (everything or weights.all()):
            some = np.flatnonzero(weights)
            rows, weights = some if rows is None else rows[some], weights[some]
            rewards = None if rewards is None else rewards[some]
            copies = None if copies is None else copies[some]
        learner = self.learner
        (total,), (count,) = counted_sums([weights], learner.comm, learner.threads)
        # If most rows are shown, reading all in order, with empty cells for the others, is faster. All shards
        # decide alike, so that the bytes they read do not depend on how rows are divided among them.
        able = table is self and self.n_classes == 2 and not self.data.mapped
        most = able and count >= _MOST * self._all_rows
        counted = count if copies is None else global_count(int(copies.sum()), learner.comm)
        packing = Packing.of(counted, total)
        packed = self._packed(weights, copies, rows, rewards, table, packing, most)
        if most:
            rows = None
        grown = self._grown(table, packed, rows, random_state)
        if table is self:
            self.bytes_read += grown.bytes_read
        hypothesis = TreeHypothesis(grown.tree)
        self._last = (
            hypothesis,
            self._sent_down(grown.tree, grown.leaves if table is self else None),
        )
        return hypothesis

    def _grown(
        self,
        table: TreeProducer | Resident,
        packed: Rewards,
        rows: NDArray[np.intp] | None,
        random_state: np.random.RandomState,
    ) -> Grown:
        learner = self.learner
        return grow(
            table.data,
            packed,
            rows,
            learner.rules,
            learner.threads,
            random_state,
            learner.comm,
            self._workspace,
        )

    def _leaves_of(self, tree: Tree) -> NDArray[np.int32]:
        return _leaves(tree, self.data, self.learner.threads)

    def _sent_down(self, tree: Tree, known: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
        """Return the leaf of every training row; `known` has the leaves that growth has written."""
        self.bytes_read += self.data.rows * len(set(tree.feature[tree.feature >= 0].tolist()))
        if known is not None:
            return known
        return self._leaves_of(tree)

    def _packed(
        self,
        weights: Array,
        copies: NDArray[np.uint8] | None,
        rows: NDArray[np.intp] | None,
        rewards: Array | None,
        table: TreeProducer | Resident,
        packing: Packing,
        most: bool,
    ) -> Rewards:
        """Return the cells of the rows shown; those of hidden rows are zero with `most`, and otherwise undefined."""
        threads, among = self.learner.threads, table.data.rows
        if self.n_classes == 2:
            cells = self._cells(among)
            clear = most and rows is not None
            pack_weights(weights, packing, threads, cells, rows, copies, clear)
            return Rewards(cells, table.labels, packing.count_bits)
        assert rewards is not None
        cells = self._cells(among, channels_of(self.n_classes))
        pack_rewards(rewards, weights, packing, threads, cells, rows, copies)
        return Rewards(cells, None, packing.count_bits, self.n_classes)

    def _cells(self, *shape: int) -> NDArray[np.int64]:
        """Return memory for cells; reused, since allocating it costs more than filling it."""
        if self._room is None or self._room.shape != shape:
            self._room = np.empty(shape, dtype=np.int64)
        return self._room

    def training_scores(self, hypothesis: Hypothesis) -> Array:
        answers, leaves = self.training_leaves(hypothesis)
        scores: Array = np.take(answers, leaves, axis=0)
        return scores

    def training_leaves(self, hypothesis: Hypothesis) -> tuple[Array, NDArray[np.int32]]:
        assert isinstance(hypothesis, TreeHypothesis)
        tree = hypothesis.tree
        if self._last is not None and self._last[0] is hypothesis:
            leaves = self._last[1]
        else:
            leaves = self._sent_down(tree)
        return tree.value[:, 0] if tree.value.shape[1] == 1 else tree.value, leaves
