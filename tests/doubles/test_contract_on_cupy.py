"""The check of the kit on arrays of CuPy, or of its double; `nox -s gpu-double` runs all other tests on it, too."""

from __future__ import annotations

import pytest

from linspec.testing import BACKENDS, kit

(CUPY,) = (backend for backend in BACKENDS if backend.name == "cupy")
if CUPY.missing():
    pytest.skip(f"{CUPY.missing()}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)


@pytest.mark.parametrize(
    "name", ["cca/gram", "svd/block-krylov", "least-squares/direct", "discriminant/direct", "pls/gram"]
)
def test_the_contract(name):
    assert kit.Checks(name, ["cupy"]).run("data:cupy") == ("passed", "")
