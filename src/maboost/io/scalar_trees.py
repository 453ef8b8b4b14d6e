"""A fitted booster as a sum of trees with one number in each leaf, the form of other libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maboost.learners.tree.learner import TreeHypothesis
from maboost.learners.tree.predictor import Tree

__all__ = ["Part", "parts_by_round", "refuse_noise"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """A tree with one number in each leaf.

    A node tests whether a value is at most its threshold, or whether it is one of its members. Members
    never include missing or unseen values: at such a node both count as a no.

    The smallest of a feature's rare categories represents all of them among the members.

    Attributes
    ----------
    feature : int array, -1 at leaves; the root is first and every child after its parent
    threshold : float array
    members : dict
        The categories of each node that splits by category.
    yes, no : int arrays; the children
    missing_yes : bool array; whether NaN follows the yes
    value : float array; the step times the answer
    weight : float array; the share of the round's distribution that reached a node
    gain : float array; shares of the model's importances
    rare : dict; by feature the sorted categories that always go the same way
    """

    feature: NDArray[np.int32]
    threshold: Array
    members: dict[int, Array]
    yes: NDArray[np.int32]
    no: NDArray[np.int32]
    missing_yes: NDArray[np.bool_]
    value: Array
    weight: Array
    gain: Array
    rare: dict[int, Array]

    @property
    def inner(self) -> NDArray[np.intp]:
        """The inner nodes."""
        return np.flatnonzero(self.feature >= 0)

    @property
    def leaves(self) -> NDArray[np.intp]:
        """The leaves."""
        return np.flatnonzero(self.feature < 0)


def refuse_noise(model: Any, target: str) -> None:
    """Raise ValueError for models with `flip_rates`, whose corrected probabilities the other format cannot express."""
    if model._noise is not None:
        raise ValueError(
            f"{target} cannot write a model with flip_rates={model.flip_rates!r}: its probabilities are "
            "corrected for wrong labels. Save the model by save(path), or export a model without flip_rates "
            "and correct its probabilities by maboost.noise"
        )


def parts_by_round(model: Any, target: str) -> list[list[Part]]:
    """Return the parts of every round: one for two classes, one for each class for more.

    Their sum, taken in this order, is `decision_function`. A model without rounds is one constant.

    Parameters
    ----------
    model : fitted booster
    target : str
        The calling method, for errors.
    """
    check_is_fitted(model)
    if not model.ensemble_:
        return [[_constant(value) for value in _without_rounds(model)]]
    steps = model.estimator_weights_
    total = float(np.sum(steps))
    rounds = []
    first = model.ensemble_.hypotheses[0]
    for t, (step, hypothesis) in enumerate(zip(steps, model.ensemble_.hypotheses, strict=True)):
        if not isinstance(hypothesis, TreeHypothesis):
            raise ValueError(_foreign(hypothesis, t, target))
        if not _same_rare(hypothesis.tree, first.tree):
            raise ValueError(
                f"{target} writes rare categories that share a bin in all rounds, but in round {t + 1} of "
                "this model they are others than in round 1 (on a stream every round finds its own): fit "
                "with categories grouped so that there are at most max_bins"
            )
        rounds.append(_parts(hypothesis.tree, float(step), model.n_features_in_, total))
    return rounds


def _foreign(hypothesis: Any, t: int, target: str) -> str:
    name = type(getattr(hypothesis, "estimator", hypothesis)).__name__
    return (
        f"{target} writes the trees of HistTreeClassifier, the default estimator, but round {t + 1} of "
        f"this model is a {name}, whose inside it does not know: fit with estimator=None or a "
        "HistTreeClassifier"
    )


def _same_rare(tree: Tree, other: Tree) -> bool:
    one, its = tree.rare or {}, other.rare or {}
    return one.keys() == its.keys() and all(np.array_equal(one[f], its[f]) for f in one)


def _without_rounds(model: Any) -> list[float]:
    """Return the answers of a model without rounds: all votes are for the heaviest class."""
    classes = len(model.classes_)
    if classes == 1:
        return [0.0]
    if classes == 2:
        return [2.0 * model.ensemble_.heaviest - 1.0]
    return [float(k == model.ensemble_.heaviest) for k in range(classes)]


def _constant(value: float) -> Part:
    nothing, zero = np.full(1, -1, dtype=np.int32), np.zeros(1, dtype=np.int32)
    return Part(
        nothing, np.zeros(1), {}, zero, zero, np.zeros(1, dtype=bool), np.array([value]), np.ones(1),
        np.zeros(1), {},
    )  # fmt: skip


def _parts(tree: Tree, step: float, columns: int, total: float) -> list[Part]:
    answers = tree.value.shape[1]
    asks_set = tree.category_set >= 0
    members = {int(node): _members(tree, int(node)) for node in np.flatnonzero(asks_set)}
    turned = asks_set & tree.missing_left
    gain = np.where(tree.feature >= 0, tree.gain, 0.0)
    share = gain.sum() * total * answers / step if gain.sum() > 0.0 and step else 1.0
    return [
        Part(
            tree.feature,
            tree.threshold,
            members,
            np.where(turned, tree.right, tree.left).astype(np.int32),
            np.where(turned, tree.left, tree.right).astype(np.int32),
            tree.missing_left & ~asks_set,
            step * tree.value[:, k],
            tree.weight,
            gain / share,
            tree.rare or {},
        )
        for k in range(answers)
    ]


def _members(tree: Tree, node: int) -> Array:
    """Return the categories that do not go with missing values."""
    left = tree.categories[int(tree.category_set[node])]
    if not tree.missing_left[node]:
        return left
    known = tree.known[int(tree.feature[node])]
    others: Array = np.setdiff1d(known, left)
    return others
