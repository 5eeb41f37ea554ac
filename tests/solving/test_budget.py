"""A ceiling on passes or seconds ends a run, and holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.iteration import Iterate
from linspec.solving import Solver


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 4))
    X = shared @ rng.standard_normal((4, 12)) + rng.standard_normal((400, 12))
    Y = shared @ rng.standard_normal((4, 9)) + rng.standard_normal((400, 9))
    return X, Y


@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_budget_is_a_ceiling_and_no_warning(form):
    rng = np.random.default_rng(0)  # blocks are far narrower than the views: a dozen passes do not suffice
    problem = ls.CCA(rng.standard_normal((400, 60)), rng.standard_normal((400, 50)), 3, ridge=1.0)
    with pytest.raises(ls.errors.BudgetTooSmall) as caught:
        ls.solve(problem, "als", form=form, max_passes=0.5, tol=1e-14)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    for budget in range(least, least + 8):
        solution = ls.solve(
            problem, "als", rng=0, form=form, max_passes=budget, tol=1e-14, max_iterations=2000
        )
        assert solution.passes <= budget
        if form == "implicit":
            assert solution.status is ls.Status.BUDGET
            assert not solution.converged


def test_seconds_end_a_run(views, clock):
    solution = ls.solve(
        ls.CCA(*views, 3),
        "naive-gradient",
        max_seconds=1.0,
        max_iterations=10**7,
        callback=lambda _: clock.tick(0.15),
    )
    assert solution.status is ls.Status.BUDGET
    assert 1 < solution.iterations <= 7  # 7 * 0.15 is more than a second
    assert 1.0 < solution.seconds < 1.3


# ---- solvers that ask for nothing ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Careless(Solver):
    """Landweber's iteration with several products a step, which says nothing of its passes."""

    products: int = ls.option(3, "products a step", at_least=1)
    first: int = ls.option(1, "products before the first iterate", at_least=1)

    def iterate(self, problem, moments, context, start):
        for _ in range(self.first):
            AtB = moments.products(None, np.eye(1), onto=(0,))[1][0]
        x, gradient = 0 * AtB, AtB
        while True:
            residual = float(np.linalg.norm(gradient) / np.linalg.norm(AtB))
            yield Iterate(residual, partial(dict, x=x))
            for _ in range(self.products - 1):
                moments.gram_product(x)
            x = x + gradient / 2000
            gradient = AtB - moments.gram_product(x)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((300, 8)) * np.geomspace(1, 0.1, 8)
    return ls.LeastSquares(A, A @ np.ones(8))


def test_the_budget_holds_for_a_solver_that_asks_for_nothing(regression):
    """Each step takes three passes: a run that has none left for its step or the certificate keeps its last iterate."""
    free = ls.solve(regression, Careless(), max_passes=40)
    residuals = {int(row[0]): row[-1] for row in np.asarray(free.history.tolist())}
    for budget in range(4, 20):
        found = ls.solve(regression, Careless(), max_passes=budget)
        assert found.status is ls.Status.BUDGET
        assert found.passes <= budget
        assert found.residual == pytest.approx(residuals[len(found.history) - 1], rel=1e-9)


def test_without_an_iterate_the_error_says_so(regression):
    with pytest.raises(ls.errors.BudgetTooSmall, match="needs at least 5 passes") as caught:
        ls.solve(regression, Careless(first=7), max_passes=4)
    assert "got max_passes=4. Raise it." in str(caught.value)


@pytest.mark.parametrize("access", ["rows", "products", "sparse", "minibatches"])
def test_no_way_to_read_passes_the_budget_by(access):
    """Sweeps, products of operators, sparse matrices and single rows are all counted before they are made."""
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((200, 6)), rng.standard_normal(200)

    @dataclass(frozen=True, kw_only=True)
    class Reads(Solver):
        def iterate(self, problem, moments, context, start):
            x = np.zeros((6, 1))
            while True:
                yield Iterate(1.0, partial(dict, x=x))
                for first in range(0, 200, 25):
                    if access == "minibatches":
                        rows = moments.minibatch(np.arange(first, first + 25))
                        rows.adjoint_images(rows.images(x))
                    else:
                        moments.operator().matmat(x)
                x = x + 1e-3

    data = {"products": scipy.sparse.linalg.aslinearoperator(A), "sparse": scipy.sparse.csr_array(A)}
    for budget in (3, 4, 6.5):
        found = ls.solve(ls.LeastSquares(data.get(access, A), b), Reads(), max_passes=budget)
        assert found.status is ls.Status.BUDGET
        assert budget - 2 < found.passes <= budget
