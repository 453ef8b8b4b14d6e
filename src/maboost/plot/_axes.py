"""Shared parts of the displays: matplotlib on demand, colours, axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maboost.runtime.optional_packages import missing_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "BLUE",
    "DASHES",
    "GREEN",
    "GREY",
    "HUES",
    "ORANGE",
    "RED",
    "Array",
    "YScale",
    "axes_for",
    "error_axis",
    "fitted_booster",
    "kept_rounds",
    "legend_beside",
    "limit_style",
    "line_style",
    "plain_numbers",
    "pyplot",
    "round_axis",
    "shades",
    "tidy",
]

Array = NDArray[np.float64]
YScale = Literal["auto", "linear", "log"]

BLUE, ORANGE, GREEN, RED = "#4269d0", "#efb118", "#3ca951", "#b5403a"
GREY = "#6e7079"
# Neighbouring colours differ in lightness, and lines also in their dashes, so nothing is shown by colour alone.
HUES = (BLUE, ORANGE, GREEN, RED, "#6cc5b0", "#9c6b4e")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (8, 2, 2, 2)), (0, (3, 1.5)))

_LIGHT, _DARK = "#aebfee", "#16275f"
_WIDE = 20.0  # errors that differ by more than this factor need a logarithmic axis


def pyplot() -> Any:
    """Return the module `matplotlib.pyplot`, imported on its first use."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(missing_package("maboost.plot", "matplotlib", "plot")) from error
    return plt


def fitted_booster(model: Any, display: type) -> Any:
    """Return the model if it is a fitted booster with at least one round; otherwise raise an error."""
    check_is_fitted(model)
    if not hasattr(model, "history_"):
        raise TypeError(
            f"{display.__name__} needs one of maboost's boosters, got {type(model).__name__}; of a "
            "pipeline or a search pass the booster itself: pipeline[-1], search.best_estimator_"
        )
    if not len(model.history_):
        raise ValueError(
            f"{display.__name__} has nothing to show: the model has no rounds "
            f"({model.certificate_.stopped})"
        )
    return model


def axes_for(
    ax: Axes | None, figsize: tuple[float, float] = (6.4, 4.0)
) -> tuple[Axes, Figure | SubFigure]:
    """Return the axes to draw on, new ones if none are given, and their figure."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    assert ax is not None
    return ax, ax.figure


def tidy(ax: Axes) -> None:
    """Remove the frame at the top and right."""
    ax.spines[["top", "right"]].set_visible(False)


def round_axis(ax: Axes, last: int) -> None:
    """Label x with rounds, counted from one."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel("round")
    ax.set_xlim(1, max(last, 2))


def error_axis(ax: Axes, values: Sequence[Array], yscale: YScale) -> None:
    """Label y with errors: linear from 0, or logarithmic with a place for 0 if an error is 0."""
    if yscale not in ("auto", "linear", "log"):
        raise ValueError(f"yscale must be 'auto', 'linear' or 'log', got {yscale!r}")
    everything = np.concatenate([np.ravel(v) for v in values])
    positive = everything[everything > 0.0]
    if not positive.size:
        ax.set_ylim(-0.02, 1.0)
        return
    least, most = float(positive.min()), float(positive.max())
    if yscale == "linear" or (yscale == "auto" and most < _WIDE * least):
        ax.set_ylim(-0.02 * most, 1.05 * most)
        return
    least = min(least, most / 10.0)
    if np.any(everything == 0.0):
        threshold = 10.0 ** np.floor(np.log10(least) + 1e-9)
        ax.set_yscale("symlog", linthresh=threshold, linscale=0.4, subs=range(2, 10))
        ax.set_ylim(-0.2 * threshold, 1.3 * most)
    else:
        ax.set_yscale("log")
        ax.set_ylim(least / 1.3, 1.3 * most)
    plain_numbers(ax)


def plain_numbers(ax: Axes) -> None:
    """Write 0.01 on a logarithmic y axis, and label only powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def legend_beside(ax: Axes, **kwargs: Any) -> None:
    """Put a legend on the right, where it hides no line."""
    ax.legend(
        frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, **kwargs
    )


def kept_rounds(model: Any) -> int | None:
    """Return the number of rounds the model keeps, if fewer than were run; otherwise None."""
    kept = int(model.n_iter_)
    return kept if kept < len(model.history_) else None


def limit_style(color: Any = "black") -> dict[str, Any]:
    """Return the style of a dotted line, drawn above other lines."""
    return {"color": color, "linestyle": (0, (1, 2.5)), "linewidth": 1.6, "zorder": 3}


def shades(count: int) -> list[tuple[float, float, float]]:
    """Return blues from light to dark."""
    from matplotlib.colors import to_rgb

    stops = np.array([to_rgb(_LIGHT), to_rgb(BLUE), to_rgb(_DARK)])
    at = np.linspace(0.0, 2.0, count) if count > 1 else np.array([1.0])
    columns = [np.interp(at, np.arange(3), stops[:, c]) for c in range(3)]
    return [(float(r), float(g), float(b)) for r, g, b in zip(*columns, strict=True)]


def line_style(default: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the style of a line: the caller's (short names such as `lw` too), else the default."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**default, **normalize_kwargs(dict(given), Line2D)}
