"""From votes to probabilities: one scale, so that probabilities always agree with `predict`."""

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

POPULATION_SCALE = 2.0  # H estimates half the log odds where the weights are e^(-margin)
UNSEEN_ERROR = 0.02  # the error to expect on new rows where nothing estimates it
VALIDATION_SMOOTHING = 0.005  # the smoothing on validation rows, which may be few and all right
_MATCHES = 200  # of the means with the shares, at most
_FURTHER = 4.0  # times a scale: the next place to look for one


def probability_scale(margins: Array, rows: BaseMeasure, smoothing: float = 0.0) -> float:
    r"""The a > 0 that minimises the log loss of the probabilities softmax(aH).

    Parameters
    ----------
    margins : array of shape (n_rows, n_classes - 1)
        :math:`H_y - H_l` for the wrong classes l.
    rows : BaseMeasure
        Of the rows.
    smoothing : float, default=0.0
        The share of every label that counts as another class: on training rows, where votes are surer
        than they will be elsewhere, about the error to expect.

    Returns
    -------
    float
        The loss is convex in a; where it falls for ever (all rows are right, and no smoothing) 1e3.

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

    least, most = 1e-3 / size, 1e3  # a booster no better than chance: nearly even probabilities
    low = high = min(max(POPULATION_SCALE, least), most)  # from where it usually is, up or down
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
    r"""The smoothing at which the error of the training rows becomes the error to expect elsewhere.

    A smoothing d moves that share of every label evenly to the other K - 1 classes. It turns a training
    error t into :math:`t + d(1 - tK/(K-1))`, so that

    .. math:: d = \frac{e - t}{1 - tK/(K-1)}

    gives the expected error e; it is 0 where the training error is e already.

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
    """Probabilities of all classes from scaled votes: one number a row for two classes, one a class for more."""
    if votes.ndim == 1:
        return np.column_stack([expit(-votes), expit(votes)])
    found: Array = softmax(votes, axis=1)
    return found


def matched_to_shares(q: Array, labels: NDArray[np.intp], rows: BaseMeasure) -> Array:
    """Probabilities times a factor per class, such that their means are the shares of the classes.

    The factors are intercepts of a logistic calibration. One scale for all votes leaves the means free, so
    that the expected number of labels of a class is not their number.

    Parameters
    ----------
    q : array of shape (n_rows, n_classes)
        Probabilities; every class has a row.
    labels : integer array of shape (n_rows,)
    rows : BaseMeasure
        Of the rows.

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
    """Each row's sum of margins by the probabilities of its wrong classes."""
    if margins.shape[1] == 1:  # no kernel to compile for that
        two: Array = margins[:, 0] * expit(-scale * margins[:, 0])
        return two
    its = np.ascontiguousarray(margins).reshape(-1)
    powers, own, found = -scale * its, np.empty(len(margins)), np.empty(len(margins))
    tops_taken_out(powers, 0.0, own)
    means_under(np.exp(powers, out=powers), np.exp(-own), its, found)
    return found


def log_loss(margins: Array, rows: BaseMeasure, scale: float) -> float:
    """The mean of -log softmax(scale * H)_y."""
    x = np.concatenate([np.zeros((len(margins), 1)), -scale * margins], axis=1)
    return rows.integral(np.logaddexp.reduce(x, axis=1))
