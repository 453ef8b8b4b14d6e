"""The model file: all that a fitted booster predicts with, in arrays and JSON, without code.

The format is described in ``docs/model-file.md``.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maboost._version import __version__
from maboost.boosting.ensemble import Ensemble
from maboost.data.categories import CategoryCodes
from maboost.estimators import (
    BOOSTERS,
    CombinedBoostClassifier,
    HistTreeClassifier,
    SmoothBoostClassifier,
)
from maboost.io.container import MAX_BYTES, Arrays, ModelFormatError, pack, read, shortened, unpack
from maboost.io.fields import Fields, Tensors, require
from maboost.io.noise import label_noise, plain_rates, read_label_noise
from maboost.io.run_records import certificate, history, read_certificate, read_history
from maboost.io.schema import FORMAT, SCHEMA, upgraded
from maboost.io.trees import flat, read_trees
from maboost.io.values import Decoder, Encoder, label, labels, read_label, read_labels
from maboost.learners.tree.learner import TreeHypothesis
from maboost.runtime.atomic_files import whole_file

__all__ = ["ModelFormatError", "load_model", "save"]

_BOOSTERS = {made.__name__: made for made in BOOSTERS.values()}

# parameters about files of the fit belong to the machine that fits
NOT_STORED = frozenset({"checkpoint", "checkpoint_every", "resume", "device"})

_MOST_FEATURES = 1 << 24
_MOST_STEPS = 1e100  # the largest sum of steps, so that votes do not overflow
_MOST_VOTES = 1e300  # the largest scaled vote


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted booster to a file that :func:`load_model` reads.

    The file appears complete or not at all. The model's data about every training row is left out.

    Parameters
    ----------
    model : fitted booster
        One of the library's boosters, over `HistTreeClassifier` or the default.
    path : path-like

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from maboost import MABoostClassifier, load_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MABoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "iris.maboost")
    ...     loaded = load_model(pathlib.Path(folder) / "iris.maboost")
    >>> bool((loaded.decision_function(X) == model.decision_function(X)).all())
    True
    """
    _check_can_be_saved(model)
    content = pack(*_parts(model))
    try:
        _read(*unpack(content))  # a file that could not be read is not written
    except ModelFormatError as error:
        raise ValueError(f"this model cannot be saved: {error}") from None
    with whole_file(path) as file:
        file.write(content)


def load_model(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Any:
    """Read a model file.

    Everything in the file is checked before it is used, and nothing in it is run.

    Parameters
    ----------
    path : path-like
    max_bytes : int, default=2**30
        A larger file is refused before it is read.

    Returns
    -------
    fitted booster
        The same votes, to the bit. `distribution_` and `suspect_labels()` need the training rows
        and are absent.

    Raises
    ------
    ModelFormatError
        If the file is not a model file, damaged, too large, or of an unknown version.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from maboost import MABoostClassifier, load_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MABoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "iris.maboost")
    ...     loaded = load_model(pathlib.Path(folder) / "iris.maboost")
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    try:
        return _read(*unpack(read(path, max_bytes)))
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None


# -------------------------------------------------------------------------------------------- writing


def _check_can_be_saved(model: Any) -> None:
    kind = type(model)
    if _BOOSTERS.get(kind.__name__) is not kind:
        raise ValueError(
            f"only {', '.join(sorted(_BOOSTERS))} can be saved, got {kind.__name__}: give the model as "
            "one of them, or keep it with pickle"
        )
    check_is_fitted(model)
    estimator = model.estimator
    ours = estimator is None or type(estimator) is HistTreeClassifier
    if not ours or not all(isinstance(h, TreeHypothesis) for h in model.ensemble_.hypotheses):
        raise ValueError(
            "only models over HistTreeClassifier (estimator=None, the default) can be saved, and this "
            f"one boosts {type(estimator).__name__}. Keep it with pickle or joblib, or fit with "
            "estimator=None or estimator=HistTreeClassifier(...)"
        )


def _parts(model: Any) -> tuple[Arrays, dict[str, Any]]:
    encoder = Encoder()
    K = len(model.classes_)
    run, arrays = history(model.history_)
    parameters = encoder.parameters(model, leave_out=NOT_STORED | {"flip_rates"})
    parameters["flip_rates"] = encoder.value(plain_rates(model.flip_rates), "flip_rates")
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": __version__,
        "booster": type(model).__name__,
        "parameters": parameters,
        "classes": labels(model.classes_),
        "heaviest": int(model.ensemble_.heaviest),
        "n_features": int(model.n_features_in_),
        "feature_names": _names(model),
        "columns": _columns(model._codes),
        "best_iteration": int(model.best_iteration_),
        "stopped_early": bool(model.early_stopping_),
        "inert_rows": int(model.n_inert_rows_),
        "label_noise": label_noise(model._row_noise, model._noise),
        "probability_scale": float(model.probability_scale_),
        "smoothness": encoder.value(getattr(model, "smoothness_", None), "smoothness_"),
        "history": run,
        "certificate": certificate(model.certificate_, encoder),
    }
    trees = [h.tree for h in model.ensemble_.hypotheses]
    arrays["estimator_weights"] = np.asarray(model.estimator_weights_, dtype=np.float64)
    if model.ensemble_.rounds is not None:
        arrays["estimator_rounds"] = np.asarray(model.ensemble_.rounds, dtype=np.int64)
    return arrays | flat(trees, 1 if K <= 2 else K) | encoder.arrays, document


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(n) for n in names]


def _columns(codes: CategoryCodes) -> list[Any] | None:
    """Return the name and the dtype of each column, and its categories if it is coded."""
    if codes.dtypes is None:
        return None
    written = []
    for name, dtype in codes.dtypes.items():
        values = codes.categories.get(name)
        if values is not None:
            values = [label(v, f"a category of column {name!r}") for v in values]
        written.append([label(name, "a column name"), dtype, values])
    return written


# -------------------------------------------------------------------------------------------- reading


def _read(arrays: Arrays, document: dict[str, Any]) -> Any:
    with np.errstate(all="ignore"):  # checks compare infinities and NaN too
        return _model(*upgraded(arrays, document))


def _model(arrays: Arrays, document: dict[str, Any]) -> Any:
    """Return a booster from the parts of a file of the current version."""
    fields, tensors = Fields(document, "the document"), Tensors(arrays)
    for name in ("format", "library"):
        fields.text(name)
    fields.integer("schema", SCHEMA, SCHEMA)
    decoder = Decoder(tensors)
    model = _unfitted(fields, decoder)
    model.classes_ = read_labels(fields.take("classes"), tensors)
    K = len(model.classes_)
    model.ensemble_ = Ensemble(K, fields.integer("heaviest", 0, K - 1))
    model.n_features_in_ = fields.integer("n_features", 1, _MOST_FEATURES)
    names = _read_names(fields.take("feature_names"), model.n_features_in_)
    if names is not None:
        model.feature_names_in_ = names
    model._codes = _read_columns(fields.take("columns"), model.n_features_in_, names)
    trees = read_trees(tensors, K, model.n_features_in_, _counts(model._codes))
    model.history_ = read_history(fields.object("history"), tensors)
    _read_rounds(model, fields, tensors, trees)
    model.early_stopping_ = fields.flag("stopped_early")
    model._row_noise, model._noise = read_label_noise(fields.take("label_noise"), K)
    model.flip_rates_ = None if model._row_noise is None else model._row_noise.rates_used
    by_source = model._row_noise is not None and model._row_noise.names is not None
    combined = isinstance(model, CombinedBoostClassifier)
    require(combined or not by_source, "label_noise.sources must be null for this booster")
    smoothness = fields.take("smoothness")
    if isinstance(model, SmoothBoostClassifier):
        model.smoothness_ = Fields({"smoothness": smoothness}, "the document").number(
            "smoothness", 1.0
        )
    else:
        require(smoothness is None, "the document.smoothness must be null for this booster")
    model.certificate_ = read_certificate(fields.object("certificate"), K, decoder)
    _check_rounds(model)
    fields.finish()
    tensors.finish()
    return model


def _unfitted(fields: Fields, decoder: Decoder) -> Any:
    name = fields.text("booster")
    require(name in _BOOSTERS, f"the document.booster {shortened(name)} is unknown")
    model = decoder.build(_BOOSTERS[name], fields.take("parameters"), name, NOT_STORED)
    ours = model.estimator is None or isinstance(model.estimator, HistTreeClassifier)
    require(ours, f"the estimator of {name} must be null or a HistTreeClassifier")
    require(model.n_jobs != 0, "n_jobs must not be 0")
    return model


def _read_names(names: Any, n_features: int) -> NDArray[Any] | None:
    if names is None:
        return None
    good = isinstance(names, list) and all(isinstance(n, str) for n in names)
    require(good and len(names) == n_features, f"feature_names must be {n_features} names or null")
    return np.array(names, dtype=object)


def _read_columns(columns: Any, n_features: int, names: NDArray[Any] | None) -> CategoryCodes:
    if columns is None:
        return CategoryCodes()
    require(
        isinstance(columns, list) and len(columns) in (0, n_features),
        f"columns must be null, empty or {n_features} entries",
    )
    categories: dict[Any, list[Any]] = {}
    dtypes: dict[Any, str] = {}
    for entry in columns:
        require(isinstance(entry, list) and len(entry) == 3, "columns must hold triples")
        name, dtype = read_label(entry[0], "a column name"), entry[1]
        require(name == name and name not in dtypes, "columns must have distinct names")
        require(isinstance(dtype, str), "columns must say their dtypes")
        dtypes[name] = dtype
        if entry[2] is not None:
            categories[name] = _read_categories(entry[2])
    fits = names is None or not dtypes or list(dtypes) == names.tolist()
    require(fits, "columns and feature_names must agree")
    return CategoryCodes(categories, dtypes)


def _read_categories(values: Any) -> list[Any]:
    require(isinstance(values, list), "categories must be a list")
    read = [read_label(v, "a category") for v in values]
    distinct = len(set(read)) == len(read) and all(v == v for v in read)
    require(distinct, "the categories of a column must be distinct")
    return read


def _counts(codes: CategoryCodes) -> dict[int, int]:
    """Return the number of categories of each coded column, by position."""
    return {
        j: len(codes.categories[name])
        for j, name in enumerate(codes.dtypes or {})
        if name in codes.categories
    }


def _read_rounds(model: Any, fields: Fields, tensors: Tensors, trees: list[Any]) -> None:
    """Read the trees with their steps, and the attributes that count rounds."""
    rounds, K = len(trees), len(model.classes_)
    require(K > 1 or not trees, "one class has no trees")
    require(rounds <= len(model.history_), "history must have a record for every tree")
    steps = tensors.take("estimator_weights", np.float64, (rounds,))
    total = float(np.sum(steps))
    require(
        np.all(steps >= 0.0) and total <= _MOST_STEPS,
        "array 'estimator_weights' must be finite and not negative",
    )
    found = None
    if tensors.has("estimator_rounds"):
        found = tensors.take("estimator_rounds", np.int64, (rounds,))
    model.ensemble_ = Ensemble(
        K, model.ensemble_.heaviest, [TreeHypothesis(tree) for tree in trees], steps, found
    )
    model.n_iter_ = rounds
    model.best_iteration_ = fields.integer("best_iteration", 0, len(model.history_))
    model.n_inert_rows_ = fields.integer("inert_rows", 0)
    scale = fields.number("probability_scale", 0.0, math.inf)
    require(
        scale > 0.0 and scale * max(total, 1.0) <= _MOST_VOTES,
        f"the document.probability_scale must be positive and finite, got {scale}",
    )
    model.probability_scale_ = scale


def _check_rounds(model: Any) -> None:
    """Compare the rounds of the certificate with the trees; votes that were refitted leave some trees out."""
    rounds, found = model.certificate_.rounds, model.ensemble_.rounds
    if found is None:
        require(rounds == len(model.ensemble_), "certificate.rounds must count the trees")
        return
    require(rounds <= len(model.history_), "history must have a record for every round")
    rises = not len(found) or (found[0] >= 1 and found[-1] <= rounds and np.all(np.diff(found) > 0))
    require(rises, "array 'estimator_rounds' must rise and hold rounds of the certificate")
    model.n_iter_ = rounds
