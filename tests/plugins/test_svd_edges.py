"""Matrices at the edge, for every solver of the SVD: right against NumPy's, or reported; nothing in silence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from planted import factored

import linspec as ls
from linspec import Status
from linspec.errors import InvalidProblem

SOLVERS: dict[str, dict[str, Any]] = {
    "direct": {},
    "gram": {},
    "block-krylov": {"tol": 1e-10},
    "lanczos": {"tol": 1e-10},
    "spca": {},
    "lazy-spca": {},
}


def planted(n: int, p: int, values: Any) -> Any:
    return factored(n, p, values)[0]


def cases() -> Iterator[tuple[str, Any, int]]:
    """Names, matrices, and how many triplets are asked of them."""
    rng = np.random.default_rng(1)
    five = [5.0, 4.0, 3.0, 2.0, 1.0]
    for n, p in ((40, 15), (15, 40)):
        size = f"{n} x {p}"
        for k, words in ((3, "below"), (5, "at"), (8, "above"), (15, "far above")):
            yield f"{size}, k {words} the rank", planted(n, p, five), k
        yield f"{size}, every triplet", planted(n, p, np.linspace(3, 1, 15)), 15
        yield f"{size}, zero", np.zeros((n, p)), 3
    for n, p in ((80, 50), (50, 80)):
        size, tail = f"{n} x {p}", np.geomspace(1, 0.1, 20)
        yield f"{size}, a pair cut", planted(n, p, np.repeat([5, 4, 3, 2], 2)), 5
        yield f"{size}, five equal", planted(n, p, [7] + [4] * 5 + [2, 1]), 6
        yield f"{size}, more equal than a block", planted(n, p, [*([4] * 25), *tail]), 3
        yield f"{size}, more equal than a block, all", planted(n, p, [*([4] * 25), *tail]), 25
        yield f"{size}, all equal", planted(n, p, [2] * 50), 4
        yield f"{size}, nearly equal", planted(n, p, [3, 3 - 1e-9, 3 - 2e-9, *tail]), 3
        yield f"{size}, duplicate columns", np.repeat(planted(n, p // 5, five), 5, axis=1), 7
        yield f"{size}, columns of zeros", planted(n, p, five) * (np.arange(p) % 3 == 0), 4
        yield f"{size}, steep", planted(n, p, np.geomspace(1, 1e-5, 6)), 6
        yield f"{size}, steep to rounding", planted(n, p, np.geomspace(1, 1e-16, 9)), 9
    yield "1 x 9", rng.standard_normal((1, 9)), 1
    yield "9 x 1, constant", np.full((9, 1), 0.1), 1
    yield "1 x 1", np.full((1, 1), -2.0), 1
    yield "some columns constant", np.hstack([planted(40, 6, five), np.full((40, 3), 0.1)]), 9
    yield "all columns constant", np.tile([0.1, 0.7, -3.3, 1e5], (20, 1)), 2
    yield "means of a thousand times the spread", 1e3 + planted(40, 12, five), 4


CASES = {name: (A, k) for name, A, k in cases()}


KINDS = {"dense": np.asarray, "sparse": scipy.sparse.csr_array}


GAVE_UP = {Status.STAGNATED, Status.BREAKDOWN, Status.INACCURATE, Status.ITERATION_LIMIT}
"""Endings by which a solver reports that the answer is not the requested one."""


@cache
def exact(name: str, center: bool) -> Any:
    """What is decomposed, and NumPy's singular values; of a constant column the rounding of its mean is left."""
    A, _ = CASES[name]
    B = (A - center * A.mean(axis=0)) * (np.ptp(A, axis=0) > 0 if center else 1)
    return B, np.linalg.svd(B, compute_uv=False)


def right_or_said(name: str, solver: str, kind: str, *, center: bool, left: bool) -> None:
    (A, k), (B, s) = CASES[name], exact(name, center)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = ls.SVD(KINDS[kind](A), k, center=center, left=left)
        found = ls.solve(problem, solver, rng=0, **SOLVERS[solver])
    S, V, m, first = found.S, found.Vh.T, len(found.S), s[0] or 1.0
    rank = np.sum(s > max(A.shape) * np.finfo(float).eps * max(s[0], center * np.linalg.norm(A)))
    wanted, hidden = min(k, rank), found.status is Status.ILL_CONDITIONED
    assert m <= wanted or S[wanted] <= 1e-13 * first  # which may be one or none, for NumPy as well
    assert m >= wanted or s[m] < 1e-13 * first or hidden
    assert m == k or hidden or (found.status is Status.RANK_DEFICIENT and f"{m} of the {k}" in found.message)
    for W in (V, found.U) if left else (V,):
        np.testing.assert_allclose(W.T @ W, np.eye(m), atol=1e-11)
    assert (found.U is not None) == left
    assert np.all(S[1:] <= S[:-1])
    law = np.linalg.norm(B.T @ (B @ V) - V * S**2, axis=0).max(initial=0.0) / (S[:1].sum() or 1.0) ** 2
    assert found.residual == pytest.approx(law, rel=1e-3, abs=1e-9)
    if solver.endswith("spca") and rank > k + 10 and not found.converged:  # which are exact up to this rank
        assert found.status in {Status.APPROXIMATE, *GAVE_UP}
    elif found.status not in GAVE_UP:
        np.testing.assert_allclose(S[:wanted], s[: len(S[:wanted])], atol=(1e-7 if hidden else 1e-8) * first)
        off = B @ V - found.U * S if left else np.linalg.norm(B @ V, axis=0) - S
        np.testing.assert_allclose(off, 0, atol=1e-6 * first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow(keep=90)
def test_right_or_said(name: str, solver: str, kind: str) -> None:
    for center in (False, True):
        for left in (False, True):
            right_or_said(name, solver, kind, center=center, left=left)


def test_every_solver_is_in_the_table() -> None:
    assert set(SOLVERS) == set(ls.solvers("svd"))


@pytest.mark.parametrize(("shape", "k"), [((4, 9), 5), ((9, 4), 5), ((1, 1), 2), ((3, 3), 0), ((3, 3), -1)])
def test_more_than_there_can_be_is_refused_before_work(shape: tuple[int, int], k: int) -> None:
    with pytest.raises(InvalidProblem, match=rf"k must be between 1 and {min(shape)} .*got {k}"):
        ls.solve(ls.SVD(scipy.sparse.csr_array(np.ones(shape)), k), "block-krylov")
