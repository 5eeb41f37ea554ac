"""max_seconds: it counts the set-up, it is looked at within a sweep, and data without end end by it."""

from __future__ import annotations

import threading
import time
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

PATIENCE = 4.0
"""Seconds after which what should end within some tenths of one hangs."""


def endless(width: int, rows: int = 50) -> Iterator[Any]:
    """Slices without end; who is still reading after `PATIENCE` hangs."""
    start, rng = time.perf_counter(), np.random.default_rng(0)
    while time.perf_counter() < start + PATIENCE:
        yield rng.standard_normal((rows, width))
    raise Hang(f"still reading after {PATIENCE:g} s")


STREAMED = {
    "svd/auto": lambda: (ls.SVD(endless(6), 2), "auto", {}),
    "svd/gram": lambda: (ls.SVD(endless(6), 2), "gram", {}),
    "svd/single-sweep": lambda: (ls.SVD(endless(6), 2), "spca", {}),
    "svd/lanczos": lambda: (ls.SVD(lambda: endless(6), 2), "lanczos", {}),
    "svd/centred": lambda: (ls.SVD(endless(6), 2, center=True), "gram", {}),
    "svd/left": lambda: (ls.SVD(lambda: endless(6), 2, left=True), "gram", {}),
    "least-squares/cg": lambda: (ls.LeastSquares(lambda: endless(6), lambda: endless(1)), "cg", {}),
    "least-squares/lsqr": lambda: (ls.LeastSquares(lambda: endless(6), np.ones((99, 1))), "lsqr", {}),
    "cca/gram": lambda: (ls.CCA(lambda: endless(6), lambda: endless(4), 2), "gram", {}),
}


@pytest.mark.parametrize("name", STREAMED)
def test_an_iterator_without_end_ends_by_the_time(name: str):
    stated, solver, given = STREAMED[name]()
    with refused("max_seconds"):
        ls.solve(stated, solver, max_seconds=0.15, rng=0, **given)


def test_slices_without_rows_and_without_end():
    def slices() -> Iterator[Any]:
        yield np.ones((3, 4))
        start = time.perf_counter()
        while time.perf_counter() < start + PATIENCE:
            yield np.ones((0, 4))
        raise Hang(f"still reading after {PATIENCE:g} s")

    with refused("max_seconds"):
        ls.solve(ls.SVD(slices(), 2), "gram", max_seconds=0.1)


@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
def test_slow_products_end_by_the_time(kind: str, solver: str):
    """However far it has come: set-up, parts and iteration are left after a product, and the answer says so."""
    took = 0.004

    def tap() -> None:
        time.sleep(took)

    stated = problem(kind, tap)
    limit, start = 6 * took, time.perf_counter()
    try:
        s = ls.solve(stated, solver, rng=0, max_seconds=limit, **options(kind, solver))
        ending = s.status.name
        holds(s.converged or s.status is not ls.Status.CONVERGED, "converged without meeting the tolerance")
        holds(not np.isnan(s.residual), f"{solver}: an answer without a residual")
    except ls.errors.BudgetTooSmall as error:
        ending = "refused"
        holds("max_seconds" in str(error), str(error))
    spent = time.perf_counter() - start
    if spent > 2 * limit + 0.75:  # the certificate is given as long again
        raise Hang(f"{solver} ends as {ending} after {spent:.2f} s, with max_seconds={limit:g}")


def slowly(A: Any, seconds: float, pieces: int = 20) -> Any:
    """The rows of an array as slices that take `seconds` altogether."""

    def slices() -> Iterator[Any]:
        for part in np.array_split(A, pieces):
            time.sleep(seconds / pieces)
            yield part

    return slices


def test_the_first_sweep_is_left_in_the_midst_of_it():
    A = np.random.default_rng(0).standard_normal((200, 8))
    start = time.perf_counter()
    with refused("max_seconds", "pass 1"):
        ls.solve(ls.SVD(slowly(A, 2.0), 2), "gram", max_seconds=0.2)
    holds(time.perf_counter() - start < 1.0, "a sweep of two seconds was made to its end")


def test_a_later_sweep_is_left_with_the_last_iterate():
    A = np.random.default_rng(0).standard_normal((200, 30))
    sweep = 0.1
    start = time.perf_counter()
    s = ls.solve(
        ls.SVD(slowly(A, sweep), 2), "lanczos", form="implicit", tol=1e-14, max_seconds=8.5 * sweep, rng=0
    )
    spent = time.perf_counter() - start
    assert s.status is ls.Status.BUDGET
    gap = np.linalg.norm(A.T @ (A @ s.Vh.T) - s.Vh.T * s.S**2, axis=0).max() / s.S[0] ** 2
    assert s.residual == pytest.approx(gap, rel=1e-3)
    holds(spent < 17 * sweep + 0.5, f"{spent:.2f} s for a limit of {8.5 * sweep:.2f} s and a certificate")


def test_the_set_up_counts():
    """The time that is taken before the first iteration is taken from the iterations."""

    def slow_look() -> None:
        time.sleep(0.05)

    A = np.random.default_rng(0).standard_normal((100, 20))
    start = time.perf_counter()
    s = ls.solve(ls.LeastSquares(Tapped(A, slow_look), np.ones((100, 1))), "lsqr", tol=1e-15, max_seconds=0.4)
    spent = time.perf_counter() - start
    assert s.status is ls.Status.BUDGET
    holds(s.seconds <= spent < 1.5, f"{spent:.2f} s, {s.seconds:.2f} by its own account")
    holds(s.seconds > 0.8 * spent, f"{s.seconds:.2f} s of {spent:.2f} s are accounted for")


def test_the_last_variables_are_those_that_the_iteration_told_of():
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
                    time.sleep(0.3)
                problem.A.matmat(x)
            return run.finish(x=x)

    A = np.random.default_rng(0).standard_normal((30, 5))
    s = ls.solve(ls.LeastSquares(A, np.ones((30, 1))), Halving(), max_seconds=0.2)
    assert s.status is ls.Status.BUDGET
    np.testing.assert_array_equal(s.x, np.full((5, 1), 2.0))


def test_callbacks_may_multiply_when_the_time_is_over():
    A = ls.as_operator(np.random.default_rng(0).standard_normal((50, 12)))
    seen = []

    def callback(progress: Any) -> None:
        if progress.iteration == 2:
            time.sleep(0.2)
            seen.append(A.matmat(progress.current()["Vh"].T).shape)

    given = {"tol": 1e-15, "max_seconds": 0.2, "callback": callback, "form": "implicit", "rng": 0}
    assert ls.solve(ls.SVD(A, 2), "block-krylov", block=2, **given).status is ls.Status.BUDGET
    assert seen == [(50, 2)]


def test_an_iteration_that_has_nothing_yet_is_no_answer():
    """Time that is over at the first look at the run leaves no triplets, which are not all that there are."""
    with refused("max_seconds"):
        s = ls.solve(
            ls.SVD(np.eye(9), 2), "block-krylov", max_seconds=0.05, callback=lambda _: time.sleep(0.1)
        )
        holds(len(s.S) == 2, f"{len(s.S)} singular values, {s.status.name}")


@pytest.mark.parametrize("form", ["stream", "array", "moments"])
def test_data_of_a_run_that_was_ended_can_be_used_again(form: str):
    """What a sweep has gathered half is not taken for the whole by the next run."""
    A = np.random.default_rng(0).standard_normal((4000, 30))
    slow = [True]

    def slices() -> Iterator[Any]:
        for part in np.array_split(A, 8):
            time.sleep(0.05 * slow[0])
            yield part

    def tap() -> None:
        time.sleep(0.05 * slow[0])

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
    """One run that is out of time takes none from another on the same data."""
    A = np.random.default_rng(0).standard_normal((20000, 40))
    stated, found = ls.SVD(A, 3), {}

    def solve(limit: float | None) -> None:
        try:
            found[limit] = ls.solve(stated, "lanczos", form="implicit", max_seconds=limit, rng=0).status.name
        except ls.errors.BudgetTooSmall:
            found[limit] = "refused"

    threads = [threading.Thread(target=solve, args=(limit,)) for limit in (1e-9, None, 100.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1e-9: "refused", None: "CONVERGED", 100.0: "CONVERGED"}


def test_good_runs_have_the_same_bits_with_a_limit():
    for kind, solver in SOLVERS:
        plain, limited = (
            ls.solve(problem(kind), solver, rng=0, max_seconds=limit, **options(kind, solver))
            for limit in (None, 1e6)
        )
        if (plain.residual, plain.passes) != (limited.residual, limited.passes):
            raise Silent(f"{solver}: a limit of time changes the answer")
