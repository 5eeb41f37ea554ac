"""Target matrices for supervised subspaces, formed from labels before the data are read: LDA, OPLS, CCA, hypergraphs.

Problem: linear discriminant analysis, orthonormalised partial least squares, canonical correlations with labels and
hypergraph spectral learning all compute the top eigenvectors of (XᵀX + rI)⁻¹ XᵀHHᵀX. They differ only in H, which is
formed from the labels and has a row for each row of X.
Method: H has a closed form for each method. No closed form decomposes a matrix with as many rows as samples: at most
a Gram matrix of the labels is whitened, in float64 on the host. Sparse labels stay sparse. If H is centred, it is an
operator made of the sparse labels, their means and a small factor, and is never formed.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846 (the common form, and H for each method); Sun, Ji & Ye 2008,
doi:10.1145/1401890.1401971 (hypergraph spectral learning); Zhou, Huang & Schölkopf 2006, "Learning with hypergraphs",
NeurIPS 19 (their Laplacian); Agarwal, Branson & Belongie 2006, doi:10.1145/1143844.1143847 (clique and star).
Where we differ: labels may be weighted, dependent, absent or common to all rows, and rows may have no label. The
functions document each of these cases. The inverse square root of the labels' Gram matrix is replaced by a whitening
matrix with as many columns as the rank of the labels. This rotates the columns of H and keeps HHᵀ.

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
    Device,
    DType,
    HostArray,
    all_finite,
    check_bare,
    host_dtype,
    is_array,
    plain_array,
    reciprocal,
    to_host,
    with_device,
    working_dtype,
)
from linspec.blocks.base import row_blocks
from linspec.borrowed import borrowed
from linspec.errors import InvalidOption, InvalidProblem, NonFiniteData, UnsupportedData, called, shown
from linspec.frames import check_order, index_of, is_frame, is_series, labels_of
from linspec.linalg.small_matrices import EPS, rank_cut, whitening
from linspec.operators.base import LinearOperator
from linspec.operators.derived import CombinedColumns
from linspec.operators.sparse import SparseOperator, checked_rows, is_scipy_sparse
from linspec.operators.weights import weights_and_confounds

__all__ = ["cca", "hsl", "lda", "opls"]

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
        The labels, dense at `device.blocks`. No sparse entry is stored twice, and none is zero. They may be the user's
        own array, so they are never modified.
    often : numpy.ndarray of shape (n,)
        How often each row counts.
    dtype : numpy.dtype
        The dtype of H.
    device : Device
        The library and device of H.
    """

    matrix: Any
    often: HostArray
    dtype: DType
    device: Device = HOST

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
        return self.device.blocks.asarray(numbers)[:, None]

    def by_column(self, numbers: HostArray) -> Array:
        """Numbers of the columns, spread over the entries."""
        return numbers[self.matrix.indices] if self.sparse else self.device.blocks.asarray(numbers)[None, :]

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
        xp = self.device.blocks.xp
        return to_host(xp.min(self.matrix, axis=0)), to_host(xp.max(self.matrix, axis=0))

    def sums(self) -> HostArray:
        """The weighted sum of each column."""
        return to_host(self.device.blocks.asarray(self.often) @ self.matrix)

    def times(self, numbers: HostArray) -> Array:
        """The matrix times a vector."""
        return self.matrix @ self.device.blocks.asarray(numbers)

    def take(self, keep: HostArray) -> Labels:
        """Select the columns for which the mask `keep` is True."""
        if keep.all():
            return self
        blocks, columns = self.device.blocks, np.flatnonzero(keep)
        if self.sparse:
            return replace(self, matrix=self.matrix[:, columns])
        return self.of(blocks.xp.take(self.matrix, blocks.asarray(columns, np.int64), axis=1))

    def result(self, H: Any) -> Any:
        """The matrix H in the dtype and library in which it is returned, with arrays of its own."""
        return H.astype(self.dtype) if self.sparse else self.device.asarray(H, self.dtype)

    # ---- about the means ---------------------------------------------------------------------------

    def centered(self) -> Any:
        """The labels minus their weighted column means: an array at `device.blocks`, or an operator in `dtype`."""
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
        blocks = self.device.blocks
        H = centred @ blocks.asarray(self._factor(self._gram_of(centred, self.often)))
        # A second step, because the error of the first grows with the condition number of the Gram matrix.
        return self.result(H @ blocks.asarray(whitening(self._gram_of(H, self.often))))

    def _gram_of(self, rows: Array, weights: HostArray) -> HostArray:
        """The weighted Gram matrix of dense rows."""
        rows = rows * self.device.blocks.asarray(np.sqrt(weights))[:, None]
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


def as_array(values: Any) -> Any:
    """Convert lists, frames, series and arrays of labels to arrays; return labels of other types unchanged."""
    check_bare(values, "labels")
    if is_frame(values) or is_series(values):
        return labels_of(values, "labels")
    if isinstance(values, list | tuple):
        rows = any(isinstance(entry, Iterable) and not isinstance(entry, str | bytes) for entry in values)
        try:
            values = np.asarray(values, dtype=None if rows else object)
        except (ValueError, TypeError) as error:
            raise InvalidProblem(
                f"the rows of a label matrix must have equally many entries; got a {type(values).__name__} that is not "
                "a matrix. Pass zeros and ones, a column for each label."
            ) from error
    values = borrowed(values, "labels")
    return plain_array(values, "labels") if is_array(values) else values


def vector_or_matrix(values: Any) -> Any:
    """Convert labels of any form to an array or a sparse matrix with rows, of one or two dimensions."""
    values = as_array(values)
    wanted = "labels must be a class vector (a list, an array or a series), or a label matrix (an array, a frame or a "
    wanted += f"scipy.sparse matrix) with a column for each label, and have rows; got {type(values).__name__}"
    if not (is_scipy_sparse(values) or is_array(values)):
        raise UnsupportedData(f"{wanted}. Pass an array, `.to_numpy()` or, of dask, `y.compute()`.")
    shape = tuple(values.shape)
    if len(shape) not in (1, 2) or 0 in shape or (len(shape) == 1 and is_scipy_sparse(values)):
        raise InvalidProblem(f"{wanted} of shape {shape}. Reshape it.")
    return values


def form_of(values: Any) -> tuple[Device | None, DType]:
    """The library and device of dense targets, None for sparse ones; and the dtype of targets of labels.

    Targets are sparse for sparse matrices and for NumPy's class vectors. The dtype is float32 for floats of at most 32
    bits and on devices without float64, otherwise float64.
    """
    sparse = is_scipy_sparse(values) or (values.ndim == 1 and isinstance(values, np.ndarray))
    device = HOST if sparse else Device.of(values)
    dtype = values.dtype if is_scipy_sparse(values) else host_dtype(values)
    narrow = (dtype.kind == "f" and dtype.itemsize <= 4) or device.blocks != device
    return None if sparse else device, np.dtype(np.float32 if narrow else np.float64)


def label_matrix(values: Any, named: frozenset[Any], often: HostArray | None = None) -> Labels:
    """Labels of `vector_or_matrix` as a matrix of finite numbers; a class vector becomes its indicators."""
    device, dtype = form_of(values)
    often = np.ones(values.shape[0]) if often is None else often
    if values.ndim == 1:
        codes, names = numbered(to_host(values), named)
        return Labels(one_hot(codes, np.ones(len(names)), device), often, dtype, device or HOST)
    if named:
        raise InvalidOption(
            "unlabelled names entries of a class vector; got it with a label matrix. A row of zeros there is a row "
            "without labels."
        )
    if device is None:
        with called("a label matrix"):
            values = scipy.sparse.csr_array(checked_rows(values)).astype(np.float64, copy=False)
        if not values.has_canonical_format or not values.data.all():
            values = values.copy()
            values.sum_duplicates()
            values.eliminate_zeros()
    else:
        working_dtype(host_dtype(values), "a label matrix")
        values = device.blocks.asarray(values)
    labels = Labels(values, often, dtype, device or HOST)
    if not all_finite(labels.entries):
        stored = scipy.sparse.coo_array(values if labels.sparse else to_host(values))
        at = np.argmin(np.isfinite(stored.data))
        raise NonFiniteData(
            f"a label matrix must be finite; got {stored.data[at]} at row {stored.row[at]}, column {stored.col[at]}. "
            "A row without labels is a row of zeros; drop rows with unknown labels."
        )
    return labels


def one_hot(codes: HostArray, entries: HostArray, device: Device | None = None) -> Any:
    """A matrix with entries[c] in column c of the rows with the code c, sparse or on `device.blocks`; -1 is none."""
    if device is None:
        there = codes >= 0
        index = np.int32 if len(codes) < 2**31 else np.int64
        columns = codes[there].astype(index)
        starts = np.zeros(len(codes) + 1, index)
        np.cumsum(there, out=starts[1:])
        return scipy.sparse.csr_array((entries[columns], columns, starts), shape=(len(codes), len(entries)))
    asarray, row = device.blocks.asarray, device.blocks.asarray(entries)
    there = asarray(codes, np.int64)[:, None] == asarray(np.arange(len(entries)), np.int64)[None, :]
    return device.blocks.xp.astype(there, row.dtype) * row


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


def coded(values: Any, named: frozenset[Any]) -> Codes:
    """The classes of the rows of a class vector, or of an indicator matrix, whose classes are its columns."""
    if values.ndim == 1:
        return numbered(to_host(values), named)
    labels = label_matrix(values, named)
    columns = np.arange(values.shape[1])
    held = np.diff(labels.matrix.indptr) if labels.sparse else to_host(labels.times(np.ones(len(columns))))
    strange = labels.device.blocks.xp.any((labels.entries != 0) & (labels.entries != 1))
    if to_host(strange) or held.max(initial=0) > 1:
        raise InvalidProblem(
            "lda takes a class vector, or a matrix of zeros and ones with at most one in each row. A column of class "
            "numbers is a class vector, y.ravel(); for several labels, or weighted ones, use opls, cca or hsl."
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
    present, entries = present_entries(vector)
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


def present_entries(vector: HostArray) -> tuple[HostArray, HostArray]:
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
    if strange.any():
        got = entries[strange][0]
        row = np.flatnonzero(present)[strange][0]
        raise (NonFiniteData if np.isinf(got) else InvalidProblem)(
            f"classes must be whole numbers or strings; got {got:g} in row {row}. A row without a class is None or "
            "NaN, and a label with weights a matrix of one column, y[:, None]."
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


Sizes = tuple[HostArray, HostArray]
"""Classes, and for each class the number of its rows or the sum of their weights."""

LAPLACIANS = ("zhou", "clique", "star")

SMALLEST, LARGEST = 1e-50, 1e50
"""Smallest and largest magnitude of a label that `cca` squares."""

# ---- the four targets ------------------------------------------------------------------------------


@with_device
def lda(y: Any, *, unlabelled: Any = (), sample_weight: Any = None) -> Any:
    """H for linear discriminant analysis: the indicator of each class, divided by the square root of its size.

    With m the mean of X, and n_j and m_j the size and the mean of class j, XᵀHHᵀX = Σ n_j (m_j − m)(m_j − m)ᵀ for
    centred X: the scatter between the classes.

    Parameters
    ----------
    y : class vector of length n, or indicator matrix of shape (n, c)
        A class vector is a list, a one-dimensional array of any library or a series: integers, whole floats, bools,
        strings or categories, whose values are only names (-1 and 1 are two classes). A frame with one column of
        strings or categories is a class vector, too. An indicator matrix, dense, `scipy.sparse` or a frame, holds
        zeros, and at most one 1 in each row. Bring labels of dask here, ``y.compute()``.
    unlabelled : value or collection of values, default ()
        Entries of a class vector that mean "no class". None and NaN always mean this.
    sample_weight : array of shape (n,), optional
        How often each row counts; pass the same weights to ``Discriminant(X, H, sample_weight=w)``.

    Returns
    -------
    scipy.sparse.csr_array or array of shape (n, c)
        A column for each class that some row has, in the sorted order of the classes, or in the order of the columns.
        Sparse for a class vector on the host and for a sparse matrix; it stores the classes, so that a solution of
        `linspec.Discriminant` can predict them. Dense for a class vector on a device (same library
        and device) and for a dense matrix (same library, device and floating dtype). float64, but float32 for float32.

    Raises
    ------
    InvalidProblem
        Fewer than two classes; a row with two labels; entries other than 0 and 1; no rows; a number of dimensions
        other than one or two; classes that are not whole numbers.
    NonFiniteData
        NaN or infinity in a matrix, infinity in a class vector.
    UnsupportedData
        Complex entries, objects that are neither numbers nor strings, or numbers and strings in one vector.
    InvalidOption
        `unlabelled` is passed together with a matrix, or is neither a value nor a collection of values.

    Notes
    -----
    Rows without a class have a zero row in H. They still count in XᵀX and in the mean of X. If all rows are labelled,
    the columns of H times √n_j add up to a constant, so c − 1 eigenvalues are positive if X is centred. With
    unlabelled rows c eigenvalues are positive. A single class is refused: there is no other class to separate it from.

    References
    ----------
    Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846.

    Examples
    --------
    >>> import linspec
    >>> H = linspec.targets.lda(["b", "a", "a", None, "a", "a"])
    >>> H.toarray().tolist()
    [[0.0, 1.0], [0.5, 0.0], [0.5, 0.0], [0.0, 0.0], [0.5, 0.0], [0.5, 0.0]]
    """
    check_order({"y": y, "sample_weight": sample_weight})
    labels = vector_or_matrix(y)
    codes = coded(labels, named_entries(unlabelled))
    weights, _ = weights_and_confounds(sample_weight, None, len(codes[0]))
    classes, (device, dtype) = _with_rows(codes, weights, 2), form_of(labels)
    if device is not None:
        return device.asarray(_rows_of(classes, codes, device), dtype)
    return _in_order_of(y, _of_classes(codes, classes, weights, dtype))


@with_device
def opls(Y: Any, *, unlabelled: Any = ()) -> Any:
    """H for orthonormalised partial least squares: the labels minus their column means.

    Parameters
    ----------
    Y : label matrix of shape (n, t), or class vector of length n
        A row for each sample, a column for each label: 0/1 or any finite numbers, in an array of any library or in a
        `scipy.sparse` matrix. A list or a one-dimensional array is a class vector, as for `lda`, and is replaced by
        its indicator matrix; pass a single label as a matrix of one column, ``y[:, None]``.
    unlabelled : value or collection of values, default ()
        As for `lda`.

    Returns
    -------
    array or LinearOperator of shape (n, t')
        Dense labels give an array of the same library, device and floating dtype (float64 for integers). Sparse
        labels, and class vectors on the host, give `linspec.operators.CombinedColumns`, which keeps them
        sparse. Labels that are equal in all rows are dropped, because they are zero after centring.

    Raises
    ------
    InvalidProblem
        No label that distinguishes rows; no rows or columns; a number of dimensions other than one or two.
    NonFiniteData, UnsupportedData, InvalidOption
        As for `lda`.

    Notes
    -----
    ``Discriminant(X, H, sample_weight=w)`` itself subtracts the weighted means. A row of zeros is a row that has
    none of the labels, and counts in their means. If the labels of a row are unknown,
    leave it out of Y and of X.

    References
    ----------
    Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec
    >>> linspec.targets.opls(np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 1]]))  # every row has the last one
    array([[ 0.5, -0.5],
           [-0.5, -0.5],
           [ 0.5,  0.5],
           [-0.5,  0.5]])
    """
    labels = _varying(_read(Y, unlabelled))
    H = labels.centered()
    return _in_order_of(Y, H if labels.sparse else labels.result(H))


@with_device
def cca(Y: Any, *, unlabelled: Any = (), sample_weight: Any = None) -> Any:
    """H for canonical correlations with labels: the centred labels, whitened.

    H = Yc T with Tᵀ(YcᵀYc)T = I, where Yc are the labels minus their column means. HHᵀ is the orthogonal projector
    onto the span of the columns of Yc, as for H = Yc (YcᵀYc)^(-1/2), and the eigenvalues for centred X are squared
    canonical correlations.

    Parameters
    ----------
    Y : label matrix of shape (n, t), or class vector of length n
        As for `opls`.
    unlabelled : value or collection of values, default ()
        As for `lda`.
    sample_weight : array of shape (n,), optional
        How often each row counts; pass the same weights to ``Discriminant(X, H, sample_weight=w)``.

    Returns
    -------
    array or LinearOperator of shape (n, r)
        r is the rank of Yc. Dense labels give an array of the same library, device and floating dtype (float64 for
        integers). Sparse labels, and class vectors on the host, give `linspec.operators.CombinedColumns` of Y
        and T, never formed.

    Raises
    ------
    InvalidProblem
        As for `opls`; also labels above 1e50 in magnitude, and columns without a magnitude above 1e-50.
    NonFiniteData, UnsupportedData, InvalidOption
        As for `lda`.

    Notes
    -----
    T is t x r, not the symmetric inverse square root: the two differ by a rotation of the columns of H. Labels that
    depend linearly on others are already in the span: H has fewer columns and HHᵀ is the same. The rank is determined
    after scaling each label to unit length, from a t x t Gram matrix in float64. A label adds to the rank if its part
    outside the span of the other labels has at least about 1e-7 of its length (for float32 labels, 1e-6 √t). The Gram
    matrix of sparse labels is a sparse product minus the product of the means. For whole numbers it has no rounding
    errors if n times its largest entry is below 2⁵³. A row of zeros has none of the labels, as for `opls`.

    References
    ----------
    Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec
    >>> Y = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 2], [0, 1, 1]])  # the last one is the sum of the others
    >>> H = linspec.targets.cca(Y)
    >>> H.shape, bool(np.allclose(H.T @ H, np.eye(2)))
    ((4, 2), True)
    """
    labels = _varying(_read(Y, unlabelled, sample_weight))
    sizes = np.maximum(*np.abs(labels.extremes()))
    if sizes.min() < SMALLEST or sizes.max() > LARGEST:
        raise InvalidProblem(
            f"the magnitudes of labels must lie between {SMALLEST:g} and {LARGEST:g}, so that their squares can be "
            f"represented; got {sizes.min():g} to {sizes.max():g}. Scale them."
        )
    return _in_order_of(Y, labels.whitened())


@with_device
def hsl(
    Y: Any,
    laplacian: str = "zhou",
    weights: Any = None,
    *,
    self_loops: bool = True,
    unlabelled: Any = (),
    sample_weight: Any = None,
) -> Any:
    """H for hypergraph spectral learning: each label is a hyperedge that joins the rows with this label.

    I − HHᵀ is the normalised Laplacian L of the hypergraph. Let w(e) be the weight of edge e, h(v, e) the entry of Y
    for row v and edge e, δ(e) = Σ_v h(v, e), and d(v) the degree of row v. W, Δ and D are the diagonal matrices of w, δ
    and d. The Laplacians differ in H and d:

    - "zhou": H = D^(-1/2) Y W^(1/2) Δ^(-1/2), d(v) = Σ_e w(e) h(v, e);
    - "clique": H = D^(-1/2) Y W^(1/2), d(v) = Σ_e w(e) δ(e) h(v, e);
    - "star": H = D^(-1/2) Y W^(1/2) Δ^(-1), d(v) = Σ_e w(e) h(v, e) / δ(e).

    Parameters
    ----------
    Y : label matrix of shape (n, t), or class vector of length n
        As for `opls`, but without negative entries: 0/1, or the degree to which a row belongs to an edge.
    laplacian : {"zhou", "clique", "star"}, default "zhou"
    weights : sequence or array of shape (t,), optional
        w: one nonnegative number for each column of Y, or for each class in sorted order. By default all are 1. A
        common factor does not matter.
    self_loops : bool, default True
        For "clique": whether the degree of a row includes the row's edge to itself. If False, d(v) is
        Σ_e w(e) h(v, e) (δ(e) − h(v, e)). For 0/1 labels this is the sum of w(e) (δ(e) − 1) over the labels of the row.
    unlabelled : value or collection of values, default ()
        As for `lda`.
    sample_weight : array of shape (n,), optional
        How often each row counts; pass the same weights to ``Discriminant(X, H, sample_weight=w)``. With s(v) for the
        row v, δ(e) = Σ_v s(v) h(v, e). Without self-loops each weight must be 0, or at least 1.

    Returns
    -------
    scipy.sparse.csr_array or array of shape (n, t')
        Sparse for sparse labels and class vectors on the host; of the library and dtype of dense ones. Labels that no
        row has, or with weight zero, are dropped.

    Raises
    ------
    InvalidProblem
        Labels or weights that are negative, not finite or of another number; no label with both a row and a weight.
        Without self-loops also no label with two rows, or a `sample_weight` between 0 and 1.
    InvalidOption
        An unknown Laplacian; `self_loops=False` with a Laplacian other than "clique"; `unlabelled` as for `lda`.
    NonFiniteData, UnsupportedData
        As for `lda`, for labels and weights.

    Notes
    -----
    A row without labels has a zero row in H. The eigenvalues of HHᵀ are between 0 and 1, except without self-loops,
    where degrees are smaller and HHᵀ keeps its diagonal (Agarwal, Branson & Belongie 2006).

    References
    ----------
    Sun, Ji & Ye 2008, doi:10.1145/1401890.1401971; Zhou, Huang & Schölkopf 2006, "Learning with hypergraphs"; Sun,
    Ceran & Ye 2010, doi:10.1145/1835804.1835846.

    Examples
    --------
    >>> import scipy.sparse
    >>> import linspec
    >>> Y = scipy.sparse.csr_array([[1, 1], [1, 0], [1, 0], [1, 0], [0, 0]])
    >>> linspec.targets.hsl(Y, weights=[4, 4]).toarray().round(3).tolist()
    [[0.354, 0.707], [0.5, 0.0], [0.5, 0.0], [0.5, 0.0], [0.0, 0.0]]
    """
    if laplacian not in LAPLACIANS:
        raise InvalidOption(
            f"laplacian must be one of {', '.join(map(repr, LAPLACIANS))}; got {laplacian!r}."
        )
    if self_loops not in (True, False) or (not self_loops and laplacian != "clique"):
        raise InvalidOption(
            f"self_loops must be True, or False with laplacian='clique'; got {self_loops!r} with {laplacian!r}."
        )
    labels = _read(Y, unlabelled, sample_weight)
    w = _weights(weights, labels.matrix.shape[1])
    low, high = labels.extremes()
    if low.min() < 0:
        raise InvalidProblem(
            f"hsl takes labels that are zero or more; got {low.min():g} in column {int(low.argmin())}. Code a missing "
            "label as 0; for labels of either sign use linspec.targets.opls or cca."
        )
    keep = (high > 0) & (w > 0) & (labels.sums() > 0)
    if not self_loops:
        if ((labels.often > 0) & (labels.often < 1)).any():
            raise InvalidProblem(
                "self_loops=False takes sample_weight of 0 or at least 1, because a row that counts less than once has "
                "no tie to itself to leave out; got numbers between. Multiply them by a constant."
            )
        members = labels.of(labels.device.blocks.xp.astype(labels.entries != 0, labels.entries.dtype))
        keep &= members.sums() > 1
    if not keep.any():
        raise InvalidProblem(
            "hsl needs a label with rows and a positive weight"
            f"{'' if self_loops else ', and without self-loops with two rows'}; got none. Check Y and the weights."
        )
    labels, w = labels.take(keep), w[keep]
    size, ties = labels.sums(), labels
    of_columns, of_degrees = {
        "zhou": (np.sqrt(w / size), w),
        "clique": (np.sqrt(w), w * size),
        "star": (np.sqrt(w) / size, w / size),
    }[laplacian]
    if not self_loops:
        ties = labels.of(labels.entries * (labels.by_column(size) - labels.entries))
        of_degrees = w
    degrees = reciprocal(ties.times(of_degrees) ** 0.5)
    H = labels.of(labels.by_row(degrees) * (labels.entries * labels.by_column(of_columns)))
    return _in_order_of(Y, H.result(H.matrix))


def _read(Y: Any, unlabelled: Any, sample_weight: Any = None) -> Labels:
    """Labels in any form as a matrix, with the weights of their rows."""
    check_order({"Y": Y, "sample_weight": sample_weight})
    array = vector_or_matrix(Y)
    often, _ = weights_and_confounds(sample_weight, None, array.shape[0])
    return label_matrix(array, named_entries(unlabelled), often)


def _weights(weights: Any, count: int) -> HostArray:
    """Check the weights of labels, and return them scaled to a largest weight of 1, float64 on the host."""
    if weights is None:
        return np.ones(count)
    check_bare(weights, "weights")
    try:
        host = np.asarray(to_host(weights))
    except ValueError:  # rows of different lengths
        host = np.empty(0)
    fits = host.shape == (count,) and host.dtype.kind in "biuf"
    if not fits or not (np.isfinite(host) & (host >= 0)).all():
        raise InvalidProblem(
            f"weights must be {count} finite numbers of at least 0, one for each label; got {shown(weights)}. Weight 0 "
            "drops a label."
        )
    return host / (float(host.max()) or 1.0)


def _varying(labels: Labels) -> Labels:
    """Return the labels without the constant ones: columns with the same entry in all rows are dropped.

    Raises InvalidProblem if all columns are constant.
    """
    low, high = labels.extremes()
    if not (low < high).any():
        raise InvalidProblem(
            "at least one label must differ between rows; got "
            f"{len(low)} of {len(low)} labels that are the same in all {labels.matrix.shape[0]} rows. "
            "Check Y and `unlabelled`, or pass more rows."
        )
    return labels.take(low < high)


# ---- targets that store their classes --------------------------------------------------------------


class ClassTargets(scipy.sparse.csr_array):  # type: ignore[misc]  # SciPy has no types
    """The sparse H of `lda`, with the classes of its columns.

    Slices and products of H lose the classes: their attributes are None.

    Attributes
    ----------
    classes : (numpy.ndarray of shape (c,), numpy.ndarray of shape (c,)) or None
        The classes as passed (column numbers if a label matrix was passed), and for each class the number of its rows
        or the sum of their weights.
    often : numpy.ndarray of shape (n,) or None
        The weight of each row: how often the row counts. None also if no weights were passed.
    """

    classes: Sizes | None = None
    often: Any = None


def _with_rows(codes: Codes, weights: HostArray | None, least: int) -> Sizes:
    """Return the classes that some row has, and their sizes; raise if there are fewer than `least`, which is 1 or 2."""
    numbers, names = codes
    sizes = np.bincount(numbers + 1, weights, minlength=len(names) + 1)[1:].astype(np.float64)
    there = sizes > 0
    if there.sum() < least:
        raise InvalidProblem(
            f"lda needs rows of at least {'two classes' if least > 1 else 'one class'}; got {there.sum()}. Check "
            "`unlabelled`, or pass more rows."
        )
    return names[there], sizes[there]


def _rows_of(of: Sizes, codes: Codes, device: Device | None = None) -> Any:
    """The rows of H: each has 1/√(size of its class) in the column of the class; dense at a `device`."""
    (names, sizes), (numbers, classes) = of, codes
    columns = np.minimum(np.searchsorted(names, classes), len(names) - 1)
    columns = np.where(names[columns] == classes, columns, -1)  # a class whose rows all have weight 0
    return one_hot(
        np.append(columns, -1)[numbers], 1.0 / np.sqrt(sizes), device
    )  # the last one is for no class


def _of_classes(
    codes: Codes, classes: Sizes, weights: HostArray | None, dtype: Any = np.float64
) -> ClassTargets:
    """The sparse H of rows with these classes."""
    H = ClassTargets(_rows_of(classes, codes).astype(dtype, copy=False))
    H.classes, H.often = classes, weights
    return H


def _in_order_of(labels: Any, H: Any) -> Any:
    """Store the labels of the rows of `labels`, such as a pandas index, in the targets H, and return H.

    A problem with H compares these labels with the labels of the rows of X, and raises an error if their orders differ.
    A plain array H is returned unchanged, as it cannot store them.
    """
    index = index_of(labels)
    if index is not None and (is_scipy_sparse(H) or isinstance(H, LinearOperator)):
        H.row_index = index
    return H


def classes_of(H: Any, weights: Any = None) -> tuple[HostArray, HostArray] | None:
    """The classes of targets H, and their sizes; None for other matrices, or if H was changed since it was made.

    Parameters
    ----------
    H : targets, or the operator of targets
    weights : numpy.ndarray of shape (n,), optional
        The weights of the rows of the problem; if the targets were made with other weights, the result is None.
    """
    H = getattr(H, "matrix", H)
    if not isinstance(H, ClassTargets) or H.classes is None or not np.array_equal(H.often, weights):
        return None
    rows = None if weights is None else np.repeat(weights, np.diff(H.indptr))
    sizes = np.bincount(H.indices, rows, minlength=H.shape[1])
    entries = (1.0 / np.sqrt(sizes)).astype(H.dtype)
    same = np.array_equal(sizes, H.classes[1]) and np.array_equal(H.data, entries[H.indices])
    return H.classes if same else None


def targets_of_classes(H: Any, names: HostArray, weights: HostArray | None = None) -> Any:
    """The targets of `lda` for rows whose classes are known, such as some of the rows of other targets.

    Parameters
    ----------
    H : scipy.sparse.csr_array of shape (n, c)
        Each row has an entry in the column of its class, or no entry.
    names : numpy.ndarray of shape (c,)
        The classes.
    weights : numpy.ndarray of shape (n,), optional

    Returns
    -------
    ClassTargets of shape (n, c')
        Targets with a column for each class that some row has. A single class is allowed here, though not in `lda`:
        rows on which solutions are scored need no second class.

    Raises
    ------
    InvalidProblem
        When no row has a class.
    """
    codes = codes_of_rows(H), names
    return _of_classes(codes, _with_rows(codes, weights, 1), weights)
