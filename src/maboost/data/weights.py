"""The base measure of a run from the user's weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from maboost.noise.corrections import transition_matrix
from maboost.noise.label_noise import LabelNoise, balanced_costs, true_prevalence
from maboost.runtime.communicator import (
    Communicator,
    SerialCommunicator,
    gathered_objects,
    global_count,
    reproducible_sum,
    sums_by_code,
)
from maboost.runtime.parameter_errors import Advice, ParameterError, Setting

__all__ = ["InertRowsWarning", "RowWeights", "distinct_sources", "distinct_values", "row_weights"]

Array = NDArray[np.float64]

# A row below this share of the largest weight cannot change any sum, and the square of its largest
# density, 1/D**2, would nearly overflow.
_SMALLEST_SHARE = 1e-100


class InertRowsWarning(UserWarning):
    """Some rows have a weight so small beside the largest that they take no part in the fit.

    >>> import warnings
    >>> from maboost import MABoostClassifier
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = MABoostClassifier(n_estimators=1).fit([[0], [1], [2]], [0, 1, 1], [1, 1, 1e-200])
    >>> [warning.category.__name__ for warning in caught], model.n_inert_rows_
    (['InertRowsWarning'], 1)
    """


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows that take part.

    Attributes
    ----------
    kept : boolean array over all rows
        Rows of positive weight.
    scaled : array over kept rows
        Their weights divided by the largest: the base measure in some unit.
    shown : array over kept rows
        Their weights as a learner should see them: the user's own unless these would overflow.
    inert : int
        The number of rows left out, over all shards.
    noise : LabelNoise, optional
        The noise model of `flip_rates`; the weights include the factors of given labels.
    sources : integer array over kept rows, optional
        The number of each row's source in `noise`, if flip rates are by source.
    repeats : array over kept rows, optional
        The weights without the factors of given labels; see `counted`.
    """

    kept: NDArray[np.bool_]
    scaled: Array
    shown: Array
    inert: int
    noise: LabelNoise | None = None
    sources: NDArray[np.intp] | None = None
    repeats: Array | None = None

    @property
    def counted(self) -> Array:
        """The weights that say how often a row is repeated: factors of labels repeat no row."""
        return self.scaled if self.repeats is None else self.repeats

    def times(self, factors: Array) -> RowWeights:
        """Return the weights with a factor for each of the kept rows."""
        repeats = None if self.repeats is None else self.repeats * factors
        return replace(
            self, scaled=self.scaled * factors, shown=self.shown * factors, repeats=repeats
        )

    def without(self, held_out: NDArray[np.bool_]) -> RowWeights:
        """Return the weights without some of the kept rows."""
        kept = self.kept.copy()
        kept[np.flatnonzero(kept)[held_out]] = False
        scaled, shown = self.scaled[~held_out], self.shown[~held_out]
        sources = None if self.sources is None else self.sources[~held_out]
        repeats = None if self.repeats is None else self.repeats[~held_out]
        return replace(
            self, kept=kept, scaled=scaled, shown=shown, sources=sources, repeats=repeats
        )


def row_weights(
    X: Any,
    y: NDArray[Any],
    sample_weight: Any,
    class_weight: Any,
    comm: Communicator | None = None,
    flip_rates: Any = None,
    sources: NDArray[Any] | None = None,
) -> RowWeights:
    """Check `sample_weight`, multiply in `class_weight` and `flip_rates`, leave out rows without weight.

    `sources` are the sources of the rows if flip rates are by source.
    """
    comm = comm or SerialCommunicator()
    weight = _given(X, y, sample_weight, comm)
    top = _largest(weight, comm)
    if not top > 0.0:
        # the message of scikit-learn 1.9, which checks the weights of a fit without shards
        raise ValueError("Sample weights must contain at least one non-zero number.")
    scaled = weight / top
    positive = weight > 0.0
    noise, factors, of_source = None, None, None
    repeats = scaled
    if flip_rates is not None and sources is not None:
        noise, factors, of_source = _noise_of_sources(
            y, scaled, flip_rates, sources, class_weight, comm
        )
    elif flip_rates is not None:
        noise, factors = _noise_factors(y, scaled, flip_rates, class_weight, comm)
    elif class_weight is not None:
        factors = _class_factors(y, scaled, class_weight, comm)
    if factors is not None:
        scaled = scaled * factors
        positive &= factors > 0.0
        top_scaled = _largest(scaled, comm)
        if not top_scaled > 0.0:
            raise ParameterError(
                Setting("class_weight", class_weight), " leaves no row with positive weight"
            )
        scaled, top = scaled / top_scaled, top * top_scaled
    kept = scaled >= _SMALLEST_SHARE
    underflowed = global_count(int(np.sum(positive & ~kept)), comm)
    if underflowed:
        warnings.warn(
            f"{underflowed} rows have less than {_SMALLEST_SHARE:g} of the largest weight and take no "
            "part in the fit",
            InertRowsWarning,
            stacklevel=3,
        )
    scaled = scaled[kept]
    ordinary = 1e-100 < top < 1e100 and top != 1.0
    inert = global_count(int(np.sum(~kept)), comm)
    return RowWeights(
        kept, scaled, scaled * top if ordinary else scaled, inert, noise,
        None if of_source is None else of_source[kept],
        None if noise is None else repeats[kept],
    )  # fmt: skip


def _noise_of_sources(
    y: NDArray[Any],
    weight: Array,
    flip_rates: Any,
    sources: NDArray[Any],
    class_weight: Any,
    comm: Communicator,
) -> tuple[LabelNoise | None, Array | None, NDArray[np.intp] | None]:
    """Return the noise model of flip rates by source, the factor of each row, and the number of its source."""
    classes = distinct_values(y[weight > 0.0], comm)
    if sources.shape != y.shape:
        raise ValueError(
            f"sample_domain must have one entry for each row ({y.size}), got shape {sources.shape}"
        )
    names = distinct_sources(sources[weight > 0.0], comm)
    rates = _rates_of_sources(flip_rates, names.tolist())
    if len(classes) < 2:
        return None, None, None
    if len(classes) > 2:
        raise ValueError(
            f"flip_rates by source need two classes, and y has {len(classes)}: give the rates of one source, or correct "
            "the probabilities of each source by maboost.noise"
        )
    codes = np.minimum(np.searchsorted(classes, y), 1)
    of_source = np.minimum(np.searchsorted(names, sources), len(names) - 1)
    totals = sums_by_code(2 * of_source + codes, weight, 2 * len(names), comm).reshape(-1, 2)
    squares = sums_by_code(of_source, weight * weight, len(names), comm)
    matrices, found = [], []
    for rate, given, square in zip(rates, totals, squares, strict=True):
        matrices.append(transition_matrix(rate, classes))
        rows = given.sum() ** 2 / square
        found.append(true_prevalence(given / given.sum(), matrices[-1], rows, classes.tolist()))
    shares = totals.sum(axis=1) / totals.sum()
    prevalence = shares @ np.array(found)
    costs = _costs(class_weight, classes, prevalence, y, weight, comm)
    noise = LabelNoise.of_sources(names.tolist(), np.array(matrices), shares, costs, prevalence)
    return noise, noise.weights[of_source, codes], of_source


def _rates_of_sources(flip_rates: Any, names: list[Any]) -> list[Any]:
    """Return the rates of each of these sources."""
    if not isinstance(flip_rates, Mapping):
        raise ParameterError(
            Setting("flip_rates", flip_rates),
            " must be a dict by source here, such as {'scraped': 0.4, 'audited': 0.0}; a value is a rate, a "
            "dict by class or a matrix",
        )
    unnamed = [name for name in names if name not in flip_rates]
    if unnamed:
        raise ParameterError(
            Setting("sample_domain"), f" has {unnamed[0]!r}, which ", Setting("flip_rates"),
            " does not name: give it a rate, 0.0 for a source whose labels are right",
        )  # fmt: skip
    unknown = sorted(set(flip_rates) - set(names), key=str)
    if unknown:
        raise ParameterError(
            Setting("flip_rates"), f" names {unknown[0]!r}, which is not a source in ",
            Setting("sample_domain"), f"; the sources are {names!r}",
        )  # fmt: skip
    return [flip_rates[name] for name in names]


def _costs(
    class_weight: Any,
    classes: NDArray[Any],
    prevalence: Array,
    y: NDArray[Any],
    weight: Array,
    comm: Communicator,
) -> Array:
    """Return the costs of true classes."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return balanced_costs(prevalence)
    _class_factors(y, weight, class_weight, comm)  # raises errors for a wrong class_weight
    costs = np.array([float(class_weight.get(c, 1.0)) for c in classes.tolist()])
    if not np.all(costs > 0.0):
        raise ParameterError(
            Setting("class_weight", class_weight), " with ", Setting("flip_rates"),
            " must be above 0 for both classes, since rows of each given label may truly be of either",
        )  # fmt: skip
    return costs


def _noise_factors(
    y: NDArray[Any], weight: Array, flip_rates: Any, class_weight: Any, comm: Communicator
) -> tuple[LabelNoise | None, Array | None]:
    """Return the noise model of flip rates, and the factor of each row; costs are those of true classes."""
    classes = distinct_values(y[weight > 0.0], comm)
    if len(classes) < 2:
        return None, None if class_weight is None else _class_factors(y, weight, class_weight, comm)
    rates = transition_matrix(flip_rates, classes)
    if len(classes) > 2 and class_weight is not None:
        raise ParameterError(
            Setting("class_weight", class_weight), " with ", Setting("flip_rates"),
            f" needs two classes, and y has {len(classes)}: the weights of true classes cannot be those of "
            "given labels; choose by predict_proba instead",
        )  # fmt: skip
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)  # others have no weight
    totals = sums_by_code(codes, weight, len(classes), comm)
    squares = reproducible_sum(weight * weight, comm)
    count = totals.sum() ** 2 / squares
    prevalence = true_prevalence(totals / totals.sum(), rates, count, classes.tolist())
    costs = _costs(class_weight, classes, prevalence, y, weight, comm)
    noise = LabelNoise.of_one_source(rates, costs, prevalence)
    return noise, noise.weights[0][codes] if len(classes) == 2 else None


def _given(X: Any, y: NDArray[Any], sample_weight: Any, comm: Communicator) -> Array:
    """Return the user's weights, checked. The weights of one shard may all be zero, which scikit-learn refuses."""
    if sample_weight is None or not len(y):
        return np.ones(len(y))
    if comm.size > 1 and not np.any(np.asarray(sample_weight)):
        return np.zeros(len(y))
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
    if np.any(weight < 0.0):
        at = int(np.argmin(weight))
        raise ParameterError(
            "Negative values in ", Advice("sample_weight", "data passed to `sample_weight`"),
            f": {float(weight[at])!r} at row {at}; weights must be at least 0",
        )  # fmt: skip
    return weight


def _largest(values: Array, comm: Communicator) -> float:
    return float(comm.allreduce(np.array([values.max(initial=0.0)]), "max")[0])


def distinct_values(values: NDArray[Any], comm: Communicator) -> NDArray[Any]:
    """Return the sorted distinct values over all shards."""
    parts = gathered_objects(np.unique(values), comm)
    held = [part for part in parts if len(part)] or parts[:1]
    return held[0] if len(held) == 1 else np.unique(np.concatenate(held))


def distinct_sources(sources: NDArray[Any], comm: Communicator) -> NDArray[Any]:
    """Return the sorted names of the sources over all shards."""
    try:
        return distinct_values(sources, comm)
    except TypeError as error:
        raise ParameterError(
            Setting("sample_domain"),
            f" has names without a common order ({error}): make them all text or all numbers",
        ) from None


def _class_factors(y: NDArray[Any], weight: Array, class_weight: Any, comm: Communicator) -> Array:
    """Return a factor for each row; "balanced" counts weights, so a row of weight two counts as two rows."""
    classes = distinct_values(y, comm)
    codes = np.searchsorted(classes, y)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight must be 'balanced', a dict or None, got {class_weight!r}"
            )
        totals = sums_by_code(codes, weight, len(classes), comm)
        with np.errstate(divide="ignore"):
            factors = np.where(totals > 0.0, totals.sum() / (np.sum(totals > 0) * totals), 0.0)
        return factors[codes]
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced', a dict or None, got {class_weight!r}")
    there = classes.tolist()
    unknown, unnamed = set(class_weight) - set(there), set(there) - set(class_weight)
    if unknown and unnamed:  # a fold may lack a rare class; but this looks like another spelling
        raise ParameterError(
            Setting("class_weight"),
            f" names {sorted(unknown, key=str)!r}, which are not in y, and not "
            f"{sorted(unnamed, key=str)!r}, which are",
        )
    given = [class_weight.get(c, 1.0) for c in there]
    factors = np.array([float(f) if isinstance(f, Real) else np.nan for f in given])
    if np.any(~np.isfinite(factors)) or np.any(factors < 0.0):
        raise ValueError(f"class_weight must be finite and at least 0, got {class_weight!r}")
    return factors[codes]
