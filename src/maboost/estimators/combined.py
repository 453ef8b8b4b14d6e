"""Boosting over data sources of unequal trust, each with its own error limit or largest weight."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import StrOptions

from maboost.boosting.booster import Booster
from maboost.boosting.groups import Groups
from maboost.boosting.recipes import REGULARIZERS, STEPS, combined, group_caps
from maboost.data.labels import refuse_missing
from maboost.data.training_rows import TrainingRows
from maboost.data.weights import distinct_sources
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.documentation import documented
from maboost.estimators.fitting import Sources
from maboost.estimators.progress import display
from maboost.estimators.smooth import SmoothBoostClassifier
from maboost.mirror.domains import SourceCaps
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Regularizer
from maboost.noise.estimation import flip_rates_from_trusted
from maboost.noise.rates import EstimatedRates
from maboost.runtime.parameter_errors import ParameterError, Setting

__all__ = ["CombinedBoostClassifier"]


@documented
class CombinedBoostClassifier(BoostingClassifier):
    r"""Boosting over data sources of unequal trust, each with its own error limit.

    Source g of base mass :math:`\pi_g` with limit :math:`\ell_g` gets the cap
    :math:`w_i \le D_i/(\ell_g\pi_g)`; primary sources get none. This cap is on each row: the rows of a
    source may together hold all the weight. `source_mass` limits what they hold together.

    **Guarantee.** Error on source g at most :math:`\max(\ell_g, e^{-G}/\pi_g)` with entropy and two
    classes, and :math:`e^{-G}/\pi_g` on a primary source. With K classes there is a factor K - 1 before
    :math:`e^{-G}`. No error is certified on a source in `source_mass`, since the distribution on its wrong
    rows alone is not allowed; on the others :math:`G` may be read as :math:`G + B_R(u_1, D)`, with
    :math:`u_1` the first distribution. What is certified for all rows together is the soft margin over the
    distributions that the limits allow, and a training error of no less than the share of those sources.

    Parameters
    ----------
    error_limits : dict, default=None
        Limit in (0, 1) for each source, or None for a primary source. Every source in `sample_domain`
        must be named, except that negative integers (skada's target domains) are primary. A limit of
        0.2 says: up to a fifth of this source may stay wrong.
    source_mass : dict, default=None
        Largest share in (0, 1) of the weight that a source may have in any round, by source. A source
        named here may have no limit in `error_limits`. Without `error_limits` all other sources are
        primary. The first distribution is not the base measure if a source has more than its share there.
    flip_rates : dict, default=None
        By source the share of each true class whose label is another: ``{"scraped": 0.4, "web": {"fraud":
        0.3}, "audited": 0.0}``; a value is a rate for both classes, a dict by class or a matrix, and 0.0 is a
        source whose labels are right. Every source in `sample_domain` must be named. Given labels then
        have weights under which they stand for true ones, and a source weighs as much as its labels tell:
        a row with 40 % flips of both classes 0.008 of a row with a right label. Early stopping holds out
        rows of the sources whose labels are right, where there are any, and `X_val` is taken to have right
        labels then. Predictions and probabilities are about **true** labels; two classes only.
        "trusted" estimates the rates of the other sources from the rows of `trusted` ones
        (:func:`maboost.noise.flip_rates_from_trusted`): five fits of SmoothBoost for each source.
    trusted : list, default=None
        With ``flip_rates="trusted"``, the sources whose labels are right.

    Attributes
    ----------
    flip_rates_ : dict or None
        By source the rates that were used, as a matrix P(given | true).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import CombinedBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> source = np.where(np.arange(len(y)) % 3 == 0, "trusted", "scraped")
    >>> model = CombinedBoostClassifier(error_limits={"trusted": None, "scraped": 0.2})
    >>> model = model.set_params(n_estimators=30, random_state=0).fit(X, y, sample_domain=source)
    >>> bounds = model.certificate_.groups
    >>> all(bounds[s].measured_error <= bounds[s].error_bound for s in ("trusted", "scraped"))
    True
    """

    error_limits: dict[Any, float | None] | None
    source_mass: dict[Any, float] | None
    regularizer: Any
    update: Literal["active", "lazy"]
    step: Any
    trusted: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "error_limits": [dict, None],
        "flip_rates": [
            *BoostingClassifier._parameter_constraints["flip_rates"],
            StrOptions({"trusted"}),
        ],
        "trusted": ["array-like", None],
        "source_mass": [dict, None],
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
        "update": [StrOptions({"active", "lazy"})],
        "step": [StrOptions(set(STEPS)), callable],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | Literal["auto"] = "auto",
        learning_rate: float = 0.1,
        error_limits: dict[Any, float | None] | None = None,
        source_mass: dict[Any, float] | None = None,
        regularizer: Any = "entropy",
        update: Literal["active", "lazy"] = "active",
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
        trusted: Any = None,
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

    # sample_domain is requested by default, so that it survives pipelines and cross-validation
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"sample_domain": True}

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_domain: ArrayLike | None = None,
    ) -> Self:
        """Fit the booster.

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val, sample_weight_val, groups
            As in the other classifiers.
        sample_domain : array-like of shape (n_samples,), optional
            The source of each row, by the names of `error_limits` and `source_mass`. Without it all rows
            are one primary source.

        Returns
        -------
        self
        """
        return self._fit(
            X, y, sample_weight, (X_val, y_val, sample_weight_val), groups, sample_domain
        )

    def _rates(
        self, sample_domain: Any, X: Any = None, y: Any = None
    ) -> tuple[Any, NDArray[Any] | None]:
        self._source_names: list[Any] = []
        estimated = isinstance(self.flip_rates, str)
        if (self.trusted is None) == estimated:
            raise ValueError(
                "flip_rates='trusted' and trusted=[...] go together, got "
                f"flip_rates={self.flip_rates!r} and trusted={self.trusted!r}"
            )
        if self.flip_rates is None:
            return None, None
        if sample_domain is None:
            raise ParameterError(
                Setting("flip_rates", self.flip_rates),
                " are by source here, but fit got no ", Setting("sample_domain"),
            )  # fmt: skip
        refuse_missing(sample_domain, "sample_domain", "sources")
        rates, sources = self.flip_rates, np.asarray(sample_domain)
        if estimated:
            rates = self._estimated_rates(X, np.asarray(y), sources)
        if isinstance(rates, Mapping):
            self._source_names = sorted(rates, key=str)
        return rates, sources

    def _estimated_rates(
        self, X: Any, y: NDArray[Any], sources: NDArray[Any]
    ) -> dict[Any, EstimatedRates | float]:
        """Return the rates of every source, from the rows of trusted ones."""
        if X is None or self._comm.size > 1:
            raise ValueError(
                "flip_rates='trusted' needs all rows in memory: estimate the rates of each source by "
                "maboost.noise.flip_rates_from_trusted and give them as flip_rates"
            )
        names, trusted = np.unique(sources).tolist(), list(self.trusted or [])
        absent = [name for name in trusted if name not in names]
        if absent or not trusted:
            raise ValueError(
                f"trusted={self.trusted!r} must name sources in sample_domain, which has {names!r}"
            )
        display().phase("estimating flip rates")
        right = np.flatnonzero(np.isin(sources, trusted))
        classifier = SmoothBoostClassifier(random_state=0, n_jobs=self.n_jobs)
        rates: dict[Any, EstimatedRates | float] = {}
        for name in names:
            if name in trusted:
                rates[name] = 0.0
                continue
            rows = np.flatnonzero(sources == name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the fit itself gives them
                rates[name] = flip_rates_from_trusted(
                    classifier,
                    _safe_indexing(X, right), y[right], _safe_indexing(X, rows), y[rows],
                )  # fmt: skip
        return rates

    def _plan(self, rows: TrainingRows) -> tuple[Booster, Sources]:
        weights, sample_domain = rows.weights, rows.sample_domain
        n = len(weights.kept)
        if sample_domain is None:
            for name in ("error_limits", "source_mass"):
                if getattr(self, name):
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} names sources, but fit got no sample_domain"
                    )
            sample_domain = np.full(n, "all")
            limits: dict[Any, float | None] = {"all": None}
        else:
            limits = dict(self.error_limits or {})
            if self.error_limits is None and self.flip_rates is not None:
                limits = dict.fromkeys(self._source_names)
        refuse_missing(sample_domain, "sample_domain", "sources")
        sources = rows.of_kept(sample_domain, "sample_domain")
        distinct = distinct_sources(sources, rows.comm)
        members = np.searchsorted(distinct, sources)
        named = distinct.tolist()
        capped = any(limits.get(name) is not None for name in named)
        groups = Groups(named, members, capped)
        masses = self._masses(groups.names)
        primary = bool(masses) and self.error_limits is None
        for name in groups.names:
            if primary or name in masses or (isinstance(name, int) and name < 0):
                limits.setdefault(name, None)
        self._check_names(set(groups.names), set(limits))
        caps = group_caps(groups.shares(BaseMeasure(weights.scaled, comm=rows.comm)), limits)
        booster = combined(
            np.array(list(caps.values()))[members], self.regularizer, self.update, self.step,
            self.learning_rate, self._showing(),
            SourceCaps(members.astype(np.uint32, copy=False), np.array([masses.get(g, 1.0) for g in groups.names])),
        )  # fmt: skip
        return booster, Sources(groups, limits, masses)

    def _masses(self, found: list[Any]) -> dict[Any, float]:
        """Return the largest share of the weight of each source in `source_mass`."""
        masses = dict(self.source_mass or {})
        for name, mass in masses.items():
            if not (isinstance(mass, int | float | np.number) and 0.0 < float(mass) < 1.0):
                raise ValueError(
                    f"source_mass[{name!r}] must be in (0, 1), got {mass!r}; leave the source out if it may "
                    "have all the weight"
                )
            limit = (self.error_limits or {}).get(name)
            if limit is not None:
                raise ValueError(
                    f"source {name!r} has error_limits[{name!r}]={limit!r} and source_mass[{name!r}]="
                    f"{mass!r}: no error is certified on a source with a largest share of the weight; give "
                    "one of the two"
                )
        absent = sorted(set(masses) - set(found), key=str)
        if absent:
            raise ValueError(
                f"source_mass names {absent!r}, but no row of positive weight is there to train on"
            )
        total = math.fsum(masses.values())
        if masses and set(found) <= set(masses) and total < 1.0 - 1e-12:
            raise ValueError(
                f"source_mass={self.source_mass!r} leaves no distribution: it names every source, and "
                f"together they may have {total:.6g} of the weight; raise a share or leave a source out"
            )
        return {name: float(mass) for name, mass in masses.items()}

    @staticmethod
    def _check_names(found: set[Any], named: set[Any]) -> None:
        missing = sorted(found - named, key=str)
        if missing:
            raise ParameterError(
                Setting("sample_domain"), f" has {missing!r}, which ", Setting("error_limits"),
                " does not name; give each a limit in (0, 1), or None for a primary source",
            )  # fmt: skip
        empty = sorted(named - found, key=str)
        if empty:
            raise ParameterError(
                Setting("error_limits"),
                f" names {empty!r}, but no row of positive weight is there to train on",
            )
