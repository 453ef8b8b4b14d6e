"""Histogram trees: binning, histograms, splitting, growth and prediction, one stage in each file."""
