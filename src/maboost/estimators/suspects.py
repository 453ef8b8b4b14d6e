"""Suspect labels: training rows whose labels look wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.loop import Run
from maboost.learners.tree.predictor import simplex_rows
from maboost.noise.corrections import wrong_given
from maboost.noise.label_noise import LabelNoise

__all__ = ["Evidence", "Suspicion"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Statistics of the fit about every training row.

    Attributes
    ----------
    kept : boolean array
        Which of the rows given to `fit` these are.
    given, predicted : integer arrays
        Class numbers: the label, and the vote of the ensemble.
    margin, mean_margin : arrays
        The normalised margin after the last round, and its mean over the rounds.
    mean_weight : array
        The mean density over the rounds: 1 is a row's own share.
    rounds : int
        The number of rounds; without any, no label was voted against.
    """

    kept: NDArray[np.bool_]
    given: NDArray[np.integer]
    predicted: NDArray[np.integer]
    margin: Array
    mean_margin: Array
    mean_weight: Array
    rounds: int

    @classmethod
    def of(cls, run: Run, kept: NDArray[np.bool_]) -> Evidence:
        """Return the evidence of a finished run; takes over the run's own sums, and small integers for classes."""
        small = np.min_scalar_type(run.game.n_classes)
        rounds = max(run.rounds, 1)
        run.weight_sum /= rounds
        run.margin_sum /= rounds
        return cls(
            kept,
            run.game.labels.astype(small),
            run.game.predicted(run.margins).astype(small),
            run.game.worst_margins(run.margins) / (run.total_step or 1.0),
            run.margin_sum,
            run.weight_sum,
            run.rounds,
        )

    @classmethod
    def of_one_class(cls, kept: NDArray[np.bool_]) -> Evidence:
        """Return the evidence of rows of one class, which need no round: every label is right."""
        classes, ones = np.zeros(int(kept.sum()), dtype=np.uint8), np.ones(int(kept.sum()))
        return cls(kept, classes, classes, ones, ones, ones, 0)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The positions among the rows given to `fit`."""
        return np.flatnonzero(self.kept)

    def quality(self) -> Array:
        """Return a number in [0, 1], low for labels that the ensemble votes against although their weight is large."""
        return np.clip(0.5 + 0.25 * (self.margin + self.mean_margin), 0.0, 1.0)

    def table(self, classes: NDArray[Any], index: Any) -> Any:
        """Return the trained rows as a data frame, from the margins of the fit itself."""
        return _frame(
            self.rows,
            index,
            is_label_issue=(self.mean_margin <= 0.0) & (self.rounds > 0),
            label_quality=self.quality(),
            probability_wrong=np.full(len(self.given), np.nan),
            given_label=classes[self.given],
            suggested_label=classes[self.predicted],
            predicted_label=classes[self.predicted],
            mean_weight=self.mean_weight,
        )


@dataclass(frozen=True)
class Suspicion:
    """Conclusions about given labels from out-of-sample probabilities.

    Attributes
    ----------
    wrong : array
        The probability that each given label is wrong.
    quality : array
        The number by which rows are ranked; low is suspicious.
    suggested, predicted : integer arrays
        The most probable true class, with and without use of the given label.
    rates : array of shape (n_sources, n_classes, n_classes)
        P(given | true), given or estimated.
    estimated : bool
        Whether the rates are estimated, under the assumption that classes do not overlap.
    folds : int
        The number of folds of the cross-fit.
    number : (float, float)
        The number of wrong labels by rates and given labels alone, and its standard error.
    """

    wrong: Array
    quality: Array
    suggested: NDArray[np.integer]
    predicted: NDArray[np.integer]
    rates: Array
    estimated: bool
    folds: int
    number: tuple[float, float]

    @classmethod
    def of(
        cls,
        p: Array,
        predicted: NDArray[np.intp],
        given: NDArray[np.intp],
        noise: LabelNoise,
        sources: NDArray[np.intp] | None,
        folds: int,
    ) -> Suspicion:
        """Return the suspicion under given flip rates, from probabilities of true classes."""
        wrong = noise.wrong(p, given, sources)
        of = np.zeros(len(given), dtype=np.intp) if sources is None else sources
        suggested = np.argmax(p * noise.rates[of, :, given], axis=1)
        number = number_by_rates(p, given, noise.rates, of)
        return cls(wrong, 1.0 - wrong, suggested, predicted, noise.rates, False, folds, number)

    @classmethod
    def without_rates(cls, q: Array, given: NDArray[np.intp], folds: int) -> Suspicion:
        """Return the suspicion without flip rates, from probabilities of given labels.

        A label is ranked by its probability less the mean probability of labels of its class, so that
        all rows of a class that is hard to recognise are not suspected.
        """
        rates = rates_of_separable_classes(q, given)
        rows = np.arange(len(given))
        own = q[rows, given]
        typical = mean_of_own(q, given)
        quality = np.clip(0.5 + 0.5 * (own - typical[given]), 0.0, 1.0)
        p = q
        wrong, number = np.zeros(len(given)), (0.0, 0.0)
        if np.linalg.svd(rates, compute_uv=False)[-1] > 1e-6:
            p = simplex_rows(np.linalg.solve(rates.T, q.T).T.astype(np.float64))
            wrong = wrong_given(p, given, rates)
            number = number_by_rates(p, given, rates[None], np.zeros(len(given), dtype=np.intp))
        suggested = np.argmax(p * rates[:, given].T, axis=1)
        predicted = q.argmax(axis=1)
        return cls(wrong, quality, suggested, predicted, rates[None], True, folds, number)

    @property
    def expected(self) -> float:
        """The expected number of wrong labels under the rates."""
        return math.fsum(self.wrong)

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval of the number of wrong labels if the rates are right; it contains `expected`."""
        number, half = self.number[0], 1.96 * self.number[1]
        low, high = min(number - half, self.expected), max(number + half, self.expected)
        return max(low, 0.0), min(high, float(len(self.wrong)))

    def summary(self) -> str:
        """Return the number of wrong labels in a sentence."""
        total, number = f"{len(self.wrong):,}", f"{round(self.expected):,}"
        if self.estimated:
            return (
                f"The number of wrong labels is not known without flip rates; if the classes did not overlap, it "
                f"would be about {number} of {total}, and it is less where they do."
            )
        low, high = self.interval
        return f"About {number} of {total} labels are wrong ({round(low):,} to {round(high):,} under the given rates)."

    def table(
        self,
        kept: NDArray[np.bool_],
        given: NDArray[np.intp],
        evidence: Evidence,
        classes: NDArray[Any],
        index: Any,
    ) -> Any:
        """Return the rows as a data frame; `kept` says which of the rows given to `fit` they are."""
        weight = np.full(len(kept), np.nan)
        weight[evidence.kept] = evidence.mean_weight
        frame = _frame(
            np.flatnonzero(kept),
            index,
            is_label_issue=self.wrong > 0.5,
            label_quality=self.quality,
            probability_wrong=self.wrong,
            given_label=classes[given],
            suggested_label=classes[self.suggested],
            predicted_label=classes[self.predicted],
            mean_weight=weight[kept],
        )
        if hasattr(frame, "attrs"):  # a frame of pandas
            frame.attrs |= {
            "expected_wrong": self.expected, "interval": self.interval, "summary": self.summary(),
            "folds": self.folds,
        }  # fmt: skip
        return frame


def number_by_rates(
    p: Array, given: NDArray[np.intp], rates: Array, sources: NDArray[np.intp]
) -> tuple[float, float]:
    r"""Return the number of wrong labels from the rates and the given labels alone, and its standard error.

    A row truly of class k is given g with probability :math:`T_{kg}`. With :math:`a = T^{-1}v` and
    :math:`v_k = 1 - T_{kk}`, the sum of :math:`a_g` over the rows has the mean of the number of wrong labels for
    any true classes, and their difference the variance

    .. math:: \sum_i \sum_g T_{k_i g} (1[g \ne k_i] - a_g)^2 ,

    in which the true classes are replaced by their probabilities `p`.
    """
    K = rates.shape[1]
    number, variance = np.empty(rates.shape[:2]), np.empty(rates.shape[:2])
    for s, T in enumerate(rates):
        number[s] = np.linalg.solve(T, 1.0 - np.diagonal(T))
        variance[s] = np.sum(T * (1.0 - np.eye(K) - number[s]) ** 2, axis=1)
    spread = math.sqrt(math.fsum((p * variance[sources]).ravel()))
    return math.fsum(number[sources, given]), spread


def rates_of_separable_classes(q: Array, given: NDArray[np.intp]) -> Array:
    """Return P(given | true) if classes do not overlap: Northcutt, Jiang and Chuang (2021), "Confident learning".

    A row counts as truly of the class whose probability is the largest of those that are above the mean
    probability of rows given that class.
    """
    K = q.shape[1]
    threshold = mean_of_own(q, given)
    above = q >= threshold
    believed = np.argmax(np.where(above, q, -1.0), axis=1)
    sure = above.any(axis=1)
    counts = np.zeros((K, K))
    np.add.at(counts, (given[sure], believed[sure]), 1.0)
    counts += np.eye(K) * (counts.sum(axis=1, keepdims=True) == 0.0)
    joint = counts / counts.sum(axis=1, keepdims=True) * np.bincount(given, minlength=K)[:, None]
    joint += np.eye(K) * (joint.sum(axis=0) == 0.0)
    rates: Array = (joint / joint.sum(axis=0)).T
    return rates


def mean_of_own(q: Array, given: NDArray[np.intp]) -> Array:
    """Return the mean probability of class k over the rows given k, for each k; independent of the order of rows."""
    own = [q[given == k, k] for k in range(q.shape[1])]
    return np.array([math.fsum(of_class) / len(of_class) for of_class in own])


def _frame(rows: NDArray[np.intp], index: Any, **columns: Any) -> Any:
    """Return a data frame, the most suspicious row first; `index` is the index of the user's rows, or None.

    Without pandas it is a frame of polars or pyarrow with a column `row`, or else a dict of arrays.
    """
    order = np.argsort(columns["label_quality"], kind="stable")
    rows, columns = rows[order], {name: values[order] for name, values in columns.items()}
    try:
        import pandas as pd
    except ImportError:
        return _without_pandas({"row": rows, **columns})
    labels = pd.Index(rows, name="row") if index is None else index[rows]
    return pd.DataFrame(columns, index=labels)


def _without_pandas(columns: dict[str, Any]) -> Any:
    """Return a frame of the first library that is installed, or the columns."""
    import narwhals.stable.v2 as nw

    for library in ("polars", "pyarrow"):
        if find_spec(library) is not None:
            return nw.from_dict(columns, backend=library).to_native()
    return columns
