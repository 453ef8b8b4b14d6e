"""Boosting where you choose the distribution.

Say what the distribution over the training rows may look like (capped, sparse, limited per data
source) and get a booster that provably works under it, with a certificate.
"""

from typing import TYPE_CHECKING, Any

from maboost._version import __version__
from maboost.estimators import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

if TYPE_CHECKING:
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
    "load_model",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Names that are imported when they are first asked for."""
    if name in ("ModelFormatError", "load_model"):
        from maboost.io import model_file

        return getattr(model_file, name)
    if name == "CheckpointError":
        from maboost.io.checkpoint import CheckpointError

        return CheckpointError
    if name == "write_report":
        from maboost.report import write_report

        return write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
