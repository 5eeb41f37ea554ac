"""The certificate of kernel CCA: canonical pairs within the functions of a solver, and their residual.

Problem: how far is a pair of functions f = Σ aᵢ k(·, xᵢ), g = Σ bᵢ k(·, yᵢ) of unit length from a canonical one?
Method: with K the centred kernel matrices and r the ridges, the equations of a pair are, at the rows,
Ky b = ρ (Kx + rx) a and Kx a = ρ (Ky + ry) b. The residual vectors are Rx = Ky b − ρ (Kx + rx) a and Ry likewise. In
the space of features they have the squared length RᵀK(K + r)⁻¹R in the norm of the inverse metric, which is that of
CCA. It is bounded without an inverse: x/(x + r) is concave, so with t = RᵀR and s = RᵀKR

    RᵀK(K + r)⁻¹R  ≤  t s/(s + r t)  ≤  min(t, s/r).

This is loose where R has parts in long and in short eigenvectors, and where K nearly annihilates a part of it. If a
solver has a preconditioner, the product is done for the preconditioned R too; conjugate directions from both give a
tighter bound, above the exact norm for any preconditioner (`linspec_kernel.moments`).
The residual is the sum over pairs and views, over the sum of the correlations. It takes two products with each kernel
matrix, K a and K R. Functions of landmarks are certified by t alone, which takes the landmarks' columns:
`residual_kind` is then "bound". Functions that are not made of kernel functions have no residual: "unavailable".
Within √(s/2) of every returned correlation there is an exact correlation, where s bounds the sum of the pair's squared
residuals in both views. The i-th returned correlation is at most the i-th exact one.
Source: the residual bound for symmetric eigenproblems, Parlett 1998, The Symmetric Eigenvalue Problem, chapter 11;
Jensen's inequality.
Where we differ: from the penalty c²aᵀa of Bach & Jordan 2002, which is no norm of a function. Coefficients have long
parts that K annihilates, and rounding of K does not: it is estimated, and added to R. Weights of float32 data are
rounded after the residual is computed, by less than the rounding of the tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import KernelOperator, LinearOperator, Status
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.certificates import digits
from linspec.features import FeatureMap, KernelMap
from linspec.iteration import Certificate
from linspec.kernels import Points
from linspec.linalg import EPS, ratio, risen, signs_of_columns, whitening
from linspec.solving import fewer_than_asked, left_out_nearby
from linspec_kernel.moments import Fitted, norms_alone, on_host

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
    "The functions are made of random features and do not lie in the spaces of the kernels, so they have no "
    "residual. Score them on new rows."
)

ROUNDING = 4.0
"""Rounding of the values of a function: this multiple of unit roundoff times the trace of the kernel matrix."""


@dataclass
class CertifiedFunctions:
    """Functions of one view at its rows.

    Attributes
    ----------
    op : KernelOperator
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

    op: KernelOperator
    weights: Array
    dual: Array | None
    values: Array
    mean: HostArray
    squares: HostArray

    def turned(self, T: HostArray) -> CertifiedFunctions:
        """Return the functions F T: weights, dual coefficients, values, means and inner products."""
        P = self.op.device.asarray(T)
        dual = None if self.dual is None else self.dual @ P
        return CertifiedFunctions(
            self.op, self.weights @ P, dual, self.values @ P, self.mean @ T, T.T @ self.squares @ T
        )

    def orthonormal(self, ridge: float) -> CertifiedFunctions:
        """Orthonormal functions in the metric K(K + r), without those that are rounding of what they are made of."""
        G = on_host(self.values.T @ self.values) + ridge * self.squares
        T = whitening(G, CUT / max(len(G), 1))
        if self.dual is None:
            return self.turned(T)
        rounding = least_value(self.op) * (self.op.device.column_norms(self.dual) @ np.abs(T))
        return self.turned(T[:, rounding <= 1])

    def clear(self, ridge: float) -> HostArray:
        """Mask of the functions that are above rounding; True for all functions of features.

        With the rounding w |a| of K a (w is `least_value`), both conditions must hold: |K a| exceeds w |a|, and the
        squared length |K a|² + r aᵀK a is at least r w |a|², the rounding of r aᵀK a.
        """
        if self.dual is None:
            return np.ones(len(self.squares), dtype=bool)
        device, least = self.op.device, least_value(self.op)
        dual, values = device.column_norms(self.dual), device.column_norms(self.values)
        lengths = values**2 + ridge * np.maximum(np.diagonal(self.squares), 0.0)
        return (values > least * dual) & (ridge * least * dual**2 <= lengths)


def certify(problem: Any, moments: Any, arrays: Mapping[str, Any], tol: float) -> Certificate:
    """Scale the functions to unit length, rotate them to canonical pairs, and compute their residual.

    The arrays `x_weights` and `y_weights` are coefficients of the features of `moments.maps`; where there are none, of
    the kernel functions of all rows, or of those with the numbers `x_landmarks` and `y_landmarks`. With more functions
    than pairs, the missing part of the sum of the exact correlations is estimated.
    """
    moments.fit(None, arrays)
    device, ridges, k = moments.device, moments.ridges, problem.k
    landmarks = [arrays.get(f"{name}_landmarks") for name in "xy"]
    views = []
    for i, (name, op) in enumerate(zip("xy", moments.operators, strict=True)):
        f = functions(op, device.asarray(arrays[f"{name}_weights"]), landmarks[i], moments.features(i))
        # Functions below rounding have no direction: combined with others they would turn these by any angle.
        f = f.turned(np.eye(len(f.squares))[:, f.clear(ridges[i])])
        views.append(f.orthonormal(ridges[i]))
    U, rho, Vt = np.linalg.svd(on_host(views[0].values.T @ views[1].values), full_matrices=False)
    x = views[0].turned(U)
    y = views[1].turned(Vt.T)
    # A combination of functions may be rounding although none of them is.
    clear = x.clear(ridges[0]) & y.clear(ridges[1])
    known = int(np.argmin(np.append(clear, False)))
    count, rho = min(k, known), np.minimum(rho[:known], 1.0)
    signs = np.eye(len(clear), known) * signs_of_columns(x.weights[:, :known], device)
    x, y = x.turned(signs), y.turned(signs)
    squares, overlaps, kind = residuals(x, y, rho, moments)
    fields: dict[str, Any] = {"correlations": rho[:count], "residuals": squares[:count], "bounds": None}
    for i, (name, f, A) in enumerate(zip("xy", (x, y), problem.matrices.values(), strict=True)):
        fields[f"{name}_weights"] = A.device.asarray(f.weights[:, :count], A.dtype)
        fields[f"{name}_landmarks"] = landmarks[i]
        fields[f"{name}_mean"] = f.mean[:count] if problem.center else None
        fields[f"{name}_map"] = _fitted(f.op, landmarks[i], moments.maps[i])
    notes = fewer_than_asked(count, k, "functions that can be distinguished from zero")
    total, drowned = float(rho[:count].sum()), []
    for name, op, r in zip("XY", moments.operators, ridges, strict=True):
        # √(w/(w + r)) bounds the correlations of functions in the span of eigenvectors with eigenvalues up to w.
        least = least_value(op)
        if (k - count) * math.sqrt(least / (least + r)) > TOLERATED * tol * total:
            drowned.append(name)
    if drowned:
        text = f"Functions that the ridge of {' and of '.join(drowned)} would keep are below the rounding of the "
        notes = ((Status.ILL_CONDITIONED, text + "kernel. Raise the ridge, or pass float64."), *notes)
    if overlaps is None:
        return Certificate(np.nan, (*notes, (Status.APPROXIMATE, OUTSIDE)), fields, kind, lost=bool(drowned))
    fields["bounds"], residual = np.sqrt(squares[:count] / 2), ratio(float(squares[:count].sum()), total)
    worst = max(float(fields["bounds"].max(initial=0.0)), EPS * problem.matrices["X"].shape[0])
    fields["accuracy"] = f"correlations: about {digits(worst)} correct digits" if count else ""
    if arrays["x_weights"].shape[1] > k and total > 0 and np.isfinite(squares).all():
        # How much the sum rises when a solver's spans grow by the residuals, where all that is outside is at most the
        # least correlation: the diagonal of G is half of `squares`, and `overlaps` have the cosines of the residuals.
        scale = np.sqrt(np.maximum(np.diagonal(overlaps), 0.0))
        turned = np.sqrt(squares / 2) * reciprocal(scale)
        risen_to = np.minimum(risen(rho, overlaps * np.outer(turned, turned), float(rho[-1])), 1.0)
        loss = max(float(np.sum(risen_to[:count] - rho[:count])), 0.0) / total
        fields["loss_estimate"] = loss
        if residual <= tol and loss > max(tol, TOLERATED * residual):
            notes = (*notes, left_out_nearby(loss, residual))
    return Certificate(residual, notes, fields, kind, lost=bool(drowned))


def gaps_of(
    x: tuple[Array, Array], y: tuple[Array, Array], theta: Array, ridges: Sequence[float]
) -> list[Array]:
    """Return Ky b − ρ (Kx + rx) a and Kx a − ρ (Ky + ry) b for coefficients with values, (a, Kx a) and (b, Ky b)."""
    (a, za), (b, zb) = x, y
    return [zb - theta * (za + ridges[0] * a), za - theta * (zb + ridges[1] * b)]


def residuals(
    x: CertifiedFunctions, y: CertifiedFunctions, rho: HostArray, moments: Any
) -> tuple[HostArray, HostArray | None, str]:
    """Return the squared residuals of pairs, their inner products in another norm, and the kind of residual."""
    if x.dual is None or y.dual is None:
        return np.full(len(rho), np.nan), None, "unavailable"
    device, ridges = moments.device, moments.ridges
    gaps = gaps_of((x.dual, x.values), (y.dual, y.values), device.asarray(rho), ridges)
    overlaps = on_host(gaps[0].T @ gaps[0]) + on_host(gaps[1].T @ gaps[1])
    squares = _rounding(x) + _rounding(y)
    if min(x.weights.shape[0], y.weights.shape[0]) < x.dual.shape[0]:
        return np.diagonal(overlaps) + squares, overlaps, "bound"
    for R, f, ridge, near in zip(gaps, (x, y), ridges, moments.nearest, strict=True):
        if near is None:
            squares += norms_alone(R, f.op.matmat(R), ridge, device)
            continue
        Z = near.solve(R)
        both = f.op.matmat(device.concat([R, Z]))
        squares += near.norms(R, both[:, : len(rho)], Z, both[:, len(rho) :])
    return squares, overlaps, "recomputed"


def functions(
    op: KernelOperator, W: Array, J: HostArray | None = None, features: LinearOperator | None = None
) -> CertifiedFunctions:
    """Values of functions at the rows of their view, and their inner products."""
    device = op.device
    if features is not None:
        values, mean = op.centred(device.asarray(features.matmat(W)))
        return CertifiedFunctions(op, W, None, values, mean, on_host(W.T @ W))
    # The function of landmarks lies in the span of the centred features if its coefficients add up to zero.
    W = W - device.xp.mean(W, axis=0) if op.center else W
    dual = W
    if J is None:
        values, mean = op.product(W)
    else:
        values, mean = op.centred(device.asarray(op.columns(J) @ op.data.device.asarray(W, op.tile_dtype)))
        scattered = np.zeros((op.shape[0], W.shape[1]))
        scattered[J] = to_host(W)
        dual = device.asarray(scattered)
    squares = on_host(dual.T @ values)
    return CertifiedFunctions(op, W, dual, values, mean, (squares + squares.T) / 2)


def least_value(op: KernelOperator) -> float:
    """Rounding of K a for |a| = 1: a multiple of unit roundoff times trace(K)."""
    return ROUNDING * float(np.finfo(op.tile_dtype).eps) * float(np.sum(on_host(op.diagonal())))


def _rounding(f: CertifiedFunctions) -> HostArray:
    """Squared rounding of K a for every function: each kᵢⱼ has its own, and kᵢⱼ² is at most kᵢᵢ kⱼⱼ."""
    d = on_host(f.op.diagonal())
    return np.asarray(float(np.finfo(f.op.tile_dtype).eps) ** 2 / 4 * d.sum() * (d @ on_host(f.dual) ** 2))


def _fitted(op: KernelOperator, J: HostArray | None, features: FeatureMap | None) -> Fitted:
    if features is not None:
        return Fitted(features, op.kernel)
    every = op.map()
    if J is None:
        return Fitted(every, op.kernel)
    chosen = Points(J, op.kernel) if op.kernel.precomputed else op.points.at(J)
    return Fitted(KernelMap(chosen, None, every.inputs, J, op.shape[0]), op.kernel)
