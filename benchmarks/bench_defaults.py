"""The defaults against LightGBM with early stopping, on clean and on wrong labels.

Prints the mean differences in accuracy, AUC and log loss (x 100) on clean test labels. The training labels
are clean, flipped with probability 0.2, or those of two fifths of the positives are negative. LightGBM has
500 trees at most at rate 0.1 and stops after 20 rounds without progress on a tenth of its rows. ``--write``
puts the tables into docs/defaults.md.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from benchmarks.tables import TABLES, Table, from_folder
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import maboost
from maboost.data import RareCategoriesWarning

PAGE = Path(__file__).parent.parent / "docs" / "defaults.md"
CONDITIONS = ("clean", "20 % uniform", "40 % of positives")
AIMS = (-0.1, -0.1, 0.3)  # accuracy and AUC at least, log loss at most


def flipped(y: np.ndarray, condition: str, seed: int) -> np.ndarray:
    """The labels under a condition."""
    draw = np.random.default_rng(1000 + seed).random(len(y))
    if condition == CONDITIONS[1]:
        return np.where(draw < 0.2, 1 - y, y)
    if condition == CONDITIONS[2]:
        return np.where((draw < 0.4) & (y == 1), 0, y)
    return y


def metrics(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Accuracy, AUC and log loss, x 100."""
    p = np.clip(p, 1e-7, 1.0 - 1e-7)
    return 100.0 * np.array([accuracy_score(y, p > 0.5), roc_auc_score(y, p), log_loss(y, p)])


def peer(X: pd.DataFrame, y: np.ndarray, seed: int) -> lightgbm.LGBMClassifier:
    """LightGBM with early stopping."""
    train, valid = train_test_split(np.arange(len(y)), test_size=0.1, stratify=y, random_state=seed)
    model = lightgbm.LGBMClassifier(
        n_estimators=500, learning_rate=0.1, random_state=seed, verbosity=-1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how eval_set is to be given differs between versions
        model.fit(
            X.iloc[train], y[train], eval_set=[(X.iloc[valid], y[valid])],
            callbacks=[lightgbm.early_stopping(20, verbose=False)],
        )  # fmt: skip
    return model


def differences(table: Table, model: object, condition: str, rows: int, splits: int) -> np.ndarray:
    """Ours minus LightGBM's, a row a split."""
    X, y = table
    found = []
    for seed in range(splits):
        train, test = train_test_split(
            np.arange(len(y)), train_size=min(rows, len(y) * 2 // 3),
            test_size=min(20_000, len(y) // 3), stratify=y, random_state=seed,
        )  # fmt: skip
        X_train, X_test, given = X.iloc[train], X.iloc[test], flipped(y[train], condition, seed)
        ours = clone(model).fit(X_train, given).predict_proba(X_test)[:, 1]
        theirs = peer(X_train, given, seed).predict_proba(X_test)[:, 1]
        found.append(metrics(ours, y[test]) - metrics(theirs, y[test]))
    return np.array(found)


def study(model: object, tables: dict[str, Table], rows: int, splits: int) -> list[str]:
    """A table of differences by condition, and the standard error of their mean over all splits."""
    lines = [
        "| training labels | " + " | ".join(tables) + " | mean | aims met |",
        "|---" * (len(tables) + 3) + "|",
    ]
    for condition in CONDITIONS:
        found = [differences(table, model, condition, rows, splits) for table in tables.values()]
        mean = np.mean([f.mean(axis=0) for f in found], axis=0)
        spread = np.sqrt(np.sum([f.var(axis=0, ddof=1) / splits for f in found], axis=0)) / len(
            found
        )
        met = mean[0] >= AIMS[0] and mean[1] >= AIMS[1] and mean[2] <= AIMS[2]
        cells = [" ".join(f"{v:+.2f}" for v in f.mean(axis=0)) for f in found]
        cells.append(" ".join(f"**{m:+.2f}** ± {s:.2f}" for m, s in zip(mean, spread, strict=True)))
        lines.append(f"| {condition} | " + " | ".join([*cells, "yes" if met else "no"]) + " |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="Parquet files with a column 'target' instead")
    parser.add_argument("--booster", nargs="+", default=["Smooth", "Sparse", "Mada", "MA"])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RareCategoriesWarning)
    readers = TABLES if options.folder is None else from_folder(options.folder)
    tables = {name: read() for name, read in readers.items()}
    text = [
        "# The defaults on real tables",
        "",
        "For readers who want to know what they get without tuning. Written by `make bench-defaults`.",
        "",
        f"Each cell is ours minus LightGBM with early stopping: accuracy, AUC and log loss, x 100, on clean test "
        f"labels; {options.rows:,} training rows, {options.splits} splits. The aims are at least {AIMS[0]:g} in "
        f"accuracy, at least {AIMS[1]:g} in AUC and at most {AIMS[2]:+g} in log loss, in the mean. ± is the standard "
        "error of the mean over the splits. The defaults were chosen on flights, census and adult and on a table of "
        "credit defaults, so read these figures as optimistic; compas was not used.",
    ]
    for name in options.booster:
        print(f"{name}BoostClassifier", flush=True)
        model = getattr(maboost, f"{name}BoostClassifier")(random_state=0)
        text += [
            "",
            f"## {name}BoostClassifier",
            "",
            *study(model, tables, options.rows, options.splits),
        ]
    text += [
        "",
        f"Python {platform.python_version()}, LightGBM {lightgbm.__version__}, maboost {maboost.__version__}.",
        "",
    ]
    if options.write:
        PAGE.write_text("\n".join(text))


if __name__ == "__main__":
    main()
