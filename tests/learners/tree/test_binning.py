"""Bins: quantiles of the base measure, unchanged by order and repetition."""

from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import on_shards

from maboost.learners.tree.binning import bin_columns, find_bins
from maboost.learners.tree.grower import Binned
from maboost.learners.tree.layout import MISSING_BIN
from maboost.runtime import row_hash as content
from maboost.runtime.threads import Threads


def sparse_bins(X, bins):
    """The bins of a sparse matrix, by column."""
    by_column, _ = Binned.of(X, bins).columns(np.arange(X.shape[1]))
    return by_column


values = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=64),
    st.integers(-5, 5).map(float),
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(values, min_size=1, max_size=80), st.integers(2, 40))
def test_bin_is_the_number_of_edges_below(column, max_bins):
    v = np.array(column)
    bins = find_bins(v[:, None], np.ones(len(v)), max_bins)
    by_row, by_column = bin_columns(v[:, None], bins)
    edges = bins.edges[0]
    expected = np.where(np.isnan(v), MISSING_BIN, np.searchsorted(edges, v, side="left"))
    np.testing.assert_array_equal(by_row[:, 0], expected)
    np.testing.assert_array_equal(by_column[0], expected)
    assert len(edges) < max_bins
    assert np.all(np.diff(edges) > 0.0)


@pytest.mark.parametrize("max_bins", [2, 3, 17, 255])
@pytest.mark.parametrize(
    "spread",
    [
        lambda x: x,
        lambda x: np.exp(8.0 * x),  # nearly all edges in one cell of the grid
        lambda x: np.round(x),
        lambda x: 1e308 * np.tanh(x),  # whose extent is no number
        lambda x: 5e-324 * np.round(40.0 * x),
        lambda x: 1.0 + np.finfo(float).eps * np.round(40.0 * x),
    ],
    ids=["even", "skewed", "whole", "huge", "tiny", "close"],
)
def test_values_that_set_no_edge_find_their_bin_too(spread, max_bins):
    rng = np.random.default_rng(0)
    bins = find_bins(spread(rng.normal(size=(3000, 1))), np.ones(3000), max_bins)
    edges = bins.edges[0]
    beside = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    v = np.concatenate([spread(3.0 * rng.normal(size=2500)), beside, [np.inf, -np.inf, np.nan]])
    by_row, _ = bin_columns(v[:, None], bins)
    expected = np.where(np.isnan(v), MISSING_BIN, np.searchsorted(edges, v, side="left"))
    np.testing.assert_array_equal(by_row[:, 0], expected)


def test_few_distinct_values_get_a_bin_each():
    rng = np.random.default_rng(0)
    v = rng.choice(np.array([-3.0, 0.5, 0.7, 100.0]), size=200)
    by_row, _ = bin_columns(v[:, None], find_bins(v[:, None], np.ones(200)))
    np.testing.assert_array_equal(by_row[:, 0], np.searchsorted(np.unique(v), v))


def test_bins_hold_equal_shares_of_the_measure():
    rng = np.random.default_rng(1)
    v, w = rng.normal(size=20_000), rng.exponential(size=20_000)
    by_row, _ = bin_columns(v[:, None], find_bins(v[:, None], w, max_bins=16))
    shares = np.bincount(by_row[:, 0], weights=w) / w.sum()
    assert len(shares) == 16
    np.testing.assert_allclose(shares, 1 / 16, atol=2e-3)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.integers(0, 10_000))
def test_weight_is_repetition_and_order_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    n = 300
    X, w = rng.normal(size=(n, 2)).round(1), rng.integers(1, 4, size=n)
    once = find_bins(X, w.astype(float), max_bins=8)
    repeated = np.repeat(X, w, axis=0)
    twice = find_bins(rng.permutation(repeated), np.ones(len(repeated)), max_bins=8)
    for a, b in zip(once.edges, twice.edges, strict=True):
        np.testing.assert_array_equal(a, b)


@given(
    seed=st.integers(0, 10**6),
    most=st.integers(2, 9),
    unit=st.sampled_from([1.0, 1 / 3, 1 / 7, 1e-300, 0.1]),
    sample=st.sampled_from([100, 10**6]),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_whole_weights_of_any_unit_are_copies_to_the_bins(seed, most, unit, sample):
    rng = np.random.default_rng(seed)
    times = rng.integers(1, most + 1, 300)
    X = rng.normal(size=(300, 2)).round(1 + seed % 3)
    with mock.patch.object(content, "SAMPLE_ROWS", sample):
        weighted = find_bins(X, unit * times, max_bins=12)
        repeated = find_bins(np.repeat(X, times, axis=0), np.ones(times.sum()), max_bins=12)
        thrice = find_bins(np.repeat(X, 3 * times, axis=0), np.ones(3 * times.sum()), max_bins=12)
    for a, b, c in zip(weighted.edges, repeated.edges, thrice.edges, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_sample_is_chosen_by_content(monkeypatch):
    monkeypatch.setattr(content, "SAMPLE_ROWS", 200)
    rng = np.random.default_rng(3)
    X, w = rng.normal(size=(900, 3)), rng.integers(1, 4, size=900)
    order = rng.permutation(900)
    repeated = np.repeat(X, w, axis=0)
    reference = find_bins(X, w.astype(float), max_bins=16)
    shuffled = find_bins(X[order], w[order].astype(float), max_bins=16, threads=Threads(2))
    doubled = find_bins(repeated, np.ones(len(repeated)), max_bins=16)
    for a, b, c in zip(reference.edges, shuffled.edges, doubled.edges, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    hashes = content.hash_rows(X, Threads())
    rows = content.sampled_rows(hashes)
    first, weights = content.merged_weights(hashes[rows], rows, w.astype(float))
    assert len(rows) == len(first) == 200
    np.testing.assert_allclose(weights, w[rows[first]], rtol=1e-12)
    assert set(content.sampled_rows(content.hash_rows(X, Threads(), seed=1))) != set(rows)


def test_sparse_equals_dense():
    rng = np.random.default_rng(4)
    dense = rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.3)
    dense[rng.random((300, 5)) < 0.05] = np.nan
    w = rng.exponential(size=300)
    expected = bin_columns(dense, find_bins(dense, w, 10))[1]
    for made in (sp.csr_matrix(dense), sp.csc_matrix(dense)):
        np.testing.assert_array_equal(sparse_bins(made, find_bins(made, w, 10)), expected)


def test_sparse_columns_without_zeros_and_entries_that_stand_twice():
    rng = np.random.default_rng(6)
    dense = rng.integers(1, 5, size=(50, 2)) * np.array([1.0, 2.0])
    dense[::2, 1] = 0.0
    rows, columns = np.nonzero(dense)
    halves = 0.5 * np.tile(dense[rows, columns], 2)
    pairs = sp.coo_matrix((halves, (np.tile(rows, 2), np.tile(columns, 2))), shape=dense.shape)
    order = np.argsort(pairs.col, kind="stable")
    ends = np.searchsorted(pairs.col[order], np.arange(3))
    twice = sp.csc_matrix((pairs.data[order], pairs.row[order], ends), shape=dense.shape)
    expected = find_bins(dense, np.ones(50))
    for made in (sp.csr_matrix(dense), sp.csc_matrix(dense), twice):
        size = made.nnz
        bins = find_bins(made, np.ones(50))
        for ours, theirs in zip(bins.edges, expected.edges, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(sparse_bins(made, bins), bin_columns(dense, expected)[1])
        assert made.nnz == size  # what was given stays as it is


def test_equal_contents_have_equal_hashes():
    """Zeros of either sign are one value, and so are all kinds of NaN."""
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    table = np.array([[0.0, np.nan], [-0.0, odd[0]], [0.0, odd[1]], [0.0, 1.0]])
    first, *alike, other = content.hash_rows(table, Threads()).tolist()
    assert alike == [first, first]
    assert other != first


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, bool])
def test_dtypes(dtype):
    rng = np.random.default_rng(5)
    X = (rng.normal(size=(100, 2)) * 3).astype(dtype)
    bins = find_bins(X, np.ones(100))
    expected = bin_columns(X.astype(float), bins)[0]
    np.testing.assert_array_equal(bin_columns(X, bins)[0], expected)


def test_categories_and_unseen_ones():
    X = np.array([[3.0], [7.0], [7.0], [np.nan], [1.0]])
    bins = find_bins(X, np.ones(5), categorical=np.array([True]))
    found = bin_columns(np.array([[1.0], [3.0], [7.0], [4.0], [np.nan]]), bins)[0][:, 0]
    np.testing.assert_array_equal(found, [0, 1, 2, MISSING_BIN, MISSING_BIN])


def by_brute_force(values, weights, max_bins):
    """Which levels share a bin: all but the heaviest, of equal ones the smaller first."""
    held = {}
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        if value == value:
            held[value] = held.get(value, 0.0) + weight
    if len(held) <= max_bins:
        return []
    return sorted(sorted(held, key=lambda level: (-held[level], level))[max_bins - 1 :])


@pytest.mark.parametrize("sample", [10_000, 40], ids=["all rows", "a sample"])
@pytest.mark.parametrize("max_bins", [2, 3, 8, 255])
def test_rare_categories_share_a_bin(max_bins, sample):
    """The bins are those of the column with the rare levels merged by hand."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 3))
        X[:, 1] = np.round(rng.pareto(0.7, 400) * rng.choice([-3.0, 3.0], 400))
        X[rng.random(400) < 0.1, 1] = np.nan
        w = rng.integers(1, 4, 400).astype(float)
        categorical = np.array([False, True, False])
        with mock.patch.object(content, "SAMPLE_ROWS", sample):
            bins = find_bins(X, w, max_bins, categorical)
        rare = by_brute_force(X[:, 1], w, max_bins)
        assert {j: its.tolist() for j, its in bins.rare.items()} == ({1: rare} if rare else {})
        merged = X.copy()
        merged[np.isin(X[:, 1], rare), 1] = rare[0] if rare else 0.0
        by_hand = find_bins(merged[:, 1:2], w, max_bins, np.array([True]))
        assert by_hand.rare == {}
        np.testing.assert_array_equal(bins.edges[1], by_hand.edges[0])
        assert bins.counts[1] <= max_bins
        other = np.append(X[:, 1], [0.5, np.nan, np.inf])
        expected = bin_columns(np.append(merged[:, 1], [0.5, np.nan, np.inf])[:, None], by_hand)[0]
        found = bin_columns(np.column_stack([other] * 3), bins)[0]
        np.testing.assert_array_equal(found[:, 1], expected[:, 0])


def test_rare_categories_do_not_depend_on_rows_sharding_or_storage():
    rng = np.random.default_rng(1)
    X = rng.poisson(0.3, size=(600, 2)) * rng.integers(-9, 9, size=(600, 2)).astype(float)
    w = rng.integers(1, 4, 600)
    categorical, order = np.array([True, True]), rng.permutation(600)
    expected = find_bins(X, 0.7 * w, 5, categorical)
    assert set(expected.rare) == {0, 1}
    X32 = X.astype(np.float32)
    for sample in (10_000, 10):
        with mock.patch.object(content, "SAMPLE_ROWS", sample):
            others = [
                find_bins(X[order], w[order] * 0.7, 5, categorical, Threads(2)),
                find_bins(np.repeat(X, w, axis=0), np.ones(w.sum()), 5, categorical),
                find_bins(sp.csr_matrix(X), w * 2.0, 5, categorical),
                find_bins(sp.csc_matrix(X32), w * 1.0, 5, categorical),
                *on_shards(3, lambda comm: find_bins(
                    X[comm.rank :: 3], 0.7 * w[comm.rank :: 3], 5, categorical, comm=comm
                )),
            ]  # fmt: skip
            for other in others:
                for j in (0, 1):
                    np.testing.assert_array_equal(other.edges[j], expected.edges[j])
                    np.testing.assert_array_equal(other.rare[j], expected.rare[j])
            dense = bin_columns(X, expected)[1]
            for made in (sp.csr_matrix(X), sp.csc_matrix(X32)):
                np.testing.assert_array_equal(sparse_bins(made, expected), dense)


def test_no_category_is_lost_by_sampling(monkeypatch):
    """Above the limit a category with few rows is not missing, as all rows are counted."""
    monkeypatch.setattr(content, "SAMPLE_ROWS", 50)
    X = np.column_stack([np.arange(2000.0), np.repeat([0.0, 1.0], 1000)])
    X[7, 1] = 9.0
    bins = find_bins(X, np.ones(2000), categorical=np.array([False, True]))
    np.testing.assert_array_equal(bins.edges[1], [0.0, 1.0, 9.0])


def test_threads_change_nothing():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(5000, 4))
    bins = find_bins(X, np.ones(5000))
    one, two = bin_columns(X, bins, Threads(1)), bin_columns(X, bins, Threads(2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_objects_that_are_numbers_are_binned_as_such():
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[::7, 1] = np.nan
    expected, found = (find_bins(made, np.ones(300), 16) for made in (X, X.astype(object)))
    for edges, same in zip(expected.edges, found.edges, strict=True):
        np.testing.assert_array_equal(edges, same)
