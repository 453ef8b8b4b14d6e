"""The versions of the model file, and upgrades from older versions.

Version 1 had neither a scale of the probabilities nor the errors of data sources. Version 2 had only one kind of
potential that bounds the error. Version 3 had no categories that share a bin, no parameters of trees on the
boosters, no flip rates, and no penalty of SparseBoost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maboost.io.container import Arrays
from maboost.io.fields import Fields, require

__all__ = ["FORMAT", "SCHEMA", "upgraded"]

FORMAT = "maboost model"
SCHEMA = 4

Parts = tuple[Arrays, dict[str, Any]]


def upgraded(arrays: Arrays, document: dict[str, Any]) -> Parts:
    """Return the parts of a file in the form of the current version."""
    require(
        document.get("format") == FORMAT,
        f"is not a maboost model file: its format is not {FORMAT!r}",
    )
    schema = Fields(document, "the document").integer("schema", 0)
    supported = [*sorted(_UPGRADES), SCHEMA]
    require(
        schema in supported,
        f"has schema version {schema}; this version of maboost reads "
        f"{', '.join(map(str, supported))}" + (": install a newer one" if schema > SCHEMA else ""),
    )
    while schema < SCHEMA:
        arrays, document = _UPGRADES[schema](arrays, document)
        schema += 1
    return arrays, document | {"schema": SCHEMA}


def _from_1(arrays: Arrays, document: dict[str, Any]) -> Parts:
    """Upgrade from version 1: probabilities had the scale 2, and there were no errors by source."""
    require("probability_scale" not in document, "schema 1 has no field 'probability_scale'")
    require("group_errors" not in arrays, "schema 1 has no array 'group_errors'")
    history = document.get("history")
    require(isinstance(history, dict), "the document has no object 'history'")
    require("history" in arrays, "array 'history' is missing")
    rounds = len(arrays["history"]) if arrays["history"].ndim else 0
    return (
        arrays | {"group_errors": np.zeros((0, rounds))},
        document | {"probability_scale": 2.0, "history": {"groups": [], **document["history"]}},
    )


def _from_2(arrays: Arrays, document: dict[str, Any]) -> Parts:
    """Upgrade from version 2: the potential was that of the hypercube, or none."""
    certificate = document.get("certificate")
    require(isinstance(certificate, dict), "the document has no object 'certificate'")
    bound = document["certificate"].get("bound")
    if bound is None:
        return arrays, document
    require(isinstance(bound, dict), "certificate.bound must be an object or null")
    require("potential" not in bound, "schema 2 has no field 'certificate.bound.potential'")
    fields = Fields(bound, "certificate.bound")
    potential = 1.0 if fields.flag("hypercube") else 0.0
    bound = {name: value for name, value in bound.items() if name != "hypercube"}
    changed = document["certificate"] | {"bound": bound | {"potential": potential}}
    return arrays, document | {"certificate": changed}


def _from_3(arrays: Arrays, document: dict[str, Any]) -> Parts:
    """Upgrade from version 3.

    Every category had a bin of its own, the default trees had depth 3, and only gains bounded errors.
    """
    require("known_rare" not in arrays, "schema 3 has no array 'known_rare'")
    require("known_values" in arrays, "array 'known_values' is missing")
    for name in ("stopped_early", "label_noise"):
        require(name not in document, f"schema 3 has no field {name!r}")
    for name in ("parameters", "certificate"):
        require(isinstance(document.get(name), dict), f"the document has no object {name!r}")
    parameters, certificate = document["parameters"], document["certificate"]
    early = parameters.get("early_stopping", False)
    if parameters.get("estimator") is None:
        parameters = parameters | {"max_depth": 3, "max_leaf_nodes": None, "min_samples_leaf": 1}
    for name in ("penalty", "last_penalty", "given_labels"):
        require(name not in certificate, f"schema 3 has no field 'certificate.{name}'")
    bound = certificate.get("bound")
    if bound is not None:
        require(isinstance(bound, dict), "certificate.bound must be an object or null")
        require("squares" not in bound, "schema 3 has no field 'certificate.bound.squares'")
        bound = bound | {"squares": False}
    later = {"penalty": 0.0, "last_penalty": 0.0, "given_labels": False}
    certificate = certificate | later | {"bound": bound}
    return (
        arrays | {"known_rare": np.zeros(arrays["known_values"].shape, dtype=bool)},
        document
        | {
            "parameters": parameters,
            "certificate": certificate,
            "stopped_early": early,
            "label_noise": None,
        },
    )


_UPGRADES: dict[int, Callable[[Arrays, dict[str, Any]], Parts]] = {
    1: _from_1,
    2: _from_2,
    3: _from_3,
}
