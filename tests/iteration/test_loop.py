"""How a run ends: the last iterate judged by the certificate, iterations sent back, and the order of what is said."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import Status, option
from linspec.arrays import to_host
from linspec.errors import BudgetTooSmall, ConvergenceWarning, OutOfMemory
from linspec.iteration import Certificate, Iterate
from linspec.solving import Solver
from linspec.solving.verdict import WARNED, status_and_message
from linspec.testing.checks import Slices

TOL = 1e-8
rng = np.random.default_rng(0)
A = np.linalg.qr(rng.standard_normal((60, 6)))[0] * np.linspace(0.5, 1, 6)
A = A @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
b = rng.standard_normal((60, 1))
PROBLEM = ls.LeastSquares(A, b)
FIRST = np.full((6, 1), 1e-9)

pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


@dataclass(frozen=True, kw_only=True)
class Descent(Solver):
    """Gradient descent that may take its residual for smaller than it is, stop, or find no memory."""

    tol: float | None = option(TOL, "residual to stop at", above=0)
    max_iterations: int = option(1000, "iterations at most", at_least=1)
    share: float = option(1.0, "of the residual that it believes in", above=0)
    steps: int = option(10**9, "steps after which the generator ends", at_least=0)
    fails: int = option(10**9, "the step that finds no memory", at_least=0)
    products: int = option(1, "passes of each step", at_least=1)

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Iterator[Iterate]:
        if self.fails == 0:
            raise MemoryError("too much")
        AtB = moments.products(None, np.eye(1), onto=(0,))[1][0]
        x, size = np.full_like(AtB, 1e-9), np.linalg.norm(AtB)
        r = AtB - moments.gram_product(x)
        for step in range(self.steps + 1):
            yield Iterate(self.share * float(np.linalg.norm(r) / size), partial(dict, x=x))
            if step + 1 == self.fails:
                raise MemoryError
            x = x + r
            for _ in range(self.products):
                r = AtB - moments.gram_product(x)


@dataclass(frozen=True, kw_only=True)
class Doubtful(Descent):
    """The same, which doubts what it has found."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Iterator[Iterate]:
        for each in super().iterate(problem, moments, context, start):
            yield each._replace(doubt="nothing has shown it.")


def residual_of(solution: Any) -> float:
    return float(np.linalg.norm(A.T @ (b - A @ to_host(solution.x))) / np.linalg.norm(A.T @ b))


def out_of_memory(_: Any) -> None:
    raise MemoryError


ENDS: dict[str, tuple[dict[str, Any], Any, Status]] = {
    "a limit of iterations": ({"max_iterations": 3}, None, Status.ITERATION_LIMIT),
    "no more iterates": ({"steps": 3}, None, Status.STAGNATED),
    "no memory for a step": ({"fails": 4}, None, Status.OUT_OF_MEMORY),
    "no memory in a callback": ({}, out_of_memory, Status.OUT_OF_MEMORY),
    "a callback": ({}, lambda _: True, Status.STOPPED),
    "Ctrl-C": ({}, lambda _: signal.raise_signal(signal.SIGINT), Status.INTERRUPTED),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_answer_is_the_last_iterate_with_its_residual(how: str, ctrl_c: None) -> None:
    options, act, status = ENDS[how]

    def callback(progress: Any) -> Any:
        return act(progress) if act and progress.iteration == 3 else None

    with pytest.warns(ConvergenceWarning) if status in WARNED else nullcontext():
        found = ls.solve(PROBLEM, Descent(**options), callback=callback)
    assert (found.status, found.converged, found.iterations) == (status, False, 3)
    x = FIRST
    for _ in range(3):
        x = x + A.T @ (b - A @ x)
    np.testing.assert_allclose(found.x, x, rtol=1e-12)
    assert found.residual == pytest.approx(residual_of(found), rel=1e-9)
    assert list(found.history["iteration"]) == [0, 1, 2, 3]


def test_a_lack_of_memory_before_the_first_iterate_is_an_error() -> None:
    with pytest.raises(OutOfMemory, match=r"ran out of memory in pass 1 .*: too much"):
        ls.solve(PROBLEM, Descent(fails=0))


@pytest.mark.parametrize("share", [1e-1, 1e-3, 1e-6])
def test_a_solver_that_flatters_itself_is_sent_back(share: float) -> None:
    """The tolerance falls in proportion: hardly an iteration more than by the residual itself."""
    found, honest = (ls.solve(PROBLEM, Descent(share=each)) for each in (share, 1.0))
    assert (found.status, found.converged) == (Status.CONVERGED, True)
    assert residual_of(found) <= TOL
    assert found.iterations <= honest.iterations + 3


@pytest.mark.parametrize("products", [1, 3])
def test_a_run_that_has_no_pass_left_for_its_step_or_the_certificate_keeps_its_last_iterate(
    products: int,
) -> None:
    """Though the solver says nothing of its passes."""
    for budget in (4, 6.5, *range(7, 15)):
        slices = Slices(A)
        found = ls.solve(ls.LeastSquares(slices, b), Descent(products=products), max_passes=budget)
        assert slices.passes == pytest.approx(found.passes)
        assert found.passes <= budget
        assert (found.status, found.converged) == (Status.BUDGET, False)
        assert found.residual == pytest.approx(residual_of(found), rel=1e-6)


def test_doubt_keeps_a_small_residual_from_ending_the_run() -> None:
    found = ls.solve(PROBLEM, Doubtful(steps=200))
    assert (found.status, found.converged) == (Status.STAGNATED, False)
    assert found.residual <= TOL
    assert "nothing has shown it." in found.message


def test_the_budget_that_the_error_names_is_enough():
    problem = ls.CCA(rng.standard_normal((400, 60)), rng.standard_normal((400, 50)), 3, ridge=1.0)
    options = {"form": "implicit", "tol": 1e-14, "rng": 0}
    with pytest.raises(BudgetTooSmall) as caught:
        ls.solve(problem, "als", max_passes=0.5, **options)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    found = ls.solve(problem, "als", max_passes=least, **options)
    assert found.status is ls.Status.BUDGET
    assert found.passes <= least


@pytest.mark.parametrize("access", ["rows", "products", "sparse", "minibatches"])
def test_no_way_to_read_passes_the_budget_by(access):
    """Passes, products of operators, sparse matrices and single rows are all counted before they are made."""

    @dataclass(frozen=True, kw_only=True)
    class Reads(Solver):
        def iterate(self, problem, moments, context, start):
            x = np.zeros((6, 1))
            while True:
                yield Iterate(1.0, partial(dict, x=x))
                for first in range(0, 60, 15):
                    if access == "minibatches":
                        rows = moments.minibatch(np.arange(first, first + 15))
                        rows.adjoint_images(rows.images(x))
                    else:
                        moments.operator().matmat(x)
                x = x + 1e-3

    data = {"products": aslinearoperator(A), "sparse": scipy.sparse.csr_array(A)}
    for budget in (3, 4, 6.5):
        found = ls.solve(ls.LeastSquares(data.get(access, A), b), Reads(), max_passes=budget)
        assert found.status is ls.Status.BUDGET
        assert budget - 2 < found.passes <= budget


def ended(residual=1e-12, facts=(), lost=False, **how):
    told = {"tol": 1e-8, "once": False, "ending": Status.CONVERGED, "notes": ()} | how
    certificate = Certificate(residual, facts, {"Vh": np.ones((1, 3))}, lost=lost)
    return status_and_message(ls.SVD(np.eye(3), 1), certificate, **told)


FAR, ROUGH = {"residual": 1e-3}, {"notes": [(Status.APPROXIMATE, "a")]}
CLUSTERED, INCONSISTENT = (Status.CLUSTERED, "a"), {"facts": ((Status.INCONSISTENT, "a"),), "lost": True}


@pytest.mark.parametrize(
    ("how", "status", "converged"),
    [
        ({"ending": None}, Status.CONVERGED, True),
        ({"ending": Status.BUDGET}, Status.CONVERGED, True),  # it came in time after all
        (FAR, Status.INACCURATE, False),
        (FAR | {"ending": Status.BUDGET}, Status.BUDGET, False),
        (FAR | ROUGH, Status.APPROXIMATE, False),
        (FAR | ROUGH | {"ending": Status.BUDGET}, Status.BUDGET, False),
        (ROUGH, Status.CONVERGED, True),
        ({"facts": (CLUSTERED,)}, Status.CLUSTERED, True),
        ({"facts": (CLUSTERED, (Status.INCOMPLETE, "b"))}, Status.INCOMPLETE, True),
        ({"lost": True}, Status.INACCURATE, False),
        (INCONSISTENT, Status.INCONSISTENT, False),
        (INCONSISTENT | {"ending": Status.INTERRUPTED}, Status.INTERRUPTED, False),
        ({"ending": Status.INTERRUPTED}, Status.INTERRUPTED, True),
        ({"ending": Status.BUDGET, "notes": [(None, "a")]}, Status.BUDGET, True),
    ],
)
def test_what_decides_on_the_status(how, status, converged):
    assert ended(**how)[:2] == (status, converged)


def test_a_message_gives_the_advice_once():
    assert ended()[2] == f"{Status.CONVERGED.value} (residual 1e-12, tolerance 1e-08)"
    found = ended(notes=((Status.CLUSTERED, "Some are close."),))[2]
    assert found == "Some are close. (residual 1e-12, tolerance 1e-08)"
    assert "Take more columns" not in ended(notes=[(Status.APPROXIMATE, "Take more columns.")])[2]
    assert "the data can be read once" in ended(np.nan, once=True)[2]


SCALED_VIEWS = [
    np.random.default_rng(i).standard_normal((80, 4)) * np.geomspace(1, 1e4, 4)
    + np.random.default_rng(9).standard_normal((80, 1))
    for i in range(3)
]


@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        (ls.SumcorCCA(SCALED_VIEWS, 1, scale=True, ridge=1e-3), "horst"),
        (ls.LeastSquares(*SCALED_VIEWS[:2], scale=True, ridge=1.0), "cg"),
    ],
    ids=lambda given: getattr(given, "name", given),
)
def test_callbacks_get_weights_for_the_columns_of_the_data(problem, solver):
    last = []
    answer = ls.solve(problem, solver, rng=0, callback=lambda p: last.append(p.current()))
    for name in ("weights", "x_weights", "y_weights", "x"):
        if name not in last[-1]:
            continue
        found, given = getattr(answer, name), last[-1][name]
        for W, V in zip(found, given, strict=True) if isinstance(given, tuple) else [(found, given)]:
            ratios = np.abs(V / W)
            assert np.allclose(ratios, ratios[0], rtol=1e-2)
