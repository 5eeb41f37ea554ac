"""How many random columns beside the right-hand sides take the least time, from what a pass over the data costs.

Problem: a wider block takes fewer passes, and more products in each (Chen, Huber, Lin & Zaid 2025, arXiv:2501.18717).
Method: with b columns in a block, the passes fall about like b^-SAVED (measured). So all of them take a time
proportional to

    T(b) = b^-SAVED (R + a b),  least at  b = SAVED / (1 - SAVED) · R / a,

where a pass takes R seconds before its first product, and each column takes a seconds (`linspec.cost`). The best block
is as wide as makes its products take a third of R. R is small for rows in memory and for mapped files, so nothing is
gained there. It is large where rows are decoded or computed anew for each pass, and where workers must be waited for.
Where we differ from the minimum of T: the work on blocks between passes grows like b², and is counted, too; and a small
gain is not taken, because SAVED is not that of the data at hand. R is never timed: that would give each run other bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linspec import cost
from linspec.rows import Moments

SAVED = 1 / 4
"""Passes fall like the number of columns in a block to the power -SAVED. Measured between 0.1 and 0.25 on counts of
words, between 0.2 and 1.4 on images and on columns of falling variance, and about 0 on columns of equal variance or
where a large ridge leaves ten passes."""

MOST = 40
"""The largest number of random columns. The first twenty save most passes."""

WORTH = 0.85
"""Random columns are taken if the expected time is at most this share of that without them."""

PRODUCTS = 100
"""Number of passes whose time is compared."""


def columns_beside(problem: Any, moments: Moments) -> int:
    """Return the number of random columns with the least expected time of all passes; 0 if it gains little."""
    m, ridges = int(problem.B.shape[1]), len(problem.ridges)
    if problem.A.resident or moments.holds:
        return 0
    sizes = cost.sizes_of([problem.A], m)
    few, many = (cost.sweeps_estimate(replace(sizes, k=k), PRODUCTS) for k in (m, m + MOST))
    each = (many.seconds - few.seconds) / MOST
    between = (
        10.0 * (ridges - 1) * sizes.p * PRODUCTS / cost.DENSE_RATE
    )  # each further ridge has blocks of its own

    def seconds(columns: int) -> float:
        b = m + columns
        return float((b / m) ** -SAVED * (few.seconds + columns * each + between * b**2))

    fits = ridges * many.bytes <= sizes.free_memory() / 4
    best = min(range(MOST + 1), key=seconds) if fits else 0
    return best if seconds(best) <= WORTH * seconds(0) else 0
