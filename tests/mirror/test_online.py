"""Online mirror descent: regret against its bound, against textbook rates and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import DOMAINS, REGULARIZERS, divergence, examples, random_domain, seeds, vertex

from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Entropy,
    Euclidean,
    Hypercube,
    Orthant,
    Simplex,
    project,
)
from maboost.mirror.online import OnlineMirrorDescent


def play(game: OnlineMirrorDescent, losses: np.ndarray) -> float:
    """Show all losses; what the points played cost, added up here."""
    paid = []
    for g in losses:
        paid.append(float(game.point @ g))
        game.observe(g)
    return math.fsum(paid)


def random_losses(rng: np.random.Generator, rounds: int, n: int) -> np.ndarray:
    """Noise, a drift, or an adversary that likes one coordinate."""
    losses = rng.uniform(-1.0, 1.0, size=(rounds, n))
    kind = rng.integers(3)
    if kind == 1:
        losses = 0.3 * losses + 0.7 * np.sin(np.arange(rounds)[:, None] / 5.0 + np.arange(n))
    if kind == 2:
        losses[:, 0] = -np.abs(losses[:, 0])
    return losses


@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, optimistic=st.booleans(), rate=st.sampled_from([0.01, 0.3, 2.0]))
@examples(12)
def test_regret_stays_below_its_bound(name, kind, update, seed, optimistic, rate):
    rng = np.random.default_rng(seed)
    regularizer, n = REGULARIZERS[name], int(rng.integers(1, 7))
    base = rng.uniform(0.2, 2.0, size=n)
    domain = random_domain(kind, base / base.sum(), rng, regularizer.upper)
    game = OnlineMirrorDescent(
        n, rate, regularizer, domain, update, optimistic=optimistic, base=base
    )
    # before the first loss: how far the densest point there can be is from the base measure
    share = base / base.sum()
    k = min(float(np.minimum(domain.row_caps(), 1.0 / share).max()), regularizer.upper)
    at, zero, one = regularizer.phi(np.array([k, 0.0, 1.0]))
    assert rate * game.regret_bound == pytest.approx((at - zero) / k + zero - one, abs=1e-9)
    losses = random_losses(rng, 25, n)
    paid = play(game, losses)
    assert game.loss == pytest.approx(paid, abs=1e-9)
    assert game.regret <= game.regret_bound + 1e-9
    # the best fixed point is a corner: no point of the domain does better
    measure = BaseMeasure(base)
    best = vertex(losses.sum(axis=0), measure, domain, regularizer.upper) * measure.entries
    assert game.regret == pytest.approx(game.regret_against(best), abs=1e-9)
    for _ in range(5):
        u = project(regularizer, domain, rng.normal(size=n) * 3.0, measure).density
        assert game.regret_against(u * measure.entries) <= game.regret + 1e-9


@pytest.mark.parametrize("via", [Orthant(), Simplex(), CappedSimplex(3.0)], ids=repr)
@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds)
@examples(12)
def test_regret_of_double_projection(name, via, seed):
    rng = np.random.default_rng(seed)
    game = OnlineMirrorDescent(5, 0.2, REGULARIZERS[name], CappedSimplex(1.6), via=via)
    play(game, random_losses(rng, 25, 5))
    assert game.regret <= game.regret_bound + 1e-9


@pytest.mark.parametrize("update", ["active", "lazy"])
@given(seed=seeds, n=st.integers(2, 20), rounds=st.integers(10, 200))
@examples(25)
def test_the_textbook_rate(update, seed, n, rounds):
    """Entropy, losses in [-1, 1], eta = sqrt(2 log n / T): regret <= sqrt(2 T log n)."""
    rng = np.random.default_rng(seed)
    rate = math.sqrt(2.0 * math.log(n) / rounds)
    game = OnlineMirrorDescent(n, rate, update=update)
    play(game, np.sign(random_losses(rng, rounds, n)))
    textbook = math.sqrt(2.0 * rounds * math.log(n))
    assert game.regret <= game.regret_bound + 1e-9 <= textbook + 2e-9


@given(seed=seeds, n=st.integers(2, 8), rounds=st.integers(10, 100))
@examples(25)
def test_the_textbook_rate_of_gradient_descent(seed, n, rounds):
    """Euclidean: regret <= max B / eta + eta/2 sum |g|^2, norms over the uniform base measure."""
    losses = random_losses(np.random.default_rng(seed), rounds, n)
    game = OnlineMirrorDescent(n, 0.1, Euclidean())
    play(game, losses)
    textbook = 0.5 * (n - 1.0) / 0.1 + 0.05 * float(np.sum(losses**2)) / n
    assert game.regret <= game.regret_bound + 1e-9 <= textbook + 2e-9


def corners(cap: float, n: int) -> list[np.ndarray]:
    """All corners of {w: 0 <= w <= cap/n, sum w = 1}: full ones, one partial, the rest empty."""
    full = math.floor(n / cap + 1e-12)
    found = []
    for chosen in itertools.permutations(range(n), min(full + 1, n)):
        w = np.zeros(n)
        w[list(chosen[:full])] = cap / n
        w[chosen[-1]] = 1.0 - w.sum() + w[chosen[-1]]
        found.append(w)
    return found


@given(seed=seeds, cap=st.floats(1.2, 4.0))
@examples(20)
def test_regret_is_against_the_best_of_all_corners(seed, cap):
    game = OnlineMirrorDescent(5, 0.3, domain=CappedSimplex(cap))
    losses = random_losses(np.random.default_rng(seed), 20, 5)
    play(game, losses)
    best = min(float(losses.sum(axis=0) @ w) for w in corners(cap, 5))
    assert game.regret == pytest.approx(game.loss - best, abs=1e-9)


@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()], ids=repr)
def test_optimism_pays_where_losses_change_slowly(regularizer, update):
    """Losses that drift: playing as if the last one came again is worth most of the regret."""
    t = np.arange(400)[:, None]
    losses = np.sin(t / 60.0 + np.arange(4) * 1.7)
    games = [
        OnlineMirrorDescent(4, 0.5, regularizer, update=update, optimistic=o) for o in (False, True)
    ]
    for game in games:
        play(game, losses)
    plain, optimistic = (game.regret for game in games)
    assert optimistic <= plain
    change = float(np.sum(np.abs(np.diff(losses, axis=0)).max(axis=1) ** 2)) + 1.0
    radius = math.log(4.0) if isinstance(regularizer, Entropy) else 1.5
    assert (
        optimistic <= radius / 0.5 + 0.5 * change + 1e-9
    )  # Rakhlin and Sridharan, with hint g_0 = 0


def test_a_true_hint_leaves_only_the_radius():
    """With every loss known in advance the regret is at most max B / eta."""
    losses = random_losses(np.random.default_rng(0), 200, 4)
    game = OnlineMirrorDescent(4, 0.5, optimistic=True)
    game.observe(np.zeros(4), hint=losses[0])
    for now, following in itertools.pairwise([*losses, np.zeros(4)]):
        game.observe(now, hint=following)
    assert game.regret <= math.log(4.0) / 0.5 + 1e-9


@given(seed=seeds, l1=st.sampled_from([0.0, 0.1, 0.5]), rate=st.sampled_from([0.05, 0.3]))
@examples(40)
def test_composite_regret(seed, l1, rate):
    """COMID on the orthant: regret to w is at most B(w)/eta + eta/2 sum |g|^2 + alpha |w_1|_1."""
    rng = np.random.default_rng(seed)
    n = 5
    base = rng.uniform(0.2, 2.0, size=n)
    losses = random_losses(rng, 30, n)
    game = OnlineMirrorDescent(n, rate, Euclidean(), Orthant(), l1=l1, base=base)
    play(game, losses)
    measure = BaseMeasure(base)
    squares = sum(measure.integral(g * g) for g in losses)
    for _ in range(10):
        u = rng.exponential(size=n) * rng.integers(0, 2, size=n)
        radius = divergence(Euclidean(), u, np.ones(n), measure.entries)
        bound = radius / rate + 0.5 * rate * squares + l1
        assert game.regret_against(u * measure.entries) <= bound + 1e-9


def test_the_penalty_makes_zeros():
    losses = np.tile([0.1, 0.1, -1.0], (30, 1))
    sparse = OnlineMirrorDescent(3, 0.1, Euclidean(), Orthant(), l1=0.5)
    plain = OnlineMirrorDescent(3, 0.1, Euclidean(), Orthant())
    for game in (sparse, plain):
        play(game, losses)
    assert list(sparse.point[:2]) == [0.0, 0.0]
    assert np.all(plain.point > 0.0)


@pytest.mark.parametrize(("regularizer", "l1"), [(Entropy(), 0.0), (Euclidean(), 0.2)], ids=str)
@given(seed=seeds)
@examples(15)
def test_regret_on_the_hypercube_is_against_its_best_corner(regularizer, l1, seed):
    rng = np.random.default_rng(seed)
    game = OnlineMirrorDescent(4, 0.3, regularizer, Hypercube(2.0), "lazy", l1)
    losses = random_losses(rng, 20, 4)
    for g in losses:
        game.observe(g)
    points = (np.array(c) * 2.0 / 4.0 for c in itertools.product([0, 1], repeat=4))
    best = min(float((losses + l1).sum(axis=0) @ w) for w in points)
    assert game.regret == pytest.approx(game.loss - best, abs=1e-9)


def test_convex_losses_through_their_subgradients():
    """|<x_t, w> - y_t|: the average point comes near the best fixed one."""
    rng = np.random.default_rng(0)
    target, rounds = np.array([0.7, 0.2, 0.1]), 2000
    game = OnlineMirrorDescent(3, math.sqrt(2.0 * math.log(3.0) / rounds))
    paid = 0.0
    for _ in range(rounds):
        x = rng.uniform(0.0, 1.0, size=3)
        miss = float(x @ (game.point - target))
        paid += abs(miss)
        game.observe(math.copysign(1.0, miss) * x)
    assert paid <= math.sqrt(2.0 * rounds * math.log(3.0))  # the best point pays nothing


def test_bad_input():
    for rate in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="learning_rate"):
            OnlineMirrorDescent(3, rate)
    with pytest.raises(ValueError, match="l1"):
        OnlineMirrorDescent(3, l1=-0.1)
    with pytest.raises(ValueError, match="base"):
        OnlineMirrorDescent(3, base=np.ones(4))
    with pytest.raises(ValueError, match="weights must be positive"):
        OnlineMirrorDescent(2, base=[1.0, 0.0])
    with pytest.raises(ValueError, match="caps"):
        OnlineMirrorDescent(3, domain=CappedSimplex(0.5))
    with pytest.raises(ValueError, match="active"):
        OnlineMirrorDescent(3, update="lazy", via=Orthant())


def test_bad_gradients_leave_the_game_as_it_was():
    game = OnlineMirrorDescent(3, optimistic=True)
    for bad in ([1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, math.nan, 0.0], [math.inf, 0.0, 0.0], 1.0):
        with pytest.raises(ValueError, match="gradient must be 3 finite numbers"):
            game.observe(bad)
    for bad in ([1.0, 2.0], [1.0, math.nan, 0.0]):
        with pytest.raises(ValueError, match="hint must be 3 finite numbers"):
            game.observe([0.1, 0.2, 0.3], hint=bad)
    assert game.rounds == 0
    assert game.loss == 0.0
    np.testing.assert_allclose(game.point, 1.0 / 3.0)


def test_what_has_no_bound_says_so():
    orthant = OnlineMirrorDescent(3, regularizer=Euclidean(), domain=Orthant())
    with pytest.raises(ValueError, match="regret_against"):
        _ = orthant.regret
    for domain in (Orthant(), Hypercube()):
        game = OnlineMirrorDescent(3, domain=domain)
        with pytest.raises(ValueError, match="distributions"):
            _ = game.regret_bound
    simplex = OnlineMirrorDescent(3, regularizer=Euclidean(), l1=0.1)
    with pytest.raises(ValueError, match="l1"):
        simplex.observe(np.ones(3))
