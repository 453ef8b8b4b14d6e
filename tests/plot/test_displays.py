"""What a display draws is what the model says."""

import pickle
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
    certify,
)
from maboost.plot import (
    BoundDisplay,
    CertificationDisplay,
    DistributionDisplay,
    DomainErrorDisplay,
    FeatureImportanceDisplay,
    MarginDisplay,
    SuspectLabelsDisplay,
)

X, Y = load_breast_cancer(return_X_y=True)
HALF = np.arange(len(Y)) % 2 == 0
SOURCE = np.where(np.arange(len(Y)) % 3 == 0, "trusted", "scraped")
STUMP = HistTreeClassifier(max_depth=1)
BY_ROUND = (BoundDisplay, DistributionDisplay, DomainErrorDisplay)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def smooth():
    model = SmoothBoostClassifier(STUMP, smoothness=5, n_estimators=12, random_state=0)
    return model.fit(X[HALF], Y[HALF], X_val=X[~HALF], y_val=Y[~HALF])


@pytest.fixture(scope="module")
def combined():
    limits = {"trusted": None, "scraped": 0.2}
    model = CombinedBoostClassifier(STUMP, error_limits=limits, n_estimators=12, random_state=0)
    return model.fit(X, Y, sample_domain=SOURCE)


@pytest.fixture(scope="module")
def stopped_early():
    model = CombinedBoostClassifier(
        error_limits={"trusted": None, "scraped": 0.2},
        early_stopping=True,
        n_iter_no_change=3,
        random_state=0,
    )
    model.fit(X, Y, sample_domain=SOURCE)
    assert model.n_iter_ < len(model.history_)
    return model


def one_class():
    return SmoothBoostClassifier().fit(X, np.ones(len(Y)))


def drawn(display, model, **kwargs):
    """Any display of a model."""
    rows = (X, Y) if display is MarginDisplay else ()
    return display.from_estimator(model, *rows, **kwargs)


ALL = (*BY_ROUND, MarginDisplay, FeatureImportanceDisplay, SuspectLabelsDisplay)


@pytest.mark.parametrize("display", ALL)
class TestEvery:
    def test_unfitted_model_is_refused(self, display):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            drawn(display, CombinedBoostClassifier())

    def test_another_model_is_refused(self, display):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
        with pytest.raises(TypeError, match=f"{display.__name__} needs .*Pipeline"):
            drawn(display, pipeline)

    def test_missing_matplotlib_names_the_extra(self, display, combined, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
            drawn(display, combined)

    def test_draws_on_the_axes_given(self, display, combined):
        figure, axes = plt.subplots(1, 2)
        result = drawn(display, combined, ax=axes[1])
        assert result.figure_ is figure
        if display is DistributionDisplay:
            assert not axes[1].axison
        else:
            assert result.ax_ is axes[1]
        assert not axes[0].lines
        assert not axes[0].patches

    def test_draws_again(self, display, combined):
        result = drawn(display, combined)
        first = result.figure_
        assert result.plot() is result
        assert result.figure_ is not first

    def test_figure_is_rendered(self, display, combined):
        drawn(display, combined).figure_.canvas.draw()


@pytest.mark.parametrize("display", [*BY_ROUND, MarginDisplay])
def test_model_without_rounds_is_refused(display):
    with pytest.raises(ValueError, match=r"no rounds .*one class only"):
        drawn(display, one_class())


class TestMargins:
    def test_curves_are_the_margins_of_slices(self, smooth):
        display = MarginDisplay.from_estimator(smooth, X, Y)
        assert display.rounds == [1, 4, 12]
        for n, line in zip(display.rounds, display.lines_, strict=True):
            x, height = line.get_data()
            margins = smooth[:n].margins(X, Y)
            expected = [np.mean(margins <= m) for m in x[1:-1]]
            np.testing.assert_allclose(height[1:-1], expected, rtol=1e-12)
            assert line.get_drawstyle() == "steps-post"

    def test_height_at_zero_is_the_training_error(self, smooth):
        rounds = range(1, smooth.n_iter_ + 1)
        display = MarginDisplay.from_estimator(smooth, X[HALF], Y[HALF], rounds=rounds)
        for error, line in zip(smooth.history_["train_error"], display.lines_, strict=True):
            x, height = line.get_data()
            assert height[x <= 0.0][-1] == pytest.approx(error, abs=1e-12)

    def test_weights(self, smooth):
        weight = np.where(Y == 0, 3.0, 1.0)
        display = MarginDisplay.from_estimator(smooth, X, Y, sample_weight=weight, rounds=[5])
        x, height = display.lines_[0].get_data()
        wrong = smooth[:5].margins(X, Y) <= 0.0
        assert height[x <= 0.0][-1] == pytest.approx(np.average(wrong, weights=weight))
        assert "weight" in display.ax_.get_ylabel()

    def test_many_classes(self):
        X, y = load_wine(return_X_y=True)
        model = MABoostClassifier(n_estimators=3, random_state=0).fit(X, y)
        display = MarginDisplay.from_estimator(model, X, y)
        np.testing.assert_allclose(display.margins[-1], model.margins(X, y))

    @pytest.mark.parametrize("rounds", [[0], [13], [], [-1, 2]])
    def test_rounds_must_exist(self, smooth, rounds):
        with pytest.raises(ValueError, match="numbers from 1 to 12"):
            MarginDisplay.from_estimator(smooth, X, Y, rounds=rounds)

    def test_style(self, smooth):
        display = MarginDisplay.from_estimator(smooth, X, Y, rounds=[1], lw=4.0, c="black")
        assert display.lines_[0].get_linewidth() == 4.0
        assert display.lines_[0].get_color() == "black"


class TestBounds:
    def test_lines_are_the_history(self, smooth):
        display = BoundDisplay.from_estimator(smooth)
        for line, column in (
            (display.bound_line_, "error_bound"),
            (display.train_line_, "train_error"),
            (display.val_line_, "val_error"),
        ):
            np.testing.assert_array_equal(line.get_xdata(), smooth.history_["round"])
            np.testing.assert_array_equal(line.get_ydata(), smooth.history_[column])
        assert set(display.floor_line_.get_ydata()) == {smooth.certificate_.floor}
        assert display.kept_line_ is None

    def test_what_is_absent_is_not_drawn(self):
        model = MABoostClassifier(n_estimators=3, random_state=0).fit(X, Y)
        display = BoundDisplay.from_estimator(model)
        assert display.val_line_ is None
        assert display.floor_line_ is None
        assert len(display.ax_.lines) == 2

    def test_rounds_kept_by_early_stopping(self, stopped_early):
        display = BoundDisplay.from_estimator(stopped_early)
        assert set(display.kept_line_.get_xdata()) == {stopped_early.n_iter_}
        assert len(display.bound_line_.get_xdata()) == len(stopped_early.history_)

    def test_everything_is_in_view(self, smooth):
        display = BoundDisplay.from_estimator(smooth)
        low, high = display.ax_.get_ylim()
        for line in display.ax_.lines:
            assert low < min(line.get_ydata()) <= max(line.get_ydata()) < high

    @pytest.mark.parametrize(
        ("errors", "expected"),
        [([0.5, 0.4], "linear"), ([0.5, 0.01], "log"), ([0.5, 0.01, 0.0], "symlog")],
    )
    def test_scale_follows_the_errors(self, errors, expected):
        display = BoundDisplay(np.arange(1, len(errors) + 1), errors, errors).plot()
        assert display.ax_.get_yscale() == expected

    def test_scale_can_be_chosen(self, smooth):
        assert BoundDisplay.from_estimator(smooth, yscale="linear").ax_.get_yscale() == "linear"
        with pytest.raises(ValueError, match="yscale must be"):
            BoundDisplay.from_estimator(smooth, yscale="cubic")

    def test_no_error_at_all(self):
        zero = np.zeros(3)
        low, high = BoundDisplay([1, 2, 3], zero, zero).plot().ax_.get_ylim()
        assert low < 0.0 < high

    def test_single_round(self):
        display = BoundDisplay([1], [0.5], [0.1]).plot()
        display.figure_.canvas.draw()


class TestDistribution:
    def test_lines_are_the_history(self, smooth):
        display = DistributionDisplay.from_estimator(smooth)
        for line, column in (
            (display.smoothness_line_, "smoothness"),
            (display.ess_line_, "ess"),
            (display.nonzero_line_, "nonzero"),
        ):
            np.testing.assert_array_equal(line.get_ydata(), smooth.history_[column])
        assert set(display.cap_line_.get_ydata()) == {5.0}
        assert len(display.axes_) == 2
        assert display.bars_ is None

    @pytest.mark.parametrize("cap", [{"noise_rate": 0.0}, {}])
    def test_no_cap_no_line(self, cap):
        booster = SmoothBoostClassifier if cap else SparseBoostClassifier
        model = booster(n_estimators=2, random_state=0, **cap).fit(X, Y)
        assert DistributionDisplay.from_estimator(model).cap_line_ is None

    def test_histogram(self, smooth):
        display = DistributionDisplay.from_estimator(smooth, histogram=True, bins=7)
        np.testing.assert_allclose(display.density, smooth.distribution_ * HALF.sum())
        heights = [bar.get_height() for bar in display.bars_]
        counts, _ = np.histogram(display.density, bins=7, range=(0, display.density.max()))
        np.testing.assert_allclose(heights, counts / HALF.sum())

    def test_histogram_is_relative_to_the_weights(self):
        weight = np.where(Y == 0, 3.0, 1.0)
        weight[::7] = 0.0
        model = SmoothBoostClassifier(STUMP, smoothness=4, n_estimators=20, random_state=0)
        model.fit(X, Y, sample_weight=weight)
        display = DistributionDisplay.from_estimator(model, histogram=True, sample_weight=weight)
        assert display.density.shape == (np.sum(weight > 0.0),)
        assert display.density.max() == pytest.approx(4.0)
        assert np.average(display.density, weights=weight[weight > 0.0]) == pytest.approx(1.0)

    def test_rows_held_out_are_left_out(self, stopped_early):
        display = DistributionDisplay.from_estimator(stopped_early, histogram=True)
        assert len(display.density) < len(Y)
        assert display.density.mean() == pytest.approx(1.0)

    def test_wrong_number_of_weights(self, smooth):
        with pytest.raises(ValueError, match="one entry for each of the 285 rows"):
            DistributionDisplay.from_estimator(smooth, histogram=True, sample_weight=np.ones(3))

    def test_axes_for_each_panel(self, smooth):
        _, axes = plt.subplots(3)
        display = DistributionDisplay.from_estimator(smooth, histogram=True, ax=axes)
        assert list(display.axes_) == list(axes)
        with pytest.raises(ValueError, match="one or 2 axes, got 3"):
            DistributionDisplay.from_estimator(smooth, ax=axes)

    def test_axes_placed_by_hand(self, smooth):
        ax = plt.figure().add_axes((0.1, 0.2, 0.5, 0.6))
        display = DistributionDisplay.from_estimator(smooth, ax=ax)
        first, last = (panel.get_position() for panel in display.axes_)
        np.testing.assert_allclose((first.x0, first.y1, last.x1, last.y0), (0.1, 0.8, 0.6, 0.2))

    def test_a_slice_has_no_histogram(self, smooth):
        assert len(DistributionDisplay.from_estimator(smooth[:4]).rounds) == 4
        with pytest.raises(AttributeError, match="distribution_"):
            DistributionDisplay.from_estimator(smooth[:4], histogram=True)


class TestSources:
    def test_lines_are_the_history(self, combined):
        display = DomainErrorDisplay.from_estimator(combined)
        groups = combined.certificate_.groups
        assert set(display.lines_) == {"trusted", "scraped"}
        for name, line in display.lines_.items():
            errors = combined.history_.group_errors[name]
            np.testing.assert_array_equal(line.get_ydata(), errors)
            assert errors[-1] == groups[name].measured_error
            x, bound = display.bound_marks_[name].get_data()
            assert (x[0], bound[0]) == (len(errors), groups[name].error_bound)
        assert set(display.limit_lines_) == {"scraped"}
        assert set(display.limit_lines_["scraped"].get_ydata()) == {0.2}

    def test_bound_is_marked_at_the_round_it_belongs_to(self, stopped_early):
        display = DomainErrorDisplay.from_estimator(stopped_early)
        for name, mark in display.bound_marks_.items():
            x, bound = mark.get_data()
            assert x[0] == stopped_early.n_iter_
            assert display.errors[name][x[0] - 1] <= bound[0]

    def test_other_boosters_are_refused(self, smooth):
        with pytest.raises(ValueError, match="needs a CombinedBoostClassifier"):
            DomainErrorDisplay.from_estimator(smooth)

    def test_many_sources_differ(self):
        errors = {i: [0.5, 0.5 / (i + 1)] for i in range(12)}
        display = DomainErrorDisplay(errors).plot()
        looks = {(line.get_color(), str(line._dash_pattern)) for line in display.lines_.values()}
        assert len(looks) == 12
        assert not display.bound_marks_


class TestSuspects:
    def test_points_are_the_table(self, smooth):
        display = SuspectLabelsDisplay.from_estimator(smooth)
        table = smooth.suspect_labels()
        issue = table["is_label_issue"].to_numpy()
        assert 0 < issue.sum() < len(issue)
        quality = table["label_quality"].to_numpy()
        np.testing.assert_array_equal(display.line_.get_ydata(), np.sort(quality))
        marked = np.sort(display.suspects_.get_ydata())
        np.testing.assert_array_equal(marked, np.sort(quality[issue]))
        labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert labels[0] == f"all {len(issue)} labels"
        assert labels[1].startswith(f"{issue.sum()} suspect")

    def test_only_the_worst(self):
        quality = np.linspace(1.0, 0.0, 11)
        display = SuspectLabelsDisplay(quality, quality < 0.15).plot(max_rows=3)
        np.testing.assert_allclose(display.line_.get_ydata(), [0.0, 0.1, 0.2])
        np.testing.assert_allclose(display.suspects_.get_ydata(), [0.0, 0.1])
        with pytest.raises(ValueError, match="at least 1"):
            display.plot(max_rows=0)

    def test_no_suspects(self):
        display = SuspectLabelsDisplay([0.5, 0.6], [False, False]).plot()
        assert len(display.suspects_.get_ydata()) == 0

    def test_a_slice_is_refused(self, smooth):
        with pytest.raises(AttributeError, match="suspect_labels"):
            SuspectLabelsDisplay.from_estimator(smooth[:4])


class TestImportance:
    def test_bars_are_the_importances(self, smooth):
        display = FeatureImportanceDisplay.from_estimator(smooth, max_features=4)
        importances = smooth.feature_importances_
        widths = [bar.get_width() for bar in display.bars_]
        np.testing.assert_array_equal(widths, np.sort(importances)[::-1][:4])
        names = [text.get_text() for text in display.ax_.get_yticklabels()]
        assert names == [f"x{i}" for i in display.shown_]
        np.testing.assert_array_equal(importances[display.shown_], widths)
        assert "4 of 30 features" in display.ax_.get_xlabel()

    def test_the_first_bar_is_on_top(self, smooth):
        bottom, top = FeatureImportanceDisplay.from_estimator(smooth).ax_.get_ylim()
        assert bottom > top

    def test_names_of_the_table(self):
        frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
        model = MABoostClassifier(n_estimators=2, random_state=0).fit(frame, y)
        display = FeatureImportanceDisplay.from_estimator(model, max_features=30)
        assert display.feature_names == list(frame.columns)
        assert display.ax_.get_xlabel() == "importance (share of the gain)"

    def test_names_given(self, smooth):
        names = [f"feature {i}" for i in range(30)]
        display = FeatureImportanceDisplay.from_estimator(smooth, feature_names=names)
        assert display.feature_names == names
        with pytest.raises(ValueError, match="2 names for 30 features"):
            FeatureImportanceDisplay.from_estimator(smooth, feature_names=["a", "b"])

    def test_a_tree(self):
        tree = HistTreeClassifier(max_depth=2).fit(X, Y)
        display = FeatureImportanceDisplay.from_estimator(tree, max_features=1)
        assert display.bars_[0].get_width() == tree.feature_importances_.max()

    def test_estimators_without_importances(self):
        model = MABoostClassifier(LogisticRegression(), n_estimators=2, random_state=0)
        model.fit(StandardScaler().fit_transform(X), Y)
        with pytest.raises(TypeError, match="MABoostClassifier do not have"):
            FeatureImportanceDisplay.from_estimator(model)

    def test_at_least_one_bar(self, smooth):
        with pytest.raises(ValueError, match="at least 1"):
            FeatureImportanceDisplay.from_estimator(smooth, max_features=0)


class TestCertification:
    def test_intervals_estimates_and_limits(self, smooth):
        limits = {"overall": 1.0, "trusted": 0.0, ("class", 0): 0.09}
        found = certify(smooth, X[~HALF], Y[~HALF], groups=SOURCE[~HALF], limits=limits)
        display = CertificationDisplay(found).plot()
        drawn = [line.get_xdata().tolist() for line in display.intervals_]
        assert drawn == [[e.lower, e.upper] for e in found.errors]
        assert [m.get_xdata()[0] for m in display.estimates_] == [e.estimate for e in found.errors]
        assert sorted(display.limit_marks_) == ["class 0", "group trusted", "overall"]
        shown = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert shown == [e.title for e in found.errors]
        assert "given labels, 95% bounds" in display.ax_.get_xlabel()
        told = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert told[-1] == "limit"
        assert len(told) == 1 + len({e.status for e in found.errors} - {None})

    def test_any_classifier_and_no_limits(self):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[HALF], Y[HALF])
        _, ax = plt.subplots()
        display = CertificationDisplay.from_estimator(pipeline, X[~HALF], Y[~HALF], ax=ax)
        assert display.ax_ is ax
        assert ax.get_legend() is None
        assert display.plot(linewidth=5.0).intervals_[0].get_linewidth() == 5.0


def test_displays_leave_the_model_alone(combined):
    before = pickle.dumps(combined)
    for display in ALL:
        drawn(display, combined)
    assert pickle.dumps(combined) == before


def test_importing_maboost_does_not_import_matplotlib():
    code = "import sys, maboost; maboost.plot.BoundDisplay; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
