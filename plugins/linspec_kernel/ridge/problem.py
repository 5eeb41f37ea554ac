"""Kernel ridge regression: the problem and its certificate.

Problem: min Σ wᵢ (yᵢ − f(xᵢ) − c)² + r ‖f‖² over functions f in the space of a kernel and, with `center`, constants c.
Method: f = Σ aⱼ k(·, xⱼ). With S = diag(√w), M = H S K S H and T = H S Y, where H is orthogonal to √w with `center` and
else the identity, the coefficients are a = S b for the solution of (M + r I) b = T. The certificate judges the returned
a by ρ = T − (M + r I) b, computed afresh. It says more than an error of b would:

    error of the weighted fitted values   ‖M (M + r)⁻¹ ρ‖            ≤  ‖ρ‖,
    error of f in the space of the kernel (ρᵀ(M + r)⁻¹M(M + r)⁻¹ρ)^½  ≤  ‖ρ‖ / (2√r),

since x/(x + r) ≤ 1 and x/(x + r)² ≤ 1/(4r). The second one bounds the error of a prediction at any point.
Source: Saunders, Gammerman & Vovk 1998, ICML, Ridge regression learning algorithm in dual variables; Suykens &
Vandewalle 1999, Neural Process. Lett. 9, doi:10.1023/A:1018628609742, for the constant.
Where we differ: their bias is an unknown of a larger, indefinite system. Here H removes it, so the matrix stays
positive definite; a row of weight 0 has the coefficient 0, and no weight is a divisor in the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

import linspec as ls
from linspec import KernelOperator, Status
from linspec.arrays import HOST, Array, HostArray, reciprocal, to_host, with_device
from linspec.features import FeatureMap
from linspec.iteration import Certificate
from linspec.kernels import Kernel, Points
from linspec.linalg import squares_about_means
from linspec.rows import Passes, check_products
from linspec.solving import RidgesSolution, WithRidges, check_columns
from linspec_kernel.moments import Fitted, KernelMoments
from linspec_kernel.problem import OfKernels

UNSURE = 1e-2
"""A finding is reported if predictions at rows like the training rows may be wrong by more than this share of the root
mean square of a target."""

FAR = (
    "Predictions at other rows may be wrong by {reach:.0e} of the root mean square of a target, although the fitted "
    "values are right. Raise the ridge, or lower tol."
)

CONSTANT = 16.0
"""A centred target is zero if it is shorter than this multiple of the rounding of the uncentred one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelRidgeSolution(
    RidgesSolution,
    vector="target",
    component="ridge",
    score="R²",
    residual="relative",
    saved_types=(Fitted, FeatureMap, Points, Kernel),
):
    """Functions f = Σ aⱼ k(·, xⱼ) + c, one for each target.

    Attributes
    ----------
    dual : array of shape (n, m), or (n,) if Y was a vector
        The coefficients aⱼ of the kernel functions of the training rows. For r ridges the shape is (r, n, m) or (r, n).
    intercept : numpy.ndarray of shape (m,), or () if Y was a vector; None
        The constants c if the problem centres, else None. For r ridges the shape is (r, m) or (r,).
    kernel_map : Fitted
        The map from rows to the values of the kernel with all training rows; `kernel` is its kernel.
    residuals : numpy.ndarray of shape (r,)
        The largest residual of a target, for each ridge; `residual` is the largest of them.
    bounds : numpy.ndarray of the shape of `intercept`
        Upper bounds of ‖f − f*‖ in the space of the kernel, where f* is the exact function without its constant. By the
        Cauchy-Schwarz inequality a prediction at any x is wrong by at most this number times √k(x, x); if the problem
        centres, times √k(x, x) plus the largest √k(xᵢ, xᵢ) of a training row.
    path : bool
        Whether the first axis of `dual` counts the ridges of a path, which are in `ridge`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> solution = ls.solve(ls.KernelRidge(x, np.sin(x[:, 0]), ridge=[1e-3, 1.0]))
    >>> solution.dual.shape, solution.predict(x[:4]).shape
    ((2, 60), (2, 4))
    >>> first, second = solution.along_path()
    >>> bool(first.score(x, np.sin(x)) > second.score(x, np.sin(x)) > 0.9)
    True
    """

    dual: Array = ls.field(leading=True, shape="any")
    residuals: HostArray = ls.field(shape="r")
    bounds: HostArray = ls.field(shape="any")
    kernel_map: Fitted
    intercept: HostArray | None = None

    targets: ClassVar[str] = "Y"
    per_ridge: ClassVar[tuple[str, ...]] = ("intercept", "bounds")

    def facts(self) -> list[tuple[str, str]]:
        """The kernel with all its numbers, and the bound of the errors."""
        return [
            *super().facts(),
            ("kernel", str(self.kernel)),
            ("error of a function, at most", f"{float(np.max(self.bounds)):.2g}"),
        ]

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:
        """Return True: the coefficients belong to training rows, whose names are kept."""
        return True

    @property
    def kernel(self) -> Kernel:
        """The kernel with all its numbers, including a scale chosen from the data."""
        return self.kernel_map.kernel

    @with_device
    def predict(self, X: Any) -> Array:
        """Predict the targets of rows: the functions at these rows, whose kernel values are formed slice by slice.

        Parameters
        ----------
        X : data of shape (n, p)
            Anything with rows that `linspec.as_operator` takes. If the kernel is precomputed, pass its values between
            these rows and the training rows.

        Returns
        -------
        array of shape (n, m), or (n,) if Y was a vector
            In the library and working dtype of the rows. For r ridges the shape is (r, n, m) or (r, n).

        Raises
        ------
        InvalidProblem
            The rows do not have the columns of the training data.
        """
        check_columns(self, "X", X)
        A = self.kernel_map.map(X, "X")
        values = A.matmat(A.device.blocks.asarray(to_host(self._as_block(self.dual))))
        if self.intercept is not None:
            values = values + A.device.asarray(self.intercept.reshape(1, -1), A.dtype)
        return self._as_targets(values)


@dataclass(frozen=True, eq=False, repr=False)
class KernelRidge(OfKernels[KernelRidgeSolution], WithRidges[KernelRidgeSolution]):
    """Ridge regression of Y on a function of X in the space of a kernel: min ‖Y − f(X)‖² + ridge ‖f‖².

    This is `linspec.LeastSquares` of Y on the features of the kernel. With the linear kernel it has the same
    predictions.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` takes and whose entries can be read; it is held. With a precomputed kernel
        the n x n values of the kernel.
    Y : data of shape (n, m), or an array, a series or a list of shape (n,)
        Targets.
    ridge : float or sequence of floats
        Above 0. Added to the diagonal of the kernel matrix, which is not divided by the number of rows. A sequence
        gives a path: one function for each ridge and target, in one run. If k(x, x) = 1, try 1e-4 n first.
    kernel : Kernel, str or callable, default "rbf"
        A kernel of `linspec.kernels`, its name, or a function of two blocks of rows.
    center : bool, default False
        Whether to fit a constant, which the ridge does not shrink: features and targets are centred. scikit-learn's
        KernelRidge has none.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out.

    Notes
    -----
    Residual: the largest ‖t − (M + ridge I) b‖ / ‖t‖ over targets and ridges. M is the kernel matrix, t the target and
    b its coefficients; with weights the rows of all three are multiplied by their roots, and with `center` M and t are
    centred. The fitted values are then wrong by at most this share of ‖t‖, whatever the ridge. The error of f at other
    points is bounded by `KernelRidgeSolution.bounds`, which grow as the ridge falls.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> problem = ls.KernelRidge(x, y, ridge=0.1, kernel=ls.kernels.rbf(1.0))
    >>> solution = ls.solve(problem)
    >>> bool(np.abs(solution.predict(x) - np.sin(x[:, 0])).max() < 0.1)
    True
    """

    X: Any = ls.matrix("data", once=False)
    Y: Any = ls.matrix("targets", like="X", vector=True, once=False)
    ridge: Any = ls.ridge(
        of=("X",),
        path=True,
        positive="At 0, functions of a kernel of full rank take any values at the rows. Begin with 1e-4 times the "
        "number of rows, for kernels with k(x, x) = 1.",
        help="Above 0; added to the diagonal of the kernel matrix. Begin with 1e-4 times the rows.",
    )
    kernel: Any = ls.setting("rbf", str, help="The kernel: rbf, 'rbf(scale=2)', 'polynomial(degree=3)', ...")
    center: bool = ls.flag(False, "Fit a constant, which no ridge shrinks.")
    sample_weight: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "kernel-ridge"
    tolerance: ClassVar[float] = 1e-8
    kernel_fields: ClassVar[Mapping[str, str]] = {"X": "kernel"}

    def moments_of_its_own(self, passes: Passes) -> KernelSystem:
        """Return the kernel matrix and the targets of the system."""
        return KernelSystem(self, passes)

    def start(self, given: Any) -> dict[str, Array]:
        """Check the coefficients of an earlier answer; return a column for each target and ridge."""
        return self.columns_of_start(given, "dual", int(self.X.shape[0]), "rows and targets")

    def for_preprocessed(self, moments: KernelSystem, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert coefficients of rows to solutions for targets of length 1."""
        lengths = np.tile(reciprocal(moments.targets.lengths), len(self.ridges))
        b = moments.unweighted(moments.device.asarray(arrays["dual"])) * moments.device.asarray(lengths)
        return {"dual": moments.op.centred(b)[0]}

    def certify(self, moments: KernelSystem, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Compute the residual of each target and ridge from a product of its own, the constants and the bounds.

        The array `dual` has the solutions b for targets of length 1, a column for each target and ridge.
        """
        moments.fit(None, arrays)
        op, device, dual = moments.op, moments.device, arrays["dual"]
        targets, count = moments.targets, len(self.ridges)
        lengths, ridges = np.tile(targets.lengths, count), self.column_ridges
        dual = op.centred(device.asarray(dual))[0]
        returned = self.X.device.asarray(op.weighted(dual) * device.asarray(lengths), self.X.dtype)
        # The residual is that of the returned coefficients, which may have fewer digits.
        b = moments.unweighted(device.asarray(returned)) * device.asarray(reciprocal(lengths))
        Mb, means = op.product(b)
        gap = device.concat([targets.unit] * count) - Mb - b * device.asarray(ridges)
        gaps = device.column_norms(gap)
        errors = (device.column_norms(gap + b * device.asarray(ridges)) * lengths) ** 2
        residuals = np.max(np.reshape(gaps, (count, -1)), axis=1, initial=0.0)
        bounds = gaps * lengths / (2 * np.sqrt(ridges))
        fields: dict[str, Any] = {
            "dual": self.shaped(returned),
            "residuals": residuals,
            "bounds": self._shaped_numbers(bounds),
            "path": self.path,
            "size": (moments.count, self.X.shape[1]),
            "target_squares": targets.squares,
            "target_errors": errors.reshape(count, -1) if self.path else errors,
            "kernel_map": Fitted(op.map(), op.kernel),
        }
        if self.center:
            constants = np.tile(targets.means, count) - means * lengths
            fields["intercept"] = self._shaped_numbers(constants)
        farthest = moments.largest * (1 + self.center) * np.sqrt(moments.count)
        reach = float(np.max(gaps / np.sqrt(ridges), initial=0.0)) / 2 * farthest
        residual = float(residuals.max())
        far = residual <= tol and reach > UNSURE
        notes = ((Status.ILL_CONDITIONED, FAR.format(reach=reach)),) if far else ()
        return Certificate(residual, notes, fields)

    def _shaped_numbers(self, values: HostArray) -> HostArray:
        values = values.reshape((len(self.ridges), -1) if self.path else -1)
        return np.asarray(values[..., 0] if self.vector else values)


class Targets(NamedTuple):
    """The right-hand sides of the system.

    Attributes
    ----------
    unit : array of shape (n, m)
        H S Y with columns of length 1; zero columns where a centred target is only rounding.
    lengths : numpy.ndarray of shape (m,)
        The lengths of the columns of H S Y.
    means : numpy.ndarray of shape (m,)
        The means of the targets that centring subtracts; zeros without centring.
    squares : numpy.ndarray of shape (m,)
        The sums of squares of the targets about their means.
    """

    unit: Array
    lengths: HostArray
    means: HostArray
    squares: HostArray


class KernelSystem(KernelMoments):
    """The matrix M of the system as an operator, and its right-hand sides.

    Attributes
    ----------
    op : KernelOperator
        M = H S K S H.
    """

    def __init__(self, problem: KernelRidge, passes: Passes) -> None:
        super().__init__(problem, passes)
        self.op: KernelOperator = self.operators[0]
        self.Y = problem.Y

    @cached_property
    def targets(self) -> Targets:
        """The right-hand sides; Y is read at the first call."""
        Y = self.Y
        self.take(1, 0.0, 1.0, 0.0)
        read = Y.dense()
        check_products(read, Y.in_blocks("Y"), "Y")
        read, device, op = self.device.asarray(read), self.device, self.op
        # Divided by the largest entries, no square leaves the range of numbers.
        sizes = np.asarray(to_host(device.xp.max(device.xp.abs(read), axis=0)))
        units = np.where(sizes > 0, sizes, 1.0)
        T = op.weighted(read / device.asarray(units))
        least = device.column_norms(T)
        T, means = op.centred(T)
        lengths = device.column_norms(T)
        rounding = CONSTANT * float(np.finfo(Y.dtype).eps) * least * op.center
        lengths = np.where(lengths > rounding, lengths, 0.0)
        squares = squares_about_means(to_host(read), to_host(op.roots) ** 2)
        return Targets(T * device.asarray(reciprocal(lengths)), lengths * units, means * units, squares)

    def unweighted(self, V: Array) -> Array:
        """S⁻¹V; rows of weight 0 become 0."""
        return V * reciprocal(self.op.roots)[:, None]

    @property
    def count(self) -> float:
        """The number of rows, or the sum of their weights."""
        return float(to_host(self.device.xp.sum(self.op.roots**2)))

    @property
    def largest(self) -> float:
        """The largest √k(x, x) of a row."""
        return float(np.sqrt(np.max(HOST.asarray(self.op.diagonal()), initial=0.0)))
