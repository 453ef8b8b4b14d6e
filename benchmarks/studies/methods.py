"""The methods of the study of accuracy, and the space of settings from which the draws of each come.

A method is a function of a setting, training rows and flip rates; it returns a predictor of probabilities of class 1.
Every space has a rate or a size of steps, the size of the trees, the share of the columns, the number of rounds, and
early stopping (at the library's default patience where it has one) on a fifth of the training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from maboost import SmoothBoostClassifier
from maboost.noise import corrected_probabilities, label_weights

__all__ = ["METHODS", "OURS", "Method", "draw", "forward"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Settings = dict[str, Any]
Rates = dict[int, float] | None
Predictor = Callable[[pd.DataFrame], Array]
Fit = Callable[[Settings, pd.DataFrame, Labels, Rates, int], Predictor]

PATIENCE = 20
STOPPING = 0.2  # the share of the training rows on which early stopping looks
ROUNDS = 200  # at most, with early stopping

Space = dict[str, Callable[[np.random.Generator], Any]]


def _log(low: float, high: float) -> Callable[[np.random.Generator], float]:
    """Draw between two bounds, evenly on a logarithmic scale."""
    return lambda rng: float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.3g}")


def _whole(low: int, high: int) -> Callable[[np.random.Generator], int]:
    return lambda rng: round(np.exp(rng.uniform(np.log(low), np.log(high))))


def _of(*values: Any) -> Callable[[np.random.Generator], Any]:
    return lambda rng: values[rng.integers(len(values))]


def draw(space: Space, rng: np.random.Generator) -> Settings:
    """Draw one setting of a space."""
    return {name: sample(rng) for name, sample in space.items()}


@dataclass(frozen=True)
class Method:
    """One entry of the study.

    ``rates`` says which flip rates the method is told: None, "known", "trusted" (estimated from 200 trusted rows) or
    "off" (a quarter too high in splits of even number and a quarter too low in the others). ``loss`` names the
    loss by which the method chooses its setting on noisy validation rows.
    """

    fit: Fit
    space: Space
    rates: str | None = None
    loss: str = "log loss"


_COMMON: Space = {
    "rate": _log(0.03, 0.3),
    "columns": _of(0.3, 0.5, 0.75, 1.0),
    "rounds": _whole(25, 150),
    "stopping": _of(True, False),
}


# --- ours ---------------------------------------------------------------------------------------------------------


def _smooth(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    while True:
        model = SmoothBoostClassifier(
            n_estimators=ROUNDS if s["stopping"] else s["rounds"],
            learning_rate=s["rate"],
            smoothness=s["smoothness"],
            max_leaf_nodes=s["leaves"],
            min_samples_leaf=s["leaf"],
            max_features=s["columns"],
            early_stopping=s["stopping"],
            validation_fraction=STOPPING,
            n_iter_no_change=PATIENCE,
            flip_rates=rates,
            random_state=seed,
            n_jobs=1,
        )
        try:
            model.fit(X, y)
        except ValueError as error:
            if rates is None or "flip_rates do not fit the labels" not in str(error):
                raise
            rates = smaller(rates)
        else:
            return lambda rows: model.predict_proba(rows)[:, 1]


def smaller(rates: dict[int, float]) -> Rates:
    """Return rates a fifth smaller, as a user would who was told that the labels refute them."""
    found = {k: 0.8 * rate for k, rate in rates.items()}
    return found if max(found.values()) > 0.01 else None


_SMOOTH = _COMMON | {
    "smoothness": _of("auto", 2.0, 4.0, 10.0),
    "leaves": _of(4, 8, 15, 31),
    "leaf": _of(2, 5, 20),
}


# --- LightGBM, as it is and around it -----------------------------------------------------------------------------


def _lightgbm_model(s: Settings, seed: int, rounds: int, **more: Any) -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(
        n_estimators=rounds,
        learning_rate=s["rate"],
        num_leaves=s["leaves"],
        min_child_samples=s["leaf"],
        colsample_bytree=s["columns"],
        reg_lambda=s["penalty"],
        random_state=seed,
        n_jobs=1,
        deterministic=True,
        force_row_wise=True,
        verbosity=-1,
        **more,
    )


def _boosted(
    s: Settings, X: pd.DataFrame, y: Labels, weights: Array, seed: int, **more: Any
) -> Any:
    if not s["stopping"]:
        return _lightgbm_model(s, seed, s["rounds"], **more).fit(X, y, sample_weight=weights)
    a, b = _parts(y, seed)
    return _lightgbm_model(s, seed, ROUNDS, **more).fit(
        X.iloc[a], y[a], sample_weight=weights[a],
        eval_X=X.iloc[b], eval_y=y[b], eval_sample_weight=[weights[b]],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip


def _parts(y: Labels, seed: int) -> tuple[Any, Any]:
    stratify = y if np.bincount(y, minlength=2).min() >= 2 else None
    a, b = train_test_split(
        np.arange(len(y)), test_size=STOPPING, stratify=stratify, random_state=seed
    )
    return a, b


def _lightgbm(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    model = _boosted(s, X, y, np.ones(len(y)), seed)
    return lambda rows: model.predict_proba(rows)[:, 1]


def _corrected(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    """LightGBM with maboost's corrections, by weights of the labels or of the probabilities alone."""
    if rates is None:
        return _lightgbm(s, X, y, None, seed)
    if s["correction"] == "probabilities":
        plain = _lightgbm(s, X, y, None, seed)
        return lambda rows: corrected_probabilities(plain(rows), rates)
    minus, plus = label_weights([0, 1], rates)
    model = _boosted(s, X, y, np.where(y == 1, plus, minus), seed)

    def predict(rows: pd.DataFrame) -> Array:
        tilted = model.predict_proba(rows)[:, 1]
        given = tilted * minus / (tilted * minus + (1.0 - tilted) * plus)
        return corrected_probabilities(given, rates)

    return predict


def _robust(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    """Generalised cross entropy, (1 - p_y^q)/q (Zhang and Sabuncu, 2018)."""
    q = s["q"]

    def objective(truth: Array, score: Array) -> tuple[Array, Array]:
        p = 1.0 / (1.0 + np.exp(-score))
        trust = np.where(truth == 1, p, 1.0 - p) ** q
        return trust * (p - truth), np.maximum(trust * p * (1.0 - p), 1e-6)

    def metric(truth: Array, score: Array) -> tuple[str, float, bool]:
        p = 1.0 / (1.0 + np.exp(-score))
        return "gce", float(np.mean(generalised(truth, p, q))), False

    a, b = _parts(y, seed) if s["stopping"] else (np.arange(len(y)), None)
    model = _lightgbm_model(s, seed, s["rounds"] if b is None else ROUNDS, objective=objective)
    stopping = {} if b is None else {
        "eval_X": X.iloc[b], "eval_y": y[b], "eval_metric": metric,
        "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
    }  # fmt: skip
    model.fit(X.iloc[a], y[a], **stopping)
    return lambda rows: 1.0 / (1.0 + np.exp(-model.predict(rows, raw_score=True)))


def generalised(y: Array, p: Array, q: float) -> Array:
    """Return the generalised cross entropy of each row."""
    return (1.0 - np.where(y == 1, p, 1.0 - p) ** q) / q


def _cleanlab(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    from cleanlab.classification import CleanLearning

    model = CleanLearning(
        _lightgbm_model(s, seed, s["rounds"]),
        seed=seed,
        cv_n_folds=s["folds"],
        find_label_issues_kwargs={"n_jobs": 1},
    )
    model.fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


_LIGHTGBM = _COMMON | {
    "leaves": _of(4, 8, 15, 31),
    "leaf": _of(2, 5, 20),
    "penalty": _of(0.0, 1.0, 10.0),
}


# --- the other libraries ------------------------------------------------------------------------------------------


def _xgboost(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    from xgboost import XGBClassifier

    model = XGBClassifier(
        n_estimators=ROUNDS if s["stopping"] else s["rounds"],
        learning_rate=s["rate"],
        max_depth=s["depth"],
        min_child_weight=s["leaf"],
        colsample_bytree=s["columns"],
        reg_lambda=s["penalty"],
        early_stopping_rounds=PATIENCE if s["stopping"] else None,
        enable_categorical=True,
        tree_method="hist",
        random_state=seed,
        n_jobs=1,
    )
    if s["stopping"]:
        a, b = _parts(y, seed)
        model.fit(X.iloc[a], y[a], eval_set=[(X.iloc[b], y[b])], verbose=False)
    else:
        model.fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


def _catboost(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    from catboost import CatBoostClassifier

    names = list(X.columns[X.dtypes == "category"])

    def text(rows: pd.DataFrame) -> pd.DataFrame:
        if not names:
            return rows
        return rows.assign(**{name: rows[name].astype(object).fillna("none") for name in names})

    model = CatBoostClassifier(
        iterations=ROUNDS if s["stopping"] else s["rounds"],
        learning_rate=s["rate"],
        depth=s["depth"],
        l2_leaf_reg=s["penalty"],
        rsm=s["columns"],
        early_stopping_rounds=PATIENCE if s["stopping"] else None,
        cat_features=names,
        random_seed=seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    if s["stopping"]:
        a, b = _parts(y, seed)
        model.fit(text(X.iloc[a]), y[a], eval_set=(text(X.iloc[b]), y[b]))
    else:
        model.fit(text(X), y)
    return lambda rows: model.predict_proba(text(rows))[:, 1]


def _hist(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    model = HistGradientBoostingClassifier(
        max_iter=ROUNDS if s["stopping"] else s["rounds"],
        learning_rate=s["rate"],
        max_leaf_nodes=s["leaves"],
        min_samples_leaf=s["leaf"],
        max_features=s["columns"],
        l2_regularization=s["penalty"],
        categorical_features="from_dtype",
        early_stopping=s["stopping"],
        validation_fraction=STOPPING,
        n_iter_no_change=PATIENCE,
        random_state=seed,
    )
    model.fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


def _forest(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    model = RandomForestClassifier(
        s["trees"],
        min_samples_leaf=s["leaf"],
        max_features=s["columns"],
        max_samples=s["rows"],
        random_state=seed,
        n_jobs=1,
    )
    model.fit(_codes(X), y)
    return lambda rows: model.predict_proba(_codes(rows))[:, 1]


def _adaboost(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    tree = DecisionTreeClassifier(
        max_depth=s["depth"], min_samples_leaf=s["leaf"], max_features=s["columns"]
    )
    model = AdaBoostClassifier(
        tree, n_estimators=s["rounds"], learning_rate=s["rate"], random_state=seed
    )
    model.fit(_codes(X).fillna(_ABSENT), y)
    return lambda rows: model.predict_proba(_codes(rows).fillna(_ABSENT))[:, 1]


_ABSENT = -1e6  # AdaBoostClassifier takes no missing values


def _codes(X: pd.DataFrame) -> pd.DataFrame:
    """Return categories as their codes, for scikit-learn's trees."""
    names = X.columns[X.dtypes == "category"]
    codes = {name: X[name].cat.codes.where(X[name].notna(), np.nan) for name in names}
    return X.assign(**codes).astype(np.float64)


def _ebm(s: Settings, X: pd.DataFrame, y: Labels, rates: Rates, seed: int) -> Predictor:
    from interpret.glassbox import ExplainableBoostingClassifier

    model = ExplainableBoostingClassifier(
        max_bins=s["bins"],
        interactions=s["interactions"],
        learning_rate=s["rate"],
        max_leaves=s["leaves"],
        min_samples_leaf=s["leaf"],
        outer_bags=1,
        validation_size=STOPPING if s["stopping"] else 0,
        max_rounds=ROUNDS if s["stopping"] else s["rounds"],
        early_stopping_rounds=PATIENCE if s["stopping"] else 0,
        random_state=seed,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


OURS = "SmoothBoost"

METHODS: dict[str, Method] = {
    OURS: Method(_smooth, _SMOOTH),
    f"{OURS}, known rates": Method(_smooth, _SMOOTH, "known", "forward"),
    f"{OURS}, rates from 200 trusted rows": Method(_smooth, _SMOOTH, "trusted", "forward"),
    f"{OURS}, rates 25 % off": Method(_smooth, _SMOOTH, "off", "forward"),
    "LightGBM": Method(_lightgbm, _LIGHTGBM),
    "LightGBM, known rates": Method(
        _corrected,
        _LIGHTGBM | {"correction": _of("weights", "probabilities")},
        "known",
        "forward",
    ),
    "LightGBM, robust loss": Method(_robust, _LIGHTGBM | {"q": _of(0.3, 0.5, 0.7)}, loss="robust"),
    "LightGBM, cleanlab": Method(_cleanlab, _LIGHTGBM | {"folds": _of(3, 5)}),
    "XGBoost": Method(
        _xgboost,
        _COMMON | {"depth": _of(2, 3, 4, 6), "leaf": _of(1, 5, 20), "penalty": _of(0.0, 1.0, 10.0)},
    ),
    "CatBoost": Method(
        _catboost, _COMMON | {"depth": _of(3, 4, 6), "penalty": _of(1.0, 3.0, 10.0)}
    ),
    "HistGradientBoosting": Method(_hist, _LIGHTGBM),
    "RandomForest": Method(
        _forest,
        {
            "trees": _whole(50, 100),
            "leaf": _of(1, 3, 5, 10),
            "columns": _of("sqrt", 0.5, 1.0),
            "rows": _of(None, 0.5),
        },
    ),
    "EBM": Method(
        _ebm,
        {
            "rate": _log(0.01, 0.1),
            "bins": _of(32, 256),
            "interactions": _of(0, 5),
            "leaves": _of(2, 3),
            "leaf": _of(2, 5, 20),
            "rounds": _whole(25, 150),
            "stopping": _of(True, False),
        },
    ),
    "AdaBoost": Method(
        _adaboost,
        {
            "rate": _log(0.05, 1.0),
            "depth": _of(1, 2, 3),
            "leaf": _of(1, 5, 20),
            "columns": _of(0.3, 0.5, 1.0),
            "rounds": _whole(10, 75),
        },
    ),
}


def forward(p: Array, rates: Rates) -> Array:
    """Return the probabilities of given labels, from those of true ones."""
    if rates is None:
        return p
    return p * (1.0 - rates[1]) + (1.0 - p) * rates[0]
