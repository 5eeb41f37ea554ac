"""Sparse weights of two views or one: the problems, their answers, and one certificate.

Problem: pairs (u, v), one after the other, that maximise uᵀC v over uᵀS_x u ≤ 1, vᵀS_y v ≤ 1, P(u) ≤ c_x, P(v) ≤ c_y
with C = XᵀY. In covariances S is the identity ("diagonal" CCA), in correlations S = XᵀX + r; P is a sum of magnitudes,
or of lengths of groups of columns (`Penalty`). A pair of value d = uᵀC v is taken out of C before the next one:

    C ← C − d (S_x u)(S_y v)ᵀ.                                          (1)

Principal components maximise ‖A v‖ over ‖v‖ ≤ 1, P(v) ≤ c. With u = A v/‖A v‖ the same is

    A ← A − d u vᵀ = A (I − v vᵀ).                                      (2)

Law: there are local maxima. The certificate judges whether the weights of one view are best with those of the other
held, by the conditions of `Penalty`, from products with the rows.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Algorithms 1 to 3 (covariances and
components: the penalized matrix decomposition); Suo, Minden, Nelson, Tibshirani & Saunders 2017, arXiv:1705.10865.
Where we differ: Suo et al. have a penalty in place of the bound, whose multiplier it is, and constrain later pairs to
be uncorrelated with earlier ones; here (1) serves both. P is in units of columns of length 1 in S, so that units of the
columns do not matter to correlations.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, reciprocal, to_host
from linspec.errors import InvalidProblem, shown
from linspec.iteration import Certificate
from linspec.linalg import signs_of_columns, unit_columns
from linspec.rows import Moments
from linspec.solving import fewer_than_asked
from linspec_pls.sparse.penalty import Penalty

S = TypeVar("S", bound=ls.Solution)

AGREED = 1e-9
"""Correlations within this of 1 are complete."""

ALL_AGREE = "The views agree completely within these bounds, as other weights may, too. Pass smaller bounds, or a ridge."

BOUND = (
    "P of {} weights is at most this: 1 keeps one column, c² equally large weights reach c; none: no bound."
)


class Component(NamedTuple):
    """The weights t of each side in units of the columns, S times them, and the value d."""

    weights: Sequence[HostArray]
    images: Sequence[HostArray]
    value: float


class Products(NamedTuple):
    """What judges weights W: products onto each side, S W, lengths of columns, and a value that is rounding."""

    onto: Sequence[Array]
    images: Sequence[Array]
    lengths: Sequence[HostArray]
    least: float


@dataclass(frozen=True, kw_only=True, repr=False)
class SparsePairsSolution(ls.LinearSolution, vector="pair"):
    """Pairs of sparse weights, in the order in which they were computed.

    Attributes
    ----------
    x_weights, y_weights : array of shape (p, k), (q, k)
        The weights u and v, of length 1 (of covariances), or with scores of length 1 (of correlations). Weights of
        columns that are left out are exactly 0. If the problem scales, they belong to the scaled columns.
    values : numpy.ndarray of shape (k,)
        uᵀC v, where earlier pairs are taken out of C = XᵀY. Usually they decrease.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((60, 6)), rng.standard_normal((60, 5))
    >>> X[:, 2] += 2 * Y[:, 4]
    >>> solution = ls.solve(ls.SparsePLS(X, Y, k=1, bound_x=1, bound_y=1))
    >>> np.flatnonzero(solution.x_weights), np.flatnonzero(solution.y_weights)
    (array([2]), array([4]))
    """

    x_weights: Array = ls.field(rows_of="X", leading=True, of_scaled=True)
    y_weights: Array = ls.field(rows_of="Y", leading=True, of_scaled=True)
    values: HostArray = ls.field(shape="k")

    def _per_component(self) -> dict[str, Any]:
        columns = {"columns of X": nonzeros(self.x_weights), "columns of Y": nonzeros(self.y_weights)}
        return {**super()._per_component(), "value": self.values, **columns}


@dataclass(frozen=True, kw_only=True, repr=False)
class SparsePCASolution(ls.LinearSolution, vector="component"):
    """Sparse directions of large variance, in the order in which they were computed.

    Attributes
    ----------
    weights : array of shape (p, k)
        The directions v, of length 1, which need not be orthogonal. Weights of columns that are left out are exactly 0.
        If the problem scales, they belong to the scaled columns.
    values : numpy.ndarray of shape (k,)
        ‖A v‖, where earlier directions are taken out of A. Usually they decrease.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((60, 6)) * [1, 1, 5, 1, 4, 1]
    >>> solution = ls.solve(ls.SparsePCA(A, k=2, bound=1))
    >>> np.argmax(solution.weights, axis=0)
    array([2, 4])
    """

    weights: Array = ls.field(rows_of="A", leading=True, of_scaled=True)
    values: HostArray = ls.field(shape="k")

    def _per_component(self) -> dict[str, Any]:
        return {**super()._per_component(), "value": self.values, "columns": nonzeros(self.weights)}


def nonzeros(W: Array) -> HostArray:
    """The number of entries of each column that are not 0."""
    return np.asarray(np.count_nonzero(to_host(W), axis=0))


class Sparse(ls.Problem[S]):
    """What the problems share: penalties, how components are taken out, and the certificate."""

    name: ClassVar[str] = "sparse"
    solved: ClassVar[tuple[str, ...]] = ("x_weights", "y_weights")
    endings: ClassVar[tuple[str, ...]] = ("_x", "_y")  # of the names of bounds and groups

    @property
    def penalties(self) -> list[Penalty]:
        """The penalty of each side."""
        widths = [int(A.shape[1]) for A in self.matrices.values()]
        return [self._penalty(ending, p) for ending, p in zip(self.endings, widths, strict=True)]

    def _penalty(self, ending: str, columns: int) -> Penalty:
        """Check the bound and the groups of one side."""
        bound, labels = getattr(self, f"bound{ending}"), getattr(self, f"groups{ending}")
        index = np.arange(columns)
        if labels is not None:
            index = np.unique(np.asarray(labels), return_inverse=True)[1]
        if index.shape != (columns,):
            raise InvalidProblem(
                f"groups{ending} must have a label for each of {columns} columns; got {shown(labels)}. Columns with "
                "the same label are a group."
            )
        least = math.sqrt(np.bincount(index).max(initial=1))
        size = math.inf if bound is None else bound
        if isinstance(size, bool) or not (isinstance(size, int | float | np.number) and size >= least):
            raise InvalidProblem(
                f"bound{ending} must be None or a number of at least {least:.4g}, the square root of the columns of "
                f"the largest group; got {shown(bound)}. At this number one group is left."
            )
        return Penalty(float(size), index)

    def check_sizes(self) -> None:
        """Check k, bounds and groups against the sizes."""
        super().check_sizes()
        _ = self.penalties

    @abstractmethod
    def products(self, moments: Moments, W: Sequence[Array]) -> Products:
        """The products that judge weights W of each side, in one pass."""

    def before(self, T: HostArray, earlier: Sequence[Component]) -> HostArray:
        """What stands for weights T in products with the rows."""
        return T

    def after(self, side: int, onto: HostArray, T: HostArray, earlier: Sequence[Component]) -> HostArray:
        """The products onto a side of the weights T of the other side, without earlier components."""
        for pair in earlier:
            onto = onto - np.multiply.outer(
                pair.images[side], pair.value * (pair.images[side - 1] @ T)
            )  # (1)
        return onto

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Scale weights and fix their signs; judge each side with the other one and earlier components held.

        Parameters
        ----------
        moments : Moments
        arrays : mapping
            The weights, component by component in the order in which they are taken out.
        tol : float
        """
        devices = [A.device.blocks for A in moments.operators]
        W = [unit_columns(arrays[name], device) for name, device in zip(self.solved, devices, strict=True)]
        judged, flips = self.products(moments, W), signs_of_columns(W[0], devices[0])
        blocks = [[to_host(V) * flips for V in part] for part in (W, judged.images, judged.onto)]
        lengths = [np.sqrt(np.maximum(np.sum(V * M, axis=0), 0.0)) for V, M in zip(*blocks[:2], strict=True)]
        components: list[Component] = []
        residual, sides, penalties = 0.0, range(len(W)), self.penalties
        for j in range(len(flips)):
            t, image, onto = ([V[:, j] for V in part] for part in blocks)
            for i in sides:
                unit = reciprocal(judged.lengths[i])
                t[i] = t[i] * judged.lengths[i] * reciprocal(lengths[i][j])
                image[i] = image[i] * unit * reciprocal(lengths[i][j])
                onto[i] = onto[i] * unit * reciprocal(lengths[i - 1][j])
            a = [self.after(i, onto[i], t[i - 1], components) for i in sides]
            value = float(t[0] @ a[0])
            if not value > judged.least:
                break
            gaps = [penalties[i].violation(a[i], t[i], image[i]) for i in sides]
            residual = max(residual, *gaps)
            components.append(Component(t, image, value))
        m = len(components)
        fields: dict[str, Any] = {"values": self.reported(np.array([pair.value for pair in components]))}
        for i, (name, A) in enumerate(zip(self.solved, self.matrices.values(), strict=True)):
            columns = [pair.weights[i] * reciprocal(judged.lengths[i]) for pair in components]
            V = np.stack(columns, axis=1) if m else np.zeros((int(A.shape[1]), 0))
            fields[name] = A.device.asarray(V, A.dtype)
        notes = fewer_than_asked(m, self.k, "components whose value can be distinguished from zero")
        return Certificate(residual, notes, fields, "from-gram" if moments.holds else "recomputed")

    def reported(self, values: HostArray) -> HostArray:
        """The values of the answer, from those of the components."""
        return values


@dataclass(frozen=True, eq=False, repr=False)
class SparsePLS(Sparse[SparsePairsSolution]):
    """The k pairs of sparse unit vectors with the largest covariances: penalised PLS, or "diagonal" sparse CCA.

    Maximise uᵀC v with C = XᵀY over ‖u‖ ≤ 1, ‖v‖ ≤ 1, |u|₁ ≤ bound_x and |v|₁ ≤ bound_y, pair by pair: uᵀC v · u vᵀ is
    subtracted from C before the next one. With ``scale=True`` this is the sparse CCA of Witten et al.

    Parameters
    ----------
    X : data of shape (n, p)
    Y : data of shape (n, q)
    k : int
        The number of pairs, at most the rows and the columns of each view.
    bound_x, bound_y : float, optional
        From 1, which keeps one column, to √p; c² equally large weights reach c. None: no bound.
    groups_x, groups_y : sequence of length p or q, optional
        A label for each column. Whole groups are kept or left out: Σ √p_g ‖u_g‖ over the groups g of p_g columns takes
        the place of |u|₁. The least bound is the square root of the largest p_g.
    center : bool, default True
        Whether to centre the columns. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: how far the weights of one view are from the best ones with those of the other view held, from 0 on: the
    largest gap in the optimality conditions, relative to the largest entry of C v, or of Cᵀu. There are local maxima,
    of which the solver takes the best of several starts.

    References
    ----------
    Witten, Tibshirani & Hastie 2009, Biostatistics 10:515, doi:10.1093/biostatistics/kxp008.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((100, 20)), rng.standard_normal((100, 15))
    >>> shared = rng.standard_normal((100, 1))
    >>> X[:, :3] += 2 * shared
    >>> Y[:, :2] += 2 * shared
    >>> solution = ls.solve(ls.SparsePLS(X, Y, k=1, bound_x=3**0.5, bound_y=2**0.5))
    >>> np.argsort(-solution.x_weights[:, 0])[:3].tolist(), np.flatnonzero(solution.y_weights[:, 0]).tolist()
    ([0, 1, 2], [0, 1])
    """

    X: Any = ls.matrix("two views")
    Y: Any = ls.matrix("two views")
    k: Any = ls.count("pairs")
    bound_x: float | None = ls.setting(None, float, help=BOUND.format("X"))
    bound_y: float | None = ls.setting(None, float, help=BOUND.format("Y"))
    groups_x: Any = field(default=None, kw_only=True)
    groups_y: Any = field(default=None, kw_only=True)
    center: bool = ls.flag(True, kw_only=True)
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "sparse-pls"

    def products(self, moments: Moments, W: Sequence[Array]) -> Products:
        """C v and Cᵀu, from C if it is known."""
        C = moments.crossed
        if C is not None:
            onto = [C @ W[1], C.T @ W[0]]
        else:
            (_, CtU), (CV, _) = moments.products(*W)
            onto = [CV, CtU]
        squares = [moments.fitted[i].squares.sum() for i in range(2)]
        least = moments.noise * float(np.sqrt(np.prod(squares)))
        return Products(onto, W, [np.ones(p) for p in moments.widths], least)


@dataclass(frozen=True, eq=False, repr=False)
class SparseCCA(Sparse[SparsePairsSolution]):
    """The k pairs of sparse weights whose scores have the largest correlations: sparse CCA without approximation.

    Maximise uᵀXᵀY v over uᵀS_x u ≤ 1, vᵀS_y v ≤ 1, P(u) ≤ bound_x and P(v) ≤ bound_y, where S_x = XᵀX + ridge, and P is
    the sum of magnitudes of the weights of columns that are scaled to length 1 in S. Pair by pair: the value times
    (S_x u)(S_y v)ᵀ is subtracted from XᵀY before the next one. Units of columns do not matter. The Gram matrices of all
    columns are held; `linspec.SparsePLS` takes more columns.

    Parameters
    ----------
    X : data of shape (n, p)
    Y : data of shape (n, q)
    k : int
        The number of pairs, at most the rows and the columns of each view.
    bound_x, bound_y : float, optional
        1 keeps one column, and larger bounds more; c² uncorrelated columns of equal weight reach c. None: no bound.
    ridge : float or (float, float), default 0.0
        Added to the diagonal of XᵀX and YᵀY, a number for each or one for both.
    groups_x, groups_y : sequence of length p or q, optional
        A label for each column. Whole groups are kept or left out: Σ √p_g ‖u_g‖ over the groups g of p_g columns takes
        the place of the sum of magnitudes. The least bound is the square root of the largest p_g.
    center : bool, default True
        Whether to centre the columns. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted. This changes the
        units of the weights, and what a ridge means.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: how far the weights of one view are from the best ones with those of the other view held, from 0 on: the
    largest gap in the optimality conditions, relative to the largest correlation of a column with the score of the
    other view. There are local maxima, of which the solver takes the best of several starts.

    References
    ----------
    Suo, Minden, Nelson, Tibshirani & Saunders 2017, arXiv:1705.10865.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((100, 20)), rng.standard_normal((100, 15))
    >>> X[:, 0] += 2 * Y[:, 0] - 2 * Y[:, 1]
    >>> solution = ls.solve(ls.SparseCCA(X, Y, k=1, bound_x=1, bound_y=1.4))
    >>> np.flatnonzero(solution.x_weights[:, 0]).tolist(), np.argsort(-abs(solution.y_weights[:, 0]))[:2].tolist()
    ([0], [1, 0])
    """

    X: Any = ls.matrix("two views")
    Y: Any = ls.matrix("two views")
    k: Any = ls.count("pairs")
    bound_x: float | None = ls.setting(None, float, help=BOUND.format("X"))
    bound_y: float | None = ls.setting(None, float, help=BOUND.format("Y"))
    ridge: Any = ls.ridge(each=True, help="Added to the diagonal of XᵀX and of YᵀY.")
    groups_x: Any = field(default=None, kw_only=True)
    groups_y: Any = field(default=None, kw_only=True)
    center: bool = ls.flag(True, kw_only=True)
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "sparse-cca"

    def products(self, moments: Moments, W: Sequence[Array]) -> Products:
        """C v and Cᵀu, S_x u and S_y v."""
        (XtXU, CtU), (CV, YtYV) = moments.products(*W)
        images = [M + r * V for M, r, V in zip((XtXU, YtYV), self.ridge, W, strict=True)]
        lengths = [np.sqrt(moments.squares(i) + r) for i, r in enumerate(self.ridge)]
        return Products([CV, CtU], images, lengths, moments.noise)

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """As for covariances; and say where the views agree completely."""
        certificate = super().certify(moments, arrays, tol)
        if np.max(certificate.fields["values"], initial=0.0) < 1 - AGREED:
            return certificate
        return certificate._replace(notes=(*certificate.notes, (ls.Status.DEGENERATE, ALL_AGREE)))


@dataclass(frozen=True, eq=False, repr=False)
class SparsePCA(Sparse[SparsePCASolution]):
    """The k sparse directions of largest variance: the penalized matrix decomposition with a bound on one side.

    Maximise ‖A v‖ over ‖v‖ ≤ 1 and |v|₁ ≤ bound, one after the other: A (I − v vᵀ) takes the place of A before the next
    one. Neither AᵀA nor a dense copy of sparse A is needed.

    Parameters
    ----------
    A : data of shape (n, p)
    k : int
        The number of directions, at most the rows and the columns.
    bound : float, optional
        From 1, which keeps one column, to √p; c² equally large weights reach c. None: no bound.
    groups : sequence of length p, optional
        A label for each column. Whole groups are kept or left out: Σ √p_g ‖v_g‖ over the groups g of p_g columns takes
        the place of |v|₁. The least bound is the square root of the largest p_g.
    center : bool, default True
        Whether to centre the columns. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: how far v is from the best weights for AᵀA v, from 0 on: the largest gap in the optimality conditions,
    relative to the largest entry of AᵀA v. There are local maxima, of which the solver takes the best of several
    starts.

    References
    ----------
    Witten, Tibshirani & Hastie 2009, Biostatistics 10:515, doi:10.1093/biostatistics/kxp008, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((100, 20))
    >>> A[:, [3, 8]] += 3 * rng.standard_normal((100, 1))
    >>> solution = ls.solve(ls.SparsePCA(A, k=1, bound=2**0.5))
    >>> np.flatnonzero(solution.weights[:, 0]).tolist()
    [3, 8]
    """

    A: Any = ls.matrix("data", permuted="columns")
    k: Any = ls.count("directions")
    bound: float | None = ls.setting(None, float, help=BOUND.format("the"))
    groups: Any = field(default=None, kw_only=True)
    center: bool = ls.flag(True, kw_only=True)
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "sparse-pca"
    solved: ClassVar[tuple[str, ...]] = ("weights",)
    endings: ClassVar[tuple[str, ...]] = ("",)

    def products(self, moments: Moments, W: Sequence[Array]) -> Products:
        """AᵀA v of weights without their parts along earlier ones."""
        V, device = to_host(W[0]), moments.device
        columns = [without(V[:, j : j + 1], V[:, :j][:, ::-1]) for j in range(V.shape[1])]
        onto = moments.gram_product(device.asarray(np.concatenate([V[:, :0], *columns], axis=1)))
        least = moments.noise * float(moments.fitted[0].squares.sum())
        return Products([onto], W, [np.ones(len(V))], least)

    def before(self, T: HostArray, earlier: Sequence[Component]) -> HostArray:
        """The weights without their parts along earlier directions."""
        return without(T, np.array([pair.weights[0] for pair in reversed(earlier)]).T) if earlier else T

    def after(self, side: int, onto: HostArray, T: HostArray, earlier: Sequence[Component]) -> HostArray:
        """The products without their parts along earlier directions."""
        return without(onto, np.array([pair.weights[0] for pair in earlier]).T) if earlier else onto

    def reported(self, values: HostArray) -> HostArray:
        """The lengths ‖A v‖."""
        return np.sqrt(values)


def without(W: HostArray, directions: HostArray) -> HostArray:
    """W times I − v vᵀ for each of the directions in turn (2)."""
    for v in directions.T:
        W = W - np.multiply.outer(v, v @ W)
    return W
