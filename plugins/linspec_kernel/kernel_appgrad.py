"""AppGrad for kernels: gradient descent on the functions of both views.

Problem: the leading pairs of Ky b = ρ (Kx + rx) a, Kx a = ρ (Ky + ry) b, with products alone and k columns for each
view.
Method: Ma, Lu & Foster (2015), section 2.4: their Algorithm 4 with kernels. In addition to normalised coefficients A, B
there are unnormalised ones Ã, B̃, on which gradient descent runs:

    Ã ← Ã − η [(Kx + rx) Ã − Ky B],   A = Ã (Ãᵀ Kx (Kx + rx) Ã)^(-1/2),

and the same for B̃. Beside Ã its product Kx Ã is kept. The targets, the normalisation and the residual come from these,
so an iteration takes one product with each matrix.
Source: Ma, Lu & Foster 2015, ICML, PMLR 37; Lu 2015, section 4.2.4.
Where we differ: (a) The source replaces X by Kx in the linear algorithm, without a ridge: its gradient Kx [Kx Ã − Ky B]
is the gradient in the coefficients. The bracket alone is the gradient in the function; its iterates are those of
linear AppGrad on the features of the kernel. Its condition is that of Kx + rx in place of the square, and it takes one
product in place of two. With a ridge the constraint is Aᵀ Kx (Kx + rx) A = I. (b) B̃ takes the new A, at no further
product, where the source takes the old one. (c) The step is 1.7/(λ + r) for each view. A block of Kx gives a first
estimate of its largest eigenvalue λ, and quotients of Ã, which are lower bounds, raise it. A step that is given is used
while it is below 2/(λ + r), the limit of stability. (d) The fixed point is determined up to a rotation of both
blocks, so they are turned to canonical pairs. (e) The blocks have some columns more than pairs are wanted, which cost
next to nothing. Without them the iteration may stay for long near a set of pairs that are not the leading ones. The
residual reported during the run is t = RᵀR for the residuals R, times the ratio of the certificate's bound to t an
iteration before: the product includes the last iterate's residuals, without a further pass. If eigenvalues of kernels
decay fast, t alone exceeds that bound by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import KernelOperator, limit_option, option, tol_option
from linspec.arrays import Array, HostArray
from linspec.features import drawn_rows
from linspec.iteration import Context, Iterate
from linspec.linalg import eigenpairs, ratio, whitening
from linspec_kernel.certificate import CUT, LEAST_SHARE, gaps_of, least_value
from linspec_kernel.moments import ByTiles, doubly_centred, norms_alone, on_host
from linspec_kernel.problem import KernelCCA

STEP, LIMIT = 1.7, 2.0
"""Default step, and limit of stable steps of gradient descent on a quadratic, in units of 1/(λ + r)."""

PROBED = 512
"""Number of rows of the block from which the largest eigenvalue is first estimated."""

EXTRA = 10
"""Columns of the blocks beyond k."""


@dataclass(frozen=True, kw_only=True)
class KernelAppGrad(ByTiles):
    """Augmented approximate gradient on dual coefficients (Ma, Lu & Foster 2015, section 2.4)."""

    step: float | None = option(
        None, "step of both views; none: 1.7 over the largest eigenvalue, one for each view", above=0
    )
    extra: int = option(EXTRA, "columns of the blocks beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)

    def iterate(self, problem: KernelCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield coefficients of k + `extra` functions of each view."""
        width, k = min(problem.k + self.extra, moments.operators[0].shape[0]), problem.k
        moments.fit(context.rng, start, self.storage)
        views = zip(moments.operators, problem.ridge, "xy", strict=True)
        x, y = (DualView(op, r, self, width, context.rng, start, name) for op, r, name in views)
        share, asarray = 1.0 if start is None else float(start["share"][0]), moments.device.asarray
        while True:
            U, rho, Vt = np.linalg.svd(on_host(x.values.T @ y.values))  # canonical pairs within the blocks
            rho = rho[:k]
            T = asarray(U[:, :k])
            S = asarray(Vt[:k].T)
            first, second = (x.block @ T, x.values @ T), (y.block @ S, y.values @ S)
            gaps = gaps_of(first, second, asarray(rho), problem.ridge)
            t = sum(float(np.sum(moments.device.column_norms(R) ** 2)) for R in gaps)
            yield Iterate(
                ratio(share * t, float(rho.sum())),
                partial(
                    dict,
                    x_weights=x.block,
                    y_weights=y.block,
                    x_unnormalised=x.tilde,
                    y_unnormalised=y.tilde,
                    share=np.array([share]),
                    **moments.learnt(),
                ),
            )
            # Ã ← Ã − η [(Kx + rx) Ã − Ky B],  A = Ã (Ãᵀ Kx (Kx + rx) Ã)^(-1/2)
            squares = x.step(y.values, gaps[0])
            squares += y.step(x.values, gaps[1])  # B̃ ← B̃ − η [(Ky + ry) B̃ − Kx A], and B likewise
            # The residuals of the last iterate were in the product: the ratio of their exact bound to their t
            # corrects the estimate.
            share = max(squares / t, LEAST_SHARE) if t > 0 else share


class DualView:
    """Coefficients of one view with their products, and the steps of gradient descent on them.

    Parameters
    ----------
    op : KernelOperator
    ridge : float
    solver : KernelAppGrad
    width : int
    rng : numpy.random.Generator
    start : mapping of str to array, or None
    name : {"x", "y"}

    Attributes
    ----------
    tilde, tilde_values : arrays of shape (n, width)
        Ã and K Ã.
    block, values : arrays of shape (n, width)
        A and K A, orthonormal in the metric K(K + r) except for columns of zeros.
    largest : float
        An estimate of the largest eigenvalue of K.
    """

    def __init__(
        self,
        op: KernelOperator,
        ridge: float,
        solver: KernelAppGrad,
        width: int,
        rng: np.random.Generator,
        start: Mapping[str, Any] | None,
        name: str,
    ) -> None:
        self.op, self.ridge, self.solver, device = op, ridge, solver, op.device
        self.least = least_value(op)
        n = op.shape[0]
        count = min(PROBED, n)
        K = op.block(drawn_rows(n, count, rng))
        K = doubly_centred(K) if op.center else K
        self.largest = max(float(np.linalg.eigvalsh((K + K.T) / 2)[-1]), 0.0) * n / count
        if start is None:  # random functions, and Ã = 0
            block = op.centred(device.asarray(rng.standard_normal((n, width))))[0]
            self.tilde = 0.0 * block
        else:
            block, self.tilde = (
                device.asarray(start[f"{name}_{part}"]) for part in ("weights", "unnormalised")
            )
        values, self.tilde_values = self._products(block, self.tilde)
        self._normalize(block, values, on_host(block.T @ block))

    def step(self, target: Array, residuals: Array) -> float:
        """Take a gradient step towards `target`, the values of the other view's functions.

        `residuals` is a block of columns a, which the product of the kernel matrix with the new coefficients multiplies
        too. The result is an upper bound of Σ aᵀK(K + r)⁻¹a over the columns of `residuals`, the sum of
        `linspec_kernel.moments.norms_alone`.
        """
        gradient = self.tilde_values + self.ridge * self.tilde - target
        bound = self.largest + self.ridge
        fixed = self.solver.step or np.inf
        step = fixed if fixed * bound < LIMIT else STEP / bound if bound > 0 else 1.0
        self.tilde = self.tilde - step * gradient
        self.tilde_values, products = self._products(self.tilde, residuals)
        inner = on_host(self.tilde.T @ self.tilde)
        # ‖K a‖/‖a‖ for combinations a of Ã are below the largest eigenvalue.
        T = whitening(inner, float(np.finfo(self.op.tile_dtype).eps))
        quotients = eigenpairs(T.T @ on_host(self.tilde_values.T @ self.tilde_values) @ T)[0]
        self.largest = max(self.largest, float(np.sqrt(quotients.max(initial=0.0))))
        self._normalize(self.tilde, self.tilde_values, inner)
        return float(norms_alone(residuals, products, self.ridge, self.op.device).sum())

    def _products(self, A: Array, B: Array) -> tuple[Array, Array]:
        """K A and K B, in one pass."""
        both = self.op.matmat(self.op.device.concat([A, B]))
        width = A.shape[1]
        return both[:, :width], both[:, width:]

    def _normalize(self, A: Array, KA: Array, inner: HostArray) -> None:
        """Make A (Aᵀ K (K + r) A)^(-1/2), without combinations whose length is rounding; `inner` is AᵀA."""
        squares = on_host(A.T @ KA)
        w, U = eigenpairs(on_host(KA.T @ KA) + self.ridge * (squares + squares.T) / 2)
        sizes = np.sum(U * (inner @ U), axis=0)
        rounding = np.maximum(
            len(w) * CUT * max(float(w[-1]), 0.0), (self.ridge + self.least) * self.least * sizes
        )
        keep = w > rounding
        T = self.op.device.asarray((U[:, keep] / np.sqrt(w[keep])) @ U[:, keep].T)
        self.block, self.values = A @ T, KA @ T
