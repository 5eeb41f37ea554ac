"""Every registered solver keeps the contract: each check of the public kit, on each backend, on each case."""

from __future__ import annotations

import pytest

import linspec as ls
from linspec.testing import BACKENDS, Suite, cases, conformance, interface_issues

# Solver -> check or id -> why it fails. Strict: whoever mends one must take it out here.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}

for _name in ls.solvers():
    _test = conformance(_name, expected_failures=EXPECTED_FAILURES.get(_name))
    globals()["test_" + _name.replace("/", "_").replace("-", "_")] = _test


def test_the_kit_has_not_shrunk():
    # A skipped check is green, and so is a table that lost its rows.
    assert len(ls.solvers()) >= 9
    assert len(ls.solvers("svd")) >= 3
    assert len(ls.solvers("discriminant")) >= 2
    for problem, least in (("least-squares", 25), ("svd", 28), ("cca", 28), ("discriminant", 49)):
        assert len(cases(problem)) >= least, problem
    present = {backend.name for backend in BACKENDS if not backend.missing()}
    assert present >= {
        "numpy", "numpy-readonly", "array-api-strict", "array-api-strict-device1", "array-api-strict-no-float64",
        "npy-file", "scipy-csr", "scipy-csc", "scipy-sparse-array", "scipy-operator", "products-only",
    }  # fmt: skip
    for name in ls.solvers():
        assert len(list(Suite(name).checks())) >= 150, name


def test_ids_name_the_backends():
    ids = [check.id for check in Suite("cca/gram").checks()]
    for name in ("numpy", "numpy-readonly", "array-api-strict", "torch", "cupy"):
        assert f"accuracy:{name}" in ids


def test_expected_failures_name_registered_solvers():
    assert set(EXPECTED_FAILURES) <= set(ls.solvers())


@pytest.mark.parametrize("name", [f"normalizer/{name}" for name in ls.normalizers()])
def test_declarations_of_normalizers(name):
    assert interface_issues(name) == []


@pytest.mark.parametrize("name", [f"test-matrix/{name}" for name in ls.test_matrices()])
def test_declarations_of_test_matrices(name):
    assert interface_issues(name) == []
