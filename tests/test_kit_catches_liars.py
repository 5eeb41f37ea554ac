"""The kit itself is tested: solvers that break one promise each fail the check of that promise, and no other."""

from __future__ import annotations

import itertools
import locale
import os
import random
import signal
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import linspec as ls
from linspec import LeastSquaresState, Moments, Needs, Solver, SolverSpec, Status, option, registry
from linspec.algebra.small_matrices import canonical_rotation
from linspec.arrays import is_array, to_host
from linspec.errors import InvalidOption, MissingCapability, NonFiniteData
from linspec.operators import CenteredOperator
from linspec.testing import CheckFailed, Suite, check_operator, interface_issues, run_checks
from linspec.testing.behaviour import Skip
from linspec.testing.declarations import import_issue

BACKENDS = ["numpy"]
LIBRARIES = [*BACKENDS, "products-only", "numpy-readonly", "array-api-strict"]
"""For those who lie on arrays of one kind alone: all take three times as long."""


def least_norm(A: np.ndarray, B: np.ndarray, ridge: float, eps: float, least: float = 0.0) -> np.ndarray:
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > max(max(A.shape) * eps * s[0], least)
    return Vt[keep].T @ ((s[keep] / (s[keep] ** 2 + ridge))[:, None] * (U[:, keep].T @ B))


def is_wide(x: Any) -> bool:
    """Whether it is NumPy's and float64: dtypes of other libraries are not to be compared with NumPy's."""
    return type(x) is np.ndarray and x.dtype == np.float64


def altered(solution: Any, **changes: Any) -> Any:
    """Change the contents of a solution in place: `solve` accepts no other than the one that `finish` made."""
    for name, value in changes.items():
        object.__setattr__(solution, name, value)
    return solution


@dataclass(frozen=True, kw_only=True)
class Honest(Solver):
    """The SVD of the entries (Golub 1965)."""

    least: ClassVar[float] = 0.0

    def solve(self, problem: Any, run: Any) -> Any:
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()  # refuses what is not finite
        A, B = (np.asarray(to_host(M.dense()), dtype=np.float64) for M in (problem.A, problem.B))
        x = least_norm(A, B, problem.ridge, float(np.finfo(problem.A.dtype).eps), self.least)
        return self.twist(run.finish(x=problem.A.home.blocks.place(x)), problem, run)

    def twist(self, solution: Any, problem: Any, run: Any) -> Any:
        return solution


@dataclass(frozen=True, kw_only=True)
class HonestSVD(Solver):
    """The SVD of the entries (Golub 1965)."""

    def solve(self, problem: Any, run: Any) -> Any:
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()
        A = np.asarray(to_host(problem.A.dense()), dtype=np.float64)
        if problem.center:
            mean = A.mean(axis=0)
            A = A - (mean + (A - mean).mean(axis=0))
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        k = min(problem.k, int(np.sum(s > max(A.shape) * np.finfo(problem.A.dtype).eps * s[0])))
        kept = self.choose(s, k)
        place = problem.A.home.blocks.place
        found = run.finish(Vh=place(Vt[kept]), S=s[kept], U=place(U[:, kept]) if problem.left else None)
        return self.twist(found, problem, run)

    # For liars.

    def choose(self, s: np.ndarray, k: int) -> list[int]:
        return list(range(k))

    def twist(self, solution: Any, problem: Any, run: Any) -> Any:
        return solution


@dataclass(frozen=True, kw_only=True)
class HonestIteration(Solver):
    """Conjugate gradients on the normal equations (Hestenes & Stiefel 1952)."""

    tol: float | None = option(None, "residual to stop at", kind=float, above=0)
    max_iterations: int = option(300, "iterations at most", at_least=1)
    form: str = option("implicit", "how the Gram matrix is kept", choices=("implicit", "dense"))

    def solve(self, problem: Any, run: Any) -> Any:
        moments = run.moments(self.form)
        self.begin(run)
        m = problem.B.shape[1]
        AtB = moments.products(None, moments.home.eye(m))[1]
        scale = np.linalg.norm(to_host(AtB), axis=0)
        x, r = moments.home.zeros(tuple(AtB.shape)), AtB
        p, rr = r, np.sum(to_host(r) ** 2, axis=0)
        while run.proceed(residual=self.measure(rr, scale), current=lambda x=x: {"x": x}):
            Mp = moments.gram(p) + p * problem.ridge
            pMp = np.sum(to_host(p) * to_host(Mp), axis=0)
            a = moments.home.place(np.divide(rr, pMp, out=np.zeros(m), where=pMp > 0))
            x, r = x + p * a[None, :], r - Mp * a[None, :]
            old, rr = rr, np.sum(to_host(r) ** 2, axis=0)
            b = moments.home.place(np.divide(rr, old, out=np.zeros(m), where=old > 0))
            p = r + p * b[None, :]
        return self.twist(run.finish(x=x), problem, run)

    def measure(self, rr: np.ndarray, scale: np.ndarray) -> float:
        return float(np.max(np.sqrt(rr) / np.where(scale > 0, scale, 1.0), initial=0.0))

    def begin(self, run: Any) -> None:
        """For liars."""

    def twist(self, solution: Any, problem: Any, run: Any) -> Any:
        return solution


@dataclass(frozen=True, kw_only=True)
class HonestGenerator(ls.IterativeSolver):
    """Conjugate gradients whose iterates are yielded (Hestenes & Stiefel 1952; Golub 1965)."""

    tol: float | None = option(None, "residual to stop at", kind=float, above=0)
    max_iterations: int = option(300, "iterations at most", at_least=1)
    form: str = option("implicit", "how the Gram matrix is kept", choices=("implicit", "dense"))

    def iterates(self, problem: Any, run: Any, state: Any = None) -> Any:
        moments = run.moments(self.form)
        m, place = problem.B.shape[1], moments.home.place
        if state is None:
            r = moments.products(None, moments.home.eye(m))[1]
            x, p, rr = 0 * r, r, np.sum(to_host(r) ** 2, axis=0)
            scale = np.sqrt(rr)
        else:
            x, r, p, rr, scale = (state[name] for name in ("x", "r", "p", "rr", "scale"))
            p = r if p is None else p
        for number in itertools.count() if state is None else itertools.repeat(1000):
            residual = float(np.max(np.sqrt(rr) / np.where(scale > 0, scale, 1.0), initial=0.0))
            yield ls.Iterate(residual, x=x, state={"r": r, "rr": rr, "scale": scale, "p": p})
            Mp = moments.gram(p) + p * problem.ridge
            pMp = np.sum(to_host(p) * to_host(Mp), axis=0)
            a = place(np.divide(rr, pMp, out=np.zeros(m), where=pMp > 0))[None, :]
            x, r, old = self.moved(x, p * a), r - Mp * a, rr
            rr = np.sum(to_host(r) ** 2, axis=0)
            b = place(np.divide(rr, old, out=np.zeros(m), where=old > 0))[None, :]
            p = r + p * b * self.share(number)

    # For liars.

    def moved(self, x: Any, step: Any) -> Any:
        return x + step

    def share(self, number: int) -> float:
        return 1.0


# ---- one lie each -----------------------------------------------------------------------------


class ChangesItsInput(Honest):
    def twist(self, solution, problem, run):
        source = getattr(getattr(problem.A, "operator", problem.A), "array", None)
        if source is not None and "float" in str(source.dtype):
            source[0, :] = 0 * source[0, :]
        return solution


class LiesAboutNeeds(Honest):
    pass


class ReturnsNumPy(Honest):
    def twist(self, solution, problem, run):
        return altered(solution, x=np.array(to_host(solution.x)))


class WrongResidual(Honest):
    def twist(self, solution, problem, run):
        return altered(solution, residual=solution.residual + 1e-9)


class Overconfident(HonestIteration):
    """Gives up early and says it has not."""

    max_iterations: int = option(2, "iterations at most", at_least=1)

    def twist(self, solution, problem, run):
        return altered(solution, converged=True, status=Status.CONVERGED)


class IgnoresTheBudget(HonestIteration):
    def begin(self, run):
        run._budget.max_passes = np.inf


class CountsTooLittle(Honest):
    def twist(self, solution, problem, run):
        return altered(solution, passes=solution.passes / 2)


class UsesTheGlobalGenerator(Honest):
    def twist(self, solution, problem, run):
        np.random.random()  # noqa: NPY002
        return solution


class DrawsAnswersFromTheGlobalGenerator(Honest):
    def twist(self, solution, problem, run):
        # Entry by entry: one number would be the same a second time, to rounding, in one of five runs.
        tiny = 1 + 1e-15 * np.random.random(solution.x.shape)  # noqa: NPY002
        return altered(solution, x=solution.x * tiny) if is_wide(solution.x) else solution


class Unseeded(Honest):
    def twist(self, solution, problem, run):
        tiny = 1 + 3e-15 * np.random.default_rng().random(solution.x.shape)
        return altered(solution, x=solution.x * tiny) if is_wide(solution.x) else solution


class KeepsItsAnswer(Honest):
    """Keeps the answer, and returns it for the next problem of the same shape."""

    def solve(self, problem, run):
        kept, key = vars(self).setdefault("kept", {}), (problem.A.shape, problem.B.shape, problem.ridge)
        if key not in kept:
            solution = super().solve(problem, run)
            kept[key] = to_host(solution.x)
            return solution
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()
        return run.finish(x=problem.A.home.blocks.place(kept[key]))


class HasABrokenChoice(Honest):
    """Has a value of an option that was never tried."""

    way: str = option("svd", "how to solve", choices=("svd", "qr"))

    def twist(self, solution, problem, run):
        if self.way == "qr":
            raise NameError("name 'scipy' is not defined")
        return solution


class TakesAnyLayoutForOne(Honest):
    """Reads the memory of its data from the first entry on, in the order of C."""

    def solve(self, problem, run):
        source = getattr(getattr(problem.A, "operator", problem.A), "array", None)
        if is_wide(source) and not source.flags.c_contiguous:
            raise BufferError("ndarray is not C-contiguous")
        return super().solve(problem, run)


class CutsAtANumber(Honest):
    """Takes small singular values for zeros, whatever the largest is."""

    least: ClassVar[float] = 1e-20


class Unsorted(HonestSVD):
    def twist(self, solution, problem, run):
        xp = problem.A.home.xp
        U = None if solution.U is None else xp.flip(solution.U, axis=1)
        return altered(solution, S=solution.S[::-1].copy(), Vh=xp.flip(solution.Vh, axis=0), U=U)


class WrongSigns(HonestSVD):
    def twist(self, solution, problem, run):
        return altered(solution, Vh=-solution.Vh, U=None if solution.U is None else -solution.U)


class ReturnsNoise(HonestSVD):
    """Returns as many triplets as requested, whatever the rank."""

    def twist(self, solution, problem, run):
        missing = problem.k - len(solution.S)
        if missing == 0 or not len(solution.S):
            return solution
        xp, V = (
            problem.A.home.xp,
            np.linalg.qr(np.array(to_host(solution.Vh), dtype=np.float64).T, mode="complete")[0],
        )
        rest = problem.A.home.place(V[:, -missing:].T, problem.A.dtype)
        S = np.concatenate([solution.S, np.full(missing, 1e-12)])
        U = solution.U
        if U is not None:
            U = xp.concat([U, xp.zeros_like(U[:, :missing])], axis=1)
        return altered(solution, S=S, Vh=xp.concat([solution.Vh, rest], axis=0), U=U)


class BendsLeftVectors(HonestSVD):
    """One part in a hundred thousand: less than any residual shows, which looks at the right vectors alone."""

    def twist(self, solution, problem, run):
        return solution if solution.U is None else altered(solution, U=solution.U * (1 + 1e-5))


class LeavesLeftVectorsCrooked(HonestSVD):
    """A second left vector that leans on the first."""

    def twist(self, solution, problem, run):
        if solution.U is None or len(solution.S) < 2:
            return solution
        U = problem.A.home.xp.concat(
            [solution.U[:, :1], solution.U[:, 1:] + 1e-4 * solution.U[:, :1]], axis=1
        )
        return altered(solution, U=U)


class MissesACopy(HonestSVD):
    """One copy fewer of a value that is repeated often, as a Krylov space of one vector has it, and the next value."""

    def choose(self, s, k):
        often = int(np.sum(s > (1 - 1e-9) * s[0]))
        return [*range(k - 1), k] if k == often > 10 else list(range(k))


class IgnoresTheCallback(HonestIteration):
    def begin(self, run):
        run._callbacks = ()


class Crashes(Honest):
    def twist(self, solution, problem, run):
        if problem.A.dtype == np.float32:
            raise ZeroDivisionError
        return solution


class RaisesOnOneLibrary(Honest):
    """All cases of a library fail: nothing is left to be judged there, and that is no reason to skip."""

    error: ClassVar[type[Exception]] = IndexError

    def twist(self, solution, problem, run):
        if not isinstance(solution.x, np.ndarray):
            raise self.error("list index out of range")
        return solution


class RaisesOnAll(Honest):
    def solve(self, problem, run):
        raise IndexError("index 9 is out of bounds")


class RefusesOneLibrary(RaisesOnOneLibrary):
    """Raises the error that excuses data which lack what the record declares; arrays lack nothing."""

    error = MissingCapability


class RefusesEverything(Honest):
    """Whatever the data, something is lacking."""

    def solve(self, problem, run):
        raise MissingCapability("it cannot be done")


class RefusesOneCase(Honest):
    """Refuses a problem on all libraries."""

    def twist(self, solution, problem, run):
        if problem.A.shape[1] == 1:
            raise MissingCapability("there must be two columns")
        return solution


class SolvesTheFirstRidgeAlone(Honest):
    """Says that it takes paths, and answers every ridge with the solution for the first."""

    def solve(self, problem, run):
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()
        A, B = (np.asarray(to_host(M.dense()), dtype=np.float64) for M in (problem.A, problem.B))
        x = least_norm(A, B, problem.ridges[0], float(np.finfo(problem.A.dtype).eps))
        return run.finish(x=problem.A.home.blocks.place(np.hstack([x] * len(problem.ridges))))


@dataclass(frozen=True, kw_only=True)
class HonestGramSVD(HonestSVD):
    """The eigenvectors of the Gram matrix, which one pass forms (Golub 1965)."""

    def solve(self, problem: Any, run: Any) -> Any:
        moments = run.moments("dense")
        values, V = np.linalg.eigh(to_host(moments.dense()[0]))
        values, V = values[::-1][: problem.k], V[:, ::-1][:, : problem.k]
        keep = values > V.shape[0] * 1e-15 * values[0]
        self.read_again(problem)
        return run.finish(Vh=moments.home.place(V[:, keep].T), S=np.sqrt(values[keep]))

    def read_again(self, problem: Any) -> None:
        """For liars."""


@dataclass(frozen=True, kw_only=True)
class SweepsTwice(HonestGramSVD):
    """Promises one pass and makes two (Golub 1965)."""

    def read_again(self, problem):
        problem.A.matmat(problem.A.home.blocks.zeros((problem.A.shape[1], 1)))


@dataclass(frozen=True, kw_only=True)
class HonestCCA(Solver):
    """Subspace iteration with exact least squares on Gram matrices (Golub & Zha 1995)."""

    tol: float | None = option(None, "residual to stop at", kind=float, above=0)
    max_iterations: int = option(300, "iterations at most", at_least=1)

    def solve(self, problem: Any, run: Any) -> Any:
        moments = run.moments("implicit")
        run.plan(setup=1.0 + moments.cost.setup)
        Sx, C, _, Sy = (to_host(G) for G in moments.products(*(np.eye(p) for p in moments.shape[1:])))
        Sx, Sy = Sx + problem.ridge[0] * np.eye(len(Sx)), Sy + problem.ridge[1] * np.eye(len(Sy))
        x = self.begin(run, Sx.shape[0], problem.k)
        while True:
            y = np.linalg.solve(Sy, C.T @ x)
            (Tx, Ty), rho = canonical_rotation(x.T @ Sx @ x, x.T @ C @ y, y.T @ Sy @ y, problem.k)
            x, y = x @ Tx, y @ Ty
            gap = C @ y - Sx @ x * rho
            residual = float(np.sum(gap**2 / np.diag(Sx)[:, None]) / rho.sum())
            if not run.proceed(residual=residual, current=lambda x=x, y=y: {"x_weights": x, "y_weights": y}):
                return run.finish(x_weights=x, y_weights=y)
            x = np.linalg.solve(Sx, C @ y)

    def begin(self, run: Any, rows: int, k: int) -> np.ndarray:
        return run.rng.standard_normal((rows, k)) if run.start is None else to_host(run.start["x_weights"])


@dataclass(frozen=True, kw_only=True)
class IgnoresTheStart(HonestCCA):
    """Takes an earlier answer and begins anew (Golub & Zha 1995)."""

    def begin(self, run, rows, k):
        return run.rng.standard_normal((rows, k))


@dataclass(frozen=True, kw_only=True)
class StartsAndLoiters(HonestCCA):
    """Begins at an earlier answer, as good as it is, and makes as many iterations as ever (Golub & Zha 1995)."""

    def begin(self, run, rows, k):
        if run.start is not None:
            for _ in range(200):
                run.proceed(residual=1e-3, current=dict)
        return super().begin(run, rows, k)


@dataclass(frozen=True, kw_only=True)
class HonestDiscriminant(Solver):
    """The SVD of the entries of X, and that of the targets in its basis (Golub 1965)."""

    def solve(self, problem: Any, run: Any) -> Any:
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()  # refuses what is not finite
        X, H = (np.asarray(to_host(M.dense()), dtype=np.float64) for M in (problem.X, self.labels(problem)))
        H = H if problem.factor is None else H @ np.asarray(to_host(self.block(problem)), dtype=np.float64)
        if problem.center:
            X, H = (centred(M) for M in (X, H))
        eps = float(np.finfo(problem.dtype).eps)
        U, s, Vt = np.linalg.svd(X, full_matrices=False)
        keep = s > max(X.shape) * eps * s[0]
        shrunk = np.sqrt(s[keep] ** 2 + problem.ridge)
        T = (s[keep] / shrunk)[:, None] * (U[:, keep].T @ H)
        P, t, _ = np.linalg.svd(T, full_matrices=False)
        k = min(problem.k, int(np.sum(t > 1e3 * eps * np.linalg.norm(H))))
        chosen = self.choose(P.shape[1], k)
        W, values = Vt[keep].T @ (P[:, chosen] / shrunk[:, None]), t[chosen] ** 2
        if len(chosen) == k:
            W = self.bend(W, Vt, problem)
        place = problem.X.home.blocks.place
        return self.twist(run.finish(weights=place(W), eigenvalues=self.state(values)), problem, run)

    # For liars.

    def labels(self, problem: Any) -> Any:
        return problem.H

    def block(self, problem: Any) -> Any:
        return problem.factor

    def choose(self, found: int, k: int) -> list[int]:
        return list(range(k))

    def bend(self, W: np.ndarray, Vt: np.ndarray, problem: Any) -> np.ndarray:
        return W

    def state(self, values: np.ndarray) -> np.ndarray:
        return values

    def twist(self, solution: Any, problem: Any, run: Any) -> Any:
        return solution


def centred(X: np.ndarray) -> np.ndarray:
    """Subtract column means twice, and set columns to zero if only rounding is left."""
    size = np.linalg.norm(X, axis=0)
    X = X - X.mean(axis=0)
    X = X - X.mean(axis=0)
    return X * (np.linalg.norm(X, axis=0) > 1e-12 * size)


@dataclass(frozen=True, kw_only=True)
class HonestPairs(Solver):
    """The SVD of the entries of both views, and that of the product of their bases (Björck & Golub 1973)."""

    def solve(self, problem: Any, run: Any) -> Any:
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()  # refuses what is not finite
        entries = [np.asarray(to_host(A.dense()), dtype=np.float64) for A in (problem.X, problem.Y)]
        entries = [centred(A) if problem.center else A for A in entries]
        eps = float(np.finfo(problem.dtype).eps)
        (Fx, Bx), (Fy, By) = (_basis(A, r, eps) for A, r in zip(entries, problem.ridge, strict=True))
        T = Fx.T @ Fy
        U, s, Vt = np.linalg.svd(T)
        chosen = self.choose(len(s), min(problem.k, len(s)))
        L, R = self.bend(U[:, chosen], Vt[chosen].T, T)
        place = problem.X.home.blocks.place
        found = run.finish(
            x_weights=place(Bx @ L),
            y_weights=place(By @ R),
            correlations=np.clip(np.sum(L * (T @ R), axis=0), 0.0, 1.0),
            ranks=(Fx.shape[1], Fy.shape[1]),
        )
        return self.twist(self.judge(found, problem, *entries), problem, run)

    # For liars.

    def choose(self, found: int, k: int) -> list[int]:
        return list(range(k))

    def bend(self, L: np.ndarray, R: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return L, R

    def judge(self, solution: Any, problem: Any, X: np.ndarray, Y: np.ndarray) -> Any:
        return solution

    def twist(self, solution: Any, problem: Any, run: Any) -> Any:
        return solution


def _basis(X: np.ndarray, ridge: float, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """F = XB with BᵀSB = I for S = XᵀX + ridge, and B, of the numerical range of X."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    keep = s > max(X.shape) * eps * s[0]
    shrunk = np.sqrt(s[keep] ** 2 + ridge)
    return U[:, keep] * (s[keep] / shrunk), Vt[keep].T / shrunk


class OverstatesCorrelations(HonestPairs):
    """By a millionth, and with the residual and the bounds that this gives."""

    def twist(self, solution, problem, run):
        more = np.minimum(solution.correlations * (1 + 1e-6), 1.0) - solution.correlations
        # (Cψ − ρSφ, Cᵀφ − ρSψ) is off by (Sφ, Sψ) times that, and both have length 1 in the norms of the inverses.
        squares = solution.residuals + 2 * more**2
        total = float((solution.correlations + more).sum())
        residual = float(squares.sum()) / total if total > 0 else 0.0
        return altered(
            solution,
            correlations=solution.correlations + more,
            residuals=squares,
            residual=residual,
            bounds=None,
            law_bounds=(0.0, float("inf")),
            loss_bounds=(-1.0, None),
        )


class ClaimsLawBounds(HonestPairs):
    def twist(self, solution, problem, run):
        return altered(solution, law_bounds=(solution.residual + 1e-8, float("inf")))


class ClaimsALoss(HonestPairs):
    def twist(self, solution, problem, run):
        return altered(solution, loss_bounds=(1e-3, None))


class MissesALittle(HonestPairs):
    """Pairs within spans that are turned a little towards what is left out: honest as it stands."""

    def bend(self, L, R, T):
        rng = np.random.default_rng(0)
        P, Q = (np.linalg.qr(V + 3e-5 * rng.standard_normal(V.shape))[0] for V in (L, R))
        U, _, Vt = np.linalg.svd(P.T @ T @ Q)
        return P @ U, Q @ Vt.T


class TakesTheDiagonals(MissesALittle):
    """The law in the norm of the diagonals, as if columns did not overlap."""

    def judge(self, solution, problem, X, Y):
        W = [np.asarray(to_host(V), dtype=np.float64) for V in (solution.x_weights, solution.y_weights)]
        squares = 0.0
        for A, B, v, w, ridge in ((X, Y, *W, problem.ridge[0]), (Y, X, *W[::-1], problem.ridge[1])):
            gap = A.T @ (B @ w) - (A.T @ (A @ v) + ridge * v) * solution.correlations
            d = np.sum(A**2, axis=0) + ridge
            squares += float(np.sum(gap[d > 0] ** 2 / d[d > 0, None]))
        total = float(solution.correlations.sum())
        return altered(solution, residual=squares / total if total > 0 else solution.residual)


class ClaimsBounds(MissesALittle):
    def twist(self, solution, problem, run):
        return altered(solution, bounds=0 * solution.correlations)


class LosesThePair(HonestPairs):
    """Canonical pairs all of them, but not the leading ones, and not a word of it."""

    def choose(self, found, k):
        return list(range(k)) if k < 2 or found <= k else [0, *range(2, k + 1)]

    def twist(self, solution, problem, run):
        status = Status.CONVERGED if solution.status is Status.INCOMPLETE else solution.status
        silent = {"loss_estimate": None, "loss_bounds": (-1.0, None)}
        return altered(solution, status=status, converged=solution.residual <= run.tol, **silent)


class MissesAPair(LosesThePair):
    """One copy fewer of a correlation that is repeated often, and the next one in its place."""

    def choose(self, found, k):
        return [*range(k - 1), k] if k > 10 else list(range(k))


class OverstatesEigenvalues(HonestDiscriminant):
    def twist(self, solution, problem, run):
        return altered(solution, eigenvalues=solution.eigenvalues * (1 + 1e-3))


class ForgetsTheMetric(HonestDiscriminant):
    """Weights of unit length, which no residual shows: it does not change with their lengths."""

    def twist(self, solution, problem, run):
        if solution.weights.shape[1] == 0:
            return solution
        xp = problem.X.home.xp
        length = xp.sqrt(xp.sum(solution.weights * solution.weights, axis=0))
        return altered(solution, weights=solution.weights / length[None, :])


class LosesTheSecond(HonestDiscriminant):
    """Eigenpairs all of them, but not the leading ones."""

    def choose(self, found, k):
        return list(range(k)) if k < 2 or found <= k else [0, *range(2, k + 1)]


class ReturnsOneLess(HonestDiscriminant):
    def choose(self, found, k):
        return list(range(k - 1)) if k > 1 else list(range(k))


class ReturnsNoiseToo(HonestDiscriminant):
    """Returns as many directions as requested, whatever the rank."""

    def twist(self, solution, problem, run):
        missing = 0 if problem.every else problem.k - len(solution.eigenvalues)
        if missing == 0 or not len(solution.eigenvalues):
            return solution
        home = problem.X.home
        rest = home.place(1e-14 * np.eye(problem.X.shape[1])[:, :missing], problem.X.dtype)
        values = np.concatenate([solution.eigenvalues, np.full(missing, -1e-18)])
        weights = home.xp.concat([solution.weights, rest], axis=1)
        penalty = np.pad(solution.penalty, (0, missing))
        return altered(solution, weights=weights, eigenvalues=values, penalty=penalty)


class LeavesTheSpan(HonestDiscriminant):
    """Adds a direction in which the data do not vary at all, so that neither residual nor metric shows it."""

    def bend(self, W, Vt, problem):
        if Vt.shape[0] == Vt.shape[1]:
            return W
        rest = np.linalg.svd(Vt)[2][len(Vt) :]
        return W + 1e-3 * np.linalg.norm(W) * rest[:1].T


class TurnsDiscriminants(HonestDiscriminant):
    def twist(self, solution, problem, run):
        return altered(solution, weights=-solution.weights)


class DisordersDiscriminants(HonestDiscriminant):
    def twist(self, solution, problem, run):
        flipped = problem.X.home.xp.flip(solution.weights, axis=1)
        return altered(solution, weights=flipped, eigenvalues=solution.eigenvalues[::-1].copy())


class UnderstatesTheResidual(HonestDiscriminant):
    """Eigenvalues that are a little off, less than the tolerance, and the residual of exact ones."""

    def state(self, values):
        return values * (1 + 1e-7)

    def twist(self, solution, problem, run):
        return altered(solution, residual=min(solution.residual, 1e-15))


class ForgetsTheMean(HonestDiscriminant):
    def twist(self, solution, problem, run):
        return altered(solution, mean=None)


class ShiftsTheMean(HonestDiscriminant):
    def twist(self, solution, problem, run):
        return solution if solution.mean is None else altered(solution, mean=solution.mean * (1 + 1e-4))


class TakesLabelsForTargets(HonestDiscriminant):
    """Overlooks that the targets are centred."""

    def labels(self, problem):
        H = problem.H.operator
        return H.parts[0] if isinstance(H, CenteredOperator) else problem.H


class ScalesTheBlock(HonestDiscriminant):
    def block(self, problem):
        return 2 * problem.factor


# ---- prepare ----------------------------------------------------------------------------------


class ConjugateState(LeastSquaresState):
    """Conjugate gradients for one matrix, with one fault or none."""

    def __init__(self, A: Any, ridge: float, run: Any, fault: str) -> None:
        self.ridge, self.run, self.fault = ridge, run, fault
        self.moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        self.matrix = self.moments.matrix(0) if isinstance(A, Moments) else A
        self.kept: Any = None
        if fault == "preparation":
            self.moments.gram(self.moments.home.zeros((self.moments.shape[1], 1)))

    def gram(self, x: np.ndarray) -> np.ndarray:
        return to_host(self.moments.gram(self.moments.home.place(x)))

    def solve(self, B, x0=None, tol=None, AtB=None, AtAx0=None):
        home, shape = self.moments.home, (self.moments.shape[1], B.shape[1])
        x = np.zeros(shape) if x0 is None else np.array(to_host(x0))
        iterates = self.iterates(x, B, x0, AtB, AtAx0)
        for residual, x in iterates if self.fault == "budget" else self.run.budget.affordable(iterates):
            said = 0.5 if self.fault == "constant" else residual
            if residual <= (1e-8 if tol is None else tol):
                break
            going = self.fault == "unwatched" or self.watched(said, partial(home.place, x))
            if not going and self.fault != "deaf":
                break
        if self.fault == "dtype" and x0 is None:
            return x.astype(np.float32)
        return x if self.fault == "host" else home.place(x)

    def iterates(self, x, B, x0, AtB, AtAx0):
        if AtB is None:
            AtB = self.matrix.rmatmat(B.matmat(B.home.blocks.eye(B.shape[1])))
        AtB = to_host(AtB)
        if self.fault == "first" and self.kept is not None and self.kept.shape == AtB.shape:
            AtB = self.kept
        self.kept = AtB if self.kept is None else self.kept
        if x0 is not None and self.fault == "anew":
            x, x0 = 0 * x, None
        r = AtB
        if x0 is not None:
            r = AtB - (self.gram(x) if AtAx0 is None else AtAx0) - x * self.ridge
            r = AtB - AtAx0 if self.fault == "ridge" and AtAx0 is not None else r
        if x0 is not None and self.fault == "writes":
            x0 += 1.0
        scale = np.linalg.norm(AtB, axis=0)
        p, rr = r, np.sum(r**2, axis=0)
        for _ in range(300):
            yield float(np.max(np.sqrt(rr) / np.where(scale > 0, scale, 1.0))), x
            Mp = self.gram(p) + p * self.ridge
            pMp = np.sum(p * Mp, axis=0)
            a = np.divide(rr, pMp, out=np.zeros_like(rr), where=pMp > 0)
            x, r, old = x + p * a, r - Mp * a, rr
            rr = np.sum(r**2, axis=0)
            p = r + p * np.divide(rr, old, out=np.zeros_like(rr), where=old > 0)

    def reduce(self, B, factor, gradient, AtB, x0=None, AtAx0=None):
        factor = 9 * factor if self.fault == "short" else factor
        return super().reduce(B, factor, gradient, AtB, x0, AtAx0)


@dataclass(frozen=True, kw_only=True)
class HonestPart(HonestIteration):
    """Conjugate gradients that can be a part (Hestenes & Stiefel 1952; Golub 1965)."""

    def prepare(self, A: Any, ridge: float, run: Any) -> Any:
        return ConjugateState(A, ridge, run, self.fault)

    fault = ""


def lying(fault: str) -> type:
    """A class with one fault, found under its name in this module."""
    cls = type(f"Part_{fault}", (HonestPart,), {"fault": fault, "__doc__": "", "__module__": __name__})
    globals()[cls.__name__] = cls
    return cls


class Prepares42(HonestPart):
    def prepare(self, A, ridge, run):
        return 42


class PrepareRaises(HonestPart):
    def prepare(self, A, ridge, run):
        return A.no_such_attribute


PARTS = {
    PrepareRaises: {"prepare"},
    lying("first"): {"prepare"},
    lying("dtype"): {"prepare"},
    lying("host"): {"prepare"},
    lying("ridge"): {"prepare-start"},
    lying("anew"): {"prepare-start"},
    lying("writes"): {"prepare-start"},
    lying("short"): {"prepare-start"},
    lying("budget"): {"prepare-budget"},
    lying("preparation"): {"prepare-budget"},
    lying("unwatched"): {"prepare-watch"},
    lying("deaf"): {"prepare-watch"},
    lying("constant"): {"prepare-watch"},
}


# ---- solvers ----------------------------------------------------------------------------------


class ConstantResidual(HonestIteration):
    """Finds the answer, and says half a residual from the first iteration to the last."""

    max_iterations: int = option(30, "iterations at most", at_least=1)

    def measure(self, rr, scale):
        rr[np.sqrt(rr) <= 1e-10 * scale] = 0.0  # stands still once it is there
        return 0.5


class DoesNothing(Honest):
    """Zeros, for an approximation."""

    def solve(self, problem, run):
        run.plan(setup=1.0)
        moments = run.moments("implicit")
        moments.columns.means()
        run.note(Status.APPROXIMATE, "It is only an approximation.")
        return run.finish(x=moments.home.zeros((problem.A.shape[1], problem.B.shape[1])))


class DrawsDirections(HonestSVD):
    """Random directions, and the singular values within them."""

    def solve(self, problem, run):
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()
        A = np.asarray(to_host(problem.A.dense()), dtype=np.float64)
        A = A - A.mean(axis=0) if problem.center else A
        k = min(
            problem.k,
            int(
                np.linalg.matrix_rank(
                    A, tol=max(A.shape) * np.finfo(problem.A.dtype).eps * np.linalg.norm(A, 2)
                )
            ),
        )
        V = np.linalg.qr(A.T @ np.linalg.pinv(A.T) @ run.rng.standard_normal((A.shape[1], k)))[0]
        run.note(Status.APPROXIMATE, "It is only an approximation.")
        _, s, Wt = np.linalg.svd(A @ V, full_matrices=False)
        V = V @ Wt.T
        U = A @ V / np.where(s > 0, s, 1.0) if problem.left else None
        place = problem.A.home.blocks.place
        return run.finish(Vh=place(V.T), S=s, U=None if U is None else place(U))


# ---- checkpoints ------------------------------------------------------------------------------


class WritesToItsIterate(HonestGenerator):
    """Steps in place."""

    def moved(self, x, step):
        x += step
        return x


class ForgetsItsWarmUp(HonestGenerator):
    """Searches along the gradient in the first three steps, which a run that goes on does not know of."""

    def share(self, number):
        return 0.0 if number < 3 else 1.0


class KeepsItOnItself(HonestGenerator):
    """Has the directions on the solver, and not in what it yields."""

    def iterates(self, problem, run, state=None):
        if state is not None:
            state.state["p"] = vars(self).get("directions")
        for iterate in super().iterates(problem, run, state):
            vars(self)["directions"] = iterate.state.pop("p")
            yield iterate


class HidesThatItGoesOn(HonestGenerator):
    """Lacks the trait."""


class LeavesNoCheckpoint(HonestGenerator):
    """Ends by itself in place of being stopped."""

    def solve(self, problem, run):
        run.checkpoint = lambda state: None
        run._keep = lambda: None
        return super().solve(problem, run)


# ---- what a solve does to the process ---------------------------------------------------------


class Prints(Honest):
    def twist(self, solution, problem, run):
        print("solved")
        return solution


class SetsTheErrorState(Honest):
    def twist(self, solution, problem, run):
        np.seterr(divide="raise")
        return solution


class SetsAVariable(Honest):
    def twist(self, solution, problem, run):
        os.environ["LIAR"] = "1"
        return solution


class IgnoresInterrupts(Honest):
    def twist(self, solution, problem, run):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return solution


class SetsTheLocale(Honest):
    def twist(self, solution, problem, run):
        locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")
        return solution


class SilencesWarnings(Honest):
    def twist(self, solution, problem, run):
        warnings.simplefilter("ignore")
        return solution


class SeedsNumPy(Honest):
    """Uses equal seeds each time: between two of its own solves nothing changes."""

    def twist(self, solution, problem, run):
        np.random.seed(0)  # noqa: NPY002
        return solution


class SeedsPython(Honest):
    def twist(self, solution, problem, run):
        random.seed(0)
        return solution


class Swallows(Honest):
    """Goes on whatever ends a product."""

    def solve(self, problem, run):
        try:
            run.moments("implicit").columns.means()
            problem.A.dense()
        except BaseException:  # noqa: BLE001
            pass
        return super().solve(problem, run)


class Hangs(HonestIteration):
    def begin(self, run):
        while True:
            pass


class HangsAndSwallows(HonestIteration):
    """Ends at the second time that it is stopped."""

    def begin(self, run):
        try:
            Hangs.begin(self, run)
        except BaseException:  # noqa: BLE001
            Hangs.begin(self, run)


class Waits(HonestIteration):
    def begin(self, run):
        time.sleep(600)


class Warns(Honest):
    def twist(self, solution, problem, run):
        warnings.warn("be careful", UserWarning, stacklevel=1)
        return solution


DENSE = Needs(dense=True)
LIARS = [
    (Honest, DENSE, ("direct",), set()),
    (HonestSVD, DENSE, ("direct",), set()),
    (HonestIteration, Needs(), ("iterative",), set()),
    (ChangesItsInput, DENSE, ("direct",), {"input-untouched"}),
    (LiesAboutNeeds, Needs(), ("direct",), {"declared-needs", "solves", "counts", "budget"}),
    (ReturnsNumPy, DENSE, ("direct",), {"output-home"}),
    (WrongResidual, DENSE, ("direct",), {"residual-law"}),
    (Overconfident, Needs(), ("iterative",), {"converged", "starved", "budget", "callback"}),
    (IgnoresTheBudget, Needs(), ("iterative",), {"budget"}),
    (CountsTooLittle, DENSE, ("direct",), {"counts"}),
    (UsesTheGlobalGenerator, DENSE, ("direct",), {"random-state"}),
    (DrawsAnswersFromTheGlobalGenerator, DENSE, ("direct",), {"random-state", "same-seed"}),
    (Unseeded, DENSE, ("direct",), {"same-seed"}),
    (KeepsItsAnswer, DENSE, ("direct",), {"same-instance"}),
    (HasABrokenChoice, DENSE, ("direct",), {"choices"}),
    (TakesAnyLayoutForOne, DENSE, ("direct",), {"layouts"}),
    (CutsAtANumber, DENSE, ("direct",), {"units"}),
    (Unsorted, DENSE, ("direct",), {"order"}),
    (WrongSigns, DENSE, ("direct",), {"signs"}),
    (ReturnsNoise, DENSE, ("direct",), {"accuracy"}),
    (BendsLeftVectors, DENSE, ("direct",), {"accuracy", "symmetry"}),
    (LeavesLeftVectorsCrooked, DENSE, ("direct",), {"accuracy", "symmetry"}),
    (MissesACopy, DENSE, ("direct",), {"accuracy"}),
    (IgnoresTheCallback, Needs(), ("iterative",), {"callback"}),
    (Crashes, DENSE, ("direct",), {"solves"}),
    (RaisesOnOneLibrary, DENSE, ("direct",), {"solves"}),
    (RefusesOneLibrary, DENSE, ("direct",), {"solves"}),
    (RefusesOneCase, DENSE, ("direct",), {"declared-needs"}),  # an exact solver has to solve it
    (SolvesTheFirstRidgeAlone, DENSE, ("direct", "path"), {"path"}),
    (HonestPairs, DENSE, ("direct",), set()),
    (OverstatesCorrelations, DENSE, ("direct",), {"loss", "accuracy", "symmetry"}),
    (ClaimsLawBounds, DENSE, ("direct",), {"bounds"}),
    (ClaimsALoss, DENSE, ("direct",), {"bounds"}),
    (MissesALittle, DENSE, ("direct",), set()),
    (TakesTheDiagonals, DENSE, ("direct",), {"residual-law"}),
    (ClaimsBounds, DENSE, ("direct",), {"bounds"}),
    (MissesAPair, DENSE, ("direct",), {"accuracy", "loss"}),
    (LosesThePair, DENSE, ("direct",), {"loss", "accuracy", "symmetry"}),
    (HonestDiscriminant, DENSE, ("direct",), set()),
    (OverstatesEigenvalues, DENSE, ("direct",), {"residual-law", "targets"}),
    (ForgetsTheMetric, DENSE, ("direct",), {"accuracy", "symmetry", "targets"}),
    (LosesTheSecond, DENSE, ("direct",), {"accuracy", "symmetry", "targets"}),
    (ReturnsOneLess, DENSE, ("direct",), {"accuracy", "symmetry", "targets"}),
    (ReturnsNoiseToo, DENSE, ("direct",), {"accuracy", "order"}),
    (LeavesTheSpan, DENSE, ("direct",), {"accuracy"}),
    (TurnsDiscriminants, DENSE, ("direct",), {"signs"}),
    (DisordersDiscriminants, DENSE, ("direct",), {"order"}),
    (UnderstatesTheResidual, DENSE, ("direct",), {"residual-law", "targets"}),
    (ForgetsTheMean, DENSE, ("direct",), {"output-home"}),
    (ShiftsTheMean, DENSE, ("direct",), {"accuracy"}),
    (TakesLabelsForTargets, DENSE, ("direct",), {"targets"}),
    (ScalesTheBlock, DENSE, ("direct",), {"targets"}),
    (HonestPart, Needs(), ("iterative",), set()),
    (Prepares42, Needs(), ("iterative",), {"prepare"}),
    (ConstantResidual, Needs(), ("iterative",), {"progress"}),
    (DoesNothing, DENSE, ("approximate",), {"approximates"}),
    (DrawsDirections, DENSE, ("approximate", "randomized"), {"approximates"}),
    (HonestGenerator, Needs(), ("iterative", "resumable"), set()),
    (WritesToItsIterate, Needs(), ("iterative", "resumable"), {"resumable"}),
    (ForgetsItsWarmUp, Needs(), ("iterative", "resumable"), {"resumable"}),
    (KeepsItOnItself, Needs(), ("iterative", "resumable"), {"resumable"}),
    (LeavesNoCheckpoint, Needs(), ("iterative", "resumable"), {"resumable"}),
    (HidesThatItGoesOn, Needs(), ("iterative",), {"resumable"}),
]
SIDE_EFFECTS = (
    Prints, SetsTheErrorState, SetsAVariable, IgnoresInterrupts, SetsTheLocale, SilencesWarnings, SeedsNumPy,
    SeedsPython, Swallows, Warns, Hangs, HangsAndSwallows, Waits,
)  # fmt: skip
for _liar in (*(row[0] for row in LIARS), *PARTS, *SIDE_EFFECTS, RefusesEverything, RaisesOnAll):
    _liar.__doc__ = (_liar.__doc__ or "") + " After Golub 1965."
    if _liar not in (
        Honest,
        HonestSVD,
        HonestIteration,
        HonestPairs,
        HonestDiscriminant,
        HonestPart,
        HonestGenerator,
    ):
        dataclass(frozen=True, kw_only=True)(_liar)  # in place: the class itself is returned


@pytest.fixture
def fresh_registry(monkeypatch):
    """A registry of its own, so that liars are registered for nobody else, and an error state that they may change."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    with np.errstate():
        yield own


def problem_of(cls):
    kinds = {HonestSVD: "svd", HonestCCA: "cca", HonestPairs: "cca", HonestDiscriminant: "discriminant"}
    return next((name for kind, name in kinds.items() if issubclass(cls, kind)), "least-squares")


def declare(cls, needs, traits, **changes):
    problem = problem_of(cls)
    fields = {
        "name": "liar",
        "problem": problem,
        "target": f"{__name__}:{cls.__name__}",
        "summary": "A solver that is here to be caught.",
        "reference": "Golub 1965, SIAM J. Numer. Anal. 2(2)",
        "needs": needs,
        "traits": traits,
    }
    ls.register(SolverSpec(**(fields | changes)))
    return f"{problem}/liar"


SLOW = os.environ.get("LINSPEC_SLOW", "0") not in {"", "0"}
OF_LIBRARIES = (LiesAboutNeeds, ReturnsNumPy, RaisesOnOneLibrary, RefusesOneLibrary)


@pytest.mark.parametrize("cls, needs, traits, caught", LIARS, ids=[row[0].__name__ for row in LIARS])
@pytest.mark.slow(keep=24)
def test_liar_fails_its_check_and_no_other(fresh_registry, cls, needs, traits, caught):
    """Honest solvers take every check; liars their own, and those of answers. With LINSPEC_SLOW=1, all take every
    one.
    """
    suite = Suite(declare(cls, needs, traits), backends=LIBRARIES if cls in OF_LIBRARIES else BACKENDS)
    failed, passed = set(), 0
    for check in suite.checks():
        if caught and not SLOW and not check.backend and check.name not in caught:
            continue
        try:
            check.run()
        except Skip:
            continue
        except Exception:  # noqa: BLE001 (whatever a solver raises is a failure of the check)
            failed.add(check.name)
        else:
            passed += 1
    assert failed == caught
    assert passed > (5 if caught else 15)


@pytest.mark.parametrize(("cls", "caught"), PARTS.items(), ids=lambda x: getattr(x, "__name__", ""))
@pytest.mark.slow(keep=5)
def test_a_state_that_lies_fails_its_check_and_no_other(fresh_registry, cls, caught):
    found = set()
    for check in Suite(declare(cls, Needs(), ("iterative",))).checks():
        if check.name.startswith("prepare"):  # `solve` is that of the honest one
            try:
                check.run()
            except (CheckFailed, Skip) as outcome:
                found |= {check.name} if isinstance(outcome, CheckFailed) else set()
    assert found == caught


BESIDE = [
    (Honest, "process", ""),
    (Prints, "process", r"it printed 'solved\\n'"),
    (SetsTheErrorState, "process", "error state of NumPy"),
    (SetsAVariable, "process", "os.environ"),
    (IgnoresInterrupts, "process", "handler of SIGINT"),
    (SetsTheLocale, "process", "the locale"),
    (SilencesWarnings, "process", "warnings.filters"),
    (Honest, "random-state", ""),
    (SeedsNumPy, "random-state", "that of NumPy"),
    (SeedsPython, "random-state", "that of Python"),
    (Honest, "interrupt", ""),
    (HonestIteration, "interrupt", ""),
    (Swallows, "interrupt", "Catch Exception instead"),
    (Warns, "warnings", "got UserWarning: be careful"),
]


@pytest.mark.parametrize(
    ("cls", "check", "issue"),
    BESIDE,
)
def test_what_a_solve_does_beside_its_work_is_caught(fresh_registry, cls, check, issue):
    needs = Needs() if issubclass(cls, HonestIteration) else DENSE
    name = declare(cls, needs, ("iterative",) if issubclass(cls, HonestIteration) else ("direct",))
    (found,) = [each for each in Suite(name, backends=["numpy"]).checks() if each.name == check]
    before = [np.random.get_state()[1].copy(), random.getstate(), np.geterr(), dict(os.environ)]  # noqa: NPY002
    if issue:
        with pytest.raises(CheckFailed, match=issue):
            found.run()
    else:
        found.run()
    after = [np.random.get_state()[1].copy(), random.getstate(), np.geterr(), dict(os.environ)]  # noqa: NPY002
    assert np.array_equal(before[0], after[0])  # the kit itself leaves nothing behind
    assert before[1:] == after[1:]


class CountsOneIterationMore(HonestIteration):
    def twist(self, solution, problem, run):
        return altered(solution, iterations=solution.iterations + 1)


class TurnsTheHistory(HonestIteration):
    def twist(self, solution, problem, run):
        return altered(solution, history=solution.history[::-1].copy())


class NamesAnotherSolver(HonestIteration):
    def twist(self, solution, problem, run):
        return altered(solution, solver="least-squares/cg")


class RaisesAnotherError(HonestIteration):
    """Hides which entry is not finite."""

    def solve(self, problem, run):
        try:
            return super().solve(problem, run)
        except NonFiniteData:
            raise ValueError("bad data") from None


class FailsOnSlices(HonestIteration):
    def begin(self, run):
        if run.problem.A.streamed:
            raise IndexError


for _liar in (CountsOneIterationMore, TurnsTheHistory, NamesAnotherSolver, RaisesAnotherError, FailsOnSlices):
    _liar.__doc__ = (_liar.__doc__ or "") + " After Golub 1965."
    dataclass(frozen=True, kw_only=True)(_liar)


ACCOUNTS = [
    (HonestIteration, "accounts:numpy", ""),
    (CountsOneIterationMore, "accounts:numpy", "one record more than iterations"),
    (TurnsTheHistory, "accounts:numpy", "must not decrease"),
    (NamesAnotherSolver, "accounts:numpy", "solver must be the name 'liar'"),
    (HonestIteration, "non-finite:products-only", ""),
    (RaisesAnotherError, "non-finite:products-only", "must raise NonFiniteData; got ValueError"),
    (HonestIteration, "callable", ""),
    (FailsOnSlices, "callable", "raised IndexError"),
]


@pytest.mark.parametrize(
    ("cls", "check", "issue"),
    ACCOUNTS,
)
def test_accounts_broken_data_and_slices_are_looked_at(fresh_registry, cls, check, issue):
    suite = Suite(declare(cls, Needs(), ("iterative",)), backends=["numpy", "products-only"])
    (found,) = [each for each in suite.checks() if each.id == check]
    if not issue:
        found.run()
        return
    with pytest.raises(CheckFailed, match=issue):
        found.run()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
@pytest.mark.parametrize("cls", [Hangs, HangsAndSwallows, Waits])
def test_a_solver_that_does_not_end_is_ended(fresh_registry, cls):
    report = run_checks(declare(cls, Needs(), ("iterative",)), backends=["numpy"], time_limit=0.2)
    ((check, message),) = report.failed
    assert check == "process"
    assert "must end within 0.2 s" in message
    assert ("solves:numpy", "not run: the check 'process' took more than 0.2 s") in report.skipped
    assert signal.getitimer(signal.ITIMER_PROF)[0] == signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("", ""),
        ("print('hello')", ""),
        ("import numpy", "loads numpy"),
        ("raise RuntimeError('broken')", "got RuntimeError: broken"),
        ("import time; time.sleep(1.1)", "do no work at import"),
        ("import time\nwhile time.process_time() < 3: pass", "do no work at import"),
    ],
)
def test_the_import_of_a_table_is_looked_at(tmp_path, monkeypatch, text, issue):
    (tmp_path / "table_of_a_liar.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("linspec.testing.declarations.TRIES", 1)  # none is better the second time
    found = import_issue("table_of_a_liar")
    assert issue.lower() in found.lower()
    assert bool(found) == bool(issue)


HEAVY = """
import numpy
import linspec

@linspec.hookimpl
def linspec_solvers():
    return [linspec.SolverSpec(
        name="heavy", problem="svd", target="linspec_cca.gram:GramCCA", summary="It is heavy.", reference="Golub 1965"
    )]
"""


def test_a_table_that_loads_an_array_library_fails_its_check(tmp_path, monkeypatch):
    (tmp_path / "table_of_a_heavy_one.py").write_text(HEAVY, encoding="utf-8")
    folder = tmp_path / "heavy-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: heavy\nVersion: 1.0\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text("[linspec]\nheavy = table_of_a_heavy_one\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    own = registry.Registry()  # reads what is installed, and so the new table
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    for name, issue in (("svd/heavy", "loads numpy"), ("svd/gram", "")):
        (check,) = [each for each in Suite(name).checks() if each.name == "light-table"]
        if not issue:
            check.run()
            continue
        with pytest.raises(CheckFailed, match=issue):
            check.run()


@dataclass(frozen=True, kw_only=True)
class ReadsBeforehand(SweepsTwice):
    """Makes a second sweep where there may be one, of rows that are gone (Golub 1965)."""

    def read_again(self, problem):
        if problem.A.sweeps == 1:
            next(problem.A.operator.source, None)


SWEEPS = [
    (HonestGramSVD, ("direct", "one-pass"), ""),
    (HonestGramSVD, ("direct",), ""),
    (SweepsTwice, ("direct",), ""),
    (SweepsTwice, ("direct", "one-pass"), "raised SweptOnce"),
    (ReadsBeforehand, ("direct", "one-pass"), "the end was reached 2 times"),
]


@pytest.mark.parametrize(
    ("cls", "traits", "issue"),
    SWEEPS,
)
def test_a_second_sweep_of_rows_that_are_read_once_is_caught(fresh_registry, cls, traits, issue):
    name = declare(cls, Needs(), traits)
    (check,) = [check for check in Suite(name).checks() if check.name == "one-pass"]
    if not issue:
        check.run()
        return
    with pytest.raises(CheckFailed, match=issue):
        check.run()


STARTS = [
    (HonestCCA, ("iterative", "randomized", "warm-start"), ""),
    (HonestCCA, ("iterative", "randomized"), ""),
    (HonestIteration, ("iterative",), ""),
    (
        IgnoresTheStart,
        ("iterative", "randomized", "warm-start"),
        "at its own answer, its first residual is",
    ),
    (StartsAndLoiters, ("iterative", "randomized", "warm-start"), "must end sooner; it takes 200 iter"),
]


@pytest.mark.parametrize(
    ("cls", "traits", "issue"),
    STARTS,
)
def test_a_start_that_is_ignored_is_caught(fresh_registry, cls, traits, issue):
    name = declare(cls, Needs(), traits)
    (check,) = [check for check in Suite(name).checks() if check.name == "warm-start"]
    if not issue:
        check.run()
        return
    with pytest.raises(CheckFailed, match=issue):
        check.run()


RESUMES = [
    (HonestGenerator, ("iterative", "resumable"), ""),
    (
        HonestGenerator,
        ("iterative",),
        "is an IterativeSolver, so its runs go on .* add the trait 'resumable'",
    ),
    (HonestIteration, ("iterative",), ""),
    (HonestIteration, ("iterative", "resumable"), "of iterate 0, it must take .* passes in all; it takes"),
    (
        WritesToItsIterate,
        ("iterative", "resumable"),
        "must not be written to by later steps; arrays.x changed",
    ),
    (
        ForgetsItsWarmUp,
        ("iterative", "resumable"),
        "of iterate 0, it must find the same bits; x, residual differ",
    ),
    (
        KeepsItOnItself,
        ("iterative", "resumable"),
        "of iterate 1, it must find the same bits; x, residual differ",
    ),
    (
        LeavesNoCheckpoint,
        ("iterative", "resumable"),
        "after iterate 0 must leave its checkpoint; it has left none",
    ),
]


@pytest.mark.parametrize(("cls", "traits", "issue"), RESUMES)
def test_a_run_that_does_not_go_on_is_caught(fresh_registry, cls, traits, issue):
    (check,) = [check for check in Suite(declare(cls, Needs(), traits)).checks() if check.name == "resumable"]
    if cls is HonestIteration and not issue:
        with pytest.raises(Skip, match="promises nothing"):
            check.run()
        return
    if not issue:
        check.run()
        return
    with pytest.raises(CheckFailed, match=issue):
        check.run()


ALONE = ("cases", "target", "light-table", "quiet-import")
"""Checks whose liars have tests of their own, below, and in tests/testing/breakages.py."""


def test_a_start_without_the_trait_that_is_not_refused_is_caught(fresh_registry, monkeypatch):
    """linspec itself refuses the start; the check notices a solve that does not."""
    name = declare(HonestCCA, Needs(), ("iterative", "randomized"))
    monkeypatch.setattr("linspec.solving.solve._start", lambda problem, spec, name, start: None)
    (check,) = [check for check in Suite(name).checks() if check.name == "warm-start"]
    with pytest.raises(CheckFailed, match="must be refused with MissingCapability; got None"):
        check.run()


def test_returned_numpy_is_caught_on_the_strict_backend_only(fresh_registry):
    report = run_checks(declare(ReturnsNumPy, DENSE, ("direct",)), backends=LIBRARIES)
    assert [check for check, _ in report.failed] == ["output-home:array-api-strict"]


@pytest.mark.parametrize("cls", [RaisesOnOneLibrary, RefusesOneLibrary])
def test_a_solver_that_fails_on_all_data_of_a_library_is_caught_there(fresh_registry, cls):
    report = run_checks(declare(cls, DENSE, ("direct",)), backends=LIBRARIES)
    assert [check for check, _ in report.failed] == ["solves:array-api-strict"]


def test_a_solver_that_refuses_everything_is_caught(fresh_registry):
    suite = Suite(declare(RefusesEverything, DENSE, ("direct",)), backends=["numpy", "numpy-readonly"])
    for check in (check for check in suite.checks() if check.name == "solves"):
        with pytest.raises(CheckFailed, match="it refuses all of them"):
            check.run()


def test_what_a_check_found_is_kept_if_it_then_raises(fresh_registry):
    suite = Suite(declare(Honest, DENSE, ("direct",)))

    def found_then(error):
        yield "something is wrong"
        raise error

    for error, more in ((Skip("not here"), ""), (KeyError("x"), "then the check raised KeyError: 'x'")):
        with pytest.raises(CheckFailed, match="something is wrong") as caught:
            suite._fail_on(found_then(error))
        assert more in str(caught.value)


def test_a_solver_that_raises_on_all_data_is_not_said_to_need_more(fresh_registry):
    for cls, words in (
        (RaisesOnAll, "It also does so on arrays"),
        (LiesAboutNeeds, "Declare more in `needs`"),
    ):
        suite = Suite(declare(cls, Needs(), ("direct",)), backends=["numpy"])
        (check,) = [check for check in suite.checks() if check.name == "declared-needs"]
        with pytest.raises(CheckFailed) as caught:
            check.run()
        first = str(caught.value).splitlines()[0]
        assert words in first
        assert ("IndexError: index 9" in first) == (cls is RaisesOnAll)


def test_changed_input_is_caught_where_it_cannot_be_written_too(fresh_registry):
    report = run_checks(declare(ChangesItsInput, DENSE, ("direct",)), backends=["numpy", "numpy-readonly"])
    assert [check for check, _ in report.failed] == [
        "input-untouched:numpy",
        "input-untouched:numpy-readonly",
    ]


def test_a_solver_of_a_problem_without_cases_fails(fresh_registry):
    declare(Honest, DENSE, ("direct",), problem="sorting")
    report = run_checks("sorting/liar")
    assert [check for check, _ in report.failed] == ["cases"]
    assert "no cases of the problem 'sorting'" in str(report)


def line_of(text: str) -> int:
    return 1 + next(
        i for i, line in enumerate(Path(__file__).read_text("utf-8").splitlines()) if text in line
    )


def test_failures_tell_file_and_line(fresh_registry):
    name = declare(PrepareRaises, Needs(), ("iterative",))
    (check,) = [check for check in Suite(name).checks() if check.name == "prepare"]
    with pytest.raises(CheckFailed) as caught:
        check.run()
    raised, *_, defined = str(caught.value).splitlines()
    assert f"{Path(__file__).name}:{line_of('A.no_such' + '_attribute')})" in raised
    assert f"{Path(__file__).name}:{line_of('class ' + 'PrepareRaises')} (PrepareRaises)" in defined


def test_a_class_that_cannot_be_used_fails_once(fresh_registry):
    name = declare(Honest, DENSE, ("direct",), target="no_such_module:Solver")
    report = run_checks(name, backends=["numpy"])
    assert [check for check, _ in report.failed] == ["target"]
    assert "no_such_module" in str(report)
    assert report.passed == 0


# ---- declarations -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WithoutSource(Solver):
    """No year, no name."""

    def solve(self, problem, run):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Lenient(Solver):
    """Accepts anything (Golub 1965)."""

    step: float = option(1.0, "step length", above=0)

    def __post_init__(self):
        pass

    def solve(self, problem, run):
        raise NotImplementedError


@dataclass(frozen=True)
class TakesPositions(Solver):
    """Its options need no names (Golub 1965)."""

    step: float = option(1.0, "step length", above=0)

    def solve(self, problem, run):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class NeverTheSame(Solver):
    """Its default is drawn (Golub 1965)."""

    step: float = field(default_factory=lambda: float(np.random.default_rng().random()))

    def solve(self, problem, run):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class NamesAnArgument(Solver):
    """Has an option that `solve` takes for itself (Golub 1965)."""

    rng: int = option(1, "a seed", at_least=0)

    def solve(self, problem, run):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RefusesItsDefaults(Solver):
    """Has two options that exclude each other (Golub 1965)."""

    least: float = option(1.0, "least step", above=0)
    most: float = option(0.5, "largest step", above=0)

    def __post_init__(self):
        super().__post_init__()
        if self.least > self.most:
            raise InvalidOption("least must not be larger than most")

    def solve(self, problem, run):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SaysNothing(Solver):
    """Has an option that nobody can understand (Golub 1965)."""

    step: float = option(1.0, "", above=0)

    def solve(self, problem, run):
        raise NotImplementedError


DECLARED = [
    (Honest, {}, []),
    (TakesPositions, {}, ["target"]),
    (NeverTheSame, {}, ["target"]),
    (NamesAnArgument, {}, ["target"]),
    (Honest, {"traits": ("direct", "automatic")}, ["automatic"]),
    (Honest, {"target": "no_such_module:Solver"}, ["target"]),
    (Honest, {"reference": "Somebody, somewhere"}, ["reference"]),
    (Honest, {"summary": "fast"}, ["summary"]),
    (WithoutSource, {}, ["docstring"]),
    (Lenient, {}, ["invalid-options"]),
    (RefusesItsDefaults, {}, ["defaults"]),
    (SaysNothing, {}, ["option-help"]),
]


@pytest.mark.parametrize(
    "cls, changes, caught",
    DECLARED,
)
def test_declarations(fresh_registry, cls, changes, caught):
    traits = changes.get("traits", ("direct",))
    name = declare(cls, DENSE, traits, **{key: value for key, value in changes.items() if key != "traits"})
    assert sorted({issue.partition(":")[0] for issue in interface_issues(name)}) == caught


# ---- operators --------------------------------------------------------------------------------


class Crooked(ls.LinearOperator):
    """An operator with one fault."""

    def __init__(self, fault: str, dtype: type = np.float64) -> None:
        self.M = np.random.default_rng(0).standard_normal((9, 4)).astype(dtype)
        self.shape, self.dtype, self.fault = self.M.shape, self.M.dtype, fault
        self.access = "rows" if fault == "none" or fault.startswith("rows") else "products"
        self.readable = fault == "none" or fault.startswith("dense")

    def _matmat(self, V):
        product = (self.M @ V).astype(self.dtype)
        if self.fault == "untouched":
            V *= 2
        if self.fault == "linearity":
            return product + 1e-3 * product**2
        if self.fault == "blocks" and V.shape[1] > 1:
            return product[:, ::-1].copy() if V.shape[1] == 3 else product
        return np.asarray(product, dtype=np.float64) if self.fault == "kind: wide products" else product

    def _rmatmat(self, U):
        product = self.M.T.astype(np.float64) @ U
        if self.fault == "adjoint":
            return (1 + 1e-9) * product
        return product.astype(np.float32) if self.fault == "kind" else product

    def _rows(self, selection):
        if self.access != "rows":
            return super()._rows(selection)
        if self.fault == "rows: sorted" and not isinstance(selection, slice):
            selection = np.sort(selection)
        if self.fault == "rows: once each" and not isinstance(selection, slice):
            selection = selection[np.sort(np.unique(selection, return_index=True)[1])]
        entries = self.M[selection]
        entries = entries[::-1].copy() if self.fault == "rows" else entries
        return ls.as_operator(entries.astype(np.float64) if self.fault == "rows: wide" else entries)

    def _dense(self):
        if not self.readable:
            return super()._dense()
        return (
            self.M.astype(np.float64)
            if self.fault == "dense: wide"
            else self.M + (self.fault == "dense") * 1e-9
        )


OPERATORS = [
    "untouched",
    "linearity",
    "blocks",
    "adjoint",
    "kind",
    "rows",
    "rows: sorted",
    "rows: once each",
    "dense",
]
WIDE = ["kind: wide products", "rows: wide", "dense: wide"]
"""Faults of operators that say float32 and give float64."""


@pytest.mark.parametrize("fault", [*OPERATORS, *WIDE])
def test_operator_faults_are_named(fault):
    issues = check_operator(Crooked(fault, np.float32 if fault in WIDE else np.float64))
    law = fault.partition(":")[0]
    assert any(issue.startswith(f"{law}:") for issue in issues), issues
    if law == "untouched":  # what else is wrong follows from it
        assert issues == [
            "untouched: matmat must leave its block as it is; it writes into it. Work on a copy"
        ]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_operator_without_faults_has_no_issues(dtype):
    operator = Crooked("none", dtype)
    assert check_operator(operator) == []
    assert is_array(operator.matmat(np.eye(4)))


@pytest.mark.parametrize("shift", [0.0, 1e-9], ids=["right", "wrong"])
def test_entries_that_are_known_are_compared(shift):
    operator = Crooked("none")
    issues = check_operator(operator, entries=operator.M + shift)
    assert {issue.partition(":")[0] for issue in issues} >= ({"entries"} if shift else set())
    assert bool(issues) == bool(shift)
