"""The votes of an ensemble on labelled rows, and their margins."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.game import Game
from maboost.engine.multiclass import add_votes, margins_of_votes
from maboost.runtime.threads import Threads

__all__ = ["Scores", "Votes", "negated"]

Array = NDArray[np.float64]
# the scores of a hypothesis on the rows: an array, or the answers of a tree and each row's leaf
Scores: TypeAlias = Array | tuple[Array, NDArray[np.int32]]


def negated(scores: Scores) -> Scores:
    """Return the scores of the opposite of a two-class hypothesis."""
    return -scores if isinstance(scores, np.ndarray) else (-scores[0], scores[1])


class Votes:
    r"""The votes :math:`H = \sum_t\eta_t h_t` of an ensemble on labelled rows, and the margins of all pairs.

    Votes are added up in the order and the precision of `decision_function`. A margin is a difference of two
    votes, rounded once, so its sign is exact: it is zero if and only if the two votes are equal.
    With two classes a margin is the vote or its negative, and only margins are stored.

    Attributes
    ----------
    margins : array
        Unnormalised margins of all pairs (row, wrong class).

    >>> import numpy as np
    >>> votes = Votes(Game(np.array([2, 0]), 3))
    >>> votes.add(0.5, np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> votes.margins
    array([ 0.5,  0.5, -0.5,  0. ])
    """

    def __init__(self, game: Game, threads: Threads | None = None) -> None:
        self.game = game
        self.threads = threads or Threads()
        rows = len(game.labels)
        self.margins = np.zeros(rows * game.width)
        self._votes = None if game.width == 1 else np.zeros((rows, game.n_classes))

    def add(self, step: float, scores: Scores) -> None:
        """Add a hypothesis with these scores on all rows."""
        game = self.game
        answers, leaves = (scores, None) if isinstance(scores, np.ndarray) else scores
        if self._votes is None:
            self.margins += game.margins(step * (answers if leaves is None else answers[leaves]))
            return
        labels, margins = game.small_labels, self.margins
        self.threads.run(add_votes, self._votes, answers, leaves, step, labels, margins)

    @property
    def votes(self) -> Array:
        """The votes H on every row: (n,) for two classes, (n, K) for more."""
        return self.game.margins(self.margins) if self._votes is None else self._votes

    def replace(self, votes: Array) -> None:
        """Take other votes on all rows: (n,) for two classes, (n, K) for more."""
        self.state = self.game.margins(votes) if self._votes is None else votes

    @property
    def state(self) -> Array:
        """The votes in the form of a snapshot: for two classes the margins."""
        return self.margins if self._votes is None else self._votes

    @state.setter
    def state(self, kept: Array) -> None:
        self.state[...] = kept
        if self._votes is not None:
            labels = self.game.small_labels
            self.threads.run(margins_of_votes, self._votes, labels, self.margins)
