"""Rows of an iterator that can restart, and must yield the same rows every time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.binned import Cache
from maboost.data.files import TableError
from maboost.data.stored import Columns, OnBatch, StoredTable, silent
from maboost.runtime.row_hash import hash_rows
from maboost.runtime.threads import Threads

__all__ = ["BatchedTable", "batches", "fingerprint_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BatchedTable(StoredTable):
    """Rows of an iterator that can begin again.

    Attributes
    ----------
    source : object
        ``reset()`` restarts; ``next()`` returns ``(X, y)`` or ``(X, y, weights)``, and None at the end.
    features : list of column names
    count : int
        The number of rows in the first pass.
    fingerprints : tuple of bytes
        The results of :func:`fingerprint_of` for each batch of the first pass.
    keep : boolean array over all rows, optional
    """

    source: Any
    features: list[str]
    count: int
    fingerprints: tuple[bytes, ...]
    codes: Any = None
    cache: Cache = field(default_factory=Cache)
    keep: NDArray[np.bool_] | None = None
    on_batch: OnBatch = silent

    @property
    def all_rows(self) -> int:
        return self.count

    def all_blocks(self, columns: Columns) -> Iterator[Array]:
        for at, (before, batch) in enumerate(zip_longest(self.fingerprints, batches(self.source))):
            block = None if batch is None else np.asarray(batch[0], dtype=np.float64)
            if block is None or fingerprint_of(block) != before:
                raise TableError(
                    f"batch {at} differs from that of the first pass: an iterator must give the same "
                    "rows every time"
                )
            yield block[:, columns]


def fingerprint_of(block: Array) -> bytes:
    """Return a hash of the values of a batch in their order."""
    digest = hashlib.blake2b(repr(block.shape).encode(), digest_size=8)
    digest.update(hash_rows(block, Threads()).tobytes())
    return digest.digest()


def batches(source: Any) -> Iterator[Any]:
    """Yield all batches of an iterator with `reset` and `next`, from the start."""
    source.reset()
    while (batch := source.next()) is not None:
        if not isinstance(batch, tuple) or len(batch) not in (2, 3):
            raise TableError(
                "next() must give (X, y) or (X, y, weights), or None at the end, got "
                f"{type(batch).__name__}"
            )
        if np.shape(batch[0])[0]:
            yield batch
