"""The SVD of the cross product, with or without scaled columns, instead of the SVD of the whitened cross
product.

Problem: approximate the leading canonical pairs without a product with an inverse of a Gram matrix.
Method: the leading singular triplets of Dx^(-1/2) C Dy^(-1/2), C = XᵀY. "nw-cca" takes the identity for D: it finds
directions of large covariance. "dw-cca" takes the diagonals of the Gram matrices, ridge included: it is exact where the
columns of each view do not overlap, as those of one-hot rows do, and it is the limit of the iteration "d-cca".
Source: Ma, Lu & Foster 2015, arXiv:1506.08170, section 4; Lu 2015 (thesis), section 4.4. Covariance instead of
correlation is partial least squares: Wegelin 2000; Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008.
Where we differ: the SVD comes from block Krylov spaces of both views, and not from a random sketch. One sweep
widens both spaces, and Rayleigh-Ritz gives the triplets (Musco & Musco 2015, arXiv:1504.05477). Spaces that
have become wide are restarted from their leading triplets (Wu & Simon 2000, doi:10.1137/S0895479898334605).
The iteration ends when its residual is small. The first space is that of the range finder in "randomized". At
the end the pairs are made canonical within the spans found, so the method determines only the spans. Their residual
is that of CCA: the status is APPROXIMATE unless they solve CCA, too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Iterate,
    IterativeSolver,
    Moments,
    Normalizer,
    Run,
    Status,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.algebra import diagonal_norm, ratio
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.families.cca import Evidence, block_width
from linspec.moments import NOISE
from linspec_cca.randomized import range_blocks

BLOCKS = 6
"""Number of blocks in a basis before it is restarted from one block."""

OWN = 0.5
"""Fraction of a new direction's square that must be outside the basis; a smaller part outside is amplified rounding."""

NEARLY = 10.0
"""When the SVD has converged, the certificate computes the residual of the pairs as a solution of CCA. The iteration
goes on only if this residual is at most NEARLY times the tolerance. A larger residual shows that the singular vectors
do not solve CCA."""

ENDED = "It leads to the singular vectors of {matrix}, which are canonical pairs only where {where}. "
ENDED += 'Choose "als", which whitens, for others.'


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossSpace:
    """Bases for both views, orthonormal in their metrics, and the best triplets within them.

    Lists hold an item for X and an item for Y.

    Attributes
    ----------
    home : Home
    columns : int
        Largest number of columns in a block.
    metrics, inverses : list of arrays of shape (p, 1) and (q, 1)
        Dx and Dy, and their inverses.
    bases, images : list of array
        Vx and Vy, and CᵀVx and C Vy.
    turns, values : list of numpy.ndarray, numpy.ndarray
        P, Q and Σ of the SVD VxᵀC Vy = P Σ Qᵀ.
    gaps : list of array
        C Ψ − Dx Φ Σ and CᵀΦ − Dy Ψ Σ for one block of triplets.
    """

    home: Home
    columns: int
    metrics: list[Array]
    inverses: list[Array]
    bases: list[Array]
    images: list[Array]
    turns: list[HostArray]
    values: HostArray
    gaps: list[Array]

    @classmethod
    def empty(cls, metrics: list[Array], columns: int, home: Home) -> CrossSpace:
        """Spaces without directions."""
        bases = [home.zeros((d.shape[0], 0)) for d in metrics]
        return cls(
            home=home,
            columns=columns,
            metrics=[d[:, None] for d in metrics],
            inverses=[reciprocal(d)[:, None] for d in metrics],
            bases=bases,
            images=list(reversed(bases)),
            turns=[np.zeros((0, 0))] * 2,
            values=np.zeros(0),
            gaps=bases,
        )

    def widened(self, blocks: list[Array], moments: Moments, normalizer: Normalizer) -> CrossSpace | None:
        """Spaces extended by a block for each view, in one sweep; None if the blocks have no new direction."""
        triples = zip(self.bases, blocks, self.metrics, strict=True)
        new = [_beside(V, block, d, normalizer, self.home) for V, block, d in triples]
        if not any(V.shape[1] for V in new):
            return None
        _, Cpsi, Ctphi, _ = moments.products(*new)
        bases = [self.home.concat([V, W]) for V, W in zip(self.bases, new, strict=True)]
        images = [self.home.concat([V, W]) for V, W in zip(self.images, (Ctphi, Cpsi), strict=True)]
        P, values, Qt = np.linalg.svd(to_host(bases[0].T @ images[1]), full_matrices=False)
        wider = replace(self, bases=bases, images=images, turns=[P, Qt.T], values=values)
        return replace(wider, gaps=wider._gaps())

    @property
    def is_full(self) -> bool:
        """Whether another block would make the bases too wide."""
        return bool(self.bases[0].shape[1] + self.columns > BLOCKS * self.columns)

    def begun_again(self) -> CrossSpace:
        """Spaces restarted from the leading triplets."""
        turns = [self.home.place(T[:, : self.columns]) for T in self.turns]
        return replace(
            self,
            bases=[V @ T for V, T in zip(self.bases, turns, strict=True)],
            images=[V @ T for V, T in zip(self.images, turns, strict=True)],
            turns=[np.eye(T.shape[1]) for T in turns],
        )

    def vectors(self, count: int) -> list[Array]:
        """Leading singular vectors, as weights."""
        turns = [self.home.place(T[:, :count]) for T in self.turns]
        return [V @ T for V, T in zip(self.bases, turns, strict=True)]

    def directions(self) -> list[Array]:
        """D⁻¹ times the gaps, the directions that extend the bases; zero for gaps at the level of rounding."""
        real = self._squares() > (NOISE * self._largest) ** 2
        masks = [self.home.place(row.astype(np.float64))[None, :] for row in real]
        return [gap * w * mask for gap, w, mask in zip(self.gaps, self.inverses, masks, strict=True)]

    def residual(self, k: int) -> float:
        """Σ‖gap‖² / (σ₁ Σσ) over the k leading triplets, which estimates the missing fraction of Σσ.

        Σ‖gap‖² is the sum over both views, with squared lengths in the norms of Dx⁻¹ and Dy⁻¹.
        """
        missing, found = float(self._squares()[:, :k].sum()), self._largest * float(self.values[:k].sum())
        return ratio(missing, found)

    def _gaps(self) -> list[Array]:
        turns = [self.home.place(T[:, : self.columns]) for T in reversed(self.turns)]
        images = [V @ T for V, T in zip(reversed(self.images), turns, strict=True)]
        sigma = self.home.place(self.values[: self.columns])[None, :]
        ours = zip(images, self.vectors(self.columns), self.metrics, strict=True)
        return [image - V * d * sigma for image, V, d in ours]

    def _squares(self) -> HostArray:
        """Squared lengths of the gaps in the inverse metrics, one row for each view."""
        xp = self.home.xp
        weighted = zip(self.gaps, self.inverses, strict=True)
        return to_host(xp.stack([xp.sum(gap * gap * w, axis=0) for gap, w in weighted]))

    @property
    def _largest(self) -> float:
        return float(self.values.max(initial=0.0))


class CrossTriplets(Iterate):
    """Leading singular triplets of the scaled cross product.

    Parameters
    ----------
    space : CrossSpace
    k : int
    ridges : pair of float
    text : str
        Text of the finding about the limit of the iteration, which may not solve CCA.
    ending : Status, optional
    """

    def __init__(
        self,
        space: CrossSpace,
        k: int,
        ridges: tuple[float, float],
        text: str,
        ending: Status | None = None,
    ) -> None:
        super().__init__(space.residual(k), ending=ending)
        self.space, self.k, self.ridges, self.text = space, k, ridges, text

    def weights(self) -> dict[str, Array]:
        """Leading singular vectors of both views, as weights."""
        phi, psi = self.space.vectors(self.k)
        return {"x_weights": phi, "y_weights": psi}

    def answer(self) -> dict[str, Any]:
        """The k leading singular vectors with evidence for the certificate.

        The evidence has the residuals, and the smallest singular value that was computed, if more than k were computed.
        The certificate takes it as a bound of the correlations that are left out.
        """
        space, k = self.space, self.k
        pairs = zip(space.metrics, self.ridges, strict=True)
        x, y = (diagonal_norm(d[:, 0], r, space.home) for d, r in pairs)
        values = space.values[: space.columns]
        carried = float(min(values[-1], 1.0)) if len(values) > k else None
        found = min(k, space.gaps[0].shape[1])
        gaps = space.gaps[0][:, :found], space.gaps[1][:, :found]
        return {**self.weights(), "evidence": Evidence(norms=(x, y), residuals=gaps, carried=carried)}

    def notes(self) -> list[tuple[Status | None, str]]:
        """The finding about the limit of the iteration, which may not solve CCA."""
        return [(Status.APPROXIMATE, self.text)]


@dataclass(frozen=True, kw_only=True)
class CrossSVD(IterativeSolver):
    """The leading singular triplets of a scaled cross product (Ma, Lu & Foster 2015, section 4)."""

    oversample: int = option(10, "columns of a block beyond k", at_least=0)
    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(300, "iterations, a sweep each,")
    form: str = form_option()

    @abstractmethod
    def metric(self, diagonal: Array) -> Array:
        """D of a view, from the diagonal of its Gram matrix with the ridge."""

    @abstractmethod
    def ended(self) -> str:
        """Text of a finding: which vectors the iteration converges to, and when they solve CCA."""

    kept: ClassVar = (CrossTriplets, CrossSpace)
    most_above: ClassVar[float] = NEARLY

    def iterates(self, problem: Any, run: Run, state: CrossTriplets | None = None) -> Iterator[CrossTriplets]:
        """Yield the leading triplets within the spaces, after each sweep."""
        columns, k = block_width(problem, self.oversample), problem.k
        moments = run.moments(self.form, expect=(30, columns))
        normalizer = run.part(self.normalizer)
        if state is None:
            blocks = range_blocks(problem, run, moments, columns, run.part(self.test_matrix), normalizer)
            pairs = zip(moments.diagonal(), problem.ridge, strict=True)
            metrics = [self.metric(diagonal + ridge) for diagonal, ridge in pairs]
            space = CrossSpace.empty(metrics, columns, moments.home)
            scaled = [V * w for V, w in zip(blocks, space.inverses, strict=True)]
            space = space.widened(scaled, moments, normalizer) or space
            state = CrossTriplets(space, k, problem.ridge, self.ended())
        while True:
            yield state
            space = state.space.begun_again() if state.space.is_full else state.space
            # the spaces of Φ, Ψ and of D⁻¹(C Ψ − DΦΣ), D⁻¹(CᵀΦ − DΨΣ): one sweep, then Rayleigh–Ritz
            wider = space.widened(space.directions(), moments, normalizer)
            ending = Status.CONVERGED if wider is None else None
            state = CrossTriplets(wider or space, k, problem.ridge, self.ended(), ending)


@dataclass(frozen=True, kw_only=True)
class NoWhitening(CrossSVD):
    """Singular vectors of XᵀY (Ma, Lu & Foster 2015, section 4)."""

    def metric(self, diagonal: Array) -> Array:
        """The mean of `diagonal` in every entry: the identity in the units of the data."""
        return diagonal * 0 + (float(to_host(diagonal).mean()) or 1.0)

    def ended(self) -> str:
        """Text of a finding: which vectors the iteration converges to, and when they solve CCA."""
        return ENDED.format(matrix="XᵀY", where="the views are white")


@dataclass(frozen=True, kw_only=True)
class DiagonalWhitening(CrossSVD):
    """Singular vectors of XᵀY between columns of unit length (Ma, Lu & Foster 2015, section 4)."""

    def metric(self, diagonal: Array) -> Array:
        """The diagonal itself."""
        return diagonal

    def ended(self) -> str:
        """Text of a finding: which vectors the iteration converges to, and when they solve CCA."""
        return ENDED.format(matrix="XᵀY with columns of unit length", where="the Gram matrices are diagonal")


def _beside(V: Array, block: Array, d: Array, normalizer: Normalizer, home: Home) -> Array:
    """Basis of the part of a block outside the span of V, orthonormal in the metric diag(d).

    Directions that lie in the span of V up to rounding are omitted: see `OWN`.
    """
    block = block - V @ (V.T @ (block * d))
    block = normalizer.orthonormalize(block, block * d)[0]
    block = block - V @ (V.T @ (block * d))
    squares, vectors = np.linalg.eigh(to_host(block.T @ (block * d)))
    own = squares > OWN
    return block @ home.place(vectors[:, own] / np.sqrt(squares[own]))
