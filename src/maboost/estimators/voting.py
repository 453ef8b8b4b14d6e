"""Prediction: votes, probabilities, margins, and the parts of the ensemble."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from maboost.boosting.certificate import Certificate
from maboost.boosting.ensemble import Ensemble
from maboost.boosting.game import Game
from maboost.boosting.history import History
from maboost.data.categories import CategoryCodes, rare_categories
from maboost.data.files import TableError
from maboost.data.frames import pandas_index
from maboost.data.labels import label_array, unknown_labels
from maboost.data.parquet import is_stored, named_column
from maboost.estimators.explaining import Explaining
from maboost.estimators.progress import showing
from maboost.estimators.suspects import Suspicion
from maboost.estimators.tree import HistTreeClassifier
from maboost.learners.tree.learner import TreeHypothesis
from maboost.noise.label_noise import LabelNoise
from maboost.runtime.threads import Threads, available_threads

__all__ = ["Voting"]

Array = NDArray[np.float64]


class Voting(Explaining):
    """The methods and attributes of a fitted booster."""

    classes_: NDArray[Any]
    ensemble_: Ensemble
    history_: History
    certificate_: Certificate
    probability_scale_: float
    n_iter_: int
    best_iteration_: int
    n_features_in_: int
    n_jobs: int | None
    verbose: int
    _noise: LabelNoise | None = None
    flip_rates_: Array | None = None
    _codes: CategoryCodes

    def _checked_rows(self, X: Any) -> Any:
        raise NotImplementedError

    def _stored_blocks(self, X: Any) -> Iterator[Array]:
        raise NotImplementedError

    def _default_estimator(self) -> Any:
        raise NotImplementedError

    def _decide(self, votes: Array) -> NDArray[Any]:
        if votes.ndim == 2:
            return self.classes_[np.argmax(votes, axis=1)]
        if len(self.classes_) == 1:
            return np.full(len(votes), self.classes_[0])
        return self.classes_[(votes > 0.0).astype(np.intp)]

    def _probabilities(self, votes: Array) -> Array:
        if len(self.classes_) == 1:
            return np.ones((len(votes), 1))
        x = self.probability_scale_ * votes
        p = softmax(x, axis=1) if votes.ndim == 2 else np.column_stack([expit(-x), expit(x)])
        if self._noise is not None:
            p = self._noise.true_probabilities(p)
        if votes.ndim == 2:
            winner = np.argmax(p if self._corrects_votes else votes, axis=1)
        else:
            winner = (votes > 0.0).astype(np.intp)
        # votes that differ by a rounding error
        lost = np.flatnonzero(np.argmax(p, axis=1) != winner)
        p[lost, winner[lost]] = np.nextafter(p[lost].max(axis=1), 1.0)
        return p

    @property
    def _corrects_votes(self) -> bool:
        """Whether votes are about given labels but decisions about true ones: more than two classes."""
        return self._noise is not None and self._noise.n_classes > 2

    def _decisions(self, votes: Array) -> Array:
        """Return the numbers whose order decides between the classes."""
        return self._probabilities(votes) if self._corrects_votes else votes

    def decision_function(self, X: Any) -> Array:
        r"""Return the weighted vote :math:`H(x) = \sum_t\eta_t h_t(x)`.

        With `flip_rates` and more than two classes, votes are on given labels, and the probabilities of the
        true classes are returned instead.

        Rows on disk (a path or a pyarrow Dataset with the columns of the fit) are read in batches, here
        and in `predict` and `predict_proba`.

        Returns
        -------
        array of shape (n_samples,) for two classes, (n_samples, n_classes) for more
        """
        return self._decisions(self._all_votes(X))

    def _all_votes(self, X: Any) -> Array:
        """Return H on rows in memory or on disk."""
        check_is_fitted(self)
        if is_stored(X):
            votes = [self._votes(block) for block in self._stored_blocks(X)]
            if not votes:
                raise TableError("there are no rows")
            return np.concatenate(votes)
        return self._votes(self._checked_rows(X))

    def _votes(self, X: Any) -> Array:
        """Return H on checked rows."""
        return self.ensemble_.votes(X, Threads(available_threads(self.n_jobs)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the most votes."""
        return self._decide(self.decision_function(X))

    def predict_proba(self, X: Any) -> Array:
        r"""Return probabilities from the votes: :math:`\sigma(aH)`, or softmax(aH) for more classes.

        The scale :math:`a` (`probability_scale_`) minimises the log loss on the validation rows. Without validation
        rows it is fitted on the training rows, on which votes are overconfident, with a
        share of every label counted as another class (smooth boosting: the expected error; otherwise
        2 %). If you need reliable probabilities, give `X_val` or set `early_stopping`. The scale is one positive
        number, so it never changes a prediction.
        """
        return self._probabilities(self._all_votes(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        votes = self._all_votes(X)
        if self._noise is not None:
            with np.errstate(divide="ignore"):
                return np.log(self._probabilities(votes))
        x = self.probability_scale_ * votes
        if len(self.classes_) == 1:
            return np.zeros((len(x), 1))
        return (
            log_softmax(x, axis=1)
            if x.ndim == 2
            else np.column_stack([log_expit(-x), log_expit(x)])
        )

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """`decision_function` after each round.

        It raises ValueError where votes were refitted after each round, as with `step="total"`: those of earlier
        rounds are not kept.
        """
        for votes in self._staged_votes(X):
            yield self._decisions(votes) if self._corrects_votes else votes.copy()

    def _staged_votes(self, X: Any) -> Iterator[Array]:
        """H after each round, always the same array."""
        check_is_fitted(self)
        if not self.has_stages:
            raise ValueError(
                "this model has no stages: the votes of all hypotheses were refitted after each round, and only "
                "the last votes are kept. For the model of n rounds fit with n_estimators=n"
            )
        return self.ensemble_.staged_votes(self._checked_rows(X))

    @property
    def has_stages(self) -> bool:
        """Whether the models of earlier rounds are part of this one: not where votes were refitted after each round."""
        check_is_fitted(self)
        return self.ensemble_.rounds is None

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """`predict` after each round."""
        for votes in self._staged_votes(X):
            yield self._decide(self._decisions(votes))

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """`predict_proba` after each round."""
        for votes in self._staged_votes(X):
            yield self._probabilities(votes)

    def staged_score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Iterator[float]:
        """Yield the accuracy after each round."""
        from sklearn.metrics import (
            accuracy_score,
        )  # imported late, so that `import maboost` is fast

        y = label_array(y)
        for predicted in self.staged_predict(X):
            yield float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; for rows on disk `y` and `sample_weight` may be names of columns."""
        labels = label_array(named_column(X, y, "y"))
        weights = named_column(X, sample_weight, "sample_weight")
        return float(ClassifierMixin.score(self, X, labels, weights))

    def margins(self, X: Any, y: ArrayLike) -> Array:
        """Return normalised margins of labelled rows, in [-1, 1]; negative if the vote is wrong.

        With more than two classes, a margin is the smallest over the wrong classes. For rows on disk `y` may be the
        name of a column.
        """
        votes = self._all_votes(X)
        labels: NDArray[Any] = column_or_1d(label_array(named_column(X, y, "y")), warn=True)
        check_consistent_length(votes, labels)
        unknown = unknown_labels(labels, self.classes_)
        if unknown:
            raise ValueError(f"y has classes the model was not fitted on: {unknown!r}")
        if len(self.classes_) == 1:
            return np.ones(len(labels))
        game = Game(np.searchsorted(self.classes_, labels), len(self.classes_))
        return game.worst_margins(game.margins(votes)) / self.ensemble_.weight_sum

    def suspect_labels(self, cv: int | Literal["auto"] | None = "auto") -> Any:
        """Return the training rows ordered by suspicion, rows whose labels look wrong first.

        The model cannot judge labels it was fitted on, so the rows are cross-fitted: they are split into `cv` parts,
        twice, and each row is judged by two boosters that were fitted without its part. That takes about
        2 (cv - 1) times the time of the fit. Rows of equal content are in one part. The number of rounds and
        the probabilities follow from the votes of these boosters by maximum likelihood of the given labels
        (:func:`maboost.boosting.calibration.calibrated`).

        With `flip_rates` a label gets the probability that it is wrong, and their sum is the expected number
        of wrong labels. Without them labels are ranked by their probability, less the mean of their
        class; the probabilities then rest on rates that assume that the classes do not overlap, and are too large
        where they do.

        Parameters
        ----------
        cv : int, "auto" or None, default="auto"
            Number of parts of the cross-fit. "auto" is 5 for at most 50,000 rows in memory, and None otherwise, also
            in a model from pickle, joblib or skops, which has no training rows. None uses
            the margins of the fit itself, which hardly separates wrong labels from hard rows.

        Returns
        -------
        DataFrame
            The most suspicious row first, with the index of X if that is a pandas frame, and otherwise the
            position of the row. Without pandas it is a frame of polars, a table of pyarrow or a dict of arrays,
            whichever is installed first, with a column `row` and without ``attrs``. The other columns:

            - `is_label_issue`: the label is more probably wrong than right;
            - `label_quality`: 0 to 1, low is suspicious; the order of the rows;
            - `probability_wrong`: NaN without cross-fit;
            - `given_label`, and `suggested_label`, the most probable true class;
            - `predicted_label`: the prediction without use of the given label;
            - `mean_weight`: the row's mean weight over the rounds, in multiples of its share; NaN for rows held
              out by early stopping.

            ``attrs["summary"]`` has the expected number of wrong labels in words, with a 95 % interval that
            holds if the rates are right; ``attrs["expected_wrong"]`` and ``attrs["interval"]`` have
            the numbers.
        """
        return self._suspects(cv)

    def _suspects(self, cv: Any, by_position: bool = False) -> Any:
        evidence = self._per_row("_evidence", "suspect_labels()")
        if cv is not None and cv != "auto" and (not isinstance(cv, Integral) or cv < 2):
            raise ValueError(f"cv must be a whole number of at least 2, 'auto' or None, got {cv!r}")
        rows = self.__dict__.get("_training")
        if rows is None and isinstance(cv, Integral):
            raise ValueError(
                f"cv={cv!r} needs the training rows, which are kept for at most 50,000 rows in memory, and not "
                "in pickles: ask the fitted model itself, or use cross_val_predict and maboost.noise"
            )
        index = None if rows is None or by_position else pandas_index(rows.given)
        found = None
        if rows is not None and cv is not None:
            with showing(self.verbose):
                found = self._suspicion(rows, 5 if cv == "auto" else int(cv))
        if rows is None or found is None:
            return evidence.table(self.classes_, index)
        return found.table(rows.weights.kept, rows.labels, evidence, self.classes_, index)

    def _suspicion(self, rows: Any, folds: int) -> Suspicion | None:
        """Return the suspicion from a cross-fit; None if there is nothing to judge."""
        raise NotImplementedError

    def _per_row(self, what: str, name: str) -> Any:
        check_is_fitted(self)
        if what not in self.__dict__:
            raise AttributeError(
                f"{name} needs what the fit keeps of every training row, which a slice of a model, "
                "a loaded model or a model of a stream or of several workers does not have: ask the "
                "fitted model itself, or fit on one machine"
            )
        return self.__dict__[what]

    @property
    def distribution_(self) -> Array:
        """The distribution over the training rows after the last round that was run."""
        distribution: Array = self._per_row("_distribution", "distribution_")
        return distribution

    def to_lightgbm(self) -> Any:
        """Return the model as a `lightgbm.Booster`, for SHAP values and tools that read LightGBM's format.

        Only for the library's own trees; see :func:`maboost.io.lightgbm_export.to_lightgbm` for the input and output of
        its `predict`.
        """
        from maboost.io.lightgbm_export import to_lightgbm

        return to_lightgbm(self)

    def to_onnx(self, dtype: Literal["float64", "float32"] = "float64") -> Any:
        """Return the model as an `onnx.ModelProto` that gives labels and probabilities.

        Only for the library's own trees; see :func:`maboost.io.onnx_export.to_onnx` for its input, which is of this
        `dtype`.
        """
        from maboost.io.onnx_export import to_onnx

        return to_onnx(self, dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that :func:`maboost.load_model` reads: arrays and JSON, no code.

        The file appears complete or not at all. `distribution_` and `suspect_labels()`, which are about
        the training rows, are not stored. Only models over `HistTreeClassifier` (the default) can be
        saved.

        Parameters
        ----------
        path : path-like
        """
        from maboost.io.model_file import save

        save(self, path)

    def __len__(self) -> int:
        """Return the number of estimators: one for each round, less those that a refit left without a vote."""
        check_is_fitted(self)
        return len(self.ensemble_)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int | slice) -> Any:
        """``model[:n]`` is the model of the first n rounds; ``model[i]`` one of `estimators_`."""
        check_is_fitted(self)
        if not isinstance(index, slice):
            return self.estimators_[index]
        start, stop, stride = index.indices(self.n_iter_)
        if start != 0 or stride != 1:
            raise ValueError(
                f"a model can be cut after a round, model[:n], but not to [{index.start}:{index.stop}:"
                f"{index.step}]: later rounds correct the earlier ones"
            )
        first = copy.copy(self)
        if self.has_stages:
            first.ensemble_ = self.ensemble_.first(stop)
        elif stop < self.n_iter_:
            raise ValueError(
                f"this model cannot be cut to [:{index.stop}]: the votes of all hypotheses were refitted after "
                f"each of {self.n_iter_} rounds, and only the last votes are kept. Fit with n_estimators={stop}"
            )
        first.history_ = self.history_.upto(stop)
        first.certificate_ = self.certificate_.upto(
            first.history_, f"the first {stop} of {self.n_iter_} rounds"
        )
        first.n_iter_ = first.best_iteration_ = stop
        for per_row in ("_distribution", "_evidence", "_resume", "_training", "_suspected"):
            first.__dict__.pop(per_row, None)
        return first

    @property
    def estimator_weights_(self) -> Array:
        """The weights of the estimators in the vote."""
        check_is_fitted(self)
        return self.ensemble_.weights

    @estimator_weights_.setter
    def estimator_weights_(self, weights: Array) -> None:
        self.ensemble_ = self.ensemble_.weighted(weights)

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimators, in order."""
        check_is_fitted(self)
        like = self._default_estimator()
        return [
            HistTreeClassifier.from_tree(like, h.tree, self)
            if isinstance(h, TreeHypothesis)
            else getattr(h, "estimator", h)
            for h in self.ensemble_.hypotheses
        ]

    @property
    def estimator_errors_(self) -> Array:
        """The weighted error of each estimator under its own distribution, (1 - edge)/2."""
        check_is_fitted(self)
        edges, rounds = self.history_["edge"].astype(float), self.ensemble_.rounds
        found: Array = edges[: len(self.ensemble_)] if rounds is None else edges[rounds - 1]
        return 0.5 * (1.0 - found)

    @property
    def rare_categories_(self) -> dict[Any, list[Any]]:
        """The categories that share a bin, by column, if a column has more than `max_bins` categories.

        The keys are names of columns, or positions without names. The dictionary is empty if no column has that
        many categories, for a model without rounds, and for estimators other than HistTreeClassifier. In a model of a
        stream every round finds its own bins; the result then has all categories that share a bin in any round.
        """
        check_is_fitted(self)
        found: dict[int, Array] = {}
        trees = [h.tree for h in self.ensemble_.hypotheses if isinstance(h, TreeHypothesis)]
        for rare in {id(tree.rare): tree.rare or {} for tree in trees}.values():
            for column, codes in rare.items():
                found[column] = np.union1d(found.get(column, codes), codes)
        return self._named_categories(found)

    def _named_categories(self, rare: dict[int, Array]) -> dict[Any, list[Any]]:
        """Return categories by column, with the user's names for both."""
        return rare_categories(rare, self._codes, getattr(self, "feature_names_in_", None))

    @property
    def feature_importances_(self) -> Array:
        """The importances of the estimators, averaged with their steps as weights."""
        check_is_fitted(self)
        if not self.ensemble_:
            return np.zeros(self.n_features_in_)
        total = np.zeros(self.n_features_in_)
        for step, estimator in zip(self.estimator_weights_, self.estimators_, strict=True):
            if not isinstance(estimator, DummyClassifier):  # a constant uses no feature
                total += step * estimator.feature_importances_
        return total / float(np.sum(self.estimator_weights_))
