"""Export of a booster over the library's own trees to LightGBM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maboost.io.scalar_trees import Part, parts_by_round, refuse_noise
from maboost.learners.tree.binning import levels_of
from maboost.learners.tree.contributions import cover_of
from maboost.runtime.optional_packages import missing_package

if TYPE_CHECKING:
    from lightgbm import Booster

__all__ = ["lightgbm_text", "to_lightgbm"]

Array = NDArray[np.float64]

_CATEGORICAL, _DEFAULT_LEFT, _NAN_IS_MISSING = 1, 2, 8  # bits of LightGBM's decision_type
_LARGEST_CODE = 1 << 20  # a node stores one bit for every code up to its largest
_NOT_IN_NAMES = re.compile(r'[\s",:\[\]{}]')


def to_lightgbm(model: Any) -> Booster:
    """Return a booster over the library's own trees as a `lightgbm.Booster`.

    Parameters
    ----------
    model : fitted booster
        Its estimators must be HistTreeClassifier, the default.

    Returns
    -------
    lightgbm.Booster
        ``predict(X, raw_score=True)`` is `decision_function`. ``predict(X)`` is the probability of
        the second class for two classes. For more classes it is the votes, since LightGBM's softmax has no
        scale, and also for models with `flip_rates`, whose probabilities are corrected (with more than two classes
        these models are refused). ``predict(X, pred_contrib=True)`` are SHAP values of the votes.
        ``feature_importance("gain")`` is `feature_importances_`.

    Notes
    -----
    X is a table of float64: LightGBM rounds integers to float32. If the fit saw a data frame
    with text or categories, X is a pandas frame whose same columns have the dtype "category", or the
    table of their codes. LightGBM reads numbers of magnitude 1e-35 or less as zero, and truncates codes of
    categories to integers.

    Raises
    ------
    ValueError
        For other estimators, and for categories that are not integers from 0 to about a million.
    ImportError
        Without LightGBM.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MABoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MABoostClassifier(n_estimators=5).fit(X, y)
    >>> exported = model.to_lightgbm()
    >>> bool(np.allclose(exported.predict(X), model.predict_proba(X)[:, 1], rtol=0, atol=1e-12))
    True
    """
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError(missing_package("to_lightgbm()", "lightgbm", "lightgbm")) from error
    return lightgbm.Booster(model_str=lightgbm_text(model))


def lightgbm_text(model: Any) -> str:
    """Return the model in LightGBM's text format."""
    rounds = parts_by_round(model, "to_lightgbm()")
    if len(model.classes_) != 2:
        refuse_noise(model, "to_lightgbm()")
    names = _names(model)
    known = _known(model, rounds)
    _check_codes(known, model)
    columns = range(model.n_features_in_)
    header = [
        "tree",
        "version=v4",
        f"num_class={len(rounds[0])}",
        f"num_tree_per_iteration={len(rounds[0])}",
        "label_index=0",
        f"max_feature_idx={model.n_features_in_ - 1}",
    ]
    if len(model.classes_) == 2 and model._noise is None:
        header.append(f"objective=binary sigmoid:{float(model.probability_scale_)!r}")
    header += [
        "feature_names=" + " ".join(names),
        "feature_infos=" + " ".join(_info(known.get(j)) for j in columns),
    ]
    parts = [part for round in rounds for part in round]
    trees = [f"Tree={i}\n{_tree(part)}\n" for i, part in enumerate(parts)]
    footer = ["end of trees", "", "parameters:", "end of parameters", ""]
    return "\n".join([*header, "", *trees, *footer, _pandas_categories(model), ""])


def _names(model: Any) -> list[str]:
    """Return names without the characters that LightGBM's formats use, numbered if two become equal."""
    given = getattr(model, "feature_names_in_", None)
    if given is None:
        return [f"Column_{j}" for j in range(model.n_features_in_)]
    names = [_NOT_IN_NAMES.sub("_", str(name)) or "_" for name in given]
    taken = set(names)
    for j, name in enumerate(names):
        if name in names[:j]:
            while name in taken:
                name = f"{name}_{j}"
            names[j] = name
            taken.add(name)
    return names


def _known(model: Any, rounds: list[list[Part]]) -> dict[int, Array]:
    """Return the codes of the columns on which some node splits by category."""
    asked = {int(part.feature[node]) for parts in rounds for part in parts for node in part.members}
    rare = rounds[0][0].rare
    known = model.ensemble_.hypotheses[0].tree.known if asked else {}
    return {j: levels_of(known[j], rare.get(j))[0] for j in sorted(asked)}


def _check_codes(known: dict[int, Array], model: Any) -> None:
    for j, codes in known.items():
        fits = (codes >= 0.0) & (codes <= _LARGEST_CODE) & (codes == np.floor(codes))
        if not fits.all():
            name = getattr(model, "feature_names_in_", range(model.n_features_in_))[j]
            raise ValueError(
                f"to_lightgbm() cannot write the categorical column {name!r}: LightGBM's categories "
                f"are integers from 0 to {_LARGEST_CODE} here, and it has "
                f"{float(codes[~fits][0])!r}; number its categories from 0"
            )


def _info(codes: Array | None) -> str:
    """Return the values of a categorical column; ranges of numbers are unknown."""
    return "none" if codes is None or not len(codes) else ":".join(str(int(c)) for c in codes)


def _pandas_categories(model: Any) -> str:
    """Return the categories of each column of text or categories in the fitted frame, in the order of codes."""
    codes = model._codes
    ordered = [name for name in codes.dtypes or {} if name in codes.categories]
    for name in ordered:
        for category in codes.categories[name]:
            if not isinstance(category, str | int | float):
                raise ValueError(
                    f"to_lightgbm() cannot write the category {category!r} of column {name!r}: "
                    "LightGBM's files hold categories that are text or numbers"
                )
    return "pandas_categorical:" + json.dumps([codes.categories[name] for name in ordered] or None)


def _tree(part: Part) -> str:
    inner, leaves = part.inner, part.leaves
    number = np.zeros(len(part.feature), dtype=np.int64)  # leaf i has the number ~i
    number[inner], number[leaves] = np.arange(len(inner)), ~np.arange(len(leaves))
    counts = cover_of(part.weight, part.yes, part.no, part.inner)
    boundaries, words, threshold = _sets(part)
    fields: list[tuple[str, Iterable[Any]]] = [
        ("num_leaves", [len(leaves)]),
        ("num_cat", [len(part.members)]),
    ]
    if len(inner):
        kind = np.where(part.missing_yes, _DEFAULT_LEFT, 0) | _NAN_IS_MISSING
        kind[list(part.members)] |= _CATEGORICAL
        fields += [
            ("split_feature", part.feature[inner]),
            ("split_gain", part.gain[inner]),
            ("threshold", threshold[inner]),
            ("decision_type", kind[inner]),
            ("left_child", number[part.yes[inner]]),
            ("right_child", number[part.no[inner]]),
        ]
    fields += [
        ("leaf_value", part.value[leaves]),
        ("leaf_weight", part.weight[leaves]),
        ("leaf_count", counts[leaves]),
    ]
    if len(inner):
        fields += [
            ("internal_value", part.value[inner]),
            ("internal_weight", part.weight[inner]),
            ("internal_count", counts[inner]),
        ]
    if part.members:
        fields += [("cat_boundaries", boundaries), ("cat_threshold", words)]
    fields += [("is_linear", [0]), ("shrinkage", [1])]
    return "".join(f"{name}={_line(values)}\n" for name, values in fields)


def _line(values: Iterable[Any]) -> str:
    return " ".join(repr(v) for v in np.asarray(values).tolist())


def _sets(part: Part) -> tuple[list[int], list[int], Array]:
    """Return category sets as bits: the start of each, the 32-bit words, and thresholds that number the sets."""
    boundaries, words, threshold = [0], [], part.threshold.copy()
    for i, (node, members) in enumerate(part.members.items()):
        codes = _with_rare(members, part.rare.get(int(part.feature[node]))).astype(np.int64)
        bits = np.zeros(int(codes.max(initial=0)) // 32 + 1, dtype=np.uint32)
        np.bitwise_or.at(bits, codes // 32, np.uint32(1) << (codes % 32).astype(np.uint32))
        words += bits.tolist()
        boundaries.append(len(words))
        threshold[node] = i
    return boundaries, words, threshold


def _with_rare(members: Array, rare: Array | None) -> Array:
    """Return all categories that the members represent."""
    return members if rare is None or rare[0] not in members else np.union1d(members, rare)
