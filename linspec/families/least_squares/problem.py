"""Least squares and ridge regression: the problem and its law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array
from linspec.certificates import LinearCertificate, certify_linear
from linspec.errors import BrokenPlugin
from linspec.families.least_squares.solution import LeastSquaresSolution
from linspec.iteration import Certificate
from linspec.rows import Moments
from linspec.solving import fields
from linspec.solving.along_ridges import WithRidges
from linspec.solving.fields import flag, matrix
from linspec.status import Status

LEAST = "Rounding of the data allows no smaller tolerance than this one."

UNKNOWN = 'How many digits the data determine is not known of so many columns: "cg" and "lsqr" tell.'

REMEDY = 'Lower tol, add a ridge, or choose "direct" or "sketch-precondition".'

DETERMINED = "The data do not determine more: no solver gives more digits."


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
    the ridge of each column, and an iterate has an x with all these columns.

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

    def for_preprocessed(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        if moments.pre.scale:
            moments.settle(0)
            return {
                **arrays,
                "x": moments.fitted[0].unscaled(moments.operators[0].backend.blocks.place(arrays["x"])),
            }
        return arrays

    def for_data(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        x = arrays["x"]
        return {"x": moments.fitted[0].scaled(x) if moments.fitted else x}

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge coefficients `x`, and make the solution's fields.

        `planted` is what is left of planted columns, and `rank` the rank that a solver has decided on.
        """
        A, place, x = moments.operators[0], moments.operators[0].backend.blocks, arrays.get("x")
        if x is None or tuple(x.shape) != (A.shape[1], self.width):
            raise BrokenPlugin(
                f"a least-squares solver must find x of shape {(A.shape[1], self.width)}, a column for each "
                f"right-hand side and ridge; got {', '.join(arrays) if x is None else tuple(x.shape)}."
            )
        x = place.place(x)
        if moments.scales(0):
            moments.settle()
            x = moments.fitted[0].scaled(x)
        returned = self.A.home.place(x, self.A.dtype)
        x = place.place(returned)  # what is judged is what is returned
        if moments.scales(0):
            x = moments.fitted[0].unscaled(x)
        own: dict[str, Any] = {"x": self.shaped(returned), "path": self.path}
        if not moments.answers:
            own["residuals"] = np.full(len(self.ridges), np.nan)
            return Certificate(np.nan, (), own, "unavailable")
        rounding = max(A.rounding, float(np.finfo(self.A.dtype).eps))
        judged = certify_linear(
            moments, x, self.ridges, tol=tol, rounding=rounding, planted=arrays.get("planted")
        )
        decided = arrays.get("rank") if 0 in self.ridges else None
        rank = judged.rank if decided is None else min(judged.rank, int(decided))
        own |= {"residuals": judged.residuals, "accuracy": judged.words}
        findings = self._findings(judged, rank, tol)
        return Certificate(judged.residual, findings, own, judged.source, least=judged.least)

    def _findings(
        self, judged: LinearCertificate, rank: int, tol: float
    ) -> tuple[tuple[Status | None, str], ...]:
        """What the certificate says of ranks and of coefficients."""
        findings: list[tuple[Status | None, str]] = []
        if rank < min(self.A.shape):
            text = f"A has numerical rank {rank} of {self.A.shape[1]} columns: x is the least-norm solution."
            findings.append((Status.RANK_DEFICIENT, text))
        if judged.status == "ILL_CONDITIONED":
            more = DETERMINED if judged.rounded else REMEDY
            text = (
                f"The coefficients may be off by {min(judged.coefficients, 1.0):.0%} of their length. {more}"
            )
            findings.append((Status.ILL_CONDITIONED, text))
        if np.isnan(judged.coefficients):
            findings.append((None, UNKNOWN))
        if judged.least > tol >= 0:
            findings.append((None, LEAST))
        return tuple(findings)
