"""Checkpoints: the state of a fit in a file, so that a fit that was killed goes on with the same bits.

The container is that of the model file. It holds what changes from round to round (the dual point, the
density, margins, the generator of random numbers), the history and the trees so far, and what the fit
is of: hashes of its rows and descriptions of its booster. A digest covers all of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Self, cast

import numpy as np

from maboost._version import __version__
from maboost.boosting.game import Validation
from maboost.boosting.history import History
from maboost.boosting.loop import Run
from maboost.data.training_rows import TrainingRows
from maboost.estimators.control import fixed_parameters, told_changes
from maboost.io.container import (
    MAX_BYTES,
    Arrays,
    ModelFormatError,
    pack,
    read,
    shortened,
    unpack,
)
from maboost.io.fields import Fields, Tensors, require
from maboost.io.run_records import history, read_history
from maboost.io.run_state import read_run_state, run_state
from maboost.io.trees import flat, read_trees
from maboost.io.values import label
from maboost.learners.tree.learner import TreeHypothesis
from maboost.mirror.parameters import described, told_change
from maboost.runtime.atomic_files import remove_parts, whole_file
from maboost.runtime.communicator import Communicator, SerialCommunicator

__all__ = ["Checkpoint", "CheckpointError", "Stored"]

FORMAT = "maboost checkpoint"
SCHEMA = 5

_BYTES_AN_ENTRY = 64  # at most, of all arrays over the rows
_NOT_TOLD = ("base", "threads", "comm", "repeats")

_ROWS = {
    "rows": "X, y, the weights, the sources or the share held out have changed",
    "validation rows": "the validation rows have changed",
}


class CheckpointError(ValueError):
    """A file that is no checkpoint, a damaged one, or one of another version or of another fit.

    A fit with ``resume=True`` raises nothing else about the content of the file, whoever wrote it.

    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from maboost import CheckpointError, MABoostClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.ckpt"
    ...     _ = path.write_bytes(b"something else")
    ...     try:
    ...         _ = MABoostClassifier(checkpoint=path, resume=True).fit(*load_iris(return_X_y=True))
    ...     except CheckpointError:
    ...         print("not a checkpoint")
    not a checkpoint
    """


class Checkpoint:
    """The file in which a fit keeps its state.

    Parameters
    ----------
    path : path-like
    every : int, default=10
        Rounds between two writes.
    resume : bool, default=False
        Whether to go on from the file.

    Raises
    ------
    ValueError
        If the path cannot be that of a file.
    OSError
        If its folder cannot be written to.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: int = 10,
        resume: bool = False,
        comm: Communicator | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.every = every
        self.resume = resume
        self.comm = comm or SerialCommunicator()
        self.writes = self.comm.rank == 0
        if self.writes:
            _check_place(self.path)

    @classmethod
    def of(cls, model: Any) -> Self:
        """From the parameters of a classifier."""
        if model.checkpoint is None:
            raise ValueError("resume=True goes on from the file at checkpoint, which is None")
        if not model._own_trees():
            raise ValueError(
                f"checkpoint={os.fspath(model.checkpoint)!r} holds trees of HistTreeClassifier, and "
                f"this model boosts {type(model.estimator).__name__}: fit with estimator=None or "
                "HistTreeClassifier(...), or set checkpoint=None"
            )
        return cls(model.checkpoint, model.checkpoint_every, model.resume, model._comm)

    def read(self, rows: TrainingRows, validation: Validation | None) -> Stored | None:
        """What the file holds, if there is one and the fit is to go on from it.

        Parameters
        ----------
        rows, validation
            They say how large a checkpoint of theirs can be.
        """
        if not self.resume or not os.path.exists(self.path):
            return None
        watching = 0 if validation is None else len(validation.base)
        entries = (len(rows.y) + watching) * len(rows.classes)
        with _named(self.path):
            return Stored.read(self.path, MAX_BYTES + _BYTES_AN_ENTRY * entries)

    def begin(self, model: Any, run: Run, rows: TrainingRows, stored: Stored | None) -> None:
        """Take on a run before its first round; go on where `stored` was written."""
        _check_generator(run.random_state)
        for name in run.groups.names if run.groups else []:
            label(name, "a data source")
        self.model, self.run = model, run
        self.prints = self._prints(model, run, rows)
        self.parameters = fixed_parameters(model)
        if stored is not None:
            with _named(self.path):
                self._check_same(stored)
                stored.restore(model, run)
            _check_rounds(model, self.path)
        if self.writes:
            remove_parts(self.path)

    def _check_same(self, stored: Stored) -> None:
        """Refuse what was stored of another fit, and tell what has changed."""
        old, new = stored.prints, self.prints
        require(old.keys() == new.keys(), "the document.prints has other names")
        changed = [name for name in new if old[name] != new[name]]
        if not changed:
            return
        what = _ROWS.get(changed[0])
        if what is not None:  # the weights of rows follow from the flip rates too
            old_rates = {k: v for k, v in stored.parameters.items() if k == "flip_rates"}
            what = told_changes(old_rates, self.parameters) or what
        if what is None and changed[0] != "booster":
            what = told_changes(stored.parameters, self.parameters)
        what = what or told_change(changed[0], old[changed[0]], new[changed[0]])
        raise CheckpointError(
            f"checkpoint={self.path!r} is of another fit: {shortened(what, 2000)}. Give another path, or resume=False to "
            "begin anew"
        )

    def _prints(self, model: Any, run: Run, rows: TrainingRows) -> dict[str, str]:
        """What must be the same when a fit goes on."""
        return {
            "rows": rows.fingerprint(),
            "validation rows": rows.print_of(run.validation),
            **_prints_of_any(model, run),
            "parts": described(run.booster),
        }

    def __call__(self, last: bool) -> None:
        """A round has ended: write the file if it is time to."""
        if self.writes and (last or self.run.rounds % self.every == 0):
            content = pack(*self._parts())
            with _named(self.path), whole_file(self.path) as file:
                file.write(content)

    def _parts(self) -> tuple[Arrays, dict[str, Any]]:
        model, run = self.model, self.run
        records, arrays = history(model.history_)
        trees = [h.tree for h in model.ensemble_.hypotheses]
        arrays |= flat(trees, 1 if run.game.n_classes == 2 else run.game.n_classes)
        state, more = run_state(run.snapshot())
        document = {
            "format": FORMAT,
            "schema": SCHEMA,
            "library": __version__,
            "prints": self.prints,
            "parameters": self.parameters,
            "seed": model.__dict__.get("_seed"),
            "history": records,
            "run": state,
        }
        arrays |= more
        return arrays, document | {"digest": _digest(arrays, document)}


# -------------------------------------------------------------------------------------------- reading


@dataclasses.dataclass(frozen=True)
class Stored:
    """A checkpoint that was read: whole and of this version, but not yet held against a run.

    Attributes
    ----------
    prints : dict
        What its fit is of.
    seed : int or None
        That of the rows held out.
    """

    prints: dict[str, str]
    parameters: dict[str, str]
    seed: int | None
    _fields: Fields
    _arrays: Tensors

    @classmethod
    def read(cls, path: str, max_bytes: int) -> Self:
        """From a file."""
        size = os.stat(path).st_size
        require(
            size <= max_bytes,
            f"has {size:,} bytes; a checkpoint of these rows has at most {max_bytes:,}",
        )
        return cls.parsed(read(path, max_bytes), FORMAT)

    @classmethod
    def parsed(cls, content: bytes, format: str) -> Self:
        """From the bytes of a file."""
        arrays, document = unpack(content)
        found = document.get("format")
        require(found == format, f"is not a checkpoint of this kind: its format is not {format!r}")
        fields = Fields(document, "the document")
        fields.text("format")
        _check_version(fields.integer("schema", 0), fields.text("library"))
        written = fields.text("digest")
        told = {name: value for name, value in document.items() if name != "digest"}
        require(
            written == _digest(arrays, told), "is damaged: its digest is not that of its content"
        )
        prints, parameters = _texts(fields, "prints"), _texts(fields, "parameters")
        return cls(prints, parameters, _optional_integer(fields, "seed"), fields, Tensors(arrays))

    def restore(self, model: Any, run: Run) -> None:
        """Let a run over the same rows, and the model it is for, go on from here."""
        records = read_history(self._fields.object("history"), self._arrays)
        trees = read_trees(self._arrays, run.game.n_classes, model.n_features_in_, {})
        snapshot = read_run_state(self._fields.object("run"), self._arrays, run)
        self._fields.finish()
        self._arrays.finish()
        _check_history(records, run)
        counted = len(trees) == len(records) == snapshot["totals"].rounds
        require(counted, "trees, history and rounds must be equally many")
        run.restore(snapshot)
        model.history_ = records
        for tree, step in zip(trees, records["step"], strict=True):
            model.ensemble_.add(TreeHypothesis(tree), float(step))


def _check_version(schema: int, library: str) -> None:
    require(schema == SCHEMA, f"has schema version {schema}; this version reads {SCHEMA}")
    require(
        library == __version__,
        f"was written by maboost {library}, and this is {__version__}, which may grow other trees: "
        "finish with that version",
    )


def _texts(fields: Fields, name: str) -> dict[str, str]:
    texts = fields.take(name)
    good = isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values())
    require(good, f"the document.{name} must be texts")
    return cast("dict[str, str]", texts)


def _optional_integer(fields: Fields, name: str) -> int | None:
    value = fields.take(name)
    return None if value is None else Fields({name: value}, "the document").integer(name, 0)


def _check_history(records: History, run: Run) -> None:
    names = run.groups.names if run.groups and len(records) else []
    require(list(records.group_errors) == names, "history.groups must be the sources of the rows")


def _check_rounds(model: Any, path: str) -> None:
    done = len(model.ensemble_)
    if model._most_rounds < done:
        raise CheckpointError(
            f"n_estimators={model._most_rounds} is less than the {done} rounds of "
            f"checkpoint={path!r}; with resume=True it is the total number of rounds"
        )


# ------------------------------------------------------------------------------- what a fit is of


def _check_generator(random_state: np.random.RandomState) -> None:
    name = random_state.get_state(legacy=False)["bit_generator"]
    if name != "MT19937":
        raise ValueError(
            f"random_state is a RandomState over {name}, and a checkpoint holds one over MT19937: give "
            "an int or RandomState(seed)"
        )


def _prints_of_any(model: Any, run: Run) -> dict[str, str]:
    """What must be the same on however many workers."""
    seed = model.random_state
    return {
        "booster": type(model).__name__,
        "estimator": _described_learner(run.learner),
        "scoring": "none" if run.validation is None else described(model.scoring),
        "random_state": described(int(seed)) if isinstance(seed, Integral) else type(seed).__name__,
    }


def _described_learner(learner: Any) -> str:
    """The rules of the trees; the base measure is that of the rows, and who works changes nothing."""
    told = [f.name for f in dataclasses.fields(learner) if f.name not in _NOT_TOLD]
    return ", ".join(f"{name}={described(getattr(learner, name))}" for name in told)


# ------------------------------------------------------------------------------------------- the file


def _digest(arrays: Arrays, document: dict[str, Any]) -> str:
    """A hash of all that is in a checkpoint."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.data.cast("B") if array.size else b"")
    digest.update(json.dumps(document, sort_keys=True).encode())
    return digest.hexdigest()


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Say in errors which parameter they are about."""
    try:
        yield
    except ModelFormatError as error:
        told = str(error).replace("model file", "checkpoint")
        raise CheckpointError(
            f"checkpoint={path!r} cannot be used: {told}. Remove it, or set resume=False, to begin anew"
        ) from None
    except OSError as error:
        said = error.strerror or str(error)
        raise OSError(error.errno or 0, f"checkpoint={path!r}: {said}") from error


def _check_place(path: str) -> None:
    """Refuse before the fit what cannot be written after it has begun."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise ValueError(f"checkpoint={path!r} lies in a folder that does not exist: {folder!r}")
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        raise ValueError(f"checkpoint={path!r} is no file: give the path of a file")
    with _named(path), tempfile.TemporaryFile(dir=folder):
        pass
