"""The trait "automatic": what "auto" looks at, and what it leaves alone."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

import linspec as ls
from linspec import registry
from linspec.cost import Estimate
from linspec.errors import ConvergenceWarning, InvalidProblem
from linspec.iteration import Iterate
from linspec.solving import Solver

PROBLEMS = {
    "svd": lambda A: ls.SVD(A, 2),
    "least-squares": lambda A: ls.LeastSquares(A, A[:, :2], ridge=1.0),
    "cca": lambda A: ls.CCA(A, A[:, ::-1] + 1, 2, ridge=1.0),
    "discriminant": lambda A: ls.Discriminant(A, ls.targets.lda(np.arange(len(A)) % 3), ridge=1.0),
}


@pytest.fixture
def own(monkeypatch):
    made = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: made)
    return made


def record(target, *traits, problem="svd", name="mine"):
    return ls.SolverSpec(
        name=name,
        problem=problem,
        target=target,
        summary="A solver of this test.",
        reference="Golub 1965",
        traits=traits,
    )


class Eager(Solver):
    """Quicker than all others, by its own account (Golub 1965)."""

    def iterate(self, problem, moments, context, start):
        raise AssertionError("not called here")

    @classmethod
    def estimate(cls, sizes):
        return Estimate(0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Halting(Eager):
    """Stagnates at a share of the answer (Golub 1965)."""

    share: ClassVar[float] = 0.5
    again: ClassVar[bool] = False
    order: ClassVar[int] = 0

    @classmethod
    def estimate(cls, sizes):
        return Estimate(1e-12 * cls.order, 0.0)

    def iterate(self, problem, moments, context, start):
        (S, _), (C, _) = moments.products(np.eye(6), np.eye(1))
        x = np.linalg.solve(S + problem.ridge * np.eye(len(S)), C)
        yield Iterate(1.0, partial(dict, x=self.share * x))
        while self.again:
            moments.gram_product(x)
            yield Iterate(1.0, partial(dict, x=self.share * x))


@dataclass(frozen=True, kw_only=True)
class Nearer(Halting):
    """The same, nearer to the answer (Golub 1965)."""

    share, order = 0.9, 1


@dataclass(frozen=True, kw_only=True)
class Farther(Halting):
    """The same, farther from the answer (Golub 1965)."""

    share, order = 0.1, 2


@dataclass(frozen=True, kw_only=True)
class Costly(Halting):
    """The same, until the budget is used up (Golub 1965)."""

    again = True


def halting(*targets):
    """Register solvers that are chosen before all others."""
    for target in targets:
        traits = ("iterative", "automatic")
        ls.register(record(f"{__name__}:{target}", *traits, problem="least-squares", name=target.lower()))


@pytest.fixture
def stated():
    A = np.random.default_rng(0).standard_normal((30, 6))
    return ls.LeastSquares(A, A @ np.ones((6, 1)), ridge=1.0)


def test_auto_goes_on_where_a_solver_stagnates(own, stated, recwarn):
    halting("Halting")
    found = ls.solve(stated, rng=0)
    assert found.converged
    assert found.solver != "Halting"
    assert "halting was tried first, and ended as STAGNATED" in found.message
    alone = ls.solve(stated, found.solver, rng=0)
    np.testing.assert_array_equal(found.x, alone.x)
    assert found.passes == alone.passes + 2.0  # the rows and the certificate of the first
    assert not recwarn.list


def test_auto_keeps_the_best_of_those_that_miss_the_tolerance(own, stated):
    halting("Halting", "Nearer")
    with pytest.warns(ConvergenceWarning, match="nearer") as told:
        found = ls.solve(stated, rng=0)
    assert (found.solver, found.status) == ("nearer", ls.Status.STAGNATED)
    assert found.passes == 4.0
    assert len(told) == 1


@pytest.mark.parametrize("target, settings", [("Costly", {"max_passes": 9}), ("Halting", {"max_passes": 2})])
def test_auto_does_not_go_on_beyond_a_budget(own, stated, target, settings):
    halting(target)
    with pytest.warns(ConvergenceWarning) if target == "Halting" else nullcontext():
        assert ls.solve(stated, rng=0, **settings).solver == target.lower()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_auto_imports_no_solver_without_the_trait(own, problem, tmp_path, monkeypatch):
    """The module of the one without would stop the interpreter."""
    (tmp_path / "heavy_library.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    ls.register(record("heavy_library:Heavy", "iterative", problem=problem))
    stated = PROBLEMS[problem](np.random.default_rng(0).standard_normal((30, 6)))
    assert ls.solve(stated, rng=0).converged
    assert "heavy_library" not in sys.modules
    assert own.plugins()[-1].status == "loaded"


def test_data_in_place_of_a_problem_are_refused():
    with pytest.raises(InvalidProblem, match=r"select takes a problem such as linspec\.CCA.*got ndarray"):
        ls.select(np.ones((3, 2)))
