"""What the report says is what the model says, and the page is whole, safe and the same every time."""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, confusion_matrix, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.report.page import Page

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    certify,
    load_model,
    write_report,
)
from maboost.estimators import BOOSTERS
from maboost.report.formats import at_most, code, number, percent

X, Y = load_breast_cancer(return_X_y=True)
HALF = np.arange(len(Y)) % 2 == 0
FLIPPED = np.random.default_rng(0).random(len(Y)) < 0.15
NOISY = np.where(FLIPPED, 1 - Y, Y)
SOURCE = np.where(np.arange(len(Y)) % 3 == 0, "trusted", "scraped")
STUMP = HistTreeClassifier(max_depth=1)
LIMITS = {"trusted": None, "scraped": 0.2}
SECTIONS = [
    "Summary",
    "Data",
    "Error by round",
    "Margins",
    "Distribution over the rows",
    "Suspect labels",
    "Feature importance",
    "Certificate of the training error",
    "Parameters and versions",
]
WITH_FRESH = ["Summary", "Error on fresh rows", "Metrics on the test rows", *SECTIONS[1:]]


@pytest.fixture(scope="module")
def smooth():
    model = SmoothBoostClassifier(
        smoothness=5, n_estimators=12, learning_rate=0.3, max_depth=3, random_state=0
    )
    return model.fit(X[HALF], NOISY[HALF])


@pytest.fixture
def page(tmp_path):
    """Writes a report and reads it."""

    def written(model, **kwargs) -> Page:
        return Page(write_report(model, tmp_path / "report.html", **kwargs))

    return written


@pytest.fixture(scope="module")
def full(smooth, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    rows = {"X": X[HALF], "y": NOISY[HALF], "X_test": X[~HALF], "y_test": Y[~HALF]}
    return Page(write_report(smooth, path, **rows, source="a file"))


# --------------------------------------------------------------------------------------- the numbers


def test_summary(full, smooth):
    certificate, suspects = smooth.certificate_, smooth.suspect_labels()
    error = np.mean(smooth.predict(X[~HALF]) != Y[~HALF])
    fresh = certify(smooth, X[~HALF], Y[~HALF])
    assert full.tiles == {
        "Error on fresh rows": fresh.overall.interval,
        "Training error": percent(certificate.measured_error),
        "Labels that look wrong": str(suspects["is_label_issue"].sum()),
    }
    assert fresh.overall.estimate == error
    assert fresh.headline in full.text
    assert "12 rounds was trained on 285 rows with 30 features from a file" in full.text
    assert "to tell 2 classes apart: 0 and 1" in full.text


def test_sections_in_order(full):
    assert full.headings[0] == ("h1", "SmoothBoost on a file")
    assert full.headings[1:] == [("h2", name) for name in WITH_FRESH]


def test_the_certificate_on_fresh_rows_comes_first(page, smooth):
    found = certify(
        smooth, X[~HALF], Y[~HALF], groups=SOURCE[~HALF], limits={"overall": 0.0, "scraped": 0.5}
    )
    shown = page(smooth, certification=found)
    assert shown.headings[2] == ("h2", "Error on fresh rows")
    assert shown.tiles["Error on fresh rows"] == found.overall.interval
    assert next(iter(shown.tiles)) == "Error on fresh rows"
    assert shown.column("fresh-table", "Rows of") == [e.title for e in found.errors]
    assert shown.column("fresh-table", "At most") == [at_most(e.upper) for e in found.errors]
    assert shown.column("fresh-table", "Limit")[0] == "limit 0%: violated"
    assert "Of 2 limits: 1 met, 1 violated." in shown.text
    for note in found.notes:
        assert note in shown.text


def test_a_certification_is_what_certify_returns(page, smooth):
    with pytest.raises(TypeError, match=r"must be the result of maboost\.certify, got float"):
        page(smooth, certification=0.1)


def test_metrics_of_the_test_rows(full, smooth):
    proba = smooth.predict_proba(X[~HALF])[:, 1]
    overall = {row[0]: row[-1] for row in full.tables["metrics-overall"]}
    assert overall["AUC"] == number(roc_auc_score(Y[~HALF], proba))
    assert overall["Brier score"] == number(brier_score_loss(Y[~HALF], proba))
    confusion = confusion_matrix(Y[~HALF], smooth.predict(X[~HALF]))
    shown = [[int(text) for text in row[1:]] for row in full.tables["confusion"][1:]]
    assert shown == confusion.tolist()
    for name in ("chart-roc", "chart-precision-recall", "chart-calibration"):
        assert f'id="{name}"' in full.source


def test_labels_the_model_does_not_know_have_no_metrics(page, smooth):
    y = np.where(np.arange(len(Y)) % 5 == 0, 2, Y)
    shown = page(smooth, X_test=X[~HALF], y_test=y[~HALF])
    assert "not among the model's classes" in shown.text
    assert "confusion" not in shown.tables


def test_history(full, smooth):
    history = smooth.history_
    columns = {
        "Training error": "train_error",
        "Certified error": "error_bound",
        "Edge": "edge",
        "Step": "step",
        "Gain": "gain",
        "Smallest margin": "min_margin",
        "Soft margin": "soft_margin",
        "Certified soft margin": "margin_bound",
    }
    for label, name in columns.items():
        assert full.column("rounds", label) == [number(float(v)) for v in history[name]]
    staged = [np.mean(p != Y[~HALF]) for p in smooth.staged_predict(X[~HALF])]
    assert full.column("rounds", "Test error") == [number(e) for e in staged]
    assert full.column("rounds", "Round") == [str(i) for i in range(1, 13)]
    spread = {"Largest weight": "smoothness", "Effective sample size": "ess"}
    for label, name in spread.items():
        assert full.column("spread", label) == [number(float(v)) for v in history[name]]


def test_margins(full, smooth):
    margins = smooth.margins(X[HALF], NOISY[HALF])
    levels = [float(v) for v in full.column("margins-table", "Margin at or below")]
    shares = [percent(np.mean(margins <= level)) for level in levels]
    assert full.column("margins-table", "12 rounds") == shares
    assert shares[levels.index(0.0)] == percent(smooth.certificate_.measured_error)
    assert "other rows or other weights" not in full.text


def test_suspects(full, smooth):
    table = smooth.suspect_labels()
    shown = full.column("suspect-table", "Row")
    assert len(shown) == 200
    issues = table.index[table["is_label_issue"]]
    assert {str(i) for i in issues} <= set(shown)
    quality = [float(q) for q in full.column("suspect-table", "Quality")]
    assert quality == sorted(quality)
    assert full.column("suspect-table", "Issue").count("issue") == len(issues)
    top = int(np.argmax(smooth.feature_importances_))
    at = int(shown[0])
    assert full.column("suspect-table", f"x{top}")[0] == f"{X[HALF][at, top]:.6g}"
    assert f"200 rows of 285 in this table (all {len(issues)} issues)" in full.text
    assert "model.suspect_labels()" in full.text
    assert sum("data-flag" in attrs for attrs in full.all("tr")) == len(issues)


def test_more_issues_than_room(page, smooth):
    found = int(smooth.suspect_labels()["is_label_issue"].sum())
    assert found > 3
    few = page(smooth, max_suspects=3)
    assert f"3 rows of 285 in this table (3 of {found} issues)" in few.text
    assert few.column("suspect-table", "Issue") == ["issue"] * 3
    none = page(smooth, max_suspects=0)
    assert "suspect-table" not in none.tables
    assert "left out, as asked" in none.text


def test_importances(full, smooth):
    values = np.sort(smooth.feature_importances_)[::-1][:20]
    assert full.column("importances", "Importance") == [percent(v) for v in values]
    assert "20 of 30 features" in full.text


def test_certificate_in_full(full, smooth):
    assert full.pre == str(smooth.certificate_)
    assert f"Certified is at most {at_most(smooth.certificate_.error_bound)}" in full.text


def test_parameters_versions_and_seed(page):
    model = MABoostClassifier(STUMP, n_estimators=3, random_state=7).fit(X, Y)
    found = page(model)
    shown = dict(found.tables["parameters"][1:])
    assert shown == {name: code(value) for name, value in model.get_params().items()}
    assert shown["estimator__max_depth"] == "1"
    assert "The seed is 7" in found.text
    versions = dict(found.tables["versions"][1:])
    assert {"maboost", "numpy", "numba", "scikit-learn", "Python", "machine"} <= set(versions)
    assert versions["numpy"] == np.__version__


def test_parameters_of_the_default_estimator(page):
    model = MABoostClassifier(n_estimators=2).fit(X, Y)
    found = page(model)
    shown = dict(found.tables["parameters"][1:])
    assert shown["estimator"].startswith("None: HistTreeClassifier(")
    assert shown["estimator__max_depth"] == "3"
    assert "No seed was set" in found.text


def test_data(page):
    frame = pd.DataFrame({"size": [1.0, np.nan, 3.0, 4.0] * 20, "kind": ["a", "b", "b", None] * 20})
    y = np.array([0, 1, 1, 1] * 20)
    weight = np.where(y == 0, 3.0, 1.0)
    model = MABoostClassifier(n_estimators=3, random_state=0).fit(frame, y, weight)
    found = page(model, X=frame, y=y, sample_weight=weight)
    assert found.column("classes", "Rows") == ["20", "60"]
    assert found.column("classes", "Share of the weight") == ["50%", "50%"]
    assert "80 rows and 2 features. 40 values (25%) are missing, in 2 features." in found.text
    head, *rows = found.tables["columns"]
    facts = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert facts["size"]["Missing"] == facts["kind"]["Missing"] == "20"
    assert [facts["size"][k] for k in ("Smallest", "Median", "Largest")] == ["1", "3", "4"]
    assert (facts["kind"]["Different values"], facts["kind"]["Most common"]) == ("2", "b")
    assert "kind" in found.tables["suspect-table"][0]


def test_sources(page):
    model = CombinedBoostClassifier(STUMP, error_limits=LIMITS, n_estimators=12, random_state=0)
    model.fit(X, Y, sample_domain=SOURCE)
    found = page(model)
    assert ("h2", "Data sources") in found.headings
    groups = model.certificate_.groups
    assert found.column("sources-table", "Source") == list(groups)
    measured = [percent(g.measured_error) for g in groups.values()]
    assert found.column("sources-table", "Measured error") == measured
    certified = [f"≤ {at_most(g.error_bound)}" for g in groups.values()]
    assert found.column("sources-table", "Certified error") == certified
    for name, errors in model.history_.group_errors.items():
        assert found.column("by-source", name) == [number(e) for e in errors]
    none = page(model[:0])
    assert none.column("sources-table", "Source") == list(groups)
    assert not none.all("figure")


def test_a_source_with_a_largest_weight_has_no_certified_error(page):
    model = CombinedBoostClassifier(
        STUMP, source_mass={sorted(LIMITS)[0]: 0.3}, n_estimators=4, random_state=0
    )
    found = page(model.fit(X, Y, sample_domain=SOURCE))
    assert found.column("sources-table", "Limit")[0] == f"{percent(0.3)} of the weight"
    assert found.column("sources-table", "Certified error")[0] == "none"


def test_a_bound_is_never_rounded_down():
    bounds = np.random.default_rng(0).random(500) ** 4
    written = [float(at_most(b).rstrip("%")) / 100 for b in bounds]
    assert all(w >= b - 1e-12 for w, b in zip(written, bounds, strict=True))


# -------------------------------------------------------------------------------- all kinds of models


@pytest.mark.parametrize("booster", BOOSTERS.values())
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_every_booster(page, booster, load):
    rows, y = load(return_X_y=True)
    model = booster(n_estimators=5, random_state=0).fit(rows, y)
    found = page(model, X=rows, y=y, X_test=rows, y_test=y)
    names = [name for _, name in found.headings[1:] if name != "Data sources"]
    assert names == WITH_FRESH
    assert found.tiles["Training error"] == percent(model.certificate_.measured_error)


def test_many_classes(page):
    rows, y = load_digits(return_X_y=True)
    names = np.array([f"digit {d}" for d in range(10)])
    model = MABoostClassifier(n_estimators=4, random_state=0).fit(rows, names[y])
    found = page(model, X=rows, y=names[y])
    assert "to tell 10 classes apart: digit 0, digit 1, digit 2, digit 3, digit 4 and 5 others" in found.text  # fmt: skip
    assert found.column("classes", "Class") == names.tolist()


def test_foreign_estimator(page):
    scaled = StandardScaler().fit_transform(X)
    model = MABoostClassifier(LogisticRegression(), n_estimators=3, random_state=0).fit(scaled, Y)
    found = page(model, X=scaled, y=Y)
    assert "do not say how much they use each feature" in found.text
    assert "importances" not in found.tables
    assert found.tables["suspect-table"][0][6:] == [f"x{i}" for i in range(20)]


def test_early_stopping(page):
    model = SmoothBoostClassifier(early_stopping=True, n_iter_no_change=3, random_state=0)
    model.fit(X, NOISY)
    assert model.n_iter_ < len(model.history_)
    found = page(model, X=X, y=NOISY)
    error = model.history_["val_error"][model.n_iter_ - 1]
    assert found.tiles["Validation error"] == percent(error)
    assert len(found.column("rounds", "Round")) == len(model.history_)
    assert f"rounds kept: {model.n_iter_}" in found.source
    assert "cross-fitted in 5 parts" in found.text
    assert f"(of {len(Y)}; the others were held out or have no weight)" in found.text
    assert "other rows or other weights" not in found.text


def test_loaded_model(page, smooth, tmp_path):
    smooth.save(tmp_path / "model.maboost")
    loaded = load_model(tmp_path / "model.maboost")
    bare = page(loaded)
    assert "does not remember its training rows" in bare.text
    assert bare.tiles["Labels that look wrong"] == "unknown"
    assert bare.tiles["Training error"] == percent(smooth.certificate_.measured_error)
    assert "suspect-table" not in bare.tables
    with_rows = page(loaded, X=X[HALF], y=NOISY[HALF])
    assert with_rows.tables["margins-table"] == page(smooth, X=X[HALF], y=NOISY[HALF]).tables["margins-table"]  # fmt: skip


def test_a_cut_model(page, smooth):
    found = page(smooth[:4], X=X[HALF], y=NOISY[HALF])
    assert found.column("rounds", "Round") == ["1", "2", "3", "4"]
    assert "does not remember its training rows" in found.text


def test_one_class(page):
    model = SmoothBoostClassifier().fit(X, np.full(len(Y), "only"))
    found = page(model, X=X, y=np.full(len(Y), "only"))
    assert "Every label is only" in found.text
    assert "All labels are the same, so that none looks wrong." in found.text
    assert found.tiles["Training error"] == "0%"
    assert not found.all("figure")


def test_no_rounds(page):
    rows = np.zeros((30, 2))
    y = np.array([0] * 15 + [1] * 15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MABoostClassifier().fit(rows, y)
    assert not len(model.history_)
    assert not model.suspect_labels()["is_label_issue"].any()
    found = page(model, X=rows, y=y, X_test=rows, y_test=y)
    assert "the model always answers 0, the heaviest class" in found.text
    assert found.tiles["Training error"] == "none"
    assert found.tiles["Error on fresh rows"] == certify(model, rows, y).overall.interval
    assert not found.all("figure")


def test_a_stream_has_a_statistical_certificate(page):
    def batches():
        rng = np.random.default_rng(0)
        while True:
            rows = rng.normal(size=(2000, 3))
            yield rows, (rows[:, 0] > 0.0).astype(int)

    model = MadaBoostClassifier(n_estimators=8, random_state=0)
    found = page(model.fit_stream(batches(), sample_size=1000))
    assert model.certificate_.error_bound < 1.0
    assert "the distribution behind the stream" in found.text
    assert found.text.count("with the confidence") >= 2
    for claim in ("training rows the measured", "proved", "assumes nothing about", "at or below"):
        assert claim not in found.text


def test_one_round(page):
    model = MABoostClassifier(n_estimators=1).fit(X, Y)
    assert page(model, X=X, y=Y).column("rounds", "Round") == ["1"]


def test_without_rows(page, smooth):
    found = page(smooth)
    assert "Margins are left out" in found.text
    assert "The values of the rows are left out" in found.text
    assert len(found.tables["suspect-table"][0]) == 6
    assert sum(map(int, found.column("classes", "Rows"))) == 285


def test_other_rows_or_weights_are_noticed(page, smooth):
    weight = np.where(NOISY[HALF] == 1, 5.0, 1.0)
    found = page(smooth, X=X[HALF], y=NOISY[HALF], sample_weight=weight)
    assert "other rows or other weights" in found.text


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "sparse", "list"])
def test_kinds_of_tables(page, kind):
    rows = X[:100, :3].round(1)
    frame = {"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}
    made = {
        "polars": lambda: pl.DataFrame(frame),
        "pyarrow": lambda: pl.DataFrame(frame).to_arrow(),
        "sparse": lambda: sp.csr_array(rows),
        "list": lambda: rows.tolist(),
    }[kind]()
    model = MABoostClassifier(n_estimators=3, random_state=0).fit(made, NOISY[:100])
    found = page(model, X=made, y=NOISY[:100])
    names = found.tables["suspect-table"][0][6:]
    assert set(names) == ({"a", "b", "c"} if kind in ("polars", "pyarrow") else {"x0", "x1", "x2"})
    at, first = int(found.column("suspect-table", "Row")[0]), sorted(names)[0]
    assert found.column("suspect-table", first)[0] == f"{rows[at, 0]:.6g}"


def test_integers_that_floats_do_not_hold(page):
    ids = pa.table({"id": 10**18 + 1000 * np.arange(40)})
    y = np.arange(40) > 20
    with pytest.warns(UserWarning, match="beyond 2\\*\\*53"):
        model = MABoostClassifier(n_estimators=3).fit(ids, y)
    shown = page(model, X=ids, y=y)
    assert "No value is missing" in shown.text


def test_many_rounds_are_thinned(page):
    model = MABoostClassifier(STUMP, n_estimators=620, learning_rate=0.1, random_state=0)
    found = page(model.fit(X[:, :4], NOISY))
    rounds = [int(r.replace(",", "")) for r in found.column("rounds", "Round")]
    assert (rounds[0], rounds[-1], len(rounds)) == (1, 620, 500)
    assert "500 of 620 rounds" in found.source


# ------------------------------------------------------------------------------------------ the page


def test_hostile_values_are_escaped(page):
    evil = "<script>alert('x')</script>"
    frame = pd.DataFrame(
        {f"{evil} name": X[:80, 0], 'quote" onload="x': np.where(Y[:80] == 1, evil, "`a` & b")}
    )
    y = np.where(NOISY[:80] == 1, f"{evil} label", "fine\x01")
    model = CombinedBoostClassifier(
        error_limits={evil: None, "ok": 0.3}, n_estimators=4, random_state=0
    )
    model.fit(frame, y, sample_domain=np.where(HALF[:80], evil, "ok"))
    found = page(model, X=frame, y=y, title=f"{evil} title", source=evil, date="\ud800\x00")
    assert len(found.all("script")) == 1
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert f"{evil} label" in found.column("classes", "Class")
    assert f"{evil} name" in found.tables["suspect-table"][0]
    assert evil in found.column("suspect-table", 'quote" onload="x')
    assert found.headings[0][1] == f"{evil} title"
    assert "\x00" not in found.source


def test_nothing_is_loaded(full):
    urls = [a.get("src") or a.get("href") for _, a in full.tags if "src" in a or "href" in a]
    assert all(url.startswith("#") or url == "data:," for url in urls)
    assert "@import" not in full.source
    assert "url(" not in full.source
    policy = next(a["content"] for a in full.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert not any("action" in attrs for attrs in full.all("form"))


def test_ids_are_unique_and_links_lead_somewhere(full):
    ids = [attrs["id"] for _, attrs in full.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in full.tags:
        for name in ("aria-labelledby", "for", "data-for"):
            assert set(attrs.get(name, "").split()) <= set(ids)
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids


def test_landmarks_and_charts_can_be_heard(full):
    assert full.all("html") == [{"lang": "en"}]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(full.all(landmark)) == 1
    assert full.tags[[t for t, _ in full.tags].index("a")][1]["href"] == "#content"
    drawn = [a for a in full.all("svg") if a.get("role") == "img"]
    assert len(drawn) == len(full.all("figure")) == 7
    assert len(full.all("title")) == len(full.all("desc")) + 1 == 8
    assert len(full.all("caption")) == len(full.all("table"))
    assert all(a.get("scope") in ("row", "col") for a in full.all("th"))


def test_without_script_nothing_is_hidden_but_the_controls(full):
    hidden = [(tag, a) for tag, a in full.tags if "hidden" in a]
    assert [tag for tag, _ in hidden] == ["form"]
    assert not full.all("button")


def test_descriptions_hold_the_numbers(full, smooth):
    history = smooth.history_
    for name in ("train_error", "error_bound"):
        assert f"{number(history[name][-1], 3)} after round 12" in full.source


def test_paths_are_numbers_in_the_box(full):
    for attrs in full.all("path"):
        numbers = [float(v) for v in re.findall(r"-?\d+(?:\.\d+)?", attrs["d"])]
        assert all(-1.0 <= v <= 1001.0 for v in numbers)
        assert "nan" not in attrs["d"]


def test_same_model_same_bytes(tmp_path):
    written = []
    for name in ("a.html", "b.html"):
        model = SmoothBoostClassifier(n_estimators=5, random_state=0, n_jobs=1).fit(X, NOISY)
        path = write_report(model, tmp_path / name, X=X, y=NOISY, X_test=X, y_test=Y)
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_no_address_in_memory(page):
    state = np.random.RandomState(0)
    model = MABoostClassifier(n_estimators=2, random_state=state, scoring=lambda *_: 0.0)
    assert " at 0x" not in page(model.fit(X, Y)).source


def test_title_source_and_date(page, smooth):
    found = page(smooth, title="Quarterly", source="rows.csv", date="1 May")
    assert found.headings[0][1] == "Quarterly"
    assert "SmoothBoostClassifier · 12 rounds · rows.csv · 1 May" in found.text


# ------------------------------------------------------------------------------------------- the file


def test_replaces_and_leaves_nothing_beside(tmp_path, smooth):
    target = tmp_path / "report.html"
    target.write_text("old")
    assert write_report(smooth, str(target)) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_failed_write_leaves_the_old_file(tmp_path, smooth, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("maboost.runtime.atomic_files.os.replace", full_disk)
    with pytest.raises(OSError, match=r"cannot be written to .*report.html: No space left"):
        write_report(smooth, target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_paths_that_cannot_be_written(tmp_path, smooth, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_report(smooth, tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_report(smooth, tmp_path / "missing" / "report.html")
    monkeypatch.setattr("maboost.report.writer.os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="no permission"):
        write_report(smooth, tmp_path / "report.html")


def test_models_that_cannot_be_reported(tmp_path, smooth):
    with pytest.raises(NotFittedError):
        write_report(MABoostClassifier(), tmp_path / "r.html")
    pipeline = make_pipeline(StandardScaler(), MABoostClassifier(n_estimators=2)).fit(X, Y)
    with pytest.raises(TypeError, match=r"pipeline\[-1\]"):
        write_report(pipeline, tmp_path / "r.html")
    with pytest.raises(TypeError, match="LogisticRegression"):
        write_report(LogisticRegression(max_iter=10000).fit(X[:, :2], Y), tmp_path / "r.html")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"X": X[HALF]}, "X and y go together"),
        ({"y": Y[HALF]}, "X and y go together"),
        ({"X": X[HALF], "y": Y}, "y must have one label for each of the 285 rows of X"),
        ({"X": X, "y": Y}, "X has 569 rows, but the model was fitted on 285"),
        ({"X": X[HALF][:, :3], "y": Y[HALF]}, "X has 3 features, but the model was fitted on 30"),
        ({"sample_weight": Y[HALF]}, "sample_weight is given without X and y"),
        (
            {"X": X[HALF], "y": Y[HALF] + 1},
            r"y has 2, which is not among the model's classes \[0, 1\]",
        ),
        ({"X": X[HALF], "y": Y[HALF].astype(str)}, "y has '0', which is not among the model's"),
        ({"X_test": X}, "X_test and y_test go together"),
        ({"X_test": X, "y_test": Y.astype(str)}, "y_test has none of the model's classes"),
        ({"X_test": X, "y_test": Y[:5]}, "y_test must have one label"),
        ({"X_test": X[:2], "y_test": [0, None]}, "y_test has 1 missing labels"),
        ({"X_test": X[:0], "y_test": Y[:0]}, "X_test has no rows"),
        ({"feature_names": ["a"]}, "feature_names has 1 names for 30 features"),
        ({"max_suspects": -1}, "max_suspects must be a whole number of at least 0"),
        ({"max_features": 0}, "max_features must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments(tmp_path, smooth, rows, message):
    with pytest.raises(ValueError, match=message):
        write_report(smooth, tmp_path / "r.html", **rows)
    assert os.listdir(tmp_path) == []


def test_a_missing_extra_is_named(tmp_path, smooth, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[report\]'"):
        write_report(smooth, tmp_path / "r.html")


def test_without_pandas_the_table_of_suspects_is_left_out(tmp_path, smooth, monkeypatch):
    monkeypatch.setattr(type(smooth), "_suspects", lambda *_, **__: {"row": np.arange(3)})
    html = write_report(smooth, tmp_path / "r.html").read_text()
    assert "The table of suspect labels needs pandas" in html


def test_importing_maboost_does_not_import_the_report():
    check = "import sys, maboost; assert not {'jinja2', 'maboost.report', 'matplotlib'} & set(sys.modules); maboost.write_report; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_many_sources(page):
    sources = np.arange(len(Y)) % 8
    limits = {int(s): 0.3 for s in range(8)}
    model = CombinedBoostClassifier(STUMP, error_limits=limits, n_estimators=3, random_state=0)
    found = page(model.fit(X, Y, sample_domain=sources))
    assert len(found.tables["sources-table"]) == 9
    assert "By round the first 6 of 8 are shown." in found.text
