"""Which measurements of a tumour does the model use?
==================================================

The importance of a feature is the share of the trees' gain that its splits brought. It says what
the model used: of several features that tell the same, one may get all of it.

.. code-block:: console

    python examples/plot_importance.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from maboost import SmoothBoostClassifier
from maboost.plot import FeatureImportanceDisplay


def main(target: str | None = None) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = SmoothBoostClassifier(n_estimators=30, random_state=0).fit(X, y)
    display = FeatureImportanceDisplay.from_estimator(model, max_features=15)
    if target:
        display.figure_.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
