"""Draws ``layers.svg``, the way of the data through the layers: ``python docs/images/layers.py``."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

matplotlib.rcParams.update({"svg.hashsalt": "maboost", "font.size": 10})

FILL = {"in": "#eef1f6", "fit": "#dfe8fb", "round": "#fdebd3", "out": "#e2f2e4"}

# name: x, y, width, height, colour, folder, what happens there
BOXES = {
    "rows": (0.0, 4.2, 2.3, 1.5, "in", "data/", "rows, labels, weights:\nmemory, Parquet,\niterators"),
    "check": (2.9, 4.2, 2.5, 1.5, "fit", "estimators/", "check parameters, code\nlabels; weights become\nthe base measure D"),
    "bins": (6.0, 4.2, 2.3, 1.5, "fit", "learners/tree/", "bin the columns once,\none byte a cell"),
    "weak": (9.4, 4.2, 2.8, 1.5, "round", "learners/", "grow a tree for weights D·u:\nthe hypothesis h"),
    "search": (9.4, 2.0, 2.8, 1.5, "round", "boosting/", "the loss d and the edge γ\nof h on all rows"),
    "move": (5.6, 2.0, 2.9, 1.5, "round", "engine/", "step η; move u along d,\nproject it; the gain"),
    "proof": (2.9, 2.0, 2.2, 1.5, "out", "boosting/", "certificate\nand history\nfrom the gains"),
    "model": (0.0, 2.0, 2.3, 1.5, "out", "estimators/", "H = Σ η h:\npredict, margins,\nsuspect labels"),
    "files": (0.0, 0.0, 5.1, 1.2, "out", "io/  plot/  report/  cli/", "model file, exports, plots, report"),
    "theory": (5.6, 0.0, 2.9, 1.2, "in", "mirror/", "Algorithm 1 in numpy: the\ntheory, and the tests' oracle"),
    "comm": (9.0, 0.0, 3.2, 1.2, "in", "runtime/", "threads, shards, integer sums\nwith the same bits for any number"),
}  # fmt: skip
# from, side, to, side, label
ARROWS = [
    ("rows", "r", "check", "l", ""), ("check", "r", "bins", "l", ""), ("bins", "r", "weak", "l", ""),
    ("weak", "b", "search", "t", "h"), ("search", "l", "move", "r", "d, γ"), ("move", "l", "proof", "r", ""),
    ("proof", "l", "model", "r", ""), ("model", "b", "files", "t", ""),
    ("theory", "t", "move", "b", "compiled"),
]  # fmt: skip


def at(name: str, side: str) -> tuple[float, float]:
    x, y, width, height, *_ = BOXES[name]
    middle = {"l": (0.0, 0.5), "r": (1.0, 0.5), "t": (0.5, 1.0), "b": (0.5, 0.0)}[side]
    if name == "files":
        middle = (1.15 / width, 1.0)
    return x + middle[0] * width, y + middle[1] * height


def arrow(axis: plt.Axes, start: tuple[float, float], end: tuple[float, float], **style) -> None:
    axis.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=14, lw=1.4, color="#444", **style
        )
    )


def main() -> None:
    figure, axis = plt.subplots(figsize=(10.4, 5.2), layout="constrained")
    for x, y, width, height, colour, folder, text in BOXES.values():
        box = FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            fc=FILL[colour],
            ec="#667",
        )
        axis.add_patch(box)
        centre = x + width / 2
        axis.text(
            centre,
            y + height - 0.12,
            folder,
            ha="center",
            va="top",
            weight="bold",
            family="monospace",
        )
        axis.text(centre, y + (height - 0.4) / 2, text, ha="center", va="center", fontsize=9.5)
    for start, out, end, into, label in ARROWS:
        (x0, y0), (x1, y1) = at(start, out), at(end, into)
        arrow(axis, (x0, y0), (x1, y1))
        aside = (0.2 + 0.055 * len(label), -0.05) if x0 == x1 else (0.05, 0.12)
        axis.text(
            (x0 + x1) / 2 + aside[0], (y0 + y1) / 2 + aside[1], label, ha="center", style="italic"
        )
    arrow(axis, (7.6, 3.5), (9.4, 4.4), connectionstyle="arc3,rad=-0.15")
    axis.text(7.95, 4.05, "u", ha="center", style="italic")
    axis.text(10.8, 5.85, "one round (boosting/loop.py)", ha="center", color="#a35a00")
    axis.set(xlim=(-0.15, 12.35), ylim=(-0.15, 6.15))
    axis.axis("off")
    target = Path(__file__).with_suffix(".svg")
    figure.savefig(target, metadata={"Date": None})
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
