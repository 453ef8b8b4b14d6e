"""Labels that are wrong at known rates: what that does to weights and probabilities."""

from maboost.noise.corrections import (
    corrected_probabilities,
    label_weights,
    probability_wrong,
    transition_matrix,
)

__all__ = [
    "corrected_probabilities",
    "label_weights",
    "probability_wrong",
    "transition_matrix",
]
