r"""Boosting by filtering: MadaBoost on a stream, with no state kept for any row.

In lazy form the weight of a row is a function of its margin alone, :math:`y = \min(1, e^{-M})`. Rows
that come by are accepted with that probability, so that the accepted ones are a sample of the
distribution; nothing is remembered of the others. Two things are then known up to chance:

- the edge of a hypothesis, from accepted rows it was not trained on: at least the mean of
  :math:`a h(x)` minus Hoeffding's :math:`\sqrt{2\log(1/\delta)/m}`;
- the acceptance rate, which is at least the error, since every row that is wrong is accepted: at most
  Clopper and Pearson's upper limit.

With :math:`\delta_t = \delta/(t(t+1))` for round t, and :math:`\delta_t/2^j` where it is measured for the
j-th time on more rows, all statements hold together with probability :math:`1-2\delta`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betaincinv

__all__ = ["Filter", "Filtered", "acceptance_limit", "edge_limit"]


def edge_limit(mean: float, count: int, delta: float) -> float:
    """What the edge is at least, with probability 1 - delta, given a mean over `count` rows (Hoeffding).

    >>> round(edge_limit(0.5, 200, 0.05), 4)
    0.3269
    """
    return mean - math.sqrt(2.0 * math.log(1.0 / delta) / count)


def acceptance_limit(accepted: int, drawn: int, delta: float) -> float:
    """What the acceptance rate is at most, with probability 1 - delta (Clopper and Pearson).

    >>> round(acceptance_limit(0, 100, 0.05), 4)
    0.0295
    """
    return (
        1.0 if accepted >= drawn else float(betaincinv(accepted + 1, drawn - accepted, 1.0 - delta))
    )


@dataclass
class Filtered:
    """Rows accepted for one round, and how many were looked at."""

    X: list[Any] = field(default_factory=list)
    labels: list[NDArray[np.intp]] = field(default_factory=list)
    accepted: int = 0
    drawn: int = 0
    wrong: int = 0

    def rows(self) -> tuple[Any, NDArray[np.intp]]:
        """All that was accepted."""
        stacked = sp.vstack if any(map(sp.issparse, self.X)) else np.concatenate
        return stacked(self.X), np.concatenate(self.labels)


class Filter:
    """A stream of batches, and what is left of one when a round has enough.

    Parameters
    ----------
    batches : iterable of (X, labels)
        Endless or not; rows are dense or sparse, labels 0 and 1.
    random_state : RandomState
        Draws who is accepted.
    """

    def __init__(
        self, batches: Iterable[tuple[Any, NDArray[np.intp]]], random_state: np.random.RandomState
    ) -> None:
        self._stream: Iterator[tuple[Any, NDArray[np.intp]]] = iter(batches)
        self._left: tuple[Any, NDArray[np.intp]] | None = None
        self.random_state = random_state
        self.ended = False
        self.rows_seen = 0

    def draw(self, votes: Any, wanted: int, most: int) -> Filtered:
        """Accept rows until there are `wanted`, `most` have been looked at, or the stream ends."""
        found = Filtered()
        while found.accepted < wanted and found.drawn < most:
            batch = self._next()
            if batch is None:
                break
            X, labels = batch
            margins = (2.0 * labels - 1.0) * votes(X)
            chance = np.exp(-np.maximum(margins, 0.0))
            accepted = np.flatnonzero(self.random_state.random_sample(len(labels)) < chance)
            # the rest of the batch is for the next round
            if found.accepted + len(accepted) > wanted:
                used = int(accepted[wanted - found.accepted - 1]) + 1
                self._left = X[used:], labels[used:]
                accepted = accepted[: wanted - found.accepted]
            else:
                used = len(labels)
            found.X.append(X[accepted])
            found.labels.append(labels[accepted])
            found.accepted += len(accepted)
            found.drawn += used
            found.wrong += int(np.sum(margins[:used] <= 0.0))
            self.rows_seen += used
        return found

    def _next(self) -> tuple[Any, NDArray[np.intp]] | None:
        if self._left is not None:
            left, self._left = self._left, None
            return left
        batch = next(self._stream, None)
        self.ended = batch is None
        return batch
