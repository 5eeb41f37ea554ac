"""Conjugate gradients on the side of the rows.

Problem: ridge regression with fewer rows than columns. The blocks of (AᵀA + rI) x = AᵀB are long, so the algebra
between products takes as long as the products.
Method: (K + rI) z = B, K = AAᵀ, and x = Aᵀz (the matrix inversion lemma; Saunders, Gammerman & Vovk 1998), by the same
block conjugate gradients on the short blocks z, with ridges as shifts. A product with K is one sweep over the columns
of A, centred or not.
Where we differ: the iteration stops by the gradient of x, which is Aᵀ times the residual of z. For residuals Q ρ,

    ‖AᵀQρ‖² = ρᵀ (QᵀKQ) ρ,  KQ = KP − KP₋ τᵀ,

where the directions P = Q + P₋τᵀ are multiplied anyway, one step later. The returned z is then the z before this step,
because gradients of successive iterates rise and fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any

import numpy as np

from linspec import Iterate, LinearOperator, Moments
from linspec.arrays import Array, HostArray, to_host_together
from linspec.operators import uncounted
from linspec_lstsq.parts.gradients import column_norms
from linspec_lstsq.parts.normal_equations import Begin, System


@dataclass(kw_only=True, eq=False)
class RowIterate(Iterate):
    """An iterate of conjugate gradients on the side of the rows, with K = AAᵀ.

    Attributes
    ----------
    A : LinearOperator
    system : System
        The system for z.
    residual : float
        The residual of Aᵀz for the attribute `z`. Before the first step it is 1, or 0 if B = 0.
    point : Blocks
        The point of the iteration for z after the last step; its `x` is the newest z.
    z : array of shape (n, all columns)
        The z before the last step.
    KP : array of shape (n, k), optional
        K P, the product of the last step.
    scales : numpy.ndarray, optional
        ‖AᵀB‖ of all columns; known from the first step on.
    norm : float
        A lower bound of the norm of AᵀA.
    """

    A: InitVar[LinearOperator]
    system: System
    residual: float
    point: Any
    z: Array
    KP: Array = None
    scales: HostArray | None = None
    norm: float = 0.0

    def __post_init__(self, A: LinearOperator) -> None:
        self._A = A

    def weights(self) -> Mapping[str, Any]:
        """x = Aᵀz for the newest z, that of `point`; the product does not count as a sweep of the run."""
        return {"x": uncounted(self._A)[0].rmatmat(self.point.x)}


def on_rows(moments: Moments, ridges: Sequence[float], count: int) -> bool:
    """Whether the side of the rows takes less time: for wide sparse rows and positive ridges.

    With centring it takes some passes more than the side of the columns. It pays only where a step's 12 p `count`²
    operations between products, for `count` right-hand sides, exceed those of its product.
    """
    if not moments.cost.wide or min(ridges) == 0:
        return False
    return not moments.center or 3 * moments.X.shape[1] * count > moments.X.nnz


def system_of_rows(moments: Moments, B: LinearOperator, ridges: tuple[float, ...]) -> System:
    """Return the system (AAᵀ + rI) z = B, with centred B if A is centred."""
    home = moments.home
    B = home.place(B.dense() if B.readable else B.matmat(home.eye(B.shape[1])))
    if moments.center:
        B = B - home.xp.mean(B, axis=0)[None, :]
    return System.of(moments, B, ridges)


def row_iterates(
    A: LinearOperator, moments: Moments, begin: Begin, start: System | RowIterate
) -> Iterator[RowIterate]:
    """Yield the iterates of a system for z, or those that follow a given one; each takes one sweep."""
    home = moments.home
    if isinstance(start, System):
        kernel: Any = begin(start, None)
        point = next(kernel)
        residual = float(point.V.shape[1] > 0)
        now = RowIterate(A=A, system=start, residual=residual, point=point, z=point.x)
    else:
        kernel = begin(start.system, start.point)
        point = next(kernel)
        point.check(tuple(start.z.shape))
        now = replace(start, A=A)
    while True:
        yield now
        P, Q, z = point.V, point.Q, point.x
        if P.shape[1] == 0:  # nothing is left of the residual
            now = replace(now, A=A, z=z, residual=0.0)
            continue
        KP = moments.outer(P)
        KQ = KP if now.KP is None else KP - now.KP @ home.place(point.tau.T)  # KQ = KP − KP₋ τᵀ
        rho, (QtKQ, PtKP) = np.hstack(point.z), to_host_together(Q.T @ KQ, home.xp.sum(P * KP, axis=0))
        norms = np.sqrt(np.maximum(np.sum(rho * (QtKQ @ rho), axis=0), 0.0))  # ‖AᵀQρ‖² = ρᵀ (QᵀKQ) ρ
        scales, norm = now.scales, now.norm
        if scales is None:
            scales, norm = norms, float(np.max(PtKP / column_norms(P, home) ** 2))
        point = kernel.send(KP)
        now = RowIterate(
            A=A, system=now.system, residual=largest(norms, scales), point=point, z=z, KP=KP, scales=scales, norm=norm
        )  # fmt: skip


def largest(norms: HostArray, scales: Any) -> float:
    """The largest ratio of norms to scales, over columns with AᵀB ≠ 0."""
    ratios: HostArray = np.divide(norms, scales, out=np.zeros_like(norms), where=scales > 0)
    return float(np.max(ratios, initial=0.0))
