"""max_seconds: it counts the set-up, it is looked at within a pass, and data without end end by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import Hang, holds, refused
from hostile.tapped import SOLVERS, Tapped, options, problem

import linspec as ls

pytestmark = [
    pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning"),
]

TOOK = 0.01
"""Seconds that a slice or a product takes, by the clock of the run."""


def endless(clock: Any, width: int, rows: int = 50) -> Iterator[Any]:
    """Slices without end; who still reads long after the limit would read for ever."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        clock.tick(TOOK)
        yield rng.standard_normal((rows, width))
    raise Hang("still reading")


STREAMED = {
    "svd/auto": lambda c: (ls.SVD(endless(c, 6), 2), "auto"),
    "svd/gram": lambda c: (ls.SVD(endless(c, 6), 2), "gram"),
    "svd/single-sweep": lambda c: (ls.SVD(endless(c, 6), 2), "lazy-spca"),
    "svd/lanczos": lambda c: (ls.SVD(lambda: endless(c, 6), 2), "lanczos"),
    "svd/centred": lambda c: (ls.SVD(endless(c, 6), 2, center=True), "gram"),
    "svd/left": lambda c: (ls.SVD(lambda: endless(c, 6), 2, left=True), "gram"),
    "least-squares/cg": lambda c: (ls.LeastSquares(lambda: endless(c, 6), lambda: endless(c, 1)), "cg"),
    "least-squares/lsqr": lambda c: (ls.LeastSquares(lambda: endless(c, 6), np.ones((99, 1))), "lsqr"),
    "cca/gram": lambda c: (ls.CCA(lambda: endless(c, 6), lambda: endless(c, 4), 2), "gram"),
}


@pytest.mark.parametrize("name", STREAMED)
def test_an_iterator_without_end_ends_by_the_time(name: str, clock: Any):
    stated, solver = STREAMED[name](clock)
    with refused("max_seconds"):
        ls.solve(stated, solver, max_seconds=15 * TOOK, rng=0)


@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
def test_slow_products_end_by_the_time(kind: str, solver: str, clock: Any):
    """However far it has come: set-up, parts and iteration are left after a product, and the answer says so."""
    stated = problem(kind, lambda: clock.tick(TOOK))
    limit, start = 6 * TOOK, clock.now
    try:
        s = ls.solve(stated, solver, rng=0, max_seconds=limit, **options(kind, solver))
        ending = s.status.name
        holds(s.converged or s.status is not ls.Status.CONVERGED, "converged without meeting the tolerance")
        holds(not np.isnan(s.residual), f"{solver}: an answer without a residual")
    except ls.errors.BudgetTooSmall as error:
        ending = "refused"
        holds("max_seconds" in str(error), str(error))
    spent = clock.now - start
    if spent > 2 * (limit + 2 * TOOK):  # the certificate is given as long again; each ends after a product
        raise Hang(f"{solver} ends as {ending} after {spent:.2f} s, with max_seconds={limit:g}")


def slowly(clock: Any, A: Any, seconds: float, pieces: int = 20) -> Any:
    """The rows of an array as slices that take `seconds` altogether."""

    def slices() -> Iterator[Any]:
        for part in np.array_split(A, pieces):
            clock.tick(seconds / pieces)
            yield part

    return slices


def test_the_first_sweep_is_left_in_the_midst_of_it(clock: Any):
    A = np.random.default_rng(0).standard_normal((200, 8))
    start = clock.now
    with refused("max_seconds", "pass 1"):
        ls.solve(ls.SVD(slowly(clock, A, 2.0), 2), "gram", max_seconds=0.25)
    holds(clock.now - start < 0.45, f"{clock.now - start:.2f} of a pass of two seconds, with 0.25 allowed")


def test_a_later_sweep_is_left_with_the_last_iterate(clock: Any):
    A = np.random.default_rng(0).standard_normal((200, 30))
    sweep = 0.1
    start = clock.now
    s = ls.solve(
        ls.SVD(slowly(clock, A, sweep), 2),
        "lanczos",
        form="implicit",
        tol=1e-14,
        max_seconds=8.5 * sweep,
        rng=0,
    )
    spent = clock.now - start
    assert s.status is ls.Status.BUDGET
    gap = np.linalg.norm(A.T @ (A @ s.Vh.T) - s.Vh.T * s.S**2, axis=0).max() / s.S[0] ** 2
    assert s.residual == pytest.approx(gap, rel=1e-3)
    holds(spent < 17.1 * sweep, f"{spent:.2f} s for a limit of {8.5 * sweep:.2f} s and a certificate")


def test_the_set_up_counts(clock: Any):
    """The time that is taken before the first iteration is taken from the iterations."""
    A = np.random.default_rng(0).standard_normal((100, 20))
    start = clock.now
    slow = Tapped(A, lambda: clock.tick(0.05))
    s = ls.solve(ls.LeastSquares(slow, np.ones((100, 1))), "lsqr", tol=1e-15, max_seconds=0.42)
    spent = clock.now - start
    assert s.status is ls.Status.BUDGET
    holds(0.42 < spent < 0.42 + 0.42 + 0.1, f"{spent:.2f} s of 0.42 and as long again for the certificate")
    holds(abs(s.seconds - spent) < 1e-9, f"{s.seconds:.2f} s of {spent:.2f} s are accounted for")


@pytest.mark.parametrize("form", ["stream", "array", "moments"])
def test_data_of_a_run_that_was_ended_can_be_used_again(form: str, clock: Any):
    """The next run does not use half of a sweep's results as if they were whole."""
    A = np.random.default_rng(0).standard_normal((4000, 30))
    slow = [True]

    def slices() -> Iterator[Any]:
        for part in np.array_split(A, 8):
            clock.tick(0.05 * slow[0])
            yield part

    def tap() -> None:
        clock.tick(0.05 * slow[0])

    made = {
        "stream": lambda: ls.SVD(slices, 3, center=True),
        "array": lambda: ls.SVD(Tapped(A, tap), 3, center=True),
        "moments": lambda: ls.SVD(ls.Moments(slices, center=True), 3, center=True),
    }[form]
    stated, fresh = made(), made()
    with refused("max_seconds"):
        ls.solve(stated, "gram", max_seconds=0.02)
    slow[0] = False
    again, first = ls.solve(stated, "gram"), ls.solve(fresh, "gram")
    np.testing.assert_array_equal(again.Vh, first.Vh)
    np.testing.assert_array_equal(again.S, first.S)
    assert again.passes == first.passes
