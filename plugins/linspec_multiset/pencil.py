"""The pencil A w = λ B w of several views: its products, and its matrix in whitened coordinates.

Problem: A has the blocks ωᵢωⱼ Cᵢⱼ, and ωᵢ²Sᵢ on its diagonal; B has the blocks ωᵢSᵢ. Where views lack rows, the block
on the diagonal of A is ωᵢ²(Sᵢ + Eᵢ) (`linspec_multiset.absent`).
Method: with NᵢNᵢᵀ = Sᵢ⁻¹ and wᵢ = Nᵢuᵢ / √ωᵢ, u is an eigenvector of the symmetric matrix M with the blocks

    √(ωᵢωⱼ) NᵢᵀCᵢⱼNⱼ,    and ωᵢ(I + NᵢᵀEᵢNᵢ) on its diagonal.    (1)

Source: Kettenring 1971, doi:10.1093/biomet/58.3.433.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from linspec.arrays import Array, Device, HostArray, to_host
from linspec.certificates import Metric, noise_of, with_norms
from linspec.cost import DENSE_RATE, SPARSE_RATE, Sizes, moments_estimates
from linspec.linalg import Products
from linspec.rows import Moments
from linspec_multiset.absent import AbsentRows


@dataclass(frozen=True, eq=False)
class Pencil:
    """The moments of views, with what turns their products into those with A and B.

    Attributes
    ----------
    moments : Moments
    ridges, weights : sequence of float
        rᵢ and ωᵢ of each view.
    """

    moments: Moments
    ridges: Sequence[float]
    weights: Sequence[float]

    @property
    def device(self) -> Device:
        """Where blocks are."""
        return self.moments.device

    def products(self, Z: Sequence[Array]) -> Products:
        """ωᵢSᵢZᵢ of every view i, and for every view j the blocks (i, j) of A times Zⱼ for every i; in one pass."""
        moments, w = self.moments, self.weights
        if isinstance(moments, AbsentRows):
            products, excess = moments.with_excess(*Z)
        else:
            products, excess = moments.products(*Z), [None for _ in Z]
        SZ, AZ = [], []
        for j, (z, r, E) in enumerate(zip(Z, self.ridges, excess, strict=True)):
            S = products[j][j] + z * r
            column = [C * (w[i] * w[j]) for i, C in enumerate(products[j])]
            column[j] = (S if E is None else S + E) * w[j] ** 2
            SZ.append(S * w[j])
            AZ.append(column)
        return SZ, AZ

    def noise(self, Z: Sequence[Array], SZ: Sequence[Array]) -> list[tuple[Array, float]]:
        """The diagonals of B, as far as they are known, and the rounding of products with it."""
        bare = [S / w for S, w in zip(SZ, self.weights, strict=True)]
        noise = noise_of(self.moments, self.ridges, Z, bare)
        return [(d * w, rounding) for (d, rounding), w in zip(noise, self.weights, strict=True)]

    def with_norms(self, Z: Sequence[Array], k: int) -> tuple[Products, list[Metric]]:
        """Multiply a block of each view, and make the norms of residuals, in one pass."""

        def product(Z: Sequence[Array]) -> tuple[list[Array], Products]:
            SZ, AZ = self.products(Z)
            return [S / w for S, w in zip(SZ, self.weights, strict=True)], (SZ, AZ)

        (SZ, AZ), metrics = with_norms(self.moments, self.ridges, Z, k, product)
        widths = [z.shape[1] for z in Z]
        SZ = [S[:, :m] for S, m in zip(SZ, widths, strict=True)]
        return (SZ, [[P[:, :m] for P in of_j] for of_j, m in zip(AZ, widths, strict=True)]), metrics  # type: ignore[index]

    def squares(self, metrics: Sequence[Metric], gaps: Sequence[Array]) -> HostArray:
        """The squared lengths of residuals in B⁻¹."""
        total = np.zeros(gaps[0].shape[1])
        for metric, gap, w in zip(metrics, gaps, self.weights, strict=True):
            y = metric.dual(gap)
            total += metric.up**2 / w * to_host(self.device.column_sums(y * y))
        return total

    def whitened(self, metrics: Sequence[Metric]) -> HostArray:
        """M of (1), from held Gram matrices."""
        C, w, at = self.moments.gram(), self.weights, slices_of(metrics)
        M = np.diag(np.repeat(np.asarray(w, dtype=np.float64), [metric.rank for metric in metrics]))
        for j, right in enumerate(metrics):
            if isinstance(self.moments, AbsentRows):
                M[at[j], at[j]] += w[j] * to_host(right.dual(self.moments.excess[j] @ right.N))
            for i, left in enumerate(metrics[:j]):
                M[at[i], at[j]] = math.sqrt(w[i] * w[j]) * to_host(left.dual(C[i][j] @ right.N))
                M[at[j], at[i]] = M[at[i], at[j]].T
        return M

    def split(self, U: Array, metrics: Sequence[Metric]) -> tuple[Array, ...]:
        """The weights wᵢ = Nᵢuᵢ / √ωᵢ of each view from vectors u."""
        views = zip(metrics, slices_of(metrics), self.weights, strict=True)
        return tuple(metric.lift(self.device.asarray(U[view, :])) / math.sqrt(w) for metric, view, w in views)


def slices_of(metrics: Sequence[Metric]) -> list[slice]:
    """The coordinates of each view in vectors u."""
    ends = np.cumsum([0, *(metric.rank for metric in metrics)]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def images(AZ: Sequence[Sequence[Array]]) -> list[Array]:
    """The part of A z in every view, from the products of all."""
    return [sum(parts[1:], parts[0]) for parts in zip(*AZ, strict=True)]


def forming(sizes: Sizes) -> float:
    """Estimated seconds for the Gram matrices of all views, from rows or from products with the identity."""
    if sizes.readable:
        return float(moments_estimates(sizes, 0, sizes.k)["dense"].seconds)
    return 3.0 * sizes.nnz * (sizes.p + sizes.q) / (SPARSE_RATE if sizes.scattered else DENSE_RATE)
