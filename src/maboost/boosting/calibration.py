"""Probabilities from votes by one scale, so that they always agree with `predict`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

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
    "calibrated",
    "log_loss",
    "probability_scale",
    "training_smoothing",
]

Array = NDArray[np.float64]

POPULATION_SCALE = 2.0  # H estimates half the log odds where the weights are e^(-margin)
UNSEEN_ERROR = 0.02  # the error to expect on new rows where nothing estimates it
VALIDATION_SMOOTHING = 0.005  # the smoothing on validation rows, which may be few and all right
_LEAST_PROBABILITY = 1e-12  # of a given label, where rates forbid it
_FIRST_LOG_SCALE = 1.5  # of votes divided by the largest
_LOG_SCALES, _OFFSETS = (-5.0, 7.0), (-20.0, 20.0)
_FURTHER = 4.0  # times a scale: the next place to look for one


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


class Calibrated(NamedTuple):
    """Votes with the probabilities of true classes that follow from them, and the log loss of the given labels."""

    votes: Array
    probabilities: Array
    loss: float


def calibrated(
    votes: Array,
    labels: NDArray[np.intp],
    rates: Array,
    sources: NDArray[np.intp],
    rows: BaseMeasure,
) -> Calibrated:
    r"""Probabilities of true classes, from votes of models that were not fitted on the rows.

    Finds the scale :math:`a > 0` and the offsets b, one for each class, of :math:`p = \text{softmax}(aH + b)` under which the given
    labels are most likely: with flip rates T they have the probabilities :math:`q = T^\top p`, and the problem is

    .. math:: \min_{a, b}\; -\sum_i D_i \sum_m t_{im} \log q_{im} .

    Without flips the offsets make the mean probability of a class its share of the labels. The targets t are those of Platt (1999):
    :math:`(n_g+1)/(n_g+K)` for the given class g of :math:`n_g` rows, :math:`1/(n_g+K)` for the others. They keep the scale finite where votes
    separate the classes.

    Parameters
    ----------
    votes : array of shape (n_rows,) or (n_rows, n_classes)
        The votes H: one number for each row for two classes.
    labels : integer array of shape (n_rows,)
        Given classes.
    rates : array of shape (n_sources, n_classes, n_classes)
        P(given | true) by source.
    sources : integer array of shape (n_rows,)
        The source of each row.
    rows : BaseMeasure
        Of the rows, without weights of given labels.

    Returns
    -------
    Calibrated
        With probabilities of shape (n_rows, n_classes).

    References
    ----------
    Platt (1999), "Probabilistic outputs for support vector machines".

    Examples
    --------
    >>> import numpy as np
    >>> labels, one_source = np.repeat([0, 1, 0, 1], [80, 20, 20, 80]), np.zeros(200, dtype=np.intp)
    >>> votes = np.repeat([-1.0, 1.0], 100)
    >>> right, flipped = np.eye(2), np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> for T in right, flipped:  # a fifth of the labels is against the votes
    ...     found = calibrated(votes, labels, T[None], one_source, BaseMeasure(np.ones(200)))
    ...     print(found.probabilities[[0, -1], 1].round(3))
    [0.206 0.794]
    [0.132 0.868]
    """
    given_votes = votes
    of_classes = np.column_stack([np.zeros(len(votes)), votes]) if votes.ndim == 1 else votes
    n, K = of_classes.shape
    size = float(np.abs(of_classes).max(initial=0.0)) or 1.0
    votes = of_classes / size
    counts = np.bincount(labels, minlength=K)[labels]
    targets = np.repeat(1.0 / (counts + K)[:, None], K, axis=1)
    targets[np.arange(n), labels] = (counts + 1.0) / (counts + K)

    def probabilities(at: Array) -> Array:
        found: Array = softmax(np.exp(at[0]) * votes + np.append(0.0, at[1:]), axis=1)
        return found

    def loss(at: Array) -> tuple[float, Array]:
        p = probabilities(at)
        q = np.maximum(_mixed(p, rates, sources), _LEAST_PROBABILITY)
        per_true = _mixed(targets / q, rates.transpose(0, 2, 1), sources)
        slope = p * (_row_sums(p * per_true)[:, None] - per_true)
        columns = [
            -_row_sums(targets * np.log(q)),
            np.exp(at[0]) * _row_sums(slope * votes),
            *slope.T[1:],
        ]
        value, *gradient = rows.integrals([np.ascontiguousarray(column) for column in columns])
        return value, np.array(gradient)

    start = np.append(_FIRST_LOG_SCALE, np.zeros(K - 1))
    bounds = [_LOG_SCALES] + [_OFFSETS] * (K - 1)
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Calibrated(given_votes, probabilities(found.x), float(found.fun))


def _mixed(p: Array, rates: Array, sources: NDArray[np.intp]) -> Array:
    """Return the sum over l of p[i, l] T[l], with the matrix T of each row's source.

    No matrix product: its rounding of a row can depend on the place of the row. The sum costs the square of the number
    of classes, so it is left out where no label is flipped.
    """
    if np.array_equal(rates, np.broadcast_to(np.eye(p.shape[1]), rates.shape)):
        return p
    found = np.zeros_like(p)
    for true in range(p.shape[1]):
        its = rates[0, true] if len(rates) == 1 else rates[sources, true]
        found += p[:, true, None] * its
    return found


def _row_sums(x: Array) -> Array:
    """Return the sum of each row, class by class."""
    found = np.zeros(len(x))
    for column in x.T:
        found += column
    return found


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
