"""Coefficients that a small residual leaves open are reported, whoever wrote the solver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg
from planted import factored

import linspec as ls
from linspec.iteration import Iterate
from linspec.solving import Solver

# not to have converged is an answer, too
pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def given(x, **known):
    """A solver that returns these coefficients, and perhaps the rank that it has found."""

    class Given(Solver):
        def iterate(self, problem, moments, context, start):
            yield Iterate(0.0, lambda: {"x": x[:, None], **known}, final=True)

    return Given()


def planted(n, p, sigma, seed=0):
    """A with given singular values, x of equal share along all its right singular vectors, and B = A x."""
    A, _, V = factored(n, p, sigma, seed)
    x = V.sum(axis=1)
    return A, x, A @ x


def off(solution, x):
    return np.linalg.norm(np.ravel(solution.x) - x) / np.linalg.norm(x)


def polynomial(degree):
    """Every size of singular value occurs, and a short run meets the large ones alone."""
    V = np.vander(np.linspace(0, 1, 200), degree + 1)
    x = np.random.default_rng(degree).standard_normal(degree + 1)
    return V, x, V @ x


def with_copy(n, p, distance):
    """A sparse design, its last column a near copy of the first; x sets one against the other."""
    S = scipy.sparse.random(n, p - 1, 6 / p, random_state=0, format="csc") + scipy.sparse.eye_array(n, p - 1)
    C = scipy.sparse.csc_array(S)[:, [0]]
    C.data *= 1 + distance * np.random.default_rng(0).standard_normal(len(C.data))
    A, x = scipy.sparse.csr_array(scipy.sparse.hstack([S, C])), np.zeros(p)
    x[[0, -1]] = 50, -50
    return A, x, A @ x


def with_copied_row(short):
    """With fewer rows than columns, x is a combination of the rows, and a short one has a short image."""
    rng = np.random.default_rng(0)
    A, v = rng.standard_normal((20, 50)), rng.standard_normal(50)
    A[1] = A[0] + short * v
    x = np.linalg.qr(np.vstack([A[0], v, A[2:]]).T)[0] @ rng.standard_normal(20)
    return A, x, A @ x


ITERATING = ["cg", "lsqr", "nystrom-pcg"]
SOLVERS = ["direct", "sketch-precondition", *ITERATING, "ling"]
HARD = [
    *(
        (planted, (2 * p, p, np.repeat([1, s], [p - 3, 3])), SOLVERS)
        for p in (40, 400)
        for s in (1e-3, 1e-6, 1e-10)
    ),
    *((planted, (160, 40, np.geomspace(1, s, 40)), SOLVERS) for s in (1e-4, 1e-8, 1e-12)),
    *((polynomial, (d,), ["auto", *SOLVERS, "gd", "svrg"]) for d in (7, 13)),
    *((with_copy, (3 * p, p, 1e-6), ["auto", *ITERATING]) for p in (60, 1200)),
    # neither a Gram matrix nor a sketch is made: planted columns show the short direction
    (with_copy, (6000, 1700, 1e-6), ["auto", *ITERATING, "ling", "svrg"]),
    *((with_copied_row, (short,), ["direct", *ITERATING]) for short in (1e-7, 1e-8)),
]


@pytest.mark.parametrize(("make", "args", "solvers"), HARD, ids=lambda value: getattr(value, "__name__", ""))
def test_coefficients_are_right_or_reported(make, args, solvers):
    """Some directions are so short that an iteration converges before it meets them."""
    A, x, b = make(*args)
    for solver in solvers:
        options = {} if solver == "auto" else {"rng": 0}
        options |= {"tol": 1e-14} if make is with_copied_row and solver != "direct" else {}
        found = ls.solve(ls.LeastSquares(A, b), solver, **options)
        right = off(found, x) < (0.02 if make is planted else 0.01)
        assert right or found.status is not ls.Status.CONVERGED, solver
        if (make, solver) in ((with_copy, "auto"), (with_copied_row, "direct")):
            assert right


@pytest.mark.parametrize("copies", [1, 5])
def test_null_directions_are_no_uncertainty(copies):
    """x of a solver that starts at zero has no part in the null space of A: it is the solution of least norm."""
    A, _, b = planted(120, 30, np.geomspace(1, 1e-1, 30))
    A = np.hstack([A, *(A[:, :10] for _ in range(copies))])
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    for solver in (given(x), "cg"):
        found = ls.solve(ls.LeastSquares(A, b), solver)
        assert found.status is ls.Status.RANK_DEFICIENT
        assert off(found, x) < 1e-6


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("p", [60, 400])
@pytest.mark.parametrize("kappa", [1e2, 1e6, 1e8, 1e10, 1e12])
def test_an_answer_is_judged_at_any_condition(kappa, p, known):
    """It is reported where it is wrong along the shortest direction, and at no condition where it is right."""
    (A, x, b), rank = planted(5 * p, p, np.geomspace(1, 1 / kappa, p)), {"rank": p} if known else {}
    wrong = x + 0.1 * np.linalg.norm(x) * np.linalg.svd(A)[2][-1]
    right, reported = (ls.solve(ls.LeastSquares(A, b), given(each, **rank), rng=0) for each in (x, wrong))
    assert right.status is ls.Status.CONVERGED
    assert reported.status is not ls.Status.CONVERGED
    if reported.residual <= reported.tol:  # which says nothing about this direction
        assert "coefficients" in reported.message


def test_an_answer_as_exact_as_rounding_permits_is_not_suspected():
    """At condition 1e9 the gradient of a backward stable answer with a large residual is far above eps ‖Aᵀb‖."""
    A, _, b = planted(2000, 100, np.geomspace(1, 1e-9, 100))
    b = b + 1e-3 * np.random.default_rng(1).standard_normal(2000)
    for solver in ("direct", "sketch-precondition"):
        found = ls.solve(ls.LeastSquares(A, b), solver, rng=0)
        assert found.status is ls.Status.CONVERGED, found


@pytest.mark.parametrize("products", [False, True])
def test_many_columns_of_moderate_condition_are_called_converged(products):
    """Also where the columns of an incidence matrix of comparisons depend: the sum of the coefficients is open."""
    p, rng = 1700, np.random.default_rng(0)
    i, j = np.hstack([rng.integers(p, size=(2, 8 * p)), [np.arange(p - 1), np.arange(1, p)]])
    i, j = i[i != j], j[i != j]
    unit = scipy.sparse.eye_array(p, format="csr")
    A, x = unit[i] - unit[j], rng.standard_normal(p)
    x -= x.mean()
    data = scipy.sparse.linalg.aslinearoperator(A) if products else A
    found = ls.solve(ls.LeastSquares(data, A @ x), "cg", rng=0)
    assert off(found, x) < 1e-5
    assert found.status is ls.Status.CONVERGED, found


@pytest.mark.parametrize("solver", ["auto", "direct", "cg", "lsqr"])
@pytest.mark.parametrize("delta", [0.1, 0.01, 0.001])
def test_right_coefficients_of_float32_data_are_called_so(solver, delta):
    """Aᵀb cancels, so the rounding of the answer alone is a large share of it."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal(100_000)
    A = np.stack([a, a + delta * rng.standard_normal(len(a))], axis=1).astype(np.float32)
    b = (A[:, 0].astype(float) - A[:, 1] + 0.01 * rng.standard_normal(len(a))).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, b), solver)
    exact = np.linalg.lstsq(A.astype(float), b.astype(float), rcond=None)[0]
    assert off(found, exact) < 1e-4
    assert found.converged
    assert found.residual <= found.tol
    assert found.status is ls.Status.CONVERGED, found


@pytest.mark.parametrize("solver", ["direct", "cg", "lsqr"])
@pytest.mark.parametrize("short", [3e-6, 1e-6, 3e-7, 0.0])
def test_near_copies_within_the_rounding_of_float32_lower_the_rank(solver, short):
    """Exact copies leave the answer of least norm, which is right."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 8))
    A[:, 1] = A[:, 0] + short * rng.standard_normal(400)
    A = A.astype(np.float32)
    b = (A.astype(float) @ np.r_[50, -50, np.ones(6)] + 0.01 * rng.standard_normal(400)).astype(np.float32)
    exact = np.linalg.lstsq(A.astype(float), b.astype(float), rcond=1e-12)[0]
    found = ls.solve(ls.LeastSquares(A, b), solver)
    if short == 0:
        assert found.converged
        assert np.linalg.norm(found.x - exact) < 1e-3 * np.linalg.norm(exact)
    else:
        assert found.status in (ls.Status.RANK_DEFICIENT, ls.Status.ILL_CONDITIONED)


@pytest.mark.parametrize("solver", ["cg", "lsqr"])
@pytest.mark.parametrize("copied", [False, True])
def test_fewer_rows_than_columns_in_float32_are_told(solver, copied):
    """Products in float32 leave rounding along null directions, which says nothing about the coefficients."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 400))
    A[1] = A[0] + (1e-3 if copied else 1.0) * A[1]
    A = A.astype(np.float32)
    exact = np.linalg.qr(A.T.astype(float))[0] @ rng.standard_normal(20)
    found = ls.solve(ls.LeastSquares(A, (A @ exact).astype(np.float32)), solver)
    assert bool(np.linalg.norm(found.x - exact) < 1e-3 * np.linalg.norm(exact)) != copied
    assert (found.status is ls.Status.CONVERGED) != copied
