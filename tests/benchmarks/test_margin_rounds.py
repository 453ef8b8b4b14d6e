"""Short runs of benchmarks/bench_margin.py."""

from benchmarks import bench_margin


def test_margin_boost_and_lpboost_reach_the_same_soft_margin():
    (X, y), _ = bench_margin.problems(None)["breast cancer"]
    found = bench_margin.margins({"breast cancer": ((X[:200], y[:200]), (20.0,))})
    assert (found["margin"] >= found["best"] - found["tolerance"]).all()
    assert (found["margin"] <= found["best"] + 1e-6).all()
    assert (found["proven"] <= found["SoftBoost bound"]).all()
    assert (found["reached"] <= found["proven"]).all()


def test_total_steps_reach_the_stagewise_bound_in_fewer_rounds():
    data = bench_margin.sets(None)
    found = bench_margin.bounds({"breast cancer": data["breast cancer"]})
    assert (found["total rounds"] < found["rounds"]).all()
    assert (found["total trees"] < found["trees"]).all()
