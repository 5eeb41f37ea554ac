"""Risk against cost of approximate ridge regression: Figures 2.1 to 2.3 of Lu 2015, and two more solvers.

    python docs/evidence/ridge_risk.py [--quick] [--repeats 20] [--ridge 1 2000] [--models flat] [--out FOLDER]

Three models (`linspec.datasets`: a steep spectrum, a flat one, a flat one with spikes), 2000 x 1500, new in every
repeat. Each solver computes the ridge solution and is stopped at the settings of Table 2.1; the risk of its iterate
then, ‖Aβ − A x‖² / n, is averaged over the repeats and stands beside that of exact ridge regression on the same
responses. Printed: a table for each model, and for every claim of section 2.4.1 whether it held. With `--out`: a figure
for each model, and all points as CSV. `--quick` takes seconds, on 200 x 150; the claims are about the full size.

Source: Lu 2015, Fast linear algorithms for machine learning (thesis), section 2.4.1.
Not printed there, and chosen here: the noise (σ = 1), the small singular values of the first model
(U(0.5, 13.8)), the ridges (1 and n, that is λ = 1/n and λ = 1), and what "close to the risk of ridge regression"
means (CLOSE).

What is counted: `passes` are readings of A, `flops` those of products with A. Both include what a solver does
before its first iteration, and the certificate with which linspec ends a run. Small dense work is not in them.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from showing import Claim, Report, arguments, panels

import linspec
from linspec import datasets

# ---- settings --------------------------------------------------------------------------------------

ROWS, COLUMNS = 2000, 1500
QUICK_ROWS, QUICK_COLUMNS, QUICK_REPEATS = 200, 150, 2

MODELS: dict[str, Callable[..., datasets.RegressionModel]] = {
    "steep": datasets.steep_spectrum,
    "flat": datasets.flat_spectrum,
    "spiked": datasets.spiked_spectrum,
}

CLOSE = 1.1
"""Largest ratio to the risk of ridge regression that is called close to it."""

SAME = 1e-6
"""Predictions are called the same when they differ by no more than this share."""

DRAWS = 50
"""Draws of the noise, in each repeat, from which the risk of ridge regression is simulated."""

K2 = 20
"""Principal components of LING's first stage, on all models."""

KRYLOV = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80)

ENDLESS = 1e-15
"""A tolerance that nothing reaches: solvers go on to their last setting."""


@dataclass(frozen=True)
class Curve:
    """A solver, and the settings at which it is stopped, by model.

    With `varies` empty, settings are iterations of one run; otherwise values of that option, one run each.
    """

    label: str
    solver: str
    settings: Mapping[str, tuple[int, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    varies: str = ""


def everywhere(settings: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the same settings for all models."""
    return dict.fromkeys(MODELS, settings)


# Table 2.1: n1, n_SVRG, k1, n2.
GD = {
    "steep": (10, 20, 30, 50, 80, 100, 150, 200),
    "flat": (2, 4, 6, 8, 10, 15, 20, 30),
    "spiked": (6, 10, 15, 20, 30, 50, 80, 120, 180, 250),
}
SVRG = {"steep": (30, 50, 80, 120, 150), "flat": (5, 10, 20, 30, 50), "spiked": (5, 10, 15, 25, 40, 60, 90)}
PCR = {
    "steep": (21, 22, 23, 26, 30, 50, 100),
    "flat": (20, 30, 50, 100, 150, 400),
    "spiked": (20, 30, 50, 100, 150, 400),
}
LING = {
    "steep": (1, 2, 3, 5, 8, 13, 20),
    "flat": (2, 4, 6, 8, 10, 15, 20, 30),
    "spiked": (2, 4, 6, 8, 10, 15, 30),
}

SWEEPING = {"tol": ENDLESS, "form": "implicit"}  # AᵀA is not formed: the cost is that of sweeps
SWEEPING_LING = {"tol": ENDLESS, "form": "implicit", "rank": K2}

PRINTED_SVRG, PRINTED_LING = "svrg as printed", "ling as printed"
THESIS = ("gd", PRINTED_SVRG, "pcr", PRINTED_LING)

CURVES = (
    Curve("gd", "gd", GD, SWEEPING),
    # An epoch is what the thesis calls a pass: as many steps as there are rows.
    Curve(PRINTED_SVRG, "svrg", SVRG, {"tol": ENDLESS, "snapshot": "last"}),
    Curve("pcr", "pcr", PCR, {"form": "implicit"}, varies="rank"),
    Curve(PRINTED_LING, "ling", LING, {**SWEEPING_LING, "variant": "simplified", "inner": "gd"}),
    Curve("svrg", "svrg", SVRG, {"tol": ENDLESS}),
    Curve("ling", "ling", LING, SWEEPING_LING),
    Curve("cg", "cg", everywhere(KRYLOV), SWEEPING),
    Curve("nystrom-pcg, 20", "nystrom-pcg", everywhere(KRYLOV), {**SWEEPING, "rank": K2}),
    # With a rank of its own, which depends on the tolerance: the default one.
    Curve("nystrom-pcg", "nystrom-pcg", everywhere(KRYLOV), {"form": "implicit"}),
)

EXACT_FORMS = ("ridge", "deflated")
"""The forms of LING whose predictions ought to be those of ridge regression."""

# ---- measuring -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """The result of one solver at one setting of one repeat."""

    model: str
    ridge: float
    curve: str
    setting: int
    repeat: int
    passes: float
    flops: float
    risk: float


@dataclass
class Reference:
    """Exact ridge regression on one model with one ridge, over the repeats."""

    formula: list[float] = field(default_factory=list)
    simulated: list[np.ndarray] = field(default_factory=list)
    distances: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def expected(self) -> float:
        """The risk by the formula, averaged over the repeats."""
        return float(np.mean(self.formula))

    @property
    def risk(self) -> float:
        """The risk on the responses that the solvers are given, averaged over the repeats."""
        return float(np.mean([losses[0] for losses in self.simulated]))

    @property
    def surplus(self) -> tuple[float, float]:
        """Simulated minus expected risk, and its standard error."""
        gaps = np.concatenate(
            [losses - risk for losses, risk in zip(self.simulated, self.formula, strict=True)]
        )
        return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


@dataclass
class Results:
    """Everything measured."""

    points: list[Point] = field(default_factory=list)
    references: dict[tuple[str, float], Reference] = field(default_factory=lambda: defaultdict(Reference))


def measure(given: argparse.Namespace) -> Results:
    """All models, repeats, ridges and solvers."""
    results = Results()
    for name, repeat in product(given.models, range(given.repeats)):
        rng = np.random.default_rng([repeat, list(MODELS).index(name)])
        model = MODELS[name](rng, n=given.rows, p=given.columns)
        Y = np.column_stack([model.draw(rng) for _ in range(DRAWS)])
        for ridge in given.ridge:
            problem = linspec.LeastSquares(model.A, Y[:, 0], ridge=ridge)
            refer(results.references[name, ridge], model, Y, ridge)
            for curve in available():
                for setting, passes, flops, x in run(curve, name, problem, repeat):
                    risk = model.risk(x)
                    results.points.append(
                        Point(name, ridge, curve.label, setting, repeat, passes, flops, risk)
                    )
    return results


def available() -> list[Curve]:
    """The curves whose solver is installed."""
    return [curve for curve in CURVES if curve.solver in linspec.solvers("least-squares")]


def refer(reference: Reference, model: datasets.RegressionModel, Y: np.ndarray, ridge: float) -> None:
    """Add a repeat of exact ridge regression, and how far LING's converged predictions are from its."""
    X = linspec.solve(linspec.LeastSquares(model.A, Y, ridge=ridge), "direct").x
    reference.formula.append(model.ridge_risk(ridge))
    reference.simulated.append(model.risk(X))
    if "ling" not in linspec.solvers("least-squares"):
        return
    exact = model.A @ X[:, 0]
    problem = linspec.LeastSquares(model.A, Y[:, 0], ridge=ridge)
    for form in EXACT_FORMS:
        options = {"rank": K2, "variant": form, "tol": 1e-13, "max_iterations": 2000}
        x = linspec.solve(problem, "ling", rng=0, **options).x
        reference.distances[form].append(float(np.linalg.norm(model.A @ x - exact) / np.linalg.norm(exact)))


def run(
    curve: Curve, model: str, problem: linspec.LeastSquares, seed: int
) -> Iterator[tuple[int, float, float, np.ndarray]]:
    """Setting, passes, flops and coefficients along one curve."""
    settings = curve.settings[model]
    if not curve.varies:
        yield from trajectory(curve, settings, problem, seed)
        return
    for setting in settings:
        if setting < problem.A.shape[1]:  # small models have fewer components than Table 2.1 asks for
            s = linspec.solve(problem, curve.solver, rng=seed, **{**curve.options, curve.varies: setting})
            yield setting, s.passes, s.flops, s.x


def trajectory(
    curve: Curve, settings: tuple[int, ...], problem: linspec.LeastSquares, seed: int
) -> Iterator[tuple[int, float, float, np.ndarray]]:
    """One run, looked at after certain iterations; a run that ends before has its last iterate from there on."""
    seen: dict[int, np.ndarray] = {}

    def look(progress: Any) -> None:
        if progress.iteration in settings:
            seen[progress.iteration] = np.ravel(progress.current()["x"])

    s = linspec.solve(
        problem, curve.solver, rng=seed, callback=look, max_iterations=settings[-1], **curve.options
    )
    history = {int(row["iteration"]): row for row in s.history}
    last = s.history[-1]
    closing = s.passes - last["passes"], s.flops - last["flops"]  # the certificate, wherever one stops
    for setting in settings:
        row = history.get(setting, last)
        passes = row["passes"] + closing[0]
        flops = row["flops"] + closing[1]
        yield setting, passes, flops, seen.get(setting, s.x)


# ---- what follows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A setting of a curve, averaged over the repeats."""

    setting: int
    passes: float
    flops: float
    risk: float


Rows = dict[str, list[Row]]
"""By curve, in the order of the settings."""


def averages(points: list[Point], model: str, ridge: float) -> Rows:
    """The means over repeats."""
    groups: dict[tuple[str, int], list[Point]] = defaultdict(list)
    for point in points:
        if (point.model, point.ridge) == (model, ridge):
            groups[point.curve, point.setting].append(point)
    rows: Rows = defaultdict(list)
    for (curve, setting), group in groups.items():
        means = (
            float(np.mean([getattr(point, name) for point in group])) for name in ("passes", "flops", "risk")
        )
        rows[curve].append(Row(setting, *means))
    return rows


@dataclass(frozen=True)
class Costs:
    """The costs of the curves of one model and ridge to come close to the risk of ridge regression."""

    rows: Rows
    risk: float
    exact: float

    def reach(self, curve: str) -> float:
        """Flops of the cheapest setting that is close; infinite where none is."""
        return min((row.flops for row in self.rows[curve] if row.risk <= CLOSE * self.risk), default=np.inf)

    def best(self, curve: str) -> float:
        """The least risk, relative to that of ridge regression."""
        return min(row.risk for row in self.rows[curve]) / self.risk

    def claim(self, text: str, curves: tuple[str, ...], holds: Callable[..., bool]) -> Claim:
        """A claim on the flops with which some curves come close."""
        missing = [curve for curve in curves if curve not in self.rows]
        if missing:
            return Claim(text, None, f"no {', '.join(missing)}")
        figures = "; ".join(
            f"{curve}: {flops_in_words(self.reach(curve))}, least risk {self.best(curve):.3g} x ridge"
            for curve in curves
        )
        return Claim(text, bool(holds(*(self.reach(curve) for curve in curves))), figures)


def claims(model: str, costs: Costs, reference: Reference) -> list[Claim]:
    """Return the claims of section 2.4.1 on one model, and of section 2.3 on all."""
    return [*CLAIMS[model](costs), *claims_on_all(reference)]


def claims_on_steep(costs: Costs) -> list[Claim]:
    """Figure 2.1."""
    return [
        costs.claim(
            "PCR comes close at less cost than ridge regression", ("pcr",), lambda k: k < costs.exact
        ),
        costs.claim(
            "LING comes close at less cost than ridge regression", (PRINTED_LING,), lambda k: k < costs.exact
        ),
        costs.claim(
            "SVRG comes close, at more cost than PCR and LING",
            (PRINTED_SVRG, "pcr", PRINTED_LING),
            lambda svrg, pcr, ling: max(pcr, ling) < svrg < np.inf,
        ),
        costs.claim("GD does not come close", ("gd",), np.isinf),
    ]


def claims_on_flat(costs: Costs) -> list[Claim]:
    """Figure 2.2."""
    return [
        costs.claim(
            "GD comes close at the least cost",
            THESIS,
            lambda gd, *others: np.isfinite(gd) and gd <= min(others),
        ),
        costs.claim(
            "LING and SVRG come close at less cost than ridge regression",
            (PRINTED_LING, PRINTED_SVRG),
            lambda *both: max(both) < costs.exact,
        ),
        costs.claim("PCR does not come close", ("pcr",), np.isinf),
    ]


def claims_on_spiked(costs: Costs) -> list[Claim]:
    """Figure 2.3."""
    return [
        costs.claim(
            "LING comes close at the least cost",
            (PRINTED_LING, "gd", PRINTED_SVRG, "pcr"),
            lambda ling, *others: np.isfinite(ling) and ling <= min(others),
        ),
        costs.claim(
            "SVRG comes close at somewhat more cost than LING, but less than ridge regression",
            (PRINTED_SVRG, PRINTED_LING),
            lambda svrg, ling: ling < svrg < costs.exact,
        ),
        costs.claim(
            "GD comes close, at more cost than LING",
            ("gd", PRINTED_LING),
            lambda gd, ling: ling < gd < np.inf,
        ),
        costs.claim("PCR does not come close", ("pcr",), np.isinf),
    ]


CLAIMS = {"steep": claims_on_steep, "flat": claims_on_flat, "spiked": claims_on_spiked}


def claims_on_all(reference: Reference) -> list[Claim]:
    """Theorem 2.3.3 and the remark after it."""
    gap, error = reference.surplus
    found = [
        Claim(
            "the risk of ridge regression is that of formula (2.3.7)",
            abs(gap) <= 4 * error,
            f"formula {reference.expected:.5g}, simulated minus formula {gap:.1e}, standard error {error:.1e}",
        )
    ]
    for form in EXACT_FORMS:
        text = f'the converged predictions of LING, variant "{form}", are those of ridge regression'
        distances = reference.distances.get(form)
        if distances is None:
            found.append(Claim(text, None, "no ling"))
        else:
            figures = f"largest relative distance {max(distances):.1e}"
            found.append(Claim(text, max(distances) <= SAME, figures))
    return found


# ---- showing ---------------------------------------------------------------------------------------


def show(report: Report, results: Results) -> None:
    """Tables and claims."""
    given = report.given
    for curve in CURVES:
        if curve not in available():
            print(f"skipped: {curve.label} (no solver {curve.solver!r} is installed)")
    for model, ridge in product(given.models, given.ridge):
        reference, title = (
            results.references[model, ridge],
            f"{model} spectrum, {given.rows} x {given.columns}",
        )
        table = report.table(
            "solver", "setting", "passes::.1f", "flops::.2e", "risk::.5g", "/ ridge::.3f",
            title=f"{title}, {given.repeats} repeats, ridge {ridge:g}: expected risk {reference.expected:.5g}",
        )  # fmt: skip
        table.row("direct", "", "", exact_flops(given), reference.risk, 1.0)
        for curve, found in averages(results.points, model, ridge).items():
            for row in found:
                table.row(curve, row.setting, row.passes, row.flops, row.risk, row.risk / reference.risk)
        report.say(judged(given, results, model, ridge), f"{model}, ridge {ridge:g}")


def exact_flops(given: argparse.Namespace) -> float:
    """Those of a Gram matrix and its Cholesky factor."""
    return float(given.rows * given.columns**2 + given.columns**3 / 3)


def judged(given: argparse.Namespace, results: Results, model: str, ridge: float) -> list[Claim]:
    """The claims on one model and ridge."""
    reference = results.references[model, ridge]
    costs = Costs(averages(results.points, model, ridge), reference.risk, exact_flops(given))
    return claims(model, costs, reference)


def flops_in_words(flops: float) -> str:
    """Flops to come close."""
    return f"close after {flops:.2e} flops" if np.isfinite(flops) else "never close"


@dataclass(frozen=True)
class Mean:
    """A point of a figure: the mean risk of a setting, over that of ridge regression."""

    model: str
    ridge: float
    curve: str
    setting: int
    passes: float
    flops: float
    risk: float


def means(given: argparse.Namespace, results: Results) -> list[Mean]:
    """All points of all figures."""
    found = []
    for model, ridge in product(given.models, given.ridge):
        of_ridge = results.references[model, ridge].risk
        for curve, rows in averages(results.points, model, ridge).items():
            found += [
                Mean(model, ridge, curve, row.setting, row.passes, row.flops, row.risk / of_ridge)
                for row in rows
            ]
    return found


def draw(model: str, given: argparse.Namespace, results: Results) -> Any:
    """One figure: a row of panels for each ridge, risk against flops and against passes."""
    figure, grid = panels(len(given.ridge), 2, sharey="row")
    for ridge, pair in zip(given.ridge, grid, strict=True):
        reference = results.references[model, ridge]
        rows = averages(results.points, model, ridge)
        for axes, cost in zip(pair, ("flops", "passes"), strict=True):
            axes.axhline(reference.expected, color="black", lw=1, label="ridge regression, expected")
            axes.axhline(reference.risk, color="gray", lw=1, ls=":", label="ridge regression")
            for curve, found in rows.items():
                costs, risks = [getattr(row, cost) for row in found], [row.risk for row in found]
                axes.plot(costs, risks, marker=".", ls="-" if curve in THESIS else "--", label=curve)
            axes.set(xscale="log", yscale="log", xlabel=cost, title=f"{model} spectrum, ridge {ridge:g}")
        pair[0].set_ylabel("risk")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    return figure


# ---- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, help="models drawn of each kind (20; 2 with --quick)")
    parser.add_argument("--ridge", type=float, nargs="+", help="added to AᵀA (1 and the number of rows)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="all three")
    report = Report(parser)
    given = report.given
    given.rows, given.columns = (QUICK_ROWS, QUICK_COLUMNS) if given.quick else (ROWS, COLUMNS)
    given.repeats = given.repeats or (QUICK_REPEATS if given.quick else 20)
    given.ridge = given.ridge or [1.0, float(given.rows)]
    results = measure(given)
    show(report, results)
    report.csv("points", results.points)
    report.keep("means", means(given, results))
    for model in given.models:
        report.picture(model, draw, model, given, results)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
