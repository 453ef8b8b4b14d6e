"""The real command, with the words that a user gives it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer
from tests.cli.command import COMMAND, refused, run, run_process

import maboost
from maboost.cli import main
from maboost.cli.words import in_options
from maboost.estimators.error_limits import ErrorLimitWarning
from maboost.runtime.parameter_errors import Setting


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and a model, made once."""
    folder = tmp_path_factory.mktemp("cli")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = X.iloc[:, :6].rename(columns=lambda name: name.replace(" ", "_"))
    rng = np.random.default_rng(0)
    frame["clinic"] = rng.choice(["north", "south"], len(frame))
    frame.loc[::17, "mean_area"] = np.nan
    frame["weight"] = rng.uniform(0.5, 2.0, len(frame))
    frame["diagnosis"] = np.where(y == 1, "benign", "malignant")
    frame.to_csv(folder / "train.csv", index=False)
    frame.iloc[:100].to_csv(folder / "valid.csv", index=False)
    frame.to_parquet(folder / "train.parquet", index=False)
    frame.drop(columns=["diagnosis"]).to_csv(folder / "rows.csv", index=False)
    done = run(
        "train", folder / "train.csv", "--rounds", 15, "--drop", "weight", "--out",
        folder / "model.maboost", "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


# -------------------------------------------------------------------------------------------- train


def test_train_says_what_it_inferred_and_what_came_out(folder):
    done = run_process("train", folder / "train.csv", "--rounds", 10, "--out", folder / "a.maboost")
    assert done.returncode == 0, done.stderr
    for text in (
        "569 rows",
        "'diagnosis' (inferred: the last column)",
        "categories clinic",
        "numbers",
    ):
        assert text in done.stderr
    assert "round 10/10" in done.stderr
    for text in ("training error", "certified", "a.maboost"):
        assert text in done.stdout
    assert maboost.load_model(folder / "a.maboost").n_iter_ == 10


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"booster": "SmoothBoostClassifier"}),
        (["--booster", "maboost"], {"booster": "MABoostClassifier", "certified_floor": 0.0}),
        (["--booster", "sparse", "--kappa", 0.8], {"booster": "SparseBoostClassifier"}),
        (["--booster", "sparse", "--sparsity", 0.7], {"booster": "SparseBoostClassifier"}),
        (["--booster", "margin", "--tolerance", 0.1], {"booster": "MarginBoostClassifier"}),
        (["--booster", "margin", "--smoothness", 8], {"booster": "MarginBoostClassifier"}),
        (["--booster", "mada"], {"booster": "MadaBoostClassifier"}),
        (["--noise-rate", 0.1], {"smoothness": 5.0}),
        (["--smoothness", 5], {"smoothness": 5.0, "certified_floor": 0.2}),
        (["--weight-column", "weight"], {"features": 7}),
        (["--drop", "weight", "--drop", "clinic"], {"features": 6}),
        (["--target", "clinic"], {"target": "clinic", "classes": ["north", "south"]}),
        (["--max-depth", 1, "--learning-rate", 0.5, "--seed", 3, "--jobs", 1], {"rounds": 5}),
    ],
    ids=str,
)
def test_options(folder, options, expected):
    done = run("train", folder / "train.csv", "--rounds", 5, "--json", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {key: found[key] for key in expected} == expected
    assert 0.0 <= found["training_error"] <= found["certified_error"] <= 1.0
    assert done.stderr == ""


def test_parquet_and_csv_give_the_same_model(folder):
    found = [
        json.loads(run("train", folder / name, "--rounds", 5, "--json").stdout)
        for name in ("train.csv", "train.parquet")
    ]
    assert found[0] == found[1]


def weighted_by_class(folder, *options):
    """A model of a few rounds, as it was written."""
    train = ("train", folder / "train.csv", "--drop", "weight", "--rounds", 4, "--json")
    train = (*train, "--valid", 0)
    done = run(*train, "--out", folder / "w.maboost", *options)
    assert done.returncode == 0, done.stderr
    return maboost.load_model(folder / "w.maboost")


def test_weights_of_classes(folder):
    X = pd.read_csv(folder / "train.csv")
    y = X["diagnosis"]
    model = weighted_by_class(folder, "--class-weight", "balanced")
    assert model.class_weight == "balanced"
    factors = ("--class-weight", "malignant=3", "--class-weight", "benign=0.5")
    model = weighted_by_class(folder, *factors)
    assert model.class_weight == {"malignant": 3.0, "benign": 0.5}
    whole = maboost.SmoothBoostClassifier(n_estimators=4, random_state=0)
    whole.set_params(class_weight={"malignant": 3.0, "benign": 0.5})
    X = X[list(model.feature_names_in_)]
    np.testing.assert_array_equal(model.decision_function(X), whole.fit(X, y).decision_function(X))
    heavy = weighted_by_class(folder, "--class-weight", "malignant=1000")
    assert (heavy.predict(X)[y == "malignant"] == "malignant").all()


@pytest.mark.parametrize(
    ("labels", "told", "label"),
    [
        (("0", "1"), "1", 1),
        (("0", "1"), "1.0", 1),
        (("1.0", "2.0"), "2", 2.0),
        (("true", "false"), "true", True),
        (("a=b", "c"), "a=b", "a=b"),
        (("01", "x"), "01", "01"),
    ],
)
def test_classes_are_named_as_they_are_written(tmp_path, labels, told, label):
    data, out = tmp_path / "t.csv", tmp_path / "m.maboost"
    data.write_text("x,y\n" + "".join(f"{i},{labels[i % 2]}\n" for i in range(20)))
    options = ("--rounds", 2, "--class-weight", f"{told}=2", "--out", out, "--quiet")
    done = run("train", data, *options, "--report", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    assert maboost.load_model(out).class_weight == {label: 2.0}
    assert "other weights" not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["even"], "--class-weight 'even' is neither balanced nor LABEL=FACTOR with a number"),
        (["benign=much"], "--class-weight 'benign=much' is neither balanced nor LABEL=FACTOR"),
        (["=2"], "--class-weight '=2' is neither balanced nor LABEL=FACTOR"),
        (
            ["benign=0"],
            "--class-weight 'benign=0' must be a positive number; leave the rows of the class out",
        ),
        (["balanced", "benign=2"], "give --class-weight balanced or LABEL=FACTOR, not both"),
        (
            ["benign=2", "benign=3"],
            "--class-weight 'benign=3' is a second factor of class 'benign'",
        ),
    ],
)
def test_weights_of_classes_that_are_none(values, message):
    words = [word for value in values for word in ("--class-weight", value)]
    refused(message, "train", "no-such-file.csv", *words)  # before the data is read


@pytest.mark.parametrize("factor", ["inf", "nan", "-1"])
def test_leaving_rows_out_is_advice_for_a_weight_of_zero_only(factor):
    told = f"0={factor}"
    message = f"--class-weight {told!r} must be a positive number"
    lines = refused(message, "train", "no-such-file.csv", "--class-weight", told)
    assert lines[-1].endswith(message)


def test_flip_rates(folder, tmp_path):
    X = pd.read_csv(folder / "train.csv")
    for options, rates in (
        (["malignant=0.3"], {"malignant": 0.3}),
        (["malignant=0.3", "benign=0.1"], {"malignant": 0.3, "benign": 0.1}),
        (["0.2"], 0.2),
    ):
        words = [word for option in options for word in ("--flip-rate", option)]
        model = weighted_by_class(folder, *words)
        assert model.flip_rates == rates
        whole = maboost.SmoothBoostClassifier(n_estimators=4, random_state=0, flip_rates=rates)
        rows = X[list(model.feature_names_in_)]
        expected = whole.fit(rows, X["diagnosis"]).predict_proba(rows)
        np.testing.assert_array_equal(model.predict_proba(rows), expected)
    out, report = tmp_path / "m.maboost", tmp_path / "r.html"
    done = run(
        "train", folder / "train.csv", "--rounds", 3, "--flip-rate", "malignant=0.3", "--out", out,
        "--report", report, "--quiet",
    )  # fmt: skip
    assert "(weighted, on given labels)" in done.stdout
    assert "other weights" not in report.read_text()
    assert "weighted error on the given labels" in report.read_text()


def test_rows_set_aside_are_certified_against_true_labels(folder):
    train = ("train", folder / "train.csv", "--rounds", 3, "--certify", 0.3, "--json")
    for options, labels in ((), "given"), (("--flip-rate", "malignant=0.3"), "true"):
        done = run(*train, *options)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["certification"]["labels"] == labels


def test_flip_rates_of_sources(folder, tmp_path):
    train = ("train", folder / "train.csv", "--rounds", 3, "--domain-column", "clinic")
    rates = ("--flip-rate", "north=0", "--flip-rate", "south=0.2")
    done = run(*train, *rates, "--json", "--out", tmp_path / "m.maboost")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flip_rates"]["south"] == [[0.8, 0.2], [0.2, 0.8]]
    model = maboost.load_model(tmp_path / "m.maboost")
    assert model.flip_rates == {"north": 0.0, "south": 0.2}
    assert model.error_limits is None
    done = run(*train, *rates, "--quiet", "--report", tmp_path / "r.html")
    assert "(no limit)" in done.stdout
    assert "does not know the source of a row" in (tmp_path / "r.html").read_text()
    config = tmp_path / "c.toml"
    config.write_text("rounds = 3\n[flip-rate]\nnorth = 0.0\nsouth = 0.2\n")
    done = run(*train[:2], "--domain-column", "clinic", "--config", config, "--json")
    assert json.loads(done.stdout)["flip_rates"]["north"] == [[1.0, 0.0], [0.0, 1.0]]
    refused(
        "--domain-column has 'south', which --flip-rate does not name",
        *train,
        *rates[:2],
        "--quiet",
    )
    refused(
        "--flip-rate names 'west', which is not a source",
        *train, *rates, "--flip-rate", "west=0.1", "--quiet",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["much"],
            "--flip-rate 'much' is not CLASS=RATE, and one number for all classes stands alone",
        ),
        (["0.1", "benign=0.2"], "--flip-rate '0.1' is not CLASS=RATE"),
        (["=0.2"], "--flip-rate '=0.2' is not CLASS=RATE"),
        (["1.0"], "--flip-rate '1.0' must have a rate that is at least 0 and below 1"),
        (["benign=-0.1"], "--flip-rate 'benign=-0.1' must have a rate"),
        (["benign=nan"], "--flip-rate 'benign=nan' must have a rate"),
        (
            ["benign=0.1", "benign=0.2"],
            "--flip-rate 'benign=0.2' is a second rate of class 'benign'",
        ),
        (["0.2", "--domain-column", "clinic"], "--flip-rate '0.2' is not SOURCE=RATE"),
    ],
)
def test_flip_rates_that_are_none(values, message):
    words = [w for v in values for w in (("--flip-rate", v) if "=" in v or v[0] in "m01" else (v,))]
    refused(message, "train", "no-such-file.csv", *words)  # before the data is read


def test_flip_rates_that_the_rows_have_not(folder):
    train = ("train", folder / "train.csv", "--quiet", "--flip-rate")
    refused(
        "--flip-rate Benign=0.2 names a class that is not in the target 'diagnosis'",
        *train,
        "Benign=0.2",
    )
    refused("--flip-rate 0.5 leave nothing to learn", *train, "0.5")
    refused("--flip-rate do not fit the labels", *train, "benign=0.9")


def test_weights_of_classes_that_the_rows_have_not(folder, tmp_path):
    refused(
        "--class-weight Benign=2 names a class that is not in the target 'diagnosis'; it has benign, "
        "malignant",
        "train", folder / "train.csv", "--class-weight", "Benign=2",
    )  # fmt: skip
    (tmp_path / "t.csv").write_text("x,y\n1,0\n2,1\n3,0\n4,1\n")
    twice = ("--class-weight", "1=2", "--class-weight", "1.0=3")
    refused("1.0=3 is a second factor of class 1: give one", "train", tmp_path / "t.csv", *twice)


@pytest.mark.parametrize(
    "text",
    ['class-weight = ["malignant=3"]', "[class-weight]\nmalignant = 3"],
    ids=["list", "table"],
)
def test_weights_of_classes_in_a_configuration(folder, tmp_path, text):
    (tmp_path / "c.toml").write_text(text + "\n")
    model = weighted_by_class(folder, "--config", tmp_path / "c.toml")
    assert model.class_weight == {"malignant": 3.0}


def test_sources_with_limits(folder):
    done = run(
        "train", folder / "train.csv", "--rounds", 8, "--domain-column", "clinic", "--drop", "weight",
        "--domain-limit", "north=none", "--domain-limit", "south=0.2", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    domains = json.loads(done.stdout)["domains"]
    assert domains["south"]["limit"] == 0.2
    assert domains["north"]["limit"] is None


@pytest.mark.parametrize("valid", ["0.2", "file"])
def test_validation_rows_stop_early(folder, valid):
    valid = folder / "valid.csv" if valid == "file" else valid
    done = run("train", folder / "train.csv", "--rounds", 60, "--valid", valid, "--json")
    assert done.returncode == 0, done.stderr
    assert "validation_error" in json.loads(done.stdout)


def test_suspects_are_counted_where_they_are_asked_for(folder):
    options = ("--valid", "0.2", "--rounds", 5, "--quiet")
    done = run("train", folder / "train.csv", *options, "--json")
    found = json.loads(done.stdout)
    assert found["rows"] == 569
    assert found["training_rows"] < 569
    assert "suspect_labels" not in found  # they take a cross-fit
    done = run("train", folder / "train.csv", *options, "--suspects", folder / "s.csv", "--json")
    assert json.loads(done.stdout)["suspect_labels"] == len(pd.read_csv(folder / "s.csv"))
    told = run("train", folder / "train.csv", *options, "--suspects", folder / "s.csv").stdout
    assert "number of wrong labels is not known without flip rates" in told


def test_a_model_without_rounds_has_neither_errors_nor_suspects(tmp_path):
    data = tmp_path / "same.csv"
    data.write_text("x,label\n" + "1,a\n1,b\n" * 20)
    done = run_process("train", data)
    assert done.returncode == 0, done.stderr
    assert "the model predicts the heaviest class, 'a'" in done.stderr
    assert "training error" not in done.stdout
    assert "suspect" not in done.stdout


def test_a_configuration_file_and_the_command_line_over_it(folder):
    config = folder / "train.toml"
    config.write_text(
        'rounds = 4\nbooster = "combined"\ndomain-column = "clinic"\ndrop = ["weight"]\n'
        "[domain-limit]\nnorth = 0.3\nsouth = 0.1\n"
    )
    found = json.loads(run("train", folder / "train.csv", "--config", config, "--json").stdout)
    assert (found["rounds"], found["domains"]["north"]["limit"]) == (4, 0.3)
    found = json.loads(
        run("train", folder / "train.csv", "--config", config, "--rounds", 2, "--json").stdout
    )
    assert found["rounds"] == 2


def test_a_report_is_written(folder):
    done = run(
        "train", folder / "train.csv", "--rounds", 5, "--report", folder / "r.html", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    assert (
        "diagnosis" in (folder / "r.html").read_text()
        or "benign" in (folder / "r.html").read_text()
    )


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_suspects_are_written_with_their_rows_the_worst_first(folder, tmp_path, name):
    out, model = tmp_path / name, tmp_path / "m.maboost"
    options = ("--rounds", 5, "--valid", "0.2", "--out", model, "--suspects", out, "--json")
    done = run("train", folder / "train.csv", *options)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["suspects"] == str(out)
    found = pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out)
    assert len(found) == told["suspect_labels"] > 0
    assert found.columns.tolist() == [
        "row", "is_label_issue", "label_quality", "probability_wrong", "given_label", "suggested_label",
        "predicted_label", "mean_weight",
    ]  # fmt: skip
    assert found["is_label_issue"].all()
    assert found["label_quality"].is_monotonic_increasing
    given = pd.read_csv(folder / "train.csv")["diagnosis"]  # the first row is row 0
    assert found["given_label"].tolist() == given[found["row"]].tolist()


def test_without_suspects_the_file_has_a_head_only(tmp_path):
    data, out = tmp_path / "t.csv", tmp_path / "s.csv"
    data.write_text("x,y\n" + "".join(f"{i},{int(i > 9)}\n" for i in range(20)))
    done = run("train", data, "--rounds", 3, "--suspects", out, "--quiet")
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    assert len(out.read_text().splitlines()) == 1
    found = pd.read_csv(out)
    assert found.empty
    assert {"row", "label_quality"} <= set(found.columns)


# --------------------------------------------------------------------------- predict, evaluate, inspect


def test_predict(folder):
    model = maboost.load_model(folder / "model.maboost")
    frame = pd.read_csv(folder / "rows.csv")[list(model.feature_names_in_)]
    done = run("predict", folder / "model.maboost", folder / "rows.csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "prediction"
    assert lines[1:] == model.predict(frame).tolist()
    done = run(
        "predict",
        folder / "model.maboost",
        folder / "rows.csv",
        "--proba",
        "--out",
        folder / "p.csv",
    )
    assert (done.returncode, done.stdout) == (0, "")
    written = pd.read_csv(folder / "p.csv")
    np.testing.assert_allclose(
        written[["probability_benign", "probability_malignant"]], model.predict_proba(frame)
    )
    run(
        "predict", folder / "model.maboost", folder / "train.parquet", "--out", folder / "p.parquet"
    )
    assert pd.read_parquet(folder / "p.parquet")["prediction"].tolist() == lines[1:]


@pytest.mark.parametrize("labels", [[True, False], [3, 7], ["a, b", 'say "c"'], [1.0, 2.0]])
def test_predictions_on_the_terminal_are_those_of_a_file(tmp_path, labels):
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.repeat(labels, 20)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model, out = tmp_path / "m.maboost", tmp_path / "p.csv"
    run("train", tmp_path / "rows.csv", "--rounds", 2, "--out", model, "--quiet")
    shown = run("predict", model, tmp_path / "rows.csv").stdout
    assert run("predict", model, tmp_path / "rows.csv", "--out", out).returncode == 0
    as_text = {"dtype": str, "keep_default_na": False}
    pd.testing.assert_frame_equal(
        pd.read_csv(StringIO(shown), **as_text), pd.read_csv(out, **as_text)
    )


def test_evaluate(folder):
    done = run(
        "evaluate",
        folder / "model.maboost",
        folder / "train.csv",
        "--target",
        "diagnosis",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 569
    assert np.trace(found["confusion"]) == round(569 * (1 - found["error"]))
    done = run("evaluate", folder / "model.maboost", folder / "train.csv", "--target", "diagnosis")
    assert "error" in done.stdout
    assert "malignant" in done.stdout


def test_json_has_no_nan(tmp_path):
    """A stream that ended with its last round leaves a model whose error nobody measured."""
    X = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 500)})
    with pytest.warns(UserWarning, match="the stream ended"):
        model = maboost.MadaBoostClassifier(random_state=0).fit_stream(
            [(X, X["x"] > 0.0)], sample_size=500
        )
    model.save(tmp_path / "model.maboost")
    said = run("inspect", tmp_path / "model.maboost", "--json").stdout
    found = json.loads(said, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["training_error"] is None
    assert found["certified_error"] == 1.0


def test_inspect(folder):
    done = run("inspect", folder / "model.maboost")
    assert done.returncode == 0, done.stderr
    assert "SmoothBoostClassifier" in done.stdout
    assert "certified" in done.stdout
    found = json.loads(run("inspect", folder / "model.maboost", "--json").stdout)
    assert found["rounds"] == 15
    assert sum(found["importances"].values()) == pytest.approx(1.0)


def test_help_and_version():
    assert maboost.__version__ in run_process("--version").stdout
    for command in ("train", "predict", "evaluate", "inspect", "demo"):
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_demo_writes_a_model_a_report_and_the_tables_of_the_readme(tmp_path):
    done = run("demo", "--folder", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Mean error on clean test labels over 10 random splits" in done.stdout
    assert len(re.findall(r"\d%  \(\d+\.\d% to \d+\.\d%\)", done.stdout)) == 2  # boosters
    assert maboost.load_model(tmp_path / "out" / "model.maboost").n_iter_ > 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    rows, test, new = (pd.read_csv(tmp_path / "out" / f"{n}.csv") for n in ("rows", "test", "new"))
    assert set(rows["diagnosis"]) == set(test["diagnosis"]) == {"benign", "malignant"}
    assert list(new) == list(test.drop(columns="diagnosis")) == list(rows.drop(columns="diagnosis"))


# ---------------------------------------------------------------------------------------- bad input


def test_missing_file(tmp_path):
    refused("nothing.csv: no such file", "train", tmp_path / "nothing.csv", run=run_process)


def test_empty_file(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    refused("the file is empty", "train", tmp_path / "empty.csv")
    (tmp_path / "head.csv").write_text("a,b\n")
    refused("no rows", "train", tmp_path / "head.csv")


def test_wrong_target(folder):
    refused("there is no column 'price'", "train", folder / "train.csv", "--target", "price")


def test_a_target_that_is_no_class(folder):
    refused("it is not a class", "train", folder / "train.csv", "--target", "mean_radius")


def test_a_column_that_is_not_numeric(tmp_path):
    columns = {"list": [[1.0]] * 20, "x": range(20), "y": [0, 1] * 10}
    pd.DataFrame(columns).to_parquet(tmp_path / "d.parquet")
    refused("or leave it out by --drop list", "train", tmp_path / "d.parquet")
    (tmp_path / "w.csv").write_text("x,w,y\n1,a,0\n2,b,1\n3,c,0\n")
    refused("not a column of numbers", "train", tmp_path / "w.csv", "--weight-column", "w")


def test_decimal_commas(tmp_path):
    rows = "".join(f"{i},5;{i % 2}\n" for i in range(40))
    (tmp_path / "eu.csv").write_text("x;y\n" + rows)
    refused("column 'x' holds numbers with commas", "train", tmp_path / "eu.csv")
    assert run("train", tmp_path / "eu.csv", "--decimal", ",", "--rounds", 2).returncode == 0


def test_one_class(tmp_path):
    (tmp_path / "one.csv").write_text("x,y\n1,a\n2,a\n3,a\n")
    refused("has one value only, 'a'", "train", tmp_path / "one.csv")


def test_huge_cardinality(tmp_path):
    rows = "".join(f"id{i},{i % 7},{int(i % 7 > 3)}\n" for i in range(600))
    (tmp_path / "ids.csv").write_text("id,x,y\n" + rows)
    done = run(
        "train", tmp_path / "ids.csv", "--rounds", 2, "--max-depth", 3, "--quiet", "--valid", 0
    )
    assert done.returncode == 0
    first, notice = [line for line in done.stderr.splitlines() if line.startswith("maboost:")]
    assert first.startswith("maboost: column 'id' looks like an identifier (a different value in")
    assert notice.startswith("maboost: more categories than 255: column 'id' has 600 categories")
    assert notice.endswith("or --drop a column that identifies rows")
    assert run("train", tmp_path / "ids.csv", "--drop", "id", "--rounds", 2).returncode == 0


def test_a_missing_label(tmp_path):
    (tmp_path / "y.csv").write_text("x,y\n1,a\n2,\n3,b\n")
    refused(
        "the target 'y' is missing in 1 of 3 rows: leave those rows out, or say --skip-unlabelled (in CSV files no",
        "train",
        tmp_path / "y.csv",
    )


def test_wrong_model_file(folder):
    refused("is not a maboost model file", "predict", folder / "train.csv", folder / "rows.csv")
    refused("no such file", "inspect", folder / "none.maboost")
    refused(f"--config {folder}: no such file", "train", folder / "train.csv", "--config", folder)


def test_features_missing_at_predict(folder, tmp_path):
    pd.read_csv(folder / "rows.csv").drop(columns=["mean_area"]).to_csv(tmp_path / "few.csv")
    refused(
        "column 'mean_area' is missing", "predict", folder / "model.maboost", tmp_path / "few.csv"
    )


def test_unwritable_output(folder, tmp_path):
    lines = refused(
        "there is no folder", "train", folder / "train.csv", "--out", tmp_path / "no" / "m.maboost"
    )
    assert len(lines) == 1  # known before any training
    refused("cannot be written", "train", folder / "train.csv", "--report", tmp_path)
    lines = refused(
        ".xlsx files are not written",
        "train",
        folder / "train.csv",
        "--suspects",
        tmp_path / "s.xlsx",
    )
    assert len(lines) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_the_place_of_an_output(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for option in ("--out", "--report", "--suspects", "--checkpoint"):
        data = folder / "train.csv"
        lines = refused("pipe: cannot be written", "train", data, option, tmp_path / "pipe")
        assert len(lines) == 1


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("--out", "t.csv"), "the rows"),
        (("--report", "link.csv"), "the rows"),
        (("--out", "v.csv"), "--valid"),
        (("--report", "c.toml"), "--config"),
        (("--suspects", "./t.csv"), "the rows"),
        (("--out", "same", "--report", "./same"), "--out"),
        (("--report", "same", "--suspects", "same"), "--report"),
    ],
)
def test_nothing_is_written_over_what_is_read(folder, tmp_path, written, read):
    for name, source in {"t.csv": "train.csv", "v.csv": "valid.csv"}.items():
        (tmp_path / name).write_bytes((folder / source).read_bytes())
    (tmp_path / "c.toml").write_text("rounds = 2\n")
    (tmp_path / "link.csv").symlink_to("t.csv")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    options = ("--valid", "v.csv", "--config", "c.toml", *written)
    refused(f"is the file of {read}: give another path", "train", "t.csv", *options, cwd=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_predictions_replace_neither_rows_nor_model(folder):
    model, rows = folder / "model.maboost", folder / "rows.csv"
    refused("is the file of the rows", "predict", model, rows, "--out", rows)
    refused("is the file of the model", "predict", model, rows, "--out", model)
    assert run("predict", model, rows).returncode == 0


def test_options_that_do_not_go_together(folder):
    train = ("train", folder / "train.csv")
    refused(
        "--noise-rate is for --booster smooth", *train, "--booster", "mada", "--noise-rate", 0.1
    )
    refused("needs --domain-column", *train, "--booster", "combined")
    refused("give --smoothness or --noise-rate", *train, "--noise-rate", 0.1, "--smoothness", 2)
    refused("is not NAME=LIMIT", *train, "--domain-column", "clinic", "--domain-limit", "north")


def test_limits_of_sources(folder):
    train = ("train", folder / "train.csv", "--domain-column", "clinic")
    refused("has sources without a --domain-limit: north, south", *train)
    north, south = ("--domain-limit", "north=0.2"), ("--domain-limit", "south=none")
    refused(
        "--domain-limit west=0.2 names a source that is not in --domain-column 'clinic'",
        *train, *north, *south, "--domain-limit", "west=0.2",
    )  # fmt: skip
    refused(
        "--domain-limit 'north=1.5' must be in (0, 1), or none",
        *train,
        "--domain-limit",
        "north=1.5",
    )
    refused(
        "--domain-limit 'north=none' is a second limit of source 'north'",
        *train, *north, *south, "--domain-limit", "north=none",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--noise-rate", 0.7), "--noise-rate 0.7 must be a number in the range [0.0, 0.4546)"),
        (("--smoothness", 0.5), "--smoothness 0.5 must be a number in the range [1.0, inf)"),
        (("--rounds", 0), "--rounds 0 must be a whole number in the range [1, inf)"),
        (("--max-depth", 0), "--max-depth 0 must be a whole number in the range [1, inf)"),
        (("--learning-rate", 2), "--learning-rate 2.0 must be a number in the range (0.0, 1.0]"),
        (("--valid", 1.5), "--valid 1.5 must be a number in the range (0.0, 1.0)"),
        (("--seed", -1), "--seed -1 must be a whole number in the range [0, 4294967295]"),
        (("--jobs", 0), "--jobs 0 is not a number of threads"),
        (("--booster", "sparse", "--sparsity", 2), "--sparsity 2.0 must be a number in the range"),
        (("--booster", "sparse", "--kappa", 0), "--kappa 0.0 must be a number in the range"),
        (
            ("--booster", "margin", "--tolerance", 1),
            "--tolerance 1.0 must be a number in the range",
        ),
        (("--tolerance", 0.1), "--tolerance is for --booster margin, not for smooth"),
        (("--booster", "margin", "--learning-rate", 0.1), "--learning-rate is a factor on steps"),
        (
            ("--booster", "sparse", "--smoothness", 2),
            "--smoothness is for --booster smooth or margin",
        ),
    ],
    ids=str,
)
def test_a_bad_value_is_told_by_its_option_before_the_data_is_read(options, message):
    (line,) = refused(message, "train", "no-such-file.csv", *options)
    assert line.startswith(f"maboost: {message}")


def test_what_only_the_rows_can_tell_is_told_by_its_option(tmp_path):
    (tmp_path / "few.csv").write_text("x,w,y\n" + "1,-0.5,0\n" * 3 + "2,-0.5,1\n" * 3)
    train = ("train", tmp_path / "few.csv")
    told = "--valid 0.2 holds out 0 of 6 rows and leaves 2 of 2 classes to train on; "
    refused(told + "give --valid FILE, or another fraction", *train, "--valid", 0.2)
    refused("Negative values in --weight-column: -0.5", *train, "--weight-column", "w")


def test_a_limit_of_a_source_is_told_by_its_option():
    warning = ErrorLimitWarning(Setting("error_limits", 0.2, "north"), " never bound")
    assert str(warning) == "error_limits['north']=0.2 never bound"
    assert in_options(warning) == "--domain-limit north=0.2 never bound"


def test_the_end_is_told_by_the_option(folder):
    done = run("train", folder / "train.csv", "--rounds", 3, "--quiet")
    assert "3 (all of --rounds 3 are done)" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beauty = 1", "unknown option 'beauty'"),
        ("rounds = = 1", "Invalid value"),
        ("out = 5", "out = 5 is not text"),
        ("report = true", "report = True is not text"),
        ('drop = "src"', "drop = 'src' is not a list, as in drop = ['src']"),
        ("drop = [1]", "drop = 1 is not text"),
        ('rounds = "x"', "rounds = 'x' is not a whole number"),
        ("rounds = true", "rounds = True is not a whole number"),
        ("rounds = 2.5", "rounds = 2.5 is not a whole number"),
        ('noise-rate = "much"', "noise-rate = 'much' is not a number"),
        ('quiet = "no"', "quiet = 'no' is not true or false"),
        ('booster = "best"', "booster = 'best': 'best' is not one of 'smooth'"),
        ("domain-limit = 0.5", "domain-limit = 0.5 is not a list"),
        ("valid = true", "valid = True is not text"),
    ],
)
def test_a_bad_configuration(folder, tmp_path, text, message):
    config = tmp_path / "bad.toml"
    config.write_text(text + "\n")
    (line,) = refused(message, "train", folder / "train.csv", "--config", config)
    assert line.startswith(f"maboost: --config {config}: ")


def test_a_fraction_in_a_configuration(folder, tmp_path):
    (tmp_path / "c.toml").write_text("valid = 0.2\nrounds = 3\nlearning-rate = 1\nquiet = true\n")
    done = run("train", folder / "train.csv", "--config", tmp_path / "c.toml", "--json")
    assert "validation_error" in json.loads(done.stdout)


def test_evaluate_without_labels(folder):
    refused(
        "the only column besides the features, 'weight', holds none of the model's classes benign, "
        "malignant; add the labels",
        "evaluate", folder / "model.maboost", folder / "rows.csv",
    )  # fmt: skip


def test_unknown_labels_in_evaluate(folder, tmp_path):
    frame = pd.read_csv(folder / "train.csv")
    frame["diagnosis"] = "unclear"
    frame.to_csv(tmp_path / "strange.csv", index=False)
    refused(
        "labels that were not in the training: unclear",
        "evaluate", folder / "model.maboost", tmp_path / "strange.csv", "--target", "diagnosis",
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_leaves_the_rounds_done(folder, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60_000, 10)), columns=[f"x{i}" for i in range(10)])
    X["y"] = (X["x0"] + rng.normal(size=len(X)) > 0).astype(int)
    X.to_parquet(tmp_path / "big.parquet")
    process = subprocess.Popen(
        [*COMMAND, "train", str(tmp_path / "big.parquet"), "--rounds", "100000", "--smoothness", "3", "--valid", "0",
         "--out", str(tmp_path / "m.maboost")],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while "target" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "rounds that were done" in said
    assert maboost.load_model(tmp_path / "m.maboost").n_iter_ >= 1
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".maboost") == ["m.maboost"]


def test_a_closed_pipe_is_no_error(folder):
    done = subprocess.run(
        f"{sys.executable} -m maboost predict {folder / 'model.maboost'} {folder / 'rows.csv'} | head -1",
        shell=True, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "prediction\n"
    assert "Traceback" not in done.stderr
