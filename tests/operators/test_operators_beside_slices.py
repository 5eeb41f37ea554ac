"""An operator that is known by its products beside slices: weights and confounds have the answers of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import InvalidProblem

N = 40
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((N, 3)) + 1.0, RNG.standard_normal((N, 2))
W, Z = RNG.random(N) + 0.1, RNG.standard_normal((N, 2))
BESIDE: dict[str, dict[str, Any]] = {
    "weights": {"sample_weight": W},
    "confounds": {"confounds": Z},
    "both": {"sample_weight": W, "confounds": Z},
}
FAMILIES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "least squares": (lambda X, Y, **given: ls.LeastSquares(X, Y, 1.0, **given), ("cg", "lsqr", "auto")),
    "CCA": (lambda X, Y, **given: ls.CCA(X, Y, 2, 1.0, **given), ("lobpcg", "auto")),
    "discriminant": (lambda X, Y, **given: ls.Discriminant(X, Y, 2, 1.0, **given), ("two-stage", "auto")),
}


def slices(M: Any) -> Callable[[], Iterator[Any]]:
    return lambda: (M[i : i + 10] for i in range(0, len(M), 10))


def numbers(solution: Any) -> Any:
    return solution.x if hasattr(solution, "x") else getattr(solution, solution.layout.value)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("first", ["operator", "slices"])
@pytest.mark.slow(keep=12)
def test_weights_and_confounds_are_those_of_arrays(
    family: str, beside: str, center: bool, first: str
) -> None:
    make, solvers = FAMILIES[family]
    given = {**BESIDE[beside], "center": center}
    wanted = numbers(ls.solve(make(A, B, **given), "direct"))
    for solver in solvers:
        mixed = (aslinearoperator(A), slices(B)) if first == "operator" else (slices(A), aslinearoperator(B))
        found = ls.solve(make(*mixed, **given), solver, rng=0)
        np.testing.assert_allclose(numbers(found), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("rows", [30, 50])
def test_slices_with_another_number_of_rows_are_refused(family: str, beside: str, rows: int) -> None:
    make, _ = FAMILIES[family]
    other = RNG.standard_normal((rows, 2))
    with pytest.raises(InvalidProblem, match=f"40 rows, .*; its slices gave {rows}|beside {rows} of 40 rows"):
        ls.solve(make(aslinearoperator(A), slices(other), **BESIDE[beside]), rng=0)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("beside", ["nothing", *BESIDE])
@pytest.mark.parametrize("solver", ["gram", "whitened-svd", "auto"])
def test_gram_matrices_of_slices_and_an_operator(solver: str, beside: str, center: bool) -> None:
    given = {**BESIDE.get(beside, {}), "center": center}
    wanted = ls.solve(ls.CCA(A, B, 2, 1.0, **given), "direct")
    found = ls.solve(ls.CCA(slices(A), aslinearoperator(B), 2, 1.0, **given), solver)
    np.testing.assert_allclose(found.correlations, wanted.correlations, atol=1e-9)


@pytest.mark.parametrize("beside", BESIDE)
def test_slices_in_another_dtype_have_the_rows_of_the_operator(beside: str) -> None:
    H = (B > 0).astype(np.int16)  # multiplied in the dtype of X
    wanted = ls.solve(ls.Discriminant(A, H, 2, 1.0, **BESIDE[beside]), "direct")
    found = ls.solve(ls.Discriminant(aslinearoperator(A), slices(H), 2, 1.0, **BESIDE[beside]), rng=0)
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-5, atol=1e-6)
