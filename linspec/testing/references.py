"""One reference for each kind of problem: small cases, the exact answer by its definition, and the residual.

Problem: a solver may return the answer to another problem, with a residual of zero.
Method: dense NumPy and SciPy. Most problems are pencils A w = λ B w, which `spectral` solves in the metric of B; the
other references are written out. What an answer may choose freely is taken out of the comparison: of vectors W the
matrix W Wᵀ is compared, so neither signs nor turns within repeated values matter.
Source: Golub & Van Loan 2013, Matrix Computations; the definitions stand in the docstrings of the problems.
Where we differ: nothing of linspec is imported but the class of a reference, so that both cannot share a fault.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.linalg
import scipy.spatial.distance

__all__ = ["Case", "Reference", "cases", "planted", "second_moments", "spectral"]

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Pencil = Callable[..., tuple[Array, Array]]

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
        Takes a case and a solution, and returns the residual as the problem defines it.
    squared : bool, default False
        Whether an error of the answer is of the size of the root of the residual.
    arrays : str, default ""
        The attribute of an answer whose arrays are of the library of the data, such as "weights".
    signs : bool, default False
        Whether the largest entry of each of its columns is positive.
    tol : float or None, default 1e-9
        The tolerance that iterative solvers get; None for their usual one.
    quick : mapping of str, optional
        Options that make the runs of solvers short, where they have them.
    several : bool, default False
        Whether the problem takes its matrices as one list.
    companions : tuple of int, default ()
        The positions of matrices that stay arrays, whatever the kind of data, such as right-hand sides.
    scaled : tuple of int, optional
        The positions of the matrices whose columns ``scale=True`` divides; by default all.
    unitless : bool, default False
        Whether data are taken in all units, since the problem divides by their size.
    pairwise : bool, default False
        Whether the problem is allowed memory in proportion to the square of the number of rows.
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
    tol: float | None = 1e-9
    quick: Mapping[str, Any] = field(default_factory=dict)
    several: bool = False
    companions: tuple[int, ...] = ()
    scaled: tuple[int, ...] | None = None
    unitless: bool = False
    pairwise: bool = False
    missing: str = ""


def attributes(*names: str) -> Callable[[Case, Any], Arrays]:
    """Return a `seen` that has attributes of an answer."""
    return lambda _, solution: {name: getattr(solution, name) for name in names}


# ---- data -----------------------------------------------------------------------------------------


def planted(n: int, *columns: int, seed: int = 0) -> tuple[Array, ...]:
    """Make matrices of n rows that have four variables in common, with noise and means.

    Examples
    --------
    >>> from linspec.testing import planted
    >>> [X.shape for X in planted(20, 5, 3)]
    [(20, 5), (20, 3)]
    """
    rng = np.random.default_rng([seed, n, *columns])
    common = rng.standard_normal((n, len(STRENGTHS))) * STRENGTHS
    mixed = [common @ np.linalg.qr(rng.standard_normal((p, len(STRENGTHS))))[0].T for p in columns if p >= 4]
    mixed += [common @ rng.standard_normal((len(STRENGTHS), p)) / 2 for p in columns if p < 4]
    return tuple(X + 0.5 * rng.standard_normal(X.shape) + rng.standard_normal(X.shape[1]) for X in mixed)


def cases(
    *columns: int, center: bool = True, ridge: float = 5.0, **parameters: Any
) -> Callable[[], tuple[Case, ...]]:
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
    ['tall', 'as they are', 'large means', 'dependent columns', 'wide']
    """

    def made() -> tuple[Case, ...]:
        given: dict[str, Any] = {**parameters, **({"center": True} if center else {})}
        tall = planted(60, *columns)
        apart = [Case("as they are", tall, {**given, "center": False})] if center else []
        far = [Case("large means", tuple(X + 1e4 for X in tall), given, 1e-5)] if center else []
        twice = Case(
            "dependent columns", tuple(np.hstack([X, X[:, :1]]) for X in tall), given, 1e-6, gentle=False
        )
        more = {"ridge": ridge} if ridge else {}
        wide = Case("wide", planted(20, *(4 * p for p in columns)), {**given, **more}, 1e-6)
        return (Case("tall", tall, given), *apart, *far, twice, wide)

    return made


# ---- pencils --------------------------------------------------------------------------------------


def centred(case: Case) -> list[Array]:
    """Subtract the means of the columns if the problem centres."""
    return [X - X.mean(axis=0) if case.parameters.get("center") else X for X in case.matrices]


def second_moments(*matrices: Array, ridge: Any = 0.0) -> tuple[Array, Array]:
    """Return the products of different matrices, XᵢᵀXⱼ with zeros on the diagonal, and the metrics XᵢᵀXᵢ + rᵢI.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import second_moments
    >>> second_moments(np.eye(2), 2 * np.eye(2))[0][0]
    array([0., 0., 2., 0.])
    """
    Z = np.hstack(matrices)
    ridges = np.repeat(np.broadcast_to(ridge, len(matrices)), [X.shape[1] for X in matrices])
    apart = scipy.linalg.block_diag(*(X.T @ X for X in matrices))
    return Z.T @ Z - apart, apart + np.diag(ridges)


def spectrum(A: Array, B: Array) -> tuple[Array, Array, Array]:
    """Return λ and W of A w = λ B w in decreasing order with WᵀBW = I, and F with FᵀBF = I on the range of B."""
    size = (
        np.sqrt(np.where(np.diag(B) > 0, np.diag(B), 1.0))
        if np.linalg.cond(B) < 1 / NULL
        else np.ones(len(B))
    )
    lengths, V = np.linalg.eigh(B / np.outer(size, size))
    kept = lengths > NULL * lengths[-1]
    F = V[:, kept] / np.sqrt(lengths[kept]) / size[:, None]
    values, U = np.linalg.eigh(F.T @ A @ F)
    return values[::-1], F @ U[:, ::-1], F


def spectral(
    pencil: Pencil,
    *,
    cases: Callable[[], Sequence[Case]],
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
    cases : callable
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
        Further attributes of `Reference`.

    Examples
    --------
    >>> from linspec.testing import cases, second_moments, spectral
    >>> reference = spectral(
    ...     second_moments, cases=cases(8, 6, k=3), values="correlations", vectors=("x_weights", "y_weights")
    ... )
    >>> reference.exact(reference.cases()[0])["correlations"].shape
    (3,)
    """
    span = " and ".join(vectors)

    def of(case: Case) -> tuple[Array, Array]:
        known = {name: value for name, value in case.parameters.items() if name not in ("k", "center")}
        return pencil(*centred(case), **known)

    def exact(case: Case) -> Arrays:
        A, B = of(case)
        found, W, _ = spectrum(A, B)
        count = min(case.parameters["k"], int(np.sum(found > NULL * found[0])))
        image = B @ W[:, :count]  # parts of w in the null space of B are free
        return {values: found[:count] ** (0.5 if root else 1.0), span: length * image @ image.T}

    def joined(solution: Any) -> Array:
        parts = [attrgetter(name)(solution) for name in vectors]
        return np.vstack([np.vstack(part) if isinstance(part, tuple) else part for part in parts])

    def seen(case: Case, solution: Any) -> Arrays:
        image = of(case)[1] @ joined(solution)
        return {values: getattr(solution, values), span: image @ image.T}

    def residual(case: Case, solution: Any) -> float:
        (A, B), W = of(case), joined(solution)
        F = spectrum(A, B)[2]
        off = A @ W - B @ W * getattr(solution, values) ** (2 if root else 1)
        share = float(np.linalg.norm(F.T @ off) / np.linalg.norm(F.T @ (A @ W)))
        return share**2 if words.get("squared") else share

    return Reference(
        cases=cases, exact=exact, seen=seen, residual=residual, arrays=vectors[0], signs=True, **words
    )


def of_one(A: Array) -> tuple[Array, Array]:
    """Return the pencil of the singular values of a matrix: AᵀA v = σ² v."""
    return A.T @ A, np.eye(A.shape[1])


def of_covariances(X: Array, Y: Array) -> tuple[Array, Array]:
    """Return the pencil of the singular values of XᵀY."""
    return second_moments(X, Y)[0], np.eye(X.shape[1] + Y.shape[1])


def of_several(*views: Array, ridge: Any = 0.0) -> tuple[Array, Array]:
    """Return the pencil of MAXVAR: the metrics are on the diagonal of A, too."""
    cross, metric = second_moments(*views, ridge=ridge)
    return cross + metric, metric


def of_targets(X: Array, H: Array, ridge: float = 0.0) -> tuple[Array, Array]:
    """Return the pencil of discriminants: XᵀH HᵀX w = λ (XᵀX + r) w."""
    return X.T @ H @ H.T @ X, X.T @ X + ridge * np.eye(X.shape[1])


PAIR = "x_weights", "y_weights"
SVD = spectral(of_one, cases=cases(8, ridge=0, k=3), values="S", vectors=("Vh.T",), root=True)
CCA = spectral(
    second_moments,
    cases=cases(8, 6, k=3),
    values="correlations",
    vectors=PAIR,
    length=2.0,
    squared=True,
    tol=1e-7,
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
PREIMAGE = replace(
    CCA,
    cases=lambda: [Case("linear", planted(60, 8, 6), {"k": 2, "kernel_x": "linear", "center": True}, 1e-3)],
    exact=lambda case: CCA.exact(replace(case, parameters={"k": 2, "center": True})),
    seen=attributes("correlations"),
    residual=None,
    squared=False,
    arrays="x_preimages",
    signs=False,
    tol=None,
    unitless=True,
)
"""With linear kernels and points of length one, the pairs are the canonical ones."""
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


def _relative(off: Array, size: Array) -> float:
    """Return the largest length of a column of `off` over that of the same column of `size`."""
    lengths = np.linalg.norm(size, axis=0)
    return float(np.max(np.linalg.norm(off, axis=0)[lengths > 0] / lengths[lengths > 0], initial=0.0))


def _least_squares(case: Case) -> Arrays:
    (A, B), ridge = centred(case), case.parameters.get("ridge", 0.0)
    above = np.vstack([A, np.sqrt(ridge) * np.eye(A.shape[1])])
    return {"x": np.linalg.lstsq(above, np.vstack([B, np.zeros((A.shape[1], B.shape[1]))]), rcond=1e-9)[0]}


def _gradient(case: Case, solution: Any) -> float:
    A, B = centred(case)
    off = A.T @ (B - A @ solution.x) - case.parameters.get("ridge", 0.0) * solution.x
    return _relative(off, A.T @ B)


LEAST_SQUARES = Reference(
    cases=cases(8, 2),
    exact=_least_squares,
    seen=attributes("x"),
    arrays="x",
    residual=_gradient,
    companions=(1,),
    scaled=(0,),
)


def _folds(case: Case, ridge: float, gamma: Array) -> Array:
    """Return the mean R² of a ridge and of weights of columns over folds of successive rows, for each target."""
    (X, Y), parameters = case.matrices, case.parameters
    total = np.zeros(Y.shape[1])
    for rows in np.array_split(np.arange(len(X)), parameters["splitter"]):
        A, B = np.delete(X, rows, axis=0), np.delete(Y, rows, axis=0)
        mean, level = A.mean(axis=0) * parameters["center"], B.mean(axis=0) * parameters["center"]
        off = Y[rows] - level - (X[rows] - mean) @ _fit(A - mean, B - level, ridge, gamma)
        total += 1 - np.sum(off**2, axis=0) / np.sum((Y[rows] - Y[rows].mean(axis=0)) ** 2, axis=0)
    scores: Array = total / parameters["splitter"]
    return scores


def _fit(X: Array, Y: Array, ridge: float, gamma: Array) -> Array:
    """Return the coefficients of min ‖Y − X W‖² + r Σ w²/γ."""
    D = X * gamma
    W: Array = D.T @ np.linalg.solve(D @ X.T + ridge * np.eye(len(X)), Y)
    return W


def _many_targets(case: Case) -> Arrays:
    (X, Y), known = centred(case), case.parameters
    settings = [
        (r, np.asarray(w)[known.get("bands", 0)]) for w in known["band_weights"] for r in known["ridges"]
    ]
    scores = np.array([_folds(case, *each) for each in settings])
    best = scores.argmax(axis=0)
    columns = [_fit(X, Y[:, [j]], *settings[i]) for j, i in enumerate(best)]
    return {"weights": np.hstack(columns), "scores": scores.max(axis=0)}


def _banded() -> list[Case]:
    """Return a case with one candidate, and cases in which the first half of the columns is a band."""
    one: dict[str, Any] = {"ridges": (10.0,), "band_weights": ((1.0,),), "splitter": 3}
    several = {**one, "ridges": (1.0, 10.0, 100.0), "band_weights": ((0.5, 0.5), (0.9, 0.1))}
    banded = [
        replace(case, parameters={**case.parameters, "bands": [int(2 * j >= p) for j in range(p)]})
        for case in cases(8, 5, ridge=0, **several)()
        for p in [case.matrices[0].shape[1]]
    ]
    return [*cases(8, 5, ridge=0, **one)()[:1], *banded]


MANY_TARGETS = Reference(
    cases=_banded,
    exact=_many_targets,
    seen=lambda _, s: {"weights": s.coefficients(), "scores": s.scores},
    arrays="weights",
    companions=(1,),
    scaled=(0,),
)


def _signed(W: Array) -> Array:
    """Return the columns with a positive sum of cubes."""
    signed: Array = W * np.sign(np.sum(W**3, axis=0))
    return signed


def _deflated(case: Case) -> Array:
    """Return the weights of the components: the leading left singular vector of XᵀY, which then leaves X."""
    (X, Y), found = centred(case), list[Array]()
    for _ in range(case.parameters["k"]):
        w = np.linalg.svd(X.T @ Y)[0][:, 0]
        found.append(w)
        t = X @ w
        X = X - np.outer(t, t @ X) / (t @ t)
    return _signed(np.column_stack(found))


PLS_REGRESSION = Reference(
    cases=cases(8, 5, ridge=0, k=3),
    exact=lambda case: {"x_weights": _deflated(case)},
    seen=lambda _, s: {"x_weights": _signed(s.x_weights)},
    arrays="x_weights",
    companions=(1,),
)

# ---- kernels and nets -----------------------------------------------------------------------------


def _gaussian(X: Array) -> Array:
    """Return the kernel matrix of the Gaussian whose scale is the median distance of rows."""
    distances = scipy.spatial.distance.pdist(X)
    found: Array = np.exp(
        -(scipy.spatial.distance.squareform(distances) ** 2) / (2 * np.median(distances) ** 2)
    )
    return found


def of_kernels(X: Array, Y: Array, ridge: float, kernel_x: str = "") -> tuple[Array, Array]:  # noqa: ARG001
    """Return the pencil of kernel CCA for the coefficients of all rows, with features that are centred."""
    K, L = (K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean() for K in map(_gaussian, (X, Y)))
    return second_moments(K, L)[0], scipy.linalg.block_diag(K @ K + ridge * K, L @ L + ridge * L)


_OF_ALL_ROWS = spectral(
    of_kernels,
    cases=lambda: [Case("gaussian", planted(60, 5, 4), {"k": 3, "kernel_x": "rbf", "ridge": 1.0}, 1e-5)],
    values="correlations",
    vectors=PAIR,
    length=2.0,
    squared=True,
    pairwise=True,
)


def _of_all_rows(case: Case, solution: Any) -> float:
    """Return the residual of functions of all rows; that of other functions has no definition here."""
    known = _OF_ALL_ROWS.residual
    return known(case, solution) if known and solution.residual_kind == "recomputed" else float("nan")


KERNEL_CCA = replace(
    _OF_ALL_ROWS,
    seen=attributes("correlations"),
    residual=_of_all_rows,
    signs=False,
)


def _kernel_system(case: Case) -> tuple[Array, Array]:
    X, Y = case.matrices
    return _gaussian(X) + case.parameters["ridge"] * np.eye(len(X)), Y


KERNEL_RIDGE = Reference(
    cases=lambda: [Case("gaussian", planted(60, 5, 2), {"kernel": "rbf", "ridge": 0.5})],
    exact=lambda case: {"dual": np.linalg.solve(*_kernel_system(case))},
    seen=attributes("dual"),
    arrays="dual",
    residual=lambda case, s: _relative(
        _kernel_system(case)[1] - _kernel_system(case)[0] @ s.dual, case.matrices[1]
    ),
    companions=(1,),
    pairwise=True,
)
DEEP_CCA = Reference(
    cases=lambda: [Case("planted", planted(100, 6, 5), {"k": 2})],
    exact=lambda _: {"correlations": np.ones(2)},
    seen=attributes("correlations"),
    quick={"width": 16, "epochs": 60, "step": 0.01},
    pairwise=True,
    missing="" if importlib.util.find_spec("torch") else "no torch",
)
"""Views with variables in common have features of correlation one, but for noise; solvers are approximate."""
