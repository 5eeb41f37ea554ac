"""The loop around a solver: how runs end, what is said of them, limits, sent-back iterates, checkpoints."""

from __future__ import annotations

import itertools
import math
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_blocks import rows_of

import linspec as ls
from linspec import Status, iteration
from linspec.certificates import certify_linear
from linspec.certificates.metric import SKETCH_ROWS
from linspec.errors import BudgetTooSmall, OutOfMemory
from linspec.iteration import Certificate, Context, Iterate, Outcome
from linspec.linalg import block_cg, block_krylov
from linspec.rows import Moments, Passes, Preprocessing

LINSPEC = Path(ls.__file__).parent
rng = np.random.default_rng(0)
A = rng.standard_normal((400, 30)) * np.logspace(0, -2, 30) + 1
b = A @ rng.standard_normal((30, 2)) + rng.standard_normal((400, 2))


class Regression:
    name, tol = "regression", 1e-8

    def __init__(self, ridge: float = 0.0) -> None:
        self.ridge = ridge

    def moments(self, passes: Passes) -> Moments:
        data = [rows_of(A), rows_of(b)]
        return Moments(
            data, Preprocessing(center=True), passes, sketch_rows=SKETCH_ROWS * 30, certificate_passes=1.0
        )

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        found = certify_linear(moments, arrays["x"], self.ridge, tol=tol)
        return Certificate(
            found.residual, ((Status[found.status], "judged."),) * (found.status != "CONVERGED")
        )


class ConjugateGradients:
    name = "cg"

    def __init__(self, flattery: float = 1.0, *, stops: int = 10**9, limit: float = math.inf) -> None:
        self.flattery, self.stops, self.max_iterations = flattery, stops, limit

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        Atb = moments.products(None, np.eye(2))[1][0]
        size = np.linalg.norm(Atb, axis=0)
        steps = block_cg(
            lambda V: moments.gram_product(V, 0), Atb, (problem.ridge,), None if start is None else start["x"]
        )
        for (x,), lengths in itertools.islice(steps, self.stops):
            yield Iterate(float((lengths / size).max()) * self.flattery, partial(dict, x=x))


class Spectrum:
    name, tol, k = "spectrum", 1e-8, 3

    def moments(self, passes: Passes) -> Moments:
        return Moments([rows_of(A)], Preprocessing(center=True), passes, certificate_passes=1.0)

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        V, theta = arrays["vectors"], arrays["values"]
        gaps = np.linalg.norm(moments.gram_product(V) - V * theta, axis=0)
        return Certificate(float(gaps.max() / theta[0]))


class Krylov:
    name, max_iterations = "krylov", math.inf

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        first = context.filled(None if start is None else start["vectors"], 30, 8)
        for pairs in block_krylov(moments.gram_product, first, problem.k, context.rng):
            residual = float(pairs.residuals.max() / pairs.values[0])
            arrays = partial(dict, vectors=pairs.vectors(), values=pairs.values)
            yield Iterate(residual, arrays, final=pairs.exhausted)


def run(
    problem: Any, solver: Any, *, tol: float | None = None, start: Any = None, **settings: Any
) -> Outcome:
    """A run of a problem that has moments and a certificate of its own."""
    return iteration.run(
        problem,
        solver,
        solver.name,
        tol=problem.tol if tol is None else tol,
        moments=problem.moments,
        certify=problem.certify,
        start=None if start is None else lambda moments: start,
        **settings,
    )


def centred() -> tuple[Any, Any]:
    return A - A.mean(axis=0), b - b.mean(axis=0)


def test_runs_converge_to_the_answers_of_lapack() -> None:
    X, Y = centred()
    regression = run(Regression(), ConjugateGradients())
    assert regression.ending is Status.CONVERGED
    exact = np.linalg.lstsq(X, Y, rcond=None)[0]
    assert np.abs(regression.last.arrays()["x"] - exact).max() <= 1e-6 * np.abs(exact).max()
    spectrum = run(Spectrum(), Krylov(), rng=0)
    assert spectrum.ending is Status.CONVERGED
    s = np.linalg.svd(X, compute_uv=False)[:3]
    assert np.sqrt(spectrum.last.arrays()["values"]) == pytest.approx(s, rel=1e-12)
    assert (len(spectrum.history) - 1) == len(spectrum.history) - 1
    assert [each.passes for each in spectrum.history] == sorted(each.passes for each in spectrum.history)


def test_a_solver_that_flatters_itself_is_sent_back() -> None:
    honest = run(Regression(), ConjugateGradients())
    flattered = run(Regression(), ConjugateGradients(1e-4))
    assert flattered.certificate.residual <= 1e-8
    assert flattered.ending is Status.CONVERGED
    assert (len(honest.history) - 1) <= (len(flattered.history) - 1) + 2


def test_how_runs_end() -> None:
    assert run(Regression(), ConjugateGradients(limit=3)).ending is Status.ITERATION_LIMIT
    assert run(Regression(), ConjugateGradients(stops=4)).ending is Status.STAGNATED
    stopped = run(Regression(), ConjugateGradients(), callback=lambda seen, *_: seen.iteration == 2)
    assert stopped.ending is Status.STOPPED
    assert (len(stopped.history) - 1) == 2
    assert stopped.certificate.residual == pytest.approx(stopped.history[-1].residual, rel=1e-6)
    late = run(Regression(), ConjugateGradients(), tol=1e-30)
    assert late.ending in {Status.STAGNATED, Status.CONVERGED}


@pytest.mark.parametrize("most", [2.5, 4.0, 7.0])
def test_passes_are_not_exceeded_and_the_certificate_has_its_own(most: float) -> None:
    ended = run(Regression(), ConjugateGradients(), max_passes=most)
    assert ended.ending is Status.BUDGET
    assert ended.context.passes.count <= most
    assert ended.certificate.residual > 1e-8


def test_limits_that_are_too_small() -> None:
    with pytest.raises(BudgetTooSmall, match="cg needs at least 2 passes"):
        run(Regression(), ConjugateGradients(), max_passes=1.0)
    with pytest.raises(BudgetTooSmall, match=r"cg used up max_seconds=-1 in pass 1 over the data"):
        run(Regression(), ConjugateGradients(), max_seconds=-1.0)


@pytest.fixture
def _usual_interrupts() -> Iterator[None]:
    """The handler of Python, also where the tests run in the background, for which shells ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_usual_interrupts")
def test_the_first_interrupt_gives_the_last_iterate_and_the_second_raises() -> None:
    def interrupt(seen: Any, *_: Any) -> None:
        if seen.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    ended = run(Regression(), ConjugateGradients(), callback=interrupt)
    assert ended.ending is Status.INTERRUPTED
    assert len(ended.history) == 3

    class Slow(Regression):
        def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
            signal.raise_signal(signal.SIGINT)
            return super().certify(moments, arrays, tol)

    with pytest.raises(KeyboardInterrupt):
        run(Slow(), ConjugateGradients(), callback=interrupt)
    assert run(Slow(), ConjugateGradients()).ending is Status.INTERRUPTED


def test_a_lack_of_memory_gives_the_last_iterate() -> None:
    def ends(seen: Any, *_: Any) -> None:
        if seen.iteration == 1:
            raise MemoryError

    assert run(Regression(), ConjugateGradients(), callback=ends).ending is Status.OUT_OF_MEMORY

    class Large(ConjugateGradients):
        def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
            raise MemoryError("too much")
            yield

    with pytest.raises(OutOfMemory, match=r"cg ran out of memory in pass 1 .*: too much"):
        run(Regression(), Large())


def test_doubt_keeps_a_small_residual_from_ending_the_run() -> None:
    class Doubtful(ConjugateGradients):
        def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
            for each in super().iterate(problem, moments, context, start):
                yield each._replace(doubt="nothing has shown it.")

    ended = run(Regression(), Doubtful(stops=200))
    assert ended.ending is Status.STAGNATED
    assert ended.certificate.residual <= 1e-8
    assert ended.certificate.lost
    assert ended.context.notes == [(Status.INCOMPLETE, "nothing has shown it.")]


def test_what_was_reached_is_written() -> None:
    class Kept:
        def __init__(self, *, due: bool) -> None:
            self.due, self.written = due, []

        def write(self, state: Mapping[str, Any]) -> None:
            self.written.append(state["iterate"]["x"])

    every, last = Kept(due=True), Kept(due=False)
    first = run(Regression(1.0), ConjugateGradients(limit=4), saving=every)
    run(Regression(1.0), ConjugateGradients(limit=4), saving=last)
    assert len(every.written) == 6
    assert len(last.written) == 1
    assert np.array_equal(last.written[0], first.last.arrays()["x"])
    rest = run(Regression(1.0), ConjugateGradients(), start={"x": last.written[0]})
    whole = run(Regression(1.0), ConjugateGradients())
    assert rest.history[0].residual == pytest.approx(first.history[-1].residual, rel=1e-6)
    assert np.abs(rest.last.arrays()["x"] - whole.last.arrays()["x"]).max() <= 1e-5
    assert (len(rest.history) - 1) <= (
        len(whole.history) - 1
    ) + 2  # conjugate gradients begin their space anew


def test_a_start_keeps_random_columns() -> None:
    context = Context(1e-8, np.random.default_rng(0), Passes())
    start = np.eye(30)[:, :10] * 100
    block = context.filled(start, 30, 12)
    assert np.array_equal(block[:, :7], start[:, :7])
    assert np.linalg.matrix_rank(block) == 12
    assert context.filled(None, 4, 12).shape == (4, 4)


@pytest.mark.parametrize(
    ("problem", "solver", "functions", "frames"),
    [
        (ls.SVD(A, 3, center=True), "gram", 275, 20),
        (ls.SVD(A, 3, center=True), "block-krylov", 310, 21),
        (ls.LeastSquares(A, A[:, 0], ridge=1.0), "cg", 345, 22),
        (ls.CCA(A[:, :20], A[:, 20:], 3), "gram", 328, 20),
        (ls.CCA(A[:, :20], A[:, 20:], 3), "als", 394, 21),
    ],
    ids=["gram", "block-krylov", "cg", "cca-gram", "cca-als"],
)
def test_a_solve_enters_few_functions_and_frames(
    problem: Any, solver: str, functions: int, frames: int
) -> None:
    entered, depth, deepest = set(), 0, 0

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal depth, deepest
        if str(LINSPEC) not in frame.f_code.co_filename and "linspec_" not in frame.f_code.co_filename:
            return
        if event == "call":
            entered.add(frame.f_code)
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    ls.solve(problem, solver, rng=0)
    sys.setprofile(profile)
    try:
        ls.solve(problem, solver, rng=0)
    finally:
        sys.setprofile(None)
    assert len(entered) <= functions
    assert deepest <= frames
