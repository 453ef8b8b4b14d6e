"""Histogram trees: binning, histograms, splitting, growing, prediction; one stage a file."""
