r"""Corrections of weights and probabilities for known flip rates.

A flip rate of a class is the share of its rows that are labelled otherwise. With true label y, given label
:math:`\tilde y`, and flips that are independent of x given y, the rates form a matrix

.. math:: T_{lm} = P(\tilde y = m \mid y = l), \qquad q = T^\top p,

where p are the probabilities of the true classes of a row and q those of its given label.

For two classes with :math:`\rho_+ = P(\tilde y = - \mid y = +)` and
:math:`\rho_- = P(\tilde y = + \mid y = -)`, weights of :math:`1 - \alpha` on rows given + and
:math:`\alpha` on rows given -, with :math:`\alpha = (1 - \rho_+ + \rho_-)/2`, make the expected weighted
error on given labels

.. math:: E[\text{weight}\cdot 1(f \ne \tilde y)] = A\,P(f \ne y) + B, \quad A = (1 - \rho_+ - \rho_-)/2

for every classifier f that does not depend on the flips of these rows.

References
----------
Natarajan, Dhillon, Ravikumar and Tewari (2013), "Learning with noisy labels".
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.learners.tree.predictor import simplex_rows
from maboost.noise.rates import EstimatedRates
from maboost.runtime.parameter_errors import ParameterError, Setting

__all__ = ["corrected_probabilities", "label_weights", "probability_wrong", "transition_matrix"]

Array = NDArray[np.float64]

_SINGULAR = 1e-6  # the smallest singular value of a matrix of rates that can be inverted
_INSIDE = 1e-7  # the least probability of a true class, so that no log loss is infinite, even in single precision


def transition_matrix(flip_rates: Any, classes: Any) -> Array:
    """Return the matrix of P(given | true), in the order of `classes`.

    Parameters
    ----------
    flip_rates : dict, float, array of shape (n_classes, n_classes) or EstimatedRates
        A rate by class (classes not named: 0), one rate for all classes, the matrix itself with a row for
        each true class, or an estimate. A rate spreads evenly over the other classes.
    classes : array-like of shape (n_classes,)
        The classes, in the order of the rows and columns.

    Returns
    -------
    array of shape (n_classes, n_classes)

    Raises
    ------
    ValueError
        If a rate is not a number in [0, 1], a class is unknown, or the rates leave nothing to learn: two rates
        that add up to one or more, or a singular matrix.

    Examples
    --------
    >>> transition_matrix({"fraud": 0.4}, ["fraud", "ok"])
    array([[0.6, 0.4],
           [0. , 1. ]])
    """
    names = np.asarray(classes).tolist()
    K = len(names)
    if isinstance(flip_rates, EstimatedRates):
        T = flip_rates.ordered(names)
    elif isinstance(flip_rates, Mapping):
        unknown = sorted(set(flip_rates) - set(names), key=str)
        if unknown:
            raise ParameterError(
                Setting("flip_rates"),
                f" names {unknown[0]!r}, which is not a class; the classes are {names!r}",
            )
        T = spread_evenly([_rate(flip_rates.get(name, 0.0), name) for name in names])
    elif isinstance(flip_rates, Real) and not isinstance(flip_rates, bool):
        T = spread_evenly([_rate(flip_rates, None)] * K)
    else:
        T = _matrix(flip_rates, K)
    if K == 2 and T[0, 1] + T[1, 0] >= 1.0:
        raise ParameterError(
            Setting("flip_rates", flip_rates),
            " leave nothing to learn: the rates of the two classes add up to "
            f"{T[0, 1] + T[1, 0]:g}, and must add up to less than 1",
        )
    if K > 1 and np.linalg.svd(T, compute_uv=False)[-1] < _SINGULAR:
        raise ParameterError(
            Setting("flip_rates", flip_rates),
            " leave nothing to learn: their matrix is singular, so that different true classes lead to the "
            "same given labels",
        )
    return T


def _rate(value: Any, name: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= float(value) <= 1.0:
        of = "" if name is None else f" of {name!r}"
        raise ValueError(f"flip_rates: the rate{of} must be a number in [0, 1], got {value!r}")
    return float(value)


def spread_evenly(rates: ArrayLike) -> Array:
    """Return the matrix of P(given | true) in which the flips of a class go equally often to each other class."""
    rates = np.asarray(rates, dtype=np.float64)
    K = len(rates)
    if K == 1:
        return np.ones((1, 1))
    T: Array = np.repeat(rates[:, None] / (K - 1), K, axis=1)
    np.fill_diagonal(T, 1.0 - rates)
    return T


def _matrix(flip_rates: Any, K: int) -> Array:
    try:
        T = np.asarray(flip_rates, dtype=np.float64)
    except (TypeError, ValueError):
        T = np.empty(0)
    if T.shape != (K, K):
        raise ValueError(
            f"flip_rates must be a rate, a dict of rates by class, or a matrix of shape ({K}, {K}), got "
            f"{flip_rates!r}"
        )
    if not (np.all(T >= 0.0) and np.allclose(T.sum(axis=1), 1.0, rtol=0.0, atol=1e-6)):
        raise ValueError(
            f"flip_rates as a matrix must have rows P(given | true) that are at least 0 and sum to 1, got "
            f"{flip_rates!r}"
        )
    rows: Array = T / T.sum(axis=1, keepdims=True)
    return rows


def label_weights(
    y: ArrayLike, flip_rates: Any, *, classes: Any = None, class_weight: Any = None
) -> Array:
    r"""Return weights of rows by their given labels, under which given labels replace true ones; two classes.

    With costs c of the *true* classes a row given + weighs
    :math:`(1 - \rho_-)c_+ + \rho_+ c_-` and a row given - weighs :math:`(1 - \rho_+)c_- + \rho_- c_+`;
    without costs that is :math:`2(1 - \alpha)` and :math:`2\alpha`.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Given labels.
    flip_rates : dict, float or array of shape (2, 2)
        As in :func:`transition_matrix`.
    classes : array-like, optional
        The two classes; those in `y` if None.
    class_weight : dict, optional
        Costs of true classes; 1 for classes not named.

    Examples
    --------
    >>> label_weights(["fraud", "ok"], {"fraud": 0.4})
    array([1.4, 0.6])
    """
    labels = np.asarray(y)
    names = np.unique(labels) if classes is None else np.asarray(classes)
    if len(names) != 2:
        raise ValueError(
            f"label_weights is for two classes, got {names.tolist()!r}; with more, correct the "
            "probabilities"
        )
    T = transition_matrix(flip_rates, names)
    costs = _costs(class_weight, names.tolist())
    return weights_of_labels(T, costs)[class_positions(labels, names, "y")]


def _costs(class_weight: Any, names: list[Any]) -> Array:
    """Return the cost of each true class."""
    if class_weight is None:
        return np.ones(len(names))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight must be None or a dict of costs of true classes, got {class_weight!r}"
        )
    unknown = sorted(set(class_weight) - set(names), key=str)
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not a class; the classes are {names!r}"
        )
    costs = np.array([class_weight.get(name, 1.0) for name in names], dtype=np.float64)
    if not (np.all(np.isfinite(costs)) and np.all(costs >= 0.0)):
        raise ValueError(f"class_weight must hold finite costs of at least 0, got {class_weight!r}")
    return costs


def class_positions(labels: NDArray[Any], names: NDArray[Any], parameter: str) -> NDArray[np.intp]:
    """Return the position of each label among the classes `names`, in any order."""
    order = np.argsort(names)
    found = np.searchsorted(names, labels, sorter=order)
    positions: NDArray[np.intp] = order[np.minimum(found, len(names) - 1)]
    unknown = labels[names[positions] != labels]
    if len(unknown):
        raise ValueError(
            f"{parameter} holds {unknown[0].item()!r}, which is not a class; the classes are {names.tolist()!r}"
        )
    return positions


def weights_of_labels(T: Array, costs: Array) -> Array:
    """Return the weight of each given label, for two classes; `costs` are those of true classes."""
    minus, plus = T[0, 1], T[1, 0]
    return np.array(
        [
            (1.0 - plus) * costs[0] + minus * costs[1],
            (1.0 - minus) * costs[1] + plus * costs[0],
        ]
    )


def corrected_probabilities(q: ArrayLike, flip_rates: Any, *, classes: Any = None) -> Array:
    r"""Return probabilities of true classes from those of given labels.

    Two classes: :math:`p = (q - \rho_-)/(1 - \rho_+ - \rho_-)`. More classes: :math:`T^{-\top} q`, projected to
    the probability simplex. Probabilities stay at least 1e-7 inside (0, 1): clipping happens often, since q is
    an estimate, and the log loss of a true label must not be infinite.

    Parameters
    ----------
    q : array-like of shape (n_rows,) or (n_rows, n_classes)
        Probabilities of given labels from a classifier fitted on them; with one dimension those
        of the second class.
    flip_rates : dict, float or array of shape (n_classes, n_classes)
        As in :func:`transition_matrix`.
    classes : array-like, optional
        The classes in the order of the columns; 0, 1, ... if None.

    Returns
    -------
    array of the shape of `q`

    Examples
    --------
    >>> corrected_probabilities([0.3, 0.6], {1: 0.4}).round(3)
    array([0.5, 1. ])
    """
    rows = class_probabilities(q)
    p = true_probabilities(rows, _of_columns(flip_rates, rows, classes))
    return p if np.ndim(q) == 2 else p[:, 1]


def class_probabilities(q: ArrayLike) -> Array:
    """Return the probabilities as an array of shape (n_rows, n_classes), checked."""
    q = np.asarray(q, dtype=np.float64)
    if q.ndim == 1:
        q = np.column_stack([1.0 - q, q])
    if q.ndim != 2 or q.shape[1] < 2:
        raise ValueError(
            "q must have the shape (n_rows,), for two classes, or (n_rows, n_classes), got shape "
            f"{q.shape}"
        )
    if not (np.all(q >= 0.0) and np.all(q <= 1.0)):  # NaN fails both
        raise ValueError("q must hold probabilities in [0, 1]")
    if not np.allclose(q.sum(axis=1), 1.0, rtol=0.0, atol=1e-3):
        raise ValueError("each row of q must sum to 1")
    return q


def true_probabilities(q: Array, T: Array) -> Array:
    """Return the probabilities of true classes, inside (0, 1)."""
    if T.shape == (2, 2):
        p = (q[:, 1] - T[0, 1]) / (1.0 - T[0, 1] - T[1, 0])
        p = np.clip(p, _INSIDE, 1.0 - _INSIDE)
        return np.column_stack([1.0 - p, p])
    unmixed = np.asarray(np.linalg.solve(T.T, q.T).T, dtype=np.float64)
    rows = np.maximum(simplex_rows(unmixed), _INSIDE)
    inside: Array = rows / rows.sum(axis=1, keepdims=True)
    return inside


def probability_wrong(q: ArrayLike, y: ArrayLike, flip_rates: Any, *, classes: Any = None) -> Array:
    r"""Return the probability that a given label is wrong, from calibrated probabilities of given labels.

    With :math:`p` of :func:`corrected_probabilities` and :math:`\hat q = T^\top p` it is
    :math:`1 - T_{\tilde y\tilde y}\,p_{\tilde y}/\hat q_{\tilde y}`. The sum over the rows is the expected
    number of wrong labels. The probabilities must come from a model that was not fitted on these labels,
    for example from cross-validation.

    Parameters
    ----------
    q : array-like of shape (n_rows,) or (n_rows, n_classes)
        Probabilities of given labels.
    y : array-like of shape (n_rows,)
        Given labels.
    flip_rates : dict, float or array of shape (n_classes, n_classes)
        As in :func:`transition_matrix`.
    classes : array-like, optional
        The classes in the order of the columns; those in `y` if None.

    Examples
    --------
    >>> probability_wrong([0.3, 0.3], [0, 1], {1: 0.4}).round(3)  # no label 1 is wrong
    array([0.286, 0.   ])
    """
    rows, labels = class_probabilities(q), np.asarray(y)
    if labels.shape != (len(rows),):
        raise ValueError(f"q has {len(rows)} rows, but y has the shape {labels.shape}")
    names = np.unique(labels) if classes is None else np.asarray(classes)
    T = _of_columns(flip_rates, rows, names)
    return wrong_given(true_probabilities(rows, T), class_positions(labels, names, "y"), T)


def wrong_given(p: Array, given: NDArray[np.intp], T: Array) -> Array:
    """Return the probability that each given label is wrong, from probabilities of true classes."""
    rows = np.arange(len(given))
    likely = (p @ T)[rows, given]
    right = T[given, given] * p[rows, given]
    with np.errstate(divide="ignore", invalid="ignore"):
        # a label that cannot be given at all is wrong
        return np.clip(1.0 - np.where(likely > 0.0, right / likely, 0.0), 0.0, 1.0)


def _of_columns(flip_rates: Any, q: Array, classes: Any) -> Array:
    K = q.shape[1]
    names = np.arange(K) if classes is None else np.asarray(classes)
    if len(names) != K:
        raise ValueError(f"q has probabilities of {K} classes, but classes are {names.tolist()!r}")
    return transition_matrix(flip_rates, names)
