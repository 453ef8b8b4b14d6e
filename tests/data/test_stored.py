"""A fit from disk is the fit in memory of the same rows, bit for bit."""

import itertools
import os
import tempfile

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    write_report,
)
from maboost.data import OnDisk, binned, parquet
from maboost.data.files import TableError
from maboost.runtime import row_hash

FEATURES = ["a", "b", "c", "colour"]
BOOSTERS = {
    "entropy": MABoostClassifier(),
    "smooth": SmoothBoostClassifier(),
    "sparse": SparseBoostClassifier(),
    "budget": SparseBoostClassifier(sparsity=0.6),
    "trimmed": SmoothBoostClassifier(smoothness=3.0, trim="auto"),
    "certain": SmoothBoostClassifier(smoothness=3.0, trim="certain"),
    "mada": MadaBoostClassifier(),
    "combined": CombinedBoostClassifier(error_limits={"x": None, "z": 0.2}),
    "combined-mass": CombinedBoostClassifier(source_mass={"z": 0.2}),
}


def frame(n=900, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)).round(2), columns=["a", "b", "c"])
    table["colour"] = rng.choice(["red", "green", "blue", None], n)
    table.loc[::11, "b"] = np.nan
    score = table["a"] + (table["colour"] == "red") + 0.7 * rng.normal(size=n)
    table["label"] = np.array(["no", "yes", "maybe"])[
        np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    ]
    table["weight"] = rng.integers(0, 4, n).astype(float)
    table["source"] = rng.choice(["x", "z"], n)
    return table


def write(table, folder, files=3):
    folder.mkdir()
    cuts = np.linspace(0, len(table), files + 1).astype(int)
    for i, (a, b) in enumerate(itertools.pairwise(cuts)):
        pq.write_table(
            pa.Table.from_pandas(table.iloc[a:b], preserve_index=False),
            folder / f"part-{i}.parquet",
            row_group_size=100,
        )
    return folder


def assert_same(disk, memory, X):
    np.testing.assert_array_equal(disk.estimator_weights_, memory.estimator_weights_)
    np.testing.assert_array_equal(disk.decision_function(X), memory.decision_function(X))
    np.testing.assert_array_equal(disk.distribution_, memory.distribution_)
    assert disk.certificate_ == memory.certificate_
    assert disk.probability_scale_ == memory.probability_scale_


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_disk_and_memory_agree(name, classes, tmp_path):
    table = frame(classes=classes)
    folder = write(table.drop(columns=["weight"]), tmp_path / "rows")
    model = clone(BOOSTERS[name]).set_params(n_estimators=8, random_state=0)
    given = {"sample_domain": table["source"]} if name.startswith("combined") else {}
    named = {"sample_domain": "source"} if name.startswith("combined") else {}
    drop = ["label", "weight", "source"] if name.startswith("combined") else ["label", "weight"]
    X = table.drop(columns=drop)
    memory = clone(model).fit(X, table["label"], **given)
    assert_same(clone(model).fit(str(folder), "label", **named), memory, X)


@pytest.mark.parametrize("batch", [7, 100, 5000])
@pytest.mark.parametrize("files", [1, 5])
def test_any_batch_size_and_number_of_files(batch, files, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH", batch)
    table = frame()
    folder = write(table, tmp_path / "rows", files)
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=5, random_state=0)
    X = table.drop(columns=["label", "weight"])
    memory = clone(model).fit(X, table["label"], sample_weight=table["weight"])
    disk = clone(model).fit(ds.dataset(folder), "label", sample_weight="weight")
    assert_same(disk, memory, X)


def test_samples_of_content_agree(tmp_path, monkeypatch):
    """Where the rows are more than the binning sample."""
    monkeypatch.setattr(row_hash, "SAMPLE_ROWS", 150)
    monkeypatch.setattr(binned, "CELLS", 400)  # two columns of the sample at a time
    monkeypatch.setattr(parquet, "BATCH", 64)
    table = pd.concat([frame(), frame()[:300]], ignore_index=True)
    folder = write(table, tmp_path / "rows")
    X = table.drop(columns=["label", "weight"])
    for model in (
        SmoothBoostClassifier(n_estimators=5, random_state=0),
        MABoostClassifier(n_estimators=5),
        MABoostClassifier(HistTreeClassifier(max_depth=2, random_state=7), n_estimators=5),
    ):
        memory = clone(model).fit(X, table["label"], sample_weight=table["weight"])
        disk = clone(model).fit(folder, "label", sample_weight="weight")
        assert_same(disk, memory, X)


def test_validation_rows_in_memory(tmp_path):
    table, other = frame(), frame(seed=1)
    folder = write(table.drop(columns=["weight", "source"]), tmp_path / "rows")
    model = SmoothBoostClassifier(
        smoothness=3.0, n_estimators=40, early_stopping=True, random_state=0
    )
    watch = {"X_val": other[FEATURES], "y_val": other["label"]}
    memory = clone(model).fit(table[FEATURES], table["label"], **watch)
    assert_same(clone(model).fit(folder, "label", **watch), memory, table[FEATURES])


def test_the_cache_is_reused_while_nothing_changes(tmp_path, monkeypatch):
    table = frame().drop(columns=["weight", "source"])
    folder = write(table, tmp_path / "rows")
    cache = tmp_path / "cache"
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=3, random_state=0)
    written = []
    original = binned.Cache._write

    def counted(self, *arguments):
        written.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(binned.Cache, "_write", counted)
    for _ in range(2):
        clone(model).fit(OnDisk(folder, cache), "label")
    assert len(written) == 1
    (home,) = cache.iterdir()
    assert {p.name for p in home.iterdir()} == {"rows.bin", "columns.bin", "digest"}
    assert (home / "rows.bin").stat().st_size == table.shape[0] * 4
    table.loc[0, "a"] = 99.0
    pq.write_table(
        pa.Table.from_pandas(table[:300], preserve_index=False), folder / "part-0.parquet"
    )
    changed = clone(model).fit(OnDisk(folder, cache), "label")
    assert len(written) == 2
    assert_same(changed, clone(model).fit(table[FEATURES], table["label"]), table[FEATURES])


def _halve(content):
    return content[: len(content) // 2]


def _zero_a_half(content):
    return _halve(content) + bytes(len(content) - len(content) // 2)


def _flip_a_bit(content):
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("damage", [_halve, _zero_a_half, _flip_a_bit, lambda _: b""])
@pytest.mark.parametrize("name", ["rows.bin", "columns.bin", "digest"])
def test_a_damaged_cache_is_written_again(name, damage, tmp_path):
    table = frame().drop(columns=["weight", "source"])
    rows = OnDisk(write(table, tmp_path / "rows"), tmp_path / "cache")
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=3, random_state=0)
    good = clone(model).fit(rows, "label")
    (home,) = (tmp_path / "cache").iterdir()
    content = (home / name).read_bytes()
    (home / name).unlink()
    (home / name).write_bytes(damage(content))
    with pytest.warns(UserWarning, match="the bins in the cache '.*' are damaged"):
        again = clone(model).fit(rows, "label")
    assert_same(again, good, table[FEATURES])
    assert (home / name).read_bytes() == content
    assert_same(clone(model).fit(rows, "label"), good, table[FEATURES])  # and now without a warning


@pytest.mark.skipif(os.name != "posix", reason="elsewhere such files could not be removed")
def test_the_files_of_a_cache_are_read_only(tmp_path):
    rows = OnDisk(write(frame(), tmp_path / "rows"), tmp_path / "cache")
    SmoothBoostClassifier(smoothness=3.0, n_estimators=1).fit(rows, "label")
    (home,) = (tmp_path / "cache").iterdir()
    assert {p.stat().st_mode & 0o777 for p in home.iterdir()} == {0o444}


def test_a_cache_does_not_depend_on_the_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(binned, "_BLOCK", 256)
    rows = OnDisk(write(frame(), tmp_path / "rows"), tmp_path / "cache")
    for n_jobs in (1, 2, 3):
        model = SmoothBoostClassifier(smoothness=3.0, n_estimators=1, n_jobs=n_jobs)
        model.fit(rows, "label")
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_fits_that_share_a_cache_do_not_change_each_other(tmp_path, monkeypatch):
    """One goes on while another puts bins of its own in the place of those it reads."""
    table = frame().drop(columns=["weight", "source"])
    cache = tmp_path / "cache"
    rows = OnDisk(write(table, tmp_path / "rows"), cache)
    model = MABoostClassifier(HistTreeClassifier(), n_estimators=8, random_state=0)
    memory = clone(model).fit(table[FEATURES], table["label"])
    original, others = binned.Cache.binned, []

    def meanwhile(self, *arguments):
        found = original(self, *arguments)
        if not others:
            others.append(clone(model).set_params(estimator__max_bins=8))
            others[0].fit(rows, "label")
        return found

    monkeypatch.setattr(binned.Cache, "binned", meanwhile)
    assert_same(clone(model).fit(rows, "label"), memory, table[FEATURES])
    (home,) = cache.iterdir()
    left, written = cache / "left.part", cache / "written.part"
    for folder in (left, written):
        folder.mkdir()
    os.utime(left, (0, 0))
    clone(model).fit(rows, "label")
    assert not home.exists()
    assert not left.exists()
    assert written.exists()


def test_a_fit_that_is_killed_leaves_no_temporary_files(tmp_path, monkeypatch):
    """They have no name while they are written, nor while they are read."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = write(frame().drop(columns=["weight", "source"]), tmp_path / "rows")
    original, seen = binned.bin_rows, []

    def watched(*arguments):
        seen.extend(p.name for p in tmp_path.iterdir())
        return original(*arguments)

    monkeypatch.setattr(binned, "bin_rows", watched)
    monkeypatch.setattr(
        "maboost.estimators.progress.Display.round",
        lambda *_: seen.extend(p.name for p in tmp_path.iterdir()),
    )
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=2, early_stopping=True)
    model.fit(folder, "label")
    assert len(seen) > 3
    assert set(seen) == {"rows"}


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    folder = write(frame().drop(columns=["weight", "source"]), tmp_path / "rows")
    cache = tmp_path / "cache"
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=2)

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(binned, "bin_rows", fail)
    with pytest.raises(OSError, match=f"No space left on device: '{cache}'"):
        model.fit(OnDisk(folder, cache), "label")
    with pytest.raises(OSError, match=f"No space left on device: '{tempfile.gettempdir()}'"):
        model.fit(folder, "label")
    assert list(cache.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(OSError, match="the cache needs 7200 bytes, but 10 are free"):
        model.fit(OnDisk(folder, cache), "label")


def test_errors_name_file_and_column(tmp_path):
    model = SmoothBoostClassifier(smoothness=3.0)
    with pytest.raises(ValueError, match="no such file or folder"):
        model.fit(tmp_path / "none", "label")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: there is no file in the folder"):
        model.fit(tmp_path / "empty", "label")
    with pytest.raises(ValueError, match="'': no such file or folder"):
        model.fit("", "label")
    times = frame().assign(weight=pd.Timestamp("2020-01-31"), lists=[[1]] * len(frame()))
    odd = write(times, tmp_path / "odd")
    with pytest.raises(ValueError, match="column 'weight' is sample_weight, but not all numbers"):
        model.fit(odd, "label", "weight")
    for names in (("lists",), ("label", "lists")):
        with pytest.raises(
            ValueError, match="column 'lists' holds lists: give one value for each row"
        ):
            model.fit(odd, *names)
    with pytest.raises(ValueError, match="column 'a' cannot be both y and sample_weight"):
        model.fit(odd, "a", "a")
    table = frame().drop(columns=["weight", "source"])
    folder = write(table, tmp_path / "rows")
    with pytest.raises(ValueError, match="there is no column 'price'"):
        model.fit(folder, "price")
    with pytest.raises(ValueError, match="y is the name of a column"):
        model.fit(folder, table["label"].to_numpy())
    with pytest.raises(ValueError, match="own trees"):
        MABoostClassifier(LogisticRegression()).fit(folder, "label")
    other = table[:50].assign(b="text")
    pq.write_table(pa.Table.from_pandas(other, preserve_index=False), folder / "part-9.parquet")
    with pytest.raises(
        ValueError, match=r"part-9.parquet: column 'b' is (large_)?string, but double"
    ):
        model.fit(folder, "label")
    pq.write_table(
        pa.Table.from_pandas(table[:50].drop(columns="c"), preserve_index=False),
        folder / "part-9.parquet",
    )
    with pytest.raises(ValueError, match=r"part-9.parquet: column 'c' is missing"):
        model.fit(folder, "label")
    whole = (folder / "part-1.parquet").read_bytes()
    (folder / "part-9.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"part-9\.parquet"):
        model.fit(folder, "label")


def test_a_missing_label_and_an_empty_file(tmp_path):
    table = frame().drop(columns=["weight", "source"])
    folder = write(table, tmp_path / "rows")
    schema = pq.read_schema(folder / "part-0.parquet")
    pq.write_table(schema.empty_table(), folder / "part-7.parquet")
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=2, random_state=0)
    assert_same(
        clone(model).fit(folder, "label"),
        clone(model).fit(table[FEATURES], table["label"]),
        table[FEATURES],
    )
    table.loc[5, "label"] = None
    other = write(table, tmp_path / "holes")
    with pytest.raises(ValueError, match="column 'label' is missing in 1 rows"):
        model.fit(other, "label")


def test_no_rows_at_all(tmp_path):
    folder = write(frame(), tmp_path / "rows")
    model = MABoostClassifier(n_estimators=2).fit(folder, "label")
    nothing = ds.dataset(folder).filter(ds.field("a") > 1e9)
    pq.write_table(
        pq.read_schema(folder / "part-0.parquet").empty_table(), tmp_path / "none.parquet"
    )
    for source in (nothing, tmp_path / "none.parquet"):
        with pytest.raises(TableError, match="there are no rows"):
            clone(model).fit(source, "label")
        with pytest.raises(TableError, match="there are no rows"):
            model.predict(source)


def test_what_is_no_parquet_and_no_number(tmp_path):
    table = frame()
    table.to_csv(tmp_path / "rows.csv")
    model = MABoostClassifier(n_estimators=2)
    with pytest.raises(TableError, match=r"rows\.csv: .* give a Dataset, as of .*format='csv'"):
        model.fit(tmp_path / "rows.csv", "label")
    with pytest.raises(
        TableError, match=r"s3://bucket/rows: no such file .* give a pyarrow Dataset"
    ):
        model.fit("s3://bucket/rows", "label")
    with pytest.raises(TableError, match="column 'source' is sample_weight, but not all numbers"):
        model.fit(write(table, tmp_path / "rows"), "label", "source")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "bool"])
def test_labels_keep_their_type(dtype, tmp_path):
    table = frame()[["a", "b"]].assign(label=np.arange(900) % 2)
    table["label"] = table["label"].astype(dtype)
    model = MABoostClassifier(n_estimators=2, random_state=0)
    disk = clone(model).fit(write(table, tmp_path / "rows"), "label")
    memory = clone(model).fit(table[["a", "b"]], table["label"])
    assert disk.classes_.dtype == memory.classes_.dtype == dtype


class Batches:
    """An iterator over arrays, as a user would write it."""

    def __init__(self, X, y, weights=None, size=130):
        self.parts = [
            tuple(a[i : i + size] for a in (X, y, weights) if a is not None)
            for i in range(0, len(y), size)
        ]

    def reset(self):
        self.at = 0

    def next(self):
        self.at += 1
        return self.parts[self.at - 1] if self.at <= len(self.parts) else None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["entropy", "smooth", "budget", "mada"])
def test_an_iterator_and_memory_agree(name, weighted):
    table = frame()
    X, y = table[["a", "b", "c"]].to_numpy(), table["label"].to_numpy(dtype=str)
    weights = table["weight"].to_numpy() if weighted else None
    model = clone(BOOSTERS[name]).set_params(n_estimators=6, random_state=0)
    memory = clone(model).fit(X, y, sample_weight=weights)
    assert_same(clone(model).fit(Batches(X, y, weights), None), memory, X)


def test_an_iterator_may_fill_the_same_arrays_again():
    class Reusing(Batches):
        def next(self):
            part = super().next()
            if part is not None:
                for held, new in zip(self.held, part, strict=True):
                    held[:] = new
            return None if part is None else self.held

    X, weights = np.random.default_rng(0).normal(size=(520, 3)), np.arange(520) % 3 + 1.0
    y = (X[:, 0] > X[:, 1]).astype(int)
    source = Reusing(X, y, weights)
    source.held = tuple(np.empty_like(a[:130]) for a in (X, y, weights))
    model = MABoostClassifier(n_estimators=4, random_state=0)
    memory = clone(model).fit(X, y, weights)
    assert_same(clone(model).fit(source, None), memory, X)


def test_bad_iterators_are_refused():
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    model = SmoothBoostClassifier(smoothness=2.0)
    with pytest.raises(ValueError, match="y has 2 missing labels, the first in row 0"):
        model.fit(Batches(X, np.where(y == 0, np.nan, 1.0)), None)
    with pytest.raises(ValueError, match="gives its own labels"):
        model.fit(Batches(X, y), y)
    with pytest.raises(ValueError, match="gives no rows"):
        model.fit(Batches(X[:0], y[:0]), None)
    broken = Batches(X, y)
    broken.parts = [X]
    with pytest.raises(ValueError, match=r"next\(\) must give"):
        model.fit(broken, None)

    class Changing(Batches):
        def reset(self):
            super().reset()
            self.parts = [tuple(a[:-1] for a in part) for part in self.parts]

    X, y = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9) % 2
    with pytest.raises(ValueError, match="the same rows every time"):
        model.fit(Changing(X, y), None)


@pytest.mark.parametrize("change", ["values", "order", "fewer", "more"])
def test_an_iterator_that_gives_other_rows_later_is_refused(change):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2

    class Changing(Batches):
        passes = 0

        def reset(self):
            super().reset()
            self.passes += 1
            if self.passes == 3:
                (rows, labels), *others = self.parts
                self.parts = {
                    "values": [(rows + 1e-9, labels), *others],
                    "order": [(rows[::-1], labels[::-1]), *others],
                    "fewer": [(rows, labels), *others[:-1]],
                    "more": [(rows, labels), *others, (rows, labels)],
                }[change]

    at = {"values": 0, "order": 0, "fewer": 2, "more": 3}[change]
    with pytest.raises(TableError, match=f"batch {at} differs from that of the first pass"):
        MABoostClassifier(n_estimators=2).fit(Changing(X, y, size=20), None)


def test_a_list_of_files_is_their_rows(tmp_path):
    table = frame()[[*FEATURES, "label"]]
    folder = write(table, tmp_path / "rows")
    paths = sorted(folder.iterdir())
    model = MABoostClassifier(n_estimators=3, random_state=0)
    memory = clone(model).fit(table[FEATURES], table["label"])
    for source in (paths, [str(path) for path in paths], OnDisk(paths, tmp_path / "bins")):
        assert_same(clone(model).fit(source, "label"), memory, table[FEATURES])
    np.testing.assert_array_equal(memory.predict(paths), memory.predict(table[FEATURES]))
    with pytest.raises(TableError, match=r"missing\.parquet: no such file"):
        model.fit([*paths, folder / "missing.parquet"], "label")
    with pytest.raises(
        TableError, match="rows: is a folder; give it alone, or give a list of files"
    ):
        model.fit([folder], "label")
    with pytest.raises(TypeError, match="OnDisk takes a path, a list of paths"):
        model.fit(OnDisk(3), "label")
    with pytest.raises(TypeError, match="cache must be the path of a folder, or None, got 3"):
        model.fit(OnDisk(paths, 3), "label")
    for cache in (paths[0], ""):
        with pytest.raises(ValueError, match="is not a folder"):
            model.fit(OnDisk(paths, cache), "label")


def test_files_are_predicted_in_batches(tmp_path):
    table = frame()
    folder = write(table, tmp_path / "rows")
    model = SmoothBoostClassifier(smoothness=3.0, n_estimators=4, random_state=0)
    model.fit(table[FEATURES], table["label"])
    np.testing.assert_array_equal(model.predict(folder), model.predict(table[FEATURES]))
    np.testing.assert_array_equal(model.predict_proba(folder), model.predict_proba(table[FEATURES]))
    other = write(table.drop(columns="a"), tmp_path / "other")
    with pytest.raises(ValueError, match="no column 'a', which the model needs"):
        model.predict(other)
    nameless = SmoothBoostClassifier(smoothness=3.0, n_estimators=2).fit(
        table[["a", "c"]].to_numpy(), table["label"]
    )
    with pytest.raises(ValueError, match="had no column names"):
        nameless.predict(folder)


def test_every_long_pass_tells_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH", 256)
    folder = write(frame().drop(columns=["weight", "source"]), tmp_path / "rows")
    MABoostClassifier(n_estimators=2, verbose=1).fit(folder, "label")
    lines = capsys.readouterr().err.splitlines()
    passes = [line.split(":")[0] for line in lines if "900 of 900 rows" in line]
    assert passes == ["choosing a sample", "reading the sample", "binning"]
    assert lines[0] == "reading the rows"
    assert [line.split(":")[0] for line in lines if line.startswith("round ")] == [
        "round 1/2",
        "round 2/2",
    ]


def test_a_filtered_dataset_and_one_in_memory_are_the_rows_they_have(tmp_path):
    table = frame()
    dataset = ds.dataset(write(table, tmp_path / "rows"))
    X, y = table.drop(columns=["label", "weight"]), table["label"]
    number = next(name for name in X if X[name].dtype == float)
    model = MABoostClassifier(n_estimators=4, random_state=0)
    chosen = (X[number] > 0.0).to_numpy()
    memory = clone(model).fit(X[chosen], y[chosen], sample_weight=table["weight"][chosen])
    some = dataset.filter(ds.field(number) > 0.0)
    cache = tmp_path / "bins"
    disk = clone(model).fit(OnDisk(some, cache=cache), "label", sample_weight="weight")
    assert_same(disk, memory, X)
    np.testing.assert_array_equal(disk.predict(some), memory.predict(X[chosen]))
    everything = clone(model).fit(X, y, sample_weight=table["weight"])
    for source in (dataset, ds.dataset(dataset.to_table())):  # the cache is of other rows
        found = clone(model).fit(OnDisk(source, cache=cache), "label", sample_weight="weight")
        assert_same(found, everything, X)


def test_the_index_of_a_data_frame_is_no_feature(tmp_path):
    """Neither one with a name nor the numbers of rows that pandas keeps after a choice of them."""
    table = frame()[[*FEATURES, "label"]]
    model = MABoostClassifier(n_estimators=3, random_state=0)
    some = table[table["a"] > 0]
    for i, chosen in enumerate((some, some.set_index("c"))):
        path = tmp_path / f"{i}.parquet"
        chosen.to_parquet(path)
        back = pd.read_parquet(path)
        memory = clone(model).fit(back.drop(columns="label"), back["label"])
        disk = clone(model).fit(path, "label")
        assert disk.feature_names_in_.tolist() == memory.feature_names_in_.tolist()
        assert_same(disk, memory, back.drop(columns="label"))
    whole = clone(model).fit(some[FEATURES], some["label"])  # with what is an index in the file
    np.testing.assert_array_equal(whole.predict(path), whole.predict(some[FEATURES]))


def test_what_folders_are_called_is_a_column(tmp_path):
    """Of a path, of a Dataset and of one with a filter; the target may be one too."""
    table = frame().drop(columns=["weight", "label"])
    table["colour"] = table["colour"].fillna("none")
    folder = tmp_path / "rows"
    partitioning = ds.partitioning(
        pa.schema([("source", pa.string()), ("colour", pa.string())]), flavor="hive"
    )
    ds.write_dataset(
        pa.Table.from_pandas(table, preserve_index=False), folder, format="parquet",
        partitioning=partitioning,
    )  # fmt: skip
    whole = pq.read_table(folder).to_pandas()
    X, y = whole.drop(columns="source"), whole["source"]
    model = MABoostClassifier(n_estimators=4, random_state=0)
    memory = clone(model).fit(X, y)
    for source in (folder, OnDisk(folder), ds.dataset(folder, partitioning=partitioning)):
        disk = clone(model).fit(source, "source")
        assert disk.feature_names_in_.tolist() == ["a", "b", "c", "colour"]
        assert_same(disk, memory, X)
    np.testing.assert_array_equal(disk.predict(folder), memory.predict(X))
    some = ds.dataset(folder, partitioning=partitioning).filter(ds.field("colour") != "red")
    chosen = (X["colour"] != "red").to_numpy()
    memory = clone(model).fit(X[chosen].astype({"colour": str}), y[chosen])
    assert_same(clone(model).fit(some, "source"), memory, X.astype({"colour": str}))


@pytest.mark.parametrize("categorical", ["from_dtype", ["colour"]])
def test_ordered_categories_keep_their_order_on_disk(categorical, tmp_path):
    """As numbers they are nothing but an order, and rows are held out by a hash of their codes."""
    table = frame().drop(columns=["weight", "source"])
    sizes = ["small", "medium", "large"]
    table["size"] = pd.Categorical(np.array(sizes)[np.digitize(table.pop("a"), [-0.5, 0.5])], sizes, ordered=True)  # fmt: skip
    folder = write(table, tmp_path / "rows")
    tree = HistTreeClassifier(categorical_features=categorical)
    model = SmoothBoostClassifier(tree, n_estimators=6, early_stopping=True, random_state=0)
    X = table.drop(columns="label")
    memory = clone(model).fit(X, table["label"])
    assert_same(clone(model).fit(folder, "label"), memory, X)
    turned = table.assign(size=table["size"].cat.reorder_categories(sizes[::-1]))
    pq.write_table(pa.Table.from_pandas(turned, preserve_index=False), folder / "turned.parquet")
    with pytest.raises(TableError, match=r"'size' have the order .* in some rows"):
        clone(model).fit(folder, "label")


def test_infinity_is_refused_on_disk_as_in_memory(tmp_path):
    table = pd.DataFrame({"a": [1.0, -np.inf, 3.0, 4.0], "b": 0.0, "label": [0, 1, 0, 1]})
    table.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TableError, match="column 'a' contains infinity"):
        MABoostClassifier().fit(tmp_path / "rows.parquet", "label")
    fitted = MABoostClassifier(n_estimators=2).fit(table[["a", "b"]].clip(-5), table["label"])
    with pytest.raises(TableError, match="column 'a' contains infinity"):
        fitted.predict(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    "batch",
    [
        (np.zeros((5, 2)), np.zeros(4)),
        (sp.csr_matrix(np.eye(3)), np.zeros(3)),
        (np.zeros(5), np.zeros(5)),
    ],
    ids=["fewer labels", "sparse", "no columns"],
)
def test_batches_of_another_kind_are_refused(batch):
    source = Batches(np.zeros((1, 1)), np.zeros(1))
    source.parts = [batch]
    with pytest.raises(ValueError, match="a batch must be a dense array of rows and a label for"):
        MABoostClassifier().fit(source, None)


def test_files_that_change_while_they_are_read_are_refused(tmp_path, monkeypatch):
    """Labels are read first: the rows would be those of other labels."""
    folder = write(frame()[[*FEATURES, "label"]], tmp_path / "rows")
    path = folder / "part-1.parquet"
    original, times = binned.bin_rows, itertools.count(1)

    def meanwhile(*arguments):
        os.utime(path, (next(times), next(times)))
        return original(*arguments)

    monkeypatch.setattr(binned, "bin_rows", meanwhile)
    for source in (folder, OnDisk(folder, tmp_path / "bins")):
        with pytest.raises(TableError, match=r"part-1\.parquet: was changed while it was read"):
            MABoostClassifier(n_estimators=2).fit(source, "label")
    assert list((tmp_path / "bins").iterdir()) == []


def test_files_with_nothing_but_labels_are_refused(tmp_path):
    folder = write(frame()[["label", "weight"]], tmp_path / "rows")
    with pytest.raises(TableError, match="there is no column to learn from"):
        MABoostClassifier().fit(folder, "label", sample_weight="weight")
    with pytest.raises(ValueError, match=r"ndarray of shape \(3, 0\)"):
        MABoostClassifier().fit(Batches(np.zeros((3, 0)), np.arange(3)), None)


def test_columns_in_another_order_are_found_by_their_names(tmp_path):
    table = frame()[[*FEATURES, "label"]]
    folder = write(table, tmp_path / "rows")
    turned = pq.read_table(folder / "part-1.parquet").select(["label", *FEATURES[::-1]])
    pq.write_table(turned, folder / "part-1.parquet")
    model = MABoostClassifier(n_estimators=3, random_state=0)
    memory = clone(model).fit(table[FEATURES], table["label"])
    assert_same(clone(model).fit(folder, "label"), memory, table[FEATURES])
    np.testing.assert_array_equal(memory.predict(folder), memory.predict(table[FEATURES]))


def test_a_cache_knows_the_order_of_the_files(tmp_path):
    table = frame()[[*FEATURES, "label"]]
    paths = sorted(write(table, tmp_path / "rows").iterdir())
    model = MABoostClassifier(n_estimators=3, random_state=0)
    for order in (paths, paths[::-1]):
        read = pd.concat([pd.read_parquet(path) for path in order])
        disk = clone(model).fit(OnDisk(order, tmp_path / "bins"), "label")
        assert_same(disk, clone(model).fit(read[FEATURES], read["label"]), read[FEATURES])


def test_broken_bins_that_cannot_be_removed_are_an_error(tmp_path, monkeypatch):
    """As in a folder of somebody else; the fit does not try for ever."""
    rows = OnDisk(write(frame()[[*FEATURES, "label"]], tmp_path / "rows"), tmp_path / "bins")
    model = MABoostClassifier(n_estimators=2).fit(rows, "label")
    (home,) = (tmp_path / "bins").iterdir()
    (home / "rows.bin").unlink()
    (home / "rows.bin").write_bytes(b"short")
    monkeypatch.setattr(binned, "_remove_others", lambda folder: None)
    with (
        pytest.warns(UserWarning, match="the bins in the cache '.*' are damaged"),
        pytest.raises(OSError, match=home.name),
    ):
        model.fit(rows, "label")


def test_scores_and_margins_of_columns_that_are_named(tmp_path):
    table = frame()[[*FEATURES, "label", "weight"]]
    folder = write(table, tmp_path / "rows")
    model = MABoostClassifier(n_estimators=3, random_state=0).fit(table[FEATURES], table["label"])
    X, y, weight = table[FEATURES], table["label"], table["weight"]
    assert model.score(folder, "label") == model.score(X, y)
    assert model.score(folder, "label", "weight") == model.score(X, y, weight) != model.score(X, y)
    np.testing.assert_array_equal(model.margins(folder, "label"), model.margins(X, y))
    with pytest.raises(TableError, match="there is no column 'other'"):
        model.score(folder, "other")
    with pytest.raises(TableError, match="X is str, rows on disk"):
        HistTreeClassifier().fit(str(folder), "label")
    with pytest.raises(TableError, match=r"X_test is .*Path, rows on disk"):
        write_report(model, tmp_path / "report.html", X_test=folder, y_test="label")
    with pytest.raises(TypeError, match=r"X is a Dask collection, .* give X\.compute\(\)"):
        write_report(model, tmp_path / "report.html", X=da.from_array(X[["a"]].to_numpy()), y=y)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            (pd.DataFrame(np.eye(3, 2), columns=["b", "a"]), [0, 1, 0]),
            "others have .*: give all in",
        ),
        ((pd.DataFrame({"a": list("uvw"), "b": 1.0}), [0, 1, 0]), "a batch is not all numbers"),
        (
            (pd.DataFrame(np.eye(3, 2), columns=["a", "b"]), [0, 1, 0], [1.0]),
            "a batch of 3 rows has",
        ),
    ],
)
def test_batches_that_do_not_fit_are_refused(second, message):
    first = (pd.DataFrame(np.eye(3, 2), columns=["a", "b"]), [0, 1, 0], np.ones(3))
    rows = Batches(np.zeros((1, 2)), np.zeros(1))
    rows.parts = [first, second]
    with pytest.raises(ValueError, match=message):
        MABoostClassifier().fit(rows, None)


@pytest.mark.parametrize("column", ["a", "colour"])
@pytest.mark.parametrize("empty", [0, 1])
def test_a_file_without_any_value_in_a_column(column, empty, tmp_path):
    """As pandas writes it: the column has no type there."""
    table = frame()[[*FEATURES, "label"]]
    paths = sorted(write(table, tmp_path / "rows").iterdir())
    held = pq.read_table(paths[empty])
    at = held.column_names.index(column)
    pq.write_table(held.set_column(at, column, pa.nulls(len(held))), paths[empty])
    table.loc[300 * empty : 300 * empty + 299, column] = None if column == "colour" else np.nan
    model = MABoostClassifier(n_estimators=3, random_state=0)
    memory = clone(model).fit(table[FEATURES], table["label"])
    for source in (tmp_path / "rows", paths):
        assert_same(clone(model).fit(source, "label"), memory, table[FEATURES])
        np.testing.assert_array_equal(memory.predict(source), memory.predict(table[FEATURES]))
