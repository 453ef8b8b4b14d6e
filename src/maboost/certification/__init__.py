"""Certificates of any classifier on rows that were not used to fit it."""

from maboost.certification.fresh_rows import certify
from maboost.certification.result import Certification, CertifiedError

__all__ = ["Certification", "CertifiedError", "certify"]


def __dir__() -> list[str]:
    return __all__
