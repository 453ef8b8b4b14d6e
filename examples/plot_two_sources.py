"""A few audited rows and many scraped ones
========================================

Of the scraped rows 40 % of the odd digits are labelled "even"; the audited labels are right. The picture
compares, for a growing number of audited rows, the error on true labels of three models: fitted on the
audited rows alone, on all rows as they are, and on all rows with flip rates by source.

.. code-block:: console

    python examples/plot_two_sources.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maboost import CombinedBoostClassifier

AUDITED = (50, 100, 200, 400)
RATES = {"audited": 0.0, "scraped": {"odd": 0.4}}


def main(target: str | None = None) -> None:
    X, digit = load_digits(return_X_y=True)
    true = np.where(digit % 2 == 1, "odd", "even")
    X, X_test, true, true_test = train_test_split(X, true, test_size=0.4, random_state=0)
    rng = np.random.default_rng(0)
    missed = (true == "odd") & (rng.random(len(true)) < 0.4)
    order = rng.permutation(len(true))

    def error(model):
        return 100 * np.mean(model.predict(X_test) != true_test)

    errors = {"audited rows alone": [], "all rows as they are": [], "flip rates by source": []}
    for number in AUDITED:
        source = np.full(len(true), "scraped")
        source[order[:number]] = "audited"
        given = np.where(missed & (source == "scraped"), "even", true)
        audited = source == "audited"
        plain = CombinedBoostClassifier(early_stopping=True, random_state=0)
        by_source = CombinedBoostClassifier(flip_rates=RATES, early_stopping=True, random_state=0)
        errors["audited rows alone"].append(error(plain.fit(X[audited], given[audited])))
        errors["all rows as they are"].append(error(plain.fit(X, given)))
        errors["flip rates by source"].append(error(by_source.fit(X, given, sample_domain=source)))

    print("audited rows         " + "".join(f"{number:>8}" for number in AUDITED))
    for name, values in errors.items():
        print(f"{name:<21}" + "".join(f"{value:>6.1f} %" for value in values))

    figure, ax = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
    styles = [("#6e7079", "--", "v"), ("#b5403a", "-", "o"), ("#4269d0", "-", "s")]
    for (name, values), (color, line, marker) in zip(errors.items(), styles, strict=True):
        ax.plot(AUDITED, values, color=color, linestyle=line, marker=marker, label=name)
    ax.set(xlabel=f"audited rows, of {len(true):,}", ylabel="error on true labels, in percent")
    ax.set_xscale("log")
    ax.set_xticks(AUDITED, [str(number) for number in AUDITED])
    ax.minorticks_off()
    ax.set_ylim(bottom=0.0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    if target:
        figure.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
