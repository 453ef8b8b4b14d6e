"""What the study of accuracy compares, and the claims that it tests. Written before the study was run.

One entry is ours, `SmoothBoostClassifier`: without flip rates it stands against the methods as they are, and with the
known rates where a direction of the noise is known. The best of several of our boosters is never taken.

The unit of every test is a table: the mean error over the splits, for the one-sided noise also over the two classes.
The tests are Wilcoxon signed-rank tests over the tables, at each number of training rows by itself, with Holm's
correction within each of the two families below.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.studies.methods import METHODS, OURS
from benchmarks.studies.noise import NOISES, NONE, ONE_SIDED, UNIFORM

__all__ = ["DECLARED_NOISES", "DRAWS", "LEVEL", "NOT_WORSE", "SIZES", "SPLITS", "SUPERIOR", "Claim"]

SIZES = (500, 3_000, 20_000)
DRAWS = 25  # settings that each method may try
SPLITS = 10  # on which the chosen setting is measured
LEVEL = 0.05
METRIC = "error"

KNOWN = f"{OURS}, known rates"
CORRECTED = "LightGBM, known rates"
BOOSTERS = ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting", "EBM", "AdaBoost")

DECLARED_NOISES = (NONE, *ONE_SIDED, UNIFORM)


@dataclass(frozen=True)
class Claim:
    """The error of `ours` under these kinds of noise against that of `other`."""

    ours: str
    other: str
    noises: tuple[str, ...]


# The tests ask whether ours has the smaller error.
SUPERIOR = tuple(Claim(KNOWN, other, ONE_SIDED) for other in ("LightGBM", "XGBoost", "CatBoost"))

# The tests ask whether ours has the larger error; the claim stands if no test says so.
NOT_WORSE = (
    Claim(KNOWN, CORRECTED, ONE_SIDED),
    *(Claim(OURS, other, (noise,)) for noise in (NONE, UNIFORM) for other in BOOSTERS),
)


def stages() -> list[tuple[int, tuple[str, ...]]]:
    """Return training rows and kinds of noise in the order in which they are measured."""
    others = tuple(noise for noise in NOISES if noise not in DECLARED_NOISES)
    return [
        (500, DECLARED_NOISES),
        (3_000, DECLARED_NOISES),
        (500, others),
        (3_000, others),
        (20_000, DECLARED_NOISES),
        (20_000, others),
    ]


def methods_under(noise: str) -> list[str]:
    """Return the methods that are measured; without wrong labels there are no flip rates to tell."""
    return [name for name, method in METHODS.items() if noise != NONE or method.rates is None]
