"""Stage 1 of the two-stage approach: the targets regressed on the data, all in one block.

Problem: W = argmin ‖XW - H‖² + r ‖W‖², so that M W = G for M = XᵀX + rI and G = XᵀH, with the accuracy that the second
stage needs.
Method: the iteration of any least-squares solver that has `begins`. Where the certificate has found a larger residual,
or where no step shortens it any more, it begins again at its iterate, refined by held Gram matrices; it ends where that
no longer halves the residual.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, equations (10) and (27), there by LSQR target by target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec import get_solver
from linspec.arrays import Array, Home, to_host
from linspec.certificates import Metric
from linspec.iteration import Context
from linspec.linalg import Step
from linspec.rows import Moments
from linspec.solving import with_parts


def chosen(lstsq: Any, X: Any) -> Any:
    """Solver that the user chose, or the fastest one.

    The spectrum of dense data decays, and a sketch of the leading part saves most iterations. The spectrum of word
    counts decays so slowly that the sketch and its algebra cost more than they save (measured).
    """
    if lstsq is not None:
        return lstsq
    n, p = X.shape
    return with_parts(get_solver("cg" if X.nnz < n * p else "nystrom-pcg", "least-squares")())


def told_apart(C: Array, cut: float, least: float, home: Home) -> Array:
    """Orthonormal T, t x r, spanning the combinations of targets whose products C = XᵀH are above rounding.

    Lengths up to the fraction `cut` of the longest, and lengths up to `least`, are rounding.
    """
    if C.shape[0] > C.shape[1]:
        C = home.xp.linalg.qr(C, mode="reduced")[1]
    _, s, Vt = np.linalg.svd(to_host(C), full_matrices=False)
    return home.place(Vt[s > max(cut * s.max(initial=0.0), least)].T)


def regressed(
    solver: Any,
    moments: Moments,
    ridge: float,
    G: Array,
    W: Array,
    R: Array,
    metric: Metric,
    context: Context,
) -> Iterator[tuple[Array, float, Step]]:
    """Yield W, its largest relative residual in the plain norm, and the step that it comes from.

    Parameters
    ----------
    solver : Solver
        Of least squares.
    moments : Moments
        Of X and others.
    ridge : float
    G, W, R : array of shape (p, r)
        The right-hand side, where to begin, and G - M W.
    metric : Metric
        Of M.
    context : Context
    """
    solve, lengths = solver.begins(moments, 0, ridge, context), Home.of(G).column_norms(G)
    before = math.inf
    while True:
        tol = context.tol
        for made, step in enumerate(solve(R)):
            worst = float((step.lengths / lengths).max())
            if made == 0 and worst > before / 2:
                return
            before, V = worst if made == 0 else before, W + step.X()[0]
            yield V, worst, step
            if context.tol < tol or made >= solver.max_iterations:
                break
        W, R = V, G - moments.gram_product(V) - V * ridge
        if metric.source == "exact":  # columns of very different lengths have stopped the iteration
            W = W + metric.solve(R)
            R = G - moments.gram_product(W) - W * ridge
