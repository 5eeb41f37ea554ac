"""A case: data of some kind and a problem on them, all from a seed or written out.

Problem: a failing trial must be repeated exactly, made smaller, and shown as a few lines of code.
Method: a `Case` holds NumPy arrays in their dtype, the kind of object that wraps them when the problem is
made, and the numbers of the problem. The data of a solver are made anew for each solve. Answers are judged by
the entries as they are after rounding to their dtype.
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

from linspec import CCA, SVD, Discriminant, LeastSquares
from linspec.arrays import HostArray, working_dtype
from linspec.operators import ProductOperator, as_operator
from linspec.testing.operators import ProductsOnly

__all__ = ["FAMILIES", "KINDS", "TOLERANCES", "Case", "Matrix"]

PROBLEMS: Mapping[str, Any] = {
    "least-squares": LeastSquares,
    "svd": SVD,
    "cca": CCA,
    "discriminant": Discriminant,
}

FAMILIES = tuple(PROBLEMS)

TOLERANCES = {"least-squares": 1e-8, "svd": 1e-6, "cca": 1e-6, "discriminant": 1e-6}
"""The default of `tol`; for float32 data it is at least 100 eps."""

MAIN = {"least-squares": ("A",), "svd": ("A",), "cca": ("X", "Y"), "discriminant": ("X",)}
"""The matrices that determine the precision of the answer. The other matrices are targets."""

MATRICES = {"least-squares": ("A", "B"), "svd": ("A",), "cca": ("X", "Y"), "discriminant": ("X", "H")}

SLICE_ROWS = 7
"""The rows of a slice, for data that are given as slices."""


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
        """The data as they are given to linspec."""
        return KINDS[self.kind](self.entries)


@dataclass(frozen=True)
class Case:
    """A problem to solve.

    Attributes
    ----------
    family : str
        The problem's name in the registry.
    matrices : mapping of str to Matrix
    parameters : mapping
        The other arguments of the problem: ``k``, ``ridge``, ``center``, ``left``.
    tol : float or None
        The tolerance of the solve; None for the default.
    seed : tuple of int
        The seed of the solver's random numbers.
    notes : tuple of str
        A description of the drawn data, in words.
    """

    family: str
    matrices: Mapping[str, Matrix]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tol: float | None = None
    seed: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()

    def problem(self) -> Any:
        """The problem, on newly made data."""
        data = {name: matrix.given() for name, matrix in self.matrices.items()}
        return PROBLEMS[self.family](**data, **self.parameters)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of the solver's random numbers."""
        return np.random.default_rng(list(self.seed))

    @property
    def tolerance(self) -> float:
        """The largest residual of a converged answer: at least 100 eps for float32 data."""
        if self.tol is not None:
            return self.tol
        return max(
            TOLERANCES[self.family],
            100 * self.precision if self.precision > np.finfo(np.float64).eps else 0.0,
        )

    @property
    def precision(self) -> float:
        """The unit roundoff of the least precise matrix, without targets."""
        return max(self.matrices[name].precision for name in MAIN[self.family])

    def entries(self, name: str) -> HostArray:
        """The entries of a matrix."""
        return self.matrices[name].entries

    def with_matrix(self, name: str, **changes: Any) -> Case:
        """The same case with one matrix changed."""
        return replace(self, matrices={**self.matrices, name: replace(self.matrices[name], **changes)})

    def with_parameters(self, **changes: Any) -> Case:
        """The same case with other numbers."""
        return replace(self, parameters={**self.parameters, **changes})

    def __str__(self) -> str:
        sizes = []
        for name, matrix in self.matrices.items():
            shape = " x ".join(str(size) for size in matrix.entries.shape)
            sizes.append(f"{name} {shape} {matrix.entries.dtype} {matrix.kind}")
        numbers = [f"{name}={value!r}" for name, value in self.parameters.items()]
        tol = [] if self.tol is None else [f"tol={self.tol:.2g}"]
        parts = [", ".join(sizes), ", ".join([*numbers, *tol]), *self.notes]
        return f"{self.family}: {'; '.join(part for part in parts if part)}"


# ---- kinds of data ----------------------------------------------------------------------------


def _fortran(entries: HostArray) -> HostArray:
    return np.asfortranarray(entries)


def _strided(entries: HostArray) -> HostArray:
    """Every second row and column of a larger array, as a view."""
    outer = np.zeros([2 * size for size in entries.shape], dtype=entries.dtype)
    inner: HostArray = outer[tuple(slice(None, None, 2) for _ in entries.shape)]
    inner[...] = entries
    return inner


def _file(entries: HostArray) -> HostArray:
    """A memory map of a file that is deleted with the map."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entries.npy"
        np.save(path, entries)
        mapped: HostArray = np.load(path, mmap_mode="r")
    return mapped


def _slices(entries: HostArray) -> Callable[[], Iterator[HostArray]]:
    """A callable that returns row slices in each call; the first slice is shorter than the others."""

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
    """Sparse labels times a small dense block: the columns reversed, which is exact."""
    turn = np.fliplr(np.eye(entries.shape[1]))
    return ProductOperator(as_operator(scipy.sparse.csr_array(entries[:, ::-1])), as_operator(turn))


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
    "array-api-strict": _strict,
}
"""The kinds of data, by name; each maker wraps entries."""
