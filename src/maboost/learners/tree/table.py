"""The interface to the rows of a fit, whether they are in memory, in files, or from an iterator."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.learners.tree.binning import Bins, find_bins
from maboost.learners.tree.grower import Binned
from maboost.runtime import row_hash
from maboost.runtime.communicator import Communicator, global_count
from maboost.runtime.threads import Threads

__all__ = ["MemoryTable", "Table", "as_table"]

Array = NDArray[np.float64]


class Table(ABC):
    """Rows of one shard, checked and encoded as numbers.

    Implementations: :class:`MemoryTable`, :class:`maboost.data.parquet.ParquetTable`,
    :class:`maboost.data.batches.BatchedTable`.

    >>> import numpy as np
    >>> table = as_table(np.array([[1.0], [2.0], [1.0]]))
    >>> hashes = table.row_hashes(seed=0)
    >>> bool(hashes[0] == hashes[2] != hashes[1])
    True
    """

    in_memory: ClassVar[bool]

    @abstractmethod
    def where(self, chosen: NDArray[np.bool_]) -> Any:
        """Return some of the rows, in the form that :func:`as_table` takes."""

    @abstractmethod
    def row_hashes(self, seed: int) -> Array:
        """Return a seeded number in [0, 1) for the content of each row."""

    @abstractmethod
    def sampled(self, comm: Communicator) -> tuple[NDArray[np.intp], Any] | None:
        """Return indices and values of rows that represent all: those of the smallest hashes.

        None if all rows are in memory and represent themselves.
        """

    @abstractmethod
    def contents(self) -> list[Any]:
        """Return arrays and texts that change with the rows; a fingerprint hashes them."""

    @abstractmethod
    def binned(
        self,
        weights: Array,
        max_bins: int,
        categorical: NDArray[np.bool_] | None,
        threads: Threads,
        comm: Communicator,
    ) -> Binned:
        """Return all rows in bins of similar weight, found from the rows of all shards."""

    @abstractmethod
    def for_validation(self, bins: Bins, threads: Threads) -> Any:
        """Return the rows in the form in which a tree with these bins scores them after every round."""


@dataclass(frozen=True)
class MemoryTable(Table):
    """An array or a sparse matrix."""

    X: Any
    in_memory: ClassVar[bool] = True

    def where(self, chosen: NDArray[np.bool_]) -> Any:
        return self.X[np.flatnonzero(chosen)]

    def row_hashes(self, seed: int) -> Array:
        X = self.X if sp.issparse(self.X) else np.asarray(self.X)
        if not _is_numeric(X):
            return np.array([_hash_of(row, seed) for row in X.tolist()])
        return row_hash.hash_rows(X, Threads(), seed) / 2.0**64

    def sampled(self, comm: Communicator) -> tuple[NDArray[np.intp], Any] | None:
        X = self.X
        if global_count(X.shape[0], comm) <= row_hash.SAMPLE_ROWS or not _is_numeric(X):
            return None
        hashes = row_hash.hash_rows(X.tocsr() if sp.issparse(X) else X, Threads())
        rows = row_hash.sampled_rows(hashes, comm)
        return None if rows is None else (rows, X[rows])

    def contents(self) -> list[Any]:
        if not sp.issparse(self.X):
            return [self.X]
        X = self.X.tocsr()
        return [X.data, X.indices, X.indptr]

    def binned(
        self,
        weights: Array,
        max_bins: int,
        categorical: NDArray[np.bool_] | None,
        threads: Threads,
        comm: Communicator,
    ) -> Binned:
        bins = find_bins(self.X, weights, max_bins, categorical, threads, comm)
        return Binned.of(self.X, bins, threads, comm)

    def for_validation(self, bins: Bins, threads: Threads) -> Any:
        return self.X


def as_table(X: Any) -> Table:
    """Return `X` as a table: itself if it is one, otherwise its values in memory."""
    return X if isinstance(X, Table) else MemoryTable(X)


def _is_numeric(X: Any) -> bool:
    return sp.issparse(X) or np.asarray(X).dtype.kind in "biuf"


def _hash_of(row: Any, seed: int) -> float:
    digest = hashlib.blake2b(repr((seed, row)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2.0**64
