"""Discriminant subspaces in two stages: least squares, then an eigenproblem as small as the targets.

Problem: the leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + γI, for n x t targets H, without a factor of M.
Method: stage 1 solves W₁ = argmin ‖XW₁ − H‖² + γ‖W₁‖² by any least-squares solver, all targets in one block. The span
of W₁ = M⁺XᵀH holds every eigenvector of an eigenvalue that is not zero; stage 2 finds them within it.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Algorithms 1 and 2.
Where we differ: the targets are first turned to those combinations that XᵀH tells from zero, so that dependent labels
and the constant of centred data cost nothing and no direction of rounding enters. The printed second stage takes
D = W₁ᵀXᵀH for exact and carries the error of W₁ to first order; here the pencil of FFᵀ, F = W₁ᵀXᵀH, and G = W₁ᵀMW₁
takes its place (Rayleigh and Ritz), which squares it. Where the answer does not meet the tolerance, stage 1 goes on
from what it has. Labels are multiplied by a small block (CCA) after the sweep, not before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import LeastSquares, Moments, Run, Solution, Solver, Status, cost, get_solver, option, part
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import canonical_rotation, ratio
from linspec.cost import Estimate, Sizes
from linspec.operators import DenseOperator, LinearOperator, ProductOperator, uncounted

INNER_TOL, LOOSEST = 1e-10, 0.1
"""Relative residual of stage 1, by default and at most."""

EXPECTED, EXPECTED_CCA = 100, 40
"""Iterations of stage 1, where "auto" weighs it against other methods; for CCA half the digits do."""


@dataclass(frozen=True, kw_only=True)
class TwoStage(Solver):
    """Least squares, then a small eigenproblem (Sun, Ceran & Ye 2010, Algorithms 1 and 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
    )
    second_stage: str = option(
        "rayleigh-ritz",
        "how eigenvectors are found in the span of stage 1: the pencil of the span, or D as printed",
        choices=("rayleigh-ritz", "printed"),
    )
    tol: float | None = option(None, "residual to stop at; none: 1e-6, more for float32", above=0)
    max_iterations: int = option(10, "times that stage 1 is gone on with, at most", at_least=1)
    form: str = option(
        "auto", "hold the Gram matrices or sweep the data", choices=("auto", "dense", "sparse", "implicit")
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a discriminant problem."""
        moments = run.moments(self.form, expect=(EXPECTED, problem.width))
        lstsq, home = run.part(_chosen(self.lstsq, problem.X)), moments.home
        run.plan(setup=_setup(lstsq, moments), iteration=2 * moments.sweep_cost)
        _, C = problem.gram_and_targets(moments, _unknown_norms(moments))
        turn = home.place(_told_apart(C, problem.resolution, problem.rounding(moments), home))
        if not turn.shape[1]:
            run.end(Status.CONVERGED)
            weights = home.zeros((C.shape[0], 0))
            run.proceed(residual=0.0, current=partial(dict, weights=weights))
            return run.finish(weights=weights)
        B = _product(problem.H, problem.factor, turn)
        regression = Regression(lstsq, problem.X, B, C @ turn, problem.ridge, moments, run)
        for W in regression.answers(INNER_TOL if self.tol is None else self.tol / 10):
            SW = moments.gram_matmat(W)
            MW = SW + W * problem.ridge
            inner, values = self._second_stage(problem, W, MW, C, moments)
            weights, image = W @ home.place(inner), MW @ home.place(inner)
            residual = problem.residual(weights, image, C, values, home)
            if not regression.proceed(residual, SW, weights=weights):
                break
        if self.second_stage == "printed":
            return run.finish(weights=weights, eigenvalues=values)
        return run.finish(weights=W)

    def _second_stage(
        self, problem: Any, W: Array, MW: Array, C: Array, moments: Moments
    ) -> tuple[HostArray, HostArray]:
        """The eigenvectors in terms of W, and their eigenvalues."""
        if self.second_stage == "rayleigh-ritz":
            found: tuple[HostArray, HostArray] = problem.within_span(W, MW, C, moments)
            return found
        # D = W₁ᵀXᵀH in the turned targets, for which C = M W₁.
        D = to_host(W.T @ MW)
        values, vectors = np.linalg.eigh((D + D.T) / 2)
        order = np.argsort(-values)[: problem.k]
        order = order[values[order] > problem.resolution**2 * max(values.max(initial=0.0), 0.0)]
        return vectors[:, order] / np.sqrt(values[order]), values[order]

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Some dozen products with a block as wide as the targets."""
        return cost.sweeps_estimate(sizes, EXPECTED)


@dataclass(frozen=True, kw_only=True)
class TwoStageCCA(Solver):
    """Least squares of a narrow Y on X, then a small CCA (Sun, Ceran & Ye 2010, Algorithm 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
    )
    tol: float | None = option(None, "residual to stop at; none: 1e-6, more for float32", above=0)
    max_iterations: int = option(10, "times that stage 1 is gone on with, at most", at_least=1)
    form: str = option(
        "auto", "hold the Gram matrices or sweep the data", choices=("auto", "dense", "sparse", "implicit")
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments(self.form, expect=(EXPECTED, problem.Y.shape[1]))
        lstsq, home = run.part(_chosen(self.lstsq, problem.X)), moments.home
        run.plan(setup=_setup(lstsq, moments), iteration=2 * moments.sweep_cost)
        _, C = moments.gram_and_cross()
        cut = 10 * math.sqrt(sum(C.shape)) * float(np.finfo(problem.dtype).eps)
        turn = home.place(_told_apart(C, cut, 0.0, home))
        B = _product(problem.Y, None, turn)
        regression = Regression(lstsq, problem.X, B, C @ turn, problem.ridge[0], moments, run)
        unit = home.eye(C.shape[1])
        # The law of CCA is a square: what stage 1 leaves counts with its square.
        for W in regression.answers(math.sqrt(run.tol) / 3):
            SW, _, _, Sy = moments.products(W, unit)
            MW, My = SW + W * problem.ridge[0], Sy + unit * problem.ridge[1]
            G, F, Gy = (to_host(V) for V in (W.T @ MW, W.T @ C, My))
            turns, rho = canonical_rotation(G, F, Gy, problem.k)
            (Tx, Ty), r = (home.place(T) for T in turns), home.place(rho)[None, :]
            gaps = [C @ Ty - (MW @ Tx) * r, C.T @ (W @ Tx) - (My @ Ty) * r]
            d = [D + ridge for D, ridge in zip(moments.diagonal(), problem.ridge, strict=True)]
            squares = [home.xp.sum(g * g * reciprocal(D)[:, None]) for g, D in zip(gaps, d, strict=True)]
            missing = float(to_host(home.xp.stack(squares)).sum())
            if not regression.proceed(ratio(missing, float(rho.sum())), SW, x_weights=W @ Tx, y_weights=Ty):
                break
        return run.finish(x_weights=W, y_weights=unit)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Some dozen products with a block as wide as Y, for which stage 2 needs YᵀY."""
        return cost.sweeps_estimate(replace(sizes, k=sizes.q), EXPECTED_CCA, spare=sizes.q)


class Regression:
    """Stage 1: any least-squares solver on all targets, gone on with as long as that helps.

    Parameters
    ----------
    lstsq : Solver
    X : LinearOperator of shape (n, p)
    B : ProductOperator of shape (n, r)
        The targets; multiplied only where a solver asks for it.
    XtB : array of shape (p, r)
    ridge : float
    moments : Moments
        Of X and of something else.
    run : Run
    """

    def __init__(
        self,
        lstsq: Solver,
        X: LinearOperator,
        B: ProductOperator,
        XtB: Array,
        ridge: float,
        moments: Moments,
        run: Run,
    ) -> None:
        self.label = next(label for label in run.problem.matrices if label != "X")
        self.lstsq, self.X, self.B, self.XtB, self.ridge = lstsq, X, B, XtB, ridge
        self.moments, self.run = moments, run
        self._product: Array = None
        self._seen = math.inf

    def answers(self, tol: float) -> Iterator[Array]:
        """The solution W₁ to a relative residual, and better ones for as long as `proceed` says yes."""
        inner = min(tol, LOOSEST)
        if not (hasattr(self.lstsq, "prepare") and hasattr(self.lstsq, "tol")):
            yield self._once(inner)
            return
        reserved = self.moments.sweep_cost
        with self.run.reserving(reserved):
            state = self.lstsq.prepare(self.moments.view(0), self.ridge, self.run)
            W = state.solve(self.B, None, inner, self.XtB)
        while True:
            yield W
            with self.run.reserving(reserved):
                W = state.solve(self.B, W, inner, self.XtB, self._product)

    def proceed(self, residual: float, product: Array, **weights: Array) -> bool:
        """Whether to go on, at an answer with a residual, its product by XᵀX and the weights that follow from it."""
        if residual > max(self.run.tol, self._seen / 2):
            self.run.end(Status.STAGNATED)
        self._seen, self._product = residual, product
        return self.run.proceed(residual=residual, current=lambda: weights)

    def _once(self, tol: float) -> Array:
        """The answer of a solver that factorises, or that cannot be made ready for one matrix."""
        bare, _ = uncounted(self.X)
        X = bare.centered(self.moments.column_means()[0]) if self.moments.center else bare
        lstsq: Any = self.lstsq
        lstsq = replace(lstsq, tol=tol) if getattr(lstsq, "tol", tol) is None else lstsq
        with self.run.reserving(self.moments.sweep_cost):
            accounts = {"A": "X", "B": self.label}
            found = self.run.within(LeastSquares(X, _uncounted(self.B), self.ridge), lstsq, accounts)
        return self.moments.home.place(found["x"])


def _chosen(lstsq: Solver | None, X: LinearOperator) -> Any:
    """The solver that was asked for, or the one that takes the least time.

    The spectrum of dense data falls, and a sketch of its head saves most of the iterations; that of counts of words
    falls so slowly that the sketch and the algebra with it cost more than they save (measured).
    """
    if lstsq is not None:
        return lstsq
    n, p = X.shape
    return get_solver("cg" if X.nnz < n * p else "nystrom-pcg", "least-squares")()


def _setup(lstsq: Solver, moments: Moments) -> float:
    """Passes before the first answer can be judged, at least."""
    return moments.setup_cost + (2.0 + lstsq.preparation) * moments.sweep_cost


def _unknown_norms(moments: Moments) -> Array | None:
    """A block without columns, with which a sweep learns column norms that only products tell."""
    return None if moments.exact_diagonal else moments.home.zeros((moments.shape[1], 0))


def _told_apart(C: Array, cut: float, least: float, home: Home) -> HostArray:
    """An orthonormal T, t x r, over the combinations of targets of which C = XᵀH is more than rounding.

    Rounding is a share `cut` of the longest, and `least`.
    """
    if C.shape[0] > C.shape[1]:
        C = home.xp.linalg.qr(C, mode="reduced")[1]
    _, s, Vt = np.linalg.svd(to_host(C), full_matrices=False)
    turn: HostArray = Vt[s > max(cut * s[0], least)].T
    return turn


def _product(labels: LinearOperator, factor: Array | None, turn: Array) -> ProductOperator:
    """Labels times factor times turn, as an operator that is multiplied only if someone asks for it."""
    block = turn if factor is None else factor @ turn
    return ProductOperator(labels, DenseOperator(labels.home.place(block, labels.dtype)))


def _uncounted(B: ProductOperator) -> ProductOperator:
    return ProductOperator(uncounted(B.parts[0])[0], B.parts[1])
