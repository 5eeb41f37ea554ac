"""The properties that random matrices preserve: the subsampled randomized Hadamard transform (SRHT), feature hashing.

    python docs/evidence/sketch_quality.py [--quick] [--parts srht hashing] [--record]

SRHT. Tropp 2011 (Improved analysis of the subsampled randomized Hadamard transform,
doi:10.1142/S1793536911000787) proves in Theorem 1.3 that, for any n x k matrix V with orthonormal columns and ℓ ≥
4 (√k + √(8 ln(kn)))² ln k columns, all singular values of the sketch of V are between 0.40 and 1.48, except with
a probability of the order of 1/k; and that ℓ of the order of k ln k is needed, since V may be made of
coordinates. In practice, ℓ little above k is said to serve as well as a Gaussian matrix (Halko, Martinsson &
Tropp 2011, doi:10.1137/090771806, section 4.6). Measured: the least and largest singular value of the sketch, in
DRAWS draws, for three kinds of V: random, k coordinate vectors, and the columns of a Hadamard matrix that a
transform without signs would send into single coordinates. Gaussian and sparse-sign matrices and a count sketch
beside it, and the CPU seconds of one product with dense rows.

Hashing. Weinberger, Dasgupta, Langford, Smola & Attenberg 2009 (doi:10.1145/1553374.1553516), Lemma 2: the inner
product of two hashed vectors has the inner product for its mean, and the variance (1/m) Σ_{i≠j} (xᵢ² yⱼ² +
xᵢyᵢxⱼyⱼ). Their experiments: with enough bits, a linear classifier on hashed words is as accurate as on all of
them. Measured: mean and variance over draws, against the formula; the accuracy of ridge regression on the classes
of newsgroups' words (`--data`), hashed to m.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import scipy.linalg
from datasets import all_newsgroups
from showing import Claim, Report, arguments, at_most
from timing import alternate

import linspec as ls

MATRICES = ("srht", "gaussian", "sparse-sign", "count-sketch")
LOW, HIGH = 0.40, 1.48
"""The bounds of Tropp's theorem."""

NEAR = 0.05
"""How much farther from 1 than those of a Gaussian matrix the singular values may be on average."""

BITS = (8, 10, 12, 14, 16)
LOSS = 0.01
"""Accuracy that hashing to the most bits may cost."""

RIDGE = 1.0


@dataclass(frozen=True)
class Kept:
    """Singular values of sketches of orthonormal columns."""

    matrix: str
    basis: str
    n: int
    k: int
    columns: int
    least: float
    largest: float
    mean_least: float
    mean_largest: float


@dataclass(frozen=True)
class Product:
    """CPU seconds of a product with dense rows, the least of three."""

    matrix: str
    rows: int
    p: int
    columns: int
    cpu: float


@dataclass(frozen=True)
class Inner:
    """Mean and variance of hashed inner products, and what the lemma says."""

    vectors: str
    m: int
    draws: int
    exact: float
    mean: float
    error: float
    variance: float
    formula: float


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on rows held out; m = 0 is without hashing."""

    m: int
    accuracy: float


# ---- srht ------------------------------------------------------------------------------------------


def bases(n: int, k: int) -> dict[str, np.ndarray]:
    """Orthonormal columns of three kinds."""
    rng = np.random.default_rng(0)
    return {
        "random": np.linalg.qr(rng.standard_normal((n, k)))[0],
        "coordinates": np.eye(n, k),
        "hadamard": scipy.linalg.hadamard(n)[:, :k] / np.sqrt(n),
    }


def kept(n: int, k: int, columns: tuple[int, ...], draws: int) -> Iterator[Kept]:
    """All matrices, bases and widths."""
    for basis, V in bases(n, k).items():
        for matrix in MATRICES:
            for width in columns:
                found = []
                for seed in range(draws):
                    singular = np.linalg.svd(ls.project(V.T, width, matrix, rng=seed), compute_uv=False)
                    found.append((singular[-1], singular[0]))
                low, high = np.array(found).T
                yield Kept(
                    matrix, basis, n, k, width, low.min(), high.max(), float(low.mean()), float(high.mean())
                )


def products(rows: int, p: int, width: int) -> Iterator[Product]:
    """Measure the cost of a product with each matrix."""
    A = np.random.default_rng(0).standard_normal((rows, p))
    turns = alternate({name: lambda name=name: ls.project(A, width, name, rng=0) for name in MATRICES}, 3)
    for matrix, taken in turns.items():
        yield Product(matrix, rows, p, width, min(taken.cpu))


def claims_on_srht(found: list[Kept], costs: list[Product], enough: int) -> Iterator[Claim]:
    """Held or not."""
    of = {(row.matrix, row.basis, row.columns): row for row in found}
    wide = [of["srht", basis, enough] for basis in ("random", "coordinates", "hadamard")]
    low, high = min(row.least for row in wide), max(row.largest for row in wide)
    yield Claim(
        f"with {enough} columns all singular values of the SRHT are between {LOW} and {HIGH} (Tropp 2011, Theorem 1.3)",
        low >= LOW and high <= HIGH,
        f"{low:.3f} to {high:.3f}",
    )
    narrow = [row for row in found if row.matrix == "srht" and row.columns < enough]
    gap = max(
        max(
            of["gaussian", row.basis, row.columns].mean_least - row.mean_least,
            row.mean_largest - of["gaussian", row.basis, row.columns].mean_largest,
        )
        for row in narrow
    )
    yield at_most(
        "with fewer columns it serves as well as a Gaussian matrix (Halko, Martinsson & Tropp 2011, section 4.6)",
        gap,
        NEAR,
        "mean extreme singular values at most {value:.3f} farther from 1",
    )
    seconds = {row.matrix: row.cpu for row in costs}
    shape = f"{costs[0].rows} x {costs[0].p} rows, {costs[0].columns} columns"
    yield Claim(
        f"its product with dense rows takes less time than that of a Gaussian matrix ({shape})",
        seconds["srht"] < seconds["gaussian"],
        ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()),
    )


# ---- hashing ---------------------------------------------------------------------------------------


def inner_products(p: int, m: int, draws: int) -> Iterator[Inner]:
    """Pairs of dense vectors, of sparse ones, and of vectors with one entry that outweighs all others."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, p))
    words = (rng.random((2, p)) < 0.02) / 1.0
    spike = np.array([x, x + y])
    spike[:, 0] = np.sqrt(p)
    for name, (a, b) in {"dense": (x, x + y), "words": (words[0], words.max(axis=0)), "spike": spike}.items():
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        hashed = [ls.project(np.array([a, b]), m, "count-sketch", rng=seed) for seed in range(draws)]
        values = np.array([row[0] @ row[1] for row in hashed])
        exact = float(a @ b)
        formula = ((a @ a) * (b @ b) + exact**2 - 2 * np.sum(a**2 * b**2)) / m
        error = values.std(ddof=1) / np.sqrt(draws)
        yield Inner(
            name,
            m,
            draws,
            exact,
            float(values.mean()),
            float(error),
            float(values.var(ddof=1)),
            float(formula),
        )


def accuracies(data: Any, bits: tuple[int, ...]) -> Iterator[Accuracy]:
    """Classes by ridge regression on their indicators, of all words and of hashed ones."""
    (A, y), (B, z) = data.training, data.testing
    indicators = np.eye(int(y.max()) + 1)[y]
    for m in (0, *(2**b for b in bits)):
        seen, new = (M if m == 0 else ls.project(M, m, "count-sketch", rng=0) for M in (A, B))
        found = ls.solve(ls.LeastSquares(seen, indicators, RIDGE), "cg", tol=1e-4)
        yield Accuracy(m, float(np.mean((new @ found.x).argmax(axis=1) == z)))


def claims_on_hashing(inner: list[Inner], accuracy: list[Accuracy]) -> Iterator[Claim]:
    """Held or not."""
    off = max(abs(row.mean - row.exact) / row.error for row in inner)
    yield at_most(
        "hashed inner products have the right mean (Weinberger et al. 2009, Lemma 2)",
        off,
        4,
        "off by {value:.1f} standard errors at most",
    )
    # The variance of a sample variance of n nearly normal numbers is 2/n of its square; hashed ones have longer tails.
    ratios = [row.variance / row.formula for row in inner]
    room = 8 * np.sqrt(2 / inner[0].draws)
    yield Claim(
        "and the variance of the formula (Lemma 2)",
        max(abs(ratio - 1) for ratio in ratios) <= room,
        f"{min(ratios):.3f} to {max(ratios):.3f} times it",
    )
    reached = {row.m: row.accuracy for row in accuracy}
    most = max(reached)
    yield Claim(
        "with enough bits a linear classifier of hashed words is as accurate as one of all words, within a point",
        reached[most] >= reached[0] - LOSS,
        f"{reached[most]:.4f} with {most} columns, {reached[0]:.4f} without hashing",
    )


def main() -> int:
    """Measure, print, record."""
    parser = arguments(__doc__)
    parts = ("srht", "hashing")
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts), help="both")
    report = Report(parser)
    given = report.given
    data = all_newsgroups(given) if "hashing" in given.parts else None
    if "srht" in given.parts:
        n, k, draws = (1024, 4, 10) if given.quick else (8192, 10, 50)
        enough = int(np.ceil(4 * (np.sqrt(k) + np.sqrt(8 * np.log(k * n))) ** 2 * np.log(k)))
        found = list(kept(n, k, (2 * k, 4 * k, 16 * k, enough), draws))
        costs = list(products(*((100, 1024, 100) if given.quick else (2000, 8192, 500))))
        table = report.table(
            "matrix", "basis", "n", "k", "columns", "least::.3f", "largest::.3f", "mean::.3f", "mean::.3f"
        )
        for row in found:
            table.row(*astuple(row))
        report.keep("kept", found)
        report.keep("products", costs)
        report.say(claims_on_srht(found, costs, enough))
    if data is not None:
        inner = list(inner_products(*((200, 50, 400) if given.quick else (2000, 256, 4000))))
        reached = list(accuracies(data, (6, 9, 13) if given.quick else BITS))
        table = report.table(
            "vectors", "m", "draws", "exact::.4f", "mean::.4f", "error::.1e", "variance::.2e", "formula::.2e"
        )
        for row in inner:
            table.row(*astuple(row))
        table = report.table("m", "accuracy::.4f")
        for row in reached:
            table.row(*astuple(row))
        report.keep("inner", inner)
        report.keep("accuracy", reached)
        report.say(claims_on_hashing(inner, reached))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
