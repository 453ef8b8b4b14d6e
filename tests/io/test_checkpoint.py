"""Checkpoints: a fit that was stopped anywhere goes on to the same bits, and no other file gets in."""

import datetime
import errno
import itertools
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine, make_classification
from sklearn.tree import DecisionTreeClassifier

import maboost
from maboost import (
    CheckpointError,
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    MarginBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.boosting.search import HypothesisSearch
from maboost.io.checkpoint import Checkpoint, _digest, described
from maboost.io.container import pack, unpack
from maboost.mirror import CappedSimplex, FermiDirac

BINARY = make_classification(300, 8, n_informative=4, flip_y=0.15, random_state=0)
WINE = load_wine(return_X_y=True)

BOOSTERS = {
    "entropy": MABoostClassifier(),
    "euclidean": MABoostClassifier(regularizer="euclidean", step="paper", trim="auto"),
    "fermi": MABoostClassifier(regularizer=FermiDirac(5.0)),
    "smooth": SmoothBoostClassifier(),
    "lazy": SmoothBoostClassifier(smoothness=3.0, update="lazy"),
    "sparse": SparseBoostClassifier(kappa=0.7),
    "budget": SparseBoostClassifier(sparsity=0.5),
    "held": SparseBoostClassifier(sparsity=0.8),
    "certain": MABoostClassifier(trim="certain"),
    "mada": MadaBoostClassifier(),
    "total": MABoostClassifier(update="lazy", step="total"),
    "margin": MarginBoostClassifier(),
    "combined": CombinedBoostClassifier(error_limits={"a": None, "b": 0.3}),
    "combined-mass": CombinedBoostClassifier(source_mass={"b": 0.3}),
    "random features": MABoostClassifier(HistTreeClassifier(max_depth=2, max_features=0.5)),
}


class Stopped(Exception):
    """Stands for whatever ends a process."""


def options(model, y):
    if not isinstance(model, CombinedBoostClassifier):
        return {}
    return {"sample_domain": np.where(np.arange(len(y)) % 3 == 0, "a", "b")}


def stopped_fit(model, rounds, X, y, **more):
    """A fit that ends with an exception after so many rounds."""
    keep = Checkpoint.__call__

    def stop(self, last):
        keep(self, last)
        if self.run.rounds == rounds:
            raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "__call__", stop)
        with pytest.raises(Stopped):
            model.fit(X, y, **more)


def interrupted(model, path, stops, X, y, **more):
    """A fit that is stopped after some rounds, and each time resumed by another object."""
    model = clone(model).set_params(checkpoint=path, checkpoint_every=3, resume=True)
    for rounds in stops:
        stopped_fit(clone(model), rounds, X, y, **more)
    return model.fit(X, y, **more)


def assert_same_model(one, other, X):
    np.testing.assert_array_equal(one.estimator_weights_, other.estimator_weights_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(one.distribution_, other.distribution_)
    assert one.probability_scale_ == other.probability_scale_
    assert one.best_iteration_ == other.best_iteration_
    assert one.certificate_ == other.certificate_
    assert one.history_.group_errors == other.history_.group_errors
    pd.testing.assert_frame_equal(
        one.history_.to_frame().drop(columns="seconds"),
        other.history_.to_frame().drop(columns="seconds"),
        check_exact=True,
    )
    pd.testing.assert_frame_equal(
        one.suspect_labels(cv=None), other.suspect_labels(cv=None), check_exact=True
    )


# --------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("data", [BINARY, WINE], ids=["binary", "three classes"])
@pytest.mark.parametrize("name", BOOSTERS)
def test_a_resumed_fit_is_one_long_fit(name, data, tmp_path):
    X, y = data
    model = clone(BOOSTERS[name]).set_params(n_estimators=14, random_state=3)
    long = clone(model).fit(X, y, **options(model, y))
    stops = (r for r in (1, 5, 6, 10) if r < len(long.history_))
    found = interrupted(model, tmp_path / "state", stops, X, y, **options(model, y))
    assert_same_model(long, found, X)
    assert os.listdir(tmp_path) == ["state"]


def test_a_sample_is_held_across_the_stop(tmp_path):
    X, y = BINARY
    model = clone(BOOSTERS["held"]).set_params(n_estimators=14, random_state=3)
    path = tmp_path / "state"
    seen = []
    for rounds in range(2, 14):
        stopping = clone(model).set_params(checkpoint=path, checkpoint_every=1)
        stopped_fit(stopping, rounds, X, y)
        arrays, _ = unpack(path.read_bytes())
        seen.append(int(arrays["samples"][-1]))
        found = clone(stopping).set_params(resume=True).fit(X, y)
        assert_same_model(clone(model).fit(X, y), found, X)
    assert 1 < seen[-1] < 13
    assert 60 in found.history_["rows_used"]


@pytest.mark.parametrize("data", [BINARY, WINE], ids=["binary", "three classes"])
@pytest.mark.parametrize("name", BOOSTERS)
def test_with_early_stopping(name, data, tmp_path):
    X, y = data
    model = clone(BOOSTERS[name]).set_params(
        n_estimators=40, early_stopping=True, n_iter_no_change=4, random_state=1
    )
    if name == "combined":
        model.set_params(error_limits=None)
    more = options(model, y) if name == "combined-mass" else {}
    long = clone(model).fit(X, y, **more)
    stops = (r for r in (2, 4) if r < len(long.history_))
    assert_same_model(long, interrupted(model, tmp_path / "state", stops, X, y, **more), X)


@pytest.mark.parametrize("name", ["smooth", "sparse", "mada", "combined", "entropy"])
def test_with_weights_and_validation_rows(name, tmp_path):
    X, y = BINARY
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    model = clone(BOOSTERS[name]).set_params(n_estimators=9, class_weight="balanced")
    more = {"sample_weight": weights, "X_val": X[::4], "y_val": y[::4], **options(model, y)}
    model.set_params(scoring="accuracy", random_state=0)
    long = clone(model).fit(X, y, **more)
    assert_same_model(long, interrupted(model, tmp_path / "state", (4, 7), X, y, **more), X)


def test_categories_and_missing_values(tmp_path):
    X, y = BINARY
    town = np.array(["Aix", "Bonn", "Como", None], dtype=object)[(y + np.arange(len(y))) % 4]
    table = pd.DataFrame({"a": X[:, 0], "town": town, "b": np.where(X[:, 1] > 1, np.nan, X[:, 1])})
    model = MABoostClassifier(n_estimators=10, random_state=0)
    long = clone(model).fit(table, y)
    assert any(len(tree.tree_.categories) for tree in long.estimators_)
    found = interrupted(model, tmp_path / "state", (4, 7), table, y)
    assert_same_model(long, found, table)
    found.save(tmp_path / "model")
    loaded = maboost.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(table), long.decision_function(table))


def test_the_generator_goes_on_where_it_was(tmp_path):
    X, y = BINARY
    model = MABoostClassifier(HistTreeClassifier(max_features=0.3), n_estimators=9)
    model.set_params(early_stopping=True, n_iter_no_change=9, checkpoint=tmp_path / "state")
    model.set_params(random_state=np.random.RandomState(5), checkpoint_every=4)
    long = clone(model).fit(X, y)
    stopped_fit(clone(model), 5, X, y)
    model.set_params(random_state=np.random.RandomState(6), resume=True).fit(X, y)
    assert_same_model(long, model, X)


def test_a_fit_without_a_seed_can_go_on(tmp_path):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=9, checkpoint=tmp_path / "state", early_stopping=True)
    stopped_fit(clone(model).set_params(checkpoint_every=4), 5, X, y)
    model.set_params(resume=True).fit(X, y)
    assert_same_model(model, clone(model).fit(X, y), X)


def test_what_may_change_between_two_fits(tmp_path):
    X, y = BINARY
    model = SmoothBoostClassifier(n_estimators=20, early_stopping=True, random_state=0)
    long = clone(model).set_params(n_iter_no_change=20).fit(X, y)
    model.set_params(checkpoint=tmp_path / "state", n_iter_no_change=3, n_jobs=1, tol=0.01)
    assert len(clone(model).fit(X, y).history_) < 20
    model.set_params(resume=True, n_iter_no_change=20, n_jobs=2, tol=1e-7, checkpoint_every=1)
    model.set_params(max_seconds=1000.0, target_error=0.0)
    assert_same_model(long, model.fit(X, y), X)


def test_a_finished_fit_resumes_without_more_rounds(tmp_path, monkeypatch):
    X, y = BINARY
    path = tmp_path / "state"
    model = MABoostClassifier(n_estimators=11, random_state=0, checkpoint=path).fit(X, y)
    before = path.read_bytes()
    monkeypatch.setattr(HypothesisSearch, "find", lambda *_: pytest.fail("a round was begun"))
    again = clone(model).set_params(resume=True).fit(X, y)
    assert_same_model(model, again, X)
    assert path.read_bytes() == before


def test_the_rounds_that_are_repeated_are_shown(tmp_path, capsys):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=3, random_state=0, checkpoint=tmp_path / "state")
    model.fit(X, y)
    model.set_params(resume=True, n_estimators=5, verbose=1).fit(X, y)
    lines = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines[2:] == [
        "repeating 3 rounds of the checkpoint", "boosting, 5 rounds at most", "round 4/5", "round 5/5",
        "calibrating probabilities",
    ]  # fmt: skip


def test_a_run_that_ended_by_itself_resumes_to_its_end(tmp_path):
    X, y = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    path = tmp_path / "state"
    model = MABoostClassifier(n_estimators=50, random_state=0, checkpoint=path).fit(X, y)
    assert model.n_iter_ < 50
    again = clone(model).set_params(resume=True).fit(X, y)
    assert_same_model(model, again, X)


def test_a_run_that_found_nothing_resumes_to_nothing(tmp_path):
    X, y = np.zeros((6, 1)), np.array([0, 1, 0, 1, 0, 1])
    model = MABoostClassifier(n_estimators=5, checkpoint=tmp_path / "state")
    for resume in (False, True):
        with pytest.warns(UserWarning, match="no hypothesis was found"):
            model.set_params(resume=resume).fit(X, y)
    assert model.n_iter_ == 0


def test_more_rounds_go_on(tmp_path):
    X, y = BINARY
    model = SmoothBoostClassifier(random_state=0, checkpoint=tmp_path / "state", resume=True)
    for rounds in (4, 15):
        clone(model).set_params(n_estimators=rounds).fit(X, y)
    long = SmoothBoostClassifier(n_estimators=22, random_state=0).fit(X, y)
    assert_same_model(long, model.set_params(n_estimators=22).fit(X, y), X)
    with pytest.raises(
        ValueError, match=r"n_estimators=21 is less than the 22 rounds of checkpoint="
    ):
        model.set_params(n_estimators=21).fit(X, y)


def test_warm_start_and_checkpoints_together(tmp_path):
    X, y = BINARY
    model = MadaBoostClassifier(random_state=0, warm_start=True, checkpoint=tmp_path / "state")
    model.set_params(n_estimators=4).fit(X, y)
    model.set_params(n_estimators=8).fit(X, y)
    long = MadaBoostClassifier(n_estimators=12, random_state=0).fit(X, y)
    other = clone(model).set_params(n_estimators=12, resume=True, warm_start=False).fit(X, y)
    assert_same_model(long, other, X)
    fresh = clone(model).set_params(n_estimators=10, resume=True)
    (tmp_path / "state").unlink()
    fresh.fit(X, y)
    (tmp_path / "state").write_bytes(b"not looked at: the object itself has the rounds")
    assert_same_model(long, fresh.set_params(n_estimators=12).fit(X, y), X)


def test_without_resume_a_fit_begins_anew(tmp_path):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=5, random_state=0, checkpoint=tmp_path / "state")
    model.fit(X, y)
    one = model.set_params(random_state=1, n_estimators=3).fit(X + 1.0, y)
    assert one.n_iter_ == 3
    again = clone(model).set_params(resume=True).fit(X + 1.0, y)
    assert_same_model(one, again, X)


def test_an_interrupt_by_the_user_is_kept(tmp_path, monkeypatch):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=9, random_state=0)
    long = clone(model).fit(X, y)
    model.set_params(checkpoint=tmp_path / "state", resume=True, checkpoint_every=100)

    def presses(record):
        if record.round == 4:
            os.kill(os.getpid(), 2)

    with monkeypatch.context() as patch:
        patch.setattr("maboost.estimators.progress.Display.round", lambda self, r, _: presses(r))
        with pytest.warns(UserWarning, match="the model has the 4 rounds"):
            clone(model).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(HypothesisSearch, "find", lambda *_: pytest.fail("a round was begun"))
        clone(model).set_params(n_estimators=4).fit(X, y)
    assert_same_model(long, model.fit(X, y), X)


def test_a_model_keeps_nothing_of_its_checkpoint(tmp_path):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=3, random_state=0, checkpoint=tmp_path / "state")
    model.fit(X, y)
    assert "Checkpoint" not in str({type(v).__name__ for v in vars(model).values()})
    pickle.loads(pickle.dumps(model)).predict(X)
    model.save(tmp_path / "model")
    assert maboost.load_model(tmp_path / "model").checkpoint is None
    assert str(tmp_path).encode() not in (tmp_path / "model").read_bytes()


# ---------------------------------------------------------------------------------------------- kills

KILLED = """
import json, os, random, signal, sys, time
import numpy as np
from sklearn.datasets import make_classification
from maboost import HistTreeClassifier, MABoostClassifier

path, kills = sys.argv[1], int(sys.argv[2])
X, y = make_classification(2000, 10, n_informative=5, flip_y=0.1, random_state=0)
model = MABoostClassifier(
    HistTreeClassifier(max_depth=3, max_features=0.5), n_estimators=500, early_stopping=True,
    n_iter_no_change=1000, random_state=0, n_jobs=1, checkpoint=path, checkpoint_every=1, resume=True,
)
MABoostClassifier(n_estimators=2, n_jobs=1).fit(X, y)  # so that children need not load the kernels


def written():
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


chance = random.Random(0)
for _ in range(kills):
    child = os.fork()
    if child == 0:
        model.fit(X, y)
        os._exit(3)  # it was to be killed before
    for _ in range(chance.randrange(5)):
        before, began = written(), time.monotonic()
        while written() == before and time.monotonic() - began < 10.0:
            time.sleep(0.0005)
    time.sleep(0.02 * chance.random())
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), status
parts = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".part")]
model.fit(X, y)
print(json.dumps({"votes": model.decision_function(X).tolist(), "left": len(parts)}))
model.save(sys.argv[3])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children that are forked")
def test_a_process_killed_again_and_again_ends_with_the_same_model(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    state, saved = folder / "state", tmp_path / "model"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(state), "25", str(saved)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    X, y = make_classification(2000, 10, n_informative=5, flip_y=0.1, random_state=0)
    model = MABoostClassifier(
        HistTreeClassifier(max_depth=3, max_features=0.5), n_estimators=500, early_stopping=True,
        n_iter_no_change=1000, random_state=0,
    ).fit(X, y)  # fmt: skip
    loaded = maboost.load_model(saved)
    assert json.loads(done.stdout)["votes"] == model.decision_function(X).tolist()
    np.testing.assert_array_equal(loaded.estimator_weights_, model.estimator_weights_)
    assert loaded.certificate_ == model.certificate_
    assert loaded.probability_scale_ == model.probability_scale_
    again = clone(model).set_params(checkpoint=state, resume=True).fit(X, y)
    assert_same_model(model, again, X)
    assert os.listdir(folder) == ["state"]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_write_that_breaks_leaves_the_old_checkpoint(where, tmp_path, monkeypatch):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=9, random_state=0)
    long = clone(model).fit(X, y)
    model.set_params(checkpoint=tmp_path / "state", checkpoint_every=2, resume=True)
    real, calls = getattr(os, where), itertools.count(1)

    def breaks(*args):
        if next(calls) == 5:
            raise Stopped
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, where, breaks)
        with pytest.raises(Stopped):
            clone(model).fit(X, y)
    assert os.listdir(tmp_path) == ["state"]
    assert_same_model(long, model.fit(X, y), X)


def test_what_a_killed_write_left_is_removed(tmp_path):
    X, y = BINARY
    left, others = tmp_path / ".state.0123456789abcdef.part", tmp_path / ".state.mine.part"
    left.write_bytes(b"half")
    others.write_bytes(b"not ours")
    MABoostClassifier(n_estimators=2, checkpoint=tmp_path / "state").fit(X, y)
    assert sorted(os.listdir(tmp_path)) == [".state.mine.part", "state"]


# --------------------------------------------------------------------------------------- where to write


def test_a_full_disk_is_an_error_that_names_the_parameter(tmp_path, monkeypatch):
    X, y = BINARY
    model = MABoostClassifier(n_estimators=4, checkpoint=tmp_path / "state", checkpoint_every=2)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"checkpoint=.*state") as raised:
            model.fit(X, y)
    assert raised.value.errno == errno.ENOSPC
    assert not os.listdir(tmp_path)


def test_places_that_cannot_be_are_refused_before_the_fit(tmp_path, monkeypatch):
    X, y = BINARY
    monkeypatch.setattr(HypothesisSearch, "find", lambda *_: pytest.fail("a round was begun"))
    model = MABoostClassifier()
    with pytest.raises(ValueError, match=r"checkpoint=.* lies in a folder that does not exist"):
        model.set_params(checkpoint=tmp_path / "none" / "state").fit(X, y)
    with pytest.raises(ValueError, match=r"checkpoint=.* is not a file"):
        model.set_params(checkpoint=str(tmp_path)).fit(X, y)
    with pytest.raises(ValueError, match="resume=True continues from the file at checkpoint"):
        model.set_params(checkpoint=None, resume=True).fit(X, y)
    with pytest.raises(ValueError, match="'checkpoint_every' parameter"):
        model.set_params(checkpoint=tmp_path / "state", checkpoint_every=0).fit(X, y)

    def denied(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "TemporaryFile", denied)
    with pytest.raises(PermissionError, match=r"checkpoint=.*state"):
        model.set_params(checkpoint_every=1).fit(X, y)


def test_foreign_estimators_are_refused_before_the_fit(tmp_path):
    X, y = BINARY
    model = MABoostClassifier(DecisionTreeClassifier(), checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="this model boosts DecisionTreeClassifier"):
        model.fit(X, y)
    assert not os.listdir(tmp_path)


def test_a_generator_of_another_kind_is_refused_before_the_fit(tmp_path):
    X, y = BINARY
    generator = np.random.RandomState(np.random.PCG64(0))
    model = MABoostClassifier(random_state=generator, checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="random_state is a RandomState over PCG64"):
        model.fit(X, y)


def test_sources_that_a_file_cannot_name_are_refused_before_the_fit(tmp_path):
    X, y = BINARY
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
    names = np.array(days, dtype=object)[np.arange(len(y)) % 2]
    model = CombinedBoostClassifier(error_limits={days[0]: None, days[1]: 0.3})
    with pytest.raises(ValueError, match="a data source is"):
        model.set_params(checkpoint=tmp_path / "state").fit(X, y, sample_domain=names)


def test_a_link_is_followed(tmp_path):
    X, y = BINARY
    (tmp_path / "link").symlink_to(tmp_path / "state")
    MABoostClassifier(n_estimators=2, checkpoint=tmp_path / "link").fit(X, y)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "state").is_file()


# ------------------------------------------------------------------------------------ of another fit

STATE = {"n_estimators": 4, "random_state": 0, "smoothness": 3.0}


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The bytes of a checkpoint."""
    X, y = BINARY
    path = tmp_path_factory.mktemp("fit") / "state"
    SmoothBoostClassifier(checkpoint=path, **STATE).fit(X, y, X_val=X[:50], y_val=y[:50])
    return path.read_bytes()


def resumed(path, content, X=BINARY[0], y=BINARY[1], booster=SmoothBoostClassifier, **parameters):
    path = pathlib.Path(path) / "state"
    path.write_bytes(content)
    validation = parameters.pop("validation", (BINARY[0][:50], BINARY[1][:50]))
    weights = parameters.pop("sample_weight", None)
    kept = {k: v for k, v in (STATE | parameters).items() if hasattr(booster(), k)}
    model = booster(checkpoint=path, resume=True, **kept)
    try:
        return model.fit(X, y, weights, *validation)
    finally:
        assert path.read_bytes() == content


def test_the_state_of_the_tests_is_good(state, tmp_path):
    assert resumed(tmp_path, state).n_iter_ == 4


def tree(**parameters):
    """The default tree but for some of its parameters."""
    return SmoothBoostClassifier()._default_estimator().set_params(**parameters)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": BINARY[0] + 1.0}, "X, y, the weights"),
        ({"y": 1 - BINARY[1]}, "X, y, the weights"),
        ({"X": BINARY[0][::-1], "y": BINARY[1][::-1]}, "X, y, the weights"),
        ({"X": BINARY[0].astype(np.float32)}, "X, y, the weights"),
        ({"sample_weight": 1.0 + np.arange(300)}, "X, y, the weights"),
        ({"class_weight": {0: 2.0}}, "X, y, the weights"),
        ({"validation": ()}, "the validation rows have changed"),
        ({"validation": (BINARY[0][:49], BINARY[1][:49])}, "the validation rows have changed"),
        (
            {"booster": MadaBoostClassifier},
            "fit: booster was SmoothBoostClassifier and is now MadaBoostClassifier. ",
        ),
        (
            {"booster": MABoostClassifier, "domain": CappedSimplex(3.0)},
            "fit: booster was SmoothBoostClassifier and is now MABoostClassifier. ",
        ),
        ({"smoothness": 2.0}, "fit: smoothness was 3.0 and is now 2.0. "),
        ({"learning_rate": 0.5}, "fit: learning_rate was 0.1 and is now 0.5. "),
        ({"step": "paper"}, "fit: step was 'corrective' and is now 'paper'. "),
        ({"trim": 0.1}, "fit: trim was 0.0 and is now 0.1. "),
        ({"update": "lazy"}, r"fit: update was 'active' and is now 'lazy'\. "),
        *(
            ({"estimator": tree(**{name: value})}, f"fit: {name} was .* and is now {value}. ")
            for name, value in {
                "max_depth": 2,
                "max_leaf_nodes": 5,
                "min_samples_leaf": 3,
                "min_weight_fraction_leaf": 0.25,
                "max_features": 4,
                "max_features_per_tree": 3,
                "max_bins": 9,
            }.items()
        ),
        (
            {"estimator": tree(monotonic_cst=[1, *[0] * 7])},
            r"fit: monotonic_cst was None and is now \[1, 0.*\]\. ",
        ),
        (
            {"estimator": tree(max_depth=2, max_bins=9), "learning_rate": 0.5, "random_state": 1},
            "fit: learning_rate was 0.1 and is now 0.5, random_state was 0 and is now 1, max_bins was 255 "
            "and is now 9, max_depth was None and is now 2. ",
        ),
        (
            {"estimator": tree(max_depth=2), "smoothness": 2.0},
            "fit: smoothness was 3.0 and is now 2.0, max_depth was None and is now 2. ",
        ),
        ({"scoring": "accuracy"}, "scoring was 'neg_log_loss' and is now 'accuracy'"),
        ({"random_state": 1}, "random_state was 0 and is now 1"),
        ({"n_estimators": 3}, "n_estimators=3 is less than the 4 rounds"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(state, change, message, tmp_path):
    with pytest.raises(CheckpointError, match=f"(?s){message}") as raised:
        resumed(tmp_path, state, **change)
    assert "checkpoint=" in str(raised.value)


def test_limits_of_many_rows_are_compared_to_the_last(tmp_path):
    X, y = make_classification(3000, 5, random_state=0)
    caps = np.full(len(y), 4.0)
    model = MABoostClassifier(n_estimators=2, random_state=0, checkpoint=tmp_path / "state")
    model.set_params(domain=CappedSimplex(caps)).fit(X, y)
    other = caps.copy()
    other[1500] += 1e-12
    with pytest.raises(ValueError, match="domain has changed"):
        model.set_params(resume=True, domain=CappedSimplex(other)).fit(X, y)
    model.set_params(domain=CappedSimplex(caps.copy())).fit(X, y)


def test_descriptions_do_not_depend_on_the_process():
    def step(situation):
        raise NotImplementedError

    assert " at 0x" not in described(step)
    assert described(np.float64(0.5)) == described(0.5) == "0.5"
    assert described(np.arange(3)) != described(np.arange(4))


# -------------------------------------------------------------------------------------- damaged files


def test_files_that_are_no_checkpoint_are_refused(state, tmp_path):
    X, y = BINARY
    MABoostClassifier(n_estimators=2).fit(X, y).save(tmp_path / "model")
    table = pack({"x": np.zeros(3)}, {"format": "something"})
    other = (b"", b"x", b"a,b\n1,2\n" * 100, pickle.dumps({}), state[::-1], table)
    for content in (*other, (tmp_path / "model").read_bytes()):
        with pytest.raises(CheckpointError, match=r"checkpoint=.* cannot be used: ") as raised:
            resumed(tmp_path, content)
        assert "model file" not in str(raised.value)


def test_a_checkpoint_is_no_model(state, tmp_path):
    (tmp_path / "state").write_bytes(state)
    with pytest.raises(maboost.ModelFormatError, match="is not a maboost model file"):
        maboost.load_model(tmp_path / "state")


def test_truncated_files_are_refused(state, tmp_path):
    for length in np.linspace(0, len(state) - 1, 40).astype(int):
        with pytest.raises(CheckpointError):
            resumed(tmp_path, state[:length])
    with pytest.raises(CheckpointError):
        resumed(tmp_path, state + b"\0")


def test_every_flipped_bit_is_noticed(state, tmp_path):
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(state), 150).tolist():
        damaged = bytearray(state)
        damaged[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(CheckpointError):
            resumed(tmp_path, bytes(damaged))


def test_a_file_that_is_too_large_is_not_read(state, tmp_path, monkeypatch):
    monkeypatch.setattr("maboost.io.checkpoint.MAX_BYTES", 1000)
    with pytest.raises(CheckpointError, match="bytes; a checkpoint has at most 1,000"):
        resumed(tmp_path, state)


def edited(state, edit):
    """A checkpoint with a right digest and other content."""
    arrays, document = unpack(state)
    arrays = {name: array.copy() for name, array in arrays.items()}
    del document["digest"]
    edit(arrays, document)
    return pack(arrays, document | {"digest": _digest(arrays, document)})


def put(name, at, value):
    def edit(arrays, document):
        arrays[name][at] = value

    return edit


def swap(name, change):
    def edit(arrays, document):
        arrays[name] = change(arrays[name])

    return edit


def say(*path_and_value):
    *path, last, value = path_and_value

    def edit(arrays, document):
        for name in path:
            document = document[name]
        document[last] = value

    return edit


def drop(*path):
    def edit(arrays, document):
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return edit


INFINITE = {"kind": "float", "value": "inf"}

DAMAGES = [
    (say("schema", 5), "has schema version 5; this version reads 6"),
    (say("format", "maboost checkpoint of several workers"), "is not a checkpoint of this version"),
    (say("schema", "1"), "must be a whole number"),
    (say("library", "0.0.1"), "was written by maboost 0.0.1, and this is"),
    (say("format", "maboost model"), "is not a checkpoint"),
    (say("fingerprints", []), "fingerprints must be texts"),
    (say("fingerprints", {"rows": 1}), "fingerprints must be texts"),
    (drop("fingerprints", "estimator"), "fingerprints has other names"),
    (say("parameters", "trim", None), "parameters must be texts"),
    (say("seed", "x"), "must be a whole number"),
    (say("seed", -1), "must be in"),
    (say("more", 1), "has unknown fields"),
    (drop("random"), "has no field 'random'"),
    (say("random", "more", 1), "has unknown fields"),
    (say("exact", 1), "must be true or false"),
    (say("ended", 1), "must be text"),
    (say("random", "position", 625), "must be in"),
    (say("random", "has_gauss", 2), "must be in"),
    (say("random", "gauss", INFINITE), "must be in"),
    (say("history", "groups", ["a"]), "must have shape"),
    (say("fingerprints", "rows", "0" * 32), "is of another fit: X, y, the weights"),
    (say("fingerprints", "random_state", "x" * 10**5), "is of another fit: random_state was x+"),
    (put("value", 0, 2.0), "'value' must lie in"),
    (put("feature", 0, 99), "'feature' must name"),
    (put("history", (0, 0), 2.0), "round must count from 1"),
    (
        put("history", (0, 1), 0.25),
        "is of another fit: the hypothesis of round 1 had an edge of 0.25",
    ),
    (put("history", (1, 2), 0.25), "is of another fit: round 2 gave"),
    (put("history", (1, 2), np.nan), "step must be finite"),
    (swap("value", lambda a: a / 2.0), "is of another fit: the hypothesis of round 1"),
    (swap("value", lambda a: -a), "is of another fit: the hypothesis of round 1"),
    (swap("feature", lambda a: np.where(a < 0, a, (a + 1) % 8)), "is of another fit"),
    (swap("samples", lambda a: a[:-1]), "must be equally many"),
    (swap("samples", lambda a: a.astype(np.float64)), "'samples' must have dtype"),
    (swap("samples", lambda a: a[:, None]), "'samples' must have shape"),
    (swap("random_keys", lambda a: a[:-1]), "'random_keys' must have shape"),
    (swap("random_keys", lambda a: a.astype(np.int64)), "'random_keys' must have dtype"),
    (swap("history", lambda a: a[:-1]), "must have shape|equally many"),
    (lambda arrays, document: arrays.pop("samples"), "'samples' is missing"),
    (lambda arrays, document: arrays.pop("threshold"), "'threshold' is missing"),
    (lambda arrays, document: arrays.update(more=np.zeros(1)), "has unknown arrays"),
]


@pytest.mark.parametrize(("edit", "message"), DAMAGES)
def test_content_that_cannot_be_is_refused(state, edit, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        resumed(tmp_path, edited(state, edit))


def test_sources_of_other_names_are_refused(tmp_path):
    X, y = BINARY
    model = CombinedBoostClassifier(
        n_estimators=3, error_limits={"a": None, "b": 0.3}, random_state=0
    ).set_params(checkpoint=tmp_path / "state")
    model.fit(X, y, **options(model, y))
    content = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(edited(content, say("history", "groups", ["a", "c"])))
    with pytest.raises(CheckpointError, match="must be the sources of the rows"):
        model.set_params(resume=True).fit(X, y, **options(model, y))


def test_an_edited_file_that_is_whole_goes_on(state, tmp_path):
    assert resumed(tmp_path, edited(state, lambda arrays, document: None)).n_iter_ == 4
