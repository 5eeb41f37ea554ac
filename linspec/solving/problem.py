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
from linspec.errors import UnknownOption
from linspec.frames import RowNames, check_order
from linspec.moments.moments import Moments
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, LinearOperator, uncounted
from linspec.operators.adjustment import Adjustment
from linspec.operators.chosen_rows import chosen_rows
from linspec.operators.range_of_entries import check_square
from linspec.operators.row_model import row_model
from linspec.registry.keywords import parameters_of, unknown_parameter
from linspec.registry.options import is_number
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms, fewer_than_asked
from linspec.solving.fields import Statement, view_names
from linspec.solving.solution import Solution, Status
from linspec.solving.stating import (
    add_row_fields,
    check_sizes,
    checked_ridge,
    least_ridges,
    set_matrix,
    start_of,
    state,
)
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
    stated: ClassVar[Statement] = Statement()

    # Fields that each problem may have; these are the values for problems without them.
    center: bool = False
    scale: bool = False
    sample_weight: Any = None
    confounds: Any = None

    shared: Moments | None = None  # moments that were given instead of the data
    vector: bool = False
    every: bool = False  # whether k follows from the sizes
    row_names: RowNames | None = None  # of the first matrix that has some
    row_labels: Mapping[str, RowNames] = MappingProxyType({})  # of data beside the matrices
    column_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # by matrix, of those that have names
    frame_library: str = ""  # of the first frame among the data
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by name, "module:Class" of a linspec.HeldOutScore; the first is the default of cross_validate

    def __init_subclass__(cls, *, adjusts_rows: bool = True) -> None:
        """Collect the declared fields of a class of problems, and add those of weights, confounds and scale.

        Parameters
        ----------
        adjusts_rows : bool, default True
            Whether rows may have weights and confounds, and columns be scaled.
        """
        super().__init_subclass__()
        cls.stated = Statement.of(cls, cls.stated)
        if adjusts_rows:
            add_row_fields(cls)

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """Refuse a parameter that the problem does not have, and suggest the right one."""
        if named:
            known, takes_any = parameters_of(cls.__init__)
            unknown = [name for name in named if name not in known]
            if unknown and not takes_any:
                raise UnknownOption(unknown_parameter(cls.__name__, unknown[0], known, of_solve=True)[0])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Make operators of the matrices, and check all numbers, as the fields are declared."""
        state(self)

    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """Return the moments of this problem's matrices."""
        matrices = self.matrices
        return self.shared or Moments(
            *matrices.values(), center=self.center, form=form, expect=expect, names=tuple(matrices)
        )

    @abstractmethod
    def conclude(self, moments: Moments, terms: Terms = DEFAULT_TERMS, **arrays: Any) -> Conclusion:
        """Apply the law to the arrays of a solver."""

    def start(self, given: Any) -> dict[str, Array]:
        """Check the vectors of an earlier answer, and return them as a solver starts from them."""
        return start_of(self, given)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """The names of the matrices."""
        return tuple(self.matrices)

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The problem's matrices by name."""
        found: dict[str, LinearOperator] = {}
        for name in self.stated.matrix_names:
            value = getattr(self, name)
            found |= (
                dict(zip(view_names(len(value)), value, strict=True))
                if isinstance(value, tuple)
                else {name: value}
            )
        return found

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
        names = [field.name for field in shown_fields] or list(self.matrices)
        # An operator shows its shape and dtype and no entries; a long path of ridges is abbreviated. What can only be
        # given by name is shown where it was given.
        values = [(name, getattr(self, name)) for name in names]
        return [
            (name, repr(value) if isinstance(value, LinearOperator) else reprlib.repr(value))
            for name, value in values
        ]

    def check_sizes(self) -> None:
        """Check that the matrices have equally many rows, and k against the sizes, once rows have been counted."""
        check_sizes(self)

    def with_matrices(self, matrices: Mapping[str, LinearOperator]) -> Self:
        """Return a copy of the problem with other operators, such as counted ones."""
        twin = copy.copy(self)
        for name, A in matrices.items():
            set_matrix(twin, name, A)
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
        return checked_ridge(self, ridge)

    def sizes(self) -> cost.Sizes:
        """Return the sizes of all matrices, for estimates of time and memory."""
        return cost.sizes_of(list(self.matrices.values()), self.width)

    def noise(self, moments: Moments) -> float:
        """Return the relative rounding of products with unit vectors, below which values are not distinguished from 0.

        Parameters
        ----------
        moments : Moments
            The moments of the problem, after a product.
        """
        columns = sum(A.shape[1] for A in self.matrices.values())
        unit = max(float(np.finfo(self.dtype).eps), moments.columns.centring_error())
        return 10 * math.sqrt(columns) * unit

    def concluded(self, moments: Moments, residual: float, **fields: Any) -> Conclusion:
        """Return the conclusion on an answer: its arrays in the libraries of the data, its adjustments and findings.

        Parameters
        ----------
        moments : Moments
        residual : float
        **fields
            The fields of the answer. Weights are placed in the library and dtype of their matrices.

        Returns
        -------
        Conclusion
            With the finding that there are fewer components than requested, if so, and that digits were lost.
        """
        layout = self.solution.layout
        for field, (name, _) in layout.weights.items():
            matrices = [self.matrices[each] for each in self._in_field(field)]
            several = self.stated.matrices[field].several
            placed = [
                A.home.place(W, A.dtype)
                for A, W in zip(matrices, fields[name] if several else [fields[name]], strict=True)
            ]
            fields[name] = tuple(placed) if several else placed[0]
        fields |= self.fields_of_adjustments(moments)
        findings = self.lost_to_centring(moments)
        if self.stated.count and layout.value:
            found = len(fields[layout.value])
            wanted = found if self.every else getattr(self, self.stated.count)
            what = f"{layout.value_label}s that can be distinguished from zero"
            findings = (*fewer_than_asked(found, wanted, what), *findings)
        return Conclusion(fields, residual, findings)

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
                    A,
                    model,
                    settle,
                    scale=bool(self.scale) and self.stated.field_of(name) in self.solution.layout.scaled,
                    name=name,
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
        return least_ridges(self)

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
        layout, adjustments = self.solution.layout, self.adjustments
        for field, weights in layout.scaled.items():
            for i, name in enumerate(self._in_field(field)):
                adjustment = adjustments.get(name)
                if adjustment is None or not adjustment.scale:
                    continue
                uncounted(self.matrices[name])[0].settle()  # type: ignore[attr-defined]  # it has an adjustment
                for each in filter(None, (weights, *layout.in_units.get(field, ()))):
                    value, inverse = found.get(each), back == (each == weights)
                    if isinstance(value, tuple):
                        given = adjustment.given(value[i], axis, inverse=inverse)
                        found[each] = (*value[:i], given, *value[i + 1 :])
                    elif value is not None:
                        found[each] = adjustment.given(value, axis, inverse=inverse)
        return found

    def _in_field(self, field: str) -> tuple[str, ...]:
        """Return the names of the matrices that a field holds."""
        value = getattr(self, field)
        return view_names(len(value)) if isinstance(value, tuple) else (field,)

    def fields_of_adjustments(self, moments: Moments) -> dict[str, Any]:
        """Return the fields of a solution with the adjustment of each matrix: means, slopes, scales.

        Parameters
        ----------
        moments : Moments
            The moments of the problem.
        """
        found: dict[str, Any] = {}
        layout = self.solution.layout
        for i, (name, A) in enumerate(self.matrices.items()):
            field = self.stated.field_of(name)
            if field not in layout.means:
                continue
            for what, value in moments.columns.adjustment(i).of_new_rows().items():
                if what == "confound_mean":
                    found[what] = value
                    continue
                dtype = _wide_enough(value, A.dtype) if what == "slopes" else A.dtype
                placed, key = A.home.place(value, dtype), layout.prefix(field) + what
                several = self.stated.matrices[field].several
                found[key] = (*found.get(key, ()), placed) if several else placed
        return found

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
            if name in self.matrices and self.matrices[name].shape[1] == len(columns)
        }
        object.__setattr__(self, "column_names", {**self.column_names, **known})
        object.__setattr__(self, "frame_library", self.frame_library or library)

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
