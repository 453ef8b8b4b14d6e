"""Display of the error on each data source, with its limit and its certified error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from maboost.plot._axes import (
    DASHES,
    GREY,
    HUES,
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

__all__ = ["DomainErrorDisplay"]


class DomainErrorDisplay:
    """Measured training error by round on each data source.

    A dotted line of the source's colour is its limit. The mark is the certified error of the model, which is at or
    above the curve in that round.

    Parameters
    ----------
    errors : mapping from source to array of shape (n_rounds,)
        Measured error after each round.
    limits : mapping from source to float or None, optional
        The error allowed on each; None for a primary source.
    error_bounds : mapping from source to float, optional
        Certified error of the model.
    kept : int, optional
        The number of rounds the model keeps, if early stopping ran more.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    lines_ : dict from source to Line2D
    limit_lines_ : dict from source to Line2D
        Only sources with a limit.
    bound_marks_ : dict from source to Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import CombinedBoostClassifier
    >>> from maboost.plot import DomainErrorDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> source = np.where(np.arange(len(y)) % 3 == 0, "trusted", "scraped")
    >>> model = CombinedBoostClassifier(error_limits={"trusted": None, "scraped": 0.2})
    >>> model = model.set_params(n_estimators=10, random_state=0).fit(X, y, sample_domain=source)
    >>> display = DomainErrorDisplay.from_estimator(model)
    >>> sorted(display.lines_), sorted(display.limit_lines_)
    (['scraped', 'trusted'], ['scraped'])
    """

    def __init__(
        self,
        errors: Mapping[Any, ArrayLike],
        *,
        limits: Mapping[Any, float | None] | None = None,
        error_bounds: Mapping[Any, float] | None = None,
        kept: int | None = None,
    ) -> None:
        self.errors = {name: np.asarray(e, dtype=float) for name, e in errors.items()}
        self.limits = dict(limits or {})
        self.error_bounds = dict(error_bounds or {})
        self.kept = kept

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the errors of a fitted `CombinedBoostClassifier`.

        Parameters
        ----------
        model : CombinedBoostClassifier
            Fitted, with `sample_domain`.
        ax : matplotlib axes, optional
        **kwargs
            As in :meth:`plot`.

        Returns
        -------
        DomainErrorDisplay
        """
        errors = fitted_booster(model, cls).history_.group_errors
        if not errors:
            raise ValueError(
                f"{cls.__name__} needs a CombinedBoostClassifier fitted with sample_domain; this "
                f"{type(model).__name__} has no data sources"
            )
        groups = model.certificate_.groups
        limits = {name: groups[name].limit for name in errors}
        bounds = {n: groups[n].error_bound for n in errors if groups[n].mass is None}
        display = cls(errors, limits=limits, error_bounds=bounds, kept=kept_rounds(model))
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, yscale: YScale = "auto", **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
        yscale : {"auto", "linear", "log"}, default="auto"
            "auto" is logarithmic where the errors differ by more than a factor of 20.
        **kwargs
            Style of the measured lines, such as `linewidth`.

        Returns
        -------
        DomainErrorDisplay
        """
        ax, self.figure_ = axes_for(ax, figsize=(7.6, 4.0))
        self.ax_ = ax
        self.lines_, self.limit_lines_, self.bound_marks_ = {}, {}, {}
        for i, (name, errors) in enumerate(self.errors.items()):
            color, dashes = HUES[i % len(HUES)], DASHES[i % len(DASHES)]
            style = {"color": color, "linestyle": dashes, "label": self._label(name)}
            rounds = np.arange(1, len(errors) + 1)
            (self.lines_[name],) = ax.plot(rounds, errors, **line_style(style, kwargs))
            limit, bound = self.limits.get(name), self.error_bounds.get(name)
            if limit is not None:
                self.limit_lines_[name] = ax.axhline(limit, **limit_style(color))
            if bound is not None:
                (self.bound_marks_[name],) = ax.plot(
                    [self.kept or rounds[-1]], [bound], color=color, marker="v", markersize=9,
                    markeredgecolor="white", linestyle="none", clip_on=False, zorder=4,
                )  # fmt: skip
        if self.kept is not None:
            ax.axvline(self.kept, color=GREY, linewidth=0.8)
        numbers = [np.array([v]) for v in (*self.limits.values(), *self.error_bounds.values()) if v]
        error_axis(ax, [*self.errors.values(), *numbers], yscale)
        round_axis(ax, max(len(e) for e in self.errors.values()))
        ax.set_ylabel("training error of the source")
        self._legend(ax)
        tidy(ax)
        return self

    def _label(self, name: Any) -> str:
        limit, bound = self.limits.get(name), self.error_bounds.get(name)
        allowed = [] if limit is None else [f"limit {limit:.3g}"]
        certified = [] if bound is None else [f"certified {bound:.3g}"]
        notes = ", ".join(allowed + certified)
        return f"{name}\n({notes})" if notes else str(name)

    def _legend(self, ax: Axes) -> None:
        """Add a legend of sources by colour, and of the two other signs."""
        from matplotlib.lines import Line2D

        handles = list(self.lines_.values())
        if self.limit_lines_:
            handles.append(Line2D([], [], label="limit", **limit_style()))
        if self.bound_marks_:
            handles.append(
                Line2D([], [], color="black", marker="v", linestyle="none", label="certified")
            )
        legend_beside(ax, handles=handles)
