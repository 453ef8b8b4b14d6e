"""Ranks of methods over data sets (Demšar, 2006): Friedman's test, Nemenyi's critical difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, studentized_range

LEVEL = 0.05


@dataclass(frozen=True)
class Ranking:
    """Mean ranks, best first; differences of `critical` and more are significant."""

    mean_ranks: pd.Series
    critical: float
    p_value: float

    @property
    def significant(self) -> dict[str, list[str]]:
        """Whom each method beats significantly; nobody, unless Friedman's test finds a difference."""
        ranks = self.mean_ranks
        if self.p_value >= LEVEL:
            return {}
        beaten = {m: list(ranks.index[ranks - r >= self.critical]) for m, r in ranks.items()}
        return {str(method): others for method, others in beaten.items() if others}

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The largest runs of neighbours that do not differ significantly."""
        ranks = self.mean_ranks.to_numpy()
        runs: list[tuple[int, int]] = []
        for first in range(len(ranks)):
            last = int(np.flatnonzero(ranks - ranks[first] < self.critical)[-1])
            if last > first and (not runs or last > runs[-1][1]):
                runs.append((first, last))
        names = self.mean_ranks.index
        return [tuple(names[first : last + 1]) for first, last in runs]


def ranking(errors: pd.DataFrame) -> Ranking:
    """From errors of data sets (rows) and methods (columns); equal errors share their ranks."""
    ranks = pd.DataFrame(
        rankdata(errors.to_numpy().round(12), axis=1), errors.index, errors.columns
    )
    test = friedmanchisquare(*(errors[method].round(12) for method in errors))
    return Ranking(
        ranks.mean().sort_values(kind="stable"),
        critical_difference(errors.shape[1], errors.shape[0]),
        float(test.pvalue),
    )


def critical_difference(methods: int, data_sets: int, level: float = LEVEL) -> float:
    r""":math:`q_\alpha\sqrt{k(k+1)/(6N)}` with q the studentized range over :math:`\sqrt2`.

    >>> round(critical_difference(4, 14), 2)  # Demšar's example: 2.569 * sqrt(4 * 5 / (6 * 14))
    1.25
    """
    q = studentized_range.ppf(1.0 - level, methods, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(methods * (methods + 1) / (6.0 * data_sets)))


def duels(errors: pd.DataFrame, ours: str) -> pd.DataFrame:
    """Data sets won, tied and lost by one method against each other one."""
    others = errors.drop(columns=ours).round(12)
    mine = errors[[ours]].round(12).to_numpy()
    return pd.DataFrame(
        {
            "wins": (mine < others).sum(),
            "ties": (mine == others).sum(),
            "losses": (mine > others).sum(),
        }
    )
