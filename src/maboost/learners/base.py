"""What boosting asks of a weak learner: rows and weights in, a bounded hypothesis out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Hypothesis", "Negated", "Producer", "WeakLearner"]

Array = NDArray[np.float64]


class Hypothesis(Protocol):
    """A function of rows: scores in [-1, 1] for two classes, in [0, 1]^K summing to one for K.

    >>> import numpy as np
    >>> class Positive:
    ...     def scores(self, X):
    ...         return np.where(X[:, 0] > 0.0, 1.0, -1.0)
    >>> Positive().scores(np.array([[2.0], [-1.0]]))
    array([ 1., -1.])
    """

    def scores(self, X: Any) -> Array:
        """Shape (n,) for two classes, (n, K) for more."""


class Producer(ABC):
    """A weak learner that has seen the training rows once (to bin or index them).

    Two methods are to be written; the others say what a learner does that knows nothing of its rows.

    Attributes
    ----------
    bytes_read : int
        Bytes of the training rows read so far, as far as they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from maboost.learners import EstimatorLearner
    >>> X, labels = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    >>> learner = EstimatorLearner(DecisionTreeClassifier(max_depth=1), np.array([0, 1]))
    >>> producer = learner.prepare(X, labels, 2)
    >>> h = producer.produce(np.ones(3), None, None, np.random.RandomState(0))
    >>> producer.training_scores(h)
    array([-1.,  1.,  1.])
    """

    bytes_read: int = 0

    @property
    def rare(self) -> dict[int, Array]:
        """By column the codes of the categories that the hypotheses do not tell apart, for want of bins."""
        return {}

    @abstractmethod
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
            Weights of the rows shown, to be read only. In a sample that is held some may have none by
            now: they count for nothing.
        rows : array of shape (n_shown,) or None
            Which training rows are shown; None means all.
        rewards : array of shape (n_shown, K) or None
            With more than two classes: what a unit of score for each class is worth on each row.
        """

    @abstractmethod
    def training_scores(self, hypothesis: Hypothesis) -> Array:
        """The hypothesis on all training rows."""

    def training_leaves(self, hypothesis: Hypothesis) -> tuple[Array, NDArray[np.int32]] | None:
        """The same as a short table and an index into it a row; None if there is none."""
        return None

    def restored(self, hypothesis: Hypothesis) -> Hypothesis:
        """A hypothesis that was read from a file, as :meth:`produce` once returned it."""
        return hypothesis

    def watching(self, X: Any) -> Any:
        """Rows that are not trained on, as the hypotheses will score them: bins, if they are on disk."""
        return X

    def hold(self, rows: NDArray[np.intp] | None) -> None:
        """These very rows will be shown again and again: keep them at hand, and no others (None: no rows).

        A sample may have rows on other shards only: then there are none among them, but they are held.
        """
        return


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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from maboost.learners import EstimatorLearner
    >>> learner = EstimatorLearner(DecisionTreeClassifier(max_depth=1), np.array([0, 1]))
    >>> learner.exact, learner.takes_costs
    (False, False)
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
    """The opposite of a two-class hypothesis.

    >>> import numpy as np
    >>> from maboost.learners import EstimatorHypothesis
    >>> from sklearn.dummy import DummyClassifier
    >>> constant = DummyClassifier(strategy="constant", constant=1).fit([[0.0], [0.0]], [0, 1])
    >>> Negated(EstimatorHypothesis(constant, np.array([0, 1]), "votes")).scores(np.zeros((2, 1)))
    array([-1., -1.])
    """

    hypothesis: Hypothesis

    def scores(self, X: Any) -> Array:
        return -self.hypothesis.scores(X)
