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
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, column_or_1d

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import STEPS, madaboost
from maboost.boosting.streaming import Filter
from maboost.data.categories import CategoryCodes
from maboost.data.labels import label_array, unknown_labels
from maboost.data.training_rows import TrainingRows
from maboost.estimators.base import BoostingClassifier
from maboost.estimators.control import unchanged_by_failure
from maboost.estimators.documentation import documented
from maboost.estimators.progress import showing
from maboost.estimators.stream_fit import boost_stream

__all__ = ["MadaBoostClassifier"]


@documented
class MadaBoostClassifier(BoostingClassifier):
    r"""MadaBoost: the weight of a row is a function of its margin alone, and never above a bound b.

    .. math:: y_i = \min(b, e^{-M_i}), \qquad w = D y / \sum_j D_j y_j

    **Guarantee.** Training error at most :math:`\Phi(H) = \sum_i D_i\psi(-M_i)` with
    :math:`\psi(x) = e^x` for :math:`x \le \log b` and :math:`b(1 + x - \log b)` above, for any positive steps
    (times K - 1 with K classes). The rates are about the least error over the rounds, :math:`\varepsilon_t`
    being the error before round t, and about whole steps: with the paper's step
    :math:`\min_t\varepsilon_t \le \sqrt{2/\sum\gamma_t^2}` (Theorem 5); with the corrective step
    :math:`\sum_t\varepsilon_t\gamma_t^2 \le 2(1-\varepsilon_T)`, which is the rate
    :math:`O(1/(\varepsilon\gamma^2))` the paper doubts and which holds for every b. A learning rate
    :math:`\nu` makes the constant :math:`2/\nu`.

    Parameters
    ----------
    bound : float, default=1.0
        The largest weight b of a row, at least 1; Theorem 5 is about 1. A larger bound lets rows that are wrong
        weigh more, up to AdaBoost's weights.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MadaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MadaBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.certificate_.measured_error <= model.certificate_.error_bound
    True
    """

    step: Any
    bound: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "step": [StrOptions(set(STEPS)), callable],
        "bound": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | Literal["auto"] = "auto",
        learning_rate: float = 0.1,
        step: Any = "corrective",
        bound: float = 1.0,
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
        return madaboost(self.step, self.learning_rate, self._showing(), bound=self.bound), None

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
        with unchanged_by_failure(self), showing(self.verbose, alone=True) as shown:
            shown.phase("reading the stream")
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
    "bound": "rows are accepted with a probability of min(1, exp(-margin)); leave the bound at 1",
    "step": "the step follows from the edge that the rows of a round leave certain",
    "flip_rates": "rows of a stream are accepted by their margin alone; give flip_rates to fit",
    "trim": "a round trains on all rows that it accepts",
    "max_samples": "a round trains on all rows that it accepts",
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
                "the first batch does not have both"
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
