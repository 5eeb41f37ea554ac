"""Answers do not depend on units, whatever else a problem has: the same within 1e±59, refused from 1e±61 on.

Every combination of weights, confounds, scale, centring and ridge is a case, on every kind of data. The matrices, one
of them, or one column are multiplied by a power of ten, and the ridges with its square. A plain run tries some of the
cases; the slow mark tries all.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fuzz import KINDS

import linspec as ls
from linspec.arrays import HostArray, to_host
from linspec.errors import DataOutOfRange

FAMILIES = ("least-squares", "svd", "cca", "discriminant")
GIVEN = ("numpy", "scipy-sparse-array", "npy-file", "slices", "blocks", "products-only")
"""Kinds of data, of the fuzzer."""

WITHIN = (-59, -31, -16, 13, 40, 59)
BEYOND = (-300, -160, -61, 61, 160, 300)
TERMS = ("weights", "confounds", "scale", "center", "ridge")
SUBSETS = [subset for m in range(6) for subset in itertools.combinations(TERMS, m)]
OWN = {"least-squares": ("A", "B"), "svd": ("A",), "cca": ("X", "Y"), "discriminant": ("X", "H")}
SOLVERS = {
    "least-squares": ("direct", "cg", "lsqr"),
    "svd": ("direct", "gram", "block-krylov"),
    "cca": ("direct", "gram", "lobpcg"),
    "discriminant": ("direct", "two-stage"),
}
CLOSE = 1e-6
"""Values that a converged answer has to a well-conditioned problem; weights, too, but for the root."""


@dataclass(frozen=True)
class Given:
    """Entries and terms of a problem, in units of one."""

    family: str
    terms: tuple[str, ...]
    kind: str

    def entries(self) -> dict[str, HostArray]:
        """Well-conditioned data that depend on the confounds."""
        rng = np.random.default_rng([len(self.terms), *map(ord, self.family)])
        shared = rng.standard_normal((60, 3)) * [3.0, 2.0, 1.0]
        found = {
            name: np.hstack([shared * [1.0, 1.5, 2.0][: shared.shape[1]], rng.standard_normal((60, 2))])
            + 0.3 * rng.standard_normal((60, 5))
            + self.confounds()[:, :1]
            for name in OWN[self.family]
        }
        if "Y" in found:
            found["Y"] = found["Y"][:, :4]
        for name in ("B", "H"):
            if name in found:
                found[name] = found[name][:, :3]
        return {name: M / np.abs(M).max() for name, M in found.items()}  # the largest entry is 1

    @staticmethod
    def confounds() -> HostArray:
        """Two confounds with means."""
        return np.random.default_rng(1).standard_normal((60, 2)) + np.array([1.0, -3.0])

    def problem(
        self, unit: dict[str, Any], *, weight: float = 1.0, confound: float = 1.0, ridges: bool = True
    ) -> Any:
        """The problem with matrices times `unit`, which are numbers or one for each column."""
        data = {name: M * unit.get(name, 1.0) if name in unit else M for name, M in self.entries().items()}
        given = {name: KINDS[self.kind](M) for name, M in data.items()}
        numbers: dict[str, Any] = {"center": "center" in self.terms, "scale": "scale" in self.terms}
        if self.family != "least-squares":
            numbers["k"] = 2
        if "weights" in self.terms:
            numbers["sample_weight"] = np.random.default_rng(2).uniform(0.5, 2.0, 60) * weight
        if "confounds" in self.terms:
            numbers["confounds"] = self.confounds() * confound
        if "ridge" in self.terms and self.family != "svd":
            squares = {
                name: weight
                if "scale" in self.terms
                else weight * min(float(np.max(unit.get(name, 1.0))), 1e150) ** 2  # squares are numbers
                for name in given
            }
            both = (5.0 * squares["X"], 3.0 * squares["Y"]) if self.family == "cca" else None
            numbers["ridge"] = both or 5.0 * squares[next(iter(given))]
        return ls.get_problem(self.family)(**given, **numbers)


def solved(problem: Any, solver: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ls.solve(problem, solver, rng=0)


def values(solution: Any, family: str) -> HostArray:
    name = {"svd": "S", "cca": "correlations", "discriminant": "eigenvalues", "least-squares": "x"}[family]
    return np.asarray(to_host(getattr(solution, name)), dtype=np.longdouble)


def expected(plain: Any, given: Given, unit: dict[str, Any], weight: float) -> HostArray:
    """The values that follow from those in units of one."""
    own = values(plain, given.family)
    long = {name: np.asarray(value, dtype=np.longdouble) for name, value in unit.items()}
    roots = np.sqrt(np.longdouble(weight))
    if given.family == "least-squares":
        columns = np.broadcast_to(long.get("A", np.longdouble(1)), own.shape[:1])[:, None]
        return own * long.get("B", 1) / columns
    if given.family == "svd":
        # With scale, √Σw is left of the weights: columns are divided by root mean squares.
        return own * roots * (1 if "scale" in given.terms else np.max(long.get("A", np.longdouble(1))))
    if given.family == "discriminant":
        return own * (long.get("H", np.longdouble(1)) * roots) ** 2
    return own


def check(
    given: Given, solver: str, unit: dict[str, Any], weight: float = 1.0, confound: float = 1.0
) -> None:
    plain = solved(given.problem({}), solver)
    other = solved(given.problem(unit, weight=weight, confound=confound), solver)
    assert (other.status, other.converged) == (plain.status, plain.converged), (other.status, other.message)
    wanted, found = expected(plain, given, unit, weight), values(other, given.family)
    size = np.abs(wanted) if given.family == "least-squares" else np.max(np.abs(wanted))
    largest = np.max(size, axis=1, keepdims=True) if given.family == "least-squares" else size
    np.testing.assert_array_less(np.asarray(np.abs(found - wanted) / largest, float), CLOSE)


def whole(given: Given, power: int) -> dict[str, float]:
    return dict.fromkeys(OWN[given.family], 10.0**power)


def one(given: Given, power: int) -> dict[str, float]:
    return {OWN[given.family][0]: 10.0**power}


def column(given: Given, power: int) -> dict[str, HostArray]:
    units = np.ones(5)
    units[1] = 10.0**power
    return {OWN[given.family][0]: units}


def cases() -> Any:
    """Every combination of terms with every kind of data, a power and a way to take other units.

    With a drawn solver; all but one in thirty are slow.
    """
    rng = np.random.default_rng(0)
    for family, terms, kind, take in itertools.product(FAMILIES, SUBSETS, GIVEN, (whole, one, column)):
        # A column in units of its own is the same problem if columns are divided by their root mean squares.
        if take is column and "scale" not in terms:
            continue
        solver = SOLVERS[family][int(rng.integers(len(SOLVERS[family])))]
        power = int(rng.choice(WITHIN))
        beyond = int(rng.choice(BEYOND))
        marks = [] if rng.random() < 1 / 30 else [pytest.mark.slow]
        yield pytest.param(
            Given(family, terms, kind), solver, take, power, beyond, marks=marks,
            id=f"{family}-{solver}-{kind}-{take.__name__}-{'-'.join(terms) or 'plain'}-1e{power}",
        )  # fmt: skip


CASES = list(cases())


@pytest.mark.parametrize(("given", "solver", "take", "power", "beyond"), CASES)
def test_other_units(given: Given, solver: str, take: Any, power: int, beyond: int) -> None:
    try:
        check(given, solver, take(given, power))
    except ls.errors.MissingCapability:
        pytest.skip(f"{solver} reads the entries, which {given.kind} do not have")
    # A column that is smaller than the others never causes a refusal.
    far = abs(beyond) if take is column else beyond
    with pytest.raises(DataOutOfRange, match=rf"\b{OWN[given.family][0]}\b|\bridge\b"):
        solved(given.problem(take(given, far)), solver)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("power", [-57, -29, 29, 57])
def test_weights_and_confounds_have_units_of_their_own(family: str, power: int) -> None:
    given = Given(family, ("weights", "confounds", "center", "ridge"), "numpy")
    solver = SOLVERS[family][0]
    # The largest √w·|entry| decides: entries of some ones, and confounds.
    check(given, solver, {}, weight=10.0 ** (2 * power), confound=10.0**-power)
    check(given, solver, {}, confound=10.0**power)
    for beyond in (power // abs(power) * far for far in (63, 100, 150)):
        with pytest.raises(DataOutOfRange):
            solved(given.problem({}, weight=10.0 ** min(2 * beyond, 300)), solver)
        with pytest.raises(DataOutOfRange, match="confounds"):
            solved(given.problem({}, confound=10.0**beyond), solver)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", GIVEN)
def test_subnormal_entries_are_refused_if_there_are_no_others(family: str, kind: str) -> None:
    given = Given(family, (), kind)
    with pytest.raises(DataOutOfRange):
        solved(given.problem(dict.fromkeys(OWN[family], 1e-310)), SOLVERS[family][-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_small_entries_beside_ordinary_ones_are_no_reason_to_refuse(family: str) -> None:
    given = Given(family, ("center",), "numpy")
    name = OWN[family][0]
    entries = given.entries()
    entries[name][:, 2] = 1e-310
    entries[name][5, 0] = 5e-324
    problem = ls.get_problem(family)(**entries, **({} if family == "least-squares" else {"k": 1}))
    assert np.isfinite(np.asarray(values(solved(problem, "direct"), family), float)).all()


@pytest.mark.parametrize("power", [-27, -13, 13, 27])
@pytest.mark.parametrize("kernel", [ls.kernels.rbf(), ls.kernels.linear(), ls.kernels.polynomial(2, 0.0)])
def test_kernel_cca(power: int, kernel: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    Y = np.tanh(X[:, :2]) + 0.3 * rng.standard_normal((40, 2))
    unit = 10.0**power
    ridge = 0.5 * (unit**2 if isinstance(kernel, ls.kernels.Linear) else 1.0)
    family = ls.get_problem("kernel-cca")
    plain, other = (
        solved(family(A, B, k=2, kernel_x=kernel, ridge=r), "kcca")
        for A, B, r in ((X, Y, 0.5), (X * unit, Y * unit, ridge))
    )
    assert other.status is plain.status
    np.testing.assert_allclose(other.correlations, plain.correlations, rtol=CLOSE)


@pytest.mark.parametrize("power", [-57, -45, 45, 57])
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
def test_the_rank_of_float32_rows_does_not_depend_on_their_unit(power, made):
    """Products of such entries are float64, and the entries are rounded to float32 all the same."""
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((60, 8)) @ rng.standard_normal((8, 10))).astype(np.float32)
    B = rng.standard_normal((60, 4)).astype(np.float32)
    unit = np.float32(10.0**power)
    x = [ls.solve(ls.LeastSquares(made(A * u), B * u), "direct").x for u in (np.float32(1), unit)]
    np.testing.assert_allclose(
        *x, rtol=1e-3, atol=1e-4
    )  # least norm: along the ninth direction it would be 1e7
    assert ls.solve(ls.SVD(made(A * unit), 10), "direct").S.shape == (8,)
    assert ls.solve(ls.CCA(made(A * unit), B, 4), "direct").ranks == (8, 4)
    assert ls.solve(ls.Discriminant(made(A * unit), B, ridge=0.0), "direct").rank == 8
