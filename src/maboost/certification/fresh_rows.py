"""Bounds of the error of any classifier, from fresh rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.certification.bounds import (
    Losses,
    betting_bounds,
    betting_rows_to_decide,
    clopper_pearson,
    rows_to_decide,
)
from maboost.certification.flip_rates import GroupRates, flip_rates_of, rates_by_group
from maboost.certification.result import Certification, CertifiedError
from maboost.noise.rates import EstimatedRates

__all__ = ["certify"]

Array = NDArray[np.float64]
Key = tuple[str, Any]

_OVERALL: Key = ("overall", None)
_OF_GROUPS = " Each group has its own rates."


def certify(
    classifier: Any,
    X: Any,
    y: ArrayLike,
    confidence: float = 0.95,
    groups: ArrayLike | None = None,
    limits: float | Mapping[Any, float] | None = None,
    flip_rates: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Certification:
    r"""Certify the error of a fitted classifier on fresh rows.

    Returns an upper and a lower confidence bound of the error overall, in every group and on the rows of every
    class, and says of each limit whether it is met, violated or open. The bounds hold for any number of rows
    and any classifier: LightGBM, XGBoost, a pipeline, a booster of this package.

    The bounds hold if the rows are *fresh*: drawn independently from the population of interest, and not used
    to fit the classifier, to stop it early, to choose it, or to calibrate it. They hold for one look. Adding
    rows and looking again until a limit is met is not covered: decide an open limit on new rows alone.

    Parameters
    ----------
    classifier : object with ``predict``
        Its predictions are compared with `y`.
    Fresh rows, in any form that ``classifier.predict`` accepts.
        Fresh rows.
    y : array-like of shape (n_rows,)
        Their given labels.
    confidence : float, default=0.95
        The probability :math:`1 - \delta` with which the bounds hold. Each side of an interval gets half of
        :math:`\delta`.
    groups : array-like of shape (n_rows,), optional
        The group of each row. With g groups each interval gets :math:`\delta/g`, so that all of them hold
        together; likewise for the classes.
    limits : float or dict, optional
        The error allowed overall, or a dict with the keys ``"overall"``, the name of a group (or
        ``("group", name)``) and ``("class", label)``.
    flip_rates : dict, float or array of shape (n_classes, n_classes), optional
        How often a class is labelled otherwise, as in :func:`maboost.noise.transition_matrix`. The bounds are
        then about *true* labels. A rate that is unknown may be an interval, ``{"fraud": (0.35, 0.45)}``;
        all intervals together must hold with probability :math:`1 - \delta/2` at least, and the bounds then
        use the other half and the worst rates in the intervals. An object with an attribute `intervals` that
        is such a dict does, too. Rates must hold within each group. Where they differ, give them by group,
        ``{"north": {"fraud": 0.4}, "south": 0.1}``: every group in `groups` must be named, and the error of all
        rows is that of the mixture of the groups. A dict of plain numbers whose keys are groups and classes
        at once is refused; ``("group", name)`` names a group.
    sample_weight : array-like of shape (n_rows,), optional
        Importance weights: the bounds are about :math:`E[w\,1(f \ne y)]/E[w]`. They are not repetitions: a row
        of weight 2 is one draw. No weight in the population may be above the largest that is given; or the
        weights are fixed by design.

    Returns
    -------
    Certification

    Notes
    -----
    Errors that are 0 or 1 on rows of equal weight get exact bounds (Clopper and Pearson, 1934). Otherwise the
    errors are an unbiased loss for true labels (Natarajan et al., 2013), which for rates :math:`\rho_+`,
    :math:`\rho_-` is :math:`[(1-\rho_{other})1(f \ne \tilde y) - \rho_{\tilde y}1(f = \tilde y)] /
    (1-\rho_+-\rho_-)`, and ratios of its weighted sums are bounded by a mixture of constant bets
    (Waudby-Smith and Ramdas, 2024).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maboost import certify
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], y[::2])
    >>> found = certify(model, X[1::2], y[1::2], limits={"overall": 0.1, ("class", 0): 0.05})
    >>> found.overall.status, found.classes[0].status
    ('met', 'open')
    """
    if not isinstance(confidence, Real) or not 0.0 < float(confidence) < 1.0:
        raise ValueError(f"confidence must be a number between 0 and 1, got {confidence!r}")
    given, predicted, labels = _answers(classifier, X, y)
    members = {} if groups is None else _members(_values(groups, "groups", like=len(given)))
    rates, kinds = _rates(flip_rates, members, labels, len(given), float(confidence))
    rows = _Rows(
        np.array(_codes(given, labels)),
        np.array(_codes(predicted, labels)),
        _weights(sample_weight, len(given)),
        kinds,
        max(len(labels), 2),  # the population may have more
        rates,
        [],
    )
    found = _certified(rows, members, labels, limits, float(confidence))
    if rows.misfits:
        misfit = _misfit(rows.misfits[0])
        warnings.warn(misfit, UserWarning, stacklevel=2)
        found = replace(found, notes=(misfit, *found.notes))
    return found


def _answers(classifier: Any, X: Any, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], list[Any]]:
    """Return given labels, predicted labels and the classes."""
    predict = getattr(classifier, "predict", None)
    if not callable(predict):
        raise TypeError(f"classifier must have a method predict, got {type(classifier).__name__}")
    given = _values(y, "y")
    if not len(given):
        raise ValueError("X and y have no rows: give fresh rows that the classifier has not seen")
    predicted = _values(predict(X), "classifier.predict(X)", like=len(given))
    return given, predicted, _labels(classifier, given, predicted)


def _rates(
    flip_rates: Any,
    members: Mapping[Any, NDArray[np.bool_]],
    labels: list[Any],
    rows: int,
    confidence: float,
) -> tuple[GroupRates | None, NDArray[np.intp]]:
    """Return the flip rates, and for each row the index of its group of rates."""
    kinds = np.zeros(rows, dtype=np.intp)
    if flip_rates is None:
        return None, kinds
    if len(labels) < 2:
        raise ValueError(
            f"flip_rates needs at least two classes, but all labels and predictions are {labels[0]!r}"
        )
    by_group = rates_by_group(flip_rates, list(members), labels)
    if by_group is None:
        _check_confidence([flip_rates], confidence)
        return GroupRates.of([flip_rates_of(flip_rates, labels)]), kinds
    _check_confidence(list(by_group.values()), confidence)
    for code, name in enumerate(by_group):
        kinds[members[name]] = code
    return GroupRates.of([flip_rates_of(own, labels) for own in by_group.values()]), kinds


def _certified(
    rows: _Rows,
    members: Mapping[Any, NDArray[np.bool_]],
    labels: list[Any],
    limits: Any,
    confidence: float,
) -> Certification:
    """Return bounds overall, by group and by class."""
    allowed = _limits(limits, list(members), labels)
    delta = 1.0 - confidence
    if rows.rates is not None and rows.rates.estimated:
        delta /= 2.0
    return Certification(
        overall=rows.error(_OVERALL, delta, allowed),
        groups={
            name: rows.of(where).error(("group", name), delta / len(members), allowed)
            for name, where in members.items()
        },
        classes={
            label: rows.class_error(code, label, delta / len(labels), allowed)
            for code, label in enumerate(labels)
        },
        confidence=confidence,
        rows=len(rows.given),
        labels="given" if rows.rates is None else "true",
        method="Clopper-Pearson" if rows.exact else "mixture of bets",
        notes=tuple(_notes(rows, len(members), len(labels))),
    )


@dataclass(frozen=True)
class _Rows:
    """Fresh rows: codes of the given and the predicted label, weights, and the flip rates of each row.

    `misfits` collects the errors for which no rate between 0 and 1 is consistent with the rows.
    """

    given: NDArray[np.intp]
    predicted: NDArray[np.intp]
    weight: Array | None
    kinds: NDArray[np.intp]
    classes: int
    rates: GroupRates | None
    misfits: list[CertifiedError]

    @property
    def exact(self) -> bool:
        """Whether errors are 0 or 1 and all rows have the same weight."""
        return self.weight is None and self.rates is None

    def of(self, where: NDArray[np.bool_]) -> _Rows:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[where]
        kinds, rates = self.kinds[where], self.rates
        if rates is not None and len(rates.groups) > 1 and len(np.unique(kinds)) == 1:
            rates, kinds = GroupRates.of([rates.groups[kinds[0]]]), np.zeros_like(kinds)
        return _Rows(
            self.given[where],
            self.predicted[where],
            weight,
            kinds,
            self.classes,
            rates,
            self.misfits,
        )

    def error(self, key: Key, delta: float, limits: Mapping[Key, float]) -> CertifiedError:
        """Return the share of the rows on which the classifier is wrong."""
        if self.exact:
            return self._exact_error(key, delta, limits)
        n, inverses, determinants = self.classes, self._inverses, self._determinants
        ones = determinants[:, None, None, None] * np.ones((inverses.shape[1], n, n))
        return self._bounded(key, delta, limits, ones - inverses, ones, self._centre_error)

    def class_error(
        self, code: int, label: Any, delta: float, limits: Mapping[Key, float]
    ) -> CertifiedError:
        """Return the share of the rows of a true class on which the classifier is wrong."""
        key = ("class", label)
        if self.rates is None:
            return self.of(self.given == code).error(key, delta, limits)
        wrong = (np.arange(self.classes) != code).astype(float)
        below = np.repeat(self._inverses[..., code, None], self.classes, axis=3)
        centre = self.rates.centre[self.kinds, self.given, code]
        share = _ratio(centre * wrong[self.predicted], centre, self.weight)
        return self._bounded(key, delta, limits, below * wrong, below, share)

    def _exact_error(self, key: Key, delta: float, limits: Mapping[Key, float]) -> CertifiedError:
        rows, wrong = len(self.given), int(np.sum(self.given != self.predicted))
        if not rows:
            return _decided(key, 0, np.nan, (0.0, 1.0), limits)
        found = _decided(key, rows, wrong / rows, clopper_pearson(wrong, rows, delta), limits)
        if found.status == "open" and found.limit is not None:
            return _with_rows(found, rows_to_decide(found.estimate, found.limit, delta))
        return found

    def _bounded(
        self,
        key: Key,
        delta: float,
        limits: Mapping[Key, float],
        numerators: Array,
        denominators: Array,
        estimate: float,
    ) -> CertifiedError:
        """Return bounds from the terms of a row by corner, group of rates, given label and predicted label."""
        rows = len(self.given)
        heaviest = 1.0 if self.weight is None else float(self.weight.max(initial=0.0))
        if not rows or not heaviest:
            return _decided(key, rows, np.nan, (0.0, 1.0), limits)
        weights, which = (
            (np.ones(1), np.zeros(rows, dtype=np.intp))
            if self.weight is None
            else np.unique(self.weight / heaviest, return_inverse=True)
        )
        cells = (self.kinds * self.classes + self.given) * self.classes + self.predicted
        cells = cells * len(weights) + which
        cells, counts = np.unique(cells, return_counts=True)
        pair, weight = cells // len(weights), weights[cells % len(weights)]
        above = numerators.reshape(len(numerators), -1)
        below = denominators.reshape(len(denominators), -1)
        extremes = above, below
        if self.weight is not None:  # any weight from 0 to the heaviest
            nothing = np.zeros((len(above), 1))
            extremes = np.hstack([above, nothing]), np.hstack([below, nothing])
        losses = Losses(
            above[:, pair] * weight,
            below[:, pair] * weight,
            counts.astype(float),
            extremes,
            self._reference,
        )
        bounds = betting_bounds(losses, delta)
        if bounds[1] <= 0.0 or bounds[0] >= 1.0:
            found = _decided(key, rows, estimate, (0.0, 1.0), limits)
            self.misfits.append(found)
            return found
        found = _decided(key, rows, estimate, bounds, limits)
        if found.status == "open" and found.limit is not None:
            return _with_rows(found, betting_rows_to_decide(losses, found.limit, delta))
        return found

    @cached_property
    def _inverses(self) -> Array:
        return np.eye(self.classes)[None, None] if self.rates is None else self.rates.inverses

    @cached_property
    def _determinants(self) -> Array:
        return np.ones(1) if self.rates is None else self.rates.determinants

    @cached_property
    def _reference(self) -> Array:
        """The probabilities of group of rates, given and predicted label, without errors and with errors only.

        All classes, and all groups, are assumed equally frequent. Weights are assumed uniform up to the heaviest, which
        leaves a third of the mean square.
        """
        K, centre = self.classes, self._centre
        wrong = (1.0 - np.eye(K)) / max(K - 1, 1)
        flips = np.linalg.inv(centre).transpose(0, 2, 1) / (K * len(centre))
        pairs = np.stack([flips, flips @ wrong]).reshape(2, -1)
        if self.weight is None:
            return pairs
        return np.hstack([pairs / 3.0, np.full((2, 1), 2.0 / 3.0)])

    @cached_property
    def _centre(self) -> Array:
        return np.eye(self.classes)[None] if self.rates is None else self.rates.centre

    @cached_property
    def _centre_error(self) -> float:
        losses = 1.0 - self._centre[self.kinds, self.given, self.predicted]
        return _ratio(losses, np.ones(len(losses)), self.weight)


def _ratio(above: Array, below: Array, weight: Array | None) -> float:
    if weight is not None:
        above, below = above * weight, below * weight
    total = float(below.sum())
    return float(above.sum()) / total if total > 0.0 else float("nan")


def _decided(
    key: Key, rows: int, estimate: float, bounds: tuple[float, float], limits: Mapping[Key, float]
) -> CertifiedError:
    lower, upper = bounds
    limit = limits.get(key)
    status = None
    if limit is not None:
        status = "met" if upper <= limit else "violated" if lower > limit else "open"
    return CertifiedError(*key, rows, estimate, lower, upper, limit, status)


def _misfit(found: CertifiedError) -> str:
    """Return a note for rows with which no error between 0 and 1 is consistent; nothing is certified."""
    return (
        f"flip_rates do not fit these rows: the estimate of the error against true labels ({found.title}) is "
        f"{found.measured}, so nothing is certified there. Either the rates are wrong, or the classifier was "
        "fitted on these labels"
    )


def _with_rows(found: CertifiedError, rows: int | None) -> CertifiedError:
    return replace(found, rows_to_decide=rows)


def _notes(rows: _Rows, groups: int, classes: int) -> list[str]:
    """Return notes on the subject and the assumptions of the bounds."""
    notes = [
        "Errors are counted against the labels as given; nothing is said about true labels."
        if rows.rates is None
        else "Errors are counted against true labels, at the flip rates given; the rates must hold for these "
        f"rows, and within each group.{_OF_GROUPS if len(rows.rates.groups) > 1 else ''}",
        "The rows must be fresh: not used to fit, stop, choose or calibrate the classifier, and drawn as the "
        "population is.",
    ]
    if rows.rates is not None and rows.rates.estimated:
        notes.append(
            "Half of the error probability is for the intervals of the flip rates, which must hold together "
            "with that probability; the bounds are for the worst rates in them."
        )
    if rows.weight is not None:
        notes.append(
            "Weights are importance weights, not repetitions; none in the population is above the largest here."
        )
    families = [
        f"the {n} {kind} intervals" for n, kind in ((groups, "group"), (classes, "class")) if n > 1
    ]
    if families:
        notes.append(
            f"{' and '.join(families).capitalize()} share the error probability evenly, so that all of a kind "
            "hold together."
        )
    return notes


# ------------------------------------------------------------------------------------ what users give


def _values(values: Any, name: str, like: int | None = None) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{name} must have one value for each row, got shape {array.shape}; give labels, not probabilities"
        )
    if like is not None and len(array) != like:
        raise ValueError(f"{name} has {len(array)} values for {like} labels in y")
    missing = [i for i, value in enumerate(array.tolist()) if _is_missing(value)] if array.dtype.kind in "fOmM" else []  # fmt: skip
    if missing:
        raise ValueError(
            f"{name} has {len(missing)} missing values, the first in row {missing[0]}: leave those rows out"
        )
    return array


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _labels(classifier: Any, given: NDArray[Any], predicted: NDArray[Any]) -> list[Any]:
    """Return the classes: the classifier's, in their order, or those of the labels and predictions."""
    own = getattr(classifier, "classes_", None)
    known = np.asarray(own).tolist() if own is not None and np.ndim(own) == 1 else []
    present, answers = _distinct(given), _distinct(predicted)
    if not {*present} & {*answers, *known}:
        raise ValueError(
            f"the classifier predicts {answers[0]!r}, but y has {present[0]!r}: give labels as predict returns "
            "them, and a classifier that predicts labels, not probabilities or codes"
        )
    if set(answers) <= set(known):
        more = set(present) - set(known)
    else:  # for example a pipeline that decodes its answers
        known, more = [], {*present, *answers}
    try:
        return [*known, *sorted(more)]
    except TypeError:
        return [*known, *sorted(more, key=str)]


def _distinct(values: NDArray[Any]) -> list[Any]:
    return list(dict.fromkeys(values.tolist()))


def _codes(values: NDArray[Any], labels: list[Any]) -> list[int]:
    code = {label: i for i, label in enumerate(labels)}
    return [code[value] for value in values.tolist()]


def _members(groups: NDArray[Any]) -> dict[Any, NDArray[np.bool_]]:
    """Return which rows are in each group, sorted by name."""
    names = sorted(_distinct(groups), key=lambda name: (str(type(name)), name))
    codes = np.array(_codes(groups, names))
    return {name: codes == i for i, name in enumerate(names)}


def _weights(sample_weight: ArrayLike | None, rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weight = np.asarray(_values(sample_weight, "sample_weight", like=rows), dtype=np.float64)
    if not np.all(np.isfinite(weight)) or weight.min() < 0.0 or not weight.max() > 0.0:
        raise ValueError(
            "sample_weight must be finite and at least 0, and above 0 in some row, got values from "
            f"{weight.min():g} to {weight.max():g}"
        )
    return None if weight.min() == weight.max() else weight


def _limits(limits: Any, groups: list[Any], labels: list[Any]) -> dict[Key, float]:
    """Return the limits by kind and name."""
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        return {_OVERALL: _limit(limits, "limits")}
    found: dict[Key, float] = {}
    for name, value in limits.items():
        key = _key(name, groups, labels)
        if key in found:
            raise ValueError(f"limits has two limits for {name!r}: give one")
        found[key] = _limit(value, f"limits[{name!r}]")
    return found


def _key(name: Any, groups: list[Any], labels: list[Any]) -> Key:
    if isinstance(name, str) and name == "overall":
        return _OVERALL
    known = {"group": groups, "class": labels}
    if isinstance(name, tuple) and len(name) == 2 and name[0] in known:
        if name[1] in known[name[0]]:
            return name
    elif name in groups:
        return ("group", name)
    there = ["'overall'", *(repr(g) for g in groups), *(repr(("class", c)) for c in labels)]
    more = f", ... ({len(there)} in all)" if len(there) > 12 else ""
    raise ValueError(
        f"limits names {name!r}, which does not exist; there are {', '.join(there[:12])}{more}"
    )


def _limit(value: Any, name: str) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be an error in [0, 1], got {value!r}")
    return float(value)


def _check_confidence(flip_rates: list[Any], confidence: float) -> None:
    """Refuse estimated rates whose intervals hold with less confidence than this certificate needs."""
    estimates = [own for own in flip_rates if isinstance(own, EstimatedRates)]
    if not estimates:
        return
    needed = 1.0 - 0.5 * (1.0 - confidence) / len(estimates)
    for own in estimates:
        if own.joint_confidence >= needed - 1e-12:
            continue
        audited = own.joint_confidence < own.confidence
        asked = 1.0 - (1.0 - needed) / len(own.classes) if audited else needed
        share = "half of its error" if len(estimates) == 1 else "that share of its error"
        raise ValueError(
            f"flip_rates were estimated with confidence={own.confidence:g}, so that their intervals hold "
            f"together with {own.joint_confidence:g}; a certificate with confidence={confidence:g} leaves "
            f"{share} to them: estimate the rates with confidence={asked:g} or more"
        )
