"""Labels as users give them."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["check_labels", "is_missing", "label_array", "refuse_missing", "unknown_labels"]


def label_array(y: Any, name: str = "y") -> Any:
    """Labels in a series or an array of a data frame library as an array; anything else as it is."""
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
    """Raise ValueError where labels are no classes, such as numbers with fractions."""
    objects = labels.tolist() if labels.dtype == object else []
    odd = [value for value in objects if not isinstance(value, str)]
    if odd:  # scikit-learn's words would be about regression
        raise ValueError(
            f"Unknown label type: y has dtype object and holds {odd[0]!r} of type {type(odd[0]).__name__}, "
            "where labels of that dtype are text: give numbers and booleans a dtype of their own, as "
            "y.astype(int) does, and turn anything else into text"
        )
    check_classification_targets(labels)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or what pandas has for them."""
    number = isinstance(value, Real) and bool(value != value)
    return value is None or number or type(value).__name__ in ("NAType", "NaTType")  # pandas' own


def unknown_labels(labels: NDArray[Any], classes: NDArray[Any]) -> list[Any]:
    """Labels that are none of the classes; they may be of types that have no order among them."""
    return sorted(set(labels.tolist()) - set(classes.tolist()), key=str)


def refuse_missing(values: Any, name: str, what: str) -> None:
    """Raise ValueError where an array or a list has None or NaN in it."""
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
