"""Rows of several entries, one for each wrong class: passes over them, a row at a time.

An axis as short as that is what numpy reduces slowest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from maboost.mirror.kernels import value_at

__all__ = [
    "lowest_of_rows",
    "means_of_rows",
    "means_under",
    "rewards_of_rows",
    "tops_taken_out",
]


@njit(nogil=True, cache=True)
def means_of_rows(values, out):
    """The mean over the entries of each row."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        sum = 0.0
        for j in range(width):
            sum += values[i * width + j]
        out[i] = sum / width


@njit(nogil=True, cache=True)
def lowest_of_rows(values, out):
    """The lowest entry of each row."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        lowest = values[i * width]
        for j in range(1, width):
            lowest = min(lowest, values[i * width + j])
        out[i] = lowest


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def means_under(powers, more, values, out):
    """The sum of `values` over the entries of each row, by shares of `powers` of a total with `more` in it."""
    width = values.size // max(out.size, 1)
    for i in range(out.size):
        total, sum = more[i], 0.0
        for j in range(width):
            total += powers[i * width + j]
            sum += powers[i * width + j] * values[i * width + j]
        out[i] = sum / total


@njit(nogil=True, cache=True)
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
