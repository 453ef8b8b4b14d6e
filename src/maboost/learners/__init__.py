"""Weak learners: rows and weights in, a bounded hypothesis out."""

from maboost.learners.adapter import EstimatorHypothesis, EstimatorLearner, ResamplingWarning
from maboost.learners.base import Hypothesis, Negated, Producer, WeakLearner

__all__ = [
    "EstimatorHypothesis",
    "EstimatorLearner",
    "Hypothesis",
    "Negated",
    "Producer",
    "ResamplingWarning",
    "WeakLearner",
]


def __dir__() -> list[str]:
    return __all__
