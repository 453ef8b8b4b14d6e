"""Long and Servedio's construction: random label flips that defeat boosters of convex potentials.

Twenty-one columns of ±1 and a label y. A quarter of the rows have all columns equal to y, a quarter
("pullers") have the first eleven equal to y and the others not, a half ("penalizers") have five of the
first eleven and six of the others equal to y, drawn evenly. The vote of all columns makes no error, but
with a share of the labels flipped a booster over single columns that minimizes a convex potential gives
the pullers' columns too much weight and errs on the penalizers. Long and Servedio (2010), "Random
classification noise defeats all convex potential boosters".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from benchmarks.accuracy.noise import uniform
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from maboost import (
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

ROWS, ROUNDS, FLIPS = 2000, 100, 0.1
FIRST, COLUMNS = 11, 21


def rows_of(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of the construction with their right labels, 0 or 1."""
    rng = np.random.default_rng(seed)
    agree = np.ones((count, COLUMNS))
    kind = rng.integers(4, size=count)
    agree[kind == 1, FIRST:] = -1.0
    for row in np.flatnonzero(kind >= 2):
        agree[row] = -1.0
        agree[row, rng.choice(FIRST, 5, replace=False)] = 1.0
        agree[row, FIRST + rng.choice(COLUMNS - FIRST, 6, replace=False)] = 1.0
    y = rng.integers(2, size=count)
    return agree * (2.0 * y - 1.0)[:, None], y


def boosters(depth: int, seed: int) -> dict[str, Any]:
    """Every library's booster over trees of this depth, otherwise with its defaults."""
    own = {"n_estimators": ROUNDS, "random_state": seed, "n_jobs": 1}
    tree, theirs = HistTreeClassifier(max_depth=depth), DecisionTreeClassifier(max_depth=depth)
    return {
        "SmoothBoost": SmoothBoostClassifier(tree, **own),
        "SmoothBoost, told the rate": SmoothBoostClassifier(tree, noise_rate=FLIPS, **own),
        "MABoost": MABoostClassifier(tree, **own),
        "MadaBoost": MadaBoostClassifier(tree, **own),
        "SparseBoost": SparseBoostClassifier(tree, **own),
        "AdaBoost": AdaBoostClassifier(theirs, n_estimators=ROUNDS, random_state=seed),
        "HistGradientBoosting": HistGradientBoostingClassifier(
            max_depth=depth, max_iter=ROUNDS, early_stopping=False, random_state=seed
        ),
        "LightGBM": LGBMClassifier(
            max_depth=depth, n_estimators=ROUNDS, n_jobs=1, random_state=seed, verbosity=-1
        ),
        "XGBoost": XGBClassifier(max_depth=depth, n_estimators=ROUNDS, n_jobs=1, random_state=seed),
        "RandomForest": RandomForestClassifier(
            ROUNDS, max_depth=depth, n_jobs=1, random_state=seed
        ),
    }


def study(seeds: int, depths: tuple[int, ...] = (1, 3)) -> pd.DataFrame:
    """Mean errors on clean test rows, by model (rows) and depth, without and with flips (columns)."""
    found = []
    for seed in range(seeds):
        X, y = rows_of(ROWS, seed)
        X_test, y_test = rows_of(ROWS, 1000 + seed)
        labels = {"clean": y, f"{FLIPS:.0%} flipped": uniform(X, y, FLIPS, seed)}
        for depth in depths:
            for noise, given in labels.items():
                for name, model in boosters(depth, seed).items():
                    error = float(np.mean(model.fit(X, given).predict(X_test) != y_test))
                    found.append((name, f"depth {depth}, {noise}", error))
    table = pd.DataFrame(found, columns=["model", "setting", "error"])
    means = table.groupby(["model", "setting"], sort=False)["error"].mean()
    return means.unstack(sort=False)
