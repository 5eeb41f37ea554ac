"""Conjugate gradients on the side of the rows.

Problem: ridge regression with fewer rows than columns. The blocks of (AᵀA + rI) x = AᵀB are long, so the algebra
between products takes as long as the products.
Method: (K + rI) z = B, K = AAᵀ, and x = Aᵀz (the matrix inversion lemma; Saunders, Gammerman & Vovk 1998), by the same
block conjugate gradients on the short blocks z. A product with K is one sweep over the columns
of A, centred or not.
Where we differ: the iteration stops by the gradient of x, which is Aᵀ times the residual of z. For residuals Q ρ,

    ‖AᵀQρ‖² = ρᵀ (QᵀKQ) ρ,  KQ = KP − KP₋ τᵀ,

where the directions P = Q + P₋τᵀ are multiplied anyway, one step later. The returned z is then the z before this step,
because gradients of successive iterates rise and fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from linspec import Iterate, LinearOperator, Moments
from linspec.arrays import Array, HostArray, to_host
from linspec.operators import uncounted
from linspec_lstsq.parts.normal_equations import Begin, System


@dataclass(kw_only=True, eq=False)
class RowIterate(Iterate):
    """An iterate of conjugate gradients on the side of the rows, with K = AAᵀ.

    Attributes
    ----------
    A : LinearOperator
    residual : float
        The residual of Aᵀz for the attribute `z`. Before the first step it is 1, or 0 if B = 0.
    point : Blocks
        The point of the iteration for z after the last step; its `x` is the newest z.
    z : array of shape (n, m)
        The z before the last step.
    known : bool
        Whether the residual is that of z.
    """

    A: InitVar[LinearOperator]
    residual: float
    point: Any
    z: Array
    known: bool = False

    def __post_init__(self, A: LinearOperator) -> None:
        self._A = A

    def weights(self) -> Mapping[str, Any]:
        """x = Aᵀz for the newest z, that of `point`; the product does not count as a sweep of the run."""
        return {"x": uncounted(self._A)[0].rmatmat(self.point.x)}


def on_rows(moments: Moments, ridge: float, count: int) -> bool:
    """Whether the side of the rows takes less time: for wide sparse rows and positive ridges.

    With centring it takes some passes more than the side of the columns. It pays only where a step's 12 p `count`²
    operations between products, for `count` right-hand sides, exceed those of its product.
    """
    if not moments.cost.wide or ridge == 0:
        return False
    return not moments.center or 3 * moments.X.shape[1] * count > moments.X.nnz


def system_of_rows(moments: Moments, B: LinearOperator, ridge: float) -> System:
    """Return the system (AAᵀ + rI) z = B, with centred B if A is centred."""
    home = moments.home
    B = home.place(B.dense() if B.readable else B.matmat(home.eye(B.shape[1])))
    if moments.center:
        B = B - home.xp.mean(B, axis=0)[None, :]
    return System.of(moments, B, ridge)


def row_iterates(A: LinearOperator, moments: Moments, begin: Begin, system: System) -> Iterator[RowIterate]:
    """Yield the iterates of a system for z; each takes one sweep."""
    home, kernel = moments.home, begin(system)
    point = next(kernel)
    KP: Array = None
    scales: HostArray | None = None
    now = RowIterate(A=A, residual=float(point.V.shape[1] > 0), point=point, z=point.x)
    while True:
        yield now
        P, Q, z, before = point.V, point.Q, point.x, KP
        if P.shape[1] == 0:  # nothing is left of the residual
            now = RowIterate(A=A, residual=0.0, point=point, z=z, known=scales is not None)
            continue
        KP = moments.outer(P)
        KQ = KP if before is None else KP - before @ home.place(point.tau.T)  # KQ = KP − KP₋ τᵀ
        QtKQ = to_host(Q.T @ KQ)
        norms = np.sqrt(np.maximum(np.sum(point.z * (QtKQ @ point.z), axis=0), 0.0))  # ‖AᵀQρ‖² = ρᵀ (QᵀKQ) ρ
        scales = norms if scales is None else scales
        point = kernel.send(KP)
        now = RowIterate(A=A, residual=largest(norms, scales), point=point, z=z, known=True)


def largest(norms: HostArray, scales: Any) -> float:
    """The largest ratio of norms to scales, over columns with AᵀB ≠ 0."""
    ratios: HostArray = np.divide(norms, scales, out=np.zeros_like(norms), where=scales > 0)
    return float(np.max(ratios, initial=0.0))
