"""Labels: class vectors as numbers of classes, and label matrices, dense in any library or sparse on the host.

Problem: labels come as lists, arrays of any library, series and frames; some rows have no class, and some entries
cannot be the name of a class. The targets need sums, products, scalings and Gram matrices of labels, dense or sparse.
Method: labels are converted to an array of one kind. Classes are sorted, and each row gets the number of its class.
The entries of a label matrix that are stored are one array: all of dense labels, the nonzero ones of sparse labels.
Numbers of rows and of columns are spread over these entries, so that each operation is written once. Only the means,
and the Gram matrices about them, are computed in two ways: dense labels are centred, sparse ones never are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Number, Real
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import (
    HOST,
    Array,
    DType,
    Home,
    HostArray,
    all_finite,
    check_bare,
    host_dtype,
    is_array,
    plain_array,
    to_host,
    working_dtype,
)
from linspec.blocks.base import row_blocks
from linspec.borrowed import borrowed
from linspec.errors import InvalidOption, InvalidProblem, NonFiniteData, UnsupportedData, called
from linspec.frames import is_frame, is_series, labels_of
from linspec.linalg.small_matrices import EPS, rank_cut, whitening
from linspec.operators.derived import CombinedColumns
from linspec.operators.sparse import SparseOperator, checked_rows, is_scipy_sparse

__all__ = ["Labels", "are_classes", "class_codes"]

Codes = tuple[HostArray, HostArray]
"""For each row the index of its class, -1 without a class; and the classes."""

WORST_CANCELLATION = 1e4
"""Largest ratio of the mean square of a sparse label to the variance of the label at which the Gram matrix of centred
labels is the Gram matrix of the labels minus the products of their means. If the ratio of some label is larger, this
difference would lose too many digits: then the mean is subtracted from each entry, in dense blocks of rows."""


@dataclass(frozen=True)
class Labels:
    """Labels as a float64 array or a sparse array.

    Attributes
    ----------
    matrix : array, or scipy.sparse.csr_array, of shape (n, t)
        The labels, dense at `home.blocks`. No sparse entry is stored twice, and none is zero. They may be the user's
        own array, so they are never modified.
    often : numpy.ndarray of shape (n,)
        How often each row counts.
    dtype : numpy.dtype
        The dtype of H.
    home : Home
        The library and device of H.
    """

    matrix: Any
    often: HostArray
    dtype: DType
    home: Home = HOST

    @property
    def sparse(self) -> bool:
        return is_scipy_sparse(self.matrix)

    @property
    def entries(self) -> Array:
        return self.matrix.data if self.sparse else self.matrix

    def by_row(self, numbers: Array) -> Array:
        """Numbers of the rows, spread over the entries."""
        if self.sparse:
            return np.repeat(numbers, np.diff(self.matrix.indptr))
        return self.home.blocks.place(numbers)[:, None]

    def by_column(self, numbers: HostArray) -> Array:
        """Numbers of the columns, spread over the entries."""
        return numbers[self.matrix.indices] if self.sparse else self.home.blocks.place(numbers)[None, :]

    def of(self, entries: Array) -> Labels:
        """The labels with other entries in the same places."""
        if self.sparse:
            parts = (entries, self.matrix.indices, self.matrix.indptr)
            entries = scipy.sparse.csr_array(parts, shape=self.matrix.shape)
        return replace(self, matrix=entries)

    def extremes(self) -> tuple[HostArray, HostArray]:
        """The smallest and the largest entry of each column."""
        if self.sparse:
            return self.matrix.min(axis=0).toarray().ravel(), self.matrix.max(axis=0).toarray().ravel()
        xp = self.home.blocks.xp
        return to_host(xp.min(self.matrix, axis=0)), to_host(xp.max(self.matrix, axis=0))

    def sums(self) -> HostArray:
        """The weighted sum of each column."""
        return to_host(self.home.blocks.place(self.often) @ self.matrix)

    def times(self, numbers: HostArray) -> Array:
        """The matrix times a vector."""
        return self.matrix @ self.home.blocks.place(numbers)

    def take(self, keep: HostArray) -> Labels:
        """Select the columns for which the mask `keep` is True."""
        if keep.all():
            return self
        blocks, columns = self.home.blocks, np.flatnonzero(keep)
        if self.sparse:
            return replace(self, matrix=self.matrix[:, columns])
        return self.of(blocks.xp.take(self.matrix, blocks.place(columns, np.int64), axis=1))

    def result(self, H: Any) -> Any:
        """The matrix H in the dtype and library in which it is returned, with arrays of its own."""
        return H.astype(self.dtype) if self.sparse else self.home.place(H, self.dtype)

    # ---- about the means ---------------------------------------------------------------------------

    def centered(self) -> Any:
        """The labels minus their weighted column means: an array at `home.blocks`, or an operator in `dtype`."""
        if self.sparse:
            matrix = SparseOperator(self.matrix.astype(self.dtype, copy=False), checked=True)
            return CombinedColumns(matrix, self.sums() / self.often.sum())
        # Subtract the first row before the mean: a mean much larger than the deviations would cost digits.
        about = self.of(self.matrix - self.matrix[:1, :])
        return about.matrix - about.by_column(about.sums() / self.often.sum())

    def whitened(self) -> Any:
        """Yc T, for the centred labels Yc and a matrix T with TᵀYcᵀW Yc T = I; W is the diagonal matrix of weights."""
        centred = self.centered()
        if self.sparse:
            return CombinedColumns(centred.operator, centred.mean, self._factor(self._gram()))
        blocks = self.home.blocks
        H = centred @ blocks.place(self._factor(self._gram_of(centred, self.often)))
        # A second step, because the error of the first grows with the condition number of the Gram matrix.
        return self.result(H @ blocks.place(whitening(self._gram_of(H, self.often))))

    def _gram_of(self, rows: Array, weights: HostArray) -> HostArray:
        """The weighted Gram matrix of dense rows."""
        rows = rows * self.home.blocks.place(np.sqrt(weights))[:, None]
        return to_host(rows.T @ rows)

    def _gram(self) -> HostArray:
        """The weighted Gram matrix of centred sparse labels."""
        sums, n = self.sums(), self.often.sum()
        often = self.of(self.by_row(self.often) * self.entries).matrix
        plain = (self.matrix.T @ often).toarray()
        # In this order whole numbers are exact: n YᵀY and s sᵀ are whole as well.
        gram: HostArray = (n * plain - np.outer(sums, sums)) / n
        lost = np.diag(plain) > WORST_CANCELLATION * np.diag(gram)
        whole = n * plain.max() < 2**53 and np.array_equal(often.data, np.rint(often.data))
        if whole or not lost.any():
            return gram
        # A label varies little about a large mean: the mean is subtracted in dense blocks of rows.
        gram = np.zeros_like(gram)
        for rows in row_blocks(self.matrix.shape[0], 8 * len(gram), gram.nbytes):
            gram += self._gram_of(self.matrix[rows].toarray() - sums / n, self.often[rows])
        return gram

    def _factor(self, gram: HostArray) -> HostArray:
        """T with Tᵀ G T = I, for the Gram matrix G of the labels.

        The diagonal of G is scaled to ones. The columns of T belong to the eigenvectors of the scaled G whose
        eigenvalues are above the rounding errors of G, and above the rounding errors of labels in `dtype`.
        """
        T = whitening(gram, max(16 * EPS, rank_cut(self.matrix.shape, self.dtype) ** 2 / len(gram)))
        return T @ whitening(T.T @ gram @ T)


# ---- conversion of labels --------------------------------------------------------------------------


def as_array(given: Any) -> Any:
    """Convert lists, frames, series and arrays of labels to arrays; return labels of other types unchanged."""
    check_bare(given, "labels")
    if is_frame(given) or is_series(given):
        return labels_of(given, "labels")
    if isinstance(given, list | tuple):
        rows = any(isinstance(entry, Iterable) and not isinstance(entry, str | bytes) for entry in given)
        try:
            given = np.asarray(given, dtype=None if rows else object)
        except (ValueError, TypeError) as error:
            raise InvalidProblem(
                f"the rows of a label matrix must have equally many entries; got a {type(given).__name__} that is not "
                "a matrix. Pass zeros and ones, a column for each label."
            ) from error
    given = borrowed(given, "labels")
    return plain_array(given, "labels") if is_array(given) else given


def vector_or_matrix(given: Any) -> Any:
    """Convert labels of any form to an array or a sparse matrix with rows, of one or two dimensions."""
    given = as_array(given)
    if not (is_scipy_sparse(given) or is_array(given)):
        remedy = (
            "its values, `.to_numpy()`"
            if hasattr(given, "to_numpy")
            else "an array, or of dask `y.compute()`"
        )
        raise UnsupportedData(
            "labels must be a class vector (a list, an array or a series), or a label matrix (an array, a frame or a "
            f"scipy.sparse matrix); got {type(given).__module__}.{type(given).__qualname__}. Pass {remedy}."
        )
    shape = tuple(given.shape)
    if len(shape) not in (1, 2) or (len(shape) == 1 and is_scipy_sparse(given)):
        raise InvalidProblem(
            f"labels must be a vector of classes or a matrix with a column for each label; got {len(shape)} "
            f"{'dimension' if len(shape) == 1 else 'dimensions'} with shape {shape}. Reshape them."
        )
    if 0 in shape:
        raise InvalidProblem(f"labels must have rows and columns; got shape {shape}.")
    return given


def form_of(given: Any) -> tuple[Home | None, DType]:
    """The library and device of dense targets, None for sparse ones; and the dtype of targets of labels.

    Targets are sparse for sparse matrices and for NumPy's class vectors. The dtype is float32 for floats of at most 32
    bits and on devices without float64, otherwise float64.
    """
    sparse = is_scipy_sparse(given) or (given.ndim == 1 and isinstance(given, np.ndarray))
    home = HOST if sparse else Home.of(given)
    dtype = given.dtype if is_scipy_sparse(given) else host_dtype(given)
    narrow = (dtype.kind == "f" and dtype.itemsize <= 4) or home.blocks != home
    return None if sparse else home, np.dtype(np.float32 if narrow else np.float64)


def label_matrix(given: Any, named: frozenset[Any], often: HostArray | None = None) -> Labels:
    """Labels of `vector_or_matrix` as a matrix of finite numbers; a class vector becomes its indicators."""
    home, dtype = form_of(given)
    often = np.ones(given.shape[0]) if often is None else often
    if given.ndim == 1:
        codes, names = numbered(to_host(given), named)
        return Labels(one_hot(codes, np.ones(len(names)), home), often, dtype, home or HOST)
    if named:
        raise InvalidOption(
            "unlabelled names entries of a class vector; got it with a label matrix. A row of zeros there is a row "
            "without labels."
        )
    if home is None:
        with called("a label matrix"):
            given = scipy.sparse.csr_array(checked_rows(given)).astype(np.float64, copy=False)
        if not given.has_canonical_format or not given.data.all():
            given = given.copy()
            given.sum_duplicates()
            given.eliminate_zeros()
    else:
        working_dtype(host_dtype(given), "a label matrix")
        given = home.blocks.place(given)
    labels = Labels(given, often, dtype, home or HOST)
    if not all_finite(labels.entries):
        stored = scipy.sparse.coo_array(given if labels.sparse else to_host(given))
        at = np.argmin(np.isfinite(stored.data))
        raise NonFiniteData(
            f"a label matrix must be finite; got {stored.data[at]} at row {stored.row[at]}, column {stored.col[at]}. "
            "A row without labels is a row of zeros; drop rows with unknown labels."
        )
    return labels


def one_hot(codes: HostArray, entries: HostArray, home: Home | None = None) -> Any:
    """A matrix with entries[c] in column c of the rows with the code c, sparse or at `home.blocks`; -1 is no column."""
    if home is None:
        there = codes >= 0
        index = np.int32 if len(codes) < 2**31 else np.int64
        columns, starts = codes[there].astype(index), np.zeros(len(codes) + 1, index)
        np.cumsum(there, out=starts[1:])
        return scipy.sparse.csr_array((entries[columns], columns, starts), shape=(len(codes), len(entries)))
    place, row = home.blocks.place, home.blocks.place(entries)
    there = place(codes, np.int64)[:, None] == place(np.arange(len(entries)), np.int64)[None, :]
    return home.blocks.xp.astype(there, row.dtype) * row


# ---- classes ---------------------------------------------------------------------------------------


def are_classes(labels: Any) -> bool:
    """Whether labels are a class vector, the class of each row, or texts, and not a matrix of numbers.

    Parameters
    ----------
    labels : anything that `linspec.targets` takes
    """
    labels = as_array(labels)
    return getattr(labels, "ndim", 2) == 1 or getattr(getattr(labels, "dtype", None), "kind", "") in {*"OSTU"}


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


def coded(given: Any, named: frozenset[Any]) -> Codes:
    """The classes of the rows of a class vector, or of an indicator matrix, whose classes are its columns."""
    if given.ndim == 1:
        return numbered(to_host(given), named)
    labels = label_matrix(given, named)
    strange = (labels.entries != 0) & (labels.entries != 1)
    if to_host(labels.home.blocks.xp.any(strange)):
        got = to_host(labels.entries)[to_host(strange)][0]
        raise InvalidProblem(
            f"lda takes a class vector, or a matrix of zeros and ones; got {got:g} in a matrix. A column of "
            "class numbers is a class vector: pass y.ravel(). For weighted labels use linspec.targets.opls, cca "
            "or hsl."
        )
    columns = np.arange(given.shape[1])
    held = np.diff(labels.matrix.indptr) if labels.sparse else to_host(labels.times(np.ones(len(columns))))
    if held.max(initial=0) > 1:
        raise InvalidProblem(
            f"lda takes at most one label for each row; got {int(held.max())} in row {held.argmax()}. For rows with "
            "several labels use linspec.targets.opls, cca or hsl."
        )
    if labels.sparse:
        return codes_of_rows(labels.matrix), columns
    return to_host(labels.times(columns + 1.0)).astype(np.int64) - 1, columns


def codes_of_rows(H: Any) -> HostArray:
    """The column of the entry of each row of compressed rows with at most one entry each; -1 for rows without one."""
    codes = np.full(H.shape[0], -1)
    codes[np.diff(H.indptr) == 1] = H.indices
    return codes


def numbered(vector: HostArray, named: frozenset[Any]) -> Codes:
    """Index of the class of each entry (-1 without a class), and the sorted classes, of which there must be one."""
    present, entries = _present(vector)
    if entries.dtype.kind not in "biufUS":
        raise UnsupportedData(
            f"a class vector must hold integers or strings; got dtype {entries.dtype}. Number the classes, or name "
            "them by strings."
        )
    if entries.dtype.kind == "f":
        _check_whole(entries, present)
    classes, inverse = np.unique(entries, return_inverse=True)
    keep = np.array([value not in named for value in classes.tolist()], dtype=bool)
    if not keep.any():
        raise InvalidProblem(
            f"a class vector must have a class in some row; got {len(vector)} rows without a class. Check `unlabelled`."
        )
    codes = np.full(len(vector), -1, dtype=np.int64)
    codes[present] = np.where(keep, np.cumsum(keep) - 1, -1)[inverse]
    return codes, classes[keep]


def _present(vector: HostArray) -> tuple[HostArray, HostArray]:
    """Return a mask of the entries that are neither None nor NaN, and these entries as an array of one dtype."""
    if vector.dtype.kind not in "OT":
        present = vector == vector  # noqa: PLR0124 (NaN alone differs from itself)
        return present, vector[present]
    values = [value.item() if isinstance(value, np.generic) else value for value in vector.tolist()]
    nothing = [value is None or (isinstance(value, float) and np.isnan(value)) for value in values]
    known = [value for value, absent in zip(values, nothing, strict=True) if not absent]
    for kind in (str, bytes, Real):
        if all(isinstance(value, kind) for value in known):
            return ~np.array(nothing, dtype=bool), np.asarray(known)
    got = next((type(value).__name__ for value in known if not isinstance(value, str | bytes | Real)), "both")
    raise UnsupportedData(
        f"classes must be all numbers or all strings; got {got}. Name each class by a string, and a missing one by "
        "None."
    )


def _check_whole(entries: HostArray, present: HostArray) -> None:
    """Raise an error if floats are infinite or not whole; `present` is their mask, by which the error names the row."""
    strange = (entries != np.rint(entries)) | np.isinf(entries)
    if not strange.any():
        return
    got, row = entries[strange][0], np.flatnonzero(present)[strange][0]
    if np.isinf(got):
        raise NonFiniteData(
            f"classes must be finite; got {got} in row {row}. A row without a class is None or NaN."
        )
    raise InvalidProblem(
        f"classes must be whole numbers or strings; got {got:g} in row {row}. A label with weights is a matrix "
        "of one column, y[:, None]."
    )


def named_entries(unlabelled: Any) -> frozenset[Any]:
    """Return the argument `unlabelled` as a set of the entries that mean "no class"."""
    if unlabelled is None or isinstance(unlabelled, str | bytes | Number | np.generic):
        unlabelled = (unlabelled,)
    elif is_array(unlabelled):
        unlabelled = to_host(unlabelled).ravel()
    try:
        return frozenset(value.item() if isinstance(value, np.generic) else value for value in unlabelled)
    except TypeError as error:
        raise InvalidOption(
            f"unlabelled must be an entry of the class vector, or a list of them; got {unlabelled!r}."
        ) from error
