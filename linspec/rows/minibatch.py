"""Some rows of a preprocessed matrix, for methods that use a few rows in each step.

Problem: rows S that are chosen by their numbers should count exactly as they do in a pass over all rows: with weights,
about the means, without confounds, and scaled.
Method: with what the passes have learnt of all rows, each row is √w (x - m - s b) F, so that

    X̃_SᵀX̃_S V = F (X_S - 1mᵀ - B_S sᵀ)ᵀ D_S U,   U = (X_S - 1mᵀ - B_S sᵀ) F V.    (1)

Rows are subtracted where the kind of data can do that, else their terms of rank one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linspec._new.operators.base import Block, Rows
from linspec.arrays import Array, HostArray
from linspec.rows.passes import Passes
from linspec.rows.preprocessing import Fitted, Preprocessing

__all__ = ["Minibatch", "Origins"]


class Origins(NamedTuple):
    """The rows that X V and Xᵀ U of a matrix are about; None is 0."""

    times: HostArray | None
    adjoint: HostArray | None


class Minibatch:
    """Some rows of one preprocessed matrix, in memory.

    Parameters
    ----------
    A : Rows
    block : Block
        The rows as they came.
    pre : Preprocessing
    fitted : Fitted
        What was learnt from all rows.
    origins : Origins
    numbers : numpy.ndarray of int
        Of the rows.
    passes : Passes

    Attributes
    ----------
    rows : int
    """

    def __init__(
        self,
        A: Rows,
        block: Block,
        pre: Preprocessing,
        fitted: Fitted,
        origins: Origins,
        numbers: HostArray,
        passes: Passes,
    ) -> None:
        place = A.backend.blocks.place
        self.A, self.block, self.fitted, self.passes, self.rows = A, block, fitted, passes, len(numbers)
        self.about = None if origins.times is None else A.thin(origins.times)
        self.entries = block.entries
        self.w = None if pre.w is None else place(pre.w[numbers])
        self.B = None if pre.B is None else place(pre.B[numbers])
        self.slopes = place(np.zeros((0, 0)) if fitted.slopes is None else fitted.slopes)
        self.gaps = [place(fitted.gap(row)) for row in origins] if pre.center else None

    def gram_product(self, V: Array, some: slice = slice(None)) -> Array:
        """Compute (1) for these rows, or for some of them."""
        A, place, fitted = self.A, self.A.backend.blocks, self.fitted
        start, stop, _ = some.indices(self.rows)
        block = self.block.cut(start, stop).about(self.about)
        V = fitted.scaled(V)
        U = place.place(block.times(A.thin(V)))
        if self.gaps is not None:
            U = U - (self.gaps[0] @ V)[None, :]
        if self.B is not None:
            U = U - self.B[some, :] @ (self.slopes.T @ V)
        if self.w is not None:
            U = U * self.w[some, None]
        P = place.zeros((A.shape[1], V.shape[1]))
        block.t_times(A.thin(U), P)
        if self.gaps is not None:
            P = P - self.gaps[1][:, None] * place.column_sums(U)[None, :]
        if self.B is not None:
            P = P - self.slopes @ (self.B[some, :].T @ U)
        self.passes.columns += 2.0 * V.shape[1] * (stop - start) / A.shape[0]
        self.passes.flops += 4.0 * V.shape[1] * block.entries
        P = fitted.scaled(P)
        return P if fitted.live is None else P * place.place(fitted.live)[:, None]

    def row_squares(self) -> Array:
        """Squared lengths of the preprocessed rows, with their weights."""
        place, f = self.A.backend.blocks, self.fitted
        kept = f.live if f.factors is None else f.factors**2
        D = None if kept is None else place.place(kept)
        block = self.block.cut(0, self.rows).about(self.about)
        squares = block.row_squares(D)
        if self.B is not None:
            S = self.slopes if D is None else self.slopes * D[:, None]
            images = place.place(block.times(self.A.thin(S)))
            squares = squares + place.xp.sum(self.B * (self.B @ (self.slopes.T @ S) - 2 * images), axis=1)
            squares = place.xp.where(squares > 0, squares, place.zeros(tuple(squares.shape)))
        return squares if self.w is None else squares * self.w
