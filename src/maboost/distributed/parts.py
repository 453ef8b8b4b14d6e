"""Dask collections as lists of partitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

from maboost.runtime.optional_packages import missing_package

try:
    import dask.array as da
    from dask import config, delayed
    from dask.delayed import Delayed
except ImportError as error:  # pragma: no cover
    raise ImportError(missing_package("maboost.distributed", "dask", "dask")) from error

__all__ = ["blank", "divided", "is_collection", "lengths_of", "parts_of", "recut", "together"]


def is_collection(values: Any) -> bool:
    """Return whether this is a Dask array, data frame or series."""
    if isinstance(values, Delayed):  # it has an attribute of every name
        return False
    return isinstance(values, da.Array) or hasattr(values, "map_partitions")


def parts_of(name: str, values: Any) -> list[Any]:
    """Return the partitions of a collection along its rows, each delayed."""
    _check(name, values)
    if isinstance(values, da.Array):
        if values.ndim == 2 and values.numblocks[1] > 1:
            values = values.rechunk({1: -1})
        return list(values.to_delayed().ravel())
    with config.set(
        {"optimization.tune.active": False}
    ):  # otherwise Dask joins partitions of few columns
        return list(values.to_delayed())


def divided(rows: dict[str, Any]) -> list[Any]:
    """Return arguments of a fit that belong together as delayed dictionaries, one for each partition.

    If one has fewer partitions than another, the last dictionaries lack it. Partitions may differ in their
    rows: see :func:`recut`.
    """
    for name, values in rows.items():
        _check(name, values)
    lengths = {name: v.shape[0] for name, v in rows.items() if isinstance(v, da.Array)}
    known = {name: length for name, length in lengths.items() if not np.isnan(length)}
    _check_lengths(known)
    frames = {name: v for name, v in rows.items() if not isinstance(v, da.Array)}
    counts = {v.npartitions for v in frames.values()}
    columns = {name: parts_of(name, v) for name, v in rows.items() if name not in frames}
    if len(frames) > 1 and len(counts) == 1:
        columns |= _read_once(frames)
    else:
        columns |= {name: parts_of(name, v) for name, v in frames.items()}
    return [
        delayed(dict)({name: columns[name][i] for name in rows if i < len(columns[name])})
        for i in range(max(map(len, columns.values())))
    ]


def _read_once(frames: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the partitions of data frames and series in one expression, so that common work, such as
    reading a file, is done once.
    """
    one, *others = frames.values()
    together = one.map_partitions(
        _named, *others, names=list(frames), meta=one._meta, enforce_metadata=False,
        align_dataframes=False,
    )  # fmt: skip
    parts = parts_of(next(iter(frames)), together)
    return {name: [part[name] for part in parts] for name in frames}


def _named(*values: Any, names: list[str]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def lengths_of(part: dict[str, Any]) -> dict[str, int]:
    """Return the number of rows of each argument in a partition."""
    return {name: values.shape[0] for name, values in part.items()}


def recut(parts: list[Any], lengths: list[dict[str, int]]) -> list[Any]:
    """Return partitions in which all arguments have the rows of the first argument.

    Parameters
    ----------
    parts : list of futures of dictionaries
        The result of :func:`divided`.
    lengths : list of dict
        The result of :func:`lengths_of` for each.

    Returns
    -------
    list of delayed dictionaries
    """
    first, *_ = names = list(lengths[0])
    ends = {name: np.cumsum([0, *(its[name] for its in lengths if name in its)]) for name in names}
    _check_lengths({name: int(its[-1]) for name, its in ends.items()})
    held, cut = [delayed(part) for part in parts], delayed(_cut)

    def rows(name: str, start: int, stop: int) -> Any:
        its = ends[name]
        begin = min(int(np.searchsorted(its, start, "right")), len(its) - 1) - 1
        end = max(int(np.searchsorted(its, stop)), begin + 1)
        pieces = [cut(held[i], name, start - its[i], stop - its[i]) for i in range(begin, end)]
        return delayed(together)(pieces)

    bounds = itertools.pairwise(ends[first])
    return [delayed(dict)({name: rows(name, *pair) for name in names}) for pair in bounds]


def _cut(part: dict[str, Any], name: str, start: int, stop: int) -> Any:
    values = part[name]
    start, stop = max(start, 0), min(stop, values.shape[0])
    return values.iloc[start:stop] if hasattr(values, "iloc") else values[start:stop]


def _check(name: str, values: Any) -> None:
    if not is_collection(values):
        raise TypeError(
            f"{name} must be a Dask array, data frame or series, got {type(values).__name__}; rows on "
            "one machine are for the classifier without Dask"
        )


def _check_lengths(lengths: dict[str, int]) -> None:
    for name, length in lengths.items():
        first, rows = next(iter(lengths.items()))
        if length != rows:
            raise ValueError(
                f"{name} has {length} rows, {first} has {rows}: give them the same rows in the same order"
            )


def blank(values: Any) -> Any:
    """Return an empty array or frame for a worker that has no partition of a collection."""
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
    """Return the partitions of one worker as one table."""
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from dask.dataframe.dispatch import concat  # also joins the categories of partitions

    return concat(parts)
