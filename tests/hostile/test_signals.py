"""Ctrl-C at any moment: an answer that says so, or KeyboardInterrupt; the handler is back, and loops end."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import SECONDS, Leak, apart, holds
from hostile.tapped import SOLVERS, At, Tapped, arrays, moments, options, problem

import linspec as ls

MORE = int(os.environ.get("LINSPEC_HOSTILE", "1"))

pytestmark = [
    pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning"),
]


def ctrl_c() -> None:
    """Send SIGINT, as the terminal does."""
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Python's own handler: a shell lets what it runs in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    left = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    if left is not signal.default_int_handler:
        raise Leak(f"the handler of SIGINT is {left}")


def ended(kind: str, solver: str, tap: At) -> str:
    """How a solve ends that may be interrupted; an answer that hides it is silent."""
    try:
        solution = ls.solve(problem(kind, tap), solver, rng=0, **options(kind, solver))
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    holds(signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the handler was not put back")
    for array in arrays(solution):
        holds(np.isfinite(array).all(), f"{solver} returns what is not finite")
    holds(not np.isnan(solution.residual), "an answer without a residual")
    return solution.status.name


@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
@pytest.mark.slow(keep=12)
def test_an_interrupt_in_any_product_is_never_swallowed(kind: str, solver: str):
    """In the set-up, a part, an iteration, the certificate: solvers of one piece as well as those that iterate."""
    counted = At(0, ctrl_c)
    judged = ls.solve(problem(kind, counted), solver, rng=0, **options(kind, solver))
    judged = judged.residual_kind == "recomputed"
    for call in moments(counted.calls):
        tap = At(call, ctrl_c)
        found = ended(kind, solver, tap)
        holds(
            found in ("INTERRUPTED", "KeyboardInterrupt") or tap.calls < call,
            f"{solver}: Ctrl-C in product {call} of {counted.calls} ends as {found}",
        )
    holds(
        found == "INTERRUPTED" or not judged,
        f"{solver}: Ctrl-C in the certificate ends as {found}, not in an answer",
    )


def test_an_interrupted_answer_is_the_last_iterate():
    """Its residual is that of its arrays, by NumPy."""
    given, B = np.random.default_rng(0).standard_normal((300, 40)), np.ones((300, 1))
    tap = At(20, ctrl_c)
    s = ls.solve(ls.LeastSquares(Tapped(given, tap), B), "lsqr", tol=1e-14)
    assert s.status is ls.Status.INTERRUPTED
    gap = np.linalg.norm(given.T @ (B - given @ s.x)) / np.linalg.norm(given.T @ B)
    assert 1e-12 < gap < 0.9
    assert s.residual == pytest.approx(gap, rel=1e-6)
    assert s.iterations > 5


@pytest.mark.parametrize("solver", ["cg", "gd", "ling", "lsqr", "pcr"])
def test_an_interrupt_while_a_stream_is_counted(solver: str):
    sent = []

    def slices() -> Iterator[Any]:
        for number in range(200):
            if number == 100 and not sent:  # the first look, when the problem is stated, does not come so far
                sent.append(number)
                ctrl_c()
            yield np.ones((5, 3))

    try:
        s = ls.solve(ls.LeastSquares(slices, np.ones((1000, 1)), ridge=1.0), solver, rng=0)
    except KeyboardInterrupt:
        return
    holds(
        s.status is ls.Status.INTERRUPTED, f"{solver} swallows Ctrl-C while rows are counted: {s.status.name}"
    )


# ---- loops ------------------------------------------------------------------------------------


def interrupted(**options: Any) -> Any:
    """A solve that Ctrl-C ends at its third iteration."""

    def callback(progress: Any) -> None:
        if progress.iteration == 2:
            ctrl_c()

    return ls.solve(
        problem("least-squares"), "gd", callback=callback, tol=1e-300, max_iterations=50, **options
    )


def test_each_solve_has_its_first_interrupt_and_the_second_raises():
    answers = [interrupted() for _ in range(3)]
    assert [answer.status for answer in answers] == [ls.Status.INTERRUPTED] * 3

    def twice(progress: Any) -> None:
        ctrl_c()
        ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        ls.solve(problem("least-squares"), "gd", callback=twice, tol=1e-300, max_iterations=50)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ---- series -----------------------------------------------------------------------------------


class Permuting(np.random.Generator):
    """A generator that sends Ctrl-C at its n-th permutation."""

    def __init__(self, at: int) -> None:
        super().__init__(np.random.PCG64(0))
        self.tap = At(at, ctrl_c)

    def permutation(self, *args: Any, **kwargs: Any) -> Any:
        self.tap()
        return super().permutation(*args, **kwargs)


def test_a_path_ends_with_the_ridges_solved():
    ridges, seen = [0.1, 1.0, 10.0, 100.0], []

    def callback(progress: Any) -> None:
        seen.append(progress.iteration == 0)
        if sum(seen) == 3:
            ctrl_c()

    whole = ls.ridge_path(problem("cca"), ridges, solver="als", rng=0)
    path = ls.ridge_path(problem("cca"), ridges, solver="als", rng=0, callback=callback)
    assert path.interrupted
    assert not whole.interrupted
    assert path.ridges in (((10.0, 10.0), (100.0, 100.0)), ((1.0, 1.0), (10.0, 10.0), (100.0, 100.0)))
    np.testing.assert_array_equal(path.solutions[-1].correlations, whole.solutions[-1].correlations)
    assert "interrupted" in repr(path)


def test_cross_validation_by_solving_ends_with_the_solve_that_hears_it():
    """Scores of an unfinished answer are none, and no other ridge or split is solved before it ends."""
    seen = []

    def callback(progress: Any) -> None:
        seen.append(progress.iteration == 0)
        if sum(seen) == 2:
            ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        ls.cross_validate(problem("cca"), ridges=[0.1, 1.0, 10.0], solver="als", rng=0, callback=callback)
    assert sum(seen) == 2


def test_permutations_end_with_those_made():
    test = ls.permutation_test(problem("cca"), permutations=40, rng=Permuting(6))
    fewer = ls.permutation_test(problem("cca"), permutations=6, rng=Permuting(0))
    assert (test.permutations, test.interrupted) == (6, True)
    np.testing.assert_array_equal(test.p_values, fewer.p_values)


def test_null_correlations_end_with_those_found():
    with pytest.warns(ls.errors.ConvergenceWarning, match="2 of 9"):
        found = ls.null_correlations(problem("cca"), "gram", permutations=9, rng=Permuting(3))
    assert found.shape == (2, 3)


def test_null_correlations_of_which_there_are_none():
    with pytest.raises(KeyboardInterrupt):
        ls.null_correlations(problem("cca"), "gram", permutations=9, rng=Permuting(1))


# ---- handlers ---------------------------------------------------------------------------------


def test_another_handler_is_called_and_put_back():
    heard = []

    def handler(signum: int, frame: Any) -> None:
        heard.append(signum)

    usual = signal.signal(signal.SIGINT, handler)
    try:
        s = interrupted()
        holds(signal.getsignal(signal.SIGINT) is handler, "the handler was lost")
    finally:
        signal.signal(signal.SIGINT, usual)
    assert heard == [signal.SIGINT]
    assert s.status is ls.Status.INTERRUPTED


def test_an_ignored_interrupt_is_ignored():
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert interrupted().status is ls.Status.ITERATION_LIMIT
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize("where", ["callback", "product", "slices"])
@pytest.mark.parametrize("thread", [False, True])
def test_a_keyboard_interrupt_of_others_is_passed_on(where: str, thread: bool):
    """Raised by a callback, an operator or a generator, in the main thread and in another one."""

    def raising(*_: Any) -> None:
        raise KeyboardInterrupt

    def slices() -> Iterator[Any]:
        yield np.ones((5, 3))
        raising()

    stated = {
        "callback": lambda: problem("cca"),
        "product": lambda: problem("cca", At(1, raising)),
        "slices": lambda: ls.SVD(slices(), 2),
    }[where]
    solver, callback = (
        ("lazy-spca", None) if where == "slices" else ("als", raising if where == "callback" else None)
    )
    found: list[str] = []

    def attempt() -> None:
        try:
            s = ls.solve(stated(), solver, callback=callback, rng=0)
            found.append(s.status.name)
        except KeyboardInterrupt:
            found.append("KeyboardInterrupt")

    if thread:
        worker = threading.Thread(target=attempt)
        worker.start()
        worker.join()
    else:
        attempt()
    holds(found == ["KeyboardInterrupt"], f"KeyboardInterrupt ends as {found}")


def test_no_answer_is_kept_alive():
    """Who runs many solves has no more than the last one in memory, interrupted or not."""
    for make in (interrupted, lambda: ls.solve(problem("cca"), "two-stage")):
        s = make()
        str(s.status)
        alive = weakref.ref(s)
        del s
        if alive() is not None:
            raise Leak("an answer that was let go of is still there")


# ---- random moments ---------------------------------------------------------------------------

AT_RANDOM = """
import os, random, signal, sys, threading, time, warnings
import numpy as np
import linspec as ls
from hostile.outcomes import Leak, Silent

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)
seed, count = int(sys.argv[1]), int(sys.argv[2])
rng, dice = np.random.default_rng(seed), random.Random(seed)
n, p = 15000, 60
X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, 40))
Y[:, :5] += X[:, :5]
B = X @ rng.standard_normal((p, 3)) + rng.standard_normal((n, 3))
AtB = X.T @ B
exact = np.linalg.svd(X, compute_uv=False)[:4]
SOLVES = {
    "lstsq/direct": lambda: ls.solve(ls.LeastSquares(X, B), "direct"),
    "lstsq/lsqr": lambda: ls.solve(ls.LeastSquares(X, B), "lsqr"),
    "svd/lanczos": lambda: ls.solve(ls.SVD(X, 4), "lanczos", rng=0, form="implicit"),
    "svd/gram": lambda: ls.solve(ls.SVD(X, 4), "gram"),
    "cca/als": lambda: ls.solve(ls.CCA(X, Y, 4), "als", rng=0, form="implicit"),
    "cca/two-stage": lambda: ls.solve(ls.CCA(X, Y, 4), "two-stage", rng=0),
}


def judge(name, s):
    if s.status.name not in ("INTERRUPTED", "CONVERGED"):
        raise Silent(f"{name}: {s.status.name}")
    if name.startswith("lstsq"):
        gap = np.linalg.norm(AtB - X.T @ (X @ s.x)) / np.linalg.norm(AtB)
        if s.converged and gap > 1e-7 or not s.converged and gap > 1.01 * max(s.residual, 1e-7) * 3:
            raise Silent(f"{name}: {s.status.name} with a residual of {gap:.1e}, said to be {s.residual:.1e}")
    if name.startswith("svd") and s.converged and np.abs(s.S - exact).max() > 1e-3 * exact[0]:
        raise Silent(f"{name}: {s.status.name} with wrong values")
    return s.status.name


def one(name, after):
    killer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    try:
        killer.start()
        s = SOLVES[name]()
        found = judge(name, s)
        killer.join()  # a signal that came too late is raised here
        time.sleep(0.01)
        return found if found == "INTERRUPTED" else "lost" if killer.finished.is_set() else found
    except KeyboardInterrupt:
        killer.join()
        return "KeyboardInterrupt"


outcomes = {}
for name in SOLVES:
    SOLVES[name]()
    start = time.perf_counter()
    SOLVES[name]()
    taken = time.perf_counter() - start
    for _ in range(count):
        found = one(name, dice.uniform(0, 1.1 * taken))
        if found == "lost":
            raise Silent(f"{name}: Ctrl-C was swallowed")
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            raise Leak("the handler of SIGINT was lost")
        outcomes[found] = outcomes.get(found, 0) + 1
print(outcomes)
"""


@pytest.mark.parametrize("seed", range(1 if MORE == 1 else 2))
@pytest.mark.slow
def test_an_interrupt_at_a_random_moment(seed: int, tmp_path: Any):
    """Six solvers: an answer that says so, KeyboardInterrupt, or an answer before the signal came."""
    program = AT_RANDOM.replace("sys.argv[1]", str(seed)).replace("sys.argv[2]", str(2 * MORE))
    here = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = apart(program, env={"PYTHONPATH": path}, seconds=SECONDS + 20 * MORE)
    print(done.stdout)
