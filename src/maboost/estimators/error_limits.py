"""Whether the error limits of data sources did what they are for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from maboost.boosting.certificate import Certificate, GroupBound
from maboost.runtime.parameter_errors import Message, ParameterWarning, Setting

__all__ = ["ErrorLimitWarning", "warn_of_limits"]

_MANY_TIMES, _MANY_ROUNDS = 10, 1000  # as many further rounds are out of reach
_FEWEST_ROUNDS = 50  # a shorter fit says little of a limit
_TOUCHES = 1.0 - 1e-6  # of its cap: a row there is held


class ErrorLimitWarning(ParameterWarning):
    """An error limit of a data source is below what is reachable, or never held a row back.

    Examples
    --------
    >>> import warnings
    >>> from maboost import CombinedBoostClassifier
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     X = [[i % 2] for i in range(200)]
    ...     y = [i % 2 if i % 10 else 1 for i in range(200)]  # a fifth of the even rows are 1
    ...     model = CombinedBoostClassifier(error_limits={"web": 0.01})
    ...     model = model.fit(X, y, sample_domain=["web"] * 200)
    >>> print(str(caught[0].message).split(":")[0])
    error_limits['web']=0.01 is below what is reachable
    """


def warn_of_limits(
    certificate: Certificate, densities: Mapping[Any, float], over: bool, stacklevel: int
) -> None:
    r"""Warn of each error limit that is out of reach, and of each that never bound.

    A limit :math:`\ell_g` of a source of share :math:`\pi_g` is the cap :math:`1/(\ell_g\pi_g)` on the densities of its rows.
    A limit below the error that the learner can reach leaves room for a distribution on the wrong rows alone, under
    which edges vanish. A fit of fewer than 50 rounds says little of a limit. It is
    warned of only if no further round was possible and the limit was not reached.

    Parameters
    ----------
    certificate : Certificate
        Of the fitted model.
    densities : mapping
        The largest density that a row of each source had in any round.
    over : bool
        Whether no further round was possible.
    stacklevel : int
        As in :func:`warnings.warn`.
    """
    short = certificate.rounds < _FEWEST_ROUNDS
    for name, its in certificate.groups.items():
        if its.limit is None:
            continue
        message: Message | str | None = None
        if over or not short:
            message = _out_of_reach(certificate, name, its, its.limit)
        if message is None and not short:
            message = _never_bound(its, its.limit, densities[name])
        if message:
            limit = Setting("error_limits", float(its.limit), name)
            warnings.warn(ErrorLimitWarning(limit, " ", message), stacklevel=stacklevel)


def _out_of_reach(
    certificate: Certificate, name: Any, its: GroupBound, limit: float
) -> Message | None:
    if its.measured_error <= limit or its.error_bound <= limit:
        return None
    needed = certificate.rounds_needed(limit, name)
    if needed is not None and needed <= max(_MANY_TIMES * certificate.rounds, _MANY_ROUNDS):
        return None
    further = "no number of further rounds" if needed is None else f"only {needed:,} further rounds"
    return Message(
        f"is below what is reachable: after {certificate.rounds} rounds the training error of the source is "
        f"{its.measured_error:.3g}, and at the gain of the last round {further} would certify the limit. Give a "
        f"limit above {its.measured_error:.3g}, or ", Setting("flip_rates"), " or ", Setting("source_mass"),
        " if many labels of the source are wrong",
    )  # fmt: skip


def _never_bound(its: GroupBound, limit: float, density: float) -> str | None:
    cap = 1.0 / (limit * its.share)
    if its.measured_error > limit or density >= _TOUCHES * cap:
        return None
    would = 1.0 / (density * its.share)
    binding = (
        f"a limit above about {would:.2g} would bind" if would < 1.0 else "no limit would bind"
    )
    cost = "; all it does is keep the certified error up" if its.error_bound <= limit else ""
    return (
        f"never bound: it allows a row {cap:.3g} times its share of the weight, and no row of the source ever had more "
        f"than {density:.3g} times{cost}. In that many rounds {binding}; None is for a source without a limit"
    )
