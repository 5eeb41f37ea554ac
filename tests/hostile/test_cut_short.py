"""Runs that are cut short by Ctrl-C, by a lack of memory, or by max_seconds, at any product and between solves."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import apart, refused
from hostile.tapped import SOLVERS, At, Tapped, arrays, moments, options, problem

import linspec as ls

pytestmark = [
    pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning"),
]


@pytest.fixture(autouse=True)
def usual(ctrl_c: None) -> Iterator[None]:
    """Python's own handler of SIGINT is there again at the end."""
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class OutOfMemoryError(RuntimeError):
    """As torch's is called, which is no MemoryError."""


def sigint() -> None:
    """Send SIGINT, as the terminal does."""
    os.kill(os.getpid(), signal.SIGINT)


def pythons() -> None:
    raise MemoryError


def numpys() -> None:
    np.empty((2**40, 2**10))


def torchs() -> None:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


# ---- in any product of any solver ---------------------------------------------------------------


def ending(kind: str, solver: str, tap: Callable[[], None], **limits: Any) -> str:
    """The status of an answer that is finite and has a residual, or the name of the error."""
    try:
        found = ls.solve(problem(kind, tap), solver, rng=0, **limits, **options(kind, solver))
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    except ls.errors.LinspecError as error:
        said = str(error)
        assert said.isprintable()
        assert "max_seconds" in said if limits else solver in said and "memory" in said
        return "refused"
    assert all(np.isfinite(array).all() for array in arrays(found))
    assert not np.isnan(found.residual)
    assert found.converged or found.status is not ls.Status.CONVERGED
    return str(found.status.name)


ENDINGS = {
    (sigint,): ("INTERRUPTED", "KeyboardInterrupt"),
    (pythons, numpys, torchs): ("refused", "OUT_OF_MEMORY", "CONVERGED", "APPROXIMATE"),
}


@pytest.mark.parametrize("acts", ENDINGS, ids=["interrupt", "memory"])
@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
@pytest.mark.slow(keep=24)
def test_what_happens_in_any_product_is_never_swallowed(kind: str, solver: str, acts: Any) -> None:
    """In the set-up, a part, an iteration, the certificate: solvers of one piece as well as those that iterate."""
    counted = At(0, sigint)
    whole = ls.solve(problem(kind, counted), solver, rng=0, **options(kind, solver))
    for i, call in enumerate(moments(counted.calls)):
        tap = At(call, acts[i % len(acts)])
        found = ending(kind, solver, tap)
        assert found in ENDINGS[acts] or tap.calls < call, f"product {call} of {counted.calls}: {found}"
    in_certificate = acts == (sigint,) and whole.residual_kind == "recomputed"
    assert found == "INTERRUPTED" or not in_certificate, f"in the certificate: {found}"


TOOK = 0.01
"""Seconds that a slice or a product takes, by the clock of the run."""


@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
def test_slow_products_end_by_the_time(kind: str, solver: str, clock: Any) -> None:
    """However far it has come: set-up, parts and iteration are left after a product, and the answer says so."""
    limit, start = 6 * TOOK, clock.now
    ending(kind, solver, lambda: clock.tick(TOOK), max_seconds=limit)
    assert clock.now - start <= 2 * (limit + 2 * TOOK)  # the certificate is given as long again


def test_ended_runs_and_answers_are_freed_at_once() -> None:
    """Without a collection of cycles: who runs many solves has no more than the last one in memory."""
    gc.collect()
    gc.disable()
    try:
        alive: list[Any] = []
        for tap in (At(20, sigint), At(20, numpys), At(1, numpys), At(10**9, numpys)):
            A = Tapped(np.random.default_rng(0).standard_normal((300, 40)), tap)
            alive.append(weakref.ref(A))
            with suppress(MemoryError):
                s = ls.solve(ls.LeastSquares(A, np.ones((300, 1))), "lsqr", tol=1e-13)
                alive.append(weakref.ref(s))
                str(s.status)
                del s
            del A
        assert not any(reference() for reference in alive)
    finally:
        gc.enable()


# ---- Ctrl-C -----------------------------------------------------------------------------------


def interrupted(times: int = 1) -> Any:
    """A solve that Ctrl-C meets at its third iteration."""

    def callback(progress: Any) -> None:
        for _ in range(times * (progress.iteration == 2)):
            sigint()

    return ls.solve(problem("least-squares"), "gd", callback=callback, tol=1e-300, max_iterations=50)


def test_each_solve_has_its_first_interrupt_and_the_second_raises() -> None:
    assert [interrupted().status for _ in range(3)] == [ls.Status.INTERRUPTED] * 3
    with pytest.raises(KeyboardInterrupt):
        interrupted(2)


def test_another_handler_is_called_and_put_back_and_an_ignored_interrupt_is_ignored() -> None:
    heard: list[int] = []

    def handler(signum: int, frame: Any) -> None:
        heard.append(signum)

    for own, status in ((handler, ls.Status.INTERRUPTED), (signal.SIG_IGN, ls.Status.ITERATION_LIMIT)):
        before = signal.signal(signal.SIGINT, own)
        try:
            assert interrupted().status is status
            assert signal.getsignal(signal.SIGINT) is own
        finally:
            signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_keyboard_interrupt_of_others_is_passed_on() -> None:
    """Raised by a callback, an operator or a generator, in the main thread and in another one."""

    def raising(*_: Any) -> None:
        raise KeyboardInterrupt

    def slices() -> Iterator[Any]:
        yield np.ones((5, 3))
        raising()

    for call in (
        lambda: ls.solve(problem("cca"), "als", callback=raising),
        lambda: ls.solve(problem("cca", At(1, raising)), "als"),
        lambda: ls.solve(ls.SVD(slices(), 2), "lazy-spca"),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
        with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
            pool.submit(call).result()


# ---- series of solves -------------------------------------------------------------------------


def at_solve(number: int) -> tuple[list[bool], Callable[[Any], None]]:
    """The iterations seen, whether each is the first of its solve; and a callback with Ctrl-C in one solve."""
    seen: list[bool] = []

    def callback(progress: Any) -> None:
        seen.append(progress.iteration == 0)
        if sum(seen) == number:
            sigint()

    return seen, callback


class Permuting(np.random.Generator):
    """A generator that sends Ctrl-C at its n-th permutation."""

    def __init__(self, at: int) -> None:
        super().__init__(np.random.PCG64(0))
        self.tap = At(at, sigint)

    def permutation(self, *args: Any, **kwargs: Any) -> Any:
        self.tap()
        return super().permutation(*args, **kwargs)


def test_a_path_ends_with_the_ridges_solved() -> None:
    ridges = [0.1, 1.0, 10.0, 100.0]
    whole = ls.ridge_path(problem("cca"), ridges, solver="als", rng=0)
    path = ls.ridge_path(problem("cca"), ridges, solver="als", rng=0, callback=at_solve(3)[1])
    assert (path.interrupted, whole.interrupted) == (True, False)
    assert path.ridges in (((10.0, 10.0), (100.0, 100.0)), ((1.0, 1.0), (10.0, 10.0), (100.0, 100.0)))
    np.testing.assert_array_equal(path.solutions[-1].correlations, whole.solutions[-1].correlations)
    assert "interrupted" in repr(path)


def test_cross_validation_by_solving_ends_with_the_solve_that_hears_it() -> None:
    """Scores of an unfinished answer are none, and no other ridge or split is solved before it ends."""
    seen, callback = at_solve(2)
    with pytest.raises(KeyboardInterrupt):
        ls.cross_validate(problem("cca"), ridges=[0.1, 1.0, 10.0], solver="als", rng=0, callback=callback)
    assert sum(seen) == 2


def test_null_correlations_end_with_those_made() -> None:
    with pytest.warns(ls.errors.ConvergenceWarning, match="2 of 9"):
        found = ls.null_correlations(problem("cca"), "gram", permutations=9, rng=Permuting(3))
    assert found.shape == (2, 3)
    with pytest.raises(KeyboardInterrupt):
        ls.null_correlations(problem("cca"), "gram", permutations=9, rng=Permuting(1))


# ---- memory -----------------------------------------------------------------------------------


CHANGED = """
import os, sys
import numpy as np
import linspec as ls
A = np.random.default_rng(0).standard_normal((6000, 100))

def change(path, how):
    if how == "renamed":
        np.save("other.npy", np.zeros((3, 3)))
        os.replace("other.npy", path)
    else:
        os.truncate(path, {"cut": 2_000_001, "emptied": 0, "header": 60, "last": os.path.getsize(path) - 9}[how])

for how in ("renamed", "last", "cut", "header", "emptied"):
    path = how + ".npy"
    np.save(path, A)
    given = path if sys.argv[2] == "path" else np.load(path, mmap_mode="r")
    seen = []
    try:
        s = ls.solve(ls.SVD(given, 3), sys.argv[1], rng=0, tol=1e-6, form="implicit",
                     callback=lambda _: seen or seen.append(change(path, how)))
        assert how == "renamed", (how, s.status)
        np.testing.assert_allclose(s.S, np.linalg.svd(A, compute_uv=False)[:3], rtol=1e-6)
    except ls.errors.LinspecError as error:
        assert how != "renamed" and "shorter" in str(error) and path in str(error), (how, error)
"""


@pytest.mark.parametrize(("solver", "kind"), [("lanczos", "path"), ("block-krylov", "map")])
@pytest.mark.slow(keep=1)
def test_a_file_that_changes_under_a_run(solver: str, kind: str, tmp_path: Path) -> None:
    """One that was cut is named; one that was replaced by another of its name is read to its end."""
    apart(CHANGED, solver, kind, cwd=tmp_path)


# ---- max_seconds ------------------------------------------------------------------------------


def endless(clock: Any, width: int) -> Iterator[Any]:
    """Slices without end; who still reads long after the limit would read for ever."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        clock.tick(TOOK)
        yield rng.standard_normal((50, width))
    pytest.fail("still reading")


STREAMED = {
    "one pass": lambda c: (ls.SVD(endless(c, 6), 2, center=True), "auto"),
    "many passes": lambda c: (ls.SVD(lambda: endless(c, 6), 2), "lanczos"),
    "left": lambda c: (ls.SVD(lambda: endless(c, 6), 2, left=True), "gram"),
    "two streams": lambda c: (ls.LeastSquares(lambda: endless(c, 6), lambda: endless(c, 1)), "cg"),
    "two views": lambda c: (ls.CCA(lambda: endless(c, 6), lambda: endless(c, 4), 2), "gram"),
}


@pytest.mark.parametrize("name", STREAMED)
def test_an_iterator_without_end_ends_by_the_time(name: str, clock: Any) -> None:
    stated, solver = STREAMED[name](clock)
    with refused("max_seconds"):
        ls.solve(stated, solver, max_seconds=15 * TOOK, rng=0)


def slowly(clock: Any, A: Any, seconds: float) -> Any:
    """The rows of an array as slices, a pass over which takes `seconds`."""

    def slices() -> Iterator[Any]:
        for part in np.array_split(A, 20):
            clock.tick(seconds / 20)
            yield part

    return slices


def test_the_first_pass_is_left_in_the_midst_of_it_and_the_data_can_be_used_again(clock: Any) -> None:
    """The next run does not use half of a pass's results as if they were whole."""
    A = np.random.default_rng(0).standard_normal((200, 8))
    stream = slowly(clock, A, 2.0)
    fresh = ls.solve(ls.SVD(stream, 2, center=True), "gram")
    for stated in (ls.SVD(stream, 2, center=True), ls.SVD(ls.Moments(stream, center=True), 2, center=True)):
        start = clock.now
        with refused("max_seconds", "pass 1"):
            ls.solve(stated, "gram", max_seconds=0.25)
        assert clock.now - start < 0.45
        again = ls.solve(stated, "gram")
        np.testing.assert_array_equal(again.Vh, fresh.Vh)
        np.testing.assert_array_equal(again.S, fresh.S)
        assert again.passes == fresh.passes
