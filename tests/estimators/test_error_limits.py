"""Warnings about error limits that are out of reach or never bind."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from maboost import CombinedBoostClassifier, ErrorLimitWarning


def two_sources(wrong=0.15, seed=0):
    """Digits, odd or even; a share of the labels of two thirds of the rows is wrong."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    source = np.where(rng.random(len(y)) < 1 / 3, "trusted", "scraped")
    flipped = (source == "scraped") & (rng.random(len(y)) < wrong)
    return X, np.where(flipped, 1 - y % 2, y % 2), source


def model(limit, **params):
    params = {"random_state": 0, "n_jobs": 1} | params
    return CombinedBoostClassifier(error_limits={"trusted": None, "scraped": limit}, **params)


def said(booster, X, y, source):
    """The warnings about limits, as text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        booster.fit(X, y, sample_domain=source)
    return [str(w.message) for w in caught if issubclass(w.category, ErrorLimitWarning)]


@pytest.mark.parametrize("limit", [0.01, 0.1])
@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
def test_a_limit_below_what_stumps_can_reach(limit, regularizer):
    X, y, source = two_sources()
    stumps = model(limit, max_depth=1, regularizer=regularizer)
    (text,) = said(stumps, X, y, source)
    bound = stumps.certificate_.groups["scraped"]
    assert f"error_limits['scraped']={limit:g} is below what is reachable" in text
    assert limit < bound.measured_error <= bound.error_bound
    further = stumps.certificate_.rounds_needed(limit, "scraped")
    assert further is None or f"{further:,} further rounds" in text
    # the limit that the text asks for is not below what is reachable
    reachable = float(re.search(r"Give a limit above ([\d.]+),", text)[1])
    assert reachable == pytest.approx(bound.measured_error, rel=0.01)
    texts = said(model(1.2 * reachable, max_depth=1, regularizer=regularizer), X, y, source)
    assert not any("reachable" in text for text in texts)


@pytest.mark.parametrize("update", ["active", "lazy"])
def test_a_limit_that_never_binds(update):
    X, y, source = two_sources()
    loose = model(0.05, update=update)
    (text,) = said(loose, X, y, source)
    assert "error_limits['scraped']=0.05 never bound" in text
    # no row comes near its cap: it is the model without the limit, up to rounding
    without = model(None, update=update).fit(X, y, sample_domain=source)
    np.testing.assert_allclose(loose.decision_function(X), without.decision_function(X), rtol=1e-9)
    # the limit that would bind is where the text says
    binding = float(re.search(r"a limit above about ([\d.]+) would bind", text)[1])
    (text,) = said(model(0.5 * binding, update=update), X, y, source)
    assert "never bound" in text
    assert said(model(1.1 * binding, update=update), X, y, source) == []


def test_a_limit_that_never_binds_and_is_certified_costs_some_of_the_certificate():
    X, y, source = two_sources()
    loose = model(0.05, n_estimators=150, learning_rate=1.0)
    (text,) = said(loose, X, y, source)
    assert "keep the certified error up" in text
    without = model(None, n_estimators=150, learning_rate=1.0).fit(X, y, sample_domain=source)
    bounds = [m.certificate_.groups["scraped"].error_bound for m in (without, loose)]
    assert bounds[0] < bounds[1] == 0.05


def test_no_limit_below_one_would_bind():
    X, y, source = two_sources(wrong=0.0)
    (text,) = said(model(0.4, n_estimators=50, learning_rate=0.001), X, y, source)
    assert "no limit would bind" in text


@pytest.mark.parametrize("limit", [0.2, 0.3, 0.4, None])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_ordinary_fits_do_not_warn(limit, rate):
    X, y, source = two_sources()
    assert said(model(limit, learning_rate=rate), X, y, source) == []


def test_a_short_fit_does_not_warn():
    X, y, source = two_sources()
    assert said(model(0.15, n_estimators=49), X, y, source) == []
    assert said(model(0.15, n_estimators=50), X, y, source) != []


@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_a_fit_that_runs_out_of_edges_is_judged_after_few_rounds_too(rate):
    X = np.arange(200)[:, None] % 2
    y = np.where(np.arange(200) % 10 == 0, 1, X[:, 0])  # the rows say no more of y than X
    both = np.where(np.arange(200) < 100, "trusted", "scraped")
    short = model(0.05, learning_rate=rate)
    (text,) = said(short, X, y, both)
    assert short.n_iter_ < 50
    assert "is below what is reachable" in text


def test_a_short_fit_that_needs_no_further_round_does_not_warn():
    X = np.arange(200)[:, None] % 2
    both = np.where(np.arange(200) < 100, "trusted", "scraped")
    right = model(0.2, learning_rate=1.0, max_depth=1)
    assert said(right, X, X[:, 0], both) == []
    assert right.n_iter_ < 50
    assert right.certificate_.measured_error == 0.0


def test_a_limit_on_every_source_does_not_warn():
    X, y = load_breast_cancer(return_X_y=True)
    source = np.where(np.arange(len(y)) % 3 == 0, "a", "b")
    limits = CombinedBoostClassifier(error_limits={"a": 0.3, "b": 0.2}, random_state=0)
    assert said(limits, X, y, source) == []


def test_sources_without_limits_do_not_warn():
    X, y, source = two_sources()
    capped = CombinedBoostClassifier(source_mass={"scraped": 0.3}, random_state=0)
    assert said(capped, X, y, source) == []
    rates = {"scraped": 0.15, "trusted": 0.0}
    assert said(CombinedBoostClassifier(flip_rates=rates, random_state=0), X, y, source) == []


@pytest.mark.parametrize("limit", [0.05, 0.2])
def test_a_fit_that_goes_on_knows_the_densities_of_its_first_rounds(limit, tmp_path):
    X, y, source = two_sources()
    whole = said(model(limit, n_estimators=60), X, y, source)
    warm = model(limit, n_estimators=60, warm_start=True)
    said(warm, X, y, source)
    assert said(warm, X, y, source) == whole  # no further round
    stored = model(limit, n_estimators=30, checkpoint=tmp_path / "fit.ckpt", resume=True)
    said(stored, X, y, source)
    assert said(stored.set_params(n_estimators=60), X, y, source) == whole
