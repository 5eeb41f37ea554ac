"""Arrays of other libraries: scikit-learn's checks of them, and the values that they lead to.

scikit-learn keeps arrays where they are if SCIPY_ARRAY_API is set before SciPy is imported. So the tests run in a
process of their own, unless this one has it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import sklearn

from linspec.arrays import to_host
from linspec.estimators import (
    CCA,
    PCA,
    Discriminant,
    KernelCCA,
    KernelRidge,
    PLSRegression,
    ReducedRankRegression,
    Ridge,
    RidgeCV,
)

DISPATCHES = os.environ.get("SCIPY_ARRAY_API") is not None
only_there = pytest.mark.skipif(
    not DISPATCHES, reason="needs SCIPY_ARRAY_API=1; runs in a process of its own"
)

ESTIMATORS = [PCA(4), CCA(1), Ridge(), RidgeCV(), RidgeCV(cv=3), Discriminant(), KernelCCA(), KernelRidge()]
ESTIMATORS += [PLSRegression(1), ReducedRankRegression()]
PLACES = [
    ("array_api_strict", "CPU_DEVICE", "float64"),
    ("array_api_strict", "device1", "float32"),
    ("torch", "cpu", "float64"),
    ("torch", "cpu", "float32"),
    ("torch", "cuda", "float32"),
]


def needed(library, device):
    """The library, and what it calls the device; the test is skipped where they are not there."""
    module = pytest.importorskip(library)
    if device == "cuda" and not module.cuda.is_available():
        pytest.skip("torch has no CUDA device")
    return module, (module.Device(device) if library == "array_api_strict" else device)


def method_of(estimator):
    return "predict" if estimator._weights in {"coef_", "dual_coef_"} else "transform"


@only_there
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_checks_and_values(estimator, place):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    needed(*place[:2])
    for weighted in (False, True):
        checks.check_array_api_input_and_values(
            type(estimator).__name__, estimator, *place, check_sample_weight=weighted
        )


@only_there
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_targets_and_weights_from_elsewhere_are_moved_to_x(estimator, place):
    module, device = needed(*place[:2])
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)).astype(place[2]), rng.integers(0, 2, 30)
    y = np.array(["elm", "ash"])[y] if isinstance(estimator, Discriminant) else y  # strings stay on the host
    weights = {} if isinstance(estimator, KernelCCA) else {"sample_weight": rng.integers(1, 4, 30) * 1.0}
    with sklearn.config_context(array_api_dispatch=True):
        found = sklearn.clone(estimator).fit(module.asarray(X, device=device), y, **weights)
        reference = sklearn.clone(estimator).fit(X, y, **weights)
        assert type(getattr(found, estimator._weights)) is type(module.asarray(X, device=device))
        ours = getattr(found, method_of(estimator))(module.asarray(X, device=device))
        tolerance = 1e-3 if place[2] == "float32" else 1e-6
        np.testing.assert_allclose(to_host(ours), getattr(reference, method_of(estimator))(X), atol=tolerance)
        if isinstance(estimator, Discriminant):
            there = module.asarray(X, device=device)
            np.testing.assert_array_equal(found.predict(there), reference.predict(X))
        with pytest.raises(ValueError, match=r"same namespace and the same device.*Convert them"):
            getattr(found, method_of(estimator))(X)


@only_there
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("dispatches", [True, False], ids=["dispatch", "no-dispatch"])
def test_arrays_of_jax_are_borrowed(estimator, dispatches):
    """Results and fitted attributes are NumPy's."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)).astype(np.float32), rng.integers(0, 2, 30)
    J, classes = jax.numpy.asarray(X), jax.numpy.asarray(y)
    with sklearn.config_context(array_api_dispatch=dispatches):
        found, wanted = sklearn.clone(estimator).fit(J, classes), sklearn.clone(estimator).fit(X, y)
        assert type(getattr(found, estimator._weights)) is np.ndarray
        rows = getattr(found, method_of(estimator))(J)
        assert type(rows) is np.ndarray
        np.testing.assert_array_equal(rows, getattr(wanted, method_of(estimator))(X))
        assert not hasattr(wanted, "score") or found.score(J, classes) == wanted.score(X, y)


@pytest.mark.skipif(DISPATCHES, reason="this process keeps arrays where they are")
@pytest.mark.slow
def test_in_a_process_that_keeps_arrays_where_they_are():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-rs", __file__],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
