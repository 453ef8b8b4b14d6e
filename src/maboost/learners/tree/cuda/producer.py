"""Histogram trees as a weak learner whose trees grow on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.cuda.device_table import DeviceTable
from maboost.learners.tree.grower import Grown, Rewards
from maboost.learners.tree.learner import TreeProducer
from maboost.learners.tree.predictor import Tree
from maboost.learners.tree.resident import Resident

__all__ = ["CudaTreeProducer"]


class CudaTreeProducer(TreeProducer):
    """A :class:`TreeProducer` with the bins of its rows in the memory of a GPU."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._table = DeviceTable(self.data, self.labels, self.n_classes, self.learner.rules)
        self._held_table: DeviceTable | None = None

    def hold(self, rows: NDArray[np.intp] | None) -> None:
        super().hold(rows)
        held, self._held_table = self._held, None  # frees the old rows before the new ones are sent
        if held is not None:
            self._held_table = DeviceTable(
                held.data, held.labels, self.n_classes, self.learner.rules
            )

    def _grown(
        self,
        table: TreeProducer | Resident,
        packed: Rewards,
        rows: NDArray[np.intp] | None,
        random_state: np.random.RandomState,
    ) -> Grown:
        on_device = self._table if table is self else self._held_table
        assert on_device is not None
        return on_device.grow(packed, rows, random_state)

    def _leaves_of(self, tree: Tree) -> NDArray[np.int32]:
        return self._table.leaves(tree)
