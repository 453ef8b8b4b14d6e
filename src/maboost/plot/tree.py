"""A picture of one tree of a booster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maboost.estimators.dump import nodes_of, question_of
from maboost.estimators.explaining import own_trees
from maboost.plot._axes import BLUE, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_tree"]


def plot_tree(
    model: Any,
    tree_index: int = 0,
    *,
    max_depth: int | None = 4,
    precision: int = 3,
    ax: Axes | None = None,
) -> Axes:
    """Draw one tree of a fitted booster.

    A row goes left where the answer to a question is yes. A node tells the share of the distribution of its round
    that reached it, and a leaf its answer: from -1 for ``classes_[0]`` to 1 for ``classes_[1]``, or one number for each
    class.

    Parameters
    ----------
    model : fitted booster
        Over the library's own trees.
    tree_index : int, default=0
        The tree of which round, from 0; negative numbers count from the last.
    max_depth : int or None, default=4
        Deeper nodes are left out; None draws all.
    precision : int, default=3
        Digits of numbers.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MABoostClassifier
    >>> from maboost.plot import plot_tree
    >>> data = load_breast_cancer(as_frame=True)
    >>> model = MABoostClassifier(n_estimators=2).fit(data.data, data.target)
    >>> ax = plot_tree(model, 1)
    >>> ax.get_title()
    'round 2 of 2'
    """
    trees = own_trees(model, "plot_tree(model)")
    if not -len(trees) <= tree_index < len(trees):
        raise ValueError(
            f"tree_index must be the index of one of the {len(trees)} trees of the model, got {tree_index!r}"
        )
    index = tree_index % len(trees)
    nodes = list(nodes_of(model, trees[index]))
    deepest = len(nodes) if max_depth is None else max_depth
    places: dict[int, tuple[float, int]] = {}
    _place(nodes, places, deepest)
    width, height = max(x for x, _ in places.values()), max(depth for _, depth in places.values())
    ax, _ = axes_for(ax, figsize=(max(6.4, 1.5 * (width + 1)), 1.2 * (height + 1)))
    for node, (x, depth) in places.items():
        style = {"boxstyle": "round", "facecolor": "white", "edgecolor": BLUE}
        hidden = depth > deepest
        text = "(...)" if hidden else _text(nodes[node], precision)
        ax.text(x, -depth, text, ha="center", va="center", fontsize=8, bbox=style, zorder=2)
        if not hidden and "left" in nodes[node]:
            for side, word in (("left", "yes"), ("right", "no")):
                x_to, depth_to = places[nodes[node][side]]
                ax.plot([x, x_to], [-depth, -depth_to], color="0.6", lw=1.0, zorder=1)
                ax.text(
                    (x + x_to) / 2,
                    -(depth + depth_to) / 2,
                    word,
                    fontsize=7,
                    color="0.35",
                    zorder=1.5,
                )
    ax.set_xlim(-0.7, width + 0.7)
    ax.set_ylim(-height - 0.5, 0.5)
    ax.set_axis_off()
    ax.set_title(f"round {index + 1} of {len(trees)}")
    return ax


def _place(nodes: list[dict[str, Any]], places: dict[int, tuple[float, int]], deepest: int) -> None:
    """Write the place of each node that is drawn: leaves one beside another, parents in the middle of their children."""
    waiting, leaves = [(0, 0, False)], 0
    while waiting:
        at, depth, below_done = waiting.pop()
        node = nodes[at]
        if below_done:
            middle = 0.5 * (places[node["left"]][0] + places[node["right"]][0])
            places[at] = middle, depth
        elif "left" in node and depth <= deepest:
            waiting += [
                (at, depth, True),
                (node["right"], depth + 1, False),
                (node["left"], depth + 1, False),
            ]
        else:
            places[at] = float(leaves), depth
            leaves += 1


def _text(node: dict[str, Any], digits: int) -> str:
    cover = f"{node['cover']:.{digits}g} of the weight"
    if "value" not in node:
        return f"{question_of(node, digits)}\nmissing {node['missing']}\n{cover}"
    value = node["value"]
    its = [f"{v:.{digits}g}" for v in (value if isinstance(value, list) else [value])]
    return f"{', '.join(its)}\n{cover}"
