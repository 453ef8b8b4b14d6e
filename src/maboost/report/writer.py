"""Writing of the report to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from maboost.certification import Certification
from maboost.report.page import page
from maboost.report.subject import (
    Subject,
    certification_of,
    fitted_booster,
    held_out_rows,
    labelled_rows,
)
from maboost.report.subject import (
    feature_names as names_of,
)
from maboost.runtime.atomic_files import whole_file

__all__ = ["check_report_name", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    X: Any = None,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    certification: Certification | None = None,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    source: str | None = None,
    date: str | None = None,
    max_suspects: int = 200,
    max_features: int = 20,
) -> Path:
    """Write the fitted booster, its errors and its certificates as one HTML file.

    The file is self-contained: it loads no fonts and no scripts from elsewhere. It has the same
    bytes for the same model, rows and versions. Needs jinja2, of the extra ``report``.

    Parameters
    ----------
    model : a fitted booster
    path : path
        The output file, whose name ends in .html. An existing file is replaced when the new one is complete.
    X, y : the rows of the fit and their labels, optional
        Without them the margins, the column statistics and the values of suspect rows are left out.
    sample_weight : array of shape (n_rows,), optional
        The weights of the fit; `class_weight` is multiplied in.
    X_test, y_test : optional
        Fresh rows: not used to fit, stop, choose or calibrate the model. The error on them is shown by round,
        and certified at 95% confidence unless `certification` is given.
    certification : Certification, optional
        The result of :func:`maboost.certify` for this model, shown as the first section.
    feature_names : sequence of str, optional
        By default the columns of the table the model was fitted on, else x0, x1, ...
    title : str, optional
        The heading; by default the booster and `source`.
    source : str, optional
        The origin of the rows, such as the name of a file.
    date : str, optional
        Shown unchanged below the heading; by default none, so that the file is reproducible.
    max_suspects : int, default=200
        Rows in the table of suspect labels. They are shown with their values if `X` is given; 0 shows
        none.
    max_features : int, default=20
        Features in every table: the most important ones.

    Returns
    -------
    Path
        The path of the report.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import SmoothBoostClassifier, write_report
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(model, Path(folder) / "report.html", X=X, y=y)
    ...     report.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    fitted_booster(model)
    target = _writable(Path(path))
    check_report_name(path)
    training = labelled_rows(model, X, y, sample_weight)
    subject = Subject(
        model=model,
        training=training,
        test=held_out_rows(model, X_test, y_test),
        certification=certification_of(model, X_test, y_test, certification),
        names=names_of(model, training, feature_names),
        title=title or "",
        source=source or "",
        date=date or "",
        max_suspects=_limit("max_suspects", max_suspects, 0),
        max_features=_limit("max_features", max_features, 1),
    )
    content = page(subject).encode("utf-8", errors="backslashreplace")
    try:
        with whole_file(target) as file:
            file.write(content)
    except OSError as error:
        raise type(error)(f"the report cannot be written to {target}: {error.strerror}") from error
    return target


def check_report_name(path: str | os.PathLike[str], parameter: str = "path") -> None:
    """Refuse the name of a file that would not be opened as HTML."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"{parameter} {os.fspath(path)}: a report is written as HTML only; give a name that ends in .html"
        )


def _limit(name: str, value: int, least: int) -> int:
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def _writable(path: Path) -> Path:
    """Return the path if a file can be written there; checked before the work begins."""
    if path.is_dir():
        raise IsADirectoryError(f"the report cannot be written: {path} is a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the report cannot be written: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"the report cannot be written: no permission in {path.parent}")
    return path
