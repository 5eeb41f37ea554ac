"""Print what multiset CCA and SUMCOR take, how exact they are, and what absent rows and five large sparse views take.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_multiset.py`; `--quick` takes small views. All data are
generated. `--parts` takes some of peers, sparse, absent and sumcor; every run of the first three is a process of its
own, whose peak memory counts from the solve on.

- peers: four dense views with five normal variables in common, k = 5, centred, without a ridge. cca-zoo's `GCCA` and
  `MCCA` (`pip install cca-zoo==4.0.1`) are compared where they are installed. The error is the sine of the largest
  angle between the scores of a view and the exact ones, from singular value decompositions of the views; the worst
  view counts.
- sparse: five views of 100,000 rows and 20,000 columns, some 16 words of each row and view. Eight topics are common;
  each view has words of its own for each topic. The share is that of the variance of the topics, as indicator
  variables, that the sum of the scores of all views explains.
- absent: the views of peers, of which each lacks a fifth of the rows, beside the same views with all rows. The exact
  answer is that of the objective in G by its definition, from orthonormal bases of the rows that each view has.
- sumcor: three views of two columns of noise and 25 rows, from 100 seeds. The best sum is sought on a grid of two
  angles, and polished; the third view has its best weights in closed form.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from showing import Claim, Report, arguments
from timing import Peak, apart

import linspec as ls

K, TOPICS, WORDS = 5, 8, 200
PARTS = ("peers", "sparse", "absent", "sumcor")


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="all")
    parser.add_argument("--rounds", type=int, default=3)
    report = Report(parser)
    if "peers" in report.given.parts:
        peers(report)
    if "sparse" in report.given.parts:
        sparse(report)
    if "absent" in report.given.parts:
        absent(report)
    if "sumcor" in report.given.parts:
        sumcor(report)
    return report.end()


# ---- dense views, and cca-zoo ----------------------------------------------------------------------


def related(n: int, p: int) -> list[Any]:
    """Four views with normal variables in common."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((n, K)) * np.linspace(1.5, 0.8, K)
    return [
        common @ np.linalg.qr(rng.standard_normal((p, K)))[0].T * 2 + rng.standard_normal((n, p)) + 1.0
        for _ in range(4)
    ]


def exact_scores(views: list[Any]) -> list[Any]:
    """Scores of each view from orthonormal bases of the centred views."""
    bases = [np.linalg.svd(V - V.mean(axis=0), full_matrices=False)[0] for V in views]
    U = np.linalg.eigh(np.hstack(bases).T @ np.hstack(bases))[1][:, ::-1][:, :K]
    parts = np.split(U, len(views))
    return [Q @ part for Q, part in zip(bases, parts, strict=True)]


def sine(P: Any, Q: Any) -> float:
    """Sine of the largest angle between the spans of two blocks."""
    P, Q = (np.linalg.qr(M)[0] for M in (P, Q))
    return float(np.linalg.norm(P - Q @ (Q.T @ P), 2))


def by_method(name: str, n: int, p: int) -> dict[str, Any]:
    """One method: seconds, memory, and the error of its scores."""
    warnings.simplefilter("ignore")
    views = related(n, p)
    fit = _linspec if name.startswith("linspec") else _cca_zoo
    fit(name, related(60, 8))  # imports
    with Peak() as peak:
        weights = fit(name, views)
    scores = [(V - V.mean(axis=0)) @ np.asarray(W) for V, W in zip(views, weights, strict=True)]
    pairs = zip(scores, exact_scores(views), strict=True)
    return peak.figures() | {"error": max(sine(*pair) for pair in pairs)}


def _linspec(method: str, views: list[Any]) -> Any:
    return ls.solve(ls.get_problem("multiset-cca")(views, k=K), method.split()[1], rng=0).weights


def _cca_zoo(method: str, views: list[Any]) -> Any:
    import cca_zoo.linear

    return getattr(cca_zoo.linear, method.split()[1])(K).fit(views).weights_


def peers(report: Report) -> None:
    """Four dense views."""
    n, p = (600, 20) if report.given.quick else (20_000, 200)
    names = ["linspec auto", "linspec gram", "linspec lobpcg"]
    if importlib.util.find_spec("cca_zoo"):
        names += ["cca-zoo GCCA", "cca-zoo MCCA"]
    title = f"Four views of {n:,} x {p}, k = {K}, centred, no ridge"
    table = report.table(
        "method", "CPU s::.2f", "worst::.2f", "MiB::.0f", "sine of the error::.1e", title=title
    )
    found = {}
    for name in names:
        runs = [apart(by_method, name, n, p) for _ in range(report.given.rounds)]
        if "said" in runs[0]:
            table.row(name, None, None, None, None)
            continue
        cpu = sorted(run["cpu"] for run in runs)
        found[name] = cpu[len(cpu) // 2], max(run["memory"] for run in runs), runs[0]["error"]
        table.row(name, found[name][0], cpu[-1], *found[name][1:])
    auto, gram = found["linspec auto"], found["linspec gram"]
    rivals = [figures for name, figures in found.items() if name.startswith("cca-zoo")]
    report.say([
        Claim("the scores of gram are exact", gram[2] <= 1e-8, f"sine {gram[2]:.1e}", own=True),
        Claim(
            "auto takes less time than the fastest of cca-zoo",
            auto[0] < min(each[0] for each in rivals) if rivals else None,
            f"{auto[0]:.2f} CPU s of {min((each[0] for each in rivals), default=float('nan')):.2f}",
            own=not report.given.quick,
        ),
    ])  # fmt: skip


# ---- sparse views ----------------------------------------------------------------------------------


def topics_and_views(n: int, p: int) -> tuple[Any, list[Any]]:
    """Word counts in five languages of rows that each have a topic."""
    rng, share = np.random.default_rng(0), np.linspace(0.5, 0.15, TOPICS)
    words, each = min(WORDS, p // TOPICS), 20
    topic, views = rng.integers(0, TOPICS, n), []
    for _ in range(5):
        of_topic = rng.permutation(p)[: words * TOPICS].reshape(TOPICS, words)
        chosen = rng.random((n, each)) < share[topic][:, None]
        own = of_topic[topic][np.arange(n)[:, None], rng.integers(0, words, (n, each))]
        columns = np.where(chosen, own, rng.integers(0, p, (n, each)))
        said = rng.random((n, each)) < 0.8
        entries = (np.ones(said.sum()), (np.nonzero(said)[0], columns[said]))
        views.append(scipy.sparse.csr_array(entries, shape=(n, p)))
    return topic, views


def of_sparse(n: int, p: int) -> dict[str, Any]:
    """Five sparse views, swept."""
    warnings.simplefilter("ignore")
    ls.solve(ls.get_problem("multiset-cca")(topics_and_views(90, 40)[1], k=1, ridge=1.0), "lobpcg", rng=0)
    topic, views = topics_and_views(n, p)
    with Peak() as peak:
        s = ls.solve(ls.get_problem("multiset-cca")(views, k=K, ridge=10.0), "lobpcg", form="implicit", rng=0)
    G = np.sum(s.transform(views), axis=0)
    T = np.eye(TOPICS)[topic]
    T, G = T - T.mean(axis=0), G - G.mean(axis=0)
    Q = np.linalg.qr(G)[0]
    found = {"passes": s.passes, "residual": s.residual, "status": s.status.name, "kind": s.residual_kind}
    share = float(np.sum((Q.T @ T) ** 2) / np.sum(np.linalg.svd(T, compute_uv=False)[:K] ** 2))
    return peak.figures() | found | {"total": float(s.eigenvalues.sum()), "share": share}


def sparse(report: Report) -> None:
    """Five views whose Gram matrices do not fit."""
    n, p = (2_000, 400) if report.given.quick else (100_000, 20_000)
    table = report.table(
        "rows", "columns", "CPU s::.0f", "peak MiB::.0f", "passes::.0f", "residual::.1e", "kind", "status",
        "sum::.4f", "share of the topics::.3f", title="Five sparse views, lobpcg, ridge 10, centred",
    )  # fmt: skip
    found = apart(of_sparse, n, p)
    if "said" in found:
        table.row(f"{n:,}", f"5 x {p:,}", None, None, None, None, found["said"])
        return
    names = ("cpu", "memory", "passes", "residual", "kind", "status", "total", "share")
    table.row(f"{n:,}", f"5 x {p:,}", *(found[name] for name in names))
    resident = (found["before"] + found["memory"]) / 1024
    report.say([
        Claim("all of it takes less than 2 GB", resident < 2, f"{resident:.2f} GiB with the data", own=True),
        Claim("the answer is certified", found["status"] == "CONVERGED", found["status"], own=True),
    ])  # fmt: skip


# ---- absent rows -----------------------------------------------------------------------------------


def of_absent(solver: str, n: int, p: int, lacking: float) -> dict[str, Any]:
    """Four dense views, each without a share of its rows."""
    views, rng = related(n, p), np.random.default_rng(1)
    present = [rng.random(n) >= lacking for _ in views]
    cls, options = ls.get_problem("multiset-cca"), {"rng": 0}
    ls.solve(cls(related(60, 8), k=2), solver, **options)
    with Peak() as peak:
        s = ls.solve(cls(views, k=K, present=present if lacking else None), solver, **options)
    blocks, seen = [], np.sum(present, axis=0) if lacking else np.full(n, 4.0)
    for V, mask in zip(views, present, strict=True):
        own = mask if lacking else np.ones(n, dtype=bool)
        Q = np.zeros(V.shape)
        Q[own] = np.linalg.svd(V[own] - V[own].mean(axis=0), full_matrices=False)[0]
        blocks.append(Q / np.sqrt(np.maximum(seen, 1.0))[:, None])
    F, sizes, _ = np.linalg.svd(np.hstack(blocks), full_matrices=False)
    G = F[:, :K] / np.sqrt(np.maximum(seen, 1.0))[:, None]
    scores = [
        S * (mask[:, None] if lacking else 1.0) for S, mask in zip(s.transform(views), present, strict=True)
    ]
    found = np.sum(scores, axis=0) / np.maximum(seen, 1.0)[:, None]
    error = float(np.abs(s.eigenvalues / 4 - sizes[:K] ** 2).max())
    return peak.figures() | {
        "error": error,
        "sine": sine(found, G),
        "passes": s.passes,
        "status": s.status.name,
    }


def absent(report: Report) -> None:
    """Views that lack rows, beside the same views with all rows."""
    n, p = (600, 20) if report.given.quick else (20_000, 200)
    table = report.table(
        "solver", "absent", "CPU s::.2f", "MiB::.0f", "passes::.0f", "error of λ/m::.1e", "sine of G::.1e", "status",
        title=f"Four views of {n:,} x {p}, k = {K}, each without a share of its rows",
    )  # fmt: skip
    found = {}
    for solver in ("gram", "lobpcg"):
        for lacking in (0.0, 0.2):
            runs = [apart(of_absent, solver, n, p, lacking) for _ in range(report.given.rounds)]
            cpu = sorted(run["cpu"] for run in runs)[len(runs) // 2]
            found[solver, lacking] = runs[0] | {"cpu": cpu}
            names = ("memory", "passes", "error", "sine", "status")
            table.row(solver, f"{lacking:.0%}", cpu, *(runs[0][name] for name in names))
    exact, ratio = found["gram", 0.2], found["gram", 0.2]["cpu"] / found["gram", 0.0]["cpu"]
    report.say([
        Claim("the values are those of the objective in G", exact["error"] <= 1e-12, f"{exact['error']:.1e}", own=True),
        Claim("the variates are those of the objective in G", exact["sine"] <= 1e-10, f"{exact['sine']:.1e}", own=True),
        Claim(
            "absent rows take less than three times as long",
            ratio < 3,
            f"{ratio:.2f} times",
            own=not report.given.quick,
        ),
    ])  # fmt: skip


# ---- SUMCOR ----------------------------------------------------------------------------------------


def best_of_three_planes(views: list[Any]) -> float:
    """The largest sum of correlations of three views of two columns."""
    Q = [np.linalg.qr(V - V.mean(axis=0))[0] for V in views]
    C = [[P.T @ R for R in Q] for P in Q]

    def point(t: Any) -> Any:
        return np.array([np.cos(t), np.sin(t)])

    def value(t: Any) -> float:
        u, v = point(t[0]), point(t[1])
        return float(-(u @ C[0][1] @ v + np.linalg.norm(C[2][0] @ u + C[2][1] @ v)))

    grid = np.linspace(0, 2 * np.pi, 361)
    u = point(grid)
    third = np.linalg.norm((C[2][0] @ u)[:, :, None] + (C[2][1] @ u)[:, None, :], axis=0)
    at = np.unravel_index(np.argmax(u.T @ C[0][1] @ u + third), third.shape)
    return -float(scipy.optimize.minimize(value, grid[list(at)], method="BFGS", options={"gtol": 1e-12}).fun)


def sumcor(report: Report) -> None:
    """Small cases whose best sums are known, and larger ones of noise."""
    cls, seeds = ls.get_problem("sumcor-cca"), range(10 if report.given.quick else 100)
    off, gaps, reached, by_first = [], [], [], 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        views = [rng.standard_normal((25, 2)) for _ in range(3)]
        s, best = ls.solve(cls(views, k=1), rng=0), best_of_three_planes(views)
        one = ls.solve(cls(views, k=1), "horst", starts=1)
        off.append(best - float(s.sums[0]))
        gaps.append(float(s.bounds[0] / s.sums[0] - 1))
        reached.append(float(s.agreeing[0]) / s.starts)
        by_first += bool(best - one.sums[0] > 1e-8)
    table = report.table(
        "cases", "worst shortfall::.1e", "starts that lead there::.2f", "MAXVAR's start fails", "bound above::.1e",
        title="SUMCOR of three views of 25 x 2, noise alone",
    )  # fmt: skip
    table.row(f"{len(off)}", max(off), float(np.mean(reached)), f"{by_first}", max(gaps))
    report.say([
        Claim("20 starts find the best sum of every case", max(off) <= 1e-8, f"{max(off):.1e}", own=True),
        Claim("no bound is below the best sum", min(gaps) >= -1e-12, f"{min(gaps):.1e}", own=True),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
