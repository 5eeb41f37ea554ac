"""AppGrad for kernels: gradient descent on the functions of both views.

Problem: the leading pairs of Ky b = ρ (Kx + rx) a, Kx a = ρ (Ky + ry) b, with products alone and k columns a view.
Method: Ma, Lu & Foster (2015), section 2.4: their Algorithm 4 with kernels. In addition to normalised coefficients A, B
there are unnormalised ones Ã, B̃, on which gradient descent runs:

    Ã ← Ã − η [(Kx + rx) Ã − Ky B],   A = Ã (Ãᵀ Kx (Kx + rx) Ã)^(-1/2),

and the same for B̃. Beside Ã its product Kx Ã is kept. The targets, the normalisation and the residual come from these,
so an iteration takes one product with each matrix.
Source: Ma, Lu & Foster 2015, ICML, PMLR 37; Lu 2015, section 4.2.4.
Where we differ: (a) The source replaces X by Kx in the linear algorithm, without a ridge: its gradient Kx [Kx Ã − Ky B]
is that by the coefficients. The bracket alone is the gradient by the function, with which the iterates are those of
linear AppGrad on the features of the kernel. Its condition is that of Kx + rx in place of the square, and it takes one
product in place of two, so it is the default; ``gradient="coefficients"`` is the one that is printed. With a ridge the
constraint is Aᵀ Kx (Kx + rx) A = I. (b) ``update="alternating"`` takes the new A for B̃, at no further product;
"simultaneous" takes the old one, as printed. (c) The step is 1.7/(λ + r) for each view. A block of Kx gives a first
estimate of its largest eigenvalue λ, and quotients of Ã, which are lower bounds, raise it. A step that is given is used
while it is below 2/(λ + r), the limit of stability. (d) The fixed point is determined up to a rotation of both
blocks, so they are turned to canonical pairs. (e) The blocks have some columns more than pairs are wanted, which cost
next to nothing. Without them the iteration may rest for long at a set of pairs that are not the first.
The residual reported during the run is the law by t = RᵀR for the residuals R, and the share of it that the law was an
iteration before: the residuals of the last iterate go along in the product, at no pass. For kernels whose eigenvalues
fall fast, t alone is larger than the law by orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from linspec import KernelOperator, Run, Solution, Solver, limit_option, option, tol_option
from linspec.algebra import eigenpairs, ratio, whitening
from linspec.arrays import Array, HostArray
from linspec_kernel.certificate import CUT, LEAST_SHARE, Carried, least_value
from linspec_kernel.moments import rounded_up
from linspec_kernel.nystrom import doubly_centred, norms_alone, on_host

STEP, LIMIT = 1.7, 2.0
"""The default step in units of 1/(λ + r), and the one at which gradient descent on a quadratic is stable no more."""

PROBED = 512
"""Rows of the block from which the largest eigenvalue is first estimated."""

EXTRA = 10
"""Columns of the blocks beyond k."""


@dataclass(frozen=True, kw_only=True)
class KernelAppGrad(Solver):
    """Augmented approximate gradient on dual coefficients (Ma, Lu & Foster 2015, section 2.4)."""

    step: float | None = option(
        None, "step of both views; none: 1.7 over the largest eigenvalue, one for each view", above=0
    )
    gradient: str = option(
        "function",
        "by the function, or by its coefficients as printed",
        choices=("function", "coefficients"),
    )
    update: str = option(
        "alternating",
        "whether the second view takes the new first one",
        choices=("alternating", "simultaneous"),
    )
    extra: int = option(EXTRA, "columns of the blocks beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)
    storage: str = option(
        "auto", "hold the kernel matrices, or form them tile by tile", choices=("auto", "held", "tiled")
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a kernel CCA problem."""
        moments: Any = run.moments(self.storage)
        n = moments.x.shape[0]
        width = min(problem.k + self.extra, n)
        # The rows, a block of the matrix, and the products of the start.
        run.plan(
            setup=rounded_up(2.0 + (min(PROBED, n) / n) ** 2),
            iteration=1.0 if self.gradient == "function" else 2.0,
        )
        kernels = moments.settle(run.rng)
        views = [View(op, r, self, width, run) for op, r in zip(moments.views, problem.ridge, strict=True)]
        x, y = views
        share = 1.0
        while True:
            t, rho, (a, b), gaps, carried = pairs(x, y, problem.k)
            current = cache(partial(_weights, a, b, kernels, partial(carried, share)))
            residual = ratio(share * t, float(rho.sum()))
            if not (run.proceed(residual=residual, current=current) or run.falls_short(**current())):
                return run.finish(**current())
            of_x = x.values if self.update == "simultaneous" else None
            squares = x.move(y.values, gaps[0])
            squares += y.move(x.values if of_x is None else of_x, gaps[1])
            # The residuals of the last iterate went along, and tell by how much their t is too large.
            share = max(squares / t, LEAST_SHARE) if t > 0 else share


class View:
    """The coefficients of one view, with their products.

    Parameters
    ----------
    op : KernelOperator
    ridge : float
    solver : KernelAppGrad
    width : int
        Columns.
    run : Run

    Attributes
    ----------
    tilde, tilde_values : arrays of shape (n, width)
        Ã and K Ã.
    block, values : arrays of shape (n, width)
        A and K A, orthonormal in the metric K(K + r) but for columns of zeros.
    largest : float
        An estimate of the largest eigenvalue of K.
    """

    def __init__(self, op: KernelOperator, ridge: float, solver: KernelAppGrad, width: int, run: Run) -> None:
        self.op, self.ridge, self.solver = op, ridge, solver
        self.largest, self.least = _of_a_block(op, run.rng), least_value(op)
        start = op.home.place(run.rng.standard_normal((op.shape[0], width)))
        if op.center:
            start = start - op.home.xp.mean(start, axis=0)[None, :]
        self.block, self.values = self._normalized(start, op.product(start)[0], on_host(start.T @ start))
        self.tilde, self.tilde_values = 0.0 * self.block, 0.0 * self.values

    def move(self, target: Array, beside: Array) -> float:
        """A gradient step towards the values of the other view's functions; the law's part of residuals beside it."""
        home, width = self.op.home, int(self.tilde.shape[1])
        gradient = self.tilde_values + self.ridge * self.tilde - target
        if self.solver.gradient == "coefficients":
            gradient = self.op.product(gradient)[0]
        self.tilde = self.tilde - self.step * gradient
        both = self.op.product(home.concat([self.tilde, beside]))[0]
        self.tilde_values = both[:, :width]
        inner = on_host(self.tilde.T @ self.tilde)
        self._learn(inner)
        self.block, self.values = self._normalized(self.tilde, self.tilde_values, inner)
        return float(norms_alone(beside, both[:, width:], self.ridge, home).sum())

    @property
    def step(self) -> float:
        """η."""
        bound = self.largest + self.ridge
        if self.solver.gradient == "coefficients":
            bound *= self.largest
        given = self.solver.step
        if given is not None and given * bound < LIMIT:
            return given
        return STEP / bound if bound > 0 else 1.0

    def _learn(self, inner: HostArray) -> None:
        """Raise the estimate of the largest eigenvalue to the largest ‖K a‖/‖a‖ of a combination a of Ã."""
        T = whitening(inner, float(np.finfo(self.op.tile_dtype).eps))
        squares = T.T @ on_host(self.tilde_values.T @ self.tilde_values) @ T
        if len(squares):
            self.largest = max(self.largest, float(np.sqrt(eigenpairs(squares)[0][-1])))

    def _normalized(self, A: Array, KA: Array, inner: HostArray) -> tuple[Array, Array]:
        """A (Aᵀ K (K + r) A)^(-1/2) and its values, from AᵀA and without combinations whose length is rounding."""
        squares = on_host(A.T @ KA)
        w, U = eigenpairs(on_host(KA.T @ KA) + self.ridge * (squares + squares.T) / 2)
        sizes = np.sum(U * (inner @ U), axis=0)
        rounding = np.maximum(
            len(w) * CUT * max(float(w[-1]), 0.0), (self.ridge + self.least) * self.least * sizes
        )
        keep = w > rounding
        T = self.op.home.place((U[:, keep] / np.sqrt(w[keep])) @ U[:, keep].T)
        return A @ T, KA @ T


def pairs(
    x: View, y: View, k: int
) -> tuple[float, HostArray, tuple[Array, Array], tuple[Array, Array], Callable[[float], Carried]]:
    """The canonical pairs within two blocks.

    Returns
    -------
    float
        t, the sum of the squares of the residuals of the first k pairs.
    numpy.ndarray of shape (k,)
        Their correlations.
    two pairs of arrays of shape (n, k)
        Their coefficients, and the residuals.
    callable
        All pairs, from the share of t that is the law: asked for where the run ends.
    """
    home = x.op.home
    U, every, Vt = np.linalg.svd(on_host(x.values.T @ y.values))
    blocks, values = (x.block, y.block), (x.values, y.values)  # those of now, also for what is asked later

    def residuals(count: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        turns = home.place(U[:, :count]), home.place(Vt[:count].T)
        (a, za), (b, zb) = ((V @ T, KV @ T) for V, KV, T in zip(blocks, values, turns, strict=True))
        theta = home.place(every[:count])[None, :]
        return (a, b), (zb - theta * (za + x.ridge * a), za - theta * (zb + y.ridge * b))

    def carried(share: float) -> Carried:
        of_x, of_y = residuals(len(every))[1]
        overlaps = on_host(of_x.T @ of_x) + on_host(of_y.T @ of_y)
        return Carried(every, share * np.diagonal(overlaps), overlaps)

    leading, gaps = residuals(k)
    t = sum(float(np.sum(home.column_norms(gap) ** 2)) for gap in gaps)
    return t, every[:k], leading, gaps, carried


def _weights(a: Array, b: Array, kernels: Any, carried: Callable[[], Carried]) -> dict[str, Any]:
    """What the law takes."""
    return {"x_weights": a, "y_weights": b, "kernels": kernels, "carried": carried()}


def _of_a_block(op: KernelOperator, rng: np.random.Generator) -> float:
    """The largest eigenvalue of the centred matrix, from that of some of the rows: not far off, and exact for all."""
    n = op.shape[0]
    count = min(PROBED, n)
    K = op.block(np.sort(rng.choice(n, count, replace=False)))
    K = doubly_centred(K) if op.center else K
    return max(float(np.linalg.eigvalsh((K + K.T) / 2)[-1]), 0.0) * n / count
