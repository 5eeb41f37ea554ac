"""Conjugate gradients with a randomized Nyström preconditioner.

Problem: (AᵀA + rI) x = AᵀB, if few large eigenvalues of AᵀA slow down iterations that use only products.
Method: one pass multiplies a random block Ω; what follows from it reduces the large eigenvalues:

    Y = AᵀAΩ                                                                 (1)
    P from Y (ΩᵀY)⁺ Yᵀ, an approximation of AᵀA                              (2)
    P^(-1/2) (AᵀA + rI) P^(-1/2) y = P^(-1/2) AᵀB,  x = P^(-1/2) y           (3)

where (3) is solved by conjugate gradients.
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1, 5.1 and E.2.
Where we differ. A rule of costs determines the rank (`Outlook`). The rank is doubled, in one pass for only the
new columns, as long as the next doubling is expected to save more than it costs. If the iteration handles the large
eigenvalues more cheaply by itself, there is no preconditioner. All right-hand sides run in one block, and all ridges
use the same sketch.

Costs and savings of a randomized preconditioner of conjugate gradients.

Problem: a sketch with more columns removes more large eigenvalues, and so saves iterations; but it takes time to make
and to apply.
Method: operations are priced at the rates of `linspec.cost`, and iterations are estimated from the eigenvalues that
the sketch has found, and from how fast they fall.

The randomized Nyström approximation of AᵀA, and the preconditioner that follows from it.

Problem: leading eigenvectors of AᵀA from one product with a random block, for preconditioners of all ridges.
Method: with Y = AᵀAΩ,

    Y (ΩᵀY)⁺ Yᵀ = U Λ Uᵀ                                  (1)
    P = U (Λ + r)/(λ_l + r) Uᵀ + (I - UUᵀ)                (2)

Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1 and 5.1.
Where we differ: UΛUᵀ comes from eigenvectors of FᵀF, F = Y (ΩᵀY)^(-1/2), over the directions above rounding, and not
from a shifted Cholesky factor. If the sketch covers the whole range and there is a ridge, eigenvalues are reduced to r
and not to λ_l + r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import cost, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import Estimate, Sizes
from linspec.iteration import Context, Iterate, solved_by_ridge
from linspec.linalg import EPS, Step, Steps, cg_steps, driven, in_variables, whitening
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_lstsq.normal_system import rounding_of

PER_OUTLIER = 2.0
"""Iterations that each eigenvalue far above the others costs conjugate gradients with one right-hand side."""


@dataclass(frozen=True)
class Outlook:
    """The expected number of iterations with and without a preconditioner, and their prices on a typical core.

    The estimate is √κ ln(2/tol)/2. κ is the ratio of the largest eigenvalue that the preconditioner
    leaves to a typical small one. The typical small eigenvalue is the lesser of two numbers. The first is the mean of
    the eigenvalues outside the sketch. The second is λ q²: λ is the smallest eigenvalue in the sketch, and q is the
    ratio of λ to the eigenvalue in the middle of the sketch, by which another doubling is expected to reduce λ.
    A single large eigenvalue costs at most a few iterations, shared among the right-hand sides.

    Attributes
    ----------
    moments, i
        Of the matrix A.
    width : int
        Columns of the iterates.
    tol : float
    """

    moments: Moments
    i: int
    width: int
    tol: float

    def product(self, columns: int) -> float:
        """The seconds of a product with AᵀA, or with the matrix that is held."""
        A = self.moments.operators[self.i]
        if self.moments.holds:
            return float(A.shape[1] ** 2 / 2 * (cost.READING + 4 * columns) / cost.DENSE_RATE)
        return A.product_seconds(columns)

    def iteration(self, rank: int) -> float:
        """The seconds of an iteration with a preconditioner of the given rank."""
        p = self.moments.widths[self.i]
        return self.product(self.width) + 12.0 * p * rank * self.width / cost.DENSE_RATE

    def iterations(self, values: HostArray, ridge: float) -> float:
        """Expected number of iterations, if the preconditioner reduces the eigenvalues `values` to the last of them."""
        trace = self.moments.fitted[self.i].squares.sum()
        size = min(self.moments.operators[self.i].shape)
        rest = max(float(trace - values.sum()), 0.0) / max(size - len(values), 1)
        rest = min(rest, values[-1] * _fall(values, 0.0) ** 2)
        last = values[-1] + ridge
        kappa = last / max(min(rest + ridge, last), EPS * last)
        return float(np.sqrt(kappa) * np.log(2 / self.tol) / 2)

    def pays(self, values: HostArray, ridge: float) -> bool:
        """Whether doubling the rank saves more than it costs, if eigenvalues fall as in the last half of `values`."""
        rank, iterations = len(values), self.iterations(values, ridge)
        saved = iterations * (1 - np.sqrt(_fall(values, ridge)))
        fewer = iterations - min(saved, PER_OUTLIER * rank / self.width)
        widening = 6.0 * self.moments.widths[self.i] * (2.0 * rank) ** 2 / cost.DENSE_RATE
        spent = fewer * self.iteration(2 * rank) + self.product(rank) + widening
        return bool(spent < iterations * self.iteration(rank))

    def useful(self, values: HostArray, ridge: float) -> bool:
        """Whether iterations with the preconditioner cost less than those without it; its own cost is not counted."""
        rank, iterations = len(values), self.iterations(values, ridge)
        alone = iterations * np.sqrt((values[0] + ridge) / (values[-1] + ridge))
        alone = min(alone, iterations + PER_OUTLIER * rank / self.width)
        return bool(iterations * self.iteration(rank) < alone * self.iteration(0))


def _fall(values: HostArray, ridge: float) -> float:
    """The factor by which the last doubling of the columns has reduced the last eigenvalue."""
    middle = values[max(len(values) // 2 - 1, 0)]
    return float((values[-1] + ridge) / (middle + ridge))


@dataclass(frozen=True)
class Nystrom:
    """The approximation UΛUᵀ; `complete` if the sketch covers the whole numerical range."""

    U: Array
    values: HostArray
    complete: bool

    @classmethod
    def of(cls, Omega: Array, Y: Array) -> Nystrom:
        """Compute (1) over the directions above rounding."""
        place = Home.of(Y).place
        F = Y @ place(whitening(to_host(Omega.T @ Y), cut=10 * EPS))
        values, vectors = np.linalg.eigh(to_host(F.T @ F))
        live = values > 10 * len(values) * EPS * np.max(values, initial=0.0)
        values, vectors = values[live][::-1], vectors[:, live][:, ::-1]
        U = F @ place(vectors / np.sqrt(values))
        # The condition number of FᵀF limits orthonormality: eigenvectors of small eigenvalues have parts of others.
        L = np.linalg.cholesky(to_host(U.T @ U))
        return cls(U @ place(np.linalg.inv(L).T), values, len(values) < Omega.shape[1])

    def exact(self, ridge: float) -> bool:
        """Whether the preconditioner is the inverse."""
        return self.complete and ridge > 0


@dataclass(frozen=True)
class NystromPreconditioner:
    """x = H y, H = P^(-1/2): the iteration multiplies by HᵀMH, where M = AᵀA + rI.

    Attributes
    ----------
    U : array of shape (p, l)
        Eigenvectors in P.
    shrink : array of shape (l, 1)
        The factors by which P^(-1/2) multiplies components along U.
    ridge : float
    """

    U: Array
    shrink: Array
    ridge: float

    @classmethod
    def of(cls, N: Nystrom, ridge: float) -> NystromPreconditioner:
        """The preconditioner for one ridge."""
        floor = 0.0 if N.exact(ridge) else N.values[-1]
        shrink = np.sqrt((floor + ridge) / (N.values + ridge))  # (2)
        return cls(N.U, Home.of(N.U).place(shrink)[:, None], ridge)

    def forward(self, P: Array) -> Array:
        """H P."""
        return self._stretched(P, self.shrink)

    def back(self, V: Array, SV: Array) -> Array:
        """Hᵀ M V, and H is symmetric."""
        return self.forward(SV + self.ridge * V)

    def answer(self, Y: Array) -> Array:
        """H Y."""
        return self.forward(Y)

    def lengths(self, step: Step) -> HostArray:
        """The lengths of H⁻¹ R."""
        R = self._stretched(step.residual(), 1 / self.shrink)
        return Home.of(R).column_norms(R)

    def _stretched(self, V: Array, factors: Array) -> Array:
        """V with its component along each column of U multiplied by the entry of `factors` for this column."""
        return V + self.U @ ((factors - 1) * (self.U.T @ V))


FIRST_RANK = 50
"""Columns of the first sketch."""

MOST_RANK = 800
"""Most columns to which a sketch grows by doubling."""

EXPECTED = 100
"""Expected number of iterations, with which "auto" compares a solve with a factorisation."""


WIDTH = 10
"""Right-hand sides that are expected of a solver that has this one as a part."""


@dataclass(frozen=True, kw_only=True)
class NystromPCG(Solver):
    """Nyström preconditioned conjugate gradients (Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    rank: int | None = option(
        None, "columns of the sketch; none: doubled while it pays", kind=int, at_least=1
    )
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the iterates of all ridges."""
        place, m = moments.operators[0].backend.blocks, problem.B.shape[1]
        moments.expect(EXPECTED, problem.width, self.form)
        Omega = self._drawn(moments, 0, context)
        (Y, _), (AtB, _) = moments.products(Omega, place.eye(m))  # (1)
        outlook = Outlook(moments, 0, problem.width, context.tol)
        begin = self._preconditioned(outlook, Omega, Y, min(problem.ridges), context)
        x = None if start is None else place.place(start["x"])
        rounding = rounding_of(moments, AtB, problem.width)
        yield from solved_by_ridge(moments.gram_product, AtB, problem.ridges, context, begin, x, **rounding)

    def _drawn(self, moments: Moments, i: int, context: Context, columns: int | None = None) -> Array:
        """Random columns; by default those of the first sketch."""
        p = moments.widths[i]
        place = moments.operators[i].backend.blocks.place
        return place(self.test_matrix.draw(p, min(columns or self.rank or FIRST_RANK, p), context.rng))

    def _preconditioned(
        self, outlook: Outlook, Omega: Array, Y: Array, ridge: float, context: Context
    ) -> Callable[[float, Array], Steps]:
        """What begins the iteration for one ridge and a right-hand side.

        The columns of the sketch are doubled while that is expected to save more than it costs.
        """
        N = Nystrom.of(Omega, Y)
        concat = outlook.moments.operators[outlook.i].backend.blocks.concat
        p, columns = Omega.shape
        most = columns if self.rank else min(MOST_RANK, p)
        while (
            columns < most and context.passes.affords(2) and not N.complete and outlook.pays(N.values, ridge)
        ):
            more = self._drawn(outlook.moments, outlook.i, context, min(columns, most - columns))
            Omega = concat([Omega, more])
            Y = concat([Y, outlook.moments.gram_product(more, outlook.i)])
            N, columns = Nystrom.of(Omega, Y), Omega.shape[1]

        def begin(r: float, G: Array) -> Steps:
            """Conjugate gradients for (AᵀA + rI) x = G, in the variables of the preconditioner if it is useful."""
            asked = self.rank is not None or N.exact(r)
            if not len(N.values) or not (asked or outlook.useful(N.values, r)):
                return cg_steps(G, (r,))
            H = NystromPreconditioner.of(N, r)  # (2)
            return in_variables(cg_steps(H.forward(G)), H)  # (3)

        return begin

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a sketch and about a hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED, spare=FIRST_RANK)

    def begins(
        self, moments: Moments, i: int, ridge: float, context: Context
    ) -> Callable[[Array], Iterator[Step]]:
        """Sketch Xᵢ once; return what solves (XᵢᵀXᵢ + rI) x = G for blocks G, from zero."""
        product = partial(moments.gram_product, i=i)
        Omega = self._drawn(moments, i, context)
        outlook = Outlook(moments, i, WIDTH, context.tol)
        begin = self._preconditioned(outlook, Omega, product(Omega), ridge, context)
        return lambda G: driven(product, begin(ridge, G))
