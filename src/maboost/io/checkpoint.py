"""Checkpoints: files from which an interrupted fit resumes, with the same bits.

A checkpoint holds the finished rounds (trees, records and samples of rows), the state of the random generator and
fingerprints of the rows and the booster. It holds no data of single rows. A resumed fit repeats the rounds
without searching for their trees (:meth:`maboost.boosting.loop.Run.repeat`), each shard on its own rows, and
compares every record to the last bit. So one file serves one machine and any number of shards.

The container is that of the model file. A digest covers all of its content.
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
from typing import Any, Self

import numpy as np

from maboost._version import __version__
from maboost.boosting.history import History, Round
from maboost.boosting.loop import Run
from maboost.data.training_rows import TrainingRows
from maboost.estimators.control import fixed_parameters, parameter_changes
from maboost.estimators.progress import display
from maboost.io.container import (
    MAX_BYTES,
    Arrays,
    ModelFormatError,
    pack,
    read,
    shortened,
    unpack,
)
from maboost.io.fields import Fields, Tensors, encoded_number, require
from maboost.io.run_records import history, read_history
from maboost.io.trees import OFFSETS, flat, read_trees
from maboost.io.values import label
from maboost.learners.tree.learner import TreeHypothesis
from maboost.mirror.parameters import change_message, described
from maboost.runtime.atomic_files import remove_parts, whole_file
from maboost.runtime.communicator import Communicator, SerialCommunicator, gathered_objects
from maboost.runtime.parameter_errors import Message, ParameterError, Setting

__all__ = ["Checkpoint", "CheckpointError", "Stored"]

FORMAT = "maboost checkpoint"
SCHEMA = 6

_ADVICE = "Give another path, or ", Setting("resume", False), " to begin anew"
_FREE_OF_LEARNER = (
    "base",
    "threads",
    "comm",
    "repeats",
    "device",
)  # parameters that follow from the rows, or change no result
_ROWS = {
    "rows": "X, y, the weights, the sources or the share held out have changed",
    "validation rows": "the validation rows have changed",
}
_KEYS = 624  # words of the Mersenne twister
_LARGEST = 1e100
_LONGEST = 2000  # characters of what has changed


class CheckpointError(ParameterError):
    """A file that is no checkpoint, a damaged one, or one of another version or of another fit.

    A fit with ``resume=True`` raises no other error about the content of the file, whoever wrote it.

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
    """The file in which a fit saves its rounds; the first of several shards reads and writes it.

    Parameters
    ----------
    path : path-like
    every : int, default=10
        Rounds between two writes.
    resume : bool, default=False
        Whether to continue from the file.
    comm : Communicator, optional

    Raises
    ------
    ValueError
        If no file can have this path.
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
        self._encoded: Arrays = {}  # the rounds that are already in the file
        self._rounds = 0
        if self.comm.rank == 0:
            _check_place(self.path)

    @classmethod
    def of(cls, model: Any) -> Self:
        """Return the checkpoint for the parameters of a classifier."""
        if model.checkpoint is None:
            raise ValueError("resume=True continues from the file at checkpoint, which is None")
        if not model._own_trees():
            raise ValueError(
                f"checkpoint={os.fspath(model.checkpoint)!r} holds trees of HistTreeClassifier, and "
                f"this model boosts {type(model.estimator).__name__}: fit with estimator=None or "
                "HistTreeClassifier(...), or set checkpoint=None"
            )
        return cls(model.checkpoint, model.checkpoint_every, model.resume, model._comm)

    def read(self) -> Stored | None:
        """Return the content of the file; None if there is no file or the fit starts from the beginning."""
        if not self.resume:
            return None
        content = None
        with _naming(self.path):
            if self.comm.rank == 0 and os.path.exists(self.path):
                size = os.stat(self.path).st_size
                require(
                    size <= MAX_BYTES,
                    f"has {size:,} bytes; a checkpoint has at most {MAX_BYTES:,}",
                )
                content = read(self.path, MAX_BYTES)
            content = gathered_objects(content, self.comm)[0]
            return None if content is None else Stored.parsed(content)

    def begin(self, model: Any, run: Run, rows: TrainingRows, stored: Stored | None) -> None:
        """Attach to a run before its first round, and repeat the rounds of `stored`."""
        _check_generator(run.random_state)
        for name in run.groups.names if run.groups else []:
            label(name, "a data source")
        self.model, self.run = model, run
        self.fingerprints = _fingerprints(model, run, rows)
        self.parameters = fixed_parameters(model)
        if stored is not None:
            with _naming(self.path):
                self._check_same(stored)
                self._repeat(stored.rounds(run, model.n_features_in_))
        if self.comm.rank == 0:
            remove_parts(self.path)

    def _check_same(self, stored: Stored) -> None:
        """Refuse the checkpoint of another fit; the message says what has changed."""
        old, new = stored.fingerprints, self.fingerprints
        require(old.keys() == new.keys(), "the document.fingerprints has other names")
        changed = [
            (name, was, now)
            for name, now in new.items()
            if (was := old[name]) is not None and now is not None and was != now
        ]
        if not changed:
            return
        name, was, now = changed[0]
        what: str | Message | None = _ROWS.get(name)
        if (
            what is not None
        ):  # reported first, since the weights of rows also follow from the flip rates
            old_rates = {k: v for k, v in stored.parameters.items() if k == "flip_rates"}
            what = parameter_changes(old_rates, self.parameters) or what
        if what is None and name != "booster":
            what = parameter_changes(stored.parameters, self.parameters)
        raise self._of_another_fit(what or change_message(name, was, now))

    def _of_another_fit(self, what: str | Message) -> CheckpointError:
        change = what if len(str(what)) <= _LONGEST else shortened(str(what), _LONGEST)
        path = Setting("checkpoint", self.path)
        return CheckpointError(path, " is of another fit: ", change, ". ", *_ADVICE)

    def _repeat(self, stored: Rounds) -> None:
        """Repeat the rounds of a checkpoint, and continue after them."""
        model, run, done = self.model, self.run, len(stored.history)
        if model._most_rounds < done:
            raise CheckpointError(
                Setting("n_estimators", model._most_rounds), f" is less than the {done} rounds of ",
                Setting("checkpoint", self.path), "; with ", Setting("resume", True),
                " it is the total number of rounds",
            )  # fmt: skip
        display().phase(f"repeating {done} rounds of the checkpoint")
        for t in range(done):
            try:
                round = stored.repeat(t, run)
            except (ValueError, ArithmeticError) as error:
                raise self._of_another_fit(str(error)) from None
            model.ensemble_.advance(round)
        run.exact, run.ended = stored.exact, stored.ended
        run.random_state = np.random.RandomState()
        run.random_state.set_state(stored.generator)
        model.history_ = stored.history

    def __call__(self, last: bool) -> None:
        """Write the file after a round, every `every` rounds and after the last."""
        if self.comm.rank == 0 and (last or self.run.rounds % self.every == 0):
            content = pack(*self._parts())
            with _naming(self.path), whole_file(self.path) as file:
                file.write(content)

    def _parts(self) -> tuple[Arrays, dict[str, Any]]:
        model, run = self.model, self.run
        columns, arrays = self._encode(model.history_, model.ensemble_.hypotheses)
        generator, keys = _generator(run.random_state)
        arrays = arrays | {"random_keys": keys, "samples": np.array(run.sample_numbers, np.int64)}
        document = {
            "format": FORMAT,
            "schema": SCHEMA,
            "library": __version__,
            "fingerprints": self.fingerprints,
            "parameters": self.parameters,
            "seed": model.__dict__.get("_seed"),
            "history": columns,
            "random": generator,
            "exact": bool(run.exact),
            "ended": run.ended,
        }
        return arrays, document | {"digest": _digest(arrays, document)}

    def _encode(self, done: History, hypotheses: list[Any]) -> tuple[dict[str, Any], Arrays]:
        """Return the rounds as fields and arrays; rounds written before are copied, not encoded again."""
        columns, records = history(done.since(self._rounds))
        trees = [h.tree for h in hypotheses[self._rounds :]]
        more = records | flat(trees, 1 if self.run.game.n_classes == 2 else self.run.game.n_classes)
        self._encoded = _joined(self._encoded, more) if self._rounds else more
        self._rounds = len(done)
        return columns, self._encoded


def _joined(arrays: Arrays, more: Arrays) -> Arrays:
    """Return the arrays of all rounds, from those of the first rounds and those of the others."""
    joined = {}
    for name, array in arrays.items():
        new = more[name]
        if name in OFFSETS:
            joined[name] = np.append(array, array[-1] + new[1:])
        elif name.startswith("known_"):
            joined[name] = array  # the same for all trees of a fit
        else:
            joined[name] = np.concatenate([array, new], axis=1 if name == "group_errors" else 0)
    return joined


# -------------------------------------------------------------------------------------------- reading


@dataclasses.dataclass(frozen=True)
class Rounds:
    """The rounds of a checkpoint, and the state after them."""

    hypotheses: list[Any]
    history: History
    samples: list[int]
    exact: bool
    ended: str | None
    generator: tuple[Any, ...]

    def repeat(self, t: int, run: Run) -> Round:
        """Repeat a round; raise ValueError unless its record is the stored one, to the last bit."""
        stored = self.history.records[t]
        round = run.repeat(self.hypotheses[t], stored, self.samples[t])
        found = dataclasses.replace(round.record, val_score=stored.val_score)
        pair = dataclasses.astuple(found), dataclasses.astuple(stored)
        errors = {name: errors[t] for name, errors in self.history.group_errors.items()}
        if not np.array_equal(*pair, equal_nan=True) or round.group_errors != errors:
            raise ValueError(f"round {t + 1} gave {found} here and {stored} there")
        return round


@dataclasses.dataclass(frozen=True)
class Stored:
    """A checkpoint that was read: complete and of this version, but not yet compared with a run.

    Attributes
    ----------
    fingerprints : dict
        Fingerprints of the rows and the booster; None if a checkpoint of several shards does not have them.
    parameters : dict
    seed : int or None
        The seed of the hold-out.
    """

    fingerprints: dict[str, str | None]
    parameters: dict[str, str]
    seed: int | None
    _fields: Fields
    _arrays: Tensors

    @classmethod
    def parsed(cls, content: bytes) -> Self:
        """Return the checkpoint in the bytes of a file."""
        arrays, document = unpack(content)
        fields = Fields(document, "the document")
        found = shortened(fields.take("format")) if fields.has("format") else None
        require(
            found == FORMAT,
            f"is not a checkpoint of this version: its format is {found!r}, not {FORMAT!r}",
        )
        _check_version(fields.integer("schema", 0), fields.text("library"))
        written = fields.text("digest")
        signed = {name: value for name, value in document.items() if name != "digest"}
        require(
            written == _digest(arrays, signed),
            "is damaged: its digest is not that of its content",
        )
        fingerprints = _texts(fields, "fingerprints", str | None)
        parameters = _texts(fields, "parameters", str)
        seed = fields.optional("seed", Fields.integer, 0)
        return cls(fingerprints, parameters, seed, fields, Tensors(arrays))

    def rounds(self, run: Run, n_features: int) -> Rounds:
        """Return the rounds, checked as far as possible without the rows."""
        fields, arrays = self._fields, self._arrays
        records = read_history(fields.object("history"), arrays)
        trees = read_trees(arrays, run.game.n_classes, n_features, {})
        samples = arrays.take("samples", np.int64, (None,)).tolist()
        generator = _read_generator(fields.object("random"), arrays)
        exact, ended = fields.flag("exact"), fields.optional("ended", Fields.text)
        fields.finish()
        arrays.finish()
        counted = len(trees) == len(records) == len(samples)
        require(counted, "trees, history and samples must be equally many")
        names = run.groups.names if run.groups and len(records) else []
        require(
            list(records.group_errors) == names,
            "history.groups must be the sources of the rows",
        )
        hypotheses = [TreeHypothesis(tree) for tree in trees]
        return Rounds(hypotheses, records, samples, exact, ended, generator)


def _check_version(schema: int, library: str) -> None:
    require(schema == SCHEMA, f"has schema version {schema}; this version reads {SCHEMA}")
    require(
        library == __version__,
        f"was written by maboost {library}, and this is {__version__}, which may grow other trees: "
        "finish with that version",
    )


def _texts(fields: Fields, name: str, kind: Any) -> dict[str, Any]:
    texts = fields.take(name)
    good = isinstance(texts, dict) and all(isinstance(text, kind) for text in texts.values())
    require(good, f"the document.{name} must be texts")
    return dict(texts)


# ---------------------------------------------------------------------------------------- fingerprints


def _fingerprints(model: Any, run: Run, rows: TrainingRows) -> dict[str, str | None]:
    """Return fingerprints of everything that must not change when a fit resumes.

    A shard does not know the rows of the others; there the repeated rounds detect other rows.
    """
    booster, seed, alone = run.booster, model.random_state, rows.comm.size == 1
    parts = (booster.step, booster.learning_rate, booster.trim, booster.l1)
    return {
        "rows": rows.fingerprint() if alone else None,
        "validation rows": rows.validation_fingerprint(run.validation) if alone else None,
        "booster": type(model).__name__,
        "estimator": _described_learner(run.learner),
        "scoring": "none" if run.validation is None else described(model.scoring),
        "random_state": described(int(seed)) if isinstance(seed, Integral) else type(seed).__name__,
        "parts": ", ".join(map(described, parts)),
        "geometry": described(booster.ascent) if alone else None,
    }


def _described_learner(learner: Any) -> str:
    names = [f.name for f in dataclasses.fields(learner) if f.name not in _FREE_OF_LEARNER]
    return ", ".join(f"{name}={described(getattr(learner, name))}" for name in names)


# ----------------------------------------------------------------------------------- random generators


def _check_generator(random_state: np.random.RandomState) -> None:
    name = random_state.get_state(legacy=False)["bit_generator"]
    if name != "MT19937":
        raise ValueError(
            f"random_state is a RandomState over {name}, and a checkpoint holds one over MT19937: give "
            "an int or RandomState(seed)"
        )


def _generator(random_state: np.random.RandomState) -> tuple[dict[str, Any], Any]:
    _, keys, position, has_gauss, gauss = random_state.get_state()
    numbers = {"position": int(position), "has_gauss": int(has_gauss)}
    return numbers | {"gauss": encoded_number(gauss)}, keys


def _read_generator(fields: Fields, arrays: Tensors) -> tuple[Any, ...]:
    keys = arrays.take("random_keys", np.uint32, (_KEYS,)).copy()
    position, has_gauss = fields.integer("position", 0, _KEYS), fields.integer("has_gauss", 0, 1)
    gauss = fields.number("gauss", -_LARGEST, _LARGEST)
    fields.finish()
    return "MT19937", keys, position, has_gauss, gauss


# ------------------------------------------------------------------------------------------- the file


def _digest(arrays: Arrays, document: dict[str, Any]) -> str:
    """Return a hash of the content of a checkpoint."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.data.cast("B") if array.size else b"")
    digest.update(json.dumps(document, sort_keys=True).encode())
    return digest.hexdigest()


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Add the parameter to errors about the file."""
    try:
        yield
    except ModelFormatError as error:
        reason = str(error).replace("model file", "checkpoint")
        raise CheckpointError(
            Setting("checkpoint", path), f" cannot be used: {reason}. Remove it, or set ",
            Setting("resume", False), ", to begin anew",
        ) from None  # fmt: skip
    except OSError as error:
        said = error.strerror or str(error)
        raise OSError(error.errno or 0, f"checkpoint={path!r}: {said}") from error


def _check_place(path: str) -> None:
    """Raise an error before the fit if the file cannot be written."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise ParameterError(
            Setting("checkpoint", path), f" lies in a folder that does not exist: {folder!r}"
        )
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        raise ParameterError(Setting("checkpoint", path), " is not a file: give the path of a file")
    with _naming(path), tempfile.TemporaryFile(dir=folder):
        pass
