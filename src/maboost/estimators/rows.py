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

    def where(self, chosen: NDArray[np.bool_]) -> TrainingRows:
        """Some of these rows."""
        X = _safe_indexing(self.X, np.flatnonzero(chosen))
        return replace(self, X=X, y=self.y[chosen], weights=self.weights.without(~chosen))

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
        for part in (*parts, self.y, self.weights.scaled, self.weights.kept, self.sample_domain):
            array = np.asarray(part)
            if array.dtype == object:
                digest.update(repr(array.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(repr((array.shape, array.dtype.str)).encode())
        return digest.hexdigest()
