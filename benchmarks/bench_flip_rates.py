"""Errors under one-sided flips with known, wrong and estimated flip rates.

A share of the training labels of one class is flipped. Prints the error on clean test labels, in percent, of
LightGBM on clean labels, on the flipped labels as they are, and on the flipped labels with corrections:
``weights`` fits with `label_weights`, ``probabilities`` fits without weights and corrects the predictions.
Rates are the true ones, 25 % too low, 25 % too high, or estimated from trusted rows that are no training
rows. Boosters of this library that have the parameter `flip_rates` are measured, too. ``--write`` puts the
tables into docs/flip-rates-measured.md.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from benchmarks.tables import TABLES, Table, from_folder
from sklearn.model_selection import train_test_split

import maboost
from maboost.noise import corrected_probabilities, flip_rates_from_trusted, label_weights

PAGE = Path(__file__).parent.parent / "docs" / "flip-rates-measured.md"
BOOSTERS = ("SmoothBoostClassifier",)
CLEAN, AS_IS = "clean labels", "as is"
KNOWN, LOW, HIGH, TRUSTED = "known", "25 % too low", "25 % too high", "trusted rows"

Rates = Any  # what `flip_rates` takes
Predictions = list[np.ndarray | None]  # None where the rates are refused
Method = Callable[[pd.DataFrame, np.ndarray, list[Rates], int, pd.DataFrame], Predictions]


def lightgbm_model(seed: int, trees: int = 500) -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(
        n_estimators=trees, learning_rate=0.1, random_state=seed, verbosity=-1, n_jobs=1
    )


def peer(
    X: pd.DataFrame, y: np.ndarray, seed: int, weights: np.ndarray | None = None
) -> lightgbm.LGBMClassifier:
    """LightGBM with early stopping on a tenth of the rows, by the weighted loss."""
    train, valid = train_test_split(np.arange(len(y)), test_size=0.1, stratify=y, random_state=seed)
    weights = np.ones(len(y)) if weights is None else weights
    model = lightgbm_model(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how eval_set is to be given differs between versions
        model.fit(
            X.iloc[train], y[train], sample_weight=weights[train],
            eval_set=[(X.iloc[valid], y[valid])], eval_sample_weight=[weights[valid]],
            callbacks=[lightgbm.early_stopping(20, verbose=False)],
        )  # fmt: skip
    return model


def by_weights(
    X: pd.DataFrame, y: np.ndarray, rates: list[Rates], seed: int, X_test: pd.DataFrame
) -> Predictions:
    """Under these weights a probability above a half means the true class."""
    weights = [None if rate is None else label_weights(y, rate) for rate in rates]
    return [peer(X, y, seed, weight).predict(X_test) for weight in weights]


def by_probabilities(
    X: pd.DataFrame, y: np.ndarray, rates: list[Rates], seed: int, X_test: pd.DataFrame
) -> Predictions:
    """One fit, the predictions of which are corrected."""
    q = peer(X, y, seed).predict_proba(X_test)[:, 1]
    return [(q if rate is None else corrected_probabilities(q, rate)) > 0.5 for rate in rates]


def by_booster(name: str) -> Method:
    """A booster of this library, which has the correction inside."""

    def predict(
        X: pd.DataFrame, y: np.ndarray, rates: list[Rates], seed: int, X_test: pd.DataFrame
    ) -> Predictions:
        found: Predictions = []
        for rate in rates:
            model = getattr(maboost, name)(random_state=seed, flip_rates=rate)
            try:
                found.append(model.fit(X, y).predict(X_test))
            except ValueError as error:
                if "flip_rates do not fit the labels" not in str(error):
                    raise
                found.append(None)
        return found

    return predict


def methods() -> dict[str, Method]:
    """All ways to use flip rates; a booster only if it has the parameter."""
    found: dict[str, Method] = {
        "LightGBM, weights": by_weights,
        "LightGBM, probabilities": by_probabilities,
    }
    for name in BOOSTERS:
        if "flip_rates" in getattr(maboost, name)().get_params():
            found[name] = by_booster(name)
    return found


def cell(
    table: Table, share: float, flipped: int, rows: int, trusted: int, seed: int
) -> dict[str, Any]:
    """The errors of all methods under all rates, and the estimated rates, on one split."""
    X, y = table
    rest, test = train_test_split(
        np.arange(len(y)), test_size=min(20_000, len(y) // 3), stratify=y, random_state=seed
    )
    rest, _ = train_test_split(
        rest, train_size=min(rows + trusted, len(rest) - 2), stratify=y[rest], random_state=seed
    )
    known, train = train_test_split(rest, train_size=trusted, stratify=y[rest], random_state=seed)
    X_train, X_test, y_test = X.iloc[train], X.iloc[test], y[test]
    draw = np.random.default_rng(1000 + seed).random(len(train))
    given = np.where((y[train] == flipped) & (draw < share), 1 - flipped, y[train])
    estimate = flip_rates_from_trusted(
        lightgbm_model(seed, trees=50), X.iloc[known], y[known], X_train, given
    )
    rates: dict[str, Rates] = {
        AS_IS: None,
        KNOWN: {flipped: share},
        LOW: {flipped: 0.75 * share},
        HIGH: {flipped: 1.25 * share},
        TRUSTED: estimate,
    }
    found: dict[str, Any] = {"rate of the flipped class": estimate.rates[flipped]}
    found["rate of the other class"] = estimate.rates[1 - flipped]
    for name, predict in methods().items():
        predictions = predict(X_train, y[train], [None], seed, X_test)
        predictions += predict(X_train, given, list(rates.values()), seed, X_test)
        for condition, predicted in zip([CLEAN, *rates], predictions, strict=True):
            error = np.nan if predicted is None else 100.0 * np.mean(predicted != y_test)
            found[f"{name} | {condition}"] = error
    return found


def study(
    tables: dict[str, Table], rows: int, trusted: int, splits: int, shares: list[float]
) -> pd.DataFrame:
    """A row a table, share, flipped class and split."""
    found = []
    for name, table in tables.items():
        for share in shares:
            for flipped in (1, 0):
                for seed in range(splits):
                    key = {"table": name, "share": share, "class": flipped, "split": seed}
                    found.append(key | cell(table, share, flipped, rows, trusted, seed))
                print(
                    pd.DataFrame(found[-splits:]).mean(numeric_only=True).round(2).to_dict(),
                    flush=True,
                )
    return pd.DataFrame(found)


def lines(found: pd.DataFrame) -> list[str]:
    """The tables of the page."""
    conditions = [CLEAN, AS_IS, KNOWN, LOW, HIGH, TRUSTED]
    names = dict.fromkeys(column.split(" | ")[0] for column in found if " | " in column)
    text: list[str] = []
    for name in names:
        columns = [f"{name} | {condition}" for condition in conditions]
        grouped = found.groupby(["table", "share", "class"], sort=False)[columns]
        cells = grouped.agg(lambda errors: errors.mean(skipna=False))
        refused = grouped.agg(lambda errors: errors.isna().sum())
        text += ["", f"## {name}", "", "| table | flipped | " + " | ".join(conditions) + " |"]
        text.append("|---" * (len(conditions) + 2) + "|")
        for key, errors in cells.iterrows():
            table, share, flipped = key
            row = " | ".join(
                f"refused in {n} of {len(found['split'].unique())}" if n else f"{error:.1f}"
                for error, n in zip(errors, refused.loc[key], strict=True)
            )
            text.append(f"| {table} | {share:.0%} of class {flipped} | {row} |")
        used = cells.notna()
        mean = [
            f"**{cells[c].mean():.1f}**" + ("" if used[c].all() else f" (of {used[c].sum()})")
            for c in columns
        ]
        text.append("| **mean** | | " + " | ".join(mean) + " |")
        gain = cells[columns[2:]].rsub(cells[columns[1]], axis=0)
        kept = [f"{gain[c].mean() / gain.loc[used[c], columns[2]].mean():.0%}" for c in columns[2:]]
        text.append("| gain kept | | | | " + " | ".join(kept) + " |")
    rates = ["rate of the flipped class", "rate of the other class"]
    text += [
        "",
        "## Rates estimated from trusted rows",
        "",
        "Mean ± standard deviation over the splits.",
        "",
    ]
    text += [
        "| table | flipped | rate of the flipped class | rate of the other class |",
        "|---|---|---|---|",
    ]
    for (table, share, flipped), part in found.groupby(["table", "share", "class"], sort=False):
        row = " | ".join(f"{part[rate].mean():.2f} ± {part[rate].std():.2f}" for rate in rates)
        text.append(f"| {table} | {share:.0%} of class {flipped} | {row} |")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--trusted", type=int, default=200)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--share", type=float, nargs="+", default=[0.4, 0.2])
    parser.add_argument("--table", nargs="+", help="only these tables")
    parser.add_argument("--folder", type=Path, help="Parquet files with a column 'target' instead")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    readers = TABLES if options.folder is None else from_folder(options.folder)
    tables = {name: readers[name]() for name in options.table or readers}
    found = study(tables, options.rows, options.trusted, options.splits, options.share)
    text = [
        "# Flip rates on real tables",
        "",
        "For readers who want to know what flip rates gain, and what wrong rates cost. Written by "
        "`benchmarks/bench_flip_rates.py`.",
        "",
        f"Errors on clean test labels, in percent, mean over {options.splits} splits; {options.rows:,} training rows. "
        "*Clean labels* and *as is* use no rates. *Refused* are rates that leave a class a share below 0 in some splits; means "
        "leave such cells out and say of how many they are. *Trusted rows* estimates both rates from "
        f"{options.trusted} further rows with true labels. *Gain kept* compares the mean gain with that of the known "
        "rates.",
        *lines(found),
        "",
        f"Python {platform.python_version()}, LightGBM {lightgbm.__version__}, maboost {maboost.__version__}.",
        "",
    ]  # fmt: skip
    print("\n".join(text))
    if options.write:
        PAGE.write_text("\n".join(text))


if __name__ == "__main__":
    main()
