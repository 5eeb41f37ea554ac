"""The correlation between canonical variates of rows.

Problem: score the canonical variates of rows, usually of rows that were not fitted.
Method: variates take one product with each view (`linspec.solving.new_rows`). Correlations come from the small Gram
matrix of the variates about the means of the training rows. The total is the sum after the best rotation of the
variates (total correlation captured), so it does not depend on the rotation that a solver returns.
Source: Ma, Lu & Foster 2015, ICML, section 4.
Where we differ: only one forward product is needed, while scores of given weights on the rows of a problem
(`linspec.metrics`) also need an adjoint product. Centred variates that do not vary over the rows have correlation 0.
Their quotient of sums is not 0, because the means are those of other rows.

Solutions that map two views to variates: scores, loadings, and tables of both.

Problem: the functions of kernel CCA and the nets of deep CCA have no weight for a column of the data, but it is of
interest which columns they are related to.
Method: structure correlations. The variates of rows are computed, and the correlation of each column with each of them.
Source: Thompson 1984, Canonical Correlation Analysis, doi:10.4135/9781412983570 (structure coefficients).
Where we differ: variates may be nonlinear, and then a related column may have correlation 0, as x with x².
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, HostArray, reciprocal, to_host, with_device
from linspec.errors import InvalidProblem
from linspec.linalg.small_matrices import EPS, whitening
from linspec.operators import LinearOperator, as_operator
from linspec.solving.linear_solution import LinearSolution, loadings_of, moments_of_rows, single_or_several
from linspec.solving.tables import check_columns
from linspec.studies.held_out.scores import still


@dataclass(frozen=True, eq=False)
class CCAScore:
    """The correlation that canonical weights capture on some rows. It unpacks into `correlations` and `total`.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (k,)
        The correlation of each pair of variates, without rotation, between -1 and 1, float64. It is negative if a
        pair that fits the training rows has the opposite sign on these rows, and 0 if a variate does not vary.
    total : float
        Total correlation captured: the sum of the canonical correlations of the k variates of X with the k of Y, which
        is the largest sum over all rotations and scalings. Between 0 and k.
    rows : int
        The number of rows scored. With hardly more rows than components, `total` is near k for any weights.
    """

    correlations: HostArray
    total: float
    rows: int = 0

    def __iter__(self) -> Iterator[Any]:
        return iter((self.correlations, self.total))

    def __getitem__(self, i: int) -> Any:
        return (self.correlations, self.total)[i]


def score_views(solution: Any, X: Any, Y: Any, *, centered: bool, **auxiliary: Any) -> CCAScore:
    """Compute the correlations of a solution's variates on rows of both views.

    Parameters
    ----------
    solution : Solution
        A solution whose method `transform` accepts both views.
    X, Y : data of shape (n, p), (n, q)
    centered : bool
        Whether the problem of the solution centres. A variate that does not vary then has correlation 0.
    **auxiliary
        Further arguments of `transform`, such as confounds.

    Returns
    -------
    CCAScore
        The correlation of each pair of variates on these rows, the total correlation captured, and the number of rows.

    Raises
    ------
    InvalidProblem
        If a view is missing, or the views have no rows, or different numbers of rows.
    NonFiniteData
        If variates are not finite.
    UnsupportedData
        If the views are in different libraries or on different devices.
    """
    if X is None or Y is None:
        raise InvalidProblem("score needs the rows of both views; got one. Pass X and Y.")
    named = zip("XY", solution.transform(X, Y, **auxiliary), strict=True)
    variates = {f"the variates of {name}": as_operator(V, f"the variates of {name}") for name, V in named}
    rows, y_rows = (int(A.shape[0]) for A in variates.values())
    if rows != y_rows:
        raise InvalidProblem(f"X and Y must have equally many rows; got {rows} and {y_rows}.")
    if not rows:
        raise InvalidProblem("X and Y must have rows for a score; got none.")
    eps = max(float(np.finfo(A.dtype).eps) for A in variates.values())
    moments = moments_of_rows(variates, center=False)
    G = np.block([[to_host(block) for block in row] for row in moments.gram()])
    means = np.concatenate([moments.fitted[i].average for i in (0, 1)])
    varying = ~still(np.diag(G), means, rows, rows, eps) | (not centered)
    G = G * np.outer(varying, varying)
    return CCAScore(componentwise(G), captured(G, eps), rows)


def componentwise(G: HostArray) -> HostArray:
    """The correlation of each column of P with the same column of Q, from G = [P, Q]ᵀ[P, Q]."""
    k, squares = len(G) // 2, np.diag(G)
    return cosines(squares[:k], squares[k:], np.diag(G[:k, k:]))


def cosines(xx: HostArray, yy: HostArray, xy: HostArray) -> HostArray:
    """Cosines xy / √(xx · yy) from inner products and squared lengths of columns; 0 for a zero column."""
    lengths = np.sqrt(np.maximum(xx, 0.0)) * np.sqrt(np.maximum(yy, 0.0))
    return np.asarray(np.clip(xy * reciprocal(lengths), -1.0, 1.0))


def captured(G: HostArray, cut: float = EPS) -> float:
    """The sum of the canonical correlations of P and Q, of equally many columns, from G = [P, Q]ᵀ[P, Q]."""
    k = len(G) // 2
    Tx = whitening(G[:k, :k], cut)
    Ty = whitening(G[k:, k:], cut)
    Gx = Tx.T @ G[:k, :k] @ Tx
    C = Tx.T @ G[:k, k:] @ Ty
    Gy = Ty.T @ G[k:, k:] @ Ty
    rho = np.linalg.svd(whitening(Gx).T @ C @ whitening(Gy), compute_uv=False)
    return float(np.clip(rho, 0.0, 1.0).sum())


class TwoViewSolution(LinearSolution, vector="pair", score="total correlation captured"):
    """Base class of solutions whose variates may be any functions of the rows of two views.

    It computes scores, loadings and their tables.

    A class that derives from it has the fields of `linspec.Solution` and its own, and a method `variates`.

    Attributes
    ----------
    center_of : mapping of str to str
        For "X" and for "Y" the name of a field of the solution that is None if the problem does not centre. `score` and
        `loadings` read it to determine whether means are subtracted. By default "x_mean" and "y_mean".

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import TwoViewSolution
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> solution = ls.solve(ls.KernelCCA(X, X**2, k=1, ridge=0.1))
    >>> isinstance(solution, TwoViewSolution)
    True
    >>> solution.loadings(X=X).shape, solution.score(X, X**2).rows
    ((1, 1), 40)
    """

    center_of: ClassVar[Mapping[str, str]] = {
        "X": "x_mean",
        "Y": "y_mean",
    }  # the field that is None without centring

    @property
    def _matrices(self) -> tuple[str, ...]:
        return tuple(self.center_of)

    @with_device
    def transform(self, X: Any = None, Y: Any = None) -> Any:  # type: ignore[override]  # no confounds
        """Compute variates of rows of X, of Y, or of both.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Anything that `linspec.as_operator` takes and whose entries can be read.

        Returns
        -------
        array of shape (n, k), or a pair of arrays when both are given
            In the library, on the device and in the working dtype of the rows; of NumPy for sparse matrices and files.

        Raises
        ------
        InvalidProblem
            Neither view is given, the column names or the number of columns of a view differ from the training data, or
            Y has the rows of X in another order.
        MissingCapability
            The entries cannot be read.
        """
        operators = self._operators("transform", (X, Y), {})
        for name, A in operators.items():
            check_columns(self, name, A)
        return single_or_several([self.variates(name, A) for name, A in operators.items()])

    @abstractmethod
    def variates(self, view: str, A: LinearOperator) -> Array:
        """Compute variates of rows of one view.

        Parameters
        ----------
        view : {"X", "Y"}
        A : LinearOperator of shape (n, p)
            The rows, whose names have been checked.

        Returns
        -------
        array of shape (n, k)
        """

    @with_device
    def score(self, X: Any, Y: Any) -> CCAScore:
        """Compute the correlations of the variates on rows, usually on new rows, without the ridge.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            Matching rows.

        Returns
        -------
        CCAScore
            ``correlations`` of shape (k,), one for each pair, about the training means; ``total``, the total
            correlation captured by the best rotation of the variates; and ``rows``. It unpacks into the first two:
            ``correlations, total = solution.score(X, Y)``.

        Raises
        ------
        InvalidProblem
            If a view is missing, does not have the columns of the training rows, or not the rows of the other view.
        """
        return score_views(self, X, Y, centered=getattr(self, self.center_of["X"]) is not None)

    @with_device
    def loadings(  # type: ignore[override]  # no confounds
        self, X: Any = None, Y: Any = None, *, sample_weight: Any = None
    ) -> Any:
        """Compute structure correlations, of each column of a view with each of its variates on the same rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            The training rows or other rows, of one view or of both. If the problem centres, the means of these rows are
            subtracted. They are read twice: once for the variates, and once for the correlations.
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        array of shape (p, k), or a pair of arrays of shapes (p, k) and (q, k) when both are given
            Between -1 and 1; 0 for a column that does not vary. A column that is related to a variate nonlinearly may
            have correlation 0 with it.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data, or neither X nor Y is passed.
        MissingCapability
            If an operator is known only by its products.
        """
        operators = self._operators("loadings", (X, Y), {}, sample_weight=sample_weight)
        loadings = []
        for name, A in operators.items():
            variates = self.transform(**{name: A})
            centred = getattr(self, self.center_of[name]) is not None
            rows = {name: A, "the variates": variates}
            turn = np.eye(variates.shape[1])
            loadings += loadings_of(
                rows, [None, turn], crossed=True, center=centred, sample_weight=sample_weight
            )
        return single_or_several([part.given_back for part in loadings])
