"""Conjugate gradients with a randomized Nyström preconditioner.

Problem: (AᵀA + rI) x = AᵀB, if few large eigenvalues of AᵀA slow down iterations that use only products.
Method: one sweep multiplies a random block Ω. With Y = AᵀAΩ, the Nyström approximation Y(ΩᵀY)⁺Yᵀ = UΛUᵀ
has accurate leading eigenvectors, and

    P = U (Λ + r)/(λ_l + r) Uᵀ + (I − UUᵀ)

reduces the large eigenvalues to λ_l + r. Conjugate gradients then run on P^(-1/2) (AᵀA + rI) P^(-1/2).
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1, 5.1 and E.2.

Where we differ. A rule of costs determines the rank. The rank is doubled, in one sweep for only the new columns, as
long as the next doubling is expected to save more than it costs. The expectation comes from the effect of the last
doubling on the spectrum. If the iteration handles the large eigenvalues more cheaply by itself, there is no
preconditioner. All right-hand sides run in one block, and all ridges use the same sketch. If columns of dense data
differ much in length and there is a ridge, they are first scaled to equal length (Jacobi); at ridge 0 the scaled
iteration would not lead to the least norm. (Counts of words have one unit, and scaling them was measured to cost up to
twice the iterations.) If the sketch covers the whole range, eigenvalues are reduced to r and not to λ_l + r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import (
    LinearOperator,
    Moments,
    Run,
    Solution,
    Solver,
    cost,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.algebra import EPS, whitening
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import Estimate, Sizes
from linspec_lstsq.normal_equations import Iteration, NormalEquationsState, System, finish
from linspec_lstsq.transformed import Transformed

FIRST_RANK = 50
"""Columns of the first sketch."""

MOST_RANK = 800
"""Columns of a sketch at most, where it is doubled."""

SPREAD = 1e4
"""Columns count as badly scaled from this ratio of squared column norms on, ridge included."""

EXPECTED = 100
"""Iterations of a solve, when "auto" compares it with a factorisation."""

PER_OUTLIER = 2.0
"""Iterations that conjugate gradients with one right-hand side need for an eigenvalue far above the others."""


@dataclass(frozen=True, kw_only=True)
class NystromPCG(Solver):
    """Nyström preconditioned conjugate gradients (Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244)."""

    preparation: ClassVar[float] = 1.0

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    rank: int | None = option(
        None, "columns of the sketch; none: doubled while it pays", kind=int, at_least=1
    )
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        moments = run.moments(self.form)
        sweep = moments.view(0).sweep_cost
        begun = sweep if run.start is not None else 0.0
        run.plan(setup=moments.setup_cost + moments.sweep_cost + begun, iteration=sweep)
        with run.reserving(begun):
            sketch, AtB = self._sketch(moments, run, problem.ridges, problem.width)
        system = replace(System.of(moments, AtB, problem.ridges), norm=sketch.norm)
        x = None if run.start is None else system.wanted(moments.home.place(run.start["x"]))
        return finish(run, moments, system, sketch.begin, x)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate for a sketch and about a hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED, spare=FIRST_RANK)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> NormalEquationsState:
        """Sketch once for many right-hand sides."""
        moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        sketch, _ = self._sketch(moments, run, (ridge,), run.problem.width)
        tol = 1e-8 if self.tol is None else self.tol
        return NormalEquationsState(A, ridge, run, sketch.begin, self.max_iterations, tol)

    def _sketch(
        self, moments: Moments, run: Run, ridges: tuple[float, ...], width: int
    ) -> tuple[Sketch, Array | None]:
        """A sketch of the most profitable width, and AᵀB from the same sweep if there is a B."""
        home, test_matrix, ridge = moments.home, run.part(self.test_matrix), min(ridges)
        n, p, _ = moments.shape

        def draw(columns: int) -> Array:
            return home.place(test_matrix.draw(p, columns, run.rng))

        first = min(self.rank or FIRST_RANK, p)
        Omega = draw(first)
        products = moments.products(Omega, cross=moments.Y is not None)
        Y, AtB = products[0], products.cross
        outlook = Outlook(
            size=min(n, p),
            trace=float(to_host(home.xp.sum(moments.diagonal()[0]))),
            prices=Prices.of(moments, width),
            digits=float(np.log(2 / run.tol)) / 2,
            asked=self.rank is not None,
        )
        sketch = Sketch(Omega, Y, moments.diagonal()[0], home, outlook)
        sweep = moments.view(0).sweep_cost
        dense = moments.X.readable and moments.X.nnz == n * p
        if dense and sketch.unequal(ridge) and run.affords(sweep):
            Omega = draw(first) / sketch.roots(ridge)[:, None]
            sketch = Sketch(Omega, moments.gram_matmat(Omega), sketch.diagonal, home, outlook, scaled=True)
        most = first if self.rank else min(MOST_RANK, p)
        while sketch.columns < most and run.affords(2 * sweep) and sketch.pays(ridge):
            more = draw(min(sketch.columns, most - sketch.columns))
            more = more / sketch.roots(ridge)[:, None] if sketch.scaled else more
            sketch = sketch.widened(more, moments.gram_matmat(more))
        return sketch, AtB


@dataclass(frozen=True)
class Prices:
    """The cost of products, in seconds of a typical core.

    Attributes
    ----------
    entries : float
        The number of entries that a product with one column multiplies.
    rate : float
        Operations per second of such products.
    p, width : int
        Rows and columns of the iterates.
    """

    entries: float
    rate: float
    p: int
    width: int

    @classmethod
    def of(cls, moments: Moments, width: int) -> Prices:
        """The prices of products with the data, or with a Gram matrix that is held."""
        n, p, _ = moments.shape
        if moments.form == "dense":
            return cls(float(p) ** 2 / 2, cost.DENSE_RATE, p, width)
        nnz = moments.X.nnz
        return cls(float(nnz), cost.DENSE_RATE if nnz == n * p else cost.SPARSE_RATE, p, width)

    def product(self, columns: int) -> float:
        """The price of a product with the given number of columns."""
        return self.entries * (cost.READING + 4 * columns) / self.rate

    def iteration(self, rank: int) -> float:
        """The price of an iteration with a preconditioner of the given rank."""
        return self.product(self.width) + 12.0 * self.p * rank * self.width / cost.DENSE_RATE

    def widening(self, rank: int) -> float:
        """Twice the rank."""
        return self.product(rank) + 6.0 * self.p * (2.0 * rank) ** 2 / cost.DENSE_RATE


@dataclass(frozen=True)
class Outlook:
    """The expected number of iterations with and without a preconditioner.

    The estimate is √κ times the wanted digits (half their natural logarithm). κ is the ratio of the largest remaining
    eigenvalue to the mean of those outside the sketch, or to the value after two more doublings like the last one. A
    single remaining eigenvalue costs at most a few iterations, shared among the right-hand sides.
    """

    size: int
    trace: float
    prices: Prices
    digits: float
    asked: bool = False  # a rank given by the user is always used

    def iterations(self, values: HostArray, shift: float) -> float:
        """The iterations after the eigenvalues `values` are reduced to the last of them."""
        rest = max(self.trace - float(values.sum()), 0.0) / max(self.size - len(values), 1)
        rest = min(rest, values[-1] * self._fall(values, 0.0) ** 2)
        last = values[-1] + shift
        return float(self.digits * np.sqrt(last / max(min(rest + shift, last), EPS * last)))

    def pays(self, values: HostArray, shift: float) -> bool:
        """Whether as many further eigenvalues save more than they cost, if they fall like the last half of these."""
        rank, iterations = len(values), self.iterations(values, shift)
        saved = iterations * (1 - np.sqrt(self._fall(values, shift)))
        fewer = iterations - min(saved, PER_OUTLIER * rank / self.prices.width)
        without = iterations * self.prices.iteration(rank)
        return bool(fewer * self.prices.iteration(2 * rank) + self.prices.widening(rank) < without)

    @staticmethod
    def _fall(values: HostArray, shift: float) -> float:
        """The factor by which the last doubling of the columns has reduced the last eigenvalue."""
        middle = values[max(len(values) // 2 - 1, 0)]
        return float((values[-1] + shift) / (middle + shift))

    def useful(self, values: HostArray, shift: float) -> bool:
        """Whether iterations with the preconditioner cost less than without, apart from making it."""
        rank, iterations = len(values), self.iterations(values, shift)
        alone = iterations * np.sqrt((values[0] + shift) / (values[-1] + shift))
        alone = min(alone, iterations + PER_OUTLIER * rank / self.prices.width)
        return self.asked or bool(iterations * self.prices.iteration(rank) < alone * self.prices.iteration(0))


class Sketch:
    """Ω and Y = AᵀAΩ, and the preconditioners that follow from them for any ridge.

    Parameters
    ----------
    Omega, Y : array of shape (p, l)
    diagonal : array of shape (p,)
        The diagonal of AᵀA, or an estimate if it is unknown.
    home : Home
    scaled : bool
        Whether columns are scaled to equal length, ridge included.
    """

    def __init__(
        self,
        Omega: Array,
        Y: Array,
        diagonal: Array,
        home: Home,
        outlook: Outlook,
        *,
        scaled: bool = False,
    ) -> None:
        self.Omega, self.Y, self.diagonal, self.home, self.scaled = Omega, Y, diagonal, home, scaled
        self.outlook = replace(outlook, trace=float(diagonal.shape[0])) if scaled else outlook
        self._found: dict[float, Nystrom] = {}

    @property
    def columns(self) -> int:
        """Columns of Ω."""
        return int(self.Omega.shape[1])

    @property
    def norm(self) -> float:
        """A lower bound of the norm of AᵀA."""
        values = [] if self.scaled else self.nystrom(0.0).values[:1].tolist()
        return max(values, default=float(to_host(self.home.xp.max(self.diagonal))))

    def widened(self, Omega: Array, Y: Array) -> Sketch:
        """With more columns."""
        both = self.home.concat([self.Omega, Omega]), self.home.concat([self.Y, Y])
        return Sketch(*both, self.diagonal, self.home, self.outlook, scaled=self.scaled)

    def unequal(self, ridge: float) -> bool:
        """Whether columns differ so much in length that they should be scaled; never at ridge 0."""
        d = to_host(self.diagonal) + ridge
        return ridge > 0 and bool(d.max() > SPREAD * d.min())

    def roots(self, ridge: float) -> Array:
        """√(diag AᵀA + r), with 1 instead of 0."""
        xp = self.home.xp
        d = xp.sqrt(self.diagonal + ridge)
        return xp.where(d > 0, d, xp.ones_like(d))

    def nystrom(self, ridge: float) -> Nystrom:
        """The approximation, of AᵀA or of the scaled AᵀA + rI."""
        key = ridge if self.scaled else 0.0
        if key not in self._found:
            Omega, Y = self.Omega, self.Y
            if self.scaled:
                roots = self.roots(ridge)[:, None]
                Omega, Y = Omega * roots, (Y + Omega * ridge) / roots
            self._found[key] = Nystrom.of(Omega, Y, self.home)
        return self._found[key]

    def shift(self, ridge: float) -> float:
        """The term to add to the eigenvalues; those of the scaled matrix include the ridge already."""
        return 0.0 if self.scaled else ridge

    def pays(self, ridge: float) -> bool:
        """Whether twice as many columns would save more than they cost."""
        found = self.nystrom(ridge)
        full = not found.complete and len(found.values) > 1
        return full and self.outlook.pays(found.values, self.shift(ridge))

    def begin(self, system: System) -> Sequence[Iteration]:
        """An iteration for each ridge, all with this sketch."""
        return [Transformed(one, Preconditioner.of(self, one.ridges[0])) for one in system.separately()]


@dataclass(frozen=True)
class Nystrom:
    """UΛUᵀ; `complete` if the sketch covers the whole numerical range."""

    U: Array
    values: HostArray
    complete: bool

    @classmethod
    def of(cls, Omega: Array, Y: Array, home: Home) -> Nystrom:
        """Y (ΩᵀY)⁺ Yᵀ by its eigenvectors, over the directions above rounding."""
        T = whitening(to_host(Omega.T @ Y), cut=10 * EPS)
        F = Y @ home.place(T)
        U, values = _eigenvectors(F, home)
        # The condition number of FᵀF limits orthonormality: eigenvectors of small eigenvalues have parts of others.
        L = np.linalg.cholesky(to_host(U.T @ U))
        upright = np.linalg.inv(L).T
        return cls(U @ home.place(upright), values, len(values) < Omega.shape[1])


def _eigenvectors(F: Array, home: Home) -> tuple[Array, HostArray]:
    """Eigenvectors and eigenvalues of FFᵀ, decreasing, down to rounding."""
    values, vectors = np.linalg.eigh(to_host(F.T @ F))
    keep = values > 10 * len(values) * EPS * max(values[-1], 0.0) if len(values) else np.zeros(0, dtype=bool)
    values, vectors = values[keep][::-1], vectors[:, keep][:, ::-1]
    return F @ home.place(vectors / np.sqrt(values)), values


@dataclass(frozen=True)
class Preconditioner:
    """H = D^(-1/2) P^(-1/2): the iteration multiplies by HᵀMH."""

    U: Array
    shrink: Array
    roots: Array | None

    @classmethod
    def of(cls, sketch: Sketch, ridge: float) -> Preconditioner:
        """The preconditioner for one ridge; without U if the iteration is cheaper without it."""
        found, shift, home = sketch.nystrom(ridge), sketch.shift(ridge), sketch.home
        values = found.values
        useful = len(values) > 0 and sketch.outlook.useful(values, shift)
        count = len(values) if useful else 0
        floor = 0.0 if found.complete and shift > 0 else values[-1] if useful else 0.0
        shrink = np.sqrt((floor + shift) / (values[:count] + shift))
        roots = sketch.roots(ridge)[:, None] if sketch.scaled else None
        return cls(found.U[:, :count], home.place(shrink)[:, None], roots)

    def forward(self, V: Array) -> Array:
        """H V."""
        V = self._stretched(V, self.shrink)
        return V if self.roots is None else V / self.roots

    def back(self, MV: Array) -> Array:
        """Hᵀ times a product."""
        return self._stretched(MV if self.roots is None else MV / self.roots, self.shrink)

    def answer(self, Y: Array) -> Array:
        """H Y."""
        return self.forward(Y)

    @property
    def growth(self) -> float:
        """‖P^(1/2)‖, with which H⁻ᵀ multiplies what Hᵀ has rounded."""
        return 1 / float(to_host(self.shrink).min(initial=1.0))

    def gradient(self, G: Array) -> Array:
        """H⁻ᵀ G."""
        G = self._stretched(G, 1 / self.shrink)
        return G if self.roots is None else G * self.roots

    def _stretched(self, V: Array, factors: Array) -> Array:
        """V with its parts along U scaled."""
        return V if self.U.shape[1] == 0 else V + self.U @ ((factors - 1) * (self.U.T @ V))
