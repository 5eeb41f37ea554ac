"""Coefficients that a small residual leaves open are reported, whoever wrote the solver."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse.linalg

import linspec as ls
from linspec.iteration import Iterate
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class NormalEquations(Solver):
    """The Gram matrix, inverted with no thought of its condition."""

    def iterate(self, problem, moments, context, start):
        AtA, AtB = moments.gram()[0]
        M = AtA + problem.ridge * np.eye(len(AtA))
        x = np.linalg.lstsq(M, AtB, rcond=0)[0]  # rounding may make M exactly singular
        yield Iterate(0.0, lambda: {"x": x}, final=True)


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Solver):
    """Products alone, until the gradient is small."""

    def iterate(self, problem, moments, context, start):
        r = moments.products(None, np.eye(problem.B.shape[1]), onto=(0,))[1][0]
        x = np.zeros_like(r)
        d, first = r, np.sum(r * r, axis=0)
        s = first
        for _ in range(200):
            if np.sqrt((s / first).max()) < 1e-9:
                break
            Sd = moments.gram_product(d) + problem.ridge * d
            a = s / np.sum(d * Sd, axis=0)
            x, r = x + a * d, r - a * Sd
            before, s = s, np.sum(r * r, axis=0)
            d = r + s / before * d
        yield Iterate(0.0, lambda: {"x": x}, final=True)


@dataclass(frozen=True, kw_only=True)
class SketchedSteps(Solver):
    """Heavy-ball steps preconditioned by a sketch, which end at tol (after Epperly, Meier & Nakatsukasa 2024)."""

    hands_over: bool = ls.option(False, "hand over the rank of the sketch")
    tol: float | None = ls.tol_option(1e-8)

    def iterate(self, problem, moments, context, start):
        p, m = moments.widths
        moments.sketch_rows = 12 * p
        s, Vt = np.linalg.svd(moments.sketch()[0], full_matrices=False)[1:]
        rank = int(np.sum(s > p * np.finfo(float).eps * s[0]))
        N, scale = Vt[:rank].T / s[:rank], np.linalg.norm(moments.cross())
        x, step, known = np.zeros((p, m)), 0.0, {"rank": rank} if self.hands_over else {}
        while True:
            g = moments.residual(x, -np.eye(m))[0][0]
            yield Iterate(float(np.linalg.norm(g) / scale), partial(dict, x=x, **known))
            step = 0.1 * step - 0.8 * (N @ (N.T @ g))
            x = x + step


def planted(n, p, sigma, seed=0):
    """A with given singular values, x of equal share along all its right singular vectors, and B = A x."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, p)))[0]
    V = np.linalg.qr(rng.standard_normal((p, p)))[0]
    A, x = (U * sigma) @ V.T, V.sum(axis=1)
    return A, x, A @ x


def off(solution, x):
    return np.linalg.norm(np.ravel(solution.x) - x) / np.linalg.norm(x)


def spectrum(p, short):
    """Ones, and three short directions."""
    sigma = np.ones(p)
    sigma[-3:] = short
    return sigma


def polynomial(degree):
    """Every size of singular value occurs, and a short run meets the large ones alone."""
    V, x = (
        np.vander(np.linspace(0, 1, 200), degree + 1),
        np.random.default_rng(degree).standard_normal(degree + 1),
    )
    return V, x, V @ x


def with_copy(n, p, distance, seed=0):
    """A sparse design, its last column a near copy of the first; x sets one against the other."""
    rng = np.random.default_rng(seed)
    S = scipy.sparse.random(n, p - 1, 6 / p, random_state=seed, format="csc")
    S = S + scipy.sparse.eye_array(n, p - 1, format="csc")
    C = S[:, [0]].copy()
    C.data = C.data * (1 + distance * rng.standard_normal(len(C.data)))
    x = np.zeros(p)
    x[[0, -1]] = 50, -50
    A = scipy.sparse.csr_array(scipy.sparse.hstack([S, C]))
    return A, x, A @ x


def with_copied_row(short):
    """With fewer rows than columns, x is a combination of the rows, and a short one has a short image."""
    rng = np.random.default_rng(0)
    A, v = rng.standard_normal((20, 50)), rng.standard_normal(50)
    A[1] = A[0] + short * v
    x = np.linalg.qr(np.vstack([A[0], v, A[2:]]).T)[0] @ rng.standard_normal(20)
    return A, x, A @ x


JUDGED = [NormalEquations(), ConjugateGradients(), "direct", "sketch-precondition"]
ITERATING = ["cg", "lsqr", "nystrom-pcg"]
HARD = [
    *((planted, (2 * p, p, spectrum(p, s)), JUDGED) for p, s in itertools.product((30, 400), (1e-3, 1e-6))),
    (planted, (60, 30, spectrum(30, 1e-10)), JUDGED),
    *((planted, (160, 40, np.geomspace(1, s, 40)), [*ITERATING, "ling"]) for s in (1e-4, 1e-8, 1e-12)),
    *((planted, (160, 40, spectrum(40, s)), [*ITERATING, "ling"]) for s in (1e-3, 1e-6)),
    *((polynomial, (d,), ["auto", "direct", *ITERATING, "ling", "gd", "svrg"]) for d in (7, 13)),
    *((with_copy, (3 * p, p, 1e-6), ["auto", *ITERATING]) for p in (60, 1200)),
    # neither a Gram matrix nor a sketch is made: planted columns show the short direction
    pytest.param(with_copy, (6000, 2000, 1e-6), ["auto", *ITERATING], marks=pytest.mark.slow),
    *((with_copied_row, (short,), ["direct", *ITERATING]) for short in (1e-7, 1e-8)),
]


@pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning"
)  # not to have converged is an answer, too
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
        if solvers is JUDGED:
            assert found.status is ls.Status.CONVERGED or "coefficients" in found.message, solver
        if (make, solver) in ((with_copy, "auto"), (with_copied_row, "direct")):
            assert right


@pytest.mark.parametrize("copies", [1, 5])
def test_null_directions_are_no_uncertainty(copies):
    """x of a solver that starts at zero has no part in the null space of A: it is the solution of least norm."""
    A, _, b = planted(120, 30, np.geomspace(1, 1e-1, 30))
    A = np.hstack([A, *(A[:, :10] for _ in range(copies))])
    found = ls.solve(ls.LeastSquares(A, b), ConjugateGradients())
    assert found.status is ls.Status.RANK_DEFICIENT
    assert off(found, np.linalg.lstsq(A, b, rcond=None)[0]) < 1e-6


@pytest.mark.parametrize("hands_over", [False, True])
@pytest.mark.parametrize("p", [60, 300])
@pytest.mark.parametrize("kappa", [1e2, 1e6, 1e8, 1e10, 1e12])
def test_a_sketched_answer_is_judged_at_any_condition(kappa, p, hands_over):
    """It is reported where it is wrong, and where it is right no condition number makes it suspicious."""
    A, x, b = planted(20 * p, p, np.geomspace(1, 1 / kappa, p))
    found = ls.solve(ls.LeastSquares(A, b), SketchedSteps(hands_over=hands_over), rng=0)
    assert found.residual <= 1e-8
    right = off(found, x) < (0.02 if found.status is ls.Status.CONVERGED else 0.005)
    assert right == (found.status is ls.Status.CONVERGED), (found, off(found, x))
    assert (off(found, x) > 0.02) == (kappa >= 1e8)


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
    i, j = rng.integers(p, size=(2, 8 * p))
    i, j = np.r_[i, np.arange(p - 1)], np.r_[j, np.arange(1, p)]
    i, j = i[i != j], j[i != j]
    rows = np.arange(len(i))
    A = scipy.sparse.csr_array(
        (np.repeat([1.0, -1.0], len(i)), (np.r_[rows, rows], np.r_[i, j])), shape=(len(i), p)
    )
    x = rng.standard_normal(p)
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


@pytest.mark.parametrize("solver", ["auto", "direct", "sketch-precondition"])
def test_right_coefficients_of_a_large_residual_are_called_so(solver):
    """A polynomial of degree 13 and noise: the gradient is far above 1e-8 of Aᵀb, which rounding does not let fall."""
    V = np.vander(np.linspace(0, 1, 1000), 14)
    b = V @ np.ones(14) + 0.1 * np.random.default_rng(3).standard_normal(1000)
    found = ls.solve(ls.LeastSquares(V, b), solver, **({} if solver == "auto" else {"rng": 0}))
    basis = np.polynomial.chebyshev.chebvander(np.linspace(-1, 1, 1000), 13)
    assert np.allclose(V @ found.x, basis @ np.linalg.lstsq(basis, b, rcond=None)[0], atol=1e-8)
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
