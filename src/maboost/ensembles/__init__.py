"""Certificates and new votes for fitted ensembles, those of other libraries included."""

from maboost.ensembles.margin_certificate import margin_certificate
from maboost.ensembles.reweight import ReweightedClassifier, reweight

__all__ = ["ReweightedClassifier", "margin_certificate", "reweight"]
