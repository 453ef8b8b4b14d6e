"""The settings each contestant may choose from: places in its pool, as ``tune`` prints them."""

from __future__ import annotations

from benchmarks.accuracy.methods import POOLS, Settings

PICKED: dict[str, list[int]] = {
    "SmoothBoost": [1, 3, 0, 7],
    "MABoost": [3, 7, 0, 4],
    "MadaBoost": [3, 1, 7, 4],
    "SparseBoost": [3, 7, 0, 4],
    "AdaBoost": [2, 7, 1, 4],
    "HistGradientBoosting": [3, 6, 0, 5],
    "LightGBM": [3, 6, 0, 5],
    "XGBoost": [5, 6, 1, 0],
    "RandomForest": [6, 2, 5, 0],
}

GRIDS: dict[str, list[Settings]] = {
    method: [POOLS[method][i] for i in picked] for method, picked in PICKED.items()
}
