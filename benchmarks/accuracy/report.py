"""Tables and words of docs/accuracy.md, from the results of a study."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import pandas as pd
from benchmarks.accuracy import data
from benchmarks.accuracy.methods import OURS, ROUNDS, Settings
from benchmarks.accuracy.ranks import LEVEL, Ranking, duels, ranking
from benchmarks.accuracy.study import INNER_FOLDS

Grids = dict[str, list[Settings]]


def table(header: list[str], lines: list[list[Any]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def errors_of(results: pd.DataFrame, noise: str) -> pd.DataFrame:
    """Mean errors over the splits: data sets (rows) and methods (columns, in their order)."""
    chosen = results[results["noise"] == noise]
    means = chosen.pivot_table(index="data", columns="method", values="error", sort=False)
    return means[list(dict.fromkeys(chosen["method"]))]


def rankings(results: pd.DataFrame) -> dict[str, Ranking]:
    return {noise: ranking(errors_of(results, noise)) for noise in dict.fromkeys(results["noise"])}


def rank_table(found: dict[str, Ranking]) -> pd.DataFrame:
    """Mean ranks: methods (rows, best over all kinds first) and kinds of noise (columns)."""
    ranks = pd.DataFrame({noise: each.mean_ranks for noise, each in found.items()})
    return ranks.loc[ranks.mean(axis=1).sort_values(kind="stable").index]


def ranks_in_words(found: dict[str, Ranking]) -> str:
    ranks = rank_table(found)
    ranks["all"] = ranks.mean(axis=1)
    lines = []
    for method, row in ranks.iterrows():
        cells = [f"**{r:.2f}**" if r == ranks[n].min() else f"{r:.2f}" for n, r in row.items()]
        lines.append([method, *cells])
    lines.append(["Friedman's p", *(f"{each.p_value:.1e}" for each in found.values()), ""])
    return table(["mean rank", *ranks.columns], lines)


def mean_errors(results: pd.DataFrame, order: list[str]) -> str:
    means = results.pivot_table(index="method", columns="noise", values="error", sort=False)
    noises = list(dict.fromkeys(results["noise"]))
    lines = [[m, *(f"{100 * means.loc[m, n]:.1f} %" for n in noises)] for m in order]
    return table(["mean error", *noises], lines)


def duel_table(results: pd.DataFrame, ours: str, order: list[str]) -> str:
    noises = list(dict.fromkeys(results["noise"]))
    found = {noise: duels(errors_of(results, noise), ours) for noise in noises}
    lines = []
    for other in order:
        if other != ours:
            counts = (found[noise].loc[other] for noise in noises)
            lines.append([other, *(f"{c.wins} / {c.ties} / {c.losses}" for c in counts)])
    return table([f"{ours} against", *noises], lines)


def time_table(results: pd.DataFrame, order: list[str]) -> str:
    seconds = results.groupby("method")["seconds"].mean()
    return table(["method", "seconds a fit"], [[m, f"{seconds[m]:.2f}"] for m in order])


def grid_table(grids: Grids) -> str:
    lines = []
    for method, grid in grids.items():
        settings = ["`" + ", ".join(f"{k}={v!r}" for k, v in s.items()) + "`" for s in grid]
        lines.append([method, "<br>".join(settings)])
    return table(["method", "settings"], lines)


def verdict(found: dict[str, Ranking]) -> str:
    """Whether the aim was reached, kind by kind: the best of ours against the best other booster."""
    lines = []
    for noise, each in found.items():
        ranks = each.mean_ranks.drop("RandomForest", errors="ignore")
        ours = next(m for m in ranks.index if m in OURS)
        others = [m for m in ranks.index if m not in OURS]
        rival = "LightGBM" if noise == "clean" else others[0]
        reached = "yes" if ranks[ours] <= ranks[rival] else "no"
        first, last = (ours, rival) if reached == "yes" else (rival, ours)
        significant = "yes" if last in each.significant.get(first, []) else "no"
        pair = [f"{method} {ranks[method]:.2f}" for method in (ours, rival)]
        lines.append([noise, *pair, reached, significant])
    header = ["noise", "best of ours", "to be matched", "reached", "a significant difference"]
    return table(header, lines)


def significant_table(found: dict[str, Ranking]) -> str:
    """All gaps that are significant, kind by kind."""
    lines = []
    for noise, each in found.items():
        pairs = [f"{m} over {', '.join(others)}" for m, others in each.significant.items()]
        lines.append([noise, f"{each.critical:.2f}", "<br>".join(pairs) or "none"])
    return table(["noise", "critical difference", "significant"], lines)


def versions() -> str:
    names = ("maboost", "numpy", "scipy", "scikit-learn", "lightgbm", "xgboost-cpu")
    found = ", ".join(f"{name} {version(name)}" for name in names)
    return f"Python {platform.python_version()}, {found}, {data.KEEL.replace('==', ' ')}"


def defaults_table(errors: pd.DataFrame) -> str:
    """Mean errors of boosters with defaults changed, and their mean over the kinds of noise."""
    lines = [
        [*names, *(f"{100 * e:.1f} %" for e in row), f"{100 * row.mean():.1f} %"]
        for names, row in errors.iterrows()
    ]
    return table(["booster", "changed", *errors.columns, "mean"], lines)


def long_servedio_table(errors: pd.DataFrame) -> str:
    lines = [[m, *(f"{100 * e:.1f} %" for e in row)] for m, row in errors.iterrows()]
    return table(["model", *errors.columns], lines)


def words(splits: int) -> dict[str, str]:
    """What is said about the method of the study; numbers come from the code that uses them."""
    return {
        "splits": str(splits),
        "rounds": str(ROUNDS),
        "folds": str(INNER_FOLDS),
        "level": f"{100 * LEVEL:.0f} %",
        "rows": str(data.ROWS),
        "distinct": str(data.DISTINCT),
        "classes": str(data.CLASSES),
        "minority": f"{100 * data.MINORITY:.0f} %",
        "training": str(data.TRAINING),
        "keel": data.KEEL,
        "seed": str(data.SEED),
        "drawn": str(data.REPORTED),
        "afforded": str(data.AFFORDED),
        "versions": versions(),
    }
