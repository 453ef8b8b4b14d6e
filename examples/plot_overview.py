"""One data set, three distributions: the picture of the README.

Run it to write docs/images/overview.png, or with ``--out`` another file.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maboost import MABoostClassifier, SmoothBoostClassifier, SparseBoostClassifier

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "overview.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE, help="where to write the picture")
    target = parser.parse_args().out
    X, y = load_digits(return_X_y=True)
    y = y % 2
    alike = {"n_estimators": 40, "learning_rate": 1.0, "max_depth": 3, "random_state": 0}
    models = {
        "any distribution (AdaBoost)": MABoostClassifier(**alike),
        "capped: smoothness 4": SmoothBoostClassifier(smoothness=4, **alike),
        "sparse: exact zeros": SparseBoostClassifier(**alike),
    }
    colors = ("#4269d0", "#efb118", "#3ca951")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for color, (name, model) in zip(colors, models.items(), strict=True):
        model.fit(X, y)
        density = np.sort(model.distribution_ * len(y))[::-1]
        share = np.arange(1, len(y) + 1) / len(y)
        left.plot(share, density, color=color, label=name)
        history = model.history_
        right.plot(history["round"], history["error_bound"], color=color, linestyle="--")
        right.plot(history["round"], history["train_error"], color=color)
    left.set(
        xlabel="fraction of the training rows, heaviest first",
        ylabel="weight relative to the row's share",
        title="The distribution after 40 rounds",
        ylim=(0, 12),
    )
    left.legend(frameon=False)
    right.set(
        xlabel="round",
        ylabel="training error",
        title="Certified (dashed) and measured (solid)",
        ylim=(0, 1),
    )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=110)
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
