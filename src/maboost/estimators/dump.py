"""The trees of a fitted booster as text for people and as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.predictor import Tree

__all__ = ["dumped", "feature_names", "nodes_of", "question_of"]

_MOST_CATEGORIES, _LONGEST = 8, 24  # categories of a set, and characters of each, in a text


def dumped(model: Any, trees: list[Tree], format: str, max_rounds: int | None) -> str:
    """Return the first trees of a model in a format; see `dump_model`."""
    if format not in ("text", "json"):
        raise ValueError(f"format must be 'text' or 'json', got {format!r}")
    if max_rounds is not None and (not isinstance(max_rounds, Integral) or max_rounds < 1):
        raise ValueError(
            f"max_rounds must be a whole number of at least 1, or None for all rounds, got {max_rounds!r}"
        )
    some = trees if max_rounds is None else trees[: int(max_rounds)]
    return _as_json(model, some) if format == "json" else _as_text(model, some)


def feature_names(model: Any) -> list[str]:
    """Return the names of the columns of the fit; x0, x1, ... where they had none."""
    plain = [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in getattr(model, "feature_names_in_", plain)]


def nodes_of(model: Any, tree: Tree) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a tree as dictionaries, the root first, and every child after its parent."""
    names, codes = feature_names(model), model._codes
    columns = list(codes.dtypes or ())
    gain, cover = tree.gain.sum() or 1.0, tree.weight[0] or 1.0
    for node, feature in enumerate(tree.feature.tolist()):
        share = float(tree.weight[node] / cover)
        if feature < 0:
            value = tree.value[node].tolist()
            yield {"node": node, "value": value[0] if len(value) == 1 else value, "cover": share}
            continue
        found: dict[str, Any] = {"node": node, "feature": names[feature]}
        if tree.category_set[node] >= 0:
            known = codes.categories.get(columns[feature]) if columns else None
            members = _members(tree, node).tolist()
            found["categories"] = members if known is None else [known[int(c)] for c in members]
        else:
            threshold = float(tree.threshold[node])
            found["threshold"] = threshold if math.isfinite(threshold) else None
        yield found | {
            "missing": "left" if tree.missing_left[node] else "right",
            "left": int(tree.left[node]),
            "right": int(tree.right[node]),
            "gain": float(tree.gain[node] / gain),
            "cover": share,
        }


def _members(tree: Tree, node: int) -> NDArray[np.float64]:
    """Return the codes of all categories that go left at a node, rare ones included."""
    members = tree.categories[int(tree.category_set[node])]
    rare = (tree.rare or {}).get(int(tree.feature[node]))
    if rare is None or rare[0] not in members:
        return members
    together: NDArray[np.float64] = np.union1d(members, rare)
    return together


def _as_json(model: Any, trees: list[Tree]) -> str:
    found: dict[str, Any] = {
        "format": "maboost trees",
        "version": 1,
        "model": type(model).__name__,
        "classes": model.classes_.tolist(),
        "features": feature_names(model),
        "probability_scale": float(model.probability_scale_),
        "rounds": len(model),
        "trees": [
            {"round": t, "weight": float(step), "nodes": list(nodes_of(model, tree))}
            for t, (tree, step) in enumerate(zip(trees, model.estimator_weights_, strict=False), 1)
        ],
    }
    return json.dumps(found, default=str, indent=1)


def _as_text(model: Any, trees: list[Tree]) -> str:
    rounds = len(model)
    shown = f", the first {len(trees)} shown" if len(trees) < rounds else ""
    lines = [
        f"{type(model).__name__}: {rounds} round{'s' * (rounds != 1)}{shown}, classes {model.classes_.tolist()!r}"
    ]
    for t, (tree, step) in enumerate(zip(trees, model.estimator_weights_, strict=False), 1):
        lines += ["", f"round {t}, weight {step:.6g}"]
        nodes, waiting = list(nodes_of(model, tree)), [(0, 1)]
        while waiting:
            at, depth = waiting.pop()
            lines.append("  " * depth + _line(nodes[at]))
            if "left" in nodes[at]:
                waiting += [(nodes[at]["right"], depth + 1), (nodes[at]["left"], depth + 1)]
    return "\n".join(lines)


def _line(node: dict[str, Any]) -> str:
    number, cover = node["node"], f"cover {node['cover']:.6g}"
    if "value" in node:
        value = node["value"]
        its = [f"{v:.6g}" for v in (value if isinstance(value, list) else [value])]
        return f"{number}: value {', '.join(its)}, {cover}"
    return f"{number}: {question_of(node)}, missing {node['missing']}, {cover}, gain {node['gain']:.6g}"


def question_of(node: dict[str, Any], digits: int = 6) -> str:
    """Return the question of a split, which sends rows left if its answer is yes."""
    if "categories" not in node:
        if node["threshold"] is None:
            return f"{node['feature']} is known"
        return f"{node['feature']} <= {node['threshold']:.{digits}g}"
    names = [_shortened(str(c)) for c in node["categories"]]
    others = len(names) - _MOST_CATEGORIES
    names = names[:_MOST_CATEGORIES] + ([f"and {others} more"] if others > 0 else [])
    return f"{node['feature']} in {{{', '.join(names)}}}"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 3] + "..."
