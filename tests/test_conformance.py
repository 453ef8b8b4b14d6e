"""The shipped conformance checks, over everything that is shipped (and one user's regularizer)."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from maboost import MABoostClassifier
from maboost.learners import EstimatorLearner
from maboost.mirror import CappedSimplex, Domain, Euclidean
from maboost.testing import check_booster, check_domain, check_learner, check_regularizer
from tests.implementations import BOOSTERS, DOMAINS, REGULARIZERS, Cosh


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)
def test_regularizer(regularizer):
    check_regularizer(regularizer)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: repr(d)[:40])
def test_domain(domain, width):
    check_domain(domain, 12, width=width)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "booster", BOOSTERS, ids=lambda b: f"{b.ascent!r}-{type(b.step).__name__}"[:90]
)
def test_booster(booster, n_classes):
    check_booster(booster, n_classes=n_classes)


@pytest.mark.parametrize("response", ["votes", "proba"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "estimator", [DecisionTreeClassifier(max_depth=2), LogisticRegression(), GaussianNB()], ids=repr
)
def test_learner(estimator, n_classes, response):
    check_learner(EstimatorLearner(estimator, np.arange(n_classes), response), n_classes=n_classes)


class WrongSlope(Euclidean):
    def grad(self, u):
        return 1.01 * u


class TooConvex(Euclidean):
    strong_convexity = 2.0


class Burg(Euclidean):
    """-log u, which is infinite at zero."""

    def phi(self, u):
        return -np.log(u)

    def grad(self, u):
        return -1.0 / u

    def grad_inverse(self, x):
        return -1.0 / x


class Leaky(CappedSimplex):
    """Claims to be the capped simplex but projects onto the simplex."""

    def row_caps(self):
        return float("inf")

    def contains(self, u, measure, tol=1e-9):
        return bool(np.all(u <= 3.0 + tol))


class Deaf(EstimatorLearner):
    """Ignores weights."""

    def prepare(self, X, labels, n_classes):
        producer = super().prepare(X, labels, n_classes)
        produce = type(producer).produce

        class Ignoring(type(producer)):
            def produce(self, weights, rows, rewards, random_state):
                return produce(self, np.ones_like(weights), rows, rewards, random_state)

        return Ignoring(producer.learner, X, labels)


class Forgetful(Domain):
    """Caps one a row, of which none is dropped."""

    def __init__(self, caps):
        self.caps = caps

    def row_caps(self):
        return self.caps


def test_caps_of_rows_that_are_left_out_must_go_with_them():
    with pytest.raises(
        AssertionError, match=r"Forgetful\.restricted\(rows\) does not leave the caps"
    ):
        check_domain(Forgetful(np.full(12, 3.0)))
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    model = MABoostClassifier(domain=Forgetful(np.full(12, 3.0)), n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=r"row_caps\(\) has shape \(12,\) but there are 11 rows"):
        model.fit(X, y, sample_weight=np.arange(12))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("caps", "message"),
    [
        (-1.0, "must be positive, and infinite where there is no cap, got -1.0"),
        (np.nan, "must be positive, and infinite where there is no cap, got nan"),
        (np.array([3.0] * 11 + [0.0]), "must be positive, and infinite where there is no cap, got 0.0"),
        (0.5, r"no distribution fits under row_caps\(\): they hold a mass of 0.5 in all"),
        (3, "must give a float or an array of floats, got int of int64"),
        (np.full(12, 3), "must give a float or an array of floats, got ndarray of int64"),
    ],
)  # fmt: skip
def test_caps_that_no_distribution_can_have_are_refused(caps, message, classes):
    """Those of a domain of one's own too: negative ones kept the projection busy for ever."""
    X, y = np.arange(12.0)[:, None], np.arange(12) % classes
    with pytest.raises(ValueError, match=f"Forgetful: .*{message}"):
        MABoostClassifier(domain=Forgetful(caps), n_estimators=2).fit(X, y)


def test_a_regularizer_that_is_infinite_at_zero_is_refused():
    """No certificate is finite with it: they compare with distributions that leave rows out."""
    message = r"phi\(0\).* inf.*a weight of zero must have a finite phi"
    with pytest.raises(AssertionError, match=message):
        check_regularizer(Burg())
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    with pytest.raises(ValueError, match=message):
        MABoostClassifier(regularizer=Burg(), n_estimators=2).fit(X, y)


@pytest.mark.parametrize("gain", [1e-9, 0.3, 10.0, 1e6, 1e100, 1e300])
def test_error_levels_of_a_regularizer_that_overflows(gain):
    """For cosh: the largest level whose divergence is the gain, by bisection in exact logarithms."""
    level = Cosh().error_level(gain)
    low, high = 1e-9, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        divergence = middle * math.cosh(min(1.0 / middle, 700.0)) + 1.0 - middle - math.cosh(1.0)
        low, high = (middle, high) if divergence > gain else (low, middle)
    assert level == pytest.approx(high, rel=1e-7)


def test_checks_can_fail():
    with pytest.raises(AssertionError, match="not the derivative"):
        check_regularizer(WrongSlope())
    with pytest.raises(AssertionError, match=r"strong_convexity=2\.0 is too large"):
        check_regularizer(TooConvex())
    with pytest.raises(AssertionError, match="outside the domain"):
        check_domain(Leaky(3.0))
    labels = np.arange(120) % 2
    X = np.random.default_rng(0).normal(size=(120, 3)) + 0.2 * labels[:, None]
    deaf = Deaf(DecisionTreeClassifier(max_depth=1), np.arange(2))
    with pytest.raises(AssertionError, match="ignores weights"):
        check_learner(deaf, X, labels)
