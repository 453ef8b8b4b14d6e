"""The factor on votes at which their error certificate is best."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from maboost.boosting.certificate import ErrorBound, Totals
from maboost.mirror.potential import DualPotential, Hardest

__all__ = ["best_scale", "next_scale"]

Array = NDArray[np.float64]

_LONGEST = 2.0**40  # times the largest margin: beyond, a gain is lost in its rounding
_STRETCH, _FARTHEST = 1.25, 4.0  # from one factor to the next tried, and of the next round


def best_scale(
    margins: Array,
    potential: DualPotential,
    bound: ErrorBound,
) -> tuple[float, Hardest, Totals]:
    """Return the factor of largest certified gain, the hardest distribution there, and the gain with its magnitudes.

    Where the gain grows for ever, a factor at which the error bound is at its floor.
    """
    measure = potential.measure
    top = measure.maximum(np.abs(margins))
    enough = bound.gain_at_floor(measure)
    rounding = bound.rounding(Totals(1, 0.0, 0.0, 1.0)) - bound.rounding(Totals(1))

    def at(factor: float) -> tuple[Hardest, float]:
        """The distribution, and the slope of the certified gain: rounding grows with the factor."""
        hardest = potential.hardest(factor * margins)
        (edge,) = measure.integrals([hardest.density * margins])
        return hardest, edge - top * rounding

    hardest, slope = at(0.0)
    if top == 0.0 or not slope > 0.0:
        return 0.0, hardest, Totals(1)
    near, far = 0.0, 1.0 / top
    hardest, slope = at(far)
    while slope > 0.0 and hardest.gain < enough and far * top < _LONGEST:
        near, far = far, 2.0 * far
        hardest, slope = at(far)
    if slope < 0.0:
        far = float(scipy.optimize.brentq(lambda x: at(x)[1], near, far, rtol=1e-6, xtol=1e-300))
        hardest, _ = at(far)
    return far, hardest, Totals(1, hardest.gain, abs(hardest.gain), far * top)


def next_scale(
    margins: Array, potential: DualPotential, bound: ErrorBound, last: float
) -> tuple[float, Totals]:
    """Return a better factor than that of the last round, and the gain with its magnitudes.

    It costs two projections, where :func:`best_scale` takes a dozen: rounds follow the best factor, which changes little
    from one to the next, and every factor has a valid certificate.
    """
    if last == 0.0:
        factor, _, totals = best_scale(margins, potential, bound)
        return factor, totals
    measure = potential.measure
    top = measure.maximum(np.abs(margins))
    tried, slopes = (last, _STRETCH * last), []
    best, best_gain, best_factor = Totals(1), 0.0, last
    for factor in tried:
        hardest = potential.hardest(factor * margins)
        (edge,) = measure.integrals([hardest.density * margins])
        slopes.append(edge)
        totals = Totals(1, hardest.gain, abs(hardest.gain), factor * top)
        if bound.certified(totals) > best_gain:
            best, best_gain, best_factor = totals, bound.certified(totals), factor
    if slopes[0] > slopes[1]:  # where the line through both slopes is zero
        root = last + (tried[1] - last) * slopes[0] / (slopes[0] - slopes[1])
        best_factor = min(max(root, last / _FARTHEST), _FARTHEST * last)
    return min(best_factor, _LONGEST / top), best
