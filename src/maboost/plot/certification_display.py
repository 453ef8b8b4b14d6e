"""Display of the error bounds on fresh rows, with the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from maboost.certification import Certification, certify
from maboost.plot._axes import BLUE, GREEN, ORANGE, RED, axes_for, line_style, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CertificationDisplay"]

_STYLES = {  # colour and marker by status
    None: (BLUE, "o"),
    "met": (GREEN, "o"),
    "open": (ORANGE, "s"),
    "violated": (RED, "X"),
}


class CertificationDisplay:
    """Confidence bounds of the error on fresh rows: overall, by group and by class.

    Each line is an interval, its marker the estimate. A black tick is a limit. Colour and marker say whether the
    limit is met (circle), open (square) or violated (cross).

    Parameters
    ----------
    certification : Certification
        From :func:`maboost.certify`.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    intervals_ : list of Line2D
        One for each error, in the order of ``certification.errors``.
    estimates_ : list of Line2D
    limit_marks_ : dict from title to Line2D
        Only errors with a limit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier
    >>> from maboost.plot import CertificationDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(n_estimators=10, random_state=0).fit(X[::2], y[::2])
    >>> display = CertificationDisplay.from_estimator(model, X[1::2], y[1::2], limits=0.1)
    >>> len(display.intervals_), sorted(display.limit_marks_)
    (3, ['overall'])
    """

    def __init__(self, certification: Certification) -> None:
        self.certification = certification

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Certify a fitted classifier on fresh rows, and draw the result.

        Parameters
        ----------
        model : a fitted classifier, of any library
        X, y
            Fresh rows and their labels.
        ax : matplotlib axes, optional
        **kwargs
            As in :func:`maboost.certify`.

        Returns
        -------
        CertificationDisplay
        """
        return cls(certify(model, X, y, **kwargs)).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
        **kwargs
            Style of the intervals, such as `linewidth`.

        Returns
        -------
        CertificationDisplay
        """
        errors = self.certification.errors
        ax, self.figure_ = axes_for(ax, figsize=(6.4, 1.2 + 0.4 * len(errors)))
        self.ax_ = ax
        self.intervals_, self.estimates_, self.limit_marks_ = [], [], {}
        for i, error in enumerate(errors):
            color, marker = _STYLES[error.status]
            style = line_style({"color": color, "linewidth": 3.0, "solid_capstyle": "butt"}, kwargs)
            self.intervals_ += ax.plot([error.lower, error.upper], [i, i], **style)
            self.estimates_ += ax.plot(
                [min(max(error.estimate, 0.0), 1.0)], [i], color=color, marker=marker, markersize=7.5,
                markeredgecolor="white", linestyle="none", zorder=3,
            )  # fmt: skip
            if error.limit is not None:
                (self.limit_marks_[error.title],) = ax.plot(
                    [error.limit], [i], color="black", marker="|", markersize=18, markeredgewidth=1.8,
                    linestyle="none", zorder=4,
                )  # fmt: skip
        ax.set_yticks(np.arange(len(errors)), [error.title for error in errors])
        ax.set_ylim(len(errors) - 0.4, -0.6)
        ends = [v for e in errors for v in (e.upper, e.limit) if v is not None]
        ax.set_xlim(0.0, min(1.02, 1.05 * max(ends) or 1.0))
        ax.set_xlabel(
            f"error against {self.certification.labels} labels, "
            f"{100.0 * self.certification.confidence:.6g}% bounds"
        )
        self._legend(ax)
        tidy(ax)
        return self

    def _legend(self, ax: Axes) -> None:
        """Add a legend of colours, markers and ticks if there are limits."""
        from matplotlib.lines import Line2D

        if not self.limit_marks_:
            return
        present = {error.status for error in self.certification.errors} - {None}
        handles = [
            Line2D(
                [], [], color=_STYLES[s][0], marker=_STYLES[s][1], linewidth=3.0, label=f"limit {s}"
            )
            for s in ("met", "open", "violated")
            if s in present
        ]
        tick: dict[str, Any] = {
            "color": "black",
            "marker": "|",
            "markersize": 12,
            "markeredgewidth": 1.8,
        }
        handles.append(Line2D([], [], linestyle="none", label="limit", **tick))
        ax.legend(handles=handles, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
