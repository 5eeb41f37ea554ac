"""Whether lazy SPCA finds the subspace of SPCA, and where laziness loses it: Propositions 2 and 3 of Wojnowicz 2017.

    python docs/evidence/lazy_subspace.py --data FOLDER [--quick] [--seeds 3] [--parts sweep] [--out FOLDER]

First, on data: the right singular vectors of `spca` and of `lazy-spca` with the same random matrix Ω, in the form of
the paper (as many directions as Ω has columns, lazy-spca with whiten=False) and in the default form (ten columns
more than wanted, truncated). Printed for each data set, k and Ω:

- the chordal distance of the two spans, ‖sin θ‖ for their principal angles θ: for orthonormal V and W it is
  ‖W − V VᵀW‖ in the Frobenius norm, or ‖VVᵀ − WWᵀ‖ / √2, between 0 and √k;
- the distance of each from what the definition says, orth(Aᵀ orth(AΩ)) by orthogonal decompositions in NumPy and
  SciPy, with the Ω that the seed is meant to give. It is zero only if both solvers made this very Ω;
- the distance of lazy-spca with another seed from spca, so that zero means something;
- of the distances between all pairs of PAIR_ROWS rows after projection, the largest relative difference;
- the distance of both, and of the span of Ω itself, from the span of the true singular vectors.

Second, on generated matrices of rank k whose singular values fall geometrically from σ₁ to σ_k: as σ₁/σ_k grows, the
distance of what each solver returns from the true span, ‖W − V VᵀW‖ with W orthonormalised; how far the returned rows
are from orthonormal, max |VhVhᵀ − I|; and what the solver says. "One sweep": the rows come from an iterator.

Then whether each claim held. With `--out`: two figures and all figures as CSV. `--quick` generates small data.

Source: Wojnowicz 2017, Lazy stochastic principal component analysis, arXiv:1709.07175, Propositions 2 and 3, Figure 4.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.linalg
import scipy.spatial.distance
from datasets import all_newsgroups, smooth_images, titles
from showing import Claim, Report, arguments, at_most, panels
from timing import timed

import linspec as ls
from linspec_sketches.gaussian import Gaussian
from linspec_sketches.sparse import VerySparse

# ---- settings --------------------------------------------------------------------------------------

SAME = 1e-8
"""Subspaces are called the same up to this chordal distance, distances of rows up to this share."""

PAIR_ROWS = 400

FORMS: dict[str, tuple[int, dict[str, Any]]] = {"bare": (0, {"whiten": False}), "default": (10, {})}
"""Columns of Ω beyond k, and options of lazy-spca."""

MATRICES: dict[str, ls.TestMatrix] = {
    "gaussian": Gaussian(),
    "very sparse, 1/√p": VerySparse(rule="square-root"),
    "very sparse, log(p)/p": VerySparse(rule="logarithm"),
}

SWEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "direct": ("direct", {}),
    "spca": ("spca", {}),
    "spca, one sweep": ("spca", {}),
    "lazy-spca": ("lazy-spca", {}),
    "lazy-spca, one sweep": ("lazy-spca", {}),
    "lazy-spca, bare": ("lazy-spca", {"whiten": False, "oversampling": 0}),
}

ONE_SWEEP = ", one sweep"
"""The data come as an iterator of row slices, SLICES of them, which can be read once."""

SLICES = 10

RATIOS = 10.0 ** np.arange(1, 11)
SWEPT_SHAPE, QUICK_SHAPE = (3000, 1000, 60), (300, 100, 12)
DTYPES = ("float64", "float32")

ROOM = 100.0
"""How many times eps σ₁/σ_k, or its square, a loss of that order may be."""

ORTHOGONAL = 100.0
"""How many times eps the rows of Vh may be off from orthonormal."""

LOUD = 1e-10
"""A loss beyond that of a stable method has to be said where it is larger than this."""

PLAIN = {"CONVERGED", "APPROXIMATE", "EXACT"}
"""Words of a solution that are no warning."""

# ---- on data ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A matrix without adjustment, whether it should be centred, and the requested numbers of directions."""

    name: str
    A: Any
    center: bool
    ks: tuple[int, ...]

    @property
    def plain(self) -> Any:
        """The matrix that is decomposed."""
        return self.A - self.A.mean(axis=0) if self.center else self.A


@dataclass(frozen=True)
class Equality:
    """The result with one Ω."""

    data: str
    k: int
    matrix: str
    form: str
    distance: float
    spca_from_definition: float
    lazy_from_definition: float
    other_seed: float
    pairs: float
    orthogonality: float
    spca_from_truth: float
    lazy_from_truth: float
    projection_from_truth: float
    spca_cpu: float
    spca_wall: float
    lazy_cpu: float
    lazy_wall: float


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """The matrices, one at a time."""
    small = given.quick
    readers = {
        "newsgroups": lambda: Case(
            "newsgroups", all_newsgroups(given).training[0], False, (10, 25) if small else (100, 500)
        ),
        "titles": lambda: Case("titles", titles(given), False, (10,) if small else (100,)),
        "mnist": lambda: Case("mnist", smooth_images(given), True, (5, 10) if small else (50, 100)),
    }
    for name in given.sets:
        yield readers[name]()


def equalities(case: Case) -> Iterator[Equality]:
    """All numbers of directions, test matrices and forms of one data set."""
    plain = case.plain
    sample = distinct_rows(plain)
    for k in case.ks:
        problem = ls.SVD(case.A, k, center=case.center)
        truth = ls.solve(problem, "block-krylov", rng=0, tol=1e-4).Vh.T
        for (label, matrix), (form, (extra, options)) in product(MATRICES.items(), FORMS.items()):
            shared = {"oversampling": extra, "test_matrix": matrix}
            (V, spca), (W, lazy), (other, _) = (
                timed(span, problem, *run)
                for run in (
                    ("spca", 0, shared), ("lazy-spca", 0, shared | options), ("lazy-spca", 1, shared | options),
                )
            )  # fmt: skip
            Omega = matrix.draw(plain.shape[1], k + extra, np.random.default_rng(0))
            D = by_definition(plain, Omega, k)
            pairs = [(V, W), (D, V), (D, W), (V, other)]
            yield Equality(
                case.name, k, label, form,
                *(chordal(*pair) for pair in pairs),
                pairs_differ(sample @ V, sample @ W),
                max(off_orthonormal(V), off_orthonormal(W)),
                *(chordal(truth, other) for other in (V, W, np.linalg.qr(Omega[:, :k])[0])),
                spca.cpu, spca.clock, lazy.cpu, lazy.clock,
            )  # fmt: skip


def span(problem: Any, solver: str, seed: int, options: dict[str, Any]) -> np.ndarray:
    """Right vectors as columns, certificate included."""
    return np.asarray(ls.solve(problem, solver, rng=seed, **options).Vh.T)


def by_definition(A: Any, Omega: np.ndarray, k: int) -> np.ndarray:
    """The span that both methods are meant to find: orth(Aᵀ orth(AΩ)), or its k leading directions."""
    B = A.T @ scipy.linalg.orth(A @ Omega)  # a very sparse Ω may have columns without an entry
    return np.linalg.qr(B)[0] if B.shape[1] <= k else np.linalg.svd(B, full_matrices=False)[0][:, :k]


def chordal(V: np.ndarray, W: np.ndarray) -> float:
    """‖sin θ‖ of two spans given by orthonormal columns; not a number where one has fewer."""
    return float(np.linalg.norm(W - V @ (V.T @ W))) if V.shape == W.shape else np.nan


def off_orthonormal(V: np.ndarray) -> float:
    """The largest entry of VᵀV − I."""
    return float(np.abs(V.T @ V - np.eye(V.shape[1])).max(initial=0.0))


def distinct_rows(A: Any) -> np.ndarray:
    """Some rows, none twice: rows that are equal have no distance to compare."""
    chosen = np.sort(np.random.default_rng(0).permutation(A.shape[0])[:PAIR_ROWS])
    rows = A[chosen]
    return np.unique(rows.toarray() if hasattr(rows, "toarray") else rows, axis=0)


def pairs_differ(P: np.ndarray, Q: np.ndarray) -> float:
    """The largest relative difference of the distances between rows."""
    if P.shape != Q.shape:
        return np.nan
    before, after = (scipy.spatial.distance.pdist(X) for X in (P, Q))
    return float(np.max(np.abs(after - before) / before))


# ---- where laziness loses --------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """The result of one solver on one generated matrix."""

    dtype: str
    ratio: float
    solver: str
    seed: int
    wanted: int
    returned: int
    distance: float
    orthogonality: float
    status: str
    message: str

    @property
    def eps(self) -> float:
        """Rounding of the entries."""
        return float(np.finfo(self.dtype).eps)

    @property
    def silent(self) -> bool:
        """Whether more is lost than a stable method loses, or a vector is missing, and the status says nothing."""
        lost = self.distance > max(LOUD, ROOM * self.eps * self.ratio) or self.returned < self.wanted
        return lost and self.status in PLAIN


def losses(given: argparse.Namespace) -> Iterator[Loss]:
    """All matrices and solvers."""
    n, p, k = QUICK_SHAPE if given.quick else SWEPT_SHAPE
    for seed, dtype, ratio in product(range(given.seeds), DTYPES, RATIOS):
        rng = np.random.default_rng([seed, n])
        U, V = (np.linalg.qr(rng.standard_normal((m, k)))[0] for m in (n, p))
        A = ((U * np.geomspace(1, 1 / ratio, k)) @ V.T).astype(dtype)
        for label, (solver, options) in SWEPT.items():
            drawn = {} if solver == "direct" else {"rng": seed}
            data = iter(np.array_split(A, SLICES)) if label.endswith(ONE_SWEEP) else A
            s = ls.solve(ls.SVD(data, k), solver, **drawn, **options)
            Vh = s.Vh.astype(np.float64)
            W = np.linalg.qr(Vh.T)[0]
            distance = float(np.linalg.norm(W - V @ (V.T @ W)))
            off = off_orthonormal(Vh.T)
            yield Loss(dtype, ratio, label, seed, k, len(Vh), distance, off, s.status.name, s.message)


# ---- what follows ----------------------------------------------------------------------------------


def claims_on_data(found: list[Equality]) -> Iterator[Claim]:
    """Propositions 2 and 3, what they rest on, and Figure 4."""
    for form in FORMS:
        rows = [row for row in found if row.form == form]
        yield below(f"one seed gives both solvers the same Ω ({form} form)", SAME, *(
            (row.spca_from_definition, row.lazy_from_definition) for row in rows
        ))  # fmt: skip
        yield below(
            f"spca and lazy-spca span the same ({form} form)", SAME, *((row.distance,) for row in rows)
        )
        yield below(
            f"the projected rows keep the same distances ({form} form)", SAME, *((row.pairs,) for row in rows)
        )
    nearer = [row.lazy_from_truth < row.projection_from_truth for row in found]
    shares = [row.lazy_from_truth / row.projection_from_truth for row in found]
    yield Claim(
        "the span is nearer to that of the true components than the span of Ω",
        all(nearer),
        f"{sum(nearer)} of {len(nearer)}; distance from {min(shares):.2f} to {max(shares):.2f} times that of Ω",
    )


def below(text: str, limit: float, *groups: tuple[float, ...]) -> Claim:
    """A claim that some distances vanish."""
    return at_most(text, max(value for group in groups for value in group), limit, "largest {value:.1e}")


def claims_on_losses(found: list[Loss]) -> Iterator[Claim]:
    """Yield the claims of linspec on its own solvers."""
    for solver, dtype in product(SWEPT, DTYPES):
        rows = [row for row in found if (row.solver, row.dtype) == (solver, dtype)]
        power = 2 if solver.startswith("lazy") or solver.endswith(ONE_SWEEP) else 1
        worst = max(rows, key=lambda row: row.distance / row.ratio**power)
        share = worst.distance / (worst.eps * worst.ratio**power)
        order = "eps (σ₁/σ_k)²" if power == 2 else "eps σ₁/σ_k"
        place = f"largest share {share:.2g}, at {worst.ratio:.0e}"
        yield at_most(
            f"{solver}, {dtype}: what it returns is off by the order of {order}", share, ROOM, place
        )
        off = max(row.orthogonality for row in rows)
        text = f"{solver}, {dtype}: the rows of Vh are orthonormal to rounding"
        yield at_most(text, off, ORTHOGONAL * rows[0].eps, "off by {value:.1e} at most")
        silent = [row for row in rows if row.silent]
        yield Claim(
            f"{solver}, {dtype}: what is lost beyond {ROOM:g} eps σ₁/σ_k and {LOUD:g}, or missing, is said",
            not silent,
            "nothing silent" if not silent else "; ".join(
                f"σ₁/σ_k {row.ratio:.0e}: {row.distance:.1e}, {row.returned} of {row.wanted}, {row.status}"
                for row in silent if row.seed == silent[0].seed
            ),
        )  # fmt: skip


# ---- showing ---------------------------------------------------------------------------------------


def show_equalities(report: Report, found: list[Equality]) -> None:
    """The table, times with it."""
    table = report.table(
        "data", "k", "Ω", "form", "spca to lazy-spca::.1e", "spca to definition::.1e", "lazy to definition::.1e",
        "other seed::.3g", "pairs::.1e", "VhVhᵀ − I::.1e", "spca to true::.3f", "lazy to true::.3f", "Ω to true::.3f",
        "spca CPU s::.2f", "clock::.2f", "lazy CPU s::.2f", "clock::.2f",
        title="chordal distances; pairs: relative difference of the distances between rows; seconds with certificate",
    )  # fmt: skip
    for row in found:
        table.row(*astuple(row))


def show_losses(report: Report, found: list[Loss]) -> None:
    """The worst of the seeds, and what the first seed's solution says."""
    groups: dict[tuple[str, str, float], list[Loss]] = defaultdict(list)
    for row in found:
        groups[row.dtype, row.solver, row.ratio].append(row)
    table = report.table(
        "dtype", "solver", "σ₁/σ_k::.0e", "returned", "of", "distance::.1e", "VhVhᵀ − I::.1e", "status"
    )
    for key, rows in groups.items():
        distance, off = (max(getattr(row, name) for row in rows) for name in ("distance", "orthogonality"))
        status = ", ".join(dict.fromkeys(row.status for row in rows))
        table.row(*key, min(row.returned for row in rows), rows[0].wanted, distance, off, status)
    said: dict[tuple[str, str, str, bool], Loss] = {}
    for row in found:
        said.setdefault((row.dtype, row.solver, row.status, row.returned < row.wanted), row)
    table = report.table("dtype", "solver", "σ₁/σ_k::.0e", "returned", "of", "what they say")
    for row in said.values():
        table.row(row.dtype, row.solver, row.ratio, row.returned, row.wanted, f"{row.status}: {row.message}")


def draw_equalities(found: list[Equality]) -> Any:
    """Distances of each case, on a logarithmic axis."""
    figure, (row,) = panels(1, 2, sharey=True)
    names = list(dict.fromkeys(f"{r.data}, {r.k}" for r in found))
    marks = {
        "distance": "o",
        "pairs": "x",
        "other_seed": "^",
        "projection_from_truth": "+",
        "lazy_from_truth": "v",
    }
    words = {
        "distance": "spca to lazy-spca",
        "pairs": "distances of projected rows",
        "other_seed": "spca to lazy-spca, another seed",
        "projection_from_truth": "Ω to the true components",
        "lazy_from_truth": "lazy-spca to the true components",
    }
    for axes, form in zip(row, FORMS, strict=True):
        for name, mark in marks.items():
            chosen = [r for r in found if r.form == form]
            axes.plot(
                [names.index(f"{r.data}, {r.k}") for r in chosen],
                [getattr(r, name) for r in chosen],
                mark,
                label=words[name],
            )
        axes.axhline(SAME, color="gray", ls=":")
        axes.set(yscale="log", title=f"{form} form", xticks=range(len(names)))
        axes.set_xticklabels(names, rotation=20)
    row[0].legend(fontsize="small")
    return figure


def draw_losses(found: list[Loss]) -> Any:
    """Distance from the truth and orthogonality against σ₁/σ_k; hollow where vectors are missing."""
    figure, grid = panels(2, 2, sharex=True, sharey="row")
    for axes, dtype in zip(grid[0], DTYPES, strict=True):
        eps = float(np.finfo(dtype).eps)
        axes.plot(RATIOS, np.minimum(eps * RATIOS, 10), "k:", lw=1, label="eps σ₁/σ_k")
        axes.plot(RATIOS, np.minimum(eps * RATIOS**2, 10), "k--", lw=1, label="eps (σ₁/σ_k)²")
        axes.set(xscale="log", yscale="log", title=dtype, ylim=(1e-16, 10))
    for pair, name in zip(grid, ("distance", "orthogonality"), strict=True):
        pair[0].set_ylabel(
            {"distance": "distance from the true span", "orthogonality": "max |VhVhᵀ − I|"}[name]
        )
        for (axes, dtype), (i, solver) in product(zip(pair, DTYPES, strict=True), enumerate(SWEPT)):
            rows = [r for r in found if (r.dtype, r.solver) == (dtype, solver)]
            worst = [max(getattr(r, name) for r in rows if r.ratio == ratio) for ratio in RATIOS]
            whole = [all(r.returned == r.wanted for r in rows if r.ratio == ratio) for ratio in RATIOS]
            axes.plot(RATIOS, worst, color=f"C{i}", lw=1)
            for full in (True, False):
                at = [j for j, complete in enumerate(whole) if complete is full]
                style = {
                    "color": f"C{i}",
                    "markerfacecolor": f"C{i}" if full else "white",
                    "markersize": 12 - 1.5 * i,
                }
                axes.plot(RATIOS[at], np.array(worst)[at], "o", label=solver if full else None, **style)
            axes.set(xscale="log", yscale="log", xlabel="σ₁/σ_k")
    grid[0, 0].legend(fontsize="small")
    figure.suptitle("hollow: fewer vectors than asked for")
    return figure


# ---- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    sets = ("newsgroups", "titles", "mnist")
    parser.add_argument("--sets", nargs="+", choices=sets, default=list(sets), help="all three")
    parser.add_argument(
        "--parts", nargs="+", choices=("data", "sweep"), default=["data", "sweep"], help="both"
    )
    parser.add_argument("--seeds", type=int, default=3, help="matrices of each kind in the sweep (3)")
    report = Report(parser)
    given = report.given
    # Data that are missing are missed before anything is computed.
    listed = list(cases(given)) if "data" in given.parts else []
    if listed:
        equal = [found for case in listed for found in equalities(case)]
        show_equalities(report, equal)
        report.keep("equality", equal)
        report.picture("equality", draw_equalities, equal)
        report.say(claims_on_data(equal))
    if "sweep" in given.parts:
        lost = list(losses(given))
        show_losses(report, lost)
        of = ("ratio", "returned", "distance", "orthogonality", "status")
        report.keep("loss", lost, ("dtype", "solver", "seed", "wanted"), of)
        report.picture("loss", draw_losses, lost)
        report.say(claims_on_losses(lost))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
