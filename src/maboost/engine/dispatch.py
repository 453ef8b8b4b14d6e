"""Which engine runs a geometry: the only place where the types of regularizers are tested."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.engine.base import Engine
from maboost.engine.compiled import CompiledEngine
from maboost.engine.entropy import EntropyEngine, project_entropy_onto
from maboost.engine.euclidean import EuclideanEngine, project_euclidean_onto
from maboost.engine.reference import ReferenceEngine
from maboost.mirror.ascent import MirrorAscent, project_onto
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
    spend: bool = False,
) -> Projected:
    r"""Project the dual point `theta` onto `domain`.

    Parameters
    ----------
    regularizer, domain
        The geometry and the set.
    theta : array of shape (rows * width,)
        The dual point.
    measure : BaseMeasure
        The base measure of the rows.
    guess : float, optional
        Where :math:`\tau` is expected; saves passes, does not change the result.
    out : array like `theta`, optional
        Where to put the density; not `theta` itself.
    spend : bool, default=False
        Permission to overwrite `theta`, which no projection needs any more.

    >>> import numpy as np
    >>> from maboost.mirror import CappedSimplex, Entropy
    >>> from maboost.mirror.measure import BaseMeasure
    >>> theta = np.log(np.array([4.0, 1.0, 1.0, 1.0]))
    >>> project(Entropy(), CappedSimplex(1.5), theta, BaseMeasure(np.ones(4))).density.round(4)
    array([1.5   , 0.8333, 0.8333, 0.8333])
    """
    if guess is not None and math.isnan(guess):
        raise ValueError("guess must be a number, or None where nothing is known of it; got nan")
    if out is None:
        out = np.empty_like(theta)
    elif out.shape != theta.shape or np.may_share_memory(out, theta):
        raise ValueError(
            f"out must be an array of its own of the shape of theta, {theta.shape}, got one of shape "
            f"{out.shape}" + (" that shares its memory" if out.shape == theta.shape else "")
        )
    if type(regularizer) is Entropy:
        found = project_entropy_onto(domain, theta, measure, guess, out)
    elif type(regularizer) is Euclidean:
        found = project_euclidean_onto(domain, theta, measure, guess, out)
    else:
        found = project_onto(regularizer, domain, theta, measure, guess)
    if found.density is out:
        return found
    np.copyto(out, found.density)
    return Projected(out, found.center, found.tau, lambda: found.dual)
