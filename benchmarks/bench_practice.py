"""What the defaults do on noisy labels: probabilities and the smoothness rule.

Prints tables; ``--write`` puts them into docs/practice.md. Data come with scikit-learn or are made by
it; flips are planted in the training labels, and test labels are clean.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from pathlib import Path

import lightgbm
import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
    make_hastie_10_2,
)
from sklearn.ensemble import AdaBoostClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from maboost import MABoostClassifier, SmoothBoostClassifier


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    digits, wine = load_digits(return_X_y=True), load_wine(return_X_y=True)
    diabetes, hastie = load_diabetes(return_X_y=True), make_hastie_10_2(2000, random_state=0)
    return {
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits": (digits[0], digits[1] % 2),
        "wine": (wine[0], (wine[1] == 1).astype(int)),
        "diabetes": (diabetes[0], (diabetes[1] > np.median(diabetes[1])).astype(int)),
        "hastie": (hastie[0], (hastie[1] > 0).astype(int)),
        "synthetic": make_classification(
            2000, 20, n_informative=8, n_redundant=4, flip_y=0.05, class_sep=0.8, random_state=3
        ),
    }


def flipped(y: np.ndarray, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    flips = np.random.default_rng(seed).random(len(y)) < rate
    return np.where(flips, 1 - y, y), flips


def reliability(p: np.ndarray, y: np.ndarray, bins: int = 10) -> float:
    """The expected calibration error over equal bins of the probability."""
    which = np.minimum((p * bins).astype(int), bins - 1)
    gaps = [abs(p[which == b].sum() - y[which == b].sum()) for b in range(bins)]
    return float(sum(gaps) / len(y))


def probabilities(seeds: int) -> list[str]:
    lines = ["| flips | model | log loss | calibration error | error |", "|---|---|---|---|---|"]
    models = {
        "SmoothBoost": SmoothBoostClassifier(random_state=0),
        "SmoothBoost, early stopping": SmoothBoostClassifier(early_stopping=True, random_state=0),
        "MABoost": MABoostClassifier(random_state=0),
        "MABoost, early stopping": MABoostClassifier(early_stopping=True, random_state=0),
        "AdaBoost (scikit-learn)": AdaBoostClassifier(n_estimators=100, random_state=0),
        "LightGBM": lightgbm.LGBMClassifier(verbosity=-1, random_state=0),
    }
    for noise in (0.0, 0.2):
        for name, model in models.items():
            rows = []
            for X, y in data_sets().values():
                for seed in range(seeds):
                    X_train, X_test, y_train, y_test = train_test_split(
                        X, y, test_size=0.4, stratify=y, random_state=seed
                    )
                    given, _ = flipped(y_train, noise, seed)
                    # the probability of a noisy label is what there is to learn
                    labels, _ = flipped(y_test, noise, 1000 + seed)
                    p = clone(model).fit(X_train, given).predict_proba(X_test)[:, 1]
                    wrong = np.mean((p > 0.5) != y_test)
                    rows.append((log_loss(labels, p, labels=[0, 1]), reliability(p, labels), wrong))
            loss, gap, error = np.mean(rows, axis=0)
            lines.append(f"| {noise:.0%} | {name} | {loss:.3f} | {gap:.3f} | {100 * error:.1f} % |")
            print(lines[-1], flush=True)
    return lines


def smoothness(seeds: int) -> list[str]:
    """Test error of the last of 100 rounds by how the cap is chosen, mean over the data sets."""
    lines = ["| flips | auto | noise_rate | k = 4 | no cap |", "|---|---|---|---|---|"]
    for noise in (0.0, 0.1, 0.2, 0.3):
        models = {
            "auto": SmoothBoostClassifier(random_state=0),
            "rate": SmoothBoostClassifier(noise_rate=noise, random_state=0),
            "four": SmoothBoostClassifier(smoothness=4.0, random_state=0),
            "none": MABoostClassifier(learning_rate=0.3, random_state=0),
        }
        errors: dict[str, list[float]] = {name: [] for name in models}
        for X, y in data_sets().values():
            for seed in range(seeds):
                X_train, X_test, y_train, y_test = train_test_split(
                    X, y, test_size=0.4, stratify=y, random_state=seed
                )
                given, _ = flipped(y_train, noise, seed)
                for name, model in models.items():
                    errors[name].append(
                        1.0 - clone(model).fit(X_train, given).score(X_test, y_test)
                    )
        means = " | ".join(f"{100 * np.mean(e):.1f} %" for e in errors.values())
        lines.append(f"| {noise:.0%} | {means} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write docs/practice.md")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    parts = {
        "Probabilities": (
            "On test labels with the same flips as the training labels, since that is the probability there "
            "is to learn; the error is on clean labels.",
            probabilities(options.seeds),
        ),
        "The smoothness": (
            "Error on clean test labels after the last of 100 rounds at the default rate of 0.1, mean over "
            "the data sets.",
            smoothness(options.seeds),
        ),
    }
    if options.write:
        text = (
            "# In practice\n\nWritten by `make bench-practice`. Some defaults (the rule for the cap and its trial) were chosen on "
            "these same six data sets, so read the figures as optimistic. [Suspect labels](suspects.md) are measured on larger tables.\n"
        )
        for title, (words, lines) in parts.items():
            text += f"\n## {title}\n\n{words}\n\n" + "\n".join(lines) + "\n"
        text += (
            f"\n{options.seeds} seeds; Python {platform.python_version()}, scikit-learn {sklearn.__version__}, "
            f"LightGBM {lightgbm.__version__}. Data sets: {', '.join(data_sets())}.\n"
        )
        (Path(__file__).parent.parent / "docs" / "practice.md").write_text(text)


if __name__ == "__main__":
    main()
