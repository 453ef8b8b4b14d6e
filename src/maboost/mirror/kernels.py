"""Passes of the two fast projections: small pure functions on parts of flat arrays.

Both problems are piecewise linear in one unknown, so once it is known which entries lie at zero, at
their cap or between, the root is a quotient of sums. A `*_classify` pass adds up the entries whose
place is the same over a whole bracket of the unknown and marks the few others; a pass over those alone
completes the sums anywhere inside the bracket. All sums are pairs of
integers (see :func:`maboost.runtime.exact_sum.split`), hence the same for any order and sharding. The loops that
run over every row have no branches, so that they vectorise.
"""

from __future__ import annotations

import numpy as np

from maboost.mirror.entries import value_at, value_part
from maboost.runtime.exact_sum import BIAS, split, split_biased, split_wide
from maboost.runtime.instructions import eight_bytes
from maboost.runtime.kernels import kernel

STRIP = 4096  # entries whose marks stay in the first cache


@kernel
def weighted_mass(values, base, scale):
    """The sum of base * values, folded."""
    high_sum, low_sum = 0, 0
    for i in range(values.size):
        high, low = split(value_at(base, i) * values[i], scale[0], 1.0, scale[1])
        high_sum += high
        low_sum += low
    return high_sum, low_sum


@kernel
def count_positive(values):
    """How many values are positive."""
    count = 0
    for i in range(values.size):
        count += values[i] > 0.0
    return count


@kernel
def list_positive(values, start, count):
    """`start` plus the place of each of the `count` positive values.

    Nothing branches on one: write always, advance where positive.
    """
    places, n = np.empty(count + 1, dtype=np.intp), 0
    for i in range(values.size):
        places[n] = start + i
        n += values[i] > 0.0
    return places[:count]


@kernel
def append_marked(marks, start, rows, n):
    """Write `start` plus the place of every mark to rows[n:]; returns the new n.

    Marks are looked at eight at a time, since nearly all are zero, and nothing branches on one: write
    always, advance where marked (so `rows` needs room for one word more).
    """
    words = marks.size // 8
    some, count = np.empty(words + 1, dtype=np.int32), 0
    for word in range(words):
        some[count] = word
        count += eight_bytes(marks, 8 * word) != 0
    for j in range(count):
        for i in range(8 * some[j], 8 * some[j] + 8):
            rows[n] = start + i
            n += marks[i]
    return n


@kernel
def entries_at(rows, values, base, caps):
    """These entries' values, bases and caps, as the rows of a small array."""
    found = np.empty((3, rows.size))
    for j in range(rows.size):
        i = rows[j]
        found[0, j] = values[i]
        found[1, j] = value_at(base, i)
        found[2, j] = value_at(caps, i)
    return found


# --------------------------------------------------------------------------------------------------
# entropy: an entry is capped where p >= cap / s


@kernel
def _entropy_decided(p, base, caps, s_low, s_high, scale, marks, sums):
    """Add folded sums over the entries that the bracket decides; the others are marked."""
    per_high, per_low = 1.0 / s_high, 1.0 / s_low  # what is the same for all rows if the cap is
    free_count, free_high, free_low, both_high, both_low = 0, 0, 0, 0, 0
    for i in range(p.size):
        cap = value_at(caps, i)
        free = p[i] < cap * per_high
        capped = p[i] >= cap * per_low
        mass = value_at(base, i) * (p[i] if free else (cap if capped else 0.0))
        high, low = split_biased(mass, scale[0], 1.0, scale[1])
        both_high += high
        both_low += low
        free_count += 1 if free else 0
        free_high += high if free else 0
        free_low += low if free else 0
        marks[i] = (not free) & (not capped)
    other_bias = (p.size - free_count) * BIAS
    sums[0] += free_high - free_count * BIAS
    sums[1] += free_low - free_count * BIAS
    sums[2] += both_high - free_high - other_bias
    sums[3] += both_low - free_low - other_bias


@kernel
def entropy_classify(p, base, caps, s_low, s_high, scale):
    """Folded sums of base*p over entries free up to s_high, of base*cap over those capped from s_low;
    and the entries that the bracket leaves open.
    """
    sums = np.zeros(4, dtype=np.int64)
    rows, n = np.empty(p.size + 8, dtype=np.int32), np.int64(0)  # not a literal: compiled once
    marks = np.zeros(STRIP, dtype=np.uint8)
    for start in range(0, p.size, STRIP):
        stop = min(start + STRIP, p.size)
        for i in range(stop - start, STRIP):
            marks[i] = 0
        part = value_part(caps, start, stop)
        _entropy_decided(
            p[start:stop], value_part(base, start, stop), part, s_low, s_high, scale, marks, sums
        )
        n = append_marked(marks, start, rows, n)
    return sums, entries_at(rows[:n], p, base, caps)


@kernel
def entropy_at(undecided, decided, s, scale):
    """The same sums anywhere in a bracket: the decided ones, and those of entries it leaves open."""
    sums, marks = decided.copy(), np.empty(undecided.shape[1], dtype=np.uint8)
    _entropy_decided(undecided[0], undecided[1], undecided[2], s, s, scale, marks, sums)
    return sums


@kernel
def entropy_masses(sums, scale):
    """The free and the capped mass that such sums stand for, to a unit in their last place."""
    factor, last = scale
    return (sums[0] + sums[1] / last) / factor, (sums[2] + sums[3] / last) / factor


@kernel
def entropy_newton(undecided, decided, s, high, scale):
    """Newton's method from s, which is below the root, up to `high`: where it ends, and the masses."""
    while True:
        free, capped = entropy_masses(entropy_at(undecided, decided, s, scale), scale)
        if free <= 0.0 or capped >= 1.0:
            break
        new = (1.0 - capped) / free
        if not s < new <= high:
            break
        s = new
    return s, free, capped


@kernel
def _sampled(values, base, caps, most):
    """Up to `most` entries, one in 32: runs of eight that lie side by side, since memory comes so."""
    runs = min(max(values.size // 256, 64), most // 8)
    few = values.size < 8 * runs
    count, step = values.size if few else 8 * runs, 8 if few else values.size // runs
    found = np.empty((3, count))
    for j in range(count):
        i = step * (j // 8) + j % 8
        found[0, j], found[1, j], found[2, j] = values[i], value_at(base, i), value_at(caps, i)
    return found


@kernel(fastmath={"reassoc"})
def entropy_guess(values, weights, limits, most):
    """A rough s from a sample of the entries, each standing for many; and how many it has.

    Nothing but speed depends on it, so its sums may be of floats in any order.
    """
    found = _sampled(values, weights, limits, most)
    p, base, caps = found[0], found[1], found[2]
    total = base.sum()
    s = 1.0
    for _ in range(50):
        free, capped = 0.0, 0.0
        for i in range(p.size):
            below = s * p[i] < caps[i]
            mass = value_at(base, i) * (p[i] if below else caps[i])
            free += mass if below else 0.0
            capped += 0.0 if below else mass
        if free <= 0.0 or capped >= total:
            break
        new = (total - capped) / free
        if abs(new - s) <= 1e-3 * s:  # a sample knows no better
            break
        s = new
    return s, p.size


@kernel
def cap_density(p, caps, s):
    """In place: p becomes min(cap, s * p)."""
    for i in range(p.size):
        value, cap = s * p[i], value_at(caps, i)
        p[i] = value if value < cap else cap


@kernel
def shifted(theta, center, tau, tops, out):
    """Out = (theta - center) - tau, or its top where that is less."""
    for i in range(theta.size):
        out[i] = min((theta[i] - center) - tau, value_at(tops, i))


# --------------------------------------------------------------------------------------------------
# euclidean: clip(x - tau, 0, cap), x = theta - center


@kernel
def euclidean_decided(theta, base, caps, center, low, high, moment, mass):
    """Folded sums over entries between 0 and cap for all tau in [low, high] (of base*x and of base)
    and over entries at their cap for all of them (of base*cap).
    """
    x_high, x_low, m_high, m_low, c_high, c_low = 0, 0, 0, 0, 0, 0
    for i in range(theta.size):
        x = theta[i] - center
        y = x - value_at(caps, i)
        between = (x >= high) & (y <= low)
        full = y >= high  # (or between, where the bracket is a point)
        h, rest = split(value_at(base, i) * x if between else 0.0, moment[0], moment[1], moment[2])
        x_high += h
        x_low += rest
        h, rest = split(
            value_at(base, i) * (1.0 if between else (value_at(caps, i) if full else 0.0)),
            mass[0], mass[1], mass[2],
        )  # fmt: skip
        m_high += h if between else 0
        m_low += rest if between else 0
        c_high += 0 if between else h
        c_low += 0 if between else rest
    return x_high, x_low, m_high, m_low, c_high, c_low


@kernel
def euclidean_classify(theta, base, caps, center, low, high, moment, mass):
    """The sums of :func:`euclidean_decided`, and the entries that the bracket leaves open."""
    sums = np.zeros(6, dtype=np.int64)
    rows, n = np.empty(theta.size + 8, dtype=np.int32), np.int64(0)
    marks = np.zeros(STRIP, dtype=np.uint8)
    for start in range(0, theta.size, STRIP):
        stop = min(start + STRIP, theta.size)
        for i in range(stop - start, STRIP):
            marks[i] = 0
        some, limits = theta[start:stop], value_part(caps, start, stop)
        for i in range(some.size):
            x = some[i] - center
            nearest = x - value_at(limits, i) if x >= high else x
            marks[i] = (nearest > low) & (nearest < high)
        their = value_part(base, start, stop)
        sums += np.array(euclidean_decided(some, their, limits, center, low, high, moment, mass))
        n = append_marked(marks, start, rows, n)
    return sums, entries_at(rows[:n], theta, base, caps)


@kernel
def euclidean_guess(x, base, caps):
    """A rough tau from a sample of the rows: safeguarded Newton."""
    total = base.sum()
    high = x.max()
    low = x.min() - 1.0
    tau = low
    for _ in range(60):
        mass, slope = 0.0, 0.0
        for i in range(x.size):
            u = x[i] - tau
            if u >= value_at(caps, i):
                mass += value_at(base, i) * value_at(caps, i)
            elif u > 0.0:
                mass += value_at(base, i) * u
                slope += value_at(base, i)
        if mass >= total:
            low = tau
        else:
            high = tau
        new = tau + (mass - total) / slope if slope > 0.0 else low
        if not (low < new < high):
            new = 0.5 * (low + high)
        if abs(new - tau) <= 1e-9 * (1.0 + abs(tau)):
            break
        tau = new
    return tau


@kernel
def clip_density(theta, caps, center, tau, out):
    """Out = clip(theta - center - tau, 0, cap)."""
    for i in range(theta.size):
        out[i] = min(max((theta[i] - center) - tau, 0.0), value_at(caps, i))


# --------------------------------------------------------------------------------------------------
# what a step reached


@kernel
def potential(entropy, at, dual, density, log_caps, base, scale, low):
    """The integers of :func:`maboost.runtime.exact_sum.fold_wide` for the sum of base * (at * u - phi(u)).

    phi(u) = u log u - u + 1 with log u = min(dual, log cap), so that no logarithm is taken, or u^2 / 2.
    """
    a, b, c, unfit = 0, 0, 0, 0
    for i in range(density.size):
        u = density[i]
        cost = u * min(dual[i], value_at(log_caps, i)) - u + 1.0 if entropy else 0.5 * u * u
        high, middle, last, bad = split_wide(value_at(base, i) * (at[i] * u - cost), scale, low)
        a += high
        b += middle
        c += last
        unfit += bad
    bias = density.size * BIAS
    return a - bias, b - bias, c - bias, unfit
