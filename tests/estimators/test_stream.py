"""MadaBoost on streams: what is accepted, what is promised, and how it ends."""

import itertools
import signal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from tests.helpers import examples

from maboost import MadaBoostClassifier, load_model
from maboost.boosting import streaming
from maboost.boosting.streaming import Filter, acceptance_limit, edge_limit


def stream(seed=0, rows=3000, noise=0.0):
    """Endless batches of a problem that two stumps solve."""
    rng = np.random.default_rng(seed)
    while True:
        X = rng.normal(size=(rows, 4))
        y = (X[:, 0] > 0) & (X[:, 1] > 0)
        yield X, np.where(y ^ (rng.random(rows) < noise), "yes", "no")


@given(accepted=st.integers(0, 200), more=st.integers(0, 200), delta=st.floats(1e-6, 0.5))
@examples(100)
def test_the_limit_of_the_acceptance_rate_is_clopper_and_pearsons(accepted, more, delta):
    drawn = accepted + more + 1
    theirs = binomtest(accepted, drawn, alternative="less").proportion_ci(1.0 - delta, "exact").high
    assert acceptance_limit(accepted, drawn, delta) == pytest.approx(theirs, abs=1e-9)


def test_the_limit_of_the_edge_holds_as_often_as_it_says():
    rng = np.random.default_rng(0)
    true, count, delta = 0.3, 60, 0.1
    means = 2.0 * rng.binomial(count, 0.5 * (1.0 + true), size=4000) / count - 1.0
    broken = np.mean([edge_limit(m, count, delta) > true for m in means])
    assert broken <= delta


def test_rows_are_accepted_with_their_weight():
    margins = np.repeat([-1.0, 0.0, 0.5, 2.0], 20_000)
    X = margins[:, None]
    filter = Filter([(X, np.ones(len(X), dtype=int))], np.random.RandomState(0))
    found = filter.draw(lambda X: X[:, 0], wanted=10**9, most=10**9)
    kept = found.rows()[0][:, 0]
    for margin in (-1.0, 0.0, 0.5, 2.0):
        expected = min(1.0, np.exp(-margin))
        assert np.sum(kept == margin) / 20_000 == pytest.approx(expected, abs=0.015)
    assert found.drawn == len(X)
    assert found.wrong == 40_000


def test_no_row_of_a_batch_is_lost_between_rounds():
    X = np.arange(100.0)[:, None]
    filter = Filter([(X, np.ones(100, dtype=int))], np.random.RandomState(0))
    found = [filter.draw(lambda X: np.zeros(len(X)), 30, 10**6) for _ in range(3)]
    seen = [batch.rows()[0][:, 0] for batch in found]
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(90.0))
    # nor counted before its round
    assert [(batch.drawn, batch.wrong) for batch in found] == [(30, 30)] * 3


def test_the_first_round_sees_the_stream_as_it_is():
    """No row has a margin before the first round: none is refused, of either class."""
    model = MadaBoostClassifier(n_estimators=1, random_state=0).fit_stream(
        stream(), sample_size=1000
    )
    assert model.history_["smoothness"][0] == 1.0
    X, y = next(stream())
    votes = model.decision_function(X) / model.estimator_weights_[0]
    assert model.history_["edge"][0] < np.mean(np.where(y == "yes", votes, -votes))


@pytest.mark.parametrize("label", ["no", "yes"])
def test_a_stream_without_rounds_leaves_its_heaviest_class(label):
    X, y = np.zeros((10, 1)), np.where(np.arange(10) < 7, label, {"no": "yes", "yes": "no"}[label])
    with pytest.warns(UserWarning, match="the stream ended after 10 rows"):
        model = MadaBoostClassifier(random_state=0).fit_stream([(X, y)], sample_size=50)
    assert set(model.predict(X)) == {label}


def test_looks_at_one_edge_share_what_its_round_may_be_wrong_by(monkeypatch):
    """A round that measures on more and more rows would be sure to find an edge in the end."""
    asked = []

    def limit(mean, count, delta):
        asked.append(delta)
        return edge_limit(mean, count, delta)

    monkeypatch.setattr(streaming, "edge_limit", limit)
    model = MadaBoostClassifier(n_estimators=1, random_state=0)
    model.fit_stream(stream(noise=0.3), sample_size=50, confidence=0.9)
    assert len(asked) > 2
    assert sum(asked) <= 0.1 / 2


def test_sparse_rows_give_the_bits_of_dense_ones():
    def batches(form):
        for X, y in itertools.islice(stream(), 5):
            yield form(np.where(np.abs(X) > 0.5, X, 0.0)), y

    X, _ = next(batches(np.asarray))
    dense, *others = (
        MadaBoostClassifier(n_estimators=3, random_state=0)
        .fit_stream(batches(form), sample_size=1000)
        .decision_function(X)
        for form in (np.asarray, sp.csr_array, sp.csc_matrix)
    )
    for other in others:
        np.testing.assert_array_equal(other, dense)


@pytest.mark.parametrize("at", [0, 4])
def test_an_interrupt_leaves_the_rounds_done(at):
    def batches():
        for number, batch in enumerate(stream()):
            if number == at:
                signal.raise_signal(signal.SIGINT)
            yield batch

    model = MadaBoostClassifier(learning_rate=1.0, random_state=0)
    if at == 0:
        with pytest.raises(KeyboardInterrupt):
            model.fit_stream(batches(), sample_size=2000)
        assert not hasattr(model, "certificate_")
        return
    with pytest.warns(UserWarning, match="fit_stream: interrupted; the model has 2 rounds"):
        model.fit_stream(batches(), sample_size=2000)
    assert model.certificate_.stopped == "interrupted"
    assert model.certificate_.measured_error < 0.2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_ends_the_round_at_once():
    """The model has the rounds before it, and probabilities."""

    def batches():
        for number, batch in enumerate(stream()):
            if number == 4:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            yield batch

    model = MadaBoostClassifier(learning_rate=1.0, random_state=0)
    with pytest.warns(UserWarning, match="fit_stream: interrupted; the model has 1 rounds"):
        model.fit_stream(batches(), sample_size=2000)
    assert len(model.estimators_) == model.n_iter_ == len(model.history_) == 1
    assert np.all(np.isfinite(model.predict_proba(next(stream())[0])))


def test_the_rules_that_stop_a_fit_stop_a_stream():
    model = MadaBoostClassifier(max_seconds=1e-9, random_state=0)
    model.fit_stream(stream(), sample_size=500)
    assert (model.n_iter_, model.certificate_.stopped) == (1, "max_seconds=1e-09 has passed")


def test_a_measured_error_does_not_stop_a_stream():
    target = 0.3
    model = MadaBoostClassifier(target_error=target, learning_rate=0.3, random_state=0)
    model.fit_stream(stream(), sample_size=200)
    history = model.history_
    assert np.any(history["train_error"][:-1] <= target)
    assert np.all(history["error_bound"][:-1] > target)
    assert history["error_bound"][-1] <= target


@pytest.mark.parametrize("rate", [1.0, 0.3, 0.05])
def test_gains_are_falls_of_the_potential(rate):
    """Of that step, and not of the whole one; up to what the rows of a round tell of all."""
    model = MadaBoostClassifier(n_estimators=10, learning_rate=rate, random_state=0)
    model.fit_stream(stream(noise=0.1), sample_size=20_000)
    X, y = next(stream(seed=1, rows=200_000, noise=0.1))
    margins = np.where(y == "yes", 1.0, -1.0) * model.decision_function(X)
    potential = np.where(margins >= 0.0, np.exp(-np.abs(margins)), 1.0 - margins).mean()
    assert 0.0 < model.certificate_.gain <= 1.0 - potential + 0.01


def test_a_round_that_no_row_came_after_is_not_measured():
    with pytest.warns(UserWarning, match="the stream ended"):
        model = MadaBoostClassifier(random_state=0).fit_stream(
            [next(stream(rows=500))], sample_size=500
        )
    assert model.n_iter_ == 1
    assert "certified <= 1   not measured" in str(model.certificate_)


def test_an_endless_stream_reaches_its_target():
    model = MadaBoostClassifier(n_estimators=200, target_error=0.08, random_state=0)
    model.fit_stream(stream(), sample_size=2000)
    assert model.certificate_.stopped.startswith("target_error=0.08 is certified")
    assert model.certificate_.error_bound <= 0.08
    X, y = next(stream(99, rows=20_000))
    assert 1.0 - model.score(X, y) <= 0.08
    history = model.history_
    assert np.all(history["train_error"] <= history["error_bound"])
    assert np.all(history["edge"] > 0.0)
    assert np.all(np.isfinite(model.predict_proba(X)))
    with pytest.raises(AttributeError, match="model of a stream"):
        model.suspect_labels()
    said = str(model.certificate_)
    assert "drawn independently" in said
    assert "nan" not in said


def test_it_is_as_good_as_in_memory():
    parts = list(itertools.islice(stream(noise=0.1), 10))
    X, y = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    memory = MadaBoostClassifier(n_estimators=15, random_state=0).fit(X, y)
    streamed = MadaBoostClassifier(n_estimators=15, random_state=0)
    streamed.fit_stream(stream(7, noise=0.1), sample_size=4000)
    X_test, y_test = next(stream(99, rows=20_000, noise=0.1))
    assert streamed.score(X_test, y_test) > memory.score(X_test, y_test) - 0.03
    # the error on rows it has not seen lies in the confidence of what was measured on the stream
    measured = streamed.history_["train_error"][-1]
    assert 1.0 - streamed.score(X_test, y_test) == pytest.approx(measured, abs=0.02)


def test_the_same_seed_gives_the_same_model():
    one, two = (
        MadaBoostClassifier(n_estimators=4, random_state=3).fit_stream(stream(), sample_size=1000)
        for _ in range(2)
    )
    X, _ = next(stream(5))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_a_stream_that_ends_early_leaves_the_rounds_done():
    model = MadaBoostClassifier(n_estimators=50, random_state=0)
    with pytest.warns(
        UserWarning, match="the stream ended after 6000 rows, before sample_size=1500 were accepted"
    ):
        model.fit_stream(itertools.islice(stream(), 2), sample_size=1500)
    assert 1 <= model.n_iter_ < 50


def test_labels_without_information_end_the_run():
    def coin():
        rng = np.random.default_rng(0)
        while True:
            yield rng.normal(size=(2000, 3)), rng.integers(0, 2, 2000)

    with pytest.warns(UserWarning, match="no edge can be distinguished from chance"):
        model = MadaBoostClassifier(random_state=0).fit_stream(coin(), sample_size=200)
    assert model.n_iter_ <= 1


def test_frames_with_categories():
    def frames():
        for X, y in stream():
            yield pd.DataFrame({"a": X[:, 0], "sign": np.where(X[:, 1] > 0, "plus", "minus")}), y

    model = MadaBoostClassifier(n_estimators=4, random_state=0).fit_stream(
        frames(), sample_size=1000
    )
    frame, y = next(frames())
    assert model.score(frame, y) > 0.9
    assert list(model.feature_names_in_) == ["a", "sign"]


def test_bad_streams_are_refused():
    model = MadaBoostClassifier()
    with pytest.raises(ValueError, match="no batch at all"):
        model.fit_stream([])
    with pytest.raises(ValueError, match="boosts two classes"):
        model.fit_stream([(np.zeros((3, 1)), [1, 2, 3])])
    with pytest.raises(ValueError, match="labels that are not in classes"):
        model.fit_stream([(np.zeros((2, 1)), [0, 1]), (np.zeros((2, 1)), [0, 7])], sample_size=4)
    for confidence in (1.0, np.nan, "high"):
        with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got"):
            model.fit_stream(stream(), confidence=confidence)
    for size in (3, 500.5, np.nan, "many"):
        with pytest.raises(ValueError, match="sample_size must be a whole number, 4 or more, got"):
            model.fit_stream(stream(), sample_size=size)
    X, y = np.zeros((8, 1)), [0, 1] * 4
    for batch in (X, (X, y, np.ones(8))):
        for batches in ([batch], [(X, y), batch]):
            with pytest.raises(ValueError, match=r"a batch is a pair \(X, y\), got"):
                model.fit_stream(batches, sample_size=100)
    for short in (y[:1], y[:5]):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit_stream([(X, y), (X, short)], sample_size=100)
    with pytest.raises(ValueError, match="y has 1 missing labels, the first in row 2"):
        model.fit_stream([(X, y), (X, [0, 1, None, *y[3:]])], sample_size=100)


def test_labels_of_a_stream_may_be_columns():
    batches = [next(stream()) for _ in range(3)]
    model = MadaBoostClassifier(n_estimators=3, random_state=0).fit_stream(batches, sample_size=500)
    columns = [(X, pd.DataFrame({"y": y})) for X, y in batches]
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        other = clone(model).fit_stream(columns, sample_size=500)
    np.testing.assert_array_equal(
        other.decision_function(batches[0][0]), model.decision_function(batches[0][0])
    )


def test_a_batch_without_rows_is_passed_over():
    X, y = next(stream())
    none = X[:0], y[:0]
    first, second = (
        MadaBoostClassifier(n_estimators=2, random_state=0).fit_stream(batches, sample_size=50)
        for batches in ([(X, y), (X, y)], [none, (X, y), none, (X, y)])
    )
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_every_round_on_a_stream_is_told(capsys):
    MadaBoostClassifier(n_estimators=3, verbose=1, random_state=0).fit_stream(
        stream(), sample_size=500
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["reading the stream", "boosting, 3 rounds at most"]
    rounds = [line.split(":")[0] for line in lines[2:]]
    assert rounds == ["round 1/3", "round 2/3", "round 3/3"]


def test_a_model_of_a_stream_can_be_saved_and_cut(tmp_path):
    model = MadaBoostClassifier(n_estimators=5, random_state=0)
    model.fit_stream(stream(), sample_size=1000)
    for one in (model, model[:3], model[:0]):
        one.save(tmp_path / "stream.maboost")
        again = load_model(tmp_path / "stream.maboost")
        X, _ = next(stream(5))
        np.testing.assert_array_equal(again.predict_proba(X), one.predict_proba(X))
        assert str(again.certificate_) == str(one.certificate_)
        assert "rows of the stream are drawn independently" in str(one.certificate_)
    assert model[:3].certificate_.error_bound == model.history_["error_bound"][2]


@pytest.mark.parametrize(
    "given",
    [
        {"class_weight": "balanced"}, {"step": "paper"}, {"trim": 0.1}, {"early_stopping": True},
        {"warm_start": True}, {"checkpoint": "state"}, {"resume": True},
    ],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_what_a_stream_cannot_heed_is_refused(given):
    (name,) = given
    with pytest.raises(ValueError, match=f"fit_stream cannot heed {name}="):
        MadaBoostClassifier(**given).fit_stream(stream())
