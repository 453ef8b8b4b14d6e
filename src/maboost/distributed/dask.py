"""The classifiers on a Dask cluster."""

from __future__ import annotations

import copy
import inspect
import os
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maboost.data.labels import label_array
from maboost.distributed.collective import Traffic
from maboost.distributed.launch import fit_on_workers, loaded
from maboost.distributed.parts import is_collection, parts_of
from maboost.estimators import BOOSTERS
from maboost.mirror.domains import SourceCapped
from maboost.runtime.optional_packages import missing_package

try:
    import dask.array as da
    from dask import delayed
    from distributed import Client, default_client
except ImportError as error:  # pragma: no cover
    raise ImportError(missing_package("maboost.distributed", "dask", "dask")) from error

__all__ = ["CLASSIFIERS"]

_OWN = ("client", "timeout")
_DOCUMENTED = """{first}

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; the current client by default.
    timeout : int, default=45
        Seconds after which a worker that does not answer the others counts as lost. Must be longer than
        any worker may compute between two messages: a pass over its rows.
    estimator, n_estimators, ...
        As in :class:`maboost.{name}`. `n_jobs` is by worker; None means as many as the worker has threads.
        Only the library's own trees; `scoring` is "neg_log_loss" or "accuracy"; no `warm_start`.
        `checkpoint` is a path that the workers see.

    Attributes
    ----------
    traffic_ : list of Traffic
        What each worker exchanged with the others, by rank.
    classes_, estimators_, history_, certificate_, ...
        As in :class:`maboost.{name}`, but for what is of every training row (`distribution_`,
        `suspect_labels()`), which stays with no one.
"""


def _refuse_domain_by_row(domain: Any) -> None:
    """Refuse a domain with one entry for each row, since each worker has other rows."""
    if isinstance(domain, SourceCapped):
        raise ValueError(
            "domain has sources by row, but rows are in partitions: use DaskCombinedBoostClassifier with "
            "source_mass and sample_domain"
        )
    if np.ndim(getattr(domain, "caps", 0.0)):
        raise ValueError(
            "domain has caps by row, but rows are in partitions: give one cap, or use "
            "DaskCombinedBoostClassifier with sample_domain"
        )


class _OnDask:
    """The common base of the classifiers on Dask."""

    _local: ClassVar[type]
    client: Client | None
    timeout: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the class the constructor of its local class, with two more parameters."""
        super().__init_subclass__(**kwargs)
        local = next(base for base in cls.__mro__ if not issubclass(base, _OnDask))
        cls._local = local
        made = inspect.signature(local.__init__)
        more = [
            inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None),
            inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=45),
        ]
        signature = made.replace(parameters=[*made.parameters.values(), *more])

        def __init__(self: Any, *args: Any, **params: Any) -> None:
            given = signature.bind(self, *args, **params)
            given.apply_defaults()
            for name, value in list(given.arguments.items())[1:]:
                setattr(self, name, value)

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign]
        cls.__doc__ = _DOCUMENTED.format(first=cls.__doc__, name=local.__name__)

    # ---------------------------------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        *,
        groups: Any = None,
        sample_domain: Any = None,
    ) -> Self:
        """Fit the booster on the workers that hold the rows.

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val, sample_weight_val, groups, sample_domain
            As in the local classifier, but as Dask arrays or data frames of the same rows in the same order;
            collections with other partitions than `X` are repartitioned like it.

        Returns
        -------
        self
        """
        rows = {
            "X": X, "y": y, "sample_weight": sample_weight, "X_val": X_val, "y_val": y_val,
            "sample_weight_val": sample_weight_val, "groups": groups, "sample_domain": sample_domain,
        }  # fmt: skip
        params = self._local_params()
        self._check(params, rows)
        client = self._connected()
        given = {name: values for name, values in rows.items() if values is not None}
        outcomes = fit_on_workers(client, self._local, params, given, int(self.timeout))
        model = next(iter(outcomes.values())).model
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        known = set(params)
        self.__dict__ |= {name: value for name, value in vars(model).items() if name not in known}
        self.traffic_: list[Traffic] = [outcome.traffic for outcome in outcomes.values()]
        return self

    def _connected(self) -> Client:
        client = self.client or default_client()
        if client.asynchronous:
            raise ValueError(
                "client is asynchronous, but fit and score wait for the workers: give them "
                "Client(address, asynchronous=False), in a thread of their own (asyncio.to_thread)"
            )
        return client

    def _local_params(self) -> dict[str, Any]:
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: value for name, value in params.items() if name not in _OWN}

    def _check(self, params: dict[str, Any], rows: dict[str, Any]) -> None:
        """Refuse on the client what is impossible on the workers."""
        model = self._local(**params)
        model._validate_params()
        whole = isinstance(self.timeout, Integral) and not isinstance(self.timeout, bool)
        if not (whole and self.timeout > 0):
            raise ValueError(
                f"timeout must be a positive whole number of seconds, got {self.timeout!r}"
            )
        if params["warm_start"]:
            raise ValueError(
                "warm_start=True needs the state of every row, which stays with no worker after a fit: "
                "use checkpoint=PATH and resume=True"
            )
        if getattr(self, "_skl_callbacks", None):
            raise ValueError(
                "callbacks need all rows and the model of every round, which no machine has here: remove "
                "them with set_callbacks(), or fit on one machine"
            )
        if rows["X"] is None or rows["y"] is None:
            raise ValueError("X and y must be given")
        if (rows["X_val"] is None) != (rows["y_val"] is None):
            raise ValueError("X_val and y_val go together: give both or neither")
        if rows["sample_weight_val"] is not None and rows["X_val"] is None:
            raise ValueError("sample_weight_val is given without X_val and y_val")
        if rows["sample_domain"] is not None and "error_limits" not in params:
            raise TypeError(f"{type(self).__name__}.fit() takes no sample_domain")
        _refuse_domain_by_row(params.get("domain"))
        if params["random_state"] is None:  # all workers need the same seed
            params["random_state"] = int(np.random.mtrand._rand.randint(2**31 - 1))

    def to_local(self) -> Any:
        """Return the same model as a local classifier."""
        model = self._local(**copy.deepcopy(self._local_params()))
        own = {*self.get_params(deep=False), "traffic_"}  # type: ignore[attr-defined]
        model.__dict__ |= {name: value for name, value in vars(self).items() if name not in own}
        return model

    # ------------------------------------------------------------------------------------ predict

    def predict(self, X: Any) -> Any:
        """Return the class with the most votes: lazy for a Dask collection."""
        return self._answers("predict", X)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities from the votes: lazy for a Dask collection."""
        return self._answers("predict_proba", X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`: lazy for a Dask collection."""
        return self._answers("predict_log_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Return the weighted vote: lazy for a Dask collection."""
        return self._answers("decision_function", X)

    def _answers(self, method: str, X: Any) -> Any:
        """Return a method's results for rows: a Dask array with a chunk for each partition, or an array."""
        check_is_fitted(self)
        model = self.to_local()
        if not is_collection(X):
            return getattr(model, method)(X)
        K = len(model.classes_)
        by_row = method == "predict" or (method == "decision_function" and K <= 2)
        tail = () if by_row else (K,)
        dtype = model.classes_.dtype if method == "predict" else np.dtype(np.float64)
        shared = delayed(model)
        answers = [_answer(shared, method, part, tail, dtype) for part in parts_of("X", X)]
        return _joined(answers, X, tail, dtype)

    def margins(self, X: Any, y: Any) -> Any:
        """Return normalised margins of labelled rows: lazy for Dask collections in the same partitions."""
        check_is_fitted(self)
        if not is_collection(X):
            return self.to_local().margins(X, y)
        rows, labels = parts_of("X", X), parts_of("y", _cut_alike(y, X))
        if len(rows) != len(labels):
            raise ValueError(
                f"y has {len(labels)} partitions, X has {len(rows)}: give them the same ones, with "
                "rechunk() or repartition()"
            )
        shared = delayed(self.to_local())
        found = [_margins(shared, *pair) for pair in zip(rows, labels, strict=True)]
        return _joined(found, X, (), np.dtype(np.float64))

    def _checked_rows(self, X: Any) -> Any:
        """Return the rows of methods that go through the rounds one by one."""
        if is_collection(X):
            raise TypeError(
                "X is a Dask collection, and staged methods need rows on one machine: give X.compute(), or "
                "take one stage lazily, as model[:n].predict(X)"
            )
        return super()._checked_rows(X)  # type: ignore[misc]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for a Dask collection it is computed on the cluster."""
        if not is_collection(X):
            return float(self.to_local().score(X, y, sample_weight))
        check_is_fitted(self)
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        client = self._connected()
        parts = loaded(
            client, {name: values for name, values in rows.items() if values is not None}
        )
        shared = delayed(self.to_local())
        found = client.gather(client.compute([_right(shared, part) for part in parts]))
        right, total = np.sum(found, axis=0)
        return float(right / total)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which :func:`maboost.load_model` reads as a local classifier."""
        self.to_local().save(path)

    def __copy__(self) -> Any:
        """Return the same model with the same client, which only a pickle loses."""
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        return made

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return state | {"client": None}

    def __sklearn_clone__(self) -> Any:
        """Return a clone with the same client, which cannot be copied."""
        made: Any = type(self)
        params = copy.deepcopy(self._local_params())
        return made(**params, client=self.client, timeout=self.timeout)


@delayed  # type: ignore[untyped-decorator]
def _answer(model: Any, method: str, part: Any, tail: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    if not part.shape[0]:
        return np.empty((0, *tail), dtype)
    found: NDArray[Any] = getattr(model, method)(part)
    return found


@delayed  # type: ignore[untyped-decorator]
def _margins(model: Any, X: Any, y: Any) -> NDArray[np.float64]:
    if X.shape[0] != y.shape[0]:
        raise ValueError(
            f"y has {y.shape[0]} rows in a partition where X has {X.shape[0]}: give them the same ones, "
            "with rechunk() or repartition()"
        )
    found: NDArray[np.float64] = model.margins(X, y) if X.shape[0] else np.empty(0)
    return found


def _cut_alike(values: Any, X: Any) -> Any:
    """Return an array with one entry for each row in the chunks of X, if both know their lengths."""
    if not (isinstance(values, da.Array) and isinstance(X, da.Array)):
        return values
    sizes = X.chunks[0]
    known = not np.isnan([*sizes, *values.chunks[0]]).any()
    return values.rechunk({0: sizes}) if known and len(values) == len(X) else values


def _joined(parts: list[Any], X: Any, tail: tuple[int, ...], dtype: Any) -> Any:
    """Return the results for all partitions of X as one Dask array."""
    sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * len(parts)
    chunks = [
        da.from_delayed(part, (size, *tail), dtype) for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


@delayed  # type: ignore[untyped-decorator]
def _right(model: Any, part: dict[str, Any]) -> tuple[float, float]:
    """Return the weight of the rows that a model classifies correctly, and of all rows."""
    y = column_or_1d(label_array(part["y"]))
    weight = np.asarray(part.get("sample_weight", np.ones(len(y))))
    right = model.predict(part["X"]) == y if len(y) else np.zeros(0, dtype=bool)
    return float(weight[right].sum()), float(weight.sum())


def _on_dask(local: type) -> type:
    """Return the Dask class of a local classifier."""
    summary = f":class:`maboost.{local.__name__}` on a Dask cluster: the same bits, wherever the rows are."
    name = f"Dask{local.__name__}"
    return type(name, (_OnDask, local), {"__doc__": summary, "__module__": "maboost.distributed"})


CLASSIFIERS = {f"Dask{local.__name__}": _on_dask(local) for local in BOOSTERS.values()}
