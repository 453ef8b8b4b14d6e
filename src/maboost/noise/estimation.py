r"""Estimates of flip rates from additional knowledge.

Given labels alone do not identify flip rates if the classes overlap: a row that is often given - may be a
row of class + whose label was flipped, or a row of either class. Each function here takes one further piece
of knowledge: the true share of a class, rows with both labels, or rows whose true labels are trusted.

The mean of q over the trusted rows of a class (Hendrycks et al., 2018) is not an estimate of its flip rate unless
y is a function of x: if classes overlap, the rows of class + also have a true probability of class -,
which that mean counts as flips. It is therefore not offered.

References
----------
Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the case of the binomial".

Hendrycks, Mazeika, Wilson and Gimpel (2018), "Using trusted data to train deep networks on labels corrupted
by severe noise".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, betaincinv, chdtri
from sklearn.base import clone

from maboost.noise.corrections import (
    Array,
    class_positions,
    class_probabilities,
    spread_evenly,
    true_probabilities,
)
from maboost.noise.rates import EstimatedRates

__all__ = [
    "flip_rates_from_audit",
    "flip_rates_from_prevalence",
    "flip_rates_from_probabilities",
    "flip_rates_from_trusted",
]

_CHANCE = 1e-3  # a share that is less likely than this contradicts the prevalence
_FLOOR = 1e-3  # bounds the weight of one trusted row in the likelihood: q is itself an estimate


def flip_rates_from_prevalence(
    y: ArrayLike, prevalence: float, *, flipped: Any, confidence: float = 0.95
) -> EstimatedRates:
    r"""Estimate the flip rate of one class from its known true share; two classes, flips in one direction.

    Only rows of the class `flipped` may be labelled otherwise. If their true share is :math:`\pi` and their
    share among given labels is :math:`\tilde\pi`, then

    .. math:: \tilde\pi = (1 - \rho)\,\pi, \qquad \rho = 1 - \tilde\pi/\pi.

    The interval of the rate follows from the exact binomial interval of :math:`\tilde\pi`. The prevalence is
    taken as exact.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Given labels of rows drawn from the population in which `prevalence` holds.
    prevalence : float
        The true share of the class `flipped`.
    flipped : label
        The class some of whose rows are labelled otherwise.
    confidence : float
        The level of the interval.

    Raises
    ------
    ValueError
        If the class is given more often than `prevalence` allows and sampling error does not explain it. If
        it does explain it, the rate is 0, with a warning.

    Examples
    --------
    >>> rates = flip_rates_from_prevalence(["fraud"] * 6 + ["ok"] * 94, 0.10, flipped="fraud")
    >>> print(rates)
    flip rates from 100 given labels and a known prevalence, with 95 % intervals
      fraud: 0.400 (0.000 to 0.777)
      ok: 0.000 (0.000 to 0.000)
    """
    _check_confidence(confidence)
    labels = np.asarray(y)
    names = np.unique(labels).tolist()
    if len(names) != 2:
        raise ValueError(
            f"y must hold two classes, got {names!r}: a prevalence identifies the rate of one class of two"
        )
    if flipped not in names:
        raise ValueError(f"flipped={flipped!r} is not a class; the classes are {names!r}")
    if not _is_number(prevalence) or not 0.0 < prevalence < 1.0:
        raise ValueError(f"prevalence must be a share strictly between 0 and 1, got {prevalence!r}")
    n, j = len(labels), names.index(flipped)
    count = int(np.sum(labels == flipped))
    if count > prevalence * n:
        if bdtrc(count - 1, n, prevalence) < _CHANCE:
            raise ValueError(
                f"prevalence={prevalence!r} is below the share of given labels {flipped!r}, "
                f"{count / n:.4g} of {n:,} rows, by more than sampling error: rows of the other class are "
                f"labelled {flipped!r}. Check the prevalence, give flipped={names[1 - j]!r} and the "
                "prevalence of that class if flips go that way only, or use rows with trusted labels"
            )
        warnings.warn(
            f"The share of given labels {flipped!r}, {count / n:.4g}, is above prevalence={prevalence!r} "
            "within sampling error; the flip rate is taken as 0",
            UserWarning,
            stacklevel=2,
        )
    low, high = clopper_pearson(count, n, confidence)
    rates, lowest, highest = np.zeros(2), np.zeros(2), np.zeros(2)
    for at, share in ((rates, count / n), (lowest, float(high)), (highest, float(low))):
        at[j] = max(1.0 - share / prevalence, 0.0)
    return _estimated(
        names, rates, lowest, highest, confidence, n, "given labels and a known prevalence"
    )


def flip_rates_from_audit(
    given: ArrayLike, true: ArrayLike, confidence: float = 0.95
) -> EstimatedRates:
    """Estimate flip rates by counting rows that have both labels; any number of classes.

    The rate of flips from class l to class m is their share of the audited rows of class l, with the exact
    binomial interval of Clopper and Pearson. Each interval holds at the level `confidence` on its own.

    The choice of the audited rows must not depend on their given labels: rows audited because they are
    given "fraud" hold no fraud that was missed.

    Parameters
    ----------
    given, true : array-like of shape (n_rows,)
        Given and true labels of the audited rows.
    confidence : float
        The level of each interval.

    Examples
    --------
    >>> given = ["b"] * 3 + ["a"] * 7 + ["b"] * 10
    >>> rates = flip_rates_from_audit(given, ["a"] * 10 + ["b"] * 10)
    >>> rates.matrix
    array([[0.7, 0.3],
           [0. , 1. ]])
    >>> low, high = rates.intervals["a"]
    >>> print(f"{low:.3f} {high:.3f}")
    0.067 0.652
    """
    _check_confidence(confidence)
    given, true = np.asarray(given), np.asarray(true)
    if given.ndim != 1 or given.shape != true.shape or len(given) == 0:
        raise ValueError(
            "given and true must be the labels of the same rows, one or more, got shapes "
            f"{given.shape} and {true.shape}"
        )
    names = np.unique(np.concatenate([given, true]))
    K = len(names)
    pairs = class_positions(true, names, "true") * K + class_positions(given, names, "given")
    counts = np.bincount(pairs, minlength=K * K).reshape(K, K)
    rows = counts.sum(axis=1)
    if np.any(rows == 0):
        raise ValueError(
            f"no audited row is truly {names[np.argmin(rows)].item()!r}, so its flip rate is unknown; audit "
            "rows of each class"
        )
    low, high = clopper_pearson(counts, rows[:, None], confidence)
    return EstimatedRates(
        classes=tuple(names.tolist()),
        matrix=counts / rows[:, None],
        lower=low,
        upper=high,
        confidence=float(confidence),
        n_rows=len(given),
        source="audited rows",
    )


def flip_rates_from_probabilities(
    q: ArrayLike, y_true: ArrayLike, *, classes: Any = None, confidence: float = 0.95
) -> EstimatedRates:
    r"""Estimate flip rates from trusted rows and the probabilities of the labels they would be given.

    The rates maximize the likelihood of the true labels,

    .. math:: \max_T \sum_i \log\,(T^{-\top} q(x_i))_{y_i},

    over matrices with one rate for each class that spreads evenly over the other classes: for two classes
    that is every matrix with :math:`\rho_+ + \rho_- < 1`; for more, rates are below (K - 1)/K, so that a class
    is given most often to its own rows. True probabilities are projected to the simplex and kept at 0.001 or
    more, since q is an estimate and one row must not decide.

    Intervals are those of the profile likelihood: all rates at which the log-likelihood, maximized over the
    other rates, is within half a quantile of chi-squared with K degrees of freedom of its maximum. The
    intervals of all classes therefore hold together at the level `confidence`, for many trusted rows. They
    cover the sampling of trusted rows, not the error of q.

    Parameters
    ----------
    q : array-like of shape (n_rows,) or (n_rows, n_classes)
        Calibrated probabilities of *given* labels on the trusted rows, from a model that was not fitted on
        them; with one dimension, those of the second class.
    y_true : array-like of shape (n_rows,)
        The true labels of the trusted rows; each class must occur.
    classes : array-like, optional
        The classes in the order of the columns; those in `y_true` if None.
    confidence : float
        The level at which all intervals hold together.

    See Also
    --------
    flip_rates_from_trusted : Fits and calibrates the model, too.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> rates = flip_rates_from_probabilities(0.6 * p, y)  # 40 % of class True are given False
    >>> {name: round(rate, 1) for name, rate in rates.rates.items()}
    {False: 0.0, True: 0.4}
    """
    _check_confidence(confidence)
    labels = np.asarray(y_true)
    names = np.unique(labels) if classes is None else np.asarray(classes)
    order = np.argsort(names)
    q = class_probabilities(q)
    if q.shape[1] != len(names):
        raise ValueError(
            f"q has probabilities of {q.shape[1]} classes, but classes are {names.tolist()!r}"
        )
    q, names = q[:, order], names[order]
    truth = class_positions(labels, names, "y_true")
    if len(q) != len(truth):
        raise ValueError(f"q has {len(q)} rows, but y_true has {len(truth)}")
    missing = sorted(set(range(len(names))) - set(truth.tolist()))
    if missing:
        raise ValueError(
            f"no trusted row is truly {names[missing[0]].item()!r}, so the flip rates are unknown; add "
            "trusted rows of each class"
        )
    order = np.lexsort(
        (*q.T, truth)
    )  # sums, and so the estimate, must not depend on the order of rows
    log_likelihood = _log_likelihood(q[order], truth[order])
    best = _maximum(log_likelihood, _start(log_likelihood, np.full(len(names), 0.1)))
    lowest, highest = _profile_intervals(log_likelihood, best, confidence)
    return _estimated(names.tolist(), best, lowest, highest, confidence, len(truth), "trusted rows")


def flip_rates_from_trusted(
    classifier: Any,
    X_trusted: Any,
    y_trusted: ArrayLike,
    X_untrusted: Any,
    y_untrusted: ArrayLike,
    *,
    calibration: str | None = "isotonic",
    folds: int = 5,
    confidence: float = 0.95,
) -> EstimatedRates:
    """Estimate flip rates from trusted rows and a classifier that is fitted on untrusted rows.

    Copies of the classifier are fitted on all folds of the untrusted rows but one and calibrated on that one
    (:class:`sklearn.calibration.CalibratedClassifierCV`). The mean of their probabilities on the trusted
    rows goes to :func:`flip_rates_from_probabilities`, which documents the estimate and its intervals.

    Trusted and untrusted rows must be draws from one population, with the same classes. The trusted rows
    must not be among the untrusted ones.

    Parameters
    ----------
    classifier : scikit-learn classifier
        Not fitted; without flip rates of its own, since it must predict given labels.
    X_trusted, X_untrusted : array-like or data frame
        Features.
    y_trusted : array-like
        True labels.
    y_untrusted : array-like
        Given labels.
    calibration : {"isotonic", "sigmoid", None}
        The calibration of the probabilities. Isotonic regression needs about 1,000 rows in each fold; use "sigmoid"
        with fewer. None uses the probabilities of one fit on all untrusted rows without calibration.
    folds : int
        The number of folds, and of fits.
    confidence : float
        The level at which all intervals hold together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(6000, 1))
    >>> y = rng.random(6000) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    >>> given = y & (rng.random(6000) < 0.6)  # 40 % of class True are given False
    >>> rates = flip_rates_from_trusted(
    ...     LogisticRegression(), X[:1000], y[:1000], X[1000:], given[1000:]
    ... )
    >>> {name: round(rate, 1) for name, rate in rates.rates.items()}
    {False: 0.0, True: 0.4}
    """
    from sklearn.calibration import CalibratedClassifierCV  # not needed by `import maboost`
    from sklearn.model_selection import StratifiedKFold

    if calibration not in ("isotonic", "sigmoid", None):
        raise ValueError(f"calibration must be 'isotonic', 'sigmoid' or None, got {calibration!r}")
    if not hasattr(classifier, "predict_proba") or not hasattr(classifier, "get_params"):
        raise ValueError(
            f"classifier must be a scikit-learn classifier with predict_proba, got {classifier!r}; if you have "
            "probabilities already, use flip_rates_from_probabilities"
        )
    if classifier.get_params().get("flip_rates") is not None:
        raise ValueError(
            "classifier has flip_rates and predicts true labels; the estimate needs probabilities of given "
            "labels: set its flip_rates to None"
        )
    given, truth = np.asarray(y_untrusted), np.asarray(y_trusted)
    unknown = sorted(set(truth.tolist()) - set(given.tolist()), key=str)
    if unknown:
        raise ValueError(f"y_trusted holds {unknown[0]!r}, which is not among y_untrusted")
    model = clone(classifier)
    if calibration is not None:
        # shuffled, since rows of a table are often sorted
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        model = CalibratedClassifierCV(model, method=calibration, cv=split)
    model.fit(X_untrusted, given)
    return flip_rates_from_probabilities(
        model.predict_proba(X_trusted), truth, classes=model.classes_, confidence=confidence
    )


def clopper_pearson(count: Any, n: Any, confidence: float) -> tuple[Array, Array]:
    """Return the exact interval of a binomial probability, for `count` of `n`."""
    count, n = np.broadcast_arrays(np.asarray(count, dtype=float), np.asarray(n, dtype=float))
    tail = (1.0 - confidence) / 2.0
    inner_low, inner_high = np.maximum(count, 1.0), np.minimum(count, n - 1.0)
    low = np.where(count > 0.0, betaincinv(inner_low, n - inner_low + 1.0, tail), 0.0)
    high = np.where(count < n, betaincinv(inner_high + 1.0, n - inner_high, 1.0 - tail), 1.0)
    return low, high


def _estimated(
    names: list[Any],
    rates: Array,
    lowest: Array,
    highest: Array,
    confidence: float,
    n: int,
    source: str,
) -> EstimatedRates:
    """Return the result for rates that spread evenly over the other classes."""
    own = np.eye(len(names), dtype=bool)
    few, many = spread_evenly(lowest), spread_evenly(highest)
    return EstimatedRates(
        classes=tuple(names),
        matrix=spread_evenly(rates),
        lower=np.where(own, many, few),  # many flips leave few correct labels
        upper=np.where(own, few, many),
        confidence=float(confidence),
        n_rows=n,
        source=source,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_confidence(confidence: Any) -> None:
    if not _is_number(confidence) or not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be strictly between 0 and 1, got {confidence!r}")


def _log_likelihood(q: Array, truth: NDArray[np.intp]) -> Callable[[Array], float]:
    """Return the log-likelihood of rates as a function; -inf if the rates leave nothing to learn."""
    rows, K = np.arange(len(q)), q.shape[1]
    own = q[rows, truth]

    def of_two(rates: Array) -> float:
        """Return the general form in closed form, since intervals take thousands of evaluations."""
        left = 1.0 - rates[0] - rates[1]
        if rates[0] < 0.0 or rates[1] < 0.0 or left <= 0.001:
            return -np.inf
        p = (own - rates[1 - truth]) / left
        return float(np.sum(np.log(np.minimum(np.maximum(p, _FLOOR), 1.0))))

    def of_more(rates: Array) -> float:
        if np.any(rates < 0.0) or np.any(rates >= 0.999 * (K - 1) / K):
            return -np.inf
        p = true_probabilities(q, spread_evenly(rates))[rows, truth]
        return float(np.sum(np.log(np.maximum(p, _FLOOR))))

    return of_two if K == 2 else of_more


def _start(
    log_likelihood: Callable[[Array], float], rates: Array, fixed: int | None = None
) -> Array:
    """Return the best rates on grids, near the global maximum; clipping can make several local maxima.

    Two free rates of two classes are searched together, others one at a time, starting from `rates`.
    """
    K = len(rates)
    grid = np.linspace(0.0, (K - 1) / K if K > 2 else 1.0, 41)[:-1]
    if K == 2 and fixed is None:
        best = max(
            (np.array([a, b]) for a in grid for b in grid if a + b < 0.999), key=log_likelihood
        )
        fine = np.arange(-6, 7) * 0.005
        around = [np.maximum(best + np.array([a, b]), 0.0) for a in fine for b in fine]
        return max(around, key=log_likelihood)
    best = rates
    free = [j for j in range(K) if j != fixed]
    for _ in range(3 if len(free) > 1 else 1):
        for j in free:
            points = [np.where(np.arange(K) == j, rate, best) for rate in grid]
            best = max([best, *points], key=log_likelihood)
    return best


def _maximum(
    log_likelihood: Callable[[Array], float], start: Array, fixed: int | None = None
) -> Array:
    """Return the best rates near `start`, with one of them fixed."""
    from scipy.optimize import minimize, minimize_scalar  # not needed by `import maboost`

    free = np.array([j for j in range(len(start)) if j != fixed])

    def loss(values: Array) -> float:
        rates = start.copy()
        rates[free] = values
        found = log_likelihood(rates)
        return -found if np.isfinite(found) else 1e300

    if len(free) == 1:
        # the simplex method takes several times as long; this search never tries the ends of its interval
        at = float(start[free[0]])
        around = (max(at - 0.025, 0.0), at + 0.025)
        nearby = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-4})
        other = start.copy()
        other[free] = nearby.x
        return max(start, other, key=log_likelihood)
    # the default simplex is empty if the start is 0
    steps = np.where(start[free] < 0.5, 0.03, -0.03)
    simplex = np.vstack([start[free], start[free] + np.diag(steps)])
    result = minimize(
        loss,
        start[free],
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * len(free),
        options={
            "initial_simplex": simplex,
            "xatol": 1e-5,
            "fatol": 1e-6,
            "maxiter": 400 * len(free),
        },
    )
    best = start.copy()
    best[free] = result.x
    return best


def _profile_intervals(
    log_likelihood: Callable[[Array], float], best: Array, confidence: float
) -> tuple[Array, Array]:
    """Return the values at which the profile of each rate falls by half the quantile of chi-squared."""
    from scipy.optimize import brentq  # not needed by `import maboost`

    K = len(best)
    level = log_likelihood(best) - chdtri(K, 1.0 - confidence) / 2.0
    lowest, highest = np.zeros(K), np.zeros(K)
    for j in range(K):

        def height(value: float, j: int = j) -> float:
            """Return the height of the profile above the level."""
            start = best.copy()
            start[j] = value
            if K == 2:
                start[1 - j] = min(start[1 - j], 0.998 - value)
                start = _start(log_likelihood, start, fixed=j)
            found = log_likelihood(_maximum(log_likelihood, start, fixed=j))
            return float(max(found - level, -1e6))

        limit = 0.998 if K == 2 else 0.998 * (K - 1) / K
        for end, bounds in ((0.0, lowest), (max(limit, best[j]), highest)):
            at_end = height(end)
            bounds[j] = end if at_end >= 0.0 else brentq(height, best[j], end, xtol=5e-4)
    return lowest, highest
