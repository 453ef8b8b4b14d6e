"""Hold-out of rows by their content, not by their position.

A row's key is the seeded hash of its values. It is the same under any order, sharding or repetition, so a
row of weight two is held out exactly if the row twice would be, and copies are never on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.engine.leaf_codes import LeafCodes
from maboost.learners.tree.table import as_table
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.communicator import Communicator, SerialCommunicator, global_count
from maboost.runtime.tail_sums import TIE, lower_tail

__all__ = ["held_out", "held_out_shares"]

_HEAVY = 0.1
_BUCKETS = 1024  # of keys, to separate contents without gathering them

Array = NDArray[np.float64]


def held_out(
    X: Any,
    labels: NDArray[np.intp],
    classes: int,
    weights: Array,
    fraction: float,
    seed: int,
    groups: NDArray[Any] | None = None,
    comm: Communicator | None = None,
) -> NDArray[np.bool_]:
    """Return which rows to hold out: of every class the smallest keys that hold `fraction` of its weight.

    With `groups`, whole groups are held out, regardless of classes. A class of one distinct row
    (or a single group) stays in the training rows. `classes` is the number of classes over all shards.
    """
    comm = comm or SerialCommunicator()
    if groups is not None:
        return _lowest(as_table(groups.reshape(-1, 1)).row_hashes(seed), weights, fraction, comm)
    where = as_table(X).row_hashes(seed)
    chosen = np.zeros(len(labels), dtype=bool)
    for label in range(classes):
        rows = np.flatnonzero(labels == label)
        chosen[rows] = _lowest(where[rows], weights[rows], fraction, comm)
    return chosen


def held_out_shares(
    X: Any,
    labels: NDArray[np.intp],
    classes: int,
    weights: Array,
    fraction: float,
    seed: int,
    comm: Communicator,
) -> Array:
    """Return the share of each row's weight to hold out: all, nothing, or `fraction` of a heavy content.

    Equal rows with more than a tenth of all weight are on both sides, since a side without them would not represent
    the other. Other rows are on one side, as in :func:`held_out`.
    """
    where = as_table(X).row_hashes(seed)
    bucket = (where * _BUCKETS).astype(np.uint16)
    measure = BaseMeasure(weights, comm=comm)
    held = LeafCodes(np.zeros(_BUCKETS), bucket).masses(np.ones(len(bucket)), measure)
    heavy = held[bucket] > _HEAVY
    shares = np.where(heavy, fraction, 0.0)
    for label in range(classes):
        rows = np.flatnonzero((labels == label) & ~heavy)
        if global_count(len(rows), comm):
            shares[rows] = _lowest(where[rows], weights[rows], fraction, comm)
    return shares


def _lowest(where: Array, weights: Array, fraction: float, comm: Communicator) -> NDArray[np.bool_]:
    """Return the smallest keys whose weight reaches the fraction, but not all of them."""
    measure = BaseMeasure(weights, comm=comm)
    level = lower_tail(where, measure.rows_base, fraction * (1.0 - TIE), measure).level
    chosen: NDArray[np.bool_] = where <= level
    if level >= measure.maximum(where):
        chosen = where < level
    return chosen
