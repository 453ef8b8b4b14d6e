"""What maboost's defaults cost: one of them changed at a time, on the tuning data sets only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from benchmarks.accuracy import data
from benchmarks.accuracy.study import Task, results

SPLITS = 1
KINDS = ("clean", "uniform 20 %", "one-sided 20 %", "adversarial 20 %")

# the defaults of the library, named as in methods.py
SHIPPED = {"depth": 3, "leaf": 1, "columns": None}
RATES = {"SmoothBoost": 0.3, "MABoost": 1.0, "MadaBoost": 1.0, "SparseBoost": 1.0}
CHANGES: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "rate 0.1": {"learning_rate": 0.1},
    "leaves of 20": {"leaf": 20},
    "rate 0.1, leaves of 20, half of the columns, depth 6": {
        "learning_rate": 0.1, "leaf": 20, "columns": 0.5, "depth": 6,
    },
    "rate 0.03, leaves of 20, half of the columns, depth 6": {
        "learning_rate": 0.03, "leaf": 20, "columns": 0.5, "depth": 6,
    },
}  # fmt: skip


def variants() -> dict[str, list[dict[str, Any]]]:
    """Every booster with every change, as contestants of one setting each."""
    return {
        f"{method}#{words}": [{"learning_rate": rate, **SHIPPED, **change}]
        for method, rate in RATES.items()
        for words, change in CHANGES.items()
    }


def tasks() -> list[Task]:
    return [
        Task(name, kind, split)
        for split in range(SPLITS)
        for name in data.tuning()
        for kind in KINDS
    ]


def errors(folder: Path) -> pd.DataFrame:
    """Mean errors: booster and change (rows), kinds of noise (columns)."""
    found = results(tasks(), variants(), folder)
    parts = found["method"].str.split("#", expand=True)
    found = found.assign(booster=parts[0], change=parts[1])
    means = found.groupby(["booster", "change", "noise"], sort=False)["error"].mean()
    return means.unstack("noise", sort=False)[list(KINDS)]
