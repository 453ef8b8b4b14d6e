"""Wrong labels that the library found
===================================

Every twentieth label of the handwritten digits is changed to another digit. ``suspect_labels()`` ranks all 1,797
labels without knowing which. The picture shows the 16 most suspicious, in that order, with the given and the
predicted label; its title says how many of them were changed.

.. code-block:: console

    python examples/plot_found_labels.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maboost import SmoothBoostClassifier

SHARE, SHOWN = 0.05, 16


def main(target: str | None = None) -> None:
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    changed = rng.random(len(y)) < SHARE
    given = np.where(changed, (y + rng.integers(1, 10, len(y))) % 10, y)
    model = SmoothBoostClassifier(flip_rates=SHARE, n_estimators=50, random_state=0).fit(X, given)

    table = model.suspect_labels()
    first = changed[table.index[: changed.sum()]]
    print(f"{first.sum()} of the {changed.sum()} most suspicious labels had been changed")
    draw(X, table[:SHOWN], changed)
    if target:
        plt.savefig(target, dpi=110)
    else:
        plt.show()


def draw(X, table, changed) -> None:
    """Draw the rows of a table of suspects as images."""
    figure, axes = plt.subplots(2, len(table) // 2, figsize=(9.6, 3.5), layout="constrained")
    for ax, (row, its) in zip(axes.flat, table.iterrows(), strict=True):
        ax.imshow(X[row].reshape(8, 8), cmap="gray_r", interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"given {its['given_label']}\npredicted {its['predicted_label']}", fontsize=10)
        ax.spines[:].set(color="#9aa0ab")
    right = int(changed[table.index].sum())
    figure.suptitle(
        f"The {len(table)} most suspicious of {len(X):,} labels: {right} of them had been changed",
        fontsize=12,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
