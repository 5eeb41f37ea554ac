"""Print what float32 data leave of accuracy, and where float64 arrays are made.

Run `python asv_bench/measure_float32.py --data FOLDER`; `--quick` takes small generated data. The UCI regression sets,
standardised and rounded to float32, ridge 1e-2 n. residual: max over columns of ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖ of the
returned float32 coefficients, computed here in float64. on a device: the first 2000 rows on a device of
array-api-strict that has no float64 and refuses to make such an array; "float32" says that the solver ran there, and
that coefficients of that dtype came back to it.
"""

from __future__ import annotations

import warnings

import array_api_strict
import numpy as np
from datasets import UCI, arguments, standardized, uci_regression
from least_squares_law import print_head, print_row, residual

import linspec as ls

DEVICE_ROWS = 2000


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "").parse_args()
    warnings.simplefilter("ignore")  # the table says what did not converge
    print_head("set", "solver", "residual", "status", "dtype", "passes", "on a device")
    for name in UCI:
        A, b = (np.asarray(M, dtype=np.float32) for M in standardized(*uci_regression(given, name)))
        for solver in ls.solvers("least-squares"):
            problem = ls.LeastSquares(A, b, ridge=1e-2 * len(A))
            found = ls.solve(problem, solver, rng=0, max_seconds=10)
            gap = residual(A.astype(np.float64), b.astype(np.float64), found.x, 1e-2 * len(A))
            figures = (f"{gap:.1e}", found.status.name, str(found.x.dtype), f"{found.passes:g}")
            print_row((name, solver, *figures, on_device(A[:DEVICE_ROWS], b[:DEVICE_ROWS], solver)))


def on_device(A: np.ndarray, b: np.ndarray, solver: str) -> str:
    """The dtype in which coefficients come back from a device without float64."""
    device = array_api_strict.Device("no_float64")
    data = [array_api_strict.asarray(M, device=device) for M in (A, b)]
    found = ls.solve(ls.LeastSquares(*data, ridge=1e-2 * len(A)), solver, rng=0, max_seconds=10)
    return str(found.x.dtype).rpartition(".")[2] if found.x.device == device else "elsewhere"


if __name__ == "__main__":
    main()
