"""The fuzzer: its arithmetic and its judgement are held to exact answers, and a slice of it is run on every solver."""

from __future__ import annotations

import copy
import dataclasses
import math
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import linspec as ls
from linspec import ProblemSpec, Solver, SolverSpec, Status, option, registry
from linspec.errors import DataOutOfRange
from linspec.testing import testing_of
from linspec_fuzz import (
    CORPUS,
    FAMILIES,
    KINDS,
    Case,
    Matrix,
    code,
    draw,
    families_here,
    fuzz,
    judge,
    judge_solution,
    shrink,
    truth_of,
    try_case,
)
from linspec_fuzz.__main__ import main
from linspec_fuzz.adjusted import RowTerms
from linspec_fuzz.extended import EPS, available, extended, svd
from linspec_fuzz.ranges import range_of
from linspec_fuzz.report import features
from linspec_fuzz.run import solvers_of

pytestmark = pytest.mark.skipif(not available(), reason="longdouble is float64 here: nothing can be decided")

HADAMARD = np.array([[1.0]])
for _ in range(4):
    HADAMARD = np.block(
        [[HADAMARD, HADAMARD], [HADAMARD, -HADAMARD]]
    )  # 16 orthogonal columns of length 4, exactly


def case_of(family: str, /, tol: float | None = None, **given: Any) -> Case:
    named = [name for name in given if name[0] in "AXYBH"]
    matrices = {name: Matrix(np.asarray(given.pop(name))) for name in named}
    return Case(family, matrices, given, tol, study=given.pop("study", {}))


# ---- arithmetic -------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0, 600, -600])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_singular_values_of_planted_factors_are_exact(scale: int, shape: str) -> None:
    """Powers of two times orthogonal columns of ±1, turned by an orthogonal matrix of ±1/2: exact in float64."""
    s = 2.0 ** np.array([scale, scale - 10, scale - 30, scale - 46])
    V = HADAMARD[:4, :4] / 2
    A = (HADAMARD[:, :4] * s) @ V.T
    U, found, W = svd(A if shape == "tall" else A.T)
    np.testing.assert_allclose(
        np.asarray(found / (4 * extended(s)), float), 1, rtol=1e-4
    )  # eps κ: 1e-19 · 2^46
    np.testing.assert_allclose(np.asarray(found[:3] / (4 * extended(s[:3])), float), 1, rtol=1e-9)
    for Q in (U, W):
        assert float(np.abs(Q.T @ Q - np.eye(4)).max()) < 100 * EPS


@pytest.mark.parametrize("kappa", [1.0, 1e7, 1e14])
def test_singular_values_agree_with_mpmath(kappa: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 4)))[0] for n in (6, 4))
    A = (U * np.geomspace(1, 1 / kappa, 4)) @ V.T * np.array([1, 1e-8, 1e8, 1])
    with mpmath.workdps(60):
        exact = [float(value) for value in mpmath.svd_r(mpmath.matrix(A.tolist()), compute_uv=False)]
    size = exact[0]
    np.testing.assert_allclose(
        np.asarray(svd(A)[1], float) / size, np.array(exact) / size, rtol=1e-15, atol=1e-18
    )


def test_canonical_correlations_of_the_example_in_the_paper() -> None:
    X = np.array([[1.0, 5.0], [2.0, -6.0], [3.0, 7.0], [4.0, -8.0]])
    Y = np.array([[9.0, 1.0], [10.0, -1.0], [11.0, -1.0], [12.0, 1.0]])
    values = truth_of(case_of("cca", X=X, Y=Y, k=2, center=False)).values
    np.testing.assert_allclose(np.asarray(values, float), [0.958535, 0.155320], atol=5e-7)


@pytest.mark.parametrize("power", [0, 200, -200])
def test_correlation_in_an_exactly_planted_short_direction(power: int) -> None:
    """Y is 3 h + 4 g with h 1e-13 of the length of the other column: the correlation is 3/5."""
    h, other, g = HADAMARD[:, 1], HADAMARD[:, 2], HADAMARD[:, 3]
    X = np.column_stack([other + 2.0**-43 * h, other]) * 2.0**power
    truth = truth_of(case_of("cca", X=X, Y=(3 * h + 4 * g)[:, None], k=1))
    np.testing.assert_allclose(float(truth.values[0]), 0.6, rtol=1e-5)
    np.testing.assert_allclose(float(truth.floor(0).loss), 0, atol=0.2)


def test_ridge_and_discriminant_of_orthogonal_columns() -> None:
    """With XᵀX = 16 and H = (3 h, 4 g): eigenvalues (16·3)²/(16 + r), (16·4)²/(16 + r)."""
    X, H = HADAMARD[:, 1:4], HADAMARD[:, 1:3] * np.array([3.0, 4.0])
    values = truth_of(case_of("discriminant", X=X, H=H, k=2, ridge=2.0)).values
    np.testing.assert_allclose(np.asarray(values, float), [64**2 / 18, 48**2 / 18], rtol=1e-16)


def test_law_and_loss_of_a_turned_pair_are_those_of_the_formula() -> None:
    """Pairs turned by θ between ρ = .8 and .5: r = .8 c² + .5 s², law 2 (.3 c s)² / r, loss (.8 − r) / .8."""
    h = HADAMARD[:, 1:5]
    mix = np.array([[1.0, 1e4], [0.0, 1e-3]])
    X, Y = (
        h[:, :2] @ mix,
        np.column_stack([0.8 * h[:, 0] + 0.6 * h[:, 2], 0.5 * h[:, 1] + math.sqrt(0.75) * h[:, 3]]),
    )
    c, s = math.cos(0.1), math.sin(0.1)
    r = 0.8 * c**2 + 0.5 * s**2
    turned = np.array([[c], [s]]) / 4
    answer = SimpleNamespace(
        x_weights=np.linalg.solve(mix, turned), y_weights=turned, correlations=np.array([r]), residual=0.0
    )
    found = truth_of(case_of("cca", X=X, Y=Y, k=1)).findings(answer)[0]
    assert found.law == pytest.approx(2 * (0.3 * c * s) ** 2 / r, rel=1e-6)
    assert found.loss == pytest.approx((0.8 - r) / 0.8, rel=1e-9)
    assert found.misfit < 1e-9


@pytest.mark.parametrize("kind", ["exact", "recomputed"])
def test_law_of_a_turned_direction_is_in_the_norm_that_the_solution_names(kind: str) -> None:
    """A unit vector turned by θ between λ = 9 and 4 leaves 5 c s in the norm of M⁻¹, of √(81 c² + 16 s²)."""
    scale = np.array([1.0, 1e-3])
    X, H = HADAMARD[:, 1:3] * scale, HADAMARD[:, 1:3] * np.array([3.0, 2.0]) / 4
    c, s = math.cos(0.1), math.sin(0.1)
    value = 9 * c**2 + 4 * s**2
    turned = np.array([[c], [s]]) / 4 / scale[:, None]
    answer = SimpleNamespace(weights=turned, eigenvalues=np.array([value]), residual=0.0, residual_kind=kind)
    found = truth_of(case_of("discriminant", X=X, H=H, k=1, center=False)).findings(answer)[0]
    gap, image = np.array([9 * c - value * c, 4 * s - value * s]), np.array([9 * c, 4 * s])
    weight = 1.0 if kind == "exact" else scale
    assert found.law == pytest.approx(np.linalg.norm(gap * weight) / np.linalg.norm(image * weight), rel=1e-9)


def test_null_directions_follow_the_stated_bound() -> None:
    """A copy but for 1e-13 counts; an exact one does not, and either reading of what is at the bound is right."""
    rng = np.random.default_rng(0)
    Z, noise = HADAMARD[:, 1:3], HADAMARD[:, 3]
    for off, ranks in ((2.0**-43, {3}), (0.0, {2}), (2.0**-49, {2, 3})):
        X = np.column_stack([Z, Z[:, 0] * 2.0**-3 + off * noise])
        truth = truth_of(case_of("cca", X=X, Y=rng.standard_normal((16, 2)), k=1))
        assert {x.rank for x, *_ in truth.readings} == ranks, off


@pytest.mark.parametrize("center", [False, True])
def test_weights_are_repeated_rows(center: bool) -> None:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((20, 3)) + 5, rng.integers(0, 4, 20).astype(float)
    every = np.repeat(np.arange(20), w.astype(int))
    Z = rng.standard_normal((20, 2))
    for confounds in (None, Z):
        some = RowTerms(20, extended(w), confounds, center=center).adjusted(extended(X), scale=True)
        again = None if confounds is None else confounds[every]
        repeated = RowTerms(len(every), None, again, center=center).adjusted(extended(X[every]), scale=True)
        for first, second in ((some.scale, repeated.scale), (some.mean, repeated.mean)):
            np.testing.assert_allclose(np.asarray(first - second, float), 0, atol=1e-17)
        grams = [np.asarray(found.entries.T @ found.entries, float) for found in (some, repeated)]
        np.testing.assert_allclose(*grams, atol=1e-14)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_confounds_and_scale_are_the_residuals_of_a_regression(size: float) -> None:
    """Residuals by the normal equations in 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    Z, w = rng.standard_normal((12, 2)) + size, rng.uniform(0.5, 2, 12)
    X = Z @ rng.standard_normal((2, 3)) + 0.1 * rng.standard_normal((12, 3))
    with mpmath.workdps(60):
        D = mpmath.diag(w.tolist())
        A, T = mpmath.matrix(X.tolist()), mpmath.matrix(np.column_stack([np.ones(12), Z]).tolist())
        left = A - T * ((T.T * D * T) ** -1 * (T.T * D * A))
        squares = [
            mpmath.fsum(float(w[i]) * left[i, j] ** 2 for i in range(12)) / mpmath.fsum(w) for j in range(3)
        ]
        wanted = [
            [float(left[i, j] / mpmath.sqrt(squares[j]) * mpmath.sqrt(w[i])) for j in range(3)]
            for i in range(12)
        ]
    found = RowTerms(12, w, Z, center=True).adjusted(extended(X), scale=True)
    np.testing.assert_allclose(np.asarray(found.entries, float), wanted, atol=1e-17 * size**2 + 1e-15)
    np.testing.assert_allclose(
        np.asarray(found.scale, float), [float(mpmath.sqrt(s)) for s in squares], rtol=1e-11
    )


def test_a_column_that_confounds_explain_is_zero_and_is_not_scaled() -> None:
    z = np.array([1.0, 2.0, 4.0])
    found = RowTerms(3, None, z, center=False).adjusted(extended(np.column_stack([3 * z, z**2])), scale=True)
    assert not found.entries[:, 0].any()
    assert float(found.scale[0]) == 1
    assert list(found.live) == [False, True]


def test_kernel_cca_with_linear_kernels_is_cca() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((15, 3)), rng.standard_normal((15, 4))
    plain = truth_of(case_of("cca", X=X, Y=Y, k=3, ridge=(0.5, 2.0)))
    kernel = truth_of(case_of("kernel-cca", X=X, Y=Y, k=3, ridge=(0.5, 2.0), kernel_x=ls.kernels.linear()))
    np.testing.assert_allclose(np.asarray(kernel.values, float), np.asarray(plain.values, float), rtol=1e-14)


# ---- judgement --------------------------------------------------------------------------------


@pytest.mark.parametrize(("residual", "kind"), [(0.3, "flagged"), (1e-4, "silent"), (math.nan, "flagged")])
def test_an_approximate_answer_is_held_to_its_residual(residual: float, kind: str) -> None:
    """Its pairs are turned by 0.4: the law is 2 (.3 c s)²/r."""
    h = HADAMARD[:, 1:5]
    Y = np.column_stack([0.8 * h[:, 0] + 0.6 * h[:, 2], 0.5 * h[:, 1] + math.sqrt(0.75) * h[:, 3]])
    case = case_of("cca", X=h[:, :2], Y=Y, k=1)
    c, s = math.cos(0.4), math.sin(0.4)
    turned = np.array([[c], [s]]) / 4
    changes = {
        "x_weights": turned,
        "y_weights": turned,
        "correlations": np.array([0.8 * c**2 + 0.5 * s**2]),
        "residual": residual,
        "converged": False,
        "status": Status.APPROXIMATE,
    }
    assert judge_solution(truth_of(case), answer_of(case, **changes), tol=1e-6).kind == kind


@pytest.mark.parametrize(
    ("unit", "parameters", "place"),
    [
        (1.0, {}, "inside"),
        (1e59, {}, "inside"),
        (1e60, {}, "edge"),
        (1e62, {}, "outside"),
        (1e-62, {}, "outside"),
        (5e-324, {}, "outside"),
        (1e-62, {"sample_weight": np.full(16, 1e20)}, "inside"),
        (1.0, {"sample_weight": np.full(16, 1e130)}, "outside"),
        (1.0, {"ridge": 1e100}, "inside"),
        (1.0, {"ridge": 1e130}, "outside"),
        (1.0, {"confounds": HADAMARD[:, 5] * 1e-70}, "outside"),
    ],
)
def test_the_range_is_that_of_the_largest_entry_with_the_root_of_its_weight(
    unit: float, parameters: dict[str, Any], place: str
) -> None:
    A, B = HADAMARD[:, :3] * unit, HADAMARD[:, 1] + HADAMARD[:, 4]
    A[:, 0] *= 1e-3  # the largest counts
    terms = dict(parameters)
    if place == "inside" and "sample_weight" in terms:
        B = B * 1e-9
    case = case_of("least-squares", A=A, B=B, **terms)
    assert range_of(case)[0] == place
    verdict = judge(case, "direct", truth_of(case))
    assert verdict.kind == ("refused" if place == "outside" else "right"), verdict


def test_answers_beyond_the_range_and_refusals_within_it_are_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = case_of("svd", A=HADAMARD[:, :3], k=1)
    far = case_of("svd", A=HADAMARD[:, :3] * 1e70, k=1)
    solution = ls.solve(plain.problem(), "direct")
    with monkeypatch.context() as patched:
        patched.setattr(ls, "solve", lambda *_, **__: solution)
        assert judge(far, "direct", truth_of(far)).kind == "silent"

    def refuse(*_: Any, **__: Any) -> None:
        raise DataOutOfRange("A is out of range")

    monkeypatch.setattr(ls, "solve", refuse)
    assert judge(far, "direct", truth_of(far)).kind == "refused"
    assert judge(plain, "direct", truth_of(plain)).cause == "entries in range are refused"


def answer_of(case: Case, **changes: Any) -> Any:
    """The exact answer with something changed; what it says of its own accuracy is left out."""
    solution = ls.solve(case.problem(), "direct")
    fields = {field.name: getattr(solution, field.name) for field in dataclasses.fields(solution)}
    silence = dict.fromkeys(("bounds", "law_bounds", "loss_bounds", "loss_estimate"))
    return SimpleNamespace(**(fields | silence | changes))


@pytest.mark.parametrize(("factor", "kind"), [(1.0, "right"), (1.01, "violated")])
def test_the_sum_of_all_squares_is_judged(factor: float, kind: str) -> None:
    case = case_of("svd", A=HADAMARD[:, :3] * [3.0, 2.0, 1.0], k=1)
    total = factor * len(HADAMARD) * (9 + 4 + 1)
    assert judge_solution(truth_of(case), answer_of(case, total_squares=total), tol=1e-6).kind == kind


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "right"),
        ({"residual": 1e-3, "converged": False, "status": Status.INACCURATE}, "flagged-right"),
        ({"correlations": np.array([0.3])}, "silent"),
        ({"correlations": np.array([0.3]), "status": Status.RANK_DEFICIENT}, "claimed"),
        ({"correlations": np.array([0.3]), "converged": False, "status": Status.INACCURATE}, "flagged"),
        ({"correlations": np.array([0.6001])}, "violated"),
        (
            {"correlations": np.array([0.59]), "bounds": np.array([1e-3]), "status": Status.STAGNATED},
            "violated",
        ),
        (
            {"correlations": np.array([0.59]), "bounds": np.array([2e-2]), "status": Status.STAGNATED},
            "flagged",
        ),
    ],
)
def test_classes(changes: dict[str, Any], kind: str) -> None:
    h = HADAMARD[:, 1:4]
    case = case_of("cca", X=h[:, :1], Y=(0.6 * h[:, 0] + 0.8 * h[:, 1])[:, None], k=1)
    assert judge_solution(truth_of(case), answer_of(case, **changes), tol=1e-6).kind == kind


@pytest.mark.parametrize(
    ("name", "pair", "cause"),
    [
        ("loss_bounds", (1e-4, None), ""),
        ("loss_bounds", (1e-3, None), "loss_bounds below"),
        ("loss_bounds", (0.0, 1e-4), "loss_bounds above"),
        ("law_bounds", (0.0, math.inf), ""),
        ("law_bounds", (1e-3, math.inf), "law_bounds below"),
        ("law_bounds", (0.0, 1e-12), "law_bounds above"),
    ],
)
def test_bounds_are_held_to_the_truth(name: str, pair: tuple[float, float | None], cause: str) -> None:
    h = HADAMARD[:, 1:4]
    case = case_of("cca", X=h[:, :1], Y=(0.6 * h[:, 0] + 0.8 * h[:, 1])[:, None], k=1)
    changes = {"correlations": np.array([0.5999]), "status": Status.STAGNATED, "converged": False, name: pair}
    verdict = judge_solution(truth_of(case), answer_of(case, **changes), tol=1e-6)
    assert verdict.cause == cause


@pytest.mark.parametrize(
    ("estimate", "kind"), [(None, "silent"), (1e-3, "silent"), (2e-3, "near"), (1.0, "right")]
)
def test_a_loss_is_held_to_its_estimate(estimate: float | None, kind: str) -> None:
    """The loss is 1/60, the law 3.4e-4."""
    h = HADAMARD[:, 1:4]
    case = case_of("cca", X=h[:, :1], Y=(0.6 * h[:, 0] + 0.8 * h[:, 1])[:, None], k=1)
    changes = {
        "correlations": np.array([0.59]),
        "status": Status.CONVERGED,
        "converged": True,
        "residual": 3.4e-4,
    }
    solution = answer_of(case, **changes, loss_estimate=estimate)
    assert judge_solution(truth_of(case), solution, tol=1e-3).kind == kind


def test_foreign_exceptions_and_warnings_are_told_apart_from_refusals() -> None:
    case = case_of("svd", A=HADAMARD[:, :3], k=1)
    for solver, kind in ((Breaks(), "foreign"), (Warns(), "foreign"), ("direct", "right")):
        assert judge(case, solver, truth_of(case)).kind == kind
    hidden = dataclasses.replace(case, matrices={"A": Matrix(HADAMARD[:, :3], "products")})
    assert judge(hidden, "direct", truth_of(hidden)).kind == "refused"


@dataclass(frozen=True, kw_only=True)
class Breaks(Solver):
    """Raises what is not linspec's."""

    def solve(self, problem: Any, run: Any) -> Any:
        raise ValueError("no")


@dataclass(frozen=True, kw_only=True)
class Warns(Solver):
    """Overflows on the way to the right answer."""

    def solve(self, problem: Any, run: Any) -> Any:
        np.array([1e300]) * 1e300
        _, s, Vt = np.linalg.svd(problem.A.dense())
        return run.finish(Vh=Vt[:1], S=s[:1])


@dataclass(frozen=True, kw_only=True)
class Liar(Solver):
    """Returns noise, and says that it has converged."""

    def solve(self, problem: Any, run: Any) -> Any:
        sizes = [M.shape[1] for M in problem.matrices.values()]
        x, y = (run.rng.standard_normal((p, problem.k)) for p in sizes)
        solution = run.finish(x_weights=x, y_weights=y)
        for name, value in {"residual": 0.0, "converged": True, "status": Status.CONVERGED}.items():
            object.__setattr__(solution, name, value)  # `solve` accepts no solution but this one
        return solution


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> str:
    """A liar in a registry of its own."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    ls.register(
        SolverSpec(
            name="liar",
            problem="cca",
            target=f"{__name__}:Liar",
            summary="A solver that is here to be caught.",
            reference="None.",
        )
    )
    return "liar"


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.slow
def test_a_liar_is_caught_made_small_and_printed_as_a_program(
    liar: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = fuzz(range(12), families=["cca"], solvers=[liar])
    silent = [outcome for outcome in outcomes if outcome.verdict.kind == "silent"]
    assert len(silent) >= 6
    first = max(silent, key=lambda outcome: outcome.case.entries("X").size)
    smaller, verdict = shrink(first.case, liar, first.verdict)
    assert verdict.kind == "silent"
    assert sum(matrix.entries.size for matrix in smaller.matrices.values()) <= 40
    names: dict[str, Any] = {}
    exec(code(smaller, liar, verdict), names)
    assert names["solution"].status is Status.CONVERGED
    again = judge_solution(truth_of(smaller), names["solution"], tol=smaller.tolerance)
    assert (again.kind, again.law) == ("silent", verdict.law)
    capsys.readouterr()
    assert main(["--trials", "8", "--family", "cca", "--solvers", "liar", "--shown", "1"]) == 1
    printed = capsys.readouterr().out
    assert "cca/liar" in printed
    assert 'solution = ls.solve(problem, "liar"' in printed


def test_a_case_is_made_smaller_with_the_solves_that_are_allowed(liar: str) -> None:
    (outcome,) = fuzz(range(1), families=["cca"], solvers=[liar])
    assert outcome.verdict.kind == "silent"
    assert shrink(outcome.case, liar, outcome.verdict, attempts=0)[0] is outcome.case
    smaller, verdict = shrink(outcome.case, liar, outcome.verdict, attempts=3)
    assert verdict.kind == "silent"
    assert smaller is not outcome.case


class Strangers(ls.SVD):
    """The truncated SVD under the name of someone else's family."""

    name: ClassVar[str] = "strangers"


STRANGERS = dataclasses.replace(
    testing_of("svd"),
    cases=lambda: tuple(
        dataclasses.replace(case, problem="strangers") for case in testing_of("svd").cases()[:4]
    ),
)


@dataclass(frozen=True, kw_only=True)
class Halves(Solver):
    """The right vectors, and half of the values."""

    factor: float = option(0.5, "values are multiplied by it")

    def solve(self, problem: Any, run: Any) -> Any:
        _, s, Vt = np.linalg.svd(problem.A.dense(), full_matrices=False)
        k = problem.k
        solution = run.finish(Vh=Vt[:k], S=s[:k])
        object.__setattr__(solution, "S", solution.S * self.factor)
        for name, value in {"residual": 0.0, "converged": True, "status": Status.CONVERGED}.items():
            object.__setattr__(solution, name, value)
        return solution


@pytest.mark.parametrize(("factor", "wrong"), [(0.5, True), (1.0, False)])
def test_families_of_others_are_tried_by_the_oracle_of_their_record(
    monkeypatch: pytest.MonkeyPatch, factor: float, wrong: bool
) -> None:
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    here = f"{__name__}:"
    ls.register(
        ProblemSpec(
            name="strangers",
            target=f"{here}Strangers",
            summary="The SVD of others.",
            testing=f"{here}STRANGERS",
        )
    )
    ls.register(
        SolverSpec(
            name="halves",
            problem="strangers",
            target=f"{here}Halves",
            summary="Halves values.",
            reference="None.",
        )
    )
    assert "strangers" in families_here()
    cases = [draw(5, trial, ("strangers",)) for trial in range(6)]
    assert {case.family for case in cases} == {"strangers"}
    kinds = set()
    for case in cases:
        kinds.add(judge(case, Halves(factor=factor), truth_of(case)).kind)
    assert ("silent" in kinds) is wrong, kinds


# ---- families of components, of views, of kernels and of many targets -------------------------


def drawn(seed: int, *columns: int) -> list[np.ndarray]:
    """Views of 24 rows that have two variables in common, with means."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((24, 2)) * [2.0, 1.0]
    return [common @ rng.standard_normal((2, p)) + 0.5 * rng.standard_normal((24, p)) + 3 for p in columns]


X, Y, Z = drawn(0, 4, 3, 3)
FOLDS = np.arange(24) % 4
MASKS = [np.arange(24) % 5 > 0, np.ones(24, bool), np.arange(24) % 7 > 0]
COUNTS = np.random.default_rng(1).integers(0, 3, 24).astype(float)

NEW = {
    "pls": {"X": X, "Y": Y, "k": 2, "sample_weight": COUNTS},
    "pls-regression": {"X": X, "Y": Y, "k": 2, "scale": True, "confounds": Z[:, 0] + 1e9},
    "reduced-rank-regression": {"X": X, "Y": Y, "k": 2, "ridge": 1.0, "scale": True},
    "kernel-ridge": {
        "X": X,
        "Y": Y,
        "ridge": 0.1,
        "kernel": ls.kernels.rbf(2.0),
        "center": True,
        "sample_weight": COUNTS,
    },
    "ridge-many-targets": {
        "X": X,
        "Y": Y + 1e6,
        "ridges": (0.1, 10.0, 1000.0),
        "bands": [0, 0, 1, 1],
        "band_weights": [[1.0, 1.0], [0.0, 1.0]],
        "splitter": FOLDS,
        "sample_weight": COUNTS + 1,
    },
    "multiset-cca": {
        "X1": X,
        "X2": Y,
        "X3": Z,
        "k": 2,
        "ridge": (1.0, 0.0, 2.0),
        "view_weights": (1.0, 2.0, 0.5),
        "present": MASKS,
    },
    "sumcor-cca": {"X1": X, "X2": Y, "X3": Z, "k": 2, "ridge": 1.0},
}
"""A case of each family, in which every argument changes the answer."""


def told(solution: Any, field: str, change: Any) -> Any:
    """An answer with another value of one field."""
    other = copy.copy(solution)
    object.__setattr__(other, field, change(getattr(solution, field)))
    return other


LIES = [
    ("pls", "singular_values", lambda s: 0.99 * s, "silent"),
    ("pls", "x_weights", lambda W: W[:, ::-1], "silent"),
    ("pls", "y_weights", lambda W: 1.01 * W, "silent"),
    ("pls-regression", "x_weights", lambda W: W[:, ::-1], "silent"),
    ("pls-regression", "y_loadings", lambda Q: 1.01 * Q, "violated"),
    ("pls-regression", "x_mean", lambda m: m + 0.01, "violated"),
    ("reduced-rank-regression", "weights", lambda W: W[:, ::-1], "silent"),
    ("reduced-rank-regression", "y_loadings", lambda Q: 1.01 * Q, "violated"),
    ("kernel-ridge", "dual", lambda a: 1.001 * a, "silent"),
    ("kernel-ridge", "dual", lambda a: a + 1.0 * (COUNTS == 0)[:, None], "silent"),  # rows of weight 0
    ("kernel-ridge", "intercept", lambda c: c + 0.01, "violated"),
    ("ridge-many-targets", "weights", lambda W: 1.001 * W, "silent"),
    ("ridge-many-targets", "ridges", lambda r: 0 * r + 1000.0, "silent"),
    ("ridge-many-targets", "scores", lambda r: r + 0.001, "violated"),
    ("ridge-many-targets", "scores", lambda r: r * np.nan, "violated"),
    ("multiset-cca", "eigenvalues", lambda v: 0.99 * v, "silent"),
    ("multiset-cca", "weights", lambda W: tuple(w[:, ::-1] for w in W), "silent"),
    ("multiset-cca", "agreement", lambda v: v[::-1], "violated"),
    ("sumcor-cca", "weights", lambda W: (*W[:2], -W[2]), "silent"),
    ("sumcor-cca", "sums", lambda v: v + 0.001, "violated"),
    ("sumcor-cca", "bounds", lambda v: v - 0.1, "violated"),
]


@pytest.mark.parametrize("family", NEW)
def test_right_answers_of_every_family_pass(family: str) -> None:
    case = case_of(family, **NEW[family])
    truth = truth_of(case)
    kinds = {solver: judge(case, solver, truth).kind for solver in solvers_of(family)}
    assert set(kinds.values()) <= {"right", "near"}, kinds


@pytest.mark.parametrize(("family", "field", "change", "kind"), LIES)
def test_a_lie_in_one_field_is_caught(family: str, field: str, change: Any, kind: str) -> None:
    case = case_of(family, **NEW[family])
    solution = told(ls.solve(case.problem(), rng=0), field, change)
    assert solution.status is Status.CONVERGED
    assert judge_solution(truth_of(case), solution, tol=case.tolerance).kind == kind


def test_an_answer_without_components_is_caught() -> None:
    """All of what the views have in common is missing."""
    case = case_of("sumcor-cca", **NEW["sumcor-cca"])
    solution = ls.solve(case.problem(), rng=0)
    for field in ("sums", "bounds"):
        solution = told(solution, field, lambda v: v[:0])
    solution = told(solution, "weights", lambda W: tuple(w[:, :0] for w in W))
    assert judge_solution(truth_of(case), solution, tol=1e-6).kind == "silent"


# ---- folds ------------------------------------------------------------------------------------

STUDIES = {
    "least-squares": {"A": X, "B": Y + 1e6, "center": True, "study": {"ridges": (0.1, 10.0), "score": "r2"}},
    "svd": {"A": X, "k": 2, "center": True, "confounds": Z[:, 0] + 1e6, "study": {"ks": (1, 2)}},
    "cca": {"X": X, "Y": Y, "k": 2, "ridge": 1.0, "sample_weight": COUNTS, "study": {"ks": (1, 2)}},
    **{family: {**NEW[family], "study": {}} for family in ("pls", "kernel-ridge")},
    **{
        family: {**NEW[family], "study": {"ks": (1, 2), "score": "r2"}}
        for family in ("pls-regression", "reduced-rank-regression")
    },
    "multiset-cca": {**NEW["multiset-cca"], "study": {"ks": (1, 2)}},
}


def study_of(family: str, labels: Any = FOLDS) -> Case:
    given = dict(STUDIES[family])
    return case_of(family, **{**given, "study": {"splitter": labels, **given["study"]}})


@pytest.mark.parametrize("form", ["auto", "solve"])
@pytest.mark.parametrize("family", STUDIES)
def test_scores_of_folds_are_judged(family: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = study_of(family)
    truth = truth_of(case)
    assert judge(case, form, truth).kind == "right"
    found = ls.cross_validate(case.problem(), form=form, rng=case.rng, **case.study)
    wrong = found.scores.copy()
    wrong[1, -1, 0] += 0.01
    monkeypatch.setattr(ls, "cross_validate", lambda *_, **__: dataclasses.replace(found, scores=wrong))
    assert judge(case, form, truth).kind == "silent"


@pytest.mark.parametrize("family", ["cca", "least-squares"])
def test_a_number_where_there_is_no_score_is_caught(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row has no correlation, and its R² has no denominator."""
    case = study_of(family, np.where(np.arange(24) == 1, 9, FOLDS))
    whole = ls.cross_validate(study_of(family).problem(), rng=0, **study_of(family).study)
    for value, kind in ((0.0, "silent"), (np.nan, "right")):
        exact = np.array(truth_of(case).exact[0], float)
        scores = np.where(np.isnan(exact), value, exact)
        monkeypatch.setattr(
            ls,
            "cross_validate",
            lambda *_, s=scores, **__: dataclasses.replace(whole, scores=s, rounding=None),
        )
        assert np.isnan(exact[-1]).all()
        assert judge(case, "auto", truth_of(case)).kind == kind


@dataclass(frozen=True, kw_only=True)
class Sleeps(Solver):
    """Never answers."""

    def solve(self, problem: Any, run: Any) -> Any:
        while True:
            pass


def test_a_run_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[judge.__module__], "LEAST", 0.1)
    case = case_of("svd", A=HADAMARD[:, :3], k=1)
    verdict = judge(case, Sleeps(), truth_of(case), max_seconds=0.005)
    assert (verdict.kind, verdict.fails) == ("hang", True)


# ---- cases ------------------------------------------------------------------------------------


def test_a_trial_is_repeated_by_its_two_numbers() -> None:
    for trial in range(0, 40, 7):
        first, second = draw(3, trial), draw(3, trial)
        assert str(first) == str(second)
        for name in first.matrices:
            np.testing.assert_array_equal(first.entries(name), second.entries(name))
    assert str(draw(3, 0)) != str(draw(4, 0))


def test_every_kind_of_mischief_is_drawn() -> None:
    cases = [draw(0, trial) for trial in range(1200)]
    notes = "\n".join(note for case in cases for note in case.notes)
    wanted = [
        "in the shortest direction", "but for", "has rank", "a constant column", "of X", "times 1e-57", "times 1e+57",
        "times 1e+100", "a row of", "a column of", "weights times", "confounds times", "10^U(-8, 8)",
        "times the spread", "tiny ridge", "huge ridge", "counts weights", "skewed weights", "confounds: means",
        "confounds: copies",
        "absent rows", "zeros weights", "repeated rows", "leave-one-out",
        "a fold of one row", "rows of a fold weigh nothing", "rows of a fold are constant",
        "bool", "int8", "uint8", "float32", "gap", "clusters",
    ]  # fmt: skip
    assert [text for text in wanted if text not in notes] == []
    matrices = [matrix for case in cases for matrix in case.matrices.values()]
    assert {matrix.kind for matrix in matrices} == set(KINDS)
    assert all(np.isfinite(matrix.entries).all() for matrix in matrices)
    assert {case.family for case in cases} == set(families_here()) >= set(FAMILIES) - {"deep-cca"}
    features = {feature for case in cases for feature in case.features}
    assert features >= {"units", "weights", "confounds", "scale", "ridge", "centred", "intercept", "float32"}
    assert {case.family for case in cases if case.study} == set(STUDIES)
    assert {range_of(case)[0] for case in cases} == {"inside", "outside", "edge"}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_hold_the_entries(kind: str) -> None:
    entries = np.arange(1.0, 41.0).reshape(10, 4)
    given = ls.as_operator(KINDS[kind](entries))
    product = given.rmatmat(np.eye(10)) if kind != "array-api-strict" else None
    if product is not None:
        np.testing.assert_array_equal(product, entries.T)


def test_some_solvers_of_a_trial_are_drawn_by_its_numbers() -> None:
    first, second = (fuzz(range(6), families=["svd"], each=2, max_seconds=1.0) for _ in range(2))
    assert [outcome.solver for outcome in first] == [outcome.solver for outcome in second]
    assert len(first) == 12
    assert len({outcome.solver for outcome in first}) > 2


def test_the_table_of_features_counts_trials_once() -> None:
    outcomes = fuzz(range(4), families=["svd"], each=2, max_seconds=1.0)
    rows = {line.rpartition("  ")[0].split("  ")[0]: line.split() for line in features(outcomes).splitlines()}
    assert rows["(all)"][1:3] == ["4", "8"]
    assert rows["svd (family)"][2:4] == ["4", "8"]


def test_nothing_heavy_is_imported_with_linspec() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, linspec; sys.exit('linspec.testing' in sys.modules)"], check=False
    )
    assert done.returncode == 0


# ---- the slice --------------------------------------------------------------------------------

SLOW = ("appgrad", "naive-gradient", "sparse-appgrad", "gd", "svrg", "kernel-appgrad", "knoi")
"""Tried on fewer cases."""


def failures(outcomes: Any) -> list[str]:
    return [
        f"{o.name}, {o.solver}: {o.verdict.kind}, {o.verdict.reason}; {o.case}"
        for o in outcomes
        if o.verdict.fails
    ]


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.slow(keep=12)
def test_corpus(name: str) -> None:
    case, wanted = CORPUS[name]()
    assert failures(try_case(case, solvers_of(case.family, wanted), name=name, max_seconds=2.0)) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_slice(family: str) -> None:
    if family not in families_here():
        pytest.skip(testing_of(family).missing())
    swift = [name for name in solvers_of(family) if name not in SLOW]
    assert failures(fuzz(range(12), families=[family], solvers=swift, each=2, max_seconds=2.0)) == []
    assert failures(fuzz(range(1), families=[family], solvers=SLOW, max_seconds=2.0)) == []
