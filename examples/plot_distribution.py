"""Three boosters, three distributions over the same rows
======================================================

From above: the largest weight, how much of the data counts, and how the weights are spread at the
end. With any distribution single rows weigh up to a hundred times their share; with a cap none can;
with SparseBoost a changing part of the rows has no weight at all.

.. code-block:: console

    python examples/plot_distribution.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from maboost import MABoostClassifier, SmoothBoostClassifier, SparseBoostClassifier
from maboost.plot import DistributionDisplay


def main(target: str | None = None) -> None:
    X, y = load_digits(return_X_y=True)
    models = {
        "Any distribution": MABoostClassifier(n_estimators=60, random_state=0),
        "Capped": SmoothBoostClassifier(smoothness=4, n_estimators=60, random_state=0),
        "Sparse": SparseBoostClassifier(n_estimators=60, random_state=0),
    }
    figure, axes = plt.subplots(1, 3, figsize=(14, 6), layout="constrained")
    for ax, (title, model) in zip(axes, models.items(), strict=True):
        display = DistributionDisplay.from_estimator(model.fit(X, y % 2), histogram=True, ax=ax)
        display.ax_.set_title(title)
    if target:
        figure.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
