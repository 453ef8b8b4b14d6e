"""Explanation of a fitted booster: contributions of features, leaves, importances, and the trees as text."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maboost.boosting.ensemble import Ensemble
from maboost.data.parquet import is_stored
from maboost.learners.tree.learner import TreeHypothesis
from maboost.learners.tree.predictor import Tree
from maboost.runtime.threads import Threads, available_threads

__all__ = ["Explaining", "own_trees"]

Array = NDArray[np.float64]


def own_trees(model: Any, caller: str) -> list[Tree]:
    """Return the trees of a fitted booster, one for each round.

    Raises
    ------
    ValueError
        If the model has estimators of another kind; the message names the `caller`.
    """
    check_is_fitted(model)
    for t, hypothesis in enumerate(model.ensemble_.hypotheses):
        if not isinstance(hypothesis, TreeHypothesis):
            name = type(getattr(hypothesis, "estimator", hypothesis)).__name__
            raise ValueError(
                f"{caller} reads the trees of HistTreeClassifier, the default estimator, but round {t + 1} of this "
                f"model is a {name}, whose inside it does not know: fit with estimator=None or a "
                "HistTreeClassifier, or use a tool for any model, such as sklearn.inspection.permutation_importance"
            )
    return model.ensemble_.trees()


class Explaining:
    """The methods of a fitted booster that explain it; all but `feature_importance` need the library's own trees."""

    classes_: NDArray[Any]
    ensemble_: Ensemble
    n_features_in_: int
    n_jobs: int | None

    def _checked_rows(self, X: Any) -> Any:
        raise NotImplementedError

    def _stored_blocks(self, X: Any) -> Any:
        raise NotImplementedError

    def predict_contributions(self, X: Any) -> Array:
        r"""Return the contribution of every feature to the votes of every row: SHAP values.

        The contributions of a row and the expected vote add up to its vote :math:`H(x)`, which is
        `decision_function`, except with `flip_rates` and more than two classes: there `decision_function` returns
        probabilities. They are Shapley values under the distribution of each round, as in LightGBM's ``pred_contrib``:
        where a feature is unknown, a row follows both sides of a split in the ratio of their weights
        (:mod:`maboost.learners.tree.contributions`). Contributions are in units of votes, not of probabilities.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or rows on disk
            Of shape (n_samples, n_features).

        Returns
        -------
        array of shape (n_samples, n_features + 1), or (n_samples, n_classes, n_features + 1) for more than two classes
            The last column is the expected vote, the same for all rows. For two classes a positive contribution speaks
            for ``classes_[1]``.

        Raises
        ------
        ValueError
            For estimators other than HistTreeClassifier.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from maboost import MABoostClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = MABoostClassifier(n_estimators=5).fit(X, y)
        >>> parts = model.predict_contributions(X)
        >>> parts.shape, bool(np.allclose(parts.sum(axis=1), model.decision_function(X)))
        ((569, 31), True)
        """
        own_trees(self, "predict_contributions(X)")
        threads = Threads(available_threads(self.n_jobs))
        found = self._on_rows(X, lambda rows: self.ensemble_.contributions(rows, threads))
        return found if len(self.classes_) > 2 else found[:, 0]

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Return the leaf of every row in every tree.

        Returns
        -------
        array of shape (n_samples, n_trees)
            The number of the leaf among the nodes of its tree, as in :func:`sklearn.tree.DecisionTreeClassifier.apply`
            and in `dump_model`; the root is node 0.

        Examples
        --------
        >>> from maboost import MABoostClassifier
        >>> model = MABoostClassifier(n_estimators=1, max_depth=1).fit([[0.0], [1.0]], [0, 1])
        >>> model.apply([[0.0], [1.0]]).tolist()
        [[1], [2]]
        """
        own_trees(self, "apply(X)")
        threads = Threads(available_threads(self.n_jobs))
        found: NDArray[np.int32] = self._on_rows(X, lambda r: self.ensemble_.leaves(r, threads))
        return found

    def _on_rows(self, X: Any, of_rows: Any) -> Any:
        """Return the answers on rows in memory or on disk."""
        if is_stored(X):
            return np.concatenate([of_rows(block) for block in self._stored_blocks(X)])
        return of_rows(self._checked_rows(X))

    def feature_importance(
        self, importance_type: Literal["gain", "split"] = "gain"
    ) -> NDArray[Any]:
        """Return the importance of every feature.

        Parameters
        ----------
        importance_type : {"gain", "split"}, default="gain"
            "gain" is `feature_importances_`: the share of the gain of each tree, averaged with the steps as weights.
            "split" is the number of splits by the feature in all trees. The names are LightGBM's, whose default is
            "split".

        Returns
        -------
        array of shape (n_features,)

        Examples
        --------
        >>> from maboost import MABoostClassifier
        >>> model = MABoostClassifier(n_estimators=2, max_depth=1).fit([[0, 0], [0, 1]], [0, 1])
        >>> model.feature_importance("split").tolist()
        [0, 1]
        """
        if importance_type == "gain":
            gain: Array = self.feature_importances_  # type: ignore[attr-defined]
            return gain
        if importance_type != "split":
            raise ValueError(f"importance_type must be 'gain' or 'split', got {importance_type!r}")
        trees = own_trees(self, "feature_importance('split')")
        used = [tree.feature[tree.feature >= 0] for tree in trees]
        found = np.concatenate([*used, np.empty(0, dtype=np.int32)])
        return np.bincount(found, minlength=self.n_features_in_)

    def dump_model(
        self, format: Literal["text", "json"] = "text", *, max_rounds: int | None = 100
    ) -> str:
        """Return the trees as text for people, or as JSON for programs.

        Parameters
        ----------
        format : {"text", "json"}, default="text"
            Text rounds numbers to six digits and shortens long sets of categories. JSON is complete and exact; the keys
            are described in docs/explaining.md; later versions only add keys.
        max_rounds : int or None, default=100
            The largest number of rounds to write; None writes all. Both formats tell the number of rounds in the model.

        Returns
        -------
        str

        Examples
        --------
        >>> from maboost import MABoostClassifier
        >>> model = MABoostClassifier(n_estimators=1, max_depth=1).fit([[0.0], [1.0]], [0, 1])
        >>> print(model.dump_model())
        MABoostClassifier: 1 round, classes [0, 1]
        <BLANKLINE>
        round 1, weight 1.38768
          0: x0 <= 0.5, missing left, cover 1, gain 1
            1: value -1, cover 0.5
            2: value 1, cover 0.5
        """
        from maboost.estimators.dump import dumped

        return dumped(self, own_trees(self, "dump_model()"), format, max_rounds)
