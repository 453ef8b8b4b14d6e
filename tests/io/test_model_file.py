"""The model file: the same model comes back, and nothing else gets in."""

import errno
import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from tests.helpers import examples
from tests.implementations import Elastic
from tests.io.versions import DATA, as_version_1, as_version_2, as_version_3

import maboost
from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    ModelFormatError,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    load_model,
)
from maboost.io.container import KEY, MAX_HEADER, pack, unpack
from maboost.io.model_file import _parts
from maboost.mirror import CappedSimplex, ChiSquareBall, Euclidean, FermiDirac, KLBall
from maboost.mirror.steps import MaxMargin

BOOSTERS = [
    MABoostClassifier(n_estimators=6, random_state=0),
    SmoothBoostClassifier(n_estimators=6, noise_rate=0.1, random_state=0),
    SparseBoostClassifier(n_estimators=6, kappa=0.5, random_state=0),
    MadaBoostClassifier(n_estimators=6, random_state=0),
    CombinedBoostClassifier(n_estimators=6, error_limits={"a": None, "b": 0.2}, random_state=0),
    CombinedBoostClassifier(n_estimators=6, source_mass={"b": 0.2}, random_state=0),
]


def numbers(classes=2, n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    score = np.nansum(X[:, :2], axis=1) + 0.5 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return X, y


def frame(library, classes=2, n=150):
    """Text, an ordered category, missing values and numbers."""
    X, y = numbers(classes, n)
    rng = np.random.default_rng(1)
    town = np.array(["Aix", "Bonn", "Como", "Düren"], dtype=object)[(y + rng.integers(0, 2, n)) % 4]
    town[::17] = None
    columns = {"a": X[:, 0], "b": X[:, 1], "town": town.tolist()}
    size = np.array(["s", "m", "l"])[rng.integers(0, 3, n)]
    if library is pd:
        ordered = pd.Categorical(size, ["s", "m", "l"], ordered=True)
        table = pd.DataFrame(columns).assign(size=ordered)
    else:
        table = pl.DataFrame(columns).with_columns(
            pl.Series("size", size, pl.Enum(["s", "m", "l"]))
        )
    return table, y


def fitted(model, X, y):
    model = clone(model)
    if isinstance(model, CombinedBoostClassifier) and (model.error_limits or model.source_mass):
        return model.fit(X, y, sample_domain=np.where(np.arange(len(y)) % 3 == 0, "a", "b"))
    return model.fit(X, y)


@pytest.fixture(scope="module")
def binary():
    X, y = numbers()
    return fitted(BOOSTERS[0], X, y)


@pytest.fixture(scope="module")
def categorical():
    return fitted(BOOSTERS[4], *frame(pd, 3))


def round_trip(model, tmp_path):
    path = tmp_path / "model.maboost"
    model.save(path)
    return load_model(path)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_same(model, loaded, X, y):
    """Whatever can be asked of a model has the same answer."""
    assert type(loaded) is type(model)
    assert same_bits(model.decision_function(X), loaded.decision_function(X))
    assert same_bits(model.predict_proba(X), loaded.predict_proba(X))
    assert np.array_equal(model.predict(X), loaded.predict(X))
    for name in ("staged_decision_function", "staged_predict_proba", "staged_predict"):
        pairs = zip(getattr(model, name)(X), getattr(loaded, name)(X), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)
    assert same_bits(model.margins(X, y), loaded.margins(X, y))
    assert same_bits(model.feature_importances_, loaded.feature_importances_)
    assert str(model.certificate_) == str(loaded.certificate_)
    assert model.certificate_ == loaded.certificate_
    assert model.certificate_.rounds_needed(0.01) == loaded.certificate_.rounds_needed(0.01)
    pd.testing.assert_frame_equal(model.history_.to_frame(), loaded.history_.to_frame())
    assert model.history_.group_errors == loaded.history_.group_errors
    assert loaded.ensemble_.heaviest == model.ensemble_.heaviest
    for name in ("n_iter_", "best_iteration_", "n_inert_rows_", "n_features_in_"):
        assert getattr(model, name) == getattr(loaded, name)
    assert repr(model.get_params()) == repr(loaded.get_params())
    assert same_bits(model[:2].decision_function(X), loaded[:2].decision_function(X))
    assert str(model[:2].certificate_) == str(loaded[:2].certificate_)
    assert len(model.estimators_) == len(loaded.estimators_)
    for one, other in zip(model.estimators_, loaded.estimators_, strict=True):
        assert same_bits(one.predict_proba(X), other.predict_proba(X))
    again = pickle.loads(pickle.dumps(loaded))
    assert same_bits(model.decision_function(X), again.decision_function(X))
    with pytest.raises(AttributeError, match="a loaded model"):
        _ = loaded.distribution_
    with pytest.raises(AttributeError, match="a loaded model"):
        loaded.suspect_labels()


# ----------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", BOOSTERS, ids=lambda m: type(m).__name__)
def test_a_loaded_model_is_the_same(model, classes, tmp_path):
    X, y = numbers(classes)
    model = fitted(model, X, y)
    check_same(model, round_trip(model, tmp_path), X, y)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", BOOSTERS, ids=lambda m: type(m).__name__)
def test_a_loaded_model_knows_its_categories(model, classes, library, tmp_path):
    X, y = frame(library, classes)
    model = fitted(model, X, y)
    assert model.ensemble_.hypotheses[0].tree.known
    loaded = round_trip(model, tmp_path)
    check_same(model, loaded, X, y)
    assert list(loaded.feature_names_in_) == ["a", "b", "town", "size"]
    other = pd if library is pl else pl
    assert same_bits(loaded.decision_function(frame(other, classes)[0]), model.decision_function(X))


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-5, 7]),
        np.array([0, 1, 250], dtype=np.uint8),
        np.array([2**63, 2**64 - 1], dtype=np.uint64),
        np.array([False, True]),
        np.array([0.5, 1.5, 2.5]) * 2.0,
        np.array([1.0, 2.0], dtype=np.float32),
        np.array(["no", "yes", "Zoë 🙂"]),
        np.array(["no", "yes"], dtype=object),
        np.array(["only"]),
    ],
    ids=lambda c: f"{len(c)} of {c.dtype}",
)
def test_classes_keep_their_dtype(classes, tmp_path):
    X, y = numbers(len(classes))
    model = fitted(BOOSTERS[1], X, np.sort(classes)[y])
    loaded = round_trip(model, tmp_path)
    assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
    assert loaded.classes_.tolist() == model.classes_.tolist()
    check_same(model, loaded, X, model.classes_[y])


@examples(25)
@given(st.data())
def test_any_small_model_round_trips(tmp_path_factory, data):
    draw = data.draw
    classes, seed = draw(st.integers(1, 4)), draw(st.integers(0, 100))
    X, y = numbers(classes, n=draw(st.integers(30, 80)), seed=seed)
    tree = HistTreeClassifier(
        max_depth=draw(st.sampled_from([1, 2, 6, None])),
        max_leaf_nodes=draw(st.sampled_from([None, 5])),
        min_samples_leaf=5,
        response=draw(st.sampled_from(["real", "sign"])),
        categorical_features=draw(st.sampled_from([None, [3]])),
    )
    X[:, 3] = np.round(X[:, 3])
    model = clone(draw(st.sampled_from(BOOSTERS[:4])))
    model.set_params(estimator=tree, n_estimators=draw(st.integers(1, 5)))
    model.fit(sp.csr_matrix(np.nan_to_num(X)) if draw(st.booleans()) else X, y)
    path = tmp_path_factory.mktemp("models") / "m.maboost"
    model.save(path)
    check_same(model, load_model(path), X, y)


def test_early_stopping_keeps_the_whole_history(tmp_path):
    X, y = numbers(n=400)
    model = MABoostClassifier(n_estimators=40, early_stopping=True, n_iter_no_change=4).fit(X, y)
    assert len(model.history_) > model.n_iter_
    check_same(model, round_trip(model, tmp_path), X, y)


def test_a_slice_and_a_model_without_trees_round_trip(binary, tmp_path):
    X, y = numbers()
    check_same(binary[:3], round_trip(binary[:3], tmp_path), X, y)
    empty = round_trip(binary[:0], tmp_path)
    assert same_bits(empty.decision_function(X), binary[:0].decision_function(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"regularizer": Euclidean(), "domain": CappedSimplex(5.0), "step": MaxMargin()},
        {"regularizer": FermiDirac(6.0), "step": "paper"},
        {"domain": CappedSimplex(np.where(np.arange(150) < 9, np.inf, 3.0)), "learning_rate": 0.5},
        {"domain": KLBall(0.7)},
        {"regularizer": Euclidean(), "domain": ChiSquareBall(0.7), "update": "lazy"},
        {"class_weight": {0: 1.0, 1: 2.5}, "random_state": 3, "tol": 0.0},
        {"estimator": HistTreeClassifier(2, monotonic_cst=np.array([1, 0, 0, -1]))},
        {"estimator": HistTreeClassifier(categorical_features=(True, False, False, False))},
        {"scoring": "neg_log_loss", "max_seconds": 100.0, "n_jobs": 1, "warm_start": True},
    ],
    ids=lambda p: "-".join(p),
)
def test_parameters_come_back(parameters, tmp_path):
    X, y = numbers()
    X[:, 0] = np.round(X[:, 0])
    model = clone(BOOSTERS[0]).set_params(**parameters).fit(X, y)
    loaded = round_trip(model, tmp_path)
    check_same(model, loaded, X, y)
    again = clone(loaded).fit(X, y)
    assert same_bits(again.decision_function(X), model.decision_function(X))


def test_where_a_fit_writes_is_not_stored(binary, tmp_path):
    model = pickle.loads(pickle.dumps(binary))
    model.checkpoint, model.checkpoint_every, model.resume = tmp_path / "state", 3, True
    assert not {"checkpoint", "checkpoint_every", "resume"} & set(_parts(model)[1]["parameters"])
    assert getattr(round_trip(model, tmp_path), "checkpoint", None) is None


def test_numbers_of_numpy_come_back_as_numbers(tmp_path):
    X, y = numbers()
    model = clone(BOOSTERS[0]).set_params(random_state=np.int64(3), tol=np.float64(0.25)).fit(X, y)
    back = round_trip(model, tmp_path).get_params()
    assert (type(back["random_state"]), back["random_state"]) == (int, 3)
    assert (type(back["tol"]), back["tol"]) == (float, 0.25)


def test_names_of_parameters_as_arrays_come_back(tmp_path):
    X, y = frame(pd)
    for names in (np.array(["town", "size"]), np.array(["town", "size"], dtype=object)):
        tree = HistTreeClassifier(2, categorical_features=names)
        model = clone(BOOSTERS[0]).set_params(estimator=tree).fit(X, y)
        back = round_trip(model, tmp_path).estimator.categorical_features
        assert back.dtype.kind == names.dtype.kind
        assert back.tolist() == names.tolist()


def test_categories_may_be_numbers_and_booleans(tmp_path):
    y = numbers()[1]
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "i": pd.Categorical(5 + y + 2 * rng.integers(0, 2, len(y))),
            "f": pd.Categorical(rng.integers(0, 3, len(y)) / 4.0),
            "b": pd.Categorical(rng.integers(0, 2, len(y)).astype(bool)),
        }
    )
    table["i"] = table["i"].cat.remove_categories([8])
    model = fitted(BOOSTERS[0], table, y)
    loaded = round_trip(model, tmp_path)
    check_same(model, loaded, table, y)
    kinds = {name: {type(v) for v in values} for name, values in loaded._codes.categories.items()}
    assert kinds == {"i": {int}, "f": {float}, "b": {bool}}


def test_the_same_model_is_the_same_file(binary, tmp_path):
    for name in ("a", "b"):
        binary.save(tmp_path / name)
    load_model(tmp_path / "a").save(tmp_path / "c")
    contents = {(tmp_path / name).read_bytes() for name in "abc"}
    assert len(contents) == 1
    assert b"sklearn" not in contents.pop()


def test_training_goes_on_from_the_start(tmp_path):
    X, y = numbers()
    model = clone(BOOSTERS[0]).set_params(warm_start=True).fit(X, y)
    loaded = round_trip(model, tmp_path)
    assert same_bits(loaded.fit(X, y).decision_function(X), model.decision_function(X))


# -------------------------------------------------------------------------------- what cannot be saved


def test_foreign_estimators_cannot_be_saved(tmp_path):
    X, y = numbers()
    model = MABoostClassifier(LogisticRegression(), n_estimators=2).fit(np.nan_to_num(X), y)
    with pytest.raises(
        ValueError, match=r"only models over HistTreeClassifier.*LogisticRegression"
    ):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


class Mine(HistTreeClassifier):
    pass


class MyBooster(MABoostClassifier):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MABoostClassifier(Mine()), r"HistTreeClassifier.*boosts Mine"),
        (MyBooster(), r"can be saved, got MyBooster"),
        (MABoostClassifier(regularizer=Elastic()), r"regularizer=Elastic\(\).*pickle"),
        (MABoostClassifier(random_state=np.random.RandomState(0)), r"random_state=RandomState"),
        (MABoostClassifier(scoring=lambda m, X, y: 0.0), r"scoring=.*function"),
        (
            MABoostClassifier(HistTreeClassifier(random_state=np.random.RandomState(0))),
            r"estimator__random_state=.*set_params\(estimator__random_state",
        ),
    ],
)
def test_objects_of_others_are_named(model, message, tmp_path):
    X, y = numbers()
    model.set_params(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_labels_and_categories_of_other_types_are_named(tmp_path):
    X, y = numbers()
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    model = clone(BOOSTERS[0]).fit(X, y)
    model.classes_ = dates
    with pytest.raises(ValueError, match=r"classes_ has dtype datetime64.*encode y"):
        model.save(tmp_path / "m")
    table = pd.DataFrame({"when": pd.Categorical(pd.to_datetime(dates)[y])})
    model = fitted(BOOSTERS[0], table, y)
    with pytest.raises(ValueError, match=r"a category of column 'when' is Timestamp"):
        model.save(tmp_path / "m")


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        MABoostClassifier().save(tmp_path / "m")


def test_what_cannot_be_loaded_is_not_written(binary, tmp_path):
    odd = pickle.loads(pickle.dumps(binary))
    odd.estimator_weights_ = -odd.estimator_weights_
    with pytest.raises(ValueError, match=r"cannot be saved: .*estimator_weights"):
        odd.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------- files and disks


def test_a_missing_folder_is_an_ordinary_error(binary, tmp_path):
    with pytest.raises(FileNotFoundError):
        binary.save(tmp_path / "missing" / "m")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "m")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)
    with pytest.raises(OSError, match=str(tmp_path.name)):
        binary.save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(binary, failing, tmp_path, monkeypatch):
    path = tmp_path / "m"
    binary.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(f"maboost.runtime.atomic_files.os.{failing}", full)
    with pytest.raises(OSError, match="no space"):
        binary[:2].save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert path.read_bytes() == before


def test_a_file_has_the_usual_permissions(binary, tmp_path):
    binary.save(tmp_path / "m")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("m", "plain")}
    assert len(modes) == 1


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_a_link_is_followed(binary, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "m")
    binary.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(load_model(str(tmp_path / "link"))) == len(binary)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="regular file"):
        load_model(tmp_path / "pipe")


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(ModelFormatError, match="more than max_bytes=1,073,741,824"):
        load_model(path)
    with pytest.raises(ModelFormatError, match="more than max_bytes=10"):
        load_model(path, max_bytes=10)


def test_importing_the_package_does_not_import_the_reader():
    code = "import sys, maboost; assert not [m for m in sys.modules if m.startswith('safetensors')]"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"load_model", "ModelFormatError"} <= set(maboost.__all__) & set(dir(maboost))


# -------------------------------------------------------------------------------------------- versions


@pytest.fixture(scope="module")
def expected():
    return json.loads((DATA / "version_1.json").read_text())


def test_version_1_is_read(expected):
    model = load_model(DATA / "version_1.maboost")
    X = np.array(expected["rows"], dtype=float)
    assert model.decision_function(X).tolist() == expected["decision_function"]
    assert model.predict(X).tolist() == expected["predict"]
    np.testing.assert_allclose(model.predict_proba(X), expected["predict_proba"], rtol=1e-12)
    assert model.probability_scale_ == 2.0
    assert str(model.certificate_) == expected["certificate"]
    assert model.history_.group_errors == {}
    assert np.isnan(model.history_["val_score"]).all()
    assert not model.history_["bytes_read"].any()
    assert model[:2].certificate_.groups["trusted"].measured_error == 1.0


def test_version_1_becomes_the_current_version(expected, tmp_path):
    loaded = round_trip(load_model(DATA / "version_1.maboost"), tmp_path)
    X = np.array(expected["rows"], dtype=float)
    assert loaded.decision_function(X).tolist() == expected["decision_function"]


def test_version_2_is_read_and_becomes_the_current_version(tmp_path):
    expected = json.loads((DATA / "version_2.json").read_text())
    X = np.array(expected["rows"], dtype=float)
    model = load_model(DATA / "version_2.maboost")
    for one in (model, round_trip(model, tmp_path)):
        assert one.decision_function(X).tolist() == expected["decision_function"]
        assert str(one.certificate_) == expected["certificate"]
        assert one.certificate_.bound.potential == 1.0


def test_version_3_is_read_and_becomes_the_current_version(tmp_path):
    expected = json.loads((DATA / "version_3.json").read_text())
    X = np.array(expected["rows"], dtype=float)
    model = load_model(DATA / "version_3.maboost")
    assert model.ensemble_.hypotheses[0].tree.known
    for one in (model, round_trip(model, tmp_path)):
        assert one.decision_function(X).tolist() == expected["decision_function"]
        assert str(one.certificate_) == expected["certificate"]
        assert one.rare_categories_ == {}


@pytest.mark.parametrize("part", ["known_rare", "known_values"])
def test_version_3_has_no_later_parts(binary, part, tmp_path):
    arrays, document = as_version_3(*_parts(binary))
    if part == "known_rare":
        arrays[part] = np.zeros(0, dtype=bool)
    else:
        del arrays[part]
    (tmp_path / "m").write_bytes(pack(arrays, document))
    with pytest.raises(ModelFormatError, match=part):
        load_model(tmp_path / "m")


def test_sparseboost_of_version_3_is_read_and_becomes_the_current_version(tmp_path):
    """The records of SparseBoost keep the bounds they had: nothing is known of the penalty."""
    expected = json.loads((DATA / "version_3_sparse.json").read_text())
    X = np.array(expected["rows"], dtype=float)
    model = load_model(DATA / "version_3_sparse.maboost")
    for one in (model, round_trip(model, tmp_path)):
        assert one.decision_function(X).tolist() == expected["decision_function"]
        assert str(one.certificate_) == expected["certificate"]
        assert one.certificate_.penalty == 0.0
        assert not one.history_["penalty"].any()
        assert one[:2].certificate_.error_bound == one.history_["error_bound"][1]


@pytest.mark.parametrize("name", ["penalty", "last_penalty", "squares", "given_labels"])
def test_version_3_has_no_later_numbers(binary, name, tmp_path):
    arrays, document = as_version_3(*_parts(binary))
    certificate = dict(document["certificate"])
    if name == "squares":
        certificate["bound"] = certificate["bound"] | {name: True}
    else:
        certificate[name] = 0.0
    (tmp_path / "m").write_bytes(pack(arrays, document | {"certificate": certificate}))
    with pytest.raises(ModelFormatError, match=name):
        load_model(tmp_path / "m")


def test_the_certificate_of_sparseboost_is_stored_with_its_penalty(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = SparseBoostClassifier(kappa=0.5, n_estimators=12, random_state=0).fit(X, y)
    loaded = round_trip(model, tmp_path)
    assert loaded.certificate_ == model.certificate_
    assert loaded.certificate_.penalty > 0.0
    assert loaded.certificate_.bound.squares
    np.testing.assert_array_equal(loaded.history_["penalty"], model.history_["penalty"])
    assert loaded[:5].certificate_ == model[:5].certificate_
    target = 0.5 * model.certificate_.error_bound
    needed = loaded.certificate_.rounds_needed(target)
    assert needed == model.certificate_.rounds_needed(target)
    assert needed is not None


@pytest.mark.parametrize("bound", [3, {"potential": 1.0}, {"hypercube": 1}, "no certificate"])
def test_version_2_has_no_later_parts(binary, bound, tmp_path):
    arrays, document = as_version_2(*_parts(binary))
    if bound == "no certificate":
        document["certificate"] = bound
    else:
        own = document["certificate"]["bound"]
        changed = own | bound if isinstance(bound, dict) else bound
        document["certificate"] = document["certificate"] | {"bound": changed}
    (tmp_path / "m").write_bytes(pack(arrays, document))
    with pytest.raises(ModelFormatError, match="certificate"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, r"schema version 5; .* reads 1, 2, 3, 4: install a newer one"),
        (0, r"schema version 0; .* reads 1, 2, 3, 4$"),
        ("2", "schema must be a whole number"),
        (None, "schema must be a whole number"),
    ],
)
def test_other_versions_are_named(binary, schema, message, tmp_path):
    arrays, document = _parts(binary)
    (tmp_path / "m").write_bytes(pack(arrays, document | {"schema": schema}))
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("field", ["probability_scale", "group_errors", "history", "no history"])
def test_version_1_has_no_later_parts(binary, field, tmp_path):
    arrays, document = as_version_1(*_parts(binary))
    if field == "probability_scale":
        document[field] = 2.0
    elif field == "group_errors":
        arrays[field] = np.zeros((0, len(binary)))
    elif field == "history":
        document[field] = 3
    else:
        del arrays["history"]
    (tmp_path / "m").write_bytes(pack(arrays, document))
    with pytest.raises(ModelFormatError, match=field.split()[-1]):
        load_model(tmp_path / "m")


# ----------------------------------------------------------------------------------------- corruptions


def corrupted(model, edit, tmp_path):
    arrays, document = _parts(model)
    arrays = {name: array.copy() for name, array in arrays.items()}
    document = json.loads(json.dumps(document))
    edit(arrays, document)
    path = tmp_path / "damaged.maboost"
    path.write_bytes(pack(arrays, document))
    return path


def put(name, index, value):
    def edit(arrays, document):
        arrays[name][index] = value

    return edit


def said(*path_and_value):
    *path, last, value = path_and_value

    def edit(arrays, document):
        at = document
        for part in path:
            at = at[part]
        at[last] = value

    return edit


def typed(name, dtype):
    def edit(arrays, document):
        arrays[name] = arrays[name].astype(dtype)

    return edit


def cut(name):
    def edit(arrays, document):
        arrays[name] = arrays[name][:-1]

    return edit


def dropped(name):
    def edit(arrays, document):
        (arrays if name in arrays else document).pop(name)

    return edit


ARRAYS = [
    (put("feature", 0, 4), "'feature' must name"),
    (put("feature", 0, -2), "'feature' must name"),
    (put("feature", 0, -1), "a leaf must have no children"),
    (put("left", 0, 0), "children must follow their parent"),
    (put("left", 0, -3), "children must follow their parent"),
    (put("left", 0, 2**31 - 1), "children must follow their parent"),
    (put("right", 0, 1), "children must follow their parent"),
    (put("threshold", 0, np.nan), "'threshold' must be finite"),
    (put("threshold", 0, -np.inf), "'threshold' must be finite"),
    (put("threshold", -1, 3.0), "a leaf must have no children, no question"),
    (put("missing_left", -1, True), "a leaf must have no children, no question"),
    (put("gain", -1, 1.0), "a leaf must have no children, no question and no gain"),
    (put("gain", 0, np.nan), "'gain' must be finite"),
    (put("gain", 0, -1.0), "'gain' must be finite and not negative"),
    (put("gain", 0, np.inf), "'gain' must be finite"),
    (put("weight", 0, np.nan), "'weight' must be finite"),
    (put("value", 0, 1.5), "'value' must lie in"),
    (put("value", 0, np.nan), "'value' must lie in"),
    (put("category_set", 0, 0), "'category_set' must name"),
    (put("category_set", 0, -2), "'category_set' must name"),
    (put("estimator_weights", 0, np.nan), "'estimator_weights' must be finite"),
    (put("estimator_weights", 0, np.inf), "'estimator_weights' must be finite"),
    (put("estimator_weights", 0, -1.0), "'estimator_weights' must be finite and not negative"),
    (put("tree_start", 0, 1), "'tree_start' must rise"),
    (put("tree_start", 1, 10**9), "'tree_start' must rise"),
    (put("tree_start", 1, 0), "a tree has a node"),
    (put("history", (0, 0), 7.0), "round must count from 1"),
    (put("history", (0, 0), np.nan), "round must hold whole numbers"),
    (put("history", (0, 13), 1.5), "rows_used must hold whole numbers"),
    (put("history", (0, 16), -1.0), "bytes_read must hold whole numbers"),
    (put("history", (0, 1), np.nan), "edge must be finite"),
    (put("history", (0, 2), -1.0), "step must not be negative"),
    (put("history", (0, 3), np.inf), "gain must be finite"),
    *((typed(name, np.float32), f"'{name}' must have dtype") for name in ("threshold", "left")),
    *(
        (typed(name, np.int64), f"'{name}' must have dtype")
        for name in ("feature", "right", "missing_left", "value", "gain", "weight")
    ),
    (typed("history", np.float32), "'history' must have dtype"),
    *(
        (cut(name), "must have shape|must rise|for every tree|must count the trees")
        for name in (
            "feature", "threshold", "left", "right", "missing_left", "category_set", "value", "gain",
            "weight", "tree_start", "tree_sets", "set_start", "known_start", "estimator_weights",
            "history",
        )
    ),
    (lambda a, d: a.update(value=np.repeat(a["value"], 2, axis=1)), "'value' must have shape"),
    (lambda a, d: a.update(value=a["value"][:, 0]), "'value' must have shape"),
    (lambda a, d: a.update(extra=np.zeros(3)), "unknown arrays"),
    *((dropped(name), f"'{name}' is missing") for name in ("feature", "set_values", "known_values", "known_rare")),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "message"), ARRAYS)
def test_damaged_arrays_are_refused(binary, edit, message, tmp_path):
    with pytest.raises(ModelFormatError, match=message):
        load_model(corrupted(binary, edit, tmp_path))


def test_a_node_with_two_parents_is_refused(binary, tmp_path):
    """Also a node with none, which comes with it."""

    def edit(arrays, document):
        first = np.flatnonzero(arrays["feature"] >= 0)[:3]
        arrays["left"][first[1]] = arrays["left"][first[2]]
        arrays["right"][first[1]] = arrays["right"][first[2]]

    with pytest.raises(ModelFormatError, match="must have one parent"):
        load_model(corrupted(binary, edit, tmp_path))


CATEGORIES = [
    (put("value", (0, 0), -0.5), "'value' must hold probabilities"),
    (put("value", (0, 0), 2.0), "'value' must hold probabilities"),
    (put("value", (0, 0), np.nan), "'value' must hold probabilities"),
    (put("set_values", 0, np.nan), "'set_values' must be finite"),
    (put("set_values", 0, -7.0), "no category of their column"),
    (put("set_values", 0, 0.5), "no category of their column|sorted"),
    (put("known_values", 0, np.inf), "'known_values' must be finite"),
    (put("known_values", 0, 3.0), "'known_values' must be sorted"),
    (put("known_values", 0, 0.5), "codes for column 2 that are no category"),
    (put("known_values", -1, 99.0), "codes for column 3 that are no category"),
    (put("known_feature", 0, 3), "'known_feature' must rise"),
    (put("known_feature", 1, 99), "'known_feature' must rise"),
    (put("known_feature", 0, 1), "category"),
    (put("known_start", 0, -1), "'known_start' must rise"),
    (put("set_start", 1, -1), "'set_start' must rise"),
    (put("tree_sets", -1, 99), "'tree_sets' must rise"),
    (lambda a, d: a.update(set_values=a["set_values"][::-1]), "sorted|no category"),
    (said("columns", 0, 0, "other"), "columns and feature_names must agree"),
    (said("columns", 0, 0, "b"), "distinct names"),
    (said("columns", 0, 0, None), "a column name must be"),
    (said("columns", 0, 1, 3), "columns must say their dtypes"),
    (said("columns", 2, 2, ["Aix"]), "codes for column 2 that are no category"),
    (said("columns", 2, 2, ["Aix", "Aix", "Bonn", "Como"]), "must be distinct"),
    (said("columns", 2, 2, 5), "categories must be a list"),
    (said("columns", 2, ["town"]), "columns must hold triples"),
    (said("columns", [1, 2]), "columns must be null, empty or 4"),
    (said("feature_names", ["a"]), "feature_names must be 4 names"),
    (said("feature_names", "abcd"), "feature_names must be 4 names"),
    (said("certificate", "groups", 0, "share", 0.0), "share must be in"),
    (said("certificate", "groups", 0, "limit", 2.0), "limit must be null or in"),
    (said("certificate", "groups", 1, "name", "a"), "groups must be distinct"),
    (said("certificate", "groups", 0, "name", [1]), "name must be text"),
    (said("history", "groups", ["a", "a"]), "history.groups must be distinct"),
    (said("history", "groups", ["a"]), "'group_errors' must have shape"),
]


@pytest.mark.parametrize(("edit", "message"), CATEGORIES)
def test_damaged_categories_are_refused(categorical, edit, message, tmp_path):
    with pytest.raises(ModelFormatError, match=message):
        load_model(corrupted(categorical, edit, tmp_path))


def swap_sets(arrays, document):
    """Two nodes of one tree name the same set."""
    asks = np.flatnonzero(arrays["category_set"] > 0)
    arrays["category_set"][asks[0]] = 0


def test_sets_belong_to_one_node(categorical, tmp_path):
    with pytest.raises(ModelFormatError, match="must belong to one node"):
        load_model(corrupted(categorical, swap_sets, tmp_path))
    out = put("category_set", np.flatnonzero(_parts(categorical)[0]["category_set"] >= 0)[0], 99)
    with pytest.raises(ModelFormatError, match="'category_set' is out of range"):
        load_model(corrupted(categorical, out, tmp_path))


DOCUMENT = [
    (said("format", "other"), "is not a maboost model file"),
    (said("booster", "os.system"), "booster os.system is unknown"),
    (said("booster", 3), "booster must be text"),
    (said("booster", "MadaBoostClassifier"), "has no parameters"),
    (said("library", 3), "library must be text"),
    (said("parameters", []), "must be a JSON object"),
    (said("parameters", "n_estimators", 0), "invalid parameters"),
    (said("parameters", "n_estimators", "many"), "invalid parameters"),
    (said("parameters", "n_jobs", 0), "n_jobs must not be 0"),
    (said("parameters", "evil", 1), "has no parameters"),
    (said("parameters", "checkpoint", "/etc/passwd"), "has no parameters"),
    (said("parameters", "estimator", 5), "invalid parameters"),
    (said("parameters", "estimator", {"kind": "object", "class": "Paper", "parameters": {}}), "invalid parameters: The 'estimator'"),
    (said("parameters", "estimator", {"kind": "object", "class": "eval", "parameters": {}}), "unknown class"),
    (
        said("parameters", "estimator", {
            "kind": "object", "class": "HistTreeClassifier", "parameters": {"max_depth": 0},
        }),
        "HistTreeClassifier has invalid parameters",
    ),
    (
        said("parameters", "regularizer", {
            "kind": "object", "class": "FermiDirac", "parameters": {"k": 0.5},
        }),
        "FermiDirac has invalid parameters",
    ),
    (
        said("parameters", "regularizer", {
            "kind": "object", "class": "FermiDirac", "parameters": {"k": 1e200},
        }),
        "FermiDirac.k must be at most",
    ),
    (said("parameters", "domain", {"kind": "array", "name": "feature"}), "invalid parameters: The 'domain'|missing"),
    (said("parameters", "domain", {"kind": "array", "name": "nowhere"}), "nowhere is missing"),
    (said("parameters", "domain", {"kind": "pickle"}), "unknown kind pickle"),
    (said("parameters", "domain", {"other": 1}), "has no field 'kind'"),
    (said("parameters", "tol", {"kind": "float", "value": "many"}), "no special number"),
    (said("parameters", "class_weight", {"kind": "dict", "items": [[1]]}), "must hold pairs"),
    (said("parameters", "class_weight", {"kind": "dict", "items": [[[1], 1]]}), "must be text"),
    (said("parameters", "class_weight", {"kind": "tuple", "items": [], "x": 1}), "unknown fields"),
    (said("parameters", "class_weight", {"kind": "labels", "items": [1], "object": False}), "hold text"),
    (said("classes", "values", [1, 0]), "sorted and unique"),
    (said("classes", "values", [0, 0]), "sorted and unique"),
    (said("classes", "values", [0, 1.5]), "not all of dtype int64"),
    (said("classes", "values", [0, "x"]), "not all of dtype int64"),
    (said("classes", "values", [0, True]), "not all of dtype int64"),
    (said("classes", "values", [0, 2**63]), "do not fit"),
    (said("classes", "values", []), "is empty"),
    (said("classes", "values", [0]), "one class has no trees"),
    (said("classes", "values", [0, 1, 2]), "'value' must have shape"),
    (said("classes", "values", "ab"), "must be a list"),
    (said("classes", "dtype", "datetime64[D]"), "which is unknown"),
    (said("classes", {"dtype": "float16", "values": [0.0, 1e6]}), "do not fit"),
    (said("classes", {"dtype": "str", "values": ["a", "a\0"]}), "sorted and unique"),
    (said("classes", 3), "must be a JSON object"),
    (said("heaviest", 2), "heaviest must be in"),
    (said("heaviest", True), "heaviest must be a whole number"),
    (said("n_features", 0), "n_features must be in"),
    (said("n_features", 2**40), "n_features must be in"),
    (said("n_features", 1), "'feature' must name one of the 1 columns"),
    (said("best_iteration", 7), "best_iteration must be in"),
    (said("inert_rows", -1), "inert_rows must be in"),
    (said("probability_scale", 0.0), "probability_scale must be positive"),
    (said("probability_scale", -1.0), "probability_scale must be in"),
    (said("probability_scale", {"kind": "float", "value": "nan"}), "probability_scale must be"),
    (said("probability_scale", {"kind": "float", "value": "inf"}), "probability_scale must be"),
    (said("probability_scale", "2"), "probability_scale must be a number"),
    (said("smoothness", 3.0), "smoothness must be null"),
    (said("history", "columns", ["round"]), "not those of this version"),
    (said("history", "columns", 0, "edge"), "distinct names"),
    (said("history", "columns", 0, [1]), "distinct names"),
    (said("history", "extra", 1), "history has unknown fields"),
    (said("certificate", "rounds", 3), "must count the trees"),
    (said("certificate", "n_classes", 3), "n_classes must be in"),
    (said("certificate", "gain", "much"), "gain must be a number"),
    (said("certificate", "exact", 1), "exact must be true or false"),
    (said("certificate", "stopped", None), "stopped must be text"),
    (said("certificate", "bound", None), "bound must be there"),
    (said("certificate", "bound", "width", 9), "width must be in"),
    (said("certificate", "bound", "floor", 2.0), "floor must be in"),
    (said("certificate", "bound", "regularizer", "entropy"), "must be a regularizer"),
    (said("certificate", "bound", "regularizer", {"kind": "object", "class": "Paper", "parameters": {}}), "must be a regularizer"),
    (said("certificate", "extra", 1), "certificate has unknown fields"),
    (said("extra", 1), "the document has unknown fields"),
    *((dropped(n), f"no field '{n}'") for n in ("classes", "certificate", "n_features", "smoothness")),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "message"), DOCUMENT)
def test_damaged_documents_are_refused(binary, edit, message, tmp_path):
    with pytest.raises(ModelFormatError, match=message):
        load_model(corrupted(binary, edit, tmp_path))


@pytest.mark.parametrize(
    ("limit", "message"),
    [("trees.MAX_TREES", "more than 3 trees"), ("run_records.MAX_ROUNDS", "more than 3 rounds")],
)
def test_there_are_not_too_many(binary, limit, message, tmp_path, monkeypatch):
    binary.save(tmp_path / "m")
    monkeypatch.setattr(f"maboost.io.{limit}", 3)
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "m")


def test_there_are_not_too_many_categorical_columns(categorical, tmp_path, monkeypatch):
    categorical.save(tmp_path / "m")
    monkeypatch.setattr("maboost.io.trees.MAX_CATEGORICAL", 1)
    with pytest.raises(ModelFormatError, match="too many categorical columns"):
        load_model(tmp_path / "m")


def test_smoothness_is_checked(tmp_path):
    model = fitted(BOOSTERS[1], *numbers())
    for value in (0.5, None, "4"):
        with pytest.raises(ModelFormatError, match="smoothness must be"):
            load_model(corrupted(model, said("smoothness", value), tmp_path))


# ---------------------------------------------------------------------------------- bytes and documents


def with_text(model, text):
    """A file whose document is any text."""
    content = pack(_parts(model)[0], {})
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"][KEY] = text
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + content[8 + length :]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged document"),
        ("[]", "not a JSON object"),
        ('{"a": NaN}', "has the number NaN, which is not JSON"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": 99999999999999999999999}', "64 bits"),
        ('{"a": 1, "a": 2}', "names a field twice"),
        ('{"a": ' + "[" * 20 + "]" * 20 + "}", "nested more than 16"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "damaged document"),
        ('{"a": "\\ud800"}', "half a character"),
        ('{"\\ud800": 1}', "half a character"),
    ],
)
def test_odd_documents_are_refused(binary, text, message, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(with_text(binary, text))
    with pytest.raises(ModelFormatError, match=message):
        load_model(path)


def test_bytes_that_are_no_model_are_refused(binary, tmp_path):
    binary.save(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    length = int.from_bytes(good[:8], "little")
    boolean = good.replace(b'"missing_left":{"dtype":"BOOL"', b'"missing_left":{"dtype":"F8_E"')
    odd = bytearray(good)
    at = json.loads(good[8 : 8 + length])["missing_left"]["data_offsets"][0]
    odd[8 + length + at] = 2
    cases = {
        b"": "header does not fit",
        b"abc": "header does not fit",
        pickle.dumps(binary): "header does not fit",
        good[:-1]: "damaged",
        good[:100]: "header does not fit",
        good + b"0": "damaged",
        boolean: "damaged|dtype",
        bytes(odd): "neither true nor false",
        (MAX_HEADER + 1).to_bytes(8, "little") + b" " * (MAX_HEADER + 1): "at most 16,777,216",
        (1 << 21).to_bytes(8, "little") + b"[" * (1 << 21): "too many parts",
        (1 << 21).to_bytes(8, "little") + b"{" * (1 << 21): "too many parts",
        good[:8] + b"[" * length + good[8 + length :]: "damaged",
        pack({"a": np.zeros(2)}, {}).replace(KEY.encode(), b"maboast"): "no metadata 'maboost'",
    }
    for content, message in cases.items():
        path = tmp_path / "bad"
        path.write_bytes(content)
        with pytest.raises(ModelFormatError, match=message) as caught:
            load_model(path)
        assert str(path) in str(caught.value)


def test_odd_shapes_and_dtypes_are_refused(tmp_path):
    for array in (np.zeros((1, 1, 1)), np.zeros((0, 1 << 40))):
        (tmp_path / "m").write_bytes(pack({"a": array}, {}))
        with pytest.raises(ModelFormatError, match="array a has"):
            load_model(tmp_path / "m")
    # an older safetensors does not know complex numbers
    (tmp_path / "m").write_bytes(pack({"a": np.zeros(1)}, {}).replace(b'"F64"', b'"C64"'))
    with pytest.raises(ModelFormatError, match=r"array a has|damaged"):
        load_model(tmp_path / "m")


def test_long_documents_are_not_written(binary, tmp_path):
    model = pickle.loads(pickle.dumps(binary))
    model.set_params(domain=CappedSimplex([1.0] * (1 << 22)))
    with pytest.raises(ValueError, match="give long parameters as arrays"):
        model.save(tmp_path / "m")


def test_unpack_gives_back_what_was_packed():
    arrays = {"a": np.arange(3), "b": np.array([[True], [False]]), "c": np.zeros((0, 2))}
    back, document = unpack(pack(arrays, {"x": [1, 2.5, None, "é"]}))
    assert document == {"x": [1, 2.5, None, "é"]}
    assert all(same_bits(array, back[name]) for name, array in arrays.items())


def test_the_format_is_described():
    """Every array and field of a file is in docs/model-file.md."""
    text = (Path(__file__).parents[2] / "docs" / "model-file.md").read_text()
    arrays, document = _parts(fitted(BOOSTERS[4], *numbers()))
    certificate = document["certificate"]
    names = {*arrays, *document, *certificate, *certificate["groups"][0], *certificate["bound"]}
    missing = [name for name in names if f"`{name}`" not in text]
    assert not missing
