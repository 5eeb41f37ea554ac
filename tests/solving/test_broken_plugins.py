"""Faults of plugins when they are called: each is named, and the rest works on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec import registry
from linspec.cost import Estimate
from linspec.errors import BrokenPlugin, InvalidOption, PluginWarning, UnsupportedData
from linspec.iteration import Iterate
from linspec.registry.options import part
from linspec.solving import Solver

A = np.random.default_rng(0).standard_normal((30, 6))


@pytest.fixture(autouse=True)
def own(monkeypatch):
    made = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: made)
    return made


def declare(cls, *traits, problem="svd"):
    facts = {"summary": "A solver of this test.", "reference": "Golub 1965", "traits": traits}
    ls.register(ls.SolverSpec(name="mine", problem=problem, target=f"{__name__}:{cls.__name__}", **facts))


# ---- estimate -----------------------------------------------------------------------------------------------

behave = SimpleNamespace(estimate=lambda: None)


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """The SVD of the triangle."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        _, s, Vt = np.linalg.svd(moments.triangle(), full_matrices=False)
        yield Iterate(0.0, lambda: {"Vh": Vt, "S": s}, final=True)


@dataclass(frozen=True, kw_only=True)
class Guesses(Direct):
    """Its estimate does what the test says."""

    @classmethod
    def estimate(cls, sizes: Any) -> Any:
        return behave.estimate()


def raising(error):
    def raises(*_):
        raise error

    return raises


BAD_ESTIMATES = {
    "raises": (raising(ZeroDivisionError("no rows")), "ZeroDivisionError: no rows"),
    "returns a number": (lambda: 42, "no linspec.cost.Estimate"),
    "returns no number of seconds": (lambda: Estimate(math.nan, 0.0), "no linspec.cost.Estimate"),
    "returns negative bytes": (lambda: Estimate(0.0, -1.0), "no linspec.cost.Estimate"),
    "returns words": (lambda: Estimate("quick", 0.0), "TypeError"),
}


@pytest.mark.parametrize("fault", BAD_ESTIMATES)
def test_an_estimate_that_fails_is_a_warning_and_harms_nobody_else(monkeypatch, fault):
    does, words = BAD_ESTIMATES[fault]
    monkeypatch.setattr(behave, "estimate", does)
    problem = ls.SVD(A, 2)
    without = ls.solve(problem)
    declare(Guesses, "direct", "automatic")
    with pytest.warns(PluginWarning, match="svd/mine: estimate ") as caught:
        chosen = ls.solve(problem)
    assert words in str(caught[0].message)
    assert chosen.solver == without.solver
    np.testing.assert_array_equal(chosen.S, without.S)
    with pytest.warns(PluginWarning, match="svd/mine: estimate "):
        named = ls.solve(problem, "mine")
    np.testing.assert_allclose(named.S, np.linalg.svd(A, compute_uv=False)[:2])


def test_a_candidate_that_cannot_be_imported_is_a_warning():
    without = ls.solve(ls.SVD(A, 2)).solver
    facts = {"summary": "S.", "reference": "Golub 1965", "traits": ("automatic",)}
    ls.register(ls.SolverSpec(name="mine", problem="svd", target="no_such_module:Mine", **facts))
    with pytest.warns(PluginWarning, match="No module named 'no_such_module'"):
        assert ls.solve(ls.SVD(A, 2)).solver == without


# ---- adapters -----------------------------------------------------------------------------------------------


class Cargo:
    """Data that adapters know."""


def adapter(name, matches, adapt=lambda data: ls.as_operator(A)):
    ls.register(ls.OperatorSpec(name=name, matches=matches, adapt=adapt, summary="Cargo."))


def is_cargo(data):
    return isinstance(data, Cargo)


BAD_MATCHES = {
    "raises": (lambda data: data.shape[0], "AttributeError"),
    "returns what is neither true nor false": (lambda data: np.ones(2), "the truth value .* is ambiguous"),
}


@pytest.mark.parametrize("fault", BAD_MATCHES)
def test_an_adapter_whose_matches_fails_harms_nobody_else(fault):
    matches, words = BAD_MATCHES[fault]
    adapter("broken", matches)
    with (
        pytest.warns(PluginWarning, match=f"(?i)operator/broken: matches raised .*{words}"),
        pytest.raises(UnsupportedData),
    ):
        ls.as_operator(Cargo())
    adapter("sound", is_cargo)
    with pytest.warns(PluginWarning, match="operator/broken: matches raised "):
        assert ls.solve(ls.SVD(Cargo(), 2), "direct").converged


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (
            raising(ZeroDivisionError("cargo")),
            BrokenPlugin,
            "it raised ZeroDivisionError: cargo. This is a fault",
        ),
        (
            lambda data: A,
            BrokenPlugin,
            "operator/leaky must make a linspec.LinearOperator of Cargo.*got ndarray",
        ),
        (raising(UnsupportedData("Cargo must be dry.")), UnsupportedData, "Cargo must be dry."),
        (raising(KeyboardInterrupt()), KeyboardInterrupt, None),
        (raising(MemoryError()), MemoryError, None),
    ],
)
def test_an_adapter_that_fails_is_named(made, kind, words):
    adapter("leaky", is_cargo, made)
    with pytest.raises(kind, match=words):
        ls.as_operator(Cargo())


def test_an_adapter_that_takes_the_data_of_another_is_named():
    adapter("greedy", lambda data: True)
    adapter("right", is_cargo)
    assert ls.as_operator(Cargo()).shape == A.shape  # the fault does not show
    adapter("greedy", lambda data: True, lambda data: data.hold)
    words = r"operator/greedy .* or matches is true of data that are not its own\."
    with pytest.raises(BrokenPlugin, match=words):
        ls.as_operator(Cargo())


# ---- solve --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Returns(Direct):
    """Returns what it should yield."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        return [next(super().iterate(problem, moments, context, start))]


@dataclass(frozen=True, kw_only=True)
class Nothing(Direct):
    """Yields nothing."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        yield from ()


def test_a_solver_may_return_a_list_of_its_iterates_and_must_have_one():
    assert ls.solve(ls.SVD(A, 2), Returns()).converged
    with pytest.raises(BrokenPlugin, match="Nothing must yield at least one iterate"):
        ls.solve(ls.SVD(A, 2), Nothing())


# ---- what is yielded ----------------------------------------------------------------------------------------

B = A[:, :2] + 1
LSTSQ, SVD, CCA = ls.LeastSquares(A, B), ls.SVD(A, 2), ls.CCA(A, B, 1, ridge=1.0)
X_WEIGHTS = {"x_weights": np.ones((6, 1))}
OTHER_VIEW = r"y_weights, of which axis 0 counts the columns, \[2\]; got shapes \[\(6, 1\)\]"
HANDED = {
    "of another name": (LSTSQ, {"coef": np.zeros((6, 2))}, "must find x.*; got coef"),
    "nothing": (SVD, {}, "must yield Vh; got nothing"),
    "one of two": (CCA, X_WEIGHTS, "x_weights, y_weights.*got x_weights"),
    "for other columns": (LSTSQ, {"x": np.zeros((3, 2))}, r"x of shape \(6, 2\).*; got \(3, 2\)"),
    "lying down": (SVD, {"Vh": np.eye(6)[:, :2]}, r"Vh, of which axis 1 .*, \[6\]; got shapes \[\(6, 2\)\]"),
    "a vector": (LSTSQ, {"x": np.zeros(6)}, r"x of shape \(6, 2\).*got \(6,\)"),
    "None": (SVD, {"Vh": None}, r"Vh, of which axis 1 .* got shapes \[\(\)\]"),
    "of the other view": (CCA, X_WEIGHTS | {"y_weights": np.ones((6, 1))}, OTHER_VIEW),
}


@dataclass(frozen=True, kw_only=True)
class Hands(Solver):
    """Hands over what the test says."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        yield Iterate(0.0, lambda: behave.arrays, final=True)


@pytest.mark.parametrize("what", HANDED)
def test_what_is_yielded_is_named_if_the_certificate_cannot_take_it(monkeypatch, what):
    problem, arrays, words = HANDED[what]
    monkeypatch.setattr(behave, "arrays", arrays, raising=False)
    with pytest.raises(BrokenPlugin, match=words):
        ls.solve(problem, Hands())


@dataclass(frozen=True, kw_only=True)
class NoSolver:
    """Has no iterates."""


@dataclass(frozen=True, kw_only=True)
class Plain(Solver):
    """Solves least squares; nobody can prepare it."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        (S, C), _ = moments.gram()
        yield Iterate(0.0, lambda: {"x": np.linalg.solve(S + problem.ridge * np.eye(len(S)), C)}, final=True)


def test_a_part_that_lacks_what_it_is_needed_for_is_refused_before_the_run():
    declare(Plain, "direct", problem="least-squares")
    problem = ls.CCA(A, A[:, ::-1] + 1, 2, ridge=1.0)
    with pytest.raises(InvalidOption, match=r"'svd'.* must be the name of a svd solver.*got .*NoSolver"):
        ls.solve(problem, "rpcca", svd=NoSolver())
    for given in ("mine", "pcr", Plain()):
        with pytest.raises(InvalidOption, match=r"'lstsq'.* has the method begins.*got .*(mine|pcr|Plain)"):
            ls.solve(problem, "als", lstsq=given)
    assert ls.solve(problem, "als", lstsq="cg").converged


def test_a_part_declares_what_else_it_must_have():
    @dataclass(frozen=True, kw_only=True)
    class Outer(Solver):
        inner: Any = part("cg", problem="least-squares", method="begins")
        free: Any = part("cg", problem="least-squares")

        def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any: ...

    assert Outer(inner=ls.get_solver("lsqr")(), free=Plain())
    with pytest.raises(InvalidOption, match="the name of a least-squares solver that has the method begins"):
        Outer(inner=Plain())
