"""What users give to maboost.certify, and what they get."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maboost import SmoothBoostClassifier, certify
from maboost.noise import flip_rates_from_audit


class Told:
    """A classifier that predicts what X says."""

    def predict(self, X):
        return np.asarray(X)


RNG = np.random.default_rng(0)
TRUE = RNG.integers(0, 2, 1200)
SAID = np.where(RNG.random(1200) < 0.12, 1 - TRUE, TRUE)
GIVEN = np.where((TRUE == 1) & (RNG.random(1200) < 0.4), 0, TRUE)
SITE = np.where(RNG.random(1200) < 0.3, "north", "south")


def bounds(error):
    return error.lower, error.upper


def exact(wrong, confidence):
    found = binomtest(int(wrong.sum()), len(wrong)).proportion_ci(confidence, method="exact")
    return pytest.approx(tuple(found))


def test_exact_bounds_overall_by_group_and_by_class():
    found = certify(Told(), SAID, TRUE, groups=SITE)
    wrong = SAID != TRUE
    assert found.overall.estimate == wrong.mean()
    assert bounds(found.overall) == exact(wrong, 0.95)
    assert list(found.groups) == ["north", "south"]
    for name, error in found.groups.items():
        assert bounds(error) == exact(wrong[name == SITE], 0.975)  # two groups share the level
    for label, error in found.classes.items():
        assert bounds(error) == exact(wrong[label == TRUE], 0.975)
    assert found.labels == "given"
    assert "nothing is said about true labels" in str(found)


def test_the_estimate_against_true_labels_is_the_unbiased_loss():
    found = certify(Told(), SAID, GIVEN, flip_rates={1: 0.4})
    other, own = np.where(GIVEN == 1, 0.0, 0.4), np.where(GIVEN == 1, 0.4, 0.0)
    loss = np.where(SAID != GIVEN, 1.0 - other, -own) / 0.6
    assert found.overall.estimate == pytest.approx(loss.mean())
    assert found.labels == "true"
    for label in (0, 1):
        truth = np.mean(SAID[label == TRUE] != label)
        assert found.classes[label].lower <= truth <= found.classes[label].upper
    assert found.overall.lower <= np.mean(SAID != TRUE) <= found.overall.upper
    # against the labels as given this classifier looks far worse than it is
    assert certify(Told(), SAID, GIVEN).overall.lower > found.overall.upper


def test_a_matrix_a_dict_and_one_rate_say_the_same():
    given = certify(Told(), SAID, GIVEN, flip_rates={0: 0.1, 1: 0.1})
    for rates in (0.1, [[0.9, 0.1], [0.1, 0.9]], {0: (0.1, 0.1), 1: 0.1}):
        other = certify(Told(), SAID, GIVEN, flip_rates=rates)
        assert other.overall.estimate == pytest.approx(given.overall.estimate)
        if not isinstance(rates, dict):  # an interval takes half of the level
            assert bounds(other.overall) == pytest.approx(bounds(given.overall))


def test_wider_intervals_of_rates_give_wider_bounds():
    widths = [
        np.ptp(bounds(certify(Told(), SAID, GIVEN, flip_rates={1: (0.4 - e, 0.4 + e)}).overall))
        for e in (0.0, 0.02, 0.05, 0.1)
    ]
    assert all(narrow < wide for narrow, wide in pairwise(widths))
    assert widths[0] > np.ptp(bounds(certify(Told(), SAID, GIVEN, flip_rates={1: 0.4}).overall))


MISSED = {"north": 0.4, "south": 0.1}  # of class 1
BY_SITE = np.where(
    (TRUE == 1) & (np.random.default_rng(1).random(1200) < np.where(SITE == "north", 0.4, 0.1)),
    0,
    TRUE,
)


def test_rates_by_group_bound_the_error_of_their_mixture():
    rates = {site: {1: rate} for site, rate in MISSED.items()}
    found = certify(Told(), SAID, BY_SITE, groups=SITE, flip_rates=rates)
    share = {site: np.mean(site == SITE) for site in MISSED}
    for site, rate in MISSED.items():
        rows = site == SITE
        alone = certify(Told(), SAID[rows], BY_SITE[rows], 0.975, flip_rates={1: rate})
        assert found.groups[site].estimate == pytest.approx(alone.overall.estimate)
        assert bounds(found.groups[site]) == pytest.approx(bounds(alone.overall))
    mixture = sum(share[site] * found.groups[site].estimate for site in MISSED)
    assert found.overall.estimate == pytest.approx(mixture)
    assert found.overall.lower <= np.mean(SAID != TRUE) <= found.overall.upper
    for label in (0, 1):
        truth = np.mean(SAID[label == TRUE] != label)
        assert found.classes[label].lower <= truth <= found.classes[label].upper
    assert "Each group has its own rates" in str(found)


def test_rates_that_all_groups_share_say_what_one_set_of_rates_says():
    one = certify(Told(), SAID, GIVEN, groups=SITE, flip_rates={1: 0.4})
    each = certify(Told(), SAID, GIVEN, groups=SITE, flip_rates={s: {1: 0.4} for s in MISSED})
    for error, other in zip(one.errors, each.errors, strict=True):
        assert other.estimate == pytest.approx(error.estimate)
        assert bounds(other) == pytest.approx(bounds(error), abs=1e-6)


def test_intervals_of_rates_by_group_contain_the_bounds_of_rates_within():
    def found(north, south):
        rates = {"north": {1: north}, "south": {1: south}}
        return certify(Told(), SAID, BY_SITE, groups=SITE, flip_rates=rates)

    wide = found((0.35, 0.45), (0.05, 0.15))
    assert "worst rates" in str(wide)
    for north in (0.35, 0.4, 0.45):
        for south in (0.05, 0.1, 0.15):
            for outer, inner in zip(wide.errors, found(north, south).errors, strict=True):
                assert outer.lower <= inner.estimate <= outer.upper
    narrow = found(0.4, 0.1)
    assert wide.overall.lower < narrow.overall.lower < narrow.overall.upper < wide.overall.upper


def test_audits_by_group_share_the_error_probability():
    def audit(site, confidence):
        rows = site == SITE
        return flip_rates_from_audit(BY_SITE[rows], TRUE[rows], confidence=confidence)

    # 0.05 / 2 for both groups together, and two classes each
    enough = {site: audit(site, 0.99375) for site in MISSED}
    assert certify(Told(), SAID, BY_SITE, groups=SITE, flip_rates=enough).overall.upper < 0.5
    short = {site: audit(site, 0.9875) for site in MISSED}
    with pytest.raises(ValueError, match=r"confidence=0\.99375 or more"):
        certify(Told(), SAID, BY_SITE, groups=SITE, flip_rates=short)


NUMBERS = np.where(SITE == "north", 0, 1)  # groups with the names of the classes


def test_keys_that_are_groups_and_classes_are_refused_or_marked():
    with pytest.raises(ValueError, match="0 is a group and a class"):
        certify(Told(), SAID, BY_SITE, groups=NUMBERS, flip_rates={0: 0.0, 1: 0.1})
    named = certify(
        Told(), SAID, BY_SITE, groups=SITE, flip_rates={"north": {1: 0.4}, "south": {1: 0.1}}
    )
    for rates in (
        {0: {1: 0.4}, 1: {1: 0.1}},
        {("group", 0): {1: 0.4}, ("group", 1): [[1.0, 0.0], [0.1, 0.9]]},
    ):
        found = certify(Told(), SAID, BY_SITE, groups=NUMBERS, flip_rates=rates)
        assert bounds(found.overall) == pytest.approx(bounds(named.overall))
    by_class = certify(Told(), SAID, GIVEN, groups=NUMBERS, flip_rates=[[1.0, 0.0], [0.4, 0.6]])
    assert by_class.overall == certify(Told(), SAID, GIVEN, flip_rates={1: 0.4}).overall
    third = np.where(np.arange(1200) % 3 == 0, "new", NUMBERS.astype(object))
    with pytest.raises(ValueError, match="is a group and a class"):
        certify(Told(), SAID, GIVEN, groups=third, flip_rates={0: 0.0, 1: 0.4})


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"north": 0.1}, "do not name 'south'"),
        ({"north": 0.1, "sout": 0.1}, "names 'sout', which is no group; the groups are"),
        ({"north": 0.1, "south": 0.1, ("group", "south"): 0.2}, "names a group twice"),
        ({"north": 0.1, 1: 0.2}, "names 1, which is no group"),
        (
            {"north": 0.1, "south": (0.1, 0.2)},
            "must be a rate, a dict of rates by class, or a matrix",
        ),
        ({"west": 0.1}, "names 'west', which is not a class"),
        ({"north": {1: 0.5, 0: 0.5}, "south": 0.1}, "leave nothing to learn"),
    ],
)
def test_rates_by_group_that_are_refused(rates, message):
    with pytest.raises(ValueError, match=message):
        certify(Told(), SAID, BY_SITE, groups=SITE, flip_rates=rates)


def test_more_intervals_than_corners_can_serve_are_refused():
    many = np.arange(1200) % 9
    rates = {("group", g): {1: (0.1, 0.2)} for g in range(9)}
    with pytest.raises(ValueError, match="more than 8 intervals in all groups together"):
        certify(Told(), SAID, GIVEN, groups=many, flip_rates=rates)


def test_rates_may_be_an_object_with_intervals():
    class Audit:
        intervals = {1: (0.35, 0.45)}

    found = certify(Told(), SAID, GIVEN, flip_rates=Audit())
    assert found == certify(Told(), SAID, GIVEN, flip_rates={1: (0.35, 0.45)})


def test_no_rates_are_what_flip_rates_of_zero_are():
    none = certify(Told(), SAID, TRUE)
    zero = certify(Told(), SAID, TRUE, flip_rates=0.0)
    assert zero.overall.estimate == pytest.approx(none.overall.estimate)
    for exact_error, error in zip(none.errors, zero.errors, strict=True):
        assert error.estimate == pytest.approx(exact_error.estimate)
        assert error.lower <= exact_error.lower
        assert exact_error.upper <= error.upper


def test_weights_are_importances_and_not_repetitions():
    weight = np.where(SITE == "north", 3.0, 1.0)
    found = certify(Told(), SAID, TRUE, sample_weight=weight)
    wrong = SAID != TRUE
    assert found.overall.estimate == pytest.approx(np.average(wrong, weights=weight))
    assert found.overall.lower < found.overall.estimate < found.overall.upper
    scaled = certify(Told(), SAID, TRUE, sample_weight=10.0 * weight)
    assert bounds(scaled.overall) == pytest.approx(bounds(found.overall))
    equal = certify(Told(), SAID, TRUE, sample_weight=np.full(1200, 7.0))
    assert bounds(equal.overall) == exact(wrong, 0.95)
    assert "not repetitions" in str(found)


@pytest.mark.parametrize(
    "options", [{}, {"flip_rates": {1: 0.4}}, {"sample_weight": RNG.random(1200)}]
)
def test_the_order_of_the_rows_does_not_matter(options):
    order = np.random.default_rng(1).permutation(1200)
    found = certify(Told(), SAID, GIVEN, groups=SITE, limits=0.2, **options)
    if "sample_weight" in options:
        options = {"sample_weight": options["sample_weight"][order]}
    again = certify(Told(), SAID[order], GIVEN[order], groups=SITE[order], limits=0.2, **options)
    for one, other in zip(found.errors, again.errors, strict=True):
        assert bounds(one) == pytest.approx(bounds(other), abs=1e-8)
        assert one.estimate == pytest.approx(other.estimate)


def test_limits_are_met_violated_or_open():
    limits = {"overall": 0.2, "north": 0.01, ("group", "south"): 0.11, ("class", 1): 0.0}
    found = certify(Told(), SAID, TRUE, groups=SITE, limits=limits)
    assert found.overall.status == "met"
    assert found.groups["north"].status == "violated"
    assert found.groups["south"].status == "open"
    assert found.classes[1].status == "violated"
    assert found.classes[0].status is None
    assert found.groups["south"].rows_to_decide > found.groups["south"].rows
    assert found.limits_violated
    assert not found.limits_met
    assert "limit 11%: open; about" in str(found)
    assert certify(Told(), SAID, TRUE, limits=0.2).limits_met


def test_rows_do_not_decide_what_the_rates_leave_open():
    found = certify(Told(), SAID, GIVEN, flip_rates={1: (0.2, 0.5)}, limits=0.12)
    assert found.overall.status == "open"
    assert found.overall.rows_to_decide is None
    assert "more rows would not decide it" in str(found)


def test_a_name_for_a_group_that_is_also_called_overall():
    groups = np.where(SITE == "north", "overall", "south")
    found = certify(
        Told(), SAID, TRUE, groups=groups, limits={"overall": 0.5, ("group", "overall"): 0.0}
    )
    assert (found.overall.limit, found.groups["overall"].limit) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence must be a number between 0 and 1, got 1.0"),
        ({"confidence": "high"}, "confidence must be"),
        ({"limits": 1.5}, "limits must be an error in"),
        ({"limits": {"overall": -0.1}}, r"limits\['overall'\] must be"),
        (
            {"limits": {"west": 0.1}},
            "limits names 'west', which does not exist; there are 'overall'",
        ),
        ({"limits": {("class", 7): 0.1}}, r"limits names \('class', 7\)"),
        ({"limits": {"north": 0.1}}, "limits names 'north'"),
        ({"flip_rates": {7: 0.1}}, "flip_rates names 7, which is not a class"),
        ({"flip_rates": {1: 1.5}}, "must be a number in"),
        ({"flip_rates": {1: (0.5, 0.4)}}, "or an interval"),
        ({"flip_rates": {1: (0.4, 0.6), 0: 0.5}}, "leave nothing to learn at the rates {1: 0.6}"),
        ({"sample_weight": np.ones(3)}, "sample_weight has 3 values for 1200 labels"),
        ({"sample_weight": np.full(1200, -1.0)}, "sample_weight must be finite and at least 0"),
        ({"sample_weight": np.zeros(1200)}, "above 0 in some row"),
        ({"groups": SITE[:-1]}, "groups has 1199 values"),
        (
            {"groups": np.array([None] + [1] * 1199)},
            "groups has 1 missing values, the first in row 0",
        ),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        certify(Told(), SAID, TRUE, **options)


def test_classifiers_and_labels_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="must have a method predict"):
        certify(lambda X: X, SAID, TRUE)
    with pytest.raises(ValueError, match=r"predicts 0\.\d+, but y has"):
        certify(Told(), RNG.uniform(0.1, 0.9, 1200), TRUE)
    with pytest.raises(ValueError, match="give labels, not probabilities"):
        certify(Told(), np.ones((1200, 2)), TRUE)
    with pytest.raises(ValueError, match="predicts 0, but y has 'no'"):
        certify(Told(), np.zeros(2, int), ["no", "yes"])
    with pytest.raises(ValueError, match="no rows"):
        certify(Told(), [], [])
    with pytest.raises(ValueError, match="y has 1 missing values, the first in row 1"):
        certify(Told(), [0, 1], [0, None])


@pytest.mark.parametrize(
    "wrap", [list, pd.Series, pa.array, lambda v: pd.Series(v, dtype="category")]
)
def test_labels_of_any_library(wrap):
    names = np.array(["no", "yes"])
    found = certify(
        Told(), names[SAID], wrap(names[TRUE]), groups=wrap(SITE), limits={"north": 0.5}
    )
    assert found.overall.estimate == np.mean(SAID != TRUE)
    assert list(found.classes) == ["no", "yes"]
    assert found.groups["north"].status == "met"


def test_a_class_without_rows_and_a_label_the_classifier_does_not_know():
    class Three(Told):
        classes_ = np.array([0, 1, 2])

    found = certify(Three(), SAID, TRUE)
    assert (found.classes[2].rows, found.classes[2].lower, found.classes[2].upper) == (0, 0.0, 1.0)
    new = certify(Three(), [0, 1, 0], [0, 1, 9])
    assert new.classes[9].estimate == 1.0
    assert "unknown" in str(found)


@pytest.mark.parametrize("options", [{}, {"sample_weight": RNG.random(50)}])
def test_one_class_alone(options):
    found = certify(Told(), np.zeros(50, int), np.zeros(50, int), **options)
    assert found.overall.lower == 0.0
    assert 0.0 < found.overall.upper < 0.3


def test_rows_that_the_classifier_has_learned_by_heart_contradict_the_rates():
    with pytest.warns(UserWarning, match="flip_rates do not fit these rows") as caught:
        found = certify(Told(), GIVEN, GIVEN, flip_rates={1: 0.4}, limits=0.5)
    assert len(caught) == 1
    assert found.overall.status == "open"
    assert bounds(found.overall) == (0.0, 1.0)
    assert "do not fit" in str(found)


def test_three_classes_with_a_matrix():
    T = np.array([[0.8, 0.1, 0.1], [0.0, 1.0, 0.0], [0.3, 0.0, 0.7]])
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 4000)
    said = np.where(rng.random(4000) < 0.1, (y + 1) % 3, y)
    given = np.array([rng.choice(3, p=T[label]) for label in y])
    found = certify(Told(), said, given, flip_rates=T)
    assert found.overall.lower < np.mean(said != y) < found.overall.upper
    for label, error in found.classes.items():
        assert error.lower <= np.mean(said[y == label] != label) <= error.upper
    assert found.overall.lower > 0.02


def test_any_classifier():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    names = np.array(["malignant", "benign"])[y]
    for model in (
        make_pipeline(StandardScaler(), LogisticRegression()),
        SmoothBoostClassifier(n_estimators=5, random_state=0),
    ):
        model.fit(X[::2], names[::2])
        found = certify(model, X[1::2], names[1::2], limits=0.2)
        assert found.overall.status == "met"
        assert list(found.classes) == ["benign", "malignant"]


def test_the_frame_has_all_that_the_object_has():
    found = certify(Told(), SAID, TRUE, groups=SITE, limits={"north": 0.13})
    frame = found.to_frame()
    assert frame["kind"].tolist() == ["overall", "group", "group", "class", "class"]
    assert frame["name"].tolist() == [None, "north", "south", 0, 1]
    assert frame["upper"].tolist() == [e.upper for e in found.errors]
    assert frame["rows_to_decide"].isna().sum() == 4
    assert frame["limit"].notna().sum() == 1


def test_printed_bounds_are_rounded_outward_and_names_are_escaped():
    found = certify(Told(), SAID, TRUE, groups=np.where(SITE == "north", "a\x1b[31m", "b\n"))
    assert "\x1b" not in str(found)
    assert r"a\x1b[31m" in str(found)
    low, high = found.overall.interval.replace("%", "").split(" to ")
    assert float(low) <= 100.0 * found.overall.lower
    assert float(high) >= 100.0 * found.overall.upper


def test_no_warning_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certify(Told(), SAID, GIVEN, flip_rates={1: (0.35, 0.45)}, groups=SITE, limits=0.2)


def test_estimated_rates_must_hold_with_half_of_the_error():
    """Intervals of an audit hold one by one, so that two classes need twice as much."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, size=400)
    given = np.where((true == 1) & (rng.random(400) < 0.4), 0, true)
    X = np.column_stack([true, rng.normal(size=400)])
    model = DummyClassifier(strategy="constant", constant=0).fit(X, given)
    with pytest.raises(ValueError, match=r"estimate the rates with confidence=0\.9875"):
        certify(model, X, given, flip_rates=flip_rates_from_audit(given, true, confidence=0.975))
    enough = flip_rates_from_audit(given, true, confidence=0.9875)
    found = certify(model, X, given, flip_rates=enough)
    assert found.overall.lower <= np.mean(true == 1) <= found.overall.upper
