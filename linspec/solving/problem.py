"""The base class of problems: data, a few numbers, and the law by which answers are judged.

A problem holds its data as operators, and its numbers. The constructor checks shapes, dtypes and numbers, and
reads no entry. The law makes the solution from the arrays of a solver: unit vectors, order, signs, and the
residual of the returned arrays. The families of problems are in `linspec.families`.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from linspec import cost
from linspec.arrays import (
    HOST,
    Array,
    Home,
    HostArray,
)
from linspec.errors import InvalidProblem, UnknownOption
from linspec.frames import RowNames
from linspec.moments.moments import Moments
from linspec.operators import (
    LinearOperator,
    as_operator,
    uncounted,
)
from linspec.operators.large_means import without_large_means
from linspec.operators.range_of_entries import Magnitude, check_square
from linspec.registry.keywords import parameters_of, unknown_parameter
from linspec.registry.options import is_number
from linspec.solving.checks import check_flag, check_ridge
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms
from linspec.solving.problem_rows import RowsOfProblem
from linspec.solving.solution import Solution, Status
from linspec.solving.summary import facts_as_html
from linspec.sweeps.first_look import FirstLook, look_at, ranged

CENTRING = 10
"""A finding is reported if subtracting means from products may cause an error above this multiple of the
tolerance."""

S_co = TypeVar("S_co", bound=Solution, covariant=True)
"""The class of a problem's answers."""


class Problem(RowsOfProblem, ABC, Generic[S_co]):
    """Data, a few numbers and a law; `Problem[S]` has answers of class S.

    Attributes
    ----------
    name : str
        The name of the class in the registry.
    tolerance : float
        The default of `tol` for float64 data.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> problem = ls.SVD(A, k=2)
    >>> isinstance(problem, ls.Problem), problem.name, list(problem.matrices)
    (True, 'svd', ['A'])
    """

    name: ClassVar[str]
    tolerance: ClassVar[float]
    solution: ClassVar[type[Solution]]
    matrix_names: ClassVar[tuple[str, ...]]

    shared: Moments | None = None  # moments that were given instead of the data
    vector: bool = False
    column_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # by matrix, of those that have names
    frame_library: str = ""  # of the first frame among the data
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by name, "module:Class" of a linspec.HeldOutScore; the first is what cross_validate takes by itself
    taken: ClassVar[Mapping[str, HostArray]] = MappingProxyType(
        {}
    )  # the rows that were subtracted from centred matrices

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """Refuse a parameter that the problem does not have, and suggest the right one."""
        if named:
            known, takes_any = parameters_of(cls.__init__)
            unknown = [name for name in named if name not in known]
            if unknown and not takes_any:
                raise UnknownOption(unknown_parameter(cls.__name__, unknown[0], known, of_solve=True)[0])
        return super().__new__(cls)

    @abstractmethod
    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of this problem's data."""

    @abstractmethod
    def conclude(self, moments: Moments, terms: Terms = DEFAULT_TERMS, **arrays: Any) -> Conclusion:
        """Apply the law to the arrays of a solver."""

    def start(self, given: Any) -> dict[str, Array]:
        """The arrays of an earlier answer, in the form that a solver starts from."""
        raise InvalidProblem(f"solvers of {self.name} cannot begin at an earlier answer; leave start out.")

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The problem's matrices by name."""
        return {name: getattr(self, name) for name in self.matrix_names}

    @property
    def home(self) -> Home:
        """Where the first matrix lies."""
        return next((A.home for A in self.matrices.values()), HOST)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The least precise working dtype of the matrices, after the promotion of targets."""
        return min((A.dtype for A in self.matrices.values()), key=lambda dtype: dtype.itemsize)

    @property
    def default_tol(self) -> float:
        """The tolerance for this data: products in float32 cannot do better than 100 eps."""
        return max(self.tolerance, 100 * float(np.finfo(self.dtype).eps)) if self.single else self.tolerance

    @property
    def single(self) -> bool:
        """Whether some matrix is multiplied in float32."""
        return self.dtype == np.float32

    @property
    def sweeps(self) -> float:
        """How often the data can be read: once for an iterator of slices, unless a Gram matrix is held."""
        held = self.shared is not None and self.shared.held
        return math.inf if held else min(A.sweeps for A in self.matrices.values())

    @property
    def width(self) -> int:
        """The number of columns in the blocks of an iteration."""
        return int(getattr(self, "k", 1))

    @property
    def certificate_products(self) -> float:
        """The largest number of products with the moments that the law makes; a part of a product counts as a part."""
        return 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in self._facts())})"

    def _repr_html_(self) -> str:
        return facts_as_html(f"{type(self).__name__}: no answer yet, linspec.solve makes one", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """The parameters that are shown, and their values as text."""
        own: Any = self
        fields = dataclasses.fields(own) if dataclasses.is_dataclass(own) else ()
        shown_fields = [f for f in fields if not f.kw_only or getattr(self, f.name) is not f.default]
        names = [field.name for field in shown_fields] or list(self.matrix_names)
        # An operator shows its shape and dtype and no entries; a long path of ridges is abbreviated. What can only be
        # given by name is shown where it was given.
        values = [(name, getattr(self, name)) for name in names]
        return [
            (name, repr(value) if isinstance(value, LinearOperator) else reprlib.repr(value))
            for name, value in values
        ]

    def check_sizes(self) -> None:
        """Check the problem's numbers against the number of rows, once these have been counted."""

    def with_matrices(self, matrices: Mapping[str, LinearOperator]) -> Self:
        """The same problem on other operators, such as counted ones."""
        twin = copy.copy(self)
        for name, A in matrices.items():
            object.__setattr__(twin, name, A)
        return twin

    def with_numbers(self, *, ridge: Any = None, k: Any = None) -> Self:
        """The same problem with another ridge, as the problem holds it, or another k; None leaves it as it is."""
        twin = self.with_matrices({})
        for name, value in (("ridge", ridge), ("k", k), ("every", None if k is None else False)):
            if value is not None:
                object.__setattr__(twin, name, value)
        return twin

    def checked_ridge(self, ridge: Any) -> Any:
        """One ridge as the problem holds it, after a check."""
        return check_ridge(ridge)

    def sizes(self) -> cost.Sizes:
        """The sizes for estimates of time and memory: those of all matrices."""
        return cost.sizes_of(list(self.matrices.values()), self.width)

    def lost_to_centring(self, moments: Moments) -> tuple[tuple[Status, str], ...]:
        """A finding if subtracting means from products loses more digits than the tolerance allows."""
        findings: list[tuple[Status, str]] = []
        for name, columns in moments.columns.explained.items():
            listed = ", ".join(map(str, columns[:5])) + (", …" if len(columns) > 5 else "")
            text = f"The confounds explain {len(columns)} of the columns of {name} but for a share of 1e-8 or less of "
            text += f"their squares: {listed}. What is left of them is rounding. Leave them out."
            findings.append((Status.ILL_CONDITIONED, text))
        findings += [
            underflowing_columns(name, columns) for name, columns in moments.columns.underflowing.items()
        ]
        error = moments.columns.centring_error()
        if findings or error <= CENTRING * self.default_tol:
            return tuple(findings)
        what = "Means, or what confounds explain," if moments.columns.confounded else "Means"
        text = f"{what} much larger than the deviations of a column were subtracted from products, not from entries: "
        text += f"relative errors of about {min(error, 1.0):.0e} remain, which the residual does not show. Pass an "
        return ((Status.ILL_CONDITIONED, text + "array or a file, or subtract a constant from each column."),)

    # ---- the data and the answer as they are given ----------------------------------------------

    def looked_at(self) -> dict[str, FirstLook]:
        """The first look at each matrix, which refuses arrays in memory with entries that are not finite."""
        looks = {name: look_at(name, A) for name, A in self.matrices.items()}
        # Entries about a row are small: those that were given have the size of what was subtracted.
        heaviest = 1.0 if self.sample_weight is None else float(np.max(self.sample_weight, initial=0.0))
        for name, row in self.taken.items():
            root = math.sqrt(heaviest)
            given = Magnitude(root * float(np.max(np.abs(row), initial=0.0)))
            looks[name] = dataclasses.replace(looks[name], size=looks[name].size.merged(given))
        return looks

    def about_rows(self) -> Any:
        """The problem with a row subtracted from sparse matrices whose centring loses digits, or itself.

        A centred matrix may be shifted by any row. The shift costs a copy of the entries and preserves the
        digits.
        """
        if not getattr(self, "center", False) or self.shared is not None:
            return self
        found = {name: without_large_means(A, self.sample_weight, name) for name, A in self.matrices.items()}
        taken = {name: row for name, (_, row) in found.items() if row is not None}
        if not taken:
            return self
        twin = self.with_matrices({name: A for name, (A, _) in found.items()})
        object.__setattr__(twin, "taken", MappingProxyType(taken))
        return twin

    def unregularised(self) -> dict[str, float]:
        """The matrices whose column weights are computed, and the least ridge of each."""
        return {}

    def in_range(self, looks: Mapping[str, FirstLook]) -> Self:
        """The problem on matrices whose entries are in the range: products with them are watched where needed.

        Raises
        ------
        DataOutOfRange
            The largest entry of a matrix is out of the range.
        """
        self.check_ridges()
        matrices = self.matrices
        found = {name: ranged(name, A, looks[name]) for name, A in matrices.items()}
        return self if all(found[name] is A for name, A in matrices.items()) else self.with_matrices(found)

    def check_ridges(self) -> None:
        """Refuse ridges whose roots are out of the range of entries.

        Raises
        ------
        DataOutOfRange
        """
        given = getattr(self, "ridge", 0.0)
        for ridge in given if isinstance(given, tuple) else (given,):
            if is_number(ridge):
                check_square("ridge", float(ridge))

    @property
    def changes_columns(self) -> bool:
        """Whether columns are scaled or shifted, so that an answer has to be given back for those of the data."""
        adjustments = (uncounted(A)[0].adjustment for A in self.matrices.values())
        return bool(self.taken) or any(
            adjustment is not None and adjustment.scale for adjustment in adjustments
        )

    def as_given(self, arrays: Mapping[str, Any], *, returned: bool = True) -> dict[str, Any]:
        """The arrays of an answer, or of an iterate, for the columns as they were given."""
        found = self.in_given_columns(arrays)
        for name, row in self.taken.items():
            mean = found.get(self.means.get(name, ""))
            if mean is not None:
                found[self.means[name]] = (mean + row).astype(mean.dtype)
        return found

    def as_solved(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of an earlier answer for the columns as they are solved for."""
        return self.in_given_columns(start, back=True)

    def promote(self, name: str, dtype: np.dtype[Any]) -> None:
        """Multiply a matrix in a wider dtype, which represents its entries exactly, if possible."""
        A = getattr(self, name)
        if A.dtype.itemsize < dtype.itemsize:
            wider = A.in_dtype(dtype)
            object.__setattr__(self, name, A if wider is None else wider.with_names_of(A))

    def name_columns(self, names: Mapping[str, Sequence[str]], library: str = "") -> None:
        """Give names to the columns of matrices whose data have none, as those of files.

        Parameters
        ----------
        names : mapping of str to sequence of str
            By matrix. Those of other matrices, and of other columns than a matrix has, are left out.
        library : str, default ""
            The library in which tables are to be made.
        """
        known = {
            name: tuple(columns)
            for name, columns in names.items()
            if name in self.matrix_names and getattr(self, name).shape[1] == len(columns)
        }
        object.__setattr__(self, "column_names", {**self.column_names, **known})
        object.__setattr__(self, "frame_library", self.frame_library or library)

    def adopt(self, name: str, data: Any) -> LinearOperator:
        """Make one of the problem's matrices from data, in the constructor.

        Parameters
        ----------
        name : str
            The field that holds the matrix; messages use this name.
        data : anything that `linspec.as_operator` takes

        Returns
        -------
        LinearOperator

        Raises
        ------
        InvalidProblem
            The matrix has no rows or no columns.
        """
        A = as_operator(data, name)
        if 0 in A.shape:
            raise InvalidProblem(f"{name} must have rows and columns; got shape {A.shape}.")
        object.__setattr__(self, name, A)
        if A.column_names is not None:
            object.__setattr__(self, "column_names", {**self.column_names, name: A.column_names})
            object.__setattr__(self, "frame_library", self.frame_library or A.frame_library)
        if A.row_names is not None and self.row_names is None:
            object.__setattr__(self, "row_names", RowNames(A.row_names))
        return A


def shared_moments(problem: Problem[Any], data: Any, center: bool) -> Moments | None:
    """The moments that were given instead of data, after a check that they fit the problem."""
    check_flag("center", center)
    shared = data if isinstance(data, Moments) else None
    object.__setattr__(problem, "shared", shared)
    if shared is not None and shared.center != center:
        raise InvalidProblem(
            f"the moments were made with center={shared.center}; pass center={shared.center} to the problem too."
        )
    return shared


def underflowing_columns(name: str, columns: tuple[int, ...]) -> tuple[Status, str]:
    """The finding about columns of a matrix whose squares, which the solution rests on, are no numbers."""
    text = f"{len(columns)} of the columns of {name} (the first is column {columns[0]}) are so small that squares of "
    text += "their entries are no numbers: what they say may be missing. Multiply these columns."
    return Status.ILL_CONDITIONED, text
