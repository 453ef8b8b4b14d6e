"""Passes over rows of several entries, one entry for each wrong class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.entries import entry_at, value_at
from maboost.runtime.exact_sum import split
from maboost.runtime.exponential import exponentials_into
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots

__all__ = [
    "add_votes",
    "caps_of_entries",
    "entropy_moments_of_rows",
    "euclidean_moments_of_rows",
    "margins_of_votes",
    "means_under",
    "powers_of_rows",
    "rewards_of_rows",
    "spread_over_rows",
    "tops_taken_out",
]

Array = NDArray[np.float64]

_LEAST = 1 << 10  # rows of a chunk


@kernel
def _row_margins(votes, labels, i, out):
    """Write the vote of a row's own class less that of every other class, in the order of the classes."""
    own, place = votes[i, labels[i]], i * (votes.shape[1] - 1)
    for k in range(votes.shape[1]):
        if k != labels[i]:
            out[place] = own - votes[i, k]
            place += 1


@kernel
def _margins(votes, labels, out, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, votes.shape[0])):
        _row_margins(votes, labels, i, out)


@kernel
def margins_of_votes(team, votes, labels, out):
    """Write the margins of all pairs (row, wrong class) from votes of shape (n, K)."""
    chunks, size = chunks_of(team, votes.shape[0], _LEAST)
    parallel_for(team, chunks, _margins, (votes, labels, out, size))


@kernel
def _add(votes, answers, leaves, step, labels, margins, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, votes.shape[0])):
        for k in range(votes.shape[1]):
            votes[i, k] += step * answers[i if leaves is None else leaves[i], k]
        _row_margins(votes, labels, i, margins)


@kernel
def add_votes(team, votes, answers, leaves, step, labels, margins):
    """Add step times a hypothesis to the votes of each row, one a class, and write the margins.

    The hypothesis answers ``answers[leaves]``, or `answers` where `leaves` is None.
    """
    chunks, size = chunks_of(team, votes.shape[0], _LEAST)
    parallel_for(team, chunks, _add, (votes, answers, leaves, step, labels, margins, size))


@kernel
def tops_taken_out(values, floor, tops):
    """Subtract from each row the larger of its largest entry and `floor`, in place."""
    width = values.size // max(tops.size, 1)
    for i in range(tops.size):
        top = floor
        for j in range(width):
            top = max(top, values[i * width + j])
        for j in range(width):
            values[i * width + j] -= top
        tops[i] = top


@kernel
def means_under(powers, more, values, out):
    """Write for each row the mean of `values` weighted by `powers`, in a total that includes `more`."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        total, sum = more[i], 0.0
        for j in range(width):
            total += powers[i * width + j]
            sum += powers[i * width + j] * values[i * width + j]
        out[i] = sum / total


@kernel
def _powers(theta, out, tops, means, size, chunk, slot):
    width, a, b = theta.size // max(tops.size, 1), chunk * size, min((chunk + 1) * size, tops.size)
    some = out[a * width : b * width]
    for i in range(some.size):
        some[i] = theta[a * width + i]
    tops_taken_out(some, -np.inf, tops[a:b])
    exponentials_into(some, some)
    for i in range(a, b):
        sum = 0.0
        for j in range(width):
            sum += out[i * width + j]
        means[i] = sum / width


@kernel
def powers_of_rows(team, theta, out, tops, means):
    """Write e^(theta - top) with the largest entry (top) of each row, and the mean of these over each row."""
    chunks, size = chunks_of(team, tops.size, _LEAST)
    parallel_for(team, chunks, _powers, (theta, out, tops, means, size))


@kernel
def _spread(theta, tops, shifts, factors, powers, dual, size, chunk, slot):
    width = theta.size // max(tops.size, 1)
    for i in range(chunk * size, min((chunk + 1) * size, tops.size)):
        for j in range(i * width, (i + 1) * width):
            dual[j] = (theta[j] - tops[i]) + shifts[i]
            powers[j] *= factors[i]


@kernel
def spread_over_rows(team, theta, tops, shifts, factors, powers, dual):
    """Multiply the `powers` of each row by its factor, in place; write theta less its top, shifted, to `dual`."""
    chunks, size = chunks_of(team, tops.size, _LEAST)
    parallel_for(team, chunks, _spread, (theta, tops, shifts, factors, powers, dual, size))


@kernel
def _entropy_moments(
    width, density, values, codes, factors, base, caps, bound, scale, size, sums, chunk, slot
):
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(chunk * size, min((chunk + 1) * size, density.size // width)):
        t, m, q = 0.0, 0.0, 0.0
        for j in range(i * width, (i + 1) * width):
            d, x = entry_at(values, codes, j), density[j] * entry_at(factors, codes, j)
            t += x
            m += x * d
            q += x * d * d
        whole = t if t > 0.0 else 1.0  # the reciprocal of t may be infinite
        t, m, q = t / width, m / whole, q / whole
        cap = min(value_at(caps, i), bound)
        free = t < cap
        beyond += (not free) & (cap == bound)
        w = value_at(base, i) * (t if free else cap)
        high, low = split(w, scale[0], scale[1], scale[2])
        m_high += high
        m_low += low
        h0 += high if free else 0
        high, low = split(w * m, scale[0], scale[1], scale[2])
        l_high += high
        l_low += low
        h1 += high if free else 0
        high, low = split(w * (q if free else q - m * m), scale[0], scale[1], scale[2])
        h2 += high
    mine = sums[slot]
    mine[0] += m_high
    mine[1] += m_low
    mine[2] += l_high
    mine[3] += l_low
    mine[4] += h0
    mine[5] += h1
    mine[6] += h2
    mine[7] += beyond


@kernel
def entropy_moments_of_rows(team, width, density, *rest):
    """Return sums over rows after a step that multiplies the density of each entry by its factor.

    With t the mean of a row's entries, m and q the means of d and d^2 under them, and u = min(cap, t), the sums are:
    u and u * m in two parts; coarse ones of u and u * m over rows below their cap, and of u * q, less u * m^2
    at a cap, where only the shares inside a row still change; and the number of t beyond `bound`.
    The arguments are (values, codes, factors, base, caps, bound, scale).
    """
    chunks, size = chunks_of(team, density.size // width, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _entropy_moments, (width, density, *rest, size, sums))
    return folded_slots(sums)


@kernel
def _level(values, top, total):
    """Return the shift, relative to the largest value, above which a row's values add up to `total`.

    The shift rises from below: it rises as long as it counts values that lie at or below it.
    """
    level, counted = -total, 0
    while True:
        sum, above = 0.0, 0
        for j in range(values.size):
            if values[j] - top > level:
                sum += values[j] - top
                above += 1
        if above == counted:
            return level
        level, counted = (sum - total) / above, above


@kernel
def _entry_caps(theta, caps, out, size, chunk, slot):
    rows = theta.reshape(out.shape)
    for i in range(chunk * size, min((chunk + 1) * size, out.shape[0])):
        cap = value_at(caps, i)
        if not np.isfinite(cap):
            out[i] = cap
            continue
        top = rows[i].max()
        level = _level(rows[i], top, cap * out.shape[1])
        for j in range(out.shape[1]):
            out[i, j] = max((rows[i, j] - top) - level, 0.0)


@kernel
def caps_of_entries(team, theta, caps, out):
    """Write the densities of each row's entries at which their mean is the cap: all above one shift of theta.

    While a row is below its cap, none of its entries exceeds these.
    """
    chunks, size = chunks_of(team, out.shape[0], _LEAST)
    parallel_for(team, chunks, _entry_caps, (theta, caps, out, size))


@kernel
def _euclidean_moments(
    width, theta, values, codes, step, shift, base, caps, bound, scale, size, sums, chunk, slot
):
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    x = np.empty(width)
    for i in range(chunk * size, min((chunk + 1) * size, theta.size // width)):
        total = 0.0
        for j in range(width):
            x[j] = theta[i * width + j] + step * entry_at(values, codes, i * width + j) - shift
            total += max(x[j], 0.0)
        cap, less = min(value_at(caps, i), bound), 0.0
        free = total < cap * width
        if not free:
            beyond += cap == bound
            top = x.max()
            less = top + _level(x, top, cap * width)
        u, loss, count, sum, square = 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(width):
            d = entry_at(values, codes, i * width + j)
            if x[j] > less:
                u += x[j] - less
                loss += (x[j] - less) * d
                count += 1.0
                sum += d
                square += d * d
        if not free:
            square -= sum * sum / count
        weight = value_at(base, i) / width
        high, low = split(weight * u, scale[0], scale[1], scale[2])
        m_high += high
        m_low += low
        high, low = split(weight * loss, scale[0], scale[1], scale[2])
        l_high += high
        l_low += low
        if free:
            high, low = split(weight * count, scale[0], scale[1], scale[2])
            h0 += high
            high, low = split(weight * sum, scale[0], scale[1], scale[2])
            h1 += high
        high, low = split(weight * square, scale[0], scale[1], scale[2])
        h2 += high
    mine = sums[slot]
    mine[0] += m_high
    mine[1] += m_low
    mine[2] += l_high
    mine[3] += l_low
    mine[4] += h0
    mine[5] += h1
    mine[6] += h2
    mine[7] += beyond


@kernel
def euclidean_moments_of_rows(team, width, theta, *rest):
    """Return the sums of :func:`entropy_moments_of_rows` for x = theta + step * d - shift and densities max(x, 0).

    A row whose mean is above its cap has the densities max(x - s, 0) with the s that makes the mean the cap. The
    coarse sums are those of 1, d and d^2 over free positive entries. In a row at its cap only the difference of d from
    its mean over those entries matters. The arguments are (values, codes, step, shift, base, caps,
    bound, scale).
    """
    chunks, size = chunks_of(team, theta.size // width, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    parallel_for(team, chunks, _euclidean_moments, (width, theta, *rest, size, sums))
    return folded_slots(sums)


@kernel
def _rewards(values, weights, rows, labels, out, size, chunk, slot):
    width = out.shape[1] - 1
    for k in range(chunk * size, min((chunk + 1) * size, out.shape[0])):
        i = k if rows is None else rows[k]
        own, weight, sum = np.int64(labels[i]), value_at(weights, i), 0.0
        for j in range(width):
            term = values[i * width + j] * weight
            out[k, j + (j >= own)] = -term
            sum += term
        out[k, own] = sum


@kernel
def rewards_of_rows(team, values, weights, rows, labels, out):
    """Write rewards by class for each of `rows` (None: all rows).

    The reward of a wrong class is minus its entry times its weight, that of the row's own class the sum of these.
    """
    chunks, size = chunks_of(team, out.shape[0], _LEAST)
    parallel_for(team, chunks, _rewards, (values, weights, rows, labels, out, size))
