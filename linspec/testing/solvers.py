"""The checks of a solver. Each takes a `Solver`, yields the faults that it finds, and raises `Skip` if it says nothing.

Problem: a solver can be wrong in ways that no residual of its own shows.
Method: its answers are compared with the reference of the problem, with answers to equal problems (a weight of three is
three equal rows; Frisch & Waugh 1933), and with what was counted from outside: products, readings, bytes and seconds.
Source: metamorphic testing, Chen, Cheung & Yiu 1998; scikit-learn's estimator checks.
Where we differ: nothing is read but what a user sees: arguments of `linspec.solve` and attributes of solutions.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import random
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import registry
from linspec.arrays import to_host
from linspec.errors import (
    BrokenPlugin,
    BudgetTooSmall,
    LinspecError,
    MissingCapability,
    NonFiniteData,
    UnsupportedData,
)
from linspec.testing.data import Backend, Slices, Stopped
from linspec.testing.references import Case, Reference

LOOSE, NEAR, BESIDE = 100.0, 10.0, 300.0
"""Factors: of an error over its residual, of a residual over the recomputed one and over the last of the history."""

PART, EXACT, CLOCK, READING = 1 / 3, 1e-11, 1000.0, 1e12
"""Relative error of an approximate solver (random directions have a half); a residual at rounding; the factor between
an estimate and the clock; bytes a second that no memory delivers."""

EARLY: Mapping[str, Any] = {"callback": lambda progress: progress.iteration >= 5}
"""Arguments of `linspec.solve` that end a run after some iterations."""

EFFECTS = {
    "sample_weight": "repeated rows",
    "confounds": "residuals of a regression",
    "scale": "divided columns",
}
REFUSED = MissingCapability, UnsupportedData


class Skip(Exception):  # noqa: N818 (it is not an error)
    """Raised by a check that does not apply; the message is the reason."""


def unless(holds: Any, fault: str) -> Iterator[str]:
    """Yield a fault unless something holds."""
    if not holds:
        yield fault


def on_host(solution: Any) -> Any:
    """Return a copy of an answer whose arrays are NumPy's."""

    def turned(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(turned(part) for part in value)
        return to_host(value) if hasattr(value, "dtype") else value

    return SimpleNamespace(
        **{name: turned(value) for name, value in vars(solution).items()},
        coefficients=lambda: to_host(solution.coefficients()),
    )


def reference_of(problem: str) -> Reference:
    """Return the reference of a problem, which its record names."""
    place = registry.get_spec("problem", problem).testing
    module, _, name = place.partition(":")
    found = getattr(__import__(module, fromlist=[name]), name) if place else None
    if not isinstance(found, Reference):
        raise BrokenPlugin(
            f"the record of the problem {problem!r} must name a linspec.testing.Reference by testing='module:NAME', or "
            f"its solvers cannot be judged; got {place or 'nothing'}. See docs/about/stability.md."
        )
    return found


class Solver:
    """A solver under test."""

    problem: Any

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls = spec, cls
        self.problem = ls.get_problem(spec.problem)
        self.reference = reference_of(spec.problem)
        self.exact = not {"approximate", "demonstration"} & {*spec.traits}
        self.cases = self.reference.cases()[: None if self.exact else 1]
        self.case = self.cases[0]
        self.fields = {field.name for field in dataclasses.fields(self.problem)}

    def has(self, trait: str) -> bool:
        """Whether the record has a trait."""
        return trait in self.spec.traits

    def make(self, **options: Any) -> Any:
        """Make an instance, with those of the options that it has."""
        brief = {"max_iterations": 60} if self.has("demonstration") else {}
        given = {"tol": self.reference.tol, **brief, **self.reference.quick, **options}
        known = {field.name for field in dataclasses.fields(self.cls)}
        return self.cls(
            **{name: value for name, value in given.items() if name in known and value is not None}
        )

    def state(self, case: Case, matrices: Any = None) -> Any:
        """State the problem of a case, with other data in place of its matrices if there are any."""
        data = [X.copy() for X in case.matrices] if matrices is None else list(matrices)
        return self.problem(*([data] if self.reference.several else data), **case.parameters)

    def solve(self, case: Case, matrices: Any = None, solver: Any = None, **words: Any) -> Any:
        """Solve a case without warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = self.state(case, matrices)
            return ls.solve(problem, self.make() if solver is None else solver, **{"rng": 0, **words})

    @cached_property
    def solved(self) -> Any:
        """The answer to the first case."""
        return self.solve(self.case)

    def wrapped(self, wrap: Callable[[Any], Any]) -> list[Any]:
        """Turn the matrices of the first case into other data; companions stay arrays."""
        kept = self.reference.companions
        return [X.copy() if i in kept else wrap(X) for i, X in enumerate(self.case.matrices)]

    def allowed(self, case: Case, *residuals: float) -> float:
        """Return the relative error of an answer that residuals and rounding explain."""
        largest = max((r for r in residuals if r > 0), default=0.0)
        return float(case.rounding + LOOSE * largest ** (0.5 if self.reference.squared else 1.0))

    def leading(self, answer: Any) -> Any:
        """Return the array of an answer whose library and signs are promised, or the first of several."""
        name = self.reference.arrays
        value = getattr(answer, name.removesuffix(".T"))
        first = value[0] if isinstance(value, tuple) else value
        return first.T if name.endswith(".T") else first

    def faults(self, case: Case, found: Any) -> Iterator[str]:
        """Yield what is wrong with an answer: its residual, its convergence, its numbers and signs."""
        answer, known, claimed = on_host(found), self.reference, found.residual
        law = math.nan if known.residual is None else known.residual(case, answer)
        floor = case.rounding ** (2 if known.squared else 1)
        yield from unless(
            (claimed <= NEAR * law + floor and law <= NEAR * claimed + floor) or math.isnan(law),
            f"the answer claims residual {claimed:.3g}; its arrays have {law:.3g}. Return what linspec computes",
        )
        yield from unless(
            not found.converged or claimed <= found.tol,
            f"an answer that has converged needs a residual of at most tol; it has {claimed:.3g} and says "
            f"{found.status.name}. Return what linspec concludes",
        )
        if not self.exact:
            return
        yield from unless(
            found.converged or claimed <= floor or not (case.gentle or self.has("direct")),
            f"the solver must reach its tolerance here; got {found.status.name}, residual {claimed:.3g}. Is the answer "
            "that of another problem?",
        )
        exact = known.exact(case)
        for name, value in known.seen(case, answer).items():
            wanted = exact.get(name, value)
            if value.shape != wanted.shape:
                yield f"{name} must have shape {wanted.shape}; got {value.shape}. Return as many as there are"
                return
            off = np.linalg.norm(value - wanted) / (np.linalg.norm(wanted) or 1.0)
            remedy = "Sort by size, and solve the problem as it is stated"
            yield from unless(
                off <= self.allowed(case, claimed),
                f"{name} must be the exact one; it is wrong by {off:.2g} of its size. {remedy}",
            )
        if known.signs:
            W = self.leading(answer)
            yield from unless(
                np.all(W.max(axis=0) >= 0.99 * np.abs(W).max(axis=0)),
                f"the largest entry of each component of {known.arrays.removesuffix('.T')} must be positive. "
                "Change the sign in all arrays",
            )


def accuracy(s: Solver) -> Iterator[str]:
    """Answers are exact within what their residuals explain; those of approximate solvers are nearer than chance."""
    for case in s.cases:
        yield from (f"{case.name}: {fault}" for fault in s.faults(case, s.solve(case)))
    if s.has("approximate") and not s.has("demonstration"):
        name, seen = next(iter(s.reference.seen(s.case, on_host(s.solved)).items()))
        wanted = np.ravel(s.reference.exact(s.case)[name])
        value = np.resize(np.append(seen, np.zeros(wanted.size)), wanted.shape)  # what is left out is zero
        off = np.linalg.norm(value - wanted) / np.linalg.norm(wanted)
        yield from unless(
            off <= PART,
            f"{name} must be nearer to the exact ones than chance; they are off by {off:.2g} of their size",
        )


def residual(s: Solver) -> Iterator[str]:
    """The residual is that of the returned arrays, also where a callback ends the run; the history agrees with it."""
    if not s.has("iterative"):
        raise Skip("the solver does not iterate")
    case = replace(s.cases[-1], gentle=False)
    for stop, tol in ((1, s.reference.tol), (3, s.reference.tol), (math.inf, 1e-6)):
        seen: list[Any] = []
        ends = lambda progress, stop=stop, seen=seen: seen.append(progress) or progress.iteration >= stop  # noqa: E731
        found = s.solve(case, solver=s.make(oversample=0, tol=tol), callback=ends)
        yield from (f"ended at {stop}: {fault}" for fault in s.faults(case, found) if "claims" in fault)
        yield from unless(
            len(seen) <= stop + 1,
            f"a callback that returns True must end the run; got {found.status.name} later",
        )
        floor = case.rounding ** (2 if s.reference.squared else 1)
        ratio = (float(found.history["residual"][-1]) + floor) / (found.residual + floor)
        yield from unless(
            not s.exact or not (ratio < 1 / BESIDE or ratio > BESIDE),
            f"the last residual of the history must be about that of the answer, {found.residual:.2g}; it is "
            f"{ratio:.2g} times as large. Yield the residual by the law of the problem",
        )


def data(s: Solver, backend: Backend) -> Iterator[str]:
    """On other kinds of data the answer is that of arrays, and its arrays belong to the library of the data."""
    case, single, arrays = s.case, backend.name == "float32", bool(backend.library)
    if backend.name == "iterator" and not s.has("one-pass"):
        raise Skip("the record has no trait 'one-pass'")
    if single:
        rounded = tuple(X.astype(np.float32).astype(float) for X in case.matrices)
        case = replace(case, matrices=rounded, rounding=1e-3, gentle=False)
    made = [backend.wrap(X) for X in case.matrices] if arrays else s.wrapped(backend.wrap)
    before = [to_host(X).tobytes() for X in made if arrays]
    usual = s.make(tol=1e-6) if single else s.cls() if backend.name == "iterator" else None
    found = s.solve(case, made, usual)
    yield from unless(
        before == [to_host(X).tobytes() for X in made if arrays],
        "the data must stay as they are; they are changed. Work on a copy",
    )
    yield from s.faults(case, found) if s.exact and found.residual == found.residual else ()
    if arrays and s.reference.arrays and s.exact:
        first, wanted = s.leading(found), "float32" if single else "float64"
        library = type(first).__module__.partition(".")[0]
        yield from unless(
            library == backend.library and str(first.dtype).endswith(wanted),
            f"arrays of the answer must be of {backend.library}, {wanted}, like the data; got {library}, "
            f"{first.dtype}",
        )


def equal(s: Solver, *asked: str) -> Iterator[str]:
    """Weights are repeated rows, confounds residuals of a regression, and scale divides columns: scores are equal."""
    if not (s.exact and {*asked} <= s.fields):
        raise Skip("the solver is approximate, or the problem has no " + ", ".join(asked))
    rng, n, center = (
        np.random.default_rng(20),
        len(s.case.matrices[0]),
        s.case.parameters.get("center", False),
    )
    counts = rng.integers(0, 4, n) if "sample_weight" in asked else np.ones(n, dtype=int)
    Z, level = rng.standard_normal((n, 2)) + 3.0, np.full((n, 2), 3.0)  # new rows have equal confounds
    columns = 2 * ("confounds" in asked)
    D, new = (np.hstack([np.ones((n, int(center))), B[:, :columns]]) for B in (Z, level))
    plain, rows, repeated = [], [], np.repeat(D, counts, axis=0)
    for position, X in enumerate(s.case.matrices):
        A = np.repeat(X, counts, axis=0)
        fit = np.linalg.lstsq(repeated, A, rcond=None)[0]
        left = A - repeated @ fit
        divided = "scale" in asked and position in (s.reference.scaled or (0, 1, 2))
        size = np.sqrt((left**2).mean(axis=0)) if divided else 1.0
        plain.append(left / size)
        rows.append((X - new @ fit) / size)
    values = {"sample_weight": counts.astype(float), "confounds": Z, "scale": True}
    given = {name: values[name] for name in asked}
    found = s.solve(replace(s.case, parameters={**s.case.parameters, **given}))
    same = s.solve(replace(s.case, matrices=tuple(plain)))
    beside = {"confounds": level} if "confounds" in asked else {}
    got, right = scores(s, found, s.case.matrices, **beside), scores(s, same, rows)
    off = np.linalg.norm(got @ got.T - right @ right.T) / np.linalg.norm(right @ right.T)
    yield from unless(
        (off <= s.allowed(s.case, found.residual, same.residual) + 1e-6)
        and found.converged >= same.converged,
        f"{' and '.join(asked)} must have the effect of {' and '.join(EFFECTS[name] for name in asked)}; scores differ "
        f"by {off:.2g} of their size. Take the matrices and moments of the problem, which have it",
    )


def scores(s: Solver, solution: Any, matrices: Sequence[Any], **beside: Any) -> Any:
    """Return the scores that an answer gives to rows, or differences of its predictions."""
    rows = [X for i, X in enumerate(matrices) if i not in s.reference.companions]
    if not hasattr(solution, "transform"):
        return np.diff(to_host(solution.predict(*rows, **beside)), axis=0)
    found = solution.transform(*rows, **beside)
    return np.hstack([to_host(block) for block in (found if isinstance(found, tuple | list) else [found])])


def units(s: Solver) -> Iterator[str]:
    """Data times 1e±50 have the answer of their unit; those beyond 1e±75 are refused."""
    if not s.exact or s.reference.unitless or {"ridge", "ridges"} & {*s.case.parameters}:
        raise Skip("the solver is approximate, or the problem has numbers in units of the data")
    plain = scores(s, s.solved, s.case.matrices)
    for unit in (1e75, 1e-75, 1e50, 1e-50):
        case = replace(s.case, matrices=tuple(X * unit for X in s.case.matrices))
        with suppress(*([LinspecError] if unit in (1e75, 1e-75) else [])):
            found = s.solve(case)
            got, right = (
                part / (np.abs(part).max() or 1.0) for part in (scores(s, found, case.matrices), plain)
            )
            off = np.abs(got @ got.T - right @ right.T).max()
            near = found.converged and off <= LOOSE * s.allowed(case, found.residual, s.solved.residual)
            yield from unless(
                near and unit in (1e50, 1e-50),
                f"data times {unit:g} must be solved as in unit 1, or refused beyond 1e±60; scores differ by {off:.2g}"
                ". Compare with sizes of the data, never with a number",
            )


def bits(solution: Any) -> bytes:
    """Return the bytes of all arrays of an answer."""
    values = [
        part for value in vars(solution).values() for part in (value if isinstance(value, tuple) else [value])
    ]
    arrays = [part for part in values if hasattr(part, "dtype") and part.dtype.names is None]
    return b"".join(
        np.ascontiguousarray(to_host(part)).tobytes() for part in arrays if part.dtype.kind == "f"
    )


def seed(s: Solver) -> Iterator[str]:
    """Equal seeds give equal bits, also of an instance that was used before; other seeds others if it is random."""
    used, other = s.make(), replace(s.case, matrices=tuple(X[::-1] * 2.0 for X in s.case.matrices))
    s.solve(other, solver=used, rng=7, **EARLY)
    given = {"rng": 7}, {"rng": np.random.default_rng(7)}, {"rng": 7, "solver": used}
    first, second, third = (bits(s.solve(s.case, **each, **EARLY)) for each in given)
    yield from unless(
        first == second,
        "equal seeds must give equal bits; two runs with rng=7 differ. Draw from run.rng alone",
    )
    yield from unless(
        second == third or first != second,
        "a solver must keep nothing of one problem for the next; a used one differs",
    )
    pairs = [[s.solve(case, rng=rng, **EARLY) for rng in (8, 9)] for case in s.reference.cases()]
    same = all(bits(one) == bits(two) for one, two in pairs)
    shown = any(not one.residual <= EXACT ** (2 if s.reference.squared else 1) for one, _ in pairs)
    random = s.has("randomized")
    yield from unless(
        same or random,
        "an answer that changes with the seed needs the trait 'randomized'; add it to the record",
    )
    yield from unless(
        not (same and random and shown),
        "the trait 'randomized' means that run.rng is drawn from; other seeds give the same bits",
    )


def passes(s: Solver) -> Iterator[str]:
    """Passes are those that were made, and no more than max_passes."""
    for most in (math.inf, 2, 4, 9):
        made = s.wrapped(Slices)
        with suppress(BudgetTooSmall):
            limit = None if most == math.inf else most
            found = s.solve(s.case, made, max_passes=limit, **EARLY)
            count = max(X.passes for X in made if isinstance(X, Slices)) - 1e-9
            yield from unless(
                count <= found.passes,
                f"passes must count every pass; {count:.3g} were made, and {found.passes:g} are claimed. Multiply with "
                "the matrices of the problem or its moments",
            )
            yield from unless(
                max(count, found.passes) <= most,
                f"a run must keep to max_passes={most}; it made {found.passes:g}. Let the run end it",
            )


def interrupt(s: Solver) -> Iterator[str]:
    """An exception that is no Exception, raised by the data in a pass, reaches the caller."""
    for until in (0.5, 1.5, 2.5):
        made = s.wrapped(partial(Slices, until=until))
        with suppress(Stopped):
            s.solve(s.case, made)
            yield from unless(
                not any(isinstance(X, Slices) and X.stopped for X in made),
                "a BaseException of the data must reach the caller; the solve went on. Catch Exception instead",
            )


def resume(s: Solver) -> Iterator[str]:
    """A start or a checkpoint saves iterations if the trait says so; without it a start is refused."""
    warm: Any = None
    with suppress(LinspecError, TypeError):
        warm = s.solve(s.case, start=s.solved, rng=1)
    yield from unless(
        (warm is not None) == s.has("warm-start"),
        "a start must be taken if the trait 'warm-start' says so, else refused",
    )
    if warm is not None and len(warm.history) and len(s.solved.history):
        yield from unless(
            warm.history["residual"][0] < max(0.1 * s.solved.history["residual"][0], s.case.rounding),
            "a run must begin at its start; from its own answer the first residual is no smaller. Take run.start",
        )
    middle, seen = s.solved.iterations // 2 + 1, list[float]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ckpt"
        if not s.has("resumable") or s.solved.iterations < 3:
            return
        part = s.solve(s.case, callback=lambda progress: progress.iteration >= middle, checkpoint=path)
        if part.status is ls.Status.STOPPED:
            found = s.solve(
                s.case, start=path, rng=None, callback=lambda progress: seen.append(progress.residual)
            )
            yield from unless(
                seen[0] <= NEAR * part.history["residual"][-1],
                "gone on from a checkpoint, the first residual must be about the last one. All that the next step "
                "reads must be in the iterate",
            )
            yield from (f"gone on from a checkpoint: {fault}" for fault in s.faults(s.case, found))


def choices(s: Solver) -> Iterator[str]:
    """Every listed value of an option solves the first case, or refuses it."""
    for option in ls.describe(s.spec.qualified).options or ():
        for value in option.choices or ((True, False) if option.kind is bool else ()):
            with suppress(LinspecError):
                found = s.solve(
                    s.case, solver=s.make(**{option.name: value}), callback=lambda p: p.iteration > 20
                )
                faults = s.faults(replace(s.case, gentle=False), found)
                yield from (f"{option.name}={value!r}: {fault}" for fault in faults)


def path(s: Solver) -> Iterator[str]:
    """A solver with the trait "path" solves several ridges in one run."""
    if not s.has("path"):
        raise Skip("the record has no trait 'path'")
    ridges = [2.0, 0.5, 30.0]
    found = s.solve(replace(s.case, parameters={**s.case.parameters, "ridge": ridges}))
    for ridge, one in zip(ridges, found.along_path(), strict=True):
        case = replace(s.case, parameters={**s.case.parameters, "ridge": ridge}, gentle=False)
        yield from (f"ridge {ridge:g} of a path: {fault}" for fault in s.faults(case, one))


def bad_data(s: Solver) -> Iterator[str]:
    """NaN and infinity are refused with NonFiniteData, in every matrix and kind of data."""
    for position, value in ((i, v) for i in range(len(s.case.matrices)) for v in (np.nan, np.inf)):
        spoilt = [X.copy() for X in s.case.matrices]
        spoilt[position][7, 1] = value
        lent = [X if i in s.reference.companions else aslinearoperator(X) for i, X in enumerate(spoilt)]
        for made in (spoilt, lent):
            said = "an answer"
            try:
                s.solve(s.case, made)
            except Exception as error:  # noqa: BLE001 (which one it is, is the question)
                said = "" if isinstance(error, (NonFiniteData, *REFUSED)) else repr(error)
            yield from unless(
                not said,
                f"{value} in matrix {position} must raise NonFiniteData; got {said}. Let this error pass",
            )


def peak(work: Callable[[], Any]) -> tuple[int, int]:
    """Return the largest number of bytes that work holds at once, and the number that it leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[::-1]
    finally:
        tracemalloc.stop()


def memory(s: Solver) -> Iterator[str]:
    """Many rows take memory in proportion to their number, sparse rows to their entries; nothing is kept afterwards."""
    if s.reference.pairwise or not s.exact:
        raise Skip("the solver is approximate, or the problem may hold a number for each pair of rows")
    rng = np.random.default_rng(0)
    tall = [X[rng.integers(0, len(X), 2000)] for X in s.case.matrices]
    size = sum(X.nbytes for X in tall)
    s.solve(s.case, tall, **EARLY)  # what a first run imports and caches
    most, left = peak(lambda: s.solve(s.case, tall, **EARLY))
    yield from unless(
        most <= 24 * size + 2**23,
        f"memory must grow with the rows, not with their square; {size / 1e6:.1f} MB take {most / 1e6:.0f} MB",
    )
    yield from unless(
        left <= size // 2, f"nothing of a problem may be kept after its solve; {left / 1e6:.2g} MB are"
    )
    if str(s.spec.needs) == "adjoint":
        X = scipy.sparse.random_array((40000, 100), density=0.01, rng=rng, format="csr")
        kept = s.reference.companions
        sparse = [
            A[rng.integers(0, len(A), 40000)] if i in kept else X + 0 for i, A in enumerate(s.case.matrices)
        ]
        most, _ = peak(lambda: s.solve(s.case, sparse, callback=lambda _: True))
        yield from unless(most < 3e7, f"sparse rows must stay sparse; 0.3 MB take {most / 1e6:.0f} MB")


def estimate(s: Solver) -> Iterator[str]:
    """The estimate of a solver is within a thousand times of the clock, and at least the time of reading the data."""
    if not s.has("automatic"):
        raise Skip("the record has no trait 'automatic'")
    few = s.reference.pairwise or "dense" in str(s.spec.needs)
    rows = np.random.default_rng(2).integers(0, len(s.case.matrices[0]), 500 if few else 20000)
    tall = [X[rows] for X in s.case.matrices]
    stated = s.cls.estimate(s.state(s.case, tall).sizes())
    if stated is None and s.cls.has_estimate():
        raise Skip("the solver declines these sizes")
    began = time.process_time()  # other processes may compute meanwhile
    s.solve(s.case, tall)
    took = time.process_time() - began
    seconds = 0.0 if stated is None else stated.seconds
    yield from unless(
        max(took / CLOCK, sum(X.nbytes for X in tall) / READING) <= seconds <= CLOCK * took,
        f"an estimate must be near the clock, and no less than the time of reading; it says {seconds:.2g} s, and the "
        f"run took {took:.2g} s",
    )


def settings() -> Mapping[str, Any]:
    """Return what belongs to the process and not to a plugin."""
    return {
        "the global generator of NumPy": repr(np.random.get_state()),  # noqa: NPY002
        "the global generator of Python": random.getstate(),
        "the error state of NumPy": np.geterr(),
        "the print options of NumPy": np.get_printoptions(),
        "the filters of warnings": list(warnings.filters),
        "os.environ": dict(os.environ),
        "the working folder": str(Path.cwd()),
    }


def left_behind(work: Callable[[], Any]) -> Iterator[str]:
    """Run work; yield what it prints, the warnings that are not linspec's, and what it changes in the process."""
    generator = np.random.get_state()  # noqa: NPY002
    states: tuple[tuple[int, Any], ...] = (1, "warn"), (2, "ignore")
    for start, state in states:  # what is set to one of them is changed from the other
        text = StringIO()
        with np.errstate(all=state), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.random.seed(start)  # noqa: NPY002
            before = settings()
            with redirect_stdout(text), redirect_stderr(text):
                work()
            after = settings()
        yield from unless(
            not text.getvalue(), f"nothing must be printed; got {text.getvalue()[:60]!r}. Log it"
        )
        kinds = [
            (w.category.__name__, w.message)
            for w in caught
            if not w.category.__module__.startswith("linspec")
        ]
        others = [f"{name}: {said}" for name, said in kinds if name != "ResourceWarning"]
        yield from unless(
            not others, f"no warnings must be given but linspec's; got {'; '.join(others)}. Silence them"
        )
        changed = ", ".join(name for name in before if before[name] != after[name])
        yield from unless(
            not changed, f"what belongs to the process must be left as it was; {changed} is changed"
        )
    np.random.set_state(generator)  # noqa: NPY002


def process(s: Solver) -> Iterator[str]:
    """A solve prints nothing, gives no warnings but linspec's, and leaves the process as it was."""
    problem = s.state(s.case)
    work = partial(ls.solve, problem, s.make(), rng=0, **EARLY)
    tuple(left_behind(work))  # its imports may warn, once
    yield from left_behind(work)


SOLVER_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    "accuracy": accuracy,
    "residual": residual,
    "weights": lambda s: equal(s, "sample_weight"),
    "confounds": lambda s: equal(s, "confounds"),
    "scale": lambda s: equal(s, "scale"),
    "units": units,
    "seed": seed,
    "passes": passes,
    "interrupt": interrupt,
    "resume": resume,
    "choices": choices,
    "path": path,
    "bad-data": bad_data,
    "memory": memory,
    "estimate": estimate,
    "process": process,
}
"""The checks by their names; `data` runs beside them on each kind of data."""
