"""Every implementation of a pluggable part, run through one conformance suite."""

from dataclasses import dataclass

import numpy as np
from scipy.special import wrightomega, xlogy

from maboost.boosting import combined, maboost, madaboost, smooth, sparseboost
from maboost.mirror import (
    CappedSimplex,
    ChiSquareBall,
    DivergenceLimit,
    Domain,
    Entropy,
    Euclidean,
    FermiDirac,
    Hypercube,
    KLBall,
    Orthant,
    Regularizer,
    Simplex,
    SourceCapped,
)
from maboost.mirror.domains import SourceCaps


@dataclass
class Elastic(Regularizer):
    """A user's regularizer, as in the README."""

    strong_convexity = 1.0

    def phi(self, u):
        return 0.5 * u * u + xlogy(u, u) - u

    def grad(self, u):
        return u + np.log(u)

    def grad_inverse(self, x):
        return wrightomega(x)


@dataclass
class Cosh(Regularizer):
    """A regularizer that grows so fast that it overflows at the densities of very light rows."""

    strong_convexity = 1.0

    def phi(self, u):
        return np.cosh(u)

    def grad(self, u):
        return np.sinh(u)

    def grad_inverse(self, x):
        return np.arcsinh(x)


@dataclass
class ElasticBall(Domain):
    """A user's ball, of the divergence of a user's regularizer."""

    radius: float = 0.5

    def divergence_limit(self):
        return DivergenceLimit(Elastic(), self.radius)


REGULARIZERS = [
    Entropy(),
    Euclidean(),
    FermiDirac(1.5),
    FermiDirac(4.0),
    FermiDirac(20.0),
    Elastic(),
    Cosh(),
]

DOMAINS = [
    Simplex(),
    CappedSimplex(1.0),
    CappedSimplex(3.0),
    CappedSimplex(np.array([0.5, np.inf, 2.0, 2.0, 2.0, 5.0, 1.0, 1.0, 1.0, 3.0, 3.0, np.inf])),
    SourceCapped(np.arange(12) % 3, np.array([1.0, 0.3, 0.2])),
    SourceCapped(np.arange(12) % 3, np.array([0.5, 0.2, 0.3]), 3.0),  # they sum to one
    SourceCapped(
        np.arange(12) // 6, np.array([0.4, 0.9]), np.where(np.arange(12) % 2, 1.5, np.inf)
    ),
    KLBall(0.3),
    KLBall(1.5),
    ChiSquareBall(0.4),
    ChiSquareBall(2.0),
    ElasticBall(0.5),
    Orthant(),
    Hypercube(),
]

BOOSTERS = [
    *(
        maboost(regularizer, domain, update, step)
        for regularizer in REGULARIZERS
        for domain in (Simplex(), CappedSimplex(3.0))
        for update in ("active", "lazy")
        for step in ("paper", "corrective")
    ),
    *(
        maboost(regularizer, domain, update, step)
        for regularizer, domain in (
            (Entropy(), KLBall(1.0)),
            (Euclidean(), ChiSquareBall(1.0)),
            (Entropy(), ChiSquareBall(1.0)),
            (FermiDirac(4.0), KLBall(1.0)),
            (Elastic(), ElasticBall(0.5)),
        )
        for update in ("active", "lazy")
        for step in ("paper", "corrective")
    ),
    maboost("entropy", KLBall(1.0), step="paper", via=Simplex()),
    maboost(step="maxmargin"),
    maboost("euclidean", step="maxmargin", via=Orthant()),
    maboost("entropy", CappedSimplex(3.0), step="paper", via=Simplex()),
    smooth(2.0, learning_rate=0.3, trim="auto"),
    combined(np.where(np.arange(150) < 60, np.inf, 4.0)),
    *(
        combined(
            np.where(np.arange(150) < 60, 4.0, np.inf),
            regularizer,
            update,
            step,
            sources=SourceCaps(np.arange(150) // 60, np.array([1.0, 0.3, 0.1])),
        )
        for regularizer in (Entropy(), Euclidean(), FermiDirac(4.0), Elastic())
        for update in ("active", "lazy")
        for step in ("paper", "corrective")
    ),
    sparseboost(),
    sparseboost(kappa=0.5, step="paper"),
    sparseboost(kappa=0.5, l1_decay=0.5),
    madaboost(),
    madaboost(step="paper"),
]
