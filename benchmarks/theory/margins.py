"""Margins: Theorem 2's step and AdaBoost against the linear program, and LPBoost in time and trees."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from benchmarks.theory.common import (
    Array,
    Table,
    checkpoints,
    pool_run,
    rounds,
    stump_learner,
    stump_run,
)
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from maboost.boosting.recipes import maboost

BOOSTERS = {
    "max-margin, entropy": lambda: maboost(step="maxmargin"),
    "max-margin, euclidean": lambda: maboost("euclidean", step="maxmargin"),
    "AdaBoost (corrective)": lambda: maboost(),
}
TOLERANCE = 1e-6


def data(rows: int = 569, levels: int = 64) -> tuple[Array, Array]:
    """Breast cancer with at most `levels` values a feature.

    So few that our bins hold every threshold: all stump learners search one and the same class.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:rows], y[:rows]
    inner = np.linspace(0.0, 1.0, levels + 1)[1:-1]
    columns = [np.searchsorted(np.quantile(x, inner), x, side="left") for x in X.T]
    return np.column_stack(columns).astype(float), y.astype(np.intp)


@dataclass
class LPBoost:
    """Column generation: the linear program over the stumps so far, then the best stump against it.

    The program is the distribution's, min over w of the best edge; its multipliers are the votes. `optimum`
    is the largest margin of any ensemble once no stump has a larger edge.
    """

    X: Array
    y: Array
    columns: list[Array] = field(default_factory=list)
    optimum: float | None = None

    def __iter__(self) -> Iterator[dict[str, float]]:
        n, signs = len(self.y), 2.0 * self.y - 1.0
        producer = stump_learner().prepare(self.X, self.y, 2)
        w, value = np.full(n, 1.0 / n), -1.0
        began = time.perf_counter()
        while True:
            h = producer.produce(w, None, None, np.random.RandomState(0))
            column = signs * producer.training_scores(h)
            edge = float(w @ column)
            if self.columns and edge <= value + TOLERANCE:
                self.optimum = value
                return
            self.columns.append(column)
            w, value, votes = self.solve(n)
            yield {
                "trees": len(self.columns),
                "used": int(np.sum(votes > 1e-9)),
                "margin": float(np.min(votes @ np.array(self.columns)) / votes.sum()),
                "best_edge_before": edge,
                "seconds": time.perf_counter() - began,
            }

    def solve(self, n: int) -> tuple[Array, float, Array]:
        """The distribution under which the best edge is least, that edge, and the votes."""
        m = len(self.columns)
        found = linprog(
            np.r_[np.zeros(n), 1.0],
            A_ub=np.c_[np.array(self.columns), -np.ones(m)],
            b_ub=np.zeros(m),
            A_eq=np.r_[np.ones(n), 0.0][None, :],
            b_eq=[1.0],
            bounds=[(0.0, None)] * n + [(None, None)],
            method="highs-ds",
        )
        if found.status != 0:
            raise RuntimeError(f"HiGHS did not solve the program of {m} columns: {found.message}")
        w = np.maximum(found.x[:n], 0.0)
        return w / w.sum(), float(found.fun), np.maximum(-found.ineqlin.marginals, 0.0)


def lpboost(X: Array, y: Array, most: int = 5000) -> tuple[Table, float]:
    """All iterations of LPBoost, and the optimum."""
    booster = LPBoost(X, y)
    table: Table = []
    for row in booster:
        table.append({"booster": "LPBoost (HiGHS)", **row})
        if len(table) >= most:
            raise RuntimeError(f"LPBoost did not end within {most} columns; allow more")
    assert booster.optimum is not None
    return table, booster.optimum


def scikit_learn(X: Array, y: Array, T: int) -> Table:
    """Margins of scikit-learn's AdaBoost on the same stumps."""
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=T, random_state=0)
    model.fit(X, y)
    signs, wanted = 2.0 * y - 1.0, checkpoints(T)
    total, margins, table = 0.0, np.zeros(len(y)), []
    for t, (tree, vote) in enumerate(
        zip(model.estimators_, model.estimator_weights_, strict=True), start=1
    ):
        margins += vote * signs * (2.0 * tree.predict(X) - 1.0)
        total += vote
        if t in wanted:
            row = {
                "booster": "AdaBoost (scikit-learn)",
                "trees": t,
                "margin": margins.min() / total,
            }
            table.append(row)
    return table


def booster_margins(X: Array, y: Array, T: int) -> Table:
    """Margin, certified margin and time of our boosters."""
    table: Table = []
    wanted = checkpoints(T)
    for name, recipe in BOOSTERS.items():
        run, spent, smallest, distinct = stump_run(recipe(), X, y), 0.0, 1.0, set()
        for produced in rounds(run, T):
            record = produced.record
            spent, smallest = spent + record.seconds, min(smallest, record.edge)
            distinct.add(np.sign(produced.hypothesis.scores(X)).astype(np.int8).tobytes())
            if record.round in wanted:
                table.append(
                    {
                        "booster": name,
                        "trees": record.round,
                        "used": len(distinct),
                        "margin": record.min_margin,
                        "certified": record.margin_bound,
                        "smallest_edge": smallest,
                        "seconds": spent,
                    }
                )
    return table


def margin_study(rows: int = 569, T: int = 5000) -> tuple[Table, Table]:
    """The table of margins (with the optimum in every row) and that of times."""
    X, y = data(rows)
    for recipe in BOOSTERS.values():
        next(stump_run(recipe(), X, y))  # compile before any clock runs
    programs, optimum = lpboost(X, y)
    wanted = checkpoints(len(programs), 20) | {len(programs)}
    everything = booster_margins(X, y, T) + scikit_learn(X, y, T)
    everything += [row for row in programs if row["trees"] in wanted]
    names = ("booster", "trees", "used", "margin", "certified", "smallest_edge")
    nothing = float("nan")
    table = [
        {**{name: row.get(name, nothing) for name in names}, "optimum": optimum}
        for row in everything
    ]
    times = [
        {name: row[name] for name in ("booster", "trees", "margin", "seconds")}
        for row in everything
        if "seconds" in row
    ]
    return table, times


# a h of eight hypotheses (rows) on eight examples, after Rudin, Daubechies and Schapire (2004)
CYCLING = np.array(
    [
        [-1, 1, 1, 1, 1, -1, -1, 1],
        [-1, 1, 1, -1, -1, 1, 1, 1],
        [1, -1, 1, 1, 1, -1, 1, 1],
        [1, -1, 1, 1, -1, 1, 1, 1],
        [1, -1, 1, -1, 1, 1, 1, -1],
        [1, 1, -1, 1, 1, 1, 1, -1],
        [1, 1, -1, 1, 1, 1, -1, 1],
        [1, 1, 1, 1, -1, -1, 1, -1],
    ],
    dtype=float,
)


def cycling_margins(T: int = 10_000) -> Table:
    """The example on which AdaBoost cycles and never reaches the largest margin, 3/8."""
    program = LPBoost(CYCLING, np.ones(8), list(CYCLING))
    optimum = program.solve(8)[1]
    wanted = checkpoints(T)
    return [
        {
            "booster": name,
            "trees": produced.record.round,
            "margin": produced.record.min_margin,
            "certified": produced.record.margin_bound,
            "optimum": optimum,
        }
        for name, recipe in BOOSTERS.items()
        for produced in rounds(pool_run(recipe(), CYCLING), T)
        if produced.record.round in wanted
    ]
