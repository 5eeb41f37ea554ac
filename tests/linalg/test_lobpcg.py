"""LOBPCG against eigenvalues of dense pencils: one view and several, null directions, copies, restarts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from linspec.linalg import RitzBlocks, lobpcg_steps

k = 4


class Pencil:
    """A dense pencil with the eigenvalues of M, whose S is block diagonal, and the products of its blocks."""

    def __init__(self, sizes: tuple[int, ...], *, diagonal: bool = True, rank: int | None = None) -> None:
        rng, self.edges, self.products = np.random.default_rng(len(sizes)), np.cumsum([0, *sizes]), 0
        ranks = [size if rank is None else rank for size in sizes]
        factors = [
            (0 if rank else p) * np.eye(r, p) + rng.standard_normal((r, p))
            for r, p in zip(ranks, sizes, strict=True)
        ]
        B = scipy.linalg.block_diag(*factors) * np.geomspace(1e3, 1e-3, self.edges[-1])
        E = rng.standard_normal((len(B), len(B)))
        within = 1 - scipy.linalg.block_diag(*[np.ones((r, r)) for r in ranks])
        self.M = E @ E.T / len(B) * (1 if diagonal else within)
        self.S, self.H = B.T @ B, B.T @ self.M @ B
        self.exact = np.linalg.eigvalsh(self.M)[::-1]

    @property
    def views(self) -> list[tuple[int, int]]:
        return list(pairwise(self.edges))

    @property
    def noise(self) -> list[tuple[Any, float]]:
        return [(np.diagonal(self.S)[a:b, None].copy(), 1e-13) for a, b in self.views]

    def multiplied(self, Z: Any) -> Any:
        self.products += 1
        SZ = [self.S[a:b, a:b] @ z for (a, b), z in zip(self.views, Z, strict=True)]
        HZ = [
            [self.H[c:d, a:b] @ z if self.H[c:d, a:b].any() else None for c, d in self.views]
            for (a, b), z in zip(self.views, Z, strict=True)
        ]
        return SZ, HZ

    def first(self, width: int, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [rng.standard_normal((b - a, min(width, b - a))) for a, b in self.views]

    def solved(self) -> RitzBlocks:
        """Iterate with the inverse of the diagonal as preconditioner."""
        back = [1 / diagonal for diagonal, _ in self.noise]
        steps = lobpcg_steps(self.multiplied, self.first(10), self.noise, 10)
        pairs = next(steps)
        while not pairs.exhausted and self.products < 400:
            squares = sum(np.sum(R * R * b, axis=0) for R, b in zip(pairs.residuals, back, strict=True))
            if np.sqrt(squares[:k]).max() <= 1e-11 * pairs.values[0]:
                break
            open_ = squares > 1e-26 * pairs.values[0] ** 2
            pairs = steps.send([R[:, open_] * b for R, b in zip(pairs.residuals, back, strict=True)])
        return pairs


SHAPES: dict[str, Any] = {
    "one view": Pencil((90,)),
    "two views, nothing within": Pencil((60, 45), diagonal=False),
    "three views, nothing within": Pencil((50, 40, 30), diagonal=False),
    "one view of rank 30": Pencil((60,), rank=30),
    "two views of rank 25": Pencil((50, 40), diagonal=False, rank=25),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_leading_pairs(shape: str) -> None:
    pencil = SHAPES[shape]
    pairs = pencil.solved()
    np.testing.assert_allclose(pairs.values[:k], pencil.exact[:k], rtol=1e-10)
    w = np.vstack(pairs.vectors(k))
    np.testing.assert_allclose(w.T @ pencil.S @ w, np.eye(k), atol=1e-9)
    left = pencil.H @ w - pencil.S @ w * pairs.values[:k]
    rest = np.vstack(pairs.residuals)[:, :k]
    units = np.sqrt(np.maximum(np.diagonal(pencil.S), 1e-300))[:, None]
    assert np.abs((left - rest) / units).max() <= 1e-10 * pairs.values[0]


def test_values_never_fall_and_pairs_are_not_changed_later() -> None:
    """In larger subspaces Ritz values only grow (Cauchy)."""
    pencil = Pencil((60, 45), diagonal=False)
    steps = lobpcg_steps(pencil.multiplied, pencil.first(10), pencil.noise, 10)
    before, kept = np.zeros(10), []
    for _, pairs in zip(range(12), steps, strict=False):
        assert (pairs.values - before >= -1e-12 * pairs.values[0]).all()
        before = pairs.values
        kept.append((pairs.vectors, [W.copy() for W in pairs.vectors(k)]))
    for vectors, then in kept:
        for W, V in zip(vectors(k), then, strict=True):
            np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("sizes, rank, width, most", [((30, 20), None, 20, 3), ((40, 30), 8, 10, 9)])
def test_it_ends_where_the_subspaces_are_whole_or_the_rest_is_rounding(
    sizes: Any, rank: int | None, width: int, most: int
) -> None:
    pencil = Pencil(sizes, diagonal=False, rank=rank)
    *_, last = lobpcg_steps(pencil.multiplied, pencil.first(width), pencil.noise, width, depth=9)
    count = rank or 20
    assert last.exhausted
    assert len(last.values) == count
    assert pencil.products <= most
    np.testing.assert_allclose(last.values, pencil.exact[:count], rtol=1e-8, atol=1e-10)


def test_known_products_save_one() -> None:
    pencil = Pencil((40,))
    first = pencil.first(10)
    known = pencil.multiplied(first)
    pencil.products = 0
    next(lobpcg_steps(pencil.multiplied, first, pencil.noise, 10, products=known))
    assert pencil.products == 0
