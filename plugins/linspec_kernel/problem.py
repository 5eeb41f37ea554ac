"""Kernel canonical correlations: the problem and its answer; its certificate is in `linspec_kernel.certificate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

import linspec as ls
from linspec.arrays import Array, Device, HostArray, to_host, with_device
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.families.cca import TwoViewSolution
from linspec.features import FeatureMap, KernelMap
from linspec.kernels import Kernel, Points, as_kernel, check_square
from linspec.operators import LinearOperator
from linspec.rows import Passes
from linspec.solving import table_of_features, table_of_training_rows
from linspec_kernel import certificate
from linspec_kernel.moments import Fitted, KernelMoments

S_co = TypeVar("S_co", bound=ls.Solution, covariant=True)


class OfKernels(ls.Problem[S_co], adjusts_rows=False):
    """Base class of problems with a kernel for each matrix of features."""

    kernel_fields: ClassVar[Mapping[str, str]] = {"X": "kernel_x", "Y": "kernel_y"}
    """The fields of the kernels by the name of the matrix; where one is None, it is the kernel before it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        kernel: Any = None
        for matrix, name in self.kernel_fields.items():
            argument = getattr(self, name)
            kernel = self.checked_kernel(kernel if argument is None else argument, name)
            object.__setattr__(self, name, kernel)
            check_square(kernel, self.matrices[matrix], matrix)

    def checked_kernel(self, argument: Any, name: str) -> Kernel:
        """Return the kernel that an argument stands for."""
        return as_kernel(argument, name)

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by the name of the matrix."""
        return {matrix: getattr(self, name) for matrix, name in self.kernel_fields.items()}

    @property
    def limits(self) -> dict[str, int]:
        """Largest k as the value of a dict with one entry, whose key names the reason of the limit.

        It is n − 1 for centred functions of n rows, otherwise n.
        """
        n = min(A.shape[0] for A in self.matrices.values())
        center = getattr(self, "center", False)
        return {"rows, centred" if center else "rows": max(n - center, 1)}

    def on_rows(self, numbers: HostArray) -> Self:
        """Return a copy on some rows; raises if a kernel is precomputed, since its columns belong to the rows, too."""
        names = [name for name, kernel in self.kernels.items() if kernel.precomputed]
        if names:
            raise InvalidProblem(
                f"rows of a precomputed kernel cannot be held out: its columns belong to them, too. Pass the values "
                f"for the training rows as {' and '.join(names)}, and those of other rows with the training rows to be "
                "scored."
            )
        return super().on_rows(numbers)


class FunctionsSolution(TwoViewSolution):
    """Base class of answers whose variates are functions of rows."""

    correlations: HostArray

    _headline = ls.CCASolution._headline

    def centred(self, side: str, Z: Array, A: LinearOperator) -> Array:
        """Variates minus the training means of a view, in the library and dtype of its rows."""
        mean, device = getattr(self, f"{side}_mean"), A.device.blocks
        return A.device.asarray(Z if mean is None else device.asarray(Z) - device.asarray(mean), A.dtype)


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelCCASolution(
    FunctionsSolution, residual="squared", saved_types=(Fitted, FeatureMap, Points, Kernel)
):
    """Canonical pairs of functions.

    Attributes
    ----------
    x_weights, y_weights : array of shape (m, k)
        Each function is a combination of kernel functions k(·, xⱼ) (of all training rows or of the landmarks) or of
        features; these are its coefficients. The functions have unit length in the metric of the problem.
    correlations : numpy.ndarray of shape (k,)
        Canonical correlations in decreasing order, with the ridge of the problem, float64.
    x_landmarks, y_landmarks : numpy.ndarray of shape (m,) or None
        Indices of the training rows to which the coefficients belong; None if they belong to all rows, or to features.
    x_mean, y_mean : numpy.ndarray of shape (k,) or None
        Means of the variates over the training rows, which `transform` subtracts; None without centring.
    x_map, y_map : Fitted
        Maps from rows to the features that the weights multiply; `kernel_x` and `kernel_y` are their kernels.
    residuals : numpy.ndarray of shape (k,)
        The contribution of each pair to the residual, times the sum of the correlations. They are nan for
        functions made of random features, which do not lie in the spaces of the kernels and so have no residual.
    bounds : numpy.ndarray of shape (k,) or None
        For each correlation, a distance within which there is an exact correlation. None for functions that are not
        made of kernel functions.
    loss_estimate : float or None
        Estimate of the missing part of the sum of the exact correlations, relative to the sum of the returned ones. An
        iteration works on more functions than it returns. The estimate is the rise of the sum if the residuals of all
        pairs of these functions were added to the functions. None if the solver passes no such pairs to the problem.
    """

    x_weights: Array = ls.field(leading=True, shape="m k")
    y_weights: Array = ls.field(leading=True, shape="l k")
    correlations: HostArray = ls.field(value="canonical correlation", at_most=1.0)
    residuals: HostArray = ls.field(shape="k")
    x_map: Fitted
    y_map: Fitted
    x_landmarks: HostArray | None = ls.field(None, shape="m")
    y_landmarks: HostArray | None = ls.field(None, shape="l")
    x_mean: HostArray | None = ls.field(None, shape="k")
    y_mean: HostArray | None = ls.field(None, shape="k")
    bounds: HostArray | None = ls.field(None, shape="k")
    loss_estimate: float | None = None

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the correlations, and the kernels with all their numbers."""
        kernels = dict.fromkeys([str(self.kernel_x), str(self.kernel_y)])
        return [*super().facts(), ("kernels", " and ".join(kernels))]

    def _per_component(self) -> dict[str, Any]:
        columns = {**super()._per_component(), "residual": self.residuals}
        return columns if self.bounds is None else {**columns, "bound": self.bounds}

    @property
    def kernel_x(self) -> Kernel:
        """Kernel of X with all its numbers, including scales chosen from the data."""
        return self.x_map.kernel

    @property
    def kernel_y(self) -> Kernel:
        """Kernel of Y with all its numbers, including scales chosen from the data."""
        return self.y_map.kernel

    @property
    @with_device
    def x_dual(self) -> Array:
        """Coefficients of the kernel functions of all n training rows of X: 0 except at the landmarks.

        Raises
        ------
        InvalidProblem
            The functions are made of other features.
        """
        return _dual(self.x_weights, self.x_landmarks, self.x_map, "x")

    @property
    @with_device
    def y_dual(self) -> Array:
        """Coefficients of the kernel functions of all n training rows of Y: 0 except at the landmarks."""
        return _dual(self.y_weights, self.y_landmarks, self.y_map, "y")

    def variates(self, view: str, data: Any) -> Array:
        side = view.lower()
        A = getattr(self, f"{side}_map").map(data, view)
        Z = A.matmat(A.device.blocks.asarray(to_host(getattr(self, f"{side}_weights"))))
        return self.centred(side, Z, A)

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:
        """Whether functions consist of kernel functions, which belong to training rows."""
        return any(_is_of_rows(fields[name].map) for name in ("x_map", "y_map"))

    def coefficients_table(self, view: str, *, library: str | None = None) -> Any:
        """The coefficients of the functions of a view: of the kernel functions of training rows, or of features.

        Parameters
        ----------
        view : {"X", "Y"}
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each pair. With kernel functions of training rows or of landmarks, a row for each of these
            rows, by its label if the training data had labels, else by its number; with features, a row for each
            feature, by its number. Columns of the data have no coefficients: `loadings_table` is about them.

        Raises
        ------
        InvalidOption
            There is no such view.
        """
        if view not in ("X", "Y"):
            raise InvalidOption(f"view must be 'X' or 'Y'; got {shown(view)}.")
        side = view.lower()
        weights, fitted = getattr(self, f"{side}_weights"), getattr(self, f"{side}_map")
        if _is_of_rows(fitted.map):
            return table_of_training_rows(self, weights, library, getattr(self, f"{side}_landmarks"))
        return table_of_features(self, weights, library)


def _is_of_rows(features: FeatureMap) -> bool:
    """Whether each feature is the kernel function of one training row."""
    return isinstance(features, KernelMap) and features.turn is None


def _dual(weights: Array, landmarks: HostArray | None, fitted: Fitted, view: str) -> Array:
    if not isinstance(fitted.map, KernelMap):
        raise InvalidProblem(
            f"{view}_dual belongs to functions made of kernel functions; these are made of {fitted.map}. Take "
            f"{view}_weights."
        )
    if landmarks is None:
        return weights
    device = Device.of(weights)
    rows = int(fitted.map.rows)
    scattered = np.zeros((rows, weights.shape[1]), dtype=to_host(weights).dtype)
    scattered[landmarks] = to_host(weights)
    return device.asarray(scattered, scattered.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class KernelCCA(OfKernels[KernelCCASolution]):
    """The k leading canonical pairs of functions of two views, in the spaces of two kernels.

    This is `linspec.CCA` of the features of the kernels. `linspec.CCA` with the same ridge has the same answer if the
    kernels are linear, or if the features of the kernels are computed and passed to it in place of X and Y. With K the
    kernel matrix of a view, centred, and f = Σ aᵢ k(·, xᵢ): maximise aᵀKx Ky b for aᵀKx (Kx + ridge) a = 1 and
    bᵀKy (Ky + ridge) b = 1.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` takes and whose entries can be read; it is held. With a precomputed kernel
        the n x n values of the kernel.
    Y : data of shape (n, q)
    k : int
        The number of pairs, at most n − 1 (n without centring).
    kernel_x : Kernel, str or callable, default "rbf"
        A kernel of `linspec.kernels`, its name, or a function of two blocks of rows.
    kernel_y : Kernel, str or callable, optional
        By default the kernel of X.
    ridge : float or pair of floats
        Above 0. Added to the unnormalised Gram matrices of the features. A penalty λ relative to the mean of k(x, x),
        on Gram matrices divided by n, is a ridge of λ n mean k(x, x). If k(x, x) = 1, try 1e-4 n first.
    center : bool, default True
        Whether the features are centred.

    Notes
    -----
    Residual: an upper bound of Σ‖ϱᵢ‖² / Σρᵢ. ρᵢ is the canonical correlation of pair i. ϱᵢ is the error of pair i in
    the equations of CCA in the space of features, measured in the norm of the inverse of the metric.
    `linspec_kernel.certificate` explains the bound. A ridge is needed: if a kernel matrix has full rank, there is a
    function for any values at the rows, so without a ridge every correlation is 1.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 300)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((300, 2))
    >>> Y = np.column_stack([np.cos(2 * angle), np.sin(2 * angle)]) + 0.05 * rng.standard_normal((300, 2))
    >>> problem = ls.KernelCCA(X, Y, k=2, kernel_x="rbf", ridge=0.3)
    >>> solution = ls.solve(problem)
    >>> bool(solution.correlations[1] > 0.9)
    True
    """

    X: Any = ls.matrix("two views", once=False)
    Y: Any = ls.matrix("two views", once=False)
    k: Any = ls.count("canonical pairs", limits=lambda problem: problem.limits)
    kernel_x: Any = ls.setting(
        "rbf", str, help="The kernel: rbf, 'rbf(scale=2)', 'polynomial(degree=3)', ..."
    )
    kernel_y: Any = ls.setting(None, str, help="The kernel of Y, if it differs from X's.")
    ridge: Any = ls.ridge(
        of=("X", "Y"),
        each=True,
        positive="At 0, functions of a kernel of full rank take any values at the rows, and every correlation is 1. "
        "Begin with 1e-4 times the number of rows, for kernels with k(x, x) = 1.",
        help="Above 0; added to the Gram matrices of the features. Begin with 1e-4 times the rows.",
    )
    center: bool = ls.flag(True, "Centre the features.")

    name: ClassVar[str] = "kernel-cca"

    @property
    def certificate_products(self) -> float:
        """Passes of the certificate: products with coefficients and with residuals."""
        return 2.0

    def moments_of_its_own(self, passes: Passes) -> KernelMoments:
        """Return the kernel matrices of X and Y."""
        return KernelMoments(self, passes)

    certify = certificate.certify
