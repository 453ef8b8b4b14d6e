"""The theorems of the paper by name, as corrected, each on runs of a finite pool of hypotheses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from tests.helpers import Problem, Quadratic, examples, random_problem, rounds, seeds

from maboost import SparseBoostClassifier
from maboost.boosting.recipes import combined, group_caps, maboost, madaboost, smooth, sparseboost
from maboost.mirror.steps import Situation, Step

responses = st.sampled_from(["votes", "real"])
updates = st.sampled_from(["active", "lazy"])


def problem(seed: int, response: str = "votes", n: int = 25, skill: float = 0.75) -> Problem:
    return random_problem(np.random.default_rng(seed), n, 12, 2, response, skill=skill)


def half_log(s: Situation) -> Step:
    """AdaBoost's step."""
    return Step(0.5 * math.log((1.0 + s.edge) / (1.0 - s.edge)))


@examples(40)
@given(seeds, responses, updates)
def test_theorem_1(seed, response, update):
    r"""eps <= exp(-sum gamma^2/2) with entropy, 1/(1 + sum gamma^2) with the quadratic."""
    for regularizer in ("entropy", "euclidean"):
        run = problem(seed, response).run(maboost(regularizer, update=update, step="paper"))
        squares = 0.0
        for record in rounds(run, 40):
            squares += record.edge**2
            bound = math.exp(-squares / 2) if regularizer == "entropy" else 1 / (1 + squares)
            assert record.train_error <= bound + 1e-12
            assert record.gain >= 0.5 * record.edge**2 - 1e-12
            assert record.error_bound <= bound + 1e-12  # the certificate is at least as good


@examples(60)
@given(seeds, responses, updates, st.sampled_from(["corrective", "paper"]), st.floats(0.01, 1.0))
def test_a_learning_rate_keeps_its_share_of_the_gain(seed, response, update, step, rate):
    """Gains are at least rate / 2 * gamma^2, with caps and without: the gain is concave in the step."""
    for regularizer in ("entropy", "euclidean"):
        for booster in (
            maboost(regularizer, update=update, step=step, learning_rate=rate),
            smooth(2.0, regularizer, update, step, rate),
        ):
            for record in rounds(problem(seed, response).run(booster), 20):
                assert record.gain >= 0.5 * rate * record.edge**2 - 1e-12


@examples(15)
@given(seeds, st.sampled_from(["entropy", "euclidean"]))
def test_theorem_2(seed, regularizer):
    r"""With eta = gamma/sqrt(t) the smallest margin is at least gamma_min - nu(T).

    The constant with the half that the supplement drops:
    sum (1/sqrt t - 1/(2t)) gamma_t^2 / sum eta_t - C / sum eta_t.
    """
    p = problem(seed, n=12, skill=0.9)
    run = p.run(maboost(regularizer, step="maxmargin"))
    lightest = p.base.min()
    C = math.log(1 / lightest) if regularizer == "entropy" else 0.5 * (1 / lightest - 1)
    edges, steps = [], []
    for record in rounds(run, 300):
        edges.append(record.edge)
        steps.append(record.step)
        t = np.arange(1, len(edges) + 1)
        gamma, eta = np.array(edges), np.array(steps)
        np.testing.assert_allclose(eta, gamma / np.sqrt(t))
        exact = (np.sum((1 / np.sqrt(t) - 1 / (2 * t)) * gamma**2) - C) / eta.sum()
        assert record.min_margin >= exact - 1e-12
        g, T = gamma.min(), len(edges)
        nu = g * (1 + math.log(T)) / (4 * (math.sqrt(T + 1) - 1)) + C / (
            2 * g * (math.sqrt(T + 1) - 1)
        )
        assert record.min_margin >= g - nu - 1e-12


def test_theorem_2_fails_on_capped_sets_where_the_soft_margin_holds():
    """w* = e_i must lie in the set: the hard-margin claim is false under caps."""
    violated = 0
    for seed in range(8):
        p = problem(seed, n=20, skill=0.7)
        run = p.run(smooth(2.0, step="maxmargin"))
        for record in rounds(run, 100):
            claimed = (run.gain - math.log(1 / p.base.min())) / run.total_step
            violated += record.min_margin < claimed - 1e-9
            assert record.soft_margin >= (run.gain - math.log(2.0)) / run.total_step - 1e-12
    assert violated > 0


@examples(30)
@given(seeds, responses, updates, st.floats(1.2, 6.0))
def test_theorem_3(seed, response, update, k):
    """Smooth boosting: eps <= max(1/k, exp(-sum gamma^2/2)), and w_i <= k D_i throughout."""
    run = problem(seed, response).run(smooth(k, update=update, step="paper"))
    squares = 0.0
    for record in rounds(run, 40):
        squares += record.edge**2
        assert record.train_error <= max(1 / k, math.exp(-squares / 2)) + 1e-12
        assert record.smoothness <= k * (1 + 1e-12)


@examples(30)
@given(seeds, st.floats(0.05, 0.6), updates)
def test_combined_data_sets(seed, limit, update):
    """Error on a source of share pi with limit l: <= max(l, exp(-sum gamma^2/2) / pi)."""
    p = problem(seed)
    primary = np.random.default_rng(seed).random(p.n) < 0.5
    primary[:2] = True, False
    shares = {True: float(p.base[primary].sum()), False: float(p.base[~primary].sum())}
    caps = group_caps(shares, {True: None, False: limit})
    run = p.run(combined(np.where(primary, caps[True], caps[False]), update=update, step="paper"))
    squares = 0.0
    for record in rounds(run, 40):
        squares += record.edge**2
        wrong = run.margins <= 0.0
        for name, members in ((True, primary), (False, ~primary)):
            error = p.base[members & wrong].sum() / shares[name]
            floor = 0.0 if name else limit
            assert error <= max(floor, math.exp(-squares / 2) / shares[name]) + 1e-12


@examples(40)
@given(seeds, responses, st.sampled_from([1.0, 0.8, 0.5, 0.2]))
def test_theorem_4(seed, response, kappa):
    """SparseBoost: eps <= 1/(1 + kappa^2 sum gamma^2 n^2); c is kappa^2, not its inverse."""
    run = problem(seed, response).run(sparseboost(kappa, step="paper"))
    total = 0.0
    for _ in range(60):
        mass = run.state.mass
        record = next(rounds(run, 1), None)
        if record is None:
            break
        total += (record.edge * mass) ** 2
        assert record.step == pytest.approx(kappa * record.edge * mass)
        assert record.train_error <= 1 / (1 + kappa**2 * total) + 1e-12


@examples(20)
@given(seeds)
def test_theorem_4_mass_stays_away_from_zero(seed):
    """With kappa = 1 a row that is wrong has s_i >= 1, so n_t >= eps_t, at least one row's mass."""
    p = problem(seed, skill=0.65)
    run = p.run(sparseboost(step="paper"))
    for record in rounds(run, 60):
        wrong = run.margins <= 0.0
        assert np.all(run.state.density[wrong] >= 1.0 - 1e-12)
        assert run.state.mass >= record.train_error - 1e-12


@examples(15)
@given(seeds)
def test_theorem_4_decaying_penalty(seed):
    """alpha = min((1-kappa) gamma n, c/t^2): wrong rows keep weight."""
    c = 0.6
    run = problem(seed, skill=0.65).run(sparseboost(0.3, c, step="paper"))
    spent = 0.0
    for t, record in enumerate(rounds(run, 60), start=1):
        alpha = run.booster.l1(record.edge, 1.0, t)
        assert alpha <= c / t**2 + 1e-15
        spent += record.step * c / t**2
        wrong = run.margins <= 0.0
        assert np.all(run.state.density[wrong] >= 1.0 - spent - 1e-12)
        assert record.train_error <= record.error_bound + 1e-12


@examples(40)
@given(seeds, responses)
def test_theorem_5(seed, response):
    """MadaBoost with eta = eps gamma: sum eps^2 gamma^2 <= 2 (1 - eps_T), min eps <= sqrt(2/sum)."""
    run = problem(seed, response, skill=0.65).run(madaboost(step="paper"))
    total, squares, smallest, before = 0.0, 0.0, 1.0, 1.0
    for record in rounds(run, 80):
        assert record.step == pytest.approx(before * record.edge)
        total += (before * record.edge) ** 2
        squares += record.edge**2
        assert total <= 2 * (1 - record.train_error) + 1e-12
        assert smallest <= math.sqrt(2 / squares) + 1e-12
        before = record.train_error
        smallest = min(smallest, before)


@examples(40)
@given(seeds, responses, st.sampled_from(["corrective", half_log]))
def test_madaboost_is_faster_than_the_paper_says(seed, response, step):
    """sum eps gamma^2 <= 2 (1 - eps_T): the rate 1/(eps gamma^2) that the paper doubts."""
    run = problem(seed, response, skill=0.65).run(madaboost(step=step))
    total, before = 0.0, 1.0
    for _ in range(80):
        mass = run.state.mass
        record = next(rounds(run, 1), None)
        if record is None:
            break
        fall = mass * (1 - math.sqrt(max(1 - record.edge**2, 0.0)))
        assert record.gain >= fall - 1e-12
        assert fall >= 0.5 * before * record.edge**2 - 1e-12
        total += before * record.edge**2
        assert total <= 2 * (1 - record.train_error) + 1e-12
        before = record.train_error


@examples(40)
@given(seeds, responses, st.sampled_from(["paper", "corrective"]), st.floats(0.01, 1.0))
def test_madaboost_rates_shrink_with_the_learning_rate(seed, response, step, rate):
    """Both sums are at most 2 / rate * (1 - eps_T): the potential is convex in the step."""
    run = problem(seed, response, skill=0.65).run(madaboost(step=step, learning_rate=rate))
    total, before, power = 0.0, 1.0, {"paper": 2, "corrective": 1}[step]
    for record in rounds(run, 80):
        share = before**power * record.edge**2
        assert record.gain >= 0.5 * rate * share - 1e-12
        total += share
        assert total <= 2 / rate * (1 - record.train_error) + 1e-12
        before = record.train_error


@examples(30)
@given(seeds, st.sampled_from(["paper", "corrective"]))
def test_madaboost_potential_is_what_is_left_of_the_gain(seed, step):
    """Phi(H) = sum D psi(-M) = 1 - G, and it bounds the error."""
    p = problem(seed, skill=0.65)
    run = p.run(madaboost(step=step))
    for record in rounds(run, 40):
        x = -run.margins
        psi = np.where(x <= 0.0, np.exp(np.minimum(x, 0.0)), 1.0 + x)
        potential = math.fsum(p.base * psi)
        assert 1.0 - run.gain == pytest.approx(potential, abs=1e-10)
        assert record.train_error <= potential + 1e-12


def sparse_by_hand(losses, base, kappa, decay, rounds):
    """SparseBoost with the paper's step, as the paper writes it: s, A, margins and step after every round."""
    s, A, M = np.ones(base.size), 0.0, np.zeros(base.size)
    for t in range(1, rounds + 1):
        mass = math.fsum(base * s)
        edges = [-math.fsum(base * s * d) / mass for d in losses]
        best = int(np.flatnonzero(np.array(edges) >= max(edges) - 1e-9)[0])
        edge, d = edges[best], losses[best]
        alpha = (1.0 - kappa) * edge * mass
        alpha = alpha if decay is None else min(alpha, decay / t**2)
        eta = edge * mass - alpha
        s = np.maximum(0.0, s + eta * (d - alpha))
        A += eta * alpha
        M = M - eta * d
        yield s, A, M, eta


@examples(120)
@given(
    seeds,
    responses,
    st.sampled_from([2, 2, 3, 5]),
    st.floats(0.02, 1.0),
    st.one_of(st.none(), st.floats(0.01, 3.0)),
    st.booleans(),
)
def test_sparseboost_boosts_for_every_penalty(seed, response, n_classes, kappa, decay, weighted):
    r"""eps <= (K-1) min(|s|^2/(1-A)^2, n/(1-A)) with A = sum eta alpha <= 1/2; sum eps^2 gamma^2 <= 4/kappa^2."""
    p = random_problem(np.random.default_rng(seed), 15, 8, n_classes, response, weighted, skill=0.7)
    p = dataclasses.replace(p, closed_under_negation=False)
    decay = None if kappa == 1.0 else decay
    run = p.run(sparseboost(kappa, decay, "paper"))
    base, width = run.measure.entries, run.measure.width
    squared_progress, error = 0.0, 1.0
    by_hand = sparse_by_hand(p.losses(), base, kappa, decay, 40)
    for record, (s, A, M, eta) in zip(rounds(run, 40), by_hand, strict=False):
        squared_progress += (error * record.edge) ** 2
        error = math.fsum(base[M <= 0.0])  # over pairs
        if abs(M).min() < 1e-12:
            break  # a tie is one of rounding too
        assert record.step == pytest.approx(eta, rel=1e-6)
        np.testing.assert_allclose(run.state.density, s, atol=1e-9)
        assert run.totals.penalty == pytest.approx(A, abs=1e-9)
        assert A <= 0.5
        assert np.all(s >= 1.0 - M - A - 1e-12)
        squares, mass = math.fsum(base * s * s), math.fsum(base * s)
        bound = width * min(squares / (1.0 - A) ** 2, mass / (1.0 - A))
        assert error <= bound / width + 1e-12
        assert record.error_bound == pytest.approx(min(1.0, bound), rel=1e-6, abs=1e-9)
        assert record.train_error <= record.error_bound
        theorem_4 = width / (1.0 + 2.0 * run.gain)
        assert record.error_bound <= min(width * (1.0 - 2.0 * run.gain), theorem_4) + 1e-9
        assert squared_progress <= 4.0 / kappa**2


@examples(60)
@given(seeds, st.sampled_from([2, 3]), st.floats(0.02, 0.99), st.floats(0.05, 30.0))
def test_the_bound_of_sparseboost_holds_for_steps_of_any_size(seed, n_classes, kappa, size):
    """Long steps may bring A to one and more, and then nothing is promised."""
    p = random_problem(np.random.default_rng(seed), 12, 6, n_classes, "real", skill=0.7)
    run = p.run(sparseboost(kappa, step=lambda s: Step(size)))
    for record in rounds(run, 25):
        assert record.train_error <= record.error_bound
        assert record.soft_margin >= record.margin_bound
        if run.totals.penalty >= 1.0:
            assert record.error_bound == 1.0


@pytest.mark.parametrize("parameters", [{}, {"learning_rate": 0.5}, {"l1_decay": 2.0}], ids=str)
def test_sparseboost_with_a_penalty_certifies_a_small_error_on_digits(parameters):
    """The bound from the gain alone, 1 - 2G, cannot fall below 2A."""
    X, y = load_digits(return_X_y=True)
    alike = {"learning_rate": 1.0, "max_depth": 3, "n_estimators": 100, "random_state": 0}
    model = SparseBoostClassifier(kappa=0.5, **alike | parameters).fit(X, y % 2)
    certificate = model.certificate_
    assert certificate.measured_error <= certificate.error_bound
    if not parameters:
        assert certificate.error_bound <= 0.006
        assert 1.0 - 2.0 * certificate.gain >= 0.5
    assert 0.0 < certificate.penalty <= 0.5
    assert certificate.penalty == pytest.approx(model.history_["penalty"].sum())
    half = model[:50]
    assert half.certificate_.error_bound == model.history_["error_bound"][49]
    assert half.certificate_.penalty == pytest.approx(model.history_["penalty"][:50].sum())
    more = half.certificate_.rounds_needed(0.5 * half.certificate_.error_bound)
    assert more is not None
    assert 0 < more < 1000


# --------------------------------------------------------------------------------------------------
# where the paper's statements need the correction


def single(scores: list[float]) -> Problem:
    """One hypothesis with these margins on rows of equal weight."""
    n = len(scores)
    return Problem(np.ones(n, dtype=int), np.ones(n), np.array([scores]))


def test_theorem_1_does_not_hold_for_every_strongly_convex_regularizer():
    """R = 5 u^2 is 1-strongly convex and more, yet eps > 1/(1 + sum gamma^2) with eta = gamma."""
    regularizer = Quadratic(5.0)
    run = single([-1.0] + [1.0] * 99).run(maboost(regularizer, step=lambda s: Step(s.edge)))
    squares, violated = 0.0, False
    for record in rounds(run, 400):
        squares += record.edge**2
        violated |= record.train_error > 1 / (1 + squares) + 1e-9
        assert record.train_error <= regularizer.error_level(run.gain) + 1e-12
    assert violated


@examples(60)
@given(seeds, st.integers(1, 200))
def test_theorem_2_is_worst_at_equal_edges(seed, rounds_played):
    """Its minimisation step holds with 1/(2t), and with the supplement's 1/t it does not."""
    rng = np.random.default_rng(seed)
    gamma = 0.1 + rng.exponential(size=rounds_played) * (rng.random(rounds_played) < 0.3)
    t = np.arange(1, rounds_played + 1)

    def ratio(edges: np.ndarray, factor: float) -> float:
        roots = 1 / np.sqrt(t)
        return float(np.sum((roots - factor / t) * edges**2) / np.sum(roots * edges))

    equal = np.full(rounds_played, gamma.min())
    assert ratio(gamma, 0.5) >= ratio(equal, 0.5) - 1e-12
    if rounds_played > 1:
        first = equal * np.where(t == 1, 1.1, 1.0)
        assert ratio(first, 1.0) < ratio(equal, 1.0)


@examples(15)
@given(seeds, st.floats(2.0, 8.0))
def test_theorem_3_rounds(seed, k):
    """Down to 1/k in 2 log(k)/gamma^2 rounds, gamma the smallest edge so far."""
    run = problem(seed, skill=0.8).run(smooth(k, step="paper"))
    smallest = 1.0
    for record in rounds(run, 60):
        smallest = min(smallest, record.edge)
        if record.round >= 2 * math.log(k) / smallest**2:
            assert record.error_bound == pytest.approx(1 / k)
            assert record.train_error <= 1 / k + 1e-12


def test_combined_data_sets_need_the_share_of_the_source():
    """A cap of k on the rows of B holds its error to N/(k N_B), not to 1/k."""
    secondary = np.arange(16) >= 12
    k = 6.0
    run = single([1.0] * 12 + [1.0, 1.0, 1.0, -1.0]).run(
        combined(np.where(secondary, k, np.inf), step="paper")
    )
    assert len(list(rounds(run, 150))) == 150
    error = float(np.mean(run.margins[secondary] <= 0.0))
    assert math.exp(-run.gain) < 1e-3  # all that can be promised has been reached
    assert 1 / k < error <= 16 / (k * 4)


def test_combined_data_sets_bound_on_the_primary_source_carries_its_share():
    """eps_A <= e^{-G} is false, eps_A <= e^{-G} N/N_A is not."""
    run = single([-1.0] + [1.0] * 19).run(maboost())
    assert next(rounds(run, 1)).edge == pytest.approx(0.9)
    error = float(np.mean(run.margins[:2] <= 0.0))  # A is the first two rows
    assert math.exp(-run.gain) < error <= math.exp(-run.gain) * 20 / 2


@examples(20)
@given(seeds)
def test_theorem_4_rate(seed):
    """kappa = 1: eps <= N^2/(N^2 + T gamma^2) on equal rows, as long as some row is wrong."""
    p = random_problem(np.random.default_rng(seed), 15, 10, weighted=False, skill=0.65)
    run = p.run(sparseboost(step="paper"))
    smallest = 1.0
    for record in rounds(run, 80):
        smallest = min(smallest, record.edge)
        if record.train_error == 0.0:
            break
        assert record.train_error <= p.n**2 / (p.n**2 + record.round * smallest**2) + 1e-12


@examples(20)
@given(seeds, st.floats(0.05, 0.6))
def test_theorem_4_any_penalty(seed, decay):
    """eta = gamma n - alpha for any alpha below gamma n: eps <= 1/(1 + sum (gamma n - alpha)^2)."""
    run = problem(seed, skill=0.65).run(sparseboost(0.3, decay, step="paper"))
    total = 0.0
    for _ in range(40):
        mass, t = run.state.mass, run.rounds + 1
        record = next(rounds(run, 1), None)
        if record is None:
            break
        alpha = min(0.7 * record.edge * mass, decay / t**2)
        assert record.step == pytest.approx(record.edge * mass - alpha, rel=1e-9)
        total += record.step**2
        assert record.train_error <= 1 / (1 + total) + 1e-12
