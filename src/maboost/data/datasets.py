"""What a pyarrow Dataset is made of: its files, what each of them has, and what is in no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.files import TableError

__all__ = [
    "absolute",
    "check_files",
    "fragments",
    "in_paths",
    "index_columns",
    "opened",
    "values_of",
]


def opened(paths: str | Path | Sequence[str | Path]) -> Any:
    """The Dataset of a Parquet file, a folder of them, or a list of files."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError("rows on disk need pyarrow: pip install pyarrow") from error

    given = [paths] if isinstance(paths, str | Path) else list(paths)
    alone = given[0] is paths
    for path in given:
        _check_path(path, alone)
    # what a folder's name says of its files (colour=red) is a column, as in other readers
    a_file = alone and Path(given[0]).is_file()
    named = None if a_file else ds.HivePartitioning.discover(infer_dictionary=True)
    try:
        source = str(given[0]) if alone else [str(path) for path in given]
        found = ds.dataset(source, format="parquet", partitioning=named)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{paths}: {str(error).splitlines()[0]} For files of another kind give a Dataset, as "
            "of pyarrow.dataset.dataset(path, format='csv')"
        ) from error
    if not found.files:
        raise TableError(f"{paths}: there is no file in the folder")
    return _with_types(found)


def _with_types(dataset: Any) -> Any:
    """A Dataset whose columns have the types of the first files that have values in them.

    A file without any value in a column is often written with no type for it.
    """
    import pyarrow as pa

    schema = dataset.schema
    empty = {field.name for field in schema if pa.types.is_null(field.type)}
    for fragment in fragments(dataset) if empty else []:
        for field in fragment.physical_schema:
            if field.name in empty and not pa.types.is_null(field.type):
                empty.remove(field.name)
                schema = schema.set(schema.get_field_index(field.name), field)
    return dataset if schema.equals(dataset.schema) else dataset.replace_schema(schema)


def _check_path(path: str | Path, alone: bool) -> None:
    if not str(path) or not Path(path).exists():
        advice = "; from elsewhere, give a pyarrow Dataset" if "://" in str(path) else ""
        raise TableError(f"{str(path) or repr(path)}: no such file or folder{advice}")
    if not alone and Path(path).is_dir():
        raise TableError(f"{path}: is a folder; give it alone, or a list of files")


def values_of(column: Any) -> NDArray[Any]:
    """A column as an array: numbers in the type they have, anything else as Python's own objects."""
    import pyarrow.types as t

    plain = t.is_integer(column.type) or t.is_floating(column.type) or t.is_boolean(column.type)
    if plain and not column.null_count:
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
    return np.asarray(column.to_pylist())


def fragments(dataset: Any) -> list[Any]:
    """The files of a Dataset, which does not list them itself where it has a filter."""
    import pyarrow.dataset as ds

    if dataset._scan_options and hasattr(dataset, "files"):
        dataset = ds.FileSystemDataset.from_paths(
            dataset.files, dataset.schema, dataset.format, dataset.filesystem
        )
    return [] if dataset._scan_options else list(dataset.get_fragments())


def index_columns(schema: Any) -> set[str]:
    """What was the index of a data frame when pandas or Dask wrote it, which they read back as that."""
    held = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in held if isinstance(name, str)}  # a range is a dictionary


def in_paths(dataset: Any, files: list[Any]) -> set[str]:
    """The columns that are in the names of folders, and not in the files."""
    partitioning = getattr(dataset, "partitioning", None)
    if partitioning is None or not files:
        return set()
    return set(partitioning.schema.names) - set(files[0].physical_schema.names)


def absolute(files: list[str], filesystem: Any) -> list[str]:
    """The same files, in their order, from any folder; those of other file systems are that already."""
    from pyarrow.fs import LocalFileSystem

    local = isinstance(filesystem, LocalFileSystem)
    return [str(Path(file).resolve()) if local else file for file in files]


def check_files(dataset: Any) -> None:
    """Every file has the columns and types of the first; the error names file and column."""
    import pyarrow as pa

    files = fragments(dataset)
    for fragment in files:
        try:
            own, elsewhere = fragment.physical_schema, in_paths(dataset, files)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{fragment.path}: {str(error).splitlines()[0]}") from error
        for column in dataset.schema:
            if column.name in elsewhere:
                continue
            if column.name not in own.names:
                raise TableError(f"{fragment.path}: column {column.name!r} is missing")
            its = own.field(column.name).type
            if its != column.type and not pa.types.is_null(
                its
            ):  # which is a file without values there
                raise TableError(
                    f"{fragment.path}: column {column.name!r} is {its}, but {column.type} elsewhere: "
                    "write it with one type"
                )
