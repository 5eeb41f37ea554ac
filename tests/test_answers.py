"""Every solver of every problem, on every kind of data with every preprocessing, is right within what it claims.

Problem: on ordinary data all solvers may get the same things wrong: an orientation, a mean, a weight, a scale, a
length, an order, the last block of rows, a conversion.
Method: planted data of 60 rows with means, whose answers are judged by the equations of `truths` in extended precision.
A refusal is one that says what the solver needs of the data. Only methods that are approximate may be so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from fuzz import APART, KERNELS, KINDS, TERMS, Case, in_dtype
from judging import faults
from planted import planted_case
from truths import EPS, Truth, truth_of

import linspec as ls
from linspec import Status
from linspec.errors import MissingCapability

pytestmark = pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")

ROWS = 60
rng = np.random.default_rng(5)
ASKED: dict[str, dict[str, Any]] = {
    "plain": {"center": False},
    "center": {"center": True},
    "weights": {"center": True, "sample_weight": rng.integers(0, 4, ROWS).astype(float)},
    "confounds": {"center": False, "confounds": rng.standard_normal((ROWS, 2)) + 3},
    "scale": {"center": True, "scale": True},
    "all": {
        "center": True,
        "scale": True,
        "sample_weight": rng.uniform(0.2, 3, ROWS),
        "confounds": rng.standard_normal(ROWS) - 2,
    },
}
PLACED = (
    "numpy",
    "fortran",
    "scipy-csr",
    "scipy-csc",
    "slices",
    "iterator",
    "blocks",
    "scipy-operator",
    "npy-file",
)
DTYPES = {"float32": "float32", "integers": "int16"}

STEPS = {"max_iterations": 40}
UNFINISHED = dict.fromkeys(
    ("appgrad", "naive-gradient", "sparse-appgrad", "stochastic-appgrad", "kernel-appgrad", "gd"), STEPS
) | {"gradkcca": {"repeats": 2}, "scca-hsic": {"repeats": 2}}
"""Methods of many steps, and the options that make them few; they say that they have not ended."""

APPROXIMATE = {
    "d-cca", "dw-cca", "g-cca", "nw-cca", "l-cca", "randomized", "rpcca", "stochastic-appgrad", "sparse-appgrad",
    "knoi", "rff-kcca", "kcca-preimage", *UNFINISHED,
}  # fmt: skip
"""Methods whose answers are approximate, and say so."""

NEEDS = re.compile("needs the entries|needs row slices|read once|more than once|several times")


def takes(problem: str, asked: str) -> bool:
    """Whether a problem has this preprocessing."""
    if problem == "kernel-ridge":
        return asked in ("plain", "center", "weights")
    return problem in TERMS or asked == "plain" or (asked == "center" and problem not in APART)


CASES = [
    (problem, solver, asked)
    for problem in ls.problems()
    for solver in ls.solvers(problem)
    for asked in ASKED
    if problem != "deep-cca" and takes(problem, asked)
]


@cache
def stated(problem: str, asked: str, dtype: str) -> Case:
    """Planted data with means, and what is asked of it."""
    given, more = planted_case(problem), {} if problem in APART else dict(ASKED[asked])
    if problem == "ridge-many-targets":
        more |= {"ridges": [0.1, 1.0, 10.0], "bands": [0] * 6, "band_weights": [[1.0]]}
        more["splitter"] = np.arange(ROWS) % 3
    if problem == "kernel-ridge":
        more["kernel"] = ls.kernels.rbf(2.0)
    if problem == "kernel-cca":
        given = replace(planted_case("preimage-cca"), parameters={"k": 2, "ridge": 0.5})
        more["kernel_x"] = ls.kernels.rbf(2.0)
    draw = np.random.default_rng(1)
    arrays = {
        name: in_dtype(X if problem in KERNELS else X + draw.standard_normal(X.shape[1:]), dtype)
        for name, X in given.arrays.items()
    }
    return Case(problem, arrays, {**given.parameters, **more})


@cache
def truths(problem: str, asked: str, dtype: str) -> tuple[Truth, ...]:
    """What is right, for each rank that the data may be said to have."""
    return tuple(truth_of(stated(problem, asked, dtype)).readings())


def verdict(problem: str, solver: str, asked: str, kind: str) -> str:
    """What is wrong with an answer, or ""."""
    dtype = DTYPES.get(kind, "float64")
    case = stated(problem, asked, dtype)
    case = replace(case, kinds=tuple((name, kind if kind in KINDS else "numpy") for name in case.arrays))
    try:
        options = UNFINISHED.get(solver, {})
        found = ls.solve(case.state(), solver, rng=0, max_passes=300, **options)
    except MissingCapability as error:
        return "" if NEEDS.search(str(error)) else f"refused: {error}"
    unchecked = bool(np.isnan(found.residual))  # rows that are read once leave no pass to a sketch
    if found.status is not Status.CONVERGED and not (
        solver in APPROXIMATE or (unchecked and kind == "iterator")
    ):
        return f"{found.status.name}: {found.message}"
    if found.status not in (Status.CONVERGED, Status.APPROXIMATE) or (unchecked and kind != "iterator"):
        return ""
    wrong = [faults(truth, found) for truth in truths(problem, asked, dtype)]
    return ", ".join(f"{what} {size}" for what, size in min(wrong, key=len).items())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("problem", "solver", "asked"), CASES)
def test_answers_are_right(problem: str, solver: str, asked: str) -> None:
    with np.errstate(all="ignore"):
        wrong = {kind: verdict(problem, solver, asked, kind) for kind in (*PLACED, *DTYPES)}
    assert not {kind: why for kind, why in wrong.items() if why}


@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "slices", "products-only"])
@pytest.mark.parametrize("problem", [name for name in TERMS if name != "ridge-many-targets"])
def test_auto_chooses_without_a_warning(problem: str, kind: str) -> None:
    case = planted_case(problem)
    given = case.state({name: KINDS[kind](X) for name, X in case.arrays.items()})
    assert ls.select(given).name in ls.solvers(problem)
