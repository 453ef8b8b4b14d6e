"""Rows that stay on disk: Parquet files read in batches, binned once into a memory-mapped cache.

The state of every row is in memory (its label, weight, dual point, density, margin and the sums over the rounds),
and before the first round a few columns of the binning sample: with two classes some 100 MiB and about 100 to 150
bytes a row. The bins, one byte a cell, are mapped from a file and read by the passes that need them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.binned import Cache
from maboost.data.datasets import (
    absolute,
    check_files,
    fragments,
    in_paths,
    index_columns,
    opened,
    values_of,
    with_types,
)
from maboost.data.files import TableError
from maboost.data.large_integers import is_beyond, is_wide
from maboost.data.stored import Columns, OnBatch, StoredTable, silent

__all__ = [
    "OnDisk",
    "ParquetTable",
    "is_stored",
    "named_column",
    "refuse_name",
    "refuse_stored",
]

Array = NDArray[np.float64]

BATCH = 1 << 16  # rows of a batch, at most
BATCH_CELLS = 1 << 20
_BUFFER = 1 << 18  # bytes read from a column at a time


@dataclass(frozen=True)
class OnDisk:
    """Rows on disk, with a choice of where their bins are kept.

    Parameters
    ----------
    source : path, list of paths or pyarrow Dataset
        types of numbers, or of text; the schema of a Dataset decides which columns are read, and as which type.
        types of numbers, or of text; the schema of a Dataset says which columns are read, and as what.
    A folder for the bins (one byte a cell, twice), reused by later fits as long as the files and the
    bins stay the same. A digest is checked before they are reused; damaged bins are computed again,
    with a warning. If None, the bins are in temporary files that disappear after the fit.
        with a warning. If None, the bins are in temporary files that are gone after the fit.

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
    """Return whether `X` names rows that are not in memory.

    Such values are a path or a list of them, a pyarrow Dataset, :class:`OnDisk`, or an iterator with ``reset``
    and ``next``.
    """
    if isinstance(X, str | Path | OnDisk) or _is_list_of_paths(X):
        return True
    if callable(getattr(X, "reset", None)) and callable(getattr(X, "next", None)):
        return True
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "scanner")


def _is_list_of_paths(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(p, str | Path) for p in X)


def _check_cache(cache: Any) -> None:
    if not (cache is None or isinstance(cache, str | Path)):
        raise TypeError(f"OnDisk: cache must be the path of a folder, or None, got {cache!r}")
    if cache is not None and (not str(cache) or Path(cache).is_file()):
        raise ValueError(
            f"OnDisk: cache={str(cache)!r} is not a folder: name one, which is created if needed"
        )


def refuse_stored(X: Any, name: str) -> None:
    """Raise TableError if rows are on disk but must be in memory."""
    if is_stored(X):
        raise TableError(
            f"{name} is {type(X).__name__}, rows on disk: fit, predict, predict_proba, "
            "decision_function, margins and score of the boosters take those, here they must be in memory"
        )


def named_column(X: Any, values: Any, name: str) -> Any:
    """Return the column named by `values` if `X` is on disk and `values` a name; otherwise `values`."""
    if not is_stored(X):
        refuse_name(values, name)
        return values
    return ParquetTable.open(X, {values}).column(values) if isinstance(values, str) else values


def refuse_name(values: Any, name: str) -> None:
    """Raise ValueError if `values` names a column, but the rows are in memory."""
    if isinstance(values, str):
        raise ValueError(
            f"{name}={values!r} is the name of a column, which is for rows on disk: X is in memory, so "
            f"give {name} as an array with one entry for each row"
        )


@dataclass(frozen=True)
class ParquetTable(StoredTable):
    """The feature columns of Parquet files, as numbers, a batch at a time.

    Attributes
    ----------
    dataset : pyarrow Dataset
    features : list of column names
    codes : object with ``applied(table)``
        Turns text and categories into numbers, as for a fit in memory.
    known : list
        The files, with their sizes and times of change, before they were read.
    """

    dataset: Any
    features: list[str]
    codes: Any = None
    cache: Cache = field(default_factory=Cache)
    keep: NDArray[np.bool_] | None = None
    on_batch: OnBatch = silent
    known: list[tuple[str, int | None, int | None]] = field(default_factory=list)

    @classmethod
    def open(cls, source: Any, left_out: set[str]) -> ParquetTable:
        """Open paths, a Dataset or :class:`OnDisk`; columns in `left_out` are not features."""
        cache = None
        if isinstance(source, OnDisk):
            source, cache = source.source, source.cache
            _check_cache(cache)
        if isinstance(source, str | Path) or _is_list_of_paths(source):
            source = opened(source)
        elif not hasattr(source, "get_fragments"):
            raise TypeError(
                "OnDisk takes a path, a list of paths or a pyarrow Dataset, got "
                f"{type(source).__name__}"
            )
        check_files(source)
        missing = sorted(left_out - set(source.schema.names))
        if missing:
            raise TableError(
                f"there is no column {missing[0]!r}; there are {source.schema.names[:20]}"
            )
        no_feature = left_out | index_columns(source.schema)
        features = [n for n in source.schema.names if n not in no_feature]
        if not features:
            raise TableError(f"there is no column to learn from; there are {source.schema.names}")
        return cls(source, features, cache=Cache(cache), known=_files_of(source))

    @cached_property
    def _count(self) -> int:
        return int(self.dataset.count_rows())

    @property
    def all_rows(self) -> int:
        return self._count

    def column(self, name: str) -> NDArray[Any]:
        """Return one whole column."""
        parts = [values_of(batch.column(0)) for batch in self._batches([name])]
        return np.concatenate(parts or [np.empty(0)])

    def small_tables(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Yield tables of one batch of rows each."""
        import pyarrow as pa

        for batch in self._batches(self.features if columns is None else columns):
            yield pa.Table.from_batches([batch])

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        size = min(BATCH, max(BATCH_CELLS // len(columns), 1024))
        try:
            for batch in self._parquet_batches(columns, size):
                if batch.num_rows:
                    yield batch
            pa.default_memory_pool().release_unused()
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"cannot read on: {str(error).splitlines()[0]}") from error

    def _parquet_batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Yield batches file by file, since a scan of the whole Dataset would read ahead as much as a gigabyte."""
        import pyarrow as pa
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        files = fragments(self.dataset)
        plain = all(isinstance(f, ds.ParquetFileFragment) for f in files)
        # another format, a filter, or columns that are in no file
        if not plain or self.dataset._scan_options or in_paths(self.dataset, files):
            yield from self.dataset.to_batches(
                columns=columns, batch_size=size, batch_readahead=1, fragment_readahead=1
            )
            return
        schema = pa.schema([self.dataset.schema.field(name) for name in columns])
        for fragment in files:
            with fragment.open() as file:
                reader = pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
                groups = [group.id for group in fragment.row_groups]
                for batch in reader.iter_batches(size, groups, columns):
                    yield with_types(batch, schema, fragment.path)

    def all_blocks(self, columns: Columns) -> Iterator[Array]:
        names = self.names_of(columns)
        codes = None if self.codes is None else self.codes.of_columns(names)
        for table in self.small_tables(names):
            numbers = table if codes is None else codes.applied(table)
            if numbers is table:  # all columns are numeric, and a Dataset has one schema
                codes = None
            block = np.empty((table.num_rows, len(names)))
            for j, column in enumerate(numbers.itercolumns()):
                block[:, j] = column.to_numpy()
            yield block

    def large_integers(self) -> list[str]:
        """Return the columns with integers beyond 2**53, read only if the files' statistics allow such values."""
        import pyarrow.compute as pc

        types = {name: self.dataset.schema.field(name).type for name in self.features}
        wide = [name for name, type in types.items() if is_wide(type)]
        left = [name for name in wide if self._may_be_large(name)]
        found: set[str] = set()
        for batch in self._batches(left) if left else []:
            ends = [pc.min_max(column).as_py() for column in batch.columns]
            found |= {n for n, e in zip(left, ends, strict=True) if is_beyond(e["min"], e["max"])}
        return [name for name in left if name in found]

    def _may_be_large(self, name: str) -> bool:
        """Return whether the statistics of the files allow integers beyond 2**53 in a column."""
        files = fragments(self.dataset)
        for fragment in files:
            for group in getattr(fragment, "row_groups", [None]):
                ends = ((group and group.statistics) or {}).get(name, {})
                if ends.get("min") is None or is_beyond(ends["min"], ends["max"]):
                    return True
        return not files

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes and times of change, the columns, and the filter."""
        if not hasattr(self.dataset, "files"):  # in memory
            return super().fingerprint()
        chosen = str(self.dataset._scan_options.get("filter"))
        text = json.dumps(
            [_files_of(self.dataset), self.features, str(self.dataset.schema), chosen]
        )
        digest = hashlib.blake2b(text.encode(), digest_size=16)
        digest.update(b"" if self.keep is None else self.keep.tobytes())
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        now = _files_of(self.dataset)
        for before, after in zip(self.known, now, strict=True):
            if before != after:
                raise TableError(
                    f"{before[0]}: was changed while it was read: fit again when nobody writes to it"
                )


def _files_of(dataset: Any) -> list[tuple[str, int | None, int | None]]:
    """Return the files of a Dataset, with their sizes and times of change; none if it is in memory."""
    if not hasattr(dataset, "files"):
        return []
    files = absolute(dataset.files, dataset.filesystem)
    return [(f.path, f.size, f.mtime_ns) for f in dataset.filesystem.get_file_info(files)]
