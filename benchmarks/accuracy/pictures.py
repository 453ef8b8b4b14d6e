"""Critical-difference diagrams, and errors under noise next to errors without."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from benchmarks.accuracy.methods import OURS
from benchmarks.accuracy.ranks import Ranking
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

OWN, OTHER = "#1f4fc4", "#444444"
# one colour a line, ours drawn through and the others dashed: told apart without colours too
LINES = dict(zip(OURS, ("#0072b2", "#d55e00", "#009e73", "#7b3294"), strict=True))
DASHED = ("#222222", "#8a6d00", "#b0457f", "#5a8fc0", "#7f7f7f")


def colour(method: str) -> str:
    return OWN if method in OURS else OTHER


def draw_ranking(axes: Axes, found: Ranking, title: str) -> None:
    """Demšar's diagram: methods on an axis of mean ranks, bars over those that do not differ."""
    ranks, groups = found.mean_ranks, found.groups
    low, high = 1, len(ranks)
    half = (len(ranks) + 1) // 2
    first = 0.55 + 0.22 * len(groups)  # depth of the first label, below the bars
    for place, (method, rank) in enumerate(ranks.items()):
        left = place < half
        depth = first + 0.45 * (place if left else len(ranks) - 1 - place)
        edge = low - 0.25 if left else high + 0.25
        axes.plot([rank, rank, edge], [0, -depth, -depth], color=colour(method), lw=1.1)
        text = f"{method}  {rank:.2f}" if left else f"{rank:.2f}  {method}"
        side = "right" if left else "left"
        shift = -0.08 if left else 0.08
        axes.text(edge + shift, -depth, text, ha=side, va="center", color=colour(method))
    for level, group in enumerate(groups):
        ends = ranks[group[0]] - 0.04, ranks[group[-1]] + 0.04
        axes.plot(ends, [-0.25 - 0.22 * level] * 2, color="black", lw=3.2, solid_capstyle="butt")
    axes.plot([low, high], [0, 0], color="black", lw=1)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, 0.12], color="black", lw=1)
        axes.text(tick, 0.2, str(tick), ha="center", va="bottom")
    axes.plot([low, low + found.critical], [0.95, 0.95], color="black", lw=2, marker="|")
    axes.text(low + found.critical + 0.12, 0.95, f"CD = {found.critical:.2f}", va="center")
    axes.set_title(title, pad=10)
    axes.set(xlim=(low - 2.6, high + 2.6), ylim=(-first - 0.45 * half, 1.25))
    axes.axis("off")


def save_ranking(found: Ranking, title: str, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    draw_ranking(axes, found, title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def save_overview(ranks: pd.DataFrame, path: Path) -> None:
    """Mean ranks of the methods (rows) over the kinds of noise (columns)."""
    figure, axes = plt.subplots(figsize=(9.5, 4.8), layout="constrained")
    places = range(ranks.shape[1])
    others = [method for method in ranks.index if method not in OURS]
    colours = LINES | dict(zip(others, DASHED, strict=False))
    labels = _apart(ranks.iloc[:, -1], 0.21)
    for method, row in ranks.iterrows():
        own, ink = method in OURS, colours[method]
        look = (
            {"lw": 2.2, "ls": "-", "marker": "o"} if own else {"lw": 1.2, "ls": "--", "marker": "s"}
        )
        axes.plot(places, row, color=ink, markersize=5, **look)
        leader = [row.iloc[-1], labels[method], labels[method]]
        axes.plot(places[-1] + np.array([0.06, 0.2, 0.26]), leader, color=ink, lw=0.8)
        axes.text(places[-1] + 0.29, labels[method], method, va="center", color=ink)
    axes.set_ylim(ranks.to_numpy().min() - 0.2, max(ranks.to_numpy().max(), labels.max()) + 0.2)
    axes.set_xticks(list(places), ranks.columns)
    axes.set(xlim=(-0.2, len(places) + 0.2), ylabel="mean rank over the data sets (1 is best)")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _apart(at: pd.Series, gap: float) -> pd.Series:
    """Places for labels as near to their lines as may be, none closer than a gap to the one before."""
    ends = at.sort_values(kind="stable")
    gaps = gap * np.arange(len(ends))
    return pd.Series(isotonic_regression(ends.to_numpy() - gaps).x + gaps, ends.index)
