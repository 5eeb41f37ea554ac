"""All that is registered keeps the contract: each check of the public kit, on each kind of data, and of resources."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import linspec as ls
from linspec.registry import get_spec, operator_adapters
from linspec.testing import BACKENDS, conformance
from tests import resources

# What is registered -> check -> why it fails. Strict: whoever mends one must take it out here.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "ridge-many-targets/kernel": {
        "memory": "holds a number for each pair of rows, for fewer rows than columns"
    },
}

SOLVERS = [
    f"{problem}/{name.rpartition('/')[2]}" for problem in ls.problems() for name in ls.solvers(problem)
]
PARTS = [f"normalizer/{name}" for name in ls.normalizers()]
PARTS += [f"test-matrix/{name}" for name in ls.test_matrices()]
PARTS += [
    adapter.qualified
    for adapter in operator_adapters()
    if adapter.sample is not None  # files have tests of their own, which hold them to the laws of operators
    and (find_spec("distributed") or not adapter.name.startswith("dask-"))
]
PARTS += [f"problem/{name}" for name in ls.problems()]

CASES = [
    (name, check)
    for name in (*SOLVERS, *PARTS)
    for check in (*resources.CHECKS[get_spec(None, name).kind], "imports")
]

pytestmark = pytest.mark.filterwarnings("ignore")

for _name in (*SOLVERS, *PARTS):
    globals()["test_" + _name.replace("/", "_").replace("-", "_")] = conformance(_name)


@pytest.mark.parametrize(("name", "check"), CASES)
def test_a_part_takes_and_leaves_what_it_may(name, check):
    outcome, text = resources.checks_of(name, EXPECTED_FAILURES.get(name)).run(check)
    if outcome == "skipped":
        pytest.skip(text)
    assert outcome in ("passed", "expected"), text


def test_the_kit_has_not_shrunk():
    # A skipped check is green, and so is a table that lost its rows.
    assert len(SOLVERS) >= 57
    assert len(PARTS) >= 26
    here = {backend.name for backend in BACKENDS if not backend.missing()}
    assert {"numpy", "layout", "float32", "csr", "slices", "products", "array-api-strict"} <= here
    assert set(EXPECTED_FAILURES) <= {*SOLVERS, *PARTS}
