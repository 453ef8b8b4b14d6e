"""Mirror ascent boosting over a set of distributions you choose."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import StrOptions

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import DOMAINS, REGULARIZERS, STEPS, maboost
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.mirror.domains import Domain
from maboost.mirror.regularizers import Regularizer

__all__ = ["MABoostClassifier"]


class MABoostClassifier(BoostingClassifier):
    r"""Mirror ascent boosting over a set of distributions you choose.

    The distribution over the rows follows

    .. math:: w_{t+1} = \arg\min_{w \in S} B_R(w, z_{t+1}), \qquad
              \nabla R(z_{t+1}) = \nabla R(w_t) + \eta_t d_t,

    with :math:`d_t = -a\,h_t` (active update; the lazy one departs from :math:`z_t`).

    **Guarantee.** On the simplex the training error is at most :math:`e^{-G}` (entropy) or
    :math:`1/(1+2G)` (Euclidean), times K - 1 with K classes, where the certified gain :math:`G` is at
    least :math:`\tfrac12\sum_t\gamma_t^2` with whole steps of the paper's or the default length (Theorem
    1); with caps, at most the larger of that and :math:`1/k`. With entropy, the simplex, votes and two
    classes this is AdaBoost.

    **Wrong labels.** Use :class:`SmoothBoostClassifier` where labels are noisy. The defaults here are
    AdaBoost's whole steps without a cap, which follow wrong labels; a small `learning_rate`, a small cap
    in `domain` and `early_stopping` reduce that.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier; one whose `fit` takes no `sample_weight` is served by seeded
        weighted resampling. None means a histogram tree, a :class:`HistTreeClassifier` with the
        parameters below in which no leaf weighs less than a millionth of the distribution.
    n_estimators : int, default=100
        The largest number of rounds.
    learning_rate : float in (0, 1], default=1.0
        Factor on every step. On noisy labels small rates do best, together with a small cap in `domain`.
    regularizer : {"entropy", "euclidean"} or Regularizer, default="entropy"
        The geometry.
    domain : "simplex" or Domain, default="simplex"
        The set the distribution stays in, for example ``CappedSimplex(10)``.
    update : {"active", "lazy"}, default="active"
        Whether a step departs from the projected distribution or from the unprojected dual point.
    step : {"corrective", "paper", "maxmargin"} or StepRule, default="corrective"
        The step of largest gain, the step of the proofs, or the step of Theorem 2.
    max_depth, max_leaf_nodes, min_samples_leaf, max_features, max_bins, categorical_features, monotonic_cst
        Parameters of the booster's own trees, each "auto" by default, with the meaning they have in
        :class:`HistTreeClassifier`. Here "auto" is depth 3, any number of leaves, and one row a leaf.
        Giving only one of `max_depth` and `max_leaf_nodes` lifts the other limit. They cannot be given
        together with an `estimator`.
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
    early_stopping : bool or "auto", default=False
        Stop when the validation score no longer rises, and keep the rounds up to the best. The
        validation rows are `X_val` where `fit` is given them, otherwise rows held out of X. "auto"
        stops early from 10,000 rows on (`min_samples_leaf` says how rows are counted), or where there
        is an `X_val`.
    validation_fraction : float in (0, 1), default=0.1
        Share of every class to hold out, chosen by a seeded hash of the rows' values: equal rows stay
        together, and neither order nor repetition changes the choice. With `groups` in `fit`, whole
        groups.
    n_iter_no_change : int, default=10
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
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from maboost import MABoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MABoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=30).fit(X, y)
    >>> model.certificate_.error_bound < 0.25
    True
    """

    _trees: ClassVar[dict[str, Any]] = {"max_depth": 3, "min_weight_fraction_leaf": 1e-6}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
        "domain": [StrOptions(set(DOMAINS)), Domain],
        "update": [StrOptions({"active", "lazy"})],
        "step": [StrOptions(set(STEPS)), callable],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 100,
        learning_rate: float = 1.0,
        regularizer: Any = "entropy",
        domain: Any = "simplex",
        update: Literal["active", "lazy"] = "active",
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
        early_stopping: bool | Literal["auto"] = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
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
        self.regularizer = regularizer
        self.domain = domain
        self.update = update
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
        domain = self.domain
        if isinstance(domain, Domain):
            if not domain.normalised:
                raise ValueError(
                    f"domain={domain!r} is no set of distributions; SparseBoostClassifier boosts over "
                    "the orthant and MadaBoostClassifier over the hypercube"
                )
            domain = domain.restricted(rows.weights.kept)
        booster = maboost(
            self.regularizer, domain, self.update, self.step, self.learning_rate, self.trim
        )
        return booster, None
