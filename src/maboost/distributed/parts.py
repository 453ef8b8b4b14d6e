"""Dask collections as parts: which rows lie together."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

try:
    import dask.array as da
    from dask import delayed
except ImportError as error:  # pragma: no cover
    raise ImportError("maboost.distributed needs dask: pip install 'maboost[dask]'") from error

__all__ = ["as_array", "blank", "divided", "is_collection", "part_sizes", "parts_of", "together"]


def is_collection(values: Any) -> bool:
    """Whether this is a Dask array, data frame or series."""
    return isinstance(values, da.Array) or hasattr(values, "map_partitions")


def parts_of(name: str, values: Any) -> list[Any]:
    """The parts of a collection along its rows, each delayed."""
    if not is_collection(values):
        raise TypeError(
            f"{name} must be a Dask array, data frame or series, got {type(values).__name__}; rows on "
            "one machine are for the classifier without Dask"
        )
    if isinstance(values, da.Array):
        if values.ndim == 2 and values.numblocks[1] > 1:
            values = values.rechunk({1: -1})
        return list(values.to_delayed().ravel())
    return list(values.to_delayed())


def part_sizes(values: Any) -> list[float]:
    """Rows of each part; NaN where Dask does not know."""
    if isinstance(values, da.Array):
        return list(values.chunks[0])
    return [np.nan] * values.npartitions


def as_array(name: str, values: Any) -> Any:
    """A column as a Dask array with a chunk for each part."""
    if isinstance(values, da.Array):
        return values
    dtype = np.asarray(values._meta).dtype
    chunks = [
        da.from_delayed(delayed(np.asarray)(part), (np.nan,), dtype)
        for part in parts_of(name, values)
    ]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def divided(rows: dict[str, Any]) -> list[Any]:
    """Arguments of a fit that go together, part by part: a delayed dictionary each."""
    first, *_ = rows.values()
    columns: dict[str, list[Any]] = {}
    for name, values in rows.items():
        if isinstance(first, da.Array) and isinstance(values, da.Array):
            known = not np.isnan([*first.chunks[0], *values.chunks[0]]).any()
            if known and first.shape[0] != values.shape[0]:
                raise ValueError(
                    f"{name} has {values.shape[0]} rows, {next(iter(rows))} has {first.shape[0]}"
                )
            if known and first.chunks[0] != values.chunks[0]:
                values = values.rechunk({0: first.chunks[0]})
        columns[name] = parts_of(name, values)
    counts = {name: len(parts) for name, parts in columns.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            "rows that go together must have the same partitions, got "
            + ", ".join(f"{count} of {name}" for name, count in counts.items())
        )
    together = zip(*columns.values(), strict=True)
    return [delayed(dict)(dict(zip(columns, parts, strict=True))) for parts in together]


def blank(values: Any) -> Any:
    """What a worker without any part of a collection has of it."""
    meta = values._meta
    if not isinstance(values, da.Array):
        return meta
    shape = (0, *values.shape[1:])
    return (
        sp.csr_matrix(shape, dtype=values.dtype)
        if sp.issparse(meta)
        else np.empty(shape, values.dtype)
    )


def together(parts: list[Any]) -> Any:
    """The parts of one worker as one table."""
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from dask.dataframe.dispatch import concat  # joins the categories of partitions too

    return concat(parts)
