r"""The boosting game: the loss vector of the mirror ascent from the scores of a hypothesis.

With K classes the distribution lives on pairs (row, wrong class): K - 1 entries a row, one for two
classes. A hypothesis loses

.. math:: d_{il} = h_l(x_i) - h_{y_i}(x_i) \in [-1, 1]

on a pair; with two classes and :math:`h = h_1 - h_0` that is the paper's :math:`-a_i h(x_i)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.engine.leaf_codes import LeafCodes, leaf_codes
from maboost.engine.multiclass import margins_of_votes, rewards_of_rows
from maboost.runtime.rows import lowest_of_rows
from maboost.runtime.threads import Threads

__all__ = ["Game", "Validation"]

Array = NDArray[np.float64]

_FEW_CODES, _SHARE = (
    1 << 10,
    1 / 2,
)  # number of codes, and their share of the entries, up to which codes pay


@dataclass(frozen=True)
class Game:
    """The labels, and the loss of a hypothesis with given scores.

    Parameters
    ----------
    labels : array of shape (n_rows,)
        Codes 0 .. n_classes - 1.
    n_classes : int
        At least two.

    >>> import numpy as np
    >>> Game(np.array([1, 0]), 2).loss(np.array([0.5, 0.5]))
    array([-0.5,  0.5])
    >>> Game(np.array([2]), 3).loss(np.array([[0.2, 0.0, 0.8]])).round(1)
    array([-0.6, -0.8])
    """

    labels: NDArray[np.intp]
    n_classes: int

    @property
    def width(self) -> int:
        """The number of entries a row."""
        return self.n_classes - 1

    @cached_property
    def _signs(self) -> Array:
        return 2.0 * self.labels.astype(np.float64) - 1.0

    @cached_property
    def _wrong(self) -> NDArray[np.intp]:
        """The wrong classes of each row."""
        shift = np.arange(self.width)[None, :]
        return shift + (shift >= self.labels[:, None])

    def loss(self, scores: Array) -> Array:
        """Return the flat loss vector d of a hypothesis with these scores: (n,), or (n, K) for any K."""
        if scores.ndim == 1:
            d = -self._signs * scores
        else:
            own = np.take_along_axis(scores, self.labels[:, None], axis=1)
            d = (np.take_along_axis(scores, self._wrong, axis=1) - own).reshape(-1)
        low, high = (float(d.min()), float(d.max())) if d.size else (0.0, 0.0)
        if not (low >= -1.0 - 1e-9 and high <= 1.0 + 1e-9):  # NaN fails both
            raise ValueError(
                "a hypothesis returned scores outside [-1, 1] (two classes) or [0, 1] (more), or NaN; "
                "see maboost.testing.check_learner"
            )
        return d

    def takes_codes(self, leaves: int, entries: int) -> bool:
        """Return whether the loss of a hypothesis with this many answers is worth coding; `entries` is over all shards."""
        codes = leaves * self.n_classes * self.width
        return codes <= max(_FEW_CODES, _SHARE * entries)

    def coded_loss(self, answers: Array, leaves: NDArray[np.int32], threads: Threads) -> LeafCodes:
        """Return the loss of a hypothesis that answers ``answers[leaves]``, as codes."""
        if answers.ndim == 1:
            values = np.array([answers, -answers]).T
        else:
            classes = np.arange(self.n_classes)
            wrong = np.array([np.delete(classes, label) for label in classes])
            values = answers[:, wrong] - answers[:, :, None]
        flat = values.reshape(-1)
        low, high = float(np.minimum.reduce(flat)), float(np.maximum.reduce(flat))
        if not (low >= -1.0 - 1e-9 and high <= 1.0 + 1e-9):
            raise ValueError(f"a tree loses between {low!r} and {high!r}, outside [-1, 1]")
        codes = leaf_codes(leaves, self.small_labels, self.n_classes, values.size, threads)
        return LeafCodes(flat, codes)

    @cached_property
    def small_labels(self) -> NDArray[np.unsignedinteger]:
        """The labels in the smallest integer type that holds them."""
        return self.labels.astype(np.uint8 if self.n_classes <= 256 else np.uint16)

    def rewards(
        self,
        pairs: Array,
        weights: Array | float = 1.0,
        rows: NDArray[np.intp] | None = None,
        threads: Threads | None = None,
    ) -> Array:
        """Return the gain from a unit of score for each class on each of `rows` (default: all rows).

        The weight of a pair is `pairs` times the weight of its row, `weights`.
        """
        count = len(self.labels) if rows is None else len(rows)
        found = np.empty((count, self.n_classes))

        (threads or Threads()).run(rewards_of_rows, pairs, weights, rows, self.small_labels, found)
        return found

    def predicted(self, margins: Array) -> NDArray[np.integer]:
        """Return the class that its margins give to each row; a tie goes to a wrong class."""
        if self.width == 1:
            return self.small_labels ^ (margins <= 0.0)
        rival = np.argmin(margins.reshape(-1, self.width), axis=1)
        lost = self.worst_margins(margins) <= 0.0
        return np.where(lost, rival + (rival >= self.labels), self.labels)

    def margins(self, votes: Array) -> Array:
        """Return the margins of all pairs, flat, from the votes on each row: (n,), or (n, K) for more classes."""
        if votes.ndim == 1:
            return self._signs * votes
        found = np.empty(len(votes) * self.width)
        Threads().run(margins_of_votes, votes, self.small_labels, found)
        return found

    def worst_margins(self, margins: Array) -> Array:
        """Return each row's smallest margin over its wrong classes."""
        if self.width == 1:
            return margins
        return lowest_of_rows(margins, margins.size // self.width, Threads())


@dataclass(frozen=True)
class Validation:
    """Validation rows; `base` is their own normalised measure.

    >>> import numpy as np
    >>> X, labels = np.eye(2), np.array([0, 1])
    >>> validation = Validation(X, Game(labels, 2), np.full(2, 0.5))
    """

    X: Any
    game: Game
    base: Array
