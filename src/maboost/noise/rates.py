"""Estimated flip rates with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EstimatedRates"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EstimatedRates:
    """Estimated flip rates; every parameter `flip_rates` accepts this object.

    Attributes
    ----------
    classes : tuple
        The sorted classes.
    matrix : array of shape (n_classes, n_classes)
        The estimate of P(given | true), with a row for each true class.
    lower, upper : array of shape (n_classes, n_classes)
        The interval of each entry of `matrix`.
    confidence : float
        The level of each interval; intervals from trusted rows hold together at this level.
    n_rows : int
        The number of rows for the estimate.
    source : str
        A description of the data behind the rates.

    Examples
    --------
    >>> from maboost.noise import flip_rates_from_audit, label_weights
    >>> given = ["ok"] * 4 + ["fraud"] * 6 + ["ok"] * 10
    >>> rates = flip_rates_from_audit(given, ["fraud"] * 10 + ["ok"] * 10)
    >>> print(rates)
    flip rates from 20 audited rows, with 95 % intervals
      fraud: 0.400 (0.122 to 0.738)
      ok: 0.000 (0.000 to 0.308)
    >>> label_weights(["fraud", "ok"], rates)
    array([1.4, 0.6])
    """

    classes: tuple[Any, ...]
    matrix: Array
    lower: Array
    upper: Array
    confidence: float
    n_rows: int
    source: str

    @property
    def rates(self) -> dict[Any, float]:
        """The flip rate of each class."""
        return {
            name: float(1.0 - right)
            for name, right in zip(self.classes, np.diag(self.matrix), strict=True)
        }

    @property
    def intervals(self) -> dict[Any, tuple[float, float]]:
        """The interval of the flip rate of each class."""
        return {
            name: (float(1.0 - high), float(1.0 - low))
            for name, low, high in zip(
                self.classes, np.diag(self.lower), np.diag(self.upper), strict=True
            )
        }

    @property
    def joint_confidence(self) -> float:
        """The level at which the intervals of all classes hold together.

        Intervals of an audit hold one by one, so their error probabilities add up.
        """
        if self.source != "audited rows":
            return self.confidence
        return max(1.0 - len(self.classes) * (1.0 - self.confidence), 0.0)

    def ordered(self, classes: list[Any]) -> Array:
        """Return the matrix in the order of `classes`."""
        if len(classes) != len(self.classes) or set(classes) != set(self.classes):
            raise ValueError(
                f"flip_rates were estimated for the classes {list(self.classes)!r}, but the classes are "
                f"{classes!r}"
            )
        order = [self.classes.index(name) for name in classes]
        return self.matrix[np.ix_(order, order)].copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the contents as lists and numbers, ready for JSON; lists follow the order of `classes`."""
        return {
            "classes": list(self.classes),
            "matrix": self.matrix.tolist(),
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "rates": list(self.rates.values()),
            "intervals": [list(interval) for interval in self.intervals.values()],
            "confidence": self.confidence,
            "n_rows": self.n_rows,
            "source": self.source,
        }

    def __str__(self) -> str:
        lines = [
            f"flip rates from {self.n_rows:,} {self.source}, with {100.0 * self.confidence:g} % intervals"
        ]
        for name, rate in self.rates.items():
            low, high = self.intervals[name]
            lines.append(f"  {name}: {rate:.3f} ({low:.3f} to {high:.3f})")
        return "\n".join(lines)
