"""The surroundings of the rounds of a fit: interrupts, callbacks, and the validation score."""

from __future__ import annotations

import copy
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.calibration import VALIDATION_SMOOTHING, log_loss, probability_scale
from maboost.boosting.game import Validation
from maboost.boosting.history import Round
from maboost.boosting.loop import Run
from maboost.data.training_rows import TrainingRows
from maboost.estimators.tree import TREE_PARAMETERS
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.parameters import change_message, described
from maboost.runtime.parameter_errors import Message

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A substitute for versions of scikit-learn without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method, for versions of scikit-learn without callbacks."""

        @wraps(method)
        def called(*args: Any, **given: Any) -> Any:
            # one more frame, as with callbacks: warnings count the frames up to the user's line
            return method(*args, **given)

        return called


__all__ = [
    "CallbackSupportMixin",
    "Interrupts",
    "Score",
    "Tasks",
    "booster_parameters",
    "fixed_parameters",
    "parameter_changes",
    "unchanged_by_failure",
    "with_callbacks",
]

Array = NDArray[np.float64]

# parameters of how long a fit runs, which rows it sees, and its side effects
_NOT_OF_THE_BOOSTER = {
    "n_estimators", "learning_rate", "early_stopping", "validation_fraction", "n_iter_no_change", "tol",
    "scoring", "target_error", "max_seconds", "class_weight", "warm_start", "checkpoint", "checkpoint_every",
    "resume", "random_state", "n_jobs", "device", "verbose",
}  # fmt: skip


def booster_parameters(model: Any) -> dict[str, str]:
    """Return descriptions of the parameters of a classifier that can change its distribution."""
    params = model.get_params(deep=False).items()
    return {name: described(value) for name, value in params if name not in _NOT_OF_THE_BOOSTER}


# parameters that may change when a fit resumes, and the estimator, whose parameters are compared one by one
_FREE = {
    "n_estimators", "n_iter_no_change", "tol", "target_error", "max_seconds", "warm_start", "checkpoint",
    "checkpoint_every", "resume", "n_jobs", "device", "verbose", "estimator",
}  # fmt: skip


def fixed_parameters(model: Any) -> dict[str, str]:
    """Return descriptions of the parameters of a classifier and its trees that must not change when a fit resumes."""
    own, of_trees = model.get_params(deep=False), model._default_estimator().get_params()
    for name in TREE_PARAMETERS:  # for "auto" the trees' own values count
        del own[name]
    params = own | of_trees | own  # the seed is the classifier's
    return {name: described(value) for name, value in params.items() if name not in _FREE}


def parameter_changes(old: dict[str, str], new: dict[str, str]) -> Message | None:
    """Return the differences between these descriptions in words; None if there are none."""
    changes = [
        change_message(name, old[name], new[name])
        for name in new
        if name in old and old[name] != new[name]
    ]
    if not changes:
        return None
    more = [part for change in changes[1:] for part in (", ", change)]
    return Message(changes[0], *more)


class Score:
    """The score of the validation rows after every round; NaN without validation rows."""

    def __init__(
        self, run: Run, compute: Callable[[Validation, Array, BaseMeasure, Round], float]
    ) -> None:
        self.run = run
        self.compute = compute
        validation = run.validation
        self.rows = (
            None if validation is None else BaseMeasure(validation.base, comm=run.measure.comm)
        )

    @classmethod
    def of(cls, scoring: Any, model: Any, run: Run, classes: NDArray[Any]) -> Score:
        """Return the score for the parameter `scoring`."""
        if scoring == "accuracy":
            return cls(run, _accuracy)
        if scoring == "neg_log_loss":
            return cls(run, _negative_log_loss)
        if run.validation is not None and run.measure.comm.size > 1:
            raise ValueError(
                f"scoring={scoring!r} needs all validation rows in one place, and they are in "
                f"{run.measure.comm.size} shards: use 'neg_log_loss' or 'accuracy'"
            )
        from sklearn.metrics import check_scoring  # imported late, since it is slow

        scorer = check_scoring(model, scoring)
        view = copy.copy(model)
        view.__class__ = type("UnfinishedModel", (_UnfinishedModel, type(model)), {})
        view._noise = None  # validation rows are scored on their given labels, with their weights

        def compute(
            validation: Validation, margins: Array, rows: BaseMeasure, round: Round
        ) -> float:
            view.ensemble_ = model.ensemble_.first(len(model.ensemble_))
            view.ensemble_.advance(round)
            view._fixed = run.validation_votes.votes.copy()
            view.probability_scale_ = probability_scale(margins, rows, VALIDATION_SMOOTHING)
            labels = classes[validation.game.labels]
            try:
                score = float(scorer(view, validation.X, labels, sample_weight=validation.base))
            except TypeError:
                score = float(scorer(view, validation.X, labels))
            except ValueError as error:
                raise ValueError(
                    f"scoring={scoring!r} cannot score the {len(labels)} validation rows, of classes "
                    f"{np.unique(labels).tolist()!r}: {error}"
                ) from error
            if math.isnan(score):
                raise ValueError(
                    f"scoring={scoring!r} is nan on the {len(labels)} validation rows, of classes "
                    f"{np.unique(labels).tolist()!r}: use another score, or other rows"
                )
            return score

        return cls(run, compute)

    def __call__(self, round: Round) -> float:
        validation = self.run.validation
        if validation is None or self.rows is None:
            return math.nan
        margins = self.run.validation_votes.margins.reshape(
            len(validation.base), validation.game.width
        )
        return self.compute(validation, margins, self.rows, round)


class _UnfinishedModel:
    """A view of an unfinished model for a scorer, with known votes on the validation rows."""

    _fixed: Array

    def _all_votes(self, X: Any) -> Array:
        return self._fixed

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _accuracy(validation: Validation, margins: Array, rows: BaseMeasure, round: Round) -> float:
    return 1.0 - rows.integral((margins.min(axis=1) <= 0.0).astype(np.float64))


def _negative_log_loss(
    validation: Validation, margins: Array, rows: BaseMeasure, round: Round
) -> float:
    return -log_loss(margins, rows, probability_scale(margins, rows, VALIDATION_SMOOTHING))


class Interrupts:
    """Handling of Ctrl-C: the first waits for the end of the round, the second stops at once.

    Attributes
    ----------
    asked : bool
        Whether Ctrl-C was pressed.
    leave_rounds : bool
        Whether the model keeps the finished rounds. False if the fit is part of a search or an
        ensemble, which would continue and treat the model as complete.
    """

    def __init__(self) -> None:
        self.asked = False
        self.leave_rounds = not _under_joblib()

    @contextmanager
    def deferred(self) -> Iterator[Interrupts]:
        """Take over SIGINT in the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if not (main and self.leave_rounds):
            yield self
            return
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.default_int_handler:  # another handler, or none: leave it unchanged
            yield self
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.asked:
                signal.default_int_handler(number, frame)
            self.asked = True

        signal.signal(signal.SIGINT, note)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)


def _under_joblib() -> bool:
    """Return whether joblib is the caller, which runs the fits of scikit-learn's searches and ensembles."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("joblib."):
            return True
        frame = frame.f_back
    return False


@contextmanager
def unchanged_by_failure(model: Any) -> Iterator[None]:
    """Restore the model, fitted or not, if the fit raises an error."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


class Tasks:
    """Rounds as tasks of scikit-learn's callbacks; does nothing without callbacks or without rows in memory."""

    def __init__(self, model: Any, rounds: int, rows: TrainingRows | None) -> None:
        self.model = model
        self.data: dict[str, Any] = {}
        self.root = None
        if rows is None:
            return
        if getattr(model, "_skl_callbacks", None) or hasattr(model, "_parent_callback_ctx"):
            self.data = {"X": rows.as_given, "y": rows.y}
            self.root = model._init_callback_context(max_subtasks=rounds)
            self.root.call_on_fit_task_begin(estimator=model, **self.data)

    def round(self, fitted: Callable[[], dict[str, Any]]) -> bool:
        """Report the end of a round; return whether a callback asks to stop."""
        if self.root is None:
            return False
        task = self.root.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=self.model, **self.data)
        return bool(
            task.call_on_fit_task_end(
                estimator=self.model, reconstruction_attributes=fitted, **self.data
            )
        )

    def close(self, fitted: Callable[[], dict[str, Any]]) -> None:
        """Report the end of the fit."""
        if self.root is not None:
            self.root.call_on_fit_task_end(
                estimator=self.model, reconstruction_attributes=fitted, **self.data
            )
