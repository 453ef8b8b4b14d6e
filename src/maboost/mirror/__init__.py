"""The theory in numpy: regularizers, domains, projections, steps, the dual potential, online learning.

Nothing here knows labels, trees or scikit-learn.
"""

from maboost.mirror.ascent import AscentState, MirrorAscent, Moved, project
from maboost.mirror.domains import (
    CappedSimplex,
    ChiSquareBall,
    DivergenceLimit,
    Domain,
    Hypercube,
    KLBall,
    Orthant,
    Simplex,
    SourceCapped,
)
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected, project_generic
from maboost.mirror.regularizers import Entropy, Euclidean, FermiDirac, Regularizer

__all__ = [
    "AscentState",
    "BaseMeasure",
    "CappedSimplex",
    "ChiSquareBall",
    "DivergenceLimit",
    "Domain",
    "Entropy",
    "Euclidean",
    "FermiDirac",
    "Hypercube",
    "KLBall",
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


def __dir__() -> list[str]:
    return [*__all__, "online", "steps"]
