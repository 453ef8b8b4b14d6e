"""The contestants, and the pools from which their grids are drawn.

Every contestant has 100 rounds or trees, one thread, and a pool of eight settings made of the knobs
its users turn first: the rate, the size of a tree, and how much of the columns and rows a tree sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from lightgbm import LGBMClassifier
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

ROUNDS = 100
OURS = ("SmoothBoost", "MABoost", "MadaBoost", "SparseBoost")

Settings = dict[str, Any]


def _own(
    booster: type,
    seed: int,
    *,
    depth: int,
    leaf: int,
    columns: float | None = 0.5,
    **settings: Any,
) -> Any:
    tree = HistTreeClassifier(
        depth, min_samples_leaf=leaf, max_features=columns, min_weight_fraction_leaf=1e-6
    )
    return booster(tree, n_estimators=ROUNDS, random_state=seed, n_jobs=1, **settings)


def _adaboost(seed: int, *, depth: int, leaf: int, **settings: Any) -> Any:
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=leaf)
    return AdaBoostClassifier(tree, n_estimators=ROUNDS, random_state=seed, **settings)


def _hist(seed: int, *, leaves: int, columns: float, **settings: Any) -> Any:
    return HistGradientBoostingClassifier(
        max_iter=ROUNDS,
        max_leaf_nodes=leaves,
        max_features=columns,
        early_stopping=False,
        random_state=seed,
        **settings,
    )


def _lightgbm(seed: int, *, leaves: int, columns: float, **settings: Any) -> Any:
    return LGBMClassifier(
        n_estimators=ROUNDS,
        num_leaves=leaves,
        colsample_bynode=columns,
        random_state=seed,
        n_jobs=1,
        deterministic=True,
        force_row_wise=True,
        verbosity=-1,
        **settings,
    )


def _xgboost(seed: int, *, depth: int, leaf: int, columns: float, **settings: Any) -> Any:
    return XGBClassifier(
        n_estimators=ROUNDS,
        max_depth=depth,
        min_child_weight=leaf,
        colsample_bynode=columns,
        random_state=seed,
        n_jobs=1,
        **settings,
    )


def _forest(seed: int, *, leaf: int, columns: Any, rows: float | None) -> Any:
    return RandomForestClassifier(
        ROUNDS,
        min_samples_leaf=leaf,
        max_features=columns,
        max_samples=rows,
        random_state=seed,
        n_jobs=1,
    )


MAKERS: dict[str, Callable[..., Any]] = {
    "SmoothBoost": partial(_own, SmoothBoostClassifier),
    "MABoost": partial(_own, MABoostClassifier),
    "MadaBoost": partial(_own, MadaBoostClassifier),
    "SparseBoost": partial(_own, SparseBoostClassifier),
    "AdaBoost": _adaboost,
    "HistGradientBoosting": _hist,
    "LightGBM": _lightgbm,
    "XGBoost": _xgboost,
    "RandomForest": _forest,
}


def make(method: str, settings: Settings, seed: int) -> Any:
    """An unfitted model of this contestant with these settings; what follows a # is no part of it."""
    return MAKERS[method.partition("#")[0]](seed, **settings)


def _grid(**axes: tuple[Any, ...]) -> list[Settings]:
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]


_OWN = _grid(learning_rate=(0.03, 0.1), depth=(3, 6), leaf=(5, 20))
_GRADIENT = _grid(learning_rate=(0.03, 0.1), leaves=(7, 31), columns=(0.5, 1.0))

POOLS: dict[str, list[Settings]] = {
    "SmoothBoost": _grid(
        smoothness=("auto", 1.5), learning_rate=(0.1,), depth=(3, 6), leaf=(5, 20)
    ),
    "MABoost": _OWN,
    "MadaBoost": _OWN,
    "SparseBoost": _OWN,
    "AdaBoost": _grid(learning_rate=(0.1, 1.0), depth=(1, 3), leaf=(1, 20)),
    "HistGradientBoosting": _GRADIENT,
    "LightGBM": _GRADIENT,
    "XGBoost": [
        {**point, **leaves}
        for point in _grid(learning_rate=(0.03, 0.1), depth=(3, 6))
        for leaves in ({"leaf": 1, "columns": 1.0}, {"leaf": 5, "columns": 0.5})
    ],
    "RandomForest": _grid(leaf=(1, 5), columns=("sqrt", 0.5), rows=(None, 0.5)),
}
