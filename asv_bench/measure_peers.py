"""Print how long `gram` takes on MNIST's halves beside other libraries and beside its own products.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_peers.py --data FOLDER`; `--quick` takes small generated data.

Left 14 columns against right 14 of 60,000 images, centred and not, k = 20. The bare cost is that of the three
products XᵀX, XᵀY, YᵀY by NumPy alone. scikit-learn and cca-zoo are compared where they are installed. Each round
runs every method once, so that all meet the same machine; the figures are medians with the extremes, and the
sum of the leading correlations says whether the answers are equal.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from datasets import arguments, mnist_halves

import linspec as ls

K = 20


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow-rounds", type=int, default=1, help="rounds of scikit-learn's CCA")
    given = parser.parse_args()
    X, Y = mnist_halves(given)
    ridge = 0.005 * X.shape[0]
    compare("uncentred, ridge 0.005 n, against the bare products", uncentred(X, Y, ridge), given)
    compare("centred, ridge 0.001 n", ridged(X, Y, 0.001 * X.shape[0]), given)
    compare("centred, ridge 0", plain(X, Y), given)


def uncentred(X: np.ndarray, Y: np.ndarray, ridge: float) -> dict[str, Callable[[], Any]]:
    """`gram` and the three products that it cannot avoid."""
    return {
        "XᵀX, XᵀY, YᵀY by NumPy": lambda: bare_products(X, Y),
        "linspec gram": lambda: ls.solve(ls.CCA(X, Y, K, ridge=ridge, center=False), "gram").correlations,
    }


def bare_products(X: np.ndarray, Y: np.ndarray) -> None:
    """XᵀX, XᵀY and YᵀY, and nothing else."""
    _ = X.T @ X, X.T @ Y, Y.T @ Y


def ridged(X: np.ndarray, Y: np.ndarray, ridge: float) -> dict[str, Callable[[], Any]]:
    """Canonical ridge, which scikit-learn does not offer."""
    methods = {"linspec gram": lambda: ls.solve(ls.CCA(X, Y, K, ridge=ridge), "gram").correlations}
    if importlib.util.find_spec("cca_zoo"):
        from cca_zoo.linear import RidgeCCA

        penalty = ridge / X.shape[0]  # theirs is (1 − c) XᵀX/n + c I, which is proportional to ours
        share = penalty / (1 + penalty)

        def peer() -> Any:
            model = RidgeCCA(K, shrinkage=share).fit([X, Y])
            return regularized(X, Y, *model.weights_, ridge)

        methods["cca-zoo RidgeCCA"] = peer
    return methods


def plain(X: np.ndarray, Y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """CCA without a ridge, on views that lack rank."""
    methods = {"linspec gram": lambda: ls.solve(ls.CCA(X, Y, K), "gram").correlations}
    if importlib.util.find_spec("cca_zoo"):
        from cca_zoo.linear import CCA

        def peer() -> Any:
            return regularized(X, Y, *CCA(K).fit([X, Y]).weights_, 0.0)

        methods["cca-zoo CCA"] = peer
    if importlib.util.find_spec("sklearn"):
        from sklearn import cross_decomposition

        def slow() -> Any:
            model = cross_decomposition.CCA(K, max_iter=500).fit(X, Y)
            return regularized(X, Y, model.x_rotations_, model.y_rotations_, 0.0)

        methods["scikit-learn CCA (slow)"] = slow
    return methods


def regularized(X: np.ndarray, Y: np.ndarray, x: Any, y: Any, ridge: float) -> Any:
    """The correlations in the span of a peer's weights; it is not timed."""
    return lambda: ls.metrics.tcc(X, Y, x, y, ridge=ridge, center=True)


def compare(title: str, methods: dict[str, Callable[[], Any]], given: Any) -> None:
    """Time all methods round by round and print a table."""
    print(f"\n{title}")
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    sums: dict[str, float] = {}
    for turn in range(given.rounds):
        for name, method in methods.items():
            if "slow" in name and turn >= given.slow_rounds:
                continue
            begin = time.perf_counter()
            answer = method()
            seconds[name].append(time.perf_counter() - begin)
            if answer is not None and name not in sums:
                sums[name] = float(answer() if callable(answer) else answer.sum())
    own = statistics.median(seconds["linspec gram"])
    for name, times in seconds.items():
        middle = statistics.median(times)
        total = f"sum {sums[name]:.8f}" if name in sums else ""
        print(
            f"  {name:24s} median {middle:8.3f} s (min {min(times):.3f}, max {max(times):.3f}, {len(times)} runs)  "
            f"over linspec {middle / own:7.2f}  {total}"
        )


if __name__ == "__main__":
    main()
