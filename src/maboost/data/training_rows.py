"""The rows of one fit, checked and encoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from maboost.boosting.game import Validation
from maboost.data.weights import RowWeights, distinct_values
from maboost.runtime import row_hash as content
from maboost.runtime.communicator import Communicator, SerialCommunicator, global_count
from maboost.runtime.row_hash import hash_rows, sampled_rows
from maboost.runtime.threads import Threads

__all__ = ["TrainingRows"]


@dataclass(frozen=True)
class TrainingRows:
    """Rows and labels of one shard, with the weights that say which of the user's rows they are.

    Attributes
    ----------
    X, y
        The rows of positive weight and their labels.
    weights : RowWeights
    random_state : RandomState
    sample_domain : array-like, optional
        The source of each of the user's rows.
    comm : Communicator
        The other shards.
    given : optional
        The user's own X, before it was checked and encoded; None where that is on disk.
    categories : dict
        By column what the codes in X stand for, where it has any.
    """

    X: Any
    y: NDArray[Any]
    weights: RowWeights
    random_state: np.random.RandomState
    sample_domain: Any = None
    comm: Communicator = field(default_factory=SerialCommunicator)
    given: Any = None
    categories: dict[Any, list[Any]] = field(default_factory=dict)
    # not a cached property: in Python 3.11 those hold a lock, on which shards that are threads of one
    # process would wait for each other
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of_positive_weight(self) -> TrainingRows:
        """Without the rows that `weights` leaves out; X and y come with all of them."""
        kept = self.weights.kept
        if kept.all():
            return self
        return replace(self, X=_safe_indexing(self.X, np.flatnonzero(kept)), y=self.y[kept])

    @property
    def as_given(self) -> Any:
        """These rows as the user gave them: a data frame, say."""
        if self.given is None:
            return self.X
        kept = self.weights.kept
        return self.given if kept.all() else _safe_indexing(self.given, np.flatnonzero(kept))

    def of_kept(self, values: Any, name: str) -> NDArray[Any]:
        """What the user says of each of his rows, for these."""
        array, kept = np.asarray(values), self.weights.kept
        if array.shape != kept.shape:
            raise ValueError(
                f"{name} must have one entry a row ({kept.size}), got shape {array.shape}"
            )
        return array[kept]

    def where(self, chosen: NDArray[np.bool_]) -> TrainingRows:
        """Some of these rows."""
        if hasattr(self.X, "blocks"):  # rows on disk
            X = self.X.where(chosen)
        else:
            X = _safe_indexing(self.X, np.flatnonzero(chosen))
        return replace(self, X=X, y=self.y[chosen], weights=self.weights.without(~chosen))

    def shared(self, shares: NDArray[np.float64]) -> TrainingRows:
        """A share of each row's weight; rows of no share are left out."""
        chosen = shares > 0.0
        some = self.where(chosen)
        return replace(some, weights=some.weights.times(shares[chosen]))

    def sampled(self) -> TrainingRows:
        """Rows in memory that stand for these: those of the smallest content hashes, where they are many."""
        if hasattr(self.X, "sample"):
            chosen = np.zeros(len(self.y), dtype=bool)
            chosen[self.X.sample.rows] = True
            weights = self.weights.without(~chosen)
            return replace(self, X=self.X.sample.values(), y=self.y[chosen], weights=weights)
        if self.count <= content.SAMPLE_ROWS or not _is_numeric(self.X):
            return self
        hashes = hash_rows(self.X.tocsr() if sp.issparse(self.X) else self.X, Threads())
        rows = sampled_rows(hashes, self.comm)
        if rows is None:
            return self
        chosen = np.zeros(len(self.y), dtype=bool)
        chosen[rows] = True
        return self.where(chosen)

    @property
    def count(self) -> int:
        """Rows over all shards."""
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
        """Each row's class as a number."""
        if "labels" not in self._known:
            self._known["labels"] = np.searchsorted(self.classes, self.y)
        found: NDArray[np.intp] = self._known["labels"]
        return found

    def validation_fingerprint(self, validation: Validation | None) -> str:
        """A hash of the validation rows of this fit."""
        if validation is None:
            return "none"
        n = len(validation.base)
        weights = RowWeights(np.ones(n, dtype=bool), validation.base, validation.base, 0)
        return TrainingRows(
            validation.X, validation.game.labels, weights, self.random_state
        ).fingerprint()

    def fingerprint(self) -> str:
        """A hash of rows, labels, weights and sources in their order."""
        digest = hashlib.blake2b(digest_size=16)
        if self.categories:
            digest.update(repr(list(self.categories.items())).encode())
        X = self.X.tocsr() if sp.issparse(self.X) else self.X
        parts = [X.data, X.indices, X.indptr] if sp.issparse(self.X) else [X]
        if hasattr(X, "fingerprint"):  # rows on disk
            parts = [X.fingerprint()]
        for part in (*parts, self.y, self.weights.scaled, self.weights.kept, self.sample_domain):
            array = np.asarray(part)
            if array.dtype == object:
                digest.update(repr(array.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(repr((array.shape, array.dtype.str)).encode())
        return digest.hexdigest()


def _is_numeric(X: Any) -> bool:
    return sp.issparse(X) or np.asarray(X).dtype.kind in "biuf"
