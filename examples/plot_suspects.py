"""Which labels look wrong?
========================

A tenth of the labels is flipped. The picture shows the quality of every label, the worst first; the
script also says how many of the suspects really were flipped.

.. code-block:: console

    python examples/plot_suspects.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maboost import SmoothBoostClassifier
from maboost.plot import SuspectLabelsDisplay


def main(target: str | None = None) -> None:
    X, y = load_digits(return_X_y=True)
    y = y % 2
    flipped = np.random.default_rng(0).random(len(y)) < 0.1
    model = SmoothBoostClassifier(noise_rate=0.1, n_estimators=50, random_state=0)
    model.fit(X, np.where(flipped, 1 - y, y))

    table = model.suspect_labels().sort_index()
    suspect = table["is_label_issue"].to_numpy()
    print(f"{np.sum(suspect & flipped)} of {suspect.sum()} suspects were flipped, ", end="")
    print(f"of {flipped.sum()} flipped labels in all")
    display = SuspectLabelsDisplay.from_estimator(model)
    if target:
        display.figure_.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
