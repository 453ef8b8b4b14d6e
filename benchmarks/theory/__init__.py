"""The theorems against runs: rates, margins, sparsity, LPBoost, and the lazy conjecture.

``python -m benchmarks.theory --write`` makes every table, plot and the page docs/theory-evidence.md;
``--check`` runs the studies again and compares them with the committed tables.
"""
