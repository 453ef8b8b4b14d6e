"""The tests of the declared claims: Wilcoxon's signed-rank test over tables, Holm's correction, effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from benchmarks.studies.declared import LEVEL, METRIC, Claim
from numpy.typing import ArrayLike, NDArray
from scipy.stats import wilcoxon

__all__ = ["TABLES", "Outcome", "errors", "holm", "median_interval", "outcomes"]

TABLES = 10  # at least, for a test

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Outcome:
    """A claim at a number of training rows; differences are ours minus the other's, over tables."""

    claim: Claim
    tables: int
    wins: int
    losses: int
    median: float
    interval: tuple[float, float]
    p: float
    corrected: float

    @property
    def significant(self) -> bool:
        """Whether the test rejects at the declared level, after the correction."""
        return self.corrected < LEVEL


def errors(
    found: pd.DataFrame, n: int, noises: Sequence[str], methods: Sequence[str], metric: str = METRIC
) -> pd.DataFrame:
    """Return the mean of a metric over kinds of noise, by table and method.

    Only tables count on which all methods were measured under all the kinds of noise.
    """
    part = found[found["n"].astype(str) == str(n)]
    part = part[part["noise"].isin(noises) & part["method"].isin(methods)]
    if part.empty:
        return pd.DataFrame(columns=list(methods), dtype=np.float64)
    wide = part.set_index(["table", "method", "noise"])[metric].unstack(["method", "noise"])
    columns = pd.MultiIndex.from_product([methods, noises], names=["method", "noise"])
    whole = wide.reindex(columns=columns).dropna()
    return pd.DataFrame({method: whole[method].mean(axis=1) for method in methods})


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return p-values after Holm's correction (Holm, 1979).

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def median_interval(differences: ArrayLike) -> tuple[float, float]:
    """Return the 95 % percentile interval of the median over resamples of the tables."""
    values = np.asarray(differences, dtype=np.float64)
    rows = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[rows], axis=1), [0.025, 0.975])
    return float(low), float(high)


def _p_value(differences: NDArray[np.float64], alternative: Literal["less", "greater"]) -> float:
    if not differences.any():  # scipy divides by zero
        return 1.0
    return float(wilcoxon(differences, zero_method="pratt", alternative=alternative).pvalue)


def outcomes(
    found: pd.DataFrame, n: int, claims: Sequence[Claim], alternative: Literal["less", "greater"]
) -> list[Outcome]:
    """Test a family of claims at one number of training rows; an empty list if a claim has too few tables.

    The alternative "less" asks whether the error of ours is smaller, "greater" whether it is larger.
    """
    parts = []
    for claim in claims:
        each = errors(found, n, claim.noises, (claim.ours, claim.other))
        if len(each) < TABLES:
            return []
        # digits beyond those of the file are no differences
        parts.append((each[claim.ours] - each[claim.other]).round(8).to_numpy())
    p = [_p_value(d, alternative) for d in parts]
    return [
        Outcome(
            claim, len(d), int((d < 0).sum()), int((d > 0).sum()), float(np.median(d)),
            median_interval(d), p_value, float(corrected),
        )
        for claim, d, p_value, corrected in zip(claims, parts, p, holm(p), strict=True)
    ]  # fmt: skip
