"""Lanczos iterations of SciPy's ARPACK and PROPACK on the products of the data.

Problem: the k leading singular triplets of A, one product with one vector at a time.
Method: `eigsh` (ARPACK, implicitly restarted Lanczos: Lehoucq, Sorensen & Yang 1998) runs on v ↦ AᵀA v, one sweep for
each product; `svds` with PROPACK (Golub-Kahan-Lanczos bidiagonalisation with partial reorthogonalisation: Larsen 1998)
runs on A and Aᵀ in turn. Both libraries return only their final result. So the operator that they are given keeps the
vectors, and their products or, for PROPACK, the bidiagonal matrix that follows from these. The Rayleigh-Ritz values and
vectors of this span, with their residuals, are then known at any time without a sweep. Progress, tolerance and budget
use them, and they are returned.
Where we differ: the tolerance is that of the problem's law, relative to σ₁², and the library is stopped as soon as it
is met. The library gets the same number as its own tolerance, which is relative to each value and thus never looser. If
PROPACK fails, ARPACK starts from the beginning. Among repeated values ARPACK may stop before the law is satisfied, and
the law may reject the final vectors. Then block Lanczos steps from the largest residuals follow. ARPACK's vectors have
the length of a column if sparse data in memory have few rows. Otherwise they have the length of a row, even if columns
are shorter, because a product is then one sweep. Data that are not NumPy's are multiplied in their place, and the
vectors iterate on the host; CuPy's own `svds` could not be watched.

A Krylov space of one vector finds a repeated singular value once. Further copies come with rounding, or not at all, and
a residual cannot show this. So converged pairs are checked: a block of random vectors, orthogonal to the Ritz vectors
found, makes a few steps of block Lanczos in their complement (Golub & Underwood 1977). With high probability this shows
a larger eigenvalue there (Kuczyński & Woźniakowski 1992, doi:10.1137/0613066; see `_Apart`). Rayleigh-Ritz includes the
new vectors, and steps follow until the residual is small again and a further check finds no more. The check costs about
ten sweeps of four columns if no pair is missing. If the budget has no room for it, or ends before all copies are found,
the solution says so. "gram" and "direct" miss none.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, eigsh, svds
from scipy.sparse.linalg import LinearOperator as SciPyOperator

from linspec import Moments, Run, Solution, Solver, Status, form_option, limit_option, option, tol_option
from linspec.algebra import EPS, eigenpairs, whitening
from linspec.arrays import Array, HostArray, to_host
from linspec.operators import uncounted
from linspec_svd.ending import answer, log_chance

FEWEST_VECTORS = 20
"""The least number of basis vectors of ARPACK; SciPy's own default."""

LONGEST_BASIS = (10, 100)
"""The largest number of basis vectors of PROPACK: for each triplet, which is SciPy's own default, and in any case."""

OVERLAP = 1e-2
"""A vector adds no direction if a smaller fraction of its square is outside the others. The bases of both libraries
are orthonormal up to rounding."""

UNDIMINISHED = 0.5
"""If more of the square of each direction is left by a projection, it has not amplified rounding."""

BLUR = 1e3
"""The error of sums of products in units of the unit roundoff, relative to the largest."""

SLACK = 1e-6
"""The largest difference from 1 of the length of a basis vector."""

ASTRAY = 1e-6
"""The largest part of a product outside of its recurrence, relative to the largest coefficient; partial
reorthogonalisation subtracts parts of the root of rounding."""

FAR = 10.0
"""A tolerance that is this many roots of rounding does not notice the error of products that follow from PROPACK's
recurrence."""

UNLIMITED = 10**9
"""The number of restarts that ARPACK may make; the run ends them earlier."""

APART = 4
"""The number of random vectors in the first search for missing pairs; each further search has twice as many."""

OPEN = 0.1
"""A missed eigenvalue is sure to be found if its relative distance above the k-th found one is at least this."""

RISK = 1e-3
"""The largest probability of missing such an eigenvalue."""

STEPS = 10
"""The number of blocks held in addition to the requested Ritz vectors while missed pairs are added."""

UNSEEN = (
    "The budget left no room to complete the search for missing copies of repeated singular values, which a "
)
UNSEEN += "residual cannot show."

UNFINISHED = (
    "Singular values had been missed, often copies of repeated ones, and the run ended before a further look "
)
UNFINISHED += (
    'could show that none is missing: raise the budget or max_iterations, or choose "gram" or "direct".'
)


class _Stopped(Exception):  # noqa: N818 (the way out of a library that knows no other)
    """The run has ended."""


@dataclass(frozen=True, kw_only=True)
class Lanczos(Solver):
    """ARPACK or PROPACK with recorded products (Lehoucq, Sorensen & Yang 1998; Larsen 1998)."""

    method: str = option("arpack", "the library that iterates", choices=("arpack", "propack"))
    basis: int | None = option(
        None, "vectors of a basis; none: max(2k + 1, 20) for arpack, max(10k, 100) for propack", at_least=2
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "looks at the basis, each after a cycle of products,")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        propack = self.method == "propack"
        moments = run.moments("implicit" if propack else self.form, expect=(problem.k + 100, 1))
        of_rows = moments.wide  # vectors of the row side are shorter
        side = problem.A.shape[0] if of_rows else problem.A.shape[1]
        step = 2.0 if propack else 1.0 if of_rows else moments.sweep_cost
        whole = problem.k == side
        products = step if whole else step * (problem.k + 1)  # the start is also multiplied
        after = float(problem.left or of_rows)  # the sweep that makes the vectors of the other side
        run.plan(setup=moments.setup_cost + products + after)
        basis = (
            max(2 * problem.k + 1, FEWEST_VECTORS) if self.basis is None else max(self.basis, problem.k + 1)
        )
        watch = _Watch(run, moments, problem.k, min(side, basis), of_rows=of_rows)
        run.offer(watch.so_far)
        with run.reserving(after):
            if whole:
                self._whole(watch)
            else:
                self._iterated(problem, run, watch)
        return run.finish(**answer(problem, run, watch.pairs, watch.resume, of_rows=of_rows))

    def _whole(self, watch: _Watch) -> None:
        """All directions are requested: a basis of all of them takes one product."""
        eye = np.eye(watch.side)
        watch.ritz = _Ritz.of(eye, watch.multiplied(eye), watch.k)
        watch.proceed()

    def _iterated(self, problem: Any, run: Run, watch: _Watch) -> None:
        k, first = problem.k, watch.basis
        if self.method == "propack":
            longest = max(LONGEST_BASIS[0] * k, LONGEST_BASIS[1], first) if self.basis is None else first
            _Bidiagonal(problem, run, watch, watch.moments).run(min(*problem.A.shape, longest))
        if not watch.ended and self.method == "propack" and not run.affords((k + 1) * watch.sweep):
            watch.close(Status.BUDGET)
        if not watch.ended:
            self._arpack(run, watch, watch.side)
        if not watch.ended:  # ARPACK has stopped, and the law is not satisfied
            watch.converged = _Apart(watch).taken_in()
        if watch.converged:
            watch.ritz = watch.ritz if watch.whole else _Apart(watch).completed()
            watch.close()

    def _arpack(self, run: Run, watch: _Watch, p: int) -> None:
        start = run.rng.standard_normal(p)
        start *= 2.0 / np.linalg.norm(start)  # not 1: this distinguishes it from basis vectors
        operator = SciPyOperator((p, p), matvec=watch.product, dtype=np.float64)
        options = {"rng": run.rng} if "rng" in inspect.signature(eigsh).parameters else {}
        found = failure = None
        try:
            found = eigsh(
                operator, k=watch.k, v0=start, ncv=watch.basis, tol=run.tol, maxiter=UNLIMITED, **options
            )
        except _Stopped:
            return
        except ArpackError as error:
            failure = error if watch.root else None  # otherwise all products were zero
        watch.look()
        if watch.ended:
            return
        if failure is not None:
            run.note(Status.BREAKDOWN, f"ARPACK gave up: {failure}")
            watch.close(Status.BREAKDOWN)
        elif found is not None:
            watch.take(found[1])


@dataclass(frozen=True)
class _Ritz:
    """All Ritz values and vectors of AᵀA in a span, and the products of the vectors with AᵀA."""

    theta: HostArray
    V: HostArray
    GV: HostArray
    k: int

    @classmethod
    def of(cls, V: HostArray, GV: HostArray, k: int, spare: int = 0) -> _Ritz:
        """The Ritz pairs of any vectors and their products."""
        T = _independent(V)
        H = T.T @ (V.T @ GV) @ T
        theta, Y = eigenpairs((H + H.T) / 2)
        turn = T @ Y[:, ::-1][:, : k + spare]
        return cls(theta[::-1][: k + spare], V @ turn, GV @ turn, k)

    @property
    def residual(self) -> float:
        """The residual by the problem's law."""
        k = min(self.k, len(self.theta))
        gap = np.linalg.norm(self.GV[:, :k] - self.V[:, :k] * self.theta[:k], axis=0).max(initial=0.0)
        largest = float(self.theta.max(initial=0.0))
        return float(gap / largest) if largest > 0 else 0.0 if gap == 0 else np.inf

    def leading(self, count: int) -> _Ritz:
        """The first few."""
        return _Ritz(self.theta[:count], self.V[:, :count], self.GV[:, :count], self.k)


def _independent(V: HostArray) -> HostArray:
    """T with V T orthonormal, without directions in which rounding would be amplified."""
    return whitening(V.T @ V, OVERLAP / max(V.shape[1], 1))


class _Watch:
    """The products that the library has received, and the Ritz pairs that follow from them.

    Attributes
    ----------
    ritz : _Ritz
        The pairs of the last look.
    ended : bool
        Whether the library gets no more products.
    converged : bool
        Whether it ended because the residual is at most the tolerance; the run does not know this yet.
    whole : bool
        Whether the basis of the last look had all directions.
    root : float
        A power of two that multiplies products with A and with Aᵀ. These products and those with AᵀA are then near 1,
        and no square overflows or underflows. 0 before the first product.
    """

    def __init__(self, run: Run, moments: Moments, k: int, basis: int, *, of_rows: bool) -> None:
        self.run, self.moments, self.k, self.basis, self.of_rows = run, moments, k, basis, of_rows
        self.side = run.problem.A.shape[0 if of_rows else 1]
        self.sweep = 1.0 if of_rows else moments.sweep_cost
        self.unit = float(np.finfo(run.problem.A.dtype).eps)
        self.ended = self.converged = self.whole = False
        self.open = True
        self.root = 0.0
        self.kept: list[_Ritz] = []
        none = np.zeros((self.side, 0))
        self.ritz = self.nil = _Ritz(np.zeros(0), none, none, k)
        self.vectors: list[HostArray] = []
        self.products: list[HostArray] = []
        self.due = basis

    def product(self, x: HostArray) -> HostArray:
        """AᵀA x, unless the run has ended."""
        known = len(self.vectors) + sum(len(ritz.theta) for ritz in self.kept)
        if known >= self.k and not self.run.affords(self.sweep):
            self.look()
            raise _Stopped
        x = np.array(x, dtype=np.float64).reshape(-1)  # a copy: ARPACK reuses its memory
        product = self.multiplied(x[:, None])[:, 0]
        if abs(np.linalg.norm(x) - 1.0) > SLACK:
            # A start vector. ARPACK first moves it into the range of AᵀA, and it enters no basis.
            return product
        self.vectors.append(x)
        self.products.append(product)
        if len(self.vectors) == 2 and self.kept:
            self._align(x)
        if len(self.vectors) >= self.due:
            self.look()
            if self.ended:
                raise _Stopped
        return product

    def multiplied(self, X: HostArray) -> HostArray:
        """AᵀA X, or AAᵀ X on the side of the rows, scaled."""
        multiply = self.moments.outer_gram_matmat if self.of_rows else self.moments.gram_matmat
        return self.scaled(to_host(multiply(self.moments.home.place(X))), 2)

    def scaled(self, product: HostArray, degree: int) -> HostArray:
        """A product with A or Aᵀ (degree 1), or with both (degree 2), times this power of the root.

        ARPACK treats values far below 1 as zero, and fourth powers may overflow or underflow.
        """
        if not self.root:
            largest = float(np.abs(product).max(initial=0.0))
            if 0 < largest < np.inf:
                self.root = 2.0 ** -(int(np.frexp(largest)[1]) // degree)
        factor = (self.root or 1.0) ** degree
        return product * factor  # always a copy: operators may reuse their memory

    def pairs(self) -> tuple[Array, HostArray]:
        """The last Ritz vectors, and their values as those of AᵀA itself."""
        return self.run.problem.A.home.blocks.place(self.ritz.V), self.ritz.theta * (self.root or 1.0) ** -2

    def resume(self) -> None:
        """Continue until the run ends, because the law is not satisfied."""
        self.open, self.ended = True, False
        steps = _Apart(self)
        while self.proceed() and steps.widened():
            pass

    def current(self) -> dict[str, Any]:
        """The values for a callback. On the side of the rows they take a product, which is not counted."""
        return self._arrays(self.ritz)

    def so_far(self) -> dict[str, Any]:
        """The same values from the vectors multiplied before the first look, if there are at least k."""
        return self._arrays(self.nil if len(self.vectors) < self.k else self._wide())

    def _arrays(self, ritz: _Ritz) -> dict[str, Any]:
        vectors = ritz.V[:, : self.k]
        S = np.sqrt(np.maximum(ritz.theta[: self.k], 0.0)) / (self.root or 1.0)
        if self.of_rows:
            bare, _ = uncounted(self.run.problem.A)
            vectors = bare.rmatmat(vectors) * np.divide(1.0, S, out=np.zeros_like(S), where=S > 0)
        return {"Vh": vectors.T, "S": S}

    def proceed(self) -> bool:
        """Ask the run whether to continue, until it says no."""
        self.open = self.open and self.run.proceed(residual=self.ritz.residual, current=self.current)
        return self.open

    def close(self, status: Status | None = None) -> None:
        """Tell the run that the iteration ends, and why, unless the tolerance is met."""
        if status is not None:
            self.run.end(status)
        self.ended = True
        self.proceed()

    def look(self) -> None:
        """Rayleigh-Ritz on all known vectors; the run decides whether to continue."""
        wide = self._wide()
        self.kept, self.vectors, self.products = [wide], [], []
        self.due = max(self.basis - self.k, 2)
        self.judge(wide)

    def _wide(self) -> _Ritz:
        """Ritz pairs of all known vectors."""
        known = self.kept or [self.nil]
        V = np.hstack([ritz.V for ritz in known] + [x[:, None] for x in self.vectors])
        GV = np.hstack([ritz.GV for ritz in known] + [x[:, None] for x in self.products])
        return _Ritz.of(V, GV, self.k, self.basis - self.k)

    def recompute(self) -> None:
        """Multiply the Ritz vectors once more, where their products are less accurate than products are."""
        if self.run.affords(self.sweep):
            self.ritz = _Ritz.of(self.ritz.V, self.multiplied(self.ritz.V), self.k)

    def take(self, V: HostArray) -> None:
        """Take ARPACK's final vectors if the law is not satisfied with the known ones; this takes one more sweep."""
        if not self.run.affords(self.sweep):
            self.close(Status.BUDGET)
            return
        self.kept = [_Ritz.of(V, self.multiplied(V), self.k)]
        self.look()

    def _align(self, x: HostArray) -> None:
        """Drop the Ritz vectors that ARPACK has dropped, so that our basis is the same as ARPACK's.

        The first vector of a cycle is orthogonal to all Ritz vectors, the second only to those that ARPACK kept.
        """
        (ritz,) = self.kept
        dropped = np.flatnonzero(np.abs(ritz.V[:, self.k :].T @ x) > self.unit**0.5)
        count = self.k + int(dropped[0]) if len(dropped) else len(ritz.theta)
        self.kept = [ritz.leading(count)]
        self.due = max(self.basis - count, 2)

    def judge(self, wide: _Ritz) -> None:
        """Ask the run with the k leading pairs, or with earlier ones if their sum of Ritz values is larger."""
        found = wide.leading(self.k)
        if found.theta.sum() >= self.ritz.theta.sum() * (1 - SLACK):
            self.ritz = found
        self.whole = len(wide.theta) == len(wide.V)
        self.converged = self.ritz.residual <= self.run.tol
        self.ended = self.converged or not self.proceed()


class _Apart:
    """A search for pairs that the Krylov space of one vector cannot find, and the steps that add them.

    The search is block Lanczos from b random vectors in the complement of the Ritz vectors found. From one random start
    in N dimensions, the largest eigenvalue of the complement has a relative error ε after q steps with a probability of
    at most 1.648 √N exp(-√ε (2q - 1)) (Kuczyński & Woźniakowski 1992, Theorem 4.2); the probabilities of b starts
    multiply. The search ends when an eigenvalue above the k-th found is hidden with a probability of at most `RISK`. ε
    comes from the largest value that the search has found, but is at least `OPEN`, to limit the cost. So an eigenvalue
    is detected if its relative distance above the k-th found is at least `OPEN` (for squares; half of it for values).
    Missing values can be overlooked if the complement's values are close to each other and to the k-th found. Values
    above the k-th by less than the tolerance times the largest are not reported: the problem's law does not see them
    either. A Ritz value is a lower bound of an eigenvalue, so the search finds no false values.

    Parameters
    ----------
    watch : _Watch
        A watch that has converged.
    """

    def __init__(self, watch: _Watch) -> None:
        self.watch, self.run, self.k = watch, watch.run, watch.k
        self.side = watch.side
        self.width, self.found = APART, False
        watch.kept = []
        self.vectors, self.products = [watch.ritz.V], [watch.ritz.GV]

    def completed(self) -> _Ritz:
        """The requested Ritz pairs, including missed ones, as far as the budget goes.

        If the budget ends while missed pairs are added, the pairs that had converged before are returned. The new ones
        are returned if their values are accurate; the errors of values are the squares of the residuals.
        """
        watch = self.watch
        while (shown := self._look()) is not False:
            if shown is None:
                unknown = (Status.INCOMPLETE, UNFINISHED) if self.found else (Status.BUDGET, UNSEEN)
                self.run.note(*unknown)
                break
            self.found, before = True, watch.ritz
            watch.ritz = self._merged()
            if not self.taken_in():
                self.run.note(Status.INCOMPLETE, UNFINISHED)
                return watch.ritz if watch.ritz.residual <= self.run.tol**0.5 else before
            self.vectors, self.products = [watch.ritz.V], [watch.ritz.GV]
            self.width = 2 * self.width
        return watch.ritz

    def taken_in(self) -> bool:
        """Continue until the residual is small again. Returns whether the run allowed it."""
        watch = self.watch
        while watch.ritz.residual > self.run.tol:
            if not (watch.proceed() and self.widened()):
                return False
        return True

    def widened(self) -> bool:
        """Multiply the residuals of the Ritz vectors. Returns whether they are more than rounding."""
        block = self._rests()
        if block.shape[1] == 0:
            self.watch.close(Status.STAGNATED)
            return False
        self._widen(block)
        self.watch.ritz = self._merged()
        return True

    def _look(self) -> bool | None:
        """Whether a pair is missing; None if the run allows no further search."""
        theta = self.watch.ritz.theta[: self.k]
        margin = max(self.run.tol, BLUR * self.watch.unit) * float(theta.max(initial=0.0))
        least = (float(theta[-1]) if len(theta) == self.k else 0.0) + margin
        block = self._new(self.run.rng.standard_normal((self.side, self.width)))
        starts, steps = block.shape[1], 0
        side = self.side - self.vectors[0].shape[1]
        H = np.zeros((0, 0))
        while block.shape[1]:
            if not self.run.affords(self.watch.sweep):
                return None
            GX = self._widen(block)
            steps += 1
            newest = np.vstack([V.T @ GX for V in self.vectors[1:]])
            order, b = len(newest), GX.shape[1]
            H = np.block([[H, newest[: order - b]], [newest[: order - b].T, newest[order - b :]]])
            largest = float(np.linalg.eigvalsh((H + H.T) / 2)[-1])
            if largest > least:
                return True
            share = max(1.0 - largest / least, OPEN) if least > 0 else 1.0
            if starts * log_chance(side, share, steps) <= np.log(RISK):
                return False
            block = self._new(GX, float(np.abs(theta).max(initial=0.0)))
        return False  # all directions were searched

    def _widen(self, X: HostArray) -> HostArray:
        """Multiply a block that is orthogonal to the held vectors, and hold it."""
        GX = self.watch.multiplied(X)
        self.vectors.append(X)
        self.products.append(GX)
        return GX

    def _outside(self, X: HostArray) -> HostArray:
        """A block minus its projection onto the held vectors."""
        for V in self.vectors:
            X = X - V @ (V.T @ X)
        return X

    def _new(self, X: HostArray, scale: float = 0.0) -> HostArray:
        """An orthonormal basis of the part of a block outside the held vectors, without rounding."""
        X = self._outside(X)
        values, vectors = eigenpairs(X.T @ X)
        keep = values > max((10 * self.watch.unit * scale) ** 2, EPS * float(values.max(initial=0.0)))
        Q = X @ (vectors[:, keep] / np.sqrt(values[keep]))
        for _ in range(2):
            Q = self._outside(Q)
            lengths, vectors = eigenpairs(Q.T @ Q)
            keep = lengths > OVERLAP  # below it is amplified rounding
            Q = Q @ (vectors[:, keep] / np.sqrt(lengths[keep]))
            if lengths.min(initial=1.0) > UNDIMINISHED:
                break  # a further projection would take out rounding alone
        left: HostArray = Q[:, : max(self.side - sum(V.shape[1] for V in self.vectors), 0)]
        return left

    def _merged(self) -> _Ritz:
        """The leading Ritz pairs of the held vectors. If there are too many vectors, only Ritz vectors are kept."""
        spare = STEPS * self.width
        V, GV = np.hstack(self.vectors), np.hstack(self.products)
        merged = _Ritz.of(V, GV, self.k, spare // 3)
        if V.shape[1] > self.k + spare:
            self.vectors, self.products = [merged.V], [merged.GV]
        return merged.leading(self.k)

    def _rests(self) -> HostArray:
        """A block of the largest residuals of the requested Ritz vectors."""
        ritz = self.watch.ritz
        rests = ritz.GV - ritz.V * ritz.theta
        worst = np.argsort(-np.linalg.norm(rests, axis=0))[: self.width]
        return self._new(rests[:, worst])


class _Bidiagonal:
    """PROPACK on A and Aᵀ, and the Ritz pairs that follow from its vectors.

    PROPACK multiplies u₁, v₁, u₂, v₂, … in turn by Aᵀ and A. With αⱼ = vⱼᵀAᵀuⱼ and βⱼ₊₁ = uⱼ₊₁ᵀAvⱼ these are

        Aᵀuⱼ = βⱼ vⱼ₋₁ + αⱼ vⱼ,    A vⱼ = αⱼ uⱼ + βⱼ₊₁ uⱼ₊₁,

    so that AᵀA V and AAᵀ U follow from the bidiagonal matrix B of these numbers and the last product. Only the vectors
    of the shorter side are held, and no Gram matrix of them is formed. Partial reorthogonalisation keeps B accurate
    to rounding (Simon 1984; Larsen 1998). The products themselves are accurate to the root of rounding. Where the
    tolerance is not far above it, the final vectors are multiplied once more. An exception cannot stop PROPACK:
    after the run has ended, all products are zero.
    """

    def __init__(self, problem: Any, run: Run, watch: _Watch, moments: Moments) -> None:
        self.A = problem.A
        self.run_, self.watch, self.moments = run, watch, moments
        self.held: list[HostArray] = []
        self.diagonal: list[float] = []
        self.below: list[float] = []
        self.last_product = np.zeros(0)
        # Of how many held vectors the products are known, and the part outside them.
        self.known = (0, np.zeros(0))
        self.u = self.v = np.zeros(0)
        self.expected = np.zeros(0)  # what the next vector is a multiple of, by the recurrence
        self.largest = 0.0
        self.due = watch.basis
        self.failure: BaseException | None = None
        self.halted = False

    def run(self, longest: int) -> None:
        """Iterate until PROPACK has converged or given up, or the run has ended."""
        n, p = self.A.shape
        k, rng = self.watch.k, self.run_.rng
        operator = SciPyOperator((n, p), matvec=self.forward, rmatvec=self.adjoint, dtype=np.float64)
        name = "rng" if "rng" in inspect.signature(svds).parameters else "random_state"
        options = {name: rng, "v0": rng.standard_normal(n), "maxiter": max(longest, k), "tol": self.run_.tol}
        with suppress(
            np.linalg.LinAlgError
        ):  # not converged, or no direction left: ARPACK completes the result
            svds(operator, k=k, solver="propack", **options)
        if self.failure is not None:
            raise self.failure
        if not self.watch.ended and self.known[0]:
            self._look()
        if self.watch.converged and self.run_.tol < FAR * self.watch.unit**0.5:
            self.watch.recompute()

    @property
    def over(self) -> bool:
        """Whether there are no further products."""
        return self.watch.ended or self.halted or self.failure is not None

    def forward(self, v: HostArray) -> HostArray:
        """A v."""
        if not self.over and len(self.diagonal) >= self.watch.k and not self.run_.affords(2.0):
            self.halted = True
        if self.over:
            return np.zeros(self.A.shape[0])
        v = np.asarray(v, dtype=np.float64).reshape(-1)
        product = self._checked(lambda: self.A.matmat(self.A.home.blocks.place(v[:, None])))
        if product is None:
            return np.zeros(self.A.shape[0])
        if abs(np.linalg.norm(v) - 1.0) > SLACK:  # it makes a start of it, which enters no basis
            return product
        alpha = float(v @ self.last_product)
        if self._astray(v, alpha):
            return np.zeros(self.A.shape[0])
        self.diagonal.append(alpha)
        self.expected = product - alpha * self.u
        self.last_product, self.v = product, v.copy()  # PROPACK reuses its memory
        if self.watch.of_rows:
            self._learn(self.expected)
        else:
            self.held.append(self.v)
        return product

    def adjoint(self, u: HostArray) -> HostArray:
        """Aᵀ u."""
        if not self.over and not self.run_.affords(1.0):
            self.halted = True
        if self.over:
            return np.zeros(self.A.shape[1])
        u = np.asarray(u, dtype=np.float64).reshape(-1)
        product = self._checked(lambda: self.A.rmatmat(self.A.home.place(u[:, None], self.A.dtype)))
        if product is None:
            return np.zeros(self.A.shape[1])
        if abs(np.linalg.norm(u) - 1.0) > SLACK:
            return product
        if self.diagonal:
            beta = float(u @ self.last_product)
            if self._astray(u, beta):
                return np.zeros(self.A.shape[1])
            self.below.append(beta)
        self.expected = product - self.below[-1] * self.v if self.diagonal else product
        self.last_product, self.u = product, u.copy()
        if self.watch.of_rows:
            self.held.append(self.u)
        elif self.diagonal:
            self._learn(self.expected)
        return product

    def _astray(self, x: HostArray, factor: float) -> bool:
        """Whether the next vector does not follow from the recurrence, so that B is not the matrix of these vectors.

        In an invariant subspace PROPACK goes on with rounding, or with a vector of its own. ARPACK then begins anew.
        """
        self.largest = max(self.largest, abs(factor))
        self.halted |= bool(np.linalg.norm(self.expected - factor * x) > ASTRAY * self.largest)
        return self.halted

    def _checked(self, make: Any) -> HostArray | None:
        """A product, or None if it failed: PROPACK continues after any exception."""
        try:
            with np.errstate(all="ignore"):
                product = to_host(make()).astype(np.float64, copy=False)[:, 0]
                if np.isfinite(product.sum()) or np.isfinite(product).all():
                    product = self.watch.scaled(product, 1)
                else:
                    ones = np.ones((self.A.shape[1], 1))
                    self.moments.gram_matmat(self.moments.home.place(ones))  # raises, and names the entry
        except BaseException as failure:  # noqa: BLE001 (raised again when PROPACK has come back)
            self.failure = failure
            return None
        return product

    def _learn(self, rest: HostArray) -> None:
        """The products of all held vectors are known; `rest` is what the last one has outside them."""
        self.known = len(self.diagonal), rest
        if len(self.held) >= self.due:
            self.due = len(self.held) + max(self.watch.basis - self.watch.k, 1)
            self._look()

    def _look(self) -> None:
        """The Ritz pairs of m held vectors.

        On the side of the rows AAᵀ U = U BBᵀ + rest eₘᵀBᵀ, with B of m rows. On that of the columns
        AᵀA V = V BᵀB + βₘ₊₁ rest eₘᵀ, with B of m + 1 rows.
        """
        (m, rest), k, rows = self.known, self.watch.k, self.watch.of_rows
        B = np.zeros((m + 1, m))
        B[np.arange(m), np.arange(m)] = self.diagonal[:m]
        below = self.below[: m - rows]
        B[np.arange(1, len(below) + 1), np.arange(len(below))] = below
        X, s, Yt = np.linalg.svd(B[:m] if rows else B, full_matrices=False)
        turn = (X if rows else Yt.T)[:, :k]
        share = (s if rows else below[-1]) * Yt[:, -1]
        W = np.stack(self.held[:m]).T @ turn
        found = _Ritz(s**2, W, W * s[:k] ** 2 + rest[:, None] * share[:k], k)
        if len(s) >= k:
            self.watch.judge(found)
        else:  # not for the law, which would take them for all there are
            self.watch.ritz = found
