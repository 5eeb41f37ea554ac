"""Least squares and ridge regression: the problem and its law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.algebra.small_matrices import ratio
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.errors import BrokenPlugin
from linspec.families.least_squares.solution import LeastSquaresSolution
from linspec.families.least_squares.uncertainty import rounding_of_gradients, uncertain
from linspec.moments.moments import Moments
from linspec.solving import fields
from linspec.solving.adjusting import in_given_columns
from linspec.solving.along_ridges import WithRidges
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms
from linspec.solving.fields import flag, matrix
from linspec.status import Status

NEGLECTED = 1e-2
"""A column of A is reported if changing its coefficient alone would lower ‖A x − b‖² + ridge ‖x‖² by more than
NEGLECTED² ‖b‖².

Such a column is much shorter than other columns: the residual does not show the error of its coefficient."""

LEAST = "Rounding of the data allows no smaller tolerance than this one."


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquares(WithRidges[LeastSquaresSolution]):
    """min ‖A x − B‖²_F + ridge ‖x‖²_F.

    Parameters
    ----------
    A : data of shape (n, p)
        Anything that `linspec.as_operator` accepts. The solution has its dtype and precision.
    B : data of shape (n, m), or an array, a series or a list of shape (n,)
        Right-hand sides. If their dtype is narrower, they are multiplied in the dtype of A.
    ridge : float or sequence of floats, default 0.0
        The ridge, which is added to the unnormalised AᵀA. If several x are optimal (ridge 0), the x of least norm
        is returned. A sequence gives a path: one solution for each ridge, in one run.
    center : bool, default False
        Whether to fit an intercept, which the ridge does not penalise. A and B are centred; sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column of A by its root mean square after means and confounds are subtracted; with
        `center` this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of A and of B, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: max over right-hand sides and ridges of ‖Aᵀ(b − Ax) − ridge x‖ / ‖Aᵀb‖.

    For a solver, a path of r ridges only gives x more columns, r m for m right-hand sides. The first m columns are the
    coefficients for the first ridge, the next m columns those for the second ridge, and so on. `column_ridges` holds
    the ridge of each column, and `run.finish` expects an x with all these columns.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((1000, 20)) * np.geomspace(5, 1, 20)
    >>> B = A[:, :2] + 0.1 * rng.standard_normal((1000, 2))
    >>> problem = ls.LeastSquares(A, B, ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> bool(np.allclose(solution.x[:2], np.eye(2), atol=0.01))
    True
    >>> solution.predict(A[:3]).shape
    (3, 2)
    """

    A: Any = matrix("data")
    B: Any = matrix("right-hand sides", like="A", vector=True)
    ridge: Any = fields.ridge(
        path=True, help="Added to the diagonal of AᵀA, which is not divided by the number of rows."
    )
    center: bool = flag(
        False, "Fit an intercept, which no ridge shrinks; sparse data stay sparse.", in_commands=True
    )
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "least-squares"
    tolerance: ClassVar[float] = 1e-8
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "mse": "linspec.families.least_squares.held_out:SquaredErrors",
            "r2": "linspec.families.least_squares.held_out:Explained",
        }
    )

    def start(self, given: Any) -> dict[str, Array]:
        """Check the coefficients of an earlier solution; return a column for each right-hand side and ridge.

        The coefficients of one ridge serve for every ridge of a path.
        """
        return self.columns_of_start(given, "x", self.A.shape[1], "columns and right-hand sides")

    def conclude(  # type: ignore[override]  # each law names the arrays that it takes
        self,
        moments: Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        x: Array,
        rank: int | None = None,
    ) -> Conclusion:
        """Compute the residual of the normal equations, column by column, and the fields of the solution.

        Parameters
        ----------
        moments : Moments
        terms : Terms
        x : array of shape (p, w)
        rank : int, optional
            The numerical rank of A, from a solver that has decomposed A itself, or AAᵀ, and not AᵀA. A gradient
            AᵀB − (AᵀA + ridge) x is then accepted if it is no larger than rounding leaves in the gradient of a backward
            stable solution.

        Returns
        -------
        Conclusion
            The fields of the solution, its residual, and messages about coefficients that may be wrong.
        """
        if x.shape[1] != self.width:
            raise BrokenPlugin(
                f"a least-squares solver must find x of shape {(self.A.shape[1], self.width)}, a column for each "
                f"right-hand side and ridge; got {tuple(x.shape)}."
            )
        home = moments.home
        returned = self.A.home.place(x, self.A.dtype)
        x = home.place(returned)
        products = moments.products(x, cross=True)
        if moments.held and terms.passes_left >= 1 and _squared_away(moments, x, products.cross) > terms.tol:
            products = moments.from_rows().products(x, cross=True)
        AtAx, AtB = products[0], products.cross
        gap = home.concat([AtB] * len(self.ridges)) - AtAx - x * home.place(self.column_ridges)[None, :]
        gaps, scales = home.column_norms(gap), home.column_norms(AtB)
        ratios = [ratio(a, b) for a, b in zip(gaps, np.tile(scales, len(self.ridges)), strict=True)]
        residuals = np.max(np.reshape(ratios, (len(self.ridges), -1)), axis=1, initial=0.0)
        findings: tuple[tuple[Status | None, str], ...] = ()
        if rank is not None and rank < min(self.A.shape) and 0 in self.ridges:
            text = f"A has numerical rank {rank} of {self.A.shape[1]} columns: x is the least-norm solution."
            findings = ((Status.RANK_DEFICIENT, text),)
        small = [value <= NEGLECTED**2 for value in ratios]
        if any(small):
            findings += self._neglected(gap, np.asarray(small), moments)
        rounding = rounding_of_gradients(moments, x)
        within, rounded = np.asarray(ratios) <= terms.tol, gaps <= rounding
        if not findings:
            # Factors of A or of AAᵀ leave the gradient of a backward stable solution.
            judged = within & ~rounded if rank is not None else within | rounded
            findings = uncertain(moments, gap, x, self.column_ridges, judged, terms)
        least = 0.0
        if (within | rounded).all() and not within.all():
            least = max(ratio(a, b) for a, b in zip(rounding, np.tile(scales, len(self.ridges)), strict=True))
            findings += ((None, LEAST),)
        own = {"residuals": residuals, "path": self.path}
        made = self.concluded(moments, float(residuals.max()), findings=findings, x=returned, **own)
        return replace(made, fields={**made.fields, "x": self.shaped(returned)}, least=least)

    def _neglected(self, gap: Array, small: HostArray, moments: Moments) -> tuple[tuple[Status, str], ...]:
        """Return a finding if changing the coefficient of one column of A would lower the sum of squares noticeably.

        `gap` holds the residuals g = Aᵀb − (AᵀA + ridge) x of the normal equations. The best change of xⱼ alone lowers
        the sum of squares by gⱼ²/(‖aⱼ‖² + ridge). If ‖aⱼ‖ is small, this may be much although gⱼ is small beside ‖g‖.
        `small` marks the columns of x whose ‖g‖ is small, and only these columns are checked.
        """
        diagonals = moments.columns.known_diagonals()
        if diagonals is None:
            return ()
        home, (d, squares) = moments.home, diagonals
        with np.errstate(all="ignore"):
            falls = gap * reciprocal(d[:, None] + home.place(self.column_ridges)[None, :]) * gap
            worst = to_host(home.xp.max(falls, axis=0))
        noticed = small & (worst > NEGLECTED**2 * np.tile(to_host(squares), len(self.ridges)))
        if not noticed.any():
            return ()
        first = int(to_host(home.xp.argmax(falls[:, int(np.argmax(noticed))])))
        text = f"Column {first} of A is so much smaller than the others that the residual does not show its error: a "
        text += (
            "step along this column reduces the sum of squares noticeably. Scale the columns, lower tol, or "
        )
        return ((Status.ILL_CONDITIONED, text + 'choose "direct".'),)

    def as_given(self, arrays: Mapping[str, Any], *, returned: bool = True) -> dict[str, Any]:
        """Convert the arrays of a solution or of an iterate from the scaled columns of A to the columns of the data.

        `returned` states whether x has the shape of a returned solution, with one axis for the ridges of a path.
        """
        found = super().as_given({name: value for name, value in arrays.items() if name != "x"})
        return found | in_given_columns(self, {"x": arrays["x"]}, axis=1 if self.path and returned else 0)


def _squared_away(moments: Moments, x: Array, AtB: Array) -> float:
    """Relative rounding of the gradient by what means and confounds have left of the held AᵀA."""
    lost, home = moments.columns.centring_error(0), moments.home
    squares = float(to_host(home.xp.sum(moments.columns.squares())))
    size, scale = float(home.column_norms(x).max(initial=0.0)), float(home.column_norms(AtB).max(initial=0.0))
    return ratio(lost * squares * size, scale)
