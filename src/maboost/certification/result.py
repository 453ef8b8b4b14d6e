"""The result of a certificate on fresh rows, as text and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
from typing import Any

from maboost.boosting.rounding import rounded
from maboost.runtime.optional_packages import missing_package
from maboost.runtime.text import escaped

__all__ = ["Certification", "CertifiedError"]


@dataclass(frozen=True)
class CertifiedError:
    """The error of a classifier on all rows, on a group of rows, or on the rows of a class.

    Attributes
    ----------
    kind : {"overall", "group", "class"}
    name : object
        The group or the class; None overall.
    rows : int
        The number of fresh rows for the bounds.
    estimate : float
        The error on these rows. Against true labels it is an unbiased estimate, which may be below 0 or
        above 1; nan if no row gives information.
    lower, upper : float
        Bounds of the error in the population.
    limit : float or None
        The error that is allowed.
    status : {"met", "violated", "open"} or None
        Met: `upper` is at most the limit. Violated: `lower` is above it. None without a limit.
    rows_to_decide : int or None
        The number of fresh rows of this kind (all rows, rows of the group, rows of the class) that decide an open limit
        with a probability of about 0.8, if the estimate is the truth. None if no limit is open, or if no
        number of rows up to a billion decides it: the estimate equals the limit, or the intervals of the flip
        rates are too wide. With flip rates, the number for a class counts all rows, since the rows of the true class are
        unknown.

    Examples
    --------
    >>> error = CertifiedError("group", "north", 500, 0.05, 0.0326, 0.0729, limit=0.1, status="met")
    >>> error.title, error.interval, error.verdict
    ('group north', '3.26% to 7.29%', 'limit 10%: met')
    """

    kind: str
    name: Any
    rows: int
    estimate: float
    lower: float
    upper: float
    limit: float | None = None
    status: str | None = None
    rows_to_decide: int | None = None

    @property
    def title(self) -> str:
        """The rows in words: "overall", "group north", "class fraud"."""
        return self.kind if self.name is None else f"{self.kind} {self.name}"

    @property
    def interval(self) -> str:
        """The bounds in per cent, rounded outward."""
        return f"{_percent(self.lower, ROUND_FLOOR)} to {_percent(self.upper, ROUND_CEILING)}"

    @property
    def measured(self) -> str:
        """The estimate in per cent."""
        return (
            "unknown"
            if self.estimate != self.estimate
            else _percent(self.estimate, ROUND_HALF_EVEN)
        )

    @property
    def verdict(self) -> str:
        """The limit in words; empty without one."""
        if self.limit is None:
            return ""
        verdict = f"limit {_percent(self.limit, ROUND_HALF_EVEN)}: {self.status}"
        if self.status != "open":
            return verdict
        if self.rows_to_decide is None:
            return f"{verdict}; more rows would not decide it"
        return f"{verdict}; about {self.rows_to_decide:,} fresh rows would decide it"


@dataclass(frozen=True)
class Certification:
    """Bounds of a classifier's error, from fresh rows; made by :func:`maboost.certify`.

    Attributes
    ----------
    overall : CertifiedError
        Holds with probability `confidence`.
    groups : dict of CertifiedError
        By group. All of them hold together with probability `confidence`.
    classes : dict of CertifiedError
        By class: the errors among rows of that true class (of two classes the rates of false negatives and
        false positives). All of them hold together with probability `confidence`.
    confidence : float
    rows : int
        Fresh rows.
    labels : {"given", "true"}
        The labels that define an error: the given ones, or, with flip rates, the true ones.
    method : str
        A description of the method.
    notes : tuple of str
        The assumptions of the bounds.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier, certify
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
    >>> found = certify(model, X[1::2], y[1::2], limits=0.5)
    >>> found.overall.status, sorted(found.classes)
    ('met', [0, 1])
    """

    overall: CertifiedError
    groups: Mapping[Any, CertifiedError]
    classes: Mapping[Any, CertifiedError]
    confidence: float
    rows: int
    labels: str
    method: str
    notes: tuple[str, ...] = field(default=())

    @property
    def errors(self) -> list[CertifiedError]:
        """All errors: overall, by group, by class."""
        return [self.overall, *self.groups.values(), *self.classes.values()]

    @property
    def limits_met(self) -> bool:
        """Whether every limit is met."""
        return all(e.status in (None, "met") for e in self.errors)

    @property
    def limits_violated(self) -> bool:
        """Whether some limit is violated."""
        return any(e.status == "violated" for e in self.errors)

    @property
    def headline(self) -> str:
        """The most important sentence of the result."""
        return (
            f"With {_confidence(self.confidence)} confidence the error against {self.labels} labels on rows "
            f"like these is {self.overall.interval} (estimate {self.overall.measured}, {self.rows:,} fresh "
            "rows)."
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each error, and the fields of :class:`CertifiedError`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(missing_package("Certification.to_frame()", "pandas")) from error
        fields = ("kind", "name", "rows", "estimate", "lower", "upper", "limit", "status", "rows_to_decide")  # fmt: skip
        columns = {name: [getattr(e, name) for e in self.errors] for name in fields}
        frame = pd.DataFrame(columns)
        frame["limit"] = frame["limit"].astype("float64")
        frame["rows_to_decide"] = frame["rows_to_decide"].astype("Int64")
        return frame

    def __str__(self) -> str:
        head = ("", "rows", "estimate", f"{_confidence(self.confidence)} bounds", "limit")
        lines = [
            (escaped(e.title), f"{e.rows:,}", e.measured, e.interval, e.verdict)
            for e in self.errors
        ]
        widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head) - 1)]
        table = [
            "  ".join(
                [
                    line[0].ljust(widths[0]),
                    *(line[i].rjust(widths[i]) for i in (1, 2)),
                    line[3].ljust(widths[3]),
                    line[4],
                ]
            ).rstrip()
            for line in ((head if any(e.verdict for e in self.errors) else (*head[:4], "")), *lines)
        ]
        return "\n".join([self.headline, "", *table, "", *map(escaped, self.notes)])


def _percent(share: float, rounding: str) -> str:
    value = rounded(100.0 * share, 3, rounding)
    return f"{value:g}%" if abs(value) >= 1e-4 or not value else f"{value:.1e}%"


def _confidence(confidence: float) -> str:
    return f"{100.0 * confidence:.6g}%"
