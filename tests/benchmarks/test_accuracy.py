"""A short run of benchmarks/accuracy, and its mathematics against scipy and published values."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import methods, noise, report, study
from benchmarks.accuracy.data import Table, split
from benchmarks.accuracy.long_servedio import rows_of
from benchmarks.accuracy.methods import POOLS, make
from benchmarks.accuracy.portfolio import portfolio
from benchmarks.accuracy.ranks import Ranking, critical_difference, duels, ranking
from benchmarks.accuracy.study import Task
from scipy.stats import friedmanchisquare, rankdata
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold

BUNDLED = {"breast": load_breast_cancer, "iris": load_iris}
GRIDS = {
    "SmoothBoost": POOLS["SmoothBoost"][4:6],
    "LightGBM": [{"learning_rate": 0.03, "leaves": 7, "columns": c} for c in (0.5, 1.0)],
    "XGBoost": POOLS["XGBoost"][:2],
}
TASKS = [Task(name, kind, 0) for name in BUNDLED for kind in ("clean", "adversarial 20 %")]


def bundled(name: str) -> Table:
    X, y = BUNDLED[name](return_X_y=True)
    return Table(name, X, y)


def short_run(folder: Path) -> pd.DataFrame:
    for task in TASKS:
        study.do(task, GRIDS, folder, bundled)
    return study.results(TASKS, GRIDS, folder)


@pytest.fixture(scope="module", autouse=True)
def _few_rounds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "ROUNDS", 10)
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return short_run(tmp_path_factory.mktemp("study"))


def test_same_seeds_same_numbers(found, tmp_path):
    again = short_run(tmp_path)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), found.drop(columns="seconds"))


# LightGBM 4.6 names the columns of arrays, and then misses the names
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_results_against_grid_search(found):
    """The error of LightGBM, recomputed with scikit-learn's own search."""
    task = TASKS[1]
    rows = split(bundled(task.data), task.split)
    given = noise.noisy(task.noise, rows.X_train, rows.y_train, task.split)
    search = GridSearchCV(
        make("LightGBM", {"leaves": 7, "columns": 0.5}, 0),
        {"learning_rate": [0.03], "colsample_bynode": [0.5, 1.0]},
        cv=StratifiedKFold(study.INNER_FOLDS, shuffle=True, random_state=0),
    )
    model = search.fit(rows.X_train, given).best_estimator_
    error = np.mean(model.predict(rows.X_test) != rows.y_test)
    mine = found.query("data == 'breast' and noise == @task.noise and method == 'LightGBM'")
    assert mine["error"].item() == error


def test_tables_say_what_the_results_say(found):
    ranks = report.rank_table(report.rankings(found))
    for kind in ("clean", "adversarial 20 %"):
        errors = found[found["noise"] == kind].pivot(index="data", columns="method", values="error")
        expected = pd.DataFrame(rankdata(errors, axis=1), columns=errors.columns).mean()
        assert ranks[kind].to_dict() == expected.to_dict()
    assert report.mean_errors(found, list(GRIDS)).count("%") >= 4
    assert "SmoothBoost" in report.verdict(report.rankings(found))


def test_a_run_goes_on_where_it_was(tmp_path, monkeypatch):
    study.do(TASKS[2], GRIDS, tmp_path, bundled)
    done = []
    monkeypatch.setattr(
        study,
        "result",
        lambda table, task, method, grid: done.append(method) or study._key(method, grid),
    )
    study.do(TASKS[2], GRIDS, tmp_path, bundled)
    assert done == []
    study.do(TASKS[2], {**GRIDS, "LightGBM": POOLS["LightGBM"][2:4]}, tmp_path, bundled)
    assert done == ["LightGBM"]
    assert [path.name for path in tmp_path.iterdir()] == [TASKS[2].file]


def test_results_of_another_library_are_not_used_again(tmp_path, monkeypatch):
    """Neither another version of a peer nor another source of maboost."""
    grids = {"LightGBM": GRIDS["LightGBM"][:1], "XGBoost": GRIDS["XGBoost"][:1]}
    study.do(TASKS[2], grids, tmp_path, bundled)
    now = study.made_by
    monkeypatch.setattr(study, "made_by", lambda m: "newer" if m == "XGBoost" else now(m))
    with pytest.raises(ValueError, match="no result of XGBoost as it is now"):
        study.results(TASKS[2:3], grids, tmp_path)
    monkeypatch.setattr(study, "result", lambda *of: {**study._key(*of[2:]), "chosen": of[2]})
    study.do(TASKS[2], grids, tmp_path, bundled)
    found = json.loads((tmp_path / TASKS[2].file).read_text())
    assert found["XGBoost"]["chosen"] == "XGBoost"
    assert found["LightGBM"]["chosen"] == grids["LightGBM"][0]


def test_pools_are_of_one_size():
    assert {len(pool) for pool in POOLS.values()} == {8}
    for pool in POOLS.values():
        assert len({json.dumps(settings) for settings in pool}) == 8


@pytest.mark.parametrize(
    ("methods", "q"), [(2, 1.960), (4, 2.569), (5, 2.728), (9, 3.102), (10, 3.164)]
)
def test_critical_difference_of_demsar(methods, q):
    """Table 5(a) of Demšar (2006), Nemenyi at 5 %."""
    expected = q * np.sqrt(methods * (methods + 1) / (6 * 30))
    assert critical_difference(methods, 30) == pytest.approx(expected, abs=3e-4)


def test_ranking_against_scipy():
    errors = pd.DataFrame(np.random.default_rng(0).random((12, 5)), columns=list("abcde"))
    errors["c"] += 1.0
    errors.loc[3, "a"] = errors.loc[3, "b"]
    result = ranking(errors)
    assert result.mean_ranks.sum() == pytest.approx(5 * 6 / 2)
    assert result.mean_ranks.index[-1] == "c"
    assert result.mean_ranks["c"] == 5.0
    assert result.p_value == friedmanchisquare(*errors.to_numpy().T).pvalue


def test_groups_are_the_largest_runs_within_the_critical_difference():
    ranks = pd.Series({"a": 1.0, "b": 1.5, "c": 2.5, "d": 4.0})
    result = Ranking(ranks, 1.2, 0.0)
    assert result.groups == [("a", "b"), ("b", "c")]


def test_gaps_are_significant_only_where_friedman_finds_a_difference():
    ranks = pd.Series({"a": 1.0, "b": 1.5, "c": 2.2, "d": 4.0})
    assert Ranking(ranks, 1.2, 0.01).significant == {"a": ["c", "d"], "b": ["d"], "c": ["d"]}
    assert Ranking(ranks, 1.2, 0.2).significant == {}


def test_duels_count_every_data_set():
    errors = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.2, 0.1]})
    assert duels(errors, "a").loc["b"].to_dict() == {"wins": 1, "ties": 1, "losses": 1}


def test_portfolio_covers_what_the_first_choice_misses():
    errors = pd.DataFrame([[0.1, 0.5, 0.11], [0.1, 0.5, 0.11], [0.5, 0.1, 0.45]])
    assert portfolio(errors, size=2) == [2, 1]


@pytest.mark.parametrize("kind", list(noise.KINDS))
def test_noise(kind):
    X, y = load_breast_cancer(return_X_y=True)
    given = noise.noisy(kind, X, y, 3)
    flipped = given != y
    assert flipped.sum() == round(noise.KINDS[kind][1] * len(y))
    assert set(given) == {0, 1}
    np.testing.assert_array_equal(given, noise.noisy(kind, X, y, 3))
    if kind.startswith("one-sided"):
        assert set(y[flipped]) == {1}


def test_one_sided_noise_leaves_the_class_its_majority():
    X, y = load_iris(return_X_y=True)
    given = noise.one_sided(X, y, 0.2, 0)
    assert (given[y == 0] == 0).sum() == 30
    np.testing.assert_array_equal(given[y != 0], y[y != 0])


def test_construction_of_long_and_servedio():
    """The vote of all columns is right everywhere, with margins 21, 1 and 1."""
    X, y = rows_of(2000, 0)
    votes = X.sum(axis=1) * (2 * y - 1)
    assert set(votes) == {1.0, 21.0}
    assert abs(np.mean(votes == 21.0) - 0.25) < 0.03
    pullers = (X[:, :11] * (2 * y - 1)[:, None] == 1).all(axis=1) & (votes == 1.0)
    assert abs(pullers.mean() - 0.25) < 0.03
