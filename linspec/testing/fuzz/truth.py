"""The truth about a case, in extended precision: what the best answer is, and how good a given one is.

Problem: an answer is to be judged by its law and by its loss, not by linspec's own account of them, also where
float64 cannot tell: at condition numbers of 1e14, at 1e±200, beside means that are 1e8 times the spread.
Method: with X = U S Vᵀ (extended precision, `linspec.testing.fuzz.extended`), M = XᵀX + r and a = M^(1/2) w in the
coordinates V, every law is plain algebra of small matrices: the norm of S⁻¹ becomes the Euclidean one and nothing is
squared. Column scales are taken out before the factorisation where the ridge is zero.

*Rank.* At ridge 0 a direction v with ‖Xv‖ ≤ 10 eps ‖X‖ ‖v‖ is null. Near that bound, and where columns differ in
scale by more than 1/eps, two programs may both be right with different ranks. So there are several `readings` of a
matrix, and an answer is judged by the one that it fits best.

*Rounding.* What rounding of the data themselves does to the best answer cannot be held against a solver. The same
truth is computed for data that are off by `PERTURBATION` eps, column by column, and the answer to those data, rounded
to the dtype of the data, is judged in the same way: its law and its loss are the `floor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from linspec.arrays import working_dtype
from linspec.testing.fuzz.extended import EPS, Extended, column_norms, extended, svd
from linspec.testing.fuzz.problems import Case

__all__ = ["TRUTHS", "Findings", "Truth", "View", "truth_of"]

NULL = 10.0
"""Multiple of eps at which a direction is null."""

LENIENT = (0.05, 1.0, 2.0)
"""Multiples of that bound at which a cut is as right as at the bound itself."""

PERTURBATION = 10.0
"""Multiple of eps by which data are perturbed to see what their rounding does."""

DRAWS = 2
"""Perturbations of which the worst counts."""

GRAIN = 100.0
"""Multiple of eps to which correlations, and square roots of eigenvalues beside the norm of the targets, are sharp."""

READINGS = 6
"""Readings of a matrix at most."""


@dataclass(frozen=True)
class Findings:
    """How good given arrays are.

    Attributes
    ----------
    law : float
        The residual law of the catalogue.
    loss : float
        What is lost of the value that the problem asks for, relatively.
    explained : float
        A loss that the law itself explains, where it is not of the size of the law.
    excess : float
        How far the returned value is above the best one, relatively.
    misfit : float
        How far vectors are from unit length and from orthogonal, in their metric.
    grain : float
        A relative loss, or excess, that absolute rounding of the values explains: correlations far below 1 are no more
        accurate than others.
    squared : float
        What rounding makes of values that are computed from Gram matrices: eps times the squared condition number, and
        the squared size of the means where they are taken out.
    values : array
        All true values that bounds may refer to.
    notes : mapping
        Other facts that are to be true, by name: how far they are from it.
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


class View:
    """One reading of a matrix: X = U diag(s) Vᵀ on its numerical range, after column scales d.

    The coordinates of weights w are a = M^(1/2) w on that range: √(s² + r) Vᵀ(d w).
    """

    def __init__(self, U: Extended, s: Extended, V: Extended, d: Extended, ridge: float) -> None:
        self.U, self.s, self.V, self.d = U, s, V, d
        self.ridge = extended(ridge)
        self.shrunk = np.sqrt(s * s + self.ridge)

    @property
    def rank(self) -> int:
        """Directions that are kept."""
        return len(self.s)

    def cut(self, rank: int) -> View:
        """The leading directions alone."""
        return View(self.U[:, :rank], self.s[:rank], self.V[:, :rank], self.d, float(self.ridge))

    def again(self, X: Extended) -> View:
        """Other data, read in the same way: with a ridge no direction is null."""
        U, s, V = svd(X / self.d)
        rank = _rank(s, 100 * EPS) if self.ridge > 0 else self.rank
        return View(U, s, V, self.d, float(self.ridge)).cut(rank)

    @property
    def condition(self) -> float:
        """Condition number of M^(1/2) on the range."""
        return float(self.shrunk[0] / self.shrunk[-1]) if self.rank else 1.0

    @property
    def factor(self) -> Extended:
        """U diag(s/√(s² + r)): what stands for X M^(-1/2)."""
        return self.U * _over(self.s, self.shrunk)

    def coordinates(self, W: Extended) -> tuple[Extended, Extended]:
        """Of weights, and, where there is a ridge, √r times what of them lies outside of the range of Xᵀ."""
        W = self.d[:, None] * W
        inside = self.V.T @ W
        outside = (W - self.V @ inside) * np.sqrt(self.ridge)
        return self.shrunk[:, None] * inside, outside

    def weights(self, a: Extended) -> Extended:
        """Weights in the range with such coordinates."""
        return (self.V @ _over(a, self.shrunk[:, None])) / self.d[:, None]


def _over(a: Extended, b: Extended) -> Extended:
    """a / b, 0 where b is 0."""
    quotient: Extended = np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape, np.longdouble), where=b != 0)
    return quotient


def centred(X: Extended) -> Extended:
    """Column means taken out; a column of which that leaves rounding alone becomes zeros."""
    size = column_norms(X)
    X = X - X.mean(axis=0)
    X = X - X.mean(axis=0)
    kept: Extended = X * (column_norms(X) > 100 * EPS * size)
    return kept


def readings(X: Extended, ridge: float, unit: float, shift: float) -> list[View]:
    """The readings of a matrix; the first cuts at the stated bound."""
    if not X.any():
        empty = np.zeros((0,), np.longdouble)
        U, V = np.zeros((X.shape[0], 0), np.longdouble), np.zeros((X.shape[1], 0), np.longdouble)
        return [View(U, empty, V, np.ones(X.shape[1], np.longdouble), ridge)]
    ones = np.ones(X.shape[1], np.longdouble)
    plain = View(*svd(X), ones, ridge)
    if ridge > 0:
        return [plain.cut(_rank(plain.s, 100 * EPS))]
    d = column_norms(X)
    d = np.where(d > 0, d, 1)
    scaled = View(*svd(X / d), d, ridge)
    bounds = [NULL * unit * lenient for lenient in (1.0, *LENIENT)] + [2 * NULL * unit * shift]
    found: list[View] = []
    seen: set[tuple[bool, int]] = set()
    for view in (plain, scaled):
        for bound in bounds:
            rank = _rank(view.s, max(bound, 100 * EPS))
            # At full rank scales of columns make no other reading; of the two the scaled one is more accurate.
            key = (view is scaled or rank == X.shape[1], rank)
            if key not in seen:
                seen.add(key)
                found.append((scaled if key[0] else plain).cut(rank))
    return found[:READINGS]


def _rank(s: Extended, bound: float) -> int:
    return int(np.sum(s > bound * s[0])) if len(s) else 0


def _size(X: Extended) -> Extended:
    """Root mean squares of columns."""
    return column_norms(X) / np.sqrt(extended(X.shape[0]))


def perturbed(X: Extended, unit: float, rng: np.random.Generator) -> Extended:
    """Data that are off by roundings, column by column."""
    noise = extended(rng.standard_normal(X.shape))
    off: Extended = X + PERTURBATION * unit * noise * _size(X)
    return off


# ---- what every family has --------------------------------------------------------------------


class Truth(ABC):
    """The truth about a case.

    Parameters
    ----------
    case : Case
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.exact = {name: _square(extended(case.entries(name))) for name in case.matrices}
        self.readings = self._read(self.exact, None)
        self._floors: dict[str, list[list[Findings]]] = {}

    @abstractmethod
    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        """The readings of the data; with the views of a reading the one that is made in the same way."""

    @abstractmethod
    def _best(self, reading: Any) -> dict[str, Extended]:
        """The best answer by a reading, by the names of a solution."""

    @abstractmethod
    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        """How good an answer is by a reading."""

    @abstractmethod
    def _views(self, reading: Any) -> Any:
        """Where a reading cuts."""

    def findings(self, solution: Any) -> list[Findings]:
        """How good a solution is, by each reading."""
        answer = {**self.answer(solution), "norm": self.norm(solution)}
        return [self.judge(reading, answer) for reading in self.readings]

    def norm(self, solution: Any) -> str:
        """In which of several norms the law of a solution is; "" where there is one."""
        return ""

    @abstractmethod
    def answer(self, solution: Any) -> dict[str, Any]:
        """The arrays of a solution, in extended precision."""

    @property
    def values(self) -> Extended | None:
        """The values that are asked for, by the first reading; None for least squares."""
        best = self._best(self.readings[0])
        return next((best[name] for name in ("correlations", "S", "eigenvalues") if name in best), None)

    def floor(self, number: int, norm: str = "") -> Findings:
        """What rounding of the data does to the best answer, by one reading, in a norm of the law."""
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
            units = {name: self._unit(name) for name in self.exact}
            off = {name: perturbed(X, units[name], rng) for name, X in self.exact.items()}
            twin = self._read(off, self._views(reading))[0]
            draws.append(self.judge(reading, {**self._rounded(self._best(twin)), "norm": norm}))
        return draws

    def _unit(self, name: str) -> float:
        """The rounding that a matrix is given: targets are worked in the precision of what is solved with."""
        own = self.case.matrices[name].precision
        return own if name in ("A", "X", "Y") else min(own, self.case.precision)

    def _rounded(self, answer: dict[str, Extended]) -> dict[str, Extended]:
        """In the dtype in which arrays are returned."""
        found = {}
        for name, value in answer.items():
            source = {"x": "A", "Vh": "A", "x_weights": "X", "y_weights": "Y", "weights": "X"}.get(name)
            dtype = working_dtype(self.case.entries(source).dtype) if source else np.float64
            with np.errstate(over="ignore", under="ignore"):
                found[name] = extended(np.asarray(value).astype(dtype))
        return found


def _square(X: Extended) -> Extended:
    return X[:, None] if X.ndim == 1 else X


def _host(x: Any) -> Extended:
    from linspec.arrays import to_host

    return extended(to_host(x))


def _length(x: Extended) -> Extended:
    norm: Extended = np.sqrt(np.sum(x * x))
    return norm


def _ratio(a: Any, b: Any) -> float:
    if a == 0:
        return 0.0
    return float(a / b) if b > 0 else float("inf")


def _shift(X: Extended) -> float:
    """The largest norm of a column beside that of the same column centred."""
    spread, size = column_norms(centred(X)), column_norms(X)
    live = spread > 0
    return float(np.max(size[live] / spread[live], initial=1))


# ---- least squares ----------------------------------------------------------------------------


class LeastSquaresTruth(Truth):
    """min ‖A x − B‖² + r ‖x‖² for one ridge or several.

    Loss: the excess of the objective over its least value, beside what the best solution explains, in the worst column:
    ‖x − x*‖²_M / ‖x*‖²_M in the metric M = AᵀA + r. The law fixes it up to the condition number of M only: a loss of
    κ(M)·law² is explained.
    """

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        A, B = data["A"], data["B"]
        ridge = self.case.parameters.get("ridge", 0.0)
        ridges = tuple(ridge) if isinstance(ridge, tuple | list) else (ridge,)
        if views is not None:
            return [(A, B, [view.again(A) for view in views], ridges)]
        each = [readings(A, ridge, self.case.matrices["A"].precision, 1.0) for ridge in ridges]
        # A reading cuts A in the same way for all ridges that are zero.
        count = max(len(own) for own in each)
        return [(A, B, [own[min(i, len(own) - 1)] for own in each], ridges) for i in range(count)]

    def _views(self, reading: Any) -> Any:
        return reading[2]

    def _best(self, reading: Any) -> dict[str, Extended]:
        _, B, views, _ = reading
        return {"x": np.stack([view.weights(view.factor.T @ B) for view in views])}

    def answer(self, solution: Any) -> dict[str, Any]:
        p = self.exact["A"].shape[1]
        x = _host(solution.x)
        path = isinstance(self.case.parameters.get("ridge", 0.0), tuple | list)
        return {"x": x.reshape(len(x) if path else 1, p, -1)}

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        A, B, views, ridges = reading
        law = loss = explained = outside = 0.0
        for x, view, ridge in zip(answer["x"], views, ridges, strict=True):
            gap = A.T @ (B - A @ x) - extended(ridge) * x
            own = max(map(_ratio, column_norms(gap), column_norms(A.T @ B)))
            a, off = view.coordinates(x)
            best = view.factor.T @ B
            error = np.sum((a - best) ** 2, axis=0) + np.sum(off**2, axis=0)
            loss = max(loss, *map(_ratio, error, np.sum(best**2, axis=0)))
            law = max(law, own)
            explained = max(explained, own**2 * self._condition(ridge))
            if ridge == 0:
                outside = max(outside, self._outside(x, view))
        return Findings(law=law, loss=loss, explained=explained, notes={"not of least norm": outside})

    @cached_property
    def _singular(self) -> Extended:
        s = svd(self.exact["A"])[1]
        return s[: _rank(s, 100 * EPS)]

    def _condition(self, ridge: float) -> float:
        """The condition number of AᵀA + r on its range."""
        s, r = self._singular, extended(ridge)
        return float((s[0] ** 2 + r) / (s[-1] ** 2 + r)) if len(s) else 1.0

    @staticmethod
    def _outside(x: Extended, view: View) -> float:
        """The share of x outside of the span of the rows, where there is no doubt about that span."""
        if view.rank == len(x) or not np.all(view.d == view.d[0]):
            return 0.0
        inside = view.V @ (view.V.T @ x)
        return max(map(_ratio, column_norms(x - inside), column_norms(x)))


# ---- singular values --------------------------------------------------------------------------


class SVDTruth(Truth):
    """The k leading singular triplets. Loss: the largest error of a singular value, beside the first."""

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        A = centred(data["A"]) if self.case.parameters.get("center", False) else data["A"]
        return [(A, *svd(A))]

    def _views(self, reading: Any) -> Any:
        return 0

    def _best(self, reading: Any) -> dict[str, Extended]:
        A, _, s, V = reading
        k = min(int(self.case.parameters["k"]), len(s))
        return {"S": s[:k], "Vh": V[:, :k].T, "total": np.sum(A * A)}

    def answer(self, solution: Any) -> dict[str, Any]:
        found = {"S": extended(solution.S), "Vh": _host(solution.Vh)}
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
        law = max((_ratio(g, first**2) for g in column_norms(gap)), default=0.0)
        loss = max(map(_ratio, np.abs(true - given), [first] * k))
        misfit = float(np.max(np.abs(V.T @ V - np.eye(V.shape[1])), initial=0))
        notes = {}
        if "total" in answer:
            exact = np.sum(A * A)
            notes["total_squares is off"] = _ratio(abs(answer["total"] - exact), exact)
        excess = max(0.0, float(np.max(_over(given - true, np.full(k, first)), initial=0)))
        # The law is one of squares: of small singular values it leaves more open than of large ones.
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

    def _view(self, name: str, X: Extended, ridge: float) -> list[View]:
        center = self.case.parameters.get("center", True)
        shift = _shift(X) if center else 1.0
        return readings(centred(X) if center else X, ridge, self.case.matrices[name].precision, shift)

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        X, Y = data["X"], data["Y"]
        if views is None:
            xs, ys = (self._view(n, M, r) for n, M, r in zip("XY", (X, Y), self._ridges, strict=True))
            return [self._pair(x, y) for x in xs for y in ys]
        center = self.case.parameters.get("center", True)
        x, y = (view.again(centred(M) if center else M) for view, M in zip(views, (X, Y), strict=True))
        return [self._pair(x, y)]

    @staticmethod
    def _pair(x: View, y: View) -> tuple[View, View, SVDOf]:
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

    @cached_property
    def _shift(self) -> float:
        """How much larger the columns are before their means are taken out."""
        return max(map(_shift, self.exact.values())) if self.case.parameters.get("center", True) else 1.0

    def answer(self, solution: Any) -> dict[str, Any]:
        return {
            "x_weights": _host(solution.x_weights),
            "y_weights": _host(solution.y_weights),
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
            law=_ratio(np.sum(gaps), given),
            grain=_ratio(GRAIN * unit * len(rho), total),
            squared=GRAIN * unit * max(x.condition, y.condition, 1.0) ** 2 * self._shift**2,
            loss=_ratio(total - given, total),
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
    """The k leading eigenpairs of XᵀHHᵀX w = λ (XᵀX + r) w. Loss: of the sum of the eigenvalues, relatively.

    The law is in the norm of the inverse metric where a solution says that its residual is, and else in the plain one.
    """

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        X, H = data["X"], data["H"]
        ridge = float(self.case.parameters.get("ridge", 0.0))
        center = self.case.parameters.get("center", True)
        shift = _shift(X) if center else 1.0
        X = centred(X) if center else X
        unit = self.case.matrices["X"].precision
        found = readings(X, ridge, unit, shift) if views is None else [views.again(X)]
        return [(X, H, view, SVDOf(view.factor.T @ H)) for view in found]

    def _views(self, reading: Any) -> Any:
        return reading[2]

    def _count(self, reading: Any) -> int:
        """How many directions are asked for."""
        k = self.case.parameters.get("k")
        return len(reading[3].s) if k is None else int(k)

    def _best(self, reading: Any) -> dict[str, Extended]:
        _, _, view, T = reading
        k = min(self._count(reading), len(T.s))
        return {"weights": view.weights(T.U[:, :k]), "eigenvalues": T.s[:k] ** 2}

    @cached_property
    def _shift(self) -> float:
        """How much larger the columns are before their means are taken out."""
        return _shift(self.exact["X"]) if self.case.parameters.get("center", True) else 1.0

    def answer(self, solution: Any) -> dict[str, Any]:
        return {"weights": _host(solution.weights), "eigenvalues": extended(solution.eigenvalues)}

    def norm(self, solution: Any) -> str:
        return "inverse" if solution.residual_kind == "exact" else ""

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        X, H, view, T = reading
        W, values = answer["weights"], answer["eigenvalues"]
        a, off = view.coordinates(W)
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
            law=_ratio(_length(gap), _length(image)),
            grain=_ratio(GRAIN * unit * size * np.sum(T.s[: self._count(reading)]), total),
            squared=GRAIN * unit * view.condition**2 * self._shift**2,
            loss=_ratio(total - given, total),
            excess=float((given - total) / max(total, extended(1e-300))) if given > total else 0.0,
            misfit=float(np.max(np.abs(a.T @ a + off.T @ off - np.eye(a.shape[1])), initial=0)),
            values=T.s**2,
        )


TRUTHS: Mapping[str, type[Truth]] = {
    "least-squares": LeastSquaresTruth,
    "svd": SVDTruth,
    "cca": CCATruth,
    "discriminant": DiscriminantTruth,
}


def truth_of(case: Case) -> Truth:
    """The truth about a case."""
    return TRUTHS[case.family](case)
