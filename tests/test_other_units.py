"""Answers do not depend on units, whatever else a problem has: right within 1e±59, refused from 1e±61 on.

The matrices, one of them, or one column are multiplied by a power of ten, and the ridges with its square; weights,
confounds, scale, centring and a ridge are drawn. Answers are held to the equations in extended precision.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fuzz import Case, attempt
from planted import planted_case
from truths import EPS

import linspec as ls
from linspec.errors import DataOutOfRange

pytestmark = pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")

WITHIN, BEYOND = (-59, -31, -16, 13, 40, 59), (-300, -160, -61, 61, 160, 300)
TERMS = ("sample_weight", "confounds", "scale", "center", "ridge")
KINDS = ("numpy", "scipy-sparse-array", "npy-file", "slices", "blocks", "products-only")
SOLVERS = {
    "least-squares": ("direct", "cg", "lsqr"),
    "svd": ("direct", "gram", "block-krylov"),
    "cca": ("direct", "gram", "lobpcg"),
    "discriminant": ("direct", "two-stage"),
}


def given(problem: str, terms: tuple[str, ...], units: dict[str, Any], kind: str = "numpy") -> Case:
    """A mild case whose largest entries are 1, times numbers, or one for each column, by the names of matrices."""
    rng, planted = np.random.default_rng(len(terms)), planted_case(problem)
    w, Z = rng.uniform(0.5, 2.0, 60), rng.standard_normal((60, 2)) + np.array([1.0, -3.0])
    arrays = {name: A + Z[:, :1] * np.abs(A).max() for name, A in planted.arrays.items()}
    arrays = {name: A / np.abs(A).max() * units.get(name, 1.0) for name, A in arrays.items()}
    squares = [1.0 if "scale" in terms else min(np.max(units.get(name, 1.0)), 1e150) ** 2 for name in arrays]
    ridge: Any = (0.5 * squares[0], 0.3 * squares[-1]) if problem == "cca" else 0.5 * squares[0]
    asked = {"sample_weight": w, "confounds": Z, "scale": True, "center": True, "ridge": ridge}
    own = {"k": planted.parameters["k"]} if "k" in planted.parameters else {}
    own |= {} if problem == "svd" else {"ridge": 0.0}
    terms = tuple(term for term in terms if term != "ridge" or problem != "svd")
    kinds = tuple((name, kind) for name in arrays)
    return Case(problem, arrays, {**own, "center": False, **{term: asked[term] for term in terms}}, {}, kinds)


def whole(case: Case, power: int) -> dict[str, Any]:
    return dict.fromkeys(case.arrays, 10.0**power)


def one(case: Case, power: int) -> dict[str, Any]:
    return {next(iter(case.arrays)): 10.0**power}


def column(case: Case, power: int) -> dict[str, Any]:
    """The same problem only if columns are divided by their root mean squares."""
    name, A = next(iter(case.arrays.items()))
    return {name: np.where(np.arange(A.shape[1]) == 1, 10.0**power, 1.0)}


@pytest.mark.slow(keep=36)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("take", "kind"), [*itertools.product((whole, one, column), KINDS)])
@pytest.mark.parametrize("problem", SOLVERS)
def test_other_units(problem: str, take: Any, kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind), *map(ord, problem + take.__name__)])
    terms = tuple(term for term in TERMS if rng.random() < 0.5 or (term == "scale" and take is column))
    solver, power, beyond = rng.choice(SOLVERS[problem]), int(rng.choice(WITHIN)), int(rng.choice(BEYOND))
    plain = given(problem, terms, {})
    how, why = attempt(given(problem, terms, take(plain, power), kind), solver)
    if why.startswith("MissingCapability"):
        pytest.skip(f"{solver} reads the entries, which {kind} do not have")
    assert how == "right", (why, terms, power)
    # A column that is smaller than the others never causes a refusal.
    units = take(plain, abs(beyond) if take is column else beyond)
    with pytest.raises(DataOutOfRange, match=rf"\b{next(iter(plain.arrays))}\b|\bridge\b"):
        ls.solve(given(problem, terms, units, kind).state(), solver, rng=0)


@pytest.mark.parametrize("problem", SOLVERS)
@pytest.mark.parametrize("power", [-57, -29, 29, 57])
def test_weights_and_confounds_have_units_of_their_own(problem: str, power: int) -> None:
    case, solver = given(problem, ("sample_weight", "confounds", "center"), {}), SOLVERS[problem][0]

    def times(weight: float, confound: float) -> Case:
        w, Z = case.parameters["sample_weight"] * weight, case.parameters["confounds"] * confound
        return replace(case, parameters={**case.parameters, "sample_weight": w, "confounds": Z})

    # The largest √w·|entry| decides: entries of some ones, and confounds.
    assert attempt(times(10.0 ** (2 * power), 10.0**-power), solver)[0] == "right"
    assert attempt(times(1.0, 10.0**power), solver)[0] == "right"
    far = int(np.sign(power) * 63)
    with pytest.raises(DataOutOfRange):
        ls.solve(times(10.0 ** (2 * far), 1.0).state(), solver)
    with pytest.raises(DataOutOfRange, match="confounds"):
        ls.solve(times(1.0, 10.0**far).state(), solver)


@pytest.mark.parametrize("problem", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_subnormal_entries_are_refused_only_if_there_are_no_others(problem: str, kind: str) -> None:
    case = given(problem, (), {})
    with pytest.raises(DataOutOfRange):
        ls.solve(given(problem, (), dict.fromkeys(case.arrays, 1e-310), kind).state(), SOLVERS[problem][-1])
    main = next(iter(case.arrays.values()))
    main[:, 2], main[5, 0] = 1e-310, 5e-324
    assert attempt(replace(case, kinds=()), "direct")[0] in {"right", "flagged"}  # beside ordinary ones


@pytest.mark.parametrize("power", [-27, 27])
@pytest.mark.parametrize("kernel", [ls.kernels.rbf(), ls.kernels.linear(), ls.kernels.polynomial(2, 0.0)])
def test_kernel_cca(power: int, kernel: Any) -> None:
    """Kernels whose scales come from the data take other units; the ridge of a linear one is in these."""
    X, Y = planted_case("preimage-cca").arrays.values()
    unit, unit_of_ridge = 10.0**power, 10.0 ** (2 * power) if isinstance(kernel, ls.kernels.Linear) else 1.0
    plain, other = (
        ls.solve(ls.KernelCCA(X * u, Y * u, k=2, kernel_x=kernel, ridge=0.5 * v), "kcca")
        for u, v in ((1.0, 1.0), (unit, unit_of_ridge))
    )
    assert other.status is plain.status
    np.testing.assert_allclose(other.correlations, plain.correlations, rtol=1e-6)


@pytest.mark.parametrize("power", [-57, 57])
def test_what_confounds_explain_of_float32_data_keeps_its_unit(power: int) -> None:
    rng = np.random.default_rng(5)
    Z, A = rng.standard_normal((40, 2)), rng.standard_normal((40, 4))
    A = (A + Z @ rng.standard_normal((2, 4))).astype(np.float32)
    B = rng.standard_normal((40, 2)).astype(np.float32)
    wanted = ls.solve(ls.LeastSquares(A, B, ridge=0.1, confounds=Z), "direct").predict(A, confounds=Z)
    found = ls.solve(ls.LeastSquares(A, B, ridge=0.1, confounds=Z * 10.0**power), "direct")
    np.testing.assert_allclose(found.predict(A, confounds=Z * 10.0**power), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("power", [-12, 12])
@pytest.mark.parametrize("made", [np.asarray, scipy.sparse.csr_array], ids=["array", "csr"])
def test_the_rank_of_float32_rows_does_not_depend_on_their_unit(power: int, made: Any) -> None:
    """Products of such entries are float64, and the entries are rounded to float32 all the same."""
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((60, 8)) @ rng.standard_normal((8, 10))).astype(np.float32)
    B = rng.standard_normal((60, 4)).astype(np.float32)
    unit = np.float32(10.0**power)
    x = [ls.solve(ls.LeastSquares(made(A * u), B * u), "direct").x for u in (np.float32(1), unit)]
    np.testing.assert_allclose(*x, rtol=1e-3, atol=1e-4)  # along the ninth direction it would be 1e7
    assert ls.solve(ls.SVD(made(A * unit), 10), "direct").S.shape == (8,)
    assert ls.solve(ls.CCA(made(A * unit), B, 4), "direct").ranks == (8, 4)
    assert ls.solve(ls.Discriminant(made(A * unit), B, ridge=0.0), "direct").rank == 8
