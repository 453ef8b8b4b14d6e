"""Files that have a column in several types: read as one type that holds them all, or refused."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from tests.helpers import examples

from maboost import CombinedBoostClassifier, MABoostClassifier
from maboost.data import OnDisk
from maboost.data.files import TableError

MODEL = MABoostClassifier(n_estimators=4, random_state=0)
WHOLE = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float32(), pa.float64(),
]  # fmt: skip
TEXT = [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    age, height = rng.integers(0, 100, n), rng.normal(size=n).astype(np.float32)
    colour = rng.choice(["red", "green", "blue"], n)
    label = age / 50 + height + (colour == "red") + rng.normal(size=n) > 1
    return pa.table(
        {
            "age": age,
            "height": height,
            "colour": colour,
            "label": label.astype(np.int64),
            "weight": rng.integers(1, 4, n),
            "source": rng.choice(["x", "z"], n),
        }
    )


def parts(types, rows=None):
    """A table in as many parts as there are types, by column; None is a type without values."""
    rows = table() if rows is None else rows
    count = len(next(iter(types.values())))
    cuts = np.linspace(0, len(rows), count + 1).astype(int)
    found = []
    for i, (a, b) in enumerate(itertools.pairwise(cuts)):
        part = rows.slice(a, b - a)
        for name, its in types.items():
            at = part.column_names.index(name)
            cast = pa.nulls(b - a) if its[i] is None else part.column(name).cast(its[i])
            part = part.set_column(at, name, cast)
        found.append(part)
    return found


def write(found, folder):
    folder.mkdir()
    for i, part in enumerate(found):
        pq.write_table(part, folder / f"part-{i}.parquet", row_group_size=40)
    return folder


def together(found):
    """What pyarrow makes of parts with numbers of several types."""
    return pa.concat_tables(found, promote_options="permissive")


def assert_same(disk, memory, X):
    np.testing.assert_array_equal(disk.classes_, memory.classes_)
    np.testing.assert_array_equal(disk.decision_function(X), memory.decision_function(X))
    np.testing.assert_array_equal(disk.distribution_, memory.distribution_)
    assert disk.certificate_ == memory.certificate_


@examples(30)
@given(data=st.data(), gaps=st.lists(st.integers(0, 299), max_size=5), count=st.integers(2, 4))
def test_numbers_of_any_types_are_the_same_numbers(data, gaps, count, tmp_path_factory):
    """As features, labels and weights; where values are missing, too."""
    several = st.lists(st.sampled_from(WHOLE), min_size=count, max_size=count)
    floats = st.lists(st.sampled_from(WHOLE[-2:]), min_size=count, max_size=count)
    types = {name: data.draw(several, name) for name in ("age", "label", "weight")}
    types["height"] = data.draw(floats, "height")
    rows = table().drop_columns(["colour", "source"])
    held = rows["age"].to_pylist()
    age = pa.array([None if i in gaps else value for i, value in enumerate(held)], pa.int64())
    found = parts(types, rows.set_column(0, "age", age))
    folder = write(found, tmp_path_factory.mktemp("types") / "rows")
    disk = clone(MODEL).fit(folder, "label", sample_weight="weight")
    whole = together(found)
    X = whole.select(["age", "height"])
    memory = clone(MODEL).fit(X, whole["label"], sample_weight=whole["weight"].to_numpy())
    assert_same(disk, memory, X)
    assert disk.classes_.dtype == memory.classes_.dtype
    np.testing.assert_array_equal(disk.decision_function(folder), memory.decision_function(X))
    frame = pd.concat([part.to_pandas() for part in found])
    memory = clone(MODEL).fit(
        frame[["age", "height"]], frame["label"], sample_weight=frame["weight"]
    )
    assert_same(disk, memory, X)


@examples(20)
@given(data=st.data(), count=st.integers(2, 4))
def test_text_of_any_types_is_the_same_text(data, count, tmp_path_factory):
    """As features, labels and sources."""
    several = st.lists(st.sampled_from(TEXT), min_size=count, max_size=count)
    types = {name: data.draw(several, name) for name in ("colour", "label", "source")}
    rows = table()
    words = pa.array(np.array(["no", "yes"])[rows["label"].to_numpy()])
    rows = rows.set_column(3, "label", words).drop_columns("weight")
    found = parts(types, rows)
    folder = write(found, tmp_path_factory.mktemp("types") / "rows")
    model = CombinedBoostClassifier(
        error_limits={"x": None, "z": 0.3}, n_estimators=4, random_state=0
    )
    disk = clone(model).fit(folder, "label", sample_domain="source")
    X = rows.select(["age", "height", "colour"])
    memory = clone(model).fit(X, rows["label"], sample_domain=rows["source"].to_numpy())
    assert_same(disk, memory, X)
    np.testing.assert_array_equal(disk.decision_function(folder), memory.decision_function(X))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_whole_number_makes_pandas_write_floats(missing, tmp_path):
    """The index that it writes beside them is no feature then either."""
    frame = table().to_pandas().sample(frac=1.0, random_state=0)
    X = frame.drop(columns="label")
    X["age"] = X["age"].where(np.arange(300) != 100 * missing + 50)
    (tmp_path / "rows").mkdir()
    for i in range(3):
        part = (X if i == missing else frame)[100 * i : 100 * i + 100]
        part.assign(label=frame["label"]).to_parquet(tmp_path / "rows" / f"{i}.parquet")
    memory = clone(MODEL).fit(X, frame["label"])
    paths = sorted((tmp_path / "rows").iterdir())
    for source in (tmp_path / "rows", paths, OnDisk(paths, tmp_path / "bins")):
        disk = clone(MODEL).fit(source, "label")
        assert disk.feature_names_in_.tolist() == list(X.columns)
        assert_same(disk, memory, X[disk.feature_names_in_.tolist()])


def test_a_file_without_values_has_no_say_in_the_type(tmp_path):
    types = {"age": [None, pa.int8(), pa.float64()], "colour": [TEXT[3], None, TEXT[0]]}
    found = [part.drop_columns(["weight", "source"]) for part in parts(types)]
    dtypes = {"age": float, "colour": object}
    frame = pd.concat([part.to_pandas().astype(dtypes) for part in found])
    X = frame[["age", "height", "colour"]]
    memory = clone(MODEL).fit(X, frame["label"])
    assert_same(clone(MODEL).fit(write(found, tmp_path / "rows"), "label"), memory, X)


def test_folders_that_are_columns_have_files_of_several_types(tmp_path):
    """They are read by a scan of pyarrow instead of file by file."""
    rows = table().drop_columns(["weight", "source"])
    for colour, its in (("red", pa.int32()), ("green", pa.float64()), ("blue", pa.uint8())):
        held = rows.filter(pa.compute.equal(rows["colour"], colour)).drop_columns("colour")
        (tmp_path / "rows" / f"colour={colour}").mkdir(parents=True)
        part = held.set_column(0, "age", held["age"].cast(its))
        pq.write_table(part, tmp_path / "rows" / f"colour={colour}" / "part.parquet")
    whole = rows.to_pandas()
    whole = pd.concat([whole[whole["colour"] == name] for name in ("blue", "green", "red")])
    X = whole[["age", "height", "colour"]]
    disk = clone(MODEL).fit(tmp_path / "rows", "label")
    assert_same(disk, clone(MODEL).fit(X, whole["label"]), X)


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("age", [pa.int64(), pa.string()], "'age' is string, but int64 elsewhere: write it with"),
        ("age", [pa.string(), pa.float64()], "'age' is double, but string elsewhere"),
        ("label", [pa.bool_(), pa.int64()], "'label' is int64, but bool elsewhere"),
        ("weight", [pa.float64(), pa.bool_()], "'weight' is bool, but double elsewhere"),
        ("age", [pa.decimal128(21, 0), pa.int64()], r"'age' is int64, but decimal128\(21, 0\)"),
        (
            "age",
            [pa.timestamp("ms"), pa.timestamp("us")],
            r"'age' is timestamp\[us\], but timestamp",
        ),
        (
            "colour",
            [pa.dictionary(pa.int8(), pa.string(), ordered=True), pa.string()],
            "'colour' is string, but dictionary",
        ),
    ],
)
@pytest.mark.parametrize("dataset", [False, True])
def test_other_types_that_differ_are_refused_before_rows_are_read(
    name, types, message, dataset, tmp_path, monkeypatch
):
    folder = write(parts({name: types}), tmp_path / "rows")
    monkeypatch.setattr("maboost.data.parquet.ParquetTable._batches", None)
    with pytest.raises(TableError, match=r"part-1\.parquet: column " + message):
        clone(MODEL).fit(ds.dataset(folder) if dataset else folder, "label", sample_weight="weight")


@pytest.mark.parametrize("column", ["age", "label", "weight"])
@pytest.mark.parametrize(
    ("large", "types"),
    [
        (2**53 + 1, [pa.int64(), pa.float64()]),
        (2**53 + 1, [pa.uint64(), pa.float32()]),
        (2**64 - 1, [pa.uint64(), pa.int64()]),
    ],
)
def test_numbers_that_the_common_type_does_not_hold_are_refused(column, large, types, tmp_path):
    """In either order of the files."""
    for order in (1, -1):
        rows = table(4).drop_columns(["colour", "source"])
        at = rows.column_names.index(column)
        first = rows.set_column(at, column, pa.array([large, 1, 2, 3], types[0]))
        second = rows.set_column(at, column, rows[column].cast(types[1]))
        folder = write([first, second][::order], tmp_path / str(order))
        part = 0 if order == 1 else 1
        message = rf"part-{part}\.parquet: column '{column}' is .* does not hold all .*{large}"
        with pytest.raises(TableError, match=message):
            clone(MODEL).fit(folder, "label", sample_weight="weight")


def test_a_scan_refuses_numbers_that_the_schema_does_not_hold(tmp_path):
    rows = table(4).drop_columns(["colour", "source", "weight"])
    part = rows.set_column(0, "age", pa.array([2**53 + 1, 1, 2, 3]))
    folder = write([part], tmp_path / "rows")
    schema = rows.schema.set(0, pa.field("age", pa.float64()))
    source = ds.dataset(folder, schema=schema).filter(ds.field("height") < 100.0)
    with pytest.raises(TableError, match=f"cannot read on: .*{2**53 + 1} not in range"):
        clone(MODEL).fit(source, "label")


def test_large_whole_numbers_of_one_type_are_read_as_in_memory(tmp_path):
    rows = table().drop_columns(["colour", "source", "weight"])
    large = pa.array(10**18 + 10**15 * rows["age"].to_numpy())
    rows = rows.set_column(0, "age", large)
    found = parts({"label": [pa.int8(), pa.int32()]}, rows)
    X = rows.select(["age", "height"])
    rounded = "column 'age' of X: some whole numbers are beyond"
    with pytest.warns(UserWarning, match=rounded):
        memory = clone(MODEL).fit(X, rows["label"])
    with pytest.warns(UserWarning, match=rounded):
        stored = clone(MODEL).fit(write(found, tmp_path / "rows"), "label")
    assert_same(stored, memory, X)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize(
    ("name", "types", "chosen"),
    [
        ("age", [pa.int64(), pa.float64()], pa.float64()),
        ("age", [pa.int64(), pa.float64()], pa.int64()),
        ("age", [pa.int64(), pa.int8()], pa.string()),
        ("age", [pa.string(), pa.int64()], pa.float32()),
        ("height", [pa.float64(), pa.float32()], pa.float32()),
        ("label", [pa.bool_(), pa.int8()], pa.int32()),
        ("colour", [pa.dictionary(pa.int8(), pa.string()), pa.string()], pa.large_string()),
        ("colour", [pa.string(), pa.large_string()], pa.dictionary(pa.int16(), pa.string())),
    ],
)
def test_the_schema_of_a_dataset_decides(name, types, chosen, filtered, tmp_path):
    """As it does where pyarrow reads the Dataset into memory."""
    rows = table().drop_columns(["weight", "source"])
    folder = write(parts({name: types}, rows), tmp_path / "rows")
    at = rows.column_names.index(name)
    schema = rows.schema.set(at, pa.field(name, chosen))
    source = ds.dataset(folder, schema=schema)
    if filtered:
        source = source.filter(ds.field("height") < 1.0)
    read = source.to_table()
    assert read.schema.field(name).type == chosen
    X = read.drop_columns("label")
    memory = clone(MODEL).fit(X, read["label"])
    disk = clone(MODEL).fit(source, "label")
    assert_same(disk, memory, X)
    assert disk.classes_.dtype == memory.classes_.dtype
    np.testing.assert_array_equal(disk.decision_function(source), memory.decision_function(X))


def test_a_dataset_without_a_schema_does_not_round(tmp_path):
    """pyarrow takes the schema of the first file, and makes single numbers of double ones."""
    folder = write(parts({"height": [pa.float32(), pa.float64()]}), tmp_path / "rows")
    with pytest.raises(TableError, match=r"part-1\.parquet: column 'height' is double, but float"):
        clone(MODEL).fit(ds.dataset(folder), "label")
    rows = table()
    whole = parts({"age": [pa.int64(), pa.float64()]}, rows)
    assert clone(MODEL).fit(ds.dataset(write(whole, tmp_path / "whole")), "label").n_iter_
    half = pa.array(rows["age"].to_numpy() + 0.5)
    broken = parts({"age": [pa.float64(), pa.float64()]}, rows.set_column(0, "age", half))
    source = ds.dataset(write([whole[0], broken[1]], tmp_path / "broken"))
    with pytest.raises(TableError, match=r"part-1\.parquet: column 'age' .*was truncated"):
        clone(MODEL).fit(source, "label")


def test_a_schema_of_fewer_columns_leaves_out_the_others(tmp_path):
    """Also those that could not be read together."""
    rows = table()
    folder = write(parts({"colour": [pa.string(), pa.binary()]}, rows), tmp_path / "rows")
    with pytest.raises(TableError, match="'colour' is binary, but string elsewhere"):
        clone(MODEL).fit(folder, "label")
    names = ["height", "age", "label"]
    source = ds.dataset(folder, schema=pa.schema([rows.schema.field(name) for name in names]))
    disk = clone(MODEL).fit(source, "label")
    assert disk.feature_names_in_.tolist() == ["height", "age"]
    X = rows.select(["height", "age"])
    assert_same(disk, clone(MODEL).fit(X, rows["label"]), X)


def test_cells_of_csv_files_are_read_as_the_schema_says(tmp_path):
    """Text that looks like a number, and whole numbers in a column of others."""
    frame = table().drop_columns(["weight", "source"]).to_pandas()
    frame["colour"] = frame["colour"].map({"red": "007", "green": "08", "blue": "9"})
    frame.loc[200:, "colour"] += "x"
    frame["age"] = frame["age"].where(frame.index < 150, frame["age"] + 0.5)
    (tmp_path / "rows").mkdir()
    frame[:150].astype({"age": int}).to_csv(tmp_path / "rows" / "0.csv", index=False)
    frame[150:].to_csv(tmp_path / "rows" / "1.csv", index=False)
    with pytest.raises(TableError, match="conversion error to int64"):
        clone(MODEL).fit(ds.dataset(tmp_path / "rows", format="csv"), "label")
    schema = pa.schema(
        [("age", pa.float64()), ("height", pa.float64()), ("colour", pa.string()), ("label", pa.int64())]
    )  # fmt: skip
    source = ds.dataset(tmp_path / "rows", schema=schema, format="csv")
    read = source.to_table().to_pandas()
    assert read[["age", "colour"]].equals(frame[["age", "colour"]])
    X = read.drop(columns="label")
    assert_same(clone(MODEL).fit(source, "label"), clone(MODEL).fit(X, frame["label"]), X)


def test_a_column_that_is_twice_in_a_file_is_refused(tmp_path):
    rows = table()
    folder = write([rows, rows.append_column("age", rows["age"])], tmp_path / "rows")
    with pytest.raises(TableError, match=r"part-1\.parquet: column 'age' is there more than once"):
        clone(MODEL).fit(folder, "label")
