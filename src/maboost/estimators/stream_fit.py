"""A fit on a stream: the rounds around :mod:`maboost.boosting.streaming`."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.calibration import VALIDATION_SMOOTHING, probability_scale
from maboost.boosting.certificate import Certificate
from maboost.boosting.ensemble import Ensemble
from maboost.boosting.history import History, Record
from maboost.boosting.streaming import Filter, Filtered, acceptance_limit, edge_limit
from maboost.estimators.control import Interrupts, Progress
from maboost.learners.base import WeakLearner
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.threads import Threads, available_threads

__all__ = ["boost_stream"]

Array = NDArray[np.float64]

_MOST = 64  # times the sample size are accepted for one round at most
_RARE = 1000  # rows are looked at for each one that is accepted, before a round gives up


def boost_stream(
    model: Any, stream: Filter, size: int, delta: float, random_state: np.random.RandomState
) -> None:
    """All rounds of a fit on a stream; leaves a fitted `model`."""
    model.ensemble_, model.history_ = Ensemble(2), History()
    model._noise = model._row_noise = model.flip_rates_ = None
    model.early_stopping_ = False  # a stream has no validation rows
    model._most_rounds = model._rounds_asked()
    model.probability_scale_ = 2.0
    began, reason = time.perf_counter(), ""
    interrupts, sample = Interrupts(), Filtered()
    with interrupts.deferred(), Progress(int(model.verbose), model._most_rounds) as progress:
        try:
            while not reason:
                t = len(model.ensemble_) + 1
                part = delta / (t * (t + 1))
                sample = stream.draw(partial(_votes, model), size, size * _RARE)
                if sample.drawn and model.history_.records:
                    progress(_measured_last(model.history_, sample, part))
                if interrupts.asked:
                    raise KeyboardInterrupt
                if t == 1:  # rows are accepted whatever their class is
                    model.ensemble_.heaviest = int(
                        np.argmax(np.bincount(np.concatenate(sample.labels)))
                    )
                reason = _reason(model, stream, sample, size, began)
                reason = reason or _add_round(model, stream, sample, part, random_state)
                if not reason:  # these are no sample of the distribution after the round
                    sample = Filtered()
        except KeyboardInterrupt:
            if not model.ensemble_:
                raise
            reason = "interrupted"
    _finish(model, sample, reason)


def _votes(model: Any, X: Any) -> Array:
    """H, which is zero before the first round, where the model itself votes for its heaviest class."""
    found: Array = model._votes(X) if model.ensemble_ else np.zeros(X.shape[0])
    return found


def _add_round(
    model: Any, stream: Filter, sample: Filtered, part: float, random_state: np.random.RandomState
) -> str:
    """Add a round from the rows drawn for it; returns why there is none, or nothing."""
    began = time.perf_counter()
    found = _round(model, stream, sample, part, random_state)
    if found is None:
        return "no edge can be told from chance on the rows the stream gave"
    hypothesis, edge, used = found
    if not model.ensemble_:
        model._warn_of_rare(hypothesis.tree.rare)
    step = float(model.learning_rate) * math.atanh(min(edge, 1.0 - 1e-12))
    record = _record(
        len(model.ensemble_) + 1, edge, step, sample, used, time.perf_counter() - began
    )
    model.ensemble_.add(hypothesis, step)
    model.history_.append(record)
    return ""


def _reason(model: Any, stream: Filter, sample: Filtered, size: int, began: float) -> str:
    """Why to stop before another round; empty to go on."""
    done = len(model.ensemble_)
    last = model.history_.records[-1] if done else None
    if last and model.target_error is not None and last.error_bound <= model.target_error:
        return f"target_error={model.target_error:g} is certified by the acceptance rate"
    if done >= model._most_rounds:
        return f"n_estimators={model._most_rounds} rounds are done"
    if model.max_seconds is not None and time.perf_counter() - began >= model.max_seconds:
        return f"max_seconds={model.max_seconds:g} has passed"
    if sample.accepted < size:
        if stream.ended:
            return f"the stream ended after {stream.rows_seen} rows, before sample_size={size} were accepted"
        return f"of {sample.drawn} rows only {sample.accepted} were accepted: hardly any is wrong"
    return ""


def _round(
    model: Any, stream: Filter, sample: Filtered, delta: float, random_state: np.random.RandomState
) -> tuple[Any, float, int] | None:
    """A hypothesis, the edge it has at least, and the rows it took; None if no edge can be shown."""
    wanted = sample.accepted
    for look in count(1):
        X, labels = sample.rows()
        if len(np.unique(labels)) < 2:
            return None
        order = random_state.permutation(len(labels))
        train, test = order[::2], order[1::2]
        hypothesis = _trained(model, X[train], labels[train], random_state)
        mean = float(np.mean((2.0 * labels[test] - 1.0) * hypothesis.scores(X[test])))
        # the looks share what the round may be wrong by: any of them may be the last
        edge = edge_limit(mean, len(test), delta / 2.0**look)
        if edge >= 0.5 * mean > 0.0 or 2 * len(labels) > _MOST * wanted:
            break
        more = stream.draw(partial(_votes, model), len(labels), len(labels) * _RARE)
        if more.accepted < len(labels):
            break
        sample.X += more.X
        sample.labels += more.labels
    return (hypothesis, edge, len(labels)) if edge > 0.0 else None


def _trained(
    model: Any, X: Any, labels: NDArray[np.intp], random_state: np.random.RandomState
) -> Any:
    from maboost.data.weights import row_weights

    weights = row_weights(X, labels, None, None)
    threads = Threads(available_threads(model.n_jobs))
    learner: WeakLearner = model._learner(X, weights, threads)
    producer = learner.prepare(X, labels, 2)
    return producer.produce(np.ones(len(labels)), None, None, random_state)


def _measured_last(history: History, sample: Filtered, delta: float) -> Record:
    """The last round, with what the rows drawn for this one say about the ensemble after it."""
    records = history.records
    records[-1] = replace(
        records[-1],
        train_error=sample.wrong / sample.drawn,
        error_bound=acceptance_limit(sample.accepted, sample.drawn, delta),
    )
    return records[-1]


def _record(
    t: int, edge: float, step: float, sample: Filtered, used: int, seconds: float
) -> Record:
    rate = sample.accepted / sample.drawn
    nan = math.nan
    return Record(
        round=t, edge=edge, step=step, gain=rate * (1.0 - math.cosh(step) + edge * math.sinh(step)),
        error_bound=1.0, train_error=nan, val_error=nan, min_margin=nan, soft_margin=nan,
        margin_bound=nan, smoothness=1.0 / rate, ess=nan, nonzero=1.0, rows_used=used, seconds=seconds,
    )  # fmt: skip


def _finish(model: Any, sample: Filtered, reason: str) -> None:
    model.n_iter_ = model.best_iteration_ = len(model.ensemble_)
    for per_row in ("_distribution", "_evidence", "_resume"):
        model.__dict__.pop(per_row, None)
    last = model.history_.records[-1] if model.n_iter_ else None
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
