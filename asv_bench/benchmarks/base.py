"""The parts that the benchmarks of all solvers share: data of several kinds, backends, and the four measurements.

Backends and data are listed here, families and solvers by their records (`benchmarks.records`). All lists are the same
for every commit; what a machine or an old commit lacks is skipped with its reason.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

BACKENDS = os.environ.get("LINSPEC_BENCH_BACKENDS", "numpy,torch,cupy").split(",")
"""The variable chooses: "numpy" alone, or array-api-strict, whose passes and errors count, and times do not."""

PROBLEMS = ["tall", "words", "one-hot"]

MOST_ITERATIONS = 50
"""Slow solvers are cut off here: their error then says how far they got."""


def optional(name: str) -> Any:
    """A module, or None where this machine or this commit has it not."""
    try:
        return import_module(name)
    except ImportError:
        return None


def attribute(module: str, name: str) -> Any:
    """An attribute of a module; the benchmark is skipped where either is missing."""
    found = getattr(optional(module), name, None)
    if found is None:
        raise NotImplementedError(f"this commit has no {module}.{name}")
    return found


def import_solvers(kind: str, names: list[str]) -> None:
    """Import what a benchmark will use; asv does it once and forks, instead of once a measurement."""
    with suppress(Exception):  # on an old commit, each benchmark will say what it lacks
        get_solver = attribute("linspec", "get_solver")
        attribute("linspec", "solve")
        for name in names:
            get_solver(name, kind)


def problem_class(problem: str) -> Any:
    """The class of a family; the benchmark is skipped where this commit lacks it."""
    try:
        return attribute("linspec", "get_problem")(problem)
    except LookupError as error:
        raise NotImplementedError(f"this commit has no problem {problem}") from error


def sweeping(cls: Any) -> dict[str, str]:
    """The options with which a solver passes the data where it would hold a Gram matrix."""
    return {
        field.name: "implicit" for field in dataclasses.fields(cls) if "'implicit'" in str(field.metadata)
    }


# ---- data -----------------------------------------------------------------------------------------------------


def tall(rng: np.random.Generator) -> tuple[Any, Any]:
    """Dense views with five latent factors, 3000 x 40 and 3000 x 30; singular values fall by a factor of 30."""
    n, p, q = 3000, 40, 30
    factors = rng.standard_normal((n, 5))
    return tuple(
        (factors @ rng.standard_normal((5, m)) + rng.standard_normal((n, m))) * np.geomspace(1.0, 1 / 30, m)
        for m in (p, q)
    )


def words(rng: np.random.Generator) -> tuple[Any, Any]:
    """Word counts of two columns of 2000 short texts on ten topics, 150 words each, Zipf's frequencies."""
    n, vocabulary, length = 2000, 150, 8
    zipf = 1.0 / np.arange(1, vocabulary + 1)
    topics = zipf * rng.gamma(0.3, size=(10, vocabulary))
    topics /= topics.sum(axis=1, keepdims=True)
    topic = rng.integers(10, size=n)
    counts = [np.stack([rng.multinomial(length, topics[t]) for t in topic]) for _ in range(2)]
    return tuple(scipy.sparse.csr_array(c.astype(np.float64)) for c in counts)


def one_hot(rng: np.random.Generator) -> tuple[Any, Any]:
    """One of 120 categories a row in either view, 5000 rows: the Gram matrices are diagonal."""
    n, categories = 5000, 120
    first = rng.zipf(1.3, size=n) % categories
    noise = rng.integers(categories, size=n)
    second = np.where(rng.random(n) < 0.5, (7 * first) % categories, noise)
    ones, rows = np.ones(n), np.arange(n)
    shape = (n, categories)
    return tuple(scipy.sparse.csr_array((ones, (rows, column)), shape=shape) for column in (first, second))


GENERATORS = {"tall": tall, "words": words, "one-hot": one_hot}


def views(problem: str) -> tuple[Any, Any]:
    """The two views of a problem, on the host; the same on every machine."""
    return GENERATORS[problem](np.random.default_rng(20_240_101))


def dense(view: Any) -> Any:
    """A view as a NumPy array."""
    return view.toarray() if scipy.sparse.issparse(view) else view


# ---- backends -------------------------------------------------------------------------------------------------


def on_backend(view: Any, backend: str) -> Any:
    """A view in the library and on the device that a backend names."""
    if backend == "numpy":
        return view
    if backend == "cupy":
        return _on_cupy(view)
    if scipy.sparse.issparse(view):
        raise NotImplementedError(f"linspec takes no sparse matrices of {backend}")
    library = optional(backend.replace("-", "_"))
    if library is None:
        raise NotImplementedError(f"{backend} is not installed")
    return library.asarray(view)


def _on_cupy(view: Any) -> Any:
    cupy = optional("cupy")
    if cupy is None:
        raise NotImplementedError("cupy is not installed")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NotImplementedError(f"cupy finds no device: {error}") from error
    if scipy.sparse.issparse(view):
        return import_module("cupyx.scipy.sparse").csr_matrix(view)
    return cupy.asarray(view)


# ---- measurements ---------------------------------------------------------------------------------------------


class SolverBenchmark(ABC):
    """Seconds, memory, passes and error of one solver on one kind of data.

    A subclass names its solvers and says what the problem, its answer and the error are. Abstract classes are
    invisible to asv, and so is this one.
    """

    params: ClassVar[tuple[list[str], ...]]
    param_names = ("solver", "backend", "problem")
    timeout = 120

    kind: ClassVar[str]

    def data(self, problem: str) -> tuple[Any, ...]:
        """The matrices, on the host."""
        return views(problem)

    @abstractmethod
    def state(self, *data: Any) -> Any:
        """The problem made of them."""

    @abstractmethod
    def answer(self, solution: Any) -> Any:
        """The array of the solution that comes from the device last."""

    @abstractmethod
    def error(self, solution: Any, problem: str) -> float:
        """How far the solution is from the exact one, which is computed without linspec."""

    def setup(self, solver: str, backend: str, problem: str) -> None:
        """Make the problem and the solver; nothing that is measured happens here."""
        data = [on_backend(view, backend) for view in self.data(problem)]
        self.solve_ = attribute("linspec", "solve")
        self.to_host = attribute("linspec.arrays", "to_host")
        self.problem = self.state(*data)
        self.solver = self.instance(solver)
        if backend in {"torch", "cupy"}:
            self.time_solve(
                solver, backend, problem
            )  # kernels are compiled and memory is pooled before timing

    def instance(self, name: str) -> Any:
        """The solver with its defaults, but cut off, and sweeping the data where it would hold a Gram matrix.

        With a Gram matrix every iterative solver makes one pass, which would say nothing about it.
        """
        get_solver = attribute("linspec", "get_solver")
        try:
            cls = get_solver(name, self.kind)
        except LookupError as error:
            raise NotImplementedError(f"this commit has no solver {self.kind}/{name}") from error
        limited = "max_iterations" in {field.name for field in dataclasses.fields(cls)}
        return cls(**sweeping(cls), **({"max_iterations": MOST_ITERATIONS} if limited else {}))

    def run(self) -> Any:
        """Solve once, from the same seed every time."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a solver that is cut off says so, which is known here
            solution = self.solve_(self.problem, self.solver, rng=0)
        answer = self.answer(solution)
        self.to_host(answer[0] if isinstance(answer, list | tuple) else answer)  # which waits for the device
        return solution

    def time_solve(self, solver: str, backend: str, problem: str) -> None:
        """Seconds of a solve, the certificate included."""
        self.run()

    def peakmem_solve(self, solver: str, backend: str, problem: str) -> None:
        """Resident memory on the host, the data and the imports included."""
        self.run()

    def track_passes(self, solver: str, backend: str, problem: str) -> float:
        """Sweeps over the data: the same on every machine."""
        return float(self.run().passes)

    def track_error(self, solver: str, backend: str, problem: str) -> float:
        """Distance from the exact answer: the same on every machine up to rounding."""
        return self.error(self.run(), problem)

    track_passes.unit = "passes"  # type: ignore[attr-defined]
    track_error.unit = "relative error"  # type: ignore[attr-defined]
