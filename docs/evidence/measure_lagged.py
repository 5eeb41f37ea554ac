"""Print what lagged rows cost beside the matrix of all lags, and how far their answers are from each other.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_lagged.py cost|answers [--rows N] [--rounds N] [--quick]

cost: CPU seconds and memory of a ridge regression of 4 targets on 64 channels at 50 lags (`linspec.lagged`, epochs of
1000 and of 10000 rows), in turns with NumPy, which makes the matrix of all lags block by block, sums XᵀX and XᵀY and
solves by Cholesky. Rows are autoregressive and mixed, as those of an electroencephalogram are.

answers: relative errors on small data of three seeds. Ridge: beside the explicit matrix, and beside
`mne.decoding.ReceptiveField`, if mne is installed, without an intercept, and with its intercept, which is that of rows
less their means before zeros are put around them. CCA: beside `linspec.CCA` of the explicit matrix.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg
import scipy.signal
from showing import Claim, Report, arguments, at_most
from timing import Peak, alternate

import linspec as ls

TARGETS, RIDGE = 4, 100.0


def recording(n: int, p: int, seed: int) -> tuple[Any, Any]:
    """Autoregressive rows, mixed over channels, and targets that follow them for ten rows, with as much noise."""
    rng = np.random.default_rng(seed)
    X = scipy.signal.lfilter([1.0], [1.0, -1.6, 0.68], rng.standard_normal((n, p)), axis=0)
    for some in np.array_split(np.arange(n), n // 10000 + 1):  # in place, block by block
        X[some] = X[some] @ np.random.default_rng(p).standard_normal((p, p))
    Y = rng.standard_normal((n, TARGETS))
    for lag in range(10):
        Y[lag:] += X[: n - lag] @ rng.standard_normal((p, TARGETS)) / (10 * p)
    return X, Y


def windows(X: Any, lags: range, epochs: Any, a: int, b: int) -> Any:
    """Rows a to b - 1 of the explicit matrix."""
    Z = np.zeros((b - a, len(lags), X.shape[1]))
    for i, lag in enumerate(lags):
        rows = np.arange(a, b)
        there = (rows - lag >= 0) & (rows - lag < len(X))
        there[there] = epochs[rows[there] - lag] == epochs[rows[there]]
        Z[there, i] = X[rows[there] - lag]
    return Z.reshape(b - a, -1)


def explicit(X: Any, Y: Any, lags: range, epochs: Any) -> Any:
    """Coefficients by NumPy, from blocks of 4096 rows."""
    G = np.zeros((X.shape[1] * len(lags),) * 2)
    C = np.zeros((len(G), Y.shape[1]))
    for a in range(0, len(X), 4096):
        Z = windows(X, lags, epochs, a, min(a + 4096, len(X)))
        G += Z.T @ Z
        C += Z.T @ Y[a : a + 4096]
    G[np.diag_indices_from(G)] += RIDGE
    return scipy.linalg.solve(G, C, assume_a="pos")


def apart(found: Any, exact: Any) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def cost(report: Report) -> None:
    given = report.given
    n, p, lags = (4000, 8, range(10)) if given.quick else (given.rows, 64, range(50))
    table = report.table(
        "epoch", "rows", "CPU s::.1f", "NumPy's::.1f", "median::.1f", "worst::.1f", "error::.0e"
    )
    ratios, errors = [], []
    for length in (1000, 10000):
        X, Y = recording(n, p, length)
        epochs = np.arange(n) // length
        problem = ls.LeastSquares(ls.lagged(X, lags, epochs), Y, ridge=RIDGE)
        calls = {
            "lagged": lambda problem=problem: ls.solve(problem).x,
            "NumPy": lambda X=X, Y=Y, epochs=epochs: explicit(X, Y, lags, epochs),
        }
        turns = alternate(calls, given.rounds)
        over = [b / a for a, b in zip(turns["lagged"].cpu, turns["NumPy"].cpu, strict=True)]
        errors.append(apart(turns["lagged"].answer, turns["NumPy"].answer))
        ratios += over
        seconds = turns["lagged"].median, turns["NumPy"].median
        table.row(length, n, *seconds, float(np.median(over)), min(over), errors[-1])
    with Peak() as peak:
        ls.solve(problem)
    grams = 8 * (p * len(lags)) ** 2 / 2**20
    told = f"median {np.median(ratios):.1f}, worst {min(ratios):.1f}"
    most = "{value:.0f} MiB beside data of " + f"{X.nbytes / 2**20:.0f}, in Gram matrices of {grams:.0f}"
    claims = [
        Claim("at least 5 times less CPU than the matrix of all lags", min(ratios) >= 5, told, own=True),
        at_most("memory beyond the data: ten Gram matrices", peak.memory, 10 * grams, most, own=True),
        at_most("the coefficients are NumPy's", max(errors), 1e-8, own=True),
    ]
    report.say(claims[1:] if given.quick else claims)


def answers(report: Report) -> None:
    n, p, lags = 6000, 16, range(-4, 17)
    table = report.table("seed", "figure", "relative error::.1e")
    worst: dict[str, float] = {}
    for seed in range(3):
        X, Y = recording(n, p, seed)
        epochs = np.arange(n) // 1000
        A, Z = ls.lagged(X, lags, epochs), windows(X, lags, epochs, 0, n)
        exact = explicit(X, Y, lags, epochs)
        found = {"ridge, NumPy": apart(ls.solve(ls.LeastSquares(A, Y, ridge=RIDGE)).x, exact)}
        mine, theirs = (ls.solve(ls.CCA(rows, Y, k=4)).correlations for rows in (A, Z))
        found["CCA, explicit matrix"] = apart(mine, theirs)
        found |= beside_mne(X, Y, lags, epochs) if find_spec("mne") else {}
        for name, error in found.items():
            table.row(seed, name, error)
            worst[name] = max(error, worst.get(name, 0.0))
    limits = {"CCA, explicit matrix": 1e-10}
    report.say([at_most(name, error, limits.get(name, 1e-8), own=True) for name, error in worst.items()])
    if not find_spec("mne"):
        report.say([Claim("ridge, mne", None, "mne is not installed")])


def beside_mne(X: Any, Y: Any, lags: range, epochs: Any) -> dict[str, float]:
    import mne

    mne.set_log_level("error")
    count = int(epochs[-1]) + 1
    found = {}
    for fitted in (False, True):
        field = mne.decoding.ReceptiveField(
            lags[0], lags[-1], 1.0, estimator=RIDGE, fit_intercept=fitted, scoring="r2"
        )
        shaped = (array.reshape(count, -1, array.shape[1]).swapaxes(0, 1) for array in (X, Y))
        field.fit(*shaped)
        centred = (array - array.mean(axis=0) * fitted for array in (X, Y))
        rows, targets = centred
        x = ls.solve(ls.LeastSquares(ls.lagged(rows, lags, epochs), targets, ridge=RIDGE)).x
        name = "ridge, mne with its intercept" if fitted else "ridge, mne"
        found[name] = apart(x.reshape(len(lags), -1, TARGETS).transpose(2, 1, 0), field.coef_)
    return found


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("study", choices=["cost", "answers"])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    report = Report(parser)
    {"cost": cost, "answers": answers}[report.given.study](report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
