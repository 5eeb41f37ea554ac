"""What every problem's answer must be, by dense matrices in float64, straight from the statement of the problem.

Method: rows are adjusted as the problem says (`Adjusted`), metrics are whitened by an SVD, and what is left is one
small SVD or eigenproblem. `exact` gives the leading values, more of them than are asked for, and the scores or
predictions of later rows, whatever a solution calls its weights. Without a unique optimum (SUMCOR) many starts of a
textbook iteration give the best value. Nets have no oracle.
Source: Björck & Golub 1973 for canonical correlations; Sun, Ceran & Ye 2010 for discriminants; Kettenring 1971 for
several views; de Jong 1993 for PLS regression; Schölkopf & Smola 2002 for kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.spatial.distance

from record.cases import RIDGES, SCALE, Case


@dataclass(frozen=True)
class Exact:
    """Leading values; scores (or predictions) of later rows, a column a component; left vectors of an SVD."""

    values: Any
    scores: Any = None
    predictions: bool = False
    left: Any = None


class Adjusted:
    """Rows less means and confounds, divided by their scale, times the roots of their weights."""

    def __init__(self, A: Any, case: Case, scale: bool | None = None, rows: Any = slice(None)) -> None:
        self.origin = A[0].astype(float) if case.center else 0.0
        self.center = case.center
        kept = [None if each is None else each[rows] for each in (case.sample_weight, case.confounds)]
        w = np.ones(len(A[rows])) if kept[0] is None else kept[0]
        D = self._design(len(w), kept[1])
        root = np.sqrt(w)[:, None]
        near = A[rows].astype(float) - self.origin
        self.slopes = np.linalg.pinv(root * D) @ (root * near)
        rest = near - D @ self.slopes
        scaled = case.scale if scale is None else scale
        self.factor = np.sqrt(w @ rest**2 / w.sum()) if scaled else np.ones(A.shape[1])
        self.root, self.P = root, root * rest / self.factor

    def explained(self, rows: int, confounds: Any) -> Any:
        """What means and confounds alone predict."""
        return self.origin + self._design(rows, confounds) @ self.slopes

    def later(self, A: Any, confounds: Any) -> Any:
        """Other rows, adjusted as these were."""
        near = A.astype(float) - self.origin
        return (near - self._design(len(A), confounds) @ self.slopes) / self.factor

    def _design(self, rows: int, confounds: Any) -> Any:
        constant = np.ones((rows, int(self.center)))
        return constant if confounds is None else np.hstack([constant, confounds])


def exact(problem: str, case: Case, k: int = 3) -> Exact | None:
    """The answer of a problem on a case; None where nobody knows one."""
    later, confounds = case.later(problem)
    if problem == "deep-cca":
        return None
    if problem in {"kernel-cca", "kernel-ridge"}:
        return _of_features(problem, case, later)
    return _linear(problem, case, later, confounds, k)


def _linear(problem: str, case: Case, later: list[Any], confounds: Any, k: int) -> Exact:
    one_scaled = problem in {"least-squares", "ridge-many-targets"}
    rows = [Adjusted(A, case, False if one_scaled and i else None) for i, A in enumerate(case.views)]
    X, Y, _ = rows
    new = [each.later(A, confounds) for each, A in zip(rows, later, strict=True)]
    if problem == "svd":
        U, s, Vt = _svd(X.P)
        return Exact(s, new[0] @ Vt.T, left=U)
    if problem in {"cca", "preimage-cca"}:
        ridge = case.ridge if problem == "cca" else 0.0
        (Qx, Tx), (Qy, Ty) = (_whitened(each.P, ridge) for each in (X, Y))
        U, s, Vt = _svd(Qx.T @ Qy)
        return Exact(s, np.vstack([new[0] @ Tx @ U, new[1] @ Ty @ Vt.T]))
    if problem == "discriminant":
        Q, T = _whitened(X.P, case.ridge)
        U, s, _ = _svd(Q.T @ (X.root * _indicators(case)))
        return Exact(s**2, new[0] @ T @ U)
    if problem == "pls":
        U, s, Vt = _svd(X.P.T @ Y.P)
        return Exact(s, np.vstack([new[0] @ U, new[1] @ Vt.T]))
    if problem in {"multiset-cca", "sumcor-cca"}:
        return _several([_whitened(each.P, case.ridge) for each in rows], new, problem)
    values, B = _regression(problem, case, X, Y, k)
    fitted = Y.explained(len(later[0]), confounds)
    return Exact(values, fitted + (new[0] @ B) * Y.factor, predictions=True)


def _svd(A: Any) -> tuple[Any, Any, Any]:
    U, s, Vt = scipy.linalg.svd(A, full_matrices=False)
    return U, s, Vt


def _whitened(P: Any, ridge: float) -> tuple[Any, Any]:
    """Q = P T with QᵀQ + ridge TᵀT = I over the numerical rank, and T, in the span of the rows."""
    U, s, Vt = _svd(P)
    keep = s > s[0] * max(P.shape) * np.finfo(float).eps
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    length = np.sqrt(s**2 + ridge)
    return U * (s / length), Vt.T / length


def _indicators(case: Case) -> Any:
    hot = (case.classes[:, None] == np.unique(case.classes)).astype(float)
    w = np.ones(len(hot)) if case.sample_weight is None else case.sample_weight
    return hot / np.sqrt(w @ hot)


def _several(views: list[tuple[Any, Any]], new: list[Any], problem: str) -> Exact:
    """Several whitened views: the eigenproblem of MAXVAR, or many starts of Horst's iteration for SUMCOR."""
    Q = np.hstack([each for each, _ in views])
    cuts = np.cumsum([each.shape[1] for each, _ in views])[:-1]
    C = Q.T @ Q
    for block in np.split(np.arange(len(C)), cuts):
        C[np.ix_(block, block)] = np.eye(len(block))
    if problem == "multiset-cca":
        values, Z = (each[..., ::-1] for each in scipy.linalg.eigh(C))
        parts = zip(new, views, np.split(Z, cuts), strict=True)
        return Exact(values, np.vstack([A @ T @ z for A, (_, T), z in parts]))
    rng, sums, bases = np.random.default_rng(5), [], [np.eye(each.shape[1]) for each, _ in views]
    for _ in range(2):
        F = scipy.linalg.block_diag(*bases)
        total, best = max((_horst(F.T @ C @ F, bases, rng) for _ in range(30)), key=lambda each: each[0])
        sums.append(total)
        bases = [B @ scipy.linalg.null_space(z[None]) for B, z in zip(bases, best, strict=True)]
    return Exact(np.array(sums))


def _horst(C: Any, bases: list[Any], rng: Any) -> tuple[float, list[Any]]:
    """A local maximum of SUMCOR, and its vectors of length one."""
    cuts = np.cumsum([B.shape[1] for B in bases])[:-1]
    z = np.split(rng.standard_normal(len(C)), cuts)
    for _ in range(300):
        for i in range(len(z)):
            z[i] = 0 * z[i]
            g = np.split(C @ np.concatenate(z), cuts)[i]
            z[i] = g / np.linalg.norm(g)
    joint = np.concatenate(z)
    return float(joint @ C @ joint - len(z)) / 2, z


def _regression(problem: str, case: Case, X: Adjusted, Y: Adjusted, k: int) -> tuple[Any, Any]:
    """Values and coefficients, in adjusted units."""
    if problem == "ridge-many-targets":
        return _many_targets(case, X, Y)
    Q, T = _whitened(X.P, 0.0 if problem == "pls-regression" else case.ridge)
    if problem == "least-squares":
        return np.zeros(0), T @ (Q.T @ Y.P)
    if problem == "reduced-rank-regression":
        U, s, Vt = _svd(Q.T @ Y.P)
        return s, (T @ U[:, :k] * s[:k]) @ Vt[:k]
    E, W, values = X.P.copy(), [], []
    for _ in range(k):
        U, s, _ = _svd(E.T @ Y.P)
        W.append(U[:, 0])
        values.append(s[0])
        t = E @ U[:, 0]
        E = E - np.outer(t, t @ E) / (t @ t)
    W = np.column_stack(W)
    return np.array(values), W @ scipy.linalg.lstsq(X.P @ W, Y.P)[0]


def _many_targets(case: Case, X: Adjusted, Y: Adjusted) -> tuple[Any, Any]:
    """The ridge of each target by the mean R² of five folds of successive rows."""
    scores = np.zeros((len(RIDGES), Y.P.shape[1]))
    for fold in np.array_split(np.arange(len(X.P)), 5):
        train = np.setdiff1d(np.arange(len(X.P)), fold)
        x, y = (Adjusted(A, case, scale, train) for A, scale in zip(case.views, (None, False), strict=False))
        confounds = None if case.confounds is None else case.confounds[fold]
        rest, target = x.later(case.views[0][fold], confounds), y.later(case.views[1][fold], confounds)
        w = np.ones(len(fold)) if case.sample_weight is None else case.sample_weight[fold]
        total = w @ (target - w @ target / w.sum()) ** 2
        varies = total > 1e-20 * w.sum()
        for i, ridge in enumerate(RIDGES):
            Q, T = _whitened(x.P, ridge)
            errors = w @ (target - rest @ T @ (Q.T @ y.P)) ** 2
            scores[i, varies] += 1 - errors[varies] / total[varies]
    best = scores.argmax(axis=0)
    every = np.array([T @ (Q.T @ Y.P) for Q, T in (_whitened(X.P, ridge) for ridge in RIDGES)])
    return np.array(RIDGES)[best], every[best, :, np.arange(len(best))].T


def _of_features(problem: str, case: Case, later: list[Any]) -> Exact:
    """A kernel method is the linear one on features whose products are the values of the kernel."""
    views, new = [], []
    for A, B in zip(case.views, later, strict=True):
        values, U = scipy.linalg.eigh(_rbf(A, A))
        keep = values > 1e-13 * values[-1]
        views.append(U[:, keep] * np.sqrt(values[keep]))
        new.append(_rbf(B, A) @ U[:, keep] / np.sqrt(values[keep]))
    if problem == "kernel-ridge":
        views[1], new[1] = case.views[1], later[1]
    linear = replace(case, views=tuple(views), ridge=1.0, scale=False, confounds=None)
    return _linear("cca" if problem == "kernel-cca" else "least-squares", linear, new, None, 3)


def _rbf(A: Any, B: Any) -> Any:
    A, B = A.astype(float) - B[0], B.astype(float) - B[0]
    return np.exp(-scipy.spatial.distance.cdist(A, B, "sqeuclidean") / (2 * SCALE**2))
