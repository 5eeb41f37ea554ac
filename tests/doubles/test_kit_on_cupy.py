"""A slice of the conformance kit on CuPy that takes seconds; `nox -s gpu-double` runs all of it."""

from __future__ import annotations

import pytest

from linspec.testing import BACKENDS, Suite

ON_CUPY = {backend.name: backend.missing() for backend in BACKENDS if backend.name.startswith("cupy")}
if ON_CUPY["cupy"]:
    pytest.skip(f"{ON_CUPY['cupy']}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

HERE = ["cupy" if ON_CUPY["cupy-device1"] else "cupy-device1", "cupyx-csr"]
SLICE = ("cca/gram", "svd/block-krylov", "least-squares/direct", "discriminant/direct")


def test_the_backends_of_cupy_are_here():
    assert list(ON_CUPY) == ["cupy", "cupy-device1", "cupyx-csr", "cupyx-csc-device1"]


@pytest.mark.parametrize("name", SLICE)
def test_the_contract(name):
    checks = [check for check in Suite(name, backends=HERE).checks() if check.backend]
    assert len(checks) >= 20
    for check in checks:
        check.run()
