"""Boosting where you choose the distribution.

Say what the distribution over the training rows may look like (capped, sparse, limited per data
source) and get a booster that provably works under it, with a certificate.
"""

from maboost._version import __version__
from maboost.estimators import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

__all__ = [
    "CombinedBoostClassifier",
    "HistTreeClassifier",
    "MABoostClassifier",
    "MadaBoostClassifier",
    "SmoothBoostClassifier",
    "SparseBoostClassifier",
    "__version__",
]
