"""A solver that is a generator of iterates: how its run ends, what its answer takes, copies of what it yields."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from backends import CountingOperator

import linspec as ls
from linspec import Iterate, IterativeSolver, SolverSpec, Status, option, registry
from linspec.arrays import HOST, Home, is_array, to_host
from linspec.errors import ConvergenceWarning, InvalidFile, InvalidProblem
from linspec.solving import archive, checkpoints
from linspec.solving.iterates import restored, stored

RNG = np.random.default_rng(0)
U, V = np.linalg.qr(RNG.standard_normal((60, 6)))[0], np.linalg.qr(RNG.standard_normal((6, 6)))[0]
A = U * np.linspace(0.5, 1, 6) @ V
B = RNG.standard_normal((60, 2))


@dataclass(frozen=True)
class Factor:
    """A part of an iterate, with a part of its own."""

    weights: Any
    inner: Any = None


@dataclass(frozen=True, kw_only=True)
class Descent(IterativeSolver):
    """Gradient descent, with what tests ask of it."""

    tol: float | None = option(1e-8, "residual to stop at", above=0)
    max_iterations: int = option(1000, "iterations at most", at_least=1)
    steps: int = option(10**9, "steps after which the generator ends", at_least=0)
    share: float = option(1.0, "of the residual that it believes in", above=0)

    kept: ClassVar = (Factor,)

    def iterates(self, problem: Any, run: Any, state: Any = None) -> Iterator[Any]:
        moments = run.moments("implicit")
        run.plan(setup=2.0)
        if state is None:
            AtB = moments.cross()
            x, r, made = 0 * AtB, AtB, 0
        else:
            x, factor, made = state["x"], state["factor"], state["made"]
            AtB, r = factor.weights, factor.inner.weights
        while made <= self.steps:
            residual = self.share * float(np.linalg.norm(to_host(r)) / np.linalg.norm(to_host(AtB)))
            yield self.made(residual, x, {"factor": Factor(AtB, Factor(r)), "made": made})
            x, made = x + r, made + 1
            r = AtB - moments.gram(x) - problem.ridge * x

    def made(self, residual: float, x: Any, state: dict[str, Any]) -> Iterate:
        return Iterate(residual, x=x, state=state)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of its own that knows the solver."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    spec = SolverSpec(
        name="descent",
        problem="least-squares",
        target=f"{__name__}:Descent",
        summary="Gradient descent that tests look at.",
        reference="Cauchy 1847, C. R. Acad. Sci. Paris 25",
        traits=("iterative", "resumable"),
    )
    ls.register(spec)


def problem() -> Any:
    return ls.LeastSquares(A, B)


def law(x: Any) -> float:
    """The largest ‖Aᵀ(b − Ax)‖ / ‖Aᵀb‖."""
    return float(
        np.max(np.linalg.norm(A.T @ (B - A @ x), axis=0) / np.linalg.norm(A.T @ B, axis=0), initial=0.0)
    )


# ---- how a run ends -----------------------------------------------------------------------------


def test_a_generator_that_ends_by_itself_has_stagnated() -> None:
    """The last iterate is the answer, judged by the law."""
    with pytest.warns(ConvergenceWarning):
        found = ls.solve(problem(), Descent(steps=3))
    assert (found.status, found.converged) == (Status.STAGNATED, False)
    x = np.zeros((6, 2))
    for _ in range(3):
        x = x + A.T @ (B - A @ x)
    np.testing.assert_allclose(found.x, x, rtol=1e-12)
    assert found.residual == pytest.approx(law(x), rel=1e-9)


@dataclass(frozen=True, kw_only=True)
class Final(Descent):
    """Does not go on where the law finds its answer too rough."""

    resumes_after_law: ClassVar[bool] = False


def test_the_law_sends_an_answer_back_if_the_solver_lets_it() -> None:
    """A residual that is a thousandth of the true one."""
    found = ls.solve(problem(), Descent(share=1e-3))
    assert found.converged
    assert law(found.x) <= 1e-8
    with pytest.warns(ConvergenceWarning):
        final = ls.solve(problem(), Final(share=1e-3))
    assert not final.converged
    assert 1e-6 < law(final.x) < 1e-4
    assert final.residual == pytest.approx(law(final.x), rel=1e-6)
    assert final.iterations < found.iterations


# ---- what the answer takes ----------------------------------------------------------------------


class Polished(Iterate):
    """An iterate whose answer is a step better, which takes a pass."""

    def __init__(self, *arguments: Any, run: Any, AtB: Any, after: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.run, self.AtB, self.after = run, AtB, after

    def answer(self) -> dict[str, Any]:
        x = self.arrays["x"]
        return {"x": x + self.AtB - self.run.moments("implicit").gram(x)}


@dataclass(frozen=True, kw_only=True)
class Polishing(Descent):
    """Descent whose answer takes a pass, which it says or not."""

    after: float = option(1.0, "passes that it keeps back", at_least=0)

    def iterates(self, problem: Any, run: Any, state: Any = None) -> Iterator[Any]:
        for iterate in super().iterates(problem, run, state):
            AtB = iterate["factor"].weights
            yield Polished(iterate.residual, x=iterate["x"], run=run, AtB=AtB, after=self.after)


@pytest.mark.parametrize("budget", [5, 6, 7, 9, 12])
def test_passes_for_the_answer_are_kept_back(budget: int) -> None:
    """As an independent count has it; without the reserve the run takes one pass more than it may."""
    made = {}
    for after in (1.0, 0.0):
        operator = CountingOperator(A, sliceable=True, readable=True)
        found = ls.solve(ls.LeastSquares(operator, B), Polishing(after=after), max_passes=budget)
        assert found.status is Status.BUDGET
        assert operator.passes == pytest.approx(found.passes)
        made[after] = operator.passes
    assert made == {1.0: budget, 0.0: budget + 1}


# ---- copies -------------------------------------------------------------------------------------


def through_a_file(value: Any, folder: Path, classes: tuple[type, ...] = (Factor,), home: Home = HOST) -> Any:
    """Make a value again from a copy that has been in a file."""
    nodes, arrays = archive.pack({"state": stored(value)}, ())
    path = folder / "copy.npz"
    with path.open("wb") as stream:
        archive.write(stream, {"fields": nodes}, arrays)
    with archive.opened(path) as file:
        return restored(file.unpack(file.header["fields"], ())["state"], classes, home)


def same(first: Any, second: Any) -> bool:
    """Whether two values are of one kind, with the same bits in the same order of entries."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        order = [(x.flags.c_contiguous, x.flags.f_contiguous) for x in (first, second)]
        return bool(
            order[0] == order[1]
            and (first.dtype, first.shape) == (second.dtype, second.shape)
            and first.tobytes() == second.tobytes()
        )
    if is_array(first):
        return same(to_host(first), to_host(second)) and first.dtype == second.dtype
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[name], second[name]) for name in first)
    if isinstance(first, Iterate | Factor):
        return same(dict(vars(first)), dict(vars(second)))
    return bool(first == second)


VALUES = {
    "numbers": {"int": 3, "float": 0.1, "infinite": math.inf, "negative": -math.inf, "no": None, "yes": True},
    "texts": {"text": "αβ", "empty": ""},
    "array": RNG.standard_normal((4, 3)),
    "fortran": np.asfortranarray(RNG.standard_normal((4, 3))),
    "transposed": RNG.standard_normal((4, 3)).T,
    "single": RNG.standard_normal((4, 3)).astype(np.float32),
    "integers": np.arange(5),
    "truths": np.array([True, False]),
    "empty": np.zeros((4, 0)),
    "vector": RNG.standard_normal(7),
    "tuple": (1, (2.0, "three"), [np.ones(2), ()]),
    "mapping": {
        "array": np.ones(2),
        "object": {"fields": 1},
        "tuple": [1],
    },  # names that copies use themselves
    "nested": Factor(np.ones((2, 2)), Factor((np.zeros(3), None), {"inner": Factor(1)})),
    "dtype": [np.dtype(np.float32), np.dtype(np.float64)],
    "status": Status.STAGNATED,
    "home": HOST,
    "iterate": Iterate(
        0.5, judged=False, state={"step": 0.1, "factor": Factor(np.ones(2))}, x=np.ones((2, 1))
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_copy_makes_the_same_again(name: str, tmp_path: Path) -> None:
    assert same(through_a_file(VALUES[name], tmp_path, (Iterate, Factor)), VALUES[name])


class Heavy(Iterate):
    """An iterate with an array that only the next step needs."""

    def remnant(self) -> Iterate:
        return Iterate(self.residual, x=self["x"])


@dataclass(frozen=True, kw_only=True)
class Forgetting(IterativeSolver):
    """Gradient descent that looks whether anybody holds the last gradient, and may run out of memory."""

    tol: float | None = option(1e-8, "residual to stop at", above=0)
    max_iterations: int = option(50, "iterations at most", at_least=1)
    fails: int = option(10**9, "the step that finds no memory", at_least=1)

    held: ClassVar[list[bool]] = []

    def iterates(self, problem: Any, run: Any, state: Any = None) -> Iterator[Any]:
        moments = run.moments("dense")
        AtB = moments.cross()
        iterate = state or Heavy(1.0, x=0 * AtB, state={"g": +AtB, "made": 0})
        while True:
            yield iterate
            x, g, made = iterate["x"] + iterate["g"], weakref.ref(iterate["g"]), iterate["made"] + 1
            del iterate
            self.held.append(g() is not None)
            if made == self.fails:
                raise MemoryError
            new = AtB - moments.gram(x)
            residual = float(np.linalg.norm(new) / np.linalg.norm(AtB))
            iterate = Heavy(residual, x=x, state={"g": new, "made": made})
            del new


def test_a_step_without_memory_ends_with_the_remnant() -> None:
    seen: list[Any] = []
    with pytest.warns(ConvergenceWarning):
        found = ls.solve(
            ls.LeastSquares(A, B), Forgetting(fails=4), callback=lambda p: seen.append(p.current()["x"])
        )
    assert found.status is Status.OUT_OF_MEMORY
    np.testing.assert_array_equal(found.x, seen[-1])
    assert len(seen) == 4


def test_what_is_no_state_is_named() -> None:
    for value in (object(), {1, 2}, lambda: 1, np.random.default_rng(0)):
        with pytest.raises(InvalidProblem, match="an iterate must be made of arrays, numbers, texts"):
            stored(Iterate(0.5, x=np.ones(1), state={"wrong": value}))


# ---- files --------------------------------------------------------------------------------------


@pytest.fixture
def kept(known: None, tmp_path: Path) -> Path:
    """The checkpoint of a run that was stopped."""
    path = tmp_path / "run.ckpt"
    ls.solve(problem(), "descent", checkpoint=path, callback=lambda progress: progress.iteration >= 4)
    return path


def unknown_class(state: dict[str, Any]) -> None:
    state["fields"]["state"]["mapping"]["factor"]["object"] = "Path"


def unknown_iterate(state: dict[str, Any]) -> None:
    state["object"] = "Run"


def missing_field(state: dict[str, Any]) -> None:
    del state["fields"]["state"]["mapping"]["factor"]["fields"]["inner"]


def field_too_many(state: dict[str, Any]) -> None:
    state["fields"]["state"]["mapping"]["factor"]["fields"]["other"] = 1


def missing_array(state: dict[str, Any]) -> None:
    del state["fields"]["arrays"]["mapping"]["x"]


def missing_entry(state: dict[str, Any]) -> None:
    del state["fields"]["state"]["mapping"]["made"]


def missing_attribute(state: dict[str, Any]) -> None:
    del state["fields"]["arrays"]


def not_finite(state: dict[str, Any]) -> None:
    x = state["fields"]["arrays"]["mapping"]["x"]
    x["array"] = np.full_like(x["array"], np.nan)


def a_text(state: dict[str, Any]) -> None:
    state["fields"]["arrays"]["mapping"]["x"] = "x"


def other_shape(state: dict[str, Any]) -> None:
    x = state["fields"]["arrays"]["mapping"]["x"]
    x["array"] = x["array"][:-1]


def unknown_order(state: dict[str, Any]) -> None:
    state["fields"]["arrays"]["mapping"]["x"]["order"] = "Z"


def unknown_status(state: dict[str, Any]) -> None:
    state["fields"]["ending"] = {"status": "SPLENDID"}


CHANGES = (
    unknown_class, unknown_iterate, missing_field, field_too_many, missing_array, missing_entry, missing_attribute,
    not_finite, a_text, other_shape, unknown_order, unknown_status,
)  # fmt: skip
WORDS = {
    unknown_class: "must be one of Iterate, Factor; got 'Path'",
    unknown_iterate: "must be one of Iterate, Factor; got 'Run'",
    missing_field: "Factor must have its own fields; inner differ",
    field_too_many: "Factor must have its own fields; other differ",
    not_finite: "an iterate must have arrays of numbers",
    unknown_order: "order",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_changed_ends_in_one_error_that_names_it(
    change: Callable[[dict[str, Any]], None], kept: Path
) -> None:
    """The file has been written anew, with a checksum of what it now holds."""
    saved = checkpoints.loaded(kept)
    fields = copy.deepcopy(dict(saved.fields))
    change(fields["state"])
    checkpoints.CheckpointWriter(ls.Checkpoint(kept), fields["about"]).write(fields)
    with pytest.raises(
        InvalidFile, match=rf"run\.ckpt cannot be gone on with: .*{WORDS.get(change, '')}"
    ) as error:
        ls.solve(problem(), "descent", start=kept)
    assert str(error.value).count("cannot be gone on with") == 1
