"""Certificates and new votes for fitted ensembles, including those of other libraries."""

from maboost.ensembles.margin_certificate import margin_certificate
from maboost.ensembles.reweight import ReweightedClassifier, reweight

__all__ = ["ReweightedClassifier", "margin_certificate", "reweight"]


def __dir__() -> list[str]:
    return __all__
