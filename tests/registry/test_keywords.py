"""Misspelt keywords, and those of other libraries: an error names a near one, where it belongs, and what there is."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import UnknownOption

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((60, 4)), RNG.standard_normal((60, 3))
CCA, SVD, RIDGE = ls.CCA(X, Y, 2), ls.SVD(X, 2), ls.LeastSquares(X, Y, ridge=1.0)
CLASSES = np.arange(60) % 3

CALLS: dict[str, Any] = {
    "SVD": functools.partial(ls.SVD, X, 2),
    "CCA": functools.partial(ls.CCA, X, Y, 2),
    "LeastSquares": functools.partial(ls.LeastSquares, X, Y),
    "BlockKrylov": functools.partial(ls.solve, SVD, "block-krylov"),
    "LSQR": functools.partial(ls.solve, RIDGE, "lsqr"),
}

FOREIGN = re.findall(
    r"\w+",
    """
    cv n_splits scoring random_state seed n_jobs verbose n_components alpha alphas l1_ratio max_iter
    fit_intercept svd_solver algorithm n_resamples n_samples samples n_permutations confidence_level
    vectorized axis alternative x0 v0 which maxiter M rtol atol damp callbacks disp whiten
    n_oversamples n_iter n_boot weights power_iteration_normalizer copy estimator iters time_limit
    verbosity folds lambdas feature_names zebra
    """,
)
"""Names in scikit-learn, SciPy, statsmodels and R that are no parameters here."""


@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        ("SVD", "centre", "center"),
        ("CCA", "ridges", "ridge"),
        ("LeastSquares", "sample_weights", "sample_weight"),
        ("BlockKrylov", "max_iteration", "max_iterations"),
        ("LSQR", "Tol", "tol"),
    ],
)
def test_the_parameter_of_the_call_is_named(call: str, given: str, meant: str) -> None:
    with pytest.raises(UnknownOption, match=f"{call} has no .* {given!r}. Did you mean {meant!r}?"):
        CALLS[call](**{given: 3})


@pytest.mark.parametrize("given", ["rng", "start", "max_passes"])
def test_an_argument_of_solve_is_named(given: str) -> None:
    with pytest.raises(UnknownOption, match=r"It is an argument of linspec\.solve\. Pass it there\."):
        CALLS["SVD"](**{given: 3})


def test_what_auto_does_not_take_is_refused() -> None:
    with pytest.raises(UnknownOption, match='"auto" takes only tol; got samples'):
        ls.bootstrap(CCA, samples=3)
    with pytest.raises(TypeError, match="columns"):
        ls.project(X, n_components=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(("call", "given"), [(call, given) for call in CALLS for given in FOREIGN])
@pytest.mark.slow(keep=40)
def test_no_foreign_name_is_taken_or_answered_by_another(call: str, given: str) -> None:
    """Whatever is suggested can be given there: to the problem, the solver, or the call."""
    function = CALLS[call]
    takes = inspect.signature(
        ls.get_solver({"BlockKrylov": "svd/block-krylov", "LSQR": "least-squares/lsqr"}[call])
        if function.func is ls.solve
        else function.func
    ).parameters
    with pytest.raises(UnknownOption) as caught:
        function(**{given: 3})
    said = str(caught.value)
    assert f"{call} has no" in said.replace("SimultaneousLSQR", "LSQR")
    assert given in said
    if hint := re.search(r"Did you mean '(\w+)'", said):
        assert hint[1] in takes


def test_options_of_the_solver_reach_it() -> None:
    assert ls.solve(SVD, "block-krylov", block=3, rng=0).solver == "block-krylov"
    assert len(ls.bootstrap(CCA, "lobpcg", draws=2, rng=0, tol=1e-3).correlations) == 2
    assert ls.project(X, 2, "gaussian", rng=0).shape == (60, 2)
    with pytest.raises(
        UnknownOption, match=r"BlockKrylov has no option 'n_iter'. Its options: block, basis, tol"
    ):
        ls.solve(SVD, "block-krylov", n_iter=3)
    with pytest.raises(LookupError, match="is named 'no-such-solver'"):
        ls.solve(SVD, "no-such-solver", n_iter=3)


def test_a_solver_of_someone_else_may_call_its_options_as_it_likes() -> None:
    """A name in the table is an option where the solver has it."""
    gd = ls.get_solver("gd", "least-squares")
    with pytest.raises(TypeError, match="options go into the solver instance; got step"):
        ls.solve(RIDGE, gd(), step=1.0)


def test_functions_stay_what_they_are() -> None:
    import pickle

    for function in (ls.solve, ls.cross_validate, ls.bootstrap, ls.targets.lda):
        assert pickle.loads(pickle.dumps(function)) is function
        assert inspect.getmodule(function).__name__.startswith("linspec.")
        assert function.__doc__
    with pytest.raises(TypeError, match=r"multiple values|positional"):
        ls.solve(SVD, "gram", 3, 4)  # type: ignore[misc]
