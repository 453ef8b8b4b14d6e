"""Mirror ascent boosting over a set of distributions you choose."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import StrOptions

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import DOMAINS, REGULARIZERS, STEPS, TOTAL, maboost
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.documentation import documented
from maboost.mirror.domains import Domain
from maboost.mirror.regularizers import Regularizer

__all__ = ["MABoostClassifier"]


@documented
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
    n_estimators : int, default=100
        The largest number of rounds.
    learning_rate : float in (0, 1], default=1.0
        Factor on every step. On noisy labels small rates do best, together with a small cap in `domain`.
    domain : "simplex" or Domain, default="simplex"
        The set the distribution stays in, for example ``CappedSimplex(10)``.
    via : Domain, default=None
        Project onto this larger set first, and then onto `domain` (double projection, Lemma 4 of the paper):
        for example ``Orthant()`` before the simplex. Needs the active update, and ``step="paper"`` or
        "maxmargin".
    step : {"corrective", "paper", "maxmargin", "adaboostv", "total"} or StepRule, default="corrective"
        The step of largest gain, the step of the proofs, the step of Theorem 2, or AdaBoostV's (entropy on the
        simplex only, see :class:`maboost.mirror.steps.AdaBoostV`). "total" refits the votes of all hypotheses after
        each round, so that they minimise the error bound, and leaves hypotheses without a vote out of the model; it
        needs `update="lazy"` and `learning_rate=1.0`.
    max_depth, max_leaf_nodes, min_samples_leaf, max_features, max_bins, categorical_features, monotonic_cst, interaction_cst, max_features_per_tree
        Parameters of the booster's own trees, each "auto" by default, with the meaning they have in
        :class:`HistTreeClassifier`. Here "auto" is depth 3, any number of leaves, and one row a leaf.
        Giving only one of `max_depth` and `max_leaf_nodes` lifts the other limit. They cannot be given
        together with an `estimator`.

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

    regularizer: Any
    domain: Any
    update: Literal["active", "lazy"]
    step: Any
    via: Domain | None

    _trees: ClassVar[dict[str, Any]] = {"max_depth": 3, "min_weight_fraction_leaf": 1e-6}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
        "domain": [StrOptions(set(DOMAINS)), Domain],
        "update": [StrOptions({"active", "lazy"})],
        "step": [StrOptions({*STEPS, TOTAL}), callable],
        "via": [Domain, None],
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
        via: Domain | None = None,
        max_depth: int | Literal["auto"] | None = "auto",
        max_leaf_nodes: int | Literal["auto"] | None = "auto",
        min_samples_leaf: int | Literal["auto"] = "auto",
        max_features: Any = "auto",
        max_bins: int | Literal["auto"] = "auto",
        categorical_features: Any = "auto",
        monotonic_cst: Any = "auto",
        interaction_cst: Any = "auto",
        max_features_per_tree: Any = "auto",
        response: Literal["votes", "proba"] = "votes",
        trim: float | Literal["auto", "certain"] = 0.0,
        max_samples: float | None = None,
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
        device: Literal["cpu", "cuda", "auto"] = "cpu",
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    def _plan(self, rows: TrainingRows) -> tuple[Booster, None]:
        domain = self.domain
        if isinstance(domain, Domain):
            if not domain.normalised:
                raise ValueError(
                    f"domain={domain!r} is no set of distributions; SparseBoostClassifier boosts over "
                    "the orthant and MadaBoostClassifier over the hypercube"
                )
            domain = domain.restricted(rows.weights.kept)
        via = None if self.via is None else self.via.restricted(rows.weights.kept)
        booster = maboost(
            self.regularizer,
            domain,
            self.update,
            self.step,
            self.learning_rate,
            self._showing(),
            via,
        )
        return booster, None
