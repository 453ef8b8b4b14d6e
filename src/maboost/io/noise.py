"""The label noise of a model as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.io.fields import Fields, require
from maboost.io.values import label, read_label
from maboost.noise.corrections import weights_of_labels
from maboost.noise.label_noise import LabelNoise
from maboost.noise.rates import EstimatedRates

__all__ = ["label_noise", "plain_rates", "read_label_noise"]

Array = NDArray[np.float64]

_CLOSE = 1e-6
_LEAST = 1e-9  # of a singular value, or of one minus the rates of two classes
_SMALLEST, _LARGEST = (
    1e-100,
    1e100,
)  # limits of a weight or a cost, so that products and ratios do not overflow
_PARTS = ("rates", "weights", "shares", "costs", "prevalence")


def plain_rates(flip_rates: Any) -> Any:
    """Return the parameter `flip_rates` with matrices, including estimated ones, as nested lists."""
    if isinstance(flip_rates, EstimatedRates):
        return flip_rates.matrix.tolist()
    if isinstance(flip_rates, np.ndarray):
        return flip_rates.tolist()
    if isinstance(flip_rates, dict):
        return {name: plain_rates(rates) for name, rates in flip_rates.items()}
    return flip_rates


def label_noise(
    training: LabelNoise | None, predicting: LabelNoise | None
) -> dict[str, Any] | None:
    """Return the noise of the training rows as nested lists of numbers.

    `predicting` is the noise for which probabilities are corrected: the same, or none if they were
    calibrated on rows of trusted sources.
    """
    if training is None or predicting is None:
        return None
    names = training.names
    return {name: getattr(training, name).tolist() for name in _PARTS} | {
        "sources": None if names is None else [label(name, "a data source") for name in names],
        "right_labels": len(predicting.rates) < len(training.rates),
    }


def read_label_noise(value: Any, K: int) -> tuple[LabelNoise | None, LabelNoise | None]:
    """Return the noise of the training rows of K classes, and the noise for which probabilities are corrected."""
    if value is None:
        return None, None
    fields = Fields(value, "label_noise")
    names = _read_names(fields.take("sources"))
    sources = 1 if names is None else len(names)
    require(K > 1, "label_noise must be null for one class")
    require(K == 2 or names is None, "label_noise.sources must be null for more than two classes")
    shapes = {
        "rates": (sources, K, K), "weights": (sources, K), "shares": (sources,), "costs": (K,),
        "prevalence": (K,),
    }  # fmt: skip
    parts = {name: _array(fields.items(name), shape, name) for name, shape in shapes.items()}
    right = fields.flag("right_labels")
    fields.finish()
    for name in ("rates", "shares", "prevalence"):
        sums = parts[name].sum(axis=-1)
        require(np.all(np.abs(sums - 1.0) <= _CLOSE), f"label_noise.{name} must sum to 1")
    for name in ("weights", "costs"):
        good = np.all((parts[name] >= _SMALLEST) & (parts[name] <= _LARGEST))
        require(good, f"label_noise.{name} must be positive and finite")
    least = np.linalg.svd(parts["rates"], compute_uv=False).min()
    if K == 2:  # with a sum above one the classes would change places
        least = np.min(1.0 - parts["rates"][:, 0, 1] - parts["rates"][:, 1, 0])
    require(least > _LEAST, "label_noise.rates leave nothing to learn")
    require(np.all(parts["shares"] > 0.0), "label_noise.shares must be positive")
    training = LabelNoise(**parts, names=names)
    require(_fits(training), "label_noise.weights must be those of the rates and the costs")
    require(not right or training.trusted.any(), "label_noise.right_labels needs a trusted source")
    return training, training.of_right_labels() if right and sources > 1 else training


def _fits(noise: LabelNoise) -> bool:
    """Return whether the weights of each source follow, up to a factor, from its rates and the costs."""
    if noise.n_classes > 2:
        return bool(np.all(noise.weights == 1.0))
    expected = np.array([weights_of_labels(T, noise.costs) for T in noise.rates])
    ratio = noise.weights / expected
    return bool(np.all(np.abs(ratio[:, 1] - ratio[:, 0]) <= _CLOSE * ratio[:, 0]))


def _read_names(value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    require(isinstance(value, list) and value, "label_noise.sources must be a list or null")
    names = tuple(read_label(name, "label_noise.sources") for name in value)
    require(len(set(names)) == len(names), "label_noise.sources must be distinct")
    return names


def _array(values: list[Any], shape: tuple[int, ...], name: str) -> Array:
    try:
        array = np.array(values)
    except (TypeError, ValueError):
        array = np.empty(0)
    numbers = array.shape == shape and array.dtype.kind in "iuf"
    require(numbers, f"label_noise.{name} must be numbers of shape {shape}")
    good = np.all((array >= 0.0) & (array <= _LARGEST))
    require(good, f"label_noise.{name} must be numbers that are at least 0")
    return array.astype(np.float64)
