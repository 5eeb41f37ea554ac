"""One reference for each kind of problem: small cases, the exact answer by its definition, and the residual.

Problem: a solver may return the answer to another problem, with a residual of zero.
Method: dense NumPy and SciPy. Most problems are pencils A w = λ B w, which `spectral` solves in the metric of B; the
other references are written out. What an answer may choose freely is taken out of the comparison: of vectors W the
matrix W Wᵀ is compared, so neither signs nor turns within repeated values matter.
Source: Golub & Van Loan 2013, Matrix Computations; the definitions stand in the docstrings of the problems.
Where we differ: nothing of linspec is imported, so that both cannot share a fault.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial.distance import pdist, squareform

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Pencil = tuple[Array, Array]

STRENGTHS = 3.0, 2.0, 1.2, 0.7
"""Standard deviations of the variables that planted matrices have in common, beside noise of 0.5."""

NULL = 1e-11
"""Eigenvalues below this share of the largest are those of directions that the data lack."""


@dataclass(frozen=True, eq=False)
class Case:
    """Small matrices and the parameters of a problem.

    Attributes
    ----------
    name : str
    matrices : tuple of numpy.ndarray
        In the order in which the problem takes them.
    parameters : mapping of str
    rounding : float, default 1e-8
        The relative error of an answer that rounding of these data explains.
    gentle : bool, default True
        Whether every exact solver must reach its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import Case
    >>> Case("square", (np.eye(3),), {"k": 2}).name
    'square'
    """

    name: str
    matrices: tuple[Array, ...]
    parameters: Mapping[str, Any]
    rounding: float = 1e-8
    gentle: bool = True

    def changed(self, **parameters: Any) -> Case:
        """Return the case with other parameters."""
        return replace(self, parameters={**self.parameters, **parameters})

    def mapped(self, change: Callable[[Array], Array]) -> Case:
        """Return the case with a function of its matrices."""
        return replace(self, matrices=tuple(change(X) for X in self.matrices))


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """What the kit must know of a kind of problem; the record names it: ``ProblemSpec(testing="package.module:NAME")``.

    Attributes
    ----------
    cases : callable
        Returns the cases; the first must be gentle, and every solver must solve it.
    exact : callable
        Takes a case, and returns the numbers of the exact answer by name; those that no definition gives are left out.
    seen : callable
        Takes a case and a solution, whose arrays are on the host, and returns numbers of it by the same names. Those
        that are left out are not compared.
    residual : callable, optional
        Takes a case and a solution, and returns the residual as the problem defines it; NaN if it defines none.
    squared : bool, default False
        Whether an error of the answer is of the size of the root of the residual.
    arrays : str, default ""
        The attribute of an answer whose arrays are of the library of the data, such as "weights".
    signs : bool, default False
        Whether the largest entry of each of its columns is positive.
    options : mapping of str, default {"tol": 1e-9}
        Options that solvers get in all checks, where they have them.
    several : bool, default False
        Whether the problem takes its matrices as one list.
    companions : tuple of int, default ()
        The positions of matrices that stay arrays, whatever the kind of data, such as right-hand sides.
    scaled : tuple of int, default (0, 1, 2)
        The positions of the matrices whose columns ``scale=True`` divides.
    pairwise : bool, default False
        Whether the problem is allowed memory in proportion to the square of the number of rows.
    gaps : bool, default False
        Whether NaN stands for a missing entry, and is not refused.
    missing : str, default ""
        The reason why no solver can run here, such as a library that is not installed.

    Examples
    --------
    >>> from linspec.testing.references import SVD
    >>> sorted(SVD.exact(SVD.cases()[0]))
    ['S', 'Vh.T']
    """

    cases: Callable[[], Sequence[Case]]
    exact: Callable[[Case], Arrays]
    seen: Callable[[Case, Any], Arrays]
    residual: Callable[[Case, Any], float] | None = None
    squared: bool = False
    arrays: str = ""
    signs: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: {"tol": 1e-9})
    several: bool = False
    companions: tuple[int, ...] = ()
    scaled: tuple[int, ...] = (0, 1, 2)
    pairwise: bool = False
    gaps: bool = False
    missing: str = ""


def attributes(*names: str) -> Callable[[Case, Any], Arrays]:
    """Return a `seen` that has attributes of an answer."""
    return lambda _, solution: {name: getattr(solution, name) for name in names}


# ---- data -----------------------------------------------------------------------------------------


def planted(n: int, *columns: int, seed: int = 0) -> tuple[Array, ...]:
    """Make matrices of n rows that have four variables in common, with noise and means.

    A matrix of fewer than four columns has as many of the variables.

    Examples
    --------
    >>> from linspec.testing import planted
    >>> [X.shape for X in planted(20, 5, 3)]
    [(20, 5), (20, 3)]
    """
    rng = np.random.default_rng([seed, n, *columns])
    common = rng.standard_normal((n, 4)) * STRENGTHS
    loadings = [np.linalg.qr(rng.standard_normal((p, 4)))[0] for p in columns]
    matrices = []
    for L in loadings:
        X = common[:, : L.shape[1]] @ L.T
        matrices.append(X + 0.5 * rng.standard_normal(X.shape) + rng.standard_normal(len(L)))
    return tuple(matrices)


def cases(
    *columns: int, center: bool = True, ridge: float = 5.0, **parameters: Any
) -> Callable[[], Sequence[Case]]:
    """Return a function that makes the usual cases of matrices with so many columns, and the parameters of a problem.

    Parameters
    ----------
    *columns : int
    center : bool, default True
        Whether the problem has the parameter `center`: then it is True but in one case.
    ridge : float, default 5.0
        The ridge of the case with fewer rows than columns; 0 for problems that take none.
    **parameters
        Those of every case, such as k.

    Examples
    --------
    >>> from linspec.testing import cases
    >>> [case.name for case in cases(8, 6, k=3)()]
    ['tall', 'dependent columns', 'as they are', 'large means', 'wide, times 1e+50', 'wide, times 1e-50', 'wide']
    """
    usual = {**parameters, "center": True} if center else parameters

    def make() -> Sequence[Case]:
        tall = Case("tall", planted(60, *columns), usual)
        twice = tall.mapped(lambda X: np.hstack([X, X[:, :1]]))
        every = [tall, replace(twice, name="dependent columns", rounding=1e-6, gentle=False)]
        if center:
            every += [replace(tall.changed(center=False), name="as they are")]
            every += [replace(tall.mapped(lambda X: X + 1e4), name="large means", rounding=1e-5)]
        for unit in (1e50, 1e-50, 1.0):
            wide = tuple(unit * X for X in planted(20, *(4 * p for p in columns)))
            parameters = {**usual, "ridge": ridge * unit**2} if ridge else usual
            every.append(Case("wide" if unit == 1.0 else f"wide, times {unit:g}", wide, parameters, 1e-6))
        return every

    return make


def centred(case: Case) -> list[Array]:
    """Subtract the means of the columns if the problem centres."""
    if not case.parameters.get("center"):
        return [*case.matrices]
    return [X - X.mean(axis=0) for X in case.matrices]


# ---- pencils --------------------------------------------------------------------------------------


def second_moments(*matrices: Array, ridge: Any = 0.0) -> Pencil:
    """Return the products of different matrices, XᵢᵀXⱼ with zeros on the diagonal, and the metrics XᵢᵀXᵢ + rᵢI.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import second_moments
    >>> second_moments(np.eye(2), 2 * np.eye(2))[0][0]
    array([0., 0., 2., 0.])
    """
    Z = np.hstack(matrices)
    squares = scipy.linalg.block_diag(*(X.T @ X for X in matrices))
    ridges = np.repeat(np.broadcast_to(ridge, len(matrices)), [X.shape[1] for X in matrices])
    return Z.T @ Z - squares, squares + np.diag(ridges)


def spectrum(A: Array, B: Array) -> tuple[Array, Array, Array]:
    """Return λ and W of A w = λ B w in decreasing order with WᵀBW = I, and F with FᵀBF = I on the range of B."""
    lengths, V = np.linalg.eigh(B)
    positive = lengths > NULL * lengths[-1]
    F = V[:, positive] / np.sqrt(lengths[positive])
    values, U = np.linalg.eigh(F.T @ A @ F)
    return values[::-1], F @ U[:, ::-1], F


def spectral(
    pencil: Callable[..., Pencil],
    *,
    values: str,
    vectors: Sequence[str],
    root: bool = False,
    length: float = 1.0,
    **words: Any,
) -> Reference:
    """Make the reference of a problem whose answer is the leading part of A w = λ B w.

    Parameters
    ----------
    pencil : callable
        Takes the matrices, centred if the problem centres, and further parameters by name; returns A and B.
    values : str
        The attribute of an answer that has the values λ.
    vectors : sequence of str
        The attributes that together have w, below each other: one for each view. ``"Vh.T"`` is a transposed one. A
        tuple of arrays is one below the other, too.
    root : bool, default False
        Whether the values are the roots of λ.
    length : float, default 1.0
        The value of wᵀBw: 2 for pairs of vectors of length one.
    **words
        `cases`, and further attributes of `Reference`.

    Examples
    --------
    >>> from linspec.testing import cases, second_moments, spectral
    >>> reference = spectral(
    ...     second_moments, cases=cases(8, 6, k=3), values="correlations", vectors=("x_weights", "y_weights")
    ... )
    >>> reference.exact(reference.cases()[0])["correlations"].shape
    (3,)
    """
    span, power = " and ".join(vectors), 2 if root else 1

    def stated(case: Case) -> Pencil:
        parameters = {name: value for name, value in case.parameters.items() if name not in ("k", "center")}
        return pencil(*centred(case), **parameters)

    def joined(solution: Any) -> Array:
        blocks: list[Array] = []
        for name in vectors:
            block = attrgetter(name)(solution)
            blocks += block if isinstance(block, tuple) else [block]
        return np.vstack(blocks)

    def exact(case: Case) -> Arrays:
        A, B = stated(case)
        eigenvalues, W, _ = spectrum(A, B)
        k = min(case.parameters["k"], int(np.sum(eigenvalues > NULL * eigenvalues[0])))
        BW = B @ W[:, :k]  # parts of w in the null space of B are free
        return {values: eigenvalues[:k] ** (1 / power), span: length * BW @ BW.T}

    def seen(case: Case, solution: Any) -> Arrays:
        _, B = stated(case)
        BW = B @ joined(solution)
        return {values: getattr(solution, values), span: BW @ BW.T}

    def residual(case: Case, solution: Any) -> float:
        A, B = stated(case)
        W, F = joined(solution), spectrum(A, B)[2]
        off = A @ W - B @ W * getattr(solution, values) ** power
        share = float(np.linalg.norm(F.T @ off) / np.linalg.norm(F.T @ A @ W))
        return share**2 if words.get("squared") else share

    words = {"residual": residual, **words}
    return Reference(exact=exact, seen=seen, arrays=vectors[0], signs=True, **words)


def of_one(A: Array) -> Pencil:
    """Return the pencil of the singular values of a matrix: AᵀA v = σ² v."""
    return A.T @ A, np.eye(A.shape[1])


def of_covariances(X: Array, Y: Array) -> Pencil:
    """Return the pencil of the singular values of XᵀY."""
    return second_moments(X, Y)[0], np.eye(X.shape[1] + Y.shape[1])


def of_several(*views: Array, ridge: Any = 0.0) -> Pencil:
    """Return the pencil of MAXVAR: the metrics are on the diagonal of A, too."""
    cross, metric = second_moments(*views, ridge=ridge)
    return cross + metric, metric


def of_targets(X: Array, H: Array, ridge: float = 0.0) -> Pencil:
    """Return the pencil of discriminants: XᵀH HᵀX w = λ (XᵀX + r) w."""
    return X.T @ H @ H.T @ X, X.T @ X + ridge * np.eye(X.shape[1])


PAIR = "x_weights", "y_weights"
SVD = spectral(of_one, cases=cases(8, ridge=0, k=3), values="S", vectors=("Vh.T",), root=True)
INCOMPLETE_PCA = Reference(  # without missing entries: eigenvalues of the covariance matrix
    cases=lambda: [case for case in cases(8, center=False, ridge=0, k=3)() if case.gentle],
    exact=lambda case: {"values": SVD.exact(case.changed(center=True))["S"] ** 2 / len(case.matrices[0])},
    seen=lambda _, s: {"values": s.explained_variance},
    arrays="weights",
    signs=True,
    gaps=True,
)
CCA = spectral(
    second_moments,
    cases=cases(8, 6, k=3),
    values="correlations",
    vectors=PAIR,
    length=2.0,
    squared=True,
    options={"tol": 1e-7},
)
PLS = spectral(
    of_covariances, cases=cases(8, 6, ridge=0, k=3), values="singular_values", vectors=PAIR, length=2.0
)
MULTISET = spectral(
    of_several, cases=cases(8, 6, 5, k=3), values="eigenvalues", vectors=("weights",), several=True
)
SUMCOR = spectral(
    second_moments, cases=cases(8, 6, k=3), values="sums", vectors=("weights",), length=2.0, several=True
)
"""For two views the components are the canonical pairs; for more there are local maxima, which no reference knows."""
SPARSE_PLS = spectral(
    of_covariances,
    cases=cases(8, 6, ridge=0, k=3),
    values="values",
    vectors=PAIR,
    length=2.0,
    residual=None,
)
SPARSE_PCA = spectral(
    of_one, cases=cases(8, ridge=0, k=3), values="values", vectors=("weights",), residual=None
)
SPARSE_CCA = spectral(
    second_moments,
    cases=lambda: cases(8, 6, ridge=0, k=3)()[:4],
    values="values",
    vectors=PAIR,
    length=2.0,
    residual=None,
    options={"tol": 1e-7},
)
"""Without bounds the components are singular vectors and canonical pairs; others have local maxima."""
DISCRIMINANT = spectral(
    of_targets,
    cases=cases(8, 5, k=3),
    values="eigenvalues",
    vectors=("weights",),
    companions=(1,),
    scaled=(0,),
)
REDUCED_RANK = spectral(
    of_targets,
    cases=cases(8, 5, k=3),
    values="singular_values",
    vectors=("weights",),
    root=True,
    companions=(1,),
)

# ---- linear systems -------------------------------------------------------------------------------


def largest_share(off: Array, size: Array) -> float:
    """Return the largest length of a column of `off`, in units of the same column of `size`."""
    lengths, sizes = (np.linalg.norm(block, axis=0) for block in (off, size))
    return float(np.max(lengths[sizes > 0] / sizes[sizes > 0], initial=0.0))


def least_squares(case: Case) -> Arrays:
    """Return the x of least norm that minimizes ‖A x − B‖² + r ‖x‖², as least squares with r^½ I below A."""
    A, B = centred(case)
    p = A.shape[1]
    above = np.vstack([A, case.parameters.get("ridge", 0.0) ** 0.5 * np.eye(p)])
    right = np.vstack([B, np.zeros((p, B.shape[1]))])
    return {"x": np.linalg.lstsq(above, right, rcond=1e-9)[0]}


def gradient(case: Case, solution: Any) -> float:
    """Return ‖Aᵀ(B − A x) − r x‖ / ‖AᵀB‖."""
    A, B = centred(case)
    off = A.T @ (B - A @ solution.x) - case.parameters.get("ridge", 0.0) * solution.x
    return largest_share(off, A.T @ B)


LEAST_SQUARES = Reference(
    cases=cases(8, 2),
    exact=least_squares,
    seen=attributes("x"),
    arrays="x",
    residual=gradient,
    companions=(1,),
    scaled=(0,),
)


def banded_ridge(X: Array, Y: Array, ridge: float, gamma: Array) -> Array:
    """Return the W that minimizes ‖Y − X W‖² + r Σ w²/γ: with D = X diag(γ), W = Dᵀ (D Xᵀ + r I)⁻¹ Y."""
    D = X * gamma
    return np.asarray(D.T @ np.linalg.solve(D @ X.T + ridge * np.eye(len(X)), Y))


def held_out_r2(case: Case, ridge: float, gamma: Array) -> Any:
    """Return the mean R² of a ridge and of weights of columns over folds of successive rows, for each target."""
    (X, Y), scores = case.matrices, []
    for rows in np.array_split(np.arange(len(X)), case.parameters["splitter"]):
        A, B = np.delete(X, rows, axis=0), np.delete(Y, rows, axis=0)
        level, mean = (M.mean(axis=0) if case.parameters["center"] else 0.0 for M in (B, A))
        off = Y[rows] - level - (X[rows] - mean) @ banded_ridge(A - mean, B - level, ridge, gamma)
        scores.append(1 - np.sum(off**2, axis=0) / np.sum((Y[rows] - Y[rows].mean(axis=0)) ** 2, axis=0))
    return np.mean(scores, axis=0)


def many_targets(case: Case) -> Arrays:
    """Return for each target the best held-out score of all ridges and weights of bands, and the weights of its fit."""
    X, Y = centred(case)
    best = np.full(Y.shape[1], -np.inf)
    weights = np.zeros((X.shape[1], Y.shape[1]))
    for band_weights, ridge in product(case.parameters["band_weights"], case.parameters["ridges"]):
        gamma = np.array(band_weights)[case.parameters.get("bands", 0)]
        scores = held_out_r2(case, ridge, gamma)
        weights = np.where(scores > best, banded_ridge(X, Y, ridge, gamma), weights)
        best = np.maximum(scores, best)
    return {"weights": weights, "scores": best}


def banded_cases() -> list[Case]:
    """Return a case with one candidate, and cases in which the second half of the columns is a band of its own."""
    single = cases(8, 5, ridge=0, ridges=(10.0,), band_weights=((1.0,),), splitter=3)()[0]
    several = cases(
        8, 5, ridge=0, ridges=(1.0, 10.0, 100.0), band_weights=((0.5, 0.5), (0.9, 0.1)), splitter=3
    )
    columns = [(case, case.matrices[0].shape[1]) for case in several()]
    return [single, *(case.changed(bands=[int(2 * j >= p) for j in range(p)]) for case, p in columns)]


MANY_TARGETS = Reference(
    cases=banded_cases,
    exact=many_targets,
    seen=lambda _, s: {"weights": s.coefficients(), "scores": s.scores},
    arrays="weights",
    companions=(1,),
    scaled=(0,),
)


def signed(W: Array) -> Any:
    """Return the columns with a positive sum of cubes."""
    return W * np.sign(np.sum(W**3, axis=0))


def deflated(case: Case) -> Arrays:
    """Return the weights w of the components: the leading left singular vector of XᵀY; then t = X w leaves X."""
    X, Y = centred(case)
    components = []
    for _ in range(case.parameters["k"]):
        w = np.linalg.svd(X.T @ Y)[0][:, 0]
        components.append(w)
        t = X @ w
        X = X - np.outer(t, t @ X) / (t @ t)
    return {"x_weights": signed(np.column_stack(components))}


PLS_REGRESSION = Reference(
    cases=cases(8, 5, ridge=0, k=3),
    exact=deflated,
    seen=lambda _, s: {"x_weights": signed(s.x_weights)},
    arrays="x_weights",
    companions=(1,),
)

# ---- kernels and nets -----------------------------------------------------------------------------


def gaussian(X: Array) -> Array:
    """Return the kernel matrix exp(−d²/2s²) of the distances d of rows, whose median is s."""
    distances = pdist(X)
    return np.asarray(np.exp(-(squareform(distances / np.median(distances)) ** 2) / 2))


def of_kernels(X: Array, Y: Array, ridge: float, kernel_x: str) -> Pencil:  # noqa: ARG001
    """Return the pencil of kernel CCA for the coefficients of all rows, with features that are centred."""
    C = np.eye(len(X)) - 1 / len(X)
    K, L = (C @ gaussian(M) @ C for M in (X, Y))
    return second_moments(K, L)[0], scipy.linalg.block_diag(K @ K + ridge * K, L @ L + ridge * L)


ALL_ROWS = spectral(
    of_kernels,
    cases=lambda: [Case("gaussian", planted(60, 5, 4), {"k": 3, "kernel_x": "rbf", "ridge": 1.0}, 1e-5)],
    values="correlations",
    vectors=PAIR,
    length=2.0,
    squared=True,
    pairwise=True,
)


def of_all_rows(case: Case, solution: Any) -> float:
    """Return the residual of functions of all rows; that of other functions has no definition here."""
    if ALL_ROWS.residual is None or solution.residual_kind != "recomputed":
        return math.nan
    return ALL_ROWS.residual(case, solution)


KERNEL_CCA = replace(ALL_ROWS, seen=attributes("correlations"), residual=of_all_rows, signs=False)
PREIMAGE = replace(
    CCA,
    cases=lambda: [Case("linear", planted(60, 8, 6), {"k": 2, "kernel_x": "linear", "center": True}, 1e-3)],
    exact=lambda case: CCA.exact(replace(case, parameters={"k": 2, "center": True})),
    seen=attributes("correlations"),
    residual=None,
    squared=False,
    arrays="x_preimages",
    signs=False,
    options={},
)
"""With linear kernels and points of length one, the pairs are the canonical ones."""


def kernel_system(case: Case) -> Pencil:
    """Return K + r I and Y, of the system that the dual coefficients solve."""
    X, Y = case.matrices
    return gaussian(X) + case.parameters["ridge"] * np.eye(len(X)), Y


def dual_residual(case: Case, solution: Any) -> float:
    """Return ‖Y − (K + r I) a‖ / ‖Y‖."""
    M, Y = kernel_system(case)
    return largest_share(Y - M @ solution.dual, Y)


KERNEL_RIDGE = Reference(
    cases=lambda: [Case("gaussian", planted(60, 5, 2), {"kernel": "rbf", "ridge": 0.5})],
    exact=lambda case: {"dual": np.linalg.solve(*kernel_system(case))},
    seen=attributes("dual"),
    arrays="dual",
    residual=dual_residual,
    companions=(1,),
    pairwise=True,
)
DEEP_CCA = Reference(
    cases=lambda: [Case("planted", planted(100, 6, 5), {"k": 2})],
    exact=lambda _: {"correlations": np.ones(2)},
    seen=attributes("correlations"),
    options={"tol": 1e-9, "width": 16, "epochs": 60, "step": 0.01},
    pairwise=True,
    missing="" if importlib.util.find_spec("torch") else "no torch",
)
"""Views with variables in common have features of correlation one, but for noise; solvers are approximate."""
