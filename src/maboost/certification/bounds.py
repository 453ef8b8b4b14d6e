r"""Confidence bounds of an error rate on fresh rows.

Two bounds, each at least as likely to hold as its level says, for any number of rows:

- :func:`clopper_pearson`: the exact bounds of a share, for errors that are 0 or 1 and rows that count alike.
- :func:`betting_bounds`: bounds of a ratio :math:`r = E[N]/E[D]` of bounded variables, for weights and for
  losses that are unbiased for true labels.

The second inverts a test of :math:`E[N - tD] \ge 0` in t. The test bets against the hypothesis: for
:math:`\lambda \ge 0` with :math:`1 - \lambda(N - tD) \ge 0` the capital

.. math:: K_\lambda(t) = \prod_i \bigl(1 - \lambda(N_i - tD_i)\bigr)

has expectation at most 1 under the hypothesis, and so has a mixture over a fixed grid of :math:`\lambda`.
Markov's inequality rejects t where the mixture reaches :math:`1/\delta`. The product does not depend on the
order of the rows. For fixed :math:`\lambda` its logarithm is concave in t, so its minimum over
:math:`[t, 1]` is at an end. With that minimum instead of the capital the mixture increases in t, as long as its
weights are the same: they change between cells of t only, so that bisection within a cell finds the bound.

The weights of the mixture peak at :math:`\lambda = \sqrt{2\log(1/\delta)/(n\sigma^2)}`, the best bet for small
deviations, where :math:`\sigma^2` is the variance of N - tD in a reference population with error t. If the
population is another one, then the bounds are wider, and hold all the same.

Since :math:`1 + x \le e^x`, the expectation is at most 1 for rows that are independent and not identically
distributed, too, if the hypothesis holds for the sum of their expectations. The bounds therefore hold for
weights that are fixed by design.

References
----------
Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the case of the
binomial". Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

__all__ = [
    "Losses",
    "betting_bounds",
    "betting_rows_to_decide",
    "clopper_pearson",
    "rows_to_decide",
]

Array = NDArray[np.float64]

POWER = 0.8  # the probability with which the reported number of fresh rows decides a limit
MOST_ROWS = 10**9
_BISECTIONS = 30
_POINTS = 15  # points tried at a time, if there are few values
_FEW = 256
_BLOCK = 1 << 20  # numbers in memory at a time
_RATIO = math.sqrt(2.0)  # of neighbouring bets


def clopper_pearson(errors: int, rows: int, delta: float) -> tuple[float, float]:
    """Return the exact lower and upper bound of a share; each fails with probability at most `delta` / 2.

    >>> low, high = clopper_pearson(0, 100, 0.1)
    >>> low, round(high, 4)
    (0.0, 0.0295)
    """
    low = betaincinv(errors, rows - errors + 1, delta / 2.0) if errors else 0.0
    high = betaincinv(errors + 1, rows - errors, 1.0 - delta / 2.0) if errors < rows else 1.0
    return float(low), float(high)


def rows_to_decide(share: float, limit: float, delta: float) -> int | None:
    """Fresh rows with which :func:`clopper_pearson` probably decides a limit, if `share` is the truth.

    >>> rows_to_decide(0.0, 0.03, 0.1)
    99
    """
    from scipy.stats import binom

    def decided(n: int) -> bool:
        if share < limit:
            return clopper_pearson(int(binom.ppf(POWER, n, share)), n, delta)[1] <= limit
        return clopper_pearson(int(binom.ppf(1.0 - POWER, n, share)), n, delta)[0] > limit

    return None if share == limit else _first(decided)


@dataclass(frozen=True)
class Losses:
    """The distinct values of the numerator N and the denominator D on the rows, and the range of these values.

    Both depend on flip rates. If only a region of the rates is known, there is one line for each of its
    corners: N and D are affine in every single rate, so the capital of a bet is least at a corner.

    Attributes
    ----------
    numerator, denominator : arrays of shape (n_corners, n_values)
    counts : array of shape (n_values,)
        The number of rows with each value.
    extremes : tuple of two arrays of shape (n_corners, n_extremes)
        Numerators and denominators whose convex hull contains all possible values of a row.
    reference : array of shape (2, n_extremes)
        Probabilities of the extremes in a reference population, with a rate of 0 and with a rate of 1.
    """

    numerator: Array
    denominator: Array
    counts: Array
    extremes: tuple[Array, Array]
    reference: Array

    @property
    def reversed(self) -> Losses:
        """The losses of the rate 1 - r, whose upper bound is one minus the lower bound of r."""
        above, below = self.extremes
        return Losses(
            self.denominator - self.numerator,
            self.denominator,
            self.counts,
            (below - above, below),
            self.reference[::-1],
        )

    @property
    def estimates(self) -> Array:
        """The ratio of the sums at each corner."""
        below = self.denominator @ self.counts
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(below > 0.0, (self.numerator @ self.counts) / below, np.nan)


def betting_bounds(losses: Losses, delta: float) -> tuple[float, float]:
    """Return the lower and upper bound of E[N]/E[D]; each fails with probability at most `delta` / 2.

    >>> N = np.array([[0.0, 1.0]])
    >>> D = np.ones((1, 2))
    >>> low, high = betting_bounds(Losses(N, D, np.array([90.0, 10.0]), (N, D), np.eye(2)), 0.1)
    >>> low < 0.1 < high
    True
    """
    return 1.0 - _upper(losses.reversed, delta / 2.0), _upper(losses, delta / 2.0)


def betting_rows_to_decide(losses: Losses, limit: float, delta: float) -> int | None:
    """Fresh rows with which :func:`betting_bounds` probably decides a limit, if rows are like these.

    None if no number of rows decides it: the estimate equals the limit, or the corners of the flip rates lie on both
    sides of it.
    """
    estimates = losses.estimates
    if np.all(estimates < limit):
        side, t = losses, limit
    elif np.all(estimates > limit):
        side, t = losses.reversed, 1.0 - limit
    else:
        return None
    shares = side.counts / side.counts.sum()

    def decided(n: int) -> bool:
        grid = _Grid(side, float(n), delta / 2.0)
        at = np.array([t])
        mean, square = (grid.mean(at, shares, power)[0] for power in (1, 2))
        with np.errstate(invalid="ignore"):
            spread = np.sqrt(np.maximum(square - mean * mean, 0.0))
            reached = n * mean - ndtri(POWER) * math.sqrt(n) * spread
        worst = np.nan_to_num(reached.min(axis=0), nan=-np.inf)
        return bool(np.logaddexp.reduce(worst + grid.log_shares(at)[0]) >= -math.log(delta / 2.0))

    return _first(decided)


def _first(decided: Callable[[int], bool]) -> int | None:
    """About the smallest number of rows that decides, by doubling and bisection."""
    most = 1
    while not decided(most):
        most *= 2
        if most > MOST_ROWS:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if decided(middle) else (middle, most)
    return most


def _upper(losses: Losses, delta: float) -> float:
    """Return the smallest t in [0, 1] from which on every t is rejected."""
    grid = _Grid(losses, float(losses.counts.sum()), delta)
    at_one = grid.log_capital(np.ones(1))

    def rejected(t: Array, cell: Array | int | None = None) -> NDArray[np.bool_]:
        least = np.minimum(grid.log_capital(t), at_one).min(axis=1)
        capital = np.logaddexp.reduce(least + grid.log_shares(t, cell), axis=1)
        found: NDArray[np.bool_] = capital >= -math.log(delta)
        return found

    if not rejected(np.ones(1))[0]:
        return 1.0
    few = len(losses.counts) <= _FEW
    cell = len(grid.cells) - 1
    step = cell if few else 1
    while cell > 0:  # downwards to the first cell that begins with a t that is not rejected
        starts = np.arange(cell - step, cell)
        kept_cells = np.flatnonzero(~rejected(grid.cells[starts]))
        if len(kept_cells):
            cell = int(starts[kept_cells[-1]])
            break
        cell -= step
    else:
        return 0.0
    kept, out = grid.cells[cell], grid.cells[cell + 1]
    points = _POINTS if few else 1
    for _ in range(math.ceil(_BISECTIONS / math.log2(points + 1))):
        inner = np.linspace(kept, out, points + 2)
        first = int(np.argmax(np.append(rejected(inner[1:-1], cell), True))) + 1
        kept, out = inner[first - 1], inner[first]
    return float(out)


class _Grid:
    """The bets of a mixture, which depend on the possible values and on the number of rows."""

    def __init__(self, losses: Losses, rows: float, delta: float) -> None:
        self._losses = losses
        above, below = losses.extremes
        self._at_one = float((above - below).max())
        tail = 2.0 ** -np.arange(1.0, max(4.0, math.ceil(math.log2(4.0 * max(rows, 1.0)))))
        self.cells = np.array([0.0, *tail[::-1], *(1.0 - tail[1:]), 1.0])
        middle = 0.5 * (self.cells[:-1] + self.cells[1:])
        best = np.sqrt(-2.0 * math.log(delta) / (rows * self._variances(middle)))
        best = np.minimum(best, 0.5 / self._largest(middle))
        smallest, largest = float(best.min()) / _RATIO**2, float(best.max()) * _RATIO**4
        count = math.ceil(math.log(largest / smallest, _RATIO)) + 1
        self.bets = smallest * _RATIO ** np.arange(count)
        distance = np.log(self.bets / best[:, None]) / math.log(_RATIO)
        shares = (1.0 + distance**2) ** -1.5
        self._log_shares = np.log(shares / shares.sum(axis=1, keepdims=True))

    def _largest(self, t: Array) -> Array:
        """Return the largest value of a row for any rate in [t, 1], which is convex in the rate."""
        above, below = self._losses.extremes
        values = above.ravel() - t[:, None] * below.ravel()
        found: Array = np.maximum(values.max(axis=1), self._at_one)
        return found

    def _variances(self, t: Array) -> Array:
        """Return the mean square of a value in the reference population, on average over the corners."""
        above, below = self._losses.extremes
        squares = ((above - t[:, None, None] * below) ** 2).mean(axis=1)
        none, all_ = self._losses.reference
        likely = (1.0 - t[:, None]) * none + t[:, None] * all_
        found: Array = np.maximum(np.sum(likely * squares, axis=1), 1e-300)
        return found

    def log_shares(self, t: Array, cell: Array | int | None = None) -> Array:
        """Logarithms of the shares of the bets at t, of shape (n_t, n_bets).

        A bet that can lose more than its capital for some rate in [t, 1] has share zero.
        """
        if cell is None:
            cell = np.minimum(np.searchsorted(self.cells, t, side="right"), len(self.cells) - 1) - 1
        there = self.bets * self._largest(t)[:, None] <= 1.0
        return np.where(there, self._log_shares[cell], -np.inf)

    def mean(self, t: Array, shares: Array, power: int = 1) -> Array:
        """Sum over values of a share times the log factor of a bet, or its square: (n_t, n_corners, n_bets)."""
        above, below = self._losses.numerator, self._losses.denominator
        total = np.zeros((len(t), len(above), len(self.bets)))
        block = max(1, _BLOCK // total.size)
        for start in range(0, len(shares), block):
            part = slice(start, start + block)
            value = above[:, None, part] - t[:, None, None, None] * below[:, None, part]
            with np.errstate(divide="ignore"):
                growth = np.log1p(np.maximum(-self.bets[:, None] * value, -1.0))
            total += growth**power @ shares[part]
        return total

    def log_capital(self, t: Array) -> Array:
        """Return the logarithm of the capital of each bet, of shape (n_t, n_corners, n_bets)."""
        return self.mean(t, self._losses.counts)
