"""What the five classifiers share: validation, encoding, the fit, and everything after it."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from maboost.boosting.certificate import Certificate, GroupBound
from maboost.boosting.game import Game
from maboost.boosting.history import History
from maboost.boosting.loop import Booster, Run, Validation
from maboost.boosting.stopping import MaxSeconds, Stop, TargetError
from maboost.estimators.table import CategoryCodes, categorical_mask
from maboost.estimators.tree import INPUT, HistTreeClassifier
from maboost.estimators.voting import Voting
from maboost.estimators.weights import RowWeights, row_weights
from maboost.learners.adapter import EstimatorLearner
from maboost.learners.base import WeakLearner
from maboost.mirror.measure import BaseMeasure
from maboost.threads import Threads, available_threads

__all__ = ["BoostingClassifier"]

Array = NDArray[np.float64]

# by name: which of the kept rows belong to a data source, and its error limit
Groups = dict[Any, tuple[NDArray[np.bool_], float | None]]


def default_tree() -> HistTreeClassifier:
    """The default estimator: depth 3, and no leaf lighter than a millionth of the distribution.

    Without that floor a leaf could answer for rows that weigh next to nothing, such as a class with a
    tiny `class_weight`.
    """
    return HistTreeClassifier(max_depth=3, min_weight_fraction_leaf=1e-6)


class BoostingClassifier(Voting, ClassifierMixin, BaseEstimator):
    """Base of the classifiers; a subclass lists its parameters and builds its booster."""

    estimator: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "response": [StrOptions({"votes", "proba"})],
        "trim": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "target_error": [Interval(Real, 0, 1, closed="both"), None],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def _plan(self, weights: RowWeights, sample_domain: Any) -> tuple[Booster, Groups]:
        """The booster for these rows, and the data sources that get a certificate of their own."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the booster.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            The base measure. A weight of 2 is the row twice, a weight of 0 the row absent.
        X_val, y_val, sample_weight_val : optional
            Rows that only watch: their error is recorded in ``history_["val_error"]``.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, X_val, y_val, sample_weight_val)

    def _fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        X_val: Any,
        y_val: ArrayLike | None,
        sample_weight_val: ArrayLike | None,
        sample_domain: ArrayLike | None = None,
    ) -> Self:
        self._validate_params()
        self._codes = CategoryCodes.of(X) if self._own_trees() else CategoryCodes()
        X, y = self._checked(X, y)
        weights = row_weights(X, y, sample_weight, self.class_weight)
        rows = weights.kept
        if not rows.all():
            X, y = _safe_indexing(X, np.flatnonzero(rows)), y[rows]
        self.classes_, labels = np.unique(y, return_inverse=True)
        validation = self._validation(X_val, y_val, sample_weight_val)
        self._begin(labels, weights)
        booster, groups = self._plan(weights, sample_domain)
        if len(self.classes_) == 1:
            return self._finish_constant(weights, groups)
        game = Game(labels, len(self.classes_))
        threads = Threads(available_threads(self.n_jobs))
        measure = BaseMeasure(weights.scaled, game.width, threads=threads)
        random_state = check_random_state(self.random_state)
        learner = self._learner(X, weights, threads)
        run = Run(booster, learner, X, game, weights.shown, measure, random_state, validation)
        reason = self._run(run)
        self._finish(run, weights, reason, groups)
        return self

    def _checked(self, X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        X, labels = validate_data(self, self._codes.applied(X), y, **self._input_options())
        check_classification_targets(labels)
        return X, labels

    def _checked_rows(self, X: Any) -> Any:
        return validate_data(self, self._codes.applied(X), reset=False, **self._input_options())

    def _input_options(self) -> dict[str, Any]:
        if self._own_trees():
            return INPUT
        return {
            "accept_sparse": ["csr", "csc"],
            "dtype": None,
            "ensure_all_finite": "allow-nan" if self._allows_nan() else True,
        }

    def _default_estimator(self) -> Any:
        return default_tree() if self.estimator is None else self.estimator

    def _own_trees(self) -> bool:
        return isinstance(self._default_estimator(), HistTreeClassifier)

    def _learner(self, X: Any, weights: RowWeights, threads: Threads) -> WeakLearner:
        estimator = self._default_estimator()
        if isinstance(estimator, HistTreeClassifier):
            estimator._validate_params()
            names = getattr(self, "feature_names_in_", None)
            mask = categorical_mask(estimator.categorical_features, self._codes, names, X.shape[1])
            return estimator.weak_learner(
                X.shape[1], len(self.classes_), mask, weights.scaled, threads
            )
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
        X_val = self._checked_rows(X_val)
        y_val = np.asarray(y_val)
        if y_val.shape != (X_val.shape[0],):
            raise ValueError(
                f"y_val must have one label for each of the {X_val.shape[0]} rows of X_val, got shape "
                f"{y_val.shape}"
            )
        unknown = sorted(set(np.unique(y_val).tolist()) - set(self.classes_.tolist()))
        if unknown:
            raise ValueError(f"y_val has classes that y has not: {unknown!r}")
        w = row_weights(X_val, y_val, sample_weight_val, None)
        if len(self.classes_) < 2:
            return None
        keep = np.flatnonzero(w.kept)
        game = Game(np.searchsorted(self.classes_, y_val[keep]), len(self.classes_))
        return Validation(
            X_val if w.kept.all() else _safe_indexing(X_val, keep), game, w.scaled / w.scaled.sum()
        )

    def _begin(self, labels: NDArray[np.intp], weights: RowWeights) -> None:
        """State of a model without any hypothesis: it predicts the heaviest class."""
        totals = np.bincount(labels, weights=weights.scaled)
        self._heaviest = int(np.argmax(totals))
        self._hypotheses: list[Any] = []
        self.estimator_weights_ = np.zeros(0)
        self.history_ = History()
        self.n_inert_rows_ = weights.inert

    def _run(self, run: Run) -> str:
        """All rounds; returns why they ended."""
        stops: list[Stop] = []
        if self.target_error is not None:
            stops.append(TargetError(self.target_error))
        if self.max_seconds is not None:
            stops.append(MaxSeconds(self.max_seconds))
        for round in run:
            record = round.record
            self._hypotheses.append(round.hypothesis)
            self.history_.append(record)
            if self.verbose and record.round % int(self.verbose) == 0:
                print(
                    f"round {record.round}: edge {record.edge:.4f}, train error "
                    f"{record.train_error:.4f}, certified <= {record.error_bound:.4f}"
                )
            reasons = [reason for stop in stops if (reason := stop(record))]
            if reasons:
                return reasons[0]
            if record.round >= self.n_estimators:
                return f"n_estimators={self.n_estimators} rounds are done"
        return str(run.ended)

    def _finish(self, run: Run, weights: RowWeights, reason: str, groups: Groups) -> None:
        self.estimator_weights_ = self.history_["step"].astype(float)
        self.n_iter_ = len(self._hypotheses)
        share = run.measure.rows_base * run.measure.row_means(run.state.density)
        self.distribution_ = np.zeros(len(weights.kept))
        if run.state.mass > 0.0:
            self.distribution_[weights.kept] = share / run.state.mass
        self.certificate_ = self._certificate(run, reason, groups)
        if not self._hypotheses:
            warnings.warn(
                f"no hypothesis was found ({reason}): the model predicts the heaviest class, "
                f"{self.classes_.tolist()[self._heaviest]!r}",
                UserWarning,
                stacklevel=4,
            )

    def _certificate(self, run: Run, reason: str, sources: Groups) -> Certificate:
        ascent = run.booster.ascent
        last = self.history_.records[-1] if len(self.history_) else None
        wrong = run.game.worst_margins(run.margins) <= 0.0
        row = run.measure.of_rows
        groups = {}
        for name, (members, limit) in sources.items():
            share, errors = row.integrals([members.astype(float), (members & wrong).astype(float)])
            bound = run.bound.of_group(run.gain, share, limit)
            groups[name] = GroupBound(share, limit, bound, errors / share)
        return Certificate(
            regularizer=type(ascent.regularizer).__name__,
            domain=type(ascent.domain).__name__,
            update=ascent.update,
            rounds=run.rounds,
            gain=run.gain,
            error_bound=run.bound(run.gain),
            measured_error=last.train_error if last else row.integral(wrong.astype(float)),
            margin_bound=last.margin_bound if last else float("-inf"),
            soft_margin=last.soft_margin if last else 0.0,
            min_margin=last.min_margin if last else 0.0,
            best_margin_bound=run.smallest_edge,
            exact=run.exact and run.rounds > 0,
            floor=run.bound.floor,
            stopped=reason,
            n_classes=run.game.n_classes,
            last_gain=last.gain if last else 0.0,
            inert_rows=self.n_inert_rows_,
            groups=groups,
            bound=run.bound,
        )

    def _finish_constant(self, weights: RowWeights, sources: Groups) -> Self:
        """One class only: nothing to boost, and nothing to get wrong."""
        self.n_iter_ = 0
        base = weights.scaled / weights.scaled.sum()
        self.distribution_ = np.zeros(len(weights.kept))
        self.distribution_[weights.kept] = base
        groups = {
            name: GroupBound(float(base[members].sum()), limit, 0.0, 0.0)
            for name, (members, limit) in sources.items()
        }
        self.certificate_ = Certificate(
            regularizer="none", domain="none", update="none", rounds=0, gain=0.0, error_bound=0.0,
            measured_error=0.0, margin_bound=0.0, soft_margin=0.0, min_margin=0.0,
            best_margin_bound=0.0, exact=True, floor=0.0, n_classes=1,
            stopped=f"y has one class only, {self.classes_.tolist()[0]!r}",
            inert_rows=self.n_inert_rows_, groups=groups,
        )  # fmt: skip
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``estimator__...`` reaches into the default tree too."""
        if self.estimator is None and any(name.startswith("estimator__") for name in params):
            self.estimator = default_tree()
        return super().set_params(**params)

    def _allows_nan(self) -> bool:
        return bool(get_tags(self._default_estimator()).input_tags.allow_nan)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._default_estimator()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags
