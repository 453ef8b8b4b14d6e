"""The rows of one fit, checked and encoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from maboost.boosting.game import Validation
from maboost.data.weights import RowWeights, distinct_values
from maboost.learners.tree.table import Table, as_table
from maboost.runtime.communicator import Communicator, SerialCommunicator, global_count

__all__ = ["TrainingRows"]


@dataclass(frozen=True)
class TrainingRows:
    """Rows and labels of one shard, with weights that map them to the user's rows.

    Attributes
    ----------
    X, y
        The rows of positive weight and their labels.
    weights : RowWeights
    random_state : RandomState
    sample_domain : array-like, optional
        The source of each of the user's rows.
    comm : Communicator
        The communicator with the other shards.
    given : optional
        The user's own X, before it was checked and encoded; None if that is on disk.
    categories : dict
        The categories that the codes in X stand for, by column.
    """

    X: Any
    y: NDArray[Any]
    weights: RowWeights
    random_state: np.random.RandomState
    sample_domain: Any = None
    comm: Communicator = field(default_factory=SerialCommunicator)
    given: Any = None
    categories: dict[Any, list[Any]] = field(default_factory=dict)
    # not a cached property: in Python 3.11 these hold a lock, and shards that are threads of one process would
    # wait for each other on it
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of_positive_weight(self) -> TrainingRows:
        """Return the rows without those that `weights` leaves out; X and y have all of them."""
        kept = self.weights.kept
        if kept.all():
            return self
        return replace(self, X=_safe_indexing(self.X, np.flatnonzero(kept)), y=self.y[kept])

    @property
    def as_given(self) -> Any:
        """Return these rows as the user gave them, for example as a data frame."""
        if self.given is None:
            return self.X
        kept = self.weights.kept
        return self.given if kept.all() else _safe_indexing(self.given, np.flatnonzero(kept))

    def of_kept(self, values: Any, name: str) -> NDArray[Any]:
        """Return the entries of an array with one entry for each of the user's rows, for these rows."""
        array, kept = np.asarray(values), self.weights.kept
        if array.shape != kept.shape:
            raise ValueError(
                f"{name} must have one entry for each row ({kept.size}), got shape {array.shape}"
            )
        return array[kept]

    def where(self, chosen: NDArray[np.bool_]) -> TrainingRows:
        """Some of these rows."""
        X = self.table.where(chosen)
        return replace(self, X=X, y=self.y[chosen], weights=self.weights.without(~chosen))

    def shared(self, shares: NDArray[np.float64]) -> TrainingRows:
        """Return the rows with a share of each row's weight; rows with share zero are left out."""
        chosen = shares > 0.0
        some = self.where(chosen)
        return replace(some, weights=some.weights.times(shares[chosen]))

    def sampled(self) -> TrainingRows:
        """Rows in memory that stand for these: those of the smallest content hashes, where they are many."""
        sample = self.table.sampled(self.comm)
        if sample is None:
            return self
        rows, X = sample
        chosen = np.zeros(len(self.y), dtype=bool)
        chosen[rows] = True
        return replace(self, X=X, y=self.y[chosen], weights=self.weights.without(~chosen))

    @property
    def table(self) -> Table:
        """The rows as a table."""
        return as_table(self.X)

    @property
    def count(self) -> int:
        """The number of rows over all shards."""
        return global_count(len(self.y), self.comm)

    @property
    def classes(self) -> NDArray[Any]:
        """The classes among the rows of all shards, sorted."""
        if "classes" not in self._known:
            self._known["classes"] = distinct_values(self.y, self.comm)
        found: NDArray[Any] = self._known["classes"]
        return found

    @property
    def labels(self) -> NDArray[np.intp]:
        """The class of each row as a number."""
        if "labels" not in self._known:
            self._known["labels"] = np.searchsorted(self.classes, self.y)
        found: NDArray[np.intp] = self._known["labels"]
        return found

    def validation_fingerprint(self, validation: Validation | None) -> str:
        """Return a hash of the validation rows of this fit."""
        if validation is None:
            return "none"
        n = len(validation.base)
        weights = RowWeights(np.ones(n, dtype=bool), validation.base, validation.base, 0)
        return TrainingRows(
            validation.X, validation.game.labels, weights, self.random_state
        ).fingerprint()

    def fingerprint(self) -> str:
        """Return a hash of rows, labels, weights and sources in their order."""
        digest = hashlib.blake2b(digest_size=16)
        if self.categories:
            digest.update(repr(list(self.categories.items())).encode())
        for part in (
            *self.table.contents(),
            self.y,
            self.weights.scaled,
            self.weights.kept,
            self.sample_domain,
        ):
            array = np.asarray(part)
            if array.dtype == object:
                digest.update(repr(array.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(repr((array.shape, array.dtype.str)).encode())
        return digest.hexdigest()
