"""Labels that are wrong at known or estimated rates, and corrections of weights and probabilities."""

from maboost.noise.corrections import (
    corrected_probabilities,
    label_weights,
    probability_wrong,
    transition_matrix,
)
from maboost.noise.estimation import (
    flip_rates_from_audit,
    flip_rates_from_prevalence,
    flip_rates_from_probabilities,
    flip_rates_from_trusted,
)
from maboost.noise.rates import EstimatedRates

__all__ = [
    "EstimatedRates",
    "corrected_probabilities",
    "flip_rates_from_audit",
    "flip_rates_from_prevalence",
    "flip_rates_from_probabilities",
    "flip_rates_from_trusted",
    "label_weights",
    "probability_wrong",
    "transition_matrix",
]


def __dir__() -> list[str]:
    return __all__
