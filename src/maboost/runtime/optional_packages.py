"""The message about an optional package that is not installed."""

from __future__ import annotations

__all__ = ["missing_package"]


def missing_package(user: str, package: str, extra: str | None = None) -> str:
    """Return who needs a package, and the command that installs it.

    The library is not on a package index, so that its extras are installed from a checkout.

    >>> missing_package("maboost.plot", "matplotlib", "plot")
    "maboost.plot needs matplotlib: run pip install '.[plot]' in a checkout of maboost"
    >>> missing_package("history_.to_frame()", "pandas")
    'history_.to_frame() needs pandas: run pip install pandas'
    """
    what = package if extra is None else f"'.[{extra}]' in a checkout of maboost"
    return f"{user} needs {package}: run pip install {what}"
