"""The solution of a CCA: canonical pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.errors import InvalidProblem
from linspec.families.cca.variates import CCAScore, Taken, loadings, score_variates, variates
from linspec.solution import Solution


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
        Column means, if the problem centres.
    x_scale, y_scale : array or None
        What columns were divided by, if the problem scales. The weights multiply columns that are not divided.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    x_slopes, y_slopes : array of shape (c, p), (c, q), or None
        The slopes of the columns in the confounds, which are taken out of rows.
    residuals : numpy.ndarray of shape (k,)
        For each pair ‖ϱ‖² in the norm of S⁻¹, with the residual ϱ of its equations. `residual` is their sum
        over the sum of the correlations. `residual_kind` tells how the norm was computed. "exact": by a
        factor of S. "quadrature": by conjugate gradients on a held sparse S, to the first digit and from
        below. "preconditioned": by a preconditioner of S, within a factor of about two.
    bounds : numpy.ndarray of shape (k,) or None
        For each correlation a distance within which there is an exact correlation; None if there is no bound
        (ridge 0 with a norm that is not exact).
    law_bounds : (float, float)
        Lower and upper bound of the residual by the exact law. The upper bound is infinite if there is none.
        They are for information, and do not change the status.
    loss_estimate : float or None
        The estimated fraction of the exact sum of the leading correlations that is missing: ‖ϱᵢ‖²/2gᵢ for
        each pair over the sum, with the gap gᵢ to the correlations that were left out. None if these are not
        known.
    loss_bounds : (float, float or None)
        Bounds on that fraction. The lower bound is the gain from a second block in addition to the answer; it
        is negative by the rounding that a correlation may have. There is an upper bound only if it is proved
        that no pair was missed: by "gram" and "direct", for views with few columns, and with the option
        complete=True.
    ranks : tuple of int or None
        Numerical ranks of the two views, if the solver determines them.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("x_weights", "y_weights", "x_mean", "y_mean")
    value_field: ClassVar[str] = "correlations"
    value_label: ClassVar[str] = "canonical correlation"
    ceiling: ClassVar[float | None] = 1.0

    x_weights: Array
    y_weights: Array
    correlations: HostArray
    residuals: HostArray
    x_mean: Array | None = None
    y_mean: Array | None = None
    x_scale: Array | None = None
    y_scale: Array | None = None
    confound_mean: HostArray | None = None
    x_slopes: Array | None = None
    y_slopes: Array | None = None
    bounds: HostArray | None = None
    law_bounds: tuple[float, float] = (0.0, float("inf"))
    loss_estimate: float | None = None
    loss_bounds: tuple[float, float | None] = (0.0, None)
    ranks: tuple[int, int] | None = None

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        return f"{len(self.correlations)} correlations, sum {total:.6f}"

    def transform(self, X: Any = None, Y: Any = None, *, confounds: Any = None) -> Any:
        """Canonical variates of rows: X minus the training means, times the weights.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Any kind of data that `linspec.as_operator` takes.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds: their effect, as learnt from the training rows, is
            subtracted.

        Returns
        -------
        array of shape (n, k), or a pair of them when both are given
        """
        given = [
            variates(data, weights, mean, name, Taken(mean, slopes, self.confound_mean), confounds)
            for data, weights, mean, slopes, name in (
                (X, self.x_weights, self.x_mean, self.x_slopes, "X"),
                (Y, self.y_weights, self.y_mean, self.y_slopes, "Y"),
            )
            if data is not None
        ]
        if not given:
            raise InvalidProblem("transform needs X, Y or both; got neither.")
        return given[0] if len(given) == 1 else tuple(given)

    def score(self, X: Any, Y: Any, *, confounds: Any = None) -> CCAScore:
        """The correlations that the weights capture on rows, usually on new rows.

        They are the correlations of the variates, about the training means and without the ridge of the
        problem. `linspec.metrics.tcc` computes the same total with a ridge, or for other weights.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            Matching rows, as anything that `linspec.as_operator` takes, including row slices. Each view is
            read once; sparse rows stay sparse.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds: their effect, as learnt from the training rows, is
            subtracted.

        Returns
        -------
        CCAScore
            ``correlations`` of shape (k,), one for each pair; ``total``, that of the best rotation; and
            ``rows``. It unpacks: ``correlations, total = solution.score(X, Y)``.

        Raises
        ------
        InvalidProblem
            The number of columns differs from the training data, there are no rows, or X and Y have different
            numbers of rows.
        NonFiniteData
            The variates have NaN or infinity.
        UnsupportedData
            X and Y have different libraries or devices.

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
        P, Q = self.transform(X, Y, confounds=confounds)
        return score_variates(P, Q, centered=self.x_mean is not None)

    def loadings(self, X: Any = None, Y: Any = None, *, confounds: Any = None) -> Any:
        """Structure correlations: of each column of a view with each of its variates.

        Weights tell how a variate is computed. If columns are similar, their weights may have any sign and
        size. Loadings tell how the variate is related to the columns.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            The training rows or other rows, of one view or of both. If the problem centres, the means are
            those of these rows. Slices are read twice.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds: their effect in these rows is subtracted.

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
        for data, slopes in ((X, self.x_slopes), (Y, self.y_slopes)):
            if data is not None:
                Taken(slopes=slopes).confounds_beside(confounds, math.inf)
        found = [
            loadings(data, weights, name, center=center, confounds=confounds)
            for data, weights, name in ((X, self.x_weights, "X"), (Y, self.y_weights, "Y"))
            if data is not None
        ]
        if not found:
            raise InvalidProblem("loadings need X, Y or both; got neither.")
        return found[0] if len(found) == 1 else tuple(found)

    def supported(self, level: Any = 0.0) -> int:
        """The number of leading pairs whose correlations are certified to be above a level.

        A pair counts if its correlation minus its error is above the level, and if all pairs before it count.
        The error is in `bounds`, the largest distance to the nearest exact correlation. If there are no
        bounds (ridge 0), it is the estimate √(`residuals` / 2) of this distance.

        Parameters
        ----------
        level : float, default 0.0
            The level to compare with, such as the largest correlation by chance
            (`linspec.null_correlations`).

        Returns
        -------
        int
            Between 0 and k.

        Raises
        ------
        InvalidProblem
            The level is not a number.

        Notes
        -----
        The count tells which pairs are accurate enough to be above the level, and not which pairs would be
        found in other rows: use `score` and `linspec.permutation_test` for that. All solvers of linspec
        rotate their answer within its spans, so a returned correlation is never above the exact one of the
        same rank. So at least this many exact correlations are above the level, too.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or np.isnan(level):
            raise InvalidProblem(f"level must be a number; got {level!r}.")
        errors = np.sqrt(self.residuals / 2) if self.bounds is None else self.bounds
        above = self.correlations - errors > level
        return int(np.cumprod(above).sum())
