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
    host_dtype,
    namespace,
    to_host,
)
from linspec.checks import check_flag, check_ridge
from linspec.conclusion import NO_TERMS, Conclusion, Terms
from linspec.errors import InvalidProblem, UnknownOption
from linspec.frames import RowNames
from linspec.keywords import parameters_of, unknown_parameter
from linspec.large_means import without_large_means
from linspec.moments import Moments
from linspec.operators import (
    LinearOperator,
    as_operator,
    uncounted,
)
from linspec.operators.rescaled import times_power_of_two
from linspec.problem_rows import RowsOfProblem
from linspec.scaling import Look, divided, look_at
from linspec.solution import (
    Solution,
    Status,
)
from linspec.summary import facts_as_html

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
    exponents: ClassVar[Mapping[str, int]] = MappingProxyType({})  # powers of two that divide matrices
    excess: ClassVar[Sequence[int]] = (0, 0)  # additional powers for ridges
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
    def conclude(self, moments: Moments, terms: Terms = NO_TERMS, **arrays: Any) -> Conclusion:
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
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in self._told())})"

    def _repr_html_(self) -> str:
        return facts_as_html(f"{type(self).__name__}: no answer yet, linspec.solve makes one", self._told())

    def _told(self) -> list[tuple[str, str]]:
        """The parameters that are shown, and their values as text."""
        own: Any = self
        fields = dataclasses.fields(own) if dataclasses.is_dataclass(own) else ()
        told = [f for f in fields if not f.kw_only or getattr(self, f.name) is not f.default]
        names = [field.name for field in told] or list(self.matrix_names)
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
        """The sizes for estimates of time and memory: those of the first two matrices."""
        first, *rest = self.matrices.values()
        return cost.sizes_of(first, rest[0] if rest else None, self.width)

    def lost_to_centring(self, moments: Moments) -> tuple[tuple[Status, str], ...]:
        """A finding if subtracting means from products loses more digits than the tolerance allows."""
        findings: list[tuple[Status, str]] = []
        for name, columns in moments.explained.items():
            listed = ", ".join(map(str, columns[:5])) + (", …" if len(columns) > 5 else "")
            text = f"The confounds explain {len(columns)} of the columns of {name} but for a share of 1e-8 or less of "
            text += f"their squares: {listed}. What is left of them is rounding. Leave them out."
            findings.append((Status.ILL_CONDITIONED, text))
        error = moments.centring_error()
        if findings or error <= CENTRING * self.default_tol:
            return tuple(findings)
        what = "Means, or what confounds explain," if moments.confounded else "Means"
        text = f"{what} much larger than the deviations of a column were subtracted from products, not from entries: "
        text += f"relative errors of about {min(error, 1.0):.0e} remain, which the residual does not show. Pass an "
        return ((Status.ILL_CONDITIONED, text + "array or a file, or subtract a constant from each column."),)

    # ---- units --------------------------------------------------------------------------------

    def looked_at(self) -> dict[str, Look]:
        """The first look at each matrix, which refuses arrays in memory with entries that are not finite."""
        return {name: look_at(name, A) for name, A in self.matrices.items()}

    def about_rows(self) -> Any:
        """The problem with a row subtracted from sparse matrices whose centring loses digits, or itself.

        A centred matrix may be shifted by any row. The shift costs a copy of the entries and preserves the
        digits.
        """
        if not getattr(self, "center", False) or self.shared is not None:
            return self
        found = {name: without_large_means(A) for name, A in self.matrices.items()}
        taken = {name: row for name, (_, row) in found.items() if row is not None}
        if not taken:
            return self
        twin = self.with_matrices({name: A for name, (A, _) in found.items()})
        object.__setattr__(twin, "taken", MappingProxyType(taken))
        return twin

    def unit_dtype(self, name: str) -> np.dtype[Any]:
        """The working dtype of a matrix after the first look."""
        return self.matrices[name].dtype

    def unregularised(self) -> dict[str, float]:
        """The matrices whose column weights are computed, and the least ridge of each."""
        return {}

    def divided(self, looks: Mapping[str, Look], exponents: Mapping[str, int]) -> Any:
        """The problem on matrices, and with ridges, divided by powers of two; itself if no matrix needs that.

        `in_given_units` converts its answers back. Moments that were passed as the data are computed again
        for divided matrices.
        """
        if self.shared is not None and min(A.sweeps for A in self.matrices.values()) < math.inf:
            exponents = dict.fromkeys(
                exponents, 0
            )  # the rows cannot be read again: the held Gram matrices are used as they are
        matrices = divided(self.matrices, looks, exponents)
        ridges, excess = self.divided_ridges(looks, exponents)
        if all(matrices[name] is A for name, A in self.matrices.items()) and not any(excess):
            return self
        twin = self.with_matrices(matrices)
        object.__setattr__(twin, "exponents", MappingProxyType(dict(exponents)))
        object.__setattr__(twin, "excess", tuple(excess))
        if ridges is not None:
            object.__setattr__(twin, "ridge", ridges)
        if any(exponents[name] for name in self.matrices):
            object.__setattr__(twin, "shared", None)
        return twin

    def divided_ridges(
        self, looks: Mapping[str, Look], exponents: Mapping[str, int]
    ) -> tuple[Any, list[int]]:
        """The ridges of the divided problem, and the powers of two by which they are too small."""
        return None, []

    def powers(self) -> dict[str, int]:
        """By array of an answer, the power of two that converts it to the units of the data."""
        return {}

    def squares_in_given_units(self, name: str, value: float) -> float:
        """A number in units of squares of a matrix, such as a ridge, converted to the units of the data."""
        return float(times_power_of_two(value, 2 * self.exponents.get(name, 0)))

    @property
    def is_divided(self) -> bool:
        """Whether the units of the answer differ from those of the data."""
        adjustments = (uncounted(A)[0].adjustment for A in self.matrices.values())
        scales = any(adjustment is not None and adjustment.scale for adjustment in adjustments)
        return any(self.exponents.values()) or any(self.excess) or bool(self.taken) or scales

    def in_given_units(self, arrays: Mapping[str, Any], *, returned: bool = True) -> dict[str, Any]:
        """The arrays of an answer to a divided problem, or of an iterate, in the units of the data."""
        powers = self.powers()
        found = {
            name: value if value is None else times_power_of_two(value, powers.get(name, 0))
            for name, value in self.in_given_columns(arrays).items()
        }
        for name, row in self.taken.items():
            mean = found.get(self.means.get(name, ""))
            if mean is not None:
                found[self.means[name]] = (mean + row).astype(mean.dtype)
        return found

    def in_own_units(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """An answer to start from, in the units of a divided problem."""
        powers = self.powers()
        found = {name: times_power_of_two(value, -powers.get(name, 0)) for name, value in start.items()}
        return self.in_given_columns(found, back=True)

    def beyond_range(self, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        """The first array of an answer that cannot be represented in the units of the data, or ""."""
        for name in self.powers():
            value = arrays.get(name)
            if value is not None and not isinstance(value, float):
                axis = None if name.endswith("mean") else -1 if self.vector or value.ndim == 1 else -2
                if _out_of_range(value, given[name], axis, single=value.ndim == 1 and not self.vector):
                    return name
        return ""

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


def _out_of_range(value: Array, given: Array, axis: int | None, *, single: bool) -> bool:
    """Whether numbers have become infinite, or so small that they have lost digits.

    In a column the largest entry decides. Independent numbers are judged one by one.
    """
    xp = namespace(value)
    before, after = xp.abs(value), xp.abs(given)
    if not single:
        before, after = (
            xp.max(size) if axis is None else xp.max(size, axis=axis) for size in (before, after)
        )
    before, after = to_host(before), to_host(after)
    least = np.finfo(host_dtype(given)).smallest_normal
    return bool(np.any((before > 0) & ~((after >= least) & np.isfinite(after))))
