"""Rows that stay on disk: Parquet files read in batches, binned once into a memory-mapped cache.

What is resident is the state of every row (its label, weight, dual point, density, margin, the sums of
evidence and what a round adds to them: about 250 bytes at the peak with two classes) and, before the
first round, the binning sample; the bins themselves, one byte a cell, are mapped from a file and read by
the passes that need them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.files import TableError
from maboost.learners.tree.binning import (
    SAMPLE_ROWS,
    Bins,
    bin_rows,
    bins_of,
    hash_rows,
    last_hash,
    merged_weights,
)
from maboost.learners.tree.grower import Binned
from maboost.threads import Threads

__all__ = [
    "BatchedTable",
    "Cache",
    "OnDisk",
    "Rows",
    "Sample",
    "StoredTable",
    "batches",
    "is_stored",
]

Array = NDArray[np.float64]

BATCH = 1 << 16


@dataclass(frozen=True)
class OnDisk:
    """Rows on disk, with a say about where their bins are kept.

    Parameters
    ----------
    source : path or pyarrow Dataset
        A Parquet file, a folder of them, or a Dataset.
    cache : path, optional
        A folder for the bins (one byte a cell, twice), reused by later fits while the files and the
        bins stay the same; a temporary folder that is removed after the fit if None.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MABoostClassifier
    >>> frame = load_breast_cancer(as_frame=True).frame
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "rows.parquet"
    ...     frame.to_parquet(path)
    ...     rows = OnDisk(path, cache=pathlib.Path(folder) / "bins")
    ...     model = MABoostClassifier(n_estimators=3, random_state=0).fit(rows, "target")
    >>> len(model)
    3
    """

    source: Any
    cache: str | Path | None = None


def is_stored(X: Any) -> bool:
    """Whether `X` names rows that are not in memory.

    That is a path, a pyarrow Dataset, :class:`OnDisk`, or an iterator with ``reset`` and ``next``.
    """
    if isinstance(X, str | Path | OnDisk):
        return True
    if callable(getattr(X, "reset", None)) and callable(getattr(X, "next", None)):
        return True
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "scanner")


class Rows:
    """Rows that come in blocks: what is sampled, binned and cached of them."""

    features: list[str]
    cache: str | Path | None

    @property
    def rows(self) -> int:
        """How many rows there are, without those that are not kept."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Array]:
        """The features of the kept rows as floats, a batch at a time."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """A hash that changes with the rows."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.rows, len(self.features)

    @cached_property
    def sample(self) -> Sample:
        """The rows of the smallest content hashes, in memory."""
        return Sample.of(self)

    @cached_property
    def _cache(self) -> Cache:
        return Cache(self.cache)

    def binned(
        self, weights: Array, max_bins: int, categorical: NDArray[np.bool_] | None, threads: Threads
    ) -> Binned:
        """All rows in bins, mapped from the cache."""
        bins = self.sample.bins(weights, max_bins, categorical)
        self.__dict__.pop("sample")  # of no more use
        return self._cache.binned(self, bins, threads)

    def close(self) -> None:
        """Remove a temporary cache."""
        if "_cache" in self.__dict__:
            self._cache.close()


@dataclass(frozen=True)
class StoredTable(Rows):
    """The feature columns of Parquet files, as numbers, a batch at a time.

    Attributes
    ----------
    dataset : pyarrow Dataset
    features : list of column names
    codes : object with ``applied(table)``
        Turns text and categories into numbers, as at the fit in memory.
    """

    dataset: Any
    features: list[str]
    codes: Any = None
    cache: str | Path | None = None
    keep: NDArray[np.bool_] | None = None

    @classmethod
    def open(cls, source: Any, left_out: set[str]) -> StoredTable:
        """From a path, a Dataset or :class:`OnDisk`; columns of `left_out` are no features."""
        try:
            import pyarrow as pa
            import pyarrow.dataset as ds
        except ImportError as error:
            raise ImportError("rows on disk need pyarrow: pip install pyarrow") from error

        cache = None
        if isinstance(source, OnDisk):
            source, cache = source.source, source.cache
        if isinstance(source, str | Path):
            path = Path(source)
            if not path.exists():
                raise TableError(f"{path}: no such file or folder")
            try:
                source = ds.dataset(path, format="parquet")
            except (pa.ArrowException, OSError) as error:
                raise TableError(f"{path}: {str(error).splitlines()[0]}") from error
        _check_files(source)
        missing = sorted(left_out - set(source.schema.names))
        if missing:
            raise TableError(
                f"there is no column {missing[0]!r}; there are {source.schema.names[:20]}"
            )
        features = [n for n in source.schema.names if n not in left_out]
        return cls(source, features, cache=cache)

    @cached_property
    def _count(self) -> int:
        return int(self.dataset.count_rows())

    @property
    def rows(self) -> int:
        return self._count if self.keep is None else int(self.keep.sum())

    def column(self, name: str) -> NDArray[Any]:
        """One column, whole."""
        return np.concatenate(
            [np.asarray(b.column(0).to_pylist()) for b in self._batches([name])] or [np.empty(0)]
        )

    def small_tables(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Tables of a batch of rows each."""
        import pyarrow as pa

        names = self.features if columns is None else columns
        for batch in self._batches(names):
            yield pa.Table.from_batches([batch])

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.dataset as ds

        try:
            for batch in self.dataset.to_batches(
                columns=columns,
                batch_size=BATCH,
                batch_readahead=1,
                fragment_readahead=1,
                fragment_scan_options=ds.ParquetFragmentScanOptions(
                    use_buffered_stream=True, pre_buffer=False
                ),
            ):
                if batch.num_rows:
                    yield batch
            pa.default_memory_pool().release_unused()
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"cannot read on: {str(error).splitlines()[0]}") from error

    def blocks(self) -> Iterator[Array]:
        at = 0
        for table in self.small_tables():
            numbers = self.codes.applied(table) if self.codes is not None else table
            block = np.column_stack(
                [np.asarray(c.to_numpy(), dtype=np.float64) for c in numbers.itercolumns()]
            )
            if self.keep is not None:
                block = block[self.keep[at : at + len(block)]]
            at += table.num_rows
            if len(block):
                yield block

    def fingerprint(self) -> str:
        """A hash of what the files are: names, sizes, times of change, columns."""
        known = [
            (str(Path(f).resolve()), os.stat(f).st_size, os.stat(f).st_mtime_ns)
            for f in sorted(self.dataset.files)
        ]
        text = json.dumps([known, self.features, str(self.dataset.schema)])
        digest = hashlib.blake2b(text.encode(), digest_size=16)
        digest.update(b"" if self.keep is None else self.keep.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class BatchedTable(Rows):
    """Rows of an iterator that can begin again.

    Attributes
    ----------
    source : object
        ``reset()`` begins again; ``next()`` gives ``(X, y)`` or ``(X, y, weights)``, and None at the end.
    features : list of column names
    lengths : rows of every batch, as the first pass saw them
    keep : boolean array over all rows, optional
    """

    source: Any
    features: list[str]
    lengths: tuple[int, ...]
    codes: Any = None
    cache: str | Path | None = None
    keep: NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        return sum(self.lengths) if self.keep is None else int(self.keep.sum())

    def blocks(self) -> Iterator[Array]:
        at = 0
        for length, (X, *_) in zip(self.lengths, batches(self.source), strict=True):
            block = np.asarray(X, dtype=np.float64)
            if block.shape != (length, len(self.features)):
                raise TableError(
                    f"a batch had the shape {(length, len(self.features))} in the first pass and "
                    f"{block.shape} in a later one: an iterator must give the same rows every time"
                )
            if self.keep is not None:
                block = block[self.keep[at : at + length]]
            at += length
            if len(block):
                yield block

    def fingerprint(self) -> str:
        """Of the values themselves: nothing else is known of an iterator."""
        digest = hashlib.blake2b(digest_size=16)
        for block in self.blocks():
            digest.update(np.ascontiguousarray(block).tobytes())
        return digest.hexdigest()


def batches(source: Any) -> Iterator[Any]:
    """All batches of an iterator with `reset` and `next`, from the beginning."""
    source.reset()
    while (batch := source.next()) is not None:
        if not isinstance(batch, tuple) or len(batch) not in (2, 3):
            raise TableError(
                "next() must give (X, y) or (X, y, weights), or None at the end, got "
                f"{type(batch).__name__}"
            )
        if len(batch[0]):
            yield batch


def _check_files(dataset: Any) -> None:
    """Every file has the columns and types of the first; the error names file and column."""
    import pyarrow as pa

    schema = dataset.schema
    for fragment in dataset.get_fragments():
        try:
            own = fragment.physical_schema
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{fragment.path}: {str(error).splitlines()[0]}") from error
        for field in schema:
            if field.name not in own.names:
                raise TableError(f"{fragment.path}: column {field.name!r} is missing")
            if own.field(field.name).type != field.type:
                raise TableError(
                    f"{fragment.path}: column {field.name!r} is {own.field(field.name).type}, but "
                    f"{field.type} elsewhere"
                )


@dataclass(frozen=True)
class Sample:
    """The rows whose content has the smallest hashes, all copies included, in their order.

    `X` are their values, `rows` their numbers, `hashes` what they were chosen by; `whole` if they are
    all rows there are.
    """

    X: Array
    rows: NDArray[np.intp]
    hashes: NDArray[np.uint64]
    whole: bool

    @classmethod
    def of(cls, table: Rows, size: int = SAMPLE_ROWS, seed: int = 0) -> Sample:
        """One pass over the features; no more than a few samples are ever held."""
        threads = Threads()
        kept: list[tuple[Array, NDArray[np.intp], NDArray[np.uint64]]] = []
        held, at, whole = 0, 0, True
        most = np.uint64(2**64 - 1)  # hashes beyond are of no interest any more
        for block in table.blocks():
            hashes = hash_rows(block, seed, threads)
            near = np.flatnonzero(hashes <= most)
            kept.append((block[near], at + near, hashes[near]))
            at += len(block)
            held += len(near)
            if table.rows > size and held > size + size // 4:
                kept = [_pruned(kept, size)]
                held, most = len(kept[0][1]), kept[0][2].max()
        if not kept:
            raise TableError("there are no rows")
        everything = _joined(kept)
        if table.rows > size:
            found = _pruned(kept, size)
            whole = len(found[1]) == table.rows
            everything = found
        return cls(*everything, whole=whole)

    def bins(self, weights: Array, max_bins: int, categorical: NDArray[np.bool_] | None) -> Bins:
        """The bins of the table, the same as of all rows in memory."""
        if self.whole:
            return bins_of(self.X, weights, max_bins, categorical)
        first, merged = merged_weights(self.hashes, self.rows, weights)
        return bins_of(self.X[first], merged, max_bins, categorical)


def _joined(
    parts: list[tuple[Array, NDArray[np.intp], NDArray[np.uint64]]],
) -> tuple[Array, NDArray[np.intp], NDArray[np.uint64]]:
    X, rows, hashes = zip(*parts, strict=True)
    return np.concatenate(X), np.concatenate(rows), np.concatenate(hashes)


def _pruned(
    parts: list[tuple[Array, NDArray[np.intp], NDArray[np.uint64]]], size: int
) -> tuple[Array, NDArray[np.intp], NDArray[np.uint64]]:
    X, rows, hashes = _joined(parts)
    last = last_hash(hashes, size)
    if last is None:
        return X, rows, hashes
    keep = hashes <= last
    return X[keep], rows[keep], hashes[keep]


class Cache:
    """The binned rows of a table in a folder, mapped into memory.

    Parameters
    ----------
    folder : path, optional
        Where to keep them, for the next fit too; a folder of its own that is removed by
        :meth:`close` if None.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.temporary = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="maboost-")) if folder is None else Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

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
            self._write(table, bins, {k: (paths[k], shapes[k]) for k in paths}, threads)
            stamp.write_text(key)
        by_row, by_column = (
            np.asarray(np.memmap(paths[name], np.uint8, "r", shape=shapes[name]))
            for name in ("rows", "columns")
        )
        return Binned(bins, by_row, by_column)

    def _write(
        self,
        table: Rows,
        bins: Bins,
        files: dict[str, tuple[Path, tuple[int, int]]],
        threads: Threads,
    ) -> None:
        needed = sum(a * b for _, (a, b) in files.values())
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise OSError(
                28,
                f"the cache needs {needed} bytes, but {free} are free on its disk",
                str(self.folder),
            )
        try:
            maps = {
                name: np.memmap(path, np.uint8, "w+", shape=shape)
                for name, (path, shape) in files.items()
            }
            at = 0
            for block in table.blocks():
                part = slice(at, at + len(block))
                at += len(block)
                by_column = np.empty((block.shape[1], len(block)), dtype=np.uint8)
                bin_rows(block, bins, maps["rows"][part], by_column, threads)
                maps["columns"][:, part] = by_column
            for array in maps.values():
                array.flush()
        except BaseException:
            for path, _ in files.values():
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
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
