"""The certificate of a fitted ensemble on labelled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    column_or_1d,
)

from maboost.boosting.game import Game
from maboost.boosting.votes_certificate import VotesCertificate, certificate_of
from maboost.data.categories import CategoryCodes, categorical_mask
from maboost.data.labels import label_array, unknown_labels
from maboost.engine.vote_matrix import VoteMatrix
from maboost.ensembles.members import matrix_of, members_of
from maboost.estimators.tree import HistTreeClassifier
from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Regularizer
from maboost.runtime.threads import Threads, available_threads

__all__ = ["LabelledRows", "margin_certificate"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LabelledRows:
    """Rows of positive weight with their labels as codes, and their measure."""

    X: Any
    labels: NDArray[np.intp]
    measure: BaseMeasure
    domain: Domain | str
    threads: Threads

    @classmethod
    def of(
        cls, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, domain: Domain | str,
        classes: NDArray[Any], n_jobs: int | None,
    ) -> LabelledRows:  # fmt: skip
        """Check rows, labels and weights; leave out the rows of weight zero."""
        labels: NDArray[Any] = column_or_1d(label_array(y), warn=True)
        check_consistent_length(X, labels)
        unknown = unknown_labels(labels, classes)
        if unknown:
            raise ValueError(f"y has classes that the ensemble was not fitted on: {unknown!r}")
        weights = _check_sample_weight(
            sample_weight, np.empty((len(labels), 1)), dtype=np.float64, ensure_non_negative=True
        )
        kept = weights > 0.0
        if isinstance(domain, Domain):
            domain = domain.restricted(kept)
        if not kept.all():
            X, labels, weights = (
                _safe_indexing(X, np.flatnonzero(kept)),
                labels[kept],
                weights[kept],
            )
        threads = Threads(available_threads(n_jobs))
        measure = BaseMeasure(weights, len(classes) - 1, threads=threads)
        return cls(X, np.searchsorted(classes, labels), measure, domain, threads)


def margin_certificate(
    ensemble: Any,
    X: Any,
    y: ArrayLike,
    *,
    domain: str | Domain = "simplex",
    regularizer: str | Regularizer = "entropy",
    sample_weight: ArrayLike | None = None,
    learner: HistTreeClassifier | Literal["stumps"] | None = None,
    n_jobs: int | None = None,
) -> VotesCertificate:
    r"""Certify the votes of a fitted ensemble on labelled rows.

    The certificate holds for any votes, however they were found. It has an upper bound of the error under every
    rescaling of the votes, the soft margin over `domain`, and the hardest distribution over the rows.
    It is about these rows. For rows that were not used to fit, see :func:`maboost.certify`.

    Margins have no scale of their own. They are divided

    - by the sum of the votes, if the members vote with bounded answers: boosters of this library,
      AdaBoost, forests, bagging;
    - by the largest absolute score on the rows, if leaves are unbounded: LightGBM, XGBoost, and classifiers with
      a `decision_function`;
    - by one, if only `predict_proba` is known.

    The certificate says which. If the members are known and bounded, it also has the largest edge of a member
    under that distribution: no other votes of these members have a larger soft margin (see :func:`maboost.reweight`).
    With a `learner`, the best edge that it finds counts too: if the learner is exact, no ensemble of members and of
    hypotheses of the learner's class has a larger soft margin. An ensemble with unbounded leaves is not in the class,
    and its gap may be negative.

    Parameters
    ----------
    ensemble : fitted classifier
        A classifier with `decision_function`, `predict_proba` or known members.
    X, y
        Rows in the form of the ensemble, and their labels.
    domain : "simplex" or Domain, default="simplex"
        For example ``CappedSimplex(4)``: the soft margin is then the mean margin of the worst quarter.
    regularizer : {"entropy", "euclidean"} or Regularizer, default="entropy"
    sample_weight : array-like of shape (n_rows,), optional
        The base measure.
    learner : HistTreeClassifier or "stumps", optional
        The class of hypotheses to compare with. "stumps" are voting stumps at the borders of up to 255 bins in each column,
        over which the learner is exact. ``HistTreeClassifier(max_depth=1, response="sign",
        min_samples_leaf=1)`` is exact with other bins. Other trees are not exact, and their best edge is indicative.
    n_jobs : int, optional

    Returns
    -------
    VotesCertificate

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import AdaBoostClassifier
    >>> from maboost import margin_certificate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = margin_certificate(AdaBoostClassifier(n_estimators=30, random_state=0).fit(X, y), X, y)
    >>> found.measured_error <= found.error_bound, found.scale_is
    (True, 'the sum of the votes')
    """
    classes = classes_of(ensemble)
    rows = LabelledRows.of(X, y, sample_weight, domain, classes, n_jobs)
    members = members_of(ensemble)
    if members is not None and members.bounded and len(members):
        matrix = matrix_of(members, rows.X, rows.labels, rows.threads)
        found = certificate_of_members(matrix, members.weights, rows, regularizer)
        return found if learner is None else _compared(found, learner, rows)
    votes, bounded = scores_of(ensemble, rows.X, len(classes))
    margins = Game(rows.labels, len(classes)).margins(votes)
    scale, scale_is = 1.0, "since probabilities have margins of at most one"
    if not bounded:
        scale, scale_is = rows.measure.maximum(np.abs(margins)), "the largest absolute score"
    found = certificate_of(
        margins, rows.measure, regularizer, rows.domain, scale=scale or 1.0, scale_is=scale_is
    )
    return found if learner is None else _compared(found, learner, rows)


def _compared(
    found: VotesCertificate, learner: HistTreeClassifier | str, rows: LabelledRows
) -> VotesCertificate:
    """Return the certificate with the best edge that a learner finds under the hardest distribution."""
    if learner == "stumps":
        learner = HistTreeClassifier(max_depth=1, min_samples_leaf=1, response="sign")
    if not isinstance(learner, HistTreeClassifier):
        raise ValueError(f'learner must be a HistTreeClassifier or "stumps", got {learner!r}')
    learner._validate_params()
    codes = CategoryCodes.of(rows.X)
    names = getattr(rows.X, "columns", None)
    X = check_array(codes.applied(rows.X), dtype=np.float64, ensure_all_finite="allow-nan")
    mask = categorical_mask(learner.categorical_features, codes, names, X.shape[1])
    game, measure = Game(rows.labels, found.n_classes), rows.measure
    weak = learner.weak_learner(
        X.shape[1], found.n_classes, mask, measure.rows_base, rows.threads, None, names
    )
    producer = weak.prepare(X, rows.labels, found.n_classes)
    rewards = None
    if game.width > 1:
        rewards = game.rewards(found.density, measure.rows_base / game.width)
    weights = measure.rows_base * measure.row_means(found.density)
    hypothesis = producer.produce(weights, None, rewards, np.random.RandomState(0))
    loss = game.loss(producer.training_scores(hypothesis))
    edge = -measure.integral(found.density * loss)
    known = found.best_edge is not None
    best = max(edge, found.best_edge) if found.best_edge is not None else edge
    return replace(found, best_edge=best, exact=weak.exact, same_class=known and found.same_class)


def certificate_of_members(
    matrix: VoteMatrix, weights: Array, rows: LabelledRows, regularizer: str | Regularizer
) -> VotesCertificate:
    """Return the certificate of bounded members with votes, and their best edge under the hardest distribution."""
    found = certificate_of(
        matrix.margins(weights), rows.measure, regularizer, rows.domain,
        scale=math.fsum(np.abs(weights)) or 1.0, scale_is="the sum of the votes",
    )  # fmt: skip
    edges = matrix.edges(found.density, rows.measure)
    return replace(
        found,
        best_edge=float(edges.max()),
        exact=True,
        same_class=not np.any(weights < 0.0),
        members=len(weights),
    )


def classes_of(ensemble: Any) -> NDArray[Any]:
    """Return the classes of a fitted classifier."""
    if type(ensemble).__module__.split(".")[0] == "lightgbm" and not hasattr(ensemble, "classes_"):
        return np.arange(max(int(ensemble.dump_model()["num_tree_per_iteration"]), 2))
    classes = np.asarray(getattr(ensemble, "classes_", []))
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(
            f"{type(ensemble).__name__} must be a fitted classifier of at least two classes, with an attribute "
            f"classes_; got classes {classes.tolist()!r}"
        )
    return classes


def scores_of(ensemble: Any, X: Any, n_classes: int) -> tuple[Array, bool]:
    """Return the scores of an ensemble, (n,) or (n, K), and whether they are bounded by one."""
    library = type(ensemble).__module__.split(".")[0]
    if library == "lightgbm":
        scores = ensemble.predict(X, raw_score=True)
    elif library == "xgboost":
        scores = ensemble.predict(X, output_margin=True)
    elif hasattr(ensemble, "decision_function"):
        scores = ensemble.decision_function(X)
    elif hasattr(ensemble, "predict_proba"):
        p = np.asarray(ensemble.predict_proba(X), dtype=np.float64)
        return (p[:, 1] - p[:, 0] if n_classes == 2 else p), True
    else:
        raise ValueError(
            f"{type(ensemble).__name__} has neither decision_function nor predict_proba: a certificate "
            "needs scores; give maboost.boosting.certificate_of the margins"
        )
    found = np.asarray(scores, dtype=np.float64)
    if found.shape[1:] == (1,):
        found = found[:, 0]
    if found.ndim != (1 if n_classes == 2 else 2) or found.shape[1:] not in ((), (n_classes,)):
        raise ValueError(
            f"{type(ensemble).__name__} gives scores of shape {found.shape}, which are not one a class "
            f"(one-versus-rest) for {n_classes} classes; give maboost.boosting.certificate_of the margins"
        )
    return found, False
