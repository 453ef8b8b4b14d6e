"""Train on real data with wrong labels and read the certificate.

A fifth of the training labels of the breast cancer data are flipped; the test labels are clean.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from maboost import SmoothBoostClassifier


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    flipped = np.random.default_rng(0).random(len(y)) < 0.2
    noisy = np.where(flipped, 1 - y, y)

    ada = AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=200, random_state=0)
    smooth = SmoothBoostClassifier(n_estimators=200, random_state=0)
    print("Breast cancer data, 20 % of the training labels flipped, clean test labels")
    for name, model in (("AdaBoost", ada), ("SmoothBoost", smooth)):
        model.fit(X, noisy)
        staged = [np.mean(p != y_test) for p in model.staged_predict(X_test)]
        print(f"  {name:<12} test error: last round {staged[-1]:.1%}, best round {min(staged):.1%}")
    suspects = smooth.suspect_labels()
    issues = suspects.index[suspects["is_label_issue"]]
    print(
        f"\n{len(issues)} of {len(y)} labels look wrong; {flipped[issues].mean():.0%} of them were flipped, "
        f"and {flipped[issues].sum()} of the {flipped.sum()} flipped ones are among them. The first:\n"
    )
    print(suspects.head().to_string())
    print(
        f"\nWhat SmoothBoost (smoothness {smooth.smoothness_:g}) certifies:\n{smooth.certificate_}"
    )


if __name__ == "__main__":
    main()
