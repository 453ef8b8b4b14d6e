"""From rows on disk to bins: the sample that gives the edges, and the mapped files of binned rows."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maboost.content import hash_rows, merged_weights, sampled_rows
from maboost.data.files import TableError
from maboost.learners.tree.binning import Bins, bin_rows, bins_of
from maboost.learners.tree.grower import Binned
from maboost.threads import Threads

if TYPE_CHECKING:
    from maboost.data.stored import Rows

__all__ = ["Cache", "Sample"]

Array = NDArray[np.float64]

CELLS = 1 << 22  # of the sample held at a time: its columns are read in groups


@dataclass(frozen=True)
class Sample:
    """The rows whose content has the smallest hashes, all copies included.

    Attributes
    ----------
    table : Rows
    rows : array
        Their numbers, in order.
    hashes : array
        What they were chosen by.
    whole : bool
        Whether they are all rows there are.
    """

    table: Rows
    rows: NDArray[np.intp]
    hashes: NDArray[np.uint64]
    whole: bool

    @classmethod
    def of(cls, table: Rows) -> Sample:
        """One pass over the features, of which only the hashes are held."""
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
        """Some columns of these rows, in memory."""
        width = len(self.table.features[columns])
        out = np.empty((len(self.rows), width))
        at = done = 0
        for block in self.table.blocks("reading the sample", columns):
            stop = int(np.searchsorted(self.rows, at + len(block)))
            out[done:stop] = block[self.rows[done:stop] - at]
            at, done = at + len(block), stop
        return out

    def bins(self, weights: Array, max_bins: int, categorical: NDArray[np.bool_] | None) -> Bins:
        """The bins of the table, the same as of all rows in memory; a group of columns at a time."""
        first = np.arange(len(self.rows))
        if not self.whole:
            first, weights = merged_weights(self.hashes, self.rows, weights)
        columns = len(self.table.features)
        is_category = np.zeros(columns, dtype=bool) if categorical is None else categorical
        edges: list[Array] = []
        group = max(CELLS // len(self.rows), 1)
        for start in range(0, columns, group):
            part = slice(start, start + group)
            edges += bins_of(self.values(part)[first], weights, max_bins, is_category[part]).edges
        return Bins(edges, is_category)


class Cache:
    """The binned rows of a table in a folder, mapped into memory.

    Parameters
    ----------
    folder : path, optional
        Where to keep them, for the next fit too; a folder of its own that is removed by
        :meth:`close` if None. Nothing is made before it is needed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.temporary = folder is None
        self._folder = None if folder is None else Path(folder)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="maboost-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def within(self, name: str) -> Cache:
        """A cache of other rows, inside the folder of this one and removed with it."""
        return Cache(self.folder / name)

    def binned(self, table: Rows, bins: Bins, threads: Threads) -> Binned:
        """The bins of all rows: from the cache if it is of the same files and bins, else written anew."""
        key = self._key(table, bins)
        n, columns = table.shape
        paths = {name: self.folder / f"{name}.bin" for name in ("rows", "columns")}
        stamp = self.folder / "key"
        shapes = {"rows": (n, columns), "columns": (columns, n)}
        whole = all(p.exists() and p.stat().st_size == n * columns for p in paths.values())
        if not (whole and stamp.exists() and stamp.read_text() == key):
            stamp.unlink(missing_ok=True)
            self._write(table, bins, paths, threads)
            stamp.write_text(key)
        by_row, by_column = (
            np.asarray(np.memmap(paths[name], np.uint8, "r", shape=shapes[name]))
            for name in ("rows", "columns")
        )
        return Binned(bins, by_row, by_column, mapped=True)

    def _write(self, table: Rows, bins: Bins, paths: dict[str, Path], threads: Threads) -> None:
        n, width = table.shape
        needed = 2 * n * width
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise OSError(
                28,
                f"the cache needs {needed} bytes, but {free} are free on its disk",
                str(self.folder),
            )
        try:
            with paths["rows"].open("wb") as rows, paths["columns"].open("wb") as columns:
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
                raise TableError(f"there were {n} rows, but {at} when they were binned")
        except BaseException:
            for path in paths.values():
                path.unlink(missing_ok=True)
            raise

    def _key(self, table: Rows, bins: Bins) -> str:
        digest = hashlib.blake2b(table.fingerprint().encode(), digest_size=16)
        for edges in bins.edges:
            digest.update(np.ascontiguousarray(edges).tobytes())
            digest.update(b"|")
        return digest.hexdigest()

    def close(self) -> None:
        """Remove what is not to be kept."""
        if self.temporary and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
