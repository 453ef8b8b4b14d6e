"""Display of the margins of labelled rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.plot._axes import GREY, Array, axes_for, fitted_booster, line_style, shades, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MarginDisplay"]


class MarginDisplay:
    """Cumulative distribution of the normalised margins after several rounds.

    A row's margin is the vote for its class less the largest vote for another, divided by the sum of
    the steps. A curve's height at 0 is the error (a tie is an error).

    Parameters
    ----------
    margins : array of shape (n_curves, n_rows)
    rounds : sequence of int
        The number of rounds behind each curve.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    lines_ : list of Line2D
        One line for each curve.
    zero_line_ : Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MABoostClassifier
    >>> from maboost.plot import MarginDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MABoostClassifier(n_estimators=30, random_state=0).fit(X, y)
    >>> display = MarginDisplay.from_estimator(model, X, y)
    >>> display.rounds
    [1, 3, 10, 30]
    """

    def __init__(
        self,
        margins: ArrayLike,
        rounds: Sequence[int],
        *,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        self.margins = np.atleast_2d(np.asarray(margins, dtype=float))
        self.rounds = list(rounds)
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight, float)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        rounds: Iterable[int] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the margins of labelled rows.

        Parameters
        ----------
        model : a fitted booster
        X, y
            The rows and their labels.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows.
        rounds : iterable of int, optional
            Which rounds get a curve; by default the first, a tenth, a third and the last. Only the last where votes
            were refitted after each round.
        ax : matplotlib axes, optional
        **kwargs
            As in :meth:`plot`.

        Returns
        -------
        MarginDisplay
        """
        fitted_booster(model, cls)
        if rounds is None and not model.has_stages:
            rounds = [model.n_iter_]
        chosen = _chosen_rounds(rounds, model.n_iter_)
        margins = np.stack([model[:n].margins(X, y) for n in chosen])
        return cls(margins, chosen, sample_weight=sample_weight).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
        **kwargs
            Style of the curves, such as `linewidth`.

        Returns
        -------
        MarginDisplay
        """
        ax, self.figure_ = axes_for(ax)
        self.ax_ = ax
        self.zero_line_ = ax.axvline(0.0, color=GREY, linewidth=0.8)
        self.lines_ = []
        widths = np.linspace(1.2, 2.2, len(self.rounds))
        colors = shades(len(self.rounds))
        for margins, n, color, width in zip(self.margins, self.rounds, colors, widths, strict=True):
            style = {"color": color, "linewidth": width, "label": f"{n} round{'s' * (n != 1)}"}
            x, height = _cumulative(margins, self.sample_weight)
            self.lines_ += ax.step(x, height, where="post", **line_style(style, kwargs))
        what = "rows" if self.sample_weight is None else "weight"
        ax.set(
            xlabel="normalised margin (negative: the vote is wrong)",
            ylabel=f"fraction of the {what} at or below",
            xlim=(-1.02, 1.02),
            ylim=(0.0, 1.02),
        )
        ax.legend(frameon=False, loc="upper left")
        tidy(ax)
        return self


def _chosen_rounds(rounds: Iterable[int] | None, last: int) -> list[int]:
    if rounds is None:
        return sorted({1, max(1, round(last / 10)), max(1, round(last / 3)), last})
    chosen = [index(n) for n in rounds]
    if not chosen or not all(1 <= n <= last for n in chosen):
        raise ValueError(f"rounds must be numbers from 1 to {last}, the rounds done; got {chosen}")
    return chosen


def _cumulative(margins: Array, weight: NDArray[Any] | None) -> tuple[Array, Array]:
    """Return the corners of the step function: from (-1, 0) to (1, 1)."""
    values, place = np.unique(margins, return_inverse=True)
    mass = np.cumsum(np.bincount(place, weights=weight))
    height = mass / mass[-1]
    return np.concatenate([[-1.0], values, [1.0]]), np.concatenate([[0.0], height, [1.0]])
