"""The picture of the study: differences of errors, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from benchmarks.studies.claims import errors, median_interval
from matplotlib.axes import Axes

__all__ = ["save_differences"]

INK, DOT, MARK = "#1b1f27", "#9aa0ab", "#1f4fc4"


def save_differences(
    found: pd.DataFrame,
    n: int,
    panels: Sequence[tuple[str, str, Sequence[str], Sequence[str]]],
    path: Path,
) -> None:
    """Draw a panel for each (title, ours, others, kinds of noise): a dot is a table, a bar an interval of the median.

    A panel with the same other methods as the one on its left shows their names only once.
    """
    rows = max(len(others) for _, _, others, _ in panels)
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(12, 0.36 * rows + 1.7),
        layout="constrained",
        width_ratios=[1.25] + [1.0] * (len(panels) - 1),
    )
    before: Sequence[str] = ()
    for ax, panel in zip(np.atleast_1d(axes), panels, strict=True):
        _panel(ax, found, n, *panel)
        if panel[2] == before:
            ax.set_yticklabels([])
        before = panel[2]
    figure.supxlabel(
        "error minus that of ours, in percentage points: right of 0 ours is better",
        fontsize=11,
        color=INK,
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(
    ax: Axes,
    found: pd.DataFrame,
    n: int,
    title: str,
    ours: str,
    others: Sequence[str],
    noises: Sequence[str],
) -> None:
    for place, other in enumerate(others):
        each = errors(found, n, noises, (ours, other))
        points = 100.0 * (each[other] - each[ours]).to_numpy()
        spread = np.linspace(-0.2, 0.2, len(points)) if len(points) > 1 else np.zeros(len(points))
        ax.plot(points, place + spread, "o", color=DOT, markersize=3.5, mec="none", zorder=1)
        if len(points):
            ax.plot(median_interval(points), [place, place], color=MARK, lw=3, zorder=2)
            ax.plot(np.median(points), place, "o", color=MARK, markersize=7, zorder=3)
    ax.axvline(0.0, color=INK, lw=1)
    ax.set_yticks(range(len(others)), others)
    ax.set_ylim(len(others) - 0.5, -0.5)
    ax.set_title(title, fontsize=11, loc="left", color=INK)
    ax.tick_params(colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
