"""Files of older schema versions: how they differed, and how those in data/ were made.

``python -m tests.io.versions`` writes the data again; the committed files are the contract, so that is
only for a new kind of old file.
"""

import json
from pathlib import Path

import numpy as np

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.io.container import pack
from maboost.io.model_file import _parts

DATA = Path(__file__).parent / "data"


def as_version_3(arrays, document):
    """The parts of a current file as version 3 had them."""
    assert not arrays["known_rare"].any()
    bound = dict(document["certificate"]["bound"])
    del bound["squares"]
    certificate = document["certificate"] | {"bound": bound}
    for name in ("penalty", "last_penalty", "given_labels"):
        del certificate[name]
    kept = [c != "penalty" for c in document["history"]["columns"]]
    columns = [c for c in document["history"]["columns"] if c != "penalty"]
    history = document["history"] | {"columns": columns}
    arrays = {name: array for name, array in arrays.items() if name != "known_rare"}
    arrays["history"] = np.ascontiguousarray(arrays["history"][:, kept])
    document = {k: v for k, v in document.items() if k not in ("stopped_early", "label_noise")}
    return arrays, document | {"schema": 3, "certificate": certificate, "history": history}


def as_version_2(arrays, document):
    """The parts of a current file as version 2 had them."""
    arrays, document = as_version_3(arrays, document)
    bound = dict(document["certificate"]["bound"])
    bound["hypercube"] = bound.pop("potential") == 1.0
    certificate = document["certificate"] | {"bound": bound}
    return arrays, document | {"schema": 2, "certificate": certificate}


def as_version_1(arrays, document):
    """The parts of a current file as version 1 had them."""
    arrays, document = as_version_2(arrays, document)
    del arrays["group_errors"], document["probability_scale"]
    columns = [c for c in document["history"]["columns"] if c not in ("val_score", "bytes_read")]
    arrays["history"] = arrays["history"][:, : len(columns)]
    document["history"] = {"columns": columns}
    return arrays, document | {"schema": 1}


def rows_and_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).round(2)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.array(["high", "low", "middle"])[np.digitize(np.nansum(X[:, :2], axis=1), [-0.7, 0.7])]
    return X, y


def make():
    X, y = rows_and_labels()
    source = np.where(np.arange(120) % 3 == 0, "trusted", "scraped")
    model = CombinedBoostClassifier(
        error_limits={"trusted": None, "scraped": 0.2}, n_estimators=6, random_state=0
    ).set_params(estimator__max_depth=2)
    model.fit(X, y, sample_domain=source)
    model.probability_scale_ = 2.0
    (DATA / "version_1.maboost").write_bytes(pack(*as_version_1(*_parts(model))))
    write_expected(model, X[:12], "version_1.json")


def make_2():
    X, y = rows_and_labels()
    model = MadaBoostClassifier(n_estimators=4, random_state=0).fit(X, y)
    (DATA / "version_2.maboost").write_bytes(pack(*as_version_2(*_parts(model))))
    write_expected(model, X[:12], "version_2.json")


def make_3():
    X, y = rows_and_labels()
    X[:, 3] = np.arange(120) % 7
    tree = HistTreeClassifier(max_depth=3, categorical_features=[3])
    model = SmoothBoostClassifier(tree, n_estimators=4, smoothness=3.0, random_state=0).fit(X, y)
    (DATA / "version_3.maboost").write_bytes(pack(*as_version_3(*_parts(model))))
    write_expected(model, X[:12], "version_3.json")
    X, y = rows_and_labels()
    model = SparseBoostClassifier(kappa=0.5, n_estimators=4, random_state=0).fit(X, y == "low")
    (DATA / "version_3_sparse.maboost").write_bytes(pack(*as_version_3(*_parts(model))))
    write_expected(model, X[:12], "version_3_sparse.json")


def write_expected(model, rows, name):
    expected = {
        "rows": [[None if np.isnan(v) else v for v in row] for row in rows],
        "decision_function": model.decision_function(rows).tolist(),
        "predict_proba": model.predict_proba(rows).tolist(),
        "predict": model.predict(rows).tolist(),
        "certificate": str(model.certificate_),
    }
    (DATA / name).write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    make()
    make_2()
    make_3()
