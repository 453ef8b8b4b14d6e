"""Line charts as SVG paths in a box of 1000 x 1000 that the page stretches.

Lines keep their width when the box is stretched, and all text is outside the box, so a chart
is readable at any size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.report.formats import number

__all__ = [
    "Chart",
    "Curve",
    "Dash",
    "Mark",
    "error_chart",
    "fraction_chart",
    "line_chart",
    "step_chart",
    "unit_chart",
]

Array = NDArray[np.float64]
Dash = Literal["solid", "dashed", "long", "dashdot"]

_SIDE = 1000.0
_MOST_POINTS = 600
_WIDE = 20.0  # errors that differ by more than this factor need a logarithmic axis
_ZERO = 0.12  # the part of a logarithmic axis that is left for zero


@dataclass(frozen=True)
class Curve:
    """A line to draw: points, a label and a style (a colour number and a dash)."""

    label: str
    x: Array
    y: Array
    color: int = 1
    dash: Dash = "solid"


@dataclass(frozen=True)
class Mark:
    """A straight line: a limit at a height, or a vertical line at a round. Without a label it has no legend entry."""

    label: str
    at: float
    upright: bool = False
    color: int = 0


@dataclass(frozen=True)
class Tick:
    """A number at an axis, with its position in per cent of the axis."""

    at: float
    label: str

    @property
    def place(self) -> float:
        """The position in units of the box."""
        return round(self.at * _SIDE / 100.0, 1)


@dataclass(frozen=True)
class Drawn:
    """A path and its style."""

    label: str
    path: str
    color: int
    dash: str


@dataclass(frozen=True)
class Chart:
    """A chart in the form of the template."""

    kind: ClassVar[str] = "chart"
    id: str
    title: str
    description: str
    x_label: str
    y_label: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    lines: Sequence[Drawn]
    readout: str


class Scale(Protocol):
    """A mapping of values to an axis: 0 at its start, 1 at its end."""

    def __call__(self, values: ArrayLike) -> Array:
        """Return the positions of the values."""
        ...

    def ticks(self) -> list[Tick]:
        """Return round numbers, few enough to read."""
        ...


@dataclass(frozen=True)
class Linear:
    """A linear scale."""

    low: float
    high: float
    count: int = 5
    whole: bool = False

    def __call__(self, values: ArrayLike) -> Array:
        return (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)

    def ticks(self) -> list[Tick]:
        unit = _round_unit((self.high - self.low) / self.count)
        unit = max(unit, 1.0) if self.whole else unit
        first = math.ceil(self.low / unit - 1e-9)
        values = [i * unit for i in range(first, math.floor(self.high / unit + 1e-9) + 1)]
        return [Tick(_per_cent(self(v)), f"{round(v, 12):,g}") for v in values]


@dataclass(frozen=True)
class Logarithmic:
    """A logarithmic scale, above a place for zero if there is one."""

    low: float
    high: float
    zero: bool

    def __call__(self, values: ArrayLike) -> Array:
        values = np.asarray(values, dtype=float)
        start = _ZERO if self.zero else 0.0
        tiny = np.maximum(values, self.low)
        place = np.log(tiny / self.low) / math.log(self.high / self.low)
        return np.where(values > 0.0, start + (1.0 - start) * place, 0.0)

    def ticks(self) -> list[Tick]:
        low, high = math.log10(self.low), math.log10(self.high)
        powers = range(math.floor(low + 1e-9), math.floor(high + 1e-9) + 1)
        stride = max(1, math.ceil(len(powers) / 6))
        factors = (1, 2, 5) if len(powers) <= 2 else (1,)
        values = [float(f"{f}e{p}") for p in powers[::stride] for f in factors]
        ticks = [
            Tick(_per_cent(self(v)), f"{v:g}")
            for v in values
            if self.low * (1 - 1e-9) <= v <= self.high
        ]
        return [Tick(0.0, "0"), *ticks] if self.zero else ticks


def _per_cent(place: Array) -> float:
    return round(100.0 * float(place), 2)


def _round_unit(size: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... times a power of ten that is not less."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= size * (1 - 1e-9))


def _error_scale(values: Sequence[Array]) -> Scale:
    """Return a scale that is linear from zero, or logarithmic if the errors differ by a large factor."""
    everything = np.concatenate([np.ravel(v) for v in values])
    everything = everything[np.isfinite(everything)]
    positive = everything[everything > 0.0]
    if not positive.size:
        return Linear(0.0, 1.0)
    least, most = float(positive.min()), float(positive.max())
    if most < _WIDE * least:
        return Linear(0.0, 1.05 * most)
    return Logarithmic(
        10.0 ** math.floor(math.log10(least)), most * 1.05, bool(np.any(everything == 0.0))
    )


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the points without missing values, and no more of them than can be seen."""
    there = np.isfinite(y)
    x, y = x[there], y[there]
    if len(x) <= _MOST_POINTS:
        return x, y
    chosen = np.unique(np.linspace(0, len(x) - 1, _MOST_POINTS).round().astype(int))
    return x[chosen], y[chosen]


def _points(curve: Curve, across: Scale, up: Scale) -> list[tuple[str, str]]:
    x, y = _thinned(np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float))
    left, top = _SIDE * across(x), _SIDE * (1.0 - up(y))
    return [(_short(a), _short(b)) for a, b in zip(left.tolist(), top.tolist(), strict=True)]


def _short(value: float) -> str:
    return f"{round(value, 1):g}"


def _polyline(curve: Curve, across: Scale, up: Scale) -> str:
    points = _points(curve, across, up)
    if len(points) == 1:  # a round cap turns a line of length zero into a dot
        return f"M{points[0][0]} {points[0][1]}h0"
    return "M" + "L".join(f"{a} {b}" for a, b in points)


def _steps(curve: Curve, across: Scale, up: Scale) -> str:
    points = _points(curve, across, up)
    return f"M{points[0][0]} {points[0][1]}" + "".join(f"H{a}V{b}" for a, b in points[1:])


def _straight(mark: Mark, across: Scale, up: Scale) -> Drawn:
    if mark.upright:
        path = f"M{_short(_SIDE * float(across(mark.at)))} 0V1000"
    else:
        path = f"M0 {_short(_SIDE * (1.0 - float(up(mark.at))))}H1000"
    return Drawn(mark.label, path, mark.color, "thin" if mark.upright else "dotted")


def _readout(
    names: Sequence[str], x: Array, across: Scale, curves: Sequence[Curve], values: Sequence[Array]
) -> str:
    """Return the text for a pointer: at each position its name and the value of every line."""
    said = [[number(v) for v in np.asarray(y).tolist()] for y in values]
    places = [round(_SIDE * p, 1) for p in across(x).tolist()]
    return json.dumps(
        {
            "places": places,
            "names": list(names),
            "labels": [c.label for c in curves],
            "values": said,
        }
    )


def _readout_by_round(curves: Sequence[Curve], across: Scale) -> str:
    longest = max(curves, key=lambda c: len(c.x))
    x = np.asarray(longest.x, dtype=float)
    rounds, _ = _thinned(x, np.zeros(len(x)))
    values = []
    for curve in curves:
        known = dict(zip(np.asarray(curve.x).tolist(), np.asarray(curve.y).tolist(), strict=True))
        values.append(np.array([known.get(r, np.nan) for r in rounds.tolist()]))
    return _readout([f"round {r:,.0f}" for r in rounds.tolist()], rounds, across, curves, values)


def _readout_of_steps(curves: Sequence[Curve], across: Scale) -> str:
    at = np.linspace(-1.0, 1.0, 81)
    values = [c.y[np.searchsorted(c.x, at + 1e-9, side="right") - 1] for c in curves]
    return _readout(
        [f"at or below {round(a, 3):g}" for a in at.tolist()], at, across, curves, values
    )


def _round_scale(last: int) -> Linear:
    return Linear(1.0, float(max(last, 2)), whole=True)


def _round_ticks(scale: Linear) -> list[Tick]:
    """Return round numbers, and the first and last round if there is room."""
    ticks = [t for t in scale.ticks() if 8.0 <= t.at <= 100.0]
    return [Tick(0.0, "1"), *ticks]


def error_chart(
    id: str, title: str, description: str, curves: Sequence[Curve], marks: Sequence[Mark] = ()
) -> Chart:
    """Return a chart of errors by round."""
    level = [np.array([m.at]) for m in marks if not m.upright]
    up = _error_scale([*(c.y for c in curves), *level])
    return _by_round(id, title, description, "error", curves, marks, up)


def line_chart(
    id: str,
    title: str,
    description: str,
    y_label: str,
    curves: Sequence[Curve],
    marks: Sequence[Mark] = (),
) -> Chart:
    """Return a chart of values by round, from zero."""
    top = max([float(np.max(c.y)) for c in curves] + [m.at for m in marks if not m.upright])
    return _by_round(id, title, description, y_label, curves, marks, Linear(0.0, 1.05 * top or 1.0))


def fraction_chart(
    id: str, title: str, description: str, y_label: str, curves: Sequence[Curve]
) -> Chart:
    """Return a chart of fractions by round."""
    return _by_round(id, title, description, y_label, curves, (), Linear(0.0, 1.02))


def _by_round(
    id: str,
    title: str,
    description: str,
    y_label: str,
    curves: Sequence[Curve],
    marks: Sequence[Mark],
    up: Scale,
) -> Chart:
    across = _round_scale(int(max(c.x[-1] for c in curves)))
    lines = [Drawn(c.label, _polyline(c, across, up), c.color, c.dash) for c in curves]
    lines += [_straight(m, across, up) for m in marks]
    return Chart(
        id,
        title,
        description,
        "round",
        y_label,
        _round_ticks(across),
        up.ticks(),
        lines,
        _readout_by_round(curves, across),
    )


def step_chart(
    id: str,
    title: str,
    description: str,
    labels: tuple[str, str],
    curves: Sequence[Curve],
    marks: Sequence[Mark] = (),
) -> Chart:
    """Return a chart of cumulative fractions of values between -1 and 1."""
    across, up = Linear(-1.0, 1.0, 4), Linear(0.0, 1.02)
    lines = [Drawn(c.label, _steps(c, across, up), c.color, c.dash) for c in curves]
    lines += [_straight(m, across, up) for m in marks]
    return Chart(
        id,
        title,
        description,
        labels[0],
        labels[1],
        across.ticks(),
        up.ticks(),
        lines,
        _readout_of_steps(curves, across),
    )


def unit_chart(
    id: str,
    title: str,
    description: str,
    labels: tuple[str, str],
    curves: Sequence[Curve],
    diagonal: str | None = None,
) -> Chart:
    """Return a chart of fractions by fractions, with a dotted diagonal if it has a name."""
    across, up = Linear(0.0, 1.0), Linear(0.0, 1.02)
    lines = [Drawn(c.label, _polyline(c, across, up), c.color, c.dash) for c in curves]
    if diagonal is not None:
        ends = np.array([0.0, 1.0])
        line = Curve(diagonal, ends, ends, 0)
        lines.append(Drawn(diagonal, _polyline(line, across, up), 0, "dotted"))
    at = np.linspace(0.0, 1.0, 51)
    values = [np.interp(at, c.x, c.y, left=np.nan, right=np.nan) for c in curves]
    names = [f"{labels[0]} {round(a, 3):g}" for a in at.tolist()]
    readout = _readout(names, at, across, curves, values)
    return Chart(
        id, title, description, labels[0], labels[1], across.ticks(), up.ticks(), lines, readout
    )
