# mypy: disable-error-code="arg-type, assignment"
"""The stages of growth as CUDA kernels: histograms, the search for splits, the partition of rows.

Every sum is one of integers, so the order in which threads add does not matter. Gains are computed by the same operations
on floats as in :mod:`maboost.learners.tree.splitting`; none of them is contracted into a fused one (see `times`). The
order of equal splits is the same, too: the first feature, then missing values to the right, then the first bin.

A histogram is by column, class and bin for two classes, by column, bin and channel for more, without the unused
bins of the processor's. numba's simulator runs the same code.
"""

from __future__ import annotations

import numpy as np
from numba import config, cuda

from maboost.learners.tree.layout import MISSING_BIN, N_BINS
from maboost.learners.tree.splitting import SIGN

__all__ = [
    "CUT",
    "FEATURE",
    "LEFT",
    "MOST_THREADS",
    "RIGHT",
    "SHARED_CELLS",
    "add_histograms",
    "choose_features",
    "clear_histograms",
    "divide_rows",
    "find_splits_of_many",
    "find_splits_of_two",
    "number_rows",
    "send_down",
    "subtract_histograms",
    "times",
    "write_leaves",
]

# Cells of a histogram that a block adds up in shared memory: two arrays of 16 KiB, so that a multiprocessor runs
# several blocks.
SHARED_CELLS = 4096
LIMB = 32  # bits; shared memory adds numbers of 32 bits several times as fast as those of 64
LOW_LIMB = 0xFFFFFFFF

# The most threads of a block that a kernel of a search takes; a power of two.
MOST_THREADS = 128

LEFT, RIGHT = 0, 1  # columns of the counters of a partition
FEATURE, CUT = 0, 1  # columns of a found split

if config.ENABLE_CUDASIM:

    def times(a, b):
        """Return a product; the simulator does not contract operations."""
        return a * b

else:
    from numba.cuda import libdevice

    @cuda.jit(device=True, inline="always")
    def times(a, b):
        """Return a product that the compiler must round, instead of contracting it with a sum to a fused operation."""
        return libdevice.dmul_rn(a, b)


# ------------------------------------------------------------------------------------------ histograms


@cuda.jit
def clear_histograms(hists, slots):
    """Set the histograms in some slots to zero; a row of blocks for each slot."""
    slot = slots[cuda.blockIdx.y]
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, hists.shape[1], step):
        hists[slot, i] = 0


@cuda.jit
def subtract_histograms(hists, pairs):
    """Subtract the histogram in the first slot of each pair from that in the second."""
    small, large = pairs[cuda.blockIdx.y, 0], pairs[cuda.blockIdx.y, 1]
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, hists.shape[1], step):
        hists[large, i] -= hists[small, i]


@cuda.jit(device=True)
def _add_in_limbs(low, high, at, value):
    """Add to a cell of two limbs; the old value of the lower one tells whether it carries."""
    part, rest = np.uint32(value & LOW_LIMB), np.int64((value >> LIMB) & LOW_LIMB)
    old = cuda.atomic.add(low, at, part)
    if np.int64(old) + np.int64(part) > LOW_LIMB:
        rest = (rest + 1) & LOW_LIMB
    if rest != 0:
        cuda.atomic.add(high, at, np.uint32(rest))


@cuda.jit(device=True)
def _add_limbs_up(low, high, count, tid, step, hist):
    """Add the cells of a block to a histogram."""
    for i in range(tid, count, step):
        value = (np.int64(high[i]) << LIMB) | np.int64(low[i])
        if value != 0:
            cuda.atomic.add(hist, i, value)


@cuda.jit
def add_histograms(bins, cells, labels, two, order, listed, runs, slots, group, width, hists):
    """Add runs of rows to the histograms of their nodes: a block adds one run of rows to a group of columns.

    The first dimension of a block is the column, so that neighbours read one row. A run is a list of rows (list, first,
    last). A block adds up in shared memory, in two limbs of 32 bits a cell: the old value of the lower one tells whether it
    carries. If the columns do not fit, it adds to global memory.
    """
    low = cuda.shared.array(SHARED_CELLS, np.uint32)
    high = cuda.shared.array(SHARED_CELLS, np.uint32)
    run, j, lane, lanes = cuda.blockIdx.x, cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockDim.y
    tid, step = lane * cuda.blockDim.x + j, cuda.blockDim.x * lanes
    side, start, stop, slot = runs[run, 0], runs[run, 1], runs[run, 2], slots[run]
    column = 2 * N_BINS if two else N_BINS * width  # cells of a column
    first = cuda.blockIdx.y * group
    columns = min(group, bins.shape[1] - first)
    hist = hists[slot, first * column : (first + columns) * column]
    shared = columns * column <= SHARED_CELLS
    if shared:
        for i in range(tid, columns * column, step):
            low[i] = 0
            high[i] = 0
    cuda.syncthreads()
    for at in range(start + lane if j < columns else stop, stop, lanes):
        row = np.int64(order[side, at]) if listed else np.int64(at)
        bin = np.int64(bins[row, first + j])
        own = j * column + (np.int64(labels[row]) * N_BINS + bin if two else bin * width)
        for k in range(width):
            value = cells[row, k]
            if value != 0:
                if shared:
                    _add_in_limbs(low, high, own + k, value)
                else:
                    cuda.atomic.add(hist, own + k, value)
    cuda.syncthreads()
    if shared:
        _add_limbs_up(low, high, columns * column, tid, step, hist)


# ------------------------------------------------------------------------------------------ splits


@cuda.jit(device=True)
def _sums_before(cells, ends, count):
    """Replace `cells[:count]` of a block by running sums; `ends` has memory for a number a thread."""
    tid, threads = cuda.threadIdx.x, cuda.blockDim.x
    each = (count + threads - 1) // threads
    cuda.syncthreads()
    first, last = min(tid * each, count), min((tid + 1) * each, count)
    sum = np.int64(0)
    for j in range(first, last):
        sum += cells[j]
        cells[j] = sum
    ends[tid] = sum
    cuda.syncthreads()
    if tid == 0:
        sum = np.int64(0)
        for t in range(threads):
            its = ends[t]
            ends[t] = sum
            sum += its
    cuda.syncthreads()
    for j in range(first, last):
        cells[j] += ends[tid]
    cuda.syncthreads()


@cuda.jit(device=True)
def _first_largest(gains, places):
    """Move the largest gain of the threads of a block, and its smallest place, to the first entries."""
    tid, half = cuda.threadIdx.x, cuda.blockDim.x // 2
    cuda.syncthreads()
    while half > 0:
        if tid < half:
            other, there = gains[tid + half], places[tid + half]
            if other > gains[tid] or (other == gains[tid] and there < places[tid]):
                gains[tid] = other
                places[tid] = there
        cuda.syncthreads()
        half //= 2


@cuda.jit(device=True)
def _natural_order(order, n_bins):
    """Write the bins of a column of numbers in their order; return their number."""
    for b in range(cuda.threadIdx.x, n_bins, cuda.blockDim.x):
        order[b] = b
    cuda.syncthreads()
    return n_bins


@cuda.jit(device=True)
def _order_by_key(key, known, n_bins, order, count):
    """Write the bins that have rows by rising key, equal ones in their own order; return their number."""
    tid, step = cuda.threadIdx.x, cuda.blockDim.x
    if tid == 0:
        count[0] = 0
    cuda.syncthreads()
    for b in range(tid, n_bins, step):
        if known[b] != 0:
            rank = 0
            for c in range(n_bins):
                if known[c] != 0 and (key[c] < key[b] or (key[c] == key[b] and c < b)):
                    rank += 1
            order[rank] = b
            cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    return np.int64(count[0])


@cuda.jit(device=True)
def _price_of_order(total, categories, bits):
    """Return the gain to expect from the order of this many categories by chance; `total` is the cell of weight and count."""
    weight, rows = np.float64(total >> bits), np.float64(total & ((np.int64(1) << bits) - 1))
    return times(np.float64(max(categories - 2, 0)), weight) / rows


@cuda.jit(device=True)
def _write_split(node, feature, ordered, place, gain, order, gains, splits, go_left):
    """Write a split and the bins that go left, but for missing values."""
    tid, step, moved = cuda.threadIdx.x, cuda.blockDim.x, place % N_BINS + 1
    for b in range(tid, N_BINS, step):
        go_left[node, b] = 0
    cuda.syncthreads()
    for j in range(tid, moved, step):
        go_left[node, order[j]] = 1
    if tid == 0:
        gains[node, 0] = gain
        splits[node, FEATURE] = feature
        splits[node, CUT] = moved - 1 if ordered else -1


@cuda.jit(device=True)
def _missing_goes_left(place, missing, left, rows):
    """Return whether missing values go left: with the larger side if there are none in the node."""
    if missing > 0:
        return place >= N_BINS
    return 2 * left >= rows


@cuda.jit(device=True)
def _no_split(node, place, final, gains, splits):
    if cuda.threadIdx.x == 0:
        if final:
            splits[node, FEATURE] = -1
        else:
            gains[node, place] = 0.0


@cuda.jit(device=True)
def _answer_within(zero, one, low, high):
    weight = zero + one
    answer = (one - zero) / weight if weight > 0.0 else 0.0
    answer = low if answer < low else answer
    return high if answer > high else answer


@cuda.jit(device=True)
def _earned_by_two(zero, one, votes, low, high):
    weight, reward = zero + one, one - zero
    if votes:
        return abs(reward)
    answer = _answer_within(zero, one, low, high)
    return times(times(2.0, reward) - times(weight, answer), answer)


@cuda.jit(device=True)
def _order_of_two(cells, n_bins, bits, key, known, order, count):
    """Write the categories that have rows by their mean reward; return their number."""
    mask = (np.int64(1) << bits) - 1
    for b in range(cuda.threadIdx.x, n_bins, cuda.blockDim.x):
        zero, one = cells[b], cells[N_BINS + b]
        known[b] = (zero & mask) + (one & mask)
        key[b] = _answer_within(np.float64(zero >> bits), np.float64(one >> bits), -1.0, 1.0)
    return _order_by_key(key, known, n_bins, order, count)


@cuda.jit(device=True)
def _gain_of_two(zero, one, total, least, limits, bounds, votes):
    """Return the gain of a cut from the sums of its left side, which needs at least `least` rows; zero if it is forbidden.

    `limits` are the bits of the count, the rows and the weight that a side needs, `bounds` those of the answers and the
    constraint.
    """
    bits, min_count, min_weight = limits
    low, high, constraint = bounds
    mask = (np.int64(1) << bits) - 1
    count = (zero & mask) + (one & mask)
    if count < least or count > (total[0] & mask) + (total[1] & mask) - min_count:
        return 0.0
    a, b = np.float64(zero >> bits), np.float64(one >> bits)
    all_zero, all_one = np.float64(total[0] >> bits), np.float64(total[1] >> bits)
    c, d = all_zero - a, all_one - b
    if a + b < min_weight or c + d < min_weight:
        return 0.0
    if constraint != 0:
        below, above = _answer_within(a, b, low, high), _answer_within(c, d, low, high)
        if times(above - below, np.float64(constraint)) < 0.0:
            return 0.0
    gain = _earned_by_two(a, b, votes, low, high)
    gain = gain + _earned_by_two(c, d, votes, low, high)
    return gain - _earned_by_two(all_zero, all_one, votes, low, high)


@cuda.jit(device=True)
def _scan_two(
    zeros, ones, bins, none_zero, none_one, total, limits, bounds, votes, price, best, places
):  # fmt: skip
    """Write the best gain of the cuts of a thread, and its place.

    `none_zero` and `none_one` are the cells of missing values, which are on the right at the places below 256, and on
    the left from there on.
    """
    tid, step = cuda.threadIdx.x, cuda.blockDim.x
    bits, min_count, _ = limits
    mask = (np.int64(1) << bits) - 1
    missing = (none_zero & mask) + (none_one & mask)
    best[tid] = 0.0
    places[tid] = 2 * N_BINS
    for missing_left in range(2 if missing > 0 else 1):
        least = max(min_count, missing_left * missing + 1)  # more than only the missing values
        for j in range(tid, bins, step):
            zero, one = zeros[j] + missing_left * none_zero, ones[j] + missing_left * none_one
            gain = _gain_of_two(zero, one, total, least, limits, bounds, votes)
            if price > 0.0:
                gain = gain - price
            if gain > best[tid]:
                best[tid] = gain
                places[tid] = missing_left * N_BINS + j


@cuda.jit
def find_splits_of_two(
    hists, slots, sums, low, high, features, n_bins, categorical, monotone, bits, criterion,
    min_count, min_weight, final, gains, splits, left, go_left,
):  # fmt: skip
    """Find the best split of a node and a feature, for two classes: a block each.

    Without `final` writes the gain of each feature of a node; zero or less means that there is no split. With
    `final` there is one feature for each node, and the kernel writes the split, its gain, the sums of its left side
    and the bins that go there.
    """
    order = cuda.shared.array(N_BINS, np.int32)
    key = cuda.shared.array(N_BINS, np.float64)
    zeros = cuda.shared.array(N_BINS, np.int64)
    ones = cuda.shared.array(N_BINS, np.int64)
    ends = cuda.shared.array(MOST_THREADS, np.int64)
    best = cuda.shared.array(MOST_THREADS, np.float64)
    places = cuda.shared.array(MOST_THREADS, np.int32)
    count = cuda.shared.array(1, np.int32)
    node, at, tid, step = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    feature = features[min(node, features.shape[0] - 1), at]
    if feature < 0:
        _no_split(node, at, final, gains, splits)
        return
    mask, votes, total = (np.int64(1) << bits) - 1, criterion == SIGN, sums[node]
    cells = hists[slots[node], feature * 2 * N_BINS : (feature + 1) * 2 * N_BINS]
    ordered, price = categorical[feature] == 0, 0.0
    if ordered:
        bins = _natural_order(order, n_bins[feature])
    else:
        bins = _order_of_two(cells, n_bins[feature], bits, key, ones, order, count)
        if not votes:
            price = _price_of_order(total[0] + total[1], bins, bits)
    for j in range(tid, bins, step):
        zeros[j] = cells[order[j]]
        ones[j] = cells[N_BINS + order[j]]
    _sums_before(zeros, ends, bins)
    _sums_before(ones, ends, bins)
    none_zero, none_one = cells[MISSING_BIN], cells[N_BINS + MISSING_BIN]
    missing = (none_zero & mask) + (none_one & mask)
    limits = (bits, min_count, min_weight)
    bounds = (low[node], high[node], monotone[feature])
    _scan_two(
        zeros, ones, bins, none_zero, none_one, total, limits, bounds, votes, price, best, places
    )
    _first_largest(best, places)
    place = places[0]
    if not final:
        if tid == 0:
            gains[node, at] = best[0]
        return
    _write_split(node, feature, ordered, place, best[0], order, gains, splits, go_left)
    if tid == 0:
        missing_left = place // N_BINS
        left[node, 0] = zeros[place % N_BINS] + missing_left * none_zero
        left[node, 1] = ones[place % N_BINS] + missing_left * none_one
        rows = (total[0] & mask) + (total[1] & mask)
        on_left = (left[node, 0] & mask) + (left[node, 1] & mask)
        goes = _missing_goes_left(place, missing, on_left, rows)
        go_left[node, MISSING_BIN] = 1 if goes else 0


@cuda.jit(device=True)
def _earned_by_many(found, cell, bits, votes):
    """Return what a leaf of K classes earns: from its largest reward or the sum of its squares, and its cell of weight."""
    weight = np.float64(cell >> bits)
    if votes:
        return found if weight > 0.0 else 0.0
    return found / weight if weight > 0.0 else 0.0


@cuda.jit(device=True)
def _collected(found, reward, first, votes):
    """Return the largest reward or the sum of squares with one more reward; the first replaces what was there."""
    if votes:
        return reward if first else max(found, reward)
    square = times(reward, reward)
    return square if first else found + square


@cuda.jit(device=True)
def _rivals(cells, n_bins, classes, most, places):
    """Return the two classes, as one number, that earn most if bins vote for one or the other."""
    tid, pair = cuda.threadIdx.x, 0
    most_here, place_here = np.int64(0), np.int32(classes * classes)
    for a in range(classes):
        for b in range(a):
            if pair % cuda.blockDim.x == tid:
                at = MISSING_BIN * (classes + 1)
                earned = max(cells[at + a], cells[at + b])
                for j in range(n_bins):
                    at = j * (classes + 1)
                    earned += max(cells[at + a], cells[at + b])
                if earned > most_here:
                    most_here = earned
                    place_here = np.int32(a * classes + b)
            pair += 1
    most[tid] = most_here
    places[tid] = place_here
    _first_largest(most, places)
    return places[0] if most[0] > 0 else 0


@cuda.jit(device=True)
def _heaviest(total, classes):
    heaviest = 0
    for k in range(1, classes):
        if total[k] > total[heaviest]:
            heaviest = k
    return heaviest


@cuda.jit(device=True)
def _order_of_many(cells, total, n_bins, classes, bits, votes, most, places, key, known, order, count):  # fmt: skip
    """Write the categories that have rows by their mean reward; return their number.

    For votes the order is by how much a category prefers one of two classes to the other.
    """
    width, mask = classes + 1, (np.int64(1) << bits) - 1
    first = _rivals(cells, n_bins, classes, most, places) if votes else _heaviest(total, classes)
    for b in range(cuda.threadIdx.x, n_bins, cuda.blockDim.x):
        at = b * width
        known[b] = cells[at + classes] & mask
        if votes:
            key[b] = np.float64(cells[at + first // classes] - cells[at + first % classes])
        else:
            weight = max(np.float64(cells[at + classes] >> bits), 1.0)
            key[b] = np.float64(cells[at + first] >> bits) / weight
    return _order_by_key(key, known, n_bins, order, count)


@cuda.jit(device=True)
def _earned_by_node(total, classes, bits, votes):
    earned = 0.0
    for k in range(classes):
        earned = _collected(earned, np.float64(total[k] >> bits), k == 0, votes)
    return _earned_by_many(earned, total[classes], bits, votes)


@cuda.jit(device=True)
def _collect_channel(cells, bins, start, total, bits, first, votes, on_left, on_right):
    """Add a channel of rewards, from its running sums, to what both sides of every cut earn."""
    for j in range(cuda.threadIdx.x, bins, cuda.blockDim.x):
        here = cells[j] + start
        reward = np.float64(here >> bits)
        on_left[j] = _collected(on_left[j], reward, first, votes)
        reward = np.float64((total - here) >> bits)
        on_right[j] = _collected(on_right[j], reward, first, votes)


@cuda.jit(device=True)
def _gain_of_many(here, there, on_left, on_right, earned, limits, votes):
    """Return the gain of a cut from the cells of weight of both sides; zero if it is forbidden."""
    bits, min_count, min_weight = limits
    mask = (np.int64(1) << bits) - 1
    if min(here & mask, there & mask) < min_count:
        return 0.0
    if min(np.float64(here >> bits), np.float64(there >> bits)) < min_weight:
        return 0.0
    gain = _earned_by_many(on_left, here, bits, votes)
    return gain + _earned_by_many(on_right, there, bits, votes) - earned


@cuda.jit(device=True)
def _write_left_of_many(cells, total, order, place, missing, bits, left, go_left):
    """Write the sums of the left side of a split, and where missing values go."""
    width = total.size
    for k in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        sum = (place // N_BINS) * cells[MISSING_BIN * width + k]
        for j in range(place % N_BINS + 1):
            sum += cells[order[j] * width + k]
        left[k] = sum
        if k == width - 1:
            mask = (np.int64(1) << bits) - 1
            goes = _missing_goes_left(place, missing, sum & mask, total[k] & mask)
            go_left[MISSING_BIN] = 1 if goes else 0


@cuda.jit(device=True)
def _scan_many(
    cells, order, weights, bins, start, total, on_left, on_right, earned, limits, votes,
    missing_left, best, places,
):  # fmt: skip
    """Raise the best gain of the cuts of a thread, and write its place; `weights` are running sums of the last channel."""
    tid, width = cuda.threadIdx.x, cells.size // N_BINS
    for j in range(tid, bins, cuda.blockDim.x):
        here = weights[j] + start
        gain = _gain_of_many(here, total - here, on_left[j], on_right[j], earned, limits, votes)
        if gain > best[tid] and cells[order[j] * width + width - 1] != 0:
            best[tid] = gain
            places[tid] = missing_left * N_BINS + j


@cuda.jit
def find_splits_of_many(
    hists, slots, sums, features, n_bins, categorical, classes, bits, criterion, min_count,
    min_weight, final, gains, splits, left, go_left,
):  # fmt: skip
    """Run :func:`find_splits_of_two` for more classes.

    A block takes the running sums of one channel at a time, and adds to what the two sides of every cut earn.
    """
    order = cuda.shared.array(N_BINS, np.int32)
    key = cuda.shared.array(N_BINS, np.float64)
    channel = cuda.shared.array(N_BINS, np.int64)
    on_left = cuda.shared.array(N_BINS, np.float64)
    on_right = cuda.shared.array(N_BINS, np.float64)
    ends = cuda.shared.array(MOST_THREADS, np.int64)
    best = cuda.shared.array(MOST_THREADS, np.float64)
    places = cuda.shared.array(MOST_THREADS, np.int32)
    count = cuda.shared.array(1, np.int32)
    node, at, tid, step = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    feature = features[min(node, features.shape[0] - 1), at]
    if feature < 0:
        _no_split(node, at, final, gains, splits)
        return
    width, votes, total = classes + 1, criterion == SIGN, sums[node]
    cells = hists[slots[node], feature * N_BINS * width : (feature + 1) * N_BINS * width]
    ordered, earned = categorical[feature] == 0, _earned_by_node(total, classes, bits, votes)
    if ordered:
        bins = _natural_order(order, n_bins[feature])
    else:
        bins = _order_of_many(
            cells, total, n_bins[feature], classes, bits, votes, ends, places, key, channel, order, count
        )  # fmt: skip
        if not votes:
            earned = earned + _price_of_order(total[classes], bins, bits)
    last = MISSING_BIN * width
    missing = cells[last + classes] & ((np.int64(1) << bits) - 1)
    limits = (bits, min_count, min_weight)
    best[tid] = 0.0
    places[tid] = 2 * N_BINS
    for missing_left in range(2 if missing > 0 else 1):
        for k in range(width):
            for j in range(tid, bins, step):
                channel[j] = cells[order[j] * width + k]
            _sums_before(channel, ends, bins)
            start = missing_left * cells[last + k]
            if k < classes:
                _collect_channel(
                    channel, bins, start, total[k], bits, k == 0, votes, on_left, on_right
                )
            else:
                _scan_many(
                    cells, order, channel, bins, start, total[k], on_left, on_right, earned, limits,
                    votes, missing_left, best, places,
                )  # fmt: skip
    _first_largest(best, places)
    if not final:
        if tid == 0:
            gains[node, at] = best[0]
        return
    _write_split(node, feature, ordered, places[0], best[0], order, gains, splits, go_left)
    _write_left_of_many(cells, total, order, places[0], missing, bits, left[node], go_left[node])


@cuda.jit
def choose_features(gains, features, chosen):
    """Write the feature of the largest gain of each node, the first of equals; -1 if no gain is positive. A block a node."""
    best = cuda.shared.array(MOST_THREADS, np.float64)
    places = cuda.shared.array(MOST_THREADS, np.int32)
    node, tid = cuda.blockIdx.x, cuda.threadIdx.x
    gain_here, place_here = 0.0, np.int32(gains.shape[1])
    for j in range(tid, gains.shape[1], cuda.blockDim.x):
        if gains[node, j] > gain_here:
            gain_here = gains[node, j]
            place_here = np.int32(j)
    best[tid] = gain_here
    places[tid] = place_here
    _first_largest(best, places)
    if tid == 0:
        found = best[0] > 0.0
        chosen[node, 0] = features[min(node, features.shape[0] - 1), places[0]] if found else -1


# ------------------------------------------------------------------------------------------ rows


@cuda.jit
def divide_rows(bins, order, listed, runs, nodes, features, go_left, counters):
    """Partition the rows of nodes into the other list: those that go left from the start, the others from the end.

    A block takes one run (list, first, last) of one node; a node's rows start and end where `counters` begins. The order of rows on a side
    depends on the order of the blocks, and no sum depends on it.
    """
    here = cuda.shared.array(2, np.int32)
    there = cuda.shared.array(2, np.int32)
    run, tid, step = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    side, start, stop, node = runs[run, 0], runs[run, 1], runs[run, 2], nodes[run]
    feature = features[node]
    for base in range(start, stop, step):
        if tid == 0:
            here[LEFT] = 0
            here[RIGHT] = 0
        cuda.syncthreads()
        at, row, way, place = base + tid, 0, LEFT, 0
        if at < stop:
            row = np.int64(order[side, at]) if listed else np.int64(at)
            way = LEFT if go_left[node, bins[row, feature]] != 0 else RIGHT
            place = cuda.atomic.add(here, way, 1)
        cuda.syncthreads()
        if tid == 0:
            there[LEFT] = cuda.atomic.add(counters, (node, LEFT), here[LEFT])
            there[RIGHT] = cuda.atomic.add(counters, (node, RIGHT), -here[RIGHT])
        cuda.syncthreads()
        if at < stop:
            if way == LEFT:
                order[1 - side, there[LEFT] + place] = row
            else:
                order[1 - side, there[RIGHT] - 1 - place] = row
        cuda.syncthreads()


@cuda.jit
def number_rows(bins, order, listed, runs, nodes, features, go_left, children, leaf_of):
    """Write the child of each row of some nodes that are split."""
    run = cuda.blockIdx.x
    side, start, stop, node = runs[run, 0], runs[run, 1], runs[run, 2], nodes[run]
    for at in range(start + cuda.threadIdx.x, stop, cuda.blockDim.x):
        row = np.int64(order[side, at]) if listed else np.int64(at)
        goes = go_left[node, bins[row, features[node]]] != 0
        leaf_of[row] = children[node] + (0 if goes else 1)


@cuda.jit
def write_leaves(order, runs, nodes, leaf_of):
    """Write the node of each row of some leaves."""
    run = cuda.blockIdx.x
    side, start, stop = runs[run, 0], runs[run, 1], runs[run, 2]
    for at in range(start + cuda.threadIdx.x, stop, cuda.blockDim.x):
        leaf_of[order[side, at]] = nodes[run]


@cuda.jit
def send_down(bins, feature, left, go_left, leaf_of):
    """Write the leaf of every row of a grown tree."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for row in range(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, bins.shape[0], step):
        node = 0
        while feature[node] >= 0:
            goes = go_left[node, bins[row, feature[node]]] != 0
            node = left[node] + (0 if goes else 1)
        leaf_of[row] = node
