"""CCA and SVD by sweeps over a copy in float32, beside the same sweeps in float64.

Run `OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python asv_bench/measure_single_precision.py --data FOLDER`. Halves of
images, centred, and words of titles and queries. First the processor seconds of a sweep, then whole solves in
alternating turns: passes, processor seconds, the law, and by how much the sum of the correlations is below that of the
exact solver (for titles: of the tightest solve). Then singular vectors by `block-krylov` of whole images, centred, and
of the tf-idf of newsgroups: by how much the sum of the squares is below the exact one, or that of the tightest solve.
Then CCA of 500 kernel features of each half, which a copy makes once. Last, what no solver does: conjugate gradients on
the copy inside a refinement by gradients in float64, beside the same conjugate gradients in float64, ten one-hot
targets on whole images, centred.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from datasets import arguments, images, mnist_halves, newsgroups, tf_idf, titles_and_queries

FEATURES, FEATURE_ROWS = 500, 20_000
MOST_REFINEMENTS, SINGLE_AIM = 20, 1e-4
COLUMNS, TOLERANCES, RIDGE = (30, 70), (1e-3, 1e-6, 1e-9, 1e-13), {"images": 1.0, "titles": 1.0}


def main() -> int:
    """Print a line a measurement."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=("images", "titles", "svd", "features", "refinement"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only in (None, "images"):
        X, Y = (np.asarray(A, dtype=np.float64) for A in mnist_halves(given))
        compare("images", X, Y, True, given.turns)
    if given.only in (None, "titles"):
        X, Y = (A.astype(np.float64) for A in titles_and_queries(given))
        compare("titles", X, Y, False, given.turns)
    if given.only in (None, "svd"):
        compare_svd("whole images", images(given).astype(np.float64), True, given.turns)
        compare_svd("tf-idf", tf_idf(newsgroups(given)[0]).astype(np.float64), False, given.turns)
    if given.only in (None, "features"):
        compare_features(*mnist_halves(given), given.turns)
    if given.only in (None, "refinement"):
        compare_refinement(images(given).astype(np.float64), given.turns)
    return 0


def compare(name: str, X: Any, Y: Any, center: bool, turns: int) -> None:
    """Sweeps, then solves."""
    import linspec as ls

    say(f"{name}: {X.shape} and {Y.shape}")
    rng = np.random.default_rng(0)
    for k in COLUMNS:
        double = ls.Moments(X, Y, center=center, form="implicit")
        blocks = [rng.standard_normal((A.shape[1], k)) for A in (X, Y)]
        double.products(*blocks)
        single = double.in_single_precision()
        seconds: dict[str, list[float]] = {"float64": [], "float32": []}
        for _ in range(max(turns, 5)):
            for precision, moments in (("float64", double), ("float32", single)):
                start = time.process_time()
                moments.products(*blocks)
                seconds[precision].append(time.process_time() - start)
        ratios = np.divide(seconds["float64"], seconds["float32"])
        say(f"  sweep, {k} columns: {np.median(seconds['float64']):.3f} and {np.median(seconds['float32']):.3f} s, "
            f"ratio {np.median(ratios):.2f} ({ratios.min():.2f})")  # fmt: skip
    ridge = RIDGE[name]
    for k in COLUMNS:
        problem = ls.CCA(X, Y, k=k, ridge=ridge, center=center)
        exact = ls.solve(problem, "gram") if name == "images" else None
        best = float(exact.correlations.sum()) if exact is not None else np.nan
        for tol in TOLERANCES if exact is not None else TOLERANCES[:2]:
            taken: dict[str, list[float]] = {"float64": [], "float32": []}
            answers = {}
            for _ in range(turns):
                for precision, spent in taken.items():
                    start = time.process_time()
                    answers[precision] = ls.solve(
                        problem, "lobpcg", form="implicit", sweeps=precision, rng=0, tol=tol, max_passes=60
                    )
                    spent.append(time.process_time() - start)
            for precision, a in answers.items():
                say(f"  k = {k}, tol {tol:g}, {precision}: {a.status.name}, {a.passes:g} passes, "
                    f"{np.median(taken[precision]):.2f} s, law {a.residual:.1e}, "
                    f"below the exact sum {1 - a.correlations.sum() / best:.1e}")  # fmt: skip


def compare_svd(name: str, A: Any, center: bool, turns: int) -> None:
    """Sweeps, then solves."""
    import linspec as ls

    say(f"{name}: {A.shape}")
    rng = np.random.default_rng(0)
    for k in COLUMNS:
        double = ls.Moments(A, center=center, form="implicit")
        wide = double.wide
        block = rng.standard_normal((A.shape[0 if wide else 1], k))
        (double.outer_gram_matmat if wide else double.gram_matmat)(block)
        double.column_means()
        single = double.in_single_precision()
        ratios = []
        for _ in range(max(turns, 5)):
            seconds = []
            for moments in (double, single):
                start = time.process_time()
                (moments.outer_gram_matmat if wide else moments.gram_matmat)(block)
                seconds.append(time.process_time() - start)
            ratios.append(seconds[0] / seconds[1])
        say(f"  sweep, {k} columns, ratio {np.median(ratios):.2f} ({min(ratios):.2f})")
    for k in COLUMNS:
        problem = ls.SVD(A, k=k, center=center)
        best = float((ls.solve(problem, "block-krylov", rng=1, tol=1e-12).S ** 2).sum())
        for tol in (1e-3, 1e-6, 1e-9):
            taken: dict[str, list[float]] = {"float64": [], "float32": []}
            answers = {}
            for _ in range(turns):
                for precision, spent in taken.items():
                    start = time.process_time()
                    answers[precision] = ls.solve(
                        problem, "block-krylov", form="implicit", sweeps=precision, rng=0, tol=tol
                    )
                    spent.append(time.process_time() - start)
            for precision, a in answers.items():
                say(f"  k = {k}, tol {tol:g}, {precision}: {a.status.name}, {a.passes:g} passes, "
                    f"{np.median(taken[precision]):.2f} s ({max(taken[precision]):.2f}), law {a.residual:.1e}, "
                    f"below the sum of the squares {1 - float((a.S**2).sum()) / best:.1e}")  # fmt: skip


def compare_features(X: Any, Y: Any, turns: int) -> None:
    """Solves with features that are made in every sweep, and once."""
    import linspec as ls
    from linspec.features import nystrom

    rng = np.random.default_rng(0)
    halves = [np.asarray(A[:FEATURE_ROWS], dtype=np.float64) for A in (X, Y)]
    features = [nystrom(A, ls.kernels.rbf(), FEATURES, rng)(A) for A in halves]
    problem = ls.CCA(*features, k=10, ridge=1.0)
    best = float(ls.solve(problem, "gram").correlations.sum())
    say(f"features: {features[0].shape} and {features[1].shape}")
    for tol in TOLERANCES[:3]:
        taken: dict[str, list[float]] = {"float64": [], "float32": []}
        answers = {}
        for _ in range(turns):
            for precision, spent in taken.items():
                start = time.process_time()
                answers[precision] = ls.solve(
                    problem, "lobpcg", form="implicit", sweeps=precision, rng=0, tol=tol
                )
                spent.append(time.process_time() - start)
        for precision, a in answers.items():
            say(f"  k = 10, tol {tol:g}, {precision}: {a.status.name}, {a.passes:g} passes, "
                f"{np.median(taken[precision]):.2f} s ({max(taken[precision]):.2f}), law {a.residual:.1e}, "
                f"below the exact sum {1 - a.correlations.sum() / best:.1e}")  # fmt: skip


def compare_refinement(A: Any, turns: int) -> None:
    """Conjugate gradients in float64, and on the copy with gradients in float64 between."""
    import linspec as ls

    n, p = A.shape
    B = np.eye(10)[np.random.default_rng(0).integers(0, 10, n)]
    B[:, 0] += A @ np.random.default_rng(1).standard_normal(p) / p  # something that the images explain
    double = ls.Moments(A, B, center=True, form="implicit")
    AtB = double.cross_matmat(np.eye(10))
    images_alone = double.view(0)
    single = images_alone.in_single_precision()
    say(f"refinement: {A.shape}")
    for ridge in (1.0 * n, 1e-2 * n):
        for tol in (1e-6, 1e-10):
            taken: dict[str, list[float]] = {"float64": [], "float32": []}
            found: dict[str, tuple[int, int, float]] = {}
            for _ in range(turns):
                for precision, spent in taken.items():
                    start = time.process_time()
                    swept = images_alone if precision == "float64" else single
                    found[precision] = refined(images_alone, swept, AtB, ridge, tol)
                    spent.append(time.process_time() - start)
            for precision, (sweeps, refinements, left) in found.items():
                say(f"  ridge {ridge / n:g} n, tol {tol:g}, {precision}: {sweeps} sweeps, {refinements} in float64 "
                    f"beside, {np.median(taken[precision]):.2f} s ({max(taken[precision]):.2f}), "
                    f"gradient {left:.1e}")  # fmt: skip


def refined(precise: Any, swept: Any, AtB: Any, ridge: float, tol: float) -> tuple[int, int, float]:
    """Sweeps of the iteration, gradients beside them, and the relative gradient in the end."""
    from linspec.arrays import HOST
    from linspec_lstsq.block_conjugate_gradients import BlockConjugateGradients
    from linspec_lstsq.normal_equations import System

    scale, x, gradient, sweeps, refinements = np.linalg.norm(AtB, axis=0), 0.0, AtB, 0, 0
    left = 1.0
    while left > tol and refinements < MOST_REFINEMENTS:
        noise = float(np.finfo(np.float64 if swept is precise else np.float32).eps)
        aim = tol if swept is precise else max(tol / left / 2, SINGLE_AIM)
        system = System(AtB=gradient, ridges=(ridge,), home=HOST, noise=noise)
        iteration = BlockConjugateGradients(system)
        own = np.linalg.norm(gradient, axis=0)
        while (iteration.gradient_norms() / own).max() > aim and iteration.ask().shape[1]:
            iteration.tell(swept.gram_matmat(iteration.ask()))
            sweeps += 1
        x = x + iteration.x()
        gradient = AtB - precise.gram_matmat(x) - ridge * x
        refinements += 1
        left = float((np.linalg.norm(gradient, axis=0) / scale).max())
    return sweeps, refinements, left


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
