"""The sections on the rounds: errors, the distribution over the rows, data sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maboost.report.blocks import (
    Beside,
    Cell,
    Column,
    Details,
    Note,
    Paragraph,
    Section,
    Table,
    cell,
    number_cell,
)
from maboost.report.charts import Curve, Dash, Mark, error_chart, fraction_chart, line_chart
from maboost.report.formats import at_most, count, number, percent, text
from maboost.report.subject import Subject
from maboost.report.summary import streamed

__all__ = ["distribution_section", "error_section", "source_section"]

_MOST_ROUNDS = 500
_MOST_SOURCES = 6
_DASHES: tuple[Dash, ...] = ("solid", "dashed", "long", "dashdot")
_NO_ROUNDS = "The model has no rounds, so that there is nothing to show here."


def _kept_mark(subject: Subject) -> list[Mark]:
    if subject.rounds == len(subject.model.history_):
        return []
    return [Mark(f"rounds kept: {subject.rounds:,}", subject.rounds, upright=True)]


def _chosen_rounds(subject: Subject) -> list[int]:
    """Return positions of rounds for a table: all, or evenly spaced ones if there are too many."""
    total = len(subject.model.history_)
    if total <= _MOST_ROUNDS:
        return list(range(total))
    evenly = np.linspace(0, total - 1, _MOST_ROUNDS).round().astype(int).tolist()
    return sorted({*evenly, subject.rounds - 1})


def _round_table(subject: Subject, id: str, caption: str, columns: dict[str, Any]) -> Details:
    """Return a table of the numbers of a chart."""
    chosen, total = _chosen_rounds(subject), len(subject.model.history_)
    values = {label: np.asarray(v, dtype=float) for label, v in columns.items()}
    rows = [
        [cell(i + 1, "number"), *(number_cell(float(v[i])) for v in values.values())]
        for i in chosen
    ]
    heads = [Column("Round", True), *(Column(label, True) for label in values)]
    summary = f"The numbers of {count(total, 'round')}"
    if len(chosen) < total:
        summary = (
            f"The numbers of {len(chosen)} of {total:,} rounds; `model.history_.to_frame()` has all"
        )
    return Details(summary, [Table(id, caption, heads, rows)])


def error_section(subject: Subject) -> Section:
    """Return the section on measured and certified error by round."""
    history = subject.model.history_
    if not len(history):
        return Section("errors", "Error by round", [Note(_NO_ROUNDS)])
    rounds, floor = history["round"], subject.model.certificate_.floor
    curves = [
        Curve("training, certified", rounds, history["error_bound"], 1, "dashed"),
        Curve("training, measured", rounds, history["train_error"], 1),
    ]
    columns: dict[str, Any] = {
        "Training error": history["train_error"],
        "Certified error": history["error_bound"],
    }
    validation = history["val_error"].astype(float)
    if not np.isnan(validation).all():
        curves.append(Curve("validation, measured", rounds, validation, 2, "dashdot"))
        columns["Validation error"] = validation
    if subject.test is not None:
        staged = np.full(len(history), np.nan)
        staged[: len(subject.test.staged)] = subject.test.staged
        curves.append(Curve("test, measured", rounds, staged, 3, "long"))
        columns["Test error"] = staged
    for label, name in _STEP_COLUMNS.items():
        columns[label] = history[name]
    marks = [Mark(f"nothing is certified below {number(floor, 3)}", floor)] if floor > 0 else []
    chart = error_chart(
        "chart-errors",
        "Certified and measured error by round",
        _in_words(curves, subject.rounds),
        curves,
        marks + _kept_mark(subject),
    )
    words = (
        "The certified error is about the distribution behind the stream and holds with the confidence "
        "that was asked for. The measured error is that of a sample, so it may lie above."
        if streamed(subject)
        else "After every round the measured training error is at or below the certified one. The "
        "certified error follows from the gains alone."
    )
    table = _round_table(subject, "rounds", "Errors, steps and margins by round", columns)
    return Section("errors", "Error by round", [Paragraph(words), chart, table])


_STEP_COLUMNS = {
    "Edge": "edge",
    "Step": "step",
    "Gain": "gain",
    "Smallest margin": "min_margin",
    "Soft margin": "soft_margin",
    "Certified soft margin": "margin_bound",
}


def _in_words(curves: Sequence[Curve], last: int) -> str:
    """Return a description of the lines for readers who cannot see them."""
    said = []
    for curve in curves:
        there = np.flatnonzero(np.isfinite(curve.y[:last]))
        if len(there):
            first, end = curve.y[there[0]], curve.y[there[-1]]
            said.append(f"{curve.label}: {number(first, 3)} after round 1, {number(end, 3)} after round {there[-1] + 1}")  # fmt: skip
    return "; ".join(said) + "."


def distribution_section(subject: Subject) -> Section:
    """Return the section on the distribution of the weight over the rows."""
    history = subject.model.history_
    heading = "Distribution over the rows"
    if not len(history):
        return Section("distribution", heading, [Note(_NO_ROUNDS)])
    rounds = history["round"]
    cap = getattr(subject.model, "smoothness_", None)
    capped = cap is not None and np.isfinite(cap)
    marks = [Mark(f"cap {number(cap, 3)}", float(cap))] if cap is not None and capped else []
    largest = [Curve("largest weight", rounds, history["smoothness"].astype(float), 1)]
    spread = [
        Curve("effective sample size", rounds, history["ess"].astype(float), 1),
        Curve("rows with weight", rounds, history["nonzero"].astype(float), 3, "dashed"),
    ]
    blocks = [
        Paragraph(_spread_in_words(subject)),
        Beside(
            [
                line_chart(
                    "chart-largest",
                    "Largest weight of a row",
                    _in_words(largest, len(rounds)),
                    "times its share",
                    largest,
                    marks,
                ),
                fraction_chart(
                    "chart-spread",
                    "How much of the data counts",
                    _in_words(spread, len(rounds)),
                    "fraction",
                    spread,
                ),
            ]
        ),
        _round_table(
            subject,
            "spread",
            "The distribution by round",
            {
                "Largest weight": history["smoothness"],
                "Effective sample size": history["ess"],
                "Rows with weight": history["nonzero"],
                "Rows the learner saw": history["rows_used"],
            },
        ),
    ]
    return Section("distribution", heading, blocks)


def _spread_in_words(subject: Subject) -> str:
    last = subject.model.history_.records[subject.rounds - 1]
    words = (
        "Boosting shifts weight to the rows that are hard. In the last round of the model the heaviest "
        f"row weighed {number(last.smoothness, 3)} times its share, the effective sample size was "
        f"{percent(last.ess)} of the data, and {percent(last.nonzero)} of the rows had any weight."
    )
    cap = getattr(subject.model, "smoothness_", None)
    if cap is not None and np.isfinite(cap):
        words += f" No row may weigh more than {number(cap, 3)} times its share."
    return words


# ------------------------------------------------------------------------------------ data sources


def source_section(subject: Subject) -> Section | None:
    """Return the section on the error of each data source; None except for combined boosting."""
    groups = subject.model.certificate_.groups
    if not groups:
        return None
    words = (
        "Each source has its own limit. Up to its limit a source may stay wrong; a primary source has "
        "none and is held to the certified error. For a source with a largest share of the weight no error "
        "is certified."
    )
    blocks: list[Any] = [Paragraph(words), _source_table(subject)]
    errors = subject.model.history_.group_errors
    if errors and len(subject.model.history_):
        shown = dict(list(errors.items())[:_MOST_SOURCES])
        if len(shown) < len(errors):
            blocks.append(Note(f"By round the first {len(shown)} of {len(errors):,} are shown."))
        blocks.append(_source_chart(subject, shown))
        columns = {text(name): values for name, values in shown.items()}
        blocks.append(_round_table(subject, "by-source", "Error of each source by round", columns))
    return Section("sources", "Data sources", blocks)


def _source_table(subject: Subject) -> Table:
    heads = ("Share of the weight", "Limit", "Measured error", "Certified error")
    columns = [Column("Source"), *(Column(h, True) for h in heads), Column("Limit kept")]
    rows = []
    for name, group in subject.model.certificate_.groups.items():
        kept = "no limit" if group.limit is None else "yes"
        if group.limit is not None and group.measured_error > group.limit:
            kept = "not yet"
        limit = number_cell(group.limit, None if group.limit is None else percent(group.limit))
        if group.limit is None:
            limit = Cell("primary", "", "number")
        bound = number_cell(group.error_bound, f"≤ {at_most(group.error_bound)}")
        if group.mass is not None:
            limit = Cell(f"{percent(group.mass)} of the weight", "", "number")
            bound = Cell("none", "", "number")
        rows.append(
            [
                cell(name, "name"),
                number_cell(group.share, percent(group.share), 100.0 * group.share),
                limit,
                number_cell(group.measured_error, percent(group.measured_error)),
                bound,
                Cell(kept, kept, "flag" if kept == "not yet" else ""),
            ]
        )
    return Table("sources-table", "Data sources", columns, rows)


def _source_chart(subject: Subject, errors: dict[Any, Sequence[float]]) -> Any:
    groups = subject.model.certificate_.groups
    curves, marks = [], []
    for i, (name, values) in enumerate(errors.items()):
        color = i % _MOST_SOURCES + 1
        rounds = np.arange(1.0, len(values) + 1)
        dash = _DASHES[i % len(_DASHES)]
        curves.append(Curve(text(name, 40), rounds, np.asarray(values, float), color, dash))
        limit = groups[name].limit
        if limit is not None:
            marks.append(Mark(f"limit of {text(name, 40)}", limit, color=color))
    return error_chart(
        "chart-sources",
        "Measured error of each source by round",
        _in_words(curves, subject.rounds),
        curves,
        marks + _kept_mark(subject),
    )
