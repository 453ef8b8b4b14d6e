"""``maboost train --checkpoint``: a command that was stopped is run again, and goes on."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from tests.cli.command import refused, run

import maboost

STOPPED = """
import os, signal
from maboost.cli import main
from maboost.io.checkpoint import Checkpoint

keep = Checkpoint.__call__


def stop(self, last):
    keep(self, last)
    if self.run.rounds == 7:
        os.kill(os.getpid(), getattr(signal, os.environ["STOP"]))


Checkpoint.__call__ = stop
main()
"""


def stopped(how, *arguments, cwd):
    """The command, which gets this signal after the seventh round."""
    return subprocess.run(
        [sys.executable, "-c", STOPPED, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, cwd=cwd, env=os.environ | {"STOP": how},
    )  # fmt: skip


def assert_same_model(one, other, X):
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    pd.testing.assert_frame_equal(
        one.history_.to_frame().drop(columns="seconds"),
        other.history_.to_frame().drop(columns="seconds"),
        check_exact=True,
    )


@pytest.fixture
def folder(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    table = X.iloc[:, :5].assign(y=y)
    table.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("how", "code", "options"),
    [("SIGKILL", -9, ()), ("SIGINT", 130, ("--booster", "maboost", "--valid", "0.2"))],
    ids=str,
)
def test_the_same_command_goes_on_where_it_was_stopped(folder, how, code, options):
    train = ("train", "rows.csv", "--rounds", 12, *options)
    keeping = (*train, "--checkpoint", "run.ckpt", "--checkpoint-every", 3, "--out", "m.maboost")
    done = run(*train, "--out", "whole.maboost", cwd=folder)
    assert done.returncode == 0, done.stderr
    first = stopped(how, *keeping, cwd=folder)
    assert first.returncode == code, first.stderr
    assert "checkpoint run.ckpt (new)" in first.stderr
    assert (folder / "m.maboost").exists() == (how == "SIGINT")  # the rounds done
    second = run(*keeping, cwd=folder)
    assert second.returncode == 0, second.stderr
    assert "checkpoint run.ckpt (to go on from)" in second.stderr
    assert "run.ckpt" in second.stdout
    assert_same_model(
        *(maboost.load_model(folder / name) for name in ("whole.maboost", "m.maboost")),
        pd.read_csv(folder / "rows.csv").drop(columns="y"),
    )
    assert sorted(os.listdir(folder)) == ["m.maboost", "rows.csv", "run.ckpt", "whole.maboost"]


def test_more_rounds_go_further_and_no_resume_begins_anew(folder):
    def seconds(*more):
        done = run(
            "train", "rows.csv", "--checkpoint", "run.ckpt", "--out", "m.maboost", "--json", *more,
            cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["checkpoint"] == "run.ckpt"
        return maboost.load_model(folder / "m.maboost").history_["seconds"].tolist()

    first = seconds("--rounds", 4)
    assert seconds("--rounds", 4) == first  # no round is done twice
    longer = seconds("--rounds", 6, "--resume")
    assert longer[:4] == first
    assert len(longer) == 6
    anew = seconds("--rounds", 4, "--no-resume")
    assert len(anew) == 4
    assert anew != first


def test_a_configuration_file_says_it_too(folder):
    (folder / "train.toml").write_text(
        'checkpoint = "run.ckpt"\ncheckpoint-every = 2\nrounds = 3\nresume = true\n'
    )
    done = run("train", "rows.csv", "--config", "train.toml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "run.ckpt").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--checkpoint-every", 5), "--checkpoint-every 5 needs --checkpoint PATH"),
        (("--resume",), "--resume needs --checkpoint PATH"),
        (("--no-resume",), "--no-resume needs --checkpoint PATH"),
        (("--checkpoint", "a", "--checkpoint-every", 0), "--checkpoint-every 0 is not a number"),
        (("--checkpoint", "no/a"), "--checkpoint no/a: there is no folder no"),
        (("--checkpoint", "."), "--checkpoint .: cannot be written"),
        (("--checkpoint", "rows.csv"), "--checkpoint rows.csv is the file of the rows"),
        (("--checkpoint", "a", "--out", "./a"), "--checkpoint a is the file of --out"),
        (("--checkpoint", "a", "--report", "a"), "--checkpoint a is the file of --report"),
    ],
    ids=str,
)
def test_options_that_make_no_sense(folder, options, message):
    lines = refused(message, "train", "rows.csv", *options, cwd=folder)
    assert len(lines) == 1  # known before any training
    assert os.listdir(folder) == ["rows.csv"]


def test_a_checkpoint_of_another_training_is_refused(folder):
    train = ("train", "rows.csv", "--checkpoint", "run.ckpt")
    assert run(*train, "--rounds", 4, cwd=folder).returncode == 0
    before = (folder / "run.ckpt").read_bytes()
    (line,) = refused(
        "--checkpoint 'run.ckpt' is of another fit: --seed was 0 and is now 1. Give another path, "
        "or --no-resume to begin anew",
        *train, "--rounds", 4, "--seed", 1, "--json", cwd=folder,
    )  # fmt: skip
    assert "resume=" not in line
    for weights in ("balanced", "1=2"):
        refused(
            "X, y, the weights, the sources or the share held out have changed",
            *train, "--rounds", 4, "--class-weight", weights, cwd=folder,
        )  # fmt: skip
    refused(
        "--rounds 2 is less than the 4 rounds of --checkpoint 'run.ckpt'",
        *train, "--rounds", 2, cwd=folder,
    )  # fmt: skip
    assert (folder / "run.ckpt").read_bytes() == before


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (("--max-depth", 3), ("--max-depth", 2), "--max-depth was 3 and is now 2"),
        (
            ("--smoothness", 3),
            ("--smoothness", 2),
            "--smoothness was 3.0 and is now 2.0",
        ),
        (
            ("--noise-rate", 0.1),
            ("--noise-rate", 0.125),
            "--noise-rate was 0.1 and is now 0.125",
        ),
        (
            ("--learning-rate", 0.5, "--max-depth", 2),
            ("--learning-rate", 0.25, "--max-depth", 1),
            "--learning-rate was 0.5 and is now 0.25, --max-depth was 2 and is now 1",
        ),
        (
            ("--booster", "sparse", "--kappa", 0.5),
            ("--booster", "sparse", "--kappa", 0.75),
            "--kappa was 0.5 and is now 0.75",
        ),
        (
            ("--booster", "sparse", "--sparsity", 0.5),
            ("--booster", "sparse", "--sparsity", 0.6),
            "--sparsity was 0.5 and is now 0.6",
        ),
        (
            ("--booster", "sparse"),
            ("--booster", "sparse", "--sparsity", 0.6),
            "--sparsity was None and is now 0.6",
        ),
        (
            ("--booster", "mada"),
            ("--booster", "maboost"),
            "--booster was MadaBoostClassifier and is now MABoostClassifier",
        ),
    ],
    ids=str,
)
def test_what_has_changed_is_told_by_its_option(folder, before, after, told):
    train = ("train", "rows.csv", "--checkpoint", "run.ckpt", "--rounds", 2)
    assert run(*train, *before, cwd=folder).returncode == 0
    refused(f"is of another fit: {told}. Give another path", *train, *after, cwd=folder)


def test_limits_of_sources_that_have_changed_are_told_by_their_option(folder):
    rows = pd.read_csv(folder / "rows.csv").assign(source=lambda frame: frame.index % 2)
    rows.to_csv(folder / "sources.csv", index=False)
    train = ("train", "sources.csv", "--target", "y", "--domain-column", "source", "--rounds", 2)
    train += ("--checkpoint", "run.ckpt", "--domain-limit", "0=none")
    assert run(*train, "--domain-limit", "1=0.2", cwd=folder).returncode == 0
    told = "--domain-limit was {'0': None, '1': 0.2} and is now {'0': None, '1': 0.3}"
    refused(told, *train, "--domain-limit", "1=0.3", cwd=folder)


def test_a_file_that_is_no_checkpoint_is_refused(folder):
    (folder / "notes.txt").write_text("mine")
    refused(
        "--checkpoint 'notes.txt' cannot be used", "train", "rows.csv", "--checkpoint", "notes.txt",
        cwd=folder,
    )  # fmt: skip
    assert (folder / "notes.txt").read_text() == "mine"
