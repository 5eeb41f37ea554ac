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

import resource
import time
import warnings
from typing import Any

import numpy as np
import scipy.linalg
from datasets import arguments, find, mnist_halves

import linspec as ls

K, PENALTY = 10, 1e-4
KERNEL = ls.kernels.rbf(factor=0.5)


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
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
    given = parser.parse_args()
    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
    X, Y = (A.astype(np.float32) for A in mnist_halves(given))
    order = np.random.default_rng(0).permutation(len(X))
    n = min(given.rows, len(X) - len(X) // 6 if given.quick else len(X))
    test = (X[order[n:]], Y[order[n:]]) if given.quick else test_halves(given)
    X, Y = X[order[:n]], Y[order[:n]]
    problem = ls.get_problem("kernel-cca")(X, Y, K, KERNEL, ridge=PENALTY * n)
    print(problem)
    if given.study != "solvers":
        {"fourier": fourier_study, "appgrad": appgrad_study, "knoi": knoi_study}[given.study](
            problem, test, given
        )
        return
    linear = ls.solve(ls.CCA(X, Y, K, ridge=PENALTY * n))
    print(f"linear CCA: test TCC10 {linear.score(*test).total:.4f}")
    exact = truth_of(problem) if given.truth else None
    for seed in range(given.seeds):
        flagship(problem, test, given, seed, exact)
    for m in given.columns:
        if m <= n:
            approximate(problem, "nystrom-kcca", {"landmarks": m}, test, given.seeds)
        approximate(problem, "rff-kcca", {"features": m}, test, given.seeds)


def test_halves(given: Any) -> tuple[np.ndarray, np.ndarray]:
    """The halves of the test images."""
    images = np.load(find(given, "mnist/mnist.npz"))["X_test"].reshape(-1, 28, 28) / 255.0
    halves = images[:, :, :14], images[:, :, 14:]
    return tuple(np.ascontiguousarray(half.reshape(len(images), -1), dtype=np.float32) for half in halves)


def truth_of(problem: Any) -> np.ndarray:
    """The correlations of the rows in float64, with the scales that a run with seed 0 takes."""
    kernels = problem.moments("auto", (1, 1)).settle(np.random.default_rng(0))
    rows = [A.dense().astype(np.float64) for A in (problem.X, problem.Y)]
    wide = ls.get_problem("kernel-cca")(*rows, K, *kernels, ridge=problem.ridge)
    found = ls.solve(wide, "nystrom-lobpcg", rng=0, tol=1e-16)
    print(f"truth: residual {found.residual:.1e}, {found.iterations + 1} kernel passes, float64")
    return found.correlations


def flagship(problem: Any, test: Any, given: Any, seed: int, exact: np.ndarray | None) -> None:
    """`nystrom-lobpcg`, pass by pass."""
    began = time.process_time()
    judge = problem if exact is None else None
    rows: list[tuple[float, float, float, float]] = []

    def watch(progress: Any) -> None:
        rows.append((progress.iteration + 1, progress.residual, time.process_time() - began, progress.passes))

    kernels = problem.moments("auto", (1, 1)).settle(np.random.default_rng(0))
    fixed = ls.get_problem("kernel-cca")(problem.X, problem.Y, K, *kernels, ridge=problem.ridge)
    answers = []
    if judge is None:
        moments = fixed.moments("auto", (1, 1))
        ls.solve(
            fixed,
            "nystrom-lobpcg",
            rng=seed,
            tol=given.tol,
            landmarks=given.landmarks,
            callback=lambda progress: answers.append(progress.current()),
        )
    began = time.process_time()
    found = ls.solve(
        fixed,
        "nystrom-lobpcg",
        rng=seed,
        tol=given.tol,
        landmarks=given.landmarks,
        storage=given.storage,
        callback=watch,
    )
    seconds = time.process_time() - began
    print(f"nystrom-lobpcg, seed {seed}, {given.landmarks} landmarks: {found}")
    print(
        f"  set-up {rows[0][3] - 1:.3f} passes (reading, columns, a block), certificate 2; CPU {seconds:.1f} s"
    )
    for i, (passes, residual, spent, _) in enumerate(rows):
        error = ""
        if exact is not None:
            conclusion = fixed.conclude(moments, **answers[i])
            gap = np.abs(conclusion.fields["correlations"] - exact).max()
            error = f"  error {gap:.1e}  law {conclusion.residual:.2e}"
            error += (
                f"  over the exact norm {conclusion.residual / exact_norm(fixed, moments, conclusion):.3f}"
            )
        print(f"  kernel pass {passes:2.0f}  claimed law {residual:.2e}  CPU {spent:6.1f} s{error}")
    began = time.process_time()
    total = found.score(*test).total
    print(
        f"  sum {found.correlations.sum():.6f}  largest bound {found.bounds.max():.1e}  test TCC10 {total:.4f}"
    )
    print(f"  test rows CPU {time.process_time() - began:.1f} s; peak {peak():.2f} GB")


FACTORS: dict[str, Any] = {}
"""Kernel matrices in float64 and their Cholesky factors, by view."""


def exact_norm(problem: Any, moments: Any, conclusion: Any) -> float:
    """The law with RᵀK(K + r)⁻¹R in place of its bound."""
    for op, ridge in zip(moments.views, problem.ridge, strict=True):
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


def approximate(problem: Any, solver: str, options: dict[str, int], test: Any, seeds: int) -> None:
    """What an approximation captures of the test images, over seeds."""
    totals, spent = [], []
    for seed in range(seeds):
        began = time.process_time()
        found = ls.solve(problem, solver, rng=seed, **options)
        spent.append(time.process_time() - began)
        totals.append(found.score(*test).total)
    words = ", ".join(f"{name} {value}" for name, value in options.items())
    print(
        f"{solver}, {words}: test TCC10 median {np.median(totals):.4f}, worst {min(totals):.4f}; sum of training "
        f"correlations {found.correlations.sum():.4f} ({found.residual_kind}, {found.residual:.2g}); CPU "
        f"{np.median(spent):.1f} s"
    )


def fourier_study(problem: Any, test: Any, given: Any) -> None:
    """Random features against landmarks."""
    for m in (500, 1000):
        approximate(problem, "nystrom-kcca", {"landmarks": min(m, problem.X.shape[0])}, test, given.seeds)
    for count in given.columns:
        approximate(problem, "rff-kcca", {"features": count}, test, given.seeds)
        print(f"  peak {peak():.2f} GB", flush=True)


LAWS = (1e-1, 1e-2, 1e-3, 1e-4)

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "k columns": {"extra": 0},
    "old functions of the first view": {"update": "simultaneous"},
    "gradient by coefficients": {"gradient": "coefficients"},
    "as printed": {"gradient": "coefficients", "update": "simultaneous", "extra": 0},
}
"""Options of `kernel-appgrad`, from the default to what is printed."""


def appgrad_study(problem: Any, test: Any, given: Any) -> None:
    """What is claimed of AppGrad with kernels, and passes to a law."""
    kernels = problem.moments("auto", (1, 1)).settle(np.random.default_rng(0))
    fixed = ls.get_problem("kernel-cca")(problem.X, problem.Y, K, *kernels, ridge=problem.ridge)
    for seed in range(given.seeds):
        options = {"landmarks": given.landmarks, "tol": given.tol}
        exact = followed(fixed, test, "nystrom-lobpcg", "", options, seed)
        if seed == 0:
            fixed_point(fixed, exact)
        for words, chosen in VARIANTS.items():
            each = 2 if chosen.get("gradient") == "coefficients" else 1
            options = {**chosen, "tol": LAWS[-1], "max_iterations": given.passes // each}
            followed(fixed, test, "kernel-appgrad", f", {words}", options, seed)


def followed(
    problem: Any, test: Any, solver: str, words: str, options: dict[str, Any], seed: int
) -> ls.Solution:
    """Passes and CPU seconds of a solver to each law."""
    began, rows = time.process_time(), []

    def watch(progress: Any) -> None:
        rows.append((progress.residual, progress.passes, time.process_time() - began))

    found = ls.solve(problem, solver, rng=seed, callback=watch, **options)
    print(f"{solver}{words}, seed {seed}: {found}")
    for law in LAWS:
        first = next(((passes, spent) for residual, passes, spent in rows if residual <= law), None)
        reached = "not reached" if first is None else f"after {first[0]:7.1f} passes, CPU {first[1]:6.1f} s"
        print(f"  law {law:.0e} {reached}")
    print(
        f"  all {rows[-1][1]:.1f} passes, CPU {rows[-1][2]:.1f} s: law {found.residual:.1e}, least claimed "
        f"{min(residual for residual, *_ in rows):.1e}, sum {found.correlations.sum():.6f}, test TCC10 "
        f"{found.score(*test).total:.4f}",
        flush=True,
    )
    return found


def fixed_point(problem: Any, exact: ls.Solution) -> None:
    """How far a step moves the exact answer, its correlations beside it."""
    moments = problem.moments("auto", (1, 1))
    a, b = (np.asarray(V, dtype=np.float64) for V in (exact.x_weights, exact.y_weights))
    a, b, rho = a - a.mean(axis=0), b - b.mean(axis=0), exact.correlations
    (Ka, _), (Kb, _) = (op.product(V) for op, V in zip(moments.views, (a, b), strict=True))
    moved = []
    for v, Kv, Kw, ridge in ((a, Ka, Kb, problem.ridge[0]), (b, Kb, Ka, problem.ridge[1])):
        change = (Kv + ridge * v) * rho - Kw
        moved.append(np.linalg.norm(change) / np.linalg.norm(Kw))
    print(f"fixed point: a step leaves the answer but for {max(moved):.1e} of the target", flush=True)


def knoi_study(problem: Any, test: Any, given: Any) -> None:
    """Epochs of `knoi`, and the exact CCA of as many features."""
    for m in (500, 1000):
        approximate(problem, "nystrom-kcca", {"landmarks": min(m, problem.X.shape[0])}, test, given.seeds)
    for count in given.columns:
        for epochs in given.epochs:
            approximate(problem, "knoi", {"features": count, "epochs": epochs}, test, given.seeds)
            print(f"  peak {peak():.2f} GB", flush=True)
        approximate(problem, "rff-kcca", {"features": count}, test, given.seeds)
        print(f"  peak {peak():.2f} GB", flush=True)


def peak() -> float:
    """The largest resident memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
