"""What an answer has: canonical pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.errors import InvalidProblem
from linspec.families.cca.variates import CCAScore, loadings, score_variates, variates
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
