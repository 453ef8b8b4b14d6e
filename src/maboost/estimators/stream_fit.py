"""The fit on a stream: the attributes of the model; the rounds are in :mod:`maboost.boosting.streaming`."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.calibration import VALIDATION_SMOOTHING, probability_scale
from maboost.boosting.certificate import Certificate
from maboost.boosting.ensemble import Ensemble
from maboost.boosting.history import History
from maboost.boosting.streaming import Filter, Filtered, StreamRun
from maboost.data.weights import row_weights
from maboost.estimators.control import Tasks
from maboost.learners.base import Hypothesis
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.threads import Threads, available_threads

__all__ = ["boost_stream"]


def boost_stream(
    model: Any, stream: Filter, size: int, delta: float, random_state: np.random.RandomState
) -> None:
    """Fit `model` on a stream."""
    began = time.perf_counter()
    model._noise = model._row_noise = model.flip_rates_ = None
    model.early_stopping_ = False  # a stream has no validation rows
    model._most_rounds = model._rounds_asked()
    model.probability_scale_ = 2.0
    threads = Threads(available_threads(model.n_jobs))

    def train(X: Any, labels: NDArray[np.intp]) -> Hypothesis:
        learner = model._learner(X, row_weights(X, labels, None, None), threads)
        producer = learner.prepare(X, labels, 2)
        return producer.produce(np.ones(len(labels)), None, None, random_state)

    rate = float(model.learning_rate)
    run = StreamRun(stream, train, size, delta, rate, random_state, threads)
    model.ensemble_, model.history_ = Ensemble(2, run.ensemble.heaviest), History()
    stops = model._stops(began, certified_only=True)
    tasks = Tasks(model, model._most_rounds, None)
    reason, _ = model._run(run, stops, lambda round: math.nan, tasks, lambda last: None)
    # the run is a round ahead of the model if the user interrupts it twice
    whole = len(run.ensemble) == len(model.ensemble_)
    _finish(model, run.sample if whole else Filtered(), reason)


def _finish(model: Any, sample: Filtered, reason: str) -> None:
    model.n_iter_ = model.best_iteration_ = len(model.ensemble_)
    for per_row in ("_distribution", "_evidence", "_resume", "_training", "_suspected"):
        model.__dict__.pop(per_row, None)
    last = model.history_.records[-1] if model.n_iter_ else None
    if model.n_iter_:
        model._warn_of_rare(model.ensemble_.hypotheses[0].tree.rare)
    if sample.accepted and model.n_iter_:
        X, labels = sample.rows()
        margins = (2.0 * labels - 1.0) * model._votes(X)
        model.probability_scale_ = probability_scale(
            margins[:, None], BaseMeasure(np.exp(np.maximum(margins, 0.0))), VALIDATION_SMOOTHING
        )
    model.n_inert_rows_ = 0
    model.certificate_ = Certificate(
        regularizer="Entropy", domain="Hypercube", update="lazy", rounds=model.n_iter_,
        gain=sum(r.gain for r in model.history_.records),
        error_bound=last.error_bound if last else 1.0,
        measured_error=last.train_error if last else 1.0, margin_bound=-math.inf, soft_margin=math.nan,
        min_margin=math.nan, best_margin_bound=min((r.edge for r in model.history_.records), default=1.0),
        exact=False, floor=0.0, stopped=reason,
    )  # fmt: skip
    if reason.startswith(("the stream ended", "no edge", "interrupted")):
        warnings.warn(f"fit_stream: {reason}; the model has {model.n_iter_} rounds", stacklevel=4)
