"""Study 3: few rows with right labels and ten times as many of which some are wrong, against LightGBM.

    python -m benchmarks.studies run write --only sources    measures what is missing, writes docs/sources-measured.md

What is compared is declared below, before anything runs: the cells, the methods, and the differences that the page
shows. No method is tuned beyond what its name says.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from benchmarks.studies.store import Store, versions
from benchmarks.tables import TABLES, Table
from scipy.stats import t
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import maboost
from maboost.noise import label_weights

__all__ = ["Cell", "cells", "measure", "page", "run", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "sources-measured.md"
NAMES = ("adult", "census", "compas", "flights")
SPLITS = {200: 5, 1000: 3, 5000: 3}  # by trusted rows; small cells are cheap
TIMES, TEST = 10, 8000  # untrusted rows for each trusted one, and most test rows
LEAST = 3  # untrusted rows for each trusted one where a table has fewer rows
SHARES = (0.1, 0.2, 0.4)
FLIPPED: dict[str, tuple[int, ...]] = {"both classes": (0, 1), "class 1": (1,)}
WEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

OURS = ("CombinedBoost, known rates", "CombinedBoost, estimated rates")
PEERS = ("trusted only", "pooled", "source column", "weight tuned", "corrected")
METHODS = (*OURS, *PEERS)
DECLARED = tuple(itertools.product(OURS, PEERS))  # the differences on the page

KEYS = ("table", "trusted", "flipped", "share", "split", "method")
VALUES = ("untrusted", "error", "auc", "log_loss", "version")


@dataclass(frozen=True)
class Cell:
    """One split of a table with its planted noise; all methods see the same rows and labels."""

    table: str
    trusted: int
    flipped: str
    share: float
    split: int


def cells(names: Sequence[str] = NAMES) -> list[Cell]:
    """Return all cells of the study; a table takes part where its untrusted rows are enough."""
    found = []
    for name, (trusted, splits) in itertools.product(names, SPLITS.items()):
        rows = len(_table(name)[1])
        if rows - min(TEST, rows // 4) - trusted < LEAST * trusted:
            continue
        found += [
            Cell(name, trusted, *of) for of in itertools.product(FLIPPED, SHARES, range(splits))
        ]
    # a run that is stopped has whole splits, of the cheap cells first
    return sorted(found, key=lambda cell: (cell.trusted == max(SPLITS), cell.split))


@functools.cache
def _table(name: str) -> Table:
    return TABLES[name]()


@dataclass(frozen=True)
class Rows:
    """Training rows with given labels and their sources, and the test rows."""

    X: pd.DataFrame
    given: np.ndarray
    trusted: np.ndarray
    X_test: pd.DataFrame
    rates: dict[int, float]
    seed: int


def _rows(cell: Cell) -> tuple[Rows, np.ndarray]:
    """Return the rows of a cell and the true labels of its test rows."""
    X, y = _table(cell.table)
    rest, test = train_test_split(
        np.arange(len(y)), test_size=min(TEST, len(y) // 4), stratify=y, random_state=cell.split
    )
    count = min((1 + TIMES) * cell.trusted, len(rest) - 2)
    rest, _ = train_test_split(rest, train_size=count, stratify=y[rest], random_state=cell.split)
    rng = np.random.default_rng(1000 + cell.split)
    trusted = np.isin(np.arange(count), rng.choice(count, cell.trusted, replace=False))
    flipped = FLIPPED[cell.flipped]
    wrong = ~trusted & np.isin(y[rest], flipped) & (rng.random(count) < cell.share)
    given = np.where(wrong, 1 - y[rest], y[rest])
    rates = dict.fromkeys(flipped, cell.share)
    return Rows(X.iloc[rest], given, trusted, X.iloc[test], rates, cell.split), y[test]


def _ours(rows: Rows, **rates: Any) -> np.ndarray:
    model = maboost.CombinedBoostClassifier(random_state=rows.seed, n_jobs=1, **rates)
    model.fit(rows.X, rows.given, sample_domain=np.where(rows.trusted, "trusted", "untrusted"))
    return model.predict_proba(rows.X_test)[:, 1]


def _known(rows: Rows) -> np.ndarray:
    return _ours(rows, flip_rates={"trusted": 0.0, "untrusted": rows.rates})


def _estimated(rows: Rows) -> np.ndarray:
    return _ours(rows, flip_rates="trusted", trusted=["trusted"])


def _lightgbm(
    rows: Rows, weight: np.ndarray | float, source_column: bool = False
) -> tuple[float, np.ndarray]:
    """Return the loss on the trusted validation rows, and test probabilities; rows of weight 0 are left out."""
    import lightgbm

    known = np.flatnonzero(rows.trusted)
    valid = train_test_split(
        known, test_size=0.2, stratify=rows.given[known], random_state=rows.seed
    )[1]
    weights = np.where(rows.trusted, 1.0, weight)
    fitted = np.setdiff1d(np.flatnonzero(weights > 0.0), valid)
    X, X_test = rows.X, rows.X_test
    if source_column:
        X = X.assign(_untrusted=(~rows.trusted).astype(float))
        X_test = X_test.assign(_untrusted=0.0)
    model = lightgbm.LGBMClassifier(
        n_estimators=500, learning_rate=0.1, random_state=rows.seed, verbosity=-1, n_jobs=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how eval_set is to be given differs between versions
        model.fit(
            X.iloc[fitted], rows.given[fitted], sample_weight=weights[fitted],
            eval_set=[(X.iloc[valid], rows.given[valid])],
            callbacks=[lightgbm.early_stopping(20, verbose=False)],
        )  # fmt: skip
    loss = log_loss(rows.given[valid], model.predict_proba(X.iloc[valid])[:, 1], labels=[0, 1])
    return float(loss), model.predict_proba(X_test)[:, 1]


def _tuned(rows: Rows) -> np.ndarray:
    return min((_lightgbm(rows, weight) for weight in WEIGHTS), key=lambda found: found[0])[1]


def _corrected(rows: Rows) -> np.ndarray:
    weights = np.ones(len(rows.given))
    unsure = ~rows.trusted
    weights[unsure] = 2.0 * label_weights(rows.given[unsure], rows.rates)  # a right label has 1
    return _lightgbm(rows, weights)[1]


FITS: dict[str, Callable[[Rows], np.ndarray]] = {
    OURS[0]: _known,
    OURS[1]: _estimated,
    "trusted only": lambda rows: _lightgbm(rows, 0.0)[1],
    "pooled": lambda rows: _lightgbm(rows, 1.0)[1],
    "source column": lambda rows: _lightgbm(rows, 1.0, source_column=True)[1],
    "weight tuned": _tuned,
    "corrected": _corrected,
}


def measure(cell: Cell, methods: Sequence[str] = METHODS) -> list[dict[str, Any]]:
    """Return a row of results for each method."""
    rows, y = _rows(cell)
    used = versions(["maboost", "lightgbm"])
    found = []
    for name in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rates that are clipped, limits not bound
            p = FITS[name](rows)
        row: dict[str, Any] = dict(zip(KEYS, (*astuple(cell), name), strict=True))
        row |= {
            "untrusted": int(np.sum(~rows.trusted)),
            "error": float(np.mean((p > 0.5) != y)),
            "auc": float(roc_auc_score(y, p)),
            # the weights of the correction change what a probability means
            "log_loss": math.nan if name == "corrected" else float(log_loss(y, p)),
            "version": used["maboost" if name in OURS else "lightgbm"],
        }
        found.append(row)
    return found


def store() -> Store:
    """Return the results of the study."""
    return Store("sources", KEYS, VALUES)


def run(processes: int = 1) -> None:
    """Measure the cells that the results do not have."""
    results = store()
    done = results.done()
    missing = []
    for cell in cells():
        methods = [m for m in METHODS if (*map(str, astuple(cell)), m) not in done]
        if methods:
            missing.append(joblib.delayed(measure)(cell, methods))
    for i, found in enumerate(
        joblib.Parallel(processes, return_as="generator_unordered")(missing), 1
    ):
        for row in found:
            results.append(row)
        print(f"sources: {i} of {len(missing)}", end="\r", flush=True)


def _whole(found: pd.DataFrame) -> pd.DataFrame:
    """Leave out splits that are not measured on all tables, which a run that was stopped has."""
    rows = found.groupby(["trusted", "split"])["error"].transform("size")
    return found[rows == rows.groupby(found["trusted"]).transform("max")]


def _differences(found: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return by split the mean over tables of ours less a peer's, a column a declared pair."""
    wide = found.pivot(
        index=["trusted", "flipped", "share", "split", "table"], columns="method", values=measure
    )
    pairs = {f"{a} | {b}": wide[a] - wide[b] for a, b in DECLARED}
    return pd.DataFrame(pairs).groupby(level=["trusted", "flipped", "share", "split"]).mean()


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean of the splits and half the length of its 95 % t-interval."""
    n = len(values)
    half = t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
    return float(values.mean()), float(half)


def _title(trusted: int, flipped: str, share: float) -> str:
    return f"{trusted:,} | {share:.0%} of {flipped}"


def _means(found: pd.DataFrame, column: str, show: Callable[[float], str]) -> list[str]:
    text = ["| trusted rows | flipped | " + " | ".join(METHODS) + " |"]
    text.append("|---|---|" + "---:|" * len(METHODS))
    for key, part in found.groupby(["trusted", "flipped", "share"]):
        means = part.groupby("method")[column].mean()
        sign = -1.0 if column == "auc" else 1.0
        best = show(means[min(METHODS, key=lambda m: sign * means.fillna(sign * math.inf)[m])])
        shown = [show(means[m]) if means[m] == means[m] else "" for m in METHODS]
        shown = [f"**{s}**" if s == best else s for s in shown]
        text.append(f"| {_title(*key)} | " + " | ".join(shown) + " |")
    return text


def _gains(found: pd.DataFrame, ours: str) -> list[str]:
    text = ["| trusted rows | flipped | " + " | ".join(PEERS) + " |"]
    text.append("|---|---|" + "---:|" * len(PEERS))
    for key, part in _differences(found, "error").groupby(level=["trusted", "flipped", "share"]):
        shown = []
        for peer in PEERS:
            mean, half = _interval(-100.0 * part[f"{ours} | {peer}"].to_numpy())
            clear = "**" if abs(mean) > half else ""
            shown.append(f"{clear}{mean:+.1f}{clear}" + (f" ± {half:.1f}" if half == half else ""))
        text.append(f"| {_title(*key)} | " + " | ".join(shown) + " |")
    return text


def _counts(found: pd.DataFrame) -> list[str]:
    """Return in how many cells, by table, ours is better and worse than each peer."""
    keys = ["table", "trusted", "flipped", "share", "method"]
    wide = found.groupby(keys)["error"].mean().unstack("method")
    text = ["| table | rates | " + " | ".join(PEERS) + " |", "|---|---|" + "---:|" * len(PEERS)]
    for name, part in wide.groupby(level="table"):
        for a in OURS:
            shown = [f"{(part[a] < part[b]).sum()} : {(part[a] > part[b]).sum()}" for b in PEERS]
            text.append(f"| {name} | {_rates(a)} | " + " | ".join(shown) + " |")
    return text


def _rates(ours: str) -> str:
    """Return "known" or "estimated"."""
    return ours.split(", ")[1].removesuffix(" rates")


def _short(found: pd.DataFrame) -> list[str]:
    """Return for each declared difference its mean, and how many kinds of cells are clear."""
    cells = list(_differences(found, "error").groupby(level=["trusted", "flipped", "share"]))
    text = ["| rates | against | mean gain, points | clearly better | clearly worse | open |"]
    text.append("|---|---|---:|---:|---:|---:|")
    for a, b in DECLARED:
        gains = [_interval(-100.0 * part[f"{a} | {b}"].to_numpy()) for _, part in cells]
        better = sum(mean > half for mean, half in gains)
        worse = sum(mean < -half for mean, half in gains)
        mean = float(np.mean([mean for mean, _ in gains]))
        text.append(
            f"| {_rates(a)} | {b} | {mean:+.1f} | {better} | {worse} | {len(gains) - better - worse} |"
        )
    return text


def _losses(found: pd.DataFrame) -> list[str]:
    """Return where the known rates are clearly worse than trusted rows alone or the tuned weight."""
    lines = []
    for key, part in found.groupby(["table", "trusted", "flipped", "share"]):
        wide = part.pivot(index="split", columns="method", values="error")
        for peer in PEERS:
            mean, half = _interval(100.0 * (wide[OURS[0]] - wide[peer]).to_numpy())
            if mean > half:
                table, trusted, flipped, share = key
                lines.append((mean, f"| {table} | {_title(trusted, flipped, share)} | {peer} | {mean:.1f} ± {half:.1f} |"))  # fmt: skip
    lines.sort(reverse=True)
    return [line for _, line in lines]


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f}"


def page(found: pd.DataFrame) -> str:
    """Return the page about these results."""
    found = _whole(found.astype({"trusted": int, "share": float, "split": int}))
    sizes = found.drop_duplicates(["table", "trusted", "split"])
    tables = ", ".join(
        f"{name} ({', '.join(f'{n:,}' for n in sorted(part['untrusted'].unique()))})"
        for name, part in sizes.groupby("table")
    )
    splits = found.groupby("trusted")["split"].nunique()
    used = found.groupby(found["method"].isin(OURS))["version"].unique()
    losses, cases = _losses(found), len(PEERS) * found.groupby(["table", "trusted", "flipped", "share"]).ngroups  # fmt: skip
    lines = [
        "# Two sources of labels, measured",
        "",
        "For readers who have a few rows with right labels and many with wrong ones, and want to know what the flip "
        "rates of the sources gain, and where they lose. Written by `python -m benchmarks.studies run write --only sources` from "
        "`benchmarks/studies/results/sources.csv`, which the same command measures.",
        "",
        "## What was compared",
        "",
        "Some rows have right labels. Of ten times as many further rows, or as many as the table has, labels are flipped: "
        "10, 20 or 40 % of both classes, or of class 1 alone. "
        f"Tables, with their untrusted rows in brackets: {tables}. "
        + "Splits: " + ", ".join(f"{n} with {size:,} trusted rows" for size, n in splits.items()) + ". "
        f"Test rows have clean labels; there are up to {TEST:,}.",
        "",
        "- *CombinedBoost, known rates*: `CombinedBoostClassifier(flip_rates={\"trusted\": 0.0, \"untrusted\": ...})`, "
        "all else by default.",
        "- *CombinedBoost, estimated rates*: the same with `flip_rates=\"trusted\"`, which estimates the rates of the other "
        "source from the trusted rows.",
        "- *Trusted only*: LightGBM on the rows with right labels.",
        "- *Pooled*: LightGBM on all rows alike.",
        "- *Source column*: LightGBM on all rows, with the source as one more column; predictions are those for a trusted row.",
        "- *Weight tuned*: LightGBM on all rows, with a weight for the other source: of "
        f"{', '.join(f'{w:g}' for w in WEIGHTS)} the one with the least log loss on the validation rows.",
        "- *Corrected*: LightGBM on all rows, with the weights of `maboost.noise.label_weights` at the known rates. It knows "
        "what *known rates* knows, so that the difference between the two is not the knowledge.",
        "",
        "LightGBM has 500 rounds at a rate of 0.1 and stops early by a fifth of the trusted rows, on which it is not "
        "fitted. CombinedBoost holds out a tenth of the trusted rows. Neither has other parameters tuned.",
        "",
        "## In short",
        "",
        "Points of test error that CombinedBoost gains on each method, in the mean over tables and all kinds of cells (trusted "
        "rows, kind and share of flips), and in how many kinds of cells it is clearly better or worse: the 95 % interval below "
        "does not hold 0.",
        "",
        *_short(found),
        "",
        "## Gain in error",
        "",
        "Points of test error that CombinedBoost with *known* rates is better (+) or worse (-) than each method, in the mean "
        "over the tables. After ± is the 95 % interval over the splits: it is about other draws of rows from these tables, "
        "not about other tables. Bold: the interval does not hold 0. One split has no interval. No correction is made for the "
        "number of comparisons.",
        "",
        *_gains(found, OURS[0]),
        "",
        "The same with *estimated* rates:",
        "",
        *_gains(found, OURS[1]),
        "",
        "## Cells won and lost",
        "",
        "A cell is a number of trusted rows, a kind and a share of flips. Cells in which the mean error of CombinedBoost is "
        "smaller : larger.",
        "",
        *_counts(found),
        "",
        "## Where it loses",
        "",
        f"Of {cases} comparisons of known rates (each cell of each table with each method), CombinedBoost has clearly the "
        f"larger error in {len(losses)}: its 95 % interval over the splits is above 0, of which about one in forty is "
        "expected by chance if there is no difference." + (" The largest:" if losses else ""),
        "",
        *(["| table | trusted rows | flipped | smaller error by | points |", "|---|---|---|---|---:|", *losses[:12], ""] if losses else []),
        "## Test error, %",
        "",
        "Means over tables and splits; the smallest is bold.",
        "",
        *_means(found, "error", _percent),
        "",
        "## AUC",
        "",
        *_means(found, "auc", lambda value: f"{value:.3f}"),
        "",
        "## Log loss",
        "",
        "The weights of *corrected* change what a probability means, so that it has no log loss.",
        "",
        *_means(found, "log_loss", lambda value: f"{value:.3f}"),
        "",
        f"LightGBM {', '.join(used[False])}, maboost {', '.join(used[True])}; commits {', '.join(sorted(set(found['commit'])))}. "
        f"{len(found):,} rows of results.",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def write() -> None:
    """Write the page from the results."""
    PAGE.write_text(page(store().frame()))
