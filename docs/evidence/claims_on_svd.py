"""What papers claim about random projections and sketches, repeated: four studies, each with its claims and verdicts.

    python docs/evidence/claims_on_svd.py STUDY --data FOLDER [--quick] [--only PART ...] [--recorded]

`--recorded` judges the recorded rows again. `docs/evidence/experiments.md` tells of the papers. The first three are
about Wojnowicz 2017: `spca` orthonormalises a matrix with as many rows as the data, `lazy-spca` does not.

lazy_subspace (newsgroups, titles, mnist, sweep): chordal distances ‖sin θ‖ of both subspaces with one Ω, in the form of
the paper ("bare": Ω has k columns) and in the default form; from orth(Aᵀ orth(AΩ)) by NumPy and SciPy; with another
seed, so that zero means something. In the sweep matrices of rank k have σ₁/σ_k from 10 to 1e10, `--seeds` (3) of each.

lazy_accuracy (newsgroups, homedepot): rows are reduced to `--ks` (10 to 1000) numbers by a random projection (RP,
A Ω/√k), by both with `--seeds` (3) of the same Ω, by the true components, or not at all; then scikit-learn's logistic
regression (L2, C = 10) is judged on rows held out. Above 100 columns there is one seed, above 300 one kind of Ω.
Seconds are without the sweep in which linspec certifies. "spca, QR" is timed only.

lazy_stream: CPU seconds of both on sparse rows that are made anew in each sweep, less those of making them, by k and by
rows; the peak of what is held, by tracemalloc. `spca` no longer takes rows that can be read only once.

sketch_quality (srht, hashing): singular values of Hadamard sketches of orthonormal columns, beside those of Gaussian
ones, and what a product takes; mean and variance of hashed inner products, and a classifier of hashed words.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import datasets
import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.spatial.distance
from showing import POSITIVE, Claim, Measured, Report, Row, Rows, at_most, chosen, every, listed, run_study
from timing import Stopwatch, alternate

import linspec as ls
from linspec_sketches.gaussian import Gaussian
from linspec_sketches.sparse import VerySparse

PAPERS = "very sparse, 1/√p"
# Kinds of Ω.
MATRICES: dict[str, ls.TestMatrix] = {
    "gaussian": Gaussian(),
    PAPERS: VerySparse(rule="square-root"),
    "very sparse, log(p)/p": VerySparse(rule="logarithm"),
}


# Columns of Ω beyond k, and options of lazy-spca.
FORMS: dict[str, tuple[int, dict[str, Any]]] = {"bare": (0, {"whiten": False}), "default": (10, {})}
# Solvers with options; for one sweep the data come as an iterator of row slices, which can be read once.
SWEPT: dict[str, dict[str, Any]] = {
    "direct": {},
    "spca": {"rng": 0},
    "spca, one sweep": {"rng": 0},
    "lazy-spca": {"rng": 0},
    "lazy-spca, one sweep": {"rng": 0},
    "lazy-spca, bare": {"rng": 0, "whiten": False, "oversampling": 0},
}
ROOM, LOUD = 100.0, 1e-10
"""How many times eps σ₁/σ_k, or its square, a loss of that order may be, and the loss that has to be said beyond it."""


def lazy_subspace(report: Report) -> None:
    parts = chosen(report, "newsgroups", "titles", "mnist", "sweep")
    if parts != ["sweep"]:
        measured = (row for name in parts if name != "sweep" for row in equalities(report.given, name))
        columns = "data k matrix form distance::.1e spca_from_definition::.1e lazy_from_definition::.1e "
        columns += "other_seed::.3g pairs::.1e lazy_from_truth::.3f projection_from_truth::.3f"
        report.say(claims_on_equality(report.rows("equality", columns, measured)))
    if "sweep" in parts:
        columns = "dtype solver seed wanted ratio::.0e returned distance::.1e orthogonality::.1e status"
        lost = report.rows("loss", columns, losses(report.given), "dtype solver seed wanted")
        report.say(claims_on_losses(lost))


def equalities(given: argparse.Namespace, name: str) -> Measured:
    """All numbers of directions, test matrices and forms of one data set; images are centred."""
    readers = {"newsgroups": datasets.newsgroups, "titles": datasets.titles_and_queries}
    center = name == "mnist"
    A = datasets.images(given) if center else readers[name](given)[0]
    plain = A - A.mean(axis=0) if center else A
    rows = plain[np.sort(np.random.default_rng(0).permutation(A.shape[0])[:400])]
    # Rows that are equal have no distance.
    sample = np.unique(rows.toarray() if scipy.sparse.issparse(rows) else rows, axis=0)
    sizes = {"newsgroups": (100, 500), "titles": (100,), "mnist": (50, 100)}
    for k in (5, 10) if given.quick else sizes[name]:
        problem = ls.SVD(A, k, center=center)
        truth = ls.solve(problem, "block-krylov", rng=0, tol=1e-4).Vh.T
        for (label, matrix), (form, (extra, options)) in product(MATRICES.items(), FORMS.items()):
            shared = {"oversampling": extra, "test_matrix": matrix}
            runs = ("spca", 0, shared), ("lazy-spca", 0, shared | options), ("lazy-spca", 1, shared | options)
            answers = (ls.solve(problem, way, rng=seed, **more) for way, seed, more in runs)
            V, W, other = (np.asarray(answer.Vh.T) for answer in answers)
            Omega = matrix.draw(A.shape[1], k + extra, np.random.default_rng(0))
            D, projection = by_definition(plain, Omega, k), np.linalg.qr(Omega[:, :k])[0]
            distances = (chordal(*pair) for pair in ((V, W), (D, V), (D, W), (V, other)))
            truths = chordal(truth, W), chordal(truth, projection)
            yield name, k, label, form, *distances, pairs_differ(sample @ V, sample @ W), *truths


def by_definition(A: Any, Omega: np.ndarray, k: int) -> np.ndarray:
    """The span that both methods are meant to find: orth(Aᵀ orth(AΩ)), or its k leading directions."""
    B = A.T @ scipy.linalg.orth(A @ Omega)  # a very sparse Ω may have columns without an entry
    return np.linalg.qr(B)[0] if B.shape[1] <= k else np.linalg.svd(B, full_matrices=False)[0][:, :k]


def chordal(V: np.ndarray, W: np.ndarray) -> float:
    """‖sin θ‖ of two spans given by orthonormal columns; not a number where one has fewer."""
    return float(np.linalg.norm(W - V @ (V.T @ W))) if V.shape == W.shape else np.nan


def pairs_differ(P: np.ndarray, Q: np.ndarray) -> float:
    """The largest relative difference of the distances between rows."""
    if P.shape != Q.shape:
        return np.nan
    before, after = (scipy.spatial.distance.pdist(X) for X in (P, Q))
    return float(np.max(np.abs(after - before) / before))


def losses(given: argparse.Namespace) -> Measured:
    n, p, k = (300, 100, 12) if given.quick else (3000, 1000, 60)
    for seed, dtype, power in product(range(given.seeds or 3), ("float64", "float32"), range(1, 11)):
        rng, ratio = np.random.default_rng([seed, n]), 10.0**power
        U, V = (np.linalg.qr(rng.standard_normal((m, k)))[0] for m in (n, p))
        A = ((U * np.geomspace(1, 1 / ratio, k)) @ V.T).astype(dtype)
        for label, options in SWEPT.items():
            data = iter(np.array_split(A, 10)) if label.endswith("one sweep") else A
            seeded = options | ({"rng": seed} if options else {})
            try:
                s = ls.solve(ls.SVD(data, k), label.split(",")[0], **seeded)
            except ls.errors.SweptOnce:
                yield dtype, label, seed, k, ratio, 0, np.nan, np.nan, "SweptOnce"
                continue
            rows = s.Vh.astype(np.float64).T
            W = np.linalg.qr(rows)[0]
            off = float(np.abs(rows.T @ rows - np.eye(rows.shape[1])).max(initial=0.0))
            distance = float(np.linalg.norm(W - V @ (V.T @ W)))
            yield dtype, label, seed, k, ratio, rows.shape[1], distance, off, s.status.name


def claims_on_equality(found: Rows) -> Iterator[Claim]:
    """Propositions 2 and 3, what they rest on, and Figure 4; 1e-8 is the same."""
    texts = {
        "one seed gives both solvers the same Ω": ("spca_from_definition", "lazy_from_definition"),
        "spca and lazy-spca span the same": ("distance",),
        "the projected rows keep the same distances": ("pairs",),
    }
    for form, (text, names) in product(FORMS, texts.items()):
        largest = max(max(found.where(form=form).of(name)) for name in names)
        yield at_most(f"{text} ({form} form)", largest, 1e-8, "largest {value:.1e}")
    shares = [row["lazy_from_truth"] / row["projection_from_truth"] for row in found]
    nearer = sum(share < 1 for share in shares)
    told = f"{nearer} of {len(shares)}; distance from {min(shares):.2f} to {max(shares):.2f} times that of Ω"
    text = "the span is nearer to that of the true components than the span of Ω"
    yield Claim(text, nearer == len(shares), told)


def claims_on_losses(found: Rows) -> Iterator[Claim]:
    """Yield the claims of linspec on its own solvers."""
    for solver, dtype in product(SWEPT, ("float64", "float32")):
        rows, name = found.where(solver=solver, dtype=dtype), f"{solver}, {dtype}"
        eps = float(np.finfo(dtype).eps)
        if rows[0]["status"] == "SweptOnce":
            text = f"{name}: what it returns is off by the order of eps (σ₁/σ_k)²"
            yield Claim(text, None, "it reads several times")
            continue
        power = 2 if solver.startswith("lazy") or solver.endswith("one sweep") else 1
        worst = max(rows, key=lambda row: row["distance"] / row["ratio"] ** power)
        share = worst["distance"] / (eps * worst["ratio"] ** power)
        order = ("eps σ₁/σ_k", "eps (σ₁/σ_k)²")[power - 1]
        told = f"largest share {share:.2g}, at {worst['ratio']:.0e}"
        yield at_most(f"{name}: what it returns is off by the order of {order}", share, ROOM, told)
        off, text = max(rows.of("orthogonality")), f"{name}: the rows of Vh are orthonormal to rounding"
        yield at_most(text, off, 100 * eps, "off by {value:.1e} at most")
        silent = [row for row in rows if silently_lost(row, eps)]
        told = "; ".join(f"{row['ratio']:.0e}: {row['distance']:.1e}, {row['status']}" for row in silent[:9])
        text = f"{name}: what is lost beyond {ROOM:g} eps σ₁/σ_k and {LOUD:g}, or missing, is said"
        yield Claim(text, not silent, told or "nothing silent")


def silently_lost(row: Row, eps: float) -> bool:
    """Whether more is lost than a stable method loses, or a vector is missing, and the status says nothing."""
    lost = row["distance"] > max(LOUD, ROOM * eps * row["ratio"]) or row["returned"] < row["wanted"]
    return lost and row["status"] in {"CONVERGED", "APPROXIMATE", "EXACT"}


RP, SPCA, LAZY, SPCA_QR, TRUE, WHOLE = "RP", "spca", "lazy-spca", "spca, QR", "block-krylov", "no reduction"

OPTIONS: dict[str, dict[str, Any]] = {
    SPCA: {"oversampling": 0},
    SPCA_QR: {"oversampling": 0, "normalizer": "qr"},
    LAZY: {"oversampling": 0, "whiten": False},
    TRUE: {"tol": 1e-3},
}


def lazy_accuracy(report: Report) -> None:
    readers = {"newsgroups": datasets.all_newsgroups, "homedepot": datasets.relevant_titles}
    names, data = chosen(report, *readers), {}
    if not report.given.recorded:
        data = {name: readers[name](report.given) for name in names}
    for name in names:
        columns = "data method matrix k seed accuracy::.4f reduce_cpu::.2f certificate_cpu::.2f fit_cpu::.2f"
        found = report.rows(name, columns, outcomes(report.given, name, data.get(name)))
        report.say(claims_on_accuracy(found), name)


def outcomes(given: argparse.Namespace, name: str, data: Any) -> Measured:
    """All methods, numbers of columns, matrices and seeds on one data set."""
    yield name, WHOLE, "", 0, 0, *reduced_and_fitted(data, WHOLE, "", 0, 0)
    for k in sorted(given.ks or ((5, 20) if given.quick else (10, 30, 100, 300, 1000))):
        seeds = range((given.seeds or (2 if given.quick else 3)) if k <= 100 else 1)
        runs = [(TRUE, "", 0)] if k <= 300 else []
        for label, seed in product(MATRICES if k <= 300 else [PAPERS], seeds):
            methods = (RP, SPCA, LAZY, SPCA_QR) if label == PAPERS else (RP, SPCA, LAZY)
            runs += [(method, label, seed) for method in methods]
        for method, label, seed in runs:
            yield name, method, label, k, seed, *reduced_and_fitted(data, method, label, k, seed)


def reduced_and_fitted(data: Any, method: str, label: str, k: int, seed: int) -> tuple[float, ...]:
    """Accuracy of one fit, not a number if only the reduction was timed, and seconds of its three steps."""
    (rows, classes), (new, expected) = data.training, data.testing
    reducing, certifying, fitting = Stopwatch(), Stopwatch(), Stopwatch()
    reduced, held_out, accuracy = rows, new, np.nan
    if method == RP:
        with reducing:
            reduced = ls.project(rows, k, MATRICES[label], rng=seed)
        held_out = ls.project(new, k, MATRICES[label], rng=seed)
    elif method != WHOLE:
        drawn = {"test_matrix": MATRICES[label]} if label else {}
        with reducing:
            solver, problem = method.partition(",")[0], ls.SVD(rows, k)
            V = np.asarray(ls.solve(problem, solver, rng=seed, **OPTIONS[method], **drawn).Vh).T
            reduced = rows @ V
        with certifying:
            ls.Moments(rows).products(V)
        held_out = new @ V
    if method != SPCA_QR:
        accuracy = classified((reduced, classes), (held_out, expected), fitting)
    return accuracy, reducing.cpu - certifying.cpu, certifying.cpu, fitting.cpu


def classified(training: tuple[Any, Any], testing: tuple[Any, Any], watch: Stopwatch) -> float:
    """The share of the rows held out whose class is predicted."""
    from sklearn.linear_model import LogisticRegression

    (reduced, classes), (held_out, expected) = training, testing
    if scipy.sparse.issparse(reduced) and reduced.shape[1] <= 1000:
        reduced, held_out = reduced.toarray(), held_out.toarray()
    entries = reduced.data if scipy.sparse.issparse(reduced) else reduced
    scale = np.sqrt(reduced.shape[0]) / np.linalg.norm(entries)
    model = LogisticRegression(C=10.0, tol=1e-4, max_iter=100)
    with watch:
        model.fit(reduced * scale, classes)
    return float(model.score(held_out * scale, expected))


def claims_on_accuracy(found: Rows) -> Iterator[Claim]:
    """Yield the claims of sections IV and V."""
    pairs = zip(found.where(method=SPCA), found.where(method=LAZY), strict=True)
    gaps = [(abs(a["accuracy"] - b["accuracy"]), a["k"]) for a, b in pairs]
    (gap, k), none = max(gaps), sum(gap == 0 for gap, _ in gaps)
    told = f"accuracies differ by {gap:.1e} at most, at k = {k}, by nothing in {none} of {len(gaps)}"
    yield at_most("SPCA and lazy SPCA are equally accurate, with the same Ω", gap, 1e-3, told)
    for label, method in product(MATRICES, (SPCA, LAZY)):
        own, plain = (by_k(found, name, label, "accuracy", np.mean) for name in (method, RP))
        text = f"{method} is more accurate than RP at every k, Ω {label}"
        yield every(text, own - plain, POSITIVE, form="+.3f", told="ahead by {}")
    for label, spca in [*((label, SPCA) for label in MATRICES), (PAPERS, SPCA_QR)]:
        theirs, ours = (by_k(found, name, label, "reduce_cpu", min) for name in (spca, LAZY))
        ratios, saved = theirs / ours, theirs - ours
        yield every(f"lazy-spca is faster than {spca} at every k, Ω {label}", ratios, 1, told="by {}")
        text = f"lazy-spca saves more seconds, the larger k, against {spca}, Ω {label}"
        yield Claim(text, all(more > less for less, more in pairwise(saved)), f"saved {listed(saved)}")
        text = f"lazy-spca is ahead of {spca} by the greatest factor at the largest k, Ω {label}"
        yield Claim(text, ratios[-1] == max(ratios), f"faster by {listed(ratios)}")


def by_k(found: Rows, method: str, label: str, name: str, reduce: Any) -> np.ndarray:
    groups = found.where(method=method, matrix=label).by("k")
    return np.array([float(reduce(groups[k].of(name))) for k in sorted(groups)])


BOTH = "spca", "lazy-spca"


def lazy_stream(report: Report) -> None:
    """Seconds, memory and distances; growth from twice as many rows on: small slices are gathered."""
    n, p, ks = (4000, 300, (5, 10, 20)) if report.given.quick else (160_000, 4000, (25, 100, 400))
    shapes = [(solver, n, k) for k in ks for solver in BOTH]
    shapes += [("lazy-spca", rows, ks[1]) for rows in (2 * n, 8 * n)]
    measured = ((solver, rows, p, k, *streamed(solver, rows, p, k)) for solver, rows, k in shapes)
    runs = report.rows("runs", "solver rows columns k cpu::.2f peak_mb::.1f", measured)
    apart = ((k, chordal(*(np.asarray(swept(solver, n, p, k).Vh.T) for solver in BOTH))) for k in ks)
    report.say(claims_on_stream(runs, report.rows("distances", "k chordal::.1e", apart)))


def stream(n: int, p: int) -> Measured:
    """Sparse rows with a decaying spectrum, twenty entries each, the same in every run."""
    rng, size = np.random.default_rng(0), 2000
    frequency = 1 / np.arange(1, p + 1) ** 0.8
    cumulated = np.cumsum(frequency / frequency.sum())
    cumulated[-1] = 1.0
    for start in range(0, n, size):
        rows = min(size, n - start)
        columns = np.searchsorted(cumulated, rng.random((rows, 20)))
        entries = rng.standard_normal(20 * rows), columns.ravel(), np.arange(0, 20 * rows + 1, 20)
        made = scipy.sparse.csr_array(entries, shape=(rows, p))
        made.sum_duplicates()
        yield made


def swept(solver: str, n: int, p: int, k: int) -> Any:
    """The answer for rows that are made anew in each sweep, with the very sparse Ω of the paper."""
    options = {"oversampling": 0, "test_matrix": MATRICES[PAPERS]}
    return ls.solve(ls.SVD(lambda: stream(n, p), k=k), solver, rng=0, **options)


def streamed(solver: str, n: int, p: int, k: int) -> tuple[float, float]:
    """CPU seconds without those of the generator, the least of three, and the peak of another run in MB."""
    calls = {"making": lambda: sum(A.nnz for A in stream(n, p)), "all": lambda: swept(solver, n, p, k)}
    making, whole = alternate(calls, 3).values()
    tracemalloc.start()
    swept(solver, n, p, k)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(whole.cpu) - whole.answer.passes * min(making.cpu), peak


def claims_on_stream(runs: Rows, distances: Rows) -> Iterator[Claim]:
    """Proposition 4, Figure 2, and Proposition 2; the subspaces of a sweep, which squares, are the same to 1e-6."""
    *_, few, many = runs
    spca, lazy = (Rows(runs[:-2]).where(solver=solver).medians("cpu", "k") for solver in BOTH)
    ratios = [spca[k] / lazy[k] for k in spca]
    told = ", ".join(f"{ratio:.2f} times at k = {k}" for k, ratio in zip(spca, ratios, strict=True))
    text = "lazy SPCA is faster on a stream at every k (Wojnowicz 2017, Figure 2)"
    yield Claim(text, min(ratios) > 1, told)
    yield Claim("and the more so the larger k is", ratios == sorted(ratios), told)
    growth = many["cpu"] / few["cpu"]
    yield every("its time is linear in the rows", [growth], 3.5, 4.5, told="{} times for 4 times the rows")
    told = f"{few['peak_mb']:.1f} MB and {{value:.1f}} MB"
    yield at_most("its memory does not depend on the rows", many["peak_mb"], 1.1 * few["peak_mb"], told)
    text, farthest = "both find the same subspace (Proposition 2)", max(distances.of("chordal"))
    yield at_most(text, farthest, 1e-6, "chordal distance {value:.1e} at most")


SKETCHES = ("srht", "gaussian", "sparse-sign", "count-sketch")


def sketch_quality(report: Report) -> None:
    quick, parts = report.given.quick, chosen(report, "srht", "hashing")
    data = datasets.all_newsgroups(report.given) if "hashing" in parts and not report.given.recorded else None
    if "srht" in parts:
        columns = "matrix basis n k columns least::.3f largest::.3f mean_least::.3f mean_largest::.3f"
        kept = report.rows("kept", columns, sketched(*((1024, 4, 10) if quick else (8192, 10, 50))))
        sizes = (100, 1024, 100) if quick else (2000, 8192, 500)
        costs = report.rows("products", "matrix rows p columns cpu::.3f", products(*sizes))
        report.say(claims_on_srht(kept, costs))
    if "hashing" in parts:
        columns = "vectors m draws exact::.4f mean::.4f error::.1e variance::.2e formula::.2e"
        sizes = (200, 50, 400) if quick else (2000, 256, 4000)
        inner = report.rows("inner", columns, inner_products(*sizes))
        bits = (6, 9, 13) if quick else (8, 10, 12, 14, 16)
        reached = report.rows("accuracy", "m accuracy::.4f", accuracies(data, bits))
        report.say(claims_on_hashing(inner, reached))


def sketched(n: int, k: int, draws: int) -> Measured:
    """Extreme singular values of sketches of orthonormal columns of three kinds, with up to the theorem's columns."""
    enough = int(np.ceil(4 * (np.sqrt(k) + np.sqrt(8 * np.log(k * n))) ** 2 * np.log(k)))
    bases = {
        "random": np.linalg.qr(np.random.default_rng(0).standard_normal((n, k)))[0],
        "coordinates": np.eye(n, k),
        "hadamard": scipy.linalg.hadamard(n)[:, :k] / np.sqrt(n),  # without signs these are coordinates
    }
    for (basis, V), matrix, width in product(bases.items(), SKETCHES, (2 * k, 4 * k, 16 * k, enough)):
        drawn = (ls.project(V.T, width, matrix, rng=seed) for seed in range(draws))
        least, largest = np.array([np.linalg.svd(sketch, compute_uv=False)[[-1, 0]] for sketch in drawn]).T
        yield matrix, basis, n, k, width, least.min(), largest.max(), least.mean(), largest.mean()


def products(rows: int, p: int, width: int) -> Measured:
    """CPU seconds of a product with dense rows, the least of three."""
    A = np.random.default_rng(0).standard_normal((rows, p))
    turns = alternate({name: lambda name=name: ls.project(A, width, name, rng=0) for name in SKETCHES}, 3)
    for matrix, taken in turns.items():
        yield matrix, rows, p, width, min(taken.cpu)


def claims_on_srht(found: Rows, costs: Rows) -> Iterator[Claim]:
    own, enough = found.where(matrix="srht"), max(found.of("columns"))
    wide = own.where(columns=enough)
    low, high = min(wide.of("least")), max(wide.of("largest"))
    text = f"with {enough} columns all singular values of the SRHT are between 0.4 and 1.48 (Tropp 2011, Theorem 1.3)"
    yield Claim(text, 0.4 <= low <= high <= 1.48, f"{low:.3f} to {high:.3f}")
    farther = []
    for row, peer in zip(own, found.where(matrix="gaussian"), strict=True):
        if row["columns"] < enough:
            farther += [peer["mean_least"] - row["mean_least"], row["mean_largest"] - peer["mean_largest"]]
    text = "with fewer columns it serves as well as a Gaussian matrix (Halko, Martinsson & Tropp 2011, section 4.6)"
    yield at_most(text, max(farther), 0.05, "mean extreme singular values at most {value:.3f} farther from 1")
    seconds, one = costs.medians("cpu", "matrix"), costs[0]
    shape = f"{one['rows']} x {one['p']} rows, {one['columns']} columns"
    text = f"its product with dense rows takes less time than that of a Gaussian matrix ({shape})"
    told = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    yield Claim(text, seconds["srht"] < seconds["gaussian"], told)


def inner_products(p: int, m: int, draws: int) -> Measured:
    """Pairs of dense vectors, of sparse ones, and of vectors with one entry that outweighs all others."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, p))
    words, spike = (rng.random((2, p)) < 0.02) / 1.0, np.array([x, x + y])
    spike[:, 0] = np.sqrt(p)
    for name, (a, b) in {"dense": (x, x + y), "words": (words[0], words.max(axis=0)), "spike": spike}.items():
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        hashed = (ls.project(np.array([a, b]), m, "count-sketch", rng=seed) for seed in range(draws))
        values, exact = np.array([row[0] @ row[1] for row in hashed]), float(a @ b)
        formula = float(((a @ a) * (b @ b) + exact**2 - 2 * np.sum(a**2 * b**2)) / m)
        error, variance = values.std(ddof=1) / np.sqrt(draws), values.var(ddof=1)
        yield name, m, draws, exact, values.mean(), error, variance, formula


def accuracies(data: Any, bits: tuple[int, ...]) -> Measured:
    """Accuracy of ridge regression on class indicators, of all words (m = 0) and of hashed ones."""
    (A, y), (B, z) = data.training, data.testing
    indicators = np.eye(int(y.max()) + 1)[y]
    for m in (0, *(2**b for b in bits)):
        seen, new = (M if m == 0 else ls.project(M, m, "count-sketch", rng=0) for M in (A, B))
        found = ls.solve(ls.LeastSquares(seen, indicators, 1.0), "cg", tol=1e-4)
        yield m, float(np.mean((new @ found.x).argmax(axis=1) == z))


def claims_on_hashing(inner: Rows, accuracy: Rows) -> Iterator[Claim]:
    """Lemma 2, and the experiments; a point of accuracy may be lost."""
    off = max(abs(row["mean"] - row["exact"]) / row["error"] for row in inner)
    text = "hashed inner products have the right mean (Weinberger et al. 2009, Lemma 2)"
    yield at_most(text, off, 4, "off by {value:.1f} standard errors at most")
    # The variance of a sample variance of n nearly normal numbers is 2/n of its square; hashed ones have longer tails.
    ratios, room = [row["variance"] / row["formula"] for row in inner], 8 * np.sqrt(2 / inner[0]["draws"])
    told, farthest = (
        f"{min(ratios):.3f} to {max(ratios):.3f} times it",
        max(abs(ratio - 1) for ratio in ratios),
    )
    yield at_most("and the variance of the formula (Lemma 2)", farthest, room, told)
    reached = accuracy.medians("accuracy", "m")
    most = max(reached)
    text = "with enough bits a linear classifier of hashed words is as accurate as one of all words, within a point"
    told = f"{reached[most]:.4f} with {most} columns, {reached[0]:.4f} without hashing"
    yield Claim(text, reached[most] >= reached[0] - 0.01, told)


if __name__ == "__main__":
    sys.exit(run_study(__doc__, lazy_subspace, lazy_accuracy, lazy_stream, sketch_quality, ks=int))
