"""A fit from disk: which columns are what, and what must be resident before the first pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.files import TableError
from maboost.data.stored import StoredTable
from maboost.estimators.rows import TrainingRows
from maboost.estimators.table import CategoryCodes
from maboost.estimators.weights import row_weights

__all__ = ["stored_rows"]


def stored_rows(
    source: Any,
    target: Any,
    weight: Any,
    domain: Any,
    class_weight: Any,
    random_state: np.random.RandomState,
) -> TrainingRows:
    """The rows of files on disk; `target`, `weight` and `domain` name columns there."""
    for name, value in (("y", target), ("sample_weight", weight), ("sample_domain", domain)):
        if value is not None and not isinstance(value, str):
            raise ValueError(
                f"with rows on disk {name} is the name of a column, got {type(value).__name__}"
            )
    if target is None:
        raise ValueError("with rows on disk y is the name of the target's column, got None")
    table = StoredTable.open(source, {c for c in (target, weight, domain) if c is not None})
    table = replace(table, codes=_codes(table))
    y = _column(table, target)
    given = None if weight is None else _column(table, weight).astype(np.float64)
    weights = row_weights(np.empty((len(y), 1)), y, given, class_weight)
    if not weights.kept.all():
        table, y = replace(table, keep=weights.kept), y[weights.kept]
    sources = None if domain is None else _column(table, domain)
    return TrainingRows(table, y, weights, random_state, sources)


def _column(table: StoredTable, name: str) -> NDArray[Any]:
    values = replace(table, keep=None).column(name)
    if values.dtype == object and any(v is None for v in values.tolist()):
        missing = sum(v is None for v in values.tolist())
        raise TableError(f"column {name!r} is missing in {missing} rows: leave those out")
    return values


def _codes(table: StoredTable) -> CategoryCodes:
    """Categories of the text columns, from one pass over those alone."""
    first = CategoryCodes.of(next(table.small_tables()))
    if not first.categories:
        return first
    found: dict[Any, set[Any]] = {name: set() for name in first.categories}
    for part in table.small_tables(list(found)):
        for name, values in CategoryCodes.of(part).categories.items():
            found[name].update(values)
    categories = {
        name: sorted(values, key=lambda v: (type(v).__name__, v)) for name, values in found.items()
    }
    return CategoryCodes(categories, first.dtypes)
