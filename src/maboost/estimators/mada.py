"""MadaBoost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, column_or_1d

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import STEPS, madaboost
from maboost.boosting.streaming import Filter
from maboost.data.categories import CategoryCodes
from maboost.data.labels import label_array, unknown_labels
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.control import unchanged_by_failure
from maboost.estimators.stream_fit import boost_stream

__all__ = ["MadaBoostClassifier"]


class MadaBoostClassifier(BoostingClassifier):
    r"""MadaBoost: the weight of a row is a function of its margin alone, and never above one.

    .. math:: y_i = \min(1, e^{-M_i}), \qquad w = D y / \sum_j D_j y_j

    **Guarantee.** Training error at most :math:`\Phi(H) = \sum_i D_i\psi(-M_i)` with
    :math:`\psi(x) = e^x` for :math:`x \le 0` and :math:`1+x` above, for any positive steps (times
    K - 1 with K classes). The rates are about the least error over the rounds, :math:`\varepsilon_t`
    being the error before round t, and about whole steps: with the paper's step
    :math:`\min_t\varepsilon_t \le \sqrt{2/\sum\gamma_t^2}` (Theorem 5); with the corrective step
    :math:`\sum_t\varepsilon_t\gamma_t^2 \le 2(1-\varepsilon_T)`, which is the rate
    :math:`O(1/(\varepsilon\gamma^2))` the paper doubts. A learning rate :math:`\nu` makes the constant
    :math:`2/\nu`.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier; one whose `fit` takes no `sample_weight` is served by seeded
        weighted resampling. None means a histogram tree, a :class:`HistTreeClassifier` with the
        parameters below in which no leaf weighs less than a millionth of the distribution.
    n_estimators : int or "auto", default="auto"
        The largest number of rounds. "auto" is 300 with early stopping, and 100 without.
    learning_rate : float in (0, 1], default=0.1
        Factor on every step. Small steps gain less each, so that they need more rounds, and follow
        wrong labels less.
    step : {"corrective", "paper", "maxmargin"} or StepRule, default="corrective"
        The step of largest gain, the step of the proofs, or the step of Theorem 2.
    max_depth, max_leaf_nodes, min_samples_leaf, max_features, max_bins, categorical_features, monotonic_cst
        Parameters of the booster's own trees, each "auto" by default, with the meaning they have in
        :class:`HistTreeClassifier`. Here "auto" is any depth, 15 leaves, and 20 rows a leaf (a fiftieth
        of the rows where there are fewer than 1,000). Giving only one of `max_depth` and
        `max_leaf_nodes` lifts the other limit. They cannot be given together with an `estimator`.
    response : {"votes", "proba"}, default="votes"
        Whether an estimator's `predict` or its `predict_proba` (2p - 1) is boosted. A
        `HistTreeClassifier` has its own `response`.
    trim : float in [0, 1), "auto" or "certain", default=0.0
        Mass of the lightest rows hidden from the estimator; "auto" is the certified rule, which keeps
        at least half of the edge and hides half of the rows or none. "certain" shows a sample in which
        denser rows are likelier, twice as large until the edge found on it is statistically certain,
        and all rows where an eighth of them is not enough
        (:class:`maboost.boosting.row_sampling.adaptive.Certain`): for rows that are many, or on disk. The edge is
        always measured on all rows.
    early_stopping : bool or "auto", default="auto"
        Stop when the validation score no longer rises, and keep the rounds up to the best. The
        validation rows are `X_val` where `fit` is given them, otherwise rows held out of X. "auto"
        stops early from 10,000 rows on (`min_samples_leaf` says how rows are counted), or where there
        is an `X_val`.
    validation_fraction : float in (0, 1), default=0.1
        Share of every class to hold out, chosen by a seeded hash of the rows' values: equal rows stay
        together, and neither order nor repetition changes the choice. With `groups` in `fit`, whole
        groups.
    n_iter_no_change : int, default=20
        Rounds without a rise of more than `tol` before stopping.
    tol : float, default=1e-7
        The smallest rise that counts.
    scoring : str or callable, default="neg_log_loss"
        What is watched: "neg_log_loss" (of probabilities scaled on the same rows), "accuracy", or any
        scikit-learn scorer.
    target_error : float, optional
        Stop at this training error, measured or certified, whichever comes first.
    max_seconds : float, optional
        Stop after this time, at the end of a round; binning the rows and finding a cap count too.
    flip_rates : dict, float, matrix or None, default=None
        The share of the rows of each *true* class whose label is another: ``{"fraud": 0.4}`` (classes not
        named: 0), 0.2 for all classes, or the matrix of P(given | true) in the order of `classes_`. With two
        classes given labels then have weights under which they stand for true ones; with more, votes stay on
        given labels and probabilities are corrected. Predictions, probabilities and scores are about
        **true** labels, `class_weight` holds costs of true classes (two classes only), and the certificate
        bounds the weighted error on the *given* labels of the training rows. See :mod:`maboost.noise`.
    class_weight : dict, "balanced" or None, default=None
        Factors on the base measure by class.
    warm_start : bool, default=False
        Let the next `fit` on the same rows go on from the last round of this one; the result has the
        same bits as one long fit.
    checkpoint : path-like, optional
        A file for the state of the fit, written every `checkpoint_every` rounds and at the end: whole
        or not at all, so that a fit that is killed can go on. One file serves one fit at a time. Only
        for the library's own trees. `save` does not store this and the next two parameters.
    checkpoint_every : int, default=10
        Rounds between two writes.
    resume : bool, default=False
        Go on from the file at `checkpoint`, to the same bits as a fit that was never stopped; begin
        anew where there is none. Rows and parameters must be those of the checkpoint, but for
        `n_estimators` (the total), `checkpoint_every`, `n_jobs`, `verbose` and what stops a fit early:
        `max_seconds`, `target_error`, `n_iter_no_change` and `tol`. Without `resume` a file there is
        replaced.
    random_state : int, RandomState or None, default=None
        Seeds the estimators and the resampling.
    n_jobs : int or None, default=None
        Threads of the tree engine and of the distribution's updates; None means all cores. The model
        does not depend on it. Foreign estimators have their own.
    verbose : int, default=0
        A progress bar on a terminal; elsewhere a line every so many rounds. Goes to stderr.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    estimators_ : list of fitted estimators
    estimator_weights_ : array
        The steps.
    estimator_errors_ : array
        The weighted error of each estimator under its own distribution.
    history_ : History
        One record a round: edge, step, gain, bound, errors, margins, distribution.
    certificate_ : Certificate
        What is promised and what was measured.
    distribution_ : array of shape (n_samples,)
        The distribution over the training rows after the last round that was run.
    n_iter_ : int
        Rounds in the model.
    best_iteration_ : int
        The round of the best validation score; `n_iter_` where no rows watched.
    probability_scale_ : float
        The factor on the votes in `predict_proba`.
    feature_importances_ : array of shape (n_features,)
    rare_categories_ : dict
        By column the categories that share a bin; empty if no column has more than `max_bins`.
    flip_rates_ : array of shape (n_classes, n_classes) or None
        The rates that were used, P(given | true).
    n_inert_rows_ : int
        Training rows without weight, or next to none, which took no part.
    n_features_in_, feature_names_in_
        As in every scikit-learn estimator.

    References
    ----------
    Naghibi and Pfister (2014), "A boosting framework on grounds of online learning".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MadaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MadaBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.certificate_.measured_error <= model.certificate_.error_bound
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "step": [StrOptions(set(STEPS)), callable],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | Literal["auto"] = "auto",
        learning_rate: float = 0.1,
        step: Any = "corrective",
        max_depth: int | Literal["auto"] | None = "auto",
        max_leaf_nodes: int | Literal["auto"] | None = "auto",
        min_samples_leaf: int | Literal["auto"] = "auto",
        max_features: Any = "auto",
        max_bins: int | Literal["auto"] = "auto",
        categorical_features: Any = "auto",
        monotonic_cst: Any = "auto",
        response: Literal["votes", "proba"] = "votes",
        trim: float | Literal["auto", "certain"] = 0.0,
        early_stopping: bool | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        scoring: Any = "neg_log_loss",
        target_error: float | None = None,
        max_seconds: float | None = None,
        flip_rates: Any = None,
        class_weight: Any = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.step = step
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.response = response
        self.trim = trim
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.target_error = target_error
        self.max_seconds = max_seconds
        self.flip_rates = flip_rates
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _plan(self, rows: TrainingRows) -> tuple[Booster, None]:
        return madaboost(self.step, self.learning_rate, self.trim), None

    def fit_stream(
        self,
        batches: Iterable[tuple[Any, ArrayLike]],
        *,
        classes: ArrayLike | None = None,
        sample_size: int = 10_000,
        confidence: float = 0.95,
    ) -> Self:
        r"""Boost by filtering: rows stream by, and nothing is kept of any of them.

        A row is accepted with probability :math:`\min(1, e^{-M})`. A round takes `sample_size` accepted
        rows, trains on half of them and measures the edge on the other half; the step is the one for the
        edge that Hoeffding's bound leaves (where that is less than half of the measured edge, more rows
        are drawn). The acceptance rate is at least the error, so that Clopper and Pearson's upper limit
        of it is a certificate: training stops where it falls to `target_error`.

        Parameters
        ----------
        batches : iterable of (X, y)
            Endless or not. A stream that ends leaves the rounds done, with a warning if the next round
            could not be finished, and so does Ctrl-C.
        classes : array-like of two labels, optional
            Those of the first batch if None.
        sample_size : int, default=10000
            Accepted rows a round.
        confidence : float in (0, 1), default=0.95
            With which all statements hold together, those about edges and those about errors each.

        Returns
        -------
        self
            ``history_`` has the lower limit of the edge as `edge`, the share of rows of the stream that
            were wrong as `train_error`, and the upper limit of the acceptance rate as `error_bound`, both
            of the ensemble after that round, measured on the rows drawn for the next.
        """
        self._validate_params()
        if not self._own_trees():
            raise ValueError("fit_stream needs the library's own trees: estimator=None")
        self._refuse_what_streams_ignore()
        if not isinstance(confidence, Real) or not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
        if not isinstance(sample_size, Integral) or sample_size < 4:
            raise ValueError(f"sample_size must be a whole number, 4 or more, got {sample_size!r}")
        random_state = check_random_state(self.random_state)
        with unchanged_by_failure(self):
            stream = _Stream(self, iter(batches), classes)
            boost_stream(
                self, Filter(stream, random_state), sample_size, 1.0 - confidence, random_state
            )
        return self

    def _refuse_what_streams_ignore(self) -> None:
        defaults = signature(type(self)).parameters
        for name, why in _NOT_FOR_STREAMS.items():
            value = getattr(self, name)
            if value != defaults[name].default and value is not False:
                raise ValueError(f"fit_stream cannot heed {name}={value!r}: {why}")


_NOT_FOR_STREAMS = {
    "class_weight": "rows of a stream are accepted by their margin alone; weigh the stream itself",
    "step": "the step follows from the edge that the rows of a round leave certain",
    "flip_rates": "rows of a stream are accepted by their margin alone; give flip_rates to fit",
    "trim": "a round trains on all rows that it accepts",
    "early_stopping": "set target_error, which is measured on new rows",
    "warm_start": "nothing is kept of a stream to go on from",
    "checkpoint": "nothing is kept of a stream to go on from; set max_seconds and save the model",
    "resume": "nothing is kept of a stream to go on from",
}


class _Stream:
    """Batches of a user, checked and encoded; the first one says what the columns and classes are."""

    def __init__(self, model: Any, batches: Iterator[Any], classes: ArrayLike | None) -> None:
        self.model = model
        pairs = map(_batch, batches)
        self.batches = ((X, y) for X, y in pairs if np.shape(X)[:1] != (0,))
        self.first = next(self.batches, None)
        if self.first is None:
            raise ValueError("batches: the stream has no batch at all")
        X, y = self.first
        model._codes = CategoryCodes.of(X)
        model._checked(X, y)
        known = np.unique(y if classes is None else np.asarray(classes))
        if len(known) != 2:
            raise ValueError(
                f"fit_stream boosts two classes, got {known.tolist()[:5]!r}; name both by `classes` where "
                "the first batch has not both"
            )
        model.classes_ = known

    def __iter__(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.intp]]]:
        while self.first is not None:
            X, labels = self.first
            rows = self.model._checked_rows(X)
            check_consistent_length(rows, labels)
            strange = unknown_labels(labels, self.model.classes_)
            if strange:
                raise ValueError(f"batches: labels that are not in classes: {strange[:5]!r}")
            yield rows, np.searchsorted(self.model.classes_, labels)
            self.first = next(self.batches, None)


def _batch(given: Any) -> tuple[Any, NDArray[Any]]:
    """Rows and labels of a batch."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        what = f"{len(given)} things" if isinstance(given, tuple | list) else type(given).__name__
        raise ValueError(f"batches: a batch is a pair (X, y), got {what}")
    X, y = given
    return X, column_or_1d(label_array(y), warn=True)
