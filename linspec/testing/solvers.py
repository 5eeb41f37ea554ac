"""The checks of a solver: each takes a `Solver`, yields the faults that it finds, and raises `Skip` if it says nothing.

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
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import linspec as ls
from linspec import registry
from linspec.arrays import to_host
from linspec.errors import (
    BrokenPlugin,
    BudgetTooSmall,
    InvalidOption,
    LinspecError,
    MissingCapability,
    NonFiniteData,
    UnsupportedData,
)
from linspec.testing.data import BACKENDS, Backend, Products, Slices
from linspec.testing.references import Case, Reference

__all__ = ["SOLVER_CHECKS", "Skip", "Solver", "left_behind", "reference_of"]

LOOSE = 100.0
"""Errors of values and spans may be this multiple of the residual, or of its root: gaps between values are no smaller."""

NEAR = 10.0
"""Factor by which a reported residual may differ from the recomputed one, since norms differ between problems."""

BESIDE = 300.0
"""Factor by which the last residual of the history, an estimate of the solver, may differ from the certificate's."""

PART = 1 / 3
"""Largest relative distance of the values of an approximate solver from the exact ones; random directions have a half."""

EXACT = 1e-13
"""A residual that says that an answer is exact to rounding."""

CLOCK = 1000.0
"""Factor by which an estimate of seconds may differ from the clock."""

READING = 1e12
"""Bytes a second that no memory delivers: an estimate below the time of reading the data at this rate is none."""


class Skip(Exception):  # noqa: N818 (it is not an error)
    """Raised by a check that does not apply; the message is the reason."""


class OnHost:
    """A solution whose arrays are NumPy's."""

    def __init__(self, solution: Any) -> None:
        self.solution = solution

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.solution, name)
        if callable(value):
            return lambda: to_host(value())
        if isinstance(value, tuple):
            return tuple(to_host(part) for part in value)
        return to_host(value) if hasattr(value, "__array_namespace__") or hasattr(value, "dtype") else value


def reference_of(problem: str) -> Reference:
    """Return the reference of a problem, which its record names."""
    place = registry.get_spec("problem", problem).testing
    if not place:
        raise BrokenPlugin(
            f"the record of the problem {problem!r} must name a Reference by testing='package.module:NAME'; it names "
            "none, so that its solvers cannot be judged."
        )
    module, _, name = place.partition(":")
    found = getattr(__import__(module, fromlist=[name]), name)
    if not isinstance(found, Reference):
        raise BrokenPlugin(
            f"{place} must be a linspec.testing.Reference; got {type(found).__name__}. The page docs/about/stability.md "
            "says what has changed."
        )
    return found


class Solver:
    """A solver under test.

    Parameters
    ----------
    spec : SolverSpec
    cls : type
    """

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls, self.problem = spec, cls, ls.get_problem(spec.problem)
        self.reference = reference_of(spec.problem)
        self.options = {field.name for field in dataclasses.fields(cls)}
        self.exact = not {"approximate", "demonstration"} & {*spec.traits}

    def has(self, trait: str) -> bool:
        """Whether the record has a trait."""
        return trait in self.spec.traits

    @cached_property
    def cases(self) -> Sequence[Case]:
        """The cases; the first alone for approximate solvers, from which no accuracy is required."""
        found = self.reference.cases()
        return found if self.exact else found[:1]

    @property
    def case(self) -> Case:
        """The first case."""
        return self.cases[0]

    def make(self, **options: Any) -> Any:
        """Make an instance, with those of the options that it has."""
        brief = {"max_iterations": 60} if self.has("demonstration") else {}
        given = {"tol": self.reference.tol, **brief, **self.reference.quick, **options}
        return self.cls(**{name: value for name, value in given.items() if name in self.options and value is not None})

    def state(self, case: Case, matrices: Sequence[Any] | None = None) -> Any:
        """State the problem of a case, on other data if they are passed."""
        data = [X.copy() for X in case.matrices] if matrices is None else list(matrices)
        return self.problem(*([data] if self.reference.several else data), **case.parameters)

    def solve(self, case: Case, matrices: Sequence[Any] | None = None, solver: Any = None, **words: Any) -> Any:
        """Solve a case without warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = self.state(case, matrices)
            return ls.solve(problem, self.make() if solver is None else solver, **{"rng": 0, **words})

    @cached_property
    def solved(self) -> Any:
        """The answer to the first case."""
        return self.solve(self.case)

    def wrapped(self, case: Case, wrap: Callable[[Any], Any], *, all_of_them: bool = False) -> list[Any]:
        """Turn the matrices of a case into other data; companions stay arrays unless all are to be turned."""
        kept = () if all_of_them else self.reference.companions
        return [X.copy() if i in kept else wrap(X) for i, X in enumerate(case.matrices)]

    def allowed(self, case: Case, *residuals: float) -> float:
        """Return the relative error of an answer that residuals and rounding explain."""
        largest = max((r for r in residuals if r > 0), default=0.0)
        return case.rounding + LOOSE * largest ** (0.5 if self.reference.squared else 1.0)

    def faults(self, case: Case, found: Any) -> Iterator[str]:
        """Yield what is wrong with an answer: its residual, its convergence, and its numbers."""
        answer, reference = OnHost(found), self.reference
        law = math.nan if reference.residual is None else reference.residual(case, answer)
        floor = case.rounding ** (2 if reference.squared else 1)
        if not (found.residual <= NEAR * law + floor and law <= NEAR * found.residual + floor) and law == law:
            yield f"the answer claims residual {found.residual:.3g}; its arrays have {law:.3g}. Return what linspec computes"
        if found.converged and not found.residual <= found.tol:
            yield (
                f"an answer that has converged needs a residual of at most tol, {found.tol:g}; it has "
                f"{found.residual:.3g} and says {found.status.name}. Return what linspec concludes"
            )
        must = self.exact and (case.gentle or self.has("direct"))
        if must and not found.converged and not found.residual <= floor:
            yield (
                f"the solver must reach its tolerance here; got {found.status.name}, residual {found.residual:.3g}. Is "
                "the answer that of another problem?"
            )
        if self.exact:
            yield from self.differences(case, answer, reference.exact(case), found.residual)

    def differences(
        self, case: Case, answer: Any, exact: Mapping[str, Any], *residuals: float
    ) -> Iterator[str]:
        """Yield the differences of an answer from exact numbers that its residual does not explain."""
        for name, value in self.reference.seen(case, answer).items():
            if name not in exact:
                continue
            if value.shape != exact[name].shape:
                yield f"{name} must have shape {exact[name].shape}; got {value.shape}. Return as many as there are"
                continue
            off = float(np.linalg.norm(value - exact[name])) / (float(np.linalg.norm(exact[name])) or 1.0)
            if not off <= self.allowed(case, *residuals):
                yield f"{name} must be the exact one; it is wrong by {off:.2g} of its size. Sort by size, and solve the problem as it is stated"
        if self.reference.signs:
            yield from self.wrong_signs(answer)

    def leading(self, answer: Any) -> Any:
        """Return the array of an answer whose library and signs are promised: the first of several, vectors as columns."""
        name = self.reference.arrays
        value = getattr(answer, name.removesuffix(".T"))
        first = value[0] if isinstance(value, tuple) else value
        return first.T if name.endswith(".T") else first

    def wrong_signs(self, answer: Any) -> Iterator[str]:
        """Yield a component whose largest entry is negative."""
        for j, v in enumerate(self.leading(answer).T):
            if not np.max(v) >= 0.99 * np.max(np.abs(v)):
                yield (
                    f"the largest entry of component {j} of {self.reference.arrays.removesuffix('.T')} must be positive; got "
                    f"{np.min(v):.3g}. Change the sign of the component in all arrays"
                )
                return


# ---- answers --------------------------------------------------------------------------------------


def accuracy(s: Solver) -> Iterator[str]:
    """Answers are exact within what their residuals explain; those of approximate solvers are nearer than chance."""
    for case in s.cases:
        found = s.solve(case)
        yield from (f"{case.name}: {fault}" for fault in s.faults(case, found))
    if s.exact or s.has("demonstration"):
        return
    seen, exact = s.reference.seen(s.case, OnHost(s.solved)), s.reference.exact(s.case)
    name = next(iter(seen))
    value = np.resize(np.append(np.ravel(seen[name]), np.zeros(exact[name].size)), exact[name].shape)
    off = float(np.linalg.norm(value - exact[name]) / np.linalg.norm(exact[name]))
    if not off <= PART:
        yield f"{name} of an approximate solver must be nearer to the exact ones than chance; they are off by {off:.2g} of their size"


def residual(s: Solver) -> Iterator[str]:
    """The residual is that of the returned arrays, also of a run that ends early, and the history agrees with it."""
    if not s.has("iterative"):
        raise Skip("the solver does not iterate")
    case = replace(s.cases[-1], gentle=False)
    for stop in (1, 3, None):  # at the end, too, with the usual tolerance
        given = {} if stop is None else {"callback": lambda progress, stop=stop: progress.iteration >= stop}
        found = s.solve(case, solver=s.make(oversample=0, **({"tol": 1e-6} if stop is None else {})), **given)
        if found.status is ls.Status.STOPPED:
            faults = (fault for fault in s.faults(case, found) if "claims" in fault)
            yield from (f"stopped at iteration {stop}: {fault}" for fault in faults)
        last = float(found.history["residual"][-1])
        floor = case.rounding ** (2 if s.reference.squared else 1)
        ratio = (last + floor) / (found.residual + floor)
        if s.exact and not 1 / BESIDE <= ratio <= BESIDE and found.residual == found.residual:
            yield (
                f"the last residual of the history must be about that of the answer, {found.residual:.2g}; it is "
                f"{last:.2g}. Yield the residual by the law of the problem"
            )


def callback(s: Solver) -> Iterator[str]:
    """A callback that returns True ends the run, with STOPPED; what it sees does not decrease."""
    if not s.has("iterative"):
        raise Skip("the solver does not iterate")
    seen: list[Any] = []
    found = s.solve(s.case, callback=lambda progress: seen.append(progress) or len(seen) == 2)
    ended = found.status in (ls.Status.STOPPED, ls.Status.APPROXIMATE) or found.converged
    if len(seen) > 2 or (len(seen) == 2 and not ended):
        yield f"a callback that returns True must end the run with STOPPED; got {found.status.name}. Make no step after it"
    history = found.history
    if any(np.any(np.diff(history[name]) < 0) for name in ("iteration", "passes", "seconds")):
        yield "iterations, passes and seconds of the history must not decrease; they do"


def data(s: Solver, backend: Backend) -> Iterator[str]:
    """On other kinds of data the answer is that of arrays; its arrays belong to the library of the data."""
    case = s.case
    if backend.name == "float32":
        rounded = tuple(X.astype(np.float32).astype(np.float64) for X in case.matrices)
        case = replace(case, matrices=rounded, rounding=1e-3, gentle=False)
    wrapped = s.wrapped(case, backend.wrap, all_of_them=bool(backend.library))
    before = [to_host(X).tobytes() for X in wrapped] if backend.library else []
    needy = bool(str(s.spec.needs) not in ("adjoint", "forward products only")) and not backend.library
    solver = s.make(tol=max(s.reference.tol, 1e-6) if backend.name == "float32" and s.reference.tol else s.reference.tol)
    try:
        found = s.solve(case, wrapped, solver)
    except (MissingCapability, UnsupportedData) as error:
        if needy or isinstance(error, UnsupportedData):
            raise Skip(f"{backend.name} data are refused: the solver needs {s.spec.needs}") from error
        raise
    if before != [to_host(X).tobytes() for X in wrapped] * bool(backend.library):
        yield "the data must stay as they are; they are changed. Work on a copy"
    if s.exact:
        yield from s.faults(case, found)
    if backend.library and s.reference.arrays and s.exact:
        first = s.leading(found)
        owner = type(first).__module__.partition(".")[0]
        if owner != backend.library:
            yield (
                f"arrays of the answer must be of {backend.library}, like the data; got {owner}. Place them where the "
                "data are"
            )
        wanted = "float32" if backend.name == "float32" else "float64"
        if not str(first.dtype).endswith(wanted):
            yield f"arrays of the answer must be {wanted}, like the data; got {first.dtype}"


def equal(s: Solver, *, weights: bool = False, confounds: bool = False, scale: bool = False) -> Iterator[str]:
    """Weights are repeated rows, confounds residuals of a regression, and scale divides columns: scores are equal."""
    wanted = {"sample_weight": weights, "confounds": confounds, "scale": scale}
    fields = {field.name for field in dataclasses.fields(s.problem)}
    if lacking := [name for name, asked in wanted.items() if asked and name not in fields]:
        raise Skip(f"the problem has no {lacking[0]}")
    if not s.exact:
        raise Skip("the solver is approximate")
    case, rng = s.case, np.random.default_rng(20)
    n, center = len(case.matrices[0]), bool(case.parameters.get("center", False))
    counts = rng.integers(0, 4, n) if weights else np.ones(n, dtype=int)
    Z, level = rng.standard_normal((n, 2)) + 3.0, np.full((n, 2), 3.0)  # new rows have equal confounds
    D, new = (np.hstack([np.ones((n, int(center))), B[:, : 2 * confounds]]) for B in (Z, level))
    plain, rows, repeated = [], [], np.repeat(D, counts, axis=0)
    for position, X in enumerate(case.matrices):
        A = np.repeat(X, counts, axis=0)
        fit = np.linalg.lstsq(repeated, A, rcond=None)[0]
        left = A - repeated @ fit
        divided = scale and position in (s.reference.scaled or range(len(case.matrices)))
        size = np.sqrt((left**2).mean(axis=0)) if divided else 1.0
        plain.append(left / size)
        rows.append((X - new @ fit) / size)
    values = {"sample_weight": counts.astype(float), "confounds": Z, "scale": True}
    given = {name: values[name] for name, asked in wanted.items() if asked}
    found = s.solve(replace(case, parameters={**case.parameters, **given}))
    same = s.solve(replace(case, matrices=tuple(plain)))
    what = {"sample_weight": "repeated rows", "confounds": "the residuals of a regression", "scale": "divided columns"}
    effect = f"{', '.join(given)} must have the effect of {' and '.join(what[name] for name in given)}"
    remedy = "Take the matrices and moments of the problem, which have it"
    if same.converged and not found.converged:
        yield f"{effect}; got {found.status.name}, residual {found.residual:.2g}. {remedy}"
        return
    beside = {"confounds": level} if confounds else {}
    got, right = scores(s, found, case.matrices, **beside), scores(s, same, rows)
    off = float(np.linalg.norm(got @ got.T - right @ right.T) / np.linalg.norm(right @ right.T))
    if not off <= s.allowed(case, found.residual, same.residual) + 1e-6:
        yield f"{effect}; scores differ by {off:.2g} of their size. {remedy}"


def scores(s: Solver, solution: Any, matrices: Sequence[Any], **beside: Any) -> Any:
    """Return the scores that an answer gives to rows, or differences of predictions, side by side."""
    rows = [X for i, X in enumerate(matrices) if i not in s.reference.companions]
    if hasattr(solution, "transform"):
        found = solution.transform(*rows, **beside)
        return np.hstack([to_host(block) for block in (found if isinstance(found, tuple | list) else [found])])
    return np.diff(to_host(solution.predict(*rows, **beside)), axis=0)


def units(s: Solver) -> Iterator[str]:
    """Data times 1e±50 have the answer of their unit; those beyond 1e±75 are refused or have it, too."""
    ridged = any(name in s.case.parameters for name in ("ridge", "ridges"))
    if ridged or not s.exact:
        raise Skip("the solver is approximate" if not s.exact else "the problem has a ridge, which is in units of the data")
    plain = scores(s, s.solved, s.case.matrices)
    for unit in (1e50, 1e-50, 1e75, 1e-75):
        case = replace(s.case, matrices=tuple(X * unit for X in s.case.matrices))
        try:
            found = s.solve(case)
        except LinspecError:
            if unit in (1e50, 1e-50):
                raise
            continue
        if not found.converged:
            yield (
                f"data times {unit:g} must be solved as in unit 1; got {found.status.name}, residual "
                f"{found.residual:.2g}. Compare with sizes of the data, never with a number"
            )
            continue
        got, right = (part / (np.abs(part).max() or 1.0) for part in (scores(s, found, case.matrices), plain))
        off = float(np.abs(got @ got.T - right @ right.T).max())
        if not off <= LOOSE * s.allowed(case, found.residual, s.solved.residual):
            yield f"data times {unit:g} must have the answer of unit 1, or be refused; scores differ by {off:.2g}"


# ---- the run --------------------------------------------------------------------------------------


def bits(s: Solver, solution: Any) -> bytes:
    """Return the bytes of all numbers of an answer."""
    values = [solution, *(vars(solution).values())]
    arrays = [part for value in values for part in (value if isinstance(value, tuple) else [value]) if hasattr(part, "dtype")]
    return b"".join(np.ascontiguousarray(to_host(part)).tobytes() for part in arrays if part.dtype.names is None and part.dtype.kind == "f")


def few(progress: Any) -> bool:
    """End a run after some iterations."""
    return bool(progress.iteration >= 5)


def seed(s: Solver) -> Iterator[str]:
    """Equal seeds give equal bits, also of an instance that has solved another problem; other seeds if it is random."""
    used, other = s.make(), replace(s.case, matrices=tuple(X[::-1] * 2.0 for X in s.case.matrices))
    first, second = (bits(s, s.solve(s.case, rng=rng, callback=few)) for rng in (7, np.random.default_rng(7)))
    if first != second:
        yield "equal seeds must give equal bits; two runs with rng=7 differ. Draw from run.rng alone"
        return
    s.solve(other, solver=used, rng=7, callback=few)
    if bits(s, s.solve(s.case, solver=used, rng=7, callback=few)) != first:
        yield "a solver must keep nothing of one problem for the next; an instance that was used has another answer"
    pairs = [[s.solve(case, rng=rng, callback=few) for rng in (8, 9)] for case in s.reference.cases()]
    same = all(bits(s, one) == bits(s, two) for one, two in pairs)
    if not same and not s.has("randomized"):
        yield "a solver whose answer changes with the seed must have the trait 'randomized'; add it to the record"
    elif same and s.has("randomized"):
        if all(one.residual <= EXACT ** (2 if s.reference.squared else 1) for one, _ in pairs):
            raise Skip("all answers are exact to rounding, so that no seed shows")
        yield "a solver with the trait 'randomized' must draw from run.rng; other seeds give the same bits"


def passes(s: Solver) -> Iterator[str]:
    """Passes are those that were made, and no more than max_passes."""
    refused = 0
    for kind in (Slices, Products):
        for most in (None, 2, 4, 9):
            made = s.wrapped(s.case, kind)
            counted = [X for X in made if isinstance(X, kind)]
            try:
                found = s.solve(s.case, made, max_passes=most, callback=few)
            except BudgetTooSmall:
                continue
            except (MissingCapability, UnsupportedData):
                refused += 1
                break
            count = max(X.passes for X in counted)
            if count > found.passes + 1e-9:
                yield f"passes must count every pass over {kind.__name__.lower()}; {count:g} were made, {found.passes:g} are claimed. Multiply with the matrices of the problem or its moments"
            if most is not None and max(count, found.passes) > most + 1e-9:
                yield f"a run must keep to max_passes={most}; it made {max(count, found.passes):g}. Let the run end it"
    if refused == 2:
        raise Skip(f"the solver needs {s.spec.needs}")


class Stopped(BaseException):
    """Raised by data in the middle of a pass."""


def interrupt(s: Solver) -> Iterator[str]:
    """An exception that is no Exception, raised by the data, reaches the caller."""
    for limit in (0.5, 1.5, 2.5):
        raised: list[float] = []

        class Ending(Slices):
            def __call__(self) -> Iterator[Any]:
                for part in super().__call__():
                    if self.passes > limit and not raised:  # noqa: B023 (it is called in this round)
                        raised.append(self.passes)  # noqa: B023
                        raise Stopped
                    yield part

        try:
            s.solve(s.case, s.wrapped(s.case, Ending))
        except Stopped:
            continue
        except (MissingCapability, UnsupportedData) as error:
            raise Skip(f"the solver needs {s.spec.needs}") from error
        else:
            if raised:
                yield (
                    "a BaseException of the data, such as Ctrl-C, must reach the caller; the solve went on at pass "
                    f"{raised[0]:g}. Catch Exception instead"
                )
                return


def resume(s: Solver) -> Iterator[str]:
    """A start or a checkpoint saves iterations if the trait says so; without it a start is refused."""
    if not s.has("warm-start"):
        try:
            s.solve(s.case, start=s.solved)
        except (LinspecError, TypeError):
            pass
        else:
            yield "without the trait 'warm-start' a start must be refused; it was taken"
    elif len(s.solved.history):
        began = s.solve(s.case, start=s.solved, rng=1).history["residual"]
        cold = s.solved.history["residual"][0]
        if len(began) and not began[0] < max(0.1 * cold, s.case.rounding):
            yield f"with the trait 'warm-start' a run must begin at its start; from its own answer the first residual is {began[0]:.2g}, without a start {cold:.2g}. Take the first block from run.start"
    if not s.has("resumable") or s.solved.iterations < 3:
        return
    middle, seen = s.solved.iterations // 2 + 1, list[float]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ckpt"
        part = s.solve(s.case, callback=lambda progress: progress.iteration >= middle, checkpoint=path)
        if not path.exists():
            if part.status is ls.Status.STOPPED:
                yield "with the trait 'resumable' a run that is stopped must leave its checkpoint; it left none"
            return
        found = s.solve(s.case, start=path, rng=None, callback=lambda progress: seen.append(progress.residual))
    first = float(part.history["residual"][-1])
    if seen and not seen[0] <= NEAR * first:
        yield f"gone on from a checkpoint, the first residual must be about the last one, {first:.2g}; it is {seen[0]:.2g}. All that the next step reads must be in the iterate"
    if s.exact:
        yield from (f"gone on from a checkpoint: {fault}" for fault in s.faults(s.case, found))


def choices(s: Solver) -> Iterator[str]:
    """Every listed value of an option solves the first case, or refuses it."""
    listed = [(o.name, value) for o in ls.describe(s.spec.qualified).options for value in o.choices or ()]
    listed += [(o.name, value) for o in ls.describe(s.spec.qualified).options for value in (True, False) if o.kind is bool]
    for name, value in listed:
        try:
            found = s.solve(s.case, solver=s.make(**{"tol": s.reference.tol and 1e-4, name: value}))
        except BrokenPlugin:
            raise
        except LinspecError:
            continue
        except Exception as error:
            raise RuntimeError(f"{name}={value!r} must solve the case or refuse it; {type(error).__name__}: {error}") from error
        yield from (f"{name}={value!r}: {fault}" for fault in s.faults(replace(s.case, gentle=False), found))


def traits(s: Solver) -> Iterator[str]:
    """A solver with the trait "one-pass" solves data that can be read once; one with "path" several ridges."""
    if s.has("one-pass"):
        made = s.wrapped(s.case, Slices)
        found = s.solve(s.case, [X() if isinstance(X, Slices) else X for X in made], s.cls())
        if found.residual == found.residual:
            yield from s.faults(replace(s.case, gentle=False), found)
    if any(field.name == "ridge" for field in dataclasses.fields(s.problem)) and s.spec.problem in ("least-squares", "kernel-ridge"):
        several = replace(s.case, parameters={**s.case.parameters, "ridge": [2.0, 0.5, 30.0]})
        try:
            found = s.solve(several)
        except MissingCapability:
            if s.has("path"):
                raise
            return
        for ridge, one in zip(several.parameters["ridge"], found.along_path(), strict=True):
            case = replace(several, parameters={**s.case.parameters, "ridge": ridge}, gentle=False)
            yield from (f"ridge {ridge:g} of a path: {fault}" for fault in s.faults(case, one))


def bad_data(s: Solver) -> Iterator[str]:
    """NaN and infinity are refused with NonFiniteData, in every matrix."""
    for position in range(len(s.case.matrices)):
        for value in (np.nan, np.inf):
            for wrap in (np.array, Products):
                spoilt = [X.copy() for X in s.case.matrices]
                spoilt[position][7, 1] = value
                if wrap is Products:
                    spoilt = s.wrapped(replace(s.case, matrices=tuple(spoilt)), Products)
                try:
                    s.solve(s.case, spoilt)
                except (NonFiniteData, MissingCapability, UnsupportedData):
                    continue
                except Exception as error:  # noqa: BLE001 (which one it is, is the question)
                    yield f"{value} in matrix {position} must raise NonFiniteData; got {type(error).__name__}: {error}. Let this error pass"
                    return
                yield f"{value} in matrix {position} must raise NonFiniteData; the solve went on"
                return


# ---- resources ------------------------------------------------------------------------------------


def peak(work: Callable[[], Any]) -> tuple[int, int]:
    """Return the largest number of bytes that work holds at once, and the number that it leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return most, left


def memory(s: Solver) -> Iterator[str]:
    """Many rows take memory in proportion to their number, sparse rows to their entries; nothing is kept afterwards."""
    if s.reference.pairwise or not s.exact:
        raise Skip("the problem may hold a number for each pair of rows" if s.reference.pairwise else "the solver is approximate")
    rows = np.random.default_rng(0).integers(0, len(s.case.matrices[0]), 6000)
    tall = [X[rows] for X in s.case.matrices]
    size = sum(X.nbytes for X in tall)
    s.solve(s.case, tall)  # what a first run imports and caches
    most, left = peak(lambda: s.solve(s.case, tall))
    if most > 24 * size + 2**24:
        yield f"memory must grow with the rows, not with their square; {len(rows)} rows of {size / 1e6:.1f} MB take {most / 1e6:.0f} MB"
    if left > size // 2:
        yield f"nothing of a problem may be kept after its solve; {left / 1e6:.2g} MB are. Keep what a run needs in its variables"
    if str(s.spec.needs) != "adjoint":
        return
    wide = scipy.sparse.random_array((40000, 100), density=0.01, rng=np.random.default_rng(1), format="csr")
    sparse = [X[rng_rows(len(X), wide.shape[0])] if i in s.reference.companions else wide + 0 for i, X in enumerate(s.case.matrices)]
    most, _ = peak(lambda: s.solve(s.case, sparse, callback=lambda progress: True))
    if most > 0.6 * wide.shape[0] * wide.shape[1] * 8:
        yield f"sparse rows must stay sparse; {wide.data.nbytes / 1e6:.1f} MB take {most / 1e6:.0f} MB, and would have {wide.shape[0] * wide.shape[1] * 8 / 1e6:.0f} MB as an array. Multiply with them"


def rng_rows(n: int, size: int) -> Any:
    """Return numbers of rows, drawn with replacement."""
    return np.random.default_rng(2).integers(0, n, size)


def estimate(s: Solver) -> Iterator[str]:
    """The estimate of a solver is within a thousand times of the clock, and at least the time of reading the data."""
    defined = s.cls.has_estimate()
    if defined != s.has("automatic"):
        yield "the trait 'automatic' and an estimate go together: the class must define estimate, or the record leave the trait out"
    if not (defined and s.has("automatic")):
        return
    rows = rng_rows(len(s.case.matrices[0]), 500 if s.reference.pairwise else 20000)
    tall = [X[rows] for X in s.case.matrices]
    stated = s.cls.estimate(s.state(s.case, tall).sizes())
    if stated is None:
        return
    began = time.perf_counter()
    s.solve(s.case, tall)
    took = time.perf_counter() - began
    least = max(took / CLOCK, sum(X.nbytes for X in tall) / READING)
    if not least <= stated.seconds <= CLOCK * took:
        yield f"an estimate must be within {CLOCK:g} times of the clock, and no less than the time of reading the data; it says {stated.seconds:.2g} s, and the run took {took:.2g} s"


def settings() -> dict[str, Any]:
    """Return what belongs to the process and not to a plugin."""
    return {
        "the global generator of NumPy": repr(np.random.get_state()[1:]),  # noqa: NPY002
        "the global generator of Python": random.getstate(),
        "the error state of NumPy": np.geterr(),
        "the print options of NumPy": np.get_printoptions(),
        "the filters of warnings": list(warnings.filters),
        "os.environ": dict(os.environ),
        "the working folder": os.getcwd(),
    }


def left_behind(work: Callable[[], Any]) -> Iterator[str]:
    """Run work; yield what it prints, the warnings that are not linspec's, and what it changes in the process."""
    generator = np.random.get_state()  # noqa: NPY002
    for start, state in ((1, "ignore"), (2, "warn")):  # what is set to one of them is changed from the other
        text = StringIO()
        with np.errstate(all=state), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.random.seed(start)  # noqa: NPY002
            before = settings()
            with redirect_stdout(text), redirect_stderr(text):
                work()
            after = settings()
        if text.getvalue():
            yield f"nothing must be printed; got {text.getvalue()[:60]!r}. Log it, or leave it out"
        strange = [w for w in caught if not w.category.__module__.startswith("linspec") and w.category is not ResourceWarning]
        yield from (
            f"no warnings must be given but those of linspec.errors; got {w.category.__name__}: {w.message}. Silence it "
            "where it is harmless"
            for w in strange[:1]
        )
        changed = [name for name in before if before[name] != after[name]]
        yield from (f"{name} must be left as it was; it is changed. Restore it" for name in changed)
    np.random.set_state(generator)  # noqa: NPY002


def process(s: Solver) -> Iterator[str]:
    """A solve prints nothing, gives no warnings but linspec's, and leaves the process as it was."""
    problem, solver = s.state(s.case), s.make()
    tuple(left_behind(lambda: ls.solve(problem, solver, rng=0)))  # its imports may warn, once
    yield from left_behind(lambda: ls.solve(problem, solver, rng=0))


SOLVER_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    "accuracy": accuracy,
    "residual": residual,
    "callback": callback,
    "weights": lambda s: equal(s, weights=True),
    "confounds": lambda s: equal(s, confounds=True),
    "scale": lambda s: equal(s, scale=True),
    "units": units,
    "seed": seed,
    "passes": passes,
    "interrupt": interrupt,
    "resume": resume,
    "choices": choices,
    "traits": traits,
    "bad-data": bad_data,
    "memory": memory,
    "estimate": estimate,
    "process": process,
}
"""The checks by their names; `data` runs on each kind of data beside them."""
