"""What the five classifiers share: validation, encoding, the fit, and everything after it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from maboost.boosting.certificate import Certificate, GroupBound
from maboost.boosting.game import Game
from maboost.boosting.history import History, Record
from maboost.boosting.loop import Booster, Run, Validation
from maboost.boosting.stopping import MaxSeconds, NoImprovement, Stop, TargetError
from maboost.boosting.trimming import Budget
from maboost.data.stored import is_stored
from maboost.estimators.control import (
    CallbackSupportMixin,
    Interrupts,
    Progress,
    Score,
    Tasks,
    with_callbacks,
)
from maboost.estimators.holdout import held_out, places
from maboost.estimators.probabilities import (
    DOUBT,
    POPULATION_SCALE,
    WATCHED_DOUBT,
    probability_scale,
)
from maboost.estimators.rows import TrainingRows
from maboost.estimators.stored import stored_rows
from maboost.estimators.suspects import Evidence
from maboost.estimators.table import CategoryCodes, categorical_mask, label_array
from maboost.estimators.tree import INPUT, HistTreeClassifier
from maboost.estimators.voting import Voting
from maboost.estimators.weights import RowWeights, row_weights
from maboost.learners.adapter import EstimatorLearner
from maboost.learners.base import WeakLearner
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.params import described
from maboost.threads import Threads, available_threads

if TYPE_CHECKING:
    from maboost.io.checkpoint import Checkpoint

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


class BoostingClassifier(CallbackSupportMixin, Voting, ClassifierMixin, BaseEstimator):
    """Base of the classifiers; a subclass lists its parameters and builds its booster."""

    estimator: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "response": [StrOptions({"votes", "proba"})],
        "trim": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "scoring": [str, callable],
        "target_error": [Interval(Real, 0, 1, closed="both"), None],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
        "resume": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def _plan(self, rows: TrainingRows) -> tuple[Booster, Groups]:
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
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the booster.

        Parameters
        ----------
        X : array-like, data frame (pandas, polars, pyarrow, ...) or sparse matrix
            Of shape (n_samples, n_features). Text and categorical columns need the library's own trees.
            Or rows on disk: the path of a Parquet file or folder, a pyarrow Dataset, or
            :class:`maboost.data.OnDisk`; `y`, `sample_weight` (and `sample_domain`) are then names of
            columns there, and only the state of each row is kept in memory.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            The base measure. A weight of 2 is the row twice, a weight of 0 the row absent.
        X_val, y_val, sample_weight_val : optional
            Rows that only watch: their error is recorded in ``history_["val_error"]``, and
            `early_stopping` looks at them.
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
        watching: tuple[Any, ArrayLike | None, ArrayLike | None],
        groups: ArrayLike | None,
        sample_domain: ArrayLike | None = None,
    ) -> Self:
        self._validate_params()
        checkpoint = self._checkpoint()
        resume = self.__dict__.pop("_resume", None) if self.warm_start else None
        if is_stored(X):
            rows = self._stored_rows(X, y, sample_weight, sample_domain)
        else:
            rows = self._rows(X, y, sample_weight, sample_domain)
        try:
            return self._boosted(rows, watching, groups, resume, checkpoint)
        finally:
            rows.close()

    def _rows(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, sample_domain: ArrayLike | None
    ) -> TrainingRows:
        self._codes = CategoryCodes.of(X) if self._own_trees() else CategoryCodes()
        X, y = self._checked(X, y)
        weights = row_weights(X, y, sample_weight, self.class_weight)
        random_state = check_random_state(self.random_state)
        return TrainingRows(X, y, weights, random_state, sample_domain).of_positive_weight()

    def _stored_rows(self, X: Any, y: Any, sample_weight: Any, sample_domain: Any) -> TrainingRows:
        if not self._own_trees():
            raise ValueError(
                "rows on disk need the library's own trees (estimator=None or HistTreeClassifier); "
                f"{type(self.estimator).__name__} must be given arrays"
            )
        random_state = check_random_state(self.random_state)
        rows = stored_rows(X, y, sample_weight, sample_domain, self.class_weight, random_state)
        self._codes = rows.X.codes
        self.feature_names_in_ = np.array(rows.X.features, dtype=object)
        self.n_features_in_ = len(rows.X.features)
        check_classification_targets(rows.y)
        return rows

    def _boosted(
        self,
        rows: TrainingRows,
        watching: tuple[Any, ArrayLike | None, ArrayLike | None],
        groups: ArrayLike | None,
        resume: dict[str, Any] | None,
        checkpoint: Checkpoint | None,
    ) -> Self:
        random_state = rows.random_state
        self.classes_ = rows.classes
        validation = self._validation(*watching)
        stored = checkpoint.read(rows, validation) if checkpoint and not resume else None
        if validation is None and self.early_stopping and len(rows.classes) > 1:
            seed = resume["seed"] if resume else stored.seed if stored else None
            if seed is None:
                seed = int(random_state.randint(2**31 - 1))
            rows, validation = self._held_out(rows, groups, seed)
        self._begin(rows)
        booster, sources = self._plan(rows)
        if len(self.classes_) == 1:
            return self._finish_constant(rows.weights, sources)
        run = self._new_run(booster, rows, validation, {n: m for n, (m, _) in sources.items()})
        self.certificate_ = self._first_certificate(run, sources)
        if self.warm_start:
            self._continue(run, rows, resume)
        if checkpoint is not None:
            checkpoint.begin(self, run, rows, stored)
        reason = self._run(run, rows, checkpoint or (lambda last: None))
        self._finish(run, rows, reason)
        return self

    def _checkpoint(self) -> Checkpoint | None:
        """The file in which this fit keeps its state, if there is one."""
        if self.checkpoint is None and not self.resume:
            return None
        from maboost.io.checkpoint import Checkpoint

        return Checkpoint.of(self)

    def _new_run(
        self,
        booster: Booster,
        rows: TrainingRows,
        validation: Validation | None,
        groups: dict[Any, NDArray[np.bool_]] | None = None,
    ) -> Run:
        game = Game(rows.labels, len(rows.classes))
        threads = Threads(available_threads(self.n_jobs))
        measure = BaseMeasure(rows.weights.scaled, game.width, threads=threads)
        learner = self._learner(rows.X, rows.weights, threads)
        where = places(rows.X, seed=0) if isinstance(booster.trim, Budget) else None
        return Run(
            booster, learner, rows.X, game, rows.weights.shown, measure, rows.random_state,
            validation, groups, where,
        )  # fmt: skip

    def _held_out(
        self, rows: TrainingRows, groups: ArrayLike | None, seed: int
    ) -> tuple[TrainingRows, Validation]:
        """The rows to train on, and those that watch."""
        if hasattr(rows.X, "blocks"):
            raise ValueError("early_stopping with rows on disk needs X_val and y_val")
        if groups is not None:
            groups = np.asarray(groups)
            if groups.shape != rows.weights.kept.shape:
                raise ValueError(
                    f"groups must have one entry a row ({rows.weights.kept.size}), got shape "
                    f"{groups.shape}"
                )
            groups = groups[rows.weights.kept]
        fraction = float(self.validation_fraction)
        out = held_out(rows.X, rows.labels, rows.weights.scaled, fraction, seed, groups)
        left = np.unique(rows.labels[~out])
        if not out.any() or len(left) < len(rows.classes):
            raise ValueError(
                f"early_stopping with validation_fraction={fraction!r} holds out {int(out.sum())} of "
                f"{len(out)} rows and leaves {len(left)} of {len(rows.classes)} classes to train on; "
                "give X_val and y_val, or another fraction or grouping"
            )
        self._seed = seed
        return rows.where(~out), self._watch(rows.where(out))

    def _watch(self, rows: TrainingRows) -> Validation:
        """Rows that are held out, as rows that watch."""
        labels = np.searchsorted(self.classes_, rows.y)
        base = rows.weights.scaled / rows.weights.scaled.sum()
        return Validation(rows.X, Game(labels, len(self.classes_)), base)

    def _checked(self, X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        X, labels = validate_data(
            self, self._codes.applied(X), label_array(y), **self._input_options()
        )
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
            mask = categorical_mask(
                estimator.categorical_features, self._codes, names, X.shape[1], estimator.max_bins
            )
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
        y_val = np.asarray(label_array(y_val))
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

    def _begin(self, rows: TrainingRows) -> None:
        """State of a model without any hypothesis: it predicts the heaviest class."""
        totals = np.bincount(rows.labels, weights=rows.weights.scaled)
        self._heaviest = int(np.argmax(totals))
        self._hypotheses: list[Any] = []
        self.estimator_weights_ = np.zeros(0)
        self.history_ = History()
        self.n_inert_rows_ = rows.weights.inert
        self.probability_scale_ = POPULATION_SCALE

    def _continue(self, run: Run, rows: TrainingRows, resume: dict[str, Any] | None) -> None:
        """Go on where the last fit ended, if there was one."""
        self._print = {"rows": rows.fingerprint(), "booster": described(run.booster.ascent)}
        if resume is None:
            return
        if resume["print"]["rows"] != self._print["rows"]:
            raise ValueError(
                "warm_start=True goes on with the rows of the last fit, but X, y or the weights have "
                "changed; fit a clone, or set warm_start=False"
            )
        if resume["print"]["booster"] != self._print["booster"]:
            raise ValueError(
                "warm_start=True goes on with the booster of the last fit, which was "
                f"{resume['print']['booster']} and is now {self._print['booster']}"
            )
        done = len(resume["hypotheses"])
        if self.n_estimators < done:
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {done} rounds already done; with "
                "warm_start=True it is the total number of rounds"
            )
        run.restore(resume["run"])
        self._hypotheses = list(resume["hypotheses"])
        self.history_ = History(resume["history"].records, resume["history"].group_errors)

    def _stops(self) -> list[Stop]:
        stops: list[Stop] = []
        if self.target_error is not None:
            stops.append(TargetError(self.target_error))
        if self.early_stopping:
            stops.append(NoImprovement(self.n_iter_no_change, self.tol))
        stopped = [reason for record in self.history_ for s in stops if (reason := s(record))]
        if stopped:  # a fit that goes on where another one stopped
            return [lambda record: stopped[0]]
        if self.max_seconds is not None:
            stops.append(MaxSeconds(self.max_seconds))
        return stops

    def _run(self, run: Run, rows: TrainingRows, keep: Callable[[bool], None]) -> str:
        """All rounds, each followed by `keep`; returns why they ended."""
        stops, score = self._stops(), Score.of(self.scoring, self, run, rows.classes)
        progress = Progress(int(self.verbose), self.n_estimators)
        tasks = Tasks(self, self.n_estimators, rows.X, rows.y)
        last = self.history_.records[-1:]
        reason = self._reason_to_stop(last[0], stops) if last else None
        interrupts = Interrupts()
        with interrupts.deferred(), progress:
            try:
                while reason is None:
                    round = next(run, None)
                    if round is None:
                        reason = str(run.ended)
                        keep(True)
                        break
                    record = replace(round.record, val_score=score())
                    self._hypotheses.append(round.hypothesis)
                    self.history_.append(record, round.group_errors)
                    progress(record)
                    reason = self._reason_to_stop(record, stops)
                    if tasks.round(self._so_far):
                        reason = reason or "a callback asked to stop"
                    keep(reason is not None or interrupts.asked)
                    if interrupts.asked:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                if not self._hypotheses:
                    raise
                reason = "interrupted"
        if reason == "interrupted":
            warnings.warn(
                f"interrupted: the model has the {len(self._hypotheses)} rounds that were done",
                UserWarning,
                stacklevel=6,
            )
        tasks.close(self._so_far)
        return reason

    def _reason_to_stop(self, record: Record, stops: list[Stop]) -> str | None:
        reasons = [reason for stop in stops if (reason := stop(record))]
        if not reasons and record.round >= self.n_estimators:
            reasons = [f"n_estimators={self.n_estimators} rounds are done"]
        return reasons[0] if reasons else None

    def _so_far(self) -> dict[str, Any]:
        """The attributes of a model with the rounds done, as scikit-learn's callbacks want them."""
        steps = self.history_["step"].astype(float)
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}
        return fitted | {
            "estimator_weights_": steps,
            "_hypotheses": list(self._hypotheses),
            "_heaviest": self._heaviest,
            "_codes": self._codes,
        }

    def _finish(self, run: Run, rows: TrainingRows, reason: str) -> None:
        if self.warm_start and run.rounds == len(self._hypotheses):
            self._resume = {
                "print": self.__dict__.pop("_print"),
                "run": run.snapshot(),
                "hypotheses": list(self._hypotheses),
                "history": self.history_,
                "seed": self.__dict__.get("_seed"),
            }
        done = self.best_iteration_ = len(self._hypotheses)
        if run.validation is not None and done:
            self.best_iteration_ = 1 + int(np.argmax(self.history_["val_score"]))
        self.n_iter_ = self.best_iteration_ if self.early_stopping else done
        self._hypotheses = self._hypotheses[: self.n_iter_]
        self.estimator_weights_ = self.history_["step"].astype(float)[: self.n_iter_]
        self._keep_rows(run, rows)
        self.probability_scale_ = self._fitted_scale(run)
        if self.n_iter_ < done:
            reason = f"{reason}; the best of {done} is kept"
        self.certificate_ = replace(
            self.certificate_.upto(self.history_.upto(self.n_iter_), reason),
            exact=run.exact and done > 0,
        )
        if not self._hypotheses:
            warnings.warn(
                f"no hypothesis was found ({reason}): the model predicts the heaviest class, "
                f"{self.classes_.tolist()[self._heaviest]!r}",
                UserWarning,
                stacklevel=6,
            )

    def _keep_rows(self, run: Run, rows: TrainingRows) -> None:
        """What is remembered of every training row."""
        share = run.measure.rows_base * run.measure.row_means(run.state.density)
        self._distribution = np.zeros(len(rows.weights.kept))
        if run.state.mass > 0.0:
            self._distribution[rows.weights.kept] = share / run.state.mass
        self._evidence = Evidence(
            np.flatnonzero(rows.weights.kept),
            rows.labels,
            run.game.predicted(run.margins),
            run.game.worst_margins(run.margins) / (run.total_step or 1.0),
            run.trust / max(run.rounds, 1),
            run.push / max(run.rounds, 1),
        )

    def _fitted_scale(self, run: Run) -> float:
        """The scale of the probabilities: on the rows that watched, otherwise on the training rows.

        There the votes are too sure of themselves, so that a share of every label is doubted.
        """
        if not self._hypotheses:
            return POPULATION_SCALE
        watch = run.validation
        if watch is None:
            margins, base = run.margins, run.measure.rows_base
            return probability_scale(margins.reshape(len(base), -1), base, self._doubt())
        total = float(np.sum(self.estimator_weights_))
        margins = -total * watch.game.loss(self._votes(watch.X) / total)
        return probability_scale(margins.reshape(len(watch.base), -1), watch.base, WATCHED_DOUBT)

    def _doubt(self) -> float:
        """The error to expect on rows that were not trained on."""
        return DOUBT

    def _first_certificate(self, run: Run, sources: Groups) -> Certificate:
        """What is promised before any round."""
        ascent, row = run.booster.ascent, run.measure.of_rows
        groups = {}
        for name, (members, limit) in sources.items():
            share = row.integral(members.astype(float))
            groups[name] = GroupBound(share, limit, run.bound.of_group(0.0, share, limit), 1.0)
        return Certificate(
            regularizer=type(ascent.regularizer).__name__,
            domain=type(ascent.domain).__name__,
            update=ascent.update,
            rounds=0,
            gain=0.0,
            error_bound=run.bound(0.0),
            measured_error=1.0,
            margin_bound=float("-inf"),
            soft_margin=0.0,
            min_margin=0.0,
            best_margin_bound=1.0,
            exact=True,
            floor=run.bound.floor,
            stopped="",
            n_classes=run.game.n_classes,
            inert_rows=self.n_inert_rows_,
            groups=groups,
            bound=run.bound,
        )

    def _finish_constant(self, weights: RowWeights, sources: Groups) -> Self:
        """One class only: nothing to boost, and nothing to get wrong."""
        self.n_iter_ = self.best_iteration_ = 0
        base = weights.scaled / weights.scaled.sum()
        self._distribution = np.zeros(len(weights.kept))
        self._distribution[weights.kept] = base
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
