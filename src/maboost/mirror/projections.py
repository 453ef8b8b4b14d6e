r"""Bregman projections onto the domains: one scalar root each.

All of them solve, for a dual point :math:`\theta` and in densities over the base measure :math:`D`,

.. math:: \min_{u \in S}\; \sum_i D_i\bigl[\varphi(u_i) - \theta_i u_i\bigr],

which is the Bregman projection of :math:`(\varphi')^{-1}(\theta)` onto :math:`S`. The solution is
:math:`u_i = \min(k_i, (\varphi')^{-1}(\max(\varphi'(0), \theta_i - \tau)))` with the one number
:math:`\tau` that makes the mass one (:math:`\tau = 0` where the domain fixes no mass). Sums only, no
sort, so the work is linear in the rows and distributes over shards. Where sources have a largest mass, each
source that reaches it has a shift of its own (:mod:`maboost.mirror.sources`).

:func:`project` picks a fast path for (Entropy, Euclidean) x (Simplex, CappedSimplex) and otherwise
:func:`project_generic`, which needs nothing but the three functions of a regularizer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.domains import Domain
from maboost.mirror.entropic import project_entropy, project_entropy_rows
from maboost.mirror.euclidean import project_euclidean, project_euclidean_rows
from maboost.mirror.generic import project_generic
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import ROUNDING, Projected, mass_scale
from maboost.mirror.regularizers import Entropy, Euclidean, Regularizer
from maboost.mirror.sources import project_sources

__all__ = ["Projected", "project", "project_generic"]

Array = NDArray[np.float64]


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
        Where to put the density; not `theta` itself. Fresh memory can cost more than the projection.
    spend : bool, default=False
        Whether `theta` may be overwritten, and become part of the result.

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
    found = _projected(regularizer, domain, theta, measure, guess, out, spend)
    if found.density is out:
        return found
    np.copyto(out, found.density)
    return Projected(out, found.center, found.tau, lambda: found.dual)


def _projected(
    regularizer: Regularizer,
    domain: Domain,
    theta: Array,
    measure: BaseMeasure,
    guess: float | None,
    out: Array,
    spend: bool,
) -> Projected:
    """With the density in `out` where that saves a copy."""
    if not domain.normalised:
        return _project_box(regularizer, domain, theta, measure, out)
    limits = domain.source_caps()
    if limits is not None:
        return project_sources(regularizer, domain.row_caps(), limits, theta, measure, project)
    caps = measure.caps_in_reach(domain.row_caps())
    separate = domain.unbounded or measure.width == 1  # no cap ties entries of a row together
    found: Projected | None = None
    # a high cap on a light row may leave little of the masses of the others
    sharp = mass_scale(caps, measure).blur(measure.count) <= ROUNDING
    if sharp and type(regularizer) is Entropy:
        if separate:
            found = project_entropy(theta, caps, measure, guess, out, spend)
        else:
            found = project_entropy_rows(theta, caps, measure, guess, out, spend)
    elif sharp and type(regularizer) is Euclidean:
        fast = project_euclidean if separate else project_euclidean_rows
        found = fast(theta, caps, measure, guess, out)
    return found or project_generic(regularizer, domain, theta, measure, guess)


def _project_box(
    regularizer: Regularizer, domain: Domain, theta: Array, measure: BaseMeasure, density: Array
) -> Projected:
    """No mass to meet: every entry on its own."""
    bottom, top = regularizer.grad_limits()
    if domain.entry_cap() < regularizer.upper:
        top = float(regularizer.grad(np.array([domain.entry_cap()]))[0])
    dual = density if type(regularizer) is Euclidean else np.empty_like(theta)

    def work(a: int, b: int) -> None:
        np.clip(theta[a:b], bottom, top, out=dual[a:b])
        if density is not dual:
            density[a:b] = regularizer.grad_inverse(dual[a:b])

    measure.threads.over(theta.size, work)
    return Projected(density, 0.0, 0.0, lambda: dual)
