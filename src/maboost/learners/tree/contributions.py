r"""SHAP values of forests: the votes of a row as a sum over features.

The value of a set S of features is the expected answer of a tree when only the features in S are known: a split by
another feature sends a row to both sides, in the ratio of their covers. The contribution of a feature is its
Shapley value. The problem separates over leaves. On the path to a leaf with answer v and m different features, let
:math:`o_j` be 1 if the row passes all splits by feature j and 0 otherwise, and :math:`z_j` the product of their
ratios of covers. Then

.. math:: \phi_j = v (o_j - z_j) \int_0^1 \prod_{i \ne j} \bigl(o_i t + z_i (1 - t)\bigr)\,dt,

since :math:`\int_0^1 t^k (1 - t)^{m - 1 - k} dt = k!\,(m - 1 - k)!/m!` is the Shapley weight of k known features.
The integrand is a polynomial of degree m - 1, which Gauss's rule with :math:`\lceil m/2 \rceil` nodes integrates
exactly. All terms are positive, so no digits cancel.

Reference: Lundberg, Erion and Lee (2018), "Consistent individualized feature attribution for tree ensembles".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.predictor import Forest, Tree, decide_tile, tile_of
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for
from maboost.runtime.threads import Threads

__all__ = ["Explainer", "cover_of"]

Array = NDArray[np.float64]

_COVER = 1 << 30  # LightGBM counts rows in 32 bits
_TILE = 1 << 6  # rows of a chunk


def cover_of(
    weight: Array, left: NDArray[np.int32], right: NDArray[np.int32], inner: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return the cover of every node: its weight as a whole number, at least one a leaf; children add up to parents.

    A split sends a row with an unknown value to its sides in the ratio of their covers. Whole numbers are the form
    of LightGBM's files, so its SHAP values of an exported model are the same.

    >>> root, left, right = np.array([0.25, 0.25, 0.0]), np.array([1, 0, 0]), np.array([2, 0, 0])
    >>> cover_of(root, left, right, np.array([0])).tolist()
    [1073741825, 1073741824, 1]
    """
    root = weight[0]
    scaled = weight * (_COVER / root) if root > 0.0 else np.ones(len(weight))
    cover = np.maximum(np.rint(scaled), 1.0).astype(np.int64)
    for node in inner[::-1]:
        cover[node] = cover[left[node]] + cover[right[node]]
    return cover


class _Paths(NamedTuple):
    """The paths from the roots to the leaves, tree by tree.

    Attributes
    ----------
    trees : array of shape (trees + 1,)
        The first leaf of each tree.
    leaves : array
        The node of each leaf.
    steps : array of shape (leaves + 1,)
        The first split of the path to each leaf.
    node, to_left : arrays
        The node of each split on a path, and whether the path goes left there.
    place : array
        The index of the split's feature among the features of its path.
    features : array of shape (leaves + 1,)
        The first feature of the path to each leaf.
    feature, share : arrays
        Each feature of a path, and the product of the ratios of covers at its splits.
    """

    trees: NDArray[np.int64]
    leaves: NDArray[np.int64]
    steps: NDArray[np.int64]
    node: NDArray[np.int32]
    to_left: NDArray[np.bool_]
    place: NDArray[np.int16]
    features: NDArray[np.int64]
    feature: NDArray[np.int32]
    share: Array


@dataclass(frozen=True)
class Explainer:
    """The SHAP values of trees that have the same categories."""

    forest: Forest
    paths: _Paths
    expected: Array
    rules: tuple[Array, Array]

    @classmethod
    def of(cls, trees: list[Tree]) -> Explainer:
        """Return the explainer of some trees."""
        forest = Forest.of(trees)
        covers = [
            cover_of(t.weight, t.left, t.right, np.flatnonzero(t.feature >= 0)) for t in trees
        ]
        cover = np.concatenate(covers).astype(np.float64)
        paths = _Paths(*_paths(forest.roots, forest.depths, forest.feature, forest.left, cover))
        root = np.repeat(cover[forest.roots], np.diff(paths.trees))
        parts = (cover[paths.leaves] / root)[:, None] * forest.value[paths.leaves]
        expected = np.add.reduceat(parts, paths.trees[:-1], axis=0)
        most = int(np.diff(paths.features).max(initial=0))
        return cls(forest, paths, expected, _quadrature(-(-most // 2)))

    def contributions(self, X: Any, steps: Array, threads: Threads) -> Array:
        """Return the parts of the weighted sum of all answers, shape (n, answers, columns + 1).

        The last column is the expected sum, the same for every row.
        """
        forest, columns = self.forest, X.shape[1]
        out = np.zeros((X.shape[0], forest.value.shape[1], columns + 1))
        out[:, :, columns] = steps @ self.expected
        args = (
            forest.roots, forest.feature, forest.threshold, forest.left, forest.missing_left,
            *forest.sets, forest.value, self.paths, *self.rules, steps,
        )  # fmt: skip
        for start, stop, table in forest.blocks(X):
            threads.run(_contributions, *table, *args, out[start:stop])
        return out


def _quadrature(count: int) -> tuple[Array, Array]:
    """Return the nodes and weights of Gauss's rules on [0, 1] with 1, 2, ... `count` nodes, one rule a row."""
    nodes, weights = np.zeros((2, count + 1, max(count, 1)))
    for n in range(1, count + 1):
        x, w = np.polynomial.legendre.leggauss(n)
        nodes[n, :n], weights[n, :n] = 0.5 * (1.0 + x), 0.5 * w
    return nodes, weights


@kernel
def _paths(roots, depths, feature, left, cover):
    """Return the arrays of :class:`_Paths`; a leaf is its own left child."""
    nodes = left.size
    parent = np.full(nodes, -1, dtype=np.int32)
    depth = np.zeros(nodes, dtype=np.int64)
    leaves = steps = 0
    for node in range(nodes):
        if left[node] == node:
            leaves += 1
            steps += depth[node]
        else:
            for child in range(left[node], left[node] + 2):
                parent[child], depth[child] = node, depth[node] + 1
    trees = np.zeros(roots.size + 1, dtype=np.int64)
    leaf, first = np.empty(leaves, dtype=np.int64), np.zeros(leaves + 1, dtype=np.int64)
    some = np.zeros(leaves + 1, dtype=np.int64)
    at, to_left = np.empty(steps, dtype=np.int32), np.empty(steps, dtype=np.bool_)
    place = np.empty(steps, dtype=np.int16)
    its, share = np.empty(steps, dtype=np.int32), np.ones(steps)
    n = s = u = 0
    for t in range(roots.size):
        stop = roots[t + 1] if t + 1 < roots.size else nodes
        for node in range(roots[t], stop):
            if left[node] != node:
                continue
            leaf[n], child = node, node
            while parent[child] >= 0:
                split = parent[child]
                k = some[n]
                while k < u and its[k] != feature[split]:
                    k += 1
                if k == u:
                    its[k] = feature[split]
                    u += 1
                share[k] *= cover[child] / cover[split]
                at[s], to_left[s], place[s] = split, child == left[split], k - some[n]
                s += 1
                child = split
            n += 1
            first[n], some[n] = s, u
        trees[t + 1] = n
    return trees, leaf, first, at, to_left, place, some, its[:u].copy(), share[:u].copy()


@kernel
def _add_leaf(leaf, first, goes, paths, value, step, nodes, weights, out):
    """Add the contributions of one leaf to all rows of a tile; ``goes[node - first]`` tells which go left there."""
    a, count = paths.features[leaf], paths.features[leaf + 1] - paths.features[leaf]
    rule, answer = (count + 1) // 2, paths.leaves[leaf]
    passed, products = np.empty(count, dtype=np.bool_), np.empty(rule)
    for i in range(len(out)):
        passed[:] = True
        for s in range(paths.steps[leaf], paths.steps[leaf + 1]):
            passed[paths.place[s]] &= goes[paths.node[s] - first, i] == paths.to_left[s]
        other = (
            0.0  # the integral for a feature whose splits the row does not pass, without its share
        )
        for q in range(rule):
            t, product = nodes[rule, q], weights[rule, q]
            for j in range(count):
                product *= paths.share[a + j] * (1.0 - t) + (t if passed[j] else 0.0)
            products[q] = product
            other += product / (1.0 - t)
        for j in range(count):
            part, share = -other, paths.share[a + j]
            if passed[j]:
                part = 0.0
                for q in range(rule):
                    t = nodes[rule, q]
                    part += products[q] / (share * (1.0 - t) + t)
                part *= 1.0 - share
            for k in range(value.shape[1]):
                out[i, k, paths.feature[a + j]] += step * value[answer, k] * part


@kernel
def _contributions_of_tile(
    flat, row_step, column_step, columns, roots, feature, threshold, left, missing_left,
    category_set, set_start, set_values, value, paths, nodes, weights, steps, out, chunk, slot,
):  # fmt: skip
    start, stop = chunk * _TILE, min((chunk + 1) * _TILE, len(out))
    X = tile_of(flat, row_step, column_step, columns, start, stop)
    largest = 0
    for t in range(roots.size):
        last = roots[t + 1] if t + 1 < roots.size else left.size
        largest = max(largest, last - roots[t])
    goes = np.empty((largest, stop - start), dtype=np.bool_)
    for t in range(roots.size):
        first, last = roots[t], roots[t + 1] if t + 1 < roots.size else left.size
        for at in range(first, last):
            if left[at] != at:
                decide_tile(
                    X[:, feature[at]], at, threshold, missing_left, category_set, set_start,
                    set_values, goes[at - first],
                )  # fmt: skip
        for leaf in range(paths.trees[t], paths.trees[t + 1]):
            _add_leaf(leaf, first, goes, paths, value, steps[t], nodes, weights, out[start:stop])


@kernel
def _contributions(
    team, flat, row_step, column_step, columns, roots, feature, threshold, left, missing_left,
    category_set, set_start, set_values, value, paths, nodes, weights, steps, out,
):  # fmt: skip
    args = (
        flat, row_step, column_step, columns, roots, feature, threshold, left, missing_left,
        category_set, set_start, set_values, value, paths, nodes, weights, steps, out,
    )  # fmt: skip
    parallel_for(team, -(-len(out) // _TILE), _contributions_of_tile, args)
