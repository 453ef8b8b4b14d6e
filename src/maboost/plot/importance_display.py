"""Display of the features that the trees use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maboost.plot._axes import BLUE, axes_for, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FeatureImportanceDisplay"]


class FeatureImportanceDisplay:
    """The most important features, as bars.

    The importance of a feature is the share of the trees' gain that its splits brought. It shows what
    the model uses, not what causes the label.

    Parameters
    ----------
    importances : array of shape (n_features,)
    feature_names : sequence of str
        One name for each feature.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.
    bars_ : BarContainer
        The most important feature first.
    shown_ : array of int
        The features of the bars.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MABoostClassifier
    >>> from maboost.plot import FeatureImportanceDisplay
    >>> data = load_breast_cancer()
    >>> model = MABoostClassifier(n_estimators=10, random_state=0).fit(data.data, data.target)
    >>> display = FeatureImportanceDisplay.from_estimator(
    ...     model, max_features=5, feature_names=data.feature_names
    ... )
    >>> len(display.bars_)
    5
    """

    def __init__(self, importances: ArrayLike, feature_names: Sequence[str]) -> None:
        self.importances = np.asarray(importances, dtype=float)
        self.feature_names = [str(name) for name in feature_names]
        if self.importances.shape != (len(self.feature_names),):
            raise ValueError(
                f"feature_names has {len(self.feature_names)} names for "
                f"{self.importances.size} features"
            )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        max_features: int = 20,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the importances of a fitted model.

        Parameters
        ----------
        model : a fitted booster or tree
        max_features : int, default=20
            The largest number of bars.
        feature_names : sequence of str, optional
            By default the columns of the table the model was fitted on, else x0, x1, ...
        ax : matplotlib axes, optional
        **kwargs
            As in :meth:`plot`.

        Returns
        -------
        FeatureImportanceDisplay
        """
        check_is_fitted(model)
        importances = getattr(model, "feature_importances_", None)
        if importances is None:
            raise TypeError(
                f"{cls.__name__} needs feature_importances_, which the estimators of "
                f"{type(model).__name__} do not have; trees have them"
            )
        if feature_names is None:
            plain = [f"x{i}" for i in range(len(importances))]
            feature_names = list(getattr(model, "feature_names_in_", plain))
        return cls(importances, feature_names).plot(ax=ax, max_features=max_features, **kwargs)

    def plot(self, *, ax: Axes | None = None, max_features: int = 20, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
        max_features : int, default=20
            The largest number of bars.
        **kwargs
            Style of the bars, such as `color`.

        Returns
        -------
        FeatureImportanceDisplay
        """
        if max_features < 1:
            raise ValueError(f"max_features must be at least 1, got {max_features!r}")
        self.shown_ = np.argsort(-self.importances, kind="stable")[:max_features]
        count = len(self.shown_)
        ax, self.figure_ = axes_for(ax, figsize=(6.4, 1.0 + 0.24 * count))
        self.ax_ = ax
        self.bars_ = ax.barh(
            np.arange(count), self.importances[self.shown_], **{"color": BLUE, **kwargs}
        )
        names = [self.feature_names[i] for i in self.shown_]
        ax.set_yticks(np.arange(count), names)
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(self._describe())
        tidy(ax)
        return self

    def _describe(self) -> str:
        total, count = len(self.importances), len(self.shown_)
        if count == total:
            return "importance (share of the gain)"
        share = self.importances[self.shown_].sum() / (self.importances.sum() or 1.0)
        return f"importance (share of the gain); {count} of {total} features, {share:.0%} of it"
