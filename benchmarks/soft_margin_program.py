"""The largest soft margin of some members as a linear program, solved by HiGHS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

__all__ = ["soft_margin", "solved"]

Array = np.ndarray


def solved(columns: Array, cap: float) -> tuple[Array, float, Array]:
    """The hardest distribution for all votes, the largest soft margin, and the votes.

    Minimise the best edge v over w, with columns @ w <= v, sum(w) = 1 and 0 <= w <= cap / n; `columns` has a row a
    member. The multipliers are the votes. An infinite cap means the smallest margin.
    """
    m, n = columns.shape
    found = linprog(
        np.r_[np.zeros(n), 1.0],
        A_ub=np.c_[columns, -np.ones(m)],
        b_ub=np.zeros(m),
        A_eq=np.r_[np.ones(n), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0.0, min(cap / n, 1.0))] * n + [(None, None)],
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"HiGHS did not solve the program of {m} members: {found.message}")
    w = np.maximum(found.x[:n], 0.0)
    votes = np.maximum(-found.ineqlin.marginals, 0.0)
    return w / w.sum(), float(found.fun), votes / votes.sum()


def soft_margin(margins: Array, cap: float) -> float:
    """The mean margin of the worst 1/cap of equal rows, with the row at the border in part."""
    room, left, total = min(cap / len(margins), 1.0), 1.0, 0.0
    for margin in np.sort(margins):
        mass = min(room, left)
        total, left = total + mass * margin, left - mass
        if left <= 0.0:
            break
    return float(total)
