"""Online mirror descent over weighted rows: no labels, no trees, no scikit-learn."""

from typing import TYPE_CHECKING, Any

from maboost.mirror.ascent import AscentState, MirrorAscent, Moved
from maboost.mirror.domains import CappedSimplex, Domain, Hypercube, Orthant, Simplex, SourceCapped
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected, project_generic
from maboost.mirror.regularizers import Entropy, Euclidean, FermiDirac, Regularizer

if TYPE_CHECKING:
    from maboost.engine.dispatch import project

__all__ = [
    "AscentState",
    "BaseMeasure",
    "CappedSimplex",
    "Domain",
    "Entropy",
    "Euclidean",
    "FermiDirac",
    "Hypercube",
    "MirrorAscent",
    "Moved",
    "Orthant",
    "Projected",
    "Regularizer",
    "Simplex",
    "SourceCapped",
    "project",
    "project_generic",
]


def __getattr__(name: str) -> Any:
    if name == "project":  # its fast forms build on the modules of this package
        from maboost.engine.dispatch import project

        return project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
