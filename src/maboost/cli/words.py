"""What the classifiers say of their parameters, in the words of the command line."""

from __future__ import annotations

import re

__all__ = ["in_options"]

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
    "smoothness": "--smoothness",
    "sparsity": "--sparsity",
    "validation_fraction": "--valid",
}
_NAMES = "|".join(OPTIONS)

# as scikit-learn tells it; what an option cannot be told to be, such as None, is left out
_WRONG_VALUE = re.compile(
    r"The '(\w+)' parameter of \w+ must be (.+?)"
    r"(?: or None| or a str among .*|, an instance of .*)?\. Got (.+) instead\."
)
_PHRASES = [
    (r"n_estimators=(\d+) rounds are done", r"all of --rounds \1 are done"),
    (r"early_stopping with validation_fraction=", "--valid "),
    (
        r"give X_val and y_val, or another fraction or grouping",
        "give --valid FILE, or another fraction",
    ),
    (r"data passed to `sample_weight`", "--weight-column"),
    (r"(?<!\w)sample_weight(?!\w)", "--weight-column"),
    (
        r"Sample weights must contain at least one non-zero number\.",
        "--weight-column is 0 in all rows: give some of them a positive weight",
    ),
    (r"error_limits names", "--domain-limit names"),
    (r"(?<!\w)sample_domain(?!\w)", "--domain-column"),
    (r"(?<!\w)flip_rates(?=,? (?:names|do not|leave|does not|has))", "--flip-rate"),
    (r"max_bins=(\d+)", r"\1"),
    (
        r" \(rare_categories_ lists them\): (.*), or leave out a column that identifies rows",
        r" ('maboost inspect' lists them): \1, or --drop a column that identifies rows",
    ),
    (
        r"Turn names such as ids into text, or drop the column; subtract",
        "Take ids as categories by --categorical, or leave them out by --drop; subtract",
    ),
    (r"(?<!\S)resume=True", "--resume"),
    (r"(?<!\S)resume=False", "--no-resume"),
]
_NAMED = re.compile(rf"(?<![\w-])({_NAMES})(?:=| (?=was ))")


def in_options(message: str) -> str:
    """An error of a classifier in the words of the command line.

    >>> in_options("n_estimators=5 is less than the 9 rounds of checkpoint='run.ckpt'")
    "--rounds 5 is less than the 9 rounds of --checkpoint 'run.ckpt'"
    >>> in_options("The 'n_jobs' parameter of X must be an int or None. Got 0.5 instead.")
    '--jobs 0.5 must be a whole number'
    """
    wrong = _WRONG_VALUE.fullmatch(message)
    if wrong and wrong[1] in OPTIONS:
        what = wrong[2].replace("an int", "a whole number").replace("a float", "a number")
        return f"{OPTIONS[wrong[1]]} {wrong[3]} must be {what}"
    for pattern, words in _PHRASES:
        message = re.sub(pattern, words, message)
    return _NAMED.sub(lambda found: f"{OPTIONS[found[1]]} ", message)
