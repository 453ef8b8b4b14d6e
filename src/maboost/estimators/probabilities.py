"""From votes to probabilities: one scale, so that probabilities always agree with `predict`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, softmax

__all__ = ["POPULATION_SCALE", "log_loss", "probability_scale"]

Array = NDArray[np.float64]

POPULATION_SCALE = 2.0  # H estimates half the log odds where the weights are e^(-margin)


def probability_scale(margins: Array, base: Array, most: float = math.inf) -> float:
    r"""The a > 0 that minimises the log loss of the probabilities softmax(aH), at most `most`.

    Parameters
    ----------
    margins : array of shape (n_rows, n_classes - 1)
        :math:`H_y - H_l` for the wrong classes l.
    base : array of shape (n_rows,)
        The rows' weights.

    Returns
    -------
    float
        The loss is convex in a; where it falls for ever (all rows are right) `most`, or 1e3.

    >>> import numpy as np
    >>> probability_scale(np.array([[1.0], [1.0], [1.0], [-1.0]]), np.ones(4))  # log 3: odds of 3 to 1
    1.0986...
    """
    top = min(most, 1e3)
    size = float(np.max(np.abs(margins), initial=0.0))
    if not size > 0.0:
        return min(POPULATION_SCALE, top)

    def slope(a: float) -> float:
        if margins.shape[1] == 1:
            pull = -margins[:, 0] * expit(-a * margins[:, 0])
        else:
            x = np.concatenate([np.zeros((len(margins), 1)), -a * margins], axis=1)
            pull = -np.sum(margins * softmax(x, axis=1)[:, 1:], axis=1)
        return float(np.average(pull, weights=base))

    least = 1e-3 / size  # a booster no better than chance: nearly even probabilities
    if slope(least) >= 0.0:
        return least
    if slope(top) <= 0.0:
        return top
    return float(brentq(slope, least, top, xtol=1e-12, rtol=1e-10))


def log_loss(margins: Array, base: Array, scale: float) -> float:
    """The mean of -log softmax(scale * H)_y."""
    x = np.concatenate([np.zeros((len(margins), 1)), -scale * margins], axis=1)
    return float(np.average(logsumexp(x, axis=1), weights=base))
