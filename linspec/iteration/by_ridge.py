"""The systems of a path of ridges, each solved by an iteration of its own, in the same passes.

Problem: (AᵀA + rI) x = AᵀB for some ridges r, where variables, and so iterations, depend on the ridge.
Method: all iterations share each product with AᵀA (`linspec.linalg.side_by_side`). One within the tolerance waits for
others.
Where we differ: iterations update their residuals, and rounding makes these drift. Where the certificate has computed a
larger residual, where one is no more than rounding, or where no direction is left, they begin again at the iterates of
the least residual, for corrections from computed residuals; they end where that no longer halves the residual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import Array, Device, HostArray
from linspec.iteration.loop import Iterate
from linspec.linalg import EPS, Step, Steps, side_by_side

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
    """Yield the iterates of all ridges with the least residual so far.

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

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.iteration import Context, solved_by_ridge
    >>> from linspec.linalg import cg_steps
    >>> from linspec.rows import Passes
    >>> S, b, context = np.diag([1.0, 3.0]), np.ones((2, 1)), Context(1e-9, np.random.default_rng(0), Passes())
    >>> steps = solved_by_ridge(S.__matmul__, b, (1.0,), context, lambda r, G: cg_steps(G, (r,)))
    >>> next(step for step in steps if step.residual < 1e-9).arrays()["x"].ravel().round(6).tolist()
    [0.5, 0.25]
    """
    there, before = Device.of(AtB), math.inf
    scales = there.column_norms(AtB)
    r = there.asarray(np.repeat(np.asarray(ridges, np.float64), len(scales)))[None, :]
    R = there.concat([AtB] * len(ridges))
    live = there.asarray(np.tile(scales > 0, len(ridges)).astype(np.float64))[None, :]
    x, AtAx = (None if block is None else block * live for block in (x, AtAx))

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
        tol, first, least = context.tol, True, math.inf
        for now in side_by_side(product, list(map(begin, ridges, blocks)), waits):
            residual = max(worst(step.lengths, scales) for step in now)
            if not residual >= least:
                least, nearest = residual, now
            yield Iterate(least, partial(_arrays, nearest, x))
            if first and residual > before / 2:
                return
            before, first = residual if first else before, False
            if context.tol < tol or residual <= ROUNDING * unit * before:
                break
        x = _arrays(nearest, x)["x"]


def worst(lengths: HostArray, scales: HostArray) -> float:
    """Return the largest relative residual; 0 for a column without a right-hand side that stays 0.

    Parameters
    ----------
    lengths : numpy.ndarray of shape (m · ridges,)
        Of the residuals, the first ridge first.
    scales : numpy.ndarray of shape (m,)
        The lengths of the right-hand sides.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.iteration import worst
    >>> worst(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    0.25
    """
    lengths = np.reshape(lengths, (-1, len(scales)))
    ratios = np.divide(lengths, scales, out=np.where(lengths > 0, np.inf, 0.0), where=scales > 0)
    return float(ratios.max(initial=0.0))


def _arrays(now: Sequence[Step], x: Array | None) -> dict[str, Array]:
    """The iterates of all ridges, ridges outermost."""
    X = [step.X()[0] for step in now]
    solved = Device.of(X[0]).concat(X)
    return {"x": solved if x is None else x + solved}
