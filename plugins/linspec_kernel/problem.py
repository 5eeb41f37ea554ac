"""Kernel canonical correlations: the problem; its certificate is in `linspec_kernel.certificate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import linspec as ls
from linspec.iteration import Certificate
from linspec.kernels import Kernel, as_kernel
from linspec.rows import Passes
from linspec_kernel.certificate import judged
from linspec_kernel.moments import KernelMoments
from linspec_kernel.nystrom import share_of
from linspec_kernel.of_kernels import OfKernels
from linspec_kernel.solution import KernelCCASolution


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

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "kernel_x", as_kernel(self.kernel_x, "kernel_x"))
        other = self.kernel_x if self.kernel_y is None else self.kernel_y
        object.__setattr__(self, "kernel_y", as_kernel(other, "kernel_y"))
        self.check_squares()

    @property
    def certificate_products(self) -> float:
        """Passes of the certificate: products with coefficients and residuals, and the columns of the landmarks."""
        return 2.0 + share_of(self.X.shape[0])

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by the name of the matrix."""
        return {"X": self.kernel_x, "Y": self.kernel_y}

    def moments_of_its_own(self, passes: Passes) -> KernelMoments:
        """Return the kernel matrices of X and Y."""
        return KernelMoments(self, passes)

    def certify(self, moments: KernelMoments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Scale the functions to unit length, rotate them to canonical pairs, and compute their residual.

        The arrays `x_weights` and `y_weights` are coefficients of the features of `moments.maps`; where there are
        none, of the kernel functions of all rows, or of those with the numbers `x_landmarks` and `y_landmarks`. With
        more functions than pairs, the missing part of the sum of the exact correlations is estimated.
        """
        moments.settle(None, arrays)
        return judged(self, moments, arrays, tol)
