"""The largest soft margin."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import REGULARIZERS, softmargin
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.documentation import documented
from maboost.mirror.regularizers import Regularizer

__all__ = ["MarginBoostClassifier"]


@documented
class MarginBoostClassifier(BoostingClassifier):
    r"""The ensemble with the largest soft margin, to within a tolerance, and a proof of it.

    The soft margin is the mean margin of the worst 1/`smoothness` of the rows, divided by the sum of the votes. After each round
    all votes :math:`\eta` solve

    .. math:: \max_{\eta \ge 0,\; \sum_t\eta_t = \lambda}\; G(V\eta), \qquad
              \lambda = \frac{2\max_S B_R}{\tau}

    where :math:`V_{it}` is the margin of hypothesis t on row i and :math:`\tau` the tolerance. The next hypothesis is
    sought under the hardest distribution :math:`w(V\eta)` for these votes. With entropy this is ERLPBoost, and
    :math:`\lambda = 2\log(k)/\tau`.

    **Guarantee.** No ensemble of the learner's class has a soft margin above the smallest edge of a round. So `certificate_.gap` bounds how
    far the soft margin is from the best, and the fit stops when it is at most `tolerance`. That takes
    :math:`O(\log(k)/\tau^2)` rounds. It holds if the learner is exact over its class, as the stumps of the
    defaults are. With other estimators, deeper trees among them, the gap is only indicative, and the certificate
    says so. The training error has the certificate of smooth boosting too.

    **Stumps.** The trees are voting stumps by default, because the gap is proven for them. Deeper trees (`max_depth`) usually
    predict better.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier; one whose `fit` takes no `sample_weight` is served by seeded
        weighted resampling. None means a histogram tree, a :class:`HistTreeClassifier` with `response="sign"` and the
        parameters below.
    n_estimators : int, default=1000
        The largest number of rounds, in case the gap is still larger than `tolerance` then.
    tolerance : float in (0, 1), default=0.01
        The gap at which the fit stops. Half of it is the price of smoothing.
    smoothness : float >= 1, default=4.0
        The cap k on the weight of a row, in multiples of its share: the mean margin of the worst 1/k of the rows is maximised. At
        4, a quarter of the rows decides together, so that single wrong labels do not; `inf` maximises the
        smallest margin of a row, for labels that are right.
    regularizer : {"entropy", "euclidean"} or Regularizer, default="entropy"
        How the problem is smoothed. Entropy needs the fewest rounds. The Euclidean one is refused with
        `smoothness=inf`, where its capacity would be about the number of rows over the tolerance.
    max_depth, max_leaf_nodes, min_samples_leaf, max_features, max_bins, categorical_features, monotonic_cst, interaction_cst, max_features_per_tree
        Parameters of the booster's own trees, each "auto" by default, with the meaning they have in
        :class:`HistTreeClassifier`. Here "auto" is depth 1 and one row a leaf. Giving only one of
        `max_depth` and `max_leaf_nodes` lifts the other limit. They cannot be given together with an `estimator`.

    Attributes
    ----------
    estimator_weights_ : array
        The votes, none of which is zero. Their sum is the capacity.
    history_ : History
        One record a round: edge, vote, gain, bound, errors, margins, distribution.
    n_iter_ : int
        Rounds. The model has as many estimators or fewer, those that have a vote.

    References
    ----------
    Warmuth, Glocer and Vishwanathan (2008), "Entropy regularized LPBoost".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MarginBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MarginBoostClassifier().fit(X, y)
    >>> certificate = model.certificate_
    >>> certificate.exact, 0 <= certificate.gap <= 0.01, len(model) < model.n_iter_
    (True, True, True)
    """

    tolerance: float
    smoothness: float
    regularizer: Any

    _trees: ClassVar[dict[str, Any]] = {"max_depth": 1, "min_samples_leaf": 1, "response": "sign"}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            k: v
            for k, v in BoostingClassifier._parameter_constraints.items()
            if k != "learning_rate"
        },
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
        "smoothness": [Interval(Real, 1, None, closed="both")],
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 1000,
        tolerance: float = 0.01,
        smoothness: float = 4.0,
        regularizer: Any = "entropy",
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
        smoothness = float(self.smoothness)
        return softmargin(
            smoothness, self.regularizer, float(self.tolerance), self._showing()
        ), None
