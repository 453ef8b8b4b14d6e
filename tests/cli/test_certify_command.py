"""``maboost certify`` and ``train --certify``: bounds of the error on fresh rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from tests.cli.command import refused, run

import maboost

EVIL = "\x1b[31m\u202e"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certify")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = X.iloc[:, :6].copy()
    frame["clinic"] = np.where(np.arange(len(frame)) % 5 == 0, "north", "south")
    frame["diagnosis"] = np.where(y == 1, "benign", "malignant")
    frame[::2].to_csv(folder / "train.csv", index=False)
    fresh = frame[1::2].reset_index(drop=True)
    fresh["site"] = np.where(fresh.index % 3 == 0, 7, 12)
    fresh.to_csv(folder / "fresh.csv", index=False)
    done = run(
        "train", folder / "train.csv", "--rounds", 10, "--out", folder / "m.maboost", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_what_is_printed_is_what_python_finds(folder):
    done = run(
        "certify", folder / "m.maboost", folder / "fresh.csv", "--target", "diagnosis", "--group",
        "site", "--limit", 0.5, "--limit", "12=0.5", "--limit", "class:malignant=0.9", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    fresh = pd.read_csv(folder / "fresh.csv")
    model = maboost.load_model(folder / "m.maboost")
    features = fresh[list(model.feature_names_in_)]
    site = fresh["site"].astype(str)
    found = maboost.certify(model, features, fresh["diagnosis"], groups=site)
    assert told["overall"]["upper"] == found.overall.upper
    assert told["groups"]["7"]["lower"] == found.groups["7"].lower
    assert told["classes"]["malignant"]["upper"] == found.classes["malignant"].upper
    statuses = [told["overall"], told["groups"]["12"], told["classes"]["malignant"]]
    assert [error["status"] for error in statuses] == ["met"] * 3
    assert told["labels"] == "given"


def test_rates_intervals_and_confidence(folder):
    rates = ("--flip-rate", "malignant=0.02", "--flip-rate", "benign=0:0.05")
    call = ("certify", folder / "m.maboost", folder / "fresh.csv", "--target", "diagnosis")
    done = run(*call, *rates, "--confidence", 0.9)
    assert done.returncode == 0, done.stderr
    assert "With 90% confidence the error against true labels" in done.stdout
    assert "intervals of the flip rates" in done.stdout


def test_a_violated_limit_is_exit_code_1_and_an_open_one_is_not(folder):
    call = ("certify", folder / "m.maboost", folder / "fresh.csv", "--target", "diagnosis")
    done = run(*call, "--limit", 0.0001)
    assert done.returncode == 1
    assert "limit 0.01%: violated" in done.stdout
    estimate = json.loads(run(*call, "--json").stdout)["overall"]["estimate"]
    done = run(*call, "--limit", estimate)
    assert done.returncode == 0
    assert ": open" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--limit", "much"], "'much' is not a number; give VALUE or NAME=VALUE"),
        (["--limit", "west=0.1"], "there is no 'west'; there are overall, class:benign"),
        (["--limit", "class:odd=0.1"], "'odd' is not a class of the model"),
        (["--limit", "2"], "limits['overall'] must be an error in [0, 1], got 2.0"),
        (["--flip-rate", "0.4"], "give CLASS=RATE, or CLASS=LOW:HIGH"),
        (["--flip-rate", "odd=0.4"], "'odd' is not a class of the model"),
        (["--flip-rate", "benign=0.4", "--flip-rate", "benign=0.3"], "names 'benign' twice"),
        (["--flip-rate", "benign=0.6", "--flip-rate", "malignant=0.5"], "leave nothing to learn"),
        (["--group", "nowhere"], "there is no column 'nowhere'"),
        (["--group", "diagnosis"], "cannot be both --group and --target"),
        (["--confidence", "1"], "confidence must be a number between 0 and 1"),
    ],
)
def test_bad_options_are_one_line(folder, options, message):
    refused(
        message,
        "certify",
        folder / "m.maboost",
        folder / "fresh.csv",
        "--target",
        "diagnosis",
        *options,
    )


def test_training_sets_rows_aside_for_nothing_else(folder, tmp_path):
    data, report = folder / "train.csv", tmp_path / "report.html"
    call = ("--rounds", 10, "--valid", 0.2, "--certify", 0.3, "--suspects", tmp_path / "s.csv")
    done = run("train", data, *call, "--report", report, "--out", tmp_path / "m.maboost")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("With 95% confidence the error against given labels")
    assert "certified in training" in done.stdout
    text = report.read_text(encoding="utf-8")
    assert text.index("Error on fresh rows") < text.index("Certificate of the training error")
    told = json.loads(run("train", data, *call, "--json", "--quiet").stdout)
    fresh = told["certification"]["rows"]
    assert next(iter(told)) == "certification"
    assert 0.2 * 285 < fresh < 0.4 * 285
    assert told["rows"] == 285 - fresh

    # the rows left are those that a training without the others would have, and the certificate is theirs
    table = pd.read_csv(data)
    shuffled = tmp_path / "shuffled.csv"
    order = np.random.default_rng(0).permutation(len(table))
    table.iloc[order].to_csv(shuffled, index=False)
    again = json.loads(run("train", shuffled, *call, "--json", "--quiet").stdout)
    assert again["certification"] == told["certification"]
    # suspects are numbered by the rows of the table
    suspects = pd.read_csv(tmp_path / "s.csv")
    for row, label in zip(suspects["row"], suspects["given_label"], strict=True):
        assert table["diagnosis"].iloc[order[row]] == label


def test_what_is_set_aside_does_not_change_the_model(folder, tmp_path):
    """Wrong labels of the rows that are set aside change the certificate and nothing else."""
    table = pd.read_csv(folder / "train.csv")
    call = ("--rounds", 8, "--certify", 0.3, "--quiet", "--out", tmp_path / "m.maboost", "--json")
    kept = json.loads(run("train", folder / "train.csv", *call).stdout)
    model = maboost.load_model(tmp_path / "m.maboost")
    rows = kept["rows"]
    features = list(model.feature_names_in_)
    # find the rows that were trained on: every other row changes nothing when its label does
    changed = []
    for row in range(0, len(table), 40):
        other = table.copy()
        flip = {"benign": "malignant", "malignant": "benign"}
        other.loc[row, "diagnosis"] = flip[other.loc[row, "diagnosis"]]
        other.to_csv(tmp_path / "other.csv", index=False)
        found = json.loads(run("train", tmp_path / "other.csv", *call).stdout)
        assert found["rows"] == rows  # labels do not choose the rows
        again = maboost.load_model(tmp_path / "m.maboost")
        same = np.array_equal(
            again.decision_function(table[features]), model.decision_function(table[features])
        )
        moved = found["certification"]["classes"] != kept["certification"]["classes"]
        changed.append((same, moved))
    assert (True, True) in changed
    assert (True, False) not in changed


def test_sources_are_groups_and_weights_are_kept(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv").assign(weight=1.0)
    table.loc[::2, "weight"] = 2.0
    table.to_csv(tmp_path / "rows.csv", index=False)
    done = run(
        "train", tmp_path / "rows.csv", "--target", "diagnosis", "--rounds", 5, "--domain-column",
        "clinic", "--domain-limit", "north=none", "--domain-limit", "south=0.3", "--weight-column",
        "weight", "--certify", 0.3, "--json", "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["certification"]
    assert set(told["groups"]) == {"north", "south"}
    assert told["method"] == "mixture of bets"


@pytest.mark.parametrize("share", ["0", "1", "1.5", "-0.1"])
def test_shares_that_are_none(folder, share):
    refused("must be a share between 0 and 1", "train", folder / "train.csv", "--certify", share)


def test_a_class_that_would_be_lost(tmp_path):
    frame = pd.DataFrame({"a": range(20), "target": ["x"] * 19 + ["y"]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    refused("of 2 classes to train on", "train", tmp_path / "rows.csv", "--certify", 0.95)


def test_names_from_files_are_escaped(tmp_path):
    frame = pd.DataFrame(
        {
            "a": range(60),
            f"{EVIL}group": [f"{EVIL}{i % 2}" for i in range(60)],
            "target": [f"{EVIL}{i // 30}" for i in range(60)],
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    done = run(
        "train", tmp_path / "rows.parquet", "--drop", f"{EVIL}group", "--rounds", 2, "--certify", 0.3,
        "--out", tmp_path / "m.maboost",
    )  # fmt: skip
    found = run(
        "certify", tmp_path / "m.maboost", tmp_path / "rows.parquet", "--group", f"{EVIL}group"
    )
    as_json = run(
        "certify",
        tmp_path / "m.maboost",
        tmp_path / "rows.parquet",
        "--group",
        f"{EVIL}group",
        "--json",
    )
    assert done.returncode == found.returncode == 0, done.stderr + found.stderr
    for text in (done.stdout, done.stderr, found.stdout, found.stderr, as_json.stdout):
        assert not {"\x1b", "\u202e"} & set(text)
    assert r"class \x1b[31m\u202e0" in done.stdout
    assert r"group \x1b[31m\u202e0" in found.stdout
