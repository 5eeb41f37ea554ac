"""A ceiling on passes or seconds ends a run, and holds."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.solving.budget import Budget


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


def test_what_is_kept_back_is_not_afforded():
    budget = Budget(max_passes=10.0)
    assert budget.affords(4.0, 5.0, 1.0)
    with budget.reserving(2.0):
        assert not budget.affords(4.0, 5.0, 1.0)
        assert budget.left(4.0, 1.0) == 3.0
    assert budget.left(4.0, 1.0) == 5.0


def test_the_ending_has_as_much_time_again(clock):
    budget = Budget(max_seconds=3.0)
    clock.tick(4.0)
    assert budget.timed_out
    assert budget.overdue
    budget.close()
    clock.tick(2.0)
    assert not budget.overdue
    budget.close()  # the second time gives none
    clock.tick(2.0)
    assert budget.overdue
