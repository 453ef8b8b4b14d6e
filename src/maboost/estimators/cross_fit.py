"""Cross-fitting: votes on training rows by models that were not fitted on them."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.data.training_rows import TrainingRows
from maboost.estimators.progress import display, showing

__all__ = ["classes_among", "cross_fitted_votes"]

Array = NDArray[np.float64]

_SEEDS = (1, 2)  # seeds of the hashes that split the rows
_STAGES = 10  # numbers of rounds after which the votes are kept


def cross_fitted_votes(model: Any, rows: TrainingRows, folds: int) -> list[Array] | None:
    """The votes on every row after each tenth of the rounds; of models without stages, after the last round.

    The rows are split into folds twice, by two hashes of their values. A booster like `model` is fitted
    without each fold and votes on it; the votes of both splits are averaged. A split in which a fold has all rows
    of a class or source is left out.

    Parameters
    ----------
    model : BoostingClassifier
        A model fitted to `rows`.
    rows : TrainingRows
    folds : int

    Returns
    -------
    list of arrays of shape (n_rows,) or (n_rows, n_classes), or None
        None if there is one class only, or both splits are left out.
    """
    K, rounds = len(rows.classes), max(model.n_iter_, 1)
    first = 1 if model.has_stages else _STAGES
    after = sorted({math.ceil(rounds * stage / _STAGES) for stage in range(first, _STAGES + 1)})
    place = [
        np.minimum((folds * rows.table.row_hashes(seed)).astype(np.intp), folds - 1)
        for seed in _SEEDS
    ]
    splits = [fold for fold in place if _all_remain(rows, fold, folds)]
    if K < 2 or not splits:
        return None
    shape = len(rows.labels) if K == 2 else (len(rows.labels), K)
    found = [np.zeros(shape) for _ in after]
    for split, fold in enumerate(splits):
        for f in range(folds):
            number = split * folds + f + 1
            display().phase(f"cross-fitting model {number} of {len(splits) * folds}")
            out = fold == f
            if not out.any():
                continue
            for votes, of_fold in zip(found, _votes_without(model, rows, out, after), strict=True):
                votes[out] += of_fold / len(splits)
    return found


def _all_remain(rows: TrainingRows, fold: NDArray[np.intp], folds: int) -> bool:
    """Return whether the rows outside of each fold have all classes and all sources."""
    if any(classes_among(rows, fold != f) < len(rows.classes) for f in range(folds)):
        return False
    if rows.sample_domain is None:
        return True
    sources = rows.of_kept(rows.sample_domain, "sample_domain")
    count = len(np.unique(sources))
    return all(len(np.unique(sources[fold != f])) == count for f in range(folds))


def _votes_without(
    model: Any, rows: TrainingRows, out: NDArray[np.bool_], after: list[int]
) -> list[Array]:
    """Return the votes on some rows of a booster fitted to the others, after some numbers of rounds."""
    fitted = model._for_fold()
    with warnings.catch_warnings(), showing(0):
        warnings.simplefilter("ignore", UserWarning)  # the fit itself has given these warnings
        fitted._boosted(
            replace(rows.where(~out), random_state=np.random.RandomState(0)),
            (None, None, None), None, None, None,
        )  # fmt: skip
    found = []
    for rounds, votes in enumerate(fitted.ensemble_.staged_votes(rows.where(out).X), start=1):
        if rounds in after:
            found.append(votes.copy())
    return found + [votes] * (len(after) - len(found))  # a fit may end before its last round


def classes_among(rows: TrainingRows, chosen: NDArray[np.bool_]) -> int:
    """Return the number of classes that some of the rows have, over all shards."""
    counts = np.bincount(rows.labels[chosen], minlength=len(rows.classes))
    return int(np.count_nonzero(rows.comm.allreduce(counts.astype(np.int64), "sum")))
