"""Adapter that makes any scikit-learn classifier a weak learner."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import column_or_1d, has_fit_parameter

from maboost.learners.base import Hypothesis, Producer

__all__ = ["EstimatorHypothesis", "EstimatorLearner", "ResamplingWarning", "warn_of_resampling"]

Array = NDArray[np.float64]


class ResamplingWarning(UserWarning):
    """The estimator accepts no `sample_weight`, so each round fits it on rows drawn by their weights.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from maboost import MABoostClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> model = MABoostClassifier(KNeighborsClassifier(1), n_estimators=2)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ResamplingWarning)
    ...     model.fit(X, y).predict(X)
    array([0, 0, 1, 1])
    """


def warn_of_resampling(estimator: Any, stacklevel: int) -> None:
    """Warn if `fit` of the estimator accepts no `sample_weight`."""
    if not has_fit_parameter(estimator, "sample_weight"):
        warnings.warn(
            f"fit of {type(estimator).__name__} takes no sample_weight: each round fits it on rows drawn "
            "in proportion to their weights, with seeds from random_state. Use an estimator that takes "
            "sample_weight, or ignore maboost.learners.ResamplingWarning",
            ResamplingWarning,
            stacklevel=stacklevel + 1,
        )


@dataclass(frozen=True)
class EstimatorHypothesis:
    """A fitted classifier as a bounded function.

    Parameters
    ----------
    estimator : fitted classifier
    classes : array of shape (K,)
        All classes of the problem; the classifier may have seen only some.
    response : {"votes", "proba"}
        Whether scores come from `predict` ("votes") or from `predict_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.array([[0.0], [1.0]]), np.array(["no", "yes"])
    >>> tree = DecisionTreeClassifier().fit(X, y)
    >>> EstimatorHypothesis(tree, tree.classes_, "votes").scores(X)
    array([-1.,  1.])
    """

    estimator: Any
    classes: NDArray[Any]
    response: Literal["votes", "proba"]

    def scores(self, X: Any) -> Array:
        K = len(self.classes)
        if self.response == "votes":
            predicted = column_or_1d(self.estimator.predict(X))  # some classifiers return a column
            chosen = np.minimum(np.searchsorted(self.classes, predicted), K - 1)
            if not np.all(self.classes[chosen] == predicted):
                raise ValueError(
                    f"predict of {type(self.estimator).__name__} returned labels that are not among "
                    f"the classes it was given, {self.classes.tolist()!r}"
                )
            if K == 2:
                return 2.0 * chosen.astype(np.float64) - 1.0
            return np.eye(K)[chosen]
        proba = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        full = np.zeros((proba.shape[0], K))
        full[:, np.searchsorted(self.classes, self.estimator.classes_)] = proba
        if not np.all(full >= 0.0) or np.any(np.abs(full.sum(axis=1) - 1.0) > 1e-6):
            raise ValueError(
                f"predict_proba of {type(self.estimator).__name__} gave rows that are no "
                "probabilities; use response='votes'"
            )
        full /= full.sum(axis=1, keepdims=True)
        return full[:, 1] - full[:, 0] if K == 2 else full


@dataclass(frozen=True)
class EstimatorLearner:
    """A weak learner that fits a scikit-learn classifier in every round.

    A classifier whose `fit` accepts no `sample_weight` is fitted on a resample: as many rows as were
    shown, drawn systematically in proportion to their weights with the seeded generator.

    Parameters
    ----------
    estimator : classifier
        Cloned before every fit.
    classes : array of shape (K,)
        The labels, in the order of their codes.
    response : {"votes", "proba"}

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from maboost.testing import check_learner
    >>> check_learner(EstimatorLearner(GaussianNB(), np.array([0, 1])))
    """

    estimator: Any
    classes: NDArray[Any]
    response: Literal["votes", "proba"] = "votes"
    exact: bool = False
    closed_under_negation: bool = False
    takes_costs: bool = False

    def prepare(self, X: Any, labels: NDArray[np.intp], n_classes: int) -> EstimatorProducer:
        return EstimatorProducer(self, X, labels)


@dataclass(frozen=True)
class EstimatorProducer(Producer):
    """An :class:`EstimatorLearner` with its training rows."""

    learner: EstimatorLearner
    X: Any
    labels: NDArray[np.intp]

    def produce(
        self,
        weights: Array,
        rows: NDArray[np.intp] | None,
        rewards: Array | None,
        random_state: np.random.RandomState,
    ) -> EstimatorHypothesis:
        if rows is not None and not weights.all():
            some = np.flatnonzero(weights)
            rows, weights = rows[some], weights[some]
            rewards = None if rewards is None else rewards[some]
        labels = self.labels if rows is None else self.labels[rows]
        if rewards is not None:
            copied, labels, weights = _copies(rewards)
            rows = copied if rows is None else rows[copied]
        estimator = self._fit(rows, labels, weights, random_state)
        return EstimatorHypothesis(estimator, self.learner.classes, self.learner.response)

    def training_scores(self, hypothesis: Hypothesis) -> Array:
        return hypothesis.scores(self.X)

    def _fit(
        self,
        rows: NDArray[np.intp] | None,
        labels: NDArray[np.intp],
        weights: Array,
        random_state: np.random.RandomState,
    ) -> BaseEstimator:
        estimator = clone(self.learner.estimator)
        seed_estimator(estimator, random_state)
        weighted = has_fit_parameter(estimator, "sample_weight")
        if not weighted:
            drawn = _systematic_sample(weights, random_state)
            rows, labels = drawn if rows is None else rows[drawn], labels[drawn]
        classes = self.learner.classes
        if np.all(labels == labels[0]):  # many classifiers raise for a single class
            only = classes[labels[:1]]  # strategy="constant" accepts no float or boolean label
            return DummyClassifier(strategy="most_frequent").fit(np.zeros((1, 1)), only)
        X = self.X if rows is None else _safe_indexing(self.X, rows)
        if weighted:
            own = weights.copy()  # some classifiers write to it
            return estimator.fit(X, classes[labels], sample_weight=own)
        return estimator.fit(X, classes[labels])


def seed_estimator(estimator: BaseEstimator, random_state: np.random.RandomState) -> None:
    """Give every `random_state` inside `estimator` an integer, in scikit-learn's order."""
    names = [
        name
        for name in sorted(estimator.get_params(deep=True))
        if name == "random_state" or name.endswith("__random_state")
    ]
    seeds = {name: random_state.randint(np.iinfo(np.int32).max) for name in names}
    if seeds:
        estimator.set_params(**seeds)


def _copies(rewards: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return each row once per class, weighted by its reward above the row's lowest: (rows, labels, weights).

    Weighted accuracy on these copies is the total reward up to a constant.
    """
    worth = rewards - rewards.min(axis=1, keepdims=True)
    row, label = np.nonzero(worth > 0.0)
    return row, label, worth[row, label]


def _systematic_sample(weights: Array, random_state: np.random.RandomState) -> NDArray[np.intp]:
    """Return indices of rows drawn in proportion to `weights`, as many as there are rows."""
    edges = np.cumsum(weights)
    n = len(weights)
    ticks = (np.arange(n) + random_state.random_sample()) * (edges[-1] / n)
    drawn: NDArray[np.intp] = np.searchsorted(edges, ticks, side="right")
    return np.minimum(drawn, n - 1)
