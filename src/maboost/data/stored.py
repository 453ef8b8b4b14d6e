"""What tables of rows that are not in memory share."""

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

# told after every batch of a pass: what it is for, rows done and rows in all
OnBatch = Callable[[str, int, int], None]


def silent(purpose: str, done: int, total: int) -> None:
    """Say nothing about a batch."""


class StoredTable(Table):
    """Rows that come in blocks: how they are sampled, binned and cached."""

    __dataclass_fields__: ClassVar[dict[str, Any]]  # every subclass is one
    features: list[str]
    cache: Cache  # of all tables with these rows or a part of them
    keep: NDArray[np.bool_] | None
    watch: OnBatch
    in_memory: ClassVar[bool] = False

    @property
    @abstractmethod
    def all_rows(self) -> int:
        """How many rows there are, with those that are not kept."""

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return self.all_rows if self.keep is None else int(self.keep.sum())

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Some of the kept rows."""
        keep = np.ones(self.all_rows, dtype=bool) if self.keep is None else self.keep.copy()
        keep[np.flatnonzero(keep)] = chosen
        return replace(self, keep=keep)

    @abstractmethod
    def all_blocks(self, columns: Columns) -> Iterator[Array]:
        """Some features of all rows as floats, a batch at a time."""

    def blocks(self, purpose: str, columns: Columns = slice(None)) -> Iterator[Array]:
        """Some features of the kept rows, a batch at a time."""
        at, done, total = 0, 0, self.rows
        for block in self.all_blocks(columns):
            length = len(block)
            if self.keep is not None:
                block = block[self.keep[at : at + length]]
            at, done = at + length, done + len(block)
            self._refuse_infinity(block, columns)
            if len(block):
                yield block
                self.watch(purpose, done, total)

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
        """Return a hash that changes with the rows: of their values, where nothing else is known of them."""
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
        """The rows of the smallest content hashes, in memory."""
        return BinningSample.of(self)

    def binned(
        self,
        weights: Array,
        max_bins: int,
        categorical: NDArray[np.bool_] | None,
        threads: Threads,
        comm: Communicator,
    ) -> Binned:
        """All rows in bins, mapped from the cache."""
        bins = self.sample.bins(weights, max_bins, categorical)
        return self.cache.binned(self, bins, threads)

    def for_validation(self, bins: Bins, threads: Threads) -> Binned:
        """All rows in the bins of others: what a tree asks of rows that are not trained on."""
        return self.cache.within("watching").binned(self, bins, threads)

    def check_unchanged(self) -> None:
        """Raise TableError where the rows are not those of the first pass, if that is not known yet."""
