"""The HTML report of a fitted booster: one file that a manager reads and a statistician checks.

Needs jinja2, of the extra ``report``.
"""

from maboost.report.writer import write_report

__all__ = ["write_report"]


def __dir__() -> list[str]:
    return __all__
