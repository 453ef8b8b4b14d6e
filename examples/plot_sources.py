"""Two sources of unequal trust: the error on each, beside what is allowed and what is certified
=============================================================================================

A third of the rows has good labels; of the rest 15 % are flipped, and a fifth may stay wrong. The
trusted source is certified far below what the other source is.

.. code-block:: console

    python examples/plot_sources.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maboost import CombinedBoostClassifier
from maboost.plot import DomainErrorDisplay


def main(target: str | None = None) -> None:
    X, y = load_digits(return_X_y=True)
    y, rng = y % 2, np.random.default_rng(0)
    source = np.where(rng.random(len(y)) < 1 / 3, "trusted", "scraped")
    flipped = (source == "scraped") & (rng.random(len(y)) < 0.15)
    y = np.where(flipped, 1 - y, y)

    limits = {"trusted": None, "scraped": 0.2}
    model = CombinedBoostClassifier(error_limits=limits, n_estimators=150, random_state=0)
    display = DomainErrorDisplay.from_estimator(model.fit(X, y, sample_domain=source))
    print(model.certificate_)
    if target:
        display.figure_.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
