"""Reasons to stop."""

import time

import numpy as np
import pytest

from maboost.boosting import History, Record
from maboost.boosting.stopping import MaxSeconds, NoImprovement, TargetError, best_round


def record(**values):
    return Record(**dict.fromkeys(History.columns, 1.0) | values)


def test_target_error_names_the_stronger_reason():
    stop = TargetError(0.1)
    assert stop(record(train_error=0.2, error_bound=0.3)) is None
    measured = stop(record(train_error=0.1, error_bound=0.3))
    assert measured == "target_error=0.1 is measured on the training rows"
    assert stop(record(train_error=0.0, error_bound=0.1)) == "target_error=0.1 is certified"


def test_max_seconds_counts_from_its_beginning():
    assert MaxSeconds(60.0)(record()) is None
    assert (
        MaxSeconds(60.0, began=time.perf_counter() - 61.0)(record()) == "max_seconds=60 has passed"
    )


def test_no_improvement_waits_for_its_patience():
    stop = NoImprovement(patience=3, tol=0.01)
    errors = [0.5, 0.4, 0.395, 0.45, 0.391, 0.2]  # 0.391 is not better than 0.4 by more than tol
    said = [stop(record(round=t, val_score=-error)) for t, error in enumerate(errors, start=1)]
    assert said[:4] == [None] * 4
    assert said[4] == "no better validation score for 3 rounds"
    assert (stop.best, stop.best_round) == (-0.2, 6)


def test_improvement_starts_the_wait_anew():
    stop = NoImprovement(patience=2, tol=0.0)
    errors = [0.5, 0.5, 0.4, 0.4]
    said = [stop(record(round=t, val_score=-e)) for t, e in enumerate(errors, start=1)]
    assert said == [None, None, None, None]
    assert stop(record(round=5, val_score=-0.4)) == "no better validation score for 2 rounds"
    assert stop.best_round == 3


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_the_first_of_equal_scores_is_the_best(scale):
    """Whatever the order in which a scorer added its rows up."""
    scores = scale * np.array([-0.5, -0.3, -0.3, -0.4])
    for last in (np.inf, -np.inf):
        scores[2] = np.nextafter(scores[1], last)
        assert best_round(scores) == 2
    assert best_round(np.array([0.5, np.inf, 0.7])) == 2
    scores[2] = scores[1] + 1e-8 * scale
    assert best_round(scores) == 3
