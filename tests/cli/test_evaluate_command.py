"""``maboost evaluate`` prints the metrics of the model, at a threshold that other rows have chosen."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as reference
from sklearn.datasets import load_breast_cancer, load_wine
from tests.cli.command import refused, run

import maboost


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate")
    for name, load in (("two", load_breast_cancer), ("three", load_wine)):
        frame = load(as_frame=True).frame
        frame["target"] = frame["target"].map({0: "malignant", 1: "benign", 2: "other"})
        frame[1::2].to_csv(path / f"{name}.csv", index=False)
        model = maboost.SmoothBoostClassifier(n_estimators=15, random_state=0)
        train = frame[::2]
        model.fit(train.drop(columns="target"), train["target"]).save(path / f"{name}.maboost")
    frame = pd.read_csv(path / "two.csv")
    frame[::2].to_csv(path / "first.csv", index=False)
    frame[1::2].to_csv(path / "second.csv", index=False)
    return path


def evaluated(folder, rows, *options, model="two"):
    done = run("evaluate", folder / f"{model}.maboost", folder / rows, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def answers(folder, rows, model="two"):
    frame = pd.read_csv(folder / rows)
    fitted = maboost.load_model(folder / f"{model}.maboost")
    X = frame.drop(columns="target")
    return frame["target"].to_numpy(), fitted.predict(X), fitted.predict_proba(X)


@pytest.mark.parametrize("name", ["two", "three"])
def test_the_figures_are_those_of_scikit_learn(folder, name):
    found = evaluated(folder, f"{name}.csv", model=name)
    y, said, proba = answers(folder, f"{name}.csv", name)
    score = proba[:, 1] if name == "two" else proba
    assert found["error"] == pytest.approx(np.mean(y != said))
    assert found["auc"] == pytest.approx(reference.roc_auc_score(y, score, multi_class="ovr"))
    assert found["macro_f1"] == pytest.approx(reference.f1_score(y, said, average="macro"))
    assert found["threshold"] is None
    assert [its["class"] for its in found["by_class"]] == sorted(set(y))
    printed = run("evaluate", folder / f"{name}.maboost", folder / f"{name}.csv").stdout
    for word in (
        "AUC",
        "Brier score",
        "balanced accuracy",
        "recall",
        "precision",
        "observed share",
    ):
        assert word in printed


def test_a_threshold_changes_the_answers_and_not_the_ranking(folder):
    plain = evaluated(folder, "two.csv")
    found = evaluated(folder, "two.csv", "--threshold", 0.9, "--positive", "benign")
    y, _, proba = answers(folder, "two.csv")
    said = np.where(proba[:, 0] >= 0.9, "benign", "malignant")
    assert found["confusion"] == reference.confusion_matrix(y, said).tolist()
    assert found["confusion"] != plain["confusion"]
    assert found["auc"] == plain["auc"]
    assert found["threshold"] == {"value": 0.9, "class": "benign", "chosen": None}


def test_rows_of_a_file_choose_the_threshold(folder):
    options = ("--metric", "f1", "--threshold-rows", folder / "first.csv")
    found = evaluated(folder, "second.csv", *options)
    y, _, proba = answers(folder, "first.csv")
    chosen = found["threshold"]["value"]
    reached = reference.f1_score(y, np.where(proba[:, 1] >= chosen, "malignant", "benign"), pos_label="malignant")  # fmt: skip
    for level in np.linspace(0.01, 0.99, 99):
        said = np.where(proba[:, 1] >= level, "malignant", "benign")
        assert reached >= reference.f1_score(y, said, pos_label="malignant") - 1e-12
    assert found["rows"] == len(answers(folder, "second.csv")[0])
    assert "first.csv" in found["threshold"]["chosen"]


def test_without_a_file_half_of_the_rows_choose_and_are_not_measured(folder, tmp_path):
    found = evaluated(folder, "two.csv", "--metric", "balanced_accuracy")
    total = len(pd.read_csv(folder / "two.csv"))
    assert 0.4 * total < found["rows"] < 0.6 * total
    assert f"{total - found['rows']} other rows" in found["threshold"]["chosen"]
    shuffled = pd.read_csv(folder / "two.csv").sample(frac=1.0, random_state=0)
    shuffled.to_csv(tmp_path / "two.csv", index=False)
    again = evaluated(folder, tmp_path / "two.csv", "--metric", "balanced_accuracy")
    assert again["confusion"] == found["confusion"]
    said = run("evaluate", folder / "two.maboost", folder / "two.csv", "--metric", "f1").stdout
    assert "the best F1 on" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threshold", 2), "must be a probability between 0 and 1"),
        (("--threshold", 0.5, "--metric", "f1"), "give one of them"),
        (("--threshold-rows", "first.csv"), "--threshold-rows needs --metric"),
        (("--positive", "benign"), "--positive needs --threshold or --metric"),
        (("--threshold", 0.5, "--positive", "nice"), "the classes are benign, malignant"),
        (("--metric", "f1", "--threshold-rows", "two.csv"), "has the rows that are measured"),
    ],
)
def test_options_that_do_not_go_together(folder, options, message):
    refused(message, "evaluate", "two.maboost", "two.csv", *options, cwd=folder)


def test_thresholds_are_for_two_classes(folder):
    refused(
        "the model has 3", "evaluate", "three.maboost", "three.csv", "--metric", "f1", cwd=folder
    )


def test_halves_of_one_class_choose_nothing(folder, tmp_path):
    frame = pd.read_csv(folder / "two.csv")
    few = pd.concat([frame[frame["target"] == "benign"][:9], frame[frame["target"] == "malignant"][:1]])  # fmt: skip
    few.to_csv(tmp_path / "few.csv", index=False)
    refused("give --threshold-rows FILE", "evaluate", folder / "two.maboost", tmp_path / "few.csv", "--metric", "f1")  # fmt: skip
