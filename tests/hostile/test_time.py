"""max_seconds: it counts the set-up, it is looked at within a sweep, and data without end end by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import Hang, Silent, holds, refused
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
    "svd/single-sweep": lambda c: (ls.SVD(endless(c, 6), 2), "spca"),
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


def test_slices_without_rows_and_without_end(clock: Any):
    def slices() -> Iterator[Any]:
        yield np.ones((3, 4))
        for _ in range(200):
            clock.tick(TOOK)
            yield np.ones((0, 4))
        raise Hang("still reading")

    with refused("max_seconds"):
        ls.solve(ls.SVD(slices(), 2), "gram", max_seconds=10 * TOOK)


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
    holds(clock.now - start < 0.45, f"{clock.now - start:.2f} of a sweep of two seconds, with 0.25 allowed")


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


def test_the_last_variables_are_those_that_the_iteration_told_of(clock: Any):
    """A solver that binds its variables anew in the midst of a step is taken at its last word."""

    class Halving(ls.Solver):
        def solve(self, problem: Any, run: Any) -> Any:
            x, step = np.full((5, 1), 8.0), 0

            def current() -> Any:
                return {"x": x}

            while run.proceed(residual=1.0, current=current):
                x = x / 2 if step < 2 else np.full((5, 1), np.nan)
                step += 1
                if step == 3:
                    clock.tick(0.3)
                problem.A.matmat(x)
            return run.finish(x=x)

    A = np.random.default_rng(0).standard_normal((30, 5))
    s = ls.solve(ls.LeastSquares(A, np.ones((30, 1))), Halving(), max_seconds=0.2)
    assert s.status is ls.Status.BUDGET
    np.testing.assert_array_equal(s.x, np.full((5, 1), 2.0))


def test_callbacks_may_multiply_when_the_time_is_over(clock: Any):
    A = ls.as_operator(np.random.default_rng(0).standard_normal((50, 12)))
    seen = []

    def callback(progress: Any) -> None:
        if progress.iteration == 2:
            clock.tick(0.3)
            seen.append(A.matmat(progress.current()["Vh"].T).shape)

    given = {"tol": 1e-15, "max_seconds": 0.2, "callback": callback, "form": "implicit", "rng": 0}
    assert ls.solve(ls.SVD(A, 2), "block-krylov", block=2, **given).status is ls.Status.BUDGET
    assert seen == [(50, 2)]


def test_an_iteration_that_has_nothing_yet_is_no_answer(clock: Any):
    """Time that is over at the first look at the run leaves no triplets, which are not all that there are."""
    with refused("max_seconds"):
        s = ls.solve(
            ls.SVD(np.eye(9), 2), "block-krylov", max_seconds=0.05, callback=lambda _: clock.tick(0.1)
        )
        holds(len(s.S) == 2, f"{len(s.S)} singular values, {s.status.name}")


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


def test_each_thread_has_its_own_time():
    """One run that is out of time takes none from another on the same data. The clock is that of the machine."""
    A = np.random.default_rng(0).standard_normal((20000, 40))
    stated, found = ls.SVD(A, 3), {}

    def solve(limit: float | None) -> None:
        try:
            found[limit] = ls.solve(stated, "lanczos", form="implicit", max_seconds=limit, rng=0).status.name
        except ls.errors.BudgetTooSmall:
            found[limit] = "refused"

    threads = [threading.Thread(target=solve, args=(limit,)) for limit in (1e-9, None, 1e6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1e-9: "refused", None: "CONVERGED", 1e6: "CONVERGED"}


@pytest.mark.slow
def test_good_runs_have_the_same_bits_with_a_limit():
    for kind, solver in SOLVERS:
        plain, limited = (
            ls.solve(problem(kind), solver, rng=0, max_seconds=limit, **options(kind, solver))
            for limit in (None, 1e6)
        )
        if (plain.residual, plain.passes) != (limited.residual, limited.passes):
            raise Silent(f"{solver}: a limit of time changes the answer")
