r"""The best split of a node, from its histogram.

With R the reward of a leaf (the weight of class 1 minus that of class 0; a vector for K classes) and
W its weight, a leaf that answers with real numbers earns :math:`R^2/W` (weighted variance, or Gini)
and one that votes earns :math:`|R|`, its edge. A split is as good as what its two sides earn more
than the node does. Sums are exact integers, so equal splits have equal scores on any machine; the
first in the order of features and bins wins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maboost.learners.tree.layout import MISSING_BIN, N_BINS

__all__ = ["Limits", "Split", "find_split"]

REAL, SIGN = 0, 1


class Limits(NamedTuple):
    """What a split must respect, in the units of the histogram.

    `count_bits` tells how cells are read; `classes` is 0 for two classes (cells by class) and K for
    more (K reward channels and one of weight and count).
    """

    count_bits: int
    classes: int
    criterion: int
    min_count: int
    min_weight: float


class Split(NamedTuple):
    """A split: the sums of its left side, and which bins go left."""

    gain: float
    feature: int
    bin: int
    left: NDArray[np.int64]
    go_left: NDArray[np.bool_]


@njit(nogil=True, cache=True)
def _count(sums, limits):
    mask = (np.int64(1) << limits.count_bits) - 1
    if limits.classes == 0:
        return (sums[0] & mask) + (sums[1] & mask)
    return sums[limits.classes] & mask


@njit(nogil=True, cache=True)
def _weight(sums, limits):
    bits = limits.count_bits
    if limits.classes == 0:
        return float((sums[0] >> bits) + (sums[1] >> bits))
    return float(sums[limits.classes] >> bits)


@njit(nogil=True, cache=True)
def _earned(sums, limits, low, high):
    """What a leaf with these sums earns; `low` and `high` bound its answer (two classes)."""
    bits = limits.count_bits
    weight = _weight(sums, limits)
    if weight <= 0.0:
        return 0.0
    if limits.classes == 0:
        reward = float((sums[1] >> bits) - (sums[0] >> bits))
        if limits.criterion == SIGN:
            return abs(reward)
        answer = min(max(reward / weight, low), high)
        return (2.0 * reward - weight * answer) * answer
    if limits.criterion == SIGN:
        best = sums[0]
        for k in range(1, limits.classes):
            best = max(best, sums[k])
        return float(best >> bits)
    square = 0.0
    for k in range(limits.classes):
        square += float(sums[k] >> bits) ** 2
    return square / weight


@njit(nogil=True, cache=True)
def _answer(sums, limits):
    weight = _weight(sums, limits)
    if weight <= 0.0:
        return 0.0
    return float((sums[1] >> limits.count_bits) - (sums[0] >> limits.count_bits)) / weight


@njit(nogil=True, cache=True)
def _allowed(left, right, limits, constraint, low, high):
    """Enough rows and weight on both sides, and answers in the order of a monotonic constraint."""
    if min(_count(left, limits), _count(right, limits)) < limits.min_count:
        return False
    if min(_weight(left, limits), _weight(right, limits)) < limits.min_weight:
        return False
    if constraint == 0:
        return True
    a = min(max(_answer(left, limits), low), high)
    b = min(max(_answer(right, limits), low), high)
    return (b - a) * constraint >= 0.0


@njit(nogil=True, cache=True)
def _category_order(hist, n_bins, limits, heaviest):
    """Bins with rows, by the mean reward of their rows."""
    key = np.empty(n_bins)
    found = np.empty(n_bins, dtype=np.int64)
    n = 0
    for b in range(n_bins):
        if _count(hist[b], limits) > 0:
            if limits.classes == 0:
                key[n] = _answer(hist[b], limits)
            else:
                weight = max(_weight(hist[b], limits), 1.0)
                key[n] = float(hist[b, heaviest] >> limits.count_bits) / weight
            found[n] = b
            n += 1
    order = np.argsort(key[:n], kind="mergesort")
    return found[:n][order]


@njit(nogil=True, cache=True)
def _scan(hist, total, order, start, limits, constraint, low, high, best, best_left):
    """Move bins to the left one by one; the best gain beyond `best`, and how many were moved."""
    left = start.copy()
    moved = 0
    earned = _earned(total, limits, low, high)
    for j in range(order.size):
        cell = hist[order[j]]
        left += cell
        if _count(cell, limits) == 0:
            continue
        right = total - left
        if not _allowed(left, right, limits, constraint, low, high):
            continue
        gain = _earned(left, limits, low, high) + _earned(right, limits, low, high) - earned
        if gain > best:
            best = gain
            moved = j + 1
            best_left[:] = left
    return best, moved


@njit(nogil=True, cache=True)
def find_split(hist, total, features, n_bins, categorical, monotone, limits, low, high):
    """The best split over `features`; a gain of zero or less means there is none.

    Returns
    -------
    gain, feature, bin, left, go_left
        `bin` is the last bin that goes left (numbers only); `go_left` says it for all 256 bins.
    """
    channels = total.size
    best, feature, cut = 0.0, -1, -1
    best_left, left = np.zeros(channels, dtype=np.int64), np.zeros(channels, dtype=np.int64)
    go_left = np.zeros(N_BINS, dtype=np.bool_)
    heaviest = np.argmax(total[: limits.classes]) if limits.classes else 0
    for f in features:
        missing = hist[f, MISSING_BIN]
        some_missing = _count(missing, limits) > 0
        if categorical[f]:
            order = _category_order(hist[f], n_bins[f], limits, heaviest)
        else:
            order = np.arange(n_bins[f])
        for missing_left in range(2 if some_missing else 1):
            start = missing.copy() if missing_left else np.zeros(channels, dtype=np.int64)
            gain, moved = _scan(
                hist[f], total, order, start, limits, monotone[f], low, high, best, left
            )
            if gain > best:
                best, feature = gain, f
                best_left[:] = left
                cut = -1 if categorical[f] else moved - 1
                go_left[:] = False
                go_left[order[:moved]] = True
                go_left[MISSING_BIN] = missing_left == 1
                if not some_missing:  # nothing is known: with the larger side
                    go_left[MISSING_BIN] = 2 * _count(left, limits) >= _count(total, limits)
    return best, feature, cut, best_left, go_left
