"""The leaf of every row in every tree of a forest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.predictor import Forest, descend_tile, tile_of
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for
from maboost.runtime.threads import Threads

__all__ = ["leaves_of"]

_TILE = 1 << 9  # rows of a chunk


def leaves_of(forest: Forest, X: Any, threads: Threads) -> NDArray[np.int32]:
    """Return the node of the leaf of every row in every tree, shape (n, trees); the root of a tree is node 0."""
    out = np.empty((X.shape[0], len(forest.roots)), dtype=np.int32)
    args = (
        forest.roots, forest.depths, forest.feature, forest.threshold, forest.left, forest.missing_left,
        *forest.sets,
    )  # fmt: skip
    for start, stop, table in forest.blocks(X):
        threads.run(_leaves, *table, *args, out[start:stop])
    return out


@kernel
def _leaves_of_tile(
    flat, row_step, column_step, columns, roots, depths, feature, threshold, left, missing_left,
    category_set, set_start, set_values, out, chunk, slot,
):  # fmt: skip
    start, stop = chunk * _TILE, min((chunk + 1) * _TILE, len(out))
    X = tile_of(flat, row_step, column_step, columns, start, stop)
    node = np.empty(stop - start, dtype=np.int32)
    for t in range(roots.size):
        descend_tile(
            X, roots[t], depths[t], feature, threshold, left, missing_left, category_set, set_start,
            set_values, node,
        )  # fmt: skip
        out[start:stop, t] = node - np.int32(roots[t])


@kernel
def _leaves(
    team, flat, row_step, column_step, columns, roots, depths, feature, threshold, left, missing_left,
    category_set, set_start, set_values, out,
):  # fmt: skip
    args = (
        flat, row_step, column_step, columns, roots, depths, feature, threshold, left, missing_left,
        category_set, set_start, set_values, out,
    )  # fmt: skip
    parallel_for(team, -(-len(out) // _TILE), _leaves_of_tile, args)
