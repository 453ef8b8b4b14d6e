"""The final summary of ``maboost train``."""

from __future__ import annotations

from typing import Any

import numpy as np

from maboost.certification import Certification
from maboost.cli.console import json_value, print_lines, print_table
from maboost.estimators.fitting import rounds_done
from maboost.report.formats import at_most

__all__ = ["print_summary", "summary"]

FILES = {
    "model": "out",
    "report": "report",
    "suspects": "suspects",
    "checkpoint": "checkpoint",
}  # and their options
_NOT_JUDGED = "without the {:,} held-out rows; --valid 0 judges all rows"


def summary(model: Any, options: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return the result for JSON: `facts` about the table, the certificate, and the files that were written."""
    c = model.certificate_
    found: dict[str, Any] = {
        "booster": type(model).__name__,
        **facts,
        "classes": [json_value(v) for v in model.classes_],
        "rounds": model.n_iter_,
        "stopped": c.stopped,
        "training_error": c.measured_error,
        "certified_error": c.error_bound,
        "certified_floor": c.floor,
        "training_rows": len(model._evidence.rows),
    }
    if options["suspects"] is not None or options["report"] is not None:  # both need a cross-fit
        suspects = model.suspect_labels()
        found["suspect_labels"] = int(suspects["is_label_issue"].sum())
        found["wrong_labels"] = suspects.attrs.get("summary")
    if hasattr(model, "smoothness_"):
        found["smoothness"] = model.smoothness_
    scores = model.history_["val_error"]
    if len(scores) and np.isfinite(scores).all():
        found["validation_error"] = float(scores[model.best_iteration_ - 1])
        found["validation_chose"] = bool(model.early_stopping_)
    if model.flip_rates_ is not None:
        found["flip_rates"] = _listed(model.flip_rates_)
    if c.groups:
        found["domains"] = {
            str(name): {
                "limit": g.limit,
                "certified_error": g.error_bound,
                "training_error": g.measured_error,
            }
            for name, g in c.groups.items()
        }
    for name, option in FILES.items():
        if options[option] is not None:
            found[name] = str(options[option])
    return found


def _listed(rates: Any) -> Any:
    """Return P(given | true) as nested lists, by source if rates are by source."""
    if isinstance(rates, dict):
        return {str(name): matrix.tolist() for name, matrix in rates.items()}
    return rates.tolist()


def print_summary(s: dict[str, Any], certification: Certification | None, done: int) -> None:
    """The summary for a person, after `done` rounds: the bounds on fresh rows first."""
    if certification is not None:
        print_lines(*str(certification).splitlines(), "")
    rows: list[tuple[str, str]] = []
    if "validation_error" in s:
        by = ", on the rows that chose the number of rounds" if s["validation_chose"] else ""
        rows.append(("validation error", f"{s['validation_error']:.2%}{by}"))
    stopped = s["stopped"].replace(rounds_done(done), f"all of --rounds {done} are done")
    rows.append(("rounds", f"{s['rounds']} ({stopped})"))
    if s["rounds"]:
        of = " (weighted, on given labels)" if "flip_rates" in s else ""
        rows.append(("training error", f"{s['training_error']:.2%}{of}"))
        floor = s["certified_floor"]
        below = f", nothing is promised below {at_most(floor)}" if floor else ""
        rows.append(("certified in training", f"at most {at_most(s['certified_error'])}{below}"))
    if "smoothness" in s:
        rows.append(("largest weight", f"{s['smoothness']:.3g} times a row's share"))
    for name, g in s.get("domains", {}).items():
        free = "no limit" if "flip_rates" in s else "must be right"
        limit = free if g["limit"] is None else f"limit {g['limit']:.2%}"
        rows.append(
            (
                f"source {name}",
                f"error {g['training_error']:.2%}, certified {at_most(g['certified_error'])} ({limit})",
            )
        )
    if s["rounds"] and "suspect_labels" in s:
        number = s["wrong_labels"] or f"{s['suspect_labels']} of {s['training_rows']}"
        rows.append(("suspect labels", number))
    if "suspects" in s and s["held_out_rows"]:
        s = s | {"suspects": f"{s['suspects']} ({_NOT_JUDGED.format(s['held_out_rows'])})"}
    if "model" not in s:
        s = s | {"model": "not kept: --out FILE writes it"}
    rows.extend((key, s[key]) for key in FILES if key in s)
    print_table(rows)
