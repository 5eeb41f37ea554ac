"""Print what a path of ridges takes, begun at the last answer each time and begun anew, and which ridge it chooses.

Run `python asv_bench/measure_ridge_path.py --data FOLDER`; `--quick` takes small generated data of the same kind.

Titles and queries: 74,067 x 18,608 and 7,949, sparse, uncentred, k = 20, ridges 100, 30, 10, 3, 1, with 60,000 rows
fitted and the others scored, by `lobpcg` or the solvers of `--solvers`. They sweep the data (`form="implicit"`);
`--held` holds the Gram matrices. The first ridge begins at random in both.

Images: 50,000 x 392 twice fitted and 10,000 scored, centred, k = 20, by `gram`; beside it what a permuted view shows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from datasets import arguments, mnist_halves, titles_and_queries

import linspec as ls

RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0)
IMAGE_RIDGES = (0.0, 3.0, 30.0, 300.0, 3000.0)


def cold(X: Any, Y: Any, k: int, solver: str, form: str, options: Any) -> list[Any]:
    """Each ridge by itself, from a random start, on moments that all share."""
    moments = ls.Moments(X, Y, form=form)
    return [ls.solve(ls.CCA(moments, None, k, ridge=r, center=False), solver, **options) for r in RIDGES]


def words(given: Any) -> None:
    """Warm and cold paths of the solvers that iterate."""
    X, Y = titles_and_queries(given)
    fitted, new = halves(X.shape[0], 60_000 / 74_067)
    k = 5 if given.quick else 20
    form = "auto" if given.held else "implicit"
    for solver in given.solvers:
        views = X[fitted], Y[fitted]
        options = {"rng": given.seed, "tol": given.tol, "max_passes": given.max_passes}
        begin = time.process_time()
        path = ls.ridge_path(
            ls.CCA(*views, k, center=False),
            RIDGES,
            solver=solver,
            form=form,
            test=(X[new], Y[new]),
            **options,
        )
        warm_seconds = time.process_time() - begin
        begin = time.process_time()
        anew = cold(*views, k, solver, form, options)
        cold_seconds = time.process_time() - begin
        print(f"\n{solver}, form {form}, seed {given.seed}\n")
        print("| ridge | passes, warm | anew | sum, warm | anew | status, warm | anew | on test rows |")
        print("|---|---|---|---|---|---|---|---|")
        for r, w, c, score in zip(RIDGES, path.solutions, anew, path.scores or (), strict=True):
            print(
                f"| {r:g} | {w.passes:g} | {c.passes:g} | {w.correlations.sum():.6f} | {c.correlations.sum():.6f} | "
                f"{w.status.name} | {c.status.name} | {score.total:.4f} |"
            )
        print(
            f"| all | {path.passes:g} | {sum(c.passes for c in anew):g} | | | | | best: {path.best_ridge[0]:g} |"
        )
        print(f"\nCPU seconds: {warm_seconds:.1f} warm (test rows included), {cold_seconds:.1f} anew")


def images(given: Any) -> None:
    """A path that costs one pass."""
    X, Y = mnist_halves(given)
    fitted, new = halves(X.shape[0], 5 / 6)
    k = 5 if given.quick else 20
    begin = time.process_time()
    path = ls.ridge_path(ls.CCA(X[fitted], Y[fitted], k), IMAGE_RIDGES, solver="gram", test=(X[new], Y[new]))
    seconds = time.process_time() - begin
    null = ls.null_correlations(ls.CCA(X[fitted], Y[fitted], k), "gram", rng=0)
    print("\n| ridge | sum, fitted | on test rows | seconds of the solve |\n|---|---|---|---|")
    for (r, _), s, total in zip(path.ridges, path.solutions, path.totals, strict=True):  # type: ignore[arg-type]
        print(f"| {r:g} | {s.correlations.sum():.6f} | {total:.6f} | {s.seconds:.2f} |")
    print(
        f"\n{path.passes:g} pass, best ridge {path.best_ridge[0]:g}, CPU {seconds:.1f} s, test rows included"
    )
    print(f"a permuted view at ridge 0: largest correlation {null.max():.4f}, sum {null.sum():.4f}")


def halves(rows: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to score, drawn at random."""
    order = np.random.default_rng(0).permutation(rows)
    edge = int(rows * share)
    return np.sort(order[:edge]), np.sort(order[edge:])


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--solvers", nargs="+", default=["lobpcg"], help="that can begin at an answer")
    parser.add_argument("--tol", type=float, default=None)
    parser.add_argument("--max-passes", type=float, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held", action="store_true", help="hold the Gram matrices")
    given = parser.parse_args()
    images(given)
    words(given)


if __name__ == "__main__":
    main()
