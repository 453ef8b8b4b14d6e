"""Certificates and new votes for ensembles of this library and of others."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from maboost import HistTreeClassifier, MABoostClassifier, margin_certificate, reweight
from maboost.mirror import CappedSimplex, Simplex, SourceCapped

X2, Y2 = load_breast_cancer(return_X_y=True)
NAMES = np.array(["malignant", "benign"])[Y2]
DIGITS, Y10 = load_digits(return_X_y=True)
X4, Y4 = DIGITS[Y10 < 4], Y10[Y10 < 4]
STUMP = HistTreeClassifier(max_depth=1, response="sign", min_samples_leaf=1)

BOUNDED = [
    MABoostClassifier(STUMP, n_estimators=15),
    MABoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=15, random_state=0),
    AdaBoostClassifier(n_estimators=15, random_state=0),
    RandomForestClassifier(20, max_depth=2, random_state=0),
    ExtraTreesClassifier(20, max_depth=2, random_state=0),
    BaggingClassifier(DecisionTreeClassifier(max_depth=2), 10, max_features=0.5, random_state=0),
]
UNBOUNDED = [
    lightgbm.LGBMClassifier(n_estimators=10, max_depth=2, verbose=-1, n_jobs=1),
    xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1),
    LogisticRegression(max_iter=5000),
    SVC(),
]


@pytest.mark.parametrize("model", BOUNDED, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("X", "y"), [(X2, NAMES), (X4, Y4)], ids=["two", "four"])
def test_bounded_votes_are_divided_by_their_sum(model, X, y):
    model = model.fit(X, y)
    found = margin_certificate(model, X, y, domain=CappedSimplex(4.0))
    error = np.mean(model.predict(X) != y)
    assert found.measured_error >= error - 1e-12  # ties are errors
    assert found.measured_error <= found.error_bound
    assert found.scale_is == "the sum of the votes"
    assert -1.0 <= found.min_margin <= found.soft_margin <= 1.0
    assert found.same_class
    assert found.gap >= -1e-12
    assert np.isclose(found.distribution.sum(), 1.0)
    assert "with other votes, gap" in str(found)


@pytest.mark.parametrize("model", UNBOUNDED, ids=lambda m: type(m).__name__)
def test_unbounded_scores_are_divided_by_the_largest(model):
    model = model.fit(X2, Y2)
    found = margin_certificate(model, X2, Y2)
    assert found.measured_error == pytest.approx(np.mean(model.predict(X2) != Y2), abs=2e-3)
    assert found.measured_error <= found.error_bound
    assert found.scale_is == "the largest absolute score"
    assert -1.0 <= found.min_margin <= 1.0
    assert found.gap is None
    compared = margin_certificate(model, X2, Y2, learner="stumps")
    assert compared.exact
    assert not compared.same_class
    assert "may be negative" in str(compared)


def test_probabilities_have_margins_of_at_most_one():
    model = KNeighborsClassifier(5).fit(X2, Y2)
    found = margin_certificate(model, X2, Y2, domain=CappedSimplex(2.0))
    assert found.scale == 1.0
    assert found.measured_error <= found.error_bound


def test_the_margins_of_a_booster_are_those_of_its_certificate():
    model = MABoostClassifier(STUMP, n_estimators=30, domain=CappedSimplex(4.0)).fit(X2, Y2)
    found = margin_certificate(model, X2, Y2, domain=CappedSimplex(4.0), learner="stumps")
    own = model.certificate_
    assert found.soft_margin == pytest.approx(own.soft_margin, rel=1e-9)
    assert found.min_margin == pytest.approx(own.min_margin, rel=1e-9)
    assert found.measured_error == own.measured_error
    assert found.error_bound <= own.error_bound * (1.0 + 1e-9)  # the best scale of the same votes
    assert found.exact
    assert found.same_class
    assert found.gap > 0.0


def test_weights_are_repetitions_and_rows_without_weight_are_left_out():
    model = RandomForestClassifier(10, max_depth=2, random_state=0).fit(X2, Y2)
    weights = np.arange(len(Y2)) % 3
    found = margin_certificate(model, X2, Y2, sample_weight=weights, domain=CappedSimplex(3.0))
    rows = np.repeat(np.arange(len(Y2)), weights)
    again = margin_certificate(model, X2[rows], Y2[rows], domain=CappedSimplex(3.0))
    assert found.error_bound == pytest.approx(again.error_bound, rel=1e-9)
    assert found.soft_margin == pytest.approx(again.soft_margin, rel=1e-9)


LGBM = lightgbm.LGBMClassifier(n_estimators=40, max_depth=3, verbose=-1, n_jobs=1)


@pytest.mark.parametrize("model", [*BOUNDED, LGBM], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("X", "y"), [(X2, NAMES), (X4, Y4)], ids=["two", "four"])
def test_new_votes_have_the_largest_soft_margin(model, X, y):
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = model.fit(X_train, y_train)
    smaller = reweight(model, X_train, y_train, tolerance=0.02)
    before, after = smaller.certificate_before_, smaller.certificate_
    assert after.soft_margin >= before.soft_margin - 0.02
    assert 0.0 <= after.gap <= 0.02
    assert len(smaller) == np.count_nonzero(smaller.weights_) <= before.members
    assert smaller.weights_.sum() == pytest.approx(1.0)
    assert smaller.score(X_train, y_train) >= 1.0 - after.measured_error - 1e-12
    assert smaller.score(X_test, y_test) > model.score(X_test, y_test) - 0.1
    proba = smaller.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(smaller.classes_[proba.argmax(axis=1)], smaller.predict(X_test))
    again = margin_certificate(smaller, X_train, y_train, domain=CappedSimplex(4.0))
    assert again.measured_error == pytest.approx(after.measured_error, abs=1e-12)


@pytest.mark.parametrize(
    "domain",
    [Simplex(), "simplex", SourceCapped(np.arange(len(Y2)) % 2, [1.0, 0.3])],
    ids=["Simplex", "name", "SourceCapped"],
)
def test_other_domains(domain):
    model = AdaBoostClassifier(n_estimators=30, random_state=0).fit(X2, Y2)
    smaller = reweight(model, X2, Y2, domain=domain, tolerance=0.05)
    assert 0.0 <= smaller.certificate_.gap <= 0.05
    assert smaller.certificate_.soft_margin >= smaller.certificate_before_.soft_margin - 0.05


def test_the_votes_of_lightgbm_are_its_scores():
    from maboost.ensembles.members import members_of

    for X, y in ((X2, Y2), (X4, Y4)):
        model = LGBM.fit(X, y)
        members = members_of(model)
        total = 0.0
        for weight, (answers, codes) in zip(members.weights, members.coded(X), strict=True):
            total = total + weight * answers[codes]
            assert np.abs(answers).max() == pytest.approx(1.0)
        np.testing.assert_allclose(total, model.predict(X, raw_score=True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: reweight(LogisticRegression().fit(X2[:, :1], Y2), X2[:, :1], Y2), "members"),
        (lambda m: reweight(m, X2, Y2, tolerance=0.0), "tolerance must be"),
        (lambda m: margin_certificate(m, X2, Y2 + 1), "not fitted on"),
        (lambda m: margin_certificate(m, X2, Y2, learner="trees"), "learner must be"),
        (lambda m: margin_certificate(m, X2, Y2, sample_weight=0.0 * Y2), "non-zero"),
    ],
)
def test_what_has_no_certificate_is_refused(call, message):
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X2, Y2)
    with pytest.raises(ValueError, match=message):
        call(model)
