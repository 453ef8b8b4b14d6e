"""A round is a few calls of compiled kernels: Python between them runs on one thread only."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import maboost
from maboost.boosting import Game, Run, smooth
from maboost.boosting import maboost as mirror_ascent
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.mirror import BaseMeasure

PACKAGE = str(Path(maboost.__file__).parent)
GENERATED = "<string>"  # the constructors of data classes and named tuples
# called once in each iteration of a root search over a few numbers; their number differs between processors
ITERATED = str(Path(maboost.__file__).parent / "runtime" / "exponential.py")


def calls_of_a_round(run: Run) -> Counter[str]:
    """The Python functions and kernels of the library that a round calls, by file."""
    files: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        counts = name == GENERATED or (name.startswith(PACKAGE) and name != ITERATED)
        if event == "call" and counts:
            files[name] += 1

    sys.setprofile(count)
    try:
        next(run)
    finally:
        sys.setprofile(None)
    return files


@pytest.mark.parametrize(("booster", "most"), [(smooth(4.0), 264), (mirror_ascent(), 184)])
@pytest.mark.parametrize("rows", [2000, 40_000])
def test_a_round_makes_few_calls(booster, most, rows):
    """The numbers do not grow with the rows; lower them when a round makes fewer calls."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10))
    y = (X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=rows) > 0.0).astype(int)
    run = Run(
        booster, TreeLearner(GrowthRules(max_depth=3)), X, Game(y, 2), np.ones(rows),
        BaseMeasure(np.ones(rows)), np.random.RandomState(0),
    )  # fmt: skip
    for _ in range(3):
        next(run)
    files = calls_of_a_round(run)
    assert files.total() <= most, files.most_common()
