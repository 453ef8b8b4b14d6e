"""Export of a booster over the library's own trees to ONNX, which computes in double precision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from maboost.io.scalar_trees import Part, parts_by_round, refuse_noise
from maboost.learners.tree.binning import levels_of
from maboost.runtime.optional_packages import missing_package

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

__all__ = ["to_onnx"]

# The first versions with trees over doubles and double answers, and no later ones.
_IR, _OPSET, _ML_OPSET = 10, 15, 5
_AT_MOST, _SUM = 0, 1  # TreeEnsemble's codes for a split by threshold and for summing trees


def to_onnx(model: Any, dtype: Literal["float64", "float32"] = "float64") -> ModelProto:
    """Return a booster over the library's own trees as an ONNX model.

    Parameters
    ----------
    model : fitted booster
        Its estimators must be HistTreeClassifier, the default.
    dtype : {"float64", "float32"}, default="float64"
        The type of the input.

    Returns
    -------
    onnx.ModelProto
        The input `X` is of this type and of shape (n, n_features). The outputs are `label`, like `predict`, and
        `probabilities`, like `predict_proba`.

    Notes
    -----
    Trees are the operator TreeEnsemble of ai.onnx.ml 5, which ONNX Runtime has since 1.21. Older tree
    operators return single precision.

    Rows of float32 are widened and compared with the same thresholds, so that the answers are those of the model on
    the float32 values. A value that float32 rounds across a threshold takes the other side than the same value in
    float64. Codes of categories must be whole numbers up to 2^24, or other numbers that float32 holds exactly.

    If the fit saw a data frame with text or categories, X holds their codes: the entry `categories`
    of the model's metadata lists, by column, the categories in the order of their codes; any other value
    is NaN.

    Raises
    ------
    ValueError
        For other estimators, and for labels that are not numbers, booleans or text.
    ImportError
        Without onnx.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from maboost import MABoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MABoostClassifier(n_estimators=5).fit(X, y)
    >>> session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> bool(np.all(label == model.predict(X)))
    True
    """
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ImportError(missing_package("to_onnx()", "onnx", "onnx")) from error
    rounds = parts_by_round(model, "to_onnx()")
    refuse_noise(model, "to_onnx()")
    labels = _labels(model.classes_)
    asked = _set_columns(rounds)
    given, table, widen = TensorProto.DOUBLE, "X", list["NodeProto"]()
    if dtype == "float32":
        given, table = TensorProto.FLOAT, "wide"
        widen = [helper.make_node("Cast", ["X"], [table], to=TensorProto.DOUBLE)]
    sets, tables = _set_answers(asked, rounds[0][0].rare, table) if asked else ([], [])
    trees = _trees(rounds, asked, model.n_features_in_, table)
    decisions, constants = _decisions(model)
    graph = helper.make_graph(
        [*widen, *sets, trees, *decisions],
        "maboost",
        [helper.make_tensor_value_info("X", given, ["n", model.n_features_in_])],
        [
            helper.make_tensor_value_info("label", labels.data_type, ["n"]),
            helper.make_tensor_value_info(
                "probabilities", TensorProto.DOUBLE, ["n", len(model.classes_)]
            ),
        ],
        [labels, *tables, *constants],
    )
    made = helper.make_model(
        graph,
        ir_version=_IR,
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        producer_name="maboost",
    )
    helper.set_model_props(made, _metadata(model))
    onnx.checker.check_model(made)
    return made


def _metadata(model: Any) -> dict[str, str]:
    codes = model._codes
    named = {str(name): categories for name, categories in codes.categories.items()}
    names = getattr(model, "feature_names_in_", None)
    found = {"categories": json.dumps(named, default=str)} if named else {}
    return found | ({} if names is None else {"feature_names": json.dumps(list(names))})


def _labels(classes: NDArray[Any]) -> TensorProto:
    from onnx import numpy_helper

    # Python's integers above 2**63 - 1 would become floats, which do not represent them all
    plain = classes if classes.dtype.kind == "u" else np.array(classes.tolist())
    if plain.dtype.kind in "iu" and np.all(plain <= np.iinfo(np.int64).max):
        plain = plain.astype(np.int64)
    elif plain.dtype.kind == "U":
        return numpy_helper.from_array(plain.astype(object), "labels")
    elif plain.dtype.kind not in "bf":
        raise ValueError(
            f"to_onnx() cannot write the labels {classes.tolist()!r}: they must be integers "
            "below 2**63, floats, booleans or text"
        )
    return numpy_helper.from_array(plain, "labels")


def _decisions(model: Any) -> tuple[list[NodeProto], list[TensorProto]]:
    """Return the nodes that turn votes into a label and probabilities."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    scale = numpy_helper.from_array(np.array(float(model.probability_scale_)), "scale")
    label = node("Gather", ["labels", "winner"], ["label"], axis=0)
    scaled = node("Mul", ["votes", "scale"], ["scaled"])
    if len(model.classes_) != 2:
        winner = node("ArgMax", ["votes"], ["winner"], axis=1, keepdims=0)
        shares = node("Softmax", ["scaled"], ["probabilities"], axis=1)
        return [winner, label, scaled, shares], [scale]
    constants = [
        scale,
        numpy_helper.from_array(np.array(0.0), "zero"),
        numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat"),
    ]
    nodes = [
        node("Greater", ["votes", "zero"], ["positive"]),
        node("Cast", ["positive"], ["second"], to=TensorProto.INT64),
        node("Reshape", ["second", "flat"], ["winner"]),
        label,
        scaled,
        node("Neg", ["scaled"], ["opposite"]),
        node("Concat", ["opposite", "scaled"], ["log_odds"], axis=1),
        node("Sigmoid", ["log_odds"], ["probabilities"]),
    ]
    return nodes, constants


def _set_columns(rounds: list[list[Part]]) -> dict[tuple[int, bytes], int]:
    """Return a number for every distinct split by category set, with those of a feature in sequence."""
    asked = {
        (int(part.feature[node]), members.tobytes())
        for parts in rounds
        for part in parts[:1]  # all parts of a round have the same splits
        for node, members in part.members.items()
    }
    return {question: i for i, question in enumerate(sorted(asked))}


def _set_answers(
    asked: dict[tuple[int, bytes], int], rare: dict[int, NDArray[np.float64]], table: str
) -> tuple[list[NodeProto], list[TensorProto]]:
    """Append to a table a column for every set: zero for its members, one for all other values, NaN included.

    Runtimes disagree about ONNX's own set membership; a lookup in a table is exact in all.
    """
    from onnx import helper

    nodes, constants, columns = [], [], [table]
    for feature in sorted({feature for feature, _ in asked}):
        sets = [np.frombuffer(members) for f, members in asked if f == feature]
        steps, tables = _lookup(feature, sets, rare.get(feature), table)
        nodes += steps
        constants += tables
        columns.append(f"sets_{feature}")
    nodes.append(helper.make_node("Concat", columns, ["columns"], axis=1))
    return nodes, constants


def _lookup(
    feature: int, sets: list[NDArray[np.float64]], rare: NDArray[np.float64] | None, table: str
) -> tuple[list[NodeProto], list[TensorProto]]:
    """Append the index of a value among the codes, from one; zero stands for all other values.

    Rare categories share one index. There may be very many, so a hash table finds the index instead of
    a comparison with each code.
    """
    from onnx import TensorProto, helper, numpy_helper

    codes = np.unique(np.concatenate(sets))
    outside = np.ones((len(codes) + 1, len(sets)))
    outside[1:] = np.column_stack([~np.isin(codes, members) for members in sets])
    held = {"at": np.array([feature], dtype=np.int64), "outside": outside}
    find: list[tuple[str, list[str], str, dict[str, Any]]]
    if rare is not None and rare[0] in codes:
        levels, bins = levels_of(codes, rare)
        tables = {"keys": levels, "values": bins + 1.0, "default": np.zeros(1)}
        options: dict[str, Any] = {"domain": "ai.onnx.ml"}
        options |= {f"{name}_tensor": numpy_helper.from_array(v) for name, v in tables.items()}
        held["at"] = held["at"][0]  # one value for each row, not a column
        find = [("LabelEncoder", [f"value_{feature}"], "found", options)]
    else:
        held |= {"codes": codes, "places": np.arange(1.0, len(codes) + 1.0)}
        find = [
            ("Equal", [f"value_{feature}", f"codes_{feature}"], "same", {}),
            ("Cast", [f"same_{feature}"], "hit", {"to": TensorProto.DOUBLE}),
            ("MatMul", [f"hit_{feature}", f"places_{feature}"], "found", {}),
        ]
    constants = [numpy_helper.from_array(v, f"{name}_{feature}") for name, v in held.items()]
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Gather", [table, f"at_{feature}"], "value", {"axis": 1}),
        *find,
        ("Cast", [f"found_{feature}"], "place", {"to": TensorProto.INT64}),
        ("Gather", [f"outside_{feature}", f"place_{feature}"], "sets", {"axis": 0}),
    ]
    return [
        helper.make_node(kind, inputs, [f"{output}_{feature}"], **options)
        for kind, inputs, output, options in steps
    ], constants


def _trees(
    rounds: list[list[Part]], asked: dict[tuple[int, bytes], int], columns: int, wide: str
) -> NodeProto:
    """Return the operator that turns columns into votes of shape (n, answers)."""
    from onnx import helper, numpy_helper

    table = _Table(asked, columns)
    for parts in rounds:
        for answer, part in enumerate(parts):
            table.add(part, answer)
    count = len(table.feature)
    return helper.make_node(
        "TreeEnsemble",
        ["columns" if asked else wide],
        ["votes"],
        domain="ai.onnx.ml",
        n_targets=len(rounds[0]),
        aggregate_function=_SUM,
        tree_roots=table.roots,
        nodes_featureids=table.feature,
        nodes_splits=numpy_helper.from_array(np.array(table.threshold, dtype=np.float64)),
        nodes_modes=numpy_helper.from_array(np.full(count, _AT_MOST, dtype=np.uint8)),
        nodes_truenodeids=table.yes,
        nodes_falsenodeids=table.no,
        nodes_trueleafs=table.yes_leaf,
        nodes_falseleafs=table.no_leaf,
        nodes_missing_value_tracks_true=table.missing_yes,
        leaf_targetids=table.answer,
        leaf_weights=numpy_helper.from_array(np.array(table.value, dtype=np.float64)),
    )


class _Table:
    """Trees in one list of splits and one list of leaves.

    Every split compares a value with a threshold; splits by a category set use the
    columns after the features.
    """

    def __init__(self, asked: dict[tuple[int, bytes], int], columns: int) -> None:
        self.asked, self.columns = asked, columns
        self.roots: list[int] = []
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.yes: list[int] = []
        self.no: list[int] = []
        self.yes_leaf: list[int] = []
        self.no_leaf: list[int] = []
        self.missing_yes: list[int] = []
        self.answer: list[int] = []
        self.value: list[float] = []

    def add(self, part: Part, answer: int) -> None:
        """Append a tree that contributes to one answer."""
        self.roots.append(len(self.feature))
        inner = part.inner
        leaves = part.leaves[::-1]  # see _places
        place = self._places(part, inner, leaves)
        self.answer += [answer] * len(leaves)
        self.value += part.value[leaves].tolist()
        if not len(inner):  # a split whose two sides both lead to the only leaf
            self._ask(0, np.inf, (place[0], True), (place[0], True), True)
        for node in inner.tolist():
            feature, threshold = int(part.feature[node]), float(part.threshold[node])
            if node in part.members:
                question = feature, part.members[node].tobytes()
                feature, threshold = self.columns + self.asked[question], 0.5
            yes, no = (
                (place[child], bool(part.feature[child] < 0))
                for child in (part.yes[node], part.no[node])
            )
            self._ask(feature, threshold, yes, no, bool(part.missing_yes[node]))

    def _places(
        self, part: Part, inner: NDArray[np.intp], leaves: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Return the index of each node in the list of splits or in the list of leaves.

        Some versions of ONNX Runtime treat a root as a single leaf if its children have the same index,
        even if one is a split and the other a leaf. A leaf below the root is the first of its tree;
        in reverse order its index is larger than those of all splits.
        """
        place = np.empty(len(part.feature), dtype=np.int64)
        place[inner] = len(self.feature) + np.arange(len(inner))
        place[leaves] = len(self.value) + np.arange(len(leaves))
        return place

    def _ask(
        self,
        feature: int,
        threshold: float,
        yes: tuple[Any, bool],
        no: tuple[Any, bool],
        missing_yes: bool,
    ) -> None:
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.yes.append(int(yes[0]))
        self.yes_leaf.append(int(yes[1]))
        self.no.append(int(no[0]))
        self.no_leaf.append(int(no[1]))
        self.missing_yes.append(int(missing_yes))
