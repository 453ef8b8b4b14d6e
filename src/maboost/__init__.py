"""Boosting where you choose the distribution.

The classifiers of this package keep the distribution over the training rows in a set that the user
chooses (capped weights, exact zeros, caps by data source) and certify the training error and the margin
after every round.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maboost._version import __version__

if TYPE_CHECKING:
    from maboost.certification import certify
    from maboost.ensembles import margin_certificate, reweight
    from maboost.estimators import (
        CombinedBoostClassifier,
        HistTreeClassifier,
        MABoostClassifier,
        MadaBoostClassifier,
        MarginBoostClassifier,
        SmoothBoostClassifier,
        SparseBoostClassifier,
    )
    from maboost.estimators.error_limits import ErrorLimitWarning
    from maboost.io.checkpoint import CheckpointError
    from maboost.io.model_file import ModelFormatError, load_model
    from maboost.report import write_report

__all__ = [
    "CheckpointError",
    "CombinedBoostClassifier",
    "ErrorLimitWarning",
    "HistTreeClassifier",
    "MABoostClassifier",
    "MadaBoostClassifier",
    "MarginBoostClassifier",
    "ModelFormatError",
    "SmoothBoostClassifier",
    "SparseBoostClassifier",
    "__version__",
    "certify",
    "load_model",
    "margin_certificate",
    "reweight",
    "write_report",
]

_MODULE_OF = {  # the module of each public name but the classifiers, imported when the name is first used
    "CheckpointError": "maboost.io.checkpoint",
    "ErrorLimitWarning": "maboost.estimators.error_limits",
    "ModelFormatError": "maboost.io.model_file",
    "certify": "maboost.certification",
    "load_model": "maboost.io.model_file",
    "margin_certificate": "maboost.ensembles",
    "reweight": "maboost.ensembles",
    "write_report": "maboost.report",
}
_MODULES = (
    "boosting",
    "certification",
    "comm",
    "data",
    "distributed",
    "ensembles",
    "estimators",
    "learners",
    "mirror",
    "noise",
    "plot",
    "testing",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = _MODULE_OF.get(name, "maboost.estimators")
        found = globals()[name] = getattr(import_module(module), name)
        return found
    if name in _MODULES:
        return import_module(f"maboost.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
