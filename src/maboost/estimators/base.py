"""The base class of the boosters: parameters, checks, encoding; the fit is in :mod:`fitting`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from maboost.boosting.game import Game, Validation
from maboost.boosting.row_sampling.uniform import Uniform
from maboost.data.categories import CategoryCodes, categorical_mask
from maboost.data.frames import checked_data
from maboost.data.labels import check_labels, label_array, unknown_labels
from maboost.data.large_integers import warn_of_large_integers
from maboost.data.parquet import ParquetTable, is_stored, refuse_name, refuse_stored
from maboost.data.reading import stored_rows
from maboost.data.training_rows import TrainingRows
from maboost.data.weights import RowWeights, row_weights
from maboost.estimators.control import (
    CallbackSupportMixin,
    unchanged_by_failure,
    with_callbacks,
)
from maboost.estimators.fitting import Fitting
from maboost.estimators.progress import rows_done, showing
from maboost.estimators.tree import (
    INPUT,
    TREE_PARAMETERS,
    HistTreeClassifier,
    rows_for_prediction,
)
from maboost.learners.adapter import EstimatorLearner, warn_of_resampling
from maboost.learners.base import WeakLearner
from maboost.noise.rates import EstimatedRates
from maboost.runtime.communicator import global_count, reproducible_sum
from maboost.runtime.devices import require_cuda
from maboost.runtime.threads import Threads

__all__ = ["BoostingClassifier"]

Array = NDArray[np.float64]


def _or_auto(constraints: list[Any]) -> list[Any]:
    """Return the constraints of a parameter that may also be "auto"."""
    words = {w for c in constraints if isinstance(c, StrOptions) for w in c.options}
    others = [c for c in constraints if not isinstance(c, StrOptions)]
    return [*others, StrOptions(words | {"auto"})]


@contextmanager
def named_argument(name: str) -> Iterator[None]:
    """Add the name of the argument to errors of checks that call it `X` or `sample_weight`."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


class BoostingClassifier(CallbackSupportMixin, Fitting, ClassifierMixin, BaseEstimator):
    """The base class of the boosters; a subclass lists its parameters and builds its booster."""

    estimator: Any
    learning_rate: float
    max_depth: int | Literal["auto"] | None
    max_leaf_nodes: int | Literal["auto"] | None
    min_samples_leaf: int | Literal["auto"]
    max_features: Any
    max_bins: int | Literal["auto"]
    categorical_features: Any
    monotonic_cst: Any
    interaction_cst: Any
    max_features_per_tree: Any
    response: Literal["votes", "proba"]
    trim: float | Literal["auto", "certain"]
    max_samples: float | None
    flip_rates: Any
    class_weight: Any
    random_state: Any
    n_jobs: int | None
    device: Literal["cpu", "cuda", "auto"]

    # the default trees: no leaf may consist of rows with negligible weight, such as a class with a tiny
    # `class_weight`
    _trees: ClassVar[dict[str, Any]] = {
        "max_depth": None,
        "max_leaf_nodes": 15,
        "min_samples_leaf": "auto",
        "min_weight_fraction_leaf": 1e-6,
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), HasMethods(["prepare"]), None],
        **{
            name: _or_auto(HistTreeClassifier._parameter_constraints[name])
            for name in TREE_PARAMETERS
        },
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "response": [StrOptions({"votes", "proba"})],
        "trim": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto", "certain"})],
        "max_samples": [Interval(Real, 0, 1, closed="right"), None],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "scoring": [str, callable],
        "target_error": [Interval(Real, 0, 1, closed="both"), None],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "flip_rates": [
            dict,
            Interval(Real, 0, 1, closed="left"),
            "array-like",
            EstimatedRates,
            None,
        ],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
        "resume": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "device": [StrOptions({"cpu", "cuda", "auto"})],
        "verbose": ["verbose"],
    }

    # groups is requested by default: rows that a splitter keeps together are held out together as well
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"groups": True}

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Store the arguments of the constructor, which passes its `locals()`."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    # ---------------------------------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the booster.

        Parameters
        ----------
        X : array-like, data frame (pandas, polars, pyarrow, ...) or sparse matrix
            Of shape (n_samples, n_features). Text and categorical columns need the library's own trees.
            An `estimator` of another kind may be given arrays of more than two dimensions.
            X may also name rows that are not in memory: the path of a Parquet file or folder, a list of files, a pyarrow
            Dataset, or :class:`maboost.data.OnDisk`. Then `y`, `sample_weight`, `groups` (and `sample_domain`) are
            names of columns. Or X is an iterator with ``reset()`` and ``next()``, which returns ``(X, y)`` or
            ``(X, y, weights)`` and None at the end, and `y` is None. Only the state of each row stays in memory.
        y : array-like of shape (n_samples,)
            Labels: text, numbers or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            The base measure. A weight of 2 is the row twice, a weight of 0 the row absent. Rules that
            count rows (`min_samples_leaf`, `early_stopping="auto"`, the price of splits by categories) count
            a row as often as it would be repeated if all weights are integer multiples of the lightest, up
            to 255, and once otherwise.
        X_val, y_val, sample_weight_val : optional
            Validation rows, which are not trained on. Their error is recorded in
            ``history_["val_error"]``, and `early_stopping` uses them.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (a patient, a document) are held out together by `early_stopping`.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, (X_val, y_val, sample_weight_val), groups)

    @with_callbacks  # type: ignore[untyped-decorator]
    def _fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        validation_data: tuple[Any, ArrayLike | None, ArrayLike | None],
        groups: ArrayLike | None,
        sample_domain: ArrayLike | None = None,
    ) -> Self:
        self._validate_params()
        self._check_trees()
        with unchanged_by_failure(self), showing(self.verbose, alone=True) as shown:
            shown.phase("reading the rows")
            checkpoint = self._checkpoint()
            resume = self.__dict__.pop("_resume", None) if self.warm_start else None
            if is_stored(X):
                rows, groups = self._stored_rows(X, y, sample_weight, sample_domain, groups)
            else:
                refuse_name(groups, "groups")
                rows = self._rows(X, y, sample_weight, sample_domain)
            return self._boosted(rows, validation_data, groups, resume, checkpoint)

    def _rows(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, sample_domain: ArrayLike | None
    ) -> TrainingRows:
        refuse_name(y, "y")
        refuse_name(sample_weight, "sample_weight")
        refuse_name(sample_domain, "sample_domain")
        comm, own_trees = self._comm, self._own_trees()
        if comm.size > 1 and not own_trees:
            raise ValueError(
                "rows on several workers need the library's own trees (estimator=None or "
                f"HistTreeClassifier); {type(self.estimator).__name__} must be given all rows"
            )
        if not own_trees and not self._own_learner():
            warn_of_resampling(self.estimator, stacklevel=5)
        self._codes = CategoryCodes.of(X, comm) if own_trees else CategoryCodes()
        given = X
        X, y = self._checked(X, y)
        if self._own_trees():
            names = list(self._codes.dtypes or range(X.shape[1]))
            warn_of_large_integers(given, names, comm)
        weights = row_weights(
            X, y, sample_weight, self.class_weight, comm, *self._rates(sample_domain, given, y)
        )
        random_state = check_random_state(self.random_state)
        known = self._codes.categories
        rows = TrainingRows(X, y, weights, random_state, sample_domain, comm, given, known)
        return rows.of_positive_weight()

    def _stored_rows(
        self, X: Any, y: Any, sample_weight: Any, sample_domain: Any, groups: Any
    ) -> tuple[TrainingRows, NDArray[Any] | None]:
        if not self._own_trees():
            raise ValueError(
                "rows on disk need the library's own trees (estimator=None or HistTreeClassifier); "
                f"{type(self.estimator).__name__} must be given arrays"
            )
        random_state = check_random_state(self.random_state)
        rows, groups = stored_rows(
            X, y, sample_weight, sample_domain, groups, self.class_weight, self._rates,
            random_state, rows_done,
        )  # fmt: skip
        self._codes = rows.X.codes
        self.__dict__.pop("feature_names_in_", None)
        if isinstance(rows.X, ParquetTable):  # an iterator has no names
            self.feature_names_in_ = np.array(rows.X.features, dtype=object)
        self.n_features_in_ = len(rows.X.features)
        check_labels(rows.y)
        return rows, groups

    def _rates(
        self, sample_domain: Any, X: Any = None, y: Any = None
    ) -> tuple[Any, NDArray[Any] | None]:
        """Return the flip rates, and the source of each row if they are by source."""
        return self.flip_rates, None

    def _checked(self, X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        X, labels = checked_data(
            self, self._codes.applied(X), label_array(y), **self._shard_options(X)
        )
        if len(labels):
            check_labels(labels)
        return X, labels

    def _shard_options(self, X: Any) -> dict[str, Any]:
        """Return options for checking the rows of a shard, which may be empty if the shards together are not."""
        rows = getattr(X, "shape", None) or (len(X) if hasattr(X, "__len__") else 1,)
        empty = global_count(rows[0], self._comm) == 0
        return self._input_options() | {"ensure_min_samples": int(empty)}

    def _checked_rows(self, X: Any) -> Any:
        refuse_stored(X, "X")
        return rows_for_prediction(self, X, self._input_options())

    def _stored_blocks(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield rows on disk for prediction, in batches of the columns of the fit."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            raise ValueError(
                "rows on disk are found by their columns, but the fit had no column names"
            )
        table = ParquetTable.open(X, set())
        missing = [name for name in names if name not in table.dataset.schema.names]
        if missing:
            raise ValueError(f"the files have no column {missing[0]!r}, which the model needs")
        return replace(table, features=list(names), codes=self._codes).blocks("predicting")

    def _input_options(self) -> dict[str, Any]:
        if self._own_trees():
            return INPUT
        return {
            "accept_sparse": ["csr", "csc"],
            "allow_nd": True,
            "dtype": None,
            "ensure_all_finite": "allow-nan" if self._allows_nan() else True,
        }

    def _default_estimator(self) -> Any:
        return self._default_tree() if self.estimator is None else self.estimator

    def _tree_parameters(self) -> dict[str, Any]:
        """Return the parameters of the default trees that are not left to "auto"."""
        values = {name: getattr(self, name) for name in TREE_PARAMETERS}
        return {k: v for k, v in values.items() if not (isinstance(v, str) and v == "auto")}

    def _default_tree(self) -> HistTreeClassifier:
        given, defaults = self._tree_parameters(), dict(self._trees)
        if "max_depth" in given or "max_leaf_nodes" in given:
            defaults |= {"max_depth": None, "max_leaf_nodes": None}
        return HistTreeClassifier(**(defaults | given))

    def _showing(self) -> Any:
        """Return the rule that chooses the rows of a round, in the form of the recipes."""
        if self.max_samples is None:
            return self.trim
        if self.trim != 0.0:
            raise ValueError(
                f"give max_samples or trim, not both: got max_samples={self.max_samples!r}, trim={self.trim!r}"
            )
        if self.max_samples == 1.0:
            return 0.0
        seed = self.random_state
        return Uniform(float(self.max_samples), int(seed) if isinstance(seed, Integral) else 0)

    def _check_trees(self) -> None:
        """Raise an error if parameters of the default trees are given with another estimator, or no GPU is found."""
        given = self._tree_parameters()
        if self.estimator is not None and given:
            name, value = next(iter(given.items()))
            raise ValueError(
                f"{name}={value!r} is for the booster's own trees, but estimator={self.estimator!r} is "
                f"given: set {name} on the estimator, or leave the estimator out"
            )
        if self.device != "cuda":
            return
        if not self._own_trees():
            raise ValueError(
                f"device='cuda' grows the booster's own trees, but estimator={self.estimator!r} is given: leave "
                "the estimator out, or set device='cpu'"
            )
        if self._comm.size > 1:
            raise ValueError(
                "device='cuda' needs all rows on one machine, and they are on several workers: set device='cpu'"
            )
        require_cuda()

    def _own_trees(self) -> bool:
        return isinstance(self._default_estimator(), HistTreeClassifier)

    def _own_learner(self) -> bool:
        """Return whether the estimator is a weak learner, and no classifier."""
        return hasattr(self.estimator, "prepare") and not hasattr(self.estimator, "fit")

    def _learner(self, X: Any, weights: RowWeights, threads: Threads) -> WeakLearner:
        estimator = self._default_estimator()
        if isinstance(estimator, HistTreeClassifier):
            estimator._validate_params()
            names = getattr(self, "feature_names_in_", None)
            mask = categorical_mask(estimator.categorical_features, self._codes, names, X.shape[1])
            return estimator.weak_learner(
                X.shape[1], len(self.classes_), mask, weights.scaled, threads, self._comm, names,
                weights.counted, self.device,
            )  # fmt: skip
        if self._own_learner():
            if self.response != "votes":
                raise ValueError(
                    f"response={self.response!r} says which answer of a classifier is boosted, and "
                    f"{type(estimator).__name__} is a weak learner with scores of its own: leave it at 'votes'"
                )
            return estimator
        if self.response == "proba" and not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"response='proba' needs an estimator with predict_proba; "
                f"{type(estimator).__name__} has none, use response='votes'"
            )
        return EstimatorLearner(estimator, self.classes_, self.response)

    def _validation(
        self, X_val: Any, y_val: ArrayLike | None, sample_weight_val: ArrayLike | None
    ) -> Validation | None:
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val go together: give both or neither")
        if X_val is None:
            if sample_weight_val is not None:
                raise ValueError("sample_weight_val is given without X_val and y_val")
            return None
        refuse_stored(X_val, "X_val")
        with named_argument("X_val"):
            X_val = checked_data(
                self, self._codes.applied(X_val), reset=False, **self._shard_options(X_val)
            )
        y_val = np.asarray(label_array(y_val, "y_val"))
        if y_val.shape != (X_val.shape[0],):
            raise ValueError(
                f"y_val must have one label for each of the {X_val.shape[0]} rows of X_val, got shape "
                f"{y_val.shape}"
            )
        unknown = unknown_labels(y_val, self.classes_)
        if unknown:
            raise ValueError(f"y_val has classes that are not in y: {unknown!r}")
        with named_argument("sample_weight_val"):
            w = row_weights(X_val, y_val, sample_weight_val, None, self._comm)
            noise = self._noise_of_validation()
            if noise is not None and len(noise.rates) > 1:
                raise ValueError(
                    f"y_val has no sources, and flip_rates={self.flip_rates!r} have no source whose labels are "
                    "right (0.0): leave X_val out, so that rows of all sources are held out"
                )
            if noise is not None:
                w = w.times(noise.weights[0][np.searchsorted(self.classes_, y_val[w.kept])])
        if len(self.classes_) < 2:
            return None
        keep = np.flatnonzero(w.kept)
        game = Game(np.searchsorted(self.classes_, y_val[keep]), len(self.classes_))
        base = w.scaled / reproducible_sum(w.scaled, self._comm)
        return Validation(X_val if w.kept.all() else _safe_indexing(X_val, keep), game, base)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``estimator__...`` reaches into the default tree too."""
        deep = any(name.startswith("estimator__") for name in params)
        if deep and params.get("estimator", self.estimator) is None:
            params["estimator"] = self._default_tree()
            params |= {name: "auto" for name in TREE_PARAMETERS if name not in params}
        return super().set_params(**params)

    def _allows_nan(self) -> bool:
        """Return whether the estimator may see NaN; a pipeline, which may begin with an imputer, decides for itself."""
        from sklearn.pipeline import Pipeline  # imported late, so that `import maboost` is fast

        if self._own_learner():  # it looks at its rows itself
            return True
        estimator = self._default_estimator()
        return isinstance(estimator, Pipeline) or bool(get_tags(estimator).input_tags.allow_nan)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the training rows, which would make a pickle large, and without results about them."""
        state = super().__getstate__()
        return {k: value for k, value in state.items() if k not in ("_training", "_suspected")}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self._own_learner():
            tags.input_tags.sparse = tags.input_tags.allow_nan = True
            return tags
        inner = get_tags(self._default_estimator()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags
