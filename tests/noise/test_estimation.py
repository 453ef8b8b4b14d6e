"""Estimated flip rates, against brute force, scipy's intervals and populations of known rates."""

import copy
import json
import pickle

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from maboost.noise import (
    corrected_probabilities,
    flip_rates_from_audit,
    flip_rates_from_prevalence,
    flip_rates_from_probabilities,
    flip_rates_from_trusted,
    label_weights,
    transition_matrix,
)


def trusted(rates, n, seed, scale=1.0):
    """Probabilities of given labels and true labels of n rows, under flip rates that spread evenly."""
    rng = np.random.default_rng(seed)
    K = len(rates)
    z = scale * rng.normal(size=(n, K))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.sum(rng.random(n)[:, None] > np.cumsum(p, axis=1), axis=1)
    T = transition_matrix(dict(enumerate(rates)), range(K))
    return p @ T, y


def values(estimate):
    return np.array(list(estimate.rates.values()))


def covered(estimate, rates):
    """Which intervals hold the true rates."""
    return np.array([
        low <= rate <= high
        for (low, high), rate in zip(estimate.intervals.values(), rates, strict=True)
    ])  # fmt: skip


class TestAudit:
    def test_counts_and_intervals_are_scipys(self):
        rng = np.random.default_rng(0)
        true, given = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
        given[true == 0] = 0  # rates of 0 and 1
        found = flip_rates_from_audit(given, true, confidence=0.9)
        for a in range(3):
            for b in range(3):
                count, n = int(np.sum((true == a) & (given == b))), int(np.sum(true == a))
                exact = binomtest(count, n).proportion_ci(0.9, method="exact")
                assert found.matrix[a, b] == count / n
                assert found.lower[a, b] == pytest.approx(exact.low, abs=1e-12)
                assert found.upper[a, b] == pytest.approx(exact.high, abs=1e-12)
            n = int(np.sum(true == a))
            exact = binomtest(int(np.sum((true == a) & (given != a))), n).proportion_ci(
                0.9, "exact"
            )
            assert found.intervals[a] == pytest.approx((exact.low, exact.high), abs=1e-12)

    def test_intervals_cover(self):
        T = transition_matrix({0: 0.3, 1: 0.1}, range(3))
        rng, held = np.random.default_rng(0), 0.0
        for _ in range(300):
            true = rng.integers(0, 3, 150)
            given = np.sum(rng.random(150)[:, None] > np.cumsum(T, axis=1)[true], axis=1)
            found = flip_rates_from_audit(given, true)
            held += np.mean((found.lower <= T + 1e-12) & (found.upper >= T - 1e-12)) / 300
        assert held >= 0.95

    def test_labels_may_be_text(self):
        found = flip_rates_from_audit(["ok", "ok", "fraud"], ["fraud", "ok", "fraud"])
        assert found.classes == ("fraud", "ok")
        assert found.rates == {"fraud": 0.5, "ok": 0.0}

    @pytest.mark.parametrize(
        ("given", "true", "message"),
        [
            (["a", "b"], ["a", "a"], "no audited row is truly 'b'"),
            (["a"], ["a", "b"], "labels of the same rows"),
            ([], [], "one or more"),
        ],
    )
    def test_refusals(self, given, true, message):
        with pytest.raises(ValueError, match=message):
            flip_rates_from_audit(given, true)

    @pytest.mark.parametrize("confidence", [0, 1, 95, np.nan, "high", True])
    def test_confidence_is_checked(self, confidence):
        with pytest.raises(ValueError, match="confidence must be strictly between 0 and 1"):
            flip_rates_from_audit(["a", "b"], ["a", "b"], confidence)


class TestPrevalence:
    @pytest.mark.parametrize("flipped", ["no", "yes"])
    def test_rate_and_interval(self, flipped):
        other = {"no": "yes", "yes": "no"}[flipped]
        y = np.array([flipped] * 120 + [other] * 880)
        found = flip_rates_from_prevalence(y, 0.2, flipped=flipped)
        assert found.rates == pytest.approx({flipped: 0.4, other: 0.0})
        exact = binomtest(120, 1000).proportion_ci(0.95, method="exact")
        low, high = found.intervals[flipped]
        assert (low, high) == pytest.approx((1 - exact.high / 0.2, 1 - exact.low / 0.2))
        assert found.intervals[other] == (0.0, 0.0)
        assert found.n_rows == 1000

    def test_intervals_cover(self):
        rng = np.random.default_rng(0)
        held = [
            covered(flip_rates_from_prevalence(rng.random(500) < 0.18, 0.3, flipped=True), [0, 0.4])
            for _ in range(300)
        ]
        assert np.mean(held, axis=0)[1] >= 0.93

    def test_sampling_error_is_clipped_with_a_warning(self):
        y = [1] * 22 + [0] * 78
        with pytest.warns(UserWarning, match="taken as 0"):
            found = flip_rates_from_prevalence(y, 0.2, flipped=1)
        assert found.rates == {0: 0.0, 1: 0.0}
        assert found.intervals[1][1] > 0

    def test_more_than_sampling_error_is_refused(self):
        with pytest.raises(ValueError, match=r"prevalence=0.2 is below the share .* flipped=0"):
            flip_rates_from_prevalence([1] * 2200 + [0] * 7800, 0.2, flipped=1)

    @pytest.mark.parametrize(
        ("y", "prevalence", "flipped", "message"),
        [
            ([0, 1, 2], 0.5, 1, "two classes"),
            ([1, 1], 0.5, 1, "two classes"),
            ([0, 1], 0.5, "fraud", "flipped='fraud' is not a class"),
            ([0, 1], 0.0, 1, "prevalence must be a share"),
            ([0, 1], 50, 1, "prevalence must be a share"),
            ([0, 1], np.nan, 1, "prevalence must be a share"),
        ],
    )
    def test_refusals(self, y, prevalence, flipped, message):
        with pytest.raises(ValueError, match=message):
            flip_rates_from_prevalence(y, prevalence, flipped=flipped)


class TestProbabilities:
    def log_likelihood(self, q, y, rates):
        p = corrected_probabilities(q, dict(enumerate(rates)))[np.arange(len(y)), y]
        return np.sum(np.log(np.maximum(p, 1e-3)))

    @pytest.mark.parametrize("rates", [(0.0, 0.4), (0.4, 0.0), (0.3, 0.1), (0.0, 0.0), (0.1, 0.8)])
    @pytest.mark.parametrize("seed", range(3))
    def test_against_a_fine_grid(self, rates, seed):
        """No point of a grid is better, and the interval is where the profile of the grid ends."""
        q, y = trusted(rates, 200, seed)
        found = flip_rates_from_probabilities(q, y)
        best = self.log_likelihood(q, y, values(found))
        grid = np.arange(0.0, 0.99, 0.01)
        heights = np.array([
            [self.log_likelihood(q, y, (a, b)) if a + b < 0.995 else -np.inf for b in grid] for a in grid
        ])  # fmt: skip
        assert best >= heights.max()
        for j, profile in enumerate([heights.max(axis=1), heights.max(axis=0)]):
            inside = grid[profile >= best - 5.9915 / 2]  # chi-squared, two degrees of freedom
            low, high = found.intervals[j]
            assert low <= inside[0] + 1e-3
            assert inside[-1] <= high + 1e-3
            assert low == pytest.approx(inside[0], abs=0.02)
            assert high == pytest.approx(inside[-1], abs=0.02)

    def test_two_hundred_trusted_rows(self):
        """0.41 +- 0.03 and 0.01 +- 0.02, where the truth is (0.4, 0)."""
        found = np.array([
            values(flip_rates_from_probabilities(*trusted((0.0, 0.4), 200, seed, scale=1.5)))
            for seed in range(40)
        ])  # fmt: skip
        np.testing.assert_allclose(found.mean(axis=0), [0.01, 0.41], atol=0.01)
        assert np.all(found.std(axis=0) < [0.03, 0.04])

    @pytest.mark.parametrize("rates", [(0.0, 0.4), (0.3, 0.1)])
    def test_intervals_cover_together(self, rates):
        held = [
            covered(flip_rates_from_probabilities(*trusted(rates, 200, seed)), rates).all()
            for seed in range(200)
        ]
        assert np.mean(held) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200)

    def test_three_classes(self):
        rates = (0.1, 0.0, 0.4)
        q, y = trusted(rates, 2000, 0)
        found = flip_rates_from_probabilities(q, y)
        np.testing.assert_allclose(values(found), rates, atol=0.05)
        assert covered(found, rates).all()
        best = self.log_likelihood(q, y, values(found))
        rng = np.random.default_rng(0)
        near = np.clip(values(found) + rng.normal(scale=0.02, size=(300, 3)), 0, 0.6)
        far = rng.uniform(0, 0.6, size=(300, 3))
        assert best >= max(self.log_likelihood(q, y, at) for at in [*near, *far]) - 1e-3

    def test_symmetries(self):
        """Order of rows, names and order of the classes, and the short form of q do not matter."""
        q, y = trusted((0.1, 0.4), 150, 0)
        found = flip_rates_from_probabilities(q, y)
        mixed = np.random.default_rng(0).permutation(150)
        assert flip_rates_from_probabilities(q[mixed], y[mixed]).to_dict() == found.to_dict()
        for other in (
            flip_rates_from_probabilities(q[:, 1], y),
            flip_rates_from_probabilities(q[:, ::-1], y, classes=[1, 0]),
        ):
            np.testing.assert_allclose(other.matrix, found.matrix, atol=1e-4)
            assert other.classes == (0, 1)
        named = flip_rates_from_probabilities(q[:, ::-1], np.array(["z", "a"])[y])
        assert named.rates["a"] == pytest.approx(found.rates[1], abs=1e-3)

    def test_probabilities_without_information_leave_wide_intervals(self):
        y = np.arange(100) % 2
        found = flip_rates_from_probabilities(np.full(100, 0.3), y)
        low, high = found.intervals[1]
        assert high - low > 0.4

    @pytest.mark.parametrize(
        ("q", "y", "classes", "message"),
        [
            ([0.1, 0.2], [0, 0], [0, 1], "no trusted row is truly 1"),
            ([0.1, 0.2], [0, 0], None, "probabilities of 2 classes"),
            ([0.1, 0.2], [0, 1, 1], None, "q has 2 rows, but y_true has 3"),
            ([0.1, 0.2], [0, 2], [0, 1], "y_true holds 2"),
            ([0.1, np.nan], [0, 1], None, "probabilities in"),
        ],
    )
    def test_refusals(self, q, y, classes, message):
        with pytest.raises(ValueError, match=message):
            flip_rates_from_probabilities(q, y, classes=classes)


class Flips(LogisticRegression):
    """A classifier with the parameter `flip_rates`."""

    def __init__(self, flip_rates=None):
        super().__init__()
        self.flip_rates = flip_rates


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(8000, 2))
    y = np.where(rng.random(8000) < 1 / (1 + np.exp(-2 * X[:, 0])), "fraud", "ok")
    given = np.where((y == "fraud") & (rng.random(8000) < 0.4), "ok", y)
    return X[:500], y[:500], X[500:], given[500:]


class TestTrusted:
    @pytest.mark.parametrize("calibration", ["isotonic", None])
    def test_finds_the_rates(self, rows, calibration):
        found = flip_rates_from_trusted(LogisticRegression(), *rows, calibration=calibration)
        assert found.rates == pytest.approx({"fraud": 0.4, "ok": 0.0}, abs=0.08)
        assert found.n_rows == 500

    def test_is_deterministic_and_leaves_the_classifier_alone(self, rows):
        model = LogisticRegression()
        first, second = (flip_rates_from_trusted(model, *rows, folds=3) for _ in range(2))
        np.testing.assert_array_equal(first.matrix, second.matrix)
        assert not hasattr(model, "coef_")

    def test_calibration_repairs_overconfident_probabilities(self, rows):
        """Scores ten times too large are put right; as they are, the rates would be far off."""

        class Overconfident(LogisticRegression):
            def decision_function(self, X):
                return 10.0 * super().decision_function(X)

        found = flip_rates_from_trusted(Overconfident(), *rows)
        assert found.rates["fraud"] == pytest.approx(0.4, abs=0.08)

    def test_refusals(self, rows):
        X, y, X_given, given = rows
        with pytest.raises(ValueError, match="calibration must be"):
            flip_rates_from_trusted(LogisticRegression(), *rows, calibration="best")
        with pytest.raises(ValueError, match="set its flip_rates to None"):
            flip_rates_from_trusted(Flips(flip_rates=0.1), *rows)
        with pytest.raises(ValueError, match="use flip_rates_from_probabilities"):
            flip_rates_from_trusted([0.1, 0.2], *rows)
        with pytest.raises(ValueError, match="'other', which is not among y_untrusted"):
            flip_rates_from_trusted(
                LogisticRegression(), X, np.where(y == "ok", "other", y), X_given, given
            )


class TestEstimatedRates:
    @pytest.fixture
    def estimate(self):
        return flip_rates_from_audit(
            ["ok"] * 4 + ["fraud"] * 6 + ["ok"] * 10, ["fraud"] * 10 + ["ok"] * 10
        )

    def test_goes_wherever_rates_go(self, estimate):
        np.testing.assert_allclose(label_weights(["fraud", "ok"], estimate), [1.4, 0.6])
        p = corrected_probabilities([0.7, 0.4], estimate, classes=["fraud", "ok"])
        np.testing.assert_allclose(p, [0.5, 0.0], atol=1e-6)

    def test_as_a_parameter_of_an_estimator(self, estimate):
        model = clone(Flips(flip_rates=estimate))
        np.testing.assert_array_equal(model.flip_rates.matrix, estimate.matrix)
        assert "flip_rates" in repr(model)

    def test_copies_and_json(self, estimate):
        for other in (copy.deepcopy(estimate), pickle.loads(pickle.dumps(estimate))):
            assert other.to_dict() == estimate.to_dict()
        loaded = json.loads(json.dumps(estimate.to_dict()))
        assert loaded["classes"] == ["fraud", "ok"]
        assert loaded["rates"] == pytest.approx([0.4, 0.0])
        assert loaded["n_rows"] == 20

    def test_cannot_be_changed(self, estimate):
        with pytest.raises(AttributeError):
            estimate.n_rows = 3
        estimate.ordered(["fraud", "ok"])[:] = 0.0
        assert estimate.matrix[0, 0] == pytest.approx(0.6)
