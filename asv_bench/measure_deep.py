"""Print the correlation that deep CCA captures on held-out MNIST halves, beside linear CCA, and what it takes.

Run `python asv_bench/measure_deep.py --data FOLDER`; `--quick` takes small generated views. Each seed draws the
training rows and the nets. TCC10 is the total correlation captured on the test images by ten pairs; CPU seconds are
those of the whole solve, the last exact CCA included, without the import of torch. One thread: set
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from datasets import arguments, find

import linspec as ls
from linspec_deep.problem import DeepCCA

LINEAR_RIDGE = 1e-3
"""Of linear CCA, in units of the mean square of a centred entry and the number of rows."""


def views(given: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training rows and test rows of both views, float32."""
    if given.quick:
        rng = np.random.default_rng(0)
        Z = rng.standard_normal((4000, 12))
        X = np.hstack([Z, rng.standard_normal((4000, 20))]) @ rng.standard_normal((32, 32))
        Y = np.hstack([Z**2, rng.standard_normal((4000, 12))]) @ rng.standard_normal((24, 24))
        return [A[:3000].astype(np.float32) for A in (X, Y)], [A[3000:].astype(np.float32) for A in (X, Y)]
    file = np.load(find(given, "mnist/mnist.npz"))
    found = []
    for name in ("X_train", "X_test"):
        images = file[name].reshape(-1, 28, 28).astype(np.float32) / 255
        found.append(
            [np.ascontiguousarray(half.reshape(-1, 392)) for half in (images[:, :, :14], images[:, :, 14:])]
        )
    return found[0], found[1]


def linear(X: np.ndarray, Y: np.ndarray, k: int) -> Any:
    """Linear CCA with a ridge."""
    ridges = tuple(LINEAR_RIDGE * float((((A - A.mean(axis=0)) ** 2).mean()) * len(A)) for A in (X, Y))
    return ls.solve(ls.CCA(X, Y, k=k, ridge=ridges), "gram")


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=20_000, help="training rows")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER", help="of the solver")
    given = parser.parse_args()
    options = {
        name: float(text) if "." in text or "e" in text else int(text)
        for name, _, text in (word.partition("=") for word in given.option)
    }
    (X, Y), new = views(given)
    import torch  # noqa: F401  # its import takes seconds, once

    found = []
    print("| seed | TCC10, linear | TCC10, deep | on training rows | CPU s, linear | CPU s, deep | passes |")
    print("|---|---|---|---|---|---|---|")
    for seed in range(given.seeds):
        chosen = np.random.default_rng(seed).permutation(len(X))[: given.rows]
        A, B = X[chosen], Y[chosen]
        begin = time.process_time()
        plain = linear(A, B, 10)
        between = time.process_time()
        deep = ls.solve(DeepCCA(A, B, k=10), "dcca", rng=seed, **options)
        end = time.process_time()
        row = [plain.score(*new).total, deep.score(*new).total, float(deep.correlations.sum())]
        row += [between - begin, end - between, deep.passes]
        found.append(row)
        print(f"| {seed} | {' | '.join(f'{value:.4g}' for value in row)} |", flush=True)
    columns = np.array(found)
    for what, reduced in (
        ("median", np.median(columns, axis=0)),
        ("worst", [*columns[:, :3].min(axis=0), *columns[:, 3:].max(axis=0)]),
    ):
        print(f"| {what} | {' | '.join(f'{value:.4g}' for value in reduced)} |")


if __name__ == "__main__":
    main()
