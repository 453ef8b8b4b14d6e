"""What is certified and what is measured, round by round
======================================================

The training error stays below its certified bound. A cap on the weights of the rows (SmoothBoost)
has a price that can be read off: a floor below which nothing is certified. Nothing at all is
certified about the validation rows.

.. code-block:: console

    python examples/plot_bounds.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maboost import MABoostClassifier, SmoothBoostClassifier
from maboost.plot import BoundDisplay


def main(target: str | None = None) -> None:
    X, y = load_digits(return_X_y=True)
    X, X_val, y, y_val = train_test_split(X, y % 2, random_state=0)
    models = {
        "Any distribution": MABoostClassifier(n_estimators=25, random_state=0),
        "No row above 20 times its share": SmoothBoostClassifier(
            smoothness=20, n_estimators=25, random_state=0
        ),
    }
    figure, axes = plt.subplots(1, 2, figsize=(12, 4), layout="constrained", sharey=True)
    for ax, (title, model) in zip(axes, models.items(), strict=True):
        BoundDisplay.from_estimator(model.fit(X, y, X_val=X_val, y_val=y_val), ax=ax)
        ax.set_title(title)
    axes[0].get_legend().remove()
    axes[1].set_ylabel("")
    if target:
        figure.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
