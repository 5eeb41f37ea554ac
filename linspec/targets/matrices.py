"""Target matrices for supervised subspaces, formed from labels before the data are read.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.algebra.small_matrices import EPS, rank_cut, whitening
from linspec.arrays import (
    HOST,
    Array,
    Home,
    HostArray,
    all_finite,
    at_home,
    check_bare,
    host_dtype,
    is_array,
    reciprocal,
    to_host,
    working_dtype,
)
from linspec.errors import InvalidOption, InvalidProblem, NonFiniteData, UnsupportedData, called
from linspec.frames import check_order, index_of
from linspec.operators import sparse_columns
from linspec.operators.base import CenteredOperator, LinearOperator, ProductOperator
from linspec.operators.dense import DenseOperator
from linspec.operators.opening import adapter_of_labels
from linspec.operators.row_blocks import row_blocks
from linspec.operators.row_model import weights_and_confounds
from linspec.operators.sparse import SparseOperator, checked_rows, is_scipy_sparse
from linspec.registry.keywords import hinted
from linspec.targets.class_vectors import as_array, named_entries, numbered
from linspec.targets.of_blocks import BlockClassTargets, class_targets

__all__ = ["cca", "hsl", "lda", "opls"]

LAPLACIANS = ("zhou", "clique", "star")

SMALLEST, LARGEST = 1e-50, 1e50
"""Smallest and largest magnitude of labels and weights that are not zero. Squares of entries outside this range, and
products of several such entries, may over- or underflow in float64."""

WORST_CANCELLATION = 1e4
"""Largest ratio of the mean square of a sparse label to the variance of the label at which the Gram matrix of centred
labels is the Gram matrix of the labels minus the products of their means. If the ratio of some label is larger, this
difference would lose too many digits: then the mean is subtracted from each entry, in dense blocks of rows.
"""


# ---- the four targets ------------------------------------------------------------------------------


@at_home
@hinted
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
        zeros, and at most one 1 in each row. Vectors and matrices may be in blocks, such as arrays and series of
        dask.
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
        For labels in blocks a float64 `linspec.sweeps.blocks.BlockOperator` that stores the classes; its rows are kept
        beside the labels.

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
    adapter = adapter_of_labels(y)
    if adapter is not None:
        engine, blocks = adapter.labels(y)
        return class_targets(engine, blocks, unlabelled, sample_weight)
    labels = _labels(y, unlabelled)
    strange = labels.neither_zero_nor_one()
    if len(strange):
        raise InvalidProblem(
            f"lda takes a class vector, or a matrix of zeros and ones; got {strange[0]:g} in a matrix. A column of "
            "class numbers is a class vector: pass y.ravel(). For weighted labels use linspec.targets.opls, cca "
            "or hsl."
        )
    held = to_host(labels.times(np.ones(labels.shape[1])))
    if held.max() > 1:
        raise InvalidProblem(
            f"lda takes at most one label for each row; got {int(held.max())} in row {int(held.argmax())}. For rows "
            "with several labels use linspec.targets.opls, cca or hsl."
        )
    weights, _ = weights_and_confounds(sample_weight, None, labels.shape[0])
    sizes = labels.sums(weights)
    classes = int(np.count_nonzero(sizes))
    if classes < 2:
        raise InvalidProblem(
            f"lda needs rows of at least two classes; got {classes}. Check `unlabelled`, or pass more rows."
        )
    H = labels.take(sizes > 0).scaled(None, 1.0 / np.sqrt(sizes[sizes > 0])).finished()
    if not isinstance(labels, _Sparse):
        return H
    names = np.arange(len(sizes)) if labels.names is None else labels.names
    return _in_order_of(y, ClassTargets.of_classes(H, names[sizes > 0], sizes[sizes > 0], weights))


@at_home
@hinted
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
        labels, and class vectors on the host, give the operator ``as_operator(Y).centered(mean)``, which keeps them
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
    return _in_order_of(Y, _varying(_labels(Y, unlabelled)).centered())


@at_home
@hinted
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
        integers). Sparse labels, and class vectors on the host, give the product ``as_operator(Y).centered(mean) @
        as_operator(T)``, never formed.

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
    check_order({"Y": Y, "sample_weight": sample_weight})
    labels = _varying(_labels(Y, unlabelled))
    _check_range("labels", np.maximum(*np.abs(labels.extremes())))
    weights, _ = weights_and_confounds(sample_weight, None, labels.shape[0])
    return _in_order_of(Y, labels.whitened(weights))


@at_home
@hinted
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
        Sparse for sparse labels and class vectors on the host; an array of the same library, device and floating
        dtype (float64 for integers) for dense ones. Labels that no row has are dropped, and so are those with weight
        zero.

    Raises
    ------
    InvalidProblem
        Negative labels or weights; a number of weights that differs from the number of labels; no label that has both
        a row and a positive weight; a label whose largest entry is above 1e50, or positive and below 1e-50; a weight
        above 1e50, or positive and below 1e-50; no rows or columns; a number of dimensions other than one or two.
        Without self-loops also: no label with two rows, where a row of weight 2 counts as two; a `sample_weight`
        between 0 and 1.
    InvalidOption
        An unknown Laplacian; `self_loops=False` with a Laplacian other than "clique"; `unlabelled` as for `lda`.
    NonFiniteData, UnsupportedData
        As for `lda`, for labels and weights.

    Notes
    -----
    A row without labels, or with labels of weight zero only, has degree 0 and a zero row in H. A label that every row
    has is an edge like other labels; a label of a single row joins this row to itself. The eigenvalues of HHᵀ are
    between 0 and 1, except without self-loops. Then degrees are smaller, while HHᵀ keeps its diagonal, as in Agarwal,
    Branson & Belongie 2006; edges of a single row add nothing to any degree, and are dropped.

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
    check_order({"Y": Y, "sample_weight": sample_weight})
    _check_laplacian(laplacian, self_loops)
    labels = _labels(Y, unlabelled)
    w = _weights(weights, labels.shape[1])
    low, high = labels.extremes()
    if low.min() < 0:
        raise InvalidProblem(
            f"hsl takes labels that are zero or more; got {low.min():g} in column {int(low.argmin())}. Code a missing "
            "label as 0; for labels of either sign use linspec.targets.opls or cca."
        )
    often, _ = weights_and_confounds(sample_weight, None, labels.shape[0])
    if not self_loops and often is not None and ((often > 0) & (often < 1)).any():
        raise InvalidProblem(
            "self_loops=False takes sample_weight of 0 or at least 1, because a row that counts less than once has no "
            f"tie to itself to leave out; got {often[(often > 0) & (often < 1)][0]:g}. Multiply them by a constant."
        )
    keep = (high > 0) & (w > 0) & (labels.sums(often) > 0)
    if not self_loops:
        keep &= labels.members(often) > 1
    if not keep.any():
        raise InvalidProblem(
            "hsl needs a label with rows and a positive weight"
            f"{'' if self_loops else ', and without self-loops with two rows'}; got none. Check Y and the weights."
        )
    _check_range("labels", high[keep])
    labels, w = labels.take(keep), w[keep]
    size = labels.sums(often)
    if not self_loops:
        degrees, columns = labels.ties(size, w), np.sqrt(w)
    elif laplacian == "clique":
        degrees, columns = labels.times(w * size), np.sqrt(w)
    elif laplacian == "star":
        degrees, columns = labels.times(w / size), np.sqrt(w) / size
    else:
        degrees, columns = labels.times(w), np.sqrt(w / size)
    return _in_order_of(Y, labels.scaled(reciprocal(degrees**0.5), columns).finished())


def _check_laplacian(laplacian: Any, self_loops: Any) -> None:
    if laplacian not in LAPLACIANS:
        raise InvalidOption(
            f"laplacian must be one of {', '.join(map(repr, LAPLACIANS))}; got {laplacian!r}."
        )
    if not isinstance(self_loops, bool | np.bool_):
        raise InvalidOption(f"self_loops must be True or False; got {self_loops!r}.")
    if not self_loops and laplacian != "clique":
        raise InvalidOption(
            f"self_loops=False needs laplacian='clique'; got {laplacian!r}. Leave self_loops out."
        )


def _weights(weights: Any, count: int) -> HostArray:
    """Check the weights of labels, and return them scaled to a largest weight of 1, float64 on the host."""
    if weights is None:
        return np.ones(count)
    check_bare(weights, "weights")
    if not is_array(weights):
        try:
            weights = to_host(weights)
        except ValueError as error:
            raise InvalidProblem(
                f"weights must be {count} numbers, one for each label; got {weights!r}."
            ) from error
    working_dtype(host_dtype(weights), "weights")
    host: HostArray = np.array(to_host(weights), dtype=np.float64)
    if host.shape != (count,):
        raise InvalidProblem(f"weights must have shape ({count},), one for each label; got {host.shape}.")
    if not np.isfinite(host).all():
        at = int(np.flatnonzero(~np.isfinite(host))[0])
        raise NonFiniteData(f"weights must be finite; got {host[at]} for label {at}. Weight 0 drops a label.")
    if host.min() < 0:
        raise InvalidProblem(
            f"weights must be zero or more; got {host.min():g} for label {int(host.argmin())}."
        )
    _check_range("weights", host[host > 0])
    host /= max(host.max(), SMALLEST)
    return host


def _check_range(what: str, sizes: HostArray) -> None:
    outside = sizes[(sizes < SMALLEST) | (sizes > LARGEST)]
    if len(outside):
        raise InvalidProblem(
            f"the magnitudes of {what} must be zero or between {SMALLEST:g} and {LARGEST:g}, so that their products "
            f"can be represented; got {outside[0]:g}. Scale them."
        )


def _varying(labels: _Dense | _Sparse) -> _Dense | _Sparse:
    """Return the labels without the constant ones: columns with the same entry in all rows are dropped.

    Raises InvalidProblem if all columns are constant.
    """
    low, high = labels.extremes()
    if not (low < high).any():
        raise InvalidProblem(
            "at least one label must differ between rows; got "
            f"{labels.shape[1]} of {labels.shape[1]} labels that are the same in all {labels.shape[0]} rows. "
            "Check Y and `unlabelled`, or pass more rows."
        )
    return labels.take(low < high)


# ---- targets that store their classes --------------------------------------------------------------


class ClassTargets(scipy.sparse.csr_array):  # type: ignore[misc]  # SciPy has no types
    """The sparse H of `lda`, with the classes of its columns.

    Slices and products of H lose the classes: their attributes are None.

    Attributes
    ----------
    names : numpy.ndarray of shape (c,) or None
        The classes as passed; column numbers if a label matrix was passed.
    sizes : numpy.ndarray of shape (c,) or None
        For each class, the number of its rows. With weights, the sum of the weights of the rows of the class.
    often : numpy.ndarray of shape (n,) or None
        The weight of each row: how often the row counts. None also if no weights were passed.
    """

    names: HostArray | None = None
    sizes: HostArray | None = None
    often: HostArray | None = None

    @classmethod
    def of_classes(
        cls, H: Any, names: HostArray, sizes: HostArray, weights: HostArray | None
    ) -> ClassTargets:
        """Make targets of a sparse array and its classes."""
        known = cls(H)
        known.names, known.sizes, known.often = names, sizes, weights
        return known


def _in_order_of(labels: Any, H: Any) -> Any:
    """Store the labels of the rows of `labels`, such as a pandas index, in the targets H, and return H.

    A problem with H compares these labels with the labels of the rows of X, and raises an error if their orders differ.
    A plain array H is returned unchanged, as it cannot store them.
    """
    index = index_of(labels)
    if index is not None and (is_scipy_sparse(H) or isinstance(H, LinearOperator)):
        H.row_index = index
    return H


def _equal(one: HostArray | None, other: HostArray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def classes_of(H: Any, weights: HostArray | None = None) -> tuple[HostArray, HostArray] | None:
    """The classes of targets H, and their sizes; None for other matrices, or if H was changed since it was made.

    Parameters
    ----------
    H : targets, or the operator of targets
    weights : numpy.ndarray of shape (n,), optional
        The weights of the rows of the problem; if the targets were made with other weights, the result is None.
    """
    if isinstance(H, BlockClassTargets):
        return H.classes if _equal(H.often, weights) else None
    H = getattr(H, "matrix", H)
    if not isinstance(H, ClassTargets) or H.names is None or H.sizes is None:
        return None
    if not _equal(H.often, weights):
        return None
    made = (1.0 / np.sqrt(H.sizes)).astype(H.dtype)
    rows = None if weights is None else np.repeat(weights, np.diff(H.indptr))
    same = np.array_equal(np.bincount(H.indices, rows, minlength=len(made)), H.sizes)
    return (H.names, H.sizes) if same and np.array_equal(H.data, made[H.indices]) else None


def targets_of_classes(H: Any, names: HostArray, weights: HostArray | None = None) -> ClassTargets:
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
    of_rows = scipy.sparse.csr_array((np.ones(H.nnz), H.indices, H.indptr), shape=H.shape)
    sizes = of_rows.T @ (np.ones(H.shape[0]) if weights is None else weights)
    there = np.flatnonzero(sizes > 0)
    if not len(there):
        raise InvalidProblem(
            f"targets of classes need a row with a class; got {H.shape[0]} rows without. Take other rows, or more."
        )
    made = scipy.sparse.csr_array(of_rows[:, there] * (1.0 / np.sqrt(sizes[there])))
    return ClassTargets.of_classes(made, names[there], sizes[there], weights)


# ---- labels as a matrix ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Dense:
    """Labels as a float64 array.

    Attributes
    ----------
    matrix : array of shape (n, t)
        The labels at `home.blocks`. They may be the user's own array, so they are never modified.
    home : Home
        The library and device of H.
    dtype : numpy.dtype
        The dtype of H.
    """

    matrix: Array
    home: Home
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        n, t = self.matrix.shape
        return int(n), int(t)

    def extremes(self) -> tuple[HostArray, HostArray]:
        """The smallest and the largest entry of each column."""
        xp = self.home.blocks.xp
        return to_host(xp.min(self.matrix, axis=0)), to_host(xp.max(self.matrix, axis=0))

    def sums(self, weights: HostArray | None = None) -> HostArray:
        """The (weighted) sum of each column."""
        if weights is not None:
            return to_host(self.home.blocks.place(weights) @ self.matrix)
        return to_host(self.home.blocks.column_sums(self.matrix))

    def members(self, weights: HostArray | None = None) -> HostArray:
        """The number of rows with each label, or the sum of the weights of these rows."""
        blocks = self.home.blocks
        there = _Dense(blocks.xp.astype(self.matrix != 0, self.matrix.dtype), self.home, self.dtype)
        return there.sums(weights)

    def neither_zero_nor_one(self) -> HostArray:
        """The values of the entries other than 0 and 1, as a vector; empty if there are none."""
        strange = (self.matrix != 0) & (self.matrix != 1)
        if not to_host(self.home.blocks.xp.any(strange)):
            return np.zeros(0)
        entries: HostArray = to_host(self.matrix)[to_host(strange)]
        return entries

    def times(self, v: HostArray) -> Array:
        """The matrix times a vector."""
        return (self.matrix @ self.home.blocks.place(v)[:, None])[:, 0]

    def ties(self, size: HostArray, w: HostArray) -> Array:
        """The degree of each row v without self-loops, as `hsl` defines it: Σ_e w(e) h(v, e) (δ(e) − h(v, e)).

        `w` holds w(e), and `size` holds δ(e), the sum of column e.
        """
        blocks = self.home.blocks
        return ((self.matrix * (blocks.place(size)[None, :] - self.matrix)) @ blocks.place(w)[:, None])[:, 0]

    def take(self, keep: HostArray) -> _Dense:
        """Select the columns for which the mask `keep` is True."""
        if keep.all():
            return self
        xp, blocks = self.home.blocks.xp, self.home.blocks
        chosen = blocks.place(np.flatnonzero(keep), np.int64)
        return _Dense(xp.take(self.matrix, chosen, axis=1), self.home, self.dtype)

    def scaled(self, rows: Array | None, columns: HostArray) -> _Dense:
        """The matrix with each row and each column multiplied by a number."""
        scaled = self.matrix * self.home.blocks.place(columns)[None, :]
        scaled = scaled if rows is None else rows[:, None] * scaled
        return _Dense(scaled, self.home, self.dtype)

    def finished(self) -> Array:
        """The matrix in the dtype and library in which H is returned."""
        return self.home.place(self.matrix, self.dtype)

    def centered(self) -> Array:
        """The labels minus their column means, in the dtype of H."""
        return self.home.place(self._about_means(None), self.dtype)

    def _about_means(self, weights: Array | None) -> Array:
        # Subtract the first row before the mean: a mean much larger than the deviations would cost digits.
        blocks, rows = self.home.blocks, self.matrix - self.matrix[:1, :]
        total = blocks.column_sums(rows) if weights is None else weights @ rows
        count = rows.shape[0] if weights is None else blocks.xp.sum(weights)
        return rows - (total / count)[None, :]

    def whitened(self, weights: HostArray | None) -> Array:
        """Yc T, for the centred labels Yc and a matrix T with TᵀYcᵀW Yc T = I.

        W is the diagonal matrix of `weights`, or the identity if `weights` is None.
        """
        blocks = self.home.blocks
        w = None if weights is None else blocks.place(weights)

        def gram(rows: Array) -> HostArray:
            return to_host(rows.T @ (rows if w is None else rows * w[:, None]))

        rows = self._about_means(w)
        H = rows @ blocks.place(_factor(gram(rows), self.shape[0], self.dtype))
        # A second step, because the error of the first grows with the condition number of the Gram matrix.
        return self.home.place(H @ blocks.place(whitening(gram(H))), self.dtype)


@dataclass(frozen=True)
class _Sparse:
    """Labels as a SciPy sparse array on the host, with the methods of `_Dense`.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array of shape (n, t)
        The labels in float64. No entry is stored twice, and no stored entry is zero. The arrays may be the user's own.
    dtype : numpy.dtype
        The dtype of H.
    names : numpy.ndarray of shape (t,), optional
        The classes of the columns, if the labels are a class vector.
    """

    matrix: Any
    dtype: np.dtype[Any]
    names: HostArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, t = self.matrix.shape
        return int(n), int(t)

    def extremes(self) -> tuple[HostArray, HostArray]:
        low, high = self.matrix.min(axis=0).toarray(), self.matrix.max(axis=0).toarray()
        return low.ravel(), high.ravel()

    def sums(self, weights: HostArray | None = None) -> HostArray:
        entries = self.matrix.data
        if weights is not None:
            entries = entries * np.repeat(weights, np.diff(self.matrix.indptr))
        return np.bincount(self.matrix.indices, entries, minlength=self.shape[1])

    def members(self, weights: HostArray | None = None) -> HostArray:
        return self._with(np.ones(self.matrix.nnz)).sums(weights)

    def neither_zero_nor_one(self) -> HostArray:
        strange: HostArray = self.matrix.data[self.matrix.data != 1]
        return strange

    def times(self, v: HostArray) -> Array:
        return self.matrix @ v

    def ties(self, size: HostArray, w: HostArray) -> Array:
        entries = self.matrix.data
        return self._with(entries * (size[self.matrix.indices] - entries)).matrix @ w

    def take(self, keep: HostArray) -> _Sparse:
        if keep.all():
            return self
        names = None if self.names is None else self.names[keep]
        return _Sparse(self.matrix[:, np.flatnonzero(keep)], self.dtype, names)

    def scaled(self, rows: Array | None, columns: HostArray) -> _Sparse:
        entries = self.matrix.data * columns[self.matrix.indices]
        if rows is not None:
            entries = np.repeat(rows, np.diff(self.matrix.indptr)) * entries
        return self._with(entries)

    def finished(self) -> Any:
        return self.matrix.astype(self.dtype)  # a copy, of the indices as well

    def centered(self, weights: HostArray | None = None) -> CenteredOperator:
        matrix = self.matrix.astype(self.dtype, copy=False)
        total = self.shape[0] if weights is None else weights.sum()
        return CenteredOperator(SparseOperator(matrix, checked=True), self.sums(weights) / total)

    def whitened(self, weights: HostArray | None) -> ProductOperator:
        T = _factor(self._gram(weights), self.shape[0], self.dtype)
        return ProductOperator(self.centered(weights), DenseOperator(T))

    def _gram(self, weights: HostArray | None) -> HostArray:
        """The (weighted) Gram matrix of the centred columns."""
        sums = self.sums(weights)
        n: Any = self.shape[0] if weights is None else weights.sum()
        often = self.matrix if weights is None else self.scaled(weights, np.ones(self.shape[1])).matrix
        plain = (self.matrix.T @ often).toarray()
        # In this order whole numbers are exact: n YᵀY and s sᵀ are whole as well.
        gram: HostArray = (n * plain - np.outer(sums, sums)) / n
        lost = np.diag(plain) > WORST_CANCELLATION * np.diag(gram)
        whole = n * plain.max() < 2**53 and np.array_equal(often.data, np.rint(often.data))
        return self._gram_by_rows(weights, sums / n) if lost.any() and not whole else gram

    def _gram_by_rows(self, weights: HostArray | None, mean: HostArray) -> HostArray:
        """The (weighted) Gram matrix of the labels minus `mean`, which is subtracted in dense blocks of rows.

        If a label varies little about a large mean, its Gram matrix minus the product of the means loses most digits.
        """
        n, t = self.shape
        gram = np.zeros((t, t))
        for rows in row_blocks(n, 8 * t, HOST, sum_bytes=8 * t * t):
            block = self.matrix[rows].toarray() - mean
            gram += block.T @ (block if weights is None else block * weights[rows, None])
        return gram

    def _with(self, entries: HostArray) -> _Sparse:
        parts = (entries, self.matrix.indices, self.matrix.indptr)
        return _Sparse(scipy.sparse.csr_array(parts, shape=self.shape), self.dtype)


def _factor(gram: HostArray, n: int, dtype: np.dtype[Any]) -> HostArray:
    """T with Tᵀ G T = I, for the Gram matrix G of n rows of labels.

    The diagonal of G is scaled to ones. The columns of T belong to the eigenvectors of the scaled G whose eigenvalues
    are above the rounding errors of G, and above the rounding errors of labels in `dtype`.
    """
    t = len(gram)
    T = whitening(gram, max(16 * EPS, rank_cut((n, t), dtype) ** 2 / t))
    return T @ whitening(T.T @ gram @ T)


# ---- conversion of labels to a matrix --------------------------------------------------------------


def _labels(given: Any, unlabelled: Any) -> _Dense | _Sparse:
    """Check labels in any form, and convert them to a matrix."""
    if adapter_of_labels(given) is not None:
        raise UnsupportedData(
            "labels in blocks are taken by linspec.targets.lda alone; got them for other targets. Bring them here, or "
            "pass the label matrix itself: as H of a centred Discriminant it is what opls makes of it, and as Y of CCA "
            "what cca makes of it."
        )
    named, given = named_entries(unlabelled), as_array(given)
    if is_scipy_sparse(given) or is_array(given):
        _check_shape(given)
    else:
        remedy = "its values, `.to_numpy()`" if hasattr(given, "to_numpy") else "an array or a sparse matrix"
        raise UnsupportedData(
            "labels must be a class vector (a list, an array or a series), or a label matrix (an array, a frame or a "
            f"scipy.sparse matrix); got {type(given).__module__}.{type(given).__qualname__}. Pass {remedy}."
        )
    if given.ndim == 1:
        return _indicators(given, named)
    if named:
        raise InvalidOption(
            "unlabelled names entries of a class vector; got it with a label matrix. A row of zeros there is a row "
            "without labels."
        )
    return _sparse_labels(given) if is_scipy_sparse(given) else _dense_labels(given)


def _check_shape(given: Any) -> None:
    shape = tuple(given.shape)
    if len(shape) not in (1, 2) or (len(shape) == 1 and is_scipy_sparse(given)):
        raise InvalidProblem(
            f"labels must be a vector of classes or a matrix with a column for each label; got {len(shape)} "
            f"{'dimension' if len(shape) == 1 else 'dimensions'} with shape {shape}. Reshape them."
        )
    if 0 in shape:
        raise InvalidProblem(f"labels must have rows and columns; got shape {shape}.")


def _result_dtype(dtype: np.dtype[Any], home: Home) -> np.dtype[Any]:
    """float32 for floats of at most 32 bits and on devices without float64, otherwise float64."""
    narrow = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if narrow or home.blocks != home else np.float64)


def _sparse_labels(given: Any) -> _Sparse:
    with called("a label matrix"):
        rows = checked_rows(given)
    working_dtype(rows.dtype, "a label matrix")
    matrix = scipy.sparse.csr_array(rows).astype(np.float64, copy=False)
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    strange = sparse_columns.first_non_finite(matrix)
    if strange is not None:
        raise _not_finite(*strange)
    return _Sparse(matrix, _result_dtype(rows.dtype, HOST))


def _dense_labels(given: Any) -> _Dense:
    dtype = host_dtype(given)
    working_dtype(dtype, "a label matrix")
    if not all_finite(given):
        row, column = np.argwhere(~np.isfinite(to_host(given)))[0].tolist()
        raise _not_finite(row, column, float(to_host(given)[row, column]))
    home = Home.of(given)
    return _Dense(home.blocks.place(given), home, _result_dtype(dtype, home))


def _not_finite(row: int, column: int, value: float) -> NonFiniteData:
    return NonFiniteData(
        f"a label matrix must be finite; got {value} at row {row}, column {column}. A row without labels is a row of "
        "zeros; drop rows with unknown labels."
    )


def _indicators(given: Any, named: frozenset[Any]) -> _Dense | _Sparse:
    """The indicator matrix of a class vector: sparse for NumPy arrays, dense for other libraries."""
    home, dtype = Home.of(given), _result_dtype(host_dtype(given), Home.of(given))
    codes, names = numbered(to_host(given), named)
    if not isinstance(given, np.ndarray):
        blocks = home.blocks
        columns = blocks.place(np.arange(len(names)), np.int64)[None, :]
        there = blocks.place(codes, np.int64)[:, None] == columns
        return _Dense(blocks.xp.astype(there, blocks.xp.float64), home, dtype)
    labelled = codes >= 0
    starts = np.concatenate([[0], np.cumsum(labelled)])
    parts = (np.ones(int(labelled.sum())), codes[labelled], starts)
    return _Sparse(scipy.sparse.csr_array(parts, shape=(len(codes), len(names))), dtype, names)
