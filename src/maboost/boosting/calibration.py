"""Probabilities from votes by one scale, so that they always agree with `predict`."""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit, softmax

from maboost.engine.multiclass import means_under, tops_taken_out
from maboost.mirror.measure import BaseMeasure

__all__ = [
    "POPULATION_SCALE",
    "UNSEEN_ERROR",
    "VALIDATION_SMOOTHING",
    "log_loss",
    "matched_to_shares",
    "probability_scale",
    "softmax_of",
    "training_smoothing",
]

Array = NDArray[np.float64]

POPULATION_SCALE = 2.0  # H estimates half the log odds if the weights are e^(-margin)
UNSEEN_ERROR = 0.02  # the expected error on new rows if nothing estimates it
VALIDATION_SMOOTHING = 0.005  # for validation rows, which may be few and all classified correctly
_MATCHES = 200  # iterations that match the means to the shares, at most
_FURTHER = 4.0  # the factor from one scale to the next while bracketing


def probability_scale(margins: Array, rows: BaseMeasure, smoothing: float = 0.0) -> float:
    r"""Return the a > 0 that minimises the log loss of the probabilities softmax(aH).

    Parameters
    ----------
    margins : array of shape (n_rows, n_classes - 1)
        :math:`H_y - H_l` for the wrong classes l.
    rows : BaseMeasure
        The measure of the rows.
    smoothing : float, default=0.0
        The share of every label that counts as another class. On training rows, where votes are more certain
        than on new rows, it is about the expected error.

    Returns
    -------
    float
        The minimiser of a convex loss; 1e3 if the loss decreases for ever (all rows are right, and no smoothing).

    >>> import numpy as np
    >>> margins, rows = np.array([[1.0], [1.0], [1.0], [-1.0]]), BaseMeasure(np.ones(4))
    >>> round(probability_scale(margins, rows), 6)  # log 3: odds of three to one
    1.098612
    >>> round(probability_scale(np.ones((4, 1)), rows, smoothing=0.25), 6)
    1.098612
    """
    size = rows.maximum(np.abs(margins).reshape(-1))
    if not size > 0.0:
        return POPULATION_SCALE
    pull = smoothing * margins.mean(axis=1)

    @cache
    def slope(a: float) -> float:
        return rows.integrals_of(lambda part: [pull[part] - _push(margins[part], a)], 1)[0]

    least, most = 1e-3 / size, 1e3  # the lower end is for a booster no better than chance
    low = high = min(
        max(POPULATION_SCALE, least), most
    )  # the usual scale, from which the bracket grows
    while slope(high) < 0.0:
        if high == most:
            return most
        low, high = high, min(_FURTHER * high, most)
    while low == high or slope(low) >= 0.0:
        if low == least:
            return least
        low, high = max(low / _FURTHER, least), low
    return float(scipy.optimize.brentq(slope, low, high, xtol=1e-12, rtol=1e-10))


def training_smoothing(margins: Array, rows: BaseMeasure, expected_error: float) -> float:
    r"""Return the smoothing at which the error of the training rows becomes the expected error on new rows.

    A smoothing d moves that share of every label evenly to the other K - 1 classes. It turns a training
    error t into :math:`t + d(1 - tK/(K-1))`, so that

    .. math:: d = \frac{e - t}{1 - tK/(K-1)}

    gives the expected error e; it is 0 if the training error is at least e.

    >>> import numpy as np
    >>> margins, rows = np.array([[1.0], [1.0], [1.0], [-1.0]]), BaseMeasure(np.ones(4))
    >>> round(training_smoothing(margins, rows, 0.3), 6)  # (0.3 - 0.25) / (1 - 0.5)
    0.1
    >>> training_smoothing(margins, rows, 0.2)
    0.0
    """
    classes = margins.shape[1] + 1
    wrong = rows.integral((margins.min(axis=1) <= 0.0).astype(np.float64))
    informative = 1.0 - wrong * classes / (classes - 1)
    return max(expected_error - wrong, 0.0) / informative if informative > 0.0 else 0.0


def softmax_of(votes: Array) -> Array:
    """Return probabilities of all classes from scaled votes, which are (n,) for two classes and (n, K) for more."""
    if votes.ndim == 1:
        return np.column_stack([expit(-votes), expit(votes)])
    found: Array = softmax(votes, axis=1)
    return found


def matched_to_shares(q: Array, labels: NDArray[np.intp], rows: BaseMeasure) -> Array:
    """Return probabilities times a factor per class, such that their means are the shares of the classes.

    The factors are intercepts of a logistic calibration. One scale for all votes does not fix the means, so without
    them the expected number of labels of a class differs from their number.

    Parameters
    ----------
    q : array of shape (n_rows, n_classes)
        Probabilities; every class has a row.
    labels : integer array of shape (n_rows,)
    rows : BaseMeasure
        The measure of the rows.

    >>> import numpy as np
    >>> q, labels = np.array([[0.8, 0.2], [0.6, 0.4]]), np.array([0, 1])
    >>> matched_to_shares(q, labels, BaseMeasure(np.ones(2))).mean(axis=0).round(6)
    array([0.5, 0.5])
    """
    classes = range(q.shape[1])
    share = np.array([rows.integral((labels == k).astype(np.float64)) for k in classes])
    for _ in range(_MATCHES):
        factor = share / np.array([rows.integral(np.ascontiguousarray(q[:, k])) for k in classes])
        q = q * factor
        q /= q.sum(axis=1, keepdims=True)
        if np.abs(factor - 1.0).max() < 1e-9:
            break
    return q


def _push(margins: Array, scale: float) -> Array:
    """Return each row's sum of margins, weighted by the probabilities of its wrong classes."""
    if margins.shape[1] == 1:  # avoids compiling a kernel
        two: Array = margins[:, 0] * expit(-scale * margins[:, 0])
        return two
    its = np.ascontiguousarray(margins).reshape(-1)
    powers, own, found = -scale * its, np.empty(len(margins)), np.empty(len(margins))
    tops_taken_out(powers, 0.0, own)
    means_under(np.exp(powers, out=powers), np.exp(-own), its, found)
    return found


def log_loss(margins: Array, rows: BaseMeasure, scale: float) -> float:
    """Return the mean of -log softmax(scale * H)_y."""
    x = np.concatenate([np.zeros((len(margins), 1)), -scale * margins], axis=1)
    return rows.integral(np.logaddexp.reduce(x, axis=1))
