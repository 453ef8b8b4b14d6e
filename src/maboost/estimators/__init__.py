"""The scikit-learn face: validation, label encoding, delegation; no mathematics."""

from maboost.estimators.combined import CombinedBoostClassifier
from maboost.estimators.maboost import MABoostClassifier
from maboost.estimators.mada import MadaBoostClassifier
from maboost.estimators.smooth import SmoothBoostClassifier
from maboost.estimators.sparse import SparseBoostClassifier
from maboost.estimators.tree import HistTreeClassifier

__all__ = [
    "CombinedBoostClassifier",
    "HistTreeClassifier",
    "MABoostClassifier",
    "MadaBoostClassifier",
    "SmoothBoostClassifier",
    "SparseBoostClassifier",
]
