"""Gram matrices that are held: products with them cost no sweep of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, namespace
from linspec.operators import sparse_kernels

Products = tuple[Array | None, Array | None, Array | None, Array | None]
"""(XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy), None where a block or a view is absent."""


class DenseGram:
    """Sx, C, Sy as dense float64 arrays."""

    def __init__(self, Sx: Array, C: Array | None, Sy: Array | None) -> None:
        self.Sx, self.C, self.Sy = Sx, C, Sy

    @classmethod
    def of_sparse(cls, gram: SparseGram, home: Home) -> DenseGram:
        return cls(*(None if G is None else home.place(G) for G in gram.dense()))

    def add_rows(self, slabs: list[Array]) -> None:
        """Take in some rows of each view."""
        X = slabs[0]
        self.Sx += X.T @ X
        if self.C is not None and self.Sy is not None:
            Y = slabs[1]
            self.C += X.T @ Y
            self.Sy += Y.T @ Y

    def add_outer(self, steps: list[Array], weight: float) -> None:
        """Add weight times the outer products of mean differences: the merging of centred blocks."""
        if weight == 0:
            return
        self.add_rows([step[None, :] * weight**0.5 for step in steps])

    def products(self, Vx: Array | None, Vy: Array | None) -> Products:
        """The four products."""
        two = self.C is not None
        return (
            None if Vx is None else self.Sx @ Vx,
            None if Vy is None or not two else self.C @ Vy,
            None if Vx is None or not two else self.C.T @ Vx,
            None if Vy is None or not two else self.Sy @ Vy,
        )

    def view(self, index: int) -> DenseGram:
        """The Gram matrix of one view alone."""
        return DenseGram(self.Sx if index == 0 else self.Sy, None, None)

    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of both Gram matrices."""
        return _diagonal(self.Sx), None if self.Sy is None else _diagonal(self.Sy)


def _diagonal(S: Array) -> Array:
    return namespace(S).linalg.diagonal(S)


class SparseGram:
    """Sx, C, Sy as sparse float64 matrices on the host, with the means beside them."""

    def __init__(
        self, Sx: Any, C: Any, Sy: Any, means: list[HostArray], centered: list[bool], n: int
    ) -> None:
        self.Sx, self.C, self.Sy, self.n = Sx, C, Sy, n
        self.mx = means[0] if centered[0] else None
        self.my = means[1] if len(means) == 2 and centered[1] else None
        # One centred view is enough to centre the cross products.
        self.cross = (means[0], means[1]) if len(means) == 2 and any(centered) else (None, None)

    def products(self, Vx: Array | None, Vy: Array | None) -> Products:
        return (
            self._times(self.Sx, Vx, self.mx, self.mx, False),
            self._times(self.C, Vy, self.cross[0], self.cross[1], False),
            self._times(self.C, Vx, self.cross[1], self.cross[0], True),
            self._times(self.Sy, Vy, self.my, self.my, False),
        )

    def _times(self, G: Any, V: Any, left: Any, right: Any, adjoint: bool) -> Array | None:
        if G is None or V is None:
            return None
        kernel = sparse_kernels.rmatmat if adjoint else sparse_kernels.matmat
        product = kernel(G, V, np.dtype(np.float64))
        return product if left is None else product - self.n * left[:, None] * (right @ V)[None, :]

    def view(self, index: int) -> SparseGram:
        """The Gram matrix of one view alone."""
        mean, S = (self.mx, self.Sx) if index == 0 else (self.my, self.Sy)
        return SparseGram(S, None, None, [mean], [mean is not None], self.n)

    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of both Gram matrices."""
        return self._spread(self.Sx, self.mx), None if self.Sy is None else self._spread(self.Sy, self.my)

    def _spread(self, S: Any, mean: HostArray | None) -> HostArray:
        d = np.asarray(S.diagonal())
        if mean is None:
            return d
        spread = d - self.n * mean**2
        return np.where(spread > 1e-12 * d, spread, 0.0)

    def lost_digits(self) -> float:
        """Decimal digits that the subtraction of the means costs the worst column."""
        worst = 0.0
        for S, mean in ((self.Sx, self.mx), (self.Sy, self.my)):
            if S is None or mean is None:
                continue
            d, spread = np.asarray(S.diagonal()), self._spread(S, mean)
            live = spread > 0
            if live.any():
                worst = max(worst, float(np.log10(d[live] / spread[live]).max()))
        return worst

    def dense(self) -> tuple[HostArray, HostArray | None, HostArray | None]:
        def full(G: Any, left: Any, right: Any) -> Any:
            if G is None:
                return None
            out = G.toarray()
            if left is not None:
                out -= self.n * np.outer(left, right)
            return out

        return (
            full(self.Sx, self.mx, self.mx),
            full(self.C, *self.cross),
            full(self.Sy, self.my, self.my),
        )
