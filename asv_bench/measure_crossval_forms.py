"""Print what both forms of cross-validation take, and which of them `form="auto"` takes.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_crossval_forms.py`; `--quick` takes small data. No data are needed.
Each problem is cross-validated over 5 folds with `form="dense"` (Gram matrices of all folds, one reading), with
`form="solve"` (a solve for each ridge and fold) and with `form="auto"`. Seconds are those of the processor, the least
of `--repeat` runs. Where Gram matrices do not fit, "dense" is refused.

- few columns: 20,000 x 120 + 80, a CCA with 10 ridges;
- sparse: 2,500 x 3,000 with 20 entries a row, ridge regression with 6 ridges;
- wide: 300 x 2,000 dense, ridge regression with 6 ridges;
- wide CCA: 400 x 600 + 500, 4 ridges.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import scipy.sparse

import linspec as ls
from linspec.errors import NoSuitableSolver


def problems(scale: float) -> dict[str, tuple[Any, list[float]]]:
    """A problem of each shape, and its ridges."""
    rng = np.random.default_rng(0)

    def size(count: int) -> int:
        return max(int(count * scale), 20)

    def views(n: int, p: int, q: int) -> tuple[np.ndarray, np.ndarray]:
        shared = rng.standard_normal((n, 5))
        return tuple(
            shared @ rng.standard_normal((5, columns)) + 2 * rng.standard_normal((n, columns))
            for columns in (p, q)
        )  # type: ignore[return-value]

    few = views(size(20000), size(120), size(80))
    n, p = size(2500), size(3000)
    words = scipy.sparse.random_array((n, p), density=min(20 / p, 1.0), rng=rng, format="csr")
    wide = rng.standard_normal((size(300), size(2000)))
    both = views(size(400), size(600), size(500))
    noise = rng.standard_normal(n) / 10
    return {
        "few columns, CCA": (ls.CCA(*few, 5), np.geomspace(0.1, 1e4, 10).tolist()),
        "many sparse columns, few rows": (
            ls.LeastSquares(words, words @ rng.standard_normal(p) + noise, center=True),
            np.geomspace(0.1, 100, 6).tolist(),
        ),
        "wide dense": (
            ls.LeastSquares(wide, wide @ rng.standard_normal(wide.shape[1]), center=True),
            np.geomspace(1, 1e4, 6).tolist(),
        ),
        "wide dense, CCA": (ls.CCA(*both, 3), np.geomspace(1, 1e4, 4).tolist()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--repeat", type=int, default=2)
    given = parser.parse_args()
    print(
        "| problem | dense, CPU s | solve, CPU s | auto, CPU s | auto takes | and says |\n|---|---|---|---|---|---|"
    )
    for name, (problem, ridges) in problems(0.1 if given.quick else 1.0).items():
        ls.cross_validate(problem, ridges=ridges[:1], splitter=2, form="solve", rng=0)  # imports
        seconds: dict[str, str] = {}
        for form in ("dense", "solve", "auto"):
            times = []
            for _ in range(given.repeat):
                began = time.process_time()
                try:
                    found = ls.cross_validate(problem, ridges=ridges, form=form, rng=0)
                except NoSuitableSolver:
                    break
                times.append(time.process_time() - began)
            seconds[form] = f"{min(times):.2f}" if times else "refused"
        taken = "dense" if found.one_pass else "solve"
        print(
            f"| {name} | {seconds['dense']} | {seconds['solve']} | {seconds['auto']} | {taken} | {found.reason} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
