"""suspect_labels(): which labels are wrong, how probably, and how many."""

import itertools
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from maboost import CombinedBoostClassifier, MABoostClassifier, SmoothBoostClassifier
from maboost.estimators import fitting

COLUMNS = [
    "is_label_issue", "label_quality", "probability_wrong", "given_label", "suggested_label", "predicted_label",
    "mean_weight",
]  # fmt: skip
SYMMETRIC = np.array([[0.8, 0.2], [0.2, 0.8]])
ONE_SIDED = np.array([[1.0, 0.0], [0.4, 0.6]])
THREE = np.array([[0.8, 0.15, 0.05], [0.1, 0.9, 0.0], [0.3, 0.0, 0.7]])


def population(T, rows=3000, seed=0):
    """Rows of overlapping classes with true labels, and given ones under the flip rates `T`."""
    rng, K = np.random.default_rng(seed), len(T)
    X = rng.normal(size=(rows, 3))
    scores = np.column_stack([np.zeros(rows), 2.5 * X[:, 0] - 0.5, 2.5 * X[:, 1] - 0.5])[:, :K]
    true = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return X, true, drawn(T[true], rng)


def drawn(chances, rng):
    """A class for each row, with the chances in its row."""
    return (chances.cumsum(axis=1) < rng.random(len(chances))[:, None]).sum(axis=1)


def booster(cls=SmoothBoostClassifier, **params):
    params = {"n_estimators": 40, "max_depth": 3, "random_state": 0, "n_jobs": 1} | params
    return cls(**params)


def in_order(table):
    """The table in the order of the training rows; the index is positions."""
    return table.sort_index()


def assert_calibrated(table, wrong, interval_holds=True):
    p = table["probability_wrong"].to_numpy()
    assert np.all((p >= 0.0) & (p <= 1.0))
    for low, high in itertools.pairwise((0.0, 0.1, 0.25, 0.5, 1.01)):
        inside = (p >= low) & (p < high)
        if inside.sum() >= 150:
            assert abs(p[inside].mean() - wrong[inside].mean()) < 0.1
    low, high = table.attrs["interval"]
    assert table.attrs["expected_wrong"] == pytest.approx(p.sum())
    assert low <= p.sum() <= high
    if interval_holds:
        assert low <= wrong.sum() <= high  # in one of twenty populations it is not
    assert 0 < high - low < 0.25 * len(p)


@pytest.mark.parametrize(
    "T", [SYMMETRIC, ONE_SIDED, THREE], ids=["symmetric", "one-sided", "three"]
)
def test_the_probabilities_are_calibrated(T):
    X, true, given = population(T)
    table = in_order(booster(flip_rates=T).fit(X, given).suspect_labels())
    assert list(table.columns) == COLUMNS
    # the interval follows from the rates alone, and misses the number of these rows of three classes
    assert_calibrated(table, true != given, interval_holds=len(T) == 2)
    never = T[0, 1] == 0.0 and len(T) == 2
    if never:  # no label 1 can be wrong
        assert (table["probability_wrong"][given == 1] == 0.0).all()
    np.testing.assert_array_equal(table["is_label_issue"], table["probability_wrong"] > 0.5)
    np.testing.assert_allclose(table["label_quality"], 1.0 - table["probability_wrong"])
    issues = table["is_label_issue"].to_numpy()
    if len(T) == 2:  # of three, a class below a half may still be the most probable
        differs = (table["suggested_label"] != table["given_label"]).to_numpy()
        assert differs[issues].all()


def test_the_probabilities_are_calibrated_by_source():
    X, true, clean = population(np.eye(2))
    rng = np.random.default_rng(1)
    source = np.where(rng.random(len(true)) < 0.3, "trusted", "scraped")
    given = np.where(source == "trusted", clean, drawn(ONE_SIDED[true], rng))
    model = booster(CombinedBoostClassifier, flip_rates={"trusted": 0.0, "scraped": {1: 0.4}})
    table = in_order(model.fit(X, given, sample_domain=source).suspect_labels())
    assert_calibrated(table, true != given)
    assert (table["probability_wrong"][source == "trusted"] == 0.0).all()


@pytest.mark.parametrize("T", [ONE_SIDED, THREE], ids=["one-sided", "three"])
def test_the_interval_covers_the_number(T):
    held = []
    for seed in range(40):
        X, true, given = population(T, rows=500, seed=seed)
        model = booster(flip_rates=T, n_estimators=10, max_depth=2)
        low, high = model.fit(X, given).suspect_labels(cv=2).attrs["interval"]
        held.append(low <= (true != given).sum() <= high)
    assert np.mean(held) >= 0.85  # 34 of 40 or more: probability 0.99 at a coverage of 0.95


def test_the_expected_number_follows_the_rates_where_the_model_knows_nothing():
    X, _, given = population(ONE_SIDED)
    noise = np.random.default_rng(5).normal(size=X.shape)
    table = booster(flip_rates={1: 0.4}).fit(noise, given).suspect_labels()
    by_rates = given.sum() / 0.6 * 0.4  # 60 % of the rows truly 1 are given 1
    assert table.attrs["expected_wrong"] == pytest.approx(by_rates, rel=0.02)
    low, high = table.attrs["interval"]
    standard_error = np.sqrt(given.sum() / 0.6 * 0.4 / 0.6)  # negative binomial
    assert (high - low) / 2 == pytest.approx(1.96 * standard_error, rel=0.02)


def test_the_summary_says_the_number():
    X, _, given = population(ONE_SIDED)
    table = booster(flip_rates={1: 0.4}).fit(X, given).suspect_labels()
    low, high = table.attrs["interval"]
    assert table.attrs["summary"] == (
        f"About {round(table.attrs['expected_wrong']):,} of 3,000 labels are wrong ({round(low):,} to "
        f"{round(high):,} under the given rates)."
    )
    unknown = booster().fit(X, given).suspect_labels()
    assert "not known without flip rates" in unknown.attrs["summary"]


@pytest.mark.parametrize("seed", [1, 2])
def test_too_many_rounds_do_not_spoil_the_ranking(seed):
    X, true, given = population(SYMMETRIC, rows=1500, seed=seed)
    precision = []
    for rounds in (40, 160):
        model = booster(flip_rates=0.2, n_estimators=rounds)
        table = in_order(model.fit(X, given).suspect_labels())
        precision.append(average_precision_score(true != given, table["probability_wrong"]))
    assert precision[1] > precision[0] - 0.02


@pytest.mark.parametrize("rates", [None, {1: 0.4}])
def test_rows_held_out_by_early_stopping_are_judged(rates):
    X, _, given = population(ONE_SIDED)
    model = booster(flip_rates=rates, early_stopping=True, validation_fraction=0.2)
    table = in_order(model.fit(X, given).suspect_labels())
    np.testing.assert_array_equal(table.index, np.arange(len(X)))
    np.testing.assert_array_equal(table["given_label"], given)
    assert table["probability_wrong"].notna().all()
    held_out = table["mean_weight"].isna()
    assert 0.1 < held_out.mean() < 0.3
    assert table["label_quality"][held_out].nunique() > 50


def test_one_sided_noise_is_found_without_rates_too():
    X, true, given = population(ONE_SIDED)
    table = booster().fit(X, given).suspect_labels()
    wrong = true != given
    first = table.index[: wrong.sum()]
    assert wrong[first].mean() > 2 * wrong.mean()


def test_a_pandas_index_is_kept():
    X, _, given = population(ONE_SIDED, rows=600)
    names = [f"row {i}" for i in range(600)]
    frame = pd.DataFrame(X, columns=list("abc"), index=names)
    model = booster(flip_rates={1: 0.4})
    plain = model.fit(X, given).suspect_labels()
    named = model.fit(frame, given).suspect_labels()
    assert list(named.index) == [names[i] for i in plain.index]
    np.testing.assert_array_equal(named["probability_wrong"], plain["probability_wrong"])
    names = np.array(["good", "bad"])
    texts = booster(flip_rates={"bad": 0.4}).fit(frame, names[given]).suspect_labels()
    np.testing.assert_array_equal(texts["given_label"], names[plain["given_label"]])
    assert set(texts["suggested_label"]) <= set(names)
    fallback = model.suspect_labels(cv=None)
    assert set(fallback.index) == set(frame.index)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_tables_have_positions(library):
    module = pytest.importorskip(library)
    X, _, given = population(ONE_SIDED, rows=600)
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    table = module.DataFrame(columns) if library == "polars" else module.table(columns)
    found = booster(flip_rates={1: 0.4}).fit(table, given).suspect_labels()
    plain = booster(flip_rates={1: 0.4}).fit(X, given).suspect_labels()
    pd.testing.assert_frame_equal(found, plain)
    assert found.index.name == "row"


@pytest.mark.parametrize("rates", [None, {1: 0.4}])
def test_the_order_of_the_rows_does_not_matter(rates):
    X, _, given = population(ONE_SIDED, rows=800)
    order = np.random.default_rng(3).permutation(len(X))
    one = in_order(booster(flip_rates=rates).fit(X, given).suspect_labels())
    other = in_order(booster(flip_rates=rates).fit(X[order], given[order]).suspect_labels())
    for column in ("probability_wrong", "label_quality"):
        np.testing.assert_array_equal(other[column], one[column].to_numpy()[order])


def test_threads_do_not_change_the_probabilities():
    X, _, given = population(ONE_SIDED, rows=800)
    tables = [booster(flip_rates={1: 0.4}, n_jobs=n).fit(X, given).suspect_labels() for n in (1, 2)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_the_parts_of_the_cross_fit_can_be_set():
    X, _, given = population(ONE_SIDED, rows=600)
    model = booster(flip_rates={1: 0.4}).fit(X, given)
    auto = model.suspect_labels()
    assert auto.attrs["folds"] == 5
    pd.testing.assert_frame_equal(auto, model.suspect_labels(cv=5))
    assert model.suspect_labels(cv=3).attrs["folds"] == 3
    assert model.suspect_labels(cv=np.int64(2)).attrs["folds"] == 2
    own = model.suspect_labels(cv=None)
    assert list(own.columns) == COLUMNS
    assert own["probability_wrong"].isna().all()
    pd.testing.assert_frame_equal(auto, model.suspect_labels())


@pytest.mark.parametrize("cv", [0, 1, -3, 2.5, "five", True])
def test_other_values_of_cv_are_refused(cv):
    X, _, given = population(ONE_SIDED, rows=200)
    with pytest.raises(ValueError, match="cv must be a whole number of at least 2, 'auto' or None"):
        booster().fit(X, given).suspect_labels(cv=cv)


def test_many_rows_are_not_kept(monkeypatch):
    X, _, given = population(ONE_SIDED, rows=400)
    monkeypatch.setattr(fitting, "_KEPT_ROWS", 399)
    model = booster(flip_rates={1: 0.4}).fit(X, given)
    assert model.suspect_labels()["probability_wrong"].isna().all()
    with pytest.raises(ValueError, match="cv=5 needs the training rows"):
        model.suspect_labels(cv=5)


@pytest.mark.parametrize("cv", ["auto", None])
@pytest.mark.parametrize("library", ["polars", "pyarrow", None])
def test_without_pandas_there_is_another_frame_or_a_dict(library, cv, monkeypatch):
    X, _, given = population(ONE_SIDED, rows=400)
    names = np.array(["good", "bad"])
    model = booster(flip_rates={"bad": 0.4}).fit(X, names[given])
    expected = model.suspect_labels(cv=cv)
    kind = dict
    if library is not None:
        module = pytest.importorskip(library)
        kind = module.DataFrame if library == "polars" else module.Table
    for name in {"pandas", "polars", "pyarrow"} - {library}:
        monkeypatch.setitem(sys.modules, name, None)
    table = model.suspect_labels(cv=cv)
    assert isinstance(table, kind)
    columns = (
        list(table) if library is None else list(getattr(table, "column_names", table.columns))
    )
    assert columns == ["row", *COLUMNS]
    np.testing.assert_array_equal(np.asarray(table["row"]), expected.index)
    for name in COLUMNS:
        np.testing.assert_array_equal(np.asarray(table[name]), expected[name])


def test_rows_on_disk_fall_back_to_the_margins_of_the_fit(tmp_path):
    pytest.importorskip("pyarrow")
    X, _, given = population(ONE_SIDED, rows=400)
    path = tmp_path / "rows.parquet"
    pd.DataFrame(X, columns=list("abc")).assign(y=given).to_parquet(path)
    model = booster().fit(path, "y")
    table = model.suspect_labels()
    assert len(table) == 400
    assert table["probability_wrong"].isna().all()
    with pytest.raises(ValueError, match="cv=2 needs the training rows"):
        model.suspect_labels(cv=2)


def test_a_pickle_has_no_training_rows():
    X, _, given = population(ONE_SIDED, rows=2000)
    wide = np.column_stack([X, np.random.default_rng(0).normal(size=(2000, 60))])
    model = booster(flip_rates={1: 0.4}, n_estimators=5).fit(wide, given)
    stored = pickle.dumps(model)
    assert len(stored) < wide.nbytes / 2
    assert wide[:50].tobytes() not in stored
    loaded = pickle.loads(stored)
    assert loaded.suspect_labels()["probability_wrong"].isna().all()
    with pytest.raises(ValueError, match=r"cv=5 needs the training rows, .* not in pickles"):
        loaded.suspect_labels(cv=5)
    np.testing.assert_array_equal(loaded.predict_proba(wide), model.predict_proba(wide))


def test_a_result_that_was_computed_before_survives_a_fit():
    X, _, given = population(ONE_SIDED, rows=400)
    model = booster(flip_rates={1: 0.4}).fit(X, given)
    model.suspect_labels()
    again = model.fit(X[:300], given[:300]).suspect_labels()
    fresh = booster(flip_rates={1: 0.4}).fit(X[:300], given[:300]).suspect_labels()
    pd.testing.assert_frame_equal(again, fresh)


class Rounds:
    """A callback that counts rounds; it has the methods that scikit-learn asks for."""

    max_estimator_depth = None

    def __init__(self):
        self.rounds = 0

    def setup(self, estimator, context):
        self.begun = True

    def teardown(self, estimator, context):
        self.over = True

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.rounds += 1


def test_a_model_with_callbacks_is_pickled_and_judges_labels():
    if not hasattr(SmoothBoostClassifier, "set_callbacks"):
        pytest.skip("this scikit-learn has no callbacks")
    X, _, given = population(ONE_SIDED, rows=400)
    counted = Rounds()
    model = booster(flip_rates={1: 0.4}, n_estimators=6).set_callbacks(counted).fit(X, given)
    rounds = counted.rounds
    table = model.suspect_labels()
    assert counted.rounds == rounds  # the fits of the cross-fit are none of the user's
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    plain = booster(flip_rates={1: 0.4}, n_estimators=6).fit(X, given).suspect_labels()
    pd.testing.assert_frame_equal(table, plain)


def test_a_part_with_all_rows_of_a_class_falls_back():
    X, _, given = population(ONE_SIDED, rows=200)
    given = np.zeros_like(given)
    given[:2], X[:2] = 1, X[0]  # equal rows are in one part
    model = booster(min_samples_leaf=1).fit(X, given)
    table = model.suspect_labels()
    assert len(table) == 200
    assert table["probability_wrong"].isna().all()


def test_a_part_with_all_rows_of_a_source_is_judged_or_falls_back():
    X, _, given = population(ONE_SIDED, rows=300)
    source = np.full(300, "scraped")
    source[:2], X[:2], given[0], given[1] = "trusted", X[0], 0, 1
    rates = {"trusted": 0.0, "scraped": {1: 0.4}}
    model = booster(CombinedBoostClassifier, flip_rates=rates).fit(X, given, sample_domain=source)
    assert len(model.suspect_labels()) == 300


def test_one_class_has_no_wrong_labels():
    X = np.arange(20.0).reshape(-1, 1)
    table = booster().fit(X, np.full(20, "yes")).suspect_labels()
    assert len(table) == 20
    assert not table["is_label_issue"].any()


def test_rows_of_weight_zero_are_left_out():
    X, _, given = population(ONE_SIDED, rows=500)
    weight = np.ones(500)
    weight[::5] = 0.0
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(1000, 1500))
    table = booster(flip_rates={1: 0.4}).fit(frame, given, sample_weight=weight).suspect_labels()
    assert set(table.index) == set(frame.index[weight > 0])
    without = booster(flip_rates={1: 0.4}).fit(frame[weight > 0], given[weight > 0])
    pd.testing.assert_frame_equal(table, without.suspect_labels())


@pytest.mark.parametrize("cls", [MABoostClassifier, SmoothBoostClassifier])
def test_all_boosters_judge_labels_of_frames_with_categories(cls):
    X, true, given = population(ONE_SIDED, rows=600)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["d"] = pd.Categorical(np.where(X[:, 2] > 0, "x", "y"))
    table = booster(cls, flip_rates={1: 0.4}).fit(frame, given).suspect_labels()
    wrong = true != given
    assert wrong[table.index[:50]].mean() > 2 * wrong.mean()
