"""What happens around the rounds of a fit: progress, interrupts, callbacks, the score that is watched."""

from __future__ import annotations

import copy
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.calibration import VALIDATION_SMOOTHING, log_loss, probability_scale
from maboost.boosting.game import Validation
from maboost.boosting.history import Record, Round
from maboost.boosting.loop import Run
from maboost.boosting.rounding import at_most
from maboost.data.training_rows import TrainingRows
from maboost.estimators.tree import TREE_PARAMETERS
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.parameters import change_message, described
from maboost.runtime.parameter_errors import Message

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Stands in where scikit-learn has no callbacks."""

        @wraps(method)
        def called(*args: Any, **given: Any) -> Any:
            # one frame more, as there: warnings count the frames up to the user's line
            return method(*args, **given)

        return called


__all__ = [
    "CallbackSupportMixin",
    "Interrupts",
    "Passes",
    "Progress",
    "Score",
    "Tasks",
    "booster_parameters",
    "fixed_parameters",
    "parameter_changes",
    "unchanged_by_failure",
    "with_callbacks",
]

Array = NDArray[np.float64]

# those that say how long a fit goes on, which rows it sees, and what it does beside
_NOT_OF_THE_BOOSTER = {
    "n_estimators", "learning_rate", "early_stopping", "validation_fraction", "n_iter_no_change", "tol",
    "scoring", "target_error", "max_seconds", "class_weight", "warm_start", "checkpoint", "checkpoint_every",
    "resume", "random_state", "n_jobs", "verbose",
}  # fmt: skip


def booster_parameters(model: Any) -> dict[str, str]:
    """Return the parameters of a classifier that can change its distribution, described."""
    params = model.get_params(deep=False).items()
    return {name: described(value) for name, value in params if name not in _NOT_OF_THE_BOOSTER}


# parameters that may change while a fit goes on, and the estimator, whose parameters are compared one by one
_FREE = {
    "n_estimators", "n_iter_no_change", "tol", "target_error", "max_seconds", "warm_start", "checkpoint",
    "checkpoint_every", "resume", "n_jobs", "verbose", "estimator",
}  # fmt: skip


def fixed_parameters(model: Any) -> dict[str, str]:
    """Return the parameters of a classifier and of its trees that stay the same while a fit goes on, described."""
    own, of_trees = model.get_params(deep=False), model._default_estimator().get_params()
    for name in TREE_PARAMETERS:  # "auto" is what the trees have
        del own[name]
    params = own | of_trees | own  # the seed is the classifier's
    return {name: described(value) for name, value in params.items() if name not in _FREE}


def parameter_changes(old: dict[str, str], new: dict[str, str]) -> Message | None:
    """Which of these descriptions have changed, in words; None if none."""
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
    """The score of the rows that watch, after every round; NaN where there are none."""

    def __init__(
        self, run: Run, compute: Callable[[Validation, Array, BaseMeasure, Round], float]
    ) -> None:
        self.run = run
        self.compute = compute
        watch = run.validation
        self.rows = None if watch is None else BaseMeasure(watch.base, comm=run.measure.comm)

    @classmethod
    def of(cls, scoring: Any, model: Any, run: Run, classes: NDArray[Any]) -> Score:
        """From the parameter `scoring`."""
        if scoring == "accuracy":
            return cls(run, _accuracy)
        if scoring == "neg_log_loss":
            return cls(run, _negative_log_loss)
        if run.validation is not None and run.measure.comm.size > 1:
            raise ValueError(
                f"scoring={scoring!r} needs all rows that watch in one place, and they are in "
                f"{run.measure.comm.size} shards: use 'neg_log_loss' or 'accuracy'"
            )
        from sklearn.metrics import check_scoring  # slow to import

        scorer = check_scoring(model, scoring)
        view = copy.copy(model)
        view.__class__ = type("Watching", (_Watching, type(model)), {})
        view._noise = None  # validation rows are scored on their given labels, in their weights

        def compute(watch: Validation, margins: Array, rows: BaseMeasure, round: Round) -> float:
            view.ensemble_ = model.ensemble_.first(len(model.ensemble_))
            view.ensemble_.add(round.hypothesis, round.record.step)
            view._fixed = run.validation_votes.votes.copy()
            view.probability_scale_ = probability_scale(margins, rows, VALIDATION_SMOOTHING)
            labels = classes[watch.game.labels]
            try:
                score = float(scorer(view, watch.X, labels, sample_weight=watch.base))
            except TypeError:
                score = float(scorer(view, watch.X, labels))
            except ValueError as error:
                raise ValueError(
                    f"scoring={scoring!r} cannot score the {len(labels)} rows that watch, of classes "
                    f"{np.unique(labels).tolist()!r}: {error}"
                ) from error
            if math.isnan(score):
                raise ValueError(
                    f"scoring={scoring!r} is nan on the {len(labels)} rows that watch, of classes "
                    f"{np.unique(labels).tolist()!r}: take another score, or other rows"
                )
            return score

        return cls(run, compute)

    def __call__(self, round: Round) -> float:
        watch = self.run.validation
        if watch is None or self.rows is None:
            return math.nan
        margins = self.run.validation_votes.margins.reshape(len(watch.base), watch.game.width)
        return self.compute(watch, margins, self.rows, round)


class _Watching:
    """A model in the making, as a scorer sees it: its votes on the rows that watch are known."""

    _fixed: Array

    def _all_votes(self, X: Any) -> Array:
        return self._fixed

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _accuracy(watch: Validation, margins: Array, rows: BaseMeasure, round: Round) -> float:
    return 1.0 - rows.integral((margins.min(axis=1) <= 0.0).astype(np.float64))


def _negative_log_loss(watch: Validation, margins: Array, rows: BaseMeasure, round: Round) -> float:
    return -log_loss(margins, rows, probability_scale(margins, rows, VALIDATION_SMOOTHING))


class Progress:
    """A line about the rounds: rewritten in place on a terminal, every so many rounds elsewhere.

    Parameters
    ----------
    every : int
        0 is silent; on a terminal any other number shows the bar.
    total : int
        Rounds at most.
    """

    def __init__(self, every: int, total: int, stream: TextIO | None = None) -> None:
        self.every = every
        self.total = total
        self.stream = stream or sys.stderr
        self.bar = every > 0 and self.stream.isatty()
        self.began = time.perf_counter()
        self.shown = 0.0

    def __call__(self, record: Record) -> None:
        """Tell about a round."""
        if not self.every:
            return
        if self.bar:
            now = time.perf_counter()
            if now - self.shown > 0.1 or record.round == self.total:
                self.shown = now
                done = 24 * record.round // self.total
                self.stream.write(f"\r[{'=' * done:<24}] {self._text(record)}")
                self.stream.flush()
        elif record.round % self.every == 0:
            print(self._text(record), file=self.stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the line on a terminal."""
        if self.bar and self.shown:
            self.stream.write("\n")
            self.stream.flush()

    def _text(self, r: Record) -> str:
        trained, watched = (
            "" if math.isnan(error) else f", {of} error {error:.4f}"
            for of, error in (("train", r.train_error), ("validation", r.val_error))
        )
        return (
            f"round {r.round}/{self.total}: edge {r.edge:.4f}{trained}, "
            f"certified <= {at_most(r.error_bound)}{watched}, {time.perf_counter() - self.began:.0f} s"
        )


class Passes:
    """Lines about passes over rows that are not in memory, to stderr.

    On a terminal a line is rewritten as the pass goes on; elsewhere there is one when it is done.
    """

    def __init__(self, verbose: int, stream: TextIO | None = None) -> None:
        self.verbose = verbose
        self.stream = stream or sys.stderr
        self.began: tuple[str, float] = ("", 0.0)

    def __call__(self, purpose: str, done: int, total: int) -> None:
        """Tell about a batch: so many rows of so many are done."""
        if not self.verbose:
            return
        now = time.perf_counter()
        if self.began[0] != purpose:
            self.began = (purpose, now)
        text = f"{purpose}: {done:,} of {total:,} rows, {now - self.began[1]:.0f} s"
        if self.stream.isatty():
            self.stream.write(f"\r{text}" + ("\n" if done == total else ""))
            self.stream.flush()
        elif done == total:
            print(text, file=self.stream)
        if done == total:
            self.began = ("", 0.0)


class Interrupts:
    """Ctrl-C waits for the end of the round, so that the rounds done are whole; twice is at once.

    Attributes
    ----------
    asked : bool
        Whether there was one.
    leave_rounds : bool
        Whether the model is to have the rounds done. Not where the fit is one of many, of a search or an
        ensemble: that would go on, and take the model for a whole one.
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
        if before is not signal.default_int_handler:  # someone else's, or none: leave it alone
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
    """Return whether joblib has called, which runs the fits of scikit-learn's searches and ensembles."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("joblib."):
            return True
        frame = frame.f_back
    return False


@contextmanager
def unchanged_by_failure(model: Any) -> Iterator[None]:
    """What goes wrong in a fit leaves the model as it was before: fitted, if it was."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


class Tasks:
    """Rounds as tasks of scikit-learn's callbacks; nothing without callbacks or without rows at hand."""

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
        """Tell about a round that ended; true where a callback wants to stop."""
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
        """Tell that the fit ended."""
        if self.root is not None:
            self.root.call_on_fit_task_end(
                estimator=self.model, reconstruction_attributes=fitted, **self.data
            )
