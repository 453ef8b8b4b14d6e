"""Accuracy under label noise, against the usual libraries; run by ``make bench-accuracy``."""
