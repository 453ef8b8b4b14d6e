"""Which labels of the training rows look wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.loop import Run

__all__ = ["Evidence"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What the fit saw of every training row.

    Attributes
    ----------
    kept : boolean array
        Which of the rows that were given to `fit` these are.
    given, predicted : integer arrays
        Class numbers: the label, and the vote of the ensemble.
    margin, mean_margin : arrays
        The normalised margin after the last round, and its mean over the rounds.
    mean_weight : array
        The mean density over the rounds: 1 is a row's own share.
    rounds : int
        How many there were; without any, no label was voted against.
    """

    kept: NDArray[np.bool_]
    given: NDArray[np.integer]
    predicted: NDArray[np.integer]
    margin: Array
    mean_margin: Array
    mean_weight: Array
    rounds: int

    @classmethod
    def of(cls, run: Run, kept: NDArray[np.bool_]) -> Evidence:
        """What a run that is over saw; takes the run's own sums, and small integers for classes."""
        small = np.min_scalar_type(run.game.n_classes)
        rounds = max(run.rounds, 1)
        run.push /= rounds
        run.trust /= rounds
        return cls(
            kept,
            run.game.labels.astype(small),
            run.game.predicted(run.margins).astype(small),
            run.game.worst_margins(run.margins) / (run.total_step or 1.0),
            run.trust,
            run.push,
            run.rounds,
        )

    @classmethod
    def of_one_class(cls, kept: NDArray[np.bool_]) -> Evidence:
        """Of rows that no round was needed for: every label is right."""
        classes, ones = np.zeros(int(kept.sum()), dtype=np.uint8), np.ones(int(kept.sum()))
        return cls(kept, classes, classes, ones, ones, ones, 0)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Positions among the rows that were given to `fit`."""
        return np.flatnonzero(self.kept)

    def quality(self) -> Array:
        """A number in [0, 1]: low for labels that round after round of pushing did not explain."""
        return np.clip(0.5 + 0.25 * (self.margin + self.mean_margin), 0.0, 1.0)

    def table(self, classes: NDArray[Any]) -> Any:
        """As a data frame with cleanlab's column names, indexed by position."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("suspect_labels() needs pandas: pip install pandas") from error
        quality = self.quality()
        return pd.DataFrame(
            {
                "is_label_issue": (self.mean_margin <= 0.0) & (self.rounds > 0),
                "label_quality": quality,
                "given_label": classes[self.given],
                "predicted_label": classes[self.predicted],
                "mean_weight": self.mean_weight,
            },
            index=pd.Index(self.rows, name="row"),
        ).sort_values("label_quality", kind="stable")
