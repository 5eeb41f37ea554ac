"""Discriminant subspaces by factorisation.

Problem: the k leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + γI.
Method: with M = FFᵀ and the thin singular value decomposition F⁻¹XᵀH = UΣVᵀ the eigenvectors are W = F⁻ᵀU and the
eigenvalues Σ². One sweep forms XᵀX and XᵀH, and F is a Cholesky factor. With more columns than rows the dual system is
smaller: W = Xᵀ(XXᵀ + γI)⁻¹H U_D Σ_D^(-1/2) with the eigenvectors U_D of D = HᵀXXᵀ(XXᵀ + γI)⁻¹H.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846: the direct approach of section 5.3, W₀ of Theorem 4.
Where we differ: the thin F⁻¹XᵀH is decomposed, and the matrix F⁻¹XᵀHHᵀXF⁻ᵀ of order p is never formed (the source
computes Lanczos vectors of it, as `eigensolver="lanczos"` does here). If the condition number shows that forming XᵀX
has lost too many digits, or a column depends on others, orthogonal transformations reduce the rows instead, and an SVD
of the small factor determines the rank. In the dual system the same is done with columns. Rows that can be read once
are reduced at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from linspec import Run, Solution, Solver, option
from linspec.algebra import (
    EPS,
    LEAST_LENGTH,
    BasisNorm,
    FactorNorm,
    Whitener,
    leading_svd,
    rank_cut,
    squared_cut,
)
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import (
    CHOLESKY_RATE,
    DENSE_RATE,
    FACTOR_RATE,
    SPARSE_RATE,
    Estimate,
    Sizes,
    moments_estimates,
)
from linspec.moments import RowGram, reduce_rows, reduce_rows_of
from linspec.operators import LinearOperator
from linspec.solving import adjustments_of
from linspec_discriminant.row_basis import TOLD, basis_of

SQUARED_LIMIT = 1e8
"""Condition number above which a Gram matrix has lost too many digits, and the data are factorised instead.

The condition number is the one of the Gram matrix with its rows and columns scaled to unit diagonal."""

MANY = 1000
"""Smaller dimension of F⁻¹XᵀH, usually the number of targets, above which Lanczos vectors may be cheaper.

If the dimension is larger than this and more than 10 k, computing k Lanczos vectors takes less time than a dense
singular value decomposition."""


@dataclass(frozen=True, kw_only=True)
class DirectDiscriminant(Solver):
    """Factorisation of the Gram matrix, or of the data if squares lose too much (Sun, Ceran & Ye 2010, section 5.3)."""

    eigensolver: str = option(
        "auto",
        "singular vectors of F⁻¹XᵀH: all of them, or Lanczos vectors for the leading ones",
        choices=("auto", "dense", "lanczos"),
    )
    rank_tol: float | None = option(
        None,
        "singular values below this share of the largest are zero; none: rounding",
        above=0,
        below=1,
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a discriminant problem."""
        n, p = problem.X.shape
        if problem.sweeps == 1:
            return self._by_rows(problem, run)
        # A Gram matrix of the columns that several ridges share costs no pass more, and XXᵀ is not shared.
        shared = problem.ridge > 0 and problem.shared is not None and problem.shared.form == "dense"
        # No slice has whole columns: XXᵀ is never formed of slices.
        wide = p > n and not problem.X.streamed and not shared
        return self._dual(problem, run) if wide else self._primal(problem, run)

    # ---- at least as many rows as columns -------------------------------------------------------

    def _primal(self, problem: Any, run: Run) -> Solution:
        moments = run.moments("dense")
        home = moments.home
        S, C = moments.dense()[0], problem.gram_and_targets(moments)[1]
        factor = Whitener(S, problem.ridge, squared_cut(problem.X), home)
        if home.norm(C) <= problem.rounding(moments):
            return run.finish(weights=C[:, :0], eigenvalues=np.zeros(0), rank=factor.rank)
        short = problem.ridge == 0 and factor.rank < problem.X.shape[1]
        lost = max(moments.columns.centring_error(0) / EPS, 1.0) if moments.columns.confounded else 1.0
        if short or factor.condition * lost > SQUARED_LIMIT:
            return self._by_rows(problem, run)
        U, values = self._leading(factor.solve(C), problem, run, home, magnified=np.sqrt(factor.condition))
        return run.finish(
            weights=factor.solve_adjoint(U),
            eigenvalues=values,
            rank=factor.rank,
            inverse=FactorNorm(factor, home),
        )

    def _by_rows(self, problem: Any, run: Run) -> Solution:
        """Eigenvectors W = V Σ⁻¹ P from [X H] = Q [R_X R_H], R_X = UΣVᵀ and the left singular vectors P of UᵀR_H."""
        home = problem.X.home.blocks
        rows = reduce_rows_of(problem, run)
        if problem.sweeps == 1:  # otherwise `_primal` has checked it
            C = problem.gram_and_targets(run.moments())[1]
            if home.norm(C) <= problem.rounding(run.moments()):
                return run.finish(weights=C[:, :0], eigenvalues=np.zeros(0))
        R, RH = rows[0], rows[1] if problem.factor is None else rows[1] @ problem.factor
        basis = basis_of(R, problem.ridge, self._cut(problem.X), home, problem.X.rounded_dtype)
        if problem.ridge == 0:
            basis = basis.of_rank()
        P, values = self._leading(basis.image.T @ RH, problem, run, home)
        return run.finish(
            weights=basis.basis @ P,
            eigenvalues=values,
            rank=basis.rank,
            inverse=basis,
            lost=self._are_there(problem.X, basis.short, problem, run),
        )

    # ---- more columns than rows -----------------------------------------------------------------

    def _dual(self, problem: Any, run: Run) -> Solution:
        moments = run.moments("implicit")
        run.plan(setup=run.settling + 2.0)
        rows, home, X = RowGram(problem.X), moments.home, problem.X
        run.plan(setup=rows.cost + 1.0 if problem.ridge > 0 else 2.0)  # which may have read the rows
        H = home.place(
            problem.H.dense()
        )  # Xᵀ annihilates their means, but only after a division by the ridge
        H = H if problem.factor is None else H @ problem.factor
        found = _by_cholesky(rows.form(), H, problem.ridge, home) if problem.ridge > 0 else None
        if found is None:
            run.plan(setup=2.0)
            return self._by_columns(problem, run, X, H)
        Z, D, share = found
        turn, values = _inverse_root(to_host(D), problem, share * home.norm(H) ** 2)
        return run.finish(weights=X.rmatmat(Z @ home.place(turn)), eigenvalues=values)

    def _by_columns(self, problem: Any, run: Run, X: LinearOperator, H: Array) -> Solution:
        """Eigenvectors from Xᵀ = QR, R = UΣVᵀ: the columns of V are the left singular vectors of X."""
        home = problem.X.home.blocks
        (R,) = reduce_rows({"X": X.H})
        _, s, Vt = home.xp.linalg.svd(R, full_matrices=False)
        sizes = to_host(s)
        rank = int(np.sum(sizes > self._cut(X.H) * sizes[0])) if sizes[0] > 0 else 0
        longer = int(np.sum(sizes > LEAST_LENGTH * float(np.finfo(X.rounded_dtype).eps) * sizes[0]))
        cut = Vt.T[:, rank:longer] / sizes[0] if problem.ridge == 0 and longer > rank else None
        if cut is not None:  # Xᵀ annihilates the means up to rounding
            adjustment = adjustments_of(problem).get("X")
            cut = cut if adjustment is None else adjustment.model.projected(cut)
        # With a ridge, no direction that can be distinguished is null.
        keep = rank if problem.ridge == 0 else int(np.sum(sizes > TOLD * sizes[0]))
        V, sizes = Vt.T[:, :keep], sizes[:keep]
        root = np.sqrt(sizes**2 + problem.ridge)
        T = home.place(sizes / root)[:, None] * (V.T @ H)
        most = home.norm(H) * float((sizes / root).max(initial=0.0))
        P, values = self._leading(T, problem, run, home, least=problem.resolution * most)
        basis = _left_vectors(X, V, sizes, home) * home.place(1 / root)[None, :]
        return run.finish(
            weights=basis @ P,
            eigenvalues=values,
            rank=rank,
            inverse=BasisNorm(basis, 1.0, home),
            lost=self._are_there(X.H, cut, problem, run),
        )

    # ---- common to both -------------------------------------------------------------------------

    def _leading(
        self, T: Array, problem: Any, run: Run, home: Home, *, magnified: float = 1.0, least: float = 0.0
    ) -> tuple[Array, HostArray]:
        """Return at most k leading left singular vectors of T, and the squares of their singular values.

        Singular values up to a threshold are rounding errors, and they are dropped with their vectors. The threshold is
        the largest singular value times `problem.resolution` (the relative rounding) times `magnified`, but at least
        `least`.
        """
        k = min(problem.k, *T.shape)
        if k == 0:
            return T[:, :0], np.zeros(0)
        many = min(T.shape) > MANY and 10 * k < min(T.shape)
        lanczos = self.eigensolver == "lanczos" or (self.eigensolver == "auto" and many)
        if lanczos and home.on_host and k < min(T.shape):
            U, s = _lanczos(T, k, run)
        else:
            U, s, _ = leading_svd(T, k, home)
        keep = int(np.sum(s > max(problem.resolution * magnified * s[0], least)))
        return U[:, :keep], s[:keep] ** 2

    def _are_there(self, A: LinearOperator, cut: Array | None, problem: Any, run: Run) -> bool:
        """Whether A maps a direction that the rank cut has dropped to more than rounding, so that the rank is too low.

        The columns of `cut` are the dropped directions v/‖A‖. The product of A and `cut` is computed, and its longest
        column is compared with the rounding of a product. The result is False without dropped directions, or if the
        user has set the rank cut. The result is True if the budget does not allow the product.
        """
        if cut is None or self.rank_tol is not None:
            return False
        if not run.budget.affords(1.0):
            return True
        home = problem.X.home.blocks
        lengths = to_host(home.column_norms(home.place(A.matmat(cut))))
        return bool(lengths.max() > LEAST_LENGTH * float(np.finfo(A.rounded_dtype).eps))

    def _cut(self, A: LinearOperator) -> float:
        return rank_cut(A.shape, A.rounded_dtype) if self.rank_tol is None else self.rank_tol

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a Gram matrix of the shorter side, its factor, and singular vectors of a thin matrix."""
        if not sizes.readable:
            return None
        side, t = float(min(sizes.n, sizes.p)), float(min(max(sizes.q, sizes.k), sizes.p, sizes.n))
        forming = sizes.shared(sizes.nnz * side / DENSE_RATE)
        if sizes.p <= sizes.n:
            forming = moments_estimates(sizes, 0, sizes.k)["dense"].seconds
        elif sizes.scattered:
            forming = sizes.shared(sizes.nnz * side / SPARSE_RATE)
        factoring = side**3 / 3 / CHOLESKY_RATE + 2 * side**2 * t / DENSE_RATE + 6 * side * t**2 / FACTOR_RATE
        note = f"Gram matrix of order {side:.0f} and its Cholesky factor"
        return Estimate(forming + factoring, 24.0 * side**2 + 8.0 * (sizes.n + sizes.p) * t, note)


def _by_cholesky(K: Array, H: Array, ridge: float, home: Home) -> tuple[Array, Array, float] | None:
    """(K + γI)⁻¹H, D = HᵀK(K + γI)⁻¹H and a bound on ‖D‖ / ‖H‖²; None if the matrix is too ill-conditioned."""
    factor = Whitener(K, ridge, K.shape[0] * EPS, home)
    if factor.condition > SQUARED_LIMIT or factor.rank < K.shape[0]:
        return None
    Z = factor.solve_adjoint(factor.solve(H))
    size = float(to_host(home.xp.sum(home.xp.linalg.diagonal(K))))
    return Z, H.T @ (K @ Z), size / (size + ridge)


def _left_vectors(X: LinearOperator, V: Array, sizes: HostArray, home: Home) -> Array:
    """Compute orthonormal left singular vectors XᵀVΣ⁻¹ of Xᵀ from the right ones V, in the order of decreasing Σ.

    The product XᵀV has rounding errors of about eps ‖X‖ in all directions. The division by a small singular value
    magnifies them, so the vectors of small singular values have errors along those of large ones. A product with X
    would multiply these errors by ‖X‖ once more. So a QR factorisation makes each vector orthogonal to all earlier
    ones.
    """
    product = X.rmatmat(V @ home.place(np.diag(1 / sizes)))
    if not len(sizes):
        return product
    xp = home.xp
    Q, R = xp.linalg.qr(product, mode="reduced")
    lengths = xp.linalg.diagonal(R)  # each of either sign
    return Q * xp.where(lengths < 0, -xp.ones_like(lengths), xp.ones_like(lengths))[None, :]


def _inverse_root(D: HostArray, problem: Any, size: float) -> tuple[HostArray, HostArray]:
    """Return the leading columns of U_D Σ_D^(-1/2), and the leading eigenvalues Σ_D, at most k of each.

    `size` is a bound on the norm of D, and the rounding of D is 10 eps times `size`. Eigenvalues up to this rounding
    are left out, and also eigenvalues whose root is at most `problem.resolution` times the root of the largest one.
    """
    values, vectors = scipy.linalg.eigh((D + D.T) / 2, check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    least = max(problem.resolution**2 * values[0], 10 * EPS * size)
    keep = min(problem.k, int(np.sum(values > least)))
    return vectors[:, :keep] / np.sqrt(values[:keep]), values[:keep]


def _lanczos(T: HostArray, k: int, run: Run) -> tuple[HostArray, HostArray]:
    """Leading left singular vectors of T, from Lanczos vectors of TTᵀ."""
    p = T.shape[0]
    operator = scipy.sparse.linalg.LinearOperator((p, p), matvec=lambda v: T @ (T.T @ v), dtype=np.float64)
    values, U = scipy.sparse.linalg.eigsh(operator, k, which="LA", v0=run.rng.standard_normal(p))
    return U[:, ::-1], np.sqrt(np.maximum(values[::-1], 0.0))
