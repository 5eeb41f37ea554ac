"""Checks of arguments that several problems share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linspec.arrays import (
    Array,
    Device,
    all_finite,
    check_bare,
    host_dtype,
    is_array,
    plain_array,
    to_host,
)
from linspec.borrowed import borrowed
from linspec.errors import (
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NonFiniteData,
    SweptOnce,
    UnsupportedData,
    called,
    shown,
)
from linspec.frames import check_order
from linspec.operators import (
    LinearOperator,
)
from linspec.operators.streamed import ONCE
from linspec.operators.tables import array_of_list, is_flat_list
from linspec.registry.options import is_number


def check_flag(name: str, value: Any) -> None:
    """Refuse anything but True and False.

    Parameters
    ----------
    name : str
        The argument, for the message.
    value : object

    Raises
    ------
    InvalidProblem
        It is no bool of Python or NumPy.

    Examples
    --------
    >>> from linspec.solving import check_flag
    >>> check_flag("center", True)
    >>> check_flag("center", "no")
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: center must be True or False; got 'no'.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidProblem(f"{name} must be True or False; got {shown(value)}.")


def several(name: str, values: Any) -> list[Any]:
    """Return a sequence of at least one value as a list, after a check."""
    check_bare(values, name)
    if not isinstance(values, Iterable) or isinstance(values, str) or getattr(values, "ndim", 1) == 0:
        raise InvalidProblem(f"{name} must be a sequence; got {shown(values)}. Pass [{shown(values)}].")
    listed = list(values)
    if not listed:
        raise InvalidProblem(f"{name} must hold at least one value; got an empty sequence.")
    return listed


def check_rows(name_a: str, A: LinearOperator, name_b: str, B: LinearOperator) -> None:
    """Refuse two matrices with different numbers of rows, or with the same labels of rows in another order.

    Parameters
    ----------
    name_a, name_b : str
        Their names, for the message.
    A, B : LinearOperator of shape (n, p), (n, q)
        A stream whose rows have not been counted has infinitely many, and passes.

    Raises
    ------
    InvalidProblem

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import check_rows
    >>> check_rows("X", ls.as_operator(np.ones((3, 2))), "Y", ls.as_operator(np.ones((4, 1))))
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: X and Y must have equally many rows; got 3 and 4.
    """
    if A.shape[0] != B.shape[0] and math.inf not in (A.shape[0], B.shape[0]):
        raise InvalidProblem(
            f"{name_a} and {name_b} must have equally many rows; got {A.shape[0]} and {B.shape[0]}."
        )
    check_order({name_a: A, name_b: B}, again=True)


def vector_of_list(data: Any, name: str) -> Any:
    """Convert a list of numbers to an array; return anything else unchanged."""
    if not is_flat_list(data) or not len(data):
        return data
    with called(name):
        return array_of_list(data)


def as_columns(data: Any, name: str) -> Any:
    """Return a vector, an array or a list of numbers, as a matrix with one column; return other data unchanged."""
    check_bare(data, name)
    data = vector_of_list(borrowed(data, name), name)
    return data[:, None] if is_array(data) and data.ndim == 1 else data


def refuse_iterators(data: Mapping[str, Any]) -> None:
    """Refuse iterators: some matrices are read several times, as are those that are read side by side.

    Parameters
    ----------
    data : mapping of str to data
        Matrices, as the caller passed them, by their names in messages.

    Raises
    ------
    SweptOnce
        One is an iterator, or an object with `readings` equal to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.solving import refuse_iterators
    >>> A = np.ones((4, 2))
    >>> refuse_iterators({"X": A, "Y": A})
    >>> refuse_iterators({"X": iter([A]), "Y": A})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    linspec.errors.SweptOnce: X must be readable several times; ...
    """
    for name, matrix in data.items():
        if hasattr(matrix, "__next__") or getattr(matrix, "readings", math.inf) == 1:
            raise SweptOnce(f"{name} must be readable several times; {ONCE}.")


def check_device(name_a: str, A: LinearOperator, name_b: str, B: LinearOperator) -> None:
    """Refuse two matrices of different libraries or devices.

    Parameters
    ----------
    name_a, name_b : str
        Their names, for the message.
    A, B : LinearOperator

    Raises
    ------
    UnsupportedData

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import check_device
    >>> A = ls.as_operator(np.ones((3, 2)))
    >>> check_device("X", A, "Y", A)  # both are NumPy's
    """
    if A.device != B.device:
        raise UnsupportedData(
            f"{name_a} and {name_b} must come from one library and device; got {A.device} and "
            f"{B.device}. Move one of them."
        )


def check_k(k: Any, sizes: Mapping[str, int], *, share: bool = False) -> int:
    """Check k, an integer from 1 to the least of some sizes.

    Parameters
    ----------
    k : object
    sizes : mapping of str to int
        Each size by its name in the message, in the plural; infinity if it is not known.
    share : bool, default False
        Whether the message says that a share would do, too.

    Returns
    -------
    int

    Raises
    ------
    InvalidProblem

    Examples
    --------
    >>> from linspec.solving import check_k
    >>> check_k(2, {"rows": 10, "columns": 3})
    2
    >>> check_k(4, {"rows": 10, "columns": 3})
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: k must be between 1 and 3 for 10 rows, 3 columns; got 4.
    """
    if not is_number(k, int):
        or_share = ", or a share above 0 and below 1" * share
        raise InvalidProblem(f"k must be an integer{or_share}; got {shown(k)}.")
    limit = min(sizes.values())
    if not 1 <= k <= limit:
        raise InvalidProblem(f"k must be between 1 and {limit} for {_counts(sizes)}; got {shown(k)}.")
    return int(k)


def _counts(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sizes.items() if count != math.inf)


def check_ridge(ridge: Any) -> float:
    """Check one ridge, which must be a finite number of at least 0.

    Parameters
    ----------
    ridge : object

    Returns
    -------
    float

    Raises
    ------
    InvalidProblem

    Examples
    --------
    >>> from linspec.solving import check_ridge
    >>> check_ridge(1)
    1.0
    >>> check_ridge(-1)
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: ridge must be finite and at least 0; got -1.
    """
    if not is_number(ridge):
        raise InvalidProblem(f"ridge must be a number; got {shown(ridge)}.")
    if not (math.isfinite(ridge) and ridge >= 0):
        raise InvalidProblem(f"ridge must be finite and at least 0; got {ridge}.")
    return float(ridge)


def check_ridges(ridge: Any) -> float | tuple[float, ...]:
    """Check a ridge or a sequence of ridges; return a sequence as a tuple."""
    check_bare(ridge, "ridge")
    if isinstance(ridge, np.ndarray) and ridge.ndim == 1:
        ridge = ridge.tolist()
    if not isinstance(ridge, tuple | list):
        return check_ridge(ridge)
    if not ridge:
        raise InvalidProblem("ridge must be a number or a sequence of numbers; got an empty sequence.")
    return tuple(check_ridge(value) for value in ridge)


def finite_array(x: Any, name: str) -> Array:
    """Check that an array, or a list, holds finite real numbers.

    Parameters
    ----------
    x : array or list
    name : str
        For the message.

    Returns
    -------
    array
        In the library and on the device of `x`. A floating dtype stays; integers and bools become float64. A list
        becomes a NumPy array.

    Raises
    ------
    InvalidProblem
        It holds no real numbers.
    NonFiniteData
        An entry is NaN or infinite.
    UnsupportedData
        Its entries are masked, have a unit, or are not stored one by one.

    Examples
    --------
    >>> from linspec.solving import finite_array
    >>> finite_array([1, 2, 3], "centers")
    array([1., 2., 3.])
    >>> finite_array([1.0, float("nan")], "centers")
    Traceback (most recent call last):
        ...
    linspec.errors.NonFiniteData: centers must be finite; got NaN or infinity.
    """
    try:
        check_bare(x, name)
        array = plain_array(x, name) if is_array(x) else to_host(x)
    except ValueError as error:
        raise InvalidProblem(f"{name} must be an array of real numbers; {error}.") from error
    dtype = host_dtype(array)
    if dtype.kind not in "fiub":
        raise InvalidProblem(f"{name} must hold real numbers; got dtype {dtype}.")
    if not all_finite(array):
        raise NonFiniteData(f"{name} must be finite; got NaN or infinity.")
    return array if dtype.kind == "f" else Device.of(array).blocks.asarray(array)


def finite_block(x: Any, name: str) -> Array:
    """Check that an array has rows and columns; a vector becomes one column."""
    V = finite_array(x, name)
    if V.ndim == 1:
        V = V[:, None]
    if V.ndim != 2 or 0 in V.shape:
        raise InvalidProblem(f"{name} must have rows and columns; got shape {tuple(V.shape)}.")
    return V


def check_fraction(name: str, value: Any) -> None:
    """Refuse a level of significance or coverage that is not between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise InvalidOption(f"{name} must be between 0 and 1; got {value!r}.")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse what is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidOption(f"{name} must be one of {', '.join(choices)}; got {shown(value)}.")


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse a number of repetitions that is not an integer of at least `least`."""
    if not is_number(value, int) or value < least:
        raise InvalidOption(f"{name} must be an integer >= {least}; got {value!r}.")


def check_row_slices(
    problem: Any, purpose: str, *, refused: tuple[str, ...] = ("products",), remedy: str = ""
) -> None:
    """Raise if rows of a matrix cannot be had; `purpose` begins the message: "permutation_test moves rows"."""
    for name, A in problem.matrices.items():
        if A.access in refused:
            raise MissingCapability(
                f"{purpose}, which needs row slices; got {A!r} for {name}. Pass an array, a sparse matrix or a "
                f"file{remedy}."
            )


def check_rows_count(problem: Any) -> None:
    """Refuse a problem with a matrix whose rows are all absent or of weight 0.

    Parameters
    ----------
    problem : Problem

    Raises
    ------
    InvalidProblem
        There is such a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import check_rows_count
    >>> check_rows_count(ls.SVD(np.eye(2), k=1, sample_weight=[0.0, 1.0]))
    """
    for name in problem.matrices:
        weights = problem.weights_of(name)
        if weights is not None and not weights.any():
            raise InvalidProblem(
                f"{name} must have a row that counts; each of its rows is absent or has weight 0. Leave it out, or "
                "pass other weights."
            )
