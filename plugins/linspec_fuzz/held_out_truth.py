"""The truth about held-out rows: the choice of ridges for many targets, and the scores of cross-validation.

Method: means, slopes of confounds and scales are those of the training rows. Each fold is fitted by the truth of the
problem on its training rows, and its held-out rows are scored by the definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from linspec_fuzz.adjusted import DEPENDENT, Adjusted, RowTerms
from linspec_fuzz.extended import Extended, column_norms, extended, svd
from linspec_fuzz.kernel_truth import kernel_matrix
from linspec_fuzz.problems import Case
from linspec_fuzz.truth import Findings, Truth, host, length, perturbed, ratio

WRONG = 1e-4
"""A score is wrong if its error, relative to the larger of 1 and the score, exceeds this, and rounding and the estimate
of rounding that comes with it do not explain it."""

TIED = 1e-6
"""Components are tied if their values differ by less than this share."""

__all__ = ["FoldTruth", "ManyTargetsTruth", "held_out"]

NO_SHARE = 1e-24, 1e-12
"""Bounds of a component's share of the squares: 0 below the first one, and not decided in float64 below the second."""


def held_out(
    X: Extended, w: Extended, Z: Any, train: Any, test: Any, *, center: bool, scale: bool = False
) -> tuple[Adjusted, Extended]:
    """Return training rows with weights, means, confounds and scale, and held-out rows with those of the training."""
    w, Zs = w[train], None if Z is None else Z.reshape(len(X), -1)
    own = RowTerms(len(train), w, None if Zs is None else Zs[train], center=center).adjusted(
        X[train], scale=scale
    )
    design = np.zeros((len(X), 0), np.longdouble) if Zs is None else Zs
    new = X[test]
    if center:
        design, new = design - w @ design[train] / np.sum(w), new - own.mean
    if design.size:
        size = column_norms(design[train])
        U, s, V = svd(np.sqrt(w)[:, None] * design[train] / np.where(size > 0, size, 1))
        live = s > DEPENDENT * s[:1].sum()
        slopes = (V[:, live] / s[live]) @ (U[:, live].T @ (np.sqrt(w)[:, None] * (X[train] - own.mean)))
        new = new - design[test] / np.where(size > 0, size, 1) @ slopes
    return own, new / own.scale


def about_mean(Y: Extended, w: Extended) -> Extended:
    """Return the squares of columns about their means; exactly 0 for those that do not vary."""
    there = w > 0
    if not there.any():
        return np.zeros(Y.shape[1], np.longdouble)
    found: Extended = w @ (Y - w @ Y / np.sum(w)) ** 2 * np.any(Y[there] != Y[there][0], axis=0)
    return found


class ManyTargetsTruth(Truth):
    """The ridge and weights of bands of each target with the best R². Loss: how much the score of the choice is less.

    A target that varies in no fold is scored by the errors of all folds together; all are if a fold has a single row.
    """

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        given, n = self.case.parameters, len(data["X"])
        w, Z = data.get("sample_weight", np.ones(n, np.longdouble)), data.get("confounds")
        bands, settings = np.asarray(given["bands"]), np.sqrt(extended(given["band_weights"]))
        found = np.zeros((2, len(settings), len(given["ridges"]), data["Y"].shape[1]), np.longdouble)
        count, lone = np.zeros(data["Y"].shape[1]), False
        for label in np.unique(given["splitter"]):
            train, test = (
                np.flatnonzero(np.equal(given["splitter"], label) == side) for side in (False, True)
            )
            if not (w[train].any() and w[test].any()):
                continue
            A, C = held_out(data["X"], w, Z, train, test, center=self.center, scale=self.scale)
            B, E = held_out(data["Y"], w, Z, train, test, center=self.center)
            about = about_mean(data["Y"][test], w[test])
            count += about > 0
            lone |= np.count_nonzero(w[test]) == 1
            for i, gamma in enumerate(settings):
                d = gamma[bands]
                U, s, V = svd(A.entries * d)
                for j, r in enumerate(extended(given["ridges"])):
                    x = d[:, None] * (V @ ((s / (s * s + r))[:, None] * (U.T @ B.entries)))
                    errors = w[test] @ (E - C @ x) ** 2
                    found[0, i, j] += np.where(about > 0, 1 - errors / np.where(about > 0, about, 1), 0)
                    found[1, i, j] += errors
        whole = about_mean(data["Y"], w)
        pooled = np.where(whole > 0, 1 - found[1] / np.where(whole > 0, whole, 1), np.nan)
        R = np.where((count > 0) & (not lone), found[0] / np.maximum(count, 1), pooled)
        rows = self.rows(data)
        return [(rows.adjusted(data["X"], scale=self.scale), rows.adjusted(data["Y"]), R, settings[:, bands])]

    def _views(self, reading: Any) -> Any:
        return 0

    def _best(self, reading: Any) -> dict[str, Extended]:
        X, Y, R, settings = reading
        ridges, found = extended(self.case.parameters["ridges"]), []
        flat = np.nan_to_num(R, nan=-np.inf).reshape(-1, R.shape[2])
        places = np.argmax(flat, axis=0)
        for t, (i, j) in enumerate(zip(*np.divmod(places, len(ridges)), strict=True)):
            U, s, V = svd(X.entries * settings[i])
            x = settings[i] * (V @ (s / (s * s + ridges[j]) * (U.T @ Y.entries[:, t])))
            found.append((x / X.scale, i, j, R[i, j, t]))
        x, i, j, scores = (np.array(each) for each in zip(*found, strict=True))
        return {"x": x.T, "setting": i, "ridge": j, "scores": scores}

    def _columns(self, solution: Any) -> dict[str, float]:
        return {}  # coefficients show wrong scales, and predictions show wrong means

    def answer(self, solution: Any) -> dict[str, Any]:
        given = self.case.parameters
        near = [
            np.linalg.norm(np.subtract(given["band_weights"], own), axis=1) for own in solution.band_weights
        ]
        return {
            "x": host(solution.coefficients(list(range(len(near))))),
            "setting": np.argmin(near, axis=1),
            "ridge": np.argmin(np.abs(np.subtract.outer(solution.ridges, given["ridges"])), axis=1),
            "scores": host(solution.scores),
        }

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        X, Y, R, settings = reading
        law = loss = off = 0.0
        for t, (i, j) in enumerate(
            zip(answer["setting"].astype(int), answer["ridge"].astype(int), strict=True)
        ):
            d, x, y = settings[i], X.scale * answer["x"][:, t], Y.entries[:, t]
            z = np.divide(x, d, out=1e300 * extended(x), where=d > 0)
            gap = d * (X.entries.T @ (y - X.entries @ x)) - extended(self.case.parameters["ridges"][j]) * z
            law = max(law, ratio(length(gap), length(d * (X.entries.T @ y))))
            own, best, given = R[i, j, t], np.max(R[:, :, t]), answer["scores"][t]
            if np.isnan(own) or np.isnan(given):
                off = max(off, 0.0 if np.isnan(own) and np.isnan(given) else np.inf)
                continue
            loss = max(loss, float((best - own) / max(1, abs(best))))
            off = max(off, float(abs(given - own) / max(1, abs(own))))
        return Findings(law=law, loss=loss, notes={"scores are off": off})


# ---- folds ------------------------------------------------------------------------------------


class FoldTruth:
    """The scores of held-out rows of every fold, ridge and k, each by the truth of the problem on the training rows.

    Attributes
    ----------
    exact, rounding : array of shape (readings, folds, ridges, ks)
        NaN for a fold without a score: no held-out row counts, or nothing varies. Infinite where components are tied,
        so that several answers are right.
    """

    def __init__(self, case: Case, truth_of: Any) -> None:
        self.case, self.truth_of = case, truth_of
        self.exact = self._scores(case)
        rng = np.random.default_rng(0)
        for name, matrix in case.matrices.items():
            off = perturbed(extended(matrix.entries), matrix.precision, rng)
            case = case.with_matrix(name, entries=np.asarray(off, float))
        with np.errstate(invalid="ignore"):
            self.rounding = np.nan_to_num(np.abs(self._scores(case)[0] - self.exact[0]))

    def _scores(self, case: Case) -> Any:
        study = case.study
        ridges, ks = study.get("ridges", (None,)), study.get("ks", (None,))
        labels = np.asarray(study["splitter"])
        found = [
            [[self._of(case, labels == label, ridge, k) for k in ks] for ridge in ridges]
            for label in np.unique(labels)
        ]
        most = max(len(each) for fold in found for row in fold for each in row)
        full = np.array([[[(each * most)[:most] for each in row] for row in fold] for fold in found])
        return np.moveaxis(full, -1, 0)

    def _of(self, case: Case, test: Any, ridge: Any, k: Any) -> list[float]:
        """Score one fold by each reading of its training rows."""
        last = case.family != "pls-regression"  # whose components are not found together
        more = {"ridge": ridge, "k": None if k is None else k + last}
        case = case.with_parameters(**{name: value for name, value in more.items() if value is not None})
        sides = np.flatnonzero(~test), np.flatnonzero(test)
        n, given = len(test), case.parameters
        w = extended(np.ones(n) if case.weights is None else case.weights)
        Z = None if case.confounds is None else extended(case.confounds)
        masks = extended(given.get("present") or [np.ones(n)] * len(case.matrices))
        weights = [(w * mask)[test] for mask in masks]
        if not all((w * mask)[side].any() for mask in masks for side in sides):
            return [np.nan]
        truth = self.truth_of(replace(case.of_rows(sides[0]), study={}))
        rows = []
        for matrix, mask in zip(case.matrices.values(), masks, strict=True):
            X = extended(matrix.entries).reshape(n, -1)
            rows.append(held_out(X, w * mask, Z, *sides, center=truth.center, scale=truth.scale))
        answers = [truth._best(reading) for reading in truth.readings]
        values = truth.values
        if values is not None:  # k + 1 components tell whether the last one is tied
            if np.any(values[1:] > values[:-1] * (1 - TIED)):
                return [np.inf]
            answers = [
                {name: X[:k] if name == "Vh" else X[..., :k] for name, X in each.items() if name != "total"}
                for each in answers
            ]
        if case.family in ("cca", "pls", "multiset-cca"):
            return [self._correlations(truth, rows, weights, answer) for answer in answers]
        if case.family == "svd":
            E = rows[0][1]
            return [
                ratio(
                    weights[0] @ (E @ each["Vh"].T) ** 2 @ np.ones(len(each["Vh"])), np.sum(weights[0] @ E**2)
                )
                if E.any()
                else np.nan
                for each in answers
            ]
        own, E = rows[1]
        about = np.sum(
            about_mean(extended(case.entries(list(case.matrices)[1])).reshape(n, -1)[test], weights[1])
        )
        fits = [self._fit(truth, case, rows[0], own, answer, sides) for answer in answers]
        return [
            float(1 - np.sum(weights[1] @ ((E - fit) * own.scale) ** 2) / about) if about > 0 else np.nan
            for fit in fits
        ]

    def _fit(self, truth: Any, case: Case, rows: Any, own: Any, answer: Any, sides: Any) -> Extended:
        """Predict the held-out targets, less their training means, in units of the training scale."""
        X, C = rows
        if "dual" in answer:
            K = kernel_matrix(case.parameters["kernel"], extended(case.entries("X")))
            new: Extended = (
                K[np.ix_(sides[1], sides[0])] @ answer["dual"][0] + answer["intercept"][0] - own.mean
            )
            return new
        B = answer["x"][0] if "x" in answer else answer.get("coefficients")
        B = answer["weights"] @ answer["y_loadings"].T if B is None else B
        fit: Extended = C @ (X.scale[:, None] * B) / own.scale
        return fit

    @staticmethod
    def _correlations(truth: Any, rows: Any, weights: Any, answer: Any) -> float:
        """Sum signed correlations about the training means; scores that do not vary, or are rounding, count 0."""
        names = [name for name in answer if name.endswith("_weights") or name.startswith("W")]
        units = []
        for (own, C), w, name in zip(rows, weights, names, strict=True):
            scaled = answer[name] * (
                1 if name in ("x_weights", "y_weights") and truth.case.family == "pls" else own.scale[:, None]
            )
            S, T = C @ scaled, np.sum((own.entries @ scaled) ** 2, axis=0)
            units.append((S, w, T))
        sizes = sum(T for _, _, T in units) * (
            truth.case.family == "multiset-cca"
        )  # whose views share a length
        total, pairs, known = extended(0), len(units) * (len(units) - 1) // 2, 0
        for a, (P, v, s) in enumerate(units):
            for Q, w, t in units[:a]:
                both = np.sqrt(v * w)
                if np.count_nonzero(both) < 2:
                    continue  # signs are no correlations
                known += 1
                least, live = np.minimum(s, t), np.minimum(s, t) > NO_SHARE[0] * sizes
                if np.any(live & (least < NO_SHARE[1] * sizes)):
                    return float("inf")
                size = np.sqrt((both @ P**2) * (both @ Q**2))
                for M in (P, Q):
                    live = live & ((about_mean(M, both) > 1e-20 * (both @ M**2)) | (not truth.center))
                total += np.sum(np.where(live & (size > 0), both @ (P * Q) / np.where(size > 0, size, 1), 0))
        return float(total * pairs / known) if known else float("nan")

    def judge(self, found: Any, warned: bool) -> tuple[str, str, str]:
        """Return the class of the scores, and what is wrong, with figures and without."""
        given = np.asarray(found.scores)
        if given.shape != self.exact.shape[1:]:
            return "flagged", "", ""
        with np.errstate(invalid="ignore"):
            far = np.nan_to_num(np.abs(self.exact - given), posinf=0.0)
        exact = self.exact[np.argmin(far.sum(axis=(1, 2, 3)))]
        decided = ~np.isinf(exact)
        size = np.maximum(1, np.abs(np.where(np.isfinite(exact), exact, 0)))
        off = np.abs(given - np.where(decided, exact, given))
        said = 0.0 if found.rounding is None else np.minimum(found.rounding, 1e9) * 10 * (1 + np.abs(given))
        wrong = np.where(np.isnan(exact), np.isfinite(given), off > WRONG * size + 10 * self.rounding + said)
        missing = np.isnan(given) & np.isfinite(exact)
        if not (wrong | missing).any():
            return ("flagged-right" if warned or found.uncertain.any() else "right"), "", ""
        if not wrong.any() or warned or found.uncertain.any():
            return "flagged", "", ""
        place = tuple(np.argwhere(wrong)[0])
        cause = "a score where there is none" if np.isnan(exact[place]) else "a wrong score"
        return (
            "silent",
            f"{cause}: fold, ridge and k {tuple(map(int, place))} got {given[place]:.6g} for {exact[place]:.6g}",
            cause,
        )
