"""The sections on the data, the features, the certificate and reproduction."""

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
    Preformatted,
    Section,
    Table,
    cell,
    number_cell,
)
from maboost.report.formats import MISSING, at_least, at_most, code, count, percent
from maboost.report.subject import LabelledRows, Subject
from maboost.report.summary import measured, promised, streamed

__all__ = [
    "certificate_section",
    "certification_section",
    "data_section",
    "importance_section",
    "parameter_section",
]

_MOST_CLASSES = 100
_MOST_RARE = 20  # features
_NO_ROUNDS = "The model has no rounds, so that there is nothing to show here."


# ----------------------------------------------------------------------------------- fresh rows


def certification_section(subject: Subject) -> Section | None:
    """Return the section on the bounds on fresh rows and the limits that are met."""
    found = subject.certification
    if found is None:
        return None
    limited = any(error.limit is not None for error in found.errors)
    columns = [Column("Rows of"), *(Column(h, True) for h in ("Fresh rows", "Estimate"))]
    columns += [Column("At least", True), Column("At most", True)]
    if limited:
        columns.append(Column("Limit"))
    rows = []
    for error in found.errors:
        row = [cell(error.title, "name"), number_cell(error.rows)]
        row.append(number_cell(error.estimate, error.measured))
        row.append(number_cell(error.lower, at_least(error.lower)))
        row.append(number_cell(error.upper, at_most(error.upper)))
        rows.append([*row, cell(error.verdict)] if limited else row)
    table = Table("fresh-table", "Certified error on fresh rows", columns, rows)
    notes = [Paragraph(note) for note in found.notes]
    return Section("fresh", "Error on fresh rows", [Paragraph(found.headline), table, *notes])


# ---------------------------------------------------------------------------------------- the data


def data_section(subject: Subject) -> Section:
    """Return the section on rows, features, classes and missing values."""
    blocks: list[Any] = [_class_table(subject)]
    if subject.training is None:
        reason = "What the columns hold is left out: it needs the training rows. Pass `X` and `y` to `write_report`."
        return Section("data", "Data", [*blocks, Note(reason)])
    return Section("data", "Data", [*blocks, *_columns(subject, subject.training)])


def _class_table(subject: Subject) -> Any:
    counts = _class_counts(subject)
    if counts is None:
        reason = "How many rows each class has is not known to this model: pass `X` and `y` to `write_report`."
        labels = subject.classes
        rows = [[cell(label, "name")] for label in labels[:_MOST_CLASSES]]
        table = Table("classes", _classes_caption(labels), [Column("Class")], rows)
        return Details(f"The {count(len(labels), 'class', 'classes')}", [table, Note(reason)])
    columns = [Column("Class"), Column("Rows", True), Column("Share of the rows", True)]
    shares = _class_weights(subject)
    if shares is not None:
        columns.append(Column("Share of the weight", True))
    total, rows = sum(counts), []
    for i, label in enumerate(subject.classes[:_MOST_CLASSES]):
        share = counts[i] / total
        row = [cell(label, "name"), number_cell(counts[i])]
        row.append(number_cell(share, percent(share), 100.0 * share))
        if shares is not None:
            row.append(number_cell(shares[i], percent(shares[i]), 100.0 * shares[i]))
        rows.append(row)
    return Table("classes", _classes_caption(subject.classes), columns, rows)


def _classes_caption(classes: Sequence[Any]) -> str:
    if len(classes) <= _MOST_CLASSES:
        return "Classes"
    return f"Classes: the first {_MOST_CLASSES} of {len(classes):,}"


def _class_counts(subject: Subject) -> list[int] | None:
    """Return the rows of each class: of all given rows, or of the rows on which the model was trained."""
    if subject.training is not None:
        labels = subject.training.y
    elif subject.suspects is not None:
        labels = subject.suspects["given_label"].to_numpy()
    else:
        return None
    values, counts = np.unique(labels, return_counts=True)
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return [found.get(label, 0) for label in subject.classes]


def _class_weights(subject: Subject) -> list[float] | None:
    """Return the share of each class in the weight; None if all rows have the same weight."""
    if subject.training is None or not subject.training.weighted:
        return None
    y, weight = subject.training.y, subject.training.weight
    return [float(weight[y == label].sum() / weight.sum()) for label in subject.model.classes_]


def _columns(subject: Subject, training: LabelledRows) -> list[Any]:
    missing = training.rows.missing()
    total = int(missing.sum())
    held = int(np.sum(missing > 0))
    rows, features = training.rows.shape
    words = f"{count(rows, 'row')} and {count(features, 'feature')}. "
    words += (
        f"{count(total, 'value')} ({percent(total / (rows * features))}) "
        f"{'is' if total == 1 else 'are'} missing, in {count(held, 'feature')}."
        if total
        else "No value is missing."
    )
    shown = subject.features_shown
    rare = subject.model.rare_categories_
    if rare:
        its = [f"{len(held):,} of {code(name)}" for name, held in rare.items()]
        words += f" Rare categories share a bin: {', '.join(its[:_MOST_RARE])}"
        words += (
            f", and those of {len(its) - _MOST_RARE} more features." if its[_MOST_RARE:] else "."
        )
    left = features - len(shown)
    summary = "What the features hold"
    if left:
        order = "most important" if subject.importances is not None else "first"
        summary += f": the {len(shown)} {order} of {features:,}"
    return [Paragraph(words), Details(summary, [_column_table(subject, training, shown)])]


def _column_table(subject: Subject, training: LabelledRows, shown: Sequence[int]) -> Table:
    rows = []
    for j in shown:
        facts = training.rows.statistics(j)
        common = Cell(MISSING, "", "missing") if facts.commonest is None else cell(facts.commonest)
        rows.append(
            [
                cell(subject.names[j], "name"),
                number_cell(facts.missing),
                number_cell(facts.distinct),
                *(number_cell(v) for v in (facts.low, facts.middle, facts.high)),
                common,
            ]
        )
    heads = ("Missing", "Different values", "Smallest", "Median", "Largest")
    columns = [Column("Feature"), *(Column(h, True) for h in heads), Column("Most common")]
    return Table("columns", "Features", columns, rows)


# ---------------------------------------------------------------------------- features, certificate


def importance_section(subject: Subject) -> Section:
    """Return the section on the features that the model uses."""
    heading = "Feature importance"
    if not subject.rounds:
        return Section("importance", heading, [Note(_NO_ROUNDS)])
    if subject.importances is None:
        return Section("importance", heading, [Note(subject.why_no_importances)])
    shown, values = subject.features_shown, subject.importances
    top = float(values.max()) or 1.0
    rows = [
        [
            cell(subject.names[j], "name"),
            number_cell(
                float(values[j]), percent(float(values[j])), 100.0 * float(values[j]) / top
            ),
        ]
        for j in shown
    ]
    words = (
        "The share of the trees' gain that the splits on a feature brought. It says what the model "
        "used, not what causes the label."
    )
    if len(shown) < len(values):
        share = float(values[shown].sum() / (values.sum() or 1.0))
        words += f" Shown are {len(shown)} of {len(values):,} features with {percent(share)} of the gain."
    columns = [Column("Feature"), Column("Importance", True)]
    return Section(
        "importance",
        heading,
        [Paragraph(words), Table("importances", "Features by importance", columns, rows)],
    )


def certificate_section(subject: Subject) -> Section:
    """Return the section on the certificate of the training rows, and its purpose."""
    words = (
        "The certificate as the library prints it. It bounds the error on the distribution behind the "
        "stream, with the confidence that was asked for and if the rows are drawn independently."
        if streamed(subject)
        else "The certificate as the library prints it. It bounds the error on the training rows by the sum "
        "of the gains of the rounds, and the margin in the same way; it assumes nothing about where the "
        "rows come from, and says nothing about other rows."
    )
    purpose = (
        "It is for those who must show that training did what it promises, such as keeping to the limits of a "
        "data source; for decisions about new rows use the error on fresh rows."
    )
    blocks: list[Any] = [
        Paragraph(purpose),
        Paragraph(promised(subject)),
        Paragraph(words),
        Preformatted("Certificate", str(subject.model.certificate_)),
    ]
    if not measured(subject):
        blocks.append(
            Note("An error of 1 stands for “nothing was measured”: the model has no rounds.")
        )
    return Section("certificate", "Certificate of the training error", blocks)


# ------------------------------------------------------------------------------------ reproduction


def parameter_section(subject: Subject, versions: dict[str, str]) -> Section:
    """Return the section on everything that is needed to repeat the fit."""
    model = subject.model
    seed = model.random_state
    words = (
        "No seed was set (`random_state=None`): a fit with the same parameters may differ."
        if seed is None
        else f"The seed is {code(seed)} (`random_state`). The same rows, parameters and versions give "
        "the same model."
    )
    given = _key_values("parameters", "Parameters", "Parameter", _parameters(model))
    found = _key_values("fitted", "Found by the fit", "Attribute", _found(model))
    used = _key_values("versions", "Versions", "Software", versions)
    return Section(
        "reproduce",
        "Parameters and versions",
        [Paragraph(words), given, Beside([found, used], "tables")],
    )


def _parameters(model: Any) -> dict[str, str]:
    """Return all parameters, including those of the components and of the default estimator."""
    params = dict(model.get_params(deep=True))
    if params.get("estimator", ...) is None:
        tree = model._default_estimator()
        params["estimator"] = tree
        params |= {f"estimator__{name}": v for name, v in tree.get_params(deep=True).items()}
    shown = {name: code(params[name]) for name in sorted(params)}
    if model.get_params().get("estimator", ...) is None:
        shown["estimator"] = f"None: {shown['estimator']}"
    return shown


def _found(model: Any) -> dict[str, str]:
    """Return numbers that the fit found or chose."""
    numbers = {
        name: value
        for name, value in sorted(vars(model).items())
        if name.endswith("_") and not name.startswith("_") and np.isscalar(value)
    }
    return {name: code(value) for name, value in numbers.items()}


def _key_values(id: str, caption: str, head: str, values: dict[str, str]) -> Table:
    rows = [[cell(name, "name"), Cell(value, value, "code")] for name, value in values.items()]
    return Table(id, caption, [Column(head), Column("Value")], rows)
