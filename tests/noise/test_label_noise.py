"""Flip rates by enumeration: a population with few points, where every sum is exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from tests.helpers import examples

from maboost.noise import (
    corrected_probabilities,
    label_weights,
    probability_wrong,
    transition_matrix,
)
from maboost.noise.label_noise import (
    LabelNoise,
    PrevalenceWarning,
    balanced_costs,
    true_prevalence,
)

POINTS = np.array([0.2, 0.1, 0.3, 0.25, 0.15])  # P(x)
PLUS = np.array([0.02, 0.3, 0.5, 0.8, 0.97])  # P(y = 1 | x)


def matrix(minus, plus):
    """P(given | true) with these rates of the classes 0 and 1."""
    return np.array([[1.0 - minus, minus], [plus, 1.0 - plus]])


def joint(T):
    """P(x, true, given), by enumeration."""
    found = np.zeros((len(POINTS), 2, 2))
    for x, true, label in itertools.product(range(len(POINTS)), (0, 1), (0, 1)):
        found[x, true, label] = POINTS[x] * (PLUS[x] if true else 1.0 - PLUS[x]) * T[true, label]
    return found


rates = st.tuples(st.floats(0.0, 0.95), st.floats(0.0, 0.95)).filter(lambda r: sum(r) <= 0.95)
costs = st.tuples(st.floats(0.001, 1000.0), st.floats(0.001, 1000.0)).map(np.array)
sources = st.lists(
    st.tuples(rates, st.floats(0.05, 1.0)).map(lambda s: (matrix(*s[0]), s[1])), min_size=1, max_size=3
)  # fmt: skip


def noise_of(found, costs):
    """The noise of these sources, with the true prevalence."""
    plus = float(POINTS @ PLUS)
    prevalence = np.array([1.0 - plus, plus])
    shares = np.array([share for _, share in found])
    matrices = np.array([T for T, _ in found])
    if len(found) == 1:
        return LabelNoise.of_one_source(matrices[0], costs, prevalence)
    names = range(len(found))
    return LabelNoise.of_sources(names, matrices, shares / shares.sum(), costs, prevalence)


CLASSIFIERS = [np.array(f) for f in itertools.product((0, 1), repeat=len(POINTS))]


# --------------------------------------------------------------------------------------------- weights


@given(rates, costs)
@examples(30)
def test_the_weighted_error_on_given_labels_is_affine_in_the_cost_on_true_ones(rates, costs):
    """E[weight 1(f wrong on given)] = A E[cost 1(f wrong on true)] + B for every classifier f."""
    minus, plus = rates
    population = joint(matrix(minus, plus))
    weight = label_weights([0, 1], {0: minus, 1: plus}, class_weight=dict(enumerate(costs)))
    lines = []
    for f in CLASSIFIERS:
        given_error = sum(
            population[x, :, label].sum() * weight[label]
            for x in range(len(POINTS)) for label in (0, 1) if f[x] != label
        )  # fmt: skip
        true_cost = sum(
            population[x, true].sum() * costs[true]
            for x in range(len(POINTS)) for true in (0, 1) if f[x] != true
        )  # fmt: skip
        lines.append((given_error, true_cost))
    keep = 1.0 - minus - plus  # 2A, as the weights are 2(1 - alpha) and 2 alpha without costs
    offsets = [given_error - keep * true_cost for given_error, true_cost in lines]
    np.testing.assert_allclose(offsets, offsets[0], atol=1e-12)


def test_weights_and_offset_are_those_of_natarajan():
    minus, plus = 0.1, 0.4
    alpha = 0.5 * (1.0 - plus + minus)
    np.testing.assert_allclose(
        label_weights([0, 1], {0: minus, 1: plus}), [2.0 * alpha, 2.0 * (1.0 - alpha)]
    )
    noise = noise_of([(matrix(minus, plus), 1.0)], np.ones(2))
    share = float(POINTS @ PLUS)
    B = alpha * plus * share + (1.0 - alpha) * minus * (1.0 - share)
    given_plus = share * (1.0 - plus) + (1.0 - share) * minus
    mean = (1.0 - alpha) * given_plus + alpha * (1.0 - given_plus)
    for error in (0.0, 0.1, 0.5):
        expected = (0.5 * (1.0 - plus - minus) * error + B) / mean
        assert noise.weighted_error(error) == pytest.approx(expected, rel=1e-12)


@given(sources, costs)
@examples(30)
def test_the_weighted_error_that_a_true_error_leads_to(found, costs):
    """By enumeration, with errors that are as frequent in both classes and independent of the flips."""
    noise, error = noise_of(found, costs), 0.15
    loss = mass = 0.0
    for s, (T, _) in enumerate(found):
        for true, label, wrong in itertools.product((0, 1), repeat=3):
            p = noise.shares[s] * noise.prevalence[true] * T[true, label]
            p *= error if wrong else 1.0 - error
            answer = 1 - true if wrong else true
            mass += p * noise.weights[s, label]
            loss += p * noise.weights[s, label] * (answer != label)
    assert noise.weighted_error(error) == pytest.approx(loss / mass, rel=1e-10)


def test_the_error_on_given_labels_of_more_classes():
    T = transition_matrix(0.3, [0, 1, 2])
    noise = LabelNoise.of_one_source(T, np.ones(3), np.full(3, 1.0 / 3.0))
    assert noise.weighted_error(0.0) == pytest.approx(0.3)
    assert noise.weighted_error(1.0) == 1.0
    assert noise.weights.tolist() == [[1.0, 1.0, 1.0]]


def test_a_source_of_right_labels_has_weight_one_and_noisy_ones_less():
    found = [(matrix(0.0, 0.0), 0.5), (matrix(0.4, 0.4), 0.5)]
    noise = noise_of(found, np.ones(2))
    np.testing.assert_allclose(noise.weights, [[1.0, 1.0], [0.008, 0.008]])  # 0.2^4 / 0.2
    assert noise.trusted.tolist() == [True, False]
    assert list(noise.rates_used) == [0, 1]


# --------------------------------------------------------------------------------------- probabilities


def fraction_given_plus(noise):
    """q' of every point: the share of + in the weight of its rows, by enumeration."""
    weight = np.zeros((len(POINTS), 2))
    for s, T in enumerate(noise.rates):
        weight += noise.shares[s] * joint(T).sum(axis=1) * noise.weights[s]
    return weight[:, 1] / weight.sum(axis=1)


@given(sources, costs)
@examples(60)
def test_probabilities_of_given_labels_become_those_of_true_ones(found, costs):
    noise = noise_of(found, costs)
    q = fraction_given_plus(noise)
    p = noise.true_probabilities(np.column_stack([1.0 - q, q]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    expected = costs * np.column_stack([1.0 - PLUS, PLUS])
    np.testing.assert_allclose(
        p, expected / expected.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-9
    )


@given(sources, costs)
@examples(60)
def test_a_vote_of_zero_is_a_probability_of_one_half_and_the_order_stays(found, costs):
    noise = noise_of(found, costs)
    half = noise.true_probabilities(np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(half, 0.5, atol=1e-12)
    q = expit(np.linspace(-12.0, 12.0, 401))
    p = noise.true_probabilities(np.column_stack([1.0 - q, q]))
    assert np.all(p[:, 1] > 0.0)
    assert np.all(p[:, 0] > 0.0)
    assert np.all(np.diff(p[:, 1]) > 0.0)


def test_without_flips_probabilities_stay_as_they_are():
    noise = noise_of([(np.eye(2), 1.0)], np.ones(2))
    q = expit(np.linspace(-20.0, 20.0, 101))
    given_p = np.column_stack([1.0 - q, q])
    np.testing.assert_allclose(noise.true_probabilities(given_p)[:, 1], q, rtol=1e-9)


def test_more_classes_are_corrected_by_the_matrix():
    T = np.array([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.05, 0.05, 0.9]])
    p = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    noise = LabelNoise.of_one_source(T, np.ones(3), np.full(3, 1.0 / 3.0))
    np.testing.assert_allclose(noise.true_probabilities(p @ T), p, atol=1e-6)
    np.testing.assert_allclose(corrected_probabilities(p @ T, T), p, atol=1e-6)


def test_the_correction_of_plain_probabilities_is_exact_on_the_population():
    T = matrix(0.1, 0.4)
    given_label = joint(T).sum(axis=1)
    q = given_label[:, 1] / given_label.sum(axis=1)
    np.testing.assert_allclose(corrected_probabilities(q, T), PLUS, atol=1e-12)
    for label in (0, 1):
        right = joint(T)[:, label, label] / given_label[:, label]
        labels = np.full(len(q), label)
        np.testing.assert_allclose(
            probability_wrong(q, labels, T, classes=[0, 1]), 1.0 - right, atol=1e-12
        )


@given(sources)
@examples(20)
def test_the_probability_that_a_label_is_wrong_by_source(found):
    noise = noise_of(found, np.ones(2))
    p = np.column_stack([1.0 - PLUS, PLUS])
    for s, T in enumerate(noise.rates):
        population = joint(T)
        for label in (0, 1):
            seen = population[:, :, label].sum(axis=1)
            wrong = population[:, 1 - label, label]
            expected = np.divide(wrong, seen, out=np.ones_like(seen), where=seen > 0.0)
            labels, source = np.full(len(p), label), np.full(len(p), s)
            np.testing.assert_allclose(noise.wrong(p, labels, source), expected, atol=1e-9)


# ------------------------------------------------------------------------------------------ prevalence


def test_the_true_prevalence_is_exact_on_the_population():
    for T in (matrix(0.1, 0.4), transition_matrix(0.3, [0, 1, 2])):
        true = np.array([0.3, 0.7]) if len(T) == 2 else np.array([0.2, 0.3, 0.5])
        np.testing.assert_allclose(true_prevalence(true @ T, T, 100.0), true, atol=1e-12)


def test_shares_that_no_sample_explains_are_refused():
    T = matrix(0.4, 0.0)  # at least 40 % of the labels must be 1
    with pytest.raises(ValueError, match=r"flip_rates do not fit the labels.*check the rates"):
        true_prevalence(np.array([0.9, 0.1]), T, 1000.0)


def test_shares_that_a_sample_explains_are_clipped_with_a_warning():
    T = matrix(0.4, 0.0)
    with pytest.warns(PrevalenceWarning, match=r"class 'a' .*1\.0000 is used"):
        found = true_prevalence(np.array([0.62, 0.38]), T, 1000.0, ["a", "b"])
    assert found.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("T", [matrix(0.4, 0.0), matrix(0.3, 0.35), matrix(0.02, 0.0)])
@pytest.mark.filterwarnings("ignore::maboost.noise.label_noise.PrevalenceWarning")
def test_no_sample_of_a_population_at_the_edge_is_refused(T):
    """A class that is nearly absent: the estimate falls outside [0, 1] half of the time."""
    rng = np.random.default_rng(0)
    for n in (20, 200, 2000):
        for plus in rng.binomial(n, T[0, 1], size=2000) / n:
            found = true_prevalence(np.array([1.0 - plus, plus]), T, float(n))
            assert np.all(found >= 0.0)
            assert found.sum() == pytest.approx(1.0)


def test_the_sampling_error_is_that_of_a_multinomial_sample():
    """Five standard errors of the estimate are allowed, not more and not less."""
    T, n = matrix(0.3, 0.35), 1000.0
    error = np.sqrt(0.3 * 0.7 / n) / (1.0 - 0.65)
    for deviations, refused in ((4.9, False), (5.1, True)):
        share = 0.3 - deviations * error * (1.0 - 0.65)
        if refused:
            with pytest.raises(ValueError, match="do not fit"):
                true_prevalence(np.array([1.0 - share, share]), T, n)
        else:
            with pytest.warns(PrevalenceWarning):
                true_prevalence(np.array([1.0 - share, share]), T, n)


def test_balanced_costs_give_all_true_classes_the_same_weight():
    prevalence = np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(prevalence * balanced_costs(prevalence), 1.0 / 3.0)


# -------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"c": 0.1}, "'c', which is not a class; the classes are"),
        ({"a": 0.6, "b": 0.4}, "add up to 1, and must add up to less than 1"),
        (0.5, "add up to 1"),
        ({"a": 1.5}, "the rate of 'a' must be a number in"),
        ({"a": float("nan")}, "the rate of 'a' must be a number in"),
        ({"a": True}, "the rate of 'a' must be a number in"),
        (-0.1, "the rate must be a number in"),
        ([[0.9, 0.1]], r"matrix of shape \(2, 2\)"),
        ("much", r"matrix of shape \(2, 2\)"),
        ([[0.9, 0.2], [0.1, 0.9]], "sum to 1"),
        ([[1.1, -0.1], [0.1, 0.9]], "at least 0"),
    ],
)
def test_rates_that_make_no_sense_are_refused(rates, message):
    with pytest.raises(ValueError, match=message):
        transition_matrix(rates, ["a", "b"])


def test_a_singular_matrix_is_refused():
    with pytest.raises(ValueError, match="singular"):
        transition_matrix(2.0 / 3.0, [0, 1, 2])
