"""Conformance checks for your own regularizers, domains, learners and boosters."""
