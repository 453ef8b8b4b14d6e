r"""Regularizers: the cost of leaving the base measure.

A regularizer is separable over the base measure :math:`D`: with the density :math:`u_i = w_i/D_i`,

.. math:: R(w) = \sum_i D_i\,\varphi(u_i), \qquad \nabla R = \varphi'(u_i).

To add one, write a dataclass with `phi`, `grad` and `grad_inverse` (about 20 lines, see
CONTRIBUTING) and run :func:`maboost.testing.check_regularizer` on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from maboost.mirror.parameters import Component
from maboost.runtime.exponential import exponentials

__all__ = ["Entropy", "Euclidean", "FermiDirac", "Regularizer"]

Array = NDArray[np.float64]


class Regularizer(Component):
    r"""A strictly convex :math:`\varphi` on :math:`[0, \mathtt{upper}]`; subclass to define your own.

    A subclass defines `phi`, `grad` (:math:`\varphi'`) and `grad_inverse` (:math:`(\varphi')^{-1}`),
    elementwise on arrays, and `strong_convexity`; all else follows from these.

    Attributes
    ----------
    strong_convexity : float
        :math:`\sigma = \max(\inf \varphi'', \inf u\varphi'')`. The `paper` step is
        :math:`\sigma\gamma` and gains at least :math:`\tfrac12\sigma\gamma^2`.
    The end of the domain of :math:`\varphi`. Densities never exceed it.
        Where the domain of :math:`\varphi` ends. Densities never exceed it.
    accepts_l1 : bool
        Whether the composite update with an l1 term is defined, which is so for :math:`\varphi = u^2/2` only.

    Examples
    --------
    >>> import numpy as np
    >>> class Tilted(Regularizer):
    ...     strong_convexity = 1.0
    ...     def phi(self, u):
    ...         return 0.5 * u * u + u
    ...     def grad(self, u):
    ...         return u + 1.0
    ...     def grad_inverse(self, x):
    ...         return x - 1.0
    >>> round(Tilted().error_level(2.0), 6)  # a line added to the Euclidean one changes no certificate
    0.2
    """

    strong_convexity: float
    upper: float = math.inf
    accepts_l1: ClassVar[bool] = False

    def phi(self, u: Array) -> Array:
        r"""Return :math:`\varphi`, with its limits at 0 and at `upper`."""
        raise NotImplementedError

    def grad(self, u: Array) -> Array:
        r"""Return the derivative :math:`\varphi'`; :math:`\pm\infty` at an end is allowed."""
        raise NotImplementedError

    def grad_inverse(self, x: Array) -> Array:
        r"""Return the inverse of `grad`; called only between ``grad(0)`` and ``grad(upper)``."""
        raise NotImplementedError

    def grad_limits(self) -> tuple[float, float]:
        r"""Return :math:`\varphi'` at 0 and at `upper`, infinite if it has no finite limit."""
        with np.errstate(divide="ignore"):
            bottom = float(self.grad(np.array([0.0]))[0])
            top = math.inf
            if math.isfinite(self.upper):
                top = float(self.grad(np.array([self.upper]))[0])
        return bottom, top

    def point(self, x: Array) -> Array:
        """Return the density of any dual points: zero below all gradients, `upper` above them."""
        bottom, top = self.grad_limits()
        with np.errstate(over="ignore"):
            u = self.grad_inverse(np.clip(x, bottom, top))
        return np.where(x <= bottom, 0.0, np.minimum(u, self.upper))

    def beta(self, level: float) -> float:
        r"""Return the divergence of "all mass evenly on a fraction `level`" from the base measure.

        .. math:: \beta(\varepsilon) = \varepsilon\varphi(1/\varepsilon)
                  + (1-\varepsilon)\varphi(0) - \varphi(1)

        It decreases from :math:`\beta(0^+)` to :math:`\beta(1) = 0`, and is infinite if
        :math:`1/\varepsilon` exceeds `upper`.
        """
        if 1.0 / level > self.upper * (1 + 1e-12):
            return math.inf
        with np.errstate(over="ignore"):  # a row of weight 1e-200: infinity is close enough
            at = self.phi(np.array([min(1.0 / level, self.upper), 0.0, 1.0]))
        return float(level * at[0] + (1.0 - level) * at[1] - at[2])

    def error_level(self, gain: float) -> float:
        r"""Return the largest error that a total gain :math:`G` allows: :math:`\beta^{-1}(G)`, at most 1.

        It is found by bisection on a logarithmic scale and rounded up, so that it stays a bound.
        """
        if not gain > 0.0:
            return 1.0
        floor = 1.0 / self.upper if math.isfinite(self.upper) else 1e-100
        if self.beta(floor) <= gain:
            return floor

        def excess(x: float) -> float:
            # bounded, since beta is infinite if phi overflows
            return min(self.beta(math.exp(x)) - gain, gain)

        root = scipy.optimize.brentq(excess, math.log(floor), 0.0, xtol=1e-14, rtol=1e-14)
        return min(1.0, math.exp(root) * (1.0 + 1e-12))


@dataclass
class Entropy(Regularizer):
    r"""Relative entropy: the geometry of AdaBoost.

    .. math:: \varphi(u) = u\log u - u + 1, \qquad \varphi'(u) = \log u, \qquad \sigma = 1

    Guarantee: training error :math:`\varepsilon \le e^{-G}`.

    >>> import numpy as np
    >>> float(Entropy().grad(np.array([1.0]))[0]), round(Entropy().error_level(2.0), 6)
    (0.0, 0.135335)
    """

    strong_convexity = 1.0

    def phi(self, u: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(u > 0.0, u * np.log(u), 0.0) - u + 1.0

    def grad(self, u: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(u)

    def grad_inverse(self, x: Array) -> Array:
        return exponentials(np.ascontiguousarray(x).reshape(-1)).reshape(np.shape(x))

    def error_level(self, gain: float) -> float:
        return math.exp(-max(gain, 0.0))


@dataclass
class Euclidean(Regularizer):
    r"""Half the squared density: distributions with exact zeros.

    .. math:: \varphi(u) = \tfrac12 u^2, \qquad \varphi'(u) = u, \qquad \sigma = 1

    Guarantee: training error :math:`\varepsilon \le 1/(1+2G)`.

    >>> Euclidean().error_level(2.0)
    0.2
    """

    strong_convexity = 1.0
    accepts_l1 = True

    def phi(self, u: Array) -> Array:
        return 0.5 * u * u

    def grad(self, u: Array) -> Array:
        return u

    def grad_inverse(self, x: Array) -> Array:
        return x

    def error_level(self, gain: float) -> float:
        return 1.0 / (1.0 + 2.0 * max(gain, 0.0))


@dataclass
class FermiDirac(Regularizer):
    r"""Fermi-Dirac entropy: the logistic weighting, whose densities stay below `k` without clipping.

    .. math:: \varphi(u) = u\log u + (k-u)\log(1 - u/k), \qquad
              \varphi'(u) = \log\frac{u}{1-u/k}, \qquad \sigma = \max(1, 4/k)

    The densities :math:`u = k/(1 + k e^{-x})` stay below `k`. Guarantee: training error
    :math:`\varepsilon \le \max(1/k, \beta^{-1}(G))`.

    Parameters
    ----------
    k : float, default=4.0
        The cap on the density; must exceed 1.

    >>> import numpy as np
    >>> bool(FermiDirac(3.0).grad_inverse(np.array([50.0]))[0] <= 3.0)
    True
    """

    k: float = 4.0

    def __post_init__(self) -> None:
        if not self.k > 1.0 or not math.isfinite(self.k):
            raise ValueError(f"FermiDirac needs a finite k > 1, got k={self.k!r}")
        self.strong_convexity = max(1.0, 4.0 / self.k)
        self.upper = float(self.k)

    def phi(self, u: Array) -> Array:
        k = self.upper
        with np.errstate(divide="ignore", invalid="ignore"):
            filled = np.where(u > 0.0, u * np.log(u), 0.0)
            free = np.where(u < k, (k - u) * np.log1p(-np.minimum(u, k) / k), 0.0)
        return filled + free

    def grad(self, u: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(u) - np.log1p(-u / self.upper)

    def grad_inverse(self, x: Array) -> Array:
        # e^x / (1 + e^x/k) = k * expit(x - log k), which cannot overflow on either side
        shifted = x - math.log(self.upper)
        small = np.exp(-np.abs(shifted))
        return self.upper * np.where(shifted >= 0.0, 1.0, small) / (1.0 + small)
