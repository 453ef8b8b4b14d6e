r"""A convex quadratic problem over non-negative numbers, with or without a given sum.

.. math:: \min_{x \ge 0}\; g^\top(x - x_0) + \tfrac12 (x - x_0)^\top H (x - x_0)
          \qquad (\text{and } \textstyle\sum_i x_i = \sum_i x_{0,i})

with the start :math:`x_0 \ge 0` and the gradient g there.

The method is the active-set method of Lawson and Hanson: solve for the positive variables, stop at the first that
would become negative and fix it at zero, release the variable at zero whose derivative is most negative. All loops
run in a fixed order, so the result has the same bits on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import parallel_for
from maboost.runtime.threads import Threads

__all__ = ["minimum_over_cone", "weighted_gram"]

Array = NDArray[np.float64]

_BLOCK = 8  # rows of a Gram matrix that one chunk computes


@kernel
def _gram_of_block(left, right, out, chunk, slot):
    first, last = chunk * _BLOCK, min((chunk + 1) * _BLOCK, out.shape[0])
    entries, whole = left.shape[0], left.shape[0] // 4 * 4
    for e in range(0, whole, 4):
        r0, r1, r2, r3 = right[e], right[e + 1], right[e + 2], right[e + 3]
        for s in range(first, last):
            a, b, c, d = left[e, s], left[e + 1, s], left[e + 2, s], left[e + 3, s]
            row = out[s, : s + 1]
            for t in range(row.size):
                row[t] += (a * r0[t] + b * r1[t]) + (c * r2[t] + d * r3[t])
    for e in range(whole, entries):
        for s in range(first, last):
            a, row = left[e, s], out[s, : s + 1]
            for t in range(row.size):
                row[t] += a * right[e, t]
    for s in range(first, last):
        for t in range(s):
            out[t, s] = out[s, t]


@kernel
def _gram(team, left, right, out):
    parallel_for(team, -(-out.shape[0] // _BLOCK), _gram_of_block, (left, right, out))


def weighted_gram(columns: Array, weights: Array, threads: Threads) -> Array:
    r"""Return :math:`\sum_e h_e v_e v_e^\top` for the rows :math:`v_e` of an array and their weights.

    >>> weighted_gram(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, 3.0]), Threads())
    array([[1., 2.],
           [2., 7.]])
    """
    out = np.zeros((columns.shape[1], columns.shape[1]))
    threads.run(_gram, np.ascontiguousarray(weights[:, None] * columns), columns, out)
    return out


@kernel
def _factor(matrix):
    """Replace a matrix by its Cholesky factor; a pivot lost to rounding becomes very large."""
    size = matrix.shape[0]
    column = np.empty(size)
    top = 0.0
    for i in range(size):
        top = max(top, matrix[i, i])
    least = 1e-14 * top + 1e-300
    for k in range(size):
        pivot = matrix[k, k]
        pivot = np.sqrt(pivot) if pivot > least else 1e150
        matrix[k, k] = pivot
        for i in range(k + 1, size):
            matrix[i, k] /= pivot
            column[i] = matrix[i, k]
        for i in range(k + 1, size):
            factor, row = column[i], matrix[i]
            for j in range(k + 1, i + 1):
                row[j] -= factor * column[j]


@kernel
def _solve(factor, right):
    """Solve with a Cholesky factor, in place."""
    size = right.size
    for i in range(size):
        value = right[i]
        for j in range(i):
            value -= factor[i, j] * right[j]
        right[i] = value / factor[i, i]
    for i in range(size - 1, -1, -1):
        value = right[i] / factor[i, i]
        right[i] = value
        for j in range(i):
            right[j] -= factor[i, j] * value


@kernel
def _slopes(hessian, gradient, change):
    """Return the gradient after a change of the variables."""
    slope = gradient.copy()
    for j in np.flatnonzero(change):
        value, row = change[j], hessian[j]
        for i in range(slope.size):
            slope[i] += value * row[i]
    return slope


@kernel
def _newton_step(hessian, slope, inside, fixed_sum):
    """Return the step to the minimum over the free variables."""
    some, step = np.empty((inside.size, inside.size)), np.empty(inside.size)
    for i in range(inside.size):
        step[i] = -slope[inside[i]]
        for j in range(i + 1):
            some[i, j] = hessian[inside[i], inside[j]]
    _factor(some)
    if fixed_sum:  # first subtract the component that changes the sum
        step -= step.mean()
    _solve(some, step)
    if fixed_sum:
        ones = np.ones(inside.size)
        _solve(some, ones)
        step -= ones * (step.sum() / ones.sum())
    return step


@kernel
def _descend(hessian, gradient, start, fixed_sum, x, positive):
    """Move to the minimum over the positive variables, fixing at zero each that becomes zero; return the gradient."""
    total, slope = start.sum(), _slopes(hessian, gradient, x - start)
    last = 0
    while last >= 0:
        inside = np.flatnonzero(positive)
        if inside.size == 0:
            break
        step = _newton_step(hessian, slope, inside, fixed_sum)
        share, last = 1.0, -1
        for i in range(inside.size):
            now = x[inside[i]]
            if now + step[i] <= 0.0:
                ratio = now / -step[i] if step[i] < 0.0 else 0.0
                if ratio < share or last < 0:
                    share, last = ratio, i
        for i in range(inside.size):
            x[inside[i]] = max(x[inside[i]] + share * step[i], 0.0)
        if last >= 0:
            x[inside[last]] = 0.0
            for i in range(inside.size):
                positive[inside[i]] = x[inside[i]] > 0.0
        if fixed_sum:
            x *= total / x.sum()
        slope = _slopes(hessian, gradient, x - start)
    return slope


@kernel
def _steepest(slope, positive, fixed_sum, least):
    """Return the variable at zero whose release gains most; -1 if none gains."""
    level = 0.0
    if fixed_sum:
        inside = np.flatnonzero(positive)
        for i in range(inside.size):
            level += slope[inside[i]] / inside.size
    best, chosen = -least, -1
    for i in range(slope.size):
        if not positive[i] and slope[i] - level < best:
            best, chosen = slope[i] - level, i
    return chosen


@kernel
def _minimum(hessian, gradient, start, fixed_sum, tries):
    x, positive = start.copy(), start > 0.0
    least = 1e-12 * (np.abs(gradient).max() + 1e-300)
    for _ in range(tries):
        slope = _descend(hessian, gradient, start, fixed_sum, x, positive)
        chosen = _steepest(slope, positive, fixed_sum, least)
        if chosen < 0:
            break
        positive[chosen] = True
    return x


def minimum_over_cone(
    hessian: Array, gradient: Array, start: Array, fixed_sum: bool = False
) -> Array:
    """Return the minimum over non-negative numbers; with `fixed_sum`, over those with the sum of the start.

    `hessian` must be positive definite. After many changes of the active set the last point is returned,
    which is no worse than the start.

    >>> minimum_over_cone(np.eye(2), np.array([-1.0, 2.0]), np.zeros(2))
    array([1., 0.])
    >>> minimum_over_cone(np.eye(2), np.array([0.0, -0.5]), np.array([1.0, 0.0]), fixed_sum=True)
    array([0.75, 0.25])
    """
    found: Array = _minimum(hessian, gradient, start, fixed_sum, 3 * gradient.size + 10)
    return found
