"""How well wrong labels are found: average precision, reliability and the expected number.

A share of the training labels is flipped, of both classes or of one. Each method ranks all training rows:
``known rates`` is `SmoothBoostClassifier(flip_rates=...).suspect_labels()` by `probability_wrong`, ``no rates``
the same booster without flip rates by `label_quality`, ``LightGBM`` one minus the out-of-fold probability of
the given label, and ``cleanlab`` the better of cleanlab's normalized margins of the same probabilities, plain
and adjusted for classes. ``--write`` writes docs/suspects.csv, the figure and the tables of docs/suspects.md.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from pathlib import Path
from typing import Any

import cleanlab
import lightgbm
import numpy as np
import pandas as pd
from benchmarks.tables import TABLES, Table, from_folder
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

import maboost

DOCS = Path(__file__).parent.parent / "docs"
BEGIN = "<!-- measured by benchmarks/bench_suspects.py -->"
METHODS = ("known rates", "no rates", "LightGBM", "cleanlab")
KINDS: dict[str, tuple[int, ...]] = {
    "both classes": (0, 1),
    "class 1": (1,),
    "class 0": (0,),
}
BINS = 10


def reliability(predicted: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """Rows, sum of the probabilities and wrong labels, by tenth of the probability."""
    place = np.minimum((BINS * predicted).astype(int), BINS - 1)
    found: dict[str, float] = {}
    for b in range(BINS):
        inside = place == b
        found[f"rows {b}"] = int(inside.sum())
        found[f"expected {b}"] = float(predicted[inside].sum())
        found[f"wrong {b}"] = int(wrong[inside].sum())
    return found


def ranked(X: pd.DataFrame, given: np.ndarray, rates: Any, seed: int) -> pd.DataFrame:
    """The table of suspect labels, in the order of the rows."""
    model = maboost.SmoothBoostClassifier(flip_rates=rates, random_state=seed, n_jobs=1)
    return model.fit(X, given).suspect_labels().sort_index()


def out_of_fold(X: pd.DataFrame, given: np.ndarray, seed: int) -> np.ndarray:
    """LightGBM's probabilities of given labels, each by a fit without the row."""
    model = lightgbm.LGBMClassifier(random_state=seed, verbosity=-1, n_jobs=1)
    cv = StratifiedKFold(5, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cross_val_predict(model, X, given, cv=cv, method="predict_proba")


def cell(
    table: Table,
    share: float,
    flipped: tuple[int, ...],
    rows: int,
    seed: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """All measures of all methods on one table under one noise."""
    X, y = table
    chosen, _ = train_test_split(
        np.arange(len(y)), train_size=min(rows, len(y) - 2), stratify=y, random_state=seed
    )
    X, y = X.iloc[chosen].reset_index(drop=True), y[chosen]
    draw = rng.random(len(y))
    wrong = np.isin(y, flipped) & (draw < share)
    given = np.where(wrong, 1 - y, y)
    known = ranked(X, given, dict.fromkeys(flipped, share), seed)
    q = out_of_fold(X, given, seed)
    plain, adjusted = (
        get_label_quality_scores(given, q, method="normalized_margin", adjust_pred_probs=adjust)
        for adjust in (False, True)
    )
    suspicion = {
        "known rates": known["probability_wrong"],
        "no rates": -ranked(X, given, None, seed)["label_quality"],
        "LightGBM": -q[np.arange(len(y)), given],
    }
    precision = {name: average_precision_score(wrong, score) for name, score in suspicion.items()}
    precision["cleanlab"] = max(
        average_precision_score(wrong, -score) for score in (plain, adjusted)
    )
    low, high = known.attrs["interval"]
    count = {
        "true number": int(wrong.sum()),
        "expected number": known.attrs["expected_wrong"],
        "low": low,
        "high": high,
    }
    return precision | count | reliability(known["probability_wrong"].to_numpy(), wrong)


def study(
    tables: dict[str, Table], rows: int, shares: list[float], splits: int = 1
) -> pd.DataFrame:
    """A row a table, kind of noise, share and split."""
    found: list[dict[str, Any]] = []
    for name, table in tables.items():
        for kind, flipped in KINDS.items():
            for share in shares:
                for seed in range(splits):
                    key = {"table": name, "flipped": kind, "share": share, "split": seed}
                    rng = np.random.default_rng(len(found))
                    found.append(key | cell(table, share, flipped, rows, seed, rng))
                    print({k: found[-1][k] for k in (*key, *METHODS)}, flush=True)
    return pd.DataFrame(found)


def lines(found: pd.DataFrame) -> list[str]:
    """The tables of the page."""
    keys = ["table", "flipped", "share"]
    text = ["| table | flipped | " + " | ".join(METHODS) + " |", "|---" * 6 + "|"]
    for (table, kind, share), part in found.groupby(keys, sort=False):
        mean = part[list(METHODS)].mean().round(3)
        shown = " | ".join(f"**{x:.3f}**" if x == mean.max() else f"{x:.3f}" for x in mean)
        text.append(f"| {table} | {share:.0%} of {kind} | {shown} |")
    means = found[list(METHODS)].mean()
    text.append("| **mean** | | " + " | ".join(f"{x:.3f}" for x in means) + " |")
    best = found[["LightGBM", "cleanlab"]].max(axis=1)
    ahead = int((found["known rates"] >= best).sum())
    text += [
        "",
        f"With known rates the ranking is at least as good as the better of the two others in {ahead} of "
        f"{len(found)} cells; the largest loss is {max(float((best - found['known rates']).max()), 0.0):.3f}.",
        "",
        "| table | flipped | wrong labels | expected | interval | |",
        "|---|---|---|---|---|---|",
    ]
    inside = (found["low"] <= found["true number"]) & (found["true number"] <= found["high"])
    for (_, row), covers in zip(found.iterrows(), inside, strict=True):
        text.append(
            f"| {row['table']} | {row['share']:.0%} of {row['flipped']} | {row['true number']:,} | "
            f"{row['expected number']:,.0f} | {row['low']:,.0f} to {row['high']:,.0f} | "
            f"{'' if covers else 'missed'} |"
        )
    off = (found["expected number"] / found["true number"] - 1.0).abs()
    text += [
        "",
        f"The interval holds the true number in {int(inside.sum())} of {len(found)} cells. The expected number is off by "
        f"{off.mean():.0%} on average, and by {off.max():.0%} at most.",
    ]
    return text


def figure(found: pd.DataFrame, path: Path) -> None:
    """Observed against predicted probability, a panel a kind of noise."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(found["flipped"]))
    fig, axes = plt.subplots(1, len(kinds), figsize=(3.4 * len(kinds), 3.5), sharey=True)
    for kind, ax in zip(kinds, np.atleast_1d(axes), strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for share, part in found[found["flipped"] == kind].groupby("share"):
            rows, expected, wrong = (
                part[[f"{what} {b}" for b in range(BINS)]].sum().to_numpy(dtype=float)
                for what in ("rows", "expected", "wrong")
            )
            many = rows >= 50
            ax.plot(
                expected[many] / rows[many], wrong[many] / rows[many],
                marker="o", markersize=4, label=f"{share:.0%} flipped",
            )  # fmt: skip
        ax.set(title=kind, xlabel="probability_wrong, mean", xlim=(0, 1), ylim=(0, 1))
        ax.set_aspect("equal")
    np.atleast_1d(axes)[0].set_ylabel("share of wrong labels")
    np.atleast_1d(axes)[0].legend(frameon=False)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument("--table", nargs="+", help="only these tables")
    parser.add_argument("--folder", type=Path, help="Parquet files with a column 'target' instead")
    parser.add_argument("--csv", type=Path, default=DOCS / "suspects.csv", help="the results")
    parser.add_argument("--measured", action="store_true", help="use the results in --csv")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.measured:
        found = pd.read_csv(options.csv)
    else:
        readers = TABLES if options.folder is None else from_folder(options.folder)
        tables = {name: readers[name]() for name in options.table or readers}
        found = study(tables, options.rows, options.share, options.splits)
    text = [
        BEGIN,
        "",
        *lines(found),
        "",
        f"Python {platform.python_version()}, LightGBM {lightgbm.__version__}, cleanlab {cleanlab.__version__}, "
        f"maboost {maboost.__version__}.",
        "",
    ]
    print("\n".join(text))
    if options.write:
        page = DOCS / "suspects.md"
        page.write_text(page.read_text().split(BEGIN)[0] + "\n".join(text))
        if not options.measured:
            found.round(4).to_csv(options.csv, index=False)
        figure(found, DOCS / "images" / "suspects_reliability.png")


if __name__ == "__main__":
    main()
