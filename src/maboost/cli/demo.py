"""``maboost demo``: real data with planted label noise, from training to the report."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

import maboost
from maboost.cli.common import told_in_a_line

__all__ = ["demo"]

NOISE = 0.2


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Where to write.",
)
@told_in_a_line
def demo(folder: Path) -> None:
    """Train on bundled data with planted label noise; write the model and the report."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.model_selection import train_test_split

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.array(["malignant", "benign"])[y.to_numpy()]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    X, X_test = X.reset_index(drop=True), X_test.reset_index(drop=True)
    flipped = np.random.default_rng(0).random(len(y)) < NOISE
    noisy = np.where(flipped, np.where(y == "benign", "malignant", "benign"), y)
    click.echo(
        f"Breast cancer data: {len(y)} training rows, {flipped.sum()} of their labels flipped."
    )
    model = maboost.SmoothBoostClassifier(random_state=0).fit(X, noisy)
    peer = AdaBoostClassifier(n_estimators=100, random_state=0).fit(X, noisy)
    click.echo("Error on clean test labels after 100 rounds:")
    for name, fitted in (("scikit-learn's AdaBoost", peer), ("SmoothBoost, defaults", model)):
        click.echo(f"  {name:<24} {1.0 - fitted.score(X_test, y_test):.1%}")
    suspects = model.suspect_labels()
    issues = suspects.index[suspects["is_label_issue"]]
    click.echo(
        f"{len(issues)} labels look wrong; {flipped[issues].sum()} of them were flipped, of "
        f"{flipped.sum()} in all.\n\n{model.certificate_}\n"
    )
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "model.maboost")
    maboost.write_report(
        model, folder / "report.html", X=X, y=noisy, X_test=X_test, y_test=y_test,
        title="Breast cancer, a fifth of the labels flipped",
    )  # fmt: skip
    click.echo(f"model   {folder / 'model.maboost'}\nreport  {folder / 'report.html'}")
