"""scikit-learn's own conformance checks, over all classifiers."""

from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from maboost import (
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    MarginBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.estimators import BOOSTERS
from maboost.mirror import CappedSimplex, FermiDirac

DEFAULTS = [
    *(booster(n_estimators=5) for booster in BOOSTERS.values()),
    HistTreeClassifier(),
]

# Foreign estimators: `response` is for these, and trees take sparse rows. With probabilities a smooth
# one, because a tree breaks the many ties of the checks' 15 rows by 30 features by rounding.
TREE = DecisionTreeClassifier(max_depth=3, min_weight_fraction_leaf=1e-6)
BAYES = GaussianNB()

OTHER_SETTINGS = [
    HistTreeClassifier(max_depth=None, max_leaf_nodes=8, response="sign"),
    MABoostClassifier(TREE, n_estimators=5),
    MABoostClassifier(BAYES, n_estimators=5, response="proba"),
    MABoostClassifier(n_estimators=5, regularizer="euclidean", update="lazy", step="paper"),
    MABoostClassifier(n_estimators=5, regularizer=FermiDirac(4.0), domain=CappedSimplex(3.0)),
    SmoothBoostClassifier(
        BAYES, n_estimators=5, regularizer="euclidean", response="proba", trim="auto"
    ),
    SmoothBoostClassifier(n_estimators=5, update="lazy", step="maxmargin", noise_rate=0.1),
    MABoostClassifier(n_estimators=5, update="lazy", step="total"),
    SparseBoostClassifier(BAYES, n_estimators=5, response="proba", kappa=0.5, step="paper"),
    MadaBoostClassifier(BAYES, n_estimators=5, response="proba", step="paper", learning_rate=0.5),
]


LIGHT_CLASS = (
    "one class weighs ten million times the other: leaves of light rows alone cost nothing, and votes that are all "
    "refitted get them right within five rounds"
)


def expected_failures(estimator):
    """Votes that are all refitted fit both classes, however unequal their weights."""
    refits = isinstance(estimator, MarginBoostClassifier) or (
        getattr(estimator, "step", None) == "total"
    )
    return {"check_class_weight_classifiers": LIGHT_CLASS} if refits else {}


@parametrize_with_checks(DEFAULTS, expected_failed_checks=expected_failures)
def test_as_constructed(estimator, check):
    check(estimator)


@parametrize_with_checks(OTHER_SETTINGS, expected_failed_checks=expected_failures)
def test_with_other_settings(estimator, check):
    check(estimator)
