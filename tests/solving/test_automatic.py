"""What "auto" chooses: solvers with the trait "automatic", another where one stagnates, and the recorded choices."""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse
from choices import FILE, MEMORY, choices

import linspec as ls
from linspec import registry
from linspec.cost import Estimate
from linspec.errors import ConvergenceWarning, NoSuitableSolver
from linspec.iteration import Iterate
from linspec.process import machine
from linspec.solving import Solver


@pytest.fixture
def own(monkeypatch):
    made = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: made)
    return made


@dataclass(frozen=True, kw_only=True)
class Halting(Solver):
    """Quicker than all others, by its own account, and stagnates at a share of the answer (Golub 1965)."""

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
class Costly(Halting):
    """The same, until the budget is used up (Golub 1965)."""

    again = True


def register(target, *traits, module=__name__):
    """Register a solver that is chosen before all others if it has the trait."""
    facts = {"summary": "A solver of this test.", "reference": "Golub 1965"}
    target = f"{module}:{target}"
    name = target.partition(":")[2].lower()
    ls.register(ls.SolverSpec(name=name, problem="least-squares", target=target, traits=traits, **facts))


@pytest.fixture
def stated():
    A = np.random.default_rng(0).standard_normal((30, 6))
    return ls.LeastSquares(A, A @ np.ones((6, 1)), ridge=1.0)


def test_auto_goes_on_where_a_solver_stagnates(own, stated, recwarn):
    register("Halting", "iterative", "automatic")
    found = ls.solve(stated, rng=0)
    assert found.converged
    assert found.solver != "halting"
    assert "halting was tried first, and ended as STAGNATED" in found.message
    alone = ls.solve(stated, found.solver, rng=0)
    np.testing.assert_array_equal(found.x, alone.x)
    assert found.passes == alone.passes + 2.0  # the rows and the certificate of the first
    assert not recwarn.list


def test_auto_keeps_the_best_of_those_that_miss_the_tolerance(own, stated):
    for target in ("Halting", "Nearer"):
        register(target, "iterative", "automatic")
    with pytest.warns(ConvergenceWarning, match="nearer") as told:
        found = ls.solve(stated, rng=0)
    assert (found.solver, found.status, found.passes) == ("nearer", ls.Status.STAGNATED, 4.0)
    assert len(told) == 1


@pytest.mark.parametrize("target, budget", [("Costly", 9), ("Halting", 2)])
def test_auto_does_not_go_on_beyond_a_budget(own, stated, target, budget):
    register(target, "iterative", "automatic")
    with pytest.warns(ConvergenceWarning) if target == "Halting" else nullcontext():
        assert ls.solve(stated, rng=0, max_passes=budget).solver == target.lower()


def test_auto_imports_no_solver_without_the_trait(own, stated, tmp_path, monkeypatch):
    """The module of the one without would stop the interpreter."""
    (tmp_path / "heavy_library.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    register("Heavy", "iterative", module="heavy_library")
    assert ls.solve(stated, rng=0).converged
    assert "heavy_library" not in sys.modules
    assert own.plugins()[-1].status == "loaded"


@pytest.mark.parametrize("attainable", [True, False])
def test_auto_warns_of_the_answer_that_it_returns_and_not_of_its_attempts(attainable):
    """Rows of condition 1e4 give more digits than Gram matrices of condition 1e8, and nothing gives sixty."""
    given_up = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        problem = ls.CCA(*(rng.standard_normal((200, 8)) * np.geomspace(1, 1e-4, 8) @ Q for _ in "XY"), 2)
        tol = ls.solve(problem, "gram").residual / 10 if attainable else 1e-60
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ls.solve(problem, tol=tol)
        assert "gram was tried first" in found.message
        assert (found.residual <= tol) == attainable
        warned = found.status is ls.Status.INACCURATE
        assert [str(each.message).partition(":")[0] for each in caught] == ["direct"] * warned
        given_up += warned
    assert bool(given_up) != attainable


def test_what_cannot_fit_is_refused_by_name_too(monkeypatch):
    X = scipy.sparse.random(1000, 800, 0.01, format="csr", random_state=0)
    monkeypatch.setattr(machine, "available_memory", lambda: 10**7)
    with pytest.raises(NoSuitableSolver, match=r"gram .* would take .* MB .*10 MB are available.*iterative"):
        ls.solve(ls.CCA(X, X, 2, ridge=1.0), "gram")


def test_choices_are_those_that_are_recorded(monkeypatch):
    """A table that reviewers read: it does not say that a choice is right, only that it has changed."""
    monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
    recorded, found = json.loads(FILE.read_text(encoding="utf-8")), choices()
    changed = {
        label: (recorded.get(label), found.get(label))
        for label in {*recorded, *found}
        if recorded.get(label) != found.get(label)
    }
    assert not changed, (
        f"what auto chooses has changed (before, now): {changed}. If that is meant, run python tests/choices.py: "
        "changes need a changelog line."
    )
