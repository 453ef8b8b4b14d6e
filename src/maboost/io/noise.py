"""The label noise of a model as JSON, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.io.fields import Fields, require
from maboost.noise.label_noise import LabelNoise

__all__ = ["label_noise", "read_label_noise"]

_CLOSE = 1e-6
_PARTS = ("rates", "weights", "shares", "costs", "prevalence")


def label_noise(noise: LabelNoise | None) -> dict[str, Any] | None:
    """The parts of a label noise as nested lists of numbers."""
    return None if noise is None else {name: getattr(noise, name).tolist() for name in _PARTS}


def read_label_noise(value: Any, K: int) -> LabelNoise | None:
    """A label noise of K classes."""
    if value is None:
        return None
    fields = Fields(value, "label_noise")
    sources = len(fields.items("shares"))
    fields = Fields(value, "label_noise")
    shapes = {
        "rates": (sources, K, K), "weights": (sources, K), "shares": (sources,), "costs": (K,),
        "prevalence": (K,),
    }  # fmt: skip
    parts = {name: _array(fields.items(name), shape, name) for name, shape in shapes.items()}
    fields.finish()
    for name in ("rates", "shares", "prevalence"):
        sums = parts[name].sum(axis=-1)
        require(np.all(np.abs(sums - 1.0) <= _CLOSE), f"label_noise.{name} must sum to 1")
    for name in ("weights", "costs"):
        require(np.all(parts[name] > 0.0), f"label_noise.{name} must be positive")
    least = np.linalg.svd(parts["rates"], compute_uv=False).min()
    require(least > 1e-9, "label_noise.rates must not be singular")
    return LabelNoise(**parts)


def _array(values: list[Any], shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    require(array.shape == shape, f"label_noise.{name} must be numbers of shape {shape}")
    good = np.all((array >= 0.0) & (array <= 1e100))
    require(good, f"label_noise.{name} must be numbers that are at least 0")
    return array
