"""Dask collections as parts: which rows lie together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

try:
    import dask.array as da
    from dask import config, delayed
    from dask.delayed import Delayed
except ImportError as error:  # pragma: no cover
    raise ImportError("maboost.distributed needs dask: pip install 'maboost[dask]'") from error

__all__ = ["blank", "divided", "is_collection", "lengths_of", "parts_of", "recut", "together"]


def is_collection(values: Any) -> bool:
    """Return whether this is a Dask array, data frame or series."""
    if isinstance(values, Delayed):  # which has an attribute of any name
        return False
    return isinstance(values, da.Array) or hasattr(values, "map_partitions")


def parts_of(name: str, values: Any) -> list[Any]:
    """Return the parts of a collection along its rows, each delayed."""
    _check(name, values)
    if isinstance(values, da.Array):
        if values.ndim == 2 and values.numblocks[1] > 1:
            values = values.rechunk({1: -1})
        return list(values.to_delayed().ravel())
    with config.set({"optimization.tune.active": False}):  # Dask would join parts of few columns
        return list(values.to_delayed())


def divided(rows: dict[str, Any]) -> list[Any]:
    """Arguments of a fit that go together as delayed dictionaries, the n-th parts of all in the n-th.

    Where one has fewer parts than another, the last dictionaries are without it. What the rows lie in may
    differ: see :func:`recut`.
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
    """Return the parts of data frames and series with as many each, in one expression: what they share, the
    reading of a file say, is done once.
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
    """Return how many rows each argument has in a part."""
    return {name: values.shape[0] for name, values in part.items()}


def recut(parts: list[Any], lengths: list[dict[str, int]]) -> list[Any]:
    """Return the rows of parts whose arguments differ in length, cut anew like those of the first argument.

    Parameters
    ----------
    parts : list of futures of dictionaries
        As of :func:`divided`.
    lengths : list of dict
        What :func:`lengths_of` says of each.

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
    """Return the parts of one worker as one table."""
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from dask.dataframe.dispatch import concat  # joins the categories of partitions too

    return concat(parts)
