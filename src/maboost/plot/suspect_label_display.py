"""Which labels look wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maboost.plot._axes import GREY, RED, axes_for, line_style, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SuspectLabelsDisplay"]


class SuspectLabelsDisplay:
    """The quality of every training label, the worst first, with the suspects marked.

    A suspect is a row to look at: the label is wrong, or the row is hard.

    Parameters
    ----------
    label_quality : array of shape (n_rows,)
        In [0, 1]; low is suspicious.
    is_label_issue : boolean array of shape (n_rows,)

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    line_ : Line2D
        All rows.
    suspects_ : Line2D
        The rows whose label is an issue.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier
    >>> from maboost.plot import SuspectLabelsDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> y[::20] = 1 - y[::20]
    >>> model = SmoothBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> display = SuspectLabelsDisplay.from_estimator(model)
    >>> len(display.line_.get_ydata()) == len(y)
    True
    """

    def __init__(self, label_quality: ArrayLike, is_label_issue: ArrayLike) -> None:
        self.label_quality = np.asarray(label_quality, dtype=float)
        self.is_label_issue = np.asarray(is_label_issue, dtype=bool)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the label quality of a fitted booster's training rows.

        Parameters
        ----------
        model : a fitted booster
            A booster that still has its training rows, unlike a loaded one.
        ax : matplotlib axes, optional
        **kwargs
            As in :meth:`plot`.

        Returns
        -------
        SuspectLabelsDisplay
        """
        check_is_fitted(model)
        if not hasattr(model, "suspect_labels"):
            raise TypeError(
                f"{cls.__name__} needs one of maboost's boosters, got {type(model).__name__}"
            )
        table = model.suspect_labels()
        return cls(table["label_quality"], table["is_label_issue"]).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, max_rows: int | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
        max_rows : int, optional
            Show at most this many rows, the worst.
        **kwargs
            Style of the curve of all rows, such as `linewidth`.

        Returns
        -------
        SuspectLabelsDisplay
        """
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, got {max_rows!r}")
        order = np.argsort(self.label_quality, kind="stable")[:max_rows]
        quality, issue = self.label_quality[order], self.is_label_issue[order]
        rank = np.arange(1, len(order) + 1)
        ax, self.figure_ = axes_for(ax)
        self.ax_ = ax
        total, found = len(self.label_quality), int(self.is_label_issue.sum())
        style = {"color": GREY, "linewidth": 1.5, "label": f"all {total:,} labels"}
        (self.line_,) = ax.plot(rank, quality, **line_style(style, kwargs))
        (self.suspects_,) = ax.plot(
            rank[issue], quality[issue], color=RED, marker="o", markersize=3.5,
            linestyle="none", label=f"{found:,} suspect ({found / total:.1%})",
        )  # fmt: skip
        ax.set(
            xlabel="training rows, the least plausible label first",
            ylabel="label quality",
            xlim=(0, len(order) + 1),
            ylim=(0.0, 1.05 * float(quality.max()) or 1.0),
        )
        ax.legend(frameon=False, loc="lower right")
        tidy(ax)
        return self
