"""The checks of a solver. Each takes a `Solver`, yields the faults that it finds, and raises `Skip` if it says nothing.

Problem: a solver can be wrong in ways that no residual of its own shows.
Method: its answers are compared with the reference of the problem, with answers to equal problems (a weight of three is
three equal rows; Frisch & Waugh 1933), and with what was counted from outside: products, readings, bytes and seconds.
Source: metamorphic testing, Chen, Cheung & Yiu 1998; scikit-learn's estimator checks.
Where we differ: nothing is read but what a user sees: arguments of `linspec.solve` and attributes of solutions.
"""

from __future__ import annotations

import gc
import math
import os
import random
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import fields, replace
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import errors, registry
from linspec.arrays import to_host
from linspec.testing.data import Backend, Slices, Stopped
from linspec.testing.references import Case, Reference

Faults = Iterator[str]

LOOSE = 100.0  # the largest error of an answer in units of its residual
NEAR = 10.0  # the largest factor between a residual and the one of the arrays
HISTORY = 300.0  # the largest factor between the last residual of the history and that of the answer
CHANCE = 1 / 3  # the largest relative error of an approximate solver; random directions have a half
EXACT = 1e-11  # a residual at rounding, where the seed has no effect any more
CLOCK = 1000.0  # the largest factor between an estimate and the clock

REFUSED = errors.MissingCapability, errors.UnsupportedData

EFFECTS = {
    "sample_weight": "repeated rows",
    "confounds": "residuals of a regression",
    "scale": "divided columns",
}


class Skip(Exception):  # noqa: N818 (it is not an error)
    """Raised by a check that does not apply; the message is the reason."""


def labelled(label: str, faults: Iterable[str]) -> Faults:
    """Say where faults are."""
    return (f"{label}: {fault}" for fault in faults)


def early(progress: Any) -> bool:
    """End a run after some iterations, as its callback."""
    return bool(progress.iteration >= 5)


def on_host(solution: Any) -> Any:
    """Return a copy of an answer whose arrays are NumPy's."""

    def copied(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(copied(part) for part in value)
        return to_host(value) if hasattr(value, "dtype") else value

    copy = SimpleNamespace(**{name: copied(value) for name, value in vars(solution).items()})
    copy.coefficients = lambda: to_host(solution.coefficients())
    return copy


def distance(value: Any, wanted: Any) -> float:
    """Return the relative error of an array."""
    return float(np.linalg.norm(value - wanted) / (np.linalg.norm(wanted) or 1.0))


def reference_of(problem: str) -> Reference:
    """Return the reference of a problem, which its record names."""
    place = registry.get_spec("problem", problem).testing
    reference = resolve_name(place) if place else None
    if isinstance(reference, Reference):
        return reference
    raise errors.BrokenPlugin(
        f"the record of the problem {problem!r} must name a linspec.testing.Reference by testing='module:NAME', or its "
        f"solvers cannot be judged; got {place or 'nothing'}. See docs/about/stability.md."
    )


class Solver:
    """A solver under test."""

    problem: Any

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls = spec, cls
        self.problem = ls.get_problem(spec.problem)
        self.reference = reference_of(spec.problem)
        self.exact = not (self.has("approximate") or self.has("demonstration"))
        self.cases = self.reference.cases()[: None if self.exact else 1]
        self.case = self.cases[0]

    def has(self, trait: str) -> bool:
        """Whether the record has a trait."""
        return trait in self.spec.traits

    def make(self, **options: Any) -> Any:
        """Make an instance, with those of the options that it has."""
        brief = {"max_iterations": 60} if self.has("demonstration") else {}
        options = {**brief, **self.reference.options, **options}
        return self.cls(**{f.name: options[f.name] for f in fields(self.cls) if f.name in options})

    def state(self, case: Case, matrices: Any = None) -> Any:
        """State the problem of a case, with other data in place of its matrices if there are any."""
        data = [X.copy() for X in case.matrices] if matrices is None else matrices
        return self.problem(*([data] if self.reference.several else data), **case.parameters)

    def solve(self, case: Case, matrices: Any = None, solver: Any = None, rng: Any = 0, **words: Any) -> Any:
        """Solve a case without warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ls.solve(self.state(case, matrices), solver or self.make(), rng=rng, **words)

    @cached_property
    def solved(self) -> Any:
        """The answer to the first case."""
        return self.solve(self.case)

    def wrapped(self, wrap: Callable[[Any], Any], matrices: Sequence[Any] | None = None) -> list[Any]:
        """Turn the matrices of the first case, or others, into other data; companions stay arrays."""
        data = [X.copy() for X in matrices or self.case.matrices]
        return [X if i in self.reference.companions else wrap(X) for i, X in enumerate(data)]

    def error(self, residual: float) -> float:
        """Return the error of an answer that a residual stands for."""
        return residual**0.5 if self.reference.squared else residual

    def allowed(self, case: Case, *solutions: Any) -> float:
        """Return the relative error of answers that residuals and rounding explain."""
        return case.rounding + LOOSE * max(0.0, *(self.error(solution.residual) for solution in solutions))

    def leading(self, answer: Any) -> Any:
        """Return the array of an answer whose library and signs are promised, or the first of several."""
        name = self.reference.arrays
        value = getattr(answer, name.removesuffix(".T"))
        first = value[0] if isinstance(value, tuple) else value
        return first.T if name.endswith(".T") else first

    def scores(self, solution: Any, matrices: Sequence[Any], **others: Any) -> Any:
        """Return the scores that an answer gives to rows, or differences of its predictions."""
        rows = [X for i, X in enumerate(matrices) if i not in self.reference.companions]
        if not hasattr(solution, "transform"):
            return np.diff(to_host(solution.predict(*rows, **others)), axis=0)
        blocks = solution.transform(*rows, **others)
        return np.hstack([to_host(block) for block in (blocks if isinstance(blocks, tuple | list) else [blocks])])

    def claims(self, case: Case, solution: Any) -> Faults:
        """Compare the residual of an answer with that of its arrays."""
        if self.reference.residual is None:
            return
        actual, claimed = self.reference.residual(case, on_host(solution)), solution.residual
        floor = self.floor(case)
        near = claimed <= NEAR * actual + floor and actual <= NEAR * claimed + floor
        if not near and not math.isnan(actual):
            yield f"the answer claims residual {claimed:.3g}; its arrays have {actual:.3g}. Return what linspec computes"

    def floor(self, case: Case) -> float:
        """Return the residual that rounding explains."""
        return case.rounding ** (2 if self.reference.squared else 1)

    def faults(self, case: Case, solution: Any) -> Faults:
        """Yield what is wrong with an answer: its residual, its convergence, its numbers and signs."""
        yield from self.claims(case, solution)
        text = f"{solution.status.name}, residual {solution.residual:.3g}"
        if solution.converged and not solution.residual <= solution.tol:
            yield f"an answer that has converged needs a residual of at most tol; got {text}. Return what linspec concludes"
        if not self.exact:
            return
        reached = solution.converged or solution.residual <= self.floor(case)
        if (case.gentle or self.has("direct")) and not reached:
            yield f"the solver must reach its tolerance here; got {text}. Is the answer that of another problem?"
        answer, exact = on_host(solution), self.reference.exact(case)
        seen = self.reference.seen(case, answer)
        compared = [name for name in seen if name in exact]
        if not compared:
            yield "the reference must compare an answer with the exact one; it compares nothing"
        for name in compared:
            value, wanted = seen[name], exact[name]
            if value.shape != wanted.shape:
                yield f"{name} must have shape {wanted.shape}; got {value.shape}. Return as many as there are"
            elif not (off := distance(value, wanted)) <= self.allowed(case, solution):
                yield (
                    f"{name} must be the exact one; it is wrong by {off:.2g} of its size. Sort by size, and solve the "
                    "problem as it is stated"
                )
        if self.reference.signs:
            W, name = self.leading(answer), self.reference.arrays.removesuffix(".T")
            if np.any(W.max(axis=0) < 0.99 * np.abs(W).max(axis=0)):
                yield f"the largest entry of each component of {name} must be positive. Change the sign in all arrays"


def accuracy(s: Solver) -> Faults:
    """Answers are exact within what their residuals explain; those of approximate solvers are nearer than chance."""
    for case in s.cases:
        yield from labelled(case.name, s.faults(case, s.solve(case)))
    if s.has("approximate") and not s.has("demonstration"):
        name, seen = next(iter(s.reference.seen(s.case, on_host(s.solved)).items()))
        wanted = s.reference.exact(s.case)[name].ravel()
        value = np.append(seen, np.zeros(wanted.size))[: wanted.size]  # what is left out is zero
        if not (off := distance(value, wanted)) <= CHANCE:
            yield f"{name} must be nearer to the exact ones than chance; they are off by {off:.2g} of their size"


def residual(s: Solver) -> Faults:
    """The residual is that of the arrays, also in other units and where a callback ends; the history agrees with it."""
    if not s.has("iterative"):
        raise Skip("the solver does not iterate")
    last = 0

    def ends(progress: Any) -> bool:
        nonlocal last
        last = progress.iteration
        return last >= stop

    units = (1.0,) if "ridge" in s.cases[-1].parameters else (1.0, 1e50, 1e-50)
    for stop, tol, unit in [(1, 0.0, unit) for unit in units] + [(3, 0.0, 1.0), (10**9, 1e-6, 1.0)]:
        case = s.cases[-1].mapped(lambda X, unit=unit: X * unit)
        solver = s.make(oversample=0, **({"tol": tol} if tol else {}))
        solution = s.solve(case, solver=solver, callback=ends)
        yield from labelled(f"data times {unit:g}, ended at {stop}", s.claims(case, solution))
        if last > stop:
            yield f"a callback that returns True must end the run; got {solution.status.name} later"
        ratio = (solution.history["residual"][-1] + s.floor(case)) / (solution.residual + s.floor(case))
        if s.exact and not 1 / HISTORY <= ratio <= HISTORY:
            yield (
                f"the last residual of the history must be about that of the answer; it is {ratio:.2g} times as large. "
                "Yield the residual by the law of the problem"
            )


def data(s: Solver, backend: Backend) -> Faults:
    """On other kinds of data the answer is that of arrays, and its arrays belong to the library of the data."""
    if backend.missing():
        raise Skip(backend.missing())
    if backend.name == "iterator" and not s.has("one-pass"):
        raise Skip("the record has no trait 'one-pass'")
    case, solver, dtype = s.case, s.cls() if backend.name == "iterator" else s.make(), "float64"
    if backend.name == "float32":
        rounded = case.mapped(lambda X: X.astype(np.float32).astype(float))
        case, solver, dtype = replace(rounded, rounding=1e-3, gentle=False), s.make(tol=1e-6), "float32"
    matrices = [backend.wrap(X) for X in case.matrices] if backend.library else s.wrapped(backend.wrap)
    before = [to_host(X).tobytes() for X in matrices if backend.library]
    solution = s.solve(case, matrices, solver)
    if before != [to_host(X).tobytes() for X in matrices if backend.library]:
        yield "the data must stay as they are; they are changed. Work on a copy"
    if s.exact and not math.isnan(solution.residual):  # of rows that are read once it is NaN
        yield from s.faults(case, solution)
    if s.exact and backend.library and s.reference.arrays:
        array = s.leading(solution)
        kind = f"{type(array).__module__.partition('.')[0]}, {str(array.dtype).rpartition('.')[2]}"
        if kind != f"{backend.library}, {dtype}":
            yield f"arrays of the answer must be of {backend.library}, {dtype}, like the data; got {kind}"


def equal(s: Solver, *asked: str) -> Faults:
    """Compare the scores of a problem with weights, confounds or scale with those of a plain problem."""
    rng, n = np.random.default_rng(20), len(s.case.matrices[0])
    counts = rng.integers(0, 4, n) if "sample_weight" in asked else np.ones(n, dtype=int)
    Z = rng.standard_normal((n, 2 if "confounds" in asked else 0)) + 3.0
    level = np.full(Z.shape, 3.0)  # the confounds of new rows: all equal, so that differences do not depend on them
    constant = np.ones((n, 1 if s.case.parameters.get("center") else 0))
    design, new = np.hstack([constant, Z]), np.hstack([constant, level])
    plain, rows = [], []
    for position, X in enumerate(s.case.matrices):
        known, repeated = (np.repeat(M, counts, axis=0) for M in (design, X))
        fit = np.linalg.lstsq(known, repeated, rcond=None)[0]
        left = repeated - known @ fit
        divided = "scale" in asked and position in s.reference.scaled
        size = np.sqrt(np.mean(left**2, axis=0)) if divided else 1.0
        plain.append(left / size)
        rows.append((X - new @ fit) / size)
    values = {"sample_weight": counts.astype(float), "confounds": Z, "scale": True}
    solution = s.solve(s.case.changed(**{name: values[name] for name in asked}))
    same = s.solve(replace(s.case, matrices=tuple(plain)))
    got = s.scores(solution, s.case.matrices, **({"confounds": level} if "confounds" in asked else {}))
    wanted = s.scores(same, rows)
    off = distance(got @ got.T, wanted @ wanted.T)
    if not off <= s.allowed(s.case, solution, same) + 1e-6 or solution.converged < same.converged:
        effects = " and ".join(EFFECTS[name] for name in asked)
        yield (
            f"{' and '.join(asked)} must have the effect of {effects}; scores differ by {off:.2g} of their size. Take "
            "the matrices and moments of the problem, which have it"
        )


def preprocessing(s: Solver) -> Faults:
    """Weights are repeated rows, confounds residuals of a regression, and scale divides columns: scores are equal."""
    asked = [field.name for field in fields(s.problem) if field.name in EFFECTS]
    if not (s.exact and asked):
        raise Skip("the solver is approximate, or the problem has no weights, confounds and scale")
    for name in asked:
        yield from equal(s, name)
    yield from equal(s, *asked)
    with suppress(errors.LinspecError):
        s.solve(s.case.changed(sample_weight=-np.ones(9)))
        yield "negative weights, and too few, must be refused by an error of linspec. Call super().__post_init__()"


def answers(s: Solver) -> Faults:
    """Scores of a row do not depend on other rows, and a saved answer is read back with the same numbers."""
    whole, part = (s.scores(s.solved, [X[:n] for X in s.case.matrices]) for n in (None, 9))
    if not (np.any(whole) and np.allclose(whole[: len(part)], part, atol=1e-8 * np.abs(whole).max())):
        yield "scores of a row must not be all zero, nor depend on other rows; they do"
    with tempfile.TemporaryDirectory() as folder:
        s.solved.save(Path(folder) / "answer.npz")
        again = ls.load_solution(Path(folder) / "answer.npz")
    for name, value in vars(s.solved).items():
        if hasattr(value, "dtype") and not np.array_equal(value, getattr(again, name)):
            yield f"a saved answer must be read back as it was; {name} differs"


def units(s: Solver) -> Faults:
    """Data times 1e±50 have the answer of their unit; those beyond may be refused."""
    if not s.exact or {"ridge", "ridges"} & s.case.parameters.keys():
        raise Skip("the solver is approximate, or the problem has numbers in units of the data")
    wanted = s.scores(s.solved, s.case.matrices)
    for unit, refusal in ((1e50, ()), (1e-50, ()), (1e75, errors.LinspecError), (1e-75, errors.LinspecError)):
        case = s.case.mapped(lambda X, unit=unit: X * unit)
        with suppress(refusal):
            solution = s.solve(case)
            got = s.scores(solution, case.matrices)
            got, wanted = (scores / (np.abs(scores).max() or 1.0) for scores in (got, wanted))
            off = distance(got @ got.T, wanted @ wanted.T)
            if not (solution.converged and off <= LOOSE * s.allowed(case, solution, s.solved)):
                yield (
                    f"data times {unit:g} must be solved as in unit 1, or refused beyond 1e±60; scores differ by "
                    f"{off:.2g}. Compare with sizes of the data, never with a number"
                )


def bits(solution: Any) -> bytes:
    """Return the bytes of all arrays of an answer."""
    arrays = []
    for value in vars(on_host(solution)).values():
        parts = value if isinstance(value, tuple) else [value]
        arrays += [part.tobytes() for part in parts if isinstance(part, np.ndarray) and part.dtype.kind == "f"]
    return b"".join(arrays)


def seed(s: Solver) -> Faults:
    """Equal seeds give equal bits, also of an instance that was used before; other seeds others if it is random."""
    used = s.make()
    s.solve(s.case.mapped(lambda X: X[::-1] * 2.0), solver=used, rng=7, callback=early)
    first, second = (bits(s.solve(s.case, rng=rng, callback=early)) for rng in (7, np.random.default_rng(7)))
    if first != second:
        yield "equal seeds must give equal bits; two runs with rng=7 differ. Draw from run.rng alone"
    elif first != bits(s.solve(s.case, solver=used, rng=7, callback=early)):
        yield "a solver must keep nothing of one problem for the next; a used one differs"
    same, shown = True, False
    for case in s.reference.cases():
        one, two = (s.solve(case, rng=rng, callback=early) for rng in (8, 9))
        same = same and bits(one) == bits(two)
        shown = shown or not s.error(one.residual) <= EXACT
    if not same and not s.has("randomized"):
        yield "an answer that changes with the seed needs the trait 'randomized'; add it to the record"
    if same and shown and s.has("randomized"):
        yield "the trait 'randomized' means that run.rng is drawn from; other seeds give the same bits"


def passes(s: Solver) -> Faults:
    """Passes are those that were made, at most max_passes; what the data raise ends the solve, if it is no Exception."""
    for limit in (None, 2, 4, 9):
        slices = s.wrapped(Slices)
        with suppress(errors.BudgetTooSmall):
            solution = s.solve(s.case, slices, max_passes=limit, callback=early)
            count = max(X.passes for X in slices if isinstance(X, Slices)) - 1e-9
            if count > solution.passes:
                yield (
                    f"passes must count every pass; {count:.3g} were made, and {solution.passes:g} are claimed. Multiply "
                    "with the matrices of the problem or its moments"
                )
            if limit and max(count, solution.passes) > limit:
                yield f"a run must keep to max_passes={limit}; it made {solution.passes:g}. Let the run end it"
    for until in (0.5, 1.5, 2.5):
        slices = s.wrapped(partial(Slices, until=until))
        with suppress(Stopped):
            s.solve(s.case, slices)
            if any(isinstance(X, Slices) and X.stopped for X in slices):
                yield "a BaseException of the data must reach the caller; the solve went on. Catch Exception instead"


def resume(s: Solver) -> Faults:
    """A start or a checkpoint saves iterations if the trait says so; without it a start is refused."""
    warm: Any = None
    with suppress(errors.LinspecError, TypeError):
        warm = s.solve(s.case, start=s.solved, rng=1)
    if (warm is not None) != s.has("warm-start"):
        yield "a start must be taken if the trait 'warm-start' says so, else refused"
    if warm is not None and len(warm.history) and len(s.solved.history):
        cold = s.solved.history["residual"][0]
        if not warm.history["residual"][0] < max(0.1 * cold, s.case.rounding):
            yield "a run must begin at its start; from its own answer the first residual is no smaller. Take run.start"
    if s.has("resumable") and s.solved.iterations >= 3:
        with tempfile.TemporaryDirectory() as folder:
            yield from labelled("gone on from a checkpoint", interrupted(s, Path(folder) / "run.ckpt"))


def interrupted(s: Solver, checkpoint: Path) -> Faults:
    """End a run in the middle, and go on from its checkpoint."""
    middle, residuals = s.solved.iterations // 2 + 1, list[float]()
    part = s.solve(s.case, callback=lambda progress: progress.iteration >= middle, checkpoint=checkpoint)
    if part.status is not ls.Status.STOPPED:
        return
    rest = s.solve(s.case, start=checkpoint, rng=None, callback=lambda step: residuals.append(step.residual))
    if not residuals[0] <= NEAR * part.history["residual"][-1]:
        yield "the first residual must be about the last one. All that the next step reads must be in the iterate"
    yield from s.faults(s.case, rest)


def choices(s: Solver) -> Faults:
    """Every value of an option solves the first case, or refuses it; with the trait "path" so do several ridges."""
    gentle = replace(s.case, gentle=False)
    for option in ls.describe(s.spec.qualified).options or ():
        for value in option.choices or ((True, False) if option.kind is bool else ()):
            with suppress(errors.LinspecError):
                solver = s.make(**{option.name: value})
                solution = s.solve(s.case, solver=solver, callback=lambda progress: progress.iteration > 20)
                yield from labelled(f"{option.name}={value!r}", s.faults(gentle, solution))
    if s.has("path"):
        ridges = [2.0, 0.5, 30.0]
        path = s.solve(s.case.changed(ridge=ridges)).along_path()
        for ridge, solution in zip(ridges, path, strict=True):
            yield from labelled(f"ridge {ridge:g} of a path", s.faults(gentle.changed(ridge=ridge), solution))


def bad_data(s: Solver) -> Faults:
    """NaN and infinity are refused with NonFiniteData, in every matrix, of arrays and of products."""
    for position in range(len(s.case.matrices)):
        for value in (np.nan, np.inf):
            spoilt = [X.copy() for X in s.case.matrices]
            spoilt[position][7, 1] = value
            for matrices in (spoilt, s.wrapped(aslinearoperator, spoilt)):
                outcome = "an answer"
                try:
                    s.solve(s.case, matrices)
                except (errors.NonFiniteData, *REFUSED):
                    continue
                except Exception as error:  # noqa: BLE001 (which one it is, is the question)
                    outcome = repr(error)
                yield f"{value} in matrix {position} must raise NonFiniteData; got {outcome}. Let this error pass"


def peak(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the largest number of megabytes that work holds at once, and the number that it leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return most / 1e6, left / 1e6


def memory(s: Solver) -> Faults:
    """Many rows take memory in proportion to their number, sparse rows to their entries; nothing is kept afterwards."""
    if s.reference.pairwise or not s.exact:
        raise Skip("the solver is approximate, or the problem may hold a number for each pair of rows")
    tall = [np.resize(X, (2000, X.shape[1])) for X in s.case.matrices]
    size = sum(X.nbytes for X in tall) / 1e6
    solve = partial(s.solve, s.case, tall, callback=early)
    solve()  # what a first run imports and caches
    most, left = peak(solve)
    if most > 24 * size + 8:
        yield f"memory must grow with the rows, not with their square; {size:.1f} MB take {most:.0f} MB"
    if left > size / 2:
        yield f"nothing of a problem may be kept after its solve; {left:.2g} MB are"
    if str(s.spec.needs) == "adjoint":
        long = [np.resize(X, (40000, X.shape[1])) for X in s.case.matrices]
        rows = scipy.sparse.random_array((40000, 100), density=0.01, rng=0, format="csr")
        most, _ = peak(partial(s.solve, s.case, s.wrapped(lambda _: rows, long), callback=lambda _: True))
        if most > 30:
            yield f"sparse rows must stay sparse; 0.3 MB take {most:.0f} MB"


def estimate(s: Solver) -> Faults:
    """The estimate of a solver is within a thousand times of the clock."""
    if not s.has("automatic"):
        raise Skip("the record has no trait 'automatic'")
    n = 500 if s.reference.pairwise or "dense" in str(s.spec.needs) else 20000
    problem = s.state(s.case, [np.resize(X, (n, X.shape[1])) for X in s.case.matrices])
    stated = s.cls.estimate(problem.sizes())
    if stated is None and s.cls.has_estimate():
        raise Skip("the solver declines these sizes")
    began = time.process_time()  # other processes may compute meanwhile
    ls.solve(problem, s.make(), rng=0)
    took, seconds = time.process_time() - began, stated.seconds if stated else 0.0
    if not took / CLOCK <= seconds <= CLOCK * took:
        yield f"an estimate must be within {CLOCK:g} times of the clock; it says {seconds:.2g} s, the run took {took:.2g} s"


def settings() -> dict[str, Any]:
    """Return what belongs to the process and not to a plugin."""
    return {
        "the global generator of NumPy": repr(np.random.get_state()),  # noqa: NPY002
        "the global generator of Python": random.getstate(),
        "the error state of NumPy": np.geterr(),
        "the print options of NumPy": np.get_printoptions(),
        "the filters of warnings": list(warnings.filters),
        "os.environ": dict(os.environ),
        "the working folder": Path.cwd(),
    }


def left_behind(work: Callable[[], Any]) -> Faults:
    """Run work; yield what it prints, the warnings that are not linspec's, and what it changes in the process."""
    generator, printed = np.random.get_state(), StringIO()  # noqa: NPY002

    def warn(kind: str, _: int) -> None:
        warnings.warn(kind, RuntimeWarning, stacklevel=2)

    # A seed and an error state that no work sets, so that every setting is a change.
    with np.errstate(all="call", call=warn), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.random.seed(918273645)  # noqa: NPY002
        before = settings()
        with redirect_stdout(printed), redirect_stderr(printed):
            work()
        after = settings()
    np.random.set_state(generator)  # noqa: NPY002
    if printed.getvalue():
        yield f"nothing must be printed; got {printed.getvalue()[:60]!r}. Log it"
    for warning in caught:
        kind = warning.category
        if kind is not ResourceWarning and not kind.__module__.startswith("linspec"):
            yield f"no warnings must be given but linspec's; got {kind.__name__}: {warning.message}. Silence it"
    for name, value in before.items():
        if after[name] != value:
            yield f"what belongs to the process must be left as it was; {name} is changed"


def process(s: Solver) -> Faults:
    """A solve prints nothing, gives no warnings but linspec's, and leaves the process as it was."""
    problem, solver = s.state(s.case), s.make()

    def work() -> None:
        s.scores(ls.solve(problem, solver, rng=0, callback=early), s.case.matrices)

    list(left_behind(work))  # its imports may warn, once
    yield from left_behind(work)


def solver_of(spec: Any) -> Solver:
    """Return a solver of a kind of problem for its checks: an exact one that iterates, if there is one."""
    records = [registry.get_spec("solver", name, spec.name) for name in ls.solvers(spec.name)]
    solvers = [Solver(record, ls.get_solver(record.name, spec.name)) for record in records]
    return max(solvers, key=lambda s: (s.exact, s.has("iterative")))


SOLVER_CHECKS: dict[str, Callable[[Solver], Faults]] = {
    "accuracy": accuracy,
    "residual": residual,
    "preprocessing": preprocessing,
    "units": units,
    "answers": answers,
    "seed": seed,
    "passes": passes,
    "resume": resume,
    "choices": choices,
    "bad-data": bad_data,
    "memory": memory,
    "estimate": estimate,
    "process": process,
}
"""The checks by their names; `data` is one more for each kind of data."""
PROBLEM_CHECKS = "accuracy", "residual", "preprocessing", "units", "answers", "process"
"""Those that a kind of problem must pass with one of its solvers."""
