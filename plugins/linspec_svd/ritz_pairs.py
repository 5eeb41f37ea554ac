"""Ritz pairs of the vectors that a library has multiplied.

Problem: ARPACK and PROPACK return only their final result. Progress, the tolerance on the problem's residual and the
end of a budget need the best pairs so far.
Method: the operator passed to them keeps the vectors and their products. The Ritz pairs of this span, with their
residuals, are then known at any time without a sweep. After a look only the leading ones are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Run
from linspec.algebra import eigenpairs, whitening
from linspec.arrays import HostArray, to_host
from linspec_svd.gram_products import GramProducts

OVERLAP = 1e-2
"""A vector adds no direction if the fraction of its square outside the span of the other vectors is below this. The
bases of both libraries are orthonormal up to rounding."""

SLACK = 1e-6
"""Largest deviation from 1 of the length of a basis vector."""


class Stopped(Exception):  # noqa: N818 (the way out of a library that knows no other)
    """Exception raised in a product to end the iteration of a library (such as ARPACK) when the run has ended."""


@dataclass(frozen=True)
class Ritz:
    """Leading Ritz values and vectors of AᵀA in a span, and the products of AᵀA with these vectors."""

    theta: HostArray
    V: HostArray
    GV: HostArray

    @classmethod
    def of(cls, V: HostArray, GV: HostArray, count: int) -> Ritz:
        """Leading Ritz pairs of any vectors and their products."""
        T = whitening(
            V.T @ V, OVERLAP / max(V.shape[1], 1)
        )  # without directions in which rounding would be amplified
        H = T.T @ (V.T @ GV) @ T
        theta, Y = eigenpairs((H + H.T) / 2)
        turn = T @ Y[:, ::-1][:, :count]
        return cls(theta[::-1][:count], V @ turn, GV @ turn)

    @property
    def residual(self) -> float:
        """Residual as the problem defines it: the largest ‖AᵀAv − θv‖ relative to the largest θ."""
        gap = np.linalg.norm(self.GV - self.V * self.theta, axis=0).max(initial=0.0)
        largest = float(self.theta.max(initial=0.0))
        return float(gap / largest) if largest > 0 else 0.0 if gap == 0 else np.inf

    def leading(self, k: int) -> Ritz:
        """First k pairs."""
        return Ritz(self.theta[:k], self.V[:, :k], self.GV[:, :k])


class Recorder:
    """Operator AᵀA for a library, which records the vectors that are multiplied and computes their Ritz pairs.

    Parameters
    ----------
    run : Run
    AtA : GramProducts
    k : int
        Number of pairs to find.
    width : int
        Number of pairs kept after a look.

    Attributes
    ----------
    ritz : Ritz
        Best k pairs of all looks so far.
    ended : bool
        Whether the iteration of the library is over: the residual is within the tolerance, or the run has ended.
    converged : bool
        Whether the residual is at most the tolerance. `run.proceed` was not called for this residual.
    whole : bool
        Whether the vectors span the whole space (there are as many pairs as entries in a vector), so that no pair is
        missing.
    due : int
        Number of recorded vectors, besides the Ritz vectors of the last look, at which the next look is made. A look
        computes the Ritz pairs of all known vectors.
    """

    def __init__(self, run: Run, AtA: GramProducts, k: int, width: int) -> None:
        self.run, self.AtA, self.k, self.width = run, AtA, k, width
        none = np.zeros((AtA.length, 0))
        self.wide = self.ritz = Ritz(np.zeros(0), none, none)
        self.vectors: list[HostArray] = []
        self.products: list[HostArray] = []
        self.due = width
        self.ended = self.converged = self.whole = False

    @property
    def count(self) -> int:
        """Number of known vectors."""
        return len(self.vectors) + len(self.wide.theta)

    def product(self, x: HostArray) -> HostArray:
        """Return AᵀA x, and record x and its product; a start vector, whose length is not 1, is not recorded.

        Raises
        ------
        Stopped
            At least k vectors are known, and the budget does not allow this product. Or this product was due for a
            look, after which the iteration is over (see `ended`).
        """
        if self.count >= self.k and not self.run.budget.affords(self.AtA.sweep):
            self.look()
            raise Stopped
        x = np.array(x, dtype=np.float64).reshape(-1)  # a copy: ARPACK reuses its memory
        product = self.multiplied(x[:, None])[:, 0]
        if abs(np.linalg.norm(x) - 1.0) > SLACK:
            # A start vector. ARPACK first moves it into the range of AᵀA, and it enters no basis.
            return product
        self.vectors.append(x)
        self.products.append(product)
        if len(self.vectors) == 2:
            self._align(x)
        if len(self.vectors) >= self.due:
            self.look()
            if self.ended:
                raise Stopped
        return product

    def multiplied(self, X: HostArray) -> HostArray:
        """AᵀA X in scaled units, on the host; a copy, because operators may reuse their memory."""
        return np.array(to_host(self.AtA(self.AtA.home.place(X))))

    def so_far(self) -> dict[str, Any]:
        """Return the triplets of the k leading Ritz pairs of all vectors multiplied so far.

        If fewer than k vectors are known, the triplets are those of the Ritz pairs of the last look: fewer than k, or
        none.
        """
        return self.triplets((self._all() if self.count >= self.k else self.wide).leading(self.k))

    def triplets(self, ritz: Ritz) -> dict[str, Any]:
        """Triplets of Ritz pairs, for callbacks."""
        return self.AtA.current(self.AtA.home.place(ritz.V), ritz.theta)

    def look(self) -> None:
        """Compute Ritz pairs of all known vectors; the run decides whether to continue."""
        self.wide, self.vectors, self.products = self._all(), [], []
        self.whole = len(self.wide.theta) == self.AtA.length
        self.due = max(self.width - self.k, 2)
        self.judge(self.wide.leading(self.k))

    def _align(self, x: HostArray) -> None:
        """Drop the Ritz vectors that ARPACK dropped at its last restart, so that both have the same basis.

        ARPACK keeps at least the k leading Ritz vectors. `x` is the second vector after the restart: ARPACK has made it
        orthogonal only to the Ritz vectors that it kept, and the first vector to all of them. So the first Ritz vector
        after the k-th that is not orthogonal to `x` is dropped, with all Ritz vectors after it.
        """
        dropped = np.flatnonzero(np.abs(self.wide.V[:, self.k :].T @ x) > self.AtA.rounding**0.5)
        count = self.k + int(dropped[0]) if len(dropped) else len(self.wide.theta)
        self.wide = self.wide.leading(count)
        self.due = max(self.width - count, 2)

    def _all(self) -> Ritz:
        """Ritz pairs of all known vectors."""
        V = np.column_stack([self.wide.V, *self.vectors])
        return Ritz.of(V, np.column_stack([self.wide.GV, *self.products]), self.width)

    def judge(self, found: Ritz) -> None:
        """Keep the old or the new k pairs, whichever have the larger sum of values, and report them to the run."""
        if found.theta.sum() >= self.ritz.theta.sum() * (1 - SLACK):
            self.ritz = found
        self.converged = self.ritz.residual <= self.run.tol
        self.ended = self.converged or not self.run.proceed(
            residual=self.ritz.residual, current=partial(self.triplets, self.ritz)
        )
