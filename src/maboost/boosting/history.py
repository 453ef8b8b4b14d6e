"""The record of a run, with one entry for each round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.learners.base import Hypothesis
from maboost.runtime.optional_packages import missing_package

__all__ = ["History", "Record", "Round", "Rounds"]


@dataclass(frozen=True)
class Record:
    r"""The record of one round.

    `edge` to `gain` describe the step; `error_bound` to `margin_bound` the ensemble after it (margins
    divided by the sum of steps; `margin_bound` is the certified soft margin); `smoothness` (largest
    density), `ess` (effective fraction of the base measure) and `nonzero` (fraction of rows with
    weight) the distribution the hypothesis was trained on; `rows_used` the number of rows it was shown.
    `val_score` is the score for early stopping: larger is better, NaN without validation rows.
    `bytes_read` is the number of binned values that the round read, one byte each: the rows of every
    histogram in all columns (zeros of a sparse matrix included), unless a copy of a sample was in memory,
    and all rows in every column that the tree splits on. It is 0 if the estimator is not the library's own tree.
    `penalty` is the step times the l1 factor, :math:`\eta_t\alpha_t`; zero for all boosters but SparseBoost.

    >>> from sklearn.datasets import load_iris
    >>> from maboost import MABoostClassifier
    >>> model = MABoostClassifier(n_estimators=3, random_state=0).fit(*load_iris(return_X_y=True))
    >>> first = model.history_.records[0]
    >>> first.round, first.smoothness, first.rows_used
    (1, 1.0, 150)
    """

    round: int
    edge: float
    step: float
    gain: float
    error_bound: float
    train_error: float
    val_error: float
    min_margin: float
    soft_margin: float
    margin_bound: float
    smoothness: float
    ess: float
    nonzero: float
    rows_used: int
    seconds: float
    val_score: float = math.nan
    bytes_read: int = 0
    penalty: float = 0.0


@dataclass(frozen=True)
class Round:
    """The result of a round: a hypothesis, and the record.

    `weights` are the votes of all hypotheses after the round, where the booster has refitted them. None means that the
    new hypothesis has the vote `record.step` and the others keep theirs.

    >>> list(Round.__dataclass_fields__)
    ['hypothesis', 'record', 'group_errors', 'weights']
    """

    hypothesis: Hypothesis
    record: Record
    group_errors: dict[Any, float] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None


class Rounds(Protocol):
    """A source of rounds: rows at hand (:class:`~maboost.boosting.loop.Run`) or a stream of them.

    >>> from maboost.boosting.loop import Run
    >>> from maboost.boosting.streaming import StreamRun
    >>> [callable(source.__next__) for source in (Run, StreamRun)]
    [True, True]
    """

    ended: str | None
    """Why there is no further round; None before the end."""

    def __next__(self) -> Round:
        """Return the next round; StopIteration after the last."""


class History:
    """The records of all rounds, with columns by name.

    Attributes
    ----------
    records : list of Record
    group_errors : dict
        The training error of each data source after every round (combined boosting).

    >>> history = History()
    >>> len(history), list(history["edge"])
    (0, [])
    """

    columns = tuple(f.name for f in fields(Record))

    def __init__(
        self,
        records: list[Record] | None = None,
        group_errors: dict[Any, list[float]] | None = None,
    ) -> None:
        self.records = list(records or [])
        self.group_errors = {name: list(e) for name, e in (group_errors or {}).items()}

    def append(self, record: Record, group_errors: dict[Any, float] | None = None) -> None:
        """Add a round."""
        self.records.append(record)
        for name, error in (group_errors or {}).items():
            self.group_errors.setdefault(name, []).append(error)

    def upto(self, rounds: int) -> History:
        """Return the history of the first rounds."""
        errors = {name: e[:rounds] for name, e in self.group_errors.items()}
        return History(self.records[:rounds], errors)

    def since(self, rounds: int) -> History:
        """Return the history without the first rounds."""
        errors = {name: e[rounds:] for name, e in self.group_errors.items()}
        return History(self.records[rounds:], errors)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, column: str) -> NDArray[Any]:
        if column not in self.columns:
            raise KeyError(f"history has no column {column!r}; it has {self.columns}")
        return np.array([getattr(r, column) for r in self.records])

    def to_frame(self) -> Any:
        """Return the history as a pandas DataFrame (pandas must be installed)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(missing_package("history_.to_frame()", "pandas")) from error
        return pd.DataFrame({name: self[name] for name in self.columns})

    def __repr__(self) -> str:
        if not self.records:
            return "History(0 rounds)"
        last = self.records[-1]
        return (
            f"History({len(self)} rounds, train_error={last.train_error:.4g}, "
            f"error_bound={last.error_bound:.4g})"
        )
