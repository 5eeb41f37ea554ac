"""Keywords of other libraries: every call names its own parameter, the solver's option, or where it belongs."""

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

CALLS: dict[str, functools.partial[Any]] = {
    "solve": functools.partial(ls.solve, SVD),
    "compare": functools.partial(ls.compare, SVD, "block-krylov"),
    "cross_validate": functools.partial(ls.cross_validate, RIDGE, ridges=[1.0]),
    "ridge_path": functools.partial(ls.ridge_path, CCA, [1.0]),
    "bootstrap": functools.partial(ls.bootstrap, CCA),
    "null_correlations": functools.partial(ls.null_correlations, CCA),
    "permutation_test": functools.partial(ls.permutation_test, CCA),
    "significance": functools.partial(ls.significance, CCA),
    "project": functools.partial(ls.project, X, 2),
    "labelled": functools.partial(ls.labelled, X),
    "open_rows": functools.partial(ls.open_rows, "a.zarr"),
    "as_operator": functools.partial(ls.as_operator, X),
    "load_solution": functools.partial(ls.load_solution, "a.npz"),
    "lda": functools.partial(ls.targets.lda, CLASSES),
    "opls": functools.partial(ls.targets.opls, Y),
    "cca": functools.partial(ls.targets.cca, CLASSES),
    "hsl": functools.partial(ls.targets.hsl, CLASSES),
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
"""Names in scikit-learn, SciPy, statsmodels and R that are no parameters here, except for the weights of `hsl`."""


MEANT = {
    "bootstrap": (
        "samples=draws n_resamples=draws n_iter=draws n_boot=draws confidence_level=level "
        "alpha=level seed=rng drawz=draws "
    ),
    "cross_validate": (
        "cv=splitter n_splits=splitter scoring=score alphas=ridges alpha=ridges ridge=ridges "
        "n_components=ks random_state=rng estimator=solver "
    ),
    "solve": (
        "random_state=rng svd_solver=solver x0=start v0=start max_iter=max_passes verbose=progress "
        "timeout=max_seconds "
    ),
    "compare": "test_size=held_out random_state=rng algorithms=solvers",
    "permutation_test": "n_permutations=permutations n_resamples=permutations random_state=rng timeout=max_seconds",
    "null_correlations": "n_permutations=permutations",
    "ridge_path": "svd_solver=solver test_size=test",
    "significance": "model=solution",
    "project": "random_state=rng",
    "open_rows": "feature_names=columns",
    "lda": "weights=sample_weight",
}
"""For each call, foreign and misspelt names with the parameters that they stand for."""


@pytest.mark.parametrize(("call", "pair"), [(call, pair) for call in MEANT for pair in MEANT[call].split()])
def test_the_parameter_of_the_call_is_named(call: str, pair: str) -> None:
    function, (given, meant) = CALLS[call], pair.split("=")
    with pytest.raises(UnknownOption) as caught:
        function(**{given: 3})
    said = str(caught.value)
    assert said.startswith(f"{call} has no parameter {given!r}. Did you mean {meant!r}?")
    known = [name for name in inspect.signature(function.func).parameters if "options" not in name]
    assert f"Its parameters: {', '.join(known)}." in said


def test_what_goes_by_position_is_named_where_it_is_missing() -> None:
    with pytest.raises(TypeError, match="ridges"):
        ls.ridge_path(CCA, alphas=[1.0, 2.0])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="columns"):
        ls.project(X, n_components=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "given"),
    [(call, given) for call in CALLS for given in FOREIGN if (call, given) != ("hsl", "weights")],
)
@pytest.mark.slow(keep=270)
def test_no_foreign_name_is_taken_or_answered_by_another(call: str, given: str) -> None:
    """Whatever is suggested can be given there: to the call, the solver that runs, or the problem."""
    function = CALLS[call]
    own = [n for n in inspect.signature(function.func).parameters if "options" not in n]
    assert given not in own
    with pytest.raises(TypeError) as caught:
        function(**{given: 3})
    said = str(caught.value)
    assert given in said
    hint = re.search(r"^(\w+) has no \w+ '\w+'\. Did you mean '(\w+)'", said)
    there = re.search(r"it is an argument of (\w+). Pass (\w+)= there\.", said)
    if there:
        assert there[2] in inspect.signature(getattr(ls, there[1])).parameters
    elif hint:
        takers = {call: function.func, "solve": ls.solve, "BlockKrylov": ls.get_solver("block-krylov", "svd")}
        assert hint[2] in inspect.signature(takers[hint[1]]).parameters
    elif "**options" in str(inspect.signature(function.func)):
        assert '"auto" takes only tol' in said or "has an option" in said or "has no option" in said
    else:
        assert f"Its parameters: {', '.join(own)}." in said


def test_options_of_the_solver_reach_it() -> None:
    assert ls.solve(SVD, "block-krylov", block=3, rng=0).solver == "block-krylov"
    assert len(ls.bootstrap(CCA, "lobpcg", draws=2, rng=0, tol=1e-3).correlations) == 2
    assert ls.project(X, 2, "gaussian", rng=0).shape == (60, 2)
    with pytest.raises(
        UnknownOption, match=r"BlockKrylov has no option 'n_iter'. Did you mean 'max_iterations'"
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
