"""Methods as their papers have them, for comparison: two decompositions, a sparse kernel CCA, two discriminants.

`dash_svd`: power iterations on blocks of k + `more` columns; a shift, which grows to the mean of itself and the least
singular value of the block, is subtracted from AᵀA; two products a power, and two more.
Source: Feng, Yu, Xie & Tang 2024, ACM TOMS Algorithm 1043, doi:10.1145/3660629, and the authors' program.

`window_svd`: an epoch reads all windows of rows in random order: G_b = A_b Ω, H += A_bᵀ G_b, and Ω becomes orth(H)
after each half of a band of windows. Bands have two windows in the first epoch and twice as many in each that follows,
until a band is everything; then the decomposition of R⁻ᵀHᵀ = QᵀA ends it, with QR = AΩ. Two products an epoch.
Source: Li, Meisner & Albrechtsen 2023, doi:10.1101/gr.277525.122. As in the authors' program columns of Ω keep their
signs, and the last half band of an epoch counts once more in a quarter of the first band of the next one.

`gradkcca`: points u and v with |u|₁ ≤ 1 and |v|₁ ≤ 1 that maximise the correlation of ⟨X, u⟩ᵈ and ⟨Y, v⟩ᵈ. From eight
random points u moves and then v. A step has the length of the gradient, halved until the correlation gains 1e-4 of
itself, and is projected onto the ball. A start ends when a turn changes the correlation by less than 1e-8 of it.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Algorithm 1, with the line search of the authors' program.
Where we differ: the functions of both views are centred in the gradient.

`two_stage`, `direct_discriminant`: LSQR for one column of targets after the other, then the eigenvectors of W₁ᵀXᵀH; a
Cholesky factor of XᵀX + γI, of the order of the columns, with Lanczos vectors.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Algorithm 2 and section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

# U, S and Vh.
Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]


WINDOWS = 64
"""How many windows there are at most."""


def dash_svd(A: Any, k: int, *, more: int, powers: int, rng: Any = 0) -> Triplets:
    """Decompose by power iterations with dynamic shifts."""
    if A.shape[0] < A.shape[1]:
        return _turned(dash_svd(A.T, k, more=more, powers=powers, rng=rng))
    Q, _, _ = _eig_svd(A.T @ np.random.default_rng(rng).standard_normal((A.shape[0], k + more)))
    alpha = 0.0
    for _ in range(powers):
        Q, S, _ = _eig_svd(A.T @ (A @ Q) - alpha * Q)
        if alpha < S[-1]:
            alpha = (alpha + S[-1]) / 2
    U, S, V = _eig_svd(A @ Q)
    return U[:, :k], S[:k], (Q @ V[:, :k]).T


def window_svd(A: Any, k: int, *, more: int, epochs: int, rng: Any = 0) -> Triplets:
    """Decompose by power iterations on growing windows of rows."""
    if A.shape[0] < A.shape[1]:
        return _turned(window_svd(A.T, k, more=more, epochs=epochs, rng=rng))
    rng = np.random.default_rng(rng)
    rows = rng.permutation(A.shape[0])
    count = _windows(A.shape[0], epochs)
    blocks = [A[part] for part in np.array_split(rows, count)]
    Omega = rng.standard_normal((A.shape[1], k + more))
    H1, H2 = np.zeros_like(Omega), np.zeros_like(Omega)  # of the first and the second half of a band
    for epoch in range(epochs):
        band, G, place = min(2 ** (epoch + 1), count), [], 0
        whole = 2**epoch >= count
        again = 2 ** (epoch - 1) if epoch and not whole else 0
        if whole:
            H1[:], H2[:] = 0.0, 0.0
        for b, A_b in enumerate(blocks, 1):
            place += 1
            G.append(A_b @ Omega)
            half = H1 if place <= band // 2 else H2
            half += A_b.T @ G[-1]
            if b == again or (b >= band and place in (band // 2, band)):
                H = H1 + H2
                Omega = _next(H, Omega)
                (H1 if place == band else H2)[:] = 0.0
                place %= band
    Q, R = np.linalg.qr(np.vstack(G))
    U, S, Vh = np.linalg.svd(scipy.linalg.solve_triangular(R, H.T, trans="T"), full_matrices=False)
    left = np.empty((A.shape[0], k))
    left[rows] = Q @ U[:, :k]
    return left, S[:k], Vh[:k]


def _windows(rows: int, epochs: int) -> int:
    """Number of windows: a power of two, so that the last epoch is one band, and a window has as many rows."""
    most = min(WINDOWS, 2 ** (epochs - 1), int(np.sqrt(rows)))
    return int(2 ** np.floor(np.log2(most)))


def _next(H: np.ndarray, Omega: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span those of H, with the signs of those before."""
    Q = np.linalg.qr(H)[0]
    return Q * np.where(np.sum(Q * Omega, axis=0) < 0, -1.0, 1.0)


def _eig_svd(Y: np.ndarray) -> Triplets:
    """U, S and V of a tall block, by the eigenvectors of its Gram matrix."""
    values, V = np.linalg.eigh(Y.T @ Y)
    S, V = np.sqrt(values[::-1]), V[:, ::-1]
    return Y @ (V / S), S, V


def _turned(found: Triplets) -> Triplets:
    U, S, Vh = found
    return Vh.T, S, U.T


# Starts, and the limit of the turns of all of them together.
STARTS, MOST_TURNS = 8, 10_000
GAIN, CHANGE, SHORTEST = 1e-4, 1e-8, 1e-13
"""The share of the value that a step must gain, the last relative change, and the least step."""


class Point:
    """A point of one view, the products of the rows with it, and its centred function over the function's length."""

    def __init__(self, rows: np.ndarray, degree: int, u: np.ndarray, sweeps: int) -> None:
        self.rows, self.degree, self.u, self.sweeps = rows, degree, u, sweeps + 1
        self.products = rows @ u
        values = self.products**degree
        values = values - values.mean()
        self.length = float(np.linalg.norm(values))
        self.unit = values / self.length if self.length > 0 else values

    def moved(self, other: np.ndarray, rho: float) -> tuple[Point, float]:
        """The point a step further, and the correlation there, if a step gains enough; otherwise as before."""
        slope = (other - rho * self.unit) / self.length if self.length else 0.0 * other
        gradient = self.rows.T @ (slope * self.degree * self.products ** (self.degree - 1))
        step = float(np.linalg.norm(gradient))
        self.sweeps += 1
        while step >= SHORTEST:
            tried = Point(self.rows, self.degree, onto_ball(self.u + step * gradient), self.sweeps)
            self.sweeps = tried.sweeps
            value = float(tried.unit @ other)
            if value > rho + GAIN * abs(rho):
                return tried, value
            step /= 2
        return self, rho


def onto_ball(u: np.ndarray) -> np.ndarray:
    """The nearest point with |u|₁ ≤ 1."""
    sizes = np.sort(np.abs(u))[::-1]
    sums = np.cumsum(sizes) - 1.0
    if sums[-1] <= 0:
        return u
    kept = np.flatnonzero(sizes * np.arange(1, len(u) + 1) > sums)[-1]
    return np.sign(u) * np.maximum(np.abs(u) - sums[kept] / (kept + 1), 0.0)


def gradkcca(X: np.ndarray, Y: np.ndarray, degree: int, seed: int) -> tuple[Any, Any, float, float]:
    """Points u and v, their correlation, and how often the view that was read more often was read."""
    rng = np.random.default_rng(seed)
    starts = [rng.uniform(0.0, 1.0, (A.shape[1], STARTS)) for A in (X, Y)]
    best, turns, sweeps = (-np.inf, np.empty(0), np.empty(0)), 0, [0, 0]
    for r in range(STARTS):
        x = Point(X, degree, onto_ball(starts[0][:, r]), sweeps[0])
        y = Point(Y, degree, onto_ball(starts[1][:, r]), sweeps[1])
        rho, change = float(x.unit @ y.unit), 1.0
        while change > CHANGE and turns < MOST_TURNS:
            before, turns = rho, turns + 1
            x, rho = x.moved(y.unit, rho)
            y, rho = y.moved(x.unit, rho)
            total = abs(rho + before)
            change = abs(rho - before) / total if total > 0 else 0.0
        sweeps = [x.sweeps, y.sweeps]
        if rho > best[0]:
            best = rho, x.u, y.u
    return best[1], best[2], best[0], float(max(sweeps))


LSQR_TOL = 1e-10
"""Tolerances atol and btol of SciPy's lsqr."""


def centred(A: Any) -> scipy.sparse.linalg.LinearOperator:
    """Rows about their means, sparse ones as they are stored."""
    mean = np.asarray(A.mean(axis=0)).ravel()
    transpose = A.T.tocsr() if scipy.sparse.issparse(A) else A.T
    return scipy.sparse.linalg.LinearOperator(
        A.shape,
        matvec=lambda v: A @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: transpose @ u.ravel() - mean * u.sum(),
        dtype=np.float64,
    )


def two_stage(X: Any, H: np.ndarray, ridge: float, k: int | None = None) -> np.ndarray:
    """Weights by LSQR, a column of targets after the other, and a small eigenproblem."""
    A = centred(X)
    options = {"damp": np.sqrt(ridge), "atol": LSQR_TOL, "btol": LSQR_TOL, "conlim": 0, "iter_lim": 20_000}
    W = np.stack([scipy.sparse.linalg.lsqr(A, column, **options)[0] for column in H.T], axis=1)
    D = W.T @ A.rmatmat(H)
    values, vectors = np.linalg.eigh((D + D.T) / 2)
    order = np.argsort(-values)[:k]
    order = order[values[order] > 1e-12 * values[order[0]]]
    return W @ (vectors[:, order] / np.sqrt(values[order]))


def direct_discriminant(X: Any, H: np.ndarray, ridge: float) -> np.ndarray:
    """Weights by a factor of XᵀX + γI and Lanczos vectors."""
    n, p = X.shape
    mean = np.asarray(X.mean(axis=0)).reshape(1, -1)
    M = X.T @ X
    M = (M.toarray() if scipy.sparse.issparse(M) else M) - n * (mean.T @ mean)
    M[np.diag_indices(p)] += ridge
    L = scipy.linalg.cholesky(M, lower=True, overwrite_a=True, check_finite=False)
    C = X.T @ H - mean.T @ H.sum(axis=0, keepdims=True)
    T = scipy.linalg.solve_triangular(L, C, lower=True, check_finite=False)
    operator = scipy.sparse.linalg.LinearOperator((p, p), matvec=lambda v: T @ (T.T @ v), dtype=np.float64)
    values, U = scipy.sparse.linalg.eigsh(operator, min(H.shape[1], p - 1), v0=np.ones(p))
    kept = U[:, values > np.finfo(np.float64).eps * 10 * p * values.max()]
    W: np.ndarray = scipy.linalg.solve_triangular(L, kept, lower=True, trans=1, check_finite=False)
    return W
