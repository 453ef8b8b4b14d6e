"""Weak learners: given rows and weights, return a bounded hypothesis."""

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
