"""The base class of problems: data, a few numbers, and the certificate of answers.

A problem holds its data as operators, and its numbers. The constructor checks shapes, dtypes and numbers, and
reads no entry. The certificate makes the fields of a solution from the arrays of a solver: unit vectors, order, signs,
and the residual of the returned arrays. The families of problems are in `linspec.families`.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from abc import ABC
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import numpy as np

from linspec import cost
from linspec.arrays import HOST, Array, Device, DType, HostArray
from linspec.errors import InvalidProblem, shown
from linspec.frames import RowNames, check_order
from linspec.operators import LinearOperator
from linspec.operators.base import chosen_rows
from linspec.registry.options import ForeignNames, parameters_of, unknown_name
from linspec.rows import Moments as RowMoments
from linspec.rows import Passes, Preprocessing
from linspec.solving.fields import Statement, each_part, parts_of, view_names
from linspec.solving.shared_moments import Moments
from linspec.solving.solution import Solution
from linspec.solving.stating import (
    add_row_fields,
    check_sizes,
    set_matrix,
    start_of,
    state,
    with_values,
)

S_co = TypeVar("S_co", bound=Solution, covariant=True)
"""The class of a problem's answers."""


class Problem(ForeignNames, ABC, Generic[S_co]):
    """Data, a few numbers and a certificate; `Problem[S]` has answers of class S.

    Attributes
    ----------
    name : str
        The name of the class in the registry.
    tolerance : float
        The default of `tol` for float64 data; 1e-6 unless a class says otherwise.
    solution : type
        The class of its answers, which the base class names: `Problem[SVDSolution]`.

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
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[Solution]]
    stated: ClassVar[Statement] = Statement()

    # Fields that each problem may have; these are the values for problems without them.
    center: bool = False
    scale: bool = False
    sample_weight: Any = None
    confounds: Any = None

    given: Any = None  # the problem as it was given, if its confounds are made orthonormal
    shared: Moments | None = None  # moments that were given instead of the data
    vector: bool = False
    every: bool = False  # whether k follows from the sizes
    row_names: RowNames | None = None  # of the first matrix that has some
    row_labels: Mapping[str, RowNames] = MappingProxyType({})  # of data beside the matrices
    column_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # by matrix, of those that have names
    frame_library: str = ""  # of the first frame among the data
    lacks: tuple[float, float] | None = None  # of rows that stand for others: see `linspec.LinearOperator`
    # The arrays that solvers find, where these are not all weights of the solution.
    found: ClassVar[tuple[str, ...]] = ()
    # By name, further settings (`linspec.setting`) of its commands, which `from_command` takes.
    command: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by name, "module:Class" of a linspec.HeldOutScore; the first is the default of cross_validate

    def __init_subclass__(cls, *, adjusts_rows: bool | None = None) -> None:
        """Collect the declared fields of a class of problems, and add those of weights, confounds and scale.

        Parameters
        ----------
        adjusts_rows : bool, optional
            Whether rows may have weights and confounds, and columns be scaled. By default as in the base class.
        """
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):  # Problem[PLSSolution] has answers of this class
            answers = [
                argument
                for argument in get_args(base)
                if isinstance(argument, type) and issubclass(argument, Solution)
            ]
            if answers and "solution" not in vars(cls):
                cls.solution = answers[0]
        adjusts = cls.stated.adjusts_rows if adjusts_rows is None else adjusts_rows
        cls.stated = Statement.of(cls, cls.stated, adjusts_rows=adjusts)
        if adjusts:
            add_row_fields(cls)

    def __new__(cls, *data: Any, **named: Any) -> Self:
        """Refuse a parameter that the problem does not have, and a matrix more than it takes; suggest what has them."""
        count = dict(zip(parameters_of(cls.__init__)[0], data, strict=False)).get(cls.stated.count)
        if len(getattr(count, "shape", ())) == len("np"):
            raise InvalidProblem(
                f"{cls.__name__} takes {' and '.join(cls.stated.matrix_names)}; got another matrix behind. linspec.CCA "
                "takes two, and linspec.MultisetCCA([X, Y, Z], k) any number."
            )
        known, takes_any = parameters_of(cls.__init__) if named else ((), True)
        for name in named:
            if name not in known and not takes_any:
                raise unknown_name(cls.__name__, "parameter", name, known)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Make operators of the matrices, and check all numbers, as the fields are declared."""
        state(self)

    @classmethod
    def from_command(cls, matrices: Sequence[Any], values: dict[str, Any]) -> Self:
        """Construct the problem on the command line, where all values are numbers and words.

        Parameters
        ----------
        matrices : sequence of data
            The matrices in the order of the files; labels are an array of texts, if the file holds some.
        values : dict from str
            The values of the options by name: those of the declared fields, and of `command`.
        """
        several = any(declared.several for declared in cls.stated.matrices.values())
        return cls(list(matrices), **values) if several else cls(*matrices, **values)

    def certify(self, moments: Any, arrays: Mapping[str, Any], tol: float) -> Any:
        """Certify the arrays of a solver of the class Solver; return a `linspec.iteration.Certificate`.

        Means, slopes and scales, and what is said of them, are added to it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no certificate for solvers of the class Solver."
        )

    def moments_of_its_own(self, passes: Passes) -> Any:
        """Return what a Solver multiplies with, as kernel matrices; None: the rows of the matrices.

        It counts its passes in `passes`, and reserves there those of the certificate. Where it is no
        `linspec.rows.Moments`, nothing about preprocessing is added to the certificate.
        """
        return None

    def moments_on_rows(self, rows: Sequence[Any], pre: Preprocessing, **options: Any) -> RowMoments:
        """Return the moments of rows in blocks, which learn the preprocessing."""
        return RowMoments(rows, pre, **options)

    def for_preprocessed(self, moments: Any, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert the arrays of an answer to those of the preprocessed matrices, as a Solver begins at them."""
        return self._converted(moments, arrays, lambda fitted, W: fitted.unscaled(W))

    def for_data(self, moments: Any, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert the arrays of an iterate of a Solver to the columns of the data."""
        return self._converted(moments, arrays, lambda fitted, W: fitted.scaled(W))

    def _converted(self, moments: Any, arrays: Mapping[str, Any], convert: Any) -> Mapping[str, Any]:
        """Convert the weights of columns that are scaled by a function of what is known of their matrix."""
        names = [name for name in self.solution.layout.scaled.values() if self.scale and name in arrays]
        if names:
            moments.fit(*range(sum(len(parts_of(arrays[name])) for name in names)))
        numbers = itertools.count()
        converted = {
            name: each_part(arrays[name], lambda W: convert(moments.fitted[next(numbers)], W))
            for name in names
        }
        return {**arrays, **converted}

    def start(self, given: Any) -> dict[str, Array]:
        """Check the vectors of an earlier answer, and return them as a solver starts from them."""
        return start_of(self, given)

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The problem's matrices by name."""
        matrices: dict[str, LinearOperator] = {}
        for name in self.stated.matrix_names:
            value = getattr(self, name)
            if isinstance(value, tuple):
                matrices |= zip(view_names(len(value)), value, strict=True)
            else:
                matrices[name] = value
        return matrices

    @property
    def device(self) -> Device:
        """Library and device of the first matrix."""
        return next((A.device for A in self.matrices.values()), HOST)

    @property
    def dtype(self) -> DType:
        """The least precise of the dtypes in which the matrices are multiplied.

        These dtypes are set when the problem is made: matrices declared with `like` (see `linspec.matrix`), such as
        right-hand sides, and matrices of bools or integers may have a wider dtype than their entries.
        """
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
    def readings(self) -> float:
        """How often the data can be read: 1 if a matrix is an iterator of slices, else infinity.

        If the problem has moments that hold their Gram matrices, the number is infinity, because products read no
        data.
        """
        held = self.shared is not None and self.shared.held
        return math.inf if held else min(A.readings for A in self.matrices.values())

    @property
    def share(self) -> bool:
        """Whether k is a share of all squares in place of a number of vectors."""
        return isinstance(getattr(self, "k", None), float)

    @property
    def width(self) -> int:
        """The number of columns in the blocks of an iteration."""
        return int(getattr(self, "k", 1))

    @property
    def certificate_products(self) -> float:
        """The largest number of passes that the certificate makes where nothing is held.

        A product with a fraction of the rows or entries counts as this fraction.
        """
        return 1

    bounds_discarded: ClassVar[bool] = False
    """Whether the certificate bounds the error of rows that stand for others and lack a part of their Gram matrix."""

    proves_completeness: ClassVar[bool] = False
    """Whether the certificate can prove that no component larger than the last returned one is missing. It does so if
    `linspec.solve` is called with ``complete=True``."""

    def __repr__(self) -> str:
        problem: Any = self
        fields = dataclasses.fields(problem) if dataclasses.is_dataclass(problem) else ()
        names = [f.name for f in fields if not f.kw_only or getattr(self, f.name) is not f.default]
        # What can only be given by name is shown where it was given.
        texts = [f"{name}={shown(getattr(self, name))}" for name in names or self.matrices]
        return f"{type(self).__name__}({', '.join(texts)})"

    def check_sizes(self) -> None:
        """Check that the matrices have equally many rows, and k against the sizes, once rows have been counted."""
        check_sizes(self)

    def with_matrices(self, matrices: Mapping[str, LinearOperator]) -> Self:
        """Return a copy of the problem in which the passed operators replace the matrices of these names."""
        twin = copy.copy(self)
        for name, A in matrices.items():
            set_matrix(twin, name, A)
        return twin

    def with_numbers(self, *, ridge: Any = None, k: Any = None) -> Self:
        """Return a copy with another ridge (in the problem's own form) or another k; None keeps the value."""
        numbers = {"ridge": ridge, "k": k, "every": None if k is None else False}
        return with_values(self, **{name: value for name, value in numbers.items() if value is not None})

    def weights_of(self, name: str) -> HostArray | None:  # of a problem that says otherwise
        """Return the weights of the rows of one matrix; None if each counts once. By default `sample_weight`.

        A problem whose matrices lack some rows gives these rows the weight 0.

        Parameters
        ----------
        name : str
            The name of the matrix.
        """
        return self.sample_weight

    def sizes(self) -> cost.Sizes:
        """Return the sizes of all matrices, for estimates of time and memory."""
        return cost.sizes_of(list(self.matrices.values()), self.width)

    def check_labels(self, given: Mapping[str, Any]) -> None:
        """Refuse data with the same row labels as this problem in another order; warn of labels in part the same.

        Parameters
        ----------
        given : mapping of str to anything
            The data by name, as for `linspec.frames.check_order`.
        """
        check_order(given, {**self.matrices, **self.row_labels})

    def check_rows_came(self, purpose: str) -> None:
        """Refuse rows that stand for others; `purpose` begins the message: "bootstrap draws rows"."""
        if self.lacks is not None:
            raise InvalidProblem(
                f"{purpose}; got rows of HeldMoments, which stand for others. Pass the data themselves."
            )

    def check_held(self) -> None:
        """Refuse a problem whose answer does not follow from means and second moments of its matrices."""

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
        InvalidProblem
            The rows are few rows of `linspec.HeldMoments` that stand for others.
        """
        self.check_rows_came("rows are selected")
        twin = self.with_matrices({name: chosen_rows(A, numbers) for name, A in self.matrices.items()})
        row_data = {"sample_weight": self.sample_weight, "confounds": self.confounds}
        chosen = {name: value[numbers] for name, value in row_data.items() if value is not None}
        if self.row_names is not None:
            chosen["row_names"] = self.row_names.chosen(numbers)
        return with_values(twin, shared=None, row_labels=MappingProxyType({}), **chosen)
