"""The scikit-learn classifiers: validation and label encoding, without mathematics."""

from maboost.estimators.combined import CombinedBoostClassifier
from maboost.estimators.maboost import MABoostClassifier
from maboost.estimators.mada import MadaBoostClassifier
from maboost.estimators.margin import MarginBoostClassifier
from maboost.estimators.smooth import SmoothBoostClassifier
from maboost.estimators.sparse import SparseBoostClassifier
from maboost.estimators.tree import HistTreeClassifier

__all__ = [
    "BOOSTERS",
    "CombinedBoostClassifier",
    "HistTreeClassifier",
    "MABoostClassifier",
    "MadaBoostClassifier",
    "MarginBoostClassifier",
    "SmoothBoostClassifier",
    "SparseBoostClassifier",
]

# All boosters, by their names on the command line. The command line, the model file, the Dask classifiers and
# the tests of all boosters read this list; a new booster is one line here, and an export above.
BOOSTERS: dict[str, type] = {
    "smooth": SmoothBoostClassifier,
    "maboost": MABoostClassifier,
    "sparse": SparseBoostClassifier,
    "mada": MadaBoostClassifier,
    "margin": MarginBoostClassifier,
    "combined": CombinedBoostClassifier,
}


def __dir__() -> list[str]:
    return __all__
