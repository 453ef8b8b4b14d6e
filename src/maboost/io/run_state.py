"""The state of a run in a checkpoint: what changes from round to round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.certificate import Totals
from maboost.boosting.loop import Run
from maboost.boosting.row_sampling.policy import Sample
from maboost.boosting.votes import Votes
from maboost.io.container import Arrays
from maboost.io.fields import Fields, Tensors, encoded_number, require
from maboost.mirror.ascent import AscentState

__all__ = ["generator_state", "read_generator", "read_run_state", "run_state"]

_LARGEST = 1e100  # of any number: squares and sums of them stay numbers
_CLOSE = 1e-6  # by how much a density may differ from that of its dual point, and in mass
_SUMS = ("gain", "magnitude", "steps", "penalty")
_ROW_SUMS = {"push": "weight_sum", "trust": "margin_sum"}  # the names in a checkpoint
_KEYS = 624  # words of the Mersenne twister


def run_state(snapshot: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """What `Run.snapshot` gives, as fields and arrays."""
    state: AscentState = snapshot["state"]
    held: Sample = snapshot["held"]
    random, keys = generator_state(snapshot["random_state"])
    edge, ended = snapshot["last_edge"], snapshot["ended"]
    totals: Totals = snapshot["totals"]
    fields = {name: encoded_number(getattr(totals, name)) for name in _SUMS} | {
        "error": encoded_number(snapshot["error"]),
        "mass": encoded_number(state.mass),
        "potential": encoded_number(state.potential),
        "last_edge": None if edge is None else encoded_number(edge),
        "rounds": int(totals.rounds),
        "exact": bool(snapshot["exact"]),
        "ended": ended,
        "sample": {
            "size": encoded_number(held.size),
            "grain": encoded_number(held.row_measure),
            "draws": int(held.draws),
            "level": int(held.level),
        },
        "random": random,
    }
    arrays = {name: snapshot[of] for name, of in _ROW_SUMS.items()}
    arrays["votes"] = snapshot["votes"].reshape(-1)
    arrays |= {"theta": state.theta, "density": state.density, "random_keys": keys}
    arrays |= {"sample_rows": held.rows.astype(np.int64), "sample_lift": held.factors}
    if "validation_votes" in snapshot:
        arrays["validation_votes"] = snapshot["validation_votes"].reshape(-1)
    return fields, arrays


def read_run_state(fields: Fields, arrays: Tensors, run: Run) -> dict[str, Any]:
    """A snapshot that `run` can go on from."""
    entries, rows = run.measure.entries.size, run.measure.rows
    sums = {name: _finite(fields, name) for name in _SUMS}
    snapshot: dict[str, Any] = {"totals": Totals(fields.integer("rounds", 0), **sums)}
    snapshot["error"] = _finite(fields, "error")
    snapshot["exact"] = fields.flag("exact")
    snapshot["last_edge"] = _optional(fields, "last_edge")
    ended = fields.take("ended")
    require(ended is None or isinstance(ended, str), "run.ended must be text or null")
    snapshot["ended"] = ended
    mass, potential = _finite(fields, "mass"), _finite(fields, "potential")
    snapshot["random_state"] = read_generator(fields.object("random"), arrays)
    snapshot["held"] = _read_sample(fields.object("sample"), arrays, rows)
    fields.finish()
    for name, of in _ROW_SUMS.items():
        snapshot[of] = _finite_array(arrays, name, rows)
    snapshot["votes"] = _votes(arrays, "votes", run.votes)
    if run.validation is not None:
        snapshot["validation_votes"] = _votes(arrays, "validation_votes", run.validation_votes)
    density = _finite_array(arrays, "density", entries)
    require(np.all(density >= 0.0), "array 'density' must not be negative")
    theta = arrays.take("theta", np.float64, (entries,)).copy()
    require(not np.isnan(theta).any(), "array 'theta' must hold no NaN")
    snapshot["state"] = AscentState(theta, density, mass, potential)
    _check_state(snapshot["state"], run)
    return snapshot


def _check_state(state: AscentState, run: Run) -> None:
    """The density is that of the dual point, and has this mass: otherwise the next step may have no size."""
    ascent, theta, density = run.booster.ascent, state.theta, state.density
    least, most = theta == -math.inf, theta == math.inf
    ends = np.all(density[least] == 0.0) and np.all(density[most] >= ascent.regularizer.upper)
    finite = np.all(np.abs(theta[~(least | most)]) <= _LARGEST)
    require(ends and finite, "array 'theta' must be finite but where the density is at an end")
    mass = run.measure.integral(density)
    close = _CLOSE * max(1.0, mass)
    require(
        abs(mass - state.mass) <= close,
        f"run.mass is {state.mass:g}, and the mass of array 'density' is {mass:g}",
    )
    try:
        with np.errstate(all="ignore"):
            still = ascent.move(state, np.zeros_like(theta), 0.0, run.measure).state.density
            away = run.measure.integral(np.abs(still - density))
    except (ValueError, ArithmeticError):
        away = math.inf
    require(away <= close, "array 'density' is not the density of array 'theta'")


def _read_sample(fields: Fields, arrays: Tensors, rows: int) -> Sample:
    """The rows that a booster with a budget shows; an infinite size means that there are none."""
    size, grain = (fields.number(name, 0.0, math.inf) for name in ("size", "grain"))
    draws, level = fields.integer("draws", 0), fields.integer("level", 0, 52)
    fields.finish()
    held = arrays.take("sample_rows", np.int64, (None,)).astype(np.intp)
    lift = _finite_array(arrays, "sample_lift", len(held))
    within = not held.size or (held[0] >= 0 and held[-1] < rows)
    require(within and np.all(np.diff(held) > 0), "array 'sample_rows' must be rows, rising")
    require(np.all(lift >= 1.0), "array 'sample_lift' must be at least 1")
    require(size < math.inf or not held.size, "run.sample.size must be finite where there is one")
    return Sample(held, lift, size, draws, level, grain)


def _finite(fields: Fields, name: str) -> float:
    return fields.number(name, -_LARGEST, _LARGEST)


def _optional(fields: Fields, name: str) -> float | None:
    value = fields.take(name)
    return None if value is None else _finite(Fields({name: value}, "run"), name)


def _finite_array(arrays: Tensors, name: str, size: int) -> NDArray[np.float64]:
    array = arrays.take(name, np.float64, (size,)).copy()
    require(np.all(np.abs(array) <= _LARGEST), f"array {name!r} must be finite")
    return array


def _votes(arrays: Tensors, name: str, votes: Votes) -> NDArray[np.float64]:
    return _finite_array(arrays, name, votes.state.size).reshape(votes.state.shape)


def generator_state(state: Any) -> tuple[dict[str, Any], NDArray[np.uint32]]:
    """What a RandomState's `get_state` gives, as fields and an array; see :func:`read_generator`."""
    _, keys, position, has_gauss, gauss = state
    fields = {
        "position": int(position),
        "has_gauss": int(has_gauss),
        "gauss": encoded_number(gauss),
    }
    return fields, keys


def read_generator(
    fields: Fields, arrays: Tensors
) -> tuple[str, NDArray[np.uint32], int, int, float]:
    """The state of a RandomState."""
    keys = arrays.take("random_keys", np.uint32, (_KEYS,)).copy()
    position = fields.integer("position", 0, _KEYS)
    has_gauss, gauss = fields.integer("has_gauss", 0, 1), _finite(fields, "gauss")
    fields.finish()
    return "MT19937", keys, position, has_gauss, gauss
