"""Print how many wrong coefficients are called converged, and how many right ones are not, on hard least squares.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_hard_least_squares.py`; `--quick` takes a tenth of the cases,
`--seed` draws others. `--solvers` chooses among those that linspec has. All data are generated.

The cases are columns and spectra of falling lengths, near copies of columns, polynomials (Vandermonde), blurs, few
short directions among many, sparse designs with near copies, float32, dependent columns, and fewer rows than columns.
Right-hand sides are consistent or have noise. The exact coefficients come from a QR decomposition with refinement in
extended precision (Björck 1967, doi:10.1007/BF01939322), so they have digits where the solvers under test have none.

wrong: the coefficients are off by more than a hundredth of their length. right: by less than a thousandth. An answer
counts as called right if `solution.converged` is true and the status is CONVERGED, or RANK_DEFICIENT where columns are
dependent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from beds import concluded, counted_cases, with_spectrum

import linspec as ls

SOLVERS = "auto", "direct", "cg", "lsqr", "nystrom-pcg", "ling", "sketch-precondition", "gd", "svrg"
WRONG, RIGHT = 1e-2, 1e-3
KINDS = "silent", "alarm", "told", "right", "refused"
LARGE = 1000
"""Columns from which on the slow methods are left out: they do not end within a minute."""


@dataclass(frozen=True)
class Case:
    """Data with the columns of a full rank, and a basis of the null space; None: all columns are independent."""

    name: str
    A: Any
    b: np.ndarray
    independent: np.ndarray | None = None
    null: np.ndarray | None = None

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses that call an answer right."""
        dependent = self.null is not None or self.A.shape[0] < self.A.shape[1]
        return ("CONVERGED", "RANK_DEFICIENT") if dependent else ("CONVERGED",)

    def exact(self) -> np.ndarray:
        """The coefficients of least norm, by refinement in extended precision."""
        A = np.asarray(self.A.toarray() if sp.issparse(self.A) else self.A, dtype=np.float64)
        b, x = self.b.astype(np.float64), np.zeros(A.shape[1])
        if A.shape[0] < A.shape[1]:
            return np.linalg.lstsq(A, b, rcond=None)[0]
        keep = np.arange(A.shape[1]) if self.independent is None else self.independent
        x[keep] = refined(A[:, keep], b)
        return x if self.null is None else x - self.null @ (self.null.T @ x)


def refined(A: np.ndarray, b: np.ndarray, steps: int = 6) -> np.ndarray:
    """Solve by QR of the scaled columns, and refine residual and coefficients together in extended precision."""
    lengths = np.linalg.norm(A, axis=0)
    Q, R = np.linalg.qr(A / lengths)
    A, b = A.astype(np.longdouble), b.astype(np.longdouble)
    x, r = np.zeros(A.shape[1], np.longdouble), np.zeros(len(b), np.longdouble)
    for _ in range(steps):
        f, g = np.asarray(b - r - A @ x, float), np.asarray(-(A.T @ r), float) / lengths
        h = scipy.linalg.solve_triangular(R, g, trans=1)
        d = Q.T @ f
        r = r + (f - Q @ (d - h))
        x = x + scipy.linalg.solve_triangular(R, d - h) / lengths
    return np.asarray(x, dtype=np.float64)


def noisy(
    name: str,
    A: Any,
    x: np.ndarray,
    rng: np.random.Generator,
    levels: tuple[float, ...] = (0.0, 1e-3, 1.0),
    **more: Any,
) -> Iterator[Case]:
    """A case for each level of noise, relative to the right-hand side."""
    b = A @ x
    size = np.linalg.norm(b) / np.sqrt(len(b))
    for level in levels:
        yield Case(f"{name}, noise {level:g}", A, b + level * size * rng.standard_normal(len(b)), **more)


def graded(rng: np.random.Generator) -> Iterator[Case]:
    """Polynomials, and columns, spectra and few directions of falling lengths."""
    for p in range(4, 15):
        yield from noisy(
            f"Vandermonde {p}", np.vander(np.linspace(0, 1, 200), p), rng.standard_normal(p), rng
        )
    for e in (2, 4, 6, 8, 10, 12):
        lengths = np.geomspace(1, 10.0**-e, 12)
        A = rng.standard_normal((200, 12)) * lengths
        yield from noisy(f"graded columns 1e-{e}", A, rng.standard_normal(12) / lengths, rng, (0.0, 1e-3))
        yield from noisy(f"graded columns 1e-{e}, equal", A, np.ones(12), rng, (0.0,))
        A = with_spectrum(200, 16, np.geomspace(1, 10.0**-e, 16), rng)
        yield from noisy(f"graded spectrum 1e-{e}", A, rng.standard_normal(16), rng)
        A = with_spectrum(200, 16, np.r_[np.ones(15), 10.0**-e], rng)
        yield from noisy(f"one short 1e-{e}", A, rng.standard_normal(16), rng, (0.0, 1e-3))
        A = with_spectrum(300, 40, np.r_[np.ones(30), 10.0**-e * np.ones(10)], rng)
        yield from noisy(f"two clusters 1e-{e}", A, rng.standard_normal(40), rng, (0.0, 1e-3))


def near_copies(rng: np.random.Generator) -> Iterator[Case]:
    """Two columns that nearly agree, and blurs."""
    for e in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11):
        A = rng.standard_normal((200, 8))
        A[:, 1] = A[:, 0] + 10.0**-e * rng.standard_normal(200)
        yield from noisy(f"near copy 1e-{e}", A, np.r_[50.0, -50.0, np.ones(6)], rng)
    for width in (0.03, 0.05, 0.08):
        t = np.linspace(-1, 1, 60)
        G = np.exp(-(((t[:, None] - t) / width) ** 2))
        yield from noisy(f"blur {width}", np.vstack([G, G]), np.sin(3 * t), rng)


def sparse_copies(rng: np.random.Generator) -> Iterator[Case]:
    """Sparse designs of up to 3,000 columns, without and with near copies."""
    for p, n, copies in ((60, 400, 1), (300, 2000, 3), (1200, 5000, 2), (1700, 6000, 1), (3000, 9000, 3)):
        S = sp.random(n, p - copies, 0.1 if p < 100 else 8 / p, random_state=rng, format="csc")
        S.data = S.data + 0.5
        S = S + sp.eye_array(n, p - copies, format="csc")
        yield from noisy(f"sparse {p}", sp.csr_array(S), np.ones(p - copies), rng, (1e-3,))
        for e in (2, 4, 6):
            C = S[:, :copies].copy()
            C.data = C.data * (1 + 10.0**-e * rng.standard_normal(len(C.data)))
            x = np.r_[50 * np.ones(copies), np.ones(p - 2 * copies), -50 * np.ones(copies)]
            yield from noisy(
                f"sparse near copy {p}, 1e-{e}", sp.csr_array(sp.hstack([S, C])), x, rng, (0.0, 1e-3)
            )


def float32(rng: np.random.Generator) -> Iterator[Case]:
    """Data of float32, and right-hand sides that are nearly orthogonal to the columns."""

    def single(name: str, A: np.ndarray, x: np.ndarray, levels: tuple[float, ...]) -> Iterator[Case]:
        A = A.astype(np.float32)
        for level in levels:
            b = A.astype(float) @ x + level * rng.standard_normal(len(A))
            yield Case(f"float32 {name}, noise {level:g}", A, b.astype(np.float32))

    for e in (1, 2, 3, 4, 5):
        A = rng.standard_normal((200, 8))
        A[:, 1] = A[:, 0] + 10.0**-e * rng.standard_normal(200)
        yield from single(f"near copy 1e-{e}", A, np.r_[50.0, -50.0, np.ones(6)], (0.0, 1e-2))
    for p in (5, 6, 8):
        yield from single(f"Vandermonde {p}", np.vander(np.linspace(0, 1, 300), p), np.ones(p), (0.0, 0.1))
    for delta in (0.1, 0.03, 0.01, 0.003, 0.001):
        a = rng.standard_normal(100_000)
        A = np.stack([a, a + delta * rng.standard_normal(len(a))], 1)
        yield from single(f"correlated {delta}", A, np.array([1.0, -1.0]), (0.01,))
        D = rng.standard_normal((300, 6))
        D[:, 1] = D[:, 0] + delta * D[:, 1]
        r = rng.standard_normal(300)
        r -= D @ np.linalg.lstsq(D, r, rcond=None)[0]
        yield Case(f"large residual {delta}", D, D @ np.ones(6) * 1e-6 + r)


def dependent(rng: np.random.Generator) -> Iterator[Case]:
    """Dependent columns, and fewer rows than columns: the answer of least norm."""
    for repeat in range(3):
        B = rng.standard_normal((150, 8))
        N = np.vstack([np.eye(8, 3), -np.eye(3)]) / np.sqrt(2)
        A, x = np.hstack([B, B[:, :3]]), rng.standard_normal(11)
        yield from noisy(f"copies {repeat}", A, x, rng, (0.0, 1.0), independent=np.arange(8), null=N)
        group = rng.integers(6, size=200)
        A = np.hstack([np.ones((200, 1)), np.eye(6)[group], rng.standard_normal((200, 2))])
        N = np.r_[-1.0, np.ones(6), 0, 0][:, None] / np.sqrt(7)
        x, keep = rng.standard_normal(9), np.arange(1, 9)
        yield from noisy(f"dummies {repeat}", A, x, rng, (1.0,), independent=keep, null=N)
        A = rng.standard_normal((30, 50))
        yield from noisy(f"wide {repeat}", A, rng.standard_normal(50), rng, (1.0,))
    for p in (400, 2000):
        i, j = rng.integers(p, size=(2, 8 * p))
        i, j = np.r_[i, np.arange(p - 1)], np.r_[j, np.arange(1, p)]
        i, j = i[i != j], j[i != j]
        rows = np.r_[np.arange(len(i)), np.arange(len(i))]
        A = sp.csr_array((np.repeat([1.0, -1.0], len(i)), (rows, np.r_[i, j])), shape=(len(i), p))
        N, keep = np.ones((p, 1)) / np.sqrt(p), np.arange(1, p)
        yield from noisy(
            f"pairs compared {p}", A, rng.standard_normal(p), rng, (0.1,), independent=keep, null=N
        )


def cases(seed: int) -> Iterator[Case]:
    """All cases, each family with random numbers of its own."""
    for number, family in enumerate((graded, near_copies, sparse_copies, float32, dependent)):
        yield from family(np.random.default_rng([seed, number]))


def counted(name: str, case: Case, exact: np.ndarray) -> tuple[str, Any, float]:
    """How a solver ends on a case: "silent", "alarm", "told", "right" or "refused"; its answer, and the error."""
    seed = {} if name in ("auto", "direct", "cg", "lsqr", "gd") else {"rng": 0}
    try:
        found = ls.solve(ls.LeastSquares(case.A, case.b), name, **seed)
    except ls.errors.LinspecError:
        return "refused", None, np.nan
    error = float(np.linalg.norm(np.ravel(found.x) - exact) / np.linalg.norm(exact))
    if found.converged and found.status.name in case.statuses:
        return ("silent" if error > WRONG else "right"), found, error
    return ("alarm" if error <= RIGHT else "told"), found, error


def left_out(name: str, case: Case) -> bool:
    """Whether a solver is too slow for a case, or does not take it."""
    slow = case.A.shape[1] >= LARGE and name in ("gd", "svrg", "ling")
    return slow or (name == "sketch-precondition" and sp.issparse(case.A))


def main() -> int:
    """Solve every case by every solver, and count."""
    report, counts, made = counted_cases(__doc__, SOLVERS, cases, counted, left_out)
    return concluded(report, counts, KINDS, made, "coefficients")


if __name__ == "__main__":
    sys.exit(main())
