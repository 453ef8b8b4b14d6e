"""Boosting where you choose the distribution.

The classifiers of this package keep the distribution over the training rows in a set that the user
chooses (capped weights, exact zeros, caps by data source) and certify the training error and the margin
after every round.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maboost._version import __version__
from maboost.later import later

# scikit-learn imports both and hardly uses them: more than a third of the time to a first fit
with later("scipy.stats", "pandas"):
    import sklearn.base  # noqa: F401

from maboost.estimators import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

if TYPE_CHECKING:
    from maboost.certification import certify
    from maboost.io.checkpoint import CheckpointError
    from maboost.io.model_file import ModelFormatError, load_model
    from maboost.report import write_report

__all__ = [
    "CheckpointError",
    "CombinedBoostClassifier",
    "HistTreeClassifier",
    "MABoostClassifier",
    "MadaBoostClassifier",
    "ModelFormatError",
    "SmoothBoostClassifier",
    "SparseBoostClassifier",
    "__version__",
    "certify",
    "load_model",
    "write_report",
]


_LATER = {  # names that are imported when they are first asked for, and where from
    "CheckpointError": "maboost.io.checkpoint",
    "ModelFormatError": "maboost.io.model_file",
    "certify": "maboost.certification",
    "load_model": "maboost.io.model_file",
    "write_report": "maboost.report",
}
_MODULES = ("certification", "data", "distributed", "noise", "plot", "testing")  # and modules


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in _MODULES:
        return import_module(f"maboost.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
