"""The contents of a pyarrow Dataset: its files, their columns, and columns that are in no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.files import TableError
from maboost.runtime.optional_packages import missing_package

__all__ = [
    "absolute",
    "check_files",
    "fragments",
    "in_paths",
    "index_columns",
    "opened",
    "values_of",
    "with_types",
]


def opened(paths: str | Path | Sequence[str | Path]) -> Any:
    """Return the Dataset of a Parquet file, a folder of them, or a list of files."""
    try:
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError(missing_package("a fit on disk", "pyarrow", "parquet")) from error

    given = [paths] if isinstance(paths, str | Path) else list(paths)
    alone = given[0] is paths
    for path in given:
        _check_path(path, alone)
    # a folder's name may give the value of a column (colour=red), as in other readers
    a_file = alone and Path(given[0]).is_file()
    named = None if a_file else ds.HivePartitioning.discover(infer_dictionary=True)
    source = str(given[0]) if alone else [str(path) for path in given]
    found = _parquet_dataset(source, named)
    if not found.files:
        raise TableError(f"{paths}: there is no file in the folder")
    schema = _common_schema(found)
    return found if schema.equals(found.schema) else _parquet_dataset(source, named, schema)


def _parquet_dataset(source: str | list[str], partitioning: Any, schema: Any = None) -> Any:
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        return ds.dataset(source, schema, format="parquet", partitioning=partitioning)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{source}: {str(error).splitlines()[0]} For files of another kind give a Dataset, as "
            "of pyarrow.dataset.dataset(path, format='csv')"
        ) from error


def _common_schema(dataset: Any) -> Any:
    """Return the columns of the first file, in types that can hold the values of all files."""
    schema = dataset.schema
    for fragment in fragments(dataset):
        own = _schema_of(fragment)
        for at, column in enumerate([] if own.equals(schema) else schema):
            there = own.get_field_index(column.name)
            its = column.type if there < 0 else own.field(there).type
            both = _common_type(column.type, its)
            if both is None:
                raise _of_two_types(fragment, column, its)
            if both != column.type:
                schema = schema.set(at, column.with_type(both))
    return schema


def _common_type(one: Any, other: Any) -> Any:
    """Return the type that holds the numbers or the text of both; None if there is none.

    A column without any value is often written with no type.
    """
    import pyarrow as pa

    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    kind = _kind(one)
    if kind != _kind(other):
        return None
    if kind == pa.large_string():
        return kind
    both = [pa.schema([("", its)]) for its in (one, other)]
    return pa.unify_schemas(both, promote_options="permissive").field(0).type


def _kind(its: Any) -> Any:
    """Return one type for all numbers, one for all text, and any other type unchanged."""
    import pyarrow as pa

    t = pa.types
    if t.is_integer(its) or t.is_floating(its):
        return pa.float64()
    # categories with a declared order are more than their text
    held = its.value_type if t.is_dictionary(its) and not its.ordered else its
    text = t.is_string(held) or t.is_large_string(held) or t.is_string_view(held)
    return pa.large_string() if text else its


def _of_two_types(fragment: Any, column: Any, its: Any) -> TableError:
    return TableError(
        f"{fragment.path}: column {column.name!r} is {its}, but {column.type} elsewhere: "
        "write it with one type"
    )


def _check_path(path: str | Path, alone: bool) -> None:
    if not str(path) or not Path(path).exists():
        advice = "; from elsewhere, give a pyarrow Dataset" if "://" in str(path) else ""
        raise TableError(f"{str(path) or repr(path)}: no such file or folder{advice}")
    if not alone and Path(path).is_dir():
        raise TableError(f"{path}: is a folder; give it alone, or give a list of files")


def values_of(column: Any) -> NDArray[Any]:
    """Return a column as an array: numbers in their own type, anything else as Python objects."""
    import pyarrow.types as t

    plain = t.is_integer(column.type) or t.is_floating(column.type) or t.is_boolean(column.type)
    if plain and not column.null_count:
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
    return np.asarray(column.to_pylist())


def fragments(dataset: Any) -> list[Any]:
    """Return the files of a Dataset, which does not list them itself if it has a filter."""
    import pyarrow.dataset as ds

    if dataset._scan_options and hasattr(dataset, "files"):
        dataset = ds.FileSystemDataset.from_paths(
            dataset.files, dataset.schema, dataset.format, dataset.filesystem
        )
    return [] if dataset._scan_options else list(dataset.get_fragments())


def _schema_of(fragment: Any) -> Any:
    """Return the columns and types of one file."""
    import pyarrow as pa

    try:
        return fragment.physical_schema
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{fragment.path}: {str(error).splitlines()[0]}") from error


def index_columns(schema: Any) -> set[str]:
    """Return the columns that were the index of a data frame when pandas or Dask wrote it, and are read as such."""
    held = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in held if isinstance(name, str)}  # a range index is a dictionary


def in_paths(dataset: Any, files: list[Any]) -> set[str]:
    """Return the columns that are in the names of folders, and not in the files."""
    partitioning = getattr(dataset, "partitioning", None)
    if partitioning is None or not files:
        return set()
    return set(partitioning.schema.names) - set(_schema_of(files[0]).names)


def absolute(files: list[str], filesystem: Any) -> list[str]:
    """Return the files with absolute paths, in their order; paths of other file systems are absolute already."""
    from pyarrow.fs import LocalFileSystem

    local = isinstance(filesystem, LocalFileSystem)
    return [str(Path(file).resolve()) if local else file for file in files]


def check_files(dataset: Any) -> None:
    """Check that every file has all columns, in types that can be read as the Dataset's.

    A schema that the user gives decides. Otherwise the schema is that of the first file, and values of other files
    may not be changed to fit it. The error names the file and the column.
    """
    files = fragments(dataset)
    elsewhere = in_paths(dataset, files)
    columns = [column for column in dataset.schema if column.name not in elsewhere]
    first = _types_in(files[0], columns) if files else {}
    for fragment in files:
        same = _schema_of(fragment).equals(dataset.schema)
        types = {} if same else _types_in(fragment, columns)
        for column in [] if same or _is_csv(fragment) else columns:
            its, given = types[column.name], first[column.name] != column.type
            if not _is_read_as(its, column.type, given):
                raise _of_two_types(fragment, column, its)


def _types_in(fragment: Any, columns: list[Any]) -> dict[str, Any]:
    """Return the types of some columns in a file, all of which must be there."""
    own = _schema_of(fragment)
    types = {}
    for column in columns:
        there = own.get_all_field_indices(column.name)
        if len(there) != 1:
            fault = "there more than once" if there else "missing"
            raise TableError(f"{fragment.path}: column {column.name!r} is {fault}")
        types[column.name] = own.field(there[0]).type
    return types


def _is_csv(fragment: Any) -> bool:
    """Return whether a file has text cells, which are parsed as some type."""
    import pyarrow.dataset as ds

    return isinstance(getattr(fragment, "format", None), ds.CsvFileFormat)


def _is_read_as(its: Any, wanted: Any, given: bool) -> bool:
    """Return whether pyarrow casts one type to the other, without loss unless the user gave the type."""
    import pyarrow as pa

    if its == wanted or pa.types.is_null(its):
        return True
    try:
        pa.nulls(0, its).cast(wanted)
    except pa.ArrowException:
        return False
    floats = pa.types.is_floating(its) and pa.types.is_floating(wanted)
    # all other casts of numbers raise an error for values that they would change
    rounded = floats and its.bit_width > wanted.bit_width
    return given or (_kind(its) == _kind(wanted) and not rounded)


def with_types(batch: Any, schema: Any, path: str) -> Any:
    """Return a batch of a file, its columns cast to the types of a schema."""
    import pyarrow as pa

    if batch.schema.types == schema.types:
        return batch
    columns = []
    for column, wanted in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column.cast(wanted.type))
        except pa.ArrowException as error:
            raise TableError(
                f"{path}: column {wanted.name!r} is {column.type} and read as {wanted.type}, which does not "
                f"hold all of it ({str(error).splitlines()[0]}): write it with one type"
            ) from error
    return pa.record_batch(columns, names=schema.names)
