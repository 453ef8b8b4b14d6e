"""SparseBoost."""

from __future__ import annotations

import os
from numbers import Real
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import STEPS, sparseboost
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier

__all__ = ["SparseBoostClassifier"]


class SparseBoostClassifier(BoostingClassifier):
    r"""SparseBoost: a distribution with exact zeros, so that rounds touch only a part of the rows.

    Composite mirror ascent on the orthant:

    .. math:: s_{t+1} = \max(0, s_t + \eta_t(d_t - \alpha_t)), \qquad w_t = D s_t / n_t,

    with :math:`n_t = \sum D_i s_i` and :math:`\alpha_t = (1-\kappa)\gamma_t n_t`.

    **Guarantee.** With the total penalty :math:`A = \sum_t\eta_t\alpha_t`, at most 1/2 with the steps offered here,
    a wrong row keeps :math:`s_i \ge 1 - A`, so that

    .. math:: \varepsilon \le \min\Bigl(\frac{\sum_i D_i s_{T,i}^2}{(1-A)^2},\; \frac{n_T}{1-A}\Bigr)

    (times K - 1 for K classes). That is never above :math:`1 - 2G`, nor above Theorem 4's :math:`1/(1 + 2G)`.
    It boosts for every `kappa` and every `l1_decay`: with the paper's step
    :math:`\sum_t\varepsilon_t^2\gamma_t^2 \le 4/\kappa^2`. Rows of weight zero are not shown to the estimator,
    which changes nothing.

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
    kappa : float in (0, 1], default=1.0
        1 is no explicit l1 penalty; smaller values pull all weights towards zero, with shorter steps,
        and may end the run when all are zero.
    l1_decay : float, optional
        Let the penalty :math:`\alpha_t` be at most ``l1_decay / t**2``. Needs kappa < 1.
    sparsity : float in (0, 1), optional
        The share of the rows (of the base measure) that is left out of every round: the estimator is
        shown a sample in which denser rows are likelier, chosen by their content. A sample is held, and
        trees read a copy of it in memory, until its effective size has halved or what is found on it no
        longer carries over to all rows; see :class:`maboost.boosting.row_sampling.budget.Budget`. The edge is
        measured on all rows in every round, so that the certificate stays exact; where three samples give
        none, all rows are shown. Not together with `trim`.
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
        One record a round: edge, step, gain, bound, errors, margins, distribution, rows and bytes read.
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
    >>> from maboost import SparseBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.history_["rows_used"][-1] < 0.6 * len(y))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "kappa": [Interval(Real, 0, 1, closed="right")],
        "sparsity": [Interval(Real, 0, 1, closed="neither"), None],
        "l1_decay": [Interval(Real, 0, None, closed="neither"), None],
        "step": [StrOptions(set(STEPS)), callable],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | Literal["auto"] = "auto",
        learning_rate: float = 0.1,
        kappa: float = 1.0,
        l1_decay: float | None = None,
        sparsity: float | None = None,
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
        self.kappa = kappa
        self.l1_decay = l1_decay
        self.sparsity = sparsity
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
        booster = sparseboost(
            self.kappa, self.l1_decay, self.step, self.learning_rate, self.trim,
            sparsity=self.sparsity,
        )  # fmt: skip
        return booster, None
