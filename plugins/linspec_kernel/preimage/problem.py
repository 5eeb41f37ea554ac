"""Correlations of kernel functions of single points: the problem and its answer, pairs of points.

Its certificate is in `linspec_kernel.preimage.certificate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, to_host, with_device
from linspec.errors import InvalidProblem, shown
from linspec.kernels import Kernel, Polynomial
from linspec.rows import Moments, Passes
from linspec_kernel.preimage import certificate
from linspec_kernel.preimage.bounds import Bound, as_bound
from linspec_kernel.preimage.objectives import OBJECTIVES, Objective
from linspec_kernel.preimage.views import PreimageMoments, PreimageView
from linspec_kernel.problem import FunctionsSolution, OfKernels

SUPPORT = 0.05
"""Share of a point's largest magnitude above which an entry belongs to its support."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PreimageCCASolution(
    FunctionsSolution,
    residual="gradient step",
    objective="sum of the objective",
    adjusted=False,
    saved_types=(Kernel,),
):
    """Pairs of points whose kernel functions are correlated.

    Attributes
    ----------
    x_preimages, y_preimages : array of shape (p, k), (q, k)
        The points u and v of the pairs, in the order in which they were found. Signs that the kernel does not
        determine are such that the largest entry is positive.
    correlations : numpy.ndarray of shape (k,)
        Correlations of the pairs of variates on the training rows, float64. Usually they decrease.
    values : numpy.ndarray of shape (k,)
        Objective that each pair maximises: the correlation or HSIC of its variates, times a share for each of its two
        functions. A share is the length of the variate over the length of the function's (centred) values k(X, u) at
        the training rows. It is 1 for the first pair, and for functions that are not correlated with earlier variates.
    x_weights, y_weights : numpy.ndarray of shape (k, k)
        Upper triangular: the variates are these combinations of k(·, u₁), …, k(·, u_k), less `x_mean` and `y_mean`.
        They are uncorrelated and of unit length on the training rows; the functions themselves correlate.
    x_mean, y_mean : numpy.ndarray of shape (k,) or None
        Means of the variates over the training rows, which `transform` subtracts; None without centring.
    residuals : numpy.ndarray of shape (k,)
        The residual of each pair; the residual of the solution is the largest of these.
    starts : int
        Number of starting points for each pair.
    agreeing : numpy.ndarray of shape (k,)
        For each pair, how many starts led to the best value within 1 %. If few did, more starts may find a better pair.
    kernel_x, kernel_y : Kernel
        The kernels with all their numbers, including scales chosen from the data.
    """

    x_preimages: Array = ls.field(rows_of="X", leading=True)
    y_preimages: Array = ls.field(rows_of="Y", leading=True)
    correlations: HostArray = ls.field(shape="k")
    values: HostArray = ls.field(shape="k")
    residuals: HostArray = ls.field(shape="k")
    x_weights: HostArray = ls.field(shape="k k")
    y_weights: HostArray = ls.field(shape="k k")
    kernel_x: Kernel
    kernel_y: Kernel
    starts: int
    agreeing: HostArray = ls.field(shape="k")
    x_mean: HostArray | None = ls.field(None, shape="k")
    y_mean: HostArray | None = ls.field(None, shape="k")

    def facts(self) -> list[tuple[str, str]]:
        """The sums, and the kernels with all their numbers."""
        return [
            ("sum of correlations", f"{float(self.correlations.sum()):.7g}"),
            *super().facts(),
            ("starts", str(self.starts)),
            ("kernels", " and ".join(dict.fromkeys([str(self.kernel_x), str(self.kernel_y)]))),
        ]

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float:
        """The sum of the values of all pairs."""
        return float(np.sum(fields["values"]))

    def _per_component(self) -> dict[str, Any]:
        return {
            "correlation": self.correlations,
            "value": self.values,
            "residual": self.residuals,
            "starts that agree": self.agreeing,
        }

    @with_device
    def supports(self, share: float = SUPPORT) -> tuple[HostArray, HostArray]:
        """Columns that matter: masks of the entries of each point above a share of the point's largest entry.

        Parameters
        ----------
        share : float, default 0.05
            From 0 to below 1; 0 gives all entries that are not zero.

        Returns
        -------
        pair of bool numpy.ndarray of shape (p, k), (q, k)
        """
        if not 0 <= share < 1:
            raise InvalidProblem(f"share must be from 0 to below 1; got {share!r}.")
        sizes = [np.abs(np.asarray(to_host(U))) for U in (self.x_preimages, self.y_preimages)]
        x, y = (size > share * size.max(axis=0, initial=0.0) for size in sizes)
        return x, y

    def variates(self, view: str, data: Any) -> Array:
        side, A = view.lower(), ls.as_operator(data, view)
        points = getattr(self, f"{side}_preimages")
        if A.shape[1] != points.shape[0]:
            raise InvalidProblem(
                f"{view} must have {points.shape[0]} columns, as the training rows; got {A.shape[1]}."
            )
        kernel = getattr(self, f"kernel_{side}")
        moments = Moments([A.in_blocks(view)], names=[view])
        rows = PreimageView(moments, 0, kernel, Bound("ratio", 1.0), center=False)
        Z = rows.at(HOST.asarray(points)).values
        return self.centred(side, Z @ rows.device.asarray(getattr(self, f"{side}_weights")), A)


@dataclass(frozen=True, eq=False, repr=False)
class PreimageCCA(OfKernels[PreimageCCASolution]):
    """k pairs of points u and v whose kernel functions k(·, u) and k(·, v) are most correlated on the rows.

    `KernelCCA` looks for any functions in the spaces of two kernels; this problem looks for functions of single
    points: u has an entry for each column of X, and its zeros say which columns do not matter. Pairs are found one
    after the other: the variates of a pair are k(X, u) and k(Y, v) with their projections on the variates of earlier
    pairs removed. A pair maximises the correlation of its variates, times two shares, one for each of its functions. A
    share is the length of the variate over the length that it has before the removal (centred, if `center`). So points
    that repeat earlier ones gain nothing.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` takes. Columns are not scaled: bring them to one scale first, since
        a bound treats all entries of u alike.
    Y : data of shape (n, q)
    k : int
        The number of pairs, at most n − 1 (n without centring).
    kernel_x : Kernel or str, default "linear"
        `linspec.kernels.linear()`, `.polynomial(degree, offset)` or `.rbf(scale)`. Take ``polynomial(2, 0.0)`` for
        relations that are not monotone, such as squares.
    kernel_y : Kernel or str, optional
        By default the kernel of X.
    bound_x : (str, float), optional
        ("ratio", s): {|u|₂ = 1, |u|₁ ≤ s}. With s = 1 one entry of u is not zero, with s = √p any number may be; s²
        equally large entries reach the bound. ("l1", b), ("l2", b): the balls |u|₁ ≤ b, |u|₂ ≤ b, which restrict
        nothing for linear and homogeneous polynomial kernels (see Notes). The default is |u|₂ = 1, which is
        ("ratio", √p): the suitable number of columns depends on the data. Without a bound u has no zeros.
    bound_y : (str, float), optional
        By default kind and number of `bound_x`, or |v|₂ = 1 if X has no bound.
    objective : {"correlation", "hsic"}, default "correlation"
        "hsic" is the Hilbert-Schmidt independence criterion of the variates, with Gaussian kernels of their root mean
        squares: with the linear kernel it finds combinations Xu and Yv that depend on each other in any way.
    center : bool, default True
        Whether the values of the kernel functions are centred.

    Notes
    -----
    Residual: the largest |Proj(u + b² g) − u|₂ / b over pairs and views, where g is the gradient of the objective in u,
    Proj the nearest point of the bound's set, and b its radius (1 for "ratio"). It is zero exactly if one step along
    the gradient, projected, ends at u again; such a point is stationary. There may be better stationary points:
    methods begin at several points, and `agreeing` counts those that led to the best value.
    A pair by chance is stationary, too: the residual says nothing about rows that were not fitted. `score` does.

    With a homogeneous kernel the correlation does not change with the length of u. At a point of a ball with
    residual 0, the gradient is then zero too, as without any bound. If a method returns zero entries in a ball, it
    has stopped early.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((400, 10)), rng.standard_normal((400, 8))
    >>> Y[:, 0] += 2 * X[:, 0] + X[:, 1]
    >>> problem = ls.PreimageCCA(X, Y, k=1, bound_x=("ratio", 1.5))
    >>> solution = ls.solve(problem, rng=0)
    >>> [int(column) for column in np.flatnonzero(solution.supports(0.2)[0][:, 0])]
    [0, 1]
    """

    X: Any = ls.matrix("two views", once=False)
    Y: Any = ls.matrix("two views", once=False)
    k: Any = ls.count("pairs of points", limits=lambda problem: problem.limits)
    kernel_x: Any = ls.setting("linear", str, help="The kernel: linear, 'polynomial(degree=3)', rbf, ...")
    kernel_y: Any = ls.setting(None, str, help="The kernel of Y, if it differs from X's.")
    bound_x: Any = ls.setting(
        None,
        str,
        kw_only=True,
        help="Makes points sparse: |u|1 is at most so many times |u|2, from 1 (one column) on; or l1:1, l2:1.",
    )
    bound_y: Any = ls.setting(None, str, kw_only=True, help="That of Y, if it differs from X's.")
    objective: Any = ls.setting(
        "correlation", str, choices=tuple(OBJECTIVES), kw_only=True, help="What is maximised."
    )
    center: bool = ls.flag(True, "Centre the values of the kernel functions.", kw_only=True)

    name: ClassVar[str] = "preimage-cca"
    tolerance: ClassVar[float] = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective not in OBJECTIVES:
            raise InvalidProblem(
                f"objective must be one of {', '.join(OBJECTIVES)}; got {shown(self.objective)}."
            )
        bounds = self.bound_x, self.bound_x if self.bound_y is None else self.bound_y
        object.__setattr__(self, "bound_x", as_bound(bounds[0], "bound_x", self.X.shape[1]))
        object.__setattr__(self, "bound_y", as_bound(bounds[1], "bound_y", self.Y.shape[1]))

    def checked_kernel(self, argument: Any, name: str) -> Kernel:
        kernel = super().checked_kernel(argument, name)
        if not kernel.projects:
            raise InvalidProblem(
                f"{name} must be a linear, polynomial or rbf kernel, whose gradient in u takes products with X alone; "
                f"got {kernel}. For others solve KernelCCA."
            )
        return kernel

    @property
    def value(self) -> Objective:
        """Objective that is maximised."""
        return OBJECTIVES[self.objective]

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """Bounds of both views."""
        return self.bound_x, self.bound_y

    @property
    def vacuous(self) -> tuple[str, ...]:
        """Names of the views whose bound is a ball that restricts nothing."""
        views = zip(("X", "Y"), (self.kernel_x, self.kernel_y), self.bounds, strict=True)
        return tuple(name for name, kernel, bound in views if bound.kind != "ratio" and kernel.homogeneous)

    @property
    def parities(self) -> tuple[int, int]:
        """For each view, the sign c for which k(·, −u) = c k(·, u); 0 if there is none."""
        return _parity(self.kernel_x), _parity(self.kernel_y)

    @property
    def certificate_products(self) -> int:
        """Passes of the certificate: a product with the points, an adjoint one, and one over columns as in CCA."""
        sides = zip(self.matrices.values(), self.kernels.values(), self.bounds, strict=True)
        return 2 + any(certificate.is_cca(kernel, bound, A.shape[1]) for A, kernel, bound in sides)

    def moments_of_its_own(self, passes: Passes) -> PreimageMoments:
        """Views X and Y, used by their products."""
        operators = [A.in_blocks(name) for name, A in self.matrices.items()]
        rows = Moments(
            operators, None, passes, [*self.matrices], certificate_passes=self.certificate_products
        )
        if any(np.isinf(A.shape[0]) for A in operators):
            rows.fit()
            self.check_sizes()
        return PreimageMoments(rows, self, self.kernels.values())

    certify = certificate.certify


def _parity(kernel: Kernel) -> int:
    if not kernel.homogeneous:
        return 0
    return (-1) ** kernel.degree if isinstance(kernel, Polynomial) else -1
