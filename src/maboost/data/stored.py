"""The base class of tables whose rows are not in memory."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maboost.data.binned import BinningSample, Cache
from maboost.data.files import TableError
from maboost.learners.tree.binning import Bins
from maboost.learners.tree.grower import Binned
from maboost.learners.tree.table import Table
from maboost.runtime.communicator import Communicator
from maboost.runtime.row_hash import hash_rows
from maboost.runtime.threads import Threads

__all__ = ["Columns", "OnBatch", "StoredTable", "silent"]

Array = NDArray[np.float64]
Columns = slice | NDArray[np.intp]  # positions of features

# called after every batch with the purpose of the pass, the rows done and the number of rows
OnBatch = Callable[[str, int, int], None]


def silent(purpose: str, done: int, total: int) -> None:
    """Do nothing after a batch."""


class StoredTable(Table):
    """Rows that come in blocks, with their sampling, binning and caching."""

    __dataclass_fields__: ClassVar[dict[str, Any]]  # every subclass is a dataclass
    features: list[str]
    cache: Cache  # shared by all tables with these rows or a part of them
    keep: NDArray[np.bool_] | None
    on_batch: OnBatch
    in_memory: ClassVar[bool] = False

    @property
    @abstractmethod
    def all_rows(self) -> int:
        """The number of rows, including those that are not kept."""

    @property
    def rows(self) -> int:
        """The number of rows that are kept."""
        return self.all_rows if self.keep is None else int(self.keep.sum())

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Return some of the kept rows."""
        keep = np.ones(self.all_rows, dtype=bool) if self.keep is None else self.keep.copy()
        keep[np.flatnonzero(keep)] = chosen
        return replace(self, keep=keep)

    @abstractmethod
    def all_blocks(self, columns: Columns) -> Iterator[Array]:
        """Yield some features of all rows as floats, a batch at a time."""

    def blocks(self, purpose: str, columns: Columns = slice(None)) -> Iterator[Array]:
        """Yield some features of the kept rows, a batch at a time."""
        at, done, total = 0, 0, self.rows
        for block in self.all_blocks(columns):
            length = len(block)
            if self.keep is not None:
                block = block[self.keep[at : at + length]]
            at, done = at + length, done + len(block)
            self._refuse_infinity(block, columns)
            if len(block):
                yield block
                self.on_batch(purpose, done, total)

    def names_of(self, columns: Columns) -> list[str]:
        """Return the names of some features."""
        chosen = np.arange(len(self.features))[columns]
        return [self.features[j] for j in chosen.tolist()]

    def _refuse_infinity(self, block: Array, columns: Columns) -> None:
        found = np.flatnonzero(np.isinf(block).any(axis=0))
        if found.size:
            name = self.names_of(columns)[int(found[0])]
            raise TableError(f"column {name!r} contains infinity: leave it missing, or a number")

    def fingerprint(self) -> str:
        """Return a hash of the rows: of their values, if nothing else identifies them."""
        digest = hashlib.blake2b(digest_size=16)
        for block in self.blocks("looking for changes"):
            digest.update(np.ascontiguousarray(block).tobytes())
        return digest.hexdigest()

    def contents(self) -> list[Any]:
        return [self.fingerprint()]

    def row_hashes(self, seed: int) -> Array:
        blocks = self.blocks("hashing rows")
        return np.concatenate([hash_rows(b, Threads(), seed) / 2.0**64 for b in blocks])

    def sampled(self, comm: Communicator) -> tuple[NDArray[np.intp], Any]:
        return self.sample.rows, self.sample.values()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.rows, len(self.features)

    @cached_property
    def sample(self) -> BinningSample:
        """Return the rows of the smallest content hashes, in memory."""
        return BinningSample.of(self)

    def binned(
        self,
        weights: Array,
        max_bins: int,
        categorical: NDArray[np.bool_] | None,
        threads: Threads,
        comm: Communicator,
    ) -> Binned:
        """Return all rows in bins, mapped from the cache."""
        bins = self.sample.bins(weights, max_bins, categorical)
        return self.cache.binned(self, bins, threads)

    def for_validation(self, bins: Bins, threads: Threads) -> Binned:
        """Return all rows in the given bins, the form in which trees score validation rows."""
        return self.cache.within("watching").binned(self, bins, threads)

    def check_unchanged(self) -> None:
        """Raise TableError if the rows are known to differ from those of the first pass."""
