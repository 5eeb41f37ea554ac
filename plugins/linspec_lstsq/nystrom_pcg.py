"""Conjugate gradients with a randomized Nyström preconditioner.

Problem: (AᵀA + rI) x = AᵀB, if few large eigenvalues of AᵀA slow down iterations that use only products.
Method: one pass multiplies a random block Ω; what follows from it reduces the large eigenvalues:

    Y = AᵀAΩ,    Y (ΩᵀY)⁺ Yᵀ = U Λ Uᵀ, an approximation of AᵀA               (1)
    P = U (Λ + r)/(λ_l + r) Uᵀ + (I - UUᵀ)                                   (2)
    P^(-1/2) (AᵀA + rI) P^(-1/2) y = P^(-1/2) AᵀB,  x = P^(-1/2) y           (3)

where (3) is solved by conjugate gradients, preconditioned by P: they are the same, without y.
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1, 5.1 and E.2.
Where we differ. A rule of costs determines the rank: products are priced, and iterations are estimated from the
eigenvalues that the sketch has found, and from how fast they fall. The rank is doubled, in one pass for only the
new columns, as long as the next doubling is expected to save more than it costs. If the iteration handles the large
eigenvalues more cheaply by itself, there is no preconditioner. All right-hand sides run in one block, and all ridges
use the same sketch. UΛUᵀ comes from eigenvectors of FᵀF, F = Y (ΩᵀY)^(-1/2), over the directions above rounding, and
not from a shifted Cholesky factor. If the sketch covers the whole range and there is a ridge, eigenvalues are reduced
to r and not to λ_l + r. If columns of dense data differ much in length and there is a ridge, they are first scaled to
equal length (Jacobi), with D the diagonal of AᵀA + rI: then (1) is of D^(-1/2) (AᵀA + rI) D^(-1/2); at ridge 0 the
scaled iteration would not lead to the least norm. (Counts of words have one unit, and scaling them was measured to cost
up to twice the iterations.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import cost, form_option, option, part
from linspec.arrays import Array, Device, HostArray, to_host
from linspec.cost import Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, Steps, cg_steps, whitening
from linspec.rows import Moments
from linspec_lstsq.normal_system import Begin, ByProducts

SPREAD = 1e4
"""Columns count as badly scaled above this ratio of the largest to the smallest squared norm, ridge included: to scale
them takes a pass."""

FIRST_RANK = 50
"""Columns of the first sketch."""

MOST_RANK = 800
"""Most columns to which a sketch grows by doubling."""

EXPECTED = 100
"""Expected number of iterations, with which "auto" compares a solve with a factorisation."""


WIDTH = 10
"""Right-hand sides that are expected of a solver that has this one as a part."""


@dataclass(frozen=True, kw_only=True)
class NystromPCG(ByProducts):
    """Nyström preconditioned conjugate gradients (Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244)."""

    rank: int | None = option(
        None, "columns of the sketch; none: doubled while it pays", kind=int, at_least=1
    )
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = form_option()

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the iterates of all ridges."""
        A = moments.operators[0]
        device = A.device.blocks
        moments.expect(EXPECTED, problem.width, self.form)
        Omega = self._drawn(A, context)
        (Y, _), (AtB, _) = moments.products(Omega, device.eye(problem.B.shape[1]))
        sketch = self._sketched(moments, 0, min(problem.ridges), problem.width, context, Omega, Y)
        yield from self.solved(problem, moments, context, start, AtB, partial(preconditioned, sketch))

    def _drawn(self, A: Any, context: Context, columns: int | None = None) -> Array:
        """Random columns; by default those of the first sketch."""
        p = A.shape[1]
        drawn = self.test_matrix.draw(p, min(columns or self.rank or FIRST_RANK, p), context.rng)
        return A.device.blocks.asarray(drawn)

    def _sketched(
        self,
        moments: Moments,
        i: int,
        ridge: float,
        width: int,
        context: Context,
        Omega: Array,
        Y: Array,
    ) -> NystromSketch:
        """The sketch of Xᵢ, with its columns doubled while that is expected to save more than it costs."""
        A = moments.operators[i]
        squares = moments.fitted[i].squares
        product = partial(moments.gram_product, i=i)
        digits = float(np.log(2 / context.tol)) / 2
        outlook = Outlook(partial(price, moments, i), A.shape, width, float(squares.sum()), digits, self.rank)
        sketch = NystromSketch(Omega, Y, squares, outlook)
        allows = context.passes.allows
        d = squares + ridge
        uneven = ridge > 0 and d.max() > SPREAD * d.min()
        if uneven and A.readable and moments.subtracts[i] and allows(2):
            Omega = Omega / sketch.roots(ridge)  # the same random numbers
            outlook = replace(outlook, trace=float(len(squares)))  # the diagonal is 1
            sketch = NystromSketch(Omega, product(Omega), squares, outlook, scaled=True)
        columns = Omega.shape[1]
        most = columns if self.rank else min(MOST_RANK, A.shape[1])
        while columns < most and allows(2) and sketch.pays(ridge):
            more = self._drawn(A, context, min(columns, most - columns))
            more, concat = more / sketch.roots(ridge) if sketch.scaled else more, Device.of(more).concat
            Omega = concat([sketch.Omega, more])
            Y = concat([sketch.Y, product(more)])
            sketch, columns = replace(sketch, Omega=Omega, Y=Y, known={}), Omega.shape[1]
        return sketch

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of a sketch and about a hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED, spare=FIRST_RANK)

    def prepared(self, moments: Moments, i: int, ridge: float, context: Context) -> Begin:
        """Sketch Xᵢ."""
        Omega = self._drawn(moments.operators[i], context)
        Y = moments.gram_product(Omega, i=i)
        return partial(preconditioned, self._sketched(moments, i, ridge, WIDTH, context, Omega, Y))


def preconditioned(sketch: NystromSketch, ridge: float, G: Array) -> Steps:
    """Conjugate gradients for (AᵀA + rI) x = G with the preconditioner (2)."""
    return cg_steps(G, (ridge,), preconditioner=inverse_of(sketch, ridge))  # (3)


def price(moments: Moments, i: int, columns: int) -> float:
    """The time of a product with AᵀA, or with the matrix that is held."""
    A = moments.operators[i]
    if moments.holds:
        return float(A.shape[1] ** 2 / 2 * (cost.READING + 4 * columns) / cost.DENSE_RATE)
    return A.product_seconds(columns)


@dataclass(frozen=True, eq=False)
class NystromSketch:
    """Ω and Y = AᵀAΩ, and the approximations that follow from them.

    Attributes
    ----------
    Omega, Y : array of shape (p, l)
    squares : numpy.ndarray of shape (p,)
        The diagonal of AᵀA, or an estimate.
    outlook : Outlook
    scaled : bool
        Whether columns are scaled to equal length, ridge included.
    """

    Omega: Array
    Y: Array
    squares: HostArray
    outlook: Outlook
    scaled: bool = False
    known: dict[float, Nystrom] = field(default_factory=dict, repr=False)

    def roots(self, ridge: float) -> Array:
        """D^(1/2) as a column, with 1 instead of 0."""
        d = np.sqrt(self.squares + ridge)
        return Device.of(self.Omega).asarray(np.where(d > 0, d, 1.0))[:, None]

    def nystrom(self, ridge: float) -> Nystrom:
        """The approximation of AᵀA, or of AᵀA + rI with scaled columns."""
        key = ridge if self.scaled else 0.0
        if key not in self.known:
            Omega, Y = self.Omega, self.Y
            if self.scaled:
                roots = self.roots(ridge)
                Omega, Y = Omega * roots, (Y + Omega * ridge) / roots
            self.known[key] = Nystrom.of(Omega, Y)
        return self.known[key]

    def pays(self, ridge: float) -> bool:
        """Whether twice as many columns would save more than they cost."""
        N = self.nystrom(ridge)
        full = not N.complete and len(N.values) > 1
        return full and self.outlook.pays(N.values, 0.0 if self.scaled else ridge)


@dataclass(frozen=True)
class Nystrom:
    """The approximation UΛUᵀ; `complete` if the sketch covers the whole numerical range."""

    U: Array
    values: HostArray
    complete: bool

    @classmethod
    def of(cls, Omega: Array, Y: Array) -> Nystrom:
        """Compute (1) over the directions above rounding."""
        asarray = Device.of(Y).asarray
        F = Y @ asarray(whitening(to_host(Omega.T @ Y), cut=10 * EPS))
        values, vectors = np.linalg.eigh(to_host(F.T @ F))
        live = values > 10 * len(values) * EPS * np.max(values, initial=0.0)
        values = values[live][::-1]
        vectors = vectors[:, live][:, ::-1]
        U = F @ asarray(vectors / np.sqrt(values))
        # The condition number of FᵀF limits orthonormality: eigenvectors of small eigenvalues have parts of others.
        L = np.linalg.cholesky(to_host(U.T @ U))
        return cls(U @ asarray(np.linalg.inv(L).T), values, len(values) < Omega.shape[1])


def inverse_of(sketch: NystromSketch, ridge: float) -> Callable[[Array], Array]:
    """V -> W V for W = D^(-1/2) P^(-1) D^(-1/2), without U if the iteration is cheaper without it."""
    N, r = sketch.nystrom(ridge), 0.0 if sketch.scaled else ridge  # scaled eigenvalues include it
    exact = N.complete and r > EPS * N.values.sum()  # below, rounding hides the ridge
    useful = len(N.values) > 0 and (exact or sketch.outlook.useful(N.values, r))
    floor, roots = (
        N.values[-1] if useful and not exact else 0.0,
        sketch.roots(ridge) if sketch.scaled else 1.0,
    )
    less = Device.of(N.U).asarray(np.sqrt((floor + r) / (N.values + r)) - 1)[:, None]  # of P^(-1/2) in (2)

    def applied(V: Array) -> Array:
        V = V / roots
        for _ in range(2 * useful):  # P^(-1) may be below rounding along U, its root is not
            V = V + N.U @ (less * (N.U.T @ V))
        return V / roots

    return applied


PER_OUTLIER = 2.0
"""Iterations that each eigenvalue far above the others costs conjugate gradients with one right-hand side."""


@dataclass(frozen=True)
class Outlook:
    """The expected number and price of iterations with and without a preconditioner, in seconds of a typical core.

    The estimate is √κ times `digits` = ln(2/tol)/2. κ is the ratio of the largest eigenvalue that the preconditioner
    leaves to a typical small one. The typical small eigenvalue is the lesser of two numbers. The first is the mean of
    the eigenvalues outside the sketch. The second is λ q²: λ is the smallest eigenvalue in the sketch, and q is the
    ratio of λ to the eigenvalue in the middle of the sketch, by which another doubling is expected to reduce λ.
    A single large eigenvalue costs at most a few iterations, shared among the right-hand sides.

    Attributes
    ----------
    product : callable
        Takes a number of columns; returns the price of a product with AᵀA.
    shape : pair of int
    width : int
        Columns of the iterates.
    trace, digits : float
    rank : int or None
        A rank given by the user, which is always used.
    """

    product: Callable[[int], float]
    shape: tuple[float, int]
    width: int
    trace: float
    digits: float
    rank: int | None

    def iteration(self, rank: int) -> float:
        """The price of an iteration with a preconditioner of the given rank."""
        return self.product(self.width) + 12.0 * self.shape[1] * rank * self.width / cost.DENSE_RATE

    def iterations(self, values: HostArray, shift: float) -> float:
        """Expected number of iterations, if the preconditioner reduces the eigenvalues `values` to the last of them."""
        outside = max(min(self.shape) - len(values), 1)
        rest = max(self.trace - float(values.sum()), 0.0) / outside
        rest = min(rest, values[-1] * _fall(values) ** 2)
        last = values[-1] + shift
        return float(self.digits * np.sqrt(last / max(min(rest + shift, last), EPS * last)))

    def pays(self, values: HostArray, shift: float) -> bool:
        """Whether doubling the rank saves more than it costs, if eigenvalues fall as in the last half of `values`."""
        rank = len(values)
        iterations = self.iterations(values, shift)
        saved = iterations * (1 - np.sqrt(_fall(values + shift)))
        fewer = iterations - min(saved, PER_OUTLIER * rank / self.width)
        widening = self.product(rank) + 6.0 * self.shape[1] * (2.0 * rank) ** 2 / cost.DENSE_RATE
        return bool(fewer * self.iteration(2 * rank) + widening < iterations * self.iteration(rank))

    def useful(self, values: HostArray, shift: float) -> bool:
        """Whether iterations with the preconditioner cost less than those without it; its own cost is not counted."""
        rank, iterations = len(values), self.iterations(values, shift)
        alone = iterations * np.sqrt((values[0] + shift) / (values[-1] + shift))
        alone = min(alone, iterations + PER_OUTLIER * rank / self.width)
        return bool(self.rank or iterations * self.iteration(rank) < alone * self.iteration(0))


def _fall(values: HostArray) -> float:
    """The factor by which the last doubling of the columns has reduced the last eigenvalue."""
    return float(values[-1] / values[max(len(values) // 2 - 1, 0)])
