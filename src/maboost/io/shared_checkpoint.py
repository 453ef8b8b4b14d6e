"""Checkpoints of a fit on several workers: one file with what they share.

What each worker knows of its rows (the dual point, the density, margins) is not in it. It follows from the
trees: a fit that goes on repeats all rounds but for the search of their trees, and holds every record
against the one in the file. So the file is small, and rows may come back on other workers, or on another
number of them.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from maboost._version import __version__
from maboost.boosting.game import Validation
from maboost.boosting.history import Record
from maboost.boosting.loop import Run
from maboost.data.training_rows import TrainingRows
from maboost.io.checkpoint import (
    SCHEMA,
    Checkpoint,
    CheckpointError,
    Stored,
    _check_history,
    _digest,
    _named,
    _prints_of_any,
)
from maboost.io.container import MAX_BYTES, Arrays, read
from maboost.io.fields import require
from maboost.io.run_records import history, read_history
from maboost.io.run_state import generator_state, read_generator
from maboost.io.trees import flat, read_trees
from maboost.learners.tree.learner import TreeHypothesis
from maboost.mirror.parameters import described
from maboost.runtime.communicator import gathered_objects

__all__ = ["SharedCheckpoint"]

FORMAT = "maboost checkpoint of several workers"


class SharedCheckpoint(Checkpoint):
    """The file in which the first worker keeps what all of them share; the others never look at it."""

    def read(self, rows: TrainingRows, validation: Validation | None) -> Stored | None:
        if not self.resume:
            return None
        content = b""
        with _named(self.path):
            if self.comm.rank == 0 and os.path.exists(self.path):
                content = read(self.path, MAX_BYTES)
            content = gathered_objects(content, self.comm)[0]
            return _SharedStored.parsed(content, FORMAT) if content else None

    def _prints(self, model: Any, run: Run, rows: TrainingRows) -> dict[str, str]:
        """What repeating the rounds would not notice: rows and geometry show in every record."""
        booster = run.booster
        parts = (booster.step, booster.learning_rate, booster.trim, booster.l1)
        told = ", ".join(described(part) for part in parts)
        return _prints_of_any(model, run) | {"parts": told}

    def _parts(self) -> tuple[Arrays, dict[str, Any]]:
        model, run = self.model, self.run
        records, columns = history(model.history_)
        arrays: Arrays = dict(columns)
        trees = [h.tree for h in model.ensemble_.hypotheses]
        arrays |= flat(trees, 1 if run.game.n_classes == 2 else run.game.n_classes)
        random, arrays["random_keys"] = generator_state(run.random_state.get_state())
        arrays["samples"] = np.array(run.sample_numbers, dtype=np.int64)
        document = {
            "format": FORMAT,
            "schema": SCHEMA,
            "library": __version__,
            "prints": self.prints,
            "parameters": self.parameters,
            "seed": model.__dict__.get("_seed"),
            "history": records,
            "random": random,
            "exact": bool(run.exact),
            "ended": run.ended,
        }
        return arrays, document | {"digest": _digest(arrays, document)}


class _SharedStored(Stored):
    """Such a checkpoint that was read."""

    def restore(self, model: Any, run: Run) -> None:
        fields, arrays = self._fields, self._arrays
        records = read_history(fields.object("history"), arrays)
        trees = read_trees(arrays, run.game.n_classes, model.n_features_in_, {})
        generator = read_generator(fields.object("random"), arrays)
        samples = arrays.take("samples", np.int64, (len(records),)).tolist()
        exact, ended = fields.flag("exact"), fields.take("ended")
        require(ended is None or isinstance(ended, str), "the document.ended must be text or null")
        fields.finish()
        arrays.finish()
        _check_history(records, run)
        require(len(trees) == len(records), "trees and history must be equally many")
        bins = run.search.producer.data.bins  # type: ignore[attr-defined]  # only trees have checkpoints
        hypotheses = [TreeHypothesis(tree.on_bins(bins)) for tree in trees]
        for hypothesis, record, sample in zip(hypotheses, records, samples, strict=True):
            _repeat(run, hypothesis, record, sample)
        run.exact, run.ended = exact, ended
        run.random_state.set_state(generator)
        model.history_ = records
        for hypothesis, step in zip(hypotheses, records["step"], strict=True):
            model.ensemble_.add(hypothesis, float(step))


def _repeat(run: Run, hypothesis: TreeHypothesis, stored: Record, sample: int) -> None:
    """A round once more; refuse to go on with other rows, as the last bit of some number would tell."""
    try:
        found = run.repeat(hypothesis, stored, sample).record
        found = dataclasses.replace(found, val_score=stored.val_score)
        pair = dataclasses.astuple(found), dataclasses.astuple(stored)
        if not np.array_equal(*pair, equal_nan=True):
            raise ValueError(f"round {stored.round} went {found} here and {stored} there")
    except ValueError as error:
        raise CheckpointError(
            f"the checkpoint is of another fit: {error}. Give another path, or resume=False to begin anew"
        ) from None
