"""Print what discriminant subspaces of text and of many labels take: seconds, memory, and how exact they are.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_discriminant.py --data FOLDER`; `--quick` takes small generated
data, `--sets`, `--techniques`, `--ridges`, `--methods` others. Every run is a process of its own; a method that refuses
is printed as it says it.

- two-stage, direct: linspec's solvers with their defaults; `auto`: what it takes.
- LSQR: the two-stage method as published, SciPy's lsqr (atol = btol = 1e-10) for one column of H after the other. Where
  some columns are sampled ("3 of 20"), seconds are extrapolated to all of them.
- scikit-learn: LinearDiscriminantAnalysis, which has classes and no ridge: at γ = 0 on the 2000 commonest words, where
  it can run, and its refusal of all words, sparse and densified (it may have `--memory` gigabytes).

seconds, CPU: of the solve. memory: mebibytes of the largest resident set of the process, beyond imports and data. sum:
of the eigenvalues. Differences are from a reference, the singular value decomposition of X on delicious, a run of
`two-stage` to 1e-12 with another seed elsewhere: the largest relative one of an eigenvalue, and
‖WWᵀ − W₀W₀ᵀ‖/‖W₀W₀ᵀ‖ (spectral norm); for scikit-learn, which scales otherwise, the sine of the largest angle between
the subspaces.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import labelled
from discriminant_law import Rows, by_columns, dense_targets, distance
from showing import Report, arguments
from timing import Peak, apart, limit_memory

import linspec as ls

REFERENCE = "reference"
FEW = 500
"""Columns up to which it is the singular value decomposition of X."""

OURS = ("two-stage", "direct", "auto", "LSQR")
DENSIFIED = ("svd, densified", "eigen, densified", "lsqr, densified")


class Case(NamedTuple):
    """One table."""

    name: str
    technique: str
    k: int | None = None
    words: int | None = None
    """Only the commonest; None: all."""
    sample: int | None = None
    """Columns for LSQR; None: all."""
    ridges: tuple[float, ...] | None = None
    """None: those of `--ridges`."""
    methods: tuple[str, ...] = OURS


CASES = (
    Case("newsgroups20", "lda", sample=3),
    Case("newsgroups20", "lda", ridges=(0.0,), methods=("svd", *DENSIFIED)),
    Case("newsgroups20", "lda", words=2000, ridges=(0.0,), methods=(*OURS, *DENSIFIED)),
    Case("reuters21578", "opls", sample=5),
    Case("reuters21578", "cca", sample=5),
    Case("reuters21578", "hsl", sample=5),
    Case("delicious", "opls", k=50, sample=20),
    Case("delicious", "cca", k=50, sample=20),
)


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=sorted({case.name for case in CASES}))
    parser.add_argument("--techniques", nargs="+", choices=sorted({case.technique for case in CASES}))
    parser.add_argument("--ridges", nargs="+", type=float, default=[1e-2, 1.0, 100.0])
    parser.add_argument("--methods", nargs="+", help="those whose names begin like this")
    parser.add_argument("--tables", nargs="+", type=int, help="by their number, from 0")
    parser.add_argument(
        "--memory", type=float, default=10.0, help="gigabytes that densified data may take (10)"
    )
    parser.add_argument("--seconds", type=float, default=1200.0, help="of a process (1200)")
    report = Report(parser)
    given = report.given
    for number, case in enumerate(CASES):
        named = case.name in (given.sets or [case.name]) and number in (given.tables or [number])
        if named and case.technique in (given.techniques or [case.technique]):
            table(report, case)
    return report.end()


def table(report: Report, case: Case) -> None:
    """All methods with all ridges."""
    given = report.given
    words, some = (f", {case.words} words" if case.words else "", f", k = {case.k}" if case.k else "")
    lines = report.table(
        "γ::g", "", "seconds::.2f", "CPU::.2f", "memory::.0f", "passes::g", "directions", "sum::.8g",
        "eigenvalues::.1e", "WWᵀ::.1e", "status", title=f"{case.name}{words}, {case.technique.upper()}{some}",
    )  # fmt: skip
    methods = [m for m in case.methods if any(m.startswith(wanted) for wanted in given.methods or [""])]
    for ridge in case.ridges or given.ridges:
        with tempfile.TemporaryDirectory() as folder:

            def run(method: str, ridge: float = ridge, folder: str = folder) -> dict[str, Any]:
                return apart(measured, given, case, method, ridge, Path(folder), seconds=given.seconds)

            known = any(method in OURS or case.words for method in methods)
            best = run(REFERENCE) if known else {}
            for method in methods:
                lines.row(*cells(ridge, method, run(method), best, Path(folder)))


def cells(
    ridge: float, method: str, found: dict[str, Any], best: dict[str, Any], folder: Path
) -> tuple[Any, ...]:
    """A row of the table."""
    name = method if method in OURS else f"scikit-learn, {method}"
    if "said" in found:
        return (ridge, name, *[""] * 8, found["said"])
    W, exact = (
        np.load(path) if path.exists() else None
        for path in (folder / f"{method}.npy", folder / f"{REFERENCE}.npy")
    )
    gap = far = np.nan
    values = np.asarray(found.get("eigenvalues") or [np.nan])
    if W is not None and exact is not None:
        apart = distance if method in OURS else ls.metrics.subspace_distance
        far = apart(W, exact)
        if method in OURS:
            gap = (
                np.abs(values / np.asarray(best["eigenvalues"]) - 1).max()
                if W.shape == exact.shape
                else np.inf
            )
    return (
        ridge, name + found.get("told", ""), found["clock"], found["cpu"], found["memory"], found.get("passes"),
        None if W is None else W.shape[1], float(values.sum()), gap, far, found.get("status", ""),
    )  # fmt: skip


# ---- in a process of its own -----------------------------------------------------------------------


def measured(
    given: argparse.Namespace, case: Case, method: str, ridge: float, folder: Path
) -> dict[str, Any]:
    """Seconds and memory of one method, and its weights in the folder."""
    warnings.simplefilter("ignore")
    X, labels = labelled(given, case.name)
    if case.words:
        commonest = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")[: case.words]
        X = X[:, np.sort(commonest)]
    if method.endswith("densified"):
        limit_memory(given.memory)
    run = prepared(case, method, X, labels, ridge)
    with Peak() as peak:
        weights, found = run()
    if weights is not None:
        np.save(folder / f"{method}.npy", weights)
    return peak.figures() | found


def prepared(case: Case, method: str, X: Any, labels: Any, ridge: float) -> Any:
    """Return the call to be timed, with its imports done."""
    if method == "LSQR":
        H = getattr(ls.targets, case.technique)(labels)
        return lambda: lsqr(X, H, ridge, case)
    if method == REFERENCE or method in OURS:
        return ours(case, method, X, labels, ridge)
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    LinearDiscriminantAnalysis().fit(np.eye(6, 2), [0, 1, 2, 0, 1, 2])
    solver, _, densified = method.partition(", ")

    def run() -> Any:
        model = LinearDiscriminantAnalysis(solver=solver).fit(X.toarray() if densified else X, labels)
        if solver == "lsqr":
            return None, {"status": "classifies only: no subspace"}
        return model.scalings_[:, : len(model.classes_) - 1], {}

    return run


def ours(case: Case, method: str, X: Any, labels: Any, ridge: float) -> Any:
    """One of linspec's solvers."""
    options, seed = ({"tol": 1e-12}, 10_000) if method == REFERENCE else ({}, 0)
    name = "two-stage" if method == REFERENCE else method
    if method == REFERENCE and X.shape[1] <= FEW:
        return lambda: by_decomposition(X, getattr(ls.targets, case.technique)(labels), ridge, case.k)
    small = ls.Discriminant(np.eye(9, 4), np.eye(9, 3), 1, ridge=1.0)
    ls.solve(small, name)

    def run() -> Any:
        problem = ls.Discriminant(X, getattr(ls.targets, case.technique)(labels), case.k, ridge=ridge)
        s = ls.solve(problem, name, rng=seed, **options)
        return s.weights, {
            "passes": s.passes,
            "eigenvalues": s.eigenvalues.tolist(),
            "status": f"{s.status.name}, residual {s.residual:.0e}",
            "told": f" ({s.solver})" if method == "auto" else "",
        }

    return run


def by_decomposition(X: Any, H: Any, ridge: float, k: int | None) -> Any:
    """The reference of few columns."""
    B = dense_targets(H)
    W = Rows.of(X).oracle(B, ridge, k)
    C = X.T @ (B - B.mean(axis=0))
    return W, {"eigenvalues": np.sort(np.linalg.svd(W.T @ C, compute_uv=False) ** 2)[::-1].tolist()}


def lsqr(X: Any, H: Any, ridge: float, case: Case) -> Any:
    """As published."""
    found = by_columns(X, H, ridge, case.k, case.sample)
    values = None if found.eigenvalues is None else found.eigenvalues.tolist()
    return found.weights, {
        "clock": found.seconds,
        "cpu": found.cpu,
        "passes": round(found.sweeps),
        "eigenvalues": values,
        "told": f", {found.solved} of {found.columns}",
    }


if __name__ == "__main__":
    main()
