"""What the studies share: a weak learner with a given edge, runs over rows by number, tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maboost.boosting.booster import Booster
from maboost.boosting.game import Game
from maboost.boosting.history import Round
from maboost.boosting.loop import Run
from maboost.learners.base import Producer
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.mirror import BaseMeasure
from maboost.runtime.threads import Threads

Array = np.ndarray
Table = list[dict[str, Any]]

ORDERS = ("random order", "fixed order")


@dataclass(frozen=True)
class Answers:
    """A hypothesis given by its scores; rows are numbers into them."""

    table: Array

    def scores(self, X: Array) -> Array:
        return self.table[X]


@dataclass(frozen=True)
class Stingy:
    """The weak learner of the theorems: its edge is the one promised, and not a bit more.

    It goes through the rows in some order and is wrong on them as long as their mass allows; on the
    row at the border it answers the real number that makes the edge exact. A random order, new every
    round, makes the votes of a row independent, the case in which a majority of T votes of edge
    gamma errs with probability about exp(-T gamma^2/2). A fixed order is wrong on the same rows for
    as long as it can.
    """

    edge: float
    order: str
    exact: bool = False
    closed_under_negation: bool = False
    takes_costs: bool = True

    def prepare(self, X: Array, labels: Array, n_classes: int) -> StingyProducer:
        return StingyProducer(self, labels)


@dataclass(frozen=True)
class StingyProducer(Producer):
    learner: Stingy
    labels: Array

    def produce(
        self,
        weights: Array,
        rows: Array | None,
        rewards: Array | None,
        random_state: np.random.RandomState,
    ) -> Answers:
        n = len(self.labels)
        mass = np.zeros(n)
        mass[slice(None) if rows is None else rows] = weights
        mass /= math.fsum(mass)
        order = np.arange(n)
        if self.learner.order == "random order":
            order = random_state.permutation(n)
        return Answers((2.0 * self.labels - 1.0) * self._right(mass, order))

    def _right(self, mass: Array, order: Array) -> Array:
        """a h of every row: -1 on the first rows of the order, 1 on the last, so that the edge fits."""
        allowed = 0.5 * (1.0 - self.learner.edge)
        before = np.cumsum(mass[order])
        right = np.empty(len(mass))
        right[order] = np.where(before <= allowed, -1.0, 1.0)
        border = int(np.searchsorted(before, allowed, side="right"))
        if border < len(order):
            row = order[border]
            spent = before[border - 1] if border else 0.0
            right[row] = 1.0 - 2.0 * (allowed - spent) / mass[row]
        return right

    def training_scores(self, hypothesis: Answers) -> Array:
        return hypothesis.table


def stingy_run(booster: Booster, n: int, edge: float, order: str, seed: int = 0) -> Run:
    """A run over n equal rows, half of each class, against the stingy learner."""
    labels = np.arange(n) % 2
    measure = BaseMeasure(np.ones(n), threads=Threads(1))
    state = np.random.RandomState(seed)
    learner = Stingy(edge, order)
    return Run(booster, learner, np.arange(n), Game(labels, 2), np.ones(n), measure, state)


@dataclass(frozen=True)
class Pool:
    """The exact learner over finitely many hypotheses, given by what they answer on the rows."""

    tables: Array
    exact: bool = True
    closed_under_negation: bool = False
    takes_costs: bool = True

    def prepare(self, X: Array, labels: Array, n_classes: int) -> PoolProducer:
        return PoolProducer(self.tables, 2.0 * labels - 1.0)


@dataclass(frozen=True)
class PoolProducer(Producer):
    tables: Array
    signs: Array

    def produce(
        self,
        weights: Array,
        rows: Array | None,
        rewards: Array | None,
        random_state: np.random.RandomState,
    ) -> Answers:
        """The best edge; of those equal up to rounding the first, so that runs repeat anywhere."""
        shown = slice(None) if rows is None else rows
        edges = self.tables[:, shown] @ (self.signs[shown] * weights) / weights.sum()
        return Answers(self.tables[np.flatnonzero(edges >= edges.max() - 1e-9)[0]])

    def training_scores(self, hypothesis: Answers) -> Array:
        return hypothesis.table


def pool_run(booster: Booster, tables: Array) -> Run:
    """A run over equal rows of class one with a finite pool of hypotheses, one a row of `tables`."""
    n = tables.shape[1]
    measure = BaseMeasure(np.ones(n), threads=Threads(1))
    game, state = Game(np.ones(n, dtype=np.intp), 2), np.random.RandomState(0)
    return Run(booster, Pool(tables), np.arange(n), game, np.ones(n), measure, state)


def stump_learner() -> TreeLearner:
    """Voting stumps over all features: exact, the best edge of the class."""
    return TreeLearner(GrowthRules(max_depth=1, votes=True), threads=Threads(1))


def stump_run(booster: Booster, X: Array, labels: Array) -> Run:
    """A run of voting stumps over equal rows."""
    ones = np.ones(len(labels))
    measure = BaseMeasure(ones, threads=Threads(1))
    return Run(
        booster, stump_learner(), X, Game(labels, 2), ones, measure, np.random.RandomState(0)
    )


def rounds(run: Run, count: int) -> Iterator[Round]:
    """Up to `count` rounds."""
    for _ in range(count):
        produced = next(run, None)
        if produced is None:
            return
        yield produced


def checkpoints(last: int, per_decade: int = 12) -> set[int]:
    """Rounds to record: evenly spaced in the logarithm."""
    count = max(2, int(per_decade * math.log10(max(last, 2))) + 1)
    return {round(x) for x in np.geomspace(1, last, count)}


def as_text(value: Any) -> str:
    """A cell: six digits, so that no platform's last bits show."""
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{float(value):.6g}"
    return str(value)


def as_csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table[0])
    writer.writerows([as_text(v) for v in row.values()] for row in table)
    return out.getvalue()


def write_text(path: Path, text: str) -> None:
    """Write beside, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def where(table: Table, **values: Any) -> Table:
    """The rows with these values."""
    return [row for row in table if all(row[name] == value for name, value in values.items())]
