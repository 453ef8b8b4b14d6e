"""Display of the certified and the measured error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from maboost.plot._axes import (
    BLUE,
    DASHES,
    GREY,
    ORANGE,
    YScale,
    axes_for,
    error_axis,
    fitted_booster,
    kept_rounds,
    legend_beside,
    limit_style,
    line_style,
    round_axis,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BoundDisplay"]


class BoundDisplay:
    """Certified and measured error by round.

    The measured training error is at most the certified one; after `fit_stream` the measured error is that of
    a sample and may be larger. Below the floor of the domain, a dotted line, nothing is certified
    however many rounds follow.

    Parameters
    ----------
    rounds : array of shape (n_rounds,)
    error_bound, train_error : array of shape (n_rounds,)
        Certified and measured training error after each round.
    val_error : array of shape (n_rounds,), optional
        Error on the validation rows; NaN where none were given.
    floor : float, default=0.0
        The error below which the domain certifies nothing.
    kept : int, optional
        The number of rounds the model keeps, if early stopping ran more.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    bound_line_, train_line_ : Line2D
    val_line_, floor_line_, kept_line_ : Line2D or None
        None if there is nothing to show.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier
    >>> from maboost.plot import BoundDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(smoothness=4.0, n_estimators=10).fit(X, y)
    >>> display = BoundDisplay.from_estimator(model)
    >>> display.floor, len(display.bound_line_.get_ydata())
    (0.25, 10)
    """

    def __init__(
        self,
        rounds: ArrayLike,
        error_bound: ArrayLike,
        train_error: ArrayLike,
        *,
        val_error: ArrayLike | None = None,
        floor: float = 0.0,
        kept: int | None = None,
    ) -> None:
        self.rounds = np.asarray(rounds)
        self.error_bound = np.asarray(error_bound, dtype=float)
        self.train_error = np.asarray(train_error, dtype=float)
        self.val_error = None if val_error is None else np.asarray(val_error, dtype=float)
        self.floor = floor
        self.kept = kept

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the errors of a fitted booster.

        Parameters
        ----------
        model : a fitted booster
        ax : matplotlib axes, optional
        **kwargs
            As in :meth:`plot`.

        Returns
        -------
        BoundDisplay
        """
        history = fitted_booster(model, cls).history_
        display = cls(
            history["round"],
            history["error_bound"],
            history["train_error"],
            val_error=history["val_error"],
            floor=model.certificate_.floor,
            kept=kept_rounds(model),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, yscale: YScale = "auto", **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
        yscale : {"auto", "linear", "log"}, default="auto"
            "auto" is logarithmic where the errors differ by more than a factor of 20.
        **kwargs
            Style of the lines, such as `linewidth`.

        Returns
        -------
        BoundDisplay
        """
        ax, self.figure_ = axes_for(ax, figsize=(7.6, 4.0))
        self.ax_ = ax

        def line(values: Any, **style: Any) -> Any:
            return ax.plot(self.rounds, values, **line_style(style, kwargs))[0]

        self.bound_line_ = line(
            self.error_bound, color=BLUE, linestyle=DASHES[1], label="training, certified"
        )
        self.train_line_ = line(self.train_error, color=BLUE, label="training, measured")
        shown = [self.error_bound, self.train_error]
        if self.floor > 0.0:
            shown.append(np.array([self.floor]))
        self.val_line_ = None
        if self.val_error is not None and not np.isnan(self.val_error).all():
            self.val_line_ = line(self.val_error, color=ORANGE, label="validation, measured")
            shown.append(self.val_error)
        self._plot_marks(ax)
        error_axis(ax, shown, yscale)
        round_axis(ax, int(self.rounds[-1]))
        ax.set_ylabel("error (fraction of the weight)")
        legend_beside(ax)
        tidy(ax)
        return self

    def _plot_marks(self, ax: Axes) -> None:
        self.floor_line_ = self.kept_line_ = None
        if self.floor > 0.0:
            label = f"nothing certified\nbelow {self.floor:.3g}"
            self.floor_line_ = ax.axhline(self.floor, label=label, **limit_style())
        if self.kept is not None:
            label = f"rounds kept: {self.kept}"
            self.kept_line_ = ax.axvline(self.kept, color=GREY, linewidth=0.8, label=label)
