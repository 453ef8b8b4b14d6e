"""The option ``--flip-rate`` of ``maboost train``: one rate for all classes, or rates for some classes or sources."""

from __future__ import annotations

from typing import Any

from maboost.cli.class_weight_options import by_class
from maboost.cli.console import is_number
from maboost.data.files import TableError

__all__ = ["FlipRates", "for_classes", "parse"]

FlipRates = dict[str, float] | float | None


def parse(texts: tuple[str, ...], by_source: bool) -> FlipRates:
    """Return rates by the text before the last ``=``, one rate, or None; other texts are refused.

    The keys are classes, or sources.
    """
    if not texts:
        return None
    if is_number(texts[0]) and len(texts) == 1 and not by_source:
        return _rate(texts[0], texts[0])
    key = "SOURCE" if by_source else "CLASS"
    rates: dict[str, float] = {}
    for text in texts:
        name, _, rate = text.rpartition("=")
        if not name:
            alone = "" if key == "SOURCE" else ", and one number for all classes stands alone"
            raise TableError(f"--flip-rate {text!r} is not {key}=RATE{alone}")
        if name in rates:
            raise TableError(
                f"--flip-rate {text!r} is a second rate of {key.lower()} {name!r}: give one"
            )
        rates[name] = _rate(rate, text)
    return rates


def _rate(rate: str, text: str) -> float:
    if not is_number(rate) or not 0.0 <= float(rate) < 1.0:
        raise TableError(f"--flip-rate {text!r} must have a rate that is at least 0 and below 1")
    return float(rate)


def for_classes(
    rates: FlipRates, classes: list[Any], target: str, by_source: bool
) -> dict[Any, float] | float | None:
    """Return the parameter `flip_rates`: the same rates by the classes themselves, or by source."""
    if by_source or not isinstance(rates, dict):
        return rates
    return by_class("--flip-rate", "rate", rates, classes, target)
