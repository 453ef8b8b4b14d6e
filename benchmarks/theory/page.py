"""The page docs/theory-evidence.md: a table, a picture and a few sentences a study."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from benchmarks.theory.common import ORDERS, Table, where
from benchmarks.theory.rates import MADA_STEPS, slope

from maboost import __version__

Tables = dict[str, Table]
TEMPLATE = Path(__file__).with_name("page.md")
SHARES = (0.5, 0.9, 0.95, 0.99)


def markdown(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def count(value: float) -> str:
    """A number of rounds or trees; nothing reached is a dash."""
    return "-" if value != value else f"{int(value):,}"


def rates(tables: Tables) -> str:
    lines = []
    for theorem in sorted({row["theorem"] for row in tables["rates"]}):
        part = where(tables["rates"], theorem=theorem)
        edge, target = (0.4, 0.2) if theorem == "2, margin" else (0.2, 0.01)
        found = [where(part, learner=o, edge=edge, target=target)[0] for o in ORDERS]
        slopes = [slope(where(part, learner=o, edge=edge)) for o in ORDERS]
        promised = found[0]["theorem_rounds"]
        worst = max(row["largest_ratio_to_bound"] for row in part)
        lines.append(
            [theorem, f"{edge:g}", f"{target:g}", *(count(row["rounds"]) for row in found),
             f"{promised:,}", ", ".join(f"{s:.2f}" for s in slopes), f"{worst:.2f}"]
        )  # fmt: skip
    head = ("theorem", "edge", "target", *ORDERS, "theorem", "exponents", "error / bound, at most")
    return markdown(head, lines)


def madaboost(tables: Tables) -> str:
    lines = []
    for step in MADA_STEPS:
        for learner in ORDERS:
            rows = where(tables["madaboost"], step=step, learner=learner)
            hits = [count(where(rows, target=target)[0]["rounds"]) for target in (0.1, 0.03, 0.01)]
            sums = [f"{rows[0][name]:.3f}" for name in ("sum_eps2_gamma2", "sum_eps_gamma2")]
            lines.append([step, learner, *hits, f"{slope(rows):.2f}", *sums])
    return markdown(
        ("step", "learner", "to 0.1", "to 0.03", "to 0.01", "exponent", "Σε²γ² (≤ 2)",
         "Σεγ² (≤ 2 for ours)"), lines,
    )  # fmt: skip


def margins(tables: Tables) -> str:
    lines = []
    for key, data in (("margins", "breast cancer"), ("cycling", "cycling example")):
        table = tables[key]
        for name in dict.fromkeys(row["booster"] for row in table):
            rows = where(table, booster=name)
            if name == "LPBoost (HiGHS)":
                continue
            at = [
                min(rows, key=lambda row, t=t: abs(np.log(row["trees"] / t))) for t in (100, 1000)
            ]
            last = rows[-1]
            certified = last.get("certified", np.nan)
            lines.append(
                [data, name, *(f"{row['margin']:.4f}" for row in at), f"{last['margin']:.4f}",
                 "-" if certified != certified else f"{certified:.4f}", f"{last['optimum']:.4f}"]
            )  # fmt: skip
    return markdown(
        ("data", "booster", "round 100", "round 1,000", "last round", "certified there",
         "linear program"), lines,
    )  # fmt: skip


def reached(rows: Table, column: str, level: float) -> float:
    """The first value of `column` at which the margin is at least `level`."""
    return next((row[column] for row in rows if row["margin"] >= level), float("nan"))


def lpboost(tables: Tables) -> str:
    optimum = tables["margins"][0]["optimum"]
    lines = []
    for name in dict.fromkeys(row["booster"] for row in tables["times"]):
        rows = where(tables["times"], booster=name)
        trees = [count(reached(rows, "trees", share * optimum)) for share in SHARES]
        seconds = [reached(rows, "seconds", share * optimum) for share in SHARES]
        lines.append([name, *trees, *("-" if s != s else f"{s:.2f}" for s in seconds)])
    heads = [f"trees to {share:.0%}" for share in SHARES] + [
        f"s to {share:.0%}" for share in SHARES
    ]
    return markdown(["booster", *heads], lines)


def sparsity(tables: Tables) -> str:
    lines = [
        [row["data"], row["way"], "" if row["way"] == "all rows" else f"{row['value']:g}",
         f"{row['rows_shown']:.2f}", f"{row['total_step']:.1f}", f"{row['train_error']:.3f}", f"{row['error_bound']:.2f}",
         f"{row['test_error']:.3f} ± {row['spread']:.3f}"]
        for row in tables["sparsity"]
    ]  # fmt: skip
    head = (
        "data",
        "way",
        "value",
        "rows shown",
        "sum of steps",
        "training error",
        "certified",
        "test error",
    )
    return markdown(head, lines)


def lazy(tables: Tables) -> str:
    lines = []
    for row in tables["lazy"]:
        ratios = [f"{row[f'largest_ratio_to_bound, {o}']:.3g}" for o in ORDERS]
        ends = [f"{row[f'error_at_end, {o}']:.3f}" for o in ORDERS]
        same = "yes" if row["difference_from_one_projection"] == 0.0 else "no"
        lines.append([row["sets"], same, f"{row['share_with_curl']:.2f}", *ratios, *ends])
    head = (
        "sets K to S", "same as one projection", "share with curl",
        *(f"error / Theorem 1, {o}" for o in ORDERS), *(f"error at the end, {o}" for o in ORDERS),
    )  # fmt: skip
    return markdown(head, lines)


def boxes(tables: Tables) -> str:
    lines = [
        [f"[0, {row['cube']:g}]", row["learner"], f"{row['largest_share_of_bound']:.2f}",
         f"{row['least_error']:.3f}"]
        for row in tables["boxes"]
    ]  # fmt: skip
    return markdown(("cube", "learner", "sum / its bound, at most", "least error"), lines)


def versions() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, maboost "
        f"{__version__}, numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn "
        f"{sklearn.__version__}, numba {numba.__version__}. All seeds are 0, but for the splits of the "
        "sparsity study (0, 1, 2) and the synthetic data of scikit-learn (0 and 3)."
    )


def page(tables: Tables) -> str:
    """The template beside this file, filled in."""
    last, program = tables["stairs"][-1], where(tables["margins"], booster="LPBoost (HiGHS)")[-1]
    return TEMPLATE.read_text().format(
        rates=rates(tables),
        madaboost=madaboost(tables),
        margins=margins(tables),
        lpboost=lpboost(tables),
        sparsity=sparsity(tables),
        lazy=lazy(tables),
        boxes=boxes(tables),
        versions=versions(),
        edge=last["edge"],
        rounds=last["round"],
        least_error=last["least_error"],
        bound=last["theorem_1_bound"],
        lp_trees=program["trees"],
        lp_used=program["used"],
        optimum=program["optimum"],
    )
