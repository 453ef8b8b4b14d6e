"""The members of a fitted ensemble as bounded hypotheses with votes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.ensemble._forest import ForestClassifier

from maboost.boosting.ensemble import Ensemble
from maboost.engine.vote_matrix import VoteMatrix, codes_of_scores
from maboost.learners.adapter import EstimatorHypothesis
from maboost.runtime.threads import Threads

__all__ = ["Members", "members_of"]

Array = NDArray[np.float64]
Coded = tuple[Array, NDArray[np.integer]]


class Members(Protocol):
    """The members of an ensemble.

    Attributes
    ----------
    classes : array
        The labels, in the order of the scores.
    weights : array
        The vote of each member.
    bounded : bool
        Whether the members have bounded answers of their own, so that the sum of the votes is the scale of
        the ensemble. Otherwise the answers of each member were divided by the largest.
    """

    @property
    def classes(self) -> NDArray[Any]: ...

    @property
    def weights(self) -> Array: ...

    @property
    def bounded(self) -> bool: ...

    def __len__(self) -> int: ...

    def coded(self, X: Any) -> Iterator[Coded]:
        """Yield for each member its distinct answers, and the index of each row's answer."""

    def select(self, which: NDArray[np.intp], weights: Array) -> Members:
        """Return some members with new votes."""


def matrix_of(
    members: Members, X: Any, labels: NDArray[np.integer], threads: Threads
) -> VoteMatrix:
    """Return the votes of all members on labelled rows."""
    matrix = VoteMatrix(labels, len(members.classes), threads)
    for answers, codes in members.coded(X):
        matrix.append(answers, codes)
    return matrix


@dataclass(frozen=True)
class ScoredMembers:
    """Members with a method `scores`, on the rows after `prepare`."""

    classes: NDArray[Any]
    weights: Array
    hypotheses: list[Any]
    prepare: Callable[[Any], Any]
    bounded: bool = True

    def __len__(self) -> int:
        return len(self.hypotheses)

    def coded(self, X: Any) -> Iterator[Coded]:
        rows = self.prepare(X)
        for hypothesis in self.hypotheses:
            yield codes_of_scores(hypothesis.scores(rows))

    def select(self, which: NDArray[np.intp], weights: Array) -> ScoredMembers:
        return replace(self, weights=weights, hypotheses=[self.hypotheses[i] for i in which])


@dataclass(frozen=True)
class SomeFeatures:
    """A hypothesis that uses some columns only."""

    hypothesis: EstimatorHypothesis
    columns: NDArray[np.intp]

    def scores(self, X: Any) -> Array:
        return self.hypothesis.scores(X[:, self.columns])


@dataclass(frozen=True)
class LightGBMMembers:
    """The trees of a LightGBM model, each divided by its largest leaf."""

    classes: NDArray[Any]
    weights: Array
    booster: Any
    trees: NDArray[np.intp]
    answers: list[Array]
    bounded: bool = False

    def __len__(self) -> int:
        return len(self.trees)

    def coded(self, X: Any) -> Iterator[Coded]:
        leaves = np.asarray(self.booster.predict(X, pred_leaf=True)).reshape(len(X), -1)
        for tree, answers in zip(self.trees, self.answers, strict=True):
            yield answers, leaves[:, tree]

    def select(self, which: NDArray[np.intp], weights: Array) -> LightGBMMembers:
        answers = [self.answers[i] for i in which]
        return replace(self, weights=weights, trees=self.trees[which], answers=answers)


def members_of(ensemble: Any) -> Members | None:
    """Return the members of a fitted ensemble; None if they are not known.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(3, random_state=0).fit([[0.0], [1.0]], ["no", "yes"])
    >>> members = members_of(forest)
    >>> len(members), members.weights
    (3, array([1., 1., 1.]))
    """
    if hasattr(ensemble, "members_"):  # the result of `reweight`
        found: Members = ensemble.members_
        return found
    if isinstance(getattr(ensemble, "ensemble_", None), Ensemble):
        own = ensemble.ensemble_
        return ScoredMembers(ensemble.classes_, own.weights, own.hypotheses, ensemble._checked_rows)
    if isinstance(ensemble, AdaBoostClassifier):
        votes = [
            EstimatorHypothesis(member, ensemble.classes_, "votes")
            for member in ensemble.estimators_
        ]
        weights = np.asarray(ensemble.estimator_weights_[: len(votes)], dtype=np.float64)
        return ScoredMembers(ensemble.classes_, weights, votes, np.asarray)
    if isinstance(ensemble, ForestClassifier):
        if ensemble.n_outputs_ > 1:
            raise ValueError(
                "ensemble predicts several outputs: reweight a forest of one output at a time"
            )
        codes = np.arange(len(ensemble.classes_))
        trees = [EstimatorHypothesis(tree, codes, "proba") for tree in ensemble.estimators_]
        return ScoredMembers(ensemble.classes_, np.ones(len(trees)), trees, _single_precision)
    if isinstance(ensemble, BaggingClassifier):
        return _bagged(ensemble)
    booster = getattr(ensemble, "booster_", ensemble)
    if type(booster).__module__.split(".")[0] == "lightgbm":
        return _lightgbm(booster, getattr(ensemble, "classes_", None))
    return None


def _single_precision(X: Any) -> Any:
    """Return rows in the precision in which scikit-learn's trees compare them."""
    return X.astype(np.float32) if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float32)


def _bagged(ensemble: BaggingClassifier) -> ScoredMembers:
    codes = np.arange(len(ensemble.classes_))
    response: Literal["votes", "proba"] = "votes"
    if hasattr(ensemble.estimators_[0], "predict_proba"):
        response = "proba"
    members = [
        SomeFeatures(EstimatorHypothesis(member, codes, response), columns)
        for member, columns in zip(ensemble.estimators_, ensemble.estimators_features_, strict=True)
    ]
    return ScoredMembers(ensemble.classes_, np.ones(len(members)), members, np.asarray)


def _lightgbm(booster: Any, classes: NDArray[Any] | None) -> LightGBMMembers:
    model = booster.dump_model()
    if not str(model["objective"]).startswith(("binary", "multiclass")):
        raise ValueError(
            f"ensemble has the objective {model['objective']!r}: votes are those of a classifier, "
            "with objective 'binary' or 'multiclass'"
        )
    if booster.params.get("linear_tree"):
        raise ValueError("ensemble has linear trees, whose leaves are no votes: fit without them")
    several = int(model["num_tree_per_iteration"])
    if classes is None:
        classes = np.arange(max(several, 2))
    answers, tops = [], []
    for number, tree in enumerate(model["tree_info"]):
        values = np.zeros(tree["num_leaves"])
        _collect(tree["tree_structure"], values)
        top = float(np.abs(values).max())
        tops.append(top)
        values = values / (top if top > 0.0 else 1.0)
        if several > 1:  # each tree belongs to one class
            values = values[:, None] * (np.arange(several) == number % several)
        answers.append(values)
    return LightGBMMembers(classes, np.array(tops), booster, np.arange(len(tops)), answers)


def _collect(node: dict[str, Any], values: Array) -> None:
    """Write the value of each leaf below a node."""
    if "leaf_value" in node:
        values[node.get("leaf_index", 0)] = node["leaf_value"]
        return
    _collect(node["left_child"], values)
    _collect(node["right_child"], values)
