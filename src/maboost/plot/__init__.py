"""Plots of a fitted booster, one call each, in the style of scikit-learn's displays.

Needs matplotlib, of the extra ``plot``.
"""

from maboost.plot.bound_display import BoundDisplay
from maboost.plot.certification_display import CertificationDisplay
from maboost.plot.distribution_display import DistributionDisplay
from maboost.plot.domain_error_display import DomainErrorDisplay
from maboost.plot.importance_display import FeatureImportanceDisplay
from maboost.plot.margin_display import MarginDisplay
from maboost.plot.suspect_label_display import SuspectLabelsDisplay
from maboost.plot.tree import plot_tree

__all__ = [
    "BoundDisplay",
    "CertificationDisplay",
    "DistributionDisplay",
    "DomainErrorDisplay",
    "FeatureImportanceDisplay",
    "MarginDisplay",
    "SuspectLabelsDisplay",
    "plot_tree",
]


def __dir__() -> list[str]:
    return __all__
