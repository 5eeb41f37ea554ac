"""Sparse weights of two views or one: the problems, their answers, and one certificate.

Problem: pairs (u, v), one after the other, that maximise uᵀC v over uᵀS_x u ≤ 1, vᵀS_y v ≤ 1, P(u) ≤ c_x, P(v) ≤ c_y
with C = XᵀY. In covariances S is the identity ("diagonal" CCA), in correlations S = XᵀX; P is a sum of magnitudes,
or of lengths of groups of columns (`Penalty`). A pair of value d = uᵀC v is taken out of C before the next one:

    C ← C − d (S_x u)(S_y v)ᵀ.                                          (1)

Principal components maximise ‖A v‖ over ‖v‖ ≤ 1, P(v) ≤ c. With u = A v/‖A v‖ the same is

    A ← A − d u vᵀ = A (I − v vᵀ).                                      (2)

Law: there are local maxima. The certificate judges whether the weights of one view are best with those of the other
held, by the bounds of `Penalty`, from products with the rows. Weights of correlations have scores of length 1, or
shorter ones where a bound of groups is so small; a pair that is taken out counts as if these had length 1.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Algorithms 1 to 3 (covariances and
components: the penalized matrix decomposition); Suo, Minden, Nelson, Tibshirani & Saunders 2017, arXiv:1705.10865.
Where we differ: Suo et al. have a penalty in place of the bound, whose multiplier it is, and constrain later pairs to
be uncorrelated with earlier ones; here (1) serves both. P is in units of columns of length 1 in S, so that units of the
columns do not matter to correlations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, is_array, reciprocal, to_host
from linspec.certificates import Metric, short_directions
from linspec.errors import InvalidProblem, shown
from linspec.iteration import Certificate
from linspec.linalg import EPS, signs_of_columns
from linspec.process import check_memory
from linspec.rows import Moments
from linspec.solving import fewer_than_asked
from linspec_pls.sparse.penalty import LOOSE, Penalty

S = TypeVar("S", bound=ls.Solution)

COPIES = 6
"""Square matrices of all columns that exist at once."""

AGREED = 1e-9
ALL_AGREE = "The views agree completely, as they may for other weights, too. Pass smaller bounds."
"""Correlations within the first of 1 are complete, which the second says."""

BOUND = (
    "P of the weights is at most this: 1 keeps one column, c² equally large weights reach c. None: no bound."
)


class Component(NamedTuple):
    """One component, with the vectors of all sides below each other, in units of the columns.

    Attributes
    ----------
    t, image, a : numpy.ndarray of shape (p,), or (p + q,) of two views
        The weights, S t, and what products with the rows pull each side to: C v and Cᵀu, without earlier components.
    value : float
        d, and of one matrix d².
    """

    t: HostArray
    image: HostArray
    a: HostArray
    value: float


@dataclass(frozen=True, kw_only=True, repr=False)
class SparsePairsSolution(ls.LinearSolution, vector="pair"):
    """Pairs of sparse weights, in the order in which they were computed.

    Attributes
    ----------
    x_weights, y_weights : array of shape (p, k), (q, k)
        The weights u and v, of length 1 (of covariances), or with scores of length 1 (of correlations; shorter where a
        bound of groups is so small). Weights of columns that are left out are exactly 0. If the problem scales, they
        belong to the scaled columns.
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
    values: HostArray = ls.field(value="value")


@dataclass(frozen=True, kw_only=True, repr=False)
class SparsePCASolution(ls.LinearSolution, vector="component"):
    """Sparse directions of large variance, in the order in which they were computed.

    Attributes
    ----------
    weights : array of shape (p, k)
        The directions v, of length 1, which need not be orthogonal. Weights of columns that are left out are exactly 0.
        If the problem scales, they belong to the scaled columns.
    values : numpy.ndarray of shape (k,)
        ‖A v‖², where earlier directions are taken out of A. Usually they decrease.

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
    values: HostArray = ls.field(value="value")


class Sparse(ls.Problem[S]):
    """What the problems share: penalties, how components are taken out, and the certificate."""

    solved: ClassVar[tuple[str, ...]] = ("x_weights", "y_weights")
    endings: ClassVar[tuple[str, ...]] = ("_x", "_y")  # of the names of bounds and groups
    metric: ClassVar[bool] = False  # whether S is XᵀX, and not the identity

    @property
    def widths(self) -> list[int]:
        """The number of columns of each side."""
        return [int(A.shape[1]) for A in self.matrices.values()]

    @property
    def penalties(self) -> list[Penalty]:
        """The penalty of each side, with S = I."""
        return [penalty_of(self, *side) for side in zip(self.endings, self.widths, strict=True)]

    def check_sizes(self) -> None:
        """Check k, bounds and groups against the sizes."""
        super().check_sizes()
        _ = self.penalties

    def lengths(self, moments: Moments) -> HostArray:
        """The lengths of the columns of all sides, which are the units of weights: 1 for S = I."""
        squares: Any = [moments.squares(i) if self.metric else np.ones(p) for i, p in enumerate(self.widths)]
        return np.sqrt(np.concatenate(squares))

    def sides(self, T: HostArray) -> list[HostArray]:
        """The rows of each side."""
        edges = [0, *accumulate(self.widths)]
        return [T[a:b] for a, b in pairwise(edges)]

    def exact(self, moments: Moments) -> Sequence[Penalty]:
        """The penalty of each side, with its S."""
        return self.penalties

    def spread(self, numbers: HostArray) -> HostArray:
        """A row for each column of each side, from a row for each side."""
        return np.repeat(numbers, self.widths, axis=0)

    def products(self, T: HostArray, U: HostArray) -> HostArray:
        """The inner products of the columns of T and U, a row for each side."""
        return np.array([part.sum(axis=0) for part in self.sides(T * U)])

    def after(self, onto: HostArray, T: HostArray, earlier: Sequence[Component]) -> HostArray:
        """The products of T with the rows, without earlier components."""
        for pair in earlier:
            image = pair.image[:, None]
            share = pair.value * np.prod(reciprocal(self.products(pair.t, pair.image)))
            onto = onto - image * self.spread(share * self.products(image, T)[::-1])  # (1)
        return onto

    def within(
        self, penalties: Sequence[Penalty], T: HostArray, image: HostArray, onto: HostArray
    ) -> tuple[HostArray, HostArray, HostArray]:
        """The multiples of weights that reach a bound, with their products."""
        reached = zip(penalties, self.sides(T), strict=True)
        shares = [penalty.rms(t).sum(axis=0) / penalty.bound for penalty, t in reached]
        scale = reciprocal(np.maximum(np.sqrt(np.maximum(self.products(T, image), 0.0)), shares))
        return T * self.spread(scale), image * self.spread(scale), onto * self.spread(scale[::-1])

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Scale weights and fix their signs; judge each side with the other one and earlier components held.

        Parameters
        ----------
        moments : Moments
        arrays : mapping
            The weights, component by component in the order in which they are taken out.
        tol : float
        """
        d = self.lengths(moments)
        W = self.joined([arrays[name] for name in self.solved])
        T = W * d[:, None] * signs_of_columns(self.sides(W)[0], HOST)
        penalties = self.exact(moments)
        onto, image, inward = self.multiplied(moments, T, reciprocal(d)[:, None])
        lengths = np.sqrt(self.products(T, inward) * reciprocal(self.products(T, image)))  # of scores
        least = moments.noise * lengths[0] * lengths[-1]  # the value of unrelated ones
        T, image, onto = self.within(penalties, T, image, onto)
        components: list[Component] = []
        residual = 0.0
        for j in range(T.shape[1]):
            a = self.after(onto[:, [j]], T[:, [j]], components)[:, 0]
            component = Component(T[:, j], image[:, j], a, float(self.products(T[:, j], a)[0]))
            if not abs(component.value) > least[j]:
                break
            residual = float(np.maximum(residual, self.violation(component, penalties)))
            components.append(component)
        fields: dict[str, Any] = self.in_data_units(T.T[: len(components)], d)
        for name, A in zip(self.solved, self.matrices.values(), strict=True):
            fields[name] = A.device.asarray(fields[name], A.dtype)
        fields["values"] = np.array([component.value for component in components])
        what = "components whose value can be distinguished from zero"
        notes = fewer_than_asked(len(components), self.width, what)
        if self.metric and components and components[0].value > 1 - AGREED:
            notes = (*notes, (ls.Status.DEGENERATE, ALL_AGREE))
        return Certificate(residual, notes, fields, "from-gram" if moments.holds else "recomputed")

    def multiplied(
        self, moments: Moments, T: HostArray, unit: HostArray
    ) -> tuple[HostArray, HostArray, HostArray]:
        """Products of weights with the rows in one pass: onto the other side, S T, and onto the same side."""
        placed = zip(moments.operators, self.sides(T * unit), strict=True)
        rows = moments.products(*(A.device.blocks.asarray(W) for A, W in placed))
        numbers = range(len(rows))
        onto, inward = (self.joined([rows[i - step][i] for i in numbers]) * unit for step in (1, 0))
        return onto, inward if self.metric else T, inward

    def joined(self, blocks: Sequence[Array]) -> HostArray:
        """The blocks of all sides below each other, on the host."""
        return np.concatenate([to_host(V) for V in blocks])

    def violation(self, component: Component, penalties: Sequence[Penalty]) -> float:
        """The largest violation of a side."""
        parts = zip(penalties, *map(self.sides, component[:3]), strict=True)
        return float(np.max([penalty.violation(a, t, image) for penalty, t, image, a in parts]))

    def in_data_units(self, vectors: Any, d: HostArray) -> dict[str, HostArray]:
        """The weights t of components by name, for columns as they are."""
        T = np.array(vectors).T * reciprocal(d)[:, None]
        return dict(zip(self.solved, self.sides(T), strict=True))


def penalty_of(problem: Any, ending: str, columns: int) -> Penalty:
    """The penalty of one side; bounds and groups are checked."""
    bound = getattr(problem, f"bound{ending}")
    labels = getattr(problem, f"groups{ending}")
    index = np.arange(columns) if labels is None else np.unique(np.asarray(labels), return_inverse=True)[1]
    least = 1.0 if problem.metric else np.sqrt(np.bincount(index.ravel()).max())
    size = LOOSE if bound is None else bound
    fits = (
        index.shape == (columns,) and isinstance(size, int | float | np.number) and size >= least * (1 - EPS)
    )
    if not fits:
        raise InvalidProblem(
            f"groups{ending} must have a label for each of {columns} columns, and bound{ending} must be at least "
            f"{least:.4g}, at which one column or the largest group is left; got {shown(labels)} and {shown(bound)}. "
            "None is no bound."
        )
    return Penalty(bound=min(float(size), LOOSE), index=index, sizes=np.bincount(index))


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Sparse[SparsePairsSolution]):
    """The fields of problems of two views."""

    X: Any = ls.matrix("two views")
    Y: Any = ls.matrix("two views")
    k: Any = ls.count("pairs")
    bound_x: float | None = ls.setting(None, float, help=BOUND)
    bound_y: float | None = ls.setting(None, float, help=BOUND)
    groups_x: Any = field(default=None, kw_only=True)
    groups_y: Any = field(default=None, kw_only=True)
    center: bool = ls.flag(True, kw_only=True)


@dataclass(frozen=True, eq=False, repr=False)
class SparsePLS(Pairs):
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
    Residual: by what part the value is below what is proved of the best weights of a view with those of the other view
    held, from 0 to 1. It is of first order in what is missing, so that the value lacks far less. There are local
    maxima, of which the solver takes the best of several starts.

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
    >>> problem = ls.SparsePLS(X, Y, k=1, bound_x=1.7, bound_y=1.4)
    >>> solution = ls.solve(problem)
    >>> np.flatnonzero(solution.x_weights[:, 0]).tolist(), np.flatnonzero(solution.y_weights[:, 0]).tolist()
    ([0, 1, 2], [0, 1])
    """

    name: ClassVar[str] = "sparse-pls"


@dataclass(frozen=True, eq=False, repr=False)
class SparseCCA(Pairs):
    """The k pairs of sparse weights whose scores have the largest correlations: sparse CCA without approximation.

    Maximise uᵀXᵀY v over uᵀS_x u ≤ 1, vᵀS_y v ≤ 1, P(u) ≤ bound_x and P(v) ≤ bound_y, where S_x = XᵀX, and P is the sum
    of magnitudes of the weights of columns that are scaled to length 1. Pair by pair: the value times
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
    groups_x, groups_y : sequence of length p or q, optional
        A label for each column. Whole groups are kept or left out: Σ √p_g ‖u_g‖ over the groups g of p_g columns takes
        the place of the sum of magnitudes.
    center : bool, default True
        Whether to centre the columns. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted. This changes the
        units of the weights only.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: by what part the value is below what is proved of the best weights of a view with those of the other view
    held, from 0 to 1, and where no bound binds what rounding of the Gram matrices does to it. It is of first order in
    what is missing, so that the value lacks far less. There are local maxima, of which the solver takes the best of
    several starts.

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
    >>> problem = ls.SparseCCA(X, Y, k=1, bound_x=1, bound_y=1.2)
    >>> solution = ls.solve(problem)
    >>> np.flatnonzero(solution.x_weights[:, 0]).tolist(), np.flatnonzero(solution.y_weights[:, 0]).tolist()
    ([0], [0, 1])
    """

    name: ClassVar[str] = "sparse-cca"

    metric: ClassVar[bool] = True

    def exact(self, moments: Moments) -> Sequence[Penalty]:
        """The penalty of each side, with its Gram matrix in units of the columns."""
        needed = 8 * COPIES * sum(self.widths) ** 2
        what = "Gram matrices of all columns, and what is made of them,"
        check_memory("sparse-cca", needed, what, "linspec.SparsePLS takes more columns.")
        held = moments.gram()
        penalties: list[Penalty] = []
        for i, d in enumerate(self.sides(self.lengths(moments))):
            G = held[i][i]
            S = (to_host(G) if is_array(G) else G.toarray()) * np.outer(reciprocal(d), reciprocal(d))
            metric = Metric.of_held(moments, i, 0.0)
            metric.N = metric.N * d[:, None]  # of S
            entries = max(moments.operators[i].rounding, moments.error_of_means(i))
            rounding = (entries + moments.unit(i) / metric.least) / metric.least
            if metric.rank < np.count_nonzero(d) and self.penalties[i].bound < LOOSE:
                rounding = 1.0  # short directions may be left out
            penalties.append(replace(self.penalties[i], metric=metric, S=S, rounding=rounding))
        return penalties

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Certify also that no direction that a Gram matrix hides is left out where there is no bound."""
        certificate = super().certify(moments, arrays, tol)
        metrics = [
            Metric.of_held(moments, i, 0.0) if penalty.bound == LOOSE else Metric.of_gram(np.eye(1), 0.0, 0.0)
            for i, penalty in enumerate(self.penalties)
        ]
        lost = short_directions(moments, metrics, "correlations", "Pass bounds, or solve linspec.CCA.")
        return certificate._replace(notes=(*lost, *certificate.notes), lost=bool(lost))


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
    Residual: by what part vᵀAᵀA v is below what is proved of the best weights for AᵀA v, from 0 to 1. It is of first
    order in what is missing, so that the value lacks far less. There are local maxima, of which the solver takes the
    best of several starts.

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
    >>> problem = ls.SparsePCA(A, k=1, bound=1.4)
    >>> solution = ls.solve(problem)
    >>> np.flatnonzero(solution.weights[:, 0]).tolist()
    [3, 8]
    """

    A: Any = ls.matrix("data", permuted="columns")
    k: Any = ls.count("directions")
    bound: float | None = ls.setting(None, float, help=BOUND)
    groups: Any = field(default=None, kw_only=True)
    center: bool = ls.flag(True, kw_only=True)

    name: ClassVar[str] = "sparse-pca"
    solved: ClassVar[tuple[str, ...]] = ("weights",)
    endings: ClassVar[tuple[str, ...]] = ("",)

    def after(self, onto: HostArray, T: HostArray, earlier: Sequence[Component]) -> HostArray:
        """The products AᵀA T without earlier directions v: of A (I − v vᵀ), from a = AᵀA v and d² = vᵀa (2)."""
        for direction in earlier:
            v = direction.t[:, None]
            a = direction.a[:, None]
            onto = onto - a * self.products(v, T) - v * self.products(a - direction.value * v, T)
        return onto
