"""The rows of one fit, checked and encoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from maboost.estimators.weights import RowWeights
from maboost.learners.tree.binning import SAMPLE_ROWS, hash_rows, last_hash
from maboost.threads import Threads

__all__ = ["TrainingRows"]


@dataclass(frozen=True)
class TrainingRows:
    """Rows and labels, with the weights that say which of the user's rows they are.

    Attributes
    ----------
    X, y
        The rows of positive weight and their labels.
    weights : RowWeights
    random_state : RandomState
    sample_domain : array-like, optional
        The source of each of the user's rows.
    """

    X: Any
    y: NDArray[Any]
    weights: RowWeights
    random_state: np.random.RandomState
    sample_domain: Any = None

    def of_positive_weight(self) -> TrainingRows:
        """Without the rows that `weights` leaves out; X and y come with all of them."""
        kept = self.weights.kept
        if kept.all():
            return self
        return replace(self, X=_safe_indexing(self.X, np.flatnonzero(kept)), y=self.y[kept])

    def close(self) -> None:
        """Give back what rows on disk have borrowed."""
        if hasattr(self.X, "close"):
            self.X.close()

    def where(self, chosen: NDArray[np.bool_]) -> TrainingRows:
        """Some of these rows."""
        X = _safe_indexing(self.X, np.flatnonzero(chosen))
        return replace(self, X=X, y=self.y[chosen], weights=self.weights.without(~chosen))

    def sampled(self) -> TrainingRows:
        """Rows in memory that stand for these: those of the smallest content hashes, where they are many."""
        if hasattr(self.X, "sample"):
            chosen = np.zeros(len(self.y), dtype=bool)
            chosen[self.X.sample.rows] = True
            weights = self.weights.without(~chosen)
            return replace(self, X=self.X.sample.values(), y=self.y[chosen], weights=weights)
        if self.X.shape[0] <= SAMPLE_ROWS or not _is_numeric(self.X):
            return self
        hashes = hash_rows(self.X.tocsr() if sp.issparse(self.X) else self.X, 0, Threads())
        last = last_hash(hashes, SAMPLE_ROWS)
        return self if last is None else self.where(hashes <= last)

    @cached_property
    def _encoded(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        classes, labels = np.unique(self.y, return_inverse=True)
        return classes, labels

    @property
    def classes(self) -> NDArray[Any]:
        """The classes among these rows, sorted."""
        return self._encoded[0]

    @property
    def labels(self) -> NDArray[np.intp]:
        """Each row's class as a number."""
        return self._encoded[1]

    def fingerprint(self) -> str:
        """A hash of rows, labels, weights and sources in their order."""
        digest = hashlib.blake2b(digest_size=16)
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
