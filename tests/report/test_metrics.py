"""The metrics are scikit-learn's, and a threshold is the best one on the rows that choose it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve

from maboost.report.metrics import THRESHOLD_METRICS, best_threshold, metrics, predicted_at

SCORES = {"f1": reference.f1_score, "balanced_accuracy": reference.balanced_accuracy_score}


def rows(classes, count=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(len(classes), size=count)
    proba = rng.dirichlet(np.ones(len(classes)), size=count)
    proba = 0.6 * proba + 0.4 * np.eye(len(classes))[np.where(rng.random(count) < 0.6, y, 0)]
    labels = np.asarray(classes)
    return labels[y], labels[proba.argmax(axis=1)], proba


@pytest.mark.parametrize("classes", [[0, 1], ["a", "b", "c"], list(range(7))])
def test_metrics_are_those_of_scikit_learn(classes):
    y, said, proba = rows(classes)
    found = metrics(y, said, proba, classes)
    exact = {"rel": 1e-12}
    assert found.error == pytest.approx(1 - reference.accuracy_score(y, said), **exact)
    assert found.balanced_accuracy == pytest.approx(
        reference.balanced_accuracy_score(y, said), **exact
    )
    assert found.macro_f1 == pytest.approx(reference.f1_score(y, said, average="macro"), **exact)
    assert found.log_loss == pytest.approx(reference.log_loss(y, proba, labels=classes), **exact)
    score = proba[:, 1] if len(classes) == 2 else proba
    area = reference.roc_auc_score(y, score, multi_class="ovr")
    assert found.auc == pytest.approx(area, **exact)
    assert np.array_equal(found.confusion, reference.confusion_matrix(y, said, labels=classes))
    for its in found.classes:
        one = {"labels": [its.label], "average": None}
        assert its.recall == pytest.approx(reference.recall_score(y, said, **one)[0], **exact)
        assert its.precision == pytest.approx(reference.precision_score(y, said, **one)[0], **exact)
        assert its.f1 == pytest.approx(reference.f1_score(y, said, **one)[0], **exact)
        assert its.rows == np.sum(y == its.label)


def test_the_brier_score_and_the_curves_of_two_classes():
    y, said, proba = rows([0, 1], count=150)
    found = metrics(y, said, proba, [0, 1])
    assert found.brier == pytest.approx(reference.brier_score_loss(y, proba[:, 1]), rel=1e-12)
    observed, predicted = calibration_curve(y, proba[:, 1], n_bins=10)
    assert [its.observed for its in found.calibration] == pytest.approx(observed)
    assert [its.predicted for its in found.calibration] == pytest.approx(predicted)
    assert sum(its.rows for its in found.calibration) == 150
    false_positive, true_positive, _ = reference.roc_curve(y, proba[:, 1])
    roc = found.classes[1].roc
    assert np.array_equal(roc.x, false_positive)
    assert np.array_equal(roc.y, true_positive)


def test_long_curves_are_thinned_and_keep_their_ends():
    y, said, proba = rows([0, 1], count=20_000)
    its = metrics(y, said, proba, [0, 1]).classes[1]
    for line in (its.roc, its.precision_recall):
        assert len(line.x) <= 200
        assert line.x[0] == 0.0
        assert line.x[-1] == 1.0
        assert np.all(np.diff(line.x) >= 0.0)


def test_a_class_without_rows_has_no_recall_and_no_area():
    y, said, proba = rows(["a", "b", "c"])
    there = y != "c"
    found = metrics(y[there], said[there], proba[there], ["a", "b", "c"])
    its = found.classes[2]
    assert its.rows == 0
    assert np.isnan([its.recall, its.auc]).all()
    assert its.roc is None
    recalls = [c.recall for c in found.classes[:2]]
    assert found.balanced_accuracy == pytest.approx(np.mean(recalls))
    assert found.auc == pytest.approx(np.mean([c.auc for c in found.classes[:2]]))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(THRESHOLD_METRICS))
def test_no_threshold_is_better(data, metric):
    count = data.draw(st.integers(2, 25))
    positive = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    positive[:2] = True, False
    levels = st.sampled_from([i / 8 for i in range(9)])
    score = np.array(data.draw(st.lists(levels, min_size=count, max_size=count)))
    proba = np.column_stack([1.0 - score, score])

    def value(threshold):
        return SCORES[metric](positive, predicted_at(threshold, proba, [False, True], 1))

    reached = value(best_threshold(positive, score, metric))
    assert reached >= max(map(value, score)) - 1e-12
