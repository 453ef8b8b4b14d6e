"""Damaged model files and checkpoints: each must load and predict, or raise the documented error.

    python benchmarks/fuzz_model_file.py --count 200000 --checkpoints 2000 --seed 0 --processes 2

Files of several kinds are damaged in bytes, in the header, in arrays and in the document; others are whole
but built to take far more memory than their bytes (long labels, deep trees, many small parts). Findings are:
an exception other than ModelFormatError (CheckpointError for checkpoints), a warning, a load of over a second
of CPU time and another for each MiB, and more memory for the load and the first prediction than three times the file and 64 MiB. The
bytes of a finding are kept under ``--keep`` for ``--replay FILE``. ``--large`` builds such files at a size of
megabytes, and measures the resident memory of a process that loads and asks each.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from maboost import (
    CheckpointError,
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    ModelFormatError,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    load_model,
)
from maboost.data import RareCategoriesWarning
from maboost.io.checkpoint import _digest
from maboost.io.container import KEY, pack, unpack

VERSION_1 = Path(__file__).parent.parent / "tests" / "io" / "data" / "version_1.maboost"
MAX_BYTES = 1 << 24
SLOWEST = 1.0  # seconds for a load, and as many for each MiB
TIMES, SPARE = 3, 1 << 26  # memory: so many times the file, and so many bytes more
STAGES = 50  # rounds up to which every stage of a model is asked
ROWS = 8


# ---------------------------------------------------------------------------------------- valid files


def originals() -> list[bytes]:
    """Valid files: two, three and one class, categories, rare ones, flip rates, no trees, version 1."""
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
    flips = {"x": 0.0, "y": {0: 0.2, 1: 0.3}}
    models = [
        MABoostClassifier(**small, n_jobs=1).fit(X, two),
        MABoostClassifier(deep, **small).fit(X, two),
        SmoothBoostClassifier(sets, noise_rate=0.1, **small).fit(coded, three),
        CombinedBoostClassifier(error_limits=limits, **small).fit(X, three, sample_domain=source),
        SparseBoostClassifier(sets, **small).fit(coded, two),
        MadaBoostClassifier(**small).fit(X, np.zeros(60)),
        MABoostClassifier(**small).fit(*_frame(X, two)),
        CombinedBoostClassifier(flip_rates=flips, **small).fit(X, two, sample_domain=source),
        MABoostClassifier(flip_rates=0.1, **small).fit(X, three),
    ]
    few_bins = HistTreeClassifier(max_depth=2, max_bins=3, categorical_features=[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RareCategoriesWarning)
        models.append(MABoostClassifier(few_bins, **small).fit(coded, two))
    models.append(MABoostClassifier(**small).fit(X, two)[:0])  # the last: others are built from it
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


# ------------------------------------------------------------------------------- files that take memory

Parts = tuple[dict[str, np.ndarray], dict[str, Any]]


def _without_trees(classes: list[Any], kind: str) -> Parts:
    """A model of no trees with these classes."""
    arrays, document = unpack(_EMPTY())
    K = len(classes)
    arrays["value"] = np.zeros((0, 1 if K == 2 else K))
    document["classes"] = {"dtype": kind, "values": classes}
    document["heaviest"] = 0
    document["certificate"]["n_classes"] = K
    document["certificate"]["bound"]["width"] = K - 1
    return arrays, document


def _of_trees(trees: list[list[tuple[int, int]]], sets: bool = False, K: int = 2) -> Parts:
    """A model of these trees: for every node the feature and the left child, or -1 and 0 for a leaf."""
    arrays, document = _without_trees([str(10**9 + k) for k in range(K)], "str")
    nodes = np.array([node for tree in trees for node in tree], dtype=np.int32).reshape(-1, 2)
    feature, left = nodes.T.copy()
    M, T = len(nodes), len(trees)
    inner = feature >= 0
    start = np.concatenate([[0], np.cumsum([len(tree) for tree in trees])]).astype(np.int64)
    arrays |= {
        "tree_start": start, "feature": feature, "left": left,
        "right": np.where(inner, left + 1, 0).astype(np.int32),
        "threshold": np.where(inner & (not sets), 0.0, np.inf), "missing_left": np.zeros(M, dtype=bool),
        "category_set": np.full(M, -1, dtype=np.int32), "value": np.zeros((M, 1)),
        "gain": np.zeros(M), "weight": np.ones(M), "tree_sets": np.zeros(T + 1, dtype=np.int64),
        "estimator_weights": np.full(T, 0.1), **_rounds(T, document),
    }  # fmt: skip
    if K > 2:
        arrays["value"] = np.full((M, K), 1.0 / K)
    if sets:
        counts = [int(inner[a:b].sum()) for a, b in pairwise(start)]
        chosen = np.concatenate([np.arange(c) for c in counts])
        arrays["category_set"][inner] = chosen
        arrays |= {
            "tree_sets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "set_start": np.zeros(sum(counts) + 1, dtype=np.int64),
            "known_feature": np.zeros(1, dtype=np.int32),
            "known_start": np.array([0, 1]), "known_values": np.ones(1),
        }  # fmt: skip
    document["certificate"]["rounds"] = T
    return arrays, document


def _rounds(count: int, document: dict[str, Any]) -> dict[str, np.ndarray]:
    columns = document["history"]["columns"]
    table = np.zeros((count, len(columns)))
    table[:, columns.index("round")] = np.arange(1, count + 1)
    document["best_iteration"] = 0
    return {"history": table, "group_errors": np.zeros((0, count))}


_LEAF = [(-1, 0)]
_DEPTH_5 = [(0, 2 * i + 1) if i < 31 else (-1, 0) for i in range(63)]
_SAVED: list[bytes] = []


def _EMPTY() -> bytes:
    if not _SAVED:
        _SAVED.append(originals()[-1])
    return _SAVED[0]


def _chain(n: int) -> list[tuple[int, int]]:
    """A tree as deep as it has questions."""
    tree = [(0, 1)]
    for i in range(1, n):
        tree += [(-1, 0), (0, 2 * i + 1)]
    return [*tree, (-1, 0), (-1, 0)]


def long_class(n: int) -> bytes:
    """Many short classes and a long one: an array of text is as wide as the longest."""
    return pack(*_without_trees([*(str(10**9 + i) for i in range(n // 16)), "x" * n], "str"))


def long_class_of_two(n: int) -> bytes:
    return pack(*_without_trees(["a", "b" * n], "str"))


def long_classes_as_objects(n: int) -> bytes:
    return pack(*_without_trees([*(str(10**9 + i) for i in range(n // 16)), "x" * n], "object"))


def long_parameter(n: int) -> bytes:
    """The same among parameters, several times."""
    arrays, document = unpack(_EMPTY())
    items = ["a"] * (n // 16) + ["x" * (n // 4)]
    values = {"kind": "labels", "object": False, "items": items}
    tree = {"kind": "object", "class": "HistTreeClassifier", "parameters": {}}
    tree["parameters"] = dict.fromkeys(("categorical_features", "monotonic_cst"), values)
    document["parameters"]["estimator"] = tree
    return pack(arrays, document)


def padded_trees(n: int) -> bytes:
    """Trees of one leaf, and one that is deeper."""
    return pack(*_of_trees([_LEAF] * (n // 200) + [_DEPTH_5]))


def padded_trees_of_many_classes(n: int) -> bytes:
    return pack(*_of_trees([_LEAF] * (n // 1000) + [_DEPTH_5], K=100))


def deep_tree(n: int) -> bytes:
    return pack(*_of_trees([_chain(max(n // 100, 1))]))


def deep_trees(n: int) -> bytes:
    return pack(*_of_trees([_chain(3 + i % 60) for i in range(max(n // 4000, 1))]))


def deep_tree_of_sets(n: int) -> bytes:
    return pack(*_of_trees([_chain(max(n // 110, 1))], sets=True))


def many_leaves(n: int) -> bytes:
    return pack(*_of_trees([_LEAF] * max(n // 210, 1)))


def many_rounds(n: int) -> bytes:
    """Rounds on record beyond the trees, and errors of data sources."""
    arrays, document = unpack(_EMPTY())
    return pack(arrays | _rounds(max(n // 140, 1), document), document)


def many_errors(n: int) -> bytes:
    arrays, document = unpack(_EMPTY())
    arrays |= _rounds(100, document)
    document["history"]["groups"] = list(range(n // 800))
    return pack(arrays | {"group_errors": np.full((n // 800, 100), 0.123)}, document)


def many_categorical_columns(n: int) -> bytes:
    arrays, document = _of_trees([_LEAF] * 3)
    columns = max(n // 12, 1)
    document["n_features"] = columns
    arrays["known_feature"] = np.arange(columns, dtype=np.int32)
    arrays["known_start"] = np.zeros(columns + 1, dtype=np.int64)
    return pack(arrays, document)


def many_categories(n: int) -> bytes:
    """A column of many categories, all of which go left at one node."""
    arrays, document = _of_trees([_chain(1)], sets=True)
    values = np.arange(max(n // 16, 1), dtype=float)
    ends = np.array([0, len(values)])
    arrays |= {"set_values": values, "set_start": ends, "known_values": values, "known_start": ends}
    return pack(arrays, document)


def many_names(n: int) -> bytes:
    arrays, document = unpack(_EMPTY())
    values = [str(10**7 + i) for i in range(max(n // 20, 1))]
    document["columns"] = [["a", "str", values], ["b", "f", None], ["c", "f", None]]
    document["feature_names"] = None
    return pack(arrays, document)


def _with_values(value: str) -> bytes:
    """A file with a parameter in which JSON itself takes memory."""
    content = _EMPTY()
    header = json.loads(content[8 : 8 + _header_length(content)])
    text = header["__metadata__"][KEY]
    header["__metadata__"][KEY] = text.replace('"random_state":', f'"random_state":{value},"x":', 1)
    return _with_header(content, header)


def many_values(n: int) -> bytes:
    return _with_values("[" + "[]," * (n // 3) + "0]")


def many_objects(n: int) -> bytes:
    return _with_values("[" + '{"a":0},' * (n // 8) + "0]")


def many_texts(n: int) -> bytes:
    return _with_values("[" + '"\\u4e2d\\u4e2d",' * (n // 15) + "0]")


def wide_text(n: int) -> bytes:
    """One character of four bytes makes every other one as wide."""
    return _with_values(json.dumps("\U0001f600" + "x" * n))


def raw_wide_text(n: int) -> bytes:
    """The same in the header: as UTF-8, or escaped once."""
    content = _EMPTY()
    header = json.loads(content[8 : 8 + _header_length(content)])
    header["__metadata__"][KEY] += "\U0001f600" + " " * n
    written = json.dumps(header, ensure_ascii=n % 2 == 0).encode()
    return struct.pack("<Q", len(written)) + written + content[8 + _header_length(content) :]


def many_arrays(n: int) -> bytes:
    content = _EMPTY()
    header = json.loads(content[8 : 8 + _header_length(content)])
    end = max(v["data_offsets"][1] for k, v in header.items() if k != "__metadata__")
    entry = {"dtype": "U8", "shape": [0], "data_offsets": [end, end]}
    return _with_header(content, header | {f"parameter.{i}": entry for i in range(n // 70)})


def long_shape(n: int) -> bytes:
    content = _EMPTY()
    header = json.loads(content[8 : 8 + _header_length(content)])
    header["value"]["shape"] = [300] * (n // 5)
    return _with_header(content, header)


BOMBS: list[Callable[[int], bytes]] = [
    long_class, long_class_of_two, long_classes_as_objects, long_parameter, padded_trees,
    padded_trees_of_many_classes, deep_tree, deep_trees, deep_tree_of_sets, many_leaves, many_rounds,
    many_errors, many_categorical_columns, many_categories, many_names, many_values, many_objects,
    many_texts, wide_text, raw_wide_text, many_arrays, long_shape,
]  # fmt: skip


def bomb(_: bytes, rng: random.Random) -> bytes:
    """A file of up to some hundred thousand bytes that takes memory, whole or damaged further."""
    content = rng.choice(BOMBS)(int(10 ** rng.uniform(1.0, 5.5)))
    if rng.random() < 0.5:
        return content
    try:
        return rng.choice(DAMAGES)(content, rng)
    except ValueError:  # its parts cannot be read
        return content


# ------------------------------------------------------------------------------------------ checkpoints


def checkpoints(folder: Path) -> list[tuple[Callable[[Path], Any], bytes]]:
    """Fits that go on from a checkpoint, and the checkpoint of each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).round(2)
    two = (X.sum(axis=1) + rng.normal(size=80) > 0.0).astype(int)
    three = np.digitize(X.sum(axis=1), [-1.0, 1.0])
    coded = np.column_stack([X[:, :2], rng.integers(0, 5, 80)])
    sets = HistTreeClassifier(max_depth=2, categorical_features=[2])
    source = np.where(np.arange(80) % 2 == 0, "x", "y")
    small = {"n_estimators": 3, "random_state": 0}
    limits = {"x": None, "y": 0.3}
    watch = {"X_val": X[:20], "y_val": two[:20]}
    fits = [
        (MABoostClassifier(**small), X, two, {}),
        (SmoothBoostClassifier(smoothness=3.0, **small), X, two, watch),
        (SmoothBoostClassifier(sets, smoothness=3.0, **small), coded, three, {}),
        (SparseBoostClassifier(**small), X, two, {}),
        (MadaBoostClassifier(**small), X, three, {}),
        (CombinedBoostClassifier(error_limits=limits, **small), X, two, {"sample_domain": source}),
        (SparseBoostClassifier(sparsity=0.5, **small), X, two, {}),
        (MABoostClassifier(trim="certain", **small), X, two, {}),
    ]

    def going_on(model: Any, X: Any, y: Any, more: dict[str, Any]) -> Callable[[Path], Any]:
        def fit(path: Path, rounds: int = 5) -> Any:
            model.set_params(checkpoint=path, resume=path.exists(), n_estimators=rounds)
            return model.fit(X, y, **more)

        return fit

    found = []
    for fit in fits:
        path = folder / "state"
        path.unlink(missing_ok=True)
        going_on(*fit)(path, 3)
        found.append((going_on(*fit), path.read_bytes()))
    return found


def sign(content: bytes) -> bytes:
    """The same checkpoint with a digest that is right, as its author would write it."""
    try:
        arrays, document = unpack(content)
    except ModelFormatError:
        return content
    document.pop("digest", None)
    return pack(arrays, document | {"digest": _digest(arrays, document)})


def edit_rounds(content: bytes, rng: random.Random) -> bytes:
    """Other trees, records, samples or numbers of the generator: all plausible numbers."""
    arrays, document = unpack(content)
    name = rng.choice(["value", "history", "samples", "random_keys", "gain", "weight", "threshold"])
    array = arrays[name].copy()
    what = rng.randrange(5)
    if what == 0:
        np.random.default_rng(rng.randrange(1 << 32)).shuffle(array)
    elif what == 1:
        array = array[::-1].copy()
    elif what == 2:
        array[...] = array.flat[0]
    elif what == 3:
        array.flat[rng.randrange(array.size)] = rng.choice([0, 1, 3, 1 << 31, (1 << 32) - 1])
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            array = (array * 10.0 ** rng.uniform(-20.0, 20.0)).astype(array.dtype)
    if name == "samples" and what == 3:
        array.flat[0] = rng.choice([-1, 1]) * rng.randrange(1 << 63)
    return pack(arrays | {name: array}, document)


def run_checkpoints(count: int, seed: int, keep: Path | None = None) -> Counter[str]:
    """Damage so many checkpoints, three of four with a right digest, and let fits go on from them."""
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        states = checkpoints(Path(folder))
        for _ in range(count):
            fit, content = rng.choice(states)
            if rng.random() < 0.25:
                content = rng.choice(DAMAGES)(content, rng)
            else:
                damage = rng.choice([edit_array, edit_document, edit_rounds])
                content = sign(damage(content, rng))
            path.write_bytes(content)
            tracemalloc.start()
            outcome, trace = _judged(lambda fit=fit: _resumed(fit, path))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > TIMES * len(content) + SPARE:
                outcome = "large"
            outcomes[outcome] += 1
            if outcome not in ("loaded", "refused"):
                _keep(content, outcome, trace, keep)
    return outcomes


def _resumed(fit: Callable[[Path], Any], path: Path) -> str:
    try:
        fit(path)
    except CheckpointError:
        return "refused"
    return "loaded"


# --------------------------------------------------------------------------------------------- judging


def use(path: Path) -> str:
    """Load a file and ask its model everything; what came of it, in a word."""
    tracemalloc.start()
    try:
        began = time.process_time()
        try:
            model = load_model(path, max_bytes=MAX_BYTES)
        except ModelFormatError:
            model = None
        seconds = time.process_time() - began
        size, peak = path.stat().st_size, tracemalloc.get_traced_memory()[1]
        if model is not None and model.n_features_in_ <= 10_000:
            X = rows_for(model)
            tracemalloc.reset_peak()
            model.predict(X)
            peak = max(peak, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    if peak > TIMES * size + SPARE:
        return "large"
    if seconds > SLOWEST * (1.0 + size / 2**20):
        return "slow"
    if model is None:
        return "refused"
    if len(model) <= STAGES:
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
    return _judged(lambda: use(path))


def _judged(used: Callable[[], str]) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # a file may leave the names out
            warnings.filterwarnings("ignore", "X has feature names")
            return used(), ""
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of the container's reader is no Exception
        return "failed", traceback.format_exc()


def run(count: int, seed: int, keep: Path | None = None) -> Counter[str]:
    """Damage so many files; counts of what came of them."""
    rng = random.Random(seed)
    files = originals()
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.maboost"
        for content in files:
            assert judged(content, path) == ("loaded", "")
        for _ in range(count):
            content = rng.choice([*DAMAGES, bomb])(rng.choice(files), rng)
            outcome, trace = judged(content, path)
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


# ------------------------------------------------------------------------------------- resident memory


def resident_peak(path: Path) -> tuple[str, int]:
    """In a process of its own: what came of a file, and how much resident memory it took (Linux)."""
    measured = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)],
        stdout=subprocess.PIPE, check=True, text=True, timeout=120,
    )  # fmt: skip
    outcome, peak = measured.stdout.split()
    return outcome, int(peak)


def measure(path: Path) -> None:
    """Load a file and predict, and print by how much the resident memory has grown at most."""
    with tempfile.TemporaryDirectory() as folder:  # what a process loads once
        for i, content in enumerate(originals()):
            (Path(folder) / str(i)).write_bytes(content)
            model = load_model(Path(folder) / str(i))
            model.predict(rows_for(model))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what is resident now
    before = _peak()
    try:
        model = load_model(path)
        model.predict(rows_for(model))
        outcome = "loaded"
    except ModelFormatError:
        outcome = "refused"
    print(outcome, _peak() - before)


def _peak() -> int:
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def large(size: int) -> bool:
    """Print the resident memory that large files take; whether all kept within the limit."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.maboost"
        for made in BOMBS:
            for n in (size, size // 20):
                try:
                    path.write_bytes(made(n))
                except ValueError:  # a document that is too long to be written
                    continue
                outcome, peak = resident_peak(path)
                length = path.stat().st_size
                within = peak <= TIMES * length + SPARE
                good &= within
                print(
                    f"{made.__name__}: {length / 2**20:.2f} MiB {outcome}, {peak / 2**20:.0f} MiB"
                    + ("" if within else " TOO MUCH"),
                    flush=True,
                )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="model files")
    parser.add_argument("--checkpoints", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--measure", type=Path, help="resident memory of loading one file")
    parser.add_argument("--large", type=int, metavar="BYTES", help="size of files to measure")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return 0
    if options.large:
        return int(not large(options.large))
    if options.replay:
        with tempfile.TemporaryDirectory() as folder:
            print(*judged(options.replay.read_bytes(), Path(folder) / "m"))
        return 0
    findings = 0
    for kind, work, count in (
        ("model files", run, options.count),
        ("checkpoints", run_checkpoints, options.checkpoints),
    ):
        began = time.perf_counter()
        share = -(-count // options.processes)
        with ProcessPoolExecutor(options.processes) as pool:
            jobs = [
                pool.submit(work, share, options.seed + i, options.keep)
                for i in range(options.processes if count else 0)
            ]
            outcomes = sum((job.result() for job in jobs), Counter())
        seconds = time.perf_counter() - began
        found = dict(sorted(outcomes.items()))
        print(f"{outcomes.total():,} {kind} in {seconds:.0f} s: {found}", flush=True)
        findings += outcomes.total() - outcomes["loaded"] - outcomes["refused"]
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
