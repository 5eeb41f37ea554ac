"""Class vectors: the class of each row, as numbers or strings, in any container.

Problem: labels come as lists, arrays of any library, series and frames; some rows have no class, and some entries
cannot be the name of a class.
Method: labels are converted to an array of one kind. Classes are sorted, and each row gets the number of its class.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number, Real
from typing import Any

import numpy as np

from linspec.arrays import HostArray, check_bare, is_array, plain_array, to_host
from linspec.borrowed import borrowed
from linspec.errors import InvalidOption, InvalidProblem, NonFiniteData, UnsupportedData
from linspec.frames import is_frame, is_series, labels_of

__all__ = ["are_classes", "class_codes"]


def as_array(given: Any) -> Any:
    """Convert lists, frames, series and arrays of labels to arrays; return labels of other types unchanged."""
    check_bare(given, "labels")
    if is_frame(given) or is_series(given):
        return labels_of(given, "labels")
    if isinstance(given, list | tuple):
        given = _of_sequence(given)
    given = borrowed(given, "labels")
    if is_array(given):
        given = plain_array(given, "labels")
    return given


def _of_sequence(given: Any) -> HostArray:
    """Convert a list or tuple to an array: a vector of objects for a list of classes, a matrix for a list of rows."""
    if not any(isinstance(entry, Iterable) and not isinstance(entry, str | bytes) for entry in given):
        vector = np.empty(len(given), dtype=object)
        vector[:] = given
        return vector
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        raise InvalidProblem(
            f"the rows of a label matrix must have equally many entries; got a {type(given).__name__} that is not a "
            "matrix. Pass zeros and ones, a column for each label."
        ) from error


def are_classes(labels: Any) -> bool:
    """Whether labels are a class vector, the class of each row, or texts, and not a matrix of numbers.

    Parameters
    ----------
    labels : anything that `linspec.targets` takes
    """
    labels = as_array(labels)
    return getattr(labels, "ndim", 2) == 1 or getattr(getattr(labels, "dtype", None), "kind", "") in tuple(
        "OSTU"
    )


def class_codes(y: Any, unlabelled: Any = ()) -> tuple[HostArray, HostArray]:
    """Return the index of the class of each row (-1 without a class), and the classes in sorted order.

    Parameters
    ----------
    y : class vector of length n
        As for `linspec.targets.lda`.
    unlabelled : value or collection of values, default ()
        As for `linspec.targets.lda`.

    Returns
    -------
    numpy.ndarray of shape (n,), numpy.ndarray of shape (c,)

    Raises
    ------
    InvalidProblem, NonFiniteData, UnsupportedData, InvalidOption
        As for `linspec.targets.lda`.
    """
    y = as_array(y)
    if not is_array(y) or y.ndim != 1 or 0 in tuple(y.shape):
        got = f"shape {tuple(y.shape)}" if is_array(y) else type(y).__name__
        raise InvalidProblem(
            f"y must be a class vector, a list or a one-dimensional array with the class of each row; got {got}. Of an "
            "indicator matrix pass argmax(axis=1); bring labels that lie elsewhere here, y.compute()."
        )
    return numbered(to_host(y), named_entries(unlabelled))


def numbered(vector: HostArray, named: frozenset[Any]) -> tuple[HostArray, HostArray]:
    """Index of the class of each entry (-1 without a class), and the sorted classes; raise if there is no class."""
    numbers, classes = numbered_if_any(vector, named)
    if not len(classes):
        raise InvalidProblem(
            f"a class vector must have a class in some row; got {len(vector)} rows without a class. Check `unlabelled`."
        )
    return numbers, classes


def numbered_if_any(vector: HostArray, named: frozenset[Any]) -> tuple[HostArray, HostArray]:
    """Index of the class of each entry (-1 without a class), and the sorted classes, which may be empty."""
    present, entries = _present(vector)
    _check_classes(entries, present)
    classes, inverse = np.unique(entries, return_inverse=True)
    keep = np.array([value not in named for value in classes.tolist()], dtype=bool)
    kept = np.where(keep, np.cumsum(keep) - 1, -1)
    numbers = np.full(len(vector), -1, dtype=np.int64)
    numbers[present] = kept[inverse]
    return numbers, classes[keep]


def _present(vector: HostArray) -> tuple[HostArray, HostArray]:
    """Return a mask of the entries that are neither None nor NaN, and these entries as an array of one dtype."""
    if vector.dtype.kind == "f":
        present = ~np.isnan(vector)
        return present, vector[present]
    if vector.dtype.kind not in "OT":
        return np.ones(len(vector), dtype=bool), vector
    values = [value.item() if isinstance(value, np.generic) else value for value in vector.tolist()]
    present = np.array([value is not None and not _is_nan(value) for value in values], dtype=bool)
    known = [value for value, there in zip(values, present, strict=True) if there]
    for kind in (str, bytes, Real):
        if all(isinstance(value, kind) for value in known):
            return present, np.asarray(known)
    odd = next((value for value in known if not isinstance(value, str | bytes | Real)), None)
    got = "both" if odd is None else f"{type(odd).__name__}"
    raise UnsupportedData(
        f"classes must be all numbers or all strings; got {got}. Name each class by a string, and a missing one by "
        "None."
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124 (NaN alone)


def _check_classes(entries: HostArray, present: HostArray) -> None:
    """Raise an error for entries other than bools, integers, whole floats and strings.

    Refused are other dtypes, such as complex numbers and dates, and floats that are infinite or not whole. `present` is
    the mask of the entries in the whole vector, by which the error names the row.
    """
    kind = entries.dtype.kind
    if kind not in "biufUS":
        raise UnsupportedData(
            f"a class vector must hold integers or strings; got dtype {entries.dtype}. Number the classes, or name "
            "them by strings."
        )
    if kind != "f":
        return
    odd = np.flatnonzero(entries != np.rint(entries)) if np.isfinite(entries).all() else None
    if odd is None:
        at = int(np.flatnonzero(~np.isfinite(entries))[0])
        raise NonFiniteData(
            f"classes must be finite; got {entries[at]} in row {np.flatnonzero(present)[at]}. A row without a class "
            "is None or NaN."
        )
    if len(odd):
        raise InvalidProblem(
            f"classes must be whole numbers or strings; got {entries[odd[0]]:g} in row "
            f"{np.flatnonzero(present)[odd[0]]}. A label with weights is a matrix of one column, y[:, None]."
        )


def named_entries(unlabelled: Any) -> frozenset[Any]:
    """Return the argument `unlabelled` as a set of the entries that mean "no class"."""
    if unlabelled is None or isinstance(unlabelled, str | bytes | Number | np.generic):
        unlabelled = (unlabelled,)
    elif is_array(unlabelled):
        unlabelled = to_host(unlabelled).ravel().tolist()
    try:
        values = [value.item() if isinstance(value, np.generic) else value for value in unlabelled]
        return frozenset(value for value in values if value is not None)
    except TypeError as error:
        raise InvalidOption(
            f"unlabelled must be an entry of the class vector, or a list of them; got {unlabelled!r}."
        ) from error
