"""Records and options: what an author may declare, and what a user may pass."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pickle
import re
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidDeclaration, InvalidOption, UnknownOption
from linspec.registry.options import RUN_ARGUMENTS, build, options_of, parse, validate

FACTS: dict[str, Any] = {"name": "two-stage", "target": "a.b:C", "summary": "S.", "reference": "Golub 1973"}


def solver(**changes: Any) -> ls.SolverSpec:
    return ls.SolverSpec(**{**FACTS, "problem": "cca", **changes})


MALFORMED: dict[str, tuple[Any, ...]] = {
    "name": ("", "L-CCA", "l_cca", "-cca", "l--cca", "cca/gram", "a:gram", "gram\n", 3),
    "problem": ("least squares", None),
    "target": ("a.b", "a.b:", ":C", "a..b:C", "a b:C", dict),
    "summary": (" ",),
    "reference": (None,),
    "needs": ({"adjoint": True},),
    "traits": (["direct"], "direct", ("driect",)),
}


@pytest.mark.parametrize("field", MALFORMED)
def test_a_malformed_record_is_refused(field: str) -> None:
    for value in MALFORMED[field]:
        with pytest.raises(InvalidDeclaration) as caught:
            solver(**{field: value})
        assert repr(value) in str(caught.value).replace("\\\\", "\\")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: solver(traits=("itertive",)), r"of the traits direct, .*got \('itertive',\)"),
        (lambda: ls.option(None, "of which type?"), "float, int, bool or str"),
        (lambda: ls.option(-1.0, "x", above=0), r"the default must itself be a number > 0; got -1\.0"),
        (lambda: ls.option("up", "x", choices=("left",)), r"must itself be a string in \{left\}"),
        (lambda: ls.part("ling"), "problem='least-squares'"),
        (lambda: ls.part("qr", kind="normaliser"), "a part is one of solver, normalizer, test-matrix"),
        (lambda: options_of(int), "@dataclass"),
        (lambda: ls.Needs(entry=True), "'entry'"),
    ],
)
def test_a_wrong_declaration_names_the_right_one(make: Any, words: str) -> None:
    with pytest.raises((InvalidDeclaration, TypeError), match=words):
        make()


# ---- options ---------------------------------------------------------------------------------------------------


class Inner:
    def iterate(self) -> None: ...


OPTIONS: dict[str, tuple[Any, str, list[Any]]] = {
    "step": (
        ls.option(None, "step length; None: from the data", above=0),
        "a number > 0, or None",
        [0, -0.0, True, math.nan, np.float32("nan"), "1", 1j, 10**400],
    ),
    "tol": (ls.option(1e-8, "tolerance", above=0, below=1), "a number > 0, < 1", [None, 1.0]),
    "ridge": (
        ls.option(0.0, "ridge", at_least=0, below=math.inf),
        "a number >= 0, finite",
        [math.inf, -1e-300],
    ),
    "share": (ls.option(0.5, "share", at_least=0, at_most=1), "a number >= 0, <= 1", [1.1]),
    "rank": (ls.option(10, "rank", at_least=1, at_most=512), "an integer >= 1, <= 512", [0, 513, 3.0, False]),
    "exact": (ls.option(False, "exactly"), "True or False", [1, np.True_]),
    "side": (
        ls.option("left", "", choices=("left", "right")),
        "a string in {left, right}",
        ["Left", ["left"]],
    ),
    "label": (ls.option(None, "label", kind=str), "a string, or None", [3]),
    "power": (ls.option(1, "power", choices=(1, 2, 4)), "an integer in {1, 2, 4}", [3, np.ones(2)]),
    "lstsq": (
        ls.part("ling", "inner solver", problem="least-squares", method="iterate"),
        "the name of a least-squares solver that has the method iterate, or an instance of one",
        ["", Inner, None],  # the class has no options; an instance is meant
    ),
    "normalizer": (
        ls.part(None, kind="normalizer"),
        "the name of a normalizer or an instance of one, or None",
        [Inner()],  # a solver is no normalizer
    ),
}
"""An option, what it expects, and what it refuses."""

Method: Any = dataclasses.make_dataclass(  # annotations are never evaluated
    "Method",
    [(name, "Nothing", field) for name, (field, _, _) in OPTIONS.items()],
    namespace={"__post_init__": validate},
    frozen=True,
    kw_only=True,
)
BY_NAME = {declared.name: declared for declared in options_of(Method)}


@pytest.mark.parametrize(
    "options",
    [
        {"step": 3, "rank": np.int16(3), "tol": np.float64(0.5)},
        {"step": np.float32(0.5), "share": 1, "lstsq": Inner()},
        {"step": Fraction(1, 3), "rank": 512, "side": "right", "exact": True, "label": "x"},
        {"step": math.inf, "share": 0.0, "normalizer": "qr"},
    ],
)
def test_values_that_are_accepted_are_kept_as_they_are(options: dict[str, Any]) -> None:
    method = Method(**options)
    assert build(Method, options) == method
    assert all(getattr(method, name) is value for name, value in options.items())


@pytest.mark.parametrize("name", OPTIONS)
def test_a_refusal_states_what_is_expected_and_what_it_got(name: str) -> None:
    _, expected, refused = OPTIONS[name]
    for value in refused:
        with pytest.raises(InvalidOption) as caught:
            Method(**{name: value})
        message = str(caught.value)
        assert message.startswith(f"option {name!r} of Method must be {expected}; got ")
        assert f"Leave it out for the default, {BY_NAME[name].default!r}." in message


TEXTS = {"step": "1e-3", "rank": "7", "exact": "yes", "side": "right", "power": "4", "lstsq": "gram"}


def test_reading_from_the_command_line() -> None:
    found = {name: parse(BY_NAME[name], text) for name, text in TEXTS.items()}
    assert repr(found) == repr(TEXTS | {"step": 0.001, "rank": 7, "exact": True, "power": 4})
    assert parse(BY_NAME["step"], "None") is None
    for name, text in (("step", "fast"), ("step", "0"), ("tol", "none"), ("rank", "1.5")):
        with pytest.raises(InvalidOption, match=name):
            parse(BY_NAME[name], text)


def test_arguments_of_a_run_are_no_options() -> None:
    assert {*inspect.signature(ls.solve).parameters} - {"options_"} == RUN_ARGUMENTS
    with pytest.raises(UnknownOption, match=r"argument of linspec\.solve"):
        build(Method, {"max_passes": 3})


# ---- keywords of users -----------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((60, 4)), RNG.standard_normal((60, 3))
SVD, CCA, RIDGE = ls.SVD(X, 2), ls.CCA(X, Y, 2), ls.LeastSquares(X, Y, ridge=1.0)
CALLS: dict[str, tuple[Any, Any]] = {
    "SVD": (partial(ls.SVD, X, 2), ls.SVD),
    "CCA": (partial(ls.CCA, X, Y, 2), ls.CCA),
    "LeastSquares": (partial(ls.LeastSquares, X, Y), ls.LeastSquares),
    "BlockKrylov": (partial(ls.solve, SVD, "block-krylov"), ls.get_solver("svd/block-krylov")),
    "SimultaneousLSQR": (partial(ls.solve, RIDGE, "lsqr"), ls.get_solver("least-squares/lsqr")),
}
"""Calls, and what has the parameters that they pass on."""

FOREIGN = """
    cv n_splits scoring random_state n_components alpha alphas max_iter fit_intercept svd_solver n_samples
    x0 which maxiter rtol atol damp callbacks whiten n_iter weights estimator time_limit folds lambdas zebra
"""
"""Names in scikit-learn, SciPy, statsmodels and R that are no parameters here."""


@pytest.mark.parametrize("call", CALLS)
def test_no_foreign_name_is_taken_or_answered_by_another(call: str) -> None:
    """Whatever is suggested can be given there: to the problem, the solver, or the call."""
    function, takes = CALLS[call]
    for foreign in FOREIGN.split():
        with pytest.raises(UnknownOption, match=f"{call} has no .*'{foreign}'") as caught:
            function(**{foreign: 3})
        hint = re.search(r"Did you mean '(\w+)'", str(caught.value))
        assert hint is None or hint[1] in inspect.signature(takes).parameters


@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        ("SVD", "centre", "SVD has no .* 'centre'. Did you mean 'center'?"),
        ("CCA", "ridges", "CCA has no .* 'ridges'. Did you mean 'ridge'?"),
        ("BlockKrylov", "max_iteration", "Did you mean 'max_iterations'?"),
        ("SimultaneousLSQR", "Tol", "Did you mean 'tol'?"),
        ("SVD", "rng", r"It is an argument of linspec\.solve\. Pass it there\."),
    ],
)
def test_the_parameter_that_is_meant_is_named(call: str, given: str, words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        CALLS[call][0](**{given: 3})


def test_options_of_the_solver_reach_it_and_no_other() -> None:
    assert len(ls.bootstrap(CCA, "lobpcg", draws=2, rng=0, tol=1e-3).correlations) == 2
    with pytest.raises(UnknownOption, match='"auto" takes only tol; got samples'):
        ls.bootstrap(CCA, samples=3)
    with pytest.raises(TypeError, match="options go into the solver instance; got step"):
        ls.solve(RIDGE, ls.get_solver("gd", "least-squares")(), step=1.0)
    for function in (ls.solve, ls.cross_validate, ls.bootstrap, ls.targets.lda):
        assert pickle.loads(pickle.dumps(function)) is function  # though they look at their keywords
        assert inspect.getmodule(function).__name__.startswith("linspec.")
        assert function.__doc__
