"""An ensemble: hypotheses with their weights, and their joint votes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.history import Round
from maboost.learners.base import Hypothesis
from maboost.learners.tree.contributions import Explainer
from maboost.learners.tree.grower import Binned
from maboost.learners.tree.learner import TreeHypothesis
from maboost.learners.tree.leaves import leaves_of
from maboost.learners.tree.predictor import Forest, Tree
from maboost.runtime.threads import Threads

__all__ = ["Ensemble"]

Array = NDArray[np.float64]


@dataclass(eq=False)
class Ensemble:
    r"""Hypotheses and their weights: :math:`H = \sum_t\eta_t h_t`.

    The history of a fit records the step of every round. The weights here are those of the votes; a booster may
    change all of them after a round.

    Parameters
    ----------
    n_classes : int
    heaviest : int
        The code of the class that an empty ensemble predicts.
    hypotheses : list
        Hypotheses on rows with the same columns.
    weights : array of shape (len(hypotheses),)
    rounds : array of shape (len(hypotheses),) or None
        The round in which each hypothesis was found, where hypotheses without a vote are left out; None where
        hypothesis t is that of round t.

    >>> import numpy as np
    >>> Ensemble(2, heaviest=1).votes(np.zeros((3, 1)))
    array([1., 1., 1.])
    """

    n_classes: int
    heaviest: int = 0
    hypotheses: list[Any] = field(default_factory=list)
    weights: Array = field(default_factory=lambda: np.zeros(0))
    rounds: NDArray[np.intp] | None = None
    _refitted: dict[int, Array] = field(default_factory=dict, init=False, repr=False)
    _forest: tuple[int, Forest | None] | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.hypotheses)

    def add(self, hypothesis: Hypothesis, weight: float) -> None:
        """Append a hypothesis with its weight."""
        self.hypotheses.append(hypothesis)
        self.weights = np.append(self.weights, weight)

    def advance(self, round: Round) -> None:
        """Take over the votes after a round."""
        self.add(round.hypothesis, round.record.step)
        if round.weights is not None:
            self._refitted[len(self)] = self.weights = round.weights

    def first(self, count: int) -> Ensemble:
        """Return the ensemble after the first rounds, with the votes of that time."""
        weights = self._refitted.get(count, self.weights[:count])
        found = Ensemble(self.n_classes, self.heaviest, self.hypotheses[:count], weights)
        found._refitted = {t: votes for t, votes in self._refitted.items() if t <= count}
        return found

    def weighted(self, weights: Array) -> Ensemble:
        """Return the same hypotheses with other weights."""
        return Ensemble(self.n_classes, self.heaviest, self.hypotheses, weights, self.rounds)

    def voting(self) -> Ensemble:
        """Return the hypotheses that have a vote, if votes were refitted; earlier votes are forgotten."""
        if not self._refitted:
            return self
        kept = np.flatnonzero(self.weights)
        chosen = [self.hypotheses[t] for t in kept]
        return Ensemble(self.n_classes, self.heaviest, chosen, self.weights[kept], 1 + kept)

    @property
    def weight_sum(self) -> float:
        """The sum of the weights, added up in the order of the history; 1 if there are none."""
        return float(np.cumsum(self.weights)[-1]) if len(self) else 1.0

    def votes(self, X: Any, threads: Threads | None = None) -> Array:
        """Return H on rows: (n,) for at most two classes, (n, K) for more."""
        forest = None if isinstance(X, Binned) else self.forest()
        if forest is None:
            return deque(self.staged_votes(X), maxlen=1).pop()
        votes = forest.votes(X, self.weights, threads or Threads())
        return votes[:, 0] if self.n_classes == 2 else votes

    def staged_votes(self, X: Any) -> Iterator[Array]:
        """Yield H after each round, in the same array each time; at least once."""
        n, K = X.shape[0], self.n_classes
        votes = np.zeros(n) if K <= 2 else np.zeros((n, K))
        if not self.hypotheses:
            if K == 2:
                votes += 2.0 * self.heaviest - 1.0
            elif K > 2:
                votes[:, self.heaviest] = 1.0
            yield votes
        for weight, hypothesis in zip(self.weights, self.hypotheses, strict=True):
            votes += weight * hypothesis.scores(X)
            yield votes

    def contributions(self, X: Any, threads: Threads | None = None) -> Array:
        """Return SHAP values of H on rows: (n, answers, columns + 1), the last one the expected H.

        All hypotheses must be trees. `answers` is one for at most two classes, and K for more.
        """
        threads = threads or Threads()
        if not self.hypotheses:
            constant = self.votes(np.zeros((1, 1))).reshape(-1)
            found = np.zeros((X.shape[0], len(constant), X.shape[1] + 1))
            found[:, :, -1] = constant
            return found
        start, answers = 0, self.n_classes if self.n_classes > 2 else 1
        found = np.zeros((X.shape[0], answers, X.shape[1] + 1))
        for group in self._groups():
            steps = self.weights[start : start + len(group)]
            found += Explainer.of(group).contributions(X, steps, threads)
            start += len(group)
        return found

    def leaves(self, X: Any, threads: Threads | None = None) -> NDArray[np.int32]:
        """Return the leaf of every row in every tree, shape (n, trees); all hypotheses must be trees."""
        found = [np.empty((X.shape[0], 0), dtype=np.int32)]
        found += [leaves_of(Forest.of(group), X, threads or Threads()) for group in self._groups()]
        return np.concatenate(found, axis=1)

    def _groups(self) -> list[list[Tree]]:
        """Return the trees in groups that know the same categories."""
        trees = self.trees()
        return [trees] if self._are_alike(trees) else [[tree] for tree in trees]

    def trees(self) -> list[Tree]:
        """Return the trees among the hypotheses."""
        return [h.tree for h in self.hypotheses if isinstance(h, TreeHypothesis)]

    def _are_alike(self, trees: list[Tree]) -> bool:
        """Return whether all hypotheses are trees that know the same categories, as trees of a stream may not."""
        alike = len(trees) == len(self) > 0
        return alike and all(map(trees[0].categories_as, trees[1:]))

    def forest(self) -> Forest | None:
        """Return the trees as one forest, built at the first call.

        None if some hypotheses are not trees, or if they know different categories, as trees of a stream may.
        """
        if self._forest is None or self._forest[0] != len(self):
            trees = self.trees()
            self._forest = len(self), Forest.of(trees) if self._are_alike(trees) else None
        return self._forest[1]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the forest, which can be rebuilt from the trees."""
        return self.__dict__ | {"_forest": None}
