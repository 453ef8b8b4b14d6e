"""Stopping rules that the user chooses."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.history import Record
from maboost.runtime.communicator import Communicator, SerialCommunicator

__all__ = ["MaxSeconds", "NoImprovement", "Stop", "TargetError", "best_round"]

_TIE = (
    1e-12  # scores that differ by less are equal: a user's scorer may depend on the order of rows
)


class Stop(Protocol):
    """A rule that looks at each round and returns a reason to stop, or None."""

    def __call__(self, record: Record) -> str | None:
        """Return a reason to stop, or None to continue."""


@dataclass
class TargetError:
    """Stop when the error, measured or certified, is small enough; says which came first.

    With `certified_only` a measured error does not count: on a stream it is a mean over few rows.
    """

    target: float
    certified_only: bool = False

    def __call__(self, record: Record) -> str | None:
        if record.error_bound <= self.target:
            return f"target_error={self.target:g} is certified"
        if not self.certified_only and record.train_error <= self.target:
            return f"target_error={self.target:g} is measured on the training rows"
        return None


@dataclass
class MaxSeconds:
    """Stop after a time; the current round is finished. All shards use the clock of the first."""

    seconds: float
    began: float = field(default_factory=time.perf_counter)
    comm: Communicator = field(default_factory=SerialCommunicator)

    def __call__(self, record: Record) -> str | None:
        passed = self.comm.broadcast(np.array([time.perf_counter() - self.began]))
        if passed[0] >= self.seconds:
            return f"max_seconds={self.seconds:g} has passed"
        return None


@dataclass
class NoImprovement:
    """Stop when the validation score has not risen by more than `tol` for `patience` rounds."""

    patience: int
    tol: float
    best: float = float("-inf")
    best_round: int = 0

    def __call__(self, record: Record) -> str | None:
        if record.val_score > self.best + self.tol:
            self.best, self.best_round = record.val_score, record.round
        if record.round - self.best_round >= self.patience:
            return f"no better validation score for {self.patience} rounds"
        return None


def best_round(scores: NDArray[np.float64]) -> int:
    """Return the first round with the highest validation score.

    >>> best_round(np.array([0.5, 0.75, 0.75 + 1e-16, 0.7]))
    2
    """
    top = float(np.max(scores))
    if not math.isfinite(top):
        return 1 + int(np.argmax(scores))
    return 1 + int(np.argmax(scores >= top - _TIE * max(1.0, abs(top))))
