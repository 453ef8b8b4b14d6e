"""What may be given as X and y: arrays, sparse matrices, data frames of any library, any labels."""

from __future__ import annotations

import datetime
import decimal
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from maboost import HistTreeClassifier, MABoostClassifier, SmoothBoostClassifier, load_model
from maboost.data import RareCategoriesWarning

N = 240
COLORS = ["red", "green", "blue", "grey"]

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def libraries():
    return pytest.mark.parametrize("library", LIBRARIES)


def boost(**tree):
    return SmoothBoostClassifier(HistTreeClassifier(**tree), n_estimators=6)


def answers(model, X):
    """What a model says, to the last bit."""
    return (
        model.decision_function(X)
        if hasattr(model, "decision_function")
        else model.predict_proba(X)
    )


def same(one, two):
    np.testing.assert_array_equal(one, two, strict=True)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def numbers(rng):
    """Columns of floats, integers and booleans, and labels that need all of them."""
    size, count, flag = rng.normal(size=N), rng.integers(0, 9, size=N), rng.random(N) < 0.5
    size[rng.random(N) < 0.2] = np.nan
    y = np.where(np.isnan(size), flag, np.nan_to_num(size) + 0.3 * count > 1.0).astype(int)
    return {"size": size, "count": count, "flag": flag}, y


@pytest.fixture
def colors(rng):
    """A column of numbers, one of colours with some missing, and labels."""
    color = rng.choice(np.array([*COLORS, None], dtype=object), size=N)
    size = rng.normal(size=N)
    y = np.where(np.isin(color, ["red", "grey"]), size > 0.0, color == None)  # noqa: E711
    return size, color.tolist(), y.astype(int)


def chunked(color):
    """Two chunks with a dictionary each, in another order."""
    half = len(color) // 2
    first = pa.array(color[:half], type=pa.string())
    second = pa.array(["grey", "blue", *color[half:]], type=pa.string())
    return pa.chunked_array([first.dictionary_encode(), second.dictionary_encode()[2:]])


UNORDERED = {
    "pandas object": lambda c: pd.Series(c, dtype=object),
    "pandas inferred": pd.Series,
    "pandas string": lambda c: pd.Series(c, dtype="string"),
    "pandas arrow": lambda c: pd.Series(c, dtype=pd.ArrowDtype(pa.string())),
    "pandas category": lambda c: pd.Series(c, dtype="category"),
    "pandas declared": lambda c: pd.Series(pd.Categorical(c, ["violet", *COLORS])),
    "polars string": lambda c: pl.Series(c, dtype=pl.String),
    "polars categorical": lambda c: pl.Series(c, dtype=pl.Categorical),
    "pyarrow string": lambda c: pa.array(c, type=pa.string()),
    "pyarrow large string": lambda c: pa.array(c, type=pa.large_string()),
    "pyarrow string view": lambda c: pa.array(c, type=pa.string_view()),
    "pyarrow dictionary": lambda c: pa.array(c, type=pa.string()).dictionary_encode(),
    "pyarrow chunks": chunked,
}
ORDERED = {
    "pandas ordered": lambda c: pd.Series(pd.Categorical(c, COLORS, ordered=True)),
    "polars enum": lambda c: pl.Series(c, dtype=pl.Enum(["violet", *COLORS])),
    "pyarrow ordered": lambda c: pa.array(pd.Categorical(c, COLORS, ordered=True)),
}
TEXT = UNORDERED | ORDERED


def table(kind, size, color):
    """A frame of the library that `kind` begins with."""
    return LIBRARIES[kind.split()[0]]({"size": size, "color": TEXT[kind](color)})


def coded(size, color, order):
    """The same as an array, with codes in the given order."""
    codes = [order.index(c) if c in order else np.nan for c in color]
    return np.column_stack([size, codes])


# ------------------------------------------------------------------------------------------- numbers


@libraries()
@pytest.mark.parametrize(
    "model", [boost(), MABoostClassifier(n_estimators=6), HistTreeClassifier()]
)
def test_every_library_gives_the_same_model(numbers, library, model):
    columns, y = numbers
    X, frame = np.column_stack(list(columns.values())), LIBRARIES[library](columns)
    expected = answers(model.fit(X, y), X)
    same(answers(model.fit(frame, y), frame), expected)
    assert model.feature_names_in_.tolist() == ["size", "count", "flag"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no feature names
        same(answers(model, X), expected)


NULLABLE = {
    "pandas Int64": lambda v: pd.DataFrame({"a": pd.array(v, dtype="Int64")}),
    "pandas arrow": lambda v: pd.DataFrame({"a": pd.array(v, dtype="int64[pyarrow]")}),
    "pandas Float64": lambda v: pd.DataFrame({"a": pd.array(v, dtype="Float64")}),
    "pandas object": lambda v: pd.DataFrame({"a": pd.Series(v, dtype=object)}),
    "pandas decimal": lambda v: pd.DataFrame(
        {"a": pd.Series([None if x is None else decimal.Decimal(x) for x in v], dtype=object)}
    ),
    "polars": lambda v: pl.DataFrame({"a": v}),
    "polars float": lambda v: pl.DataFrame({"a": pl.Series(v, dtype=pl.Float32)}),
    "polars wide": lambda v: pl.DataFrame({"a": pl.Series(v, dtype=pl.Int128)}),
    "polars decimal": lambda v: pl.DataFrame({"a": pl.Series(v).cast(pl.Decimal(10, 2))}),
    "pyarrow": lambda v: pa.table({"a": v}),
    "pyarrow decimal": lambda v: pa.table({"a": pa.array(v).cast(pa.decimal128(21, 2))}),
}
NULLABLE_BOOLEANS = {
    "pandas boolean": lambda v: pd.DataFrame({"a": pd.array(v, dtype="boolean")}),
    "pandas arrow": lambda v: pd.DataFrame({"a": pd.array(v, dtype="bool[pyarrow]")}),
    "pandas object": lambda v: pd.DataFrame({"a": pd.Series(v, dtype=object)}),
    "polars": lambda v: pl.DataFrame({"a": v}),
    "pyarrow": lambda v: pa.table({"a": v}),
}


@pytest.mark.parametrize("made", NULLABLE.values(), ids=NULLABLE)
def test_missing_integers_are_missing(rng, made):
    values = [None if v == 0 else int(v) for v in rng.integers(0, 5, size=N)]
    X = np.array(values, dtype=float).reshape(-1, 1)
    y = np.isnan(X[:, 0]) | (X[:, 0] == 3.0)
    frame = made(values)
    same(answers(boost().fit(frame, y), frame), answers(boost().fit(X, y), X))


@pytest.mark.parametrize("library", ["pandas Int64", "pandas arrow", "polars", "pyarrow"])
def test_large_integers_are_rounded_also_where_some_are_missing(library):
    values = [None, *(10**18 + 1000 * i for i in range(1, N))]
    X = np.array(values, dtype=float).reshape(-1, 1)
    frame, y = NULLABLE[library](values), np.arange(N) > N // 2
    with pytest.warns(UserWarning, match="column 'a' of X: some whole numbers are beyond"):
        fitted = boost().fit(frame, y)
    same(answers(fitted, frame), answers(boost().fit(X, y), X))


@pytest.mark.parametrize("made", NULLABLE_BOOLEANS.values(), ids=NULLABLE_BOOLEANS)
def test_missing_booleans_are_missing(rng, made):
    values = rng.choice(np.array([True, False, None], dtype=object), size=N).tolist()
    X = np.array(values, dtype=float).reshape(-1, 1)
    y = np.isnan(X[:, 0])
    frame = made(values)
    same(answers(boost().fit(frame, y), frame), answers(boost().fit(X, y), X))


@libraries()
def test_a_column_may_be_all_missing(numbers, library):
    columns, y = numbers
    frame = LIBRARIES[library](columns | {"nothing": [None] * N, "color": ["red"] * N})
    model = boost().fit(frame, y)
    later = LIBRARIES[library](columns | {"nothing": [None] * N, "color": [None] * N})
    same(model.predict(later), model.predict(frame))


def test_single_precision_gives_the_same_model(rng):
    X = rng.normal(size=(N, 3)).astype(np.float32)
    y = X[:, 0] > X[:, 1]
    expected = answers(boost().fit(X.astype(float), y), X.astype(float))
    same(answers(boost().fit(X, y), X), expected)
    for made in LIBRARIES.values():
        frame = made({name: X[:, j] for j, name in enumerate("abc")})
        same(answers(boost().fit(frame, y), frame), expected)


@pytest.mark.parametrize("made", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array])
def test_sparse_equals_dense(rng, made):
    X = rng.normal(size=(N, 5)) * (rng.random((N, 5)) < 0.3)
    y = X[:, 0] - X[:, 1] > 0.1
    for model in (boost(), HistTreeClassifier()):
        expected = answers(model.fit(X, y), X)
        same(answers(model.fit(made(X), y), made(X)), expected)
        same(answers(model, X), expected)


@pytest.mark.parametrize("made", [sp.csr_matrix, sp.csc_matrix])
def test_entries_that_stand_twice_are_summed(rng, made):
    X = rng.normal(size=(N, 5)) * (rng.random((N, 5)) < 0.3)
    y = X[:, 0] - X[:, 1] > 0.1
    once = made(X)
    twice = made(
        (np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), 2 * once.indptr), shape=X.shape
    )
    for model in (boost(), HistTreeClassifier()):
        same(answers(model.fit(twice, y), twice), answers(model.fit(X, y), X))
    assert twice.nnz == 2 * once.nnz  # the user's own matrix is as it was


def test_a_pandas_frame_may_be_sparse(rng):
    X = rng.integers(0, 3, size=(N, 3)) * (rng.random((N, 3)) < 0.3)
    frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(X), columns=list("abc"))
    y = X[:, 0] > X[:, 1]
    same(answers(boost().fit(frame, y), frame), answers(boost().fit(X, y), X))


def test_other_estimators_take_every_library(numbers):
    columns, y = numbers
    model = MABoostClassifier(DecisionTreeClassifier(max_depth=2, random_state=0), n_estimators=3)
    X = np.column_stack(list(columns.values()))
    expected = answers(model.fit(X, y), X)
    for made in LIBRARIES.values():
        frame = made(columns)
        same(answers(model.fit(frame, y), frame), expected)
        assert model.feature_names_in_.tolist() == ["size", "count", "flag"]


# --------------------------------------------------------------------------------- text and categories


@pytest.mark.parametrize("kind", UNORDERED)
def test_text_and_categories_are_sorted(colors, kind):
    size, color, y = colors
    X, frame = coded(size, color, sorted(COLORS)), table(kind, size, color)
    expected = answers(boost(categorical_features=[1]).fit(X, y), X)
    model = boost().fit(frame, y)
    same(answers(model, frame), expected)
    assert model.score(frame, y) > 0.95
    assert model.feature_names_in_.tolist() == ["size", "color"]


@pytest.mark.parametrize("kind", ORDERED)
def test_ordered_categories_keep_their_order(colors, kind):
    size, color, y = colors
    X, frame = coded(size, color, COLORS), table(kind, size, color)
    for of_array, of_frame in (([1], "from_dtype"), (None, None)):  # as categories, and as numbers
        expected = answers(boost(categorical_features=of_array).fit(X, y), X)
        same(answers(boost(categorical_features=of_frame).fit(frame, y), frame), expected)


@pytest.mark.parametrize("kind", TEXT)
def test_unseen_categories_go_the_missing_way(colors, kind):
    size, color, y = colors
    for model in (boost(), HistTreeClassifier()):
        model.fit(table(kind, size, color), y)
        missing = answers(model, table("polars string", size, [None] * N))
        assert not np.array_equal(missing, answers(model, table(kind, size, color)))
        for later in ("pandas object", "pandas category", "polars categorical", "pyarrow string"):
            same(answers(model, table(later, size, ["violet"] * N)), missing)
        same(answers(model, table(kind, size, [None] * N)), missing)


@pytest.mark.parametrize("kind", TEXT)
def test_the_library_may_change_after_the_fit(colors, kind):
    size, color, y = colors
    model = boost().fit(table("pandas category", size, color), y)
    model = pickle.loads(pickle.dumps(model))
    expected = answers(model, table("pandas category", size, color))
    same(answers(model, table(kind, size, color)), expected)
    few = np.flatnonzero(np.array(color) == "grey")[:3]
    part = table(kind, size[few], ["grey"] * 3)
    same(answers(model, part), expected[few])


@pytest.mark.parametrize("kind", ["pandas inferred", "polars enum", "pyarrow dictionary"])
def test_validation_rows_and_single_trees_see_the_same_codes(colors, kind):
    size, color, y = colors
    frame = table(kind, size, color)
    model = boost().fit(frame, y, X_val=frame, y_val=y)
    same(model.history_["val_error"], model.history_["train_error"])
    assert model.estimators_[0].predict(frame).shape == (N,)
    *_, last = model.staged_predict(frame)
    same(last, model.predict(frame))


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, None, 7],
        [2.5, 0.5, None, 9.0],
        [True, False, None, True],
        [(1, 2), (3, 4), None, (5, 6)],
    ],
    ids=["integers", "floats", "booleans", "intervals"],
)
def test_categories_need_not_be_text(values):
    made = [pd.Interval(*v) if isinstance(v, tuple) else v for v in values]
    frame = pd.DataFrame({"a": pd.Categorical(made * 10)})
    y = np.array([1, 0, 1, 1] * 10)
    assert HistTreeClassifier().fit(frame, y).score(frame, y) == 1.0


def test_column_names_may_be_numbers(colors):
    size, color, y = colors
    frame = pd.DataFrame({0: size, 1: color}, index=np.arange(N) // 2)
    named = table("pandas object", size, color)
    model = boost().fit(frame, y)
    same(answers(model, frame), answers(boost().fit(named, y), named))
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="X has 1 columns, but had 2 at the fit"):
        model.predict(frame[[0]])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.sampled_from([None, "", "a", "Ä", "ß", "null", "nan", "\U0001f642"]),
        min_size=8,
        max_size=30,
    ),
    st.integers(0, 2**31),
)
def test_any_text_is_the_same_everywhere(text, seed):
    y = np.arange(len(text)) % 2
    np.random.default_rng(seed).shuffle(y)
    size = np.zeros(len(text))
    first, *others = [
        answers(HistTreeClassifier().fit(frame, y), frame)
        for kind in UNORDERED
        if kind not in ("pandas declared", "pyarrow chunks")
        for frame in [table(kind, size, text)]
    ]
    for other in others:
        same(other, first)


# ------------------------------------------------------------------------------- what is refused, and how


@libraries()
@pytest.mark.parametrize("model", [boost(), HistTreeClassifier()], ids=["booster", "tree"])
def test_feature_names_are_checked(colors, library, model):
    size, color, y = colors
    made = LIBRARIES[library]
    model.fit(made({"size": size, "color": color}), y)
    for columns, message in (
        ({"size": size, "colour": color}, "(?s)unseen at fit time:\n- colour.*missing:\n- color"),
        ({"color": color, "size": size}, "must be in the same order"),
        ({"size": size}, "(?s)seen at fit time, yet now missing:\n- color"),
        ({"size": size, "color": color, "more": size}, "(?s)unseen at fit time:\n- more"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(made(columns))


@libraries()
def test_a_changed_dtype_is_named(colors, library):
    size, color, y = colors
    made = LIBRARIES[library]
    model = boost().fit(made({"size": size, "color": color}), y)
    with pytest.raises(ValueError, match="column 'size' was Float64 at the fit and is String now"):
        model.predict(made({"size": color, "color": color}))
    with pytest.raises(ValueError, match="column 'color' was String at the fit and is Float64 now"):
        model.predict(made({"size": size, "color": size}))
    with pytest.raises(
        ValueError, match=r"with categories at the fit \(in \['color'\]\): pass a data"
    ):
        model.predict(np.column_stack([size, size]))
    unnamed = boost().fit(np.column_stack([size, size]), y)
    with pytest.raises(
        ValueError, match="column 'color' was a number at the fit and is String now"
    ):
        unnamed.predict(made({"size": size, "color": color}))


UNSUPPORTED = {
    "List": [[1.0, 2.0]] * N,
    "Struct": [{"a": 1}] * N,
    "Binary": [b"abc"] * N,
}


@libraries()
@pytest.mark.parametrize("dtype", UNSUPPORTED)
def test_other_dtypes_are_refused_by_name(numbers, library, dtype):
    columns, y = numbers
    frame = LIBRARIES[library](columns | {"when": UNSUPPORTED[dtype]})
    kept = dtype if library != "pandas" else "object"
    message = f"column 'when' has dtype {kept}, which is neither a number"
    for model in (boost(), HistTreeClassifier()):
        with pytest.raises(ValueError, match=message):
            model.fit(frame, y)


def test_all_columns_that_are_refused_are_named_at_once(numbers):
    columns, y = numbers
    frame = pl.DataFrame(columns | {name: UNSUPPORTED[name] for name in ("List", "Binary")})
    with pytest.raises(ValueError, match=r"(?s)'List' has dtype List.*'Binary' has dtype Binary"):
        boost().fit(frame, y)


SECONDS = np.array([0.0, 86400.0, np.nan, -3600.25, 1e9, 1.5e9] * (N // 6))
_EPOCH = datetime.datetime(1970, 1, 1)


def _gaps(values):
    return [None if np.isnan(v) else datetime.timedelta(seconds=v) for v in values]


def _moments(values, zone=None):
    return [None if gap is None else (_EPOCH + gap).replace(tzinfo=zone) for gap in _gaps(values)]


_DAYS = np.where(np.isnan(SECONDS), np.nan, SECONDS // 86400 * 86400)
_TIMES = np.where(np.isnan(SECONDS), np.nan, np.abs(SECONDS) % 86400)
_ZONE = datetime.timezone(datetime.timedelta(hours=2))
# the values of a column, and the seconds that a model is to see
TIMES = {
    "moments": (_moments(SECONDS), SECONDS),
    "moments with a zone": (_moments(SECONDS + 7200, _ZONE), SECONDS),
    "days": ([m and m.date() for m in _moments(SECONDS)], _DAYS),
    "durations": (_gaps(SECONDS), SECONDS),
    "times of day": ([m and m.time() for m in _moments(_TIMES)], _TIMES),
}


def _of_times(library, kind):
    values, seconds = TIMES[kind]
    if library != "pandas":
        return LIBRARIES[library]({"x": np.arange(N) % 7.0, "when": values}), seconds
    typed = pa.array(values)
    dtype = None if kind in ("moments", "durations") else pd.ArrowDtype(typed.type)
    when = pd.Series(values, dtype=dtype)
    return pd.DataFrame({"x": np.arange(N) % 7.0, "when": when}), seconds


@libraries()
@pytest.mark.parametrize("kind", TIMES)
def test_dates_and_times_are_seconds(library, kind):
    frame, seconds = _of_times(library, kind)
    plain = pd.DataFrame({"x": np.arange(N) % 7.0, "when": seconds})
    y = np.where(np.isnan(seconds), 1, seconds > 1000.0).astype(int)
    for model in (boost(), HistTreeClassifier()):
        found, expected = clone(model).fit(frame, y), clone(model).fit(plain, y)
        same(answers(found, frame), answers(expected, plain))
        few = frame[:3] if library != "pyarrow" else frame.slice(0, 3)
        same(answers(found, few), answers(expected, plain[:3]))


@libraries()
def test_dates_and_numbers_do_not_replace_each_other(library):
    frame, seconds = _of_times(library, "moments")
    plain = LIBRARIES[library]({"x": np.arange(N) % 7.0, "when": np.nan_to_num(seconds)})
    durations, _ = _of_times(library, "durations")
    y = np.arange(N) % 2
    dated, numbered = boost().fit(frame, y), boost().fit(plain, y)
    with pytest.raises(ValueError, match="'when' was Datetime at the fit and is Float64 now"):
        dated.predict(plain)
    with pytest.raises(ValueError, match="'when' was Datetime at the fit and is Duration now"):
        dated.predict(durations)
    with pytest.raises(ValueError, match="'when' was Float64 at the fit and is Datetime now"):
        numbered.predict(frame)


def test_dates_in_a_model_file_and_on_disk(tmp_path):
    frame, seconds = _of_times("pyarrow", "moments")
    y = np.where(np.isnan(seconds), 1, seconds > 1000.0).astype(int)
    model = boost().fit(frame, y)
    model.save(tmp_path / "m.maboost")
    loaded = load_model(tmp_path / "m.maboost")
    same(answers(loaded, frame), answers(model, frame))
    with pytest.raises(ValueError, match="'when' was Datetime at the fit"):
        loaded.predict(pd.DataFrame({"x": [1.0], "when": [2.0]}))
    pq.write_table(frame.append_column("y", pa.array(y)), tmp_path / "rows.parquet")
    stored = boost().fit(str(tmp_path / "rows.parquet"), "y")
    same(answers(stored, frame), answers(model, frame))


@pytest.mark.parametrize("values", [np.ones(N) * 1j, pd.period_range("2024", periods=N)])
def test_other_pandas_dtypes_are_refused_by_name(numbers, values):
    columns, y = numbers
    with pytest.raises(ValueError, match=r"column 'a' has dtype (complex128|period\[D\])"):
        boost().fit(pd.DataFrame(columns | {"a": values}), y)


def test_a_column_of_text_and_numbers_is_refused(numbers):
    columns, y = numbers
    mixed = ["a"] * (N - 1) + [3.5]
    with pytest.raises(ValueError, match=r"column 'a' holds 3\.5 besides text"):
        boost().fit(pd.DataFrame(columns | {"a": pd.Series(mixed, dtype=object)}), y)
    with pytest.raises(ValueError, match="column 'a' has dtype object"):
        boost().fit(pd.DataFrame(columns | {"a": pd.Series(mixed[::-1], dtype=object)}), y)


@pytest.mark.parametrize(
    "kind", ["pandas object", "pandas category", "polars enum", "pyarrow string"]
)
def test_more_categories_than_bins_share_one(rng, kind):
    names = [f"c{i:03}" for i in range(300)]
    values = rng.permutation(np.array(names + names[100:])).tolist()
    column = pl.Series(values, dtype=pl.Enum(names)) if "enum" in kind else TEXT[kind](values)
    frame = LIBRARIES[kind.split()[0]]({"size": rng.normal(size=500), "city": column})
    for model in (boost(), HistTreeClassifier()):
        with pytest.warns(
            RareCategoriesWarning, match="'city' has 300 categories, of which the 46"
        ):
            model.fit(frame, rng.integers(0, 2, size=500))
        assert model.rare_categories_ == {"city": names[54:100]}


def test_text_that_is_left_out_of_the_categories_is_refused(colors):
    size, color, y = colors
    for features in (None, ["size"], [True, False]):
        with pytest.raises(ValueError, match="column 'color' is text, but categorical_features"):
            boost(categorical_features=features).fit(table("polars string", size, color), y)


def test_text_in_an_array_asks_for_a_data_frame(colors):
    size, color, y = colors
    X = np.column_stack([size.astype(object), np.array(color, dtype=object)])
    with pytest.raises(
        ValueError, match=r"column 1 of X is not numeric \(could not .*'\): pass a data"
    ):
        boost().fit(X, y)
    with pytest.raises(ValueError, match=r"column 0 of X is not numeric \(could not .*'red'"):
        boost().fit(np.full((N, 1), "red"), y)
    with pytest.raises(ValueError, match="could not convert string to float: 'red'"):
        boost().fit([[1.0, "red"]] * N, y)
    X[:, 1] = [None if c is None else 1 for c in color]
    expected = answers(boost().fit(X.astype(float), y), X.astype(float))
    same(answers(boost().fit(X, y), X), expected)


@pytest.mark.parametrize("kind", ["pandas string", "polars string", "pyarrow string"])
@pytest.mark.parametrize("model", [boost(), HistTreeClassifier()])
def test_an_array_of_the_values_goes_by_position(colors, kind, model):
    """As permutation_importance and others pass on frames that are not of pandas."""
    size, color, y = colors
    model = clone(model).fit(table(kind, size, color), y)
    X = np.column_stack([size.astype(object), np.array(color, dtype=object)])
    expected = model.predict_proba(table(kind, size, color))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    gone = X.copy()
    gone[:, 1] = None
    unknown = X.copy()
    unknown[:, 1] = "a colour nobody has seen"
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(model.predict_proba(unknown), model.predict_proba(gone))
    X[3, 1] = 1
    with pytest.raises(ValueError, match="was text or categories at the fit and holds 1 now"):
        model.predict(X)
    for other in (X[:, :1], np.zeros((3, 2)), X[0]):
        with pytest.raises(ValueError, match="pass a data frame with the same columns"):
            model.predict(other)


def test_a_frame_must_hold_rows_and_distinct_names(numbers):
    columns, y = numbers
    with pytest.raises(ValueError, match="X is a lazy frame"):
        boost().fit(pl.LazyFrame(columns), y)
    with pytest.raises(ValueError, match=f"X has {N} rows but no columns"):
        boost().fit(pd.DataFrame(index=range(N)), y)
    frame = pd.DataFrame(columns).set_axis(["a", "b", "a"], axis=1)
    with pytest.raises(ValueError, match="'a' 2 times"):
        boost().fit(frame, y)
    with pytest.raises(ValueError, match=r"(?i)expected 2D|2-dimensional"):
        boost().fit(pl.Series(columns["size"]), y)


def test_frames_that_an_older_scikit_learn_cannot_read_are_refused(monkeypatch):
    monkeypatch.setattr("maboost.data.frames._READS_ALL_FRAMES", False)
    monkeypatch.delattr(pl.DataFrame, "__dataframe__", raising=False)  # polars 1 has it
    rows, y = {"size": [1.0, 2.0, 3.0, 4.0]}, [0, 0, 1, 1]
    assert SmoothBoostClassifier(n_estimators=2).fit(pd.DataFrame(rows), y).n_features_in_ == 1
    assert SmoothBoostClassifier(n_estimators=2).fit(pa.table(rows), y).n_features_in_ == 1
    with pytest.raises(ValueError, match=r"frame of polars, .* scikit-learn .* update"):
        SmoothBoostClassifier(n_estimators=2).fit(pl.DataFrame(rows), y)


# -------------------------------------------------------------------------------------------- labels

NAMES = np.array(["no", "yes"])
LABELS = {
    "strings": lambda b: NAMES[b],
    "list": lambda b: NAMES[b].tolist(),
    "objects": lambda b: NAMES[b].astype(object),
    "booleans": lambda b: b.astype(bool),
    "integers": lambda b: b - 5,
    "pandas": lambda b: pd.Series(NAMES[b], index=b),
    "pandas string": lambda b: pd.Series(NAMES[b], dtype="string"),
    "pandas category": lambda b: pd.Series(NAMES[b], dtype="category"),
    "categorical": lambda b: pd.Categorical(NAMES[b], ["yes", "no"]),
    "polars": lambda b: pl.Series(NAMES[b].tolist()),
    "polars categorical": lambda b: pl.Series(NAMES[b].tolist(), dtype=pl.Categorical),
    "polars enum": lambda b: pl.Series(NAMES[b].tolist(), dtype=pl.Enum(["yes", "no"])),
    "polars booleans": lambda b: pl.Series(b.astype(bool)),
    "pyarrow": lambda b: pa.array(NAMES[b].tolist()),
    "pyarrow integers": lambda b: pa.array(b),
    "pyarrow chunks": lambda b: pa.chunked_array([NAMES[b][:9].tolist(), NAMES[b][9:].tolist()]),
    "pyarrow dictionary": lambda b: pa.chunked_array([pa.array(NAMES[b]).dictionary_encode()]),
    "pandas array": lambda b: pd.array(NAMES[b], dtype="string"),
}


@pytest.mark.parametrize("made", LABELS.values(), ids=LABELS)
def test_labels_of_any_type(numbers, made):
    columns, codes = numbers
    X = np.column_stack(list(columns.values()))
    y = made(codes)
    values = np.asarray(y)
    for model in (boost(), HistTreeClassifier()):
        expected, score = answers(model.fit(X, codes), X), model.score(X, codes)
        model.fit(X, y)
        assert model.classes_.tolist() == sorted(set(values.tolist()))
        same(answers(model, X), expected)
        assert set(model.predict(X).tolist()) <= set(values.tolist())
        assert model.score(X, y) == score
    model = boost().fit(X, y, X_val=X, y_val=y)
    same(model.history_["val_error"], model.history_["train_error"])
    assert model.margins(X, y).shape == (N,)


@pytest.mark.parametrize("made", [pd.Series, pd.array])
@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_nullable_labels_keep_their_type(numbers, dtype, made):
    columns, codes = numbers
    y = made(codes, dtype=dtype)
    model = HistTreeClassifier().fit(pd.DataFrame(columns), y)
    assert model.classes_.dtype == y.to_numpy().dtype


@pytest.mark.parametrize(
    "made",
    [
        lambda y: pd.Series(y, dtype="string"),
        lambda y: pd.Series(y, dtype="category"),
        pl.Series,
        lambda y: pa.chunked_array([pa.array(y).dictionary_encode()]),
        pa.array,
        pd.Categorical,
        lambda y: pd.array([None if v is None else v == "yes" for v in y], dtype="boolean"),
    ],
    ids=[
        "pandas string", "pandas category", "polars", "pyarrow dictionary", "pyarrow", "categorical",
        "pandas array",
    ],
)  # fmt: skip
def test_missing_labels_are_refused(numbers, made):
    columns, codes = numbers
    y = NAMES[codes].astype(object)
    y[[0, 7]] = None
    with pytest.raises(ValueError, match="y has 2 missing labels, the first in row 0"):
        HistTreeClassifier().fit(pd.DataFrame(columns), made(y.tolist()))


@pytest.mark.parametrize("value", [1, True, 0.5, decimal.Decimal(1), datetime.date(2020, 1, 31)])
def test_objects_that_are_no_text_are_no_labels(numbers, value):
    """scikit-learn's message is about regression, and names neither y nor the value."""
    columns, codes = numbers
    y = np.array(["no" if code else value for code in codes], dtype=object)
    for model in (boost(), HistTreeClassifier()):
        with pytest.raises(
            ValueError, match=f"y has dtype object and holds .*{type(value).__name__}"
        ):
            model.fit(pd.DataFrame(columns), y)


def test_a_record_batch_is_a_table():
    rng = np.random.default_rng(0)
    table = pa.table({"size": rng.normal(size=80), "colour": rng.choice(["red", "blue"], 80)})
    y = np.asarray(table["colour"]) == "red"
    (batch,) = table.to_batches()
    for columns in (["size", "colour"], ["size"]):
        model = MABoostClassifier(n_estimators=2, random_state=0)
        whole = clone(model).fit(table.select(columns), y)
        part = clone(model).fit(batch.select(columns), y)
        assert part.feature_names_in_.tolist() == columns
        np.testing.assert_array_equal(
            part.decision_function(batch.select(columns)),
            whole.decision_function(table.select(columns)),
        )


@pytest.mark.parametrize("ordered", [False, True])
def test_a_null_among_the_categories_of_arrow_is_a_missing_value(ordered):
    """As `dictionary_encode(null_encoding="encode")` writes it."""
    rng = np.random.default_rng(0)
    at, y = rng.integers(0, 4, 200).astype(np.int32), rng.integers(0, 2, 200)
    y[at == 1] = 1
    encoded, plain = (
        pa.table(
            {"c": pa.DictionaryArray.from_arrays(codes, pa.array(values), ordered=ordered)}
        )
        for codes, values in (
            (at, ["z", None, "b", "a"]),
            (pa.array(at, mask=at == 1), ["z", "unused", "b", "a"]),
        )
    )  # fmt: skip
    model = MABoostClassifier(n_estimators=4, early_stopping=True, random_state=0)
    first, second = clone(model).fit(encoded, y), clone(model).fit(plain, y)
    for rows in (encoded, plain):
        np.testing.assert_array_equal(
            first.decision_function(rows), second.decision_function(plain)
        )


def frames_of_a_few_rows():
    """A frame with numbers of several dtypes and every kind of category, and changes that must matter."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "count": rng.integers(0, 9, n),
            "small": rng.normal(size=n).astype(np.float32),
            "flag": rng.random(n) < 0.5,
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
            "grade": pd.Categorical(rng.integers(1, 5, n), ordered=True),
            "town": rng.choice(["Bonn", "Ulm", "Jena"], n),
        }
    )
    y = (frame["size"] > 0) ^ (frame["colour"] == "red") ^ (frame["town"] == "Ulm")
    few = frame.iloc[:40]
    gaps = few.assign(size=np.nan, colour=few["colour"].where(few["flag"]), town=None)
    unseen = few.assign(colour=few["colour"].cat.rename_categories({"red": "rot"}), town="Rom")
    return frame, y, {
        "as fitted": few,
        "missing": gaps,
        "unseen": unseen,
        "object": few.astype({"town": object}),
        "one": few.iloc[[3]],
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["as fitted", "missing", "unseen", "object", "one"])
def test_few_rows_of_a_frame_are_read_as_many(kind):
    """Categories of few rows are looked up value by value, and those of many column by column."""
    frame, y, few = frames_of_a_few_rows()
    model = MABoostClassifier(n_estimators=8).fit(frame, y)
    rows = few[kind]
    votes = model.decision_function(rows)
    many = pd.concat([rows] * (2000 // len(rows)), ignore_index=True)
    many = many.astype({"town": rows["town"].dtype})
    np.testing.assert_array_equal(model.decision_function(many)[: len(rows)], votes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "1"}, "column 'size' was Float64 at the fit and is String now"),
        ({"town": 1.0}, "column 'town' was String at the fit and is Float64 now"),
        ({"size": np.inf}, "Input X contains infinity"),
        ({"more": 1.0}, "feature names"),
    ],
)
def test_few_rows_of_another_frame_are_refused_as_before(change, message):
    frame, y, few = frames_of_a_few_rows()
    model = MABoostClassifier(n_estimators=3).fit(frame, y)
    with pytest.raises(ValueError, match=message):
        model.predict(few["one"].assign(**change))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(few["one"][frame.columns[::-1]])
