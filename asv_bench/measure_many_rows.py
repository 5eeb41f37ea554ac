"""Print what canonical correlations of a hundred million rows take that nobody stores: CPU seconds, memory, errors.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_many_rows.py`; `--quick` takes a thousandth of the rows. A function
draws slices of 250,000 rows, 8 + 6 float32 columns, with two common causes; `gram` reads them once. The correlations of
the population follow from its covariances, so the error is that of the answer against them; 1/√n is what the drawn
rows differ by. Drawing the rows without solving anything is timed apart.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np

import linspec as ls

ROWS, SLICE, CAUSES = 100_000_000, 250_000, 2
LOADINGS = [
    np.random.default_rng(seed).standard_normal((CAUSES, p)).astype(np.float32)
    for seed, p in ((1, 8), (2, 6))
]


def pairs(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Slices of the two views."""
    rng = np.random.default_rng(0)
    for start in range(0, rows, SLICE):
        n = min(SLICE, rows - start)
        causes = rng.standard_normal((n, CAUSES), dtype=np.float32)
        yield tuple(causes @ W + rng.standard_normal((n, W.shape[1]), dtype=np.float32) for W in LOADINGS)


def of_population() -> np.ndarray:
    """The canonical correlations of the distribution that the rows are drawn from."""
    A, B = (W.astype(np.float64) for W in LOADINGS)
    roots = [np.linalg.inv(np.linalg.cholesky(W.T @ W + np.eye(W.shape[1]))) for W in (A, B)]
    return np.linalg.svd(roots[0] @ A.T @ B @ roots[1].T)[1][:CAUSES]


def peak() -> float:
    """The largest resident set so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rows = ROWS // 1000 if parser.parse_args().quick else ROWS

    begin = time.process_time()
    for _ in pairs(rows):
        pass
    drawing = time.process_time() - begin

    X, Y = ls.paired(lambda: pairs(rows))
    before, begin = peak(), time.process_time()
    solution = ls.solve(ls.CCA(X, Y, k=CAUSES), "gram")
    seconds = time.process_time() - begin
    error = np.abs(solution.correlations - of_population()).max()
    print(
        f"{rows:,} rows, 8 + 6 columns: {seconds:.1f} CPU seconds, of which drawing {drawing:.1f}; "
        f"peak {peak():.0f} MiB, {peak() - before:.0f} MiB more than before the solve; {solution.passes:g} pass, "
        f"{solution.status.name}, residual {solution.residual:.1e}; correlations "
        f"{error:.1e} from those of the population (1/√n = {rows**-0.5:.1e})"
    )


if __name__ == "__main__":
    main()
