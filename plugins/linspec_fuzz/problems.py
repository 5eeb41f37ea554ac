"""A case: data of some kind and a problem on them, all from a seed or written out.

Problem: a failing trial must be repeated exactly, made smaller, and shown as a few lines of code.
Method: a `Case` holds NumPy arrays in their dtype, the kind of object that wraps them when the problem is
made, and the numbers of the problem. The data of a solver are made anew for each solve. Answers are judged by
the entries after rounding to their dtype.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import linspec
from linspec.arrays import HostArray, working_dtype
from linspec.errors import LinspecError
from linspec.operators import ProductOperator, ScaledOperator, as_operator
from linspec.sweeps import BlockOperator
from linspec.testing import ProductsOnly, stated, testing_of

__all__ = ["FAMILIES", "KINDS", "TARGETS", "Case", "Matrix", "families_here"]

FAMILIES = (
    "least-squares",
    "svd",
    "cca",
    "discriminant",
    "kernel-cca",
    "preimage-cca",
    "deep-cca",
    "multiset-cca",
    "sumcor-cca",
    "pls",
    "pls-regression",
    "reduced-rank-regression",
    "kernel-ridge",
    "ridge-many-targets",
)
"""The families that linspec ships; the plugins of some may be missing."""

TARGETS = frozenset({"B", "H"})
"""Matrices that do not determine the precision of the answer."""

UNITS = {"all": "all matrices", "matrix": "a matrix", "column": "a column", "row": "a row"}
"""Words for the part of the data that is multiplied by a power of ten, by the value of `Case.units`."""

SLICE_ROWS = 7
"""Number of rows of a slice, for data in slices."""


@dataclass(frozen=True)
class Matrix:
    """Entries in their dtype, and the kind of object that holds them.

    Attributes
    ----------
    entries : numpy.ndarray of shape (n, p) or (n,)
    kind : str
        One of `KINDS`.
    """

    entries: HostArray
    kind: str = "ndarray"

    @property
    def precision(self) -> float:
        """The unit roundoff of arithmetic with these entries."""
        return float(np.finfo(working_dtype(self.entries.dtype)).eps)

    def given(self) -> Any:
        """Wrap the entries in the object that is passed to linspec."""
        return KINDS[self.kind](self.entries)


@dataclass(frozen=True)
class Case:
    """A problem to solve.

    Attributes
    ----------
    family : str
        The problem's name in linspec.
    matrices : mapping of str to Matrix
    parameters : mapping
        The other arguments of the problem: ``k``, ``ridge``, ``center``, ``scale``, ``sample_weight``, …
    tol : float or None
        The tolerance of the solve; None for the default.
    seed : tuple of int
        The seed of the solver's random numbers.
    notes : tuple of str
        A description of the drawn data, in words.
    units : str
        The part in other units: "all", "matrix", "column", "row", "weights", "confounds", or "" for none.
    study : mapping
        The arguments of `linspec.cross_validate`, if the case is one of cross-validation; else empty.
    """

    family: str
    matrices: Mapping[str, Matrix]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tol: float | None = None
    seed: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()
    units: str = ""
    study: Mapping[str, Any] = field(default_factory=dict)

    def problem(self) -> Any:
        """Make the problem, on newly made data."""
        data = {name: matrix.given() for name, matrix in self.matrices.items()}
        return stated(self.family, data, self.parameters)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of the solver's random numbers."""
        return np.random.default_rng(list(self.seed))

    @property
    def tolerance(self) -> float:
        """The largest residual of a converged answer: at least 100 eps for float32 data."""
        if self.tol is not None:
            return self.tol
        default = float(linspec.get_problem(self.family).tolerance)
        return max(default, 100 * self.precision if self.precision > np.finfo(np.float64).eps else 0.0)

    @property
    def precision(self) -> float:
        """The unit roundoff of the least precise matrix, without targets."""
        return max(matrix.precision for name, matrix in self.matrices.items() if name not in TARGETS)

    @property
    def weights(self) -> HostArray | None:
        """The weights of the rows."""
        return self.parameters.get("sample_weight")

    @property
    def confounds(self) -> HostArray | None:
        """The confounds, whose linear effect is subtracted from the columns."""
        return self.parameters.get("confounds")

    @property
    def features(self) -> tuple[str, ...]:
        """The features of the case, in words for a table."""
        given = self.parameters
        ridge = given.get("ridge", 0.0)
        has = {
            "units": bool(self.units),
            f"units of {UNITS.get(self.units, self.units)}": bool(self.units),
            "weights": self.weights is not None,
            "confounds": self.confounds is not None,
            "scale": bool(given.get("scale")),
            "ridge": any(ridge) if isinstance(ridge, tuple) else bool(ridge),
            "intercept" if self.family == "least-squares" else "centred": bool(given.get("center")),
            "tolerance": self.tol is not None,
            "float32": any(matrix.entries.dtype == np.float32 for matrix in self.matrices.values()),
        }
        return tuple(name for name, present in has.items() if present)

    def entries(self, name: str) -> HostArray:
        """Return the entries of a matrix."""
        return self.matrices[name].entries

    def with_matrix(self, name: str, **changes: Any) -> Case:
        """Return the case with one matrix changed."""
        return replace(self, matrices={**self.matrices, name: replace(self.matrices[name], **changes)})

    def with_parameters(self, **changes: Any) -> Case:
        """Return the case with other parameters."""
        return replace(self, parameters={**self.parameters, **changes})

    def of_rows(self, rows: Any) -> Case:
        """Return the case with some of its rows."""
        matrices = {
            name: replace(matrix, entries=matrix.entries[rows]) for name, matrix in self.matrices.items()
        }
        terms = {
            name: [mask[rows] for mask in value] if name == "present" else value[rows]
            for name, value in self.parameters.items()
            if name in ("sample_weight", "confounds", "splitter", "present") and value is not None
        }
        study = {name: value[rows] if name == "splitter" else value for name, value in self.study.items()}
        return replace(self, matrices=matrices, parameters={**self.parameters, **terms}, study=study)

    def __str__(self) -> str:
        sizes = []
        for name, matrix in self.matrices.items():
            shape = " x ".join(str(size) for size in matrix.entries.shape)
            sizes.append(f"{name} {shape} {matrix.entries.dtype} {matrix.kind}")
        numbers = [
            f"{name} {' x '.join(map(str, np.shape(value)))}"
            if isinstance(value, np.ndarray) or name == "present"
            else f"{name}={value!r}"
            for name, value in self.parameters.items()
        ]
        tol = [] if self.tol is None else [f"tol={self.tol:.2g}"]
        parts = [", ".join(sizes), ", ".join([*numbers, *tol]), *self.notes]
        return f"{self.family}{' in folds' * bool(self.study)}: {'; '.join(part for part in parts if part)}"


# ---- kinds of data ----------------------------------------------------------------------------


def _fortran(entries: HostArray) -> HostArray:
    return np.asfortranarray(entries)


def _strided(entries: HostArray) -> HostArray:
    """Return every second row and column of a larger array, as a view with these entries."""
    outer = np.zeros([2 * size for size in entries.shape], dtype=entries.dtype)
    inner: HostArray = outer[tuple(slice(None, None, 2) for _ in entries.shape)]
    inner[...] = entries
    return inner


def _file(entries: HostArray) -> HostArray:
    """Return a memory map of a temporary file, whose name is deleted at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entries.npy"
        np.save(path, entries)
        mapped: HostArray = np.load(path, mmap_mode="r")
    return mapped


def _slices(entries: HostArray) -> Callable[[], Iterator[HostArray]]:
    """Return a callable that yields row slices in each call; the first slice is shorter than the others."""

    def reading() -> Iterator[HostArray]:
        stops = [0, *range(3, len(entries), SLICE_ROWS), len(entries)]
        for start, stop in itertools.pairwise(stops):
            if stop > start:
                yield entries[start:stop]

    return reading


def _strict(entries: HostArray) -> Any:
    import array_api_strict

    return array_api_strict.asarray(entries)


def _factored(entries: HostArray) -> Any:
    """Return the entries as a product of two matrices, which is exact.

    The first matrix is sparse and has the columns in reverse order; the second is dense and reverses them back.
    """
    turn = np.fliplr(np.eye(entries.shape[1]))
    return ProductOperator(as_operator(scipy.sparse.csr_array(entries[:, ::-1])), as_operator(turn))


def _blocks(entries: HostArray) -> Any:
    """Return a `linspec.sweeps.BlockOperator` that holds blocks of rows, of several heights, in this process."""
    edges = [0, *range(4, len(entries), 2 * SLICE_ROWS), len(entries)]
    return BlockOperator(
        [entries[start:stop].copy() for start, stop in itertools.pairwise(edges) if stop > start]
    )


def _scaled(entries: HostArray) -> Any:
    """Return a power of two times an array of ordinary numbers; other dtypes than float64 are not scaled."""
    size = float(np.abs(entries).max(initial=0.0)) if entries.dtype.kind == "f" else 0.0
    if not 0 < size < np.inf or entries.dtype != np.float64:
        return as_operator(entries.copy())
    exponent = int(np.frexp(size)[1])
    return ScaledOperator(as_operator(np.ldexp(entries, -exponent)), float(2.0**exponent))


KINDS: Mapping[str, Callable[[HostArray], Any]] = {
    "ndarray": lambda entries: entries.copy(),
    "fortran": _fortran,
    "strided": _strided,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "factored": _factored,
    "products": ProductsOnly,
    "npy": _file,
    "slices": _slices,
    "iterator": lambda entries: _slices(entries)(),
    "blocks": _blocks,
    "scaled": _scaled,
    "operator": lambda entries: scipy.sparse.linalg.aslinearoperator(entries.copy()),
    "array-api-strict": _strict,
}
"""The kinds of data, by name: functions that wrap entries."""


def families_here() -> tuple[str, ...]:
    """Return the families with an oracle: those that linspec ships, and those of other plugins.

    Families whose solvers cannot run, for example without torch, are left out.
    """
    others = sorted(set(linspec.problems()) - set(FAMILIES))
    found = []
    for name in (*FAMILIES, *others):
        try:
            testing = testing_of(name)
        except LinspecError:  # no such family here, or a record without an oracle
            continue
        if not testing.missing() and linspec.solvers(name):
            found.append(name)
    return tuple(found)
