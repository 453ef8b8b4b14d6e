"""Interfaces between boosting and weak learners."""

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
        """Return scores of shape (n,) for two classes, (n, K) for more."""


class Producer(ABC):
    """A weak learner that has seen the training rows once (to bin or index them).

    Subclasses write two methods. The other methods have defaults for a learner that needs no preparation.

    Attributes
    ----------
    bytes_read : int
        Bytes of the training rows read so far, as far as the learner counts them.

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
        """The codes, by column, of the categories that share a bin because there are more categories than bins."""
        return {}

    @abstractmethod
    def produce(
        self,
        weights: Array,
        rows: NDArray[np.intp] | None,
        rewards: Array | None,
        random_state: np.random.RandomState,
    ) -> Hypothesis:
        """Return a hypothesis for weighted rows.

        Parameters
        ----------
        weights : array of shape (n_shown,)
            Weights of the rows shown, to be read only. Rows of a sample that is kept for several rounds may have
            weight zero by now.
        rows : array of shape (n_shown,) or None
            The training rows that are shown; None means all.
        rewards : array of shape (n_shown, K) or None
            With more than two classes: the gain from one unit of score for each class on each row.
        """

    @abstractmethod
    def training_scores(self, hypothesis: Hypothesis) -> Array:
        """Return the scores of the hypothesis on all training rows."""

    def training_leaves(self, hypothesis: Hypothesis) -> tuple[Array, NDArray[np.int32]] | None:
        """Return the same scores as a short table and an index into it for each row; None if there is no table."""
        return None

    def restored(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return a hypothesis read from a file in the form that :meth:`produce` once returned."""
        return hypothesis

    def watching(self, X: Any) -> Any:
        """Return validation rows in the form that hypotheses score: bins, if the rows are on disk."""
        return X

    def hold(self, rows: NDArray[np.intp] | None) -> None:
        """Keep a copy of these rows, which many rounds will show, and of no others (None: of no rows).

        `rows` may be empty if the sample has rows on other shards only.
        """
        return


class WeakLearner(Protocol):
    """A factory of producers.

    Attributes
    ----------
    exact : bool
        Whether it always returns the best edge of its class; the smallest edge seen is then an
        upper bound on the margin.
    closed_under_negation : bool
        Whether -h belongs to the class if h does; a negative edge is then as good as a positive one.
    takes_costs : bool
        Whether the learner uses `rewards`. Otherwise they are passed only if weights alone give
        no edge.

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
        """Prepare the training rows, for example by binning them."""


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
