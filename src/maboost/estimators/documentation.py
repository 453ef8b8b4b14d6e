"""Descriptions of the boosters' shared parameters and attributes, and their insertion into docstrings."""

from __future__ import annotations

import json
import re
from inspect import cleandoc, signature
from typing import TypeVar

__all__ = ["documented"]

C = TypeVar("C", bound=type)

# `{default}` stands for the default in the signature of the class
_SHARED = r"""
Parameters
----------
estimator : classifier or WeakLearner, default={default}
    Any scikit-learn classifier; one whose `fit` takes no `sample_weight` is served by seeded
    weighted resampling. Or a weak learner of your own (:class:`maboost.learners.WeakLearner`), whose
    hypotheses and certificates are then exactly as it declares. None means a histogram tree, a :class:`HistTreeClassifier` with the
    parameters below in which no leaf weighs less than a millionth of the distribution.
n_estimators : int or "auto", default={default}
    The largest number of rounds. "auto" is 300 with early stopping, and 100 without.
learning_rate : float in (0, 1], default={default}
    Factor on every step. Small steps gain less each, so that they need more rounds, and follow
    wrong labels less.
regularizer : {"entropy", "euclidean"} or Regularizer, default={default}
    The geometry.
update : {"active", "lazy"}, default={default}
    Whether a step departs from the projected distribution or from the unprojected dual point.
step : {"corrective", "paper", "maxmargin", "adaboostv"} or StepRule, default={default}
    The step of largest gain, the step of the proofs, the step of Theorem 2, or AdaBoostV's (entropy on the
    simplex only, see :class:`maboost.mirror.steps.AdaBoostV`).
max_depth, max_leaf_nodes, min_samples_leaf, max_features, max_bins, categorical_features, monotonic_cst, interaction_cst, max_features_per_tree
    Parameters of the booster's own trees, each "auto" by default, with the meaning they have in
    :class:`HistTreeClassifier`. Here "auto" is any depth, 15 leaves, and 20 rows a leaf (a fiftieth
    of the rows where there are fewer than 1,000). Giving only one of `max_depth` and
    `max_leaf_nodes` lifts the other limit. They cannot be given together with an `estimator`.
response : {"votes", "proba"}, default={default}
    Whether an estimator's `predict` or its `predict_proba` (2p - 1) is boosted. A
    `HistTreeClassifier` has its own `response`.
trim : float in [0, 1), "auto" or "certain", default={default}
    Mass of the lightest rows hidden from the estimator; "auto" is the certified rule, which keeps
    at least half of the edge and hides half of the rows or none. "certain" shows a sample in which
    denser rows are likelier, twice as large until the edge found on it is statistically certain,
    and all rows where an eighth of them is not enough
    (:class:`maboost.boosting.row_sampling.adaptive.Certain`): for rows that are many, or on disk. The edge is
    always measured on all rows.
max_samples : float in (0, 1] or None, default={default}
    The share of the rows that each round shows to the estimator, drawn anew by a hash of the rows' content, the number
    of the round and an integer `random_state`; None shows all. Rows of equal content are drawn together. Not with `trim`.
    The edge is always measured on all rows, so that certificates hold. `max_features_per_tree` draws columns.
early_stopping : bool or "auto", default={default}
    Stop when the validation score no longer rises, and keep the rounds up to the best. The
    validation rows are `X_val` where `fit` is given them, otherwise rows held out of X. "auto"
    stops early from 10,000 rows on (`min_samples_leaf` says how rows are counted), or where there
    is an `X_val`.
validation_fraction : float in (0, 1), default={default}
    Share of every class to hold out, chosen by a seeded hash of the rows' values: equal rows stay
    together, and neither order nor repetition changes the choice. With `groups` in `fit`, whole
    groups.
n_iter_no_change : int, default={default}
    Rounds without a rise of more than `tol` before stopping.
tol : float, default=1e-7
    The smallest rise that counts.
scoring : str or callable, default={default}
    The validation score: "neg_log_loss" (of probabilities scaled on the same rows), "accuracy", or any
    scikit-learn scorer.
target_error : float, optional
    Stop at this training error, measured or certified, whichever comes first.
max_seconds : float, optional
    Stop after this time, at the end of a round; binning the rows and finding a cap count too.
flip_rates : dict, float, matrix or None, default={default}
    The share of the rows of each *true* class whose label is another: ``{"fraud": 0.4}`` (classes not
    named: 0), 0.2 for all classes, or the matrix of P(given | true) in the order of `classes_`. With two
    classes given labels then have weights under which they stand for true ones; with more, votes stay on
    given labels and probabilities are corrected. Predictions, probabilities and scores are about
    **true** labels, `class_weight` holds costs of true classes (two classes only), and the certificate
    bounds the weighted error on the *given* labels of the training rows. See :mod:`maboost.noise`.
class_weight : dict, "balanced" or None, default={default}
    Factors on the base measure by class.
warm_start : bool, default={default}
    Let the next `fit` on the same rows go on from the last round of this one; the result has the
    same bits as one long fit.
checkpoint : path-like, optional
    A file for the state of the fit, written every `checkpoint_every` rounds and at the end: whole
    or not at all, so that a fit that is killed can go on. One file serves one fit at a time. Only
    for the library's own trees. `save` does not store this and the next two parameters.
checkpoint_every : int, default={default}
    Rounds between two writes.
resume : bool, default={default}
    Go on from the file at `checkpoint`, to the same bits as a fit that was never stopped; begin
    anew where there is none. Rows and parameters must be those of the checkpoint, but for
    `n_estimators` (the total), `checkpoint_every`, `n_jobs`, `device`, `verbose` and what stops a fit early:
    `max_seconds`, `target_error`, `n_iter_no_change` and `tol`. Without `resume` a file there is
    replaced.
random_state : int, RandomState or None, default={default}
    Seeds the estimators and the resampling.
n_jobs : int or None, default={default}
    Threads of the tree engine and of the distribution's updates; None means all cores. The model
    does not depend on it. Foreign estimators have their own.
device : {"cpu", "cuda", "auto"}, default={default}
    Where the booster's own trees grow: "cuda" is an NVIDIA GPU (needs the extra cuda), "auto" a GPU
    if there is one whose memory holds the rows, and the processor otherwise. The model is meant not to depend on it.
    Experimental: tested in a simulator of GPUs. `save` does not store it.
verbose : int, default={default}
    Shows phases and rounds on stderr: a progress bar on a terminal with rich installed; elsewhere a line for
    every phase and every `verbose`-th round.

Attributes
----------
classes_ : array of shape (n_classes,)
estimators_ : list of fitted estimators
estimator_weights_ : array
    The steps.
estimator_errors_ : array
    The weighted error of each estimator under its own distribution.
history_ : History
    One record a round: edge, step, gain, bound, errors, margins, distribution.
certificate_ : Certificate
    The proven bounds and the measured values.
distribution_ : array of shape (n_samples,)
    The distribution over the training rows after the last round that was run.
n_iter_ : int
    Rounds in the model.
best_iteration_ : int
    The round of the best validation score; `n_iter_` if there are no validation rows.
probability_scale_ : float
    The factor on the votes in `predict_proba`.
feature_importances_ : array of shape (n_features,)
rare_categories_ : dict
    By column the categories that share a bin; empty if no column has more than `max_bins`.
flip_rates_ : array of shape (n_classes, n_classes) or None
    The rates that were used, P(given | true).
n_inert_rows_ : int
    Training rows whose weight is zero or negligible; the fit leaves them out.
n_features_in_, feature_names_in_
    As in every scikit-learn estimator.

References
----------
Naghibi and Pfister (2014), "A boosting framework on grounds of online learning".
"""


def documented(cls: C) -> C:
    """Add the descriptions of shared parameters and attributes to the docstring of a class.

    The docstring of the class describes only its own parameters and attributes, and those that mean something
    else there. Parameters come in the order of the signature, own attributes after the shared ones.

    Examples
    --------
    >>> @documented
    ... class Booster:
    ...     '''Boost.'''
    ...
    ...     def __init__(self, *, checkpoint_every=5): ...
    >>> "checkpoint_every : int, default=5" in Booster.__doc__
    True
    """
    if cls.__doc__ is None:  # Python was started with -OO
        return cls
    own, shared = _sections(cls.__doc__), _sections(_SHARED)
    attributes = _entries(shared["Attributes"]) | _entries(own.get("Attributes", ""))
    described = {
        "Parameters": _of_signature(
            cls, _entries(own.get("Parameters", "")), _entries(shared["Parameters"])
        ),
        "Attributes": "".join(dict.fromkeys(attributes.values())),
    }
    sections = {"": own[""]} | shared | own | described
    cls.__doc__ = "\n\n".join(
        f"{name}\n{'-' * len(name)}\n{text.strip()}" if name else text.strip()
        for name, text in sections.items()
    )
    return cls


def _of_signature(cls: type, own: dict[str, str], shared: dict[str, str]) -> str:
    """Return the entries of all parameters of a class, in the order of its signature."""
    parameters, entries = signature(cls).parameters, shared | own
    missing = [name for name in parameters if name not in entries]
    unknown = [name for name in own if name not in parameters]
    if missing or unknown:
        raise TypeError(
            f"the docstring of {cls.__name__} must describe {missing!r}, which no shared text describes, and "
            f"must not describe {unknown!r}, which are no parameters"
        )
    found: dict[str, str] = {}
    for name, parameter in parameters.items():
        text = entries[name]  # several parameters may share one entry, which stands at the first
        found.setdefault(text, text.replace("{default}", _shown(parameter.default)))
    return "".join(found.values())


def _shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by their headings; the text before them has none."""
    first, *rest = re.split(r"^(\w[\w ]*)\n-{3,}\n", cleandoc(text), flags=re.MULTILINE)
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by each of the names that they describe."""
    entries = re.split(r"^(?=\S)", section.strip(), flags=re.MULTILINE)
    heads = {entry.rstrip() + "\n": entry.splitlines()[0] for entry in entries if entry}
    return {
        name: entry for entry, head in heads.items() for name in head.split(" : ")[0].split(", ")
    }
