"""The contestants, and the pools from which their grids are drawn.

Every contestant has 100 rounds or trees, one thread, and a pool of eight settings made of the knobs
its users turn first: the rate, the size of a tree, and how much of the columns and rows a tree sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from hashlib import blake2b
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from lightgbm import LGBMClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import maboost
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


LIBRARIES = {"LightGBM": "lightgbm", "XGBoost": "xgboost-cpu"}  # the others are scikit-learn's


def made_by(method: str) -> str:
    """What a result of this contestant depends on besides its settings: the library."""
    name = method.partition("#")[0]
    if name in OURS:
        return _source()
    library = LIBRARIES.get(name, "scikit-learn")
    return f"{library} {version(library)}"


@cache
def _source() -> str:
    """A hash of maboost's source, which changes while its version does not."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(maboost.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _grid(**axes: tuple[Any, ...]) -> list[Settings]:
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]


def _listed(names: tuple[str, ...], *points: tuple[Any, ...]) -> list[Settings]:
    return [dict(zip(names, point, strict=True)) for point in points]


_OWN = _grid(learning_rate=(0.03, 0.1), depth=(3, 6), leaf=(5, 20))

# SmoothBoost, XGBoost and LightGBM: the eight that the rule of portfolio.py picks from 18 settings
# each, in that order, on six of the tuning data sets
_SMOOTH = _listed(
    ("smoothness", "learning_rate", "depth", "leaf"),
    (1.2, 0.3, 6, 5),
    (2.0, 0.1, 3, 20),
    ("auto", 0.1, 6, 20),
    ("auto", 0.1, 3, 5),
    ("auto", 0.3, 6, 20),
    (3.0, 0.1, 6, 20),
    (1.5, 0.1, 6, 5),
    (1.5, 0.3, 6, 5),
)
_XGBOOST = _listed(
    ("learning_rate", "depth", "leaf", "columns"),
    (0.03, 3, 1, 1.0),
    (0.1, 6, 5, 0.5),
    (0.03, 3, 5, 1.0),
    (0.03, 3, 5, 0.5),
    (0.1, 3, 1, 0.5),
    (0.1, 6, 1, 0.5),
    (0.03, 3, 1, 0.5),
    (0.1, 3, 5, 0.5),
)
_GRADIENT = _listed(
    ("learning_rate", "leaves", "columns"),
    (0.03, 4, 1.0),
    (0.1, 7, 1.0),
    (0.1, 4, 0.5),
    (0.03, 4, 0.5),
    (0.03, 31, 1.0),
    (0.3, 7, 0.5),
    (0.03, 7, 0.5),
    (0.1, 31, 0.5),
)

POOLS: dict[str, list[Settings]] = {
    "SmoothBoost": _SMOOTH,
    "MABoost": _OWN,
    "MadaBoost": _OWN,
    "SparseBoost": _OWN,
    "AdaBoost": _grid(learning_rate=(0.1, 1.0), depth=(1, 3), leaf=(1, 20)),
    "HistGradientBoosting": _GRADIENT,
    "LightGBM": _GRADIENT,
    "XGBoost": _XGBOOST,
    "RandomForest": _grid(leaf=(1, 5), columns=("sqrt", 0.5), rows=(None, 0.5)),
}
