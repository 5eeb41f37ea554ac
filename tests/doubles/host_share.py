"""The share of a step of `lobpcg` that stays on the host where the data are on a device.

    OPENBLAS_NUM_THREADS=1 python tests/doubles/host_share.py [K]

solves a CCA of K pairs (50) with held Gram matrices of 1500 and 1000 columns on the host, and prints the CPU time of a
step in milliseconds: of all of it, and of the small matrices, which on CuPy and torch is the part that is left to the
host. It depends on K and on the columns carried, not on the size of the data.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import linspec as ls
from linspec.linalg import lobpcg

SPENT = [0.0]
"""CPU seconds within the small matrices."""


def timed(owner: type, name: str, sign: int) -> None:
    """Add (1) or take out (-1) the time of a method."""
    method = getattr(owner, name)

    def measured(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return method(*args, **kwargs)
        finally:
            SPENT[0] += sign * (time.process_time() - start)

    setattr(owner, name, measured)


def main(k: int) -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((3000, k))
    X, Y = (shared @ rng.standard_normal((k, p)) + 8 * rng.standard_normal((3000, p)) for p in (1500, 1000))
    timed(lobpcg._Space, "solve", 1)
    timed(lobpcg._Space, "restart", 1)
    timed(lobpcg._View, "grown", 1)
    timed(lobpcg._View, "fold", -1)  # what is made of panels
    seen: list[tuple[float, float]] = []
    options: dict[str, Any] = {"form": "dense", "rng": 0, "max_iterations": 12}
    ls.solve(
        ls.CCA(X, Y, k=k, ridge=1.0), "lobpcg",
        callback=lambda _: seen.append((time.process_time(), SPENT[0])), **options,
    )  # fmt: skip
    whole, host = ((seen[-1][i] - seen[1][i]) / (len(seen) - 2) * 1e3 for i in (0, 1))
    print(f"k = {k}: {whole:.0f} ms a step, {host:.0f} ms of it in small matrices")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
