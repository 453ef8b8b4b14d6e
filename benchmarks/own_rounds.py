"""Rounds of our own boosters on rows that are binned once, for the benchmarks of a round's time."""

from __future__ import annotations

import numpy as np

from maboost.boosting import Booster, Game, Run
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner, TreeProducer
from maboost.mirror import BaseMeasure
from maboost.runtime.threads import Threads

__all__ = ["Prepared", "run_of"]


class Prepared:
    """A learner with binned rows; `like` shares the bins of another one."""

    closed_under_negation, takes_costs = False, True

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        rules: GrowthRules,
        threads: int,
        like: Prepared | None = None,
    ) -> None:
        learner = TreeLearner(rules, threads=Threads(threads))
        if like is None:
            self.producer = learner.prepare(X, y, int(y.max()) + 1)
        else:
            shared = like.producer
            self.producer = TreeProducer(learner, shared.data, shared.labels, shared.n_classes)
        self.exact = learner.exact

    def prepare(self, *_: object) -> TreeProducer:
        return self.producer


def run_of(booster: Booster, learner: Prepared, y: np.ndarray, threads: int) -> Run:
    """Return a run whose next round is ``next(run)``."""
    n, classes = len(y), int(y.max()) + 1
    measure = BaseMeasure(np.ones(n), classes - 1, threads=Threads(threads))
    random_state = np.random.RandomState(0)
    return Run(booster, learner, None, Game(y, classes), np.ones(n), measure, random_state)
