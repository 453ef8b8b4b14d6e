"""The history and the certificate of a run in a model file."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.certificate import Certificate, ErrorBound, GroupBound
from maboost.boosting.history import History, Record
from maboost.io.container import shortened
from maboost.io.fields import Fields, Tensors, encoded_number, require
from maboost.io.values import Decoder, Encoder, label, read_label

__all__ = ["certificate", "history", "read_certificate", "read_history"]

MAX_ROUNDS = 1 << 19  # a round needs far more memory than its bytes
_RECORD, _ERROR = 700, 32  # bytes of memory for a round, and for an error of a group
_WHOLE = ("round", "rows_used", "bytes_read")
_FINITE = ("edge", "step", "gain", "penalty")
_MOST = 1e100  # the largest value of these, so that sums do not overflow
_NUMBERS = (
    "gain", "error_bound", "measured_error", "margin_bound", "soft_margin", "min_margin",
    "best_margin_bound", "floor", "last_gain", "penalty", "last_penalty",
)  # fmt: skip


# ------------------------------------------------------------------------------------------- history


def history(its: History) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return the history as fields and arrays."""
    rounds, names = len(its), list(its.group_errors)
    table = np.array(
        [[float(getattr(r, c)) for c in its.columns] for r in its.records], dtype=np.float64
    )
    errors = np.array([its.group_errors[g] for g in names], dtype=np.float64)
    written = {
        "columns": list(its.columns),
        "groups": [label(g, "a data source") for g in names],
    }
    return written, {
        "history": table.reshape(rounds, len(its.columns)),
        "group_errors": errors.reshape(len(names), rounds),
    }


def read_history(written: Fields, arrays: Tensors) -> History:
    """Return the history; columns missing in a file take the defaults of `Record`."""
    columns = written.items("columns")
    names = [read_label(g, "a data source") for g in written.items("groups")]
    written.finish()
    known = {f.name for f in fields(Record)}
    needed = {f.name for f in fields(Record) if f.default is MISSING}
    require(
        all(isinstance(c, str) for c in columns) and len(set(columns)) == len(columns),
        "history.columns must be distinct names",
    )
    require(
        needed <= set(columns) <= known,
        f"history.columns are not those of this version: {shortened(columns)}",
    )
    require(len(set(names)) == len(names), "history.groups must be distinct")
    table = arrays.take("history", np.float64, (None, len(columns)))
    require(len(table) <= MAX_ROUNDS, f"history has more than {MAX_ROUNDS:,} rounds")
    errors = arrays.take("group_errors", np.float64, (len(names), len(table)))
    arrays.spend(_RECORD * len(table) + _ERROR * errors.size, "the history")
    by_name: dict[str, list[Any]] = {}
    for name, column in zip(columns, table.T, strict=True):
        by_name[name] = _column(name, column)
    records = [
        Record(**dict(zip(columns, row, strict=True)))
        for row in zip(*by_name.values(), strict=True)
    ]
    return History(records, dict(zip(names, errors.tolist(), strict=True)))


def _column(name: str, values: NDArray[np.float64]) -> list[Any]:
    if name in _FINITE:
        require(np.all(np.abs(values) <= _MOST), f"history: {name} must be finite")
    if name == "step":
        require(np.all(values >= 0.0), "history: step must not be negative")
    if name not in _WHOLE:
        return list(values.tolist())
    whole = np.all((values >= 0.0) & (values < 2.0**53) & (np.floor(values) == values))
    require(whole, f"history: {name} must hold whole numbers")
    if name == "round":
        rises = np.array_equal(values, np.arange(1.0, len(values) + 1.0))
        require(rises, "history: round must count from 1")
    return list(values.astype(np.int64).tolist())


# --------------------------------------------------------------------------------------- certificate


def certificate(its: Certificate, encoder: Encoder) -> dict[str, Any]:
    """Return the certificate as fields."""
    written: dict[str, Any] = {
        "regularizer": its.regularizer,
        "domain": its.domain,
        "update": its.update,
        "stopped": its.stopped,
        "exact": bool(its.exact),
        "given_labels": bool(its.given_labels),
        "rounds": int(its.rounds),
        "inert_rows": int(its.inert_rows),
        "n_classes": int(its.n_classes),
    }
    written |= {name: encoded_number(getattr(its, name)) for name in _NUMBERS}
    written["groups"] = [_group(name, group) for name, group in its.groups.items()]
    written["bound"] = None if its.bound is None else _bound(its.bound, encoder)
    return written


def _group(name: Any, its: GroupBound) -> dict[str, Any]:
    return {
        "name": label(name, "a data source"),
        "share": float(its.share),
        "limit": None if its.limit is None else float(its.limit),
        "error_bound": float(its.error_bound),
        "measured_error": float(its.measured_error),
        **({} if its.mass is None else {"mass": float(its.mass)}),
    }


def _bound(its: ErrorBound, encoder: Encoder) -> dict[str, Any]:
    with_sources = {"uncertified": float(its.uncertified), "start": float(its.start)}
    of_ball = {} if math.isinf(its.radius) else {"radius": float(its.radius)}
    return (
        (with_sources if its.uncertified or its.start else {})
        | of_ball
        | {
            "regularizer": encoder.value(its.regularizer, "regularizer"),
            "potential": float(its.potential),
            "width": int(its.width),
            "floor": float(its.floor),
            "squares": bool(its.squares),
        }
    )


def read_certificate(written: Fields, n_classes: int, decoder: Decoder) -> Certificate:
    """Return the certificate."""
    groups: dict[Any, GroupBound] = {}
    for entry in written.items("groups"):
        name, group = _read_group(Fields(entry, "certificate.groups"))
        require(name not in groups, "certificate.groups must be distinct")
        groups[name] = group
    numbers = {name: written.number(name) for name in _NUMBERS}
    streamed = math.isnan(
        numbers["soft_margin"]
    )  # of a stream: the error bound comes from rates, not from gains
    bound = _read_bound(written.take("bound"), n_classes, streamed, decoder)
    read = Certificate(
        regularizer=written.text("regularizer"),
        domain=written.text("domain"),
        update=written.text("update"),
        stopped=written.text("stopped"),
        exact=written.flag("exact"),
        rounds=written.integer("rounds", 0),
        inert_rows=written.integer("inert_rows", 0),
        n_classes=written.integer("n_classes", n_classes, n_classes),
        groups=groups,
        bound=bound,
        given_labels=written.flag("given_labels"),
        **numbers,
    )
    written.finish()
    return read


def _read_group(written: Fields) -> tuple[Any, GroupBound]:
    name = read_label(written.take("name"), "certificate.groups.name")
    share = written.number("share", 1e-300, 2.0)
    limit = written.take("limit")
    good = limit is None or (isinstance(limit, float) and 0.0 < limit < 1.0)
    require(good, "certificate.groups.limit must be null or in (0, 1)")
    group = GroupBound(
        share, limit, written.number("error_bound", 0, 1), written.number("measured_error", 0, 2),
        written.number("mass", 0, 1) if written.has("mass") else None,
    )  # fmt: skip
    written.finish()
    return name, group


def _read_bound(
    written: Any, n_classes: int, streamed: bool, decoder: Decoder
) -> ErrorBound | None:
    require(
        (written is None) == (n_classes == 1 or streamed),
        "certificate.bound must be there, but for one class or rows of a stream",
    )
    if written is None:
        return None
    found = Fields(written, "certificate.bound")
    regularizer = decoder.value(found.take("regularizer"), "certificate.bound.regularizer")
    require(
        callable(getattr(regularizer, "error_level", None)),
        "certificate.bound.regularizer must be a regularizer",
    )
    width = found.integer("width", n_classes - 1, n_classes - 1)
    potential = found.number("potential", 0, 2)
    floor, squares = found.number("floor", 0, 1), found.flag("squares")
    require(potential == 2.0 or not squares, "certificate.bound.potential must be 2 for squares")
    uncertified, start = 0.0, 0.0
    if found.has("uncertified"):
        uncertified = found.number("uncertified", 0, 1)
        start = found.number("start", 0, math.inf)
    radius = found.number("radius", 0, math.inf) if found.has("radius") else math.inf
    require(radius > 0.0, "certificate.bound.radius must be positive")
    bound = ErrorBound(regularizer, potential, width, floor, squares, uncertified, start, radius)
    found.finish()
    return bound
