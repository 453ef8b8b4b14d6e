"""Checks of labels."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["check_labels", "is_missing", "label_array", "refuse_missing", "unknown_labels"]


def label_array(y: Any, name: str = "y") -> Any:
    """Return labels in a series or an array of a data frame library as an array; anything else unchanged."""
    if isinstance(y, np.ndarray | list | tuple):
        refuse_missing(y, name, "labels")
        return y
    import narwhals.stable.v2 as nw

    series = nw.from_native(y, pass_through=True, allow_series=True)
    if not isinstance(series, nw.Series):
        values = np.asarray(y) if hasattr(y, "__array__") else None  # an array of pandas or pyarrow
        if values is None or values.ndim != 1:
            return y
        refuse_missing(values, name, "labels")
        return values
    missing = np.flatnonzero(series.is_null().to_numpy())
    if len(missing):
        raise ValueError(
            f"{name} has {len(missing)} missing labels, the first in row {missing[0]}: leave those rows "
            "out"
        )
    return series.to_numpy()


def check_labels(labels: NDArray[Any]) -> None:
    """Raise ValueError if labels are not classes, such as numbers with fractions."""
    objects = labels.tolist() if labels.dtype == object else []
    odd = [value for value in objects if not isinstance(value, str)]
    if odd:  # scikit-learn's message would be about regression
        raise ValueError(
            f"Unknown label type: y has dtype object and holds {odd[0]!r} of type {type(odd[0]).__name__}, "
            "where labels of that dtype are text: give numbers and booleans a dtype of their own, as "
            "y.astype(int) does, and turn anything else into text"
        )
    check_classification_targets(labels)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or a missing value of pandas."""
    number = isinstance(value, Real) and bool(value != value)
    return value is None or number or type(value).__name__ in ("NAType", "NaTType")  # of pandas


def unknown_labels(labels: NDArray[Any], classes: NDArray[Any]) -> list[Any]:
    """Return the labels that are not among the classes; their types may have no common order."""
    return sorted(set(labels.tolist()) - set(classes.tolist()), key=str)


def refuse_missing(values: Any, name: str, what: str) -> None:
    """Raise ValueError if an array or a list contains None or NaN."""
    array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
    if array.ndim != 1 or array.dtype.kind not in "fO":
        return
    if array.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(array)).tolist()
    else:
        missing = [i for i, value in enumerate(array) if is_missing(value)]
    if missing:
        raise ValueError(
            f"{name} has {len(missing)} missing {what}, the first in row {missing[0]}: leave those "
            "rows out"
        )
