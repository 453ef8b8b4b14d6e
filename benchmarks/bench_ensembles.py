"""Ensembles of other libraries, certified and reweighted on four real tables.

Each ensemble is fitted on the training rows and gets new votes on the same rows; then it is fitted on three quarters
of them and gets new votes on the quarter that was held out. Prints soft margins, numbers of members, errors and AUC
on test rows before and after, those of as many first members, and seconds; then the soft margin and the seconds of
`reweight` and of HiGHS on the same members. ``--write`` writes docs/ensembles-measured.md, docs/ensembles-measured.csv
and docs/ensembles-highs.csv.
"""

from __future__ import annotations

import argparse
import platform
import time
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import scipy
import sklearn
from benchmarks.soft_margin_program import solved
from benchmarks.tables import TABLES, Table, from_folder
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import maboost
from maboost import margin_certificate, reweight
from maboost.mirror import CappedSimplex

DOCS = Path(__file__).parent.parent / "docs"
CAPS, TOLERANCE = (4.0, 2.0), 0.01
TESTED = 8_000  # rows, at most
SAME, HELD_OUT = "training", "held out"

MODELS: dict[str, Any] = {
    "LightGBM": lambda seed: lightgbm.LGBMClassifier(
        n_estimators=100, random_state=seed, verbosity=-1, n_jobs=1
    ),
    "deep forest": lambda seed: RandomForestClassifier(200, random_state=seed, n_jobs=1),
    "shallow forest": lambda seed: RandomForestClassifier(
        200, max_depth=6, random_state=seed, n_jobs=1
    ),
    "AdaBoost": lambda seed: AdaBoostClassifier(n_estimators=200, random_state=seed),
}


def numbers(X: pd.DataFrame) -> np.ndarray:
    """Categories as their codes, and missing values below all others: all libraries take that."""
    columns = []
    for name in X:
        column = X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.cat.codes
        elif not pd.api.types.is_numeric_dtype(column):
            column = column.astype("category").cat.codes
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        columns.append(np.where(np.isnan(values), np.nanmin(values, initial=0.0) - 1.0, values))
    return np.column_stack(columns)


def error_and_auc(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The error in percent of the sign of scores, and AUC."""
    return 100.0 * float(np.mean((scores > 0.0) != y)), float(roc_auc_score(y, scores))


def of_first(model: Any, count: int, X: np.ndarray) -> np.ndarray:
    """The scores of the first members, with the votes that they have."""
    if isinstance(model, lightgbm.LGBMClassifier):
        return np.asarray(model.booster_.predict(X, raw_score=True, num_iteration=count))
    if isinstance(model, AdaBoostClassifier):
        votes = zip(model.estimators_[:count], model.estimator_weights_, strict=False)
        return np.sum([w * (2.0 * tree.predict(X) - 1.0) for tree, w in votes], axis=0)
    members = model.estimators_[:count]
    return np.mean([2.0 * tree.predict_proba(X)[:, 1] - 1.0 for tree in members], axis=0)


def measured(
    model: Any, cap: float, rows: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> dict[str, float]:
    """What new votes found on some rows do to a fitted ensemble."""
    domain = CappedSimplex(cap)
    began = time.perf_counter()
    found = reweight(model, *rows, domain=domain, tolerance=TOLERANCE, n_jobs=1)
    seconds = time.perf_counter() - began
    before, after = found.certificate_before_, found.certificate_
    certified = margin_certificate(model, *rows, domain=domain, n_jobs=1)
    X, y = test
    error, auc = error_and_auc(of_first(model, before.members or 0, X), y)
    new_error, new_auc = error_and_auc(found.decision_function(X), y)
    first_error, first_auc = error_and_auc(of_first(model, len(found), X), y)
    there = margin_certificate(found, *test, domain=domain, n_jobs=1)
    return {
        "members": before.members or 0,
        "kept": len(found),
        "margin": before.soft_margin,
        "new margin": after.soft_margin,
        "gap": after.gap or 0.0,
        "new margin on test rows": there.soft_margin,
        "certified error": certified.error_bound,
        "error on the rows": certified.measured_error,
        "error": error,
        "new error": new_error,
        "first error": first_error,
        "AUC": auc,
        "new AUC": new_auc,
        "first AUC": first_auc,
        "seconds": seconds,
    }


def study(tables: dict[str, Table], models: list[str], rows: int, splits: int) -> pd.DataFrame:
    """A row a table, model, split and kind of rows."""
    found = []
    for table, (X, y) in tables.items():
        for seed in range(splits):
            train, test = train_test_split(
                np.arange(len(y)), train_size=min(rows, len(y) * 2 // 3),
                test_size=min(TESTED, len(y) // 3), stratify=y, random_state=seed,
            )  # fmt: skip
            used = np.concatenate([train, test])
            values, labels, n = numbers(X.iloc[used]), y[used], len(train)
            most, rest = train_test_split(
                np.arange(n), test_size=0.25, stratify=labels[:n], random_state=seed
            )
            tested = values[n:], labels[n:]
            kinds = ((SAME, np.arange(n), np.arange(n)), (HELD_OUT, most, rest))
            for name, (kind, fitted, voted), cap in product(models, kinds, CAPS):
                if cap == CAPS[0]:
                    model = MODELS[name](seed).fit(values[fitted], labels[fitted])
                row = measured(model, cap, (values[voted], labels[voted]), tested)
                key = {"table": table, "model": name, "rows": kind, "cap": cap, "split": seed}
                found.append(key | row)
                print(pd.Series(found[-1]).to_dict(), flush=True)
    return pd.DataFrame(found)


def against_highs(tables: dict[str, Table], models: list[str], sizes: list[int]) -> pd.DataFrame:
    """Soft margin and seconds of `reweight` and of a linear program over the same members, on held-out rows."""
    found = []
    for (table, (X, y)), rows in product(tables.items(), sizes):
        some, _ = train_test_split(
            np.arange(len(y)), train_size=min(2 * rows, len(y) - 2), stratify=y, random_state=0
        )
        values, labels = numbers(X.iloc[some]), y[some]
        fit, voted = train_test_split(
            np.arange(len(some)), test_size=0.5, stratify=labels, random_state=0
        )
        for name in models:
            model = MODELS[name](0).fit(values[fit], labels[fit])
            if not found:  # compiles the kernels
                reweight(
                    model, values[voted], labels[voted], domain=CappedSimplex(CAPS[0]), n_jobs=1
                )
            began = time.process_time()
            ours = reweight(
                model, values[voted], labels[voted], domain=CappedSimplex(CAPS[0]),
                tolerance=TOLERANCE, n_jobs=1,
            ).certificate_  # fmt: skip
            seconds = time.process_time() - began
            columns = columns_of(model, values[voted], labels[voted])
            began = time.process_time()
            _, best, votes = solved(columns, CAPS[0])
            row = {
                "table": table, "model": name, "rows": len(voted), "members": len(columns),
                "soft margin": ours.soft_margin, "best": best, "true gap": best - ours.soft_margin,
                "certified gap": ours.gap, "kept": ours.members, "kept by HiGHS": int(np.sum(votes > 1e-9)),
                "seconds": seconds, "seconds of HiGHS": time.process_time() - began,
            }  # fmt: skip
            found.append(row)
            print(row, flush=True)
    return pd.DataFrame(found)


def columns_of(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The margins of each member, a row a member, from the methods of its own library."""
    signs = 2.0 * y - 1.0
    if isinstance(model, lightgbm.LGBMClassifier):
        booster = model.booster_
        frame = booster.trees_to_dataframe()
        leaves = frame[frame["left_child"].isna()]
        tops = leaves["value"].abs().groupby(leaves["tree_index"]).max()
        answers = [
            booster.predict(X, raw_score=True, start_iteration=t, num_iteration=1) / tops[t]
            for t in range(booster.num_trees())
        ]
    elif isinstance(model, AdaBoostClassifier):
        answers = [2.0 * tree.predict(X) - 1.0 for tree in model.estimators_]
    else:
        answers = [2.0 * tree.predict_proba(X)[:, 1] - 1.0 for tree in model.estimators_]
    return np.array(answers) * signs


def part_of(found: pd.DataFrame, kind: str, cap: float) -> pd.DataFrame:
    """Means over the splits by table and ensemble."""
    part = found[(found["rows"] == kind) & (found["cap"] == cap)]
    return part.groupby(["table", "model"], sort=False).mean(numeric_only=True)


def table_of(found: pd.DataFrame, kind: str, cap: float) -> list[str]:
    """A table of what new votes change, for one kind of rows."""
    lines = [
        "| table | ensemble | members | soft margin | on test rows | test error, % | first members | test AUC | first members | seconds |",
        "|---" * 10 + "|",
    ]
    for (table, model), m in part_of(found, kind, cap).iterrows():
        shown = f"{m['new error']:.2f}"
        if m["new error"] < m["error"]:
            shown = f"**{shown}**"
        lines.append(
            f"| {table} | {model} | {m['members']:.0f} → {m['kept']:.0f} | {m['margin']:+.3f} → {m['new margin']:+.3f} | "
            f"{m['new margin on test rows']:+.3f} | {m['error']:.2f} → {shown} | {m['first error']:.2f} | "
            f"{m['AUC']:.3f} → {m['new AUC']:.3f} | {m['first AUC']:.3f} | {m['seconds']:.1f} |"
        )
    return lines


def certified(found: pd.DataFrame) -> list[str]:
    """A table of the certified and the measured error of ensembles as they are."""
    lines = [
        "| cap | ensemble | training rows: certified ≤ | measured | held-out rows: certified ≤ | measured |",
        "|---" * 6 + "|",
    ]
    for (cap, model), of in found.groupby(["cap", "model"], sort=False):
        cells = []
        for kind in (SAME, HELD_OUT):
            m = of[of["rows"] == kind].mean(numeric_only=True)
            cells += [f"{m['certified error']:.3f}", f"{m['error on the rows']:.3f}"]
        lines.append(f"| {cap:g} | {model} | " + " | ".join(cells) + " |")
    return lines


def changes(found: pd.DataFrame) -> list[str]:
    """A table of the mean changes over all tables, and how often the error rises."""
    lines = [
        "| votes from | cap | ensemble | members kept | change of the test error | of as many first members | tables on which it "
        "rises | worst | change of AUC | of as many first members |",
        "|---" * 10 + "|",
    ]
    for kind, cap in product((HELD_OUT, SAME), CAPS):
        for model, m in part_of(found, kind, cap).groupby("model", sort=False):
            error = m["new error"] - m["error"]
            lines.append(
                f"| {kind.replace(' ', '-')} rows | {cap:g} | {model} | {m['kept'].sum() / m['members'].sum():.0%} | {error.mean():+.2f} | "
                f"{(m['first error'] - m['error']).mean():+.2f} | {int((error > 0).sum())} of {len(m)} | "
                f"{error.max():+.2f} ({error.idxmax()[0]}) | {(m['new AUC'] - m['AUC']).mean():+.4f} | "
                f"{(m['first AUC'] - m['AUC']).mean():+.4f} |"
            )
    return lines


def verdict(found: pd.DataFrame) -> list[str]:
    """For which ensembles new votes are worth having, in words."""
    parts = {"pay": [], "harm": []}
    for kind, cap in product((HELD_OUT, SAME), CAPS):
        for model, m in part_of(found, kind, cap).groupby("model", sort=False):
            pays = m["new error"].mean() <= min(m["error"].mean(), m["first error"].mean())
            harms = m["new error"].mean() >= max(m["error"].mean(), m["first error"].mean())
            name = f"{model} ({kind.replace(' ', '-')} rows, cap {cap:g})"
            if pays or harms:
                parts["pay" if pays else "harm"].append(name)
    return [
        "- **New votes pay**, since the mean error is no more than that of the ensemble and that of as many first members: "
        + (", ".join(parts["pay"]) or "nowhere") + ".",
        "- **New votes harm**, since the mean error is no less than both: " + (", ".join(parts["harm"]) or "nowhere") + ".",
        "- In all other cases the error rises, and as many first members are worse still.",
        "",
        "LightGBM's trees correct the trees before them, and AdaBoost's stumps do so too: other votes for them are another model. "
        "With a small cap or a rare class, one member or a few get nearly all votes, because the soft margin is then close to the mean margin "
        "of all rows. Deep trees are right on nearly all rows that they were fitted on, so votes from training rows tell little.",
    ]  # fmt: skip


def programs(peers: pd.DataFrame) -> list[str]:
    """A table of `reweight` and HiGHS on the same members."""
    lines = [
        "| table | rows | ensemble | best soft margin | true gap | certified gap | members | kept | by HiGHS | CPU seconds | of HiGHS |",
        "|---" * 11 + "|",
    ]
    for row in peers.to_dict("records"):
        lines.append(
            f"| {row['table']} | {row['rows']:,} | {row['model']} | {row['best']:+.4f} | {row['true gap']:.4f} | "
            f"{row['certified gap']:.4f} | {row['members']} | {row['kept']} | {row['kept by HiGHS']} | {row['seconds']:.2f} | "
            f"{row['seconds of HiGHS']:.2f} |"
        )
    return lines


def seconds_by_rows(peers: pd.DataFrame) -> str:
    """Mean seconds of both, by the number of rows."""
    means = peers.groupby("rows").mean(numeric_only=True)
    parts = [
        f"{m['seconds']:.1f} s against {m['seconds of HiGHS']:.1f} s at {rows:,} rows"
        for rows, m in means.iterrows()
    ]
    return " and ".join(parts)


def page(found: pd.DataFrame, peers: pd.DataFrame, rows: int) -> str:
    """The text of the page."""
    splits = found["split"].nunique()
    text = [
        "# Ensembles of other libraries, measured",
        "",
        "For readers who want to know what [new votes](ensembles.md) do to the size and the accuracy of their ensemble, and "
        "where they harm. Written by `make bench-ensembles`; `docs/ensembles-measured.csv` and `docs/ensembles-highs.csv` have all numbers.",
        "",
        f"{rows:,} training rows of each table (two thirds of a smaller one), means over {splits} splits, at most {TESTED:,} test "
        "rows. With a cap k the soft margin is the mean margin of the worst 1/k of the rows (`CappedSimplex(k)`), on the scale on "
        f"which the votes sum to one; `tolerance={TOLERANCE:g}`. LightGBM has 100 trees and its defaults, the forests have 200 "
        "trees, without a limit or of depth 6, and AdaBoost has 200 stumps. Shares of votes are not calibrated, so that AUC is "
        "measured and not log loss. Seconds are wall time of one thread, waiting for other programs included.",
        "",
        "- *Votes from held-out rows*: the ensemble is fitted on three quarters of the training rows, and the other quarter "
        "decides the votes.",
        "- *Votes from training rows*: the rows on which the members were fitted decide the votes.",
        "- *First members*: the ensemble as it is, cut after as many members as reweighting keeps. That costs nothing.",
        "",
        "## In short",
        "",
        "The soft margin over the rows given grows to within the tolerance of the best. That is what is optimised and certified, "
        "and it is not the test error:",
        "",
        *changes(found),
        "",
        *verdict(found),
        *[line for kind in (HELD_OUT, SAME) for line in (
            "", f"## Votes from {kind.replace(' ', '-')} rows", "",
            f"At a cap of {CAPS[0]:g}; each cell is before → after, and bold is an error that fell.", "",
            *table_of(found, kind, CAPS[0]),
        )],
        "",
        "## Certified error",
        "",
        "The bound of `margin_certificate` for the ensembles as they are, mean over all tables. It is about these rows, and it holds "
        "for any ensemble. Nothing is promised below one over the cap.",
        "",
        *certified(found),
        "",
        "## The best votes, by a linear program",
        "",
        f"The soft margin at a cap of {CAPS[0]:g} of `reweight` and of HiGHS (SciPy's `linprog`) on the same members and held-out "
        "rows, one split. The true gap is the soft margin of HiGHS less ours. The certified gap is known without HiGHS. The time of "
        "`reweight` includes the predictions of the members and both certificates. In the mean "
        f"`reweight` takes {seconds_by_rows(peers)} of CPU time.",
        "",
        *programs(peers),
        "",
        f"Python {platform.python_version()}, LightGBM {lightgbm.__version__}, scikit-learn {sklearn.__version__}, SciPy "
        f"{scipy.__version__}, maboost {maboost.__version__}, one thread.",
        "",
    ]  # fmt: skip
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument(
        "--program-rows",
        type=int,
        nargs="+",
        default=[2000, 8000],
        help="rows of the linear programs",
    )
    parser.add_argument("--table", nargs="+", help="only these tables")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--folder", type=Path, help="Parquet files with a column 'target' instead")
    parser.add_argument("--measured", action="store_true", help="use the results in --out")
    parser.add_argument("--out", type=Path, default=DOCS, help="where --write writes")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    files = options.out / "ensembles-measured.csv", options.out / "ensembles-highs.csv"
    if options.measured:
        found, peers = (pd.read_csv(file) for file in files)
    else:
        readers = TABLES if options.folder is None else from_folder(options.folder)
        tables = {name: readers[name]() for name in options.table or readers}
        peers = against_highs(tables, options.model, options.program_rows)
        found = study(tables, options.model, options.rows, options.splits)
    text = page(found, peers, options.rows)
    print(text)
    if options.write:
        (options.out / "ensembles-measured.md").write_text(text)
        for file, table in zip(files, (found, peers), strict=True):
            table.round(5).to_csv(file, index=False)


if __name__ == "__main__":
    main()
