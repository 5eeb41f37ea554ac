"""The end of iterations on AᵀA or AAᵀ: which Ritz pairs are accurate, and the vectors of the other side.

Problem: products with AᵀA lose singular values below √eps·σ₁. A Ritz value there may be a small singular
value or only rounding.
Method: pairs below the rounding of squaring are not returned. If products are corrected by the means, pairs
below the rounding of the means are not returned either, because the correction of constant columns leaves
rounding. One sweep checks whether the data are nonzero in the directions of these pairs. If so, the solution
says that it has fewer triplets for this reason and not because of the rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linspec import Run, Status
from linspec.arrays import Array, HostArray
from linspec_svd.triplets import (
    left_vectors,
    right_vectors,
    share_below_rounding,
    size_of_means,
    squared_cuts,
    vanish,
)

HIDDEN = "{hidden} more are below the rounding of the column means, which are subtracted from products in float32. "
HIDDEN += "Pass float64, or dense data."


def log_chance(side: int, share: float, steps: int) -> float:
    """Logarithm of a bound on the probability that one random start misses the largest eigenvalue.

    The start misses it if, after `steps` = q steps of Lanczos in `side` = N dimensions, the largest Ritz value still
    has a relative error of `share` = ε or more. The bound is 1.648 √N exp(-√ε (2q - 1)) (Kuczyński & Woźniakowski 1992,
    doi:10.1137/0613066, Theorem 4.2). For a block of several starts, multiply the logarithm by their number.
    """
    return float(np.log(1.648) + np.log(max(side, 1)) / 2 - np.sqrt(share) * (2 * steps - 1))


def answer(
    problem: Any,
    run: Run,
    pairs: Callable[[], tuple[Array, HostArray]],
    resume: Callable[[], None],
    *,
    of_rows: bool = False,
) -> dict[str, Any]:
    """Compute the singular triplets from the Ritz pairs, and continue the iteration while the problem rejects them.

    The problem's own residual of the triplets may be above the tolerance although that of the iteration is not. Then
    `resume` is called, and the triplets are computed anew, until the problem accepts them or the run cannot continue.

    Parameters
    ----------
    problem : SVD
    run : Run
        Its loop has ended.
    pairs : callable
        Returns Ritz vectors of AᵀA, or of AAᵀ, and their values in decreasing order.
    resume : callable
        Continues the iteration until `run.proceed` returns False again.
    of_rows : bool, default False
        Whether the vectors are those of AAᵀ.

    Returns
    -------
    dict of str to arrays
        Vh, S and U, the arguments of `Run.finish`; U is None if left vectors are not requested.
    """
    after = float(of_rows or problem.left)
    while True:
        arrays, findings = arrays_of(problem, run, *pairs(), of_rows=of_rows)
        # The iteration computes its residual before the vectors of the other side exist. AᵀA v − σ²v for
        # v = Aᵀu/σ is up to σ₁/σ times as long as AAᵀu − σ²u, and A V = U S turns V among close values.
        with run.budget.reserving(after):
            if not run.falls_short(**arrays):
                break
            resume()
    for status, text in findings:
        run.note(status, text)
    return arrays


def arrays_of(
    problem: Any, run: Run, vectors: Array, theta: HostArray, *, of_rows: bool
) -> tuple[dict[str, Any], list[tuple[Status, str]]]:
    """Return the singular triplets of the Ritz pairs above rounding, and findings about the pairs below it.

    The triplets are a dict with Vh, S and U, the arguments of `Run.finish`. A pair gives no triplet if its value θ is
    below the rounding of squaring, of the entries or of the column means. Each finding is a status and a text for
    `Run.note`.
    """
    findings: list[tuple[Status, str]] = []
    squaring, entries = squared_cuts(problem.A, by_products=of_rows or not run.moments("implicit").held)
    largest = max(float(theta[0]), 0.0) if len(theta) else 0.0
    means = size_of_means(run)
    floor = max(max(squaring, entries) * largest, (share_below_rounding(problem.A) * means) ** 2)
    known = int(np.sum(theta > floor))
    hidden = int(np.sum(theta > max(squaring, entries) * largest)) - known
    if hidden and problem.single:
        findings.append((Status.ILL_CONDITIONED, HIDDEN.format(hidden=hidden)))
    scale = max(largest**0.5, means)
    A, after = problem.A, float(of_rows or problem.left)
    if known < len(theta) and squaring > entries and largest > 0:
        rest = vectors[:, known:]
        if not (run.budget.affords(1.0 + after) and vanish(A.H if of_rows else A, rest, scale)):
            text = f"Only {known} of the {problem.k} singular values asked for are above {squaring**0.5:.0e} of the "
            text += 'largest. Below it, products with AᵀA cannot distinguish them from zero. Choose "direct".'
            findings.append((Status.ILL_CONDITIONED, text))
    block = vectors[:, :known]
    if of_rows:
        U, S, V = right_vectors(A, block)
        return {"Vh": V.T, "S": S, "U": U if problem.left else None}, findings
    values, recomputed, U = np.sqrt(theta[:known]), None, None
    if problem.left:
        U, recomputed, block = left_vectors(A, block)
    return {"Vh": block.T, "S": values if recomputed is None else recomputed, "U": U}, findings
