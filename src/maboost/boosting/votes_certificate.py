r"""Certificates for any votes, however they were found.

The inequality of :mod:`maboost.mirror.potential` holds for every real vector of margins. So the scores of a
gradient booster, the votes of a forest or of AdaBoost get the same certificates as a run of this library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.boosting.certificate import ErrorBound
from maboost.boosting.recipes import DOMAINS, REGULARIZERS, named
from maboost.boosting.rounding import at_least, at_most
from maboost.boosting.scale import best_scale
from maboost.engine.dispatch import project
from maboost.mirror.ascent import MirrorAscent
from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.potential import DualPotential
from maboost.mirror.regularizers import Regularizer
from maboost.mirror.soft_margin import linear_minimum

__all__ = ["VotesCertificate", "certificate_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VotesCertificate:
    r"""The guarantees of an ensemble's votes on labelled rows, and the measured error and margins.

    Attributes
    ----------
    regularizer, domain : str
    rows : int
        The number of rows of positive weight.
    n_classes : int
    scale : float
        Margins are divided by it.
    scale_is : str
        A description of the scale.
    error_bound, measured_error : float
        Error on the rows under their weights: its bound, and its measured value (a tie is an error). The bound holds for
        every scale of the votes; this is the best one.
    floor : float
        The error below which the domain certifies nothing.
    soft_margin, min_margin : float
        The smallest mean margin over the distributions of the domain, and the smallest margin of a row.
        On the simplex they are the same.
    gain : float
        :math:`G(cM)` at the factor c for which it is largest, or at which the error bound reaches its floor.
    factor : float
        That factor c.
    best_edge : float or None
        The largest edge of a member of the ensemble, or of a hypothesis of a learner's class, under a distribution of the
        domain. No votes of these members, or ensemble of that class, have a larger soft margin, if `exact`.
    exact : bool
        Whether the best edge is the largest of its class.
    same_class : bool
        Whether all members of the ensemble are in that class, with votes that are not negative. Then `gap` is not
        negative.
    members : int or None
        The number of members of the ensemble, if known.
    distribution : array of shape (n_rows,)
        :math:`w(cM)`, the regularised hardest distribution over the rows.
    density : array of shape (n_rows * (n_classes - 1),)
        Its density over the base measure, for each pair of a row and a wrong class.

    Examples
    --------
    >>> from maboost.boosting import certificate_of
    >>> from maboost.mirror import BaseMeasure, CappedSimplex
    >>> margins = np.array([0.5, 0.3, 0.2, -0.1])
    >>> found = certificate_of(margins, BaseMeasure(np.ones(4)), "entropy", CappedSimplex(2.0))
    >>> found.measured_error, round(found.soft_margin, 3), round(found.error_bound, 3)
    (0.25, 0.05, 0.5)
    """

    regularizer: str
    domain: str
    rows: int
    n_classes: int
    scale: float
    scale_is: str
    error_bound: float
    measured_error: float
    floor: float
    soft_margin: float
    min_margin: float
    gain: float
    factor: float
    best_edge: float | None = None
    exact: bool = False
    same_class: bool = False
    members: int | None = None
    distribution: Array = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    density: Array = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    @property
    def gap(self) -> float | None:
        """An upper bound on the distance of the soft margin from the best of the class: `best_edge - soft_margin`.

        None if no class was given. It may be negative for an ensemble outside the class.
        """
        return None if self.best_edge is None else self.best_edge - self.soft_margin

    def __str__(self) -> str:
        of = "an ensemble" if self.members is None else f"an ensemble of {self.members}"
        floor = f"   (nothing is promised below {at_most(self.floor)})" if self.floor > 0 else ""
        lines = [
            f"{of} on {self.rows} rows, {self.regularizer} on {self.domain}",
            f"  error            certified <= {at_most(self.error_bound)}   measured {self.measured_error:.4g}{floor}",
            f"  soft margin      {at_least(self.soft_margin)}   (smallest margin {self.min_margin:.4g}; divided by "
            f"{self.scale:.4g}, {self.scale_is})",
        ]
        if self.best_edge is not None and self.gap is not None:
            if self.exact and self.same_class:
                said = f"<= {at_most(self.best_edge)} with other votes, gap {at_most(self.gap)}"
            elif self.exact:
                said = (
                    f"<= {at_most(self.best_edge)} for ensembles of the learner's class; this ensemble is not of "
                    f"it, so that the gap, {self.gap:.4g}, may be negative"
                )
            else:
                said = f"about {self.best_edge:.4g}, gap {self.gap:.4g}: indicative only, the learner is not exact"
            lines.append(f"  best possible    {said}")
        lines.append(
            "  assumes: nothing beyond these rows and their weights; says nothing of other rows"
        )
        return "\n".join(lines)


def certificate_of(
    margins: ArrayLike,
    measure: BaseMeasure,
    regularizer: str | Regularizer = "entropy",
    domain: str | Domain = "simplex",
    *,
    scale: float = 1.0,
    scale_is: str = "as given",
) -> VotesCertificate:
    r"""Certify any margins.

    For every distribution :math:`w^*` of the domain :math:`\sum_i w^*_i M_i \ge G(M) - B_R(w^*, D)`, with
    :math:`G(M) = \Phi(\varphi'(1)) - \Phi(\varphi'(1) - M)`. A row stays wrong when its margins are multiplied by
    a positive number, so the bound of the error takes the factor c for which :math:`G(cM)` is largest: a concave
    problem in one variable. Room for rounding errors is subtracted from the gain.

    Parameters
    ----------
    margins : array-like of shape (n_rows * width,) or (n_rows, width)
        The margin of each pair of a row and a wrong class: the vote for the right class less that for the wrong
        one. With two classes there is one for each row.
    measure : BaseMeasure
        The base measure of the rows, with K - 1 entries a row.
    regularizer : {"entropy", "euclidean"} or Regularizer, default="entropy"
    domain : "simplex" or Domain, default="simplex"
    scale : float, default=1.0
        Reported margins are divided by it.
    scale_is : str
        A description of the scale.

    Returns
    -------
    VotesCertificate

    Examples
    --------
    >>> from maboost.mirror import BaseMeasure
    >>> found = certificate_of([0.9, 0.8, 0.7], BaseMeasure(np.ones(3)))
    >>> found.error_bound < 1 / 3, found.soft_margin  # fewer than one row of three: none is wrong
    (True, 0.7)
    """
    geometry: Regularizer = named("regularizer", regularizer, REGULARIZERS)
    allowed: Domain = named("domain", domain, DOMAINS)
    m = np.ascontiguousarray(margins, dtype=np.float64).reshape(-1)
    if m.size != measure.entries.size:
        raise ValueError(
            f"margins must have one number for each of {measure.rows} rows and {measure.width} wrong "
            f"classes, {measure.entries.size} in all, got an array of shape {np.shape(margins)}"
        )
    if measure.minimum(np.isfinite(m).astype(np.float64)) < 1.0:
        raise ValueError("margins must be finite, got NaN or infinity")
    if not 0.0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite, got {scale!r}")
    ascent = MirrorAscent(geometry, allowed)
    bound = ErrorBound.of(ascent, measure)
    potential = DualPotential(geometry, allowed, measure, project)
    factor, hardest, totals = best_scale(m, potential, bound)
    lowest = m if measure.width == 1 else m.reshape(measure.rows, -1).min(axis=1)
    soft = linear_minimum(m, allowed, measure, geometry.upper, projection=project)
    return VotesCertificate(
        regularizer=type(geometry).__name__,
        domain=type(allowed).__name__,
        rows=measure.count // measure.width,
        n_classes=measure.width + 1,
        scale=float(scale),
        scale_is=scale_is,
        error_bound=bound(bound.certified(totals)),
        measured_error=measure.row_integral((lowest <= 0.0).astype(np.float64)),
        floor=bound.floor,
        soft_margin=soft / scale,
        min_margin=measure.minimum(lowest) / scale,
        gain=hardest.gain,
        factor=factor,
        density=hardest.density / max(hardest.mass, 1e-300),
        distribution=measure.rows_base
        * measure.row_means(hardest.density)
        / max(hardest.mass, 1e-300),
    )
