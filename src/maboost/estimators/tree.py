"""Histogram trees with the interface of scikit-learn."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maboost.boosting.game import Game
from maboost.data.categories import (
    CategoryCodes,
    categorical_mask,
    rare_categories,
    warn_of_rare,
)
from maboost.data.frames import checked_data
from maboost.data.labels import check_labels, label_array
from maboost.data.large_integers import warn_of_large_integers
from maboost.data.parquet import refuse_stored
from maboost.data.weights import row_weights
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeHypothesis, TreeLearner
from maboost.learners.tree.packing import counted_rows
from maboost.learners.tree.predictor import Tree
from maboost.runtime.communicator import Communicator, SerialCommunicator
from maboost.runtime.threads import Threads, available_threads

__all__ = ["INPUT", "TREE_PARAMETERS", "HistTreeClassifier", "rows_for_prediction"]

Array = NDArray[np.float64]

_LEAST_ROWS, _LEAST_SHARE = 20, 50  # min_samples_leaf="auto": 20 rows, or one row in 50


# parameters of trees that the boosters also have; "auto" keeps the tree's own value
TREE_PARAMETERS = (
    "max_depth", "max_leaf_nodes", "min_samples_leaf", "max_features", "max_bins", "categorical_features",
    "monotonic_cst", "interaction_cst", "max_features_per_tree",
)  # fmt: skip


class HistTreeClassifier(ClassifierMixin, BaseEstimator):
    """A decision tree on binned features, made for boosting under extreme weights.

    Weights are summed in fixed point, so the tree is the same for any order of rows and any
    number of threads, and a weight of 2 beside weights of 1 is the row twice. Rules that count rows
    (`min_samples_leaf`, and the price of splits by many categories) count a row as often as it would be
    repeated if all weights are integer multiples of the lightest, up to 255. With other weights they
    count every row once.

    Parameters
    ----------
    max_depth : int or None, default=3
        1 is a stump. None means no limit; then `max_leaf_nodes` or `min_samples_leaf` should be one.
    max_leaf_nodes : int or None, default=None
        The largest number of leaves, grown best leaf first; None grows level by level.
    min_samples_leaf : int or "auto", default=1
        Rows that a leaf must hold, counted without weights; "auto" is 20, or a fiftieth of the rows
        if there are fewer than 1,000.
    min_weight_fraction_leaf : float in [0, 0.5), default=0.0
        Share of the total weight that a leaf must hold.
    max_bins : int in [2, 255], default=255
        Bins of each feature; missing values have a separate bin. A categorical column may have more
        categories: the ``max_bins - 1`` of most weight have a bin each, and the others share one.
    max_features : int, float in (0, 1], "sqrt" or None, default=None
        Features drawn at each node.
    max_features_per_tree : likewise, default=None
        Features drawn for the whole tree, before those of each node.
    response : {"real", "sign"}, default="real"
        The answer of a leaf inside a booster: a number in [-1, 1] (a distribution over classes), or a
        vote. It determines the splitting criterion: weighted variance, or the edge.
    categorical_features : "from_dtype", None, mask or list, default="from_dtype"
        Categorical columns: those of text or a categorical dtype in a data frame, or the named ones. Their
        splits are subsets of categories. A real-valued split by m of them must gain m - 2 mean row
        weights more than a split by a number, since m answers fit that much noise
        (:mod:`maboost.learners.tree.splitting`). If a column has more categories than
        `max_bins`, the rare ones share a bin (see `rare_categories_`). Categories not seen in the fit are
        treated as missing.
    monotonic_cst : array or dict of {-1, 0, 1} or None, default=None
        Direction of a feature's effect on the answer, in the order of the columns or by their names; two
        classes and real responses only, and 0 for categorical features.
    interaction_cst : {"pairwise", "no_interactions"}, list of groups of columns or None, default=None
        The groups of features that may interact, as in
        :class:`sklearn.ensemble.HistGradientBoostingClassifier`: all splits on the path to a leaf are in one group.
        Columns are given by position or by name, and those in no group are a group of their own. "no_interactions" is
        a group for each column, "pairwise" one for each pair.
    random_state : int, RandomState or None, default=None
        Seeds the choice of features.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it.

    Attributes
    ----------
    classes_ : array
    tree_ : Tree
        The tree as flat arrays.
    feature_importances_ : array
        Gain by feature.
    rare_categories_ : dict
        By column (its name, or its position if it has none) the list of the categories that share a bin.
        Empty if no column has more than `max_bins` categories.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maboost import HistTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(HistTreeClassifier(max_depth=2).fit(X, y).score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "min_weight_fraction_leaf": [Interval(Real, 0, 0.5, closed="left")],
        "max_bins": [Interval(Integral, 2, 255, closed="both")],
        "max_features": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            StrOptions({"sqrt"}),
            None,
        ],
        "max_features_per_tree": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            StrOptions({"sqrt"}),
            None,
        ],
        "response": [StrOptions({"real", "sign"})],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "monotonic_cst": ["array-like", None],
        "interaction_cst": [list, tuple, StrOptions({"pairwise", "no_interactions"}), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        max_depth: int | None = 3,
        *,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int | Literal["auto"] = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_bins: int = 255,
        max_features: Any = None,
        max_features_per_tree: Any = None,
        response: Literal["real", "sign"] = "real",
        categorical_features: Any = "from_dtype",
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_bins = max_bins
        self.max_features = max_features
        self.max_features_per_tree = max_features_per_tree
        self.response = response
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------------- used by the boosters

    def weak_learner(
        self, columns: int, n_classes: int, categorical: NDArray[np.bool_], base: Array,
        threads: Threads, comm: Communicator | None = None, names: Any = None,
        repeats: Array | None = None, device: Literal["cpu", "cuda", "auto"] = "cpu",
    ) -> TreeLearner:  # fmt: skip
        """Return these parameters as a weak learner for a table of `columns` columns, which may have names.

        `base` holds the weights of the rows. `repeats` holds the weights by which rows are counted, if they
        differ. `device` says where trees grow.
        """
        repeats = base if repeats is None else repeats
        # small integer types of numpy would overflow
        depth, leaves = (
            None if size is None else int(size) for size in (self.max_depth, self.max_leaf_nodes)
        )
        rules = GrowthRules(
            max_depth=depth,
            max_leaf_nodes=leaves,
            min_samples_leaf=self._least_rows(repeats, comm or SerialCommunicator()),
            min_weight_fraction_leaf=float(self.min_weight_fraction_leaf),
            features_per_tree=_number(self.max_features_per_tree, columns),
            features_per_node=_number(self.max_features, columns),
            votes=self.response == "sign",
            monotone=self._monotone(columns, n_classes, categorical, names),
            interactions=_groups_of(self.interaction_cst, columns, names),
        )
        return TreeLearner(
            rules,
            int(self.max_bins),
            categorical,
            base,
            threads,
            comm=comm or SerialCommunicator(),
            repeats=repeats,
            device=device,
        )

    def _least_rows(self, base: Array, comm: Communicator) -> int:
        """Return the rows that a leaf must hold."""
        if self.min_samples_leaf == "auto":
            return min(_LEAST_ROWS, max(1, counted_rows(base, comm) // _LEAST_SHARE))
        return min(int(self.min_samples_leaf), sys.maxsize // 2)

    def _monotone(
        self, columns: int, n_classes: int, categorical: NDArray[np.bool_], names: Any
    ) -> tuple[int, ...] | None:
        if self.monotonic_cst is None:
            return None
        signs = _by_column(self.monotonic_cst, columns, names)
        if signs.shape != (columns,) or not np.all(np.isin(signs, (-1, 0, 1))):
            raise ValueError(
                f"monotonic_cst must be {columns} numbers out of -1, 0 and 1, or a dict of them by the "
                f"names of columns, got {self.monotonic_cst!r}"
            )
        if n_classes > 2 or self.response == "sign":
            raise ValueError(
                "monotonic_cst is defined for two classes and response='real' only, got "
                f"{n_classes} classes and response={self.response!r}"
            )
        unordered = np.flatnonzero(categorical & (signs != 0))
        if len(unordered):
            raise ValueError(
                f"monotonic_cst is {signs[unordered[0]]} for column {unordered[0]}, which is categorical "
                "and has no order: set it to 0 there, or leave the column out of categorical_features"
            )
        return tuple(int(s) for s in signs)

    @classmethod
    def from_tree(cls, like: HistTreeClassifier, tree: Tree, model: Any) -> HistTreeClassifier:
        """Return a fitted classifier around one tree of a booster."""
        made = cls(**like.get_params(deep=False))
        made.classes_, made.n_features_in_ = model.classes_, model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            made.feature_names_in_ = model.feature_names_in_
        made._codes, made.tree_ = model._codes, tree
        return made

    # ----------------------------------------------------------------------------------- on its own

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            A data frame of any library that narwhals knows, such as pandas, polars or pyarrow.
        y : array-like of shape (n_samples,)
            Labels: text, numbers or booleans.
        sample_weight : array-like of shape (n_samples,), optional
        """
        self._validate_params()
        refuse_stored(X, "X")
        self._codes = CategoryCodes.of(X)
        given = X
        X, labels = checked_data(self, self._codes.applied(X), label_array(y), **INPUT)
        warn_of_large_integers(given, list(self._codes.dtypes or range(X.shape[1])))
        check_labels(labels)
        weights = row_weights(X, labels, sample_weight, None)
        if not weights.kept.all():
            X, labels = _safe_indexing(X, np.flatnonzero(weights.kept)), labels[weights.kept]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        K = max(len(self.classes_), 2)
        names = getattr(self, "feature_names_in_", None)
        mask = categorical_mask(self.categorical_features, self._codes, names, X.shape[1])
        threads = Threads(available_threads(self.n_jobs))
        learner = self.weak_learner(X.shape[1], K, mask, weights.scaled, threads, names=names)
        producer = learner.prepare(X, codes, K)
        # in units of the lightest, so that integer weights give the same sums as repeated rows: in another
        # unit the rounding of gains differs, which would decide between equally good splits
        shown = weights.scaled / weights.scaled.min()
        rewards = None
        if K > 2:
            rewards = Game(codes, K).rewards(np.repeat(shown / (K - 1), K - 1))
        found = producer.produce(shown, None, rewards, check_random_state(self.random_state))
        self.tree_ = found.tree
        warn_of_rare(self.rare_categories_, int(self.max_bins), stacklevel=3)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the leaves' answers as probabilities."""
        check_is_fitted(self, "tree_")
        X = rows_for_prediction(self, X, INPUT)
        scores = TreeHypothesis(self.tree_).scores(X)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if scores.ndim == 2:
            return scores
        p = 0.5 * (1.0 + scores)
        return np.column_stack([1.0 - p, p])

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class."""
        proba = self.predict_proba(X)
        return self.classes_[np.argmax(proba, axis=1)]

    @property
    def feature_importances_(self) -> Array:
        """Gain by feature, summing to one."""
        check_is_fitted(self, "tree_")
        return self.tree_.importances(self.n_features_in_)

    @property
    def rare_categories_(self) -> dict[Any, list[Any]]:
        """The categories that share a bin, by column."""
        check_is_fitted(self, "tree_")
        names = getattr(self, "feature_names_in_", None)
        return rare_categories(self.tree_.rare or {}, self._codes, names)

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self, "tree_")
        return int(np.sum(self.tree_.feature < 0))

    def get_depth(self) -> int:
        """Return the length of the longest path from the root to a leaf."""
        check_is_fitted(self, "tree_")
        return self.tree_.depth

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


INPUT: dict[str, Any] = {
    "accept_sparse": ["csr", "csc"],
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",
}


def rows_for_prediction(model: Any, X: Any, options: dict[str, Any]) -> Any:
    """Return checked rows for a fitted model; `options` are those of scikit-learn's check."""
    numbers = model._codes.numbers(X)
    if numbers is None:
        return checked_data(model, model._codes.applied(X), reset=False, **options)
    # names and dtypes are those of the fit, so only the values are left to check
    return check_array(numbers, estimator=model, input_name="X", **options)


def _by_column(signs: Any, columns: int, names: Any) -> NDArray[Any]:
    """Return `monotonic_cst` in the order of the columns; columns that a dict does not name are free."""
    if not isinstance(signs, dict):
        return np.asarray(signs)
    known = [] if names is None else list(names)
    for name in signs:
        if name not in known:
            raise ValueError(
                f"monotonic_cst names column {name!r}, which is not in X; "
                + (f"X has {known!r}" if known else "X has no names of columns")
            )
    return np.array([signs.get(name, 0) for name in known or range(columns)])


def _groups_of(constraint: Any, columns: int, names: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return the groups of `interaction_cst` as positions of columns; None if all may interact."""
    if constraint is None:
        return None
    if isinstance(constraint, str):
        size = 1 if constraint == "no_interactions" else min(2, columns)
        return tuple(combinations(range(columns), size))
    known = {} if names is None else {name: j for j, name in enumerate(names)}
    groups = []
    for group in constraint:
        if isinstance(group, str) or not isinstance(group, Iterable):
            raise ValueError(
                f"interaction_cst must hold groups of columns, such as [[0, 1], [2]], got {group!r} in it"
            )
        chosen: set[Any] = {known.get(column, column) for column in group}
        for column in chosen:
            if not isinstance(column, Integral) or not 0 <= int(column) < columns:
                raise ValueError(
                    f"interaction_cst names column {column!r}, which is not in X; X has {columns} columns"
                    + (f": {list(known)!r}" if known else ", numbered from 0")
                )
        groups.append(tuple(sorted(int(column) for column in chosen)))
    rest = tuple(sorted(set(range(columns)) - {column for group in groups for column in group}))
    return (*groups, rest) if rest else tuple(groups)


def _number(features: Any, columns: int) -> int | None:
    """Return the number of features for `max_features`; None means all."""
    if features is None:
        return None
    if features == "sqrt":
        return max(1, int(math.sqrt(columns)))
    if isinstance(features, Integral):
        return min(int(features), columns)
    return max(1, int(features * columns))
