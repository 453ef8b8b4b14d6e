"""Data sources travel with their rows through pipelines and cross-validation."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from maboost import CombinedBoostClassifier, MABoostClassifier

TREE = DecisionTreeClassifier(max_depth=2)
X, y = make_classification(300, 8, flip_y=0.0, random_state=0)
SOURCE = np.where(np.arange(300) % 3 == 0, "trusted", "scraped")
NOISY = np.where((SOURCE == "scraped") & (np.random.RandomState(0).rand(300) < 0.2), 1 - y, y)


@pytest.fixture(autouse=True)
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def booster(limit=0.3, rounds=40):
    limits = {"trusted": None, "scraped": limit}
    return CombinedBoostClassifier(
        TREE, error_limits=limits, n_estimators=rounds, learning_rate=1.0,
        random_state=0,
    )  # fmt: skip


def test_a_pipeline_passes_the_sources_on():
    pipeline = make_pipeline(StandardScaler(), booster()).fit(X, NOISY, sample_domain=SOURCE)
    direct = booster().fit(StandardScaler().fit_transform(X), NOISY, sample_domain=SOURCE)
    assert pipeline[-1].certificate_ == direct.certificate_
    np.testing.assert_array_equal(
        pipeline.predict(X), direct.predict(StandardScaler().fit_transform(X))
    )


def test_a_pipeline_without_sources_is_refused():
    with pytest.raises(ValueError, match="but fit got no sample_domain"):
        make_pipeline(StandardScaler(), booster()).fit(X, NOISY)


def test_cross_validation_splits_the_sources_with_the_rows():
    out = cross_validate(
        make_pipeline(StandardScaler(), booster()),
        X,
        NOISY,
        cv=3,
        params={"sample_domain": SOURCE},
        return_estimator=True,
        return_indices=True,
        error_score="raise",
    )
    for pipeline, train in zip(out["estimator"], out["indices"]["train"], strict=True):
        groups = pipeline[-1].certificate_.groups
        assert groups["trusted"].share == pytest.approx(np.mean(SOURCE[train] == "trusted"))
        assert groups["scraped"].limit == 0.3


def test_weights_travel_where_they_are_requested():
    model = booster().set_fit_request(sample_weight=True)
    weight = np.where(SOURCE == "trusted", 2.0, 1.0)
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
    pipeline.fit(X, NOISY, sample_weight=weight, sample_domain=SOURCE)
    assert pipeline[-1].certificate_.groups["trusted"].share == pytest.approx(0.5)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_groups_of_a_splitter_are_those_held_out(early_stopping):
    groups = np.arange(300) // 10
    model = MABoostClassifier(n_estimators=3, early_stopping=early_stopping, random_state=0)
    search = GridSearchCV(model, {"n_estimators": [2, 3]}, cv=GroupKFold(3), error_score="raise")
    search.fit(X, y, groups=groups)
    alone = clone(search.best_estimator_).fit(X, y, groups=groups)
    np.testing.assert_array_equal(
        search.best_estimator_.decision_function(X), alone.decision_function(X)
    )
    made = booster().get_metadata_routing().fit.requests  # with its sources
    assert made["groups"] is made["sample_domain"] is True


def test_grid_search_over_limits():
    grid = {"error_limits": [{"trusted": None, "scraped": limit} for limit in (0.1, 0.4)]}
    search = GridSearchCV(booster(rounds=5), grid, cv=2, error_score="raise")
    search.fit(X, NOISY, sample_domain=SOURCE)
    assert search.best_estimator_.certificate_.groups["scraped"].limit in (0.1, 0.4)


def test_other_boosters_take_no_sources():
    with pytest.raises(TypeError, match="sample_domain"):
        make_pipeline(MABoostClassifier(TREE)).fit(X, y, sample_domain=SOURCE)


# ----------------------------------------------------------------------- one certificate a source


def test_each_source_has_its_own_bound():
    model = booster(rounds=150).fit(X, NOISY, sample_domain=SOURCE)
    certificate = model.certificate_
    wrong = model.predict(X) != NOISY
    for name, limit in (("trusted", None), ("scraped", 0.3)):
        group = certificate.groups[name]
        members = name == SOURCE
        assert group.limit == limit
        assert group.share == pytest.approx(members.mean())
        assert group.measured_error == pytest.approx(wrong[members].mean())
        expected = max(limit or 0.0, np.exp(-certificate.gain) / members.mean())
        assert group.error_bound == pytest.approx(min(expected, 1.0))
        assert group.measured_error <= group.error_bound
        assert f"{name}" in str(certificate)
    assert certificate.groups["scraped"].error_bound == 0.3  # the limit is reached and is the floor
    assert certificate.groups["trusted"].error_bound < 0.3
    assert "(primary, share 0.333)" in str(certificate)
    assert "(limit 0.3, share 0.667)" in str(certificate)


def test_a_scraped_row_weighs_at_most_its_cap():
    model = booster(limit=0.5, rounds=150).fit(X, NOISY, sample_domain=SOURCE)
    share = np.mean(SOURCE == "scraped")
    cap = 1.0 / (0.5 * share) / len(y)  # D times k = 1/(limit * share)
    assert model.distribution_[SOURCE == "scraped"].max() <= cap * (1.0 + 1e-9)
    assert model.distribution_.max() > cap


def test_without_sources_all_rows_are_primary():
    stump = DecisionTreeClassifier(max_depth=1)
    one = CombinedBoostClassifier(stump, n_estimators=10, learning_rate=1.0, random_state=0).fit(
        X, y
    )
    other = MABoostClassifier(stump, n_estimators=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(one.estimator_weights_, other.estimator_weights_, rtol=1e-9)
    assert one.certificate_.groups["all"].limit is None


# ------------------------------------------------------------------------------- skada's integers


def test_negative_integers_are_primary():
    """skada marks target domains by negative numbers and source domains by positive ones."""
    domain = np.where(SOURCE == "trusted", -2, 1)
    model = CombinedBoostClassifier(
        TREE, error_limits={1: 0.3}, n_estimators=20, learning_rate=1.0, random_state=0
    )
    model.fit(X, NOISY, sample_domain=domain)
    groups = model.certificate_.groups
    assert set(groups) == {-2, 1}
    assert groups[-2].limit is None
    assert groups[1].limit == 0.3
    named = booster(rounds=20).fit(X, NOISY, sample_domain=SOURCE)
    np.testing.assert_array_equal(model.estimator_weights_, named.estimator_weights_)


def test_a_negative_domain_may_still_have_a_limit():
    domain = np.where(SOURCE == "trusted", -2, 1)
    model = CombinedBoostClassifier(TREE, error_limits={1: 0.3, -2: 0.1}, n_estimators=3)
    assert model.fit(X, NOISY, sample_domain=domain).certificate_.groups[-2].limit == 0.1


def test_a_positive_domain_must_be_named():
    domain = np.where(SOURCE == "trusted", -2, 1)
    with pytest.raises(
        ValueError, match=r"sample_domain has \[1\], which error_limits does not name"
    ):
        CombinedBoostClassifier(TREE).fit(X, NOISY, sample_domain=domain)


# ------------------------------------------------------------------------------- rates of sources


def test_trusted_sources_estimate_the_rates_of_the_others():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 3))
    true = (rows[:, 0] + rows[:, 1] + 0.5 * rng.normal(size=4000) > 0).astype(int)
    source = np.where(np.arange(4000) < 800, "audited", "scraped")
    flipped = (source == "scraped") & (true == 1) & (rng.random(4000) < 0.4)
    given = np.where(flipped, 0, true)
    model = CombinedBoostClassifier(flip_rates="trusted", trusted=["audited"], random_state=0)
    model.fit(rows, given, sample_domain=source)
    assert model.flip_rates == "trusted"
    rates = model.flip_rates_["scraped"]
    assert rates[1, 0] == pytest.approx(0.4, abs=0.08)
    assert rates[0, 1] == pytest.approx(0.0, abs=0.05)
    np.testing.assert_array_equal(model.flip_rates_["audited"], np.eye(2))
    ignored = CombinedBoostClassifier(
        error_limits={"audited": None, "scraped": None}, random_state=0
    ).fit(rows, given, sample_domain=source)
    fresh = rng.normal(size=(4000, 3))
    best = (fresh[:, 0] + fresh[:, 1] > 0).astype(int)
    assert model.score(fresh, best) > ignored.score(fresh, best) + 0.05


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"flip_rates": "trusted"}, "go together"),
        ({"trusted": ["a"]}, "go together"),
        ({"flip_rates": "trusted", "trusted": ["b"]}, "must name sources"),
        ({"flip_rates": {"trusted": 0.0}}, "which flip_rates does not name"),
        ({"flip_rates": {"trusted": 0.0, "scraped": 0.1, "x": 0.2}}, "which is not a source"),
    ],
)
def test_rates_of_sources_that_cannot_be(params, message):
    with pytest.raises(ValueError, match=message):
        CombinedBoostClassifier(**params).fit(X, NOISY, sample_domain=SOURCE)
