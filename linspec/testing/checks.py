"""The checks of solvers, problems, normalizers, test matrices and kinds of data, and the data on which they run.

Those of a solver take a `Solver`. A check raises `CheckFailed` for a fault, and `Skip` if it does not apply.

Problem: a solver can be wrong in ways that no residual of its own shows.
Method: its answers are compared with the reference of the problem, with answers to equal problems (a weight of three is
three equal rows; Frisch & Waugh 1933), and with the passes that were counted from outside.
Source: metamorphic testing, Chen, Cheung & Yiu 1998; scikit-learn's estimator checks.
Where we differ: nothing is read but what a user sees: arguments of `linspec.solve` and attributes of solutions.

Problem: "works on any data" is a claim about libraries and files that the author of a solver may not have.
Method: each kind turns a NumPy array into its own data. array-api-strict stands for the libraries that are not
installed: its devices cannot be mixed, so that an array made without `device=` is noticed.
Source: the backend table of SciPy's array-API tests.

Problem: the faults of another part show as slow convergence of the methods that use it, or not at all.
Method: each promise is tested on small arrays, by products with NumPy. An operator is compared with the matrix whose
products it has.
Source: Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44 (orthogonality).
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import errors, registry
from linspec.arrays import to_host
from linspec.operators import RowFiles
from linspec.testing.references import Case, Reference

LOOSE = 100.0  # the largest error of an answer in units of its residual
NEAR = 10.0  # the largest factor between a residual and the one of the arrays
HISTORY = 300.0  # the largest factor between the last residual of the history and that of the answer
CHANCE = 1 / 3  # the largest relative error of an approximate solver; random directions have a half

REFUSED = errors.MissingCapability, errors.UnsupportedData


class CheckFailed(AssertionError):  # noqa: N818 (a result of the test, not an error of the kit)
    """Raised if a part breaks the contract; the message says how, and names its file and line.

    Examples
    --------
    >>> from linspec.testing import CheckFailed
    >>> issubclass(CheckFailed, AssertionError)
    True
    """


class Skip(Exception):  # noqa: N818 (it is not an error)
    """Raised by a check that does not apply; the message is the reason."""


def require(holds: Any, fault: str) -> None:
    """Raise `CheckFailed` unless something holds."""
    if not holds:
        raise CheckFailed(fault)


def needs(holds: Any, reason: str) -> None:
    """Raise `Skip` unless a check applies."""
    if not holds:
        raise Skip(reason)


def early(progress: Any) -> bool:
    """End a run after some iterations, as its callback."""
    return bool(progress.iteration >= 5)


def on_host(value: Any) -> Any:
    """Return a copy of an answer, or of one of its attributes, whose arrays are NumPy's."""
    if isinstance(value, ls.Solution):
        copy = SimpleNamespace(**{name: on_host(part) for name, part in vars(value).items()})
        copy.coefficients = lambda: to_host(getattr(value, "coefficients")())  # noqa: B009 (not of all problems)
        return copy
    if isinstance(value, tuple):
        return tuple(map(on_host, value))
    return to_host(value) if hasattr(value, "dtype") else value


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
        data = matrices or [X.copy() for X in case.matrices]
        return self.problem(*([data] if self.reference.several else data), **case.parameters)

    def solve(self, case: Case, matrices: Any = None, solver: Any = None, rng: Any = 0, **words: Any) -> Any:
        """Solve a case."""
        return ls.solve(self.state(case, matrices), solver or self.make(), rng=rng, **words)

    @cached_property
    def solved(self) -> Any:
        """The answer to the first case."""
        return self.solve(self.case)

    def wrapped(self, wrap: Callable[[Any], Any], case: Case) -> list[Any]:
        """Turn the matrices of a case into other data; companions stay arrays."""
        return [X.copy() if i in self.reference.companions else wrap(X) for i, X in enumerate(case.matrices)]

    def floor(self, case: Case) -> float:
        """Return the residual that rounding explains."""
        return case.rounding ** (2 if self.reference.squared else 1)

    def allowed(self, case: Case, *solutions: Any) -> float:
        """Return the relative error of answers that residuals and rounding explain."""
        largest = max(0.0, *(solution.residual for solution in solutions))
        return float(case.rounding + LOOSE * largest ** (0.5 if self.reference.squared else 1))

    def leading(self, answer: Any) -> Any:
        """Return the array of an answer whose library and signs are promised, or the first of several."""
        value = attrgetter(self.reference.arrays)(answer)
        return value[0] if isinstance(value, tuple) else value

    def scores(self, solution: Any, matrices: Sequence[Any], **row_data: Any) -> Any:
        """Return the scores that an answer gives to rows, or differences of its predictions."""
        rows = [X for i, X in enumerate(matrices) if i not in self.reference.companions]
        if not hasattr(solution, "transform"):
            return np.diff(to_host(solution.predict(*rows, **row_data)), axis=0)
        blocks = solution.transform(*rows, **row_data)
        return np.hstack([*map(to_host, blocks if isinstance(blocks, tuple | list) else [blocks])])

    def claims(self, case: Case, solution: Any) -> None:
        """Compare the residual of an answer with that of its arrays."""
        if self.reference.residual:
            actual, claimed = self.reference.residual(case, on_host(solution)), solution.residual
            off = max(claimed - NEAR * actual, actual - NEAR * claimed)
            require(
                off <= self.floor(case) or math.isnan(actual),
                f"{case.name}: the answer claims residual {claimed:.3g}; its arrays have {actual:.3g}. Return what "
                "linspec computes",
            )

    def right(self, case: Case, solution: Any) -> None:
        """Test the residual of an answer, its convergence, its numbers and signs."""
        self.claims(case, solution)
        text = f"got {solution.status.name}, residual {solution.residual:.3g}"
        require(
            solution.residual <= solution.tol or not solution.converged,
            f"{case.name}: an answer that has converged needs a residual of at most tol; {text}",
        )
        if not self.exact:
            return
        reached = solution.converged or solution.residual <= self.floor(case)
        require(
            reached or not (case.gentle or self.has("direct")),
            f"{case.name}: the solver must reach its tolerance here; {text}. Is the answer that of another problem?",
        )
        answer, exact = on_host(solution), self.reference.exact(case)
        seen = self.reference.seen(case, answer)
        require(
            seen.keys() & exact.keys(),
            "the reference must compare something of an answer; it compares nothing",
        )
        for name, value in seen.items():
            wanted = exact.get(name, value)
            require(
                value.shape == wanted.shape,
                f"{case.name}: {name} must have shape {wanted.shape}; got {value.shape}. Return as many as there are",
            )
            off = distance(value, wanted)
            require(
                off <= self.allowed(case, solution),
                f"{case.name}: {name} must be the exact one; it is wrong by {off:.2g} of its size. Sort by size, "
                "compare with sizes of the data, and solve the problem as it is stated",
            )
        if self.reference.signs:
            W = self.leading(answer)
            require(
                np.all(W.max(axis=0) >= -0.99 * W.min(axis=0)),
                f"the largest entry of each component of {self.reference.arrays.removesuffix('.T')} must be positive. "
                "Change the sign in all arrays",
            )


def accuracy(s: Solver) -> None:
    """Answers are exact within what their residuals explain; those of approximate solvers are nearer than chance."""
    for case in s.cases:
        s.right(case, s.solve(case))
    if s.has("approximate") and not s.has("demonstration"):
        name, seen = next(iter(s.reference.seen(s.case, on_host(s.solved)).items()))
        wanted = s.reference.exact(s.case)[name].ravel()
        off = distance(np.append(seen, 0 * wanted)[: wanted.size], wanted)  # what is left out is zero
        require(
            off <= CHANCE, f"{name} must be nearer to the exact ones than chance; they are off by {off:.2g}"
        )


def residual(s: Solver) -> None:
    """The residual is that of the arrays, also where a callback ends the run; the history agrees with it."""
    needs(s.has("iterative"), "the solver does not iterate")
    usual, last = s.make(oversample=0), s.cases[-1]
    runs = [(case, 1, usual) for case in s.cases[-3:]]  # in three units, where cases are the usual ones
    for case, stop, solver in [*runs, (last, 3, usual), (last, 10**9, s.make(oversample=0, tol=1e-6))]:
        iterations: list[int] = []

        def ends(progress: Any, stop: int = stop, seen: list[int] = iterations) -> bool:
            seen.append(progress.iteration)
            return bool(seen[-1] >= stop)

        solution, floor = s.solve(case, solver=solver, callback=ends), s.floor(case)
        s.claims(case, solution)
        require(
            len(iterations) <= stop + 1,
            f"a callback that returns True must end the run; got {solution.status.name} later",
        )
        ratio = (solution.history["residual"][-1] + floor) / (solution.residual + floor)
        require(
            1 / HISTORY <= ratio <= HISTORY or not s.exact,
            f"{case.name}: the last residual of the history must be about that of the answer; it is {ratio:.2g} times "
            "as large. Yield the residual as the problem's certificate measures it",
        )


def data(s: Solver, backend: Backend) -> None:
    """On other kinds of data the answer is that of arrays, and its arrays belong to the library of the data."""
    needs(not backend.missing(), backend.missing())
    case, solver, dtype = s.case, s.make(), "float64"
    if backend.name == "float32":
        case = replace(case.mapped(lambda X: X.astype(np.float32).astype(float)), rounding=1e-3, gentle=False)
        solver, dtype = s.make(tol=1e-6), "float32"
    if backend.name == "iterator":
        needs(s.has("one-pass"), "the record has no trait 'one-pass'")
        solver = s.cls()
    if not backend.library:
        solution = s.solve(case, s.wrapped(backend.wrap, case), solver)
    else:
        arrays = [backend.wrap(X) for X in case.matrices]
        solution = s.solve(case, arrays, solver)
        same = all(np.array_equal(to_host(A), X) for A, X in zip(arrays, case.matrices, strict=True))
        require(same, "the data must stay as they are; they are changed. Work on a copy")
    if s.exact and backend.library and s.reference.arrays:
        array = s.leading(solution)
        kind = f"{type(array).__module__.partition('.')[0]}, {str(array.dtype).rpartition('.')[2]}"
        wanted = f"{backend.library}, {dtype}"
        require(kind == wanted, f"arrays of the answer must be of {wanted}, like the data; got {kind}")
    if s.exact and not math.isnan(solution.residual):  # of rows that are read once it is NaN
        s.right(case, solution)


def preprocessing(s: Solver, parameters: Sequence[str], effect: str) -> None:
    """Weights are repeated rows, confounds residuals of a regression, and scale divides columns: scores are equal."""
    able = s.exact and {*parameters} <= {field.name for field in fields(s.problem)}
    needs(able, "the solver is approximate, or the problem does not take them")
    rng, n = np.random.default_rng(20), len(s.case.matrices[0])
    counts = rng.integers(0, 4, n) if "sample_weight" in parameters else np.ones(n, dtype=int)
    Z = rng.standard_normal((n, 2 if "confounds" in parameters else 0)) + 3.0
    level = np.full(
        Z.shape, 3.0
    )  # the confounds of new rows: all equal, so that differences do not depend on them
    constant = np.ones((n, int(s.case.parameters.get("center", False))))
    plain, rows = [], []
    for position, X in enumerate(s.case.matrices):
        D, A = (np.repeat(M, counts, axis=0) for M in (np.hstack([constant, Z]), X))
        fit = np.linalg.lstsq(D, A, rcond=None)[0]
        left = A - D @ fit
        divided = "scale" in parameters and position in s.reference.scaled
        size = np.sqrt(np.mean(left**2, axis=0)) if divided else 1.0
        plain.append(left / size)
        rows.append((X - np.hstack([constant, level]) @ fit) / size)
    values = {"sample_weight": counts.astype(float), "confounds": Z, "scale": True}
    solution = s.solve(s.case.changed(**{name: values[name] for name in parameters}))
    same = s.solve(replace(s.case, matrices=tuple(plain)))
    wanted = s.scores(same, rows)
    got = s.scores(solution, s.case.matrices, **({"confounds": level} if Z.size else {}))
    off = distance(got @ got.T, wanted @ wanted.T)
    require(
        off <= s.allowed(s.case, solution, same) + 1e-6 and solution.converged >= same.converged,
        f"{' and '.join(parameters)} must have the effect of {effect}; scores differ by {off:.2g} of their size. Take "
        "the moments, which have it",
    )


def bad_data(s: Solver) -> None:
    """NaN, infinity and negative weights are refused."""
    for position in range(len(s.case.matrices)):
        for value in (np.nan, np.inf):
            spoilt = s.case.mapped(np.copy)
            spoilt.matrices[position][7, 1] = value
            for matrices in (None, s.wrapped(aslinearoperator, spoilt)):
                outcome = "an answer"
                try:
                    s.solve(spoilt, matrices)
                except Exception as error:  # noqa: BLE001 (which one it is, is the question)
                    outcome = "" if isinstance(error, (errors.NonFiniteData, *REFUSED)) else repr(error)
                require(not outcome, f"{value} in matrix {position} must raise NonFiniteData; got {outcome}")
    with suppress(errors.LinspecError, TypeError):
        s.state(s.case.changed(sample_weight=-np.ones(9)))
        require(
            False, "weights that are negative, and too few, must be refused. Call super().__post_init__()"
        )


def answers(s: Solver) -> None:
    """Scores of a row do not depend on other rows, and a saved answer is read back with the same numbers."""
    whole, part = (s.scores(s.solved, [X[:n] for X in s.case.matrices]) for n in (None, 9))
    same = np.allclose(whole[: len(part)], part, atol=1e-8 * np.abs(whole).max())
    require(same and np.any(whole), "scores of a row must not be all zero, nor depend on other rows; they do")
    with tempfile.TemporaryDirectory() as folder:
        s.solved.save(Path(folder) / "answer.npz")
        again = ls.load_solution(Path(folder) / "answer.npz")
    for name, value in vars(s.solved).items():
        same = (
            not hasattr(value, "dtype") or to_host(value).tobytes() == to_host(getattr(again, name)).tobytes()
        )
        require(same, f"a saved answer must be read back as it was; {name} differs")


def seed(s: Solver) -> None:
    """Equal seeds give equal bits, also of an instance that was used before; other seeds, too, unless it is random."""

    def bits(rng: Any, solver: Any = None, case: Case = s.case) -> bytes:
        solution = s.solve(case, solver=solver, rng=rng, callback=early)
        return bytes(s.scores(solution, case.matrices).tobytes())

    used = s.make()
    bits(7, used, s.case.mapped(lambda X: X[::-1] * 2.0))
    first, second, third = bits(7), bits(np.random.default_rng(7)), bits(7, used)
    require(
        first == second,
        "equal seeds must give equal bits; two runs with rng=7 differ. Draw from context.rng alone",
    )
    require(first == third, "a solver must keep nothing of one problem for the next; a used one differs")
    require(
        s.has("randomized") or bits(8) == bits(9),
        "an answer that changes with the seed needs the trait 'randomized'; add it to the record",
    )


def passes(s: Solver) -> None:
    """Passes are those that were made, at most max_passes; a BaseException of the data ends the solve."""
    for limit in (None, 2, 4, 9):
        slices = s.wrapped(Slices, s.case)
        with suppress(errors.BudgetTooSmall):
            solution = s.solve(s.case, slices, max_passes=limit, callback=early)
            count = slices[0].passes - 1e-9
            require(
                count <= solution.passes,
                f"passes must count every pass; {count:.3g} were made, and {solution.passes:g} are claimed. Multiply "
                "with the moments",
            )
            require(
                max(count, solution.passes) <= (limit or math.inf),
                f"a run must keep to max_passes={limit}; it made {solution.passes:g}. Let the loop end it",
            )
    for until in (0.5, 1.5, 2.5):
        slices = s.wrapped(partial(Slices, until=until), s.case)
        with suppress(Stopped):
            s.solve(s.case, slices)
            require(
                not slices[0].stopped,
                "a BaseException of the data must reach the caller; the solve went on. Catch Exception instead",
            )


def resume(s: Solver) -> None:
    """A start or a checkpoint saves iterations if the trait says so; without it a start is refused."""
    warm: Any = None
    with suppress(errors.LinspecError, TypeError):
        warm = s.solve(s.case, start=s.solved, rng=1)
    taken = warm is not None
    cold = s.solved.history
    require(
        taken == s.has("warm-start"), "a start must be taken if the trait 'warm-start' says so, else refused"
    )
    if taken and len(warm.history) and len(cold):
        require(
            warm.history["residual"][0] < max(0.1 * cold["residual"][0], s.case.rounding),
            "a run must begin at its start; from its own answer the first residual is no smaller. Take start",
        )
    if s.has("resumable") and s.solved.iterations >= 3:
        with tempfile.TemporaryDirectory() as folder:
            go_on(s, Path(folder) / "run.ckpt")


def go_on(s: Solver, path: Path) -> None:
    """End a run in the middle, and go on from its checkpoint."""
    middle, residuals = s.solved.iterations // 2 + 1, list[float]()
    part = s.solve(s.case, callback=lambda step: step.iteration >= middle, checkpoint=path)
    needs(part.status is ls.Status.STOPPED, "the run ended before its middle")
    rest = s.solve(s.case, start=path, rng=None, callback=lambda step: residuals.append(step.residual))
    require(
        residuals[0] <= NEAR * part.history["residual"][-1],
        "gone on from a checkpoint, the first residual must be about the last one. All that the next step reads must "
        "be in the iterate",
    )
    s.right(replace(s.case, name="gone on from a checkpoint"), rest)


def choices(s: Solver) -> None:
    """Every value of an option solves the first case, or refuses it; by the traits so do several ridges, a share."""
    for option in ls.describe(s.spec.qualified).options or ():
        for value in option.choices or ((True, False) if option.kind is bool else ()):
            with suppress(errors.LinspecError):
                solver = s.make(**{option.name: value})
                solution = s.solve(s.case, solver=solver, callback=lambda step: step.iteration > 20)
                s.right(replace(s.case, name=f"{option.name}={value!r}", gentle=False), solution)
    if s.has("share"):
        s.right(s.case, s.solve(s.case.changed(k=0.999999 * s.solved.explained_variance_ratio.sum())))
    if s.has("path"):
        ridges = [2.0, 0.5, 30.0]
        for ridge, solution in zip(ridges, s.solve(s.case.changed(ridge=ridges)).along_path(), strict=True):
            s.right(
                replace(s.case.changed(ridge=ridge), name=f"ridge {ridge:g} of a path", gentle=False),
                solution,
            )


def tall(s: Solver, n: int) -> Case:
    """Return the first case with its rows repeated."""
    return s.case.mapped(lambda X: np.resize(X, (n, X.shape[1])))


def sparse(s: Solver) -> None:
    """Of sparse rows in blocks, at most a tenth is made dense."""
    needs(
        s.exact and not s.reference.pairwise and str(s.spec.needs) == "adjoint",
        "the solver is approximate, or may hold a number for each pair of rows, or needs entries",
    )
    rows = scipy.sparse.random_array((40000, 100), density=0.01, rng=0, format="csr")
    case, entries, dense_rows = tall(s, 40000), scipy.sparse.csr_array.toarray, [0]

    def counted(matrix: Any, *args: Any, **words: Any) -> Any:
        dense_rows[0] += matrix.shape[0] * (matrix.shape[1] == rows.shape[1])
        return entries(matrix, *args, **words)

    with patch.object(scipy.sparse.csr_array, "toarray", counted):
        s.solve(case, s.wrapped(lambda _: rows, case), callback=lambda _: True)
    text = f"sparse rows must stay sparse; {dense_rows[0]} of 40000 were made dense"
    require(dense_rows[0] <= rows.shape[0] // 10, text)


def solver_of(spec: Any) -> Solver:
    """Return a solver of a kind of problem for its checks: an exact one that iterates, if there is one."""
    records = [registry.get_spec("solver", name, spec.name) for name in ls.solvers(spec.name)]
    solvers = [Solver(record, ls.get_solver(record.name, spec.name)) for record in records]
    return max(solvers, key=lambda s: (s.exact, s.has("iterative")))


PROBLEM_CHECKS: dict[str, Callable[[Solver], None]] = {
    "accuracy": accuracy,
    "residual": residual,
    "weights": lambda s: preprocessing(s, ["sample_weight"], "repeated rows"),
    "confounds": lambda s: preprocessing(s, ["confounds"], "residuals of a regression"),
    "scale": lambda s: preprocessing(s, ["scale"], "divided columns"),
    "together": lambda s: preprocessing(s, ["sample_weight", "confounds", "scale"], "all three"),
    "bad-data": bad_data,
    "answers": answers,
}
"""The checks of a solver that a kind of problem must pass, too, with one of its solvers."""
SOLVER_CHECKS: dict[str, Callable[[Solver], None]] = {
    **PROBLEM_CHECKS,
    "seed": seed,
    "passes": passes,
    "resume": resume,
    "choices": choices,
    "sparse": sparse,
}
"""The checks of a solver by their names; `data` is one more for each kind of data."""


Array = np.ndarray[Any, Any]
HEIGHT = 17
"""The number of rows of a slice."""


class Stopped(BaseException):
    """Raised by data in the middle of a pass."""


class Slices:
    """A callable that yields rows in slices and counts its passes; after `until` of them it raises `Stopped`, once."""

    def __init__(self, entries: Array, until: float = math.inf) -> None:
        self.entries, self.until, self.passes, self.stopped = entries, until, 0.0, False

    def __call__(self) -> Iterator[Array]:
        for start in range(0, len(self.entries), HEIGHT):
            if self.passes > self.until and not self.stopped:
                self.stopped = True
                raise Stopped
            part = self.entries[start : start + HEIGHT]
            self.passes += len(part) / len(self.entries)
            yield part.copy()


@dataclass(frozen=True)
class Backend:
    """A kind of data.

    Attributes
    ----------
    name : str
    wrap : callable
        Turns a NumPy array into data.
    library : str, default ""
        The library of the arrays, which the arrays of an answer must belong to; "" if the data are no arrays.

    Examples
    --------
    >>> from linspec.testing import BACKENDS
    >>> [backend.name for backend in BACKENDS if not backend.library]
    ['csr', 'slices', 'iterator', 'products']
    """

    name: str
    wrap: Callable[[Array], Any]
    library: str = ""

    def missing(self) -> str:
        """Return the reason why there are no such data here, or ""."""
        here = not self.library or importlib.util.find_spec(self.library)
        return "" if here else f"no {self.library}"


def _backwards(x: Array) -> Array:
    """Return a read-only copy whose entries lie in memory in reverse order, with gaps."""
    everything = tuple(slice(None, None, -2) for _ in x.shape)
    copy: Array = np.zeros([2 * size for size in x.shape], x.dtype)[everything]
    copy[...] = x
    copy.flags.writeable = False
    return copy


def _strict(x: Array) -> Any:
    import array_api_strict

    return array_api_strict.asarray(x.copy(), device=array_api_strict.Device("device1"))


def _of(library: str) -> Callable[[Array], Any]:
    return lambda x: importlib.import_module(library).asarray(x.copy())


BACKENDS: tuple[Backend, ...] = (
    Backend("numpy", np.array, "numpy"),
    Backend("layout", _backwards, "numpy"),
    Backend("float32", lambda x: x.astype(np.float32), "numpy"),
    Backend("csr", scipy.sparse.csr_array),
    Backend("slices", Slices),
    Backend("iterator", lambda x: Slices(x)()),
    Backend("products", aslinearoperator),
    Backend("array-api-strict", _strict, "array_api_strict"),
    Backend("torch", _of("torch"), "torch"),
    Backend("cupy", _of("cupy"), "cupy"),
)
"""All kinds of data, those that are missing here, too."""


DRAWS = 600  # of a test matrix, to estimate its moments
ERRORS = 5.0  # the largest error of a moment, in standard errors


def copied(block: Any) -> Array:
    """Return a copy of a block as an array of NumPy, in float64."""
    return np.array(to_host(block), dtype=float)


# ---- normalizers and test matrices ----------------------------------------------------------------


def blocks() -> Iterator[tuple[str, int, Array, Array | None]]:
    """Make blocks V: their names, ranks, entries and the products M V with a metric, or None for M = I."""
    rng = np.random.default_rng(5)
    root = rng.standard_normal((50, 50)) + 10 * np.eye(50)
    thin, V = rng.standard_normal((60, 3)), rng.standard_normal((50, 5))
    yield "tall", 6, rng.standard_normal((150, 6)) * np.geomspace(1, 30, 6), None
    yield "more columns than rows", 5, rng.standard_normal((5, 12)), None
    yield "dependent columns", 3, np.hstack([thin, -2 * thin]), None
    yield "zeros", 0, np.zeros((30, 4)), None
    yield "long", 8, rng.standard_normal((2000, 8)) @ np.triu(np.ones((8, 8))), None
    yield "in a metric", 5, V, root @ root.T @ V


def orthonormal(normalizer: Any) -> None:
    """QᵀMQ = I with as many columns as the rank, and Q = V T, on every library, in float64 and float32."""
    for backend in BACKENDS:
        if backend.library and not backend.missing():
            for name, rank, V, MV in blocks():
                factored(normalizer, backend, f"{name}, {backend.name}", rank, V, MV)


def factored(normalizer: Any, backend: Backend, name: str, rank: int, V: Array, MV: Array | None) -> None:
    """Compare the Q and T of a block with their definition."""
    block = backend.wrap(V)
    before, eps = copied(block), float(np.finfo(to_host(block).dtype).eps)
    Q, T = normalizer.orthonormalize(block, None if MV is None else backend.wrap(MV))
    require(
        np.array_equal(before, copied(block)), f"{name}: V must stay as it is; it is changed. Work on a copy"
    )
    q = copied(Q)
    shapes = ((len(V), rank), (V.shape[1], rank))
    kinds = type(Q), Q.dtype, type(T), (q.shape, T.shape)
    wanted = type(block), block.dtype, np.ndarray, shapes
    require(
        kinds == wanted,
        f"{name}: Q must be an array like V, T one of NumPy, of rank {rank}: {wanted}; got {kinds}",
    )
    room = 2000 * eps if MV is None else 40000 * eps
    off = np.abs(q.T @ (q if MV is None else MV @ T) - np.eye(rank)).max(initial=0.0)
    require(off <= room, f"{name}: Q must be orthonormal; QᵀMQ differs from I by {off:.2g}. Sum in float64")
    off = np.abs(q - before @ T).max(initial=0.0)
    size = np.abs(V).max() * np.abs(T).max(initial=0.0)
    require(
        off <= room * max(1.0, size),
        f"{name}: Q must be VT; they differ by {off:.2g}. Return the T of this Q",
    )


def refusals(normalizer: Any) -> None:
    """Data that are not finite, and blocks of wrong shapes, are refused."""
    good = np.random.default_rng(0).standard_normal((20, 3))
    bad = good.copy()
    bad[7, 1] = np.nan
    for what, block, error in (
        ("NaN in V", (bad,), errors.NonFiniteData),
        ("NaN in MV", (good, bad), errors.NonFiniteData),
        ("a V of one dimension", (good[:, 0],), errors.InvalidProblem),
        ("a V of integers", (np.ones((20, 3), int),), errors.LinspecError),
    ):
        with suppress(error):
            normalizer.orthonormalize(*block)
            require(False, f"{what} must raise {error.__name__}; it was taken")


def draws(matrix: Any) -> None:
    """Equal generators give equal entries of the right shape, also as an operator; other ones give others."""
    for shape in ((40, 9), (5, 12), (23, 1)):
        first, second, third = (matrix.draw(*shape, np.random.default_rng(seed)) for seed in (7, 7, 8))
        kind = type(first), first.dtype, first.shape
        require(
            kind == (np.ndarray, np.float64, shape),
            f"draw must be float64 of NumPy, of shape {shape}; got {kind}",
        )
        require(
            np.array_equal(first, second) and not np.array_equal(first, third),
            "draw must be equal for equal generators and change with the generator. Draw from rng alone",
        )
        sketch = matrix.operator(*shape, np.random.default_rng(7))
        A = np.ones((4, shape[0]))
        product = copied(sketch.sketch(ls.as_operator(A)))
        require(
            np.array_equal(copied(sketch.dense()), first) and np.allclose(product, A @ first, atol=1e-10),
            f"operator{shape} must have the entries of draw, and sketch by them; they differ",
        )


def moments(matrix: Any) -> None:
    """E Ω = 0 and E ΩΩᵀ = l I, within the errors of some hundred draws."""
    for rows, columns in ((13, 6), (5, 9)):
        drawn = np.array([matrix.draw(rows, columns, np.random.default_rng([3, i])) for i in range(DRAWS)])
        products = drawn @ drawn.transpose(0, 2, 1) / columns
        for what, values in (("E Ω must be 0", drawn), ("E ΩΩᵀ/l must be I", products - np.eye(rows))):
            error = values.std(axis=0) / DRAWS**0.5 + 1e-12
            off = np.max(np.abs(values.mean(axis=0)) / error)
            require(off <= ERRORS, f"{what}; it is {off:.1f} standard errors away")


# ---- kinds of data --------------------------------------------------------------------------------


def check_operator(data: Any, *, entries: Array | None = None) -> list[str]:
    """Test an operator, or data that `linspec.as_operator` takes, against the laws of operators.

    Parameters
    ----------
    data : data of shape (n, p)
        Small, since its entries are formed.
    entries : numpy.ndarray of shape (n, p), optional
        Its entries, where they are known. By default they are computed by products with the identity.

    Returns
    -------
    list of str
        The faults; empty if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import check_operator
    >>> check_operator(np.eye(3))
    []
    """
    try:
        laws(ls.as_operator(data), entries)
    except CheckFailed as fault:
        return [str(fault)]
    return []


def formed(A: Any) -> Any:
    """Return the entries of an operator, by products with the identity."""
    return A.matmat(A.device.blocks.asarray(np.eye(A.shape[1])))


def same(A: Any, block: Any, wanted: Array, fault: str) -> None:
    """Compare a block of an operator with the right one, but for rounding in its dtype."""
    room = 1e3 * float(np.finfo(A.dtype).eps) * np.abs(wanted).max(initial=1e-300)
    near = block.shape == wanted.shape and np.abs(copied(block) - wanted).max(initial=0.0) <= room
    require(near, fault)


def declared(A: Any, block: Any) -> None:
    """Products and rows have the dtype of their operator; sums over rows may be more exact."""
    text = f"an operator must return its declared dtype {A.dtype}; got {block.dtype}. Convert it"
    require(str(block.dtype).endswith(A.dtype.name), text)


def laws(A: Any, entries: Array | None) -> None:
    """Products are linear and adjoint, and leave their blocks as they are; rows are rows."""
    try:
        M = copied(formed(A))
    except Exception as error:
        shape = tuple(A.shape)
        text = f"matmat must multiply a block of {shape[1]} rows, since shape is {shape}; it raised {error!r}"
        raise CheckFailed(text) from error
    require(M.shape == tuple(A.shape), f"shape must be {M.shape}, that of the products; got {tuple(A.shape)}")
    M = M if entries is None else entries
    rng, (n, p) = np.random.default_rng(0), M.shape
    V, U = (A.device.asarray(rng.standard_normal((size, 3)), A.dtype) for size in (p, n))
    v, u = copied(V), copied(U)
    forward, adjoint = A.matmat(V), A.rmatmat(U)
    require(
        np.array_equal(copied(V), v) and np.array_equal(copied(U), u),
        "matmat and rmatmat must leave their blocks as they are; one writes into it. Work on a copy",
    )
    declared(A, forward)
    same(A, forward, M @ v, "matmat must be linear, with the products of the entries; it is not")
    same(A, adjoint, M.T @ u, "rmatmat(U) must be AᵀU, for the A with which matmat multiplies")
    names = A.column_names
    texts = names is None or [*map(type, names)] == [str] * p
    require(texts, f"column_names must be None or a tuple of {p} texts; got {names!r:.60}")
    rows(A, M)


def rows(A: Any, M: Array) -> None:
    """Rows by their numbers are these rows, in this order and as often."""
    n = len(M)
    for chosen in (slice(0, n), slice(n // 3, 2 * n // 3 + 1), np.array([n // 2, 0, n - 1, n // 2])):
        try:
            part = A.rows(chosen)
        except errors.MissingCapability:
            return
        block = formed(part)
        came = [int(np.abs(M - row).sum(axis=1).argmin()) for row in copied(block)]
        fault = f"rows {chosen} must be these rows, in this order and as often; they come as rows {came}"
        declared(A, part)
        same(A, block, M[chosen], fault)


def sample_of(spec: Any) -> Any:
    """Make the sample that the record of an adapter names."""
    if spec.sample:
        return resolve_name(spec.sample)()
    raise errors.BrokenPlugin(
        "the record must name a function that makes a small object: sample='module:function'"
    )


def adapts(spec: Any) -> None:
    """The adapter takes its sample, and nothing that is not its own."""
    sample, operator = sample_of(spec), ls.as_operator(np.eye(2))
    require(spec.matches(sample) is True, "matches must be True for the sample; it is not")
    require(
        isinstance(spec.adapt(sample), ls.LinearOperator), "adapt must return a LinearOperator; it does not"
    )
    for foreign in (np.eye(2), object(), "name", 3, None, [1, 2], operator, RowFiles(("rows.unknown",))):
        require(
            not spec.matches(foreign),
            f"matches must be False for {type(foreign).__name__} of others, and files of other formats; it is True."
            " Look at the class of the data, and compare the suffix",
        )


CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "normalizer": {
        "orthonormal": orthonormal,
        "bad-data": refusals,
    },
    "test-matrix": {
        "draws": draws,
        "moments": moments,
    },
    "operator": {
        "adapts": adapts,
        "laws": lambda spec: laws(spec.adapt(sample_of(spec)), None),
    },
    "problem": PROBLEM_CHECKS,
    "solver": SOLVER_CHECKS,
}
"""The checks of parts by kind and name."""
