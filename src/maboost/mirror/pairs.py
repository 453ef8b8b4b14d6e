"""Rows of several entries, one for each wrong class: passes over them, a row at a time.

An axis as short as that is what numpy reduces slowest.
"""

from __future__ import annotations

import numpy as np

from maboost.mirror.entries import entry_at, value_at
from maboost.runtime.exact_sum import split
from maboost.runtime.kernels import kernel

__all__ = [
    "add_answers",
    "caps_of_entries",
    "euclidean_moments_of_rows",
    "lowest_of_rows",
    "margins_of_votes",
    "means_of_rows",
    "means_under",
    "moments_of_rows",
    "rewards_of_rows",
    "spread_over_rows",
    "tops_taken_out",
]


@kernel
def means_of_rows(values, out):
    """The mean over the entries of each row."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        sum = 0.0
        for j in range(width):
            sum += values[i * width + j]
        out[i] = sum / width


@kernel
def lowest_of_rows(values, out):
    """The lowest entry of each row."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        lowest = values[i * width]
        for j in range(1, width):
            lowest = min(lowest, values[i * width + j])
        out[i] = lowest


@kernel
def add_answers(votes, answers, leaves, step):
    """In place: add to the votes of each row, one a class, those of its leaf times the step."""
    for i in range(votes.shape[0]):
        for k in range(votes.shape[1]):
            votes[i, k] += step * answers[leaves[i], k]


@kernel
def margins_of_votes(votes, labels, out):
    """For each row the vote of its own class less that of every other, in the order of the classes."""
    place = 0
    for i in range(votes.shape[0]):
        own = votes[i, labels[i]]
        for k in range(votes.shape[1]):
            if k != labels[i]:
                out[place] = own - votes[i, k]
                place += 1


@kernel
def tops_taken_out(values, floor, tops):
    """In place: subtract from each row its largest entry, or `floor` where that is larger."""
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
    """The sum of `values` over the entries of each row, by shares of `powers` of a total with `more` in it."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        total, sum = more[i], 0.0
        for j in range(width):
            total += powers[i * width + j]
            sum += powers[i * width + j] * values[i * width + j]
        out[i] = sum / total


@kernel
def spread_over_rows(theta, tops, shifts, factors, powers, dual):
    """In place: `powers` of each row times its factor; `dual` is theta without its top, shifted."""
    width = theta.size // max(tops.size, 1)
    for i in range(tops.size):
        for j in range(i * width, (i + 1) * width):
            dual[j] = (theta[j] - tops[i]) + shifts[i]
            powers[j] *= factors[i]


@kernel
def moments_of_rows(width, density, values, codes, factors, base, caps, bound, scale):
    """Sums over rows after a step along a direction that multiplies the density of each entry by its factor.

    With t the mean of a row's entries, m and q the means of d and d^2 under them, and u = min(cap, t): of u
    and u * m folded; coarse ones of u and u * m over rows below their cap, and of u * q, less u * m^2 at a
    cap, where only the shares inside a row still move; and how many t lie beyond `bound`.
    """
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(density.size // width):
        t, m, q = 0.0, 0.0, 0.0
        for j in range(i * width, (i + 1) * width):
            d, x = entry_at(values, codes, j), density[j] * entry_at(factors, codes, j)
            t += x
            m += x * d
            q += x * d * d
        whole = t if t > 0.0 else 1.0  # (its reciprocal may be infinite)
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
    return m_high, m_low, l_high, l_low, h0, h1, h2, beyond


@kernel
def _level(values, top, total):
    """The shift, counted from the largest value, above which a row's values add up to `total`.

    From below: as long as values at it or under it were counted in, the next shift is higher.
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
def caps_of_entries(theta, caps, out):
    """The densities of each row's entries where their mean is the cap: what is above one shift of theta.

    As long as a row is below its cap, none of its entries is above these.
    """
    rows = theta.reshape(out.shape)
    for i in range(out.shape[0]):
        cap = value_at(caps, i)
        if not np.isfinite(cap):
            out[i] = cap
            continue
        top = rows[i].max()
        level = _level(rows[i], top, cap * out.shape[1])
        for j in range(out.shape[1]):
            out[i, j] = max((rows[i, j] - top) - level, 0.0)


@kernel
def euclidean_moments_of_rows(width, theta, values, codes, step, shift, base, caps, bound, scale):
    """The sums of :func:`moments_of_rows` for rows of x = theta + step * d - shift and densities max(x, 0).

    Those of a row whose mean is above its cap are max(x - s, 0) with the s that makes it the cap. The coarse
    sums are of 1, d and d^2 over entries that are free and positive; in a row at its cap only what d differs
    from its mean over those still moves them.
    """
    m_high, m_low, l_high, l_low, h0, h1, h2, beyond = 0, 0, 0, 0, 0, 0, 0, 0
    x = np.empty(width)
    for i in range(theta.size // width):
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
    return m_high, m_low, l_high, l_low, h0, h1, h2, beyond


@kernel
def rewards_of_rows(values, weights, rows, labels, out):
    """By class, for each of `rows`: minus its entry times its weight, and their sum for its own class."""
    width = out.shape[1] - 1
    for k in range(rows.size):
        i = rows[k]
        own, weight, sum = np.int64(labels[i]), value_at(weights, i), 0.0
        for j in range(width):
            term = values[i * width + j] * weight
            out[k, j + (j >= own)] = -term
            sum += term
        out[k, own] = sum
