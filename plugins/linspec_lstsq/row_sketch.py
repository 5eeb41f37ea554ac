"""Sparse sign sketches of the rows: S A for a random S of few rows, in one sweep.

Problem: find S with d rows, where d is a few times the p columns of A, such that S A x has the length of A x up to a
constant factor for every x: a subspace embedding.
Method: every row of A is added, with random signs, to ζ of d rows (Cohen 2016, SODA, pages 278-287;
the constants are those of Tropp, Yurtsever, Udell & Cevher 2019, doi:10.1137/18M1201068). This costs ζ additions for
each entry, while a Gaussian S would cost d.
Where we differ: S is made of ζ rounds. In each, the rows of a block are distributed evenly at random, so every row of
S A gets equally many rows of A from a full block; two rounds may choose the same row of S. The draws do not depend on
the place of A. On the host a block of S is a sparse matrix: SciPy multiplies it four times as fast as it gathers rows
(measured). Elsewhere the rows are gathered, which needs only the array API.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import as_operator, uncounted
from linspec_lstsq.golub_kahan import RightHandSides

FEWEST_ROWS = 4096
"""The least number of rows in a block."""


class SparseSigns:
    """S with `size` rows and `nonzeros` entries ±1/√nonzeros in every column, drawn block by block.

    Parameters
    ----------
    size : int
        Rows.
    nonzeros : int
        Rounds, ζ.
    rng : numpy.random.Generator
    """

    def __init__(self, size: int, nonzeros: int, rng: np.random.Generator) -> None:
        self.size, self.nonzeros, self._rng = size, nonzeros, rng

    @property
    def block_rows(self) -> int:
        """The number of rows to sketch at once; the last block may have fewer."""
        return self.size * -(-FEWEST_ROWS // self.size)

    def add(self, total: Array, block: Array, home: Home) -> Array:
        """The sum of a sketch and that of the next rows, which are n x c in float64 at `home`."""
        rows = block.shape[0]
        layers = -(-rows // self.size)
        shape = (self.nonzeros, layers * self.size)
        dealt = np.stack([self._rng.permutation(shape[1]) for _ in range(self.nonzeros)])
        signs = self._rng.integers(0, 2, shape) * (2.0 / np.sqrt(self.nonzeros)) - 1.0 / np.sqrt(
            self.nonzeros
        )
        if home.on_host:
            return total + as_operator(self._matrix(dealt, signs, rows)).matmat(block)
        return self._gathered(total, block, dealt, signs, home)

    def _matrix(self, dealt: HostArray, signs: HostArray, rows: int) -> scipy.sparse.csr_array:
        """The columns of S for a block of rows; numbers from `rows` on mean no row."""
        present = dealt < rows
        buckets = np.broadcast_to(np.arange(dealt.shape[1]) % self.size, dealt.shape)
        entries = (signs[present], (buckets[present], dealt[present]))
        return scipy.sparse.coo_array(entries, shape=(self.size, rows)).tocsr()

    def _gathered(self, total: Array, block: Array, dealt: HostArray, signs: HostArray, home: Home) -> Array:
        signs = np.where(dealt < block.shape[0], signs, 0.0)
        dealt = np.minimum(dealt, block.shape[0] - 1)
        for j in range(dealt.shape[0]):
            for start in range(0, dealt.shape[1], self.size):
                layer = slice(start, start + self.size)
                chosen = home.xp.asarray(dealt[j, layer], device=home.device)
                total = total + home.xp.take(block, chosen, axis=0) * home.place(signs[j, layer])[:, None]
        return total


def sketch_rows(data: RightHandSides, sketch: SparseSigns) -> tuple[HostArray, HostArray, Array]:
    """S A and S B on the host, and AᵀB, in one sweep.

    Parameters
    ----------
    data : RightHandSides
    sketch : SparseSigns

    Returns
    -------
    numpy.ndarray of shape (d, p), numpy.ndarray of shape (d, m), array of shape (p, m)
    """
    A, home = data.A, data.home
    n, p = A.shape
    total, AtB = home.zeros((sketch.size, p + data.columns)), home.zeros((p, data.columns))
    for start in range(0, n, sketch.block_rows):
        rows = slice(start, min(start + sketch.block_rows, n))
        part = A.rows(rows)
        both = home.concat([home.place(part.dense()), home.place(data.B[rows, :])])
        total = sketch.add(total, both, home)
        AtB = AtB + part.rmatmat(data.B[rows, :])
        A.release()
    uncounted(A)[1].record(A, 0, flops=2.0 * A.nnz * sketch.nonzeros)
    found = to_host(total)
    return found[:, :p], found[:, p:], AtB
