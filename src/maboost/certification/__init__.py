"""Certificates on rows that were not used to fit, for any classifier."""
