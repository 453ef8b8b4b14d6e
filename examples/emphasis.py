"""A group the model must get right: malignant tumours.

A missed malignant tumour is worse than a false alarm. Two ways to say so:

- a larger base measure: `sample_weight` counts each malignant row five times;
- an error limit per group: CombinedBoost lets a fifth of the benign rows be wrong and none of the
  malignant ones.

Beside them are SmoothBoost without any emphasis, and AdaBoost, which has no cap to lift: these
labels need none, so that against AdaBoost one sees what the emphasis alone changes. The training
error of each group is certified: for CombinedBoost directly, for the others by the bound divided by
the group's share of the base measure. The test error is only measured.

    python examples/emphasis.py [number of splits]
"""

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    SmoothBoostClassifier,
)

ROUNDS = 60
GROUPS = {"must": "malignant", "rest": "benign"}


def fitted(X, y, group, seed):
    """Each model: its name, the model, and the certified error of each group."""
    stump = HistTreeClassifier(max_depth=1)
    common = {"estimator": stump, "n_estimators": ROUNDS, "random_state": seed}
    smooth = SmoothBoostClassifier(smoothness=5, **common)
    for name, model, weight in (
        ("AdaBoost", MABoostClassifier(**common), 1.0),
        ("SmoothBoost", smooth, 1.0),
        ("SmoothBoost, weight 5", smooth, 5.0),
    ):
        base = np.where(group == "must", weight, 1.0)
        model.fit(X, y, sample_weight=base)
        shares = [base[group == g].sum() / base.sum() for g in GROUPS]
        yield name, model, [min(1.0, model.certificate_.error_bound / s) for s in shares]
    model = CombinedBoostClassifier(error_limits={"must": None, "rest": 0.2}, **common)
    model.fit(X, y, sample_domain=group)
    yield "CombinedBoost", model, [model.certificate_.groups[g].error_bound for g in GROUPS]


def errors(model, X, y, group):
    wrong = model.predict(X) != y
    return [np.mean(wrong[group == g]) for g in GROUPS]


def one_split(seed):
    """Certified, training and test error of each model and group."""
    X, y = load_breast_cancer(return_X_y=True)
    group = np.where(y == 0, "must", "rest")
    X, X_test, y, y_test, group, group_test = train_test_split(
        X, y, group, test_size=0.3, random_state=seed, stratify=y
    )
    found = {}
    for name, model, certified in fitted(X, y, group, seed):
        training, test = errors(model, X, y, group), errors(model, X_test, y_test, group_test)
        for i, g in enumerate(GROUPS):
            found[name, g] = (certified[i], training[i], test[i])
    return found


def main(splits: str = "10") -> None:
    found = [one_split(seed) for seed in range(int(splits))]
    print(f"Breast cancer data, stumps, {ROUNDS} rounds; mean over {splits} splits (deviation)\n")
    print(f"{'model':<23}{'group':<12}{'certified':>14}{'training':>14}{'test':>14}")
    for name, g in found[0]:
        table = np.array([split[name, g] for split in found])
        cells = [f"{m:.1%} ({s:.1%})" for m, s in zip(table.mean(0), table.std(0), strict=True)]
        print(f"{name:<23}{GROUPS[g]:<12}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    main(*sys.argv[1:])
