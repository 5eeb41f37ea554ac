"""All that is registered keeps the contract: each check of the public kit, on each backend, on each case."""

from __future__ import annotations

from importlib.util import find_spec

import linspec as ls
from linspec.registry import operator_adapters
from linspec.testing import BACKENDS, Suite, cases, conformance

# What is registered -> check or id -> why it fails. Strict: whoever mends one must take it out here.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}

PRESENT = {backend.name for backend in BACKENDS if not backend.missing()}
LIBRARIES = {"torch", "cupy", "cupy-device1", "cupyx-csr", "cupyx-csc-device1"}
"""Backends that need more than a test of linspec needs."""

PARTS = [f"normalizer/{name}" for name in ls.normalizers()]
PARTS += [f"test-matrix/{name}" for name in ls.test_matrices()]
ADAPTERS = [
    adapter.qualified
    for adapter in operator_adapters()
    if adapter.sample is not None  # files have tests of their own, which hold them to the laws of operators
    and (find_spec("distributed") or not adapter.name.startswith("dask-"))
]
PARTS += ADAPTERS

for _name in (*ls.solvers(), *PARTS):
    _test = conformance(_name, expected_failures=EXPECTED_FAILURES.get(_name))
    globals()["test_" + _name.replace("/", "_").replace("-", "_")] = _test


def test_the_kit_has_not_shrunk():
    # A skipped check is green, and so is a table that lost its rows.
    assert len(ls.solvers()) >= 9
    assert len(ls.solvers("svd")) >= 3
    assert len(ls.solvers("discriminant")) >= 2
    for problem, least in (("least-squares", 25), ("svd", 28), ("cca", 28), ("discriminant", 49)):
        assert len(cases(problem)) >= least, problem
    assert {
        "numpy", "numpy-readonly", "array-api-strict", "array-api-strict-no-float64",
        "npy-file", "scipy-csr", "scipy-csc", "scipy-sparse-array", "scipy-operator", "products-only",
    } <= PRESENT  # fmt: skip
    assert len(ls.normalizers()) >= 4
    assert len(ls.test_matrices()) >= 5
    for name in (*ls.solvers(), *PARTS):
        least = {"normalizer": 30, "test-matrix": 18, "operator": 12}.get(name.partition("/")[0], 85)
        assert len(list(Suite(name).checks())) >= least, name


def test_ids_name_the_backends():
    ids = {check.id for check in Suite("cca/gram", backends=[backend.name for backend in BACKENDS]).checks()}
    assert {f"accuracy:{backend.name}" for backend in BACKENDS} <= ids


def test_a_backend_of_each_way_takes_every_check_and_all_of_them_on_request(monkeypatch):
    monkeypatch.delenv("LINSPEC_CONFORMANCE", raising=False)
    checked = [(check.name, check.backend) for check in Suite("cca/gram").checks() if check.backend]
    of_each_way = {"numpy", "array-api-strict", "array-api-strict-no-float64", "npy-file", "scipy-csr"}
    of_each_way |= {"products-only", *LIBRARIES} & PRESENT
    assert {backend for name, backend in checked if name == "accuracy"} == of_each_way
    assert {backend for name, backend in checked if name == "input-untouched"} == of_each_way | {
        "numpy-readonly"
    }
    every = [
        (check.name, check.backend) for check in Suite("cca/gram", backends="all").checks() if check.backend
    ]
    assert set(checked) < set(every) == {(name, b) for name, _ in checked for b in PRESENT}
    monkeypatch.setenv("LINSPEC_CONFORMANCE", "all")
    assert every == [(check.name, check.backend) for check in Suite("cca/gram").checks() if check.backend]


def test_expected_failures_name_what_is_registered():
    assert set(EXPECTED_FAILURES) <= {*ls.solvers(), *PARTS}


def test_every_part_is_tested_on_every_backend_that_is_here():
    arrays = {backend.name for backend in BACKENDS if backend.is_array} & PRESENT
    for name in set(PARTS) - set(ADAPTERS):  # which have data of their own
        checked = {check.backend for check in Suite(name, backends="all").checks()}
        assert checked >= (arrays if name.startswith("normalizer/") else PRESENT), name
