"""Planted test cases of canonical correlations, and an independent computation of exact solutions and the law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.solving.solution import Status
from linspec.testing.family import ProblemTesting
from linspec.testing.oracle import (
    ROUNDING,
    Law,
    Reading,
    ViewOracle,
    as_host,
    precision,
    ratio,
    shift_of,
)
from linspec.testing.problems import (
    Case,
    Values,
    as_integers,
    constant_columns,
    geometric,
    in_other_coordinates,
    offset,
    orthonormal,
    zeroed_columns,
)
from linspec.testing.solving import Trial


def planted_cca(  # noqa: PLR0913
    n: int,
    p: int,
    q: int,
    correlations: Values,
    k: int,
    *,
    values_x: Values | None = None,
    values_y: Values | None = None,
    ridge: float | tuple[float, float] = 0.0,
    center: bool = True,
    seed: int = 0,
    name: str = "planted",
    gentle: bool = True,
) -> Case:
    """Construct two views with known canonical correlations.

    Parameters
    ----------
    n, p, q : int
        Rows, columns of X, columns of Y.
    correlations : sequence of float
        The correlations of the planted pairs of directions, without the ridge. All other directions of the two views
        are uncorrelated.
    k : int
        The number of pairs to compute.
    values_x, values_y : sequence of float, optional
        The nonzero singular values of the (centred) views; by default p (q) ones.
    ridge : float or pair of floats, default 0.0
    center : bool, default True
        Whether the problem centres. If so, random column means are added to both views.
    seed : int, default 0
    name : str, default "planted"
    gentle : bool, default True
        `Case.gentle`: whether an iterative solver must reach its tolerance on this case.

    Returns
    -------
    Case
        ``truth["correlations"]``: the k largest with the ridge, or fewer if the ranks are lower.

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.testing import planted_cca
    >>> case = planted_cca(60, 4, 3, [0.9, 0.5], k=2)
    >>> ls.solve(ls.CCA(**case.arrays, **case.parameters), "gram").correlations.round(6)
    array([0.9, 0.5])
    """
    rng = np.random.default_rng([seed, n, p, q])
    sx = np.ones(p) if values_x is None else np.asarray(values_x, dtype=np.float64)
    sy = np.ones(q) if values_y is None else np.asarray(values_y, dtype=np.float64)
    rho, a, b = np.asarray(correlations, dtype=np.float64), len(sx), len(sy)
    Q = orthonormal(rng, n, a + b, centered=center)
    Ux, Uy = Q[:, :a], Q[:, a:].copy()
    Uy[:, : len(rho)] = Ux[:, : len(rho)] * rho + Uy[:, : len(rho)] * np.sqrt(1 - rho**2)
    X, Y = (Ux * sx) @ orthonormal(rng, p, a).T, (Uy * sy) @ orthonormal(rng, q, b).T
    rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    full = np.zeros(min(a, b))
    full[: len(rho)] = rho
    full *= (sx / np.sqrt(sx**2 + rx))[: len(full)] * (sy / np.sqrt(sy**2 + ry))[: len(full)]
    if center:
        X, Y = X + rng.standard_normal(p), Y + rng.standard_normal(q)
    return Case(
        name=name,
        problem="cca",
        arrays={"X": X, "Y": Y},
        parameters={"k": k, "ridge": ridge, "center": center},
        truth={"correlations": np.sort(full)[::-1][:k]},
        gentle=gentle,
    )


def _cca_cases() -> list[Case]:
    make = planted_cca
    rho = (0.95, 0.8, 0.6, 0.3, 0.1)
    mild_x, mild_y = geometric(3, 1, 8), geometric(1, 3, 6)
    mild: dict[str, Any] = {"values_x": mild_x, "values_y": mild_y}
    tall = make(60, 8, 6, rho, 3, **mild, name="tall")
    wide: dict[str, Any] = {"values_x": np.full(9, 3.0), "values_y": np.full(8, 2.0), "ridge": 1.0}
    low: dict[str, Any] = {"values_x": geometric(3, 1, 4), "values_y": geometric(1, 3, 5)}
    return [
        tall,
        make(60, 6, 6, rho, 3, name="square"),
        make(20, 30, 25, (0.9, 0.7, 0.5), 3, **wide, name="wide-ridge"),
        make(
            90,
            8,
            6,
            rho,
            3,
            values_x=geometric(300, 1, 8),
            values_y=geometric(1, 300, 6),
            name="decaying",
            gentle=False,
        ),
        make(60, 8, 6, rho, 3, name="flat"),
        make(60, 9, 8, rho[:4], 3, **low, name="rank-deficient"),
        make(60, 9, 8, rho[:4], 3, **low, ridge=0.5, name="rank-deficient-ridge"),
        make(60, 9, 8, rho[:4], 4, **low, name="k-equals-rank"),
        make(60, 9, 8, rho[:4], 6, **low, name="k-above-rank"),
        make(60, 8, 6, (0.8, 0.8, 0.8, 0.3), 3, name="repeated"),
        make(60, 8, 6, (0.9, 0.7, 0.7, 0.3), 2, name="repeated-at-k", gentle=False),
        # A Krylov space of one vector contains one copy of a value, and no residual shows that others are missing.
        make(110, 40, 36, (*[0.9] * 12, *geometric(0.4, 0.05, 20)), 12, name="many-copies"),
        zeroed_columns(make(60, 6, 5, rho[:4], 2), "zero-columns", "X", "Y"),
        constant_columns(make(60, 6, 5, rho[:4], 2), "constant-columns"),
        make(60, 8, 6, rho, 1, **mild, name="k-one"),
        make(60, 8, 5, rho, 5, name="k-all"),
        make(40, 1, 3, (0.7,), 1, name="one-column"),
        make(60, 8, 6, (), 2, name="uncorrelated", gentle=False),
        make(60, 8, 6, (1.0, 1.0, 0.5), 3, name="shared-directions"),
        make(60, 8, 6, rho, 3, **mild, ridge=2.0, name="ridge"),
        make(60, 8, 6, rho, 3, **mild, ridge=(0.0, 3.0), name="ridge-pair"),
        make(60, 8, 6, rho, 3, **mild, center=False, name="no-centring"),
        replace(offset(tall, "X", "Y"), name="offset"),
        tall.with_arrays(lambda x: x.astype(np.float32), "float32"),
        replace(offset(tall, "X", "Y"), name="float32-offset").with_arrays(
            lambda x: x.astype(np.float32), "float32-offset"
        ),
        make(60, 8, 6, rho, 3, **mild, ridge=2.0).with_arrays(
            lambda x: x.astype(np.float32), "float32-ridge"
        ),
        as_integers(tall, "int8", "int8"),
        as_integers(tall, "int64", "int64"),
        as_integers(tall, "bool", "bool"),
        tall.with_arrays(lambda x: x * 1e15, "large-units"),
        tall.with_arrays(lambda x: x * 1e-15, "small-units"),
    ]


class CCAOracle:
    """The exact canonical correlations of a case, and its law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        self.k = int(case.parameters["k"])
        ridge = case.parameters.get("ridge", 0.0)
        rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
        center = bool(case.parameters.get("center", True))
        X, Y = case.arrays["X"].astype(np.float64), case.arrays["Y"].astype(np.float64)
        given = precision(case)
        self.unit = reading.rounding(given, max(shift_of(X), shift_of(Y)) if center else 1.0)
        self.x, self.y = ViewOracle(X, float(rx), center, given), ViewOracle(Y, float(ry), center, given)
        T = self.x.factor.T @ self.y.factor
        self.left, rho, _ = np.linalg.svd(T)
        self.all = np.clip(rho, 0.0, 1.0)
        # With a ridge every direction has a positive length, so there are pairs beyond the rank, with correlation 0.
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
        # Short directions make weights long, and residuals in the norm of the inverse as well.
        return ratio((ROUNDING * self.unit * self.condition) ** 2 * columns * 2 * self.count, total)

    @property
    def rounding(self) -> float:
        """The error of a correlation caused by rounding."""
        return ROUNDING * self.unit * self.condition

    def law(self, solution: Any) -> Law:
        """The residual Σ‖ϱᵢ‖² / Σρᵢ in the norm of S⁻¹ = diag(Sx, Sy)⁻¹ (block diagonal), and its rounding."""
        phi, psi = as_host(solution.x_weights), as_host(solution.y_weights)
        rho = as_host(solution.correlations)
        squares = 0.0
        for a, b, v, w in ((self.x, self.y, phi, psi), (self.y, self.x, psi, phi)):
            squares += float(a.squares(a.X.T @ (b.X @ w) - (a.S @ v) * rho).sum())
        total = float(rho.sum())
        return Law(ratio(squares, total), self._floor(total))

    def loss(self, solution: Any) -> float:
        """The missing fraction of the exact sum; it is negative if the returned sum is too large."""
        exact = float(self.correlations.sum())
        return ratio(exact - float(as_host(solution.correlations).sum()), exact)

    def nearest(self, rho: HostArray) -> HostArray:
        """The distance of each returned correlation in `rho` to the nearest exact correlation or zero."""
        every = np.append(self.all, 0.0)
        found: HostArray = np.abs(every[:, None] - rho[None, :]).min(axis=0)
        return found

    def errors(self, solution: Any) -> list[str]:
        """Messages about errors of the solution that are larger than its residual explains."""
        rho = as_host(solution.correlations)
        order = np.argsort(-rho, kind="stable")
        rho, phi, psi = (
            rho[order],
            as_host(solution.x_weights)[:, order],
            as_host(solution.y_weights)[:, order],
        )
        if len(rho) != self.count:
            return [f"there are {self.count} canonical pairs to return; got {len(rho)}"]
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
            found.append(f"a correlation is wrong by {error:.2g}; the residual explains {limit:.2g}")
        for name, view, W in (("x", self.x, phi), ("y", self.y, psi)):
            misfit = float(np.abs(W.T @ view.S @ W - np.eye(len(rho))).max(initial=0.0))
            if not misfit <= 10 * rounding:
                found.append(
                    f"{name}_weights must be orthonormal in their metric; the Gram matrix differs from I by "
                    f"{misfit:.2g}"
                )
        if self.gap > 1e-6 and off < self.gap:
            angle, limit = self._angle(phi), (2 * off + rounding) / self.gap
            if not angle <= limit:
                found.append(
                    f"x_weights must span the leading space; the sine of the angle is {angle:.2g}, and the "
                    f"residual explains {limit:.2g}"
                )
        return found

    def _angle(self, phi: HostArray) -> float:
        """Sine of the angle between Sx^(1/2) Φ and the exact leading space."""
        x = self.x
        root = np.vstack([x.X, math.sqrt(x.ridge) * np.eye(x.X.shape[1])])
        Q = np.linalg.qr(root @ phi)[0]
        exact = root @ (x.V @ (self.left[:, : self.count] / x.shrunk[:, None]))
        return float(np.linalg.norm(Q - exact @ (exact.T @ Q), 2))


NORM_KINDS = frozenset({"exact", "quadrature", "preconditioned"})
"""The values of `residual_kind` if the residual is measured in the norm of an inverse."""

SILENT = 10.0
"""Largest permitted ratio of the missing fraction of the sum to the larger of `residual` and `loss_estimate`."""


def check_bounds(trial: Trial) -> Iterator[str]:
    """The bounds on correlations, residual and loss hold."""
    solution, oracle = trial.solution, trial.oracle
    rho, law = as_host(solution.correlations), trial.law
    if solution.bounds is not None:
        bounds = as_host(solution.bounds)
        for i in np.flatnonzero(~(oracle.nearest(rho) <= bounds + oracle.rounding)):
            yield (
                f"bounds[{i}] must hold; no exact correlation is within {bounds[i]:.2g} of the returned "
                f"{rho[i]:.6g}"
            )
    below, above = solution.law_bounds
    if not law.between(below, above):
        yield (
            f"law_bounds must enclose the law of the returned arrays, {law.residual:.3g}; got {below:.3g} "
            f"and {above:.3g}"
        )
    loss, (least, most) = oracle.loss(solution), solution.loss_bounds
    off = _rounding_of_loss(trial)
    if len(rho) == oracle.count and not least - off <= loss <= (math.inf if most is None else most) + off:
        yield (
            f"loss_bounds must enclose the missing fraction of the sum, {loss:.3g}; got {least:.3g} and "
            f"{most}"
        )


def check_loss(trial: Trial) -> Iterator[str]:
    """The returned sum is at most the exact one, and the solution reports the missing part."""
    solution = trial.solution
    loss, off = trial.oracle.loss(solution), _rounding_of_loss(trial)
    if loss < -off:
        yield (
            "the sum of the correlations must not exceed the exact one; it does so by the fraction "
            f"{-loss:.2g}, and rounding explains {off:.1g}"
        )
    estimate = solution.loss_estimate
    if estimate is not None and not estimate >= 0:
        yield f"loss_estimate must be None or not negative; got {estimate!r}"
    said = max(solution.residual, estimate or 0.0)
    if solution.status is Status.CONVERGED and loss > SILENT * said + off:
        yield (
            "status CONVERGED needs a residual or a loss_estimate of the size of the loss; a fraction of "
            f"{loss:.2g} of the sum is missing, and the solution reports {said:.2g}"
        )


def _rounding_of_loss(trial: Trial) -> float:
    """The relative rounding of the sum of the correlations."""
    total = float(trial.oracle.correlations.sum())
    return float(trial.oracle.count * trial.oracle.rounding / total) if total > 0 else math.inf


FOR_EACH_COLUMN = ("weights", "from_x", "from_y")
"""Suffixes of the fields that have a row for each column of a view and a column for each pair."""


def _shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    k = len(solution.correlations)
    p, q = case.arrays["X"].shape[1], case.arrays["Y"].shape[1]
    means = {"x_mean": (p,), "y_mean": (q,)} if case.parameters.get("center", True) else {}
    of_columns = {
        f"{view}_{what}": (size, k) for view, size in (("x", p), ("y", q)) for what in FOR_EACH_COLUMN
    }
    return {**of_columns, **means}


def _start_case() -> Case:
    """A case with many columns and many correlations below the leading k."""
    behind = np.linspace(0.6, 0.1, 40)
    return planted_cca(120, 60, 50, (0.9, 0.8, *behind), 2, name="many-columns")


TESTING = ProblemTesting(
    cases=lambda: tuple(_cca_cases()),
    oracle=CCAOracle,
    shapes=_shapes,
    moved=in_other_coordinates,  # invertible maps of the columns change no correlations
    residual_kinds=NORM_KINDS,
    start_case=_start_case,
    answer_checks={"bounds": check_bounds, "loss": check_loss},
)
"""The conformance tests of CCA solvers."""
