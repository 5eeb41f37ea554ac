"""Print the coverage of bootstrap intervals of canonical correlations, loadings and weights, by several methods.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_bootstrap.py`; `--quick` takes few sets. Rows are drawn with
known correlations, normal or with heavy tails (t with 5 degrees of freedom). Each set has its own mixture of the
columns of X, so that no loading is 1. Draws are solved by NumPy here, all of a set at once; "same" shows that
`linspec.bootstrap` has the intervals of "corrected" and "in order" from the same draws. "coverage": how often intervals
of 95 % contain what is true of the source, with the standard error over sets, and the median width. Methods for
loadings and weights:

- corrected: the default of `linspec.bootstrap`
- in order: percentiles of the i-th pair of the draws, with its sign
- matched: percentiles of the pair of the draws that is most like the i-th (Hungarian assignment of cosines)
- rotated: percentiles after an orthogonal Procrustes rotation onto the pairs of all rows
- basic, normal, BCa: in order, with these intervals (Efron 1987, doi:10.1080/01621459.1987.10478410, for BCa)
- asymptotic: normal intervals with the variances of Anderson 1999, doi:10.1006/jmva.1999.1810 (weights alone)

Median angles measure how far the pairs, and the span of the first two, are from those of the source. "ties": how often
`Bootstrap.ties` is at most .05, for equal correlations and others.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any, NamedTuple

import numpy as np
from datasets import correlated_rows
from scipy.special import ndtr, ndtri
from showing import Report, Table, arguments, at_most
from timing import Stopwatch

import linspec as ls


class Source(NamedTuple):
    """Rows, columns of each view, correlations, requested pairs, degrees of freedom of t (0: normal)."""

    n: int
    p: int
    rho: tuple[float, ...]
    k: int
    tails: int = 0

    def cells(self) -> tuple[Any, ...]:
        """As the first cells of a row."""
        rho = ", ".join(f"{r:g}" for r in self.rho)
        return self.n, f"{self.p} + {self.p}", rho, self.k, f"t({self.tails})" if self.tails else "normal"


COVERED = (
    Source(80, 2, (0.8, 0.75), 2),
    Source(120, 3, (0.6, 0.55, 0.5), 3),
    Source(200, 5, (0.5, 0.45, 0.2), 3),
    Source(400, 10, (0.6, 0.55, 0.3), 3),
    Source(400, 5, (0.9, 0.85, 0.8), 3),
    Source(1000, 5, (0.7, 0.65, 0.3), 3),
    Source(5000, 5, (0.5, 0.45, 0.2), 3),
    Source(200, 5, (0.7, 0.6, 0.3), 3),
    Source(200, 5, (0.8, 0.6, 0.4), 3),
    Source(400, 10, (0.9, 0.8, 0.7, 0.3), 4),
    Source(1000, 5, (0.7, 0.65, 0.3), 3, 5),
    Source(200, 5, (0.5, 0.45, 0.2), 1),
    Source(200, 5, (0.5, 0.49, 0.2), 3),
)

TIED = (
    Source(200, 5, (0.6, 0.6), 2),
    Source(1000, 5, (0.6, 0.6), 2),
    Source(400, 10, (0.8, 0.8), 2),
    Source(200, 5, (0.6, 0.6, 0.6), 3),
    Source(1000, 5, (0.6, 0.6), 2, 5),
    Source(200, 5, (0.6, 0.55), 2),
    Source(1000, 5, (0.6, 0.55), 2),
    Source(5000, 5, (0.6, 0.55), 2),
)

METHODS = ("corrected", "in order", "matched", "rotated", "basic", "normal", "BCa", "asymptotic")

SAME = 1e-8
"""Intervals are called the same up to this difference."""

MOST_JACKKNIFED = 400
"""BCa is left out for more rows."""


class Pairs(NamedTuple):
    """Stacks of canonical pairs, each of its own counts of rows."""

    correlations: np.ndarray  # (draws, k)
    x: np.ndarray  # weights of unit variance, (draws, p, k)
    y: np.ndarray
    loadings: np.ndarray  # of X
    all_x: np.ndarray  # (draws, p, p)
    all_correlations: np.ndarray
    S: np.ndarray  # covariances of both views, (draws, 2p, 2p)


class Rows:
    """One set of rows, and the pairs of any counts of them."""

    def __init__(self, X: np.ndarray, Y: np.ndarray, k: int) -> None:
        self.V = np.hstack([X - X.mean(axis=0), Y - Y.mean(axis=0)])
        self.n, self.k, self.p = len(X), k, X.shape[1]
        self.at = np.triu_indices(self.V.shape[1])
        self.products = self.V[:, self.at[0]] * self.V[:, self.at[1]]

    def pairs(self, counts: np.ndarray) -> Pairs:
        """Solve all."""
        rows, size, p, k = counts.sum(axis=1)[:, None], self.V.shape[1], self.p, self.k
        S = np.empty((len(counts), size, size))
        S[:, self.at[0], self.at[1]] = S[:, self.at[1], self.at[0]] = counts @ self.products / rows
        mean = counts @ self.V / rows
        S -= mean[:, :, None] * mean[:, None, :]
        Tx, Ty = (np.linalg.inv(np.linalg.cholesky(A)) for A in (S[:, :p, :p], S[:, p:, p:]))
        U, rho, Vt = np.linalg.svd(Tx @ S[:, :p, p:] @ _t(Ty))
        x, y = _t(Tx) @ U, (_t(Ty) @ _t(Vt))[:, :, :k]
        lengths = np.sqrt(np.diagonal(S[:, :p, :p], axis1=1, axis2=2))
        return Pairs(rho[:, :k], x[:, :, :k], y, S[:, :p, :p] @ x[:, :, :k] / lengths[:, :, None], x, rho, S)


def _t(A: np.ndarray) -> np.ndarray:
    return np.swapaxes(A, -1, -2)


def draw(rng: np.random.Generator, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the correlations of the source, before any mixture."""
    X, Y = correlated_rows(rng, source.n, source.p, source.p, source.rho)
    if source.tails:
        scale = np.sqrt((source.tails - 2) / rng.chisquare(source.tails, source.n))[
            :, None
        ]  # of unit variance
        X, Y = X * scale, Y * scale
    return X, Y


class Turned(NamedTuple):
    """The draws in the frame of the pairs of all rows."""

    Rx: np.ndarray
    Ry: np.ndarray
    M: np.ndarray
    cosines: tuple[np.ndarray, np.ndarray]


def turned(one: Pairs, drawn: Pairs) -> Turned:
    """The nearest rotations, and the cross-covariance between them."""
    p = one.x.shape[1]
    S = one.S[0]
    cosines = one.x[0].T @ S[:p, :p] @ drawn.x, one.y[0].T @ S[p:, p:] @ drawn.y
    Rx, Ry = (U @ Vt for U, _, Vt in map(np.linalg.svd, cosines))
    return Turned(Rx, Ry, (Rx * drawn.correlations[:, None, :]) @ _t(Ry), cosines)


def corrected_gaps(one: Pairs, M: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gaps of all rows, estimates of those of the source, and p-values of ties."""
    gaps, i = -np.diff(one.correlations[0]), np.arange(M.shape[1] - 1)
    v = (M[:, i, i] - M[:, i + 1, i + 1]).var(axis=0) + (M[:, i, i + 1] + M[:, i + 1, i]).var(axis=0)
    return gaps, np.sqrt(np.maximum(gaps**2 - v, 0)), np.exp(-(gaps**2) / v)


def variants(one: Pairs, drawn: Pairs) -> dict[str, np.ndarray]:
    """For each way to line draws up, a matrix (k, k) for each draw that multiplies its weights and loadings of X."""
    rotation, k = turned(one, drawn), one.x.shape[2]
    gaps, estimates, _ = corrected_gaps(one, rotation.M)
    excess = np.append(np.cumsum((gaps - estimates)[::-1])[::-1], 0.0)
    U, _, Vt = np.linalg.svd(rotation.M - np.diag(excess - excess.mean()))
    both = sum(rotation.cosines) / 2
    orders = np.array(list(itertools.permutations(range(k))))
    likeness = np.abs(both[:, np.arange(k), orders]).sum(axis=2)
    matched = np.eye(k)[orders[likeness.argmax(axis=1)]].transpose(0, 2, 1)
    found = {
        "corrected": (_t(rotation.Rx) @ U, _t(rotation.Ry) @ _t(Vt)),
        "in order": (np.broadcast_to(np.eye(k), matched.shape),) * 2,
        "matched": (matched, matched),
    }
    signed = {}
    for name, (Gx, Gy) in found.items():
        cosines = np.einsum("dij,dji->di", rotation.cosines[0], Gx)
        cosines = cosines + np.einsum("dij,dji->di", rotation.cosines[1], Gy)
        signed[name] = Gx * np.where(cosines < 0, -1.0, 1.0)[:, None, :]
    return {**signed, "rotated": _t(rotation.Rx)}


TAILS = np.array([0.025, 0.975])


def bca(drawn: np.ndarray, found: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Efron's interval, with the acceleration of the jackknife."""
    count = len(drawn)
    z0 = ndtri(np.clip(np.mean(drawn < found, axis=0), 0.5 / count, 1 - 0.5 / count))
    d = left_out.mean(axis=0) - left_out
    a = (d**3).sum(axis=0) / (6 * (d**2).sum(axis=0) ** 1.5)
    z = z0[None] + ndtri(TAILS).reshape(2, *[1] * z0.ndim)
    at = ndtr(z0 + z / (1 - a * z)) * (count - 1)
    ordered, low = np.sort(drawn, axis=0), np.minimum(at.astype(int), count - 2)
    first, second = (np.take_along_axis(ordered, i, axis=0) for i in (low, low + 1))
    return first + (at - low) * (second - first)


def asymptotic(one: Pairs, n: int) -> np.ndarray:
    """Weights plus and minus normal quantiles times their asymptotic standard deviation."""
    k, squares = one.x.shape[2], one.all_correlations[0] ** 2
    a, b = squares[:, None], squares[None, :k]
    v = np.divide((1 - b) * (a + b - 2 * a * b), (a - b) ** 2, out=np.full((len(a), k), 0.5), where=a != b)
    half = ndtri(TAILS[1]) * np.sqrt(one.all_x[0] ** 2 @ v / n)
    return np.array([one.x[0] - half, one.x[0] + half])


def intervals(rows: Rows, one: Pairs, drawn: Pairs) -> dict[tuple[str, str], np.ndarray]:
    """By method and quantity, (2, p, k)."""
    ways, found = variants(one, drawn), {}
    jackknife = rows.pairs(1.0 - np.eye(rows.n)) if rows.n <= MOST_JACKKNIFED else None
    for quantity in ("loadings", "x"):
        values, whole = getattr(drawn, quantity), getattr(one, quantity)[0]
        for name, G in ways.items():
            found[name, quantity] = np.quantile(values @ G, TAILS, axis=0)
        ordered = values @ ways["in order"]
        found["basic", quantity] = 2 * whole - found["in order", quantity][::-1]
        half = ndtri(TAILS[1]) * ordered.std(axis=0)
        found["normal", quantity] = np.array([whole - half, whole + half])
        if jackknife is not None:
            left_out = getattr(jackknife, quantity) @ variants(one, jackknife)["in order"]
            found["BCa", quantity] = bca(ordered, whole, left_out)
    found["asymptotic", "x"] = asymptotic(one, rows.n)
    return found


def intervals_of_correlations(one: Pairs, drawn: Pairs) -> dict[str, np.ndarray]:
    """By method, (2, k)."""
    t, draws = np.arctanh(one.correlations[0]), np.arctanh(drawn.correlations)
    half = ndtri(TAILS[1]) * np.sqrt(np.mean((draws - t) ** 2, axis=0))
    center = 2 * t - draws.mean(axis=0)
    return {
        "corrected": np.tanh(np.maximum([center - half, center + half], 0.0)),
        "in order": np.quantile(drawn.correlations, TAILS, axis=0),
    }


class Tally:
    """Coverage and width of the intervals of one method, set by set."""

    def __init__(self) -> None:
        self.inside: list[np.ndarray] = []
        self.width: list[np.ndarray] = []

    def add(self, ends: np.ndarray, true: np.ndarray) -> None:
        """Average over columns."""
        inside = (ends[0] <= true) & (true <= ends[1])
        self.inside.append(inside.reshape(-1, inside.shape[-1]).mean(axis=0))
        self.width.append((ends[1] - ends[0]).reshape(-1, inside.shape[-1]).mean(axis=0))

    def cells(self) -> tuple[str, str]:
        """As the last cells of a row."""
        mean, error = np.mean(self.inside, axis=0), np.std(self.inside, axis=0) / np.sqrt(len(self.inside))
        shares = ", ".join(f"{100 * m:.1f}" for m in mean)
        widths = ", ".join(f"{w:.2f}" for w in np.median(self.width, axis=0))
        return f"{shares} (± {100 * error.max():.1f})", widths


SOURCE = ("rows", "columns", "correlations", "k", "entries")


def coverage(report: Report, sources: list[Source], sets: int, draws: int) -> None:
    """Coverage, widths and angles of each source."""
    for source in sources:
        table = report.table(
            *("quantity", "method", "coverage in %, of each pair (± largest standard error)", "median width"),
            title=f"{', '.join(map(str, source.cells()))}: {sets} sets, {draws} draws each",
        )
        with Stopwatch() as watch:
            lines = covered(table, source, sets, draws)
        print(f"\n{lines}; CPU s {watch.cpu:.0f}")


def covered(table: Table, source: Source, sets: int, draws: int) -> str:
    """The rows of one source, and how far its pairs are from the truth."""
    rng, k = np.random.default_rng(1), source.k
    tallies: dict[tuple[str, str], Tally] = {}
    bias, angles = [], []
    for _ in range(sets):
        A = rng.standard_normal((source.p, source.p))
        X, Y = draw(rng, source)
        rows = Rows(X @ A, Y, k)
        one = rows.pairs(np.ones((1, source.n)))
        drawn = rows.pairs(
            rng.multinomial(source.n, np.full(source.n, 1 / source.n), size=draws).astype(float)
        )
        truth = {
            "x": np.linalg.inv(A)[:, :k],
            "loadings": (A.T / np.linalg.norm(A, axis=0)[:, None])[:, :k],
        }
        likeness = [A @ one.x[0], one.y[0]]  # coordinates in the pairs of the source
        sign = np.where(sum(np.diag(B) for B in likeness) < 0, -1.0, 1.0)
        for (name, quantity), ends in intervals(rows, one, drawn).items():
            tallies.setdefault((name, quantity), Tally()).add(ends, truth[quantity] * sign)
        for name, ends in intervals_of_correlations(one, drawn).items():
            tallies.setdefault((name, "correlations"), Tally()).add(ends, np.array(source.rho[:k]))
        bias.append(one.correlations[0] - source.rho[:k])
        Q = [np.linalg.qr(B[:, :2])[0][:2] for B in likeness]
        units = [np.abs(np.diag(B)) / np.linalg.norm(B, axis=0) for B in likeness]
        spans = [np.linalg.svd(B, compute_uv=False)[-1] for B in Q]
        angles.append(np.degrees(np.arccos(np.minimum([*np.mean(units, axis=0), np.mean(spans)], 1))))
    for quantity in ("correlations", "loadings", "x"):
        for name in METHODS:
            if (name, quantity) in tallies:
                label = "weights" if quantity == "x" else quantity
                table.row(label, name, *tallies[name, quantity].cells())
    *each, span = np.median(angles, axis=0)
    return (
        f"bias of correlations {np.round(np.mean(bias, axis=0), 4)}; median angles to the source: pairs "
        f"{np.round(each, 0)}, span of the first two {span:.0f} degrees"
    )


def ties(report: Report, sets: int, draws: int) -> None:
    """How often a tie is rejected at 5 %."""
    table = report.table(
        *(*SOURCE, "ties rejected at 5 %, in %"),
        title=f"ties: {sets} sets, {draws} draws each, standard error at most 1.6 of 1000",
    )
    for source in TIED:
        rng, rejected = np.random.default_rng(2), []
        for _ in range(sets):
            rows = Rows(*draw(rng, source), source.k)
            one = rows.pairs(np.ones((1, source.n)))
            counts = rng.multinomial(source.n, np.full(source.n, 1 / source.n), size=draws)
            p = corrected_gaps(one, turned(one, rows.pairs(counts.astype(float))).M)[2]
            rejected.append(p <= 0.05)
        table.row(*source.cells(), ", ".join(f"{100 * r:.1f}" for r in np.mean(rejected, axis=0)))


class Listed(np.random.Generator):
    """A generator whose draws are listed."""

    def __init__(self, counts: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self.counts = list(counts)

    def multinomial(self, *_args: object, **_named: object) -> np.ndarray:  # type: ignore[override]
        return self.counts.pop(0)


def same(report: Report, draws: int) -> None:
    """The largest difference between these intervals and those of linspec.bootstrap."""
    source, worst, watch = COVERED[2], 0.0, Stopwatch()
    rng = np.random.default_rng(3)
    X, Y = draw(rng, source)
    rows = Rows(X, Y, source.k)
    counts = rng.multinomial(source.n, np.full(source.n, 1 / source.n), size=draws)
    one, drawn = rows.pairs(np.ones((1, source.n))), rows.pairs(counts.astype(float))
    expected = intervals(rows, one, drawn)
    for method, name in (("corrected", "corrected"), ("percentile", "in order")):
        with watch:
            found = ls.bootstrap(
                ls.CCA(X, Y, source.k), "gram", draws=draws, method=method, rng=Listed(counts)
            )
        sign = np.sign(np.sum(found.solution.x_weights * one.x[0], axis=0))
        for quantity, ends in (("loadings", found.x_loadings), ("x", found.x_weights * np.sqrt(source.n))):
            ours = expected[name, quantity]
            ours = np.where(sign < 0, -ours[::-1], ours)
            worst = max(worst, float(np.abs(ours - ends).max()))
    print(f"\n{1000 * watch.cpu / draws / 2:.1f} CPU ms a draw of linspec.bootstrap")
    words = "linspec.bootstrap has the intervals of these methods, from the same draws"
    report.say([at_most(words, worst, SAME, "differs by at most {value:.1e}", own=True)])


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", default=["same", "coverage", "ties"])
    every = range(len(COVERED))
    parser.add_argument(
        "--sources", type=int, nargs="+", default=every, choices=every, help="of the coverage"
    )
    parser.add_argument("--sets", type=int, default=1000, help="sets of rows")
    parser.add_argument("--draws", type=int, default=300, help="bootstrap draws of each set")
    report = Report(parser)
    given = report.given
    sets, draws = (3, 20) if given.quick else (given.sets, given.draws)
    if "same" in given.parts:
        same(report, draws)
    if "coverage" in given.parts:
        coverage(report, [COVERED[i] for i in given.sources], sets, draws)
    if "ties" in given.parts:
        ties(report, sets, draws)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
