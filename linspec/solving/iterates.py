"""A solver as the loop of its paper: a generator of iterates, which one loop here drives.

Problem: an iteration is a few lines of algebra. Whether it goes on, what callbacks see, what a checkpoint has, and how
an answer that the law finds too rough is sent back are the same for every iteration.
Method: a solver writes a generator::

    def iterates(self, problem, run, state=None):
        x = start if state is None else state["x"]
        while True:
            yield Iterate(residual, x=x)
            x = step(x)

What it yields has everything that the next step reads, and nobody writes to it afterwards. So the iterate is also the
state: a checkpoint is a copy of it, and a run that goes on hands the copy back as `state`. The generator then makes no
set-up product, and yields the state first.
Where we differ: a library that calls back, such as ARPACK, cannot be a generator. It has a `solve` of its own.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import HOST, Home, is_array, to_host
from linspec.errors import InvalidFile, InvalidProblem, shown
from linspec.process.pauses import OutOfPasses
from linspec.solving.run import Run
from linspec.solving.solution import Solution
from linspec.solving.solver import Solver
from linspec.status import Status


class Iterate:
    """One iterate: its residual, its arrays, and the rest of the state that the next step reads.

    Parameters
    ----------
    residual : float
        The residual by the law of the problem, or the solver's estimate of it.
    judged : bool, default True
        Whether a residual within the tolerance may end the run.
    ending : Status, optional
        How the run ends with this iterate; by default the run decides.
    state : mapping, default none
        Everything that the next step reads in addition to the arrays: arrays, numbers, texts, lists and mappings of
        these, and objects of the classes that the solver lists in `kept`.
    **arrays
        The answer so far, by the names of the law.

    Attributes
    ----------
    residual, judged, ending
        As given.
    after : float
        Passes that computing the answer from this iterate will take. The run keeps them in reserve: no step of the
        iteration may use them.
    copyable : bool
        Whether a checkpoint can have a copy. It cannot if rows stay on other machines, or if a part of the solver has
        state of its own. Then a run that is continued begins at the last arrays, if its solver has the trait
        "warm-start".
    shown : bool
        Whether it counts as an iteration, which is recorded in the history and shown to callbacks. An iterate that is
        not shown, such as one after a long set-up, serves for two purposes: a checkpoint stores it, and it is the
        answer of a run that is cut short during the next step.

    Examples
    --------
    >>> import linspec as ls
    >>> import numpy as np
    >>> iterate = ls.Iterate(0.5, x=np.ones(2), state={"step": 0.1})
    >>> iterate["x"], iterate["step"], dict(iterate.weights())
    (array([1., 1.]), 0.1, {'x': array([1., 1.])})
    """

    residual: float
    judged: bool = True
    ending: Status | None = None
    after: float = 0.0
    copyable: bool = True
    shown: bool = True

    def __init__(
        self,
        residual: float,
        *,
        judged: bool = True,
        ending: Status | None = None,
        state: Mapping[str, Any] | None = None,
        **arrays: Any,
    ) -> None:
        self.residual, self.judged, self.ending = residual, judged, ending
        self.arrays, self.state = arrays, dict(state or {})

    def __getitem__(self, name: str) -> Any:
        """An array, or an entry of the state."""
        return self.arrays[name] if name in self.arrays else self.state[name]

    def weights(self) -> Mapping[str, Any]:
        """The arrays for callbacks, and for the answer of a run that is cut short."""
        return self.arrays

    def answer(self) -> Mapping[str, Any]:
        """Return the arguments of the law: by default only the arrays.

        A derived class may add evidence: further results of the iteration, such as residuals, which the law uses to
        bound the error of the arrays.
        """
        return self.weights()

    def notes(self) -> Sequence[tuple[Status | None, str]]:
        """Findings for the message of the solution, as `Run.note` takes them."""
        return ()

    def remnant(self) -> Iterate:
        """Return the part of the iterate that is kept while the next step is made: by default the whole iterate.

        If the step is cut short, this part gives the answer, so it must suffice for `weights`, `answer` and `notes`.
        A derived class may leave out other arrays here. If its generator keeps no reference to these arrays either,
        their memory is free for the next iterate.
        """
        return self


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver):
    """A solver whose loop is a generator of iterates.

    Attributes
    ----------
    kept : sequence of type
        The classes of objects that are restored from a checkpoint, besides `Iterate`: those of the yielded iterates,
        if they are derived classes, and those of the objects in their arrays and state.
    resumes_after_law : bool
        Whether the iteration goes on if its own residual is within the tolerance and that of the law is not.
    most_above : float
        The iteration goes on only if the residual of the law is at most this multiple of the tolerance. Methods that
        converge to the answer of another problem do not get nearer by going on.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Landweber(ls.IterativeSolver):
    ...     step: float = ls.option(0.01, "step length", above=0)
    ...     tol: float | None = ls.tol_option()
    ...     def iterates(self, problem, run, state=None):
    ...         moments = run.moments()
    ...         AtB = moments.cross()
    ...         x = 0 * AtB if state is None else state["x"]
    ...         while True:
    ...             g = AtB - moments.gram(x) - problem.ridge * x
    ...             yield ls.Iterate(np.linalg.norm(g) / np.linalg.norm(AtB), x=x)
    ...             x = x + self.step * g
    >>> A = np.random.default_rng(0).standard_normal((50, 3))
    >>> ls.solve(ls.LeastSquares(A, A @ np.ones(3)), Landweber(tol=1e-8)).x.round(6)
    array([1., 1., 1.])
    """

    kept: ClassVar[Sequence[type]] = ()
    resumes_after_law: ClassVar[bool] = True
    most_above: ClassVar[float] = math.inf

    @abstractmethod
    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Any]:
        """Yield one iterate after the other; the caller decides when to stop.

        Parameters
        ----------
        problem, run
            As for `solve`.
        state : Iterate, optional
            The iterate to yield first, in a run that continues from a checkpoint.

        Yields
        ------
        Iterate
            A loop that ends by itself has stagnated, unless its last iterate has another `ending`.
        """

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve `problem` within `run`."""
        return driven(self.iterates(problem, run, self.resumed(run)), self, run)

    def resumed(self, run: Run) -> Any:
        """The iterate of the checkpoint that is continued; None in a new run."""
        if run.resumed is None:
            return None
        run.plan(setup=0.0)  # what the earlier run had learnt of the data is learnt anew
        return restored(run.resumed, (Iterate, *self.kept), run.problem.home.blocks)


def driven(kernel: Any, solver: IterativeSolver, run: Run) -> Solution:
    """Drive a generator of iterates to a solution: the one loop of all iterative solvers."""
    with np.errstate(all="ignore"):  # what is not finite shows in residuals
        iterate = next(kernel)

    run._budget.refused = False
    while True:
        if run.ended:  # within the step, by iterates of a part
            return _finished(kernel, iterate, iterate.answer(), run)
        # From a step that the budget has cut short, a run would not go on as a run in one piece: it goes on before it.
        if iterate.copyable and not run._budget.refused:
            run.checkpoint(partial(stored, iterate))
        if iterate.ending is not None:
            run.end(iterate.ending)
        with run.budget.reserving(iterate.after):
            goes_on = not iterate.shown or run.proceed(
                residual=iterate.residual, current=iterate.weights, judged=iterate.judged
            )
        if not goes_on:
            answer = iterate.answer()
            resumes = solver.resumes_after_law and iterate.ending is None
            with run.budget.reserving(iterate.after):
                goes_on = resumes and run.falls_short(solver.most_above, **answer)
            if not goes_on:
                return _finished(kernel, iterate, answer, run)
        last = iterate.remnant()
        run.offer(last.weights)
        if last is not iterate:  # the generator may give up its arrays within the step
            iterate = None
            run._hold_state()
        try:
            with run.budget.reserving(last.after), np.errstate(all="ignore"), run._taking_up():
                iterate = next(kernel)
        except OutOfPasses:
            run._cut_short()
            return _finished(kernel, last, last.answer(), run)
        except StopIteration:
            run.end(Status.STAGNATED)
            return _finished(kernel, last, last.answer(), run)
        except BaseException:  # a run that is cut within a step has this iterate for its answer
            _note(last, run)
            raise
        del last


def _finished(kernel: Any, iterate: Any, answer: Mapping[str, Any], run: Run) -> Solution:
    """Close the generator, which releases its arrays, and return the solution of the last iterate."""
    kernel.close()
    _note(iterate, run)
    return run.finish(**answer)


def _note(iterate: Any, run: Run) -> None:
    """Add the findings of an iterate to the message."""
    for status, text in iterate.notes():
        run.note(status, text)


# ---- copies of iterates -------------------------------------------------------------------------

NAMED: Mapping[str, tuple[Any, Any]] = {
    "home": (Home, lambda home: home.on_host),
    "dtype": (np.dtype, lambda dtype: dtype.str),
    "status": (Status, lambda status: status.name),
}
"""Classes whose values `stored` copies as a single text or bool.

By the key under which the copy has the text or bool: the class, and a function that returns the text or bool of a
value."""


def stored(value: Any) -> Any:
    """Copy an iterate for a checkpoint: arrays to the host, objects to mappings of their fields."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if is_array(value):
        host = to_host(value)
        order = "F" if host.ndim > 1 and host.flags.f_contiguous and not host.flags.c_contiguous else "C"
        return {
            "array": np.array(host, order="C"),
            "shape": list(host.shape),
            "order": order,
            "there": not isinstance(value, np.ndarray),
        }
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [stored(one) for one in value]}
    if isinstance(value, Mapping):
        return {"mapping": {str(name): stored(one) for name, one in value.items()}}
    for name, (kind, text) in NAMED.items():
        if isinstance(value, kind):
            return {name: text(value)}
    return {"object": type(value).__name__, "fields": {n: stored(one) for n, one in _fields(value).items()}}


def restored(node: Any, classes: Sequence[type], home: Home) -> Any:
    """Restore the iterate that `stored` has copied, with arrays in memory of their own.

    Parameters
    ----------
    node : object
        The return value of `stored`.
    classes : sequence of type
        The classes of objects that the copy may have.
    home : Home
        The device for arrays that were on one.

    Raises
    ------
    InvalidFile
        When the copy is not one that `stored` made of an iterate of these classes.
    """
    if not isinstance(node, Mapping):
        if node is None or isinstance(node, bool | int | float | str):
            return node
        raise InvalidFile(f"an iterate must be made of numbers, texts and mappings; got {shown(node)}")
    if "array" in node:
        return _array(node, home)
    if "home" in node:
        return HOST if node["home"] else home
    if "dtype" in node:
        return np.dtype(node["dtype"])
    if "status" in node:
        return Status[node["status"]]
    for kind in (tuple, list):
        if kind.__name__ in node:
            return kind(restored(one, classes, home) for one in node[kind.__name__])
    if "mapping" in node:
        return {name: restored(one, classes, home) for name, one in node["mapping"].items()}
    return _object(node, classes, home)


def _array(node: Mapping[str, Any], home: Home) -> Any:
    """Restore an array, in its memory order and on its device."""
    array = node["array"]
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf" or np.isnan(array).any():
        raise InvalidFile(f"an iterate must have arrays of numbers; got {shown(array)}")
    if list(array.shape) != node["shape"]:
        raise InvalidFile(
            f"an array of an iterate must have the shape {node['shape']}; got {list(array.shape)}"
        )
    array = np.array(array, order=node["order"])
    return home.place(array, array.dtype) if node["there"] else array


def _object(node: Mapping[str, Any], classes: Sequence[type], home: Home) -> Any:
    """Restore an object from its fields, without calling its constructor."""
    known = {cls.__name__: cls for cls in classes}
    cls = known.get(node.get("object", ""))
    if cls is None:
        raise InvalidFile(f"an iterate must be one of {', '.join(known)}; got {shown(node.get('object'))}")
    fields = {name: restored(one, classes, home) for name, one in node["fields"].items()}
    if dataclasses.is_dataclass(cls):
        names = {field.name for field in dataclasses.fields(cls)}
        if names != set(fields):
            differing = ", ".join(sorted(names.symmetric_difference(fields)))
            raise InvalidFile(f"{cls.__name__} must have its own fields; {differing} differ")
    made: Any = object.__new__(cls)
    vars(made).update(fields)
    return made


def _fields(value: Any) -> dict[str, Any]:
    """The fields from which an object can be restored: those without a leading underscore."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(value) or not hasattr(value, "__dict__"):
        raise InvalidProblem(
            f"an iterate must be made of arrays, numbers, texts and objects with such fields; got "
            f"{shown(value)}. Keep it out of what `iterates` yields."
        )
    return {name: one for name, one in vars(value).items() if not name.startswith("_")}
