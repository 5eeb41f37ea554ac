"""Matrices at the edge, for every solver of the SVD: right against NumPy's, or reported; nothing in silence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Status
from linspec.errors import InvalidProblem

SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "direct": ("direct", {}),
    "gram": ("gram", {}),
    "block-krylov": ("block-krylov", {"tol": 1e-10}),
    "arpack": ("lanczos", {"tol": 1e-10}),
    "spca": ("spca", {}),
    "lazy-spca": ("lazy-spca", {}),
}
GAVE_UP = {Status.STAGNATED, Status.BREAKDOWN, Status.INACCURATE, Status.ITERATION_LIMIT}
"""Endings by which a solver reports that the answer is not the requested one."""

SKETCHED = {"spca": 10, "lazy-spca": 10}
"""Solvers that are exact if the rank is at most this number above k."""


@dataclass(frozen=True)
class Case:
    """A matrix and how many triplets are asked of it."""

    name: str
    A: np.ndarray
    k: int


def planted(n: int, p: int, values: Any, seed: int = 0) -> np.ndarray:
    """A matrix of given singular values."""
    rng = np.random.default_rng([seed, n, p])
    s = np.asarray(values, dtype=float)
    U, V = (np.linalg.qr(rng.standard_normal((rows, len(s))))[0] for rows in (n, p))
    return U * s @ V.T


def cases() -> Iterator[Case]:
    """The table."""
    rng = np.random.default_rng(1)
    five = [5.0, 4.0, 3.0, 2.0, 1.0]
    for n, p in ((40, 15), (15, 40), (15, 15)):
        size = f"{n} x {p}"
        for k, words in ((3, "below"), (5, "at"), (8, "above"), (min(n, p), "far above")):
            yield Case(f"{size}, k {words} the rank", planted(n, p, five), k)
        yield Case(f"{size}, every triplet", planted(n, p, np.linspace(3, 1, 15)), 15)
        yield Case(f"{size}, zero", np.zeros((n, p)), 3)
        yield Case(f"{size}, one entry", np.eye(1, n * p, n + 1).reshape(n, p), 2)
        yield Case(f"{size}, rank one", np.outer(rng.standard_normal(n), rng.standard_normal(p)), 3)
    for n, p in ((80, 50), (50, 80)):
        size, tail = f"{n} x {p}", np.geomspace(1, 0.1, 20)
        yield Case(f"{size}, pairs", planted(n, p, np.repeat([5, 4, 3, 2], 2)), 6)
        yield Case(f"{size}, a pair cut", planted(n, p, np.repeat([5, 4, 3, 2], 2)), 5)
        yield Case(f"{size}, five equal", planted(n, p, [7] + [4] * 5 + [2, 1]), 6)
        yield Case(f"{size}, five equal, cut", planted(n, p, [7] + [4] * 5 + [2, 1]), 4)
        yield Case(f"{size}, five equal before a tail", planted(n, p, [*([4] * 5), *tail]), 5)
        yield Case(f"{size}, more equal than a block", planted(n, p, [*([4] * 25), *tail]), 3)
        yield Case(f"{size}, more equal than a block, all", planted(n, p, [*([4] * 25), *tail]), 25)
        yield Case(f"{size}, all equal", planted(n, p, [2] * 50), 4)
        yield Case(f"{size}, nearly equal", planted(n, p, [3, 3 - 1e-9, 3 - 2e-9, *tail]), 3)
        yield Case(f"{size}, duplicate columns", np.repeat(planted(n, p // 5, five), 5, axis=1), 7)
        yield Case(f"{size}, duplicate rows", np.repeat(planted(n // 5, p, five), 5, axis=0), 7)
        yield Case(f"{size}, columns of zeros", planted(n, p, five) * (np.arange(p) % 3 == 0), 4)
        yield Case(f"{size}, steep", planted(n, p, np.geomspace(1, 1e-5, 6)), 6)
        yield Case(f"{size}, steep to rounding", planted(n, p, np.geomspace(1, 1e-16, 9)), 9)
        yield Case(f"{size}, units of 1e-50", 1e-50 * planted(n, p, five), 3)
        yield Case(f"{size}, units of 1e+50", 1e50 * planted(n, p, five), 3)
    yield Case("identity", np.eye(30), 4)
    yield Case("1 x 9", rng.standard_normal((1, 9)), 1)
    yield Case("9 x 1", rng.standard_normal((9, 1)), 1)
    yield Case("9 x 1, constant", np.full((9, 1), 0.1), 1)
    yield Case("1 x 1", np.full((1, 1), -2.0), 1)
    yield Case("1 x 1, zero", np.zeros((1, 1)), 1)
    yield Case("2 x 2", planted(2, 2, [2, 1]), 2)
    constant = np.hstack([planted(40, 6, [5, 4, 3, 2, 1]), np.full((40, 3), 0.1)])
    yield Case("some columns constant", constant, 5)
    yield Case("some columns constant, all triplets", constant, 9)
    yield Case("all columns constant", np.tile([0.1, 0.7, -3.3, 1e5], (20, 1)), 2)
    yield Case("means of a thousand times the spread", 1e3 + planted(40, 12, five), 4)


CASES = {case.name: case for case in cases()}


def in_parts(A: np.ndarray) -> scipy.sparse.csr_array:
    """Every entry stored twice, as halves, the columns of a row in falling order; zeros are stored, too."""
    n, p = A.shape
    columns = np.tile(np.repeat(np.arange(p)[::-1], 2), n)
    halves = np.repeat(A[:, ::-1], 2, axis=1).ravel() / 2
    return scipy.sparse.csr_array((halves, columns, 2 * p * np.arange(n + 1)), shape=(n, p))


KINDS = {"dense": np.asarray, "sparse": scipy.sparse.csr_array, "in parts": in_parts}


@dataclass(frozen=True)
class Reference:
    """NumPy's decomposition of what is decomposed, and its numerical rank."""

    B: np.ndarray
    S: np.ndarray
    Vh: np.ndarray
    rank: int

    @classmethod
    def of(cls, A: np.ndarray, *, center: bool) -> Reference:
        mean = A.mean(axis=0)
        B = A - center * mean
        if center:  # what is left of a constant column is the rounding of its mean
            B = B * (np.abs(B).max(axis=0) > 1e-13 * np.abs(mean))
        _, S, Vh = np.linalg.svd(B, full_matrices=False)
        rounding = max(A.shape) * np.finfo(float).eps * max(S[0], float(np.linalg.norm(A)) * center)
        return cls(B, S, Vh, int(np.sum(rounding < S)))


def faults(found: Any, case: Case, reference: Reference, label: str, *, left: bool) -> list[str]:
    """Return the faults of a solution that it does not report."""
    S, Vh, U, first = found.S, found.Vh, found.U, max(float(reference.S[0]), 0.0)
    wanted = min(case.k, reference.rank)
    exact = reference.rank <= case.k + SKETCHED.get(label, len(reference.S))
    said = []
    if len(S) > wanted:
        # A value at rounding may be one or none, for NumPy as well.
        doubtful = float(S[wanted]) > 1e-13 * first
        said += [f"{len(S)} triplets of rank {reference.rank}"] if doubtful else []
    if len(S) < case.k and found.status not in {Status.RANK_DEFICIENT, Status.ILL_CONDITIONED}:
        said.append(f"{len(S)} of {case.k} triplets, and {found.status.name}")
    if len(S) < wanted and not (
        found.status is Status.ILL_CONDITIONED or reference.S[len(S)] < 1e-13 * first
    ):
        said.append(f"{len(S)} triplets where the rank is {reference.rank}, and {found.status.name}")
    k = min(len(S), wanted)
    if first == 0:
        return said
    if len(Vh) != len(S) or (U is not None) != left or (left and U.shape != (len(case.A), len(S))):
        return [*said, f"shapes: S {S.shape}, Vh {Vh.shape}, U {None if U is None else U.shape}"]
    if not (
        np.all(np.isfinite(S)) and np.all(np.isfinite(Vh)) and np.all(np.diff(S) <= 0) and np.all(S >= 0)
    ):
        return [*said, "not finite, not in order, or negative"]
    said += [f"{name} off orthonormal by {gap:.0e}" for name, gap in crooked(Vh, U) if gap > 1e-11]
    error = float(np.max(np.abs(S[:k] - reference.S[:k]), initial=0.0))
    claims_exact = found.status not in GAVE_UP and (exact or found.converged)
    loose = 1e-7 if found.status is Status.ILL_CONDITIONED else 1e-8
    if error > loose * first and claims_exact:
        said.append(f"values off by {error / first:.0e}, and {found.status.name}")
    if not claims_exact and found.status not in {Status.APPROXIMATE, *GAVE_UP}:
        said.append(f"a sketch of a wider spectrum, and {found.status.name}")
    if claims_exact and len(S):
        B = reference.B
        said += vectors(found, B, first, left=left)
        said += span(found.Vh[:k], reference, first)
    said += residual(found, reference.B, first)
    return said


def crooked(Vh: np.ndarray, U: np.ndarray | None) -> Iterator[tuple[str, float]]:
    """Departures from orthonormal vectors."""
    yield "Vh", float(np.abs(Vh @ Vh.T - np.eye(len(Vh))).max(initial=0.0))
    if U is not None:
        yield "U", float(np.abs(U.T @ U - np.eye(U.shape[1])).max(initial=0.0))


def vectors(found: Any, B: np.ndarray, first: float, *, left: bool) -> list[str]:
    """B V = U S, and norms of B V where there is no U."""
    images = B @ found.Vh.T
    gap = images - found.U * found.S if left else np.linalg.norm(images, axis=0) - found.S
    off = float(np.abs(gap).max(initial=0.0)) / first
    return [f"A V off U S by {off:.0e}, and {found.status.name}"] if off > 1e-6 else []


def span(Vh: np.ndarray, reference: Reference, first: float) -> list[str]:
    """The subspace, where the next singular value leaves a gap that defines it."""
    k = len(Vh)
    below = reference.S[k] if k < len(reference.S) else 0.0
    gap = (reference.S[k - 1] - below) / first if k else 0.0
    if gap < 1e-4:
        return []
    V = reference.Vh[:k].T
    sine = float(np.linalg.norm(Vh.T - V @ (V.T @ Vh.T), 2))
    return [f"subspace off by {sine:.0e}"] if sine > 1e-6 / gap else []


def residual(found: Any, B: np.ndarray, first: float) -> list[str]:
    """The law, by NumPy, in units of the largest singular value."""
    if not len(found.S):
        return [] if found.residual == 0 else [f"residual {found.residual:.0e} of nothing"]
    C, S = B / first, found.S / first
    gaps = np.linalg.norm(C.T @ (C @ found.Vh.T) - found.Vh.T * S**2, axis=0)
    true = float(gaps.max()) / S[0] ** 2
    agree = abs(true - found.residual) <= 1e-9 + 1e-3 * true
    return [] if agree else [f"residual {found.residual:.0e}, by NumPy {true:.0e}"]


def answer(name: str, kind: str, label: str, *, center: bool, left: bool) -> tuple[str, list[str]]:
    """The ending in a word, and the faults."""
    case = CASES[name]
    solver, options = SOLVERS[label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ls.solve(
            ls.SVD(KINDS[kind](case.A), case.k, center=center, left=left), solver, rng=0, **options
        )
    said = faults(found, case, Reference.of(case.A, center=center), label, left=left)
    return f"{len(found.S)} of {case.k}, {found.status.name}", said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", SOLVERS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow(keep=140)
def test_right_or_said(name: str, label: str, kind: str) -> None:
    for center in (False, True):
        for left in (False, True):
            ending, said = answer(name, kind, label, center=center, left=left)
            assert not said, f"center={center}, left={left}: {ending}: {'; '.join(said)}"


def test_every_solver_is_in_the_table() -> None:
    assert {solver for solver, _ in SOLVERS.values()} == set(ls.solvers("svd"))


@pytest.mark.parametrize("label", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "k"), [((4, 9), 5), ((9, 4), 5), ((1, 1), 2), ((3, 3), 0), ((3, 3), -1)])
def test_more_than_there_can_be_is_refused_before_work(
    shape: tuple[int, int], k: int, kind: str, label: str
) -> None:
    with pytest.raises(InvalidProblem, match=rf"k must be between 1 and {min(shape)} .*got {k}"):
        ls.solve(ls.SVD(KINDS[kind](np.ones(shape)), k), SOLVERS[label][0])
