"""The sections on single rows: their margins, and labels that look wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.report.blocks import (
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
from maboost.report.charts import Chart, Curve, Mark, step_chart
from maboost.report.formats import count, percent
from maboost.report.subject import LabelledRows, Subject

__all__ = ["margin_section", "suspect_section"]

Array = NDArray[np.float64]

_LEVELS = (-0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 0.75)


# ---------------------------------------------------------------------------------------- margins


def margin_section(subject: Subject) -> Section:
    """Return the section on margins."""
    return Section("margins", "Margins", _margin_blocks(subject))


def _margin_blocks(subject: Subject) -> list[Any]:
    if not subject.rounds:
        return [Note("The model has no rounds, so that no row has a margin.")]
    if subject.training is None:
        return [Note("Margins are left out: they need the training rows. Pass `X` and `y` to `write_report`.")]  # fmt: skip
    training, rows = subject.training, _margin_rows(subject, subject.training)
    unknown = sorted({*training.y[rows].tolist()} - {*subject.classes}, key=str)
    if unknown:
        return [Note(f"Margins are left out: y has classes the model does not know, such as {unknown[0]!r}.")]  # fmt: skip
    chosen = _chosen_rounds(subject.rounds) if subject.model.has_stages else [subject.rounds]
    X, y, weight = _picked(training, rows), training.y[rows], training.weight[rows]
    margins = [subject.model[:n].margins(X, y) for n in chosen]
    curves = [
        Curve(count(n, "round"), *_cumulative(m, weight), 11 - len(chosen) + i)
        for i, (n, m) in enumerate(zip(chosen, margins, strict=True))
    ]
    words = (
        "A row's margin is the share of the vote for its label less the largest share for another: 1 "
        "is a unanimous right vote, below 0 the vote is wrong. A curve's height at 0 is the error. "
        "What matters is the left end: fewer rows below 0, and the worst less far below."
    )
    return [
        Paragraph(words),
        *_disagreement(subject, _share(margins[-1], weight, 0.0)),
        _margin_chart(training, curves, margins[-1], weight),
        _margin_table(chosen, margins, weight),
    ]


def _margin_rows(subject: Subject, training: LabelledRows) -> NDArray[np.intp]:
    if subject.trained is not None:
        return subject.trained
    return np.flatnonzero(training.weight > 0.0)


def _picked(training: LabelledRows, rows: NDArray[np.intp]) -> Any:
    if len(rows) == len(training.y):
        return training.X
    from sklearn.utils import _safe_indexing

    return _safe_indexing(training.X, rows)


def _chosen_rounds(last: int) -> list[int]:
    """Return the first round, a tenth of all rounds, a third, and all."""
    return sorted({1, max(1, round(last / 10)), max(1, round(last / 3)), last})


def _cumulative(margins: Array, weight: Array) -> tuple[Array, Array]:
    """Return the corners of the step function: from (-1, 0) to (1, 1)."""
    values, place = np.unique(margins, return_inverse=True)
    mass = np.cumsum(np.bincount(place, weights=weight))
    heights = mass / mass[-1]
    return np.concatenate([[-1.0], values, [1.0]]), np.concatenate([[0.0], heights, [1.0]])


def _share(margins: Array, weight: Array, level: float) -> float:
    """Return the share of the weight at or below a margin."""
    return float(weight[margins <= level].sum() / weight.sum())


def _disagreement(subject: Subject, error: float) -> list[Note]:
    """Return a note if the rows or weights cannot be those of the fit."""
    fitted = subject.model.certificate_.measured_error
    if abs(error - fitted) < 1e-6:
        return []
    noise = subject.model._row_noise
    if noise is not None and noise.names is not None:
        return [
            Note(
                f"The error on the rows given is {percent(error)}, and was {percent(fitted)} at the fit, which "
                "weighed the rows by their sources: a report does not know the source of a row."
            )
        ]
    return [
        Note(
            f"On the rows given the error is {percent(error)}, at the fit it was {percent(fitted)}: "
            "these are other rows or other weights. Pass the rows of the fit and its `sample_weight` to "
            "`write_report`."
        )
    ]


def _margin_chart(
    training: LabelledRows, curves: list[Curve], margins: Array, weight: Array
) -> Chart:
    what = "weight" if training.weighted else "rows"
    said = [
        f"{percent(_share(margins, weight, level))} at or below {level:g}"
        for level in (0.0, 0.25, 0.5)
    ]
    return step_chart(
        "chart-margins",
        "Cumulative distribution of the margins",
        f"After {curves[-1].label}: {', '.join(said)}.",
        ("margin (below 0: the vote is wrong)", f"fraction of the {what} at or below"),
        curves,
        [Mark("", 0.0, upright=True)],
    )


def _margin_table(chosen: list[int], margins: list[Array], weight: Array) -> Details:
    columns = [
        Column("Margin at or below", True),
        *(Column(count(n, "round"), True) for n in chosen),
    ]
    rows = []
    for level in _LEVELS:
        shares = [_share(m, weight, level) for m in margins]
        rows.append([cell(level, "number"), *(number_cell(s, percent(s)) for s in shares)])
    table = Table("margins-table", "Share of the training rows by margin", columns, rows)
    return Details("The numbers", [table])


# --------------------------------------------------------------------------------------- suspects


def suspect_section(subject: Subject) -> Section:
    """Return the section on labels that look wrong."""
    heading = "Suspect labels"
    table = subject.suspects
    if table is None:
        return Section("suspects", heading, [Note(subject.why_no_suspects)])
    blocks: list[Any] = [Paragraph(_explained(subject))]
    if not subject.max_suspects:
        blocks.append(Note("The rows are left out, as asked: `model.suspect_labels()` has them."))
        return Section("suspects", heading, blocks)
    shown = _worst(table, subject.max_suspects)
    words = _how_many(table, shown)
    if subject.training is not None:
        words += " The values of the features are to the right: the table scrolls sideways."
    blocks.append(Paragraph(words))
    blocks.append(_suspect_table(subject, shown))
    if subject.training is None:
        blocks.append(
            Note("The values of the rows are left out: pass `X` and `y` to `write_report`.")
        )
    elif len(subject.features_shown) < len(subject.names):
        order = "most important" if subject.importances is not None else "first"
        blocks.append(
            Note(
                f"Of {len(subject.names):,} features the {len(subject.features_shown)} {order} are shown."
            )
        )
    return Section("suspects", heading, blocks)


def _explained(subject: Subject) -> str:
    if "summary" in subject.suspects.attrs:
        folds = subject.suspects.attrs["folds"]
        return (
            f"{subject.suspects.attrs['summary']} Every label was judged by a booster that was not fitted on it: "
            f"the rows were cross-fitted in {folds} parts. The quality of a label is low where it looks wrong, and a "
            "label is an issue if it is more probably wrong than right. The weight is the row's mean weight over the "
            "rounds; 1 is its own share. Rows are counted from 0."
        )
    run = len(subject.model.history_)
    kept = f" All {run} rounds that were run count, not only the {subject.rounds} of the model."
    return (
        "The quality of a label is how far the vote supported it, after the last round and on average "
        "over the rounds: 1 is full support, 0 none. A label is an issue if the rounds on average "
        "voted against it. The weight is how hard boosting pushed on the row; 1 is its own share. Rows "
        "are counted from 0."
    ) + (kept if subject.rounds < run else "")


def _worst(table: Any, most: int) -> Any:
    """Return all issues, then the rows of lowest quality, up to `most`; lowest quality first."""
    issue = table["is_label_issue"].to_numpy()
    order = np.concatenate([np.flatnonzero(issue), np.flatnonzero(~issue)])[:most]
    return table.iloc[np.sort(order)]


def _how_many(table: Any, shown: Any) -> str:
    found, here = int(table["is_label_issue"].sum()), int(shown["is_label_issue"].sum())
    issues = "all" if here == found else f"{here:,} of"
    which = f"{issues} {count(found, 'issue')}" if found else "no issue was found"
    words = f"{count(len(shown), 'row')} of {len(table):,} in this table ({which}), the lowest quality first."
    if len(shown) < len(table):
        words += " `model.suspect_labels()` has all of them; `max_suspects` of `write_report` sets how many are shown."
    return words


def _suspect_table(subject: Subject, shown: Any) -> Table:
    heads = [
        Column("Row", True),
        Column("Issue"),
        Column("Quality", True),
        Column("Given label"),
        Column("Vote"),
        Column("Weight", True),
    ]
    rows = [
        [
            cell(position, "name"),
            Cell("issue", "0", "flag") if issue else Cell("ok", "1"),
            number_cell(float(quality), f"{quality:.3f}", 100.0 * float(quality)),
            cell(given, "label"),
            cell(predicted, "label"),
            number_cell(float(weight), f"{weight:.3g}"),
        ]
        for position, issue, quality, _, given, _, predicted, weight in shown.itertuples()
    ]
    if subject.training is not None:
        positions = shown.index.tolist()
        for j in subject.features_shown:
            values = [cell(v) for v in subject.training.rows.values(j, positions)]
            heads.append(Column(subject.names[j], _numeric(values)))
            for row, value in zip(rows, values, strict=True):
                row.append(value)
    return Table(
        "suspect-table",
        "Training rows by the quality of their label",
        heads,
        rows,
        sortable=True,
        sorted_by=2,
        flag="Only issues",
        flags=shown["is_label_issue"].tolist(),
    )


def _numeric(values: list[Cell]) -> bool:
    return all(v.style in ("number", "missing") for v in values)
