"""The record of a run, one row a round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.learners.base import Hypothesis

__all__ = ["History", "Record", "Round"]


@dataclass(frozen=True)
class Record:
    r"""One round.

    `edge` to `gain` describe the step; `error_bound` to `margin_bound` the ensemble after it (margins
    divided by the sum of steps; `margin_bound` is the certified soft margin); `smoothness` (largest
    density), `ess` (effective fraction of the base measure) and `nonzero` (fraction of rows with
    weight) the distribution the hypothesis was trained on; `rows_used` how many rows it was shown.
    `val_score` is what early stopping looks at: larger is better, NaN without validation rows.
    `bytes_read` is how much of the binned rows the round touched, a byte a value: the rows of every
    histogram in all columns, unless a sample of them was at hand already, and all rows in every column
    that the tree splits on. It is 0 where the estimator is not the library's own tree.
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
    """What a round produced: a hypothesis, and the record of it.

    >>> list(Round.__dataclass_fields__)
    ['hypothesis', 'record', 'group_errors']
    """

    hypothesis: Hypothesis
    record: Record
    group_errors: dict[Any, float] = field(default_factory=dict)


class History:
    """Records of all rounds; columns by name.

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
        """The first rounds."""
        errors = {name: e[:rounds] for name, e in self.group_errors.items()}
        return History(self.records[:rounds], errors)

    def since(self, rounds: int) -> History:
        """The rounds after the first ones."""
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
        """The history as a pandas DataFrame (pandas must be installed)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("history_.to_frame() needs pandas: pip install pandas") from error
        return pd.DataFrame({name: self[name] for name in self.columns})

    def __repr__(self) -> str:
        if not self.records:
            return "History(0 rounds)"
        last = self.records[-1]
        return (
            f"History({len(self)} rounds, train_error={last.train_error:.4g}, "
            f"error_bound={last.error_bound:.4g})"
        )
