"""The truth about a case, in extended precision: the best answer, and the errors of a given one.

Problem: an answer must be judged by its law and its loss, and not by linspec's own numbers. This must work
where float64 fails: at condition numbers of 1e14, at 1e±200, and with means that are 1e8 times the spread.
Method: X = U S Vᵀ in extended precision (`linspec_fuzz.extended`), M = XᵀX + r, and a = M^(1/2) w in
the coordinates V. Then every law is plain algebra of small matrices: the norm of S⁻¹ becomes the Euclidean
norm, and no matrix is squared. If the ridge is zero, columns are scaled before the factorisation.

*Rank.* At ridge 0 a direction v with ‖Xv‖ ≤ 10 eps ‖X‖ ‖v‖ is null. Two programs may both be right with
different ranks near that bound, or if the column scales differ by more than 1/eps. So there are several
`readings` of a matrix, and an answer is judged by the reading that it fits best.

*Rounding.* A solver is not to blame for the effect of rounding of the data. Therefore the truth is computed
for data that are perturbed by `PERTURBATION` eps, column by column. The answer to those data is rounded to
the dtype of the data and judged in the same way. Its law and its loss are the `floor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import linspec
from linspec.arrays import working_dtype
from linspec_fuzz.adjusted import Adjusted, RowTerms
from linspec_fuzz.extended import EPS, Extended, column_norms, extended, svd
from linspec_fuzz.problems import TARGETS, Case

__all__ = [
    "CCATruth",
    "DiscriminantTruth",
    "Findings",
    "LeastSquaresTruth",
    "SVDTruth",
    "TrueView",
    "Truth",
    "host",
    "length",
    "perturbed",
    "ratio",
    "readings",
]

NULL = 10.0
"""A direction v is null if ‖Xv‖ / ‖X‖‖v‖ is at most this multiple of eps."""

LENIENT = (0.05, 1.0, 2.0)
"""A rank cut at any of these multiples of the bound `NULL` counts as right, too."""

PERTURBATION = 10.0
"""Size of the perturbation of the data, in multiples of eps, that shows the effect of rounding."""

DRAWS = 2
"""Number of perturbations of the data, from which the largest effect is taken."""

GRAIN = 100.0
"""Allowed error, in multiples of eps, of correlations, and of roots of eigenvalues over the norm of the targets."""

CERTAIN = 1e-7
"""The scales that a solution reports are compared with the exact scales only if the relative rounding of the centred
columns is below this. Large means make this rounding large, and then the solver cannot know the scales."""

FLOAT64 = float(np.finfo(np.float64).eps)

READINGS = 6
"""The largest number of readings of a matrix."""


@dataclass(frozen=True)
class Findings:
    """The errors of given arrays.

    Attributes
    ----------
    law : float
        The residual, by the law of the problem.
    loss : float
        The relative loss in the value of the problem.
    explained : float
        The largest loss that the residual explains, for least squares and SVD. 0 for other problems, where it is the
        residual itself.
    excess : float
        The relative excess of the returned value over the best one.
    misfit : float
        The distance of vectors from unit length and from orthogonality, in their metric.
    grain : float
        The relative loss, or excess, that absolute rounding of the values explains. Small correlations have
        the same absolute accuracy as correlations near 1.
    squared : float
        The relative rounding of values that are computed from Gram matrices: `GRAIN` eps times the squared condition
        number, times the squared factor by which subtracting means and confounds shortens a column.
    values : array
        All true values that bounds may refer to.
    notes : mapping
        Other errors, by description: of column means, scales and the total of squares, and the fraction of
        coefficients outside the span of the rows.
    """

    law: float
    loss: float
    explained: float = 0.0
    excess: float = 0.0
    misfit: float = 0.0
    grain: float = 0.0
    squared: float = 0.0
    values: Any = ()
    notes: Mapping[str, float] = field(default_factory=dict)


# ---- one matrix -------------------------------------------------------------------------------


class TrueView:
    """One reading of a matrix: X = U diag(s) Vᵀ on its numerical range, after column scales d.

    The coordinates of weights w are a = M^(1/2) w on that range: √(s² + r) Vᵀ(d σ w), where σ are the problem's
    divisors of columns.
    """

    def __init__(
        self, U: Extended, s: Extended, V: Extended, d: Extended, ridge: Any, data: Adjusted
    ) -> None:
        self.U, self.s, self.V, self.d, self.data = U, s, V, d, data
        self.sigma = data.scale
        self.ridge = extended(ridge)
        self.shrunk = np.sqrt(s * s + self.ridge)

    @property
    def rank(self) -> int:
        """The number of directions that are kept."""
        return len(self.s)

    def cut(self, rank: int) -> TrueView:
        """Return the view with only the leading directions."""
        return TrueView(self.U[:, :rank], self.s[:rank], self.V[:, :rank], self.d, self.ridge, self.data)

    def again(self, data: Adjusted) -> TrueView:
        """Read other data with the same column scales; the rank stays the same, unless there is a ridge."""
        U, s, V = svd(data.entries / self.d)
        rank = _rank(s, 100 * EPS) if self.ridge > 0 else self.rank
        return TrueView(U, s, V, self.d, self.ridge, data).cut(rank)

    @property
    def condition(self) -> float:
        """Condition number of M^(1/2) on the range."""
        return float(self.shrunk[0] / self.shrunk[-1]) if self.rank else 1.0

    @property
    def factor(self) -> Extended:
        """U diag(s/√(s² + r)), which is X M^(-1/2)."""
        return self.U * _over(self.s, self.shrunk)

    def coordinates(self, W: Extended) -> tuple[Extended, Extended]:
        """Return the coordinates of weights, and √r times their part outside the range of Xᵀ."""
        W = (self.d * self.sigma)[:, None] * W
        inside = self.V.T @ W
        outside = (W - self.V @ inside) * np.sqrt(self.ridge)
        return self.shrunk[:, None] * inside, outside

    def weights(self, a: Extended) -> Extended:
        """Return the weights in the range that have these coordinates."""
        found: Extended = (self.V @ _over(a, self.shrunk[:, None])) / (self.d * self.sigma)[:, None]
        return found


def _over(a: Extended, b: Extended) -> Extended:
    """Return a / b, and 0 if b is 0."""
    quotient: Extended = np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape, np.longdouble), where=b != 0)
    return quotient


def readings(data: Adjusted, ridge: float, unit: float) -> list[TrueView]:
    """Return the readings of a matrix; the first cuts at the bound `NULL`."""
    X = data.entries
    if not X.any():
        empty = np.zeros((0,), np.longdouble)
        U, V = np.zeros((X.shape[0], 0), np.longdouble), np.zeros((X.shape[1], 0), np.longdouble)
        return [TrueView(U, empty, V, np.ones(X.shape[1], np.longdouble), ridge, data)]
    ones = np.ones(X.shape[1], np.longdouble)
    plain = TrueView(*svd(X), ones, ridge, data)
    if ridge > 0:
        return [plain.cut(_rank(plain.s, 100 * EPS))]
    d = column_norms(X)
    d = np.where(d > 0, d, 1)
    scaled = TrueView(*svd(X / d), d, ridge, data)
    bounds = [NULL * unit * lenient for lenient in (1.0, *LENIENT)] + [2 * NULL * unit * data.shift]
    found: list[TrueView] = []
    seen: set[tuple[bool, int]] = set()
    for view in (plain, scaled):
        for bound in bounds:
            rank = _rank(view.s, max(bound, 100 * EPS))
            # At full rank both scalings give the same reading; the scaled one is more accurate.
            key = (view is scaled or rank == X.shape[1], rank)
            if key not in seen:
                seen.add(key)
                found.append((scaled if key[0] else plain).cut(rank))
    return found[:READINGS]


def _rank(s: Extended, bound: float) -> int:
    return int(np.sum(s > bound * s[0])) if len(s) else 0


def size_of_columns(X: Extended) -> Extended:
    """Return root mean squares of columns."""
    return column_norms(X) / np.sqrt(extended(X.shape[0]))


def perturbed(X: Extended, unit: float, rng: np.random.Generator) -> Extended:
    """Return data perturbed by random errors of the size of rounding, column by column."""
    noise = extended(rng.standard_normal(X.shape))
    off: Extended = X + PERTURBATION * unit * noise * size_of_columns(X)
    return off


# ---- all families -----------------------------------------------------------------------------


class Truth(ABC):
    """The truth about a case.

    Parameters
    ----------
    case : Case
    """

    centers = True
    """Whether the problem centres by default."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.center = bool(case.parameters.get("center", self.centers))
        self.scale = bool(case.parameters.get("scale", False))
        self.exact = {name: square(extended(case.entries(name))) for name in case.matrices}
        for name in ("sample_weight", "confounds"):
            if case.parameters.get(name) is not None:
                self.exact[name] = extended(case.parameters[name])
        self.readings = self._read(self.exact, None)
        self._floors: dict[str, list[list[Findings]]] = {}

    def rows(self, data: Mapping[str, Extended]) -> RowTerms:
        """Return weights, the constant and confounds of these data."""
        n = next(iter(data.values())).shape[0]
        return RowTerms(n, data.get("sample_weight"), data.get("confounds"), center=self.center)

    @abstractmethod
    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        """Return the readings of the data: factorisations that cut off small singular values at different ranks.

        If `views` is None, there is a reading for each rank that may be right. Otherwise `views` are the `_views` of an
        earlier reading, and the only reading has their ranks, unless there is a ridge.
        """

    @abstractmethod
    def _best(self, reading: Any) -> dict[str, Extended]:
        """Return the best answer of a reading, by the names of a solution's fields."""

    @abstractmethod
    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        """Return the errors of an answer, judged by a reading."""

    @abstractmethod
    def _views(self, reading: Any) -> Any:
        """Return the factorised matrices (`TrueView`) of a reading, whose numerical ranks `_read` can use again."""

    def findings(self, solution: Any) -> list[Findings]:
        """Return the errors of a solution by each reading."""
        answer = {**self.answer(solution), "norm": self.norm(solution)}
        notes = self._columns(solution)
        found = [self.judge(reading, answer) for reading in self.readings]
        return [replace(one, notes={**one.notes, **notes}) for one in found]

    def _columns(self, solution: Any) -> dict[str, float]:
        """Return the errors of column means, relative to the columns, and relative errors of scales."""
        rows, found = self.rows(self.exact), {}
        for name, field_name in linspec.get_problem(self.case.family).solution.layout.means.items():
            own = rows.adjusted(self.exact[name], scale=self.scale)
            size = column_norms(rows.roots * self.exact[name]) / np.sqrt(rows.total)
            found[f"{field_name} is off"] = _off_by(getattr(solution, field_name, None), own.mean, size)
            scale = field_name.removesuffix("mean") + "scale"
            certain = own.shift * self.case.matrices[name].precision < CERTAIN
            if self.scale and certain:
                found[f"{scale} is off"] = _off_by(
                    getattr(solution, scale, None), own.scale, np.where(own.live, own.scale, np.inf)
                )
        return found

    def norm(self, solution: Any) -> str:
        """Return the name of the norm of a solution's law; "" if the family has only one."""
        return ""

    @abstractmethod
    def answer(self, solution: Any) -> dict[str, Any]:
        """Return the arrays of a solution in extended precision."""

    @property
    def values(self) -> Extended | None:
        """The values of the problem, by the first reading; None for least squares."""
        best = self._best(self.readings[0])
        names = ("correlations", "S", "eigenvalues", "singular_values", "sums")
        return next((best[name] for name in names if name in best), None)

    def floor(self, number: int, norm: str = "") -> Findings:
        """Return the errors that rounding of the data causes in the best answer of a reading, in a norm of the law."""
        if norm not in self._floors:
            self._floors[norm] = [self._draw(reading, norm) for reading in self.readings]
        draws = self._floors[norm][number]
        return Findings(
            law=max(found.law for found in draws),
            loss=max(abs(found.loss) for found in draws),
            excess=max(max(found.excess, abs(found.loss)) for found in draws),
            misfit=max(found.misfit for found in draws),
            notes={name: max(found.notes[name] for found in draws) for name in draws[0].notes},
        )

    def _draw(self, reading: Any, norm: str) -> list[Findings]:
        rng = np.random.default_rng(0)
        draws = []
        for _ in range(DRAWS):
            off = {
                name: X * (1 + PERTURBATION * FLOAT64 * extended(rng.standard_normal(X.shape)))
                if name == "sample_weight"
                else perturbed(X, self._unit(name), rng)
                for name, X in self.exact.items()
            }
            twin = self._read(off, self._views(reading))[0]
            draws.append(self.judge(reading, {**self._rounded(self._best(twin)), "norm": norm}))
        return draws

    def _unit(self, name: str) -> float:
        """Return the unit roundoff of a matrix; targets have at least the precision of the main matrix."""
        if name == "confounds":
            return FLOAT64
        own = self.case.matrices[name].precision
        return min(own, self.case.precision) if name in TARGETS else own

    def _rounded(self, answer: dict[str, Extended]) -> dict[str, Extended]:
        """Round an answer to the dtype of a solver's arrays."""
        found = {}
        for name, value in answer.items():
            source = {"x": "A", "Vh": "A", "x_weights": "X", "y_weights": "Y", "weights": "X"}.get(name)
            source = source if source in self.case.matrices else None
            dtype = working_dtype(self.case.entries(source).dtype) if source else np.float64
            with np.errstate(over="ignore", under="ignore"):
                found[name] = extended(np.asarray(value).astype(dtype))
        return found


def square(X: Extended) -> Extended:
    return X[:, None] if X.ndim == 1 else X


def host(x: Any) -> Extended:
    """Return an array of any library in extended precision."""
    from linspec.arrays import to_host

    return extended(to_host(x))


def length(x: Extended) -> Extended:
    """Return the Frobenius norm."""
    norm: Extended = np.sqrt(np.sum(x * x))
    return norm


def ratio(a: Any, b: Any) -> float:
    """Return a / b: 0 for 0 / 0, and infinity for other quotients by 0."""
    if a == 0:
        return 0.0
    return float(a / b) if b > 0 else float("inf")


def _off_by(given: Any, true: Extended, unit: Extended) -> float:
    """Return the largest error of values for each column (such as means), in units of `unit`; 0 without values."""
    if given is None:
        return 0.0
    return max(map(ratio, np.abs(host(given).ravel() - true), unit), default=0.0)


# ---- least squares ----------------------------------------------------------------------------


class LeastSquaresTruth(Truth):
    """min ‖A x − B‖² + r ‖x‖² for one ridge or several.

    Loss: ‖x − x*‖²_M / ‖x*‖²_M in the metric M = AᵀA + r, for the column where it is largest. This is the excess of the
    objective over its least value, relative to the part that the best solution x* explains. A residual `law` explains a
    loss of up to κ(M)·law².
    """

    centers = False

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        rows = self.rows(data)
        A, B = rows.adjusted(data["A"], scale=self.scale), rows.adjusted(data["B"]).entries
        ridge = self.case.parameters.get("ridge", 0.0)
        ridges = tuple(ridge) if isinstance(ridge, tuple | list) else (ridge,)
        if views is not None:
            return [(A, B, [view.again(A) for view in views], ridges)]
        each = [readings(A, ridge, self.case.matrices["A"].precision) for ridge in ridges]
        # A reading cuts A in the same way for all zero ridges.
        count = max(len(own) for own in each)
        return [(A, B, [own[min(i, len(own) - 1)] for own in each], ridges) for i in range(count)]

    def _views(self, reading: Any) -> Any:
        return reading[2]

    def _best(self, reading: Any) -> dict[str, Extended]:
        _, B, views, _ = reading
        return {"x": np.stack([view.weights(view.factor.T @ B) for view in views])}

    def answer(self, solution: Any) -> dict[str, Any]:
        p = self.exact["A"].shape[1]
        x = host(solution.x)
        path = isinstance(self.case.parameters.get("ridge", 0.0), tuple | list)
        return {"x": x.reshape(len(x) if path else 1, p, -1)}

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        data, B, views, ridges = reading
        A = data.entries
        law = loss = explained = outside = 0.0
        for found, view, ridge in zip(answer["x"], views, ridges, strict=True):
            x = data.scale[:, None] * found
            gap = A.T @ (B - A @ x) - extended(ridge) * x
            own = max(map(ratio, column_norms(gap), column_norms(A.T @ B)))
            a, off = view.coordinates(found)
            best = view.factor.T @ B
            error = np.sum((a - best) ** 2, axis=0) + np.sum(off**2, axis=0)
            loss = max(loss, *map(ratio, error, np.sum(best**2, axis=0)))
            law = max(law, own)
            explained = max(explained, own**2 * self._condition(ridge))
            if ridge == 0:
                outside = max(outside, self._outside(x, view))
        return Findings(law=law, loss=loss, explained=explained, notes={"not of least norm": outside})

    @cached_property
    def _singular(self) -> Extended:
        s = svd(self.rows(self.exact).adjusted(self.exact["A"], scale=self.scale).entries)[1]
        return s[: _rank(s, 100 * EPS)]

    def _condition(self, ridge: float) -> float:
        """Return the condition number of AᵀA + r on its range."""
        s, r = self._singular, extended(ridge)
        return float((s[0] ** 2 + r) / (s[-1] ** 2 + r)) if len(s) else 1.0

    @staticmethod
    def _outside(x: Extended, view: TrueView) -> float:
        """Return the length of the part of x outside the span of the rows, relative to x, for the worst column of x.

        0 if the rows span the whole space. Also 0 if the columns were divided by different scales before the
        factorisation, because the view then has the span of the scaled rows only.
        """
        if view.rank == len(x) or not np.all(view.d == view.d[0]):
            return 0.0
        inside = view.V @ (view.V.T @ x)
        return max(map(ratio, column_norms(x - inside), column_norms(x)))


# ---- singular values --------------------------------------------------------------------------


class SVDTruth(Truth):
    """The k leading singular triplets. Loss: the largest error of a singular value, relative to the first."""

    centers = False

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        A = self.rows(data).adjusted(data["A"], scale=self.scale).entries
        return [(A, *svd(A))]

    def _views(self, reading: Any) -> Any:
        return 0

    def _best(self, reading: Any) -> dict[str, Extended]:
        A, _, s, V = reading
        k = min(int(self.case.parameters["k"]), len(s))
        return {"S": s[:k], "Vh": V[:, :k].T, "total": np.sum(A * A)}

    def answer(self, solution: Any) -> dict[str, Any]:
        found = {"S": extended(solution.S), "Vh": host(solution.Vh)}
        total = getattr(solution, "total_squares", None)
        if total is not None and np.isfinite(total):
            found["total"] = extended(total)
        return found

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        A, _, s, _ = reading
        S, V = answer["S"], answer["Vh"].T
        k = int(self.case.parameters["k"])
        true, given = np.zeros(k, np.longdouble), np.zeros(k, np.longdouble)
        true[: min(k, len(s))] = s[:k]
        given[: min(k, len(S))] = S[:k]
        first = s[0] if len(s) else extended(0)
        gap = A.T @ (A @ V) - V * S**2
        law = max((ratio(g, first**2) for g in column_norms(gap)), default=0.0)
        loss = max(map(ratio, np.abs(true - given), [first] * k))
        misfit = float(np.max(np.abs(V.T @ V - np.eye(V.shape[1])), initial=0))
        notes = {}
        if "total" in answer:
            exact = np.sum(A * A)
            notes["total_squares is off"] = ratio(abs(answer["total"] - exact), exact)
        excess = max(0.0, float(np.max(_over(given - true, np.full(k, first)), initial=0)))
        # The law is about squares, so it determines small singular values less accurately than large ones.
        least = _over(np.full(k, first), given + true)
        explained = float(np.max(np.minimum(np.sqrt(extended(law)), law * least), initial=0))
        return Findings(
            law=law, loss=loss, explained=explained, misfit=misfit, notes=notes, values=s, excess=excess
        )


# ---- canonical correlations -------------------------------------------------------------------


class CCATruth(Truth):
    """The k leading canonical pairs. Loss: (Σρ of the truth − Σρ of the answer) / Σρ of the truth."""

    @property
    def _ridges(self) -> tuple[float, float]:
        ridge = self.case.parameters.get("ridge", 0.0)
        return tuple(ridge) if isinstance(ridge, tuple | list) else (ridge, ridge)

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        rows = self.rows(data)
        both = [rows.adjusted(data[name], scale=self.scale) for name in "XY"]
        if views is None:
            xs, ys = (
                readings(own, ridge, self.case.matrices[name].precision)
                for name, own, ridge in zip("XY", both, self._ridges, strict=True)
            )
            return [self._pair(x, y) for x in xs for y in ys]
        x, y = (view.again(own) for view, own in zip(views, both, strict=True))
        return [self._pair(x, y)]

    @staticmethod
    def _pair(x: TrueView, y: TrueView) -> tuple[TrueView, TrueView, SVDOf]:
        return x, y, SVDOf(x.factor.T @ y.factor)

    def _views(self, reading: Any) -> Any:
        return reading[:2]

    def _best(self, reading: Any) -> dict[str, Extended]:
        x, y, T = reading
        k = min(int(self.case.parameters["k"]), len(T.s))
        return {
            "x_weights": x.weights(T.U[:, :k]),
            "y_weights": y.weights(T.V[:, :k]),
            "correlations": T.s[:k],
        }

    def answer(self, solution: Any) -> dict[str, Any]:
        return {
            "x_weights": host(solution.x_weights),
            "y_weights": host(solution.y_weights),
            "correlations": extended(solution.correlations),
        }

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        x, y, T = reading
        rho = answer["correlations"]
        (a, off_x), (b, off_y) = x.coordinates(answer["x_weights"]), y.coordinates(answer["y_weights"])
        gaps = np.sum((T.matrix @ b - rho * a) ** 2, axis=0) + np.sum((T.matrix.T @ a - rho * b) ** 2, axis=0)
        gaps = gaps + rho**2 * (np.sum(off_x**2, axis=0) + np.sum(off_y**2, axis=0))
        total = np.sum(T.s[: int(self.case.parameters["k"])])
        given = np.sum(rho)
        misfit = max(
            float(np.max(np.abs(c.T @ c + o.T @ o - np.eye(c.shape[1])), initial=0))
            for c, o in ((a, off_x), (b, off_y))
        )
        unit = max(self.case.matrices[name].precision for name in "XY")
        return Findings(
            law=ratio(np.sum(gaps), given),
            grain=ratio(GRAIN * unit * len(rho), total),
            squared=GRAIN
            * unit
            * max(x.condition, y.condition, 1.0) ** 2
            * max(x.data.shift, y.data.shift) ** 2,
            loss=ratio(total - given, total),
            excess=float((given - total) / max(total, extended(1e-300))) if given > total else 0.0,
            misfit=misfit,
            values=np.concatenate([T.s, np.zeros(1, np.longdouble)]),
        )


class SVDOf:
    """A small matrix and its singular value decomposition."""

    def __init__(self, matrix: Extended) -> None:
        self.matrix = matrix
        if matrix.size and matrix.any():
            self.U, self.s, self.V = svd(matrix)
        else:
            self.U, self.V = (np.zeros((size, 0), np.longdouble) for size in matrix.shape)
            self.s = np.zeros(0, np.longdouble)


# ---- discriminant directions ------------------------------------------------------------------


class DiscriminantTruth(Truth):
    """The k leading eigenpairs of XᵀHHᵀX w = λ (XᵀX + r) w. Loss: the relative loss in the sum of the eigenvalues.

    The law is in the norm of the inverse metric if the solution's residual is, else in the Euclidean norm.
    """

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        ridge = float(self.case.parameters.get("ridge", 0.0))
        rows = self.rows(data)
        own, (H, units) = rows.adjusted(data["X"], scale=self.scale), self._targets(rows, data)
        unit = self.case.matrices["X"].precision
        found = readings(own, ridge, unit) if views is None else [views.again(own)]
        return [(own, H, view, SVDOf(view.factor.T @ H), units) for view in found]

    def _targets(self, rows: RowTerms, data: Mapping[str, Extended]) -> tuple[Extended, Extended]:
        """Return the targets with the roots of weights, and the divisors of their columns."""
        H = data["H"]
        return rows.roots * H, np.ones(H.shape[1], np.longdouble)

    def _views(self, reading: Any) -> Any:
        return reading[2]

    def _count(self, reading: Any) -> int:
        """Return the number of directions to compute."""
        k = self.case.parameters.get("k")
        return len(reading[3].s) if k is None else int(k)

    def _best(self, reading: Any) -> dict[str, Extended]:
        _, _, view, T, _ = reading
        k = min(self._count(reading), len(T.s))
        return {"weights": view.weights(T.U[:, :k]), "eigenvalues": T.s[:k] ** 2}

    def answer(self, solution: Any) -> dict[str, Any]:
        return {"weights": host(solution.weights), "eigenvalues": extended(solution.eigenvalues)}

    def norm(self, solution: Any) -> str:
        return "inverse" if solution.residual_kind == "exact" else ""

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        own, H, view, T, _ = reading
        X, values = own.entries, answer["eigenvalues"]
        a, off = view.coordinates(answer["weights"])
        W = own.scale[:, None] * answer["weights"]
        if answer["norm"]:
            image = T.matrix @ (T.matrix.T @ a)
            gap = np.concatenate([image - a * values, off * values])
        else:
            image = X.T @ (H @ (H.T @ (X @ W)))
            gap = image - (X.T @ (X @ W) + view.ridge * W) * values
        total, given = np.sum(T.s[: self._count(reading)] ** 2), np.sum(values)
        size = SVDOf(H).s[:1].sum()
        unit = self.case.matrices["X"].precision
        return Findings(
            law=ratio(length(gap), length(image)),
            grain=ratio(GRAIN * unit * size * np.sum(T.s[: self._count(reading)]), total),
            squared=GRAIN * unit * view.condition**2 * own.shift**2,
            loss=ratio(total - given, total),
            excess=float((given - total) / max(total, extended(1e-300))) if given > total else 0.0,
            misfit=float(np.max(np.abs(a.T @ a + off.T @ off - np.eye(a.shape[1])), initial=0)),
            values=T.s**2,
        )
