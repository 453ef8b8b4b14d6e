"""Labels that are wrong in one direction: the error as is, and with flip rates
============================================================================

A growing share of the odd digits is labelled "even", as in records that miss cases. The picture shows the
error on the true labels of other rows: with the labels as they are, with the flip rate, and with a
rate that is a quarter too low or too high.

.. code-block:: console

    python examples/plot_one_sided_noise.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maboost import SmoothBoostClassifier

RATES = (0.0, 0.15, 0.3, 0.4, 0.5)


def main(target: str | None = None) -> None:
    X, digit = load_digits(return_X_y=True)
    odd = digit % 2
    X, X_test, odd, odd_test = train_test_split(X, odd, test_size=0.4, random_state=0)
    chance = np.random.default_rng(0).random(len(odd))

    def error(given, rate):
        model = SmoothBoostClassifier(flip_rates={1: rate}, n_estimators=80, random_state=0)
        return 100 * np.mean(model.fit(X, given).predict(X_test) != odd_test)

    factors = {"labels as they are": 0.0, "with the flip rate": 1.0}
    factors |= {"a quarter too low": 0.75, "a quarter too high": 1.25}
    errors = {name: [] for name in factors}
    for rate in RATES:
        given = np.where((odd == 1) & (chance < rate), 0, odd)
        for name, factor in factors.items():
            errors[name].append(error(given, factor * rate))

    print("flipped              " + "".join(f"{rate:>8.0%}" for rate in RATES))
    for name, values in errors.items():
        print(f"{name:<21}" + "".join(f"{value:>6.1f} %" for value in values))

    figure, ax = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
    styles = [
        ("#b5403a", "-", "o"),
        ("#4269d0", "-", "s"),
        ("#6cc5b0", "--", "v"),
        ("#9c6b4e", ":", "^"),
    ]
    for (name, values), (color, line, marker) in zip(errors.items(), styles, strict=True):
        ax.plot(RATES, values, color=color, linestyle=line, marker=marker, label=name)
    ax.set(
        xlabel="share of the odd digits labelled even", ylabel="error on true labels, in percent"
    )
    ax.set_ylim(bottom=0.0)
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    if target:
        figure.savefig(target, dpi=110)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:])
