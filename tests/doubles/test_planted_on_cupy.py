"""Planted answers on CuPy: arrays on a device that is not the current one, and sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from backends import BACKENDS
from planted import planted_case

import linspec as ls
from linspec.arrays import to_host

ON_CUPY = {backend.name: backend for backend in BACKENDS if backend.name.startswith("cupy")}
if reason := ON_CUPY["cupy"].missing():
    pytest.skip(f"{reason}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

HERE = ["cupy" if ON_CUPY["cupy-device1"].missing() else "cupy-device1", "cupyx-csr"]


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize(
    "solver", ["cca/gram", "svd/block-krylov", "least-squares/direct", "discriminant/direct"]
)
def test_planted_answers_come_back_on_the_device(solver: str, name: str) -> None:
    backend, case = ON_CUPY[name], planted_case(solver.partition("/")[0])
    wrapped = {
        key: backend.companion(X) if key in "BH" else backend.wrap(X) for key, X in case.arrays.items()
    }
    before = {key: backend.snapshot(X) for key, X in wrapped.items() if key not in "BH"}
    found = ls.solve(case.state(wrapped), solver, rng=0)
    assert found.converged
    for field, value in case.truth.items():
        np.testing.assert_allclose(np.abs(to_host(getattr(found, field))), np.abs(value), atol=1e-8)
    vectors = next(
        getattr(found, field) for field in ("x_weights", "Vh", "x", "weights") if hasattr(found, field)
    )
    assert type(vectors).__module__.startswith("cupy") == backend.is_array or backend.sparse
    assert {key: backend.snapshot(X) for key, X in wrapped.items() if key in before} == before
