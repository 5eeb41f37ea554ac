"""Least squares and ridge regression: the problem, its certificate and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import Array, Device, HostArray, host_dtype, namespace, to_host, with_device
from linspec.certificates import LinearCertificate, certify_linear
from linspec.errors import BrokenPlugin
from linspec.iteration import Certificate
from linspec.rows import Moments
from linspec.solving import NewRows, RidgesSolution, WithRidges


@dataclass(frozen=True, kw_only=True, repr=False)
class LeastSquaresSolution(
    RidgesSolution, vector="x", component="solution", score="R²", residual="relative gradient"
):
    """Coefficients of a least-squares problem.

    Attributes
    ----------
    x : array of shape (p, m), or (p,) for one-dimensional B
        Coefficients, in the library and dtype and on the device of A. For r ridges the shape is (r, p, m) or
        (r, p).
    a_mean, b_mean : array of shape (p,), (m,), or None
        The column means of A and B, if the problem centres.
    a_scale : array of shape (p,) or None
        The numbers that the columns of A were divided by, if the problem scales. The coefficients belong to the
        undivided columns.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    a_slopes, b_slopes : array of shape (c, p), (c, m), or None
        The slopes of the columns in the confounds.
    residuals : numpy.ndarray of shape (r,)
        The residual of each ridge's solution; `residual` is the largest.
    path : bool
        Whether the first axis of `x` counts the ridges of a path, which are in `ridge`. Then `weights_table` has a
        column for each right-hand side and ridge: "x1, ridge 0.1".

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> solution = ls.solve(ls.LeastSquares(A, A @ np.ones(10)))
    >>> solution.x.round(6)
    array([1., 1., 1., 1., 1., 1., 1., 1., 1., 1.])
    >>> solution.predict(np.ones((1, 10))).round(6)
    array([10.])
    """

    x: Array = ls.field(rows_of="A", leading=True, shape="any")
    residuals: HostArray = ls.field(shape="r")
    a_mean: Array | None = ls.field(None, mean_of="A", shape="A")
    b_mean: Array | None = ls.field(None, mean_of="B", shape="m")
    a_scale: Array | None = None
    confound_mean: HostArray | None = None
    a_slopes: Array | None = None
    b_slopes: Array | None = ls.field(None, shape="confounds m")

    targets: ClassVar[str] = "B"

    def first_coefficients(self, count: int) -> HostArray:
        return to_host(self._as_block(self.x))[:, :count]

    def _named_vectors(self, matrix: str) -> dict[str, HostArray]:
        """The coefficients by the name of the right-hand side, and for a path also by the ridge."""
        return self._by_name(to_host(self.x), self.layout.vector)

    @property
    @with_device
    def intercept(self) -> Array | None:
        """The intercept b̄ − āᵀx, of shape (m,), or () for one-dimensional B; None without centring.

        For r ridges the shape is (r, m) or (r,). Predictions are A x plus the intercept. With confounds Z they are
        A x + (Z − z̄)γ plus the intercept, for the means z̄ of the confounds and γ = `confound_coefficients`.
        """
        return self._rest(self.b_mean, self.a_mean)

    @property
    @with_device
    def confound_coefficients(self) -> Array | None:
        """The coefficients of the confounds, shape (c, m), or (c,) for one-dimensional B; None if there are none.

        For r ridges the shape is (r, c, m) or (r, c).
        """
        if self.a_slopes is None or self.b_slopes is None:
            return None
        xp = namespace(self.x)
        rows = zip(xp.unstack(self.b_slopes), xp.unstack(self.a_slopes), strict=True)
        return xp.stack([self._rest(b, a) for b, a in rows], axis=1 if self.path else 0)

    def _rest(self, b: Array | None, a: Array | None) -> Array | None:
        """Compute b − aᵀx for every right-hand side, and for every ridge of a path; None if a or b is None.

        The vector a has a number for each column of A, and the vector b has a number for each column of B.
        """
        if a is None or b is None:
            return None
        device, xp = Device.of(self.x), namespace(self.x)
        blocks = device.blocks
        x = blocks.asarray(self.x)
        if self.path:
            x = blocks.xp.moveaxis(x, 1, 0)
        flat = blocks.xp.reshape(x, (x.shape[0], -1))
        rest = blocks.xp.reshape(blocks.asarray(a) @ flat, tuple(x.shape[1:]))
        vector = rest.ndim == int(self.path)
        rest = (blocks.asarray(b)[0] if vector else blocks.asarray(b)) - rest
        return device.asarray(xp.asarray(rest) if device.on_host else rest, host_dtype(self.x))

    @with_device
    def predict(self, A: Any, *, confounds: Any = None) -> Array:
        """Compute A x, plus the intercept if there is one: the predicted right-hand sides of these rows.

        Parameters
        ----------
        A : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts; sparse rows stay sparse.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is part of the prediction.

        Returns
        -------
        array of shape (n, m), or (n,) for one-dimensional B
            In the library, on the device and in the working dtype of the rows. For r ridges the shape is (r, n, m)
            or (r, n). If the rows are blocks that other processes may hold (`linspec.workers`), the predictions
            stay where the blocks are: they are a dask array for dask data, otherwise an operator of shape (n, m). For
            r ridges the predictions are always an array of this process.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns, or the confounds, of the training data.

        Notes
        -----
        The rows are read once, for all right-hand sides and ridges. With an intercept the training means are subtracted
        from the rows before the product, so large means cost no digits.
        """
        xp = namespace(self.x)
        copies = self.x.shape[0] if self.path else 1
        offset = None if self.b_mean is None else xp.concat([self.b_mean] * copies)
        slopes = None if self.b_slopes is None else xp.concat([self.b_slopes] * copies, axis=1)
        columns = self._as_block(self.x)
        predictions = NewRows.of(self, "A").images(A, columns, "A", confounds, offset=offset, slopes=slopes)
        return self._as_targets(predictions)


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

    A: Any = ls.matrix("data")
    B: Any = ls.matrix("right-hand sides", like="A", vector=True)
    ridge: Any = ls.ridge(
        path=True, help="Added to the diagonal of AᵀA, which is not divided by the number of rows."
    )
    center: bool = ls.flag(
        False, "Fit an intercept, which no ridge shrinks; sparse data stay sparse.", in_commands=True
    )
    scale: bool = ls.flag(False, kw_only=True)
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

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Certify coefficients `x`, and make the solution's fields.

        `planted` is what is left of planted columns, and `rank` the rank that a solver has decided on.
        """
        A = moments.operators[0]
        device = moments.device
        x = arrays.get("x")
        if x is None or tuple(x.shape) != (A.shape[1], self.width):
            raise BrokenPlugin(
                f"a least-squares solver must find x of shape {(A.shape[1], self.width)}, a column for each "
                f"right-hand side and ridge; got {', '.join(arrays) if x is None else tuple(x.shape)}."
            )
        x = device.asarray(x)
        if moments.scales(0):
            moments.fit()
            x = moments.fitted[0].scaled(x)
        returned = self.A.device.asarray(x, self.A.dtype)
        x = device.asarray(returned)  # what is judged is what is returned
        if moments.scales(0):
            x = moments.fitted[0].unscaled(x)
        fields: dict[str, Any] = {"x": self.shaped(returned), "path": self.path}
        if not moments.answers:
            fields["residuals"] = np.full(len(self.ridges), np.nan)
            return Certificate(np.nan, (), fields, "unavailable")
        rounding = max(A.rounding, float(np.finfo(self.A.dtype).eps))
        certificate = certify_linear(
            moments, x, self.ridges, tol=tol, rounding=rounding, planted=arrays.get("planted")
        )
        decided = arrays.get("rank") if 0 in self.ridges else None
        rank = certificate.rank if decided is None else min(certificate.rank, int(decided))
        fields |= {"residuals": certificate.residuals, "accuracy": certificate.words}
        errors = certificate.lengths**2
        fields["target_errors"] = errors.reshape(len(self.ridges), -1) if self.path else errors
        notes = self._findings(certificate, rank, tol)
        return Certificate(certificate.residual, notes, fields, certificate.source, least=certificate.least)

    def _findings(
        self, certificate: LinearCertificate, rank: int, tol: float
    ) -> tuple[tuple[ls.Status | None, str], ...]:
        """What the certificate says of ranks and of coefficients."""
        notes: list[tuple[ls.Status | None, str]] = []
        if rank < min(self.A.shape):
            text = f"A has numerical rank {rank} of {self.A.shape[1]} columns: x is the least-norm solution."
            notes.append((ls.Status.RANK_DEFICIENT, text))
        if certificate.status == "ILL_CONDITIONED":
            more = DETERMINED if certificate.rounded else REMEDY
            text = f"The coefficients may be off by {min(certificate.coefficients, 1.0):.0%} of their length. {more}"
            notes.append((ls.Status.ILL_CONDITIONED, text))
        if np.isnan(certificate.coefficients):
            notes.append((None, UNKNOWN))
        if certificate.least > tol >= 0:
            notes.append((None, LEAST))
        return tuple(notes)
