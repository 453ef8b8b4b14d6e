"""Passes over rows of several entries against numpy's reductions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from tests.helpers import examples, seeds

from maboost.boosting.game import Game
from maboost.engine.multiclass import caps_of_entries, means_under, tops_taken_out
from maboost.runtime.rows import lowest_of_rows, means_of_rows
from maboost.runtime.threads import Threads


@examples(40)
@given(seeds, st.integers(0, 20), st.integers(1, 6))
def test_reductions(seed, n, width):
    table = np.random.default_rng(seed).normal(size=(n, width))
    means = means_of_rows(table.reshape(-1), n, Threads())
    np.testing.assert_allclose(means, table.mean(axis=1), rtol=1e-13, atol=1e-15)
    if n:
        lowest = lowest_of_rows(table.reshape(-1), n, Threads())
        np.testing.assert_array_equal(lowest, table.min(axis=1))
        less, found = table.copy(), np.empty(n)
        tops_taken_out(less.reshape(-1), 0.25, found)
        np.testing.assert_array_equal(found, np.maximum(table.max(axis=1), 0.25))
        np.testing.assert_array_equal(less, table - found[:, None])


@examples(100)
@given(seeds, st.integers(1, 20), st.integers(1, 6), st.sampled_from([1e-8, 1.0, 1e3, 1e9]))
def test_entries_of_rows_at_their_caps(seed, n, width, scale):
    """One shift a row, by sorting: so many of the largest entries that the next is below it."""
    rng = np.random.default_rng(seed)
    table = (
        scale * rng.integers(-3, 4, size=(n, width))
        if seed % 2
        else scale * rng.normal(size=(n, width))
    )
    caps, found = rng.choice([1e-3, 1.5, 40.0, np.inf], size=n), np.empty((n, width))
    Threads().run(caps_of_entries, table.reshape(-1).astype(float), caps, found)
    for row, cap, own in zip(table, caps, found, strict=True):
        if math.isinf(cap):
            assert np.all(np.isinf(own))
            continue
        falling = np.sort(row - row.max())[::-1]
        shifts = (np.cumsum(falling) - cap * width) / np.arange(1, width + 1)
        shift = shifts[np.flatnonzero(falling > shifts)[-1]]
        expected = np.maximum(row - row.max() - shift, 0.0)
        np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-14 * cap * width)
        assert own.mean() == pytest.approx(cap, rel=1e-13)


@examples(40)
@given(seeds, st.integers(1, 20), st.integers(1, 6))
def test_means_by_shares_are_those_of_a_softmax(seed, n, width):
    """With an entry of zero before the others: the own class of a row."""
    table = 30.0 * np.random.default_rng(seed).normal(size=(n, width))
    powers, own, found = -table, np.empty(n), np.empty(n)
    tops_taken_out(powers.reshape(-1), 0.0, own)
    means_under(np.exp(powers).reshape(-1), np.exp(-own), table.reshape(-1), found)
    shares = softmax(np.column_stack([np.zeros(n), -table]), axis=1)[:, 1:]
    np.testing.assert_allclose(found, np.sum(shares * table, axis=1), rtol=1e-12, atol=1e-12)


@examples(40)
@given(seeds, st.integers(1, 40), st.integers(2, 5), st.integers(1, 3))
def test_losses_by_leaf_are_the_losses(seed, n, n_classes, threads):
    rng = np.random.default_rng(seed)
    game = Game(rng.integers(0, n_classes, n), n_classes)
    answers, leaves = rng.dirichlet(np.ones(n_classes), 7), rng.integers(0, 7, n).astype(np.int32)
    coded = game.coded_loss(answers, leaves, Threads(threads))
    np.testing.assert_array_equal(coded.dense(), game.loss(answers[leaves]))
    assert coded.count == 7 * n_classes * game.width > coded.codes.max()


def test_more_codes_than_pay_are_not_taken():
    three = Game(np.zeros(1, dtype=int), 3)
    assert three.takes_codes(15, 10)  # few are always taken
    assert not three.takes_codes(1000, 10)
    assert three.takes_codes(1000, 10**6)


def test_codes_need_not_fit_sixteen_bits():
    rng = np.random.default_rng(0)
    game = Game(rng.integers(0, 100, 500), 100)
    answers, leaves = rng.dirichlet(np.ones(100), 7), rng.integers(0, 7, 500).astype(np.int32)
    coded = game.coded_loss(answers, leaves, Threads())
    np.testing.assert_array_equal(coded.dense(), game.loss(answers[leaves]))
    assert coded.codes.max() > 1 << 16


def test_labels_need_not_fit_eight_bits():
    rng = np.random.default_rng(0)
    labels = rng.permutation(300)
    game = Game(labels, 300)
    answers, leaves = rng.dirichlet(np.ones(300), 2), rng.integers(0, 2, 300).astype(np.int32)
    coded = game.coded_loss(answers, leaves, Threads())
    np.testing.assert_array_equal(coded.dense(), game.loss(answers[leaves]))
    own = game.rewards(np.ones(300 * 299))[np.arange(300), labels]
    np.testing.assert_array_equal(own, 299.0)
    np.testing.assert_array_equal(game.predicted(np.ones(300 * 299)), labels)


def test_a_tree_that_answers_too_much_is_told_so():
    leaves = np.zeros(2, dtype=np.int32)
    with pytest.raises(ValueError, match=r"loses between -1\.5 and 1\.5"):
        Game(np.array([0, 1]), 3).coded_loss(np.array([[1.5, 0.0, 0.0]]), leaves, Threads())


@examples(40)
@given(seeds, st.integers(1, 40), st.integers(2, 5), st.booleans())
def test_rewards_are_what_a_unit_of_score_earns(seed, n, n_classes, some):
    """The reward of any scores is minus their loss under the weights of the pairs."""
    rng = np.random.default_rng(seed)
    game = Game(rng.integers(0, n_classes, n), n_classes)
    pairs, weights = rng.exponential(size=n * game.width), rng.exponential(size=n)
    rows = np.flatnonzero(rng.random(n) < 0.5) if some else None
    scores = rng.dirichlet(np.ones(n_classes), n)
    rewards = game.rewards(pairs, weights, rows)
    losses = (game.loss(scores) * pairs * np.repeat(weights, game.width)).reshape(n, -1)
    shown = slice(None) if rows is None else rows
    np.testing.assert_allclose(
        np.sum(rewards * scores[shown], axis=1), -losses.sum(axis=1)[shown], atol=1e-12
    )
