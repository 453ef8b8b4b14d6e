"""``maboost train`` holds a fifth of the rows out by default, and says first what they tell."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer
from tests.cli.command import run
from tests.report.page import Page

import maboost


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("held")
    frame = load_breast_cancer(as_frame=True).frame.iloc[:, -8:]
    frame.to_csv(path / "rows.csv", index=False)
    return path


def trained(folder, *options, rows="rows.csv"):
    done = run("train", folder / rows, "--rounds", 8, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fifth_is_held_out_and_measures_the_error(folder, tmp_path):
    out = tmp_path / "m.maboost"
    found = trained(folder, "--out", out)
    assert next(iter(found)) == "certification"
    fresh = found["certification"]["rows"]
    assert found["rows"] + fresh == 569
    assert abs(fresh - 0.2 * 569) <= 1
    assert found["held_out_rows"] == fresh
    # Clopper and Pearson's interval, from the errors of the model that was written
    model, frame = maboost.load_model(out), pd.read_csv(folder / "rows.csv")
    overall = found["certification"]["overall"]
    wrong = round(overall["estimate"] * fresh)
    assert overall["lower"] <= beta.ppf(0.025, wrong, fresh - wrong + 1) + 1e-9
    assert overall["upper"] >= beta.ppf(0.975, wrong + 1, fresh - wrong) - 1e-9
    errors = int(np.sum(model.predict(frame.drop(columns="target")) != frame["target"]))
    assert errors == wrong + round(found["training_error"] * found["rows"])


def test_the_summary_and_the_report_begin_with_the_held_out_rows(folder, tmp_path):
    report = tmp_path / "r.html"
    done = run("train", folder / "rows.csv", "--rounds", 8, "--report", report)
    assert done.stdout.startswith("With 95% confidence the error against given labels")
    assert "569 rows" in done.stderr
    assert "only measure the error; --valid 0 trains on all rows" in " ".join(done.stderr.split())
    page = Page(report)
    assert page.headings[2][1] == "Error on fresh rows"
    assert page.headings[3][1] == "Metrics on the test rows"
    assert next(iter(page.tiles)) == "Error on fresh rows"


def test_the_same_rows_are_held_out_under_every_seed(folder):
    one, two = trained(folder, "--seed", 0), trained(folder, "--seed", 1)
    assert one["certification"]["classes"].keys() == two["certification"]["classes"].keys()
    counts = [
        {name: its["rows"] for name, its in found["certification"]["classes"].items()}
        for found in (one, two)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("valid", ["0", "0.3"])
def test_validation_rows_replace_the_held_out_part(folder, valid):
    found = trained(folder, "--valid", valid)
    assert "certification" not in found
    assert (found["rows"], found["held_out_rows"]) == (569, 0)
    assert ("validation_error" in found) == (valid != "0")


def test_the_validation_error_is_the_first_line(folder):
    done = run("train", folder / "rows.csv", "--rounds", 8, "--valid", 0.3, "--quiet")
    assert done.stdout.splitlines()[0].startswith("validation error")
    assert "on the rows that chose the number of rounds" in done.stdout.splitlines()[0]


def test_suspects_say_which_rows_they_leave_out(folder, tmp_path):
    path = tmp_path / "s.csv"
    call = ("train", folder / "rows.csv", "--rounds", 8, "--quiet", "--suspects", path)
    assert "without the 114 held-out rows; --valid 0 judges all rows" in run(*call).stdout
    assert "held-out rows" not in run(*call, "--valid", 0).stdout


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ({"x": [1, 2], "y": ["a", "b"]}, "classes to train on"),
        ({"x": [0, 1] * 40, "y": [0, 1, 1, 0] * 20}, "equal rows stay together"),
        ({"x": [1] * 40, "y": [0, 1] * 20}, "is no row"),
    ],
)
def test_tables_of_which_no_part_can_be_held_out(frame, reason, tmp_path):
    pd.DataFrame(frame).to_csv(tmp_path / "few.csv", index=False)
    done = run("train", tmp_path / "few.csv", "--rounds", 2, "--booster", "maboost")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "held out no rows: a fifth of them" in told
    assert reason in told
