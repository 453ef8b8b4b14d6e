"""The expected number of wrong labels, where the true labels are known."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from maboost import CombinedBoostClassifier, SmoothBoostClassifier


def flipped(y, minus, plus, seed=0):
    chance = np.random.default_rng(seed).random(len(y))
    return np.where(chance < np.where(y == 1, plus, minus), 1 - y, y)


def digits():
    X, y = load_digits(return_X_y=True)
    return X, y % 2


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X, 1 - y


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize(("minus", "plus"), [(0.0, 0.4), (0.2, 0.2)])
@pytest.mark.parametrize("table", [digits, cancer])
def test_the_expected_number_of_wrong_labels_is_near_the_number(table, minus, plus, early_stopping):
    X, y = table()
    given = flipped(y, minus, plus)
    model = SmoothBoostClassifier(
        flip_rates={0: minus, 1: plus}, early_stopping=early_stopping, random_state=0
    )
    suspects = model.fit(X, given).suspect_labels().sort_index()
    wrong = given != y
    low, high = suspects.attrs["interval"]
    assert low <= wrong.sum() <= high
    # one standard deviation of the number of flips among so many rows, and 5 % for the model
    spread = np.sqrt(np.sum(np.where(y == 1, plus * (1 - plus), minus * (1 - minus))))
    assert abs(suspects.attrs["expected_wrong"] - wrong.sum()) < spread + 0.05 * wrong.sum()
    assert np.mean((suspects["probability_wrong"] - wrong) ** 2) < 0.08


def test_the_expected_number_does_not_depend_on_the_order_of_the_rows():
    X, y = digits()
    given = flipped(y, 0.0, 0.4)
    order = np.random.default_rng(1).permutation(len(y))
    found = [
        SmoothBoostClassifier(n_estimators=20, flip_rates={1: 0.4}, random_state=0)
        .fit(X[rows], given[rows])
        .suspect_labels()
        .sort_index()["probability_wrong"]
        .to_numpy()
        for rows in (np.arange(len(y)), order)
    ]
    np.testing.assert_array_equal(found[0][order], found[1])


def test_sources_have_their_own_numbers():
    X, y = digits()
    source = np.where(np.random.default_rng(2).random(len(y)) < 0.3, "audited", "scraped")
    given = np.where(source == "audited", y, flipped(y, 0.0, 0.4))
    rates = {"audited": 0.0, "scraped": {1: 0.4}}
    model = CombinedBoostClassifier(flip_rates=rates, random_state=0)
    suspects = model.fit(X, given, sample_domain=source).suspect_labels().sort_index()
    assert suspects["probability_wrong"].to_numpy()[source == "audited"].max() == 0.0
    wrong = np.sum(given != y)
    assert abs(suspects.attrs["expected_wrong"] - wrong) < 0.1 * wrong
