"""The pencil A w = λ B w of several views: its products, and its eigenpairs in whitened coordinates.

Problem: A has the blocks ωᵢωⱼ Cᵢⱼ, and ωᵢ²Sᵢ on its diagonal; B has the blocks ωᵢSᵢ. Where views lack rows, the block
on the diagonal of A is ωᵢ²(Sᵢ + Eᵢ) (`linspec_multiset.absent`).
Method: with Sᵢ = FᵢFᵢᵀ and wᵢ = Fᵢ⁻ᵀuᵢ / √ωᵢ, u is an eigenvector of a symmetric matrix. It has the blocks
√(ωᵢωⱼ) Fᵢ⁻¹CᵢⱼFⱼ⁻ᵀ, and ωᵢ(I + Fᵢ⁻¹EᵢFᵢ⁻ᵀ) on its diagonal.
Source: Kettenring 1971, doi:10.1093/biomet/58.3.433.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import DENSE_RATE, SPARSE_RATE, Sizes, moments_estimates
from linspec.moments import Basis


@dataclass(frozen=True, eq=False)
class Pencil:
    """The numbers of a problem that turn products with views into products with A and B.

    Attributes
    ----------
    home : Home
    ridges, weights : tuple of float
        rᵢ and ωᵢ of each view.
    diagonals : tuple of array of shape (pᵢ,)
        diag(Sᵢ), ridge included.
    cuts : tuple of float
        The relative rounding of Sᵢ: v counts as a null direction if vᵀSᵢv is at most this fraction of vᵀdiag(Sᵢ)v.
    """

    home: Home
    ridges: tuple[float, ...]
    weights: tuple[float, ...]
    diagonals: tuple[Array, ...]
    cuts: tuple[float, ...]

    def metric_image(self, bases: Sequence[Basis]) -> list[Array]:
        """Return the parts ωᵢSᵢwᵢ of B w."""
        return [basis.SV * weight for basis, weight in zip(bases, self.weights, strict=True)]

    def shifted_image(self, bases: Sequence[Basis], values: Array | float) -> list[Array]:
        """Return the parts ωᵢ(Σⱼ ωⱼCᵢⱼwⱼ + (ωᵢ − λ)Sᵢwᵢ) of A w − λ B w; Cᵢᵢ is the excess Eᵢ, if there is one."""
        found = []
        for i, (basis, weight) in enumerate(zip(bases, self.weights, strict=True)):
            part = basis.SV * (weight - values)
            for other, beside in zip(bases, self.weights, strict=True):
                product = other.CV[i]  # CᵢⱼVⱼ; for the view itself EᵢVᵢ, or None
                if product is not None:
                    part = part + product * beside
            found.append(part * weight)
        return found


def whitened_matrix(
    factors: Sequence[Any], weights: Sequence[float], blocks: Mapping[tuple[int, int], Array]
) -> HostArray:
    """Return the symmetric matrix whose eigenvectors are those of the pencil in whitened coordinates.

    Parameters
    ----------
    factors : sequence of Whitener
        Fᵢ with Sᵢ = FᵢFᵢᵀ on the numerical range.
    weights : sequence of float
        ωᵢ.
    blocks : mapping from (int, int) to array
        Cᵢⱼ of two views i < j, and Eᵢ at (i, i) if views lack rows.

    Returns
    -------
    numpy.ndarray of shape (r, r)
        r is the sum of the ranks. Only the lower triangle is set, and blocks on the diagonal.
    """
    ends = np.cumsum([0, *(factor.rank for factor in factors)])
    M = np.diag(np.repeat(np.asarray(weights, dtype=np.float64), np.diff(ends)))
    for j, below in enumerate(factors):
        for i, left in enumerate(factors[: j + 1]):
            if (i, j) in blocks:
                block = below.solve(left.solve(blocks[i, j]).T)  # Fⱼ⁻¹CⱼᵢFᵢ⁻ᵀ
                M[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] += to_host(block) * np.sqrt(
                    weights[i] * weights[j]
                )
    return M


def split(U: HostArray, factors: Sequence[Any], weights: Sequence[float], home: Home) -> tuple[Array, ...]:
    """Return the weights wᵢ = Fᵢ⁻ᵀuᵢ / √ωᵢ of each view from eigenvectors u of `whitened_matrix`."""
    parts = np.split(U, np.cumsum([factor.rank for factor in factors])[:-1])
    return tuple(
        factor.solve_adjoint(home.place(np.ascontiguousarray(part) / np.sqrt(weight)))
        for factor, part, weight in zip(factors, parts, weights, strict=True)
    )


def forming(sizes: Sizes) -> float:
    """Estimated seconds for the Gram matrices of all views, from rows or from products with the identity."""
    if sizes.readable:
        return float(moments_estimates(sizes, 0, sizes.k)["dense"].seconds)
    return 3.0 * sizes.nnz * (sizes.p + sizes.q) / (SPARSE_RATE if sizes.scattered else DENSE_RATE)
