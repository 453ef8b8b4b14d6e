"""The summary of the report: a few sentences and four numbers."""

from __future__ import annotations

import math

from maboost.boosting.certificate import Certificate
from maboost.certification import Certification
from maboost.report.blocks import Paragraph, Tile
from maboost.report.formats import at_most, count, listed, percent, text
from maboost.report.subject import Subject

__all__ = ["lead", "paragraphs", "promised", "tiles", "title"]


def title(subject: Subject) -> str:
    """Return the heading: the given one, or the booster and its data."""
    if subject.title:
        return subject.title
    name = type(subject.model).__name__.removesuffix("Classifier")
    return f"{name} on {text(subject.source, 80)}" if subject.source else f"{name} report"


def lead(subject: Subject) -> str:
    """Return the kind of model, in half a line."""
    parts = [type(subject.model).__name__, count(subject.rounds, "round")]
    if subject.source and subject.title:
        parts.append(text(subject.source))
    if subject.date:
        parts.append(text(subject.date))
    return " · ".join(parts)


def tiles(subject: Subject) -> list[Tile]:
    """Return the key figures."""
    return [_unseen_tile(subject), _training_tile(subject), _label_tile(subject)]


def _training_tile(subject: Subject) -> Tile:
    if not measured(subject):
        return Tile("Training error", "none", "the model has no rounds")
    error = subject.model.certificate_.measured_error
    if math.isnan(error):
        return Tile("Training error", "none", "not measured")
    where = "a sample of the stream" if streamed(subject) else "the training rows"
    return Tile("Training error", percent(error), f"measured on {where}")


def _unseen_tile(subject: Subject) -> Tile:
    found = subject.certification
    if found is not None:
        note = f"with {100.0 * found.confidence:.6g}% confidence, from {count(found.rows, 'fresh row')}"
        tone = "alert" if found.limits_violated else ""
        return Tile("Error on fresh rows", found.overall.interval, note, tone)
    error = validation_error(subject)
    if error is not None:
        return Tile("Validation error", percent(error), "rows held out of the training")
    return Tile("Error on new rows", "unknown", "no test or validation rows were given")


def _label_tile(subject: Subject) -> Tile:
    if subject.suspects is None:
        return Tile("Labels that look wrong", "unknown", "no evidence; see Suspect labels")
    found, total = int(subject.suspects["is_label_issue"].sum()), len(subject.suspects)
    note = f"of {total:,}, or {percent(found / total)}"
    return Tile("Labels that look wrong", f"{found:,}", note, "alert" if found else "")


def measured(subject: Subject) -> bool:
    """Return whether there is a training error: without rounds only a single class has one."""
    return subject.rounds > 0 or len(subject.classes) == 1


def streamed(subject: Subject) -> bool:
    """Return whether the model was fitted on a stream, so that its certificate is statistical."""
    return math.isnan(subject.model.certificate_.soft_margin)


def validation_error(subject: Subject) -> float | None:
    """Return the error on the validation rows after the rounds that are kept."""
    if not subject.rounds:
        return None
    error = float(subject.model.history_["val_error"][subject.rounds - 1])
    return None if error != error else error


def paragraphs(subject: Subject) -> list[Paragraph]:
    """Return the paragraphs of the summary."""
    sentences = [_on_new_rows(subject), _trained(subject), _measured(subject), _labels(subject)]
    return [Paragraph(sentence) for sentence in sentences if sentence]


def _trained(subject: Subject) -> str:
    model, classes = subject.model, subject.classes
    rows = _rows(subject)
    features = count(int(model.n_features_in_), "feature")
    data = f"{rows} with {features}" if rows else f"rows with {features}"
    origin = f" from {text(subject.source)}" if subject.source else ""
    if len(classes) == 1:
        return (
            f"The training data are {data}{origin}. Every label is {text(classes[0])}, so that the "
            "model always answers that and there was nothing to learn."
        )
    purpose = f"to tell {count(len(classes), 'class', 'classes')} apart: {listed(classes)}"
    if not subject.rounds:
        answer = text(classes[model.ensemble_.heaviest])
        return (
            f"A `{type(model).__name__}` was trained on {data}{origin} {purpose}. No rule was found that "
            f"beats chance, so that the model always answers {answer}, the heaviest class "
            f"({text(model.certificate_.stopped)})."
        )
    return (
        f"A `{type(model).__name__}` of {count(subject.rounds, 'round')} was trained on "
        f"{data}{origin}, {purpose}. It stopped for this reason: {text(model.certificate_.stopped)}."
    )


def _rows(subject: Subject) -> str:
    """Return the number of training rows, and how many of them were held out for validation."""
    given = None if subject.training is None else len(subject.training.y)
    if subject.trained is None:
        return count(given, "row") if given is not None else ""
    used = len(subject.trained)
    total = len(subject.model.distribution_)
    if used == total:
        return count(used, "row")
    return f"{count(used, 'row')} (of {total:,}; the others were held out or have no weight)"


def _measured(subject: Subject) -> str:
    if not measured(subject):
        return "Nothing was measured on the training rows: the model has no rounds."
    error = subject.model.certificate_.measured_error
    if math.isnan(error):
        return ""
    where = "a sample of the stream" if streamed(subject) else "the training rows"
    return f"On {where} the measured error is {percent(error)}."


def promised(subject: Subject) -> str:
    """Return the meaning of the certificate of the training error, in words."""
    if not measured(subject):
        return "Nothing was measured and nothing is certified."
    certificate = subject.model.certificate_
    if streamed(subject):
        return _promised_of_stream(certificate)
    known = f"On the training rows the measured error is {percent(certificate.measured_error)}. "
    if len(subject.classes) == 1:
        return f"{known}With one class no answer can be wrong."
    if certificate.error_bound >= 1.0:
        return f"{known}Nothing is certified yet: more rounds would be needed."
    bound = at_most(certificate.error_bound)
    meaning = (
        f"Certified is at most {bound}: this is proved from the progress of the rounds, without "
        "counting a single mistake, and the count agrees with it. "
    )
    floor = certificate.floor
    if floor > 0.0 and certificate.error_bound <= floor * (1.0 + 1e-9):
        meaning += "That is the least this booster can certify with its limit on the weights. "
    about = "Both numbers are about these rows and weights, not about new rows."
    if certificate.given_labels:
        about = (
            "Both numbers are about the weighted error on the given labels of these rows, not about new rows. "
            "The error on the true labels of these rows is at most the error on given labels plus the share of "
            "wrong labels."
        )
    return f"{known}{meaning}{about}"


def _promised_of_stream(certificate: Certificate) -> str:
    error, bound = certificate.measured_error, certificate.error_bound
    known = (
        ""
        if math.isnan(error)
        else f"On a sample of the stream the measured error is {percent(error)}. "
    )
    if bound >= 1.0:
        return f"{known}Nothing is certified yet: more rounds would be needed."
    return (
        f"{known}Certified is at most {at_most(bound)} on the distribution behind the stream, with the "
        "confidence that was asked for and if its rows are drawn independently."
    )


def _on_new_rows(subject: Subject) -> str:
    parts = []
    error = validation_error(subject)
    if error is not None:
        chosen = (
            ", but the number of rounds was chosen on them, so that this is a little too good"
            if subject.model.early_stopping_
            else ""
        )
        parts.append(
            f"On the validation rows, which were not trained on, the error is {percent(error)}{chosen}."
        )
    if subject.certification is not None:
        parts = [subject.certification.headline, _verdicts(subject.certification), *parts]
    if not parts:
        return "How the model does on new rows is not known: no test rows were given."
    return " ".join(part for part in parts if part)


def _verdicts(found: Certification) -> str:
    """Return how many limits are met, violated and open."""
    statuses = [error.status for error in found.errors if error.status is not None]
    if not statuses:
        return ""
    parts = [f"{statuses.count(s)} {s}" for s in ("met", "violated", "open") if s in statuses]
    return f"Of {count(len(statuses), 'limit')}: {', '.join(parts)}."


def _labels(subject: Subject) -> str:
    if subject.suspects is None:
        return subject.why_no_suspects
    if "summary" in subject.suspects.attrs:
        return (
            f"{subject.suspects.attrs['summary']} Have a person check the most suspicious first; an unusual row with "
            "a right label looks the same."
        )
    found, total = int(subject.suspects["is_label_issue"].sum()), len(subject.suspects)
    if not found:
        return f"None of the {total:,} training labels looks wrong."
    verb = "looks" if found == 1 else "look"
    return (
        f"{found:,} of the {total:,} training labels {verb} wrong ({percent(found / total)}): the "
        "rounds together kept voting against them. Have a person check these first; an unusual row "
        "with a right label looks the same."
    )
