"""All that is registered keeps the contract: each check of the public kit, on each backend, on each case."""

from __future__ import annotations

from importlib.util import find_spec

import linspec as ls
from linspec.registry import operator_adapters
from linspec.testing import BACKENDS, Suite, cases, conformance

# What is registered -> check or id -> why it fails. Strict: whoever mends one must take it out here.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}

PARTS = [f"normalizer/{name}" for name in ls.normalizers()]
PARTS += [f"test-matrix/{name}" for name in ls.test_matrices()]
ADAPTERS = [
    adapter.qualified
    for adapter in operator_adapters()
    if find_spec("distributed") or not adapter.name.startswith("dask-")
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
    present = {backend.name for backend in BACKENDS if not backend.missing()}
    assert present >= {
        "numpy", "numpy-readonly", "array-api-strict", "array-api-strict-no-float64",
        "npy-file", "scipy-csr", "scipy-csc", "scipy-sparse-array", "scipy-operator", "products-only",
    }  # fmt: skip
    assert len(ls.normalizers()) >= 4
    assert len(ls.test_matrices()) >= 5
    for name in (*ls.solvers(), *PARTS):
        least = {"normalizer": 60, "test-matrix": 25, "operator": 12}.get(name.partition("/")[0], 150)
        assert len(list(Suite(name).checks())) >= least, name


def test_ids_name_the_backends():
    ids = [check.id for check in Suite("cca/gram").checks()]
    for name in ("numpy", "numpy-readonly", "array-api-strict", "torch", "cupy", "cupy-device1", "cupyx-csr"):
        assert f"accuracy:{name}" in ids


def test_expected_failures_name_what_is_registered():
    assert set(EXPECTED_FAILURES) <= {*ls.solvers(), *PARTS}


def test_every_part_is_tested_on_every_backend_that_is_here():
    present = {backend.name for backend in BACKENDS if not backend.missing()}
    arrays = {backend.name for backend in BACKENDS if backend.is_array} & present
    for name in set(PARTS) - set(ADAPTERS):  # which have data of their own
        checked = {check.backend for check in Suite(name).checks()}
        assert checked >= (arrays if name.startswith("normalizer/") else present), name
