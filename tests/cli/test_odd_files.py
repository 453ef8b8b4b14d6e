"""Files that are not ready for a model: the message that names all of it, or the model that they give."""

import io
import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.command import refused, run

import maboost

ROWS = 120
LABELS = np.arange(ROWS) % 2
SIZES = LABELS + (np.arange(ROWS) % 7) / 10  # 0.0 to 0.6, or 1.0 to 1.6


def written(path, **columns):
    """A CSV file of these columns."""
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def train(folder, data, *options, **where):
    """A model of a few rounds, and what the command said."""
    out = folder / "model.maboost"
    done = run(
        "train", data, "--rounds", 2, "--valid", 0, "--quiet", "--out", out, *options, **where
    )
    assert done.returncode == 0, done.stderr
    return out, done.stderr


def notes(stderr):
    return [line for line in stderr.splitlines() if line.startswith("maboost: ")]


def features(model):
    return maboost.load_model(model).feature_names_in_.tolist()


def predicted(model, data, *options):
    done = run("predict", model, data, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


def error(model, data, *options):
    done = run("evaluate", model, data, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["error"]


def problems(*arguments):
    """The lines of a refused command."""
    done = run(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    return done.stderr.splitlines()


# -------------------------------------------------------------------------------------------- dates

# 1 on Saturdays and Sundays, and 1 at night: what parts show and seconds hide
HOURS = pd.date_range("2024-01-01", periods=ROWS, freq="5h")
FORMS = {
    "days": HOURS.strftime("%Y-%m-%d"),
    "moments": HOURS.strftime("%Y-%m-%d %H:%M:%S"),
    "with a zone": HOURS.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "times of day": HOURS.strftime("%H:%M:%S"),
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_are_seconds_and_a_line_says_so(tmp_path, form):
    key = FORMS[form] >= FORMS[form][70]
    data = written(tmp_path / "t.csv", x=np.arange(ROWS) % 3, when=FORMS[form], label=key)
    model, said = train(tmp_path, data)
    assert (
        "dates     when; read as seconds, --dates parts for year, month, weekday and hour" in said
    )
    assert error(model, data) == 0.0
    table = pd.read_csv(data)
    table["when"] = np.arange(ROWS)
    numbers = written(tmp_path / "numbers.csv", **table)
    message = "column 'when' holds int64, where it was dates or times in the training"
    refused(message, "predict", model, numbers)
    table["when"] = ["soon"] + [FORMS[form][0]] * (ROWS - 1)
    message = "column 'when' holds 'soon', where it was dates or times in the training"
    refused(message, "predict", model, written(tmp_path / "soon.csv", **table))


@pytest.mark.parametrize("type", [pa.date32(), pa.date64(), pa.timestamp("ns"), pa.duration("s")])
def test_dates_of_parquet(tmp_path, type):
    days = pa.array(range(ROWS), pa.int32()).cast(pa.date32())
    times = days if pa.types.is_date(type) else days.cast(pa.timestamp("s")).cast(pa.int64())
    columns = {"when": times.cast(type), "x": np.arange(ROWS) % 3, "label": np.arange(ROWS) > 60}
    data = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), data)
    model, said = train(tmp_path, data, "--report", tmp_path / "r.html")
    assert "dates     when" in said
    assert error(model, data) == 0.0
    done = run("train", data, "--rounds", 2, "--json")  # a hash of the values holds rows out
    assert json.loads(done.stdout)["certification"]["rows"] > 0


@pytest.mark.parametrize(
    ("form", "label"),
    [
        ("moments", HOURS.day_of_week >= 5),
        ("days", HOURS.day_of_week >= 5),
        ("times of day", HOURS.hour >= 12),
    ],
)
def test_parts_of_dates(tmp_path, form, label):
    columns = {"x": np.arange(ROWS) % 3, "when": FORMS[form], "label": label}
    data = written(tmp_path / "t.csv", **columns)
    model, _ = train(tmp_path, data, "--dates", "parts", "--valid", data)
    parts = {
        "moments": ["year", "month", "weekday", "hour"],
        "days": ["year", "month", "weekday"],
        "times of day": ["hour"],
    }[form]
    assert features(model) == ["x", *(f"when.{part}" for part in parts)]
    assert error(model, data) == 0.0
    assert predicted(model, data) == [str(value).lower() for value in label.tolist()]
    done = run("predict", model, written(tmp_path / "n.csv", x=[1], day=["2024-01-01"]))
    assert done.returncode == 2
    assert "are missing" in done.stderr or "is missing" in done.stderr


def test_parts_of_a_new_file_of_days_have_no_hour(tmp_path):
    label = HOURS.day_of_week >= 5
    data = written(tmp_path / "t.csv", x=LABELS, when=FORMS["moments"], label=label)
    model, _ = train(tmp_path, data, "--dates", "parts")
    new = written(tmp_path / "n.csv", x=[0, 0, 0], when=["2024-06-01", "2024-06-03", None])
    assert predicted(model, new)[:2] == ["true", "false"]


def test_a_part_that_is_there_already(tmp_path):
    columns = {"when": FORMS["days"], "when.year": 3, "label": LABELS}
    message = "column 'when.year' is there besides 'when'"
    refused(message, "train", written(tmp_path / "t.csv", **columns), "--dates", "parts")


# --------------------------------------------------------------------------------------- stray cells


def strayed(path, cells, at):
    """A column of sizes with some other cells."""
    sizes = SIZES.astype(str).astype(object)
    sizes[at] = cells
    return written(path, size=sizes, label=LABELS)


def test_a_stray_cell_is_named_with_its_row(tmp_path):
    data = strayed(tmp_path / "t.csv", "unknown", [45])
    lines = problems("train", data)
    assert lines == [
        f"maboost: {data}: column 'size' holds 'unknown' in row 45 (counted from 0), and 119 numbers: say "
        "--numeric size to read such cells as missing, or --categorical size to read all of them as categories"
    ]
    model, said = train(tmp_path, data, "--numeric", "size")
    assert f"{data}: column 'size': 1 of 120 cells are no numbers and are read as missing" in said
    assert "the first 'unknown' in row 45 (counted from 0)" in said
    assert "numbers   size\n" in said
    message = "holds 'unknown', which is not a number, but was in the training (row 45, counted"
    refused(message, "predict", model, data)
    assert error(model, data, "--numeric", "size") <= 1 / ROWS
    assert len(predicted(model, data, "--numeric", "size")) == ROWS
    _, said = train(tmp_path, data, "--categorical", "size")
    assert "categories size\n" in said


def test_stray_cells_are_missing_values(tmp_path):
    data = strayed(tmp_path / "t.csv", ["unknown", "-", " 1.5 ", "+1e-1"], [1, 4, 6, 8])
    lines = problems("train", data)
    assert "'unknown' in row 1 (counted from 0) and 1 other cells that are no numbers" in lines[-1]
    empty = strayed(tmp_path / "e.csv", ["", "", "1.5", "0.1"], [1, 4, 6, 8])
    models = []
    for source in (data, empty):
        model, _ = train(tmp_path, source, "--numeric", "size")
        models.append(maboost.load_model(model).decision_function(pd.read_csv(empty)[["size"]]))
    np.testing.assert_array_equal(*models)


def test_a_column_of_codes_stays_a_column_of_categories(tmp_path):
    codes = np.array(["12", "7", "A3"])[np.arange(ROWS) % 3]
    data = written(tmp_path / "t.csv", code=codes, size=SIZES, label=LABELS)
    _, said = train(tmp_path, data)
    assert "categories code\n" in said
    assert notes(said) == []


def test_numeric_labels_and_the_decimal_sign(tmp_path):
    data = tmp_path / "t.csv"
    rows = [f"{i},5;{'?' if i == 3 else 'none' if i == 5 else i % 2}\n" for i in range(40)]
    data.write_text("x;label\n" + "".join(rows))
    options = ("--decimal", ",", "--numeric", "label", "--numeric", "x", "--skip-unlabelled")
    model, said = train(tmp_path, data, *options)
    assert "2 of 40 rows have no label in 'label' and are left out" in said
    assert maboost.load_model(model).classes_.tolist() == [0.0, 1.0]
    message = "column 'x' cannot be both --categorical and --numeric"
    refused(message, "train", data, "--numeric", "x", "--categorical", "x")
    refused("there is no column 'size'", "train", data, "--numeric", "size")


# ------------------------------------------------------------------------------- all problems at once


def test_all_problems_are_in_one_message(tmp_path):
    table = pa.table(
        {
            "lists": [[1]] * ROWS,
            "size": [str(i) for i in range(ROWS - 1)] + ["unknown"],
            "price": ["1,250.00"] * ROWS,
            "far": [float("inf")] * ROWS,
            "weight": ["much"] * ROWS,
            "fine": SIZES,
            "label": [None, *(LABELS[1:].tolist())],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    lines = problems("train", tmp_path / "t.parquet", "--weight-column", "weight")
    expected = [
        "the target 'label' is missing in 1 of 120 rows",
        "column 'lists' holds list",
        "column 'size' holds 'unknown' in row 119",
        "column 'price' holds numbers with commas ('1,250.00')",
        "column 'far' is infinite in 120 of 120 rows",
        "--weight-column 'weight' is not a column of numbers",
    ]
    assert len(lines) == len(expected)
    assert all(any(text in line for line in lines) for text in expected)
    assert all(line.startswith("maboost: ") for line in lines)


def test_all_problems_of_a_new_file_are_in_one_message(tmp_path):
    columns = {"a": SIZES, "b": SIZES, "c": SIZES, "d": SIZES, "label": LABELS}
    model, _ = train(tmp_path, written(tmp_path / "t.csv", **columns))
    odd = {"a": ["x"] * ROWS, "b": [np.inf] * ROWS}
    lines = problems("predict", model, written(tmp_path / "n.csv", **odd))
    expected = ["columns 'c', 'd' are missing", "column 'a' holds 'x'", "column 'b' is infinite"]
    assert len(lines) == len(expected)
    for line, text in zip(lines, expected, strict=True):
        assert text in line


# --------------------------------------------------------------------------------------- identifiers


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", np.random.default_rng(0).permutation(10**6)[:ROWS]),
        ("key", [f"k{i * 7919}" for i in range(ROWS)]),
        ("Unnamed: 0", np.arange(ROWS)),
        ("Unnamed: 0", np.arange(ROWS) // 2),
        ("", np.arange(ROWS)),
    ],
    ids=["numbers", "text", "unnamed", "unnamed and repeated", "empty"],
)
def test_identifiers_are_warned_about_and_left_out(tmp_path, name, values):
    data = written(tmp_path / "t.csv", **{name: values}, size=SIZES, label=LABELS)
    model, said = train(tmp_path, data)
    (note,) = notes(said)
    assert note.startswith(f"maboost: column {name!r} looks like an identifier (")
    assert note.endswith("--drop-ids leaves it out")
    assert features(model) == [name, "size"]
    model, said = train(tmp_path, data, "--drop-ids")
    (note,) = notes(said)
    assert note.startswith(f"maboost: column {name!r} is left out: ")
    assert features(model) == ["size"]
    rest = written(tmp_path / "n.csv", size=SIZES, label=LABELS)
    assert error(model, data) == error(model, rest) == 0.0


def test_measurements_are_no_identifiers(tmp_path):
    noise = np.random.default_rng(0).normal(size=ROWS)
    columns = {"noise": noise, "when": HOURS, "age": np.arange(ROWS) % 90}
    data = written(tmp_path / "t.csv", **columns, label=LABELS)
    model, said = train(tmp_path, data, "--drop-ids")
    assert notes(said) == []
    assert features(model) == list(columns)


@pytest.mark.parametrize("option", ["--categorical", "--numeric"])
def test_a_column_that_an_option_names_is_no_identifier(tmp_path, option):
    data = written(tmp_path / "t.csv", id=np.arange(ROWS), size=SIZES, label=LABELS)
    model, _ = train(tmp_path, data, option, "id", "--drop-ids")
    assert features(model) == ["id", "size"]


# ------------------------------------------------------------- standard input, separators, missing labels


class _Input:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_standard_input(tmp_path, monkeypatch, suffix):
    data = written(tmp_path / "t.csv", size=SIZES, id=np.arange(ROWS), label=LABELS)
    if suffix == "parquet":
        data = tmp_path / "t.parquet"
        pd.read_csv(tmp_path / "t.csv").to_parquet(data)

    def given(content):
        monkeypatch.setattr(sys, "stdin", _Input(content))

    given(data.read_bytes())
    model, said = train(tmp_path, "-", "--drop", "id", "--report", tmp_path / "r.html")
    assert "standard input: 120 rows, 1 features" in said
    assert "standard input" in (tmp_path / "r.html").read_text()
    for command in ("predict", "evaluate", "certify"):
        options = ("--keep", "id") if command == "predict" else ("--target", "label")
        expected = run(command, model, data, *options)
        given(data.read_bytes())
        found = run(command, model, "-", *options)
        assert (found.returncode, found.stdout) == (0, expected.stdout), found.stderr
    given(b"")
    refused("standard input: the file is empty", "train", "-")
    given(b"size\n1\n")
    refused("standard input: has no column besides the features", "evaluate", model, "-")
    given("size,é\n1,2\n".encode("latin-1"))
    refused("standard input: is not UTF-8 text", "predict", model, "-")


@pytest.mark.parametrize(
    ("separator", "options"),
    [
        ("|", ()),
        ("|", ("--sep", "|")),
        ("^", ("--sep", "^")),
        ("\t", ("--sep", "tab")),
        (" ", ("--sep", " ")),
    ],
)
def test_separators(tmp_path, separator, options):
    data = tmp_path / "t.csv"
    frame = pd.DataFrame({"size, in m": SIZES, "id": np.arange(ROWS), "label": LABELS})
    if separator == " ":
        frame = frame.rename(columns={"size, in m": "size"})
    frame.to_csv(data, sep=separator, index=False)
    model, _ = train(tmp_path, data, "--drop", "id", *options)
    assert error(model, data, *options) == 0.0
    kept = predicted(model, data, "--keep", "id", *options)
    assert kept == [f"{i},{label}" for i, label in enumerate(LABELS)]


@pytest.mark.parametrize("given", ["", "ab", '"', "é", "\n"])
def test_what_is_no_separator(tmp_path, given):
    data = written(tmp_path / "t.csv", size=SIZES, label=LABELS)
    refused("must be one ASCII character other than a quote, or tab", "train", data, "--sep", given)


def test_rows_without_a_label(tmp_path):
    labels = LABELS.astype(object)
    labels[[3, 8, 11]] = None
    data = written(tmp_path / "t.csv", size=SIZES % 0.3, label=labels)
    message = "the target 'label' is missing in 3 of 120 rows: leave those rows out, or say --skip-"
    refused(message, "train", data)
    told = "rows have no label in 'label' and are left out"
    suspects = tmp_path / "s.csv"
    skip = ("--skip-unlabelled",)
    model, said = train(tmp_path, data, *skip, "--valid", data, "--suspects", suspects)
    assert notes(said)[:2] == [f"maboost: {data}: 3 of 120 {told}"] * 2
    assert "117 rows, 1 features" in " ".join(said.split())
    found = pd.read_csv(suspects)
    assert len(found)
    np.testing.assert_array_equal(found["given_label"], LABELS[found["row"]])
    for command in ("evaluate", "certify"):
        done = run(command, model, data, *skip)
        assert done.returncode == 0, done.stderr
        assert notes(done.stderr) == [f"maboost: {data}: 3 of 120 {told}"]
        assert "117 " in done.stdout
        refused("labels", command, model, data)
    none = written(tmp_path / "n.csv", size=SIZES, label=[None] * ROWS)
    refused("no row has a label in 'label'", "train", none, *skip)


# ------------------------------------------------------------------------------------------- reports


@pytest.mark.parametrize("name", ["x.pdf", "x", "report.txt"])
def test_a_report_is_html(tmp_path, name):
    data = written(tmp_path / "t.csv", size=SIZES, label=LABELS)
    (line,) = problems("train", data, "--report", tmp_path / name)
    assert line == (
        f"maboost: --report {tmp_path / name}: a report is written as HTML only; give a name that ends in .html"
    )
    assert not (tmp_path / name).exists()


# -------------------------------------------------------------------------------------- many classes


def of_classes(path, count, rows):
    classes = np.arange(count * rows) % count
    noise = np.random.default_rng(0).normal(size=len(classes)) / 10
    return written(path, x=classes % 16 + noise, z=classes // 16 + noise, label=classes)


def test_many_classes(tmp_path):
    data = of_classes(tmp_path / "t.csv", 110, 5)
    model, said = train(tmp_path, data, "--smoothness", 4)
    assert "(110 classes)" in said
    assert len(maboost.load_model(model).classes_) == 110
    done = run("evaluate", model, data)
    assert "110 classes: their confusion matrix is in the output of --json" in done.stdout
    assert (
        np.shape(json.loads(run("evaluate", model, data, "--json").stdout)["confusion"])
        == (110,) * 2
    )


def test_many_values_of_few_rows_are_no_classes(tmp_path):
    message = "the target 'label' has 261 different values in 1044 rows: it is not a class"
    refused(message, "train", of_classes(tmp_path / "t.csv", 261, 4))
