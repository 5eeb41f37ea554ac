"""Print what exact kernel CCA takes where the kernel matrices do not fit into memory.

Run `python asv_bench/measure_kernel_large.py --data FOLDER --rows 50000`; `--quick` takes small generated data instead.

Left 14 columns of MNIST's images against right 14, pixels/255 in float32, k = 10, Gaussian kernels of half the median
distance, ridge 1e-4 n, `nystrom-lobpcg` with tiles that are formed for each product. Beyond 60,000 rows each image is
taken again, shifted by a pixel to the right, down, left and up. `--components` takes so many principal components of
each half in place of its pixels. Seconds are CPU seconds: give it one BLAS thread.
"""

from __future__ import annotations

import resource
import time
import warnings
from typing import Any

import numpy as np
from datasets import arguments, find

import linspec as ls

K, PENALTY = 10, 1e-4
SHIFTS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--components", type=int, default=0)
    parser.add_argument("--landmarks", type=int, default=1500)
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
    X, Y = halves(given)
    if given.components:
        X, Y = (ls.solve(ls.SVD(A, given.components, center=True)).transform(A) for A in (X, Y))
        X, Y = (np.ascontiguousarray(A, dtype=np.float32) for A in (X, Y))
    n = len(X)
    print(f"{n} rows, {X.shape[1]} + {Y.shape[1]} columns; before the solve peak {peak():.2f} GB", flush=True)
    began = time.process_time()

    def watch(progress: Any) -> None:
        print(
            f"kernel pass {progress.iteration + 1:2d}  law {progress.residual:.2e}  "
            f"CPU {time.process_time() - began:7.1f} s",
            flush=True,
        )

    kernel = ls.kernels.rbf(factor=0.5)
    problem = ls.get_problem("kernel-cca")(X, Y, K, kernel, ridge=PENALTY * n)
    options = {"landmarks": min(given.landmarks, n // 2), "storage": "tiled", "tol": given.tol}
    found = ls.solve(problem, "nystrom-lobpcg", rng=given.seed, callback=watch, **options)
    print(f"{found}; CPU {time.process_time() - began:.1f} s with the certificate, peak {peak():.2f} GB")
    print(f"sum of correlations {found.correlations.sum():.6f}, largest bound {found.bounds.max():.1e}")


def halves(given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both halves of as many images as were asked for."""
    if given.quick:
        rng = np.random.default_rng(0)
        shared = rng.standard_normal((1500, 20))
        X, Y = (shared @ rng.standard_normal((20, 40)) + rng.standard_normal((1500, 40)) for _ in range(2))
        return X.astype(np.float32), Y.astype(np.float32)
    images = np.load(find(given, "mnist/mnist.npz"))["X_train"].reshape(-1, 28, 28)
    order = np.random.default_rng(0).permutation(len(images))
    X, Y = (np.empty((given.rows, 392), dtype=np.float32) for _ in range(2))
    for start in range(0, given.rows, len(images)):
        some = images[order[: given.rows - start]]
        some = np.roll(some, SHIFTS[start // len(images)], axis=(1, 2)).astype(np.float32) / 255
        X[start : start + len(some)] = some[:, :, :14].reshape(len(some), -1)
        Y[start : start + len(some)] = some[:, :, 14:].reshape(len(some), -1)
    return X, Y


def peak() -> float:
    """The largest resident memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
