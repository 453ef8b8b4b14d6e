"""What boosting asks of a weak learner: rows and weights in, a bounded hypothesis out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Hypothesis", "Negated", "Producer", "WeakLearner"]

Array = NDArray[np.float64]


class Hypothesis(Protocol):
    """A function of rows: scores in [-1, 1] for two classes, in [0, 1]^K summing to one for K."""

    def scores(self, X: Any) -> Array:
        """Shape (n,) for two classes, (n, K) for more."""


class Producer(Protocol):
    """A weak learner that has seen the training rows once (to bin or index them)."""

    def produce(
        self,
        weights: Array,
        rows: NDArray[np.intp] | None,
        rewards: Array | None,
        random_state: np.random.RandomState,
    ) -> Hypothesis:
        """A hypothesis for weighted rows.

        Parameters
        ----------
        weights : array of shape (n_shown,)
            Weights of the rows shown. In a sample that is held some may have none by now: they count
            for nothing.
        rows : array of shape (n_shown,) or None
            Which training rows are shown; None means all.
        rewards : array of shape (n_shown, K) or None
            With more than two classes: what a unit of score for each class is worth on each row.
        """

    def hold(self, rows: NDArray[np.intp]) -> None:
        """These very rows will be shown again and again: keep them at hand, and no others."""

    @property
    def bytes_read(self) -> int:
        """Bytes of the training rows read so far, as far as they are known."""
        return 0

    def training_scores(self, hypothesis: Hypothesis) -> Array:
        """The hypothesis on all training rows."""

    def training_leaves(self, hypothesis: Hypothesis) -> tuple[Array, NDArray[np.int32]] | None:
        """The same for two classes as a short table and an index into it a row; None if there is none."""


class WeakLearner(Protocol):
    """Makes producers.

    Attributes
    ----------
    exact : bool
        Whether it always returns the best edge of its class; then the smallest edge seen is a
        rigorous upper bound on the margin.
    closed_under_negation : bool
        Whether -h belongs to the class when h does; a negative edge is then as good as a positive.
    takes_costs : bool
        Whether `rewards` are used directly. Otherwise they are passed only when weights alone lead
        to no edge.
    """

    @property
    def exact(self) -> bool: ...

    @property
    def closed_under_negation(self) -> bool: ...

    @property
    def takes_costs(self) -> bool: ...

    def prepare(self, X: Any, labels: NDArray[np.intp], n_classes: int) -> Producer:
        """See the training rows."""


@dataclass(frozen=True)
class Negated:
    """The opposite of a two-class hypothesis."""

    hypothesis: Hypothesis

    def scores(self, X: Any) -> Array:
        return -self.hypothesis.scores(X)
