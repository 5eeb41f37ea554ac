"""A ceiling on passes or seconds ends a run, and holds, however the rows are read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from planted import planted_case
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import BudgetTooSmall, LinspecError
from linspec.iteration import Iterate
from linspec.solving import Solver

rng = np.random.default_rng(1)
A = rng.standard_normal((300, 8)) * np.geomspace(1, 0.1, 8)


def test_the_budget_that_the_error_names_is_enough():
    problem = ls.CCA(rng.standard_normal((400, 60)), rng.standard_normal((400, 50)), 3, ridge=1.0)
    options = {"form": "implicit", "tol": 1e-14, "rng": 0}
    with pytest.raises(BudgetTooSmall) as caught:
        ls.solve(problem, "als", max_passes=0.5, **options)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    found = ls.solve(problem, "als", max_passes=least, **options)
    assert found.status is ls.Status.BUDGET
    assert found.passes <= least


def test_seconds_end_a_run(clock):
    tick = lambda _: clock.tick(0.15)  # noqa: E731 (time passes with each iterate)
    found = ls.solve(ls.CCA(A[:, :4], A[:, 3:], 3), "naive-gradient", max_seconds=1.0, callback=tick)
    assert found.status is ls.Status.BUDGET
    assert 1 < found.iterations <= 7  # 7 * 0.15 is more than a second
    assert 1.0 < found.seconds < 1.3


@pytest.mark.parametrize("access", ["rows", "products", "sparse", "minibatches"])
def test_no_way_to_read_passes_the_budget_by(access):
    """Passes, products of operators, sparse matrices and single rows are all counted before they are made."""

    @dataclass(frozen=True, kw_only=True)
    class Reads(Solver):
        def iterate(self, problem, moments, context, start):
            x = np.zeros((8, 1))
            while True:
                yield Iterate(1.0, partial(dict, x=x))
                for first in range(0, 200, 25):
                    if access == "minibatches":
                        rows = moments.minibatch(np.arange(first, first + 25))
                        rows.adjoint_images(rows.images(x))
                    else:
                        moments.operator().matmat(x)
                x = x + 1e-3

    rows = A[:200]
    data = {"products": aslinearoperator(rows), "sparse": scipy.sparse.csr_array(rows)}
    for budget in (3, 4, 6.5):
        found = ls.solve(ls.LeastSquares(data.get(access, rows), rows[:, 0]), Reads(), max_passes=budget)
        assert found.status is ls.Status.BUDGET
        assert budget - 2 < found.passes <= budget


OTHERS = ("svd", "cca", "least-squares", "multiset-cca", "discriminant", "pls", "reduced-rank-regression")


@pytest.mark.parametrize(
    ("problem", "solver"), [(problem, name) for problem in OTHERS for name in ls.solvers(problem)]
)
@pytest.mark.filterwarnings("ignore")
def test_however_small_it_is_there_is_an_answer_or_one_error(problem, solver):
    case = planted_case(problem)
    kept = {name: X for name, X in case.arrays.items() if name in "BH"}
    for wrap in (np.asarray, aslinearoperator, lambda X: lambda: iter([X[:50], X[50:]])):
        data = {name: wrap(X) for name, X in case.arrays.items()} | kept
        for budget in (1, 3):
            with suppress(LinspecError):
                assert ls.solve(case.state(data), solver, rng=0, max_passes=budget).passes <= budget
