"""The truth about several views: multiset CCA with absent rows and weights of views, and SUMCOR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec_fuzz.adjusted import RowTerms
from linspec_fuzz.extended import Extended, extended, svd
from linspec_fuzz.truth import GRAIN, Findings, TrueView, Truth, host, length, ratio, readings

__all__ = ["MultisetTruth", "SumcorTruth"]

STARTS, STEPS = 6, 400
"""Numbers of starts and of steps of the search for a component of SUMCOR."""


class MultisetTruth(Truth):
    """The k leading solutions of A w = λ B w. Loss: the relative loss in the sum of the eigenvalues."""

    fields = ("eigenvalues", "agreement")

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        given, names = self.case.parameters, list(self.case.matrices)
        ridge = given.get("ridge", 0.0)
        ridges = ridge if isinstance(ridge, tuple) else (ridge,) * len(names)
        omega = extended(given.get("view_weights") or (1.0,) * len(names))
        n = len(data[names[0]])
        masks = extended(given.get("present") or np.ones((len(names), n)))
        w = data.get("sample_weight", np.ones(n, np.longdouble))
        rows = [RowTerms(n, w * mask, data.get("confounds"), center=self.center) for mask in masks]
        own = [r.adjusted(data[name], scale=self.scale) for r, name in zip(rows, names, strict=True)]
        if views is not None:
            each = [[view.again(X)] for view, X in zip(views, own, strict=True)]
        else:
            each = [readings(X, r, self.case.precision) for X, r in zip(own, ridges, strict=True)]
        some = [[x[min(i, len(x) - 1)] for x in each] for i in range(max(map(len, each)))]
        seen = omega @ masks
        D = np.where(seen > 0, np.sum(omega) / np.where(seen > 0, seen, 1), 0)[:, None]
        return [
            (full := [completed(view) for view in one], self._matrix(full, omega, D), omega) for one in some
        ]

    @staticmethod
    def _matrix(views: list[TrueView], omega: Extended, D: Extended) -> Extended:
        """Return A in coordinates where B is the identity."""
        F = np.hstack([np.sqrt(w) * x.factor for x, w in zip(views, omega, strict=True)])
        rest = [w * x.ridge / x.shrunk**2 for x, w in zip(views, omega, strict=True)]
        found: Extended = F.T @ (D * F) + np.diag(np.concatenate(rest))
        return found

    def _views(self, reading: Any) -> Any:
        return [view.cut(int(np.sum(view.s > 0))) for view in reading[0]]

    def _best(self, reading: Any) -> dict[str, Extended]:
        views, M, omega = reading
        k, (U, s, _) = int(self.case.parameters["k"]), svd(M)
        parts = np.split(U[:, :k], np.cumsum([x.rank for x in views])[:-1])
        found = {
            f"W{i}": x.weights(u / np.sqrt(w))
            for i, (x, u, w) in enumerate(zip(views, parts, omega, strict=True))
        }
        shares = [np.sum(u**2, axis=0) * s[:k] / w for u, w in zip(parts, omega, strict=True)]
        return {**found, "eigenvalues": s[:k], "agreement": np.array(shares)}

    def _columns(self, solution: Any) -> dict[str, float]:
        return {}  # means are tuples here

    def answer(self, solution: Any) -> dict[str, Any]:
        found = {f"W{i}": host(W) for i, W in enumerate(solution.weights)}
        return found | {name: host(getattr(solution, name)) for name in self.fields}

    def _inside(self, reading: Any, answer: Mapping[str, Any]) -> list[Extended]:
        return [x.coordinates(answer[f"W{i}"])[0] for i, x in enumerate(reading[0])]

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        views, M, omega = reading
        a, values = self._inside(reading, answer), answer["eigenvalues"]
        b = np.vstack([np.sqrt(w) * part for part, w in zip(a, omega, strict=True)])
        exact = svd(M)[1]
        best, given = np.sum(exact[: int(self.case.parameters["k"])]), np.sum(values)
        shares = np.array([values * np.sum(part**2, axis=0) for part in a])
        unit, size = GRAIN * self.case.precision, np.max(values, initial=0)
        return Findings(
            law=ratio(np.max(np.sqrt(np.sum((M @ b - b * values) ** 2, axis=0)), initial=0), size),
            grain=ratio(unit * len(values) * np.sum(omega), best),
            squared=unit * max(x.condition for x in views) ** 2 * max(x.data.shift for x in views) ** 2,
            loss=ratio(best - given, best) if given < best else 0.0,
            excess=ratio(given - best, best) if given > best else 0.0,
            misfit=float(np.max(np.abs(b.T @ b - np.eye(len(values))), initial=0)),
            values=exact,
            notes={"agreement is off": ratio(np.max(np.abs(shares - answer["agreement"]), initial=0), size)},
        )


def completed(view: TrueView) -> TrueView:
    """Return a view with a ridge and all directions, also those along which the rows are zero."""
    off = view.V.shape[0] - view.rank
    if not view.ridge > 0 or not off:
        return view
    N = svd(np.eye(len(view.V)) - view.V @ view.V.T)[0][:, :off]
    U, zeros = np.hstack([view.U, np.zeros((len(view.U), off))]), np.zeros(off, np.longdouble)
    return TrueView(U, np.concatenate([view.s, zeros]), np.hstack([view.V, N]), view.d, view.ridge, view.data)


class SumcorTruth(MultisetTruth):
    """Stationary scores with a large sum of correlations. Loss: the next sum, if it is missing."""

    fields = ("sums", "bounds")

    @staticmethod
    def _matrix(views: list[TrueView], omega: Extended, D: Extended) -> Extended:  # noqa: ARG004 (no weights here)
        F = np.hstack([x.factor for x in views])
        block = np.repeat(np.arange(len(views)), [x.rank for x in views])
        found: Extended = (F.T @ F) * (block[:, None] != block)
        return found

    def _searched(self, reading: Any, before: Any) -> tuple[Any, float]:
        """Search for the next component by Horst's iteration from several starts, in float64."""
        views, M, _ = reading
        block = np.repeat(np.arange(len(views)), [x.rank for x in views])
        P = np.eye(len(M)) - (before @ before.T) * (block[:, None] == block)
        M, own = P @ np.asarray(M, float) @ P, (block == np.arange(len(views))[:, None]).astype(float)
        u = P @ np.random.default_rng(0).standard_normal((len(M), STARTS))
        shift = np.linalg.norm(M, 2) if M.size else 0.0
        for _ in range(STEPS):
            size = np.sqrt(own @ u**2)
            last, u = u, u * (own.T @ np.divide(1, size, out=0 * size, where=size > 1e-12))
            if not np.max(np.abs(last - u), initial=0) > 1e-15:
                break
            u = M @ u + shift * u
        size = np.sqrt(own @ u**2)
        u = u * (own.T @ np.divide(1, size, out=0 * size, where=size > 1e-12))
        sums = np.sum(u * (M @ u), axis=0) / 2
        return u[:, [np.argmax(sums)]], float(np.max(sums))

    def _best(self, reading: Any) -> dict[str, Extended]:
        views, M, _ = reading
        u = np.zeros((len(M), 0))
        for _ in range(int(self.case.parameters["k"])):
            u = np.hstack([u, self._searched(reading, u)[0]])
        parts = np.split(extended(u), np.cumsum([x.rank for x in views])[:-1])
        sums = np.sum(extended(u) * (M @ u), axis=0) / 2
        found = {f"W{i}": x.weights(part) for i, (x, part) in enumerate(zip(views, parts, strict=True))}
        return {**found, "sums": sums, "bounds": sums}

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        views, M, _ = reading
        a, sums, bounds = self._inside(reading, answer), answer["sums"], answer["bounds"]
        u, squares = np.vstack(a), 0 * sums
        for part, g in zip(a, np.split(M @ u, np.cumsum([len(x) for x in a])[:-1]), strict=True):
            for c in range(len(sums)):
                free = g[:, c] - part[:, :c] @ (part[:, :c].T @ g[:, c])
                squares[c] += length(free - length(free) * part[:, c]) ** 2
        first = self._searched(reading, np.zeros((len(M), 0)))[1]
        missing = 0.0
        least = min((x.rank for x in views if x.rank), default=0)
        if len(sums) < min(least, int(self.case.parameters["k"])):
            missing = ratio(max(self._searched(reading, np.asarray(u, float))[1], 0.0), first)
        exact, crooked = np.sum(u * (M @ u), axis=0) / 2, [x.T @ x - np.eye(len(sums)) for x in a]
        low = [first - bounds[0], *(sums - bounds)] if len(sums) else [0.0]
        return Findings(
            law=ratio(np.sqrt(np.max(squares, initial=0)), 2 * np.max(sums, initial=0)),
            loss=missing if missing > 1e-6 else 0.0,
            grain=ratio(GRAIN * self.case.precision * len(a) ** 2, first),
            misfit=max(float(np.max(np.abs(each), initial=0)) for each in crooked),
            notes={
                "sums are off": ratio(np.max(np.abs(exact - sums), initial=0), first),
                "a bound is below a component": ratio(max(*low, 0.0), first),
            },
        )
