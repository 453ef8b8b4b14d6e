"""CombinedBoostClassifier with a largest share of the weight for a source."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from maboost import CombinedBoostClassifier, HistTreeClassifier, MABoostClassifier
from maboost.mirror import SourceCapped
from maboost.plot import DomainErrorDisplay

X, CLEAN = make_classification(600, 6, n_informative=4, flip_y=0.0, random_state=0)
RNG = np.random.default_rng(0)
SOURCE = RNG.choice(["trusted", "web", "scraped"], len(CLEAN), p=[0.2, 0.3, 0.5])
Y = np.where((SOURCE == "scraped") & (RNG.random(len(CLEAN)) < 0.3), 1 - CLEAN, CLEAN)
STUMP = HistTreeClassifier(max_depth=2)


def fitted(X=X, **params):
    model = CombinedBoostClassifier(STUMP, n_estimators=25, random_state=0).set_params(**params)
    return model.fit(X, Y, sample_domain=SOURCE)


class Shown(DecisionTreeClassifier):
    """A tree that keeps the weight of each source that it was shown."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        scraped = (
            SOURCE[X[:, -1].astype(int)] == "scraped"
        )  # the last column is the number of the row
        share = sample_weight[scraped].sum() / sample_weight.sum()
        Shown.seen.append(float(share))
        return self


@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("update", ["active", "lazy"])
@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
def test_a_source_never_has_more_weight_than_allowed(regularizer, update, rate):
    for masses in ({}, {"scraped": 0.3}, {"scraped": 0.15, "web": 0.2}):
        Shown.seen.clear()
        model = fitted(
            np.c_[X, np.arange(len(Y))], estimator=Shown(max_depth=2), regularizer=regularizer, update=update,
            learning_rate=rate, source_mass=masses or None,
            error_limits=None if masses else dict.fromkeys(np.unique(SOURCE).tolist()),
        )  # fmt: skip
        assert len(Shown.seen) == 25
        for name in np.unique(SOURCE):
            share = model.distribution_[name == SOURCE].sum()
            assert share <= masses.get(str(name), 1.0) + 1e-12
        if masses:
            assert max(Shown.seen) <= masses["scraped"] + 1e-12
        else:
            assert max(Shown.seen) > 0.3  # without a cap it has more


@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
@pytest.mark.parametrize("classes", [2, 3])
def test_what_the_certificate_says_holds(classes, regularizer):
    y = Y if classes == 2 else Y + (X[:, 0] > 0.5)
    model = CombinedBoostClassifier(
        STUMP, n_estimators=60, learning_rate=1.0, source_mass={"scraped": 0.2},
        error_limits={"trusted": None, "web": 0.4, "scraped": None}, regularizer=regularizer,
        random_state=0,
    ).fit(X, y, sample_domain=SOURCE)  # fmt: skip
    certificate = model.certificate_
    assert certificate.soft_margin >= certificate.margin_bound
    share = np.mean(SOURCE == "scraped")
    assert certificate.floor >= share
    assert certificate.floor <= certificate.error_bound
    assert certificate.measured_error <= certificate.error_bound
    wrong = model.predict(X) != y
    for name in ("trusted", "web"):
        group = certificate.groups[name]
        assert np.mean(wrong[name == SOURCE]) <= group.error_bound + 1e-12
        assert group.mass is None
    assert certificate.groups["trusted"].error_bound < 1.0
    scraped = certificate.groups["scraped"]
    assert (scraped.mass, scraped.error_bound) == (0.2, 1.0)
    text = str(certificate)
    assert "SourceCapped" in text
    assert "scraped          not certified" in text
    assert "at most 0.2 of the weight" in text
    assert model[:3].certificate_.groups["scraped"].error_bound == 1.0


def test_every_source_needs_a_limit_or_a_mass_where_limits_are_given():
    with pytest.raises(ValueError, match=r"sample_domain has \['trusted'\], which error_limits"):
        fitted(error_limits={"web": 0.2}, source_mass={"scraped": 0.2})
    model = fitted(error_limits={"web": 0.2, "trusted": None}, source_mass={"scraped": 0.2})
    assert model.certificate_.groups["web"].limit == 0.2


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"source_mass": {"scraped": 0.0}},
            r"source_mass\['scraped'\] must be in \(0, 1\), got 0.0",
        ),
        ({"source_mass": {"scraped": 1.0}}, r"must be in \(0, 1\), got 1.0; leave the source out"),
        ({"source_mass": {"scraped": np.nan}}, r"must be in \(0, 1\), got nan"),
        ({"source_mass": {"scraped": "low"}}, r"must be in \(0, 1\), got 'low'"),
        ({"source_mass": 0.3}, "'source_mass' parameter .* Got 0.3"),
        ({"source_mass": {"blogs": 0.3}}, r"source_mass names \['blogs'\], but no row of positive"),
        (
            {"source_mass": {"scraped": 0.3, "web": 0.3, "trusted": 0.3}},
            r"leaves no distribution: it names every source, and together they may have 0\.9 of the weight",
        ),
        (
            {
                "source_mass": {"scraped": 0.3},
                "error_limits": {"scraped": 0.2, "web": None, "trusted": None},
            },
            r"source 'scraped' has error_limits\['scraped'\]=0.2 and source_mass\['scraped'\]=0.3: no error "
            "is certified",
        ),
    ],
)
def test_masses_that_cannot_be_are_refused_in_words(params, message):
    with pytest.raises(ValueError, match=message):
        fitted(**params)


def test_masses_without_sources_are_refused():
    with pytest.raises(ValueError, match="names sources, but fit got no sample_domain"):
        CombinedBoostClassifier(source_mass={"a": 0.3}).fit(X, Y)


def test_masses_that_sum_to_one_fix_the_share_of_each_source():
    masses = {"scraped": 0.2, "web": 0.3, "trusted": 0.5}
    model = fitted(source_mass=masses)
    for name, mass in masses.items():
        assert model.distribution_[name == SOURCE].sum() == pytest.approx(mass, abs=1e-12)


def test_weights_count_as_repetitions():
    weight = np.random.default_rng(1).integers(0, 3, len(Y))
    rows, table = np.repeat(np.arange(len(Y)), weight), np.round(X, 1)
    model = CombinedBoostClassifier(
        STUMP, n_estimators=8, random_state=0,
        source_mass={"scraped": 0.2}, early_stopping=False,
    )  # fmt: skip
    one = clone(model).fit(table, Y, sample_weight=weight, sample_domain=SOURCE)
    other = clone(model).fit(table[rows], Y[rows], sample_domain=SOURCE[rows])
    np.testing.assert_allclose(one.estimator_weights_, other.estimator_weights_, rtol=1e-9)
    np.testing.assert_array_equal(one.predict(table), other.predict(table))


def test_rows_held_out_and_rows_without_weight_have_sources_too():
    weight = (np.arange(len(Y)) % 7 > 0).astype(float)
    model = CombinedBoostClassifier(
        STUMP, n_estimators=8, random_state=0, source_mass={"scraped": 0.2}, early_stopping=True
    ).fit(X, Y, sample_weight=weight, sample_domain=SOURCE)
    assert model.distribution_[SOURCE == "scraped"].sum() <= 0.2 + 1e-12
    names, sources = np.unique(SOURCE, return_inverse=True)
    domain = SourceCapped(sources, np.where(names == "scraped", 0.2, 1.0))
    other = MABoostClassifier(domain=domain, n_estimators=8, early_stopping=False, random_state=0)
    other.set_params(estimator=STUMP).fit(X, Y, sample_weight=weight)
    assert other.distribution_[SOURCE == "scraped"].sum() <= 0.2 + 1e-12


def test_the_display_marks_no_certified_error_where_there_is_none():
    display = DomainErrorDisplay.from_estimator(fitted(source_mass={"scraped": 0.3}))
    assert set(display.error_bounds) == {"trusted", "web"}


def test_it_follows_wrong_labels_less():
    """A fifth of the rows is trusted; the labels of the others are wrong in nearly half of the rows."""
    X, clean = make_classification(3000, 8, n_informative=6, flip_y=0.0, random_state=1)
    rng = np.random.default_rng(1)
    source = np.where(rng.random(3000) < 0.2, "trusted", "scraped")
    y = np.where((source == "scraped") & (rng.random(3000) < 0.45), 1 - clean, clean)
    train, errors = np.arange(3000) < 2000, {}
    for params in (
        {"error_limits": {"trusted": None, "scraped": 0.5}},
        {"source_mass": {"scraped": 0.1}},
    ):
        model = CombinedBoostClassifier(n_estimators=60, random_state=0, **params)
        model.fit(X[train], y[train], sample_domain=source[train])
        errors[next(iter(params))] = np.mean(model.predict(X[~train]) != clean[~train])
    assert errors["source_mass"] < errors["error_limits"] - 0.05
