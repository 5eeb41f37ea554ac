"""How fast alternating least squares (ALS) converges, and what the threshold of sparse AppGrad finds.

    python docs/evidence/cca_convergence.py [--quick] [--parts als sparse] [--seeds 3] [--record]

ALS. Golub & Zha 1995 (doi:10.1007/978-1-4612-4228-4_3) and Lu 2015 (Fast linear algorithms for machine learning,
Theorem 3.3.1) show that alternating projections on two views are an orthogonal iteration for the squared
correlations: with exact least squares the angle between the block and the leading pairs shrinks by (ρ_{k+1}/ρ_k)²
an iteration. Carrying b columns more replaces ρ_{k+1} by ρ_{k+b+1}. Measured on views whose correlations are
planted exactly: the sine of the largest angle between the variates of the iterate and the planted ones, and its
factor an iteration in the end, where it has come down to 1e-10. With regressions that only reduce the error by a
constant factor, Wang, Wang, Garber & Srebro 2016 (NIPS 29, arXiv:1604.01870) prove linear convergence still, at a
slower rate: conjugate gradients that reduce the error tenfold, and how straight the line is.

Sparse AppGrad. Ma, Lu & Foster 2015 (ICML, PMLR 37, section 5) propose a soft threshold between gradient step and
normalisation for weights with few entries. Measured on views with planted sparse pairs and columns of noise: the
F1 of the columns found, and the correlations on rows that were not fitted, beside those of AppGrad without a
threshold and of the exact solution with the ridge that is best on the rows left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from showing import Claim, Report, arguments, at_most

import linspec as ls

FIRST, SMALLEST = 1e-2, 1e-10
"""The sine from which convergence is looked at, and where a run ends."""

LAST = 3
"""Iterations at the end over which the factor is taken: the theorem is about the limit."""

ROOM = 0.05
"""Relative difference between the measured factor and that of the theorem."""

STRAIGHT = 0.99
"""Correlation of the logarithms with the iterations from which convergence is called linear."""

FOUND = 0.95
"""F1 score from which on a support counts as recovered."""

RIDGES = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Step:
    """The sine of an iterate."""

    case: str
    iteration: int
    passes: float
    sine: float


@dataclass(frozen=True)
class Rate:
    """A factor an iteration, measured and as the theorem has it."""

    case: str
    measured: float
    theorem: float
    straight: float


@dataclass(frozen=True)
class Sparse:
    """Columns found, and correlations on rows that were not fitted; means of the seeds."""

    n: int
    columns: int
    method: str
    f1: float
    held_out: float


# ---- als -------------------------------------------------------------------------------------------


def planted(correlations: np.ndarray, n: int, q: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Views of q columns with these canonical correlations, exactly, and the canonical variates of X."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((n, 2 * q)))[0]
    U, other = Q[:, :q], Q[:, q:]
    V = U * correlations + other * np.sqrt(1 - correlations**2)
    mixed = [np.linalg.qr(rng.standard_normal((q, q)))[0] * np.linspace(1, 3, q) for _ in range(2)]
    return U @ mixed[0].T, V @ mixed[1].T, U


def followed(case: str, k: int, correlations: np.ndarray, n: int, **options: Any) -> list[Step]:
    """The sines of all iterates."""
    X, Y, U = planted(correlations, n, len(correlations))
    steps = []

    def look(progress: Any) -> bool:
        P = np.linalg.qr(X @ progress.current()["x_weights"])[0]
        sine = np.linalg.norm(U[:, :k] - P @ (P.T @ U[:, :k]), 2)
        steps.append(Step(case, progress.iteration, progress.passes, float(sine)))
        return bool(sine < SMALLEST)

    problem = ls.CCA(X, Y, k=k, center=False)
    ls.solve(problem, "als", callback=look, rng=0, tol=1e-30, max_iterations=300, **options)
    return steps


def factor(steps: list[Step]) -> tuple[float, float]:
    """The mean factor of the last LAST iterations, and the correlation of the logarithms with a falling line."""
    inside = [(step.iteration, np.log(step.sine)) for step in steps if step.sine <= FIRST]
    iterations, logarithms = np.array(inside).T
    last = float(np.exp((logarithms[-1] - logarithms[-1 - LAST]) / LAST))
    return last, -float(np.corrcoef(iterations, logarithms)[0, 1])


def rates(n: int) -> tuple[list[Step], list[Rate]]:
    """Three gaps, with and without columns to spare, with exact and inexact regressions."""
    exact = {"lstsq": "direct"}
    steps, found = [], []
    for gap in (0.9, 0.7, 0.5):
        tail = (
            0.96 * gap * np.repeat([1.0, 0.8], [10, 17])
        )  # two values, so that one factor rules from the start
        correlations = 0.95 * np.concatenate([[1, 0.98, 0.96], tail])
        cases = {
            f"{gap:g}, exact": ({"oversample": 0, **exact}, 3),
            f"{gap:g}, exact, 10 columns more": ({"oversample": 10, **exact}, 13),
            f"{gap:g}, conjugate gradients": ({"oversample": 0}, 3),
        }
        for case, (options, b) in cases.items():
            course = followed(case, 3, correlations, n, **options)
            steps += course
            measured, straight = factor(course)
            found.append(Rate(case, measured, float((correlations[b] / correlations[2]) ** 2), straight))
    return steps, found


def claims_on_rates(found: list[Rate]) -> Iterator[Claim]:
    """Held or not."""
    for words, ending in (
        (
            "the angle of ALS shrinks by (ρ_{k+1}/ρ_k)² an iteration in the end (Golub & Zha; Lu 2015, Theorem 3.3.1)",
            "exact",
        ),
        ("with b columns to spare by (ρ_{k+b+1}/ρ_k)²", "columns more"),
    ):
        rows = [row for row in found if row.case.endswith(ending)]
        off = max(abs(row.measured / row.theorem - 1) for row in rows)
        told = "; ".join(f"{row.measured:.4f} for {row.theorem:.4f}" for row in rows)
        yield at_most(words, off, ROOM, told)
    rows = [row for row in found if row.case.endswith("gradients")]
    told = "; ".join(f"{row.measured:.4f} an iteration, correlation {row.straight:.4f}" for row in rows)
    yield Claim(
        "with regressions that reduce the error tenfold it still converges linearly (Wang et al. 2016)",
        min(row.straight for row in rows) >= STRAIGHT,
        told,
    )


# ---- sparse ----------------------------------------------------------------------------------------


def sparse_views(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two pairs, each of three columns of either view (columns 0 to 5), correlation 0.9 and 0.8; the rest is noise."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((2, n, p))
    for pair, correlation in enumerate((0.9, 0.8)):
        shared = rng.standard_normal(n)
        for view in (X, Y):
            own = view[:, 3 * pair : 3 * pair + 3]
            mean = own.mean(axis=1, keepdims=True)
            signal = np.sqrt(correlation) * shared[:, None] + np.sqrt(3 * (1 - correlation)) * mean
            own += signal / np.sqrt(3) - mean  # their sum, over √3, is the variate; each keeps variance 1
    return X, Y


def f1(weights: np.ndarray, columns: int) -> float:
    """Compute the F1 score of the columns with nonzero weights against the first six."""
    picked = np.any(weights != 0, axis=1)
    right = picked[:columns].sum()
    return float(2 * right / (picked.sum() + columns))


def sparse(n: int, p: int, seeds: int) -> Iterator[Sparse]:
    """Means over the seeds, by method."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        X, Y = sparse_views(n + 2000, p, seed)
        problem = ls.CCA(X[:n], Y[:n], k=2)
        answers = {
            "sparse-appgrad": ls.solve(problem, "sparse-appgrad", rng=0),
            "appgrad": ls.solve(problem, "appgrad", rng=0),
        }
        path = ls.ridge_path(problem, RIDGES, test=(X[n : n + 1000], Y[n : n + 1000]))
        answers["exact, best ridge"] = path.best_solution
        for name, answer in answers.items():
            total = answer.score(X[n + 1000 :], Y[n + 1000 :]).total
            both = [f1(weights, 6) for weights in (answer.x_weights, answer.y_weights)]
            found.setdefault(name, []).append((float(np.mean(both)), total))
    for name, rows in found.items():
        yield Sparse(n, p, name, *(float(value) for value in np.mean(rows, axis=0)))


def claims_on_sparse(found: list[Sparse]) -> Iterator[Claim]:
    """Held or not, for views with more rows than columns, and with fewer."""
    for words, of in (
        ("more rows than columns", lambda row: row.n > row.columns),
        ("fewer", lambda row: row.n <= row.columns),
    ):
        rows = {(row.n, row.columns, row.method): row for row in found if of(row)}
        cases = sorted({key[:2] for key in rows})
        least = min(rows[(*case, "sparse-appgrad")].f1 for case in cases)
        told = ", ".join(f"{n} x {p}: {rows[n, p, 'sparse-appgrad'].f1:.3f}" for n, p in cases)
        yield Claim(
            f"a soft threshold finds the columns, {words} (Ma, Lu & Foster 2015, section 5)",
            least >= FOUND,
            told,
        )
        lead = [
            rows[(*case, "sparse-appgrad")].held_out - rows[(*case, "exact, best ridge")].held_out
            for case in cases
        ]
        told = ", ".join(f"{n} x {p}: {value:+.3f}" for (n, p), value in zip(cases, lead, strict=True))
        yield Claim(
            f"its correlations on new rows are above those of the best ridge, {words}", min(lead) > 0, told
        )


def main() -> int:
    """Measure, print, record."""
    parser = arguments(__doc__)
    parts = ("als", "sparse")
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts), help="both")
    parser.add_argument("--seeds", type=int, default=3, help="views of each shape (3)")
    report = Report(parser)
    given = report.given
    if "als" in given.parts:
        steps, found = rates(300 if given.quick else 2000)
        table = report.table("case", "an iteration::.5f", "theorem::.5f", "straight::.4f")
        for rate in found:
            table.row(*astuple(rate))
        report.keep("steps", steps)
        report.keep("rates", found)
        report.say(claims_on_rates(found))
    if "sparse" in given.parts:
        shapes = (
            ((500, 20), (100, 150)) if given.quick else ((1000, 50), (1000, 200), (1000, 500), (300, 500))
        )
        rows = [row for shape in shapes for row in sparse(*shape, 1 if given.quick else given.seeds)]
        table = report.table("n", "columns", "method", "F1::.3f", "new rows::.3f")
        for row in rows:
            table.row(*astuple(row))
        report.keep("sparse", rows)
        report.say(claims_on_sparse(rows))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
