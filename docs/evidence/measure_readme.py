"""Measure the table of the README: linspec beside scikit-learn, cca-zoo and what one writes with SciPy.

Run `python docs/evidence/measure_readme.py` in an environment with scikit-learn and cca-zoo (`pip install
cca-zoo==4.0.1`). It takes some minutes and 2 GB of disk, writes `docs/evidence/readme.json` with date, versions and
machine, and the table into README.md. `--table` writes the table alone, `--only mapped` measures one task anew and
keeps the others, `--quick` takes small data and prints what it would write.

Every method has a process of its own, one thread, and data that are generated or come with scikit-learn. Processor
seconds are those of the fit, without imports and without reading or making the data. Memory is the peak of the resident
set during the fit, less what is resident before it; Linux says both. In the task "mapped" each process may allocate
1 GiB, less than the data in the file. A method that ends in an error, or not within `--limit` processor seconds, is
entered with the first line of what it says. Errors are relative to the best value found: the sum of the correlations or
of the explained variances, and of regressions the objective.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from datasets import write_planted
from showing import arguments
from timing import Peak, apart, in_words

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("readme.json")
MARKS = ("<!-- docs/evidence/measure_readme.py -->\n", "<!-- docs/evidence/measure_readme.py: end -->\n")
BLOCK = re.compile(f"(?<={re.escape(MARKS[0])}).*?(?={re.escape(MARKS[1])})", re.DOTALL)
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LINSPEC_NUM_THREADS"), "1"
)
ALLOWED = 2**30
"""Bytes that a process may allocate in the task "mapped"."""

K = 10
LIBRARIES = {"linspec": "linspec", "sklearn": "scikit-learn", "cca_zoo": "cca-zoo", "scipy": "SciPy by hand"}

Data = dict[str, Any]


# ---- data -----------------------------------------------------------------------------------------------------


def digits(_: bool, __: Path) -> Data:
    """The left and the right half of 1797 images of handwritten digits."""
    from sklearn.datasets import load_digits

    images = load_digits().images
    return {
        "X": images[:, :, :4].reshape(-1, 32).copy(),
        "Y": images[:, :, 4:].reshape(-1, 32).copy(),
        "ridge": 100.0,
    }


def dense(quick: bool, _: Path) -> Data:
    """Two dense views with twenty shared factors."""
    n, p = (2000, 60) if quick else (50_000, 400)
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, 20)) * np.linspace(1.0, 0.3, 20)
    X, Y = (shared @ rng.standard_normal((20, p)) + 2.0 * rng.standard_normal((n, p)) for _ in range(2))
    return {"X": X, "Y": Y, "ridge": 0.0}


def words(quick: bool, _: Path) -> Data:
    """Word counts in two columns of texts on fifty topics; common words and those of the topic, thirty a text."""
    n, vocabularies = (2000, (300, 200)) if quick else (50_000, (10_000, 5_000))
    rng, length = np.random.default_rng(0), 30
    topic, views = rng.integers(50, size=(n, 1)), []
    for p in vocabularies:
        word = (p * rng.random((n, length)) ** 3).astype(np.int64)  # the first words are the common ones
        own = rng.random((n, length)) < 0.3
        columns = np.where(own, (word + 997 * topic) % p, word).ravel()
        entries = np.ones(columns.size), columns, np.arange(0, columns.size + 1, length)
        views.append(scipy.sparse.csr_matrix(entries, shape=(n, p)))
        views[-1].sum_duplicates()
    return {"X": views[0], "Y": views[1], "ridge": 100.0}


def regression(quick: bool, folder: Path) -> Data:
    """Ten targets that depend on the words, with intercepts."""
    X = words(quick, folder)["X"]
    rng = np.random.default_rng(1)
    B = 7.0 + X @ rng.standard_normal((X.shape[1], 10)) + 5.0 * rng.standard_normal((X.shape[0], 10))
    return {"A": X, "B": B, "ridge": 100.0}


def mapped(quick: bool, folder: Path) -> Data:
    """A file of float32 rows, 2.0 GB, whose halves are the views; it is never read as a whole."""
    n, p = (20_000, 200) if quick else (2_500_000, 200)
    path = folder / "rows.npy"
    if not path.exists():
        write_planted(path, n, p, factors=20, weakest=1.0, size=50_000)
    M = np.load(path, mmap_mode="r")
    return {"X": M[:, : p // 2], "Y": M[:, p // 2 :], "ridge": 0.0}


# ---- canonical correlations -----------------------------------------------------------------------------------


def cca_linspec(data: Data) -> Any:
    import linspec as ls

    s = ls.solve(ls.CCA(data["X"], data["Y"], K, ridge=data["ridge"]), rng=0)
    return (s.x_weights, s.y_weights), {"residual": s.residual, "passes": s.passes, "solver": s.solver}


def cca_sklearn(data: Data) -> Any:
    """It has no ridge, and deflates: its weights belong to the deflated views, its rotations to the views."""
    from sklearn.cross_decomposition import CCA

    model = CCA(K, scale=False, max_iter=5000).fit(data["X"], data["Y"])
    return (model.x_rotations_, model.y_rotations_), {}


def cca_zoo(data: Data) -> Any:
    """Its shrinkage c stands for (1 - c) S + c I, and S is divided by n - 1: c = r / (n - 1 + r) for our ridge r."""
    from cca_zoo.linear import RidgeCCA

    c = data["ridge"] / (data["X"].shape[0] - 1 + data["ridge"])
    return RidgeCCA(K, shrinkage=c).fit([data["X"], data["Y"]]).weights_, {}


def cca_scipy(data: Data) -> Any:
    """Gram matrices, Cholesky factors and the singular value decomposition of what they leave of the cross product."""
    X, Y = data["X"], data["Y"]
    n, x, y = X.shape[0], X.mean(axis=0), Y.mean(axis=0)
    Sx, Sy, C = X.T @ X - n * np.outer(x, x), Y.T @ Y - n * np.outer(y, y), X.T @ Y - n * np.outer(x, y)
    return _whitened(Sx, Sy, C, data["ridge"]), {}


def cca_scipy_sparse(data: Data) -> Any:
    """The same; products of sparse matrices are sparse, and subtracting the means makes them dense."""
    X, Y = data["X"], data["Y"]
    n, x, y = X.shape[0], np.asarray(X.mean(axis=0)), np.asarray(Y.mean(axis=0))
    Sx, Sy, C = ((A.T @ B).toarray() for A, B in ((X, X), (Y, Y), (X, Y)))
    return _whitened(Sx - n * x.T @ x, Sy - n * y.T @ y, C - n * x.T @ y, data["ridge"]), {}


def cca_scipy_mapped(data: Data) -> Any:
    """The same, block by block."""
    X, Y = data["X"], data["Y"]
    n, p = X.shape[0], X.shape[1]
    total, G = np.zeros(p + Y.shape[1]), 0.0
    for start in range(0, n, 20_000):
        rows = np.hstack([A[start : start + 20_000].astype(np.float64) for A in (X, Y)])
        total += rows.sum(axis=0)
        G = G + rows.T @ rows
    G = G - np.outer(total, total) / n
    return _whitened(G[:p, :p], G[p:, p:], G[:p, p:], data["ridge"]), {}


def _whitened(Sx: Any, Sy: Any, C: Any, ridge: float) -> Any:
    Lx, Ly = (np.linalg.cholesky(S + ridge * np.eye(len(S))) for S in (Sx, Sy))
    T = scipy.linalg.solve_triangular(Lx, C, lower=True)
    T = scipy.linalg.solve_triangular(Ly, T.T, lower=True).T
    if min(T.shape) > 2000:  # all singular vectors would take minutes
        U, s, Vt = scipy.sparse.linalg.svds(T, k=K)
        order = np.argsort(-s)
        U, Vt = U[:, order], Vt[order]
    else:
        U, _, Vt = np.linalg.svd(T, full_matrices=False)
    return tuple(
        scipy.linalg.solve_triangular(L, B[:, :K], lower=True, trans=1) for L, B in ((Lx, U), (Ly, Vt.T))
    )


def correlations(data: Data, weights: Any) -> float:
    """The sum of the correlations, with the ridge, in the spans of the weights: the same law for all."""
    W, V = (np.asarray(B, dtype=np.float64) for B in weights)
    x, y = scores(data["X"], W), scores(data["Y"], V)
    Tx, Ty = (
        np.linalg.inv(np.linalg.cholesky(u.T @ u + data["ridge"] * B.T @ B)) for u, B in ((x, W), (y, V))
    )
    return float(np.linalg.svd(Tx @ (x.T @ y) @ Ty.T, compute_uv=False).sum())


def scores(A: Any, W: Any) -> Any:
    """The centred rows of A times W, block by block."""
    found = np.vstack([A[start : start + 100_000] @ W for start in range(0, A.shape[0], 100_000)])
    return found - found.mean(axis=0)


# ---- principal components -------------------------------------------------------------------------------------


def pca_linspec(data: Data) -> Any:
    import linspec as ls

    s = ls.solve(ls.SVD(data["X"], K, center=True), rng=0, tol=1e-8)
    return s.Vh, {"residual": s.residual, "passes": s.passes, "solver": s.solver}


def pca_sklearn(data: Data) -> Any:
    from sklearn.decomposition import PCA

    return PCA(K, svd_solver="arpack", random_state=0).fit(data["X"]).components_, {}


def pca_scipy(data: Data) -> Any:
    X = data["X"]
    mean, p = np.asarray(X.mean(axis=0)).ravel(), X.shape[1]
    centred = scipy.sparse.linalg.LinearOperator(
        X.shape,
        matvec=lambda v: X @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: X.T @ u.ravel() - mean * u.sum(),
        dtype=X.dtype,
    )
    return scipy.sparse.linalg.svds(centred, k=K, v0=np.ones(min(X.shape[0], p)))[2], {}


def variance(data: Data, Vh: Any) -> float:
    """The sum of squares of the centred rows in the span of the components."""
    V = np.linalg.qr(np.asarray(Vh).T)[0]
    return float(np.sum(scores(data["X"], V) ** 2))


# ---- regression -----------------------------------------------------------------------------------------------


def ridge_linspec(data: Data) -> Any:
    import linspec as ls

    s = ls.solve(ls.LeastSquares(data["A"], data["B"], ridge=data["ridge"], center=True), tol=1e-8, rng=0)
    return (s.x, s.intercept), {"residual": s.residual, "passes": s.passes, "solver": s.solver}


def ridge_sklearn(data: Data) -> Any:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=data["ridge"], solver="sparse_cg", tol=1e-8).fit(data["A"], data["B"])
    return (model.coef_.T, model.intercept_), {}


def ridge_scipy(data: Data) -> Any:
    """SciPy's lsqr, a target after the other, on the centred rows as an operator."""
    A, B = data["A"], data["B"]
    mean, middle = np.asarray(A.mean(axis=0)).ravel(), B.mean(axis=0)
    centred = scipy.sparse.linalg.LinearOperator(
        A.shape,
        matvec=lambda v: A @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: A.T @ u.ravel() - mean * u.sum(),
        dtype=A.dtype,
    )
    x = [
        scipy.sparse.linalg.lsqr(centred, b - m, damp=np.sqrt(data["ridge"]), atol=1e-8, btol=1e-8)[0]
        for b, m in zip(B.T, middle, strict=True)
    ]
    return (np.stack(x, axis=1), middle - mean @ np.stack(x, axis=1)), {}


def objective(data: Data, answer: Any) -> float:
    """Return the objective of ridge regression with its sign changed, so that more is better."""
    x, intercept = answer
    return -float(np.sum((data["B"] - data["A"] @ x - intercept) ** 2) + data["ridge"] * np.sum(x**2))


# ---- tasks ----------------------------------------------------------------------------------------------------


class Task:
    """Data, what is asked, how an answer is valued, and the methods by library."""

    def __init__(
        self,
        words: str,
        make: Callable[..., Data],
        value: Callable[..., float],
        **methods: Callable[..., Any],
    ) -> None:
        self.words, self.make, self.value, self.methods = words, make, value, methods


TASKS = {
    "words": Task(
        "CCA with a ridge, sparse, 50,000 x (10,000 + 5,000)", words, correlations,
        linspec=cca_linspec, sklearn=cca_sklearn, cca_zoo=cca_zoo, scipy=cca_scipy_sparse,
    ),
    "mapped": Task(
        "CCA, a file of 2 GB, 1 GiB of memory", mapped, correlations,
        linspec=cca_linspec, sklearn=cca_sklearn, cca_zoo=cca_zoo, scipy=cca_scipy_mapped,
    ),
    "regression": Task(
        "ridge with intercept, sparse, 10 targets", regression, objective,
        linspec=ridge_linspec, sklearn=ridge_sklearn, scipy=ridge_scipy,
    ),
    "dense": Task(
        "CCA, dense, 50,000 x (400 + 400)", dense, correlations,
        linspec=cca_linspec, sklearn=cca_sklearn, cca_zoo=cca_zoo, scipy=cca_scipy,
    ),
    "components": Task(
        "PCA, sparse, 50,000 x 10,000", words, variance,
        linspec=pca_linspec, sklearn=pca_sklearn, scipy=pca_scipy,
    ),
    "digits": Task(
        "CCA with a ridge, 1797 digits, 32 + 32 columns", digits, correlations,
        linspec=cca_linspec, cca_zoo=cca_zoo, scipy=cca_scipy,
    ),
}  # fmt: skip


# ---- a process for each method --------------------------------------------------------------------------------


def measure(task: str, library: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one method in this process."""
    warnings.simplefilter("ignore")
    method = TASKS[task].methods[library]
    importlib.import_module(library if library != "scipy" else "scipy.linalg")
    small = TASKS["digits" if task in {"dense", "mapped"} else task].make(True, folder)
    # Imports, and first touches; what is refused here will be refused below.
    with contextlib.suppress(Exception):
        method(small)
    data = TASKS[task].make(given.quick, folder)
    if task == "mapped":
        resource.setrlimit(resource.RLIMIT_DATA, (ALLOWED, resource.RLIM_INFINITY))
    seconds = int(time.process_time() + given.limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        with Peak() as peak:
            answer, facts = method(data)
    except (Exception, MemoryError) as error:  # noqa: BLE001 - what a library refuses is a result
        return {"refused": in_words(error)}
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_CPU):  # the value is not part of what is measured
        resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    spent = peak.figures()
    found = {"cpu_seconds": spent["cpu"], "clock_seconds": spent["clock"], "memory_mib": spent["memory"]}
    return {**found, **facts, "value": TASKS[task].value(data, answer)}


def in_a_process(task: str, library: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure in a process of its own, which the system ends at the limit."""
    found = apart(measure, task, library, given, folder)
    if "said" not in found:
        return found
    late = found["said"].endswith(f" {-signal.SIGXCPU}")
    return {"refused": f"not done after {given.limit:g} s" if late else found["said"]}


def with_errors(found: dict[str, Any]) -> dict[str, Any]:
    """Beside each value its distance from the best."""
    values = [one["value"] for one in found.values() if "value" in one]
    for one in found.values():
        if "value" in one:
            one["error"] = (max(values) - one["value"]) / abs(max(values))
    return found


def circumstances() -> dict[str, Any]:
    """When, with what, on what."""
    names = ("linspec", "numpy", "scipy", "scikit-learn", "cca-zoo")
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "versions": {
            "Python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in names},
        },
        "machine": {
            "processor": model[1] if model else platform.processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "system": platform.system(),
        },
    }


# ---- the table ------------------------------------------------------------------------------------------------


def table(results: dict[str, Any]) -> str:
    """In Markdown, a line a task; the smallest processor time of a line is bold."""
    lines = [["", *LIBRARIES.values()], ["---"] * (1 + len(LIBRARIES))]
    for name, task in TASKS.items():
        found = results["tasks"][name]
        least = min(one["cpu_seconds"] for one in found.values() if "cpu_seconds" in one)
        lines.append([task.words, *(cell(found.get(library), least) for library in LIBRARIES)])
    lines.append(["says how far off the answer is", "yes", "no", "no", "no"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{caption(results)}\n"


def caption(results: dict[str, Any]) -> str:
    """When, with what, on what."""
    machine, versions = (
        results["machine"],
        [f"{name} {version}" for name, version in results["versions"].items()],
    )
    return (
        "Processor seconds and peak memory beyond the data, on one thread; the least time is bold. "
        f"{results['date']},\n"
        f"{', '.join(versions)},\n"
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}."
    )


def cell(one: dict[str, Any] | None, least: float) -> str:
    """Seconds and memory, or why there are none."""
    if one is None:
        return "–"
    if "refused" in one:
        if "MemoryError" in one["refused"]:
            return "out of memory"
        return one["refused"] if one["refused"].startswith("not done") else "refuses"
    seconds = f"{one['cpu_seconds']:.2g} s" if one["cpu_seconds"] < 10 else f"{one['cpu_seconds']:.0f} s"
    seconds = seconds if one["cpu_seconds"] >= 0.01 else "< 0.01 s"  # the resolution of the clock of CPU time
    text = f"**{seconds}**" if one["cpu_seconds"] == least else seconds
    text += f", {one['memory_mib']:.0f} MiB"
    return text if one["error"] < 1e-6 else f"{text}, {one['error']:.1g} off"


def write_table(results: dict[str, Any]) -> None:
    """Into the README."""
    page = ROOT / "README.md"
    text = page.read_text("utf-8")
    page.write_text(BLOCK.sub(lambda _: table(results), text), "utf-8")


def main() -> int:
    """Measure and write."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--table", action="store_true", help="write the table from the results that there are"
    )
    parser.add_argument("--only", nargs="+", choices=TASKS, help="measure these tasks anew")
    parser.add_argument("--limit", type=float, default=60.0, help="processor seconds for a method")
    parser.add_argument("--folder", type=Path, help="for the file of 2 GB; a temporary one by default")
    given = parser.parse_args()
    if given.table:
        write_table(json.loads(RESULTS.read_text("utf-8")))
        return 0
    os.environ.update(ONE_THREAD)
    results = {**circumstances(), "tasks": {}}
    if given.only:
        results["tasks"] = json.loads(RESULTS.read_text("utf-8"))["tasks"]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name in given.only or TASKS:
            found = {}
            for library in TASKS[name].methods:
                found[library] = in_a_process(name, library, given, Path(folder))
                sys.stderr.write(f"{name}, {library}: {found[library]}\n")
            results["tasks"][name] = with_errors(found)
    if given.quick:
        print(table(results))
        return 0
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    write_table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
