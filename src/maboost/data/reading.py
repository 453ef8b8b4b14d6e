"""Reading of rows on disk for a fit: the role of each column, and the data that must be in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.data.batches import BatchedTable, batches, fingerprint_of
from maboost.data.categories import CategoryCodes, categories_of, in_order
from maboost.data.files import TableError
from maboost.data.labels import label_array
from maboost.data.large_integers import large_columns, warn_of_columns
from maboost.data.parquet import ParquetTable
from maboost.data.stored import OnBatch
from maboost.data.training_rows import TrainingRows
from maboost.data.weights import row_weights

__all__ = ["stored_rows"]


def stored_rows(
    source: Any,
    target: Any,
    weight: Any,
    domain: Any,
    groups: Any,
    class_weight: Any,
    rates: Callable[[Any], tuple[Any, NDArray[Any] | None]],
    random_state: np.random.RandomState,
    on_batch: OnBatch,
) -> tuple[TrainingRows, NDArray[Any] | None]:
    """Return the rows of files on disk, and their groups; names refer to columns there.

    An iterator has its own labels and weights, and `target` is None then. `on_batch` is called after every batch.
    """
    if callable(getattr(source, "next", None)):
        others = (target, weight, domain, groups)
        rows = _iterated_rows(source, others, class_weight, rates, random_state)
        return replace(rows, X=replace(rows.X, on_batch=on_batch)), None
    names = {"y": target, "sample_weight": weight, "sample_domain": domain, "groups": groups}
    for name, value in names.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(
                f"with rows on disk {name} is the name of a column, got {type(value).__name__}"
            )
    if target is None:
        raise ValueError("with rows on disk y is the name of the target's column, got None")
    if target == weight:
        raise ValueError(f"column {target!r} cannot be both y and sample_weight")
    table = ParquetTable.open(source, {c for c in names.values() if c is not None})
    table = replace(table, codes=_codes(table), on_batch=on_batch)
    warn_of_columns(table.large_integers())
    y = _column(table, target)
    given = None if weight is None else _numbers(table, weight)
    sources = None if domain is None else _column(table, domain)
    weights = row_weights(np.empty((len(y), 1)), y, given, class_weight, None, *rates(sources))
    if not weights.kept.all():
        table, y = replace(table, keep=weights.kept), y[weights.kept]
    known = table.codes.categories
    rows = TrainingRows(table, y, weights, random_state, sources, categories=known)
    return rows, None if groups is None else _column(table, groups)


def _iterated_rows(
    source: Any,
    others: tuple[Any, ...],
    class_weight: Any,
    rates: Callable[[Any], tuple[Any, NDArray[Any] | None]],
    random_state: np.random.RandomState,
) -> TrainingRows:
    if any(value is not None for value in others):
        raise ValueError(
            "an iterator gives its own labels and weights: y, sample_weight, sample_domain and groups "
            "must be None"
        )
    taken = [_Batch.of(*batch) for batch in batches(source)]
    if not taken:
        raise ValueError("the iterator gives no rows")
    first = taken[0]
    for batch in taken:
        if batch.width != first.width:
            raise ValueError(f"a batch has {batch.width} columns, others have {first.width}")
        if batch.names != first.names:
            raise ValueError(
                f"a batch has the columns {batch.names}, others have {first.names}: give all in one order"
            )
    large = {column for batch in taken for column in batch.large}
    warn_of_columns([name for name in first.names or range(first.width) if name in large])
    y = np.concatenate([batch.labels for batch in taken])
    weight = np.concatenate([batch.weights for batch in taken])
    weights = row_weights(np.empty((len(y), 1)), y, weight, class_weight, None, *rates(None))
    features = [f"x{j}" for j in range(first.width)]
    fingerprints = tuple(batch.fingerprint for batch in taken)
    table = BatchedTable(source, features, len(y), fingerprints, CategoryCodes(dtypes={}))
    if not weights.kept.all():
        table, y = replace(table, keep=weights.kept), y[weights.kept]
    return TrainingRows(table, y, weights, random_state)


class _Batch(NamedTuple):
    """The parts of an iterator's batch that stay in memory: all but its rows."""

    width: int
    names: list[Any]
    labels: NDArray[Any]
    weights: NDArray[np.float64]
    fingerprint: bytes
    large: list[Any]

    @classmethod
    def of(cls, X: Any, y: Any, weights: Any = None) -> _Batch:
        if sp.issparse(X) or np.ndim(X) != 2 or not np.shape(X)[1] or np.shape(y) != (len(X),):
            raise ValueError(
                "a batch must be a dense array of rows and a label for each, got "
                f"{type(X).__name__} of shape {np.shape(X)} and labels of shape {np.shape(y)}"
            )
        # copies, since an iterator may reuse its arrays
        given = np.ones(len(X)) if weights is None else np.array(weights, dtype=np.float64)
        if given.shape != (len(X),):
            raise ValueError(
                f"a batch of {len(X)} rows has weights of shape {given.shape}: give one for each row"
            )
        names = list(getattr(X, "column_names", getattr(X, "columns", [])))
        labels = np.array(label_array(y))
        return cls(
            np.shape(X)[1],
            names,
            labels,
            given,
            fingerprint_of(_batch_of_numbers(X)),
            large_columns(X),
        )


def _batch_of_numbers(X: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"a batch is not all numbers ({error}): an iterator gives numbers, text and categories are "
            "read from Parquet files"
        ) from None


def _column(table: ParquetTable, name: str) -> NDArray[Any]:
    values = table.column(name)
    if values.ndim != 1:
        raise TableError(f"column {name!r} holds lists: give one value for each row")
    if values.dtype == object and any(v is None for v in values.tolist()):
        missing = sum(v is None for v in values.tolist())
        raise TableError(f"column {name!r} is missing in {missing} rows: leave those out")
    return values


def _numbers(table: ParquetTable, name: str) -> NDArray[np.float64]:
    try:
        return _column(table, name).astype(np.float64)
    except TableError:
        raise
    except (TypeError, ValueError) as error:
        raise TableError(
            f"column {name!r} is sample_weight, but not all numbers: {error}"
        ) from error


def _codes(table: ParquetTable) -> CategoryCodes:
    """Return the categories of the text columns, from one pass over these columns."""
    some = next(table.small_tables(), None)
    if some is None:
        raise TableError("there are no rows")
    first = CategoryCodes.of(some)
    if not first.categories:
        return first
    found: dict[Any, set[Any]] = {name: set() for name in first.categories}
    orders: dict[Any, list[Any] | None] = {}
    for part in table.small_tables(list(found)):
        for name, (values, order) in categories_of(part).items():
            found[name].update(values)
            if values and orders.setdefault(name, order) != order:
                raise TableError(
                    f"the categories of column {name!r} have the order {orders[name]} in some rows and "
                    f"{order} in others: write it with one dtype"
                )
    categories = {name: in_order(values, orders.get(name)) for name, values in found.items()}
    return CategoryCodes(categories, first.dtypes)
