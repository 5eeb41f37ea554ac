"""Plugins that are broken on purpose: each is a plugin that ships, or the adapter below, with one difference.

Every function here returns another one, which registers the faulty plugin and returns its name.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.operators import RowOperator, Sketch
from linspec.registry.queries import get_part, get_spec
from linspec.testing import references

Register = Callable[[], str]
NUMBERS = count()
KEPT: list[Any] = []


def derived(base: type, **members: Any) -> type:
    """Derive a class with other members, and find it under its name in this module."""
    name = f"Faulty{next(NUMBERS)}"
    made = type(name, (base,), {"__module__": __name__, "__doc__": "Broken.", **members})
    globals()[name] = dataclass(frozen=True, kw_only=True, eq=False, repr=False)(made)
    return globals()[name]


def altered(value: Any, **changes: Any) -> Any:
    """Change a frozen object in place."""
    for name, change in changes.items():
        object.__setattr__(value, name, change)
    return value


def registered(spec: Any, cls: type, **changes: Any) -> Register:
    """Return what registers a class by a record that ships, with changes."""

    def register() -> str:
        ls.register(replace(spec, name="faulty", target=f"{__name__}:{cls.__name__}", **changes))
        return spec.qualified.replace(spec.name, "faulty")

    return register


# ---- solvers, normalizers, test matrices ------------------------------------------------------------


def solver(
    name: str,
    *traits: str,
    without: str = "",
    before: Callable[..., Any] = lambda *_: None,
    around: Callable[..., Any] = lambda self, proper, *given: proper(*given),
    change: Callable[..., Any] = lambda arrays, problem: arrays,
    factor: float = 1.0,
    **members: Any,
) -> Register:
    """A solver that ships with other traits, something done before or around it, other arrays, residuals or members."""
    spec, base = get_spec("solver", name), get_part("solver", name)

    def iterate(self, problem, moments, context, start):
        before(problem, moments, context)
        for step in around(self, partial(base.iterate, self), problem, moments, context, start):
            arrays = partial(lambda step: change(step.arrays(), problem), step)
            yield step._replace(residual=step.residual * factor, arrays=arrays)

    kept = tuple(trait for trait in (*spec.traits, *traits) if trait != without)
    return registered(spec, derived(base, **{"iterate": iterate, **members}), traits=kept)


def part(name: str, **members: Callable[..., Any]) -> Register:
    """A part that ships, with methods that are passed the one in whose place they are."""
    spec = get_spec(None, name)
    base = get_part(spec.kind, spec.name)

    def method(own: Callable[..., Any], proper: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *given: own(partial(proper, self), *given)

    return registered(spec, derived(base, **{n: method(m, getattr(base, n)) for n, m in members.items()}))


def normalizer(method: Callable[..., Any]) -> Register:
    return part("normalizer/qr", orthonormalize=method)


def matrix(**methods: Callable[..., Any]) -> Register:
    return part("test-matrix/gaussian", **methods)


class Doubled(Sketch):
    """Entries that are right, and twice their product with data."""

    def sketch(self, A):
        return 2 * super().sketch(A)


# ---- kinds of data --------------------------------------------------------------------------------


class Parcel:
    """Data of a foreign library: an array, or a file of one."""

    def __init__(self, array: Any, path: str = "") -> None:
        self.array, self.path = array, path


class Adapted(ls.LinearOperator):
    """Products with a parcel."""

    def __init__(self, parcel: Parcel) -> None:
        self.array, self.shape, self.dtype = parcel.array, parcel.array.shape, parcel.array.dtype

    def _matmat(self, V):
        return self.array @ V.astype(self.dtype)

    def _rmatmat(self, U):
        return self.array.T.astype(np.float64) @ U


class Gathering(Adapted):
    """Rows of a parcel by their numbers."""

    access = "rows"

    def _rows(self, selection):
        return ls.as_operator(self.gathered(selection))

    def gathered(self, selection):
        return self.array[selection]


class FromFile(RowOperator):
    """Rows of a file, of which all are read for each block."""

    def __init__(self, parcel: Parcel) -> None:
        self.path = parcel.path
        self.shape, self.dtype = np.load(self.path, mmap_mode="r").shape, np.dtype(np.float64)

    def _rows(self, selection):
        return ls.as_operator(np.load(self.path)[selection])


def parcel() -> Parcel:
    return Parcel(np.random.default_rng(0).standard_normal((20, 6)))


def narrow() -> Parcel:
    return Parcel(parcel().array.astype(np.float32))


def stored() -> Parcel:
    path = str(Path(tempfile.mkdtemp()) / "rows.npy")
    np.save(path, np.random.default_rng(0).standard_normal((4000, 40)))
    return Parcel(None, path)


def operator(base: type = Adapted, sample: str = "parcel", **members: Any) -> Register:
    """An adapter whose operators have other members."""
    return adapter(type("FaultyOperator", (base,), members), sample)


def adapter(adapt: Callable[..., Any], sample: str = "parcel", **changes: Any) -> Register:
    record = {"matches": lambda data: isinstance(data, Parcel), "sample": f"{__name__}:{sample}"}

    def register() -> str:
        ls.register(
            ls.OperatorSpec(name="faulty", summary="An adapter.", **{"adapt": adapt, **record, **changes})
        )
        return "operator/faulty"

    return register


# ---- kinds of problems ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Components(ls.SVD):
    """The truncated SVD by another name."""

    name: ClassVar[str] = "faulty"


NOTHING_SEEN = replace(references.SVD, seen=lambda case, solution: {})
ONE_STEP = replace(references.SVD, options={"max_iterations": 1, "block": 4})


def problem(tested: str = "problem/faulty", testing: str = "", **members: Any) -> Register:
    """The SVD with other members, and two of its solvers; what is tested is the problem or one of them."""
    cls = derived(Components, **members)

    def register() -> str:
        place = f"{__name__}:{testing}" if testing else "linspec.testing.references:SVD"
        target = f"{__name__}:{cls.__name__}"
        ls.register(ls.ProblemSpec(name="faulty", target=target, summary="A problem.", testing=place))
        for each in ("direct", "block-krylov"):
            ls.register(replace(get_spec("solver", each, "svd"), problem="faulty"))
        return tested

    return register


def answering(tested: str = "problem/faulty", testing: str = "", **members: Any) -> Register:
    """A problem whose answers have other members."""
    return problem(tested, testing, solution=derived(ls.SVDSolution, **members))


def certifying(change: Callable[[Any], Any], tested: str = "problem/faulty") -> Register:
    """A problem whose certificates go through a function."""
    return problem(tested, certify=lambda *given: change(Components.certify(*given)))


def returning(**changes: Callable[[Any], Any]) -> Register:
    """A problem whose certificate changes fields of the answers."""

    def change(found: Any) -> Any:
        changed = {name: made(found.fields[name]) for name, made in changes.items()}
        return found._replace(fields={**found.fields, **changed})

    return certifying(change, "faulty/direct")


def transforms_by_the_rows(self, A, *, confounds=None):
    """Subtract the means of the rows that come, in place of those of the training rows."""
    twin = altered(copy.copy(self), mean=None if self.mean is None else np.asarray(A.mean(axis=0)))
    return ls.SVDSolution.transform(twin, A, confounds=confounds)
