r"""The label noise of a training set: weights for its rows, and true classes from its votes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.predictor import simplex_rows
from maboost.noise.corrections import true_probabilities, weights_of_labels, wrong_given
from maboost.runtime.parameter_errors import ParameterError, ParameterWarning, Setting

__all__ = ["LabelNoise", "PrevalenceWarning", "balanced_costs", "true_prevalence"]

Array = NDArray[np.float64]

_EDGE = 0.01  # probabilities this close to 0 or 1 are compressed instead of clipped
_DEVIATIONS = 5.0  # standard errors of a prevalence that sampling explains


class PrevalenceWarning(ParameterWarning):
    """The share of a given label is at odds with the flip rates, within its sampling error."""


@dataclass(frozen=True, eq=False)
class LabelNoise:
    r"""Flip rates of the sources of a training set.

    With two classes, the base measure corrects given labels: every label has a weight
    in its source. A row's probability :math:`q'` of being given + *under that measure* and its probability p of
    being truly + satisfy

    .. math:: q' = \frac{\sum_s S_s W_{s+}(\rho_{s-} + A_s p)}
                        {\sum_s S_s [W_{s+}(\rho_{s-} + A_s p) + W_{s-}(1 - \rho_{s-} - A_s p)]},
              \qquad A_s = 1 - \rho_{s+} - \rho_{s-},

    for sources of shares S that share P(x, y); :math:`q' = 1/2` exactly if the costs of both
    decisions are equal. With more classes there is one source, weights are 1, and probabilities are
    corrected by the matrix of rates.

    Attributes
    ----------
    rates : array of shape (n_sources, n_classes, n_classes)
        P(given | true) by source.
    weights : array of shape (n_sources, n_classes)
        The weight of a given label.
    shares : array of shape (n_sources,)
        The share of the rows of each source, by sample weight.
    costs : array of shape (n_classes,)
        The costs of true classes.
    prevalence : array of shape (n_classes,)
        Estimated shares of the true classes.
    names : tuple, optional
        The names of the sources, if flip rates are by source.
    """

    rates: Array
    weights: Array
    shares: Array
    costs: Array
    prevalence: Array
    names: tuple[Any, ...] | None = None

    @classmethod
    def of_one_source(cls, rates: Array, costs: Array, prevalence: Array) -> LabelNoise:
        """Return the noise if all rows have the same rates."""
        K = len(rates)
        weights = weights_of_labels(rates, costs) if K == 2 else np.ones(K)
        return cls(rates[None], weights[None], np.ones(1), costs, prevalence)

    @classmethod
    def of_sources(
        cls, names: Sequence[Any], rates: Array, shares: Array, costs: Array, prevalence: Array
    ) -> LabelNoise:
        r"""Return the noise of sources that share P(x, y), each with its own rates; two classes.

        The label weights of a source, divided by A, make its weighted error an unbiased estimate of the
        error on true labels. Sources are combined by the square of their information

        .. math:: \frac{A^2}{\alpha(1-\alpha)}

        which is 1 for correct labels and 0.04 for labels of which 40 % are flipped. Its first power would be the
        inverse variance, which is optimal for averages. Trees also fit the noise of heavy rows, and the square was as
        accurate or better on every measured table.
        """
        keep = 1.0 - rates[:, 0, 1] - rates[:, 1, 0]  # 2 A
        alpha = 0.5 * (1.0 - rates[:, 1, 0] + rates[:, 0, 1])
        information = 0.25 * keep**2 / (alpha * (1.0 - alpha))
        unbiased = np.array([weights_of_labels(T, costs) for T in rates]) / keep[:, None]
        weights = unbiased * information[:, None] ** 2
        return cls(rates, weights, shares, costs, prevalence, tuple(names))

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Which sources have correct labels only."""
        right: NDArray[np.bool_] = np.all(self.rates == np.eye(self.n_classes), axis=(1, 2))
        return right

    def of_right_labels(self) -> LabelNoise:
        """Return the same classes with correct labels."""
        return LabelNoise.of_one_source(np.eye(self.n_classes), self.costs, self.prevalence)

    @property
    def rates_used(self) -> Any:
        """The matrix of rates, or a dict of them by source."""
        if self.names is None:
            return self.rates[0]
        return dict(zip(self.names, self.rates, strict=True))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.costs)

    def true_probabilities(self, q: Array) -> Array:
        """Return probabilities of true classes, each times its cost, from the probabilities of the votes.

        For two classes `q` are the probabilities under the base measure, and both results are
        one half if the votes are zero. They keep the order of the votes: probabilities beyond 0 or 1
        are compressed into the last hundredth, or less if costs are very unequal.
        """
        if self.n_classes > 2:
            return true_probabilities(q, self.rates[0])
        a, b, e, f = self._fraction()
        # the decision is at p = costs[0] / sum(costs), which must not move
        edge = min(_EDGE, 0.5 * float(self.costs.min() / self.costs.sum()))
        p = _inside((q[:, 1] * e - a) / (b - q[:, 1] * f), -a / b, (e - a) / (b - f), edge)
        one, zero = self.costs[1] * p, self.costs[0] * (1.0 - p)
        both: Array = np.column_stack([zero, one]) / (zero + one)[:, None]
        return both

    def _fraction(self) -> tuple[float, float, float, float]:
        """Return a, b, e, f with q' = (a + b p) / (e + f p)."""
        minus, keep = self.rates[:, 0, 1], 1.0 - self.rates[:, 0, 1] - self.rates[:, 1, 0]
        on_plus, on_minus = self.shares * self.weights[:, 1], self.shares * self.weights[:, 0]
        a, b = float(on_plus @ minus), float(on_plus @ keep)
        return a, b, a + float(on_minus @ (1.0 - minus)), b - float(on_minus @ keep)

    def wrong(self, p: Array, given: NDArray[np.intp], source: NDArray[np.intp] | None) -> Array:
        """Return the probability that each given label is wrong, from probabilities of true classes."""
        if source is None:
            return wrong_given(p, given, self.rates[0])
        found = np.empty(len(given))
        for s, T in enumerate(self.rates):
            rows = np.flatnonzero(source == s)
            found[rows] = wrong_given(p[rows], given[rows], T)
        return found

    def weighted_error(self, error: float) -> float:
        r"""Return the weighted error on given labels of a classifier that errs on `error` of the true ones.

        Two classes: :math:`(A\varepsilon + B)/\bar W`; with class costs `error` is assumed to be the same in
        both classes. More classes: the error on given labels if flips affect right and wrong answers alike.
        """
        if self.n_classes > 2:
            wrong = 1.0 - float(self.prevalence @ np.diagonal(self.rates[0]))
            return error + (1.0 - error) * wrong
        zero, one = self.prevalence
        minus, plus = self.rates[:, 0, 1], self.rates[:, 1, 0]
        on_minus, on_plus = self.weights[:, 0], self.weights[:, 1]
        # the losses of true classes where the classifier is right, and where it is wrong
        right = one * plus * on_minus + zero * minus * on_plus
        wrong = one * (1.0 - plus) * on_plus + zero * (1.0 - minus) * on_minus
        mass = one * (plus * on_minus + (1.0 - plus) * on_plus)
        mass += zero * (minus * on_plus + (1.0 - minus) * on_minus)
        loss = self.shares @ (right + error * (wrong - right))
        return float(loss / (self.shares @ mass))


def _inside(p: Array, lowest: float, highest: float, edge: float) -> Array:
    """Map [lowest, highest], which contains [0, 1], to [0, 1]; keep the order, and all values beyond `edge`."""
    above = 1.0 - edge + _compressed(np.maximum(p - 1.0 + edge, 0.0), highest - 1.0 + edge, edge)
    below = edge - _compressed(np.maximum(edge - p, 0.0), edge - lowest, edge)
    found = np.where(p > 1.0 - edge, above, np.where(p < edge, below, p))
    return np.clip(found, 0.0, 1.0)  # removes rounding errors


def _compressed(x: Array, reach: float, edge: float) -> Array:
    """Map [0, reach] to [0, edge], with slope one at 0; the identity if nothing is beyond the edge."""
    return x / (1.0 + x * max(1.0 / edge - 1.0 / reach, 0.0))


def true_prevalence(
    given: Array, rates: Array, effective_rows: float, classes: Sequence[Any] | None = None
) -> Array:
    """Return the shares of the true classes, from those of given labels; `classes` are their names.

    Raises
    ------
    ValueError
        If no shares of true classes give such labels, by more than sampling explains. A smaller contradiction
        is clipped, with a :class:`PrevalenceWarning`.
    """
    inverse = np.linalg.inv(rates.T)
    found = inverse @ given
    nearest: Array = simplex_rows(found[None])[0]
    expected = rates.T @ nearest
    # the shares of given labels come from a multinomial sample, so they are correlated
    variance = inverse**2 @ expected - (inverse @ expected) ** 2
    error = np.sqrt(np.maximum(variance, 0.0) / effective_rows)
    outside = np.maximum(-found, found - 1.0)
    at = int(np.argmax(outside - _DEVIATIONS * error))
    name = at if classes is None else classes[at]
    if outside[at] > _DEVIATIONS * error[at] + 1e-9:
        raise ParameterError(
            Setting("flip_rates"),
            f" do not fit the labels: given labels have the shares {given.round(4).tolist()}, and "
            f"under these rates class {name!r} would have the share {found[at]:.4f} of the true ones, by more than "
            "sampling explains: check the rates, and which class is which",
        )
    if outside[at] > 1e-9:
        warning = PrevalenceWarning(
            f"given labels have the shares {given.round(4).tolist()}, with which ",
            Setting("flip_rates"),
            f" leave class {name!r} the share {found[at]:.4f} of the true ones; {nearest[at]:.4f} is used",
        )
        warnings.warn(warning, stacklevel=2)
    return nearest


def balanced_costs(prevalence: Array) -> Array:
    """Return costs under which all true classes have the same weight."""
    K = len(prevalence)
    return 1.0 / (K * np.maximum(prevalence, 1e-12))
