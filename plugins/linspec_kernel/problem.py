"""Kernel canonical correlations: the problem; its law is in `linspec_kernel.certificate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from linspec import Conclusion, Problem, Solution
from linspec.arrays import Array, HostArray
from linspec.errors import InvalidProblem, shown
from linspec.features import FeatureMap
from linspec.kernels import Kernel, as_kernel
from linspec.solving import (
    DEFAULT_TERMS,
    Terms,
    check_home,
    check_k,
    check_ridge,
    check_rows,
    refuse_iterators,
)
from linspec_kernel.certificate import Carried, judged, with_loss
from linspec_kernel.moments import KernelMoments, rounded_up
from linspec_kernel.nystrom import share_of
from linspec_kernel.solution import KernelCCASolution


@dataclass(frozen=True, eq=False, repr=False)
class KernelCCA(Problem[KernelCCASolution]):
    """The k leading canonical pairs of functions of two views, in the spaces of two kernels.

    This is `linspec.CCA` of the features of the kernels, with a ridge: with linear kernels, or with features written
    down, the answers are the same. With K the kernel matrix of a view, centred, and f = Σ aᵢ k(·, xᵢ): maximise
    aᵀKx Ky b for aᵀKx (Kx + ridge) a = 1 and bᵀKy (Ky + ridge) b = 1.

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
        Above 0. Added to the unnormalised Gram matrices of the features. A penalty λ on a Gram matrix over n, relative
        to k(x, x), is a ridge of λ n mean k(x, x): 1e-4 n for kernels with k(x, x) = 1 is a beginning.
    center : bool, default True
        Whether the features are centred.

    Notes
    -----
    Residual: Σ‖ϱᵢ‖² / Σρᵢ, with the residual ϱᵢ of the equations of a pair in the space of features, in the norm of the
    inverse of the metric, from above. `linspec_kernel.certificate` explains it. At ridge 0, functions of kernels of
    full rank take any values at the rows, and every correlation is 1.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 300)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((300, 2))
    >>> Y = np.column_stack([np.cos(2 * angle), np.sin(2 * angle)]) + 0.05 * rng.standard_normal((300, 2))
    >>> problem = ls.get_problem("kernel-cca")(X, Y, k=2, kernel_x="rbf", ridge=0.3)
    >>> solution = ls.solve(problem)
    >>> bool(solution.correlations[1] > 0.9)
    True
    """

    X: Any
    Y: Any
    k: Any
    kernel_x: Any = "rbf"
    kernel_y: Any = None
    ridge: Any = 0.0
    center: bool = True

    name: ClassVar[str] = "kernel-cca"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[Solution]] = KernelCCASolution
    matrix_names: ClassVar[tuple[str, ...]] = ("X", "Y")

    def __post_init__(self) -> None:
        refuse_iterators({"X": self.X, "Y": self.Y})
        X, Y = self.adopt("X", self.X), self.adopt("Y", self.Y)
        check_home("X", X, "Y", Y)
        if not isinstance(self.center, bool):
            raise InvalidProblem(f"center must be True or False; got {shown(self.center)}.")
        object.__setattr__(self, "kernel_x", as_kernel(self.kernel_x, "kernel_x"))
        other = self.kernel_x if self.kernel_y is None else self.kernel_y
        object.__setattr__(self, "kernel_y", as_kernel(other, "kernel_y"))
        for name, A, kernel in (("X", X, self.kernel_x), ("Y", Y, self.kernel_y)):
            if kernel.precomputed and A.shape[0] != A.shape[1]:
                raise InvalidProblem(
                    f"with a precomputed kernel {name} holds the values of all pairs of rows, n x n; got "
                    f"{A.shape[0]} x {A.shape[1]}."
                )
        self.check_sizes()
        pair = self.ridge if isinstance(self.ridge, tuple | list) else (self.ridge, self.ridge)
        if len(pair) != 2:
            raise InvalidProblem(f"ridge must be a number or a pair; got {len(pair)} numbers.")
        object.__setattr__(self, "ridge", (check_ridge(pair[0]), check_ridge(pair[1])))
        if 0.0 in self.ridge:
            raise InvalidProblem(
                f"ridge must be above 0 for both views; got {self.ridge[0]:g} and {self.ridge[1]:g}. At 0, functions "
                "of a kernel of full rank take any values at the rows, and every correlation is 1. Begin with 1e-4 "
                "times the number of rows, for kernels with k(x, x) = 1."
            )

    def __repr__(self) -> str:
        return (
            f"KernelCCA(X={self.X.shape}, Y={self.Y.shape}, k={self.k}, kernel_x={self.kernel_x}, "
            f"kernel_y={self.kernel_y}, ridge={self.ridge}, center={self.center})"
        )

    def check_sizes(self) -> None:
        """Raise unless X and Y have equally many rows; check k against n − 1 (n without centring)."""
        check_rows("X", self.X, "Y", self.Y)
        n = min(self.X.shape[0], self.Y.shape[0])
        limits = {"rows, centred" if self.center else "rows": max(n - self.center, 1)}
        object.__setattr__(self, "k", check_k(self.k, limits))

    @property
    def certificate_products(self) -> float:
        """Two products (with the coefficients and with the residual), and the share of the landmarks' columns."""
        return 2.0 + rounded_up(share_of(self.X.shape[0]))

    def on_rows(self, numbers: HostArray) -> Self:
        if self.kernel_x.precomputed or self.kernel_y.precomputed:
            raise InvalidProblem(
                "rows of a precomputed kernel cannot be held out: its columns belong to them, too. Pass the values for "
                "the training rows as X and Y, and those of other rows with the training rows to be scored."
            )
        return super().on_rows(numbers)

    def adjusted(self) -> Self:
        """Return the problem itself: kernel matrices are centred, not the rows."""
        return self

    def in_range(self, looks: Mapping[str, Any]) -> Self:
        """Return the problem itself: values of kernels are checked for range, not the data."""
        return self

    def moments(self, form: str, expect: tuple[int, int]) -> Any:
        """Operators of the kernel matrices of X and Y."""
        return KernelMoments(self, form)

    def conclude(  # type: ignore[override]  # noqa: PLR0913 (what solvers of three forms hand over)
        self,
        moments: Any,
        terms: Terms = DEFAULT_TERMS,
        *,
        x_weights: Array,
        y_weights: Array,
        x_landmarks: HostArray | None = None,
        y_landmarks: HostArray | None = None,
        x_map: FeatureMap | None = None,
        y_map: FeatureMap | None = None,
        kernels: tuple[Kernel, Kernel] | None = None,
        carried: Carried | None = None,
    ) -> Conclusion:
        """Scale the functions to unit length, rotate them to canonical pairs, and compute their residual.

        `kernels` are those of `moments.settle`, for moments that were not settled by the run. `carried` are all
        pairs within the spans of the solver, with which the loss is estimated.
        """
        if kernels is not None:
            moments.settle(None, kernels)
        weights, landmarks, maps = (x_weights, y_weights), (x_landmarks, y_landmarks), (x_map, y_map)
        found = judged(self, moments, weights, landmarks, maps, terms.tol)
        return found if carried is None else with_loss(found, carried, terms.tol)
