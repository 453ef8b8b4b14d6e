"""Binning of rows on disk: the sample that gives the edges, and the mapped files of binned rows."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maboost.data.files import TableError
from maboost.learners.tree.binning import Bins, bin_rows, bins_of, bins_of_categories
from maboost.learners.tree.distinct import Weighted, distinct
from maboost.learners.tree.grower import Binned
from maboost.runtime.atomic_files import naming, sync_folder
from maboost.runtime.communicator import SerialCommunicator
from maboost.runtime.row_hash import hash_rows, integer_weights, merged_weights, sampled_rows
from maboost.runtime.threads import Threads

if TYPE_CHECKING:
    from maboost.data.stored import StoredTable

__all__ = ["BinningSample", "Cache"]

Array = NDArray[np.float64]

CELLS = 1 << 22  # cells of the sample in memory at a time; its columns are read in groups
_UNCOUNTED = 1 << 18  # cells of categories in memory before they are counted


@dataclass(frozen=True)
class BinningSample:
    """The rows whose content has the smallest hashes, with all copies.

    Attributes
    ----------
    table : StoredTable
    rows : array
        The indices of the rows, in order.
    hashes : array
        The hashes by which the rows were chosen.
    whole : bool
        Whether the sample has all rows.
    """

    table: StoredTable
    rows: NDArray[np.intp]
    hashes: NDArray[np.uint64]
    whole: bool

    @classmethod
    def of(cls, table: StoredTable) -> BinningSample:
        """Draw the sample in one pass over the features, keeping only hashes in memory."""
        threads = Threads()
        parts = [hash_rows(block, threads) for block in table.blocks("choosing a sample")]
        if not parts:
            raise TableError("there are no rows")
        hashes = np.concatenate(parts)
        rows = sampled_rows(hashes)
        if rows is None:
            return cls(table, np.arange(len(hashes)), hashes, whole=True)
        return cls(table, rows, hashes[rows], whole=False)

    def values(self, columns: slice = slice(None)) -> Array:
        """Return some columns of the sampled rows."""
        width = len(self.table.features[columns])
        out = np.empty((len(self.rows), width))
        at = done = 0
        for block in self.table.blocks("reading the sample", columns):
            stop = int(np.searchsorted(self.rows, at + len(block)))
            out[done:stop] = block[self.rows[done:stop] - at]
            at, done = at + len(block), stop
        return out

    def bins(self, weights: Array, max_bins: int, categorical: NDArray[np.bool_] | None) -> Bins:
        """Return the bins of the table, the same as for all rows in memory, from a group of columns at a time."""
        first, sampled = np.arange(len(self.rows)), weights
        if not self.whole:
            first, sampled = merged_weights(self.hashes, self.rows, weights)
        columns = len(self.table.features)
        is_category = np.zeros(columns, dtype=bool) if categorical is None else categorical
        edges: list[Array] = []
        rare: dict[int, Array] = {}
        group = max(CELLS // len(self.rows), 1)
        for start in range(0, columns, group):
            part = slice(start, start + group)
            found = bins_of(self.values(part)[first], sampled, max_bins, is_category[part])
            edges += found.edges
            rare |= {start + j: codes for j, codes in found.rare.items()}
        bins = Bins(edges, is_category, rare)
        if self.whole or not is_category.any():
            return bins
        at = np.flatnonzero(is_category)
        counted = self._categories(at, weights)
        return bins_of_categories(
            bins, at, lambda some: counted[some.start : some.stop], max_bins, len(weights)
        )

    def _categories(self, at: NDArray[np.intp], weights: Array) -> list[Weighted]:
        """Return the categories in columns of all rows and their weights as integers, from one pass."""
        grid, _ = integer_weights(weights, SerialCommunicator())
        counted = [_Counter() for _ in at]
        start = 0
        for block in self.table.blocks("counting categories", at):
            its = grid[start : start + len(block)]
            start += len(block)
            for counter, column in zip(counted, block.T, strict=True):
                seen = ~np.isnan(column)
                counter.add(column[seen] + 0.0, its[seen])
        return [counter.result() for counter in counted]


class _Counter:
    """Sums of weights by value, in memory that grows with the distinct values and not with the rows."""

    def __init__(self) -> None:
        self._parts: list[Weighted] = []
        self._held = self._counted = 0

    def add(self, values: Array, weights: NDArray[np.int64]) -> None:
        """Add more values."""
        self._parts.append(distinct(values, weights))
        self._held += len(self._parts[-1][0])
        if self._held > 2 * self._counted + _UNCOUNTED:
            self.result()

    def result(self) -> Weighted:
        """Return the distinct values in order, and the weight of each."""
        values = np.concatenate([values for values, _ in self._parts] or [np.empty(0)])
        held = [weights for _, weights in self._parts] or [np.empty(0, dtype=np.int64)]
        counted = distinct(values, np.concatenate(held))
        self._parts, self._held = [counted], len(counted[0])
        self._counted = self._held
        return counted


ROWS, COLUMNS, DIGEST = "rows.bin", "columns.bin", "digest"
_WHOLE = re.compile("[0-9a-f]{32}")
_IDLE = 3600.0  # seconds without a change after which a file counts as abandoned
_BLOCK = 1 << 22  # bytes hashed at a time


def _mapped(
    home: Path, shape: tuple[int, int], threads: Threads
) -> tuple[NDArray[np.uint8], ...] | None:
    """Return the bins by row and by column if they are in this folder and undamaged; otherwise None.

    Damaged bins give a warning. Missing ones do not: another fit may be removing the folder.
    """
    try:
        digest = (home / DIGEST).read_text(errors="replace")
        sizes = [(home / name).stat().st_size for name in (ROWS, COLUMNS)]
        if sizes == 2 * [shape[0] * shape[1]]:
            mapped = tuple(
                np.asarray(np.memmap(home / name, np.uint8, "r", shape=its))
                for name, its in ((ROWS, shape), (COLUMNS, shape[::-1]))
            )
            if digest == _digest(mapped, threads):
                return mapped
    except FileNotFoundError:
        return None
    warnings.warn(
        f"the bins in the cache {str(home.parent)!r} are damaged (their digest is not the one that was "
        "stored with them): they are computed again from the rows",
        UserWarning,
        stacklevel=2,
    )
    return None


def _digest(tables: tuple[NDArray[np.uint8], ...], threads: Threads) -> str:
    """Return a hash of some tables, which does not depend on the number of threads."""
    digest = hashlib.blake2b(digest_size=16)
    for table in tables:
        flat = table.reshape(-1)

        def hashed(start: int, flat: NDArray[np.uint8] = flat) -> bytes:
            return hashlib.blake2b(flat[start : start + _BLOCK].data, digest_size=16).digest()

        for part in threads.each(range(0, len(flat), _BLOCK), hashed):
            digest.update(part)
    return digest.hexdigest()


def _is_idle(folder: Path) -> bool:
    with suppress(OSError):
        return (
            max(path.stat().st_mtime for path in (folder, *folder.iterdir())) < time.time() - _IDLE
        )
    return False


class Cache:
    """The binned rows of a table in files, mapped into memory.

    Parameters
    ----------
    folder : path, optional
        The folder in which they are kept for later fits. If None they are in unnamed temporary files,
        whose space the system frees when they are no longer mapped, even if the process is killed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder)

    def within(self, name: str) -> Cache:
        """Return a cache for other rows, inside the folder of this one."""
        return Cache(None if self._folder is None else self._folder / name)

    def binned(self, table: StoredTable, bins: Bins, threads: Threads) -> Binned:
        """Return the bins of all rows, from the cache if it has them for the same files and edges; otherwise write them.

        Their folder is named by a hash of rows and edges and appears complete or not at all, since other
        fits may read and write the cache at the same time, and remove it for bins of their own. A digest is
        stored with the bins; if it does not match, they are computed again, with a warning.
        """
        if self._folder is None:
            by_row, by_column = _unnamed(table, bins, threads)
            return Binned(bins, by_row, by_column, mapped=True)
        table.check_unchanged()  # the labels are already read, and the bins belong to the present files
        self._folder.mkdir(parents=True, exist_ok=True)
        home = self._folder / _key(table, bins)
        while (mapped := _mapped(home, table.shape, threads)) is None:
            self._write(table, bins, home, threads)
        by_row, by_column = mapped
        return Binned(bins, by_row, by_column, mapped=True)

    def _write(self, table: StoredTable, bins: Bins, home: Path, threads: Threads) -> None:
        folder = home.parent
        _check_space(table, folder)
        beside = Path(tempfile.mkdtemp(suffix=".part", dir=folder))
        try:
            with (
                naming(folder),
                (beside / ROWS).open("wb") as rows,
                (beside / COLUMNS).open("wb") as columns,
            ):
                _fill(table, bins, rows, columns, threads)
                os.fsync(rows.fileno())
                os.fsync(columns.fileno())
            _seal(beside, table.shape, threads)
            _remove_others(folder)
            try:
                beside.rename(home)
            except OSError:  # another fit was faster
                if _mapped(home, table.shape, threads) is None:
                    raise
            sync_folder(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _seal(folder: Path, shape: tuple[int, int], threads: Threads) -> None:
    """Store the digest of bins beside them, and protect them from being changed in place.

    Truncating a mapped file ends the process with SIGBUS.
    """
    tables = tuple(np.memmap(folder / name, np.uint8, "r", shape=shape) for name in (ROWS, COLUMNS))
    with (folder / DIGEST).open("w") as file:
        file.write(_digest(tables, threads))
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":  # other systems cannot remove read-only files
        for name in (ROWS, COLUMNS, DIGEST):
            (folder / name).chmod(0o444)
    sync_folder(folder)


def _unnamed(table: StoredTable, bins: Bins, threads: Threads) -> tuple[NDArray[np.uint8], ...]:
    """Return the bins by row and by column, in temporary files without a name."""
    folder = Path(tempfile.gettempdir())
    _check_space(table, folder)
    n, width = table.shape
    with naming(folder), tempfile.TemporaryFile() as rows, tempfile.TemporaryFile() as columns:
        _fill(table, bins, rows, columns, threads)
        return tuple(
            np.asarray(np.memmap(file, np.uint8, "r", shape=its))
            for file, its in ((rows, (n, width)), (columns, (width, n)))
        )


def _check_space(table: StoredTable, folder: Path) -> None:
    needed = 2 * table.shape[0] * table.shape[1]
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"the cache needs {needed} bytes, but {free} are free on its disk",
            str(folder),
        )


def _fill(
    table: StoredTable, bins: Bins, rows: IO[bytes], columns: IO[bytes], threads: Threads
) -> None:
    """Write the bins of all rows into two files."""
    n, width = table.shape
    columns.truncate(n * width)
    at = 0
    for block in table.blocks("binning"):
        by_row = np.empty(block.shape, dtype=np.uint8)
        by_column = np.empty(block.shape[::-1], dtype=np.uint8)
        bin_rows(block, bins, by_row, by_column, threads)
        rows.write(by_row.data)
        for j, column in enumerate(by_column):
            columns.seek(j * n + at)
            columns.write(column.data)
        at += len(block)
    if at != n:
        raise TableError(f"there were {n} rows in the first pass, but {at} when they were binned")
    table.check_unchanged()
    rows.flush()
    columns.flush()


def _remove_others(folder: Path) -> None:
    """Remove the bins in a cache, and files that a killed fit has left there."""
    for other in folder.iterdir():
        if _WHOLE.fullmatch(other.name) or (other.suffix == ".part" and _is_idle(other)):
            shutil.rmtree(other, ignore_errors=True)


def _key(table: StoredTable, bins: Bins) -> str:
    """Return a hash of the rows and the edges, which identify bins."""
    digest = hashlib.blake2b(table.fingerprint().encode(), digest_size=16)
    for edges in bins.edges:
        digest.update(np.ascontiguousarray(edges).tobytes())
        digest.update(b"|")
    for column, codes in bins.rare.items():
        digest.update(repr(column).encode())
        digest.update(np.ascontiguousarray(codes).tobytes())
    return digest.hexdigest()
