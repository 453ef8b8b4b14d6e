"""Certificates on rows that were not used to fit, for any classifier."""

from maboost.certification.fresh_rows import certify
from maboost.certification.result import Certification, CertifiedError

__all__ = ["Certification", "CertifiedError", "certify"]
