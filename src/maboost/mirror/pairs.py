"""Rows of several entries, one for each wrong class: passes over them, a row at a time.

An axis as short as that is what numpy reduces slowest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from maboost.mirror.kernels import value_at

__all__ = ["lowest_of_rows", "means_of_rows", "rewards_of_rows"]


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
