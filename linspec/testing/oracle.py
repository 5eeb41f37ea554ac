"""Exact answers and the residual laws, computed a second time: dense, float64, on the host.

Problem: a kit that judges by the library's own code agrees with its mistakes.
Method: plain NumPy from the definitions. Least squares by the SVD of A; canonical correlations by the SVD of
each view and of the product of their bases; discriminant directions by the SVD of the data and that of the targets
in their basis; singular values by the SVD. The laws are evaluated on the arrays that a solver returned. What an
answer may be off by follows from its own residual: for least squares ‖x − x*‖ ≤ ‖Aᵀ(b − Ax) − rx‖ / λmin; for
eigenvectors the bound of Davis and Kahan, for singular and canonical vectors Wedin's, with the gap of the exact
values. So a tolerance is never chosen, except for the multiple of rounding that comes with it.
Source: Björck & Golub 1973; Wedin 1972; Davis & Kahan 1970.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, to_host, working_dtype
from linspec.solution import Status
from linspec.testing.problems import Case

SHARES = {"quadrature": (0.85, 1.0), "preconditioned": (1 / 3, 3.0)}
"""By `residual_kind`: between which shares of the exact law a residual lies that does not claim to be exact."""

ROUNDING = 30.0
"""Multiple of the unit roundoff that a backward-stable computation with a hundred terms may lose."""


@dataclass(frozen=True)
class Law:
    """A residual recomputed, and how much of it may be rounding.

    Attributes
    ----------
    residual : float
    floor : float
        Residuals that rounding in the working precision can make of the exact answer.
    most : float
        What a residual may be, if that is more: one that counts what a whole span lacks, of which a part is returned.
    """

    residual: float
    floor: float
    most: float = 0.0

    def contradicts(self, claimed: float, kind: str = "exact") -> bool:
        """Whether a claimed residual of some kind cannot be this one."""
        if not math.isfinite(claimed) or not math.isfinite(self.residual):
            return claimed != self.residual
        low, high = SHARES.get(kind, (1.0, 1.0))
        return not self._within(claimed, low * self.residual, high * max(self.residual, self.most))

    def between(self, low: float, high: float) -> bool:
        """Whether it lies between two numbers."""
        return self._within(self.residual, low, high)

    def _within(self, value: float, low: float, high: float) -> bool:
        """But for rounding: roots are compared, since all are norms."""
        root, blur = math.sqrt(value), 1.005 * math.sqrt(self.floor)
        return 0.995 * math.sqrt(low) - blur <= root <= 1.005 * math.sqrt(high) + blur


EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Reading:
    """How the entries reach the arithmetic: what centring them costs.

    Attributes
    ----------
    readable : bool
        Dense entries, centred in float64 before they are rounded to the working precision. Otherwise the means
        are taken out of products in working precision.
    subtracted : bool
        Sparse: the means may also be taken out of Gram matrices, which squares what centring loses.
    """

    readable: bool = True
    subtracted: bool = False

    def rounding(self, unit: float, shift: float) -> float:
        """The relative rounding of centred data whose means are `shift` times their spread."""
        if self.readable:
            return max(unit, EPS * shift)
        return max(unit * shift, EPS * shift**2 if self.subtracted else 0.0)


def precision(case: Case) -> float:
    """The unit roundoff of the least precise working dtype."""
    return max(float(np.finfo(working_dtype(x.dtype)).eps) for x in case.arrays.values())


def shift_of(X: HostArray) -> float:
    """The largest norm of a column beside that of the same column centred; constant columns are left out."""
    spread = np.linalg.norm(X - X.mean(axis=0), axis=0)
    size = np.linalg.norm(X, axis=0)
    live = spread > 1e-10 * size
    return float((size[live] / spread[live]).max(initial=1.0))


def as_host(x: Any) -> HostArray:
    """Whatever was returned as float64 on the host."""
    return np.asarray(to_host(x), dtype=np.float64)


def _ratio(a: float, b: float) -> float:
    return 0.0 if a == 0 else a / b if b > 0 else math.inf


# ---- least squares ----------------------------------------------------------------------------


class LeastSquaresOracle:
    """The exact solution of least norm, and the law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        self.unit = precision(case)
        self.A = case.arrays["A"].astype(np.float64)
        self.B = case.arrays["B"].astype(np.float64)
        self.vector = self.B.ndim == 1
        self.B = self.B[:, None] if self.vector else self.B
        self.ridge = float(case.parameters.get("ridge", 0.0))
        U, s, Vt = np.linalg.svd(self.A, full_matrices=False)
        keep = s > max(self.A.shape) * self.unit * s[0]
        self.rank = int(keep.sum())
        self.s, self.V = s[keep], Vt[keep].T
        self.x = self.V @ ((self.s / (self.s**2 + self.ridge))[:, None] * (U[:, keep].T @ self.B))
        self.least = float(self.s[-1] ** 2 + self.ridge) if self.rank else 1.0
        self.AtB = np.linalg.norm(self.A.T @ self.B, axis=0)

    @property
    def condition(self) -> float:
        """Condition number of AᵀA + ridge on its range."""
        return float(self.s[0] ** 2 + self.ridge) / self.least

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return self._floor(self.x)

    def _floor(self, x: HostArray) -> float:
        size = self.s[0] ** 2 * np.linalg.norm(x, axis=0) + self.s[0] * np.linalg.norm(self.B, axis=0)
        live = self.AtB > 0
        return ROUNDING * self.unit * float((size[live] / self.AtB[live]).max(initial=0.0))

    def law(self, solution: Any) -> Law:
        """The residual of the normal equations, column by column."""
        x = as_host(solution.x).reshape(self.A.shape[1], -1)
        gap = np.linalg.norm(self.A.T @ (self.B - self.A @ x) - self.ridge * x, axis=0)
        worst = max((_ratio(float(a), float(b)) for a, b in zip(gap, self.AtB, strict=True)), default=0.0)
        return Law(worst, self._floor(x))

    def errors(self, solution: Any) -> list[str]:
        """How the answer misses the exact one by more than its own residual explains."""
        x = as_host(solution.x).reshape(self.A.shape[1], -1)
        law = self.law(solution)
        gap = np.linalg.norm(x - self.x, axis=0)
        allowed = (law.residual + law.floor) * self.AtB / self.least
        # Components outside the row space: only rounding may bring them in.
        allowed += ROUNDING * self.unit * self.condition * np.linalg.norm(self.x, axis=0)
        bad = np.flatnonzero(~(gap <= allowed))
        return [f"x[:, {j}] is off by {gap[j]:.2g}; {allowed[j]:.2g} can be explained" for j in bad]


# ---- singular values --------------------------------------------------------------------------


class SVDOracle:
    """The exact leading triplets, and the law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        A = case.arrays["A"].astype(np.float64)
        self.center = bool(case.parameters.get("center", False))
        self.unit = reading.rounding(precision(case), shift_of(A) if self.center else 1.0)
        self.k = int(case.parameters["k"])
        self.mean = A.mean(axis=0)
        self.A = A - self.mean if self.center else A
        _, s, Vt = np.linalg.svd(self.A, full_matrices=False)
        self.rank = int(np.sum(s > max(A.shape) * precision(case) * s[0]))
        self.count = min(self.k, self.rank)
        self.S, self.V = s[: self.count], Vt[: self.count].T
        after = s[self.count] if self.count < len(s) else 0.0
        self.gap = float(self.S[-1] ** 2 - after**2) / float(s[0] ** 2) if self.count else 0.0
        self.condition = 1.0

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return ROUNDING * self.unit

    def law(self, solution: Any) -> Law:
        """max ‖AᵀAv − σ²v‖ / σ₁²."""
        V, S = as_host(solution.Vh).T, as_host(solution.S)
        gap = np.linalg.norm(self.A.T @ (self.A @ V) - V * S**2, axis=0)
        residual = max((_ratio(float(g), float(S.max() ** 2)) for g in gap), default=0.0)
        return Law(residual, ROUNDING * self.unit)

    def _errors_of_fewer(self, S: HostArray, V: HostArray) -> list[str]:
        """How leading values with orthonormal vectors miss the exact ones, by the norms of what they leave."""
        left = np.linalg.norm(self.A.T @ (self.A @ V) - V * S**2, axis=0).max(initial=0.0)
        off = np.abs(S**2 - self.S[: len(S)] ** 2).max(initial=0.0)
        allowed = left + ROUNDING * self.unit * self.S[0] ** 2
        return [] if off <= allowed else [f"σ² is off by {off:.2g}; {allowed:.2g} can be explained"]

    def _errors_of_left(self, U: HostArray, V: HostArray, S: HostArray, error: float) -> list[str]:
        """How far left vectors are from A V / σ and from orthonormal ones: what is off in V is blown up by σ₁/σ."""
        spread = float(self.S[0] / self.S[-1])
        found = []
        misfit = float(np.linalg.norm(self.A @ V - U * S, axis=0).max() / self.S[0])
        if not misfit <= 10 * error * spread:
            found.append(f"AV − US is {misfit:.2g} σ₁; {10 * error * spread:.2g} can be explained")
        crooked = float(np.abs(U.T @ U - np.eye(len(S))).max())
        if not crooked <= 10 * error * spread**2:
            found.append(
                f"U is {crooked:.2g} from orthonormal; {10 * error * spread**2:.2g} can be explained"
            )
        return found

    def errors(self, solution: Any) -> list[str]:
        """How the answer misses the exact one by more than its own residual explains."""
        order = np.argsort(-as_host(solution.S), kind="stable")
        S, V = as_host(solution.S)[order], as_host(solution.Vh).T[:, order]
        # Who says that digits are lost may return fewer: those must be right.
        fewer = getattr(solution, "status", None) is Status.ILL_CONDITIONED and len(S) < self.count
        if len(S) != self.count and not fewer:
            return [f"{len(S)} singular values are returned; there are {self.count}"]
        if fewer:
            return self._errors_of_fewer(S, V)
        if self.count == 0:
            return []
        law = self.law(solution)
        error = math.sqrt(self.count) * law.residual + law.floor
        squares = np.abs(S**2 - self.S**2).max() / self.S[0] ** 2
        found = []
        if not squares <= error:
            found.append(f"σ² is off by {squares:.2g} σ₁²; {error:.2g} can be explained")
        if not np.abs(V.T @ V - np.eye(self.count)).max() <= ROUNDING * self.unit + 10 * law.residual:
            found.append("the rows of Vh are not orthonormal")
        if self.gap > 1e-6 and error < self.gap:
            angle = float(np.linalg.norm(V - self.V @ (self.V.T @ V), 2))
            if not angle <= 2 * error / self.gap:
                found.append(
                    f"Vh spans a space at sine {angle:.2g}; {2 * error / self.gap:.2g} can be explained"
                )
        if getattr(solution, "U", None) is not None:
            found += self._errors_of_left(as_host(solution.U)[:, order], V, S, error)
        return found


# ---- canonical correlations -------------------------------------------------------------------


class _ViewOracle:
    """One view by its SVD: S = XᵀX + ridge, its inverse on its range, and what scaling leaves of its condition.

    `factor` is orthonormal at ridge 0; with a ridge its singular values are s/√(s² + ridge), so that
    factor_xᵀ factor_y has the canonical correlations for singular values.
    """

    def __init__(self, X: HostArray, ridge: float, center: bool, unit: float) -> None:
        self.X = _centred(X) if center else X
        self.ridge = ridge
        d = np.linalg.norm(self.X, axis=0)
        scale = np.where(d > 0, d, 1.0)
        s = np.linalg.svd(self.X / scale, compute_uv=False)
        self.rank = int(np.sum(s > max(X.shape) * unit * s[0])) if s[0] > 0 else 0
        U, t, Vt = np.linalg.svd(self.X, full_matrices=False)
        U, t, self.V = U[:, : self.rank], t[: self.rank], Vt[: self.rank].T
        self.shrunk = np.sqrt(t**2 + ridge)
        self.factor = U * (t / self.shrunk)
        diagonal = d**2 + ridge
        root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        self.S = self.X.T @ self.X + ridge * np.eye(X.shape[1])
        values = np.linalg.eigvalsh(self.S / np.outer(root, root))
        least = float(values[0] if ridge > 0 else values[-self.rank :][0] if self.rank else 1.0)
        self.condition = float(values[-1]) / least

    def squares(self, R: HostArray) -> HostArray:
        """Squared lengths of columns in the norm of S⁻¹; at ridge 0 that of the pseudo-inverse."""
        inside = self.V.T @ R
        found: HostArray = ((inside / self.shrunk[:, None]) ** 2).sum(axis=0)
        if self.ridge > 0:
            found = found + ((R - self.V @ inside) ** 2).sum(axis=0) / self.ridge
        return found


class CCAOracle:
    """The exact canonical correlations, and the law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        self.k = int(case.parameters["k"])
        ridge = case.parameters.get("ridge", 0.0)
        rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
        center = bool(case.parameters.get("center", True))
        X, Y = case.arrays["X"].astype(np.float64), case.arrays["Y"].astype(np.float64)
        given = precision(case)
        self.unit = reading.rounding(given, max(shift_of(X), shift_of(Y)) if center else 1.0)
        self.x, self.y = _ViewOracle(X, float(rx), center, given), _ViewOracle(Y, float(ry), center, given)
        T = self.x.factor.T @ self.y.factor
        self.left, rho, _ = np.linalg.svd(T)
        self.all = np.clip(rho, 0.0, 1.0)
        # With a ridge every direction has a length, so weights beyond the rank exist (of correlation 0).
        ranks = [view.rank for view in (self.x, self.y) if view.ridge == 0]
        self.count = min(self.k, *ranks) if ranks else self.k
        padded = np.concatenate([self.all, np.zeros(max(self.count - len(rho), 0) + 1)])
        self.correlations = padded[: self.count]
        self.gap = float(padded[self.count - 1] - padded[self.count])
        self.condition = max(self.x.condition, self.y.condition)

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return self._floor(float(self.correlations.sum()))

    def _floor(self, total: float) -> float:
        columns = self.x.S.shape[0] + self.y.S.shape[0]
        # Weights are as long as short directions make them, and so are residuals in the norm of the inverse.
        return _ratio((ROUNDING * self.unit * self.condition) ** 2 * columns * 2 * self.count, total)

    @property
    def rounding(self) -> float:
        """What rounding may do to a correlation."""
        return ROUNDING * self.unit * self.condition

    def law(self, solution: Any) -> Law:
        """Σ‖ϱᵢ‖² / Σρᵢ in the norm of S⁻¹ = diag(Sx, Sy)⁻¹ as block matrices."""
        phi, psi = as_host(solution.x_weights), as_host(solution.y_weights)
        rho = as_host(solution.correlations)
        squares = 0.0
        for a, b, v, w in ((self.x, self.y, phi, psi), (self.y, self.x, psi, phi)):
            squares += float(a.squares(a.X.T @ (b.X @ w) - (a.S @ v) * rho).sum())
        total = float(rho.sum())
        return Law(_ratio(squares, total), self._floor(total))

    def loss(self, solution: Any) -> float:
        """The share of the exact sum that is missing; negative where more is returned than there is."""
        exact = float(self.correlations.sum())
        return _ratio(exact - float(as_host(solution.correlations).sum()), exact)

    def nearest(self, rho: HostArray) -> HostArray:
        """The distance of each number to the exact correlation that is nearest to it."""
        every = np.append(self.all, 0.0)
        found: HostArray = np.abs(every[:, None] - rho[None, :]).min(axis=0)
        return found

    def errors(self, solution: Any) -> list[str]:
        """How the answer misses the exact one by more than its own residual explains."""
        rho = as_host(solution.correlations)
        order = np.argsort(-rho, kind="stable")
        rho, phi, psi = (
            rho[order],
            as_host(solution.x_weights)[:, order],
            as_host(solution.y_weights)[:, order],
        )
        if len(rho) != self.count:
            return [f"{len(rho)} canonical pairs are returned; there are {self.count}"]
        rounding = self.rounding
        law = self.law(solution)
        # ‖(TV − UΣ, TᵀU − VΣ)‖ with T = Sx^(-1/2) C Sy^(-1/2).
        off = math.sqrt((law.residual + law.floor) * float(rho.sum()))
        limit = rounding + math.sqrt(2) * off
        if self.gap > 1e-6:
            limit = min(limit, rounding + 2 * (off / self.gap) ** 2)
        found = []
        error = float(np.abs(rho - self.correlations).max(initial=0.0))
        if not error <= limit:
            found.append(f"a correlation is off by {error:.2g}; {limit:.2g} can be explained")
        for name, view, W in (("x", self.x, phi), ("y", self.y, psi)):
            misfit = float(np.abs(W.T @ view.S @ W - np.eye(len(rho))).max(initial=0.0))
            if not misfit <= 10 * rounding:
                found.append(f"{name}_weights are not orthonormal in their metric: off by {misfit:.2g}")
        if self.gap > 1e-6 and off < self.gap:
            angle, limit = self._angle(phi), (2 * off + rounding) / self.gap
            if not angle <= limit:
                found.append(f"x_weights span a space at sine {angle:.2g}; {limit:.2g} can be explained")
        return found

    def _angle(self, phi: HostArray) -> float:
        """Sine of the angle between Sx^(1/2) Φ and the exact leading space."""
        x = self.x
        root = np.vstack([x.X, math.sqrt(x.ridge) * np.eye(x.X.shape[1])])
        Q = np.linalg.qr(root @ phi)[0]
        exact = root @ (x.V @ (self.left[:, : self.count] / x.shrunk[:, None]))
        return float(np.linalg.norm(Q - exact @ (exact.T @ Q), 2))


# ---- discriminant directions ------------------------------------------------------------------


class DiscriminantOracle:
    """The exact eigenpairs of XᵀHHᵀX w = λ M w with M = XᵀX + ridge, and the law.

    With X = U S Vᵀ, D = S (S² + ridge)^(-1/2) and D UᵀH = P diag(t) Qᵀ: λ = t² and W = V (S² + ridge)^(-1/2) P.
    """

    def __init__(self, case: Case, reading: Reading) -> None:
        center, self.ridge = (
            bool(case.parameters.get("center", True)),
            float(case.parameters.get("ridge", 0.0)),
        )
        X, H = case.arrays["X"].astype(np.float64), case.arrays["H"].astype(np.float64)
        given = precision(case)
        shifts = (shift_of(X), shift_of(H)) if center else (1.0, 1.0)
        self.unit = reading.rounding(given, max(shifts) if reading.readable else shifts[0] * shifts[1])
        self.X: HostArray = _centred(X) if center else X
        self.H: HostArray = _centred(H) if center else H
        U, s, Vt = np.linalg.svd(self.X, full_matrices=False)
        self.rank = int(np.sum(s > max(X.shape) * given * s[0]))
        U, s, self.V = U[:, : self.rank], s[: self.rank], Vt[: self.rank].T
        self.shrunk = np.sqrt(s**2 + self.ridge)
        self.least = float(self.shrunk[-1] ** 2) if self.rank else 1.0
        if self.ridge and self.rank < X.shape[1]:
            self.least = self.ridge
        self.size = float(self.shrunk[0] ** 2) if self.rank else self.ridge
        self.condition = max(self.size / self.least, 1.0)
        self.targets = float(np.linalg.norm(self.H, 2))
        P, t, _ = np.linalg.svd((s / self.shrunk)[:, None] * (U.T @ self.H), full_matrices=False)
        known = int(np.sum(t > ROUNDING * given * math.sqrt(self.condition) * self.targets))
        wanted = case.parameters["k"]
        self.count = known if wanted is None else min(int(wanted), known)
        self.k = self.count if wanted is None else int(wanted)
        self.eigenvalues, self.P = t[: self.count] ** 2, P[:, : self.count]
        after = float(t[self.count] ** 2) if self.count < len(t) else 0.0
        self.gap = float(self.eigenvalues[-1]) - after if self.count else 0.0

    @property
    def weights(self) -> HostArray:
        """The exact ones."""
        exact: HostArray = self.V @ (self.P / self.shrunk[:, None])
        return exact

    @property
    def attainable(self) -> float:
        """The residual that rounding alone leaves; what is forgiven is more, for it is a bound on the sum of many."""
        return self._floor(self.weights, self.eigenvalues) / 3

    def _image(self, W: HostArray) -> HostArray:
        image: HostArray = self.X.T @ (self.H @ (self.H.T @ (self.X @ W)))
        return image

    def _metric(self, W: HostArray) -> HostArray:
        product: HostArray = self.X.T @ (self.X @ W) + self.ridge * W
        return product

    def _floor(self, W: HostArray, values: HostArray) -> float:
        """Data that are off by roundings: those of C count with the sizes of the factors that C comes from."""
        C = float(np.linalg.norm(self.X.T @ self.H, 2))
        spread = C * math.sqrt(self.size) * self.targets * float(np.linalg.norm(W))
        spread += self.size * float(np.linalg.norm(W * values))
        return ROUNDING * self.unit * _ratio(spread, float(np.linalg.norm(self._image(W))))

    def law(self, solution: Any) -> Law:
        """‖CCᵀW − MWΛ‖ / ‖CCᵀW‖ for C = XᵀH, in the Frobenius norm, or in that of M⁻¹ where it is "exact".

        At most ‖C − MWWᵀC‖ / ‖C‖, which is what the span lacks.
        """
        W, values = as_host(solution.weights), as_host(solution.eigenvalues)
        exact, floor = solution.residual_kind == "exact", self._floor(W, values)
        C: HostArray = self.X.T @ self.H
        image, MW = self._image(W), self._metric(W)
        parts = [image - MW * values, image, C - MW @ (W.T @ C), C]
        if exact:
            parts, floor = [self._halved(part) for part in parts], floor * math.sqrt(self.condition)
        gap, size, lacking, whole = (float(np.linalg.norm(part)) for part in parts)
        return Law(_ratio(gap, size), floor, most=_ratio(lacking, whole))

    def _halved(self, R: HostArray) -> HostArray:
        """Columns that have the lengths of those of R in the norm of M⁻¹."""
        inside = self.V.T @ R
        found: HostArray = inside / self.shrunk[:, None]
        if self.ridge > 0:
            found = np.vstack([found, (R - self.V @ inside) / math.sqrt(self.ridge)])
        return found

    def errors(self, solution: Any) -> list[str]:
        """How the answer misses the exact one by more than its own residual explains."""
        order = np.argsort(-as_host(solution.eigenvalues), kind="stable")
        values, W = as_host(solution.eigenvalues)[order], as_host(solution.weights)[:, order]
        if len(values) != self.count:
            return [f"{len(values)} directions are returned; there are {self.count}"]
        if self.count == 0:
            return []
        rounding = ROUNDING * self.unit * self.condition
        law = self.law(solution)
        # The residual as that of the symmetric eigenproblem of M^(-1/2) CCᵀ M^(-1/2).
        off = (law.residual + law.floor) * float(np.linalg.norm(self._image(W))) / math.sqrt(self.least)
        off += rounding * self.targets**2
        found = []
        error = float(np.abs(values - self.eigenvalues).max())
        if not error <= off:
            found.append(f"an eigenvalue is off by {error:.2g}; {off:.2g} can be explained")
        misfit = float(np.abs(W.T @ self._metric(W) - np.eye(self.count)).max())
        if not misfit <= 10 * rounding:
            found.append(f"the weights are not orthonormal in their metric: off by {misfit:.2g}")
        if off < self.gap:
            angle = self._angle(W)
            if not angle <= 2 * off / self.gap:
                found.append(
                    f"the weights span a space at sine {angle:.2g}; {2 * off / self.gap:.2g} can be explained"
                )
        outside = float(np.linalg.norm(W - self.V @ (self.V.T @ W)) / np.linalg.norm(W))
        if self.ridge == 0 and not outside <= rounding:
            found.append(f"a share {outside:.2g} of the weights is outside the span of the rows of X")
        return found

    def _angle(self, W: HostArray) -> float:
        """Sine of the angle between M^(1/2) W and the exact leading space."""
        root = np.vstack([self.X, math.sqrt(self.ridge) * np.eye(self.X.shape[1])])
        Q = np.linalg.qr(root @ W)[0]
        exact = root @ self.weights
        return float(np.linalg.norm(Q - exact @ (exact.T @ Q), 2))


def _centred(X: HostArray) -> HostArray:
    """Column means taken out; a column of which that leaves rounding alone becomes zeros."""
    size = np.linalg.norm(X, axis=0)
    X = X - X.mean(axis=0)
    centred: HostArray = X * (np.linalg.norm(X, axis=0) > 1e-13 * size)
    return centred


ORACLES: Mapping[str, type[LeastSquaresOracle | SVDOracle | CCAOracle | DiscriminantOracle]] = {
    "least-squares": LeastSquaresOracle,
    "svd": SVDOracle,
    "cca": CCAOracle,
    "discriminant": DiscriminantOracle,
}
