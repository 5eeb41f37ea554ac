"""Print what kernel CCA takes and finds on the halves of MNIST's images.

Run `python docs/evidence/measure_kernel.py --data FOLDER --rows 5000`; `--quick` takes small generated data instead.

Left 14 columns against right 14, pixels/255 in float32, k = 10, Gaussian kernels of half the median distance, ridge
1e-4 n. `nystrom-lobpcg` is followed pass by pass: kernel passes alone, since the reading of the rows and the columns of
landmarks are printed beside. With `--truth` its correlations are held against those of the same rows in float64 to a
residual of 1e-16, and the law against the exact norm, by Cholesky factors. Then what the solvers capture of the test
images: the sum of ten correlations of the variates, without a ridge. Seconds are CPU seconds: give it one BLAS thread.

`--study` asks something else of the same data. `fourier`: how many random features `rff-kcca` needs for what
`nystrom-kcca` captures with 500 and 1,000 landmarks. `appgrad`: what Ma, Lu & Foster (2015, section 2.4) say of AppGrad
with kernels, and passes to the same law beside `nystrom-lobpcg`. `knoi`: what it captures after 1, 3 and 10 epochs,
beside `rff-kcca` with as many features.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import scipy.linalg
from datasets import mnist_halves, test_halves
from showing import Report, Table, arguments
from timing import resident, timed

import linspec as ls
from linspec.rows import Passes

K, PENALTY = 10, 1e-4
KERNEL = ls.kernels.rbf(factor=0.5)


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--storage", default="auto")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--truth", action="store_true", help="hold the answer against one of float64")
    parser.add_argument("--columns", type=int, nargs="*", default=[250, 500, 1000, 1500])
    parser.add_argument("--study", choices=["solvers", "fourier", "appgrad", "knoi"], default="solvers")
    parser.add_argument("--passes", type=int, default=3000, help="the most that AppGrad may take")
    parser.add_argument("--epochs", type=int, nargs="*", default=[1, 3, 10])
    report = Report(parser)
    given = report.given
    X, Y = (A.astype(np.float32) for A in mnist_halves(given))
    order = np.random.default_rng(0).permutation(len(X))
    n = min(given.rows, len(X) - len(X) // 6 if given.quick else len(X))
    test = (
        (X[order[n:]], Y[order[n:]])
        if given.quick
        else tuple(A.astype(np.float32) for A in test_halves(given))
    )
    X, Y = X[order[:n]], Y[order[:n]]
    problem = ls.KernelCCA(X, Y, K, KERNEL, ridge=PENALTY * n)
    print(problem)
    {"solvers": solvers, "fourier": fourier_study, "appgrad": appgrad_study, "knoi": knoi_study}[given.study](
        report, problem, test
    )
    return report.end()


def solvers(report: Report, problem: Any, test: Any) -> None:
    """Measure the cost of the solvers, and the correlations that they capture."""
    given, n = report.given, problem.X.shape[0]
    exact = truth_of(problem) if given.truth else None
    for seed in range(given.seeds):
        flagship(report, problem, test, seed, exact)
    table = approximations(report)
    linear, watch = timed(ls.solve, ls.CCA(problem.X, problem.Y, K, ridge=PENALTY * n))
    total = linear.score(*test).total
    table.row("linear CCA", "", total, total, linear.correlations.sum(), watch.cpu, resident() / 1024, "")
    for m in given.columns:
        if m <= n:
            approximate(table, problem, "nystrom-kcca", {"landmarks": m}, test, given.seeds)
        approximate(table, problem, "rff-kcca", {"features": m}, test, given.seeds)


def truth_of(problem: Any) -> np.ndarray:
    """The correlations of the rows in float64, with the scales that a run with seed 0 takes."""
    kernels = problem.moments_of_its_own(Passes()).settle(np.random.default_rng(0))
    rows = [A.dense().astype(np.float64) for A in (problem.X, problem.Y)]
    wide = ls.KernelCCA(*rows, K, *kernels, ridge=problem.ridge)
    found = ls.solve(wide, "nystrom-lobpcg", rng=0, tol=1e-16)
    print(f"truth: residual {found.residual:.1e}, {found.iterations + 1} kernel passes, float64")
    return found.correlations


def flagship(report: Report, problem: Any, test: Any, seed: int, exact: np.ndarray | None) -> None:
    """`nystrom-lobpcg`, pass by pass."""
    given = report.given
    rows: list[tuple[float, float, float, float]] = []
    kernels = problem.moments_of_its_own(Passes()).settle(np.random.default_rng(0))
    fixed = ls.KernelCCA(problem.X, problem.Y, K, *kernels, ridge=problem.ridge)
    settings = {"rng": seed, "tol": given.tol, "landmarks": given.landmarks}
    answers: list[Any] = []
    if exact is not None:
        moments = fixed.moments_of_its_own(Passes())
        ls.solve(fixed, "nystrom-lobpcg", callback=lambda p: answers.append(p.current()), **settings)
    began = time.process_time()

    def watch(progress: Any) -> None:
        rows.append((progress.iteration + 1, progress.residual, time.process_time() - began, progress.passes))

    found, taken = timed(ls.solve, fixed, "nystrom-lobpcg", storage=given.storage, callback=watch, **settings)
    table = report.table(
        "kernel pass::.0f", "claimed law::.2e", "CPU s::.1f", "error::.1e", "law::.2e", "over the exact norm::.3f",
        title=f"nystrom-lobpcg, seed {seed}, {given.landmarks} landmarks: {found}",
    )  # fmt: skip
    for i, row in enumerate(rows):
        judged: tuple[float, ...] = ()
        if exact is not None:
            conclusion = fixed.certify(moments, answers[i], given.tol)
            gap, law = np.abs(conclusion.fields["correlations"] - exact).max(), conclusion.residual
            judged = float(gap), law, law / exact_norm(fixed, moments, conclusion)
        table.row(*row[:3], *judged)
    total, judging = timed(found.score, *test)
    print(
        f"\nset-up {rows[0][3] - 1:.3f} passes (reading, columns, a block), certificate 2; CPU {taken.cpu:.1f} s; sum "
        f"{found.correlations.sum():.6f}, largest bound {found.bounds.max():.1e}, test TCC10 {total.total:.4f}; test "
        f"rows CPU {judging.cpu:.1f} s; peak {resident() / 1024:.2f} GiB"
    )


FACTORS: dict[str, Any] = {}
"""Kernel matrices in float64 and their Cholesky factors, by view."""


def exact_norm(problem: Any, moments: Any, conclusion: Any) -> float:
    """The law with RᵀK(K + r)⁻¹R in place of its bound."""
    for op, ridge in zip(moments.operators, problem.ridge, strict=True):
        if op.name not in FACTORS:
            matrix = np.asarray(op.dense(), dtype=np.float64)
            FACTORS[op.name] = (
                matrix,
                scipy.linalg.cho_factor(matrix + ridge * np.eye(len(matrix)), lower=True),
            )
    fields = conclusion.fields
    a, b = (np.asarray(fields[name], dtype=np.float64) for name in ("x_weights", "y_weights"))
    a, b, rho = a - a.mean(axis=0), b - b.mean(axis=0), fields["correlations"]
    (Kx, x), (Ky, y) = FACTORS["X"], FACTORS["Y"]
    total = 0.0
    for R, matrix, factor in (
        (Ky @ b - rho * (Kx @ a + problem.ridge[0] * a), Kx, x),
        (Kx @ a - rho * (Ky @ b + problem.ridge[1] * b), Ky, y),
    ):
        total += float(np.sum((matrix @ R) * scipy.linalg.cho_solve(factor, R)))
    return total / float(rho.sum())


def approximations(report: Report) -> Table:
    """The table of `approximate`."""
    return report.table(
        "solver", "options", "test TCC10, median::.4f", "worst::.4f", "sum of training correlations::.4f", "CPU s::.1f",
        "peak, GiB::.2f", "residual",
    )  # fmt: skip


def approximate(
    table: Table, problem: Any, solver: str, options: dict[str, int], test: Any, seeds: int
) -> None:
    """Measure the correlations that an approximation captures on the test images, over seeds."""
    totals, spent = [], []
    for seed in range(seeds):
        found, watch = timed(ls.solve, problem, solver, rng=seed, **options)
        spent.append(watch.cpu)
        totals.append(found.score(*test).total)
    words = ", ".join(f"{name} {value}" for name, value in options.items())
    captured = float(np.median(totals)), min(totals), found.correlations.sum()
    said = f"{found.residual_kind}, {found.residual:.2g}"
    table.row(solver, words, *captured, float(np.median(spent)), resident() / 1024, said)


def by_landmarks(table: Table, problem: Any, test: Any, seeds: int) -> None:
    """Measure landmarks, for comparison with random features."""
    for m in (500, 1000):
        chosen = {"landmarks": min(m, problem.X.shape[0])}
        approximate(table, problem, "nystrom-kcca", chosen, test, seeds)


def fourier_study(report: Report, problem: Any, test: Any) -> None:
    """Random features against landmarks."""
    table, given = approximations(report), report.given
    by_landmarks(table, problem, test, given.seeds)
    for count in given.columns:
        approximate(table, problem, "rff-kcca", {"features": count}, test, given.seeds)


LAWS = (1e-1, 1e-2, 1e-3, 1e-4)

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "k columns": {"extra": 0},
}
"""Options of `kernel-appgrad`."""


def appgrad_study(report: Report, problem: Any, test: Any) -> None:
    """Measure the claims of AppGrad with kernels, and its passes to a law."""
    given = report.given
    kernels = problem.moments_of_its_own(Passes()).settle(np.random.default_rng(0))
    fixed = ls.KernelCCA(problem.X, problem.Y, K, *kernels, ridge=problem.ridge)
    laws = (name for law in LAWS for name in (f"passes to {law:.0e}::.1f", "CPU s::.1f"))
    head = ("all passes::.1f", "CPU s::.1f", "law::.1e", "least claimed::.1e", "sum::.6f", "test TCC10::.4f")
    table = report.table("solver", "seed", *laws, *head)
    for seed in range(given.seeds):
        options = {"landmarks": given.landmarks, "tol": given.tol}
        exact = followed(table, fixed, test, "nystrom-lobpcg", "", options, seed)
        if seed == 0:
            moved = fixed_point(fixed, exact)
        for words, chosen in VARIANTS.items():
            each = 2 if chosen.get("gradient") == "coefficients" else 1
            options = {**chosen, "tol": LAWS[-1], "max_iterations": given.passes // each}
            followed(table, fixed, test, "kernel-appgrad", f", {words}", options, seed)
    print(f"\nfixed point: a step leaves the answer but for {moved:.1e} of the target")


def followed(
    table: Table, problem: Any, test: Any, solver: str, words: str, options: dict[str, Any], seed: int
) -> ls.Solution:
    """Passes and CPU seconds of a solver to each law."""
    began, rows = time.process_time(), []

    def watch(progress: Any) -> None:
        rows.append((progress.residual, progress.passes, time.process_time() - began))

    found = ls.solve(problem, solver, rng=seed, callback=watch, **options)
    reached = [next((row[1:] for row in rows if row[0] <= law), (None, None)) for law in LAWS]
    least = min(residual for residual, *_ in rows)
    table.row(
        solver + words, seed, *(x for pair in reached for x in pair), *rows[-1][1:], found.residual, least,
        found.correlations.sum(), found.score(*test).total,
    )  # fmt: skip
    return found


def fixed_point(problem: Any, exact: ls.Solution) -> float:
    """How far a step moves the exact answer, its correlations beside it."""
    moments = problem.moments_of_its_own(Passes())
    a, b = (np.asarray(V, dtype=np.float64) for V in (exact.x_weights, exact.y_weights))
    a, b, rho = a - a.mean(axis=0), b - b.mean(axis=0), exact.correlations
    (Ka, _), (Kb, _) = (op.product(V) for op, V in zip(moments.operators, (a, b), strict=True))
    moved = []
    for v, Kv, Kw, ridge in ((a, Ka, Kb, problem.ridge[0]), (b, Kb, Ka, problem.ridge[1])):
        change = (Kv + ridge * v) * rho - Kw
        moved.append(np.linalg.norm(change) / np.linalg.norm(Kw))
    return float(max(moved))


def knoi_study(report: Report, problem: Any, test: Any) -> None:
    """Epochs of `knoi`, and the exact CCA of as many features."""
    table, given = approximations(report), report.given
    by_landmarks(table, problem, test, given.seeds)
    for count in given.columns:
        for epochs in given.epochs:
            approximate(table, problem, "knoi", {"features": count, "epochs": epochs}, test, given.seeds)
        approximate(table, problem, "rff-kcca", {"features": count}, test, given.seeds)


if __name__ == "__main__":
    sys.exit(main())
