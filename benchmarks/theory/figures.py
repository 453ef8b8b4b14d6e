"""A picture for every study, in the colours and dashes of `maboost.plot`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.theory.common import ORDERS, Table, where
from benchmarks.theory.rates import MADA_STEPS

from maboost.plot._axes import (
    BLUE,
    DASHES,
    GREEN,
    GREY,
    HUES,
    ORANGE,
    RED,
    legend_beside,
    limit_style,
    plain_numbers,
    pyplot,
    tidy,
)

Tables = dict[str, Table]
MARKERS = "osD^v"
EDGE_MARKERS = {0.1: "o", 0.2: "s", 0.4: "D", 0.6: "^"}
ORDER_COLOURS = dict(zip(ORDERS, (BLUE, ORANGE), strict=True))
BOOSTER_STYLES: dict[str, dict[str, Any]] = {
    "max-margin, entropy": {"color": BLUE, "linestyle": DASHES[0]},
    "max-margin, euclidean": {"color": GREEN, "linestyle": DASHES[2]},
    "AdaBoost (corrective)": {"color": RED, "linestyle": DASHES[3]},
    "AdaBoost (scikit-learn)": {"color": "black", "linestyle": DASHES[1], "linewidth": 1.0},
    "LPBoost (HiGHS)": {"color": ORANGE, "linestyle": DASHES[1]},
}


def column(table: Table, name: str) -> np.ndarray:
    return np.array([row[name] for row in table], dtype=float)


def distinct(table: Table, name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in table))


def save(figure: Any, path: Path) -> None:
    """Write beside, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.stem}.new{path.suffix}")
    figure.savefig(beside, dpi=110)
    pyplot().close(figure)
    beside.replace(path)


def plain_x(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def legend_below(figure: Any, axes: Iterable[Any], columns: int) -> None:
    """One legend for all panels, under them, where it hides no line."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False
    )


def _rate_panel(ax: Any, part: Table, power: int) -> None:
    edges = distinct(part, "edge")
    for learner in ORDERS:
        colour, dashes = ORDER_COLOURS[learner], DASHES[ORDERS.index(learner)]
        for edge in edges:
            rows = where(part, learner=learner, edge=edge)
            x, scale = 1.0 / column(rows, "target"), edge**power
            ax.plot(
                x, scale * column(rows, "rounds"), marker=EDGE_MARKERS[edge], markersize=5.5,
                color=colour, markerfacecolor=colour if learner == ORDERS[0] else "none",
                linewidth=0.9, linestyle=dashes, label=f"{learner}, edge {edge:g}",
            )  # fmt: skip
            if learner == ORDERS[0] and (power == 4 or edge == edges[0]):
                promised = scale * column(rows, "theorem_rounds")
                ax.plot(x, promised, label="theorem", **limit_style())


def rates(tables: Tables) -> Any:
    """Rounds times the square of the edge (its fourth power for the margin) by one over the target."""
    figure, axes = pyplot().subplots(2, 3, figsize=(12, 8), layout="constrained")
    order = ("1, entropy", "1, euclidean", "2, margin", "3, smooth", "4, sparse", "5, MadaBoost")
    for ax, theorem in zip(axes.flat, order, strict=True):
        power = 4 if theorem == "2, margin" else 2
        _rate_panel(ax, where(tables["rates"], theorem=theorem), power)
        ax.set(xscale="log", yscale="log", title=f"Theorem {theorem}")
        ax.set_xlabel("edge / margin's shortfall" if power == 4 else "1 / target error")
        ax.set_ylabel(rf"rounds $\cdot$ edge$^{power}$")
        if power == 4:
            ax.set_xticks([1, 2, 5])
        plain_x(ax)
        tidy(ax)
    legend_below(figure, axes.flat, 3)
    figure.suptitle("Rounds to a target with a weak learner of exactly the promised edge")
    return figure


def madaboost(tables: Tables) -> Any:
    table = tables["madaboost"]
    figure, ax = pyplot().subplots(figsize=(8.4, 4.8), layout="constrained")
    for step, colour, marker in zip(MADA_STEPS, (RED, BLUE, GREEN), MARKERS, strict=False):
        for learner in ORDERS:
            rows = where(table, step=step, learner=learner)
            ax.plot(
                1.0 / column(rows, "target"), column(rows, "rounds"), color=colour, marker=marker,
                markersize=5, linestyle=DASHES[ORDERS.index(learner)], linewidth=1.2,
                markerfacecolor=colour if learner == ORDERS[0] else "none",
                label=f"{step} step, {learner}",
            )  # fmt: skip
    rows = where(table, step="paper", learner=ORDERS[0])
    x = 1.0 / column(rows, "target")
    ax.plot(x, column(rows, "paper_rounds"), label="2/(ε²γ²), the paper's step", **limit_style())
    ax.plot(x, column(rows, "our_rounds"), label="2/(εγ²), ours", **limit_style(GREY))
    ax.set(xscale="log", yscale="log", xlabel="1 / target error", ylabel="rounds")
    ax.set_title(f"MadaBoost: rounds to a target error, edge {rows[0]['edge']:g}")
    plain_x(ax)
    legend_beside(ax)
    tidy(ax)
    return figure


def _margin_lines(ax: Any, table: Table, names: Iterable[str], x: str) -> None:
    for name in names:
        rows = where(table, booster=name)
        style = {"linewidth": 1.6, **BOOSTER_STYLES[name]}
        ax.plot(column(rows, x), column(rows, "margin"), label=name, **style)


def margins(tables: Tables) -> Any:
    figure, axes = pyplot().subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
    titles = (
        ("margins", "breast cancer, stumps"),
        ("cycling", "eight hypotheses on which AdaBoost cycles"),
    )
    for ax, (key, title) in zip(axes, titles, strict=True):
        table = tables[key]
        names = [n for n in distinct(table, "booster") if n != "LPBoost (HiGHS)"]
        _margin_lines(ax, table, names, "trees")
        optimum = table[0]["optimum"]
        ax.axhline(optimum, label="the linear program's", **limit_style())
        ax.set(xscale="log", xlabel="round", ylabel="smallest margin", title=title)
        ax.set_ylim((-1.0, 0.2) if key == "margins" else (0.1, 0.4))
        ax.set_xlim(left=10)
        plain_x(ax)
        tidy(ax)
    legend_below(figure, axes, 3)
    return figure


def lpboost(tables: Tables) -> Any:
    figure, axes = pyplot().subplots(1, 2, figsize=(11.5, 4.8), sharey=True, layout="constrained")
    optimum = tables["margins"][0]["optimum"]
    names = [n for n in BOOSTER_STYLES if n != "AdaBoost (scikit-learn)"]
    for ax, key, x, label in zip(
        axes, ("margins", "times"), ("trees", "seconds"), ("trees", "seconds"), strict=True
    ):
        _margin_lines(ax, tables[key], names, x)
        ax.axhline(optimum, label=f"linear program, {optimum:.4g}", **limit_style())
        ax.set(xscale="log", xlabel=label, ylim=(-1.0, 0.2))
        plain_x(ax)
        tidy(ax)
    axes[0].set_xlim(left=10)
    axes[1].set_xlim(left=0.01)
    axes[0].set_ylabel("smallest margin")
    legend_below(figure, axes, 3)
    figure.suptitle("LPBoost and the boosters on breast cancer, the same stumps")
    return figure


def sparsity(tables: Tables) -> Any:
    table = tables["sparsity"]
    figure, axes = pyplot().subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    ways = [way for way in distinct(table, "way") if way != "all rows"]
    for ax, data in zip(axes, distinct(table, "data"), strict=True):
        for way, colour, marker in zip(ways, HUES, MARKERS, strict=False):
            rows = where(table, data=data, way=way)
            x, y = column(rows, "rows_shown"), column(rows, "test_error")
            line = "-" if way == "sparsity" else "none"
            ax.errorbar(
                x, y, yerr=column(rows, "spread"), color=colour, marker=marker, linestyle=line,
                markerfacecolor=colour if way == "sparsity" else "none", linewidth=1.2, markersize=7,
                capsize=2, label=way,
            )  # fmt: skip
        full = where(table, data=data, way="all rows")[0]["test_error"]
        ax.axhline(full, label="MABoost, all rows", **limit_style())
        ax.set(title=data, xlabel="share of the rows shown to a tree (mean)", xlim=(0.0, 1.0))
        ax.set_ylabel("test error")
        tidy(ax)
    axes[0].legend(frameon=False, loc="upper right")
    figure.suptitle("SparseBoost: rows left out against accuracy")
    return figure


def stairs(tables: Tables) -> Any:
    table = tables["stairs"]
    figure, axes = pyplot().subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    left, right = axes
    x, y = column(table, "theta_0"), column(table, "theta_1")
    left.plot(x, y, color=BLUE, linewidth=1.2)
    for at in _arrow_places(x, y):
        left.annotate(
            "", (x[at + 1], y[at + 1]), (x[at], y[at]),
            arrowprops={"arrowstyle": "-|>", "color": BLUE, "mutation_scale": 18},
        )  # fmt: skip
    left.set(xlabel="dual point of row 0", ylabel="dual point of row 1")
    left.set_title("The loop, with the same edge in every round")
    rounds = column(table, "round")
    right.plot(rounds, column(table, "error"), color=GREY, linewidth=0.5, label="training error")
    least = column(table, "least_error")
    right.plot(rounds, least, color=BLUE, linewidth=2.0, label="least error so far")
    bound = column(table, "theorem_1_bound")
    right.plot(rounds, bound, color=ORANGE, linestyle=DASHES[1], label="Theorem 1 would allow")
    right.plot(rounds, column(table, "edge"), color=RED, linestyle=DASHES[2], label="edge")
    right.set(xlabel="round", ylabel="error or edge", yscale="log", ylim=(0.01, 1.0))
    right.set_title("Positive edges for ever, and no progress")
    plain_numbers(right)
    right.legend(frameon=False, fontsize=9, loc="upper right")
    for ax in axes:
        tidy(ax)
    figure.suptitle("Lazy double projection, Euclidean, orthant then simplex: a counterexample")
    return figure


def _arrow_places(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Where the first loop is halfway along each of its three sides."""
    half = 0.5 * x.max()
    start = int(np.argmax(x > half))
    over = start + int(np.argmax(y[start:] > 0.25 * x.max()))
    down = over + int(np.argmax(x[over:] < 0.25 * x.max()))
    return [start, over, down]


FIGURES: dict[str, Callable[[Tables], Any]] = {
    "rates": rates,
    "madaboost": madaboost,
    "margins": margins,
    "lpboost": lpboost,
    "sparsity": sparsity,
    "lazy": stairs,
}


def draw(tables: Tables, folder: Path) -> None:
    for name, picture in FIGURES.items():
        save(picture(tables), folder / f"theory_{name}.png")
