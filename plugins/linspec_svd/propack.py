"""PROPACK on the products of the data, with its vectors recorded.

Problem: the k leading singular triplets of A by products with A and Aᵀ in turn, without squares.
Method: `svds` with PROPACK (Golub-Kahan-Lanczos bidiagonalisation with partial reorthogonalisation: Larsen 1998). The
bidiagonal matrix follows from the vectors that it multiplies, and from it their Ritz pairs.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator as SciPyOperator
from scipy.sparse.linalg import svds

from linspec import Run
from linspec.arrays import HostArray, to_host
from linspec_svd.ritz_pairs import SLACK, Recorder, Ritz

ASTRAY = 1e-6
"""A vector of PROPACK violates the recurrence if the remainder of the last product differs from its multiple of the
vector by more than ASTRAY times the largest coefficient α or β so far. Partial reorthogonalisation alone causes
differences of the order √eps."""

FAR = 10.0
"""If the tolerance is at least this multiple of √eps, errors of products from PROPACK's recurrence do not matter."""


class Bidiagonal:
    """PROPACK on A and Aᵀ, and the Ritz pairs that follow from its vectors.

    PROPACK multiplies u₁, v₁, u₂, v₂, … in turn by Aᵀ and A. With αⱼ = vⱼᵀAᵀuⱼ and βⱼ₊₁ = uⱼ₊₁ᵀAvⱼ the products are

        Aᵀuⱼ = βⱼ vⱼ₋₁ + αⱼ vⱼ,    A vⱼ = αⱼ uⱼ + βⱼ₊₁ uⱼ₊₁,

    where α and β are the entries of a bidiagonal matrix B. So AᵀA V and AAᵀ U follow from B and the last product
    without another product (see `_look`). The Ritz pairs of AᵀA follow from an SVD of B: its squared singular values
    are the Ritz values, and its singular vectors combine the held vectors into Ritz vectors. Only the vectors of
    the shorter side are held, and their Gram matrix is not formed.

    Partial reorthogonalisation keeps B accurate to rounding (Simon 1984; Larsen 1998). The products that follow from B
    are accurate to √eps only. If the tolerance is not far above √eps, the final vectors are multiplied once more.

    PROPACK does not stop at an exception in a product. To end it, all products are zero after the run has ended.
    """

    def __init__(self, problem: Any, run: Run, recorder: Recorder, longest: int) -> None:
        self.A = problem.A
        self.run_, self.recorder, self.longest = run, recorder, longest
        self.moments, self.of_rows, self.root = recorder.AtA.moments, recorder.AtA.of_rows, 0.0
        self.held: list[HostArray] = []
        self.diagonal: list[float] = []
        self.below: list[float] = []
        self.last_product = np.zeros(0)
        # Number of held vectors whose products are known, and the part of the last product outside of them.
        self.known = (0, np.zeros(0))
        self.u = self.v = np.zeros(0)
        self.expected = np.zeros(0)  # a multiple of the next vector, by the recurrence
        self.largest = 0.0
        self.due = recorder.width
        self.failure: BaseException | None = None
        self.halted = False

    def run(self) -> None:
        """Iterate until PROPACK has converged or given up, or the run has ended."""
        n, p = self.A.shape
        k, rng = self.recorder.k, self.run_.rng
        operator = SciPyOperator((n, p), matvec=self.forward, rmatvec=self.adjoint, dtype=np.float64)
        name = "rng" if "rng" in inspect.signature(svds).parameters else "random_state"
        options = {
            name: rng,
            "v0": rng.standard_normal(n),
            "maxiter": max(self.longest, k),
            "tol": self.run_.tol,
        }
        with suppress(
            np.linalg.LinAlgError
        ):  # not converged, or no direction left: ARPACK completes the result
            svds(operator, k=k, solver="propack", **options)
        if self.failure is not None:
            raise self.failure
        if not self.recorder.ended and self.known[0]:
            self._look()
        if self.recorder.converged and self.run_.tol < FAR * self.recorder.AtA.rounding**0.5:
            self._recompute()

    @property
    def over(self) -> bool:
        """Whether all further products are zero."""
        return self.recorder.ended or self.halted or self.failure is not None

    def forward(self, v: HostArray) -> HostArray:
        """A v; zeros after the iteration has ended."""
        if not self.over and len(self.diagonal) >= self.recorder.k and not self.run_.budget.affords(2.0):
            self.halted = True
        if self.over:
            return np.zeros(self.A.shape[0])
        v = np.asarray(v, dtype=np.float64).reshape(-1)
        product = self._checked(lambda: self.A.matmat(self.A.home.blocks.place(v[:, None])))
        if product is None:
            return np.zeros(self.A.shape[0])
        if abs(np.linalg.norm(v) - 1.0) > SLACK:  # PROPACK makes its start from it, which enters no basis
            return product
        alpha = float(v @ self.last_product)
        if self._astray(v, alpha):
            return np.zeros(self.A.shape[0])
        self.diagonal.append(alpha)
        self.expected = product - alpha * self.u
        self.last_product, self.v = product, v.copy()  # PROPACK reuses its memory
        if self.of_rows:
            self._learn(self.expected)
        else:
            self.held.append(self.v)
        return product

    def adjoint(self, u: HostArray) -> HostArray:
        """Aᵀ u; zeros after the iteration has ended."""
        if not self.over and not self.run_.budget.affords(1.0):
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
        if self.of_rows:
            self.held.append(self.u)
        elif self.diagonal:
            self._learn(self.expected)
        return product

    def _astray(self, x: HostArray, factor: float) -> bool:
        """Whether the next vector x violates the recurrence (`ASTRAY`): B is then not the matrix of these vectors.

        `factor` is the coefficient of x. In an invariant subspace PROPACK continues with a vector of rounding errors,
        or with one that it chooses itself. After True all further products are zero, so that PROPACK returns, and
        ARPACK starts from the beginning.
        """
        self.largest = max(self.largest, abs(factor))
        self.halted |= bool(np.linalg.norm(self.expected - factor * x) > ASTRAY * self.largest)
        return self.halted

    def _checked(self, make: Any) -> HostArray | None:
        """Return the scaled product that `make` computes, or None if it fails or is not finite.

        PROPACK continues after an exception in a product. So the exception is kept in `failure`, and `run` raises it
        when PROPACK has returned.
        """
        try:
            with np.errstate(all="ignore"):
                product = to_host(make()).astype(np.float64, copy=False)[:, 0]
                if np.isfinite(product.sum()) or np.isfinite(product).all():
                    product = self._scaled(product)
                else:
                    ones = np.ones((self.A.shape[1], 1))
                    self.moments.gram(self.moments.home.place(ones))  # raises, and names the entry
        except BaseException as failure:  # noqa: BLE001 (raised again when PROPACK has come back)
            self.failure = failure
            return None
        return product

    def _scaled(self, product: HostArray) -> HostArray:
        """Product with A or Aᵀ times a power of two that makes the first one near 1; always a copy."""
        largest = float(np.abs(product).max(initial=0.0))
        if not self.root and 0 < largest < np.inf:
            self.root = 2.0 ** -max(min(int(np.frexp(largest)[1]), 500), -500)
            self.recorder.AtA.scale = self.root**2
        return product * (self.root or 1.0)

    def _recompute(self) -> None:
        """Multiply the final Ritz vectors by AᵀA, since products computed from the recurrence are less accurate."""
        recorder = self.recorder
        if self.run_.budget.affords(recorder.AtA.sweep):
            V = recorder.ritz.V
            recorder.ritz = Ritz.of(V, recorder.multiplied(V), recorder.k)

    def _learn(self, rest: HostArray) -> None:
        """Record that the products of all held vectors are known, and compute the Ritz pairs if a look is due.

        `rest` is the part of the last product outside the span of the held vectors. `known` keeps it for `_look`.
        """
        self.known = len(self.diagonal), rest
        if len(self.held) >= self.due:
            self.due = len(self.held) + max(self.recorder.width - self.recorder.k, 1)
            self._look()

    def _look(self) -> None:
        """Compute the Ritz pairs of the m vectors whose products are known, and record them in the recorder.

        The products follow from B and `rest`, the part of the last product outside the span of the held vectors; eₘ is
        the last unit vector. If the held vectors are U (Ritz vectors of AAᵀ), AAᵀ U = U BBᵀ + rest eₘᵀBᵀ, where B has m
        rows. If they are V (Ritz vectors of AᵀA), AᵀA V = V BᵀB + βₘ₊₁ rest eₘᵀ, where B has m + 1 rows. With at least
        k pairs, the recorder also reports them to the run.
        """
        (m, rest), k, rows = self.known, self.recorder.k, self.of_rows
        B = np.zeros((m + 1, m))
        B[np.arange(m), np.arange(m)] = self.diagonal[:m]
        below = self.below[: m - rows]
        B[np.arange(1, len(below) + 1), np.arange(len(below))] = below
        X, s, Yt = np.linalg.svd(B[:m] if rows else B, full_matrices=False)
        turn = (X if rows else Yt.T)[:, :k]
        share = (s if rows else below[-1]) * Yt[:, -1]
        W = np.stack(self.held[:m]).T @ turn
        found = Ritz(s[:k] ** 2, W, W * s[:k] ** 2 + rest[:, None] * share[:k])
        self.recorder.whole = len(s) == len(W)
        if len(s) >= k:
            self.recorder.judge(found)
        else:  # not for the run, which would take them for all pairs
            self.recorder.ritz = found
