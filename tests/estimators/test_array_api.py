"""Arrays of other libraries: scikit-learn's checks of them, and the values that they lead to.

scikit-learn keeps arrays where they are if SCIPY_ARRAY_API is set before SciPy is imported. So the tests run in a
process of their own, unless this one has it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import sklearn

from linspec.arrays import to_host
from linspec.estimators import CCA, PCA, Discriminant, KernelCCA, KernelRidge, Ridge, RidgeCV

DISPATCHES = os.environ.get("SCIPY_ARRAY_API") is not None
only_there = pytest.mark.skipif(
    not DISPATCHES, reason="needs SCIPY_ARRAY_API=1; runs in a process of its own"
)

ESTIMATORS = [PCA(4), CCA(1), Ridge(), RidgeCV(), RidgeCV(cv=3), Discriminant(), KernelCCA(), KernelRidge()]
PLACES = [
    ("array_api_strict", "CPU_DEVICE", "float64"),
    ("array_api_strict", "device1", "float32"),
    ("torch", "cpu", "float64"),
    ("torch", "cpu", "float32"),
    ("torch", "cuda", "float32"),
]


def _missing(library: str, device: str) -> str:
    if importlib.util.find_spec(library) is None:
        return f"{library} is not installed"
    if device == "cuda":
        import torch

        return "" if torch.cuda.is_available() else "torch has no CUDA device"
    return ""


@pytest.fixture(params=PLACES, ids="-".join)
def place(request):
    library, device, dtype = request.param
    if reason := _missing(library, device):
        pytest.skip(reason)
    module = importlib.import_module(library)
    return module, (module.Device(device) if library == "array_api_strict" else device), dtype


@only_there
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("place", PLACES, indirect=True, ids="-".join)
def test_checks_and_values(estimator, place, request):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    library, device, dtype = request.node.callspec.params["place"]
    for weighted in (False, True):
        checks.check_array_api_input_and_values(
            type(estimator).__name__, estimator, library, device, dtype, check_sample_weight=weighted
        )


@only_there
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_targets_and_weights_from_elsewhere(estimator, place):
    """They are moved to X."""
    module, device, dtype = place
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)).astype(dtype), rng.integers(0, 2, 30)
    weights = {} if isinstance(estimator, KernelCCA) else {"sample_weight": rng.integers(1, 4, 30) * 1.0}
    with sklearn.config_context(array_api_dispatch=True):
        found = sklearn.clone(estimator).fit(module.asarray(X, device=device), y, **weights)
        reference = sklearn.clone(estimator).fit(X, y, **weights)
        there = getattr(found, estimator._weights)
        assert type(there) is type(module.asarray(X, device=device))
        predicts = estimator._weights in {"coef_", "dual_coef_"}
        rows = X if predicts else X[:4]
        method = "predict" if predicts else "transform"
        ours = getattr(found, method)(module.asarray(rows, device=device))
        tolerance = 1e-3 if dtype == "float32" else 1e-6
        np.testing.assert_allclose(to_host(ours), getattr(reference, method)(rows), atol=tolerance)


@only_there
def test_classes_that_are_strings_stay_on_the_host(place):
    module, device, dtype = place
    rng = np.random.default_rng(0)
    y = np.repeat(["elm", "ash"], 20)
    X = (rng.standard_normal((40, 3)) + 3 * (y == "elm")[:, None]).astype(dtype)
    with sklearn.config_context(array_api_dispatch=True):
        found = Discriminant().fit(module.asarray(X, device=device), y)
        assert (found.predict(module.asarray(X, device=device)) == y).mean() > 0.9


@only_there
def test_other_libraries_than_that_of_the_fit_are_refused(place):
    module, device, dtype = place
    X = np.random.default_rng(0).standard_normal((20, 3)).astype(dtype)
    with sklearn.config_context(array_api_dispatch=True):
        found = PCA(1).fit(module.asarray(X, device=device))
        with pytest.raises(ValueError, match=r"same namespace and the same device.*Convert them"):
            found.transform(X)


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
        method = "predict" if estimator._weights in {"coef_", "dual_coef_"} else "transform"
        rows = getattr(found, method)(J)
        assert type(rows) is np.ndarray
        np.testing.assert_array_equal(np.asarray(rows), getattr(wanted, method)(X))
        if hasattr(wanted, "score"):
            assert found.score(J, classes) == wanted.score(X, y)


def test_sparse_tensors_of_torch_are_borrowed():
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(0).standard_normal((30, 5)) * (np.arange(5) % 2)
    wanted = PCA(2).fit(scipy.sparse.csr_array(X))
    found = PCA(2).fit(torch.from_numpy(X).to_sparse())
    np.testing.assert_array_equal(found.components_, wanted.components_)
    rows = found.transform(torch.from_numpy(X).to_sparse())
    np.testing.assert_array_equal(rows, wanted.transform(scipy.sparse.csr_array(X)))


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
