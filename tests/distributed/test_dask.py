"""The classifiers on a real cluster: processes of this machine, one thread each."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import itertools
import os
import pickle
import signal
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from tests.distributed import faults
from tests.distributed.shards import BOOSTERS, assert_same, table

from maboost import HistTreeClassifier, MABoostClassifier, distributed, load_model
from maboost.data import RareCategoriesWarning
from maboost.distributed import DaskMABoostClassifier, WorkerLostError, collective, launch
from maboost.distributed.worker import model_digest
from maboost.mirror import CappedSimplex, SourceCapped

pytestmark = pytest.mark.filterwarnings("default:.*:UserWarning:distributed")


@contextlib.contextmanager
def cluster_of(workers):
    """A cluster; what is imported in its processes is what is imported here."""
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),  # killed again and again
        dask.config.set({"distributed.scheduler.work-stealing": False}),  # rows stay where they are put
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0",
            memory_limit=None, silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture(scope="module")
def client():
    with cluster_of(4) as client:
        yield client


def on_dask(model):
    """The classifier on Dask for one without."""
    kind = getattr(distributed, f"Dask{type(model).__name__}")
    return kind(**clone(model).get_params(deep=False))


def chunked(client, values, sizes, workers):
    """An array whose chunks lie on the workers that are named, one each."""
    names = list(client.nthreads())
    ends = np.cumsum([0, *sizes])
    futures = [
        client.submit(np.copy, values[a:b], workers=[names[w]], pure=False)
        for a, b, w in zip(ends, ends[1:], workers, strict=False)
    ]
    parts = [
        da.from_delayed(future, values[a:b].shape, values.dtype)
        for a, b, future in zip(ends, ends[1:], futures, strict=False)
    ]
    return da.concatenate(parts)


PLACES = {
    1: ((100, 300), (0, 0)),
    2: ((150, 0, 250), (0, 1, 1)),
    3: ((10, 200, 50, 140), (2, 0, 1, 2)),
    4: ((100, 20, 180, 100), (3, 2, 1, 0)),
}


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_the_bits_of_one_machine(client, workers):
    """Early stopping and weights included."""
    X, y = table(400)
    weight = np.random.default_rng(0).integers(0, 3, 400) * 1.0
    model = MABoostClassifier(
        n_estimators=15, early_stopping=True, n_iter_no_change=3, random_state=1
    )
    whole = clone(model).fit(X, y, sample_weight=weight)
    sizes, places = PLACES[workers]
    rows = [chunked(client, values, sizes, places) for values in (X, y, weight)]
    fitted = on_dask(model).fit(rows[0], rows[1], sample_weight=rows[2])
    assert len(fitted.traffic_) == workers
    assert_same(fitted, whole)


@pytest.mark.parametrize("name", BOOSTERS)
def test_every_booster(client, name):
    X, y = table(300, classes=3 if name in ("mada", "euclidean") else 2)
    rows = {}
    if name.startswith("combined"):
        rows["sample_domain"] = np.random.default_rng(2).choice(["a", "b", "c"], len(y))
    whole = clone(BOOSTERS[name]).fit(X, y, **rows)
    lazy = {key: da.from_array(value, chunks=90) for key, value in rows.items()}
    fitted = on_dask(BOOSTERS[name]).fit(
        da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=70), **lazy
    )
    assert_same(fitted, whole)
    assert_same(fitted.to_local(), whole)


def test_data_frames(client):
    """Text whose categories differ from part to part, labels of text, an empty part, rows that watch."""
    data = load_breast_cancer(as_frame=True)
    frame, y = data.data.iloc[:, :6].copy(), data.target.map({0: "bad", 1: "good"})
    rng = np.random.default_rng(0)
    frame["stage"] = rng.choice(["I", "II", "III", None], len(frame))
    frame["ward"] = pd.Categorical(rng.choice(list("abc"), len(frame)))
    model = MABoostClassifier(n_estimators=8, early_stopping=True, random_state=0)
    whole = clone(model).fit(frame[:450], y[:450], X_val=frame[450:], y_val=y[450:])
    cut = [slice(0, 100), slice(0, 0), slice(100, 450)]
    train = [dd.from_delayed([dask.delayed(v[c]) for c in cut], meta=v[:0]) for v in (frame, y)]
    rest = dd.from_pandas(frame[450:], npartitions=1), dd.from_pandas(y[450:], npartitions=1)
    fitted = on_dask(model).fit(*train, X_val=rest[0], y_val=rest[1])
    assert_same(fitted, whole)
    assert fitted.feature_names_in_.tolist() == frame.columns.tolist()
    lazy_X, lazy_y = dd.from_pandas(frame, npartitions=5), dd.from_pandas(y, npartitions=5)
    assert (fitted.predict(lazy_X).compute() == whole.predict(frame)).all()
    assert fitted.score(lazy_X, lazy_y) == whole.score(frame, y)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder of many files with many columns, of which Dask joins those it reads few columns of."""
    X, y = table(600)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.hstack([X, rng.normal(size=(600, 8))])).add_prefix("x")
    frame["label"], frame["weight"] = np.array(["bad", "good"])[y], rng.integers(1, 4, 600) * 1.0
    frame["source"], frame["patient"] = rng.choice(list("abc"), 600), rng.integers(0, 90, 600)
    folder = tmp_path_factory.mktemp("stored")
    for i in range(16):
        frame[i * 40 : (i + 1) * 40].to_parquet(folder / f"{i:02d}.parquet")
    return folder, frame


NO_FEATURES = ["label", "weight", "source", "patient"]


def test_columns_of_one_frame_stay_together(client, stored):
    folder, frame = stored
    lazy = dd.read_parquet(folder)
    assert lazy["label"].optimize().npartitions < lazy.npartitions
    model = MABoostClassifier(n_estimators=4, early_stopping=True, random_state=0)
    whole, fitted = (
        made.fit(f.drop(columns=NO_FEATURES), f["label"], f["weight"], groups=f["patient"])
        for made, f in ((clone(model), frame), (on_dask(model), lazy))
    )
    assert_same(fitted, whole)
    X, lazy_X = (f.drop(columns=NO_FEATURES) for f in (frame, lazy))
    assert fitted.predict(lazy_X).numblocks == (lazy.npartitions,)
    assert (fitted.predict(lazy_X).compute() == whole.predict(X)).all()
    assert fitted.score(lazy_X, lazy["label"]) == whole.score(X, frame["label"])
    assert fitted.score(lazy_X, lazy[["label"]]) == whole.score(X, frame["label"])
    weighted = fitted.score(lazy_X, lazy["label"], lazy["weight"])
    assert weighted == whole.score(X, frame["label"], frame["weight"])
    combined = BOOSTERS["combined"]
    whole, fitted = (
        made.fit(f.drop(columns=NO_FEATURES), f["label"], sample_domain=f["source"])
        for made, f in ((clone(combined), frame), (on_dask(combined), lazy))
    )
    assert_same(fitted, whole)


def test_what_is_shared_is_made_once(client):
    """Rows that come out otherwise every time they are made keep their own labels."""

    def made(i):
        X = np.random.default_rng().normal(size=(50, 2))
        return pd.DataFrame(X, columns=["a", "b"]).assign(label=X[:, 0] > 0)

    lazy = dd.from_map(made, range(4), meta=made(0)[:0])
    model = DaskMABoostClassifier(n_estimators=1).fit(lazy[["a", "b"]], lazy["label"])
    assert model.history_["train_error"][0] == 0.0


def as_part(values, ends):
    parts = [dask.delayed(values[a:b]) for a, b in itertools.pairwise(ends)]
    return dd.from_delayed(parts, meta=values[:0])


@pytest.mark.parametrize(
    "case",
    ["frames", "one part", "same count", "values", "array and series", "frame and array", "empty"],
)
def test_other_partitions_than_those_of_x(client, stored, case):
    folder, frame = stored
    X, y = frame.drop(columns=NO_FEATURES), frame["label"]
    lazy = dd.read_parquet(folder)
    unknown = lazy["weight"].values > 1.0
    rows = {
        "frames": lambda: (dd.from_pandas(X, npartitions=5), dd.from_pandas(y, npartitions=3)),
        "one part": lambda: (dd.from_pandas(X, npartitions=5), dd.from_pandas(y, npartitions=1)),
        "same count": lambda: (as_part(X, (0, 100, 150, 600)), as_part(y, (0, 450, 500, 600))),
        "values": lambda: (lazy.drop(columns=NO_FEATURES).values, unknown),
        "array and series": lambda: (da.from_array(X.values, chunks=(90, 3)), lazy["label"]),
        "frame and array": lambda: (lazy.drop(columns=NO_FEATURES), unknown),
        "empty": lambda: (as_part(X, (0, 0, 200, 200, 600, 600)), as_part(y, (0, 300, 300, 600))),
    }[case]()
    labels = frame["weight"] > 1.0 if rows[1] is unknown else y
    model = MABoostClassifier(n_estimators=3, random_state=0)
    whole = clone(model).fit(X.values if isinstance(rows[0], da.Array) else X, labels)
    assert_same(on_dask(model).fit(*rows), whole)


def test_rows_that_cannot_go_together(client, stored):
    lazy = dd.read_parquet(stored[0])
    X, y = lazy.drop(columns=NO_FEATURES), lazy["label"]
    with pytest.raises(ValueError, match="y has 120 rows, X has 600: give them the same rows"):
        DaskMABoostClassifier().fit(X, y.partitions[:3])
    few = lazy[lazy["x0"] > 0]["weight"]
    with pytest.raises(ValueError, match=r"sample_weight has \d+ rows, X has 600"):
        DaskMABoostClassifier().fit(X, y, few)
    with pytest.raises(ValueError, match="y_val has 120 rows, X_val has 600"):
        DaskMABoostClassifier().fit(X, y, X_val=X, y_val=y.partitions[:3])


def test_only_the_workers_load_rows(stored):
    """Also where their client is not the current one."""
    here = os.getpid()

    def elsewhere(part):
        assert os.getpid() != here
        return part

    lazy = dd.read_parquet(stored[0])
    lazy = lazy.map_partitions(elsewhere, meta=lazy._meta)
    X, y = lazy.drop(columns=NO_FEATURES), lazy["label"]
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        model = DaskMABoostClassifier(n_estimators=2, client=client).fit(X, y)
        assert model.score(X, y) > 0.5


def test_predictions_are_lazy(client, tmp_path):
    X, y = table(300, classes=3)
    model = MABoostClassifier(n_estimators=4, random_state=0)
    whole = clone(model).fit(X, y)
    lazy = da.from_array(X, chunks=(100, 6))
    fitted = on_dask(model).fit(lazy, da.from_array(y, chunks=100))
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        found = getattr(fitted, method)(lazy)
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), getattr(whole, method)(X))
        np.testing.assert_array_equal(getattr(fitted, method)(X), getattr(whole, method)(X))
    none = da.concatenate([lazy[:0], lazy[:5]])
    assert fitted.predict_proba(none).compute().shape == (5, 3)
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(AttributeError, match="or of several workers"):
        fitted.suspect_labels()
    again = pickle.loads(pickle.dumps(fitted))
    assert again.client is None
    assert_same(again, fitted)


def test_margins_are_lazy_and_stages_are_of_one_machine(client):
    X, y = table(300, classes=3)
    model = MABoostClassifier(n_estimators=4, random_state=0)
    whole = clone(model).fit(X, y).margins(X, y)
    lazy, labels = da.from_array(X, chunks=(100, 6)), da.from_array(y, chunks=70)
    fitted = on_dask(model).fit(lazy, labels)
    found = fitted.margins(lazy, labels)
    assert isinstance(found, da.Array)
    np.testing.assert_array_equal(found.compute(), whole)
    np.testing.assert_array_equal(fitted.margins(X, y), whole)
    none = da.concatenate([lazy[:0], lazy]), da.concatenate([labels[:0], labels])
    np.testing.assert_array_equal(fitted.margins(*none).compute(), whole)
    frame = dd.from_pandas(pd.DataFrame(X).assign(label=y), npartitions=3)
    found = fitted.margins(frame.drop(columns="label").to_dask_array(), frame["label"])
    np.testing.assert_array_equal(found.compute(), whole)
    with pytest.raises(TypeError, match="y must be a Dask array"):
        fitted.margins(lazy, y)
    with pytest.raises(ValueError, match="y has 5 partitions, X has 3: give them the same ones"):
        fitted.margins(frame.drop(columns="label").to_dask_array(), labels)
    with pytest.raises(ValueError, match="y has 60 rows in a partition where X has 100"):
        fitted.margins(lazy, frame["label"].partitions[[0, 1, 2]].loc[40:]).compute()
    for stages in (fitted.staged_predict(lazy), fitted.staged_score(lazy, labels)):
        with pytest.raises(TypeError, match=r"give X.compute\(\), or take one stage lazily"):
            next(stages)
    np.testing.assert_array_equal(fitted[:2].predict(lazy).compute(), fitted[:2].predict(X))


def test_the_check_that_models_are_alike_looks_at_categories():
    frame = pd.DataFrame({"text": list("abcd") * 25})
    model = MABoostClassifier(n_estimators=1).fit(frame, frame["text"].isin(["a", "c"]))
    other = copy.deepcopy(model)
    assert model_digest(model) == model_digest(other)
    other.ensemble_.hypotheses[0].tree.categories[0][:] += 1.0
    assert model_digest(model) != model_digest(other)


def test_parameters(client):
    model = DaskMABoostClassifier(n_estimators=3, client=client, timeout=30)
    assert clone(model).client is client
    assert clone(model).timeout == 30
    names = set(inspect.signature(MABoostClassifier).parameters)
    assert set(model.get_params(deep=False)) == names | {"client", "timeout"}
    assert "DaskMABoostClassifier" in repr(model)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rounds'"):
        DaskMABoostClassifier(rounds=3)


def test_what_cannot_be_done_is_said(client):
    X, y = table(60)
    lazy, labels = da.from_array(X, chunks=(30, 6)), da.from_array(y, chunks=30)
    with pytest.raises(
        TypeError, match="X must be a Dask array, data frame or series, got ndarray"
    ):
        DaskMABoostClassifier().fit(X, y)
    with pytest.raises(ValueError, match="y has 30 rows, X has 60"):
        DaskMABoostClassifier().fit(lazy, labels[:30])
    with pytest.raises(ValueError, match="warm_start=True needs the state of every row"):
        DaskMABoostClassifier(warm_start=True).fit(lazy, labels)
    by_source = SourceCapped(np.arange(60) % 2, np.array([0.3, 1.0]))
    with pytest.raises(ValueError, match="domain has sources by row"):
        DaskMABoostClassifier(domain=by_source).fit(lazy, labels)
    with pytest.raises(ValueError, match="domain has caps by row"):
        DaskMABoostClassifier(domain=CappedSimplex(np.full(60, 2.0))).fit(lazy, labels)
    with pytest.raises(TypeError, match="takes no sample_domain"):
        DaskMABoostClassifier().fit(lazy, labels, sample_domain=labels)
    with pytest.raises(ValueError, match="The 'n_estimators' parameter"):
        DaskMABoostClassifier(n_estimators=0).fit(lazy, labels)
    for timeout in (0, 2.5, True):
        with pytest.raises(ValueError, match="timeout must be a positive whole number"):
            DaskMABoostClassifier(timeout=timeout).fit(lazy, labels)

    with pytest.raises(
        TypeError, match="X must be a Dask array, data frame or series, got Delayed"
    ):
        DaskMABoostClassifier().fit(dask.delayed(X), dask.delayed(y))
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(DaskMABoostClassifier(), method)(lazy)
    with pytest.raises(NotFittedError):
        DaskMABoostClassifier().score(lazy, labels)


def test_callbacks_are_refused_and_not_left_out(client):
    callback = pytest.importorskip("sklearn.callback")  # scikit-learn 1.9 and later
    X, y = table(60)
    lazy, labels = da.from_array(X, chunks=(30, 6)), da.from_array(y, chunks=30)
    model = DaskMABoostClassifier(n_estimators=2).set_callbacks(callback.ProgressBar())
    with pytest.raises(ValueError, match="callbacks need all rows"):
        model.fit(lazy, labels)
    assert model.set_callbacks().fit(lazy, labels).n_iter_ == 2


def test_the_first_rounds_keep_the_client(client):
    """Of a model whose client is not the current one, score asks the cluster for any number of rounds."""
    X, y = table(60)
    lazy, labels = da.from_array(X, chunks=(30, 6)), da.from_array(y, chunks=30)
    model = DaskMABoostClassifier(n_estimators=3, client=client, timeout=np.int64(30))
    model.fit(lazy, labels)
    assert model[:2].client is client
    assert model[:2].score(lazy, labels) == model.to_local()[:2].score(X, y)


def test_an_asynchronous_client_is_refused(client):
    X, y = table(60)
    lazy, labels = da.from_array(X, chunks=(30, 6)), da.from_array(y, chunks=30)

    async def fit():
        async with Client(client.scheduler.address, asynchronous=True) as waiting:
            DaskMABoostClassifier(client=waiting).fit(lazy, labels)

    with pytest.raises(ValueError, match="client is asynchronous, but fit and score wait"):
        asyncio.run(fit())


def test_the_error_of_one_worker_reaches_the_client(client):
    """Only one partition is bad; the others are not left waiting, and the next fit works."""
    X, y = table(400)
    bad = X.copy()
    bad[399, 0] = np.inf
    labels = da.from_array(y, chunks=100)
    with pytest.raises(ValueError, match="infinity") as caught:
        DaskMABoostClassifier(n_estimators=3).fit(da.from_array(bad, chunks=(100, 6)), labels)
    assert any("raised on worker tcp://" in note for note in caught.value.__notes__)
    DaskMABoostClassifier(n_estimators=3).fit(da.from_array(X, chunks=(100, 6)), labels)


def test_warnings_reach_the_client(client):
    X, y = table(100)
    weight = np.where(np.arange(100) < 5, 1e-200, 1.0)
    rows = [da.from_array(values, chunks=50) for values in (y, weight)]
    with pytest.warns(UserWarning, match="5 rows have less than 1e-100"):
        DaskMABoostClassifier(n_estimators=3).fit(da.from_array(X, chunks=(50, 6)), *rows)


def test_rare_categories_share_a_bin(client):
    rng = np.random.default_rng(0)
    town = np.floor(rng.pareto(0.6, 400) * 4).astype(int).clip(max=60).astype(str)
    frame = pd.DataFrame({"x": rng.normal(size=400), "town": town})
    y = pd.Series((np.char.str_len(town) == 1) ^ (rng.random(400) < 0.1))
    model = MABoostClassifier(HistTreeClassifier(max_bins=9), n_estimators=4, random_state=0)
    with pytest.warns(RareCategoriesWarning):
        whole = clone(model).fit(frame, y)
    lazy = [dd.from_pandas(values, npartitions=3) for values in (frame, y)]
    with pytest.warns(RareCategoriesWarning, match="column 'town' has .* share a bin"):
        fitted = on_dask(model).fit(*lazy)
    assert_same(fitted, whole)
    assert fitted.rare_categories_ == whole.rare_categories_ != {}
    assert fitted.to_local().rare_categories_ == whole.rare_categories_


def test_a_load_that_fails(client):
    def broken(part):
        raise OSError("no such bucket")

    X = da.from_array(table(60)[0], chunks=(30, 6)).map_blocks(broken, dtype=float)
    with pytest.raises(OSError, match="no such bucket"):
        DaskMABoostClassifier().fit(X, da.zeros(60, chunks=30))


def test_the_profiler_of_dask_runs_again_after_a_fit(client):
    def running(dask_worker):
        return dask_worker.periodic_callbacks["profile"].is_running()

    X, y = table(100)
    DaskMABoostClassifier(n_estimators=2).fit(
        da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50)
    )
    assert all(client.run(running).values())


def test_workers_exchange_no_pickles(client):
    """Not by the collective, whose own broadcast pickles, and not by the library: unpickling runs code."""

    def allow(allowed):
        from xgboost import collective

        collective.pickle = pickle if allowed else None

    X, y = table(300, classes=3)
    table_of = pd.DataFrame(X).assign(place=np.array(["a", "b", "c", "d"])[np.arange(300) % 4])
    table_of.columns = table_of.columns.astype(str)
    model = BOOSTERS["euclidean"]
    client.run(allow, False)
    try:
        fitted = on_dask(model).fit(dd.from_pandas(table_of, npartitions=3), da.from_array(y, 100))
    finally:
        client.run(allow, True)
    assert_same(fitted, clone(model).fit(table_of, y))


def test_the_tracker_listens_on_the_address_of_its_worker_only(client):
    def addresses():
        import psutil

        found = psutil.Process().net_connections("tcp")
        return {c.laddr.port: c.laddr.ip for c in found if c.status == "LISTEN"}

    worker = next(iter(client.nthreads()))
    args = client.run(collective.start_tracker, "a fit", "127.0.0.1", 2, workers=[worker])[worker]
    try:
        listening = client.run(addresses, workers=[worker])[worker]
        assert listening[args["dmlc_tracker_port"]] == "127.0.0.1"
    finally:
        client.run(collective.stop_tracker, "a fit", workers=[worker])


def test_categories_that_workers_cannot_exchange_are_refused(client):
    dates = pd.Series(pd.date_range("2020", periods=3)).dt.date
    frame = pd.DataFrame({"day": pd.Categorical(dates.iloc[np.arange(60) % 3])})
    lazy = dd.from_pandas(frame, npartitions=2), da.from_array(np.arange(60) % 2, 30)
    with pytest.raises(ValueError, match=r"categories of column 'day': .* turn it into text"):
        DaskMABoostClassifier(n_estimators=2).fit(*lazy)


# ------------------------------------------------------------------------------------------- faults


def on_all(client, X, y):
    """Rows on every worker there is now; none of them is to die any more."""
    client.wait_for_workers(2, timeout=120)
    client.run(faults.forget)
    return on_rows(client, X, y)


def on_rows(client, X, y):
    """Rows on every worker there is now."""
    workers = len(client.nthreads())
    sizes = [len(y) // workers] * (workers - 1)
    sizes.append(len(y) - sum(sizes))
    return [chunked(client, values, sizes, range(workers)) for values in (X, y)]


@pytest.mark.parametrize(
    ("point", "after", "rank"),
    [
        ("joining", 0, -1), ("binning", 3, -1), ("histogram", 7, -1), ("projection", 5, -1),
        ("between rounds", 5, -1), ("joining", 5, 0), ("histogram", 7, 0),
    ],
)  # fmt: skip
def test_a_killed_worker_is_named_and_the_fit_goes_on(client, tmp_path, point, after, rank):
    """On those that are left, or with a new one in its place; the first hosts the tracker."""
    X, y = table(400)
    kind = "smooth" if point == "projection" else "maboost"
    model = clone(BOOSTERS[kind]).set_params(n_estimators=8)
    whole = clone(model).fit(X, y)
    shard = on_dask(model).set_params(checkpoint=tmp_path / "fit", checkpoint_every=1)
    lazy = on_all(client, X, y)
    victim = sorted(client.nthreads())[rank]
    client.run(faults.plan, point, after, workers=[victim])
    began = time.monotonic()
    with pytest.raises(WorkerLostError, match=f"worker {victim} died during the fit"):
        shard.fit(*lazy)
    assert time.monotonic() - began < 60
    assert (tmp_path / "fit").exists() == (point not in ("joining", "binning"))
    assert_same(shard.set_params(resume=True).fit(*on_all(client, X, y)), whole)


@pytest.mark.parametrize("ranks", [(0, 3), (1, 0)])
def test_a_worker_caught_in_a_message_is_replaced(client, monkeypatch, ranks):
    """One fails, another never hears of it: the client tells why the first did, and the next fit works."""
    monkeypatch.setattr(launch, "_LAST_WORDS", 3.0)
    X, y = table(400)
    on_all(client, X, y)
    addresses = list(client.nthreads())  # in the order of the chunks
    bad, victim = ranks[0], addresses[ranks[1] % len(addresses)]
    pid = client.run(os.getpid, workers=[victim])[victim]
    client.run(faults.plan, "checks", 0, faults.STUCK, workers=[victim])
    broken = X.copy()
    broken[bad * (len(y) // len(addresses)), 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        DaskMABoostClassifier(n_estimators=3, timeout=10).fit(*on_rows(client, broken, y))
    model = DaskMABoostClassifier(n_estimators=2).fit(*on_all(client, X, y))
    assert len(model.history_) == 2
    assert pid not in client.run(os.getpid).values()


@pytest.mark.parametrize(("last_words", "rank"), [(10.0, -1), (1.0, -1), (1.0, 0)])
def test_a_silent_worker_is_named(client, monkeypatch, last_words, rank):
    """A process that was stopped, as a machine that fell off the network would be.

    It alone is named, though others may be slow to see that they lost touch, and soon after one timeout,
    also where it hosts the tracker, which the others tell when they leave.
    """
    timeout = 15
    monkeypatch.setattr(launch, "_LAST_WORDS", last_words)
    lazy = on_all(client, *table(400))
    victim = sorted(client.nthreads())[rank]
    pid = client.run(os.getpid, workers=[victim])[victim]
    client.run(faults.plan, "histogram", 4, signal.SIGSTOP, workers=[victim])
    began = time.monotonic()
    try:
        with pytest.raises(WorkerLostError, match=f"worker {victim} did not answer"):
            DaskMABoostClassifier(n_estimators=5, timeout=timeout).fit(*lazy)
        waited = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert timeout < waited < timeout + last_words + 2 * launch._ANSWER + 5.0
    DaskMABoostClassifier(n_estimators=2).fit(*on_all(client, *table(400)))
