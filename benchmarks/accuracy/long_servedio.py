"""Long and Servedio's construction: random label flips that defeat boosters of convex potentials.

Twenty-one columns of ±1 and a label y. A quarter of the rows have all columns equal to y, a quarter
("pullers") have the first eleven equal to y and the others not, a half ("penalizers") have five of the
first eleven and six of the others equal to y, drawn evenly. The vote of all columns makes no error, but
with a share of the labels flipped a booster over single columns that minimizes a convex potential gives
the pullers' columns too much weight and errs on the penalizers. Long and Servedio (2010), "Random
classification noise defeats all convex potential boosters".
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.accuracy.methods import made_by
from benchmarks.accuracy.noise import uniform
from benchmarks.accuracy.study import in_processes, keep
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
DEPTHS = (1, 3)


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


def do(seed: int, folder: Path) -> str:
    """All models on one draw of the construction, but for a draw that is there."""
    path = folder / f"{seed}.json"
    by = {name: made_by(name.partition(",")[0]) for name in boosters(1, seed)}
    if path.exists() and json.loads(path.read_text())["by"] == by:
        return path.name
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        keep(path, {"by": by, "errors": list(_errors(seed))})
    return path.name


def _errors(seed: int) -> Iterator[tuple[str, str, float]]:
    X, y = rows_of(ROWS, seed)
    X_test, y_test = rows_of(ROWS, 1000 + seed)
    labels = {"clean": y, f"{100 * FLIPS:.0f} % flipped": uniform(X, y, FLIPS, seed)}
    for depth, (noise, given) in product(DEPTHS, labels.items()):
        for name, model in boosters(depth, seed).items():
            error = float(np.mean(model.fit(X, given).predict(X_test) != y_test))
            yield name, f"depth {depth}, {noise}", error


def run(seeds: int, folder: Path, processes: int, say: Callable[[str], None]) -> None:
    """All draws, in processes."""
    folder.mkdir(parents=True, exist_ok=True)
    in_processes(do, [(seed, folder) for seed in range(seeds)], processes, say)


def errors(seeds: int, folder: Path) -> pd.DataFrame:
    """Mean errors on clean test rows, by model (rows) and depth, without and with flips (columns)."""
    found = [
        line
        for seed in range(seeds)
        for line in json.loads((folder / f"{seed}.json").read_text())["errors"]
    ]
    table = pd.DataFrame(found, columns=["model", "setting", "error"])
    means = table.groupby(["model", "setting"], sort=False)["error"].mean()
    return means.unstack(sort=False)
