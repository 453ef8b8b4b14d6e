"""The time of `predict_proba` for one row, next to LightGBM, XGBoost and HistGradientBoosting.

Prints a table; ``--write`` puts it into docs/performance-latency.md. Every model has 100 trees of at most 15
leaves and one thread. The libraries take turns, so that all of them see the same load of the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import sklearn
import xgboost
from benchmarks.peers import table
from llvmlite.binding import get_host_cpu_name
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import maboost

ROWS, COLUMNS, TREES, LEAVES = 10_000, 20, 100, 15


def models() -> dict[str, Any]:
    return {
        "maboost": maboost.SmoothBoostClassifier(
            n_estimators=TREES, max_leaf_nodes=LEAVES, early_stopping=False, n_jobs=1, random_state=0
        ),
        "LightGBM": lightgbm.LGBMClassifier(
            n_estimators=TREES, num_leaves=LEAVES, n_jobs=1, verbosity=-1, random_state=0
        ),
        "XGBoost": xgboost.XGBClassifier(
            n_estimators=TREES, max_leaves=LEAVES, grow_policy="lossguide", max_depth=0, n_jobs=1,
            enable_categorical=True, random_state=0,
        ),
        "HistGradientBoosting": HistGradientBoostingClassifier(
            max_iter=TREES, max_leaf_nodes=LEAVES, early_stopping=False, random_state=0,
            categorical_features="from_dtype",
        ),
    }  # fmt: skip


def inputs() -> tuple[dict[str, Any], np.ndarray]:
    """The same rows as an array, as a frame, and as a frame with three columns of categories."""
    X, y = table(ROWS, COLUMNS)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(COLUMNS)])
    mixed = frame.copy()
    for j in range(3):
        codes = np.digitize(X[:, -1 - j], [-1.0, 0.0, 1.0])
        mixed[f"f{COLUMNS - 1 - j}"] = pd.Categorical(np.array(["a", "b", "c", "d"])[codes])
    return {"array": X, "pandas frame": frame, "frame with 3 categories": mixed}, y


def medians(calls: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """The median time of each call in milliseconds."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(times):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - began)
    return {name: 1e3 * float(np.median(t)) for name, t in taken.items()}


def measured(times: int) -> list[str]:
    tables, y = inputs()
    found: dict[str, dict[str, float]] = {}
    for kind, X in tables.items():
        fitted = {name: model.fit(X, y) for name, model in models().items()}
        one = X.iloc[[7]] if hasattr(X, "iloc") else X[7:8]
        calls = {name: partial(m.predict_proba, one) for name, m in fitted.items()}
        found[kind] = medians(calls, times)
    lines = ["| one row, ms | " + " | ".join(tables) + " |", "|---" * (len(tables) + 1) + "|"]
    for name in models():
        lines.append(f"| {name} | " + " | ".join(f"{found[k][name]:.2f}" for k in tables) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="write docs/performance-latency.md")
    options = parser.parse_args()
    with threadpool_limits(1):
        lines = measured(options.times)
    print("\n".join(lines))
    if options.write:
        used = (maboost, lightgbm, xgboost, sklearn, pd, np)
        versions = ", ".join(f"{module.__name__} {module.__version__}" for module in used)
        text = (
            "# One row\n\nWritten by `make bench-latency`. The median time of `predict_proba` for a single row over "
            f"{options.times} calls, validation included, for models of {TREES} trees of at most {LEAVES} leaves on "
            f"{COLUMNS} columns, with one thread. The libraries take turns.\n\n"
            + "\n".join(lines)
            + f"\n\n{platform.machine()} ({get_host_cpu_name()}), {os.cpu_count()} cores, Python {platform.python_version()}, {versions}.\n"
        )
        (Path(__file__).parent.parent / "docs" / "performance-latency.md").write_text(text)


if __name__ == "__main__":
    main()
