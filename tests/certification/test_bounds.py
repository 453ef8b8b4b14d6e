"""The bounds against outside oracles: scipy's exact intervals, and inversion by brute force."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from maboost.certification.bounds import (
    Losses,
    betting_bounds,
    betting_rows_to_decide,
    clopper_pearson,
    rows_to_decide,
)


@pytest.mark.parametrize("rows", [1, 7, 100, 5000])
@pytest.mark.parametrize("delta", [0.2, 0.05, 0.001])
def test_clopper_pearson_is_that_of_scipy(rows, delta):
    for errors in {0, 1, rows // 3, rows - 1, rows}:
        expected = binomtest(errors, rows).proportion_ci(1.0 - delta, method="exact")
        assert clopper_pearson(errors, rows, delta) == pytest.approx(tuple(expected), rel=1e-9)


def of_values(values, counts, denominator=None):
    """Losses with one corner; of values that no row has the bounds know all the same."""
    numerator = np.array([values], dtype=float)
    below = np.ones_like(numerator) if denominator is None else np.array([denominator], dtype=float)
    counts = np.array(counts, dtype=float)
    there = counts > 0.0
    reference = np.eye(2) if values == [0, 1] else np.full((2, len(values)), 1.0 / len(values))
    return Losses(
        numerator[:, there], below[:, there], counts[there], (numerator, below), reference
    )


@pytest.mark.parametrize(("errors", "rows"), [(0, 40), (4, 40), (20, 40), (40, 40), (30, 1000)])
def test_betting_bounds_hold_the_estimate_and_are_near_the_exact_ones(errors, rows):
    low, high = betting_bounds(of_values([0, 1], [rows - errors, errors]), 0.05)
    exact = clopper_pearson(errors, rows, 0.05)
    assert low <= errors / rows <= high
    assert high - low < 1.8 * (exact[1] - exact[0])


@pytest.mark.parametrize(
    "losses",
    [
        of_values([-0.5, 0.0, 1.5], [30, 50, 20]),
        of_values([0.0, 0.2, 0.0, 1.0], [9, 4, 20, 3], [0.2, 0.2, 1.0, 1.0]),
        of_values([0.0, 1.4, -0.4, 0.0], [40, 6, 1, 25], [1.4, 1.4, -0.4, -0.4]),
    ],
)
@pytest.mark.parametrize("delta", [0.4, 0.1])
def test_the_inversion_finds_all_that_is_rejected(losses, delta):
    """By brute force over t: inside the bounds the test rejects nothing, outside it rejects all."""
    from maboost.certification.bounds import _Grid

    for side, bound in (
        (losses, betting_bounds(losses, 2.0 * delta)[1]),
        (losses.reversed, 1.0 - betting_bounds(losses, 2.0 * delta)[0]),
    ):
        grid = _Grid(side, side.counts.sum(), delta)
        t = np.linspace(0.0, 1.0, 4001)
        capital = grid.log_capital(t)[:, 0]
        with np.errstate(invalid="ignore"):
            mixed = np.logaddexp.reduce(capital + grid.log_shares(t), axis=1)
        kept = t[~(mixed >= -np.log(delta))]
        assert kept.max() <= bound + 1e-9 if kept.size else bound == 0.0
        # the mixture has a minimum over [t, 1] in place of the capital, which costs nothing here
        assert kept.max() >= bound - 1e-3 or bound == 1.0


def test_the_capital_has_expectation_one_at_most():
    """Exactly, over all outcomes of a few rows: this is what makes the bounds valid."""
    from maboost.certification.bounds import _Grid

    rows, share = 12, 0.3
    k = np.arange(rows + 1)
    for sign in (1, -1):
        wealth = []
        for errors in k:
            losses = of_values([0, 1], [rows - errors, errors])
            side, t = (losses, share) if sign == 1 else (losses.reversed, 1.0 - share)
            grid = _Grid(side, rows, 0.05)
            at = np.array([t])
            wealth.append(np.exp(grid.log_capital(at)[0, 0]) @ np.exp(grid.log_shares(at)[0]))
        assert np.dot(binom.pmf(k, rows, share), wealth) <= 1.0 + 1e-12


def test_exact_coverage_of_betting_bounds():
    """For 0/1 errors the coverage is a finite sum."""
    rows, delta = 60, 0.1
    bounds = [betting_bounds(of_values([0, 1], [rows - k, k]), delta) for k in range(rows + 1)]
    low, high = np.array(bounds).T
    for share in np.linspace(0.01, 0.99, 33):
        likely = binom.pmf(np.arange(rows + 1), rows, share)
        assert likely[high < share].sum() <= delta / 2
        assert likely[low > share].sum() <= delta / 2


def test_corners_are_worse_than_what_is_between():
    """With a box of rates the bounds contain those of every rate in it."""
    from maboost.certification.flip_rates import flip_rates_of

    counts = np.array([300.0, 40.0, 80.0, 180.0])  # given and predicted: 00, 01, 10, 11

    def losses(rates):
        found = flip_rates_of(rates, [0, 1])
        above = found.determinants[:, None, None] - found.inverses
        below = np.broadcast_to(found.determinants[:, None, None], above.shape)
        flat = above.reshape(len(above), -1), below.reshape(len(above), -1)
        return Losses(*flat, counts, flat, np.full((2, 4), 0.25))

    low, high = betting_bounds(losses({0: (0.0, 0.1), 1: (0.1, 0.25)}), 0.05)
    rng = np.random.default_rng(0)
    for a, b in rng.uniform([0.0, 0.1], [0.1, 0.25], (30, 2)):
        inner = betting_bounds(losses({0: a, 1: b}), 0.05)
        assert (
            low <= inner[0] + 0.02
        )  # another mixture: the bets of one corner are not those of four
        assert high >= inner[1] - 0.02
        assert low <= losses({0: a, 1: b}).estimates[0] <= high


@pytest.mark.parametrize(("share", "limit"), [(0.1, 0.15), (0.1, 0.08), (0.0, 0.02), (0.3, 0.31)])
def test_that_many_rows_decide_a_limit_with_the_probability_promised(share, limit):
    n = rows_to_decide(share, limit, 0.05)
    k = np.arange(n + 1)
    bounds = np.array([clopper_pearson(int(e), n, 0.05) for e in k])
    decided = bounds[:, 1] <= limit if share < limit else bounds[:, 0] > limit
    assert binom.pmf(k, n, share)[decided].sum() >= 0.75
    fewer = clopper_pearson(round(share * n / 4), n // 4, 0.05)
    assert not (fewer[1] <= limit if share < limit else fewer[0] > limit)


@pytest.mark.parametrize(("share", "limit"), [(0.1, 0.15), (0.1, 0.05)])
def test_that_many_rows_decide_a_limit_by_bets(share, limit):
    losses = of_values([0, 1], [1000 * (1 - share), 1000 * share])
    n = betting_rows_to_decide(losses, limit, 0.05)
    rng = np.random.default_rng(0)
    decided = []
    for errors in rng.binomial(n, share, 200):
        low, high = betting_bounds(of_values([0, 1], [n - errors, errors]), 0.05)
        decided.append(high <= limit if share < limit else low > limit)
    assert 0.68 <= np.mean(decided) <= 0.92


def test_no_number_of_rows_decides_a_limit_at_the_estimate():
    assert rows_to_decide(0.1, 0.1, 0.05) is None
    assert betting_rows_to_decide(of_values([0, 1], [90, 10]), 0.1, 0.05) is None
