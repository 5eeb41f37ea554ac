"""The law of kernel CCA: canonical pairs within the functions of a solver, and their residual.

Problem: how far is a pair of functions f = Σ aᵢ k(·, xᵢ), g = Σ bᵢ k(·, yᵢ) of unit length from a canonical one?
Method: with K the centred kernel matrices and r the ridges, the equations of a pair are, at the rows,
Ky b = ρ (Kx + rx) a and Kx a = ρ (Ky + ry) b. The residual vectors are Rx = Ky b − ρ (Kx + rx) a and Ry likewise. In
the space of features they have the squared length RᵀK(K + r)⁻¹R in the norm of the inverse metric, as the law of `cca`
requires. It is bounded without an inverse: x/(x + r) is concave, so with t = RᵀR and s = RᵀKR

    RᵀK(K + r)⁻¹R  ≤  t s/(s + r t)  ≤  min(t, s/r).

This is loose where R has parts in long and in short eigenvectors, and where K nearly annihilates a part of it. The
product with R therefore is done for the preconditioned R too; conjugate directions from both and from the unit
vectors of some landmarks give a tighter bound, above the exact norm for any landmarks (`linspec_kernel.nystrom`). The
residual is the sum over pairs and views, over the sum of the correlations. It takes two products with each kernel
matrix, K a and K R. Functions of landmarks are judged by t alone, which takes the landmarks' columns: `residual_kind`
is then "bound". Functions that are not made of kernel functions have no residual: "unavailable".
Within √(s/2) of every returned correlation there is an exact correlation, where s bounds the sum of the pair's squared
residuals in both views. The i-th returned correlation is at most the i-th exact one.
Source: the residual bound for symmetric eigenproblems, Parlett 1998, The Symmetric Eigenvalue Problem, chapter 11;
Jensen's inequality.
Where we differ: from the penalty c²aᵀa of Bach & Jordan 2002, which is no norm of a function. Weights of float32 data
are rounded after the residual is computed, by less than the rounding of the tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Conclusion, KernelOperator, Status
from linspec.algebra import ratio, signs_of_columns, whitening
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.features import FeatureMap, KernelMap
from linspec.kernels import Points
from linspec.solving import fewer_than_asked, left_out_nearby
from linspec_kernel.nystrom import norms_alone, on_host
from linspec_kernel.solution import Fitted

CUT = 1e-13
"""A function is rounding if its squared length is below this fraction of the largest squared length (in float64)."""


LEAST_SHARE = 1e-16
"""Lower limit of the factor by which solvers multiply their estimates of a residual.

The factor is the ratio of the bound of the last residual, which `Nystrom.norms` or `norms_alone` computes, to its
estimate. A factor of 0 would make all later estimates 0."""

TOLERATED = 10.0
"""Factor by which a loss must exceed the residual, or the tolerance, to be reported.

The estimated relative loss in the sum of the correlations is reported if it exceeds the tolerance and this multiple of
the residual. Functions below the rounding of the kernel are reported if their correlations may exceed this multiple of
the tolerance, relative to the sum of the correlations."""

OUTSIDE = (
    "The functions are made of random features and do not lie in the spaces of the kernels, so the law does not "
    "apply. Score them on new rows."
)

ROUNDING = 4.0
"""Rounding of the values of a function: this multiple of unit roundoff times the trace of the kernel matrix."""


@dataclass
class JudgedFunctions:
    """Functions of one view at its rows.

    Attributes
    ----------
    weights : array of shape (m, b)
        Coefficients that are returned, one for each feature, landmark or row.
    dual : array of shape (n, b) or None
        Coefficients of the kernel functions of all n rows, centred; 0 before centring except at the landmarks. None for
        functions made of the features of a feature map, which have no such coefficients.
    values : array of shape (n, b)
        Values at the rows, centred: K a.
    mean : numpy.ndarray of shape (b,)
        Column means that centring has subtracted from the values.
    squares : numpy.ndarray of shape (b, b)
        Inner products of the functions in the space of the kernel: aᵀK a.
    """

    weights: Array
    dual: Array | None
    values: Array
    mean: HostArray
    squares: HostArray

    def turned(self, T: HostArray, home: Home) -> JudgedFunctions:
        """Return the functions F T: weights, dual coefficients, values, means and inner products."""
        P = home.place(T)
        dual = None if self.dual is None else self.dual @ P
        return JudgedFunctions(self.weights @ P, dual, self.values @ P, self.mean @ T, T.T @ self.squares @ T)


def judged(
    problem: Any,
    moments: Any,
    weights: tuple[Array, Array],
    landmarks: tuple[HostArray | None, HostArray | None],
    maps: tuple[FeatureMap | None, FeatureMap | None],
    tol: float,
) -> Conclusion:
    """Canonical pairs within the spans of a solver's functions, and their residual."""
    home, ridges = moments.home, problem.ridge
    views = [
        functions(op, home.place(W), J, features)
        for op, W, J, features in zip(moments.views, weights, landmarks, maps, strict=True)
    ]
    # Functions below rounding have no direction: combined with others they would turn these by any angle.
    views = [
        f.turned(np.eye(len(f.squares))[:, _are_no_rounding(op, f, r)], home)
        for op, f, r in zip(moments.views, views, ridges, strict=True)
    ]
    grams = [on_host(f.values.T @ f.values) + r * f.squares for f, r in zip(views, ridges, strict=True)]
    turns = [whitening(G, _cut(op, len(G))) for op, G in zip(moments.views, grams, strict=True)]
    cross = turns[0].T @ on_host(views[0].values.T @ views[1].values) @ turns[1]
    U, rho, Vt = np.linalg.svd(cross, full_matrices=False)
    count = min(problem.k, len(rho))
    rho = np.minimum(rho[:count], 1.0)
    x = views[0].turned(turns[0] @ U[:, :count], home)
    y = views[1].turned(turns[1] @ Vt[:count].T, home)
    # A combination of functions may be rounding although none of them is.
    for op, f, r in zip(moments.views, (x, y), ridges, strict=True):
        count = min(count, int(np.argmin(np.append(_are_no_rounding(op, f, r), False))))
    rho, kept = rho[:count], np.eye(len(rho), count)
    flips = np.diag(signs_of_columns(x.turned(kept, home).weights, home)) if count else np.zeros((0, 0))
    x, y = x.turned(kept @ flips, home), y.turned(kept @ flips, home)
    fields: dict[str, Any] = {"correlations": rho}
    for name, view, op, J, features, A in zip(
        ("x", "y"), (x, y), moments.views, landmarks, maps, (problem.X, problem.Y), strict=True
    ):
        fields[f"{name}_weights"] = A.home.place(view.weights, A.dtype)
        fields[f"{name}_landmarks"] = J
        fields[f"{name}_mean"] = view.mean if problem.center else None
        fields[f"{name}_map"] = _fitted(op, J, features)
    squares, bounds, kind = residuals(x, y, rho, moments, ridges)
    fields |= {"residuals": squares, "bounds": bounds}
    found = fewer_than_asked(count, problem.k, "functions that can be distinguished from zero")
    # √(w/(w + r)) bounds the correlations of functions in the span of eigenvectors with eigenvalues up to w.
    drowned = [
        name
        for name, op, r in zip("XY", moments.views, ridges, strict=True)
        if (problem.k - count) * math.sqrt(least_value(op) / (least_value(op) + r))
        > TOLERATED * tol * float(rho.sum())
    ]
    if drowned:
        text = f"Functions that the ridge of {' and of '.join(drowned)} would keep are below the rounding of the "
        found = ((Status.ILL_CONDITIONED, text + "kernel. Raise the ridge, or pass float64."), *found)
    residual = ratio(float(squares.sum()), float(rho.sum()))
    if kind == "unavailable":
        residual, found = math.nan, (*found, (Status.APPROXIMATE, OUTSIDE))
    return Conclusion(fields, residual, found, kind, lost=bool(drowned))


@dataclass(frozen=True)
class Carried:
    """All canonical pairs within the spans of a solver's bases; the solver returns the first k.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (m,)
        In decreasing order.
    squares : numpy.ndarray of shape (m,)
        The squared lengths of the residuals of the pairs in the norm of the law, or estimates of these.
    overlaps : numpy.ndarray of shape (m, m)
        Inner products RᵀR of the residuals of the pairs, in any norm: only the angles count.
    """

    correlations: HostArray
    squares: HostArray
    overlaps: HostArray

    def rise(self, squares: HostArray) -> float:
        """Estimate how much the sum of the first k correlations rises when the solver's spans grow by the residuals.

        Let Θ be the diagonal matrix of the m correlations, and G half the Gram matrix of the residuals of the m pairs.
        In a basis of the pairs and of their residuals, the correlations are the eigenvalues of
        [[Θ, G^(1/2)], [G^(1/2), M]], since the residuals of Ritz pairs are orthogonal to the spans. M is taken to be
        the least of the m correlations times I. The diagonal of G has the argument `squares`, the recomputed squared
        lengths of the residuals of the first k pairs, and for later pairs the attribute `squares`. Other entries of G
        follow from these lengths and from the cosines of the residuals, which `overlaps` yields.
        """
        k, m = len(squares), len(self.correlations)
        lengths = np.sqrt(np.concatenate([squares, self.squares[k:]]) / 2)
        scale = np.sqrt(np.maximum(np.diagonal(self.overlaps), 0.0))
        turned = np.divide(lengths, scale, out=np.zeros(m), where=scale > 0)
        w, V = np.linalg.eigh(self.overlaps * np.outer(turned, turned))
        root = (V * np.sqrt(np.maximum(w, 0.0))) @ V.T
        whole = np.block([[np.diag(self.correlations), root], [root, self.correlations[-1] * np.eye(m)]])
        found = np.minimum(np.linalg.eigvalsh(whole)[::-1], 1.0)
        return max(float(np.sum(found[:k] - self.correlations[:k])), 0.0)


def with_loss(conclusion: Conclusion, carried: Carried, tol: float) -> Conclusion:
    """Return a conclusion with an estimate of the loss: the missing part of the sum of the exact correlations.

    The estimate is `Carried.rise` over the sum of the returned correlations. If it exceeds the tolerance and
    `TOLERATED` times the residual, although the residual meets the tolerance, a finding is added. The conclusion is
    returned unchanged if the sum of the correlations is 0, if residuals are not finite, or if `carried` has fewer pairs
    than the conclusion.
    """
    rho, squares = conclusion.fields["correlations"], conclusion.fields["residuals"]
    total = float(rho.sum())
    if not total > 0 or not np.isfinite(squares).all() or len(rho) > len(carried.correlations):
        return conclusion
    estimate = carried.rise(squares) / total
    found, residual = conclusion.findings, conclusion.residual
    if residual <= tol and estimate > max(tol, TOLERATED * residual):
        found = (*found, left_out_nearby(estimate, residual))
    return replace(conclusion, fields={**conclusion.fields, "loss_estimate": estimate}, findings=found)


def residuals(
    x: JudgedFunctions, y: JudgedFunctions, rho: HostArray, moments: Any, ridges: tuple[float, float]
) -> tuple[HostArray, HostArray | None, str]:
    """Return the squared residuals of pairs, the error bounds of their correlations, and the kind of residual."""
    if x.dual is None or y.dual is None:
        return np.full(len(rho), np.nan), None, "unavailable"
    home, theta = moments.home, moments.home.place(rho)[None, :]
    gaps = [
        y.values - theta * (x.values + ridges[0] * x.dual),
        x.values - theta * (y.values + ridges[1] * y.dual),
    ]
    t = [on_host(home.xp.sum(R * R, axis=0)) for R in gaps]
    whole = all(int(view.weights.shape[0]) == int(view.dual.shape[0]) for view in (x, y))  # type: ignore[union-attr]
    if not whole:
        return t[0] + t[1], np.sqrt((t[0] + t[1]) / 2), "bound"
    squares = np.zeros(len(rho))
    for R, op, ridge, near in zip(gaps, moments.views, ridges, moments.nearest(), strict=True):
        if near is None:
            squares += norms_alone(R, op.product(R)[0], ridge, home)
            continue
        Z = near.solve(R)
        both = op.product(home.concat([R, Z]))[0]
        squares += near.norms(R, both[:, : len(rho)], Z, both[:, len(rho) :])
    return squares, np.sqrt(squares / 2), "recomputed"


def functions(
    op: KernelOperator, W: Array, J: HostArray | None, features: FeatureMap | None
) -> JudgedFunctions:
    """Values of functions at the rows of their view, and their inner products."""
    home, xp = op.home, op.home.xp
    if features is not None:
        A = features(op.data)
        values = home.place(A.matmat(W))
        mean = on_host(xp.mean(values, axis=0)) * op.center
        return JudgedFunctions(W, None, values - home.place(mean)[None, :], mean, on_host(W.T @ W))
    # The function of landmarks lies in the span of the centred features if its coefficients add up to zero.
    W = W - xp.mean(W, axis=0)[None, :] if op.center else W
    if J is None:
        dual, (values, mean) = W, op.product(W)
    else:
        values = home.place(op.columns(J) @ op.data.home.place(W, op.tile_dtype))
        mean = on_host(xp.mean(values, axis=0)) * op.center
        values = values - home.place(mean)[None, :]
        scattered = np.zeros((op.shape[0], int(W.shape[1])))
        scattered[J] = to_host(W)
        dual = home.place(scattered)
    squares = on_host(dual.T @ values)
    return JudgedFunctions(W, dual, values, mean, (squares + squares.T) / 2)


def _are_no_rounding(op: KernelOperator, f: JudgedFunctions, ridge: float) -> HostArray:
    """Mask of the functions that are above rounding; True for all functions of features.

    With the rounding w |a| of K a (w is `least_value`), both conditions must hold: |K a| exceeds w |a|, and the squared
    length |K a|² + r aᵀK a is at least r w |a|², the rounding of r aᵀK a.
    """
    if f.dual is None:
        return np.ones(len(f.squares), dtype=bool)
    dual, values, least = op.home.column_norms(f.dual), op.home.column_norms(f.values), least_value(op)
    lengths = values**2 + ridge * np.maximum(np.diagonal(f.squares), 0.0)
    found: HostArray = (values > least * dual) & (ridge * least * dual**2 <= lengths)
    return found


def least_value(op: KernelOperator) -> float:
    """Rounding of K a for |a| = 1: a multiple of unit roundoff times trace(K)."""
    return ROUNDING * float(np.finfo(op.tile_dtype).eps) * float(np.sum(on_host(op.diagonal())))


def _fitted(op: KernelOperator, J: HostArray | None, features: FeatureMap | None) -> Fitted:
    if features is not None:
        return Fitted(features, op.kernel)
    every = op.map()
    if J is None:
        return Fitted(every, op.kernel)
    chosen = Points(J, op.kernel) if op.kernel.precomputed else op.points.at(J)
    return Fitted(KernelMap(chosen, None, every.inputs, J, op.shape[0]), op.kernel)


def _cut(op: KernelOperator, columns: int) -> float:
    """A function is rounding if its squared length is below this share of the largest squared length."""
    unit = float(np.finfo(op.tile_dtype).eps)
    return max(CUT, unit**1.5 if op.tile_dtype == np.float32 else 0.0) / max(columns, 1)
