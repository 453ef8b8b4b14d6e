"""Parameters and labels as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.estimators.tree import HistTreeClassifier
from maboost.io.container import Arrays, ModelFormatError, shortened
from maboost.io.fields import Fields, Tensors, encoded_number, require, special
from maboost.mirror.domains import (
    CappedSimplex,
    ChiSquareBall,
    Hypercube,
    KLBall,
    Orthant,
    Simplex,
    SourceCapped,
)
from maboost.mirror.regularizers import Entropy, Euclidean, FermiDirac
from maboost.mirror.steps import AdaBoostV, Corrective, MaxMargin, Paper

__all__ = ["Decoder", "Encoder", "label", "labels", "read_label", "read_labels"]

LONGEST_CLASS = 1 << 12  # characters: each predicted label takes four bytes for each character
_STEEPEST = 1e100  # the largest FermiDirac cap; with a larger one the bounds would overflow

OBJECTS: dict[str, Callable[..., Any]] = {
    c.__name__: c
    for c in (
        Entropy, Euclidean, FermiDirac, Simplex, CappedSimplex, SourceCapped, KLBall, ChiSquareBall,
        Orthant, Hypercube, Paper, MaxMargin, AdaBoostV, Corrective, HistTreeClassifier,
    )
}  # fmt: skip

_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")


# ------------------------------------------------------------------------------------- single labels


def label(value: Any, what: str) -> Any:
    """Return the name of a class, a category, a column or a source for JSON."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is float:
        return encoded_number(value)
    if type(value) in (str, int, bool):
        return value
    raise ValueError(
        f"{what} is {shortened(value)}, a {type(value).__name__}; a model file holds text, numbers and "
        "booleans: turn it into one of them before the fit"
    )


def read_label(value: Any, what: str) -> Any:
    """Return a label from JSON."""
    if isinstance(value, dict):
        return special(value)
    require(isinstance(value, str | int | float), f"{what} must be text, a number or a boolean")
    return value


def labels(classes: NDArray[Any]) -> dict[str, Any]:
    """Return the classes, with their dtype."""
    name = classes.dtype.name
    if classes.dtype.kind == "U":
        name = "str"
    elif classes.dtype == object and all(type(c) is str for c in classes):
        name = "object"
    elif name not in (*_NUMBERS, *_FLOATS, "bool"):
        raise ValueError(
            f"classes_ has dtype {classes.dtype} and holds {shortened(classes.tolist())}; a model file "
            "holds classes that are all integers, floats, booleans or text: encode y before the fit"
        )
    return {"dtype": name, "values": [label(c, "a class") for c in classes.tolist()]}


def read_labels(value: Any, arrays: Tensors) -> NDArray[Any]:
    """Return the classes from JSON: sorted and distinct."""
    fields = Fields(value, "classes")
    name, values = fields.text("dtype"), fields.items("values")
    fields.finish()
    kinds = {"str": str, "object": str, "bool": bool}
    kinds.update(dict.fromkeys(_NUMBERS, int))
    kinds.update(dict.fromkeys(_FLOATS, float))
    require(name in kinds, f"classes.dtype is {shortened(name)}, which is unknown")
    require(
        all(type(v) is kinds[name] for v in values), f"classes.values are not all of dtype {name}"
    )
    require(len(values) > 0, "classes.values is empty")
    if name == "str":
        longest = max(map(len, values))
        require(
            longest <= LONGEST_CLASS,
            f"classes.values has text of {longest:,} characters; dtype str holds at most "
            f"{LONGEST_CLASS:,}: use shorter names, or an array of dtype object",
        )
        _spend_on_text(values, "classes.values", arrays)
    try:
        with np.errstate(over="raise"):
            classes = np.array(values, dtype=name)
    except (OverflowError, FloatingPointError):
        raise ModelFormatError(f"classes.values do not fit dtype {name}") from None
    require(np.all(classes[1:] > classes[:-1]), "classes.values must be sorted and unique")
    return classes


def _spend_on_text(values: list[str], what: str, arrays: Tensors) -> None:
    """Count the memory of an array of text, in which every value is as wide as the longest."""
    arrays.spend(4 * len(values) * max(map(len, values), default=0), what)


# ---------------------------------------------------------------------------------------- parameters


class Encoder:
    """Encoder of parameters as JSON; arrays among them go to `arrays`."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def parameters(
        self, owner: Any, where: str = "", leave_out: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Return the constructor's arguments of an estimator or a component."""
        return {
            name: self.value(value, f"{where}{name}")
            for name, value in owner.get_params(deep=False).items()
            if name not in leave_out
        }

    def value(self, value: Any, name: str) -> Any:
        """Return any value of a parameter for JSON."""
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or type(value) in (str, int, bool, float):
            return value if value is None else label(value, name)
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if type(value) is list:
            return [self.value(v, name) for v in value]
        if type(value) is tuple:
            return {"kind": "tuple", "items": [self.value(v, name) for v in value]}
        if type(value) in (set, frozenset):
            items = [label(v, f"an entry of {name}") for v in sorted(value, key=repr)]
            return {"kind": "set", "items": items}
        if type(value) is dict:
            items = [[label(k, f"a key of {name}"), self.value(v, name)] for k, v in value.items()]
            return {"kind": "dict", "items": items}
        if OBJECTS.get(type(value).__name__) is type(value):
            inner = self.parameters(value, f"{name}__")
            return {"kind": "object", "class": type(value).__name__, "parameters": inner}
        raise ValueError(
            f"{name}={shortened(value)} cannot be stored in a model file, which holds numbers, text, "
            f"lists, dicts, arrays and the library's own objects, but not {type(value).__name__}. It is "
            f"not needed to predict: set_params({name}=...) to a value that can be stored, or keep the "
            "model with pickle"
        )

    def _array(self, value: NDArray[Any], name: str) -> Any:
        if value.ndim == 0:
            return self.value(value.item(), name)
        if value.ndim == 1 and value.dtype.kind in "OU":
            items = [label(v, f"an entry of {name}") for v in value.tolist()]
            return {"kind": "labels", "object": value.dtype == object, "items": items}
        if value.ndim == 1 and value.dtype.name in (*_NUMBERS, *_FLOATS, "bool"):
            key = f"parameter.{len(self.arrays)}"
            self.arrays[key] = value
            return {"kind": "array", "name": key}
        raise ValueError(
            f"{name} is an array of dtype {value.dtype} and {value.ndim} dimensions; a model file holds "
            "parameters of one dimension with numbers, booleans or text"
        )


class Decoder:
    """Decoder of parameters from JSON."""

    def __init__(self, arrays: Tensors) -> None:
        self.arrays = arrays

    def build(
        self,
        made: Callable[..., Any],
        parameters: Any,
        where: str,
        refused: frozenset[str] = frozenset(),
    ) -> Any:
        """Return an object from its constructor's arguments; missing ones have their defaults."""
        require(isinstance(parameters, dict), f"the parameters of {where} must be a JSON object")
        known = set(inspect.signature(made).parameters) - refused
        unknown = sorted(set(parameters) - known)
        require(not unknown, f"{where} has no parameters {shortened(unknown)}")
        values = {name: self.value(value, name) for name, value in parameters.items()}
        try:
            built = made(**values)
            if hasattr(built, "_validate_params"):
                built._validate_params()
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelFormatError(
                f"{where} has invalid parameters: {shortened(str(error))}"
            ) from None
        steep = isinstance(built, FermiDirac) and built.upper > _STEEPEST
        require(not steep, f"FermiDirac.k must be at most {_STEEPEST:g}")
        return built

    def value(self, value: Any, name: str) -> Any:
        """Return any value of a parameter."""
        if isinstance(value, list):
            return [self.value(v, name) for v in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("kind")
        if kind == "float":
            return special(value)
        fields = Fields(value, f"parameter {name}")
        readers = {
            "tuple": self._tuple,
            "set": self._set,
            "dict": self._dict,
            "labels": self._labels,
            "array": self._array,
            "object": self._object,
        }
        found = fields.text("kind")
        require(found in readers, f"parameter {name} is of unknown kind {shortened(found)}")
        read = readers[found](fields, name)
        fields.finish()
        return read

    def _tuple(self, fields: Fields, name: str) -> tuple[Any, ...]:
        return tuple(self.value(v, name) for v in fields.items("items"))

    def _set(self, fields: Fields, name: str) -> set[Any]:
        return {read_label(v, f"an entry of {name}") for v in fields.items("items")}

    def _dict(self, fields: Fields, name: str) -> dict[Any, Any]:
        read = {}
        for item in fields.items("items"):
            require(isinstance(item, list) and len(item) == 2, f"parameter {name} must hold pairs")
            read[read_label(item[0], f"a key of {name}")] = self.value(item[1], name)
        return read

    def _labels(self, fields: Fields, name: str) -> NDArray[Any]:
        items = [read_label(v, f"an entry of {name}") for v in fields.items("items")]
        if fields.flag("object"):
            return np.array(items, dtype=object)
        require(all(isinstance(v, str) for v in items), f"parameter {name} must hold text")
        _spend_on_text(items, f"parameter {name}", self.arrays)
        return np.array(items, dtype=str)

    def _array(self, fields: Fields, name: str) -> NDArray[Any]:
        return self.arrays.any_vector(fields.text("name"))

    def _object(self, fields: Fields, name: str) -> Any:
        known = fields.text("class")
        require(known in OBJECTS, f"parameter {name} is of unknown class {shortened(known)}")
        return self.build(OBJECTS[known], fields.take("parameters"), known)
