"""New votes for the members of a fitted ensemble: the largest soft margin, with fewer members."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score

from maboost.boosting.certificate import MarginBound
from maboost.boosting.recipes import REGULARIZERS, named
from maboost.boosting.refit import refit_votes
from maboost.boosting.votes_certificate import VotesCertificate
from maboost.data.labels import label_array
from maboost.engine.dispatch import project
from maboost.ensembles.margin_certificate import (
    LabelledRows,
    certificate_of_members,
    classes_of,
)
from maboost.ensembles.members import Members, matrix_of, members_of
from maboost.mirror.ascent import MirrorAscent
from maboost.mirror.domains import CappedSimplex, Domain, Simplex
from maboost.mirror.potential import DualPotential
from maboost.mirror.regularizers import Regularizer

__all__ = ["ReweightedClassifier", "capacity_for", "reweight"]

Array = NDArray[np.float64]

_NOTHING = 1e-9  # of all votes: members with smaller votes are dropped


class ReweightedClassifier:
    """Members of an ensemble with votes of the largest soft margin; made by :func:`reweight`.

    Attributes
    ----------
    classes_ : array
    members_ : Members
        The members that have a vote.
    weights_ : array
        Their votes, which sum to one.
    The certificate of the new votes on the given rows. `gap` bounds the distance of their soft margin from the
    largest.
    certificate_before_ : VotesCertificate
        The certificate of the old votes of all members, on the same scale.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, max_depth=3, random_state=0).fit(X, y)
    >>> smaller = reweight(forest, X, y)
    >>> len(smaller) < 50, smaller.predict(X[:3])
    (True, array([0, 0, 0]))
    """

    def __init__(
        self, members: Members, certificate: VotesCertificate, before: VotesCertificate
    ) -> None:
        self.classes_ = members.classes
        self.members_ = members
        self.weights_ = members.weights
        self.certificate_ = certificate
        self.certificate_before_ = before

    def __len__(self) -> int:
        return len(self.members_)

    def decision_function(self, X: Any) -> Array:
        """Return the weighted vote on rows: (n,) for two classes, (n, K) for more."""
        votes: Array | float = 0.0
        for weight, (answers, codes) in zip(self.weights_, self.members_.coded(X), strict=True):
            votes = votes + weight * answers[codes]
        return np.asarray(votes)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the most votes."""
        votes = self.decision_function(X)
        chosen = (votes > 0.0).astype(np.intp) if votes.ndim == 1 else np.argmax(votes, axis=1)
        found: NDArray[Any] = self.classes_[chosen]
        return found

    def predict_proba(self, X: Any) -> Array:
        """Return the share of each class in the votes, which is not calibrated.

        The answers of LightGBM's trees with more than two classes are not shares of votes; the result is then the softmax
        of the votes.
        """
        votes = self.decision_function(X)
        if votes.ndim == 1:
            return np.column_stack([0.5 - 0.5 * votes, 0.5 + 0.5 * votes])
        if self.members_.bounded:
            return votes
        shares = np.exp(votes - votes.max(axis=1, keepdims=True))
        found: Array = shares / shares.sum(axis=1, keepdims=True)
        return found

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy."""
        return float(accuracy_score(label_array(y), self.predict(X), sample_weight=sample_weight))

    def __repr__(self) -> str:
        return (
            f"ReweightedClassifier({len(self)} of {self.certificate_before_.members} members, soft margin "
            f"{self.certificate_.soft_margin:.4g}, before {self.certificate_before_.soft_margin:.4g})"
        )


def reweight(
    ensemble: Any,
    X: Any,
    y: ArrayLike,
    *,
    domain: str | Domain | None = None,
    regularizer: str | Regularizer = "entropy",
    tolerance: float = 0.01,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> ReweightedClassifier:
    r"""Give the members of a fitted ensemble the votes of the largest soft margin, and drop members without a vote.

    The members are not fitted again. The votes maximise :math:`G(\lambda V\eta)/\lambda` over
    :math:`\eta \ge 0, \sum_t\eta_t = 1`, where :math:`V_{it}` is the margin of member t on row i, at the capacity
    :math:`\lambda = 2\max_S B_R/\tau` for a tolerance :math:`\tau`. Their soft margin over `domain` is within
    :math:`\tau` of the largest that any votes of these members reach, and `certificate_.gap` is a proven bound of the
    difference. Rows on which members were fitted have margins that are too good: give held-out rows
    if the members are deep trees.

    Parameters
    ----------
    ensemble : fitted classifier
        A booster of this library, AdaBoost, a random forest, extremely randomised trees, bagging, or LightGBM. LightGBM's
        trees are divided by their largest leaf, so that their votes are bounded.
    X, y
        Rows in the form of the ensemble, and their labels.
    domain : "simplex", Domain or None, default=None
        None means ``CappedSimplex(4)``, which maximises the mean margin of the worst quarter of the rows.
        "simplex" maximises the smallest margin of a row.
    regularizer : {"entropy", "euclidean"} or Regularizer, default="entropy"
        The form of the smoothing; entropy needs the smallest capacity.
    tolerance : float in (0, 1), default=0.01
    sample_weight : array-like of shape (n_rows,), optional
        The base measure.
    n_jobs : int, optional

    Returns
    -------
    ReweightedClassifier
        With predict, predict_proba, decision_function, score and the certificates.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import AdaBoostClassifier
    >>> from maboost import reweight
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> smaller = reweight(AdaBoostClassifier(n_estimators=30, random_state=0).fit(X, y), X, y)
    >>> smaller.certificate_.soft_margin > smaller.certificate_before_.soft_margin
    True
    """
    if not (isinstance(tolerance, Real) and 0.0 < tolerance < 1.0):
        raise ValueError(f"tolerance must be in (0, 1), got {tolerance!r}")
    members = members_of(ensemble)
    if members is None or not len(members):
        raise ValueError(
            f"reweight needs the members of the ensemble, which are not known for {type(ensemble).__name__}: give "
            "a booster of maboost, AdaBoostClassifier, a forest, BaggingClassifier or a LightGBM model; "
            "margin_certificate takes any classifier with scores"
        )
    allowed = CappedSimplex(4.0) if domain is None else domain
    rows = LabelledRows.of(X, y, sample_weight, allowed, classes_of(ensemble), n_jobs)
    geometry: Regularizer = named("regularizer", regularizer, REGULARIZERS)
    matrix = matrix_of(members, rows.X, rows.labels, rows.threads)
    over = Simplex() if isinstance(rows.domain, str) else rows.domain
    potential = DualPotential(geometry, over, rows.measure, project)
    capacity = capacity_for(tolerance, MirrorAscent(geometry, over), rows)
    found = refit_votes(
        matrix, potential, np.maximum(members.weights, 0.0), capacity=capacity,
        tolerance=0.25 * tolerance,
    )  # fmt: skip
    weights = np.where(found.eta > _NOTHING * capacity, found.eta, 0.0)
    weights /= math.fsum(weights)
    kept = np.flatnonzero(weights)
    after = certificate_of_members(matrix, weights, rows, geometry)
    best = min(after.best_edge or 1.0, float(found.edges.max()))
    after = replace(after, best_edge=best, members=len(kept))
    before = certificate_of_members(matrix, members.weights, rows, geometry)
    return ReweightedClassifier(
        members.select(kept, weights[kept]), after, replace(before, best_edge=best)
    )


def capacity_for(tolerance: float, ascent: MirrorAscent, rows: LabelledRows) -> float:
    r"""Return the capacity :math:`2\max_S B_R/\tau` at which smoothing costs half of the tolerance."""
    return max(2.0 * MarginBound.of(ascent, rows.measure).start / tolerance, 1.0)
