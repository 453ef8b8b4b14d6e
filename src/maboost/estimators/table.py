"""Tables with categorical columns, as numbers that the trees can bin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CategoryCodes", "categorical_mask"]


@dataclass
class CategoryCodes:
    """Replaces the columns of a data frame that have a categorical dtype by codes.

    Missing values and categories that were not there at the fit become NaN.
    """

    categories: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Any) -> CategoryCodes:
        """The categories of a data frame's categorical columns; none for anything else."""
        if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
            return cls()
        names = [c for c in X.columns if str(X[c].dtype) == "category"]
        return cls({name: X[name].cat.categories for name in names})

    def applied(self, X: Any) -> Any:
        """The frame with codes, or `X` itself where there is nothing to do."""
        if not self.categories or not hasattr(X, "columns"):
            return X
        X = X.copy(deep=False)
        for name, categories in self.categories.items():
            if name not in X.columns or str(X[name].dtype) != "category":
                continue  # the feature name check reports what is wrong
            codes = X[name].cat.set_categories(categories).cat.codes.to_numpy()
            X[name] = np.where(codes < 0, np.nan, codes.astype(np.float64))
        return X


def categorical_mask(
    categorical_features: Any, codes: CategoryCodes, names: Any, columns: int
) -> NDArray[np.bool_]:
    """Which columns are categorical, from the parameter `categorical_features`."""
    mask = np.zeros(columns, dtype=bool)
    if categorical_features is None:
        return mask
    named = {} if names is None else {name: j for j, name in enumerate(names)}
    if isinstance(categorical_features, str):
        if categorical_features != "from_dtype":
            raise ValueError(
                "categorical_features must be 'from_dtype', None, a boolean mask, or a list of column "
                f"names or numbers, got {categorical_features!r}"
            )
        mask[[named[name] for name in codes.categories]] = True
        return mask
    chosen = np.asarray(categorical_features)
    if chosen.dtype == bool:
        if chosen.shape != (columns,):
            raise ValueError(
                f"categorical_features as a mask must have {columns} entries, got {chosen.shape}"
            )
        return chosen.copy()
    for column in chosen.tolist():
        at = named.get(column, column)
        if not isinstance(at, int) or not -columns <= at < columns:
            raise ValueError(
                f"categorical_features names column {column!r}, which X has not; X has "
                f"{columns} columns"
            )
        mask[at] = True
    return mask
