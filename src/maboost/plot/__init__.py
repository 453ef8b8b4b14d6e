"""Pictures of a fitted booster, one line each, in the style of scikit-learn's displays.

Needs matplotlib: ``pip install 'maboost[plot]'``.
"""

from maboost.plot.bounds import BoundDisplay
from maboost.plot.certification import CertificationDisplay
from maboost.plot.distribution import DistributionDisplay
from maboost.plot.importance import FeatureImportanceDisplay
from maboost.plot.margins import MarginDisplay
from maboost.plot.sources import DomainErrorDisplay
from maboost.plot.suspects import SuspectLabelsDisplay

__all__ = [
    "BoundDisplay",
    "CertificationDisplay",
    "DistributionDisplay",
    "DomainErrorDisplay",
    "FeatureImportanceDisplay",
    "MarginDisplay",
    "SuspectLabelsDisplay",
]
