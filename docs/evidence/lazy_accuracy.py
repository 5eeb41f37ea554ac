"""The loss of a classifier by reducing the dimension first: Experiments 1 and 2 of Wojnowicz 2017.

    python docs/evidence/lazy_accuracy.py --data FOLDER [--quick] [--seeds 3] [--ks 10 30 100] [--out FOLDER]

Rows are reduced to k numbers each by a random projection (RP, A Ω/√k), by SPCA and by lazy SPCA in the form of the
paper (Ω has k columns, no oversampling; lazy-spca with whiten=False), all three with the same Ω, by the true
components (`block-krylov`), or not at all. Then a logistic regression is fitted to the training rows and judged on
the rows held out:

- newsgroups: 18846 posts, tf-idf, 75878 words, 20 groups, the usual test posts held out;
- homedepot: 74067 pairs of a product title and a query, 31449 columns (tf-idf of the title's words, of the query's, and
  of the words that both have), whether the relevance is above its median, a fifth of the rows held out at random.

The classifier is scikit-learn's, L2 penalty with C = 10, L-BFGS to a gradient of `--tol` in at most `--iterations`.
Reduced rows are multiplied by one number, so that those to learn from have mean squared length one and the penalty
means the same for all. The paper has an L1 penalty; L2 and L-BFGS do not see rotations, and finish in seconds.

Seeds are those of Ω; the rows held out are always the same. Above FEW columns there is one seed, above MANY one kind of
Ω. Seconds are of the processor, the least of the seeds: `reduce` is for finding k directions on the training rows and
reducing these rows, without the sweep in which linspec certifies what it returns, a column of its own; `fit` is for
the classifier. SPCA is run once more with Householder QR, as the paper has it, for its seconds only.

Printed: a table for each set, and for each claim whether it held. With `--out`: a figure of accuracy and one of seconds
for each set, and everything as CSV. `--quick` generates small data.

Source: Wojnowicz 2017, Lazy stochastic principal component analysis, arXiv:1709.07175, sections IV and V.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from datasets import Classified, all_newsgroups, relevant_titles
from showing import Claim, Report, arguments, panels
from sklearn.linear_model import LogisticRegression
from timing import Stopwatch

import linspec as ls
from linspec_sketches.gaussian import Gaussian
from linspec_sketches.sparse import VerySparse

# ---- settings --------------------------------------------------------------------------------------

KS, QUICK_KS = (10, 30, 100, 300, 1000), (5, 20)

FEW, MANY = 100, 300
"""More columns than FEW are measured with one seed, more than MANY with one kind of Ω, without the true components."""

PENALTY, TOLERANCE, ITERATIONS = 10.0, 1e-4, 100

IDENTICAL = 1e-3
"""Accuracies are called identical when they differ by no more than this share of the rows held out, or by one row."""

SETS: dict[str, Callable[[argparse.Namespace], Classified]] = {
    "newsgroups": all_newsgroups,
    "homedepot": relevant_titles,
}

MATRICES: dict[str, ls.TestMatrix] = {
    "gaussian": Gaussian(),
    "very sparse, 1/√p": VerySparse(rule="square-root"),
    "very sparse, log(p)/p": VerySparse(rule="logarithm"),
}
PAPERS = "very sparse, 1/√p"
"""The matrix of the paper's first experiment."""

RP, SPCA, LAZY, SPCA_QR, TRUE, WHOLE = "RP", "spca", "lazy-spca", "spca, QR", "block-krylov", "no reduction"

SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    SPCA: ("spca", {"oversampling": 0}),
    SPCA_QR: ("spca", {"oversampling": 0, "normalizer": "qr"}),
    LAZY: ("lazy-spca", {"oversampling": 0, "whiten": False}),
    TRUE: ("block-krylov", {"tol": 1e-3}),
}

# ---- measuring -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The result of one method with one k and one Ω; accuracy is NaN if only the reduction was timed."""

    data: str
    method: str
    matrix: str
    k: int
    seed: int
    accuracy: float
    reduce_cpu: float
    reduce_wall: float
    certificate_cpu: float
    fit_cpu: float
    fit_wall: float


def measure(
    name: str, data: Classified, ks: tuple[int, ...], seeds: int, model: LogisticRegression
) -> Iterator[Outcome]:
    """All methods, numbers of columns, matrices and seeds on one data set."""
    judged = partial(outcome, data, name, model)
    yield judged(WHOLE, "", 0, 0)
    for k in ks:
        if k <= MANY:
            yield judged(TRUE, "", k, 0)
        for label in MATRICES if k <= MANY else [PAPERS]:
            for seed in range(seeds if k <= FEW else 1):
                for method in (RP, SPCA, LAZY):
                    yield judged(method, label, k, seed)
                if label == PAPERS:
                    yield judged(SPCA_QR, label, k, seed)


def outcome(
    data: Classified, name: str, model: LogisticRegression, method: str, label: str, k: int, seed: int
) -> Outcome:
    """One reduction and one fit."""
    (rows, classes), (new, expected) = data.training, data.testing
    reducing, certifying, fitting = Stopwatch(), Stopwatch(), Stopwatch()
    if method == WHOLE:
        reduced, held_out = rows, new
    elif method == RP:
        with reducing:
            reduced = ls.project(rows, k, MATRICES[label], rng=seed)
        held_out = ls.project(new, k, MATRICES[label], rng=seed)
    else:
        solver, options = SOLVERS[method]
        drawn = {"test_matrix": MATRICES[label]} if label else {}
        with reducing:
            V = np.asarray(ls.solve(ls.SVD(rows, k), solver, rng=seed, **options, **drawn).Vh).T
            reduced = rows @ V
        with certifying:
            ls.Moments(rows).products(V)
        held_out = new @ V
    accuracy = np.nan
    if method != SPCA_QR:
        accuracy = classified(model, (reduced, classes), (held_out, expected), fitting)
    sys.stderr.write(f"{name}, {method}, {label or 'no Ω'}, k = {k}, seed {seed}: {accuracy:.4f}\n")
    return Outcome(
        name, method, label, k, seed, accuracy, reducing.cpu - certifying.cpu, reducing.clock - certifying.clock,
        certifying.cpu, fitting.cpu, fitting.clock,
    )  # fmt: skip


def classified(
    model: LogisticRegression,
    training: tuple[Any, np.ndarray],
    testing: tuple[Any, np.ndarray],
    watch: Stopwatch,
) -> float:
    """The share of the rows held out whose class is predicted."""
    (reduced, classes), (held_out, expected) = training, testing
    if scipy.sparse.issparse(reduced) and reduced.shape[1] <= KS[-1]:
        reduced, held_out = reduced.toarray(), held_out.toarray()
    entries = reduced.data if scipy.sparse.issparse(reduced) else reduced
    scale = np.sqrt(reduced.shape[0]) / np.linalg.norm(entries)
    with watch:
        model.fit(reduced * scale, classes)
    return float(model.score(held_out * scale, expected))


# ---- what follows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """A method at one k with one kind of Ω, over the seeds."""

    accuracy: float
    spread: float
    reduce: float
    certificate: float
    fit: float


@dataclass(frozen=True)
class Found:
    """Everything measured on one data set."""

    held_out: int
    outcomes: list[Outcome]

    def ks(self, method: str, label: str) -> list[int]:
        return sorted({row.k for row in self.outcomes if (row.method, row.matrix) == (method, label)})

    def of(self, method: str, label: str, k: int) -> list[Outcome]:
        return [row for row in self.outcomes if (row.method, row.matrix, row.k) == (method, label, k)]

    def summary(self, method: str, label: str, k: int) -> Summary:
        rows = self.of(method, label, k)
        accuracies = [row.accuracy for row in rows]
        least = (
            min(getattr(row, f"{part}_cpu") for row in rows) for part in ("reduce", "certificate", "fit")
        )
        return Summary(float(np.mean(accuracies)), float(np.ptp(accuracies)), *least)


def claims(found: Found) -> Iterator[Claim]:
    """Yield the claims of sections IV and V."""
    gaps = [
        (abs(spca.accuracy - lazy.accuracy), k)
        for label in MATRICES
        for k in found.ks(LAZY, label)
        for spca, lazy in zip(found.of(SPCA, label, k), found.of(LAZY, label, k), strict=True)
    ]
    yield Claim(
        "SPCA and lazy SPCA are equally accurate, with the same Ω",
        max(gaps)[0] <= max(IDENTICAL, 1.5 / found.held_out),
        f"accuracies differ by {max(gaps)[0]:.1e} at most, at k = {max(gaps)[1]}, by nothing in "
        f"{sum(gap == 0 for gap, _ in gaps)} of {len(gaps)}",
    )
    for label in MATRICES:
        for method in (SPCA, LAZY):
            leads = [
                found.summary(method, label, k).accuracy - found.summary(RP, label, k).accuracy
                for k in found.ks(LAZY, label)
            ]
            yield Claim(
                f"{method} is more accurate than RP at every k, Ω {label}",
                min(leads) > 0,
                "ahead by " + ", ".join(f"{lead:+.3f}" for lead in leads),
            )
    for label, spca in [*((label, SPCA) for label in MATRICES), (PAPERS, SPCA_QR)]:
        yield from claims_on_seconds(found, label, spca)


def claims_on_seconds(found: Found, label: str, spca: str) -> Iterator[Claim]:
    """Lazy SPCA against one SPCA."""
    seconds = [
        (found.summary(spca, label, k).reduce, found.summary(LAZY, label, k).reduce)
        for k in found.ks(LAZY, label)
    ]
    ratios = [theirs / ours for theirs, ours in seconds]
    words = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    yield Claim(f"lazy-spca is faster than {spca} at every k, Ω {label}", min(ratios) > 1, f"by {words}")
    saved = [theirs - ours for theirs, ours in seconds]
    yield Claim(
        f"lazy-spca saves more seconds, the larger k, against {spca}, Ω {label}",
        all(more > less for less, more in pairwise(saved)),
        "saved " + ", ".join(f"{s:.2f}" for s in saved),
    )
    yield Claim(
        f"lazy-spca is ahead of {spca} by the greatest factor at the largest k, Ω {label}",
        ratios[-1] == max(ratios),
        f"faster by {words}",
    )


# ---- showing ---------------------------------------------------------------------------------------


def curves() -> list[tuple[str, str]]:
    """Methods and matrices, in the order of the table."""
    pairs = [(method, label) for label in MATRICES for method in (RP, SPCA, LAZY)]
    return [*pairs, (SPCA_QR, PAPERS), (TRUE, "")]


def show(report: Report, name: str, data: Classified, found: Found) -> None:
    """The table of one set."""
    (rows, classes), (new, expected) = data.training, data.testing
    most = float(np.mean(expected == np.bincount(classes).argmax()))
    table = report.table(
        "method", "Ω", "k", "accuracy::.4f", "spread::.4f", "reduce::.2f", "certificate::.2f", "fit::.2f",
        title=f"{name}: {rows.shape[0]} rows to learn from, {new.shape[0]} held out, {rows.shape[1]} columns; always "
        f"the most frequent class: {most:.4f}",
    )  # fmt: skip
    for method, label in [(WHOLE, ""), *curves()]:
        for k in found.ks(method, label):
            s = found.summary(method, label, k)
            table.row(method, label, k, s.accuracy, s.spread, s.reduce, s.certificate, s.fit)


STYLES = {RP: ":", SPCA: "-", LAZY: "--", SPCA_QR: "-.", TRUE: "-"}


def draw(name: str, found: Found) -> Any:
    """Accuracy against k, and seconds against k."""
    figure, ((accuracy, seconds),) = panels(1, 2)
    for method, label in curves():
        ks = found.ks(method, label)
        summaries = [found.summary(method, label, k) for k in ks]
        color = f"C{list(MATRICES).index(label)}" if label else "black"
        style = {"ls": STYLES[method], "color": color, "marker": "." if method != LAZY else "x"}
        text = f"{method}, {label}" if label else method
        if method != SPCA_QR:
            half = [s.spread / 2 for s in summaries]
            accuracy.errorbar(ks, [s.accuracy for s in summaries], half, label=text, **style)
        seconds.plot(ks, [s.reduce for s in summaries], label=text, **style)
    accuracy.axhline(found.summary(WHOLE, "", 0).accuracy, color="gray", lw=1, label=WHOLE)
    accuracy.set(xscale="log", xlabel="k", ylabel="accuracy on rows held out", title=name)
    seconds.set(xscale="log", yscale="log", xlabel="k", ylabel="CPU seconds of the reduction", title=name)
    for axes in (accuracy, seconds):
        axes.set_xticks(found.ks(LAZY, PAPERS), [str(k) for k in found.ks(LAZY, PAPERS)])
        axes.minorticks_off()
        axes.legend(fontsize="x-small")
    return figure


# ---- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="both")
    parser.add_argument("--ks", type=int, nargs="+", help="columns after reduction (10 to 1000)")
    parser.add_argument("--seeds", type=int, help="Ω drawn of each kind (3; 2 with --quick)")
    parser.add_argument("--tol", type=float, default=TOLERANCE, help="of the classifier (1e-4)")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="of the classifier at most (100)")
    report = Report(parser, "scikit-learn")
    given = report.given
    ks = tuple(sorted(given.ks or (QUICK_KS if given.quick else KS)))
    model = LogisticRegression(C=PENALTY, tol=given.tol, max_iter=given.iterations)
    seeds = given.seeds or (2 if given.quick else 3)
    # Data that are missing are missed before anything is computed.
    for name, data in {name: SETS[name](given) for name in given.sets}.items():
        found = Found(int(data.held_out.sum()), list(measure(name, data, ks, seeds, model)))
        show(report, name, data, found)
        report.picture(name, draw, name, found)
        report.keep(name, found.outcomes)
        report.say(claims(found), name)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
