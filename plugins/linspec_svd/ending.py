"""How iterations on AᵀA or AAᵀ end: which Ritz pairs are known, and the vectors of the other side.

Problem: products with AᵀA leave nothing of singular values below √eps·σ₁: a Ritz value there may be a small singular
value or none.
Method: pairs below the rounding of squaring are not returned, nor those below that of the means, where products are
corrected by them: what the correction of constant columns leaves is no singular value. One sweep looks whether the data
have anything in their directions; if they have, the solution says that it has fewer triplets for that reason and not
for want of rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import Run, Solution, Status
from linspec.arrays import Array, HostArray
from linspec_svd.triplets import (
    decomposed,
    left_vectors,
    right_vectors,
    share_below_rounding,
    size_of_means,
    squared_cuts,
    vanish,
)

HIDDEN = (
    "{hidden} more are below the rounding of the column means, which are taken out of products in float32. "
)
HIDDEN += "Pass float64, or dense data."


def log_chance(side: int, share: float, steps: int) -> float:
    """Logarithm of the chance that a random start leaves the largest eigenvalue open by a share of itself.

    After q steps in N dimensions it is 1.648 √N exp(-√ε (2q - 1)) at most (Kuczyński & Woźniakowski 1992,
    doi:10.1137/0613066, Theorem 4.2). The chances of several starts multiply.
    """
    return float(np.log(1.648) + np.log(max(side, 1)) / 2 - np.sqrt(share) * (2 * steps - 1))


def finished(problem: Any, run: Run, vectors: Array, theta: HostArray, *, of_rows: bool = False) -> Solution:
    """The solution from Ritz vectors of AᵀA, or of AAᵀ, and their values in decreasing order."""
    squaring, entries = squared_cuts(problem.A)
    largest = max(float(theta[0]), 0.0) if len(theta) else 0.0
    means = size_of_means(problem, run)
    floor = max(max(squaring, entries) * largest, (share_below_rounding(problem.A) * means) ** 2)
    known = int(np.sum(theta > floor))
    hidden = int(np.sum(theta > max(squaring, entries) * largest)) - known
    if hidden and problem.single:
        run.note(Status.ILL_CONDITIONED, HIDDEN.format(hidden=hidden))
    scale = max(largest**0.5, means)
    A, after = decomposed(problem, run), float(of_rows or problem.left)
    if known < len(theta) and squaring > entries and largest > 0:
        rest = vectors[:, known:]
        if not (run.affords(1.0 + after) and vanish(A.H if of_rows else A, rest, scale)):
            text = f"Only {known} of the {problem.k} singular values asked for are above {squaring**0.5:.0e} of the "
            text += 'largest, where products with AᵀA can tell them from zero. Choose "direct".'
            run.note(Status.ILL_CONDITIONED, text)
    block = vectors[:, :known]
    if of_rows:
        U, S, V = right_vectors(A, block)
        return run.finish(Vh=V.T, S=S, U=U if problem.left else None)
    values, recomputed, U = np.sqrt(theta[:known]), None, None
    if problem.left:
        U, recomputed, block = left_vectors(A, block)
    return run.finish(Vh=block.T, S=values if recomputed is None else recomputed, U=U)
