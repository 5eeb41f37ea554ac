"""The truth about problems of components: partial least squares, its regression, and reduced-rank regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec_fuzz.adjusted import RowTerms
from linspec_fuzz.extended import EPS, Extended, column_norms, extended
from linspec_fuzz.truth import GRAIN, DiscriminantTruth, Findings, SVDOf, Truth, host, length, ratio

__all__ = ["PLSRegressionTruth", "PLSTruth", "ReducedRankTruth"]


class PLSTruth(Truth):
    """The k leading singular triplets of XᵀY. Loss: the relative loss in the sum of the singular values."""

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        rows = self.rows(data)
        return [tuple(rows.adjusted(data[name], scale=self.scale) for name in "XY")]

    def _views(self, reading: Any) -> Any:
        return reading

    def _best(self, reading: Any) -> dict[str, Extended]:
        X, Y = (own.entries for own in reading)
        T = SVDOf(X.T @ Y)
        k = min(int(self.case.parameters["k"]), int(np.sum(T.s > 100 * EPS * length(X) * length(Y))))
        return {"x_weights": T.U[:, :k], "y_weights": T.V[:, :k], "singular_values": T.s[:k]}

    def answer(self, solution: Any) -> dict[str, Any]:
        names = ("x_weights", "y_weights", "singular_values")
        return {name: host(getattr(solution, name)) for name in names}

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        X, Y = (own.entries for own in reading)
        U, V, s = answer["x_weights"], answer["y_weights"], answer["singular_values"]
        C, best, given = X.T @ Y, np.sum(self._best(reading)["singular_values"]), np.sum(s)
        gaps = [*column_norms(C @ V - U * s), *column_norms(C.T @ U - V * s)]
        crooked = (np.max(np.abs(W.T @ W - np.eye(len(s))), initial=0) for W in (U, V))
        return Findings(
            law=ratio(max(gaps, default=0), max(s, default=0)),
            grain=ratio(GRAIN * self.case.precision * length(X) * length(Y) * len(s), best),
            loss=ratio(best - given, best) if given < best else 0.0,
            excess=ratio(given - best, best) if given > best else 0.0,
            squared=GRAIN * self.case.precision * max(own.shift for own in reading) ** 2,
            misfit=float(max(crooked)),
        )


def leading(C: Extended) -> tuple[Any, Extended]:
    """Return the largest singular value of a matrix and its left vector, 0 and zeros for a matrix of zeros."""
    size = np.max(np.abs(C), initial=0)
    if not size > 0:
        return extended(0), np.zeros(len(C), np.longdouble)
    w = extended(np.linalg.svd(np.asarray(C / size, float), full_matrices=False)[0][:, 0])
    for _ in range(3):
        w = C @ (C.T @ w) / size / size
        w = w / length(w)
    return length(C.T @ w), w


class PLSRegressionTruth(PLSTruth):
    """Components of X with the largest covariance with Y, each after deflation by the weights of the earlier ones.

    Loss: by how much the covariance of a component is below the largest one at its place, relative to ‖XᵀY‖.
    """

    def _deflated(self, reading: Any, weights: Extended | None) -> tuple[Extended, Extended, float, float]:
        """Deflate by given weights, or by the best ones; return these, the fit of Y, the law and the loss."""
        A, Y = (own.entries for own in reading)
        size, noise = leading(A.T @ Y)[0], 100 * EPS * length(A) * length(Y)
        fit, W, law, loss = 0 * Y, [], 0.0, 0.0
        for i in range(int(self.case.parameters["k"])):
            C = A.T @ Y
            s, w = leading(C)
            if weights is not None:
                if i >= weights.shape[1]:
                    return weights, fit, law, max(loss, ratio(s, size))
                w = weights[:, i]
                own = length(C.T @ w)
                law = max(law, ratio(length(C @ (C.T @ w) - own**2 * w), own * size))
                loss = max(loss, ratio(s - own, size))
            t = A @ w
            if not (s > noise or weights is not None) or not t.any():
                break
            W.append(w)
            fit = fit + np.outer(t, Y.T @ t / (t @ t))
            A = A - np.outer(t, A.T @ t / (t @ t))
        return np.array(W).reshape(len(W), A.shape[1]).T, fit, law, loss

    def _best(self, reading: Any) -> dict[str, Extended]:
        X, Y = reading
        W, fit, _, _ = self._deflated(reading, None)
        B, R = np.zeros((len(W), fit.shape[1]), np.longdouble), list[Extended]()
        for w in W.T:  # X r is the score of the deflated X
            image = X.entries @ w
            scores = [X.entries @ r for r in R]
            r = w - sum((r * (t @ image) / (t @ t) for r, t in zip(R, scores, strict=True)), 0 * w)
            t = X.entries @ r
            B, R = B + np.outer(r, fit.T @ t / (t @ t)), [*R, r]
        return {"x_weights": W, "coefficients": B / X.scale[:, None] * Y.scale}

    def answer(self, solution: Any) -> dict[str, Any]:
        B = host(solution.coefficients())
        return {"x_weights": host(solution.x_weights), "coefficients": B.reshape(len(B), -1)}

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        X, Y = reading
        _, fit, law, loss = self._deflated(reading, answer["x_weights"])
        off = X.entries @ (X.scale[:, None] * answer["coefficients"] / Y.scale) - fit
        size, noise = leading(X.entries.T @ Y.entries)[0], length(X.entries) * length(Y.entries)
        return Findings(
            law=law,
            loss=loss,
            grain=ratio(GRAIN * self.case.precision * noise, size),
            notes={"coefficients do not belong to the weights": ratio(length(off), length(fit))},
        )


class ReducedRankTruth(DiscriminantTruth):
    """Reduced-rank regression: the directions of a discriminant whose targets are the adjusted right-hand sides."""

    def _targets(self, rows: RowTerms, data: Mapping[str, Extended]) -> tuple[Extended, Extended]:
        own = rows.adjusted(data["Y"], scale=self.scale)
        return own.entries, own.scale

    def _best(self, reading: Any) -> dict[str, Extended]:
        own, H, _, _, scale = reading
        found = super()._best(reading)
        loadings = H.T @ (own.entries @ (own.scale[:, None] * found["weights"]))
        return {**found, "y_loadings": loadings * scale[:, None]}

    def answer(self, solution: Any) -> dict[str, Any]:
        values = extended(solution.singular_values) ** 2
        return {
            "weights": host(solution.weights),
            "eigenvalues": values,
            "y_loadings": host(solution.y_loadings),
        }

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        own, H, _, _, scale = reading
        true = H.T @ (own.entries @ (own.scale[:, None] * answer["weights"]))
        off = ratio(length(answer["y_loadings"] / scale[:, None] - true), length(true))
        found = super().judge(reading, answer)
        return Findings(**{**vars(found), "notes": {"y_loadings do not belong to the weights": off}})
