"""The kernel matrices of the views of a problem, as solvers and certificates multiply with them.

Their Nyström approximations are preconditioners, and serve for the norm of a residual.

Problem: (K + r I)⁻¹ R for blocks R, and RᵀK(K + r)⁻¹R, where n x n numbers cannot be factored.
Method: with the columns of m landmarks, K is near LLᵀ of rank m. The preconditioner is (LLᵀ + (r + d) I)⁻¹, where d
estimates |K − LLᵀ|. For the norm, K(K + r)⁻¹ = I − r (K + r)⁻¹, and for any block W

    Rᵀ(K + r)⁻¹R  ≥  RᵀW (Wᵀ(K + r)W)⁻¹ WᵀR,

the value that conjugate directions from the span of W reach. If W spans R this gives, without any cancellation,

    RᵀK(K + r)⁻¹R  ≤  RᵀKW (Wᵀ(K + r)W)⁻¹ WᵀR.

W consists of R and the preconditioned R. For W = R alone it is ts/(s + rt), with t = RᵀR and s = RᵀKR.
Source: Frangella, Tropp & Udell 2023, SIAM J. Matrix Anal. Appl. 44(2), doi:10.1137/21M1466244, for the
preconditioner; Hestenes & Stiefel 1952, section 4, for the bound from the span of W.
Where we differ: the shift d is not the smallest eigenvalue kept. Without it directions that the landmarks miss are
amplified by |K − LLᵀ|/r.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import KernelOperator, LinearOperator, option
from linspec.arrays import Array, Device, HostArray, random_generator, reciprocal, to_host
from linspec.features import FeatureMap, turn_of
from linspec.kernels import Kernel
from linspec.linalg import eigenpairs, leading_eigenpairs, whitening
from linspec.rows import Passes, equal_slices
from linspec.solving import Solver

PROBED = 1024
"""Number of rows from which an iteration first estimates |K − LLᵀ|."""

PER_ENTRY = 2e-9
"""Seconds to compute the kernel, such as an exponential, for one entry of a kernel matrix."""

BLOCK = 4096
"""Number of rows of L that are computed at once."""

DEPENDENT = 1e-13
"""Relative eigenvalue of Wᵀ(K + r)W, for columns of W of length 1, up to which a direction does not count."""


@dataclass(frozen=True, kw_only=True)
class ByTiles(Solver):
    """A solver by products with kernel matrices, which are held or not."""

    storage: str = option(
        "auto", "hold the kernel matrices, or form them tile by tile", choices=("auto", "held", "tiled")
    )


def default_landmarks(n: int) -> int:
    """Number of landmarks: a fifth of the rows within [200, 1500], so that the preconditioner costs a few passes."""
    return min(n, max(200, min(n // 5, 1500)))


class Nystrom:
    """The approximation LLᵀ of the centred kernel matrix of a view, and the preconditioner (LLᵀ + (r + d) I)⁻¹.

    If rows have weights, so have the rows of L. `norms` is for rows without weights.

    Parameters
    ----------
    op : KernelOperator
    ridge : float
        r.
    numbers : numpy.ndarray of shape (m,)
        Indices of the landmarks among the rows.
    rng : numpy.random.Generator, optional
        Draws the rows from which d is estimated.
    probed : int, default `PROBED`
        Number of rows drawn.
    shift : float, optional
        d, in place of an estimate.

    Attributes
    ----------
    shift : float
        d.
    """

    def __init__(
        self,
        op: KernelOperator,
        ridge: float,
        numbers: HostArray,
        rng: np.random.Generator | None = None,
        shift: float | None = None,
    ) -> None:
        self.op, self.ridge, self.device = op, ridge, op.device
        self.asarray = op.data.device
        n = op.shape[0]
        m = len(numbers)
        self.numbers = numbers
        C = op.columns(self.numbers)
        among = on_host(_rows(C, numbers, self.asarray)) if op.kernel.precomputed else None
        self.turn = turn_of(op.points.at(numbers), differences=False, among=among)
        # Overwrite the columns by L, block by block.
        right = self.asarray.asarray(self.turn, op.tile_dtype)
        G, total = np.zeros((m, m)), np.zeros(m)
        for rows in equal_slices(n, BLOCK):
            C[rows, :] = (C[rows, :] @ right) * self.asarray.asarray(op.roots[rows], op.tile_dtype)[:, None]
            G += on_host(C[rows, :].T @ C[rows, :])
            total += on_host(op.roots[rows] @ self.device.asarray(C[rows, :]))
        count = float(to_host(self.device.xp.sum(op.roots * op.roots)))
        self.L, self.mean = C, total / count * op.center
        G -= count * np.outer(self.mean, self.mean)
        w, self.V = eigenpairs((G + G.T) / 2)
        self.w = np.maximum(w, 0.0)
        self.shift = self._remainder(rng) if shift is None else shift

    def _remainder(self, rng: np.random.Generator | None) -> float:
        """Estimate |K − LLᵀ| from its block in q rows and columns that are drawn; 0 if all rows are landmarks."""
        n = self.op.shape[0]
        if len(self.numbers) == n:
            return 0.0
        q = min(PROBED, n)
        some = np.sort(random_generator(rng).choice(n, q, replace=False))
        rows = on_host(_rows(self.L, some, self.asarray))
        roots = to_host(self.op.roots)[some]
        E = self.op.block(some) * np.outer(roots, roots) - rows @ rows.T
        size = max(float(np.trace(E)) / q, 0.0)
        largest = max(float(leading_eigenpairs(E, 1)[0][0]), 0.0)
        if q == n:
            return largest
        # An eigenvalue far above the mean of the diagonal is about q/n times that of the whole matrix. One near it is
        # biased upwards, as the largest eigenvalue of a sample covariance is (Marchenko & Pastur 1967).
        return float((np.sqrt(largest) - np.sqrt(size)) ** 2 * n / q + size)

    def _adjoint(self, R: Array) -> HostArray:
        """LᵀR for n-row blocks R; it is LᵀHR if the columns of R have mean zero."""
        return on_host(self.L.T @ self.asarray.asarray(R, self.op.tile_dtype))

    def norms(self, R: Array, KR: Array, Z: Array, KZ: Array) -> HostArray:
        """Return an upper bound of aᵀK(K + r I)⁻¹a, a squared norm, for each column a of R, with the ridge r.

        The bound is that of the span of R and Z (see the module). Z is any block, usually
        the preconditioned residuals; KR and KZ are the products of K with R and Z.
        """
        W = self.device.concat([R, Z])
        KW = self.device.concat([KR, KZ])
        scale = reciprocal(self.device.column_norms(W))
        # With M = Wᵀ(K + r)W, B = WᵀR and A = WᵀKR the bound is the diagonal of AᵀM⁻¹B.
        M = scale[:, None] * (on_host(W.T @ KW) + self.ridge * on_host(W.T @ W)) * scale
        A, B = (scale[:, None] * on_host(W.T @ V) for V in (KR, R))
        T = whitening((M + M.T) / 2, DEPENDENT)
        bounds = np.sum((T.T @ A) * (T.T @ B), axis=0)
        return np.clip(bounds, 0.0, norms_alone(R, KR, self.ridge, self.device))

    def squares(self, R: Array) -> HostArray:
        """Estimate aᵀK(K + r I)⁻¹a for each column a of R, with the ridge r, by LLᵀ + d I in place of K.

        No product with K is made.
        """
        t = self.device.column_norms(R) ** 2
        return quotients(t, np.sum(self._adjoint(R) ** 2, axis=0) + self.shift * t, self.ridge)

    def image(self, c: HostArray) -> Array:
        """H L c, where H is the centring; L c if the view is not centred."""
        z = self.device.asarray(self.L @ self.asarray.asarray(c, self.op.tile_dtype))
        mean = self.device.asarray(self.mean @ c)
        return z - self.op.roots[:, None] * mean

    def solve(self, R: Array, ridge: float | None = None) -> Array:
        """(HLLᵀH + (r + d) I)⁻¹ R; r is the ridge of the constructor unless another one is given."""
        level = (self.ridge if ridge is None else ridge) + self.shift
        c = self.V @ ((self.V.T @ self._adjoint(R)) / (self.w + level)[:, None])
        return (R - self.image(c)) / level


def norms_alone(R: Array, KR: Array, ridge: float, device: Device) -> HostArray:
    """Upper bound ts/(s + ρt) of aᵀK(K + ρI)⁻¹a for each column a of R, with t = aᵀa, s = aᵀKa and the ridge ρ."""
    s = np.maximum(on_host(device.xp.sum(R * KR, axis=0)), 0.0)
    return quotients(device.column_norms(R) ** 2, s, ridge)


def doubly_centred(K: HostArray) -> HostArray:
    """HKH: K with the means of its columns and of its rows subtracted."""
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1)[:, None]


def quotients(t: HostArray, s: HostArray, ridge: float) -> HostArray:
    """ts/(s + ρt) for t = aᵀa and s = aᵀKa of each column a, and the ridge ρ; 0 where s + ρt is 0."""
    return t * s * reciprocal(s + ridge * t)


def _rows(V: Array, index: HostArray, device: Device) -> Array:
    return device.xp.take(V, device.xp.asarray(index, device=device.native), axis=0)


def on_host(x: Array) -> HostArray:
    """A block on the host, in float64."""
    return np.asarray(to_host(x), dtype=np.float64)


class KernelMoments:
    """Kernel matrices of the views of a problem, their Nyström approximations, and the count of their passes.

    A product with a matrix is a pass, whether the matrix is held or not. Passes of two views are one pass together.

    Parameters
    ----------
    problem : Problem
        Its property `kernels` has the kernel of each view by the name of the matrix.
    passes : Passes
        It sets aside the passes of the certificate.

    Attributes
    ----------
    operators : list of KernelOperator
        Centred if the problem centres, weighted if it has weights.
    maps : list of FeatureMap or None
        For each view the features that functions are made of; None: kernel functions.
    device : Device
        Device of float64 blocks.
    read : list of float
        How often each view was read or multiplied; a pass is one over all views.
    """

    def __init__(self, problem: Any, passes: Passes) -> None:
        self.names, self.passes, self.read = tuple(problem.kernels), passes, [0.0] * len(problem.matrices)
        self.ridges = getattr(problem, problem.stated.ridge)
        self.operators = [
            KernelOperator(
                getattr(problem, name),
                kernel,
                center=problem.center,
                name=name,
                weights=problem.sample_weight,
                begins=partial(self.take, i),
            )
            for i, (name, kernel) in enumerate(problem.kernels.items())
        ]
        self.open = [not kernel.is_resolved for kernel in problem.kernels.values()]
        self.maps: list[FeatureMap | None] = [None for _ in self.names]
        self.device = self.operators[0].device
        self.nearest: list[Nystrom] | list[None] = [None for _ in self.names]
        passes.reserved += problem.certificate_products

    def take(self, i: int, columns: float, share: float, flops: float) -> None:
        """Count a pass over one view, or a share of one, before it begins."""
        read = [count + share * (i == j) for j, count in enumerate(self.read)]
        self.passes.take(max(read) - max(self.read))
        self.read = read
        self.passes.columns += columns
        self.passes.flops += flops

    def fit(
        self, rng: Any = None, arrays: Mapping[str, Any] | None = None, form: str = ""
    ) -> tuple[Kernel, ...]:
        """Read the rows of all views at the first call, and return the kernels with all parameters as numbers.

        Parameters
        ----------
        rng : numpy.random.Generator, optional
            It draws the rows from which scales are computed that nobody gives.
        arrays : mapping of str to array, optional
            Those of an iterate, with the scales that `learnt` has added.
        form : {"auto", "held", "tiled"}, optional
            Form of the kernel matrices.
        """
        for op, name in zip(self.operators, self.names, strict=True):
            numbers = (arrays or {}).get(f"{name.lower()}_kernel")
            if numbers is not None and not op.kernel.is_resolved:
                new = {
                    field.name: float(value)
                    for field, is_number, value in zip(fields(op.kernel), *np.asarray(numbers), strict=True)
                    if is_number and value != getattr(op.kernel, field.name)
                }
                op.kernel = replace(op.kernel, **new)
            op.asked = form or op.asked
        return tuple(op.fit(rng) for op in self.operators)

    def learnt(self) -> dict[str, HostArray]:
        """The parameters of kernels that rows have given, as arrays that belong to every iterate."""
        return {
            f"{name.lower()}_kernel": as_numbers(op.kernel)
            for op, name, chosen in zip(self.operators, self.names, self.open, strict=True)
            if chosen
        }

    def features(self, i: int) -> LinearOperator | None:
        """The features of the rows of a view, whose reading is counted now; None for kernel functions."""
        features = self.maps[i]
        if features is None:
            return None
        self.take(i, 0.0, 1.0, 0.0)
        return features(self.operators[i].data)


class Fitted:
    """Feature map of a view, fitted to the training rows.

    Attributes
    ----------
    map : FeatureMap
    """

    def __init__(self, map: FeatureMap, kernel: Kernel) -> None:  # noqa: A002  # the name of the attribute
        self.map = map
        self.kernel = kernel

    def __repr__(self) -> str:
        return f"{type(self.map).__name__}({self.map.inputs} -> {self.map.columns}, {self.kernel})"


def as_numbers(kernel: Kernel) -> HostArray:
    """The fields of a kernel that are numbers: an array of two rows, whether each field is one, and its value."""
    values = [getattr(kernel, field.name) for field in fields(kernel)]
    numeric = [isinstance(value, int | float) for value in values]
    return np.array(
        [numeric, [float(v) if number else 0.0 for v, number in zip(values, numeric, strict=True)]]
    )
