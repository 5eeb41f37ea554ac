"""Solvers and adapters of others: what "auto" makes of them; their faults are named, and the rest works on."""

from __future__ import annotations

import json
import math
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from choices import FILE, MEMORY, choices

import linspec as ls
from linspec import registry
from linspec.cost import Estimate
from linspec.errors import BrokenPlugin, ConvergenceWarning, InvalidOption, PluginWarning, UnsupportedData
from linspec.iteration import Iterate
from linspec.process import machine
from linspec.solving import Solver

A = np.random.default_rng(0).standard_normal((30, 6))
B = A[:, :2] + 1
LSTSQ, SVD, CCA = ls.LeastSquares(A, B), ls.SVD(A, 2), ls.CCA(A, B, 1, ridge=1.0)
FACTS = {"summary": "A solver of this test.", "reference": "Golub 1965"}
behave = SimpleNamespace()


@pytest.fixture(autouse=True)
def own(monkeypatch):
    made = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: made)
    behave.iterate, behave.estimate = triangle, lambda: Estimate(1e9, 0.0)
    return made


@dataclass(frozen=True, kw_only=True)
class Mine(Solver):
    """Does what the test says, which holds for `Other`, too."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        return behave.iterate(moments, self)

    @classmethod
    def estimate(cls, sizes: Any) -> Any:
        return behave.estimate()


@dataclass(frozen=True, kw_only=True)
class Other(Mine):
    """Another solver."""


def triangle(moments, _):
    """The SVD of the triangle, in a list."""
    _, s, Vt = np.linalg.svd(moments.triangle(), full_matrices=False)
    return [Iterate(0.0, lambda: {"Vh": Vt, "S": s}, final=True)]


def declare(name="mine", problem="svd", module=__name__, traits=("direct", "automatic")):
    target = f"{module}:{name.capitalize()}"
    ls.register(ls.SolverSpec(name=name, problem=problem, target=target, traits=traits, **FACTS))


def raising(error):
    def raises(*_):
        raise error

    return raises


# ---- auto ---------------------------------------------------------------------------------------------------


def halting(*shares, again=False):
    """Let `Mine` and `Other` claim to be quicker than all, and stagnate at these shares of the answer."""

    def iterate(moments, solver):
        (S, _), (C, _) = moments.products(np.eye(6), np.eye(2))
        x = shares[isinstance(solver, Other)] * np.linalg.solve(S, C)
        yield Iterate(1.0, lambda: {"x": x})
        while again:
            moments.gram_product(x)
            yield Iterate(1.0, lambda: {"x": x})

    behave.iterate, behave.estimate = iterate, lambda: Estimate(0.0, 0.0)
    for name, _ in zip(("mine", "other"), shares, strict=False):
        declare(name, "least-squares", traits=("iterative", "automatic"))


def test_auto_goes_on_where_a_solver_stagnates(recwarn):
    halting(0.5)
    found = ls.solve(LSTSQ, rng=0)
    assert found.converged
    assert found.solver != "mine"
    assert "mine was tried first, and ended as STAGNATED" in found.message
    alone = ls.solve(LSTSQ, found.solver, rng=0)
    np.testing.assert_array_equal(found.x, alone.x)
    assert found.passes == alone.passes + 2.0  # the rows and the certificate of the first
    assert not recwarn.list


def test_auto_keeps_the_best_of_those_that_miss_the_tolerance():
    halting(0.5, 0.9)
    with pytest.warns(ConvergenceWarning, match="other") as told:
        found = ls.solve(LSTSQ, rng=0)
    assert (found.solver, found.status, found.passes) == ("other", ls.Status.STAGNATED, 4.0)
    assert len(told) == 1


@pytest.mark.parametrize("again, budget", [(True, 9), (False, 2)])
def test_auto_does_not_go_on_beyond_a_budget(again, budget):
    halting(0.5, again=again)
    with nullcontext() if again else pytest.warns(ConvergenceWarning):
        assert ls.solve(LSTSQ, rng=0, max_passes=budget).solver == "mine"


def test_auto_imports_no_solver_without_the_trait(own, tmp_path, monkeypatch):
    """The module of the one without would stop the interpreter."""
    (tmp_path / "heavy_library.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    declare("heavy", module="heavy_library", traits=("iterative",))
    assert ls.solve(SVD, rng=0).converged
    assert "heavy_library" not in sys.modules
    assert own.plugins()[-1].status == "loaded"


def test_choices_are_those_that_are_recorded(monkeypatch):
    """A table that reviewers read: it does not say that a choice is right, only that it has changed."""
    monkeypatch.undo()  # with the solvers that ship
    monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
    recorded, found = json.loads(FILE.read_text(encoding="utf-8")), choices()
    changed = [(label, recorded.get(label), found.get(label)) for label in {*recorded, *found}]
    changed = [entry for entry in changed if entry[1] != entry[2]]
    assert not changed, "if that is meant, run python tests/choices.py: changes need a changelog line"


# ---- estimates ----------------------------------------------------------------------------------------------

BAD_ESTIMATES = {
    "raises": (raising(ZeroDivisionError("no rows")), "ZeroDivisionError: no rows"),
    "returns no number of seconds": (lambda: Estimate(math.nan, 0.0), "no linspec.cost.Estimate"),
    "returns words": (lambda: Estimate("quick", 0.0), "TypeError"),
}


@pytest.mark.parametrize("fault", BAD_ESTIMATES)
def test_an_estimate_that_fails_is_a_warning_and_harms_nobody_else(fault):
    without = ls.solve(SVD)
    behave.estimate, words = BAD_ESTIMATES[fault]
    declare()
    with pytest.warns(PluginWarning, match=f"svd/mine: estimate .*{words}"):
        chosen = ls.solve(SVD)
    assert chosen.solver == without.solver
    np.testing.assert_array_equal(chosen.S, without.S)
    with pytest.warns(PluginWarning, match="svd/mine: estimate "):
        named = ls.solve(SVD, "mine")
    np.testing.assert_allclose(named.S, np.linalg.svd(A, compute_uv=False)[:2])


def test_a_candidate_that_cannot_be_imported_is_a_warning():
    without = ls.solve(SVD).solver
    declare(module="no_such_module")
    with pytest.warns(PluginWarning, match="No module named 'no_such_module'"):
        assert ls.solve(SVD).solver == without


# ---- adapters -----------------------------------------------------------------------------------------------


class Cargo:
    """Data that adapters know."""


def adapter(name, matches=lambda data: isinstance(data, Cargo), adapt=lambda data: ls.as_operator(A)):
    ls.register(ls.OperatorSpec(name=name, matches=matches, adapt=adapt, summary="Cargo."))


@pytest.mark.parametrize(
    ("matches", "words"),
    [
        (lambda data: data.shape[0], "AttributeError"),
        (lambda data: np.ones(2), "The truth value .* is ambiguous"),
    ],
)
def test_an_adapter_whose_matches_fails_harms_nobody_else(matches, words):
    adapter("broken", matches)
    told = f"operator/broken: matches raised .*{words}"
    with pytest.warns(PluginWarning, match=told), pytest.raises(UnsupportedData):
        ls.as_operator(Cargo())
    adapter("sound")
    with pytest.warns(PluginWarning, match=told):
        assert ls.solve(ls.SVD(Cargo(), 2), "direct").converged


ADAPT = {
    "it raised ZeroDivisionError: cargo. This is a fault": (
        raising(ZeroDivisionError("cargo")),
        BrokenPlugin,
    ),
    "operator/leaky must make a linspec.LinearOperator of Cargo.*got ndarray": (lambda data: A, BrokenPlugin),
    "or matches is true of data that are not its own": (lambda data: data.hold, BrokenPlugin),
    "Cargo must be dry.": (raising(UnsupportedData("Cargo must be dry.")), UnsupportedData),
    "Ctrl-C": (raising(KeyboardInterrupt("Ctrl-C")), KeyboardInterrupt),
}


@pytest.mark.parametrize("words", ADAPT)
def test_an_adapter_that_fails_is_named(words):
    adapt, kind = ADAPT[words]
    adapter("leaky", adapt=adapt)
    if "its own" in words:  # another one matches, too
        adapter("right")
    with pytest.raises(kind, match=words):
        ls.as_operator(Cargo())


# ---- what is yielded ----------------------------------------------------------------------------------------

X_WEIGHTS = {"x_weights": np.ones((6, 1))}
OTHER_VIEW = r"y_weights, of which axis 0 counts the columns, \[2\]; got shapes \[\(6, 1\)\]"
HANDED = {
    "of another name": (LSTSQ, {"coef": np.zeros((6, 2))}, "must find x.*; got coef"),
    "one of two": (CCA, X_WEIGHTS, "x_weights, y_weights.*got x_weights"),
    "for other columns": (LSTSQ, {"x": np.zeros((3, 2))}, r"x of shape \(6, 2\).*; got \(3, 2\)"),
    "lying down": (SVD, {"Vh": np.eye(6)[:, :2]}, r"Vh, of which axis 1 .*, \[6\]; got shapes \[\(6, 2\)\]"),
    "a vector": (LSTSQ, {"x": np.zeros(6)}, r"x of shape \(6, 2\).*got \(6,\)"),
    "of the other view": (CCA, X_WEIGHTS | {"y_weights": np.ones((6, 1))}, OTHER_VIEW),
}


@pytest.mark.parametrize("what", HANDED)
def test_what_is_yielded_is_named_if_the_certificate_cannot_take_it(what):
    problem, arrays, words = HANDED[what]
    behave.iterate = lambda *_: [Iterate(0.0, lambda: arrays, final=True)]
    with pytest.raises(BrokenPlugin, match=words):
        ls.solve(problem, Mine())


def test_a_solver_may_return_a_list_of_its_iterates_and_must_have_one():
    assert ls.solve(SVD, Mine()).converged
    behave.iterate = lambda *_: iter(())
    with pytest.raises(BrokenPlugin, match="Mine must yield at least one iterate"):
        ls.solve(SVD, Mine())


# ---- parts --------------------------------------------------------------------------------------------------


def test_a_part_that_lacks_what_it_is_needed_for_is_refused_before_the_run():
    declare(problem="least-squares")
    with pytest.raises(InvalidOption, match=r"'svd'.* must be the name of a svd solver.*got .*namespace"):
        ls.solve(CCA, "rpcca", svd=SimpleNamespace())
    for given in ("mine", "pcr", Mine()):
        with pytest.raises(InvalidOption, match=r"'lstsq'.* has the method begins.*got .*(mine|pcr|Mine)"):
            ls.solve(CCA, "als", lstsq=given)
    assert ls.solve(CCA, "als", lstsq="cg").converged
