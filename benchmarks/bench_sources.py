"""Accuracy with two sources of labels, one right and one of which 40 % are flipped.

Prints accuracy, AUC and log loss on clean test labels of `CombinedBoostClassifier` with the flip rates of the
sources or with rates estimated from the trusted rows, and of LightGBM on the trusted rows only, on all rows alike, and on all rows with one weight for the
other source, the best of a few on trusted validation rows. ``--write`` writes docs/sources-measured.md.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from benchmarks.tables import TABLES, Table, from_folder
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import maboost

PAGE = Path(__file__).parent.parent / "docs" / "sources-measured.md"
OURS = ("CombinedBoost", "rates estimated")
PEERS = ("trusted only", "pooled", "weight tuned")
WEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
ESTIMATED: dict[str, Any] = {"flip_rates": "trusted", "trusted": ["trusted"]}
MEASURES = ("accuracy", "AUC", "log loss")
KINDS: dict[str, tuple[int, ...]] = {"of both classes": (0, 1), "of class 1": (1,)}


def peers(
    X: pd.DataFrame, y: np.ndarray, trusted: np.ndarray, X_test: pd.DataFrame, seed: int
) -> dict[str, np.ndarray]:
    """LightGBM's test probabilities; a fifth of the trusted rows are validation rows."""
    known = np.flatnonzero(trusted)
    train, valid = train_test_split(known, test_size=0.2, stratify=y[known], random_state=seed)
    rows = np.concatenate([train, np.flatnonzero(~trusted)])

    def fit(weight: float) -> tuple[float, np.ndarray]:
        model = lightgbm.LGBMClassifier(
            n_estimators=500, learning_rate=0.1, random_state=seed, verbosity=-1, n_jobs=1
        )
        used = rows if weight > 0.0 else train
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how eval_set is to be given differs between versions
            model.fit(
                X.iloc[used], y[used], sample_weight=np.where(trusted[used], 1.0, weight),
                eval_set=[(X.iloc[valid], y[valid])],
                callbacks=[lightgbm.early_stopping(20, verbose=False)],
            )  # fmt: skip
        loss = log_loss(y[valid], model.predict_proba(X.iloc[valid])[:, 1])
        return loss, model.predict_proba(X_test)[:, 1]

    tuned = [fit(weight) for weight in WEIGHTS]
    best = int(np.argmin([loss for loss, _ in tuned]))
    return {
        "trusted only": fit(0.0)[1],
        "pooled": fit(1.0)[1],
        "weight tuned": tuned[best][1],
    }


def split(
    table: Table, share: float, flipped: tuple[int, ...], trusted: int, others: int, seed: int
) -> dict[str, float]:
    """All measures of all methods on one split."""
    X, y = table
    rest, test = train_test_split(
        np.arange(len(y)), test_size=min(8000, len(y) // 4), stratify=y, random_state=seed
    )
    rows = min(trusted + others, len(rest) - 2)
    rest, _ = train_test_split(rest, train_size=rows, stratify=y[rest], random_state=seed)
    rng = np.random.default_rng(1000 + seed)
    right = np.isin(np.arange(rows), rng.choice(rows, trusted, replace=False))
    X_train, true = X.iloc[rest], y[rest]
    wrong = ~right & np.isin(true, flipped) & (rng.random(rows) < share)
    given = np.where(wrong, 1 - true, true)
    rates: Any = {"trusted": 0.0, "scraped": dict.fromkeys(flipped, share)}
    source, p = np.where(right, "trusted", "scraped"), {}
    for name, known in zip(OURS, ({"flip_rates": rates}, ESTIMATED), strict=True):
        ours = maboost.CombinedBoostClassifier(random_state=seed, n_jobs=1, **known)
        ours.fit(X_train, given, sample_domain=source)
        p[name] = ours.predict_proba(X.iloc[test])[:, 1]
    p |= peers(X_train, given, right, X.iloc[test], seed)
    found = {}
    for name, prediction in p.items():
        found[f"{name} | accuracy"] = 100.0 * accuracy_score(y[test], prediction > 0.5)
        found[f"{name} | AUC"] = roc_auc_score(y[test], prediction)
        found[f"{name} | log loss"] = log_loss(y[test], prediction)
    return found


def study(
    tables: dict[str, Table], share: float, trusted: int, others: int, splits: int
) -> pd.DataFrame:
    """A row a table, kind of noise and split."""
    found = []
    for name, table in tables.items():
        for kind, flipped in KINDS.items():
            for seed in range(splits):
                key = {"table": name, "flipped": f"{share:.0%} {kind}", "split": seed}
                found.append(key | split(table, share, flipped, trusted, others, seed))
            means = pd.DataFrame(found[-splits:]).mean(numeric_only=True)
            print(name, kind, means.round(4).to_dict(), flush=True)
    return pd.DataFrame(found)


def lines(found: pd.DataFrame) -> list[str]:
    """The tables of the page."""
    text: list[str] = []
    for measure in MEASURES:
        digits = 1 if measure == "accuracy" else 3
        text += ["", f"## {measure[0].upper()}{measure[1:]}", ""]
        text += ["| table | flipped | " + " | ".join((*OURS, *PEERS)) + " |", "|---" * 7 + "|"]
        columns = [f"{name} | {measure}" for name in (*OURS, *PEERS)]
        for (table, kind), part in found.groupby(["table", "flipped"], sort=False):
            shown = " | ".join(f"{value:.{digits}f}" for value in part[columns].mean())
            text.append(f"| {table} | {kind} | {shown} |")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trusted", type=int, default=2000)
    parser.add_argument("--others", type=int, default=18000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--table", nargs="+", help="only these tables")
    parser.add_argument("--folder", type=Path, help="Parquet files with a column 'target' instead")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    readers = TABLES if options.folder is None else from_folder(options.folder)
    names = options.table or [name for name in ("adult", "credit", "census") if name in readers][:2]
    tables = {name: readers[name]() for name in names}
    found = study(tables, options.share, options.trusted, options.others, options.splits)
    text = [
        "# Two sources of labels, measured",
        "",
        "For readers who have a few rows with right labels and many with wrong ones, and want to know what the flip "
        "rates of the sources gain. Written by `benchmarks/bench_sources.py`.",
        "",
        f"{options.trusted:,} rows have right labels. In {options.others:,} further rows {options.share:.0%} of the "
        f"labels of the classes named are flipped. Means over {options.splits} splits, on clean test labels.",
        "",
        f"- *{OURS[0]}* knows the flip rates of both sources: "
        "`CombinedBoostClassifier(flip_rates={\"trusted\": 0.0, \"scraped\": ...})`. Nothing is tuned.",
        f"- *{OURS[1][0].upper()}{OURS[1][1:]}* is the same with `flip_rates=\"trusted\"`: the rates of the other source are estimated from the "
        "trusted rows.",
        "- *Trusted only* is LightGBM on the rows with right labels, and *pooled* is LightGBM on all rows alike.",
        "- *Weight tuned* is LightGBM on all rows, with a weight for those of the other source: of "
        f"{', '.join(map(str, WEIGHTS))} the one of the least log loss on the validation rows.",
        "",
        "A fifth of the trusted rows are the validation rows of LightGBM's early stopping. CombinedBoost holds out a "
        "tenth of them.",
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
