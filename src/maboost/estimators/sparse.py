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
from maboost.estimators.documentation import documented

__all__ = ["SparseBoostClassifier"]


@documented
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

    Attributes
    ----------
    history_ : History
        One record a round: edge, step, gain, bound, errors, margins, distribution, rows and bytes read.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SparseBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.history_["rows_used"][-1] < 0.6 * len(y))
    True
    """

    kappa: float
    l1_decay: float | None
    sparsity: float | None
    step: Any

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
        interaction_cst: Any = "auto",
        max_features_per_tree: Any = "auto",
        response: Literal["votes", "proba"] = "votes",
        trim: float | Literal["auto", "certain"] = 0.0,
        max_samples: float | None = None,
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
        device: Literal["cpu", "cuda", "auto"] = "cpu",
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    def _plan(self, rows: TrainingRows) -> tuple[Booster, None]:
        if self.sparsity is not None and self.max_samples is not None:
            raise ValueError(
                f"give sparsity or max_samples, not both: got sparsity={self.sparsity!r}, "
                f"max_samples={self.max_samples!r}"
            )
        booster = sparseboost(
            self.kappa, self.l1_decay, self.step, self.learning_rate, self._showing(),
            sparsity=self.sparsity,
        )  # fmt: skip
        return booster, None
