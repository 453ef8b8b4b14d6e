"""The choice of the engine for a geometry: the only place where the types of regularizers are tested."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maboost.engine.base import Engine
from maboost.engine.compiled import CompiledEngine
from maboost.engine.entropy import EntropyEngine, project_entropy_onto
from maboost.engine.euclidean import EuclideanEngine, project_euclidean_onto
from maboost.engine.reference import ReferenceEngine
from maboost.mirror.ascent import MirrorAscent, check_projection, project_onto
from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected
from maboost.mirror.regularizers import Entropy, Euclidean, Regularizer

__all__ = ["engine_for", "project"]

Array = NDArray[np.float64]


def engine_for(ascent: MirrorAscent, measure: BaseMeasure) -> Engine:
    """Return the fastest engine for this mirror ascent over these rows."""
    if ascent.via is not None:
        return ReferenceEngine(ascent, measure)
    if type(ascent.regularizer) is Entropy:
        return EntropyEngine(ascent, measure)
    if type(ascent.regularizer) is Euclidean:
        return EuclideanEngine(ascent, measure)
    return CompiledEngine(ascent, measure)


def project(
    regularizer: Regularizer,
    domain: Domain,
    theta: Array,
    measure: BaseMeasure,
    guess: float | None = None,
    out: Array | None = None,
) -> Projected:
    """Project the dual point `theta` onto `domain`, as :func:`maboost.mirror.project` does but faster.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, CappedSimplex, Entropy
    >>> theta = np.log(np.array([4.0, 1.0, 1.0, 1.0]))
    >>> project(Entropy(), CappedSimplex(1.5), theta, BaseMeasure(np.ones(4))).density.round(4)
    array([1.5   , 0.8333, 0.8333, 0.8333])
    """
    check_projection(theta, guess, out)
    room = np.empty_like(theta) if out is None else out
    if type(regularizer) is Entropy:
        found = project_entropy_onto(domain, theta, measure, guess, room)
    elif type(regularizer) is Euclidean:
        found = project_euclidean_onto(domain, theta, measure, guess, room)
    else:
        found = project_onto(regularizer, domain, theta, measure, guess)
    return found.into(out)
