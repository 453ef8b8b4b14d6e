"""Encoding of tables with text, categories and missing values as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.frames import (
    as_floats,
    as_frame,
    as_table,
    columns_of,
    declared_order,
    distinct_texts,
    dtype_name,
    float_series,
    is_category,
    pandas_index,
    time_kind,
)
from maboost.data.labels import is_missing
from maboost.runtime.communicator import Communicator, SerialCommunicator, gathered_objects
from maboost.runtime.encoding import decoded, encoded
from maboost.runtime.parameter_errors import Advice, ParameterWarning, Setting

if TYPE_CHECKING:
    from narwhals import Series

__all__ = [
    "CategoryCodes",
    "RareCategoriesWarning",
    "categorical_mask",
    "categories_of",
    "in_order",
    "rare_categories",
    "warn_of_rare",
]

Array = NDArray[np.float64]

_CATEGORY, _NUMBER = "category", "number"  # kinds of columns, besides those of time_kind
_MOST_WARNED = 5  # columns named in a warning
_FEW = 1 << 10  # rows whose categories are looked up value by value


@dataclass
class CategoryCodes:
    """Encoder of the text and categorical columns of a data frame as codes.

    Missing values and categories that did not occur at the fit become NaN. Without `dtypes` every
    table is left unchanged.

    Attributes
    ----------
    categories : dict
        The categories of each column at the fit, in the order of their codes.
    dtypes : dict or None
        The name of each column's dtype at the fit; empty if that was not a data frame.
    """

    categories: dict[Any, list[Any]] = field(default_factory=dict)
    dtypes: dict[Any, str] | None = None

    @classmethod
    def of(cls, X: Any, comm: Communicator | None = None) -> CategoryCodes:
        """Return the encoder for the columns of a data frame over all shards; for anything else, one without columns."""
        frame = as_frame(as_table(X))
        if frame is None:
            return cls(dtypes={})
        if not frame.columns:
            raise ValueError(
                f"X has {len(frame)} rows but no columns: give it at least one feature"
            )
        columns = zip(frame.columns, columns_of(frame), strict=True)
        here = {name: _Kind.of(name, column) for name, column in columns}
        shards = _gathered_kinds(here, comm or SerialCommunicator())
        kinds = {name: _Kind.together(name, [shard[name] for shard in shards]) for name in here}
        return cls(
            {name: kind.values for name, kind in kinds.items() if kind.values is not None},
            {name: kind.dtype for name, kind in kinds.items()},
        )

    def of_columns(self, names: list[Any]) -> CategoryCodes:
        """Return the encoder for some of the columns."""
        if not self.dtypes:
            return self
        held = {name: c for name, c in self.categories.items() if name in names}
        return CategoryCodes(held, {name: self.dtypes[name] for name in names})

    def numbers(self, X: Any) -> Array | None:
        """Return a pandas frame with the columns and kinds of dtypes of the fit as floats; None for any other table.

        One call converts all columns of numbers, which a few rows need in a fraction of the time of `applied`.
        """
        if pandas_index(X) is None or not self.dtypes or X.columns.tolist() != list(self.dtypes):
            return None
        coded = [self._kind_at_fit(name) != _NUMBER for name in self.dtypes]
        plain = [isinstance(d, np.dtype) and d.kind in "biuf" for d in X.dtypes.tolist()]
        if any(one == other for one, other in zip(coded, plain, strict=True)):
            return None
        if not any(coded):
            found: Array = X.to_numpy(np.float64)
            return found
        table = np.empty(X.shape)
        if any(plain):
            table[:, plain] = X.loc[:, plain].to_numpy(np.float64)
        for j, name in enumerate(self.dtypes):
            if coded[j]:
                table[:, j] = self._codes_in_pandas(name, X[name])
        return table

    def _codes_in_pandas(self, name: Any, column: Any) -> Array:
        """Return the numbers of a column of text or times of a pandas frame; codes of few rows value by value."""
        if name in self.categories and len(column) <= _FEW:
            values, code = column.tolist(), self._code_of[name]
            texts = [value for value in values if isinstance(value, str)]
            is_text = texts and all(isinstance(v, str) or is_missing(v) for v in values)
            if column.dtype.name == "category" or is_text:
                return np.array([code.get(value, np.nan) for value in values])
        import narwhals.stable.v2 as nw

        found = self._numbers(name, nw.from_native(column, series_only=True), name)
        assert found is not None  # it is no column of numbers
        return found

    @cached_property
    def _code_of(self) -> dict[Any, dict[Any, float]]:
        """The code of each category, by column."""
        return {
            name: {category: float(i) for i, category in enumerate(its)}
            for name, its in self.categories.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what follows from it."""
        return {"categories": self.categories, "dtypes": self.dtypes}

    def applied(self, X: Any) -> Any:
        """Return the table as numbers: a frame of the same library, or `X` itself if it has only numbers."""
        if self.dtypes is None:
            return X
        X = as_table(X)
        frame = as_frame(X)
        if frame is None:
            return self._of_array(X)
        names, fitted = frame.columns, list(self.dtypes)
        if fitted and names != fitted:
            if all(isinstance(name, str) for name in [*names, *fitted]):
                return X  # scikit-learn's check of feature names explains the error
            if len(names) != len(fitted):
                raise ValueError(f"X has {len(names)} columns, but had {len(fitted)} at the fit")
        changed, problems = [], []
        for j, column in enumerate(columns_of(frame)):
            try:
                numbers = self._numbers(names[j], column, fitted[j] if fitted else None)
            except ValueError as error:
                problems.append(str(error))
                continue
            if numbers is not None:
                changed.append(float_series(names[j], numbers, frame))
        if problems:
            raise ValueError("; ".join(problems))
        return frame.with_columns(*changed).to_native() if changed else X

    def _kind_at_fit(self, fitted: Any) -> str:
        """Return the kind of a column that had this name at the fit."""
        if fitted in self.categories:
            return _CATEGORY
        return time_kind((self.dtypes or {}).get(fitted, "")) or _NUMBER

    def _numbers(self, name: Any, column: Series[Any], fitted: Any) -> Array | None:
        """Return the codes of a column that had the name `fitted` at the fit; None if it has only numbers."""
        if _kind_now(column) != self._kind_at_fit(fitted):
            if column.null_count() == len(column):
                return np.full(len(column), np.nan)
            was = (self.dtypes or {}).get(fitted, "a number")
            raise ValueError(
                f"column {name!r} was {was} at the fit and is {dtype_name(column)} now: give it the "
                "dtype it had"
            )
        if fitted in self.categories:
            return _coded(name, column, self.categories[fitted])
        return as_floats(name, column)

    def _of_array(self, X: Any) -> Any:
        """Return an array as numbers. Its text or objects may be those of a frame's columns, by position."""
        _refuse_unreadable(X)
        values = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS"
        if self.categories:
            names = list(self.dtypes or {})
            if values and X.shape[1] == len(names):
                return np.column_stack([self._array_column(X, j, n) for j, n in enumerate(names)])
            raise ValueError(
                f"X was a data frame with categories at the fit (in {list(self.categories)}): pass a "
                "data frame with the same columns"
            )
        for j in range(X.shape[1] if values else 0):
            self._array_column(X, j, None)  # raises an error that names the column
        return X

    def _array_column(self, X: NDArray[Any], j: int, fitted: Any) -> Array:
        """Return the numbers of a column that had the name `fitted` at the fit."""
        if fitted in self.categories:
            return _coded_values(fitted, X[:, j].tolist(), self.categories[fitted])
        try:
            return X[:, j].astype(np.float64)
        except ValueError as error:
            raise ValueError(
                f"column {j} of X is not numeric ({error}): pass a data frame, whose text columns "
                "are categories (some wrappers turn one into an array)"
            ) from None


def _kind_now(column: Series[Any]) -> str:
    return _CATEGORY if is_category(column) else time_kind(dtype_name(column)) or _NUMBER


def _refuse_unreadable(X: Any) -> None:
    """Raise ValueError for arrays whose values scikit-learn's check would silently change."""
    kind = X.dtype.kind if isinstance(X, np.ndarray) else ""
    if kind in ("m", "M"):
        raise ValueError(
            f"X has dtype {X.dtype}, which is not numeric: give dates and times in a data frame, or as numbers, "
            "such as a year and a month"
        )
    if kind and np.ma.is_masked(X):
        raise ValueError(
            f"X has {int(np.ma.getmaskarray(X).sum())} masked values, whose mask would be ignored: give "
            "NaN where values are missing, as X.astype(float).filled(np.nan) does"
        )


@dataclass(frozen=True)
class _Kind:
    """The kind of a column on one shard: its dtype, its categories, and their order if there is one."""

    dtype: str
    values: list[Any] | None
    order: list[Any] | None
    vacant: bool

    @classmethod
    def of(cls, name: Any, column: Series[Any]) -> _Kind:
        order = declared_order(column)
        values = in_order(distinct_texts(name, column), order) if is_category(column) else None
        return cls(dtype_name(column), values, order, column.null_count() == len(column))

    @classmethod
    def together(cls, name: Any, shards: list[_Kind]) -> _Kind:
        """Return the kind over all shards; shards on which the column has only missing values are ignored."""
        filled = [kind for kind in shards if not kind.vacant] or shards
        first = filled[0]
        if any(k.values is None or k.order != first.order for k in filled):
            kinds = {time_kind(k.dtype) for k in filled}
            if len(kinds) > 1 or any(k.values is not None for k in filled):
                other = next(k for k in filled if (k.dtype, k.order) != (first.dtype, first.order))
                raise ValueError(
                    f"column {name!r} is {first.dtype} in one partition and {other.dtype} in another, "
                    "or its categories have another order there: give it one dtype"
                )
            return first
        values = {value for kind in filled for value in kind.values or []}
        return cls(first.dtype, in_order(values, first.order), first.order, first.vacant)


def _gathered_kinds(here: dict[Any, _Kind], comm: Communicator) -> list[dict[Any, _Kind]]:
    """Return the kinds of the columns of every shard, by rank."""
    if comm.size == 1:
        return [here]
    contents: dict[Any, Any] = {}
    for name, kind in here.items():
        try:
            contents[name] = encoded((kind.dtype, kind.values, kind.order, kind.vacant))
        except TypeError as error:
            raise ValueError(f"the categories of column {name!r}: {error}") from None
    return [
        {name: _Kind(*decoded(content)) for name, content in shard.items()}
        for shard in gathered_objects(contents, comm)
    ]


def categories_of(X: Any) -> dict[Any, tuple[list[Any], list[Any] | None]]:
    """Return the categories that occur in each column of text or categories, and their declared order if any."""
    frame = as_frame(X)
    if frame is None:
        return {}
    columns = zip(frame.columns, columns_of(frame), strict=True)
    kinds = {name: _Kind.of(name, column) for name, column in columns}
    return {name: (k.values, k.order) for name, k in kinds.items() if k.values is not None}


def categorical_mask(
    categorical_features: Any, codes: CategoryCodes, names: Any, columns: int
) -> NDArray[np.bool_]:
    """Return which columns are categorical, from the parameter `categorical_features`."""
    mask = np.zeros(columns, dtype=bool)
    dtypes = codes.dtypes or {}
    coded = {name: j for j, name in enumerate(dtypes) if name in codes.categories}
    if isinstance(categorical_features, str):
        if categorical_features != "from_dtype":
            raise ValueError(
                "categorical_features must be 'from_dtype', None, a boolean mask, or a list of column "
                f"names or numbers, got {categorical_features!r}"
            )
        mask[list(coded.values())] = True
    elif categorical_features is not None:
        mask[_chosen(np.asarray(categorical_features), names, columns)] = True
    for name, j in coded.items():
        if dtypes[name] == "String" and not mask[j]:
            raise ValueError(
                f"column {name!r} is text, but categorical_features leaves it out: name it there, or "
                "turn it into numbers"
            )
    return mask


class RareCategoriesWarning(ParameterWarning):
    """A column has more categories than `max_bins`, so the rare ones share a bin.

    >>> import warnings
    >>> from maboost import MABoostClassifier
    >>> model = MABoostClassifier(n_estimators=1, max_bins=4, categorical_features=[0])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = model.fit([[i % 8] for i in range(40)], [i % 2 for i in range(40)])
    >>> [warning.category.__name__ for warning in caught], list(model.rare_categories_)
    (['RareCategoriesWarning'], [0])
    """


def rare_categories(
    rare: dict[int, Array], codes: CategoryCodes, names: Any
) -> dict[Any, list[Any]]:
    """Return the categories that share a bin, by the name of their column, or by its position if it has no name.

    Parameters
    ----------
    rare : dict
        The codes of these categories, by position of the column.
    codes : CategoryCodes
    names : sequence or None
        The names of all columns.
    """
    known = list(codes.dtypes or ()) or (None if names is None else list(names))
    found = {}
    for j, values in sorted(rare.items()):
        name = j if known is None else known[j]
        categories = codes.categories.get(name)
        numbers = values.tolist()
        found[name] = numbers if categories is None else [categories[int(v)] for v in numbers]
    return found


def warn_of_rare(rare: dict[Any, list[Any]], max_bins: int, stacklevel: int) -> None:
    """Warn of columns whose rare categories share a bin, as :func:`rare_categories` returns them."""
    if not rare:
        return
    columns = [
        f"column {name!r} has {max_bins - 1 + len(its)} categories, of which the {len(its)} of least "
        "weight share a bin"
        for name, its in rare.items()
    ]
    shown = columns[:_MOST_WARNED]
    if len(columns) > len(shown):
        shown.append(f"and so on in {len(columns) - len(shown)} more columns")
    warning = RareCategoriesWarning(
        "more categories than ", Setting("max_bins", max_bins), f": {'; '.join(shown)} (",
        Advice("rare categories", "rare_categories_ lists them"),
        "): group categories that belong together, or ", Advice("drop", "leave out"),
        " a column that identifies rows",
    )  # fmt: skip
    warnings.warn(warning, stacklevel=stacklevel)


def _chosen(chosen: NDArray[Any], names: Any, columns: int) -> list[int]:
    """Return the positions of columns given by a mask, names or positions."""
    if chosen.dtype == bool:
        if chosen.shape != (columns,):
            raise ValueError(
                f"categorical_features as a mask must have {columns} entries, got {chosen.shape}"
            )
        return np.flatnonzero(chosen).tolist()
    columns_given = chosen.tolist()
    if chosen.ndim > 1 or not isinstance(columns_given, Iterable):
        raise ValueError(
            "categorical_features must be 'from_dtype', None, a boolean mask, or a list of column names "
            f"or numbers, got {columns_given!r}"
        )
    named = {} if names is None else {name: j for j, name in enumerate(names)}
    positions = []
    for column in columns_given:
        at = named.get(column, column)
        if not isinstance(at, int) or not -columns <= at < columns:
            raise ValueError(
                f"categorical_features names column {column!r}, which is not in X; X has "
                f"{columns} columns"
            )
        positions.append(at)
    return positions


def in_order(values: Iterable[Any], order: list[Any] | None) -> list[Any]:
    """Return the categories in a declared order, otherwise sorted."""
    if order is not None:
        return sorted(
            values, key={category: code for code, category in enumerate(order)}.__getitem__
        )
    return sorted(values, key=lambda value: (type(value).__name__, value))


def _coded(name: Any, column: Series[Any], categories: list[Any]) -> Array:
    """Return the codes of a column's values; NaN for missing values and unknown categories."""
    import narwhals.stable.v2 as nw

    values = distinct_texts(name, column)
    if not values:
        return np.full(len(column), np.nan)
    code = {category: i for i, category in enumerate(categories)}
    codes = column.replace_strict(
        values, [code.get(value, -1) for value in values], return_dtype=nw.Float64()
    ).to_numpy()
    return np.where(codes < 0.0, np.nan, codes)


def _coded_values(name: Any, values: list[Any], categories: list[Any]) -> Array:
    """Return the codes of values from an array, which has no dtype for text."""
    code = {category: float(i) for i, category in enumerate(categories)}
    if all(isinstance(category, str) for category in categories):
        for value in values:
            if not isinstance(value, str) and not is_missing(value):
                raise ValueError(
                    f"column {name!r} was text or categories at the fit and holds {value!r} now: give it "
                    "the values it had"
                )
    return np.array([code.get(value, np.nan) for value in values])
