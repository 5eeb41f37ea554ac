"""The base class of problems: data, a few numbers, and the law that judges answers.

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
    to_host,
)
from linspec.errors import InvalidProblem, UnknownOption
from linspec.frames import RowNames, check_order, column_names_of, index_of
from linspec.moments.moments import Moments
from linspec.moments.ways import settle
from linspec.operators import (
    AdjustedOperator,
    LinearOperator,
    as_operator,
    uncounted,
)
from linspec.operators.adjustment import Adjustment
from linspec.operators.chosen_rows import chosen_rows
from linspec.operators.range_of_entries import check_square
from linspec.operators.row_model import row_model, weights_and_confounds
from linspec.operators.streamed import StreamedOperator
from linspec.registry.keywords import parameters_of, unknown_parameter
from linspec.registry.options import is_number
from linspec.solving.checks import check_flag, check_ridge
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms
from linspec.solving.solution import Solution, Status
from linspec.solving.summary import facts_as_html
from linspec.sweeps.first_look import FirstLook, look_at, ranged

CENTRING = 10
"""A finding is reported if subtracting means from products may cause an error above this multiple of the
tolerance."""

S_co = TypeVar("S_co", bound=Solution, covariant=True)
"""The class of a problem's answers."""


class Problem(ABC, Generic[S_co]):
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

    # Fields that each problem may have; these are the values for problems without them.
    center: bool = False
    scale: bool = False
    sample_weight: Any = None
    confounds: Any = None

    shared: Moments | None = None  # moments that were given instead of the data
    vector: bool = False
    row_names: RowNames | None = None  # of the first matrix that has some
    row_labels: Mapping[str, RowNames] = MappingProxyType({})  # of data beside the matrices
    means: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by matrix, the solution's field with its column means
    scaled: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by matrix whose columns scale divides, the solution's field with a row for each column, or ""
    regressed: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {}
    )  # by matrix that scale divides, the solution's fields with a row for each column in units of the column
    column_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # by matrix, of those that have names
    frame_library: str = ""  # of the first frame among the data
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by name, "module:Class" of a linspec.HeldOutScore; the first is the default of cross_validate

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
        """Return the moments of this problem's data."""

    @abstractmethod
    def conclude(self, moments: Moments, terms: Terms = DEFAULT_TERMS, **arrays: Any) -> Conclusion:
        """Apply the law to the arrays of a solver."""

    def start(self, given: Any) -> dict[str, Array]:
        """Return the arrays of an earlier answer in the form that a solver starts from."""
        raise InvalidProblem(f"solvers of {self.name} cannot begin at an earlier answer; leave start out.")

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The problem's matrices by name."""
        return {name: getattr(self, name) for name in self.matrix_names}

    @property
    def home(self) -> Home:
        """Library and device of the first matrix."""
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

    proves_completeness: ClassVar[bool] = False
    """Whether the law can prove that nothing is missing, if `linspec.solve` is called with ``complete=True``."""

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
        """Return a copy of the problem with other operators, such as counted ones."""
        twin = copy.copy(self)
        for name, A in matrices.items():
            object.__setattr__(twin, name, A)
        return twin

    def with_numbers(self, *, ridge: Any = None, k: Any = None) -> Self:
        """Return a copy with another ridge (in the problem's own form) or another k; None keeps the value."""
        twin = self.with_matrices({})
        for name, value in (("ridge", ridge), ("k", k), ("every", None if k is None else False)):
            if value is not None:
                object.__setattr__(twin, name, value)
        return twin

    def checked_ridge(self, ridge: Any) -> Any:
        """Check one ridge and return it in the form in which the problem holds it."""
        return check_ridge(ridge)

    def sizes(self) -> cost.Sizes:
        """Return the sizes of all matrices, for estimates of time and memory."""
        return cost.sizes_of(list(self.matrices.values()), self.width)

    def lost_to_centring(self, moments: Moments) -> tuple[tuple[Status, str], ...]:
        """Return findings on digits lost by adjustment: tiny remainders or squares, cancellation of means."""
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
        """Look at each matrix for the first time; refuse arrays in memory with entries that are not finite."""
        return {name: look_at(name, A) for name, A in self.matrices.items()}

    def adjusted(self) -> Self:
        """Return the problem that solvers receive: a copy on adjusted matrices, or itself if nothing is adjusted.

        Weights, centre, confounds and scale move into the matrices, as `AdjustedOperator`, and leave its own fields.
        """
        model = row_model(
            center=bool(self.center),
            weights=self.sample_weight,
            confounds=self.confounds,
            about_means=True,
        )
        if self.shared is not None:  # its adjusted matrices share the statistics of the moments
            shared = [uncounted(self.shared.matrix(i))[0] for i in range(len(self.matrices))]
            found = dict(zip(self.matrices, shared, strict=True))
        elif model.center or self.scale or not model.is_plain:
            found = {
                name: AdjustedOperator(
                    A, model, settle, scale=bool(self.scale) and name in self.scaled, name=name
                )
                for name, A in self.matrices.items()
            }
        else:
            return self
        twin = self.with_matrices(found)
        values = {"center": False, "scale": False, "sample_weight": None, "confounds": None}
        for name, value in values.items():
            object.__setattr__(twin, name, value)
        return twin

    @property
    def adjustments(self) -> dict[str, Adjustment]:
        """The adjustments of the matrices that have one."""
        found = {name: uncounted(A)[0] for name, A in self.matrices.items()}
        return {name: A.adjustment for name, A in found.items() if isinstance(A, AdjustedOperator)}

    def unregularised(self) -> dict[str, float]:
        """Return the matrices whose column weights are computed, with the least ridge of each."""
        return {}

    def in_range(self, looks: Mapping[str, FirstLook]) -> Self:
        """Check the range of entries, and return the problem; where the first look is not enough, products are watched.

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
        """Whether columns are scaled, so that an answer must be converted back to the columns of the data."""
        return any(adjustment.scale for adjustment in self.adjustments.values())

    def as_given(self, arrays: Mapping[str, Any], *, returned: bool = True) -> dict[str, Any]:
        """Convert the arrays of an answer or an iterate to the columns of the data."""
        return self.in_given_columns(arrays)

    def as_solved(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the arrays of an earlier answer to the scaled columns."""
        return self.in_given_columns(start, back=True)

    def in_given_columns(
        self, arrays: Mapping[str, Any], *, back: bool = False, axis: int = 0
    ) -> dict[str, Any]:
        """Convert arrays with a row for each column of a matrix from the scaled columns to those of the data.

        Parameters
        ----------
        arrays : mapping from str to array
        back : bool, default False
            Convert in the other direction.
        axis : int, default 0
            The axis that counts the columns of the matrix.
        """
        found = dict(arrays)
        for name, weights in self.scaled.items():
            adjustment = self.adjustments.get(name)
            if adjustment is None or not adjustment.scale:
                continue
            uncounted(self.matrices[name])[0].settle()  # type: ignore[attr-defined]  # it has an adjustment
            for field in (weights, *self.regressed.get(name, ())):
                value = found.get(field)
                if value is not None:
                    found[field] = adjustment.given(value, axis, inverse=back == (field == weights))
        return found

    def fields_of_adjustments(self, moments: Moments) -> dict[str, Any]:
        """Return the fields of a solution with the adjustment of each matrix: means, slopes, scales.

        Parameters
        ----------
        moments : Moments
            The moments of the problem.
        """
        found: dict[str, Any] = {}
        for i, (name, field) in enumerate(self.means.items()):
            A, kept = self.matrices[name], moments.columns.adjustment(i).of_new_rows()
            for what, value in kept.items():
                if what == "confound_mean":
                    found[what] = value
                    continue
                dtype = _wide_enough(value, A.dtype) if what == "slopes" else A.dtype
                found[field.removesuffix("mean") + what] = A.home.place(value, dtype)
        return found

    def promote(self, name: str, dtype: np.dtype[Any]) -> None:
        """Multiply a matrix in a wider dtype, which represents its entries exactly, if possible."""
        A = getattr(self, name)
        if A.dtype.itemsize < dtype.itemsize:
            wider = A.in_dtype(dtype)
            object.__setattr__(self, name, A if wider is None else wider.with_names_of(A))

    def name_columns(self, names: Mapping[str, Sequence[str]], library: str = "") -> None:
        """Give names to the columns of matrices whose data have none, such as files.

        Parameters
        ----------
        names : mapping of str to sequence of str
            The names for each matrix. Unknown matrices, and names that are not as many as the columns, are ignored.
        library : str, default ""
            The library in which tables will be made.
        """
        known = {
            name: tuple(columns)
            for name, columns in names.items()
            if name in self.matrix_names and getattr(self, name).shape[1] == len(columns)
        }
        object.__setattr__(self, "column_names", {**self.column_names, **known})
        object.__setattr__(self, "frame_library", self.frame_library or library)

    def adopt_rows(self) -> None:
        """Check weights, confounds and scale in the constructor, after the matrices are adopted."""
        check_flag("scale", self.scale)
        if self.sample_weight is None and self.confounds is None and not self.scale:
            return
        if self.shared is not None:
            raise InvalidProblem(
                "sample_weight, confounds and scale change the moments; got moments that are made already. Pass the "
                "data themselves."
            )
        rows = min(A.shape[0] for A in self.matrices.values())
        names = column_names_of(self.confounds)
        if names is not None:
            object.__setattr__(self, "column_names", {**self.column_names, "confounds": names})
        self.adopt_labels({name: getattr(self, name) for name in ("sample_weight", "confounds")})
        w, Z = weights_and_confounds(self.sample_weight, self.confounds, rows)
        object.__setattr__(self, "sample_weight", w)
        object.__setattr__(self, "confounds", Z)
        if any(A.access == "products" for A in self.matrices.values()):
            for (
                A
            ) in self.matrices.values():  # products with slices are made beside products of the other matrix
                if isinstance(A, StreamedOperator) and A.shape[0] == math.inf:
                    A.expect(int(rows))

    def adopt_labels(self, given: Mapping[str, Any]) -> None:
        """Check the row labels of data beside the matrices, such as weights, and keep them for later checks."""
        known = {name: index_of(data) for name, data in given.items()}
        kept = {name: RowNames(index) for name, index in known.items() if index is not None}
        object.__setattr__(self, "row_labels", {**self.row_labels, **kept})
        self.check_labels({})

    def check_labels(self, given: Mapping[str, Any]) -> None:
        """Refuse data with the same row labels as this problem in another order.

        Parameters
        ----------
        given : mapping of str to anything
            The data by name, as for `linspec.frames.check_order`.
        """
        check_order({**self.matrices, **self.row_labels, **given})

    def on_rows(self, numbers: HostArray) -> Self:
        """Return a copy of the problem on some of its rows; `check_sizes` checks that they are enough.

        Rows of files are read from the file. Moments passed to the problem belong to all rows, and are dropped.

        Parameters
        ----------
        numbers : numpy.ndarray of int
            The numbers of the rows, from 0 to n - 1.

        Raises
        ------
        MissingCapability
            Rows of a matrix cannot be read by their numbers.
        """
        twin = self.with_matrices({name: chosen_rows(A, numbers) for name, A in self.matrices.items()})
        object.__setattr__(twin, "shared", None)
        object.__setattr__(twin, "row_labels", MappingProxyType({}))
        for name in ("sample_weight", "confounds"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(twin, name, value[numbers])
        if self.row_names is not None:
            object.__setattr__(twin, "row_names", self.row_names.chosen(numbers))
        return twin

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
    """Return the moments passed instead of data, after a check that they fit the problem; None for data."""
    check_flag("center", center)
    shared = data if isinstance(data, Moments) else None
    object.__setattr__(problem, "shared", shared)
    if shared is not None and shared.center != center:
        raise InvalidProblem(
            f"the moments were made with center={shared.center}; pass center={shared.center} to the problem too."
        )
    return shared


def _wide_enough(values: Array, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype`, or float64 for values beyond its range: confounds may be in any unit beside float32 data."""
    sizes, limits = np.abs(to_host(values)), np.finfo(dtype)
    within = (sizes == 0) | ((sizes >= limits.tiny) & (sizes <= limits.max))
    return dtype if within.all() else np.dtype(np.float64)


def underflowing_columns(name: str, columns: tuple[int, ...]) -> tuple[Status, str]:
    """Return the finding that squares of some columns of a matrix underflow, on which the solution rests."""
    text = f"{len(columns)} of the columns of {name} (the first is column {columns[0]}) are so small that squares of "
    text += "their entries are no numbers: what they say may be missing. Multiply these columns."
    return Status.ILL_CONDITIONED, text
