"""Damaged model files: each must load to a model that predicts, or raise ModelFormatError.

    python benchmarks/fuzz_model_file.py --count 200000 --seed 0 --processes 2

Files of several kinds are damaged in bytes, in the header, in arrays and in the document. Any other
exception, a warning, a load that takes over a second, or memory beyond the limit is a finding; its
bytes are kept under ``--keep`` for ``--replay FILE``.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

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
from maboost.estimators.table import RareCategoriesWarning
from maboost.io.container import KEY, pack, unpack

VERSION_1 = Path(__file__).parent.parent / "tests" / "io" / "data" / "version_1.maboost"
MAX_BYTES = 1 << 24
SLOWEST = 1.0
ROWS = 8


# ---------------------------------------------------------------------------------------- valid files


def originals() -> list[bytes]:
    """Valid files: two, three and one class, categories, rare ones, missing values, no trees, version 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(2)
    X[::9, 1] = np.nan
    two = (np.nan_to_num(X).sum(axis=1) > 0.0).astype(int)
    three = np.array(["a", "b", "c"])[np.digitize(np.nan_to_num(X).sum(axis=1), [-1.0, 1.0])]
    coded = np.column_stack([X[:, :2], rng.integers(0, 5, 60)])
    small = {"n_estimators": 3, "random_state": 0}
    deep = HistTreeClassifier(max_depth=7, min_samples_leaf=2)
    sets = HistTreeClassifier(max_depth=2, categorical_features=[2])
    source = np.where(np.arange(60) % 2 == 0, "x", "y")
    limits = {"x": None, "y": 0.3}
    models = [
        MABoostClassifier(**small, n_jobs=1).fit(X, two),
        MABoostClassifier(deep, **small).fit(X, two),
        SmoothBoostClassifier(sets, noise_rate=0.1, **small).fit(coded, three),
        CombinedBoostClassifier(error_limits=limits, **small).fit(X, three, sample_domain=source),
        SparseBoostClassifier(sets, **small).fit(coded, two),
        MadaBoostClassifier(**small).fit(X, np.zeros(60)),
        MABoostClassifier(**small).fit(*_frame(X, two)),
        MABoostClassifier(**small).fit(X, two)[:0],
    ]
    few_bins = HistTreeClassifier(max_depth=2, max_bins=3, categorical_features=[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RareCategoriesWarning)
        models.append(MABoostClassifier(few_bins, **small).fit(coded, two))
    files = [VERSION_1.read_bytes()]
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            model.save(Path(folder) / "m")
            files.append((Path(folder) / "m").read_bytes())
    return files


def _frame(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    import pandas as pd

    town = np.array(["Aix", "Bonn", "Como"])[(np.arange(len(y)) + y) % 3]
    return pd.DataFrame({"n": X[:, 0], "town": pd.Categorical(town), "m": X[:, 1]}), y


# -------------------------------------------------------------------------------------------- damages

_NUMBERS = [0, 1, -1, 2, 3, 7, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**62, 2**63, 2**64]
_ODD = [
    None, True, False, "", "x", "nan", "inf", "\ud800", "a\0", [], {}, [[]], 0.5, -0.5, 1e300, 1e-300,
    1.0000000001, 2.0, {"kind": "float", "value": "nan"}, {"kind": "float", "value": "-inf"},
    {"kind": "float", "value": "inf"}, {"kind": "array", "name": "value"},
    {"kind": "object", "class": "FermiDirac", "parameters": {"k": 1.5}},
    {"kind": "object", "class": "HistTreeClassifier", "parameters": {}},
    {"kind": "object", "class": "CappedSimplex", "parameters": {"caps": "x"}},
    {"kind": "dict", "items": [[1, 2]]}, {"kind": "tuple", "items": [1]},
]  # fmt: skip
_FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1.5, 1e300, -1e300, 5e-324, 1e16, 0.5]
_DTYPES = [
    "F64",
    "F32",
    "F16",
    "BF16",
    "I64",
    "I32",
    "I16",
    "I8",
    "U8",
    "U64",
    "BOOL",
    "F8_E4M3",
    "X",
]


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    """Some bits, anywhere or in the header."""
    data = bytearray(content)
    end = len(data) if rng.random() < 0.5 else min(len(data), 8 + _header_length(content))
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return bytes(data)


def replace_bytes(content: bytes, rng: random.Random) -> bytes:
    """A range of bytes by others, by zeros, or by a range from elsewhere."""
    data = bytearray(content)
    size = rng.choice([1, 2, 4, 8, 16, 64])
    at = rng.randrange(len(data))
    other = rng.randrange(len(data))
    data[at : at + size] = rng.choice(
        [rng.randbytes(size), bytes(size), b"\xff" * size, bytes(data[other : other + size]), b""]
    )
    return bytes(data)


def truncate(content: bytes, rng: random.Random) -> bytes:
    """Less of the file, or more."""
    if rng.random() < 0.2:
        return content + rng.randbytes(rng.randrange(1, 50))
    return content[: rng.randrange(len(content))]


def edit_length(content: bytes, rng: random.Random) -> bytes:
    """Another length of the header."""
    length = rng.choice([*_NUMBERS, _header_length(content) + rng.randrange(-9, 9)]) % 2**64
    return struct.pack("<Q", length) + content[8:]


def edit_header(content: bytes, rng: random.Random) -> bytes:
    """Dtypes, shapes, offsets and names of the container."""
    header = json.loads(content[8 : 8 + _header_length(content)])
    names = [n for n in header if n != "__metadata__"]
    name = rng.choice(names)
    entry = header[name]
    what = rng.randrange(7)
    if what == 0:
        entry["dtype"] = rng.choice(_DTYPES)
    elif what == 1:
        entry["shape"] = [rng.choice([*_NUMBERS, *entry["shape"]]) for _ in range(rng.randrange(4))]
    elif what == 2:
        entry["data_offsets"] = [rng.choice([*_NUMBERS, *entry["data_offsets"]]) for _ in range(2)]
    elif what == 3:
        other = rng.choice(names)
        header[name], header[other] = header[other], header[name]
    elif what == 4:
        header[rng.choice(["other", "parameter.0", ""])] = header.pop(name)
    elif what == 5:
        header["__metadata__"] = rng.choice([{}, {KEY: "{}"}, {"other": "x"}, {KEY: "[" * 3000}])
    else:
        entry[rng.choice(["dtype", "shape", "data_offsets", "x"])] = rng.choice(_ODD[:16])
    return _with_header(content, header)


def edit_array(content: bytes, rng: random.Random) -> bytes:
    """Values of an array: indices, numbers that are none, or another array of the file."""
    arrays, document = unpack(content)
    name = rng.choice(sorted(arrays))
    array = arrays[name].copy()
    what = rng.randrange(5)
    if what == 0:
        array = rng.choice([array[:-1], np.concatenate([array, array[:1]]), array[:0], array[::-1]])
    elif what == 1:
        with np.errstate(invalid="ignore", over="ignore"):
            array = array.astype(rng.choice([np.float32, np.int32, np.int64, np.uint8, np.bool_]))
    elif what == 2:
        array = arrays[rng.choice(sorted(arrays))]
    elif array.size:
        flat = array.reshape(-1)
        at = rng.randrange(flat.size)
        if array.dtype.kind == "f":
            flat[at] = rng.choice([*_FLOATS, flat[rng.randrange(flat.size)]])
        elif array.dtype.kind == "b":
            flat[at] = not flat[at]
        else:
            near = [int(flat[at]) + rng.choice([-1, 1]), int(flat[rng.randrange(flat.size)])]
            bits = 8 * array.dtype.itemsize
            number = rng.choice([*_NUMBERS, *near, *near, *near])
            flat[at] = np.array(number % 2**bits, dtype=f"u{bits // 8}").astype(array.dtype)
    return pack(arrays | {name: array}, document)


def edit_document(content: bytes, rng: random.Random) -> bytes:
    """A value of the document by another, swapped, removed, or nested deeply."""
    header = json.loads(content[8 : 8 + _header_length(content)])
    document = json.loads(header["__metadata__"][KEY])
    for _ in range(rng.choice([1, 1, 1, 2])):
        places = list(_places(document))
        owner, key = rng.choice(places)
        what = rng.randrange(6)
        if what == 0:
            other, at = rng.choice(places)
            owner[key], other[at] = copy.deepcopy(other[at]), copy.deepcopy(owner[key])
        elif what == 1:
            owner.pop(key)
        elif what == 2:
            owner[key] = rng.choice(_NUMBERS) * rng.choice([1, 1, 10**30])
        elif what == 3 and isinstance(owner[key], int | float):
            owner[key] = owner[key] * rng.choice([-1, 2, 0.5, 1.0]) + rng.choice([-1, 0, 1])
        else:
            owner[key] = copy.deepcopy(rng.choice(_ODD))
    text = json.dumps(document)
    if rng.random() < 0.02:
        text = text.replace(":1", ":" + "[" * rng.choice([15, 200, 5000]), 1)
    header["__metadata__"][KEY] = text
    return _with_header(content, header)


def _places(value: Any) -> Any:
    """Every place of a document, as its owner and its key."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _header_length(content: bytes) -> int:
    return int.from_bytes(content[:8], "little")


def _with_header(content: bytes, header: dict[str, Any]) -> bytes:
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    return struct.pack("<Q", len(written)) + written + content[8 + _header_length(content) :]


DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [
    flip_bits, replace_bytes, truncate, edit_length, edit_header, edit_array, edit_array,
    edit_document, edit_document,
]  # fmt: skip


# --------------------------------------------------------------------------------------------- judging


def use(path: Path) -> str:
    """Load a file and ask its model everything; what came of it, in a word."""
    began = time.perf_counter()
    try:
        model = load_model(path, max_bytes=MAX_BYTES)
    except ModelFormatError:
        model = None
    if time.perf_counter() - began > SLOWEST:
        return "slow"
    if model is None:
        return "refused"
    ask(model)
    return "loaded"


def ask(model: Any) -> None:
    """Whatever can be asked without training rows."""
    X = rows_for(model)
    votes = model.decision_function(X)
    proba = model.predict_proba(X)
    assert np.isfinite(votes).all()
    assert np.isfinite(proba).all()
    assert set(model.predict(X).tolist()) <= set(model.classes_.tolist())
    str(model.certificate_)
    cut = model[: max(len(model) - 1, 0)] if len(model.classes_) > 1 else model
    str(cut.certificate_)
    list(cut.staged_predict(X))
    model.history_["edge"]
    repr(model)
    if model.n_features_in_ < 10_000 and np.sum(model.estimator_weights_) > 0.0:
        assert np.isfinite(model.feature_importances_).all()


def rows_for(model: Any) -> Any:
    """Rows that fit a model: numbers, or a frame with its columns."""
    rng = np.random.default_rng(0)
    columns = model.n_features_in_
    codes = model._codes
    if not codes.dtypes:
        X = np.zeros((1, columns)) if columns > 10_000 else rng.normal(size=(ROWS, columns)).round()
        X[0, 0] = np.nan
        names = getattr(model, "feature_names_in_", None)
        if names is not None:
            del model.feature_names_in_  # arrays have no names, and scikit-learn warns
        return X
    import pandas as pd

    made = {}
    for name in codes.dtypes:
        values = codes.categories.get(name)
        if values is None:
            made[name] = rng.normal(size=ROWS)
        else:
            picked = pd.Series([(values or ["?"])[i % max(len(values), 1)] for i in range(ROWS)])
            made[name] = picked.astype(object).astype("category")
    return pd.DataFrame(made)


def judged(content: bytes, path: Path) -> tuple[str, str]:
    """What came of a damaged file, and the traceback if it is a finding."""
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # a file may leave the names out
            warnings.filterwarnings("ignore", "X has feature names")
            return use(path), ""
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of the container's reader is no Exception
        return "failed", traceback.format_exc()


def memory() -> int:
    """The most memory this process has had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(count: int, seed: int, keep: Path | None = None) -> Counter[str]:
    """Damage so many files; counts of what came of them."""
    rng = random.Random(seed)
    files = originals()
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.maboost"
        for content in files:
            assert judged(content, path) == ("loaded", "")
        before = memory()
        for _ in range(count):
            content = rng.choice(DAMAGES)(rng.choice(files), rng)
            outcome, trace = judged(content, path)
            if memory() - before > 2 * MAX_BYTES:
                outcome, before = "large", memory()
            outcomes[outcome] += 1
            if outcome not in ("loaded", "refused"):
                _keep(content, outcome, trace, keep)
    return outcomes


def _keep(content: bytes, outcome: str, trace: str, keep: Path | None) -> None:
    print(f"{outcome}: {trace}", file=sys.stderr)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        place = keep / f"{outcome}-{zlib.crc32(content):08x}.maboost"
        place.write_bytes(content)
        print(f"replay with --replay {place}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        with tempfile.TemporaryDirectory() as folder:
            print(*judged(options.replay.read_bytes(), Path(folder) / "m"))
        return 0
    began = time.perf_counter()
    share = -(-options.count // options.processes)
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            pool.submit(run, share, options.seed + i, options.keep)
            for i in range(options.processes)
        ]
        outcomes = sum((job.result() for job in jobs), Counter())
    seconds = time.perf_counter() - began
    print(f"{outcomes.total():,} files in {seconds:.0f} s: {dict(sorted(outcomes.items()))}")
    return int(any(k not in ("loaded", "refused") for k in outcomes))


if __name__ == "__main__":
    sys.exit(main())
