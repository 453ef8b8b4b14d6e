"""Conformance checks for your own regularizers, domains, learners and boosters.

Each raises AssertionError with a sentence that says what is wrong, and returns nothing if all is well.
"""

from maboost.testing.boosters import check_booster
from maboost.testing.geometry import check_domain, check_regularizer
from maboost.testing.learners import check_learner

__all__ = ["check_booster", "check_domain", "check_learner", "check_regularizer"]


def __dir__() -> list[str]:
    return __all__
