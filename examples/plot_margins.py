"""How the margins grow: cumulative distributions after several rounds
===================================================================

On the training rows the curves leave the left side: after some rounds no vote is wrong, and the
smallest margins go on growing while the largest shrink. On test rows a few stay wrong.

.. code-block:: console

    python examples/plot_margins.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maboost import MABoostClassifier
from maboost.plot import MarginDisplay


def main(target: str | None = None) -> None:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y % 2, random_state=0)
    model = MABoostClassifier(n_estimators=100, random_state=0).fit(X, y)

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    MarginDisplay.from_estimator(model, X, y, ax=axes[0])
    MarginDisplay.from_estimator(model, X_test, y_test, ax=axes[1])
    axes[0].set_title("Odd or even digit: training rows")
    axes[1].set(title="Test rows", ylabel="")
    if target:
        figure.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
