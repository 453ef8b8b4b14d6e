"""One boosting round of LightGBM, XGBoost and scikit-learn, set up to do the same work as ours."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier


def table(
    rows: int, columns: int, seed: int = 0, classes: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """A noisy problem with a few informative columns and an interaction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    score = X[:, 0] + X[:, 1 % columns] * X[:, 2 % columns] + 0.5 * X[:, 3 % columns] ** 2 - 0.5
    noisy = score + rng.normal(size=rows)
    ends = [0.0] if classes == 2 else np.quantile(noisy, np.arange(1, classes) / classes)
    return X, np.digitize(noisy, ends)


def objective(y: np.ndarray, two: str, more: str) -> dict[str, Any]:
    """What a peer is told of the labels."""
    classes = int(y.max()) + 1
    return {"objective": two} if classes == 2 else {"objective": more, "num_class": classes}


class LightGBM:
    """Rounds of LightGBM; `data` is the prepared data of another one."""

    name = "LightGBM"

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        threads: int,
        depth: int | None,
        leaves: int,
        data: Any = None,
    ) -> None:
        import lightgbm as lgb

        params = objective(y, "binary", "multiclass") | {
            "verbosity": -1, "num_threads": threads, "max_bin": 255,
            "num_leaves": leaves, "max_depth": depth or -1, "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0.0, "feature_pre_filter": False, "deterministic": True,
            "force_row_wise": True, "learning_rate": 0.1,
        }  # fmt: skip
        self.data = lgb.Dataset(X, y, params=params) if data is None else data
        self.booster = lgb.Booster(params, self.data)

    def round(self) -> None:
        self.booster.update()


class XGBoost:
    """Rounds of XGBoost's histogram method on a prepared matrix."""

    name = "XGBoost"

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        threads: int,
        depth: int | None,
        leaves: int,
        data: Any = None,
    ) -> None:
        import xgboost as xgb

        self.data = (
            xgb.QuantileDMatrix(X, y, max_bin=255, nthread=threads) if data is None else data
        )
        params = objective(y, "binary:logistic", "multi:softprob") | {
            "tree_method": "hist", "max_bin": 255,
            "nthread": threads, "max_depth": depth or 0, "min_child_weight": 0.0, "eta": 0.1,
        }  # fmt: skip
        if depth is None:
            params |= {"grow_policy": "lossguide", "max_leaves": leaves}
        self.booster = xgb.Booster(params, [self.data])
        self.done = 0

    def round(self) -> None:
        self.booster.update(self.data, self.done)
        self.done += 1


def adaboost_round(X: np.ndarray, y: np.ndarray, rounds: int = 3) -> float:
    """Seconds of one round of scikit-learn's AdaBoost with stumps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=rounds)
        began = time.perf_counter()
        model.fit(X, y)
    return (time.perf_counter() - began) / rounds


REST = 0.05  # seconds


def rounds_of(
    runs: dict[str, Any],
    repeats: int,
    warm: int = 3,
    before: Callable[[str], None] = lambda name: None,
) -> dict[str, float]:
    """Median seconds a round, the runs taking turns so that all see the same machine.

    `before` is called with a run's name before each of its rounds, and not timed.

    A short rest comes between them: OpenMP's threads go on spinning for some milliseconds after their
    work, on cores that belong to the next one. After it a round is run that is not timed, since threads that
    sleep take long to wake, which in a fit they do once and not in every round.
    """
    for name, run in runs.items():
        for _ in range(warm):
            before(name)
            run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            if len(runs) > 1:
                time.sleep(REST)
                before(name)
                run()
            before(name)
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: float(np.median(t)) for name, t in times.items()}
