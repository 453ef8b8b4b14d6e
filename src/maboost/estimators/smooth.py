"""Smooth boosting."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from maboost.boosting.booster import Booster
from maboost.boosting.calibration import UNSEEN_ERROR
from maboost.boosting.loop import Run
from maboost.boosting.recipes import REGULARIZERS, STEPS, smooth, smoothness_for
from maboost.data.holdout import held_out_shares
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.fitting import classes_among
from maboost.mirror.regularizers import Regularizer

__all__ = ["SmoothBoostClassifier"]

# the trial run of smoothness="auto": at a cap and a rate of its own, until the best window of rounds
# was so many rounds ago
_TRIAL_CAP, _TRIAL_RATE, _FRACTION = 4.0, 0.3, 0.25
_ROUNDS, _WINDOW, _PATIENCE = 100, 15, 40
_FALLBACK = 4.0  # where there are too few rows to hold some out


class SmoothBoostClassifier(BoostingClassifier):
    r"""Smooth boosting: no row ever weighs more than `smoothness` times its share.

    The distribution stays in :math:`\{w : w_i \le k D_i\}`. A set of rows of share p therefore holds at
    most :math:`kp` of the weight; where :math:`kp \ge 1` the cap does not limit the set.

    **Guarantee.** Training error at most :math:`\max(1/k, e^{-G})` with entropy and two classes
    (:math:`\max(1/k, (K-1)e^{-G})` with K); an error of :math:`\varepsilon \ge 1/k` after
    :math:`O(\log(1/\varepsilon)/\gamma^2)` rounds as long as the estimator finds edges of at least
    :math:`\gamma` (Theorem 3). A classifier that errs on a fraction :math:`\varepsilon` of the rows has
    an edge of at least :math:`1-2k\varepsilon` under every such distribution, which is positive for
    :math:`k < 1/(2\varepsilon)` only. This is no immunity to random label flips (Long and Servedio, 2010).

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier; one whose `fit` takes no `sample_weight` is served by seeded
        weighted resampling. None means a histogram tree, a :class:`HistTreeClassifier` with the
        parameters below in which no leaf weighs less than a millionth of the distribution.
    n_estimators : int or "auto", default="auto"
        The largest number of rounds. "auto" is 300 with early stopping, and 100 without.
    learning_rate : float in (0, 1], default=0.1
        Factor on every step. Small steps gain less each, so that they need more rounds, and follow
        wrong labels less.
    smoothness : float >= 1 or "auto", default="auto"
        The cap k. "auto" first boosts at k = 4 and a rate of 0.3 without a quarter of the rows (chosen
        by their content, so that neither order nor repetition matters). With :math:`\varepsilon` the
        least error there, as a mean over 15 rounds, it takes :math:`k = 1/(2\varepsilon)`, between 1.1
        and 50. The trial ends when that least is 40 rounds old, or after 100: an error that further
        rounds would cure is not taken for noise.
    noise_rate : float in [0, 0.4546), optional
        Fraction of labels that are wrong or unpredictable; sets k = max(1.1, 0.5 / noise_rate), and
        no cap at 0. With `flip_rates` the fraction is that of true labels, and the weighted error on
        given labels sets the cap. Not together with `smoothness`. At this cap no edge is promised: a classifier
        that errs on that fraction may have edge 0 under the hardest distribution.
    regularizer : {"entropy", "euclidean"} or Regularizer, default="entropy"
        The geometry.
    update : {"active", "lazy"}, default="active"
        Whether a step departs from the projected distribution or from the unprojected dual point.
    step : {"corrective", "paper", "maxmargin"} or StepRule, default="corrective"
        The step of largest gain, the step of the proofs, or the step of Theorem 2.
    max_depth, max_leaf_nodes, min_samples_leaf, max_features, max_bins, categorical_features, monotonic_cst
        Parameters of the booster's own trees, each "auto" by default, with the meaning they have in
        :class:`HistTreeClassifier`. Here "auto" is any depth, 15 leaves, and 20 rows a leaf (a fiftieth
        of the rows where there are fewer than 1,000). Giving only one of `max_depth` and
        `max_leaf_nodes` lifts the other limit. They cannot be given together with an `estimator`.
    response : {"votes", "proba"}, default="votes"
        Whether an estimator's `predict` or its `predict_proba` (2p - 1) is boosted. A
        `HistTreeClassifier` has its own `response`.
    trim : float in [0, 1), "auto" or "certain", default=0.0
        Mass of the lightest rows hidden from the estimator; "auto" is the certified rule, which keeps
        at least half of the edge and hides half of the rows or none. "certain" shows a sample in which
        denser rows are likelier, twice as large until the edge found on it is statistically certain,
        and all rows where an eighth of them is not enough
        (:class:`maboost.boosting.row_sampling.adaptive.Certain`): for rows that are many, or on disk. The edge is
        always measured on all rows.
    early_stopping : bool or "auto", default="auto"
        Stop when the validation score no longer rises, and keep the rounds up to the best. The
        validation rows are `X_val` where `fit` is given them, otherwise rows held out of X. "auto"
        stops early from 10,000 rows on (`min_samples_leaf` says how rows are counted), or where there
        is an `X_val`.
    validation_fraction : float in (0, 1), default=0.1
        Share of every class to hold out, chosen by a seeded hash of the rows' values: equal rows stay
        together, and neither order nor repetition changes the choice. With `groups` in `fit`, whole
        groups.
    n_iter_no_change : int, default=20
        Rounds without a rise of more than `tol` before stopping.
    tol : float, default=1e-7
        The smallest rise that counts.
    scoring : str or callable, default="neg_log_loss"
        What is watched: "neg_log_loss" (of probabilities scaled on the same rows), "accuracy", or any
        scikit-learn scorer.
    target_error : float, optional
        Stop at this training error, measured or certified, whichever comes first.
    max_seconds : float, optional
        Stop after this time, at the end of a round; binning the rows and finding a cap count too.
    flip_rates : dict, float, matrix or None, default=None
        The share of the rows of each *true* class whose label is another: ``{"fraud": 0.4}`` (classes not
        named: 0), 0.2 for all classes, or the matrix of P(given | true) in the order of `classes_`. With two
        classes given labels then have weights under which they stand for true ones; with more, votes stay on
        given labels and probabilities are corrected. Predictions, probabilities and scores are about
        **true** labels, `class_weight` holds costs of true classes (two classes only), and the certificate
        bounds the weighted error on the *given* labels of the training rows. See :mod:`maboost.noise`.
    class_weight : dict, "balanced" or None, default=None
        Factors on the base measure by class.
    warm_start : bool, default=False
        Let the next `fit` on the same rows go on from the last round of this one; the result has the
        same bits as one long fit.
    checkpoint : path-like, optional
        A file for the state of the fit, written every `checkpoint_every` rounds and at the end: whole
        or not at all, so that a fit that is killed can go on. One file serves one fit at a time. Only
        for the library's own trees. `save` does not store this and the next two parameters.
    checkpoint_every : int, default=10
        Rounds between two writes.
    resume : bool, default=False
        Go on from the file at `checkpoint`, to the same bits as a fit that was never stopped; begin
        anew where there is none. Rows and parameters must be those of the checkpoint, but for
        `n_estimators` (the total), `checkpoint_every`, `n_jobs`, `verbose` and what stops a fit early:
        `max_seconds`, `target_error`, `n_iter_no_change` and `tol`. Without `resume` a file there is
        replaced.
    random_state : int, RandomState or None, default=None
        Seeds the estimators and the resampling.
    n_jobs : int or None, default=None
        Threads of the tree engine and of the distribution's updates; None means all cores. The model
        does not depend on it. Foreign estimators have their own.
    verbose : int, default=0
        A progress bar on a terminal; elsewhere a line every so many rounds. Goes to stderr.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    estimators_ : list of fitted estimators
    estimator_weights_ : array
        The steps.
    estimator_errors_ : array
        The weighted error of each estimator under its own distribution.
    history_ : History
        One record a round: edge, step, gain, bound, errors, margins, distribution.
    certificate_ : Certificate
        What is promised and what was measured.
    distribution_ : array of shape (n_samples,)
        The distribution over the training rows after the last round that was run.
    n_iter_ : int
        Rounds in the model.
    best_iteration_ : int
        The round of the best validation score; `n_iter_` where no rows watched.
    probability_scale_ : float
        The factor on the votes in `predict_proba`.
    feature_importances_ : array of shape (n_features,)
    rare_categories_ : dict
        By column the categories that share a bin; empty if no column has more than `max_bins`.
    flip_rates_ : array of shape (n_classes, n_classes) or None
        The rates that were used, P(given | true).
    n_inert_rows_ : int
        Training rows without weight, or next to none, which took no part.
    n_features_in_, feature_names_in_
        As in every scikit-learn estimator.
    smoothness_ : float
        The cap that was used.

    References
    ----------
    Naghibi and Pfister (2014), "A boosting framework on grounds of online learning".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(noise_rate=0.1, n_estimators=20, random_state=0).fit(X, y)
    >>> model.smoothness_, bool(model.history_["smoothness"].max() <= 5.0 + 1e-9)
    (5.0, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "smoothness": [Interval(Real, 1, None, closed="left"), StrOptions({"auto"})],
        "noise_rate": [Interval(Real, 0, 0.4546, closed="left"), None],
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
        "update": [StrOptions({"active", "lazy"})],
        "step": [StrOptions(set(STEPS)), callable],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | Literal["auto"] = "auto",
        learning_rate: float = 0.1,
        smoothness: float | Literal["auto"] = "auto",
        noise_rate: float | None = None,
        regularizer: Any = "entropy",
        update: Literal["active", "lazy"] = "active",
        step: Any = "corrective",
        max_depth: int | Literal["auto"] | None = "auto",
        max_leaf_nodes: int | Literal["auto"] | None = "auto",
        min_samples_leaf: int | Literal["auto"] = "auto",
        max_features: Any = "auto",
        max_bins: int | Literal["auto"] = "auto",
        categorical_features: Any = "auto",
        monotonic_cst: Any = "auto",
        response: Literal["votes", "proba"] = "votes",
        trim: float | Literal["auto", "certain"] = 0.0,
        early_stopping: bool | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        scoring: Any = "neg_log_loss",
        target_error: float | None = None,
        max_seconds: float | None = None,
        flip_rates: Any = None,
        class_weight: Any = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.smoothness = smoothness
        self.noise_rate = noise_rate
        self.regularizer = regularizer
        self.update = update
        self.step = step
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.response = response
        self.trim = trim
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.target_error = target_error
        self.max_seconds = max_seconds
        self.flip_rates = flip_rates
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _plan(self, rows: TrainingRows) -> tuple[Booster, None]:
        if self.noise_rate is not None and self.smoothness != "auto":
            raise ValueError(
                f"give smoothness or noise_rate, not both: got smoothness={self.smoothness!r}, "
                f"noise_rate={self.noise_rate!r}"
            )
        self._expected_error = self.noise_rate or 0.0
        if self.noise_rate is not None:
            if self._noise is not None:
                self._expected_error = self._noise.weighted_error(self.noise_rate)
            k = smoothness_for(self._expected_error)
        elif self.smoothness == "auto":
            k = self._estimated_smoothness(rows)
        else:
            k = float(self.smoothness)
        self.smoothness_ = k
        return self._booster(k, self.learning_rate), None

    def _booster(self, k: float, rate: float) -> Booster:
        return smooth(k, self.regularizer, self.update, self.step, rate, self.trim)

    def _estimated_smoothness(self, rows: TrainingRows) -> float:
        """From the least error of a trial run on rows it has not seen.

        Under caps of k a classifier that errs on a fraction e of the rows keeps an edge of 1 - 2ke, so
        k = 1/(2e) is the largest at which the weak learner need not be asked for the impossible. Any
        classifier will do for that, hence the best that the trial met, and its own rate: how many
        labels are wrong does not depend on how slowly the fit is to go.
        """
        if len(rows.classes) < 2:
            return _FALLBACK
        rows = rows.sampled()
        classes = len(rows.classes)
        if classes < len(self.classes_):
            return _FALLBACK
        out = held_out_shares(
            rows.X, rows.labels, classes, rows.weights.scaled, _FRACTION, seed=0, comm=rows.comm
        )
        if classes_among(rows, out == 1.0) < classes:
            return _FALLBACK
        trial = replace(rows.shared(1.0 - out), random_state=np.random.RandomState(0))
        run = self._new_run(
            self._booster(_TRIAL_CAP, _TRIAL_RATE), trial, self._watch(rows.shared(out))
        )
        least = _least_error(run)
        if least is None:
            return _FALLBACK
        self._expected_error = least
        return min(max(0.5 / max(least, 1e-9), 1.1), 50.0)

    def _found(self) -> dict[str, Any]:
        return {"smoothness": self.smoothness_, "noise_rate": None}

    def _error_to_expect(self) -> float:
        return max(self._expected_error, UNSEEN_ERROR)


def _least_error(run: Run) -> float | None:
    """The least mean error of consecutive rounds on the rows that watch; None where no round succeeds."""
    errors: list[float] = []
    least, since = math.inf, 0
    # an estimator that fails here may not fail in the fit; if it does, the fit will say so
    with suppress(ValueError):
        for round in islice(run, _ROUNDS):
            errors.append(round.record.val_error)
            mean = math.fsum(errors[-_WINDOW:]) / _WINDOW
            since += 1
            if len(errors) >= _WINDOW and mean < least:
                least, since = mean, 0
            if since >= _PATIENCE:
                break
    if not errors:
        return None
    return least if math.isfinite(least) else math.fsum(errors) / len(errors)
