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
from maboost.boosting.recipes import REGULARIZERS, STEPS, TOTAL, smooth, smoothness_for
from maboost.data.holdout import held_out_shares
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.cross_fit import classes_among
from maboost.estimators.documentation import documented
from maboost.estimators.progress import display
from maboost.mirror.regularizers import Regularizer

__all__ = ["SmoothBoostClassifier"]

# the trial run of smoothness="auto": at a cap and a rate of its own, until the best window of rounds
# has not improved for this many rounds
_TRIAL_CAP, _TRIAL_RATE, _FRACTION = 4.0, 0.3, 0.25
_ROUNDS, _WINDOW, _PATIENCE = 100, 15, 40
# with more classes the trial's rounds do not suffice: its error is underfitting, and its time is rows times classes
_MOST_CLASSES = 100
_FALLBACK = 4.0  # the cap without a trial, also if there are too few rows for a hold-out


@documented
class SmoothBoostClassifier(BoostingClassifier):
    r"""Smooth boosting: no row weighs more than `smoothness` times its share.

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
    smoothness : float >= 1 or "auto", default="auto"
        The cap k. "auto" first boosts at k = 4 and a rate of 0.3 without a quarter of the rows (chosen
        by their content, so that neither order nor repetition matters). With :math:`\varepsilon` the
        least error there, as a mean over 15 rounds, it takes :math:`k = 1/(2\varepsilon)`, between 1.1
        and 50. The trial ends when that least is 40 rounds old, or after 100: an error that further
        rounds would cure is not taken for noise. With more than 100 classes there is no trial, and k = 4.
    noise_rate : float in [0, 0.4546), optional
        Fraction of labels that are wrong or unpredictable; sets k = max(1.1, 0.5 / noise_rate), and
        no cap at 0. With `flip_rates` the fraction is that of true labels, and the weighted error on
        given labels sets the cap. Not together with `smoothness`. At this cap no edge is promised: a classifier
        that errs on that fraction may have edge 0 under the hardest distribution.
    step : {"corrective", "paper", "maxmargin", "adaboostv", "total"} or StepRule, default="corrective"
        The step of largest gain, the step of the proofs, the step of Theorem 2, or AdaBoostV's (entropy on the
        simplex only, see :class:`maboost.mirror.steps.AdaBoostV`). "total" refits the votes of all hypotheses after
        each round, so that they minimise the error bound, and leaves hypotheses without a vote out of the model; it
        needs `update="lazy"` and `learning_rate=1.0`.

    Attributes
    ----------
    smoothness_ : float
        The cap that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(noise_rate=0.1, n_estimators=20, random_state=0).fit(X, y)
    >>> model.smoothness_, bool(model.history_["smoothness"].max() <= 5.0 + 1e-9)
    (5.0, True)
    """

    smoothness: float | Literal["auto"]
    noise_rate: float | None
    regularizer: Any
    update: Literal["active", "lazy"]
    step: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "smoothness": [Interval(Real, 1, None, closed="left"), StrOptions({"auto"})],
        "noise_rate": [Interval(Real, 0, 0.4546, closed="left"), None],
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
        "update": [StrOptions({"active", "lazy"})],
        "step": [StrOptions({*STEPS, TOTAL}), callable],
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
        interaction_cst: Any = "auto",
        max_features_per_tree: Any = "auto",
        response: Literal["votes", "proba"] = "votes",
        trim: float | Literal["auto", "certain"] = 0.0,
        max_samples: float | None = None,
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
        device: Literal["cpu", "cuda", "auto"] = "cpu",
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

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
        return self._booster(k, self.learning_rate, self.step), None

    def _booster(self, k: float, rate: float, step: Any) -> Booster:
        return smooth(k, self.regularizer, self.update, step, rate, self._showing())

    def _estimated_smoothness(self, rows: TrainingRows) -> float:
        """Return the cap from the least error of a trial run on held-out rows.

        Under caps of k a classifier that errs on a fraction e of the rows keeps an edge of 1 - 2ke, so
        k = 1/(2e) is the largest cap at which such an edge is guaranteed not to be negative. Any
        classifier will do for that, hence the best one of the trial. The trial has its own learning rate, since the
        number of wrong labels does not depend on the learning rate of the fit.
        """
        if not 2 <= len(rows.classes) <= _MOST_CLASSES:
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
        # votes that are all refitted have no rate
        step = "corrective" if isinstance(self.step, str) and self.step == TOTAL else self.step
        run = self._new_run(
            self._booster(_TRIAL_CAP, _TRIAL_RATE, step),
            trial,
            self._as_validation(rows.shared(out)),
        )
        display().phase("finding the cap")
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
    """Return the least mean error of consecutive rounds on the validation rows; None if no round succeeds."""
    errors: list[float] = []
    least, since = math.inf, 0
    # an estimator that fails here may not fail in the fit; if it does, the fit raises the error
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
