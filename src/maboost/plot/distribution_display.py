"""Display of the distribution over the rows during boosting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.plot._axes import (
    BLUE,
    GREEN,
    Array,
    fitted_booster,
    limit_style,
    line_style,
    plain_numbers,
    pyplot,
    round_axis,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

__all__ = ["DistributionDisplay"]


class DistributionDisplay:
    """The distribution over the rows, by round.

    The upper panel has the largest weight of a row, relative to its share of the base measure. The lower panel has the
    effective sample size, and the fraction of rows with weight. An optional histogram has
    the weights after the last round.

    Parameters
    ----------
    rounds : array of shape (n_rounds,)
    smoothness, ess, nonzero : array of shape (n_rounds,)
        Largest density; effective fraction of the base measure; fraction of rows with weight.
    cap : float, optional
        The largest density allowed.
    density : array of shape (n_rows,), optional
        Weight of each row after the last round, relative to its share.

    Attributes
    ----------
    figure_
        The figure of the plot.
    axes_ : array of axes
        Two, or three with the histogram; `ax_` is the first.
    smoothness_line_, ess_line_, nonzero_line_ : Line2D
    cap_line_ : Line2D or None
    bars_ : BarContainer or None
        The histogram.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier
    >>> from maboost.plot import DistributionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(smoothness=3, n_estimators=10, random_state=0).fit(X, y)
    >>> display = DistributionDisplay.from_estimator(model, histogram=True)
    >>> bool(display.smoothness.max() <= 3 + 1e-9), len(display.axes_)
    (True, 3)
    """

    def __init__(
        self,
        rounds: ArrayLike,
        smoothness: ArrayLike,
        ess: ArrayLike,
        nonzero: ArrayLike,
        *,
        cap: float | None = None,
        density: ArrayLike | None = None,
    ) -> None:
        self.rounds = np.asarray(rounds)
        self.smoothness = np.asarray(smoothness, dtype=float)
        self.ess = np.asarray(ess, dtype=float)
        self.nonzero = np.asarray(nonzero, dtype=float)
        self.cap = cap
        self.density = None if density is None else np.asarray(density, dtype=float)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        histogram: bool = False,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the distribution of a fitted booster.

        Parameters
        ----------
        model : a fitted booster
        histogram : bool, default=False
            Also show a histogram of the weights after the last round.
        sample_weight : array of shape (n_rows,), optional
            The weights of the fit, with `class_weight` multiplied in: the unit of the histogram.
            Rows that took no part (no weight, or held out by early stopping) are left out.
        ax : matplotlib axes, or as many as there are panels, optional
            A single one is divided.
        **kwargs
            As in :meth:`plot`.

        Returns
        -------
        DistributionDisplay
        """
        history = fitted_booster(model, cls).history_
        density = _density(model, sample_weight) if histogram else None
        cap = getattr(model, "smoothness_", None)
        display = cls(
            history["round"],
            history["smoothness"],
            history["ess"],
            history["nonzero"],
            cap=cap if cap is not None and np.isfinite(cap) else None,
            density=density,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Any = None, bins: int = 40, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, or as many as there are panels, optional
            A single one is divided.
        bins : int, default=40
            Bars of the histogram.
        **kwargs
            Style of the lines, such as `linewidth`.

        Returns
        -------
        DistributionDisplay
        """
        panels = 2 if self.density is None else 3
        self.axes_ = _stacked_axes(ax, panels)
        self.ax_ = self.axes_[0]
        self.figure_ = self.ax_.figure
        self._plot_smoothness(self.axes_[0], kwargs)
        self._plot_fractions(self.axes_[1], kwargs)
        self.bars_: BarContainer | None = None
        if self.density is not None:
            self._plot_histogram(self.axes_[2], self.density, bins)
        for axes in self.axes_:
            tidy(axes)
        return self

    def _plot_smoothness(self, ax: Axes, style: dict[str, Any]) -> None:
        (self.smoothness_line_,) = ax.plot(
            self.rounds, self.smoothness, **line_style({"color": BLUE}, style)
        )
        top = float(self.smoothness.max())
        self.cap_line_ = None
        if self.cap is not None:
            self.cap_line_ = ax.axhline(self.cap, label=f"cap {self.cap:.3g}", **limit_style())
            ax.legend(frameon=False, loc="lower right")
            top = max(top, self.cap)
        ax.set_ylim(0.0, 1.08 * top)
        ax.set_ylabel("largest weight\n(times its share)")
        round_axis(ax, int(self.rounds[-1]))
        ax.tick_params(labelbottom=False)
        ax.set_xlabel("")

    def _plot_fractions(self, ax: Axes, style: dict[str, Any]) -> None:
        nonzero = {"color": GREEN, "linestyle": (0, (6, 2)), "label": "rows with weight"}
        (self.nonzero_line_,) = ax.plot(self.rounds, self.nonzero, **line_style(nonzero, style))
        ess = {"color": BLUE, "label": "effective sample size"}
        (self.ess_line_,) = ax.plot(self.rounds, self.ess, **line_style(ess, style))
        ax.set_ylim(0.0, 1.08)
        ax.set_ylabel("fraction\nof the data")
        ax.legend(frameon=False)
        round_axis(ax, int(self.rounds[-1]))

    def _plot_histogram(self, ax: Axes, density: Array, bins: int) -> None:
        counts, edges = np.histogram(density, bins=bins, range=(0.0, float(density.max())))
        self.bars_ = ax.bar(
            edges[:-1], counts / len(density), np.diff(edges), align="edge", color=BLUE
        )
        ax.set_yscale("log")
        plain_numbers(ax)
        ax.set_xlim(0.0, edges[-1])
        ax.set_xlabel("weight of a row after the last round (times its share)")
        ax.set_ylabel("fraction\nof the rows")


def _density(model: Any, sample_weight: ArrayLike | None) -> Array:
    """Return the weight of each row that took part, divided by its share of the base measure."""
    distribution: Array = model.distribution_
    rows = model._evidence.rows  # without rows of weight zero and without validation rows
    if sample_weight is None:
        return np.asarray(distribution[rows] * len(rows))
    base = np.asarray(sample_weight, dtype=float)
    if base.shape != distribution.shape:
        raise ValueError(
            f"sample_weight must have one entry for each of the {len(distribution)} rows of the fit, "
            f"got shape {base.shape}"
        )
    return np.asarray(distribution[rows] * (base[rows].sum() / base[rows]))


def _stacked_axes(ax: Any, panels: int) -> NDArray[Any]:
    """Return axes one below the other: new ones, the given ones, or one given axis divided."""
    plt = pyplot()
    if ax is None:
        figure = plt.figure(figsize=(6.4, 1.9 * panels), layout="constrained")
        return _column(figure, figure.add_gridspec(panels, 1))
    given = np.ravel(np.asarray(ax, dtype=object))
    if len(given) == panels and panels > 1:
        return given
    if len(given) != 1:
        raise ValueError(f"ax must be one or {panels} axes, got {len(given)}")
    whole = given[0]
    whole.set_axis_off()
    place = whole.get_subplotspec()
    if place is not None:
        return _column(whole.figure, place.subgridspec(panels, 1))
    box = whole.get_position()
    sides = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
    return _column(whole.figure, whole.figure.add_gridspec(panels, 1, hspace=0.5, **sides))


def _column(figure: Any, grid: Any) -> NDArray[Any]:
    """Return two panels with a common x axis over rounds, and one for the histogram."""
    first = figure.add_subplot(grid[0])
    second = figure.add_subplot(grid[1], sharex=first)
    rest = [figure.add_subplot(grid[i]) for i in range(2, grid.nrows)]
    return np.array([first, second, *rest], dtype=object)
