"""The classifier for the options of ``maboost train``."""

from __future__ import annotations

from typing import Any

from maboost.cli import checkpoint_options
from maboost.cli.console import is_number
from maboost.cli.words import check_values
from maboost.data.files import TableError
from maboost.estimators import BOOSTERS

__all__ = ["booster", "booster_name"]

_LARGEST_SEED = 2**32 - 1

OWNERS = {
    "noise_rate": ("smooth",),
    "smoothness": ("smooth", "margin"),
    "tolerance": ("margin",),
    "kappa": ("sparse",),
    "sparsity": ("sparse",),
}

# parameters of every booster, and the options that set them; without an option the booster's default holds
_AS_THEY_ARE = {
    "n_estimators": "rounds",
    "learning_rate": "learning_rate",
    "max_depth": "max_depth",
    "max_leaf_nodes": "max_leaf_nodes",
    "min_samples_leaf": "min_samples_leaf",
}


def booster(options: dict[str, Any]) -> Any:
    """Return the classifier; refuse invalid options before any row is read."""
    name = booster_name(options)
    params: dict[str, Any] = {
        "random_state": options["seed"],
        "n_jobs": options["jobs"],
        "verbose": 0,
        **checkpoint_options.parameters(options),
        **_own(name, options),
    }
    given = {name: options[option] for name, option in _AS_THEY_ARE.items()}
    params |= {name: value for name, value in given.items() if value is not None}
    if name == "margin" and "learning_rate" in params:
        raise TableError(
            "--learning-rate is a factor on steps, and --booster margin has none: it finds all votes anew in "
            "every round"
        )
    valid = options["valid"]
    if valid is not None:
        params["early_stopping"] = not is_number(valid) or float(valid) != 0.0
        if is_number(valid) and params["early_stopping"]:
            params["validation_fraction"] = float(valid)
    if options["jobs"] == 0:
        raise TableError(
            "--jobs 0 is not a number of threads: leave it out for all cores, or give 1 or more"
        )
    if not 0 <= options["seed"] <= _LARGEST_SEED:
        raise TableError(
            f"--seed {options['seed']} must be a whole number in the range [0, {_LARGEST_SEED}]"
        )
    made = BOOSTERS[name](**params)
    check_values(made)
    return made


def booster_name(options: dict[str, Any]) -> str:
    """Return the key in BOOSTERS for the options."""
    return options["booster"] or ("smooth" if options["domain_column"] is None else "combined")


def _own(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that only one booster has."""
    own = {option: options[option] for option in OWNERS if options[option] is not None}
    for option in own:
        if name not in OWNERS[option]:
            flag, owners = option.replace("_", "-"), " or ".join(OWNERS[option])
            raise TableError(f"--{flag} is for --booster {owners}, not for {name}")
    if {"noise_rate", "smoothness"} <= set(own):
        raise TableError("give --smoothness or --noise-rate, not both")
    if name == "combined":
        limits = _limits(options)
        return own | {"error_limits": None if options["flip_rates"] and not limits else limits}
    if options["domain_column"] is not None or options["limits"]:
        raise TableError(
            f"--domain-column and --domain-limit are for --booster combined, not for {name}"
        )
    return own


def _limits(options: dict[str, Any]) -> dict[str, float | None]:
    """Return the error allowed on every source, from --domain-limit."""
    if options["domain_column"] is None:
        raise TableError("--booster combined needs --domain-column")
    limits: dict[str, float | None] = {}
    for text in options["limits"]:
        name, _, value = text.rpartition("=")
        none = value.lower() == "none"
        if not name or not (none or is_number(value)):
            raise TableError(f"--domain-limit {text!r} is not NAME=LIMIT with a number or none")
        if not none and not 0.0 < float(value) < 1.0:
            raise TableError(
                f"--domain-limit {text!r} must be in (0, 1), or none for a source that must be right"
            )
        if name in limits:
            raise TableError(
                f"--domain-limit {text!r} is a second limit of source {name!r}: give one"
            )
        limits[name] = None if none else float(value)
    return limits
