"""Print how many wrong answers are called converged, and how many right ones are not, on beds of hard cases.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_beds.py KIND [--quick] [--seed 0] [--solvers auto,gram]

`--quick` takes a tenth of the cases, `--seed` draws others, and `--solvers` chooses. All data are generated. An answer
is called right if its status says so. "silent" is a wrong answer that is called right, "alarm" a right one that is
called otherwise, "overstated" a right one with over ten times the error of the digits that it claims.

correlations: exact ones by Björck & Golub (1973) in extended precision. Wrong: off by a thousandth, or missing; right:
by less than a millionth. least-squares: exact coefficients by a QR decomposition with refinement in extended precision
(Björck 1967, doi:10.1007/BF01939322). Wrong: off by a hundredth of their length; right: by less than a thousandth.
spectra: exact values by LAPACK. Wrong: off by a thousandth of the largest, or missing; right: by a millionth.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from showing import Claim, Report, arguments

import linspec as ls

KINDS = "silent", "alarm", "overstated", "told", "right", "refused"
SEEDLESS = "auto", "gram", "direct", "cg", "lsqr", "gd"
# Solvers without random numbers, and those that take the options of a case; others are not given such cases.
ITERATIVE = "als", "lobpcg", "block-krylov", "lanczos"


@dataclass(frozen=True)
class Case:
    """A problem, its exact figures, options of iterations, and statuses that call an answer right."""

    name: str
    problem: Any
    exact: Callable[[], np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    statuses: tuple[str, ...] = ("CONVERGED", "RANK_DEFICIENT")


class Bed(NamedTuple):
    """What is counted, how an answer counts, families of cases, and solvers."""

    what: str
    counted: Callable[[Any, Case, np.ndarray], tuple[str, float]]
    families: tuple[Callable[[np.random.Generator], Iterator[Case]], ...]
    solvers: str


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("kind", choices=list(BEDS), help="what is hard")
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    parser.add_argument("--solvers", help="names, between commas")
    report = Report(parser)
    given, bed = report.given, BEDS[report.given.kind]
    cases: list[Case] = []
    for number, family in enumerate(bed.families):
        cases += family(np.random.default_rng([given.seed, number]))
    cases = cases[:: 10 if given.quick else 1]
    counts = {name: Counter[str]() for name in (given.solvers or bed.solvers).split(",")}
    odd = report.table("case", "solver", "status", "error::.1e", "residual::.1e", "accuracy", "what")
    for case in cases:
        exact = case.exact()
        for name, count in counts.items():
            if left_out(name, case):
                continue
            what, found, error = solved(bed, name, case, exact)
            count[what] += 1
            if what in ("silent", "alarm", "overstated"):
                odd.row(case.name, name, found.status.name, error, found.residual, found.accuracy, what)
    table = report.table("solver", *KINDS, title=f"{len(cases)} cases")
    for name, count in counts.items():
        table.row(name, *(count[kind] for kind in KINDS))
    report.say(claims(sum(counts.values(), Counter()), bed.what))
    return report.end()


def left_out(name: str, case: Case) -> bool:
    """Whether a solver takes no options, would take more than a minute, or does not take such data."""
    A = getattr(case.problem, "A", None)
    slow = name in ("gd", "svrg", "ling") and A is not None and A.shape[1] >= 1000
    sparse = name == "sketch-precondition" and case.name.startswith("sparse")
    return slow or sparse or (bool(case.options) and name not in ITERATIVE)


def solved(bed: Bed, name: str, case: Case, exact: np.ndarray) -> tuple[str, Any, float]:
    options = {} if name in SEEDLESS else {"rng": 0, **case.options}
    if name in ("als", "lobpcg"):
        options["form"] = "implicit"
    try:
        found = ls.solve(case.problem, name, **options)
    except ls.errors.LinspecError:
        return "refused", None, np.nan
    what, error = bed.counted(found, case, exact)
    return what, found, error


def claims(total: Counter[str], what: str) -> Iterator[Claim]:
    right = total["right"] + total["alarm"]
    for kind, text, most, among in (
        ("silent", f"no wrong {what} are called converged", 0, f"{total.total()} answers"),
        ("overstated", "no error is ten times what is claimed", 0, f"{right} right answers"),
        ("alarm", "at most 2 % of right ones are called otherwise", 0.02 * right, f"{right} right answers"),
    ):
        yield Claim(text, total[kind] <= most, f"{total[kind]} of {among}", own=True)


def with_spectrum(n: int, p: int, s: Any, rng: np.random.Generator) -> np.ndarray:
    U, V = (np.linalg.qr(rng.standard_normal((m, len(s))))[0] for m in (n, p))
    return (U * s) @ V.T


def dense(A: Any, dtype: Any = np.float64) -> np.ndarray:
    return np.asarray(A.toarray() if sp.issparse(A) else A, dtype=dtype)


def counted_values(
    found: Any, case: Case, exact: Any, values: Any, unit: Any, floor: float, loose: float
) -> tuple[str, float]:
    """How values of these units count, above the rounding of exact ones; a tolerance is worth `loose`."""
    gaps = np.abs(np.r_[values, np.zeros(max(0, len(exact) - len(values)))][: len(exact)] - exact)
    error = float(gaps.max() / unit[0])
    if not (found.converged and found.status.name in case.statuses):
        stopped = found.status.name in ("BUDGET", "ITERATION_LIMIT")
        right = not stopped and (gaps <= np.maximum(1e-6 * unit, floor)).all()
        return ("alarm" if right else "told"), error
    if error > max(1e-3, 10 * found.tol * loose):
        return "silent", error
    digits = re.search(r"about (\d+)", found.accuracy)
    claimed = 10.0 ** -float(digits[1]) if digits else 1.0
    beyond = (gaps - floor > 10 * claimed * unit)[: len(values)]
    return ("overstated" if beyond.any() else "right"), error


def svd(name: str, A: Any, k: int, options: Any = None, **problem: Any) -> Case:
    def exact() -> np.ndarray:
        B = dense(A, np.longdouble)
        B = B - B.mean(axis=0) if problem.get("center") else B
        return np.linalg.svd(np.asarray(B, dtype=np.float64), compute_uv=False)[:k]

    return Case(name, ls.SVD(A, k, **problem), exact, options or {})


def hard_spectra(rng: np.random.Generator) -> Iterator[Case]:
    for n, p in ((300, 40), (60, 200)):
        m = min(n, p)
        for name, s in {
            "flat": np.linspace(2, 1, m),
            "equal": np.ones(m),
            "steep": 10.0 ** -np.arange(m),
            "steep to 1e-6": np.geomspace(1, 1e-6, m),
            "steep to 1e-9": np.geomspace(1, 1e-9, m),
            "clusters": np.r_[3 * np.ones(4), 1 + 1e-7 * rng.standard_normal(m - 4)],
            "tie at the cut": np.r_[9, 8, 7, 2, 2, 2, 2, np.linspace(1, 0.1, m - 7)],
            "ten copies": np.r_[5 * np.ones(10), np.linspace(1, 0.1, m - 10)],
            "gap of 1e8": np.r_[1e8, np.linspace(2, 1, m - 1)],
            "rank 3": np.r_[3.0, 2, 1],
        }.items():
            yield svd(f"{name}, {n} x {p}", with_spectrum(n, p, s, rng), 5, left=bool(rng.integers(2)))
    for e in (2, 4, 6, 8):
        A = rng.standard_normal((200, 12)) * np.geomspace(1, 10.0**-e, 12)
        yield svd(f"graded columns 1e-{e}", A, 12)


def kinds_of_matrices(rng: np.random.Generator) -> Iterator[Case]:
    for e in (2, 5, 8):
        A = with_spectrum(400, 10, np.linspace(20, 1, 10), rng) + 10.0**e * (1 + rng.random(10))
        yield svd(f"means of 1e{e} deviations", A, 4, center=True)
    A = with_spectrum(300, 20, np.geomspace(1, 1e-3, 20), rng)
    yield svd("float32", A.astype(np.float32), 8)
    for unit in (1e-55, 1e-30, 1e30, 1e55):
        yield svd(f"units of {unit:g}", A * unit, 8)
    for n, p in ((900, 400), (400, 900), (300, 3000)):
        falling = sp.diags_array(np.arange(1, p + 1) ** -0.7)
        S = sp.csr_array(sp.random(n, p, 0.03, random_state=rng, format="csr") @ falling)
        for center in (False, True):
            yield svd(f"sparse {n} x {p}, center={center}", S, 10, center=center)


def spectra_ended_early(rng: np.random.Generator) -> Iterator[Case]:
    A = with_spectrum(500, 80, np.linspace(2, 1, 80), rng)
    for name, values in {"max_passes": (2, 4, 8), "tol": (1e-1, 1e-2, 1e-4)}.items():
        for value in values:
            yield svd(f"{name} {value:g}", A, 5, {name: value, "form": "implicit"})


def cca(name: str, X: Any, Y: Any, k: int, options: Any = None, **problem: Any) -> Case:
    def exact() -> np.ndarray:
        bases = [canonical_basis(view, **problem) for view in (X, Y)]
        return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:k]

    statuses = "CONVERGED", "RANK_DEFICIENT", "DEGENERATE"
    return Case(name, ls.CCA(X, Y, k, **problem), exact, options or {}, statuses)


def canonical_basis(view: Any, *, center: bool = True, ridge: float = 0.0, **given: Any) -> np.ndarray:
    """Orthonormal columns, or with a ridge the upper part of such, that span the view that is meant."""
    w = np.asarray(given.get("sample_weight", np.ones(view.shape[0])), dtype=np.longdouble)
    A = dense(view, np.longdouble)
    A = np.sqrt(w)[:, None] * (A - (w @ A) / w.sum() if center else A)
    if "confounds" in given:
        Z = np.hstack([np.ones((len(w), int(center))), given["confounds"]])
        Q = np.linalg.qr(np.asarray(np.sqrt(w)[:, None] * Z, dtype=np.float64))[0]
        A = A - Q @ (Q.T @ A)
    A = np.asarray(A, dtype=np.float64)
    if given.get("scale"):
        A = A / np.sqrt((A**2).sum(axis=0) / float(w.sum()))
    lengths = np.sqrt((A**2).sum(axis=0) + ridge)
    lengths[lengths == 0] = 1.0
    if ridge:
        stacked = np.vstack([A / lengths, np.sqrt(ridge) * np.diag(1 / lengths)])
        return np.linalg.qr(stacked)[0][: len(A)]
    U, s, _ = np.linalg.svd(A / lengths, full_matrices=False)
    return U[:, s > 1e-11 * s[0]]


def views(n: int, rho: Any, p: int, q: int, s: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Views of mean zero with these correlations, and with singular values s of both."""
    Q = np.linalg.qr(np.hstack([np.ones((n, 1)), rng.standard_normal((n, p + q))]))[0][:, 1:]
    U, V, m = Q[:, :p], Q[:, p:].copy(), len(rho)
    V[:, :m] = U[:, :m] * rho + V[:, :m] * np.sqrt(1 - np.asarray(rho) ** 2)
    made = []
    for basis, d in ((U, p), (V, q)):
        turned = basis @ np.linalg.qr(rng.standard_normal((d, d)))[0] * np.resize(s, d)
        made.append(turned @ with_spectrum(d, d, np.ones(d), rng))
    return made


def hard_correlations(rng: np.random.Generator) -> Iterator[Case]:
    for name, rho in {
        "clear": [0.9, 0.8, 0.7, 0.3, 0.2],
        "flat": np.linspace(0.5, 0.4, 12),
        "clusters": np.r_[0.9 * np.ones(3), 0.5 + 1e-7 * rng.standard_normal(8)],
        "tie at the cut": [0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 0.2],
        "near one": 1 - 10.0 ** -np.arange(2, 9),
        "near zero": 10.0 ** -np.arange(0.2, 6),
        "all equal": 0.6 * np.ones(12),
        "close after the cut": [0.9, 0.8, 0.7, 0.6999, 0.6998, 0.1],
    }.items():
        for e in (0, 2, 4):
            s = np.geomspace(1, 10.0**-e, 40)
            yield cca(f"{name}, condition 1e{e}", *views(400, rho, 40, 25, s, rng), 3)
    few = [0.9, 0.8, 0.3]
    for e in (2, 4, 6, 8):
        X, Y = views(400, few, 15, 12, [1.0], rng)
        yield cca(f"graded columns 1e-{e}", X * np.geomspace(1, 10.0**-e, 15), Y, 3)
    for e in (5, 6, 7):
        X, Y = views(400, few, 15, 12, np.geomspace(1, 10.0**-e, 15), rng)
        yield cca(f"singular values to 1e-{e}", X, Y, 3)
    X, Y = views(400, few, 15, 12, [1.0], rng)
    yield cca("dependent columns", np.hstack([X, X[:, :4] @ rng.standard_normal((4, 3))]), Y, 3)
    yield cca("a view of rank 2", X, Y[:, :2] @ rng.standard_normal((2, 9)), 4)
    yield cca("shared columns", X, np.hstack([Y, X[:, :2]]), 4)


def kinds_of_views(rng: np.random.Generator) -> Iterator[Case]:
    X, Y = views(500, [0.95, 0.8, 0.6, 0.2], 30, 20, np.geomspace(1, 1e-2, 30), rng)
    X, Y = X * 30, Y * 20
    for e in (2, 5, 8):
        far = 10.0**e * (1 + rng.random(30)) * X.std(axis=0)
        yield cca(f"means of 1e{e} deviations", X + far, Y, 4)
    yield cca("float32", X.astype(np.float32), Y.astype(np.float32), 4)
    yield cca("float32 and float64", X.astype(np.float32), Y, 4)
    for unit in (1e-50, 1e-25, 1e25, 1e50):
        yield cca(f"units of {unit:g}", X * unit, Y / unit, 4)
    for ridge in (1e-6, 1e-2, 1.0):
        yield cca(f"ridge {ridge:g}", X, Y, 4, ridge=ridge)
        wide = rng.standard_normal((60, 90)), rng.standard_normal((60, 80))
        yield cca(f"fewer rows, ridge {ridge:g}", *wide, 4, ridge=ridge)
    w, Z = rng.uniform(0, 3, 500), rng.standard_normal((500, 2))
    w[:50] = 0
    yield cca("weights", X, Y, 4, sample_weight=w)
    yield cca("confounds", X + Z @ rng.standard_normal((2, 30)) * 5, Y + Z[:, :1], 4, confounds=Z)
    yield cca("weights, confounds, scale", X, Y, 4, sample_weight=w, confounds=Z, scale=True)
    for center in (False, True):
        S, T = (sp.random(800, d, 0.05, random_state=rng, format="csr") for d in (200, 150))
        T = sp.csr_array(T + S[:, :150] * 0.5)
        yield cca(f"sparse, center={center}", sp.csr_array(S), T, 5, center=center)
        words, after = rng.integers(60, size=3000), rng.integers(50, size=3000)
        after = np.where(rng.random(3000) < 0.5, words % 50, after)
        hot = [sp.csr_array(np.eye(size)[codes]) for codes, size in ((words, 60), (after, 50))]
        yield cca(f"one-hot, center={center}", *hot, 5, center=center)


def correlations_ended_early(rng: np.random.Generator) -> Iterator[Case]:
    X, Y = views(600, np.linspace(0.9, 0.1, 30), 60, 40, np.geomspace(1, 1e-2, 60), rng)
    for name, values in {"max_passes": (3, 5, 9), "tol": (1e-1, 1e-2, 1e-4, 1e-8)}.items():
        for value in values:
            yield cca(f"{name} {value:g}", X, Y, 4, {name: value})


def counted_coefficients(found: Any, case: Case, exact: np.ndarray) -> tuple[str, float]:
    error = float(np.linalg.norm(np.ravel(found.x) - exact) / np.linalg.norm(exact))
    if found.converged and found.status.name in case.statuses:
        return ("silent" if error > 1e-2 else "right"), error
    return ("alarm" if error <= 1e-3 else "told"), error


def lstsq(name: str, A: Any, b: np.ndarray, keep: Any = slice(None), null: Any = None) -> Case:
    """Data, columns of the full rank, and a basis of the null space where columns are dependent."""

    def exact() -> np.ndarray:
        B, x = dense(A), np.zeros(A.shape[1])
        if A.shape[0] < A.shape[1]:
            return np.linalg.lstsq(B, b, rcond=None)[0]
        x[keep] = refined(B[:, keep], b.astype(np.float64))
        return x if null is None else x - null @ (null.T @ x)

    dependent = null is not None or A.shape[0] < A.shape[1]
    return Case(name, ls.LeastSquares(A, b), exact, {}, ("CONVERGED", "RANK_DEFICIENT")[: 1 + dependent])


def refined(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve by QR of the scaled columns, and refine residual and coefficients together in extended precision."""
    lengths = np.linalg.norm(A, axis=0)
    Q, R = np.linalg.qr(A / lengths)
    A, b = A.astype(np.longdouble), b.astype(np.longdouble)
    x, r = np.zeros(A.shape[1], np.longdouble), np.zeros(len(b), np.longdouble)
    for _ in range(6):
        f, g = np.asarray(b - r - A @ x, float), np.asarray(-(A.T @ r), float) / lengths
        h = scipy.linalg.solve_triangular(R, g, trans=1)
        d = Q.T @ f
        r = r + (f - Q @ (d - h))
        x = x + scipy.linalg.solve_triangular(R, d - h) / lengths
    return np.asarray(x, dtype=np.float64)


def noisy(name: str, A: Any, x: Any, rng: Any, *levels: float, **more: Any) -> Iterator[Case]:
    """A case for each level of noise, relative to the right-hand side."""
    b = A @ x
    size = np.linalg.norm(b) / np.sqrt(len(b))
    for level in levels or (0.0, 1e-3, 1.0):
        yield lstsq(f"{name}, noise {level:g}", A, b + level * size * rng.standard_normal(len(b)), **more)


def graded(rng: np.random.Generator) -> Iterator[Case]:
    """Polynomials, and columns, spectra and few directions of falling lengths."""
    for p in range(4, 15):
        A = np.vander(np.linspace(0, 1, 200), p)
        yield from noisy(f"Vandermonde {p}", A, rng.standard_normal(p), rng)
    for e in (2, 4, 6, 8, 10, 12):
        lengths = np.geomspace(1, 10.0**-e, 12)
        A = rng.standard_normal((200, 12)) * lengths
        yield from noisy(f"graded columns 1e-{e}", A, rng.standard_normal(12) / lengths, rng, 0.0, 1e-3)
        yield from noisy(f"graded columns 1e-{e}, equal", A, np.ones(12), rng, 0.0)
        for name, s in {
            "graded spectrum": np.geomspace(1, 10.0**-e, 16),
            "one short": np.r_[np.ones(15), 10.0**-e],
            "two clusters": np.r_[np.ones(30), 10.0**-e * np.ones(10)],
        }.items():
            A = with_spectrum(300, len(s), s, rng)
            yield from noisy(f"{name} 1e-{e}", A, rng.standard_normal(len(s)), rng)


def near_copy(rng: np.random.Generator, e: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight columns, of which two nearly agree, and coefficients."""
    A = rng.standard_normal((200, 8))
    A[:, 1] = A[:, 0] + 10.0**-e * rng.standard_normal(200)
    return A, np.r_[50.0, -50.0, np.ones(6)]


def near_copies(rng: np.random.Generator) -> Iterator[Case]:
    for e in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11):
        yield from noisy(f"near copy 1e-{e}", *near_copy(rng, e), rng)
    t = np.linspace(-1, 1, 60)
    for width in (0.03, 0.05, 0.08):
        G = np.exp(-(((t[:, None] - t) / width) ** 2))
        yield from noisy(f"blur {width}", np.vstack([G, G]), np.sin(3 * t), rng)


def sparse_copies(rng: np.random.Generator) -> Iterator[Case]:
    """Sparse designs of up to 3,000 columns, without and with near copies."""
    for p, n, copies in ((60, 400, 1), (300, 2000, 3), (1200, 5000, 2), (1700, 6000, 1), (3000, 9000, 3)):
        S = sp.random(n, p - copies, 0.1 if p < 100 else 8 / p, random_state=rng, format="csc")
        S.data = S.data + 0.5
        S = S + sp.eye_array(n, p - copies, format="csc")
        yield from noisy(f"sparse {p}", sp.csr_array(S), np.ones(p - copies), rng, 1e-3)
        for e in (2, 4, 6):
            C = S[:, :copies].copy()
            C.data = C.data * (1 + 10.0**-e * rng.standard_normal(len(C.data)))
            x = np.r_[50 * np.ones(copies), np.ones(p - 2 * copies), -50 * np.ones(copies)]
            A = sp.csr_array(sp.hstack([S, C]))
            yield from noisy(f"sparse near copy {p}, 1e-{e}", A, x, rng, 0.0, 1e-3)


def float32(rng: np.random.Generator) -> Iterator[Case]:
    pairs = [(f"near copy 1e-{e}", *near_copy(rng, e), 1e-2) for e in (1, 2, 3, 4, 5)]
    pairs += [(f"Vandermonde {p}", np.vander(np.linspace(0, 1, 300), p), np.ones(p), 0.1) for p in (5, 6, 8)]
    for name, A, x, noise in pairs:
        A = A.astype(np.float32)
        for level in (0.0, noise):
            b = A.astype(float) @ x + level * rng.standard_normal(len(A))
            yield lstsq(f"float32 {name}, noise {level:g}", A, b.astype(np.float32))


def dependent(rng: np.random.Generator) -> Iterator[Case]:
    """Dependent columns, and fewer rows than columns: the answer of least norm."""
    for repeat in range(3):
        B, N = rng.standard_normal((150, 8)), np.vstack([np.eye(8, 3), -np.eye(3)]) / np.sqrt(2)
        known = {"keep": np.arange(8), "null": N}
        A, x = np.hstack([B, B[:, :3]]), rng.standard_normal(11)
        yield from noisy(f"copies {repeat}", A, x, rng, 0.0, 1.0, **known)
        group = np.eye(6)[rng.integers(6, size=200)]
        A = np.hstack([np.ones((200, 1)), group, rng.standard_normal((200, 2))])
        known = {"keep": np.arange(1, 9), "null": np.r_[-1.0, np.ones(6), 0, 0][:, None] / np.sqrt(7)}
        yield from noisy(f"dummies {repeat}", A, rng.standard_normal(9), rng, 1.0, **known)
        A = rng.standard_normal((30, 50))
        yield from noisy(f"wide {repeat}", A, rng.standard_normal(50), rng, 1.0)


def counted_spectra(found: Any, case: Case, exact: np.ndarray) -> tuple[str, float]:
    return counted_values(found, case, exact, found.S, exact, 1e-14 * exact[0], 1.0)


def counted_correlations(found: Any, case: Case, exact: np.ndarray) -> tuple[str, float]:
    values = np.r_[found.correlations, np.zeros(max(0, len(exact) - len(found.correlations)))]
    return counted_values(found, case, exact, values, np.ones(len(exact)), 1e-13, exact.sum())


CORRELATIONS = hard_correlations, kinds_of_views, correlations_ended_early
LEAST_SQUARES = graded, near_copies, sparse_copies, float32, dependent
SPECTRA = hard_spectra, kinds_of_matrices, spectra_ended_early
ALL = "auto,direct,cg,lsqr,nystrom-pcg,ling,sketch-precondition,gd,svrg"
BEDS = {
    "correlations": Bed("correlations", counted_correlations, CORRELATIONS, "auto,gram,direct,als,lobpcg"),
    "least-squares": Bed("coefficients", counted_coefficients, LEAST_SQUARES, ALL),
    "spectra": Bed("values", counted_spectra, SPECTRA, "auto,gram,direct,block-krylov,lanczos"),
}

if __name__ == "__main__":
    sys.exit(main())
