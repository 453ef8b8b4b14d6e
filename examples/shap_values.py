"""Why does the model call a tumour benign?

A booster's vote is a sum over its rounds; SHAP values split it into a sum over features instead, row by
row. The picture shows all rows with the package shap, and the mean size of each feature's part without it.

    python examples/shap_values.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from maboost import SmoothBoostClassifier


def main(target: str | None = None) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = SmoothBoostClassifier(n_estimators=30, random_state=0).fit(X, y)

    parts = model.predict_contributions(X)
    values, base = parts[:, :-1], parts[:, -1]
    gap = np.max(np.abs(parts.sum(axis=1) - model.decision_function(X)))
    print(f"parts add up to the vote within {gap:.0e}")
    top = np.argmax(np.abs(values).mean(axis=0))
    print(f"the feature that moves votes most is {X.columns[top]!r}")

    try:
        import shap
    except ImportError:
        bars(values, X.columns)
    else:
        explanation = shap.Explanation(values, base, X.to_numpy(), feature_names=list(X.columns))
        shap.plots.beeswarm(explanation, max_display=12, show=False)
        plt.xlabel("SHAP value: part of the vote (positive: benign)")
    plt.tight_layout()
    if target:
        plt.savefig(target, dpi=110)
    else:
        plt.show()


def bars(values: np.ndarray, names: list[str], count: int = 12) -> None:
    size = np.abs(values).mean(axis=0)
    shown = np.argsort(size)[-count:]
    plt.figure(figsize=(7, 4.5))
    plt.barh([names[j] for j in shown], size[shown], color="#4269d0")
    plt.xlabel("Mean size of the SHAP value, in votes")


if __name__ == "__main__":
    main(*sys.argv[1:])
