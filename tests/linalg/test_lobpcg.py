"""LOBPCG against SciPy's eigenvalues of dense pencils: one view and several, null directions, copies, restarts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.linalg

from linspec.arrays import Home, to_host
from linspec.linalg import RitzBlocks, lobpcg_steps

k = 4


class Pencil:
    """A dense pencil whose S is block diagonal, with the products of its blocks."""

    def __init__(self, sizes: tuple[int, ...], *, diagonal: bool = True, rank: int | None = None) -> None:
        rng, self.edges = np.random.default_rng(len(sizes)), np.cumsum([0, *sizes]).tolist()
        p, self.products, self.factors = self.edges[-1], 0, list[Any]()
        units = np.geomspace(1e3, 1e-3, p)
        for a, b in self.views:
            rows = 2 * (b - a) if rank is None else rank
            self.factors.append(rng.standard_normal((rows, b - a)) * units[a:b])
        B = scipy.linalg.block_diag(*self.factors)
        E = rng.standard_normal((len(B), len(B)))
        ends = np.cumsum([0, *(len(F) for F in self.factors)]).tolist()
        self.M = E @ E.T / len(B)
        if not diagonal:
            for a, b in pairwise(ends):
                self.M[a:b, a:b] = 0.0
        self.S, self.H = B.T @ B, B.T @ self.M @ B

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

    def exact(self) -> Any:
        """The eigenvalues on the range of S, largest first."""
        bases = []
        for F in self.factors:
            U, sizes, _ = np.linalg.svd(F / np.linalg.norm(F, axis=0), full_matrices=False)
            bases.append(U[:, sizes > 1e-10])
        Q = scipy.linalg.block_diag(*bases)
        return np.linalg.eigvalsh(Q.T @ self.M @ Q)[::-1]

    def solved(self, first: Any = None, width: int = 10, **options: Any) -> RitzBlocks:
        """Iterate with the inverse of the diagonal as preconditioner."""
        d, self.products = [diagonal for diagonal, _ in self.noise], 0
        back = [np.where(D > 0, 1 / np.where(D > 0, D, 1.0), 0.0) for D in d]
        steps = lobpcg_steps(self.multiplied, first or self.first(width), self.noise, width, **options)
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
    "two views": Pencil((60, 45)),
    "two views, nothing within": Pencil((60, 45), diagonal=False),
    "three views": Pencil((50, 40, 30)),
    "three views, nothing within": Pencil((50, 40, 30), diagonal=False),
    "one view of rank 30": Pencil((60,), rank=30),
    "two views of rank 25": Pencil((50, 40), diagonal=False, rank=25),
}


@pytest.mark.parametrize("depth", [3, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_leading_pairs(shape: str, depth: int) -> None:
    pencil = SHAPES[shape]
    pairs = pencil.solved(depth=depth)
    np.testing.assert_allclose(pairs.values[:k], pencil.exact()[:k], rtol=1e-10)
    w = np.vstack(pairs.vectors(k))
    np.testing.assert_allclose(w.T @ pencil.S @ w, np.eye(k), atol=1e-9)
    left = pencil.H @ w - pencil.S @ w * pairs.values[:k]
    rest = np.vstack(pairs.residuals)[:, :k]
    units = np.sqrt(np.maximum(np.diagonal(pencil.S), 1e-300))[:, None]
    assert np.abs((left - rest) / units).max() <= 1e-10 * pairs.values[0]


def test_against_scipy_where_s_is_regular() -> None:
    pencil = Pencil((40,))
    exact = scipy.linalg.eigh(pencil.H, pencil.S, eigvals_only=True)[::-1]
    np.testing.assert_allclose(pencil.solved().values[:k], exact[:k], rtol=1e-11)


def test_values_never_fall_and_pairs_are_not_changed_later() -> None:
    """In larger subspaces Ritz values only grow (Cauchy)."""
    pencil = Pencil((60, 45), diagonal=False)
    steps, before, kept = (
        lobpcg_steps(pencil.multiplied, pencil.first(10), pencil.noise, 10),
        np.zeros(10),
        [],
    )
    for _, pairs in zip(range(12), steps, strict=False):
        assert (pairs.values - before >= -1e-12 * pairs.values[0]).all()
        before = pairs.values
        kept.append((pairs.vectors, [W.copy() for W in pairs.vectors(k)]))
    for vectors, then in kept:
        for W, V in zip(vectors(k), then, strict=True):
            np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("width", [20, 60])
def test_it_ends_where_the_subspaces_are_whole(width: int) -> None:
    pencil = Pencil((30, 20), diagonal=False)
    *_, last = lobpcg_steps(pencil.multiplied, pencil.first(width), pencil.noise, width)
    assert last.exhausted
    assert pencil.products <= 3
    np.testing.assert_allclose(last.values[:20], pencil.exact()[:20], rtol=1e-8, atol=1e-10)


def test_it_ends_where_s_annihilates_what_is_left() -> None:
    """Rank 8 of 40: ten columns have all of the range, and what is left is rounding."""
    pencil = Pencil((40, 30), diagonal=False, rank=8)
    *_, last = lobpcg_steps(pencil.multiplied, pencil.first(10), pencil.noise, 10, depth=9)
    assert last.exhausted
    assert len(last.values) == 8
    np.testing.assert_allclose(last.values, pencil.exact()[:8], rtol=1e-9)


def test_columns_without_data_get_no_weight() -> None:
    pencil = Pencil((40,))
    exact = scipy.linalg.eigh(*(np.delete(np.delete(A, [3, 7], 0), [3, 7], 1) for A in (pencil.H, pencil.S)))
    pencil.S[[3, 7]] = pencil.S[:, [3, 7]] = pencil.H[[3, 7]] = pencil.H[:, [3, 7]] = 0.0
    pairs = pencil.solved()
    assert not pairs.vectors(k)[0][[3, 7]].any()
    np.testing.assert_allclose(pairs.values[:k], exact[0][::-1][:k], rtol=1e-10)


def test_known_products_save_one() -> None:
    pencil = Pencil((40,))
    first = pencil.first(10)
    known = pencil.multiplied(first)
    pencil.products = 0
    next(lobpcg_steps(pencil.multiplied, first, pencil.noise, 10, products=known))
    assert pencil.products == 0


def test_rounding_that_prevails_ends_it_with_the_pairs_before() -> None:
    pencil = Pencil((60, 45), diagonal=False)
    steps = lobpcg_steps(pencil.multiplied, pencil.first(10), pencil.noise, 10, limit=1e9)
    for _, pairs in zip(range(4), steps, strict=False):
        good = pairs
    pencil.H = pencil.H * 1e12
    last = steps.send(None)
    assert last.exhausted
    np.testing.assert_array_equal(last.values, good.values)


def test_float32_products_are_enough_for_their_digits() -> None:
    pencil = Pencil((80,))
    d = np.sqrt(np.diagonal(pencil.S))
    S, H = (A / d[:, None] / d + 0.5 * np.eye(80) for A in (pencil.S, pencil.H))
    exact = scipy.linalg.eigh(H, S, eigvals_only=True)[::-1]
    narrow = S.astype(np.float32), H.astype(np.float32)

    def product(Z: Any) -> Any:
        SZ, HZ = ((A @ Z[0].astype(np.float32)).astype(float) for A in narrow)
        return [SZ], [[HZ]]

    first = np.random.default_rng(0).standard_normal((80, 10))
    steps = lobpcg_steps(product, [first], [(np.diagonal(S)[:, None].copy(), 1.2e-6)], 10)
    *_, last = (pairs for _, pairs in zip(range(60), steps, strict=False))
    np.testing.assert_allclose(last.values[:k], exact[:k], rtol=1e-5)


def test_blocks_stay_where_the_data_are() -> None:
    pencil = Pencil((30, 25), diagonal=False)
    home = Home.of(array_api_strict.asarray(pencil.S))

    def product(Z: Any) -> Any:
        SZ, HZ = pencil.multiplied([to_host(z) for z in Z])
        return [home.place(z) for z in SZ], [[None if P is None else home.place(P) for P in Ps] for Ps in HZ]

    noise = [(home.place(d), cut) for d, cut in pencil.noise]
    strict = lobpcg_steps(product, [home.place(V) for V in pencil.first(6)], noise, 6)
    plain = lobpcg_steps(pencil.multiplied, pencil.first(6), pencil.noise, 6)
    for _, there, here in zip(range(4), strict, plain, strict=False):
        assert all(Home.of(W) == home for W in (*there.vectors(k), *there.residuals))
        np.testing.assert_allclose(there.values, here.values, rtol=1e-9, atol=1e-12)
