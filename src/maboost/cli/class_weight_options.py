"""The class weights of ``maboost train``: balanced, or a factor for some classes."""

from __future__ import annotations

import math
from typing import Any

from maboost.cli.console import is_number, shortened
from maboost.data.files import TableError

__all__ = ["Factors", "by_class", "for_classes", "parse"]

BALANCED = "balanced"
Factors = dict[str, float] | str | None


def parse(texts: tuple[str, ...]) -> Factors:
    """Return factors by the text of labels, ``"balanced"`` or None; raise TableError for other text."""
    if not texts:
        return None
    if BALANCED in texts:
        if set(texts) != {BALANCED}:
            raise TableError("give --class-weight balanced or LABEL=FACTOR, not both")
        return BALANCED
    factors: dict[str, float] = {}
    for text in texts:
        label, factor = _pair(text)
        if label in factors:
            raise TableError(
                f"--class-weight {text!r} is a second factor of class {label!r}: give one"
            )
        factors[label] = factor
    return factors


def _pair(text: str) -> tuple[str, float]:
    label, _, factor = text.rpartition("=")
    if not label or not is_number(factor):
        raise TableError(
            f"--class-weight {text!r} is neither balanced nor LABEL=FACTOR with a number"
        )
    if not 0.0 < float(factor) < math.inf:
        instead = "; leave the rows of the class out instead" if float(factor) == 0.0 else ""
        raise TableError(f"--class-weight {text!r} must be a positive number{instead}")
    return label, float(factor)


def for_classes(factors: Factors, classes: list[Any], target: str) -> dict[Any, float] | str | None:
    """Return the parameter `class_weight`: the same factors by the classes themselves."""
    if factors is None or isinstance(factors, str):
        return factors
    return by_class("--class-weight", "factor", factors, classes, target)


def by_class(
    option: str, what: str, numbers: dict[str, float], classes: list[Any], target: str
) -> dict[Any, float]:
    """Return numbers by class, from numbers by the text of a label."""
    found: dict[Any, float] = {}
    for label, number in numbers.items():
        called = [c for c in classes if _is_called(c, label)]
        if not called:
            raise TableError(
                f"{option} {label}={number:g} names a class that is not in the target {target!r}; it "
                f"has {shortened([str(c) for c in classes], 5)}"
            )
        if called[0] in found:
            raise TableError(
                f"{option} {label}={number:g} is a second {what} of class {called[0]!r}: give one"
            )
        found[called[0]] = number
    return found


def _is_called(label: Any, text: str) -> bool:
    """Return whether text names a class; numbers and yes/no have more than one spelling."""
    if isinstance(label, str):
        return text == label
    return text.lower() == str(label).lower() or (is_number(text) and float(text) == label)
