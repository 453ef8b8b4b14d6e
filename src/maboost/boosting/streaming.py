r"""Boosting by filtering: MadaBoost on a stream, without state for any row.

In lazy form the weight of a row is a function of its margin alone, :math:`y = \min(1, e^{-M})`. Rows of the
stream are accepted with that probability, so the accepted rows are a sample of the
distribution; nothing is stored about the others. Two quantities are then known up to chance:

- the edge of a hypothesis, from accepted rows on which it was not trained: at least the mean of
  :math:`a h(x)` minus Hoeffding's :math:`\sqrt{2\log(1/\delta)/m}`;
- the acceptance rate, which is at least the error, since every wrong row is accepted: at most
  Clopper and Pearson's upper limit.

With :math:`\delta_t = \delta/(t(t+1))` for round t, and :math:`\delta_t/2^j` for the
j-th measurement on more rows, all statements hold together with probability :math:`1-2\delta`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betaincinv

from maboost.boosting.ensemble import Ensemble
from maboost.boosting.history import Record, Round
from maboost.learners.base import Hypothesis
from maboost.runtime.threads import Threads

__all__ = ["Filter", "Filtered", "StreamRun", "acceptance_limit", "edge_limit"]

Array = NDArray[np.float64]

_MOST = 64  # times the sample size: the most rows that are accepted for one round
_RARE = 1000  # rows read for each accepted row, before a round gives up


def edge_limit(mean: float, count: int, delta: float) -> float:
    """Return a lower bound of an edge, with probability 1 - delta, given a mean over `count` rows (Hoeffding).

    >>> round(edge_limit(0.5, 200, 0.05), 4)
    0.3269
    """
    return mean - math.sqrt(2.0 * math.log(1.0 / delta) / count)


def acceptance_limit(accepted: int, drawn: int, delta: float) -> float:
    """Return an upper bound of the acceptance rate, with probability 1 - delta (Clopper and Pearson).

    >>> round(acceptance_limit(0, 100, 0.05), 4)
    0.0295
    """
    return (
        1.0 if accepted >= drawn else float(betaincinv(accepted + 1, drawn - accepted, 1.0 - delta))
    )


@dataclass
class Filtered:
    """Rows accepted for one round, and the number of rows read."""

    X: list[Any] = field(default_factory=list)
    labels: list[NDArray[np.intp]] = field(default_factory=list)
    accepted: int = 0
    drawn: int = 0
    wrong: int = 0

    def rows(self) -> tuple[Any, NDArray[np.intp]]:
        """Return all accepted rows."""
        stacked = sp.vstack if any(map(sp.issparse, self.X)) else np.concatenate
        return stacked(self.X), np.concatenate(self.labels)


class Filter:
    """A stream of batches, and the rest of a batch after a round has enough rows.

    Parameters
    ----------
    batches : iterable of (X, labels)
        Endless or not; rows are dense or sparse, labels 0 and 1.
    random_state : RandomState
        Draws the accepted rows.
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
        """Accept rows until there are `wanted`, `most` have been read, or the stream ends."""
        found = Filtered()
        while found.accepted < wanted and found.drawn < most:
            batch = self._next()
            if batch is None:
                break
            X, labels = batch
            margins = (2.0 * labels - 1.0) * votes(X)
            chance = np.exp(-np.maximum(margins, 0.0))
            accepted = np.flatnonzero(self.random_state.random_sample(len(labels)) < chance)
            # keep the rest of the batch for the next round
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


class StreamRun:
    """Rounds of MadaBoost on a stream.

    A round trains a hypothesis on half of the accepted rows and measures its edge on the other half. Then it
    draws the rows of the next round, which measure the error of the ensemble.

    Parameters
    ----------
    stream : Filter
    train : callable
        ``train(X, labels)`` returns a hypothesis.
    size : int
        Accepted rows a round.
    delta : float
        The probability that some edge, or some error, is outside its limit.
    learning_rate : float
        Factor on every step.
    random_state : RandomState
        Draws the halves.
    threads : Threads, optional

    Attributes
    ----------
    ensemble : Ensemble
        The rounds so far; before the first it predicts the heavier class.
    sample : Filtered
        The rows of the next round.
    ended : str or None
        The reason why no further round is possible.

    Examples
    --------
    >>> import numpy as np
    >>> class Sign:
    ...     def scores(self, X):
    ...         return np.sign(X[:, 0])
    >>> X = np.random.RandomState(0).normal(size=(4000, 1))
    >>> labels = (X[:, 0] > 0.2).astype(int)
    >>> random_state = np.random.RandomState(0)
    >>> stream = Filter([(X, labels)], random_state)
    >>> run = StreamRun(stream, lambda X, labels: Sign(), 1000, 0.05, 1.0, random_state)
    >>> record = next(run).record
    >>> bool(record.train_error <= record.error_bound)
    True
    """

    def __init__(
        self,
        stream: Filter,
        train: Callable[[Any, NDArray[np.intp]], Hypothesis],
        size: int,
        delta: float,
        learning_rate: float,
        random_state: np.random.RandomState,
        threads: Threads | None = None,
    ) -> None:
        self.stream = stream
        self.train = train
        self.size = size
        self.delta = delta
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.threads = threads or Threads()
        self.ended: str | None = None
        self.ensemble = Ensemble(2)
        self.sample = self._draw(size)
        # rows have no margin yet, so rows of both classes are accepted
        self.ensemble.heaviest = int(np.argmax(np.bincount(np.concatenate(self.sample.labels))))

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        self.ended = self.ended or self._too_few()
        if self.ended is not None:
            raise StopIteration
        began = time.perf_counter()
        found = self._search()
        if found is None:
            self.ended = "no edge can be distinguished from chance on the rows of the stream"
            raise StopIteration
        hypothesis, edge, used = found
        step = self.learning_rate * math.atanh(min(edge, 1.0 - 1e-12))
        record = self._record(edge, step, used, began)
        self.ensemble.add(hypothesis, step)
        self.sample = Filtered()  # after the round these rows are no sample of the distribution
        self.sample = self._draw(self.size)
        return Round(hypothesis, self._measured(record))

    def _draw(self, wanted: int) -> Filtered:
        return self.stream.draw(self._votes, wanted, wanted * _RARE)

    def _votes(self, X: Any) -> Array:
        """Return H, which is zero before the first round, when the ensemble votes for its heavier class."""
        return self.ensemble.votes(X, self.threads) if self.ensemble else np.zeros(X.shape[0])

    def _share(self) -> float:
        """Return the error probability of the next round; these probabilities add up to `delta`."""
        t = len(self.ensemble) + 1
        return self.delta / (t * (t + 1))

    def _too_few(self) -> str | None:
        """Return why there are too few rows for another round; None if there are enough."""
        if self.sample.accepted >= self.size:
            return None
        if self.stream.ended:
            return (
                f"the stream ended after {self.stream.rows_seen} rows, before sample_size={self.size} were "
                "accepted"
            )
        drawn, accepted = self.sample.drawn, self.sample.accepted
        return f"of {drawn} rows only {accepted} were accepted: hardly any is wrong"

    def _search(self) -> tuple[Hypothesis, float, int] | None:
        """Return a hypothesis, a lower bound of its edge, and its number of rows; None if no edge can be shown."""
        for look in count(1):
            X, labels = self.sample.rows()
            if len(np.unique(labels)) < 2:
                return None
            order = self.random_state.permutation(len(labels))
            train, test = order[::2], order[1::2]
            hypothesis = self.train(X[train], labels[train])
            mean = float(np.mean((2.0 * labels[test] - 1.0) * hypothesis.scores(X[test])))
            # the measurements share the error probability of the round, since any may be the last
            edge = edge_limit(mean, len(test), self._share() / 2.0**look)
            if edge >= 0.5 * mean > 0.0 or 2 * len(labels) > _MOST * self.size:
                break
            more = self._draw(len(labels))
            if more.accepted < len(labels):
                break
            self.sample.X += more.X
            self.sample.labels += more.labels
        return (hypothesis, edge, len(labels)) if edge > 0.0 else None

    def _record(self, edge: float, step: float, used: int, began: float) -> Record:
        rate = self.sample.accepted / self.sample.drawn
        nan = math.nan
        return Record(
            round=len(self.ensemble) + 1, edge=edge, step=step,
            gain=rate * (1.0 - math.cosh(step) + edge * math.sinh(step)),
            error_bound=1.0, train_error=nan, val_error=nan, min_margin=nan, soft_margin=nan,
            margin_bound=nan, smoothness=1.0 / rate, ess=nan, nonzero=1.0, rows_used=used,
            seconds=time.perf_counter() - began,
        )  # fmt: skip

    def _measured(self, record: Record) -> Record:
        """Return the record with the error that the rows of the next round measure."""
        sample = self.sample
        if not sample.drawn:  # the stream has ended
            return record
        limit = acceptance_limit(sample.accepted, sample.drawn, self._share())
        return replace(record, train_error=sample.wrong / sample.drawn, error_bound=limit)
