"""What a solver hands back: the answer, how it ended, what it cost, and how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from linspec.arrays import LEAST_SQUARE, Array, HostArray
from linspec.errors import InvalidProblem
from linspec.variates import CCAScore, loadings, score_variates, variates


class Status(Enum):
    """How a solve ended. The value is advice in plain words."""

    CONVERGED = "The residual of the returned arrays is at or below the tolerance."
    BUDGET = (
        "The budget of passes or seconds ran out first. The best iterate is returned with its residual: "
        "raise max_passes or max_seconds to go on."
    )
    ITERATION_LIMIT = (
        "The solver reached its own limit of iterations above the tolerance. Raise max_iterations, loosen "
        "tol, or choose another solver."
    )
    STAGNATED = (
        "The residual stopped falling above the tolerance: rounding, or an inner solver, limits it. Loosen "
        "tol, add a ridge, or choose a direct solver."
    )
    STOPPED = "The callback asked to stop. The best iterate is returned with its residual."
    INTERRUPTED = "An interrupt ended the run. The best iterate is returned with its residual."
    RANK_DEFICIENT = (
        "The data have lower rank than was asked or assumed: only directions above the numerical rank are "
        "returned. Ask for fewer, or add a ridge."
    )
    INCOMPLETE = (
        "Some of the leading values are missing, or may be, which no residual shows. Raise the budget or "
        'max_iterations, or choose "gram" or "direct", which miss none.'
    )
    CLUSTERED = (
        "Correlations that were left out are close to those returned, so that more may be missing than the residual "
        "says; loss_estimate has how much. Lower tol, or ask for more pairs."
    )
    DEGENERATE = (
        "Correlations equal to 1 to rounding: the two views share directions exactly, often because a view "
        "has nearly as many columns as rows. Add a ridge to tell signal from chance."
    )
    ILL_CONDITIONED = (
        "Forming the Gram matrices has squared a large condition number, and digits are lost that the "
        'residual, taken from the same Gram matrices, cannot show. Choose "direct", or add a ridge.'
    )
    APPROXIMATE = (
        "The solver ended by its own rule, which does not lead to the exact solution of this problem; the "
        "residual says how far away it is."
    )
    INACCURATE = (
        "The computed answer does not meet the tolerance. The problem may be too ill-conditioned for this "
        "method and precision: add a ridge, use float64, or choose another solver."
    )
    BREAKDOWN = (
        "The iteration broke down and could not be restarted. The best iterate is returned with its "
        "residual: add a ridge, scale the columns, or choose another solver."
    )


HISTORY_FIELDS = ("iteration", "passes", "columns", "flops", "seconds", "residual")
"""The columns of `Solution.history`, all float64."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Solution:
    """The part of an answer that all problems share.

    Attributes
    ----------
    status : Status
        How the run ended; its value is advice.
    converged : bool
        Whether `residual` is at or below the tolerance: a fact about the returned arrays.
    message : str
        The status in words, with this run's own figures.
    residual : float
        The residual of the returned arrays by the problem's law; 0 is exact.
    residual_kind : str
        "recomputed" (by a sweep, which is counted) or "from-gram" (a Gram matrix was held).
    iterations : int
        Iterations of the solver's outer loop; 0 for direct solvers.
    passes : float
        The largest number of sweeps over any one matrix of the problem, everything included.
    columns : float
        Products with one column, forward and adjoint, over all matrices, the certificate's included.
    flops : float
        Floating-point operations of those products.
    seconds : float
        Wall time of the run.
    setup_passes : float
        Passes made before this run by moments that were shared with it.
    history : numpy structured array
        One record an iteration: iteration, passes, columns, flops, seconds, residual.
    solver : str
        The qualified name of the solver that ran.
    """

    status: Status
    converged: bool
    message: str
    residual: float
    residual_kind: str
    iterations: int
    passes: float
    columns: float
    flops: float
    seconds: float
    setup_passes: float
    history: HostArray
    solver: str

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} by {self.solver}: {self._headline()}, residual {self.residual:.2g} "
            f"({self.residual_kind}), {self.passes:g} passes, {self.iterations} iterations, "
            f"{self.status.name}>"
        )

    def _headline(self) -> str:
        return ""


@dataclass(frozen=True, kw_only=True, repr=False)
class LeastSquaresSolution(Solution):
    """Coefficients of a least-squares problem.

    Attributes
    ----------
    x : array of shape (p, m), or (p,) for one-dimensional B
        In the library, dtype and on the device of A. For a sequence of r ridges, r of them: (r, p, m) or (r, p).
    residuals : numpy.ndarray of shape (r,)
        The residual of each ridge's solution; `residual` is the largest.
    """

    x: Array
    residuals: HostArray

    def _headline(self) -> str:
        return f"x {tuple(self.x.shape)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class SVDSolution(Solution):
    """Leading singular triplets.

    Attributes
    ----------
    S : numpy.ndarray of shape (k,)
        Singular values in decreasing order, float64.
    Vh : array of shape (k, p)
        Right singular vectors as rows.
    U : array of shape (n, k) or None
        Left singular vectors where the problem asked for them.
    mean : array of shape (p,) or None
        Column means, where the problem centres.
    rows : int
        Rows of the data.
    total_squares : float or None
        The sum of the squares of all singular values: of all entries of the data, about their column means where the
        problem centres. It comes with the sweeps that are made anyway. None for operators that are known only by
        their products, of which it would take one with each column of the identity; where it is known otherwise,
        divide ``S**2`` by it. 0 or infinite where data are so small or so large that it is no number.
    total_norm : float or None
        Its square root, the Frobenius norm of the data: a number wherever the entries are.
    """

    S: HostArray
    Vh: Array
    U: Array | None = None
    mean: Array | None = None
    rows: int
    total_squares: float | None = None
    total_norm: float | None = None

    @property
    def explained_variance_ratio(self) -> HostArray | None:
        """The share of each component in `total_squares`, shape (k,); None where that is not known.

        Of a centred problem the share in the variance, as ``PCA`` of scikit-learn has it. Without centring the share
        in the sum of squares about zero: ``TruncatedSVD`` of scikit-learn divides variances about the means there,
        although the means are still in the components, and its shares need neither fall nor add up to one.
        """
        if self.total_squares is None:
            return None
        if self.total_norm and not LEAST_SQUARE < self.total_squares < math.inf:
            return np.square(self.S / self.total_norm)
        share: HostArray = self.S**2 / self.total_squares if self.total_squares > 0 else 0.0 * self.S
        return share

    @property
    def explained_variance(self) -> HostArray | None:
        """The variance of the data along each row of `Vh`, S²/(rows − 1), shape (k,); None without centring."""
        if self.mean is None:
            return None
        with np.errstate(over="ignore", under="ignore"):
            variance: HostArray = self.S**2 / max(self.rows - 1, 1)
        return variance

    @property
    def total_variance(self) -> float | None:
        """The sum of the variances of all columns; None without centring, or where `total_squares` is None."""
        if self.mean is None or self.total_squares is None:
            return None
        return self.total_squares / max(self.rows - 1, 1)

    def _headline(self) -> str:
        return f"S {np.array2string(self.S[:3], precision=4)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class CCASolution(Solution):
    """Canonical pairs.

    Attributes
    ----------
    x_weights, y_weights : array of shape (p, k), (q, k)
        Canonical weights, of unit length in the metric of XᵀX + ridge (YᵀY + ridge).
    correlations : numpy.ndarray of shape (k,)
        Canonical correlations in decreasing order, with the ridge of the problem, float64.
    x_mean, y_mean : array or None
        Column means, where the problem centres.
    residuals : numpy.ndarray of shape (k,)
        For each pair ‖ϱ‖² in the norm of S⁻¹, of what is left of its equations. `residual` is their sum over that of
        the correlations. `residual_kind` says how the norm was had: "exact" by a factor of S, "quadrature" by
        conjugate gradients on a sparse S that is held, to the first digit and from below, or "preconditioned" by a
        preconditioner that stands for S, and is within a factor of about two.
    bounds : numpy.ndarray of shape (k,) or None
        For each correlation a distance within which there is an exact one; None where nothing bounds it (ridge 0 with
        a norm that is not exact).
    law_bounds : (float, float)
        Between which the residual lies, by the exact law: the second is infinite where nothing bounds it. They decide
        nothing.
    loss_estimate : float or None
        About how much of the exact sum of the leading correlations is missing, as a share: ‖ϱᵢ‖²/2gᵢ for each pair over
        the sum, gᵢ being the gap to the correlations that were left out. None where nothing is known of these.
    loss_bounds : (float, float or None)
        Bounds on that share. The lower one is what a second block beside the answer gains; it is negative by what
        rounding may add to a correlation. There is an upper one only where it is shown that no pair was missed: by
        "gram" and "direct", for views with few columns, and with the option complete=True.
    ranks : tuple of int or None
        Numerical ranks of the two views, where the solver decides them.
    """

    x_weights: Array
    y_weights: Array
    correlations: HostArray
    residuals: HostArray
    x_mean: Array | None = None
    y_mean: Array | None = None
    bounds: HostArray | None = None
    law_bounds: tuple[float, float] = (0.0, float("inf"))
    loss_estimate: float | None = None
    loss_bounds: tuple[float, float | None] = (0.0, None)
    ranks: tuple[int, int] | None = None

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        return f"{len(self.correlations)} correlations, sum {total:.6f}"

    def transform(self, X: Any = None, Y: Any = None) -> Any:
        """Canonical variates of rows: X times the weights, after the training means are taken out.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Any kind of data that `linspec.as_operator` takes.

        Returns
        -------
        array of shape (n, k), or a pair of them when both are given
        """
        given = [
            variates(data, weights, mean, name)
            for data, weights, mean, name in (
                (X, self.x_weights, self.x_mean, "X"),
                (Y, self.y_weights, self.y_mean, "Y"),
            )
            if data is not None
        ]
        if not given:
            raise InvalidProblem("transform needs X, Y or both; got neither.")
        return given[0] if len(given) == 1 else tuple(given)

    def score(self, X: Any, Y: Any) -> CCAScore:
        """How much correlation the weights capture on rows, in most cases on new ones.

        The correlations are those of the variates as they stand, about the training means and without the ridge of the
        problem. `linspec.metrics.tcc` has the same total with a ridge, or for other weights.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            Rows that belong together, of any kind that `linspec.as_operator` takes, slices of rows included. Each is
            read once; sparse rows stay sparse.

        Returns
        -------
        CCAScore
            ``correlations`` of shape (k,), a pair each; their ``total``, of the best rotation; ``rows``. It unpacks:
            ``correlations, total = solution.score(X, Y)``.

        Raises
        ------
        InvalidProblem
            Other columns than the training data have, no rows, or unequally many.
        NonFiniteData
            NaN or infinity in the variates.
        UnsupportedData
            X and Y live in different places.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> shared = rng.standard_normal((600, 1))
        >>> X, Y = shared + rng.standard_normal((600, 5)), shared + rng.standard_normal((600, 4))
        >>> solution = ls.solve(ls.CCA(X[:400], Y[:400], k=2))
        >>> correlations, total = solution.score(X[400:], Y[400:])
        >>> bool(correlations[0] > 0.7), bool(abs(correlations[1]) < 0.3)
        (True, True)
        """
        if X is None or Y is None:
            raise InvalidProblem("score needs the rows of both views; got one. Pass X and Y.")
        P, Q = self.transform(X, Y)
        return score_variates(P, Q, centered=self.x_mean is not None)

    def loadings(self, X: Any = None, Y: Any = None) -> Any:
        """Structure correlations: of each column of a view with each of its variates.

        Weights say how a variate is made, and may have any sign and size where columns are alike; loadings say what it
        is.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            The training rows or others; of one view or of both. Means, where the problem centres, are those of these
            rows. Slices are read twice.

        Returns
        -------
        array of shape (p, k), or a pair of arrays of shapes (p, k) and (q, k) when both are given
            Between -1 and 1; 0 for a column that does not vary.

        Raises
        ------
        InvalidProblem
            Other columns than the training data have, or neither X nor Y.
        MissingCapability
            For operators that are known by their products only.
        """
        center = self.x_mean is not None
        found = [
            loadings(data, weights, name, center=center)
            for data, weights, name in ((X, self.x_weights, "X"), (Y, self.y_weights, "Y"))
            if data is not None
        ]
        if not found:
            raise InvalidProblem("loadings need X, Y or both; got neither.")
        return found[0] if len(found) == 1 else tuple(found)

    def supported(self, level: Any = 0.0) -> int:
        """How many leading pairs the certificate of this solution holds above a level.

        A pair counts where its correlation less its error is above the level, and so do all pairs before it. The error
        is `bounds`, beyond which there is no distance to the nearest exact correlation, or at ridge 0, where there is
        none such, the estimate √(`residuals` / 2) of the same distance.

        Parameters
        ----------
        level : float, default 0.0
            What correlations are compared with: what chance alone gives, say, the largest of
            `linspec.null_correlations`.

        Returns
        -------
        int
            Between 0 and k.

        Raises
        ------
        InvalidProblem
            When the level is no number.

        Notes
        -----
        This says which pairs are computed well enough to be told from the level, not which would be found again in
        other rows: for that there are `score` and `linspec.permutation_test`. A solver that rotates its answer within
        the spans that it has found, as all of linspec do, never returns more than the exact correlation of the same
        rank, so the count is of exact correlations above the level, too, at least.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or np.isnan(level):
            raise InvalidProblem(f"level must be a number; got {level!r}.")
        errors = np.sqrt(self.residuals / 2) if self.bounds is None else self.bounds
        above = self.correlations - errors > level
        return int(np.cumprod(above).sum())


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscriminantSolution(Solution):
    """Discriminant directions.

    Attributes
    ----------
    weights : array of shape (p, k)
        Of unit length in the metric of M = XᵀX + ridge·I, and orthogonal in it: WᵀMW = I.
    eigenvalues : numpy.ndarray of shape (k,)
        In decreasing order, float64. Their sum is how much of the targets the directions explain: with a target of
        orthonormal columns (CCA, and LDA where every row has a class) each lies between 0 and 1, and is a squared
        canonical correlation of data and labels, with the ridge on the side of the data.
    mean : array of shape (p,) or None
        Column means of X, where the problem centres.
    rank : int or None
        The numerical rank of X, where the solver decides it.
    """

    weights: Array
    eigenvalues: HostArray
    mean: Array | None = None
    rank: int | None = None

    def _headline(self) -> str:
        return f"{len(self.eigenvalues)} eigenvalues, sum {float(self.eigenvalues.sum()):.6g}"

    def transform(self, X: Any) -> Array:
        """Rows in the subspace: X times the weights, after the training means are taken out.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes; sparse rows stay sparse.

        Returns
        -------
        array of shape (n, k)
        """
        return variates(X, self.weights, self.mean, "X")


@dataclass
class History:
    """The record that a run keeps, one row an iteration."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, **values: float) -> None:
        """Append one iteration."""
        self.rows.append(tuple(float(values[name]) for name in HISTORY_FIELDS))

    def table(self) -> HostArray:
        """The history as a structured float64 array."""
        return np.array(self.rows, dtype=[(name, np.float64) for name in HISTORY_FIELDS])
