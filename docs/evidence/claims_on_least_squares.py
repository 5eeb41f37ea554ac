"""What papers claim about ridge regression, and about least squares in place of an eigenproblem: four studies.

    python docs/evidence/claims_on_least_squares.py STUDY --data FOLDER [--quick] [--only PART ...] [--recorded]

`--recorded` judges the recorded rows again. `docs/evidence/experiments.md` tells of the papers.

ridge_risk (steep, flat, spiked): three models of Lu 2015, 2000 x 1500, new in each of `--seeds` (20) repeats. Solvers
are stopped at the settings of Table 2.1; the risk of the iterate, ‖Aβ − A x‖² / n, stands beside that of exact ridge
regression. Not printed in the thesis, and chosen here: the noise (σ = 1), the small singular values of the first model
(U(0.5, 13.8)), the ridges (`--ridge`, 1 and n), and that 1.1 times the risk is close. Flops are those of products with
A, with the certificate.

two_stage_equivalence (data sets): ‖W₀W₀ᵀ − WWᵀ‖₂ beside Table 2 of Sun, Ceran & Ye 2010. W₀ is the oracle of Theorem 4,
from an SVD of the centred X by NumPy. Called equal: a relative difference of at most 1e-12 from γ = 1 on, of 10 eps κ
below, κ the condition number of XᵀX + γI within the span of the rows; 1e-8 by the defaults of `two-stage`.

two_stage_use (yeast, wine): the subspace and scikit-learn's LinearSVC learn from half of the rows, in `--seeds` (5)
random splits; the other half judges. two_stage_scaling (3, 4, 5, the figures): seconds against rows n and columns d,
tf-idf, γ = 1, by a factor and Lanczos and by LSQR, a column after the other, both as printed, and by linspec.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import datasets
import numpy as np
import regression_models
from published import direct_discriminant, two_stage
from showing import Claim, Measured, Report, Row, Rows, at_most, chosen, every, printed, run_study
from timing import alternate

import linspec as ls

EPS = float(np.finfo(np.float64).eps)


MODELS = "steep", "flat", "spiked"
# The ratio of risks that is close, draws of the noise, and components of LING.
CLOSE, DRAWS, K2 = 1.1, 50, 20
# Iterations at which conjugate gradients are stopped.
KRYLOV = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80)
SVRG, LING = "svrg as printed", "ling as printed"
SWEEPING: dict[str, Any] = {"tol": 1e-15, "form": "implicit"}  # AᵀA is not formed: the cost is that of sweeps

CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "gd": ("gd", SWEEPING),
    SVRG: ("svrg", {"tol": 1e-15, "snapshot": "last"}),  # an epoch has as many steps as there are rows
    "pcr": ("pcr", {"form": "implicit"}),
    LING: ("ling", {**SWEEPING, "rank": K2, "variant": "simplified", "inner": "gd"}),
    "svrg": ("svrg", {"tol": 1e-15}),
    "ling": ("ling", {**SWEEPING, "rank": K2}),
    "cg": ("cg", SWEEPING),
    "nystrom-pcg, 20": ("nystrom-pcg", {**SWEEPING, "rank": K2}),
    "nystrom-pcg": ("nystrom-pcg", {"form": "implicit"}),
}


def ridge_risk(report: Report) -> None:
    given = report.given
    n, p = (200, 150) if given.quick else (2000, 1500)
    exact = float(n * p**2 + p**3 / 3)  # of a Gram matrix and its Cholesky factor
    references: list[tuple[Any, ...]] = []
    columns = "model ridge::g curve setting passes::.1f flops::.2e risk::.3f"
    means = report.rows("means", columns, averages(report, n, p, references))
    columns = "model ridge::g expected::.5g surplus::.1e error::.1e far::.1e deflated_far::.1e"
    references = report.rows("references", columns, references)
    for (model, ridge), rows in means.by("model", "ridge").items():
        part = f"{model}, ridge {ridge:g}"
        report.say(claims_on_risk(model, rows, exact), part)
        for row in references.where(model=model, ridge=ridge):
            report.say(claims_on_reference(row), part)


def averages(report: Report, n: int, p: int, references: list[Any]) -> Measured:
    """Means over the repeats, risks over that of ridge regression on the same responses; references are put aside."""
    given = report.given
    for name in chosen(report, *MODELS):
        points, exact = Rows(), Rows()
        for repeat in range(given.seeds or (2 if given.quick else 20)):
            rng = np.random.default_rng([repeat, MODELS.index(name)])
            model = regression_models.model(name, rng, n, p)
            Y = np.column_stack([model.draw(rng) for _ in range(DRAWS)])
            for ridge in given.ridge or [1.0, float(n)]:
                exact.append({"ridge": ridge, **reference(model, Y, ridge)})
                problem = ls.LeastSquares(model.A, Y[:, 0], ridge=ridge)
                for curve in CURVES:
                    points += [
                        {"ridge": ridge, "curve": curve, "setting": setting, "costs": [*costs, model.risk(x)]}
                        for setting, costs, x in trajectory(curve, name, problem, repeat)
                    ]
        for ridge, rows in exact.by("ridge").items():
            expected, simulated = np.mean(rows.of("formula")), np.array(rows.of("simulated"))
            surplus = (simulated - np.array(rows.of("formula"))[:, None]).ravel()
            error = float(surplus.std(ddof=1) / np.sqrt(len(surplus)))
            far = max(rows.of("ridge form")), max(rows.of("deflated"))
            references.append((name, ridge, float(expected), float(surplus.mean()), error, *far))
            for (curve, setting), some in points.where(ridge=ridge).by("curve", "setting").items():
                passes, flops, risk = np.mean(some.of("costs"), axis=0).tolist()
                yield name, ridge, curve, setting, passes, flops, risk / float(simulated[:, 0].mean())


def reference(model: Any, Y: np.ndarray, ridge: float) -> Row:
    """Exact ridge regression, and how far LING's converged predictions are from its."""
    X = ls.solve(ls.LeastSquares(model.A, Y, ridge=ridge), "direct").x
    exact, row = model.A @ X[:, 0], {"formula": model.ridge_risk(ridge), "simulated": model.risk(X)}
    for name, form in (("ridge form", "ridge"), ("deflated", "deflated")):
        options = {"rank": K2, "variant": form, "tol": 1e-13, "max_iterations": 2000}
        x = ls.solve(ls.LeastSquares(model.A, Y[:, 0], ridge=ridge), "ling", rng=0, **options).x
        row[name] = float(np.linalg.norm(model.A @ x - exact) / np.linalg.norm(exact))
    return row


def trajectory(curve: str, model: str, problem: Any, seed: int) -> Measured:
    """Setting, costs and coefficients: after iterations of one run, of PCR at ranks in runs of their own."""
    solver, options = CURVES[curve]
    settings = printed("Lu 2015, Table 2.1").get(solver, {}).get(model, KRYLOV)
    if solver == "pcr":
        for rank in settings:
            if rank < problem.A.shape[1]:  # small models have fewer components than Table 2.1 asks for
                s = ls.solve(problem, solver, rng=seed, **options, rank=rank)
                yield rank, [s.passes, s.flops], s.x
        return
    seen: dict[int, np.ndarray] = {}

    def look(progress: Any) -> None:
        if progress.iteration in settings:
            seen[progress.iteration] = np.ravel(progress.current()["x"])

    s = ls.solve(problem, solver, rng=seed, callback=look, max_iterations=settings[-1], **options)
    history, last = {int(row["iteration"]): row for row in s.history}, s.history[-1]
    for setting in settings:
        row = history.get(setting, last)  # and the certificate, wherever one stops
        costs = [row[name] - last[name] + getattr(s, name) for name in ("passes", "flops")]
        yield setting, costs, seen.get(setting, s.x)


def claims_on_risk(model: str, rows: Rows, exact: float) -> Iterator[Claim]:
    """Section 2.4.1, on the flops of the cheapest setting with which a curve comes close; infinite where none does."""
    least = {curve: min(own.of("risk")) for curve, own in rows.by("curve").items()}
    costs = dict.fromkeys(least, np.inf)
    for row in rows:
        if row["risk"] <= CLOSE:
            costs[row["curve"]] = min(costs[row["curve"]], row["flops"])
    gd, svrg, pcr, ling = (costs[curve] for curve in ("gd", SVRG, "pcr", LING))

    def claim(text: str, held: bool, *curves: str) -> Claim:
        reached = (f"close after {costs[curve]:.2e} flops" for curve in curves)
        told = (one if "inf" not in one else "never close" for one in reached)
        triples = zip(curves, told, (least[curve] for curve in curves), strict=True)
        figures = (f"{curve}: {one}, least risk {risk:.3g} x ridge" for curve, one, risk in triples)
        return Claim(text, held, "; ".join(figures))

    if model == "steep":
        yield claim("PCR comes close at less cost than ridge regression", pcr < exact, "pcr")
        yield claim("LING comes close at less cost than ridge regression", ling < exact, LING)
        held = max(pcr, ling) < svrg < np.inf
        yield claim("SVRG comes close, at more cost than PCR and LING", held, SVRG, "pcr", LING)
        yield claim("GD does not come close", np.isinf(gd), "gd")
        return
    if model == "flat":
        held = gd < np.inf and gd <= min(svrg, pcr, ling)
        yield claim("GD comes close at the least cost", held, "gd", SVRG, "pcr", LING)
        text = "LING and SVRG come close at less cost than ridge regression"
        yield claim(text, max(ling, svrg) < exact, LING, SVRG)
    if model == "spiked":
        held = ling < np.inf and ling <= min(gd, svrg, pcr)
        yield claim("LING comes close at the least cost", held, LING, "gd", SVRG, "pcr")
        text = "SVRG comes close at somewhat more cost than LING, but less than ridge regression"
        yield claim(text, ling < svrg < exact, SVRG, LING)
        yield claim("GD comes close, at more cost than LING", ling < gd < np.inf, "gd", LING)
    yield claim("PCR does not come close", np.isinf(pcr), "pcr")


def claims_on_reference(row: Row) -> Iterator[Claim]:
    """Theorem 2.3.3 and the remark after it; predictions are the same to 1e-6."""
    gap, error = row["surplus"], row["error"]
    told = f"formula {row['expected']:.5g}, simulated minus formula {gap:.1e}, standard error {error:.1e}"
    yield Claim("the risk of ridge regression is that of formula (2.3.7)", abs(gap) <= 4 * error, told)
    for name, form in (("far", "ridge"), ("deflated_far", "deflated")):
        text = f'the converged predictions of LING, variant "{form}", are those of ridge regression'
        yield at_most(text, row[name], 1e-6, "largest relative distance {value:.1e}")


TARGETS: dict[str, Callable[[Any], Any]] = {
    "LDA": ls.targets.lda,
    "CCA": ls.targets.cca,
    "OPLS": ls.targets.opls,
    "HSL clique": partial(ls.targets.hsl, laplacian="clique"),
    "HSL star": partial(ls.targets.hsl, laplacian="star"),
    "HSL Zhou": partial(ls.targets.hsl, laplacian="zhou"),
}
"""Functions that turn labels into targets, by technique."""


def difference(W: np.ndarray, best: np.ndarray) -> float:
    """‖WWᵀ − W₀W₀ᵀ‖ in the spectral norm: with [W₀ W] = QR that of R diag(I, −I) Rᵀ."""
    R = np.linalg.qr(np.hstack([best, W]), mode="r")
    signs = np.r_[np.ones(best.shape[1]), -np.ones(W.shape[1])]
    return float(np.abs(np.linalg.eigvalsh((R * signs) @ R.T)).max())


def dense_targets(H: Any) -> np.ndarray:
    return np.asarray(ls.as_operator(H).dense())


class Oracle:
    """W₀ for targets and a ridge, from the singular value decomposition of centred rows."""

    def __init__(self, X: np.ndarray) -> None:
        U, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        rank = int(np.sum(s > max(X.shape) * EPS * s[0]))
        self.U, self.s, self.Vt = U[:, :rank], s[:rank], Vt[:rank]

    def weights(self, H: np.ndarray, ridge: float) -> np.ndarray:
        """All directions whose singular value is more than 1e-10 of the largest."""
        H, root = H - H.mean(axis=0), np.sqrt(self.s**2 + ridge)
        _, b, VBt = np.linalg.svd((H.T @ self.U) * (self.s / root), full_matrices=False)
        return np.asarray(self.Vt.T @ (VBt[b > 1e-10 * b[0]].T / root[:, None]))

    def condition(self, ridge: float) -> float:
        """Condition number of XᵀX + γI within the span of the rows."""
        return float((self.s[0] ** 2 + ridge) / (self.s[-1] ** 2 + ridge))


RIDGES = (0.0, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
SETS = (*datasets.NORMAL, "scene", "yeast", "wine", "satimage", "ionosphere", "optdigits", "usps")

# Differences that are allowed from γ = 1 on, and where the first stage stops early.
EQUAL, EARLY = 1e-12, 1e-8
DEFAULT = "two-stage"
TO_THE_END = ls.get_solver("lsqr", "least-squares")(max_iterations=20_000)
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "two-stage, direct": ("two-stage", {"lstsq": "direct"}),
    "two-stage, lsqr": ("two-stage", {"lstsq": TO_THE_END, "tol": 1e-14}),
    DEFAULT: ("two-stage", {}),
    "direct": ("direct", {}),
}


def two_stage_equivalence(report: Report) -> None:
    columns = "data technique way ridge::g absolute::.1e relative::.1e allowed::.1e rank columns"
    found = report.rows("differences", columns, differences(report), "data technique way")
    for way in WAYS:
        report.say(claims_on_differences(way, found.where(way=way)))


def differences(report: Report) -> Measured:
    for data in [datasets.label_set(report.given, name) for name in chosen(report, *SETS)]:
        oracle = Oracle(data.X)
        for technique in [name for name in TARGETS if (name == "LDA") == (data.labels.ndim == 1)]:
            H = TARGETS[technique](data.labels)
            for ridge, (way, (solver, options)) in product(RIDGES, WAYS.items()):
                best = oracle.weights(dense_targets(H), ridge)
                found = ls.solve(ls.Discriminant(data.X, H, ridge=ridge), solver, rng=0, **options)
                absolute = difference(np.asarray(found.weights), best)
                relative = absolute / float(np.linalg.norm(best, 2) ** 2)
                allowed = EQUAL if ridge >= 1 else 10 * EPS * oracle.condition(ridge)
                ranks = best.shape[1], found.weights.shape[1]
                yield (
                    data.name,
                    technique,
                    way,
                    ridge,
                    absolute,
                    relative,
                    EARLY if way == DEFAULT else allowed,
                    *ranks,
                )


def claims_on_differences(way: str, rows: Rows) -> Iterator[Claim]:
    """Yield the claims of section 5.2, and the same with a relative measure."""
    early = f"{EARLY:g}" if way == DEFAULT else ""
    texts = f"at most {early or f'{EQUAL:g}'} from γ = 1 on", f"at most {early or '10 eps κ'} below γ = 1"
    for text, large in zip(texts, (True, False), strict=True):
        some = [row for row in rows if (row["ridge"] >= 1) == large]
        worst = max(some, key=lambda row: row["relative"] / row["allowed"])
        met = sum(row["relative"] <= row["allowed"] for row in some)
        told = f"nearest to the bound: {worst['relative']:.1e} of {worst['allowed']:.1e}, {asarray(worst)}"
        yield Claim(f"{way}: relative difference {text}", met == len(some), f"{met} of {len(some)}; {told}")
    if "rank" in rows[0]:
        as_many = sum(row["rank"] == row["columns"] for row in rows)
        told = f"{as_many} of {len(rows)}"
        yield Claim(f"{way}: as many directions as the oracle", as_many == len(rows), told)
    source = {}
    for name, figures in printed("Sun, Ceran & Ye 2010, Table 2").items():
        pairs = zip(RIDGES, figures.split(), strict=True)
        source |= {f"{name} γ = {ridge:g}": float(figure) for ridge, figure in pairs}
    ratios = [(row["absolute"] / source[asarray(row)], row) for row in rows if asarray(row) in source]
    if ratios:
        ratio, worst = max(ratios, key=lambda pair: pair[0])
        near, below = (sum(one <= bound for one, _ in ratios) for bound in (10, 1))
        told = f"{near} of {len(ratios)}, no larger than printed in {below}; "
        told += f"worst {worst['absolute']:.1e} for {source[asarray(worst)]:.1e}, {asarray(worst)}"
        yield at_most(f"{way}: as small as the source prints, to a factor of 10", ratio, 10, told)


def asarray(row: Row) -> str:
    return f"{row['data']} {row['technique']} γ = {row['ridge']:g}"


USED = {"yeast": ("CCA", "OPLS", "HSL clique", "HSL star"), "wine": ("LDA",)}


def two_stage_use(report: Report) -> None:
    columns = "data technique way split ridge::g score::.4f"
    found = report.rows("scores", columns, scored(report), "data technique way split")
    for (data, technique), rows in found.by("data", "technique").items():
        report.say([claim_on_use("AUC" if data == "yeast" else "accuracy", technique, rows)], data)


def scored(report: Report) -> Measured:
    given = report.given
    ridges = (1e-6, 1.0, 1e6) if given.quick else [10.0**power for power in range(-6, 7)]
    splits = range(given.seeds or (1 if given.quick else 5))
    for data in [datasets.label_set(given, name) for name in chosen(report, *USED)]:
        for split, technique in product(splits, USED[data.name]):
            learnt = np.random.default_rng(split).permutation(len(data.X)) < len(data.X) // 2
            H = TARGETS[technique](data.labels[learnt])
            for way, ridge in product(("direct", "two-stage"), ridges):
                found = ls.solve(ls.Discriminant(data.X[learnt], H, ridge=ridge), way, rng=0)
                figure = score(np.asarray(found.transform(data.X)), data.labels, learnt)
                yield data.name, technique, way, split, ridge, figure


def score(rows: np.ndarray, labels: np.ndarray, learnt: np.ndarray) -> float:
    """Mean AUC over labels that both halves have, or the share of classes that are right, on the other rows."""
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import LinearSVC

    rows = rows / np.sqrt(np.mean(rows[learnt] ** 2))  # so that the penalty means the same for every γ
    model = LinearSVC(C=1.0, dual=False)
    if labels.ndim == 1:
        return float(model.fit(rows[learnt], labels[learnt]).score(rows[~learnt], labels[~learnt]))
    areas = []
    for label in labels.T:
        if all(0 < part.sum() < len(part) for part in (label[learnt], label[~learnt])):
            model.fit(rows[learnt], label[learnt])
            areas.append(roc_auc_score(label[~learnt], model.decision_function(rows[~learnt])))
    return float(np.mean(areas))


def claim_on_use(what: str, technique: str, rows: Rows) -> Claim:
    """Section 5.2, Figures 1 and 2; scores are the same when they differ by no more than 1e-4 in any split."""
    direct, other = (rows.where(way=way).by("ridge") for way in ("direct", "two-stage"))
    pairs = {ridge: (some.of("score"), other[ridge].of("score")) for ridge, some in direct.items()}
    gaps = {ridge: float(np.abs(np.subtract(*pair)).max()) for ridge, pair in pairs.items()}
    curve = {ridge: float(np.mean(some.of("score"))) for ridge, some in direct.items()}
    worst, best, least = max(gaps, key=gaps.get), max(curve, key=curve.get), min(curve, key=curve.get)
    none = sum(gap == 0 for gap in gaps.values())
    told = f"{what} differs by {gaps[worst]:.1e} at most, at γ = {worst:g}; not at all for {none} of {len(gaps)} γ"
    told += f"; best {curve[best]:.4f} at γ = {best:g}, worst {curve[least]:.4f} at γ = {least:g}"
    return Claim(f"r{technique}: two-stage always classifies as well as direct", gaps[worst] <= 1e-4, told)


PRINTED_DIRECT, PRINTED_TWO_STAGE = "direct as printed", "two-stage as printed"
DIRECT, BY_LSQR, SWEPT = "direct", "two-stage, lsqr", "two-stage, implicit"
STEPS, MORE = (500, 1000, 1500, 2000, 2500, 3000), (3500, 4000, 4500, 5000)
MANY = ("CCA", "OPLS", "HSL clique", "HSL star")

SWEEPS: dict[str, tuple[str, tuple[str, ...], str, tuple[int, ...], int]] = {
    "figure 3, rows": ("newsgroups20", ("LDA",), "n", STEPS, 5000),
    "figure 3, columns": ("newsgroups20", ("LDA",), "d", STEPS, 5000),
    "figure 4": ("reuters21578", MANY, "n", STEPS, 5000),
    "figure 5": ("reuters21578", MANY, "d", (*STEPS, *MORE), 3000),
}
"""Data, techniques, what grows, its sizes, and the other size."""


def ours(solver: str, X: Any, H: Any, **options: Any) -> np.ndarray:
    return np.asarray(ls.solve(ls.Discriminant(X, H, ridge=1.0), solver, rng=0, **options).weights)


TIMED: dict[str, Callable[[Any, Any], np.ndarray]] = {
    PRINTED_DIRECT: lambda X, H: direct_discriminant(X, dense_targets(H), 1.0),
    PRINTED_TWO_STAGE: lambda X, H: two_stage(X, dense_targets(H), 1.0),
    DIRECT: partial(ours, "direct"),
    BY_LSQR: partial(ours, "two-stage", lstsq="lsqr"),
    DEFAULT: partial(ours, "two-stage"),
    SWEPT: partial(ours, "two-stage", form="implicit"),
}


def two_stage_scaling(report: Report) -> None:
    columns = "figure data technique way n d nnz targets cpu::.3f off::.0e"
    found = report.rows("seconds", columns, grown(report), "figure data technique way")
    for (figure, technique), rows in found.by("figure", "technique").items():
        report.say(claims_on_seconds(SWEEPS[figure][2], rows), f"{figure}, {technique}")


def grown(report: Report) -> Measured:
    """All figures, techniques, sizes and ways; "off" is the distance of WWᵀ from that of the first way."""
    figures = chosen(report, "3", "4", "5")
    for figure, (name, techniques, grows, sizes, other) in SWEEPS.items():
        if figure.split(",")[0][-1] not in figures:
            continue
        if report.given.quick:
            techniques, sizes, other = techniques[-1:], (60, 120), 150
        news = datasets.labelled_news(report.given, name)
        text = datasets.tf_idf(news.X)
        order = np.random.default_rng(0).permutation(text.shape[0])
        for technique, size in product(techniques, sizes):
            n, d = (size, other) if grows == "n" else (other, size)
            X, H = text[order[:n]][:, :d].tocsr(), TARGETS[technique](news.labels[order[:n]])
            turns = alternate({way: partial(call, X, H) for way, call in TIMED.items()}, 3, enough=1.0)
            V = turns[PRINTED_DIRECT].answer
            for way, taken in turns.items():
                off = difference(taken.answer, V) / float(np.linalg.norm(V, 2) ** 2)
                yield figure, name, technique, way, n, d, X.nnz, H.shape[1], min(taken.cpu), off


def claims_on_seconds(grows: str, rows: Rows) -> Iterator[Claim]:
    """Yield the claims of section 5.3; an exponent of 1.1 is linear."""
    sizes = np.log(rows.where(way=DIRECT).of(grows))
    seconds = {way: np.array(own.of("cpu")) for way, own in rows.by("way").items()}
    pairs = (PRINTED_TWO_STAGE, PRINTED_DIRECT), (DEFAULT, PRINTED_DIRECT), (DEFAULT, DIRECT), (SWEPT, DIRECT)
    for one, other in pairs:
        ratios = seconds[other] / seconds[one]
        yield every(f"{one} is faster than {other} at every size", ratios, 1, form=".2g", told="by {}")
    nonzeros = np.polyfit(sizes, np.log(rows.where(way=DIRECT).of("nnz")), 1)[0]
    for way in (PRINTED_TWO_STAGE, BY_LSQR, DEFAULT, SWEPT):
        exponent, told = np.polyfit(sizes, np.log(seconds[way]), 1)[0], f"of the nonzeros {nonzeros:.2f}"
        yield at_most(f"{way} grows linearly with {grows}", exponent, 1.1, f"exponent {{value:.2f}}; {told}")
    yield at_most("all ways find the same WWᵀ", max(rows.of("off")), 1e-7, "off by {value:.0e} at most")


if __name__ == "__main__":
    studies = ridge_risk, two_stage_equivalence, two_stage_use, two_stage_scaling
    sys.exit(run_study(__doc__, *studies, ridge=float))
