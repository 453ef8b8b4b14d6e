"""Tables as users have them: what the model was trained with is what new files are read with."""

import csv
import gzip
import json
from decimal import Decimal
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.command import refused, run

import maboost
from maboost.cli.column_checks import check_decimal_sign
from maboost.data.files import TableError


def written(path, head, rows):
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def trained(folder, data, *options):
    """The path of a model of a few rounds."""
    out = folder / "model.maboost"
    done = run("train", data, "--rounds", 3, "--quiet", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    return out


def predicted(model, data, *options):
    done = run("predict", model, data, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


def evaluated(model, data, *options):
    done = run("evaluate", model, data, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -------------------------------------------------------------------------------------- decimal commas


@pytest.mark.parametrize("number", ["2,5", "1,250", "1,250,000", "-1,250.50"])
def test_commas_in_numbers_are_named(number):
    column = pa.chunked_array([["999.5", number]])
    message = (
        rf"numbers with commas \('{number}'\): say --decimal , .* leave out those between thousands"
    )
    with pytest.raises(TableError, match=message):
        check_decimal_sign(Path("t.csv"), "a", column, ".")


def test_codes_with_commas_are_no_numbers():
    check_decimal_sign(Path("t.csv"), "a", pa.chunked_array([["1,2,3", "4,5"]]), ".")


def test_decimal_commas_are_read_by_every_command(tmp_path):
    rows = [f"{i},5;{'b' if i > 20 else 'a'}" for i in range(40)]
    data = written(tmp_path / "eu.csv", "x;label", rows)
    model = trained(tmp_path, data, "--decimal", ",", "--valid", data)
    refused("say --decimal ,", "predict", model, data)
    refused("say --decimal ,", "evaluate", model, data)
    labels = [row.split(";")[1] for row in rows]
    assert predicted(model, data, "--decimal", ",") == labels
    assert evaluated(model, data, "--decimal", ",")["error"] == 0.0
    points = written(tmp_path / "us.csv", "x;label", ["1.5;a"])
    message = "column 'x' holds numbers with points ('1.5'): say --decimal ."
    refused(message, "predict", model, points, "--decimal", ",")
    words = written(tmp_path / "words.csv", "x;label", ["1,5;a", "much;a"])
    message = "holds 'much', which is not a number with --decimal ,"
    refused(message, "predict", model, words, "--decimal", ",")


# ---------------------------------------------------------------------------- the types of the training


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """A model whose column `code` and whose labels are text because of one value each."""
    folder = tmp_path_factory.mktemp("codes")
    kinds = [("12", "2"), ("7", "3"), ("A3", "x1")]
    rows = [f"{i % 5},{code},{label}" for i in range(20) for code, label in kinds]
    data = written(folder / "train.csv", "x,code,label", rows)
    few = written(folder / "few.csv", "x,code,label", [r for r in rows if "A3" not in r])
    return trained(folder, data), data, few


def test_a_file_without_the_value_that_made_a_column_text(codes):
    model, _, few = codes
    assert predicted(model, few) == ["2", "3"] * 20


@pytest.mark.parametrize("options", [(), ("--target", "label")], ids=["found", "named"])
def test_a_file_without_the_class_that_made_labels_text(codes, options):
    model, _, few = codes
    found = evaluated(model, few, *options)
    assert (found["target"], found["error"], found["rows"]) == ("label", 0.0, 40)


def test_rows_that_watch_are_read_as_the_training_rows(codes):
    _, data, few = codes
    done = run("train", data, "--rounds", 3, "--valid", few, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["validation_error"] == 0.0


def test_text_where_the_model_has_numbers_is_named(codes, tmp_path):
    model, data, _ = codes
    strange = written(tmp_path / "strange.csv", "x,code,label", ["1,7,2", "high,7,2"])
    message = f"{strange}: column 'x' holds 'high', which is not a number, but was in the training"
    refused(message, "predict", model, strange)
    refused(message, "evaluate", model, strange)
    refused(message, "train", data, "--valid", strange)


def test_dates_where_the_model_has_numbers(codes, tmp_path):
    model, *_ = codes
    dates = written(tmp_path / "dates.csv", "x,code", ["2020-01-01,7"])
    refused("column 'x' holds date32[day], where it was numbers", "predict", model, dates)


def test_numbers_in_parquet_where_the_model_has_text(codes, tmp_path):
    model, *_ = codes
    pd.DataFrame({"x": [1], "code": [7]}).to_parquet(tmp_path / "n.parquet")
    refused(
        "column 'code' holds int64, where it was text", "predict", model, tmp_path / "n.parquet"
    )


@pytest.mark.parametrize("labels", [pa.decimal128(3, 0), pa.decimal128(6, 2), pa.string_view()])
@pytest.mark.parametrize("text", [pa.large_string(), pa.string_view()])
def test_parquet_with_decimals_and_all_kinds_of_text(tmp_path, text, labels):
    code = ["a", "b", None, "c"] * 10
    label = ["1" if value in ("a", None) else "2" for value in code]
    if not pa.types.is_string_view(labels):
        label = list(map(Decimal, label))
    data = tmp_path / "t.parquet"
    columns = {"code": pa.array(code, text), "label": pa.array(label, labels)}
    pq.write_table(pa.table(columns), data)
    model = trained(tmp_path, data)
    assert evaluated(model, data)["error"] == 0.0
    assert list(map(float, predicted(model, data))) == list(map(float, label))


def test_a_column_of_the_training_may_be_empty_now(codes, tmp_path):
    model, *_ = codes
    for cells in ("1,", ",7", ","):
        assert len(predicted(model, written(tmp_path / "e.csv", "x,code", [cells] * 3))) == 3


def test_yes_and_no(tmp_path):
    rows = [f"{i % 2 == 0},{i % 3},{i % 2}" for i in range(30)]
    data = written(tmp_path / "yes.csv", "flag,x,label", rows)
    model = trained(tmp_path, data)
    assert evaluated(model, data)["error"] == 0.0
    digits = written(tmp_path / "digits.csv", "flag,x", ["1,0", "0,0"])
    assert predicted(model, digits) == ["0", "1"]


def test_text_among_labels_that_are_numbers(tmp_path):
    data = written(tmp_path / "n.csv", "x,label", [f"{i},{i % 2}" for i in range(20)])
    model = trained(tmp_path, data)
    strange = written(tmp_path / "s.csv", "x,label", ["1,0", "2,1", "3,maybe"])
    message = "'label' has labels that were not in the training: maybe"
    lines = refused(message, "evaluate", model, strange, "--target", "label")
    assert lines[-1].endswith(": maybe")
    lines = refused(message, "train", data, "--valid", strange)
    assert lines[-1].endswith(": maybe")


@pytest.mark.parametrize("classes", [("0", "1"), ("no", "yes")], ids=str)
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("", "{0}", "{1}", ""), "the labels in 'y' are missing in 2 of 4 rows"),
        (("", "", "", ""), "the labels in 'y' are missing in 4 of 4 rows"),
        (("{0}", "{1}", "2", "{0}"), "'y' has labels that were not in the training: 2"),
        (("{0}", "{1}", "maybe", "{0}"), "'y' has labels that were not in the training: maybe"),
        (("0.5", "7", "3.25", "9"), "'y', holds none of the model's classes {0}, {1}; add the"),
        (("a", "b", "", "d"), "'y', holds none of the model's classes {0}, {1}; add the labels"),
        (("2020-01-31",) * 4, "'y', holds none of the model's classes {0}, {1}; add the labels"),
    ],
    ids=str,
)
def test_what_is_wrong_with_the_only_column_of_labels_is_told(tmp_path, classes, cells, message):
    data = written(tmp_path / "n.csv", "x,y", [f"{i},{classes[i % 2]}" for i in range(20)])
    model = trained(tmp_path, data)
    rows = [f"{i},{cell.format(*classes)}" for i, cell in enumerate(cells)]
    bad = written(tmp_path / "bad.csv", "x,y", rows)
    lines = refused(message.format(*classes), "evaluate", model, bad)
    if "labels that were" in message or "missing" in message:
        assert lines == refused("", "evaluate", model, bad, "--target", "y")


def test_several_columns_beside_the_features_are_asked_about(tmp_path):
    data = written(tmp_path / "n.csv", "x,y", [f"{i},{i % 2}" for i in range(20)])
    more = written(tmp_path / "more.csv", "x,y,z", ["1,0,1", "2,1,0"])
    message = "several of the other columns (y, z) holds the model's classes 0, 1: say which by"
    refused(message, "evaluate", trained(tmp_path, data), more)


def test_sources_are_names_whatever_they_look_like(tmp_path):
    rows = [f"{i},0{i % 2 + 1},{i % 3 == 0}" for i in range(30)]
    data = written(tmp_path / "s.csv", "x,source,label", rows)
    limits = ("--domain-limit", "01=0.3", "--domain-limit", "02=none")
    done = run("train", data, "--rounds", 2, "--domain-column", "source", *limits, "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["domains"]) == {"01", "02"}


# ------------------------------------------------------------------------- numbers that are categories


def coded(folder, codes):
    """Rows whose label a code tells, one time in each, and which has no order that would tell it."""
    rows = [f"{i},{code},{'ab'[j % 2]}" for i in range(9) for j, code in enumerate(codes)]
    return written(folder / "codes.csv", "x,code,label", rows)


def test_codes_are_categories_with_their_zeros(tmp_path):
    data = coded(tmp_path, ["01", "1", "001", "0001"])
    assert evaluated(trained(tmp_path, data), data)["error"] == 0.5
    model = trained(tmp_path, data, "--categorical", "code", "--valid", data)
    assert evaluated(model, data)["error"] == 0.0
    new = written(tmp_path / "new.csv", "x,code", ["1,01", "1,1", "1,001"])
    assert predicted(model, new) == ["a", "b", "a"]
    pd.DataFrame({"x": [1], "code": [1]}).to_parquet(tmp_path / "n.parquet")
    message = "column 'code' holds int64, where it was text in the training"
    refused(message, "predict", model, tmp_path / "n.parquet")


def test_categories_are_shown_as_such(tmp_path):
    data = coded(tmp_path, ["1", "2"])
    assert "numbers   x, code\n" in run("train", data, "--rounds", 2, "--quiet").stderr
    done = run("train", data, "--rounds", 2, "--quiet", "--categorical", "code")
    assert "numbers   x\ncategories code\n" in done.stderr


@pytest.mark.parametrize(
    "type",
    [pa.int8(), pa.float64(), pa.float16(), pa.decimal128(21, 2), pa.string_view(), pa.string()],
    ids=str,
)
def test_categories_are_the_same_in_csv_and_parquet(tmp_path, type):
    data = coded(tmp_path, ["4", "7", "-2", "11", ""])
    frame = pd.read_csv(data, dtype={"code": "Int64"})
    code = pa.array(frame["code"]).cast(pa.string() if "string" in str(type) else type).cast(type)
    pq.write_table(
        pa.table({"x": frame["x"], "code": code, "label": frame["label"]}),
        tmp_path / "codes.parquet",
    )
    models = []
    for name in ("codes.csv", "codes.parquet"):
        model = trained(tmp_path, tmp_path / name, "--categorical", "code")
        for other in ("codes.csv", "codes.parquet"):
            assert evaluated(model, tmp_path / other)["error"] == 0.0
            valid = ("--categorical", "code", "--valid", tmp_path / other, "--rounds", 3, "--json")
            done = run("train", tmp_path / name, *valid)
            assert json.loads(done.stdout)["validation_error"] == 0.0, done.stderr
        models.append(maboost.load_model(model)._codes.categories)
    assert models[0] == models[1] == {"code": ["-2", "11", "4", "7"]}


def test_a_categorical_column_has_no_other_use(tmp_path):
    data = coded(tmp_path, ["1", "2"])
    train = ("train", data, "--categorical", "code")
    refused("there is no column 'Code'; there are x, code", *train, "--categorical", "Code")
    refused("cannot be both --target and --categorical", *train, "--target", "code")
    for option in ("--drop", "--weight-column"):
        message = f"column 'code' cannot be both --categorical and {option}"
        refused(message, *train, option, "code")
    limits = ("--domain-limit", "1=0.2", "--domain-limit", "2=none")
    message = "column 'code' cannot be both --categorical and --domain-column"
    refused(message, *train, "--domain-column", "code", *limits)


def test_categories_are_not_taken_for_the_target(tmp_path):
    data = written(tmp_path / "t.csv", "x,y,class", [f"{i},{i % 3},{i % 2}" for i in range(12)])
    done = run("train", data, "--rounds", 2, "--categorical", "class", "--json")
    assert json.loads(done.stdout)["target"] == "y"


@pytest.mark.parametrize("prefix", ["", "k"], ids=["numbers", "text"])
def test_rare_categories_share_a_bin_with_a_notice(tmp_path, prefix):
    codes = [f"{prefix}{i}" for i in (*range(100, 400), *range(100, 350))]
    rows = [f"{code},{int(code[-3:]) % 2}" for code in codes]
    data, out = written(tmp_path / "t.csv", "id,y", rows), tmp_path / "model.maboost"
    options = ("--valid", 0, *(() if prefix else ("--categorical", "id")))
    done = run("train", data, "--rounds", 3, "--quiet", "--out", out, *options)
    assert done.returncode == 0
    (notice,) = [line for line in done.stderr.splitlines() if line.startswith("maboost: ")]
    assert "more categories than 255: column 'id' has 300 categories, of which the 46" in notice
    assert "('maboost inspect' lists them)" in notice
    assert "--drop a column that identifies rows" in notice
    found = json.loads(run("inspect", out, "--json").stdout)
    # the first four of those that occur once have a bin too
    assert found["rare_categories"] == {"id": [f"{prefix}{i}" for i in range(354, 400)]}
    assert "rare categories of 'id' that share a bin: " in run("inspect", out).stdout
    assert "46 in all" in run("inspect", out).stdout
    assert len(predicted(out, data)) == len(rows)


CODES = ["4", "7", "-2", "11", ""]


@pytest.mark.parametrize(
    ("codes", "decimal"),
    [
        (["4.0", "7.0", "-2.0", "11.0", ""], "."),
        ([" 4", "7 ", " -2.00 ", "11.000", ""], "."),
        (['"4,0"', '"7,00"', '"-2"', '" 11,0"', ""], ","),
    ],
    ids=["by pandas", "with spaces", "with commas"],
)
def test_whole_numbers_written_with_decimals_are_the_same_categories(tmp_path, codes, decimal):
    for name in ("plain", "other"):
        (tmp_path / name).mkdir()
    plain, other = coded(tmp_path / "plain", CODES), coded(tmp_path / "other", codes)
    sign = ("--decimal", decimal)
    for data in (plain, other):
        model = trained(tmp_path, data, "--categorical", "code", "--valid", other, *sign)
        assert maboost.load_model(model)._codes.categories == {"code": ["-2", "11", "4", "7"]}
        for new in (plain, other):
            assert evaluated(model, new, *sign)["error"] == 0.0


def test_decimals_stay_where_some_codes_are_no_numbers(tmp_path):
    codes = ["1.0", "1", "1.10", "1.1", "01.0"]
    data = coded(tmp_path, codes)
    model = trained(tmp_path, data, "--categorical", "code")
    assert maboost.load_model(model)._codes.categories == {"code": sorted(codes)}


def test_a_code_with_zeros_is_none_of_the_numbers_of_the_training(tmp_path):
    model = trained(tmp_path, coded(tmp_path, ["7", "8"]), "--categorical", "code")
    given = written(tmp_path / "new.csv", "x,code", ["1,007", "1,007.0", "1,new"])
    first, *others = predicted(model, given, "--proba")
    assert others == [first, first]


def in_parquet(path, type, codes):
    """Rows like those of `coded`, with codes of an Arrow type."""
    rows = [(i, code, "ab"[j % 2]) for i in range(9) for j, code in enumerate(codes)]
    x, code, label = zip(*rows, strict=True)
    pq.write_table(pa.table({"x": x, "code": pa.array(code, type), "label": label}), path)
    return path


@pytest.mark.parametrize("type", [pa.float64(), pa.float32()], ids=str)
def test_floats_of_any_size_are_categories(tmp_path, type):
    codes = [1e-5, 1e20, 0.1, 1.5e-7, 2.0**40, 3.5]
    data = in_parquet(tmp_path / "codes.parquet", type, codes)
    model = trained(tmp_path, data, "--categorical", "code", "--valid", data)
    found = ["0.1", "1.5e-07", "1099511627776", "1e+20", "1e-05", "3.5"]
    assert maboost.load_model(model)._codes.categories == {"code": found}
    assert evaluated(model, data)["error"] == 0.0
    if type == pa.float64():
        pd.read_parquet(data).to_csv(tmp_path / "codes.csv", index=False)
        assert evaluated(model, tmp_path / "codes.csv")["error"] == 0.0


def test_a_whole_number_is_the_same_category_beside_fractions(tmp_path):
    model = trained(
        tmp_path, in_parquet(tmp_path / "t.parquet", None, [1e10, 0.5]), "--categorical", "code"
    )
    assert predicted(model, in_parquet(tmp_path / "n.parquet", None, [10**10])) == ["a"] * 9


@pytest.mark.parametrize("type", [pa.decimal128(38, 2), pa.decimal256(50, 12)], ids=str)
def test_large_decimals_are_categories_by_all_their_digits(tmp_path, type):
    codes = ["7.00", "7.50", "700", "-0.01", "0", "12345678901234567890", "12345678901234567891"]
    data = in_parquet(tmp_path / "codes.parquet", type, list(map(Decimal, codes)))
    model = trained(tmp_path, data, "--categorical", "code")
    found = sorted(["7", "7.5", *codes[2:]])
    assert maboost.load_model(model)._codes.categories == {"code": found}
    assert evaluated(model, data)["error"] == 0.0


def test_decimals_without_a_point_keep_their_zeros(tmp_path):
    codes = [Decimal(700), Decimal(7), Decimal(70)]
    data = in_parquet(tmp_path / "codes.parquet", pa.decimal128(10, 0), codes)
    model = trained(tmp_path, data, "--categorical", "code")
    assert maboost.load_model(model)._codes.categories == {"code": ["7", "70", "700"]}


def test_infinite_numbers_are_no_category(tmp_path):
    good = in_parquet(tmp_path / "good.parquet", None, [1.0, 2.0])
    bad = in_parquet(tmp_path / "bad.parquet", None, [1.0, np.inf])
    message = f"{bad}: column 'code' is infinite in 9 of 18 rows"
    train = ("train", good, "--categorical", "code")
    refused(message, "train", bad, "--categorical", "code")
    refused(message, *train, "--valid", bad)
    refused(message, "predict", trained(tmp_path, good, "--categorical", "code"), bad)


def test_a_configuration_file_names_categories(tmp_path):
    data = coded(tmp_path, ["01", "1"])
    (tmp_path / "c.toml").write_text('categorical = ["code"]\n')
    assert evaluated(trained(tmp_path, data, "--config", tmp_path / "c.toml"), data)["error"] == 0.0


# ------------------------------------------------------------------------------------- missing values


@pytest.mark.parametrize("command", ["evaluate", "train"])
def test_missing_labels_in_a_second_file(codes, tmp_path, command):
    model, data, _ = codes
    missing = written(tmp_path / "m.csv", "x,code,label", ["1,7,2", "2,7,"])
    words = {
        "evaluate": ("evaluate", model, missing, "--target", "label"),
        "train": ("train", data, "--valid", missing),
    }[command]
    refused(f"{missing}: the labels in 'label' are missing in 1 of 2 rows", *words)


def test_a_missing_source(tmp_path):
    data = written(tmp_path / "s.csv", "x,source,label", ["1,a,0", "2,,1", "3,b,0", "4,b,1"])
    refused(
        "--domain-column 'source' is missing in 1 of 4 rows",
        "train", data, "--domain-column", "source",
    )  # fmt: skip


def test_a_column_without_any_value_is_missing_values(tmp_path):
    rows = [f"{i},,{i % 2}" for i in range(20)]
    data = written(tmp_path / "e.csv", "x,notes,label", rows)
    done = run("train", data, "--rounds", 2, "--report", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    assert "no values notes" in done.stderr
    assert len(predicted(trained(tmp_path, data), data)) == 20


def test_dates_are_no_classes(tmp_path):
    rows = [f"{i},2020-01-{i + 1:02},{i % 2}" for i in range(20)]
    data = written(tmp_path / "d.csv", "x,when,label", rows)
    refused("the target 'when' holds date32[day]", "train", data, "--target", "when")


# ------------------------------------------------------------------------------------------- bad files


@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e999"])
def test_infinite_numbers_are_named(codes, tmp_path, value):
    data = written(tmp_path / "t.csv", "x,code,label", ["1,7,2", f"{value},7,3", ",12,2"])
    message = "t.csv: column 'x' is infinite in 1 of 3 rows"
    refused(message, "train", data)
    refused(message, "predict", codes[0], data)
    refused(message, "train", codes[1], "--valid", data)


def test_a_column_without_a_name_is_seen_and_can_be_dropped(tmp_path):
    data = written(tmp_path / "t.csv", ",x,label", [f"{i},{i % 7},{i % 2}" for i in range(40)])
    done = run("train", data, "--rounds", 2, "--quiet")
    assert "numbers   '', x" in done.stderr
    done = run("train", data, "--rounds", 2, "--quiet", "--drop", "")
    assert "numbers   x\n" in done.stderr


def test_two_columns_of_a_name(codes, tmp_path):
    model, *_ = codes
    data = written(tmp_path / "dup.csv", "a,a,label", ["1,2,x", "3,4,y"])
    refused("several columns are called 'a': the first line must give each", "train", data)
    refused("several columns are called 'a'", "predict", model, data)


@pytest.mark.parametrize("text", ["a,label\n1,é\n2,b\n", "é,label\n1,a\n2,b\n"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_that_is_not_utf8(codes, tmp_path, text, encoding):
    (tmp_path / "other.csv").write_bytes(text.encode(encoding))
    name = {"latin-1": "LATIN1", "utf-16": "UTF-16"}[encoding]
    message = (
        "other.csv: is not UTF-8 text; save it as UTF-8 ('CSV UTF-8' in a spreadsheet, or "
        f"iconv -f {name} -t UTF-8)"
    )
    refused(message, "train", tmp_path / "other.csv")
    refused(message, "predict", codes[0], tmp_path / "other.csv")


def test_text_columns_that_are_not_utf8(codes, tmp_path):
    (tmp_path / "other.csv").write_bytes("x,code,label\n1,é,2\n".encode("latin-1"))
    refused("other.csv: is not UTF-8 text", "predict", codes[0], tmp_path / "other.csv")


@pytest.mark.parametrize("suffix", ["feather", "xlsx", "data"])
def test_a_file_that_is_no_text(codes, tmp_path, suffix):
    data = tmp_path / f"rows.{suffix}"
    frame = pd.read_csv(codes[1])
    write = {"feather": frame.to_feather, "xlsx": np.savez, "data": frame.to_parquet}[suffix]
    with data.open("wb") as file:
        write(file)
    why = (
        "is no text, and so no CSV file:" if suffix == "data" else f".{suffix} files are not read;"
    )
    message = f"{data}: {why} save it as CSV, or as Parquet"
    refused(message, "train", data)
    refused(message, "predict", codes[0], data)


def test_a_separator_that_is_not_known(tmp_path):
    data = written(tmp_path / "t.csv", "x^label", ["1^a", "2^b"])
    message = (
        "no column is left to learn from: the columns are x^label, and the target is 'x^label'. "
    )
    refused(message + "If the cells are not separated by commas, semicolons, tabs", "train", data)


def test_names_with_spaces_at_their_ends_are_quoted(tmp_path):
    data = written(tmp_path / "t.csv", "x, label", ["1,a", "2,b"])
    refused("there are x, ' label'", "train", data, "--target", "label")


def test_columns_of_no_use_beside_the_labels(tmp_path):
    columns = {"x": range(20), "label": ["a", "b"] * 10, "list": [[1, 2]] * 20}
    pd.DataFrame(columns).to_parquet(tmp_path / "t.parquet")
    model = trained(tmp_path, tmp_path / "t.parquet", "--drop", "list")
    assert evaluated(model, tmp_path / "t.parquet")["target"] == "label"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["1", ""], "--weight-column 'w' is missing in 10 of 20 rows: give them a weight"),
        (["0", "0"], "--weight-column is 0 in all rows: give some of them a positive weight"),
    ],
    ids=["missing", "zero"],
)
def test_weights_that_are_none(tmp_path, weights, message):
    rows = [f"{i},{weights[i % 2]},{i % 2}" for i in range(20)]
    data = written(tmp_path / "t.csv", "x,w,label", rows)
    refused(message, "train", data, "--weight-column", "w")


# ------------------------------------------------------------------------------------------- the target


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ((), "label"),
        (("--drop", "label"), "Outcome"),
        (("--weight-column", "label"), "Outcome"),
        (("--drop", "label", "--drop", "Outcome"), "y2"),
        (
            ("--domain-column", "label", "--domain-limit", "1=0.2", "--domain-limit", "2=none"),
            "Outcome",
        ),
    ],
)
def test_a_column_with_another_use_is_not_taken_for_the_target(tmp_path, options, target):
    rows = [f"{i},{1 + i % 2},{i > 9},{i < 15}" for i in range(20)]
    data = written(tmp_path / "t.csv", "x,label,Outcome,y2", rows)
    done = run("train", data, "--rounds", 2, "--json", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == target


def test_a_target_without_values(tmp_path):
    data = written(tmp_path / "t.csv", "x,z,", [f"{i},{i % 2}," for i in range(20)])
    refused("the target '' has no values: choose another by --target", "train", data)


def test_a_target_of_fractions(tmp_path):
    data = written(tmp_path / "t.csv", "x,label", [f"{i},{i / 8}" for i in range(20)])
    refused("the target 'label' holds 0.125, which is not a class. This is", "train", data)


def test_a_target_is_neither_dropped_nor_a_weight(tmp_path):
    data = written(tmp_path / "t.csv", "x,label", [f"{i},{i % 2}" for i in range(20)])
    for option in ("--drop", "--weight-column"):
        refused(
            f"column 'label' cannot be both --target and {option}",
            "train", data, "--target", "label", option, "label",
        )  # fmt: skip
    refused("no column is left to predict", "train", data, "--drop", "x", "--drop", "label")


# ------------------------------------------------------------------------------------- what is written


def test_class_names_with_commas_are_quoted_everywhere(tmp_path):
    names = ["big, red", 'the "other"']
    data = tmp_path / "q.csv"
    pd.DataFrame({"x": range(20), "label": np.repeat(names, 10)}).to_csv(data, index=False)
    done = run("predict", trained(tmp_path, data), data, "--proba")
    head, *rows = csv.reader(done.stdout.splitlines())
    assert head == ["prediction", *(f"probability_{name}" for name in names)]
    assert {len(row) for row in rows} == {3}


AS_TEXT = {"dtype": str, "keep_default_na": False}


@pytest.fixture
def identified(tmp_path):
    """A model, and rows of it with an id and other columns that the training had not."""
    rows = [f"{i / 2:.2f},{'b' if i > 9 else 'a'}" for i in range(20)]
    model = trained(tmp_path, written(tmp_path / "t.csv", "x,label", rows))
    cells = ["007,1.50,NA,2020-01-31", '010,8.0,"a, ""b""",', ',9.00,"1,250.00",2020-02-01']
    return model, written(tmp_path / "new.csv", "id,x,note,day", cells)


def test_kept_columns_stand_before_the_predictions_as_they_are_in_the_file(identified, tmp_path):
    model, new = identified
    keep = ("--keep", "note", "--keep", "id", "--keep", "x", "--keep", "id", "--keep", "day")
    given = pd.read_csv(new, **AS_TEXT)
    for more in ((), ("--proba",)):
        shown = run("predict", model, new, *keep, *more)
        assert shown.returncode == 0, shown.stderr
        assert run("predict", model, new, *keep, *more, "--out", tmp_path / "p.csv").stdout == ""
        for source in (StringIO(shown.stdout), tmp_path / "p.csv"):
            found = pd.read_csv(source, **AS_TEXT)
            assert found.columns.tolist()[:5] == ["note", "id", "x", "day", "prediction"]
            pd.testing.assert_frame_equal(found[given.columns], given)
            assert found["prediction"].tolist() == ["a", "b", "b"]


def test_kept_columns_of_csv_are_text_in_parquet(identified, tmp_path):
    model, new = identified
    out = tmp_path / "p.parquet"
    assert run("predict", model, new, "--keep", "id", "--keep", "x", "--out", out).returncode == 0
    found = pq.read_table(out)
    assert found.column("id").to_pylist() == ["007", "010", None]
    assert found.column("x").to_pylist() == ["1.50", "8.0", "9.00"]


def test_kept_columns_of_parquet_have_their_types(identified, tmp_path):
    model, _ = identified
    columns = {
        "x": pa.array([1.0, 2.0]),
        "id": pa.array([7, None], pa.int32()),
        "name": pa.array(["NA", "b"], pa.string_view()),
        "when": pa.array([0, 1], pa.date32()),
        "list": pa.array([[1], [2, 3]]),
    }
    data = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), data)
    keep = [word for name in columns for word in ("--keep", name)]
    assert run("predict", model, data, *keep, "--out", tmp_path / "p.parquet").returncode == 0
    found = pq.read_table(tmp_path / "p.parquet").select(list(columns))
    assert found.equals(pq.read_table(data))
    for out in ((), ("--out", tmp_path / "p.csv")):
        message = "which cannot be written as text: give a file by --out that ends in .parquet"
        refused(message, "predict", model, data, *keep, *out)
        assert run("predict", model, data, *keep[:-2], *out).returncode == 0
    cells = (tmp_path / "p.csv").read_text().splitlines()
    assert cells[1] == '1,7,"NA",1970-01-01,"a"'
    assert cells[2].startswith('2,,"b"')


def test_columns_that_cannot_be_kept_are_named(identified, tmp_path):
    model, new = identified
    message = "there is no column 'ID'; there are id, x, note, day"
    refused(message, "predict", model, new, "--keep", "ID")
    taken = written(tmp_path / "taken.csv", "x,prediction,probability_a", ["1,a,0.5"])
    keep = ("--keep", "probability_a")
    assert run("predict", model, taken, *keep).returncode == 0
    message = "--keep 'probability_a' is the name of a column of the predictions"
    refused(message, "predict", model, taken, *keep, "--proba")
    message = "--keep 'prediction' is the name of a column of the predictions"
    refused(message, "predict", model, taken, "--keep", "prediction")


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path):
    rows = [f"{i},[/s],:a:" if i % 3 else f"{i},t,[/b]" for i in range(60)]
    data = written(tmp_path / "rows[red].csv", "x,source,label", rows)
    out = tmp_path / "m[red].maboost"
    limits = ("--domain-limit", "[/s]=0.2", "--domain-limit", "t=none")
    done = run("train", data, "--rounds", 2, "--domain-column", "source", *limits, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "rows[red].csv" in done.stderr.replace("\n", "")
    assert "source [/s]" in done.stdout
    assert str(out) in done.stdout
    shown = run("evaluate", out, data).stdout.splitlines()
    assert shown[1].split() == ["true", "\\", "predicted", ":a:", "[/b]"]


def test_a_long_path_is_shown_whole(tmp_path):
    data = written(tmp_path / "t.csv", "x,label", [f"{i},{i % 2}" for i in range(20)])
    out = tmp_path / ("long" * 30)
    assert str(out) in run("train", data, "--rounds", 2, "--quiet", "--out", out).stdout


def test_the_confusion_of_many_classes_is_shown_whole(tmp_path):
    data = written(tmp_path / "t.csv", "x,label", [f"{i % 60},k{i % 60}" for i in range(300)])
    _, head, *rows = run("evaluate", trained(tmp_path, data), data).stdout.splitlines()
    assert set(head.split()[3:]) == {f"k{i}" for i in range(60)}
    assert {len(row.split()) for row in rows[:60]} == {61}


# ------------------------------------------------------------------------------------ compressed files


def test_compressed_files(codes, tmp_path):
    model, data, few = codes
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(few.read_bytes()))
    assert predicted(model, packed) == predicted(model, few)
    packed.write_bytes(gzip.compress(data.read_bytes()))
    again = maboost.load_model(trained(tmp_path, packed))
    assert again.classes_.tolist() == ["2", "3", "x1"]
    packed.write_bytes(b"x,code\n1,2\n")
    refused("rows.csv.gz: cannot be read as a table", "predict", model, packed)


def test_the_index_of_a_data_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"x": np.arange(40.0), "kind": ["a", "b"] * 20})
    frame.sample(frac=1.0, random_state=0).to_parquet(tmp_path / "shuffled.parquet")
    model = maboost.load_model(trained(tmp_path, tmp_path / "shuffled.parquet"))
    assert model.classes_.tolist() == ["a", "b"]
    assert model.feature_names_in_.tolist() == ["x"]
    frame.set_index("kind").to_parquet(tmp_path / "named.parquet")
    named = trained(tmp_path, tmp_path / "named.parquet", "--target", "kind")
    assert evaluated(named, tmp_path / "named.parquet")["target"] == "kind"
