"""The systems of a path of ridges, each solved by an iteration of its own, in the same passes.

Problem: (AᵀA + rI) x = AᵀB for some ridges r, where variables, and so iterations, depend on the ridge.
Method: all iterations share each product with AᵀA (`linspec.linalg.steps`). One within the tolerance waits for others.
Where we differ: iterations update their residuals, and rounding makes these drift. Where the certificate has computed a
larger residual, where one is no more than rounding, or where no direction is left, they begin again at their iterates,
for corrections from computed residuals; they end where that no longer halves the residual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from linspec.algebra import EPS
from linspec.arrays import Array, Home, HostArray
from linspec.iteration import Iterate
from linspec.linalg import Step, Steps, side_by_side
from linspec.rows import Moments

ROUNDING = 20
"""A residual below so many roundings of products, relative to the first one, says nothing until it is computed anew."""


def solved_by_ridge(  # noqa: PLR0913
    product: Callable[[Array], Array],
    AtB: Array,
    ridges: Sequence[float],
    context: Any,
    begin: Callable[[float, Array], Steps],
    x: Array | None = None,
    AtAx: Array | None = None,
    *,
    left: Callable[[Array], Array] | None = None,
    unit: float = EPS,
) -> Iterator[Iterate]:
    """Yield the iterates of all ridges.

    Parameters
    ----------
    product : callable
        V -> AᵀA V, in one pass.
    AtB : array of shape (p, m)
    ridges : sequence of float
    context : Context
        Its `tol` is read.
    begin : callable
        Takes a ridge r and a block G; returns an iteration from zero for (AᵀA + rI) x = G.
    x : array of shape (p, m · ridges), optional
        The start.
    AtAx : array of shape (p, m · ridges), optional
        AᵀA x, if it is known.
    left : callable, optional
        x -> Aᵀ(B - A x), with more digits than AᵀB - AᵀA x.
    unit : float, optional
        Relative rounding of the products.
    """
    home, before = Home.of(AtB), math.inf
    scales = home.column_norms(AtB)
    r = home.place(np.repeat(np.asarray(ridges, np.float64), len(scales)))[None, :]
    R = home.concat([AtB] * len(ridges))
    live = home.place(np.tile(scales > 0, len(ridges)).astype(np.float64))[None, :]
    x, AtAx = (None if each is None else each * live for each in (x, AtAx))

    def waits(_: int, step: Step) -> bool:
        return worst(step.lengths, scales) <= float(context.tol)

    while True:
        if x is None:
            G = R
        elif AtAx is not None:
            G, AtAx = R - AtAx - x * r, None
        else:
            G = (R - product(x) if left is None else left(x)) - x * r
        blocks = [G[:, i * len(scales) : (i + 1) * len(scales)] for i in range(len(ridges))]
        tol, first = context.tol, True
        for now in side_by_side(product, list(map(begin, ridges, blocks)), waits):
            residual = max(worst(step.lengths, scales) for step in now)
            yield Iterate(residual, partial(_arrays, now, x))
            if first and residual > before / 2:
                return
            before, first = residual if first else before, False
            if context.tol < tol or residual <= ROUNDING * unit * before:
                break
        x = _arrays(now, x)["x"]


def worst(lengths: HostArray, scales: HostArray) -> float:
    """The largest relative residual; 0 for a column without a right-hand side that stays 0."""
    lengths = np.reshape(lengths, (-1, len(scales)))
    ratios = np.divide(lengths, scales, out=np.where(lengths > 0, np.inf, 0.0), where=scales > 0)
    return float(ratios.max(initial=0.0))


def _arrays(now: Sequence[Step], x: Array | None) -> dict[str, Array]:
    """The iterates of all ridges, ridges outermost."""
    X = [step.X()[0] for step in now]
    solved = Home.of(X[0]).concat(X)
    return {"x": solved if x is None else x + solved}


def rounding_of(moments: Moments, AtB: Array, width: int) -> dict[str, Any]:
    """How the residual of x with so many columns is computed, and the relative rounding of products with AᵀA."""
    if moments.holds:
        return {"unit": EPS}
    copies = width // AtB.shape[1]
    unit = moments.operators[1].backend.blocks.place(np.tile(np.eye(AtB.shape[1]), copies))
    return {
        "left": lambda x: moments.residual(-x, unit)[0][0],
        "unit": float(np.finfo(moments.operators[0].dtype).eps),
    }
