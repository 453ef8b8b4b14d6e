"""``maboost demo``: real data with planted label noise, from training to the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import maboost
from maboost.cli.console import print_lines, report_errors
from maboost.estimators.progress import showing

__all__ = ["demo"]

NOISE, SPLITS = 0.2, 10
PEER, OURS = "scikit-learn's AdaBoost", "SmoothBoost, defaults"


@dataclass(frozen=True)
class _Split:
    """Training rows with noisy labels, and test rows with clean ones."""

    X: Any
    noisy: NDArray[np.str_]
    flipped: NDArray[np.bool_]
    X_test: Any
    y_test: NDArray[np.str_]


def _split(seed: int) -> _Split:
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.array(["malignant", "benign"])[y.to_numpy()]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    flipped = np.random.default_rng(seed).random(len(y)) < NOISE
    noisy = np.where(flipped, np.where(y == "benign", "malignant", "benign"), y)
    return _Split(X.reset_index(drop=True), noisy, flipped, X_test.reset_index(drop=True), y_test)


def _fitted(split: _Split, seed: int) -> dict[str, Any]:
    """Return the compared methods, each fitted to the noisy labels."""
    from sklearn.ensemble import AdaBoostClassifier

    methods = {
        PEER: AdaBoostClassifier(n_estimators=100, random_state=seed),
        OURS: maboost.SmoothBoostClassifier(random_state=seed),
    }
    return {name: method.fit(split.X, split.noisy) for name, method in methods.items()}


def _write_tables(split: _Split, folder: Path) -> None:
    """Write the first split as the tables that the examples of the documentation read."""
    split.X.assign(diagnosis=split.noisy).to_csv(folder / "rows.csv", index=False)
    split.X_test.assign(diagnosis=split.y_test).to_csv(folder / "test.csv", index=False)
    split.X_test.to_csv(folder / "new.csv", index=False)


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Where to write.",
)
@report_errors
def demo(folder: Path) -> None:
    """Train on bundled data with planted label noise; write the model, the report and the tables."""
    splits = [_split(seed) for seed in range(SPLITS)]
    models = []
    with showing(1) as shown:
        for seed, split in enumerate(splits):
            shown.phase(f"fitting split {seed + 1} of {SPLITS}")
            models.append(_fitted(split, seed))
    print_lines(
        f"Breast cancer data, {NOISE:.0%} of the training labels flipped.",
        f"Mean error on clean test labels over {SPLITS} random splits after 100 rounds, and its range: "
        "one split is noise.",
    )
    errors = {
        name: [
            1.0 - fitted[name].score(s.X_test, s.y_test)
            for fitted, s in zip(models, splits, strict=True)
        ]
        for name in models[0]
    }
    for name, found in errors.items():
        print_lines(f"  {name:<24} {np.mean(found):.1%}  ({min(found):.1%} to {max(found):.1%})")
    first, model = splits[0], models[0][OURS]
    print_lines("", f"The first split: {len(first.noisy)} training rows.")
    with showing(1) as shown:
        shown.phase("judging the labels by a cross-fit")
        suspects = model.suspect_labels()
    issues = suspects.index[suspects["is_label_issue"]]
    print_lines(
        f"{len(issues)} labels look wrong; {first.flipped[issues].sum()} of them were flipped, of "
        f"{first.flipped.sum()} in all.",
        "",
        *str(model.certificate_).splitlines(),
        "",
    )
    folder.mkdir(parents=True, exist_ok=True)
    _write_tables(first, folder)
    model.save(folder / "model.maboost")
    with showing(1) as shown:
        shown.phase("writing the report")
        maboost.write_report(
            model, folder / "report.html", X=first.X, y=first.noisy, X_test=first.X_test,
            y_test=first.y_test,
            title="Breast cancer, a fifth of the labels flipped",
        )  # fmt: skip
    print_lines(
        f"model   {folder / 'model.maboost'}",
        f"report  {folder / 'report.html'}",
        f"tables  {folder / 'rows.csv'} (noisy labels), test.csv (clean), new.csv (none)",
    )
