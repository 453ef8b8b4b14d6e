r"""The best split of a node, from its histogram.

With R the reward of a leaf (the weight of class 1 minus that of class 0; a vector for K classes) and
W its weight, a leaf that answers with real numbers earns :math:`R^2/W` (weighted variance, or Gini)
and one that votes earns :math:`|R|`, its edge. The gain of a split is what its two sides earn more
than the node. Sums are exact integers, so equal splits have equal scores on any machine; the
first in the order of features and bins wins.

Categories have no order of their own, so they are tried in the order of their mean rewards. That order
fits the noise of the same rows: with random labels n rows of weight W earn the mean weight W/n of a row
on average, so m categories, each with its own answer, earn :math:`(m - 1) W/n` more than their
node. Any split earns one of these by chance. Real-valued leaves gain :math:`(m - 2) W/n` less from a
split by categories than from an equal split by numbers, where m counts the categories with rows in the
node; two categories are like two numbers. Leaves that vote are not charged, so a voting stump is
still the best of its class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.layout import MISSING_BIN, N_BINS, ROOM
from maboost.learners.tree.sparse import SparseLayout, sparse_cells
from maboost.runtime.instructions import bits_of, whole
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for, slots

__all__ = [
    "Candidates",
    "Interactions",
    "Limits",
    "Searched",
    "allowed_features",
    "find_split",
    "search_nodes",
]

REAL, SIGN = 0, 1


class Limits(NamedTuple):
    """The constraints on a split, in the units of the histogram.

    `count_bits` is the format of cells; `classes` is 0 for two classes (cells by class) and K for
    more (K reward channels and one of weight and count).
    """

    count_bits: int
    classes: int
    criterion: int
    min_count: int
    min_weight: float


class Interactions(NamedTuple):
    """The groups of features that may split on one path.

    Group g holds ``members[start[g]:start[g + 1]]``. All splits on a path must be in one group.
    """

    start: NDArray[np.int64]
    members: NDArray[np.int64]


class Searched(NamedTuple):
    """The columns that are searched.

    Attributes
    ----------
    n_bins : array
    categorical : boolean array, or None if no column is categorical
    monotone : array, or None if no column is constrained
    many : int or None
        The number of classes if it is more than two. Kernels compile no code for parts that are None.
    dense : int
        The number of dense columns.
    sparse : SparseLayout, or None if all columns are dense
    interactions : Interactions, or None if all features may interact
    """

    n_bins: NDArray[np.int64]
    categorical: NDArray[np.bool_] | None
    monotone: NDArray[np.int64] | None
    many: int | None
    dense: int
    sparse: SparseLayout | None
    interactions: Interactions | None = None


@kernel
def _count(sums, limits):
    mask = (np.int64(1) << limits.count_bits) - 1
    if limits.classes == 0:
        return (sums[0] & mask) + (sums[1] & mask)
    return sums[limits.classes] & mask


@kernel
def _weight(sums, limits):
    bits = limits.count_bits
    if limits.classes == 0:
        return float((sums[0] >> bits) + (sums[1] >> bits))
    return float(sums[limits.classes] >> bits)


@kernel
def _rivals(hist, n_bins, classes):
    """Return the two classes that earn most if bins vote for one or the other, missing values included."""
    best, one, other = np.int64(0), 0, 0
    for a in range(classes):
        for b in range(a):
            earned = max(hist[MISSING_BIN, a], hist[MISSING_BIN, b])
            for j in range(n_bins):
                earned += max(hist[j, a], hist[j, b])
            if earned > best:
                best, one, other = earned, a, b
    return one, other


@kernel
def _category_order(hist, n_bins, limits, heaviest):
    """Return the bins that have rows, ordered by the mean reward of their rows.

    For votes among more than two classes the order is by how much a bin prefers one class to the other.
    """
    votes, one, other = limits.criterion == SIGN and limits.classes > 0, 0, 0
    if votes:
        one, other = _rivals(hist, n_bins, limits.classes)
    bits, key = limits.count_bits, np.empty(n_bins)
    found = np.empty(n_bins, dtype=np.int64)
    n = 0
    for b in range(n_bins):
        if _count(hist[b], limits) > 0:
            if limits.classes == 0:
                against, in_favour = _weight_of(hist[b, 0], bits), _weight_of(hist[b, 1], bits)
                key[n] = _answer_within(against, in_favour, -1.0, 1.0)
            elif votes:
                key[n] = float(hist[b, one] - hist[b, other])
            else:
                weight = max(_weight(hist[b], limits), 1.0)
                key[n] = float(hist[b, heaviest] >> bits) / weight
            found[n] = b
            n += 1
    for a in range(1, n):  # insertion sort: stable, and there are at most a few hundred bins
        value, bin = key[a], found[a]
        b = a
        while b > 0 and key[b - 1] > value:
            key[b], found[b] = key[b - 1], found[b - 1]
            b -= 1
        key[b], found[b] = value, bin
    return found[:n]


@kernel
def _weight_of(cell, bits):
    """Return the weight in a cell as a float; it has at most 42 bits."""
    return whole(np.uint64(cell) >> np.uint64(bits))


@kernel
def _answer_within(zero, one, low, high):
    """Return the answer of a leaf of two classes, from their weights."""
    weight = zero + one
    answer = (one - zero) / weight if weight > 0.0 else 0.0
    answer = low if answer < low else answer
    return high if answer > high else answer


@kernel
def _earned_by_two(zero, one, votes, low, high):
    """Return what a leaf of two classes earns, from their weights; `low` and `high` bound its answer."""
    weight, reward = zero + one, one - zero
    if votes:
        return abs(reward)
    answer = _answer_within(zero, one, low, high)
    return (2.0 * reward - weight * answer) * answer


@kernel
def _add_up(cells, order, sum, sums):
    """Write the running sums of `sum` as bins are added one by one."""
    for j in range(order.size):
        sum += cells[order[j]]
        sums[j] = sum


@kernel
def _gains_of_two(left_zero, left_one, total, limits, least, low, high, gains):
    """Write the gain of cutting after each bin; zero if a side is too small.

    The left side needs at least `least` rows.

    No iteration depends on the previous one, so the loop vectorises; it takes much of a small tree's time.
    Weights are integers, whose sums and differences are exact in floats.
    """
    bits, min_weight = limits.count_bits, limits.min_weight
    mask = (np.int64(1) << bits) - 1
    zero, one = _weight_of(total[0], bits), _weight_of(total[1], bits)
    most, votes = _count(total, limits) - limits.min_count, limits.criterion == SIGN
    earned = _earned_by_two(zero, one, votes, low, high)
    for j in range(gains.size):
        count = (left_zero[j] & mask) + (left_one[j] & mask)
        a, b = _weight_of(left_zero[j], bits), _weight_of(left_one[j], bits)
        c, d = zero - a, one - b
        gain = _earned_by_two(a, b, votes, low, high)
        gain = gain + _earned_by_two(c, d, votes, low, high) - earned
        enough = (a + b >= min_weight) & (c + d >= min_weight)
        gains[j] = gain if enough & (count >= least) & (count <= most) else 0.0


@kernel
def _forbid(left_zero, left_one, total, limits, constraint, low, high, gains):
    """Set the gain to zero where answers would violate a monotone constraint."""
    bits = limits.count_bits
    for j in range(gains.size):
        zero, one = _weight_of(left_zero[j], bits), _weight_of(left_one[j], bits)
        below = _answer_within(zero, one, low, high)
        zero, one = _weight_of(total[0], bits) - zero, _weight_of(total[1], bits) - one
        above = _answer_within(zero, one, low, high)
        if (above - below) * constraint < 0.0:
            gains[j] = 0.0


@kernel
def _first_best(gains, best):
    """Return the index of the first largest gain; -1 if it does not exceed `best`, which is zero or more.

    The bits of such floats have their order, and a loop over integers vectorises.
    """
    most = bits_of(best)
    for j in range(gains.size):
        most = max(most, bits_of(gains[j]))
    if most == bits_of(best):
        return -1
    j = 0
    while bits_of(gains[j]) != most:
        j += 1
    return j


@kernel
def _scan_two(
    hist, total, order, start, limits, constraint, low, high, price, best, best_left, room
):  # fmt: skip
    """Move bins to the left one by one; return the best gain beyond `best`, and how many bins moved.

    Every gain is reduced by `price`.
    """
    gains, zeros, ones = room[0][: order.size], room[1], room[2]
    _add_up(hist[0], order, start[0], zeros)
    _add_up(hist[1], order, start[1], ones)
    least = max(limits.min_count, _count(start, limits) + 1)  # more than only the missing values
    _gains_of_two(zeros, ones, total, limits, least, low, high, gains)
    if constraint is not None and constraint != 0:
        _forbid(zeros, ones, total, limits, constraint, low, high, gains)
    if price > 0.0:
        for j in range(gains.size):
            gains[j] = max(gains[j] - price, 0.0)
    moved = _first_best(gains, best) + 1
    if moved > 0:
        best, best_left[0], best_left[1] = gains[moved - 1], zeros[moved - 1], ones[moved - 1]
    return best, moved


@kernel
def _earned_by_many(sums, limits):
    """Return what a leaf of K classes earns."""
    bits = limits.count_bits
    if limits.criterion == SIGN:
        best = sums[0]
        for k in range(1, limits.classes):
            best = max(best, sums[k])
        return float(best >> bits) if sums[limits.classes] >> bits > 0 else 0.0
    square = 0.0
    for k in range(limits.classes):
        square += float(sums[k] >> bits) ** 2
    weight = float(sums[limits.classes] >> bits)
    return square / weight if weight > 0.0 else 0.0


@kernel
def _scan_many(hist, total, order, start, limits, price, best, best_left):
    """Run the scan of :func:`_scan_two` for more classes."""
    left, right = start.copy(), total.copy()
    for k in range(total.size):
        right[k] -= start[k]
    moved = 0
    earned = _earned_by_many(total, limits) + price
    for j in range(order.size):
        cell = hist[order[j]]
        for k in range(total.size):
            left[k] += cell[k]
            right[k] -= cell[k]
        if cell[limits.classes] == 0:
            continue
        if min(_count(left, limits), _count(right, limits)) < limits.min_count:
            continue
        if min(_weight(left, limits), _weight(right, limits)) < limits.min_weight:
            continue
        gain = _earned_by_many(left, limits) + _earned_by_many(right, limits) - earned
        if gain > best:
            best = gain
            moved = j + 1
            for k in range(total.size):
                best_left[k] = left[k]
    return best, moved


@kernel
def _price_of_order(total, categories, limits):
    """Return the gain to expect from the order of this many categories by chance; zero for leaves that vote."""
    if limits.criterion == SIGN:
        return 0.0
    return max(categories - 2, 0) * _weight(total, limits) / _count(total, limits)


@kernel
def _largest(total, classes):
    heaviest = 0
    for k in range(1, classes):
        if total[k] > total[heaviest]:
            heaviest = k
    return heaviest


@kernel
def _mark_left(order, moved, go_left):
    for b in range(go_left.size):
        go_left[b] = False
    for j in range(moved):
        go_left[order[j]] = True


@kernel
def _worth_a_look(tail, sparse, features, channels, many):
    """The features that are dense, or that have rows in the node outside the bin of zero."""
    if sparse is None:
        return features
    place, first = sparse.place, sparse.first
    some, n = np.empty(features.size, dtype=np.int64), 0
    classes = tail.size // channels  # apart for two classes
    for f in features:
        is_one = place[f] >= 0
        for at in range(first[f], first[f + 1]):
            if many is None:
                is_one |= (tail[at] | tail[classes + at]) != 0
            else:
                is_one |= tail[at * channels + many] != 0
        some[n] = f
        n += is_one
    return some[:n]


@kernel
def _column_of_two(hist, tail, sparse, feature, n_bins, total, room):
    """The cells of a column by class and bin.

    Those of a sparse column are copied to `room`, with what is left of the node in the bin of zero.
    """
    if sparse is None:
        return hist[feature]
    if sparse.place[feature] >= 0:
        return hist[sparse.place[feature]]
    first, zero, size = sparse.first[feature], sparse.zero[feature], tail.size // 2
    for k in range(2):
        stored = np.int64(0)
        for b in range(n_bins + 1):
            cell = tail[k * size + first + b]
            room[k, b if b < n_bins else MISSING_BIN] = cell
            stored += cell
        room[k, zero] = total[k] - stored
    return room


@kernel
def _column_of_many(hist, tail, sparse, feature, n_bins, total, room):
    """:func:`_column_of_two` for more classes, by bin and channel."""
    if sparse is None:
        return hist[feature]
    if sparse.place[feature] >= 0:
        return hist[sparse.place[feature]]
    first, zero, channels = sparse.first[feature], sparse.zero[feature], room.shape[1]
    for k in range(total.size):
        stored = np.int64(0)
        for b in range(n_bins + 1):
            cell = tail[(first + b) * channels + k]
            room[b if b < n_bins else MISSING_BIN, k] = cell
            stored += cell
        room[zero, k] = total[k] - stored
    return room


@kernel
def _column_of(hist, tail, sparse, feature, n_bins, total, room, many):
    if many is None:
        return _column_of_two(hist, tail, sparse, feature, n_bins, total, room)
    return _column_of_many(hist, tail, sparse, feature, n_bins, total, room)


@kernel
def find_split(
    hist, tail, total, features, n_bins, categorical, monotone, sparse, limits, low, high, many,
    left, go_left,
):  # fmt: skip
    """Return the best split over `features`; a gain of zero or less means there is none.

    `hist` is by feature, class and bin for two classes, by feature, bin and channel for more; `tail` has the
    cells of sparse columns. `many` is None for two classes, `categorical` if no column is categorical,
    `monotone` if none is constrained, and `sparse` if all columns are dense; the kernel then compiles no code
    for these parts.

    Returns
    -------
    gain, feature, bin
        `bin` is the last bin that goes left (numbers only). The sums of the left side are written to `left`,
        and to `go_left` which of all 256 bins go there.
    """
    channels = total.size
    best, feature, cut = 0.0, -1, -1
    start, missing = np.empty(channels, dtype=np.int64), np.empty(channels, dtype=np.int64)
    natural = np.empty(N_BINS, dtype=np.int64)  # np.arange takes a quarter of a second to compile
    for b in range(N_BINS):
        natural[b] = b
    room = np.empty(N_BINS), np.empty(N_BINS, dtype=np.int64), np.empty(N_BINS, dtype=np.int64)
    heaviest = _largest(total, limits.classes)
    own = np.empty(hist.shape[1:] if sparse is not None else (0, 0), dtype=np.int64)
    for f in _worth_a_look(tail, sparse, features, own.size // ROOM, many):
        its = _column_of(hist, tail, sparse, f, n_bins[f], total, own, many)
        cells = its.T if many is None else its
        for k in range(channels):
            missing[k] = cells[MISSING_BIN, k]
        some_missing = _count(missing, limits) > 0
        order, ordered, price = natural[: n_bins[f]], True, 0.0
        if categorical is not None and categorical[f]:
            order, ordered = _category_order(cells, n_bins[f], limits, heaviest), False
            price = _price_of_order(total, order.size, limits)
        for missing_left in range(2 if some_missing else 1):
            for k in range(channels):
                start[k] = missing[k] if missing_left == 1 else 0
            if many is None:
                constraint = None if monotone is None else monotone[f]
                gain, moved = _scan_two(
                    its,
                    total,
                    order,
                    start,
                    limits,
                    constraint,
                    low,
                    high,
                    price,
                    best,
                    left,
                    room,
                )
            else:
                gain, moved = _scan_many(cells, total, order, start, limits, price, best, left)
            if gain > best:
                best, feature = gain, f
                cut = moved - 1 if ordered else -1
                _mark_left(order, moved, go_left)
                go_left[MISSING_BIN] = missing_left == 1
                if not some_missing:  # unknown at training: missing values go with the larger side
                    go_left[MISSING_BIN] = 2 * _count(left, limits) >= _count(total, limits)
    return best, feature, cut


class Candidates(NamedTuple):
    """The best split of each part of the columns of each node."""

    gain: NDArray[np.float64]
    feature: NDArray[np.int64]
    bin: NDArray[np.int64]
    left: NDArray[np.int64]
    go_left: NDArray[np.bool_]


@kernel
def allowed_features(features, used, interactions):
    """Return the features that share a group with all features that are `used` on the path to a node.

    All features, if `interactions` is None.
    """
    if interactions is None:
        return features
    on_path, is_open = 0, np.zeros(used.size, dtype=np.bool_)
    for f in range(used.size):
        on_path += used[f]
    for g in range(interactions.start.size - 1):
        members = interactions.members[interactions.start[g] : interactions.start[g + 1]]
        inside = 0
        for f in members:
            inside += used[f]
        if inside == on_path:
            for f in members:
                is_open[f] = True
    some, n = np.empty(features.size, dtype=np.int64), 0
    for f in features:
        some[n] = f
        n += is_open[f]
    return some[:n]


@kernel
def _search_part(
    hists, nodes, sums, used, ids, features, first, searched, limits, pieces, found, chunk, slot
):
    """Find the best split of a node over some of the features drawn for it."""
    j, piece = chunk // pieces, chunk % pieces
    id = ids[j]
    its = features[min(id - first, len(features) - 1)]
    some = its[its.size * piece // pieces : its.size * (piece + 1) // pieces]
    some = allowed_features(some, used[id], searched.interactions)
    cells, columns = hists[nodes[id].slot], searched.dense
    channels = cells.size // (columns * ROOM + sparse_cells(searched.sparse))
    dense, tail = cells[: columns * ROOM * channels], cells[columns * ROOM * channels :]
    if searched.many is None:
        hist = dense.reshape((columns, 2, ROOM))
    else:
        hist = dense.reshape((columns, ROOM, channels))
    gain, feature, bin = find_split(
        hist, tail, sums[id], some, searched.n_bins, searched.categorical, searched.monotone,
        searched.sparse, limits, nodes[id].low, nodes[id].high, searched.many, found.left[chunk],
        found.go_left[chunk],
    )  # fmt: skip
    found.gain[chunk], found.feature[chunk], found.bin[chunk] = gain, feature, bin


@kernel
def search_nodes(
    team, hists, nodes, sums, left, go_left, used, ids, features, first, searched, limits
):
    """Find the best split of some nodes that have a histogram, the first of equals.

    Writes `feature`, `bin` and `gain` of a node that has a split, the sums of its left side to `left` and the bins
    that go there to `go_left`. ``features[i]`` are the features drawn for node ``first + i``, the last of them for
    all later nodes. ``used[id]`` marks the features of the splits above a node; it is read if interactions are
    constrained.
    """
    threads, columns = slots(team), features.shape[1]
    pieces = 1 if threads == 1 else min(max(4 * threads // max(ids.size, 1), 1), columns)
    n = ids.size * pieces
    found = Candidates(
        np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64),
        np.empty((n, sums.shape[1]), dtype=np.int64), np.empty((n, N_BINS), dtype=np.bool_),
    )  # fmt: skip
    args = (hists, nodes, sums, used, ids, features, first, searched, limits, pieces, found)
    parallel_for(team, n, _search_part, args)
    for j in range(ids.size):
        id = ids[j]
        best = 1e-12 * nodes[id].weight  # smaller gains are rounding
        for k in range(j * pieces, (j + 1) * pieces):
            if found.feature[k] >= 0 and found.gain[k] > best:
                best = found.gain[k]
                nodes[id].feature, nodes[id].bin = found.feature[k], found.bin[k]
                nodes[id].gain = best
                left[id] = found.left[k]
                go_left[id] = found.go_left[k]
