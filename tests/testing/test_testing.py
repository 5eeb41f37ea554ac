"""The parts of the conformance kit against facts from outside it: planted answers, counts, reports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import linspec as ls
from linspec.errors import MissingCapability
from linspec.operators import as_operator
from linspec.testing import (
    BACKENDS,
    Case,
    CountingOperator,
    ProductsOnly,
    Report,
    cases,
    check_operator,
    conformance,
    planted_cca,
    run_checks,
    testing_of,
)
from linspec.testing.oracle import Law, Reading
from linspec.testing.problems import OFFSET

KEYS = {"least-squares": "x", "svd": "S", "cca": "correlations", "discriminant": "eigenvalues"}
PRESENT = [backend for backend in BACKENDS if not backend.missing()]


@pytest.mark.parametrize("case", [c for p in KEYS for c in cases(p)], ids=lambda c: f"{c.problem}-{c.name}")
def test_oracle_finds_what_was_planted(case: Case):
    key = KEYS[case.problem]
    if key not in case.truth:
        pytest.skip("rounded to another dtype: nothing planted is left")
    oracle = testing_of(case.problem).oracle(case, Reading())
    truth = case.truth[key]
    found = getattr(oracle, key).reshape(truth.shape)
    tolerance = 1e-14 * OFFSET if case.dense_offset else max(1e-13, 1e-15 * oracle.condition)
    assert np.abs(found - truth).max(initial=0) <= tolerance * max(1.0, np.abs(truth).max(initial=0))


def test_planted_correlations_shrink_with_the_ridge_as_the_formula_says():
    case = planted_cca(50, 3, 3, (0.9, 0.5), 2, values_x=(2.0, 1.0, 1.0), values_y=(1.0, 1.0, 1.0), ridge=1.0)
    expected = sorted([0.9 * 2 / np.sqrt(5) / np.sqrt(2), 0.5 / 2], reverse=True)
    assert np.allclose(case.truth["correlations"], expected, rtol=1e-14)


@pytest.mark.parametrize("problem", list(KEYS))
def test_case_names_are_unique(problem):
    names = [case.name for case in cases(problem)]
    assert len(names) == len(set(names))
    assert max(case.main.shape[0] for case in cases(problem)) <= 120


def test_a_problem_that_nobody_declares_has_no_cases():
    with pytest.raises(ls.errors.UnknownName, match="no problem is named 'sorting'"):
        cases("sorting")


@pytest.mark.parametrize(
    "claimed, contradicts", [(1e-3, False), (1.004e-3, False), (2e-3, True), (0.0, True), (np.nan, True)]
)
def test_law_contradicts(claimed, contradicts):
    assert Law(1e-3, 1e-12).contradicts(claimed) is contradicts


def test_law_forgives_rounding_only():
    assert not Law(1e-17, 1e-15).contradicts(0.0)
    assert Law(1e-12, 1e-15).contradicts(0.0)


# ---- operators --------------------------------------------------------------------------------

RNG = np.random.default_rng(3)
M = RNG.standard_normal((23, 7))
WEIGHTS = RNG.standard_normal(7)
FACTORS = RNG.standard_normal((23, 2)), RNG.standard_normal((7, 2))
ALGEBRA = {
    "sum": (lambda A: A + A, M + M),
    "difference": (lambda A: A - 0.5 * A, 0.5 * M),
    "negative": (lambda A: -A, -M),
    "multiple": (lambda A: 3.0 * A, 3 * M),
    "adjoint": (lambda A: A.H, M.T),
    "adjoint-of-adjoint": (lambda A: A.H.H, M),
    "product": (lambda A: A @ A.H, M @ M.T),
    "centred": (lambda A: A.centered(A.home.blocks.place(M.mean(axis=0))), M - M.mean(axis=0)),
    "scaled-columns": (lambda A: A.scaled_columns(A.home.blocks.place(WEIGHTS)), M * WEIGHTS),
    "low-rank": (
        lambda A: A.low_rank_update(A.home.place(FACTORS[0], A.dtype), A.home.blocks.place(FACTORS[1])),
        M + FACTORS[0] @ FACTORS[1].T,
    ),
}


@pytest.mark.parametrize("backend", PRESENT, ids=lambda backend: backend.name)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
def test_every_kind_of_data_keeps_the_laws_of_operators(backend, dtype):
    if not backend.float64 and dtype == "float64":
        pytest.skip("no float64 there")
    X = (10 * M).astype(dtype) if dtype != "bool" else M > 0
    assert check_operator(backend.wrap(X), entries=X.astype(np.float64)) == []


@pytest.mark.parametrize("backend", PRESENT, ids=lambda backend: backend.name)
@pytest.mark.parametrize("node", list(ALGEBRA))
@pytest.mark.slow(keep=30)
def test_algebra_keeps_the_laws_of_operators(backend, node):
    make, entries = ALGEBRA[node]
    if not backend.float64:
        pytest.skip("the factors here are float64")
    assert check_operator(make(as_operator(backend.wrap(M))), entries=entries) == []


@pytest.mark.parametrize("name", ["numpy", "npy-file", "array-api-strict", "scipy-csr", "products-only"])
def test_centring_survives_large_means(name):
    backend = next(backend for backend in BACKENDS if backend.name == name)
    X = M + OFFSET * M.std(axis=0)
    assert check_operator(backend.wrap(X), entries=X) == []


def test_a_path_is_data_too(tmp_path):
    np.save(tmp_path / "rows.npy", M)
    assert check_operator(tmp_path / "rows.npy", entries=M) == []


@pytest.mark.parametrize("sliceable", [False, True])
@pytest.mark.parametrize("readable", [False, True])
def test_counting_operator_gives_what_it_is_told_to(sliceable, readable):
    A = CountingOperator(M, sliceable=sliceable, readable=readable)
    assert check_operator(A, entries=M) == []
    for allowed, request in ((sliceable, lambda: A.rows(slice(0, 2))), (readable, A.dense)):
        if allowed:
            request()
        else:
            with pytest.raises(MissingCapability):
                request()


def test_counting_operator_counts():
    A = CountingOperator(M, sliceable=True, readable=True)
    A.matmat(np.eye(7))
    A.rmatmat(np.ones((23, 2)))
    assert (A.forward, A.adjoint, A.columns, A.passes) == (1, 1, 9, 2)
    A.dense()
    assert A.passes == 3
    part = A.rows(slice(0, 23))
    part.matmat(np.eye(7))
    assert (A.passes, A.forward, A.columns) == (4, 2, 16)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("center", [False, True])
def test_moments_make_one_forward_and_one_adjoint_product_a_view(views, center):
    operators = [CountingOperator(M), CountingOperator(M[:, :5])][:views]
    moments = ls.Moments(*operators, center=center, form="implicit")
    if center:
        moments.columns.means()
    blocks = [np.eye(operator.shape[1])[:, :2] for operator in operators]
    for _ in range(3):
        before = [(operator.forward, operator.adjoint) for operator in operators]
        moments.products(*blocks)
        after = [(operator.forward, operator.adjoint) for operator in operators]
        assert [(a - c, b - d) for (a, b), (c, d) in zip(after, before, strict=True)] == [(1, 1)] * views
    assert moments.passes == max(operator.passes for operator in operators)


def test_products_only_has_nothing_else():
    assert {name for name in dir(ProductsOnly(M)) if not name.startswith("_")} == {
        "dtype", "matmat", "rmatmat", "shape", "snapshot",
    }  # fmt: skip


# ---- reports ----------------------------------------------------------------------------------


def test_report_prints_counts():
    report = Report("cca/gram", passed=61, skipped=[("accuracy:cupy", "no cupy"), ("solves:cupy", "no cupy")])
    assert str(report) == "cca/gram: 61 checks, 2 skipped: no cupy"
    assert report.ok
    failed = replace(report, failed=[("budget", "too many passes")])
    assert str(failed).splitlines() == [
        "cca/gram: 62 checks, 1 failed, 2 skipped: no cupy",
        "  budget: too many passes",
    ]
    assert not failed.ok


def test_reports_say_which_backends_are_missing(monkeypatch):
    """One that is named is skipped; by default it has no checks, and the report names it."""
    absent = replace(BACKENDS[0], name="absent", missing=lambda: "no absent")
    monkeypatch.setattr("linspec.testing.backends.BACKENDS", (BACKENDS[0], absent))
    report = run_checks("normalizer/qr", backends=["numpy", "absent"])
    assert ("rank:absent", "no absent") in report.skipped
    assert report.name == "normalizer/qr"
    by_default = run_checks("normalizer/qr")
    assert by_default.missing == {"absent": "no absent"}
    assert "absent" not in {check.partition(":")[2] for check, _ in by_default.skipped}
    assert "not tried on absent" in str(by_default)


def test_unknown_backend_is_an_error():
    with pytest.raises(ValueError, match="no backend is named mxnet"):
        run_checks("least-squares/direct", backends=["mxnet"])


def test_expected_failures_must_name_a_check():
    with pytest.raises(ValueError, match="there is no check 'acuracy'"):
        conformance("cca/gram", expected_failures={"acuracy": "a slip of the pen"})


PLUGIN_TEST = """
from linspec.testing import conformance

test_conformance = conformance(
    "least-squares/direct", backends=["numpy", "cupy"], expected_failures={expected!r}
)
"""


def run_pytest(tmp_path, expected):
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST.format(expected=expected))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout


@pytest.mark.slow
def test_an_expected_failure_that_passes_fails(tmp_path):
    out = run_pytest(tmp_path, {"summary": "it is no sentence"})
    assert "XPASS(strict)" in out, out
    assert "it is no sentence" in out


def test_one_line_is_a_test_file(tmp_path):
    out = run_pytest(tmp_path, {})
    assert " passed" in out, out
    assert "XPASS" not in out


def test_importing_the_kit_loads_no_pytest():
    code = "import linspec.testing, sys; print(*sorted({'pytest', 'hypothesis', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
