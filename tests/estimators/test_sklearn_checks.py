"""scikit-learn's own conformance checks; none is expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from maboost import (
    CombinedBoostClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.mirror import CappedSimplex, FermiDirac

DEFAULTS = [
    MABoostClassifier(n_estimators=5),
    SmoothBoostClassifier(n_estimators=5),
    SparseBoostClassifier(n_estimators=5),
    MadaBoostClassifier(n_estimators=5),
    CombinedBoostClassifier(n_estimators=5),
]

OTHER_SETTINGS = [
    MABoostClassifier(n_estimators=5, response="proba"),
    MABoostClassifier(n_estimators=5, regularizer="euclidean", update="lazy", step="paper"),
    MABoostClassifier(n_estimators=5, regularizer=FermiDirac(4.0), domain=CappedSimplex(3.0)),
    SmoothBoostClassifier(n_estimators=5, regularizer="euclidean", response="proba", trim="auto"),
    SmoothBoostClassifier(n_estimators=5, update="lazy", step="maxmargin", noise_rate=0.1),
    SparseBoostClassifier(n_estimators=5, response="proba", kappa=0.5, step="paper"),
    MadaBoostClassifier(n_estimators=5, response="proba", step="paper", learning_rate=0.5),
]


@parametrize_with_checks(DEFAULTS)
def test_as_constructed(estimator, check):
    check(estimator)


@parametrize_with_checks(OTHER_SETTINGS)
def test_with_other_settings(estimator, check):
    check(estimator)
