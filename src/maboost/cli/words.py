"""Error messages of the classifiers, with the names of the options of the command line."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import Interval, make_constraint

from maboost.data.files import TableError
from maboost.runtime.parameter_errors import Advice, ParameterError, ParameterWarning, Setting

__all__ = ["check_values", "in_options"]

OPTIONS = {
    "booster": "--booster",
    "checkpoint": "--checkpoint",
    "checkpoint_every": "--checkpoint-every",
    "class_weight": "--class-weight",
    "error_limits": "--domain-limit",
    "flip_rates": "--flip-rate",
    "kappa": "--kappa",
    "learning_rate": "--learning-rate",
    "max_depth": "--max-depth",
    "max_leaf_nodes": "--max-leaf-nodes",
    "min_samples_leaf": "--min-samples-leaf",
    "n_estimators": "--rounds",
    "n_jobs": "--jobs",
    "noise_rate": "--noise-rate",
    "random_state": "--seed",
    "sample_domain": "--domain-column",
    "smoothness": "--smoothness",
    "sparsity": "--sparsity",
    "tolerance": "--tolerance",
    "validation_fraction": "--valid",
}
ADVICE = {
    "drop": "--drop",
    "early_stopping": "",
    "hold-out": "give --valid FILE, or another fraction",
    "large integers": "Take ids as categories by --categorical, or leave them out by --drop",
    "rare categories": "'maboost inspect' lists them",
    "sample_weight": "--weight-column",
}


def in_options(error: BaseException) -> str:
    """Return an error or a warning of a classifier, by the names of options.

    >>> in_options(ParameterError(Setting("n_estimators", 5), " is less than the 9 rounds done"))
    '--rounds 5 is less than the 9 rounds done'
    """
    if isinstance(error, ParameterError | ParameterWarning):
        return error.message.with_names(_option)
    return str(error)


def _option(part: Setting | Advice) -> str:
    if isinstance(part, Advice):
        return ADVICE.get(part.name, part.text)
    if part.name == "resume":
        return "--resume" if part.value else "--no-resume"
    if part.name == "max_bins":  # no option sets it
        return str(part.value)
    option = OPTIONS.get(part.name)
    if option is None:
        return str(part)
    if part.has_key:
        return f"{option} {part.key}={part.value!r}"
    return f"{option} {part.value!r}" if part.has_value else option


def check_values(model: Any) -> None:
    """Refuse values that the parameters of a classifier cannot have, by their options.

    >>> from maboost import SmoothBoostClassifier
    >>> try:
    ...     check_values(SmoothBoostClassifier(n_estimators=0))
    ... except TableError as error:
    ...     print(error)
    --rounds 0 must be a whole number in the range [1, inf)
    """
    for name, value in model.get_params(deep=False).items():
        constraints = model._parameter_constraints[name]
        ranges = [c for c in constraints if isinstance(c, Interval)]
        allowed = any(make_constraint(c).is_satisfied_by(value) for c in constraints)
        if ranges and not allowed:
            what = str(ranges[0]).replace("an int", "a whole number").replace("a float", "a number")
            raise TableError(f"{OPTIONS[name]} {value!r} must be {what}")
