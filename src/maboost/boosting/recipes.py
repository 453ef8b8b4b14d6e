r"""The named boosters: each is a choice of a regularizer, a domain, an update and a step.

If the theory does not allow a combination, the recipe's error says why. Numbers become Python floats, since
numpy's single precision would spread to all later computations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.booster import Booster, L1Rule
from maboost.boosting.row_sampling.adaptive import Certain
from maboost.boosting.row_sampling.budget import Budget
from maboost.boosting.row_sampling.policy import Showing
from maboost.boosting.row_sampling.trim import Trim
from maboost.boosting.vote_policy import ErrorRefit, MarginRefit
from maboost.mirror.ascent import MirrorAscent, Update
from maboost.mirror.domains import (
    CappedSimplex,
    Domain,
    Hypercube,
    Orthant,
    Simplex,
    SourceCapped,
    SourceCaps,
)
from maboost.mirror.regularizers import Entropy, Euclidean, Regularizer
from maboost.mirror.steps import AdaBoostV, Corrective, MaxMargin, Paper, StepRule

__all__ = [
    "DOMAINS",
    "REGULARIZERS",
    "STEPS",
    "TOTAL",
    "combined",
    "group_caps",
    "maboost",
    "madaboost",
    "named",
    "smooth",
    "smoothness_for",
    "softmargin",
    "sparseboost",
]

REGULARIZERS: dict[str, type[Regularizer]] = {"entropy": Entropy, "euclidean": Euclidean}
DOMAINS: dict[str, type[Domain]] = {"simplex": Simplex}
STEPS: dict[str, Callable[[], StepRule]] = {
    "paper": Paper,
    "maxmargin": MaxMargin,
    "corrective": Corrective,
    "adaboostv": AdaBoostV,
}

TOTAL = "total"  # the step of all votes at once

TrimLike = float | Literal["auto", "certain"] | Showing


# one row of a million, and a divergence at which a capacity is too large to smooth anything
_ONE_ROW, _FAR = 1e-6, 1e3
_LEAST_SMOOTHNESS = 1.1  # with 1 the distribution could not move


def named(kind: str, value: Any, table: Mapping[str, Any]) -> Any:
    """Return the object that a name stands for in a table, or the object itself."""
    if not isinstance(value, str):
        return value
    if value not in table:
        raise ValueError(f"{kind} must be one of {sorted(table)} or an object, got {value!r}")
    return table[value]()


def _hiding(trim: TrimLike) -> Showing:
    if isinstance(trim, Showing):
        return trim
    return Certain() if trim == "certain" else Trim(trim)


def maboost(
    regularizer: str | Regularizer = "entropy",
    domain: str | Domain = "simplex",
    update: Update = "active",
    step: str | StepRule = "corrective",
    learning_rate: float = 1.0,
    trim: TrimLike = 0.0,
    via: Domain | None = None,
) -> Booster:
    r"""MABoost (Algorithm 1): mirror ascent over the distributions of `domain`.

    Guarantee: :math:`\varepsilon \le e^{-G}` (entropy) or :math:`1/(1+2G)` (Euclidean) on the simplex,
    for any positive steps and two classes; whole steps of the rules "corrective" and "paper" give
    :math:`G \ge \tfrac12\sum_t\gamma_t^2` (Theorem 1). With `step="maxmargin"` and a learner that is exact
    over its class, the smallest margin on the simplex tends to the largest that an ensemble of this class
    can reach, at rate :math:`O(\log T/\sqrt T)` (Theorem 2).

    With `step="total"` all votes are refitted after each round, so that they minimise the error bound. That is lazy by
    nature and has no learning rate.

    >>> maboost("euclidean").ascent.regularizer
    Euclidean()
    """
    ascent = MirrorAscent(
        named("regularizer", regularizer, REGULARIZERS),
        named("domain", domain, DOMAINS),
        update,
        via,
    )
    if isinstance(step, str) and step == TOTAL:
        _check_total(update, learning_rate)
        return Booster(ascent, ErrorRefit(), 1.0, _hiding(trim))
    return Booster(ascent, named("step", step, STEPS), float(learning_rate), _hiding(trim))


def _check_total(update: str, learning_rate: float) -> None:
    """Refuse what votes that are all refitted cannot have."""
    if update != "lazy":
        raise ValueError(
            f'step="total" needs update="lazy", got update={update!r}: the distribution follows from the votes '
            "of all rounds, and the active update forgets those of rows at their cap"
        )
    if learning_rate != 1.0:
        raise ValueError(
            f'step="total" needs learning_rate=1.0, got learning_rate={learning_rate!r}: all votes are refitted '
            "after each round, which would undo a shorter step"
        )


def softmargin(
    smoothness: float = 4.0,
    regularizer: str | Regularizer = "entropy",
    tolerance: float = 0.01,
    trim: TrimLike = 0.0,
) -> Booster:
    r"""The largest soft margin: the mean margin of the worst 1/`smoothness` of the rows, to within `tolerance`.

    All votes maximise :math:`G(\lambda V\eta)/\lambda` over the simplex after each round, at the capacity
    :math:`\lambda = 2\max_S B_R/\tau`. With entropy that is ERLPBoost, with :math:`\lambda = 2\log(k)/\tau`, and the soft
    margin is within :math:`\tau` of the best of the learner's class after :math:`O(\log k/\tau^2)` rounds. Without a cap
    (`smoothness` infinite) it is the smallest margin, with :math:`\lambda = 2\log(1/D_{\min})/\tau`.

    >>> softmargin().ascent.domain
    CappedSimplex(caps=4.0)
    """
    if not smoothness >= 1.0:
        raise ValueError(
            f"smoothness must be at least 1 (no distribution fits below its own share), got {smoothness!r}"
        )
    domain: Domain = Simplex() if math.isinf(smoothness) else CappedSimplex(float(smoothness))
    geometry: Regularizer = named("regularizer", regularizer, REGULARIZERS)
    if domain.unbounded and geometry.beta(max(_ONE_ROW, 1.0 / geometry.upper)) > _FAR:
        raise ValueError(
            f"regularizer={regularizer!r} with smoothness=inf needs a capacity of about the number of rows over "
            'the tolerance, which smooths nothing: use regularizer="entropy", or a finite smoothness'
        )
    ascent = MirrorAscent(geometry, domain, "lazy")
    return Booster(ascent, MarginRefit(float(tolerance)), 1.0, _hiding(trim))


def smooth(
    smoothness: float,
    regularizer: str | Regularizer = "entropy",
    update: Update = "active",
    step: str | StepRule = "corrective",
    learning_rate: float = 1.0,
    trim: TrimLike = 0.0,
) -> Booster:
    r"""Smooth boosting: no row weighs more than `smoothness` times its share.

    Guarantee: :math:`\varepsilon \le \max(1/k, e^{-G})`, that is :math:`O(\log(1/\varepsilon)/\gamma^2)`
    rounds down to :math:`\varepsilon = 1/k` as long as edges are at least :math:`\gamma` (Theorem 3).

    >>> smooth(4.0, update="lazy").ascent.domain
    CappedSimplex(caps=4.0)
    """
    if not smoothness >= 1.0:
        raise ValueError(
            f"smoothness must be at least 1 (no distribution fits below its own share), got {smoothness!r}"
        )
    return maboost(regularizer, CappedSimplex(smoothness), update, step, learning_rate, trim)


def smoothness_for(noise_rate: float) -> float:
    r"""Return the smoothness for labels of which a fraction `noise_rate` is wrong or unpredictable.

    A classifier that errs on a fraction :math:`\varepsilon` errs on at most :math:`k\varepsilon` under
    any distribution of smoothness k, so its edge there is at least :math:`1 - 2k\varepsilon`. The rule
    :math:`k = \max(1.1, 0.5/\varepsilon)` is the largest cap at which that is not negative; it guarantees
    no edge. A rate of zero gives infinity: no cap.

    >>> smoothness_for(0.1)
    5.0
    """
    if not 0.0 <= noise_rate < 0.5 / _LEAST_SMOOTHNESS:
        raise ValueError(
            f"noise_rate must be at least 0 and below {0.5 / _LEAST_SMOOTHNESS:.4f}, got {noise_rate!r}; "
            "with more wrong labels a classifier may have a negative edge under every cap of use. For "
            "labels that are wrong in one direction, give smoothness instead"
        )
    return math.inf if noise_rate == 0.0 else max(_LEAST_SMOOTHNESS, 0.5 / float(noise_rate))


def group_caps(shares: Mapping[Any, float], limits: Mapping[Any, float | None]) -> dict[Any, float]:
    r"""Return caps that hold each data source to its error limit: :math:`k_g = 1/(\ell_g\pi_g)`.

    A limit of None (or a source that must be right) means no cap.
    """
    caps = {}
    for group, share in shares.items():
        limit = limits[group]
        if limit is not None and not (isinstance(limit, Real) and 0.0 < limit < 1.0):
            raise ValueError(
                f"error_limits[{group!r}] must be in (0, 1) or None for a primary source, got {limit!r}"
            )
        caps[group] = float("inf") if limit is None else 1.0 / (float(limit) * share)
    return caps


def combined(
    caps: NDArray[np.float64],
    regularizer: str | Regularizer = "entropy",
    update: Update = "active",
    step: str | StepRule = "corrective",
    learning_rate: float = 1.0,
    trim: TrimLike = 0.0,
    sources: SourceCaps | None = None,
) -> Booster:
    r"""Combining data sets: per-row caps from :func:`group_caps`, and a largest mass of each source.

    Guarantee: :math:`\varepsilon_g \le \max(\ell_g, e^{-G}/\pi_g)` on each source g. The caps on rows do not
    limit the mass of a source, whose rows may together hold all of it; `sources` does
    (:class:`maboost.mirror.SourceCapped`), but no error is then certified on a source that it limits.

    >>> import numpy as np
    >>> caps = group_caps({"trusted": 0.5, "scraped": 0.5}, {"trusted": None, "scraped": 0.2})
    >>> caps
    {'trusted': inf, 'scraped': 10.0}
    >>> booster = combined(np.array([caps["trusted"], caps["scraped"]]))
    """
    domain: Domain = CappedSimplex(caps)
    if sources is not None and np.any(sources.masses < 1.0):
        domain = SourceCapped(*sources, caps)
    return maboost(regularizer, domain, update, step, learning_rate, trim)


def sparseboost(
    kappa: float = 1.0,
    l1_decay: float | None = None,
    step: str | StepRule = "corrective",
    learning_rate: float = 1.0,
    trim: TrimLike = 0.0,
    update: Update = "active",
    sparsity: float | None = None,
) -> Booster:
    r"""SparseBoost (Algorithm 2): composite mirror ascent whose weights reach exact zeros.

    .. math:: s_{t+1} = \max(0, s_t + \eta_t(d_t - \alpha_t)), \quad w_t = D s_t/n_t

    with :math:`\alpha_t = (1-\kappa)\gamma_t n_t`, or the smaller of that and :math:`c/t^2`. Guarantee:
    :math:`\varepsilon \le 1/(1 + \kappa^2\sum_t\gamma_t^2n_t^2)` (Theorem 4). The certificate has a lower bound: with
    :math:`A = \sum_t\eta_t\alpha_t \le 1/2`

    .. math:: \varepsilon \le \min\Bigl(\frac{\|s_T\|_D^2}{(1-A)^2},\; \frac{n_T}{1-A}\Bigr) \le 1 - 2G

    (see :class:`maboost.boosting.ErrorBound`), for every :math:`\kappa` and every c. Wrong rows keep
    :math:`s_i \ge 1 - A \ge 1/2`, so that the mass is at least half the error and the paper's step has
    :math:`\sum_t\varepsilon_t^2\gamma_t^2 \le 4/\kappa^2`; without a penalty the sum is at most
    :math:`1 - \varepsilon_T`. With `sparsity` the learner is shown a sample that leaves out this share of the
    base measure, and that is kept as long as it represents the distribution. The edge is measured on all rows, so the
    certificate stays exact.

    >>> sparseboost(kappa=0.5).ascent.domain
    Orthant()
    """
    if sparsity is not None and trim != 0.0:
        raise ValueError(
            f"give sparsity or trim, not both: got sparsity={sparsity!r}, trim={trim!r}"
        )
    hiding = _hiding(trim)
    if sparsity is not None:
        share = 1.0 - float(sparsity)
        if not 0.0 < share < 1.0:  # one, where a sparsity is too small to matter
            raise ValueError(f"sparsity must be in (0, 1), got {sparsity!r}")
        hiding = Budget(share=share)
    if not 0.0 < kappa <= 1.0:
        raise ValueError(f"kappa must be in (0, 1], got {kappa!r}")
    if l1_decay is not None and not (l1_decay > 0.0 and kappa < 1.0):
        raise ValueError(
            "l1_decay must be positive and needs kappa < 1 (with kappa = 1 there is no penalty to "
            f"decay), got l1_decay={l1_decay!r}, kappa={kappa!r}"
        )
    if update != "active":
        raise ValueError(
            f"SparseBoost has only the active update, got {update!r}: Theorem 4 follows each step "
            "from the projected point, where the zeros are"
        )
    ascent = MirrorAscent(Euclidean(), Orthant(), "active")
    penalty = L1Rule(float(kappa), None if l1_decay is None else float(l1_decay))
    return Booster(ascent, named("step", step, STEPS), float(learning_rate), hiding, penalty)


def madaboost(
    step: str | StepRule = "corrective",
    learning_rate: float = 1.0,
    trim: TrimLike = 0.0,
    update: Update = "lazy",
    bound: float = 1.0,
) -> Booster:
    r"""MadaBoost (Algorithm 3): weights :math:`\min(b, e^{-M_i})`, a function of the margin alone, with b = 1.

    Guarantee: :math:`\varepsilon \le \Phi(H) = \sum D_i\psi(-M_i)` for any positive steps. The rates need whole
    steps and are about the least error over the rounds, since the error may rise. With the paper's step
    :math:`\sum_t\varepsilon_t^2\gamma_t^2 \le 2(1-\varepsilon_T)` (Theorem 5), a rate of
    :math:`O(1/(\varepsilon^2\gamma^2))`. With the corrective step, or
    :math:`\tfrac12\log\frac{1+\gamma}{1-\gamma}`, the potential falls by at least
    :math:`n_t(1-\sqrt{1-\gamma_t^2}) \ge \tfrac12\varepsilon_t\gamma_t^2`, hence
    :math:`\sum_t\varepsilon_t\gamma_t^2 \le 2(1-\varepsilon_T)`: the rate
    :math:`O(1/(\varepsilon\gamma^2))` that the paper doubts.

    >>> madaboost().ascent.domain, madaboost().ascent.update
    (Hypercube(bound=1.0), 'lazy')
    """
    if update != "lazy":
        raise ValueError(
            f"MadaBoost has only the lazy update, got {update!r}: its weight is a function of the "
            "margin, which the active update forgets at the cap"
        )
    if not (isinstance(bound, Real) and 1.0 <= bound < math.inf):
        raise ValueError(
            f"bound must be finite and at least 1, the weight of every row at the start, got {bound!r}; "
            "MABoostClassifier has no bound"
        )
    ascent = MirrorAscent(Entropy(), Hypercube(float(bound)), "lazy")
    return Booster(ascent, named("step", step, STEPS), float(learning_rate), _hiding(trim))
