"""The subject of the report: a fitted booster and the given rows, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maboost.certification import Certification, certify
from maboost.data.labels import label_array, unknown_labels
from maboost.data.parquet import refuse_stored
from maboost.data.weights import row_weights
from maboost.report.metrics import Metrics, metrics
from maboost.report.table_views import TableView, table_view
from maboost.runtime.optional_packages import missing_package

__all__ = ["LabelledRows", "Subject", "TestRows", "fitted_booster"]

Array = NDArray[np.float64]

_NO_ROUNDS = "The model has no rounds, so that it knows nothing about single labels."
_ONE_CLASS = "All labels are the same, so that none looks wrong."
_NO_EVIDENCE = (
    "Which labels look wrong is known to the model that was fitted. A loaded model, or one cut after "
    "a round, does not remember its training rows: write the report from the fitted model."
)
_NO_PANDAS = missing_package("The table of suspect labels", "pandas") + "."
_NO_IMPORTANCES = (
    "The estimators of this model do not say how much they use each feature. Trees do, such as "
    "`HistTreeClassifier`."
)


def fitted_booster(model: Any) -> Any:
    """Return the model if it is a fitted booster; otherwise raise an error."""
    check_is_fitted(model)
    if not (hasattr(model, "history_") and hasattr(model, "certificate_")):
        raise TypeError(
            f"a report needs one of maboost's boosters, got {type(model).__name__}; of a pipeline or "
            "a search pass the booster itself: pipeline[-1], search.best_estimator_"
        )
    return model


@dataclass(frozen=True)
class LabelledRows:
    """Rows with labels, and their weights in the fit."""

    X: Any
    y: NDArray[Any]
    rows: TableView
    weight: Array
    weighted: bool


@dataclass(frozen=True)
class TestRows:
    """Rows that took no part in the fit, and the model's error on them.

    `metrics` is None where a label is not among the model's classes.
    """

    __test__ = False  # so that pytest does not collect the class

    error: float
    staged: Array
    count: int
    metrics: Metrics | None


@dataclass(frozen=True)
class Subject:
    """A fitted booster with the data about its rows.

    Attributes
    ----------
    model : booster
    training : LabelledRows or None
    test : TestRows or None
    certification : Certification or None
        Bounds of the error on fresh rows.
    names : list of str
        The names of the features.
    title, source, date : str
        Text for the reader; empty if not given.
    max_suspects, max_features : int
        Limits on the size of the tables.
    """

    model: Any
    training: LabelledRows | None
    test: TestRows | None
    certification: Certification | None
    names: list[str]
    title: str
    source: str
    date: str
    max_suspects: int
    max_features: int

    @property
    def classes(self) -> list[Any]:
        """The classes."""
        labels: list[Any] = self.model.classes_.tolist()
        return labels

    @property
    def rounds(self) -> int:
        """The number of rounds in the model, which may be fewer than were run."""
        return int(self.model.n_iter_)

    @cached_property
    def _suspects(self) -> tuple[Any, str]:
        if len(self.classes) == 1:
            return None, _ONE_CLASS
        if not len(self.model.history_):
            return None, _NO_ROUNDS
        try:
            table = self.model._suspects("auto", by_position=True)
        except AttributeError:
            return None, _NO_EVIDENCE
        if not hasattr(table, "attrs"):  # pandas is not installed
            return None, _NO_PANDAS
        return table, ""

    @property
    def suspects(self) -> Any:
        """The table of suspect labels, or None."""
        return self._suspects[0]

    @property
    def why_no_suspects(self) -> str:
        """The reason why there is no table of suspects."""
        return self._suspects[1]

    @cached_property
    def importances(self) -> Array | None:
        """The importance of each feature; None if the estimators have none."""
        found = getattr(self.model, "feature_importances_", None)
        return None if found is None else np.asarray(found, dtype=float)

    @property
    def why_no_importances(self) -> str:
        """The reason why there are no importances."""
        return _NO_IMPORTANCES

    @cached_property
    def trained(self) -> NDArray[np.intp] | None:
        """The positions of the rows on which the model was trained; None if the model does not know."""
        if self.suspects is None:
            return None
        rows: NDArray[np.intp] = self.model._per_row("_evidence", "write_report").rows
        return rows

    @cached_property
    def features_shown(self) -> list[int]:
        """The most important features, or the first ones."""
        order: Sequence[int] = range(len(self.names))
        if self.importances is not None:
            order = np.argsort(-self.importances, kind="stable").tolist()
        return list(order)[: self.max_features]


def labelled_rows(model: Any, X: Any, y: ArrayLike | None, weight: Any) -> LabelledRows | None:
    """Return the given training rows, checked against the model; None if none are given."""
    if X is None and y is None:
        if weight is not None:
            raise ValueError("sample_weight is given without X and y")
        return None
    if X is None or y is None:
        raise ValueError("X and y go together: give both or neither")
    _refuse_elsewhere("X", X)
    rows, labels = table_view(X), np.asarray(label_array(y))
    _check_length("y", labels, "X", rows)
    _check_width("X", rows, model)
    remembered = vars(model).get("_distribution")
    if remembered is not None and len(remembered) != rows.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} rows, but the model was fitted on {len(remembered)}: give the rows "
            "of the fit, all of them and in their order"
        )
    noise = model._row_noise  # its weights include the class weights
    class_weight = _class_weight(model, labels) if noise is None else None
    weights = row_weights(X, labels, weight, class_weight)
    unknown = unknown_labels(labels[weights.kept], model.classes_)
    if unknown:
        raise ValueError(
            f"y has {unknown[0]!r}, which is not among the model's classes {model.classes_.tolist()[:5]!r}: "
            "give the labels of the fit"
        )
    if noise is not None and noise.names is None:
        codes = np.searchsorted(model.classes_, labels[weights.kept])
        weights = weights.times(noise.weights[0][codes])
    base = np.zeros(len(labels))
    base[weights.kept] = weights.scaled
    weighted = weight is not None or model.class_weight is not None or noise is not None
    return LabelledRows(X, labels, rows, base, weighted)


def _class_weight(model: Any, labels: NDArray[Any]) -> Any:
    given = model.class_weight
    if not isinstance(given, dict):
        return given
    there = set(np.unique(labels).tolist())
    return {label: factor for label, factor in given.items() if label in there}


def _refuse_elsewhere(name: str, X: Any) -> None:
    refuse_stored(X, name)
    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"{name} is a Dask collection, and a report is of rows in memory: give {name}.compute(), or a "
            "sample of it"
        )


def _check_length(name: str, labels: NDArray[Any], of: str, rows: TableView) -> None:
    if labels.shape != (rows.shape[0],):
        raise ValueError(
            f"{name} must have one label for each of the {rows.shape[0]} rows of {of}, got shape "
            f"{labels.shape}"
        )


def _check_width(name: str, rows: TableView, model: Any) -> None:
    if rows.shape[1] != model.n_features_in_:
        raise ValueError(
            f"{name} has {rows.shape[1]} features, but the model was fitted on {model.n_features_in_}"
        )


def held_out_rows(model: Any, X: Any, y: ArrayLike | None) -> TestRows | None:
    """Return the given test rows, with the error on them after every round; None if none are given."""
    if X is None and y is None:
        return None
    if X is None or y is None:
        raise ValueError("X_test and y_test go together: give both or neither")
    _refuse_elsewhere("X_test", X)
    rows, labels = table_view(X), np.asarray(label_array(y, "y_test"))
    _check_length("y_test", labels, "X_test", rows)
    _check_width("X_test", rows, model)
    if not len(labels):
        raise ValueError("X_test has no rows")
    if not set(labels.tolist()) & set(model.classes_.tolist()):
        raise ValueError(
            f"y_test has none of the model's classes {model.classes_.tolist()[:5]!r}: give labels as in "
            "the fit"
        )
    if model.has_stages:
        staged = np.array([float(np.mean(p != labels)) for p in model.staged_predict(X)])
    else:
        staged = np.full(model.n_iter_, np.nan)
        staged[-1:] = np.mean(model.predict(X) != labels)
    known = not unknown_labels(labels, model.classes_)
    found = None
    if known:
        classes = model.classes_.tolist()
        found = metrics(labels, model.predict(X), model.predict_proba(X), classes)
    error = float(staged[-1]) if len(staged) else float(np.mean(model.predict(X) != labels))
    return TestRows(error, staged, len(labels), found)


def certification_of(
    model: Any, X: Any, y: ArrayLike | None, given: Certification | None
) -> Certification | None:
    """Return the given certification, else one from the test rows."""
    if given is not None:
        if not isinstance(given, Certification):
            raise TypeError(
                f"certification must be the result of maboost.certify, got {type(given).__name__}"
            )
        return given
    return None if X is None else certify(model, X, label_array(y, "y_test"))


def feature_names(
    model: Any, training: LabelledRows | None, given: Sequence[str] | None
) -> list[str]:
    """Return the given names, else those of the fit, else those of the table, else x0, x1, ..."""
    if given is not None:
        if len(given) != model.n_features_in_:
            raise ValueError(
                f"feature_names has {len(given)} names for {model.n_features_in_} features"
            )
        return [str(name) for name in given]
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is not None:
        return [str(name) for name in fitted]
    if training is not None and training.rows.names is not None:
        return training.rows.names
    return [f"x{i}" for i in range(model.n_features_in_)]
