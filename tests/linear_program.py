"""The soft margin as a linear program, solved by HiGHS."""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from maboost.mirror import BaseMeasure, Domain


def best_soft_margin(columns: np.ndarray, measure: BaseMeasure, domain: Domain) -> float:
    """The largest soft margin of convex combinations of the columns (m, entries), by HiGHS.

    Maximise rho - sum_i k_i D_i xi_i - sum_g c_g zeta_g, where the margin of each entry is at least
    rho - xi_i - zeta_g: the dual of the smallest mean margin over the domain.
    """
    m, entries = columns.shape
    n, width = measure.rows, measure.width
    room = np.minimum(np.broadcast_to(domain.row_caps(), (n,)) * measure.rows_base, 1.0)
    limits = domain.source_caps()
    masses = np.ones(1) if limits is None else np.minimum(limits.masses, 1.0)
    sources = np.zeros(n, dtype=int) if limits is None else limits.sources
    rows = np.arange(entries) // width
    of_row = sp.csr_matrix((np.ones(entries), (np.arange(entries), rows)), (entries, n))
    of_source = sp.csr_matrix(
        (np.ones(entries), (np.arange(entries), sources[rows])), (entries, masses.size)
    )
    # unknowns: votes, rho, xi, zeta
    matrix = sp.hstack([-columns.T, np.ones((entries, 1)), -of_row, -of_source]).tocsr()
    cost = np.concatenate([np.zeros(m), [-1.0], room, masses])
    equal = np.concatenate([np.ones(m), np.zeros(1 + n + masses.size)])[None, :]
    bounds = [(0, None)] * m + [(None, None)] + [(0, None)] * (n + masses.size)
    found = linprog(cost, matrix, np.zeros(entries), equal, [1.0], bounds=bounds, method="highs")
    return -found.fun
