"""Tables in files."""

import csv
import os
from pathlib import Path
from time import perf_counter

import pytest

from maboost.data import files
from maboost.data.files import TableError, read_table, write_table


@pytest.mark.parametrize(
    ("head", "row", "names"),
    [
        ("a,b,c", "1,2,3", ["a", "b", "c"]),
        ("a;b;c", "1;2;3", ["a", "b", "c"]),
        ("a\tb\tc", "1\t2\t3", ["a", "b", "c"]),
        ('"x,1,2,3";b;label', "1;2;3", ["x,1,2,3", "b", "label"]),
        ('"x "";;;;""";"b;";label', "1;2;3", ['x ";;;;"', "b;", "label"]),
        ('"a;b;c",d', "1,2", ["a;b;c", "d"]),
        ("alone", "1", ["alone"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_separator_is_found_outside_quotes(tmp_path, head, row, names, end, mark):
    (tmp_path / "t.csv").write_bytes((mark + head + end + row + end).encode())
    table = read_table(tmp_path / "t.csv")
    assert table.column_names == names
    assert table.num_rows == 1


def test_columns_that_are_to_be_text(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n007,1,2\n,3,4\n")
    table = read_table(tmp_path / "t.csv", text=lambda name: name in ("a", "c"))
    assert table.to_pydict() == {"a": ["007", None], "b": [1, 3], "c": ["2", "4"]}


def test_a_column_without_values_is_one_of_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,\n2,NA\n")
    assert str(read_table(tmp_path / "t.csv").schema.field("b").type) == "double"


def test_what_is_read_as_missing_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
    assert [word for word in files.MISSING if word and f"`{word}`" not in page] == []


def test_numbers_in_a_column_that_is_to_be_text(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1.5;1\n2.5;2\n")
    table = read_table(tmp_path / "t.csv", text=lambda name: name == "a")
    assert table.column("a").to_pylist() == ["1.5", "2.5"]


@pytest.mark.parametrize("block", [1 << 26, 200])
def test_cells_and_names_may_go_over_lines(tmp_path, monkeypatch, block):
    monkeypatch.setattr(files, "_BLOCK", block)
    names = ["a", 'over\n"two" lines', "b; c"]
    rows = [[str(i), f"first\nsecond, {i}\n", "007"] for i in range(100)]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    table = read_table(tmp_path / "t.csv", text=lambda name: name != "a")
    assert table.column_names == names
    assert table.column("a").to_pylist() == list(range(100))
    assert table.column(1).to_pylist() == [row[1] for row in rows]
    assert table.column(2).to_pylist() == ["007"] * 100


def test_names_are_compared_in_less_than_the_square_of_their_number():
    names = [f"column {i}" for i in range(100_000)]
    start = perf_counter()
    files._check_names(Path("t.csv"), names)
    assert perf_counter() - start < 10.0


@pytest.mark.parametrize(
    "suffix", ["csv", "parquet", "pq", "csv.gz", "csv.bz2", "csv.lz4", "csv.zst"]
)
def test_what_is_written_can_be_read(tmp_path, suffix):
    columns = {"a, b": [1.5, 2.5, None], "ü": ["x", 'y "z"', "over\nlines"]}
    write_table(columns, tmp_path / f"t.{suffix}")
    assert read_table(tmp_path / f"t.{suffix}").to_pydict() == columns
    assert [path.name for path in tmp_path.iterdir()] == [f"t.{suffix}"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_an_empty_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TableError, match="is a pipe"):
        read_table(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz"])
def test_a_name_that_says_tabs_gets_tabs(tmp_path, name):
    write_table({"a": [1, 2], "b": ["x", "y,z"]}, tmp_path / name)
    assert read_table(tmp_path / name).to_pydict() == {"a": [1, 2], "b": ["x", "y,z"]}
    if name == "t.tsv":
        assert (tmp_path / name).read_text().splitlines()[1] == '1\t"x"'


@pytest.mark.parametrize("name", ["t.xlsx", "t.feather"])
def test_no_csv_under_the_name_of_another_format(tmp_path, name):
    with pytest.raises(TableError, match=r"give a name that ends in \.csv or \.parquet"):
        write_table({"a": [1]}, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.NDJSON"])
def test_lines_of_json_are_no_table(tmp_path, name):
    """The first of them would give the names of columns."""
    (tmp_path / name).write_text('{"a": 1, "y": 0}\n{"a": 2, "y": 1}\n')
    with pytest.raises(TableError, match=r"files are not read; save it as CSV, or as Parquet"):
        read_table(tmp_path / name)


def test_codes_with_commas_are_text(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n"1,2,3",1\n"4,5",2\n')
    assert read_table(tmp_path / "t.csv").column("a").to_pylist() == ["1,2,3", "4,5"]
