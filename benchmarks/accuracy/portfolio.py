"""The four settings of each contestant, drawn from its pool by one rule, on the tuning data sets only.

A greedy portfolio: first the setting of least mean error, then always the one that most lowers the
mean, over data sets and kinds of noise, of the least error in the portfolio. Errors count relative to
the mean of the pool on the same task, so that no hard data set decides alone.
"""

from __future__ import annotations

import pandas as pd

SIZE = 4


def portfolio(errors: pd.DataFrame, size: int = SIZE) -> list[int]:
    """Columns picked from errors of tasks (rows) and settings (columns), in the order of picking.

    >>> errors = pd.DataFrame([[1, 2, 9], [2, 2, 9], [9, 7, 1]])
    >>> portfolio(errors, size=2)
    [1, 2]
    """
    scaled = errors.div(errors.mean(axis=1).clip(lower=1e-3), axis=0)
    picked: list[int] = []
    while len(picked) < size:
        rest = [column for column in scaled if column not in picked]
        picked.append(min(rest, key=lambda c: float(scaled[[*picked, c]].min(axis=1).mean())))
    return picked
