"""Checks of whole boosters."""

from __future__ import annotations

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from maboost.boosting.booster import Booster
from maboost.boosting.game import Game
from maboost.boosting.loop import Run
from maboost.engine import project
from maboost.learners.adapter import EstimatorLearner
from maboost.mirror import BaseMeasure

__all__ = ["check_booster"]


def check_booster(booster: Booster, *, rounds: int = 15, n_classes: int = 2, seed: int = 0) -> None:
    r"""Run a booster on noisy rows and check its certificate after every round.

    The inequality :math:`\sum w^*_i M_i \ge G - B_R(w^*, D)` against random points of the domain, the
    error bound, the margin bound, and that the distribution stays inside.

    >>> from maboost.boosting import smooth
    >>> check_booster(smooth(4.0, regularizer="euclidean", update="lazy"))
    """
    rng = np.random.default_rng(seed)
    n = 150
    labels = np.arange(n) % n_classes
    X = rng.normal(size=(n, 4)) + 0.8 * labels[:, None]
    weights = rng.exponential(size=n) + 0.1
    game = Game(labels, n_classes)
    measure = BaseMeasure(weights, game.width)
    learner = EstimatorLearner(DecisionTreeClassifier(max_depth=2), np.arange(n_classes))
    run = Run(booster, learner, X, game, weights, measure, np.random.RandomState(seed))
    ascent = booster.ascent
    for round in run:
        record = round.record
        where = f"round {record.round}"
        assert record.gain >= -1e-10, f"{where}: the gain is {record.gain!r}"
        assert record.train_error <= record.error_bound + 1e-9, (
            f"{where}: training error {record.train_error:.6g} exceeds its bound "
            f"{record.error_bound:.6g}"
        )
        assert record.soft_margin >= record.margin_bound - 1e-9, (
            f"{where}: soft margin {record.soft_margin:.6g} is below its bound "
            f"{record.margin_bound:.6g}"
        )
        inside = ascent.domain.contains(run.state.density, measure)
        assert inside, f"{where}: the distribution left the domain"
        _check_star(run, rng, where)
        if record.round >= rounds:
            break


def _check_star(run: Run, rng: np.random.Generator, where: str) -> None:
    ascent, measure = run.booster.ascent, run.measure
    if not ascent.domain.normalised:
        return
    phi = ascent.regularizer.phi
    for scale in (0.3, 3.0, 30.0):
        theta = rng.normal(size=run.margins.size) * scale
        u = project(ascent.regularizer, ascent.domain, theta, measure).density
        cost = measure.integral(phi(u)) - float(phi(np.array([1.0]))[0])
        margin = measure.integral(u * run.margins)
        assert margin >= run.gain - cost - 1e-9, (
            f"{where}: a distribution of the domain has margin {margin:.6g} < G - B = "
            f"{run.gain - cost:.6g}"
        )
