"""The studies of benchmarks/theory at a small size: what they measure must hold at any size."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.theory import lazy, margins, rates, sparsity, stairs
from benchmarks.theory.common import ORDERS, as_csv, rounds, stingy_run, where
from benchmarks.theory.figures import FIGURES
from scipy.optimize import linprog

from maboost.boosting.recipes import maboost, madaboost, smooth, sparseboost

COMMITTED = Path(__file__).parent.parent / "docs" / "theory-evidence"


def small_studies():
    """Every table at a size of a second or so; times are left out."""
    targets = (0.3, 0.1)
    return {
        "rates": rates.error_rates(60, (0.4,), targets, 500)
        + rates.margin_rates(12, (0.6,), (0.8, 0.4), 400),
        "madaboost": rates.madaboost_rates(200, 0.6, (0.1, 0.03, 0.01), 1500),
        "margins": margins.margin_study(80, 40)[0],
        "cycling": margins.cycling_margins(400),
        "sparsity": sparsity.sparsity_study(400, 4, 1),
        "lazy": lazy.conjecture(10, 30, 0.4, 40),
        "boxes": lazy.box_potential(30, 0.4, 60),
        "stairs": stairs.counterexample(1400, 1, 600),
    }


@pytest.fixture(scope="module")
def tables():
    return small_studies()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("recipe", [maboost, lambda: smooth(3.0), sparseboost, madaboost])
def test_the_stingy_learner_gives_the_edge_it_promises(recipe, order):
    produced = list(rounds(stingy_run(recipe(), 50, 0.3, order), 20))
    assert produced
    for one in produced:
        assert one.record.edge == pytest.approx(0.3, abs=1e-12)
        assert np.abs(one.hypothesis.table).max() <= 1.0


def test_no_error_is_above_its_theorem_and_no_target_takes_longer(tables):
    assert {row["theorem"][0] for row in tables["rates"]} == set("12345")
    for row in tables["rates"]:
        assert row["largest_ratio_to_bound"] <= 1.0
        assert row["rounds"] <= row["theorem_rounds"]  # NaN, a target not reached, fails


def test_madaboost_has_the_faster_rate_with_our_step_and_not_with_the_papers(tables):
    for row in tables["madaboost"]:
        assert row["sum_eps2_gamma2"] <= 2.0 * (1.0 - row["error_at_end"])
        if row["step"] != "paper":
            assert row["sum_eps_gamma2"] <= 2.0 * (1.0 - row["error_at_end"])
            assert row["rounds"] <= row["our_rounds"]
    paper = where(tables["madaboost"], step="paper", learner="fixed order")
    assert paper[0]["sum_eps_gamma2"] > 2.0


def stump_answers(X: np.ndarray) -> np.ndarray:
    """What every stump answers, up to its sign, and the constant one."""
    found = [np.ones(len(X))]
    for x in X.T:
        found += [np.where(x <= t, -1.0, 1.0) for t in np.unique(x)[:-1]]
    return np.unique(found, axis=0)


def test_column_generation_ends_at_the_program_over_all_stumps():
    X, y = margins.data(80)
    half = stump_answers(X) * (2.0 * y - 1.0)
    columns = np.concatenate([half, -half])
    m, n = columns.shape
    whole = linprog(
        np.r_[np.zeros(m), -1.0],
        A_ub=np.c_[-columns.T, np.ones(n)],
        b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(m), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    assert margins.lpboost(X, y)[1] == pytest.approx(-whole.fun, abs=2e-6)


def test_no_margin_is_above_the_linear_program(tables):
    for row in tables["margins"] + tables["cycling"]:
        assert row["margin"] <= row["optimum"] + 1e-6
        certified = row.get("certified", math.nan)
        assert math.isnan(certified) or certified <= row["margin"] + 1e-9
        edge = row.get("smallest_edge", math.nan)
        assert math.isnan(edge) or edge >= row["optimum"] - 1e-6
    last = where(tables["margins"], booster="LPBoost (HiGHS)")[-1]
    assert last["margin"] == pytest.approx(last["optimum"], abs=2e-6)


def test_adaboost_stays_at_a_third_where_the_max_margin_step_goes_on(tables):
    table = tables["cycling"]
    assert table[0]["optimum"] == pytest.approx(3 / 8, abs=1e-9)
    ends = {row["booster"]: row["margin"] for row in table}  # the last row of each
    assert ends["AdaBoost (corrective)"] <= 1 / 3 + 1e-9
    assert ends["max-margin, entropy"] > 1 / 3


def test_sparse_boosters_keep_their_certificate_and_their_budget(tables):
    for row in tables["sparsity"]:
        assert row["train_error"] <= row["error_bound"]
        if (
            row["way"] == "sparsity" and row["value"] <= 0.9
        ):  # 20 of 200 rows; of fewer, more at need
            assert row["rows_shown"] <= 1.0 - row["value"] + 1e-9
    everything = where(tables["sparsity"], way="all rows")
    assert all(row["rows_shown"] == 1.0 for row in everything)


def test_the_curl_tells_entropy_from_euclidean(tables):
    """Where the two projections are one, or a multiple of a gradient, no curl; else there is some."""
    for row in tables["lazy"]:
        assert (row["share_with_curl"] > 0.0) == row["sets"].startswith("euclidean")
    assert all(row["largest_share_of_bound"] <= 1.0 for row in tables["boxes"])


def test_the_stairs_lead_round_and_never_up(tables):
    """Every edge of the loop is positive, yet it ends where it began and one row stays wrong."""
    first = next(row for row in tables["stairs"] if row["round"] == 600)
    last = tables["stairs"][-1]
    assert last["round"] == 600 + 1400
    for name in ("theta_0", "theta_1", "theta_below"):
        assert last[name] == pytest.approx(first[name], abs=1e-9)
    assert last["least_edge"] > 0.03
    assert last["least_error"] >= 0.1 > last["theorem_1_bound"]


def test_the_lazy_update_with_one_projection_cannot_go_round():
    """On the same moves its edges add up to the divergences alone, which vanish with the moves."""
    sums = []
    for count in (350, 1400):
        moves = stairs.equal_moves(count)[0]
        theta = np.array([stairs.LOW, stairs.LOW, stairs.WRONG] + [-20.0] * stairs.BELOW)
        total = 0.0
        for move in moves:
            w = lazy.project(lazy.Euclidean(), lazy.Simplex(), theta, lazy.uniform(10)).density
            total -= float(np.mean(w * move))
            theta = theta + move
        sums.append(total)
    assert 0.0 <= sums[1] < 0.3 * sums[0]
    assert sums[1] < 0.1 * 1400 * stairs.equal_moves(1400)[1]  # what two projections give


def test_the_same_seeds_give_the_same_tables(tables):
    again = small_studies()
    for name, table in tables.items():
        assert as_csv(again[name]) == as_csv(table), name


def test_the_committed_tables_have_these_columns_and_hold_too(tables):
    for name, table in tables.items():
        with (COMMITTED / f"{name}.csv").open() as file:
            assert next(csv.reader(file)) == list(table[0]), name
    with (COMMITTED / "rates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(float(row["largest_ratio_to_bound"]) <= 1.0 for row in rows)
    assert all(float(row["rounds"] or 0) <= float(row["theorem_rounds"]) for row in rows)


def test_every_study_has_its_picture():
    images = COMMITTED.parent / "images"
    text = (COMMITTED.parent / "theory-evidence.md").read_text()
    for name in FIGURES:
        assert f"images/theory_{name}.png" in text
        assert (images / f"theory_{name}.png").exists()
